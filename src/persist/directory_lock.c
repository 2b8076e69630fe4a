/* SPDX-License-Identifier: Apache-2.0 */
#include "persist/directory_lock.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/error.h"
#include "base/memory.h"
#include "base/platform.h"
#include "base/temporary.h"

enum { WAIT_SECONDS = 5, POLL_MS = 50, HOLDER_SIZE = 400 };

typedef enum attempt {
    TAKEN,
    HELD_HERE,      /* by another object of this process */
    HELD_ELSEWHERE, /* or by a process of which nothing is known */
    NO_LOCKS,       /* errno says why */
    AGAIN           /* the file was removed meanwhile */
} attempt;

/* ---- who holds it ---- */

/* The first word tells processes apart; the rest is for people. */
static void write_holder(int fd)
{
    char host[256] = "", since[64], text[HOLDER_SIZE];
    const time_t now = time(NULL);
    struct tm utc;
    (void)gethostname(host, sizeof(host) - 1);
    strftime(since, sizeof(since), "%Y-%m-%d %H:%M:%S UTC", gmtime_r(&now, &utc));
    const int n = snprintf(text, sizeof(text), "%08x-%ld process %ld on %s, since %s\n", rf_file_host(), (long)getpid(),
                           (long)getpid(), host, since);
    /* The lock holds whether or not its file can say whose it is. */
    if (ftruncate(fd, 0) == 0 && pwrite(fd, text, (size_t)n, 0) < 0) return;
}

/* A holder writes its name as soon as it has the lock: a file that is still empty is read again. */
static void read_holder(int fd, char holder[HOLDER_SIZE])
{
    ssize_t n = 0;
    for (int i = 0; i < 10 && n <= 0; i++) {
        n = pread(fd, holder, HOLDER_SIZE - 1, 0);
        if (n <= 0) (void)nanosleep(&(struct timespec){ .tv_nsec = 5000000 }, NULL);
    }
    holder[n > 0 ? n : 0] = '\0';
    holder[strcspn(holder, "\n")] = '\0';
    rf_error_one_line(holder);
}

static bool is_this_process(const char *holder)
{
    unsigned host;
    long process;
    return sscanf(holder, "%8x-%ld ", &host, &process) == 2 && host == rf_file_host() && process == (long)getpid();
}

/* ---- taking ---- */

/* The holder removes the file before it lets go: a lock on a file that no longer exists excludes no other process. */
static bool is_in_place(int fd, const char *path)
{
    struct stat mine, there;
    return fstat(fd, &mine) == 0 && stat(path, &there) == 0 && mine.st_dev == there.st_dev &&
           mine.st_ino == there.st_ino;
}

static attempt try_file(int fd, const char *path, char holder[HOLDER_SIZE])
{
    struct flock range = { .l_type = F_WRLCK, .l_whence = SEEK_SET };
    int code;
    do {
        code = fcntl(fd, F_OFD_SETLK, &range);
    } while (code != 0 && errno == EINTR);
    if (code == 0) {
        if (!is_in_place(fd, path)) return AGAIN;
        write_holder(fd);
        return TAKEN;
    }
    if (errno != EAGAIN && errno != EACCES) return NO_LOCKS;
    read_holder(fd, holder);
    return is_this_process(holder) ? HELD_HERE : HELD_ELSEWHERE;
}

static attempt try_lock(rf_directory_lock *lock, char holder[HOLDER_SIZE])
{
    const int fd = open(lock->path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    if (fd < 0) return errno == EINTR ? AGAIN : NO_LOCKS;
    const attempt a = try_file(fd, lock->path, holder);
    if (a == TAKEN) {
        lock->fd = fd;
        lock->process = (long)getpid();
        return TAKEN;
    }
    const int code = errno;
    close(fd);
    errno = code;
    return a;
}

static rf_result fail_held(const char *what, const char *holder, const char *instead)
{
    const char *text = strchr(holder, ' ');
    return RF_FAIL(RF_ERROR_INVALID_ARGUMENT,
                   "'%s' is in use by another training (%.300s); wait for its end, stop it, or use another %s", what,
                   text ? text + 1 : "it has not written its name", instead);
}

/* What is locked and what else may be used are for the message. */
static rf_result take_lock(rf_directory_lock *lock, const char *what, const char *instead)
{
    const uint64_t deadline = rf_now_ns() + WAIT_SECONDS * 1000000000ull;
    for (;;) {
        char holder[HOLDER_SIZE] = "";
        const attempt a = try_lock(lock, holder);
        if (a == TAKEN || a == HELD_HERE) return RF_OK;
        if (a == NO_LOCKS) {
            lock->unlocked = true;
            rf_log_message(RF_LOG_WARN, "'%s' cannot be locked (%s): make sure that no other training writes there",
                           lock->path, strerror(errno));
            return RF_OK;
        }
        if (rf_now_ns() > deadline) return fail_held(what, holder, instead);
        (void)nanosleep(&(struct timespec){ .tv_nsec = POLL_MS * 1000000 }, NULL);
    }
}

rf_result rf_directory_lock_take(rf_directory_lock *lock, const char *directory, const char *name)
{
    if (lock->fd >= 0 || lock->unlocked) return RF_OK;
    if (!lock->path) lock->path = rf_asprintf("%s/.%s.lock", directory, name);
    if (!lock->path) return RF_ERROR_OUT_OF_HOST_MEMORY;
    return take_lock(lock, directory, "directory or prefix");
}

rf_result rf_directory_lock_take_file(rf_directory_lock *lock, const char *path)
{
    const char *slash = strrchr(path, '/');
    const int directory = slash ? (int)(slash - path) + 1 : 0;
    if (lock->fd >= 0 || lock->unlocked) return RF_OK;
    if (!lock->path) lock->path = rf_asprintf("%.*s.%s.lock", directory, path, path + directory);
    if (!lock->path) return RF_ERROR_OUT_OF_HOST_MEMORY;
    return take_lock(lock, path, "path");
}

void rf_directory_lock_pass(rf_directory_lock *from, rf_directory_lock *to)
{
    if (from->fd < 0 || to->fd >= 0 || !to->path || strcmp(from->path, to->path) != 0) return;
    to->fd = from->fd;
    to->process = from->process;
    from->fd = -1;
}

void rf_directory_lock_release(rf_directory_lock *lock)
{
    if (lock->fd >= 0) {
        /* First the name, then the lock: whoever takes it afterwards makes a file of its own. */
        if (lock->process == (long)getpid()) (void)unlink(lock->path);
        close(lock->fd);
    }
    rf_free(lock->path);
    *lock = RF_DIRECTORY_LOCK_NONE;
}
