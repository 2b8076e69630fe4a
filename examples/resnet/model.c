/* SPDX-License-Identifier: Apache-2.0 */
#include "model.h"

#include <stdio.h>
#include <stdlib.h>

const resnet_config resnet_8 = { .blocks = { 1, 1, 1 }, .width = 16, .classes = 10, .weight_decay = 1e-4f };
const resnet_config resnet_20 = { .blocks = { 3, 3, 3 }, .width = 16, .classes = 10, .weight_decay = 1e-4f };
const resnet_config resnet_18 = { .blocks = { 2, 2, 2, 2 },
                                  .width = 64,
                                  .projection = true,
                                  .large_images = true,
                                  .classes = 1000,
                                  .weight_decay = 1e-4f };
const resnet_config resnet_50 = { .blocks = { 3, 4, 6, 3 },
                                  .width = 64,
                                  .bottleneck = true,
                                  .projection = true,
                                  .large_images = true,
                                  .classes = 1000,
                                  .weight_decay = 1e-4f };

enum { MAX_CONVS = 3, NAME_ROOM = 64 };

typedef struct normalized_conv {
    rf_layer *conv, *norm; /* the model's */
} normalized_conv;

typedef struct block {
    normalized_conv convs[MAX_CONVS];
    normalized_conv shortcut; /* NULL: nothing is learned there */
    bool halves;              /* height and width, and has twice the channels */
} block;

struct resnet {
    resnet_config config;
    rf_model *model;
    normalized_conv stem;
    rf_layer *classifier;
    uint32_t num_blocks;
    block blocks[];
};

/* ---- forward ---- */

static rf_tensor call_conv(rf_trace *t, const resnet *r, const normalized_conv *c, rf_tensor x, rf_mode mode)
{
    return rf_layer_call(t, r->model, c->norm, rf_layer_call(t, r->model, c->conv, x, mode), mode);
}

/* The tensor that is added to a block's output, in the shape of that. */
static rf_tensor take_shortcut(rf_trace *t, const resnet *r, const block *b, rf_tensor x, rf_mode mode)
{
    static const int64_t begin[3] = { 0 }, end[3] = { INT64_MAX, INT64_MAX, INT64_MAX }, step[3] = { 1, 2, 2 };
    if (b->shortcut.conv) return call_conv(t, r, &b->shortcut, x, mode);
    if (!b->halves) return x;
    const rf_tensor pixels = rf_slice(t, x, begin, end, step, 3);
    const rf_shape shape = rf_tensor_shape(t, pixels);
    const int64_t before[4] = { 0 }, after[4] = { 0, 0, 0, shape.dim[3] };
    return rf_pad(t, pixels, before, after, 4, 0);
}

static rf_tensor call_block(rf_trace *t, const resnet *r, const block *b, rf_tensor x, rf_mode mode)
{
    rf_tensor y = x;
    for (uint32_t i = 0; i < MAX_CONVS && b->convs[i].conv; i++) {
        if (i > 0) y = rf_relu(t, y);
        y = call_conv(t, r, &b->convs[i], y, mode);
    }
    return rf_relu(t, rf_add(t, y, take_shortcut(t, r, b, x, mode)));
}

static rf_tensor forward(rf_trace *t, rf_model *model, rf_tensor x, rf_mode mode, void *user)
{
    static const rf_pool2d_params every_second = {
        .window = { 3, 3 }, .stride = { 2, 2 }, .padding = RF_PADDING_EXPLICIT, .explicit_padding = { 1, 1, 1, 1 }
    };
    const resnet *r = user;
    x = rf_relu(t, call_conv(t, r, &r->stem, x, mode));
    if (r->config.large_images) x = rf_max_pool2d(t, x, &every_second);
    for (uint32_t i = 0; i < r->num_blocks; i++) x = call_block(t, r, &r->blocks[i], x, mode);
    return rf_layer_call(t, model, r->classifier, rf_global_avg_pool2d(t, x), mode);
}

/* ---- layers ---- */

/* The penalty whose gradient is `weight_decay` times the weight. */
static rf_regularizer decay(const resnet *r)
{
    return (rf_regularizer){ .l2 = r->config.weight_decay / 2 };
}

/* Padded so that a stride of 1 keeps height and width, and one of 2 halves them, rounded up. */
static rf_result add_conv(resnet *r, const char *path, uint32_t number, uint32_t filters, int32_t size, int32_t stride,
                          normalized_conv *out)
{
    char name[2 * NAME_ROOM];
    rf_layer *conv, *norm;
    const int32_t pad = size / 2;
    snprintf(name, sizeof(name), "%s/conv_%u", path, number);
    const rf_conv2d_layer_params params = { .filters = (int32_t)filters,
                                            .kernel_size = { size },
                                            .conv = { .padding = RF_PADDING_EXPLICIT,
                                                      .explicit_padding = { pad, pad, pad, pad },
                                                      .stride = { stride, stride } },
                                            .no_bias = true,
                                            .kernel_initializer = { .kind = RF_INIT_HE_NORMAL },
                                            .kernel_regularizer = decay(r),
                                            .name = name };
    rf_result result = rf_layer_conv2d(&params, &conv);
    if (result >= 0) result = rf_model_add_layer(r->model, conv);
    if (result < 0) return result;
    snprintf(name, sizeof(name), "%s/norm_%u", path, number);
    const rf_batch_norm_params statistics = {
        .momentum = 0.9, .epsilon = 1e-5, .synchronized = r->config.synchronized, .name = name
    };
    result = rf_layer_batch_norm(&statistics, &norm);
    if (result >= 0) result = rf_model_add_layer(r->model, norm);
    if (result >= 0) *out = (normalized_conv){ conv, norm };
    return result;
}

/* `inner`: channels between the block's convolutions; `outer`: of its output. */
static rf_result add_block(resnet *r, const char *path, uint32_t inner, uint32_t outer, int32_t stride,
                           bool changes_shape)
{
    char shortcut[2 * NAME_ROOM];
    block *b = &r->blocks[r->num_blocks++];
    b->halves = stride == 2;
    rf_result result;
    if (r->config.bottleneck) {
        result = add_conv(r, path, 1, inner, 1, 1, &b->convs[0]);
        if (result >= 0) result = add_conv(r, path, 2, inner, 3, stride, &b->convs[1]);
        if (result >= 0) result = add_conv(r, path, 3, outer, 1, 1, &b->convs[2]);
    } else {
        result = add_conv(r, path, 1, inner, 3, stride, &b->convs[0]);
        if (result >= 0) result = add_conv(r, path, 2, outer, 3, 1, &b->convs[1]);
    }
    if (result < 0 || !changes_shape || !r->config.projection) return result;
    snprintf(shortcut, sizeof(shortcut), "%s/shortcut", path);
    return add_conv(r, shortcut, 1, outer, 1, stride, &b->shortcut);
}

static rf_result add_layers(resnet *r)
{
    const resnet_config *c = &r->config;
    uint32_t channels = c->width;
    char path[NAME_ROOM];
    rf_result result = add_conv(r, "stem", 1, c->width, c->large_images ? 7 : 3, c->large_images ? 2 : 1, &r->stem);
    for (uint32_t s = 0; s < RESNET_MAX_STAGES; s++)
        for (uint32_t i = 0; result >= 0 && i < c->blocks[s]; i++) {
            const uint32_t inner = c->width << s, outer = c->bottleneck ? 4 * inner : inner;
            const int32_t stride = s > 0 && i == 0 ? 2 : 1;
            snprintf(path, sizeof(path), "stage_%u/block_%u", s + 1, i + 1);
            result = add_block(r, path, inner, outer, stride, channels != outer || stride == 2);
            channels = outer;
        }
    if (result >= 0)
        result = rf_layer_dense(
            &(rf_dense_params){ .units = c->classes, .kernel_regularizer = decay(r), .name = "classifier" },
            &r->classifier);
    return result >= 0 ? rf_model_add_layer(r->model, r->classifier) : result;
}

/* ---- model ---- */

rf_result resnet_create(rf_strategy *strategy, const resnet_config *config, rf_shape image, resnet **out)
{
    uint32_t num_blocks = 0;
    for (uint32_t s = 0; s < RESNET_MAX_STAGES; s++) num_blocks += config->blocks[s];
    *out = NULL;
    resnet *r = calloc(1, sizeof(*r) + num_blocks * sizeof(block));
    if (!r) return RF_ERROR_OUT_OF_HOST_MEMORY;
    r->config = *config;
    rf_result result = rf_model_create_custom(strategy, forward, r, &r->model);
    if (result >= 0) result = add_layers(r);
    if (result >= 0) result = rf_model_build(r->model, image);
    if (result < 0) resnet_destroy(&r);
    *out = r;
    return result;
}

rf_model *resnet_model(const resnet *r)
{
    return r->model;
}

void resnet_destroy(resnet **r)
{
    if (!*r) return;
    rf_model_destroy(&(*r)->model);
    free(*r);
    *r = NULL;
}
