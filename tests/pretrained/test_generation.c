/* SPDX-License-Identifier: Apache-2.0 */
/* Texts of models of the hub: how generation_config.json says that they are generated, and text while it is written. */
#include "../support/try.h"
#include "hub_directory.h"

typedef struct generation_case {
    const char *text;
    rf_result code;
    const char *message;
    rf_sampling_params sampling;
    uint32_t max_new_tokens, num_stops;
    int32_t stops[2];
} generation_case;

static const generation_case generation_cases[] = {
    { "{}", .num_stops = 1, .stops = { 3 } },
    { "{\"eos_token_id\":null}", .num_stops = 0 },
    { "{\"eos_token_id\":[5,6],\"max_new_tokens\":9,\"num_beams\":1,\"bad_words_ids\":[],\"temperature\":0.5}",
      .max_new_tokens = 9, .num_stops = 2, .stops = { 5, 6 } },
    { "{\"do_sample\":true,\"bos_token_id\":1}", .sampling = { .temperature = 1, .top_k = 50 }, .num_stops = 1,
      .stops = { 3 } },
    { "{\"do_sample\":true,\"temperature\":0.5,\"top_k\":0,\"top_p\":0.875,\"min_p\":0.25,\"repetition_penalty\":1.5}",
      .sampling = { .temperature = 0.5f, .top_p = 0.875f, .min_p = 0.25f, .repetition_penalty = 1.5f }, .num_stops = 1,
      .stops = { 3 } },
    { "{\"num_beams\":4}", RF_ERROR_UNSUPPORTED,
      "generation_config.json': 'num_beams' is 4, which texts are not generated with here" },
    { "{\"a.b\":4}", RF_ERROR_UNSUPPORTED, "'a.b'" },
    { "{\"eos_token_id\":[1,-5]}", RF_ERROR_UNSUPPORTED, "'eos_token_id' has a value that is no token" },
    { "{\"do_sample\":true,\"temperature\":0}", RF_ERROR_UNSUPPORTED, "'temperature' is 0, not a positive number" },
    { "{\"do_sample\":true,\"top_k\":1.5}", RF_ERROR_UNSUPPORTED, "'top_k' is 1.5, not a number of tokens" },
    { "{\"max_new_tokens\":0}", RF_ERROR_UNSUPPORTED, "'max_new_tokens' is 0, not a size" },
    { "{", RF_ERROR_CORRUPT_DATA, "generation_config.json'" },
};

static void check_generation(rf_strategy *strategy, const hub_directory *d, const generation_case *c)
{
    rf_pretrained *p;
    rf_generate_params params = { .seed = 7 };
    OK(rf_pretrained_open(strategy, d->path, NULL, &p));
    if (c->code < 0) {
        FAILS(rf_pretrained_generate_params(p, &params), c->code, c->message);
    } else {
        OK(rf_pretrained_generate_params(p, &params));
        assert_memory_equal(&params.sampling, &c->sampling, sizeof(params.sampling));
        assert_int_equal(params.max_new_tokens, c->max_new_tokens);
        assert_int_equal(params.num_stop_tokens, c->num_stops);
        for (uint32_t i = 0; i < c->num_stops; i++) assert_int_equal(params.stop_tokens[i], c->stops[i]);
        assert_int_equal(params.seed, 7);
    }
    rf_pretrained_destroy(&p);
}

static void generation(rf_strategy *strategy)
{
    hub_directory d;
    make_gpt2(&d);
    write_config(&d, ",\"eos_token_id\":3");
    check_generation(strategy, &d, &(generation_case){ .num_stops = 1, .stops = { 3 } });
    for (size_t i = 0; i < sizeof(generation_cases) / sizeof(generation_cases[0]); i++) {
        scratch_write(in(&d, "generation_config.json"), generation_cases[i].text);
        check_generation(strategy, &d, &generation_cases[i]);
    }
    scratch_remove(d.path);
}

static bool show_token(uint32_t prompt, int32_t token, void *stream)
{
    const char *text;
    (void)prompt;
    if (rf_text_stream_add(stream, token, &text, NULL) != RF_OK) return false; /* a stop string, or a failure */
    fputs(text, stdout);
    return true;
}

static rf_result answer_prompt(rf_pretrained *pretrained, rf_array prompt, rf_text_stream *stream, rf_array *out)
{
    rf_array answer;
    rf_generate_params params = { .prompts = &prompt, .num_prompts = 1, .max_new_tokens = 64 };
    TRY(rf_pretrained_generate_params(pretrained, &params)); /* generation_config.json: sampling, stop tokens */
    params.on_token = show_token;
    params.user = stream;
    TRY(rf_model_generate(rf_pretrained_model(pretrained), &params, &answer));
    *out = answer;
    return RF_OK;
}

/* As the guide has it: text while it is written, up to a stop string. */
static void streamed_text(rf_strategy *strategy)
{
    static const char *const letters[VOCABULARY] = { "a", "b", "c", "d", "e", "f", "g" };
    int32_t tokens[] = { 1, 2 };
    const rf_array prompt = { RF_I32, RF_SHAPE(2), tokens };
    hub_directory d;
    rf_tokenizer *tokenizer;
    rf_pretrained *p;
    rf_text_stream *stream;
    rf_array whole, cut;
    make_gpt2(&d);
    scratch_write(in(&d, "generation_config.json"), "{\"max_new_tokens\":4}");
    OK(rf_tokenizer_create(&(rf_tokenizer_params){ .kind = RF_TOKENIZER_CHARACTERS }, letters, NULL, VOCABULARY,
                           &tokenizer));
    OK(rf_pretrained_open(strategy, d.path, NULL, &p));
    OK(rf_text_stream_create(&(rf_text_stream_params){ .tokenizer = tokenizer }, &stream));
    OK(answer_prompt(p, prompt, stream, &whole));
    assert_int_equal(whole.shape.dim[0], 4);
    rf_text_stream_destroy(&stream);
    const char *const stops[] = { letters[((const int32_t *)whole.data)[0]] };
    OK(rf_text_stream_create(
        &(rf_text_stream_params){ .tokenizer = tokenizer, .stop_strings = stops, .num_stop_strings = 1 }, &stream));
    OK(answer_prompt(p, prompt, stream, &cut));
    assert_int_equal(cut.shape.dim[0], 1);
    rf_text_stream_destroy(&stream);
    rf_array_free(&whole);
    rf_array_free(&cut);
    rf_pretrained_destroy(&p);
    rf_tokenizer_destroy(&tokenizer);
    scratch_remove(d.path);
}

TEST_ON_ONE(generation)
TEST_ON_ONE(streamed_text)

TESTS(generation, NULL, NULL)
