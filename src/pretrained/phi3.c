/* SPDX-License-Identifier: Apache-2.0 */
/* Phi-3 (Abdin et al. 2024): Llama whose files hold queries, keys and values as one tensor, and the two first products
 * of the network as another one. */
#include "pretrained/architectures.h"
#include "pretrained/decoder.h"

#define PART(OF, TO, NUMBER)                                                                                           \
    {                                                                                                                  \
        .tensor = "layers.{}." OF ".weight", .variable = "layers/{}/" TO "/kernel",                                    \
        .layout = RF_PRETRAINED_TRANSPOSED, .part = (NUMBER)                                                           \
    }

static const rf_pretrained_tensor tensors[] = {
    RF_DECODER_TENSORS,
    PART("self_attn.qkv_proj", "self_attn/query", 1),
    PART("self_attn.qkv_proj", "self_attn/key", 2),
    PART("self_attn.qkv_proj", "self_attn/value", 3),
    RF_DECODER_DENSE("self_attn.o_proj", "self_attn/attention_output"),
    PART("mlp.gate_up_proj", "mlp/gate_proj", 1),
    PART("mlp.gate_up_proj", "mlp/up_proj", 2),
    RF_DECODER_DENSE("mlp.down_proj", "mlp/down_proj"),
};

/* Scalings of rotary positions that have it are refused. */
static const char *const ignored_keys[] = { "original_max_position_embeddings" };

static rf_result build_phi3(rf_pretrained_config *config, rf_model_builder *builder, rf_pretrained_outputs *outputs,
                            void *user)
{
    (void)user;
    static const char *const classes[2] = { "Phi3ForCausalLM", "Phi3Model" };
    const rf_blocks b = { config, builder };
    rf_decoder d = rf_decoder_read(&b, classes);
    d.dropout = rf_block_rate(&b, "resid_pdrop", 0.0);
    d.embedding_dropout = rf_block_rate(&b, "embd_pdrop", 0.0);
    if (rf_pretrained_config_number(config, "partial_rotary_factor", 1.0) != 1.0)
        rf_pretrained_config_refuse(config, "partial_rotary_factor", "; only 1, whole heads, can be turned");
    if (rf_pretrained_config_has(config, "sliding_window"))
        d.window = rf_pretrained_config_size(config, "sliding_window", RF_PRETRAINED_REQUIRED);
    rf_decoder_build(&b, &d, outputs);
    return RF_OK;
}

const rf_pretrained_architecture rf_pretrained_phi3 = { .model_type = "phi3",
                                                        .prefix = "model.",
                                                        .tensors = tensors,
                                                        .num_tensors = sizeof(tensors) / sizeof(tensors[0]),
                                                        .ignored_keys = ignored_keys,
                                                        .num_ignored_keys = 1,
                                                        .build = build_phi3 };
