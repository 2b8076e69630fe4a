/* SPDX-License-Identifier: Apache-2.0 */
#include "data/formats/line_index.h"

#include "base/error.h"
#include "base/memory.h"

/* The next line that is not empty, and where it began. RF_END: there is none. */
static rf_result read_filled(rf_line_reader *reader, uint8_t *to, size_t most, size_t *size, rf_line_mark *mark)
{
    rf_result r;
    do {
        *mark = rf_line_tell(reader);
        r = rf_line_read(reader, to, most, size);
    } while (r == RF_OK && *size == 0);
    return r;
}

static rf_result index_lines(rf_line_reader *reader, rf_line_index *out)
{
    for (;; out->count++) {
        rf_line_mark mark;
        size_t size;
        const rf_result r = read_filled(reader, NULL, SIZE_MAX, &size, &mark);
        if (r != RF_OK) return r == RF_END ? RF_OK : r;
        if (out->packed || out->count % RF_LINES_OF_MARK != 0) continue;
        RF_TRY(RF_VEC_GROW(&out->marks));
        out->marks.items[out->marks.count++] = mark;
    }
}

rf_result rf_line_index_make(const char *path, rf_line_index *out)
{
    rf_line_reader *reader;
    *out = (rf_line_index){ 0 };
    RF_TRY(rf_line_reader_open(path, &reader));
    out->packed = rf_line_is_packed(reader);
    out->file_size = rf_line_file_size(reader);
    const rf_result r = index_lines(reader, out);
    rf_line_reader_close(&reader);
    return r;
}

void rf_line_index_free(rf_line_index *index)
{
    rf_free(index->marks.items);
}

static rf_result fail_changed(const char *path)
{
    return RF_FAIL(RF_ERROR_CORRUPT_DATA, "%s: the file has changed since the dataset was made", path);
}

/* Brings the reader to the line, or to one before it from which the way is short. */
static rf_result go_near(const rf_line_index *index, const char *path, rf_line_cursor *c, uint64_t number)
{
    const uint64_t mark = number / RF_LINES_OF_MARK;
    const bool ahead = c->reader && c->next <= number;
    if (index->packed && !ahead) rf_line_reader_close(&c->reader);
    if (!c->reader) {
        RF_TRY(rf_line_reader_open(path, &c->reader));
        c->next = 0;
        if (rf_line_file_size(c->reader) != index->file_size) return fail_changed(path);
    }
    if (index->packed || (ahead && c->next >= mark * RF_LINES_OF_MARK)) return RF_OK;
    c->next = mark * RF_LINES_OF_MARK;
    return rf_line_seek(c->reader, index->marks.items[mark]);
}

static rf_result read_numbered(const rf_line_index *index, const char *path, rf_line_cursor *c, uint64_t number,
                               uint8_t *to, size_t most, size_t *size, uint64_t *line)
{
    rf_line_mark mark = { 0 };
    RF_TRY(go_near(index, path, c, number));
    rf_result r = RF_OK;
    for (; r == RF_OK && c->next < number; c->next++) r = read_filled(c->reader, NULL, SIZE_MAX, size, &mark);
    if (r == RF_OK) r = read_filled(c->reader, to, most, size, &mark);
    if (r == RF_END) return fail_changed(path);
    c->next++;
    *line = mark.line;
    return r;
}

rf_result rf_line_index_read(const rf_line_index *index, const char *path, rf_line_cursor *cursor, uint64_t number,
                             uint8_t *to, size_t most, size_t *size, uint64_t *line)
{
    const rf_result r = read_numbered(index, path, cursor, number, to, most, size, line);
    if (r < 0) rf_line_reader_close(&cursor->reader);
    return r;
}
