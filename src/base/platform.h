/* SPDX-License-Identifier: Apache-2.0 */
/* Clock, files and process environment, in one place. */
#ifndef RF_BASE_PLATFORM_H
#define RF_BASE_PLATFORM_H

#include <ringfire/common.h>

uint64_t rf_now_ns(void);       /* monotonic */
uint64_t rf_processor_ns(void); /* that all threads of this process have computed */
uint64_t rf_thread_ns(void);    /* that the calling thread has computed */
/* The process that an object was made in. A child of fork() has the object's memory, but neither its threads nor its
 * driver's: it must not wait for them, and what it sends on shared connections would be taken for its parent's. */
int64_t rf_process_id(void);
/* RF_ERROR_INVALID_ARGUMENT in another process than `home`; `what` begins the message: "the strategy". */
rf_result rf_process_check(int64_t home, const char *what);
/* Asks for large pages for the whole pages within [memory, memory + size), before they are first touched. Where there
 * are none nothing changes. */
void rf_want_large_pages(void *memory, uint64_t size);
uint64_t rf_host_memory(void); /* bytes of this host, used or not; UINT64_MAX where it does not say */

/* Whole regular file into memory, and a zero byte behind it. `limit` bytes at most (0: no limit). *data is freed with
 * rf_free. RF_ERROR_NOT_FOUND / IO. */
rf_result rf_file_read(const char *path, size_t limit, void **data, size_t *size);
/* Opens a file that can be read at any place, and says how large it is. RF_ERROR_NOT_FOUND / IO with the path. */
rf_result rf_file_open_regular(const char *path, int *fd, uint64_t *size);
/* Reads what the file has from `offset` on: *got bytes, fewer than `size` where it ends. `path` is for messages. */
rf_result rf_file_read_some(int fd, const char *path, void *data, size_t size, uint64_t offset, size_t *got);
/* Atomic replacement: a temporary file in the same directory (base/temporary.h), fsync, rename, fsync of the directory.
 * The mode is 0666 less the umask. Such files that killed processes left in the directory are removed. */
rf_result rf_file_write_atomic(const char *path, const void *data, size_t size);
/* mkdir -p. New directories have `mode` less the umask and are on the disk: 0700 for caches, which are one user's, 0777
 * for what others may read. */
rf_result rf_make_directories(const char *path, unsigned mode);

/* The value of an environment variable; NULL when it is unset or empty. The variables stand in one table
 * (environment.c), from which docs/reference/environment.md is written. */
const char *rf_env(const char *name);
typedef struct rf_cache {
    char *directory; /* freed with rf_free; NULL: to do without */
    bool read_only;  /* what is in it is used, and nothing is added */
} rf_cache;
/* How the names of its files begin. */
#define RF_CACHE_PIPELINES "vulkan-"
#define RF_CACHE_TUNING "tuning-"
/* The cache directory, made where it is missing: `explicit_path`, RINGFIRE_CACHE, XDG_CACHE_HOME, HOME. One that cannot
 * be written is used as it is where files of a cache are in it. Where there are none, it is an error if it was named;
 * else a warning in the log. `required`: it must be writable. */
rf_result rf_cache_open(const char *explicit_path, bool required, rf_cache *out);

/* Sends a line to the sink of rf_log_set(). (rf_log() is the logarithm of ops.h.) */
void rf_log_message(rf_log_level level, const char *format, ...) RF_PRINTF(2, 3);
/* The same at level info, kept among the latest warnings (base/log_recent.h): a report shows the user what to do
 * better. */
void rf_log_advice(const char *format, ...) RF_PRINTF(1, 2);
/* Whether such a line would be shown to anybody: to be asked before it costs much to put together. */
bool rf_log_wants(rf_log_level level);

#endif
