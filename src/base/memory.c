/* SPDX-License-Identifier: Apache-2.0 */
#include "base/memory.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/limits.h"
#include "base/numbers.h"

#ifdef __has_feature
#define HAS_FEATURE(x) __has_feature(x)
#else
#define HAS_FEATURE(x) 0
#endif
#if defined(__SANITIZE_ADDRESS__) || HAS_FEATURE(address_sanitizer)
#define UNDER_ADDRESS_SANITIZER 1
#else
#define UNDER_ADDRESS_SANITIZER 0
#endif

static void *fail_memory(size_t size)
{
    char why[256];
    rf_memory_limits limits;
    rf_memory_limits_take(&limits);
    const bool limited = rf_memory_limits_describe(&limits, size, why, sizeof(why));
    (void)RF_FAIL(RF_ERROR_OUT_OF_HOST_MEMORY, "cannot allocate %zu bytes of host memory%s%s", size,
                  limited ? "; " : "", why);
    return NULL;
}

bool rf_mul_size(size_t a, size_t b, size_t *out)
{
    return !__builtin_mul_overflow(a, b, out);
}

void *rf_calloc(size_t count, size_t size)
{
    size_t bytes;
    if (!rf_mul_size(count, size, &bytes)) return fail_memory(SIZE_MAX);
    void *p = calloc(1, bytes ? bytes : 1);
    return p ? p : fail_memory(bytes);
}

void rf_free(void *pointer)
{
    free(pointer);
}

void *rf_aligned_calloc(size_t size)
{
    enum { alignment = 64 };
    if (size > SIZE_MAX - alignment) return fail_memory(size);
    const size_t bytes = (size_t)rf_align_up(size ? size : 1, alignment);
    void *p = aligned_alloc(alignment, bytes);
    if (!p) return fail_memory(bytes);
    memset(p, 0, bytes);
    return p;
}

char *rf_strdup(const char *text)
{
    if (!text) return NULL;
    const size_t size = strlen(text) + 1;
    char *copy = rf_calloc(size, 1);
    if (copy) memcpy(copy, text, size);
    return copy;
}

char *rf_asprintf(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    char *text = NULL;
    int n;
    RF_WITH_C_NUMBERS(n = vasprintf(&text, format, args));
    va_end(args);
    return n < 0 ? fail_memory(0) : text;
}

/* Room for how many elements, for `need` of them. AddressSanitizer finds a pointer into an array that has moved, which
 * happens by chance only where room doubles: under it, an array that is not long moves with each element. */
static uint64_t grown_capacity(uint32_t capacity, uint32_t need)
{
    uint64_t room = capacity ? (uint64_t)capacity * 2 : 8;
    if (UNDER_ADDRESS_SANITIZER && need <= 1024) room = need;
    return room < need ? need : room > UINT32_MAX ? UINT32_MAX : room;
}

rf_result rf_array_reserve(void **items, uint32_t *capacity, uint32_t need, size_t item_size)
{
    if (need <= *capacity) return RF_OK;
    const uint64_t room = grown_capacity(*capacity, need);
    size_t bytes;
    if (!rf_mul_size((size_t)room, item_size, &bytes)) {
        fail_memory(SIZE_MAX);
        return RF_ERROR_OUT_OF_HOST_MEMORY;
    }
    char *grown = realloc(*items, bytes);
    if (!grown) {
        fail_memory(bytes);
        return RF_ERROR_OUT_OF_HOST_MEMORY;
    }
    memset(grown + (size_t)*capacity * item_size, 0, bytes - (size_t)*capacity * item_size);
    *items = grown;
    *capacity = (uint32_t)room;
    return RF_OK;
}

struct rf_arena_block {
    struct rf_arena_block *next;
    size_t used, size;
    _Alignas(16) char bytes[];
};

void *rf_arena_alloc(rf_arena *arena, size_t size)
{
    enum { default_block = 16384 };
    if (size > SIZE_MAX / 2) return fail_memory(size);
    size = (size_t)rf_align_up(size ? size : 1, 16);
    struct rf_arena_block *block = arena->head;
    if (!block || block->size - block->used < size) {
        const size_t room = size > default_block ? size : default_block;
        block = rf_calloc(1, sizeof(*block) + room);
        if (!block) return NULL;
        block->size = room;
        block->next = arena->head;
        arena->head = block;
    }
    void *p = block->bytes + block->used;
    block->used += size;
    return p;
}

char *rf_arena_strdup(rf_arena *arena, const char *text)
{
    const size_t size = strlen(text) + 1;
    char *copy = rf_arena_alloc(arena, size);
    if (copy) memcpy(copy, text, size);
    return copy;
}

void rf_arena_free(rf_arena *arena)
{
    while (arena->head) {
        struct rf_arena_block *next = arena->head->next;
        free(arena->head);
        arena->head = next;
    }
}
