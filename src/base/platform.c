/* SPDX-License-Identifier: Apache-2.0 */
#include "base/platform.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/error.h"
#include "base/memory.h"
#include "base/temporary.h"

int64_t rf_process_id(void)
{
    return getpid();
}

rf_result rf_process_check(int64_t home, const char *what)
{
    const int64_t here = rf_process_id();
    if (here == home) return RF_OK;
    return RF_FAIL(RF_ERROR_INVALID_ARGUMENT,
                   "%s belongs to process %lld and cannot be used in %lld, a child of its fork() without its threads "
                   "and devices; fork before creating it, or create another one here",
                   what, (long long)home, (long long)here);
}

static uint64_t clock_ns(clockid_t clock)
{
    struct timespec t;
    clock_gettime(clock, &t);
    return (uint64_t)t.tv_sec * 1000000000ull + (uint64_t)t.tv_nsec;
}

uint64_t rf_now_ns(void)
{
    return clock_ns(CLOCK_MONOTONIC);
}

uint64_t rf_processor_ns(void)
{
    return clock_ns(CLOCK_PROCESS_CPUTIME_ID);
}

uint64_t rf_thread_ns(void)
{
    return clock_ns(CLOCK_THREAD_CPUTIME_ID);
}

void rf_want_large_pages(void *memory, uint64_t size)
{
    const long answer = sysconf(_SC_PAGESIZE);
    const uint64_t page = answer > 0 ? (uint64_t)answer : 1, address = (uint64_t)(uintptr_t)memory;
    const uint64_t skipped = rf_align_up(address, page) - address;
    if (size < skipped + page) return;
    (void)madvise((char *)memory + skipped, (size - skipped) / page * page, MADV_HUGEPAGE);
}

uint64_t rf_host_memory(void)
{
    const long pages = sysconf(_SC_PHYS_PAGES), size = sysconf(_SC_PAGESIZE);
    return pages > 0 && size > 0 ? (uint64_t)pages * (uint64_t)size : UINT64_MAX;
}

static rf_result fail_large(const char *path, size_t limit)
{
    return RF_FAIL(RF_ERROR_CORRUPT_DATA, "%s: larger than the limit of %zu bytes", path, limit);
}

/* Reads until the end or `limit` + 1 bytes; grows as it goes: a file of /proc has no size, and others may grow. */
static rf_result read_all(int fd, const char *path, uint64_t expected, size_t limit, char **data, size_t *size)
{
    if (limit && expected > limit) return fail_large(path, limit);
    size_t capacity = expected > 0 ? (size_t)expected + 1 : 65536, used = 0;
    if (limit && capacity > limit + 1) capacity = limit + 1;
    char *buffer = NULL;
    for (;;) {
        char *grown = realloc(buffer, capacity);
        if (!grown) {
            free(buffer);
            return RF_FAIL(RF_ERROR_OUT_OF_HOST_MEMORY, "%s: cannot allocate %zu bytes", path, capacity);
        }
        buffer = grown;
        while (used < capacity) {
            const ssize_t n = read(fd, buffer + used, capacity - used);
            if (n < 0 && errno == EINTR) continue;
            if (n < 0) {
                const rf_result r = RF_FAIL_ERRNO(RF_ERROR_IO, "%s: cannot read", path);
                free(buffer);
                return r;
            }
            if (n == 0) {
                buffer[used] = '\0';
                *data = buffer;
                *size = used;
                return RF_OK;
            }
            used += (size_t)n;
            if (limit && used > limit) {
                free(buffer);
                return fail_large(path, limit);
            }
        }
        capacity *= 2;
    }
}

rf_result rf_file_open_regular(const char *path, int *fd, uint64_t *size)
{
    struct stat st;
    *fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* without which a pipe would wait for its writer */
    if (*fd < 0 && errno != ENXIO)                       /* a socket, or a device that is not there */
        return RF_FAIL_ERRNO(errno == ENOENT || errno == ENOTDIR ? RF_ERROR_NOT_FOUND : RF_ERROR_IO, "%s: cannot open",
                             path);
    if (*fd >= 0 && fstat(*fd, &st) == 0 && S_ISREG(st.st_mode)) {
        *size = (uint64_t)st.st_size;
        return RF_OK;
    }
    if (*fd >= 0) close(*fd);
    *fd = -1;
    return RF_FAIL(RF_ERROR_IO, "%s: is not a regular file", path);
}

rf_result rf_file_read_some(int fd, const char *path, void *data, size_t size, uint64_t offset, size_t *got)
{
    for (*got = 0; *got < size;) {
        const ssize_t n = pread(fd, (char *)data + *got, size - *got, (off_t)(offset + *got));
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return RF_FAIL_ERRNO(RF_ERROR_IO, "%s: cannot read", path);
        if (n == 0) break;
        *got += (size_t)n;
    }
    return RF_OK;
}

rf_result rf_file_read(const char *path, size_t limit, void **data, size_t *size)
{
    *data = NULL;
    *size = 0;
    int fd;
    uint64_t expected = 0;
    RF_TRY(rf_file_open_regular(path, &fd, &expected));
    char *bytes = NULL;
    const rf_result r = read_all(fd, path, expected, limit, &bytes, size);
    close(fd);
    *data = bytes;
    return r;
}

static rf_result write_all(int fd, const char *path, const char *data, size_t size)
{
    while (size > 0) {
        const ssize_t n = write(fd, data, size);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return RF_FAIL_ERRNO(RF_ERROR_IO, "%s: cannot write", path);
        data += n;
        size -= (size_t)n;
    }
    return RF_OK;
}

/* A rename is only durable once the directory that holds the name is. */
static rf_result sync_directory_of(const char *path)
{
    char *directory = rf_strdup(path);
    if (!directory) return RF_ERROR_OUT_OF_HOST_MEMORY;
    char *slash = strrchr(directory, '/');
    if (slash) slash[slash == directory ? 1 : 0] = '\0';
    const char *name = slash ? directory : ".";
    rf_result r = RF_OK;
    const int fd = open(name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0 || fsync(fd) != 0) r = RF_FAIL_ERRNO(RF_ERROR_IO, "%s: cannot sync the directory", name);
    if (fd >= 0) close(fd);
    rf_free(directory);
    return r;
}

/* Removes what killed processes left in the directory of `path`. Files that cannot be removed stay: the next writer
 * tries again. */
static void remove_leftovers(const char *path)
{
    char *directory = rf_strdup(path);
    if (!directory) return;
    char *slash = strrchr(directory, '/');
    if (slash) slash[slash == directory ? 1 : 0] = '\0';
    DIR *dir = opendir(slash ? directory : ".");
    const struct dirent *entry;
    for (int i = 0; dir && i < RF_TEMPORARY_MOST_NAMES && (entry = readdir(dir)); i++) {
        const char *writer = rf_temporary_writer(entry->d_name);
        struct stat st;
        if (!writer || fstatat(dirfd(dir), entry->d_name, &st, AT_SYMLINK_NOFOLLOW) != 0 || !S_ISREG(st.st_mode))
            continue;
        if (rf_temporary_abandoned(writer, (double)st.st_mtim.tv_sec)) (void)unlinkat(dirfd(dir), entry->d_name, 0);
    }
    if (dir) closedir(dir);
    rf_free(directory);
}

/* A few names, for files that earlier processes of the same number left. */
static rf_result create_temporary(const char *path, char **name, int *fd)
{
    for (unsigned number = 0; number < 1000; number++) {
        *name = rf_temporary_name(path, number);
        if (!*name) return RF_ERROR_OUT_OF_HOST_MEMORY;
        *fd = open(*name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        if (*fd >= 0) return RF_OK;
        const int code = errno;
        rf_free(*name);
        errno = code;
        if (code != EEXIST) break;
    }
    return RF_FAIL_ERRNO(RF_ERROR_IO, "%s: cannot create a temporary file beside it", path);
}

rf_result rf_file_write_atomic(const char *path, const void *data, size_t size)
{
    char *temporary;
    int fd;
    remove_leftovers(path);
    RF_TRY(create_temporary(path, &temporary, &fd));
    rf_result r = write_all(fd, temporary, data, size);
    if (r == RF_OK && fsync(fd) != 0) r = RF_FAIL_ERRNO(RF_ERROR_IO, "%s: cannot sync", temporary);
    if (close(fd) != 0 && r == RF_OK) r = RF_FAIL_ERRNO(RF_ERROR_IO, "%s: cannot close", temporary);
    if (r == RF_OK && rename(temporary, path) != 0) r = RF_FAIL_ERRNO(RF_ERROR_IO, "%s: cannot rename to it", path);
    if (r != RF_OK) unlink(temporary);
    rf_free(temporary);
    return r == RF_OK ? sync_directory_of(path) : r;
}

/* A name that is new lasts when the directory that holds it is on the disk. Not every file system syncs directories,
 * nor may everybody read the one that he may write to. */
static rf_result sync_new_name(const char *path)
{
    rf_error_record before;
    rf_error_info info;
    rf_error_save(&before);
    const rf_result r = sync_directory_of(path);
    rf_error_get(&info);
    if (r >= 0 || (info.native_code != EINVAL && info.native_code != EACCES)) return r;
    (void)rf_error_restore(&before);
    return RF_OK;
}

rf_result rf_make_directories(const char *path, unsigned mode)
{
    char *copy = rf_strdup(path);
    if (!copy) return RF_ERROR_OUT_OF_HOST_MEMORY;
    rf_result r = RF_OK;
    for (char *p = copy + 1;; p++) {
        if (*p != '/' && *p != '\0') continue;
        const char end = *p;
        *p = '\0';
        const bool made = mkdir(copy, mode) == 0;
        if (!made && errno != EEXIST) r = RF_FAIL_ERRNO(RF_ERROR_IO, "%s: cannot create the directory", copy);
        if (made) r = sync_new_name(copy);
        if (r < 0) break;
        *p = end;
        if (end == '\0') break;
    }
    rf_free(copy);
    return r;
}
