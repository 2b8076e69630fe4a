/* SPDX-License-Identifier: Apache-2.0 */
/* Attention, as one op or composed of products, softmax and masks. */
#include <ringfire/ops.h>

#include <math.h>

#include "base/memory.h"
#include "base/params.h"
#include "ops/ops.h"
#include "trace/trace.h"

/* Scores of what is not attended to: far below all others, and yet finite, so that a row, or a part of one that a
 * kernel looks at, in which nothing is attended to makes no NaN. */
#define NOT_ATTENDED (-1e38f)

static rf_result check_shapes(const rf_tensor_desc *query, const rf_tensor_desc *key, const rf_tensor_desc *value)
{
    const int64_t *q = query->shape.dim, *k = key->shape.dim, *v = value->shape.dim;
    char shapes[3][96];
    const bool fits = query->shape.rank == 4 && key->shape.rank == 4 && value->shape.rank == 4 && q[0] == k[0] &&
                      q[1] == k[1] && q[3] == k[3] && k[0] == v[0] && k[1] == v[1] && k[2] == v[2];
    return fits ? RF_OK
                : RF_FAIL(RF_ERROR_INVALID_ARGUMENT,
                          "rf_attention: query is %s, key %s and value %s; they must be [n, heads, t, k], "
                          "[n, heads, s, k] and [n, heads, s, v]",
                          rf_shape_format(query->shape, shapes[0], sizeof(shapes[0])),
                          rf_shape_format(key->shape, shapes[1], sizeof(shapes[1])),
                          rf_shape_format(value->shape, shapes[2], sizeof(shapes[2])));
}

static rf_result check_mask(const rf_tensor_desc *mask, const rf_shape *scores)
{
    char shape[96], wanted[96];
    bool fits = mask->dtype == RF_F32 && mask->shape.rank == 4;
    for (int32_t d = 0; fits && d < 4; d++) fits = mask->shape.dim[d] == 1 || mask->shape.dim[d] == scores->dim[d];
    return fits ? RF_OK
                : RF_FAIL(RF_ERROR_INVALID_ARGUMENT,
                          "rf_attention: the mask is %s %s, must be f32 %s, or 1 in some of its dimensions",
                          rf_dtype_name(mask->dtype), rf_shape_format(mask->shape, shape, sizeof(shape)),
                          rf_shape_format(*scores, wanted, sizeof(wanted)));
}

static rf_result check_segments(const rf_tensor_desc *segments, const rf_shape *scores)
{
    char shape[96];
    const rf_shape wanted = RF_SHAPE(scores->dim[0], scores->dim[2]);
    const bool typed = segments->dtype == RF_I32 || segments->dtype == RF_F32;
    if (typed && rf_shape_equal(segments->shape, wanted) && scores->dim[2] == scores->dim[3]) return RF_OK;
    return RF_FAIL(RF_ERROR_INVALID_ARGUMENT,
                   "rf_attention: segments are %s %s; they must be i32 or f32 [n, t], for %lld examples, %lld steps of "
                   "queries and as many of keys, not %lld",
                   rf_dtype_name(segments->dtype), rf_shape_format(segments->shape, shape, sizeof(shape)),
                   (long long)scores->dim[0], (long long)scores->dim[2], (long long)scores->dim[3]);
}

/* [t, s]: `attended` up to key i + s - t of query i, `other` beyond. */
static rf_tensor make_order(rf_trace *t, int64_t queries, int64_t keys, float attended, float other)
{
    float *values = RF_NEW_ARRAY(float, queries *keys);
    if (!values) {
        return rf_trace_emit(t, RF_ERROR_OUT_OF_HOST_MEMORY, 0);
    }
    for (int64_t i = 0; i < queries; i++)
        for (int64_t k = 0; k < keys; k++) values[i * keys + k] = k <= i + keys - queries ? attended : other;
    const rf_tensor order = rf_constant_array(t, &(rf_array){ RF_F32, RF_SHAPE(queries, keys), values });
    rf_free(values);
    return order;
}

/* The positions of queries [1, 1, t, 1] or keys [1, 1, 1, s]. */
static rf_tensor places_of(rf_trace *t, rf_tensor x, bool queries)
{
    const int64_t count = rf_tensor_shape(t, x).dim[2];
    if (!rf_dim_follows(t, x, 2))
        return rf_positions(t, count, queries ? RF_SHAPE(1, 1, count, 1) : RF_SHAPE(1, 1, 1, count));
    const rf_size one = rf_size_fixed(1), all = rf_size_of(x, 2, 1);
    const rf_size sizes[4] = { one, one, queries ? all : one, queries ? one : all };
    return rf_regroup(t, rf_positions_along(t, x, 2), sizes, 4);
}

/* [1, 1, t, s]: 1 where query i, which stands at `first` + i, attends to a key, else 0. */
static rf_tensor order_from(rf_trace *t, rf_tensor first, rf_tensor query, rf_tensor key)
{
    const rf_tensor own = rf_add(t, places_of(t, query, true), first);
    return rf_compare(t, RF_LESS_EQUAL, places_of(t, key, false), own);
}

/* The same up to key i + s - t, where t or s follow the batch. */
static rf_tensor order_of_batch(rf_trace *t, rf_tensor query, rf_tensor key)
{
    return order_from(t, rf_subtract(t, rf_count_along(t, key, 2), rf_count_along(t, query, 2)), query, key);
}

static rf_tensor mask_scores(rf_trace *t, rf_tensor scores, rf_tensor attended)
{
    return rf_where(t, attended, scores, rf_constant(t, NOT_ATTENDED));
}

/* Weights of masked scores. Where nothing is attended to they would be those of unmasked scores: so they are masked,
 * too.
 */
static rf_tensor weigh_masked(rf_trace *t, rf_tensor scores, rf_tensor attended)
{
    const rf_tensor masked = mask_scores(t, scores, attended);
    return rf_where(t, attended, rf_softmax(t, masked), rf_constant(t, 0));
}

/* The keys that queries attend to. */
typedef struct attention_reach {
    rf_tensor mask;   /* of ones and zeros where it is combined with others; zeroed: none */
    bool causal;      /* besides: up to key i + s - t */
    bool some_always; /* no query is without a key, whatever the numbers in the mask are */
    rf_tensor order;  /* zeroed, or the causal order, which is no constant where its size follows the batch */
} attention_reach;

/* 1 where the mask is not 0, a NaN included, else 0: a NaN would come through products with other masks. */
static rf_tensor mask_bits(rf_trace *t, rf_tensor mask)
{
    return rf_compare(t, RF_NOT_EQUAL, mask, rf_constant(t, 0));
}

static rf_tensor attention_weights(rf_trace *t, rf_tensor scores, attention_reach reach, int64_t queries, int64_t keys)
{
    if (reach.mask.id != 0) {
        rf_tensor attended = mask_bits(t, reach.mask);
        if (reach.some_always) return rf_softmax(t, mask_scores(t, scores, attended));
        if (reach.causal && reach.order.id == 0) reach.order = make_order(t, queries, keys, 1, 0);
        if (reach.causal) attended = rf_multiply(t, attended, reach.order);
        return weigh_masked(t, scores, attended);
    }
    if (!reach.causal) return rf_softmax(t, scores);
    if (reach.order.id != 0) return weigh_masked(t, scores, reach.order);
    /* Every query has a key unless there are fewer keys than queries. */
    if (keys < queries) return weigh_masked(t, scores, make_order(t, queries, keys, 1, 0));
    return rf_softmax(t, rf_add(t, scores, make_order(t, queries, keys, 0, NOT_ATTENDED)));
}

/* query . key of all pairs, in f32 whatever the operands are stored in: their sums need more than 16 bits hold, and so
 * does what is made of them up to the weights. */
static rf_tensor attention_scores(rf_trace *t, rf_tensor query, rf_tensor key, float scale)
{
    rf_value q, k, scores = 0;
    if (!rf_operand(t, query, "rf_attention: query", &q) || !rf_operand(t, key, "rf_attention: key", &k))
        return RF_NO_TENSOR;
    const rf_result r = rf_emit_wide_matmul(rf_trace_graph(t), q, k, false, true, &scores);
    return rf_multiply(t, rf_trace_emit(t, r, scores), rf_constant(t, scale));
}

static bool is_narrow(const rf_trace *t, rf_tensor x)
{
    return rf_dtype_is_narrow(rf_tensor_dtype(t, x));
}

static rf_tensor attention_compose(rf_trace *t, rf_tensor query, rf_tensor key, rf_tensor value, float scale,
                                   attention_reach reach, const rf_attention_params *params)
{
    const rf_dtype type = rf_tensor_dtype(t, value);
    const int64_t queries = rf_tensor_shape(t, query).dim[2], keys = rf_tensor_shape(t, key).dim[2];
    rf_tensor scores = attention_scores(t, query, key, scale);
    if (params->softcap > 0)
        scores = rf_multiply(t, rf_tanh(t, rf_multiply(t, scores, rf_constant(t, 1.0f / params->softcap))),
                             rf_constant(t, params->softcap));
    rf_tensor weights = attention_weights(t, scores, reach, queries, keys);
    if (is_narrow(t, query) && is_narrow(t, key) && is_narrow(t, value)) weights = rf_cast(t, weights, type);
    if (params->dropout != 0)
        weights = rf_dropout_of(t, weights, params->dropout, params->dropout_seed, "rf_attention: dropout of weights");
    return rf_matmul(t, weights, value, RF_TRANSPOSE_NONE);
}

/* ---- the form ---- */

static rf_op_call describe_call(const rf_tensor_desc *q, const rf_tensor_desc *k, const rf_tensor_desc *v,
                                const rf_tensor_desc *mask, const rf_attention_attr *attr)
{
    return (rf_op_call){ .op = &rf_op_attention, .attr = attr, .n_in = 3 + attr->mask, .in = { *q, *k, *v, *mask } };
}

static bool attention_fuses(const rf_trace *t, const rf_attention_params *params, const rf_op_call *call)
{
    if (params->form != RF_ATTENTION_AUTO) return params->form == RF_ATTENTION_FUSED;
    if (!rf_trace_training(t) || params->dropout != 0 || params->softcap > 0) return false;
    const rf_strategy *strategy = rf_trace_strategy(t);
    for (uint32_t i = 0; i < rf_strategy_num_local_replicas(strategy); i++)
        if (!rf_attention_pays(call, rf_strategy_caps(strategy, i))) return false;
    return true;
}

static rf_tensor attention_fuse(rf_trace *t, rf_tensor query, rf_tensor key, rf_tensor value, rf_tensor mask,
                                const rf_attention_attr *attr)
{
    rf_value q, k, v, m = 0, out = 0;
    if (!rf_operand(t, query, "rf_attention", &q) || !rf_operand(t, key, "rf_attention", &k) ||
        !rf_operand(t, value, "rf_attention", &v) || (attr->mask && !rf_operand(t, mask, "rf_attention", &m)))
        return RF_NO_TENSOR;
    const rf_result r = rf_emit_attention(rf_trace_graph(t), q, k, v, m, attr->scale, attr->causal, &out);
    return rf_trace_emit(t, r, out);
}

static rf_result check_params(const rf_attention_params *p)
{
    if (!isfinite(p->scale))
        return RF_FAIL(RF_ERROR_INVALID_ARGUMENT, "rf_attention: scale is %g, must be finite", (double)p->scale);
    if ((uint32_t)p->form > RF_ATTENTION_FUSED)
        return RF_FAIL(RF_ERROR_INVALID_ARGUMENT, "rf_attention: form %d is unknown", (int)p->form);
    if (p->form == RF_ATTENTION_FUSED && p->dropout != 0)
        return RF_FAIL(RF_ERROR_INVALID_ARGUMENT,
                       "rf_attention: the fused form has no dropout (%g); use RF_ATTENTION_AUTO", (double)p->dropout);
    if (p->window < 0 || (p->window > 0 && !p->causal))
        return RF_FAIL(RF_ERROR_INVALID_ARGUMENT,
                       "rf_attention: window is %d; it counts keys back from a query's own, with causal set",
                       (int)p->window);
    if (p->first_query.id != 0 && p->segments.id != 0)
        return RF_FAIL(RF_ERROR_INVALID_ARGUMENT,
                       "rf_attention: segments number all steps; with first_query there are earlier ones");
    RF_REFUSE_ZERO(p->softcap, "rf_attention: softcap", "it must be positive; 0 leaves it out");
    if (!isfinite(p->softcap) || p->softcap < 0)
        return RF_FAIL(RF_ERROR_INVALID_ARGUMENT, "rf_attention: softcap is %g, must be positive and finite",
                       (double)p->softcap);
    if (p->softcap > 0 && p->form == RF_ATTENTION_FUSED)
        return RF_FAIL(RF_ERROR_INVALID_ARGUMENT, "rf_attention: the fused form has no softcap; use RF_ATTENTION_AUTO");
    if (p->first_query.id != 0 && !p->causal)
        return RF_FAIL(RF_ERROR_INVALID_ARGUMENT,
                       "rf_attention: first_query says where queries stand in a causal order; set causal, too");
    return RF_OK;
}

/* [1, 1, t, s]: 1 where a key is one of the last `window` up to a query's own; the invalid tensor where all are. */
static rf_tensor window_from(rf_trace *t, const rf_attention_params *params, rf_tensor query, rf_tensor key)
{
    const bool follows = rf_dim_follows(t, query, 2) || rf_dim_follows(t, key, 2);
    const int64_t queries = rf_tensor_shape(t, query).dim[2], keys = rf_tensor_shape(t, key).dim[2];
    if (params->window == 0 || (!follows && keys <= params->window)) return RF_NO_TENSOR;
    const rf_tensor first = params->first_query.id != 0 ? rf_position_number(t, params->first_query)
                            : follows ? rf_subtract(t, rf_count_along(t, key, 2), rf_count_along(t, query, 2))
                                      : rf_constant(t, (float)(keys - queries));
    const rf_tensor before =
        rf_subtract(t, rf_add(t, places_of(t, query, true), first), rf_constant(t, (float)params->window));
    return rf_compare(t, RF_GREATER, places_of(t, key, false), before);
}

/* [n, 1, t, s]: 1 where query and key are of one segment; the invalid tensor where there is but one. */
static rf_tensor same_segment(rf_trace *t, rf_tensor segments)
{
    if (segments.id == 0) return RF_NO_TENSOR;
    const rf_tensor numbers = rf_tensor_dtype(t, segments) == RF_F32 ? segments : rf_cast(t, segments, RF_F32);
    const rf_size one = rf_size_fixed(1), examples = rf_size_of(segments, 0, 1), steps = rf_size_of(segments, 1, 1);
    const rf_size rows[4] = { examples, one, steps, one }, columns[4] = { examples, one, one, steps };
    return rf_compare(t, RF_EQUAL, rf_regroup(t, numbers, rows, 4), rf_regroup(t, numbers, columns, 4));
}

/* Where both masks allow it; the second may be none. */
static rf_tensor intersect_masks(rf_trace *t, rf_tensor mask, rf_tensor other)
{
    if (other.id == 0) return mask;
    return mask.id != 0 ? rf_multiply(t, mask_bits(t, mask), other) : other;
}

/* The mask of the params has been checked. A position that only the run knows makes the order a mask. */
static bool find_reach(rf_trace *t, const rf_attention_params *params, rf_tensor query, rf_tensor key,
                       attention_reach *out)
{
    if (params->first_query.id != 0 && !rf_position_check(t, params->first_query, "rf_attention: first_query"))
        return false;
    const rf_tensor window = window_from(t, params, query, key), own = same_segment(t, params->segments);
    const rf_tensor mask = intersect_masks(t, intersect_masks(t, params->mask, window), own);
    *out = (attention_reach){ .mask = mask, .causal = params->causal };
    if (params->first_query.id == 0) return rf_trace_status(t) >= 0;
    const rf_tensor order = order_from(t, rf_position_number(t, params->first_query), query, key);
    *out = (attention_reach){ .mask = intersect_masks(t, out->mask, order), .some_always = params->mask.id == 0 };
    return rf_trace_status(t) >= 0;
}

/* Multiplies queries by 1 / sqrt(k) where k follows the batch, so that it is no number of the trace. */
static float scale_of(rf_trace *t, const rf_attention_params *params, rf_tensor *query)
{
    if (params->scale != 0) return (float)rf_setting((double)params->scale, 0.0);
    if (!rf_dim_follows(t, *query, 3)) return 1.0f / sqrtf((float)rf_tensor_shape(t, *query).dim[3]);
    *query = rf_multiply(t, *query, rf_rsqrt(t, rf_count_along(t, *query, 3)));
    return 1.0f;
}

/* Params and shapes have been checked. */
static rf_tensor attention_trace(rf_trace *t, rf_tensor query, rf_tensor key, rf_tensor value,
                                 const rf_attention_params *params)
{
    attention_reach reach;
    rf_tensor_desc q, k, v, mask = { 0 };
    const float scale = scale_of(t, params, &query);
    if (!find_reach(t, params, query, key, &reach) || !rf_operand_desc(t, query, "rf_attention: query", &q) ||
        !rf_operand_desc(t, key, "rf_attention: key", &k) || !rf_operand_desc(t, value, "rf_attention: value", &v))
        return RF_NO_TENSOR;
    if (reach.mask.id != 0) (void)rf_operand_desc(t, reach.mask, "rf_attention: mask", &mask);
    const rf_attention_attr attr = { .scale = scale, .causal = reach.causal, .mask = reach.mask.id != 0 };
    const rf_op_call call = describe_call(&q, &k, &v, &mask, &attr);
    if (attention_fuses(t, params, &call)) return attention_fuse(t, query, key, value, reach.mask, &attr);
    if (reach.causal && (rf_dim_follows(t, query, 2) || rf_dim_follows(t, key, 2)))
        reach.order = order_of_batch(t, query, key);
    return attention_compose(t, query, key, value, scale, reach, params);
}

rf_tensor rf_attention(rf_trace *t, rf_tensor query, rf_tensor key, rf_tensor value, const rf_attention_params *params)
{
    RF_TRACING(t);
    const rf_attention_params defaults = { 0 };
    rf_tensor_desc q, k, v, mask;
    if (!rf_operand_desc(t, query, "rf_attention: query", &q) || !rf_operand_desc(t, key, "rf_attention: key", &k) ||
        !rf_operand_desc(t, value, "rf_attention: value", &v))
        return RF_NO_TENSOR;
    rf_result r = RF_PARAMS_CHECK(rf_attention_params, params);
    if (!params) params = &defaults;
    if (r >= 0) r = check_shapes(&q, &k, &v);
    if (r >= 0 && params->mask.id != 0) {
        const rf_shape scores = RF_SHAPE(q.shape.dim[0], q.shape.dim[1], q.shape.dim[2], k.shape.dim[2]);
        if (!rf_operand_desc(t, params->mask, "rf_attention: mask", &mask)) return RF_NO_TENSOR;
        r = check_mask(&mask, &scores);
    }
    if (r >= 0 && params->segments.id != 0) {
        const rf_shape scores = RF_SHAPE(q.shape.dim[0], q.shape.dim[1], q.shape.dim[2], k.shape.dim[2]);
        if (!rf_operand_desc(t, params->segments, "rf_attention: segments", &mask)) return RF_NO_TENSOR;
        r = check_segments(&mask, &scores);
    }
    if (r >= 0) r = check_params(params);
    if (r < 0) return rf_trace_emit(t, r, 0);
    return attention_trace(t, query, key, value, params);
}
