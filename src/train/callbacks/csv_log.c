/* SPDX-License-Identifier: Apache-2.0 */
/* One line of values per epoch, separated by commas. */
#include <errno.h>
#include <stdio.h>

#include "base/error.h"
#include "base/memory.h"
#include "train/callbacks/callback.h"

typedef struct csv_log {
    char *path;
    bool append;
    FILE *file; /* open while fit runs; NULL on workers other than the chief */
    bool needs_header;
} csv_log;

static rf_result write_failed(const csv_log *log)
{
    return RF_FAIL_ERRNO(RF_ERROR_IO, "csv log: writing '%s' failed; is the disk full?", log->path);
}

static rf_result on_train_begin(void *user, rf_fit_state *state)
{
    csv_log *log = user;
    if (log->file) (void)fclose(log->file); /* an earlier fit ended with an error */
    log->file = NULL;
    if (state->rank != 0) return RF_OK;
    log->file = fopen(log->path, log->append ? "a" : "w");
    if (!log->file) return RF_FAIL_ERRNO(RF_ERROR_IO, "csv log: cannot open '%s' for writing", log->path);
    if (fseek(log->file, 0, SEEK_END) != 0) return write_failed(log);
    log->needs_header = ftell(log->file) <= 0;
    return RF_OK;
}

/* %g with a point whatever the program's locale says: a comma would be a separator. */
static void format_number(double value, char *buf, size_t size)
{
    snprintf(buf, size, "%.9g", value);
    for (char *c = buf; *c; c++) {
        if (*c == ',') *c = '.';
    }
}

static rf_result on_epoch_end(void *user, rf_fit_state *state, const rf_logs *logs)
{
    csv_log *log = user;
    if (!log->file) return RF_OK;
    if (log->needs_header) {
        fputs("epoch", log->file);
        for (uint32_t i = 0; i < logs->count; i++) fprintf(log->file, ",%s", logs->name[i]);
        fputc('\n', log->file);
        log->needs_header = false;
    }
    fprintf(log->file, "%u", state->epoch);
    for (uint32_t i = 0; i < logs->count; i++) {
        char number[64];
        format_number(logs->value[i], number, sizeof(number));
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
    FILE *file = log->file;
    log->file = NULL;
    if (!file) return RF_OK;
    return fclose(file) != 0 ? write_failed(log) : RF_OK;
}

static void destroy(void *user)
{
    csv_log *log = user;
    if (log->file) (void)fclose(log->file);
    rf_free(log->path);
    rf_free(log);
}

rf_result rf_callback_csv_log(const char *path, bool append, rf_callback **out)
{
    RF_REQUIRE(out, "rf_callback_csv_log: out is NULL");
    *out = NULL;
    RF_REQUIRE(path && *path, "rf_callback_csv_log: path is empty");
    csv_log *log = RF_NEW(csv_log);
    if (!log) return RF_ERROR_OUT_OF_HOST_MEMORY;
    log->append = append;
    log->path = rf_strdup(path);
    const rf_callback_fns fns = {
        .on_train_begin = on_train_begin, .on_epoch_end = on_epoch_end, .on_train_end = on_train_end, .destroy = destroy
    };
    const rf_result r = log->path ? rf_callback_create(&fns, log, out) : RF_ERROR_OUT_OF_HOST_MEMORY;
    if (r < 0) destroy(log);
    return r;
}
