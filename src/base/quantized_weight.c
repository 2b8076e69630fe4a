/* SPDX-License-Identifier: Apache-2.0 */
#include "base/quantized_weight.h"

#include <string.h>

#include "base/error.h"
#include "base/glob.h"
#include "base/memory.h"

/* ---- rules ---- */

void rf_quantize_rules_clear(rf_quantize_rules *rules)
{
    for (uint32_t i = 0; i < rules->num_names; i++) rf_free(rules->names[i]);
    rf_free(rules->names);
    *rules = (rf_quantize_rules){ 0 };
}

rf_result rf_quantize_rules_set(rf_quantize_rules *rules, const rf_quantize_params *params, const char *function)
{
    rf_quantize_rules made = { .kind = params ? params->kind : RF_QUANTIZATION_NONE };
    RF_REQUIRE(made.kind == RF_QUANTIZATION_NONE || rf_quantized_form_of(made.kind),
               "%s: quantization %d does not exist", function, (int)made.kind);
    RF_REQUIRE(!params || params->num_weights == 0 || params->weights, "%s: weights is NULL", function);
    const uint32_t count = params ? params->num_weights : 0;
    made.names = RF_NEW_ARRAY(char *, count);
    rf_result r = made.names ? RF_OK : RF_ERROR_OUT_OF_HOST_MEMORY;
    for (uint32_t i = 0; r >= 0 && i < count; i++) {
        if (!params->weights[i] || !*params->weights[i])
            r = RF_FAIL(RF_ERROR_INVALID_ARGUMENT, "%s: weights[%u] is empty", function, i);
        else if (!(made.names[made.num_names++] = rf_strdup(params->weights[i])))
            r = RF_ERROR_OUT_OF_HOST_MEMORY;
    }
    if (r < 0) {
        rf_quantize_rules_clear(&made);
        return r;
    }
    rf_quantize_rules_clear(rules);
    *rules = made;
    return RF_OK;
}

static bool name_matches(const char *pattern, const char *name)
{
    return rf_glob_matches(pattern, strlen(pattern), name);
}

rf_quantization rf_quantize_rules_find(const rf_quantize_rules *rules, const char *name, bool table)
{
    if (rules->num_names == 0)
        return table || name_matches("*lm_head/kernel", name) ? RF_QUANTIZATION_NONE : rules->kind;
    for (uint32_t i = 0; i < rules->num_names; i++)
        if (name_matches(rules->names[i], name)) return rules->kind;
    return RF_QUANTIZATION_NONE;
}

/* ---- values ---- */

rf_variable_matrix *rf_variable_matrix_make(rf_quantization kind, rf_shape shape, rf_weight_matrix is)
{
    const int64_t count = rf_shape_count(shape);
    if (count < 1 || is.rows < 1 || count % is.rows != 0) return NULL;
    const uint64_t rows = (uint64_t)is.rows, columns = (uint64_t)(count / is.rows);
    rf_variable_matrix *m = RF_NEW(rf_variable_matrix);
    if (!m) return NULL;
    m->kind = kind;
    m->turned = !is.table;
    m->layout = rf_quantized_layout_make(kind, m->turned ? columns : rows, m->turned ? rows : columns);
    return m;
}

/* Lines that are turned at once: their pieces of a row are in one line of the cache. */
enum { TURNED = 16 };

rf_result rf_variable_matrix_pack(const rf_variable_matrix *m, const char *name, const float *values, void *words)
{
    const rf_quantized_layout *l = &m->layout;
    float *lines = m->turned ? RF_NEW_ARRAY(float, TURNED * l->length) : NULL;
    bool fits = true;
    if (m->turned && !lines) return RF_ERROR_OUT_OF_HOST_MEMORY;
    if (!m->turned) fits = rf_quantize_lines(l, 0, l->lines, values, words);
    for (uint64_t at = 0; m->turned && fits && at < l->lines; at += TURNED) {
        const uint64_t n = l->lines - at < TURNED ? l->lines - at : TURNED;
        for (uint64_t k = 0; k < l->length; k++)
            for (uint64_t i = 0; i < n; i++) lines[i * l->length + k] = values[k * l->lines + at + i];
        fits = rf_quantize_lines(l, at, n, lines, words);
    }
    rf_free(lines);
    if (fits) return RF_OK;
    return RF_FAIL(RF_ERROR_INVALID_ARGUMENT,
                   "'%s' has a number that is not finite, or too large for blocks of %s; leave it in f32", name,
                   l->form->name);
}

rf_result rf_variable_matrix_unpack(const rf_variable_matrix *m, const void *words, float *values)
{
    const rf_quantized_layout *l = &m->layout;
    float *line = RF_NEW_ARRAY(float, l->length);
    if (!line) return RF_ERROR_OUT_OF_HOST_MEMORY;
    if (!m->turned) rf_dequantize_lines(l, 0, l->lines, words, values);
    for (uint64_t i = 0; m->turned && i < l->lines; i++) {
        rf_dequantize_lines(l, i, 1, words, line);
        for (uint64_t k = 0; k < l->length; k++) values[k * l->lines + i] = line[k];
    }
    rf_free(line);
    return RF_OK;
}
