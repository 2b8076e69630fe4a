/* SPDX-License-Identifier: Apache-2.0 */
#include "pretrained/encoder.h"

#include "pretrained/config.h"

/* ---- layers ---- */

static rf_symbol add_embeddings(const rf_blocks *b, const rf_encoder *e, rf_symbol ids, rf_symbol types,
                                rf_layer **table)
{
    rf_layer *of_types;
    rf_symbol x = rf_block_embedding(b, ids, e->vocabulary, e->width, "word_embeddings", table);
    if (e->types > 0)
        x = rf_block_add(b, x, rf_block_embedding(b, types, e->types, e->width, "token_type_embeddings", &of_types));
    x = rf_block_positions(b, x, (rf_symbol){ 0, 0 }, e->positions, "position_embeddings");
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

static rf_symbol add_pooler(const rf_blocks *b, const rf_encoder *e, rf_symbol x)
{
    return rf_block_dense(b, rf_block_first_step(b, x), e->width, e->pooler_activation, RF_WITH_BIAS, "pooler");
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
    const int32_t classes = rf_pretrained_config_count(b->config, "id2label", 2);
    x = rf_block_dropout(b, add_pooler(b, e, x), e->classifier_dropout);
    return rf_block_dense(b, x, classes, RF_ACTIVATION_LINEAR, RF_WITH_BIAS, "classifier");
}

static void add_output(rf_pretrained_outputs *outputs, rf_symbol x, const char *name)
{
    outputs->symbol[outputs->count] = x;
    outputs->name[outputs->count++] = name;
}

void rf_encoder_build(const rf_blocks *b, const rf_encoder *e, const char *heads_key, rf_pretrained_outputs *outputs)
{
    if (e->width % e->heads != 0)
        rf_pretrained_config_refuse(b->config, heads_key, ", which does not divide the width");
    const rf_shape steps = RF_SHAPE(rf_pretrained_config_steps(b->config, e->positions));
    const rf_symbol ids = rf_model_builder_input(b->builder, RF_I32, steps, "input_ids");
    const rf_symbol mask = rf_model_builder_input(b->builder, RF_I32, steps, "attention_mask");
    const rf_symbol types =
        e->types > 0 ? rf_model_builder_input(b->builder, RF_I32, steps, "token_type_ids") : (rf_symbol){ 0, 0 };
    rf_layer *table;
    rf_symbol x = add_embeddings(b, e, ids, types, &table);
    for (int32_t i = 0; i < e->layers && rf_pretrained_config_status(b->config) >= 0; i++)
        x = add_layer(b, e, x, mask, i);
    switch (e->kind) {
    case RF_ENCODER_MASKED_LM: add_output(outputs, add_predictions(b, e, x, table), "logits"); break;
    case RF_ENCODER_CLASSIFIER: add_output(outputs, add_classifier(b, e, x), "logits"); break;
    default:
        add_output(outputs, x, "last_hidden_state");
        if (e->pooler) add_output(outputs, add_pooler(b, e, x), "pooler_output");
    }
}
