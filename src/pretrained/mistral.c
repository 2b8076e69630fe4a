/* SPDX-License-Identifier: Apache-2.0 */
/* Mistral (Jiang et al. 2023): Llama, but that queries attend to a window of the last keys. */
#include "pretrained/architectures.h"
#include "pretrained/decoder.h"

static const rf_pretrained_tensor tensors[] = { RF_DECODER_TENSORS, RF_DECODER_PRODUCTS };

static rf_result build_mistral(rf_pretrained_config *config, rf_model_builder *builder, rf_pretrained_outputs *outputs,
                               void *user)
{
    (void)user;
    static const char *const classes[2] = { "MistralForCausalLM", "MistralModel" };
    const rf_blocks b = { config, builder };
    rf_decoder d = rf_decoder_read(&b, classes);
    if (rf_pretrained_config_has(config, "sliding_window"))
        d.window = rf_pretrained_config_size(config, "sliding_window", RF_PRETRAINED_REQUIRED);
    rf_decoder_build(&b, &d, outputs);
    return RF_OK;
}

const rf_pretrained_architecture rf_pretrained_mistral = { .model_type = "mistral",
                                                           .prefix = "model.",
                                                           .tensors = tensors,
                                                           .num_tensors = sizeof(tensors) / sizeof(tensors[0]),
                                                           .build = build_mistral };
