/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Slow links of namespaces without netem: at each end a TAP device, and between them a process that holds every frame
 * back until it is due.
 */
#ifndef RINGFIRE_BENCH_SCALE_WIRE_H
#define RINGFIRE_BENCH_SCALE_WIRE_H

#include <stdbool.h>
#include <stdint.h>

#include "bench/scale_model.h"

/* The open devices of a link. */
typedef struct scale_wire {
    int worker, bridge;
} scale_wire;

/* Makes a TAP device in this process's namespace, which is there while it is open. Returns -1 with errno set. */
int scale_wire_open(const char *name);
/* Starts the process that hands on what the workers send as late as such a link would, a frame after the other, and
 * what they receive at once, and closes the devices here. It ends with this process. False with errno set. */
bool scale_wire_start(scale_wire *wires, uint32_t count, const scale_link *link);

#endif
