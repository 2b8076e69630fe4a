/* SPDX-License-Identifier: Apache-2.0 */
/* One file of an archive: its header, and the blocks of its tensors. */
#include <errno.h>
#include <pthread.h>
#include <string.h>

#include "base/memory.h"
#include "base/threads.h"
#include "persist/archive/internal.h"
#include "persist/archive/transpose.h"
#include "persist/archive/xxh64.h"

enum { MAX_THREADS = 8 };
static const uint64_t bytes_per_thread = 8u << 20; /* below that a thread costs more than it brings */

/* ---- open, close ---- */

static rf_result read_layout(rf_archive *a, rf_archive_layout *layout)
{
    int64_t size;
    do {
        size = a->ops->size(a->ops->user, a->fd);
    } while (size < 0 && errno == EINTR);
    if (size < 0 && errno == EINVAL) return RF_FAIL(RF_ERROR_CORRUPT_DATA, "%s: not a regular file", a->path);
    if (size < 0) return RF_FAIL_ERRNO(RF_ERROR_IO, "%s: cannot tell its size", a->path);
    if (size < RF_ARCHIVE_PREAMBLE + RF_ARCHIVE_TRAILER)
        return RF_FAIL(RF_ERROR_CORRUPT_DATA,
                       "%s: %lld bytes are too few for a checkpoint; the file is truncated or not a checkpoint",
                       a->path, (long long)size);
    uint8_t preamble[RF_ARCHIVE_PREAMBLE], trailer[RF_ARCHIVE_TRAILER];
    RF_TRY(rf_file_read_at(a->ops, a->fd, a->path, preamble, sizeof(preamble), 0));
    RF_TRY(rf_archive_layout_decode(a->path, preamble, (uint64_t)size, layout));
    RF_TRY(rf_file_read_at(a->ops, a->fd, a->path, trailer, sizeof(trailer), (uint64_t)size - sizeof(trailer)));
    a->is = (rf_archive_identity){ (uint64_t)size, rf_archive_preamble_hash(preamble) };
    a->header.sharded = rf_archive_preamble_version(preamble) == RF_ARCHIVE_VERSION_PARTS;
    return rf_archive_trailer_check(a->path, preamble, trailer);
}

static rf_result read_header(rf_archive *a)
{
    rf_archive_layout layout;
    RF_TRY(read_layout(a, &layout));
    a->header.size = layout.header_size;
    a->header.bytes = rf_calloc(layout.header_size, 1);
    if (!a->header.bytes) return RF_ERROR_OUT_OF_HOST_MEMORY;
    RF_TRY(rf_file_read_at(a->ops, a->fd, a->path, a->header.bytes, layout.header_size, layout.header_offset));
    if (rf_xxh64(a->header.bytes, layout.header_size) != layout.header_hash)
        return RF_FAIL(RF_ERROR_CORRUPT_DATA, "%s: the header is damaged; restore the file from a copy", a->path);
    return rf_archive_header_check(&a->header, a->path, layout.header_offset);
}

rf_result rf_archive_open_main(const rf_file_ops *ops, const char *path, rf_archive **out)
{
    *out = NULL;
    rf_archive *a = RF_NEW(rf_archive);
    if (!a) return RF_ERROR_OUT_OF_HOST_MEMORY;
    a->ops = ops;
    a->fd = -1;
    rf_result r = RF_ERROR_OUT_OF_HOST_MEMORY;
    a->path = rf_strdup(path);
    a->spare = rf_calloc(1, sizeof(*a->spare));
    if (!a->path || !a->spare) goto done;
    do {
        a->fd = ops->open(ops->user, path);
    } while (a->fd < 0 && errno == EINTR);
    if (a->fd < 0)
        r = RF_FAIL_ERRNO(errno == ENOENT || errno == ENOTDIR ? RF_ERROR_NOT_FOUND : RF_ERROR_IO, "%s: cannot open",
                          path);
    else
        r = read_header(a);
done:
    if (r < 0) rf_archive_close(&a);
    *out = a;
    return r;
}

void rf_archive_close(rf_archive **archive)
{
    if (!archive || !*archive) return;
    rf_archive *a = *archive;
    for (uint32_t i = 0; a->parts && i < a->header.num_parts; i++) rf_archive_close(&a->parts[i]);
    rf_free(a->parts);
    if (a->fd >= 0) a->ops->close(a->ops->user, a->fd);
    if (a->spare) ZSTD_freeDCtx(atomic_load(a->spare));
    rf_archive_header_free(&a->header);
    rf_free(a->spare);
    rf_free(a->path);
    rf_free(a);
    *archive = NULL;
}

rf_result rf_archive_identify(const rf_file_ops *ops, const char *path, rf_archive_identity *out)
{
    rf_archive *a;
    RF_TRY(rf_archive_open_main(ops, path, &a));
    *out = a->is;
    rf_archive_close(&a);
    return RF_OK;
}

/* ---- names ---- */

uint32_t rf_archive_search(const rf_archive_header *h, const uint32_t *places, uint32_t count, const char *name)
{
    uint32_t low = 0, high = count;
    while (low < high) {
        const uint32_t middle = low + (high - low) / 2;
        const int order = strcmp(name, (const char *)h->bytes + places[middle]);
        if (order == 0) return middle;
        if (order < 0)
            high = middle;
        else
            low = middle + 1;
    }
    return count;
}

uint32_t rf_archive_index(const rf_archive *archive, const char *name)
{
    const rf_archive_header *h = &archive->header;
    return rf_archive_search(h, h->tensors, h->num_tensors, name);
}

uint64_t rf_archive_stored_bytes(const rf_archive_record *record)
{
    uint64_t bytes = 0;
    rf_unpack blocks = record->blocks;
    for (uint32_t i = 0; i < record->num_blocks; i++) {
        rf_archive_block block;
        rf_archive_next_block(&blocks, &block);
        for (uint32_t f = 0; f < block.num_frames; f++) bytes += block.frame[f].stored;
    }
    return bytes;
}

/* ---- tensors ---- */

/* Tensors next..end, block by block, by several threads. */
typedef struct reading {
    const rf_archive *archive;
    uint8_t *data; /* NULL: only check */
    pthread_mutex_t mutex;
    uint32_t next, end;
    rf_archive_record tensor; /* the one that blocks are taken from */
    uint32_t blocks_left;
    uint64_t offset, done; /* of its next block: in the file, in the tensor */
    rf_result result;
    rf_error_record error;
} reading;

/* One block to read, and the buffers of one thread: they grow to what the blocks need. */
typedef struct block_reader {
    reading *job;
    ZSTD_DCtx *zstd;
    uint8_t *stored, *raw;
    uint64_t stored_size, raw_size;
    rf_archive_block block;
    const char *name;
    size_t element;
    uint64_t offset;
    uint8_t *to;
} block_reader;

static bool take_block(reading *job, block_reader *reader)
{
    pthread_mutex_lock(&job->mutex);
    while (job->result == RF_OK && job->blocks_left == 0 && job->next < job->end) {
        rf_archive_header_tensor(&job->archive->header, job->next++, &job->tensor);
        job->blocks_left = job->tensor.num_blocks;
        job->offset = job->tensor.offset;
        job->done = 0;
    }
    const bool taken = job->result == RF_OK && job->blocks_left > 0;
    if (taken) {
        job->blocks_left--;
        rf_archive_next_block(&job->tensor.blocks, &reader->block);
        reader->name = job->tensor.name;
        reader->element = rf_dtype_size(job->tensor.dtype);
        reader->offset = job->offset;
        reader->to = job->data ? job->data + job->done : NULL;
        for (uint32_t f = 0; f < reader->block.num_frames; f++) job->offset += reader->block.frame[f].stored;
        job->done += reader->block.raw;
    }
    pthread_mutex_unlock(&job->mutex);
    return taken;
}

static rf_result grow_buffer(uint8_t **buffer, uint64_t *size, uint64_t need)
{
    if (need <= *size) return RF_OK;
    rf_free(*buffer);
    *size = 0;
    *buffer = rf_calloc(need, 1);
    if (!*buffer) return RF_ERROR_OUT_OF_HOST_MEMORY;
    *size = need;
    return RF_OK;
}

static rf_result fail_damaged(const block_reader *reader, uint64_t offset, const char *what)
{
    return RF_FAIL(RF_ERROR_CORRUPT_DATA, "%s: tensor '%s': %s at byte %llu of the file; restore it from a copy",
                   reader->job->archive->path, reader->name, what, (unsigned long long)offset);
}

static rf_result read_frame(block_reader *reader, const rf_archive_frame *frame, uint64_t offset, uint8_t *to)
{
    const rf_archive *a = reader->job->archive;
    uint8_t *stored = to;
    if (frame->compressed) {
        RF_TRY(grow_buffer(&reader->stored, &reader->stored_size, frame->stored));
        stored = reader->stored;
    }
    RF_TRY(rf_file_read_at(a->ops, a->fd, a->path, stored, frame->stored, offset));
    if (rf_xxh64(stored, frame->stored) != frame->hash) return fail_damaged(reader, offset, "wrong checksum");
    if (!frame->compressed) return RF_OK;
    if (!reader->zstd) reader->zstd = atomic_exchange(a->spare, NULL);
    if (!reader->zstd) reader->zstd = ZSTD_createDCtx();
    if (!reader->zstd) return RF_FAIL(RF_ERROR_OUT_OF_HOST_MEMORY, "cannot allocate a zstd decompressor");
    if (ZSTD_findFrameCompressedSize(stored, frame->stored) != frame->stored)
        return fail_damaged(reader, offset, "not one zstd frame");
    const size_t n = ZSTD_decompressDCtx(reader->zstd, to, frame->raw, stored, frame->stored);
    if (ZSTD_isError(n)) return fail_damaged(reader, offset, ZSTD_getErrorName(n));
    return n == frame->raw ? RF_OK : fail_damaged(reader, offset, "a zstd frame of the wrong size");
}

static rf_result read_block(block_reader *reader)
{
    const rf_archive_block *block = &reader->block;
    uint8_t *to = reader->to;
    if (block->transposed || !to) {
        RF_TRY(grow_buffer(&reader->raw, &reader->raw_size, block->raw));
        to = reader->raw;
    }
    uint64_t offset = reader->offset, done = 0;
    for (uint32_t f = 0; f < block->num_frames; f++) {
        RF_TRY(read_frame(reader, &block->frame[f], offset, to + done));
        offset += block->frame[f].stored;
        done += block->frame[f].raw;
    }
    if (block->transposed && reader->to) rf_bytes_untranspose(to, reader->to, block->raw, reader->element);
    return RF_OK;
}

static void *read_blocks(void *argument)
{
    reading *job = argument;
    block_reader reader = { .job = job };
    while (take_block(job, &reader)) {
        const rf_result r = read_block(&reader);
        if (r == RF_OK) continue;
        pthread_mutex_lock(&job->mutex);
        if (job->result == RF_OK) {
            job->result = r;
            rf_error_save(&job->error);
        }
        pthread_mutex_unlock(&job->mutex);
    }
    if (reader.zstd) ZSTD_freeDCtx(atomic_exchange(job->archive->spare, reader.zstd));
    rf_free(reader.stored);
    rf_free(reader.raw);
    return NULL;
}

rf_result rf_archive_read_tensors(const rf_archive *a, uint32_t first, uint32_t end, uint8_t *data, uint64_t bytes)
{
    reading job = { .archive = a, .data = data, .mutex = PTHREAD_MUTEX_INITIALIZER, .next = first, .end = end };
    /* Small tensors, of which there may be very many, do not ask how many cores there are. */
    const uint32_t cores = bytes < bytes_per_thread ? 1 : rf_cpu_count();
    pthread_t threads[MAX_THREADS];
    uint32_t started = 0;
    /* This thread reads too; a thread that cannot be started is one less. */
    while (started + 1 < cores && started + 1 < MAX_THREADS && bytes / bytes_per_thread > started &&
           pthread_create(&threads[started], NULL, read_blocks, &job) == 0)
        started++;
    read_blocks(&job);
    for (uint32_t i = 0; i < started; i++) pthread_join(threads[i], NULL);
    return job.result < 0 ? rf_error_restore(&job.error) : RF_OK;
}

/* One block, or as much of it as lies within begin..end of the tensor; `at` is where it begins there. */
static rf_result read_overlap(block_reader *reader, uint64_t at, uint64_t begin, uint64_t end, uint8_t *data)
{
    uint8_t *scratch = NULL;
    const uint64_t raw = reader->block.raw, first = at < begin ? begin - at : 0;
    const uint64_t last = at + raw > end ? end - at : raw;
    const bool whole = first == 0 && last == raw;
    if (!whole) scratch = rf_calloc(raw, 1);
    if (!whole && !scratch) return RF_ERROR_OUT_OF_HOST_MEMORY;
    reader->to = whole ? data + (at - begin) : scratch;
    const rf_result r = read_block(reader);
    if (r >= 0 && !whole) memcpy(data + (at + first - begin), scratch + first, last - first);
    rf_free(scratch);
    return r;
}

rf_result rf_archive_read_blocks(const rf_archive *a, uint32_t index, uint64_t begin, uint64_t end, uint8_t *data)
{
    rf_archive_record record;
    rf_archive_header_tensor(&a->header, index, &record);
    reading job = { .archive = a };
    block_reader reader = {
        .job = &job, .name = record.name, .element = rf_dtype_size(record.dtype), .offset = record.offset
    };
    rf_result r = RF_OK;
    for (uint64_t i = 0, at = 0; r >= 0 && i < record.num_blocks && at < end; i++) {
        rf_archive_next_block(&record.blocks, &reader.block);
        if (at + reader.block.raw > begin) r = read_overlap(&reader, at, begin, end, data);
        at += reader.block.raw;
        for (uint32_t f = 0; f < reader.block.num_frames; f++) reader.offset += reader.block.frame[f].stored;
    }
    if (reader.zstd) ZSTD_freeDCtx(atomic_exchange(a->spare, reader.zstd));
    rf_free(reader.stored);
    rf_free(reader.raw);
    return r;
}
