/* SPDX-License-Identifier: Apache-2.0 */
/* The public functions of the chief. */
#include "server/coordinator.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/condition.h"
#include "base/platform.h"
#include "replica/internal.h"
#include "server/coordinator_internal.h"
#include "transport/channel/socket.h"

#define WAIT_NS (100 * 1000000ull)
#define VERDICT_NS (1000 * 1000000ull) /* for the thread to find out who was lost */
#define DEFAULT_SHARD_BYTES (4ull << 20)

/* ---- creation ---- */

/* The first `count` elements of what the server holds. */
static rf_result send_part(rf_coordinator *c, uint32_t s, uint64_t count)
{
    rf_ps_message m = { .type = RF_PS_VALUES };
    float *part = RF_NEW_ARRAY(float, count);
    if (!part) return RF_ERROR_OUT_OF_HOST_MEMORY;
    for (uint32_t i = 0; i < c->plan.count; i++) {
        const rf_ps_segment *p = &c->plan.items[i];
        if (p->server == s && p->offset < count)
            memcpy(part + p->offset, c->values + p->from, (size_t)(p->range.end - p->range.begin) * sizeof(float));
    }
    const rf_result r = rf_ps_link_send_floats(c->servers[s], &m, part, count);
    rf_free(part);
    return r;
}

static rf_result describe_part(rf_coordinator *c, uint32_t s, const rf_ps_optimizer *optimizer)
{
    uint8_t *payload = RF_NEW_ARRAY(uint8_t, RF_PS_LAYOUT_BYTES + optimizer->size);
    if (!payload) return RF_ERROR_OUT_OF_HOST_MEMORY;
    const uint32_t groups = rf_ps_layout_write(&c->plan.layouts[s], payload);
    memcpy(payload + 8 * (size_t)groups, optimizer->text, optimizer->size);
    const rf_ps_message m = { .type = RF_PS_INIT,
                              .index = s,
                              .servers = c->num_servers,
                              .count = c->plan.server_counts[s],
                              .synchronous = c->synchronous,
                              .version = optimizer->updates,
                              .groups = groups,
                              .slots = optimizer->num_slots,
                              .payload = payload,
                              .payload_size = 8 * (size_t)groups + optimizer->size };
    const rf_result r = rf_ps_link_send(c->servers[s], &m);
    rf_free(payload);
    return r;
}

/* Parameters, and what an optimizer has kept of them. */
static rf_result send_parameters(rf_coordinator *c, const rf_ps_optimizer *optimizer)
{
    RF_TRY(rf_ps_variables_read(&c->variables, c->values));
    for (uint32_t s = 0; s < c->num_servers; s++) {
        RF_TRY(describe_part(c, s, optimizer));
        RF_TRY(send_part(c, s, c->plan.server_counts[s]));
    }
    for (uint32_t k = 0; k < optimizer->num_slots; k++) {
        RF_TRY(optimizer->read_slot(optimizer->user, &c->variables, k, c->values));
        for (uint32_t s = 0; s < c->num_servers; s++) {
            const uint64_t optimized = c->plan.layouts[s].optimized;
            if (optimized > 0) RF_TRY(send_part(c, s, optimized));
        }
    }
    return RF_OK;
}

static rf_result await_ready(rf_coordinator *c, uint32_t s)
{
    rf_ps_message m;
    rf_ps_link_resume(c->servers[s]);
    const rf_result r = rf_ps_link_await(c->servers[s], c->job.operation_timeout_ns, c->job.peer_timeout_ns, &m);
    if (r == RF_ERROR_TIMEOUT) return RF_FAIL(r, "%s did not become ready in time", c->servers[s]->name);
    RF_TRY(r);
    if (m.type == RF_PS_READY) return RF_OK;
    if (m.type == RF_PS_FAILED) return RF_FAIL(m.result, "%s: %s", c->servers[s]->name, m.text);
    return RF_FAIL(RF_ERROR_CORRUPT_DATA, "%s sent a message of type %u out of turn", c->servers[s]->name, m.type);
}

static rf_result start_servers(rf_coordinator *c, const rf_hello *hello, const rf_ps_optimizer *optimizer)
{
    const uint64_t deadline = rf_deadline_after(c->job.bootstrap_timeout_ns);
    for (uint32_t s = 0; s < c->num_servers; s++) {
        const uint64_t left = rf_deadline_left(deadline);
        RF_TRY(rf_ps_connect(&c->job, &c->cluster, RF_TASK_PS, s, hello, left ? left : 1, &c->servers[s]));
        RF_TRY(rf_ps_heartbeat_start(c->servers[s], c->job.heartbeat_interval_ns, &c->heartbeats[s]));
    }
    RF_TRY(send_parameters(c, optimizer));
    for (uint32_t s = 0; s < c->num_servers; s++) RF_TRY(await_ready(c, s));
    /* The thread counts silence from here on. */
    for (uint32_t s = 0; s < c->num_servers; s++) rf_ps_link_resume(c->servers[s]);
    return RF_OK;
}

static rf_result make_room(rf_coordinator *c, const rf_coordinator_params *p, const rf_ps_optimizer *optimizer)
{
    const uint64_t bytes = p->max_shard_bytes ? p->max_shard_bytes : DEFAULT_SHARD_BYTES;
    c->max_elements = rf_div_up(bytes, sizeof(float));
    c->synchronous = p->synchronous;
    c->max_ahead = p->max_ahead;
    c->num_servers = c->cluster.count[RF_TASK_PS];
    c->num_workers = c->cluster.count[RF_TASK_WORKER];
    c->step = c->updates = optimizer->updates;
    c->rules = RF_NEW_ARRAY(uint8_t, c->variables.count);
    c->servers = RF_NEW_ARRAY(rf_ps_link *, c->num_servers);
    c->heartbeats = RF_NEW_ARRAY(rf_ps_heartbeat *, c->num_servers);
    c->seats = RF_NEW_ARRAY(rf_ps_seat, c->num_workers);
    if (!c->rules || !c->servers || !c->heartbeats || !c->seats) return RF_ERROR_OUT_OF_HOST_MEMORY;
    memcpy(c->rules, optimizer->rules, c->variables.count);
    RF_TRY(rf_ps_variables_plan(&c->variables, c->rules, c->num_servers, c->max_elements, &c->plan));
    c->values = RF_NEW_ARRAY(float, c->plan.total);
    c->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (c->wake < 0) return RF_FAIL_ERRNO(RF_ERROR_IO, "cannot create an event descriptor");
    return c->values ? RF_OK : RF_ERROR_OUT_OF_HOST_MEMORY;
}

static rf_result open_coordinator(rf_coordinator *c, const rf_coordinator_params *p, const rf_ps_optimizer *optimizer)
{
    RF_TRY(rf_ps_cluster_resolve(&p->comm, RF_TASK_CHIEF, &c->cluster, &c->job));
    RF_TRY(make_room(c, p, optimizer));
    RF_TRY(rf_condition_init(&c->changed));
    pthread_mutex_init(&c->lock, NULL);
    c->locked = true;
    c->process = rf_process_id();
    rf_hello hello;
    RF_TRY(rf_ps_hello(&c->job, "chief", &hello));
    const rf_address *own = &c->cluster.tasks[RF_TASK_CHIEF][0];
    rf_listen_plan plan;
    char name[RF_PS_NAME];
    rf_ps_task_name(&c->cluster, RF_TASK_CHIEF, 0, name);
    RF_TRY(rf_listener_open(&c->job, own->host, own->port, &hello, name, &c->listener, &plan));
    RF_TRY(start_servers(c, &hello, optimizer));
    const rf_ps_client_params client = {
        .job = &c->job, .cluster = &c->cluster, .plan = &c->plan, .incarnation = hello.incarnation
    };
    RF_TRY(rf_ps_client_create(&client, &c->client));
    const int e = pthread_create(&c->thread, NULL, rf_coordinator_thread, c);
    if (e != 0) return RF_FAIL_NATIVE(RF_ERROR_IO, "errno", e, "cannot start a thread");
    c->threaded = true;
    return RF_OK;
}

/* ---- the end ---- */

static void stop_thread(rf_coordinator *c)
{
    if (!c->threaded) return;
    pthread_mutex_lock(&c->lock);
    c->stop = true;
    pthread_mutex_unlock(&c->lock);
    rf_coordinator_wake(c);
    pthread_join(c->thread, NULL);
}

/* Workers first, so that none finds its servers gone without knowing why. `m` says how it ended. */
static void say_goodbye(rf_coordinator *c, const rf_ps_message *m)
{
    for (uint32_t w = 0; c->seats && w < c->num_workers; w++)
        if (c->seats[w].link) (void)rf_ps_link_send(c->seats[w].link, m);
    for (uint32_t s = 0; c->servers && s < c->num_servers; s++)
        if (c->servers[s]) (void)rf_ps_link_send(c->servers[s], m);
}

static void close_coordinator(rf_coordinator *c)
{
    rf_ps_client_destroy(&c->client);
    for (uint32_t w = 0; c->seats && w < c->num_workers; w++) rf_ps_link_destroy(&c->seats[w].link);
    for (uint32_t s = 0; c->heartbeats && s < c->num_servers; s++) rf_ps_heartbeat_stop(&c->heartbeats[s]);
    for (uint32_t s = 0; c->servers && s < c->num_servers; s++) rf_ps_link_destroy(&c->servers[s]);
    rf_listener_destroy(&c->listener);
    if (c->locked) {
        pthread_mutex_destroy(&c->lock);
        pthread_cond_destroy(&c->changed);
    }
    if (c->wake >= 0) close(c->wake);
    if (c->release) c->release(c->user);
    rf_ps_variables_free(&c->variables);
    rf_ps_plan_free(&c->plan);
    rf_free(c->rules);
    rf_free(c->servers);
    rf_free(c->heartbeats);
    rf_free(c->seats);
    for (uint32_t i = 0; i < c->kinds.count; i++) rf_free(c->kinds.items[i].same_data);
    rf_free(c->kinds.items);
    rf_free(c->values);
    rf_job_forget(&c->job);
    rf_cluster_free(&c->cluster);
    rf_free(c);
}

rf_result rf_coordinator_open(const rf_coordinator_params *params, rf_ps_variables *variables,
                              const rf_ps_optimizer *optimizer, rf_coordinator **out)
{
    *out = NULL;
    rf_coordinator *c = RF_NEW(rf_coordinator);
    if (!c) {
        rf_ps_variables_free(variables);
        return RF_ERROR_OUT_OF_HOST_MEMORY;
    }
    c->wake = -1;
    c->variables = *variables;
    *variables = (rf_ps_variables){ 0 };
    const rf_result r = open_coordinator(c, params, optimizer);
    if (r < 0) {
        rf_error_record record;
        rf_error_save(&record);
        rf_ps_message m = { .type = RF_PS_ABORT, .result = r };
        snprintf(m.text, sizeof(m.text), "%.900s", record.message);
        say_goodbye(c, &m);
        close_coordinator(c);
        return rf_error_restore(&record);
    }
    c->user = optimizer->user;
    c->release = optimizer->release;
    *out = c;
    return RF_OK;
}

RF_API void rf_coordinator_destroy(rf_coordinator **coordinator)
{
    if (!coordinator || !*coordinator) return;
    rf_coordinator *c = *coordinator;
    *coordinator = NULL;
    if (c->process != rf_process_id()) return;
    rf_error_record record; /* the caller may be on its way out with a failure */
    rf_error_save(&record);
    stop_thread(c);
    RF_FAIL(RF_ERROR_CANCELLED, "the coordinator was destroyed before this was done");
    rf_coordinator_end_values(c);
    if (!c->failed) say_goodbye(c, &(rf_ps_message){ .type = RF_PS_END });
    close_coordinator(c);
    rf_error_restore(&record);
}

/* ---- scheduling ---- */

static rf_result check_process(const rf_coordinator *c)
{
    return rf_process_check(c->process, "the coordinator");
}

/* Under the lock: what ended the job, or the first failure of a function, which is then forgotten. */
static rf_result take_failure(rf_coordinator *c)
{
    if (c->failed) return rf_error_restore(&c->failure);
    if (!c->work_failed) return RF_OK;
    c->work_failed = false;
    return rf_error_restore(&c->work_failure);
}

RF_API rf_result rf_coordinator_schedule(rf_coordinator *coordinator, const char *function, uint64_t first,
                                         uint64_t count, rf_remote_value **value)
{
    if (value) *value = NULL;
    RF_REQUIRE(coordinator, "rf_coordinator_schedule: coordinator is NULL");
    RF_TRY(check_process(coordinator));
    RF_REQUIRE(function && function[0] && strlen(function) < RF_MAX_FUNCTION_NAME_BYTES,
               "rf_coordinator_schedule: function is %s; give a name of 1 to %d characters",
               function ? function : "NULL", RF_MAX_FUNCTION_NAME_BYTES - 1);
    RF_REQUIRE(first <= UINT64_MAX - count, "rf_coordinator_schedule: the range of examples overflows");
    rf_remote_value *item;
    RF_TRY(rf_remote_value_create(coordinator, function, first, count, &item));
    pthread_mutex_lock(&coordinator->lock);
    rf_result r = take_failure(coordinator);
    if (r == RF_OK) r = rf_coordinator_number(coordinator, item);
    if (r == RF_OK) {
        if (value) {
            atomic_fetch_add(&item->references, 1);
            *value = item;
        }
        rf_remote_value_append(coordinator, item);
    }
    pthread_mutex_unlock(&coordinator->lock);
    if (r < 0)
        rf_remote_value_release(item);
    else
        rf_coordinator_wake(coordinator);
    return r;
}

RF_API bool rf_coordinator_done(rf_coordinator *coordinator)
{
    if (!coordinator || coordinator->process != rf_process_id()) return true;
    pthread_mutex_lock(&coordinator->lock);
    const bool done = !coordinator->first;
    pthread_mutex_unlock(&coordinator->lock);
    return done;
}

/* The thread sees to it that everything ends: by being done, or by a deadline. */
RF_API rf_result rf_coordinator_join(rf_coordinator *coordinator)
{
    RF_REQUIRE(coordinator, "rf_coordinator_join: coordinator is NULL");
    RF_TRY(check_process(coordinator));
    pthread_mutex_lock(&coordinator->lock);
    while (coordinator->first)
        (void)rf_condition_wait(&coordinator->changed, &coordinator->lock, rf_now_ns() + WAIT_NS);
    const rf_result r = take_failure(coordinator);
    pthread_mutex_unlock(&coordinator->lock);
    return r;
}

RF_API rf_result rf_remote_value_fetch(rf_remote_value *value, float *results, uint32_t num_results)
{
    RF_REQUIRE(value, "rf_remote_value_fetch: value is NULL");
    RF_REQUIRE(results || num_results == 0, "rf_remote_value_fetch: results is NULL");
    if (!atomic_load(&value->done)) {
        rf_coordinator *c = value->coordinator;
        RF_TRY(check_process(c));
        pthread_mutex_lock(&c->lock);
        while (!atomic_load(&value->done)) (void)rf_condition_wait(&c->changed, &c->lock, rf_now_ns() + WAIT_NS);
        pthread_mutex_unlock(&c->lock);
    }
    if (value->result < 0) return rf_error_restore(&value->failure);
    RF_REQUIRE(num_results <= value->num_results, "rf_remote_value_fetch: num_results is %u, but '%s' has %u",
               num_results, value->function, value->num_results);
    for (uint32_t i = 0; i < num_results; i++) results[i] = (float)(value->sums[i] / (double)value->examples);
    return RF_OK;
}

RF_API void rf_remote_value_destroy(rf_remote_value **value)
{
    if (!value || !*value) return;
    rf_remote_value_release(*value);
    *value = NULL;
}

/* ---- parameters and numbers ---- */

/* A server that is lost: the thread names it to all; its word is the better one. */
static rf_result prefer_loss(rf_coordinator *c, rf_result r)
{
    if (r >= 0) return r;
    rf_error_record own;
    rf_error_save(&own);
    const uint64_t begin = rf_now_ns();
    pthread_mutex_lock(&c->lock);
    while (r == RF_ERROR_PEER_LOST && !c->failed && rf_now_ns() - begin < VERDICT_NS)
        (void)rf_condition_wait(&c->changed, &c->lock, rf_now_ns() + WAIT_NS);
    const rf_error_record *final = c->failed ? &c->failure : &own;
    r = rf_error_restore(final);
    pthread_mutex_unlock(&c->lock);
    return r;
}

rf_result rf_coordinator_pull(rf_coordinator *c, uint64_t slot, const float **values, uint64_t *updates)
{
    RF_TRY(check_process(c));
    RF_TRY(prefer_loss(c, rf_ps_client_pull(c->client, slot, c->values)));
    *values = c->values;
    *updates = rf_ps_client_version(c->client);
    return RF_OK;
}

RF_API rf_result rf_coordinator_read_variables(rf_coordinator *coordinator)
{
    const float *values;
    uint64_t updates;
    RF_REQUIRE(coordinator, "rf_coordinator_read_variables: coordinator is NULL");
    RF_TRY(rf_coordinator_pull(coordinator, 0, &values, &updates));
    return rf_ps_variables_assign(&coordinator->variables, values);
}

const rf_ps_variables *rf_coordinator_variables(const rf_coordinator *coordinator)
{
    return &coordinator->variables;
}

void *rf_coordinator_user(const rf_coordinator *coordinator)
{
    return coordinator->user;
}

RF_API void rf_coordinator_get_stats(rf_coordinator *coordinator, rf_coordinator_stats *out)
{
    if (!out) return;
    *out = (rf_coordinator_stats){ 0 };
    if (!coordinator || coordinator->process != rf_process_id()) return;
    pthread_mutex_lock(&coordinator->lock);
    *out = coordinator->stats;
    for (uint32_t w = 0; w < coordinator->num_workers; w++) out->num_workers += coordinator->seats[w].joined;
    if (out->pushes > 0) out->mean_staleness = coordinator->staleness_sum / (double)out->pushes;
    pthread_mutex_unlock(&coordinator->lock);
}

/* ---- the task ---- */

RF_API rf_result rf_cluster_task_get(rf_cluster_task *out)
{
    RF_REQUIRE(out, "rf_cluster_task_get: out is NULL");
    *out = (rf_cluster_task){ 0 };
    static const rf_cluster_role roles[RF_TASK_TYPE_COUNT] = { [RF_TASK_CHIEF] = RF_ROLE_CHIEF,
                                                               [RF_TASK_WORKER] = RF_ROLE_WORKER,
                                                               [RF_TASK_PS] = RF_ROLE_PARAMETER_SERVER,
                                                               [RF_TASK_EVALUATOR] = RF_ROLE_EVALUATOR };
    rf_cluster cluster;
    RF_TRY(rf_cluster_resolve(NULL, NULL, &cluster));
    *out = (rf_cluster_task){ .role = roles[cluster.type],
                              .index = cluster.index,
                              .num_workers = cluster.count[RF_TASK_WORKER],
                              .num_servers = cluster.count[RF_TASK_PS] };
    rf_cluster_free(&cluster);
    return RF_OK;
}
