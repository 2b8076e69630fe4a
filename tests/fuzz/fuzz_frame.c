/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Frames from the network. The first byte says what is read:
 *   bits 0, 1  0: no key   1: signed   2, 3: encrypted
 *   bit 2      the rest is laid over honest frames by XOR, from the offset in the second byte on (else it is all there
 * is) bits 3..7  how many bytes arrive at a time With a key nothing but honest frames may come out, in order; without
 * one no more memory is used than bytes arrive.
 */
#include <string.h>

#include "fuzz.h"
#include "transport/channel/frame.h"

#define FRAMES 4
static const size_t body_size[FRAMES] = { 5, 0, 90, 1 };

static size_t honest_frames(rf_frame_seal *seal, uint8_t *out)
{
    uint8_t body[128];
    size_t total = 0;
    for (uint16_t i = 0; i < FRAMES; i++) {
        uint8_t *head = out + total;
        size_t used, n = body_size[i];
        memset(body, 'a' + i, sizeof(body));
        if (rf_frame_seal_header(seal, i, (uint32_t)n, head, &used) < 0) abort();
        memcpy(head + used, body, n);
        if (n > 0 && seal->encrypt) {
            if (rf_frame_seal_encrypt_begin(seal, head) < 0 || rf_frame_seal_encrypt(seal, body, n, head + used) < 0 ||
                rf_frame_seal_encrypt_end(seal, head + used + n) < 0)
                abort();
        } else if (n > 0 && seal->secure) {
            if (rf_frame_seal_body_tag(seal, head, &(rf_bytes){ body, n }, 1, head + used + n) < 0) abort();
        }
        total += used + n + (n > 0 ? rf_frame_seal_tag_size(seal) : 0);
        rf_frame_seal_next(seal);
    }
    return total;
}

static void check_frame(const rf_frame_reader *reader, unsigned number)
{
    if (reader->size > RF_FRAME_MAX_BODY) abort();
    volatile uint8_t sum = 0;
    if (reader->size > 0) sum = (uint8_t)(reader->body[0] + reader->body[reader->size - 1]);
    (void)sum;
    if (!reader->seal.secure) return;
    if (number >= FRAMES || reader->type != number || reader->size != body_size[number]) abort();
    for (size_t i = 0; i < reader->size; i++)
        if (reader->body[i] != 'a' + number) abort();
}

static void read_all(rf_frame_reader *reader, const uint8_t *bytes, size_t size, size_t step)
{
    unsigned number = 0;
    for (size_t at = 0; at < size;) {
        void *where;
        size_t want;
        if (rf_frame_reader_want(reader, &where, &want) < 0 || want == 0) abort();
        if (reader->capacity > 65536 + 2 * size) abort();
        if (want > step) want = step;
        if (want > size - at) want = size - at;
        memcpy(where, bytes + at, want);
        at += want;
        const rf_result r = rf_frame_reader_got(reader, want);
        if (r < 0) {
            if (r != RF_ERROR_CORRUPT_DATA || reader->complete) abort();
            return;
        }
        if (reader->complete) check_frame(reader, number++);
    }
}

FUZZ_TARGET(frame)
{
    if (size < 2) return 0;
    const unsigned mode = data[0];
    static const uint8_t key[RF_JOB_KEY_BYTES] = { 7 };
    const uint8_t *k = mode & 3 ? key : NULL;
    const bool encrypt = mode & 2;
    uint8_t wire[512];
    rf_frame_reader reader = { 0 };
    if (rf_frame_seal_init(&reader.seal, k, encrypt) < 0) abort();
    const size_t step = mode >> 3 ? mode >> 3 : SIZE_MAX;
    if (mode & 4) {
        rf_frame_seal seal;
        if (rf_frame_seal_init(&seal, k, encrypt) < 0) abort();
        const size_t total = honest_frames(&seal, wire);
        for (size_t i = 2; i < size && data[1] + i - 2 < total; i++) wire[data[1] + i - 2] ^= data[i];
        rf_frame_seal_clear(&seal);
        read_all(&reader, wire, total, step);
    } else {
        read_all(&reader, data + 1, size - 1, step);
    }
    rf_frame_reader_clear(&reader);
    return 0;
}
