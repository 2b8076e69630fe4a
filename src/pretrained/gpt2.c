/* SPDX-License-Identifier: Apache-2.0 */
/* GPT-2 (Radford et al. 2019): norms before attention and network, learned positions, products of which the files hold
 * the weights as [in, out]. */
#include <math.h>

#include "pretrained/architectures.h"
#include "pretrained/blocks.h"

#define SAME RF_PRETRAINED_SAME

static const rf_pretrained_tensor tensors[] = {
    { "wte.weight", "wte/embeddings" },
    { "wpe.weight", "wpe/embeddings" },
    { "h.{}.ln_1.weight", "h/{}/ln_1/gamma" },
    { "h.{}.ln_1.bias", "h/{}/ln_1/beta" },
    { "h.{}.attn.c_attn.weight", "h/{}/attn/query/kernel", SAME, 1 },
    { "h.{}.attn.c_attn.weight", "h/{}/attn/key/kernel", SAME, 2 },
    { "h.{}.attn.c_attn.weight", "h/{}/attn/value/kernel", SAME, 3 },
    { "h.{}.attn.c_attn.bias", "h/{}/attn/query/bias", SAME, 1 },
    { "h.{}.attn.c_attn.bias", "h/{}/attn/key/bias", SAME, 2 },
    { "h.{}.attn.c_attn.bias", "h/{}/attn/value/bias", SAME, 3 },
    { "h.{}.attn.c_proj.weight", "h/{}/attn/attention_output/kernel" },
    { "h.{}.attn.c_proj.bias", "h/{}/attn/attention_output/bias" },
    { "h.{}.ln_2.weight", "h/{}/ln_2/gamma" },
    { "h.{}.ln_2.bias", "h/{}/ln_2/beta" },
    { "h.{}.mlp.c_fc.weight", "h/{}/mlp/c_fc/kernel" },
    { "h.{}.mlp.c_fc.bias", "h/{}/mlp/c_fc/bias" },
    { "h.{}.mlp.c_proj.weight", "h/{}/mlp/c_proj/kernel" },
    { "h.{}.mlp.c_proj.bias", "h/{}/mlp/c_proj/bias" },
    { "ln_f.weight", "ln_f/gamma" },
    { "ln_f.bias", "ln_f/beta" },
    { "lm_head.weight", "lm_head/kernel", RF_PRETRAINED_TRANSPOSED, .head = true },
    { "lm_head.weight", "wte/embeddings", .head = true },
    /* The mask of causal attention, which old files hold. */
    { "h.{}.attn.bias", NULL },
    { "h.{}.attn.masked_bias", NULL },
};
/* Heads that no class here has, and how attention is computed, with the same result. */
static const char *const ignored_keys[] = {
    "n_ctx",        "reorder_and_upcast_attn", "summary_activation", "summary_first_dropout", "summary_proj_to_labels",
    "summary_type", "summary_use_proj",
};

typedef struct gpt2 {
    rf_blocks b;
    int32_t width, heads, inner, positions, vocabulary, layers;
    double epsilon, dropout, attention_dropout;
    rf_activation activation;
    bool scale, scale_by_layer;
} gpt2;

static gpt2 read_config(rf_pretrained_config *c, rf_model_builder *builder)
{
    gpt2 m = { .b = { c, builder } };
    m.width = rf_pretrained_config_size(c, "n_embd", 768);
    m.heads = rf_pretrained_config_size(c, "n_head", 12);
    m.inner = rf_pretrained_config_size(c, "n_inner", m.width <= INT32_MAX / 4 ? 4 * m.width : 1);
    m.positions = rf_pretrained_config_size(c, "n_positions", 1024);
    m.vocabulary = rf_pretrained_config_size(c, "vocab_size", 50257);
    m.layers = rf_pretrained_config_layers(c, "n_layer", 12);
    m.epsilon = rf_pretrained_config_number(c, "layer_norm_epsilon", 1e-5);
    m.dropout = rf_block_rate(&m.b, "resid_pdrop", 0.1);
    m.attention_dropout = rf_block_rate(&m.b, "attn_pdrop", 0.1);
    m.activation = rf_pretrained_config_activation(c, "activation_function", RF_ACTIVATION_GELU_TANH);
    m.scale = rf_pretrained_config_flag(c, "scale_attn_weights", true);
    m.scale_by_layer = rf_pretrained_config_flag(c, "scale_attn_by_inverse_layer_idx", false);
    if (m.width % m.heads != 0) rf_pretrained_config_refuse(c, "n_head", ", which does not divide n_embd");
    return m;
}

static rf_symbol add_block(const gpt2 *m, rf_symbol x, rf_symbol packed, int32_t index)
{
    const int32_t key_dim = m->width / m->heads;
    const double scale = (m->scale ? 1.0 / sqrt((double)key_dim) : 1.0) / (m->scale_by_layer ? index + 1 : 1);
    const rf_multi_head_attention_params attention = { .num_heads = m->heads,
                                                       .key_dim = key_dim,
                                                       .causal = true,
                                                       .dropout = (float)m->attention_dropout,
                                                       .scale = (float)scale,
                                                       .packed = packed.id != 0,
                                                       .name = "attn" };
    rf_block_enter(&m->b, "h", index);
    rf_symbol y = rf_block_layer_norm(&m->b, x, m->epsilon, "ln_1");
    y = rf_block_dropout(&m->b, rf_block_attention(&m->b, y, packed, &attention), m->dropout);
    x = rf_block_add(&m->b, x, y);
    y = rf_block_layer_norm(&m->b, x, m->epsilon, "ln_2");
    y = rf_block_dense(&m->b, y, m->inner, m->activation, RF_WITH_BIAS, "mlp/c_fc");
    y = rf_block_dense(&m->b, y, m->width, RF_ACTIVATION_LINEAR, RF_WITH_BIAS, "mlp/c_proj");
    x = rf_block_add(&m->b, x, rf_block_dropout(&m->b, y, m->dropout));
    rf_block_leave(&m->b, index);
    return x;
}

static rf_result build_gpt2(rf_pretrained_config *config, rf_model_builder *builder, rf_pretrained_outputs *outputs,
                            void *user)
{
    (void)user;
    static const char *const classes[] = { "GPT2LMHeadModel", "GPT2Model" };
    const gpt2 m = read_config(config, builder);
    const uint32_t class = rf_block_class(&m.b, classes, 2);
    const bool tied = rf_pretrained_config_flag(config, "tie_word_embeddings", true);
    const double dropout = rf_block_rate(&m.b, "embd_pdrop", 0.1);
    rf_layer *table;
    const int32_t steps = rf_pretrained_config_steps(config, m.positions);
    const rf_symbol ids = rf_model_builder_input(builder, RF_I32, RF_SHAPE(steps), "input_ids");
    const rf_symbol packed = rf_block_packed(&m.b, steps);
    rf_symbol x = rf_block_embedding(&m.b, ids, m.vocabulary, m.width, "wte", &table);
    x = rf_block_dropout(&m.b, rf_block_packed_positions(&m.b, x, packed, m.positions, "wpe"), dropout);
    for (int32_t i = 0; i < m.layers && rf_pretrained_config_status(config) >= 0; i++) x = add_block(&m, x, packed, i);
    x = rf_block_layer_norm(&m.b, x, m.epsilon, "ln_f");
    if (class == 0) x = rf_block_head(&m.b, x, tied ? table : NULL, m.vocabulary, "lm_head");
    outputs->count = 1;
    outputs->symbol[0] = x;
    outputs->name[0] = class == 0 ? "logits" : "last_hidden_state";
    return RF_OK;
}

const rf_pretrained_architecture rf_pretrained_gpt2 = {
    .model_type = "gpt2",
    .prefix = "transformer.",
    .tensors = tensors,
    .num_tensors = sizeof(tensors) / sizeof(tensors[0]),
    .ignored_keys = ignored_keys,
    .num_ignored_keys = sizeof(ignored_keys) / sizeof(ignored_keys[0]),
    .build = build_gpt2,
};
