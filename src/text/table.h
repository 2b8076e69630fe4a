/* SPDX-License-Identifier: Apache-2.0 */
/* Hash tables: texts that are numbered in the order in which they came, and pairs of numbers. */
#ifndef RF_TEXT_TABLE_H
#define RF_TEXT_TABLE_H

#include "base/error.h"

enum { RF_TABLE_MOST = INT32_MAX };
#define RF_TABLE_NONE UINT32_MAX

/* FNV-1a, which can go on where it stopped. */
#define RF_HASH_START UINT64_C(0xcbf29ce484222325)
static inline uint64_t rf_hash_byte(uint64_t hash, uint8_t byte)
{
    return (hash ^ byte) * UINT64_C(0x100000001b3);
}
uint64_t rf_hash_append(uint64_t hash, const char *bytes, size_t size);

typedef struct rf_string_item {
    uint64_t hash, count; /* `count` is the user's */
    size_t start;         /* in `bytes` */
    uint32_t size;
} rf_string_item;
/* Zeroed: empty. */
typedef struct rf_string_table {
    rf_string_item *items;
    uint32_t count, capacity;
    char *bytes; /* of all, each text followed by a zero */
    size_t used, room;
    uint32_t *slots; /* item + 1; 0: free */
    uint32_t num_slots;
} rf_string_table;

/* The text's number; RF_TABLE_NONE where it is not there. */
uint32_t rf_string_table_find(const rf_string_table *table, const char *bytes, size_t size);
uint32_t rf_string_table_find_hashed(const rf_string_table *table, uint64_t hash, const char *bytes, size_t size);
/* Adds it where it is not there yet. The text may be one of the table's own. */
rf_result rf_string_table_add(rf_string_table *table, const char *bytes, size_t size, uint32_t *number);
void rf_string_table_free(rf_string_table *table);
static inline const char *rf_string_table_text(const rf_string_table *table, uint32_t number)
{
    return table->bytes + table->items[number].start;
}

/* Zeroed: empty. */
typedef struct rf_pair_table {
    uint64_t *keys; /* UINT64_MAX: free */
    uint32_t *values;
    uint32_t num_slots, count;
} rf_pair_table;

static inline uint64_t rf_pair_key(uint32_t left, uint32_t right)
{
    return (uint64_t)left << 32 | right;
}
/* RF_TABLE_NONE where it is not there. */
uint32_t rf_pair_table_find(const rf_pair_table *table, uint64_t key);
/* A key that is there already gets the new value. */
rf_result rf_pair_table_add(rf_pair_table *table, uint64_t key, uint32_t value);
void rf_pair_table_free(rf_pair_table *table);

#endif
