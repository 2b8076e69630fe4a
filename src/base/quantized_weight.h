/* SPDX-License-Identifier: Apache-2.0 */
/* Variables that are stored in few bits: weights of products that no optimizer updates. */
#ifndef RF_BASE_QUANTIZED_WEIGHT_H
#define RF_BASE_QUANTIZED_WEIGHT_H

#include <ringfire/strategy.h>

#include "base/error.h"
#include "base/quantize.h"

/* A weight as products use it: a matrix of so many rows. `table`: rows are what they add up along. */
typedef struct rf_weight_matrix {
    int64_t rows;
    bool table;
} rf_weight_matrix;

/* How a variable lies in its store. Lines of the matrix are what products add up along: the columns of a kernel
 * [in, ..., out], and the rows of a table. */
typedef struct rf_variable_matrix {
    rf_quantization kind;
    rf_quantized_layout layout;
    bool turned;   /* lines are columns */
    bool assigned; /* since it got its first values */
} rf_variable_matrix;

/* The rules of rf_strategy_set_quantization(). */
typedef struct rf_quantize_rules {
    rf_quantization kind;
    char **names;
    uint32_t num_names;
} rf_quantize_rules;
rf_result rf_quantize_rules_set(rf_quantize_rules *rules, const rf_quantize_params *params, const char *function);
void rf_quantize_rules_clear(rf_quantize_rules *rules);
/* Which form the rules give a weight; RF_QUANTIZATION_NONE: f32. Pure. */
rf_quantization rf_quantize_rules_find(const rf_quantize_rules *rules, const char *name, bool table);

/* NULL without memory, or where it is too large. */
rf_variable_matrix *rf_variable_matrix_make(rf_quantization kind, rf_shape shape, rf_weight_matrix is);
/* The words of a variable's values, or their values; `values` and `words` are whole. */
rf_result rf_variable_matrix_pack(const rf_variable_matrix *m, const char *name, const float *values, void *words);
rf_result rf_variable_matrix_unpack(const rf_variable_matrix *m, const void *words, float *values);

#endif
