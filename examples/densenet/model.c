/* SPDX-License-Identifier: Apache-2.0 */
#include "model.h"

#include <stdio.h>
#include <stdlib.h>

#define BC(depth, channels)                                                                                            \
    {                                                                                                                  \
        .layers = ((depth)-4) / 6, .growth = (channels), .bottleneck = true, .compression = 0.5, .classes = 10,        \
        .weight_decay = 1e-4f                                                                                          \
    }
const densenet_config densenet_bc_16_8 = BC(16, 8), densenet_bc_16_12 = BC(16, 12), densenet_bc_100_12 = BC(100, 12),
                      densenet_40_12 = {
                          .layers = 12, .growth = 12, .compression = 1, .classes = 10, .weight_decay = 1e-4f
                      };

enum { NAME_ROOM = 64 };

/* Batch normalization, ReLU, convolution. */
typedef struct unit {
    rf_layer *norm, *conv; /* the model's */
} unit;

struct densenet {
    densenet_config config;
    rf_model *model;
    rf_layer *stem, *last_norm, *classifier;
    unit transitions[DENSENET_BLOCKS - 1];
    unit (*layers)[2]; /* [DENSENET_BLOCKS * config.layers]: a bottleneck, if any, and what adds channels */
};

/* ---- forward ---- */

static rf_tensor call_unit(rf_trace *t, const densenet *d, const unit *u, rf_tensor x, rf_mode mode)
{
    return rf_layer_call(t, d->model, u->conv, rf_relu(t, rf_layer_call(t, d->model, u->norm, x, mode)), mode);
}

static rf_tensor call_layer(rf_trace *t, const densenet *d, const unit units[2], rf_tensor x, rf_mode mode)
{
    rf_tensor y = x;
    if (d->config.bottleneck) y = call_unit(t, d, &units[0], y, mode);
    y = call_unit(t, d, &units[1], y, mode);
    return rf_concat(t, (const rf_tensor[]){ x, y }, 2, -1);
}

static rf_tensor forward(rf_trace *t, rf_model *model, rf_tensor x, rf_mode mode, void *user)
{
    const densenet *d = user;
    const rf_pool2d_params halve = { .window = { 2, 2 } };
    x = rf_layer_call(t, model, d->stem, x, mode);
    for (uint32_t b = 0; b < DENSENET_BLOCKS; b++) {
        for (uint32_t i = 0; i < d->config.layers; i++)
            x = call_layer(t, d, d->layers[b * d->config.layers + i], x, mode);
        if (b + 1 < DENSENET_BLOCKS) x = rf_avg_pool2d(t, call_unit(t, d, &d->transitions[b], x, mode), &halve);
    }
    x = rf_relu(t, rf_layer_call(t, model, d->last_norm, x, mode));
    return rf_layer_call(t, model, d->classifier, rf_global_avg_pool2d(t, x), mode);
}

/* ---- layers ---- */

/* The penalty whose gradient is `weight_decay` times the weight. */
static rf_regularizer decay(const densenet *d)
{
    return (rf_regularizer){ .l2 = d->config.weight_decay / 2 };
}

/* Hands the layer, which was made with the result `made`, over to the model. */
static rf_result add_layer(densenet *d, rf_result made, rf_layer **layer)
{
    return made < 0 ? made : rf_model_add_layer(d->model, *layer);
}

static rf_result add_conv(densenet *d, const char *name, uint32_t filters, int32_t size, rf_layer **out)
{
    const rf_conv2d_layer_params params = { .filters = (int32_t)filters,
                                            .kernel_size = { size },
                                            .conv = { .padding = RF_PADDING_SAME },
                                            .no_bias = true,
                                            .kernel_initializer = { .kind = RF_INIT_HE_NORMAL },
                                            .kernel_regularizer = decay(d),
                                            .name = name };
    return add_layer(d, rf_layer_conv2d(&params, out), out);
}

static rf_result add_norm(densenet *d, const char *name, rf_layer **out)
{
    const rf_batch_norm_params params = { .synchronized = d->config.synchronized, .name = name };
    return add_layer(d, rf_layer_batch_norm(&params, out), out);
}

static rf_result add_unit(densenet *d, const char *path, uint32_t number, uint32_t filters, int32_t size, unit *out)
{
    char name[2 * NAME_ROOM];
    snprintf(name, sizeof(name), "%s/norm_%u", path, number);
    const rf_result result = add_norm(d, name, &out->norm);
    if (result < 0) return result;
    snprintf(name, sizeof(name), "%s/conv_%u", path, number);
    return add_conv(d, name, filters, size, &out->conv);
}

/* Layers of a block, which add to *channels. */
static rf_result add_block(densenet *d, uint32_t block, uint32_t *channels)
{
    const densenet_config *c = &d->config;
    char path[NAME_ROOM];
    rf_result result = RF_OK;
    for (uint32_t i = 0; i < c->layers && result >= 0; i++, *channels += c->growth) {
        unit *units = d->layers[block * c->layers + i];
        snprintf(path, sizeof(path), "block_%u/layer_%u", block + 1, i + 1);
        if (c->bottleneck) result = add_unit(d, path, 1, 4 * c->growth, 1, &units[0]);
        if (result >= 0) result = add_unit(d, path, c->bottleneck ? 2 : 1, c->growth, 3, &units[1]);
    }
    return result;
}

static rf_result add_layers(densenet *d)
{
    const densenet_config *c = &d->config;
    uint32_t channels = 2 * c->growth;
    char path[NAME_ROOM];
    rf_result result = add_conv(d, "stem", channels, 3, &d->stem);
    for (uint32_t b = 0; b < DENSENET_BLOCKS && result >= 0; b++) {
        result = add_block(d, b, &channels);
        if (result < 0 || b + 1 == DENSENET_BLOCKS) break;
        channels = (uint32_t)((double)channels * c->compression);
        snprintf(path, sizeof(path), "transition_%u", b + 1);
        result = add_unit(d, path, 1, channels, 1, &d->transitions[b]);
    }
    if (result >= 0) result = add_norm(d, "norm", &d->last_norm);
    if (result < 0) return result;
    const rf_dense_params dense = { .units = c->classes, .kernel_regularizer = decay(d), .name = "classifier" };
    return add_layer(d, rf_layer_dense(&dense, &d->classifier), &d->classifier);
}

/* ---- model ---- */

rf_result densenet_create(rf_strategy *strategy, const densenet_config *config, rf_shape image, densenet **out)
{
    *out = NULL;
    densenet *d = calloc(1, sizeof(*d));
    if (!d) return RF_ERROR_OUT_OF_HOST_MEMORY;
    d->config = *config;
    d->layers = calloc((size_t)DENSENET_BLOCKS * config->layers, sizeof(d->layers[0]));
    rf_result result =
        d->layers ? rf_model_create_custom(strategy, forward, d, &d->model) : RF_ERROR_OUT_OF_HOST_MEMORY;
    if (result >= 0) result = add_layers(d);
    if (result >= 0) result = rf_model_build(d->model, image);
    if (result < 0) densenet_destroy(&d);
    *out = d;
    return result;
}

rf_model *densenet_model(const densenet *d)
{
    return d->model;
}

void densenet_destroy(densenet **d)
{
    if (!*d) return;
    rf_model_destroy(&(*d)->model);
    free((*d)->layers);
    free(*d);
    *d = NULL;
}
