/* SPDX-License-Identifier: Apache-2.0 */
/* Layers that architectures are made of. A layer that cannot be made fails the configuration, and gives no symbol. */
#ifndef RF_PRETRAINED_BLOCKS_H
#define RF_PRETRAINED_BLOCKS_H

#include <ringfire/pretrained.h>

typedef struct rf_blocks {
    rf_pretrained_config *config;
    rf_model_builder *builder;
} rf_blocks;

rf_symbol rf_block_dense(const rf_blocks *b, rf_symbol x, int32_t units, rf_activation activation, rf_bias_use bias,
                         const char *name);
rf_symbol rf_block_layer_norm(const rf_blocks *b, rf_symbol x, double epsilon, const char *name);
rf_symbol rf_block_rms_norm(const rf_blocks *b, rf_symbol x, const rf_rms_norm_params *params);
/* `mask` zeroed: none. */
rf_symbol rf_block_attention(const rf_blocks *b, rf_symbol x, rf_symbol mask,
                             const rf_multi_head_attention_params *params);
rf_symbol rf_block_first_step(const rf_blocks *b, rf_symbol x);
rf_symbol rf_block_add(const rf_blocks *b, rf_symbol x, rf_symbol y);
rf_symbol rf_block_multiply(const rf_blocks *b, rf_symbol x, rf_symbol y);
rf_symbol rf_block_scale(const rf_blocks *b, rf_symbol x, double scale);
rf_symbol rf_block_activate(const rf_blocks *b, rf_symbol x, rf_activation activation);
rf_symbol rf_block_dropout(const rf_blocks *b, rf_symbol x, double rate); /* x itself where the rate is 0 */
/* The rows of a table; *layer is what a head may share. */
rf_symbol rf_block_embedding(const rf_blocks *b, rf_symbol ids, int32_t rows, int32_t width, const char *name,
                             rf_layer **layer);
rf_symbol rf_block_positions(const rf_blocks *b, rf_symbol x, int32_t rows, const char *name);
/* The same with places of rf_block_packed(); where there are none, those of the row. */
rf_symbol rf_block_packed_positions(const rf_blocks *b, rf_symbol x, rf_symbol packed, int32_t rows, const char *name);
/* The input "position_ids" where rows hold several sequences; else no symbol. It is the mask of attention, which gets
 * `packed`. */
rf_symbol rf_block_packed(const rf_blocks *b, int32_t steps);
/* Places of tokens that are padded: rf_layer_token_positions(). */
rf_symbol rf_block_token_positions(const rf_blocks *b, rf_symbol ids, int32_t padding);
/* f32 ones [n, steps, 1] for ids [n, steps]. */
rf_symbol rf_block_ones(const rf_blocks *b, rf_symbol ids);
/* The head of a language model: the table of `embedding`, or with NULL a dense layer without bias. */
rf_symbol rf_block_head(const rf_blocks *b, rf_symbol x, rf_layer *embedding, int32_t vocabulary, const char *name);
rf_symbol rf_block_shared_head(const rf_blocks *b, rf_symbol x, rf_layer *embedding, rf_bias_use bias,
                               const char *name);
/* Layers that follow are below "NAME" or "NAME/INDEX", until rf_block_leave(); index below 0: none. */
void rf_block_enter(const rf_blocks *b, const char *name, int32_t index);
void rf_block_leave(const rf_blocks *b, int32_t index);
/* A probability that a configuration gives; 0 after a failure. */
double rf_block_rate(const rf_blocks *b, const char *key, double fallback);
void rf_block_output(rf_pretrained_outputs *outputs, rf_symbol x, const char *name);
/* The class that `architectures` names: one of `classes`, the first where it says nothing. Where a number of classes is
 * asked for, it is the classifier. */
uint32_t rf_block_class(const rf_blocks *b, const char *const *classes, uint32_t count);

#endif
