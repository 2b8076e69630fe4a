/* SPDX-License-Identifier: Apache-2.0 */
/* Layers that count the tokens of a sequence, and put one before them. */
#include "base/error.h"
#include "base/params.h"
#include "trace/trace.h"
#include "train/layers/layer.h"

/* ---- places of tokens ---- */

static rf_result token_positions_build(rf_layer *layer, rf_strategy *strategy, rf_dtype dtype, rf_shape input)
{
    (void)strategy;
    char text[96];
    RF_REQUIRE(dtype == RF_I32 && input.rank == 2, "layer '%s' needs tokens i32 [n, steps], got %s %s", layer->name,
               rf_dtype_name(dtype), rf_shape_format(input, text, sizeof(text)));
    return RF_OK;
}

static rf_tensor token_positions_call(rf_trace *t, const rf_layer *layer, rf_tensor x, rf_mode mode)
{
    (void)mode;
    int32_t number = layer->u.value;
    const rf_array constant = { .dtype = RF_I32, .shape = RF_SCALAR_SHAPE, .data = &number };
    const rf_tensor padding = rf_constant_array(t, &constant);
    const rf_tensor is_token = rf_compare(t, RF_NOT_EQUAL, x, padding);
    const rf_tensor place = rf_multiply(t, rf_cumsum(t, is_token, RF_SCAN_INCLUSIVE), is_token);
    return rf_cast(t, rf_add(t, place, rf_constant(t, (float)number)), RF_I32);
}

static const rf_layer_kind token_positions_kind = { .base_name = "token_positions",
                                                    .type_name = "TokenPositions",
                                                    .build = token_positions_build,
                                                    .call = token_positions_call,
                                                    .takes_indices = true };

rf_result rf_layer_token_positions(int32_t padding, rf_layer **out)
{
    RF_REQUIRE(out, "rf_layer_token_positions: out is NULL");
    *out = NULL;
    RF_REQUIRE(padding >= 0, "rf_layer_token_positions: padding is %d, must not be negative", (int)padding);
    RF_TRY(rf_layer_new(&token_positions_kind, NULL, out));
    (*out)->u.value = padding;
    return RF_OK;
}

/* ---- a token before the others ---- */

static rf_result class_token_build(rf_layer *layer, rf_strategy *strategy, rf_dtype dtype, rf_shape input)
{
    char text[96];
    RF_TRY(rf_layer_check_input(layer, dtype, input, RF_LAYER_SEQUENCES));
    if (!layer->built)
        return rf_layer_add_variable(layer, strategy, "token", RF_SHAPE(input.dim[2]), layer->u.position.initializer);
    const int64_t features = rf_variable_shape(layer->variables[0]).dim[0];
    RF_REQUIRE(input.dim[2] == features, "layer '%s' was built for %lld features, got %s", layer->name,
               (long long)features, rf_shape_format(input, text, sizeof(text)));
    return RF_OK;
}

static rf_tensor class_token_call(rf_trace *t, const rf_layer *layer, rf_tensor x, rf_mode mode)
{
    (void)mode;
    const int64_t before[] = { 0, 1 }, none[] = { 0, 0 }, steps = rf_tensor_shape(t, x).dim[1];
    const rf_tensor token = rf_expand_dims(t, rf_variable_tensor(t, layer->variables[0]), 0);
    return rf_add(t, rf_pad(t, x, before, none, 2, 0.0f), rf_pad(t, token, none, &steps, 1, 0.0f));
}

static const rf_layer_kind class_token_kind = { .base_name = "class_token",
                                                .type_name = "ClassToken",
                                                .build = class_token_build,
                                                .call = class_token_call,
                                                .narrow = true };

rf_result rf_layer_class_token(const rf_initializer *initializer, const char *name, rf_layer **out)
{
    RF_REQUIRE(out, "rf_layer_class_token: out is NULL");
    *out = NULL;
    RF_TRY(RF_PARAMS_CHECK(rf_initializer, initializer));
    if (initializer) RF_TRY(rf_layer_check_initializer(initializer, "rf_layer_class_token", "initializer"));
    RF_TRY(rf_layer_new(&class_token_kind, name, out));
    (*out)->u.position.initializer = initializer ? *initializer : (rf_initializer){ .kind = RF_INIT_ZEROS };
    return RF_OK;
}
