/* SPDX-License-Identifier: Apache-2.0 */
/* The coordinator's thread: receives from servers and workers, assigns work, and detects lost tasks. */
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/numbers.h"
#include "server/coordinator_internal.h"

#define TICK_MS 20 /* newcomers are looked for so often */

void rf_coordinator_wake(rf_coordinator *c)
{
    (void)!write(c->wake, &(uint64_t){ 1 }, sizeof(uint64_t));
}

/* ---- the end of the job ---- */

/* The calling thread's record ends it, on all tasks. */
static void coordinator_fail(rf_coordinator *c)
{
    if (c->failed) return;
    c->failed = true;
    rf_error_save(&c->failure);
    rf_ps_message m = { .type = RF_PS_ABORT, .result = c->failure.info.result };
    snprintf(m.text, sizeof(m.text), "%.900s", c->failure.message);
    for (uint32_t w = 0; w < c->num_workers; w++)
        if (c->seats[w].link) (void)rf_ps_link_send(c->seats[w].link, &m);
    for (uint32_t s = 0; s < c->num_servers; s++) (void)rf_ps_link_send(c->servers[s], &m);
    if (c->client) rf_ps_client_shutdown(c->client);
    rf_error_restore(&c->failure);
    rf_coordinator_end_values(c);
    pthread_cond_broadcast(&c->changed);
}

/* ---- items ---- */

static void commit_item(rf_coordinator *c, rf_remote_value *item, uint32_t shares)
{
    const rf_ps_message m = { .type = RF_PS_COMMIT, .step = c->step, .count = shares };
    c->committing = item;
    c->commits_left = c->num_servers;
    for (uint32_t s = 0; s < c->num_servers && !c->failed; s++)
        if (rf_ps_link_send(c->servers[s], &m) < 0) coordinator_fail(c);
}

static void finish_item(rf_coordinator *c, rf_remote_value *item)
{
    c->last_progress = rf_now_ns();
    rf_remote_value_finish(c, item);
}

/* A share of it is done, or has failed. */
static void share_ended(rf_coordinator *c, rf_remote_value *item)
{
    if (--item->shares_left > 0) return;
    if (item->result >= 0) rf_coordinator_compare_data(c, item);
    if (!c->synchronous || (item->num_pushed == 0 && item->result >= 0)) {
        finish_item(c, item);
    } else if (item->result < 0) {
        commit_item(c, item, 0); /* servers forget what has come of this step */
    } else if (item->num_pushed < item->num_shares) {
        RF_FAIL(RF_ERROR_INVALID_ARGUMENT,
                "'%s' pushed gradients on some workers only; register it in the same way on all", item->function);
        rf_coordinator_fail_work(c, item);
        commit_item(c, item, 0);
    } else {
        commit_item(c, item, item->num_shares);
    }
}

static void note_commit(rf_coordinator *c, uint32_t server, uint64_t version)
{
    rf_remote_value *item = c->committing;
    const uint64_t expected = c->step + (item && item->result >= 0);
    if (!item || version != expected) {
        RF_FAIL(RF_ERROR_CORRUPT_DATA, "%s finished step %llu out of turn", c->servers[server]->name,
                (unsigned long long)version);
        coordinator_fail(c);
        return;
    }
    if (--c->commits_left > 0) return;
    c->committing = NULL;
    c->step = expected;
    finish_item(c, item);
}

/* ---- workers ---- */

static uint64_t slowest_worker(const rf_coordinator *c, uint64_t none)
{
    uint64_t least = UINT64_MAX;
    for (uint32_t w = 0; w < c->num_workers; w++)
        if (c->seats[w].joined && c->seats[w].clock < least) least = c->seats[w].clock;
    return least == UINT64_MAX ? none : least;
}

/* The calling thread's record says why. */
static void lose_worker(rf_coordinator *c, uint32_t w)
{
    rf_ps_seat *seat = &c->seats[w];
    snprintf(c->last_loss, sizeof(c->last_loss), "%.900s", rf_error_message());
    rf_log_message(RF_LOG_WARN, "coordinator: %s", c->last_loss);
    c->stats.workers_lost += seat->joined;
    if (seat->busy) {
        rf_remote_value *item = seat->busy->item;
        if (item->result < 0) {
            share_ended(c, item); /* its other shares have failed: this one is not needed any more */
        } else {
            c->stats.retried++;
            rf_work_share_give_back(c, seat->busy);
        }
    }
    const rf_ps_message m = { .type = RF_PS_EXPEL,
                              .rank = rf_cluster_rank(&c->cluster, RF_TASK_WORKER, w),
                              .incarnation = seat->incarnation };
    for (uint32_t s = 0; s < c->num_servers && !c->failed; s++) (void)rf_ps_link_send(c->servers[s], &m);
    rf_ps_link_destroy(&seat->link);
    seat->joined = false;
    seat->busy = NULL;
}

static double norm_of_bits(uint64_t bits)
{
    double norm;
    memcpy(&norm, &bits, sizeof(norm));
    return norm;
}

/* Why a worker would compute something else than the others; "": it would not. */
static void find_difference(rf_coordinator *c, const rf_ps_seat *seat, const rf_ps_message *m, char text[RF_PS_TEXT])
{
    text[0] = '\0';
    if (m->count != c->variables.count || m->hash != rf_ps_variables_hash(&c->variables)) {
        snprintf(text, RF_PS_TEXT,
                 "the variables of %.300s (%llu) differ in name or shape from the chief's (%u); run the same program "
                 "on all tasks",
                 seat->link->name, (unsigned long long)m->count, c->variables.count);
        return;
    }
    if (!c->limited[0]) {
        snprintf(c->limited, sizeof(c->limited), "%s", seat->link->name);
        c->limit = m->limit;
    }
    if (m->limit != c->limit)
        rf_number_print(
            text, RF_PS_TEXT,
            "%.300s clips gradients to a norm of %g, but %.300s to %g (0: not at all); give all workers the same "
            "rf_worker_params::global_clip_norm",
            seat->link->name, norm_of_bits(m->limit), c->limited, norm_of_bits(c->limit));
}

static void welcome_worker(rf_coordinator *c, uint32_t w, const rf_ps_message *m)
{
    rf_ps_seat *seat = &c->seats[w];
    rf_ps_message abort = { .type = RF_PS_ABORT, .result = RF_ERROR_INVALID_ARGUMENT };
    find_difference(c, seat, m, abort.text);
    if (abort.text[0]) {
        (void)rf_ps_link_send(seat->link, &abort);
        RF_FAIL(RF_ERROR_INVALID_ARGUMENT, "%s", abort.text);
        lose_worker(c, w);
        return;
    }
    /* It begins where the slowest is, so that no other worker has to wait for it. */
    seat->clock = slowest_worker(c, seat->clock);
    seat->joined = true;
    seat->own_data = m->own != 0;
    c->stats.workers_rejoined += seat->joined_before;
    seat->joined_before = true;
    const rf_ps_message answer = { .type = RF_PS_WELCOME,
                                   .synchronous = c->synchronous,
                                   .count = c->max_elements,
                                   .payload = c->rules,
                                   .payload_size = c->variables.count };
    if (rf_ps_link_send(seat->link, &answer) < 0) lose_worker(c, w);
}

static void take_results(rf_remote_value *item, const rf_ps_message *m)
{
    float results[RF_MAX_RESULTS];
    item->num_results = (uint32_t)(m->payload_size / sizeof(float));
    if (m->payload_size) memcpy(results, m->payload, m->payload_size);
    for (uint32_t i = 0; i < item->num_results; i++) item->sums[i] += (double)results[i] * (double)m->examples;
    item->examples += m->examples;
}

static void work_done(rf_coordinator *c, rf_ps_seat *seat, const rf_ps_message *m)
{
    rf_remote_value *item = seat->busy->item;
    seat->busy->hash = seat == &c->seats[seat->busy->index] ? m->hash : 0;
    seat->busy = NULL;
    seat->clock++;
    c->stats.finished++;
    if (m->step) {
        item->num_pushed++;
        c->stats.pushes++;
        c->staleness_sum += (double)m->staleness;
        if (m->staleness > c->stats.max_staleness) c->stats.max_staleness = m->staleness;
    }
    c->last_progress = rf_now_ns();
    take_results(item, m);
    share_ended(c, item);
}

static void work_failed(rf_coordinator *c, uint32_t w, const rf_ps_message *m)
{
    rf_ps_seat *seat = &c->seats[w];
    rf_remote_value *item = seat->busy->item;
    seat->busy = NULL;
    seat->clock++;
    RF_FAIL(m->result, "%s: function '%s': %s", seat->link->name, item->function, m->text);
    rf_coordinator_fail_work(c, item);
    share_ended(c, item);
}

static void receive_from_worker(rf_coordinator *c, uint32_t w, const rf_ps_message *m)
{
    rf_ps_seat *seat = &c->seats[w];
    const bool answers = seat->busy && m->id == seat->id;
    if (m->type == RF_PS_JOIN && !seat->joined)
        welcome_worker(c, w, m);
    else if (m->type == RF_PS_DONE && answers && m->examples > 0 && m->payload_size <= RF_MAX_RESULTS * sizeof(float))
        work_done(c, seat, m);
    else if (m->type == RF_PS_FAILED && answers)
        work_failed(c, w, m);
    else {
        RF_FAIL(RF_ERROR_CORRUPT_DATA, "%s was dropped: it sent a message of type %u out of turn", seat->link->name,
                m->type);
        lose_worker(c, w);
    }
}

static void take_worker(rf_coordinator *c, rf_channel *channel)
{
    const rf_hello hello = *rf_channel_peer(channel);
    const uint32_t first = rf_cluster_rank(&c->cluster, RF_TASK_WORKER, 0), w = hello.rank - first;
    char name[RF_PS_NAME];
    if (strcmp(hello.role, "worker") != 0 || hello.rank < first || w >= c->num_workers) {
        rf_log_message(RF_LOG_WARN, "coordinator: %s is not a worker of this cluster",
                       rf_channel_peer_address(channel));
        rf_channel_destroy(&channel);
        return;
    }
    rf_ps_seat *seat = &c->seats[w];
    if (seat->link) {
        RF_FAIL(RF_ERROR_PEER_LOST, "%s was lost: it was restarted", seat->link->name);
        lose_worker(c, w);
    }
    rf_ps_task_name(&c->cluster, RF_TASK_WORKER, w, name);
    if (rf_ps_link_create(channel, name, c->job.heartbeat_interval_ns, &seat->link) == RF_OK)
        seat->incarnation = hello.incarnation;
}

/* ---- handing out ---- */

/* The free worker that is least advanced of those that may do the share; RF_MAX_WORLD where none may begin a step. */
static uint32_t choose_worker(const rf_coordinator *c, const rf_work_share *share)
{
    const uint64_t least = slowest_worker(c, 0);
    uint32_t best = RF_MAX_WORLD;
    for (uint32_t w = 0; w < c->num_workers; w++) {
        const rf_ps_seat *seat = &c->seats[w];
        if (!seat->joined || seat->busy || !rf_work_share_fits(c, share, w)) continue;
        if (!c->synchronous && c->max_ahead > 0 && seat->clock - least >= c->max_ahead) continue;
        if (best == RF_MAX_WORLD || seat->clock < c->seats[best].clock) best = w;
    }
    return best;
}

static void assign_share(rf_coordinator *c, rf_work_share *share, uint32_t w)
{
    rf_ps_seat *seat = &c->seats[w];
    rf_work_share_remove(c, share);
    seat->busy = share;
    seat->id = ++c->next_id;
    const uint64_t ahead = seat->clock - slowest_worker(c, seat->clock);
    if (ahead > c->stats.max_ahead) c->stats.max_ahead = ahead;
    rf_ps_message m = { .type = RF_PS_WORK,
                        .id = seat->id,
                        .step = c->step,
                        .share = share->index,
                        .shares = share->item->num_shares,
                        .offset = share->first,
                        .examples = share->count,
                        .number = share->item->number,
                        .row = share->first - share->item->first,
                        .seed = share->item->seed };
    snprintf(m.text, sizeof(m.text), "%s", share->item->function);
    if (rf_ps_link_send(seat->link, &m) < 0) lose_worker(c, w);
}

/* Shares of a synchronous step go to whoever can do them; others keep their order. */
static void hand_out(rf_coordinator *c)
{
    rf_coordinator_make_ready(c);
    for (rf_work_share *share = c->first_ready, *next; share && !c->failed; share = next) {
        next = share->next;
        const uint32_t w = choose_worker(c, share);
        if (w != RF_MAX_WORLD)
            assign_share(c, share, w);
        else if (!c->synchronous)
            return;
    }
}

/* ---- rounds ---- */

static void receive_from_servers(rf_coordinator *c)
{
    for (uint32_t s = 0; s < c->num_servers && !c->failed; s++) {
        rf_ps_link *link = c->servers[s];
        rf_ps_message m;
        rf_result r = RF_OK;
        while (!c->failed && (r = rf_ps_link_receive(link, 0, &m)) == RF_OK) {
            if (m.type == RF_PS_COMMITTED) {
                note_commit(c, s, m.version);
                continue;
            }
            if (m.type == RF_PS_FAILED)
                RF_FAIL(m.result, "%s: %s", link->name, m.text);
            else
                RF_FAIL(RF_ERROR_CORRUPT_DATA, "%s sent a message of type %u out of turn", link->name, m.type);
            coordinator_fail(c);
        }
        if (!c->failed && r == RF_ERROR_TIMEOUT) r = rf_ps_link_check_silence(link, c->job.peer_timeout_ns);
        if (!c->failed && r < 0) coordinator_fail(c);
    }
}

static void receive_from_workers(rf_coordinator *c)
{
    for (uint32_t w = 0; w < c->num_workers && !c->failed; w++) {
        rf_ps_seat *seat = &c->seats[w];
        rf_ps_message m;
        rf_result r = RF_OK;
        while (seat->link && !c->failed && (r = rf_ps_link_receive(seat->link, 0, &m)) == RF_OK)
            receive_from_worker(c, w, &m);
        if (!seat->link || c->failed) continue;
        if (r == RF_ERROR_TIMEOUT) r = rf_ps_link_check_silence(seat->link, c->job.peer_timeout_ns);
        if (r < 0) lose_worker(c, w);
    }
}

static void take_newcomers(rf_coordinator *c)
{
    rf_channel *channel;
    while (rf_listener_accept(c->listener, 0, &channel) == RF_OK) take_worker(c, channel);
}

static void send_heartbeats(rf_coordinator *c, uint64_t now)
{
    if (now - c->last_heartbeat < c->job.heartbeat_interval_ns) return;
    c->last_heartbeat = now;
    for (uint32_t w = 0; w < c->num_workers; w++)
        if (c->seats[w].link) rf_ps_link_send_heartbeat(c->seats[w].link);
}

static bool any_worker(const rf_coordinator *c, bool busy)
{
    for (uint32_t w = 0; w < c->num_workers; w++)
        if (busy ? c->seats[w].busy != NULL : c->seats[w].joined) return true;
    return false;
}

/* A share that waits for the data of a worker that is not there. */
static const rf_work_share *find_stranded(const rf_coordinator *c)
{
    for (const rf_work_share *share = c->first_ready; share; share = share->next) {
        bool fits = false;
        for (uint32_t w = 0; w < c->num_workers; w++) fits |= c->seats[w].joined && rf_work_share_fits(c, share, w);
        if (!fits) return share;
    }
    return NULL;
}

static void check_stranded(rf_coordinator *c, uint64_t now)
{
    const rf_work_share *share = find_stranded(c);
    if (!share || !any_worker(c, false)) c->waiting_since = now;
    if (now - c->waiting_since <= c->job.bootstrap_timeout_ns) return;
    char name[RF_PS_NAME];
    rf_ps_task_name(&c->cluster, RF_TASK_WORKER, share->index, name);
    RF_FAIL(
        RF_ERROR_PEER_LOST,
        "%s has data of its own for '%s', and has not come back within %.1f s: start it again, or give every worker "
        "the whole dataset (rf_worker_function::whole_data)%s%s",
        name, share->item->function, (double)c->job.bootstrap_timeout_ns * 1e-9, c->last_loss[0] ? "; " : "",
        c->last_loss);
    coordinator_fail(c);
}

/* Work that has no worker, or does not make progress. */
static void check_progress(rf_coordinator *c, uint64_t now)
{
    if (!c->first || any_worker(c, false)) c->alone_since = now;
    if (!c->first) c->last_progress = now;
    if (now - c->alone_since > c->job.bootstrap_timeout_ns) {
        char rejected[256], place[128];
        rf_listener_rejection(c->listener, rejected, sizeof(rejected));
        rf_listener_place(c->listener, place, sizeof(place));
        if (c->last_loss[0])
            RF_FAIL(RF_ERROR_PEER_LOST, "no worker is left, and none has rejoined within %.1f s; %s",
                    (double)c->job.bootstrap_timeout_ns * 1e-9, c->last_loss);
        else
            RF_FAIL(RF_ERROR_TIMEOUT, "no worker has connected within %.1f s%s%s; the chief listens at %s",
                    (double)c->job.bootstrap_timeout_ns * 1e-9, rejected[0] ? "; rejected: " : "", rejected, place);
        coordinator_fail(c);
    } else if (!any_worker(c, false) && rf_listener_status(c->listener) < 0) {
        coordinator_fail(c);
    } else if (now - c->last_progress > c->job.operation_timeout_ns && any_worker(c, true)) {
        uint32_t w = 0;
        while (!c->seats[w].busy) w++;
        RF_FAIL(RF_ERROR_TIMEOUT, "no work was finished for %.1f s; %s is running '%s'",
                (double)c->job.operation_timeout_ns * 1e-9, c->seats[w].link->name, c->seats[w].busy->item->function);
        coordinator_fail(c);
    }
}

static void check_tasks(rf_coordinator *c)
{
    take_newcomers(c);
    receive_from_servers(c);
    if (!c->failed) receive_from_workers(c);
    if (!c->failed) hand_out(c);
    const uint64_t now = rf_now_ns();
    if (!c->failed) send_heartbeats(c, now);
    if (!c->failed) check_progress(c, now);
    if (!c->failed) check_stranded(c, now);
}

static uint32_t list_descriptors(const rf_coordinator *c, struct pollfd *fds)
{
    uint32_t n = 0;
    fds[n++] = (struct pollfd){ .fd = c->wake, .events = POLLIN };
    for (uint32_t s = 0; s < c->num_servers; s++)
        fds[n++] = (struct pollfd){ .fd = rf_channel_fd(c->servers[s]->channel), .events = POLLIN };
    for (uint32_t w = 0; w < c->num_workers; w++)
        if (c->seats[w].link)
            fds[n++] = (struct pollfd){ .fd = rf_channel_fd(c->seats[w].link->channel), .events = POLLIN };
    return n;
}

void *rf_coordinator_thread(void *argument)
{
    rf_coordinator *c = argument;
    struct pollfd *fds = RF_NEW_ARRAY(struct pollfd, 1 + c->num_servers + c->num_workers);
    pthread_mutex_lock(&c->lock);
    if (!fds) coordinator_fail(c);
    c->alone_since = c->waiting_since = c->last_progress = rf_now_ns();
    while (!c->stop && !c->failed) {
        const uint32_t n = list_descriptors(c, fds);
        pthread_mutex_unlock(&c->lock);
        uint64_t count;
        if (poll(fds, n, TICK_MS) > 0 && fds[0].revents) (void)!read(c->wake, &count, sizeof(count));
        pthread_mutex_lock(&c->lock);
        check_tasks(c);
    }
    pthread_mutex_unlock(&c->lock);
    rf_free(fds);
    return NULL;
}
