/* SPDX-License-Identifier: Apache-2.0 */
#include "base/error.h"
#include "base/numbers.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* Per thread, so that a failure on one thread never changes what another one reads. */
static _Thread_local rf_error_record current;
static _Thread_local uint64_t count;

/* Appends "(No such file or directory)" to messages that carry an errno: the number alone is of no help. */
static void append_errno_text(char *message, size_t size, int64_t code)
{
    char text[128];
    const size_t used = strlen(message);
    if (used + 4 >= size) return;
    const char *reason = strerror_r((int)code, text, sizeof(text));
    snprintf(message + used, size - used, " (%s)", reason);
}

rf_result rf_error_set(rf_result result, const char *native_domain, int64_t native_code, const char *file, int line,
                       const char *format, ...)
{
    char message[sizeof(current.message)]; /* the arguments may point into the old record */
    va_list args;
    va_start(args, format);
    rf_number_vprint(message, sizeof(message), format, args);
    va_end(args);
    if (strcmp(native_domain, "errno") == 0) append_errno_text(message, sizeof(message), native_code);
    current.info = (rf_error_info){ result, native_code, native_domain, file, line };
    memcpy(current.message, message, sizeof(message));
    count++;
    return result;
}

rf_result rf_error_context(rf_result result, const char *format, ...)
{
    if (result >= 0) return result;
    char message[sizeof(current.message)];
    va_list args;
    va_start(args, format);
    const int length = rf_number_vprint(message, sizeof(message), format, args);
    va_end(args);
    if (length >= 0 && (size_t)length + 2 < sizeof(message)) {
        const size_t used = (size_t)length;
        snprintf(message + used, sizeof(message) - used, ": %.*s", (int)(sizeof(message) - used - 3), current.message);
    }
    memcpy(current.message, message, sizeof(message));
    return result;
}

void rf_error_save(rf_error_record *out)
{
    *out = current;
}

rf_result rf_error_restore(const rf_error_record *record)
{
    if (record != &current) current = *record;
    count++;
    return current.info.result;
}

uint64_t rf_error_count(void)
{
    return count;
}

rf_result rf_error_of_user(rf_result result, uint64_t before, const char *what)
{
    if (result == RF_OK || (result < 0 && count != before && current.info.result == result)) return result;
    if (result > 0)
        return RF_FAIL(RF_ERROR_INVALID_ARGUMENT,
                       "%s returned %d (%s), which is not allowed here; return RF_OK or an error", what, (int)result,
                       rf_result_name(result));
    if (result < RF_ERROR_LOWEST) return RF_FAIL(result, "%s returned %d (unknown result)", what, (int)result);
    return RF_FAIL(result, "%s returned %s", what, rf_result_name(result));
}

rf_result rf_error_code(int64_t value)
{
    return value < 0 && value >= RF_ERROR_LOWEST ? (rf_result)value : RF_ERROR_INTERNAL;
}

void rf_error_one_line(char *text)
{
    for (; *text; text++)
        if ((unsigned char)*text < ' ' || *text == 127) *text = '?';
}

const char *rf_error_show(const char *text, char *shown, size_t size)
{
    snprintf(shown, size, "%s", text);
    rf_error_one_line(shown);
    return shown;
}

const char *rf_error_message(void)
{
    return current.message;
}

void rf_error_get(rf_error_info *out)
{
    if (!out) return;
    *out = current.info;
    if (!out->native_domain) out->native_domain = "";
    if (!out->file) out->file = "";
}

const char *rf_result_name(rf_result result)
{
    switch (result) {
    case RF_OK: return "RF_OK";
    case RF_END: return "RF_END";
    case RF_ERROR_INVALID_ARGUMENT: return "RF_ERROR_INVALID_ARGUMENT";
    case RF_ERROR_UNSUPPORTED: return "RF_ERROR_UNSUPPORTED";
    case RF_ERROR_OUT_OF_HOST_MEMORY: return "RF_ERROR_OUT_OF_HOST_MEMORY";
    case RF_ERROR_OUT_OF_DEVICE_MEMORY: return "RF_ERROR_OUT_OF_DEVICE_MEMORY";
    case RF_ERROR_DEVICE_LOST: return "RF_ERROR_DEVICE_LOST";
    case RF_ERROR_PEER_LOST: return "RF_ERROR_PEER_LOST";
    case RF_ERROR_TIMEOUT: return "RF_ERROR_TIMEOUT";
    case RF_ERROR_IO: return "RF_ERROR_IO";
    case RF_ERROR_CORRUPT_DATA: return "RF_ERROR_CORRUPT_DATA";
    case RF_ERROR_NO_GRADIENT: return "RF_ERROR_NO_GRADIENT";
    case RF_ERROR_CANCELLED: return "RF_ERROR_CANCELLED";
    case RF_ERROR_NOT_FOUND: return "RF_ERROR_NOT_FOUND";
    case RF_ERROR_INTERNAL: return "RF_ERROR_INTERNAL";
    case RF_ERROR_NOT_FINITE: return "RF_ERROR_NOT_FINITE";
    }
    return "unknown result";
}
