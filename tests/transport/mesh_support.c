/* SPDX-License-Identifier: Apache-2.0 */
#include "mesh_support.h"
#include "../support/clock.h"
#include "../support/port.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <linux/filter.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/platform.h"
#include "transport/mesh/internal.h"

void leave_process(void)
{
    syscall(SYS_exit_group, 1);
}

void sleep_ms(unsigned ms)
{
    struct timespec t = { ms / 1000, (long)(ms % 1000) * 1000000 };
    while (nanosleep(&t, &t) != 0 && errno == EINTR) {}
}

int open_descriptors(void)
{
    DIR *directory = opendir("/proc/self/fd");
    int count = 0;
    assert_non_null(directory);
    while (readdir(directory)) count++;
    closedir(directory);
    return count;
}

fleet *fleet_create(uint32_t world, rank_fn fn)
{
    assert_true(world <= FLEET_MAX);
    fleet *f = mmap(NULL, sizeof(*f), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(f != MAP_FAILED);
    f->world = world;
    f->fn = fn;
    const uint16_t port = free_port();
    for (uint32_t r = 0; r < world; r++) {
        rf_job *job = &f->jobs[r];
        *job = (rf_job){ .rank = r, .world_size = world, .master_port = port, .epoch = 3, .secure = true };
        snprintf(job->master_address, sizeof(job->master_address), "127.0.0.1");
        snprintf(job->name, sizeof(job->name), "test");
        memset(job->key, 0x5a, sizeof(job->key));
        job->bootstrap_timeout_ns = 10 * SECOND;
        job->peer_timeout_ns = SECOND;
        job->heartbeat_interval_ns = SECOND / 8;
        job->operation_timeout_ns = 10 * SECOND;
    }
    return f;
}

void fleet_add_liveness(fleet *f)
{
    rf_liveness_page liveness;
    assert_int_equal(rf_liveness_create(f->world, &liveness, &f->liveness), RF_OK);
    rf_liveness_close(&liveness);
    for (uint32_t r = 0; r < f->world; r++) {
        f->jobs[r].peer_timeout_ns = 3 * SECOND / 2;
        f->jobs[r].heartbeat_interval_ns = SECOND / 2;
    }
}

void fleet_start_rank(fleet *f, uint32_t rank)
{
    fflush(NULL);
    const pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        f->fn(f, rank);
        leave_process();
    }
    f->pids[rank] = pid;
}

void fleet_start(fleet *f)
{
    for (uint32_t r = 0; r < f->world; r++) fleet_start_rank(f, r);
}

typedef struct thread_start {
    fleet *f;
    uint32_t rank;
} thread_start;

static void *thread_main(void *user)
{
    const thread_start *start = user;
    start->f->fn(start->f, start->rank);
    return NULL;
}

void fleet_run_threads(fleet *f)
{
    thread_start starts[FLEET_MAX];
    for (uint32_t r = 0; r < f->world; r++) {
        starts[r] = (thread_start){ f, r };
        assert_int_equal(pthread_create(&f->threads[r], NULL, thread_main, &starts[r]), 0);
    }
    for (uint32_t r = 0; r < f->world; r++) pthread_join(f->threads[r], NULL);
}

void fleet_await(fleet *f, int stage, uint32_t but, unsigned ms)
{
    const uint64_t end = rf_now_ns() + ms * MS * slowness();
    for (uint32_t r = 0; r < f->world; r++) {
        if (but >> r & 1) continue;
        while (f->reports[r].stage < stage) {
            if (rf_now_ns() > end) {
                for (uint32_t i = 0; i < f->world; i++)
                    print_error("rank %u: stage %d, result %d, lost %d: %s\n", i, f->reports[i].stage,
                                f->reports[i].result, f->reports[i].lost, f->reports[i].message);
                for (uint32_t i = 0; i < f->world; i++)
                    if (f->pids[i]) kill(f->pids[i], SIGKILL);
                fail_msg("rank %u did not reach stage %d within %u ms", r, stage, ms);
            }
            sleep_ms(1);
        }
    }
}

void fleet_join(fleet *f)
{
    const uint64_t end = rf_now_ns() + 20 * SECOND;
    bool late = false;
    for (uint32_t r = 0; r < f->world; r++) {
        if (!f->pids[r]) continue;
        while (waitpid(f->pids[r], NULL, WNOHANG) == 0) {
            if (rf_now_ns() > end) {
                late = true;
                kill(f->pids[r], SIGKILL);
            }
            sleep_ms(1);
        }
        f->pids[r] = 0;
    }
    assert_false(late);
}

void fleet_free(fleet *f)
{
    for (uint32_t r = 0; r < f->world; r++)
        if (f->pids[r]) kill(f->pids[r], SIGKILL);
    fleet_join(f);
    if (f->liveness) close(f->liveness);
    munmap(f, sizeof(*f));
}

/* ---- ranks ---- */

void rank_note(fleet *f, uint32_t rank, rf_mesh *mesh, rf_result r)
{
    rank_report *report = &f->reports[rank];
    report->at = rf_now_ns();
    report->result = r;
    report->lost = mesh ? rf_mesh_lost_rank(mesh) : -1;
    if (r < 0) snprintf(report->message, sizeof(report->message), "%s", rf_error_message());
    if (mesh) snprintf(report->operations, sizeof(report->operations), "%s", rf_mesh_last_operations(mesh));
}

rf_mesh *rank_join(fleet *f, uint32_t rank, rf_mesh **mesh)
{
    f->reports[rank].began = rf_now_ns();
    rf_result r = rf_mesh_create(&f->jobs[rank], mesh);
    rf_liveness_page liveness;
    if (r == RF_OK && f->liveness && !(f->without_liveness >> rank & 1) &&
        (r = rf_liveness_open(f->world, f->liveness, &liveness)) == RF_OK)
        rf_mesh_use_liveness(*mesh, &liveness);
    rank_note(f, rank, *mesh, r);
    f->reports[rank].stage = r == RF_OK ? 1 : 3;
    return *mesh;
}

void deafen(rf_mesh *mesh, uint32_t peer)
{
    struct sock_filter drop = BPF_STMT(BPF_RET | BPF_K, 0);
    const struct sock_fprog program = { 1, &drop };
    if (setsockopt(rf_channel_fd(mesh->assembly.channels[peer]), SOL_SOCKET, SO_ATTACH_FILTER, &program,
                   sizeof(program)) != 0)
        abort();
}

void rank_obey(fleet *f, uint32_t rank, rf_mesh *mesh, uint32_t *deaf)
{
    const uint32_t wish = f->deaf[rank] & ~*deaf;
    for (uint32_t r = 0; r < f->world; r++)
        if (wish >> r & 1 && mesh->assembly.channels[r]) deafen(mesh, r);
    *deaf |= wish;
}

bool rank_await_end(fleet *f, uint32_t rank, rf_mesh *mesh)
{
    uint32_t deaf = 0;
    for (;;) {
        const rf_result r = rf_mesh_status(mesh);
        if (r < 0) {
            rank_note(f, rank, mesh, r);
            f->reports[rank].stage = 2;
            return true;
        }
        if (f->stop) return false;
        rank_obey(f, rank, mesh, &deaf);
        sleep_ms(1);
    }
}

void rank_leave(fleet *f, uint32_t rank, rf_mesh **mesh)
{
    rf_mesh_destroy(mesh);
    f->reports[rank].stage = 3;
}

void steady_rank(fleet *f, uint32_t rank)
{
    rf_mesh *mesh;
    if (!rank_join(f, rank, &mesh)) return;
    rank_await_end(f, rank, mesh);
    rank_leave(f, rank, &mesh);
}
