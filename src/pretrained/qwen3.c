/* SPDX-License-Identifier: Apache-2.0 */
/* Qwen3 (Yang et al. 2025): queries and keys of each head are normalised before they are turned. */
#include "pretrained/architectures.h"
#include "pretrained/decoder.h"

static const rf_pretrained_tensor tensors[] = {
    RF_DECODER_TENSORS,
    RF_DECODER_PRODUCTS,
    { .tensor = "layers.{}.self_attn.q_norm.weight", .variable = "layers/{}/self_attn/query_norm/gamma" },
    { .tensor = "layers.{}.self_attn.k_norm.weight", .variable = "layers/{}/self_attn/key_norm/gamma" },
};

static rf_result build_qwen3(rf_pretrained_config *config, rf_model_builder *builder, rf_pretrained_outputs *outputs,
                             void *user)
{
    (void)user;
    static const char *const classes[2] = { "Qwen3ForCausalLM", "Qwen3Model" };
    const rf_blocks b = { config, builder };
    rf_decoder d = rf_decoder_read(&b, classes);
    if (!rf_pretrained_config_has(config, "head_dim")) d.key_dim = 128;
    d.query_key_norm = true;
    d.bias = d.output_bias = rf_pretrained_config_flag(config, "attention_bias", false);
    rf_decoder_read_windows(&b, &d);
    rf_decoder_build(&b, &d, outputs);
    return RF_OK;
}

const rf_pretrained_architecture rf_pretrained_qwen3 = { .model_type = "qwen3",
                                                         .prefix = "model.",
                                                         .tensors = tensors,
                                                         .num_tensors = sizeof(tensors) / sizeof(tensors[0]),
                                                         .build = build_qwen3 };
