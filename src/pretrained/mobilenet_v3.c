/* SPDX-License-Identifier: Apache-2.0 */
/* MobileNetV3 (Howard et al. 2019) under torchvision's names: `architecture` is "mobilenet_v3_large" or
 * "mobilenet_v3_small", and other keys are the arguments of these functions. */
#include "pretrained/architectures.h"
#include "pretrained/config.h"
#include "pretrained/vision.h"

enum { MOST_BLOCKS = 15 };
#define RE RF_ACTIVATION_RELU
#define HS RF_ACTIVATION_HARD_SILU

/* Channels of a block before, inside and behind it. */
typedef struct block {
    int32_t in, size, inner, out;
    bool weighs; /* channels by what the whole image has of them */
    rf_activation activation;
    int32_t stride;
} block;

typedef struct variant {
    block blocks[MOST_BLOCKS];
    int32_t count, last; /* blocks; features before the classifier */
    int32_t tail;        /* the first block of the smallest images */
} variant;

/* The first block's channels are those of the layer before it, and the tail's may be halved. */
static const variant large = { .count = 15,
                               .last = 1280,
                               .tail = 12,
                               .blocks = { { 16, 3, 16, 16, false, RE, 1 },
                                           { 16, 3, 64, 24, false, RE, 2 },
                                           { 24, 3, 72, 24, false, RE, 1 },
                                           { 24, 5, 72, 40, true, RE, 2 },
                                           { 40, 5, 120, 40, true, RE, 1 },
                                           { 40, 5, 120, 40, true, RE, 1 },
                                           { 40, 3, 240, 80, false, HS, 2 },
                                           { 80, 3, 200, 80, false, HS, 1 },
                                           { 80, 3, 184, 80, false, HS, 1 },
                                           { 80, 3, 184, 80, false, HS, 1 },
                                           { 80, 3, 480, 112, true, HS, 1 },
                                           { 112, 3, 672, 112, true, HS, 1 },
                                           { 112, 5, 672, 160, true, HS, 2 },
                                           { 160, 5, 960, 160, true, HS, 1 },
                                           { 160, 5, 960, 160, true, HS, 1 } } };
static const variant small = { .count = 11,
                               .last = 1024,
                               .tail = 8,
                               .blocks = { { 16, 3, 16, 16, true, RE, 2 },
                                           { 16, 3, 72, 24, false, RE, 2 },
                                           { 24, 3, 88, 24, false, RE, 1 },
                                           { 24, 5, 96, 40, true, HS, 2 },
                                           { 40, 5, 240, 40, true, HS, 1 },
                                           { 40, 5, 240, 40, true, HS, 1 },
                                           { 40, 5, 120, 48, true, HS, 1 },
                                           { 48, 5, 144, 48, true, HS, 1 },
                                           { 48, 5, 288, 96, true, HS, 2 },
                                           { 96, 5, 576, 96, true, HS, 1 },
                                           { 96, 5, 576, 96, true, HS, 1 } } };

/* ---- names ---- */

#define UNIT(OF, TO) RF_VISION_CONV(OF ".0", TO "/convolution"), RF_VISION_NORM(OF ".1", TO "/normalization")
#define DENSE(OF, TO)                                                                                                  \
    RF_VISION_CONV(OF, TO),                                                                                            \
    {                                                                                                                  \
        .tensor = OF ".bias", .variable = TO "/bias"                                                                   \
    }

static const rf_pretrained_tensor tensors[] = {
    UNIT("features.{}", "features/{}"),
    UNIT("features.{}.block.{}", "features/{}/block/{}"),
    DENSE("features.{}.block.{}.fc1", "features/{}/block/{}/fc1"),
    DENSE("features.{}.block.{}.fc2", "features/{}/block/{}/fc2"),
    DENSE("classifier.0", "classifier_dense"),
    { .tensor = "classifier.3.weight",
      .variable = "classifier/kernel",
      .layout = RF_PRETRAINED_TRANSPOSED,
      .head = true },
    { .tensor = "classifier.3.bias", .variable = "classifier/bias", .head = true },
};

/* ---- sizes ---- */

/* The nearest multiple of 8, at least 8 and nine tenths of the number. */
static int32_t round_channels(double channels)
{
    const int32_t nearest = (int32_t)(channels + 4) / 8 * 8, least = nearest < 8 ? 8 : nearest;
    return (double)least < 0.9 * channels ? least + 8 : least;
}

/* A part of the channels, rounded down, times the width. */
static int32_t widen_channels(double width, int32_t channels, int32_t divide)
{
    const int32_t part = channels / divide;
    return round_channels(width * part);
}

/* The variant with the widths that the configuration asks for. */
static variant read_variant(const rf_blocks *b, const variant *of)
{
    variant v = *of;
    const double width = rf_pretrained_config_number(b->config, "width_mult", 1.0);
    const int32_t divide = rf_pretrained_config_flag(b->config, "reduced_tail", false) ? 2 : 1;
    if (!(width > 0.0 && width <= 64.0)) {
        rf_pretrained_config_refuse(b->config, "width_mult", ", not above 0 and at most 64");
        return v;
    }
    for (int32_t i = 0; i < v.count; i++) {
        block *k = &v.blocks[i];
        k->in = widen_channels(width, k->in, i > v.tail ? divide : 1);
        k->inner = widen_channels(width, k->inner, i > v.tail ? divide : 1);
        k->out = widen_channels(width, k->out, i >= v.tail ? divide : 1);
    }
    v.last = widen_channels(width, v.last, divide);
    return v;
}

/* ---- layers ---- */

static rf_symbol add_unit(const rf_blocks *b, rf_symbol x, int32_t filters, int32_t size, int32_t stride,
                          int32_t dilation, rf_activation activation)
{
    return rf_vision_add_unit(b, x,
                              &(rf_vision_unit){ .filters = filters,
                                                 .size = size,
                                                 .stride = stride,
                                                 .dilation = dilation,
                                                 .momentum = 0.99,
                                                 .epsilon = 1e-3,
                                                 .activation = activation,
                                                 .conv = "convolution",
                                                 .norm = "normalization" });
}

/* Squeeze and excitation (Hu et al. 2018). */
static rf_symbol add_weighing(const rf_blocks *b, rf_symbol x, int32_t channels)
{
    rf_symbol y = rf_vision_mean(b, x);
    y = rf_block_dense(b, y, widen_channels(1.0, channels, 4), RF_ACTIVATION_RELU, RF_WITH_BIAS, "fc1");
    y = rf_block_dense(b, y, channels, RF_ACTIVATION_HARD_SIGMOID, RF_WITH_BIAS, "fc2");
    return rf_vision_weigh(b, x, y, channels);
}

static rf_symbol add_part(const rf_blocks *b, rf_symbol x, int32_t index, const block *k, int32_t filters, int32_t size,
                          int32_t dilation, rf_activation activation)
{
    const bool strides = filters == 0 && dilation == 1;
    rf_block_enter(b, "block", index);
    x = add_unit(b, x, filters, size, strides ? k->stride : 1, dilation, activation);
    rf_block_leave(b, index);
    return x;
}

/* Dilated kernels see as much of an image that is not made smaller. */
static rf_symbol add_block(const rf_blocks *b, const block *k, rf_symbol x, int32_t dilation)
{
    rf_symbol y = x;
    int32_t part = 0;
    if (k->inner != k->in) y = add_part(b, y, part++, k, k->inner, 1, 1, k->activation);
    y = add_part(b, y, part++, k, 0, k->size, dilation, k->activation);
    if (k->weighs) {
        rf_block_enter(b, "block", part);
        y = add_weighing(b, y, k->inner);
        rf_block_leave(b, part++);
    }
    y = add_part(b, y, part, k, k->out, 1, 1, RF_ACTIVATION_LINEAR);
    return k->stride == 1 && k->in == k->out ? rf_block_add(b, x, y) : y;
}

static rf_symbol add_features(const rf_blocks *b, const variant *v, rf_symbol x)
{
    const bool dilated = rf_pretrained_config_flag(b->config, "dilated", false);
    rf_block_enter(b, "features", 0);
    x = add_unit(b, x, v->blocks[0].in, 3, 2, 1, HS);
    rf_block_leave(b, 0);
    for (int32_t i = 0; i < v->count; i++) {
        rf_block_enter(b, "features", i + 1);
        x = add_block(b, &v->blocks[i], x, dilated && i >= v->tail ? 2 : 1);
        rf_block_leave(b, i + 1);
    }
    rf_block_enter(b, "features", v->count + 1);
    x = add_unit(b, x, 6 * v->blocks[v->count - 1].out, 1, 1, 1, HS);
    rf_block_leave(b, v->count + 1);
    return x;
}

static rf_result build_mobilenet(rf_pretrained_config *c, rf_model_builder *builder, rf_pretrained_outputs *outputs,
                                 void *user)
{
    const rf_blocks b = { c, builder };
    const variant v = read_variant(&b, *(const variant *const *)user);
    const int32_t size = rf_pretrained_config_image_size(c, 224);
    rf_symbol x = add_features(&b, &v, rf_vision_input(&b, size, size, 3));
    x = rf_block_dense(&b, rf_vision_mean(&b, x), v.last, HS, RF_WITH_BIAS, "classifier_dense");
    x = rf_block_dropout(&b, x, rf_block_rate(&b, "dropout", 0.2));
    const int32_t classes = rf_pretrained_config_classes(c, "num_classes", 1000);
    x = rf_block_dense(&b, x, classes, RF_ACTIVATION_LINEAR, RF_WITH_BIAS, "classifier");
    rf_block_output(outputs, x, "logits");
    return RF_OK;
}

#define ARCHITECTURE(NAME)                                                                                             \
    static const variant *variant_##NAME = &(NAME);                                                                    \
    const rf_pretrained_architecture rf_pretrained_mobilenet_v3_##NAME = {                                             \
        .model_type = "mobilenet_v3_" #NAME,                                                                           \
        .tensors = tensors,                                                                                            \
        .num_tensors = sizeof(tensors) / sizeof(tensors[0]),                                                           \
        .build = build_mobilenet,                                                                                      \
        .user = &variant_##NAME,                                                                                       \
    }
ARCHITECTURE(large);
ARCHITECTURE(small);
