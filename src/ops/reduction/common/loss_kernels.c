/* SPDX-License-Identifier: Apache-2.0 */
/* Kernels of cross-entropies and their gradients, and one that adds the losses up as well. */
#include "ops/reduction/common/loss.h"

const rf_loss_attr *rf_loss_attr_of(const rf_op_call *call)
{
    static const rf_loss_attr none;
    return call->attr != NULL ? call->attr : &none;
}

static bool is_dense(const rf_op_call *call)
{
    return call->op->role == RF_LOSS_DENSE;
}

/* Tensors in the order of the shaders' bindings. */
static void add_tensors(const rf_op_call *call, rf_row_job *job)
{
    const rf_loss_attr *attr = rf_loss_attr_of(call);
    const bool dense = is_dense(call), grad = call->n_in == 3, both = call->n_out > 1;
    rf_row_job_tensor(job, RF_BIND_INPUT, 0, dense ? rf_row_bytes(&call->in[0]) : sizeof(int32_t));
    rf_row_job_tensor(job, RF_BIND_INPUT, 1, rf_row_bytes(&call->in[1]));
    if (grad) rf_row_job_tensor(job, RF_BIND_INPUT, 2, attr->dloss == RF_DLOSS_ROWS ? sizeof(float) : 0);
    rf_row_job_tensor(job, RF_BIND_OUTPUT, 0, grad ? rf_row_bytes(&call->out[0]) : sizeof(float));
    if (both) rf_row_job_tensor(job, RF_BIND_OUTPUT, 1, sizeof(float));
    if (!both || dense) return;
    rf_row_job_tensor(job, RF_BIND_OUTPUT, attr->with_hits ? 2 : 1, sizeof(float));
    job->tensors[job->n_tensors - 1].write = attr->with_hits;
}

bool rf_loss_job(const rf_op_call *call, const rf_device_caps *caps, const void *data, rf_row_job *job)
{
    const rf_row_form *form = data;
    const rf_loss_attr *attr = rf_loss_attr_of(call);
    const uint64_t columns = rf_desc_columns(&call->in[1]);
    const bool dense = is_dense(call), grad = call->n_in == 3, both = call->n_out > 1;
    /* For the maximum, for the sum; dense labels are summed as well; gradients are written in a walk of their own. */
    const uint32_t passes = 2u + dense + grad + both;
    if (!rf_row_form_fits(form, caps, columns)) return false;
    *job = (rf_row_job){ .shader = form->shaders[3 * dense + grad + both],
                         .local = rf_local_size(caps, caps->is_cpu ? 16 : 64),
                         .rows = rf_desc_rows(&call->in[1]),
                         .n_spec = 3, /* all of crossentropy.comp's, wanted or not */
                         .spec = { attr->from_logits, attr->dloss, attr->with_hits } };
    const rf_push_crossentropy push = { .columns = (uint32_t)columns, .numerator = attr->numerator };
    RF_ROW_JOB_PUSH(job, push, rows);
    add_tensors(call, job);
    job->spec[job->n_spec++] = attr->total == RF_TOTAL_QUOTIENT;
    job->spec[job->n_spec++] = rf_row_job_types(job, call, caps);
    rf_row_form_share(form, caps, columns, passes, job);
    return true;
}

/* Two gradients are a word, and what flows in is read as f32. */
bool rf_loss_narrow(const rf_op_call *call, const rf_device_caps *caps, const void *data)
{
    const bool grad = call->n_in == 3;
    return !grad ||
           (call->in[2].dtype == RF_F32 && (call->out[0].dtype == RF_F32 || rf_desc_columns(&call->out[0]) % 2 == 0));
}

/* By kind of labels: losses, gradients, both. */
#define SHADERS(end)                                                                                                   \
    (const rf_shader *const[])                                                                                         \
    {                                                                                                                  \
        &rf_shader_sparse_crossentropy##end, &rf_shader_sparse_crossentropy_grad##end,                                 \
            &rf_shader_sparse_crossentropy_both##end, &rf_shader_crossentropy##end, &rf_shader_crossentropy_grad##end, \
            &rf_shader_crossentropy_both##end                                                                          \
    }
static const rf_row_form alone = { .shaders = SHADERS() };

/* ---- the sum of the losses ---- */

#define MOST_ROWS 1024 /* that one workgroup takes, each a number of short ones */
#define MOST_COLUMNS 64

static uint64_t total_loops(const rf_row_job *job)
{
    return rf_div_up(job->rows, job->local) * (job->loops + 1) + 16;
}

static double total_score(const rf_op_call *call, const rf_device_caps *caps, const void *data)
{
    const bool wanted = !is_dense(call) && call->n_out > 1 && rf_loss_attr_of(call)->total;
    const uint64_t rows = rf_desc_rows(&call->in[1]), columns = rf_desc_columns(&call->in[1]);
    rf_row_job job;
    if (!wanted || rows > MOST_ROWS || columns > MOST_COLUMNS || !rf_fits_storage(call, caps)) return RF_SCORE_NONE;
    if (!rf_loss_job(call, caps, &alone, &job)) return RF_SCORE_NONE;
    return total_loops(&job) <= rf_loop_limit(caps) ? RF_SCORE_EXACT : RF_SCORE_NONE;
}

/* All rows in one workgroup, which adds up their losses. */
static rf_result total_plan(const rf_op_call *call, const rf_device_caps *caps, const void *data, rf_kernel_plan *plan)
{
    const rf_loss_attr *attr = rf_loss_attr_of(call);
    rf_row_job job;
    if (!rf_loss_job(call, caps, &alone, &job))
        return RF_FAIL(RF_ERROR_UNSUPPORTED, "%s: the kernel does not take such tensors", call->op->name);
    rf_dispatch *d = rf_kernel_plan_add(plan, &rf_shader_sparse_crossentropy_total, total_loops(&job));
    if (!d) return RF_ERROR_OUT_OF_HOST_MEMORY;
    const rf_push_crossentropy push = { .rows = (uint32_t)job.rows,
                                        .columns = (uint32_t)rf_desc_columns(&call->in[1]),
                                        .numerator = attr->numerator };
    rf_dispatch_spec(d, job.local);
    for (uint32_t i = 0; i < job.n_spec; i++) rf_dispatch_spec(d, job.spec[i]);
    rf_dispatch_push(d, &push, sizeof(push));
    for (uint32_t i = 0; i < 3; i++) rf_bind_whole(d, RF_BIND_INPUT, i);
    const uint32_t outputs[] = { 0, 1, attr->with_hits ? 2 : 1, call->n_out - 1 };
    for (uint32_t i = 0; i < RF_LENGTH(outputs); i++) rf_bind_whole(d, RF_BIND_OUTPUT, outputs[i]);
    d->bind[5].write = attr->with_hits; /* stands in for what is not there */
    rf_dispatch_groups(d, caps, 1);
    return RF_OK;
}

static const rf_kernel kernels[] = {
    { RF_ROW_KERNEL("row", rf_loss_job, &alone), .narrow = rf_loss_narrow },
    { RF_ROW_FORM("group", rf_loss_job, RF_ROW_GROUP, .shaders = SHADERS(_group)), .narrow = rf_loss_narrow },
    { "total", total_score, total_plan, .finishes = true, .narrow = rf_loss_narrow },
};
const rf_kernel_list rf_loss_common = RF_KERNEL_LIST(kernels);
