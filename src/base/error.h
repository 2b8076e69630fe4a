/* SPDX-License-Identifier: Apache-2.0 */
/* The per-thread error record. Fail with RF_FAIL / RF_FAIL_NATIVE, pass on with RF_TRY, add context with RF_CONTEXT. */
#ifndef RF_BASE_ERROR_H
#define RF_BASE_ERROR_H

#include <ringfire/common.h>

/* Starts a new record (forgetting an older one) and returns `result`. The message is one line: what, and the fix. */
rf_result rf_error_set(rf_result result, const char *native_domain, int64_t native_code, const char *file, int line,
                       const char *format, ...) RF_PRINTF(6, 7);
/* Puts "<context>: " in front of the record's message; returns `result` unchanged. Does nothing when result >= 0. */
rf_result rf_error_context(rf_result result, const char *format, ...) RF_PRINTF(2, 3);

/* A copy of the record, to carry a failure from one thread to another or to make it stick to an object. */
typedef struct rf_error_record {
    rf_error_info info;
    char message[1024];
} rf_error_record;
void rf_error_save(rf_error_record *out);
/* Makes `record` the calling thread's record; returns its result. */
rf_result rf_error_restore(const rf_error_record *record);
/* The last code of common.h. */
#define RF_ERROR_LOWEST RF_ERROR_NOT_FINITE
/* The failure that another process meant; RF_ERROR_INTERNAL where the number is none. */
rf_result rf_error_code(int64_t value);
/* A text from another process, to become part of messages of one line: control characters become '?'. */
void rf_error_one_line(char *text);
/* The same for the beginning of a text that stays as it is, such as a name in a file. Returns `shown`. */
const char *rf_error_show(const char *text, char *shown, size_t size);

/* Judges what a user's function returned. It may fail without a record: this thread's last one then tells of something
 * else, and a new one says "<what> returned <code>". `before` is rf_error_count() from before the call. Returns RF_OK
 * or a failure: what is neither (RF_END, or a number that is no rf_result) is a mistake of that function, and
 * RF_ERROR_INVALID_ARGUMENT. A caller for which RF_END means something looks for it first. */
uint64_t rf_error_count(void);
rf_result rf_error_of_user(rf_result result, uint64_t before, const char *what);

#define RF_FAIL(result, ...) rf_error_set((result), "", 0, __FILE__, __LINE__, __VA_ARGS__)
#define RF_FAIL_NATIVE(result, domain, code, ...)                                                                      \
    rf_error_set((result), (domain), (code), __FILE__, __LINE__, __VA_ARGS__)
/* Uses the current errno. */
#define RF_FAIL_ERRNO(result, ...) rf_error_set((result), "errno", errno, __FILE__, __LINE__, __VA_ARGS__)
#define RF_TRY(expression)                                                                                             \
    do {                                                                                                               \
        const rf_result rf_try_result_ = (expression);                                                                 \
        if (rf_try_result_ < 0) return rf_try_result_;                                                                 \
    } while (0)
/* For functions with a cleanup label: sets the local `r` and jumps. */
#define RF_TRY_GOTO(expression, label)                                                                                 \
    do {                                                                                                               \
        r = (expression);                                                                                              \
        if (r < 0) goto label;                                                                                         \
    } while (0)
/* Contract check of a public entry point: names the argument. */
#define RF_REQUIRE(condition, ...)                                                                                     \
    do {                                                                                                               \
        if (!(condition)) return RF_FAIL(RF_ERROR_INVALID_ARGUMENT, __VA_ARGS__);                                      \
    } while (0)

#endif
