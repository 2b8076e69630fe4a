/* SPDX-License-Identifier: Apache-2.0 */
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/log_recent.h"
#include "base/numbers.h"
#include "base/platform.h"

/* One sink per process: drivers call back without saying for which object. */
static struct {
    pthread_mutex_t lock;
    rf_log_fn fn;
    void *user;
    rf_log_level most_verbose;
    rf_log_recent recent;
} sink = { .lock = PTHREAD_MUTEX_INITIALIZER };

/* With the lock. */
static void keep_recent(const char *message)
{
    rf_log_recent *kept = &sink.recent;
    kept->count++;
    if (kept->num_texts == RF_LOG_RECENT)
        memmove(kept->texts[0], kept->texts[1], sizeof(kept->texts) - sizeof(kept->texts[0]));
    else
        kept->num_texts++;
    snprintf(kept->texts[kept->num_texts - 1], sizeof(kept->texts[0]), "%.*s", RF_LOG_RECENT_BYTES - 1, message);
}

void rf_log_recent_get(rf_log_recent *out)
{
    pthread_mutex_lock(&sink.lock);
    *out = sink.recent;
    pthread_mutex_unlock(&sink.lock);
}

void rf_log_set(rf_log_fn fn, void *user, rf_log_level most_verbose)
{
    static const char *const names[] = { "error", "warn", "info", "debug" };
    const char *wanted = rf_env("RINGFIRE_LOG");
    bool known = !wanted;
    for (int i = 0; wanted && i < 4; i++) {
        if (strcmp(wanted, names[i]) != 0) continue;
        most_verbose = (rf_log_level)i;
        known = true;
    }
    pthread_mutex_lock(&sink.lock);
    sink.fn = fn;
    sink.user = user;
    sink.most_verbose = most_verbose;
    pthread_mutex_unlock(&sink.lock);
    if (!known) rf_log_message(RF_LOG_ERROR, "RINGFIRE_LOG is '%s', not error, warn, info or debug", wanted);
}

bool rf_log_wants(rf_log_level level)
{
    pthread_mutex_lock(&sink.lock);
    const bool wanted = sink.fn && level <= sink.most_verbose;
    pthread_mutex_unlock(&sink.lock);
    return wanted;
}

static void pass_message(rf_log_level level, bool kept, const char *format, va_list args)
{
    pthread_mutex_lock(&sink.lock);
    const rf_log_fn fn = level <= sink.most_verbose ? sink.fn : NULL;
    void *const user = sink.user;
    pthread_mutex_unlock(&sink.lock);
    if (!fn && !kept) return;
    char message[1024];
    rf_number_vprint(message, sizeof(message), format, args);
    if (kept) {
        pthread_mutex_lock(&sink.lock);
        keep_recent(message);
        pthread_mutex_unlock(&sink.lock);
    }
    if (fn) fn(user, level, message);
}

void rf_log_message(rf_log_level level, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    pass_message(level, level <= RF_LOG_WARN, format, args);
    va_end(args);
}

void rf_log_advice(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    pass_message(RF_LOG_INFO, true, format, args);
    va_end(args);
}
