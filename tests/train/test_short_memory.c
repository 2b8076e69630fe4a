/* SPDX-License-Identifier: Apache-2.0 */
/* A lack of device memory anywhere in the first step of a training leaves everything as it was: state can be saved, and
 * the step runs once there is memory. Each allocation of the step fails in turn. */
#include <unistd.h>

#include "../support/strategies.h"
#include "gpu/internal.h"
#include "replica/internal.h"
#include "tests/room.h"

enum { ROWS = 6, COLUMNS = 8, WEIGHTS = COLUMNS * 4 + 4 };

/* ---- devices that run out of memory ---- */

static long allowed = -1; /* allocations until one fails; -1: none does */
static PFN_vkAllocateMemory allocate;

static VKAPI_ATTR VkResult VKAPI_CALL allocate_some(VkDevice device, const VkMemoryAllocateInfo *info,
                                                    const VkAllocationCallbacks *callbacks, VkDeviceMemory *out)
{
    if (allowed == 0) return VK_ERROR_OUT_OF_DEVICE_MEMORY;
    if (allowed > 0) allowed--;
    return allocate(device, info, callbacks, out);
}

static void watch_allocations(const rf_strategy *strategy)
{
    for (uint32_t r = 0; r < strategy->members.num_local; r++) {
        rf_vk_device *vk = &strategy->members.replicas[r].device->vk;
        allocate = vk->AllocateMemory; /* that of lavapipe's devices is one function */
        vk->AllocateMemory = allocate_some;
    }
}

/* ---- a training ---- */

typedef struct training {
    rf_strategy *strategy;
    rf_model *model;
    rf_optimizer *optimizer;
    rf_function *step, *look;
    float x[ROWS * COLUMNS], y[ROWS * 4];
} training;

static rf_result step(rf_trace *t, const rf_tensor *in, rf_tensor *out, void *user)
{
    training *tr = user;
    (void)out;
    const rf_tensor p = rf_model_call(t, tr->model, in[0], RF_TRAINING);
    const rf_tensor loss = rf_compute_average_loss(t, rf_mean_squared_error(t, in[1], p), NULL);
    return rf_optimizer_minimize(t, tr->optimizer, loss, rf_model_variables(tr->model));
}

/* Needs room for intermediate results, but less than a training step. */
static rf_result look_step(rf_trace *t, const rf_tensor *in, rf_tensor *out, void *user)
{
    const training *tr = user;
    const rf_tensor p = rf_softmax(t, rf_model_call(t, tr->model, in[0], RF_INFERENCE));
    out[0] = rf_reduce_sum(t, rf_square(t, rf_softmax(t, p)), NULL, 0, RF_DROP_DIMS);
    return rf_trace_status(t);
}

static bool training_create(training *tr, const char *devices, const rf_optimizer_params *params)
{
    rf_layer *layer;
    if (!(tr->strategy = open_devices(devices))) return false;
    rf_strategy_set_seed(tr->strategy, 5);
    OK(rf_layer_dense(&(rf_dense_params){ .units = 4 }, &layer));
    OK(rf_model_create_sequential(tr->strategy, &layer, 1, &RF_SHAPE(COLUMNS), &tr->model));
    OK(rf_optimizer_create(tr->strategy, params, &tr->optimizer));
    OK(rf_function_create(tr->strategy, &(rf_function_params){ .step = step, .user = tr, .training = true },
                          &tr->step));
    const rf_function_params look = { .step = look_step, .user = tr, .num_outputs = 1 };
    OK(rf_function_create(tr->strategy, &look, &tr->look));
    fill_noise(tr->x, ROWS * COLUMNS, 1);
    fill_noise(tr->y, ROWS * 4, 2);
    watch_allocations(tr->strategy);
    return true;
}

static void training_free(training *tr)
{
    rf_function_destroy(&tr->step);
    rf_function_destroy(&tr->look);
    rf_optimizer_destroy(&tr->optimizer);
    rf_model_destroy(&tr->model);
    rf_strategy_destroy(&tr->strategy);
}

static rf_result train_once(training *tr)
{
    const rf_element batch = { 2, { array_f32(RF_SHAPE(ROWS, COLUMNS), tr->x), array_f32(RF_SHAPE(ROWS, 4), tr->y) } };
    return rf_strategy_run(tr->strategy, tr->step, &batch, NULL);
}

static float look_at(training *tr)
{
    float sum;
    run_once(tr->strategy, tr->look, &(rf_element){ 1, { array_f32(RF_SHAPE(ROWS, COLUMNS), tr->x) } }, &sum, 1);
    return sum;
}

static void weights_of(const training *tr, float *weights)
{
    const rf_variable_list all = rf_model_variables(tr->model);
    for (uint32_t i = 0; i < all.count; i++) {
        OK(rf_variable_read(all.items[i], weights));
        weights += rf_shape_count(rf_variable_shape(all.items[i]));
    }
}

static void save(const training *tr)
{
    char path[] = "/tmp/short_memory_XXXXXX";
    rf_checkpoint *c;
    const int file = mkstemp(path);
    assert_true(file >= 0);
    close(file);
    OK(rf_checkpoint_create(tr->strategy, &c));
    OK(rf_checkpoint_add_model(c, "model", tr->model));
    OK(rf_checkpoint_add_optimizer(c, "optimizer", tr->optimizer));
    OK(rf_checkpoint_save(c, path, NULL));
    rf_checkpoint_destroy(&c);
    unlink(path);
}

/* True once the step needs no more allocations than it is given. */
static bool fail_at(const char *devices, const rf_optimizer_params *params, long allocation, const float *expected)
{
    training tr;
    float before[WEIGHTS], after[WEIGHTS];
    assert_true(training_create(&tr, devices, params));
    weights_of(&tr, before);
    const float seen = look_at(&tr);
    allowed = allocation;
    const rf_result r = train_once(&tr);
    allowed = -1;
    if (r < 0) {
        if (r != RF_ERROR_OUT_OF_DEVICE_MEMORY) fail_msg("allocation %ld: %s", allocation, rf_error_message());
        weights_of(&tr, after);
        assert_memory_equal(before, after, sizeof(before));
        assert_true(look_at(&tr) == seen);
        save(&tr);
        OK(train_once(&tr));
    }
    OK(train_once(&tr));
    weights_of(&tr, after);
    assert_memory_equal(after, expected, sizeof(after));
    training_free(&tr);
    return r >= 0;
}

static const rf_loss_scale_params scaled = { .initial = 1024 };
static const rf_optimizer_params kinds[] = {
    { .kind = RF_OPTIMIZER_ADAM },
    { .momentum = 0.9, .global_clip_norm = 1 },
    { .kind = RF_OPTIMIZER_LAMB },
    { .kind = RF_OPTIMIZER_MUON },
    { .kind = RF_OPTIMIZER_ADAM, .loss_scale = &scaled, .clip_norm = 1 },
    { .momentum = 0.9, .accumulation_steps = 2 },
};

static void sweep(const char *devices, uint32_t first, uint32_t count)
{
    for (uint32_t k = first; k < first + count; k++) {
        training tr;
        float expected[WEIGHTS];
        if (!training_create(&tr, devices, &kinds[k])) SKIP("llvmpipe is not installed");
        for (int i = 0; i < 2; i++) OK(train_once(&tr));
        weights_of(&tr, expected);
        training_free(&tr);
        long n = 0;
        while (!fail_at(devices, &kinds[k], n, expected)) n++;
        print_message("%s: %ld allocations\n", devices, n);
        assert_in_range(n, 2, 200); /* or nothing was watched */
    }
}

TEST(one_replica)
{
    sweep("llvmpipe", 0, sizeof(kinds) / sizeof(kinds[0]));
}

TEST(two_replicas)
{
    sweep("llvmpipe,llvmpipe", 4, 1);
}

TESTS(short_memory, NULL, NULL)
