/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A parameter server whose chief and workers ask for too much: what it gives them is bounded. And one in the middle of
 * a training to which strangers connect: every pull and push goes on.
 *
 *   test_parameter_server_limits [CONNECTIONS]     default 3000; the long run: ./dev hostile
 */
#include <arpa/inet.h>
#include <dirent.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "../../tools/ports.h"
#include "../support/clock.h"
#include "../support/folder.h"
#include "base/platform.h"
#include "server/link.h"
#include "server/server.h"
#include "tests/room.h"
#include "transport/channel/socket.h"
#include "transport/channel/wire.h"

#define SECOND UINT64_C(1000000000)
enum { CHIEF, WORKER, SERVER, WORLD, COUNT = 1000, FLOOD = 40, KEPT = 4 };

typedef struct server {
    pid_t pid;
    char folder[SCRATCH_PATH], key_file[48];
    rf_job job; /* with the key */
    uint16_t ports[WORLD];
    char *message; /* what it ended with; shared memory */
} server;

/* ---- a server of its own process, which keeps its parameters in host memory ---- */

static rf_result store_create(void *user, const void *optimizer, size_t size, const float *values,
                              const rf_ps_layout *layout, uint64_t updates, void **store)
{
    (void)optimizer;
    (void)size;
    (void)values;
    (void)layout;
    (void)updates;
    *store = user;
    return RF_OK;
}

static rf_result store_apply(void *store, const float *gradient, float *values)
{
    const uint64_t count = *(const uint64_t *)store;
    for (uint64_t i = 0; i < count; i++) values[i] -= gradient[i];
    return RF_OK;
}

static uint32_t store_slots(void *store)
{
    (void)store;
    return 0;
}

static void store_destroy(void *store)
{
    (void)store;
}

static uint64_t connections = 3000;

static server server_start(void)
{
    static const rf_ps_store_fns fns = {
        .create = store_create, .apply = store_apply, .num_slots = store_slots, .destroy = store_destroy
    };
    server s = { 0 };
    char config[400];
    scratch(s.folder);
    snprintf(s.key_file, sizeof(s.key_file), "%s/key", s.folder);
    assert_int_equal(rf_key_file_create(s.key_file), RF_OK);
    assert_true(free_ports(s.ports, WORLD));
    s.message = mmap(NULL, 1024, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(s.message != MAP_FAILED);
    snprintf(
        config, sizeof(config),
        "{\"cluster\": {\"chief\": [\"127.0.0.1:%u\"], \"worker\": [\"127.0.0.1:%u\"], \"ps\": [\"127.0.0.1:%u\"]}, "
        "\"task\": {\"type\": \"ps\", \"index\": 0}}",
        s.ports[CHIEF], s.ports[WORKER], s.ports[SERVER]);
    const rf_comm_params comm = { .key_file = s.key_file, .bootstrap_timeout = 20 };
    setenv("TF_CONFIG", config, 1);
    rf_cluster cluster;
    assert_int_equal(rf_ps_cluster_resolve(&comm, RF_TASK_PS, &cluster, &s.job), RF_OK);
    rf_cluster_free(&cluster);
    s.pid = fork();
    assert_true(s.pid >= 0);
    if (s.pid > 0) return s;
    static uint64_t count = COUNT;
    const rf_result r = rf_ps_server_run(&comm, &fns, &count);
    snprintf(s.message, 1024, "%s", r < 0 ? rf_error_message() : "ended well");
    _exit(0);
}

static void server_end(server *s)
{
    int status;
    assert_int_equal(waitpid(s->pid, &status, 0), s->pid);
    assert_int_equal(status, 0);
    unlink(s->key_file);
    rmdir(s->folder);
}

static rf_ps_link *connect_as(const server *s, const char *role, uint32_t rank)
{
    rf_job job = s->job;
    job.rank = rank;
    rf_hello hello;
    rf_channel *channel;
    rf_ps_link *link;
    assert_int_equal(rf_ps_hello(&job, role, &hello), RF_OK);
    if (rf_channel_connect(&job, "127.0.0.1", s->ports[SERVER], &hello, 20 * SECOND, &channel) < 0)
        fail_msg("%s", rf_error_message());
    assert_int_equal(rf_ps_link_create(channel, "the server", 5 * SECOND, &link), RF_OK);
    return link;
}

static rf_result await_message(rf_ps_link *link, rf_ps_message *m)
{
    return rf_ps_link_receive(link, 10 * SECOND, m);
}

static rf_ps_link *begin(const server *s, uint64_t count, rf_ps_message *answer)
{
    rf_ps_link *chief = connect_as(s, "chief", CHIEF);
    uint8_t layout[8];
    rf_put_u64(layout, count);
    const rf_ps_message init = {
        .type = RF_PS_INIT, .count = count, .servers = 1, .groups = 1, .payload = layout, .payload_size = sizeof(layout)
    };
    assert_int_equal(rf_ps_link_send(chief, &init), RF_OK);
    if (count == COUNT) {
        static const float values[COUNT];
        rf_ps_message m = { .type = RF_PS_VALUES };
        assert_int_equal(rf_ps_link_send_floats(chief, &m, values, COUNT), RF_OK);
    }
    assert_int_equal(await_message(chief, answer), RF_OK);
    return chief;
}

TEST(too_many_parameters)
{
    static const uint64_t counts[] = { UINT64_C(1) << 40, UINT64_C(1) << 62, UINT64_MAX };
    for (int i = 0; i < 3; i++) {
        server s = server_start();
        rf_ps_message answer;
        rf_ps_link *chief = begin(&s, counts[i], &answer);
        assert_int_equal(answer.type, RF_PS_FAILED);
        assert_int_equal(answer.result, RF_ERROR_INVALID_ARGUMENT);
        assert_non_null(strstr(answer.text, "more than this host's memory holds"));
        server_end(&s);
        assert_non_null(strstr(s.message, "more than this host's memory holds"));
        rf_ps_link_destroy(&chief);
    }
}

/* A chief that lies about what it sends is named, before anything of it is used. */
TEST(lying_chief)
{
    static const struct {
        uint64_t groups, first, slots;
        const char *text;
    } lies[] = { { 1, COUNT + 1, 0, "group 0 has 1001 parameters of the 1000 that are left" },
                 { 2, COUNT, 0, "2 groups of parameters in 8 bytes" },
                 { 1, COUNT, 9, "9 slots of an optimizer, at most 8" },
                 { 1, COUNT, 1, "sent 1 slots of an optimizer that has 0" } };
    static const float values[COUNT];
    for (size_t i = 0; i < sizeof(lies) / sizeof(lies[0]); i++) {
        server s = server_start();
        rf_ps_link *chief = connect_as(&s, "chief", CHIEF);
        rf_ps_message answer, m = { .type = RF_PS_VALUES };
        uint8_t layout[8];
        rf_put_u64(layout, lies[i].first);
        const rf_ps_message init = { .type = RF_PS_INIT,
                                     .count = COUNT,
                                     .servers = 1,
                                     .groups = lies[i].groups,
                                     .slots = lies[i].slots,
                                     .payload = layout,
                                     .payload_size = sizeof(layout) };
        assert_int_equal(rf_ps_link_send(chief, &init), RF_OK);
        for (int k = 0; k < 2 && lies[i].slots == 1; k++)
            assert_int_equal(rf_ps_link_send_floats(chief, &m, values, COUNT), RF_OK);
        assert_int_equal(await_message(chief, &answer), RF_OK);
        assert_int_equal(answer.type, RF_PS_FAILED);
        if (!strstr(answer.text, lies[i].text) || !strstr(answer.text, "chief 0 (127.0.0.1:"))
            fail_msg("'%s' instead of '%s'", answer.text, lies[i].text);
        server_end(&s);
        rf_ps_link_destroy(&chief);
    }
}

/* A worker that asks for a slot which the optimizer does not have loses its connection; the server goes on. */
TEST(missing_slot)
{
    server s = server_start();
    rf_ps_message m;
    rf_ps_link *chief = begin(&s, COUNT, &m), *own = connect_as(&s, "client", WORKER);
    assert_int_equal(rf_ps_link_send(own, &(rf_ps_message){ .type = RF_PS_PULL, .slot = 1 }), RF_OK);
    assert_int_equal(await_message(own, &m), RF_OK);
    assert_int_equal(m.type, RF_PS_FAILED);
    assert_non_null(strstr(m.text, "slot 1 of the optimizer was asked for, which has 0 here"));
    rf_ps_link_destroy(&own);
    assert_int_equal(rf_ps_link_send(chief, &(rf_ps_message){ .type = RF_PS_END }), RF_OK);
    server_end(&s);
    assert_string_equal(s.message, "ended well");
    rf_ps_link_destroy(&chief);
}

static int threads_of(const server *s)
{
    char path[64];
    snprintf(path, sizeof(path), "/proc/%d/task", (int)s->pid);
    DIR *d = opendir(path);
    int n = -2; /* . and .. */
    for (; d && readdir(d); n++) {}
    if (d) closedir(d);
    return n;
}

static bool is_served(rf_ps_link *link)
{
    rf_ps_message m = { .type = RF_PS_PULL };
    return rf_ps_link_send(link, &m) == RF_OK && await_message(link, &m) == RF_OK && m.type == RF_PS_VALUES &&
           m.payload_size == COUNT * sizeof(float);
}

TEST(too_many_connections)
{
    server s = server_start();
    rf_ps_message answer;
    rf_ps_link *chief = begin(&s, COUNT, &answer), *flood[FLOOD], *own;
    assert_int_equal(answer.type, RF_PS_READY);
    const int before = threads_of(&s);
    int served = 0;
    for (int i = 0; i < FLOOD; i++) {
        flood[i] = connect_as(&s, "client", WORKER);
        served += is_served(flood[i]);
    }
    assert_int_equal(served, KEPT);
    assert_true(threads_of(&s) <= before + KEPT);
    /* It takes nothing from the others; when old connections have gone there is room again. */
    own = connect_as(&s, "client", CHIEF);
    assert_true(is_served(own));
    rf_ps_link_destroy(&own);
    for (int i = 0; i < FLOOD; i++) rf_ps_link_destroy(&flood[i]);
    bool again = false;
    for (int i = 0; i < 100 && !again; i++) {
        nanosleep(&(struct timespec){ 0, 50000000 }, NULL);
        own = connect_as(&s, "client", WORKER);
        again = is_served(own);
        rf_ps_link_destroy(&own);
    }
    assert_true(again);
    /* Not a task of this cluster. */
    own = connect_as(&s, "worker", WORKER);
    assert_false(is_served(own));
    rf_ps_link_destroy(&own);
    assert_int_equal(rf_ps_link_send(chief, &(rf_ps_message){ .type = RF_PS_END }), RF_OK);
    server_end(&s);
    assert_string_equal(s.message, "ended well");
    rf_ps_link_destroy(&chief);
}

/* ---- strangers ---- */

typedef struct worker {
    rf_ps_link *link;
    atomic_bool stop;
    uint64_t pulls;
    double longest; /* seconds of a pull and a push */
    bool wrong;
} worker;

/* Pulls and pushes; parameters count down from 0 by what was pushed. */
static void *train(void *user)
{
    worker *w = user;
    static float gradient[COUNT];
    for (int i = 0; i < COUNT; i++) gradient[i] = 1;
    while (!w->stop && !w->wrong) {
        const double begin = seconds_now();
        rf_ps_message m = { .type = RF_PS_PULL };
        w->wrong |= !(rf_ps_link_send(w->link, &m) == RF_OK && await_message(w->link, &m) == RF_OK);
        if (w->wrong || m.type != RF_PS_VALUES || m.version != w->pulls ||
            ((const float *)m.payload)[COUNT - 1] != -(float)w->pulls) {
            w->wrong = true;
            break;
        }
        rf_ps_message push = { .type = RF_PS_PUSH, .version = m.version, .examples = 1 };
        w->wrong |= rf_ps_link_send_floats(w->link, &push, gradient, COUNT) != RF_OK ||
                    await_message(w->link, &m) != RF_OK || m.type != RF_PS_PUSHED;
        w->pulls++;
        if (seconds_now() - begin > w->longest) w->longest = seconds_now() - begin;
    }
    return NULL;
}

static int knock(const server *s, uint64_t i)
{
    const struct sockaddr_in to = { .sin_family = AF_INET,
                                    .sin_port = htons(s->ports[SERVER]),
                                    .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    const struct sockaddr_in from = { .sin_family = AF_INET,
                                      .sin_addr.s_addr = htonl(0x7f000002u + (uint32_t)i % 250) };
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0) return -1;
    if (bind(fd, (const struct sockaddr *)&from, sizeof(from)) != 0 ||
        connect(fd, (const struct sockaddr *)&to, sizeof(to)) != 0) {
        close(fd);
        return -1;
    }
    uint8_t noise[200];
    for (size_t k = 0; k < sizeof(noise); k++) noise[k] = (uint8_t)(i * 131 + k * k * 17);
    if (i % 3 == 0) memcpy(noise, "RFCH\1\0\2\1\270\0\0\0", 12);
    if (i % 4) (void)!send(fd, noise, 1 + i % sizeof(noise), MSG_NOSIGNAL | MSG_DONTWAIT);
    return fd;
}

TEST(strangers)
{
    enum { HELD = 400 };
    server s = server_start();
    rf_ps_message answer;
    rf_ps_link *chief = begin(&s, COUNT, &answer);
    assert_int_equal(answer.type, RF_PS_READY);
    worker w = { .link = connect_as(&s, "client", WORKER) };
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, train, &w), 0);
    int held[HELD];
    uint64_t refused = 0;
    for (int i = 0; i < HELD; i++) held[i] = -1;
    const double start = seconds_now();
    double beat = start;
    for (uint64_t i = 0; i < connections; i++) {
        int *place = &held[i % HELD];
        if (*place >= 0) rf_socket_reset(*place);
        *place = knock(&s, i);
        refused += *place < 0;
        if (seconds_now() - beat < 0.5) continue;
        rf_ps_link_send_heartbeat(chief); /* the chief is alive */
        beat = seconds_now();
    }
    const double seconds = seconds_now() - start;
    const int threads = threads_of(&s);
    w.stop = true;
    pthread_join(thread, NULL);
    print_message("%llu hostile connections in %.1f s: %llu pulls and pushes, the longest %.3f s\n",
                  (unsigned long long)connections, seconds, (unsigned long long)w.pulls, w.longest);
    assert_false(w.wrong);
    assert_int_equal(refused, 0);
    assert_true(w.pulls >= 10);
    assert_true(w.longest < 2);
    assert_true(threads < 10); /* strangers have none */
    for (int i = 0; i < HELD; i++)
        if (held[i] >= 0) close(held[i]);
    rf_ps_link_destroy(&w.link);
    assert_int_equal(rf_ps_link_send(chief, &(rf_ps_message){ .type = RF_PS_END }), RF_OK);
    server_end(&s);
    rf_ps_link_destroy(&chief);
}

TEST_PROGRAM(parameter_server_limits)
{
    if (argc > 1) connections = strtoull(argv[1], NULL, 10);
    return room_tests_run(own_tests, NULL, NULL);
}
