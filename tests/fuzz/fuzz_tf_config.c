/* SPDX-License-Identifier: Apache-2.0 */
/* TF_CONFIG and Slurm's lists: whatever the variables hold, a cluster within its bounds comes out or a message. */
#include <string.h>

#include "fuzz.h"
#include "transport/job/cluster.h"
#include "transport/job/sources.h"

static void check(bool good)
{
    if (!good) abort();
}

static void check_cluster(const rf_cluster *c)
{
    check((unsigned)c->type < RF_TASK_TYPE_COUNT && rf_cluster_size(c) <= RF_MAX_WORLD + 1);
    check(c->index < c->count[c->type] || (c->index == 0 && c->count[c->type] == 0));
    for (int t = 0; t < RF_TASK_TYPE_COUNT; t++) {
        check((c->count[t] > 0) == (c->tasks[t] != NULL));
        for (uint32_t i = 0; i < c->count[t]; i++) {
            const rf_address *a = &c->tasks[t][i];
            check(a->port > 0 && a->host[0] && strlen(a->host) < sizeof(a->host));
        }
    }
}

FUZZ_TARGET(tf_config)
{
    char *text = malloc(size + 1), host[RF_JOB_TEXT];
    if (!text) return 0;
    memcpy(text, data, size);
    text[size] = '\0';
    rf_cluster cluster;
    if (rf_cluster_parse(text, size, &cluster) == RF_OK) {
        check_cluster(&cluster);
        rf_cluster_free(&cluster);
    } else {
        check(rf_error_message()[0] != '\0' && !cluster.tasks[RF_TASK_WORKER]);
    }
    if (rf_job_first_host("LIST", text, host) == RF_OK) check(host[0] && !strpbrk(host, "[], "));
    if (rf_job_contact_host(text, host)) check(host[0] && strlen(host) < sizeof(host));
    (void)rf_job_tasks_on_node(text, size);
    free(text);
    return 0;
}
