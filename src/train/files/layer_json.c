/* SPDX-License-Identifier: Apache-2.0 */
#include "train/files/layer_json.h"

#include <string.h>

#include "ops/ops.h"

#define COUNT(names) ((int)(sizeof(names) / sizeof((names)[0])))
static const char *const initializer_names[] = { "glorot_uniform", "glorot_normal",    "he_uniform",    "he_normal",
                                                 "random_normal",  "random_uniform",   "zeros",         "ones",
                                                 "constant",       "truncated_normal", "lecun_uniform", "lecun_normal",
                                                 "orthogonal",     "variance_scaling" };
static const char *const fan_names[] = { "fan_in", "fan_out", "fan_avg" };
static const char *const distribution_names[] = { "truncated_normal", "untruncated_normal", "uniform" };

/* ---- parts of layers ---- */

static json_t *pair_to_json(const int32_t values[2])
{
    return json_pack("[i, i]", values[0], values[1]);
}

static rf_result pair_from_json(const json_t *object, const char *name, int32_t *values, size_t count)
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

static json_t *initializer_to_json(const rf_initializer *i)
{
    json_t *out = json_pack("{s:s, s:f, s:f, s:I}", "kind", initializer_names[i->kind], "a", (double)i->a, "b",
                            (double)i->b, "seed", (json_int_t)i->seed);
    if (i->kind != RF_INIT_VARIANCE_SCALING) return out;
    json_object_set_new(out, "fan", json_string(fan_names[i->fan]));
    json_object_set_new(out, "distribution", json_string(distribution_names[i->distribution]));
    return out;
}

static rf_result initializer_from_json(const json_t *object, const char *name, rf_initializer *out)
{
    const json_t *i = json_object_get(object, name);
    if (!i) return RF_OK;
    int kind = 0;
    double a = 0, b = 0;
    RF_TRY(rf_json_choice(i, "kind", initializer_names, COUNT(initializer_names), &kind));
    RF_TRY(rf_json_number(i, "a", &a));
    RF_TRY(rf_json_number(i, "b", &b));
    RF_TRY(rf_json_u64(i, "seed", &out->seed));
    if (kind == RF_INIT_VARIANCE_SCALING) {
        int fan = 0, distribution = 0;
        RF_TRY(rf_json_choice(i, "fan", fan_names, COUNT(fan_names), &fan));
        RF_TRY(rf_json_choice(i, "distribution", distribution_names, COUNT(distribution_names), &distribution));
        out->fan = (rf_fan)fan;
        out->distribution = (rf_distribution)distribution;
    }
    out->kind = (rf_initializer_kind)kind;
    out->a = (float)a;
    out->b = (float)b;
    return RF_OK;
}

static json_t *regularizer_to_json(rf_regularizer r)
{
    return json_pack("{s:f, s:f}", "l1", (double)r.l1, "l2", (double)r.l2);
}

static rf_result regularizer_from_json(const json_t *object, const char *name, rf_regularizer *out)
{
    double l1 = 0, l2 = 0;
    const json_t *regularizer = json_object_get(object, name);
    if (regularizer) RF_TRY(rf_json_number(regularizer, "l1", &l1));
    if (regularizer) RF_TRY(rf_json_number(regularizer, "l2", &l2));
    *out = (rf_regularizer){ .l1 = (float)l1, .l2 = (float)l2 };
    return RF_OK;
}

/* What dense and convolution have in common. */
static rf_result affine_to_json(const rf_layer *layer, const rf_affine *affine, json_t *object)
{
    RF_TRY(rf_json_set(object, "activation", json_string(rf_activation_names[affine->activation])));
    RF_TRY(rf_json_set(object, "use_bias", json_boolean(affine->use_bias)));
    RF_TRY(rf_json_set(object, "kernel_initializer", initializer_to_json(&affine->kernel_initializer)));
    RF_TRY(rf_json_set(object, "bias_initializer", initializer_to_json(&affine->bias_initializer)));
    return rf_json_set(object, "kernel_regularizer", regularizer_to_json(layer->regularizers[0]));
}

typedef struct affine_fields {
    int activation;
    bool use_bias;
    rf_initializer kernel, bias;
    rf_regularizer regularizer;
} affine_fields;

static rf_result affine_from_json(const json_t *object, affine_fields *out)
{
    *out = (affine_fields){ .use_bias = true, .bias.kind = RF_INIT_ZEROS };
    RF_TRY(rf_json_choice(object, "activation", rf_activation_names, COUNT(rf_activation_names), &out->activation));
    RF_TRY(rf_json_bool(object, "use_bias", &out->use_bias));
    RF_TRY(initializer_from_json(object, "kernel_initializer", &out->kernel));
    RF_TRY(initializer_from_json(object, "bias_initializer", &out->bias));
    return regularizer_from_json(object, "kernel_regularizer", &out->regularizer);
}

/* ---- kinds of layers: the fields beside "kind" and "name" ---- */

static rf_result dense_to_json(const rf_layer *layer, json_t *object)
{
    RF_TRY(rf_json_set(object, "units", json_integer(layer->u.dense.units)));
    return affine_to_json(layer, &layer->u.dense.affine, object);
}

static rf_result dense_from_json(const json_t *object, const char *name, rf_layer **out)
{
    affine_fields f;
    rf_dense_params p = { .name = name };
    RF_TRY(rf_json_i32(object, "units", &p.units));
    RF_TRY(affine_from_json(object, &f));
    p.activation = (rf_activation)f.activation;
    p.no_bias = !f.use_bias;
    p.kernel_initializer = f.kernel;
    p.bias_initializer = f.use_bias ? &f.bias : NULL;
    p.kernel_regularizer = f.regularizer;
    return rf_layer_dense(&p, out);
}

static rf_result conv2d_to_json(const rf_layer *layer, json_t *object)
{
    const rf_conv2d_params *c = &layer->u.conv2d.conv;
    RF_TRY(rf_json_set(object, "filters", json_integer(layer->u.conv2d.filters)));
    RF_TRY(rf_json_set(object, "kernel_size", pair_to_json(layer->u.conv2d.kernel_size)));
    RF_TRY(rf_json_set(object, "padding", json_string(rf_padding_names[c->padding])));
    RF_TRY(rf_json_set(object, "stride", pair_to_json(c->stride)));
    RF_TRY(rf_json_set(object, "dilation", pair_to_json(c->dilation)));
    RF_TRY(rf_json_set(object, "groups", json_integer(c->groups)));
    RF_TRY(rf_json_set(object, "explicit_padding",
                       json_pack("[i, i, i, i]", c->explicit_padding[0], c->explicit_padding[1], c->explicit_padding[2],
                                 c->explicit_padding[3])));
    return affine_to_json(layer, &layer->u.conv2d.affine, object);
}

typedef rf_result (*create_conv_fn)(const rf_conv2d_layer_params *params, rf_layer **out);

static rf_result conv_from_json(const json_t *object, const char *name, create_conv_fn create, rf_layer **out)
{
    affine_fields f;
    int padding = 0;
    rf_conv2d_layer_params p = { .name = name };
    RF_TRY(rf_json_i32(object, "filters", &p.filters));
    RF_TRY(pair_from_json(object, "kernel_size", p.kernel_size, 2));
    RF_TRY(rf_json_choice(object, "padding", rf_padding_names, COUNT(rf_padding_names), &padding));
    RF_TRY(pair_from_json(object, "stride", p.conv.stride, 2));
    RF_TRY(pair_from_json(object, "dilation", p.conv.dilation, 2));
    RF_TRY(rf_json_i32(object, "groups", &p.conv.groups));
    RF_TRY(pair_from_json(object, "explicit_padding", p.conv.explicit_padding, 4));
    RF_TRY(affine_from_json(object, &f));
    p.conv.padding = (rf_padding)padding;
    p.activation = (rf_activation)f.activation;
    p.no_bias = !f.use_bias;
    p.kernel_initializer = f.kernel;
    p.bias_initializer = f.use_bias ? &f.bias : NULL;
    p.kernel_regularizer = f.regularizer;
    return create(&p, out);
}

static rf_result conv2d_from_json(const json_t *object, const char *name, rf_layer **out)
{
    return conv_from_json(object, name, rf_layer_conv2d, out);
}

static rf_result conv2d_transpose_from_json(const json_t *object, const char *name, rf_layer **out)
{
    return conv_from_json(object, name, rf_layer_conv2d_transpose, out);
}

static rf_result pool_to_json(const rf_layer *layer, json_t *object)
{
    const rf_pool2d_params *p = &layer->u.pool;
    RF_TRY(rf_json_set(object, "window", pair_to_json(p->window)));
    RF_TRY(rf_json_set(object, "stride", pair_to_json(p->stride)));
    RF_TRY(rf_json_set(object, "padding", json_string(rf_padding_names[p->padding])));
    return rf_json_set(object, "explicit_padding",
                       json_pack("[i, i, i, i]", p->explicit_padding[0], p->explicit_padding[1], p->explicit_padding[2],
                                 p->explicit_padding[3]));
}

static rf_result pool_fields(const json_t *object, rf_pool2d_params *p)
{
    int padding = 0;
    RF_TRY(pair_from_json(object, "window", p->window, 2));
    RF_TRY(pair_from_json(object, "stride", p->stride, 2));
    RF_TRY(rf_json_choice(object, "padding", rf_padding_names, COUNT(rf_padding_names), &padding));
    RF_TRY(pair_from_json(object, "explicit_padding", p->explicit_padding, 4));
    p->padding = (rf_padding)padding;
    return RF_OK;
}

static rf_result max_pool_from_json(const json_t *object, const char *name, rf_layer **out)
{
    (void)name;
    rf_pool2d_params p = { 0 };
    RF_TRY(pool_fields(object, &p));
    return rf_layer_max_pool2d(&p, out);
}

static rf_result avg_pool_from_json(const json_t *object, const char *name, rf_layer **out)
{
    (void)name;
    rf_pool2d_params p = { 0 };
    RF_TRY(pool_fields(object, &p));
    return rf_layer_avg_pool2d(&p, out);
}

static rf_result nothing_to_json(const rf_layer *layer, json_t *object)
{
    (void)layer;
    (void)object;
    return RF_OK;
}

static rf_result global_avg_pool_from_json(const json_t *object, const char *name, rf_layer **out)
{
    (void)object;
    (void)name;
    return rf_layer_global_avg_pool2d(out);
}

static rf_result flatten_from_json(const json_t *object, const char *name, rf_layer **out)
{
    (void)object;
    (void)name;
    return rf_layer_flatten(out);
}

static rf_result reshape_to_json(const rf_layer *layer, json_t *object)
{
    return rf_json_set(object, "shape", rf_shape_to_json(layer->u.shape));
}

static rf_result reshape_from_json(const json_t *object, const char *name, rf_layer **out)
{
    (void)name;
    rf_shape shape = { 0 };
    RF_TRY(rf_shape_from_json(object, "shape", &shape));
    return rf_layer_reshape(shape, out);
}

static rf_result activation_to_json(const rf_layer *layer, json_t *object)
{
    return rf_json_set(object, "activation", json_string(rf_activation_names[layer->u.activation]));
}

static rf_result activation_from_json(const json_t *object, const char *name, rf_layer **out)
{
    (void)name;
    int activation = 0;
    RF_TRY(rf_json_choice(object, "activation", rf_activation_names, COUNT(rf_activation_names), &activation));
    return rf_layer_activation((rf_activation)activation, out);
}

static rf_result dropout_to_json(const rf_layer *layer, json_t *object)
{
    RF_TRY(rf_json_set(object, "rate", json_real((double)layer->u.dropout.rate)));
    return rf_json_set(object, "seed", json_integer((json_int_t)layer->u.dropout.seed));
}

static rf_result dropout_from_json(const json_t *object, const char *name, rf_layer **out)
{
    (void)name;
    double rate = 0;
    uint64_t seed = 0;
    RF_TRY(rf_json_number(object, "rate", &rate));
    RF_TRY(rf_json_u64(object, "seed", &seed));
    return rf_layer_dropout((float)rate, seed, out);
}

static rf_result embedding_to_json(const rf_layer *layer, json_t *object)
{
    RF_TRY(rf_json_set(object, "input_dim", json_integer(layer->u.embedding.input_dim)));
    RF_TRY(rf_json_set(object, "output_dim", json_integer(layer->u.embedding.output_dim)));
    RF_TRY(rf_json_set(object, "initializer", initializer_to_json(&layer->u.embedding.initializer)));
    return rf_json_set(object, "regularizer", regularizer_to_json(layer->regularizers[0]));
}

static rf_result embedding_from_json(const json_t *object, const char *name, rf_layer **out)
{
    rf_initializer initializer = { .kind = RF_INIT_RANDOM_UNIFORM, .a = -0.05f, .b = 0.05f };
    rf_embedding_params p = { .initializer = &initializer, .name = name };
    RF_TRY(rf_json_i32(object, "input_dim", &p.input_dim));
    RF_TRY(rf_json_i32(object, "output_dim", &p.output_dim));
    RF_TRY(initializer_from_json(object, "initializer", &initializer));
    RF_TRY(regularizer_from_json(object, "regularizer", &p.regularizer));
    return rf_layer_embedding(&p, out);
}

static rf_result batch_norm_to_json(const rf_layer *layer, json_t *object)
{
    const rf_regularizer none = { .l1 = 0 };
    RF_TRY(rf_json_set(object, "axis", json_integer(layer->u.batch_norm.axis)));
    RF_TRY(rf_json_set(object, "momentum", json_real(layer->u.batch_norm.momentum)));
    RF_TRY(rf_json_set(object, "epsilon", json_real(layer->u.batch_norm.epsilon)));
    RF_TRY(rf_json_set(object, "center", json_boolean(layer->u.batch_norm.center)));
    RF_TRY(rf_json_set(object, "scale", json_boolean(layer->u.batch_norm.scale)));
    RF_TRY(rf_json_set(object, "synchronized", json_boolean(layer->u.batch_norm.synchronized)));
    RF_TRY(rf_json_set(object, "gamma_initializer", initializer_to_json(&layer->u.batch_norm.gamma_initializer)));
    RF_TRY(rf_json_set(object, "beta_initializer", initializer_to_json(&layer->u.batch_norm.beta_initializer)));
    RF_TRY(rf_json_set(object, "gamma_regularizer",
                       regularizer_to_json(layer->u.batch_norm.scale ? layer->regularizers[0] : none)));
    return rf_json_set(
        object, "beta_regularizer",
        regularizer_to_json(layer->u.batch_norm.center ? layer->regularizers[layer->u.batch_norm.scale] : none));
}

static rf_result batch_norm_from_json(const json_t *object, const char *name, rf_layer **out)
{
    bool center = true, scale = true;
    rf_initializer gamma = { .kind = RF_INIT_ONES }, beta = { .kind = RF_INIT_ZEROS };
    rf_batch_norm_params p = { .name = name };
    RF_TRY(rf_json_i32(object, "axis", &p.axis));
    RF_TRY(rf_json_number(object, "momentum", &p.momentum));
    RF_TRY(rf_json_number(object, "epsilon", &p.epsilon));
    RF_TRY(rf_json_bool(object, "center", &center));
    RF_TRY(rf_json_bool(object, "scale", &scale));
    RF_TRY(rf_json_bool(object, "synchronized", &p.synchronized));
    RF_TRY(initializer_from_json(object, "gamma_initializer", &gamma));
    RF_TRY(initializer_from_json(object, "beta_initializer", &beta));
    RF_TRY(regularizer_from_json(object, "gamma_regularizer", &p.gamma_regularizer));
    RF_TRY(regularizer_from_json(object, "beta_regularizer", &p.beta_regularizer));
    p.no_center = !center;
    p.no_scale = !scale;
    p.gamma_initializer = scale ? &gamma : NULL;
    p.beta_initializer = center ? &beta : NULL;
    return rf_layer_batch_norm(&p, out);
}

static rf_result norm_fields_to_json(const rf_norm *n, json_t *object)
{
    RF_TRY(rf_json_set(object, "epsilon", json_real(n->epsilon)));
    RF_TRY(rf_json_set(object, "scale", json_boolean(n->scale)));
    return rf_json_set(object, "gamma_initializer", initializer_to_json(&n->gamma_initializer));
}

static rf_result rms_norm_to_json(const rf_layer *layer, json_t *object)
{
    return norm_fields_to_json(&layer->u.norm, object);
}

static rf_result layer_norm_to_json(const rf_layer *layer, json_t *object)
{
    RF_TRY(norm_fields_to_json(&layer->u.norm, object));
    RF_TRY(rf_json_set(object, "center", json_boolean(layer->u.norm.center)));
    return rf_json_set(object, "beta_initializer", initializer_to_json(&layer->u.norm.beta_initializer));
}

static rf_result norm_fields_from_json(const json_t *object, rf_norm *n)
{
    *n = (rf_norm){ .scale = true, .center = true };
    n->gamma_initializer.kind = RF_INIT_ONES;
    n->beta_initializer.kind = RF_INIT_ZEROS;
    RF_TRY(rf_json_number(object, "epsilon", &n->epsilon));
    RF_TRY(rf_json_bool(object, "scale", &n->scale));
    RF_TRY(rf_json_bool(object, "center", &n->center));
    RF_TRY(initializer_from_json(object, "gamma_initializer", &n->gamma_initializer));
    return initializer_from_json(object, "beta_initializer", &n->beta_initializer);
}

static rf_result layer_norm_from_json(const json_t *object, const char *name, rf_layer **out)
{
    rf_norm n;
    RF_TRY(norm_fields_from_json(object, &n));
    const rf_layer_norm_params p = { .epsilon = n.epsilon,
                                     .no_center = !n.center,
                                     .no_scale = !n.scale,
                                     .beta_initializer = n.center ? &n.beta_initializer : NULL,
                                     .gamma_initializer = n.scale ? &n.gamma_initializer : NULL,
                                     .name = name };
    return rf_layer_layer_norm(&p, out);
}

static rf_result rms_norm_from_json(const json_t *object, const char *name, rf_layer **out)
{
    rf_norm n;
    RF_TRY(norm_fields_from_json(object, &n));
    const rf_rms_norm_params p = { .epsilon = n.epsilon,
                                   .no_scale = !n.scale,
                                   .gamma_initializer = n.scale ? &n.gamma_initializer : NULL,
                                   .name = name };
    return rf_layer_rms_norm(&p, out);
}

static const struct describer {
    const char *kind;
    rf_result (*to_json)(const rf_layer *layer, json_t *object);
    rf_result (*from_json)(const json_t *object, const char *name, rf_layer **out);
} describers[] = {
    { "dense", dense_to_json, dense_from_json },
    { "conv2d", conv2d_to_json, conv2d_from_json },
    { "conv2d_transpose", conv2d_to_json, conv2d_transpose_from_json },
    { "embedding", embedding_to_json, embedding_from_json },
    { "max_pooling2d", pool_to_json, max_pool_from_json },
    { "average_pooling2d", pool_to_json, avg_pool_from_json },
    { "global_average_pooling2d", nothing_to_json, global_avg_pool_from_json },
    { "layer_normalization", layer_norm_to_json, layer_norm_from_json },
    { "rms_normalization", rms_norm_to_json, rms_norm_from_json },
    { "flatten", nothing_to_json, flatten_from_json },
    { "reshape", reshape_to_json, reshape_from_json },
    { "activation", activation_to_json, activation_from_json },
    { "dropout", dropout_to_json, dropout_from_json },
    { "batch_normalization", batch_norm_to_json, batch_norm_from_json },
};

static const struct describer *find_describer(const char *kind)
{
    for (int i = 0; kind && i < COUNT(describers); i++)
        if (strcmp(describers[i].kind, kind) == 0) return &describers[i];
    return NULL;
}

bool rf_layer_is_describable(const rf_layer *layer)
{
    return find_describer(layer->kind->base_name) != NULL;
}

rf_result rf_layer_to_json(const rf_layer *layer, json_t **out)
{
    *out = json_pack("{s:s, s:s}", "kind", layer->kind->base_name, "name", layer->name);
    if (!*out) return RF_ERROR_OUT_OF_HOST_MEMORY;
    const rf_result r = find_describer(layer->kind->base_name)->to_json(layer, *out);
    if (r >= 0) return RF_OK;
    json_decref(*out);
    *out = NULL;
    return r;
}

rf_result rf_layer_from_json(const json_t *object, rf_layer **out)
{
    const char *kind = json_string_value(json_object_get(object, "kind"));
    const char *name = json_string_value(json_object_get(object, "name"));
    const struct describer *describer = find_describer(kind);
    if (!describer || !name || !*name)
        return RF_FAIL(RF_ERROR_CORRUPT_DATA, "a layer of kind '%s' with the name '%s'", kind ? kind : "",
                       name ? name : "");
    const rf_result r = describer->from_json(object, name, out);
    /* What a constructor refuses is a wrong description; running out of memory is not. */
    if (r == RF_ERROR_INVALID_ARGUMENT)
        return RF_FAIL(RF_ERROR_CORRUPT_DATA, "layer '%s': %s", name, rf_error_message());
    if (r < 0) return rf_error_context(r, "layer '%s'", name);
    if ((*out)->name) return RF_OK;
    (*out)->name = rf_strdup(name);
    if ((*out)->name) return RF_OK;
    rf_layer_destroy(out);
    return RF_ERROR_OUT_OF_HOST_MEMORY;
}
