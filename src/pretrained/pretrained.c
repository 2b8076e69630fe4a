/* SPDX-License-Identifier: Apache-2.0 */
/* Directories of the hub as models, and back. */
#include <ringfire/pretrained.h>

#include <stdio.h>
#include <string.h>

#include "base/params.h"
#include "base/platform.h"
#include "base/quantized_weight.h"
#include "persist/file_ops.h"
#include "persist/json.h"
#include "pretrained/architectures.h"
#include "pretrained/config.h"
#include "pretrained/generation.h"
#include "pretrained/gguf_export.h"
#include "pretrained/gguf_import.h"
#include "pretrained/modules.h"
#include "pretrained/names.h"
#include "pretrained/weights.h"
#include "train/checkpoint/checkpoint.h"
#include "train/model/model.h"

enum { MOST_CONFIG = 1 << 20 };
#define CONFIG_FILE "config.json"

static const rf_pretrained_architecture *const own_architectures[] = {
    &rf_pretrained_bert,
    &rf_pretrained_distilbert,
    &rf_pretrained_gemma2,
    &rf_pretrained_gpt2,
    &rf_pretrained_llama,
    &rf_pretrained_mistral,
    &rf_pretrained_mobilenet_v3_large,
    &rf_pretrained_mobilenet_v3_small,
    &rf_pretrained_phi3,
    &rf_pretrained_qwen2,
    &rf_pretrained_qwen3,
    &rf_pretrained_resnet,
    &rf_pretrained_resnet18,
    &rf_pretrained_resnet34,
    &rf_pretrained_resnet50,
    &rf_pretrained_resnet101,
    &rf_pretrained_resnet152,
    &rf_pretrained_vit,
    &rf_pretrained_roberta,
    &rf_pretrained_xlm_roberta,
};
/* These go with the weights, as they are. */
static const char *const other_files[] = {
    "added_tokens.json",
    "chat_template.jinja",
    CONFIG_FILE,
    RF_PRETRAINED_GENERATION,
    "merges.txt",
    "preprocessor_config.json",
    RF_PRETRAINED_INDEX,
    "special_tokens_map.json",
    "tokenizer.json",
    "tokenizer.model",
    "tokenizer_config.json",
    "vocab.json",
    "vocab.txt",
};

struct rf_pretrained {
    rf_model *model;
    char *path;           /* of the directory, or of a GGUF file */
    char *config_path;    /* of what says what the model is */
    rf_gguf_import *gguf; /* of the chief; NULL: a directory */
    rf_generation_defaults generation;
    rf_tensor_files files; /* of the chief alone, like the weights */
    rf_weights weights;
    rf_module_names modules;
    char *config_text; /* of the chief: what is to be saved instead of the file; NULL: nothing */
    rf_weight_report report;
};

/* ---- the architecture ---- */

static rf_result check_architecture(const rf_pretrained_architecture *a)
{
    RF_REQUIRE(a->model_type && *a->model_type && a->build && (a->tensors || a->num_tensors == 0),
               "rf_pretrained_open: an architecture has no model_type, build or tensors");
    for (uint32_t i = 0; i < a->num_tensors; i++) {
        const rf_pretrained_tensor *row = &a->tensors[i];
        const bool follows = i > 0 && row->tensor && strcmp(row->tensor, a->tensors[i - 1].tensor) == 0;
        RF_REQUIRE(row->tensor && *row->tensor, "rf_pretrained_open: row %u of the table of '%s' names no tensor", i,
                   a->model_type);
        RF_REQUIRE(row->layout == RF_PRETRAINED_SAME || row->layout == RF_PRETRAINED_TRANSPOSED,
                   "rf_pretrained_open: '%s' of '%s': layout %d does not exist", row->tensor, a->model_type,
                   (int)row->layout);
        RF_REQUIRE(row->part <= 1 || (follows && a->tensors[i - 1].part == row->part - 1),
                   "rf_pretrained_open: '%s' of '%s': part %u does not follow part %u", row->tensor, a->model_type,
                   row->part, row->part - 1);
        if (row->variable) RF_TRY(rf_error_context(rf_name_check(row->tensor, row->variable), "rf_pretrained_open"));
    }
    return RF_OK;
}

static const rf_pretrained_architecture *find_in(const rf_pretrained_architecture *list, uint32_t count,
                                                 const char *model_type)
{
    for (uint32_t i = 0; i < count; i++)
        if (strcmp(list[i].model_type, model_type) == 0) return &list[i];
    return NULL;
}

static rf_result find_architecture(rf_pretrained_config *config, const rf_pretrained_params *params,
                                   const rf_pretrained_architecture **out)
{
    const bool has_type = rf_pretrained_config_has(config, "model_type");
    const char *key = has_type ? "model_type" : "architecture", *type = rf_pretrained_config_text(config, key);
    RF_TRY(rf_pretrained_config_status(config));
    if (!type) return RF_FAIL(RF_ERROR_NOT_FOUND, "'%s': 'model_type' is not there", config->path);
    *out = params ? find_in(params->architectures, params->num_architectures, type) : NULL;
    for (uint32_t i = 0; !*out && i < sizeof(own_architectures) / sizeof(own_architectures[0]); i++)
        *out = find_in(own_architectures[i], 1, type);
    if (!*out) rf_pretrained_config_refuse(config, key, ", which is no architecture that is known here");
    return rf_pretrained_config_status(config);
}

/* ---- the model ---- */

/* The layers that a configuration describes; the builder may have ended when this fails. */
static rf_result describe_model(rf_pretrained_config *config, const rf_pretrained_architecture *architecture,
                                const rf_pretrained_params *params, rf_model_builder *builder,
                                rf_pretrained_outputs *outputs)
{
    const uint64_t before = rf_error_count();
    const rf_result r = architecture->build(config, builder, outputs, architecture->user);
    RF_TRY(rf_pretrained_config_status(config));
    RF_TRY(rf_error_of_user(r, before, "the function of the architecture"));
    RF_TRY(RF_PARAMS_CHECK(rf_pretrained_outputs, outputs));
    RF_REQUIRE(outputs->count > 0 && outputs->count <= RF_MAX_COMPONENTS,
               "rf_pretrained_open: the function of architecture '%s' gives %u outputs", architecture->model_type,
               outputs->count);
    RF_REQUIRE(config->num_classes == 0 || config->classes_key,
               "rf_pretrained_open: num_classes: models of type '%s' are no classifiers", architecture->model_type);
    if (config->packed && !config->packed_known)
        return RF_FAIL(RF_ERROR_UNSUPPORTED,
                       "rf_pretrained_open: packed is set, but models of type '%s' tell no sequences of a row apart",
                       architecture->model_type);
    return rf_pretrained_config_check_read(config, architecture, params);
}

static rf_result make_model(rf_strategy *strategy, rf_pretrained_config *config,
                            const rf_pretrained_architecture *architecture, const rf_pretrained_params *params,
                            const rf_variable_source *source, rf_model **out)
{
    rf_model_builder *builder;
    rf_pretrained_outputs outputs = { 0 };
    RF_TRY(rf_model_builder_create(strategy, &builder));
    rf_result r = describe_model(config, architecture, params, builder, &outputs);
    if (r >= 0) {
        rf_strategy_set_variable_source(strategy, source);
        r = rf_model_builder_finish(&builder, outputs.symbol, outputs.count, outputs.name, out);
        rf_strategy_set_variable_source(strategy, NULL);
    }
    rf_model_builder_destroy(&builder);
    return r;
}

static rf_result admit_variable(void *user, const char *name, rf_shape shape)
{
    return rf_weights_admit(user, name, shape);
}

/* Other workers have no files, and make the same model. */
static rf_result admit_any(void *user, const char *name, rf_shape shape)
{
    (void)user;
    (void)name;
    (void)shape;
    return RF_OK;
}

/* ---- the weights ---- */

/* One window, from the chief to all replicas of all workers. */
static rf_result move_window(rf_pretrained *p, const rf_weight *w, rf_variable *variable, rf_range range, float *values,
                             void *raw)
{
    rf_strategy *strategy = p->model->strategy;
    rf_result r = RF_OK;
    if (w)
        r = rf_weight_read(&p->weights, w, range.begin / w->out, range.end / w->out, values, raw);
    else if (rf_strategy_is_chief(strategy)) /* as its initializer has made it */
        r = rf_variable_read_range(variable, range, values);
    RF_TRY(rf_broadcast_result(strategy, r));
    RF_TRY(rf_broadcast_bytes(strategy, "pretrained weights", values, (range.end - range.begin) * sizeof(float)));
    return rf_variable_assign_range(variable, range, values);
}

/* All of the variable's values, on the chief, as the words that every replica gets. */
static rf_result pack_weight(const rf_pretrained *p, const rf_weight *w, const rf_variable *variable, void *raw,
                             void *words)
{
    float *all = RF_NEW_ARRAY(float, w->in * w->out);
    rf_result r = all ? RF_OK : RF_ERROR_OUT_OF_HOST_MEMORY;
    const uint64_t step = rf_weight_rows(w);
    for (uint64_t at = 0; r >= 0 && at < w->in; at += step)
        r = rf_weight_read(&p->weights, w, at, at + step < w->in ? at + step : w->in, all + at * w->out, raw);
    if (r >= 0)
        r = rf_error_context(rf_variable_pack(variable, all, words), "'%s': tensor '%.200s'", p->path,
                             w->tensor->is.name);
    rf_free(all);
    return r;
}

static rf_result load_quantized(rf_pretrained *p, const rf_model_variable *of, void *raw)
{
    rf_variable *variable = of->variable;
    rf_strategy *strategy = p->model->strategy;
    rf_quantization kind;
    const uint64_t count = rf_variable_quantized(variable, &kind)->words;
    float *words = RF_NEW_ARRAY(float, count);
    rf_result r = rf_strategy_fail_in_job(strategy, words ? RF_OK : RF_ERROR_OUT_OF_HOST_MEMORY);
    const rf_weight *w = rf_strategy_is_chief(strategy) ? rf_weights_source(&p->weights, of->name) : NULL;
    if (r >= 0 && w && w->is_new)
        r = RF_FAIL(RF_ERROR_INVALID_ARGUMENT,
                    "'%s' begins anew, and what is in few bits is not trained: leave it out of rf_quantize_params",
                    of->name);
    else if (r >= 0 && w)
        r = pack_weight(p, w, variable, raw, words);
    r = rf_broadcast_result(strategy, r);
    for (uint64_t at = 0, n; r >= 0 && at < count; at += n) {
        n = count - at < RF_WEIGHTS_WINDOW ? count - at : RF_WEIGHTS_WINDOW;
        r = rf_broadcast_bytes(strategy, "pretrained weights", words + at, n * sizeof(float));
    }
    if (r >= 0) r = rf_variable_write_words(variable, words);
    rf_free(words);
    return r;
}

static rf_result load_variable(rf_pretrained *p, const rf_model_variable *of, float *values, void *raw)
{
    rf_quantization kind;
    if (rf_variable_quantized(of->variable, &kind)) return load_quantized(p, of, raw);
    rf_strategy *strategy = p->model->strategy;
    rf_variable *variable = of->variable;
    const rf_weight *w = rf_strategy_is_chief(strategy) ? rf_weights_source(&p->weights, of->name) : NULL;
    const uint64_t count = (uint64_t)rf_shape_count(rf_variable_shape(variable));
    uint64_t step = w && !w->is_new ? rf_weight_rows(w) * w->out : 0;
    RF_TRY(rf_broadcast_bytes(strategy, "pretrained window", &step, sizeof(step)));
    if (step == 0) {
        step = RF_WEIGHTS_WINDOW;
        w = NULL;
    }
    if (step > RF_WEIGHTS_WINDOW)
        return RF_FAIL(RF_ERROR_INTERNAL, "rank 0 reads '%s' in pieces of %llu elements", rf_variable_name(variable),
                       (unsigned long long)step);
    for (uint64_t at = 0; at < count; at += step)
        RF_TRY(move_window(p, w, variable, (rf_range){ at, at + step < count ? at + step : count }, values, raw));
    return RF_OK;
}

static rf_result load_weights(rf_pretrained *p)
{
    rf_strategy *strategy = p->model->strategy;
    float *values = RF_NEW_ARRAY(float, RF_WEIGHTS_WINDOW);
    void *raw = rf_strategy_is_chief(strategy) ? RF_NEW_ARRAY(float, RF_WEIGHTS_WINDOW) : NULL;
    rf_result r = values && (raw || !rf_strategy_is_chief(strategy)) ? RF_OK : RF_ERROR_OUT_OF_HOST_MEMORY;
    r = rf_strategy_fail_in_job(strategy, r);
    for (uint32_t i = 0; r >= 0 && i < p->model->tracked.count; i++)
        r = load_variable(p, &p->model->tracked.items[i], values, raw);
    rf_free(values);
    rf_free(raw);
    return r;
}

/* ---- opening ---- */

/* The chief's first part: a GGUF file, where the path means one. */
static rf_result open_gguf(rf_pretrained *p, const rf_pretrained_params *params)
{
    char *path;
    rf_gguf *file;
    RF_TRY(rf_gguf_find_file(p->path, &path));
    if (!path) return (p->files.directory = rf_strdup(p->path)) ? RF_OK : RF_ERROR_OUT_OF_HOST_MEMORY;
    rf_free(p->config_path);
    p->config_path = path;
    RF_TRY(rf_gguf_open(path, &file));
    RF_TRY(rf_gguf_import_create(file, path, params ? params->ignored_keys : NULL,
                                 params ? params->num_ignored_keys : 0, &p->gguf));
    return rf_gguf_import_files(p->gguf, &p->files);
}

static rf_result read_config(const rf_pretrained *p, rf_pretrained_config *config, char **text, size_t *size)
{
    RF_TRY(rf_tensor_files_text(&p->files, CONFIG_FILE, MOST_CONFIG, text, size));
    return rf_pretrained_config_parse(config, p->config_path, *text, *size);
}

/* The most variables and layers that a model of the chief's files can have. */
typedef struct model_room {
    rf_variable_room variables;
    uint64_t tensors;
} model_room;

/* The chief's part: the files, and what their tensors are called. */
static rf_result open_files(rf_pretrained *p, const rf_strategy *strategy,
                            const rf_pretrained_architecture *architecture, model_room *room)
{
    if (!p->gguf) {
        rf_tensor_files_close(&p->files);
        RF_TRY(rf_tensor_files_open(&p->files, p->path));
    }
    RF_TRY(rf_weights_match(&p->weights, &p->files, architecture));
    *room = (model_room){ rf_weights_room(&p->weights, strategy), p->files.num_entries };
    return RF_OK;
}

/* The chief's text to all workers. */
static rf_result broadcast_text(rf_strategy *strategy, char **text, size_t *size)
{
    uint64_t bytes = *size;
    RF_TRY(rf_broadcast_bytes(strategy, "config size", &bytes, sizeof(bytes)));
    if (bytes > MOST_CONFIG)
        return RF_FAIL(RF_ERROR_INTERNAL, "rank 0 sent a configuration of %llu bytes", (unsigned long long)bytes);
    if (!rf_strategy_is_chief(strategy)) *text = rf_calloc((size_t)bytes + 1, 1);
    RF_TRY(rf_strategy_fail_in_job(strategy, *text ? RF_OK : RF_ERROR_OUT_OF_HOST_MEMORY));
    *size = (size_t)bytes;
    return rf_broadcast_bytes(strategy, "config", *text, bytes);
}

/* The configuration, with the classes that were asked for. */
static rf_result describe_classes(const rf_pretrained_config *config, const char *const *names, char **text)
{
    json_t *root = json_deep_copy(config->root), *labels = json_object(), *numbers = json_object();
    bool whole = root && labels && numbers;
    for (uint32_t i = 0; whole && i < config->num_classes; i++) {
        char number[16], made[24];
        snprintf(number, sizeof(number), "%u", i);
        snprintf(made, sizeof(made), "LABEL_%u", i);
        const char *name = names && names[i] ? names[i] : made;
        whole = json_object_set_new(labels, number, json_string(name)) == 0 &&
                json_object_set_new(numbers, name, json_integer(i)) == 0;
    }
    whole = whole && json_object_set(root, "id2label", labels) == 0 && json_object_set(root, "label2id", numbers) == 0;
    if (whole && config->class_name)
        whole = json_object_set_new(root, "architectures", json_pack("[s]", config->class_name)) == 0;
    if (whole && strcmp(config->classes_key, "id2label") != 0)
        whole = json_object_set_new(root, config->classes_key, json_integer(config->num_classes)) == 0;
    json_decref(labels);
    json_decref(numbers);
    if (whole) return rf_json_text(root, text);
    json_decref(root);
    return RF_FAIL(RF_ERROR_OUT_OF_HOST_MEMORY, "class_names: out of memory, or a name that is not UTF-8");
}

/* All workers make the same model, of the chief's text; the chief's tensors have to fit its variables. */
static rf_result open_model(rf_pretrained *p, rf_strategy *strategy, rf_pretrained_config *config,
                            const rf_pretrained_architecture *architecture, const rf_pretrained_params *params,
                            const model_room *room)
{
    const bool chief = rf_strategy_is_chief(strategy);
    const rf_variable_source source = { chief ? admit_variable : admit_any, chief ? &p->weights : NULL };
    config->num_tensors = room->tensors;
    config->steps = params ? params->sequence_length : 0;
    config->packed = params && params->packed;
    config->image_size = params ? params->image_size : 0;
    config->synchronized_batch_norm = params && params->synchronized_batch_norm;
    config->num_classes = params ? params->num_classes : 0;
    RF_TRY(rf_strategy_reserve_variables(strategy, &room->variables));
    p->weights.new_heads = config->num_classes > 0;
    RF_TRY(make_model(strategy, config, architecture, params, &source, &p->model));
    const char *class = config->class_name ? config->class_name : rf_pretrained_config_text(config, "architectures.0");
    rf_module_names_init(&p->modules, architecture, class, p->path, p->model);
    p->model->weight_names = &p->modules.names;
    if (chief && config->num_classes > 0) RF_TRY(describe_classes(config, params->class_names, &p->config_text));
    return chief ? rf_weights_bind(&p->weights, p->model) : RF_OK;
}

/* Makes known to all workers how the chief's file says that texts are generated. */
static rf_result open_generation(rf_pretrained *p, rf_strategy *strategy, const rf_pretrained_config *config)
{
    char *text = NULL, *path = rf_path_in(p->path, RF_PRETRAINED_GENERATION);
    size_t size = 0;
    rf_result r = path ? RF_OK : RF_ERROR_OUT_OF_HOST_MEMORY;
    if (r >= 0 && rf_strategy_is_chief(strategy))
        r = rf_tensor_files_text(&p->files, RF_PRETRAINED_GENERATION, MOST_CONFIG, &text, &size);
    if (r == RF_ERROR_NOT_FOUND) r = (text = rf_strdup("")) ? RF_OK : RF_ERROR_OUT_OF_HOST_MEMORY;
    r = rf_broadcast_result(strategy, r);
    if (r >= 0 && rf_strategy_world_size(strategy) > 1) r = broadcast_text(strategy, &text, &size);
    if (r >= 0) rf_generation_defaults_read(&p->generation, path, text, size, config->root);
    rf_free(text);
    rf_free(path);
    return r;
}

static rf_result share_report(rf_pretrained *p, rf_strategy *strategy)
{
    rf_weight_notes notes = { 0 };
    rf_result r = RF_OK;
    if (rf_strategy_is_chief(strategy)) r = rf_weights_note(&p->weights, p->model, &notes);
    r = rf_broadcast_result(strategy, r);
    if (r >= 0) r = rf_weight_report_share(strategy, &notes, &p->report);
    rf_weight_notes_free(&notes);
    return r;
}

static rf_result open_all(rf_pretrained *p, rf_strategy *strategy, const rf_pretrained_params *params,
                          rf_pretrained_config *config, char **text)
{
    size_t size = 0;
    model_room room = { 0 };
    rf_result r = RF_OK;
    const rf_pretrained_architecture *architecture = NULL;
    const bool chief = rf_strategy_is_chief(strategy);
    if (chief) r = open_gguf(p, params);
    if (chief && r >= 0) r = read_config(p, config, text, &size);
    if (chief && r >= 0) r = find_architecture(config, params, &architecture);
    if (chief && r >= 0) r = open_files(p, strategy, architecture, &room);
    RF_TRY(rf_broadcast_result(strategy, r));
    if (rf_strategy_world_size(strategy) > 1) RF_TRY(broadcast_text(strategy, text, &size));
    RF_TRY(rf_broadcast_bytes(strategy, "elements of a model", &room, sizeof(room)));
    if (!chief) r = rf_pretrained_config_parse(config, p->config_path, *text, size);
    if (!chief && r >= 0) r = find_architecture(config, params, &architecture);
    RF_TRY(rf_strategy_fail_in_job(strategy, r));
    r = open_model(p, strategy, config, architecture, params, &room);
    RF_TRY(rf_broadcast_result(strategy, r));
    RF_TRY(rf_strategy_fail_in_job(strategy, r));
    RF_TRY(open_generation(p, strategy, config));
    RF_TRY(share_report(p, strategy));
    return load_weights(p);
}

rf_result rf_pretrained_open(rf_strategy *strategy, const char *path, const rf_pretrained_params *params,
                             rf_pretrained **out)
{
    RF_REQUIRE(out, "rf_pretrained_open: out is NULL");
    *out = NULL;
    RF_TRY(RF_PARAMS_CHECK(rf_pretrained_params, params));
    RF_TRY(RF_PARAMS_CHECK(rf_quantize_params, params ? params->quantize : NULL));
    RF_REQUIRE(strategy, "rf_pretrained_open: strategy is NULL");
    RF_REQUIRE(path && *path, "rf_pretrained_open: path is empty");
    RF_REQUIRE(!params || params->num_classes <= INT32_MAX, "rf_pretrained_open: num_classes is %u",
               params->num_classes);
    RF_REQUIRE(!params || !params->class_names || params->num_classes > 0,
               "rf_pretrained_open: class_names are given, but no num_classes");
    for (uint32_t i = 0; params && i < params->num_architectures; i++)
        RF_TRY(check_architecture(&params->architectures[i]));
    rf_pretrained *p = RF_NEW(rf_pretrained);
    char *text = NULL;
    rf_pretrained_config config = { 0 };
    rf_result r = p && (p->config_path = rf_path_in(path, CONFIG_FILE)) && (p->path = rf_strdup(path))
                      ? RF_OK
                      : RF_ERROR_OUT_OF_HOST_MEMORY;
    r = rf_strategy_fail_in_job(strategy, r);
    rf_quantize_rules rules = { 0 }; /* of the strategy, while it has these */
    const bool own_rules = r >= 0 && params && params->quantize;
    if (own_rules) r = rf_quantize_rules_set(&rules, params->quantize, "rf_pretrained_open: quantize");
    if (own_rules) rf_strategy_exchange_quantization(strategy, &rules);
    if (r >= 0) r = open_all(p, strategy, params, &config, &text);
    if (own_rules) rf_strategy_exchange_quantization(strategy, &rules);
    rf_quantize_rules_clear(&rules);
    rf_pretrained_config_clear(&config);
    rf_free(text);
    if (r < 0)
        rf_pretrained_destroy(&p);
    else
        *out = p;
    return r;
}

/* ---- images ---- */

/* (pixel * factor - mean) / deviation of a byte's value, as that of pixel / 255. */
static rf_result read_scale(rf_pretrained_config *c, int64_t channels, rf_augment_params *out)
{
    char key[16];
    const double factor = rf_pretrained_config_flag(c, "do_rescale", true)
                              ? rf_pretrained_config_number(c, "rescale_factor", 1.0 / 255)
                              : 1.0;
    const bool normalizes = rf_pretrained_config_flag(c, "do_normalize", true);
    if (!(factor > 0)) rf_pretrained_config_refuse(c, "rescale_factor", ", which is not positive");
    for (int i = 0; i < channels && i < 4; i++) {
        snprintf(key, sizeof(key), "image_mean.%d", i);
        const double mean = normalizes ? rf_pretrained_config_number(c, key, 0.0) : 0.0;
        snprintf(key, sizeof(key), "image_std.%d", i);
        const double deviation = normalizes ? rf_pretrained_config_number(c, key, 1.0) : 1.0;
        if (!(deviation > 0)) rf_pretrained_config_refuse(c, key, ", which is not positive");
        out->mean[i] = (float)(mean / (255 * factor));
        out->deviation[i] = (float)(deviation / (255 * factor));
    }
    return rf_pretrained_config_status(c);
}

static rf_result read_scale_file(const rf_pretrained *p, rf_augment_params *out)
{
    char *text = NULL, *path = rf_path_in(p->path, "preprocessor_config.json");
    size_t size = 0;
    rf_pretrained_config config = { 0 };
    rf_result r = path ? rf_text_file_read(path, MOST_CONFIG, &text, &size) : RF_ERROR_OUT_OF_HOST_MEMORY;
    const bool none = r == RF_ERROR_NOT_FOUND;
    if (none)
        r = rf_pretrained_config_parse(&config, path, "{}", 2);
    else if (r >= 0)
        r = rf_pretrained_config_parse(&config, path, text, size);
    if (r >= 0) r = read_scale(&config, rf_model_input_shape(p->model, 0).dim[2], out);
    rf_pretrained_config_clear(&config);
    rf_free(text);
    rf_free(path);
    return r;
}

rf_result rf_pretrained_image_scale(const rf_pretrained *pretrained, rf_augment_params *params)
{
    RF_REQUIRE(pretrained, "rf_pretrained_image_scale: pretrained is NULL");
    RF_REQUIRE(params, "rf_pretrained_image_scale: params is NULL");
    RF_TRY(RF_PARAMS_CHECK(rf_augment_params, params));
    RF_REQUIRE(rf_model_input_shape(pretrained->model, 0).rank == 3,
               "rf_pretrained_image_scale: the model of '%s' takes no images", pretrained->path);
    rf_strategy *strategy = pretrained->model->strategy;
    rf_augment_params scale = *params;
    memset(scale.mean, 0, sizeof(scale.mean));
    memset(scale.deviation, 0, sizeof(scale.deviation));
    rf_result r = RF_OK;
    if (rf_strategy_is_chief(strategy)) r = read_scale_file(pretrained, &scale);
    RF_TRY(rf_broadcast_result(strategy, r));
    RF_TRY(rf_broadcast_bytes(strategy, "scale of images", scale.mean, sizeof(scale.mean)));
    RF_TRY(rf_broadcast_bytes(strategy, "scale of images", scale.deviation, sizeof(scale.deviation)));
    *params = scale;
    return RF_OK;
}

const rf_weight_report *rf_pretrained_weight_report(const rf_pretrained *pretrained)
{
    return pretrained ? &pretrained->report : NULL;
}

const char *rf_pretrained_new_variable(const rf_pretrained *pretrained, uint32_t index)
{
    const rf_weight_report *report = rf_pretrained_weight_report(pretrained);
    for (uint32_t i = 0; report && i < report->count; i++) {
        const rf_weight_note *note = &report->notes[i];
        const bool is_new = note->outcome == RF_WEIGHT_MISSING || note->outcome == RF_WEIGHT_MISMATCHED;
        if (is_new && index-- == 0) return note->variable;
    }
    return NULL;
}

rf_model *rf_pretrained_model(const rf_pretrained *pretrained)
{
    return pretrained ? pretrained->model : NULL;
}

rf_result rf_pretrained_generate_params(const rf_pretrained *pretrained, rf_generate_params *params)
{
    RF_REQUIRE(pretrained && params, "rf_pretrained_generate_params: %s is NULL", pretrained ? "params" : "pretrained");
    RF_TRY(RF_PARAMS_CHECK(rf_generate_params, params));
    const rf_generation_defaults *d = &pretrained->generation;
    if (d->status < 0) return rf_error_restore(&d->error);
    params->sampling = d->sampling;
    params->stop_tokens = d->stop_tokens;
    params->num_stop_tokens = d->num_stop_tokens;
    if (d->max_new_tokens > 0) params->max_new_tokens = d->max_new_tokens;
    return RF_OK;
}

void rf_pretrained_destroy(rf_pretrained **pretrained)
{
    if (!pretrained || !*pretrained) return;
    rf_pretrained *p = *pretrained;
    *pretrained = NULL;
    if (p->model) p->model->weight_names = NULL;
    rf_model_destroy(&p->model);
    rf_generation_defaults_clear(&p->generation);
    rf_weights_clear(&p->weights);
    rf_tensor_files_close(&p->files);
    rf_gguf_import_destroy(&p->gguf);
    rf_free(p->config_path);
    rf_free(p->config_text);
    rf_weight_report_free(&p->report);
    rf_free(p->path);
    rf_free(p);
}

/* ---- saving ---- */

/* All of a file under another name; one that is not there is left out. */
static rf_result copy_file(const char *from, const char *to)
{
    enum { PIECE = 1 << 20 };
    const rf_file_ops *ops = &rf_system_file_ops;
    int fd;
    uint64_t size;
    const rf_result found = rf_file_open_sized(ops, from, &fd, &size);
    if (found < 0) return found == RF_ERROR_NOT_FOUND ? RF_OK : found;
    void *piece = rf_calloc(PIECE, 1);
    rf_new_file file;
    rf_result r = piece ? rf_new_file_begin(&file, ops, to) : RF_ERROR_OUT_OF_HOST_MEMORY;
    if (r >= 0) {
        for (uint64_t at = 0, n; r >= 0 && at < size; at += n) {
            n = size - at < PIECE ? size - at : PIECE;
            r = rf_file_read_at(ops, fd, from, piece, n, at);
            if (r >= 0) r = rf_file_write_at(ops, file.fd, to, piece, n, at);
        }
        if (r >= 0)
            r = rf_new_file_commit(&file);
        else
            rf_new_file_abandon(&file);
    }
    rf_free(piece);
    ops->close(ops->user, fd);
    return r;
}

static rf_result save_weights(const rf_pretrained *p, const char *path)
{
    for (uint32_t i = 0; i < p->files.num_files; i++) {
        char *to = rf_path_in(path, p->files.files[i].name);
        const rf_result r = to ? rf_weights_write(&p->weights, i, to) : RF_ERROR_OUT_OF_HOST_MEMORY;
        rf_free(to);
        RF_TRY(r);
    }
    return RF_OK;
}

static rf_result write_text(const char *text, const char *to)
{
    rf_new_file file;
    RF_TRY(rf_new_file_begin(&file, &rf_system_file_ops, to));
    const rf_result r = rf_file_write_at(&rf_system_file_ops, file.fd, to, text, strlen(text), 0);
    if (r >= 0) return rf_new_file_commit(&file);
    rf_new_file_abandon(&file);
    return r;
}

/* The directory has an index, and tensors that it does not name. */
static bool needs_index(const rf_pretrained *p)
{
    return p->files.num_added > 0 && strcmp(p->files.files[0].name, RF_PRETRAINED_FILE) != 0;
}

static rf_result write_made(const rf_pretrained *p, const char *name, const char *to)
{
    char *text;
    size_t size;
    rf_result r = rf_tensor_files_text(&p->files, name, MOST_CONFIG, &text, &size);
    if (r == RF_ERROR_NOT_FOUND) return RF_OK;
    if (r >= 0) r = write_text(text, to);
    rf_free(text);
    return r;
}

static rf_result write_index(const rf_pretrained *p, const char *to)
{
    char *text;
    RF_TRY(rf_weights_index(&p->weights, &text));
    const rf_result r = write_text(text, to);
    rf_free(text);
    return r;
}

static rf_result save_others(const rf_pretrained *p, const char *path)
{
    for (uint32_t i = 0; i < sizeof(other_files) / sizeof(other_files[0]); i++) {
        char *from = rf_path_in(p->path, other_files[i]), *to = rf_path_in(path, other_files[i]);
        rf_result r = from && to ? RF_OK : RF_ERROR_OUT_OF_HOST_MEMORY;
        if (r >= 0 && strcmp(other_files[i], CONFIG_FILE) == 0 && p->config_text)
            r = write_text(p->config_text, to);
        else if (r >= 0 && strcmp(other_files[i], RF_PRETRAINED_INDEX) == 0 && needs_index(p))
            r = write_index(p, to);
        else if (r >= 0 && p->gguf)
            r = write_made(p, other_files[i], to);
        else if (r >= 0)
            r = copy_file(from, to);
        rf_free(from);
        rf_free(to);
        RF_TRY(r);
    }
    return RF_OK;
}

rf_result rf_pretrained_save(rf_pretrained *pretrained, const char *path)
{
    RF_REQUIRE(pretrained, "rf_pretrained_save: pretrained is NULL");
    RF_REQUIRE(path && *path, "rf_pretrained_save: path is empty");
    rf_strategy *strategy = pretrained->model->strategy;
    rf_result r = RF_OK;
    if (rf_strategy_is_chief(strategy)) {
        r = rf_make_directories(path, 0777);
        if (r >= 0) r = save_others(pretrained, path);
        if (r >= 0) r = save_weights(pretrained, path);
    }
    return rf_broadcast_result(strategy, r);
}

typedef struct gguf_request {
    const rf_pretrained *pretrained;
    const char *path;
    const rf_pretrained_gguf_params *params;
} gguf_request;

static rf_result write_gguf(void *user, const rf_archive_source *source)
{
    const gguf_request *q = user;
    return rf_gguf_write_model(q->pretrained->path, &q->pretrained->files, source, q->path, q->params);
}

rf_result rf_pretrained_save_gguf(rf_pretrained *pretrained, const char *path, const rf_pretrained_gguf_params *params)
{
    RF_TRY(rf_gguf_check_params("rf_pretrained_save_gguf", path, params));
    RF_REQUIRE(pretrained, "rf_pretrained_save_gguf: pretrained is NULL");
    rf_strategy *strategy = pretrained->model->strategy;
    gguf_request request = { pretrained, path, params };
    rf_result r = RF_OK;
    if (rf_strategy_is_chief(strategy)) r = rf_weights_with_source(&pretrained->weights, write_gguf, &request);
    return rf_broadcast_result(strategy, r);
}
