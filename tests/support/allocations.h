/* SPDX-License-Identifier: Apache-2.0 */
/* Allocations that fail when a test says so. For programs that are linked with --wrap=calloc and --wrap=realloc. */
#ifndef RF_TESTS_SUPPORT_ALLOCATIONS_H
#define RF_TESTS_SUPPORT_ALLOCATIONS_H

#include <stdbool.h>
#include <stdlib.h>

static long allowed = -1; /* allocations until one fails; -1: none fails */

void *__real_calloc(size_t count, size_t size);
void *__real_realloc(void *pointer, size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_realloc(void *pointer, size_t size);

static bool fails_now(void)
{
    if (allowed < 0) return false;
    return allowed-- == 0;
}
void *__wrap_calloc(size_t count, size_t size)
{
    return fails_now() ? NULL : __real_calloc(count, size);
}
void *__wrap_realloc(void *pointer, size_t size)
{
    return fails_now() ? NULL : __real_realloc(pointer, size);
}

#endif
