/* SPDX-License-Identifier: Apache-2.0 */
#include "table.h"

#include <stdlib.h>
#include <string.h>

#include "text.h"

bool table_begin(table *t, const char *const *headings, uint32_t num_columns)
{
    const char *cells[TABLE_COLUMNS];
    memset(t, 0, sizeof(*t));
    t->num_columns = num_columns < TABLE_COLUMNS ? num_columns : TABLE_COLUMNS;
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

static int column_width(const table *t, uint32_t column)
{
    int width = 0;
    for (uint32_t r = 0; r < t->num_rows; r++) {
        const int own = text_width(t->rows[r][column]);
        if (own > width) width = own;
    }
    return width;
}

void table_print(const table *t, FILE *out)
{
    int widths[TABLE_COLUMNS];
    for (uint32_t c = 0; c < t->num_columns; c++) widths[c] = column_width(t, c);
    for (uint32_t r = 0; r < t->num_rows; r++) {
        uint32_t count = t->num_columns; /* no spaces at the ends of lines */
        while (count > 0 && !t->rows[r][count - 1][0]) count--;
        for (uint32_t c = 0; c < count; c++) {
            const char *text = t->rows[r][c];
            const int room = widths[c] - text_width(text);
            if (t->right[c]) fprintf(out, "%*s", room, "");
            fputs(text, out);
            if (!t->right[c] && c + 1 < count) fprintf(out, "%*s", room, "");
            if (c + 1 < count) fputs("  ", out);
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
