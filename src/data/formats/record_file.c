/* SPDX-License-Identifier: Apache-2.0 */
#include "data/formats/record_file.h"

#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "base/memory.h"
#include "base/platform.h"
#include "base/record.h"
#include "data/formats/inflate.h"

enum {
    FRAME = RF_RECORD_HEAD + RF_RECORD_TAIL,
    WINDOW = 4096,        /* of a plain file, read at once while its lengths are walked over */
    MOST_SHRINKING = 1100 /* deflate makes data smaller by a factor of 1032 at most */
};

/* ---- messages ---- */

static rf_result fail_at(const char *path, uint64_t record, const char *what)
{
    return RF_FAIL(RF_ERROR_CORRUPT_DATA, "%s: record %llu: %s", path, (unsigned long long)record, what);
}

static rf_result fail_truncated(const char *path, uint64_t record)
{
    return rf_inflate_fail_truncated(path, "record", record);
}

/* The length of the bytes that follow a head. */
static rf_result read_length(const char *path, uint64_t record, const uint8_t *head, uint64_t *out)
{
    *out = rf_record_get(head, 8);
    if (rf_record_get(head + 8, 4) == rf_record_checksum(head, 8)) {
        if (*out <= INT32_MAX) return RF_OK;
        return fail_at(path, record, "it claims to be longer than 2 GiB, the most that a message may have");
    }
    return fail_at(path, record,
                   record == 0 ? "its length has another checksum; is this a TFRecord file?"
                               : "its length has another checksum; the file is damaged, copy it again");
}

/* ---- a compressed file ---- */

/* The head of the next record; RF_END: there is none. */
static rf_result stream_head(rf_inflate_stream *s, uint64_t record, uint64_t *length)
{
    uint8_t head[RF_RECORD_HEAD];
    size_t got = 0;
    RF_TRY(rf_inflate_read(s, record, head, sizeof(head), &got));
    if (got == 0) return RF_END;
    if (got < sizeof(head)) return fail_truncated(s->path, record);
    return read_length(s->path, record, head, length);
}

/* The next record, unread. RF_END: there is none. */
static rf_result stream_skip(rf_inflate_stream *s, uint64_t record)
{
    uint8_t scratch[WINDOW];
    uint64_t left = 0;
    const rf_result r = stream_head(s, record, &left);
    if (r != RF_OK) return r;
    for (left += RF_RECORD_TAIL; left > 0;) {
        const size_t most = left < sizeof(scratch) ? (size_t)left : sizeof(scratch);
        size_t got = 0;
        RF_TRY(rf_inflate_read(s, record, scratch, most, &got));
        if (got < most) return fail_truncated(s->path, record);
        left -= got;
    }
    return RF_OK;
}

/* ---- the index ---- */

static rf_result index_plain(const char *path, int fd, uint64_t size, rf_record_index *out)
{
    uint8_t window[WINDOW];
    uint64_t first = 0; /* of the window's bytes in the file */
    size_t held = 0;
    for (uint64_t at = 0; at <= size; out->count = out->starts.count) {
        const uint64_t record = out->starts.count;
        if (record == UINT32_MAX) return fail_at(path, record, "a file can have no more; divide it");
        RF_TRY(RF_VEC_GROW(&out->starts));
        out->starts.items[out->starts.count] = at;
        if (at == size) return RF_OK;
        if (size - at < FRAME) return fail_truncated(path, record);
        if (at < first || at + RF_RECORD_HEAD > first + held) {
            first = at;
            RF_TRY(rf_file_read_some(fd, path, window, sizeof(window), first, &held));
            if (held < RF_RECORD_HEAD) return fail_truncated(path, record);
        }
        uint64_t length = 0;
        RF_TRY(read_length(path, record, window + (at - first), &length));
        if (length > size - at - FRAME) return fail_truncated(path, record);
        at += FRAME + length;
        out->starts.count++;
    }
    return RF_OK;
}

static rf_result index_packed(const char *path, int fd, rf_record_index *out)
{
    rf_inflate_stream *s = RF_NEW(rf_inflate_stream);
    if (!s) return RF_ERROR_OUT_OF_HOST_MEMORY;
    *s = (rf_inflate_stream){ .path = path, .unit = "record", .fd = fd };
    rf_result r = rf_inflate_begin(s);
    while (r == RF_OK) {
        r = stream_skip(s, out->count);
        if (r == RF_OK) out->count++;
    }
    rf_inflate_end(s);
    rf_free(s);
    return r == RF_END ? RF_OK : r;
}

/* Whether a file begins as gzip or zlib do, and not with a record. */
static bool looks_packed(const uint8_t *head, size_t size)
{
    if (size >= RF_RECORD_HEAD && rf_record_get(head + 8, 4) == rf_record_checksum(head, 8)) return false;
    if (size < 2) return false;
    const bool gzip = head[0] == 0x1f && head[1] == 0x8b;
    const bool deflate = (head[0] & 0x0f) == 8 && head[0] >> 4 <= 7 && (head[0] << 8 | head[1]) % 31 == 0;
    return gzip || deflate;
}

rf_result rf_record_index_make(const char *path, rf_record_index *out)
{
    int fd = -1;
    uint64_t size = 0;
    uint8_t head[RF_RECORD_HEAD];
    size_t got = 0;
    *out = (rf_record_index){ 0 };
    RF_TRY(rf_file_open_regular(path, &fd, &size));
    rf_result r = rf_file_read_some(fd, path, head, sizeof(head), 0, &got);
    if (r == RF_OK) {
        out->packed = looks_packed(head, got);
        r = out->packed ? index_packed(path, fd, out) : index_plain(path, fd, size, out);
    }
    (void)close(fd);
    return r;
}

void rf_record_index_free(rf_record_index *index)
{
    rf_free(index->starts.items);
}

/* ---- reading ---- */

struct rf_record_reader {
    const char *path;
    const rf_record_index *index;
    int fd;
    uint8_t *frame; /* the latest record, with head and tail */
    size_t capacity;
    rf_inflate_stream *stream; /* of a compressed file */
    uint64_t file_size;        /* when it was opened */
    uint64_t next;             /* record that the stream comes to; UINT64_MAX: nothing is known after a failure */
    uint64_t held;             /* record in `frame`, whole; UINT64_MAX: none */
    size_t held_size;
};

rf_result rf_record_reader_open(const char *path, const rf_record_index *index, rf_record_reader **out)
{
    *out = NULL;
    rf_record_reader *r = RF_NEW(rf_record_reader);
    if (!r) return RF_ERROR_OUT_OF_HOST_MEMORY;
    *r = (rf_record_reader){ .path = path, .index = index, .fd = -1, .next = UINT64_MAX, .held = UINT64_MAX };
    rf_result result = rf_file_open_regular(path, &r->fd, &r->file_size);
    if (result == RF_OK && index->packed) {
        r->stream = RF_NEW(rf_inflate_stream);
        if (r->stream)
            *r->stream = (rf_inflate_stream){ .path = path, .unit = "record", .fd = r->fd };
        else
            result = RF_ERROR_OUT_OF_HOST_MEMORY;
    }
    if (result < 0)
        rf_record_reader_close(&r);
    else
        *out = r;
    return result;
}

void rf_record_reader_close(rf_record_reader **reader)
{
    rf_record_reader *r = *reader;
    *reader = NULL;
    if (!r) return;
    if (r->stream) rf_inflate_end(r->stream);
    if (r->fd >= 0) (void)close(r->fd);
    rf_free(r->stream);
    rf_free(r->frame);
    rf_free(r);
}

static rf_result make_room(rf_record_reader *r, size_t size)
{
    r->held = UINT64_MAX;
    if (size <= r->capacity) return RF_OK;
    rf_free(r->frame);
    r->capacity = 0;
    r->frame = rf_calloc(size, 1);
    if (!r->frame) return rf_error_context(RF_ERROR_OUT_OF_HOST_MEMORY, "%s", r->path);
    r->capacity = size;
    return RF_OK;
}

static rf_result fail_changed(const rf_record_reader *r)
{
    return RF_FAIL(RF_ERROR_CORRUPT_DATA, "%s: the file has changed since the dataset was made", r->path);
}

/* The frame of a record of a plain file, as long as the index knows it to be. */
static rf_result read_plain(rf_record_reader *r, uint64_t number, size_t *size)
{
    const uint64_t *starts = r->index->starts.items, start = starts[number];
    const size_t bytes = (size_t)(starts[number + 1] - start);
    size_t got = 0;
    RF_TRY(make_room(r, bytes));
    RF_TRY(rf_file_read_some(r->fd, r->path, r->frame, bytes, start, &got));
    *size = bytes - FRAME;
    if (got < bytes || rf_record_get(r->frame, 8) != *size) return fail_changed(r);
    return RF_OK;
}

static rf_result read_packed(rf_record_reader *r, uint64_t number, size_t *size)
{
    rf_inflate_stream *s = r->stream;
    uint64_t next = r->next, length = 0;
    r->next = UINT64_MAX; /* until all has worked */
    if (next > number) {
        RF_TRY(rf_inflate_begin(s));
        next = 0;
    }
    rf_result result = RF_OK;
    for (; result == RF_OK && next < number; next++) result = stream_skip(s, next);
    if (result == RF_OK) result = stream_head(s, number, &length);
    RF_TRY(result);
    if (result == RF_END) return fail_changed(r);
    if (length / MOST_SHRINKING > r->file_size) return fail_changed(r); /* the index came past it */
    RF_TRY(make_room(r, (size_t)length + FRAME));
    size_t got = 0;
    RF_TRY(rf_inflate_read(s, number, r->frame + RF_RECORD_HEAD, (size_t)length + RF_RECORD_TAIL, &got));
    if (got < length + RF_RECORD_TAIL) return fail_truncated(r->path, number);
    r->next = number + 1;
    *size = (size_t)length;
    return RF_OK;
}

rf_result rf_record_read(rf_record_reader *r, uint64_t number, const uint8_t **bytes, size_t *size)
{
    if (r->held != number) {
        size_t got = 0;
        RF_TRY(r->stream ? read_packed(r, number, &got) : read_plain(r, number, &got));
        const uint8_t *data = r->frame + RF_RECORD_HEAD;
        if (rf_record_get(data + got, 4) != rf_record_checksum(data, got))
            return fail_at(r->path, number, "its bytes have another checksum; the file is damaged, copy it again");
        r->held = number;
        r->held_size = got;
    }
    *bytes = r->frame + RF_RECORD_HEAD;
    *size = r->held_size;
    return RF_OK;
}
