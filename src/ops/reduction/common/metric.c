/* SPDX-License-Identifier: Apache-2.0 */
/* Running totals and weights of metrics, each kept on the device as an unevaluated sum of two floats; of one column
 * that holds all values, or of several. */
#include "ops/kit.h"
#include "ops/ops.h"
#include "rf_shaders.h"

#include <math.h>

/* States of several columns follow each other. */
static uint32_t metric_columns(const rf_op_call *call)
{
    return (uint32_t)call->in[0].shape.dim[0] / 4;
}

static rf_result metric_infer(rf_op_call *call)
{
    const rf_shape *state = &call->in[0].shape, *x = &call->in[1].shape;
    char text[96];
    RF_TRY(rf_expect_dtype(call, 0, RF_F32));
    if (state->rank != 1 || state->dim[0] < 4 || state->dim[0] % 4 != 0 || state->dim[0] > 4 * 65535)
        return RF_FAIL(RF_ERROR_INVALID_ARGUMENT,
                       "metric_accumulate: state %s is not total, weight and their compensations of each column",
                       rf_shape_format(*state, text, sizeof(text)));
    RF_TRY(rf_expect_dtype(call, 1, RF_F32));
    RF_TRY(rf_expect_not_empty(call, 1));
    if (state->dim[0] > 4 && (x->rank != 2 || x->dim[1] != state->dim[0] / 4))
        return RF_FAIL(RF_ERROR_INVALID_ARGUMENT, "metric_accumulate: values %s do not have the state's %d columns",
                       rf_shape_format(*x, text, sizeof(text)), (int)(state->dim[0] / 4));
    if (rf_desc_count(&call->in[1]) > UINT32_MAX / sizeof(float))
        return RF_FAIL(RF_ERROR_INVALID_ARGUMENT, "metric_accumulate: %s is too large",
                       rf_shape_format(call->in[1].shape, text, sizeof(text)));
    if (call->n_in < 3) return RF_OK;
    RF_TRY(rf_expect_dtype(call, 2, RF_F32));
    return rf_expect_shape(call, 2, &call->in[1].shape, "a weight for each value");
}

static void store_sum(float *high, float *low, double sum)
{
    *high = (float)sum;
    *low = isfinite(*high) ? (float)(sum - (double)*high) : 0;
}

static rf_result metric_reference(const rf_op_call *call, void *const *in, void *const *out)
{
    const uint32_t columns = metric_columns(call);
    const uint64_t count = rf_desc_count(&call->in[1]);
    const float *x = in[1], *w = call->n_in > 2 ? in[2] : NULL;
    (void)out;
    for (uint32_t c = 0; c < columns; c++) {
        float *state = (float *)in[0] + (size_t)c * 4;
        double total = (double)state[0] + (double)state[1], weight = (double)state[2] + (double)state[3];
        for (uint64_t i = c; i < count; i += columns) {
            total += w != NULL ? (double)x[i] * (double)w[i] : (double)x[i];
            weight += w != NULL ? (double)w[i] : 1;
        }
        store_sum(&state[0], &state[1], total);
        store_sum(&state[2], &state[3], weight);
    }
    return RF_OK;
}

static rf_cost metric_cost(const rf_op_call *call)
{
    return rf_cost_of(call, 6.0 * (double)rf_desc_count(&call->in[1]));
}

/* In the last step each invocation adds one total: on a CPU, few invocations are best for batches of the usual size. */
static uint32_t metric_lanes(const rf_op_call *call, const rf_device_caps *caps)
{
    return rf_local_size(caps, caps->is_cpu && rf_desc_count(&call->in[1]) / metric_columns(call) < 65536 ? 8 : 64);
}

/* Values of each column that one dispatch may take: what a descriptor spans and what an invocation may loop over. */
static uint64_t metric_step(const rf_op_call *call, const rf_device_caps *caps)
{
    const uint32_t columns = metric_columns(call);
    const uint64_t count = rf_desc_count(&call->in[1]) / columns, lanes = metric_lanes(call, caps);
    const uint64_t aligned = caps->buffer_alignment / sizeof(float), beside = lanes + 2;
    if (rf_loop_limit(caps) <= beside) return 0;
    const uint64_t longest = rf_loop_limit(caps) - beside, range = caps->max_storage_range / sizeof(float) / columns;
    uint64_t step = count;
    if (step > range) step = range;
    if (step / lanes >= longest) step = longest * lanes;
    return step == count ? count : step / aligned * aligned;
}

/* The data is whether invocations their totals side by side, instead of the first one all of them. On a GPU that would
 * take longer than all the rest. */
static double metric_score(const rf_op_call *call, const rf_device_caps *caps, const void *tree)
{
    if (metric_step(call, caps) == 0) return RF_SCORE_NONE;
    return !*(const bool *)tree ? RF_SCORE_ANY : caps->is_cpu ? RF_SCORE_RESERVE : RF_SCORE_SHAPE;
}

static rf_result metric_plan(const rf_op_call *call, const rf_device_caps *caps, const void *tree, rf_kernel_plan *plan)
{
    const uint32_t columns = metric_columns(call);
    const uint64_t count = rf_desc_count(&call->in[1]) / columns, step = metric_step(call, caps);
    const uint64_t row = (uint64_t)columns * sizeof(float);
    const uint32_t lanes = metric_lanes(call, caps);
    for (uint64_t first = 0; first < count; first += step) {
        const uint32_t chunk = (uint32_t)rf_min(count - first, step);
        const rf_push_metric push = { .count = chunk,
                                      .columns = columns,
                                      .halves = *(const bool *)tree ? lanes / 2 : 0 };
        /* A run of neighbours, then one turn for each invocation. */
        const uint64_t loops = rf_div_up(chunk, lanes) + lanes + 2;
        rf_dispatch *d =
            rf_kernel_plan_add(plan, call->n_in > 2 ? &rf_shader_metric_weighted : &rf_shader_metric, loops);
        if (d == NULL) return RF_ERROR_OUT_OF_HOST_MEMORY;
        rf_dispatch_spec(d, lanes);
        rf_dispatch_push(d, &push, sizeof(push));
        rf_bind_whole(d, RF_BIND_INPUT, 0)->write = true;
        for (uint32_t i = 1; i < call->n_in; i++) rf_bind_bytes(d, RF_BIND_INPUT, i, first * row, chunk * row);
        rf_dispatch_groups(d, caps, columns);
    }
    return RF_OK;
}

static const rf_kernel metric_kernels[] = {
    { "group", metric_score, metric_plan, &(const bool){ false } },
    { "tree", metric_score, metric_plan, &(const bool){ true } },
};

const rf_op rf_op_metric_accumulate = {
    .name = "metric_accumulate",
    .min_in = 2,
    .max_in = 3,
    .n_out = 0,
    .mutates = 1u << 0,
    .flags = RF_OP_NO_GRADIENT | RF_OP_NO_ONNX,
    RF_STORES_16(0),
    .infer = metric_infer,
    .reference = metric_reference,
    .cost = metric_cost,
    RF_KERNELS(metric_kernels),
};
