/* SPDX-License-Identifier: Apache-2.0 */
/* rf_slice_update() at places that the batch says: values, gradients, one trace for all of them, and mistakes. */
#include "../support/strategies.h"
#include "tests/room.h"

enum { N = 3, C = 6, COUNT = 3, OUTPUTS = 6 };

typedef struct inputs {
    float x[N * C], updates[N * COUNT], weights[C];
    int32_t start[N];
} inputs;

/* Some columns of x [n, 6], and then a row of the same numbers as [n, 3, 2]. */
static rf_result update_step(rf_trace *t, const rf_tensor *in, rf_tensor *out, void *user)
{
    const inputs *d = user;
    const rf_tensor start = rf_slice(t, in[2], (int64_t[]){ 0 }, (int64_t[]){ 1 }, NULL, 1);
    const rf_tensor weights = rf_constant_array(t, &(rf_array){ RF_F32, RF_SHAPE(C), (void *)(uintptr_t)d->weights });
    out[0] = rf_slice_update(t, in[0], in[1], start, 1);
    const rf_tensor loss = rf_reduce_sum(t, rf_multiply(t, out[0], weights), NULL, 0, RF_DROP_DIMS);
    (void)rf_gradients(t, loss, in, 2, &out[1]);
    const rf_tensor rows = rf_reshape(t, in[0], RF_SHAPE(-1, 3, 2));
    const rf_tensor row =
        rf_expand_dims(t, rf_slice(t, in[1], (int64_t[]){ 0, 0 }, (int64_t[]){ INT64_MAX, 2 }, NULL, 2), 1);
    out[3] = rf_slice_update(t, rows, row, start, -2);
    const rf_tensor flat = rf_reshape(t, out[3], RF_SHAPE(-1, C));
    return rf_gradients(t, rf_reduce_sum(t, rf_multiply(t, flat, weights), NULL, 0, RF_DROP_DIMS), in, 2, &out[4]);
}

/* `count` units of `width` elements, as rows of C, from `start` on; of what they hold, `from_updates` is the gradient.
 */
static void expect(const inputs *d, int count, int width, int start, float *y, float *from_x, float *from_updates)
{
    memset(from_updates, 0, N * COUNT * sizeof(float));
    for (int n = 0; n < N; n++)
        for (int c = 0; c < C; c++) {
            const int unit = c / width - start;
            const bool updated = unit >= 0 && unit < count;
            const int at = n * COUNT + unit * width + c % width;
            y[n * C + c] = updated ? d->updates[at] : d->x[n * C + c];
            from_x[n * C + c] = updated ? 0 : d->weights[c];
            if (updated) from_updates[at] = d->weights[c];
        }
}

static void compare(const rf_array *is, const float *expected, int64_t count, const char *what)
{
    assert_int_equal(rf_shape_count(is->shape), count);
    for (int64_t i = 0; i < count; i++)
        assert_near((double)((const float *)is->data)[i], (double)expected[i], 0, 0, what);
}

static void updates(rf_strategy *strategy)
{
    inputs d;
    rf_function *function;
    fill_noise(d.x, N * C, 1);
    fill_noise(d.updates, N * COUNT, 2);
    for (int c = 0; c < C; c++) d.weights[c] = (float)(c + 1);
    OK(rf_function_create(strategy, &(rf_function_params){ .step = update_step, .user = &d, .num_outputs = OUTPUTS },
                          &function));
    for (int start = -4; start <= C; start++) {
        float y[N * C], from_x[N * C], from_updates[N * COUNT];
        rf_per_replica *results[OUTPUTS];
        rf_array is[OUTPUTS];
        for (int n = 0; n < N; n++) d.start[n] = start;
        const rf_element batch = { 3,
                                   { array_f32(RF_SHAPE(N, C), d.x), array_f32(RF_SHAPE(N, COUNT), d.updates),
                                     array_i32(RF_SHAPE(N, 1), d.start) } };
        OK(rf_strategy_run(strategy, function, &batch, results));
        for (int i = 0; i < OUTPUTS; i++) OK(rf_strategy_gather(strategy, results[i], &is[i]));
        for (int i = 0; i < OUTPUTS; i += 3) {
            expect(&d, i == 0 ? COUNT : 1, i == 0 ? 1 : 2, start, y, from_x, from_updates);
            compare(&is[i], y, N * C, "updated");
            compare(&is[i + 1], from_x, N * C, "gradient of x");
            compare(&is[i + 2], from_updates, N * COUNT, "gradient of the updates");
        }
        for (int i = 0; i < OUTPUTS; i++) rf_array_free(&is[i]);
    }
    assert_int_equal(rf_function_num_traces(function), 1);
    rf_function_destroy(&function);
}
TEST_ON_ONE(updates)
TEST_ON_TWO(updates)

/* ---- mistakes ---- */

enum { NO_AXIS, TOO_LONG, OTHER_SHAPE, OTHER_RANK, INTEGERS, SEVERAL_PLACES, FLOAT_PLACE, NO_TENSOR, NUM_MISTAKES };

static rf_result mistaken_step(rf_trace *t, const rf_tensor *in, rf_tensor *out, void *user)
{
    const int mistake = *(const int *)user;
    const rf_tensor x = in[0], part = in[1];
    const rf_tensor start = rf_slice(t, in[2], (int64_t[]){ 0 }, (int64_t[]){ 1 }, NULL, 1);
    switch (mistake) {
    case NO_AXIS: out[0] = rf_slice_update(t, x, part, start, 2); break;
    case TOO_LONG: out[0] = rf_slice_update(t, part, x, start, 1); break;
    case OTHER_SHAPE: out[0] = rf_slice_update(t, x, part, start, 0); break;
    case OTHER_RANK: out[0] = rf_slice_update(t, x, rf_expand_dims(t, part, 2), start, 1); break;
    case INTEGERS: out[0] = rf_slice_update(t, x, rf_cast(t, part, RF_I32), start, 1); break;
    case SEVERAL_PLACES: out[0] = rf_slice_update(t, x, part, in[2], 1); break;
    case FLOAT_PLACE: out[0] = rf_slice_update(t, x, part, rf_cast(t, start, RF_F32), 1); break;
    default: out[0] = rf_slice_update(t, x, (rf_tensor){ 0 }, start, 1); break;
    }
    return rf_trace_status(t);
}

static void mistakes(rf_strategy *strategy)
{
    static const char *const messages[NUM_MISTAKES] = {
        [NO_AXIS] = "has no axis 2",    [TOO_LONG] = "fit into x",
        [OTHER_SHAPE] = "along axis 0", [OTHER_RANK] = "[3,3,1]",
        [INTEGERS] = "updates are i32", [SEVERAL_PLACES] = "start is i32 [3,1], must be i32 of one element",
        [FLOAT_PLACE] = "start is f32", [NO_TENSOR] = "rf_slice_update: updates",
    };
    inputs d = { .x = { 0 } };
    const rf_element batch = { 3,
                               { array_f32(RF_SHAPE(N, C), d.x), array_f32(RF_SHAPE(N, COUNT), d.updates),
                                 array_i32(RF_SHAPE(N, 1), d.start) } };
    for (int i = 0; i < NUM_MISTAKES; i++) {
        rf_function *function;
        OK(rf_function_create(strategy, &(rf_function_params){ .step = mistaken_step, .user = &i, .num_outputs = 1 },
                              &function));
        FAILS(rf_strategy_run(strategy, function, &batch, NULL), RF_ERROR_INVALID_ARGUMENT, messages[i]);
        rf_function_destroy(&function);
    }
}
TEST_ON_ONE(mistakes)

TESTS(slice_update, NULL, NULL)
