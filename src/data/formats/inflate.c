/* SPDX-License-Identifier: Apache-2.0 */
#include "data/formats/inflate.h"

#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "base/memory.h"
#include "base/platform.h"

rf_result rf_inflate_fail_truncated(const char *path, const char *unit, uint64_t number)
{
    return RF_FAIL(RF_ERROR_CORRUPT_DATA, "%s: %s %llu: the file ends within it; it is truncated, copy it again", path,
                   unit, (unsigned long long)number);
}

rf_result rf_inflate_begin(rf_inflate_stream *s)
{
    rf_inflate_end(s);
    s->z = (z_stream){ 0 };
    s->offset = 0;
    s->finished = false;
    s->begun = inflateInit2(&s->z, 32 + MAX_WBITS) == Z_OK; /* gzip or zlib, which its first bytes say */
    return s->begun ? RF_OK : RF_FAIL(RF_ERROR_OUT_OF_HOST_MEMORY, "%s: zlib has no memory", s->path);
}

void rf_inflate_end(rf_inflate_stream *s)
{
    if (s->begun) inflateEnd(&s->z);
    s->begun = false;
}

static rf_result stream_refill(rf_inflate_stream *s)
{
    size_t got = 0;
    if (s->z.avail_in > 0) return RF_OK;
    RF_TRY(rf_file_read_some(s->fd, s->path, s->input, sizeof(s->input), s->offset, &got));
    s->offset += got;
    s->z.next_in = s->input;
    s->z.avail_in = (uInt)got;
    return RF_OK;
}

/* At the end of a gzip member: another may follow. */
static rf_result member_end(rf_inflate_stream *s)
{
    RF_TRY(stream_refill(s));
    if (s->z.avail_in == 0) {
        s->finished = true;
        return RF_OK;
    }
    if (s->z.next_in[0] != 0x1f)
        return RF_FAIL(RF_ERROR_CORRUPT_DATA,
                       "%s: continues after its compressed data; the file is damaged, copy it again", s->path);
    return inflateReset(&s->z) == Z_OK ? RF_OK : RF_FAIL(RF_ERROR_INTERNAL, "%s: zlib cannot be reset", s->path);
}

rf_result rf_inflate_read(rf_inflate_stream *s, uint64_t number, uint8_t *to, size_t size, size_t *got)
{
    *got = 0;
    while (*got < size && !s->finished) {
        RF_TRY(stream_refill(s));
        if (s->z.avail_in == 0) return rf_inflate_fail_truncated(s->path, s->unit, number);
        s->z.next_out = to + *got;
        s->z.avail_out = (uInt)(size - *got);
        const int code = inflate(&s->z, Z_NO_FLUSH);
        *got = size - s->z.avail_out;
        if (code == Z_STREAM_END)
            RF_TRY(member_end(s));
        else if (code != Z_OK && code != Z_BUF_ERROR)
            return RF_FAIL(RF_ERROR_CORRUPT_DATA, "%s: %s %llu: damaged compressed data (%s); copy the file again",
                           s->path, s->unit, (unsigned long long)number, s->z.msg ? s->z.msg : "zlib error");
    }
    return RF_OK;
}

bool rf_inflate_is_gzip(const uint8_t *head, size_t size)
{
    return size >= 2 && head[0] == 0x1f && head[1] == 0x8b;
}

/* All that follows. *data is the caller's, also when this fails. */
static rf_result stream_read_all(rf_inflate_stream *s, void **data, size_t *size)
{
    size_t got = 0;
    for (size_t capacity = 1 << 16;; capacity *= 2) {
        char *grown = rf_calloc(capacity, 1);
        if (!grown) return rf_error_context(RF_ERROR_OUT_OF_HOST_MEMORY, "%s", s->path);
        if (*size > 0) memcpy(grown, *data, *size);
        rf_free(*data);
        *data = grown;
        const size_t room = capacity - *size, most = 1 << 30;
        RF_TRY(rf_inflate_read(s, *size, (uint8_t *)grown + *size, room < most ? room : most, &got));
        *size += got;
        if (*size < capacity && s->finished) return RF_OK;
    }
}

static rf_result inflate_whole(const char *path, int fd, void **data, size_t *size)
{
    rf_inflate_stream *s = RF_NEW(rf_inflate_stream);
    if (!s) return RF_ERROR_OUT_OF_HOST_MEMORY;
    *s = (rf_inflate_stream){ .path = path, .unit = "unpacked byte", .fd = fd };
    rf_result r = rf_inflate_begin(s);
    if (r == RF_OK) r = stream_read_all(s, data, size);
    rf_inflate_end(s);
    rf_free(s);
    return r;
}

rf_result rf_inflate_file(const char *path, void **data, size_t *size)
{
    int fd = -1;
    uint64_t file_size = 0;
    uint8_t head[2];
    size_t got = 0;
    *data = NULL;
    *size = 0;
    RF_TRY(rf_file_open_regular(path, &fd, &file_size));
    rf_result r = rf_file_read_some(fd, path, head, sizeof(head), 0, &got);
    const bool packed = r == RF_OK && rf_inflate_is_gzip(head, got);
    if (packed) r = inflate_whole(path, fd, data, size);
    (void)close(fd);
    if (r == RF_OK && !packed) r = rf_file_read(path, 0, data, size);
    if (r < 0) {
        rf_free(*data);
        *data = NULL;
    }
    return r;
}
