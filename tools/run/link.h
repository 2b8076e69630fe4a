/* SPDX-License-Identifier: Apache-2.0 */
/* The launcher's side of an agent: a process on this host, or ssh to another one. */
#ifndef RINGFIRE_LINK_H
#define RINGFIRE_LINK_H

#include <sys/types.h>

#include "run/output.h"
#include "run/run.h"
#include "run/wire.h"

typedef struct agent_link {
    const placement *place;
    pid_t pid;
    int in, out, err_fd; /* its standard streams, -1 when closed */
    wire_reader reader;
    output_lines err;
    bool greeted, ready, gone;
    bool failed; /* it was there and said why it cannot work */
    uint16_t port;
} agent_link;

bool link_open(const run_options *o, agent_link *l, char error[512]);
void link_close_input(agent_link *l);
void link_kill(agent_link *l);
/* Takes the last of its messages, closes everything and waits for the process, which is killed if that takes long. */
void link_finish(agent_link *l);
void link_free(agent_link *l);

/* Tells every agent which workers to start. False without memory or a key, with a line in `error`. */
bool start_workers(const run_options *o, agent_link *links, uint32_t num_links, uint32_t num_workers, uint64_t epoch,
                   char error[512]);

#endif
