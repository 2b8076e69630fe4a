/* SPDX-License-Identifier: Apache-2.0 */
#include "atomic_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static void atomic_file_release(atomic_file *f)
{
    free(f->target);
    free(f->temporary);
    *f = (atomic_file){ 0 };
}

static bool is_in_place(int fd, const char *path)
{
    struct stat mine, there;
    return fstat(fd, &mine) == 0 && stat(path, &there) == 0 && mine.st_dev == there.st_dev &&
           mine.st_ino == there.st_ino;
}

/* A descriptor of the locked file, empty; -1. The one who had it may be just renaming it. */
static int open_locked(const char *path)
{
    for (int tries = 0; tries < 100; tries++) {
        struct flock range = { .l_type = F_WRLCK, .l_whence = SEEK_SET };
        const int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
        if (fd < 0) return -1;
        int code = fcntl(fd, F_OFD_SETLK, &range) == 0 ? 0 : errno;
        if (code == EAGAIN || code == EACCES)
            code = EBUSY;
        else /* file systems without locks have none to respect */
            code = is_in_place(fd, path) ? (ftruncate(fd, 0) == 0 ? 0 : errno) : EAGAIN;
        if (code == 0) return fd;
        close(fd);
        errno = code;
        if (code != EAGAIN) return -1;
    }
    return -1;
}

/* A link stays one: what it points to is replaced. */
static char *find_target(const char *path)
{
    char *target = realpath(path, NULL);
    return target ? target : strdup(path);
}

bool atomic_file_begin(atomic_file *f, const char *path)
{
    struct stat status;
    *f = (atomic_file){ 0 };
    if (stat(path, &status) == 0 && !S_ISREG(status.st_mode)) {
        f->stream = fopen(path, "we");
        return f->stream != NULL;
    }
    f->target = find_target(path);
    const size_t size = f->target ? strlen(f->target) + sizeof(".tmp") : 0;
    f->temporary = f->target ? malloc(size) : NULL;
    int fd = -1;
    if (f->temporary) {
        snprintf(f->temporary, size, "%s.tmp", f->target);
        fd = open_locked(f->temporary);
    }
    f->stream = fd >= 0 ? fdopen(fd, "w") : NULL;
    if (f->stream) return true;
    const int code = errno;
    if (fd >= 0) close(fd);
    atomic_file_release(f);
    errno = code;
    return false;
}

/* A new name lasts when its directory is on the disk; not every file system can sync one. */
static void sync_directory_of(char *path)
{
    char *slash = strrchr(path, '/');
    if (slash) slash[slash == path] = '\0';
    const int fd = open(slash ? path : ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) return;
    (void)fsync(fd);
    close(fd);
}

bool atomic_file_commit(atomic_file *f)
{
    bool ok = fflush(f->stream) == 0 && !ferror(f->stream);
    if (ok && f->temporary) ok = fsync(fileno(f->stream)) == 0 && rename(f->temporary, f->target) == 0;
    int code = ok ? 0 : errno;
    if (!ok && f->temporary) (void)unlink(f->temporary);
    if (fclose(f->stream) != 0 && ok) {
        code = errno;
        ok = false;
    }
    if (ok && f->temporary) sync_directory_of(f->target);
    atomic_file_release(f);
    errno = code;
    return ok;
}

void atomic_file_abandon(atomic_file *f)
{
    if (f->temporary) (void)unlink(f->temporary);
    if (f->stream) (void)fclose(f->stream);
    atomic_file_release(f);
}
