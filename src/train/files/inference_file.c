/* SPDX-License-Identifier: Apache-2.0 */
#include "train/files/inference_file.h"

#include <string.h>

#include "base/params.h"
#include "train/checkpoint/checkpoint.h"
#include "train/files/inference_json.h"
#include "train/model/model.h"

/* ---- writing ---- */

/* The contents that the file will have. Names and bytes are the arena's. */
typedef struct contents {
    rf_arena arena;
    struct {
        rf_archive_tensor *items;
        uint32_t count, capacity;
    } tensors;
    char **names; /* of the tensor of each value */
} contents;

static rf_result keep_name(contents *c, char *name, char **out)
{
    *out = name ? rf_arena_strdup(&c->arena, name) : NULL;
    rf_free(name);
    return *out ? RF_OK : RF_ERROR_OUT_OF_HOST_MEMORY;
}

static rf_result add_tensor(contents *c, const char *name, rf_tensor_desc desc, const void *data)
{
    RF_TRY(RF_VEC_GROW(&c->tensors));
    c->tensors.items[c->tensors.count++] =
        (rf_archive_tensor){ .name = name, .dtype = desc.dtype, .shape = desc.shape, .data = data };
    return RF_OK;
}

static rf_result add_variable(contents *c, const rf_variable *v, const char *name)
{
    const rf_tensor_desc desc = { RF_F32, rf_variable_shape(v) };
    float *values = rf_arena_alloc(&c->arena, (size_t)rf_tensor_bytes(&desc));
    if (!values) return RF_ERROR_OUT_OF_HOST_MEMORY;
    RF_TRY(rf_variable_read(v, values));
    return add_tensor(c, name, desc, values);
}

/* All variables of the model, used or not, under the names that checkpoints and weights have for them. */
static rf_result add_model(contents *c, const rf_model *model, const rf_graph *graph)
{
    for (uint32_t i = 0; i < model->tracked.count; i++) {
        const rf_variable *variable = model->tracked.items[i].variable;
        char *name;
        RF_TRY(keep_name(c, rf_asprintf("model/%s", model->tracked.items[i].name), &name));
        RF_TRY(add_variable(c, variable, name));
        for (rf_value v = 1; v < graph->values.count; v++)
            if (graph->values.items[v].object == variable) c->names[v] = name;
    }
    return RF_OK;
}

static rf_result add_constants(contents *c, const rf_graph *graph)
{
    for (rf_value v = 1; v < graph->values.count; v++) {
        const rf_value_info *value = &graph->values.items[v];
        if (value->kind != RF_VALUE_CONSTANT) continue;
        RF_TRY(keep_name(c, rf_asprintf("constant/%u", v), &c->names[v]));
        RF_TRY(add_tensor(c, c->names[v], value->desc, value->data));
    }
    return RF_OK;
}

static rf_result write_contents(contents *c, const rf_model *model, const rf_inference_graph *g, const char *path,
                                const rf_save_params *params)
{
    char *text;
    c->names = rf_arena_alloc(&c->arena, g->graph->values.count * sizeof(*c->names));
    if (!c->names) return RF_ERROR_OUT_OF_HOST_MEMORY;
    RF_TRY(add_model(c, model, g->graph));
    RF_TRY(add_constants(c, g->graph));
    RF_TRY(rf_inference_graph_to_text(g, c->names, &text));
    const rf_archive_value value = { .name = "graph", .kind = RF_VALUE_STRING, .bytes = text, .size = strlen(text) };
    const rf_archive_contents archive = { .type = "inference",
                                          .tensors = c->tensors.items,
                                          .num_tensors = c->tensors.count,
                                          .values = &value,
                                          .num_values = 1 };
    const rf_result r = rf_archive_write(path, &archive, params);
    rf_free(text);
    return r;
}

rf_result rf_model_export(rf_model *model, const char *path, const rf_save_params *params)
{
    RF_TRY(RF_PARAMS_CHECK(rf_save_params, params));
    RF_REQUIRE(model, "rf_model_export: model is NULL");
    RF_REQUIRE(path && *path, "rf_model_export: path is empty");
    RF_REQUIRE(!params || !params->async, "rf_model_export: params->async is for rf_checkpoint_save()");
    RF_REQUIRE(model->built, "rf_model_export: the model has no variables yet; call rf_model_build() first");
    rf_inference_graph g;
    RF_TRY(rf_error_context(rf_inference_graph_of_model(model, &g), "rf_model_export"));
    contents c = { 0 };
    rf_result r = RF_OK;
    if (rf_strategy_is_chief(model->strategy))
        r = rf_error_context(write_contents(&c, model, &g, path, params), "rf_model_export");
    rf_free(c.tensors.items);
    rf_arena_free(&c.arena);
    rf_inference_graph_free(&g);
    return rf_broadcast_result(model->strategy, r);
}

/* ---- reading ---- */

typedef struct source {
    rf_strategy *strategy;
    const rf_archive *archive; /* NULL but on the chief */
    rf_inference_variables *variables;
} source;

static rf_result read_entry(const source *s, const char *name, const rf_tensor_desc *desc, void **data)
{
    rf_archive_entry entry;
    char is[96], wanted[96];
    RF_TRY(rf_archive_find(s->archive, name, &entry));
    if (entry.dtype != desc->dtype || !rf_shape_equal(entry.shape, desc->shape))
        return RF_FAIL(RF_ERROR_CORRUPT_DATA, "tensor '%s' is %s %s, the graph has %s %s for it", name,
                       rf_dtype_name(entry.dtype), rf_shape_format(entry.shape, is, sizeof(is)),
                       rf_dtype_name(desc->dtype), rf_shape_format(desc->shape, wanted, sizeof(wanted)));
    *data = rf_calloc((size_t)entry.bytes, 1);
    return *data ? rf_archive_read(s->archive, name, *data, entry.bytes) : RF_ERROR_OUT_OF_HOST_MEMORY;
}

/* The chief's bytes on all workers. Others allocate once the chief has found that the file really has so many. */
static rf_result read_constant(void *user, const char *tensor, const rf_tensor_desc *desc, void **data)
{
    const source *s = user;
    *data = NULL;
    rf_result r = rf_broadcast_result(s->strategy, s->archive ? read_entry(s, tensor, desc, data) : RF_OK);
    if (r >= 0 && !*data && !(*data = rf_calloc((size_t)rf_tensor_bytes(desc), 1)))
        r = rf_strategy_fail_in_job(s->strategy, RF_ERROR_OUT_OF_HOST_MEMORY);
    if (r >= 0) r = rf_broadcast_bytes(s->strategy, tensor, *data, rf_tensor_bytes(desc));
    if (r >= 0) return r;
    rf_free(*data);
    *data = NULL;
    return r;
}

static rf_result make_variable(void *user, const char *tensor, const char *name, const rf_tensor_desc *desc,
                               void **object)
{
    const source *s = user;
    void *values;
    RF_TRY(read_constant(user, tensor, desc, &values));
    rf_variable *v = NULL;
    const rf_variable_params params = { .name = name, .shape = desc->shape, .value = values, .not_trainable = true };
    rf_result r = RF_VEC_GROW(s->variables);
    if (r >= 0) r = rf_variable_create(s->strategy, &params, &v);
    if (r >= 0) s->variables->items[s->variables->count++] = v;
    rf_free(values);
    *object = v;
    return r;
}

void rf_inference_variables_free(rf_inference_variables *variables)
{
    for (uint32_t i = 0; i < variables->count; i++) rf_variable_destroy(&variables->items[i]);
    rf_free(variables->items);
    *variables = (rf_inference_variables){ 0 };
}

/* On the chief: the text, NULL where the file holds no graph. It is copied: other workers have theirs in memory, too.
 */
static rf_result find_text(const rf_archive *archive, char **text, uint64_t *size)
{
    rf_archive_value value;
    rf_error_record before;
    rf_error_save(&before);
    if (rf_archive_value_get(archive, "graph", &value) < 0) {
        (void)rf_error_restore(&before); /* an older file, or a model's */
        return RF_OK;
    }
    if (value.kind != RF_VALUE_STRING || value.size == 0)
        return RF_FAIL(RF_ERROR_CORRUPT_DATA, "'graph' is not a text");
    *text = rf_calloc((size_t)value.size, 1);
    if (!*text) return RF_ERROR_OUT_OF_HOST_MEMORY;
    memcpy(*text, value.bytes, (size_t)value.size);
    *size = value.size;
    return RF_OK;
}

static rf_result share_text(rf_strategy *strategy, char **text, uint64_t *size)
{
    RF_TRY(rf_broadcast_bytes(strategy, "graph of a model", size, sizeof(*size)));
    if (*size == 0) return RF_OK;
    if (!*text && !(*text = rf_calloc((size_t)*size, 1)))
        return rf_strategy_fail_in_job(strategy, RF_ERROR_OUT_OF_HOST_MEMORY);
    return rf_broadcast_bytes(strategy, "graph of a model", *text, *size);
}

rf_result rf_inference_file_read(rf_strategy *strategy, const char *path, bool *found, rf_inference_graph *graph,
                                 rf_inference_variables *variables)
{
    rf_archive *archive = NULL;
    char *text = NULL;
    uint64_t size = 0;
    rf_result r = RF_OK;
    *found = false;
    *graph = (rf_inference_graph){ 0 };
    if (rf_strategy_is_chief(strategy)) {
        r = rf_archive_open(path, &archive);
        if (r >= 0) r = find_text(archive, &text, &size);
    }
    r = rf_broadcast_result(strategy, r);
    if (r >= 0) r = share_text(strategy, &text, &size);
    source s = { .strategy = strategy, .archive = archive, .variables = variables };
    const rf_inference_tensors tensors = { .user = &s, .constant = read_constant, .variable = make_variable };
    if (r >= 0 && size > 0) {
        *found = true;
        r = rf_inference_graph_from_text(text, (size_t)size, &tensors, graph);
    }
    rf_archive_close(&archive);
    rf_free(text);
    return r;
}
