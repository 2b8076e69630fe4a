/* SPDX-License-Identifier: Apache-2.0 */
/* Llama 2 and 3 (Touvron et al. 2023, Grattafiori et al. 2024), and all that is stored as they are: TinyLlama, SmolLM.
 */
#include "pretrained/architectures.h"
#include "pretrained/decoder.h"

static const rf_pretrained_tensor tensors[] = { RF_DECODER_TENSORS, RF_DECODER_PRODUCTS };

static rf_result build_llama(rf_pretrained_config *config, rf_model_builder *builder, rf_pretrained_outputs *outputs,
                             void *user)
{
    (void)user;
    static const char *const classes[2] = { "LlamaForCausalLM", "LlamaModel" };
    const rf_blocks b = { config, builder };
    rf_decoder d = rf_decoder_read(&b, classes);
    d.bias = d.output_bias = rf_pretrained_config_flag(config, "attention_bias", false);
    d.mlp_bias = rf_pretrained_config_flag(config, "mlp_bias", false);
    rf_decoder_build(&b, &d, outputs);
    return RF_OK;
}

const rf_pretrained_architecture rf_pretrained_llama = { .model_type = "llama",
                                                         .prefix = "model.",
                                                         .tensors = tensors,
                                                         .num_tensors = sizeof(tensors) / sizeof(tensors[0]),
                                                         .build = build_llama };
