/* SPDX-License-Identifier: Apache-2.0 */
/* ResNet (He et al. 2016), whose blocks of three convolutions have the stride in the second one. The hub's own files
 * describe it as `model_type` "resnet"; those of torchvision and timm have other names, and a network that
 * `architecture` names. */
#include <stdio.h>

#include "pretrained/architectures.h"
#include "pretrained/config.h"
#include "pretrained/vision.h"

enum { MOST_STAGES = 8 };

typedef struct resnet {
    int32_t stages, depths[MOST_STAGES], widths[MOST_STAGES];
    int32_t channels, stem, classes;
    bool bottleneck;     /* three convolutions, the first two with a quarter of the width */
    bool halves_first;   /* the first stage halves the image, like the others */
    bool halves_earlier; /* in the first convolution of three */
    bool head;
    rf_activation activation;
} resnet;

/* ---- names ---- */

#define UNIT(CONV, NORM, TO) RF_VISION_CONV(CONV, TO "/convolution"), RF_VISION_NORM(NORM, TO "/normalization")
#define HUB_UNIT(OF, TO) UNIT(OF ".convolution", OF ".normalization", TO)
#define BLOCK(OF, TO, PLACE, K) UNIT(OF ".{}.conv" PLACE, OF ".{}.bn" PLACE, TO "/layers/{}/layer/" K)
#define STAGE(OF, TO)                                                                                                  \
    BLOCK(OF, TO, "1", "0"), BLOCK(OF, TO, "2", "1"), BLOCK(OF, TO, "3", "2"),                                         \
        UNIT(OF ".{}.downsample.0", OF ".{}.downsample.1", TO "/layers/{}/shortcut")
#define HEAD(OF)                                                                                                       \
    { .tensor = OF ".weight",                                                                                          \
      .variable = "classifier/kernel",                                                                                 \
      .layout = RF_PRETRAINED_TRANSPOSED,                                                                              \
      .optional = true,                                                                                                \
      .head = true },                                                                                                  \
    {                                                                                                                  \
        .tensor = OF ".bias", .variable = "classifier/bias", .optional = true, .head = true                            \
    }

static const rf_pretrained_tensor tensors[] = {
    HUB_UNIT("embedder.embedder", "embedder"),
    HUB_UNIT("encoder.stages.{}.layers.{}.shortcut", "stages/{}/layers/{}/shortcut"),
    HUB_UNIT("encoder.stages.{}.layers.{}.layer.{}", "stages/{}/layers/{}/layer/{}"),
    HEAD("classifier.1"),
    UNIT("conv1", "bn1", "embedder"),
    STAGE("layer1", "stages/0"),
    STAGE("layer2", "stages/1"),
    STAGE("layer3", "stages/2"),
    STAGE("layer4", "stages/3"),
    HEAD("fc"),
};

/* ---- layers ---- */

static rf_symbol add_unit(const rf_blocks *b, rf_symbol x, int32_t filters, int32_t size, int32_t stride,
                          rf_activation activation)
{
    return rf_vision_add_unit(b, x,
                              &(rf_vision_unit){ .filters = filters,
                                                 .size = size,
                                                 .stride = stride,
                                                 .momentum = 0.9,
                                                 .epsilon = 1e-5,
                                                 .activation = activation,
                                                 .conv = "convolution",
                                                 .norm = "normalization" });
}

static rf_symbol add_numbered(const rf_blocks *b, rf_symbol x, int32_t index, int32_t filters, int32_t size,
                              int32_t stride, rf_activation activation)
{
    rf_block_enter(b, "layer", index);
    x = add_unit(b, x, filters, size, stride, activation);
    rf_block_leave(b, index);
    return x;
}

static rf_symbol add_block(const rf_blocks *b, const resnet *r, rf_symbol x, int32_t in, int32_t out, int32_t stride,
                           int32_t index)
{
    const int32_t inner = out / 4, early = r->halves_earlier ? stride : 1;
    rf_symbol y = x, shortcut = x;
    rf_block_enter(b, "layers", index);
    if (r->bottleneck) {
        y = add_numbered(b, y, 0, inner, 1, early, r->activation);
        y = add_numbered(b, y, 1, inner, 3, stride / early, r->activation);
        y = add_numbered(b, y, 2, out, 1, 1, RF_ACTIVATION_LINEAR);
    } else {
        y = add_numbered(b, y, 0, out, 3, stride, r->activation);
        y = add_numbered(b, y, 1, out, 3, 1, RF_ACTIVATION_LINEAR);
    }
    if (in != out || stride != 1) {
        rf_block_enter(b, "shortcut", -1);
        shortcut = add_unit(b, x, out, 1, stride, RF_ACTIVATION_LINEAR);
        rf_block_leave(b, -1);
    }
    rf_block_leave(b, index);
    return rf_block_activate(b, rf_block_add(b, y, shortcut), r->activation);
}

static rf_symbol add_stages(const rf_blocks *b, const resnet *r, rf_symbol x)
{
    int32_t in = r->stem;
    for (int32_t s = 0; s < r->stages; s++) {
        rf_block_enter(b, "stages", s);
        for (int32_t i = 0; i < r->depths[s] && rf_pretrained_config_status(b->config) >= 0; i++) {
            const bool halves = i == 0 && (s > 0 || r->halves_first);
            x = add_block(b, r, x, in, r->widths[s], halves ? 2 : 1, i);
            in = r->widths[s];
        }
        rf_block_leave(b, s);
    }
    return x;
}

static void add_network(const rf_blocks *b, const resnet *r, rf_pretrained_outputs *outputs)
{
    const int32_t size = rf_pretrained_config_image_size(b->config, 224);
    rf_symbol x = rf_vision_input(b, size, size, r->channels);
    rf_block_enter(b, "embedder", -1);
    x = add_unit(b, x, r->stem, 7, 2, r->activation);
    rf_block_leave(b, -1);
    x = add_stages(b, r, rf_vision_max_pool(b, x));
    const rf_symbol mean = rf_vision_mean(b, x);
    if (r->head) {
        rf_block_output(outputs, rf_block_dense(b, mean, r->classes, RF_ACTIVATION_LINEAR, RF_WITH_BIAS, "classifier"),
                        "logits");
    } else {
        rf_block_output(outputs, x, "last_hidden_state");
        rf_block_output(outputs, mean, "pooler_output");
    }
}

/* ---- the hub's configurations ---- */

static void read_stages(rf_pretrained_config *c, resnet *r)
{
    static const int32_t depths[] = { 3, 4, 6, 3 }, widths[] = { 256, 512, 1024, 2048 };
    char key[32];
    r->stages = rf_pretrained_config_count(c, "depths", 4);
    if (r->stages > MOST_STAGES || r->stages != rf_pretrained_config_count(c, "hidden_sizes", 4)) {
        rf_pretrained_config_refuse(c, "depths", ", not at most 8 stages, as many as hidden_sizes has");
        r->stages = 0;
    }
    for (int32_t s = 0; s < r->stages; s++) {
        snprintf(key, sizeof(key), "depths.%d", (int)s);
        r->depths[s] = rf_pretrained_config_layers(c, key, s < 4 ? depths[s] : RF_PRETRAINED_REQUIRED);
        snprintf(key, sizeof(key), "hidden_sizes.%d", (int)s);
        r->widths[s] = rf_pretrained_config_size(c, key, s < 4 ? widths[s] : RF_PRETRAINED_REQUIRED);
        if (r->bottleneck && r->widths[s] < 4)
            rf_pretrained_config_refuse(c, key, ", of which blocks have a quarter inside");
    }
}

static rf_result build_hub(rf_pretrained_config *c, rf_model_builder *builder, rf_pretrained_outputs *outputs,
                           void *user)
{
    (void)user;
    static const char *const classes[] = { "ResNetForImageClassification", "ResNetModel" };
    static const char *const types[] = { "bottleneck", "basic" };
    const rf_blocks b = { c, builder };
    resnet r = { .head = rf_block_class(&b, classes, 2) == 0 };
    r.bottleneck = rf_pretrained_config_choice(c, "layer_type", types, 2, 0) == 0;
    read_stages(c, &r);
    r.channels = rf_pretrained_config_size(c, "num_channels", 3);
    r.stem = rf_pretrained_config_size(c, "embedding_size", 64);
    r.classes = r.head ? rf_pretrained_config_classes(c, "id2label", 2) : 1;
    r.halves_first = rf_pretrained_config_flag(c, "downsample_in_first_stage", false);
    r.halves_earlier = rf_pretrained_config_flag(c, "downsample_in_bottleneck", false);
    r.activation = rf_pretrained_config_activation(c, "hidden_act", RF_ACTIVATION_RELU);
    add_network(&b, &r, outputs);
    return RF_OK;
}

/* ---- networks by their names ---- */

/* `user` says how many blocks the stages have, and of what kind they are. */
typedef struct named {
    int32_t depths[4];
    bool bottleneck;
} named;

static rf_result build_named(rf_pretrained_config *c, rf_model_builder *builder, rf_pretrained_outputs *outputs,
                             void *user)
{
    static const char *const pools[] = { "avg" };
    const named *n = user;
    const rf_blocks b = { c, builder };
    resnet r = { .stages = 4, .stem = 64, .bottleneck = n->bottleneck, .head = true, .activation = RF_ACTIVATION_RELU };
    for (int32_t s = 0; s < 4; s++) {
        r.depths[s] = n->depths[s];
        r.widths[s] = (n->bottleneck ? 256 : 64) << s;
    }
    r.channels = rf_pretrained_config_size(c, "in_chans", 3);
    r.classes = rf_pretrained_config_classes(c, "num_classes", 1000);
    (void)rf_pretrained_config_choice(c, "global_pool", pools, 1, 0);
    add_network(&b, &r, outputs);
    return RF_OK;
}

static const char *const hub_ignored[] = { "out_features", "out_indices", "stage_names" };
static const char *const named_ignored[] = { "num_features", "pretrained_cfg" };

#define LENGTH(list) (sizeof(list) / sizeof((list)[0]))
#define TABLE .tensors = tensors, .num_tensors = LENGTH(tensors)
#define NAMED(NUMBER, BOTTLENECK, ...)                                                                                 \
    static named resnet_##NUMBER = { { __VA_ARGS__ }, BOTTLENECK };                                                    \
    const rf_pretrained_architecture rf_pretrained_resnet##NUMBER = { .model_type = "resnet" #NUMBER,                  \
                                                                      TABLE,                                           \
                                                                      .ignored_keys = named_ignored,                   \
                                                                      .num_ignored_keys = LENGTH(named_ignored),       \
                                                                      .build = build_named,                            \
                                                                      .user = &resnet_##NUMBER }

const rf_pretrained_architecture rf_pretrained_resnet = { .model_type = "resnet",
                                                          .prefix = "resnet.",
                                                          TABLE,
                                                          .ignored_keys = hub_ignored,
                                                          .num_ignored_keys = LENGTH(hub_ignored),
                                                          .build = build_hub };
NAMED(18, false, 2, 2, 2, 2);
NAMED(34, false, 3, 4, 6, 3);
NAMED(50, true, 3, 4, 6, 3);
NAMED(101, true, 3, 4, 23, 3);
NAMED(152, true, 3, 8, 36, 3);
