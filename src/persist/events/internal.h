/* SPDX-License-Identifier: Apache-2.0 */
/* The files of event writing share these. */
#ifndef RF_PERSIST_EVENTS_INTERNAL_H
#define RF_PERSIST_EVENTS_INTERNAL_H

#include <ringfire/events.h>

#include "base/error.h"
#include "persist/events/events.pb-c.h"

/* A text that events hold: proto3's strings are UTF-8, and strict readers refuse the whole event else. `what` begins
 * the message, "rf_event_writer_scalar: tag". */
rf_result rf_event_check_text(const char *what, const char *text);

/* Stamps the event with the time and appends it. `event->what` is set by the caller. Thread-safe. */
rf_result rf_event_writer_append(rf_event_writer *writer, RfPb__Event *event);
/* Appends a summary of one value, in the form that TensorBoard's `plugin` reads. Thread-safe. */
rf_result rf_event_writer_value(rf_event_writer *writer, const char *plugin, RfPb__DataClass data_class,
                                const char *tag, int64_t step, RfPb__Tensor *tensor);

#endif
