/* SPDX-License-Identifier: Apache-2.0 */
#include "transport/mesh/operations.h"

#include "base/numbers.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

void rf_operations_init(rf_operations *o)
{
    memset(o, 0, sizeof(*o));
    pthread_mutex_init(&o->lock, NULL);
}

void rf_operations_destroy(rf_operations *o)
{
    pthread_mutex_destroy(&o->lock);
}

void rf_operations_begin(rf_operations *o, uint64_t serial, const char *what, uint64_t now)
{
    pthread_mutex_lock(&o->lock);
    rf_operation *operation = &o->kept[o->count++ % RF_OPERATIONS_KEPT];
    operation->serial = serial;
    operation->begun_ns = now;
    operation->finished_ns = 0;
    snprintf(operation->what, sizeof(operation->what), "%s", what ? what : "");
    pthread_mutex_unlock(&o->lock);
    atomic_store_explicit(&o->begun, serial, memory_order_relaxed);
}

void rf_operations_finish(rf_operations *o, uint64_t serial, uint64_t now)
{
    pthread_mutex_lock(&o->lock);
    for (uint64_t i = 0; i < RF_OPERATIONS_KEPT && i < o->count; i++) {
        rf_operation *operation = &o->kept[(o->count - 1 - i) % RF_OPERATIONS_KEPT];
        if (operation->serial != serial) continue;
        operation->finished_ns = now;
        break;
    }
    pthread_mutex_unlock(&o->lock);
    atomic_store_explicit(&o->finished, serial, memory_order_relaxed);
}

bool rf_operations_line(rf_operations *o, uint32_t age, uint64_t now, char *text, size_t size)
{
    pthread_mutex_lock(&o->lock);
    const bool known = age < RF_OPERATIONS_KEPT && age < o->count;
    if (known) {
        const rf_operation *operation = &o->kept[(o->count - 1 - age) % RF_OPERATIONS_KEPT];
        const uint64_t end = operation->finished_ns ? operation->finished_ns : now;
        const double ms = end > operation->begun_ns ? (double)(end - operation->begun_ns) * 1e-6 : 0;
        rf_number_print(text, size, "%" PRIu64 " %s %s %.1f ms", operation->serial, operation->what,
                        operation->finished_ns ? "done in" : "pending for", ms);
    }
    pthread_mutex_unlock(&o->lock);
    return known;
}

void rf_operations_text(rf_operations *o, uint64_t now, char *text, size_t size)
{
    char line[RF_OPERATION_LINE];
    size_t used = 0;
    snprintf(text, size, "none");
    for (uint32_t i = 0; used < size && rf_operations_line(o, i, now, line, sizeof(line)); i++)
        used += (size_t)snprintf(text + used, size - used, "%s%s", i ? "; " : "", line);
}
