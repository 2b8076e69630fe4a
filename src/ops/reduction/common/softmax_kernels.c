/* SPDX-License-Identifier: Apache-2.0 */
/* Kernels of softmax, its logarithm and their gradients. */
#include "ops/reduction/common/softmax.h"

bool rf_softmax_job(const rf_op_call *call, const rf_device_caps *caps, const void *data, rf_row_job *job)
{
    const rf_row_form *form = data;
    const uint64_t columns = rf_desc_columns(&call->in[0]);
    const uint32_t passes = call->n_in > 1 ? 2 : 3; /* over a row: (the maximum,) the sum, the results */
    if (!rf_row_form_fits(form, caps, columns)) return false;
    *job = (rf_row_job){ .shader = form->shaders[call->op->role],
                         /* A row is much work for one invocation: workgroups are small, so that there are several. */
                         .local = rf_local_size(caps, caps->is_cpu ? 16 : 64),
                         .rows = rf_desc_rows(&call->in[0]) };
    const rf_push_softmax push = { .columns = (uint32_t)columns };
    RF_ROW_JOB_PUSH(job, push, rows);
    for (uint32_t i = 0; i < call->n_in; i++) rf_row_job_tensor(job, RF_BIND_INPUT, i, rf_row_bytes(&call->in[i]));
    rf_row_job_tensor(job, RF_BIND_OUTPUT, 0, rf_row_bytes(&call->out[0]));
    if (form->fours) job->spec[job->n_spec++] = rf_row_job_types(job, call, caps);
    rf_row_form_share(form, caps, columns, passes, job);
    return true;
}

static const rf_kernel kernels[] = {
    { RF_ROW_FORM("row", rf_softmax_job, .shaders = RF_SOFTMAX_SHADERS()) },
    { RF_ROW_FORM("row_vec4", rf_softmax_job, .fours = true, .shaders = RF_SOFTMAX_SHADERS(_vec4)),
      .narrow = rf_always_narrow },
    /* In front of the one that takes single elements, and converts those of 16 bits. */
    { RF_ROW_FORM("group_vec4", rf_softmax_job, RF_ROW_GROUP, .fours = true,
                  .shaders = RF_SOFTMAX_SHADERS(_group_vec4)),
      .narrow = rf_always_narrow },
    { RF_ROW_FORM("group", rf_softmax_job, RF_ROW_GROUP, .shaders = RF_SOFTMAX_SHADERS(_group)) },
};
const rf_kernel_list rf_softmax_common = RF_KERNEL_LIST(kernels);
