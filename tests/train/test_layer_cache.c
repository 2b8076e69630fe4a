/* SPDX-License-Identifier: Apache-2.0 */
/* A model of the library's layers, whose attention keeps keys and values, says of pieces of a sequence what it says of
 * the whole one; and mistakes with a cache. */
#include <math.h>

#include "../support/strategies.h"
#include "tests/room.h"

enum { TOKENS = 13, WIDTH = 12, HEADS = 4, FEW = 2, KEY = 4, VALUE = 3, LENGTH = 9, LAYERS = 2, MOST_ROWS = 3 };

typedef struct net {
    rf_model *model;
    rf_layer *embedding, *positions, *attention[LAYERS], *head;
    rf_variable *kept[LAYERS][2];
    int64_t rows;
    rf_function *whole, *piece;
} net;

/* Places that the second attention attends to, of all that a sequence may have. */
static const float seen[LENGTH] = { 1, 0, 1, 1, 1, 0, 1, 1, 1 };

/* The layers; where the sequence comes in pieces, from `start` on, with what was kept of earlier ones. */
static rf_tensor apply(rf_trace *t, const net *n, rf_tensor tokens, rf_tensor start, rf_mode mode)
{
    rf_tensor x = rf_layer_call(t, n->model, n->embedding, tokens, mode);
    rf_layer_apply_params p = { .in = &x, .num_in = 1, .mode = mode, .start_index = start };
    rf_tensor placed, y[3];
    (void)rf_layer_apply(t, n->model, n->positions, &p, &placed, 1);
    x = placed;
    for (int i = 0; i < LAYERS; i++) {
        if (i > 0) p.mask = rf_constant_array(t, &(rf_array){ RF_F32, RF_SHAPE(1, LENGTH), (void *)(uintptr_t)seen });
        for (int k = 0; k < 2 && start.id; k++) p.cache[k] = rf_variable_tensor(t, n->kept[i][k]);
        (void)rf_layer_apply(t, n->model, n->attention[i], &p, y, start.id ? 3 : 1);
        for (int k = 0; k < 2 && start.id; k++)
            (void)rf_variable_update(t, n->kept[i][k], y[1 + k], RF_AGGREGATE_FIRST_REPLICA);
        x = rf_add(t, x, y[0]);
    }
    return rf_layer_call(t, n->model, n->head, x, mode);
}

static rf_tensor forward(rf_trace *t, rf_model *model, rf_tensor tokens, rf_mode mode, void *user)
{
    (void)model;
    return apply(t, user, tokens, (rf_tensor){ 0 }, mode);
}

static rf_result whole_step(rf_trace *t, const rf_tensor *in, rf_tensor *out, void *user)
{
    out[0] = rf_model_call(t, ((const net *)user)->model, in[0], RF_INFERENCE);
    return rf_trace_status(t);
}

/* Tokens [1, rows, steps] and the place of the first one [1, 1]. */
static rf_result piece_step(rf_trace *t, const rf_tensor *in, rf_tensor *out, void *user)
{
    const int64_t first = 0, second = 1;
    const rf_tensor tokens = rf_squeeze(t, rf_slice(t, in[0], &first, &second, NULL, 1), 0);
    const rf_tensor start = rf_slice(t, in[1], &first, &second, NULL, 1);
    out[0] = rf_expand_dims(t, apply(t, user, tokens, start, RF_INFERENCE), 0);
    return rf_trace_status(t);
}

static void create_layers(rf_strategy *strategy, net *n)
{
    OK(rf_model_create_custom(strategy, forward, n, &n->model));
    OK(rf_layer_embedding(&(rf_embedding_params){ .input_dim = TOKENS, .output_dim = WIDTH }, &n->embedding));
    OK(rf_layer_position_embedding(LENGTH, NULL, NULL, &n->positions));
    OK(rf_layer_dense(&(rf_dense_params){ .units = TOKENS }, &n->head));
    for (int i = 0; i < LAYERS; i++) {
        const rf_multi_head_attention_params params = { .num_heads = HEADS,
                                                        .num_key_value_heads = i == 0 ? FEW : 0,
                                                        .key_dim = KEY,
                                                        .value_dim = VALUE,
                                                        .causal = true,
                                                        .rotary_base = i == 0 ? 50 : 0 };
        OK(rf_layer_multi_head_attention(&params, &n->attention[i]));
        OK(rf_model_add_layer(n->model, n->attention[i]));
    }
    OK(rf_model_add_layer(n->model, n->embedding));
    OK(rf_model_add_layer(n->model, n->positions));
    OK(rf_model_add_layer(n->model, n->head));
    OK(rf_model_build_for(n->model, RF_I32, RF_SHAPE(LENGTH)));
}

/* Initial kernels make scores that hardly differ: larger weights let attention choose. */
static void enlarge(rf_model *model)
{
    const rf_variable_list list = rf_model_variables(model);
    for (uint32_t i = 0; i < list.count; i++) {
        float values[512];
        const size_t count = (size_t)rf_shape_count(rf_variable_shape(list.items[i]));
        assert_true(count <= sizeof(values) / sizeof(values[0]));
        fill_noise(values, count, i + 1);
        OK(rf_variable_assign(list.items[i], values));
    }
}

static void open_net(rf_strategy *strategy, int64_t rows, net *n)
{
    *n = (net){ .rows = rows };
    create_layers(strategy, n);
    enlarge(n->model);
    for (int i = 0; i < LAYERS; i++)
        for (int k = 0; k < 2; k++) {
            const rf_variable_params params = { .shape =
                                                    RF_SHAPE(rows, i == 0 ? FEW : HEADS, LENGTH, k == 0 ? KEY : VALUE),
                                                .initializer = { .kind = RF_INIT_ZEROS },
                                                .not_trainable = true };
            OK(rf_variable_create(strategy, &params, &n->kept[i][k]));
        }
    OK(rf_function_create(strategy, &(rf_function_params){ .step = whole_step, .user = n, .num_outputs = 1 },
                          &n->whole));
    OK(rf_function_create(strategy, &(rf_function_params){ .step = piece_step, .user = n, .num_outputs = 1 },
                          &n->piece));
}

static void close_net(net *n)
{
    rf_function_destroy(&n->whole);
    rf_function_destroy(&n->piece);
    for (int i = 0; i < LAYERS; i++)
        for (int k = 0; k < 2; k++) rf_variable_destroy(&n->kept[i][k]);
    rf_model_destroy(&n->model);
}

static void read_piece(rf_strategy *strategy, const net *n, const int32_t *tokens, int64_t start, int64_t steps,
                       const float *whole)
{
    int32_t part[MOST_ROWS * LENGTH], place = (int32_t)start;
    for (int64_t row = 0; row < n->rows; row++)
        memcpy(part + row * steps, tokens + row * LENGTH + start, (size_t)steps * sizeof(int32_t));
    const rf_element batch = { 2, { array_i32(RF_SHAPE(1, n->rows, steps), part), array_i32(RF_SHAPE(1, 1), &place) } };
    rf_array logits = run_gathered(strategy, n->piece, &batch);
    assert_true(rf_shape_equal(logits.shape, RF_SHAPE(1, n->rows, steps, TOKENS)));
    for (int64_t row = 0; row < n->rows; row++)
        for (int64_t i = 0; i < steps * TOKENS; i++)
            assert_near((double)((const float *)logits.data)[row * steps * TOKENS + i],
                        (double)whole[(row * LENGTH + start) * TOKENS + i], 1e-4, 1e-4, "logit");
    rf_array_free(&logits);
}

static void read_rows(rf_strategy *strategy, int64_t rows)
{
    net n;
    int32_t tokens[MOST_ROWS * LENGTH];
    for (int i = 0; i < MOST_ROWS * LENGTH; i++) tokens[i] = (i * 7 + i * i % 5) % TOKENS;
    open_net(strategy, rows, &n);
    const rf_element batch = { 1, { array_i32(RF_SHAPE(rows, LENGTH), tokens) } };
    rf_array whole = run_gathered(strategy, n.whole, &batch);
    for (int64_t i = 0; i < LENGTH; i++) read_piece(strategy, &n, tokens, i, 1, whole.data);
    read_piece(strategy, &n, tokens, 0, LENGTH, whole.data);
    read_piece(strategy, &n, tokens, 3, 4, whole.data);
    read_piece(strategy, &n, tokens, 7, 1, whole.data);
    assert_int_equal(rf_function_num_traces(n.piece), 3);
    OK(rf_strategy_check_identical(strategy, NULL, NULL));
    rf_array_free(&whole);
    close_net(&n);
}

static void reads_one(rf_strategy *strategy)
{
    read_rows(strategy, 1);
}
TEST_ON_ONE(reads_one)

static void reads_three(rf_strategy *strategy)
{
    read_rows(strategy, 3);
}
TEST_ON_TWO(reads_three)

/* ---- without a cache ---- */

/* The two further outputs are what a cache holds once everything has been read. */
static rf_result outputs_step(rf_trace *t, const rf_tensor *in, rf_tensor *out, void *user)
{
    const net *n = user;
    const rf_tensor zeros =
        rf_constant_array(t, &(rf_array){ RF_F32, RF_SHAPE(1, FEW, LENGTH, KEY), (float[FEW * LENGTH * KEY]){ 0 } });
    const rf_tensor no_values = rf_constant_array(
        t, &(rf_array){ RF_F32, RF_SHAPE(1, FEW, LENGTH, VALUE), (float[FEW * LENGTH * VALUE]){ 0 } });
    const rf_tensor x = rf_slice(t, in[0], (int64_t[]){ 0 }, (int64_t[]){ 1 }, NULL, 1);
    rf_layer_apply_params p = { .in = &x, .num_in = 1, .mode = RF_INFERENCE };
    rf_tensor kept[3];
    (void)rf_layer_apply(t, n->model, n->attention[0], &p, out, 3);
    p.start_index = rf_constant_array(t, &(rf_array){ RF_I32, RF_SHAPE(1), &(int32_t){ 0 } });
    p.cache[0] = zeros;
    p.cache[1] = no_values;
    (void)rf_layer_apply(t, n->model, n->attention[0], &p, kept, 3);
    for (int i = 0; i < 3; i++) out[3 + i] = kept[i];
    return rf_trace_status(t);
}

static void gives_all(rf_strategy *strategy)
{
    net n;
    rf_function *function;
    float x[LENGTH * WIDTH];
    rf_per_replica *results[6];
    rf_array is[6];
    fill_noise(x, LENGTH * WIDTH, 9);
    open_net(strategy, 1, &n);
    OK(rf_function_create(strategy, &(rf_function_params){ .step = outputs_step, .user = &n, .num_outputs = 6 },
                          &function));
    const rf_element batch = { 1, { array_f32(RF_SHAPE(1, LENGTH, WIDTH), x) } };
    OK(rf_strategy_run(strategy, function, &batch, results));
    for (int i = 0; i < 6; i++) OK(rf_strategy_gather(strategy, results[i], &is[i]));
    assert_true(rf_shape_equal(is[1].shape, RF_SHAPE(1, FEW, LENGTH, KEY)));
    assert_true(rf_shape_equal(is[2].shape, RF_SHAPE(1, FEW, LENGTH, VALUE)));
    for (int i = 0; i < 3; i++) {
        assert_true(rf_shape_equal(is[i].shape, is[3 + i].shape));
        for (int64_t k = 0; k < rf_shape_count(is[i].shape); k++)
            assert_near((double)((const float *)is[i].data)[k], (double)((const float *)is[3 + i].data)[k], 1e-5, 1e-5,
                        "output");
    }
    for (int i = 0; i < 6; i++) rf_array_free(&is[i]);
    rf_function_destroy(&function);
    close_net(&n);
}
TEST_ON_ONE(gives_all)

/* A functional model can give them as well. */
static void builds(rf_strategy *strategy)
{
    rf_model_builder *b;
    rf_model *model;
    rf_layer *layer;
    rf_dataset *data, *batches;
    rf_symbol y[3];
    rf_array is[3];
    float x[LENGTH * WIDTH];
    fill_noise(x, LENGTH * WIDTH, 9);
    OK(rf_layer_multi_head_attention(
        &(rf_multi_head_attention_params){ .num_heads = HEADS, .key_dim = KEY, .value_dim = VALUE }, &layer));
    OK(rf_model_builder_create(strategy, &b));
    const rf_symbol input = rf_model_builder_input(b, RF_F32, RF_SHAPE(LENGTH, WIDTH), NULL);
    OK(rf_model_builder_apply(b, layer, &input, 1, (rf_symbol){ 0 }, y, 3));
    OK(rf_model_builder_finish(&b, y, 3, NULL, &model));
    const rf_array example = array_f32(RF_SHAPE(1, LENGTH, WIDTH), x);
    OK(rf_dataset_from_arrays(&(rf_dataset_arrays_params){ .arrays = &example, .num_arrays = 1 }, &data));
    OK(rf_dataset_batch(data, 1, RF_REMAINDER_KEEP, &batches));
    OK(rf_model_predict_many(model, batches, is, 3));
    assert_true(rf_shape_equal(is[0].shape, RF_SHAPE(1, LENGTH, WIDTH)));
    assert_true(rf_shape_equal(is[1].shape, RF_SHAPE(1, HEADS, LENGTH, KEY)));
    assert_true(rf_shape_equal(is[2].shape, RF_SHAPE(1, HEADS, LENGTH, VALUE)));
    for (int i = 0; i < 3; i++) rf_array_free(&is[i]);
    rf_dataset_destroy(&batches);
    rf_dataset_destroy(&data);
    rf_model_destroy(&model);
}
TEST_ON_ONE(builds)

/* ---- sines ---- */

enum { SINE_WIDTH = 7, SINE_STEPS = 5 };

/* x [1, steps, width] and the place of the first step [1, 1]. */
static rf_result sine_step(rf_trace *t, const rf_tensor *in, rf_tensor *out, void *user)
{
    const net *n = user;
    const int64_t first = 0, second = 1;
    const rf_tensor start = rf_slice(t, in[1], &first, &second, NULL, 1);
    const rf_layer_apply_params p = { .in = in, .num_in = 1, .mode = RF_INFERENCE, .start_index = start };
    return rf_layer_apply(t, n->model, n->positions, &p, out, 1);
}

static rf_tensor sine_forward(rf_trace *t, rf_model *model, rf_tensor x, rf_mode mode, void *user)
{
    return rf_layer_call(t, model, ((net *)user)->positions, x, mode);
}

static rf_result sine_whole(rf_trace *t, const rf_tensor *in, rf_tensor *out, void *user)
{
    out[0] = rf_model_call(t, ((net *)user)->model, in[0], RF_INFERENCE);
    return rf_trace_status(t);
}

static void read_sines(rf_strategy *strategy, rf_function *function, int32_t place, const float *whole)
{
    float x[SINE_STEPS * SINE_WIDTH];
    for (int i = 0; i < SINE_STEPS * SINE_WIDTH; i++) x[i] = 0.25f;
    const rf_element batch = {
        2, { array_f32(RF_SHAPE(1, SINE_STEPS, SINE_WIDTH), x), array_i32(RF_SHAPE(1, 1), &place) }
    };
    rf_array is = run_gathered(strategy, function, &batch);
    for (int i = 0; i < SINE_STEPS * SINE_WIDTH; i++) {
        const int column = i % SINE_WIDTH, at = place + i / SINE_WIDTH;
        const double angle = at / pow(10000, (double)(column - column % 2) / SINE_WIDTH);
        const double given = (double)((const float *)is.data)[i];
        if (at > 65535)
            assert_true(isnan(given));
        else
            assert_near(given, 0.25 + (column % 2 ? cos(angle) : sin(angle)), 2e-6, 2e-6, "sine");
        if (whole) assert_near(given, (double)whole[(int64_t)place * SINE_WIDTH + i], 2e-6, 2e-6, "sine of the whole");
    }
    rf_array_free(&is);
}

static void places_sines(rf_strategy *strategy)
{
    enum { WHOLE = 300 };
    static float x[WHOLE * SINE_WIDTH];
    net n = { 0 };
    rf_function *function, *all;
    for (int i = 0; i < WHOLE * SINE_WIDTH; i++) x[i] = 0.25f;
    OK(rf_model_create_custom(strategy, sine_forward, &n, &n.model));
    OK(rf_layer_sine_position_encoding(0, &n.positions));
    OK(rf_model_add_layer(n.model, n.positions));
    OK(rf_model_build_for(n.model, RF_F32, RF_SHAPE(WHOLE, SINE_WIDTH)));
    OK(rf_function_create(strategy, &(rf_function_params){ .step = sine_whole, .user = &n, .num_outputs = 1 }, &all));
    OK(rf_function_create(strategy, &(rf_function_params){ .step = sine_step, .user = &n, .num_outputs = 1 },
                          &function));
    const rf_element batch = { 1, { array_f32(RF_SHAPE(1, WHOLE, SINE_WIDTH), x) } };
    rf_array whole = run_gathered(strategy, all, &batch);
    static const int32_t within[] = { 0, 1, 254, WHOLE - SINE_STEPS }, beyond[] = { 5000, 65531, 65533 };
    for (size_t i = 0; i < sizeof(within) / sizeof(within[0]); i++)
        read_sines(strategy, function, within[i], whole.data);
    for (size_t i = 0; i < sizeof(beyond) / sizeof(beyond[0]); i++) read_sines(strategy, function, beyond[i], NULL);
    assert_int_equal(rf_function_num_traces(function), 1);
    rf_array_free(&whole);
    rf_function_destroy(&function);
    rf_function_destroy(&all);
    rf_model_destroy(&n.model);
}
TEST_ON_ONE(places_sines)

/* ---- mistakes ---- */

enum { DENSE_START, DENSE_CACHE, ONLY_START, ONLY_CACHE, ONE_TENSOR, TWO_INPUTS, OTHER_SHAPE, SEVERAL, NUM_MISTAKES };

typedef struct mistake {
    const net *net;
    int number;
} mistake;

static rf_result mistaken_step(rf_trace *t, const rf_tensor *in, rf_tensor *out, void *user)
{
    const mistake *m = user;
    const net *n = m->net;
    const rf_tensor x[] = { in[0], in[0] };
    const int32_t places[2] = { 0, 1 };
    const rf_tensor place = rf_constant_array(t, &(rf_array){ RF_I32, RF_SHAPE(1), (void *)(uintptr_t)places });
    const rf_tensor two = rf_constant_array(t, &(rf_array){ RF_I32, RF_SHAPE(2), (void *)(uintptr_t)places });
    const rf_tensor key = rf_variable_tensor(t, n->kept[0][0]), value = rf_variable_tensor(t, n->kept[0][1]);
    rf_layer_apply_params p = { .in = x, .num_in = 1, .start_index = place, .cache = { key, value } };
    if (m->number == DENSE_START || m->number == ONLY_START) p.cache[0] = p.cache[1] = (rf_tensor){ 0 };
    if (m->number == DENSE_CACHE || m->number == ONLY_CACHE) p.start_index = (rf_tensor){ 0 };
    if (m->number == ONE_TENSOR) p.cache[1] = (rf_tensor){ 0 };
    if (m->number == TWO_INPUTS) p.num_in = 2;
    if (m->number == OTHER_SHAPE) p.cache[1] = key;
    if (m->number == SEVERAL) p.start_index = two;
    rf_layer *layer = m->number <= DENSE_CACHE ? n->head : n->attention[0];
    return rf_layer_apply(t, n->model, layer, &p, out, 1);
}

static void mistakes(rf_strategy *strategy)
{
    static const char *const messages[NUM_MISTAKES] = {
        [DENSE_START] = "takes no start_index",
        [DENSE_CACHE] = "takes no cache",
        [ONLY_START] = "go together",
        [ONLY_CACHE] = "go together",
        [ONE_TENSOR] = "go together",
        [TWO_INPUTS] = "a cache needs a causal layer whose query attends to itself",
        [OTHER_SHAPE] = "the values of the cache are f32 [1,2,9,4], not f32 [n, 2, places of the keys, 3]",
        [SEVERAL] = "start_index is i32 [2], must be i32 of one element",
    };
    net n;
    float x[LENGTH * WIDTH] = { 0 };
    open_net(strategy, 1, &n);
    const rf_element batch = { 1, { array_f32(RF_SHAPE(1, LENGTH, WIDTH), x) } };
    for (int i = 0; i < NUM_MISTAKES; i++) {
        rf_function *function;
        mistake m = { &n, i };
        OK(rf_function_create(strategy, &(rf_function_params){ .step = mistaken_step, .user = &m, .num_outputs = 1 },
                              &function));
        FAILS(rf_strategy_run(strategy, function, &batch, NULL), RF_ERROR_INVALID_ARGUMENT, messages[i]);
        rf_function_destroy(&function);
    }
    close_net(&n);
}
TEST_ON_ONE(mistakes)

TESTS(layer_cache, NULL, NULL)
