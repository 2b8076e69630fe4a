/* SPDX-License-Identifier: Apache-2.0 */
/* ViT (Dosovitskiy et al. 2021): patches of an image and a class token, norms before attention and network. */
#include "pretrained/architectures.h"
#include "pretrained/config.h"
#include "pretrained/encoder.h"
#include "pretrained/vision.h"

typedef struct vit {
    int32_t width, inner, layers, heads, image, patch, channels;
    double epsilon, dropout, attention_dropout;
    rf_activation activation, pooler_activation;
} vit;

static const rf_pretrained_tensor tensors[] = {
    { .tensor = "embeddings.cls_token", .variable = "cls_token/token" },
    { .tensor = "embeddings.position_embeddings", .variable = "position_embeddings/embeddings" },
    { .tensor = "embeddings.mask_token" },
    RF_ENCODER_PRODUCT("embeddings.patch_embeddings.projection", "projection"),
    RF_ENCODER_PRODUCT("encoder.layer.{}.attention.attention.query", "layer/{}/attention/query"),
    RF_ENCODER_PRODUCT("encoder.layer.{}.attention.attention.key", "layer/{}/attention/key"),
    RF_ENCODER_PRODUCT("encoder.layer.{}.attention.attention.value", "layer/{}/attention/value"),
    RF_ENCODER_PRODUCT("encoder.layer.{}.attention.output.dense", "layer/{}/attention/attention_output"),
    RF_ENCODER_NORM("encoder.layer.{}.layernorm_before", "layer/{}/layernorm_before"),
    RF_ENCODER_NORM("encoder.layer.{}.layernorm_after", "layer/{}/layernorm_after"),
    RF_ENCODER_PRODUCT("encoder.layer.{}.intermediate.dense", "layer/{}/intermediate"),
    RF_ENCODER_PRODUCT("encoder.layer.{}.output.dense", "layer/{}/output"),
    RF_ENCODER_NORM("layernorm", "layernorm"),
    { .tensor = "pooler.dense.weight",
      .variable = "pooler/kernel",
      .layout = RF_PRETRAINED_TRANSPOSED,
      .optional = true },
    { .tensor = "pooler.dense.bias", .variable = "pooler/bias", .optional = true },
    RF_ENCODER_HEAD("classifier", "classifier"),
};

static rf_symbol add_layer(const rf_blocks *b, const vit *v, rf_symbol x, int32_t index)
{
    const rf_multi_head_attention_params attention = { .num_heads = v->heads,
                                                       .key_dim = v->width / v->heads,
                                                       .dropout = (float)v->attention_dropout,
                                                       .name = "attention" };
    rf_block_enter(b, "layer", index);
    rf_symbol y = rf_block_layer_norm(b, x, v->epsilon, "layernorm_before");
    y = rf_block_attention(b, y, (rf_symbol){ 0, 0 }, &attention);
    x = rf_block_add(b, x, rf_block_dropout(b, y, v->dropout));
    y = rf_block_layer_norm(b, x, v->epsilon, "layernorm_after");
    y = rf_block_dense(b, y, v->inner, v->activation, RF_WITH_BIAS, "intermediate");
    y = rf_block_dense(b, y, v->width, RF_ACTIVATION_LINEAR, RF_WITH_BIAS, "output");
    x = rf_block_add(b, x, rf_block_dropout(b, y, v->dropout));
    rf_block_leave(b, index);
    return x;
}

static rf_symbol add_layers(const rf_blocks *b, const vit *v)
{
    const int32_t side = v->image / v->patch;
    rf_symbol x = rf_vision_input(b, v->image, v->image, v->channels);
    x = rf_vision_patches(b, x, v->patch, v->width, "projection");
    x = rf_vision_class_token(b, x, "cls_token");
    x = rf_block_positions(b, x, side * side + 1, "position_embeddings");
    x = rf_block_dropout(b, x, v->dropout);
    for (int32_t i = 0; i < v->layers && rf_pretrained_config_status(b->config) >= 0; i++) x = add_layer(b, v, x, i);
    return rf_block_layer_norm(b, x, v->epsilon, "layernorm");
}

static vit read_config(const rf_blocks *b)
{
    rf_pretrained_config *c = b->config;
    vit v = { .width = rf_pretrained_config_size(c, "hidden_size", 768) };
    v.inner = rf_pretrained_config_size(c, "intermediate_size", 3072);
    v.layers = rf_pretrained_config_layers(c, "num_hidden_layers", 12);
    v.heads = rf_pretrained_config_size(c, "num_attention_heads", 12);
    v.image = rf_pretrained_config_size(c, "image_size", 224);
    v.patch = rf_pretrained_config_size(c, "patch_size", 16);
    v.channels = rf_pretrained_config_size(c, "num_channels", 3);
    v.epsilon = rf_pretrained_config_number(c, "layer_norm_eps", 1e-12);
    v.dropout = rf_block_rate(b, "hidden_dropout_prob", 0.0);
    v.attention_dropout = rf_block_rate(b, "attention_probs_dropout_prob", 0.0);
    v.activation = rf_pretrained_config_activation(c, "hidden_act", RF_ACTIVATION_GELU);
    v.pooler_activation = rf_pretrained_config_activation(c, "pooler_act", RF_ACTIVATION_TANH);
    if (!rf_pretrained_config_flag(c, "qkv_bias", true))
        rf_pretrained_config_refuse(c, "qkv_bias", "; queries, keys and values have biases here");
    if (v.width % v.heads != 0)
        rf_pretrained_config_refuse(c, "num_attention_heads", ", which does not divide the width");
    if (v.patch > v.image || v.image / v.patch > 1 << 14)
        rf_pretrained_config_refuse(c, "patch_size", ", of which image_size has none, or too many");
    if (rf_pretrained_config_image_size(c, v.image) != v.image)
        rf_pretrained_config_refuse(c, "image_size", ", and its positions are for this size alone");
    return v;
}

static rf_result build_vit(rf_pretrained_config *c, rf_model_builder *builder, rf_pretrained_outputs *outputs,
                           void *user)
{
    (void)user;
    static const char *const classes[] = { "ViTForImageClassification", "ViTModel" };
    const rf_blocks b = { c, builder };
    const bool head = rf_block_class(&b, classes, 2) == 0;
    const vit v = read_config(&b);
    RF_TRY(rf_pretrained_config_status(c));
    const rf_symbol x = add_layers(&b, &v), first = rf_block_first_step(&b, x);
    if (head) {
        const int32_t labels = rf_pretrained_config_classes(c, "id2label", 2);
        rf_block_output(outputs, rf_block_dense(&b, first, labels, RF_ACTIVATION_LINEAR, RF_WITH_BIAS, "classifier"),
                        "logits");
        return RF_OK;
    }
    const int32_t pooled = rf_pretrained_config_size(c, "pooler_output_size", v.width);
    rf_block_output(outputs, x, "last_hidden_state");
    rf_block_output(outputs, rf_block_dense(&b, first, pooled, v.pooler_activation, RF_WITH_BIAS, "pooler"),
                    "pooler_output");
    return RF_OK;
}

/* Other classes read these. */
static const char *const ignored[] = { "encoder_stride", "pooler_output_size" };

const rf_pretrained_architecture rf_pretrained_vit = { .model_type = "vit",
                                                       .prefix = "vit.",
                                                       .tensors = tensors,
                                                       .num_tensors = sizeof(tensors) / sizeof(tensors[0]),
                                                       .ignored_keys = ignored,
                                                       .num_ignored_keys = sizeof(ignored) / sizeof(ignored[0]),
                                                       .build = build_vit };
