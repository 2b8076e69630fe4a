/* SPDX-License-Identifier: Apache-2.0 */
/* Names and settings of models in GGUF files: what llama.cpp asks for, by architecture. */
#include <math.h>
#include <stddef.h>
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
#define SIZE(GGUF, HUB, FIELD)                                                                                         \
    {                                                                                                                  \
        GGUF, HUB, offsetof(rf_decoder, FIELD)                                                                         \
    }
/* Rows with the same key of config.json have to agree. */
static const rf_gguf_setting decoder_settings[] = {
    SIZE("block_count", "num_hidden_layers", layers),
    SIZE("context_length", "max_position_embeddings", positions),
    SIZE("embedding_length", "hidden_size", width),
    SIZE("feed_forward_length", "intermediate_size", inner),
    SIZE("attention.head_count", "num_attention_heads", heads),
    { "attention.head_count_kv", "num_key_value_heads", offsetof(rf_decoder, key_value_heads), .optional = true },
    { "attention.key_length", "head_dim", offsetof(rf_decoder, key_dim), .optional = true },
    { "attention.value_length", "head_dim", offsetof(rf_decoder, key_dim), .optional = true },
    { "rope.dimension_count", "head_dim", offsetof(rf_decoder, key_dim), .optional = true },
    { "vocab_size", "vocab_size", offsetof(rf_decoder, vocabulary), .optional = true },
    { "attention.layer_norm_rms_epsilon", "rms_norm_eps", offsetof(rf_decoder, epsilon), .number = true },
    { "rope.freq_base", "rope_theta", offsetof(rf_decoder, rotary_base), .number = true, .optional = true },
};
static const rf_gguf_setting gpt2_settings[] = {
    SIZE("block_count", "n_layer", layers),
    SIZE("context_length", "n_positions", positions),
    SIZE("embedding_length", "n_embd", width),
    SIZE("feed_forward_length", "n_inner", inner),
    SIZE("attention.head_count", "n_head", heads),
    { "attention.layer_norm_epsilon", "layer_norm_epsilon", offsetof(rf_decoder, epsilon), .number = true },
};
#define DECODER(TYPE, NAME, CLASS)                                                                                     \
    .model_type = (TYPE), .name = (NAME), .prefix = "model.", .classes = { CLASS "ForCausalLM", CLASS "Model" },       \
    .names = decoder_names, .num_names = LENGTH(decoder_names), .settings = decoder_settings,                          \
    .num_settings = LENGTH(decoder_settings)

/* Mistral is Llama there, without its window. */
static const rf_gguf_architecture architectures[] = {
    { DECODER("llama", "llama", "Llama"), .pairs = true, .attention_bias = true, .mlp_bias = true },
    { DECODER("mistral", "llama", "Mistral"), .pairs = true },
    { DECODER("qwen2", "qwen2", "Qwen2") },
    { DECODER("qwen3", "qwen3", "Qwen3") },
    { .model_type = "gpt2",
      .name = "gpt2",
      .prefix = "transformer.",
      .classes = { "GPT2LMHeadModel", "GPT2Model" },
      .names = gpt2_names,
      .num_names = LENGTH(gpt2_names),
      .settings = gpt2_settings,
      .num_settings = LENGTH(gpt2_settings) },
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

static void put_settings(const settings *s, const rf_decoder *d)
{
    char key[96];
    for (uint32_t i = 0; i < s->architecture->num_settings; i++) {
        const rf_gguf_setting *row = &s->architecture->settings[i];
        const char *at = (const char *)d + row->place;
        if (row->number)
            rf_gguf_put_f32(s->values, own_key(s, row->gguf, key), *(const double *)(const void *)at);
        else
            rf_gguf_put_u32(s->values, own_key(s, row->gguf, key), (uint32_t) * (const int32_t *)(const void *)at);
    }
}

/* ---- rotary frequencies ---- */

/* 1 for short waves, the factor for long ones, and what lies between for the others. */
void rf_gguf_divisors(const rf_rotary_params *rotary, double base, uint32_t width, float *out)
{
    const double pi = 3.14159265358979323846, low = rotary->low_frequency_factor, high = rotary->high_frequency_factor;
    for (uint32_t i = 0; i < width / 2; i++) {
        const double wave = 2 * pi * pow(base, 2.0 * i / width);
        const double way = (rotary->original_length / wave - low) / (high - low);
        const double share = way < 0 ? 0 : way > 1 ? 1 : way;
        out[i] = (float)(1 / ((1 - share) / rotary->factor + share));
    }
}

static bool has_divisors(const rf_rotary_params *rotary, const float *divisors, double base, uint32_t width)
{
    float *made = RF_NEW_ARRAY(float, width / 2);
    bool same = made != NULL;
    if (made) rf_gguf_divisors(rotary, base, width, made);
    for (uint32_t i = 0; same && i < width / 2; i++) same = fabsf(made[i] - divisors[i]) <= 1e-3F * divisors[i];
    rf_free(made);
    return same;
}

/* The length of which the divisor in the middle between 1 and the factor tells most. */
static double find_length(const float *divisors, double factor, double base, uint32_t width)
{
    const double pi = 3.14159265358979323846;
    double length = 0, best = INFINITY;
    for (uint32_t i = 0; i < width / 2; i++) {
        const double share = (1.0 / divisors[i] - 1 / factor) / (1 - 1 / factor), off = fabs(share - 0.5);
        if (!(off < best || (off == best && share == 1))) continue;
        best = off;
        length = 2 * pi * pow(base, 2.0 * i / width) * (1 + 3 * share);
        length = share == 1 ? ceil(length) : round(length);
    }
    return length;
}

/* A file has neither the length nor the bounds, which are 1 and 4 in all of Llama 3. */
bool rf_gguf_fit_divisors(const float *divisors, double base, uint32_t width, rf_rotary_params *out)
{
    *out = (rf_rotary_params){ .scaling = RF_ROTARY_LLAMA3,
                               .original_length = 8192,
                               .factor = 1,
                               .low_frequency_factor = 1,
                               .high_frequency_factor = 4 };
    for (uint32_t i = 0; i < width / 2; i++) {
        if (!(divisors[i] >= 1 && divisors[i] < 1e6F)) return false;
        if (divisors[i] > out->factor) out->factor = divisors[i];
    }
    if (has_divisors(out, divisors, base, width)) return true;
    const double length = find_length(divisors, out->factor, base, width);
    if (!(length >= 1 && length <= INT32_MAX)) return false;
    out->original_length = (int32_t)length;
    return has_divisors(out, divisors, base, width);
}

static rf_result put_rotary(const settings *s, const rf_decoder *d, rf_gguf_model *out)
{
    char key[96];
    switch (d->rotary.scaling) {
    case RF_ROTARY_LLAMA3:
        if (!s->architecture->pairs) {
            rf_pretrained_config_refuse(s->config, "rope_scaling", ", which llama.cpp has for Llama alone");
            break;
        }
        out->num_frequencies = (uint32_t)d->key_dim / 2;
        RF_TRY(RF_ARENA_ARRAY(&s->values->arena, out->frequencies, out->num_frequencies));
        rf_gguf_divisors(&d->rotary, d->rotary_base, (uint32_t)d->key_dim, out->frequencies);
        break;
    case RF_ROTARY_LINEAR:
        rf_gguf_put_text(s->values, own_key(s, "rope.scaling.type", key), "linear");
        rf_gguf_put_f32(s->values, own_key(s, "rope.scaling.factor", key), d->rotary.factor);
        break;
    case RF_ROTARY_DYNAMIC:
        rf_pretrained_config_refuse(s->config, "rope_scaling", ", which llama.cpp does not have");
        break;
    default: break;
    }
    return RF_OK;
}

/* ---- architectures ---- */

static rf_result describe_decoder(const settings *s, rf_gguf_model *out)
{
    rf_pretrained_config *c = s->config;
    const rf_blocks b = { .config = c };
    const rf_decoder d = rf_decoder_read(&b, s->architecture->classes);
    if (d.key_dim > MOST_HEAD) rf_pretrained_config_refuse(c, "head_dim", ", more than 65536");
    if (!d.head) rf_pretrained_config_refuse(c, "architectures", ", which has no head: GGUF files are language models");
    if (d.activation != RF_ACTIVATION_SILU)
        rf_pretrained_config_refuse(c, "hidden_act", ", but llama.cpp computes this architecture with silu");
    if (rf_pretrained_config_flag(c, "use_sliding_window", false))
        rf_pretrained_config_refuse(c, "use_sliding_window", ", which llama.cpp does not have here");
    if (!s->architecture->attention_bias && rf_pretrained_config_flag(c, "attention_bias", false))
        rf_pretrained_config_refuse(c, "attention_bias", ", which llama.cpp does not have here");
    put_settings(s, &d);
    out->heads = (uint32_t)d.heads;
    out->key_heads = (uint32_t)d.key_value_heads;
    out->vocabulary = (uint32_t)d.vocabulary;
    out->tied = d.tied;
    RF_TRY(rf_pretrained_config_status(c));
    return put_rotary(s, &d, out);
}

static rf_result describe_gpt2(const settings *s, rf_gguf_model *out)
{
    rf_pretrained_config *c = s->config;
    const rf_blocks b = { .config = c };
    rf_decoder d = { 0 };
    d.width = rf_pretrained_config_size(c, "n_embd", 768);
    d.heads = rf_pretrained_config_size(c, "n_head", 12);
    d.inner = rf_pretrained_config_size(c, "n_inner", d.width <= INT32_MAX / 4 ? 4 * d.width : 1);
    d.layers = rf_pretrained_config_layers(c, "n_layer", 12);
    d.positions = rf_pretrained_config_size(c, "n_positions", 1024);
    d.epsilon = rf_pretrained_config_number(c, "layer_norm_epsilon", 1e-5);
    if (rf_block_class(&b, s->architecture->classes, 2) != 0)
        rf_pretrained_config_refuse(c, "architectures", ", which has no head: GGUF files are language models");
    if (rf_pretrained_config_activation(c, "activation_function", RF_ACTIVATION_GELU_TANH) != RF_ACTIVATION_GELU_TANH)
        rf_pretrained_config_refuse(c, "activation_function", ", but llama.cpp computes GPT-2 with gelu_new");
    if (!rf_pretrained_config_flag(c, "scale_attn_weights", true))
        rf_pretrained_config_refuse(c, "scale_attn_weights", ", but llama.cpp scales attention");
    if (rf_pretrained_config_flag(c, "scale_attn_by_inverse_layer_idx", false))
        rf_pretrained_config_refuse(c, "scale_attn_by_inverse_layer_idx", ", which llama.cpp does not have");
    put_settings(s, &d);
    out->heads = out->key_heads = (uint32_t)d.heads;
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

const rf_gguf_architecture *rf_gguf_find_architecture(const char *name)
{
    for (size_t i = 0; i < LENGTH(architectures); i++)
        if (strcmp(architectures[i].name, name) == 0) return &architectures[i];
    return NULL;
}

rf_result rf_gguf_find_hub_name(const rf_gguf_architecture *a, const char *gguf, const rf_gguf_name **row, char **name)
{
    for (uint32_t i = 0; i < a->num_names; i++) {
        rf_name_numbers numbers;
        *row = &a->names[i];
        if (!a->names[i].gguf || !rf_name_match(a->names[i].gguf, gguf, &numbers)) continue;
        char *plain = rf_name_fill(a->names[i].hub, &numbers);
        *name = plain ? rf_asprintf("%s%s", a->names[i].change == RF_GGUF_IF_UNTIED ? "" : a->prefix, plain) : NULL;
        rf_free(plain);
        return *name ? RF_OK : RF_ERROR_OUT_OF_HOST_MEMORY;
    }
    return RF_FAIL(RF_ERROR_UNSUPPORTED, "tensor '%.200s' has no place in a model of architecture '%s'", gguf, a->name);
}

uint64_t rf_gguf_row_in_hub(uint64_t row, uint64_t rows, uint64_t heads)
{
    const uint64_t head = rows / heads, place = row % head;
    return row - place + place % 2 * (head / 2) + place / 2;
}

uint64_t rf_gguf_row_in_file(uint64_t row, uint64_t rows, uint64_t heads)
{
    const uint64_t head = rows / heads, place = row % head;
    return row - place + place % (head / 2) * 2 + place / (head / 2);
}
