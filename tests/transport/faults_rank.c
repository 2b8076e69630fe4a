/* SPDX-License-Identifier: Apache-2.0 */
/* A rank of a job that communicates as trainers do. */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/error.h"
#include "base/platform.h"
#include "faults.h"

#define MAX_DESCRIPTORS 256

static void pause_ms(unsigned ms)
{
    nanosleep(&(struct timespec){ ms / 1000, (long)(ms % 1000) * 1000000 }, NULL);
}

/* ---- what is open ---- */

static void open_descriptors(bool open[MAX_DESCRIPTORS])
{
    DIR *directory = opendir("/proc/self/fd");
    memset(open, 0, MAX_DESCRIPTORS * sizeof(bool));
    for (struct dirent *e; directory && (e = readdir(directory));) {
        const int fd = atoi(e->d_name);
        if (e->d_name[0] != '.' && fd < MAX_DESCRIPTORS && fd != dirfd(directory)) open[fd] = true;
    }
    if (directory) closedir(directory);
}

/* Descriptors that libraries open once and keep: neither sockets nor what waits for them. */
static bool is_kept_by_libraries(const char *target)
{
    return strncmp(target, "/dev/", 5) == 0 || strncmp(target, "/sys/", 5) == 0;
}

static void note_leaks(trainee *t, const bool before[MAX_DESCRIPTORS])
{
    bool now[MAX_DESCRIPTORS];
    size_t used = 0;
    open_descriptors(now);
    for (int fd = 0; fd < MAX_DESCRIPTORS && used < sizeof(t->leaked); fd++) {
        char path[32], target[64] = "";
        if (!now[fd] || before[fd]) continue;
        snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
        const ssize_t n = readlink(path, target, sizeof(target) - 1);
        if (n < 0 || is_kept_by_libraries(target)) continue;
        used += (size_t)snprintf(t->leaked + used, sizeof(t->leaked) - used, "%s ", target);
    }
}

/* ---- training ---- */

typedef struct trainer {
    training_job *job;
    trainee *me;
    uint32_t rank;
    rf_comm *comm;
    float *gradients, *weights; /* job->floats each */
} trainer;

/* Two buckets in the background, a metric; or the sharded way: reduce-scatter and all-gather. */
static rf_result exchange(trainer *t, uint32_t step)
{
    const uint64_t n = t->job->floats, half = n / 2;
    uint64_t counts[FAULTS_RANKS] = { 0 }, begin = 0;
    if (step % 3 == 1) {
        for (uint32_t r = 0; r < t->job->world; r++) counts[r] = n / t->job->world;
        for (uint32_t r = 0; r < t->rank; r++) begin += counts[r];
        RF_TRY(rf_comm_reduce_scatter(t->comm, t->gradients, t->weights + begin, counts, RF_F32, RF_COMM_SUM, NULL));
        return rf_comm_all_gather(t->comm, t->weights + begin, t->weights, counts, RF_F32, NULL);
    }
    if (step % 3 == 2) {
        const rf_collective_params narrow = { .wire = RF_BF16, .name = "gradients" };
        return rf_comm_all_reduce(t->comm, t->gradients, t->weights, n, RF_F32, RF_COMM_SUM, &narrow);
    }
    rf_comm_request *request[2] = { NULL, NULL };
    rf_result r = rf_comm_start_all_reduce(t->comm, t->gradients, t->weights, half, RF_F32, RF_COMM_SUM,
                                           &(rf_collective_params){ .name = "bucket" }, &request[0]);
    if (r == RF_OK)
        r = rf_comm_start_all_reduce(t->comm, t->gradients + half, t->weights + half, n - half, RF_F32, RF_COMM_SUM,
                                     NULL, &request[1]);
    for (int i = 0; i < 2; i++) {
        const rf_result end = request[i] ? rf_comm_wait(&request[i]) : RF_OK;
        if (r == RF_OK) r = end;
    }
    return r;
}

/* Each rank writes its part, then waits for the others: none is in a collective meanwhile. */
static rf_result save(trainer *t)
{
    char path[128];
    atomic_store(&t->me->phase, PHASE_SAVING);
    snprintf(path, sizeof(path), "%s/rank-%u", t->job->folder, t->rank);
    FILE *file = fopen(path, "w");
    if (!file) return RF_ERROR_IO;
    const size_t written = fwrite(t->weights, sizeof(float), 65536, file);
    if (fclose(file) != 0 || written != 65536) return RF_ERROR_IO;
    pause_ms(20 + 10 * t->rank);
    RF_TRY(rf_comm_barrier(t->comm));
    atomic_store(&t->me->phase, PHASE_TRAINING);
    return RF_OK;
}

static rf_result train(trainer *t)
{
    rf_result r = rf_comm_barrier(t->comm);
    if (r == RF_OK) atomic_store(&t->me->phase, PHASE_TRAINING);
    for (uint32_t step = 0; r == RF_OK; step++) {
        int32_t stop = t->job->stop;
        r = exchange(t, step);
        if (r == RF_OK) r = rf_comm_all_reduce(t->comm, &stop, &stop, 1, RF_I32, RF_COMM_MAX, NULL);
        if (r == RF_OK && step % 8 == 7) r = save(t);
        atomic_store(&t->me->steps, step + 1);
        if (stop) break;
    }
    return r;
}

static void note(trainee *me, rf_comm *comm, rf_result r)
{
    me->seen = rf_now_ns();
    me->result = r;
    me->lost = comm ? rf_comm_lost_rank(comm) : -1;
    if (r < 0) snprintf(me->message, sizeof(me->message), "%s", rf_error_message());
    if (r == RF_OK || !comm) return;
    /* Whatever is called now says the same, at once. */
    const rf_result again = rf_comm_barrier(comm);
    const double ms = (double)(rf_now_ns() - me->seen) * 1e-6;
    if (again != r || rf_comm_lost_rank(comm) != me->lost || ms > 500)
        snprintf(me->late, sizeof(me->late), "later call: %s after %.0f ms, lost %d: %.150s", rf_result_name(again), ms,
                 rf_comm_lost_rank(comm), rf_error_message());
}

void trainee_run(training_job *job, uint32_t rank)
{
    trainee *me = &job->ranks[rank];
    trainer t = { .job = job, .me = me, .rank = rank };
    bool before[MAX_DESCRIPTORS];
    t.gradients = calloc(job->floats, sizeof(float));
    t.weights = calloc(job->floats, sizeof(float));
    if (!t.gradients || !t.weights) _exit(96);
    open_descriptors(before);
    if (rank > 0 && atomic_load(&job->absent) == rank) {
        atomic_store(&me->phase, PHASE_DONE); /* no rank waits for it */
        for (;;) pause_ms(1000);
    }
    atomic_store(&me->phase, PHASE_JOINING);
    const rf_comm_params params = { .world_size = job->world,
                                    .rank = rank,
                                    .master_address = job->address[0],
                                    .master_port = job->port,
                                    .bind_address = job->address[rank],
                                    .insecure = true,
                                    .bootstrap_timeout = FAULTS_BOOTSTRAP_TIMEOUT,
                                    .peer_timeout = FAULTS_PEER_TIMEOUT,
                                    .operation_timeout = 30 };
    rf_result r = rf_comm_create(&params, &t.comm);
    if (r == RF_OK) r = train(&t);
    note(me, t.comm, r);
    atomic_store(&me->phase, PHASE_LEAVING);
    rf_comm_destroy(&t.comm);
    me->left = rf_now_ns();
    note_leaks(me, before);
    atomic_store(&me->phase, PHASE_DONE);
    free(t.gradients);
    free(t.weights);
}
