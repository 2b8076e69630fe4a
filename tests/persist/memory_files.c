/* SPDX-License-Identifier: Apache-2.0 */
#include "memory_files.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { SECTOR = 512 };

static bool fails(memory_files *f, bool changes_data)
{
    f->calls++;
    if (f->fail_at == 0 || f->calls < f->fail_at) return false;
    if (f->calls > f->fail_at && !(f->fail_from_there && changes_data)) return false;
    errno = f->fail_code;
    return true;
}

static memory_change *record(memory_files *f, int kind, int file)
{
    static memory_change nowhere;
    if (!f->record) return &nowhere;
    if (f->num_changes == f->capacity) {
        f->capacity = f->capacity ? 2 * f->capacity : 64;
        f->changes = realloc(f->changes, f->capacity * sizeof(*f->changes));
        if (!f->changes) abort();
    }
    memory_change *c = &f->changes[f->num_changes++];
    memset(c, 0, sizeof(*c));
    c->kind = kind;
    c->file = file;
    return c;
}

int memory_files_find(const memory_files *f, const char *name)
{
    for (int i = 0; i < f->num_names; i++)
        if (strcmp(f->name[i].name, name) == 0) return f->name[i].file;
    return -1;
}

static void set_name(memory_files *f, const char *name, int file)
{
    for (int i = 0; i < f->num_names; i++) {
        if (strcmp(f->name[i].name, name) != 0) continue;
        f->name[i].file = file;
        if (file < 0) f->name[i] = f->name[--f->num_names];
        return;
    }
    if (file < 0) return;
    if (f->num_names == MEMORY_FILES) abort();
    snprintf(f->name[f->num_names].name, MEMORY_NAME, "%s", name);
    f->name[f->num_names++].file = file;
}

static void put_bytes(memory_files *f, int file, const void *bytes, uint64_t size, uint64_t offset)
{
    const uint64_t end = offset + size;
    if (end > f->file[file].capacity) {
        /* From the system, so that tests which count allocations count the library's only. It comes zeroed. */
        const uint64_t room = end < 4096 ? 4096 : 2 * end;
        void *old = f->file[file].bytes;
        void *grown = old ? mremap(old, f->file[file].capacity, room, MREMAP_MAYMOVE)
                          : mmap(NULL, room, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (grown == MAP_FAILED) abort();
        f->file[file].bytes = grown;
        f->file[file].capacity = room;
    }
    if (end > f->file[file].size) f->file[file].size = end;
    if (size > 0) memcpy(f->file[file].bytes + offset, bytes, size);
}

static int new_file(memory_files *f)
{
    if (f->num_files == MEMORY_FILES) abort();
    memset(&f->file[f->num_files], 0, sizeof(f->file[0]));
    return f->num_files++;
}

static int new_descriptor(memory_files *f, int what)
{
    for (int i = 0; i < MEMORY_OPEN; i++) {
        if (f->open[i]) continue;
        f->open[i] = what;
        return i + 3;
    }
    errno = EMFILE;
    return -1;
}

static int op_create(void *user, const char *path)
{
    memory_files *f = user;
    if (fails(f, true)) return -1;
    if (memory_files_find(f, path) >= 0) {
        errno = EEXIST;
        return -1;
    }
    const int file = new_file(f);
    set_name(f, path, file);
    snprintf(record(f, CHANGE_CREATE, file)->to, MEMORY_NAME, "%s", path);
    return new_descriptor(f, file + 2);
}

static int op_open(void *user, const char *path)
{
    memory_files *f = user;
    if (fails(f, false)) return -1;
    const int file = memory_files_find(f, path);
    if (file >= 0) return new_descriptor(f, file + 2);
    errno = ENOENT;
    return -1;
}

static int op_open_directory(void *user, const char *path)
{
    memory_files *f = user;
    (void)path;
    return fails(f, false) ? -1 : new_descriptor(f, 1);
}

static int64_t op_size(void *user, int fd)
{
    memory_files *f = user;
    if (fails(f, false)) return -1;
    return (int64_t)f->file[f->open[fd - 3] - 2].size;
}

static ssize_t op_pread(void *user, int fd, void *data, size_t size, uint64_t offset)
{
    memory_files *f = user;
    if (f->fail_at && fails(f, false)) return -1;
    const int file = f->open[fd - 3] - 2;
    const uint64_t end = f->file[file].size;
    if (offset >= end) return 0;
    if (size > end - offset) size = end - offset;
    if (f->max_transfer && size > f->max_transfer) size = f->max_transfer;
    memcpy(data, f->file[file].bytes + offset, size);
    atomic_fetch_add(&f->bytes_read, size);
    if (offset < f->read_begin) f->read_begin = offset;
    if (offset + size > f->read_end) f->read_end = offset + size;
    return (ssize_t)size;
}

static ssize_t op_pwrite(void *user, int fd, const void *data, size_t size, uint64_t offset)
{
    memory_files *f = user;
    if (fails(f, true)) return -1;
    if (f->max_transfer && size > f->max_transfer) size = f->max_transfer;
    const int file = f->open[fd - 3] - 2;
    put_bytes(f, file, data, size, offset);
    if (f->record) {
        memory_change *c = record(f, CHANGE_WRITE, file);
        c->offset = offset;
        c->size = size;
        c->bytes = malloc(size + 1);
        if (!c->bytes) abort();
        memcpy(c->bytes, data, size);
    }
    return (ssize_t)size;
}

static int op_fsync(void *user, int fd)
{
    memory_files *f = user;
    if (fails(f, true)) return -1;
    if (f->ignore_sync) return 0;
    const int what = f->open[fd - 3];
    record(f, what == 1 ? CHANGE_SYNC_DIRECTORY : CHANGE_SYNC, what - 2);
    return 0;
}

static void op_start_writeback(void *user, int fd, uint64_t offset, uint64_t size)
{
    (void)user, (void)fd, (void)offset, (void)size;
}

static int op_close(void *user, int fd)
{
    memory_files *f = user;
    if (fd < 3 || fd >= MEMORY_OPEN + 3 || f->open[fd - 3] == 0) abort();
    f->open[fd - 3] = 0;
    return fails(f, false) ? -1 : 0;
}

static int op_rename(void *user, const char *from, const char *to)
{
    memory_files *f = user;
    if (fails(f, true)) return -1;
    const int file = memory_files_find(f, from);
    if (file < 0) abort();
    set_name(f, from, -1);
    set_name(f, to, file);
    memory_change *c = record(f, CHANGE_RENAME, file);
    snprintf(c->from, MEMORY_NAME, "%s", from);
    snprintf(c->to, MEMORY_NAME, "%s", to);
    return 0;
}

static int op_unlink(void *user, const char *path)
{
    memory_files *f = user;
    if (fails(f, false)) return -1;
    set_name(f, path, -1);
    snprintf(record(f, CHANGE_UNLINK, -1)->from, MEMORY_NAME, "%s", path);
    return 0;
}

static int op_list(void *user, const char *directory, rf_name_fn visit, void *argument)
{
    memory_files *f = user;
    if (fails(f, false)) return -1;
    const size_t length = strlen(directory);
    for (int i = f->num_names - 1; i >= 0; i--) { /* the visitor may remove what it is told of */
        const char *name = f->name[i].name;
        if (strncmp(name, directory, length) == 0 && name[length] == '/' && !visit(argument, name + length + 1)) break;
    }
    return 0;
}

/* Later files are younger. */
static int op_modified(void *user, const char *path, double *seconds)
{
    memory_files *f = user;
    if (fails(f, false)) return -1;
    const int file = memory_files_find(f, path);
    *seconds = file;
    if (file < 0) errno = ENOENT;
    return file < 0 ? -1 : 0;
}

rf_file_ops memory_file_ops(memory_files *files)
{
    return (rf_file_ops){ .create = op_create,
                          .open = op_open,
                          .open_directory = op_open_directory,
                          .size = op_size,
                          .pread = op_pread,
                          .pwrite = op_pwrite,
                          .fsync = op_fsync,
                          .start_writeback = op_start_writeback,
                          .close = op_close,
                          .rename = op_rename,
                          .unlink = op_unlink,
                          .list = op_list,
                          .modified = op_modified,
                          .user = files };
}

void memory_files_free(memory_files *files)
{
    for (int i = 0; i < files->num_files; i++)
        if (files->file[i].bytes) munmap(files->file[i].bytes, files->file[i].capacity);
    for (uint32_t i = 0; i < files->num_changes; i++) free(files->changes[i].bytes);
    free(files->changes);
    memset(files, 0, sizeof(*files));
}

void memory_files_put(memory_files *files, const char *name, const void *bytes, uint64_t size)
{
    const int file = new_file(files);
    put_bytes(files, file, bytes, size, 0);
    set_name(files, name, file);
}

void memory_files_copy(const memory_files *from, memory_files *to)
{
    memset(to, 0, sizeof(*to));
    for (int i = 0; i < from->num_names; i++) {
        const int file = from->name[i].file;
        memory_files_put(to, from->name[i].name, from->file[file].bytes, from->file[file].size);
    }
}

bool memory_files_are_new(uint64_t seen[MEMORY_STATES], const memory_files *files)
{
    uint64_t sum = 1; /* whatever the order of the names */
    for (int i = 0; i < files->num_names; i++) {
        const int file = files->name[i].file;
        const uint64_t name = rf_hash_bytes(files->name[i].name, strlen(files->name[i].name), 0);
        sum += rf_hash64(name, rf_hash_bytes(files->file[file].bytes, files->file[file].size, 0));
    }
    uint64_t at = sum % MEMORY_STATES;
    while (seen[at] && seen[at] != sum) at = (at + 1) % MEMORY_STATES;
    const bool is_new = seen[at] == 0;
    seen[at] = sum;
    return is_new;
}

/* One write that was not synced: all of it, nothing, or some of its sectors. */
static void put_unsynced(memory_files *out, const memory_change *c, rf_rng *rng)
{
    const uint64_t kind = rf_rng_below(rng, 4);
    if (kind == 0) return;
    if (kind == 1) {
        put_bytes(out, c->file, c->bytes, c->size, c->offset);
        return;
    }
    for (uint64_t at = 0, n; at < c->size; at += n) {
        n = SECTOR - (c->offset + at) % SECTOR;
        if (n > c->size - at) n = c->size - at;
        const uint64_t what = rf_rng_below(rng, 8);
        if (kind == 2 ? what < 4 : what == 0) break; /* cut */
        if (what >= 6) {                             /* allocated, never written */
            static const uint8_t zeros[SECTOR];
            put_bytes(out, c->file, zeros, n, c->offset + at);
        } else {
            put_bytes(out, c->file, c->bytes + at, n, c->offset + at);
        }
    }
}

static void change_names(memory_files *out, const memory_change *c)
{
    if (c->kind == CHANGE_CREATE) set_name(out, c->to, c->file);
    if (c->kind == CHANGE_UNLINK || c->kind == CHANGE_RENAME) set_name(out, c->from, -1);
    if (c->kind == CHANGE_RENAME) set_name(out, c->to, c->file);
}

void memory_files_crash(const memory_files *before, const memory_files *recorded, uint32_t count, rf_rng *rng,
                        memory_files *out)
{
    memset(out, 0, sizeof(*out));
    for (int i = 0; i < recorded->num_files; i++) {
        new_file(out);
        if (i < before->num_files) put_bytes(out, i, before->file[i].bytes, before->file[i].size, 0);
    }
    for (int i = 0; i < before->num_names; i++) set_name(out, before->name[i].name, before->name[i].file);
    uint32_t synced[MEMORY_FILES] = { 0 }, names_synced = 0;
    for (uint32_t i = 0; i < count; i++) {
        const memory_change *c = &recorded->changes[i];
        if (c->kind == CHANGE_SYNC) synced[c->file] = i;
        if (c->kind == CHANGE_SYNC_DIRECTORY) names_synced = i;
    }
    const bool in_order = rf_rng_below(rng, 2) == 0;
    const uint32_t names_end = names_synced + (uint32_t)rf_rng_below(rng, count - names_synced + 1);
    for (uint32_t i = 0; i < count; i++) {
        const memory_change *c = &recorded->changes[i];
        if (c->kind != CHANGE_WRITE) {
            if (i < names_synced || (in_order ? i < names_end : rf_rng_below(rng, 2) == 0)) change_names(out, c);
        } else if (i < synced[c->file]) {
            put_bytes(out, c->file, c->bytes, c->size, c->offset);
        } else {
            put_unsynced(out, c, rng);
        }
    }
}
