/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Restricts writing files of one name in a directory to one process at a time. The lock belongs to the kernel (an open
 * file description lock, which network file systems pass on to their server), so it ends with the process, however the
 * process ends. It is on a file ".<name>.lock" that records its holder. Readers take no lock.
 *
 * Several objects of one process may write there, one after another: the first has the lock, and when that is
 * released another one takes it with the next rf_directory_lock_take().
 */
#ifndef RF_PERSIST_DIRECTORY_LOCK_H
#define RF_PERSIST_DIRECTORY_LOCK_H

#include <ringfire/common.h>

typedef struct rf_directory_lock {
    char *path;    /* NULL: was never taken */
    int fd;        /* below 0: this object does not hold it */
    long process;  /* that took it: one that was forked off leaves it alone */
    bool unlocked; /* the file system has no locks */
    bool warned;   /* that there is no lock */
} rf_directory_lock;
#define RF_DIRECTORY_LOCK_NONE ((rf_directory_lock){ .fd = -1 })

/* Takes the lock where this object does not hold it yet. The directory exists. Waits five seconds for a process that is
 * just ending; then RF_ERROR_INVALID_ARGUMENT says which process on which host has held it since when. A file that
 * another user left and nobody holds is replaced, or named in the same error. Something else in its place, such as a
 * symbolic link, is refused and stays as it is. Where the file system has no locks, a warning says
 * so and there is none: it protects less than elsewhere, as rf_log_level has it. The same where nothing can be written;
 * a later call tries again. */
rf_result rf_directory_lock_take(rf_directory_lock *lock, const char *directory, const char *name);
/* The same for one file, or for the files that a pattern names; its directory exists. */
rf_result rf_directory_lock_take_file(rf_directory_lock *lock, const char *path);
/* Where `from` holds the lock that `to` was let in under, `to` holds it from here on. Else nothing happens. */
void rf_directory_lock_pass(rf_directory_lock *from, rf_directory_lock *to);
void rf_directory_lock_release(rf_directory_lock *lock);

#endif
