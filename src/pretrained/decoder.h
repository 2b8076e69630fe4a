/* SPDX-License-Identifier: Apache-2.0 */
/* Decoders as Llama is one: norms by the root mean square before attention and network, rotary positions, a gated
 * network. Architectures differ in what their configurations call things, in biases, norms and windows. */
#ifndef RF_PRETRAINED_DECODER_H
#define RF_PRETRAINED_DECODER_H

#include "pretrained/blocks.h"

typedef struct rf_decoder {
    int32_t width, inner, layers, heads, key_value_heads, key_dim, vocabulary, positions;
    double epsilon, rotary_base, attention_dropout, dropout, embedding_dropout;
    rf_rotary_params rotary;
    rf_activation activation;
    bool bias, output_bias, mlp_bias; /* of queries, keys and values; of attention's output; of the gated network */
    bool query_key_norm, tied, head;  /* head: of a language model */
    int32_t window;                   /* 0: none */
    int32_t first_window;             /* the layers from this one on have it */
    bool layer_types;                 /* the configuration says for each layer whether it has it */
    /* Gemma's: norms after attention and network, too, whose scales are 1 + gamma; embeddings times the root of the
     * width; the layers with even numbers have the window; attention's scale and caps of scores and logits, 0: none. */
    bool gemma;
    double scale, score_cap, logit_cap;
} rf_decoder;

/* All that has the same names everywhere. `classes` are the model with a head and the one without. */
rf_decoder rf_decoder_read(const rf_blocks *b, const char *const classes[2]);
/* The windows of Qwen's: use_sliding_window, sliding_window, max_window_layers, layer_types. */
void rf_decoder_read_windows(const rf_blocks *b, rf_decoder *d);
/* The layers. */
void rf_decoder_build(const rf_blocks *b, const rf_decoder *d, rf_pretrained_outputs *outputs);

/* Rows that all tables have. */
#define RF_DECODER_TENSORS                                                                                             \
    { .tensor = "embed_tokens.weight", .variable = "embed_tokens/embeddings" },                                        \
        { .tensor = "layers.{}.input_layernorm.weight", .variable = "layers/{}/input_layernorm/gamma" },               \
        { .tensor = "layers.{}.post_attention_layernorm.weight",                                                       \
          .variable = "layers/{}/post_attention_layernorm/gamma" },                                                    \
        { .tensor = "norm.weight", .variable = "norm/gamma" },                                                         \
        { .tensor = "lm_head.weight",                                                                                  \
          .variable = "lm_head/kernel",                                                                                \
          .layout = RF_PRETRAINED_TRANSPOSED,                                                                          \
          .head = true },                                                                                              \
        { .tensor = "lm_head.weight", .variable = "embed_tokens/embeddings", .head = true },                           \
    {                                                                                                                  \
        .tensor = "layers.{}.self_attn.rotary_emb.inv_freq"                                                            \
    }
/* Rows of products that stand alone; `OF` is the module in the files, `TO` the variables' scope. */
#define RF_DECODER_DENSE(OF, TO)                                                                                       \
    { .tensor = "layers.{}." OF ".weight",                                                                             \
      .variable = "layers/{}/" TO "/kernel",                                                                           \
      .layout = RF_PRETRAINED_TRANSPOSED },                                                                            \
    {                                                                                                                  \
        .tensor = "layers.{}." OF ".bias", .variable = "layers/{}/" TO "/bias"                                         \
    }
#define RF_DECODER_PRODUCTS                                                                                            \
    RF_DECODER_DENSE("self_attn.q_proj", "self_attn/query"), RF_DECODER_DENSE("self_attn.k_proj", "self_attn/key"),    \
        RF_DECODER_DENSE("self_attn.v_proj", "self_attn/value"),                                                       \
        RF_DECODER_DENSE("self_attn.o_proj", "self_attn/attention_output"),                                            \
        RF_DECODER_DENSE("mlp.gate_proj", "mlp/gate_proj"), RF_DECODER_DENSE("mlp.up_proj", "mlp/up_proj"),            \
        RF_DECODER_DENSE("mlp.down_proj", "mlp/down_proj")

#endif
