/* SPDX-License-Identifier: Apache-2.0 */
/* Central storage: one replica owns all variables and optimizer state, the results are those of one device. */
#include "linear.h"
#include "tests/room.h"

#include <math.h>

enum { STEPS = 10, BATCH = 32 };

static rf_strategy *open_central(const char *devices, uint64_t bucket_bytes)
{
    rf_strategy *s;
    const rf_central_storage_params params = { .mirrored = { .devices = devices, .bucket_bytes = bucket_bytes } };
    const rf_result r = rf_strategy_create_central_storage(&params, &s);
    if (r == RF_ERROR_NOT_FOUND) SKIP("%s", rf_error_message());
    CHECK(r);
    return s;
}

static void check_adam(const char *devices, uint64_t bucket_bytes, uint32_t batch, bool staged)
{
    float losses[STEPS];
    for (int k = 0; k < 2; k++) {
        rf_strategy *s = open_central(k == 0 ? "llvmpipe" : devices, bucket_bytes);
        for (uint32_t r = 0; staged && r < s->members.num_replicas; r++) s->members.replicas[r].staged = true;
        linear m;
        linear_create(&m, s, &(linear_params){ .adam = true });
        for (int i = 0; i < STEPS; i++) {
            const float loss = linear_step(&m, 0, batch);
            if (k == 0) losses[i] = loss;
            if (!(fabsf(loss - losses[i]) <= 1e-5f * (1 + fabsf(losses[i]))))
                fail_msg("%s: step %d: loss %.9g instead of %.9g", devices, i, (double)loss, (double)losses[i]);
            CHECK(rf_strategy_check_identical(s, NULL, NULL));
        }
        assert_true(losses[STEPS - 1] < losses[0]);
        for (uint32_t i = 0; i < m.updater->plan.count; i++) assert_int_equal(m.updater->plan.items[i].owner, 0);
        for (uint32_t slot = 0; slot < 2; slot++) {
            assert_non_null(m.updater->slots[slot][0]);
            for (uint32_t r = 1; r < s->members.num_local; r++) assert_null(m.updater->slots[slot][r]);
        }
        linear_destroy(&m);
        rf_strategy_destroy(&s);
    }
}

TEST(two_drivers)
{
    check_adam("llvmpipe,SwiftShader", 0, BATCH, false);
}
TEST(three_replicas)
{
    check_adam("llvmpipe,llvmpipe,SwiftShader", 256, BATCH, false);
}
TEST(staged_devices)
{
    check_adam("llvmpipe,llvmpipe", 0, BATCH, true);
}
TEST(fewer_examples_than_replicas)
{
    check_adam("llvmpipe,llvmpipe,llvmpipe", 0, 2, false);
}

TEST(refusals)
{
    rf_strategy *s;
    const rf_central_storage_params local = { .mirrored = { .update_mode = RF_UPDATE_LOCAL } };
    CHECK_FAILS(rf_strategy_create_central_storage(&local, &s), RF_ERROR_INVALID_ARGUMENT, "update_mode");
    assert_null(s);
    assert_int_equal(rf_strategy_create_central_storage(&local, NULL), RF_ERROR_INVALID_ARGUMENT);
}

TESTS(central_storage, NULL, NULL)
