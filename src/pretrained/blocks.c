/* SPDX-License-Identifier: Apache-2.0 */
#include "pretrained/blocks.h"

#include <stdio.h>
#include <string.h>

#include "pretrained/config.h"

static const rf_symbol no_symbol = { 0, 0 };

/* The result of a constructor, and the call of what it has made. */
static rf_symbol call_many(const rf_blocks *b, rf_result made, rf_layer *layer, const rf_symbol *in, uint32_t num_in)
{
    rf_pretrained_config_fail(b->config, made);
    return made < 0 ? no_symbol : rf_model_builder_call_many(b->builder, layer, in, num_in);
}

static rf_symbol call_one(const rf_blocks *b, rf_result made, rf_layer *layer, rf_symbol x)
{
    return call_many(b, made, layer, &x, 1);
}

rf_symbol rf_block_dense(const rf_blocks *b, rf_symbol x, int32_t units, rf_activation activation, rf_bias_use bias,
                         const char *name)
{
    rf_layer *layer = NULL;
    const rf_dense_params params = {
        .units = units, .activation = activation, .no_bias = bias == RF_WITHOUT_BIAS, .name = name
    };
    const rf_result made = rf_layer_dense(&params, &layer);
    return call_one(b, made, layer, x);
}

rf_symbol rf_block_layer_norm(const rf_blocks *b, rf_symbol x, double epsilon, const char *name)
{
    rf_layer *layer = NULL;
    const rf_result made = rf_layer_layer_norm(&(rf_layer_norm_params){ .epsilon = epsilon, .name = name }, &layer);
    return call_one(b, made, layer, x);
}

rf_symbol rf_block_rms_norm(const rf_blocks *b, rf_symbol x, const rf_rms_norm_params *params)
{
    rf_layer *layer = NULL;
    const rf_result made = rf_layer_rms_norm(params, &layer);
    return call_one(b, made, layer, x);
}

rf_symbol rf_block_attention(const rf_blocks *b, rf_symbol x, rf_symbol mask,
                             const rf_multi_head_attention_params *params)
{
    rf_layer *layer = NULL;
    rf_symbol y = no_symbol;
    const rf_result made = rf_layer_multi_head_attention(params, &layer);
    rf_pretrained_config_fail(b->config, made);
    if (made >= 0) (void)rf_model_builder_apply(b->builder, layer, &x, 1, mask, &y, 1);
    return y;
}

rf_symbol rf_block_first_step(const rf_blocks *b, rf_symbol x)
{
    rf_layer *layer = NULL;
    const rf_result made = rf_layer_select_step(0, &layer);
    return call_one(b, made, layer, x);
}

rf_symbol rf_block_add(const rf_blocks *b, rf_symbol x, rf_symbol y)
{
    rf_layer *layer = NULL;
    const rf_result made = rf_layer_add(&layer);
    return call_many(b, made, layer, (rf_symbol[]){ x, y }, 2);
}

rf_symbol rf_block_multiply(const rf_blocks *b, rf_symbol x, rf_symbol y)
{
    rf_layer *layer = NULL;
    const rf_result made = rf_layer_multiply(&layer);
    return call_many(b, made, layer, (rf_symbol[]){ x, y }, 2);
}

rf_symbol rf_block_scale(const rf_blocks *b, rf_symbol x, double scale)
{
    rf_layer *layer = NULL;
    const rf_result made = rf_layer_rescaling((float)scale, 0, &layer);
    return call_one(b, made, layer, x);
}

rf_symbol rf_block_activate(const rf_blocks *b, rf_symbol x, rf_activation activation)
{
    rf_layer *layer = NULL;
    const rf_result made = rf_layer_activation(activation, &layer);
    return call_one(b, made, layer, x);
}

rf_symbol rf_block_dropout(const rf_blocks *b, rf_symbol x, double rate)
{
    rf_layer *layer = NULL;
    if (rate == 0.0) return x;
    const rf_result made = rf_layer_dropout((float)rate, 0, &layer);
    return call_one(b, made, layer, x);
}

rf_symbol rf_block_embedding(const rf_blocks *b, rf_symbol ids, int32_t rows, int32_t width, const char *name,
                             rf_layer **layer)
{
    *layer = NULL;
    const rf_embedding_params params = { .input_dim = rows, .output_dim = width, .name = name };
    const rf_result made = rf_layer_embedding(&params, layer);
    return call_one(b, made, *layer, ids);
}

rf_symbol rf_block_positions(const rf_blocks *b, rf_symbol x, int32_t rows, const char *name)
{
    return rf_block_packed_positions(b, x, no_symbol, rows, name);
}

rf_symbol rf_block_packed_positions(const rf_blocks *b, rf_symbol x, rf_symbol packed, int32_t rows, const char *name)
{
    rf_layer *layer = NULL;
    const rf_result made = rf_layer_position_embedding(rows, NULL, name, &layer);
    return call_many(b, made, layer, (rf_symbol[]){ x, packed }, packed.id != 0 ? 2 : 1);
}

rf_symbol rf_block_packed(const rf_blocks *b, int32_t steps)
{
    if (!rf_pretrained_config_packed(b->config)) return no_symbol;
    return rf_model_builder_input(b->builder, RF_I32, RF_SHAPE(steps), "position_ids");
}

rf_symbol rf_block_token_positions(const rf_blocks *b, rf_symbol ids, int32_t padding)
{
    rf_layer *layer = NULL;
    const rf_result made = rf_layer_token_positions(padding, &layer);
    return call_one(b, made, layer, ids);
}

rf_symbol rf_block_ones(const rf_blocks *b, rf_symbol ids)
{
    rf_layer *layer = NULL, *column = NULL;
    rf_result made = rf_layer_not_equal(INT32_MIN, &layer); /* which no token is */
    const rf_symbol ones = call_one(b, made, layer, ids);
    made = rf_layer_reshape(RF_SHAPE(-1, 1), &column);
    return call_one(b, made, column, ones);
}

rf_symbol rf_block_head(const rf_blocks *b, rf_symbol x, rf_layer *embedding, int32_t vocabulary, const char *name)
{
    if (embedding) return rf_block_shared_head(b, x, embedding, RF_WITHOUT_BIAS, name);
    return rf_block_dense(b, x, vocabulary, RF_ACTIVATION_LINEAR, RF_WITHOUT_BIAS, name);
}

rf_symbol rf_block_shared_head(const rf_blocks *b, rf_symbol x, rf_layer *embedding, rf_bias_use bias, const char *name)
{
    rf_layer *layer = NULL;
    const rf_result made = rf_layer_embedding_head(embedding, bias, name, &layer);
    return call_one(b, made, layer, x);
}

void rf_block_enter(const rf_blocks *b, const char *name, int32_t index)
{
    char number[16];
    (void)rf_model_builder_enter_scope(b->builder, name);
    snprintf(number, sizeof(number), "%d", (int)index);
    if (index >= 0) (void)rf_model_builder_enter_scope(b->builder, number);
}

void rf_block_leave(const rf_blocks *b, int32_t index)
{
    if (index >= 0) (void)rf_model_builder_leave_scope(b->builder);
    (void)rf_model_builder_leave_scope(b->builder);
}

void rf_block_output(rf_pretrained_outputs *outputs, rf_symbol x, const char *name)
{
    outputs->symbol[outputs->count] = x;
    outputs->name[outputs->count++] = name;
}

double rf_block_rate(const rf_blocks *b, const char *key, double fallback)
{
    const double rate = rf_pretrained_config_number(b->config, key, fallback);
    if (rate >= 0.0 && rate < 1.0) return rate;
    rf_pretrained_config_refuse(b->config, key, ", not a rate from 0 to below 1");
    return 0.0;
}

uint32_t rf_block_class(const rf_blocks *b, const char *const *classes, uint32_t count)
{
    static const char key[] = "architectures.0";
    uint32_t found = 0;
    if (b->config->num_classes > 0) {
        (void)rf_pretrained_config_text(b->config, key);
        while (found < count && !strstr(classes[found], "Classification")) found++;
        found = found < count ? found : 0;
    } else {
        found = rf_pretrained_config_choice(b->config, key, classes, count, 0);
    }
    b->config->class_name = classes[found];
    return found;
}
