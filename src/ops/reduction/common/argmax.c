/* SPDX-License-Identifier: Apache-2.0 */
/* Where the first maximum of the last dimension is, and whether it is where a label says: argmax and accuracy. */
#include "ops/kit.h"
#include "ops/ops.h"
#include "ops/scalar.h"
#include "rf_shaders.h"

static uint64_t first_maximum(const float *x, uint64_t columns)
{
    uint64_t at = 0;
    for (uint64_t c = 1; c < columns; c++)
        if (rf_exceeds(x[c], x[at])) at = c;
    return at;
}

/* Output: the input without its last dimension. */
static void drop_columns(rf_op_call *call, uint32_t input, rf_dtype dtype)
{
    call->out[0] = (rf_tensor_desc){ .dtype = dtype, .shape = call->in[input].shape };
    call->out[0].shape.dim[--call->out[0].shape.rank] = 0;
}

static rf_cost compare_cost(const rf_op_call *call)
{
    return rf_cost_of(call, (double)rf_desc_count(&call->in[call->n_in - 1]));
}

/* ---- argmax ---- */

static rf_result argmax_infer(rf_op_call *call)
{
    RF_TRY(rf_expect_rows(call, 0));
    drop_columns(call, 0, RF_I32);
    return RF_OK;
}

rf_result rf_emit_argmax(rf_graph *g, rf_value x, rf_value *out)
{
    return rf_graph_add(g, &rf_op_argmax, NULL, &x, 1, out);
}

static rf_result argmax_reference(const rf_op_call *call, void *const *in, void *const *out)
{
    const uint64_t rows = rf_desc_rows(&call->in[0]), columns = rf_desc_columns(&call->in[0]);
    const float *x = in[0];
    int32_t *y = out[0];
    for (uint64_t r = 0; r < rows; r++) y[r] = (int32_t)first_maximum(x + r * columns, columns);
    return RF_OK;
}

/* The data is whether a workgroup walks a row, not an invocation. */
static bool argmax_job(const rf_op_call *call, const rf_device_caps *caps, const void *group, rf_row_job *job)
{
    const uint64_t columns = rf_desc_columns(&call->in[0]);
    *job = (rf_row_job){ .shader = &rf_shader_argmax,
                         .local = rf_local_size(caps, 32),
                         .loops = rf_row_loops(columns, 1, 1),
                         .rows = rf_desc_rows(&call->in[0]),
                         .threads_per_row = 1 };
    rf_row_job_tensor(job, RF_BIND_INPUT, 0, columns * sizeof(float));
    rf_row_job_tensor(job, RF_BIND_OUTPUT, 0, sizeof(int32_t));
    const rf_push_argmax push = { .columns = (uint32_t)columns };
    RF_ROW_JOB_PUSH(job, push, rows);
    if (*(const bool *)group) rf_row_job_group(job, caps, &rf_shader_argmax_group, columns, 1);
    return true;
}

static const rf_kernel argmax_kernels[] = {
    { RF_ROW_KERNEL("row", argmax_job, &(const bool){ false }) },
    { RF_ROW_KERNEL("group", argmax_job, &(const bool){ true }) },
};

const rf_op rf_op_argmax = {
    .name = "argmax",
    .min_in = 1,
    .max_in = 1,
    .n_out = 1,
    .flags = RF_OP_NO_GRADIENT | RF_OP_LAST_AXIS,
    RF_STORES_16(0),
    .infer = argmax_infer,
    .reference = argmax_reference,
    .cost = compare_cost,
    RF_KERNELS(argmax_kernels),
};

/* ---- accuracy ---- */

static rf_result accuracy_infer(rf_op_call *call)
{
    RF_TRY(rf_expect_rows(call, 1));
    drop_columns(call, 1, RF_F32);
    if (call->in[0].dtype == RF_F32)
        return rf_expect_shape(call, 0, &call->in[1].shape, "one-hot labels, the shape of the predictions");
    RF_TRY(rf_expect_dtype(call, 0, RF_I32));
    return rf_expect_shape(call, 0, &call->out[0].shape, "one class number for each row of predictions");
}

rf_result rf_emit_accuracy(rf_graph *g, rf_value labels, rf_value predictions, rf_value *out)
{
    const rf_value in[2] = { labels, predictions };
    return rf_graph_add(g, &rf_op_accuracy, NULL, in, 2, out);
}

static rf_result accuracy_reference(const rf_op_call *call, void *const *in, void *const *out)
{
    const uint64_t rows = rf_desc_rows(&call->in[1]), columns = rf_desc_columns(&call->in[1]);
    const float *x = in[1], *one_hot = in[0];
    const int32_t *label = in[0];
    float *y = out[0];
    for (uint64_t r = 0; r < rows; r++) {
        const int64_t wanted =
            call->in[0].dtype == RF_F32 ? (int64_t)first_maximum(one_hot + r * columns, columns) : label[r];
        y[r] = (int64_t)first_maximum(x + r * columns, columns) == wanted;
    }
    return RF_OK;
}

/* The data is whether a workgroup walks a row, not an invocation. */
static bool accuracy_job(const rf_op_call *call, const rf_device_caps *caps, const void *group, rf_row_job *job)
{
    const uint64_t columns = rf_desc_columns(&call->in[1]);
    const bool one_hot = call->in[0].dtype == RF_F32;
    const uint32_t passes = one_hot ? 2 : 1;
    *job = (rf_row_job){ .shader = one_hot ? &rf_shader_accuracy_one_hot : &rf_shader_accuracy,
                         .local = rf_local_size(caps, 32),
                         .loops = rf_row_loops(columns, 1, passes),
                         .rows = rf_desc_rows(&call->in[1]),
                         .threads_per_row = 1 };
    rf_row_job_tensor(job, RF_BIND_INPUT, 1, columns * sizeof(float));
    rf_row_job_tensor(job, RF_BIND_INPUT, 0, (one_hot ? columns : 1) * sizeof(float));
    rf_row_job_tensor(job, RF_BIND_OUTPUT, 0, sizeof(float));
    const rf_push_argmax push = { .columns = (uint32_t)columns };
    RF_ROW_JOB_PUSH(job, push, rows);
    if (*(const bool *)group)
        rf_row_job_group(job, caps, one_hot ? &rf_shader_accuracy_one_hot_group : &rf_shader_accuracy_group, columns,
                         passes);
    return true;
}

static const rf_kernel accuracy_kernels[] = {
    { RF_ROW_KERNEL("row", accuracy_job, &(const bool){ false }) },
    { RF_ROW_KERNEL("group", accuracy_job, &(const bool){ true }) },
};

const rf_op rf_op_accuracy = {
    .name = "accuracy",
    .min_in = 2,
    .max_in = 2,
    .n_out = 1,
    .flags = RF_OP_NO_GRADIENT | RF_OP_NO_ONNX,
    RF_STORES_16(0),
    .infer = accuracy_infer,
    .reference = accuracy_reference,
    .cost = compare_cost,
    RF_KERNELS(accuracy_kernels),
};
