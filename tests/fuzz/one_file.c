/* SPDX-License-Identifier: Apache-2.0 */
#include "one_file.h"

#include <stdlib.h>
#include <string.h>

enum { DESCRIPTOR = 3 };

static int op_create(void *user, const char *path)
{
    (void)path;
    one_file *f = user;
    free(f->own);
    *f = (one_file){ 0 };
    return DESCRIPTOR;
}

static int op_open(void *user, const char *path)
{
    (void)user, (void)path;
    return DESCRIPTOR;
}

static int64_t op_size(void *user, int fd)
{
    (void)fd;
    return (int64_t)((const one_file *)user)->size;
}

static ssize_t op_pread(void *user, int fd, void *data, size_t size, uint64_t offset)
{
    (void)fd;
    const one_file *f = user;
    if (offset >= f->size) return 0;
    if (size > f->size - offset) size = (size_t)(f->size - offset);
    if (size > 0) memcpy(data, f->bytes + offset, size);
    return (ssize_t)size;
}

static ssize_t op_pwrite(void *user, int fd, const void *data, size_t size, uint64_t offset)
{
    (void)fd;
    one_file *f = user;
    const uint64_t end = offset + size;
    if (end > f->size) {
        f->own = realloc(f->own, (size_t)end);
        if (!f->own) abort();
        memset(f->own + f->size, 0, (size_t)(end - f->size));
        f->bytes = f->own;
        f->size = end;
    }
    memcpy(f->own + offset, data, size);
    return (ssize_t)size;
}

static int op_nothing(void *user, int fd)
{
    (void)user, (void)fd;
    return 0;
}

static void op_start_writeback(void *user, int fd, uint64_t offset, uint64_t size)
{
    (void)user, (void)fd, (void)offset, (void)size;
}

static int op_rename(void *user, const char *from, const char *to)
{
    (void)user, (void)from, (void)to;
    return 0;
}

static int op_unlink(void *user, const char *path)
{
    (void)user, (void)path;
    return 0;
}

/* A directory without names. */
static int op_list(void *user, const char *directory, rf_name_fn visit, void *argument)
{
    (void)user, (void)directory, (void)visit, (void)argument;
    return 0;
}

static int op_modified(void *user, const char *path, double *seconds)
{
    (void)user, (void)path;
    *seconds = 0;
    return 0;
}

rf_file_ops one_file_ops(one_file *file)
{
    return (rf_file_ops){ .create = op_create,
                          .open = op_open,
                          .open_directory = op_open,
                          .size = op_size,
                          .pread = op_pread,
                          .pwrite = op_pwrite,
                          .fsync = op_nothing,
                          .start_writeback = op_start_writeback,
                          .close = op_nothing,
                          .rename = op_rename,
                          .unlink = op_unlink,
                          .list = op_list,
                          .modified = op_modified,
                          .user = file };
}
