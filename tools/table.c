/* SPDX-License-Identifier: Apache-2.0 */
#include "table.h"

#include <stdlib.h>
#include <string.h>

bool table_begin(table *t, const char *const *headings, uint32_t num_columns)
{
    const char *cells[16];
    memset(t, 0, sizeof(*t));
    t->num_columns = num_columns < 16 ? num_columns : 16;
    for (uint32_t i = 0; i < t->num_columns; i++) {
        t->right[i] = headings[i][0] == '>';
        cells[i] = headings[i] + t->right[i];
    }
    return table_row(t, cells);
}

bool table_row(table *t, const char *const *cells)
{
    if (t->num_rows == t->capacity) {
        const uint32_t capacity = t->capacity ? 2 * t->capacity : 16;
        char ***rows = realloc(t->rows, capacity * sizeof(*rows));
        if (!rows) return false;
        t->rows = rows;
        t->capacity = capacity;
    }
    char **row = calloc(t->num_columns + 1, sizeof(*row));
    if (!row) return false;
    t->rows[t->num_rows++] = row;
    for (uint32_t i = 0; i < t->num_columns; i++)
        if (!(row[i] = strdup(cells[i]))) return false;
    return true;
}

void table_print(const table *t, FILE *out)
{
    for (uint32_t r = 0; r < t->num_rows; r++) {
        for (uint32_t c = 0; c < t->num_columns; c++) {
            int width = 0;
            for (uint32_t i = 0; i < t->num_rows; i++) {
                const int length = (int)strlen(t->rows[i][c]);
                if (length > width) width = length;
            }
            const bool last = c + 1 == t->num_columns;
            if (t->right[c])
                fprintf(out, "%*s%s", width, t->rows[r][c], last ? "" : "  ");
            else
                fprintf(out, "%-*s%s", last ? 0 : width, t->rows[r][c], last ? "" : "  ");
        }
        fputc('\n', out);
    }
}

void table_free(table *t)
{
    for (uint32_t r = 0; r < t->num_rows; r++) {
        for (uint32_t c = 0; c < t->num_columns; c++) free(t->rows[r][c]);
        free(t->rows[r]);
    }
    free(t->rows);
    memset(t, 0, sizeof(*t));
}
