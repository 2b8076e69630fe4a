/* SPDX-License-Identifier: Apache-2.0 */
/* The parts of the replica layer that are pure functions: splits, shards, buckets, update plans, the exchange in host
 * memory, device choice, initial values. */
#include <float.h>
#include <math.h>
#include <string.h>

#include "base/half.h"
#include "base/initializer.h"
#include "base/loss_scale.h"
#include "base/philox.h"
#include "replica/exchange/exchange.h"
#include "replica/exchange/segments.h"
#include "replica/store/variables.h"
#include "replica/strategy.h"
#include "tests/room.h"

/* ---- split ---- */

static void check_split(uint64_t examples, const double *shares, uint32_t n, const uint32_t *want)
{
    uint32_t counts[8];
    rf_split_batch(examples, shares, n, counts);
    for (uint32_t r = 0; r < n; r++)
        if (counts[r] != want[r])
            fail_msg("%u examples, replica %u: %u instead of %u", (unsigned)examples, r, counts[r], want[r]);
}

TEST(split_known)
{
    check_split(64, NULL, 2, (uint32_t[]){ 32, 32 });
    check_split(7, NULL, 3, (uint32_t[]){ 3, 2, 2 });
    check_split(1, NULL, 3, (uint32_t[]){ 1, 0, 0 });
    check_split(0, NULL, 2, (uint32_t[]){ 0, 0 });
    check_split(10, (double[]){ 3, 1 }, 2, (uint32_t[]){ 8, 2 }); /* 7.5 and 2.5: the earlier one gets the rest */
    check_split(10, (double[]){ 0, 1 }, 2, (uint32_t[]){ 0, 10 });
    check_split(100, (double[]){ 0.1, 0.2, 0.7 }, 3, (uint32_t[]){ 10, 20, 70 });
    check_split(5, (double[]){ 1, 0, 1 }, 3, (uint32_t[]){ 3, 0, 2 });
    /* Their sum is no number, all quotas are 0, and there is a rest for each but the one without a share. */
    check_split(5, (double[]){ DBL_MAX, 0, DBL_MAX }, 3, (uint32_t[]){ 3, 0, 2 });
}

TEST(split_properties)
{
    rf_rng rng = { .key = 11 };
    for (int round = 0; round < 5000; round++) {
        const uint32_t n = 1 + (uint32_t)rf_rng_below(&rng, 8);
        const uint64_t examples = rf_rng_below(&rng, 2000);
        double shares[8], total = 0;
        for (uint32_t r = 0; r < n; r++) {
            shares[r] = rf_rng_below(&rng, 4) == 0 ? 0 : (double)rf_rng_uniform(&rng) * 10;
            total += shares[r];
        }
        if (!(total > 0)) continue;
        uint32_t counts[8];
        uint64_t sum = 0;
        rf_split_batch(examples, shares, n, counts);
        for (uint32_t r = 0; r < n; r++) {
            const double quota = (double)examples * shares[r] / total;
            sum += counts[r];
            if (fabs(counts[r] - quota) >= 1 + 1e-9) fail_msg("replica %u: %u of a quota of %g", r, counts[r], quota);
            if (shares[r] == 0) assert_int_equal(counts[r], 0);
        }
        assert_int_equal(sum, examples);
    }
}

/* Whole units, but for what the batch ends with. */
TEST(split_in_units)
{
    const double shares[] = { 0.1, 0.6, 0.3 };
    uint32_t counts[3];
    rf_split_units(22, 8, NULL, 2, counts);
    assert_true(counts[0] == 16 && counts[1] == 6);
    rf_split_units(5, 8, NULL, 2, counts);
    assert_true(counts[0] == 5 && counts[1] == 0);
    rf_split_units(80, 8, shares, 3, counts);
    assert_true(counts[0] == 8 && counts[1] == 48 && counts[2] == 24);
    rf_split_units(20, 8, (double[]){ 1, 1, 0 }, 3, counts); /* the last one gets nothing, not even the rest */
    assert_true(counts[0] == 16 && counts[1] == 4 && counts[2] == 0);
    for (uint64_t examples = 0; examples < 200; examples++) {
        uint64_t sum = 0;
        rf_split_units(examples, 7, shares, 3, counts);
        for (uint32_t r = 0; r < 3; r++) {
            sum += counts[r];
            assert_true(counts[r] % 7 == 0 || sum == examples);
        }
        assert_int_equal(sum, examples);
    }
    assert_int_equal(rf_common_unit(8, 12), 24);
    assert_int_equal(rf_common_unit(1, 5), 5);
    assert_int_equal(rf_common_unit(65536, 65535), 0);
}

/* ---- shards and buckets ---- */

TEST(shards_cover)
{
    rf_rng rng = { .key = 12 };
    for (int round = 0; round < 5000; round++) {
        const uint32_t n = 1 + (uint32_t)rf_rng_below(&rng, 8);
        const uint64_t granularity = 1 + rf_rng_below(&rng, 70), count = rf_rng_below(&rng, 5000);
        rf_range shards[8];
        rf_shard_ranges(count, granularity, n, shards);
        uint64_t at = 0, shortest = UINT64_MAX, longest = 0;
        for (uint32_t r = 0; r < n; r++) {
            assert_int_equal(shards[r].begin, at);
            assert_true(shards[r].end >= at);
            if (shards[r].end != count) assert_int_equal(shards[r].end % granularity, 0);
            const uint64_t length = rf_div_up(shards[r].end - shards[r].begin, granularity);
            if (length < shortest) shortest = length;
            if (length > longest) longest = length;
            at = shards[r].end;
        }
        assert_int_equal(at, count);
        assert_true(longest - shortest <= 1);
    }
}

TEST(bucket_sizes)
{
    const uint64_t mebi = (1u << 20) / sizeof(float);
    assert_int_equal(rf_bucket_size(123, 1000 * mebi), 123);
    assert_int_equal(rf_bucket_size(0, 100), mebi);
    assert_int_equal(rf_bucket_size(0, 32 * mebi), 2 * mebi);
    assert_int_equal(rf_bucket_size(0, 1000 * mebi), 16 * mebi);
}

TEST(buckets_cover)
{
    rf_rng rng = { .key = 13 };
    for (int round = 0; round < 2000; round++) {
        uint64_t counts[20], borders[21] = { 0 };
        const uint32_t n = (uint32_t)rf_rng_below(&rng, 21);
        const uint64_t limit = 1 + rf_rng_below(&rng, 500);
        for (uint32_t i = 0; i < n; i++) {
            counts[i] = 1 + rf_rng_below(&rng, 300);
            borders[i + 1] = borders[i] + counts[i];
        }
        rf_range *buckets;
        uint32_t num;
        assert_int_equal(rf_bucket_plan(counts, n, limit, &buckets, &num), RF_OK);
        uint64_t at = borders[n];
        for (uint32_t b = 0; b < num; b++) {
            assert_int_equal(buckets[b].end, at); /* backward order, no gaps */
            at = buckets[b].begin;
            bool border = false, single = false;
            uint64_t first = 0; /* the size of its first variable */
            for (uint32_t i = 0; i < n; i++) {
                border = border || borders[i] == buckets[b].begin;
                single = single || (borders[i] == buckets[b].begin && borders[i + 1] == buckets[b].end);
                if (borders[i] == buckets[b].begin) first = counts[i];
            }
            assert_true(border);
            /* Larger than the limit only where one variable is, or joined what would have been next to nothing. */
            const uint64_t size = buckets[b].end - buckets[b].begin;
            if (size > limit && !single) assert_true(size - first < limit / 8);
            if (b + 1 < num && size < limit / 8) fail_msg("bucket %u has %d elements", b, (int)size);
            /* Two neighbours that would fit together are together. */
            if (b > 0 && buckets[b - 1].end - buckets[b].begin <= limit && single)
                fail_msg("bucket %u could be larger", b - 1);
        }
        assert_int_equal(at, 0);
        rf_free(buckets);
    }
}

/* ---- update plans ---- */

#define SPAN_UNIT 16
#define MAX_ELEMENTS 8192

/* Random variables, some with gaps between them. */
static uint32_t random_spans(rf_rng *rng, rf_range *spans, uint64_t *total)
{
    const uint32_t n = 1 + (uint32_t)rf_rng_below(rng, 10);
    uint64_t at = 0;
    *total = 0;
    for (uint32_t i = 0; i < n; i++) {
        if (rf_rng_below(rng, 4) == 0) at += SPAN_UNIT * (1 + rf_rng_below(rng, 3));
        spans[i] = (rf_range){ at, at + SPAN_UNIT * (1 + rf_rng_below(rng, 40)) };
        at = spans[i].end;
        *total += spans[i].end - spans[i].begin;
    }
    assert_true(at <= MAX_ELEMENTS);
    return n;
}

/* Every element of the spans in exactly one segment, slots of an owner without overlap or holes. */
static void check_plan(const rf_range *spans, uint32_t n, const rf_segment_list *segments, uint32_t replicas,
                       const uint64_t *slot_counts, uint64_t max_segment)
{
    static unsigned char seen[MAX_ELEMENTS], slots[8][MAX_ELEMENTS];
    memset(seen, 0, sizeof(seen));
    memset(slots, 0, sizeof(slots));
    for (uint32_t i = 0; i < segments->count; i++) {
        const rf_segment *p = &segments->items[i];
        assert_true(p->range.begin < p->range.end && p->range.end - p->range.begin <= max_segment);
        assert_int_equal(p->range.begin % SPAN_UNIT, 0);
        if (i > 0) assert_true(p->bucket >= segments->items[i - 1].bucket);
        for (uint64_t e = p->range.begin; e < p->range.end; e++) seen[e]++;
        for (uint32_t r = 0; r < replicas; r++)
            for (uint64_t e = 0; (p->owner == r || p->owner == RF_OWNER_ALL) && e < p->range.end - p->range.begin; e++)
                slots[r][p->slot_offset + e]++;
    }
    for (uint32_t i = 0; i < n; i++)
        for (uint64_t e = spans[i].begin; e < spans[i].end; e++) assert_int_equal(seen[e]++, 1);
    for (uint64_t e = 0; e < MAX_ELEMENTS; e++) assert_true(seen[e] == 0 || seen[e] == 2);
    for (uint32_t r = 0; slot_counts && r < replicas; r++)
        for (uint64_t e = 0; e < MAX_ELEMENTS; e++) assert_int_equal(slots[r][e], e < slot_counts[r]);
}

TEST(update_plans)
{
    rf_rng rng = { .key = 14 };
    for (int round = 0; round < 400; round++) {
        rf_range spans[10], subset[10];
        uint64_t total, slot_counts[8];
        const uint32_t n = random_spans(&rng, spans, &total), replicas = 1 + (uint32_t)rf_rng_below(&rng, 5);
        const uint64_t block = SPAN_UNIT * rf_rng_below(&rng, 4); /* 0: none */
        const rf_update_plan_params params = { .spans = spans,
                                               .num_spans = n,
                                               .num_replicas = replicas,
                                               .sharded = rf_rng_below(&rng, 2) == 0,
                                               .bucket_elements = 1 + rf_rng_below(&rng, 1000),
                                               .granularity = SPAN_UNIT,
                                               .max_segment = block + SPAN_UNIT * (1 + rf_rng_below(&rng, 100)),
                                               .block = block };
        rf_segment_list segments, part;
        assert_int_equal(rf_update_plan_make(&params, &segments, slot_counts), RF_OK);
        check_plan(spans, n, &segments, replicas, slot_counts, params.max_segment);
        uint64_t held = 0;
        for (uint32_t r = 0; r < replicas; r++) held += slot_counts[r];
        assert_int_equal(held, params.sharded ? total : total * replicas);

        uint32_t num_subset = 0, hypers[10]; /* one for all, one for each, or any */
        const uint64_t numbers = rf_rng_below(&rng, 3);
        for (uint32_t i = 0; i < n; i++) {
            if (rf_rng_below(&rng, 3) == 0) continue;
            hypers[num_subset] = numbers == 0 ? 0 : numbers == 1 ? num_subset : (uint32_t)rf_rng_below(&rng, 3);
            subset[num_subset++] = spans[i];
        }
        assert_int_equal(rf_segments_restrict(&segments, subset, hypers, num_subset, &part), RF_OK);
        check_plan(subset, num_subset, &part, replicas, NULL, params.max_segment);
        for (uint32_t i = 0; i < part.count; i++) {
            const rf_segment *p = &part.items[i];
            for (uint32_t k = 0; k < num_subset; k++) /* those that it touches have its numbers */
                assert_true(p->hyper == hypers[k] || p->range.end <= subset[k].begin ||
                            p->range.begin >= subset[k].end);
            if (numbers == 1)
                assert_true(p->range.begin >= subset[p->hyper].begin && p->range.end <= subset[p->hyper].end);
            if (numbers == 1 && block > 0) assert_int_equal((p->range.begin - subset[p->hyper].begin) % block, 0);
            bool inside = false; /* of a segment with the same owner, at the same place of its slots */
            for (uint32_t k = 0; k < segments.count; k++) {
                const rf_segment *whole = &segments.items[k];
                inside = inside || (p->range.begin >= whole->range.begin && p->range.end <= whole->range.end &&
                                    p->owner == whole->owner &&
                                    p->slot_offset - whole->slot_offset == p->range.begin - whole->range.begin);
            }
            assert_true(inside);
        }
        rf_segment_list_free(&part);
        rf_segment_list_free(&segments);
    }
}

TEST(one_replica_is_one_segment)
{
    const rf_range spans[] = { { 0, 64 }, { 64, 128 }, { 128, 6400 } };
    uint64_t slots;
    rf_segment_list segments;
    const rf_update_plan_params params = { .spans = spans,
                                           .num_spans = 3,
                                           .num_replicas = 1,
                                           .sharded = true,
                                           .bucket_elements = 100,
                                           .granularity = 64,
                                           .max_segment = 1 << 20 };
    assert_int_equal(rf_update_plan_make(&params, &segments, &slots), RF_OK);
    assert_int_equal(segments.count, 1);
    assert_int_equal(segments.items[0].range.end, 6400);
    assert_int_equal(slots, 6400);
    rf_segment_list_free(&segments);
}

/* ---- exchange ---- */

enum { EXCHANGE_ELEMENTS = 700000 };

TEST(exchange_sums_in_order)
{
    const rf_world world = { .size = 1, .first = (uint32_t[]){ 0, 3 } };
    rf_exchange exchange;
    assert_int_equal(rf_exchange_init(&world, 3, (rf_exchange_compression){ RF_COMPRESSION_NONE, 0 }, &exchange),
                     RF_OK);
    float *data[3], *before[3];
    rf_rng rng = { .key = 15 };
    for (int r = 0; r < 3; r++) {
        data[r] = RF_NEW_ARRAY(float, EXCHANGE_ELEMENTS);
        before[r] = RF_NEW_ARRAY(float, EXCHANGE_ELEMENTS);
        for (int i = 0; i < EXCHANGE_ELEMENTS; i++)
            before[r][i] = data[r][i] = (float)rf_rng_normal(&rng) * (r == 1 ? 1e6f : 1);
    }
    /* A short, an odd and a long segment (which two threads share), one for everybody, and a stretch that nobody owns.
     */
    const rf_segment segments[] = { { .range = { 0, 64 }, .owner = 1 },
                                    { .range = { 64, 5000 }, .owner = 2 },
                                    { .range = { 5000, 650001 }, .owner = 0 },
                                    { .range = { 650064, 690000 }, .owner = RF_OWNER_ALL } };
    const float *from[3] = { data[0], data[1], data[2] };
    rf_bucket_exchange *all, *owned, *one;
    assert_int_equal(rf_bucket_exchange_open(&exchange, segments, 4, true, false, &all), RF_OK);
    assert_int_equal(rf_bucket_exchange_open(&exchange, segments, 3, true, false, &owned), RF_OK);
    assert_int_equal(rf_bucket_exchange_open(&exchange, segments, 1, true, true, &one), RF_OK);
    assert_int_equal(rf_bucket_exchange_reduce(all, from, data), RF_OK);
    assert_int_equal(rf_bucket_exchange_finish(all), RF_OK);
    for (int p = 0; p < 4; p++)
        for (uint64_t i = segments[p].range.begin; i < segments[p].range.end; i++)
            for (uint32_t r = 0; r < 3; r++) {
                float sum = before[0][i] + before[1][i];
                sum += before[2][i];
                const bool has = segments[p].owner == r || segments[p].owner == RF_OWNER_ALL;
                const float want = has ? sum : before[r][i];
                if (memcmp(&data[r][i], &want, sizeof(want)) != 0) fail_msg("replica %u, element %d", r, (int)i);
            }
    for (int i = 650001; i < 650064; i++) assert_memory_equal(&data[0][i], &before[0][i], sizeof(float));

    assert_int_equal(rf_bucket_exchange_gather(owned, from, data), RF_OK);
    assert_memory_equal(data[0], data[1], 650001 * sizeof(float));
    assert_memory_equal(data[0], data[2], 650001 * sizeof(float));

    from[0] = from[1] = NULL; /* replicas without examples */
    memcpy(data[2], before[2], 64 * sizeof(float));
    assert_int_equal(rf_bucket_exchange_reduce(one, from, data), RF_OK);
    assert_memory_equal(data[1], before[2], 64 * sizeof(float));
    from[2] = NULL;
    assert_int_equal(rf_bucket_exchange_reduce(one, from, data), RF_OK);
    for (int i = 0; i < 64; i++) assert_true(data[1][i] == 0);
    for (int r = 0; r < 3; r++) {
        rf_free(data[r]);
        rf_free(before[r]);
    }
    rf_bucket_exchange_close(&all);
    rf_bucket_exchange_close(&owned);
    rf_bucket_exchange_close(&one);
    rf_exchange_free(&exchange);
}

/* ---- initial values ---- */

TEST(fans)
{
    double in, out;
    rf_initializer_fans(RF_SHAPE(3, 3, 32, 64), &in, &out);
    assert_true(in == 288 && out == 576);
    rf_initializer_fans(RF_SHAPE(784, 10), &in, &out);
    assert_true(in == 784 && out == 10);
    rf_initializer_fans(RF_SHAPE(7), &in, &out);
    assert_true(in == 7 && out == 7);
    rf_initializer_fans(RF_SCALAR_SHAPE, &in, &out);
    assert_true(in == 1 && out == 1);
}

/* Mean, deviation and extremes of many draws; `limit` 0: unbounded. */
static void check_distribution(rf_initializer init, rf_shape shape, double mean, double deviation, double limit)
{
    float *x = RF_NEW_ARRAY(float, rf_shape_count(shape));
    assert_int_equal(rf_initializer_fill(&init, shape, 77, x), RF_OK);
    const int64_t n = rf_shape_count(shape);
    double sum = 0, squares = 0, farthest = 0;
    for (int64_t i = 0; i < n; i++) {
        sum += x[i];
        squares += ((double)x[i] - mean) * ((double)x[i] - mean);
        farthest = fmax(farthest, fabs((double)x[i] - mean));
    }
    const double tolerance = 5 * deviation / sqrt((double)n);
    if (fabs(sum / (double)n - mean) > tolerance) fail_msg("kind %d: mean %g", init.kind, sum / (double)n);
    if (fabs(sqrt(squares / (double)n) - deviation) > tolerance)
        fail_msg("kind %d: deviation %g instead of %g", init.kind, sqrt(squares / (double)n), deviation);
    if (limit > 0 && (farthest > limit * (1 + 1e-6) || farthest < 0.98 * limit))
        fail_msg("kind %d: farthest %g, limit %g", init.kind, farthest, limit);
    rf_free(x);
}

TEST(distributions)
{
    const rf_shape shape = RF_SHAPE(400, 500);
    const double glorot = sqrt(6.0 / 900), he = sqrt(6.0 / 400), cut = 0.87962566103423978;
    check_distribution((rf_initializer){ RF_INIT_GLOROT_UNIFORM }, shape, 0, glorot / sqrt(3), glorot);
    check_distribution((rf_initializer){ RF_INIT_HE_UNIFORM }, shape, 0, he / sqrt(3), he);
    check_distribution((rf_initializer){ RF_INIT_GLOROT_NORMAL }, shape, 0, sqrt(2.0 / 900), 2 * sqrt(2.0 / 900) / cut);
    check_distribution((rf_initializer){ RF_INIT_HE_NORMAL }, shape, 0, sqrt(2.0 / 400), 2 * sqrt(2.0 / 400) / cut);
    check_distribution((rf_initializer){ RF_INIT_RANDOM_NORMAL }, shape, 0, 0.05, 0);
    check_distribution((rf_initializer){ RF_INIT_RANDOM_NORMAL, 3, 2 }, shape, 3, 2, 0);
    check_distribution((rf_initializer){ RF_INIT_RANDOM_UNIFORM }, shape, 0, 0.05 / sqrt(3), 0.05);
    check_distribution((rf_initializer){ RF_INIT_RANDOM_UNIFORM, 1, 5 }, shape, 3, 2 / sqrt(3), 2);
    check_distribution((rf_initializer){ RF_INIT_TRUNCATED_NORMAL, 1, 0.02f }, shape, 1, 0.02 * cut, 0.04);
    check_distribution((rf_initializer){ RF_INIT_LECUN_UNIFORM }, shape, 0, sqrt(1.0 / 400), sqrt(3.0 / 400));
    check_distribution((rf_initializer){ RF_INIT_LECUN_NORMAL }, shape, 0, sqrt(1.0 / 400), 2 * sqrt(1.0 / 400) / cut);
    rf_initializer scaled = { .kind = RF_INIT_VARIANCE_SCALING, .fan = RF_FAN_OUT };
    check_distribution(scaled, shape, 0, sqrt(1.0 / 500), 2 * sqrt(1.0 / 500) / cut);
    scaled =
        (rf_initializer){ RF_INIT_VARIANCE_SCALING, 3, .fan = RF_FAN_AVG, .distribution = RF_DISTRIBUTION_UNIFORM };
    check_distribution(scaled, shape, 0, sqrt(3.0 / 450), sqrt(9.0 / 450));
    scaled.distribution = RF_DISTRIBUTION_UNTRUNCATED_NORMAL;
    check_distribution(scaled, shape, 0, sqrt(3.0 / 450), 0);
    check_distribution((rf_initializer){ RF_INIT_CONSTANT, 4 }, shape, 4, 0, 0);
    check_distribution((rf_initializer){ RF_INIT_ONES }, shape, 1, 0, 0);
    check_distribution((rf_initializer){ RF_INIT_ZEROS }, shape, 0, 0, 0);
}

/* Rows (or columns, where there are fewer of them) of length `gain`, at right angles. */
static void check_orthogonal(rf_shape shape, float gain)
{
    float *x = RF_NEW_ARRAY(float, rf_shape_count(shape));
    assert_int_equal(rf_initializer_fill(&(rf_initializer){ RF_INIT_ORTHOGONAL, gain }, shape, 5, x), RF_OK);
    const int64_t columns = shape.dim[shape.rank - 1], rows = rf_shape_count(shape) / columns;
    const int64_t count = rows < columns ? rows : columns, length = rows < columns ? columns : rows;
    const int64_t next = rows < columns ? columns : 1, step = rows < columns ? 1 : columns;
    for (int64_t i = 0; i < count; i++)
        for (int64_t k = 0; k <= i; k++) {
            double product = 0;
            for (int64_t j = 0; j < length; j++)
                product += (double)x[i * next + j * step] * (double)x[k * next + j * step];
            if (fabs(product - (i == k ? (double)gain * (double)gain : 0)) > 1e-5)
                fail_msg("product of %d and %d: %g", (int)i, (int)k, product);
        }
    rf_free(x);
}

TEST(orthogonal)
{
    check_orthogonal(RF_SHAPE(64, 64), 1);
    check_orthogonal(RF_SHAPE(32, 96), 1);
    check_orthogonal(RF_SHAPE(3, 3, 7, 5), 2);
    check_orthogonal(RF_SHAPE(1, 9), 1);
    float x[9];
    assert_int_equal(rf_initializer_fill(&(rf_initializer){ RF_INIT_ORTHOGONAL }, RF_SHAPE(9), 1, x),
                     RF_ERROR_INVALID_ARGUMENT);
    assert_non_null(strstr(rf_error_message(), "two dimensions"));
    assert_int_equal(
        rf_initializer_fill(&(rf_initializer){ .kind = RF_INIT_HE_NORMAL, .fan = RF_FAN_OUT }, RF_SHAPE(9), 1, x),
        RF_ERROR_INVALID_ARGUMENT);
    assert_non_null(strstr(rf_error_message(), "variance scaling only"));
}

TEST(initializers_depend_on_seed_alone)
{
    float a[1000], b[1000], c[1000];
    const rf_initializer init = { RF_INIT_HE_NORMAL };
    assert_int_equal(rf_initializer_fill(&init, RF_SHAPE(10, 100), 5, a), RF_OK);
    assert_int_equal(rf_initializer_fill(&init, RF_SHAPE(10, 100), 5, b), RF_OK);
    assert_int_equal(rf_initializer_fill(&init, RF_SHAPE(10, 100), 6, c), RF_OK);
    assert_memory_equal(a, b, sizeof(a));
    assert_memory_not_equal(a, c, sizeof(a));
    assert_int_equal(rf_initializer_fill(&(rf_initializer){ .kind = (rf_initializer_kind)99 }, RF_SHAPE(3), 1, a),
                     RF_ERROR_INVALID_ARGUMENT);
    assert_int_equal(rf_initializer_fill(&(rf_initializer){ RF_INIT_CONSTANT, NAN }, RF_SHAPE(3), 1, a),
                     RF_ERROR_INVALID_ARGUMENT);
}

/* ---- hash ---- */

/* Every bit of every float matters, and so does the length. */
TEST(hash_sees_every_bit)
{
    float values[41];
    rf_rng rng = { .key = 3 };
    for (int i = 0; i < 41; i++) values[i] = (float)rf_rng_normal(&rng);
    uint64_t shorter = 0;
    for (uint64_t count = 0; count <= 40; count++) {
        const uint64_t hash = rf_hash_floats(values, count);
        assert_true(hash != shorter);
        assert_true(hash == rf_hash_floats(values, count));
        shorter = hash;
        for (uint64_t bit = 0; bit < 32 * count; bit++) {
            uint32_t word;
            memcpy(&word, &values[bit / 32], sizeof(word));
            const uint32_t flipped = word ^ (1u << bit % 32);
            memcpy(&values[bit / 32], &flipped, sizeof(word));
            assert_true(rf_hash_floats(values, count) != hash);
            memcpy(&values[bit / 32], &word, sizeof(word));
        }
    }
    /* Zeros of both signs are different bits; equal values in another order are a different array. */
    assert_true(rf_hash_floats((float[]){ 0.0f }, 1) != rf_hash_floats((float[]){ -0.0f }, 1));
    assert_true(rf_hash_floats((float[]){ 1, 2 }, 2) != rf_hash_floats((float[]){ 2, 1 }, 2));
}

/* ---- loss scaling ---- */

static float rounded(rf_dtype wire, float x)
{
    if (wire == RF_F16) return rf_f16_to_f32(rf_f32_to_f16(x));
    return wire == RF_BF16 ? rf_bf16_to_f32(rf_f32_to_bf16(x)) : x;
}

/* Sums of the largest gradients that pass are finite, also one after the other and rounded each time; twice as large
 * they need not be. */
TEST(gradients_that_pass_never_overflow)
{
    static const rf_dtype wires[] = { RF_F32, RF_F16, RF_BF16 };
    static const uint32_t counts[] = { 1, 2, 3, 7, 8, 64, 100, 1000 };
    for (size_t w = 0; w < sizeof(wires) / sizeof(wires[0]); w++)
        for (size_t c = 0; c < sizeof(counts) / sizeof(counts[0]); c++) {
            const float most = rf_loss_scale_most(wires[w], counts[c]);
            float sum = 0;
            for (uint32_t i = 0; i < counts[c]; i++) sum = rounded(wires[w], sum + rounded(wires[w], most));
            assert_true(isfinite(sum) && most > 0);
            if (counts[c] > 64) continue; /* roundings are most of what the rest allows for */
            sum = 0;
            for (uint32_t i = 0; i < counts[c]; i++) sum = rounded(wires[w], sum + rounded(wires[w], 2 * most));
            assert_true(!isfinite(sum));
        }
}

TESTS(replica_plans, NULL, NULL)
