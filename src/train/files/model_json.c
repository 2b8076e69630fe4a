/* SPDX-License-Identifier: Apache-2.0 */
#include "train/files/model_json.h"

#include <string.h>

#include "ops/ops.h"
#include "train/fit/compile.h"
#include "train/loss.h"
#include "train/metric.h"
#include "train/optimizer/optimizer.h"

enum { MOST_LAYERS = 4096, MOST_INPUTS = 1 << 26 /* elements of an example */ };

#define COUNT(names) ((int)(sizeof(names) / sizeof((names)[0])))
static const char *const initializer_names[] = { "glorot_uniform", "glorot_normal",    "he_uniform",    "he_normal",
                                                 "random_normal",  "random_uniform",   "zeros",         "ones",
                                                 "constant",       "truncated_normal", "lecun_uniform", "lecun_normal",
                                                 "orthogonal",     "variance_scaling" };
static const char *const fan_names[] = { "fan_in", "fan_out", "fan_avg" };
static const char *const distribution_names[] = { "truncated_normal", "untruncated_normal", "uniform" };
static const char *const reduction_names[] = { "auto", "none", "sum", "sum_over_batch_size" };

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

static json_t *shape_to_json(rf_shape shape)
{
    json_t *list = json_array();
    for (int32_t i = 0; i < shape.rank; i++) json_array_append_new(list, json_integer(shape.dim[i]));
    return list;
}

static rf_result shape_from_json(const json_t *object, const char *name, rf_shape *out)
{
    const json_t *list = json_object_get(object, name);
    if (!json_is_array(list) || json_array_size(list) > RF_MAX_RANK)
        return RF_FAIL(RF_ERROR_CORRUPT_DATA, "'%s' is not a shape", name);
    out->rank = (int32_t)json_array_size(list);
    for (int32_t i = 0; i < out->rank; i++) {
        const json_t *value = json_array_get(list, (size_t)i);
        if (!json_is_integer(value)) return RF_FAIL(RF_ERROR_CORRUPT_DATA, "'%s' is not a shape", name);
        out->dim[i] = json_integer_value(value);
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

static rf_result set(json_t *object, const char *name, json_t *value)
{
    return json_object_set_new(object, name, value) == 0 ? RF_OK : RF_ERROR_OUT_OF_HOST_MEMORY;
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
    RF_TRY(set(object, "activation", json_string(rf_activation_names[affine->activation])));
    RF_TRY(set(object, "use_bias", json_boolean(affine->use_bias)));
    RF_TRY(set(object, "kernel_initializer", initializer_to_json(&affine->kernel_initializer)));
    RF_TRY(set(object, "bias_initializer", initializer_to_json(&affine->bias_initializer)));
    return set(object, "kernel_regularizer", regularizer_to_json(layer->regularizers[0]));
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
    RF_TRY(set(object, "units", json_integer(layer->u.dense.units)));
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
    RF_TRY(set(object, "filters", json_integer(layer->u.conv2d.filters)));
    RF_TRY(set(object, "kernel_size", pair_to_json(layer->u.conv2d.kernel_size)));
    RF_TRY(set(object, "padding", json_string(rf_padding_names[c->padding])));
    RF_TRY(set(object, "stride", pair_to_json(c->stride)));
    RF_TRY(set(object, "dilation", pair_to_json(c->dilation)));
    RF_TRY(set(object, "groups", json_integer(c->groups)));
    RF_TRY(set(object, "explicit_padding",
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
    RF_TRY(set(object, "window", pair_to_json(p->window)));
    RF_TRY(set(object, "stride", pair_to_json(p->stride)));
    RF_TRY(set(object, "padding", json_string(rf_padding_names[p->padding])));
    return set(object, "explicit_padding",
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
    return set(object, "shape", shape_to_json(layer->u.shape));
}

static rf_result reshape_from_json(const json_t *object, const char *name, rf_layer **out)
{
    (void)name;
    rf_shape shape = { 0 };
    RF_TRY(shape_from_json(object, "shape", &shape));
    return rf_layer_reshape(shape, out);
}

static rf_result activation_to_json(const rf_layer *layer, json_t *object)
{
    return set(object, "activation", json_string(rf_activation_names[layer->u.activation]));
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
    RF_TRY(set(object, "rate", json_real((double)layer->u.dropout.rate)));
    return set(object, "seed", json_integer((json_int_t)layer->u.dropout.seed));
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
    RF_TRY(set(object, "input_dim", json_integer(layer->u.embedding.input_dim)));
    RF_TRY(set(object, "output_dim", json_integer(layer->u.embedding.output_dim)));
    RF_TRY(set(object, "initializer", initializer_to_json(&layer->u.embedding.initializer)));
    return set(object, "regularizer", regularizer_to_json(layer->regularizers[0]));
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
    RF_TRY(set(object, "axis", json_integer(layer->u.batch_norm.axis)));
    RF_TRY(set(object, "momentum", json_real(layer->u.batch_norm.momentum)));
    RF_TRY(set(object, "epsilon", json_real(layer->u.batch_norm.epsilon)));
    RF_TRY(set(object, "center", json_boolean(layer->u.batch_norm.center)));
    RF_TRY(set(object, "scale", json_boolean(layer->u.batch_norm.scale)));
    RF_TRY(set(object, "synchronized", json_boolean(layer->u.batch_norm.synchronized)));
    RF_TRY(set(object, "gamma_initializer", initializer_to_json(&layer->u.batch_norm.gamma_initializer)));
    RF_TRY(set(object, "beta_initializer", initializer_to_json(&layer->u.batch_norm.beta_initializer)));
    RF_TRY(set(object, "gamma_regularizer",
               regularizer_to_json(layer->u.batch_norm.scale ? layer->regularizers[0] : none)));
    return set(object, "beta_regularizer",
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
    RF_TRY(set(object, "epsilon", json_real(n->epsilon)));
    RF_TRY(set(object, "scale", json_boolean(n->scale)));
    return set(object, "gamma_initializer", initializer_to_json(&n->gamma_initializer));
}

static rf_result rms_norm_to_json(const rf_layer *layer, json_t *object)
{
    return norm_fields_to_json(&layer->u.norm, object);
}

static rf_result layer_norm_to_json(const rf_layer *layer, json_t *object)
{
    RF_TRY(norm_fields_to_json(&layer->u.norm, object));
    RF_TRY(set(object, "center", json_boolean(layer->u.norm.center)));
    return set(object, "beta_initializer", initializer_to_json(&layer->u.norm.beta_initializer));
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

/* ---- models ---- */

rf_result rf_model_check_describable(const rf_model *model, const char *function)
{
    RF_REQUIRE(model, "%s: model is NULL", function);
    if (!rf_model_is_sequential(model))
        return RF_FAIL(RF_ERROR_UNSUPPORTED,
                       "%s: the model's forward function is code, which a file cannot hold; save its weights "
                       "(rf_model_save_weights()) and build the model in the program, or export it for inference with "
                       "rf_model_export()",
                       function);
    for (uint32_t i = 0; i < model->layers.count; i++) {
        const rf_layer *layer = model->layers.items[i];
        if (!find_describer(layer->kind->base_name))
            return RF_FAIL(RF_ERROR_UNSUPPORTED,
                           "%s: layer '%s' (%s) is code, which a file cannot hold; save the weights "
                           "(rf_model_save_weights()) and build the model in the program, or export it for inference "
                           "with rf_model_export()",
                           function, layer->name, layer->kind->type_name);
    }
    RF_REQUIRE(model->built, "%s: the model has no variables yet; call rf_model_build() first", function);
    return RF_OK;
}

static rf_result describe_layers(const rf_architecture *a, json_t *list)
{
    for (uint32_t i = 0; i < a->count; i++) {
        const rf_layer *layer = a->layers[i];
        json_t *object = json_pack("{s:s, s:s}", "kind", layer->kind->base_name, "name", layer->name);
        if (json_array_append_new(list, object) != 0) return RF_ERROR_OUT_OF_HOST_MEMORY;
        RF_TRY(find_describer(layer->kind->base_name)->to_json(layer, object));
    }
    return RF_OK;
}

rf_result rf_architecture_text(const rf_architecture *architecture, char **text)
{
    *text = NULL;
    json_t *layers = json_array();
    rf_result r = describe_layers(architecture, layers);
    json_t *root = json_pack("{s:o, s:o}", "input_shape", shape_to_json(architecture->input), "layers", layers);
    if (r >= 0 && architecture->dtype != RF_F32)
        r = set(root, "input_dtype", json_string(rf_dtype_name(architecture->dtype)));
    if (r < 0) {
        json_decref(root);
        return RF_FAIL(r, "out of memory for the description of a model");
    }
    return rf_json_text(root, text);
}

rf_result rf_model_describe(const rf_model *model, char **text)
{
    *text = NULL;
    RF_TRY(rf_model_check_describable(model, "describing a model"));
    const rf_architecture architecture = { model->inputs[0].shape, model->inputs[0].dtype, model->layers.items,
                                           model->layers.count };
    return rf_architecture_text(&architecture, text);
}

static rf_result make_layer(const json_t *object, rf_layer **out)
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

/* f32 where there is none. */
static rf_result dtype_from_json(const json_t *object, const char *name, rf_dtype *out)
{
    const json_t *value = json_object_get(object, name);
    const char *text = json_string_value(value);
    *out = RF_F32;
    if (!value) return RF_OK;
    for (int dtype = RF_DTYPE_INVALID + 1; text && dtype < RF_DTYPE_COUNT; dtype++) {
        *out = (rf_dtype)dtype;
        if (strcmp(rf_dtype_name(*out), text) == 0) return RF_OK;
    }
    return RF_FAIL(RF_ERROR_CORRUPT_DATA, "'%s' is not a type", name);
}

static rf_result read_architecture(const json_t *root, rf_architecture *out)
{
    RF_TRY(shape_from_json(root, "input_shape", &out->input));
    RF_TRY(dtype_from_json(root, "input_dtype", &out->dtype));
    const json_t *list = json_object_get(root, "layers");
    const size_t count = json_array_size(list);
    const int64_t inputs = rf_shape_count(out->input);
    if (out->input.rank < 1 || inputs < 1 || inputs > MOST_INPUTS || count < 1 || count > MOST_LAYERS)
        return RF_FAIL(RF_ERROR_CORRUPT_DATA, "%zu layers for examples of %lld numbers", count, (long long)inputs);
    out->layers = RF_NEW_ARRAY(rf_layer *, count);
    if (!out->layers) return RF_ERROR_OUT_OF_HOST_MEMORY;
    out->count = (uint32_t)count;
    for (size_t i = 0; i < count; i++) RF_TRY(make_layer(json_array_get(list, i), &out->layers[i]));
    return RF_OK;
}

rf_result rf_architecture_parse(const char *text, size_t size, rf_architecture *out)
{
    json_t *root;
    *out = (rf_architecture){ 0 };
    RF_TRY(rf_json_parse(text, size, "architecture", &root));
    const rf_result r = read_architecture(root, out);
    json_decref(root);
    if (r < 0) rf_architecture_free(out);
    return rf_error_context(r, "architecture");
}

void rf_architecture_free(rf_architecture *architecture)
{
    for (uint32_t i = 0; i < architecture->count; i++) rf_layer_destroy(&architecture->layers[i]);
    rf_free(architecture->layers);
    *architecture = (rf_architecture){ 0 };
}

rf_result rf_model_from_description(rf_strategy *strategy, const char *text, rf_model **out)
{
    rf_architecture a;
    *out = NULL;
    RF_TRY(rf_architecture_parse(text, strlen(text), &a));
    /* The layers are the model's from here on, and gone where it cannot be made. */
    rf_result r = rf_model_create_sequential(strategy, a.layers, a.count, NULL, out);
    if (r >= 0) r = rf_model_build_for(*out, a.dtype, a.input);
    if (r < 0) rf_model_destroy(out);
    rf_free(a.layers);
    return rf_error_context(r, "architecture");
}

/* ---- what a model was compiled with ---- */

rf_result rf_training_text(const rf_training *t, char **text)
{
    *text = NULL;
    json_t *metrics = json_array();
    for (uint32_t i = 0; i < t->num_metrics; i++)
        json_array_append_new(metrics, json_string(rf_metric_kind_names[t->metrics[i]]));
    return rf_json_text(json_pack("{s:o, s:{s:s, s:b, s:s, s:f, s:f}, s:o, s:I}", "optimizer",
                                  rf_optimizer_to_json(&t->optimizer, &t->schedule), "loss", "kind",
                                  rf_loss_kind_names[t->loss.kind], "from_logits", t->loss.from_logits, "reduction",
                                  reduction_names[t->loss.reduction], "label_smoothing",
                                  (double)t->loss.label_smoothing, "delta", (double)t->loss.delta, "metrics", metrics,
                                  "steps_per_execution", (json_int_t)t->steps_per_execution),
                        text);
}

rf_result rf_compiled_describe(const rf_compiled *c, char **text)
{
    const rf_optimizer_config *optimizer = rf_optimizer_configuration(c->optimizer);
    rf_training t = { .optimizer = optimizer->params,
                      .schedule = optimizer->schedule,
                      .loss = c->losses[0],
                      .num_metrics = c->train_meters.num_metrics,
                      .steps_per_execution = c->steps_per_execution };
    for (uint32_t i = 0; i < t.num_metrics; i++) t.metrics[i] = rf_metric_kind_of(c->train_meters.metrics[i]);
    return rf_training_text(&t, text);
}

static rf_result metrics_from_json(const json_t *list, rf_metric_kind *kinds, uint32_t *count)
{
    *count = (uint32_t)json_array_size(list);
    if (*count > RF_MAX_COMPILED_METRICS) return RF_FAIL(RF_ERROR_CORRUPT_DATA, "%u metrics", *count);
    for (uint32_t i = 0; i < *count; i++) {
        const char *name = json_string_value(json_array_get(list, i));
        int kind = 0;
        while (name && kind < RF_METRIC_KINDS && strcmp(rf_metric_kind_names[kind], name) != 0) kind++;
        if (!name || kind == RF_METRIC_KINDS) return RF_FAIL(RF_ERROR_CORRUPT_DATA, "a metric of no known kind");
        kinds[i] = (rf_metric_kind)kind;
    }
    return RF_OK;
}

static rf_result read_training(const json_t *root, rf_training *out)
{
    int loss = 0, reduction = 0;
    uint64_t steps = 1;
    const json_t *loss_object = json_object_get(root, "loss");
    RF_TRY(rf_json_choice(loss_object, "kind", rf_loss_kind_names, COUNT(rf_loss_kind_names), &loss));
    RF_TRY(rf_json_bool(loss_object, "from_logits", &out->loss.from_logits));
    RF_TRY(rf_json_choice(loss_object, "reduction", reduction_names, COUNT(reduction_names), &reduction));
    double smoothing = 0, delta = 0; /* as in files that do not say */
    RF_TRY(rf_json_number(loss_object, "label_smoothing", &smoothing));
    RF_TRY(rf_json_number(loss_object, "delta", &delta));
    RF_TRY(rf_json_u64(root, "steps_per_execution", &steps));
    RF_TRY(metrics_from_json(json_object_get(root, "metrics"), out->metrics, &out->num_metrics));
    if (steps < 1 || steps > UINT32_MAX) return RF_FAIL(RF_ERROR_CORRUPT_DATA, "'steps_per_execution' is out of range");
    out->loss.kind = (rf_loss_kind)loss;
    out->loss.reduction = (rf_reduction)reduction;
    out->loss.label_smoothing = (float)smoothing;
    out->loss.delta = (float)delta;
    out->steps_per_execution = (uint32_t)steps;
    return rf_optimizer_from_json(json_object_get(root, "optimizer"), &out->optimizer, &out->schedule);
}

rf_result rf_training_parse(const char *text, size_t size, rf_training *out)
{
    json_t *root;
    *out = (rf_training){ 0 };
    RF_TRY(rf_json_parse(text, size, "training", &root));
    const rf_result r = read_training(root, out);
    json_decref(root);
    return rf_error_context(r, "training");
}

static rf_result compile(rf_model *model, const rf_training *t)
{
    RF_TRY(rf_optimizer_create(model->strategy, &t->optimizer, &model->own_optimizer));
    rf_optimizer_retain(model->own_optimizer); /* rf_model_optimizer() gives it away: it may be destroyed there */
    const rf_compile_params p = { .optimizer = model->own_optimizer,
                                  .loss = t->loss,
                                  .metrics = t->metrics,
                                  .num_metrics = t->num_metrics,
                                  .steps_per_execution = t->steps_per_execution };
    return rf_model_compile(model, &p);
}

rf_result rf_model_compile_from_description(rf_model *model, const char *text)
{
    rf_training training;
    RF_TRY(rf_training_parse(text, strlen(text), &training));
    const rf_result r = rf_error_context(compile(model, &training), "training");
    rf_optimizer_params_free(&training.optimizer);
    return r;
}
