/* SPDX-License-Identifier: Apache-2.0 */
#include "language.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { DEFAULT_TOKENS = 128, MAX_PATH = 4096 };

/* ---- the directory ---- */

static bool is_gguf(const char *path)
{
    const size_t length = strlen(path);
    return length > 5 && strcmp(path + length - 5, ".gguf") == 0;
}

static int open_text(const char *directory, language *l)
{
    char path[MAX_PATH];
    snprintf(path, sizeof(path), is_gguf(directory) ? "%s" : "%s/tokenizer.json", directory);
    TRY(rf_tokenizer_load(path, &l->tokenizer));
    const rf_result r = rf_chat_template_load(directory, l->tokenizer, &l->chat_template);
    if (r != RF_ERROR_NOT_FOUND) TRY(r);
    return 0;
}

int language_open(rf_strategy *strategy, const char *directory, rf_quantization bits, const char *adapter,
                  language *out)
{
    const rf_quantize_params quantize = { .kind = bits };
    const rf_pretrained_params params = { .quantize = bits != RF_QUANTIZATION_NONE ? &quantize : NULL };
    *out = (language){ .strategy = strategy };
    TRY(rf_pretrained_open(strategy, directory, &params, &out->pretrained));
    if (adapter) TRY(rf_lora_load(rf_pretrained_model(out->pretrained), "adapter", adapter));
    return open_text(directory, out);
}

int language_save(language *l, const char *path)
{
    rf_model *model = rf_pretrained_model(l->pretrained);
    const rf_pretrained_gguf_params f16 = { .type = RF_GGUF_F16 };
    if (rf_lora_active(model)) TRY(rf_lora_merge(model, rf_lora_active(model)));
    TRY(is_gguf(path) ? rf_pretrained_save_gguf(l->pretrained, path, &f16) : rf_pretrained_save(l->pretrained, path));
    example_print("Written to %s\n", path);
    return 0;
}

rf_quantization language_parse_bits(struct argp_state *state, const char *text)
{
    if (strcmp(text, "nf4") == 0) return RF_QUANTIZATION_NF4;
    if (strcmp(text, "q4_0") == 0) return RF_QUANTIZATION_Q4_0;
    if (strcmp(text, "int8") != 0) argp_error(state, "'%s' is none of nf4, q4_0 and int8", text);
    return RF_QUANTIZATION_INT8;
}

void language_close(language *l)
{
    rf_chat_template_destroy(&l->chat_template);
    rf_tokenizer_destroy(&l->tokenizer);
    rf_pretrained_destroy(&l->pretrained);
}

/* ---- options ---- */

enum {
    OPTION_TEMPERATURE = 512,
    OPTION_TOP_K,
    OPTION_TOP_P,
    OPTION_MIN_P,
    OPTION_REPETITION,
    OPTION_GREEDY,
    OPTION_TOKENS,
    OPTION_STOP,
    OPTION_RAW,
    OPTION_SYSTEM
};

static const struct argp_option options[] = {
    { "max-new-tokens", OPTION_TOKENS, "N", 0,
      "Tokens of a text, at most (default: what generation_config.json says, else 128)", 2 },
    { "temperature", OPTION_TEMPERATURE, "X", 0, "Draw tokens: below 1 likelier ones, above it more surprising ones",
      2 },
    { "top-k", OPTION_TOP_K, "N", 0, "Draw from the N likeliest tokens only", 2 },
    { "top-p", OPTION_TOP_P, "X", 0, "Draw from the likeliest tokens that together have the probability X", 2 },
    { "min-p", OPTION_MIN_P, "X", 0, "Draw from tokens with this part of the largest probability", 2 },
    { "repetition-penalty", OPTION_REPETITION, "X", 0, "Above 1: tokens that the text has are less likely", 2 },
    { "greedy", OPTION_GREEDY, NULL, 0, "Always take the likeliest token, whatever the directory says", 2 },
    { "stop", OPTION_STOP, "TEXT", 0, "End before this text; may be given again", 2 },
    { "raw", OPTION_RAW, NULL, 0, "Go on with the prompt itself, without the chat template", 2 },
    { "system", OPTION_SYSTEM, "TEXT", 0, "The system message of the chat", 2 },
    { 0 },
};

static float parse_number(struct argp_state *state, const char *text, double most)
{
    char *end;
    const double value = rf_number_parse(text, &end);
    if (end == text || *end || !(value > 0) || !(value <= most))
        argp_error(state, "'%s' is not from 0 to %g", text, most);
    return (float)value;
}

static error_t parse_option(int key, char *value, struct argp_state *state)
{
    language_settings *s = state->input;
    switch (key) {
    case OPTION_TOKENS: s->max_new_tokens = (uint32_t)example_parse_count(state, value, 1u << 20); return 0;
    case OPTION_TEMPERATURE: s->sampling.temperature = parse_number(state, value, 100); return 0;
    case OPTION_TOP_K: s->sampling.top_k = (uint32_t)example_parse_count(state, value, INT32_MAX); return 0;
    case OPTION_TOP_P: s->sampling.top_p = parse_number(state, value, 1); return 0;
    case OPTION_MIN_P: s->sampling.min_p = parse_number(state, value, 1); return 0;
    case OPTION_REPETITION: s->sampling.repetition_penalty = parse_number(state, value, 100); return 0;
    case OPTION_GREEDY: s->greedy = true; return 0;
    case OPTION_STOP:
        if (s->num_stops == sizeof(s->stops) / sizeof(s->stops[0])) argp_error(state, "too many stops");
        s->stops[s->num_stops++] = value;
        return 0;
    case OPTION_RAW: s->raw = true; return 0;
    case OPTION_SYSTEM: s->system = value; return 0;
    default: return ARGP_ERR_UNKNOWN;
    }
}

const struct argp language_parser = { options, parse_option, NULL, NULL, NULL, NULL, NULL };

static int choose_params(const language *l, const language_settings *s, rf_generate_params *p)
{
    TRY(rf_pretrained_generate_params(l->pretrained, p));
    rf_sampling_params *to = &p->sampling;
    if (s->sampling.temperature != 0.0f) to->temperature = s->sampling.temperature;
    if (s->sampling.top_k) to->top_k = s->sampling.top_k;
    if (s->sampling.top_p != 0.0f) to->top_p = s->sampling.top_p;
    if (s->sampling.min_p != 0.0f) to->min_p = s->sampling.min_p;
    if (s->sampling.repetition_penalty != 0.0f) to->repetition_penalty = s->sampling.repetition_penalty;
    if (s->greedy) to->temperature = 0.0f;
    if (s->max_new_tokens) p->max_new_tokens = s->max_new_tokens;
    if (!p->max_new_tokens) p->max_new_tokens = DEFAULT_TOKENS;
    p->seed = s->seed;
    return 0;
}

/* ---- texts ---- */

static int encode_prompt(const language *l, const char *prompt, const language_settings *s, rf_array *out)
{
    if (!l->chat_template || s->raw) {
        TRY(rf_tokenizer_encode(l->tokenizer, prompt, strlen(prompt), out));
        return 0;
    }
    rf_chat_message messages[2];
    uint32_t count = 0;
    if (s->system)
        messages[count++] =
            (rf_chat_message){ .role = "system", .content = s->system, .content_size = strlen(s->system) };
    messages[count++] = (rf_chat_message){ .role = "user", .content = prompt, .content_size = strlen(prompt) };
    const rf_chat chat = { .messages = messages, .num_messages = count };
    const rf_chat_apply_params params = { .add_generation_prompt = true };
    TRY(rf_chat_template_encode(l->chat_template, &chat, &params, out));
    return 0;
}

/* One text at a time, so that it can be printed as it comes. */
typedef struct writing {
    rf_text_stream *stream;
    rf_result result;
    uint32_t tokens;
    double first; /* when the first token came */
} writing;

static bool print_token(uint32_t prompt, int32_t token, void *user)
{
    writing *w = user;
    const char *text;
    (void)prompt;
    if (w->tokens++ == 0) w->first = seconds_now();
    w->result = rf_text_stream_add(w->stream, token, &text, NULL);
    if (w->result >= 0) example_print("%s", text);
    return w->result == RF_OK;
}

static int write_text(language *l, const rf_generate_params *params, const language_settings *s, writing *w)
{
    const rf_text_stream_params stream = { .tokenizer = l->tokenizer,
                                           .stop_strings = s->stops,
                                           .num_stop_strings = s->num_stops };
    const char *rest;
    rf_array text;
    TRY(rf_text_stream_create(&stream, &w->stream));
    const int result = example_outcome(rf_model_generate(rf_pretrained_model(l->pretrained), params, &text));
    if (result != 0) return result;
    rf_array_free(&text);
    TRY(w->result);
    TRY(rf_text_stream_finish(w->stream, &rest, NULL));
    example_print("%s\n", rest);
    return 0;
}

static int write_one(language *l, const char *prompt, uint32_t number, const language_settings *s)
{
    rf_array tokens = { 0 };
    writing w = { 0 };
    rf_generate_params params = { .prompts = &tokens, .num_prompts = 1, .first_prompt = number };
    if (choose_params(l, s, &params) < 0 || encode_prompt(l, prompt, s, &tokens) < 0) return -1;
    params.on_token = print_token;
    params.user = &w;
    const int result = write_text(l, &params, s, &w);
    if (result == 0 && w.tokens > 1)
        example_print("(%lld tokens read, %u written, %.1f tokens/s)\n", (long long)tokens.shape.dim[0], w.tokens,
                      (w.tokens - 1) / (seconds_now() - w.first));
    rf_text_stream_destroy(&w.stream);
    rf_array_free(&tokens);
    return result;
}

int language_write(language *l, const char *const *prompts, uint32_t num_prompts, const language_settings *settings)
{
    int result = 0;
    for (uint32_t i = 0; result == 0 && i < num_prompts; i++) result = write_one(l, prompts[i], i, settings);
    return result;
}
