/* SPDX-License-Identifier: Apache-2.0 */
/* Gemma 2 (Gemma Team 2024): norms before and after attention and network, caps of scores and logits, scaled
 * embeddings, and a window in every other layer. */
#include <math.h>

#include "pretrained/architectures.h"
#include "pretrained/decoder.h"

static const rf_pretrained_tensor tensors[] = {
    RF_DECODER_TENSORS,
    RF_DECODER_PRODUCTS,
    { .tensor = "layers.{}.pre_feedforward_layernorm.weight", .variable = "layers/{}/pre_feedforward_layernorm/gamma" },
    { .tensor = "layers.{}.post_feedforward_layernorm.weight",
      .variable = "layers/{}/post_feedforward_layernorm/gamma" },
};
/* The activation is hidden_activation. */
static const char *const ignored_keys[] = { "hidden_act", "cache_implementation" };

static double read_positive(rf_pretrained_config *config, const char *key, double fallback)
{
    const double number = rf_pretrained_config_number(config, key, fallback);
    if (number > 0.0) return number;
    rf_pretrained_config_refuse(config, key, ", not a positive number");
    return 1.0;
}

static rf_result build_gemma2(rf_pretrained_config *config, rf_model_builder *builder, rf_pretrained_outputs *outputs,
                              void *user)
{
    (void)user;
    static const char *const classes[2] = { "Gemma2ForCausalLM", "Gemma2Model" };
    const rf_blocks b = { config, builder };
    rf_decoder d = rf_decoder_read(&b, classes);
    d.gemma = true;
    if (!rf_pretrained_config_has(config, "head_dim")) d.key_dim = 256;
    d.tied = rf_pretrained_config_flag(config, "tie_word_embeddings", true);
    d.activation = rf_pretrained_config_activation(config, "hidden_activation", RF_ACTIVATION_GELU_TANH);
    d.bias = d.output_bias = rf_pretrained_config_flag(config, "attention_bias", false);
    d.scale = 1.0 / sqrt(read_positive(config, "query_pre_attn_scalar", 256.0));
    if (rf_pretrained_config_has(config, "attn_logit_softcapping"))
        d.score_cap = read_positive(config, "attn_logit_softcapping", RF_PRETRAINED_REQUIRED);
    if (rf_pretrained_config_has(config, "final_logit_softcapping"))
        d.logit_cap = read_positive(config, "final_logit_softcapping", RF_PRETRAINED_REQUIRED);
    d.window = rf_pretrained_config_size(config, "sliding_window", 4096);
    d.layer_types = rf_pretrained_config_has(config, "layer_types");
    rf_decoder_build(&b, &d, outputs);
    return RF_OK;
}

const rf_pretrained_architecture rf_pretrained_gemma2 = { .model_type = "gemma2",
                                                          .prefix = "model.",
                                                          .tensors = tensors,
                                                          .num_tensors = sizeof(tensors) / sizeof(tensors[0]),
                                                          .ignored_keys = ignored_keys,
                                                          .num_ignored_keys = 2,
                                                          .build = build_gemma2 };
