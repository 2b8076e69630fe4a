/* SPDX-License-Identifier: Apache-2.0 */
#include "pretrained/config.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/numbers.h"
#include "base/params.h"
#include "persist/json.h"

/* Keys that say where a model comes from, how texts are made with it, or what programs other than models do. */
static const char *const harmless_keys[] = {
    "_attn_implementation_autoset",
    "_name_or_path",
    "attn_implementation",
    "bad_words_ids",
    "begin_suppress_tokens",
    "bos_token_id",
    "cls_token_id",
    "decoder_start_token_id",
    "diversity_penalty",
    "do_sample",
    "dtype",
    "early_stopping",
    "encoder_no_repeat_ngram_size",
    "eos_token_id",
    "exponential_decay_length_penalty",
    "finetuning_task",
    "forced_bos_token_id",
    "forced_eos_token_id",
    "gradient_checkpointing",
    "id2label",
    "initializer_factor",
    "initializer_range",
    "label2id",
    "length_penalty",
    "mask_token_id",
    "max_length",
    "min_length",
    "model_type",
    "no_repeat_ngram_size",
    "num_beam_groups",
    "num_beams",
    "num_return_sequences",
    "output_attentions",
    "output_hidden_states",
    "output_scores",
    "pad_token_id",
    "prefix",
    "pretraining_tp",
    "problem_type",
    "remove_invalid_values",
    "repetition_penalty",
    "return_dict",
    "return_dict_in_generate",
    "sep_token_id",
    "suppress_tokens",
    "task_specific_params",
    "temperature",
    "tf_legacy_loss",
    "tokenizer_class",
    "top_k",
    "top_p",
    "torch_dtype",
    "torchscript",
    "transformers_version",
    "typical_p",
    "unk_token_id",
    "use_bfloat16",
    "use_cache",
};
/* Keys that change a model where they are anything but false, 0 or empty. */
static const char *const refused_keys[] = {
    "add_cross_attention", "chunk_size_feed_forward", "cross_attention_hidden_size", "is_encoder_decoder",
    "pruned_heads",        "quantization_config",     "tie_encoder_decoder",
};

#define LENGTH(array) (sizeof(array) / sizeof((array)[0]))

static bool is_listed(const char *const *list, size_t count, const char *key)
{
    for (size_t i = 0; i < count; i++)
        if (strcmp(list[i], key) == 0) return true;
    return false;
}

/* ---- reading ---- */

rf_result rf_pretrained_config_parse(rf_pretrained_config *config, const char *path, const char *text, size_t size)
{
    *config = (rf_pretrained_config){ .path = path, .read = json_object() };
    if (!config->read) return RF_FAIL(RF_ERROR_OUT_OF_HOST_MEMORY, "'%s': out of memory", path);
    char *what = rf_asprintf("'%s'", path);
    const rf_result r = what ? rf_json_parse(text, size, what, &config->root) : RF_ERROR_OUT_OF_HOST_MEMORY;
    rf_free(what);
    return r;
}

void rf_pretrained_config_clear(rf_pretrained_config *config)
{
    json_decref(config->root);
    json_decref(config->read);
    *config = (rf_pretrained_config){ 0 };
}

void rf_pretrained_config_fail(rf_pretrained_config *config, rf_result failure)
{
    if (failure >= 0 || config->status < 0) return;
    config->status = failure;
    rf_error_save(&config->error);
}

rf_result rf_pretrained_config_status(const rf_pretrained_config *config)
{
    RF_REQUIRE(config, "rf_pretrained_config_status: config is NULL");
    return config->status < 0 ? rf_error_restore(&config->error) : RF_OK;
}

/* ---- values ---- */

/* One line of JSON, shortened, for messages. */
static const char *format_value(const json_t *value, char *text, size_t size)
{
    size_t length;
    RF_WITH_C_NUMBERS(length = json_dumpb(value, text, size - 4, JSON_COMPACT | JSON_ENCODE_ANY | JSON_ENSURE_ASCII));
    if (length == 0) return "?";
    snprintf(text + (length < size - 4 ? length : size - 4), 4, "%s", length < size - 4 ? "" : "...");
    return text;
}

static void fail_value(rf_pretrained_config *config, rf_result code, const char *key, const json_t *value,
                       const char *why)
{
    char text[80];
    rf_pretrained_config_fail(config, RF_FAIL(code, "'%s': '%s' is %s%s%s", config->path, key,
                                              value ? format_value(value, text, sizeof(text)) : "not there",
                                              strchr(",;", why[0]) ? "" : " ", why));
}

/* The value of a key, in which dots lead into objects and lists; NULL where there is none, or null. */
static json_t *find_value(const json_t *root, const char *key)
{
    char name[64];
    json_t *at = (json_t *)root;
    while (at) {
        const size_t length = strcspn(key, ".");
        if (length >= sizeof(name)) return NULL;
        memcpy(name, key, length);
        name[length] = '\0';
        at = json_is_array(at) ? json_array_get(at, strtoul(name, NULL, 10)) : json_object_get(at, name);
        if (!key[length]) return json_is_null(at) ? NULL : at;
        key += length + 1;
    }
    return NULL;
}

static rf_result note_asked(rf_pretrained_config *config, const char *key)
{
    RF_REQUIRE(key, "rf_pretrained_config: key is NULL");
    char *part = rf_strdup(key), *dot = part;
    bool noted = part != NULL;
    while (noted && dot) {
        noted = json_object_set_new(config->read, part, json_true()) == 0;
        dot = strrchr(part, '.');
        if (dot) *dot = '\0';
    }
    rf_free(part);
    return noted ? RF_OK : RF_FAIL(RF_ERROR_OUT_OF_HOST_MEMORY, "'%s': '%s': out of memory", config->path, key);
}

/* The value, which then counts as known, like the objects that it is in; NULL after a failure. */
static json_t *find_asked(rf_pretrained_config *config, const char *key)
{
    if (!config || config->status < 0) return NULL;
    rf_pretrained_config_fail(config, note_asked(config, key));
    return config->status < 0 ? NULL : find_value(config->root, key);
}

static int32_t read_size(rf_pretrained_config *config, const char *key, int32_t fallback, uint64_t most,
                         const char *wanted)
{
    const json_t *value = find_asked(config, key);
    if (!config || config->status < 0) return 1;
    if (!value && fallback > 0) return fallback;
    const json_int_t number = json_integer_value(value);
    if (json_is_integer(value) && number > 0 && (uint64_t)number <= most) return (int32_t)number;
    fail_value(config, value ? RF_ERROR_UNSUPPORTED : RF_ERROR_NOT_FOUND, key, value, wanted);
    return 1;
}

int32_t rf_pretrained_config_size(rf_pretrained_config *config, const char *key, int32_t fallback)
{
    return read_size(config, key, fallback, INT32_MAX, ", not a size of 1 or more");
}

int32_t rf_pretrained_config_layers(rf_pretrained_config *config, const char *key, int32_t fallback)
{
    const uint64_t most = config && config->num_tensors < INT32_MAX ? config->num_tensors : INT32_MAX;
    return read_size(config, key, fallback, most, ", not a number of layers that the files have tensors for");
}

double rf_pretrained_config_number(rf_pretrained_config *config, const char *key, double fallback)
{
    const json_t *value = find_asked(config, key);
    if (!config || config->status < 0 || (!value && fallback != (double)RF_PRETRAINED_REQUIRED)) return fallback;
    if (json_is_number(value) && isfinite((float)json_number_value(value))) return json_number_value(value);
    fail_value(config, value ? RF_ERROR_UNSUPPORTED : RF_ERROR_NOT_FOUND, key, value, ", not a number of f32");
    return fallback;
}

bool rf_pretrained_config_flag(rf_pretrained_config *config, const char *key, bool fallback)
{
    const json_t *value = find_asked(config, key);
    if (!value) return fallback;
    if (json_is_boolean(value)) return json_is_true(value);
    fail_value(config, RF_ERROR_UNSUPPORTED, key, value, ", not true or false");
    return fallback;
}

const char *rf_pretrained_config_text(rf_pretrained_config *config, const char *key)
{
    const json_t *value = find_asked(config, key);
    if (value && !json_is_string(value)) fail_value(config, RF_ERROR_UNSUPPORTED, key, value, ", not a text");
    return json_string_value(value);
}

uint32_t rf_pretrained_config_choice(rf_pretrained_config *config, const char *key, const char *const *names,
                                     uint32_t num_names, uint32_t fallback)
{
    const char *text = rf_pretrained_config_text(config, key);
    char list[200] = ", not one of";
    size_t at = strlen(list);
    for (uint32_t i = 0; text && i < num_names; i++) {
        if (strcmp(names[i], text) == 0) return i;
        if (at < sizeof(list)) at += (size_t)snprintf(list + at, sizeof(list) - at, "%s %s", i ? "," : "", names[i]);
    }
    if (text) fail_value(config, RF_ERROR_UNSUPPORTED, key, find_value(config->root, key), list);
    return fallback;
}

rf_activation rf_pretrained_config_activation(rf_pretrained_config *config, const char *key, rf_activation fallback)
{
    static const char *const names[] = {
        "relu", "gelu", "gelu_new", "gelu_pytorch_tanh", "gelu_fast", "silu", "swish", "tanh", "mish", "linear",
    };
    static const rf_activation kinds[LENGTH(names)] = {
        RF_ACTIVATION_RELU,      RF_ACTIVATION_GELU,   RF_ACTIVATION_GELU_TANH, RF_ACTIVATION_GELU_TANH,
        RF_ACTIVATION_GELU_TANH, RF_ACTIVATION_SILU,   RF_ACTIVATION_SILU,      RF_ACTIVATION_TANH,
        RF_ACTIVATION_MISH,      RF_ACTIVATION_LINEAR,
    };
    const uint32_t found = rf_pretrained_config_choice(config, key, names, LENGTH(names), LENGTH(names));
    return found < LENGTH(names) ? kinds[found] : fallback;
}

int32_t rf_pretrained_config_count(rf_pretrained_config *config, const char *key, int32_t fallback)
{
    const json_t *value = find_value(config->root, key);
    const size_t count = json_is_array(value) ? json_array_size(value) : json_object_size(value);
    return count > 0 && count <= INT32_MAX ? (int32_t)count : fallback;
}

bool rf_pretrained_config_has(rf_pretrained_config *config, const char *key)
{
    return find_asked(config, key) != NULL;
}

void rf_pretrained_config_refuse(rf_pretrained_config *config, const char *key, const char *why)
{
    if (config && key && why) fail_value(config, RF_ERROR_UNSUPPORTED, key, find_value(config->root, key), why);
}

bool rf_pretrained_config_packed(rf_pretrained_config *config)
{
    if (config) config->packed_known = true;
    return config && config->packed;
}

int32_t rf_pretrained_config_steps(rf_pretrained_config *config, int32_t longest)
{
    enum { DEFAULT_STEPS = 128 };
    if (config && config->packed) longest = INT32_MAX; /* sequences are shorter than rows */
    if (!config || config->steps == 0) return longest < DEFAULT_STEPS ? longest : DEFAULT_STEPS;
    if (config->steps > (uint32_t)longest)
        rf_pretrained_config_fail(config, RF_FAIL(RF_ERROR_INVALID_ARGUMENT,
                                                  "sequence_length is %u; the model of '%s' takes %d", config->steps,
                                                  config->path, (int)longest));
    return config->steps > (uint32_t)longest ? longest : (int32_t)config->steps;
}

int32_t rf_pretrained_config_classes(rf_pretrained_config *config, const char *key, int32_t fallback)
{
    if (!config || config->status < 0) return 1;
    config->classes_key = key;
    const json_t *value = find_value(config->root, key);
    const int32_t read = value && !json_is_integer(value) ? rf_pretrained_config_count(config, key, fallback)
                                                          : rf_pretrained_config_size(config, key, fallback);
    return config->num_classes > 0 ? (int32_t)config->num_classes : read;
}

int32_t rf_pretrained_config_image_size(rf_pretrained_config *config, int32_t fallback)
{
    if (!config || config->image_size == 0) return fallback;
    if (config->image_size > INT32_MAX)
        rf_pretrained_config_fail(config, RF_FAIL(RF_ERROR_INVALID_ARGUMENT, "image_size is %u", config->image_size));
    return config->image_size > INT32_MAX ? fallback : (int32_t)config->image_size;
}

/* ---- what nobody has read ---- */

static bool says_nothing(const json_t *value)
{
    return json_is_null(value) || json_is_false(value) || (json_is_number(value) && json_number_value(value) == 0.0) ||
           (json_is_object(value) && json_object_size(value) == 0) ||
           (json_is_array(value) && json_array_size(value) == 0);
}

typedef struct known_keys {
    rf_pretrained_config *config;
    const rf_pretrained_architecture *architecture;
    const rf_pretrained_params *params;
} known_keys;

static bool is_known(const known_keys *known, const char *key, const json_t *value)
{
    const rf_pretrained_architecture *a = known->architecture;
    const rf_pretrained_params *p = known->params;
    return json_is_null(value) || json_object_get(known->config->read, key) ||
           is_listed(harmless_keys, LENGTH(harmless_keys), key) ||
           is_listed(a->ignored_keys, a->num_ignored_keys, key) ||
           (p && is_listed(p->ignored_keys, p->num_ignored_keys, key)) ||
           (is_listed(refused_keys, LENGTH(refused_keys), key) && says_nothing(value));
}

static void check_members(const known_keys *known, const json_t *object, const char *prefix, int depth);

static void check_member(const known_keys *known, char *key, const json_t *value, int depth)
{
    const bool is = is_known(known, key, value);
    if (!is) rf_error_one_line(key);
    if (!is)
        fail_value(known->config, RF_ERROR_UNSUPPORTED, key, value,
                   ", which is not known here; name it in rf_pretrained_params::ignored_keys if it changes nothing");
    else if (json_is_object(value) && json_object_get(known->config->read, key) && depth < 4)
        check_members(known, value, key, depth + 1);
}

static void check_members(const known_keys *known, const json_t *object, const char *prefix, int depth)
{
    const char *name;
    json_t *value;
    json_object_foreach((json_t *)object, name, value)
    {
        char *key = prefix ? rf_asprintf("%s.%.200s", prefix, name) : rf_strdup(name);
        if (!key) {
            rf_pretrained_config_fail(known->config, RF_ERROR_OUT_OF_HOST_MEMORY);
            return;
        }
        check_member(known, key, value, depth);
        rf_free(key);
        if (known->config->status < 0) return;
    }
}

rf_result rf_pretrained_config_check_read(rf_pretrained_config *config, const rf_pretrained_architecture *architecture,
                                          const rf_pretrained_params *params)
{
    check_members(&(known_keys){ config, architecture, params }, config->root, NULL, 0);
    return rf_pretrained_config_status(config);
}
