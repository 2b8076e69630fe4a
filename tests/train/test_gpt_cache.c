/* SPDX-License-Identifier: Apache-2.0 */
/* A GPT that keeps keys and values says at each position what it says of the whole text at once, and writes the same.
 */
#include "../../examples/gpt/writer.h"
#include "../support/strategies.h"
#include "tests/room.h"

enum { BLOCK = 11, VOCABULARY = 29, MOST_ROWS = 3 };

static const gpt_config config = {
    .layers = 2, .heads = 2, .width = 32, .block = BLOCK, .vocabulary = VOCABULARY, .dropout = 0.3f, .bias = true
};

typedef struct reader {
    gpt *gpt;
    gpt_cache *cache;
    int64_t rows;
    rf_function *whole, *on;
} reader;

/* Weights as large as those of trained networks: attention is far from a plain mean, and the order of tokens counts.
 * Those of tokens alone and of none are small, or else a token would always be followed by itself, or by one token. */
static void assign_noise(rf_model *model)
{
    const rf_variable_list list = rf_model_variables(model);
    for (uint32_t i = 0; i < list.count; i++) {
        float values[4 * 32 * 32];
        const size_t count = (size_t)rf_shape_count(rf_variable_shape(list.items[i]));
        assert_true(count <= sizeof(values) / sizeof(values[0]));
        fill_noise(values, count, i + 1);
        const char *name = rf_variable_name(list.items[i]);
        const float scale = strstr(name, "tokens/") || strstr(name, "/beta") ? 0.05f : 0.6f;
        for (size_t k = 0; k < count; k++) values[k] *= scale;
        OK(rf_variable_assign(list.items[i], values));
    }
}

static gpt *create_gpt(rf_strategy *strategy)
{
    gpt *g;
    OK(gpt_create(strategy, &config, &g));
    OK(rf_model_build_for(gpt_model(g), RF_I32, RF_SHAPE(BLOCK)));
    assign_noise(gpt_model(g));
    return g;
}

static rf_result whole_step(rf_trace *t, const rf_tensor *in, rf_tensor *out, void *user)
{
    out[0] = rf_model_call(t, gpt_model(((const reader *)user)->gpt), in[0], RF_INFERENCE);
    return rf_trace_status(t);
}

/* Tokens [1, rows, t], places [1, t] and the last one [1, 1]. */
static rf_result on_step(rf_trace *t, const rf_tensor *in, rf_tensor *out, void *user)
{
    const reader *r = user;
    rf_tensor only[3];
    for (int i = 0; i < 3; i++)
        only[i] = rf_squeeze(t, rf_slice(t, in[i], (int64_t[]){ 0 }, (int64_t[]){ 1 }, NULL, 1), 0);
    out[0] = rf_expand_dims(t, gpt_go_on(t, r->cache, only[0], only[1], only[2]), 0);
    return rf_trace_status(t);
}

static void open_reader(rf_strategy *strategy, int64_t rows, reader *r)
{
    *r = (reader){ .gpt = create_gpt(strategy), .rows = rows };
    OK(gpt_cache_create(strategy, r->gpt, (uint32_t)rows, &r->cache));
    OK(rf_function_create(strategy, &(rf_function_params){ .step = whole_step, .user = r, .num_outputs = 1 },
                          &r->whole));
    OK(rf_function_create(strategy, &(rf_function_params){ .step = on_step, .user = r, .num_outputs = 1 }, &r->on));
}

static void close_reader(reader *r)
{
    rf_function_destroy(&r->on);
    rf_function_destroy(&r->whole);
    gpt_cache_destroy(&r->cache);
    gpt_destroy(&r->gpt);
}

/* Reads tokens at place, place + 1, ..., of which number `last` is asked for, and compares with the whole text's. */
static void read_on(rf_strategy *strategy, const reader *r, const int32_t *tokens, int64_t place, int64_t count,
                    int64_t last, const float *whole)
{
    int32_t part[MOST_ROWS * BLOCK], places[BLOCK], number = (int32_t)last;
    for (int64_t i = 0; i < count; i++) places[i] = (int32_t)(place + i);
    /* Tokens after the last one are not read yet. */
    for (int64_t row = 0; row < r->rows; row++)
        for (int64_t i = 0; i < count; i++) part[row * count + i] = i <= last ? tokens[row * BLOCK + place + i] : 5;
    const rf_element batch = { 3,
                               { array_i32(RF_SHAPE(1, r->rows, count), part), array_i32(RF_SHAPE(1, count), places),
                                 array_i32(RF_SHAPE(1, 1), &number) } };
    rf_array logits = run_gathered(strategy, r->on, &batch);
    assert_int_equal(rf_shape_count(logits.shape), r->rows * VOCABULARY);
    for (int64_t row = 0; row < r->rows; row++)
        for (int64_t v = 0; v < VOCABULARY; v++)
            assert_near((double)((const float *)logits.data)[row * VOCABULARY + v],
                        (double)whole[(row * BLOCK + place + last) * VOCABULARY + v], 1e-4, 2e-6, "logit");
    rf_array_free(&logits);
}

static void read_rows(rf_strategy *strategy, int64_t rows)
{
    reader r;
    int32_t tokens[MOST_ROWS * BLOCK];
    for (int i = 0; i < MOST_ROWS * BLOCK; i++) tokens[i] = (i * 11 + i * i % 7) % VOCABULARY;
    open_reader(strategy, rows, &r);
    rf_array whole = run_gathered(strategy, r.whole, &(rf_element){ 1, { array_i32(RF_SHAPE(rows, BLOCK), tokens) } });
    for (int64_t i = 0; i < BLOCK; i++) read_on(strategy, &r, tokens, i, 1, 0, whole.data);
    assert_int_equal(rf_function_num_traces(r.on), 1);
    /* A beginning in one go, which writes over what was kept; then pieces of several tokens, and of one. */
    read_on(strategy, &r, tokens, 0, BLOCK, 3, whole.data);
    read_on(strategy, &r, tokens, 4, 1, 0, whole.data);
    read_on(strategy, &r, tokens, 5, 3, 2, whole.data);
    read_on(strategy, &r, tokens, 8, 3, 0, whole.data);
    for (int64_t i = 9; i < BLOCK; i++) read_on(strategy, &r, tokens, i, 1, 0, whole.data);
    assert_int_equal(rf_function_num_traces(r.on), 3);
    OK(rf_strategy_check_identical(strategy, NULL, NULL));
    rf_array_free(&whole);
    close_reader(&r);
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
TEST_ON_ONE(reads_three)
TEST_ON_TWO(reads_three)

/* ---- writing ---- */

enum { LENGTH = 4 * BLOCK, FRESH = 9 };

/* The likeliest token that is none of the latest ones, or else a network of noise would go round in a small circle. */
static int32_t likeliest(const float *logits, const int32_t *text, int length)
{
    int32_t best = -1;
    for (int32_t v = 0; v < VOCABULARY; v++) {
        bool fresh = true;
        for (int i = length > FRESH ? length - FRESH : 0; i < length; i++) fresh = fresh && text[i] != v;
        if (fresh && (best < 0 || logits[v] > logits[best])) best = v;
    }
    return best;
}

/* Far more than the model sees at once. */
static void write_greedily(rf_strategy *strategy, const gpt *g, bool cached, const int32_t *prompt, int count,
                           int32_t *text)
{
    writer *w;
    assert_int_equal(writer_create(strategy, g, &config, cached, &w), 0);
    for (int i = 0; i < count; i++) writer_add(w, prompt[i]);
    for (int i = 0; i < LENGTH; i++) {
        rf_array logits;
        assert_int_equal(writer_ask(w, &logits), 0);
        assert_int_equal(rf_shape_count(logits.shape), VOCABULARY);
        text[i] = likeliest(logits.data, text, i);
        rf_array_free(&logits);
        writer_add(w, text[i]);
    }
    writer_destroy(&w);
}

static void writes(rf_strategy *strategy)
{
    static const int32_t prompt[] = { 3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5, 8, 9, 7, 9, 3 };
    static const int lengths[] = { 0, 1, 4, BLOCK, BLOCK + 3 }; /* the last ones fill the block */
    gpt *g = create_gpt(strategy);
    for (size_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
        int32_t whole[LENGTH], cached[LENGTH];
        write_greedily(strategy, g, false, prompt, lengths[i], whole);
        write_greedily(strategy, g, true, prompt, lengths[i], cached);
        assert_memory_equal(cached, whole, sizeof(whole));
    }
    gpt_destroy(&g);
}
TEST_ON_ONE(writes)
TEST_ON_TWO(writes)

TESTS(gpt_cache, NULL, NULL)
