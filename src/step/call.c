/* SPDX-License-Identifier: Apache-2.0 */
/* Failures in the words of the call that the user made: many tracing functions are composed of others, of operations
 * with names of their own, of tensors in other shapes. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/numbers.h"
#include "replica/internal.h"
#include "step/function.h"

/* ---- failure ---- */

rf_result rf_trace_keep_failure(rf_trace *t, rf_result result)
{
    if (result < 0 && t->status >= 0) {
        t->status = result;
        rf_error_save(&t->error);
        rf_trace_name_failure(t, &t->error);
    }
    return result;
}

RF_API rf_result rf_trace_status(const rf_trace *t)
{
    if (!t) return RF_FAIL(RF_ERROR_INVALID_ARGUMENT, "rf_trace_status: the trace is NULL");
    return t->status < 0 ? rf_error_restore(&t->error) : RF_OK;
}

RF_API rf_result rf_trace_fail(rf_trace *t, rf_result result, const char *format, ...)
{
    char message[900] = "rf_trace_fail: format is NULL";
    va_list arguments;
    va_start(arguments, format);
    if (format) rf_number_vprint(message, sizeof(message), format, arguments);
    va_end(arguments);
    if (result >= 0) result = RF_ERROR_INVALID_ARGUMENT;
    RF_FAIL(result, "%s", message);
    return t ? rf_trace_keep_failure(t, result) : result;
}

void rf_trace_context(rf_trace *t, const char *format, ...)
{
    char context[256];
    va_list arguments;
    va_start(arguments, format);
    rf_number_vprint(context, sizeof(context), format, arguments);
    va_end(arguments);
    if (t->status >= 0) return;
    (void)rf_error_restore(&t->error);
    (void)rf_error_context(t->status, "%s", context);
    rf_error_save(&t->error);
}

rf_tensor rf_trace_wrap(rf_trace *t, rf_value v)
{
    return v ? (rf_tensor){ v, t->serial } : (rf_tensor){ 0, 0 };
}

rf_tensor rf_trace_emit(rf_trace *t, rf_result result, rf_value v)
{
    rf_trace_keep_failure(t, result);
    return t->status < 0 ? (rf_tensor){ 0, 0 } : rf_trace_wrap(t, v);
}

/* ---- calls ---- */

rf_trace *rf_trace_enter(rf_trace *t, const char *function)
{
    if (!t || t->call.depth++ > 0) return t;
    t->call.function = function;
    t->call.num_operands = 0;
    const rf_result r = rf_trace_label(t, function);
    if (r < 0) (void)rf_trace_emit(t, r, 0);
    return t;
}

void rf_trace_leave(rf_trace *const *t)
{
    if (*t) (*t)->call.depth--;
}

rf_result rf_trace_label(rf_trace *t, const char *call)
{
    return t->layers > 0 ? RF_OK : rf_graph_set_call(t->signature->graph, call);
}

void rf_trace_enter_layer(rf_trace *t, const char *layer)
{
    const rf_result r = rf_trace_label(t, layer);
    if (r < 0) (void)rf_trace_emit(t, r, 0);
    t->layers++;
}

void rf_trace_leave_layer(rf_trace *t)
{
    t->layers--;
}

void rf_trace_note_operand(rf_trace *t, rf_value v, const char *argument)
{
    rf_trace_call *c = &t->call;
    const char *colon = strstr(argument, ": "), *name = colon ? colon + 2 : argument;
    if (c->depth != 1 || c->num_operands == sizeof(c->operands) / sizeof(c->operands[0])) return;
    for (uint32_t i = 0; i < c->num_operands; i++)
        if (strncmp(c->operands[i].name, name, sizeof(c->operands[i].name) - 1) == 0) return;
    snprintf(c->operands[c->num_operands].name, sizeof(c->operands[0].name), "%s", name);
    c->operands[c->num_operands++].value = v;
}

/* The text of "name: text", where the name is one: of an operation, or of another function. There may be several. */
static const char *skip_inner_names(const char *message)
{
    for (;;) {
        const size_t length = strspn(message, "abcdefghijklmnopqrstuvwxyz0123456789_");
        if (length == 0 || strncmp(message + length, ": ", 2) != 0) return message;
        message += length + 2;
    }
}

static bool begins_with_name(const char *message, const char *function)
{
    const size_t length = strlen(function);
    return strncmp(message, function, length) == 0 && strchr(": '", message[length]) != NULL;
}

/* The shapes and numbers in a message are those of the failing operation, so the operands of the caller's call are
 * appended. */
static void append_operands(const rf_trace *t, char *message, size_t size)
{
    if (!strchr(message, '[') && !strstr(message, " operand ") && !strstr(message, " input ")) return;
    for (uint32_t i = 0; i < t->call.num_operands; i++) {
        char shape[96];
        const rf_tensor_desc *desc = rf_graph_desc(t->signature->graph, t->call.operands[i].value);
        const size_t used = strlen(message);
        rf_shape_format(desc->shape, shape, sizeof(shape));
        if (strstr(message, shape)) continue;
        snprintf(message + used, size - used, "; %s is %s %s", t->call.operands[i].name, rf_dtype_name(desc->dtype),
                 shape);
    }
}

void rf_trace_name_failure(const rf_trace *t, rf_error_record *record)
{
    char message[sizeof(record->message)];
    if (t->call.depth == 0) return;
    if (begins_with_name(record->message, t->call.function))
        snprintf(message, sizeof(message), "%s", record->message);
    else
        snprintf(message, sizeof(message), "%s: %.900s", t->call.function, skip_inner_names(record->message));
    append_operands(t, message, sizeof(message));
    memcpy(record->message, message, sizeof(message));
    (void)rf_error_restore(record);
}
