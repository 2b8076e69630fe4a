/* SPDX-License-Identifier: Apache-2.0 */
/* Jobs whose optimizers keep state in few bits make the bits of one process with as many devices. */
#include "../replica/mw_model.h"
#include "tests/room.h"

static const rf_optimizer_params kinds[] = {
    { .kind = RF_OPTIMIZER_ADAM, .learning_rate = 0.01, .state_type = RF_OPTIMIZER_STATE_8BIT },
    { .kind = RF_OPTIMIZER_ADAMW,
      .learning_rate = 0.01,
      .weight_decay = 0.1,
      .accumulation_steps = 2,
      .state_type = RF_OPTIMIZER_STATE_BF16 },
    { .kind = RF_OPTIMIZER_LION, .learning_rate = 0.002, .state_type = RF_OPTIMIZER_STATE_BF16 },
    { .learning_rate = 0.05, .momentum = 0.9, .state_type = RF_OPTIMIZER_STATE_8BIT },
};

/* In another one owners have other parts. */
static void expect_bits(const job_params *process, const job_params *workers)
{
    static report one[MAX_WORKERS], two[MAX_WORKERS];
    for (uint32_t k = 0; k < sizeof(kinds) / sizeof(kinds[0]); k++) {
        const training t = { .steps = 6, .batch = 24, .optimizer = kinds[k], .checks = true };
        job_params a = *process, b = *workers;
        a.user = b.user = &t;
        if (k % 2) b.mirrored.bucket_bytes = 2000;
        run_job(&a, train_net, one);
        run_job(&b, train_net, two);
        compare_jobs(two, 2, one, 0);
        assert_true(one[0].hash == two[0].hash);
    }
}

TEST(two_workers_of_a_device_each)
{
    expect_bits(&(job_params){ .num_workers = 1, .devices = { "llvmpipe,llvmpipe" } },
                &(job_params){ .num_workers = 2, .devices = { "llvmpipe", "llvmpipe" } });
}

TEST(two_drivers)
{
    expect_bits(&(job_params){ .num_workers = 1, .devices = { "llvmpipe,SwiftShader" } },
                &(job_params){ .num_workers = 2, .devices = { "llvmpipe", "SwiftShader" } });
}

TESTS(state_workers, NULL, NULL)
