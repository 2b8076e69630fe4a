/* SPDX-License-Identifier: Apache-2.0 */
#include "transport/status/board.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <openssl/rand.h>

#include "base/memory.h"
#include "base/platform.h"
#include "transport/job/host.h"
#include "transport/status/place.h"

#define SLICE_NS (500 * 1000000ull) /* between two samples */
#define SEND_NS (1000 * 1000000ull) /* a reader that takes nothing for so long is left */

struct rf_status_board {
    rf_status_members members;
    char host[256];
    char *file; /* of a directory; NULL: none */
    uint64_t begun_ns;
    rf_listener *listener;
    pthread_t thread;
    bool threaded;
    atomic_bool stop;
    atomic_uint_fast64_t steps, latest_ns;
    atomic_uint_fast64_t *examples; /* [num_replicas] */
    /* The thread's. */
    rf_status_sample samples[RF_STATUS_SAMPLES];
    uint64_t taken;
    double *shares; /* [num_replicas] */
    /* ---- under the lock ---- */
    pthread_mutex_t lock;
    rf_status_progress progress;
    uint64_t progress_steps; /* steps when the progress was told */
    char checkpoint[RF_STATUS_PATH];
    uint64_t checkpoint_ns;
};

/* ---- what the training writes ---- */

/* One thread adds, so that nothing needs to be locked. */
static void add_relaxed(atomic_uint_fast64_t *to, uint64_t count)
{
    atomic_store_explicit(to, atomic_load_explicit(to, memory_order_relaxed) + count, memory_order_relaxed);
}

void rf_status_board_step(rf_status_board *b, const uint32_t *examples)
{
    for (uint32_t r = 0; r < b->members.num_replicas; r++) add_relaxed(&b->examples[r], examples[r]);
    atomic_store_explicit(&b->latest_ns, rf_now_ns(), memory_order_relaxed);
    add_relaxed(&b->steps, 1);
}

void rf_status_board_progress(rf_status_board *b, const rf_status_progress *told)
{
    pthread_mutex_lock(&b->lock);
    rf_status_progress merged = *told;
    merged.known = true;
    rf_status_merge_values(&merged, &b->progress);
    b->progress = merged;
    b->progress_steps = atomic_load_explicit(&b->steps, memory_order_relaxed);
    pthread_mutex_unlock(&b->lock);
}

void rf_status_board_checkpoint(rf_status_board *b, const char *path)
{
    pthread_mutex_lock(&b->lock);
    snprintf(b->checkpoint, sizeof(b->checkpoint), "%s", path);
    b->checkpoint_ns = rf_now_ns();
    pthread_mutex_unlock(&b->lock);
}

/* ---- what the thread tells ---- */

static double seconds_since(uint64_t ns)
{
    return (double)(rf_now_ns() - ns) * 1e-9;
}

static void take_sample(rf_status_board *b)
{
    rf_status_sample *sample = &b->samples[b->taken++ % RF_STATUS_SAMPLES];
    sample->seconds = seconds_since(b->begun_ns);
    sample->steps = atomic_load_explicit(&b->steps, memory_order_relaxed);
    for (uint32_t r = 0; r < b->members.num_replicas; r++)
        sample->examples[r] = atomic_load_explicit(&b->examples[r], memory_order_relaxed);
}

static const rf_status_sample *oldest_sample(const rf_status_board *b)
{
    return &b->samples[b->taken < RF_STATUS_SAMPLES ? 0 : b->taken % RF_STATUS_SAMPLES];
}

static void fill_state(rf_status_board *b, rf_status_state *s)
{
    const rf_status_sample *latest = &b->samples[(b->taken - 1) % RF_STATUS_SAMPLES];
    const uint64_t latest_ns = atomic_load_explicit(&b->latest_ns, memory_order_relaxed);
    *s = (rf_status_state){ .program = program_invocation_short_name,
                            .host = b->host,
                            .process = getpid(),
                            .seconds = latest->seconds,
                            .idle_seconds = seconds_since(latest_ns ? latest_ns : b->begun_ns),
                            .steps = latest->steps,
                            .members = b->members,
                            .pace.shares = b->shares };
    for (uint32_t r = 0; r < b->members.num_replicas; r++) s->examples += latest->examples[r];
    rf_status_pace_between(oldest_sample(b), latest, b->members.num_replicas, &s->pace);
    pthread_mutex_lock(&b->lock);
    s->progress = b->progress;
    if (latest->steps > b->progress_steps) s->progress.batch += latest->steps - b->progress_steps;
    memcpy(s->checkpoint, b->checkpoint, sizeof(s->checkpoint));
    s->checkpoint_age = seconds_since(b->checkpoint_ns);
    pthread_mutex_unlock(&b->lock);
    rf_log_recent_get(&s->warnings);
}

/* Nothing of the reader's is read: it has shown the key, and gets the one message. */
static void tell_status(rf_status_board *b, rf_channel *channel)
{
    rf_status_state *state = RF_NEW(rf_status_state);
    if (!state) return;
    take_sample(b);
    fill_state(b, state);
    char *text = rf_status_text(state);
    /* A reader that is gone is no business of the job's. */
    if (text) (void)rf_channel_send(channel, RF_STATUS_MESSAGE, &(rf_bytes){ text, strlen(text) }, 1, SEND_NS);
    free(text);
    rf_free(state);
}

static void *board_thread(void *user)
{
    rf_status_board *b = user;
    uint64_t next = 0;
    while (!atomic_load(&b->stop)) {
        rf_channel *channel = NULL;
        if (rf_now_ns() >= next) {
            take_sample(b);
            next = rf_now_ns() + SLICE_NS;
        }
        const uint64_t now = rf_now_ns();
        if (rf_listener_accept(b->listener, next > now ? next - now : 1, &channel) < 0) continue;
        if (!atomic_load(&b->stop)) tell_status(b, channel);
        rf_channel_destroy(&channel);
    }
    return NULL;
}

/* ---- life ---- */

static rf_result copy_members(rf_status_board *b, const rf_status_members *m)
{
    b->members = (rf_status_members){ m->num_workers, m->num_replicas, RF_NEW_ARRAY(rf_status_worker, m->num_workers),
                                      RF_NEW_ARRAY(rf_status_replica, m->num_replicas) };
    b->examples = RF_NEW_ARRAY(atomic_uint_fast64_t, m->num_replicas);
    b->shares = RF_NEW_ARRAY(double, m->num_replicas);
    if (!b->members.workers || !b->members.replicas || !b->examples || !b->shares) return RF_ERROR_OUT_OF_HOST_MEMORY;
    memcpy(b->members.workers, m->workers, m->num_workers * sizeof(*m->workers));
    memcpy(b->members.replicas, m->replicas, m->num_replicas * sizeof(*m->replicas));
    for (int i = 0; i < RF_STATUS_SAMPLES; i++) {
        b->samples[i].examples = RF_NEW_ARRAY(uint64_t, m->num_replicas);
        if (!b->samples[i].examples) return RF_ERROR_OUT_OF_HOST_MEMORY;
    }
    return RF_OK;
}

static rf_result listen_at(rf_status_board *b, rf_job *job, const rf_status_place *place)
{
    rf_hello hello;
    rf_status_settings(job, &hello);
    RF_TRY(rf_listener_create(job, place->host, place->port, &hello, &b->listener));
    if (!job->secure && !rf_is_loopback(place->host))
        rf_log_message(RF_LOG_WARN, "without a job key, whoever reaches %s port %u can read the status of the job",
                       rf_listen_text(place->host), rf_listener_port(b->listener));
    return RF_OK;
}

/* A file of the run's directory has a key of its own: who may read the file may read the status, and nothing else. */
static rf_result listen_for_directory(rf_status_board *b, const char *directory)
{
    rf_job job = { .secure = true };
    rf_status_place place = { .host = "127.0.0.1" };
    if (RAND_bytes(job.key, sizeof(job.key)) != 1)
        return RF_FAIL(RF_ERROR_IO, "the operating system provides no random numbers to make a key of");
    RF_TRY(rf_make_directories(directory, 0777));
    b->file = rf_status_file(directory);
    if (!b->file) return RF_ERROR_OUT_OF_HOST_MEMORY;
    rf_result r = listen_at(b, &job, &place);
    if (r >= 0) {
        place.port = rf_listener_port(b->listener);
        r = rf_status_file_write(b->file, &place, job.key);
    }
    rf_job_forget(&job);
    return r;
}

static rf_result board_listen(rf_status_board *b, const char *wanted, const rf_comm_params *comm)
{
    rf_status_place place;
    if (!rf_status_parse(wanted, &place)) return listen_for_directory(b, wanted);
    RF_REQUIRE(place.port > 0, "port 0 cannot be told to readers; name another one, or a directory");
    rf_job job;
    rf_result r = rf_job_resolve_key(comm, NULL, NULL, &job);
    if (r >= 0) r = listen_at(b, &job, &place);
    rf_job_forget(&job);
    return r;
}

rf_result rf_status_board_create(const char *wanted, const rf_comm_params *comm, const rf_status_members *members,
                                 rf_status_board **out)
{
    *out = NULL;
    rf_status_board *b = RF_NEW(rf_status_board);
    if (!b) return RF_ERROR_OUT_OF_HOST_MEMORY;
    if (pthread_mutex_init(&b->lock, NULL) != 0) {
        rf_free(b);
        return RF_FAIL(RF_ERROR_OUT_OF_HOST_MEMORY, "cannot make a lock");
    }
    b->begun_ns = rf_now_ns();
    if (gethostname(b->host, sizeof(b->host) - 1) != 0) b->host[0] = '\0';
    rf_result r = copy_members(b, members);
    if (r >= 0) take_sample(b); /* the speed of the first seconds counts from here */
    if (r >= 0) r = board_listen(b, wanted, comm);
    if (r >= 0 && pthread_create(&b->thread, NULL, board_thread, b) != 0)
        r = RF_FAIL(RF_ERROR_IO, "cannot start a thread");
    else if (r >= 0)
        b->threaded = true;
    if (r < 0) {
        rf_error_record record;
        rf_error_save(&record);
        rf_status_board_destroy(&b);
        return rf_error_context(rf_error_restore(&record), "RINGFIRE_STATUS '%s'", wanted);
    }
    *out = b;
    return RF_OK;
}

void rf_status_board_destroy(rf_status_board **board)
{
    rf_status_board *b = *board;
    if (!b) return;
    *board = NULL;
    atomic_store(&b->stop, true);
    if (b->listener) rf_listener_stop(b->listener); /* the thread waits on it */
    if (b->threaded) pthread_join(b->thread, NULL);
    if (b->file && b->threaded) unlink(b->file);
    rf_listener_destroy(&b->listener);
    for (int i = 0; i < RF_STATUS_SAMPLES; i++) rf_free(b->samples[i].examples);
    rf_free(b->members.workers);
    rf_free(b->members.replicas);
    rf_free(b->examples);
    rf_free(b->shares);
    rf_free(b->file);
    pthread_mutex_destroy(&b->lock);
    rf_free(b);
}
