/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One line of values per epoch, separated by commas. A backup records the length of the file at that time, so that a
 * fit that continues from it removes the lines of epochs that it trains once more; without a backup, lines are
 * identified by their epochs.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "base/memory.h"
#include "base/numbers.h"
#include "base/platform.h"
#include "persist/directory_lock.h"
#include "train/callbacks/callback.h"

typedef struct csv_log {
    char *path;
    bool append;
    FILE *file;    /* open while fit runs; NULL on workers other than the chief */
    bool regular;  /* else it cannot be read, cut or measured */
    bool restored; /* this fit goes on from a backup, when the file had `size` bytes */
    uint64_t size;
    rf_directory_lock lock; /* while the file is open */
} csv_log;

static rf_result write_failed(const csv_log *log)
{
    return RF_FAIL_ERRNO(RF_ERROR_IO, "csv log: writing '%s' failed; is the disk full?", log->path);
}

/* ---- what is kept of a file ---- */

/* Epoch, then the names of the values. rf_free(). */
static char *make_header(const rf_logs *names)
{
    char *header = rf_strdup("epoch");
    for (uint32_t i = 0; header && i < names->count; i++) {
        char *longer = rf_asprintf("%s,%s", header, names->name[i]);
        rf_free(header);
        header = longer;
    }
    return header;
}

/* Where lines end. */
typedef struct places {
    uint64_t complete; /* the last whole line */
    uint64_t epoch;    /* lines before the given epoch, in the last run of the file: a run begins with a lower epoch */
    bool at_size;      /* a whole line ends where the file ended when the backup was made */
} places;

static bool is_whole(char *line, ssize_t *length)
{
    if (*length == 0 || line[*length - 1] != '\n') return false;
    while (*length > 0 && strchr("\r\n", line[*length - 1])) line[--*length] = '\0';
    return true;
}

/* Lines after the header. */
static void find_places(csv_log *log, uint64_t epoch, places *out)
{
    char *line = NULL;
    size_t capacity = 0;
    uint64_t begin = out->complete;
    long long last = -1;
    bool past = false; /* a line of `epoch` or a later one was seen in this run */
    out->epoch = begin;
    out->at_size = begin == log->size;
    for (ssize_t n; (n = getline(&line, &capacity, log->file)) >= 0;) {
        const uint64_t end = begin + (uint64_t)n;
        if (!is_whole(line, &n)) break;
        const long long at = strtoll(line, NULL, 10);
        if (at <= last) past = false;
        last = at;
        if (at >= 0 && (uint64_t)at >= epoch && !past) {
            past = true;
            out->epoch = begin;
        }
        begin = end;
        if (!past) out->epoch = end;
        out->complete = end;
        out->at_size |= end == log->size;
    }
    free(line);
}

/* Bytes of the file that stay, 0: not even the header. */
static rf_result csv_log_measure(csv_log *log, const rf_fit_progress *at, const char *header, uint64_t *keep)
{
    char *line = NULL;
    size_t capacity = 0;
    rewind(log->file);
    const ssize_t n = getline(&line, &capacity, log->file);
    ssize_t length = n > 0 ? n : 0;
    const bool whole = length > 0 && is_whole(line, &length);
    /* One that was cut while the header was written holds nothing. */
    const bool same = length == 0 || (whole ? strcmp(line, header) == 0 : strncmp(line, header, (size_t)length) == 0);
    rf_result r = RF_OK;
    if (!same)
        r = RF_FAIL(RF_ERROR_INVALID_ARGUMENT,
                    "csv log: '%s' has the columns '%.200s', not '%.200s'; move it away, or use another path",
                    log->path, line, header);
    free(line);
    RF_TRY(r);
    *keep = 0;
    if (!whole) return RF_OK;
    places found = { .complete = (uint64_t)n };
    find_places(log, at->state.epoch, &found);
    if (log->restored && found.at_size) {
        *keep = log->size;
    } else {
        if (log->restored)
            rf_log_message(
                RF_LOG_WARN,
                "csv log: '%s' has changed since the backup was made; lines of epoch %u and later are removed",
                log->path, at->state.epoch);
        *keep = at->resumed || at->state.epoch > 0 ? found.epoch : found.complete;
    }
    return RF_OK;
}

/* ---- events ---- */

static int close_file(csv_log *log)
{
    const int code = log->file ? fclose(log->file) : 0;
    log->file = NULL;
    rf_directory_lock_release(&log->lock);
    return code;
}

/* Two trainings would write between each other's lines. Several names of one file are one file. */
static rf_result lock_file(csv_log *log)
{
    if (!log->regular) return RF_OK;
    char *path = realpath(log->path, NULL);
    const rf_result r = rf_directory_lock_take_file(&log->lock, path ? path : log->path);
    free(path);
    return rf_error_context(r, "csv log");
}

static rf_result open_file(csv_log *log)
{
    struct stat status;
    log->regular = stat(log->path, &status) != 0 || S_ISREG(status.st_mode);
    const int fd = open(log->path, (log->regular ? O_RDWR : O_WRONLY) | O_CREAT | O_CLOEXEC, 0666);
    if (fd >= 0) log->file = fdopen(fd, log->regular ? "r+" : "w");
    if (log->file) return RF_OK;
    const rf_result r = RF_FAIL_ERRNO(RF_ERROR_IO, "csv log: cannot open '%s' for writing", log->path);
    if (fd >= 0) close(fd);
    return r;
}

static rf_result on_train_begin(void *user, rf_fit_state *state)
{
    csv_log *log = user;
    (void)close_file(log); /* an earlier fit ended with an error */
    log->restored = false;
    if (state->rank != 0) return RF_OK;
    RF_TRY(open_file(log));
    const rf_result r = lock_file(log);
    if (r < 0) (void)close_file(log);
    return r;
}

static rf_result cut_file(csv_log *log, uint64_t keep)
{
    if (fflush(log->file) != 0 || ftruncate(fileno(log->file), (off_t)keep) != 0 ||
        fseek(log->file, (long)keep, SEEK_SET) != 0)
        return write_failed(log);
    return RF_OK;
}

static rf_result put_header(csv_log *log, const rf_fit_progress *at, const char *header)
{
    uint64_t keep = 0;
    if (log->regular) {
        if (log->append || at->resumed) RF_TRY(csv_log_measure(log, at, header, &keep));
        RF_TRY(cut_file(log, keep));
    }
    if (keep == 0) fprintf(log->file, "%s\n", header);
    return fflush(log->file) != 0 || ferror(log->file) ? write_failed(log) : RF_OK;
}

static rf_result csv_log_begin(void *user, const rf_fit_progress *at, const rf_logs *names)
{
    csv_log *log = user;
    if (!log->file) return RF_OK;
    char *header = make_header(names);
    const rf_result r = header ? put_header(log, at, header) : RF_ERROR_OUT_OF_HOST_MEMORY;
    rf_free(header);
    return r;
}

static rf_result on_epoch_end(void *user, rf_fit_state *state, const rf_logs *logs)
{
    csv_log *log = user;
    if (!log->file) return RF_OK;
    fprintf(log->file, "%u", state->epoch);
    for (uint32_t i = 0; i < logs->count; i++) {
        char number[64];
        rf_number_print(number, sizeof(number), "%.9g", logs->value[i]);
        fprintf(log->file, ",%s", number);
    }
    fputc('\n', log->file);
    /* Flushed per epoch, so that the line survives a crash; errors of the calls above stick to the stream. */
    return fflush(log->file) != 0 || ferror(log->file) ? write_failed(log) : RF_OK;
}

static rf_result on_train_end(void *user, rf_fit_state *state, const rf_logs *logs)
{
    csv_log *log = user;
    (void)state;
    (void)logs;
    return close_file(log) != 0 ? write_failed(log) : RF_OK;
}

/* ---- backups ---- */

/* A backup that is on the disk must not know of lines that are not. */
static rf_result save_size(void *user, void **data, size_t *size)
{
    csv_log *log = user;
    *data = NULL;
    *size = 0;
    if (!log->file || !log->regular) return RF_OK;
    const long at = ftell(log->file);
    if (at < 0 || fdatasync(fileno(log->file)) != 0) return write_failed(log);
    const uint64_t length = (uint64_t)at;
    *data = rf_calloc(1, sizeof(length));
    if (!*data) return RF_ERROR_OUT_OF_HOST_MEMORY;
    memcpy(*data, &length, sizeof(length));
    *size = sizeof(length);
    return RF_OK;
}

static rf_result restore_size(void *user, const void *data, size_t size)
{
    csv_log *log = user;
    if (size != sizeof(log->size))
        return RF_FAIL(RF_ERROR_CORRUPT_DATA, "%zu bytes are not the length of a csv log", size);
    memcpy(&log->size, data, size);
    log->restored = true;
    return RF_OK;
}

static const rf_callback_extras extras = { .begin = csv_log_begin, .save = save_size, .restore = restore_size };

static void csv_log_destroy(void *user)
{
    csv_log *log = user;
    (void)close_file(log);
    rf_free(log->path);
    rf_free(log);
}

rf_result rf_callback_csv_log(const char *path, rf_csv_log_mode mode, rf_callback **out)
{
    RF_REQUIRE(out, "rf_callback_csv_log: out is NULL");
    *out = NULL;
    RF_REQUIRE(path && *path, "rf_callback_csv_log: path is empty");
    RF_REQUIRE(mode == RF_CSV_LOG_REPLACE || mode == RF_CSV_LOG_APPEND, "rf_callback_csv_log: mode %d does not exist",
               (int)mode);
    csv_log *log = RF_NEW(csv_log);
    if (!log) return RF_ERROR_OUT_OF_HOST_MEMORY;
    log->append = mode == RF_CSV_LOG_APPEND;
    log->lock = RF_DIRECTORY_LOCK_NONE;
    log->path = rf_strdup(path);
    const rf_callback_fns fns = { .on_train_begin = on_train_begin,
                                  .on_epoch_end = on_epoch_end,
                                  .on_train_end = on_train_end,
                                  .destroy = csv_log_destroy };
    const rf_result r = log->path ? rf_callback_create(&fns, log, out) : RF_ERROR_OUT_OF_HOST_MEMORY;
    if (r < 0) {
        csv_log_destroy(log);
        return r;
    }
    (*out)->extras = &extras;
    return RF_OK;
}
