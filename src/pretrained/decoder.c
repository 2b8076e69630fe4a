/* SPDX-License-Identifier: Apache-2.0 */
#include "pretrained/decoder.h"

#include <math.h>
#include <stdio.h>

/* ---- rotary positions ---- */

/* Newer configurations have all of it in one object. */
static const char *rotary_key(rf_pretrained_config *c, const char *name, char key[64])
{
    const bool newer = rf_pretrained_config_has(c, "rope_parameters");
    snprintf(key, 64, "%s.%s", newer ? "rope_parameters" : "rope_scaling", name);
    return key;
}

static double rotary_number(rf_pretrained_config *c, const char *name)
{
    char key[64];
    return rf_pretrained_config_number(c, rotary_key(c, name, key), RF_PRETRAINED_REQUIRED);
}

static int32_t read_original_length(rf_pretrained_config *c, int32_t fallback)
{
    char key[64];
    return rf_pretrained_config_size(c, rotary_key(c, "original_max_position_embeddings", key), fallback);
}

static void read_scaling(rf_pretrained_config *c, rf_decoder *d)
{
    static const char *const names[] = { "default", "linear", "dynamic", "llama3" };
    static const rf_rotary_scaling kinds[] = { RF_ROTARY_UNSCALED, RF_ROTARY_LINEAR, RF_ROTARY_DYNAMIC,
                                               RF_ROTARY_LLAMA3 };
    char key[64];
    uint32_t kind = rf_pretrained_config_choice(c, rotary_key(c, "type", key), names, 4, 0);
    kind = rf_pretrained_config_choice(c, rotary_key(c, "rope_type", key), names, 4, kind);
    d->rotary.scaling = kinds[kind];
    if (d->rotary.scaling == RF_ROTARY_UNSCALED) return;
    d->rotary.factor = rotary_number(c, "factor");
    if (d->rotary.scaling == RF_ROTARY_DYNAMIC) d->rotary.original_length = d->positions;
    if (d->rotary.scaling != RF_ROTARY_LLAMA3) return;
    d->rotary.original_length = read_original_length(c, RF_PRETRAINED_REQUIRED);
    d->rotary.low_frequency_factor = rotary_number(c, "low_freq_factor");
    d->rotary.high_frequency_factor = rotary_number(c, "high_freq_factor");
}

static void read_rotary(rf_pretrained_config *c, rf_decoder *d)
{
    char key[64];
    const double theta = rf_pretrained_config_number(c, "rope_theta", 10000.0);
    d->rotary_base = rf_pretrained_config_number(c, rotary_key(c, "rope_theta", key), theta);
    if (!(d->rotary_base > 0.0)) rf_pretrained_config_refuse(c, "rope_theta", ", not a positive number");
    if (d->key_dim % 2 != 0) rf_pretrained_config_refuse(c, "head_dim", ", which is odd: halves of heads are turned");
    read_scaling(c, d);
}

/* ---- the configuration ---- */

rf_decoder rf_decoder_read(const rf_blocks *b, const char *const classes[2])
{
    rf_pretrained_config *c = b->config;
    rf_decoder d = { .head = rf_block_class(b, classes, 2) == 0 };
    d.width = rf_pretrained_config_size(c, "hidden_size", RF_PRETRAINED_REQUIRED);
    d.inner = rf_pretrained_config_size(c, "intermediate_size", RF_PRETRAINED_REQUIRED);
    d.layers = rf_pretrained_config_layers(c, "num_hidden_layers", RF_PRETRAINED_REQUIRED);
    d.heads = rf_pretrained_config_size(c, "num_attention_heads", RF_PRETRAINED_REQUIRED);
    d.key_value_heads = rf_pretrained_config_size(c, "num_key_value_heads", d.heads);
    d.key_dim = rf_pretrained_config_size(c, "head_dim", d.width / d.heads > 0 ? d.width / d.heads : 1);
    d.vocabulary = rf_pretrained_config_size(c, "vocab_size", RF_PRETRAINED_REQUIRED);
    d.positions = rf_pretrained_config_size(c, "max_position_embeddings", 2048);
    d.epsilon = rf_pretrained_config_number(c, "rms_norm_eps", 1e-6);
    d.attention_dropout = rf_block_rate(b, "attention_dropout", 0.0);
    d.activation = rf_pretrained_config_activation(c, "hidden_act", RF_ACTIVATION_SILU);
    d.tied = rf_pretrained_config_flag(c, "tie_word_embeddings", false);
    if (d.heads % d.key_value_heads != 0)
        rf_pretrained_config_refuse(c, "num_key_value_heads", ", which does not divide num_attention_heads");
    read_rotary(c, &d);
    return d;
}

void rf_decoder_read_windows(const rf_blocks *b, rf_decoder *d)
{
    rf_pretrained_config *c = b->config;
    const bool used = rf_pretrained_config_flag(c, "use_sliding_window", false);
    const int32_t window = rf_pretrained_config_size(c, "sliding_window", 4096);
    const double first = rf_pretrained_config_number(c, "max_window_layers", 28);
    d->layer_types = rf_pretrained_config_has(c, "layer_types");
    if (!(first >= 0 && first <= INT32_MAX))
        rf_pretrained_config_refuse(c, "max_window_layers", ", not a number of layers");
    else
        d->first_window = (int32_t)first;
    d->window = used ? window : 0;
}

static bool has_window(const rf_blocks *b, const rf_decoder *d, int32_t index)
{
    static const char *const types[] = { "full_attention", "sliding_attention" };
    char key[32];
    if (!d->layer_types) return d->window > 0 && (d->gemma ? index % 2 == 0 : index >= d->first_window);
    snprintf(key, sizeof(key), "layer_types.%d", (int)index);
    const bool window = rf_pretrained_config_choice(b->config, key, types, 2, 0) == 1;
    if (window && d->window == 0)
        rf_pretrained_config_refuse(b->config, "layer_types", ", but sliding_window gives no length");
    return window && d->window > 0;
}

/* ---- layers ---- */

static rf_symbol add_attention(const rf_blocks *b, const rf_decoder *d, rf_symbol x, rf_symbol packed, int32_t index)
{
    const rf_multi_head_attention_params params = { .num_heads = d->heads,
                                                    .num_key_value_heads = d->key_value_heads,
                                                    .key_dim = d->key_dim,
                                                    .causal = true,
                                                    .no_bias = !d->bias && !d->output_bias,
                                                    .no_output_bias = d->bias && !d->output_bias,
                                                    .dropout = (float)d->attention_dropout,
                                                    .rotary_base = (float)d->rotary_base,
                                                    .rotary = &d->rotary,
                                                    .window = has_window(b, d, index) ? d->window : 0,
                                                    .query_key_norm = d->query_key_norm ? (float)d->epsilon : 0.0f,
                                                    .scale = (float)d->scale,
                                                    .softcap = (float)d->score_cap,
                                                    .output_dim = d->width,
                                                    .packed = packed.id != 0,
                                                    .name = "self_attn" };
    return rf_block_attention(b, x, packed, &params);
}

static rf_symbol add_mlp(const rf_blocks *b, const rf_decoder *d, rf_symbol x)
{
    const rf_bias_use bias = d->mlp_bias ? RF_WITH_BIAS : RF_WITHOUT_BIAS;
    const rf_symbol gate = rf_block_dense(b, x, d->inner, d->activation, bias, "mlp/gate_proj");
    const rf_symbol up = rf_block_dense(b, x, d->inner, RF_ACTIVATION_LINEAR, bias, "mlp/up_proj");
    return rf_block_dense(b, rf_block_multiply(b, gate, up), d->width, RF_ACTIVATION_LINEAR, bias, "mlp/down_proj");
}

static rf_symbol add_norm(const rf_blocks *b, const rf_decoder *d, rf_symbol x, const char *name)
{
    return rf_block_rms_norm(b, x,
                             &(rf_rms_norm_params){ .epsilon = d->epsilon, .unit_offset = d->gemma, .name = name });
}

static rf_symbol add_layer(const rf_blocks *b, const rf_decoder *d, rf_symbol x, rf_symbol packed, int32_t index)
{
    rf_block_enter(b, "layers", index);
    rf_symbol y = add_attention(b, d, add_norm(b, d, x, "input_layernorm"), packed, index);
    if (d->gemma) y = add_norm(b, d, y, "post_attention_layernorm");
    x = rf_block_add(b, x, rf_block_dropout(b, y, d->dropout));
    y = add_mlp(b, d, add_norm(b, d, x, d->gemma ? "pre_feedforward_layernorm" : "post_attention_layernorm"));
    if (d->gemma) y = add_norm(b, d, y, "post_feedforward_layernorm");
    x = rf_block_add(b, x, rf_block_dropout(b, y, d->dropout));
    rf_block_leave(b, index);
    return x;
}

static rf_symbol add_head(const rf_blocks *b, const rf_decoder *d, rf_symbol x, rf_layer *table)
{
    x = rf_block_head(b, x, d->tied ? table : NULL, d->vocabulary, "lm_head");
    if (d->logit_cap == 0.0) return x;
    x = rf_block_activate(b, rf_block_scale(b, x, 1.0 / d->logit_cap), RF_ACTIVATION_TANH);
    return rf_block_scale(b, x, d->logit_cap);
}

void rf_decoder_build(const rf_blocks *b, const rf_decoder *d, rf_pretrained_outputs *outputs)
{
    rf_layer *table;
    const int32_t steps = rf_pretrained_config_steps(b->config, d->positions);
    const rf_symbol ids = rf_model_builder_input(b->builder, RF_I32, RF_SHAPE(steps), "input_ids");
    const rf_symbol packed = rf_block_packed(b, steps);
    rf_symbol x = rf_block_embedding(b, ids, d->vocabulary, d->width, "embed_tokens", &table);
    if (d->gemma) x = rf_block_scale(b, x, sqrt((double)d->width));
    x = rf_block_dropout(b, x, d->embedding_dropout);
    for (int32_t i = 0; i < d->layers && rf_pretrained_config_status(b->config) >= 0; i++)
        x = add_layer(b, d, x, packed, i);
    x = add_norm(b, d, x, "norm");
    if (d->head) x = add_head(b, d, x, table);
    outputs->count = 1;
    outputs->symbol[0] = x;
    outputs->name[0] = d->head ? "logits" : "last_hidden_state";
}
