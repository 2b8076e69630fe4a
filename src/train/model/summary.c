/* SPDX-License-Identifier: Apache-2.0 */
/* The table of a model's layers. */
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "train/model/model.h"

/* "[n,26,26,32]", "?" for a layer that was never called. */
static void format_output(const rf_summary_row *row, char *buf, size_t size)
{
    if (!row->has_output) {
        snprintf(buf, size, "?");
        return;
    }
    size_t used = (size_t)snprintf(buf, size, row->output.rank > 0 ? "[n" : "[");
    for (int32_t i = 1; i < row->output.rank && used < size; i++) {
        used += (size_t)snprintf(buf + used, size - used, ",%lld", (long long)row->output.dim[i]);
    }
    if (used < size) snprintf(buf + used, size - used, "]");
}

enum { SHAPE_TEXT = 160 };

/* Writes the table, or only counts its bytes when `out` is NULL. */
static size_t write_table(char *out, size_t size, const char *title, const rf_summary_row *rows, uint32_t num_rows,
                          uint64_t not_trainable, int name_width, int shape_width)
{
    char shape[SHAPE_TEXT];
    size_t used = 0;
    uint64_t total = 0;
#define EMIT(...) used += (size_t)snprintf(out ? out + used : NULL, out ? size - used : 0, __VA_ARGS__)
    EMIT("Model: %s\n", title);
    EMIT("%-*s  %-*s  %12s\n", name_width, "layer (type)", shape_width, "output shape", "parameters");
    for (uint32_t i = 0; i < num_rows; i++) {
        const rf_summary_row *row = &rows[i];
        format_output(row, shape, sizeof(shape));
        const int type_width = name_width - (int)strlen(row->name) - 3;
        EMIT("%s (%s)%*s  %-*s  %12llu\n", row->name, row->type, type_width - (int)strlen(row->type), "", shape_width,
             shape, (unsigned long long)row->params);
        total += row->params;
    }
    EMIT("total parameters: %llu\n", (unsigned long long)total);
    if (not_trainable > 0) EMIT("not trainable: %llu\n", (unsigned long long)not_trainable);
#undef EMIT
    return used;
}

rf_result rf_summary_format(const char *title, const rf_summary_row *rows, uint32_t num_rows, uint64_t not_trainable,
                            char **text)
{
    *text = NULL;
    char shape[SHAPE_TEXT];
    size_t name_width = strlen("layer (type)"), shape_width = strlen("output shape");
    for (uint32_t i = 0; i < num_rows; i++) {
        const size_t name = strlen(rows[i].name) + strlen(rows[i].type) + 3;
        if (name > name_width) name_width = name;
        format_output(&rows[i], shape, sizeof(shape));
        if (strlen(shape) > shape_width) shape_width = strlen(shape);
    }
    const size_t size =
        write_table(NULL, 0, title, rows, num_rows, not_trainable, (int)name_width, (int)shape_width) + 1;
    *text = rf_calloc(size, 1);
    if (!*text) return RF_ERROR_OUT_OF_HOST_MEMORY;
    (void)write_table(*text, size, title, rows, num_rows, not_trainable, (int)name_width, (int)shape_width);
    return RF_OK;
}
