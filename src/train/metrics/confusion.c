/* SPDX-License-Identifier: Apache-2.0 */
#include "train/metrics/confusion.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "base/numbers.h"

double rf_confusion_accuracy(const double *matrix, uint32_t classes)
{
    double right = 0.0, all = 0.0;
    for (uint32_t i = 0; i < classes * classes; i++) all += matrix[i];
    for (uint32_t i = 0; i < classes; i++) right += matrix[i * classes + i];
    return all != 0.0 ? right / all : 0.0;
}

/* Divides `count` numbers, of which each is `stride` behind the one before, by their sum. */
static void divide_by_sum(double *numbers, uint32_t count, uint32_t stride)
{
    double sum = 0.0;
    for (uint32_t i = 0; i < count; i++) sum += numbers[i * stride];
    for (uint32_t i = 0; i < count && sum != 0.0; i++) numbers[i * stride] /= sum;
}

void rf_confusion_normalize(double *matrix, uint32_t classes, rf_metric_normalize normalize)
{
    if (normalize == RF_METRIC_NORMALIZE_ALL) divide_by_sum(matrix, classes * classes, 1);
    for (uint32_t i = 0; i < classes && normalize == RF_METRIC_NORMALIZE_LABELS; i++)
        divide_by_sum(matrix + i * classes, classes, 1);
    for (uint32_t i = 0; i < classes && normalize == RF_METRIC_NORMALIZE_PREDICTIONS; i++)
        divide_by_sum(matrix + i, classes, classes);
}

/* ---- as text ---- */

static const char *name_of(const char *const *names, uint32_t index, char *number, size_t size)
{
    if (names) return names[index];
    snprintf(number, size, "%u", index);
    return number;
}

/* Counts without decimals, shares and weights with three. */
static void print_number(char *text, size_t size, double value, bool whole)
{
    rf_number_print(text, size, whole ? "%.0f" : "%.3f", value);
}

/* The widest name, and the widest number or name. */
static void find_widths(const double *matrix, uint32_t classes, const char *const *names, bool whole, int *first,
                        int *others)
{
    char text[64];
    *first = *others = 0;
    for (uint32_t i = 0; i < classes; i++) {
        const int size = (int)strlen(name_of(names, i, text, sizeof(text)));
        if (size > *first) *first = size;
    }
    *others = *first;
    for (uint32_t i = 0; i < classes * classes; i++) {
        print_number(text, sizeof(text), matrix[i], whole);
        if ((int)strlen(text) > *others) *others = (int)strlen(text);
    }
}

/* Right-aligned columns of `width` after two spaces; returns what is behind them. */
static char *print_cell(char *at, const char *text, int width)
{
    return at + sprintf(at, "  %*s", width, text);
}

rf_result rf_confusion_format(const double *matrix, uint32_t classes, const char *const *names, char **text)
{
    char cell[64];
    bool whole = true;
    int first, width;
    for (uint32_t i = 0; i < classes * classes; i++) whole = whole && matrix[i] == floor(matrix[i]);
    find_widths(matrix, classes, names, whole, &first, &width);
    const size_t line = (size_t)first + (size_t)classes * ((size_t)width + 2) + 1;
    char *at = *text = rf_calloc((classes + 1) * line + 1, 1);
    if (!at) return RF_ERROR_OUT_OF_HOST_MEMORY;
    at += sprintf(at, "%*s", first, "");
    for (uint32_t i = 0; i < classes; i++) at = print_cell(at, name_of(names, i, cell, sizeof(cell)), width);
    *at++ = '\n';
    for (uint32_t i = 0; i < classes; i++) {
        at += sprintf(at, "%-*s", first, name_of(names, i, cell, sizeof(cell)));
        for (uint32_t k = 0; k < classes; k++) {
            print_number(cell, sizeof(cell), matrix[i * classes + k], whole);
            at = print_cell(at, cell, width);
        }
        *at++ = '\n';
    }
    return RF_OK;
}
