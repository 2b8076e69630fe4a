/* SPDX-License-Identifier: Apache-2.0 */
/* Batch normalization (Ioffe & Szegedy 2015), as Keras has it. */
#include <float.h>
#include <math.h>

#include "base/error.h"
#include "base/params.h"
#include "base/platform.h"
#include "ops/ops.h"
#include "trace/trace.h"
#include "train/layers/layer.h"

#define DEFAULT_MOMENTUM 0.99
#define DEFAULT_EPSILON 1e-3
#define LARGEST_VIRTUAL 65536 /* examples are counted in f32 */

/* ---- variables ---- */

/* gamma and beta where they are wanted, then the moving averages: Keras' order. */
typedef struct parts {
    rf_variable *gamma, *beta, *moving_mean, *moving_variance; /* gamma, beta NULL: left out */
} parts;

static parts parts_of(const rf_layer *layer)
{
    uint32_t next = 0;
    parts p = { 0 };
    if (layer->u.batch_norm.scale) p.gamma = layer->variables[next++];
    if (layer->u.batch_norm.center) p.beta = layer->variables[next++];
    p.moving_mean = layer->variables[next++];
    p.moving_variance = layer->variables[next];
    return p;
}

static int32_t axis_of(const rf_layer *layer, int32_t rank)
{
    const int32_t axis = layer->u.batch_norm.axis;
    return axis < 0 ? axis + rank : axis;
}

static rf_result create_variables(rf_layer *layer, rf_strategy *strategy, rf_shape shape)
{
    const rf_initializer zeros = { .kind = RF_INIT_ZEROS }, ones = { .kind = RF_INIT_ONES };
    if (layer->u.batch_norm.scale)
        RF_TRY(rf_layer_add_variable(layer, strategy, "gamma", shape, layer->u.batch_norm.gamma_initializer));
    if (layer->u.batch_norm.center)
        RF_TRY(rf_layer_add_variable(layer, strategy, "beta", shape, layer->u.batch_norm.beta_initializer));
    RF_TRY(rf_layer_add_state(layer, strategy, "moving_mean", shape, zeros));
    return rf_layer_add_state(layer, strategy, "moving_variance", shape, ones);
}

static rf_result batch_norm_build(rf_layer *layer, rf_strategy *strategy, rf_dtype dtype, rf_shape input)
{
    char text[96];
    RF_REQUIRE(dtype == RF_F32, "layer '%s' takes f32, got %s; cast or scale the input first", layer->name,
               rf_dtype_name(dtype));
    const int32_t axis = axis_of(layer, input.rank);
    RF_REQUIRE(input.rank >= 2 && axis >= 1 && axis < input.rank,
               "layer '%s' normalizes axis %d, which an input %s does not have beside the batch", layer->name,
               (int)layer->u.batch_norm.axis, rf_shape_format(input, text, sizeof(text)));
    const int64_t channels = input.dim[axis];
    if (!layer->built) return create_variables(layer, strategy, RF_SHAPE(channels));
    const int64_t expected = rf_variable_shape(parts_of(layer).moving_mean).dim[0];
    RF_REQUIRE(channels == expected, "layer '%s' was built for %lld channels, got %lld", layer->name,
               (long long)expected, (long long)channels);
    return RF_OK;
}

/* ---- arithmetic ---- */

#define ARGUMENT "batch normalization" /* as messages call what is normalised */

/* A vector [channels] in a shape that broadcasts to x: ones for the axes after the channels'. */
static rf_tensor spread_channels(rf_trace *t, rf_tensor v, int32_t axis, int32_t rank)
{
    return rf_append_axes(t, v, rank - 1 - axis);
}

static void move_average(rf_trace *t, const rf_layer *layer, rf_variable *average, rf_tensor now)
{
    const double momentum = rf_setting(layer->u.batch_norm.momentum, 0.0);
    const rf_tensor kept = rf_unary(t, RF_FN_MUL_IMM, (float)momentum, rf_trace_assigned(t, average), ARGUMENT);
    const rf_tensor added = rf_unary(t, RF_FN_MUL_IMM, (float)(1.0 - momentum), now, ARGUMENT);
    /* The whole batch's values are the same everywhere. */
    const bool common = layer->u.batch_norm.synchronized;
    (void)rf_trace_assign(t, average, rf_add(t, kept, added), common ? RF_AGGREGATE_FIRST_REPLICA : RF_AGGREGATE_MEAN);
}

/* The result then depends on shares that change with the devices' speed; said once per strategy. */
static void warn_of_moving_shares(const rf_trace *t, const rf_layer *layer)
{
    rf_strategy *s = rf_trace_strategy(t);
    if (layer->u.batch_norm.synchronized || layer->u.batch_norm.virtual_size > 0 || rf_trace_num_replicas(t) == 1 ||
        !rf_strategy_shares_move(s) || rf_strategy_warned_of_shares(s))
        return;
    rf_log_message(RF_LOG_WARN,
                   "layer '%s' normalizes each replica's part of the batch by itself, and with RF_BALANCE_AUTO these "
                   "parts follow the measured speed: results differ from run to run; use RF_BALANCE_OFF where they "
                   "must not",
                   layer->name);
}

/* Sums over replicas are divided by their examples, which dimension 0 has to count. */
static bool check_synchronized(rf_trace *t, const rf_layer *layer, rf_tensor x, int32_t axis)
{
    char text[96];
    const rf_shape shape = rf_tensor_shape(t, x);
    bool counts = true;
    for (int32_t i = 1; i < shape.rank; i++) counts &= i == axis || !rf_dim_follows(t, x, i);
    if (counts) return true;
    (void)rf_trace_fail(
        t, RF_ERROR_INVALID_ARGUMENT,
        "layer '%s' is synchronized, and its input %s has the batch in another dimension than 0; transpose "
        "it first",
        layer->name, rf_shape_format(shape, text, sizeof(text)));
    return false;
}

/* Values of a channel in the examples of all replicas. */
static rf_tensor count_all(rf_trace *t, rf_shape shape, int32_t axis)
{
    float positions = (float)rf_trace_rows(t); /* of a channel in an example */
    for (int32_t i = 1; i < shape.rank; i++)
        if (i != axis) positions *= (float)shape.dim[i];
    return rf_unary(t, RF_FN_MUL_IMM, positions, rf_global_batch_size(t), ARGUMENT);
}

/* The mean over all axes but the channels': of the replica's examples, or of all replicas' together. */
static rf_tensor mean_of(rf_trace *t, const rf_layer *layer, rf_tensor x)
{
    const rf_shape shape = rf_tensor_shape(t, x);
    const int32_t axis = axis_of(layer, shape.rank);
    int32_t axes[RF_MAX_RANK];
    uint32_t num_axes = 0;
    for (int32_t i = 0; i < shape.rank; i++)
        if (i != axis) axes[num_axes++] = i;
    if (!layer->u.batch_norm.synchronized) return rf_reduce_mean(t, x, axes, num_axes, RF_DROP_DIMS);
    if (!check_synchronized(t, layer, x, axis)) return RF_NO_TENSOR;
    const rf_tensor sum = rf_all_replica_sum(t, rf_reduce_sum(t, x, axes, num_axes, RF_DROP_DIMS));
    return rf_divide(t, sum, count_all(t, shape, axis));
}

/* 1 / the values of a channel that the moments are of. */
static rf_tensor inverse_count(rf_trace *t, const rf_layer *layer, rf_tensor x)
{
    const rf_shape shape = rf_tensor_shape(t, x);
    const int32_t axis = axis_of(layer, shape.rank);
    const rf_tensor one = rf_constant(t, 1.0f);
    rf_value in[2], part = 0;
    if (layer->u.batch_norm.synchronized) return rf_divide(t, one, count_all(t, shape, axis));
    if (!rf_operand(t, one, ARGUMENT, &in[0]) || !rf_operand(t, x, ARGUMENT, &in[1])) return RF_NO_TENSOR;
    const rf_result r = rf_graph_add(rf_trace_graph(t), &rf_op_mean_scale, NULL, in, 2, &part);
    return rf_unary(t, RF_FN_MUL_IMM, (float)shape.dim[axis], rf_trace_emit(t, r, part), ARGUMENT);
}

/* A batch's variance underestimates that of the data: by Bessel's correction it is n / (n - 1) of it. One value has
 * none, as before. */
static void move_variance(rf_trace *t, const rf_layer *layer, const parts *p, rf_tensor x, rf_tensor now)
{
    if (layer->u.batch_norm.unbiased) {
        const rf_tensor part = rf_subtract(t, rf_constant(t, 1.0f), inverse_count(t, layer, x));
        now = rf_divide(t, now, rf_maximum(t, part, rf_constant(t, FLT_MIN)));
    }
    move_average(t, layer, p->moving_variance, now);
}

/* x without its mean, and its variance: over the batch, or what has been averaged so far. The variance is that of the
 * centred values, which is exact where the mean is large; synchronised, it therefore waits for the mean. */
static rf_tensor centre_values(rf_trace *t, const rf_layer *layer, const parts *p, rf_tensor x, bool training,
                               rf_tensor *variance)
{
    const int32_t rank = rf_tensor_shape(t, x).rank, axis = axis_of(layer, rank);
    if (!training) {
        *variance = rf_variable_tensor(t, p->moving_variance);
        return rf_subtract(t, x, spread_channels(t, rf_variable_tensor(t, p->moving_mean), axis, rank));
    }
    const rf_tensor mean = mean_of(t, layer, x);
    const rf_tensor centred = rf_subtract(t, x, spread_channels(t, mean, axis, rank));
    *variance = mean_of(t, layer, rf_square(t, centred));
    move_average(t, layer, p->moving_mean, mean);
    move_variance(t, layer, p, x, *variance);
    return centred;
}

/* ---- virtual batches ---- */

/* Which virtual batch each of a replica's n examples is in, and what adds up each batch, of which there are m. */
typedef struct batches {
    rf_tensor number;  /* i32 [n] */
    rf_tensor inverse; /* f32 [m, 1]: 1 / examples of a batch, of which the last may have fewer */
    int64_t size;
} batches;

/* Every size-th row: of the first example of each batch. */
static rf_tensor first_rows(rf_trace *t, rf_tensor x, int64_t size)
{
    const int64_t begin = 0, end = INT64_MAX;
    return rf_slice(t, x, &begin, &end, &size, 1);
}

/* Examples are counted by adding ones: how many there are is not known before the step runs. */
static batches find_batches(rf_trace *t, rf_tensor rows, int64_t size)
{
    const int64_t begin[2] = { 0, 0 }, end[2] = { INT64_MAX, 1 };
    rf_value column, one = 0;
    const rf_tensor first = rf_reshape(t, rf_slice(t, rows, begin, end, NULL, 2), RF_SHAPE(-1));
    if (!rf_operand(t, first, ARGUMENT, &column)) return (batches){ .size = size };
    const rf_result r = rf_emit_fill_like(rf_trace_graph(t), 1.0f, column, &one);
    const rf_tensor ones = rf_trace_emit(t, r, one);
    const rf_tensor before = rf_cumsum(t, ones, RF_SCAN_EXCLUSIVE),
                    left = rf_cumsum(t, ones, RF_SCAN_INCLUSIVE_REVERSE);
    /* Half an example more, so that no rounding reaches the border of a batch. */
    const rf_tensor part =
        rf_unary(t, RF_FN_MUL_IMM, 1.0f / (float)size, rf_unary(t, RF_FN_ADD_IMM, 0.5f, before, ARGUMENT), ARGUMENT);
    const rf_tensor count = rf_minimum(t, first_rows(t, left, size), rf_constant(t, (float)size));
    return (batches){ .number = rf_cast(t, rf_floor(t, part), RF_I32),
                      .inverse = rf_expand_dims(t, rf_divide(t, rf_constant(t, 1.0f), count), 1),
                      .size = size };
}

/* rows [n, c] -> the mean of each batch, [m, c], in the order of its examples. */
static rf_tensor batch_means(rf_trace *t, const batches *b, rf_tensor rows)
{
    const rf_gather_attr attr = { 0 };
    rf_value in[3], sum = 0;
    if (!rf_operand(t, rows, ARGUMENT, &in[0]) || !rf_operand(t, b->number, ARGUMENT, &in[1]) ||
        !rf_operand(t, first_rows(t, rows, b->size), ARGUMENT, &in[2]))
        return RF_NO_TENSOR;
    const rf_result r = rf_graph_add(rf_trace_graph(t), &rf_op_gather_grad, &attr, in, 3, &sum);
    return rf_multiply(t, rf_trace_emit(t, r, sum), b->inverse);
}

/* The values of batches [m, c] for each of their examples, in a shape that broadcasts to x. */
static rf_tensor of_examples(rf_trace *t, const batches *b, rf_tensor v, int32_t axis, int32_t rank)
{
    const rf_tensor rows = rf_gather(t, v, b->number, 0);
    rf_size sizes[RF_MAX_RANK] = { rf_size_of(rows, 0, 1) };
    for (int32_t i = 1; i < rank; i++) sizes[i] = i == axis ? rf_size_of(rows, 1, 1) : rf_size_fixed(1);
    return rf_regroup(t, rows, sizes, (uint32_t)rank);
}

/* Each example's mean over its positions, for each channel: [n, c]. */
static rf_tensor example_means(rf_trace *t, rf_tensor x, int32_t axis)
{
    int32_t axes[RF_MAX_RANK];
    uint32_t num_axes = 0;
    const int32_t rank = rf_tensor_shape(t, x).rank;
    for (int32_t i = 1; i < rank; i++)
        if (i != axis) axes[num_axes++] = i;
    return num_axes > 0 ? rf_reduce_mean(t, x, axes, num_axes, RF_DROP_DIMS) : x;
}

/* The averages take the mean over the batches, each of which counts as much as it has examples: that over all examples,
 * however they are split. */
static rf_tensor normalize_batches(rf_trace *t, const rf_layer *layer, const parts *p, rf_tensor x, rf_tensor gamma)
{
    const int32_t first = 0, rank = rf_tensor_shape(t, x).rank, axis = axis_of(layer, rank);
    const rf_tensor rows = example_means(t, x, axis);
    const batches b = find_batches(t, rows, layer->u.batch_norm.virtual_size);
    const rf_tensor mean = batch_means(t, &b, rows);
    const rf_tensor centred = rf_subtract(t, x, of_examples(t, &b, mean, axis, rank));
    const rf_tensor squares = example_means(t, rf_square(t, centred), axis);
    const rf_tensor variance = batch_means(t, &b, squares);
    move_average(t, layer, p->moving_mean, rf_reduce_mean(t, rows, &first, 1, RF_DROP_DIMS));
    move_average(t, layer, p->moving_variance, rf_reduce_mean(t, squares, &first, 1, RF_DROP_DIMS));
    const rf_tensor deviation =
        rf_sqrt(t, rf_unary(t, RF_FN_ADD_IMM, (float)layer->u.batch_norm.epsilon, variance, ARGUMENT));
    return rf_multiply(t, centred, of_examples(t, &b, rf_divide(t, gamma, deviation), axis, rank));
}

uint32_t rf_layer_keeps_together(const rf_layer *layer)
{
    while (layer->inner) layer = layer->inner;
    const bool cares = layer->kind->build == batch_norm_build && layer->u.batch_norm.virtual_size > 0;
    return cares ? layer->u.batch_norm.virtual_size : 1;
}

/* Over the replica's own batch, with the channels last: one walk over x for both moments, which ends with all that is
 * made of them, one for the result, and as many for the gradient, where the arithmetic above takes several times that,
 * and small operations for each channel. */
static rf_tensor normalize_channels(rf_trace *t, const rf_layer *layer, const parts *p, rf_tensor x)
{
    const float epsilon = (float)layer->u.batch_norm.epsilon;
    rf_graph *g = rf_trace_graph(t);
    const double momentum = rf_setting(layer->u.batch_norm.momentum, 0.0);
    const rf_batch_averages_attr attr = {
        .epsilon = epsilon, .keep = (float)momentum, .take = (float)(1.0 - momentum), .scaled = p->gamma != NULL
    };
    rf_normalize_values v;
    rf_batch_averages now = { 0 };
    rf_value in[4], y = 0;
    if (!rf_operand(t, x, ARGUMENT, &in[0]) || !rf_operand(t, rf_trace_assigned(t, p->moving_mean), ARGUMENT, &in[1]) ||
        !rf_operand(t, rf_trace_assigned(t, p->moving_variance), ARGUMENT, &in[2]))
        return RF_NO_TENSOR;
    if (p->gamma && !rf_operand(t, rf_variable_tensor(t, p->gamma), ARGUMENT, &in[3])) return RF_NO_TENSOR;
    rf_result r = rf_emit_batch_averages(g, in, &attr, &now);
    (void)rf_trace_assign(t, p->moving_mean, rf_trace_emit(t, r, now.next_mean), RF_AGGREGATE_MEAN);
    if (layer->u.batch_norm.unbiased)
        move_variance(t, layer, p, x, rf_trace_emit(t, r, now.variance));
    else
        (void)rf_trace_assign(t, p->moving_variance, rf_trace_emit(t, r, now.next_variance), RF_AGGREGATE_MEAN);
    v = (rf_normalize_values){
        .x = in[0], .mean = now.mean, .variance = now.variance, .scale = now.scale, .gamma = p->gamma ? in[3] : 0
    };
    if (p->beta && !rf_operand(t, rf_variable_tensor(t, p->beta), ARGUMENT, &v.shift)) return RF_NO_TENSOR;
    r = rf_emit_normalize(g, &v, epsilon, &y);
    return rf_trace_emit(t, r, y);
}

static rf_tensor batch_norm_call(rf_trace *t, const rf_layer *layer, rf_tensor x, rf_mode mode)
{
    const int32_t rank = rf_tensor_shape(t, x).rank, axis = axis_of(layer, rank);
    const parts p = parts_of(layer);
    rf_tensor y, variance;
    const rf_tensor gamma = p.gamma ? rf_variable_tensor(t, p.gamma) : rf_constant(t, 1.0f);
    const bool training = mode == RF_TRAINING && !layer->frozen;
    if (training) warn_of_moving_shares(t, layer);
    const bool alone = !layer->u.batch_norm.synchronized && layer->u.batch_norm.virtual_size == 0;
    if (training && alone && axis == rank - 1) return normalize_channels(t, layer, &p, x);
    const rf_dtype stored = rf_tensor_dtype(t, x);
    x = rf_upcast(t, x);
    if (training && layer->u.batch_norm.virtual_size > 0) {
        rf_trace_keep_together(t, layer->u.batch_norm.virtual_size, layer->name);
        y = normalize_batches(t, layer, &p, x, gamma);
    } else {
        const rf_tensor centred = centre_values(t, layer, &p, x, training, &variance);
        const rf_tensor deviation =
            rf_sqrt(t, rf_unary(t, RF_FN_ADD_IMM, (float)layer->u.batch_norm.epsilon, variance, ARGUMENT));
        y = rf_multiply(t, centred, spread_channels(t, rf_divide(t, gamma, deviation), axis, rank));
    }
    if (p.beta) y = rf_add(t, y, spread_channels(t, rf_variable_tensor(t, p.beta), axis, rank));
    return rf_dtype_is_narrow(stored) ? rf_cast(t, y, stored) : y;
}

/* ---- creation ---- */

static const rf_layer_kind batch_norm_kind = { .base_name = "batch_normalization",
                                               .type_name = "BatchNormalization",
                                               .build = batch_norm_build,
                                               .call = batch_norm_call,
                                               .narrow = true };

static rf_result check_params(const rf_batch_norm_params *p)
{
    RF_REQUIRE(p->momentum >= 0 && p->momentum < 1, "rf_layer_batch_norm: momentum %g is not in [0, 1)", p->momentum);
    RF_REQUIRE(p->epsilon >= 0 && isfinite((float)p->epsilon),
               "rf_layer_batch_norm: epsilon %g must be positive and finite as f32", p->epsilon);
    RF_REQUIRE(p->axis > -RF_MAX_RANK && p->axis < RF_MAX_RANK, "rf_layer_batch_norm: axis %d; tensors have at most %d",
               (int)p->axis, RF_MAX_RANK);
    RF_REQUIRE(!(p->no_scale && p->gamma_initializer),
               "rf_layer_batch_norm: gamma_initializer is set but no_scale leaves out gamma");
    RF_REQUIRE(!(p->no_center && p->beta_initializer),
               "rf_layer_batch_norm: beta_initializer is set but no_center leaves out beta");
    RF_REQUIRE(p->virtual_batch_size <= LARGEST_VIRTUAL, "rf_layer_batch_norm: virtual_batch_size %u; at most %d",
               p->virtual_batch_size, LARGEST_VIRTUAL);
    RF_REQUIRE(!(p->synchronized && p->virtual_batch_size > 0),
               "rf_layer_batch_norm: synchronized takes the whole batch, virtual_batch_size %u parts of it; set one",
               p->virtual_batch_size);
    RF_REQUIRE(!(p->unbiased_variance && p->virtual_batch_size > 0),
               "rf_layer_batch_norm: unbiased_variance is set, and virtual_batch_size is %u; set one",
               p->virtual_batch_size);
    if (p->gamma_initializer)
        RF_TRY(rf_layer_check_initializer(p->gamma_initializer, "rf_layer_batch_norm", "gamma_initializer"));
    if (p->beta_initializer)
        RF_TRY(rf_layer_check_initializer(p->beta_initializer, "rf_layer_batch_norm", "beta_initializer"));
    RF_TRY(rf_layer_check_regularizer(p->gamma_regularizer, "rf_layer_batch_norm", "gamma_regularizer"));
    return rf_layer_check_regularizer(p->beta_regularizer, "rf_layer_batch_norm", "beta_regularizer");
}

rf_result rf_layer_batch_norm(const rf_batch_norm_params *params, rf_layer **out)
{
    RF_REQUIRE(out, "rf_layer_batch_norm: out is NULL");
    *out = NULL;
    RF_TRY(RF_PARAMS_CHECK(rf_batch_norm_params, params));
    const rf_batch_norm_params p = params ? *params : (rf_batch_norm_params){ 0 };
    RF_TRY(check_params(&p));
    rf_layer *layer;
    RF_TRY(rf_layer_new(&batch_norm_kind, p.name, &layer));
    layer->u.batch_norm.axis = p.axis ? p.axis : -1;
    layer->u.batch_norm.momentum = p.momentum > 0 ? p.momentum : DEFAULT_MOMENTUM;
    layer->u.batch_norm.epsilon = p.epsilon > 0 ? p.epsilon : DEFAULT_EPSILON;
    layer->u.batch_norm.center = !p.no_center;
    layer->u.batch_norm.scale = !p.no_scale;
    layer->u.batch_norm.synchronized = p.synchronized;
    layer->u.batch_norm.unbiased = p.unbiased_variance;
    layer->u.batch_norm.virtual_size = p.virtual_batch_size;
    layer->u.batch_norm.gamma_initializer =
        p.gamma_initializer ? *p.gamma_initializer : (rf_initializer){ .kind = RF_INIT_ONES };
    layer->u.batch_norm.beta_initializer =
        p.beta_initializer ? *p.beta_initializer : (rf_initializer){ .kind = RF_INIT_ZEROS };
    /* In the order of the variables; one that is left out has none. */
    if (!p.no_scale) layer->regularizers[0] = p.gamma_regularizer;
    if (!p.no_center) layer->regularizers[p.no_scale ? 0 : 1] = p.beta_regularizer;
    *out = layer;
    return RF_OK;
}
