/* SPDX-License-Identifier: Apache-2.0 */
#include "train/lora/config.h"

#include <math.h>
#include <string.h>

#include "base/error.h"
#include "base/numbers.h"
#include "persist/json.h"

/* ---- targets ---- */

static const char *last_part(const char *name)
{
    const char *dot = strrchr(name, '.');
    return dot ? dot + 1 : name;
}

/* All modules that end with the part are chosen. */
static bool says_it(const rf_lora_modules *modules, const bool *chosen, const char *part)
{
    for (uint32_t i = 0; i < modules->count; i++)
        if (!chosen[i] && strcmp(last_part(modules->items[i].name), part) == 0) return false;
    return true;
}

uint32_t rf_lora_target_names(const rf_lora_modules *modules, const bool *chosen, const char **names)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < modules->count; i++) {
        if (!chosen[i]) continue;
        const char *part = last_part(modules->items[i].name);
        const char *name = says_it(modules, chosen, part) ? part : modules->items[i].name;
        uint32_t k = 0;
        while (k < count && strcmp(names[k], name) != 0) k++;
        if (k == count) names[count++] = name;
    }
    return count;
}

/* ---- writing ---- */

static json_t *text_or_null(const char *text)
{
    return text ? json_string(text) : json_null();
}

/* Whole numbers as PEFT writes them. */
static json_t *number_or_real(float value)
{
    return value == floorf(value) && fabsf(value) < 1e9f ? json_integer((json_int_t)value) : json_real((double)value);
}

static rf_result fill_config(json_t *root, const rf_lora_config *config, const rf_lora_description *d)
{
    static const char *const nulls[] = { "auto_mapping",    "exclude_modules", "layers_pattern", "layers_to_transform",
                                         "megatron_config", "modules_to_save", "revision" };
    static const char *const empty[] = { "alpha_pattern", "loftq_config", "rank_pattern" };
    json_t *targets = json_array();
    bool made = targets != NULL;
    for (uint32_t i = 0; i < d->num_targets; i++)
        made = made && json_array_append_new(targets, json_string(d->targets[i])) == 0;
    RF_TRY(rf_json_set(root, "target_modules", targets));
    if (!made) return RF_ERROR_OUT_OF_HOST_MEMORY;
    for (size_t i = 0; i < sizeof(nulls) / sizeof(nulls[0]); i++) RF_TRY(rf_json_set(root, nulls[i], json_null()));
    for (size_t i = 0; i < sizeof(empty) / sizeof(empty[0]); i++) RF_TRY(rf_json_set(root, empty[i], json_object()));
    RF_TRY(rf_json_set(root, "base_model_name_or_path", text_or_null(d->origin)));
    RF_TRY(rf_json_set(root, "bias", json_string("none")));
    RF_TRY(rf_json_set(root, "fan_in_fan_out", json_boolean(d->fan_in_fan_out)));
    RF_TRY(rf_json_set(root, "inference_mode", json_true()));
    RF_TRY(rf_json_set(root, "init_lora_weights", json_true()));
    RF_TRY(rf_json_set(root, "lora_alpha", number_or_real(config->alpha)));
    RF_TRY(rf_json_set(root, "lora_dropout", json_real(config->dropout)));
    RF_TRY(rf_json_set(root, "megatron_core", json_string("megatron.core")));
    RF_TRY(rf_json_set(root, "peft_type", json_string("LORA")));
    RF_TRY(rf_json_set(root, "r", json_integer(config->rank)));
    RF_TRY(rf_json_set(root, "task_type", text_or_null(d->task)));
    RF_TRY(rf_json_set(root, "use_dora", json_boolean(config->weight_decomposed)));
    return rf_json_set(root, "use_rslora", json_boolean(config->rank_stabilized));
}

rf_result rf_lora_config_write(const rf_lora_config *config, const rf_lora_description *description, char **text)
{
    char *dump = NULL;
    json_t *root = json_object();
    *text = NULL;
    rf_result r = root ? fill_config(root, config, description) : RF_ERROR_OUT_OF_HOST_MEMORY;
    if (r >= 0) {
        RF_WITH_C_NUMBERS(dump = json_dumps(root, JSON_INDENT(2) | JSON_SORT_KEYS | JSON_REAL_PRECISION(9)));
        *text = dump ? rf_strdup(dump) : NULL;
        if (!*text) r = RF_ERROR_OUT_OF_HOST_MEMORY;
        free(dump);
    }
    json_decref(root);
    return r;
}

/* ---- reading ---- */

/* They say nothing that the tensors do not say, or what they say changes nothing here. */
static const char *const ignored[] = {
    "auto_mapping",   "base_model_name_or_path", "corda_config",   "eva_config",          "exclude_modules",
    "fan_in_fan_out", "inference_mode",          "layers_pattern", "layers_to_transform", "megatron_core",
    "peft_version",   "qalora_group_size",       "revision",       "runtime_config",      "target_modules",
    "task_type"
};
static const char *const known[] = { "bias", "init_lora_weights", "lora_alpha", "lora_dropout", "peft_type",
                                     "r",    "use_dora",          "use_rslora" };

static bool is_one_of(const char *name, const char *const *names, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (strcmp(names[i], name) == 0) return true;
    return false;
}

static bool says_nothing(const json_t *value)
{
    return json_is_null(value) || json_is_false(value) || (json_is_object(value) && json_object_size(value) == 0) ||
           (json_is_array(value) && json_array_size(value) == 0);
}

static rf_result check_keys(json_t *root)
{
    const char *name;
    json_t *value;
    json_object_foreach(root, name, value)
    {
        char shown[64];
        if (says_nothing(value) || is_one_of(name, ignored, sizeof(ignored) / sizeof(ignored[0])) ||
            is_one_of(name, known, sizeof(known) / sizeof(known[0])))
            continue;
        return RF_FAIL(RF_ERROR_UNSUPPORTED, "'%s' asks for something that adapters do not have here",
                       rf_error_show(name, shown, sizeof(shown)));
    }
    return RF_OK;
}

/* The text has to be `wanted`, where it is there. */
static rf_result check_text(const json_t *root, const char *name, const char *wanted)
{
    const json_t *value = json_object_get(root, name);
    const char *text = json_string_value(value);
    char shown[48];
    if (!value || (text && strcmp(text, wanted) == 0)) return RF_OK;
    return RF_FAIL(RF_ERROR_UNSUPPORTED, "'%s' is '%s'; only '%s' can be read", name,
                   rf_error_show(text ? text : "no text", shown, sizeof(shown)), wanted);
}

/* Other ways to begin change the weights of the base. */
static rf_result check_beginning(const json_t *root)
{
    const json_t *value = json_object_get(root, "init_lora_weights");
    if (json_is_string(value)) return check_text(root, "init_lora_weights", "gaussian");
    return RF_OK;
}

static rf_result read_root(json_t *root, rf_lora_config *config)
{
    int32_t rank = 8;
    float alpha = 8.0f;
    RF_TRY(check_text(root, "peft_type", "LORA"));
    RF_TRY(check_text(root, "bias", "none"));
    RF_TRY(check_beginning(root));
    RF_TRY(check_keys(root));
    RF_TRY(rf_json_i32(root, "r", &rank));
    RF_REQUIRE(rank >= 1, "'r' is %d, not a rank", (int)rank);
    RF_TRY(rf_json_float(root, "lora_alpha", &alpha));
    RF_TRY(rf_json_float(root, "lora_dropout", &config->dropout));
    RF_TRY(rf_json_bool(root, "use_rslora", &config->rank_stabilized));
    RF_TRY(rf_json_bool(root, "use_dora", &config->weight_decomposed));
    config->rank = (uint32_t)rank;
    config->alpha = alpha;
    return rf_lora_config_check(config, "the adapter");
}

rf_result rf_lora_config_read(const char *path, const char *text, size_t size, rf_lora_config *config)
{
    json_t *root;
    *config = (rf_lora_config){ 0 };
    rf_result r = rf_json_parse(text, size, "the configuration", &root);
    if (r >= 0) {
        r = read_root(root, config);
        json_decref(root);
    }
    return rf_error_context(r, "'%s'", path);
}
