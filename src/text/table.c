/* SPDX-License-Identifier: Apache-2.0 */
#include "text/table.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"

uint64_t rf_hash_append(uint64_t hash, const char *bytes, size_t size)
{
    for (size_t i = 0; i < size; i++) hash = rf_hash_byte(hash, (uint8_t)bytes[i]);
    return hash;
}

/* FNV's low bits depend on few bits of the bytes. */
static uint32_t slot_of(uint64_t hash, uint32_t num_slots)
{
    hash ^= hash >> 32;
    hash *= UINT64_C(0x9e3779b97f4a7c15);
    return (uint32_t)(hash >> 32) & (num_slots - 1);
}

/* ---- texts ---- */

uint32_t rf_string_table_find_hashed(const rf_string_table *table, uint64_t hash, const char *bytes, size_t size)
{
    if (table->num_slots == 0) return RF_TABLE_NONE;
    for (uint32_t slot = slot_of(hash, table->num_slots); table->slots[slot];
         slot = (slot + 1) & (table->num_slots - 1)) {
        const rf_string_item *item = &table->items[table->slots[slot] - 1];
        if (item->hash != hash || item->size != size) continue;
        if (size == 0 || memcmp(table->bytes + item->start, bytes, size) == 0) return table->slots[slot] - 1;
    }
    return RF_TABLE_NONE;
}

uint32_t rf_string_table_find(const rf_string_table *table, const char *bytes, size_t size)
{
    return rf_string_table_find_hashed(table, rf_hash_append(RF_HASH_START, bytes, size), bytes, size);
}

static void put_string(rf_string_table *table, uint32_t number)
{
    uint32_t slot = slot_of(table->items[number].hash, table->num_slots);
    while (table->slots[slot]) slot = (slot + 1) & (table->num_slots - 1);
    table->slots[slot] = number + 1;
}

static rf_result grow_strings(rf_string_table *table)
{
    if ((uint64_t)table->count * 2 < table->num_slots) return RF_OK;
    const uint32_t wanted = table->num_slots ? table->num_slots * 2 : 64;
    uint32_t *slots = wanted ? RF_NEW_ARRAY(uint32_t, wanted) : NULL;
    if (!slots) return RF_FAIL(RF_ERROR_OUT_OF_HOST_MEMORY, "no memory for %u different texts", table->count);
    rf_free(table->slots);
    table->slots = slots;
    table->num_slots = wanted;
    for (uint32_t i = 0; i < table->count; i++) put_string(table, i);
    return RF_OK;
}

/* Room for `size` bytes more. `*bytes` may lie among those that move. */
static rf_result reserve_bytes(rf_string_table *table, const char **bytes, size_t size)
{
    if (size <= table->room - table->used) return RF_OK;
    size_t room = table->room ? table->room * 2 : 1024;
    if (room - table->used < size) room = table->used + size;
    char *grown = rf_calloc(room, 1);
    if (!grown) return RF_ERROR_OUT_OF_HOST_MEMORY;
    if (table->used) memcpy(grown, table->bytes, table->used);
    const uintptr_t at = (uintptr_t)*bytes, begin = (uintptr_t)table->bytes;
    if (table->bytes && at >= begin && at < begin + table->used) *bytes = grown + (at - begin);
    rf_free(table->bytes);
    table->bytes = grown;
    table->room = room;
    return RF_OK;
}

rf_result rf_string_table_add(rf_string_table *table, const char *bytes, size_t size, uint32_t *number)
{
    const uint64_t hash = rf_hash_append(RF_HASH_START, bytes, size);
    *number = rf_string_table_find_hashed(table, hash, bytes, size);
    if (*number != RF_TABLE_NONE) return RF_OK;
    if (table->count == RF_TABLE_MOST || size >= UINT32_MAX)
        return RF_FAIL(RF_ERROR_UNSUPPORTED, "%s",
                       size < UINT32_MAX ? "more than 2^31 - 1 different texts" : "a text of 4 GiB or more; cut it");
    RF_TRY(RF_VEC_GROW(table));
    RF_TRY(grow_strings(table));
    RF_TRY(reserve_bytes(table, &bytes, size + 1));
    rf_string_item *item = &table->items[table->count];
    *item = (rf_string_item){ .hash = hash, .start = table->used, .size = (uint32_t)size };
    if (size) memcpy(table->bytes + table->used, bytes, size);
    table->bytes[table->used + size] = '\0';
    table->used += size + 1;
    *number = table->count++;
    put_string(table, *number);
    return RF_OK;
}

void rf_string_table_free(rf_string_table *table)
{
    rf_free(table->items);
    rf_free(table->bytes);
    rf_free(table->slots);
    *table = (rf_string_table){ 0 };
}

/* ---- pairs ---- */

/* Where the key is, or would be. */
static uint32_t pair_slot(const rf_pair_table *table, uint64_t key)
{
    uint32_t slot = slot_of(key * UINT64_C(0xff51afd7ed558ccd), table->num_slots);
    while (table->keys[slot] != key && table->keys[slot] != UINT64_MAX) slot = (slot + 1) & (table->num_slots - 1);
    return slot;
}

uint32_t rf_pair_table_find(const rf_pair_table *table, uint64_t key)
{
    if (table->num_slots == 0) return RF_TABLE_NONE;
    const uint32_t slot = pair_slot(table, key);
    return table->keys[slot] == key ? table->values[slot] : RF_TABLE_NONE;
}

static rf_result grow_pairs(rf_pair_table *table)
{
    if ((uint64_t)table->count * 2 < table->num_slots) return RF_OK;
    const uint32_t wanted = table->num_slots ? table->num_slots * 2 : 64;
    rf_pair_table grown = { .keys = wanted ? RF_NEW_ARRAY(uint64_t, wanted) : NULL, .num_slots = wanted };
    grown.values = grown.keys ? RF_NEW_ARRAY(uint32_t, wanted) : NULL;
    if (!grown.values) {
        rf_pair_table_free(&grown);
        return RF_FAIL(RF_ERROR_OUT_OF_HOST_MEMORY, "no memory for %u different pairs", table->count);
    }
    memset(grown.keys, 0xff, wanted * sizeof(*grown.keys));
    for (uint32_t i = 0; i < table->num_slots; i++) {
        if (table->keys[i] == UINT64_MAX) continue;
        const uint32_t slot = pair_slot(&grown, table->keys[i]);
        grown.keys[slot] = table->keys[i];
        grown.values[slot] = table->values[i];
    }
    grown.count = table->count;
    rf_pair_table_free(table);
    *table = grown;
    return RF_OK;
}

rf_result rf_pair_table_add(rf_pair_table *table, uint64_t key, uint32_t value)
{
    RF_TRY(grow_pairs(table));
    const uint32_t slot = pair_slot(table, key);
    table->count += table->keys[slot] != key;
    table->keys[slot] = key;
    table->values[slot] = value;
    return RF_OK;
}

void rf_pair_table_free(rf_pair_table *table)
{
    rf_free(table->keys);
    rf_free(table->values);
    *table = (rf_pair_table){ 0 };
}
