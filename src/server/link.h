/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A connection between two tasks of a cluster that knows the other side's name, lets several threads send, and
 * distinguishes a lost task from a slow one: tasks that wait for each other send heartbeats.
 */
#ifndef RF_SERVER_LINK_H
#define RF_SERVER_LINK_H

#include <pthread.h>

#include "server/message.h"
#include "transport/channel/channel.h"
#include "transport/job/cluster.h"

#define RF_PS_NAME 300

typedef struct rf_ps_link {
    rf_channel *channel;
    pthread_mutex_t sending;
    char name[RF_PS_NAME]; /* "ps 1 (10.0.0.3:2222)" */
    uint64_t heard;        /* when the last message came; the receiving thread's */
    uint64_t send_timeout_ns;
} rf_ps_link;

/* Takes over the channel, even when it fails. */
rf_result rf_ps_link_create(rf_channel *channel, const char *name, uint64_t send_timeout_ns, rf_ps_link **out);
void rf_ps_link_destroy(rf_ps_link **link);

/* Loss and silence come back as RF_ERROR_PEER_LOST with the other side's name. Thread-safe. */
rf_result rf_ps_link_send(rf_ps_link *link, const rf_ps_message *message);
/* Sends a heartbeat, unless another thread is sending anyway. A failure shows in the next receive. */
void rf_ps_link_send_heartbeat(rf_ps_link *link);
/* A run of floats in chunks: `message` has everything but offset and payload. One message without payload where count
 * is 0. */
rf_result rf_ps_link_send_floats(rf_ps_link *link, rf_ps_message *message, const float *values, uint64_t count);
/* The next message that is not a heartbeat; its payload is valid until the next call. RF_ERROR_TIMEOUT (without a
 * record) when none comes; `timeout_ns` 0 does not wait. */
rf_result rf_ps_link_receive(rf_ps_link *link, uint64_t timeout_ns, rf_ps_message *out);
/* The same, where the other side is known to send heartbeats: silence for `silence_ns` is a loss. */
rf_result rf_ps_link_await(rf_ps_link *link, uint64_t timeout_ns, uint64_t silence_ns, rf_ps_message *out);
/* After a time in which no thread received: what arrived meanwhile counts as received now. */
void rf_ps_link_resume(rf_ps_link *link);
rf_result rf_ps_link_check_silence(const rf_ps_link *link, uint64_t silence_ns);

/* TF_CONFIG's cluster, which must make this process a task of this type and have a chief, workers and servers; and the
 * settings of its connections. */
rf_result rf_ps_cluster_resolve(const rf_comm_params *comm, rf_task_type type, rf_cluster *cluster, rf_job *job);
/* "worker 2 (10.0.0.4:2222)" */
void rf_ps_task_name(const rf_cluster *cluster, rf_task_type type, uint32_t index, char name[RF_PS_NAME]);
/* Connects to a task, which may not have been started yet. */
rf_result rf_ps_connect(const rf_job *job, const rf_cluster *cluster, rf_task_type type, uint32_t index,
                        const rf_hello *mine, uint64_t timeout_ns, rf_ps_link **out);
/* Who this process is, with a new incarnation. `role` is what the connection is for. */
rf_result rf_ps_hello(const rf_job *job, const char *role, rf_hello *out);

/* A thread that sends heartbeats. */
typedef struct rf_ps_heartbeat rf_ps_heartbeat;
rf_result rf_ps_heartbeat_start(rf_ps_link *link, uint64_t interval_ns, rf_ps_heartbeat **out);
void rf_ps_heartbeat_stop(rf_ps_heartbeat **heartbeat);

#endif
