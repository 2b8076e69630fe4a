/* SPDX-License-Identifier: Apache-2.0 */
#include "train/layers/product.h"

#include <math.h>
#include <stdio.h>

#include "base/error.h"
#include "base/initializer.h"
#include "base/memory.h"
#include "trace/trace.h"

rf_result rf_layer_new(const rf_layer_kind *kind, const char *name, rf_layer **out)
{
    rf_layer *layer = RF_NEW(rf_layer);
    if (!layer) return RF_ERROR_OUT_OF_HOST_MEMORY;
    layer->kind = kind;
    layer->sites = RF_NEW(rf_product_sites);
    if (!layer->sites || (name && !(layer->name = rf_strdup(name)))) {
        rf_layer_free(layer);
        return RF_ERROR_OUT_OF_HOST_MEMORY;
    }
    *out = layer;
    return RF_OK;
}

void rf_layer_drop_variables(rf_layer *layer)
{
    for (uint32_t i = 0; i < layer->num_variables; i++) rf_variable_destroy(&layer->variables[i]);
    layer->num_variables = 0;
    if (layer->sites) layer->sites->count = 0;
    for (rf_layer *inner = layer->inner; inner; inner = inner->inner) {
        inner->num_variables = 0;
        inner->sites->count = 0;
        inner->built = false;
    }
}

void rf_layer_free(rf_layer *layer)
{
    if (!layer) return;
    rf_layer_drop_variables(layer);
    rf_layer_free(layer->inner);
    if (layer->kind->destroy) layer->kind->destroy(layer);
    if (layer->sites) rf_free(layer->sites->items);
    rf_free(layer->sites);
    rf_free(layer->name);
    rf_free(layer);
}

const rf_layer *rf_layer_original(const rf_layer *layer)
{
    return layer && layer->kind->shares ? layer->u.shared : layer;
}

const char *rf_layer_name(const rf_layer *layer)
{
    return layer ? layer->name : NULL;
}

rf_result rf_layer_set_name(rf_layer *layer, const char *name)
{
    RF_REQUIRE(layer, "rf_layer_set_name: layer is NULL");
    RF_REQUIRE(name && *name, "rf_layer_set_name: name is empty");
    RF_REQUIRE(!layer->model, "rf_layer_set_name: layer '%s' belongs to a model already", layer->name);
    char *copy = rf_strdup(name);
    if (!copy) return RF_ERROR_OUT_OF_HOST_MEMORY;
    rf_free(layer->name);
    layer->name = copy;
    return RF_OK;
}

rf_model *rf_layer_model(const rf_layer *layer)
{
    return layer && layer->kind->applies_model ? layer->u.model.model : NULL;
}

void rf_layer_destroy(rf_layer **layer)
{
    if (!layer || !*layer) return;
    /* A model's layer goes with its model. */
    if (!(*layer)->model) rf_layer_free(*layer);
    *layer = NULL;
}

static rf_result add_weight(rf_layer *layer, rf_strategy *strategy, const char *suffix, rf_variable_params params,
                            rf_weight_matrix matrix)
{
    RF_REQUIRE(layer->num_variables < RF_MAX_LAYER_VARIABLES, "layer '%s' has more than %d variables", layer->name,
               RF_MAX_LAYER_VARIABLES);
    char *name = rf_asprintf("%s/%s", layer->name, suffix);
    if (!name) return RF_ERROR_OUT_OF_HOST_MEMORY;
    params.name = name;
    const rf_result r = rf_variable_create_weight(strategy, &params, matrix, &layer->variables[layer->num_variables]);
    rf_free(name);
    if (r < 0) return r;
    layer->num_variables++;
    return RF_OK;
}

static rf_result add_variable(rf_layer *layer, rf_strategy *strategy, const char *suffix, rf_variable_params params)
{
    return add_weight(layer, strategy, suffix, params, (rf_weight_matrix){ 0 });
}

rf_result rf_layer_add_weight(rf_layer *layer, rf_strategy *strategy, const char *suffix, rf_shape shape,
                              rf_initializer initializer, rf_weight_matrix matrix)
{
    const rf_regularizer penalty = layer->regularizers[layer->num_variables];
    if (penalty.l1 != 0.0f || penalty.l2 != 0.0f) matrix.rows = 0; /* which is for weights that are trained */
    return add_weight(layer, strategy, suffix, (rf_variable_params){ .shape = shape, .initializer = initializer },
                      matrix);
}

rf_result rf_layer_add_variable(rf_layer *layer, rf_strategy *strategy, const char *suffix, rf_shape shape,
                                rf_initializer initializer)
{
    return add_variable(layer, strategy, suffix, (rf_variable_params){ .shape = shape, .initializer = initializer });
}

rf_result rf_layer_add_state(rf_layer *layer, rf_strategy *strategy, const char *suffix, rf_shape shape,
                             rf_initializer initializer)
{
    return add_variable(layer, strategy, suffix,
                        (rf_variable_params){ .shape = shape, .initializer = initializer, .not_trainable = true });
}

bool rf_activation_valid(rf_activation activation)
{
    return (int)activation >= RF_ACTIVATION_LINEAR && (int)activation < (int)RF_ACTIVATION_COUNT;
}

rf_result rf_layer_check_input(const rf_layer *layer, rf_dtype dtype, rf_shape input, int32_t rank, const char *what)
{
    char text[96];
    RF_REQUIRE(dtype == RF_F32, "layer '%s' takes f32, got %s %s; cast or scale the input first", layer->name,
               rf_dtype_name(dtype), rf_shape_format(input, text, sizeof(text)));
    RF_REQUIRE(input.rank == rank, "layer '%s' needs %s, got %s", layer->name, what,
               rf_shape_format(input, text, sizeof(text)));
    return RF_OK;
}

rf_result rf_layer_check_call(const rf_layer *layer, uint32_t num_in, bool mask, uint32_t num_out)
{
    layer = rf_layer_original(layer);
    const rf_layer_kind *kind = layer->kind;
    uint32_t least = kind->apply ? kind->min_inputs : 1, most = kind->apply ? kind->max_inputs : 1;
    uint32_t outputs = kind->apply ? kind->max_outputs : 1;
    char range[48];
    if (kind->applies_model) {
        least = most = layer->u.model.num_inputs;
        outputs = layer->u.model.num_outputs;
    }
    snprintf(range, sizeof(range), most == UINT32_MAX ? "%u or more" : least == most ? "%u" : "%u to %u", least, most);
    RF_REQUIRE(num_in >= least && num_in <= most, "layer '%s' (%s) takes %s input%s, got %u", layer->name,
               kind->type_name, range, most == 1 ? "" : "s", num_in);
    RF_REQUIRE(num_out >= 1 && num_out <= outputs, "layer '%s' (%s) has %u output%s, %u were asked for", layer->name,
               kind->type_name, outputs, outputs == 1 ? "" : "s", num_out);
    RF_REQUIRE(!mask || kind->takes_mask, "layer '%s' (%s) takes no mask", layer->name, kind->type_name);
    return RF_OK;
}

rf_result rf_layer_check_pieces(const rf_layer *layer, const rf_layer_apply_params *params)
{
    const rf_layer_kind *kind = rf_layer_original(layer)->kind;
    const bool start = params->start_index.id != 0, key = params->cache[0].id != 0, value = params->cache[1].id != 0;
    RF_REQUIRE(!start || kind->takes_start, "layer '%s' (%s) takes no start_index", layer->name, kind->type_name);
    RF_REQUIRE((!key && !value) || kind->takes_cache, "layer '%s' (%s) takes no cache", layer->name, kind->type_name);
    RF_REQUIRE(!kind->takes_cache || (start == key && key == value),
               "layer '%s': start_index and the two tensors of the cache go together", layer->name);
    return RF_OK;
}

rf_result rf_layer_check_initializer(const rf_initializer *i, const char *function, const char *field)
{
    const rf_result r = rf_initializer_check(i);
    return r < 0 ? RF_FAIL(r, "%s: %s: %s", function, field, rf_error_message()) : RF_OK;
}

rf_result rf_layer_check_regularizer(rf_regularizer regularizer, const char *function, const char *field)
{
    RF_REQUIRE(regularizer.l1 >= 0.0f && regularizer.l2 >= 0.0f && isfinite(regularizer.l1) && isfinite(regularizer.l2),
               "%s: %s: l1 %g and l2 %g must be finite and not negative", function, field, (double)regularizer.l1,
               (double)regularizer.l2);
    return RF_OK;
}

rf_result rf_affine_init(rf_affine *affine, const char *function, rf_activation activation, bool no_bias,
                         rf_initializer kernel, const rf_initializer *bias, rf_regularizer regularizer)
{
    RF_REQUIRE(rf_activation_valid(activation), "%s: activation %d does not exist", function, (int)activation);
    RF_REQUIRE(!(no_bias && bias), "%s: bias_initializer is set but no_bias leaves out the bias", function);
    RF_TRY(rf_layer_check_regularizer(regularizer, function, "kernel_regularizer"));
    RF_TRY(rf_layer_check_initializer(&kernel, function, "kernel_initializer"));
    if (bias) RF_TRY(rf_layer_check_initializer(bias, function, "bias_initializer"));
    *affine = (rf_affine){ .activation = activation,
                           .use_bias = !no_bias,
                           .kernel_initializer = kernel,
                           .bias_initializer = bias ? *bias : (rf_initializer){ .kind = RF_INIT_ZEROS } };
    return RF_OK;
}

rf_result rf_layer_add_value(rf_layer *layer, rf_strategy *strategy, const char *suffix, rf_shape shape,
                             const float *value)
{
    return add_variable(layer, strategy, suffix, (rf_variable_params){ .shape = shape, .value = value });
}

rf_result rf_layer_add_state_value(rf_layer *layer, rf_strategy *strategy, const char *suffix, rf_shape shape,
                                   const float *value)
{
    return add_variable(layer, strategy, suffix,
                        (rf_variable_params){ .shape = shape, .value = value, .not_trainable = true });
}

bool rf_layer_is_regularized(const rf_layer *layer)
{
    for (uint32_t i = 0; i < RF_MAX_LAYER_VARIABLES; i++)
        if (layer->regularizers[i].l1 != 0.0f || layer->regularizers[i].l2 != 0.0f) return true;
    return false;
}

rf_dtype rf_layer_type(rf_trace *t, const rf_layer *layer)
{
    const bool narrow = layer->kind->narrow && rf_dtype_is_narrow(layer->compute);
    return narrow && !rf_strategy_is_wide(rf_trace_strategy(t)) ? layer->compute : RF_F32;
}

rf_tensor rf_layer_weight(rf_trace *t, const rf_layer *layer, rf_variable *variable)
{
    const rf_tensor weight = rf_variable_tensor(t, variable);
    const rf_dtype type = rf_layer_type(t, layer);
    return rf_dtype_is_narrow(type) ? rf_cast(t, weight, type) : weight;
}

rf_tensor rf_affine_finish(rf_trace *t, const rf_layer *layer, const rf_affine *affine, rf_tensor product)
{
    if (affine->use_bias)
        product = rf_bias_add(t, product, rf_variable_tensor(t, layer->variables[layer->num_variables - 1]));
    return affine->activation == RF_ACTIVATION_LINEAR ? product : rf_activate(t, product, affine->activation);
}
