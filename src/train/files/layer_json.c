/* SPDX-License-Identifier: Apache-2.0 */
#include "train/files/layer_json.h"

#include <string.h>

#include "ops/ops.h"
#include "train/files/layer_fields.h"
#include "train/onnx/op.h"

/* ---- kinds of layers: the fields beside "kind" and "name" ---- */

static rf_result dense_to_json(const rf_layer *layer, json_t *object)
{
    RF_TRY(rf_json_set(object, "units", json_integer(layer->u.dense.units)));
    return rf_affine_to_json(layer, &layer->u.dense.affine, object);
}

static rf_result dense_from_json(const json_t *object, const char *name, rf_layer **out)
{
    rf_affine_fields f;
    rf_dense_params p = { .name = name };
    RF_TRY(rf_json_i32(object, "units", &p.units));
    RF_TRY(rf_affine_from_json(object, &f));
    p.activation = (rf_activation)f.activation;
    p.no_bias = !f.use_bias;
    p.kernel_initializer = f.kernel;
    p.bias_initializer = f.use_bias ? &f.bias : NULL;
    p.kernel_regularizer = f.regularizer;
    return rf_layer_dense(&p, out);
}

static rf_result conv2d_to_json(const rf_layer *layer, json_t *object)
{
    RF_TRY(rf_json_set(object, "filters", json_integer(layer->u.conv2d.filters)));
    RF_TRY(rf_json_set(object, "kernel_size", rf_list_to_json(layer->u.conv2d.kernel_size, 2)));
    RF_TRY(rf_conv2d_to_json(&layer->u.conv2d.conv, object));
    return rf_affine_to_json(layer, &layer->u.conv2d.affine, object);
}

typedef rf_result (*create_conv_fn)(const rf_conv2d_layer_params *params, rf_layer **out);

static rf_result conv_from_json(const json_t *object, const char *name, create_conv_fn create, rf_layer **out)
{
    rf_affine_fields f;
    rf_conv2d_layer_params p = { .name = name };
    RF_TRY(rf_json_i32(object, "filters", &p.filters));
    RF_TRY(rf_list_from_json(object, "kernel_size", p.kernel_size, 2));
    RF_TRY(rf_conv2d_from_json(object, &p.conv));
    RF_TRY(rf_affine_from_json(object, &f));
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
    RF_TRY(rf_json_set(object, "window", rf_list_to_json(p->window, 2)));
    RF_TRY(rf_json_set(object, "stride", rf_list_to_json(p->stride, 2)));
    RF_TRY(rf_json_set(object, "padding", json_string(rf_padding_names[p->padding])));
    return rf_json_set(object, "explicit_padding",
                       json_pack("[i, i, i, i]", p->explicit_padding[0], p->explicit_padding[1], p->explicit_padding[2],
                                 p->explicit_padding[3]));
}

static rf_result pool_fields(const json_t *object, rf_pool2d_params *p)
{
    int padding = 0;
    RF_TRY(rf_list_from_json(object, "window", p->window, 2));
    RF_TRY(rf_list_from_json(object, "stride", p->stride, 2));
    RF_TRY(rf_json_choice(object, "padding", rf_padding_names, RF_NAME_COUNT(rf_padding_names), &padding));
    RF_TRY(rf_list_from_json(object, "explicit_padding", p->explicit_padding, 4));
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
    RF_TRY(rf_json_choice(object, "activation", rf_activation_names, RF_NAME_COUNT(rf_activation_names), &activation));
    return rf_layer_activation((rf_activation)activation, out);
}

static rf_result rescaling_to_json(const rf_layer *layer, json_t *object)
{
    RF_TRY(rf_json_set(object, "scale", json_real((double)layer->u.rescaling.scale)));
    return rf_json_set(object, "offset", json_real((double)layer->u.rescaling.offset));
}

static rf_result rescaling_from_json(const json_t *object, const char *name, rf_layer **out)
{
    (void)name;
    float scale = 1, offset = 0;
    RF_TRY(rf_json_float(object, "scale", &scale));
    RF_TRY(rf_json_float(object, "offset", &offset));
    return rf_layer_rescaling(scale, offset, out);
}

static rf_result select_step_to_json(const rf_layer *layer, json_t *object)
{
    return rf_json_set(object, "step", json_integer(layer->u.step));
}

static rf_result select_step_from_json(const json_t *object, const char *name, rf_layer **out)
{
    (void)name;
    int32_t step = 0;
    RF_TRY(rf_json_i32(object, "step", &step));
    return rf_layer_select_step(step, out);
}

static rf_result dropout_to_json(const rf_layer *layer, json_t *object)
{
    RF_TRY(rf_json_set(object, "rate", json_real((double)layer->u.dropout.rate)));
    return rf_json_set(object, "seed", json_integer((json_int_t)layer->u.dropout.seed));
}

typedef rf_result (*create_dropout_fn)(float rate, uint64_t seed, rf_layer **out);

static rf_result read_dropout(const json_t *object, create_dropout_fn create, rf_layer **out)
{
    float rate = 0;
    uint64_t seed = 0;
    RF_TRY(rf_json_float(object, "rate", &rate));
    RF_TRY(rf_json_u64(object, "seed", &seed));
    return create(rate, seed, out);
}

static rf_result dropout_from_json(const json_t *object, const char *name, rf_layer **out)
{
    (void)name;
    return read_dropout(object, rf_layer_dropout, out);
}

static rf_result gaussian_dropout_from_json(const json_t *object, const char *name, rf_layer **out)
{
    (void)name;
    return read_dropout(object, rf_layer_gaussian_dropout, out);
}

static rf_result spatial_dropout1d_from_json(const json_t *object, const char *name, rf_layer **out)
{
    (void)name;
    return read_dropout(object, rf_layer_spatial_dropout1d, out);
}

static rf_result spatial_dropout2d_from_json(const json_t *object, const char *name, rf_layer **out)
{
    (void)name;
    return read_dropout(object, rf_layer_spatial_dropout2d, out);
}

static rf_result gaussian_noise_to_json(const rf_layer *layer, json_t *object)
{
    RF_TRY(rf_json_set(object, "stddev", json_real((double)layer->u.noise.deviation)));
    return rf_json_set(object, "seed", json_integer((json_int_t)layer->u.noise.seed));
}

static rf_result gaussian_noise_from_json(const json_t *object, const char *name, rf_layer **out)
{
    (void)name;
    float stddev = 0;
    uint64_t seed = 0;
    RF_TRY(rf_json_float(object, "stddev", &stddev));
    RF_TRY(rf_json_u64(object, "seed", &seed));
    return rf_layer_gaussian_noise(stddev, seed, out);
}

static rf_result leaky_relu_to_json(const rf_layer *layer, json_t *object)
{
    return rf_json_set(object, "negative_slope", json_real((double)layer->u.slope));
}

static rf_result leaky_relu_from_json(const json_t *object, const char *name, rf_layer **out)
{
    (void)name;
    float slope = 0;
    RF_TRY(rf_json_float(object, "negative_slope", &slope));
    return rf_layer_leaky_relu(slope, out);
}

/* Axes from the front, then those that count from the last one. */
static rf_result p_relu_to_json(const rf_layer *layer, json_t *object)
{
    int32_t axes[2 * RF_MAX_RANK];
    size_t count = 0;
    for (int32_t axis = 1 - RF_MAX_RANK; axis < RF_MAX_RANK; axis++)
        if ((layer->u.p_relu.shared_axes >> (axis < 0 ? 32 + axis : axis) & 1) != 0) axes[count++] = axis;
    RF_TRY(rf_json_set(object, "shared_axes", rf_list_to_json(axes, count)));
    RF_TRY(rf_json_set(object, "alpha_initializer", rf_initializer_to_json(&layer->u.p_relu.initializer)));
    return rf_json_set(object, "alpha_regularizer", rf_regularizer_to_json(layer->regularizers[0]));
}

static rf_result p_relu_from_json(const json_t *object, const char *name, rf_layer **out)
{
    int32_t axes[2 * RF_MAX_RANK];
    rf_initializer initializer = { .kind = RF_INIT_ZEROS };
    const size_t count = json_array_size(json_object_get(object, "shared_axes"));
    if (count > 2 * RF_MAX_RANK) return RF_FAIL(RF_ERROR_CORRUPT_DATA, "'shared_axes' is a list of %zu", count);
    rf_prelu_params p = { .alpha_initializer = &initializer, .num_shared_axes = (uint32_t)count, .name = name };
    if (count > 0) p.shared_axes = axes;
    RF_TRY(rf_list_from_json(object, "shared_axes", axes, count));
    RF_TRY(rf_initializer_from_json(object, "alpha_initializer", &initializer));
    RF_TRY(rf_regularizer_from_json(object, "alpha_regularizer", &p.alpha_regularizer));
    return rf_layer_prelu(&p, out);
}

static rf_result embedding_to_json(const rf_layer *layer, json_t *object)
{
    RF_TRY(rf_json_set(object, "input_dim", json_integer(layer->u.embedding.input_dim)));
    RF_TRY(rf_json_set(object, "output_dim", json_integer(layer->u.embedding.output_dim)));
    RF_TRY(rf_json_set(object, "initializer", rf_initializer_to_json(&layer->u.embedding.initializer)));
    return rf_json_set(object, "regularizer", rf_regularizer_to_json(layer->regularizers[0]));
}

static rf_result embedding_from_json(const json_t *object, const char *name, rf_layer **out)
{
    rf_initializer initializer = { .kind = RF_INIT_RANDOM_UNIFORM, .a = -0.05f, .b = 0.05f };
    rf_embedding_params p = { .initializer = &initializer, .name = name };
    RF_TRY(rf_json_i32(object, "input_dim", &p.input_dim));
    RF_TRY(rf_json_i32(object, "output_dim", &p.output_dim));
    RF_TRY(rf_initializer_from_json(object, "initializer", &initializer));
    RF_TRY(rf_regularizer_from_json(object, "regularizer", &p.regularizer));
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
    RF_TRY(rf_json_set(object, "unbiased_variance", json_boolean(layer->u.batch_norm.unbiased)));
    RF_TRY(rf_json_set(object, "virtual_batch_size", json_integer(layer->u.batch_norm.virtual_size)));
    RF_TRY(rf_json_set(object, "gamma_initializer", rf_initializer_to_json(&layer->u.batch_norm.gamma_initializer)));
    RF_TRY(rf_json_set(object, "beta_initializer", rf_initializer_to_json(&layer->u.batch_norm.beta_initializer)));
    RF_TRY(rf_json_set(object, "gamma_regularizer",
                       rf_regularizer_to_json(layer->u.batch_norm.scale ? layer->regularizers[0] : none)));
    return rf_json_set(
        object, "beta_regularizer",
        rf_regularizer_to_json(layer->u.batch_norm.center ? layer->regularizers[layer->u.batch_norm.scale] : none));
}

static rf_result read_virtual_size(const json_t *object, uint32_t *out)
{
    int32_t size = 0;
    RF_TRY(rf_json_i32(object, "virtual_batch_size", &size));
    if (size < 0) return RF_FAIL(RF_ERROR_CORRUPT_DATA, "'virtual_batch_size' is %d", (int)size);
    *out = (uint32_t)size;
    return RF_OK;
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
    RF_TRY(rf_json_bool(object, "unbiased_variance", &p.unbiased_variance));
    RF_TRY(read_virtual_size(object, &p.virtual_batch_size));
    RF_TRY(rf_initializer_from_json(object, "gamma_initializer", &gamma));
    RF_TRY(rf_initializer_from_json(object, "beta_initializer", &beta));
    RF_TRY(rf_regularizer_from_json(object, "gamma_regularizer", &p.gamma_regularizer));
    RF_TRY(rf_regularizer_from_json(object, "beta_regularizer", &p.beta_regularizer));
    p.no_center = !center;
    p.no_scale = !scale;
    p.gamma_initializer = scale ? &gamma : NULL;
    p.beta_initializer = center ? &beta : NULL;
    return rf_layer_batch_norm(&p, out);
}

/* Mean and variance are variables, as in Keras. */
static rf_result normalization_to_json(const rf_layer *layer, json_t *object)
{
    const bool whole = layer->u.normalization.whole;
    RF_TRY(rf_json_set(object, "axis", whole ? json_null() : json_integer(layer->u.normalization.axis)));
    return rf_json_set(object, "invert", json_boolean(layer->u.normalization.invert));
}

static rf_result normalization_from_json(const json_t *object, const char *name, rf_layer **out)
{
    rf_normalization_params p = { .whole = json_is_null(json_object_get(object, "axis")), .name = name };
    if (!p.whole) RF_TRY(rf_json_i32(object, "axis", &p.axis));
    RF_TRY(rf_json_bool(object, "invert", &p.invert));
    return rf_layer_normalization(&p, out);
}

static rf_result norm_fields_to_json(const rf_norm *n, json_t *object)
{
    RF_TRY(rf_json_set(object, "epsilon", json_real(n->epsilon)));
    RF_TRY(rf_json_set(object, "scale", json_boolean(n->scale)));
    return rf_json_set(object, "gamma_initializer", rf_initializer_to_json(&n->gamma_initializer));
}

static rf_result rms_norm_to_json(const rf_layer *layer, json_t *object)
{
    RF_TRY(norm_fields_to_json(&layer->u.norm, object));
    return rf_json_set(object, "unit_offset", json_boolean(layer->u.norm.unit_offset));
}

static rf_result layer_norm_to_json(const rf_layer *layer, json_t *object)
{
    RF_TRY(norm_fields_to_json(&layer->u.norm, object));
    RF_TRY(rf_json_set(object, "center", json_boolean(layer->u.norm.center)));
    return rf_json_set(object, "beta_initializer", rf_initializer_to_json(&layer->u.norm.beta_initializer));
}

static rf_result norm_fields_from_json(const json_t *object, rf_norm *n)
{
    *n = (rf_norm){ .scale = true, .center = true };
    n->gamma_initializer.kind = RF_INIT_ONES;
    n->beta_initializer.kind = RF_INIT_ZEROS;
    RF_TRY(rf_json_number(object, "epsilon", &n->epsilon));
    RF_TRY(rf_json_bool(object, "scale", &n->scale));
    RF_TRY(rf_json_bool(object, "center", &n->center));
    RF_TRY(rf_initializer_from_json(object, "gamma_initializer", &n->gamma_initializer));
    return rf_initializer_from_json(object, "beta_initializer", &n->beta_initializer);
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
    bool unit_offset = false;
    RF_TRY(norm_fields_from_json(object, &n));
    RF_TRY(rf_json_bool(object, "unit_offset", &unit_offset));
    const rf_rms_norm_params p = { .epsilon = n.epsilon,
                                   .no_scale = !n.scale,
                                   .unit_offset = unit_offset,
                                   .gamma_initializer = n.scale ? &n.gamma_initializer : NULL,
                                   .name = name };
    return rf_layer_rms_norm(&p, out);
}

static rf_result group_norm_to_json(const rf_layer *layer, json_t *object)
{
    const rf_norm *n = &layer->u.group_norm.norm;
    const rf_regularizer none = { .l1 = 0 };
    RF_TRY(norm_fields_to_json(n, object));
    RF_TRY(rf_json_set(object, "groups", json_integer(layer->u.group_norm.groups)));
    RF_TRY(rf_json_set(object, "axis", json_integer(layer->u.group_norm.axis)));
    RF_TRY(rf_json_set(object, "center", json_boolean(n->center)));
    RF_TRY(rf_json_set(object, "beta_initializer", rf_initializer_to_json(&n->beta_initializer)));
    RF_TRY(rf_json_set(object, "gamma_regularizer", rf_regularizer_to_json(n->scale ? layer->regularizers[0] : none)));
    return rf_json_set(object, "beta_regularizer",
                       rf_regularizer_to_json(n->center ? layer->regularizers[n->scale] : none));
}

static rf_result group_norm_from_json(const json_t *object, const char *name, rf_layer **out)
{
    rf_norm n;
    rf_group_norm_params p = { .name = name };
    RF_TRY(norm_fields_from_json(object, &n));
    RF_TRY(rf_json_i32(object, "groups", &p.groups));
    RF_TRY(rf_json_i32(object, "axis", &p.axis));
    RF_TRY(rf_regularizer_from_json(object, "gamma_regularizer", &p.gamma_regularizer));
    RF_TRY(rf_regularizer_from_json(object, "beta_regularizer", &p.beta_regularizer));
    p.epsilon = n.epsilon;
    p.no_center = !n.center;
    p.no_scale = !n.scale;
    p.beta_initializer = n.center ? &n.beta_initializer : NULL;
    p.gamma_initializer = n.scale ? &n.gamma_initializer : NULL;
    return rf_layer_group_norm(&p, out);
}

/* ---- layers of several inputs ---- */

static rf_result concatenate_to_json(const rf_layer *layer, json_t *object)
{
    return rf_json_set(object, "axis", json_integer(layer->u.axis));
}

static rf_result concatenate_from_json(const json_t *object, const char *name, rf_layer **out)
{
    int32_t axis = 0;
    (void)name;
    RF_TRY(rf_json_i32(object, "axis", &axis));
    return rf_layer_concatenate(axis, out);
}

static rf_result not_equal_to_json(const rf_layer *layer, json_t *object)
{
    return rf_json_set(object, "value", json_integer(layer->u.value));
}

static rf_result not_equal_from_json(const json_t *object, const char *name, rf_layer **out)
{
    int32_t value = 0;
    (void)name;
    RF_TRY(rf_json_i32(object, "value", &value));
    return rf_layer_not_equal(value, out);
}

/* ---- sequences ---- */

static const char *const rnn_names[] = { "gru", "lstm", "simple_rnn" };
static const char *const merge_names[] = { "concat", "sum", "mul", "ave" };

static rf_result rnn_to_json(const rf_layer *layer, json_t *object)
{
    RF_TRY(rf_json_set(object, "units", json_integer(layer->u.rnn.units)));
    RF_TRY(rf_json_set(object, "return_sequences", json_boolean(layer->u.rnn.return_sequences)));
    RF_TRY(rf_json_set(object, "go_backwards", json_boolean(layer->u.rnn.go_backwards)));
    RF_TRY(rf_json_set(object, "use_bias", json_boolean(layer->u.rnn.use_bias)));
    if (layer->u.rnn.kind == RF_RNN_GRU)
        RF_TRY(rf_json_set(object, "reset_after", json_boolean(!layer->u.rnn.reset_before)));
    if (layer->u.rnn.kind == RF_RNN_LSTM)
        RF_TRY(rf_json_set(object, "unit_forget_bias", json_boolean(layer->u.rnn.unit_forget_bias)));
    RF_TRY(rf_json_set(object, "kernel_initializer", rf_initializer_to_json(&layer->u.rnn.kernel_initializer)));
    RF_TRY(rf_json_set(object, "recurrent_initializer", rf_initializer_to_json(&layer->u.rnn.recurrent_initializer)));
    RF_TRY(rf_json_set(object, "kernel_regularizer", rf_regularizer_to_json(layer->regularizers[0])));
    return rf_json_set(object, "recurrent_regularizer", rf_regularizer_to_json(layer->regularizers[1]));
}

static rf_result make_rnn(const json_t *object, rf_rnn_kind kind, const char *name, rf_layer **out)
{
    rf_initializer kernel = { 0 }, recurrent = { .kind = RF_INIT_ORTHOGONAL };
    rf_rnn_layer_params p = {
        .kind = kind, .kernel_initializer = &kernel, .recurrent_initializer = &recurrent, .name = name
    };
    bool bias = true, reset_after = true, forget = true;
    RF_TRY(rf_json_i32(object, "units", &p.units));
    RF_TRY(rf_json_bool(object, "return_sequences", &p.return_sequences));
    RF_TRY(rf_json_bool(object, "go_backwards", &p.go_backwards));
    RF_TRY(rf_json_bool(object, "use_bias", &bias));
    RF_TRY(rf_json_bool(object, "reset_after", &reset_after));
    RF_TRY(rf_json_bool(object, "unit_forget_bias", &forget));
    RF_TRY(rf_initializer_from_json(object, "kernel_initializer", &kernel));
    RF_TRY(rf_initializer_from_json(object, "recurrent_initializer", &recurrent));
    RF_TRY(rf_regularizer_from_json(object, "kernel_regularizer", &p.kernel_regularizer));
    RF_TRY(rf_regularizer_from_json(object, "recurrent_regularizer", &p.recurrent_regularizer));
    p.no_bias = !bias;
    p.reset_before = !reset_after;
    p.no_unit_forget_bias = !forget;
    return rf_layer_rnn(&p, out);
}

static rf_result gru_from_json(const json_t *object, const char *name, rf_layer **out)
{
    return make_rnn(object, RF_RNN_GRU, name, out);
}

static rf_result lstm_from_json(const json_t *object, const char *name, rf_layer **out)
{
    return make_rnn(object, RF_RNN_LSTM, name, out);
}

static rf_result simple_rnn_from_json(const json_t *object, const char *name, rf_layer **out)
{
    return make_rnn(object, RF_RNN_SIMPLE, name, out);
}

static rf_result bidirectional_to_json(const rf_layer *layer, json_t *object)
{
    RF_TRY(rf_json_set(object, "layer", json_string(rnn_names[layer->u.rnn.kind])));
    RF_TRY(rf_json_set(object, "merge_mode", json_string(merge_names[layer->u.rnn.merge])));
    return rnn_to_json(layer, object);
}

static rf_result bidirectional_from_json(const json_t *object, const char *name, rf_layer **out)
{
    int kind = 0, merge = 0;
    rf_layer *forward;
    RF_TRY(rf_json_choice(object, "layer", rnn_names, RF_NAME_COUNT(rnn_names), &kind));
    RF_TRY(rf_json_choice(object, "merge_mode", merge_names, RF_NAME_COUNT(merge_names), &merge));
    RF_TRY(make_rnn(object, (rf_rnn_kind)kind, NULL, &forward));
    return rf_layer_bidirectional(forward, (rf_merge)merge, name, out);
}

static const char *const rotary_names[] = { "unscaled", "linear", "dynamic", "llama3" };

static rf_result rotary_to_json(const rf_rotary_params *rotary, json_t *object)
{
    if (rotary->scaling == RF_ROTARY_UNSCALED) return RF_OK;
    json_t *o = json_object();
    RF_TRY(rf_json_set(object, "rotary", o));
    RF_TRY(rf_json_set(o, "scaling", json_string(rotary_names[rotary->scaling])));
    RF_TRY(rf_json_set(o, "original_length", json_integer(rotary->original_length)));
    RF_TRY(rf_json_set(o, "factor", json_real(rotary->factor)));
    RF_TRY(rf_json_set(o, "low_frequency_factor", json_real(rotary->low_frequency_factor)));
    return rf_json_set(o, "high_frequency_factor", json_real(rotary->high_frequency_factor));
}

static rf_result rotary_from_json(const json_t *object, rf_rotary_params *out)
{
    int scaling = RF_ROTARY_UNSCALED;
    const json_t *o = json_object_get(object, "rotary");
    RF_TRY(rf_json_choice(o, "scaling", rotary_names, RF_NAME_COUNT(rotary_names), &scaling));
    out->scaling = (rf_rotary_scaling)scaling;
    RF_TRY(rf_json_i32(o, "original_length", &out->original_length));
    RF_TRY(rf_json_number(o, "factor", &out->factor));
    RF_TRY(rf_json_number(o, "low_frequency_factor", &out->low_frequency_factor));
    return rf_json_number(o, "high_frequency_factor", &out->high_frequency_factor);
}

static rf_result attention_to_json(const rf_layer *layer, json_t *object)
{
    RF_TRY(rf_json_set(object, "num_heads", json_integer(layer->u.attention.num_heads)));
    RF_TRY(rf_json_set(object, "num_key_value_heads", json_integer(layer->u.attention.num_key_value_heads)));
    RF_TRY(rf_json_set(object, "key_dim", json_integer(layer->u.attention.key_dim)));
    RF_TRY(rf_json_set(object, "value_dim", json_integer(layer->u.attention.value_dim)));
    RF_TRY(rf_json_set(object, "output_dim", json_integer(layer->u.attention.output_dim)));
    RF_TRY(rf_json_set(object, "dropout", json_real((double)layer->u.attention.dropout)));
    RF_TRY(rf_json_set(object, "seed", json_integer((json_int_t)layer->u.attention.seed)));
    RF_TRY(rf_json_set(object, "rotary_base", json_real((double)layer->u.attention.rotary_base)));
    RF_TRY(rf_json_set(object, "causal", json_boolean(layer->u.attention.causal)));
    RF_TRY(rf_json_set(object, "use_bias", json_boolean(layer->u.attention.use_bias)));
    RF_TRY(rf_json_set(object, "use_output_bias", json_boolean(layer->u.attention.use_output_bias)));
    RF_TRY(rf_json_set(object, "scale", json_real((double)layer->u.attention.scale)));
    RF_TRY(rf_json_set(object, "window", json_integer(layer->u.attention.window)));
    RF_TRY(rf_json_set(object, "softcap", json_real((double)layer->u.attention.softcap)));
    if (layer->u.attention.packed) RF_TRY(rf_json_set(object, "packed", json_true()));
    RF_TRY(rf_json_set(object, "query_key_norm", json_real((double)layer->u.attention.norm_epsilon)));
    RF_TRY(rotary_to_json(&layer->u.attention.rotary, object));
    return rf_json_set(object, "kernel_initializer", rf_initializer_to_json(&layer->u.attention.kernel_initializer));
}

static rf_result attention_from_json(const json_t *object, const char *name, rf_layer **out)
{
    rf_initializer kernel = { 0 };
    rf_rotary_params rotary = { 0 };
    rf_multi_head_attention_params p = { .kernel_initializer = &kernel, .name = name };
    bool bias = true, output_bias = true;
    RF_TRY(rf_json_i32(object, "num_heads", &p.num_heads));
    RF_TRY(rf_json_i32(object, "num_key_value_heads", &p.num_key_value_heads));
    RF_TRY(rf_json_i32(object, "key_dim", &p.key_dim));
    RF_TRY(rf_json_i32(object, "value_dim", &p.value_dim));
    RF_TRY(rf_json_i32(object, "output_dim", &p.output_dim));
    RF_TRY(rf_json_float(object, "dropout", &p.dropout));
    RF_TRY(rf_json_u64(object, "seed", &p.seed));
    RF_TRY(rf_json_float(object, "rotary_base", &p.rotary_base));
    RF_TRY(rf_json_bool(object, "causal", &p.causal));
    RF_TRY(rf_json_bool(object, "use_bias", &bias));
    RF_TRY(rf_json_bool(object, "use_output_bias", &output_bias));
    RF_TRY(rf_json_float(object, "scale", &p.scale));
    RF_TRY(rf_json_i32(object, "window", &p.window));
    RF_TRY(rf_json_float(object, "softcap", &p.softcap));
    RF_TRY(rf_json_float(object, "query_key_norm", &p.query_key_norm));
    RF_TRY(rf_json_bool(object, "packed", &p.packed));
    RF_TRY(rotary_from_json(object, &rotary));
    RF_TRY(rf_initializer_from_json(object, "kernel_initializer", &kernel));
    p.no_bias = !bias;
    p.no_output_bias = bias && !output_bias;
    if (rotary.scaling != RF_ROTARY_UNSCALED) p.rotary = &rotary;
    return rf_layer_multi_head_attention(&p, out);
}

static rf_result position_to_json(const rf_layer *layer, json_t *object)
{
    RF_TRY(rf_json_set(object, "max_length", json_integer(layer->u.position.max_length)));
    return rf_json_set(object, "initializer", rf_initializer_to_json(&layer->u.position.initializer));
}

static rf_result position_from_json(const json_t *object, const char *name, rf_layer **out)
{
    rf_initializer initializer = { 0 };
    int32_t max_length = 0;
    RF_TRY(rf_json_i32(object, "max_length", &max_length));
    RF_TRY(rf_initializer_from_json(object, "initializer", &initializer));
    return rf_layer_position_embedding(max_length, &initializer, name, out);
}

static rf_result sine_to_json(const rf_layer *layer, json_t *object)
{
    return rf_json_set(object, "max_wavelength", json_real((double)layer->u.position.max_wavelength));
}

static rf_result sine_from_json(const json_t *object, const char *name, rf_layer **out)
{
    float max_wavelength = 0;
    (void)name;
    RF_TRY(rf_json_float(object, "max_wavelength", &max_wavelength));
    return rf_layer_sine_position_encoding(max_wavelength, out);
}

static rf_result head_to_json(const rf_layer *layer, json_t *object)
{
    RF_TRY(rf_json_set(object, "embedding", json_string(layer->u.embedding_head.embedding->name)));
    return rf_json_set(object, "use_bias", json_boolean(layer->u.embedding_head.use_bias));
}

static rf_result head_from_json(const json_t *object, const char *name, const rf_layer_row *before, rf_layer **out)
{
    const char *embedding = json_string_value(json_object_get(object, "embedding"));
    bool bias = true;
    RF_TRY(rf_json_bool(object, "use_bias", &bias));
    for (uint32_t i = 0; embedding && i < before->count; i++)
        if (strcmp(before->layers[i]->name, embedding) == 0)
            return rf_layer_embedding_head(before->layers[i], bias ? RF_WITH_BIAS : RF_WITHOUT_BIAS, name, out);
    return RF_FAIL(RF_ERROR_CORRUPT_DATA, "'embedding' names no layer before it");
}

static rf_result time_distributed_to_json(const rf_layer *layer, json_t *object)
{
    json_t *inner;
    RF_TRY(rf_layer_to_json(layer->inner, &inner));
    return rf_json_set(object, "layer", inner);
}

static rf_result time_distributed_from_json(const json_t *object, const char *name, const rf_layer_row *before,
                                            rf_layer **out)
{
    rf_layer *inner = NULL;
    const json_t *description = json_object_get(object, "layer");
    if (!json_is_object(description)) return RF_FAIL(RF_ERROR_CORRUPT_DATA, "'layer' describes none");
    RF_TRY(rf_layer_from_json(description, before, &inner));
    return rf_layer_time_distributed(inner, name, out);
}

static rf_result custom_to_json(const rf_layer *layer, json_t *object)
{
    RF_TRY(rf_json_set(object, "type", json_string(rf_custom_layer_type(layer))));
    return rf_json_set(object, "config", json_string(rf_custom_layer_config(layer)));
}

static rf_result custom_from_json(const json_t *object, const char *name, rf_layer **out)
{
    const char *type = json_string_value(json_object_get(object, "type"));
    const char *config = json_string_value(json_object_get(object, "config"));
    if (!type || !config) return RF_FAIL(RF_ERROR_CORRUPT_DATA, "a custom layer without 'type' and 'config'");
    if (strcmp(type, RF_IMPORT_LAYER_TYPE) == 0) return rf_import_op_layer_make(NULL, name, config, out);
    return rf_custom_layer_make(type, name, config, out);
}

static const rf_layer_describer describers[] = {
    { .kind = "custom", .to_json = custom_to_json, .from_json = custom_from_json },
    { .kind = "dense", .to_json = dense_to_json, .from_json = dense_from_json },
    { .kind = "conv2d", .to_json = conv2d_to_json, .from_json = conv2d_from_json },
    { .kind = "conv2d_transpose", .to_json = conv2d_to_json, .from_json = conv2d_transpose_from_json },
    { .kind = "embedding", .to_json = embedding_to_json, .from_json = embedding_from_json },
    { .kind = "max_pooling2d", .to_json = pool_to_json, .from_json = max_pool_from_json },
    { .kind = "average_pooling2d", .to_json = pool_to_json, .from_json = avg_pool_from_json },
    { .kind = "global_average_pooling2d", .create = rf_layer_global_avg_pool2d },
    { .kind = "layer_normalization", .to_json = layer_norm_to_json, .from_json = layer_norm_from_json },
    { .kind = "normalization", .to_json = normalization_to_json, .from_json = normalization_from_json },
    { .kind = "group_normalization", .to_json = group_norm_to_json, .from_json = group_norm_from_json },
    { .kind = "rms_normalization", .to_json = rms_norm_to_json, .from_json = rms_norm_from_json },
    { .kind = "flatten", .create = rf_layer_flatten },
    { .kind = "reshape", .to_json = reshape_to_json, .from_json = reshape_from_json },
    { .kind = "activation", .to_json = activation_to_json, .from_json = activation_from_json },
    { .kind = "select_step", .to_json = select_step_to_json, .from_json = select_step_from_json },
    { .kind = "rescaling", .to_json = rescaling_to_json, .from_json = rescaling_from_json },
    { .kind = "dropout", .to_json = dropout_to_json, .from_json = dropout_from_json },
    { .kind = "batch_normalization", .to_json = batch_norm_to_json, .from_json = batch_norm_from_json },
    { .kind = "add", .create = rf_layer_add },
    { .kind = "subtract", .create = rf_layer_subtract },
    { .kind = "multiply", .create = rf_layer_multiply },
    { .kind = "average", .create = rf_layer_average },
    { .kind = "maximum", .create = rf_layer_maximum },
    { .kind = "minimum", .create = rf_layer_minimum },
    { .kind = "concatenate", .to_json = concatenate_to_json, .from_json = concatenate_from_json },
    { .kind = "not_equal", .to_json = not_equal_to_json, .from_json = not_equal_from_json },
    { .kind = "gru", .to_json = rnn_to_json, .from_json = gru_from_json },
    { .kind = "lstm", .to_json = rnn_to_json, .from_json = lstm_from_json },
    { .kind = "simple_rnn", .to_json = rnn_to_json, .from_json = simple_rnn_from_json },
    { .kind = "bidirectional", .to_json = bidirectional_to_json, .from_json = bidirectional_from_json },
    { .kind = "multi_head_attention", .to_json = attention_to_json, .from_json = attention_from_json },
    { .kind = "position_embedding", .to_json = position_to_json, .from_json = position_from_json },
    { .kind = "sine_position_encoding", .to_json = sine_to_json, .from_json = sine_from_json },
    { .kind = "leaky_re_lu", .to_json = leaky_relu_to_json, .from_json = leaky_relu_from_json },
    { .kind = "p_re_lu", .to_json = p_relu_to_json, .from_json = p_relu_from_json },
    { .kind = "gaussian_noise", .to_json = gaussian_noise_to_json, .from_json = gaussian_noise_from_json },
    { .kind = "gaussian_dropout", .to_json = dropout_to_json, .from_json = gaussian_dropout_from_json },
    { .kind = "spatial_dropout1d", .to_json = dropout_to_json, .from_json = spatial_dropout1d_from_json },
    { .kind = "spatial_dropout2d", .to_json = dropout_to_json, .from_json = spatial_dropout2d_from_json },
    { .kind = "time_distributed", .to_json = time_distributed_to_json, .from_json_after = time_distributed_from_json },
    { .kind = "embedding_head", .to_json = head_to_json, .from_json_after = head_from_json },
};

/* Types of the caller's layers may be called like kinds of the library. */
static const char *kind_of(const rf_layer *layer)
{
    return rf_layer_is_custom(layer) ? "custom" : layer->kind->base_name;
}

static const rf_layer_describer *find_describer(const char *kind)
{
    for (int i = 0; kind && i < RF_NAME_COUNT(describers); i++)
        if (strcmp(describers[i].kind, kind) == 0) return &describers[i];
    for (const rf_layer_describer *d = rf_window_describers; kind && d->kind; d++)
        if (strcmp(d->kind, kind) == 0) return d;
    return NULL;
}

bool rf_layer_is_describable(const rf_layer *layer)
{
    for (; layer; layer = layer->inner) {
        if (rf_layer_is_custom(layer) && !rf_custom_layer_config(layer)) return false;
        if (!find_describer(kind_of(layer))) return false;
    }
    return true;
}

rf_result rf_layer_to_json(const rf_layer *layer, json_t **out)
{
    *out = json_pack("{s:s, s:s}", "kind", kind_of(layer), "name", layer->name);
    if (!*out) return RF_ERROR_OUT_OF_HOST_MEMORY;
    const rf_layer_describer *describer = find_describer(kind_of(layer));
    rf_result r = describer->to_json ? describer->to_json(layer, *out) : RF_OK;
    if (r >= 0 && layer->frozen) r = rf_json_set(*out, "trainable", json_false());
    if (r >= 0) return RF_OK;
    json_decref(*out);
    *out = NULL;
    return r;
}

rf_result rf_layer_from_json(const json_t *object, const rf_layer_row *before, rf_layer **out)
{
    const char *kind = json_string_value(json_object_get(object, "kind"));
    const char *name = json_string_value(json_object_get(object, "name"));
    const rf_layer_describer *describer = find_describer(kind);
    if (!describer || !name || !*name)
        return RF_FAIL(RF_ERROR_CORRUPT_DATA, "a layer of kind '%s' with the name '%s'", kind ? kind : "",
                       name ? name : "");
    bool trainable = true;
    RF_TRY(rf_json_bool(object, "trainable", &trainable));
    const rf_result r = describer->create      ? describer->create(out)
                        : describer->from_json ? describer->from_json(object, name, out)
                                               : describer->from_json_after(object, name, before, out);
    /* A constructor refuses wrong descriptions; running out of memory is none. */
    if (r == RF_ERROR_INVALID_ARGUMENT)
        return RF_FAIL(RF_ERROR_CORRUPT_DATA, "layer '%s': %s", name, rf_error_message());
    if (r < 0) return rf_error_context(r, "layer '%s'", name);
    rf_layer_set_trainable(*out, trainable);
    if ((*out)->name) return RF_OK;
    (*out)->name = rf_strdup(name);
    if ((*out)->name) return RF_OK;
    rf_layer_destroy(out);
    return RF_ERROR_OUT_OF_HOST_MEMORY;
}
