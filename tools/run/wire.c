/* SPDX-License-Identifier: Apache-2.0 */
#include "run/wire.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "number.h"

#define HEADER_BYTES 12

bool write_all(int fd, const void *data, size_t length)
{
    for (const char *p = data; length > 0;) {
        const ssize_t n = write(fd, p, length);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return false;
        p += n;
        length -= (size_t)n;
    }
    return true;
}

bool wire_send(int fd, uint32_t type, uint32_t rank, const void *data, size_t length)
{
    const uint32_t header[3] = { htonl(type), htonl(rank), htonl((uint32_t)length) };
    return length <= WIRE_MAX_FRAME && write_all(fd, header, sizeof(header)) && write_all(fd, data, length);
}

static void settle_reader(wire_reader *r)
{
    if (r->terminated) r->buffer[r->taken] = r->overwritten;
    r->terminated = false;
    memmove(r->buffer, r->buffer + r->taken, r->used - r->taken);
    r->used -= r->taken;
    r->taken = 0;
}

char *wire_room(wire_reader *r, size_t *size)
{
    if (r->buffer) settle_reader(r);
    if (r->capacity - r->used < 32768) {
        const size_t capacity = 2 * r->capacity + 65536;
        char *grown = realloc(r->buffer, capacity + 1);
        if (!grown) return NULL;
        r->buffer = grown;
        r->capacity = capacity;
    }
    *size = r->capacity - r->used;
    return r->buffer + r->used;
}

void wire_came(wire_reader *r, size_t size)
{
    r->used += size;
}

int wire_read(wire_reader *r, int fd)
{
    size_t room;
    char *to = wire_room(r, &room);
    if (!to) return -1;
    ssize_t n;
    do {
        n = read(fd, to, room);
    } while (n < 0 && errno == EINTR);
    if (n > 0) wire_came(r, (size_t)n);
    return n > 0 ? 1 : (int)n;
}

bool wire_skip_to_magic(wire_reader *r, size_t *noise)
{
    const size_t length = sizeof(WIRE_MAGIC) - 1;
    const char *found = r->buffer ? memmem(r->buffer, r->used, WIRE_MAGIC, length) : NULL;
    *noise = found ? (size_t)(found - r->buffer) : r->used;
    if (found) r->taken = *noise + length;
    return found != NULL;
}

int wire_next(wire_reader *r, wire_frame *frame)
{
    if (!r->buffer) return 0;
    if (r->terminated) r->buffer[r->taken] = r->overwritten;
    r->terminated = false;
    if (r->used - r->taken < HEADER_BYTES) return 0;
    uint32_t header[3];
    memcpy(header, r->buffer + r->taken, sizeof(header));
    frame->type = ntohl(header[0]);
    frame->rank = ntohl(header[1]);
    frame->length = ntohl(header[2]);
    if (frame->type < WIRE_HELLO || frame->type > WIRE_STOP || frame->length > WIRE_MAX_FRAME) return -1;
    if (r->used - r->taken - HEADER_BYTES < frame->length) return 0;
    frame->data = r->buffer + r->taken + HEADER_BYTES;
    r->taken += HEADER_BYTES + frame->length;
    r->overwritten = r->buffer[r->taken]; /* one byte more than `capacity` is allocated */
    r->buffer[r->taken] = '\0';
    r->terminated = true;
    return 1;
}

bool wire_number(const wire_frame *frame, uint32_t most, uint32_t *out)
{
    return parse_decimal(frame->data, frame->length, most, out);
}

bool wire_hello(const wire_frame *frame, const char **version, uint16_t *port)
{
    const size_t length = strnlen(frame->data, frame->length);
    uint32_t number;
    if (length >= frame->length ||
        !parse_decimal(frame->data + length + 1, frame->length - length - 1, UINT16_MAX, &number))
        return false;
    *version = frame->data;
    *port = (uint16_t)number;
    return true;
}

void wire_free(wire_reader *r)
{
    if (r->buffer) explicit_bzero(r->buffer, r->capacity); /* an agent's holds the job key */
    free(r->buffer);
    *r = (wire_reader){ 0 };
}
