/* SPDX-License-Identifier: Apache-2.0 */
/* Data through memory that ranks of one host share: the rings, what a lying peer can do (nothing but to be named), who
 * gets the memory, and that results have the bits that they have over the network. */
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/philox.h"
#include "ranks.h"
#include "tests/room.h"
#include "transport/mesh/internal.h"
#include "transport/shared/internal.h"

/* ---- rings ---- */

/* Both sides of one, in one process. */
typedef struct ends {
    rf_shared_segment mine, theirs;
    rf_ring out, in;
} ends;

static ends both_ends(void)
{
    ends e;
    int fd;
    assert_int_equal(rf_shared_segment_create(&e.mine, &fd), RF_OK);
    assert_int_equal(rf_shared_segment_open(&e.theirs, fd), RF_OK);
    close(fd);
    e.out = rf_shared_segment_ring(&e.mine, 0, true);
    e.in = rf_shared_segment_ring(&e.theirs, 1, false);
    return e;
}

static void close_ends(ends *e)
{
    rf_shared_segment_close(&e->mine);
    rf_shared_segment_close(&e->theirs);
}

static rf_result write_bytes(rf_ring *ring, const void *data, size_t size)
{
    const size_t half = size / 2;
    uint8_t *bytes;
    memcpy(&bytes, &data, sizeof(bytes));
    const struct iovec parts[2] = { { bytes, half }, { bytes + half, size - half } };
    return rf_ring_write(ring, parts, 2);
}

TEST(test_messages)
{
    ends e = both_ends();
    static uint8_t pattern[RF_SHARED_RING / 2 + 256];
    for (size_t i = 0; i < sizeof(pattern); i++) pattern[i] = (uint8_t)(i * 7 + i / 251);
    const size_t limit = rf_ring_limit(RF_SHARED_RING);
    const uint8_t *data;
    size_t size, sent[64], first = 0, last = 0;
    uint64_t end, x = 1, moved = 0;
    for (int i = 0; i < 3000; i++) {
        x = x * 6364136223846793005u + 1442695040888963407u;
        const size_t n = i % 50 == 0 ? limit : (size_t)(x >> 33) % (i % 3 == 0 ? 300000 : 200);
        if (last - first < 64 && write_bytes(&e.out, pattern + n % 191, n) == RF_OK) {
            sent[last++ % 64] = n;
            moved += n;
            continue;
        }
        for (; first < last; first++) { /* full: all of them come out, in order */
            const size_t expected = sent[first % 64];
            assert_true(rf_ring_has_message(&e.in));
            assert_int_equal(rf_ring_read(&e.in, &data, &size, &end), RF_OK);
            assert_int_equal(size, expected);
            assert_int_equal((uintptr_t)data % RF_RING_LINE, 0);
            assert_memory_equal(data, pattern + expected % 191, expected);
            rf_ring_release(&e.in, end);
        }
        assert_int_equal(rf_ring_read(&e.in, &data, &size, &end), RF_END);
        assert_true(rf_ring_has_room(&e.out));
    }
    assert_true(moved > 20 * RF_SHARED_RING);
    assert_int_equal(write_bytes(&e.out, pattern, limit + 1), RF_ERROR_INTERNAL);
    close_ends(&e);
}

/* Memory that is read but still in use is not written over. */
TEST(test_borrowed)
{
    ends e = both_ends();
    static uint8_t block[1 << 18];
    const uint8_t *held, *data;
    size_t size;
    uint64_t first, end;
    memset(block, 7, sizeof(block));
    assert_int_equal(write_bytes(&e.out, block, sizeof(block)), RF_OK);
    assert_int_equal(rf_ring_read(&e.in, &held, &size, &first), RF_OK);
    memset(block, 9, sizeof(block));
    int more = 0;
    while (write_bytes(&e.out, block, sizeof(block)) == RF_OK) more++;
    assert_int_equal(more, 6);
    for (int i = 0; i < more; i++) assert_int_equal(rf_ring_read(&e.in, &data, &size, &end), RF_OK);
    assert_int_equal(rf_ring_read(&e.in, &data, &size, &end), RF_END);
    assert_false(rf_ring_has_room(&e.out));
    for (size_t i = 0; i < sizeof(block); i++) assert_int_equal(held[i], 7);
    rf_ring_release(&e.in, first);
    assert_true(rf_ring_has_room(&e.out));
    assert_int_equal(write_bytes(&e.out, block, sizeof(block)), RF_OK);
    close_ends(&e);
}

/* ---- lies, one by one ---- */

static void expect_refused(uint64_t written, uint64_t size)
{
    ends e = both_ends();
    const uint8_t *data;
    size_t n;
    uint64_t end;
    for (int i = 0; i < 2; i++) { /* one message was read, one is still to come */
        assert_int_equal(write_bytes(&e.out, "honest", 6), RF_OK);
        if (i == 0) assert_int_equal(rf_ring_read(&e.in, &data, &n, &end), RF_OK);
        if (i == 0) rf_ring_release(&e.in, end);
    }
    memcpy(e.mine.data[0] + 2 * RF_RING_LINE, &size, sizeof(size));
    atomic_store(&e.mine.head->rings[0].written, written);
    assert_int_equal(rf_ring_read(&e.in, &data, &n, &end), RF_ERROR_CORRUPT_DATA);
    close_ends(&e);
}

TEST(test_lying_writer)
{
    const uint64_t honest = 4 * RF_RING_LINE;
    expect_refused(0, 6);                             /* back */
    expect_refused(honest + RF_SHARED_RING, 6);       /* more than there is room for */
    expect_refused(UINT64_MAX - RF_RING_LINE + 1, 6); /* far ahead */
    expect_refused(honest + 1, 6);                    /* not whole lines */
    expect_refused(honest, RF_RING_LINE + 1);         /* a message longer than what was written */
    expect_refused(honest, RF_SHARED_RING);           /* longer than the memory */
    expect_refused(honest, UINT64_MAX);               /* so long that sums wrap */
    expect_refused(honest, UINT64_MAX - RF_RING_LINE);
}

TEST(test_lying_reader)
{
    static const uint64_t lies[] = { 100 * RF_RING_LINE, UINT64_MAX, 1 + (UINT64_C(1) << 63), 0 };
    static uint8_t block[1 << 19];
    for (size_t i = 0; i < sizeof(lies) / sizeof(lies[0]); i++) {
        ends e = both_ends();
        const uint8_t *data;
        size_t n;
        uint64_t end;
        assert_int_equal(write_bytes(&e.out, block, sizeof(block)), RF_OK);
        assert_int_equal(rf_ring_read(&e.in, &data, &n, &end), RF_OK);
        rf_ring_release(&e.in, end);
        while (write_bytes(&e.out, block, sizeof(block)) == RF_OK) {} /* looks where the reader is */
        atomic_store(&e.theirs.head->rings[0].read, lies[i]);
        assert_int_equal(write_bytes(&e.out, block, sizeof(block)), RF_ERROR_CORRUPT_DATA);
        close_ends(&e);
    }
}

TEST(test_lying_memory)
{
    rf_shared_segment s;
    const off_t whole = (off_t)sysconf(_SC_PAGESIZE) + 2 * (off_t)RF_SHARED_RING;
    for (int how = 0; how < 4; how++) {
        const int fd = memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING);
        assert_true(fd >= 0);
        assert_int_equal(ftruncate(fd, how == 0 ? whole : how == 1 ? whole - 4096 : how == 2 ? whole : 0), 0);
        if (how != 0)
            assert_int_equal(fcntl(fd, F_ADD_SEALS, how == 2 ? F_SEAL_SHRINK | F_SEAL_WRITE : F_SEAL_SHRINK), 0);
        assert_int_equal(rf_shared_segment_open(&s, fd), RF_ERROR_CORRUPT_DATA);
        assert_null(s.head);
        close(fd);
    }
    int pipes[2];
    assert_int_equal(pipe(pipes), 0);
    assert_int_equal(rf_shared_segment_open(&s, pipes[0]), RF_ERROR_CORRUPT_DATA);
    close(pipes[0]);
    close(pipes[1]);
    /* And the other way round: who gets ours cannot make it shorter. */
    int fd;
    assert_int_equal(rf_shared_segment_create(&s, &fd), RF_OK);
    assert_int_not_equal(ftruncate(fd, 0), 0);
    close(fd);
    rf_shared_segment_close(&s);
}

/* ---- tokens ---- */

TEST(test_tokens)
{
    static rf_mesh meshes[2];
    static rf_shared_card cards[3] = { { .nonce = { 1 } }, { .nonce = { 2 } }, { .nonce = { 3 } } };
    rf_shared sides[2];
    for (uint32_t i = 0; i < 2; i++) {
        meshes[i].assembly.rank = i;
        meshes[i].secure = true;
        meshes[i].link_secret[5] = 77;
        sides[i] = (rf_shared){ .mesh = &meshes[i], .rank = i, .world_size = 3, .cards = cards };
    }
    rf_shared_token honest, token;
    rf_shared_make_token(&sides[1], RF_SHARED_TOKEN_MAGIC, 1, 0, &honest);
    assert_int_equal(rf_shared_check_token(&sides[0], RF_SHARED_TOKEN_MAGIC, &honest, sizeof(honest)), 1);
    assert_int_equal(rf_shared_check_token(&sides[1], RF_SHARED_TOKEN_MAGIC, &honest, sizeof(honest)),
                     UINT32_MAX); /* sent back */
    assert_int_equal(rf_shared_check_token(&sides[0], RF_SHARED_TOKEN_MAGIC, &honest, sizeof(honest) - 1), UINT32_MAX);
    assert_int_equal(rf_shared_check_token(&sides[0], RF_SHARED_TOKEN_MAGIC, &honest, 0), UINT32_MAX);
    for (size_t i = 0; i < sizeof(token); i++) {
        token = honest;
        ((uint8_t *)&token)[i] ^= 1;
        assert_int_equal(rf_shared_check_token(&sides[0], RF_SHARED_TOKEN_MAGIC, &token, sizeof(token)), UINT32_MAX);
    }
    cards[1].nonce[3] = 9; /* of another start */
    assert_int_equal(rf_shared_check_token(&sides[0], RF_SHARED_TOKEN_MAGIC, &honest, sizeof(honest)), UINT32_MAX);
    meshes[0].link_secret[5] = 78; /* another key */
    rf_shared_make_token(&sides[1], RF_SHARED_TOKEN_MAGIC, 1, 0, &honest);
    assert_int_equal(rf_shared_check_token(&sides[0], RF_SHARED_TOKEN_MAGIC, &honest, sizeof(honest)), UINT32_MAX);
}

/* ---- local_strangers at the local socket ---- */

static void knock(const rf_shared_card *card, const void *data, size_t size)
{
    struct sockaddr_un address = { .sun_family = AF_UNIX };
    size_t used = 1 + (size_t)snprintf(address.sun_path + 1, sizeof(address.sun_path) - 1, "ringfire-");
    for (size_t i = 0; i < sizeof(card->name); i++, used += 2)
        snprintf(address.sun_path + used, sizeof(address.sun_path) - used, "%02x", card->name[i]);
    const int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    if (connect(fd, (struct sockaddr *)&address, (socklen_t)(offsetof(struct sockaddr_un, sun_path) + used)) != 0)
        abort();
    if (size > 0) send(fd, data, size, MSG_NOSIGNAL);
    close(fd);
}

/* Rank 1 knows the name of rank 0's socket, says that it has called and later that it has memory, but its tokens are
 * none. */
static int local_strangers(rf_comm *comm, void *user)
{
    uint16_t port;
    memcpy(&port, user, sizeof(port));
    const rf_comm_params p = { .world_size = 2,
                               .rank = rf_comm_rank(comm),
                               .insecure = true,
                               .master_address = "127.0.0.1",
                               .bind_address = "127.0.0.1",
                               .master_port = port,
                               .job = "second" };
    rf_job job;
    rf_mesh *mesh;
    EXPECT(rf_job_resolve(&p, NULL, NULL, &job) == RF_OK && rf_mesh_create(&job, &mesh) == RF_OK);
    const bool peers[2] = { true, true };
    if (rf_comm_rank(comm) == 0) {
        rf_shared *shared;
        EXPECT(rf_shared_create(&(rf_shared_params){ .job = &job, .mesh = mesh, .peers = peers, .depth = 4 },
                                &shared) == RF_OK);
        EXPECT(!rf_shared_has(shared, 1) && rf_shared_pairs(shared) == 0 && !rf_shared_has_all(shared));
        rf_mesh_destroy(&mesh);
        rf_shared_destroy(&shared);
        return 0;
    }
    const rf_shared_card mine = { .layout = RF_SHARED_LAYOUT };
    rf_shared_card cards[2];
    size_t sizes[2];
    uint64_t set[RF_MAX_WORLD / 64] = { 1 }, sets[2][RF_MAX_WORLD / 64];
    EXPECT(rf_mesh_exchange(mesh, &mine, sizeof(mine), cards, sizeof(mine), sizes) == RF_OK);
    rf_shared_token token = { RF_SHARED_TOKEN_MAGIC, 1, 0, { 1, 2, 3 } };
    for (int i = 0; i < 20; i++) {
        knock(&cards[0], NULL, 0);
        knock(&cards[0], "GET / HTTP/1.0", 14);
        knock(&cards[0], &token, sizeof(token) - (size_t)i % 2);
    }
    for (int i = 0; i < 3; i++) {
        if (i == 2) set[0] = 2; /* its pairs go over the network */
        EXPECT(rf_mesh_exchange(mesh, set, sizeof(set), sets, sizeof(set), sizes) == RF_OK);
    }
    EXPECT(sets[0][0] == 0);
    rf_mesh_destroy(&mesh);
    return 0;
}

TEST(test_local_strangers)
{
    assert_int_equal(ranks_run_with_port(2, local_strangers), 0);
}

/* ---- signs of life ---- */

/* In a large job every rank writes its line, and finds those of the others, also of ranks that it is not connected to.
 */
static int board_reader(rf_comm *comm, void *user)
{
    uint16_t port;
    memcpy(&port, user, sizeof(port));
    const uint32_t world = rf_comm_world_size(comm), rank = rf_comm_rank(comm);
    const rf_comm_params p = { .world_size = world,
                               .rank = rank,
                               .insecure = true,
                               .master_address = "127.0.0.1",
                               .bind_address = "127.0.0.1",
                               .master_port = port,
                               .peer_timeout = 2,
                               .job = "second" };
    rf_job job;
    rf_mesh *mesh;
    EXPECT(rf_job_resolve(&p, NULL, NULL, &job) == RF_OK && rf_mesh_create(&job, &mesh) == RF_OK);
    job.network_only = rank == 3;
    bool peers[RANKS_MAX] = { false };
    peers[(rank + 1) % world] = peers[(rank + world - 1) % world] = true;
    rf_shared *shared;
    EXPECT(rf_shared_create(&(rf_shared_params){ .job = &job, .mesh = mesh, .peers = peers, .depth = 4 }, &shared) ==
           RF_OK);
    EXPECT(rf_mesh_wants_liveness(mesh) && mesh->has_liveness == (rank != 3));
    rf_mesh_begin_operation(mesh, rank + 5, "test");
    rf_mesh_finish_operation(mesh, rank + 5);
    const double end = seconds_now() + 5;
    for (uint32_t r = 0; mesh->has_liveness && r < world; r++)
        while (r != 3 && rf_mesh_peer_operation(mesh, r) != r + 5 && seconds_now() < end)
            nanosleep(&(struct timespec){ 0, 1000000 }, NULL);
    for (uint32_t r = 0; mesh->has_liveness && r < world; r++)
        EXPECT((mesh->liveness.lines[r].beat_ns != 0) == (r != 3) &&
               (r == 3 || rf_mesh_peer_operation(mesh, r) == r + 5));
    uint8_t mine = 1, all[RANKS_MAX]; /* nobody leaves before all have looked */
    size_t sizes[RANKS_MAX];
    EXPECT(rf_mesh_exchange(mesh, &mine, 1, all, 1, sizes) == RF_OK);
    rf_mesh_destroy(&mesh);
    rf_shared_destroy(&shared);
    return 0;
}

TEST(test_liveness_page)
{
    assert_int_equal(ranks_run_with_port(RANKS_MAX, board_reader), 0);
}

/* ---- which way is chosen ---- */

static int expect_way(rf_comm *comm, void *user)
{
    const char *const *ways = user;
    const char *way = ways[rf_comm_rank(comm)];
    if (strcmp(rf_comm_transport(comm), way) != 0) {
        fprintf(stderr, "rank %u: data goes over %s, not %s\n", rf_comm_rank(comm), rf_comm_transport(comm), way);
        return 1;
    }
    float x[1000];
    for (int i = 0; i < 1000; i++) x[i] = (float)rf_comm_rank(comm);
    EXPECT(rf_comm_all_reduce(comm, x, x, 1000, RF_F32, RF_COMM_SUM, NULL) == RF_OK);
    const uint32_t world = rf_comm_world_size(comm);
    EXPECT(x[999] == (float)(world * (world - 1) / 2));
    return 0;
}

#define ALL "shared memory"
#define BOTH "shared memory, tcp"

TEST(test_chosen)
{
    static const char *two[] = { ALL, ALL }, *four[] = { ALL, ALL, ALL, ALL }, *network[] = { "tcp", "tcp", "tcp" };
    static const char *spread[] = { BOTH, BOTH, "tcp" }, *single[] = { "tcp", BOTH, BOTH };
    assert_int_equal(ranks_run(&(ranks_params){ .world_size = 2 }, expect_way, two).failures, 0);
    assert_int_equal(ranks_run(&(ranks_params){ .world_size = 4 }, expect_way, four).failures, 0);
    assert_int_equal(ranks_run(&(ranks_params){ .world_size = 3, .network_only = 7 }, expect_way, network).failures, 0);
    /* One that does not want to; the others share all the same. */
    assert_int_equal(ranks_run(&(ranks_params){ .world_size = 3, .network_only = 1 }, expect_way, single).failures, 0);
    if (geteuid() == 0)
        assert_int_equal(ranks_run(&(ranks_params){ .world_size = 3, .hosts = 2 }, expect_way, spread).failures, 0);
}

/* ---- the same bits as over the network ---- */

enum { NUM_COUNTS = 4, MAX_FLOATS = 300007 };

typedef struct hashes {
    uint64_t of[RF_COMM_ALGORITHM_COUNT][NUM_COUNTS][2];
} hashes;

static int compute_hashes(rf_comm *comm, void *user)
{
    static const uint64_t counts[NUM_COUNTS] = { 1, 77, 20011, MAX_FLOATS };
    static float x[MAX_FLOATS];
    hashes *h = user;
    for (int a = RF_COMM_AUTO; a < RF_COMM_ALGORITHM_COUNT; a++)
        for (int c = 0; c < NUM_COUNTS; c++)
            for (int wire = 0; wire < 2; wire++) {
                for (uint64_t i = 0; i < counts[c]; i++) { /* sums round, each order of additions in its own way */
                    const uint32_t mixed =
                        (uint32_t)(i * 2654435761u) ^ (rf_comm_rank(comm) + 1) * 40503u * (uint32_t)i;
                    x[i] = (float)(int32_t)mixed * 1.7e-7f;
                }
                const rf_collective_params params = { .algorithm = (rf_comm_algorithm)a,
                                                      .wire = wire ? RF_BF16 : RF_DTYPE_INVALID };
                EXPECT(rf_comm_all_reduce(comm, x, x, counts[c], RF_F32, RF_COMM_SUM, &params) == RF_OK);
                if (rf_comm_rank(comm) == 0) h->of[a][c][wire] = rf_hash_bytes(x, counts[c] * sizeof(float), 1);
            }
    return 0;
}

TEST(test_same_bits)
{
    hashes *h = mmap(NULL, 2 * sizeof(hashes), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(h != MAP_FAILED);
    for (uint32_t world = 2; world <= 3; world++) {
        memset(h, 0, 2 * sizeof(hashes));
        assert_int_equal(ranks_run(&(ranks_params){ .world_size = world }, compute_hashes, &h[0]).failures, 0);
        assert_int_equal(
            ranks_run(&(ranks_params){ .world_size = world, .network_only = 15 }, compute_hashes, &h[1]).failures, 0);
        assert_memory_equal(&h[0], &h[1], sizeof(hashes));
        assert_true(h[0].of[RF_COMM_RING][3][0] != 0);
    }
    munmap(h, 2 * sizeof(hashes));
}

/* ---- a peer that lies within a job ---- */

/* Where this process has shared memory mapped, as its maps say. */
static rf_shared_head *find_memory(void)
{
    char line[512];
    unsigned long begin = 0;
    FILE *maps = fopen("/proc/self/maps", "r");
    while (maps && begin == 0 && fgets(line, sizeof(line), maps))
        if (!strstr(line, "memfd:ringfire") || sscanf(line, "%lx-", &begin) != 1) begin = 0;
    if (maps) fclose(maps);
    return (rf_shared_head *)(uintptr_t)begin;
}

static void tell_lie(int how)
{
    rf_shared_head *head = find_memory();
    if (!head) abort();
    const uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
    switch (how) {
    case 0: atomic_store(&head->rings[1].written, UINT64_MAX); break;
    case 1: atomic_store(&head->rings[1].written, 0); break;
    case 2: atomic_fetch_add(&head->rings[1].written, 2 * RF_SHARED_RING); break;
    case 3: atomic_store(&head->rings[0].read, UINT64_MAX / 2); break;
    default: /* everything, again and again */
        for (int round = 0; round < 20; round++, usleep(2000))
            for (uint64_t i = 0; i < page + 2 * RF_SHARED_RING; i += 8) {
                const uint64_t value = (i + (uint64_t)round) * UINT64_C(0x9E3779B97F4A7C15);
                memcpy((uint8_t *)head + i, &value, sizeof(value));
            }
    }
}

static int lied_to(rf_comm *comm, void *user)
{
    const int how = *(const int *)user;
    enum { FLOATS = 1 << 20 }; /* more than the memory takes: who sends them all must look where the reader is */
    static float x[FLOATS];
    EXPECT(rf_comm_all_reduce(comm, x, x, FLOATS, RF_F32, RF_COMM_SUM, NULL) == RF_OK);
    if (rf_comm_rank(comm) == 1) {
        usleep(20000); /* rank 0 sleeps in the next call by then, or it wakes of itself */
        tell_lie(how);
        for (const double end = seconds_now() + 3; rf_comm_status(comm) == RF_OK && seconds_now() < end;) usleep(1000);
        EXPECT(rf_comm_status(comm) == RF_ERROR_CORRUPT_DATA);
        return 0;
    }
    const double start = seconds_now();
    const rf_result r = how == 3 ? rf_comm_broadcast(comm, x, FLOATS, RF_F32, 0, NULL)
                                 : rf_comm_all_reduce(comm, x, x, FLOATS, RF_F32, RF_COMM_SUM, NULL);
    EXPECT(r == RF_ERROR_CORRUPT_DATA && strstr(rf_error_message(), "rank 1"));
    EXPECT(rf_comm_lost_rank(comm) == 1);
    EXPECT(seconds_now() - start < 1.5);
    return 0;
}

TEST(test_lying_peer)
{
    for (int how = 0; how < 5; how++)
        if (ranks_run(&(ranks_params){ .world_size = 2 }, lied_to, &how).failures != 0) fail_msg("lie %d", how);
}

TEST_PROGRAM(shared)
{
    unsetenv("RINGFIRE_SHARED_MEMORY");
    return room_tests_run(own_tests, NULL, NULL);
}
