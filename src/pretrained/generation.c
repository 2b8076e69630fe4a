/* SPDX-License-Identifier: Apache-2.0 */
#include "pretrained/generation.h"

#include <string.h>

#include "base/memory.h"

enum { MOST_STOP_TOKENS = 1024, DEFAULT_TOP_K = 50 };

/* These ask for nothing where they have this value, or are false, null or empty: other values are refused. */
static const struct neutral {
    const char *key;
    double value;
} neutral_keys[] = {
    { "bad_words_ids", 0 },
    { "begin_suppress_tokens", 0 },
    { "constraints", 0 },
    { "diversity_penalty", 0 },
    { "encoder_no_repeat_ngram_size", 0 },
    { "encoder_repetition_penalty", 1 },
    { "epsilon_cutoff", 0 },
    { "eta_cutoff", 0 },
    { "exponential_decay_length_penalty", 0 },
    { "force_words_ids", 0 },
    { "forced_bos_token_id", 0 },
    { "forced_eos_token_id", 0 },
    { "guidance_scale", 1 },
    { "min_length", 0 },
    { "min_new_tokens", 0 },
    { "no_repeat_ngram_size", 0 },
    { "num_beam_groups", 1 },
    { "num_beams", 1 },
    { "num_return_sequences", 1 },
    { "penalty_alpha", 0 },
    { "sequence_bias", 0 },
    { "stop_strings", 0 },
    { "suppress_tokens", 0 },
    { "typical_p", 1 },
};
/* Keys that are read, and those of texts' tokens, of beams and of how a program goes about it. */
static const char *const harmless_keys[] = {
    "_from_model_config",
    "assistant_confidence_threshold",
    "assistant_early_exit",
    "assistant_lookbehind",
    "bos_token_id",
    "cache_config",
    "cache_implementation",
    "decoder_start_token_id",
    "do_sample",
    "early_stopping",
    "eos_token_id",
    "is_assistant",
    "length_penalty",
    "low_memory",
    "max_length",
    "max_new_tokens",
    "max_time",
    "min_p",
    "num_assistant_tokens",
    "num_assistant_tokens_schedule",
    "output_attentions",
    "output_hidden_states",
    "output_logits",
    "output_scores",
    "pad_token_id",
    "remove_invalid_values",
    "renormalize_logits",
    "repetition_penalty",
    "return_dict_in_generate",
    "return_legacy_cache",
    "target_lookbehind",
    "temperature",
    "token_healing",
    "top_k",
    "top_p",
    "transformers_version",
    "use_cache",
};

#define LENGTH(array) (sizeof(array) / sizeof((array)[0]))

static bool is_neutral(const json_t *value, double neutral)
{
    if (json_is_number(value)) return json_number_value(value) == neutral;
    return json_is_null(value) || json_is_false(value) || (json_is_array(value) && json_array_size(value) == 0) ||
           (json_is_object(value) && json_object_size(value) == 0);
}

static bool is_known(const char *key, const json_t *value)
{
    if (json_is_null(value)) return true;
    for (size_t i = 0; i < LENGTH(harmless_keys); i++)
        if (strcmp(harmless_keys[i], key) == 0) return true;
    for (size_t i = 0; i < LENGTH(neutral_keys); i++)
        if (strcmp(neutral_keys[i].key, key) == 0) return is_neutral(value, neutral_keys[i].value);
    return false;
}

static void check_keys(rf_pretrained_config *config)
{
    const char *name;
    json_t *value;
    json_object_foreach(config->root, name, value)
    {
        if (is_known(name, value)) continue;
        char key[64] = "";
        strncpy(key, name, sizeof(key) - 1);
        rf_error_one_line(key);
        rf_pretrained_config_refuse(config, key, ", which texts are not generated with here");
        if (config->status >= 0) /* a key that was cut, or has points */
            rf_pretrained_config_fail(config,
                                      RF_FAIL(RF_ERROR_UNSUPPORTED, "'%s': '%s' is not known here", config->path, key));
        return;
    }
}

/* A number above 0, of which `none` says as much as its absence; 0 then. */
static float read_number(rf_pretrained_config *config, const char *key, double none)
{
    const double value = rf_pretrained_config_number(config, key, none);
    if (value == none) return 0.0f;
    if (value > 0.0) return (float)value;
    rf_pretrained_config_refuse(config, key, ", not a positive number");
    return 0.0f;
}

static void read_sampling(rf_pretrained_config *config, rf_sampling_params *out)
{
    out->repetition_penalty = read_number(config, "repetition_penalty", 1.0);
    if (!rf_pretrained_config_flag(config, "do_sample", false)) return;
    const double temperature = rf_pretrained_config_number(config, "temperature", 1.0);
    const double top_k = rf_pretrained_config_number(config, "top_k", DEFAULT_TOP_K);
    out->temperature = (float)temperature;
    out->top_p = read_number(config, "top_p", 1.0);
    out->min_p = read_number(config, "min_p", 0.0);
    if (!(out->temperature > 0.0f)) rf_pretrained_config_refuse(config, "temperature", ", not a positive number");
    if (top_k >= 0.0 && top_k <= INT32_MAX && top_k == (double)(uint32_t)top_k)
        out->top_k = (uint32_t)top_k;
    else
        rf_pretrained_config_refuse(config, "top_k", ", not a number of tokens");
}

/* A token, or a list of them. */
static rf_result read_stops(const json_t *value, const char *path, rf_generation_defaults *out)
{
    const bool list = json_is_array(value);
    const size_t count = list ? json_array_size(value) : 1;
    if (!value || json_is_null(value) || count == 0) return RF_OK;
    out->stop_tokens = count <= MOST_STOP_TOKENS ? RF_NEW_ARRAY(int32_t, count) : NULL;
    if (!out->stop_tokens) return RF_FAIL(RF_ERROR_UNSUPPORTED, "'%s': 'eos_token_id' has too many tokens", path);
    for (size_t i = 0; i < count; i++) {
        const json_t *token = list ? json_array_get(value, i) : value;
        const json_int_t number = json_integer_value(token);
        if (!json_is_integer(token) || number < 0 || number > INT32_MAX)
            return RF_FAIL(RF_ERROR_UNSUPPORTED, "'%s': 'eos_token_id' has a value that is no token", path);
        out->stop_tokens[i] = (int32_t)number;
        out->num_stop_tokens++;
    }
    return RF_OK;
}

static rf_result read_all(rf_pretrained_config *config, const json_t *model, rf_generation_defaults *out)
{
    check_keys(config);
    read_sampling(config, &out->sampling);
    if (rf_pretrained_config_has(config, "max_new_tokens"))
        out->max_new_tokens = (uint32_t)rf_pretrained_config_size(config, "max_new_tokens", RF_PRETRAINED_REQUIRED);
    RF_TRY(rf_pretrained_config_status(config));
    const json_t *stops = json_object_get(config->root, "eos_token_id");
    return read_stops(stops ? stops : json_object_get(model, "eos_token_id"), config->path, out);
}

void rf_generation_defaults_read(rf_generation_defaults *out, const char *path, const char *text, size_t size,
                                 const json_t *config)
{
    rf_pretrained_config own;
    *out = (rf_generation_defaults){ 0 };
    rf_result r = rf_pretrained_config_parse(&own, path, size ? text : "{}", size ? size : 2);
    if (r >= 0) r = read_all(&own, config, out);
    rf_pretrained_config_clear(&own);
    out->status = r;
    if (r < 0) rf_error_save(&out->error);
}

void rf_generation_defaults_clear(rf_generation_defaults *defaults)
{
    rf_free(defaults->stop_tokens);
    *defaults = (rf_generation_defaults){ 0 };
}
