/* SPDX-License-Identifier: Apache-2.0 */
/* A worker's job by parameters and environments: every launcher's, half-set ones, contradictions. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../support/folder.h"
#include "tests/room.h"
#include "transport/job/cluster.h"
#include "transport/job/sources.h"

/* An environment: name, value, name, value, ..., NULL. */
static const char *look(void *user, const char *name)
{
    for (const char *const *p = user; p[0]; p += 2)
        if (strcmp(p[0], name) == 0) return p[1];
    return NULL;
}

typedef const char *vars[40];

static rf_result resolve(vars env, rf_job *job)
{
    return rf_job_resolve(NULL, look, env, job);
}

/* Fails, and the message holds each of the texts (separated by '|'). */
static void assert_refused(const rf_comm_params *params, vars env, const char *texts)
{
    rf_job job;
    const rf_result r = rf_job_resolve(params, look, env, &job);
    if (r >= 0) print_error("accepted, expected: %s\n", texts);
    assert_true(r < 0);
    assert_null(strchr(rf_error_message(), '\n'));
    char copy[256], *rest = NULL;
    snprintf(copy, sizeof(copy), "%s", texts);
    for (char *text = strtok_r(copy, "|", &rest); text; text = strtok_r(NULL, "|", &rest)) {
        if (!strstr(rf_error_message(), text)) print_error("'%s' is not in: %s\n", text, rf_error_message());
        assert_non_null(strstr(rf_error_message(), text));
    }
}

TEST(test_alone)
{
    rf_job job;
    assert_int_equal(resolve((vars){ 0 }, &job), RF_OK);
    assert_int_equal(job.world_size, 1);
    assert_int_equal(job.rank, 0);
    assert_false(job.secure);
    assert_string_equal(job.name, "default");
    assert_string_equal(job.bind_address, "");
    assert_true(job.bootstrap_timeout_ns == 60000000000u);
    assert_true(job.peer_timeout_ns == 10000000000u);
    assert_true(job.heartbeat_interval_ns == 1250000000u);
    assert_true(job.operation_timeout_ns == 300000000000u);
    /* Many workers beat as rarely as may be. */
    for (int many = 0; many < 2; many++) {
        assert_int_equal(resolve((vars){ "RINGFIRE_RANK", "3", "RINGFIRE_WORLD_SIZE", many ? "17" : "16",
                                         "RINGFIRE_MASTER", "host:1234", "RINGFIRE_INSECURE", "1" },
                                 &job),
                         RF_OK);
        assert_true(job.heartbeat_interval_ns == (many ? 3333333333u : 1250000000u));
    }
    /* Harmless leftovers: salloc's shell, a batch script, a service's TF_CONFIG, exported addresses. */
    assert_int_equal(resolve((vars){ "SLURM_NTASKS", "4", "SLURM_JOB_ID", "7" }, &job), RF_OK);
    assert_int_equal(job.world_size, 1);
    assert_int_equal(resolve((vars){ "SLURM_NTASKS", "4", "SLURM_PROCID", "0", "SLURM_JOB_ID", "7" }, &job), RF_OK);
    assert_int_equal(job.world_size, 1);
    assert_int_equal(resolve((vars){ "TF_CONFIG", "{}" }, &job), RF_OK);
    assert_int_equal(resolve((vars){ "TF_CONFIG", "{\"cluster\": {}, \"task\": {}}" }, &job), RF_OK);
    assert_int_equal(resolve((vars){ "TF_CONFIG", "{\"environment\": \"cloud\", \"task\": {}}" }, &job), RF_OK);
    assert_int_equal(job.world_size, 1);
    assert_int_equal(resolve((vars){ "MASTER_ADDR", "h", "MASTER_PORT", "1", "LOCAL_RANK", "3" }, &job), RF_OK);
    assert_int_equal(job.world_size, 1);
    assert_int_equal(resolve((vars){ "RANK", "0", "WORLD_SIZE", "1" }, &job), RF_OK); /* no master needed */
    assert_int_equal(resolve((vars){ "RINGFIRE_RANK", "0", "RINGFIRE_WORLD_SIZE", "1" }, &job), RF_OK);
}

#define INSECURE "RINGFIRE_INSECURE", "1"

TEST(test_own)
{
    rf_job job;
    vars env = { INSECURE,
                 "RINGFIRE_RANK",
                 "2",
                 "RINGFIRE_WORLD_SIZE",
                 "4",
                 "RINGFIRE_MASTER",
                 "[fe80::1]:4000",
                 "RINGFIRE_LOCAL_RANK",
                 "0",
                 "RINGFIRE_LOCAL_SIZE",
                 "2",
                 "RINGFIRE_BIND",
                 "10.0.0.7",
                 "RINGFIRE_JOB",
                 "mnist",
                 "RINGFIRE_EPOCH",
                 "18446744073709551615",
                 "RINGFIRE_PROVIDER",
                 "tcp",
                 "RINGFIRE_SHARED_MEMORY",
                 "0",
                 "RINGFIRE_PEER_TIMEOUT",
                 "2",
                 "RINGFIRE_HEARTBEAT",
                 "0.5",
                 "RINGFIRE_BOOTSTRAP_TIMEOUT",
                 "5",
                 "RINGFIRE_OPERATION_TIMEOUT",
                 "7.5",
                 "RANK",
                 "0",
                 "WORLD_SIZE",
                 "9" };
    assert_int_equal(resolve(env, &job), RF_OK);
    assert_int_equal(job.rank, 2);
    assert_int_equal(job.world_size, 4);
    assert_int_equal(job.local_rank, 0);
    assert_int_equal(job.local_size, 2);
    assert_string_equal(job.master_address, "fe80::1");
    assert_int_equal(job.master_port, 4000);
    assert_string_equal(job.bind_address, "10.0.0.7");
    assert_string_equal(job.name, "mnist");
    assert_true(job.epoch == UINT64_MAX);
    assert_string_equal(job.provider, "tcp");
    assert_true(job.network_only);
    assert_true(job.peer_timeout_ns == 2000000000u);
    assert_true(job.heartbeat_interval_ns == 500000000u);
    assert_true(job.bootstrap_timeout_ns == 5000000000u);
    assert_true(job.operation_timeout_ns == 7500000000u);
    assert_false(job.secure);
    assert_false(job.encrypt);
    /* The program's parameters go first. */
    const rf_comm_params params = { .world_size = 3,
                                    .rank = 1,
                                    .master_address = "host",
                                    .master_port = 9,
                                    .job = "other",
                                    .bind_address = "::1",
                                    .epoch = 5,
                                    .provider = "verbs",
                                    .peer_timeout = 4,
                                    .heartbeat_interval = 1,
                                    .bootstrap_timeout = 1,
                                    .operation_timeout = 2 };
    assert_int_equal(rf_job_resolve(&params, look, env, &job), RF_OK);
    assert_int_equal(job.rank, 1);
    assert_int_equal(job.world_size, 3);
    assert_int_equal(job.local_size, 0);
    assert_string_equal(job.master_address, "host");
    assert_int_equal(job.master_port, 9);
    assert_string_equal(job.name, "other");
    assert_string_equal(job.bind_address, "::1");
    assert_true(job.epoch == 5);
    assert_string_equal(job.provider, "verbs");
    assert_true(job.peer_timeout_ns == 4000000000u);
    /* World size from the program, address from the environment. */
    assert_int_equal(rf_job_resolve(&(rf_comm_params){ .world_size = 2, .insecure = true }, look,
                                    (vars){ "MASTER_ADDR", "a", "MASTER_PORT", "5" }, &job),
                     RF_OK);
    assert_string_equal(job.master_address, "a");
    assert_false(job.network_only);
}

TEST(test_own_refused)
{
#define OWN "RINGFIRE_RANK", "0", "RINGFIRE_WORLD_SIZE", "2", INSECURE
#define OWN_MASTER OWN, "RINGFIRE_MASTER", "h:1"
    static const struct {
        vars env;
        const char *texts;
    } cases[] = {
        { { "RINGFIRE_RANK", "0" }, "RINGFIRE_RANK|RINGFIRE_WORLD_SIZE|both" },
        { { "RINGFIRE_WORLD_SIZE", "2" }, "RINGFIRE_WORLD_SIZE|RINGFIRE_RANK is not" },
        { { OWN }, "RINGFIRE_MASTER|host:port" },
        { { "RINGFIRE_RANK", "2", "RINGFIRE_WORLD_SIZE", "2" }, "RINGFIRE_RANK is 2|0 to 1" },
        { { "RINGFIRE_RANK", "-1", "RINGFIRE_WORLD_SIZE", "2" }, "RINGFIRE_RANK is '-1'" },
        { { "RINGFIRE_RANK", "+1", "RINGFIRE_WORLD_SIZE", "2" }, "RINGFIRE_RANK is '+1'" },
        { { "RINGFIRE_RANK", " 1", "RINGFIRE_WORLD_SIZE", "2" }, "RINGFIRE_RANK is ' 1'" },
        { { "RINGFIRE_RANK", "1x", "RINGFIRE_WORLD_SIZE", "2" }, "RINGFIRE_RANK is '1x'" },
        { { "RINGFIRE_RANK", "1", "RINGFIRE_WORLD_SIZE", "two" }, "RINGFIRE_WORLD_SIZE is 'two'" },
        { { "RINGFIRE_RANK", "1", "RINGFIRE_WORLD_SIZE", "0" }, "RINGFIRE_WORLD_SIZE is 0" },
        { { "RINGFIRE_RANK", "1", "RINGFIRE_WORLD_SIZE", "1025" }, "RINGFIRE_WORLD_SIZE is 1025|1024" },
        { { "RINGFIRE_RANK", "99999999999999999999999", "RINGFIRE_WORLD_SIZE", "1" }, "RINGFIRE_RANK|number" },
        { { OWN, "RINGFIRE_MASTER", "h" }, "RINGFIRE_MASTER|'h' has no port|host:port" },
        { { OWN, "RINGFIRE_MASTER", ":1" }, "RINGFIRE_MASTER|empty" },
        { { OWN, "RINGFIRE_MASTER", "h:0" }, "RINGFIRE_MASTER|port|1 to 65535" },
        { { OWN, "RINGFIRE_MASTER", "h:65536" }, "RINGFIRE_MASTER|port" },
        { { OWN, "RINGFIRE_MASTER", "h:" }, "RINGFIRE_MASTER|port" },
        { { OWN, "RINGFIRE_MASTER", "h:1 " }, "RINGFIRE_MASTER|port" },
        { { OWN, "RINGFIRE_MASTER", "::1:4000" }, "RINGFIRE_MASTER|[address]:port" },
        { { OWN, "RINGFIRE_MASTER", "[::1:4000" }, "RINGFIRE_MASTER|[address]:port" },
        { { OWN, "RINGFIRE_MASTER", "[]:4000" }, "RINGFIRE_MASTER" },
        { { OWN, "RINGFIRE_MASTER", "a b:4000" }, "RINGFIRE_MASTER|a b" },
        { { OWN_MASTER, "RINGFIRE_LOCAL_RANK", "0" }, "RINGFIRE_LOCAL_SIZE is not" },
        { { OWN_MASTER, "RINGFIRE_LOCAL_SIZE", "1" }, "RINGFIRE_LOCAL_RANK is not" },
        { { OWN_MASTER, "RINGFIRE_LOCAL_SIZE", "1", "RINGFIRE_LOCAL_RANK", "1" }, "RINGFIRE_LOCAL_RANK is 1" },
        { { OWN_MASTER, "RINGFIRE_LOCAL_SIZE", "3", "RINGFIRE_LOCAL_RANK", "1" }, "RINGFIRE_LOCAL_SIZE is 3" },
        { { "RINGFIRE_LOCAL_SIZE", "3", "RINGFIRE_LOCAL_RANK", "1" }, "RINGFIRE_RANK is not" },
        { { OWN_MASTER, "RINGFIRE_INSECURE", "yes", "RINGFIRE_EPOCH", "x" }, "RINGFIRE_EPOCH is 'x'" },
        { { OWN_MASTER, "RINGFIRE_ENCRYPT", "1" }, "encryption|RINGFIRE_INSECURE" },
        { { OWN_MASTER, "RINGFIRE_ENCRYPT", "on" }, "RINGFIRE_ENCRYPT is 'on'|0 or 1" },
        { { OWN_MASTER, "RINGFIRE_KEY_FILE", "/k" }, "RINGFIRE_KEY_FILE|RINGFIRE_INSECURE" },
        { { "RINGFIRE_RANK", "0", "RINGFIRE_WORLD_SIZE", "2", "RINGFIRE_MASTER", "h:1", "RINGFIRE_INSECURE", "true" },
          "RINGFIRE_INSECURE is 'true'|0 or 1" },
        { { OWN_MASTER, "RINGFIRE_PEER_TIMEOUT", "0" }, "RINGFIRE_PEER_TIMEOUT|seconds" },
        { { OWN_MASTER, "RINGFIRE_PEER_TIMEOUT", "-1" }, "RINGFIRE_PEER_TIMEOUT is '-1'" },
        { { OWN_MASTER, "RINGFIRE_PEER_TIMEOUT", "nan" }, "RINGFIRE_PEER_TIMEOUT is 'nan'" },
        { { OWN_MASTER, "RINGFIRE_PEER_TIMEOUT", "inf" }, "RINGFIRE_PEER_TIMEOUT is 'inf'" },
        { { OWN_MASTER, "RINGFIRE_PEER_TIMEOUT", "1e30" }, "RINGFIRE_PEER_TIMEOUT is 1e+30" },
        { { OWN_MASTER, "RINGFIRE_BOOTSTRAP_TIMEOUT", "5s" }, "RINGFIRE_BOOTSTRAP_TIMEOUT is '5s'" },
        { { OWN_MASTER, "RINGFIRE_HEARTBEAT", "6" }, "heartbeat every 6 s|peer timeout of 10 s|three" },
        { { OWN_MASTER, "RINGFIRE_HEARTBEAT", "4" }, "heartbeat every 4 s|peer timeout of 10 s|three" },
        { { OWN_MASTER, "RINGFIRE_OPERATION_TIMEOUT", "x" }, "RINGFIRE_OPERATION_TIMEOUT" },
        { { OWN_MASTER, "RINGFIRE_JOB", "0123456789012345678901234567890123456789012345678901234567890123" },
          "RINGFIRE_JOB|63" },
        { { OWN_MASTER, "RINGFIRE_JOB", "a\nb" }, "RINGFIRE_JOB|control" },
        { { OWN_MASTER, "RINGFIRE_BIND", "10.0.0.1/24" }, "RINGFIRE_BIND|10.0.0.1/24" },
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        vars env;
        memcpy(env, cases[i].env, sizeof(env));
        assert_refused(NULL, env, cases[i].texts);
    }
    vars none = { 0 };
    assert_refused(&(rf_comm_params){ .world_size = 2, .insecure = true }, none, "world_size is 2|master_address");
    assert_refused(&(rf_comm_params){ .world_size = 2, .rank = 2 }, none, "rank is 2|0 to 1");
    assert_refused(&(rf_comm_params){ .world_size = 5000 }, none, "world_size is 5000|1024");
    assert_refused(&(rf_comm_params){ .world_size = 2, .master_address = "h" }, none, "master_port is 0");
    assert_refused(&(rf_comm_params){ .master_port = 7 }, none, "master_port is 7|master_address");
    assert_refused(&(rf_comm_params){ .peer_timeout = -1 }, none, "peer_timeout is -1");
    assert_refused(&(rf_comm_params){ .operation_timeout = 1e300 }, none, "operation_timeout");
    assert_refused(
        &(rf_comm_params){
            .world_size = 2, .master_address = "h", .master_port = 1, .insecure = true, .key_file = "/k" },
        none, "key_file|insecure");
    assert_refused(
        &(rf_comm_params){
            .world_size = 2, .master_address = "h", .master_port = 1, .insecure = true, .encrypt = true },
        none, "encryption|insecure");
}

TEST(test_torchrun)
{
    rf_job job;
    vars env = { INSECURE, "RANK",
                 "3",      "WORLD_SIZE",
                 "4",      "LOCAL_RANK",
                 "1",      "LOCAL_WORLD_SIZE",
                 "2",      "MASTER_ADDR",
                 "node-0", "MASTER_PORT",
                 "29500",  "TORCHELASTIC_RESTART_COUNT",
                 "2" };
    assert_int_equal(resolve(env, &job), RF_OK);
    assert_int_equal(job.rank, 3);
    assert_int_equal(job.world_size, 4);
    assert_int_equal(job.local_rank, 1);
    assert_int_equal(job.local_size, 2);
    assert_string_equal(job.master_address, "node-0");
    assert_int_equal(job.master_port, 29500);
    assert_true(job.epoch == 2);
    assert_non_null(strstr(job.launcher, "torchrun"));
    /* torchrun's own store sits on MASTER_PORT. */
    assert_int_equal(resolve((vars){ INSECURE, "RANK", "0", "WORLD_SIZE", "2", "MASTER_ADDR", "h", "MASTER_PORT",
                                     "65535", "TORCHELASTIC_USE_AGENT_STORE", "True" },
                             &job),
                     RF_OK);
    assert_int_equal(job.master_port, 65534);
    assert_int_equal(resolve((vars){ INSECURE, "RANK", "0", "WORLD_SIZE", "2", "MASTER_ADDR", "h", "MASTER_PORT", "7",
                                     "TORCHELASTIC_USE_AGENT_STORE", "False", "RINGFIRE_EPOCH", "9" },
                             &job),
                     RF_OK);
    assert_int_equal(job.master_port, 7);
    assert_true(job.epoch == 9);
    /* RINGFIRE_MASTER goes before. */
    assert_int_equal(resolve((vars){ INSECURE, "RANK", "0", "WORLD_SIZE", "2", "RINGFIRE_MASTER", "m:77" }, &job),
                     RF_OK);
    assert_string_equal(job.master_address, "m");
    assert_int_equal(job.master_port, 77);
    static const struct {
        vars env;
        const char *texts;
    } cases[] = {
        { { "RANK", "0" }, "RANK is set but WORLD_SIZE is not" },
        { { "WORLD_SIZE", "2" }, "WORLD_SIZE is 2|RANK is not" },
        { { "RANK", "4", "WORLD_SIZE", "4" }, "RANK is 4|0 to 3" },
        { { "RANK", "1", "WORLD_SIZE", "4" }, "MASTER_ADDR is not set" },
        { { "RANK", "1", "WORLD_SIZE", "4", "MASTER_ADDR", "h" }, "MASTER_PORT is not set|of h" },
        { { "RANK", "1", "WORLD_SIZE", "4", "MASTER_ADDR", "h", "MASTER_PORT", "0" }, "MASTER_PORT is 0" },
        { { "RANK", "1", "WORLD_SIZE", "4", "MASTER_ADDR", "h", "MASTER_PORT", "70000" },
          "MASTER_PORT is '70000'|65535" },
        { { "RANK", "1", "WORLD_SIZE", "4", "MASTER_ADDR", "h h", "MASTER_PORT", "7" }, "MASTER_ADDR|h h" },
        { { "RANK", "1", "WORLD_SIZE", "4", "LOCAL_RANK", "2", "LOCAL_WORLD_SIZE", "2" }, "LOCAL_RANK is 2" },
        { { "RANK", "1", "WORLD_SIZE", "2", "TORCHELASTIC_RESTART_COUNT", "?" }, "TORCHELASTIC_RESTART_COUNT is '?'" },
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        vars copy;
        memcpy(copy, cases[i].env, sizeof(copy));
        assert_refused(NULL, copy, cases[i].texts);
    }
}

#define SEED                                                                                                           \
    "{\"cluster\": {\"worker\": [\"10.10.10.1:12345\", \"10.10.10.2:12345\"]}, \"task\": {\"type\": \"worker\", "      \
    "\"index\": "

TEST(test_tf_config)
{
    rf_job job;
    for (uint32_t i = 0; i < 2; i++) {
        assert_int_equal(resolve((vars){ INSECURE, "TF_CONFIG", i ? SEED "1}}" : SEED "0}}" }, &job), RF_OK);
        assert_int_equal(job.rank, i);
        assert_int_equal(job.world_size, 2);
        assert_string_equal(job.master_address, "10.10.10.1");
        assert_int_equal(job.master_port, 12345);
        assert_string_equal(job.launcher, "TF_CONFIG");
    }
#define CHIEF "{\"cluster\": {\"worker\": [\"a:1\", \"b:1\"], \"ps\": [\"p:1\"], \"chief\": [\"c:2\"]}, \"task\": "
    vars worker = { INSECURE, "TF_CONFIG", CHIEF "{\"type\": \"worker\", \"index\": 1}, \"environment\": \"cloud\"}" };
    assert_int_equal(resolve(worker, &job), RF_OK);
    assert_int_equal(job.rank, 2);
    assert_int_equal(job.world_size, 3);
    assert_string_equal(job.master_address, "c");
    assert_int_equal(job.master_port, 2);
    vars chief = { INSECURE, "TF_CONFIG", CHIEF "{\"type\": \"chief\", \"index\": 0}}" };
    assert_int_equal(resolve(chief, &job), RF_OK);
    assert_int_equal(job.rank, 0);
    static const struct {
        const char *text, *texts;
    } cases[] = {
        { SEED "2}}", "task.index is 2|2 entries" },
        { SEED "-1}}", "task.index is -1" },
        { SEED "0.5}}", "task.index" },
        { SEED "\"0\"}}", "task.index|integer" },
        { SEED "99999999999999999999}}", "TF_CONFIG is not JSON|integer" },
        { SEED "0}", "TF_CONFIG is not JSON: line 1, column" },
        { SEED "0}} x", "TF_CONFIG is not JSON|column" },
        { "{\n \"cluster\": [,]}", "line 2, column" },
        { "[]", "not a JSON object" },
        { "7", "TF_CONFIG" },
        { "{\"cluster\": []}", "cluster is not an object" },
        { "{\"cluster\": {\"worker\": \"a:1\"}}", "cluster.worker is not a list" },
        { "{\"cluster\": {\"worker\": [1]}}", "cluster.worker[0] is not a string" },
        { "{\"cluster\": {\"worker\": [\"a:1\", \"b\"]}}", "cluster.worker[1]|'b' has no port" },
        { "{\"cluster\": {\"worker\": [\"a:99999\"]}}", "cluster.worker[0]|port" },
        { "{\"cluster\": {\"worker\": [\"a:1\", \"a:1\"]}}", "cluster.worker[0] and cluster.worker[1] are both a:1" },
        { "{\"cluster\": {\"worker\": [\"a:1\"], \"ps\": [\"a:1\"]}}", "cluster.worker[0] and cluster.ps[0]" },
        { "{\"cluster\": {\"chief\": [\"a:1\", \"b:1\"]}}", "cluster.chief has 2" },
        { "{\"cluster\": {\"chief\": [\"a:1\"], \"master\": [\"b:1\"]}}", "master|chief" },
        { "{\"cluster\": {\"chief\": [\"a:1\"], \"chief\": [\"b:1\"]}}", "TF_CONFIG|duplicate" },
        { "{\"cluster\": {\"wroker\": [\"a:1\"]}}", "'wroker'|worker, ps" },
        { "{\"cluster\": {\"worker\": [\"a:1\"]}}", "no task" },
        { "{\"cluster\": {\"worker\": [\"a:1\"]}, \"task\": {}}", "task.type" },
        { "{\"cluster\": {\"worker\": [\"a:1\"]}, \"task\": {\"type\": \"boss\"}}", "task.type 'boss'" },
        { "{\"cluster\": {\"worker\": [\"a:1\"]}, \"task\": {\"type\": \"worker\"}}", "task.index is missing" },
        { "{\"cluster\": {\"worker\": [\"a:1\"]}, \"task\": {\"type\": \"ps\", \"index\": 0}}", "ps|lists none" },
        { "{\"cluster\": {\"worker\": [\"a:1\"]}, \"task\": {\"type\": \"worker\", \"index\": 1}}",
          "index is 1|1 entry" },
        { CHIEF "{\"type\": \"ps\", \"index\": 0}}", "ps 0|no part" },
        { CHIEF "{\"type\": \"evaluator\", \"index\": 0}}", "evaluator 0|no part" },
        { CHIEF "{\"type\": \"evaluator\", \"index\": 1}}", "index is 1" },
        { "{\"task\": {\"type\": \"worker\", \"index\": 0}}", "a task but no \"cluster\"|unset TF_CONFIG" },
        { "{\"Cluster\": {\"worker\": [\"a:1\"]}, \"task\": {\"type\": \"worker\", \"index\": 0}}", "'Cluster'|small" },
        { "{\"CLUSTER\": {\"worker\": [\"a:1\"]}}", "'CLUSTER'|small" },
        { "{\"cluster\": {\"worker\": [\"a:1\"]}, \"Task\": {\"type\": \"worker\", \"index\": 0}}", "no task" },
        { "{\"cluster\": {}, \"task\": {\"type\": \"worker\", \"index\": 1}}", "index is 1|lists none" },
        { "{\"cluster\": {\"worker\": []}, \"task\": {\"type\": \"worker\", \"index\": 1}}", "index is 1|lists none" },
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        assert_refused(NULL, (vars){ INSECURE, "TF_CONFIG", cases[i].text }, cases[i].texts);
    /* Deep nesting and length are bounded. */
    char *text = malloc(RF_TF_CONFIG_BYTES + 2);
    memset(text, '[', RF_TF_CONFIG_BYTES + 1);
    text[RF_TF_CONFIG_BYTES + 1] = '\0';
    assert_refused(NULL, (vars){ INSECURE, "TF_CONFIG", text }, "bytes, more than");
    text[100000] = '\0';
    assert_refused(NULL, (vars){ INSECURE, "TF_CONFIG", text }, "not JSON|depth");
    free(text);
}

TEST(test_cluster)
{
    rf_cluster c;
    vars env = { INSECURE, "TF_CONFIG", CHIEF "{\"type\": \"ps\", \"index\": 0}}", "RINGFIRE_JOB", "ps job" };
    assert_int_equal(rf_cluster_resolve(look, env, &c), RF_OK);
    assert_int_equal(c.type, RF_TASK_PS);
    assert_int_equal(c.index, 0);
    assert_int_equal(c.count[RF_TASK_WORKER], 2);
    assert_string_equal(c.tasks[RF_TASK_WORKER][1].host, "b");
    assert_string_equal(c.tasks[RF_TASK_PS][0].host, "p");
    assert_int_equal(c.tasks[RF_TASK_CHIEF][0].port, 2);
    assert_int_equal(rf_cluster_size(&c), 4);
    assert_int_equal(rf_cluster_rank(&c, RF_TASK_WORKER, 1), 2);
    rf_job job;
    assert_int_equal(rf_cluster_job(NULL, look, env, &c, &job), RF_OK);
    assert_int_equal(job.rank, 3);
    assert_int_equal(job.world_size, 4);
    assert_string_equal(job.master_address, "c");
    assert_memory_equal(job.name, "ps job.TF_CONFIG-", 17);
    rf_cluster_free(&c);
    assert_null(c.tasks[RF_TASK_WORKER]);
    assert_int_equal(rf_cluster_resolve(look, (vars){ 0 }, &c), RF_ERROR_NOT_FOUND);
    assert_int_equal(rf_cluster_resolve(look, (vars){ "TF_CONFIG", "{}" }, &c), RF_ERROR_NOT_FOUND);
    const char text[] = "{\"cluster\": {\"worker\": [\"[::1]:1\"]}, \"task\": {\"type\": \"evaluator\", \"index\": 0}}";
    assert_int_equal(rf_cluster_parse(text, sizeof(text) - 1, &c), RF_OK);
    assert_int_equal(rf_cluster_size(&c), 2);
    assert_string_equal(c.tasks[RF_TASK_WORKER][0].host, "::1");
    rf_cluster_free(&c);
}

TEST(test_open_mpi)
{
    rf_job job, again;
#define OMPI(rank, size, local, local_size)                                                                            \
    INSECURE, "OMPI_COMM_WORLD_RANK", rank, "OMPI_COMM_WORLD_SIZE", size, "OMPI_COMM_WORLD_LOCAL_RANK", local,         \
        "OMPI_COMM_WORLD_LOCAL_SIZE", local_size
    assert_int_equal(resolve((vars){ OMPI("1", "2", "1", "2"), "PMIX_NAMESPACE", "545128449" }, &job), RF_OK);
    assert_int_equal(job.rank, 1);
    assert_int_equal(job.local_rank, 1);
    assert_string_equal(job.master_address, "127.0.0.1");
    assert_in_range(job.master_port, 20000, 32767);
    assert_int_equal(resolve((vars){ OMPI("0", "2", "0", "2"), "PMIX_NAMESPACE", "545128449" }, &again), RF_OK);
    assert_int_equal(again.master_port, job.master_port);
    assert_int_equal(resolve((vars){ OMPI("0", "2", "0", "2"), "PMIX_NAMESPACE", "545128450" }, &again), RF_OK);
    assert_int_not_equal(again.master_port, job.master_port);
    /* Several hosts: mpirun's contact, else what PMIx's says; loopback is of no use. */
    assert_int_equal(resolve((vars){ OMPI("3", "4", "1", "2"), "OMPI_MCA_orte_hnp_uri",
                                     "542113792.0;tcp://192.0.2.2:42291;tcp6://[fd00::2]:49371" },
                             &job),
                     RF_OK);
    assert_string_equal(job.master_address, "192.0.2.2");
    assert_int_equal(resolve((vars){ OMPI("3", "4", "1", "2"), "PMIX_NAMESPACE", "x", "PMIX_SERVER_URI3",
                                     "x.0;tcp4://127.0.0.1:1", "PMIX_SERVER_URI41", "x.0;tcp6://[fd00::7]:49371" },
                             &job),
                     RF_OK);
    assert_string_equal(job.master_address, "fd00::7");
    assert_int_equal(
        resolve((vars){ OMPI("3", "4", "1", "2"), "MASTER_ADDR", "m", "MASTER_PORT", "5", "WORLD_SIZE", "4" }, &job),
        RF_OK);
    assert_string_equal(job.master_address, "m");
    assert_int_equal(resolve((vars){ OMPI("0", "1", "0", "1") }, &job), RF_OK);
    assert_refused(NULL, (vars){ OMPI("3", "4", "1", "2"), "PMIX_NAMESPACE", "x" }, "RINGFIRE_MASTER|rank 0");
    assert_refused(NULL, (vars){ OMPI("3", "4", "1", "2") }, "RINGFIRE_MASTER|OMPI_COMM_WORLD_SIZE is 4");
    assert_refused(NULL, (vars){ OMPI("4", "4", "1", "2") }, "OMPI_COMM_WORLD_RANK is 4");
    assert_refused(NULL, (vars){ OMPI("3", "4", "2", "2") }, "OMPI_COMM_WORLD_LOCAL_RANK is 2");
    assert_refused(NULL, (vars){ "OMPI_COMM_WORLD_RANK", "0" }, "OMPI_COMM_WORLD_SIZE is not");
    char host[RF_JOB_TEXT];
    assert_false(rf_job_contact_host("", host));
    assert_false(rf_job_contact_host("x;tcp://", host));
    assert_true(rf_job_contact_host("x;tcp://10.0.0.1,10.1.0.1:77", host));
    assert_string_equal(host, "10.0.0.1");
}

TEST(test_slurm)
{
    rf_job job;
    vars env = { INSECURE,
                 "SLURM_PROCID",
                 "5",
                 "SLURM_STEP_NUM_TASKS",
                 "6",
                 "SLURM_NTASKS",
                 "99",
                 "SLURM_LOCALID",
                 "1",
                 "SLURM_NODEID",
                 "2",
                 "SLURM_STEP_TASKS_PER_NODE",
                 "2(x3)",
                 "SLURM_STEP_NODELIST",
                 "gpu[003-005]",
                 "SLURM_JOB_ID",
                 "4711",
                 "SLURM_STEP_ID",
                 "0",
                 "SLURM_RESTART_COUNT",
                 "1" };
    assert_int_equal(resolve(env, &job), RF_OK);
    assert_int_equal(job.rank, 5);
    assert_int_equal(job.world_size, 6);
    assert_int_equal(job.local_rank, 1);
    assert_int_equal(job.local_size, 2);
    assert_string_equal(job.master_address, "gpu003");
    assert_in_range(job.master_port, 20000, 32767);
    assert_true(job.epoch == 1);
    const uint16_t port = job.master_port;
    assert_int_equal(resolve((vars){ INSECURE, "SLURM_PROCID", "0", "SLURM_STEP_ID", "1", "SLURM_NTASKS", "2",
                                     "SLURM_JOBID", "4711", "SLURM_NODELIST", "a,b" },
                             &job),
                     RF_OK);
    assert_string_equal(job.master_address, "a");
    assert_int_not_equal(job.master_port, port);
    /* A batch script, to which newer versions give the number that stands for one. */
    assert_int_equal(
        resolve((vars){ INSECURE, "SLURM_PROCID", "0", "SLURM_STEP_ID", "4294967291", "SLURM_STEP_NUM_TASKS", "2",
                        "SLURM_NTASKS", "2", "SLURM_JOBID", "4711", "SLURM_NODELIST", "a,b" },
                &job),
        RF_OK);
    assert_int_equal(job.world_size, 1);
    /* One host: no names are needed. */
    assert_int_equal(resolve((vars){ INSECURE, "SLURM_PROCID", "0", "SLURM_STEP_NUM_TASKS", "2", "SLURM_JOB_ID", "1",
                                     "SLURM_NODEID", "0", "SLURM_LOCALID", "0", "SLURM_TASKS_PER_NODE", "2" },
                             &job),
                     RF_OK);
    assert_string_equal(job.master_address, "127.0.0.1");
#define STEP INSECURE, "SLURM_PROCID", "1", "SLURM_STEP_NUM_TASKS", "2"
    assert_refused(NULL, (vars){ STEP }, "SLURM_JOB_ID is not|RINGFIRE_MASTER");
    assert_refused(NULL, (vars){ STEP, "SLURM_JOB_ID", "1" }, "SLURM_STEP_NODELIST is not|RINGFIRE_MASTER");
    assert_refused(NULL, (vars){ STEP, "SLURM_JOB_ID", "1", "SLURM_STEP_NODELIST", "a[" },
                   "SLURM_STEP_NODELIST|brackets");
    assert_refused(NULL, (vars){ STEP, "SLURM_JOB_ID", "1", "SLURM_STEP_NODELIST", ",b" }, "SLURM_STEP_NODELIST|empty");
    assert_refused(NULL, (vars){ INSECURE, "SLURM_PROCID", "2", "SLURM_STEP_NUM_TASKS", "2" }, "SLURM_PROCID is 2");
    assert_refused(NULL, (vars){ INSECURE, "SLURM_PROCID", "2", "SLURM_STEP_ID", "2" }, "SLURM_NTASKS is not");
    assert_refused(NULL, (vars){ STEP, "SLURM_LOCALID", "2", "SLURM_NODEID", "0", "SLURM_TASKS_PER_NODE", "2" },
                   "SLURM_LOCALID is 2");
}

TEST(test_slurm_lists)
{
    static const struct {
        const char *list, *host;
    } good[] = {
        { "node1", "node1" },       { "node1,node2", "node1" },
        { "node[1-3]", "node1" },   { "node[003-010,12]", "node003" },
        { "node[7,9]x", "node7x" }, { "rack[1-2]-node[04-05],z", "rack1-node04" },
        { "a.b-c[10]", "a.b-c10" },
    };
    char host[RF_JOB_TEXT];
    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
        assert_int_equal(rf_job_first_host("LIST", good[i].list, host), RF_OK);
        assert_string_equal(host, good[i].host);
    }
    static const char *const bad[] = { "", ",", "a[", "a[1", "a[]", "a[-3]", "a b", "[" };
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) assert_true(rf_job_first_host("LIST", bad[i], host) < 0);
    char longest[600];
    memset(longest, 'a', sizeof(longest) - 1);
    longest[sizeof(longest) - 1] = '\0';
    assert_true(rf_job_first_host("LIST", longest, host) < 0);
    assert_int_equal(rf_job_tasks_on_node("2(x3),1", 0), 2);
    assert_int_equal(rf_job_tasks_on_node("2(x3),1", 2), 2);
    assert_int_equal(rf_job_tasks_on_node("2(x3),1", 3), 1);
    assert_int_equal(rf_job_tasks_on_node("2(x3),1", 4), 0);
    assert_int_equal(rf_job_tasks_on_node("4", 0), 4);
    static const char *const odd[] = { "", "x", "2(", "2(x", "2(x3", "2(x)", "2x", "99999999999999999999999", "," };
    for (size_t i = 0; i < sizeof(odd) / sizeof(odd[0]); i++) assert_int_equal(rf_job_tasks_on_node(odd[i], 5), 0);
}

TEST(test_pmix_unasked)
{
    rf_job job; /* a lookup of its own is not the process's environment: no server is asked */
    assert_int_equal(resolve((vars){ "PMIX_RANK", "0", "PMIX_NAMESPACE", "x" }, &job), RF_OK);
    assert_int_equal(job.world_size, 1);
}

TEST(test_order)
{
    rf_job job;
    vars env = { INSECURE, "MASTER_ADDR",          "t", "MASTER_PORT",        "1",        "RANK",
                 "0",      "WORLD_SIZE",           "2", "TF_CONFIG",          SEED "1}}", "OMPI_COMM_WORLD_RANK",
                 "2",      "OMPI_COMM_WORLD_SIZE", "3", "SLURM_PROCID",       "3",        "SLURM_STEP_NUM_TASKS",
                 "4",      "SLURM_JOB_ID",         "1", "SLURM_JOB_NODELIST", "s" };
    assert_int_equal(resolve(env, &job), RF_OK);
    assert_int_equal(job.world_size, 2);
    assert_int_equal(job.rank, 0);
    env[6] = "x";
    env[8] = "x";
    assert_int_equal(resolve(env, &job), RF_OK);
    assert_string_equal(job.launcher, "TF_CONFIG");
    env[10] = "x";
    assert_int_equal(resolve(env, &job), RF_OK);
    assert_int_equal(job.world_size, 3);
    env[12] = "x";
    assert_int_equal(resolve(env, &job), RF_OK);
    assert_int_equal(job.world_size, 4);
    assert_string_equal(job.master_address, "t");
    env[2] = "x";
    assert_int_equal(resolve(env, &job), RF_OK);
    assert_string_equal(job.master_address, "s");
}

/* The name of a job has in it what its launcher calls this start, so that two starts on one port do not mix. */
TEST(test_runs)
{
#define RANKS(run)                                                                                                     \
    INSECURE, "RANK", "0", "WORLD_SIZE", "2", "MASTER_ADDR", "h", "MASTER_PORT", "1", "TORCHELASTIC_RUN_ID", run
#define STARTED(run)                                                                                                   \
    INSECURE, "RINGFIRE_RANK", "0", "RINGFIRE_WORLD_SIZE", "2", "RINGFIRE_MASTER", "h:1", "RINGFIRE_RUN_ID", run
#define TASKS(step) INSECURE, "SLURM_PROCID", "0", "SLURM_NTASKS", "2", "SLURM_NODELIST", "a,b", "SLURM_STEP_ID", step
#define MPI(name) OMPI("0", "2", "0", "2"), "PMIX_NAMESPACE", name
#define CLUSTER(list, index) "{\"cluster\":{\"worker\":" list "},\"task\":{\"type\":\"worker\",\"index\":" index "}}"
#define TWO_WORKERS "[\"a:1\",\"b:2\"]"
    static const struct {
        vars one, same, other;
        const char *launcher;
    } cases[] = {
        { { RANKS("7") }, { RANKS("7") }, { RANKS("8") }, ".torchrun-" },
        { { STARTED("7") }, { STARTED("7") }, { STARTED("8") }, ".run-" },
        { { TASKS("0"), "SLURM_JOB_ID", "5" },
          { TASKS("0"), "SLURM_JOBID", "5" },
          { TASKS("1"), "SLURM_JOB_ID", "5" },
          ".Slurm-" },
        { { TASKS("0"), "SLURM_JOB_ID", "5" },
          { TASKS("0"), "SLURM_JOB_ID", "6", "SLURM_HET_JOB_ID", "5" },
          { TASKS("0"), "SLURM_JOB_ID", "6" },
          ".Slurm-" },
        { { MPI("x@1") }, { MPI("x@1") }, { MPI("x@2") }, ".mpirun-" },
        { { INSECURE, "TF_CONFIG", CLUSTER(TWO_WORKERS, "0") },
          { INSECURE, "TF_CONFIG",
            "{\"task\": {\"index\": 1, \"type\": \"worker\"},\n \"cluster\": {\"worker\": [\"a:1\", \"b:2\"]}}" },
          { INSECURE, "TF_CONFIG", CLUSTER("[\"a:1\",\"b:3\"]", "0") },
          ".TF_CONFIG-" },
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        rf_job one, same, other;
        vars env[3];
        memcpy(env[0], cases[i].one, sizeof(env[0]));
        memcpy(env[1], cases[i].same, sizeof(env[1]));
        memcpy(env[2], cases[i].other, sizeof(env[2]));
        if (resolve(env[0], &one) < 0 || resolve(env[1], &same) < 0 || resolve(env[2], &other) < 0)
            fail_msg("case %zu: %s", i, rf_error_message());
        assert_memory_equal(one.name, "default.", 8);
        assert_non_null(strstr(one.name, cases[i].launcher));
        assert_string_equal(one.name, same.name);
        assert_string_not_equal(one.name, other.name);
    }
    /* Long names differ in their hashes, and an unnamed run changes nothing. */
    rf_job a = { .name = "0123456789012345678901234567890123456789012345678901234567890a" },
           b = { .name = "0123456789012345678901234567890123456789012345678901234567890b" };
    rf_job_name_run(&a, "TF_CONFIG", "run");
    rf_job_name_run(&b, "TF_CONFIG", "run");
    assert_string_not_equal(a.name, b.name);
    assert_true(strlen(a.name) <= 46);
    char before[64];
    memcpy(before, a.name, sizeof(before));
    rf_job_name_run(&a, "PMIx", NULL);
    assert_string_equal(a.name, before);
}

static void write_text(const char *path, const char *text, mode_t mode)
{
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fputs(text, f);
    fclose(f);
    assert_int_equal(chmod(path, mode), 0);
}

TEST(test_key)
{
    char folder[SCRATCH_PATH], path[128], config[64];
    scratch(folder);
    snprintf(path, sizeof(path), "%s/key", folder);
    snprintf(config, sizeof(config), "%s/.config", folder);
    rf_job job, other;
#define TWO "RANK", "0", "WORLD_SIZE", "2", "MASTER_ADDR", "h", "MASTER_PORT", "1"
    assert_refused(NULL, (vars){ TWO }, "job key|ringfire run|ringfire keygen|RINGFIRE_INSECURE=1");
    assert_refused(NULL, (vars){ TWO, "HOME", folder }, "job key|ringfire keygen");
    assert_refused(NULL, (vars){ TWO, "RINGFIRE_KEY_FILE", path }, path);
    assert_int_equal(rf_key_file_create(path), RF_OK);
    struct stat info;
    assert_int_equal(stat(path, &info), 0);
    assert_int_equal(info.st_mode & 0777, 0600);
    assert_true(rf_key_file_create(path) < 0);
    assert_int_equal(resolve((vars){ TWO, "RINGFIRE_KEY_FILE", path, "RINGFIRE_ENCRYPT", "1" }, &job), RF_OK);
    assert_true(job.secure && job.encrypt);
    const rf_comm_params params = { .key_file = path };
    assert_int_equal(rf_job_resolve(&params, look, (vars){ TWO, "RINGFIRE_KEY_FILE", "/nowhere" }, &other), RF_OK);
    assert_memory_equal(job.key, other.key, sizeof(job.key));
    rf_job_forget(&job);
    const uint8_t zeros[RF_JOB_KEY_BYTES] = { 0 };
    assert_memory_equal(job.key, zeros, sizeof(zeros));
    assert_false(job.secure);
    chmod(path, 0640);
    assert_refused(NULL, (vars){ TWO, "RINGFIRE_KEY_FILE", path }, "chmod 600|640");
    write_text(path, "abc\n", 0600);
    assert_refused(NULL, (vars){ TWO, "RINGFIRE_KEY_FILE", path }, "64|keygen");
    unlink(path);
    /* The default place, made by rf_key_file_create(NULL). */
    setenv("HOME", folder, 1);
    unsetenv("XDG_CONFIG_HOME");
    assert_int_equal(rf_key_file_create(NULL), RF_OK);
    assert_int_equal(rf_key_file_default(path, sizeof(path)), RF_OK);
    assert_non_null(strstr(path, "/.config/ringfire/job.key"));
    assert_int_equal(resolve((vars){ TWO, "HOME", folder }, &job), RF_OK);
    assert_true(job.secure);
    assert_int_equal(resolve((vars){ TWO, "HOME", "/nowhere", "XDG_CONFIG_HOME", config }, &other), RF_OK);
    assert_memory_equal(job.key, other.key, sizeof(job.key));
    assert_int_equal(resolve((vars){ TWO, "HOME", folder, INSECURE }, &job), RF_OK); /* only a named key contradicts */
    assert_false(job.secure);
    assert_true(rf_key_file_default(path, 10) < 0);
    unsetenv("HOME");
    assert_true(rf_key_file_create(NULL) < 0);
    assert_non_null(strstr(rf_error_message(), "HOME"));
    snprintf(path, sizeof(path), "%s/.config/ringfire/job.key", folder);
    assert_int_equal(unlink(path), 0);
    for (int i = 0; i < 3; i++) {
        *strrchr(path, '/') = '\0';
        assert_int_equal(rmdir(path), 0);
    }
}

TESTS(job, NULL, NULL)
