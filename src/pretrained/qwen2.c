/* SPDX-License-Identifier: Apache-2.0 */
/* Qwen2 and Qwen2.5 (Yang et al. 2024): Llama with biases of queries, keys and values alone, and windows in the later
 * layers where the configuration asks for them. */
#include "pretrained/architectures.h"
#include "pretrained/decoder.h"

static const rf_pretrained_tensor tensors[] = { RF_DECODER_TENSORS, RF_DECODER_PRODUCTS };

static rf_result build_qwen2(rf_pretrained_config *config, rf_model_builder *builder, rf_pretrained_outputs *outputs,
                             void *user)
{
    (void)user;
    static const char *const classes[2] = { "Qwen2ForCausalLM", "Qwen2Model" };
    const rf_blocks b = { config, builder };
    rf_decoder d = rf_decoder_read(&b, classes);
    d.bias = true;
    rf_decoder_read_windows(&b, &d);
    rf_decoder_build(&b, &d, outputs);
    return RF_OK;
}

const rf_pretrained_architecture rf_pretrained_qwen2 = { .model_type = "qwen2",
                                                         .prefix = "model.",
                                                         .tensors = tensors,
                                                         .num_tensors = sizeof(tensors) / sizeof(tensors[0]),
                                                         .build = build_qwen2 };
