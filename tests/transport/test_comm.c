/* SPDX-License-Identifier: Apache-2.0 */
/* Communicators among forked ranks on loopback: results, the same bits everywhere, and what wrong calls lead to.
 * Argument: "quick" (fewest worlds and cases), "full" (all), or a test's name. */
#include <dirent.h>
#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include "../../tools/ports.h"
#include "../support/folder.h"
#include "base/half.h"
#include "base/philox.h"
#include "ranks.h"
#include "tests/room.h"

static bool full;

/* ---- values ---- */

/* Mixed by two multiplications: tests ask for hundreds of millions of them. */
static double element(uint32_t rank, uint64_t i)
{
    uint64_t x = (i + 1) * 0x9E3779B97F4A7C15ull + rank * 0xD1B54A32D192ED03ull;
    x = (x ^ x >> 31) * 0xBF58476D1CE4E5B9ull;
    return (double)(int64_t)((x >> 32) % 2001) / 8 - 125; /* eighths: exact in f16 up to 128 */
}

static void store(rf_dtype type, void *data, uint64_t i, double value)
{
    const float f = (float)value;
    if (type == RF_F32) ((float *)data)[i] = f;
    if (type == RF_F16) ((uint16_t *)data)[i] = rf_f32_to_f16(f);
    if (type == RF_BF16) ((uint16_t *)data)[i] = rf_f32_to_bf16(f);
    if (type == RF_I32) ((int32_t *)data)[i] = (int32_t)value;
    if (type == RF_I64) ((int64_t *)data)[i] = (int64_t)value * (INT64_C(1) << 40);
}

static double load(rf_dtype type, const void *data, uint64_t i)
{
    switch (type) {
    case RF_F32: return (double)((const float *)data)[i];
    case RF_F16: return (double)rf_f16_to_f32(((const uint16_t *)data)[i]);
    case RF_BF16: return (double)rf_bf16_to_f32(((const uint16_t *)data)[i]);
    case RF_I32: return ((const int32_t *)data)[i];
    default: return (double)(((const int64_t *)data)[i] / (INT64_C(1) << 40));
    }
}

/* The part of a value that a type holds. */
static double rounded(rf_dtype type, double value)
{
    int64_t memory = 0;
    store(type, &memory, 0, value);
    return load(type, &memory, 0);
}

static double expected(rf_dtype type, rf_comm_op op, uint32_t world, uint64_t i)
{
    double result = rounded(type, element(0, i));
    for (uint32_t r = 1; r < world; r++) {
        const double next = rounded(type, element(r, i));
        result = op == RF_COMM_SUM ? result + next : op == RF_COMM_MAX ? fmax(result, next) : fmin(result, next);
    }
    return result;
}

static double tolerance(rf_dtype type, rf_dtype wire, rf_comm_op op, uint32_t world)
{
    const double largest = 125 * (op == RF_COMM_SUM ? (double)world : 1);
    double unit = type == RF_F16 ? 0x1p-11 : type == RF_BF16 ? 0x1p-8 : 0;
    if (wire) unit = wire == RF_F16 ? 0x1p-11 : 0x1p-8;
    return (op == RF_COMM_SUM || wire) ? unit * largest * (double)world : 0;
}

/* Every rank has the same bytes. */
static int agree(rf_comm *comm, const void *data, size_t size)
{
    const uint32_t world = rf_comm_world_size(comm);
    uint64_t mine = rf_hash_bytes(data, size, 1), all[16], counts[16];
    for (uint32_t r = 0; r < world; r++) counts[r] = 1;
    EXPECT(rf_comm_all_gather(comm, &mine, all, counts, RF_I64, NULL) == RF_OK);
    for (uint32_t r = 0; r < world; r++) EXPECT(all[r] == mine);
    return 0;
}

static int one_all_reduce(rf_comm *comm, uint64_t count, rf_dtype type, rf_comm_op op,
                          const rf_collective_params *params, bool in_place)
{
    const uint32_t rank = rf_comm_rank(comm), world = rf_comm_world_size(comm);
    const size_t size = count * rf_dtype_size(type);
    unsigned char *in = malloc(size + 1), *result = in_place ? in : malloc(size + 1), *copy = malloc(size + 1);
    for (uint64_t i = 0; i < count; i++) store(type, in, i, element(rank, i));
    memcpy(copy, in, size);
    result[size] = 0xAB;
    EXPECT(rf_comm_all_reduce(comm, in, result, count, type, op, params) == RF_OK);
    EXPECT(result[size] == 0xAB);
    EXPECT(in_place || memcmp(in, copy, size) == 0);
    const double allowed = tolerance(type, params->wire, op, world);
    for (uint64_t i = 0; i < count; i++) {
        const double got = load(type, result, i), want = expected(type, op, world, i);
        if (fabs(got - want) <= allowed) continue;
        fprintf(stderr, "rank %u of %u: %s op %d algorithm %d wire %d count %llu: element %llu is %g, not %g\n", rank,
                world, rf_dtype_name(type), op, params->algorithm, params->wire, (unsigned long long)count,
                (unsigned long long)i, got, want);
        return 1;
    }
    const int same = agree(comm, result, size);
    if (!in_place) free(result);
    free(in);
    free(copy);
    return same;
}

static const rf_dtype types[] = { RF_F32, RF_F16, RF_BF16, RF_I32, RF_I64 };

static int all_reduces(rf_comm *comm, void *user)
{
    (void)user;
    static const uint64_t counts[] = { 0, 1, 2, 3, 1021 };
    for (int a = RF_COMM_AUTO; a < RF_COMM_ALGORITHM_COUNT; a++)
        for (int t = 0; t < 5; t++)
            for (int op = RF_COMM_SUM; op <= RF_COMM_MIN; op++)
                for (int c = 0; c < 5; c++) {
                    const rf_collective_params params = { .algorithm = (rf_comm_algorithm)a, .name = "small" };
                    if (one_all_reduce(comm, counts[c], types[t], (rf_comm_op)op, &params, (c + op) % 2)) return 1;
                }
    return 0;
}

static int large_all_reduces(rf_comm *comm, void *user)
{
    (void)user;
    for (int a = RF_COMM_RING; a < RF_COMM_ALGORITHM_COUNT; a++)
        for (int in_place = 0; in_place < 2; in_place++) {
            const rf_collective_params params = { .algorithm = (rf_comm_algorithm)a };
            if (one_all_reduce(comm, full ? 1000003 : 200003, RF_F32, RF_COMM_SUM, &params, in_place)) return 1;
            if (one_all_reduce(comm, full ? 500009 : 70001, RF_BF16, RF_COMM_SUM, &params, in_place)) return 1;
        }
    return 0;
}

static int narrow_wires(rf_comm *comm, void *user)
{
    (void)user;
    const uint64_t counts[] = { 1, 7, 1021, full ? 300007 : 50021 };
    for (int a = RF_COMM_RING; a < RF_COMM_ALGORITHM_COUNT; a++)
        for (int w = RF_F16; w <= RF_BF16; w++)
            for (int c = 0; c < 4; c++) {
                const rf_collective_params params = { .algorithm = (rf_comm_algorithm)a, .wire = (rf_dtype)w };
                if (one_all_reduce(comm, counts[c], RF_F32, RF_COMM_SUM, &params, c % 2)) return 1;
            }
    return 0;
}

static int parts(rf_comm *comm, const uint64_t *counts, rf_comm_algorithm algorithm)
{
    const uint32_t rank = rf_comm_rank(comm), world = rf_comm_world_size(comm);
    const rf_collective_params params = { .algorithm = algorithm };
    uint64_t total = 0, begin = 0;
    for (uint32_t r = 0; r < world; r++) {
        if (r == rank) begin = total;
        total += counts[r];
    }
    int32_t *in = malloc((total + 1) * 4), *mine = malloc((counts[rank] + 1) * 4), *all = malloc((total + 1) * 4);
    for (uint64_t i = 0; i < total; i++) in[i] = (int32_t)(i * 3 + rank);
    EXPECT(rf_comm_reduce_scatter(comm, in, mine, counts, RF_I32, RF_COMM_SUM, &params) == RF_OK);
    for (uint64_t i = 0; i < counts[rank]; i++)
        EXPECT(mine[i] == (int32_t)((begin + i) * 3 * world + world * (world - 1) / 2));
    /* The part may be where it was. */
    EXPECT(rf_comm_reduce_scatter(comm, in, in + begin, counts, RF_I32, RF_COMM_MAX, &params) == RF_OK);
    for (uint64_t i = 0; i < counts[rank]; i++) EXPECT(in[begin + i] == (int32_t)((begin + i) * 3 + world - 1));
    const rf_collective_params gather = { .algorithm = algorithm == RF_COMM_RECURSIVE_HALVING
                                                           ? RF_COMM_RECURSIVE_DOUBLING
                                                           : algorithm };
    for (int in_place = 0; in_place < 2; in_place++) {
        memset(all, 0, (total + 1) * 4);
        if (in_place) memcpy(all + begin, mine, counts[rank] * 4);
        EXPECT(rf_comm_all_gather(comm, in_place ? all + begin : mine, all, counts, RF_I32, &gather) == RF_OK);
        for (uint64_t i = 0; i < total; i++) EXPECT(all[i] == (int32_t)(i * 3 * world + world * (world - 1) / 2));
    }
    free(in);
    free(mine);
    free(all);
    return 0;
}

/* Sums of fractions: the order of additions shows in the last bits, which all ranks must have alike in the end. */
static int gathered_shards(rf_comm *comm, const uint64_t *counts, rf_dtype wire)
{
    const uint32_t rank = rf_comm_rank(comm), world = rf_comm_world_size(comm);
    const rf_collective_params ring = { .algorithm = RF_COMM_RING },
                               tree = { .algorithm = RF_COMM_HIERARCHICAL, .wire = wire };
    uint64_t total = 0, begin = 0;
    for (uint32_t r = 0; r < world; r++) {
        if (r == rank) begin = total;
        total += counts[r];
    }
    const uint64_t count = counts[rank];
    float *in = malloc((total + 1) * 4), *flat = malloc((count + 1) * 4), *mine = malloc((count + 1) * 4);
    float *all = malloc((total + 1) * 4), *again = malloc((total + 1) * 4);
    for (uint64_t i = 0; i < total; i++) in[i] = 1.0f / (float)(1 + (i * 7 + rank * 13) % 97);
    EXPECT(rf_comm_reduce_scatter(comm, in, flat, counts, RF_F32, RF_COMM_SUM, &ring) == RF_OK);
    EXPECT(rf_comm_reduce_scatter(comm, in, mine, counts, RF_F32, RF_COMM_SUM, &tree) == RF_OK);
    /* No addend is above 1, and no sum is rounded more often than it is added to and then handed out. */
    const double rounding = (wire == RF_F16 ? 0x1p-11 : wire ? 0x1p-8 : 0) * world * world;
    for (uint64_t i = 0; i < count; i++) EXPECT(fabs((double)mine[i] - (double)flat[i]) <= rounding + 1e-6 * world);
    EXPECT(rf_comm_all_gather(comm, mine, all, counts, RF_F32, &tree) == RF_OK);
    if (agree(comm, all, total * 4)) return 1;
    /* A wire rounds everybody's copy, the owner's too, and what is rounded does not change any more. */
    for (uint64_t i = 0; i < count; i++)
        EXPECT(wire ? fabs((double)all[begin + i] - (double)mine[i]) <= rounding : all[begin + i] == mine[i]);
    EXPECT(rf_comm_all_gather(comm, all + begin, again, counts, RF_F32, &tree) == RF_OK);
    EXPECT(memcmp(again, all, total * 4) == 0);
    free(in);
    free(flat);
    free(mine);
    free(all);
    free(again);
    return 0;
}

/* On both sides of a chunk's size, without elements for some ranks, and for all but one. */
static int hierarchical_shards(rf_comm *comm, void *user)
{
    (void)user;
    const uint64_t sizes[] = { 0, 1, 5, 1009, full ? 200003 : 40009 };
    const uint32_t world = rf_comm_world_size(comm);
    for (uint64_t size = 0; size < 5; size++) {
        uint64_t counts[16], one[16] = { 0 };
        for (uint32_t r = 0; r < world; r++) counts[r] = size == 2 ? r % 2 * 9 : sizes[size] + r % 3;
        one[size % world] = sizes[size];
        if (parts(comm, counts, RF_COMM_HIERARCHICAL) || parts(comm, one, RF_COMM_HIERARCHICAL)) return 1;
        if (gathered_shards(comm, counts, RF_DTYPE_INVALID) || gathered_shards(comm, counts, RF_F16) ||
            gathered_shards(comm, counts, RF_BF16))
            return 1;
    }
    return 0;
}

static int other_collectives(rf_comm *comm, void *user)
{
    (void)user;
    const uint32_t rank = rf_comm_rank(comm), world = rf_comm_world_size(comm);
    const bool power = (world & (world - 1)) == 0;
    for (uint64_t size = 0; size < 5; size++) {
        static const uint64_t sizes[] = { 0, 1, 5, 1009, 200003 };
        uint64_t counts[16];
        for (uint32_t r = 0; r < world; r++) counts[r] = size == 2 ? r % 2 * 9 : sizes[size] + r % 3;
        if (parts(comm, counts, RF_COMM_AUTO) || parts(comm, counts, RF_COMM_RING)) return 1;
        if (power && parts(comm, counts, RF_COMM_RECURSIVE_HALVING)) return 1;
        unsigned char *bytes = malloc(sizes[size] + 1);
        for (uint32_t root = 0; root < world; root++)
            for (int a = RF_COMM_AUTO; a <= RF_COMM_RECURSIVE_DOUBLING; a++) {
                memset(bytes, rank == root ? (int)root + 1 : 0, sizes[size]);
                EXPECT(rf_comm_broadcast(comm, bytes, sizes[size], RF_U8, root,
                                         &(rf_collective_params){ .algorithm = (rf_comm_algorithm)a }) == RF_OK);
                for (uint64_t i = 0; i < sizes[size]; i++) EXPECT(bytes[i] == root + 1);
            }
        free(bytes);
    }
    EXPECT(rf_comm_barrier(comm) == RF_OK);
    return 0;
}

static int started(rf_comm *comm, void *user)
{
    (void)user;
    enum { NUM = 12, COUNT = 70001 };
    const uint32_t rank = rf_comm_rank(comm), world = rf_comm_world_size(comm);
    static float data[NUM][COUNT];
    rf_comm_request *requests[NUM];
    for (int round = 0; round < 3; round++) {
        for (int k = 0; k < NUM; k++) {
            for (int i = 0; i < COUNT; i++) data[k][i] = (float)(k + (int)rank);
            EXPECT(rf_comm_start_all_reduce(comm, data[k], data[k], COUNT, RF_F32, RF_COMM_SUM,
                                            &(rf_collective_params){ .name = "bucket" }, &requests[k]) == RF_OK);
        }
        int32_t one = 1; /* waits for those before */
        EXPECT(rf_comm_all_reduce(comm, &one, &one, 1, RF_I32, RF_COMM_SUM, NULL) == RF_OK && one == (int32_t)world);
        for (int k = NUM - 1; k >= 0; k--) {
            EXPECT(rf_comm_done(requests[k]));
            EXPECT(rf_comm_wait(&requests[k]) == RF_OK && !requests[k]);
            for (int i = 0; i < COUNT; i++)
                EXPECT(data[k][i] == (float)(k * (int)world + (int)(world * (world - 1) / 2)));
        }
    }
    uint64_t counts[16];
    for (uint32_t r = 0; r < world; r++) counts[r] = 10 + r;
    EXPECT(rf_comm_start_reduce_scatter(comm, data[0], data[1], counts, RF_F32, RF_COMM_MAX, NULL, &requests[0]) ==
           RF_OK);
    EXPECT(rf_comm_start_all_gather(comm, data[1], data[2], counts, RF_F32, NULL, &requests[1]) == RF_OK);
    EXPECT(rf_comm_wait(&requests[1]) == RF_OK && rf_comm_done(requests[0]) && rf_comm_wait(&requests[0]) == RF_OK);
    /* Destroying the communicator finishes what was started and not waited for. */
    return 0;
}

/* ---- NaN, infinities and signs of zero ---- */

static const float specials[] = { 0.0f, -0.0f,  1.5f,  -2.25f,   INFINITY,  -INFINITY,
                                  NAN,  1.0e3f, -7.0f, 0x1p-14f, -0x1p-24f, 0x1p-126f };
enum { NUM_SPECIALS = sizeof(specials) / sizeof(specials[0]), SPECIAL_COUNT = 997 };

/* Pairs of any two of them meet somewhere. */
static float special(uint32_t rank, uint64_t i)
{
    static const uint64_t steps[] = { 1, 13, 29, 41, 59, 71, 83 };
    return specials[(i / (rank % 2 ? 1 : NUM_SPECIALS) + i * (rank > 1 ? steps[rank] : 0)) % NUM_SPECIALS];
}

static uint64_t bits_of(rf_dtype type, const void *data, uint64_t i)
{
    uint64_t bits = 0;
    memcpy(&bits, (const uint8_t *)data + i * rf_dtype_size(type), rf_dtype_size(type));
    return bits;
}

/* The result of a sum in whatever order: NaN where one is in it or infinities meet, else the infinity. -0 only where
 * all are -0. NaN is left to itself in maxima and minima. */
static bool is_possible(rf_dtype type, rf_comm_op op, uint32_t world, uint64_t i, double got)
{
    bool nan = false, up = false, down = false, minus_zero = true;
    double largest = -INFINITY, smallest = INFINITY;
    for (uint32_t r = 0; r < world; r++) {
        const double x = rounded(type, (double)special(r, i));
        nan |= isnan(x);
        up |= x == (double)INFINITY;
        down |= x == -(double)INFINITY;
        minus_zero &= x == 0 && signbit(x);
        if (x > largest) largest = x;
        if (x < smallest) smallest = x;
    }
    if (op != RF_COMM_SUM) return nan || got == (op == RF_COMM_MAX ? largest : smallest);
    if (nan || (up && down)) return isnan(got);
    if (up || down) return got == (up ? (double)INFINITY : -(double)INFINITY);
    return !isnan(got) && (!minus_zero || (got == 0 && signbit(got)));
}

static int special_parts(rf_comm *comm, rf_dtype type, rf_comm_op op, rf_comm_algorithm algorithm)
{
    const uint32_t rank = rf_comm_rank(comm), world = rf_comm_world_size(comm);
    const size_t size = rf_dtype_size(type);
    uint64_t counts[16], begin = 0;
    for (uint32_t r = 0; r < world; r++) {
        counts[r] = SPECIAL_COUNT / world + (r < SPECIAL_COUNT % world);
        if (r < rank) begin += counts[r];
    }
    static uint8_t in[SPECIAL_COUNT * 4], part[SPECIAL_COUNT * 4], all[SPECIAL_COUNT * 4], reduced[SPECIAL_COUNT * 4];
    for (uint64_t i = 0; i < SPECIAL_COUNT; i++) store(type, in, i, (double)special(rank, i));
    const rf_collective_params params = { .algorithm = algorithm };
    const rf_collective_params gather = { .algorithm = algorithm == RF_COMM_RECURSIVE_HALVING
                                                           ? RF_COMM_RECURSIVE_DOUBLING
                                                           : algorithm };
    EXPECT(rf_comm_reduce_scatter(comm, in, part, counts, type, op, &params) == RF_OK);
    EXPECT(rf_comm_all_gather(comm, part, all, counts, type, &gather) == RF_OK);
    EXPECT(memcmp(all + begin * size, part, counts[rank] * size) == 0); /* NaN's bits, too */
    EXPECT(rf_comm_all_reduce(comm, in, reduced, SPECIAL_COUNT, type, op, &params) == RF_OK);
    for (uint64_t i = 0; i < SPECIAL_COUNT; i++) {
        const double scattered = load(type, all, i), whole = load(type, reduced, i);
        if (is_possible(type, op, world, i, scattered) && is_possible(type, op, world, i, whole)) continue;
        fprintf(stderr, "rank %u of %u: %s op %d algorithm %d: element %llu is %g scattered (bits %llx), %g reduced\n",
                rank, world, rf_dtype_name(type), op, algorithm, (unsigned long long)i, scattered,
                (unsigned long long)bits_of(type, all, i), whole);
        return 1;
    }
    return agree(comm, all, SPECIAL_COUNT * size) || agree(comm, reduced, SPECIAL_COUNT * size);
}

static int special_values(rf_comm *comm, void *user)
{
    (void)user;
    const uint32_t world = rf_comm_world_size(comm);
    const bool power = (world & (world - 1)) == 0;
    for (int t = 0; t < 3; t++)
        for (int op = RF_COMM_SUM; op <= RF_COMM_MIN; op++) {
            if (special_parts(comm, types[t], (rf_comm_op)op, RF_COMM_AUTO)) return 1;
            if (special_parts(comm, types[t], (rf_comm_op)op, RF_COMM_RING)) return 1;
            if (power && special_parts(comm, types[t], (rf_comm_op)op, RF_COMM_RECURSIVE_HALVING)) return 1;
        }
    return 0;
}

static void run_everywhere(ranks_fn fn, uint32_t from, uint32_t to)
{
    for (uint32_t world = from; world <= to; world++)
        assert_int_equal(ranks_run(&(ranks_params){ .world_size = world }, fn, NULL).failures, 0);
}

TEST(test_all_reduce)
{
    run_everywhere(all_reduces, full ? 1 : 2, full ? 5 : 3);
}

TEST(test_large)
{
    run_everywhere(large_all_reduces, full ? 1 : 3, full ? 5 : 3);
}

TEST(test_narrow_wires)
{
    run_everywhere(narrow_wires, full ? 1 : 3, full ? 5 : 3);
}

TEST(test_other_collectives)
{
    run_everywhere(other_collectives, full ? 1 : 4, full ? 5 : 4);
}

TEST(test_special_values)
{
    run_everywhere(special_values, full ? 1 : 3, full ? 5 : 4);
}

/* A prime number of ranks, more than processors. */
static int seven(rf_comm *comm, void *user)
{
    return all_reduces(comm, user) || narrow_wires(comm, user) || other_collectives(comm, user) ||
           special_values(comm, user);
}

TEST(test_seven)
{
    if (full) run_everywhere(seven, 7, 7);
    run_everywhere(other_collectives, 7, 7);
}

TEST(test_started)
{
    run_everywhere(started, full ? 1 : 2, full ? 4 : 2);
}

/* Ranks that have different host names: a real hierarchy, where the test may change them. */
TEST(test_hosts)
{
    for (uint32_t hosts = 2; hosts <= (full ? 4u : 2u); hosts++) {
        if (full)
            assert_int_equal(ranks_run(&(ranks_params){ .world_size = 5, .hosts = hosts }, all_reduces, NULL).failures,
                             0);
        assert_int_equal(ranks_run(&(ranks_params){ .world_size = 4, .hosts = hosts }, narrow_wires, NULL).failures, 0);
    }
    for (uint32_t hosts = full ? 1 : 2; hosts <= (full ? 5u : 4u); hosts++) /* the last ones have fewer ranks */
        assert_int_equal(
            ranks_run(&(ranks_params){ .world_size = 5, .hosts = hosts }, hierarchical_shards, NULL).failures, 0);
}

static int encrypted(rf_comm *comm, void *user)
{
    if ((full && narrow_wires(comm, user)) || other_collectives(comm, user)) return 1;
    const rf_collective_params params = { .algorithm = RF_COMM_RING };
    return one_all_reduce(comm, full ? 1000003 : 200003, RF_F32, RF_COMM_SUM, &params, true) ||
           one_all_reduce(comm, 3, RF_I64, RF_COMM_SUM, &params, false);
}

TEST(test_encrypted)
{
    char directory[SCRATCH_PATH], key[64];
    scratch(directory);
    snprintf(key, sizeof(key), "%s/key", directory);
    assert_int_equal(rf_key_file_create(key), RF_OK);
    for (uint32_t world = full ? 2 : 3; world <= (full ? 4u : 3u); world++)
        assert_int_equal(
            ranks_run(&(ranks_params){ .world_size = world, .key_file = key, .encrypt = true }, encrypted, NULL)
                .failures,
            0);
    assert_int_equal(ranks_run(&(ranks_params){ .world_size = 2, .key_file = key }, other_collectives, NULL).failures,
                     0);
    unlink(key);
    rmdir(directory);
}

/* ---- wrong calls ---- */

static int wrong_arguments(rf_comm *comm, void *user)
{
    (void)user;
    float x[4] = { 0 };
    uint64_t counts[16] = { 0 };
    const rf_collective_params tree = { .algorithm = RF_COMM_HIERARCHICAL }, wire = { .wire = RF_F16 };
    EXPECT(rf_comm_all_reduce(comm, NULL, x, 1, RF_F32, RF_COMM_SUM, NULL) == RF_ERROR_INVALID_ARGUMENT);
    EXPECT(strstr(rf_error_message(), "send"));
    EXPECT(rf_comm_all_reduce(comm, x, NULL, 1, RF_F32, RF_COMM_SUM, NULL) == RF_ERROR_INVALID_ARGUMENT);
    EXPECT(rf_comm_all_reduce(comm, x, x, 1, RF_U8, RF_COMM_SUM, NULL) == RF_ERROR_INVALID_ARGUMENT);
    EXPECT(rf_comm_all_reduce(comm, x, x, 1, RF_F32, (rf_comm_op)7, NULL) == RF_ERROR_INVALID_ARGUMENT);
    EXPECT(rf_comm_all_reduce(comm, x, x, 1, RF_I32, RF_COMM_SUM, &wire) == RF_ERROR_INVALID_ARGUMENT);
    EXPECT(rf_comm_all_reduce(comm, x, x, UINT64_MAX / 2, RF_F32, RF_COMM_SUM, NULL) == RF_ERROR_INVALID_ARGUMENT);
    EXPECT(rf_comm_reduce_scatter(comm, x, x, NULL, RF_F32, RF_COMM_SUM, NULL) == RF_ERROR_INVALID_ARGUMENT);
    EXPECT(rf_comm_broadcast(comm, x, 1, RF_F32, 99, NULL) == RF_ERROR_INVALID_ARGUMENT);
    EXPECT(rf_comm_broadcast(comm, x, 1, RF_F32, 0, &tree) == RF_ERROR_INVALID_ARGUMENT);
    EXPECT(strstr(rf_error_message(), "hierarchical"));
    const rf_collective_params pairs = { .algorithm = RF_COMM_RECURSIVE_DOUBLING };
    EXPECT(rf_comm_reduce_scatter(comm, x, x, counts, RF_F32, RF_COMM_SUM, &pairs) == RF_ERROR_INVALID_ARGUMENT);
    EXPECT(strstr(rf_error_message(), "doubling"));
    EXPECT(rf_comm_status(comm) == RF_OK); /* no rank was disturbed */
    EXPECT(rf_comm_barrier(comm) == RF_OK);
    return 0;
}

TEST(test_wrong_arguments)
{
    run_everywhere(wrong_arguments, 2, 2);
}

/* Rank 1 means something else, in a way that the case says; all ranks learn which one and what. */
static int desynchronised(rf_comm *comm, void *user)
{
    const int how = *(const int *)user;
    const bool odd = rf_comm_rank(comm) == 1;
    static float x[50000];
    const double start = seconds_now();
    if (rf_comm_barrier(comm) != RF_OK) { /* the others were faster: found out before this rank left the barrier */
        EXPECT(rf_comm_status(comm) == RF_ERROR_INVALID_ARGUMENT);
        return 0;
    }
    rf_result r;
    rf_collective_params params = { .algorithm = RF_COMM_RING };
    uint64_t count = 20000;
    rf_comm_op op = RF_COMM_SUM;
    if (odd && how == 0) count = 10000;
    if (odd && how == 1) op = RF_COMM_MAX;
    if (odd && how == 2) params.algorithm = RF_COMM_RECURSIVE_DOUBLING;
    if (odd && how == 3) params.wire = RF_F16;
    const rf_dtype dtype = odd && how == 6 ? RF_I32 : RF_F32;
    if (odd && how == 4)
        r = rf_comm_broadcast(comm, x, 20000, RF_F32, 0, NULL);
    else if (odd && how == 5)
        r = rf_comm_barrier(comm);
    else
        r = rf_comm_all_reduce(comm, x, x, count, dtype, op, &params);
    EXPECT(r == RF_ERROR_INVALID_ARGUMENT);
    EXPECT(strstr(rf_error_message(), "rank 1 called") || strstr(rf_error_message(), "while rank 1 called"));
    EXPECT(strstr(rf_error_message(), "all_reduce"));
    if (how == 6) EXPECT(strstr(rf_error_message(), "20000 f32") && strstr(rf_error_message(), "20000 i32"));
    EXPECT(rf_comm_status(comm) == RF_ERROR_INVALID_ARGUMENT);
    EXPECT(rf_comm_all_reduce(comm, x, x, 1, RF_F32, RF_COMM_SUM, NULL) == RF_ERROR_INVALID_ARGUMENT);
    EXPECT(seconds_now() - start < 3);
    return 0;
}

TEST(test_desynchronised)
{
    for (uint32_t world = full ? 2 : 3; world <= (full ? 5u : 3u); world++)
        for (int how = full ? 0 : 2; how < (full ? 7 : 4); how++)
            assert_int_equal(ranks_run(&(ranks_params){ .world_size = world }, desynchronised, &how).failures, 0);
}

/* ---- ends ---- */

/* Rank 1 dies at once within a run of collectives; the others say so, quickly. */
static int killed(rf_comm *comm, void *user)
{
    const int size = *(const int *)user;
    float *x = calloc((size_t)size, sizeof(float));
    EXPECT(rf_comm_barrier(comm) == RF_OK);
    if (rf_comm_rank(comm) == 1) {
        for (int i = 0; i < 3; i++)
            EXPECT(rf_comm_all_reduce(comm, x, x, (uint64_t)size, RF_F32, RF_COMM_SUM, NULL) == RF_OK);
        rf_comm_request *request;
        EXPECT(rf_comm_start_all_reduce(comm, x, x, (uint64_t)size, RF_F32, RF_COMM_SUM, NULL, &request) == RF_OK);
        usleep(300);
        kill(getpid(), SIGKILL);
    }
    rf_result r;
    double before;
    do {
        before = seconds_now();
        r = rf_comm_all_reduce(comm, x, x, (uint64_t)size, RF_F32, RF_COMM_SUM, NULL);
    } while (r == RF_OK);
    EXPECT(r == RF_ERROR_PEER_LOST);
    EXPECT(rf_comm_lost_rank(comm) == 1);
    EXPECT(strstr(rf_error_message(), "rank 1"));
    EXPECT(seconds_now() - before < 1);
    EXPECT(rf_comm_barrier(comm) == RF_ERROR_PEER_LOST);
    free(x);
    return 0;
}

TEST(test_killed)
{
    static const int sizes[] = { 1, 100000, 3000000 };
    for (uint32_t world = full ? 2 : 3; world <= (full ? 5u : 3u); world++)
        for (int s = full ? 0 : 2; s < 3; s++) {
            int size = sizes[s];
            const ranks_result result = ranks_run(&(ranks_params){ .world_size = world }, killed, &size);
            assert_int_equal(result.failures, 1);
            assert_int_equal(result.status[1], SIGKILL);
        }
}

/* Rank 1 ends in good order while the others go on: they hear of it at once, by its name, and it leaves at once, too.
 */
static int left_early(rf_comm *comm, void *user)
{
    const uint64_t size = *(const uint64_t *)user;
    static float x[300000];
    double start = 0;
    rf_result r = RF_OK;
    for (int i = 0; r == RF_OK && i < (rf_comm_rank(comm) == 1 ? 5 : 6); i++) {
        start = seconds_now();
        r = rf_comm_all_reduce(comm, x, x, size, RF_F32, RF_COMM_SUM, NULL);
        /* A fast rank may have found out before a slow one has got to the end of the fifth. */
        EXPECT(r == RF_OK || i >= 4);
    }
    if (rf_comm_rank(comm) == 1) return r == RF_OK ? 0 : 1;
    EXPECT(r == RF_ERROR_PEER_LOST);
    EXPECT(seconds_now() - start < 1);
    EXPECT(strstr(rf_error_message(), "rank 1 (127.0.0.1) left the job while rank "));
    EXPECT(rf_comm_lost_rank(comm) == 1);
    return 0;
}

TEST(test_left_early)
{
    for (uint32_t world = full ? 2 : 3; world <= (full ? 5u : 3u); world++)
        for (uint64_t size = 1; size <= 300000; size += 299999) {
            const double start = seconds_now();
            assert_int_equal(ranks_run(&(ranks_params){ .world_size = world }, left_early, &size).failures, 0);
            assert_true(seconds_now() - start < 5);
        }
}

static void await_failure(rf_comm *comm)
{
    for (const double end = seconds_now() + 5; rf_comm_status(comm) == RF_OK && seconds_now() < end;) usleep(5000);
}

#define LONG_NAME "a call whose name has almost fifty characters"
/* One rank does not come: the others give up after the operation's time and name it. */
static int deadline(rf_comm *comm, void *user)
{
    (void)user;
    int32_t x = 0;
    EXPECT(rf_comm_barrier(comm) == RF_OK);
    if (rf_comm_rank(comm) == 1) {
        await_failure(comm);
        EXPECT(rf_comm_status(comm) == RF_ERROR_TIMEOUT);
        return 0;
    }
    const double start = seconds_now();
    EXPECT(rf_comm_all_reduce(comm, &x, &x, 1, RF_I32, RF_COMM_SUM, &(rf_collective_params){ .name = LONG_NAME }) ==
           RF_ERROR_TIMEOUT);
    EXPECT(strstr(rf_error_message(), LONG_NAME) && strstr(rf_error_message(), "rank 1"));
    EXPECT(seconds_now() - start > 0.4 && seconds_now() - start < 1.5);
    return 0;
}

TEST(test_deadline)
{
    if (full)
        assert_int_equal(
            ranks_run(&(ranks_params){ .world_size = 2, .operation_timeout = 0.5 }, deadline, NULL).failures, 0);
    assert_int_equal(ranks_run(&(ranks_params){ .world_size = 3, .operation_timeout = 0.5 }, deadline, NULL).failures,
                     0);
}

static int aborted(rf_comm *comm, void *user)
{
    (void)user;
    float x = 0;
    EXPECT(rf_comm_barrier(comm) == RF_OK);
    if (rf_comm_rank(comm) == 0) {
        rf_comm_request *request;
        EXPECT(rf_comm_start_all_reduce(comm, &x, &x, 1, RF_F32, RF_COMM_SUM, NULL, &request) == RF_OK);
        usleep(100000);
        rf_comm_abort(comm, "the disk is full");
        EXPECT(rf_comm_wait(&request) == RF_ERROR_PEER_LOST);
    } else if (rf_comm_rank(comm) == 1) {
        await_failure(comm); /* never calls */
    } else {
        const double start = seconds_now();
        EXPECT(rf_comm_all_reduce(comm, &x, &x, 1, RF_F32, RF_COMM_SUM, NULL) == RF_ERROR_PEER_LOST);
        EXPECT(seconds_now() - start < 1);
    }
    EXPECT(rf_comm_status(comm) == RF_ERROR_PEER_LOST);
    EXPECT(strstr(rf_error_message(), "the disk is full") && strstr(rf_error_message(), "rank 0"));
    EXPECT(rf_comm_lost_rank(comm) == 0);
    return 0;
}

TEST(test_aborted)
{
    run_everywhere(aborted, full ? 2 : 3, 3);
}

/* ---- a world of one, descriptors ---- */

static int descriptors(void)
{
    DIR *d = opendir("/proc/self/fd");
    int n = -1; /* its own */
    for (struct dirent *e; d && (e = readdir(d));) n += e->d_name[0] != '.';
    if (d) closedir(d);
    return n;
}

TEST(test_alone)
{
    rf_comm *comm;
    const int before = descriptors();
    assert_int_equal(rf_comm_create(&(rf_comm_params){ .world_size = 1 }, &comm), RF_OK);
    assert_int_equal(descriptors(), before);
    assert_int_equal(rf_comm_world_size(comm), 1);
    assert_int_equal(rf_comm_local_size(comm), 1);
    assert_string_equal(rf_comm_transport(comm), "");
    float a[3] = { 1, 2, 3 }, b[3] = { 0 };
    assert_int_equal(rf_comm_all_reduce(comm, a, b, 3, RF_F32, RF_COMM_SUM, NULL), RF_OK);
    assert_memory_equal(a, b, sizeof(a));
    rf_comm_request *request;
    memset(b, 0, sizeof(b));
    const uint64_t count = 3;
    assert_int_equal(rf_comm_start_all_gather(comm, a, b, &count, RF_F32, NULL, &request), RF_OK);
    assert_int_equal(rf_comm_wait(&request), RF_OK);
    assert_memory_equal(a, b, sizeof(a));
    assert_int_equal(rf_comm_barrier(comm), RF_OK);
    rf_comm_abort(comm, "enough");
    assert_int_equal(rf_comm_barrier(comm), RF_ERROR_PEER_LOST);
    assert_int_equal(rf_comm_lost_rank(comm), 0);
    rf_comm_destroy(&comm);
    assert_null(comm);
}

/* The second time, since libraries open things once. */
static int again(rf_comm *comm, void *user)
{
    uint16_t ports[2];
    memcpy(ports, user, sizeof(ports));
    int counts[2];
    for (int i = 0; i < 2; i++) {
        rf_comm *other;
        counts[i] = descriptors();
        const rf_comm_params p = { .world_size = rf_comm_world_size(comm),
                                   .rank = rf_comm_rank(comm),
                                   .insecure = true,
                                   .master_address = "127.0.0.1",
                                   .bind_address = "127.0.0.1",
                                   .master_port = ports[i] };
        EXPECT(rf_comm_create(&p, &other) == RF_OK);
        EXPECT(rf_comm_barrier(other) == RF_OK);
        rf_comm_destroy(&other);
    }
    EXPECT(descriptors() == counts[1]);
    EXPECT(rf_comm_barrier(comm) == RF_OK);
    return 0;
}

TEST(test_descriptors)
{
    uint16_t ports[2];
    if (!free_ports(ports, 2)) abort();
    assert_int_equal(ranks_run(&(ranks_params){ .world_size = 3 }, again, ports).failures, 0);
}

TEST_PROGRAM(comm)
{
    full = argc > 1 && strcmp(argv[1], "full") == 0;
    if (argc > 1 && !full && strcmp(argv[1], "quick") != 0) cmocka_set_test_filter(argv[1]);
    return room_tests_run(own_tests, NULL, NULL);
}
