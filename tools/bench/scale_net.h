/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A network on this host: a namespace for each worker, with one interface whose other end is a port of a bridge, and
 * tc's queueing disciplines to make it slow.
 *
 * Namespaces have no names. They are there while a process is in them or has them open, and with the last namespace the
 * interfaces and the bridge go too: nothing is left to be taken down, whatever ends the command, and nothing of the
 * host's network is ever touched.
 */
#ifndef RINGFIRE_BENCH_SCALE_NET_H
#define RINGFIRE_BENCH_SCALE_NET_H

#include <stdbool.h>
#include <stdint.h>

#include "bench/report.h"
#include "bench/scale_model.h"

typedef struct scale_net {
    uint32_t workers;
    int namespaces[BENCH_MOST_RANKS]; /* open files of them */
    bool relayed;                     /* the kernel has no netem: a process delays messages (scale_wire.h) */
} scale_net;

/* Moves this process into a namespace of its own, with the bridge, and makes those of the workers. The link's latency
 * is that of each message on its way out. False after a message that says what is missing. */
bool scale_net_create(scale_net *net, uint32_t workers, const scale_link *link);
/* Moves this process, a worker, into its namespace. */
bool scale_net_enter(const scale_net *net, uint32_t worker);
/* The worker's IPv4 address there. */
void scale_net_address(uint32_t worker, char out[16]);

/* The discipline that tc attaches to a worker's interface, or to its port of the bridge, which limits what comes in.
 * Pure. */
void scale_net_discipline(const scale_link *link, bool out, char *text, unsigned room);

#endif
