/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Checkpoint files from a stranger. The first byte says what is read:
 *   0  a header; a valid preamble and trailer are put round it, and a few kilobytes of data before it
 *   1  a whole file
 *   2  an honest file with the rest laid over it by XOR, from the offset (times 8) in the next two bytes on
 * Checksums are constant here (the reader is linked with a function of its own), so that bytes behind them are reached.
 * An archive that is opened must keep its promises: entries in order, names valid, reads of exactly the size that was
 * announced.
 */
#include <string.h>

#include "fuzz.h"
#include "one_file.h"
#include "persist/archive/format.h"
#include "persist/archive/reader.h"
#include "persist/archive/writer.h"
#include "persist/archive/xxh64.h"

uint64_t rf_xxh64(const void *data, size_t size)
{
    (void)data, (void)size;
    return 0;
}

static void use(const rf_archive *a)
{
    uint8_t *data = malloc(1 << 16);
    PROMISE(data != NULL);
    char previous[RF_ARCHIVE_MAX_NAME + 1] = "", text[256];
    for (uint64_t i = 0; i < rf_archive_num_tensors(a) && i < 50; i++) {
        rf_archive_entry e, again;
        PROMISE(rf_archive_entry_at(a, i, &e) == RF_OK);
        PROMISE(!rf_archive_name_problem(e.name, strlen(e.name)) && strcmp(previous, e.name) < 0);
        PROMISE(rf_array_bytes(e.dtype, e.shape) == (int64_t)e.bytes);
        PROMISE(rf_archive_find(a, e.name, &again) == RF_OK && again.name == e.name);
        strcpy(previous, e.name);
        if (e.bytes > 1 << 16) continue;
        const rf_result r = rf_archive_read(a, e.name, data, e.bytes);
        PROMISE(r == RF_OK || r == RF_ERROR_CORRUPT_DATA);
    }
    for (uint64_t i = 0; i < rf_archive_num_values(a) && i < 50; i++) {
        rf_archive_value v;
        PROMISE(rf_archive_value_get(a, rf_archive_value_name(a, i), &v) == RF_OK);
        PROMISE(rf_archive_value_text(a, i, text, sizeof(text)) == RF_OK && strlen(text) < sizeof(text));
    }
    const rf_result r = rf_archive_verify(a);
    PROMISE(r == RF_OK || r == RF_ERROR_CORRUPT_DATA);
    free(data);
}

static void open_file(const uint8_t *bytes, size_t size)
{
    one_file file = { .bytes = bytes, .size = size };
    const rf_file_ops ops = one_file_ops(&file);
    rf_archive *a;
    const rf_result r = rf_archive_open_with(&ops, "c", &a);
    PROMISE((r == RF_OK) == (a != NULL));
    PROMISE(r == RF_OK || ((r == RF_ERROR_CORRUPT_DATA || r == RF_ERROR_UNSUPPORTED) && rf_error_message()[0]));
    if (a) use(a);
    rf_archive_close(&a);
}

/* Opens a file with data; a map of four of a main file, whose parts are not what they should be. */
static void open_header(const uint8_t *header, size_t size)
{
    const uint64_t version = size > 0 && header[0] == 0x84 ? RF_ARCHIVE_VERSION_PARTS : RF_ARCHIVE_VERSION;
    const uint64_t data = version == RF_ARCHIVE_VERSION ? 64 : 0;
    const uint64_t total = RF_ARCHIVE_PREAMBLE + data + size + RF_ARCHIVE_TRAILER;
    uint8_t *file = calloc(total, 1);
    PROMISE(file != NULL);
    const rf_archive_layout layout = { total, RF_ARCHIVE_PREAMBLE + data, size, 0 };
    rf_archive_layout_encode(&layout, version, file, file + total - RF_ARCHIVE_TRAILER);
    memcpy(file + layout.header_offset, header, size);
    open_file(file, total);
    free(file);
}

/* Written once. */
static const one_file *honest_file(void)
{
    static one_file file;
    static float numbers[600];
    if (file.size > 0) return &file;
    for (int i = 0; i < 600; i++) numbers[i] = (float)(i % 37) / 7;
    const rf_archive_tensor tensors[] = { { "a/b", RF_F32, RF_SHAPE(20, 30), numbers },
                                          { "empty", RF_I64, RF_SHAPE(0), NULL },
                                          { "x", RF_U8, RF_SHAPE(100), numbers } };
    const rf_archive_value values[] = { { .name = "step", .kind = RF_VALUE_UINT, .number = 300 },
                                        { .name = "text", .kind = RF_VALUE_STRING, .bytes = "abc", .size = 3 } };
    const rf_file_ops ops = one_file_ops(&file);
    PROMISE(rf_archive_write_with(&ops, "c", &(rf_archive_contents){ "checkpoint", tensors, 3, values, 2 },
                                  &(rf_save_params){ .threads = 1 }) == RF_OK);
    return &file;
}

static void open_laid_over(const uint8_t *data, size_t size)
{
    const one_file *honest = honest_file();
    uint8_t *bytes = malloc(honest->size);
    PROMISE(bytes);
    memcpy(bytes, honest->bytes, honest->size);
    const uint64_t begin = size < 2 ? 0 : (uint64_t)(data[0] | data[1] << 8) * 8;
    for (uint64_t i = 2; i < size && begin + i - 2 < honest->size; i++) bytes[begin + i - 2] ^= data[i];
    open_file(bytes, honest->size);
    free(bytes);
}

FUZZ_TARGET(archive)
{
    if (size == 0) return 0;
    static void (*const kinds[])(const uint8_t *, size_t) = { open_header, open_file, open_laid_over };
    kinds[data[0] % 3](data + 1, size - 1);
    return 0;
}
