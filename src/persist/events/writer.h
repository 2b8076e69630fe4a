/* SPDX-License-Identifier: Apache-2.0 */
#ifndef RF_PERSIST_EVENTS_WRITER_H
#define RF_PERSIST_EVENTS_WRITER_H

#include <ringfire/events.h>

#include "graph/graph.h"

/* A graph as it is traced: nodes by their op, grouped by the layer whose variables they read. */
rf_result rf_event_writer_traced_graph(rf_event_writer *writer, const rf_graph *graph);

#endif
