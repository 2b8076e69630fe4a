/* SPDX-License-Identifier: Apache-2.0 */
#include "text/lines.h"

#include <string.h>

#include "base/memory.h"
#include "base/utf8.h"
#include "data/formats/inflate.h"

struct rf_text_lines {
    const char **texts;
    size_t *sizes;
    uint64_t count, capacity;
    rf_arena bytes;
};

rf_result rf_text_lines_new(rf_text_lines **out)
{
    *out = RF_NEW(rf_text_lines);
    return *out ? RF_OK : RF_ERROR_OUT_OF_HOST_MEMORY;
}

static rf_result reserve_lines(rf_text_lines *lines, uint64_t more)
{
    const uint64_t need = lines->count + more;
    if (need <= lines->capacity) return RF_OK;
    const char **texts = RF_NEW_ARRAY(const char *, need);
    size_t *sizes = RF_NEW_ARRAY(size_t, need);
    if (!texts || !sizes) {
        rf_free(texts);
        rf_free(sizes);
        return RF_ERROR_OUT_OF_HOST_MEMORY;
    }
    if (lines->count > 0) {
        memcpy(texts, lines->texts, lines->count * sizeof(*texts));
        memcpy(sizes, lines->sizes, lines->count * sizeof(*sizes));
    }
    rf_free(lines->texts);
    rf_free(lines->sizes);
    lines->texts = texts;
    lines->sizes = sizes;
    lines->capacity = need;
    return RF_OK;
}

rf_result rf_text_lines_append(rf_text_lines *lines, const char *bytes, size_t size)
{
    size_t mark;
    RF_TRY(rf_utf8_begin(bytes, size, &mark));
    uint64_t count = size > 0 && bytes[size - 1] != '\n';
    for (size_t i = 0; i < size; i++) count += bytes[i] == '\n';
    RF_TRY(reserve_lines(lines, count));
    char *text = rf_arena_alloc(&lines->bytes, size + 1);
    if (!text) return RF_ERROR_OUT_OF_HOST_MEMORY;
    if (size > 0) memcpy(text, bytes, size);
    for (size_t begin = mark; begin < size;) {
        char *line = text + begin, *feed = memchr(line, '\n', size - begin);
        size_t length = feed ? (size_t)(feed - line) : size - begin;
        begin += length + 1;
        if (feed && length > 0 && line[length - 1] == '\r') length--;
        line[length] = '\0'; /* the text has a byte more than the file */
        lines->texts[lines->count] = line;
        lines->sizes[lines->count++] = length;
    }
    return RF_OK;
}

static rf_result append_file(rf_text_lines *lines, const char *path)
{
    void *bytes;
    size_t size;
    RF_TRY(rf_inflate_file(path, &bytes, &size));
    const rf_result r = rf_text_lines_append(lines, bytes, size);
    rf_free(bytes);
    return rf_error_context(r, "%s", path);
}

rf_result rf_text_lines_read(const char *const *paths, uint32_t num_paths, rf_text_lines **out)
{
    RF_REQUIRE(out, "rf_text_lines_read: out is NULL");
    *out = NULL;
    RF_REQUIRE(paths && num_paths > 0, "rf_text_lines_read: no files given");
    for (uint32_t i = 0; i < num_paths; i++) RF_REQUIRE(paths[i], "rf_text_lines_read: path %u is NULL", i);
    rf_result r = rf_text_lines_new(out);
    for (uint32_t i = 0; i < num_paths && r == RF_OK; i++) r = append_file(*out, paths[i]);
    if (r < 0) rf_text_lines_destroy(out);
    return r;
}

uint64_t rf_text_lines_count(const rf_text_lines *lines)
{
    return lines ? lines->count : 0;
}

const char *const *rf_text_lines_texts(const rf_text_lines *lines)
{
    return lines ? lines->texts : NULL;
}

const size_t *rf_text_lines_sizes(const rf_text_lines *lines)
{
    return lines ? lines->sizes : NULL;
}

void rf_text_lines_destroy(rf_text_lines **lines)
{
    if (!lines || !*lines) return;
    rf_text_lines *l = *lines;
    *lines = NULL;
    rf_free(l->texts);
    rf_free(l->sizes);
    rf_arena_free(&l->bytes);
    rf_free(l);
}
