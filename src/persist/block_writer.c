/* SPDX-License-Identifier: Apache-2.0 */
#include "persist/block_writer.h"

#include <string.h>
#include <zstd.h>

#include "base/error.h"
#include "base/memory.h"
#include "persist/transpose.h"
#include "persist/xxh64.h"

enum {
    SMALLEST = 64, /* bytes of a block below which a frame's own bytes eat what is gained */
    SAMPLES = 4,   /* pieces of a plane that decide for it */
    SAMPLE_SIZE = 4096,
    WORTH = 16, /* compression must save at least 1/16: less is not worth the time to load it */
};

struct rf_block_writer {
    ZSTD_CCtx *zstd; /* NULL: no compression */
    uint8_t sample[SAMPLES * SAMPLE_SIZE], trial[SAMPLES * SAMPLE_SIZE];
};

rf_result rf_block_writer_create(bool compress, int level, rf_block_writer **out)
{
    *out = RF_NEW(rf_block_writer);
    if (!*out) return RF_ERROR_OUT_OF_HOST_MEMORY;
    if (!compress) return RF_OK;
    ZSTD_CCtx *zstd = (*out)->zstd = ZSTD_createCCtx();
    if (zstd && !ZSTD_isError(ZSTD_CCtx_setParameter(zstd, ZSTD_c_compressionLevel, level)) &&
        !ZSTD_isError(ZSTD_CCtx_setParameter(zstd, ZSTD_c_checksumFlag, 1)))
        return RF_OK;
    rf_block_writer_destroy(out);
    return RF_FAIL(RF_ERROR_OUT_OF_HOST_MEMORY, "cannot set a zstd compressor up");
}

void rf_block_writer_destroy(rf_block_writer **writer)
{
    if (!*writer) return;
    ZSTD_freeCCtx((*writer)->zstd);
    rf_free(*writer);
    *writer = NULL;
}

static size_t worth(size_t size)
{
    return size - size / WORTH - 1;
}

/* Size when compressed, 0 when it does not pay. zstd stops where it runs out of room. */
static size_t compress(rf_block_writer *w, const uint8_t *data, size_t size, uint8_t *packed)
{
    const size_t n = ZSTD_compress2(w->zstd, packed, worth(size), data, size);
    return ZSTD_isError(n) ? 0 : n;
}

/* Whether a plane looks as if it could be compressed. */
static bool promising(rf_block_writer *w, const uint8_t *plane, size_t size)
{
    if (size < SMALLEST) return false;
    if (size <= sizeof(w->sample)) return true;
    for (size_t i = 0; i < SAMPLES; i++)
        memcpy(w->sample + i * SAMPLE_SIZE, plane + (size - SAMPLE_SIZE) / (SAMPLES - 1) * i, SAMPLE_SIZE);
    return compress(w, w->sample, sizeof(w->sample), w->trial) > 0;
}

static void add_frame(rf_encoded_block *out, const uint8_t *bytes, size_t stored, size_t raw, bool compressed)
{
    rf_archive_block *b = &out->block;
    out->bytes[b->num_frames] = bytes;
    b->frame[b->num_frames++] = (rf_archive_frame){ stored, raw, compressed, 0 };
}

/* Planes that follow each other and promise the same become one frame. */
static void encode_planes(rf_block_writer *w, const uint8_t *planes, size_t size, size_t element, uint8_t *packed,
                          rf_encoded_block *out)
{
    const size_t plane = size / element;
    bool pays[8];
    for (size_t p = 0; p < element; p++) pays[p] = promising(w, planes + p * plane, plane);
    size_t used = 0;
    for (size_t p = 0, next; p < element; p = next) {
        for (next = p + 1; next < element && pays[next] == pays[p]; next++) {}
        const uint8_t *from = planes + p * plane;
        const size_t raw = (next - p) * plane;
        const size_t stored = pays[p] ? compress(w, from, raw, packed + used) : 0;
        if (stored)
            add_frame(out, packed + used, stored, raw, true);
        else
            add_frame(out, from, raw, raw, false);
        used += stored;
    }
}

rf_result rf_block_encode(rf_block_writer *w, const void *data, size_t size, size_t element, uint8_t *planes,
                          uint8_t *packed, rf_encoded_block *out)
{
    rf_archive_block *b = &out->block;
    *b = (rf_archive_block){ .raw = size };
    if (w->zstd && size >= SMALLEST) {
        const uint8_t *from = data;
        if (element > 1) {
            rf_bytes_transpose(data, planes, size, element);
            from = planes;
        }
        encode_planes(w, from, size, element, packed, out);
        b->transposed = element > 1;
    }
    bool compressed = false;
    for (uint32_t f = 0; f < b->num_frames; f++) compressed |= b->frame[f].compressed;
    if (!compressed) { /* as it is: nothing to undo when it is read */
        b->num_frames = 0;
        b->transposed = false;
        add_frame(out, data, size, size, false);
    }
    for (uint32_t f = 0; f < b->num_frames; f++) b->frame[f].hash = rf_xxh64(out->bytes[f], b->frame[f].stored);
    return RF_OK;
}
