/* SPDX-License-Identifier: Apache-2.0 */
/* Generation: the choice of tokens without a device; texts with keys and values kept, and read again for each token. */
#include <math.h>

#include "tests/room.h"
#include "train/generate/sample.h"
#include "trajectory.h"

enum { WORDS = 13, WIDTH = 8, NEW = 9 };

/* ---- the choice ---- */

static const float some_logits[4] = { 0.0f, 2.0f, 1.0f, 2.0f };

static int32_t choose(const rf_sampling_params *p, double uniform)
{
    static const int32_t text[] = { 1, 1, 2 };
    rf_candidate room[4];
    int32_t token;
    OK(rf_sample_token(p, some_logits, 4, text, 3, uniform, room, &token));
    return token;
}

static void check_shares(const rf_sampling_params *p, const double *expected)
{
    enum { DRAWS = 20000 };
    uint32_t counts[4] = { 0 };
    for (uint32_t i = 0; i < DRAWS; i++) counts[choose(p, (i + 0.5) / DRAWS)]++;
    for (int i = 0; i < 4; i++)
        if (fabs(counts[i] / (double)DRAWS - expected[i]) > 1e-3)
            fail_msg("token %d has share %g, not %g", i, counts[i] / (double)DRAWS, expected[i]);
}

TEST(choices)
{
    const double e = exp(1.0), all = 1 + e + 2 * e * e, three = e + 2 * e * e, cool = 1 + exp(2.0) + 2 * exp(4.0);
    assert_int_equal(choose(&(rf_sampling_params){ 0 }, 0.9), 1);
    assert_int_equal(choose(&(rf_sampling_params){ .repetition_penalty = 1.5f }, 0.9), 3);
    check_shares(&(rf_sampling_params){ .temperature = 1 },
                 (const double[]){ 1 / all, e * e / all, e / all, e * e / all });
    check_shares(&(rf_sampling_params){ .temperature = 0.5f },
                 (const double[]){ 1 / cool, exp(4.0) / cool, exp(2.0) / cool, exp(4.0) / cool });
    check_shares(&(rf_sampling_params){ .temperature = 1, .top_k = 1 }, (const double[]){ 0, 1, 0, 0 });
    check_shares(&(rf_sampling_params){ .temperature = 1, .top_k = 3 },
                 (const double[]){ 0, e * e / three, e / three, e * e / three });
    /* The two likeliest have 0.80 of the probability, three of them 0.95. */
    check_shares(&(rf_sampling_params){ .temperature = 1, .top_p = 0.75f }, (const double[]){ 0, 0.5, 0, 0.5 });
    check_shares(&(rf_sampling_params){ .temperature = 1, .top_p = 0.9f },
                 (const double[]){ 0, e * e / three, e / three, e * e / three });
    check_shares(&(rf_sampling_params){ .temperature = 1, .min_p = 0.3f },
                 (const double[]){ 0, e * e / three, e / three, e * e / three });
    check_shares(&(rf_sampling_params){ .temperature = 1, .min_p = 0.4f }, (const double[]){ 0, 0.5, 0, 0.5 });
}

TEST(bad_logits)
{
    const rf_sampling_params drawn = { .temperature = 1 };
    const float bad[][2] = { { 0, NAN }, { -INFINITY, -INFINITY }, { 0, INFINITY } };
    rf_candidate room[2];
    int32_t token;
    for (size_t i = 0; i < 3; i++)
        assert_int_equal(rf_sample_token(&drawn, bad[i], 2, NULL, 0, 0.5, room, &token), RF_ERROR_NOT_FINITE);
    OK(rf_sample_token(&drawn, (const float[]){ -INFINITY, 0 }, 2, NULL, 0, 0, room, &token));
    assert_int_equal(token, 1);
}

TEST(uniform_numbers)
{
    double sum = 0;
    for (uint32_t i = 0; i < 1000; i++) {
        const double u = rf_sampling_uniform(7, i % 10, i / 10);
        assert_true(u >= 0 && u < 1);
        sum += u;
    }
    assert_true(fabs(sum / 1000 - 0.5) < 0.03);
    assert_true(rf_sampling_uniform(7, 1, 2) == rf_sampling_uniform(7, 1, 2));
    assert_true(rf_sampling_uniform(7, 1, 2) != rf_sampling_uniform(7, 2, 1));
    assert_true(rf_sampling_uniform(7, 1, 2) != rf_sampling_uniform(8, 1, 2));
}

/* ---- models ---- */

enum { LEARNED, ROTARY, DYNAMIC };

/* Two layers of attention, with learned positions as GPT-2, else as a Llama, and windows and caps. */
static rf_model *build(rf_strategy *strategy, int positions)
{
    const rf_rotary_params dynamic = { .scaling = RF_ROTARY_DYNAMIC, .original_length = 16, .factor = 4 };
    const bool rotary = positions != LEARNED;
    rf_model_builder *b;
    rf_model *model;
    rf_layer *table, *layer, *head;
    const rf_initializer wide = { .kind = RF_INIT_RANDOM_NORMAL, .b = 1 };
    rf_strategy_set_seed(strategy, 5);
    OK(rf_layer_embedding(&(rf_embedding_params){ .input_dim = WORDS, .output_dim = WIDTH, .initializer = &wide },
                          &table));
    OK(rf_layer_embedding_head(table, RF_WITHOUT_BIAS, NULL, &head));
    OK(rf_model_builder_create(strategy, &b));
    rf_symbol x = rf_model_builder_call(b, table, rf_model_builder_input(b, RF_I32, RF_SHAPE(6), "input_ids"));
    if (!rotary) {
        OK(rf_layer_position_embedding(96, &wide, NULL, &layer));
        x = rf_model_builder_call(b, layer, x);
    }
    for (int i = 0; i < 2; i++) {
        const rf_multi_head_attention_params params = { .num_heads = 4,
                                                        .num_key_value_heads = rotary ? 2 : 4,
                                                        .key_dim = 4,
                                                        .causal = true,
                                                        .rotary_base = rotary ? 100 : 0,
                                                        .rotary = positions == DYNAMIC ? &dynamic : NULL,
                                                        .window = rotary && i == 0 ? 3 : 0,
                                                        .softcap = rotary && i == 1 ? 5 : 0,
                                                        .kernel_initializer = &wide };
        OK(rf_layer_multi_head_attention(&params, &layer));
        const rf_symbol both[] = { x, rf_model_builder_call(b, layer, x) };
        OK(rf_layer_add(&layer));
        x = rf_model_builder_call_many(b, layer, both, 2);
        OK(rf_layer_rms_norm(NULL, &layer));
        x = rf_model_builder_call(b, layer, x);
    }
    x = rf_model_builder_call(b, head, x);
    OK(rf_model_builder_finish(&b, &x, 1, NULL, &model));
    return model;
}

static int32_t prompt_tokens[3][75];
static rf_array prompts[3];

/* They have 1, 4 and 75 tokens: pieces of all sizes. */
static void make_prompts(void)
{
    static const int64_t lengths[] = { 1, 4, 75 };
    for (int i = 0; i < 3; i++) {
        for (int k = 0; k < lengths[i]; k++) prompt_tokens[i][k] = (7 * i + 5 * k * k + 3) % WORDS;
        prompts[i] = (rf_array){ RF_I32, RF_SHAPE(lengths[i]), prompt_tokens[i] };
    }
}

static void check_same(const rf_array *a, const rf_array *b, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        assert_true(a[i].dtype == RF_I32 && rf_shape_equal(a[i].shape, b[i].shape));
        assert_memory_equal(a[i].data, b[i].data, (size_t)a[i].shape.dim[0] * sizeof(int32_t));
    }
}

static void free_texts(rf_array *texts, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) rf_array_free(&texts[i]);
}

/* With a cache as without, one by one as together; of prompts before `first`, the texts alone are others. */
static void compare_ways(rf_model *model, rf_sampling_params sampling, uint32_t first)
{
    rf_array kept[3], again[3], alone[3] = { 0 };
    rf_generate_params params = {
        .prompts = prompts, .num_prompts = 3, .max_new_tokens = NEW, .sampling = sampling, .seed = 3
    };
    OK(rf_model_generate(model, &params, kept));
    params.no_cache = true;
    OK(rf_model_generate(model, &params, again));
    check_same(kept, again, 3);
    params.no_cache = false;
    for (uint32_t i = first; i < 3; i++) {
        params.prompts = &prompts[i];
        params.num_prompts = 1;
        params.first_prompt = i;
        OK(rf_model_generate(model, &params, &alone[i]));
        assert_int_equal(alone[i].shape.dim[0], NEW);
    }
    check_same(kept + first, alone + first, 3 - first);
    free_texts(kept, 3);
    free_texts(again, 3);
    free_texts(alone, 3);
}

static void ways(rf_strategy *strategy)
{
    make_prompts();
    for (int positions = LEARNED; positions <= DYNAMIC; positions++) {
        rf_model *model = build(strategy, positions);
        const uint32_t first = positions == DYNAMIC ? 2 : 0; /* the longest alone has the length of all */
        compare_ways(model, (rf_sampling_params){ 0 }, first);
        compare_ways(model, (rf_sampling_params){ .temperature = 1, .top_k = 5, .repetition_penalty = 1.1f }, first);
        rf_model_destroy(&model);
    }
}

/* ---- stops ---- */

typedef struct heard {
    uint32_t count, most, last_prompt;
    int32_t tokens[NEW];
} heard;

static bool hear(uint32_t prompt, int32_t token, void *user)
{
    heard *h = user;
    h->last_prompt = prompt;
    h->tokens[h->count++] = token;
    return h->count < h->most;
}

static void stops(rf_strategy *strategy)
{
    make_prompts();
    rf_model *model = build(strategy, true);
    rf_array all, text;
    heard h = { .most = 4 };
    rf_generate_params params = { .prompts = &prompts[1], .num_prompts = 1, .max_new_tokens = NEW };
    OK(rf_model_generate(model, &params, &all));
    const int32_t *tokens = all.data;
    params.first_prompt = 6;
    params.on_token = hear;
    params.user = &h;
    OK(rf_model_generate(model, &params, &text));
    assert_int_equal(text.shape.dim[0], 4);
    assert_int_equal(h.last_prompt, 6);
    assert_memory_equal(h.tokens, tokens, 4 * sizeof(int32_t));
    rf_array_free(&text);
    /* A token ends the text where it comes for the first time. */
    params.on_token = NULL;
    params.stop_tokens = &tokens[3];
    params.num_stop_tokens = 1;
    int64_t first = 0;
    while (tokens[first] != tokens[3]) first++;
    OK(rf_model_generate(model, &params, &text));
    assert_int_equal(text.shape.dim[0], first + 1);
    assert_memory_equal(text.data, tokens, (size_t)(first + 1) * sizeof(int32_t));
    rf_array_free(&text);
    rf_array_free(&all);
    rf_model_destroy(&model);
}

static void mistakes(rf_strategy *strategy)
{
    make_prompts();
    rf_model *model = build(strategy, false);
    rf_array texts[3];
    rf_generate_params params = { .prompts = prompts, .num_prompts = 3 };
#define REFUSE(text)                                                                                                   \
    do {                                                                                                               \
        assert_int_equal(rf_model_generate(model, &params, texts), RF_ERROR_INVALID_ARGUMENT);                         \
        assert_non_null(strstr(rf_error_message(), text));                                                             \
    } while (0)
    REFUSE("max_new_tokens is 0");
    params.max_new_tokens = 23;
    REFUSE("prompt and new tokens are 97; layer 'position_embedding' has places for 96");
    params.max_new_tokens = 1;
    params.sampling.top_p = 1.5f;
    REFUSE("top_p 1.5 is not a probability");
    params.sampling.top_p = 0;
    prompt_tokens[1][2] = WORDS;
    REFUSE("prompt 1 has token 13; the model knows 13");
    prompts[1].shape.dim[0] = 0;
    REFUSE("prompt 1 is not i32 [k]");
#undef REFUSE
    rf_model_destroy(&model);
}

TEST_ON_ONE(ways)
TEST_ON_TWO(ways)
TEST_ON_ONE(stops)
TEST_ON_ONE(mistakes)

TESTS(generate, NULL, NULL)
