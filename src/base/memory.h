/* SPDX-License-Identifier: Apache-2.0 */
/* Host memory: checked allocation, growable arrays, arenas. */
#ifndef RF_BASE_MEMORY_H
#define RF_BASE_MEMORY_H

#include <ringfire/common.h>

/* Zeroed memory, NULL + error record (RF_ERROR_OUT_OF_HOST_MEMORY) on failure or overflow of count * size. A request
 * for 0 bytes gives a valid pointer. Free with rf_free. */
void *rf_calloc(size_t count, size_t size);
void rf_free(void *pointer);
char *rf_strdup(const char *text); /* NULL in, NULL out */
/* printf into a new string. */
char *rf_asprintf(const char *format, ...) RF_PRINTF(1, 2);
/* 64-byte aligned, zeroed. Free with rf_free. */
void *rf_aligned_calloc(size_t size);

#define RF_NEW(type) ((type *)rf_calloc(1, sizeof(type)))
#define RF_NEW_ARRAY(type, count) ((type *)rf_calloc((size_t)(count), sizeof(type)))

/* Makes room for at least `need` elements in a growable array (*items, *capacity); new elements are zero. */
rf_result rf_array_reserve(void **items, uint32_t *capacity, uint32_t need, size_t item_size);
/* For structs with fields `items`, `count`, `capacity`: room for one more; use as RF_TRY(RF_VEC_GROW(v)). */
#define RF_VEC_GROW(v) rf_array_reserve((void **)&(v)->items, &(v)->capacity, (v)->count + 1, sizeof(*(v)->items))

/* Bump allocator; everything is freed at once. */
typedef struct rf_arena {
    struct rf_arena_block *head;
} rf_arena;
void *rf_arena_alloc(rf_arena *arena, size_t size); /* zeroed, 16-byte aligned; NULL + record on failure */
char *rf_arena_strdup(rf_arena *arena, const char *text);
void rf_arena_free(rf_arena *arena);
/* An array of `count` elements for `pointer`; use as RF_TRY(RF_ARENA_ARRAY(arena, pointer, count)). */
#define RF_ARENA_ARRAY(arena, pointer, count)                                                                          \
    (((pointer) = rf_arena_alloc((arena), (size_t)(count) * sizeof(*(pointer)))) ? RF_OK : RF_ERROR_OUT_OF_HOST_MEMORY)

/* Sizes with overflow checks: false when the result does not fit. */
bool rf_mul_size(size_t a, size_t b, size_t *out);
static inline uint64_t rf_align_up(uint64_t value, uint64_t alignment) /* any alignment > 0 */
{
    return (value + alignment - 1) / alignment * alignment;
}
static inline uint64_t rf_div_up(uint64_t value, uint64_t divisor)
{
    return (value + divisor - 1) / divisor;
}

#endif
