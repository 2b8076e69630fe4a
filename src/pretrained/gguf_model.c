/* SPDX-License-Identifier: Apache-2.0 */
/* Names and settings of models in GGUF files: what llama.cpp asks for, by architecture. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "pretrained/decoder.h"
#include "pretrained/gguf_parts.h"

enum { MOST_HEAD = 65536 };
#define LENGTH(array) (sizeof(array) / sizeof((array)[0]))
#define OF_LAYER(HUB, GGUF, CHANGE)                                                                                    \
    { "layers.{}." HUB ".weight", "blk.{}." GGUF ".weight", CHANGE },                                                  \
    {                                                                                                                  \
        "layers.{}." HUB ".bias", "blk.{}." GGUF ".bias", CHANGE                                                       \
    }

static const rf_gguf_name decoder_names[] = {
    { "embed_tokens.weight", "token_embd.weight", RF_GGUF_KEPT },
    { "norm.weight", "output_norm.weight", RF_GGUF_KEPT },
    { "lm_head.weight", "output.weight", RF_GGUF_IF_UNTIED },
    OF_LAYER("input_layernorm", "attn_norm", RF_GGUF_KEPT),
    OF_LAYER("post_attention_layernorm", "ffn_norm", RF_GGUF_KEPT),
    OF_LAYER("self_attn.q_proj", "attn_q", RF_GGUF_OF_QUERY),
    OF_LAYER("self_attn.k_proj", "attn_k", RF_GGUF_OF_KEY),
    OF_LAYER("self_attn.v_proj", "attn_v", RF_GGUF_KEPT),
    OF_LAYER("self_attn.o_proj", "attn_output", RF_GGUF_KEPT),
    OF_LAYER("self_attn.q_norm", "attn_q_norm", RF_GGUF_KEPT),
    OF_LAYER("self_attn.k_norm", "attn_k_norm", RF_GGUF_KEPT),
    OF_LAYER("mlp.gate_proj", "ffn_gate", RF_GGUF_KEPT),
    OF_LAYER("mlp.up_proj", "ffn_up", RF_GGUF_KEPT),
    OF_LAYER("mlp.down_proj", "ffn_down", RF_GGUF_KEPT),
    { "layers.{}.self_attn.rotary_emb.inv_freq", NULL, RF_GGUF_OMITTED },
};
static const rf_gguf_name gpt2_names[] = {
    { "wte.weight", "token_embd.weight", RF_GGUF_KEPT },
    { "wpe.weight", "position_embd.weight", RF_GGUF_KEPT },
    { "h.{}.ln_1.weight", "blk.{}.attn_norm.weight", RF_GGUF_KEPT },
    { "h.{}.ln_1.bias", "blk.{}.attn_norm.bias", RF_GGUF_KEPT },
    { "h.{}.attn.c_attn.weight", "blk.{}.attn_qkv.weight", RF_GGUF_TURNED },
    { "h.{}.attn.c_attn.bias", "blk.{}.attn_qkv.bias", RF_GGUF_KEPT },
    { "h.{}.attn.c_proj.weight", "blk.{}.attn_output.weight", RF_GGUF_TURNED },
    { "h.{}.attn.c_proj.bias", "blk.{}.attn_output.bias", RF_GGUF_KEPT },
    { "h.{}.ln_2.weight", "blk.{}.ffn_norm.weight", RF_GGUF_KEPT },
    { "h.{}.ln_2.bias", "blk.{}.ffn_norm.bias", RF_GGUF_KEPT },
    { "h.{}.mlp.c_fc.weight", "blk.{}.ffn_up.weight", RF_GGUF_TURNED },
    { "h.{}.mlp.c_fc.bias", "blk.{}.ffn_up.bias", RF_GGUF_KEPT },
    { "h.{}.mlp.c_proj.weight", "blk.{}.ffn_down.weight", RF_GGUF_TURNED },
    { "h.{}.mlp.c_proj.bias", "blk.{}.ffn_down.bias", RF_GGUF_KEPT },
    { "ln_f.weight", "output_norm.weight", RF_GGUF_KEPT },
    { "ln_f.bias", "output_norm.bias", RF_GGUF_KEPT },
    { "lm_head.weight", "output.weight", RF_GGUF_IF_UNTIED },
    { "h.{}.attn.bias", NULL, RF_GGUF_OMITTED },
    { "h.{}.attn.masked_bias", NULL, RF_GGUF_OMITTED },
};
#define DECODER_NAMES .prefix = "model.", .names = decoder_names, .num_names = LENGTH(decoder_names)

/* Mistral is Llama there, without its window. */
static const rf_gguf_architecture architectures[] = {
    { .model_type = "llama", .name = "llama", DECODER_NAMES, .pairs = true },
    { .model_type = "mistral", .name = "llama", DECODER_NAMES, .pairs = true },
    { .model_type = "qwen2", .name = "qwen2", DECODER_NAMES },
    { .model_type = "qwen3", .name = "qwen3", DECODER_NAMES },
    { .model_type = "gpt2",
      .name = "gpt2",
      .prefix = "transformer.",
      .names = gpt2_names,
      .num_names = LENGTH(gpt2_names) },
};

/* ---- settings ---- */

/* A description that is being made; keys are below the architecture's name. */
typedef struct settings {
    rf_pretrained_config *config;
    rf_gguf_values *values;
    const rf_gguf_architecture *architecture;
} settings;

static const char *own_key(const settings *s, const char *name, char key[96])
{
    snprintf(key, 96, "%s.%s", s->architecture->name, name);
    return key;
}

static void put_size(const settings *s, const char *name, int32_t size)
{
    char key[96];
    rf_gguf_put_u32(s->values, own_key(s, name, key), (uint32_t)size);
}

static void put_number(const settings *s, const char *name, double number)
{
    char key[96];
    rf_gguf_put_f32(s->values, own_key(s, name, key), number);
}

static void put_sizes(const settings *s, int32_t layers, int32_t positions, int32_t width, int32_t inner, int32_t heads)
{
    put_size(s, "block_count", layers);
    put_size(s, "context_length", positions);
    put_size(s, "embedding_length", width);
    put_size(s, "feed_forward_length", inner);
    put_size(s, "attention.head_count", heads);
}

/* The divisors of Llama 3's frequencies, a tensor of the file: 1 for short waves, the factor for long ones. */
static rf_result find_frequencies(const settings *s, const rf_decoder *d, rf_gguf_model *out)
{
    const rf_rotary_params *r = &d->rotary;
    const double pi = 3.14159265358979323846, length = r->original_length;
    out->num_frequencies = (uint32_t)d->key_dim / 2;
    RF_TRY(RF_ARENA_ARRAY(&s->values->arena, out->frequencies, out->num_frequencies));
    for (uint32_t i = 0; i < out->num_frequencies; i++) {
        const double wave = 2 * pi * pow(d->rotary_base, 2.0 * i / d->key_dim);
        const double way = (length / wave - r->low_frequency_factor) /
                           ((double)r->high_frequency_factor - (double)r->low_frequency_factor);
        const double share = way < 0 ? 0 : way > 1 ? 1 : way;
        out->frequencies[i] = (float)(1 / ((1 - share) / r->factor + share));
    }
    return RF_OK;
}

static rf_result put_rotary(const settings *s, const rf_decoder *d, rf_gguf_model *out)
{
    char key[96];
    put_size(s, "rope.dimension_count", d->key_dim);
    put_number(s, "rope.freq_base", d->rotary_base);
    switch (d->rotary.scaling) {
    case RF_ROTARY_LLAMA3: return find_frequencies(s, d, out);
    case RF_ROTARY_LINEAR:
        rf_gguf_put_text(s->values, own_key(s, "rope.scaling.type", key), "linear");
        put_number(s, "rope.scaling.factor", d->rotary.factor);
        break;
    case RF_ROTARY_DYNAMIC:
        rf_pretrained_config_refuse(s->config, "rope_scaling", ", which llama.cpp does not have");
        break;
    default: break;
    }
    return RF_OK;
}

static rf_result describe_decoder(const settings *s, rf_gguf_model *out)
{
    static const char *const classes[][2] = { { "LlamaForCausalLM", "LlamaModel" },
                                              { "MistralForCausalLM", "MistralModel" },
                                              { "Qwen2ForCausalLM", "Qwen2Model" },
                                              { "Qwen3ForCausalLM", "Qwen3Model" } };
    rf_pretrained_config *c = s->config;
    const rf_blocks b = { .config = c };
    const rf_decoder d = rf_decoder_read(&b, classes[s->architecture - architectures]);
    if (d.key_dim > MOST_HEAD) rf_pretrained_config_refuse(c, "head_dim", ", more than 65536");
    if (!d.head) rf_pretrained_config_refuse(c, "architectures", ", which has no head: GGUF files are language models");
    if (d.activation != RF_ACTIVATION_SILU)
        rf_pretrained_config_refuse(c, "hidden_act", ", but llama.cpp computes this architecture with silu");
    if (rf_pretrained_config_flag(c, "use_sliding_window", false))
        rf_pretrained_config_refuse(c, "use_sliding_window", ", which llama.cpp does not have here");
    put_sizes(s, d.layers, d.positions, d.width, d.inner, d.heads);
    put_size(s, "attention.head_count_kv", d.key_value_heads);
    put_size(s, "attention.key_length", d.key_dim);
    put_size(s, "attention.value_length", d.key_dim);
    put_number(s, "attention.layer_norm_rms_epsilon", d.epsilon);
    put_size(s, "vocab_size", d.vocabulary);
    out->heads = (uint32_t)d.heads;
    out->key_heads = (uint32_t)d.key_value_heads;
    out->vocabulary = (uint32_t)d.vocabulary;
    out->tied = d.tied;
    RF_TRY(rf_pretrained_config_status(c));
    return put_rotary(s, &d, out);
}

static rf_result describe_gpt2(const settings *s, rf_gguf_model *out)
{
    static const char *const classes[] = { "GPT2LMHeadModel", "GPT2Model" };
    rf_pretrained_config *c = s->config;
    const rf_blocks b = { .config = c };
    const int32_t width = rf_pretrained_config_size(c, "n_embd", 768),
                  heads = rf_pretrained_config_size(c, "n_head", 12);
    const int32_t inner = rf_pretrained_config_size(c, "n_inner", width <= INT32_MAX / 4 ? 4 * width : 1);
    if (rf_block_class(&b, classes, 2) != 0)
        rf_pretrained_config_refuse(c, "architectures", ", which has no head: GGUF files are language models");
    if (rf_pretrained_config_activation(c, "activation_function", RF_ACTIVATION_GELU_TANH) != RF_ACTIVATION_GELU_TANH)
        rf_pretrained_config_refuse(c, "activation_function", ", but llama.cpp computes GPT-2 with gelu_new");
    if (!rf_pretrained_config_flag(c, "scale_attn_weights", true))
        rf_pretrained_config_refuse(c, "scale_attn_weights", ", but llama.cpp scales attention");
    if (rf_pretrained_config_flag(c, "scale_attn_by_inverse_layer_idx", false))
        rf_pretrained_config_refuse(c, "scale_attn_by_inverse_layer_idx", ", which llama.cpp does not have");
    put_sizes(s, rf_pretrained_config_layers(c, "n_layer", 12), rf_pretrained_config_size(c, "n_positions", 1024),
              width, inner, heads);
    put_number(s, "attention.layer_norm_epsilon", rf_pretrained_config_number(c, "layer_norm_epsilon", 1e-5));
    out->heads = out->key_heads = (uint32_t)heads;
    out->vocabulary = (uint32_t)rf_pretrained_config_size(c, "vocab_size", 50257);
    out->tied = rf_pretrained_config_flag(c, "tie_word_embeddings", true);
    return RF_OK;
}

rf_result rf_gguf_describe_model(rf_pretrained_config *config, rf_gguf_values *v, rf_gguf_model *out)
{
    const char *type = rf_pretrained_config_text(config, "model_type");
    settings s = { .config = config, .values = v };
    *out = (rf_gguf_model){ 0 };
    RF_TRY(rf_pretrained_config_status(config));
    if (!type) return RF_FAIL(RF_ERROR_NOT_FOUND, "'%s': 'model_type' is not there", config->path);
    for (size_t i = 0; i < LENGTH(architectures); i++)
        if (strcmp(architectures[i].model_type, type) == 0) s.architecture = &architectures[i];
    if (!s.architecture)
        rf_pretrained_config_refuse(
            config, "model_type",
            ", of which no GGUF files are made; they are of llama, mistral, qwen2, qwen3 and gpt2");
    RF_TRY(rf_pretrained_config_status(config));
    out->architecture = s.architecture;
    rf_gguf_put_text(v, "general.architecture", s.architecture->name);
    RF_TRY(s.architecture->names == gpt2_names ? describe_gpt2(&s, out) : describe_decoder(&s, out));
    RF_TRY(rf_pretrained_config_status(config));
    return v->status;
}

rf_result rf_gguf_find_name(const rf_gguf_model *model, const char *hub, const rf_gguf_name **row, char **name)
{
    const rf_gguf_architecture *a = model->architecture;
    const size_t length = strlen(a->prefix);
    const char *plain = strncmp(hub, a->prefix, length) == 0 ? hub + length : hub;
    *name = NULL;
    for (uint32_t i = 0; i < a->num_names; i++) {
        rf_name_numbers numbers;
        *row = &a->names[i];
        if (!rf_name_match(a->names[i].hub, plain, &numbers)) continue;
        if (!a->names[i].gguf) return RF_OK;
        *name = rf_name_fill(a->names[i].gguf, &numbers);
        return *name ? RF_OK : RF_ERROR_OUT_OF_HOST_MEMORY;
    }
    return RF_FAIL(RF_ERROR_UNSUPPORTED, "tensor '%.200s' has no name in a GGUF file of architecture '%s'", hub,
                   a->name);
}
