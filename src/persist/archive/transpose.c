/* SPDX-License-Identifier: Apache-2.0 */
#include "persist/archive/transpose.h"

#include <string.h>

/* Sixteen bytes of every plane at a time where the compiler has shuffles (gcc 12, clang); they become SSE2 or NEON. */
#ifdef __has_builtin
#if __has_builtin(__builtin_shufflevector)
#define HAVE_SHUFFLE 1
#endif
#endif

#ifdef HAVE_SHUFFLE
typedef uint8_t bytes16 __attribute__((vector_size(16)));

#define EVEN(a, b) __builtin_shufflevector(a, b, 0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30)
#define ODD(a, b) __builtin_shufflevector(a, b, 1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31)
#define LOW(a, b) __builtin_shufflevector(a, b, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23)
#define HIGH(a, b) __builtin_shufflevector(a, b, 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31)
#define LOW2(a, b) __builtin_shufflevector(a, b, 0, 1, 16, 17, 2, 3, 18, 19, 4, 5, 20, 21, 6, 7, 22, 23)
#define HIGH2(a, b) __builtin_shufflevector(a, b, 8, 9, 24, 25, 10, 11, 26, 27, 12, 13, 28, 29, 14, 15, 30, 31)

static inline bytes16 vector_load(const uint8_t *p)
{
    bytes16 v;
    memcpy(&v, p, sizeof(v));
    return v;
}

static inline void vector_store(uint8_t *p, bytes16 v)
{
    memcpy(p, &v, sizeof(v));
}

static size_t words_split2(const uint8_t *in, uint8_t *out, size_t n)
{
    size_t i = 0;
    for (; i + 16 <= n; i += 16) {
        const bytes16 a = vector_load(in + 2 * i), b = vector_load(in + 2 * i + 16);
        vector_store(out + i, EVEN(a, b));
        vector_store(out + n + i, ODD(a, b));
    }
    return i;
}

static size_t words_split4(const uint8_t *in, uint8_t *out, size_t n)
{
    size_t i = 0;
    for (; i + 16 <= n; i += 16) {
        const uint8_t *p = in + 4 * i;
        const bytes16 a = vector_load(p), b = vector_load(p + 16), c = vector_load(p + 32), d = vector_load(p + 48);
        const bytes16 even0 = EVEN(a, b), even1 = EVEN(c, d), odd0 = ODD(a, b), odd1 = ODD(c, d);
        vector_store(out + i, EVEN(even0, even1));
        vector_store(out + n + i, EVEN(odd0, odd1));
        vector_store(out + 2 * n + i, ODD(even0, even1));
        vector_store(out + 3 * n + i, ODD(odd0, odd1));
    }
    return i;
}

static size_t words_join2(const uint8_t *in, uint8_t *out, size_t n)
{
    size_t i = 0;
    for (; i + 16 <= n; i += 16) {
        const bytes16 a = vector_load(in + i), b = vector_load(in + n + i);
        vector_store(out + 2 * i, LOW(a, b));
        vector_store(out + 2 * i + 16, HIGH(a, b));
    }
    return i;
}

static size_t words_join4(const uint8_t *in, uint8_t *out, size_t n)
{
    size_t i = 0;
    for (; i + 16 <= n; i += 16) {
        const bytes16 a = vector_load(in + i), b = vector_load(in + n + i), c = vector_load(in + 2 * n + i),
                      d = vector_load(in + 3 * n + i);
        const bytes16 ab0 = LOW(a, b), ab1 = HIGH(a, b), cd0 = LOW(c, d), cd1 = HIGH(c, d);
        uint8_t *p = out + 4 * i;
        vector_store(p, LOW2(ab0, cd0));
        vector_store(p + 16, HIGH2(ab0, cd0));
        vector_store(p + 32, LOW2(ab1, cd1));
        vector_store(p + 48, HIGH2(ab1, cd1));
    }
    return i;
}
#endif

void rf_bytes_transpose(const uint8_t *in, uint8_t *out, size_t size, size_t element)
{
    const size_t n = size / element;
    size_t done = 0;
#ifdef HAVE_SHUFFLE
    if (element == 2) done = words_split2(in, out, n);
    if (element == 4) done = words_split4(in, out, n);
#endif
    for (size_t plane = 0; plane < element; plane++)
        for (size_t i = done; i < n; i++) out[plane * n + i] = in[i * element + plane];
}

void rf_bytes_untranspose(const uint8_t *in, uint8_t *out, size_t size, size_t element)
{
    const size_t n = size / element;
    size_t done = 0;
#ifdef HAVE_SHUFFLE
    if (element == 2) done = words_join2(in, out, n);
    if (element == 4) done = words_join4(in, out, n);
#endif
    for (size_t plane = 0; plane < element; plane++)
        for (size_t i = done; i < n; i++) out[i * element + plane] = in[plane * n + i];
}
