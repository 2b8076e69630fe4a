/* SPDX-License-Identifier: Apache-2.0 */
/* A table of text cells whose columns are as wide as their content. */
#ifndef RINGFIRE_TABLE_H
#define RINGFIRE_TABLE_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

enum { TABLE_COLUMNS = 20 }; /* the most */

typedef struct table {
    uint32_t num_columns, num_rows, capacity;
    bool right[TABLE_COLUMNS]; /* columns aligned to the right */
    char ***rows;              /* [num_rows][num_columns] */
} table;

/* The headings are the first row. A heading that begins with '>' aligns its column to the right. */
bool table_begin(table *t, const char *const *headings, uint32_t num_columns);
/* `cells` are copied. False when memory ran out. */
bool table_row(table *t, const char *const *cells);
void table_print(const table *t, FILE *out);
void table_free(table *t);

#endif
