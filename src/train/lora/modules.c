/* SPDX-License-Identifier: Apache-2.0 */
#include "train/lora/modules.h"

#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/glob.h"

rf_product_site *rf_lora_site(const rf_lora_part *part)
{
    return &part->layer->sites->items[part->site];
}

rf_product_kind rf_lora_kind(const rf_lora_module *module)
{
    return rf_lora_site(&module->parts[0])->product.kind;
}

uint64_t rf_lora_in(const rf_lora_module *module)
{
    uint64_t count = 1;
    for (int32_t i = 0; i + 1 < module->a.rank; i++) count *= (uint64_t)module->a.dim[i];
    return count;
}

uint64_t rf_lora_out(const rf_lora_module *module)
{
    uint64_t count = 0;
    for (uint32_t i = 0; i < module->num_parts; i++) count += module->parts[i].out;
    return count;
}

/* ---- names ---- */

bool rf_lora_pattern_matches(const char *pattern, const char *name)
{
    while (!rf_glob_matches(pattern, strlen(pattern), name)) {
        const char *dot = strchr(name, '.');
        if (!dot) return false;
        name = dot + 1;
    }
    return true;
}

static void use_dots(char *name)
{
    for (char *c = name; *c; c++)
        if (*c == '/') *c = '.';
}

/* "block/attention/query/kernel" -> "block.attention.query". */
static char *plain_name(const char *variable)
{
    static const char *const usual[] = { "/kernel", "/embeddings" };
    char *name = rf_strdup(variable);
    if (!name) return NULL;
    for (size_t i = 0; i < sizeof(usual) / sizeof(usual[0]); i++) {
        const size_t length = strlen(name), end = strlen(usual[i]);
        if (length > end && strcmp(name + length - end, usual[i]) == 0) name[length - end] = '\0';
    }
    use_dots(name);
    return name;
}

/* A head has a table that is another layer's; its own weight would be its kernel. */
static char *variable_name(const rf_model *model, const rf_layer *layer, const rf_product *product)
{
    if (product->kind == RF_PRODUCT_HEAD) return rf_asprintf("%s/kernel", layer->name);
    const char *name = rf_model_variable_name(model, product->weight);
    return rf_strdup(name ? name : rf_variable_name(product->weight));
}

/* The name that the files have for a product's module; none where they have no such module. */
static rf_result place_of(const rf_model *model, const rf_layer *layer, const rf_product *product, rf_weight_place *out)
{
    *out = (rf_weight_place){ .transposed = true };
    char *variable = variable_name(model, layer, product);
    if (!variable) return RF_ERROR_OUT_OF_HOST_MEMORY;
    rf_result r = RF_OK;
    if (model->weight_names)
        r = model->weight_names->find(model->weight_names->user, variable, out);
    else if (!(out->module = plain_name(variable)))
        r = RF_ERROR_OUT_OF_HOST_MEMORY;
    rf_free(variable);
    return r;
}

/* ---- modules ---- */

static bool can_be_adapted(const rf_product *product)
{
    return product->kind != RF_PRODUCT_CONV_TRANSPOSE &&
           (product->kind != RF_PRODUCT_CONV || product->conv.groups <= 1);
}

/* The first matrix of an adapter, without its rank, and outputs. */
static rf_shape shape_of(const rf_product *product, uint64_t *out)
{
    rf_shape shape = product->shape;
    const bool head = product->kind == RF_PRODUCT_HEAD;
    *out = (uint64_t)shape.dim[head ? 0 : shape.rank - 1];
    if (head) shape.dim[0] = shape.dim[1];
    shape.dim[shape.rank - 1] = 0;
    return shape;
}

static rf_lora_module *find_module(const rf_lora_modules *modules, const char *name)
{
    for (uint32_t i = 0; i < modules->count; i++)
        if (strcmp(modules->items[i].name, name) == 0) return &modules->items[i];
    return NULL;
}

/* In order of the parts. */
static rf_result add_part(rf_lora_module *module, const rf_lora_part *part, rf_shape a)
{
    uint32_t at = module->num_parts;
    if (at == RF_LORA_MOST_PARTS || !rf_shape_equal(module->a, a))
        return RF_FAIL(RF_ERROR_UNSUPPORTED, "module '%s' is of more than %d parts, or they take other inputs",
                       module->name, RF_LORA_MOST_PARTS);
    for (; at > 0 && module->parts[at - 1].number > part->number; at--) module->parts[at] = module->parts[at - 1];
    module->parts[at] = *part;
    module->num_parts++;
    return RF_OK;
}

/* Takes over the name of the place. */
static rf_result add_site(rf_lora_modules *modules, const rf_layer *layer, uint32_t site, rf_weight_place *place)
{
    rf_lora_part part = { .layer = layer, .site = site, .number = place->part };
    const rf_shape a = shape_of(&layer->sites->items[site].product, &part.out);
    rf_lora_module *module = find_module(modules, place->module);
    if (module && place->part > 0) return add_part(module, &part, a);
    RF_TRY(RF_VEC_GROW(modules));
    module = &modules->items[modules->count++];
    *module =
        (rf_lora_module){ .name = place->module, .a = a, .fan_in_fan_out = !place->transposed, .head = place->head };
    place->module = NULL;
    return add_part(module, &part, a);
}

static rf_result add_layer(rf_lora_modules *modules, const rf_model *model, const rf_layer *layer)
{
    for (uint32_t i = 0; i < layer->sites->count; i++) {
        const rf_product *product = &layer->sites->items[i].product;
        rf_weight_place place;
        if (!can_be_adapted(product)) continue;
        rf_result r = place_of(model, layer, product, &place);
        if (r >= 0 && place.module) r = add_site(modules, layer, i, &place);
        rf_free(place.module);
        RF_TRY(r);
    }
    return RF_OK;
}

/* Where no file says which they are: the last dense layer. */
static void find_head(rf_lora_modules *modules)
{
    for (uint32_t i = modules->count; i-- > 0;) {
        rf_lora_module *module = &modules->items[i];
        const rf_product *product = &rf_lora_site(&module->parts[0])->product;
        const bool whole = rf_shape_equal(product->shape, rf_variable_shape(product->weight));
        module->head = product->kind == RF_PRODUCT_HEAD || (product->kind == RF_PRODUCT_DENSE && whole);
        if (module->head) return;
    }
}

rf_result rf_lora_modules_find(rf_lora_modules *modules, const rf_model *model)
{
    *modules = (rf_lora_modules){ 0 };
    for (uint32_t i = 0; i < rf_model_num_all_layers(model); i++)
        for (const rf_layer *layer = rf_model_any_layer(model, i); layer; layer = layer->inner)
            RF_TRY(add_layer(modules, model, layer));
    if (!model->weight_names) find_head(modules);
    return RF_OK;
}

void rf_lora_modules_clear(rf_lora_modules *modules)
{
    for (uint32_t i = 0; i < modules->count; i++) rf_free(modules->items[i].name);
    rf_free(modules->items);
    *modules = (rf_lora_modules){ 0 };
}

/* ---- choice ---- */

static void choose_dense(const rf_lora_modules *modules, bool *chosen)
{
    for (uint32_t i = 0; i < modules->count; i++)
        chosen[i] = rf_lora_kind(&modules->items[i]) == RF_PRODUCT_DENSE && !modules->items[i].head;
}

/* Chooses the modules that a target names. */
static rf_result choose_named(const rf_lora_modules *modules, const char *target, bool *chosen, bool *found)
{
    char *pattern = rf_strdup(target);
    if (!pattern) return RF_ERROR_OUT_OF_HOST_MEMORY;
    use_dots(pattern);
    *found = false;
    for (uint32_t i = 0; i < modules->count; i++) {
        const bool matches = rf_lora_pattern_matches(pattern, modules->items[i].name);
        chosen[i] = chosen[i] || matches;
        *found = *found || matches;
    }
    rf_free(pattern);
    return RF_OK;
}

rf_result rf_lora_choose(const rf_lora_modules *modules, const char *const *targets, uint32_t num_targets, bool *chosen)
{
    bool any = false;
    for (uint32_t i = 0; i < modules->count; i++) chosen[i] = false;
    if (num_targets == 0) choose_dense(modules, chosen);
    for (uint32_t k = 0; k < num_targets; k++) {
        bool found;
        RF_REQUIRE(targets[k] && *targets[k], "targets[%u] is empty", k);
        RF_TRY(choose_named(modules, targets[k], chosen, &found));
        RF_REQUIRE(found, "targets[%u], '%s', names none of the model's %u modules, e.g. '%s'", k, targets[k],
                   modules->count, modules->count > 0 ? modules->items[modules->count - 1].name : "");
    }
    for (uint32_t i = 0; i < modules->count; i++) any = any || chosen[i];
    RF_REQUIRE(any, "no dense layer of the model, heads left out, can have an adapter; name modules by targets");
    return RF_OK;
}
