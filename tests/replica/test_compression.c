/* SPDX-License-Identifier: Apache-2.0 */
/* Gradients that travel between workers with fewer bits, or only the largest of them. */
#include <math.h>

#include "base/memory.h"
#include "base/philox.h"
#include "mw_model.h"
#include "tests/room.h"
#include "transport/collective/sparse.h"

#define LVP "llvmpipe"

/* ---- which are the largest ---- */

TEST(test_count)
{
    assert_int_equal(rf_sparse_count(0, 0.5), 0);
    assert_int_equal(rf_sparse_count(1, 1e-9), 1);
    assert_int_equal(rf_sparse_count(1000, 0.01), 10);
    assert_int_equal(rf_sparse_count(1001, 0.01), 11);
    assert_int_equal(rf_sparse_count(7, 1), 7);
}

static uint32_t float_magnitude(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof(bits));
    return bits & 0x7fffffffu;
}

/* The plain way: how many are larger, and how many equal ones come before. */
static uint32_t rank_of(const float *values, uint32_t count, uint32_t index)
{
    uint32_t rank = 0;
    for (uint32_t i = 0; i < count; i++)
        rank += float_magnitude(values[i]) > float_magnitude(values[index]) ||
                (i < index && float_magnitude(values[i]) == float_magnitude(values[index]));
    return rank;
}

static void check_choice(rf_sparse_finder *finder, const float *values, uint32_t count, uint32_t chosen)
{
    float *left = RF_NEW_ARRAY(float, count);
    rf_sparse_entry *out = RF_NEW_ARRAY(rf_sparse_entry, chosen);
    memcpy(left, values, count * sizeof(float));
    rf_sparse_choose(finder, left, count, chosen, out);
    uint32_t next = 0;
    for (uint32_t i = 0; i < count; i++) {
        const bool wanted = rank_of(values, count, i) < chosen;
        assert_memory_equal(&left[i], wanted ? &(float){ 0 } : &values[i], sizeof(float));
        if (!wanted) continue;
        assert_int_equal(out[next].index, i);
        assert_memory_equal(&out[next++].value, &values[i], sizeof(float));
    }
    assert_int_equal(next, chosen);
    rf_free(left);
    rf_free(out);
}

TEST(test_choose)
{
    enum { COUNT = 700 };
    static rf_sparse_finder finder;
    static const float special[] = { NAN, -INFINITY, INFINITY, 0, -0.0f, 1e-42f, 3e38f };
    rf_rng rng = { .key = 31 };
    float values[COUNT];
    for (uint32_t round = 0; round < 12; round++) {
        for (uint32_t i = 0; i < COUNT; i++) {
            const uint32_t kind = round % 4;
            /* of all sizes; that differ in the last bits; few different ones; some special ones */
            values[i] = kind == 0   ? (float)(rf_rng_normal(&rng) * exp(rf_rng_normal(&rng) * 10))
                        : kind == 1 ? 1 + (float)rf_rng_below(&rng, 9) * 0x1p-23f
                                    : (float)rf_rng_below(&rng, 5) - 2;
            if (kind == 3 && rf_rng_below(&rng, 9) == 0) values[i] = special[rf_rng_below(&rng, 7)];
        }
        static const uint32_t chosen[] = { 1, 2, 77, COUNT / 2, COUNT - 1, COUNT };
        for (uint32_t k = 0; k < 6; k++) check_choice(&finder, values, COUNT, chosen[k]);
    }
    check_choice(&finder, values, 1, 1);
}

TEST(test_add)
{
    float values[3] = { 1, 2, 3 };
    const rf_sparse_entry entries[] = { { 2, 0.5f }, { 0, -1 }, { 3, 9 }, { UINT32_MAX, 9 }, { 2, 1 } };
    rf_sparse_add(entries, 5, values, 3);
    assert_true(values[0] == 0 && values[1] == 2 && values[2] == 4.5f);
}

/* ---- jobs ---- */

static const rf_optimizer_params sgd = { .kind = RF_OPTIMIZER_SGD, .learning_rate = 0.1, .momentum = 0.9 };
static const rf_optimizer_params clipped = { .kind = RF_OPTIMIZER_ADAM, .global_clip_norm = 0.5 };

static report plain[MAX_WORKERS], got[MAX_WORKERS];

static void run_compressed(job_params job, rf_compression compression, double share, report *reports)
{
    job.compression = compression;
    job.top_k_share = share;
    run_job(&job, train_net, reports);
    check_job(reports, job.num_workers);
}

/* Different from what travels whole, but not by much; the replicas are compared after every step. */
static void check_half(const job_params *job, rf_compression compression, double tolerance)
{
    run_compressed(*job, compression, 0, got);
    compare_jobs(got, job->num_workers, plain, tolerance);
    assert_true(got[0].hash != plain[0].hash);
}

TEST(half_the_bytes)
{
    const training t = { .steps = 12, .batch = 24, .optimizer = sgd, .checks = true };
    job_params job = {
        .num_workers = 2, .devices = { LVP, LVP "," LVP }, .mirrored = { .bucket_bytes = 3000 }, .user = &t
    };
    run_compressed(job, RF_COMPRESSION_NONE, 0, plain);
    check_half(&job, RF_COMPRESSION_F16, 1e-3);
    check_half(&job, RF_COMPRESSION_BF16, 3e-2);
    job.mirrored.update_mode = RF_UPDATE_LOCAL;
    check_half(&job, RF_COMPRESSION_BF16, 3e-2);
}

/* All of them, which two workers add up as they add whole buckets; by bucket and afterwards (norms). */
TEST(all_of_them)
{
    const rf_optimizer_params optimizers[] = { sgd, clipped };
    for (uint32_t i = 0; i < 2; i++) {
        const training t = { .steps = 8, .batch = 12, .optimizer = optimizers[i], .checks = true };
        job_params job = {
            .num_workers = 2, .devices = { LVP, LVP }, .mirrored = { .bucket_bytes = 3000 }, .user = &t
        };
        run_compressed(job, RF_COMPRESSION_NONE, 0, plain);
        run_compressed(job, RF_COMPRESSION_TOP_K, 1, got);
        compare_jobs(got, 2, plain, 0);
        assert_true(got[0].hash == plain[0].hash);
        job.mirrored.update_mode = RF_UPDATE_LOCAL;
        run_compressed(job, RF_COMPRESSION_TOP_K, 1, got);
        compare_jobs(got, 2, plain, 1e-5);
    }
}

/* How far the loss of the last ten steps is below that of the first ten. */
static double gain(const report *r)
{
    double sum = 0;
    for (uint32_t i = 0; i < 10; i++) sum += r->losses[i] - r->losses[r->steps - 1 - i];
    return sum / 10;
}

/* A twentieth of them: the replicas stay identical, and what is kept back comes in the end. */
TEST(the_largest)
{
    const training t = { .steps = 80, .batch = 24, .optimizer = { .learning_rate = 0.05 }, .checks = true };
    const job_params job = {
        .num_workers = 3, .devices = { LVP "," LVP, LVP, LVP }, .mirrored = { .bucket_bytes = 3000 }, .user = &t
    };
    run_compressed(job, RF_COMPRESSION_TOP_K, 0.05, got);
    run_compressed(job, RF_COMPRESSION_NONE, 0, plain);
    print_message("the loss falls by %.3f; by %.3f where all gradients travel\n", gain(got), gain(plain));
    assert_true(gain(plain) > 0.2 && gain(got) > 0.5 * gain(plain));
    for (uint32_t r = 1; r < 3; r++) assert_true(got[r].hash == got[0].hash);
}

/* Gradients that are kept at one scale would be added to those of another. */
static rf_result scale_losses(worker *w)
{
    rf_optimizer *optimizer = NULL;
    const rf_optimizer_params params = { .loss_scale = &(rf_loss_scale_params){ 0 } };
    EXPECT_FAILS(rf_optimizer_create(w->strategy, &params, &optimizer), RF_ERROR_UNSUPPORTED, "losses cannot be scaled",
                 "leave out loss_scale");
    EXPECT(optimizer == NULL);
    return RF_OK;
}

TEST(scaled_losses)
{
    const job_params job = { .num_workers = 2, .devices = { LVP, LVP }, .compression = RF_COMPRESSION_TOP_K };
    run_job(&job, scale_losses, got);
    check_job(got, 2);
}

/* Gradients that f32 can hold and f16 cannot. */
static rf_result train_beyond_f16(worker *w)
{
    const training *t = w->user;
    rf_loss_scale scale;
    net n;
    GO(net_create(w, t, &n));
    for (uint32_t i = 0; i < t->steps; i++) {
        float loss;
        GO(net_step(w, &n, i, t->batch, &loss));
        GO(rf_strategy_check_identical(w->strategy, NULL, NULL));
        EXPECT(isfinite(loss));
    }
    GO(rf_optimizer_loss_scale(n.optimizer, &scale));
    EXPECT(scale.skipped_steps > 0 && scale.skipped_steps < t->steps);
    EXPECT(scale.scale == ldexp(t->optimizer.loss_scale->initial, -(int)scale.skipped_steps));
    EXPECT(rf_optimizer_iterations(n.optimizer) == t->steps - scale.skipped_steps);
    return net_hash(&n, &w->report->hash);
}

/* All workers skip steps until the scale is so small that sums fit into what travels. */
TEST(scaled_beyond_the_wire)
{
    const rf_loss_scale_params scale = { .initial = 0x1p30 };
    const training t = { .steps = 30, .batch = 12, .optimizer = { .learning_rate = 0.01, .loss_scale = &scale } };
    const job_params job = {
        .num_workers = 2, .devices = { LVP, LVP "," LVP }, .compression = RF_COMPRESSION_F16, .user = &t
    };
    run_job(&job, train_beyond_f16, got);
    check_job(got, 2);
    assert_true(got[0].hash == got[1].hash);
}

TEST(test_refusals)
{
    static const struct {
        rf_compression compression;
        double share;
        const char *part;
    } wrong[] = { { (rf_compression)9, 0, "compression 9 does not exist" },
                  { RF_COMPRESSION_TOP_K, 1.5, "top_k_share is 1.5" },
                  { RF_COMPRESSION_TOP_K, NAN, "top_k_share is nan" },
                  { RF_COMPRESSION_BF16, 0.1, "compression is not RF_COMPRESSION_TOP_K" } };
    for (uint32_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        rf_strategy *strategy;
        const rf_multi_worker_params params = { .compression = wrong[i].compression, .top_k_share = wrong[i].share };
        assert_int_equal(rf_strategy_create_multi_worker(&params, &strategy), RF_ERROR_INVALID_ARGUMENT);
        assert_non_null(strstr(rf_error_message(), wrong[i].part));
        assert_null(strategy);
    }
}

TEST(test_names)
{
    rf_compression kind;
    double share;
    static const char *const names[] = { "none", "f16", "bf16", "top-k" };
    for (uint32_t i = 0; i < 4; i++) {
        share = 9;
        assert_int_equal(rf_compression_parse(names[i], &kind, &share), RF_OK);
        assert_true(kind == (rf_compression)i && share == 0);
    }
    assert_int_equal(rf_compression_parse("top-k=0.25", &kind, &share), RF_OK);
    assert_true(kind == RF_COMPRESSION_TOP_K && share == 0.25);
    static const char *const wrong[] = { "",          "f1",        "bf166",    "top-k=", "top-k=0",
                                         "top-k=1.5", "top-k=nan", "top-k=1x", "f16=0.5" };
    for (uint32_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        assert_int_equal(rf_compression_parse(wrong[i], &kind, &share), RF_ERROR_INVALID_ARGUMENT);
        assert_non_null(strstr(rf_error_message(), wrong[i]));
    }
}

TESTS(compression, NULL, NULL)
