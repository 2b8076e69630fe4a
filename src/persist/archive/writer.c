/* SPDX-License-Identifier: Apache-2.0 */
#include "persist/archive/writer.h"

#include <msgpack.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <zstd.h>

#include "base/memory.h"
#include "base/params.h"
#include "base/threads.h"
#include "base/utf8.h"
#include "persist/archive/block_writer.h"
#include "persist/archive/xxh64.h"

enum {
    MAX_THREADS = 64,
    DEFAULT_THREADS = 8,
    JOB_BLOCKS = 256,       /* blocks of small tensors that are encoded together */
    SMALL_BLOCK = 1 << 20,  /* fits into a core's cache */
    SMALL_WRITE = 64 << 10, /* frames below this are collected */
    COLLECT = 256 << 10,
    WRITEBACK = 16 << 20, /* the disk starts on each so many bytes while the next ones are compressed */
};
static const uint64_t large_archive = 64ull << 30; /* larger blocks keep the header within its bound */

/* Consecutive blocks, of one or more tensors, together no larger than one block. */
typedef struct job {
    enum { JOB_FREE, JOB_TAKEN, JOB_DONE } state;
    uint32_t num_blocks;
    struct {
        const rf_archive_tensor *tensor;
        uint64_t begin, size;
    } blocks[JOB_BLOCKS];
    rf_encoded_block encoded[JOB_BLOCKS];
    uint8_t *planes, *packed;
    uint8_t *raw; /* what was read from the source */
} job;

/*
 * Jobs are handed out in the file's order to every thread that asks, encoded, and written in the same order by the
 * calling thread, which encodes too while it has nothing to write. `jobs` is a ring: as many are in memory as there are
 * threads and two more.
 */
typedef struct writing {
    const rf_archive_tensor **tensors; /* by name */
    uint64_t num_tensors, block_size;
    const rf_archive_contents *contents;
    const rf_archive_split *split;   /* NULL: none */
    const rf_archive_source *source; /* NULL: tensors have their data */
    bool compress;
    int level;

    pthread_mutex_t mutex;
    pthread_cond_t changed;
    job *jobs;
    uint32_t num_jobs;
    uint64_t next_tensor, next_byte, taken, written; /* what the next job begins with; jobs so far */
    bool stop;
    rf_result result; /* of the encoders */
    rf_error_record error;

    /* The calling thread's. */
    rf_new_file file;
    uint64_t offset; /* where the next byte goes, collected ones included */
    uint8_t *collected;
    uint64_t num_collected, started; /* bytes; where writeback has begun */
    msgpack_sbuffer header;
    msgpack_packer packer;
    uint64_t listed;      /* tensors in the header */
    uint64_t listed_left; /* bytes of the last one whose blocks are still to come */
    uint64_t place;       /* of the next frame */
} writing;

/* ---- the header ---- */

static rf_result packer_result(int code)
{
    return code == 0 ? RF_OK : RF_FAIL(RF_ERROR_OUT_OF_HOST_MEMORY, "cannot allocate the header of a checkpoint");
}

static rf_result check_header_size(const writing *w)
{
    if (w->header.size <= RF_ARCHIVE_MAX_HEADER) return RF_OK;
    return RF_FAIL(RF_ERROR_UNSUPPORTED,
                   "%s: names and values do not fit into a header of %d bytes; save fewer tensors in one file",
                   w->file.path, RF_ARCHIVE_MAX_HEADER);
}

static int pack_text(msgpack_packer *p, const char *text, size_t size)
{
    return msgpack_pack_str(p, size) != 0 || (size > 0 && msgpack_pack_str_body(p, text, size) != 0);
}

static int pack_value(msgpack_packer *p, const rf_archive_value *v)
{
    if (pack_text(p, v->name, strlen(v->name)) != 0) return -1;
    switch (v->kind) {
    case RF_VALUE_UINT: return msgpack_pack_uint64(p, v->number);
    case RF_VALUE_DOUBLE: return msgpack_pack_double(p, v->real);
    case RF_VALUE_STRING: return pack_text(p, v->bytes, v->size);
    case RF_VALUE_BYTES:
        return msgpack_pack_bin(p, v->size) != 0 || (v->size > 0 && msgpack_pack_bin_body(p, v->bytes, v->size) != 0);
    }
    return -1;
}

static int pack_block(msgpack_packer *p, const rf_archive_block *block)
{
    int bad = msgpack_pack_array(p, 2);
    bad |= block->transposed ? msgpack_pack_true(p) : msgpack_pack_false(p);
    bad |= msgpack_pack_array(p, block->num_frames);
    for (uint32_t f = 0; f < block->num_frames; f++) {
        const rf_archive_frame *frame = &block->frame[f];
        bad |= msgpack_pack_array(p, 4);
        bad |= msgpack_pack_uint64(p, frame->stored);
        bad |= msgpack_pack_uint64(p, frame->raw);
        bad |= frame->compressed ? msgpack_pack_true(p) : msgpack_pack_false(p);
        bad |= msgpack_pack_uint64(p, frame->hash);
    }
    return bad;
}

static uint64_t tensor_bytes(const rf_archive_tensor *t)
{
    return (uint64_t)rf_array_bytes(t->dtype, t->shape); /* checked */
}

static int pack_description(msgpack_packer *p, const rf_archive_tensor *t, size_t fields)
{
    int bad = msgpack_pack_array(p, fields);
    bad |= pack_text(p, t->name, strlen(t->name));
    const char *dtype = rf_dtype_name(t->dtype);
    bad |= pack_text(p, dtype, strlen(dtype));
    bad |= msgpack_pack_array(p, (size_t)t->shape.rank);
    for (int32_t i = 0; i < t->shape.rank; i++) bad |= msgpack_pack_uint64(p, (uint64_t)t->shape.dim[i]);
    return bad;
}

/* Lists the next tensor, whose blocks follow. */
static rf_result list_tensor(writing *w)
{
    const rf_archive_tensor *t = w->tensors[w->listed++];
    msgpack_packer *p = &w->packer;
    int bad = pack_description(p, t, 5);
    bad |= msgpack_pack_uint64(p, w->place);
    w->listed_left = tensor_bytes(t);
    bad |= msgpack_pack_array(p, rf_div_up(w->listed_left, w->block_size));
    RF_TRY(packer_result(bad));
    return check_header_size(w);
}

static rf_result list_block(writing *w, const rf_archive_block *block)
{
    while (w->listed_left == 0) RF_TRY(list_tensor(w));
    w->listed_left -= block->raw;
    for (uint32_t f = 0; f < block->num_frames; f++) w->place += block->frame[f].stored;
    return packer_result(pack_block(&w->packer, block));
}

static rf_result list_extents(writing *w)
{
    msgpack_packer *p = &w->packer;
    for (; w->listed < w->num_tensors; w->listed++) {
        const rf_archive_tensor *t = w->tensors[w->listed];
        const rf_archive_extents *extents = &w->split->extents[t - w->contents->tensors];
        int bad = pack_description(p, t, 4) | msgpack_pack_array(p, extents->count);
        uint64_t left = (uint64_t)rf_shape_count(t->shape);
        for (uint32_t i = 0; i < extents->count; i++) {
            left -= extents->items[i].count;
            bad |= msgpack_pack_array(p, 2);
            bad |= msgpack_pack_uint64(p, extents->items[i].part);
            bad |= msgpack_pack_uint64(p, extents->items[i].count);
        }
        if (left != 0) return RF_FAIL(RF_ERROR_INTERNAL, "tensor '%s': its extents do not cover it", t->name);
        RF_TRY(packer_result(bad));
        RF_TRY(check_header_size(w));
    }
    return RF_OK;
}

static int pack_parts(msgpack_packer *p, const rf_archive_split *split)
{
    int bad = pack_text(p, "parts", 5) | msgpack_pack_array(p, split->num_parts);
    for (uint32_t i = 0; i < split->num_parts; i++) {
        const rf_archive_part *part = &split->parts[i];
        bad |= msgpack_pack_array(p, 3) | pack_text(p, part->name, strlen(part->name));
        bad |= msgpack_pack_uint64(p, part->is.size) | msgpack_pack_uint64(p, part->is.hash);
    }
    return bad;
}

/* ---- bytes to the file ---- */

static rf_result writing_flush(writing *w)
{
    const uint64_t n = w->num_collected;
    w->num_collected = 0;
    return rf_file_write_at(w->file.ops, w->file.fd, w->file.temporary, w->collected, n, w->offset - n);
}

static rf_result writing_append(writing *w, const void *bytes, uint64_t size)
{
    if (size >= SMALL_WRITE || w->num_collected + size > COLLECT) RF_TRY(writing_flush(w));
    if (size >= SMALL_WRITE) {
        RF_TRY(rf_file_write_at(w->file.ops, w->file.fd, w->file.temporary, bytes, size, w->offset));
    } else {
        memcpy(w->collected + w->num_collected, bytes, size);
        w->num_collected += size;
    }
    w->offset += size;
    const uint64_t on_file = w->offset - w->num_collected;
    if (on_file - w->started >= WRITEBACK) {
        w->file.ops->start_writeback(w->file.ops->user, w->file.fd, w->started, on_file - w->started);
        w->started = on_file;
    }
    return RF_OK;
}

static rf_result write_job(writing *w, const job *j)
{
    for (uint32_t i = 0; i < j->num_blocks; i++) {
        const rf_encoded_block *e = &j->encoded[i];
        RF_TRY(list_block(w, &e->block));
        for (uint32_t f = 0; f < e->block.num_frames; f++)
            RF_TRY(writing_append(w, e->bytes[f], e->block.frame[f].stored));
    }
    return RF_OK;
}

/* ---- jobs ---- */

/* Under the mutex. NULL: none now. */
static job *take_job(writing *w)
{
    job *j = &w->jobs[w->taken % w->num_jobs];
    if (w->stop || j->state != JOB_FREE) return NULL;
    j->num_blocks = 0;
    for (uint64_t room = w->block_size; w->next_tensor < w->num_tensors && j->num_blocks < JOB_BLOCKS;) {
        const rf_archive_tensor *t = w->tensors[w->next_tensor];
        const uint64_t left = tensor_bytes(t) - w->next_byte;
        const uint64_t size = left < w->block_size ? left : w->block_size;
        if (size > room) break;
        if (size > 0) {
            j->blocks[j->num_blocks].tensor = t;
            j->blocks[j->num_blocks].begin = w->next_byte;
            j->blocks[j->num_blocks++].size = size;
        }
        room -= size;
        w->next_byte += size;
        if (size == left) {
            w->next_tensor++;
            w->next_byte = 0;
        }
    }
    if (j->num_blocks == 0) return NULL;
    j->state = JOB_TAKEN;
    w->taken++;
    return j;
}

static rf_result encode_job(const writing *w, rf_block_writer *encoder, job *j)
{
    uint64_t at = 0;
    for (uint32_t i = 0; i < j->num_blocks; i++) {
        const rf_archive_tensor *t = j->blocks[i].tensor;
        const uint8_t *data = w->source ? j->raw + at : (const uint8_t *)t->data + j->blocks[i].begin;
        if (w->source)
            RF_TRY(w->source->read(w->source->user, t->name, j->blocks[i].begin, j->raw + at, j->blocks[i].size));
        RF_TRY(rf_block_encode(encoder, data, j->blocks[i].size, rf_dtype_size(t->dtype),
                               j->planes ? j->planes + at : NULL, j->packed ? j->packed + at : NULL, &j->encoded[i]));
        at += j->blocks[i].size;
    }
    return RF_OK;
}

/* Mutex held before and after, not during. */
static void run_job(writing *w, rf_block_writer *encoder, job *j)
{
    pthread_mutex_unlock(&w->mutex);
    const rf_result r = encode_job(w, encoder, j);
    pthread_mutex_lock(&w->mutex);
    j->state = JOB_DONE;
    if (r < 0 && w->result == RF_OK) {
        w->result = r;
        rf_error_save(&w->error);
    }
    pthread_cond_broadcast(&w->changed);
}

static void *encode_jobs(void *argument)
{
    writing *w = argument;
    rf_block_writer *encoder;
    /* Without memory for it the other threads go on; they have theirs or the save fails. */
    if (rf_block_writer_create(w->compress, w->level, &encoder) < 0) return NULL;
    pthread_mutex_lock(&w->mutex);
    while (!w->stop) {
        job *j = take_job(w);
        if (j)
            run_job(w, encoder, j);
        else
            pthread_cond_wait(&w->changed, &w->mutex);
    }
    pthread_mutex_unlock(&w->mutex);
    rf_block_writer_destroy(&encoder);
    return NULL;
}

/* The calling thread writes, and encodes too while it would wait. */
static rf_result write_jobs(writing *w, rf_block_writer *encoder)
{
    rf_result r = RF_OK;
    pthread_mutex_lock(&w->mutex);
    while (r == RF_OK) {
        job *next = &w->jobs[w->written % w->num_jobs], *j;
        if (w->result < 0) {
            r = rf_error_restore(&w->error);
        } else if (next->state == JOB_DONE) {
            pthread_mutex_unlock(&w->mutex);
            r = write_job(w, next);
            pthread_mutex_lock(&w->mutex);
            next->state = JOB_FREE;
            w->written++;
            pthread_cond_broadcast(&w->changed);
        } else if ((j = take_job(w)) != NULL) {
            run_job(w, encoder, j);
        } else if (w->written == w->taken) {
            break; /* all handed out and written */
        } else {
            pthread_cond_wait(&w->changed, &w->mutex);
        }
    }
    w->stop = true;
    pthread_cond_broadcast(&w->changed);
    pthread_mutex_unlock(&w->mutex);
    return r;
}

static rf_result allocate_jobs(writing *w, uint32_t threads)
{
    w->num_jobs = threads + 2;
    w->jobs = RF_NEW_ARRAY(job, w->num_jobs);
    if (!w->jobs) return RF_ERROR_OUT_OF_HOST_MEMORY;
    for (uint32_t i = 0; w->source && i < w->num_jobs; i++) {
        w->jobs[i].raw = rf_calloc(w->block_size, 1);
        if (!w->jobs[i].raw) return RF_ERROR_OUT_OF_HOST_MEMORY;
    }
    for (uint32_t i = 0; w->compress && i < w->num_jobs; i++) {
        w->jobs[i].planes = rf_calloc(w->block_size, 1);
        w->jobs[i].packed = rf_calloc(w->block_size, 1);
        if (!w->jobs[i].planes || !w->jobs[i].packed) return RF_ERROR_OUT_OF_HOST_MEMORY;
    }
    return RF_OK;
}

static rf_result write_tensors(writing *w, uint32_t threads)
{
    rf_block_writer *encoder = NULL;
    pthread_t thread[MAX_THREADS];
    uint32_t started = 0;
    rf_result r = allocate_jobs(w, threads);
    if (r == RF_OK) r = rf_block_writer_create(w->compress, w->level, &encoder);
    if (r == RF_OK) {
        /* A thread that cannot be started is one less. */
        while (started + 1 < threads && pthread_create(&thread[started], NULL, encode_jobs, w) == 0) started++;
        r = write_jobs(w, encoder);
        for (uint32_t i = 0; i < started; i++) pthread_join(thread[i], NULL);
    }
    rf_block_writer_destroy(&encoder);
    return r;
}

/* ---- the whole file ---- */

static rf_result write_file(writing *w, const rf_archive_value **values, uint32_t threads, rf_archive_identity *is)
{
    const rf_archive_contents *c = w->contents;
    msgpack_packer *p = &w->packer;
    int bad = msgpack_pack_map(p, w->split ? 4 : 3);
    bad |= pack_text(p, "type", 4) | pack_text(p, c->type, strlen(c->type));
    bad |= pack_text(p, "values", 6) | msgpack_pack_map(p, c->num_values);
    for (uint64_t i = 0; i < c->num_values; i++) bad |= pack_value(p, values[i]);
    if (w->split) bad |= pack_parts(p, w->split);
    bad |= pack_text(p, "tensors", 7) | msgpack_pack_array(p, c->num_tensors);
    RF_TRY(packer_result(bad));

    w->offset = w->place = RF_ARCHIVE_PREAMBLE;
    if (w->split) {
        RF_TRY(list_extents(w));
    } else {
        RF_TRY(write_tensors(w, threads));
        while (w->listed < w->num_tensors) RF_TRY(list_tensor(w)); /* empty ones at the end */
    }
    RF_TRY(check_header_size(w));

    const rf_archive_layout layout = { w->offset + w->header.size + RF_ARCHIVE_TRAILER, w->offset, w->header.size,
                                       rf_xxh64(w->header.data, w->header.size) };
    uint8_t preamble[RF_ARCHIVE_PREAMBLE], trailer[RF_ARCHIVE_TRAILER];
    rf_archive_layout_encode(&layout, w->split ? RF_ARCHIVE_VERSION_PARTS : RF_ARCHIVE_VERSION, preamble, trailer);
    *is = (rf_archive_identity){ layout.file_size, rf_archive_preamble_hash(preamble) };
    RF_TRY(writing_append(w, w->header.data, w->header.size));
    RF_TRY(writing_append(w, trailer, sizeof(trailer)));
    RF_TRY(writing_flush(w));
    return rf_file_write_at(w->file.ops, w->file.fd, w->file.temporary, preamble, sizeof(preamble), 0);
}

static int by_tensor_name(const void *a, const void *b)
{
    return strcmp((*(const rf_archive_tensor *const *)a)->name, (*(const rf_archive_tensor *const *)b)->name);
}

static int by_value_name(const void *a, const void *b)
{
    return strcmp((*(const rf_archive_value *const *)a)->name, (*(const rf_archive_value *const *)b)->name);
}

static rf_result check_name(const char *what, const char *name)
{
    if (!name) return RF_FAIL(RF_ERROR_INVALID_ARGUMENT, "a %s without a name", what);
    const char *problem = rf_archive_name_problem(name, strlen(name));
    return problem ? RF_FAIL(RF_ERROR_INVALID_ARGUMENT, "name of %s '%.100s' %s", what, name, problem) : RF_OK;
}

static rf_result sort_tensors(writing *w)
{
    const rf_archive_contents *c = w->contents;
    uint64_t total = 0;
    for (uint64_t i = 0; i < c->num_tensors; i++) {
        const rf_archive_tensor *t = &c->tensors[i];
        RF_TRY(check_name("tensor", t->name));
        const int64_t bytes = rf_array_bytes(t->dtype, t->shape);
        RF_REQUIRE(bytes >= 0, "tensor '%s': type or shape is invalid", t->name);
        RF_REQUIRE(bytes == 0 || t->data || w->split || w->source, "tensor '%s': data is NULL", t->name);
        RF_REQUIRE(!__builtin_add_overflow(total, (uint64_t)bytes, &total), "the tensors are too large in total");
        w->tensors[i] = t;
    }
    qsort(w->tensors, c->num_tensors, sizeof(*w->tensors), by_tensor_name);
    for (uint64_t i = 1; i < c->num_tensors; i++)
        RF_REQUIRE(strcmp(w->tensors[i - 1]->name, w->tensors[i]->name) != 0, "two tensors are called '%s'",
                   w->tensors[i]->name);
    w->num_tensors = c->num_tensors;
    w->block_size = total < large_archive ? SMALL_BLOCK : RF_ARCHIVE_MAX_BLOCK;
    return RF_OK;
}

static rf_result sort_values(const rf_archive_value **values, const rf_archive_contents *c)
{
    uint64_t total = 0;
    for (uint64_t i = 0; i < c->num_values; i++) {
        const rf_archive_value *v = &c->values[i];
        RF_TRY(check_name("value", v->name));
        RF_REQUIRE((unsigned)v->kind <= RF_VALUE_BYTES, "value '%s': kind %d does not exist", v->name, (int)v->kind);
        if (v->kind >= RF_VALUE_STRING) {
            RF_REQUIRE(v->size == 0 || v->bytes, "value '%s': bytes are NULL", v->name);
            RF_REQUIRE(v->size <= RF_ARCHIVE_MAX_HEADER && (total += v->size) <= RF_ARCHIVE_MAX_HEADER,
                       "value '%s': values have more than %d bytes in total; save large ones as tensors", v->name,
                       RF_ARCHIVE_MAX_HEADER);
        }
        RF_REQUIRE(v->kind != RF_VALUE_STRING || rf_utf8_valid(v->bytes, v->size),
                   "value '%s' is not UTF-8; save it as bytes", v->name);
        values[i] = v;
    }
    qsort(values, c->num_values, sizeof(*values), by_value_name);
    for (uint64_t i = 1; i < c->num_values; i++)
        RF_REQUIRE(strcmp(values[i - 1]->name, values[i]->name) != 0, "two values are called '%s'", values[i]->name);
    return RF_OK;
}

static uint32_t thread_count(const rf_save_params *params)
{
    if (params->threads) return params->threads < MAX_THREADS ? params->threads : MAX_THREADS;
    const uint32_t cores = rf_cpu_count();
    return cores < DEFAULT_THREADS ? cores : DEFAULT_THREADS;
}

static void finish_writing(writing *w)
{
    for (uint32_t i = 0; w->jobs && i < w->num_jobs; i++) {
        rf_free(w->jobs[i].raw);
        rf_free(w->jobs[i].planes);
        rf_free(w->jobs[i].packed);
    }
    rf_free(w->jobs);
    rf_free(w->tensors);
    rf_free(w->collected);
    msgpack_sbuffer_destroy(&w->header);
    pthread_mutex_destroy(&w->mutex);
    pthread_cond_destroy(&w->changed);
}

static rf_result write_archive(const rf_file_ops *ops, const char *path, const rf_archive_contents *contents,
                               const rf_archive_split *split, const rf_archive_source *source,
                               const rf_save_params *params, rf_archive_identity *is)
{
    static const rf_save_params defaults = { 0 };
    rf_archive_identity unused;
    if (!params) params = &defaults;
    if (!is) is = &unused;
    *is = (rf_archive_identity){ 0 };
    RF_REQUIRE(path && path[0], "checkpoint: path is empty");
    RF_REQUIRE(params->level >= ZSTD_minCLevel() && params->level <= ZSTD_maxCLevel(),
               "save: level is %d; zstd has %d to %d", params->level, ZSTD_minCLevel(), ZSTD_maxCLevel());
    RF_REQUIRE(contents->num_tensors <= UINT32_MAX && contents->num_values <= UINT32_MAX, "save: too many entries");
    RF_TRY(check_name("the type", contents->type));
    writing w = { .contents = contents,
                  .split = split,
                  .source = source,
                  .compress = !params->no_compression,
                  .level = params->level ? params->level : 1,
                  .mutex = PTHREAD_MUTEX_INITIALIZER,
                  .changed = PTHREAD_COND_INITIALIZER };
    msgpack_sbuffer_init(&w.header);
    msgpack_packer_init(&w.packer, &w.header, msgpack_sbuffer_write);
    w.tensors = RF_NEW_ARRAY(const rf_archive_tensor *, contents->num_tensors);
    w.collected = rf_calloc(COLLECT, 1);
    const rf_archive_value **values = RF_NEW_ARRAY(const rf_archive_value *, contents->num_values);
    rf_result r = w.tensors && w.collected && values ? RF_OK : RF_ERROR_OUT_OF_HOST_MEMORY;
    if (r == RF_OK) r = sort_tensors(&w);
    if (r == RF_OK) r = sort_values(values, contents);
    if (r == RF_OK) r = rf_new_file_begin(&w.file, ops, path);
    if (r == RF_OK) {
        r = write_file(&w, values, thread_count(params), is);
        if (r == RF_OK)
            r = rf_new_file_commit(&w.file);
        else
            rf_new_file_abandon(&w.file);
    }
    rf_free(values);
    finish_writing(&w);
    return r;
}

rf_result rf_archive_write_split(const rf_file_ops *ops, const char *path, const rf_archive_contents *contents,
                                 const rf_archive_split *split, const rf_save_params *params, rf_archive_identity *is)
{
    return write_archive(ops, path, contents, split, NULL, params, is);
}

rf_result rf_archive_write_from(const char *path, const rf_archive_contents *contents, const rf_archive_source *source,
                                const rf_save_params *params)
{
    return write_archive(&rf_system_file_ops, path, contents, NULL, source, params, NULL);
}

rf_result rf_archive_write_with(const rf_file_ops *ops, const char *path, const rf_archive_contents *contents,
                                const rf_save_params *params)
{
    return rf_archive_write_split(ops, path, contents, NULL, params, NULL);
}

rf_result rf_archive_write(const char *path, const rf_archive_contents *contents, const rf_save_params *params)
{
    return rf_archive_write_with(&rf_system_file_ops, path, contents, params);
}

rf_result rf_archive_save(const char *path, const rf_archive_tensor *tensors, uint64_t num_tensors,
                          const rf_save_params *params)
{
    RF_REQUIRE(tensors || num_tensors == 0, "rf_archive_save: tensors is NULL");
    RF_TRY(RF_PARAMS_CHECK(rf_save_params, params));
    RF_TRY(RF_PARAMS_CHECK_ALL(rf_archive_tensor, tensors, num_tensors));
    return rf_archive_write(
        path, &(rf_archive_contents){ .type = "tensors", .tensors = tensors, .num_tensors = num_tensors }, params);
}
