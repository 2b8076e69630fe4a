/* SPDX-License-Identifier: Apache-2.0 */
#include "pretrained/encoder.h"

#include "pretrained/config.h"

/* ---- configurations ---- */

rf_encoder rf_encoder_read_bert(const rf_blocks *b, const char *const *classes)
{
    static const char *const positions[] = { "absolute" };
    rf_pretrained_config *c = b->config;
    rf_encoder e = { .kind = (rf_encoder_kind)rf_block_class(b, classes, RF_ENCODER_KINDS), .pooler = true };
    e.width = rf_pretrained_config_size(c, "hidden_size", 768);
    e.inner = rf_pretrained_config_size(c, "intermediate_size", 3072);
    e.layers = rf_pretrained_config_layers(c, "num_hidden_layers", 12);
    e.heads = rf_pretrained_config_size(c, "num_attention_heads", 12);
    e.vocabulary = rf_pretrained_config_size(c, "vocab_size", 30522);
    e.positions = rf_pretrained_config_size(c, "max_position_embeddings", 512);
    e.types = rf_pretrained_config_size(c, "type_vocab_size", 2);
    e.epsilon = rf_pretrained_config_number(c, "layer_norm_eps", 1e-12);
    e.dropout = rf_block_rate(b, "hidden_dropout_prob", 0.1);
    e.attention_dropout = rf_block_rate(b, "attention_probs_dropout_prob", 0.1);
    e.classifier_dropout = rf_block_rate(b, "classifier_dropout", e.dropout);
    e.activation = rf_pretrained_config_activation(c, "hidden_act", RF_ACTIVATION_GELU);
    e.pooler_activation = RF_ACTIVATION_TANH;
    (void)rf_pretrained_config_choice(c, "position_embedding_type", positions, 1, 0);
    if (rf_pretrained_config_flag(c, "is_decoder", false))
        rf_pretrained_config_refuse(c, "is_decoder", "; only encoders can be opened");
    return e;
}

/* ---- layers ---- */

static bool has_type_input(const rf_encoder *e)
{
    return e->types > (e->padded_positions ? 1 : 0);
}

/* The row that all tokens get, as the product of a kernel [1, width] with ones: RoBERTa's tokens are of one type, and
 * its tokenizers do not give it. */
static rf_symbol add_only_type(const rf_blocks *b, const rf_encoder *e, rf_symbol ids)
{
    const rf_symbol ones = rf_block_ones(b, ids);
    return rf_block_dense(b, ones, e->width, RF_ACTIVATION_LINEAR, RF_WITHOUT_BIAS, "token_type_embeddings");
}

static rf_symbol add_embeddings(const rf_blocks *b, const rf_encoder *e, rf_symbol ids, rf_symbol types,
                                rf_layer **table)
{
    rf_layer *of_types, *of_places;
    rf_symbol x = rf_block_embedding(b, ids, e->vocabulary, e->width, "word_embeddings", table);
    if (has_type_input(e))
        x = rf_block_add(b, x, rf_block_embedding(b, types, e->types, e->width, "token_type_embeddings", &of_types));
    else if (e->types == 1)
        x = rf_block_add(b, x, add_only_type(b, e, ids));
    if (e->padded_positions)
        x = rf_block_add(b, x,
                         rf_block_embedding(b, rf_block_token_positions(b, ids, e->padding), e->positions, e->width,
                                            "position_embeddings", &of_places));
    else
        x = rf_block_positions(b, x, e->positions, "position_embeddings");
    return rf_block_dropout(b, rf_block_layer_norm(b, x, e->epsilon, "embeddings_norm"), e->dropout);
}

static rf_symbol add_layer(const rf_blocks *b, const rf_encoder *e, rf_symbol x, rf_symbol mask, int32_t index)
{
    const rf_multi_head_attention_params attention = { .num_heads = e->heads,
                                                       .key_dim = e->width / e->heads,
                                                       .dropout = (float)e->attention_dropout,
                                                       .name = "attention" };
    rf_block_enter(b, "layer", index);
    rf_symbol y = rf_block_dropout(b, rf_block_attention(b, x, mask, &attention), e->dropout);
    x = rf_block_layer_norm(b, rf_block_add(b, x, y), e->epsilon, "attention_norm");
    y = rf_block_dense(b, x, e->inner, e->activation, RF_WITH_BIAS, "intermediate");
    y = rf_block_dense(b, y, e->width, RF_ACTIVATION_LINEAR, RF_WITH_BIAS, "output");
    x = rf_block_layer_norm(b, rf_block_add(b, x, rf_block_dropout(b, y, e->dropout)), e->epsilon, "output_norm");
    rf_block_leave(b, index);
    return x;
}

/* ---- heads ---- */

static rf_symbol add_pooler(const rf_blocks *b, const rf_encoder *e, rf_symbol x, const char *name)
{
    const rf_symbol first = rf_block_dropout(b, rf_block_first_step(b, x), e->pooler_dropout);
    return rf_block_dense(b, first, e->width, e->pooler_activation, RF_WITH_BIAS, name);
}

static rf_symbol add_predictions(const rf_blocks *b, const rf_encoder *e, rf_symbol x, rf_layer *table)
{
    if (!rf_pretrained_config_flag(b->config, "tie_word_embeddings", true))
        rf_pretrained_config_refuse(b->config, "tie_word_embeddings", "; the head shares the table of words");
    x = rf_block_dense(b, x, e->width, e->activation, RF_WITH_BIAS, "transform");
    x = rf_block_layer_norm(b, x, e->epsilon, "transform_norm");
    return rf_block_shared_head(b, x, table, RF_WITH_BIAS, "predictions");
}

static rf_symbol add_classifier(const rf_blocks *b, const rf_encoder *e, rf_symbol x)
{
    const int32_t classes = rf_pretrained_config_classes(b->config, "id2label", 2);
    x = rf_block_dropout(b, add_pooler(b, e, x, e->own_pooler ? "classifier_dense" : "pooler"), e->classifier_dropout);
    return rf_block_dense(b, x, classes, RF_ACTIVATION_LINEAR, RF_WITH_BIAS, "classifier");
}

void rf_encoder_build(const rf_blocks *b, const rf_encoder *e, const char *heads_key, rf_pretrained_outputs *outputs)
{
    if (e->width % e->heads != 0)
        rf_pretrained_config_refuse(b->config, heads_key, ", which does not divide the width");
    const int32_t places = e->positions - (e->padded_positions ? e->padding + 1 : 0);
    const rf_shape steps = RF_SHAPE(rf_pretrained_config_steps(b->config, places > 0 ? places : 1));
    const rf_symbol ids = rf_model_builder_input(b->builder, RF_I32, steps, "input_ids");
    const rf_symbol mask = rf_model_builder_input(b->builder, RF_I32, steps, "attention_mask");
    const rf_symbol types =
        has_type_input(e) ? rf_model_builder_input(b->builder, RF_I32, steps, "token_type_ids") : (rf_symbol){ 0, 0 };
    rf_layer *table;
    rf_symbol x = add_embeddings(b, e, ids, types, &table);
    for (int32_t i = 0; i < e->layers && rf_pretrained_config_status(b->config) >= 0; i++)
        x = add_layer(b, e, x, mask, i);
    switch (e->kind) {
    case RF_ENCODER_MASKED_LM: rf_block_output(outputs, add_predictions(b, e, x, table), "logits"); break;
    case RF_ENCODER_CLASSIFIER: rf_block_output(outputs, add_classifier(b, e, x), "logits"); break;
    default:
        rf_block_output(outputs, x, "last_hidden_state");
        if (e->pooler) rf_block_output(outputs, add_pooler(b, e, x, "pooler"), "pooler_output");
    }
}
