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
    HIDDEN,         /* somebody else's, which this user may not even read: it may be held */
    IN_THE_WAY,     /* left by another user, held by nobody, and not to be replaced: errno says why */
    FOREIGN,        /* what stands there is no lock */
    NO_LOCKS,       /* the file system has none: errno says so */
    NOT_WRITABLE,   /* the directory, at this time: errno says why */
    FAILED,         /* errno says why, and nothing about the directory */
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

/* ---- the file ---- */

/* Nobody is served by a link to be followed, a pipe to be waited for, or a terminal. */
static int open_file(const char *path, int flags)
{
    return open(path, flags | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC, 0666);
}

/* Who may write in the directory may take the lock, too, whatever this user's umask. A lock that stays behind would
 * else be in the way of other users. */
static void share_file(int fd, const char *path)
{
    struct stat file, directory;
    char *above = rf_strdup(path);
    char *slash = above ? strrchr(above, '/') : NULL;
    if (slash) slash[slash == above] = '\0';
    if (above && fstat(fd, &file) == 0 && stat(slash ? above : ".", &directory) == 0) {
        mode_t mode = file.st_mode & 0777;
        if (directory.st_mode & S_IWGRP) mode |= S_IRGRP | S_IWGRP;
        if (directory.st_mode & S_IWOTH) mode |= S_IROTH | S_IWOTH;
        (void)!fchmod(fd, mode); /* else other users find a lock in the way, and are told */
    }
    rf_free(above);
}

/* The file, for writing where this user may; -1 and errno. */
static int open_or_create(const char *path, bool *writable)
{
    *writable = true;
    int fd = open_file(path, O_RDWR);
    if (fd < 0 && errno == ENOENT) {
        fd = open_file(path, O_RDWR | O_CREAT | O_EXCL);
        if (fd >= 0) share_file(fd, path);
    } else if (fd < 0 && (errno == EACCES || errno == EPERM || errno == EROFS)) {
        *writable = false;
        fd = open_file(path, O_RDONLY);
    }
    return fd;
}

/* The holder removes the file before it lets go: a lock on a file that no longer exists excludes no other process. */
static bool is_in_place(int fd, const char *path)
{
    struct stat mine, there;
    return fstat(fd, &mine) == 0 && lstat(path, &there) == 0 && mine.st_dev == there.st_dev &&
           mine.st_ino == there.st_ino;
}

/* Only a lock is emptied: a file with a holder's name, or without any text where one was killed before it
 * wrote.
 */
static bool is_lock_file(int fd, const struct stat *status)
{
    char text[HOLDER_SIZE] = "";
    unsigned host;
    long process;
    if (!S_ISREG(status->st_mode)) return false;
    (void)!pread(fd, text, sizeof(text) - 1, 0);
    return text[0] == '\0' || sscanf(text, "%8x-%ld ", &host, &process) == 2;
}

/* ---- taking ---- */

/* A lock that this user may not write can still be found to be held, and be replaced where it is not: the shared lock
 * keeps its own user from taking it meanwhile. A file with a second name belongs to somebody else as well. */
static attempt replace_file(const char *path)
{
    return unlink(path) == 0 || errno == ENOENT ? AGAIN : IN_THE_WAY;
}

static attempt try_file(int fd, const char *path, bool writable, char holder[HOLDER_SIZE])
{
    struct flock range = { .l_type = writable ? F_WRLCK : F_RDLCK, .l_whence = SEEK_SET };
    struct stat status;
    int code;
    if (fstat(fd, &status) != 0 || !is_lock_file(fd, &status)) return FOREIGN;
    do {
        code = fcntl(fd, F_OFD_SETLK, &range);
    } while (code != 0 && errno == EINTR);
    if (code == 0) {
        if (!is_in_place(fd, path)) return AGAIN;
        if (!writable || status.st_nlink > 1) return replace_file(path);
        write_holder(fd);
        return TAKEN;
    }
    if (errno == ENOLCK || errno == EOPNOTSUPP || errno == ENOSYS || errno == EINVAL) return NO_LOCKS;
    if (errno != EAGAIN && errno != EACCES) return FAILED;
    read_holder(fd, holder);
    return is_this_process(holder) ? HELD_HERE : HELD_ELSEWHERE;
}

/* Whether a lock could not be made because of where it is: then nothing new can be written there. */
static attempt judge_failure(const char *path)
{
    const int code = errno;
    struct stat status;
    attempt a = FAILED;
    if (code == EINTR || code == EEXIST) a = AGAIN;
    if (code == ELOOP || code == EISDIR || code == ENXIO) a = FOREIGN;
    if (code == EACCES || code == EPERM || code == EROFS || code == ENOSPC || code == EDQUOT)
        a = lstat(path, &status) == 0 ? HIDDEN : NOT_WRITABLE;
    errno = code;
    return a;
}

static attempt try_lock(rf_directory_lock *lock, char holder[HOLDER_SIZE])
{
    bool writable;
    const int fd = open_or_create(lock->path, &writable);
    if (fd < 0) return judge_failure(lock->path);
    const attempt a = try_file(fd, lock->path, writable, holder);
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

/* Another user's file, which may be a training's that still runs. */
static rf_result fail_theirs(const rf_directory_lock *lock, attempt a, const char *what, const char *instead)
{
    const int code = errno;
    struct stat status;
    const long owner = lstat(lock->path, &status) == 0 ? (long)status.st_uid : -1;
    return RF_FAIL_NATIVE(
        RF_ERROR_INVALID_ARGUMENT, "errno", code,
        "'%s': the lock '%s' of user %ld %s (%s); have it removed if no training of theirs runs there, "
        "or use another %s",
        what, lock->path, owner, a == HIDDEN ? "cannot be read" : "was left behind and cannot be removed",
        strerror(code), instead);
}

/* Says so once: saves try again where the directory may be written by then. */
static rf_result go_unlocked(rf_directory_lock *lock, attempt a)
{
    if (!lock->warned)
        rf_log_message(RF_LOG_WARN, "'%s' cannot be locked (%s): make sure that no other training writes there",
                       lock->path, strerror(errno));
    lock->warned = true;
    lock->unlocked = a == NO_LOCKS;
    return RF_OK;
}

/* The message names `what` is locked, and what may be used `instead`. */
static rf_result take_lock(rf_directory_lock *lock, const char *what, const char *instead)
{
    const uint64_t deadline = rf_now_ns() + WAIT_SECONDS * 1000000000ull;
    for (;;) {
        char holder[HOLDER_SIZE] = "";
        const attempt a = try_lock(lock, holder);
        if (a == TAKEN || a == HELD_HERE) return RF_OK;
        if (a == NO_LOCKS || a == NOT_WRITABLE) return go_unlocked(lock, a);
        if (a == FOREIGN)
            return RF_FAIL(
                RF_ERROR_INVALID_ARGUMENT,
                "'%s' is no lock of a training but a link or something else; move it away, or use another %s",
                lock->path, instead);
        if (a == FAILED) return RF_FAIL_ERRNO(RF_ERROR_IO, "'%s' cannot be locked", lock->path);
        if (a == IN_THE_WAY || (a == HIDDEN && rf_now_ns() > deadline)) return fail_theirs(lock, a, what, instead);
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
        if (lock->process == (long)getpid() && is_in_place(lock->fd, lock->path)) (void)unlink(lock->path);
        close(lock->fd);
    }
    rf_free(lock->path);
    *lock = RF_DIRECTORY_LOCK_NONE;
}
