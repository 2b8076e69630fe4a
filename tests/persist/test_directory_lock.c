/* SPDX-License-Identifier: Apache-2.0 */
/* Locks of directories where the file system has none, or fails. */
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "persist/directory_lock.h"
#include "tests/room.h"
#include "tests/support/expect.h"
#include "tests/support/folder.h"

/* The error that taking a lock ends with; 0: none. */
static int lock_errno;

int __real_fcntl64(int fd, int command, ...);
int __wrap_fcntl64(int fd, int command, ...);
int __wrap_fcntl(int fd, int command, ...);

static int answer(int fd, int command, void *argument)
{
    if (command != F_OFD_SETLK || lock_errno == 0) return __real_fcntl64(fd, command, argument);
    errno = lock_errno;
    return -1;
}

/* The name that the C library's headers give the call depends on the width of file sizes. */
#define WRAP(name)                                                                                                     \
    int __wrap_##name(int fd, int command, ...)                                                                        \
    {                                                                                                                  \
        va_list list;                                                                                                  \
        va_start(list, command);                                                                                       \
        void *argument = va_arg(list, void *);                                                                         \
        va_end(list);                                                                                                  \
        return answer(fd, command, argument);                                                                          \
    }
WRAP(fcntl)
WRAP(fcntl64)

static char folder[SCRATCH_PATH], warned[400];
static int warnings;

static void keep_warning(void *user, rf_log_level level, const char *message)
{
    (void)user;
    (void)level;
    warnings++;
    snprintf(warned, sizeof(warned), "%s", message);
}

/* It protects less than elsewhere, which is what warnings are for: training goes on. */
TEST(file_systems_without_locks)
{
    scratch(folder);
    static const int codes[] = { ENOLCK, EOPNOTSUPP, ENOSYS, EINVAL };
    rf_log_set(keep_warning, NULL, RF_LOG_WARN);
    for (size_t i = 0; i < sizeof(codes) / sizeof(codes[0]); i++) {
        rf_directory_lock first = RF_DIRECTORY_LOCK_NONE, second = RF_DIRECTORY_LOCK_NONE;
        lock_errno = codes[i];
        warnings = 0;
        OK(rf_directory_lock_take(&first, folder, "name"));
        assert_true(first.fd < 0);
        assert_non_null(strstr(warned, strerror(codes[i])));
        assert_non_null(strstr(warned, "make sure that no other training writes there"));
        OK(rf_directory_lock_take(&first, folder, "name"));
        assert_int_equal(warnings, 1);
        OK(rf_directory_lock_take(&second, folder, "name"));
        rf_directory_lock_release(&first);
        rf_directory_lock_release(&second);
    }
    rf_log_set(NULL, NULL, RF_LOG_WARN);
    lock_errno = 0;
    scratch_remove(folder);
}

/* A disk or server that fails says nothing about locks. */
TEST(failing_file_systems)
{
    rf_directory_lock lock = RF_DIRECTORY_LOCK_NONE;
    scratch(folder);
    lock_errno = EIO;
    FAILS(rf_directory_lock_take(&lock, folder, "name"), RF_ERROR_IO, ".name.lock' cannot be locked");
    assert_true(lock.fd < 0);
    lock_errno = 0;
    OK(rf_directory_lock_take(&lock, folder, "name"));
    assert_true(lock.fd >= 0);
    rf_directory_lock_release(&lock);
    scratch_remove(folder);
}

TESTS(directory_lock, NULL, NULL)
