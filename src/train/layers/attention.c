/* SPDX-License-Identifier: Apache-2.0 */
/* Multi-head attention. */
#include <math.h>

#include "base/error.h"
#include "base/memory.h"
#include "base/params.h"
#include "trace/trace.h"
#include "train/layers/product.h"
#include "train/layers/rotary.h"

/* Projections of the query, of what is attended to, and of the result. */
enum { QUERY, KEY, VALUE, OUTPUT, NUM_PROJECTIONS };
enum { MOST_INPUTS = 3 };
static const char *const projections[NUM_PROJECTIONS] = { "query", "key", "value", "attention_output" };

static int32_t heads_of(const rf_layer *layer, int projection)
{
    return projection == QUERY ? layer->u.attention.num_heads : layer->u.attention.num_key_value_heads;
}

static int32_t width_of(const rf_layer *layer, int projection)
{
    return projection == VALUE ? layer->u.attention.value_dim : layer->u.attention.key_dim;
}

static bool has_bias(const rf_layer *layer, int projection)
{
    return projection == OUTPUT ? layer->u.attention.use_output_bias : layer->u.attention.use_bias;
}

static rf_variable *variable_of(const rf_layer *layer, int projection, bool bias)
{
    return layer->variables[layer->u.attention.use_bias ? 2 * projection + (int)bias : projection];
}

/* The scales of the norms of queries and of keys come last. */
static rf_variable *norm_of(const rf_layer *layer, int projection)
{
    return layer->variables[layer->num_variables - 2 + (projection == KEY)];
}

/* ---- variables ---- */

/* Keys are values where they are not given, and values are the query. */
static uint32_t source_of(int projection, uint32_t num_in)
{
    static const uint32_t wanted[] = { [QUERY] = 0, [KEY] = 2, [VALUE] = 1 };
    return wanted[projection] < num_in ? wanted[projection] : num_in - 1;
}

static rf_result check_inputs(const rf_layer *layer, const rf_tensor_desc *in, uint32_t num_in)
{
    static const char *const names[MOST_INPUTS] = { "query", "value", "key" };
    char a[96], b[96];
    for (uint32_t i = 0; i < num_in && i < MOST_INPUTS; i++)
        RF_REQUIRE(in[i].dtype == RF_F32 && in[i].shape.rank == 3,
                   "layer '%s': the %s is %s %s, not f32 [n, steps, features]", layer->name, names[i],
                   rf_dtype_name(in[i].dtype), rf_shape_format(in[i].shape, a, sizeof(a)));
    RF_REQUIRE(num_in < 3 || in[1].shape.dim[1] == in[2].shape.dim[1],
               "layer '%s': the value %s and the key %s have different numbers of steps", layer->name,
               rf_shape_format(in[1].shape, a, sizeof(a)), rf_shape_format(in[2].shape, b, sizeof(b)));
    for (int p = QUERY; layer->built && p <= VALUE; p++) {
        const rf_shape shape = in[source_of(p, num_in)].shape;
        const int64_t features = rf_variable_shape(variable_of(layer, p, false)).dim[0];
        RF_REQUIRE(shape.dim[2] == features, "layer '%s': the %s was built for %lld features, got %s", layer->name,
                   projections[p], (long long)features, rf_shape_format(shape, a, sizeof(a)));
    }
    return RF_OK;
}

/* Rows of a projection's kernel as a matrix. */
static int64_t rows_of(int projection, rf_shape kernel)
{
    return projection == OUTPUT ? kernel.dim[0] * kernel.dim[1] : kernel.dim[0];
}

static rf_result add_projection(rf_layer *layer, rf_strategy *strategy, int projection, rf_shape kernel, rf_shape bias)
{
    char *names[2] = { rf_asprintf("%s/kernel", projections[projection]),
                       rf_asprintf("%s/bias", projections[projection]) };
    rf_result r = names[0] && names[1] ? RF_OK : RF_ERROR_OUT_OF_HOST_MEMORY;
    const rf_weight_matrix matrix = { .rows = rows_of(projection, kernel) };
    if (r >= 0)
        r = rf_layer_add_weight(layer, strategy, names[0], kernel, layer->u.attention.kernel_initializer, matrix);
    if (r >= 0 && has_bias(layer, projection))
        r = rf_layer_add_variable(layer, strategy, names[1], bias, (rf_initializer){ .kind = RF_INIT_ZEROS });
    rf_free(names[0]);
    rf_free(names[1]);
    return r;
}

static rf_result attention_build(rf_layer *layer, rf_strategy *strategy, const rf_tensor_desc *in, uint32_t num_in)
{
    RF_TRY(check_inputs(layer, in, num_in));
    if (layer->built) return RF_OK;
    for (int p = QUERY; p <= VALUE; p++) {
        const int64_t features = in[source_of(p, num_in)].shape.dim[2];
        const rf_shape bias = RF_SHAPE(heads_of(layer, p), width_of(layer, p));
        RF_TRY(add_projection(layer, strategy, p, RF_SHAPE(features, bias.dim[0], bias.dim[1]), bias));
    }
    const int64_t output_dim = layer->u.attention.output_dim ? layer->u.attention.output_dim : in[0].shape.dim[2];
    RF_TRY(add_projection(layer, strategy, OUTPUT,
                          RF_SHAPE(layer->u.attention.num_heads, layer->u.attention.value_dim, output_dim),
                          RF_SHAPE(output_dim)));
    if (layer->u.attention.norm_epsilon == 0.0f) return RF_OK;
    const rf_shape width = RF_SHAPE(layer->u.attention.key_dim);
    const rf_initializer ones = { .kind = RF_INIT_ONES };
    RF_TRY(rf_layer_add_variable(layer, strategy, "query_norm/gamma", width, ones));
    return rf_layer_add_variable(layer, strategy, "key_norm/gamma", width, ones);
}

/* ---- arithmetic ---- */

static rf_tensor add_bias(rf_trace *t, const rf_layer *layer, int projection, rf_tensor x)
{
    if (!has_bias(layer, projection)) return x;
    const rf_tensor bias = rf_variable_tensor(t, variable_of(layer, projection, true));
    return rf_bias_add(t, x, rf_reshape(t, bias, RF_SHAPE(-1)));
}

/* x [n, s, features] by the kernel as a matrix, with its bias. */
static rf_tensor projection_multiply(rf_trace *t, const rf_layer *layer, int projection, rf_tensor x, rf_mode mode)
{
    rf_variable *kernel = variable_of(layer, projection, false);
    const rf_shape is = rf_variable_shape(kernel);
    const int64_t rows = rows_of(projection, is);
    const rf_product product = { .kind = RF_PRODUCT_DENSE,
                                 .weight = kernel,
                                 .shape = RF_SHAPE(rows, rf_shape_count(is) / rows) };
    return add_bias(t, layer, projection, rf_layer_product(t, layer, &product, x, mode));
}

/* x [n, s, features] -> [n, heads, s, width]. */
static rf_tensor projection_apply(rf_trace *t, const rf_layer *layer, int projection, rf_tensor x, rf_mode mode)
{
    static const int32_t heads_first[] = { 0, 2, 1, 3 };
    const int64_t heads = heads_of(layer, projection), width = width_of(layer, projection);
    const rf_tensor y = projection_multiply(t, layer, projection, x, mode);
    const rf_size sizes[4] = { rf_size_of(x, 0, 1), rf_size_of(x, 1, 1), rf_size_fixed(heads), rf_size_fixed(width) };
    rf_tensor heads_apart = rf_regroup(t, y, sizes, 4);
    if (layer->u.attention.norm_epsilon != 0.0f && projection <= KEY)
        heads_apart = rf_rms_norm(t, heads_apart, rf_variable_tensor(t, norm_of(layer, projection)),
                                  layer->u.attention.norm_epsilon);
    return rf_transpose(t, heads_apart, heads_first);
}

/* Each head of keys and values for several of queries: [n, few, s, width] -> [n, heads, s, width]. */
static rf_tensor share_heads(rf_trace *t, const rf_layer *layer, rf_tensor x)
{
    const int64_t heads = layer->u.attention.num_heads, few = layer->u.attention.num_key_value_heads;
    if (heads == few) return x;
    const int64_t copies[] = { 1, 1, heads / few, 1 };
    const rf_size sizes[4] = { rf_size_of(x, 0, 1), rf_size_fixed(heads), rf_size_of(x, 2, 1), rf_size_of(x, 3, 1) };
    /* Copies of a head stand beside it: along the steps first, which then become heads. */
    return rf_regroup(t, rf_tile(t, x, copies, 4), sizes, 4);
}

/* Cosines or sines of the angles at [s, width / 2]. */
static rf_tensor rotary_angles(rf_trace *t, const rf_layer *layer, int64_t steps, int64_t half, double (*fn)(double))
{
    float *values = RF_NEW_ARRAY(float, (size_t)(steps * half));
    if (!values) return rf_trace_emit(t, RF_ERROR_OUT_OF_HOST_MEMORY, 0);
    for (int64_t i = 0; i < half; i++) {
        const double angle =
            rf_rotary_angle(&layer->u.attention.rotary, (double)layer->u.attention.rotary_base, i, half, steps);
        for (int64_t s = 0; s < steps; s++) values[s * half + i] = (float)fn((double)s * angle);
    }
    const rf_array constant = { .dtype = RF_F32, .shape = RF_SHAPE(steps, half), .data = values };
    const rf_tensor out = rf_constant_array(t, &constant);
    rf_free(values);
    return out;
}

/* Turns the pairs (i, i + width / 2) by an angle that grows with the position: a product of two depends on their
 * distance alone (Su et al. 2021). `rows` are the positions, of `positions` ones; the invalid tensor: all of them. */
static rf_tensor rotary_apply(rf_trace *t, const rf_layer *layer, rf_tensor x, rf_tensor rows, int64_t positions)
{
    if (layer->u.attention.rotary_base == 0.0f) return x;
    const int64_t half = rf_tensor_shape(t, x).dim[3] / 2;
    rf_tensor parts[2] = { RF_NO_TENSOR, RF_NO_TENSOR };
    if (rf_split_tensor(t, x, 3, 2, parts) < 0) return RF_NO_TENSOR;
    rf_tensor c = rotary_angles(t, layer, positions, half, cos), s = rotary_angles(t, layer, positions, half, sin);
    if (rows.id != 0) {
        c = rf_gather(t, c, rows, 0);
        s = rf_gather(t, s, rows, 0);
    }
    const rf_tensor turned[2] = { rf_subtract(t, rf_multiply(t, parts[0], c), rf_multiply(t, parts[1], s)),
                                  rf_add(t, rf_multiply(t, parts[1], c), rf_multiply(t, parts[0], s)) };
    return rf_concat(t, turned, 2, 3);
}

/* [n, s], [n, t, s] or [n, heads, t, s] as f32 of four dimensions. */
static rf_tensor mask_of(rf_trace *t, const rf_layer *layer, const rf_layer_apply_params *p, int64_t attended)
{
    if (p->mask.id == 0) return RF_NO_TENSOR;
    const rf_shape is = rf_tensor_shape(t, p->mask);
    const int64_t steps = rf_tensor_shape(t, p->in[0]).dim[1];
    char a[96];
    const bool fits = is.rank >= 2 && is.rank <= 4 && is.dim[is.rank - 1] == attended &&
                      (is.rank == 2 || is.dim[is.rank - 2] == steps || is.dim[is.rank - 2] == 1);
    if (!fits) {
        (void)rf_trace_fail(t, RF_ERROR_INVALID_ARGUMENT,
                            "layer '%s': the mask is %s, not [n, %lld], [n, %lld, %lld] or [n, %d, %lld, %lld]",
                            layer->name, rf_shape_format(is, a, sizeof(a)), (long long)attended, (long long)steps,
                            (long long)attended, (int)layer->u.attention.num_heads, (long long)steps,
                            (long long)attended);
        return RF_NO_TENSOR;
    }
    rf_tensor mask = rf_tensor_dtype(t, p->mask) == RF_F32 ? p->mask : rf_cast(t, p->mask, RF_F32);
    if (is.rank == 2) mask = rf_expand_dims(t, mask, 1);
    return is.rank <= 3 ? rf_expand_dims(t, mask, 1) : mask;
}

/* Numbers that steps of one sequence of a row share: where it began, whatever their sequence's length is. Each step of
 * the padding, at position 0, is on its own. */
static rf_tensor segments_of(rf_trace *t, const rf_layer *layer, const rf_layer_apply_params *p)
{
    const rf_tensor_desc none = { 0 };
    rf_tensor_desc positions = none;
    char shape[96];
    if (p->mask.id != 0 && !rf_operand_desc(t, p->mask, "rf_layer_apply: mask", &positions)) return RF_NO_TENSOR;
    const rf_shape in = rf_tensor_shape(t, p->in[0]);
    if (p->num_in == 1 && p->cache[0].id == 0 && positions.dtype == RF_I32 &&
        rf_shape_equal(positions.shape, RF_SHAPE(in.dim[0], in.dim[1])))
        return rf_subtract(t, rf_positions_along(t, p->in[0], 1), rf_cast(t, p->mask, RF_F32));
    (void)rf_trace_fail(t, RF_ERROR_INVALID_ARGUMENT,
                        "layer '%s' is for packed rows: it takes one input [%lld, %lld, d], no cache, and as its mask "
                        "positions i32 [%lld, %lld], got %s %s",
                        layer->name, (long long)in.dim[0], (long long)in.dim[1], (long long)in.dim[0],
                        (long long)in.dim[1], p->mask.id != 0 ? rf_dtype_name(positions.dtype) : "no mask",
                        p->mask.id != 0 ? rf_shape_format(positions.shape, shape, sizeof(shape)) : "");
    return RF_NO_TENSOR;
}

/* Positions that the cache has; 0, with the trace failed, where it does not suit the call. */
static int64_t check_cache(rf_trace *t, const rf_layer *layer, const rf_layer_apply_params *p)
{
    static const int widths[] = { KEY, VALUE };
    char a[96];
    if (p->num_in > 1 || !layer->u.attention.causal) {
        (void)rf_trace_fail(t, RF_ERROR_INVALID_ARGUMENT,
                            "layer '%s': a cache needs a causal layer whose query attends to itself", layer->name);
        return 0;
    }
    int64_t positions = 0;
    for (int i = 0; i < 2; i++) {
        rf_tensor_desc desc;
        if (!rf_operand_desc(t, p->cache[i], "rf_layer_apply: cache", &desc)) return 0;
        const rf_shape is = desc.shape;
        if (i == 0 && is.rank == 4) positions = is.dim[2];
        if (desc.dtype == RF_F32 && is.rank == 4 && is.dim[1] == heads_of(layer, widths[i]) && is.dim[2] == positions &&
            is.dim[3] == width_of(layer, widths[i]))
            continue;
        (void)rf_trace_fail(
            t, RF_ERROR_INVALID_ARGUMENT, "layer '%s': the %ss of the cache are %s %s, not f32 [n, %d, %s, %d]",
            layer->name, projections[widths[i]], rf_dtype_name(desc.dtype), rf_shape_format(is, a, sizeof(a)),
            (int)heads_of(layer, widths[i]), i == 0 ? "places" : "places of the keys", (int)width_of(layer, widths[i]));
        return 0;
    }
    return positions;
}

/* Query, and key and value of what is attended to, before heads are shared; false where the trace has failed. */
static bool find_operands(rf_trace *t, const rf_layer *layer, const rf_layer_apply_params *p, rf_tensor *query,
                          rf_tensor pair[2])
{
    const int64_t steps = rf_tensor_shape(t, p->in[0]).dim[1];
    const rf_tensor keys_in = p->in[source_of(KEY, p->num_in)], values_in = p->in[source_of(VALUE, p->num_in)];
    const int64_t keys = rf_tensor_shape(t, keys_in).dim[1];
    const bool cached = p->cache[0].id != 0;
    const int64_t positions = cached ? check_cache(t, layer, p) : 0;
    rf_tensor rows = RF_NO_TENSOR;
    if (cached && positions == 0) return false;
    if (cached) rows = rf_position_rows(t, p->start_index, steps, "rf_layer_apply: start_index");
    if (cached && rows.id == 0) return false;
    *query =
        rotary_apply(t, layer, projection_apply(t, layer, QUERY, p->in[0], p->mode), rows, cached ? positions : steps);
    pair[0] =
        rotary_apply(t, layer, projection_apply(t, layer, KEY, keys_in, p->mode), rows, cached ? positions : keys);
    pair[1] = projection_apply(t, layer, VALUE, values_in, p->mode);
    if (cached) *query = rf_cast(t, *query, RF_F32); /* as the cache */
    for (int i = 0; cached && i < 2; i++)
        pair[i] = rf_slice_update(t, p->cache[i], rf_cast(t, pair[i], RF_F32), p->start_index, 2);
    return rf_trace_status(t) >= 0;
}

static void attention_apply(rf_trace *t, const rf_layer *layer, const rf_layer_apply_params *p, rf_tensor *out,
                            uint32_t num_out)
{
    static const int32_t steps_first[] = { 0, 2, 1, 3 };
    rf_tensor query, pair[2];
    for (uint32_t i = 0; i < num_out; i++) out[i] = RF_NO_TENSOR;
    const bool packed = layer->u.attention.packed;
    const rf_tensor segments = packed ? segments_of(t, layer, p) : RF_NO_TENSOR;
    if (rf_trace_status(t) < 0 || !find_operands(t, layer, p, &query, pair)) return;
    const rf_attention_params params = { .mask = packed ? RF_NO_TENSOR
                                                        : mask_of(t, layer, p, rf_tensor_shape(t, pair[0]).dim[2]),
                                         .segments = segments,
                                         .dropout = p->mode == RF_TRAINING ? layer->u.attention.dropout : 0.0f,
                                         .dropout_seed = layer->u.attention.seed,
                                         .causal = layer->u.attention.causal,
                                         .scale = layer->u.attention.scale,
                                         .window = layer->u.attention.window,
                                         .softcap = layer->u.attention.softcap,
                                         .first_query = p->start_index };
    const rf_tensor y = rf_attention(t, query, share_heads(t, layer, pair[0]), share_heads(t, layer, pair[1]), &params);
    const int64_t width = (int64_t)layer->u.attention.num_heads * layer->u.attention.value_dim;
    const rf_size sizes[3] = { rf_size_of(p->in[0], 0, 1), rf_size_of(p->in[0], 1, 1), rf_size_fixed(width) };
    const rf_tensor joined = rf_regroup(t, rf_transpose(t, y, steps_first), sizes, 3);
    out[0] = projection_multiply(t, layer, OUTPUT, joined, p->mode);
    for (uint32_t i = 1; i < num_out; i++) out[i] = pair[i - 1];
}

/* ---- creation ---- */

static const rf_layer_kind attention_kind = { .base_name = "multi_head_attention",
                                              .type_name = "MultiHeadAttention",
                                              .build_inputs = attention_build,
                                              .apply = attention_apply,
                                              .min_inputs = 1,
                                              .max_inputs = MOST_INPUTS,
                                              .max_outputs = 3,
                                              .takes_mask = true,
                                              .takes_start = true,
                                              .takes_cache = true,
                                              .narrow = true };

static rf_result check_scores(const rf_multi_head_attention_params *p, const char *function)
{
    RF_REQUIRE(isfinite(p->scale), "%s: scale %g must be finite", function, (double)p->scale);
    RF_REFUSE_ZERO(p->scale, "scale", "all keys would have the same weight; 0 means 1 / sqrt(key_dim)");
    RF_REQUIRE(p->window >= 0 && (p->window == 0 || p->causal),
               "%s: window is %d; it counts keys back from a query's own, with causal set", function, (int)p->window);
    RF_REQUIRE(p->softcap >= 0.0f && isfinite(p->softcap), "%s: softcap %g must be positive and finite", function,
               (double)p->softcap);
    RF_REFUSE_ZERO(p->softcap, "softcap", "it must be positive; 0 leaves it out");
    RF_REQUIRE(p->query_key_norm >= 0.0f && isfinite(p->query_key_norm),
               "%s: query_key_norm %g must be positive and finite", function, (double)p->query_key_norm);
    RF_REFUSE_ZERO(p->query_key_norm, "query_key_norm", "it must be positive; 0 leaves it out");
    RF_REQUIRE(!(p->no_bias && p->no_output_bias), "%s: no_output_bias is set but no_bias leaves out all", function);
    return RF_OK;
}

static rf_result check_params(const rf_multi_head_attention_params *p)
{
    static const char *const function = "rf_layer_multi_head_attention";
    RF_REQUIRE(p, "%s: params is NULL; num_heads and key_dim have no defaults", function);
    RF_REQUIRE(p->num_heads > 0 && p->key_dim > 0, "%s: num_heads is %d and key_dim is %d, both must be positive",
               function, (int)p->num_heads, (int)p->key_dim);
    RF_REQUIRE(p->value_dim >= 0 && p->output_dim >= 0, "%s: value_dim %d and output_dim %d must not be negative",
               function, (int)p->value_dim, (int)p->output_dim);
    RF_REQUIRE(p->num_key_value_heads >= 0 &&
                   (p->num_key_value_heads == 0 || p->num_heads % p->num_key_value_heads == 0),
               "%s: num_key_value_heads %d does not divide num_heads %d", function, (int)p->num_key_value_heads,
               (int)p->num_heads);
    RF_REQUIRE(p->dropout >= 0.0f && p->dropout < 1.0f, "%s: dropout %g is not in [0, 1)", function,
               (double)p->dropout);
    RF_REQUIRE(p->rotary_base >= 0.0f && isfinite(p->rotary_base),
               "%s: rotary_base %g must be positive and finite; 10000 is usual", function, (double)p->rotary_base);
    RF_REQUIRE(p->rotary_base != RF_ZERO, "%s: rotary_base is RF_ZERO: it must be positive; 0 turns nothing", function);
    RF_REQUIRE(p->rotary_base == 0.0f || p->key_dim % 2 == 0, "%s: rotary_base needs an even key_dim, not %d", function,
               (int)p->key_dim);
    RF_REQUIRE(p->rotary == NULL || p->rotary_base > 0.0f, "%s: rotary is set but rotary_base is 0", function);
    RF_TRY(rf_rotary_check(p->rotary, function));
    RF_TRY(check_scores(p, function));
    return p->kernel_initializer ? rf_layer_check_initializer(p->kernel_initializer, function, "kernel_initializer")
                                 : RF_OK;
}

rf_result rf_layer_multi_head_attention(const rf_multi_head_attention_params *params, rf_layer **out)
{
    RF_REQUIRE(out, "rf_layer_multi_head_attention: out is NULL");
    *out = NULL;
    RF_TRY(RF_PARAMS_CHECK(rf_multi_head_attention_params, params));
    RF_TRY(check_params(params));
    rf_layer *layer;
    RF_TRY(rf_layer_new(&attention_kind, params->name, &layer));
    layer->u.attention.num_heads = params->num_heads;
    layer->u.attention.num_key_value_heads =
        params->num_key_value_heads ? params->num_key_value_heads : params->num_heads;
    layer->u.attention.key_dim = params->key_dim;
    layer->u.attention.value_dim = params->value_dim ? params->value_dim : params->key_dim;
    layer->u.attention.output_dim = params->output_dim;
    layer->u.attention.dropout = params->dropout;
    layer->u.attention.rotary_base = params->rotary_base;
    layer->u.attention.seed = params->seed;
    layer->u.attention.causal = params->causal;
    layer->u.attention.use_bias = !params->no_bias;
    layer->u.attention.use_output_bias = !params->no_bias && !params->no_output_bias;
    layer->u.attention.scale = params->scale;
    layer->u.attention.window = params->window;
    layer->u.attention.softcap = params->softcap;
    layer->u.attention.norm_epsilon = params->query_key_norm;
    layer->u.attention.packed = params->packed;
    if (params->rotary) layer->u.attention.rotary = *params->rotary;
    if (params->kernel_initializer) layer->u.attention.kernel_initializer = *params->kernel_initializer;
    *out = layer;
    return RF_OK;
}
