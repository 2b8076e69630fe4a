/* SPDX-License-Identifier: Apache-2.0 */
/* Layers of the caller: each has a kind of its own, which its type names. */
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include <ringfire/custom.h>

#include "base/error.h"
#include "base/memory.h"
#include "base/params.h"
#include "base/utf8.h"
#include "trace/trace.h"
#include "train/layers/layer.h"

typedef struct rf_custom_layer {
    rf_layer_kind kind;
    rf_custom_layer_params params;
    char *type, *config;
    rf_strategy *building; /* while `build` runs */
} rf_custom_layer;

/* ---- the kind's functions ---- */

static rf_result build_custom(rf_layer *layer, rf_strategy *strategy, const rf_tensor_desc *in, uint32_t num_in)
{
    rf_custom_layer *c = layer->u.custom;
    if (layer->built || !c->params.build) return RF_OK;
    rf_custom_tensor inputs[RF_MAX_CUSTOM_TENSORS];
    for (uint32_t i = 0; i < num_in; i++) inputs[i] = (rf_custom_tensor){ in[i].dtype, in[i].shape };
    char what[160];
    snprintf(what, sizeof(what), "layer '%.100s': its build function", layer->name);
    c->building = strategy;
    const uint64_t before = rf_error_count();
    const rf_result r = rf_error_of_user(c->params.build(layer, inputs, num_in, c->params.user), before, what);
    c->building = NULL;
    return r;
}

static void apply_custom(rf_trace *t, const rf_layer *layer, const rf_layer_apply_params *params, rf_tensor *out,
                         uint32_t num_out)
{
    const rf_custom_layer *c = layer->u.custom;
    rf_tensor made[RF_MAX_CUSTOM_TENSORS] = { { 0 } };
    char what[160];
    snprintf(what, sizeof(what), "layer '%.100s': its call function", layer->name);
    const uint64_t before = rf_error_count();
    const rf_result r = c->params.call(t, layer, params->in, made, params->mode, c->params.user);
    if (rf_trace_status(t) == RF_OK) (void)rf_trace_emit(t, rf_error_of_user(r, before, what), 0);
    for (uint32_t i = 0; i < num_out; i++) out[i] = made[i];
}

static void destroy_custom(rf_layer *layer)
{
    rf_custom_layer *c = layer->u.custom;
    if (!c) return;
    if (c->params.destroy) c->params.destroy(c->params.user);
    rf_free(c->type);
    rf_free(c->config);
    rf_free(c);
}

/* ---- making one ---- */

static rf_result check_layer_params(const rf_custom_layer_params *p)
{
    RF_TRY(RF_PARAMS_CHECK(rf_custom_layer_params, p));
    RF_REQUIRE(p->type && *p->type && rf_utf8_valid(p->type, strlen(p->type)),
               "rf_layer_custom: type is missing, or no UTF-8");
    RF_REQUIRE(!strchr(p->type, '/'), "rf_layer_custom: type '%s' has a '/', which separates the parts of names",
               p->type);
    RF_REQUIRE(p->call, "rf_layer_custom: a layer of type '%s' needs `call`", p->type);
    RF_REQUIRE(p->num_inputs <= RF_MAX_CUSTOM_TENSORS && p->num_outputs <= RF_MAX_CUSTOM_TENSORS,
               "rf_layer_custom: '%s' has %u inputs and %u outputs; there may be %d", p->type, p->num_inputs,
               p->num_outputs, RF_MAX_CUSTOM_TENSORS);
    RF_REQUIRE(!p->config || rf_utf8_valid(p->config, strlen(p->config)),
               "rf_layer_custom: the config of '%s' is no UTF-8", p->type);
    return RF_OK;
}

/* `destroy` is the caller's until this has gone well. */
static rf_result make_layer(const rf_custom_layer_params *p, rf_layer **out)
{
    rf_custom_layer *c = RF_NEW(rf_custom_layer);
    if (!c) return RF_ERROR_OUT_OF_HOST_MEMORY;
    c->type = rf_strdup(p->type);
    c->config = p->config ? rf_strdup(p->config) : NULL;
    const uint32_t num_in = p->num_inputs ? p->num_inputs : 1;
    c->kind = (rf_layer_kind){ .base_name = c->type,
                               .type_name = c->type,
                               .build_inputs = build_custom,
                               .apply = apply_custom,
                               .min_inputs = num_in,
                               .max_inputs = num_in,
                               .max_outputs = p->num_outputs ? p->num_outputs : 1,
                               .destroy = destroy_custom };
    rf_result r = c->type && (c->config || !p->config) ? RF_OK : RF_ERROR_OUT_OF_HOST_MEMORY;
    if (r >= 0) r = rf_layer_new(&c->kind, p->name, out);
    if (r < 0) {
        rf_free(c->type);
        rf_free(c->config);
        rf_free(c);
        return r;
    }
    c->params = *p;
    c->params.type = c->type;
    (*out)->u.custom = c;
    return RF_OK;
}

rf_result rf_layer_custom(const rf_custom_layer_params *params, rf_layer **out)
{
    RF_REQUIRE(out, "rf_layer_custom: out is NULL");
    *out = NULL;
    RF_REQUIRE(params, "rf_layer_custom: params is NULL");
    rf_result r = check_layer_params(params);
    if (r >= 0) r = make_layer(params, out);
    if (r < 0 && params->destroy) params->destroy(params->user);
    return r;
}

rf_result rf_custom_layer_add_variable(rf_layer *layer, const rf_custom_variable_params *params)
{
    RF_REQUIRE(layer && params, "rf_custom_layer_add_variable: layer or params is NULL");
    RF_TRY(RF_PARAMS_CHECK(rf_custom_variable_params, params));
    RF_REQUIRE(rf_layer_is_custom(layer) && layer->u.custom->building,
               "rf_custom_layer_add_variable: only the build function of a custom layer creates its variables");
    RF_REQUIRE(params->name && *params->name && !strchr(params->name, '/'),
               "rf_custom_layer_add_variable: layer '%s': a variable needs a name without '/'", layer->name);
    RF_REQUIRE(!rf_layer_variable(layer, params->name),
               "rf_custom_layer_add_variable: layer '%s' has a variable '%s' already", layer->name, params->name);
    RF_TRY(rf_layer_check_regularizer(params->regularizer, "rf_custom_layer_add_variable", params->name));
    RF_TRY(rf_layer_check_initializer(&params->initializer, "rf_custom_layer_add_variable", params->name));
    const bool regularized = params->regularizer.l1 != 0.0f || params->regularizer.l2 != 0.0f;
    RF_REQUIRE(!params->not_trainable || !regularized,
               "rf_custom_layer_add_variable: layer '%s': '%s' is not trained, so it has no regularizer", layer->name,
               params->name);
    rf_strategy *strategy = layer->u.custom->building;
    RF_TRY(params->not_trainable
               ? rf_layer_add_state(layer, strategy, params->name, params->shape, params->initializer)
               : rf_layer_add_variable(layer, strategy, params->name, params->shape, params->initializer));
    layer->regularizers[layer->num_variables - 1] = params->regularizer;
    return RF_OK;
}

/* ---- types that files can name ---- */

typedef struct layer_type {
    char *type;
    rf_custom_layer_fn fn;
    void *user;
} layer_type;

static pthread_mutex_t types_mutex = PTHREAD_MUTEX_INITIALIZER;
static struct {
    layer_type *items;
    uint32_t count, capacity;
} types;

static layer_type *find_type(const char *type)
{
    for (uint32_t i = 0; i < types.count; i++)
        if (strcmp(types.items[i].type, type) == 0) return &types.items[i];
    return NULL;
}

static rf_result put_type(const char *type, rf_custom_layer_fn fn, void *user)
{
    layer_type *found = find_type(type);
    if (!found) {
        if (!fn) return RF_OK;
        RF_TRY(RF_VEC_GROW(&types));
        char *copy = rf_strdup(type);
        if (!copy) return RF_ERROR_OUT_OF_HOST_MEMORY;
        found = &types.items[types.count++];
        found->type = copy;
    }
    found->fn = fn;
    found->user = user;
    return RF_OK;
}

rf_result rf_custom_layer_register(const char *type, rf_custom_layer_fn fn, void *user)
{
    RF_REQUIRE(type && *type, "rf_custom_layer_register: type is missing");
    pthread_mutex_lock(&types_mutex);
    const rf_result r = put_type(type, fn, user);
    pthread_mutex_unlock(&types_mutex);
    return r;
}

bool rf_layer_is_custom(const rf_layer *layer)
{
    return layer->kind->destroy == destroy_custom;
}

const char *rf_custom_layer_type(const rf_layer *layer)
{
    return layer->u.custom->type;
}

const char *rf_custom_layer_config(const rf_layer *layer)
{
    return layer->u.custom->config;
}

rf_result rf_custom_layer_make(const char *type, const char *name, const char *config, rf_layer **out)
{
    *out = NULL;
    pthread_mutex_lock(&types_mutex);
    const layer_type *found = find_type(type);
    const layer_type maker = found ? *found : (layer_type){ 0 };
    pthread_mutex_unlock(&types_mutex);
    if (!maker.fn)
        return RF_FAIL(RF_ERROR_UNSUPPORTED,
                       "layer '%s' is of type '%s', which is not registered; call rf_custom_layer_register() first",
                       name, type);
    const uint64_t before = rf_error_count();
    RF_TRY(rf_error_of_user(maker.fn(maker.user, name, config, out), before, "the function of the layer's type"));
    if (*out && rf_layer_is_custom(*out) && !(*out)->model && strcmp((*out)->u.custom->type, type) == 0) return RF_OK;
    rf_layer_destroy(out);
    return RF_FAIL(RF_ERROR_INVALID_ARGUMENT, "the function registered for layers of type '%s' made none of that type",
                   type);
}
