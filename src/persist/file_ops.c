/* SPDX-License-Identifier: Apache-2.0 */
#include "persist/file_ops.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "base/memory.h"
#include "base/platform.h"

static int system_create(void *user, const char *path)
{
    (void)user;
    return open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
}

static int system_open(void *user, const char *path)
{
    (void)user;
    /* O_NONBLOCK: a pipe of that name must not make the caller wait. */
    return open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
}

static int system_open_directory(void *user, const char *path)
{
    (void)user;
    return open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

static int64_t system_size(void *user, int fd)
{
    (void)user;
    struct stat st;
    if (fstat(fd, &st) != 0) return -1;
    if (!S_ISREG(st.st_mode)) {
        errno = EINVAL;
        return -1;
    }
    return st.st_size;
}

static ssize_t system_pread(void *user, int fd, void *data, size_t size, uint64_t offset)
{
    (void)user;
    return pread(fd, data, size, (off_t)offset);
}

static ssize_t system_pwrite(void *user, int fd, const void *data, size_t size, uint64_t offset)
{
    (void)user;
    return pwrite(fd, data, size, (off_t)offset);
}

static int system_fsync(void *user, int fd)
{
    (void)user;
    return fsync(fd);
}

static void system_start_writeback(void *user, int fd, uint64_t offset, uint64_t size)
{
    (void)user;
#ifdef SYNC_FILE_RANGE_WRITE
    (void)sync_file_range(fd, (off_t)offset, (off_t)size, SYNC_FILE_RANGE_WRITE);
#else
    (void)fd, (void)offset, (void)size;
#endif
}

static int system_close(void *user, int fd)
{
    (void)user;
    return close(fd);
}

static int system_rename(void *user, const char *from, const char *to)
{
    (void)user;
    return rename(from, to);
}

static int system_unlink(void *user, const char *path)
{
    (void)user;
    return unlink(path);
}

static int system_list(void *user, const char *directory, rf_name_fn visit, void *argument)
{
    (void)user;
    DIR *dir = opendir(directory);
    if (!dir) return -1;
    const struct dirent *entry;
    bool more = true;
    errno = 0; /* how readdir() tells a failure from the end */
    while (more && (entry = readdir(dir))) {
        more = visit(argument, entry->d_name);
        errno = 0;
    }
    const int code = errno;
    closedir(dir);
    errno = code;
    return code == 0 ? 0 : -1;
}

static int system_modified(void *user, const char *path, double *seconds)
{
    (void)user;
    struct stat st;
    if (stat(path, &st) != 0) return -1;
    if (!S_ISREG(st.st_mode)) {
        errno = EINVAL;
        return -1;
    }
    *seconds = (double)st.st_mtim.tv_sec + 1e-9 * (double)st.st_mtim.tv_nsec;
    return 0;
}

const rf_file_ops rf_system_file_ops = {
    .create = system_create,
    .open = system_open,
    .open_directory = system_open_directory,
    .size = system_size,
    .pread = system_pread,
    .pwrite = system_pwrite,
    .fsync = system_fsync,
    .start_writeback = system_start_writeback,
    .close = system_close,
    .rename = system_rename,
    .unlink = system_unlink,
    .list = system_list,
    .modified = system_modified,
};

/* Linux moves at most 2 GiB at a time. */
static size_t one_call(uint64_t left)
{
    return left < 1u << 30 ? (size_t)left : 1u << 30;
}

rf_result rf_file_open_sized(const rf_file_ops *ops, const char *path, int *fd, uint64_t *size)
{
    int64_t bytes = -1;
    do {
        *fd = ops->open(ops->user, path);
    } while (*fd < 0 && errno == EINTR);
    if (*fd < 0 && errno != ENXIO) /* a socket */
        return RF_FAIL_ERRNO(errno == ENOENT || errno == ENOTDIR ? RF_ERROR_NOT_FOUND : RF_ERROR_IO, "%s: cannot open",
                             path);
    if (*fd >= 0) bytes = ops->size(ops->user, *fd);
    if (bytes >= 0) {
        *size = (uint64_t)bytes;
        return RF_OK;
    }
    const rf_result r = *fd < 0 || errno == EINVAL ? RF_FAIL(RF_ERROR_IO, "%s: is not a regular file", path)
                                                   : RF_FAIL_ERRNO(RF_ERROR_IO, "%s: cannot tell its size", path);
    if (*fd >= 0) ops->close(ops->user, *fd);
    *fd = -1;
    return r;
}

rf_result rf_file_read_at(const rf_file_ops *ops, int fd, const char *path, void *data, uint64_t size, uint64_t offset)
{
    uint8_t *to = data;
    while (size > 0) {
        const ssize_t n = ops->pread(ops->user, fd, to, one_call(size), offset);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return RF_FAIL_ERRNO(RF_ERROR_IO, "%s: cannot read at byte %llu", path, (unsigned long long)offset);
        if (n == 0)
            return RF_FAIL(RF_ERROR_CORRUPT_DATA, "%s: ends at byte %llu; the file was cut while it was read", path,
                           (unsigned long long)offset);
        to += n;
        size -= (uint64_t)n;
        offset += (uint64_t)n;
    }
    return RF_OK;
}

rf_result rf_file_write_at(const rf_file_ops *ops, int fd, const char *path, const void *data, uint64_t size,
                           uint64_t offset)
{
    const uint8_t *from = data;
    while (size > 0) {
        const ssize_t n = ops->pwrite(ops->user, fd, from, one_call(size), offset);
        if (n < 0 && errno == EINTR) continue;
        if (n == 0) errno = EIO; /* no regular file does that */
        if (n <= 0) return RF_FAIL_ERRNO(RF_ERROR_IO, "%s: cannot write", path);
        from += n;
        size -= (uint64_t)n;
        offset += (uint64_t)n;
    }
    return RF_OK;
}

rf_result rf_file_sync(const rf_file_ops *ops, int fd, const char *path)
{
    int code;
    do {
        code = ops->fsync(ops->user, fd);
    } while (code != 0 && errno == EINTR);
    return code == 0 ? RF_OK : RF_FAIL_ERRNO(RF_ERROR_IO, "%s: cannot sync to the disk", path);
}

bool rf_file_discard(const rf_file_ops *ops, const char *path)
{
    if (ops->unlink(ops->user, path) == 0 || errno == ENOENT) return true;
    rf_log_message(RF_LOG_WARN, "cannot remove '%s' (%s)", path, strerror(errno));
    return false;
}

char *rf_path_beside(const char *path, const char *name)
{
    const char *slash = strrchr(path, '/');
    return slash ? rf_asprintf("%.*s/%s", (int)(slash - path), path, name) : rf_strdup(name);
}

/* One look for what killed processes left in a directory. */
typedef struct leftovers {
    const rf_file_ops *ops;
    const char *directory;
    uint32_t names;
} leftovers;

static bool remove_leftover(void *argument, const char *name)
{
    leftovers *l = argument;
    const char *writer = rf_temporary_writer(name);
    double modified;
    char *path = writer ? rf_asprintf("%s/%s", l->directory, name) : NULL;
    if (path && l->ops->modified(l->ops->user, path, &modified) == 0 && rf_temporary_abandoned(writer, modified))
        (void)l->ops->unlink(l->ops->user, path);
    rf_free(path);
    return ++l->names < RF_TEMPORARY_MOST_NAMES;
}

static rf_result open_directory_of(rf_new_file *file)
{
    char *directory = rf_strdup(file->path);
    if (!directory) return RF_ERROR_OUT_OF_HOST_MEMORY;
    char *slash = strrchr(directory, '/');
    if (slash) slash[slash == directory ? 1 : 0] = '\0';
    const char *name = slash ? directory : ".";
    leftovers l = { file->ops, name, 0 };
    rf_result r = RF_OK;
    (void)file->ops->list(file->ops->user, name, remove_leftover, &l); /* what it cannot remove stays */
    do {
        file->directory = file->ops->open_directory(file->ops->user, name);
    } while (file->directory < 0 && errno == EINTR);
    if (file->directory < 0) r = RF_FAIL_ERRNO(RF_ERROR_IO, "%s: cannot open the directory", name);
    rf_free(directory);
    return r;
}

/* A few names, for files that earlier processes of the same number left. */
static rf_result create_temporary(rf_new_file *file)
{
    for (unsigned number = 0; number < 1000; number++) {
        file->temporary = rf_temporary_name(file->path, number);
        if (!file->temporary) return RF_ERROR_OUT_OF_HOST_MEMORY;
        do {
            file->fd = file->ops->create(file->ops->user, file->temporary);
        } while (file->fd < 0 && errno == EINTR);
        if (file->fd >= 0) return RF_OK;
        const int code = errno;
        rf_free(file->temporary);
        file->temporary = NULL;
        errno = code;
        if (code != EEXIST) break;
    }
    return RF_FAIL_ERRNO(RF_ERROR_IO, "%s: cannot create a temporary file beside it", file->path);
}

rf_result rf_new_file_begin(rf_new_file *file, const rf_file_ops *ops, const char *path)
{
    *file = (rf_new_file){ .ops = ops, .path = path, .fd = -1, .directory = -1 };
    rf_result r = open_directory_of(file);
    if (r == RF_OK) r = create_temporary(file);
    if (r < 0) rf_new_file_abandon(file);
    return r;
}

static rf_result commit_file(rf_new_file *file)
{
    const rf_file_ops *ops = file->ops;
    RF_TRY(rf_file_sync(ops, file->fd, file->temporary));
    const int fd = file->fd;
    file->fd = -1; /* Linux closes it even when close() fails */
    if (ops->close(ops->user, fd) != 0 && errno != EINTR)
        return RF_FAIL_ERRNO(RF_ERROR_IO, "%s: cannot close", file->temporary);
    if (ops->rename(ops->user, file->temporary, file->path) != 0)
        return RF_FAIL_ERRNO(RF_ERROR_IO, "%s: cannot rename to it", file->path);
    rf_free(file->temporary);
    file->temporary = NULL;
    const rf_result r = rf_file_sync(ops, file->directory, file->path);
    rf_error_info info;
    rf_error_get(&info);
    if (r < 0 && info.native_code == EINVAL) return RF_OK; /* this file system has no sync of directories */
    return rf_error_context(r, "the new file is complete, but a power failure may bring back the old one");
}

rf_result rf_new_file_commit(rf_new_file *file)
{
    const rf_result r = commit_file(file);
    rf_new_file_abandon(file);
    return r;
}

void rf_new_file_abandon(rf_new_file *file)
{
    if (file->fd >= 0) file->ops->close(file->ops->user, file->fd);
    if (file->temporary) file->ops->unlink(file->ops->user, file->temporary);
    if (file->directory >= 0) file->ops->close(file->ops->user, file->directory);
    rf_free(file->temporary);
    file->temporary = NULL;
    file->fd = file->directory = -1;
}

rf_result rf_new_file_try(const rf_file_ops *ops, const char *path)
{
    rf_new_file file;
    RF_TRY(rf_new_file_begin(&file, ops, path));
    rf_new_file_abandon(&file);
    return RF_OK;
}
