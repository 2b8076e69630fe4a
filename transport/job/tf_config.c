/* SPDX-License-Identifier: Apache-2.0 */
/* TF_CONFIG: the processes of a cluster by task, and which of them this one is. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include <jansson.h>

#include "base/memory.h"
#include "base/numbers.h"
#include "base/platform.h"
#include "transport/job/cluster.h"
#include "transport/job/sources.h"

static const char *const type_names[RF_TASK_TYPE_COUNT] = { "chief", "worker", "ps", "evaluator" };

const char *rf_task_type_name(rf_task_type type)
{
    return (unsigned)type < RF_TASK_TYPE_COUNT ? type_names[type] : "?";
}

static rf_result find_type(const char *where, const char *name, rf_task_type *out)
{
    if (strcmp(name, "master") == 0) name = "chief";
    for (int i = 0; i < RF_TASK_TYPE_COUNT; i++) {
        if (strcmp(name, type_names[i]) != 0) continue;
        *out = (rf_task_type)i;
        return RF_OK;
    }
    return RF_FAIL(RF_ERROR_INVALID_ARGUMENT, "TF_CONFIG: %s '%.40s' is not one of chief, worker, ps, evaluator", where,
                   name);
}

static rf_result read_addresses(const json_t *list, rf_task_type type, rf_cluster *out)
{
    RF_REQUIRE(json_is_array(list), "TF_CONFIG: cluster.%s is not a list of \"host:port\"", type_names[type]);
    RF_REQUIRE(!out->tasks[type], "TF_CONFIG: the cluster has both a master and a chief; they are the same task");
    const size_t count = json_array_size(list);
    RF_REQUIRE(count <= RF_MAX_WORLD, "TF_CONFIG: cluster.%s has %zu entries, more than %d", type_names[type], count,
               RF_MAX_WORLD);
    RF_REQUIRE(type != RF_TASK_CHIEF || count <= 1, "TF_CONFIG: cluster.chief has %zu entries; a cluster has one chief",
               count);
    if (count == 0) return RF_OK;
    out->tasks[type] = RF_NEW_ARRAY(rf_address, count);
    if (!out->tasks[type]) return RF_ERROR_OUT_OF_HOST_MEMORY;
    out->count[type] = (uint32_t)count;
    for (size_t i = 0; i < count; i++) {
        char where[64];
        snprintf(where, sizeof(where), "TF_CONFIG: cluster.%s[%zu]", type_names[type], i);
        const char *text = json_string_value(json_array_get(list, i));
        RF_REQUIRE(text, "%s is not a string \"host:port\"", where);
        rf_address *a = &out->tasks[type][i];
        RF_TRY(rf_job_parse_address(where, text, a->host, &a->port));
    }
    return RF_OK;
}

/* Two processes cannot listen in the same place. */
static rf_result check_distinct(const rf_cluster *cluster)
{
    for (int t = 0; t < RF_TASK_TYPE_COUNT; t++)
        for (uint32_t i = 0; i < cluster->count[t]; i++)
            for (int u = t; u < RF_TASK_TYPE_COUNT; u++)
                for (uint32_t k = u == t ? i + 1 : 0; k < cluster->count[u]; k++) {
                    const rf_address *a = &cluster->tasks[t][i], *b = &cluster->tasks[u][k];
                    RF_REQUIRE(a->port != b->port || strcmp(a->host, b->host) != 0,
                               "TF_CONFIG: cluster.%s[%u] and cluster.%s[%u] are both %s:%u", type_names[t], i,
                               type_names[u], k, a->host, a->port);
                }
    return RF_OK;
}

static rf_result read_cluster(const json_t *cluster, rf_cluster *out)
{
    const char *name = NULL;
    json_t *list = NULL;
    json_object_foreach((json_t *)cluster, name, list)
    {
        rf_task_type type = RF_TASK_WORKER;
        RF_TRY(find_type("cluster entry", name, &type));
        RF_TRY(read_addresses(list, type, out));
    }
    RF_REQUIRE(rf_cluster_size(out) <= RF_MAX_WORLD, "TF_CONFIG: the cluster has %u processes, more than %d",
               rf_cluster_size(out), RF_MAX_WORLD);
    return check_distinct(out);
}

static rf_result read_task(const json_t *task, rf_cluster *out)
{
    RF_REQUIRE(json_is_object(task),
               "TF_CONFIG has a cluster but no task; add \"task\": {\"type\": \"worker\", \"index\": 0}");
    const char *type = json_string_value(json_object_get(task, "type"));
    RF_REQUIRE(type, "TF_CONFIG: task.type is missing or not a string");
    RF_TRY(find_type("task.type", type, &out->type));
    const json_t *index = json_object_get(task, "index");
    RF_REQUIRE(json_is_integer(index), "TF_CONFIG: task.index is missing or not an integer");
    const json_int_t value = json_integer_value(index);
    const uint32_t count = out->count[out->type];
    /* An evaluator need not be listed: no task connects to it. */
    if (out->type == RF_TASK_EVALUATOR && count == 0) {
        RF_REQUIRE(value == 0, "TF_CONFIG: task.index is %lld but an evaluator that is not in the cluster has index 0",
                   (long long)value);
        return RF_OK;
    }
    RF_REQUIRE(count > 0, "TF_CONFIG: task.type is %s but the cluster lists none", type_names[out->type]);
    RF_REQUIRE(value >= 0 && value < (json_int_t)count, "TF_CONFIG: task.index is %lld but cluster.%s has %u %s",
               (long long)value, type_names[out->type], count,
               count == 1 ? "entry (index 0)" : "entries, counted from 0");
    out->index = (uint32_t)value;
    return RF_OK;
}

/* A process that has a task is one of several, or the name of the cluster is misspelled. */
static rf_result check_alone(const json_t *root)
{
    const char *name = NULL;
    json_t *value = NULL;
    json_object_foreach((json_t *)root, name, value)
        RF_REQUIRE(strcasecmp(name, "cluster") != 0, "TF_CONFIG has '%.40s'; write \"cluster\" in small letters", name);
    RF_REQUIRE(json_object_size(json_object_get(root, "task")) == 0,
               "TF_CONFIG has a task but no \"cluster\"; add {\"worker\": [\"host:port\", ...]}, or unset TF_CONFIG "
               "for a process alone");
    return RF_OK;
}

/* Order and spaces may differ between hosts. */
static rf_result keep_run(json_t *root, rf_cluster *out)
{
    json_t *rest = json_copy(root);
    if (rest) json_object_del(rest, "task");
    char *text = NULL;
    if (rest) RF_WITH_C_NUMBERS(text = json_dumps(rest, JSON_COMPACT | JSON_SORT_KEYS));
    json_decref(rest);
    out->run = text ? rf_asprintf("%s", text) : NULL;
    free(text);
    return out->run ? RF_OK : RF_ERROR_OUT_OF_HOST_MEMORY;
}

static rf_result read_root(json_t *root, rf_cluster *out)
{
    RF_REQUIRE(json_is_object(root), "TF_CONFIG is not a JSON object {\"cluster\": ..., \"task\": ...}");
    const json_t *cluster = json_object_get(root, "cluster");
    if (!cluster) return check_alone(root); /* managed services describe single machines by {} */
    RF_TRY(keep_run(root, out));
    RF_REQUIRE(json_is_object(cluster), "TF_CONFIG: cluster is not an object of lists");
    RF_TRY(read_cluster(cluster, out));
    if (rf_cluster_size(out)) return read_task(json_object_get(root, "task"), out);
    const json_int_t index = json_integer_value(json_object_get(json_object_get(root, "task"), "index"));
    RF_REQUIRE(index == 0, "TF_CONFIG: task.index is %lld but the cluster lists none", (long long)index);
    return RF_OK;
}

rf_result rf_cluster_parse(const char *text, size_t length, rf_cluster *out)
{
    memset(out, 0, sizeof(*out));
    out->type = RF_TASK_WORKER;
    RF_REQUIRE(length <= RF_TF_CONFIG_BYTES, "TF_CONFIG has %zu bytes, more than %u", length, RF_TF_CONFIG_BYTES);
    json_error_t error;
    json_t *root;
    RF_WITH_C_NUMBERS(root = json_loadb(text, length, JSON_REJECT_DUPLICATES, &error));
    if (!root)
        return RF_FAIL(RF_ERROR_INVALID_ARGUMENT, "TF_CONFIG is not JSON: line %d, column %d: %s", error.line,
                       error.column, error.text);
    const rf_result r = read_root(root, out);
    json_decref(root);
    if (r < 0) rf_cluster_free(out);
    return r;
}

static const char *process_variable(void *user, const char *name)
{
    (void)user;
    return rf_env(name);
}

rf_result rf_cluster_resolve(rf_lookup_fn lookup, void *user, rf_cluster *out)
{
    memset(out, 0, sizeof(*out));
    const char *text = lookup ? lookup(user, "TF_CONFIG") : process_variable(user, "TF_CONFIG");
    if (!text || !text[0])
        return RF_FAIL(RF_ERROR_NOT_FOUND, "TF_CONFIG is not set; it lists the processes of the cluster");
    RF_TRY(rf_cluster_parse(text, strlen(text), out));
    if (rf_cluster_size(out) > 0) return RF_OK;
    rf_cluster_free(out);
    return RF_FAIL(RF_ERROR_NOT_FOUND,
                   "TF_CONFIG lists no processes; add \"cluster\": {\"worker\": [...], \"ps\": [...]}");
}

void rf_cluster_free(rf_cluster *cluster)
{
    for (int i = 0; i < RF_TASK_TYPE_COUNT; i++) rf_free(cluster->tasks[i]);
    rf_free(cluster->run);
    memset(cluster, 0, sizeof(*cluster));
}

uint32_t rf_cluster_rank(const rf_cluster *cluster, rf_task_type type, uint32_t index)
{
    for (int i = 0; i < (int)type; i++) index += cluster->count[i];
    return index;
}

uint32_t rf_cluster_size(const rf_cluster *cluster)
{
    const bool unlisted = cluster->type == RF_TASK_EVALUATOR && cluster->count[RF_TASK_EVALUATOR] == 0;
    return rf_cluster_rank(cluster, RF_TASK_TYPE_COUNT, 0) + (unlisted ? 1 : 0);
}

/* Chief and workers form the synchronous job; the chief, where there is one, is rank 0. */
static rf_result synchronous_job(const rf_cluster *cluster, rf_job *job)
{
    RF_REQUIRE(
        cluster->type == RF_TASK_CHIEF || cluster->type == RF_TASK_WORKER,
        "TF_CONFIG makes this process %s %u, which takes no part in a synchronous job; only chief and workers do",
        type_names[cluster->type], cluster->index);
    job->rank = rf_cluster_rank(cluster, cluster->type, cluster->index);
    job->world_size = rf_cluster_rank(cluster, RF_TASK_PS, 0);
    job->launcher = "TF_CONFIG";
    rf_job_name_run(job, job->launcher, cluster->run);
    if (!rf_job_needs_master(job)) return RF_OK;
    const rf_address *first =
        cluster->count[RF_TASK_CHIEF] ? cluster->tasks[RF_TASK_CHIEF] : cluster->tasks[RF_TASK_WORKER];
    memcpy(job->master_address, first->host, sizeof(first->host));
    job->master_port = first->port;
    return RF_OK;
}

rf_result rf_job_from_tf_config(const rf_job_env *env, rf_job *job, bool *found)
{
    *found = false;
    const char *text = rf_job_get(env, "TF_CONFIG");
    if (!text) return RF_OK;
    rf_cluster cluster;
    RF_TRY(rf_cluster_parse(text, strlen(text), &cluster));
    *found = rf_cluster_size(&cluster) > 0;
    const rf_result r = *found ? synchronous_job(&cluster, job) : RF_OK;
    rf_cluster_free(&cluster);
    return r;
}
