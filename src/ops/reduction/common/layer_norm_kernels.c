/* SPDX-License-Identifier: Apache-2.0 */
/* Kernels of layer_norm and its gradient. */
#include "ops/ops.h"
#include "ops/reduction/common/layer_norm.h"

/* Tensors in the order of the shaders' bindings. */
static void add_tensors(const rf_op_call *call, bool texels, rf_row_job *job)
{
    const rf_layer_norm_attr *attr = call->attr;
    const bool grad = call->op->role == RF_LAYER_NORM_GRAD;
    const uint64_t row_bytes = rf_row_bytes(&call->in[0]);
    const uint32_t gamma = grad ? 4 : 1;
    rf_row_job_tensor(job, RF_BIND_INPUT, 0, row_bytes);
    if (grad) {
        rf_row_job_tensor(job, RF_BIND_INPUT, 1, rf_row_bytes(&call->in[1]));
        rf_row_job_tensor(job, RF_BIND_INPUT, 2, sizeof(float));
        rf_row_job_tensor(job, RF_BIND_INPUT, 3, sizeof(float));
    }
    rf_row_job_tensor(job, RF_BIND_INPUT, attr->scale ? gamma : 0, attr->scale ? 0 : row_bytes);
    if (!grad)
        rf_row_job_tensor(job, RF_BIND_INPUT, attr->center ? gamma + attr->scale : 0, attr->center ? 0 : row_bytes);
    rf_row_job_tensor(job, RF_BIND_OUTPUT, 0, rf_row_bytes(&call->out[0]));
    for (uint32_t i = 1; i < call->n_out; i++) rf_row_job_tensor(job, RF_BIND_OUTPUT, i, sizeof(float));
    static const uint32_t rows[2] = { 1u << 0 | 1u << 1 | 1u << 2, 1u << 0 | 1u << 1 | 1u << 4 }; /* bindings */
    for (uint32_t i = 0; texels && i < job->n_tensors; i++)
        if (rows[grad] >> i & 1) job->tensors[i].view = RF_VIEW_TEXEL_RGBA32F;
}

bool rf_layer_norm_job(const rf_op_call *call, const rf_device_caps *caps, const void *data, rf_row_job *job)
{
    const rf_row_form *form = data;
    const rf_layer_norm_attr *attr = call->attr;
    const uint64_t columns = rf_desc_columns(&call->in[0]);
    if (!rf_row_form_fits(form, caps, columns)) return false;
    /* Tensors that are the same for all rows are bound whole. */
    if (form->texels && (!rf_flat_texels(caps) || columns / 4 > caps->max_texel_elements)) return false;
    *job = (rf_row_job){ .shader = form->shaders[call->op->role],
                         .local = rf_local_size(caps, caps->is_cpu ? 16 : 64),
                         .rows = rf_desc_rows(&call->in[0]),
                         .n_spec = 3,
                         .spec = { attr->rms, attr->scale, attr->center } };
    const rf_push_layer_norm push = { .columns = (uint32_t)columns, .epsilon = attr->epsilon };
    RF_ROW_JOB_PUSH(job, push, rows);
    add_tensors(call, form->texels, job);
    if (form->fours && !form->texels) job->spec[job->n_spec++] = rf_row_job_types(job, call, caps);
    rf_row_form_share(form, caps, columns, 3, job);
    return true;
}

/* Tensors with one number a row stay f32. */
bool rf_layer_norm_narrow(const rf_op_call *call, const rf_device_caps *caps, const void *data)
{
    return call->op->role != RF_LAYER_NORM_GRAD || (call->in[2].dtype == RF_F32 && call->in[3].dtype == RF_F32);
}

static const rf_kernel kernels[] = {
    { RF_ROW_FORM("row", rf_layer_norm_job, .shaders = RF_LAYER_NORM_SHADERS()) },
    { RF_ROW_FORM("row_vec4", rf_layer_norm_job, .fours = true, .shaders = RF_LAYER_NORM_SHADERS(_vec4)),
      .narrow = rf_layer_norm_narrow },
    /* In front of the one that takes single elements, and converts those of 16 bits. */
    { RF_ROW_FORM("group_vec4", rf_layer_norm_job, RF_ROW_GROUP, .fours = true,
                  .shaders = RF_LAYER_NORM_SHADERS(_group_vec4)),
      .narrow = rf_layer_norm_narrow },
    { RF_ROW_FORM("group", rf_layer_norm_job, RF_ROW_GROUP, .shaders = RF_LAYER_NORM_SHADERS(_group)) },
};
const rf_kernel_list rf_layer_norm_common = RF_KERNEL_LIST(kernels);
