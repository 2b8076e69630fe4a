/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs described graphs through the public API, for differential.py: reads descriptions from its standard input, runs
 * each on every device named on its command line, and writes the results to its standard output.
 *
 * A description is lines of words; the values it makes are numbered from 0 in order.
 *
 *   leaf TYPE RANK DIM...       then the bytes of the elements; TYPE is f32 or i32
 *   op NAME N INPUT... M NUMBER...
 *   gradients LOSS N TARGET...  makes N values
 *   result VALUE
 *   run                         for each device: "ok", then for each result "value TYPE RANK DIM..." and its bytes;
 *                               or "failed MESSAGE"
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <ringfire/ringfire.h>

enum {
    MAX_VALUES = 256,
    MAX_STEPS = 256,
    MAX_OPERANDS = 64, /* gradients have a target for each leaf */
    MAX_NUMBERS = 3 * RF_MAX_RANK,
    MAX_DEVICES = 4,
    WORD = 40
};

typedef enum step_kind { LEAF, OP, GRADIENTS } step_kind;
typedef struct step {
    step_kind kind;
    rf_array data; /* LEAF */
    rf_variable *variable;
    char name[WORD]; /* OP */
    uint32_t num_in, in[MAX_OPERANDS], num_numbers;
    double numbers[MAX_NUMBERS];
} step;

typedef struct description {
    step steps[MAX_STEPS];
    uint32_t num_steps, results[RF_MAX_COMPONENTS], num_results;
} description;

/* The input is differential.py's own: what is wrong in it ends the program. */
static void stop(const char *what)
{
    fprintf(stderr, "driver: %s\n", what);
    exit(2);
}

/* ---- reading ---- */

static uint32_t read_count(uint32_t most)
{
    uint32_t n;
    if (scanf("%" SCNu32, &n) != 1 || n > most) stop("a count is missing or too large");
    return n;
}

static void read_values(step *s)
{
    s->num_in = read_count(MAX_OPERANDS);
    for (uint32_t i = 0; i < s->num_in; i++) s->in[i] = read_count(MAX_VALUES - 1);
}

static void read_leaf(step *s)
{
    char type[WORD];
    if (scanf("%39s", type) != 1) stop("a leaf has no type");
    s->data.dtype = strcmp(type, "i32") == 0 ? RF_I32 : RF_F32;
    s->data.shape.rank = (int32_t)read_count(RF_MAX_RANK);
    for (int32_t i = 0; i < s->data.shape.rank; i++) s->data.shape.dim[i] = read_count(1u << 30);
    const size_t count = (size_t)rf_shape_count(s->data.shape);
    s->data.data = malloc(4 * count);
    if (!s->data.data || getchar() != '\n' || fread(s->data.data, 4, count, stdin) != count)
        stop("a leaf is cut short");
}

static void read_step(description *d, const char *word)
{
    if (d->num_steps == MAX_STEPS) stop("too many steps");
    step *s = &d->steps[d->num_steps++];
    *s = (step){ 0 };
    if (strcmp(word, "leaf") == 0) {
        s->kind = LEAF;
        read_leaf(s);
    } else if (strcmp(word, "op") == 0) {
        s->kind = OP;
        if (scanf("%39s", s->name) != 1) stop("an op has no name");
        read_values(s);
        s->num_numbers = read_count(MAX_NUMBERS);
        for (uint32_t i = 0; i < s->num_numbers; i++)
            if (scanf("%lf", &s->numbers[i]) != 1) stop("a number is missing");
    } else if (strcmp(word, "gradients") == 0) {
        s->kind = GRADIENTS;
        s->numbers[0] = read_count(MAX_VALUES - 1);
        read_values(s);
    } else {
        stop("a line begins with an unknown word");
    }
}

/* False at the end of the input. */
static bool read_description(description *d)
{
    char word[WORD];
    d->num_steps = d->num_results = 0;
    while (scanf("%39s", word) == 1) {
        if (strcmp(word, "run") == 0) return true;
        if (strcmp(word, "result") == 0) {
            if (d->num_results == RF_MAX_COMPONENTS) stop("too many results");
            d->results[d->num_results++] = read_count(MAX_VALUES - 1);
        } else {
            read_step(d, word);
        }
    }
    return false;
}

static void free_description(description *d)
{
    for (uint32_t i = 0; i < d->num_steps; i++) free(d->steps[i].data.data);
}

/* ---- tracing ---- */

static int32_t number(const step *s, uint32_t i)
{
    return i < s->num_numbers ? (int32_t)s->numbers[i] : 0;
}

/* Two booleans as the value of an enumeration that counts with them. */
static int flags(const step *s)
{
    return (number(s, 0) != 0) | (number(s, 1) != 0) << 1;
}

typedef rf_tensor (*unary_fn)(rf_trace *t, rf_tensor x);
typedef rf_tensor (*binary_fn)(rf_trace *t, rf_tensor a, rf_tensor b);
static const struct {
    const char *name;
    unary_fn fn;
} unary[] = {
    { "negative", rf_negative },
    { "abs", rf_abs },
    { "square", rf_square },
    { "exp", rf_exp },
    { "log", rf_log },
    { "sqrt", rf_sqrt },
    { "tanh", rf_tanh },
    { "sigmoid", rf_sigmoid },
    { "relu", rf_relu },
    { "rsqrt", rf_rsqrt },
    { "log1p", rf_log1p },
    { "expm1", rf_expm1 },
    { "sin", rf_sin },
    { "cos", rf_cos },
    { "erf", rf_erf },
    { "sign", rf_sign },
    { "floor", rf_floor },
    { "round", rf_round },
    { "softplus", rf_softplus },
    { "silu", rf_silu },
    { "hard_sigmoid", rf_hard_sigmoid },
    { "hard_silu", rf_hard_silu },
    { "mish", rf_mish },
    { "selu", rf_selu },
    { "flatten", rf_flatten },
    { "softmax", rf_softmax },
    { "log_softmax", rf_log_softmax },
    { "argmax", rf_argmax },
    { "argmin", rf_argmin },
    { "global_avg_pool2d", rf_global_avg_pool2d },
    { "stop_gradient", rf_stop_gradient },
};
static const struct {
    const char *name;
    binary_fn fn;
} binary[] = {
    { "add", rf_add },
    { "subtract", rf_subtract },
    { "multiply", rf_multiply },
    { "divide", rf_divide },
    { "pow", rf_pow },
    { "maximum", rf_maximum },
    { "minimum", rf_minimum },
    { "bias_add", rf_bias_add },
    { "mean_squared_error", rf_mean_squared_error },
    { "mean_absolute_error", rf_mean_absolute_error },
    { "kl_divergence", rf_kl_divergence },
    { "gather_positions", rf_gather_positions },
};
static const struct {
    const char *name;
    rf_tensor (*fn)(rf_trace *t, rf_tensor x, const int32_t *axes, uint32_t num_axes, rf_reduced_dims dims);
} reductions[] = { { "reduce_sum", rf_reduce_sum },
                   { "reduce_mean", rf_reduce_mean },
                   { "reduce_max", rf_reduce_max },
                   { "reduce_min", rf_reduce_min } };

/* The numbers from `first` on; returns how many there are. */
static uint32_t read_axes(const step *s, uint32_t first, int32_t axes[RF_MAX_RANK])
{
    uint32_t count = 0;
    for (uint32_t i = first; i < s->num_numbers && count < RF_MAX_RANK; i++) axes[count++] = number(s, i);
    return count;
}

static rf_tensor reduce(rf_trace *t, uint32_t which, const step *s, rf_tensor x)
{
    int32_t axes[RF_MAX_RANK];
    const uint32_t count = read_axes(s, 1, axes);
    return reductions[which].fn(t, x, axes, count, number(s, 0) != 0 ? RF_KEEP_DIMS : RF_DROP_DIMS);
}

/* Whether dimensions stay, whether it is the variance, and the axes. */
static rf_tensor take_moment(rf_trace *t, const step *s, rf_tensor x)
{
    int32_t axes[RF_MAX_RANK];
    const uint32_t count = read_axes(s, 2, axes);
    rf_tensor mean, variance;
    (void)rf_moments(t, x, axes, count, number(s, 0) != 0 ? RF_KEEP_DIMS : RF_DROP_DIMS, &mean, &variance);
    return number(s, 1) != 0 ? variance : mean;
}

static rf_tensor convolve(rf_trace *t, const step *s, rf_tensor x, rf_tensor kernel, bool transposed)
{
    rf_conv2d_params p = { .padding = (rf_padding)number(s, 0), .groups = number(s, 5) };
    for (uint32_t i = 0; i < 2; i++) p.stride[i] = number(s, 1 + i), p.dilation[i] = number(s, 3 + i);
    for (uint32_t i = 0; i < 4; i++) p.explicit_padding[i] = number(s, 6 + i);
    return transposed ? rf_conv2d_transpose(t, x, kernel, &p) : rf_conv2d(t, x, kernel, &p);
}

static rf_tensor pool(rf_trace *t, const step *s, rf_tensor x, bool maximum)
{
    rf_pool2d_params p = { .padding = (rf_padding)number(s, 0) };
    for (uint32_t i = 0; i < 2; i++) p.window[i] = number(s, 1 + i), p.stride[i] = number(s, 3 + i);
    for (uint32_t i = 0; i < 4; i++) p.explicit_padding[i] = number(s, 5 + i);
    return maximum ? rf_max_pool2d(t, x, &p) : rf_avg_pool2d(t, x, &p);
}

static rf_tensor upsample(rf_trace *t, const step *s, rf_tensor x)
{
    const int32_t factor[] = { number(s, 1), number(s, 2) };
    return rf_upsample2d(t, x, factor, (rf_interpolation)number(s, 0));
}

/* Height, width, method, coordinates, rounding. */
static rf_tensor resize(rf_trace *t, const step *s, rf_tensor x)
{
    const rf_resize2d_params p = { .size = { number(s, 0), number(s, 1) },
                                   .method = (rf_resize_method)number(s, 2),
                                   .coordinates = (rf_resize_coordinates)number(s, 3),
                                   .rounding = (rf_resize_rounding)number(s, 4) };
    return rf_resize2d(t, x, &p);
}

static rf_tensor reshape(rf_trace *t, const step *s, rf_tensor x)
{
    rf_shape shape = { .rank = (int32_t)s->num_numbers };
    for (uint32_t i = 0; i < s->num_numbers && i < RF_MAX_RANK; i++) shape.dim[i] = number(s, i);
    return rf_reshape(t, x, shape);
}

static rf_tensor transpose(rf_trace *t, const step *s, rf_tensor x)
{
    int32_t perm[RF_MAX_RANK] = { 0 };
    for (uint32_t i = 0; i < s->num_numbers && i < RF_MAX_RANK; i++) perm[i] = number(s, i);
    return rf_transpose(t, x, perm);
}

/* Begin, end and step of one axis after the other. */
static rf_tensor slice(rf_trace *t, const step *s, rf_tensor x)
{
    int64_t begin[RF_MAX_RANK], end[RF_MAX_RANK], stride[RF_MAX_RANK];
    uint32_t axes = 0;
    for (; axes < RF_MAX_RANK && 3 * axes < s->num_numbers; axes++) {
        begin[axes] = number(s, 3 * axes);
        end[axes] = number(s, 3 * axes + 1);
        stride[axes] = number(s, 3 * axes + 2);
    }
    return rf_slice(t, x, begin, end, stride, axes);
}

/* The value, then before and after each axis; copies along each. */
static rf_tensor pad(rf_trace *t, const step *s, rf_tensor x)
{
    int64_t before[RF_MAX_RANK], after[RF_MAX_RANK];
    uint32_t axes = 0;
    for (; axes < RF_MAX_RANK && 1 + 2 * axes < s->num_numbers; axes++) {
        before[axes] = number(s, 1 + 2 * axes);
        after[axes] = number(s, 2 + 2 * axes);
    }
    return rf_pad(t, x, before, after, axes, (float)s->numbers[0]);
}

static rf_tensor tile(rf_trace *t, const step *s, rf_tensor x)
{
    int64_t copies[RF_MAX_RANK];
    uint32_t axes = 0;
    for (; axes < RF_MAX_RANK && axes < s->num_numbers; axes++) copies[axes] = number(s, axes);
    return rf_tile(t, x, copies, axes);
}

/* All operands along an axis; part `numbers[2]` of numbers[1] along an axis. */
static rf_tensor join(rf_trace *t, const step *s, const rf_tensor *values, bool stacked)
{
    rf_tensor operands[MAX_OPERANDS];
    for (uint32_t i = 0; i < s->num_in; i++) operands[i] = values[s->in[i]];
    return (stacked ? rf_stack : rf_concat)(t, operands, s->num_in, number(s, 0));
}

static rf_tensor split(rf_trace *t, const step *s, rf_tensor x)
{
    rf_tensor parts[MAX_OPERANDS];
    const uint32_t count = (uint32_t)number(s, 1), which = (uint32_t)number(s, 2);
    if (count > MAX_OPERANDS || which >= count) stop("a part of too many");
    (void)rf_split_tensor(t, x, number(s, 0), count, parts);
    return parts[which];
}

/* The numbers are the characters of the equation. */
static rf_tensor einsum(rf_trace *t, const step *s, const rf_tensor *values)
{
    char equation[MAX_NUMBERS + 1] = { 0 };
    rf_tensor operands[MAX_OPERANDS];
    for (uint32_t i = 0; i < s->num_numbers; i++) equation[i] = (char)number(s, i);
    for (uint32_t i = 0; i < s->num_in; i++) operands[i] = values[s->in[i]];
    return rf_einsum(t, equation, operands, s->num_in);
}

static rf_tensor top_k(rf_trace *t, const step *s, rf_tensor x)
{
    rf_tensor values, indices;
    (void)rf_top_k(t, x, number(s, 0), &values, &indices);
    return number(s, 1) != 0 ? indices : values;
}

/* Calls operations that take more than operands. */
static rf_tensor call_other(rf_trace *t, const step *s, rf_tensor a, rf_tensor b)
{
    const char *name = s->name;
    if (strcmp(name, "leaky_relu") == 0) return rf_leaky_relu(t, a, (float)s->numbers[0]);
    if (strcmp(name, "elu") == 0) return rf_elu(t, a, (float)s->numbers[0]);
    if (strcmp(name, "gelu") == 0) return rf_gelu(t, a, number(s, 0) != 0 ? RF_GELU_TANH : RF_GELU_ERF);
    if (strcmp(name, "activate") == 0) return rf_activate(t, a, (rf_activation)number(s, 0));
    if (strcmp(name, "matmul") == 0) return rf_matmul(t, a, b, (rf_matmul_transpose)flags(s));
    if (strcmp(name, "conv2d") == 0) return convolve(t, s, a, b, false);
    if (strcmp(name, "conv2d_transpose") == 0) return convolve(t, s, a, b, true);
    if (strcmp(name, "max_pool2d") == 0) return pool(t, s, a, true);
    if (strcmp(name, "avg_pool2d") == 0) return pool(t, s, a, false);
    if (strcmp(name, "upsample2d") == 0) return upsample(t, s, a);
    if (strcmp(name, "resize2d") == 0) return resize(t, s, a);
    if (strcmp(name, "depth_to_space") == 0) return rf_depth_to_space(t, a, number(s, 0), (rf_block_order)number(s, 1));
    if (strcmp(name, "space_to_depth") == 0) return rf_space_to_depth(t, a, number(s, 0), (rf_block_order)number(s, 1));
    if (strcmp(name, "reshape") == 0) return reshape(t, s, a);
    if (strcmp(name, "transpose") == 0) return transpose(t, s, a);
    if (strcmp(name, "compare") == 0) return rf_compare(t, (rf_comparison)number(s, 0), a, b);
    if (strcmp(name, "clip") == 0) return rf_clip(t, a, (float)s->numbers[0], (float)s->numbers[1]);
    if (strcmp(name, "slice") == 0) return slice(t, s, a);
    if (strcmp(name, "pad") == 0) return pad(t, s, a);
    if (strcmp(name, "tile") == 0) return tile(t, s, a);
    if (strcmp(name, "reverse") == 0) return rf_reverse(t, a, number(s, 0));
    if (strcmp(name, "split") == 0) return split(t, s, a);
    if (strcmp(name, "expand_dims") == 0) return rf_expand_dims(t, a, number(s, 0));
    if (strcmp(name, "squeeze") == 0) return rf_squeeze(t, a, number(s, 0));
    if (strcmp(name, "gather") == 0) return rf_gather(t, a, b, number(s, 0));
    if (strcmp(name, "cumsum") == 0) return rf_cumsum(t, a, (rf_scan_form)flags(s));
    if (strcmp(name, "cumprod") == 0) return rf_cumprod(t, a, (rf_scan_form)flags(s));
    if (strcmp(name, "sort") == 0)
        return (number(s, 2) != 0 ? rf_argsort : rf_sort)(t, a, number(s, 0), number(s, 1) != 0);
    if (strcmp(name, "top_k") == 0) return top_k(t, s, a);
    if (strcmp(name, "one_hot") == 0) return rf_one_hot(t, a, number(s, 0));
    if (strcmp(name, "cast") == 0) return rf_cast(t, a, (rf_dtype)number(s, 0));
    if (strcmp(name, "dropout") == 0) return rf_dropout(t, a, (float)s->numbers[0], 1);
    if (strcmp(name, "constant") == 0) return rf_constant(t, (float)s->numbers[0]);
    if (strcmp(name, "global_batch_size") == 0) return rf_global_batch_size(t);
    if (strcmp(name, "sparse_categorical_crossentropy") == 0)
        return rf_sparse_categorical_crossentropy(t, a, b, number(s, 0) != 0 ? RF_LOGITS : RF_PROBABILITIES);
    if (strcmp(name, "categorical_crossentropy") == 0)
        return rf_categorical_crossentropy(t, a, b, number(s, 0) != 0 ? RF_LOGITS : RF_PROBABILITIES);
    if (strcmp(name, "binary_crossentropy") == 0)
        return rf_binary_crossentropy(t, a, b, number(s, 0) != 0 ? RF_LOGITS : RF_PROBABILITIES);
    if (strcmp(name, "huber") == 0) return rf_huber(t, a, b, (float)s->numbers[0]);
    (void)rf_trace_fail(t, RF_ERROR_NOT_FOUND, "driver: there is no op '%s'", name);
    return (rf_tensor){ 0 };
}

static rf_tensor normalize(rf_trace *t, const step *s, const rf_tensor *values)
{
    const rf_tensor x = values[s->in[0]], gamma = values[s->in[1]];
    const float epsilon = (float)s->numbers[0];
    return s->num_in == 3 ? rf_layer_norm(t, x, gamma, values[s->in[2]], epsilon) : rf_rms_norm(t, x, gamma, epsilon);
}

/* Groups, axis, epsilon, and whether there are gamma and beta. */
static rf_tensor normalize_groups(rf_trace *t, const step *s, const rf_tensor *values)
{
    const bool scale = number(s, 3) != 0, center = number(s, 4) != 0;
    const rf_tensor none = { 0 }, gamma = scale ? values[s->in[1]] : none,
                    beta = center ? values[s->in[1 + scale]] : none;
    return rf_group_norm(t, values[s->in[0]], gamma, beta, number(s, 0), number(s, 1), (float)s->numbers[2]);
}

/* Kind, reset before, backwards, which result; whether there are a bias, states and a mask. */
static rf_tensor recur(rf_trace *t, const step *s, const rf_tensor *values)
{
    rf_rnn_params p = { .kind = (rf_rnn_kind)number(s, 0),
                        .reset_before = number(s, 1) != 0,
                        .backwards = number(s, 2) != 0 };
    const bool lstm = p.kind == RF_RNN_LSTM;
    rf_tensor bias = { 0 }, state[2] = { { 0 } }, sequence, final[2];
    uint32_t next = 2;
    if (number(s, 4) != 0) bias = values[s->in[next++]];
    for (uint32_t i = 0; number(s, 5) != 0 && i <= lstm; i++) state[i] = values[s->in[next++]];
    if (number(s, 6) != 0) p.mask = values[s->in[next]];
    (void)rf_rnn(t, values[s->in[0]], values[s->in[1]], bias, state, &p, &sequence, final);
    return number(s, 3) == 0 ? sequence : final[number(s, 3) - 1];
}

/* Whether causal, the form, the scale, whether there is a mask. */
static rf_tensor attend(rf_trace *t, const step *s, const rf_tensor *values)
{
    const rf_attention_params p = { .causal = number(s, 0) != 0,
                                    .form = (rf_attention_form)number(s, 1),
                                    .scale = (float)s->numbers[2],
                                    .mask = number(s, 3) != 0 ? values[s->in[3]] : (rf_tensor){ 0 } };
    return rf_attention(t, values[s->in[0]], values[s->in[1]], values[s->in[2]], &p);
}

/* Blank, whether infinite losses are 0. */
static rf_tensor read_signs(rf_trace *t, const step *s, const rf_tensor *values)
{
    rf_ctc_params p = { .blank = number(s, 0), .zero_infinity = number(s, 1) != 0 };
    if (s->num_in > 2) p.input_lengths = values[s->in[2]];
    return rf_ctc_loss(t, values[s->in[0]], values[s->in[1]], RF_LOGITS, &p);
}

static rf_tensor call_op(rf_trace *t, const step *s, const rf_tensor *values)
{
    const rf_tensor a = s->num_in > 0 ? values[s->in[0]] : (rf_tensor){ 0 };
    const rf_tensor b = s->num_in > 1 ? values[s->in[1]] : (rf_tensor){ 0 };
    for (uint32_t i = 0; i < sizeof(unary) / sizeof(unary[0]); i++)
        if (strcmp(s->name, unary[i].name) == 0) return unary[i].fn(t, a);
    for (uint32_t i = 0; i < sizeof(binary) / sizeof(binary[0]); i++)
        if (strcmp(s->name, binary[i].name) == 0) return binary[i].fn(t, a, b);
    for (uint32_t i = 0; i < sizeof(reductions) / sizeof(reductions[0]); i++)
        if (strcmp(s->name, reductions[i].name) == 0) return reduce(t, i, s, a);
    if (strcmp(s->name, "concat") == 0 || strcmp(s->name, "stack") == 0)
        return join(t, s, values, strcmp(s->name, "stack") == 0);
    if (strcmp(s->name, "moments") == 0) return take_moment(t, s, a);
    if (strcmp(s->name, "einsum") == 0) return einsum(t, s, values);
    if (strcmp(s->name, "where") == 0) return rf_where(t, a, b, values[s->in[2]]);
    if (strcmp(s->name, "slice_update") == 0) return rf_slice_update(t, a, b, values[s->in[2]], number(s, 0));
    if (strcmp(s->name, "layer_norm") == 0 || strcmp(s->name, "rms_norm") == 0) return normalize(t, s, values);
    if (strcmp(s->name, "attention") == 0) return attend(t, s, values);
    if (strcmp(s->name, "rnn") == 0) return recur(t, s, values);
    if (strcmp(s->name, "ctc_loss") == 0) return read_signs(t, s, values);
    if (strcmp(s->name, "group_norm") == 0) return normalize_groups(t, s, values);
    return call_other(t, s, a, b);
}

static rf_result trace(rf_trace *t, const rf_tensor *in, rf_tensor *out, void *user)
{
    (void)in;
    const description *d = user;
    rf_tensor values[MAX_VALUES + MAX_OPERANDS] = { { 0 } };
    uint32_t count = 0;
    for (uint32_t i = 0; i < d->num_steps; i++) {
        const step *s = &d->steps[i];
        if (count >= MAX_VALUES) stop("too many values");
        if (s->kind == OP) {
            values[count++] = call_op(t, s, values);
        } else if (s->kind == LEAF) {
            values[count++] = s->variable ? rf_variable_tensor(t, s->variable) : rf_constant_array(t, &s->data);
        } else {
            rf_tensor targets[MAX_OPERANDS];
            for (uint32_t k = 0; k < s->num_in; k++) targets[k] = values[s->in[k]];
            (void)rf_gradients(t, values[(uint32_t)s->numbers[0]], targets, s->num_in, &values[count]);
            count += s->num_in;
        }
    }
    for (uint32_t i = 0; i < d->num_results; i++) out[i] = values[d->results[i]];
    return rf_trace_status(t);
}

/* ---- running ---- */

static rf_result make_variables(rf_strategy *strategy, description *d)
{
    for (uint32_t i = 0; i < d->num_steps; i++) {
        step *s = &d->steps[i];
        if (s->kind != LEAF || s->data.dtype != RF_F32) continue;
        const rf_variable_params params = { .shape = s->data.shape, .value = s->data.data, .not_trainable = true };
        const rf_result r = rf_variable_create(strategy, &params, &s->variable);
        if (r < 0) return r;
    }
    return RF_OK;
}

static void write_value(const rf_array *value)
{
    printf("value %s %d", rf_dtype_name(value->dtype), (int)value->shape.rank);
    for (int32_t i = 0; i < value->shape.rank; i++) printf(" %lld", (long long)value->shape.dim[i]);
    printf("\n");
    fwrite(value->data, rf_dtype_size(value->dtype), (size_t)rf_shape_count(value->shape), stdout);
}

static rf_result run_function(rf_strategy *strategy, const description *d, rf_function *function)
{
    float nothing = 0;
    const rf_element batch = { 1, { { RF_F32, RF_SHAPE(1), &nothing } } };
    rf_per_replica *results[RF_MAX_COMPONENTS];
    rf_array values[RF_MAX_COMPONENTS];
    rf_result r = rf_strategy_run(strategy, function, &batch, results);
    for (uint32_t i = 0; r >= 0 && i < d->num_results; i++) r = rf_per_replica_local(results[i], 0, &values[i]);
    if (r < 0) return r;
    printf("ok\n");
    for (uint32_t i = 0; i < d->num_results; i++) write_value(&values[i]);
    return RF_OK;
}

static void run(rf_strategy *strategy, description *d)
{
    rf_function *function = NULL;
    rf_result r = make_variables(strategy, d);
    const rf_function_params params = { .step = trace, .user = d, .num_outputs = d->num_results, .name = "case" };
    if (r >= 0) r = rf_function_create(strategy, &params, &function);
    if (r >= 0) r = run_function(strategy, d, function);
    if (r < 0) printf("failed %s: %s\n", rf_result_name(r), rf_error_message());
    rf_function_destroy(&function);
    for (uint32_t i = 0; i < d->num_steps; i++) rf_variable_destroy(&d->steps[i].variable);
    fflush(stdout);
}

int main(int argc, char **argv)
{
    static description d;
    rf_strategy *strategies[MAX_DEVICES] = { NULL };
    if (argc < 2 || argc > 1 + MAX_DEVICES) stop("usage: driver DEVICE...");
    for (int i = 1; i < argc; i++) {
        if (rf_strategy_create_mirrored(&(rf_mirrored_params){ .devices = argv[i] }, &strategies[i - 1]) < 0) {
            fprintf(stderr, "driver: %s\n", rf_error_message());
            return 3;
        }
    }
    printf("ready\n");
    fflush(stdout);
    while (read_description(&d)) {
        for (int i = 1; i < argc; i++) run(strategies[i - 1], &d);
        free_description(&d);
    }
    for (int i = 1; i < argc; i++) rf_strategy_destroy(&strategies[i - 1]);
    return 0;
}
