/* SPDX-License-Identifier: Apache-2.0 */
/* Dropout and random numbers: which ones an element draws follows from the example that it belongs to. */
#include <math.h>

#include <ringfire/ops.h>

#include "graph/examples.h"
#include "trace/trace.h"

/* Fills in where the batch stands in x. A share of a batch needs to know, or it would repeat the numbers of another. */
static rf_result find_examples(rf_trace *t, rf_value x, const char *argument, rf_dropout_attr *attr)
{
    const rf_tensor_desc *desc = rf_graph_desc(rf_trace_graph(t), x);
    char shape[96], split[48];
    const rf_examples *of;
    RF_TRY(rf_trace_examples(t, x, &of));
    rf_shape_format(desc->shape, shape, sizeof(shape));
    if (of->kind == RF_EXAMPLES_UNKNOWN && rf_trace_is_share(t, split, sizeof(split)))
        return RF_FAIL(RF_ERROR_UNSUPPORTED,
                       "%s, %s %s, has no one example of the batch for each element since '%s', so that %s would not "
                       "draw the numbers of one device; draw them before that, for a tensor in which the batch is one "
                       "dimension, or train on one replica",
                       argument, rf_dtype_name(desc->dtype), shape, of->lost_by, split);
    if (of->kind != RF_EXAMPLES_EACH) return RF_OK;
    if (of->outer > UINT32_MAX || of->inner > UINT32_MAX)
        return RF_FAIL(RF_ERROR_UNSUPPORTED, "%s of shape %s has more than 2^32 elements in an example", argument,
                       shape);
    attr->outer = (uint32_t)of->outer;
    attr->inner = (uint32_t)of->inner;
    return RF_OK;
}

typedef rf_result (*emit_fn)(rf_graph *g, rf_value x, rf_value random, const rf_dropout_attr *attr, rf_value *out);

static rf_tensor draw_numbers(rf_trace *t, emit_fn emit, rf_value x, const char *argument, rf_dropout_attr attr)
{
    rf_value out = 0;
    const rf_value random = rf_trace_host(t, RF_HOST_RANDOM);
    if (random == 0) return RF_NO_TENSOR;
    rf_result r = find_examples(t, x, argument, &attr);
    if (r >= 0) r = emit(rf_trace_graph(t), x, random, &attr, &out);
    return rf_trace_emit(t, r, out);
}

rf_tensor rf_dropout_of(rf_trace *t, rf_tensor x, float rate, uint64_t seed, const char *argument)
{
    rf_value v;
    if (!rf_operand(t, x, argument, &v)) return RF_NO_TENSOR;
    /* The stream is drawn in inference too, so that later random operations keep theirs. */
    const uint32_t stream = seed == 0 ? rf_trace_next_stream(t) : 0;
    if (!rf_trace_training(t) || rate == 0.0f) return rf_alias(t, v);
    return draw_numbers(t, rf_emit_dropout, v, argument,
                        (rf_dropout_attr){ .rate = rate, .stream = stream, .seed = seed });
}

rf_tensor rf_dropout(rf_trace *t, rf_tensor x, float rate, uint64_t seed)
{
    RF_TRACING(t);
    if (t && !(rate >= 0.0f && rate < 1.0f)) {
        (void)rf_trace_fail(t, RF_ERROR_INVALID_ARGUMENT, "rf_dropout: rate %g is not in [0, 1)", (double)rate);
        return RF_NO_TENSOR;
    }
    return rf_dropout_of(t, x, rate, seed, "rf_dropout: x");
}

/* In (0, 1); `stream` counts where the seed is 0 and the trace numbers its random operations. */
static rf_tensor draw_uniform(rf_trace *t, rf_value like, const char *argument, uint32_t stream, uint64_t seed)
{
    if (seed == 0) stream = rf_trace_next_stream(t);
    return draw_numbers(t, rf_emit_random_uniform, like, argument, (rf_dropout_attr){ .stream = stream, .seed = seed });
}

rf_tensor rf_random_uniform(rf_trace *t, rf_tensor like, float low, float high, uint64_t seed)
{
    RF_TRACING(t);
    rf_value v;
    if (!rf_operand(t, like, "rf_random_uniform: like", &v)) return RF_NO_TENSOR;
    if (!(low < high) || !isfinite(high - low)) {
        (void)rf_trace_fail(t, RF_ERROR_INVALID_ARGUMENT,
                            "rf_random_uniform: from %g to %g; both must be finite, and the second one greater",
                            (double)low, (double)high);
        return RF_NO_TENSOR;
    }
    const rf_tensor u = draw_uniform(t, v, "rf_random_uniform: like", 0, seed);
    return rf_add(t, rf_multiply(t, u, rf_constant(t, high - low)), rf_constant(t, low));
}

/* Box and Muller 1958: the radius from one number, the angle from another one. */
rf_tensor rf_random_normal(rf_trace *t, rf_tensor like, uint64_t seed)
{
    RF_TRACING(t);
    static const char argument[] = "rf_random_normal: like";
    rf_value v;
    if (!rf_operand(t, like, argument, &v)) return RF_NO_TENSOR;
    const rf_tensor u = draw_uniform(t, v, argument, 0, seed), angle = draw_uniform(t, v, argument, 1, seed);
    const rf_tensor radius = rf_sqrt(t, rf_multiply(t, rf_log(t, u), rf_constant(t, -2)));
    return rf_multiply(t, radius, rf_cos(t, rf_multiply(t, angle, rf_constant(t, 6.28318531f))));
}
