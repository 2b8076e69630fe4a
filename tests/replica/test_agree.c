/* SPDX-License-Identifier: Apache-2.0 */
/* Messages of other workers about themselves: which are taken, and which are refused. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "replica/agree.h"
#include "tests/room.h"

enum { WORKERS = 3 };
static uint32_t first[WORKERS + 1] = { 0, 1, 2, 3 };
static uint64_t counts[WORKERS];
static rf_world world = { .size = WORKERS, .first = first, .counts = counts };

static void expect_refused(rf_result r, const char *part)
{
    assert_int_equal(r, RF_ERROR_INVALID_ARGUMENT);
    if (!strstr(rf_error_message(), part)) fail_msg("%s", rf_error_message());
}

/* ---- settings ---- */

TEST(test_settings)
{
    const rf_settings good[WORKERS] = { { .num_local = 1, .check_interval = 100, .overlap = 1, .bucket_elements = 7 },
                                        { .num_local = 2, .check_interval = 100, .overlap = 1, .bucket_elements = 7 },
                                        { .num_local = 3, .check_interval = 100, .overlap = 1, .bucket_elements = 7 } };
    rf_settings all[WORKERS];
    uint32_t numbers[WORKERS + 1] = { 9, 9, 9, 9 };
    rf_world w = world;
    w.first = numbers;
    assert_int_equal(rf_agree_settings(&w, good), RF_OK);
    const uint32_t expected[] = { 0, 1, 3, 6 };
    assert_memory_equal(numbers, expected, sizeof(expected));
    static const uint32_t wrong[] = { 0, RF_MAX_LOCAL_REPLICAS + 1, UINT32_MAX };
    for (int i = 0; i < 3; i++) {
        memcpy(all, good, sizeof(all));
        all[1].num_local = wrong[i];
        expect_refused(rf_agree_settings(&w, all), "rank 1 has");
    }
    memcpy(all, good, sizeof(all));
    all[2].bucket_elements = 8;
    expect_refused(rf_agree_settings(&w, all), "bucket_bytes (28 and 32)");
    memcpy(all, good, sizeof(all));
    all[1].overlap = 0;
    expect_refused(rf_agree_settings(&w, all), "rank 1 exchanges gradients after");
    memcpy(all, good, sizeof(all));
    all[2].compression = RF_COMPRESSION_BF16;
    expect_refused(rf_agree_settings(&w, all), "rank 2 have different compression");
    memcpy(all, good, sizeof(all));
    all[1].top_k_share = NAN;
    expect_refused(rf_agree_settings(&w, all), "rank 1 have different compression");
}

/* ---- offers ---- */

static rf_offer offer(uint64_t alignment, uint64_t range, double share)
{
    return (rf_offer){
        .identity = { "device", "driver", 1 }, .alignment = alignment, .range = range, .share = share, .has_share = 1
    };
}

static rf_result agree(const rf_offer *all, rf_strategy *s)
{
    static rf_replica_identity identities[WORKERS];
    *s = (rf_strategy){ .members = { .world = world, .num_replicas = WORKERS, .identities = identities } };
    const rf_result r = rf_agree_offers(s, all);
    rf_free(s->members.shares);
    return r;
}

TEST(test_offers)
{
    rf_strategy s;
    rf_offer all[WORKERS] = { offer(64, 1 << 27, 1), offer(1024, 5000, 2), offer(16, UINT64_MAX, 0) };
    assert_int_equal(agree(all, &s), RF_OK);
    assert_int_equal(s.store.alignment, 1024 / sizeof(float));
    assert_int_equal(s.store.max_segment, 4096 / sizeof(float));
    static const uint64_t alignments[] = { 0, 3, 96, UINT64_C(1) << 21, UINT64_C(1) << 63, UINT64_MAX };
    for (int i = 0; i < 6; i++) {
        all[2].alignment = alignments[i];
        expect_refused(agree(all, &s), "replica 2 of rank 2 has a buffer alignment");
    }
    all[2].alignment = 64;
    static const double shares[] = { -1, INFINITY, NAN };
    for (int i = 0; i < 3; i++) {
        all[2].share = shares[i];
        expect_refused(agree(all, &s), "share 2 must be a finite number");
    }
    all[0].share = all[1].share = all[2].share = 0;
    expect_refused(agree(all, &s), "positive, finite sum");
    all[0].share = all[1].share = 1.7e308; /* each is finite */
    expect_refused(agree(all, &s), "positive, finite sum");
    all[0].share = all[1].share = 1;
    memset(all[1].identity.name, '\n', sizeof(all[1].identity.name));
    assert_int_equal(agree(all, &s), RF_OK);
    assert_int_equal(strlen(s.members.identities[1].name), sizeof(s.members.identities[1].name) - 1);
    assert_int_equal(s.members.identities[1].name[0], '?');
}

/* ---- steps ---- */

TEST(test_steps)
{
    const rf_step_report good[WORKERS] = { { 4, 32, 0, 8, 0, 0, "step" },
                                           { 4, 32, 8, 0, 0, 0, "step" },
                                           { 4, 32, 8, 24, 0, 0, "step" } };
    rf_step_report all[WORKERS];
    memcpy(all, good, sizeof(all));
    assert_int_equal(rf_agree_step(&world, all), RF_OK);
    all[2].first_row = 9;
    expect_refused(rf_agree_step(&world, all), "rank 2 holds 24 rows of the batch from row 9 on");
    memcpy(all, good, sizeof(all));
    all[2].rows = 23;
    expect_refused(rf_agree_step(&world, all), "hold 31 rows of a batch of 32");
    all[2].rows = 25;
    expect_refused(rf_agree_step(&world, all), "rank 2 holds 25 rows");
    /* Around the end of the numbers and back. */
    all[0].rows = 40;
    all[1] = (rf_step_report){ 4, 32, 40, UINT64_MAX - 15, 0, 0, "step" };
    all[2] = (rf_step_report){ 4, 32, 24, 8, 0, 0, "step" };
    expect_refused(rf_agree_step(&world, all), "rank 0 holds 40 rows");
    memcpy(all, good, sizeof(all));
    all[0].seed = all[1].seed = 7;
    expect_refused(rf_agree_step(&world, all), "on rank 0 from seed 7 and on rank 2 from seed 0");
    memcpy(all, good, sizeof(all));
    memset(all[1].function, '\n', sizeof(all[1].function));
    expect_refused(rf_agree_step(&world, all), "but rank 1 '??");
    memcpy(all, good, sizeof(all));
    all[2].number = 5;
    expect_refused(rf_agree_step(&world, all), "run 5");
}

/* ---- what steps update with ---- */

/* Each worker's text in memory of its own size. */
static void expect_difference(const char *a, const char *b, const char *c, const char *part)
{
    const uint64_t sizes[WORKERS] = { strlen(a), strlen(b), strlen(c) };
    char *texts = malloc(sizes[0] + sizes[1] + sizes[2]);
    assert_non_null(texts);
    memcpy(texts, a, sizes[0]);
    memcpy(texts + sizes[0], b, sizes[1]);
    memcpy(texts + sizes[0] + sizes[1], c, sizes[2]);
    expect_refused(rf_agree_settings_differ(&world, texts, sizes), part);
    free(texts);
}

TEST(test_update_settings)
{
    expect_difference("rate 1\nbeta 2\n", "rate 1\nbeta 2\n", "rate 1\nbeta 3\n",
                      "rank 0 updates with beta 2, but rank 2 with beta 3");
    expect_difference("rate 1\nbeta 2\n", "rate 1\n", "rate 1\nbeta 2\n", "beta 2, but rank 1 with no more");
    expect_difference("", "rate 1\n", "", "rank 0 updates with no more, but rank 1 with rate 1;");
    expect_difference("rate 1\n", "rate\t1", "rate 1\n", "rank 1 with rate?1;");
    expect_difference("same\n", "same\n", "same\n", "optimizers differ");
    char line[1000];
    memset(line, 'x', sizeof(line) - 1);
    line[sizeof(line) - 1] = '\0';
    expect_difference("rate 1\n", line, "", "rank 1 with xxx");
}

/* ---- rows ---- */

TEST(test_rows)
{
    uint64_t total = 0, rows[WORKERS] = { 3, 0, 5 };
    assert_int_equal(rf_agree_rows(&world, "logits", 40, rows, &total), RF_OK);
    assert_true(total == 8 && rows[0] == 120 && rows[1] == 0 && rows[2] == 200);
    uint64_t around[WORKERS] = { UINT64_MAX - 4, 10, 2 }; /* adds up to 7 */
    expect_refused(rf_agree_rows(&world, "logits", 40, around, &total), "rank 0");
    uint64_t product[WORKERS] = { 2, UINT64_C(1) << 60, 1 };
    expect_refused(rf_agree_rows(&world, "logits", 16, product, &total), "rank 1");
    uint64_t empty[WORKERS] = { 1, UINT64_C(1) << 63, 1 };
    expect_refused(rf_agree_rows(&world, "logits", 0, empty, &total), "rank 1");
}

TESTS(agree, NULL, NULL)
