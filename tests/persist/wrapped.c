/* SPDX-License-Identifier: Apache-2.0 */
#include "wrapped.h"

#include <errno.h>
#include <malloc.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <zstd.h>

static _Atomic uint64_t calls, fail_at, live, peak, start;

void *__real_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
void *__real_realloc(void *p, size_t size);
void *__real_aligned_alloc(size_t alignment, size_t size);
void __real_free(void *p);
int __real_vasprintf(char **out, const char *format, va_list args);
ZSTD_CCtx *__real_ZSTD_createCCtx(void);
ZSTD_DCtx *__real_ZSTD_createDCtx(void);
int __real_pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*run)(void *), void *argument);

void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_realloc(void *p, size_t size);
void *__wrap_aligned_alloc(size_t alignment, size_t size);
void __wrap_free(void *p);
int __wrap_vasprintf(char **out, const char *format, va_list args);
ZSTD_CCtx *__wrap_ZSTD_createCCtx(void);
ZSTD_DCtx *__wrap_ZSTD_createDCtx(void);
int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*run)(void *), void *argument);

void wrapped_reset(uint64_t n)
{
    calls = 0;
    fail_at = n;
    start = live;
    peak = live;
}

uint64_t wrapped_calls(void)
{
    return calls;
}

uint64_t wrapped_peak(void)
{
    return peak - start;
}

uint64_t wrapped_live(void)
{
    return live;
}

static bool refused(void)
{
    if (++calls != fail_at) return false;
    errno = ENOMEM;
    return true;
}

static void *counted(void *p)
{
    if (!p) return NULL;
    const uint64_t size = malloc_usable_size(p), now = atomic_fetch_add(&live, size) + size;
    uint64_t most = peak;
    while (now > most && !atomic_compare_exchange_weak(&peak, &most, now)) {}
    return p;
}

void *__wrap_malloc(size_t size)
{
    return refused() ? NULL : counted(__real_malloc(size));
}

void *__wrap_calloc(size_t count, size_t size)
{
    return refused() ? NULL : counted(__real_calloc(count, size));
}

void *__wrap_realloc(void *p, size_t size)
{
    if (refused()) return NULL;
    const uint64_t old = p ? malloc_usable_size(p) : 0;
    void *grown = __real_realloc(p, size);
    if (grown) live -= old;
    return counted(grown);
}

void *__wrap_aligned_alloc(size_t alignment, size_t size)
{
    return refused() ? NULL : counted(__real_aligned_alloc(alignment, size));
}

void __wrap_free(void *p)
{
    if (p) live -= malloc_usable_size(p);
    __real_free(p);
}

int __wrap_vasprintf(char **out, const char *format, va_list args)
{
    if (refused()) return -1;
    const int n = __real_vasprintf(out, format, args);
    if (n >= 0) counted(*out);
    return n;
}

ZSTD_CCtx *__wrap_ZSTD_createCCtx(void)
{
    return refused() ? NULL : __real_ZSTD_createCCtx();
}

ZSTD_DCtx *__wrap_ZSTD_createDCtx(void)
{
    return refused() ? NULL : __real_ZSTD_createDCtx();
}

int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*run)(void *), void *argument)
{
    return refused() ? EAGAIN : __real_pthread_create(thread, attr, run, argument);
}
