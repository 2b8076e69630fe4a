/* SPDX-License-Identifier: Apache-2.0 */
#include "train/files/layer_fields.h"

#include "ops/ops.h"

static const char *const initializer_names[] = { "glorot_uniform", "glorot_normal",    "he_uniform",    "he_normal",
                                                 "random_normal",  "random_uniform",   "zeros",         "ones",
                                                 "constant",       "truncated_normal", "lecun_uniform", "lecun_normal",
                                                 "orthogonal",     "variance_scaling" };
static const char *const fan_names[] = { "fan_in", "fan_out", "fan_avg" };
static const char *const distribution_names[] = { "truncated_normal", "untruncated_normal", "uniform" };

json_t *rf_list_to_json(const int32_t *values, size_t count)
{
    json_t *list = json_array();
    for (size_t i = 0; list && i < count; i++) {
        if (json_array_append_new(list, json_integer(values[i])) == 0) continue;
        json_decref(list);
        return NULL;
    }
    return list;
}

rf_result rf_list_from_json(const json_t *object, const char *name, int32_t *values, size_t count)
{
    const json_t *list = json_object_get(object, name);
    if (!list) return RF_OK;
    if (json_array_size(list) != count) return RF_FAIL(RF_ERROR_CORRUPT_DATA, "'%s' is not a list of %zu", name, count);
    for (size_t i = 0; i < count; i++) {
        const json_t *value = json_array_get(list, i);
        const json_int_t number = json_integer_value(value);
        if (!json_is_integer(value) || number < INT32_MIN || number > INT32_MAX)
            return RF_FAIL(RF_ERROR_CORRUPT_DATA, "'%s' holds something that is not a 32-bit integer", name);
        values[i] = (int32_t)number;
    }
    return RF_OK;
}

json_t *rf_initializer_to_json(const rf_initializer *i)
{
    json_t *out = json_pack("{s:s, s:f, s:f, s:I}", "kind", initializer_names[i->kind], "a", (double)i->a, "b",
                            (double)i->b, "seed", (json_int_t)i->seed);
    if (i->kind != RF_INIT_VARIANCE_SCALING) return out;
    json_object_set_new(out, "fan", json_string(fan_names[i->fan]));
    json_object_set_new(out, "distribution", json_string(distribution_names[i->distribution]));
    return out;
}

rf_result rf_initializer_from_json(const json_t *object, const char *name, rf_initializer *out)
{
    const json_t *i = json_object_get(object, name);
    if (!i) return RF_OK;
    int kind = 0;
    RF_TRY(rf_json_choice(i, "kind", initializer_names, RF_NAME_COUNT(initializer_names), &kind));
    RF_TRY(rf_json_float(i, "a", &out->a));
    RF_TRY(rf_json_float(i, "b", &out->b));
    RF_TRY(rf_json_u64(i, "seed", &out->seed));
    if (kind == RF_INIT_VARIANCE_SCALING) {
        int fan = 0, distribution = 0;
        RF_TRY(rf_json_choice(i, "fan", fan_names, RF_NAME_COUNT(fan_names), &fan));
        RF_TRY(rf_json_choice(i, "distribution", distribution_names, RF_NAME_COUNT(distribution_names), &distribution));
        out->fan = (rf_fan)fan;
        out->distribution = (rf_distribution)distribution;
    }
    out->kind = (rf_initializer_kind)kind;
    return RF_OK;
}

json_t *rf_regularizer_to_json(rf_regularizer r)
{
    return json_pack("{s:f, s:f}", "l1", (double)r.l1, "l2", (double)r.l2);
}

rf_result rf_regularizer_from_json(const json_t *object, const char *name, rf_regularizer *out)
{
    *out = (rf_regularizer){ 0 };
    const json_t *regularizer = json_object_get(object, name);
    if (regularizer) RF_TRY(rf_json_float(regularizer, "l1", &out->l1));
    if (regularizer) RF_TRY(rf_json_float(regularizer, "l2", &out->l2));
    return RF_OK;
}

rf_result rf_affine_to_json(const rf_layer *layer, const rf_affine *affine, json_t *object)
{
    RF_TRY(rf_json_set(object, "activation", json_string(rf_activation_names[affine->activation])));
    RF_TRY(rf_json_set(object, "use_bias", json_boolean(affine->use_bias)));
    RF_TRY(rf_json_set(object, "kernel_initializer", rf_initializer_to_json(&affine->kernel_initializer)));
    RF_TRY(rf_json_set(object, "bias_initializer", rf_initializer_to_json(&affine->bias_initializer)));
    return rf_json_set(object, "kernel_regularizer", rf_regularizer_to_json(layer->regularizers[0]));
}

rf_result rf_affine_from_json(const json_t *object, rf_affine_fields *out)
{
    *out = (rf_affine_fields){ .use_bias = true, .bias.kind = RF_INIT_ZEROS };
    RF_TRY(rf_json_choice(object, "activation", rf_activation_names, RF_NAME_COUNT(rf_activation_names),
                          &out->activation));
    RF_TRY(rf_json_bool(object, "use_bias", &out->use_bias));
    RF_TRY(rf_initializer_from_json(object, "kernel_initializer", &out->kernel));
    RF_TRY(rf_initializer_from_json(object, "bias_initializer", &out->bias));
    return rf_regularizer_from_json(object, "kernel_regularizer", &out->regularizer);
}

rf_result rf_conv2d_to_json(const rf_conv2d_params *conv, json_t *object)
{
    RF_TRY(rf_json_set(object, "padding", json_string(rf_padding_names[conv->padding])));
    RF_TRY(rf_json_set(object, "stride", rf_list_to_json(conv->stride, 2)));
    RF_TRY(rf_json_set(object, "dilation", rf_list_to_json(conv->dilation, 2)));
    RF_TRY(rf_json_set(object, "groups", json_integer(conv->groups)));
    return rf_json_set(object, "explicit_padding", rf_list_to_json(conv->explicit_padding, 4));
}

rf_result rf_conv2d_from_json(const json_t *object, rf_conv2d_params *out)
{
    int padding = 0;
    RF_TRY(rf_json_choice(object, "padding", rf_padding_names, RF_NAME_COUNT(rf_padding_names), &padding));
    RF_TRY(rf_list_from_json(object, "stride", out->stride, 2));
    RF_TRY(rf_list_from_json(object, "dilation", out->dilation, 2));
    RF_TRY(rf_json_i32(object, "groups", &out->groups));
    RF_TRY(rf_list_from_json(object, "explicit_padding", out->explicit_padding, 4));
    out->padding = (rf_padding)padding;
    return RF_OK;
}
