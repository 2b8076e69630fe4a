/* SPDX-License-Identifier: Apache-2.0 */
/* The tests of steps on devices share this: strategies on the installed drivers, arrays, assertions. */
#ifndef RF_TESTS_SUPPORT_STRATEGIES_H
#define RF_TESTS_SUPPORT_STRATEGIES_H

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <ringfire/ringfire.h>

#include "../skip.h"
#include "../validation.h"
#include "expect.h"
#include "tests/room.h"

static inline void assert_near(double is, double expected, double rtol, double atol, const char *what)
{
    if (!(fabs(is - expected) <= atol + rtol * fabs(expected))) {
        fail_msg("%s: %.9g is not %.9g (difference %.3g)", what, is, expected, is - expected);
    }
}

/* Bit for bit; of at most 512 elements each. */
static inline void assert_same_variables(rf_variable_list a, rf_variable_list b)
{
    assert_int_equal(a.count, b.count);
    for (uint32_t i = 0; i < a.count; i++) {
        float left[512], right[512];
        const size_t count = (size_t)rf_shape_count(rf_variable_shape(a.items[i]));
        assert_in_range(count, 1, 512);
        OK(rf_variable_read(a.items[i], left));
        OK(rf_variable_read(b.items[i], right));
        assert_memory_equal(left, right, count * sizeof(float));
    }
}

/* Strategies that every test of semantics runs on: one device of each driver, two drivers, one driver twice. */
static const char *const device_lists[] = { "llvmpipe", "SwiftShader", "llvmpipe,SwiftShader", "llvmpipe,llvmpipe" };
enum { NUM_DEVICE_LISTS = sizeof(device_lists) / sizeof(device_lists[0]) };

/* NULL when a driver of the list is not installed. One driver twice: in a job of two workers a device of each. */
static inline rf_strategy *open_devices(const char *devices)
{
    rf_strategy *strategy = NULL;
    const bool job = getenv("RINGFIRE_WORLD_SIZE") && strcmp(devices, device_lists[3]) == 0;
    const rf_result r = job ? rf_strategy_create_multi_worker(
                                  &(rf_multi_worker_params){ .mirrored = { .devices = device_lists[0] } }, &strategy)
                            : rf_strategy_create_mirrored(&(rf_mirrored_params){ .devices = devices }, &strategy);
    if (r == RF_ERROR_NOT_FOUND) {
        print_message("left out, not installed: %s\n", devices);
        return NULL;
    }
    OK(r);
    return strategy;
}

/* Runs `body` on the lists from `first` on whose drivers are installed, on `most` of them at most. */
static inline void on_devices(void (*body)(rf_strategy *strategy), uint32_t first, uint32_t count, uint32_t most)
{
    uint32_t ran = 0;
    for (uint32_t i = first; i < first + count && ran < most; i++) {
        rf_strategy *strategy = open_devices(device_lists[i]);
        if (!strategy) continue;
        rf_strategy_set_seed(strategy, 1234);
        body(strategy);
        assert_int_equal(rf_strategy_num_validation_messages(strategy), 0);
        rf_strategy_destroy(&strategy);
        ran++;
    }
    if (ran == 0) SKIP("none of its drivers is among those of this suite");
}
/* On two devices: one driver twice, because SwiftShader compiles every kernel anew in each process, or two drivers
 * where the environment asks for it, as suite "soak" does. */
static inline void on_two_devices(void (*body)(rf_strategy *strategy))
{
    const bool mixed = getenv("RINGFIRE_TEST_MIXED") != NULL;
    on_devices(body, mixed ? 2 : 3, 1, 1);
}

/* Tests named after where they run: everywhere, on one device, on two devices. */
#define TEST_ON_LISTS(name, suffix, first, count, most)                                                                \
    TEST(name##suffix)                                                                                                 \
    {                                                                                                                  \
        on_devices(name, first, count, most);                                                                          \
    }
#define TEST_ON_ALL(name) TEST_ON_LISTS(name, _on_all, 0, NUM_DEVICE_LISTS, NUM_DEVICE_LISTS)
#define TEST_ON_ONE(name) TEST_ON_LISTS(name, _on_one, 0, 2, 1)
#define TEST_ON_TWO(name)                                                                                              \
    TEST(name##_on_two)                                                                                                \
    {                                                                                                                  \
        on_two_devices(name);                                                                                          \
    }
/* The same where a program has several lists of tests: those of such a list, which names them. */
#define ON_LISTS(name, suffix, first, count, most)                                                                     \
    static void name##suffix(__attribute__((unused)) void **state)                                                     \
    {                                                                                                                  \
        on_devices(name, first, count, most);                                                                          \
    }
#define ON_ONE(name) ON_LISTS(name, _on_one, 0, 2, 1)
#define ON_TWO(name)                                                                                                   \
    static void name##_on_two(__attribute__((unused)) void **state)                                                    \
    {                                                                                                                  \
        on_two_devices(name);                                                                                          \
    }

static inline rf_array array_f32(rf_shape shape, float *data)
{
    return (rf_array){ RF_F32, shape, data };
}
static inline rf_array array_i32(rf_shape shape, int32_t *data)
{
    return (rf_array){ RF_I32, shape, data };
}

/* Numbers in [-1, 1) that are the same everywhere. */
static inline float noise(uint32_t *seed)
{
    *seed = *seed * 1664525u + 1013904223u;
    return (float)(*seed >> 8) / 8388608.0f - 1.0f;
}
static inline void fill_noise(float *values, size_t count, uint32_t seed)
{
    for (size_t i = 0; i < count; i++) values[i] = noise(&seed);
}

/* A step with one output, that of the model `user`. */
static inline rf_result call_for_training(rf_trace *t, const rf_tensor *in, rf_tensor *out, void *user)
{
    out[0] = rf_model_call(t, user, in[0], RF_TRAINING);
    return rf_trace_status(t);
}

/* One run of a step; the per-replica results are summed where `sums` is given. */
static inline void run_once(rf_strategy *strategy, rf_function *function, const rf_element *batch, float *sums,
                            uint32_t num_outputs)
{
    rf_per_replica *results[RF_MAX_COMPONENTS];
    OK(rf_strategy_run(strategy, function, batch, results));
    for (uint32_t i = 0; sums && i < num_outputs; i++)
        OK(rf_strategy_reduce(strategy, RF_REDUCE_SUM, results[i], &sums[i]));
}

/* One run of a step with one output: that of all replicas, to be freed. */
static inline rf_array run_gathered(rf_strategy *strategy, rf_function *function, const rf_element *batch)
{
    rf_per_replica *results[1];
    rf_array out;
    OK(rf_strategy_run(strategy, function, batch, results));
    OK(rf_strategy_gather(strategy, results[0], &out));
    return out;
}

#endif
