/* SPDX-License-Identifier: Apache-2.0 */
/* Below the communicator: strangers at the door of a data connection, and memory that has to be registered. */
#include <netinet/in.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "../support/port.h"
#include "ranks.h"
#include "tests/room.h"
#include "transport/collective/comm_engine.h"
#include "transport/fabric/internal.h"

/* A second mesh between the ranks of a communicator. */
static rf_result second_mesh(rf_comm *comm, uint16_t port, double bootstrap, rf_job *job, rf_mesh **mesh)
{
    const rf_comm_params p = { .world_size = rf_comm_world_size(comm),
                               .rank = rf_comm_rank(comm),
                               .insecure = true,
                               .master_address = "127.0.0.1",
                               .bind_address = "127.0.0.1",
                               .master_port = port,
                               .bootstrap_timeout = bootstrap,
                               .job = "second" };
    const rf_result r = rf_job_resolve(&p, NULL, NULL, job);
    return r < 0 ? r : rf_mesh_create(job, mesh);
}

/* ---- strangers ---- */

/* 1: connected, 0: turned away, -1: no answer. */
static int knock(const rf_fabric *f, const rf_fabric_card *door, const void *data, size_t size)
{
    struct fid_fabric *fabric;
    struct fid_domain *domain;
    struct fid_eq *events;
    struct fid_cq *completions;
    struct fid_ep *endpoint;
    struct fi_eq_attr eq = { .wait_obj = FI_WAIT_UNSPEC };
    struct fi_cq_attr cq = { .size = 16, .format = FI_CQ_FORMAT_MSG };
    struct fi_info *info = fi_dupinfo(f->info);
    info->dest_addrlen = door->address_size;
    info->dest_addr = malloc(door->address_size);
    memcpy(info->dest_addr, door->address, door->address_size);
    int answer = -1;
    if (fi_fabric(info->fabric_attr, &fabric, NULL) || fi_eq_open(fabric, &eq, &events, NULL) ||
        fi_domain(fabric, info, &domain, NULL) || fi_cq_open(domain, &cq, &completions, NULL) ||
        fi_endpoint(domain, info, &endpoint, NULL) || fi_ep_bind(endpoint, &events->fid, 0) ||
        fi_ep_bind(endpoint, &completions->fid, FI_SEND | FI_RECV) || fi_enable(endpoint) ||
        fi_connect(endpoint, door->address, data, size))
        return -2;
    for (const double end = seconds_now() + 1; answer < 0 && seconds_now() < end; usleep(1000)) {
        struct fi_eq_cm_entry entry;
        struct fi_eq_err_entry error = { 0 };
        uint32_t event;
        const ssize_t n = fi_eq_read(events, &event, &entry, sizeof(entry), 0);
        if (n == -FI_EAVAIL && fi_eq_readerr(events, &error, 0) > 0) answer = 0;
        if (n > 0) answer = event == FI_CONNECTED;
    }
    fi_close(&endpoint->fid);
    fi_close(&completions->fid);
    fi_close(&domain->fid);
    fi_close(&events->fid);
    fi_close(&fabric->fid);
    fi_freeinfo(info);
    return answer;
}

static void throw_bytes(const rf_fabric_card *door)
{
    static const char garbage[300] = "GET / HTTP/1.0\r\n\r\n";
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (connect(fd, (const struct sockaddr *)(const void *)door->address, (socklen_t)door->address_size) == 0)
        send(fd, garbage, sizeof(garbage), MSG_NOSIGNAL);
    close(fd);
}

/* Rank 1 learns the address of rank 0, but comes with tokens that are none. */
static int strangers(rf_comm *comm, void *user)
{
    uint16_t port;
    memcpy(&port, user, sizeof(port));
    rf_job job;
    rf_mesh *mesh;
    EXPECT(second_mesh(comm, port, 3, &job, &mesh) == RF_OK);
    const bool peers[2] = { true, true };
    if (rf_comm_rank(comm) == 0) {
        rf_fabric *fabric;
        EXPECT(rf_fabric_create(&(rf_fabric_params){ .job = &job, .mesh = mesh, .peers = peers, .depth = 8 },
                                &fabric) == RF_ERROR_TIMEOUT);
        EXPECT(strstr(rf_error_message(), "rank 1"));
        EXPECT(rf_mesh_status(mesh) == RF_OK);
        rf_mesh_destroy(&mesh);
        return 0;
    }
    rf_shared *shared;
    EXPECT(rf_shared_create(&(rf_shared_params){ .job = &job, .mesh = mesh, .peers = peers, .depth = 8 }, &shared) ==
           RF_OK);
    EXPECT(rf_shared_pairs(shared) == 0);
    rf_shared_destroy(&shared);
    rf_fabric f = { .job = &job, .mesh = mesh, .rank = 1, .world_size = 2, .wait_fd = -1, .wake_fd = -1 };
    /* Where rank 0 would connect to: nothing listens there. */
    const struct sockaddr_in nowhere = { .sin_family = AF_INET,
                                         .sin_port = htons(free_port()),
                                         .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    rf_fabric_card mine = { .address_size = sizeof(nowhere) }, cards[2];
    memcpy(mine.address, &nowhere, sizeof(nowhere));
    size_t sizes[2];
    EXPECT(rf_fabric_choose(&f) == RF_OK);
    EXPECT(rf_mesh_exchange(mesh, &mine, sizeof(mine), cards, sizeof(mine), sizes) == RF_OK);
    const rf_fabric_token token = { RF_FABRIC_TOKEN_MAGIC, 1, 0, { 1, 2, 3 } };
    EXPECT(knock(&f, &cards[0], &token, sizeof(token)) == 0);
    EXPECT(knock(&f, &cards[0], &token, 6) == 0);
    EXPECT(knock(&f, &cards[0], NULL, 0) == 0);
    for (int i = 0; i < 5; i++) throw_bytes(&cards[0]);
    fi_freeinfo(f.info);
    rf_mesh_destroy(&mesh);
    return 0;
}

TEST(test_strangers)
{
    assert_int_equal(ranks_run_with_port(2, strangers), 0);
}

/* ---- registered memory ---- */

static int registered(rf_comm *comm, void *user)
{
    enum { COUNT = 300001 };
    uint16_t port;
    memcpy(&port, user, sizeof(port));
    rf_job job;
    rf_mesh *mesh;
    rf_engine *engine;
    static int32_t in[COUNT], out[COUNT];
    EXPECT(second_mesh(comm, port, 20, &job, &mesh) == RF_OK);
    EXPECT(rf_engine_create(&job, mesh, true, &engine) == RF_OK);
    for (uint64_t serial = 1; serial < 9; serial++) {
        const uint64_t count = serial % 2 ? COUNT : 5;
        for (uint64_t i = 0; i < count; i++) in[i] = (int32_t)i + (int32_t)rf_comm_rank(comm);
        const rf_call call = { .task = { .kind = RF_COLLECTIVE_ALL_REDUCE,
                                         .algorithm = serial < 5 ? RF_COMM_RING : RF_COMM_RECURSIVE_DOUBLING,
                                         .rank = rf_comm_rank(comm),
                                         .world_size = rf_comm_world_size(comm),
                                         .count = count },
                               .dtype = RF_I32,
                               .op = RF_COMM_SUM,
                               .input = in,
                               .output = out,
                               .name = "",
                               .serial = serial };
        EXPECT(rf_engine_run(engine, &call) == RF_OK);
        for (uint64_t i = 0; i < count; i++) EXPECT(out[i] == (int32_t)i * 3 + 3);
    }
    rf_mesh_destroy(&mesh);
    rf_engine_destroy(&engine);
    return 0;
}

TEST(test_registered)
{
    assert_int_equal(ranks_run_with_port(3, registered), 0);
}

/* ---- signals ---- */

static void mine(int number)
{
    (void)number;
}

/* A communicator leaves SIGTERM to end the process at once, and a program's own handler where it is. */
static int signals(rf_comm *comm, void *user)
{
    (void)user;
    static const int numbers[] = { SIGTERM, SIGINT, SIGSEGV, SIGBUS, SIGILL };
    struct sigaction now;
    for (int i = 0; i < 5; i++) {
        EXPECT(sigaction(numbers[i], NULL, &now) == 0);
        EXPECT(numbers[i] == SIGINT ? now.sa_handler == mine : now.sa_handler == SIG_DFL);
    }
    return 0;
}

TEST(test_signals)
{
    static const int cmocka_uses[] = { SIGSEGV, SIGBUS, SIGILL }; /* in the parent; not what this is about */
    struct sigaction before[3];
    for (int i = 0; i < 3; i++) {
        sigaction(cmocka_uses[i], NULL, &before[i]);
        signal(cmocka_uses[i], SIG_DFL);
    }
    signal(SIGINT, mine);
    assert_int_equal(ranks_run(&(ranks_params){ .world_size = 2 }, signals, NULL).failures, 0);
    signal(SIGINT, SIG_DFL);
    for (int i = 0; i < 3; i++) sigaction(cmocka_uses[i], &before[i], NULL);
}

TEST_PROGRAM(fabric)
{
    setenv("RINGFIRE_SHARED_MEMORY", "0", 1);
    return room_tests_run(own_tests, NULL, NULL);
}
