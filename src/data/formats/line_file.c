/* SPDX-License-Identifier: Apache-2.0 */
#include "data/formats/line_file.h"

#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "base/memory.h"
#include "base/platform.h"
#include "base/utf8.h"
#include "data/formats/inflate.h"

struct rf_line_reader {
    const char *path;
    int fd;
    uint64_t file_size;        /* when it was opened */
    rf_inflate_stream *stream; /* of a compressed file */
    uint64_t offset;           /* of a plain one, to be read next */
    uint64_t line;             /* that is being read, from 1 */
    size_t at, held;           /* of the buffer: used, and filled */
    bool ended;                /* nothing follows the buffer */
    uint8_t buffer[1 << 16];
};

static rf_result buffer_refill(rf_line_reader *r)
{
    r->at = r->held = 0;
    if (r->ended) return RF_OK;
    if (r->stream)
        RF_TRY(rf_inflate_read(r->stream, r->line, r->buffer, sizeof(r->buffer), &r->held));
    else
        RF_TRY(rf_file_read_some(r->fd, r->path, r->buffer, sizeof(r->buffer), r->offset, &r->held));
    r->offset += r->held;
    r->ended = r->held < sizeof(r->buffer);
    return RF_OK;
}

static rf_result reader_begin(rf_line_reader *r)
{
    uint8_t head[2];
    size_t got = 0;
    RF_TRY(rf_file_open_regular(r->path, &r->fd, &r->file_size));
    RF_TRY(rf_file_read_some(r->fd, r->path, head, sizeof(head), 0, &got));
    if (rf_inflate_is_gzip(head, got)) {
        r->stream = RF_NEW(rf_inflate_stream);
        if (!r->stream) return RF_ERROR_OUT_OF_HOST_MEMORY;
        *r->stream = (rf_inflate_stream){ .path = r->path, .unit = "line", .fd = r->fd };
        RF_TRY(rf_inflate_begin(r->stream));
    }
    RF_TRY(buffer_refill(r));
    return rf_error_context(rf_utf8_begin(r->buffer, r->held, &r->at), "%s", r->path);
}

rf_result rf_line_reader_open(const char *path, rf_line_reader **out)
{
    rf_line_reader *r = *out = RF_NEW(rf_line_reader);
    if (!r) return RF_ERROR_OUT_OF_HOST_MEMORY;
    r->path = path;
    r->fd = -1;
    r->line = 1;
    const rf_result result = reader_begin(r);
    if (result < 0) rf_line_reader_close(out);
    return result;
}

void rf_line_reader_close(rf_line_reader **reader)
{
    rf_line_reader *r = *reader;
    *reader = NULL;
    if (!r) return;
    if (r->stream) rf_inflate_end(r->stream);
    if (r->fd >= 0) (void)close(r->fd);
    rf_free(r->stream);
    rf_free(r);
}

/* Bytes that belong to the line. */
static rf_result line_append(const rf_line_reader *r, const uint8_t *bytes, size_t count, uint8_t *to, size_t most,
                             size_t *size)
{
    if (count > most - *size)
        return RF_FAIL(RF_ERROR_INVALID_ARGUMENT, "%s:%llu: the line has more than %zu bytes; raise max_bytes", r->path,
                       (unsigned long long)r->line, most);
    if (to && count > 0) memcpy(to + *size, bytes, count);
    *size += count;
    return RF_OK;
}

/* Appends what the buffer has of the line: up to a line feed, or all. *whole: that was its end. A carriage return is
 * kept back until it is known whether a line feed follows. */
static rf_result line_extend(rf_line_reader *r, uint8_t *to, size_t most, size_t *size, bool *carriage, bool *whole)
{
    static const uint8_t return_byte = '\r';
    const uint8_t *begin = r->buffer + r->at, *feed = memchr(begin, '\n', r->held - r->at);
    size_t count = feed ? (size_t)(feed - begin) : r->held - r->at;
    if (*carriage && !(feed && count == 0)) RF_TRY(line_append(r, &return_byte, 1, to, most, size));
    *carriage = count > 0 && begin[count - 1] == '\r';
    *whole = feed != NULL;
    RF_TRY(line_append(r, begin, count - *carriage, to, most, size));
    r->at += count + *whole;
    return RF_OK;
}

rf_result rf_line_skip_rest(rf_line_reader *r)
{
    for (const uint8_t *feed = NULL; !feed;) {
        if (r->at == r->held) RF_TRY(buffer_refill(r));
        if (r->held == 0) break;
        feed = memchr(r->buffer + r->at, '\n', r->held - r->at);
        r->at = feed ? (size_t)(feed - r->buffer) + 1 : r->held;
    }
    r->line++;
    return RF_OK;
}

rf_result rf_line_read(rf_line_reader *r, uint8_t *to, size_t most, size_t *size)
{
    static const uint8_t return_byte = '\r';
    bool carriage = false, whole = false, any = false;
    *size = 0;
    while (!whole) {
        if (r->at == r->held) RF_TRY(buffer_refill(r));
        if (r->held == 0) break;
        any = true;
        RF_TRY(line_extend(r, to, most, size, &carriage, &whole));
    }
    if (!any) return RF_END;
    if (!whole && carriage) RF_TRY(line_append(r, &return_byte, 1, to, most, size)); /* nothing follows it */
    r->line++;
    return RF_OK;
}

rf_line_mark rf_line_tell(const rf_line_reader *r)
{
    return (rf_line_mark){ r->offset - (r->held - r->at), r->line };
}

rf_result rf_line_seek(rf_line_reader *r, rf_line_mark mark)
{
    r->offset = mark.offset;
    r->line = mark.line;
    r->ended = false;
    return buffer_refill(r);
}

uint64_t rf_line_file_size(const rf_line_reader *r)
{
    return r->file_size;
}

bool rf_line_is_packed(const rf_line_reader *r)
{
    return r->stream != NULL;
}
