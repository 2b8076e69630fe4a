/* SPDX-License-Identifier: Apache-2.0 */
#include "server/worker.h"

#include <poll.h>
#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "base/platform.h"
#include "server/client.h"

#define LAST_WORDS_NS (1000 * 1000000ull) /* of the chief, after this worker has lost another task */

typedef struct worker {
    rf_job job;
    rf_cluster cluster;
    rf_hello hello;
    rf_ps_link *chief;
    rf_ps_heartbeat *heartbeat;
    rf_ps_client *client;
    rf_ps_plan plan;
    const rf_ps_variables *variables;
    double clip_norm;
    float *values, *changes;
    bool own_data, synchronous;
    rf_ps_work_fn work;
    void *user;
    bool told;  /* by the chief, how the job ended: */
    bool ended; /* in order */
} worker;

/* ---- what the chief says besides work ---- */

static rf_result not_work(worker *w, const rf_ps_message *m)
{
    w->told = true;
    if (m->type == RF_PS_END) {
        w->ended = true;
        return RF_FAIL(RF_ERROR_CANCELLED, "%s has ended the job", w->chief->name);
    }
    if (m->type == RF_PS_ABORT) return RF_FAIL(m->result, "%s", m->text);
    return RF_FAIL(RF_ERROR_CORRUPT_DATA, "%s sent a message of type %u out of turn", w->chief->name, m->type);
}

/* While a server is waited for. */
static rf_result watch_chief(void *user)
{
    worker *w = user;
    rf_ps_message m;
    const rf_result r = rf_ps_link_receive(w->chief, 0, &m);
    if (r == RF_ERROR_TIMEOUT) return RF_OK; /* a beat */
    RF_TRY(r);
    return not_work(w, &m);
}

/* A server that is lost, or has ended: the chief knows which. */
static rf_result ask_chief(worker *w, rf_result r)
{
    if (w->told || r != RF_ERROR_PEER_LOST) return r;
    rf_error_record own;
    rf_error_save(&own);
    const uint64_t begin = rf_now_ns();
    for (uint64_t passed = 0; passed < LAST_WORDS_NS; passed = rf_now_ns() - begin) {
        rf_ps_message m;
        const rf_result heard = rf_ps_link_receive(w->chief, LAST_WORDS_NS - passed, &m);
        if (heard == RF_ERROR_PEER_LOST) return heard; /* servers end when they have lost the chief */
        if (heard < 0) break;
        if (m.type == RF_PS_ABORT || m.type == RF_PS_END) return not_work(w, &m);
    }
    return rf_error_restore(&own);
}

/* ---- joining ---- */

static rf_result join_cluster(worker *w)
{
    RF_TRY(rf_ps_connect(&w->job, &w->cluster, RF_TASK_CHIEF, 0, &w->hello, w->job.bootstrap_timeout_ns, &w->chief));
    RF_TRY(rf_ps_heartbeat_start(w->chief, w->job.heartbeat_interval_ns, &w->heartbeat));
    rf_ps_message mine = {
        .type = RF_PS_JOIN, .count = w->variables->count, .hash = rf_ps_variables_hash(w->variables), .own = w->own_data
    };
    memcpy(&mine.limit, &w->clip_norm, sizeof(mine.limit));
    RF_TRY(rf_ps_link_send(w->chief, &mine));
    rf_ps_message m;
    /* The chief may still be waiting for servers, and is silent until then. */
    const rf_result r = rf_ps_link_receive(w->chief, w->job.bootstrap_timeout_ns, &m);
    if (r == RF_ERROR_TIMEOUT) return RF_FAIL(r, "%s did not accept this worker in time", w->chief->name);
    RF_TRY(r);
    if (m.type != RF_PS_WELCOME) return not_work(w, &m);
    w->synchronous = m.synchronous != 0;
    const rf_ps_variables *variables = w->variables;
    RF_TRY(rf_error_context(rf_ps_rules_check(m.payload, m.payload_size, variables->num_trained, variables->count),
                            "%s describes the variables wrongly", w->chief->name));
    RF_TRY(rf_ps_variables_plan(variables, m.payload, w->cluster.count[RF_TASK_PS], m.count, &w->plan));
    w->values = RF_NEW_ARRAY(float, w->plan.total);
    w->changes = RF_NEW_ARRAY(float, w->plan.total);
    if (!w->values || !w->changes) return RF_ERROR_OUT_OF_HOST_MEMORY;
    const rf_ps_client_params client = { .job = &w->job,
                                         .cluster = &w->cluster,
                                         .plan = &w->plan,
                                         .incarnation = w->hello.incarnation,
                                         .watch = watch_chief,
                                         .user = w,
                                         .watched = w->chief };
    return rf_ps_client_create(&client, &w->client);
}

/* ---- work ---- */

static rf_result report_failure(worker *w, uint64_t id, rf_result r)
{
    rf_ps_message m = { .type = RF_PS_FAILED, .id = id, .result = r };
    snprintf(m.text, sizeof(m.text), "%.900s", rf_error_message());
    return ask_chief(w, rf_ps_link_send(w->chief, &m));
}

/* Failures of the function go to the chief; what is returned ends this worker. */
static rf_result do_work(worker *w, const rf_ps_message *order)
{
    const rf_ps_work work = { .function = order->text,
                              .first = order->offset,
                              .count = order->examples,
                              .number = order->number,
                              .row = order->row,
                              .seed = order->seed,
                              .share = order->share,
                              .shares = order->shares,
                              .synchronous = w->synchronous };
    rf_ps_outcome outcome = { 0 };
    RF_TRY(ask_chief(w, rf_ps_client_pull(w->client, 0, w->values)));
    const rf_result r = w->work(w->user, &work, w->values, w->changes, &outcome);
    if (r < 0) return report_failure(w, order->id, r);
    rf_ps_message done = { .type = RF_PS_DONE,
                           .id = order->id,
                           .examples = outcome.examples,
                           .step = outcome.push,
                           .hash = outcome.hash,
                           .payload = outcome.results,
                           .payload_size = outcome.num_results * sizeof(float) };
    if (outcome.push)
        RF_TRY(ask_chief(
            w, rf_ps_client_push(w->client, w->changes, order->step, order->share, outcome.examples, &done.staleness)));
    return ask_chief(w, rf_ps_link_send(w->chief, &done));
}

static rf_result run_worker(worker *w)
{
    RF_TRY(rf_ps_hello(&w->job, "worker", &w->hello));
    RF_TRY(join_cluster(w));
    for (;;) {
        rf_ps_message m;
        rf_ps_link_resume(w->chief);
        const rf_result r = rf_ps_link_await(w->chief, UINT64_MAX / 4, w->job.peer_timeout_ns, &m);
        RF_TRY(r);
        if (m.type != RF_PS_WORK) return not_work(w, &m);
        RF_TRY(do_work(w, &m));
    }
}

static void clean_up(worker *w)
{
    rf_error_record record;
    rf_error_save(&record);
    rf_ps_client_destroy(&w->client);
    rf_ps_heartbeat_stop(&w->heartbeat);
    rf_ps_link_destroy(&w->chief);
    rf_ps_plan_free(&w->plan);
    rf_free(w->values);
    rf_free(w->changes);
    rf_job_forget(&w->job);
    rf_cluster_free(&w->cluster);
    rf_free(w);
    rf_error_restore(&record);
}

rf_result rf_ps_worker_run(const rf_comm_params *comm, const rf_ps_variables *variables, bool own_data,
                           double clip_norm, rf_ps_work_fn work, void *user)
{
    worker *w = RF_NEW(worker);
    if (!w) return RF_ERROR_OUT_OF_HOST_MEMORY;
    w->variables = variables;
    w->own_data = own_data;
    w->clip_norm = clip_norm;
    w->work = work;
    w->user = user;
    rf_result r = rf_ps_cluster_resolve(comm, RF_TASK_WORKER, &w->cluster, &w->job);
    if (r == RF_OK) r = run_worker(w);
    if (w->ended) r = RF_OK;
    clean_up(w);
    return r;
}
