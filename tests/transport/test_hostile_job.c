/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A job that communicates as in training while strangers try to reach it: nobody listens any more, and it goes on as if
 * they were not there.
 *
 *   test_hostile_job [CONNECTIONS]     default 3000; the long run: ./dev hostile
 */
#include <dirent.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../support/folder.h"
#include "channel_support.h"
#include "ranks.h"
#include "tests/room.h"

enum { RANKS = 3, FLOATS = 100000, MAX_PORTS = 64, LISTENING = 10, ESTABLISHED = 1 };

static uint64_t connections = 3000;

typedef struct board { /* shared memory */
    _Atomic pid_t pids[RANKS];
    _Atomic uint64_t rounds[RANKS];
    _Atomic bool stop;
    _Atomic uint64_t longest_us; /* a round of rank 0, once all had begun */
} board;

static int train(rf_comm *comm, void *user)
{
    board *b = user;
    const uint32_t rank = rf_comm_rank(comm);
    static float x[FLOATS];
    atomic_store(&b->pids[rank], getpid());
    for (int32_t stop = 0; !stop;) {
        const double begin = seconds_now();
        for (int i = 0; i < FLOATS; i++) x[i] = (float)(rank + (uint32_t)i % 7);
        EXPECT(rf_comm_all_reduce(comm, x, x, FLOATS, RF_F32, RF_COMM_SUM, NULL) == RF_OK);
        for (int i = 0; i < FLOATS; i++) EXPECT(x[i] == (float)(3 + 3 * (i % 7)));
        stop = atomic_load(&b->stop);
        EXPECT(rf_comm_all_reduce(comm, &stop, &stop, 1, RF_I32, RF_COMM_MAX, NULL) == RF_OK);
        const uint64_t us = (uint64_t)((seconds_now() - begin) * 1e6);
        if (rank == 0 && atomic_fetch_add(&b->rounds[0], 1) > 0 && us > b->longest_us) b->longest_us = us;
        if (rank > 0) atomic_fetch_add(&b->rounds[rank], 1);
    }
    return 0;
}

static bool owns(pid_t pid, unsigned long inode)
{
    char path[64], wanted[64];
    bool found = false;
    snprintf(path, sizeof(path), "/proc/%d/fd", (int)pid);
    snprintf(wanted, sizeof(wanted), "socket:[%lu]", inode);
    DIR *d = opendir(path);
    for (struct dirent *e; d && !found && (e = readdir(d));) {
        char name[320], target[64] = "";
        snprintf(name, sizeof(name), "%s/%s", path, e->d_name);
        if (readlink(name, target, sizeof(target) - 1) > 0) found = strcmp(target, wanted) == 0;
    }
    if (d) closedir(d);
    return found;
}

/* Local ports of the ranks' TCP sockets in a state. */
static uint32_t ports_of(const board *b, unsigned wanted, uint16_t ports[MAX_PORTS])
{
    uint32_t count = 0;
    static const char *const tables[] = { "/proc/net/tcp", "/proc/net/tcp6" };
    for (int t = 0; t < 2; t++) {
        char line[512];
        FILE *file = fopen(tables[t], "r");
        while (file && fgets(line, sizeof(line), file)) {
            unsigned port, state;
            unsigned long inode;
            if (sscanf(line, "%*u: %*[0-9A-F]:%x %*[0-9A-F]:%*x %x %*x:%*x %*x:%*x %*x %*u %*u %lu", &port, &state,
                       &inode) != 3)
                continue;
            for (int r = 0; r < RANKS && state == wanted && count < MAX_PORTS; r++)
                if (owns(b->pids[r], inode)) ports[count++] = (uint16_t)port;
        }
        if (file) fclose(file);
    }
    return count;
}

TEST(test_running_job)
{
    board *b = mmap(NULL, sizeof(*b), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(b != MAP_FAILED);
    char directory[SCRATCH_PATH], key[64];
    scratch(directory);
    snprintf(key, sizeof(key), "%s/key", directory);
    assert_int_equal(rf_key_file_create(key), RF_OK);
    fflush(NULL);
    const pid_t job = fork();
    assert_true(job >= 0);
    if (job == 0)
        _exit(ranks_run(&(ranks_params){ .world_size = RANKS, .key_file = key, .limit = 600 }, train, b).failures);
    const double end = seconds_now() + 30;
    for (int r = 0; r < RANKS; r++)
        while (atomic_load(&b->rounds[r]) < 3 && seconds_now() < end) usleep(1000);
    uint16_t listening[MAX_PORTS], ports[MAX_PORTS];
    const uint32_t open_doors = ports_of(b, LISTENING, listening), num = ports_of(b, ESTABLISHED, ports);
    const uint64_t before = b->rounds[0];
    const double begin = seconds_now();
    uint64_t let_in = 0;
    for (uint64_t i = 0; i < connections && num > 0; i++) {
        const int fd = raw_connect(ports[i % num], 2 + (unsigned)(i % 250));
        if (fd < 0) continue;
        let_in++;
        close(fd);
    }
    while (b->rounds[0] < before + 3 && seconds_now() < begin + 30) usleep(1000);
    const uint64_t rounds = b->rounds[0] - before;
    const double seconds = seconds_now() - begin;
    b->stop = true;
    int status;
    assert_int_equal(waitpid(job, &status, 0), job);
    unlink(key);
    rmdir(directory);
    print_message(
        "%llu hostile connections to %u ports of a job of %d in %.1f s, %llu rounds meanwhile, the longest %.3f s\n",
        (unsigned long long)connections, num, RANKS, seconds, (unsigned long long)rounds, (double)b->longest_us * 1e-6);
    assert_int_equal(status, 0); /* every sum was right */
    assert_true(num >= 2 * RANKS);
    assert_int_equal(open_doors, 0);
    assert_int_equal(let_in, 0);
    assert_true(rounds >= 3);
    assert_true(b->longest_us < 2000000);
    munmap(b, sizeof(*b));
}

TEST_PROGRAM(hostile_job)
{
    if (argc > 1) connections = strtoull(argv[1], NULL, 10);
    return room_tests_run(own_tests, NULL, NULL);
}
