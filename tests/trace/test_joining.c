/* SPDX-License-Identifier: Apache-2.0 */
/* Joining, splitting and selecting in a step: values, gradients, what is refused. */
#include "../support/strategies.h"
#include "tests/room.h"

enum { N = 5, C = 6, MANY = 9 };

typedef struct inputs {
    float x[N * C];
    int32_t words[N * C];
    rf_element batch; /* x, words */
} inputs;

static void fill_inputs(inputs *in)
{
    memset(in, 0, sizeof(*in));
    fill_noise(in->x, N * C, 7);
    for (int i = 0; i < N * C; i++) in->words[i] = 16777217 + i; /* not numbers of f32 */
    in->batch = (rf_element){ 2, { array_f32(RF_SHAPE(N, C), in->x), array_i32(RF_SHAPE(N, C), in->words) } };
}

static void run_step(rf_strategy *strategy, rf_step_fn step, uint32_t num_outputs, float *sums)
{
    inputs in;
    fill_inputs(&in);
    rf_function *function;
    OK(rf_function_create(strategy, &(rf_function_params){ .step = step, .num_outputs = num_outputs }, &function));
    run_once(strategy, function, &in.batch, sums, num_outputs);
    rf_function_destroy(&function);
}

static void refuse_step(rf_strategy *strategy, rf_step_fn step, rf_result result, const char *part)
{
    inputs in;
    fill_inputs(&in);
    rf_function *function;
    OK(rf_function_create(strategy, &(rf_function_params){ .step = step, .num_outputs = 1 }, &function));
    FAILS(rf_strategy_run(strategy, function, &in.batch, NULL), result, part);
    rf_function_destroy(&function);
}

/* Columns weighted by their number. */
static rf_tensor weigh(rf_trace *t, rf_tensor x)
{
    const rf_shape shape = rf_tensor_shape(t, x);
    float weights[64];
    const int64_t columns = shape.dim[shape.rank - 1];
    for (int64_t i = 0; i < columns; i++) weights[i] = (float)(i + 1);
    const rf_array row = array_f32(RF_SHAPE(columns), weights);
    return rf_reduce_sum(t, rf_multiply(t, x, rf_constant_array(t, &row)), NULL, 0, RF_DROP_DIMS);
}

/* Sum of gradient times x: what `loss`, linear in x, is itself. */
static rf_tensor pull_back(rf_trace *t, rf_tensor loss, rf_tensor x)
{
    rf_tensor gradient;
    (void)rf_gradients(t, loss, &x, 1, &gradient);
    return rf_reduce_sum(t, rf_multiply(t, gradient, x), NULL, 0, RF_DROP_DIMS);
}

/* ---- joining ---- */

static rf_result concat_step(rf_trace *t, const rf_tensor *in, rf_tensor *out, void *user)
{
    (void)user;
    const rf_tensor twice = rf_multiply(t, in[0], rf_constant(t, 2)), pair[] = { in[0], twice, in[0] };
    out[0] = weigh(t, rf_concat(t, pair, 3, -1));
    out[1] = pull_back(t, out[0], in[0]);
    out[2] = weigh(t, rf_concat(t, pair, 3, 0)); /* each replica's own examples */
    out[3] = pull_back(t, out[2], in[0]);
    out[4] = weigh(t, rf_concat(t, pair, 1, 1)); /* x itself, under a handle of its own */
    return rf_trace_status(t);
}

/* More than one op takes. */
static rf_result many_step(rf_trace *t, const rf_tensor *in, rf_tensor *out, void *user)
{
    (void)user;
    rf_tensor parts[MANY], again[C];
    for (int i = 0; i < MANY; i++) parts[i] = rf_multiply(t, in[0], rf_constant(t, (float)(i + 1)));
    const rf_tensor stacked = rf_stack(t, parts, MANY, 1); /* [n, 9, 6] */
    out[0] = weigh(t, rf_transpose(t, stacked, (int32_t[]){ 0, 2, 1 }));
    out[1] = pull_back(t, out[0], in[0]);
    rf_tensor rows[MANY];
    rf_result r = rf_split_tensor(t, stacked, 1, MANY, rows);
    if (r < 0) return r;
    out[2] = weigh(t, rf_squeeze(t, rows[7], -2));
    out[3] = pull_back(t, out[2], in[0]);
    r = rf_split_tensor(t, in[0], -1, C, again);
    if (r < 0) return r;
    rf_tensor back[C];
    for (int i = 0; i < C; i++) back[i] = again[C - 1 - i];
    out[4] = weigh(t, rf_concat(t, back, C, 1));
    out[5] = pull_back(t, out[4], in[0]);
    return rf_trace_status(t);
}

static void joins(rf_strategy *strategy)
{
    inputs in;
    fill_inputs(&in);
    float is[6];
    double columns = 0, rows = 0, triple = 0, all = 0, backwards = 0;
    for (int i = 0; i < N * C; i++) {
        const double x = (double)in.x[i], c = i % C + 1;
        columns += x * c + 2 * x * (c + C) + x * (c + 2 * C);
        rows += 4 * x * c;
        triple += x * c;
        all += x * (MANY * (MANY + 1) * (2 * MANY + 1) / 6); /* i * i over the parts */
        backwards += x * (C + 1 - c);
    }
    run_step(strategy, concat_step, 5, is);
    assert_near(is[0], columns, 1e-5, 1e-5, "joined columns");
    assert_near(is[1], columns, 1e-5, 1e-5, "gradient of joined columns");
    assert_near(is[2], rows, 1e-5, 1e-5, "joined rows");
    assert_near(is[3], rows, 1e-5, 1e-5, "gradient of joined rows");
    assert_near(is[4], triple, 1e-5, 1e-5, "one tensor");
    run_step(strategy, many_step, 6, is);
    assert_near(is[0], all, 1e-5, 1e-3, "a stack of many");
    assert_near(is[1], all, 1e-5, 1e-3, "gradient of a stack of many");
    assert_near(is[2], 8 * triple, 1e-5, 1e-4, "a part of many");
    assert_near(is[3], 8 * triple, 1e-5, 1e-4, "gradient of a part of many");
    assert_near(is[4], backwards, 1e-5, 1e-5, "columns backwards");
    assert_near(is[5], backwards, 1e-5, 1e-5, "gradient of columns backwards");
}

/* ---- one function, several batches: nothing may keep the size of the first ---- */

static void batches(rf_strategy *strategy)
{
    inputs in;
    fill_inputs(&in);
    rf_function *function;
    float is[6];
    OK(rf_function_create(strategy, &(rf_function_params){ .step = concat_step, .num_outputs = 5 }, &function));
    for (int n = N; n > 1; n -= 2) {
        double rows = 0;
        for (int i = 0; i < n * C; i++) rows += 4 * (double)in.x[i] * (i % C + 1);
        for (uint32_t k = 0; k < in.batch.num_components; k++) in.batch.component[k].shape.dim[0] = n;
        run_once(strategy, function, &in.batch, is, 5);
        assert_near(is[2], rows, 1e-5, 1e-5, "joined rows");
        assert_near(is[3], rows, 1e-5, 1e-5, "gradient of joined rows");
    }
    rf_function_destroy(&function);
}

/* ---- integers: exact ---- */

static rf_result words_step(rf_trace *t, const rf_tensor *in, rf_tensor *out, void *user)
{
    (void)user;
    rf_tensor parts[3];
    const rf_tensor both = rf_concat(t, (rf_tensor[]){ in[1], in[1] }, 2, 1);
    const rf_result r = rf_split_tensor(t, both, 1, 3, parts);
    if (r < 0) return r;
    out[0] = rf_stack(t, parts, 3, -1); /* [n, 4, 3] */
    return rf_trace_status(t);
}

static void words(rf_strategy *strategy)
{
    inputs in;
    fill_inputs(&in);
    rf_function *function;
    rf_per_replica *results[1];
    rf_array value;
    OK(rf_function_create(strategy, &(rf_function_params){ .step = words_step, .num_outputs = 1 }, &function));
    OK(rf_strategy_run(strategy, function, &in.batch, results));
    OK(rf_per_replica_local(results[0], 0, &value));
    assert_int_equal(value.dtype, RF_I32);
    assert_true(rf_shape_equal(value.shape, RF_SHAPE(N, 4, 3)));
    for (int i = 0; i < N; i++)
        for (int k = 0; k < 12; k++)
            assert_int_equal(((const int32_t *)value.data)[i * 12 + k % 4 * 3 + k / 4], in.words[i * C + k % C]);
    rf_function_destroy(&function);
}

/* ---- padding, copies, the other way round; minima ---- */

static rf_result arrange_step(rf_trace *t, const rf_tensor *in, rf_tensor *out, void *user)
{
    (void)user;
    static const int64_t before[] = { 0, 2 }, after[] = { 0, 1 }, copies[] = { 2, 9 };
    static const int32_t last = -1;
    out[0] = weigh(t, rf_pad(t, in[0], before, after, 2, 0.5f));
    out[1] = pull_back(t, out[0], in[0]);
    out[2] = weigh(t, rf_tile(t, in[0], copies, 2));
    out[3] = pull_back(t, out[2], in[0]);
    out[4] = weigh(t, rf_reverse(t, in[0], -1));
    out[5] = pull_back(t, out[4], in[0]);
    out[6] = rf_reduce_sum(t, rf_reduce_min(t, in[0], &last, 1, RF_DROP_DIMS), NULL, 0, RF_DROP_DIMS);
    out[7] = rf_reduce_sum(t, rf_cast(t, rf_argmin(t, in[0]), RF_F32), NULL, 0, RF_DROP_DIMS);
    return rf_trace_status(t);
}

static void arranges(rf_strategy *strategy)
{
    inputs in;
    fill_inputs(&in);
    double padded = 0, tiled = 0, reversed = 0, least = 0, places = 0;
    float is[8];
    for (int i = 0; i < N; i++) {
        int at = 0;
        for (int j = 0; j < C; j++) {
            const double x = (double)in.x[i * C + j];
            padded += (j + 3) * x;
            for (int k = 0; k < 9; k++) tiled += 2 * (k * C + j + 1) * x;
            reversed += (C - j) * x;
            if (in.x[i * C + j] < in.x[i * C + at]) at = j;
        }
        least += (double)in.x[i * C + at];
        places += at;
    }
    run_step(strategy, arrange_step, 8, is);
    assert_near(is[0], padded + N * 0.5 * (1 + 2 + C + 3), 1e-5, 1e-4, "padded");
    assert_near(is[1], padded, 1e-5, 1e-4, "gradient of padding");
    assert_near(is[2], tiled, 1e-5, 1e-3, "copies");
    assert_near(is[3], tiled, 1e-5, 1e-3, "gradient of copies");
    assert_near(is[4], reversed, 1e-5, 1e-4, "reversed");
    assert_near(is[5], reversed, 1e-5, 1e-4, "gradient of reversing");
    assert_near(is[6], least, 1e-5, 1e-5, "minima");
    assert_near(is[7], places, 0, 0, "places of minima");
}

/* ---- comparisons and selection ---- */

enum { COMPARISONS = RF_GREATER_EQUAL + 1 };

static void count_comparisons(rf_trace *t, rf_tensor a, rf_tensor b, rf_tensor *out)
{
    for (int c = 0; c < COMPARISONS; c++)
        out[c] = rf_reduce_sum(t, rf_compare(t, (rf_comparison)c, a, b), NULL, 0, RF_DROP_DIMS);
}

/* x with x backwards. */
static rf_result compare_step(rf_trace *t, const rf_tensor *in, rf_tensor *out, void *user)
{
    (void)user;
    static const int64_t begin[] = { 0, INT64_MAX }, end[] = { INT64_MAX, INT64_MIN }, step[] = { 1, -1 };
    count_comparisons(t, in[0], rf_slice(t, in[0], begin, end, step, 2), out);
    return rf_trace_status(t);
}

/* The words count up from 2^24 + 1: as f32, each is one of its neighbours. */
static rf_result compare_words_step(rf_trace *t, const rf_tensor *in, rf_tensor *out, void *user)
{
    (void)user;
    const int32_t middle = 16777217 + N * C / 2;
    count_comparisons(t, in[1], rf_constant_array(t, &(rf_array){ RF_I32, { 0 }, (int32_t[1]){ middle } }), out);
    return rf_trace_status(t);
}

/* Only "not equal" is true of NaN. */
static rf_result compare_nan_step(rf_trace *t, const rf_tensor *in, rf_tensor *out, void *user)
{
    (void)user;
    count_comparisons(t, in[0], rf_constant(t, NAN), out);
    return rf_trace_status(t);
}

/* Elements that are left out are NaN, forwards and backwards: the gradient of log at 0 times 0, and a constant. */
static rf_result select_step(rf_trace *t, const rf_tensor *in, rf_tensor *out, void *user)
{
    (void)user;
    const rf_tensor zero = rf_constant(t, 0), positive = rf_compare(t, RF_GREATER, in[0], zero);
    const rf_tensor safe = rf_where(t, positive, in[0], rf_constant(t, 1));
    const rf_tensor logs = rf_where(t, positive, rf_log(t, safe), rf_multiply(t, in[0], rf_constant(t, 2)));
    out[0] = rf_reduce_sum(t, logs, NULL, 0, RF_DROP_DIMS);
    out[1] = pull_back(t, out[0], in[0]);
    const rf_tensor kept = rf_where(t, positive, in[0], rf_log(t, rf_subtract(t, zero, rf_abs(t, in[0])))); /* of < 0 */
    out[2] = rf_reduce_sum(t, rf_where(t, positive, kept, zero), NULL, 0, RF_DROP_DIMS);
    out[3] = pull_back(t, out[2], in[0]);
    out[4] = rf_reduce_sum(t, rf_where(t, rf_constant(t, NAN), in[0], in[0]), NULL, 0, RF_DROP_DIMS);
    const rf_tensor clipped = rf_clip(t, in[0], -0.5f, 0.25f);
    out[5] = rf_reduce_sum(t, clipped, NULL, 0, RF_DROP_DIMS);
    out[6] = pull_back(t, out[5], in[0]);
    out[7] = rf_reduce_sum(t, rf_clip(t, rf_multiply(t, in[0], rf_constant(t, NAN)), 0, 1), NULL, 0, RF_DROP_DIMS);
    return rf_trace_status(t);
}

static void selects(rf_strategy *strategy)
{
    inputs in;
    fill_inputs(&in);
    float is[8];
    double less = 0, logs = 0, pulled = 0, kept = 0, clipped = 0, within = 0;
    for (int i = 0; i < N * C; i++) {
        const double x = (double)in.x[i], back = (double)in.x[i / C * C + C - 1 - i % C];
        less += x < back;
        logs += x > 0 ? log(x) : 2 * x;
        pulled += x > 0 ? 1 : 2 * x;
        kept += x > 0 ? x : 0;
        clipped += x < -0.5 ? -0.5 : x > 0.25 ? 0.25 : x;
        within += x >= -0.5 && x <= 0.25 ? x : 0;
    }
    const double expected[COMPARISONS] = { 0, N * C, less, less, N * C - less, N * C - less };
    run_step(strategy, compare_step, COMPARISONS, is);
    for (int c = 0; c < COMPARISONS; c++) assert_near(is[c], expected[c], 0, 0, "comparison");
    static const double of_words[COMPARISONS] = { 1, N * C - 1, N * C / 2, N * C / 2 + 1, N * C / 2 - 1, N * C / 2 };
    run_step(strategy, compare_words_step, COMPARISONS, is);
    for (int c = 0; c < COMPARISONS; c++) assert_near(is[c], of_words[c], 0, 0, "comparison of words");
    run_step(strategy, compare_nan_step, COMPARISONS, is);
    for (int c = 0; c < COMPARISONS; c++)
        assert_near(is[c], c == RF_NOT_EQUAL ? N * C : 0, 0, 0, "comparison with NaN");
    run_step(strategy, select_step, 8, is);
    assert_near(is[0], logs, 1e-5, 1e-5, "logarithms where there are any");
    assert_near(is[1], pulled, 1e-5, 1e-5, "gradient of logarithms where there are any");
    assert_near(is[2], kept, 1e-5, 1e-5, "a NaN left out");
    assert_near(is[3], kept, 1e-5, 1e-5, "gradient past a NaN left out");
    assert_true(isnan(is[4]));
    assert_near(is[5], clipped, 1e-5, 1e-5, "clipped");
    assert_near(is[6], within, 1e-5, 1e-5, "gradient of clipping");
    assert_true(isnan(is[7]));
}

/* ---- mistakes ---- */

#define STEP(name, result)                                                                                             \
    static rf_result name(rf_trace *t, const rf_tensor *in, rf_tensor *out, void *user)                                \
    {                                                                                                                  \
        (void)user, (void)in;                                                                                          \
        out[0] = result;                                                                                               \
        return rf_trace_status(t);                                                                                     \
    }
static rf_tensor split_to(rf_trace *t, rf_tensor x, int32_t axis, uint32_t num_parts, bool nowhere)
{
    rf_tensor out[8] = { { 1, 1 } };
    (void)rf_split_tensor(t, x, axis, num_parts, nowhere ? NULL : out);
    return out[0];
}
STEP(join_nothing, rf_concat(t, in, 0, 0))
STEP(join_no_array, rf_stack(t, NULL, 2, 0))
STEP(join_types, rf_concat(t, in, 2, 0))
STEP(join_no_axis, rf_concat(t, in, 1, 2))
STEP(join_scalars, rf_concat(t, (rf_tensor[]){ rf_constant(t, 1), rf_constant(t, 2) }, 2, 0))
STEP(join_bytes, rf_concat(t, (rf_tensor[]){ rf_cast(t, in[0], RF_U8) }, 1, 3))
STEP(join_u8, rf_concat(t, (rf_tensor[]){ rf_cast(t, in[0], RF_U8), rf_cast(t, in[0], RF_U8) }, 2, 1))
STEP(join_shapes, rf_concat(t, (rf_tensor[]){ in[0], rf_flatten(t, rf_expand_dims(t, rf_constant(t, 1), 0)) }, 2, 0))
STEP(join_invalid, rf_concat(t, (rf_tensor[]){ in[0], { 0 } }, 2, 0))
STEP(stack_shapes, rf_stack(t, (rf_tensor[]){ in[0], rf_reshape(t, in[0], RF_SHAPE(-1)) }, 2, 0))
STEP(split_odd, split_to(t, in[0], 1, 4, false))
STEP(split_none, split_to(t, in[0], 1, 0, false))
STEP(split_nowhere, split_to(t, in[0], 1, 2, true))
STEP(split_no_axis, split_to(t, in[0], -3, 2, false))
STEP(expand_far, rf_expand_dims(t, in[0], 3))
STEP(compare_how, rf_compare(t, (rf_comparison)6, in[0], in[0]))
STEP(compare_words, rf_compare(t, RF_LESS, in[0], in[1]))
STEP(where_words, rf_where(t, in[1], in[0], in[0]))
STEP(where_shapes, rf_where(t, in[0], in[0], rf_constant_array(t, &(rf_array){ RF_F32, RF_SHAPE(4), (float[4]){ 0 } })))
STEP(pad_far, rf_pad(t, in[0], (const int64_t[3]){ 0 }, (const int64_t[3]){ 0 }, 3, 0))
STEP(pad_less, rf_pad(t, in[0], (const int64_t[1]){ -1 }, (const int64_t[1]){ 0 }, 1, 0))
STEP(pad_nothing, rf_pad(t, in[0], NULL, NULL, 1, 0))
STEP(pad_words, rf_pad(t, in[1], (const int64_t[1]){ 1 }, (const int64_t[1]){ 0 }, 1, 0))
STEP(tile_none, rf_tile(t, in[0], (const int64_t[1]){ 0 }, 1))
STEP(tile_far, rf_tile(t, in[0], (const int64_t[3]){ 1, 1, 1 }, 3))
STEP(tile_nothing, rf_tile(t, in[0], NULL, 1))
STEP(reverse_far, rf_reverse(t, in[0], 2))
STEP(clip_nothing, rf_clip(t, in[0], 1, 0))
STEP(clip_nan, rf_clip(t, in[0], NAN, 0))
STEP(squeeze_wide, rf_squeeze(t, in[0], 1))

static void mistakes(rf_strategy *strategy)
{
    const rf_result invalid = RF_ERROR_INVALID_ARGUMENT;
    refuse_step(strategy, join_nothing, invalid, "rf_concat: tensors: there are none");
    refuse_step(strategy, join_no_array, invalid, "rf_stack: tensors: the array is NULL");
    refuse_step(strategy, join_types, invalid, "concat: input 1 is i32");
    refuse_step(strategy, join_no_axis, invalid, "has no axis 2");
    refuse_step(strategy, join_scalars, invalid, "concat: shape [] has no axis 0");
    refuse_step(strategy, join_bytes, invalid, "has no axis 3");
    refuse_step(strategy, join_u8, RF_ERROR_UNSUPPORTED, "concat: u8 tensors are not supported; cast to f32");
    refuse_step(strategy, join_invalid, invalid, "rf_concat: tensors");
    refuse_step(strategy, join_shapes, invalid, "differ beside axis 0");
    refuse_step(strategy, stack_shapes, invalid, "rf_stack: shapes ");
    refuse_step(strategy, split_odd, invalid, "does not divide into 4 equal parts");
    refuse_step(strategy, split_none, invalid, "does not divide into 0 equal parts");
    refuse_step(strategy, split_nowhere, invalid, "rf_split_tensor: out is NULL");
    refuse_step(strategy, split_no_axis, invalid, "has no axis -3");
    refuse_step(strategy, expand_far, invalid, "expand_dims: there is no axis 3");
    refuse_step(strategy, compare_how, invalid, "rf_compare: comparison 6 does not exist");
    refuse_step(strategy, compare_words, invalid, "rf_compare: one operand is i32, the other f32");
    refuse_step(strategy, where_words, invalid, "where: operand 0 is i32, not f32");
    refuse_step(strategy, where_shapes, invalid, "rf_where: shapes ");
    refuse_step(strategy, pad_far, invalid, "pad: padding for 3 axes, but shape");
    refuse_step(strategy, pad_less, invalid, "pad: -1 elements before and 0 after axis 0");
    refuse_step(strategy, pad_nothing, invalid, "rf_pad: before is NULL but num_axes is 1");
    refuse_step(strategy, pad_words, invalid, "pad: ");
    refuse_step(strategy, tile_none, invalid, "tile: 0 copies along axis 0");
    refuse_step(strategy, tile_far, invalid, "tile: copies along 3 axes, but shape");
    refuse_step(strategy, tile_nothing, invalid, "rf_tile: copies is NULL but num_axes is 1");
    refuse_step(strategy, reverse_far, invalid, "rf_reverse: shape ");
    refuse_step(strategy, clip_nothing, invalid, "rf_clip: low is 1 and high 0");
    refuse_step(strategy, clip_nan, invalid, "rf_clip: low is nan");
    refuse_step(strategy, squeeze_wide, invalid, "squeeze: axis 1 of shape");
}

TEST_ON_TWO(joins)
TEST_ON_TWO(batches)
TEST_ON_TWO(selects)
TEST_ON_TWO(arranges)
TEST_ON_ONE(words)
TEST_ON_ONE(mistakes)

TESTS(joining, NULL, NULL)
