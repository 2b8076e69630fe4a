/* SPDX-License-Identifier: Apache-2.0 */
/* Failures in the words of the call that the user made: many tracing functions are composed of others, of operations
 * with names of their own, of tensors in other shapes. */
#include <stdio.h>
#include <string.h>

#include "replica/internal.h"
#include "replica/step/function.h"

rf_trace *rf_trace_begin_call(rf_trace *t, const char *function)
{
    if (!t || t->call.depth++ > 0) return t;
    t->call.function = function;
    t->call.num_operands = 0;
    /* Of layers and metrics, which say what they are themselves, the nodes are parts. */
    if (t->entered == 0) (void)rf_trace_emit(t, rf_graph_set_call(t->signature->graph, function), 0);
    return t;
}

void rf_trace_end_call(rf_trace *const *t)
{
    if (*t) (*t)->call.depth--;
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

/* Of "name: text" the text, where the name is one: of an operation, or of another function. There may be several. */
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

/* What a message shows, or numbers, is of what the failing operation was given. */
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
