/* SPDX-License-Identifier: Apache-2.0 */
#include "data/inflate.h"

#include "base/error.h"
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
