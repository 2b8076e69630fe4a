/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pack_module IN OUT
 *
 * Writes the SPIR-V module IN as the library holds it: in the form of src/base/module_words.h, compressed by zstd. Runs
 * while the library is built, on the machine that builds it. Without arguments it prints how it compresses.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <zstd.h>

#include "base/module_words.h"
#include "base/spirv.h"

enum { LEVEL = 19, MOST_BYTES = 5 /* of a number */ };

static _Noreturn void fail(const char *path, const char *problem)
{
    fprintf(stderr, "pack_module: %s: %s\n", path, problem);
    exit(1);
}

static void *allocate(size_t size)
{
    void *memory = malloc(size > 0 ? size : 1);
    if (!memory) fail("memory", "there is none left");
    return memory;
}

static uint8_t *number_put(uint8_t *to, uint32_t value)
{
    for (; value >= 128; value >>= 7) *to++ = (uint8_t)(value | 128);
    *to++ = (uint8_t)value;
    return to;
}

static uint32_t *file_read(const char *path, uint32_t *count)
{
    FILE *f = fopen(path, "rb");
    if (!f || fseek(f, 0, SEEK_END) != 0) fail(path, "cannot be read");
    const long size = ftell(f);
    rewind(f);
    if (size < 4 * SPIRV_HEADER_WORDS || size % 4 != 0) fail(path, "is no SPIR-V module");
    uint32_t *words = allocate((size_t)size);
    if (fread(words, 1, (size_t)size, f) != (size_t)size) fail(path, "cannot be read");
    fclose(f);
    *count = (uint32_t)(size / 4);
    if (words[0] != SPIRV_MAGIC) fail(path, "is no SPIR-V module of this machine's byte order");
    return words;
}

static void file_write(const char *path, const void *data, size_t size)
{
    FILE *f = fopen(path, "wb");
    if (!f || fwrite(data, 1, size, f) != size || fclose(f) != 0) fail(path, "cannot be written");
}

static uint8_t *form_make(const char *path, const uint32_t *words, uint32_t count, size_t *size)
{
    static uint32_t last[RF_MODULE_OPERATIONS];
    uint8_t *instructions = allocate((size_t)count * 2 * MOST_BYTES), *head = instructions;
    uint8_t *operands = allocate((size_t)count * MOST_BYTES), *tail = operands;
    for (uint32_t at = SPIRV_HEADER_WORDS; at < count;) {
        const uint32_t operation = words[at] & 0xffff, length = words[at] >> 16;
        if (operation >= RF_MODULE_OPERATIONS || length == 0 || length > count - at) fail(path, "is malformed");
        head = number_put(number_put(head, operation), length);
        for (uint32_t i = 1; i < length; i++) {
            const uint32_t step = words[at + i] - rf_module_expected(words, last[operation], i);
            tail = number_put(tail, step << 1 ^ -(step >> 31));
        }
        last[operation] = at;
        at += length;
    }
    const size_t num_head = (size_t)(head - instructions), num_tail = (size_t)(tail - operands);
    uint8_t *form = allocate(MOST_BYTES * SPIRV_HEADER_WORDS + num_head + num_tail), *to = form;
    for (uint32_t i = 1; i < SPIRV_HEADER_WORDS; i++) to = number_put(to, words[i]);
    to = number_put(to, (uint32_t)num_head);
    memcpy(to, instructions, num_head);
    memcpy(to + num_head, operands, num_tail);
    *size = (size_t)(to - form) + num_head + num_tail;
    free(instructions);
    free(operands);
    return form;
}

int main(int argc, char **argv)
{
    if (argc != 3) {
        printf("zstd %s, level %d\n", ZSTD_versionString(), LEVEL);
        return argc != 1;
    }
    uint32_t count;
    uint32_t *words = file_read(argv[1], &count), *again = allocate((size_t)count * 4);
    size_t size;
    uint8_t *form = form_make(argv[1], words, count, &size), *packed = allocate(ZSTD_compressBound(size));
    if (!rf_module_words(form, size, again, count) || memcmp(words, again, (size_t)count * 4) != 0)
        fail(argv[1], "does not come back from its packed form");
    const size_t num_packed = ZSTD_compress(packed, ZSTD_compressBound(size), form, size, LEVEL);
    if (ZSTD_isError(num_packed)) fail(argv[1], ZSTD_getErrorName(num_packed));
    file_write(argv[2], packed, num_packed);
    free(words);
    free(again);
    free(form);
    free(packed);
    return 0;
}
