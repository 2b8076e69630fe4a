/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The bytes that `ringfire run` reads from an agent through ssh, login scripts' noise before it included. The first
 * byte says how many bytes arrive at a time, and whether the noise is skipped. However they arrive, the same frames
 * come out.
 */
#include <string.h>

#include "fuzz.h"
#include "run/wire.h"

typedef struct seen {
    size_t frames, bytes;
    uint64_t hash;
    bool nonsense;
} seen;

/* Takes the values of frames: a number that is all there is, or nothing. */
static void take_values(const wire_frame *f, seen *s)
{
    const char *version = NULL;
    uint32_t number = 0;
    uint16_t port = 0;
    if (wire_number(f, UINT16_MAX, &number)) {
        PROMISE(f->length > 0 && strspn(f->data, "0123456789") == f->length && number <= UINT16_MAX);
        s->hash += number;
    }
    if (wire_hello(f, &version, &port)) {
        PROMISE(version == f->data && strlen(version) + 1 < f->length);
        s->hash += port;
    }
}

static void take_frames(wire_reader *r, seen *s)
{
    wire_frame f;
    int got;
    while (!s->nonsense && (got = wire_next(r, &f)) != 0) {
        s->nonsense = got < 0;
        if (got < 0) continue;
        PROMISE(f.length <= WIRE_MAX_FRAME && f.data[f.length] == '\0');
        take_values(&f, s);
        s->frames++;
        s->bytes += f.length;
        s->hash = (s->hash ^ f.type) * 31 + f.rank;
        for (uint32_t i = 0; i < f.length; i++) s->hash = s->hash * 31 + (unsigned char)f.data[i];
    }
}

static seen read_all(const uint8_t *data, size_t size, size_t step, bool skip)
{
    wire_reader r = { 0 };
    seen s = { 0 };
    bool begun = !skip;
    for (size_t at = 0; at < size && !s.nonsense;) {
        size_t n, noise;
        char *to = wire_room(&r, &n);
        PROMISE(to && n > 0);
        if (n > step) n = step;
        if (n > size - at) n = size - at;
        memcpy(to, data + at, n);
        wire_came(&r, n);
        at += n;
        if (!begun) begun = wire_skip_to_magic(&r, &noise);
        if (begun) take_frames(&r, &s);
    }
    PROMISE(s.bytes + 12 * s.frames <= size && r.capacity <= 4 * size + 262144);
    wire_free(&r);
    return s;
}

FUZZ_TARGET(wire)
{
    if (size == 0) return 0;
    const size_t step = 1 + (data[0] >> 1);
    const bool skip = data[0] & 1;
    const seen one = read_all(data + 1, size - 1, SIZE_MAX, skip), two = read_all(data + 1, size - 1, step, skip);
    PROMISE(one.frames == two.frames && one.bytes == two.bytes && one.hash == two.hash && one.nonsense == two.nonsense);
    return 0;
}
