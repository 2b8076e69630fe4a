/* SPDX-License-Identifier: Apache-2.0 */
/* A job whose processes have different tasks, as TF_CONFIG describes it: the starting point of the parameter-server
 * strategy. */
#ifndef RF_TRANSPORT_JOB_CLUSTER_H
#define RF_TRANSPORT_JOB_CLUSTER_H

#include "transport/job/job.h"

/* In the order in which a cluster numbers its processes. */
typedef enum rf_task_type {
    RF_TASK_CHIEF,
    RF_TASK_WORKER,
    RF_TASK_PS,
    RF_TASK_EVALUATOR,
    RF_TASK_TYPE_COUNT
} rf_task_type;

typedef struct rf_address {
    char host[RF_JOB_TEXT];
    uint16_t port;
} rf_address;

typedef struct rf_cluster {
    rf_task_type type; /* this process */
    uint32_t index;
    uint32_t count[RF_TASK_TYPE_COUNT];
    rf_address *tasks[RF_TASK_TYPE_COUNT]; /* `count` each; NULL where none */
    char *run; /* all of the text but the task, in one form: equal for all processes of the cluster */
} rf_cluster;

#define RF_TF_CONFIG_BYTES (1u << 20) /* no longer text is parsed */

/* Text of the form {"cluster": {"worker": ["host:port", ...], ...}, "task": {"type": "worker", "index": 0}}. "master"
 * is an older word for "chief". Without a cluster all counts are 0: this process is alone. Errors give the place in the
 * text or name the entry. Free with rf_cluster_free(). */
rf_result rf_cluster_parse(const char *text, size_t length, rf_cluster *out);
/* From TF_CONFIG. RF_ERROR_NOT_FOUND when it is unset or has no cluster. `lookup` NULL: the process environment. */
rf_result rf_cluster_resolve(rf_lookup_fn lookup, void *user, rf_cluster *out);
void rf_cluster_free(rf_cluster *cluster);
const char *rf_task_type_name(rf_task_type type);

/* Number of a process over all tasks: chief, workers, parameter servers, evaluators. */
uint32_t rf_cluster_rank(const rf_cluster *cluster, rf_task_type type, uint32_t index);
uint32_t rf_cluster_size(const rf_cluster *cluster);

/* Key, timeouts and names for the channels of a cluster, from the same places as rf_job_resolve(); rank and world size
 * count all processes of the cluster, the master is its first. */
rf_result rf_cluster_job(const rf_comm_params *params, rf_lookup_fn lookup, void *user, const rf_cluster *cluster,
                         rf_job *out);

#endif
