/* SPDX-License-Identifier: Apache-2.0 */
/* Optimizers whose state is in few bits: each step against the host's arithmetic, memory, files, state that moves, and
 * who has no such state. */
#include "replica/update/updater.h"
#include "run_state.h"
#include "tests/room.h"
#include "train/optimizer/optimizer_object.h"

#define OF(type, ...)                                                                                                  \
    {                                                                                                                  \
        __VA_ARGS__, .state_type = RF_OPTIMIZER_STATE_##type                                                           \
    }
#define ALL_KINDS(type)                                                                                                \
    OF(type, .kind = RF_OPTIMIZER_ADAM, .learning_rate = 0.01),                                                        \
        OF(type, .kind = RF_OPTIMIZER_ADAMW, .learning_rate = 0.01, .weight_decay = 0.1),                              \
        OF(type, .kind = RF_OPTIMIZER_LION, .learning_rate = 0.002), OF(type, .learning_rate = 0.05, .momentum = 0.9), \
        OF(type, .learning_rate = 0.05, .momentum = 0.9, .nesterov = true)
static const rf_optimizer_params kinds[] = { ALL_KINDS(8BIT), ALL_KINDS(BF16) };
enum { NUM_KINDS = sizeof(kinds) / sizeof(kinds[0]), NUM_TYPES = 3, SLOTS = 2 };

/* ---- each step against the host ---- */

typedef struct snapshot {
    float weights[RUN_WEIGHTS], slots[SLOTS][RUN_WEIGHTS], gradients[RUN_WEIGHTS];
} snapshot;

static void take(const run_state *run, snapshot *s, bool gradients)
{
    const rf_variable_list list = rf_model_variables(run->model);
    uint32_t at = 0;
    for (uint32_t i = 0; i < list.count; i++) {
        rf_updater *u = run->optimizer->updater;
        OK(rf_variable_read(list.items[i], s->weights + at));
        for (uint32_t k = 0; k < u->params.num_slots; k++)
            OK(rf_updater_read_slot(u, k, list.items[i], s->slots[k] + at));
        if (gradients) OK(rf_variable_read_gradient(list.items[i], s->gradients + at));
        at += (uint32_t)rf_shape_count(rf_variable_shape(list.items[i]));
    }
}

/* The new weight, and what the slots would be without rounding. */
static double oracle(const rf_optimizer_params *p, uint32_t step, double w, double g, double slots[SLOTS])
{
    const double beta_1 = 0.9, beta_2 = p->kind == RF_OPTIMIZER_LION ? 0.99 : 0.999, rate = p->learning_rate;
    const double m = slots[0];
    w -= rate * p->weight_decay * w;
    if (p->kind == RF_OPTIMIZER_SGD) {
        slots[0] = p->momentum * m - rate * g;
        return w + (p->nesterov ? p->momentum * slots[0] - rate * g : slots[0]);
    }
    if (p->kind == RF_OPTIMIZER_LION) {
        const double direction = beta_1 * m + (1 - beta_1) * g;
        slots[0] = beta_2 * m + (1 - beta_2) * g;
        return w - rate * ((direction > 0) - (direction < 0));
    }
    slots[0] = beta_1 * m + (1 - beta_1) * g;
    slots[1] = beta_2 * slots[1] + (1 - beta_2) * g * g;
    return w - rate * slots[0] / (1 - pow(beta_1, step)) / (sqrt(slots[1] / (1 - pow(beta_2, step))) + 1e-7);
}

/* Values of 8 bits are nearer than the half of what lies between two that are large, or between the smallest ones. */
static void expect_slot(rf_optimizer_state_type type, double got, double want, double largest)
{
    const bool bytes = type == RF_OPTIMIZER_STATE_8BIT;
    const double most = bytes ? 0.5 * fabs(want) + 4e-7 * largest : fabs(want) / 128 + 1e-38;
    uint32_t bits;
    memcpy(&bits, &(float){ (float)got }, sizeof(bits));
    assert_near(got, want, 0, most, "slot");
    assert_true(bytes || (bits & 0xffff) == 0);
    if (bytes && fabs(want) > 0.1 * largest) assert_near(got, want, 0, 0.008 * largest, "slot");
}

static void expect_step(const rf_optimizer_params *p, uint32_t step, const snapshot *before, const snapshot *after)
{
    double largest[SLOTS] = { 0 };
    for (uint32_t i = 0; i < RUN_WEIGHTS; i++)
        for (uint32_t k = 0; k < SLOTS; k++) largest[k] = fmax(largest[k], fabs((double)after->slots[k][i]));
    for (uint32_t i = 0; i < RUN_WEIGHTS; i++) {
        double slots[SLOTS] = { (double)before->slots[0][i], (double)before->slots[1][i] };
        const double w = oracle(p, step, (double)before->weights[i], (double)after->gradients[i], slots);
        assert_near((double)after->weights[i], w, 1e-5, 1e-6, "weight");
        for (uint32_t k = 0; k < SLOTS; k++)
            expect_slot(p->state_type, (double)after->slots[k][i], slots[k], largest[k]);
    }
}

static void steps_are_those_of_the_host(const char *devices)
{
    static snapshot before, after;
    for (uint32_t k = 0; k < NUM_KINDS; k++) {
        run_state run;
        if (!run_create(&run, devices, 3, &kinds[k])) SKIP("not installed");
        take(&run, &before, false);
        for (uint32_t step = 1; step <= 4; step++) {
            run_batches(&run, 1, NULL);
            take(&run, &after, true);
            expect_step(&kinds[k], step, &before, &after);
            before = after;
        }
        run_destroy(&run);
    }
}

TEST(steps_of_one_device)
{
    steps_are_those_of_the_host("llvmpipe");
}

TEST(steps_of_two_devices)
{
    steps_are_those_of_the_host(getenv("RINGFIRE_TEST_MIXED") ? "llvmpipe,SwiftShader" : "llvmpipe,llvmpipe");
}

/* ---- memory ---- */

static uint64_t state_bytes(rf_optimizer_state_type type)
{
    run_state run;
    uint64_t bytes = 0;
    if (!run_create(&run, "llvmpipe", 3, &(rf_optimizer_params){ .kind = RF_OPTIMIZER_ADAM, .state_type = type }))
        SKIP("not installed: llvmpipe");
    run_batches(&run, 1, NULL);
    const rf_updater *u = run.optimizer->updater;
    for (uint32_t k = 0; k < u->params.num_slots; k++) bytes += rf_gpu_buffer_size(u->slots[k][0]);
    run_destroy(&run);
    return bytes;
}

TEST(memory)
{
    const double f32 = (double)state_bytes(RF_OPTIMIZER_STATE_F32);
    assert_true((double)state_bytes(RF_OPTIMIZER_STATE_BF16) == 0.5 * f32);
    assert_true((double)state_bytes(RF_OPTIMIZER_STATE_8BIT) <= 0.27 * f32);
}

/* ---- files ---- */

enum { STOP = 5, TOTAL = 9 };

static void save_after(const rf_optimizer_params *p, const char *devices, const char *path, bool async)
{
    run_state run;
    if (!run_create(&run, devices, 3, p)) SKIP("not installed: llvmpipe");
    run_batches(&run, STOP, NULL);
    OK(rf_checkpoint_save(run.checkpoint, path, &(rf_save_params){ .async = async }));
    run_batches(&run, 1, NULL); /* meanwhile */
    OK(rf_checkpoint_wait(run.checkpoint));
    run_destroy(&run);
}

/* From the file to the end; the state is in another run than the one that saved. */
static void go_on(const rf_optimizer_params *p, const char *devices, const char *path, float weights[RUN_WEIGHTS],
                  char **report)
{
    run_state run;
    assert_true(run_create(&run, devices, 4, p));
    OK(rf_checkpoint_restore(run.checkpoint, path, &(rf_restore_params){ .report = report }));
    run_batches(&run, TOTAL - STOP, NULL);
    run_weights(&run, weights);
    run_destroy(&run);
}

TEST(runs_go_on_with_their_bits)
{
    char folder[64], path[128];
    snprintf(path, sizeof(path), "%s/x.rfck", scratch(folder));
    for (uint32_t k = 0; k < NUM_KINDS; k++) {
        const char *devices = k % 3 == 0 ? "llvmpipe,llvmpipe" : "llvmpipe";
        float whole[RUN_WEIGHTS], resumed[RUN_WEIGHTS];
        run_state run;
        save_after(&kinds[k], devices, path, k % 2);
        go_on(&kinds[k], devices, path, resumed, NULL);
        assert_true(run_create(&run, devices, 3, &kinds[k]));
        run_batches(&run, TOTAL, NULL);
        run_weights(&run, whole);
        assert_memory_equal(resumed, whole, sizeof(whole));
        run_destroy(&run);
    }
    scratch_remove(folder);
}

/* A file holds f32: state of any type goes on as that of any other. */
TEST(files_of_another_type)
{
    static const char *const bits[NUM_TYPES] = { "0", "16", "8" };
    char folder[64], path[128], line[128];
    snprintf(path, sizeof(path), "%s/x.rfck", scratch(folder));
    for (uint32_t from = 0; from < NUM_TYPES; from++) {
        rf_optimizer_params p = { .kind = RF_OPTIMIZER_ADAM, .state_type = (rf_optimizer_state_type)from };
        float weights[NUM_TYPES][RUN_WEIGHTS];
        save_after(&p, "llvmpipe", path, false);
        for (uint32_t to = 0; to < NUM_TYPES; to++) {
            char *report;
            p.state_type = (rf_optimizer_state_type)to;
            go_on(&p, "llvmpipe", path, weights[to], &report);
            snprintf(line, sizeof(line),
                     "different, kept as it is here: optimizer/settings: state_bits %s in the file, %s here\n",
                     bits[from], bits[to]);
            assert_string_equal(report, from == to ? "" : line);
            rf_string_free(report);
            for (uint32_t i = 0; i < RUN_WEIGHTS; i++)
                assert_near((double)weights[to][i], (double)weights[0][i], 0, 4e-3, "weight");
        }
    }
    scratch_remove(folder);
}

/* ---- state that moves to other places ---- */

static void state_moves(const char *devices)
{
    static snapshot before, after;
    for (uint32_t k = 0; k < NUM_KINDS; k++) {
        run_state run;
        rf_variable *extra;
        if (!run_create(&run, devices, 3, &kinds[k])) SKIP("not installed");
        run_batches(&run, 3, NULL);
        take(&run, &before, false);
        OK(rf_variable_create(run.strategy, &(rf_variable_params){ .name = "extra", .shape = RF_SHAPE(700) }, &extra));
        OK(rf_updater_learn(run.optimizer->updater, &extra, 1));
        take(&run, &after, false);
        assert_memory_equal(&before, &after, offsetof(snapshot, gradients));
        rf_variable_destroy(&extra);
        run_destroy(&run);
    }
}

TEST(state_moves_on_one_device)
{
    state_moves("llvmpipe");
}

TEST(state_moves_on_two_devices)
{
    state_moves("llvmpipe,llvmpipe");
}

/* ---- 16 bits, scaled losses, averages ---- */

static float loss_after(const rf_optimizer_params *p, rf_dtype compute)
{
    run_state run;
    if (!run_create(&run, "llvmpipe", 3, NULL)) SKIP("not installed: llvmpipe");
    rf_optimizer_destroy(&run.optimizer);
    rf_model_destroy(&run.model);
    OK(rf_strategy_set_dtype_policy(run.strategy, &(rf_dtype_policy){ .compute = compute }));
    run.model = run_model(run.strategy, 16);
    OK(rf_optimizer_create(run.strategy, p, &run.optimizer));
    run_batches(&run, 24, NULL);
    const float loss = run_loss(&run);
    assert_int_equal(run.strategy->store.weight_copies.type, compute);
    run_destroy(&run);
    return loss;
}

TEST(mixed_precision)
{
    const rf_loss_scale_params scale = { .initial = 1024 };
    for (uint32_t k = 0; k < NUM_KINDS; k++) {
        rf_optimizer_params p = kinds[k], f32 = kinds[k];
        if (k % 2) p.loss_scale = f32.loss_scale = &scale;
        p.use_ema = f32.use_ema = k % 3 == 0;
        p.clip_norm = f32.clip_norm = k % 4 == 0 ? 1 : 0;
        f32.state_type = RF_OPTIMIZER_STATE_F32;
        const rf_dtype compute = k % 2 ? RF_F16 : RF_BF16;
        assert_near((double)loss_after(&p, compute), (double)loss_after(&f32, compute), 0.05, 0, "loss");
    }
}

/* ---- who has none ---- */

TEST(refused)
{
    static const struct {
        rf_optimizer_params params;
        const char *who;
    } cases[] = {
        { { .kind = RF_OPTIMIZER_LAMB }, "'lamb'" },       { { .kind = RF_OPTIMIZER_MUON }, "'muon'" },
        { { .kind = RF_OPTIMIZER_RMSPROP }, "'rmsprop'" }, { { .kind = RF_OPTIMIZER_NADAM }, "'nadam'" },
        { { .kind = RF_OPTIMIZER_ADAGRAD }, "'adagrad'" }, { { .kind = RF_OPTIMIZER_SGD }, "SGD with a momentum" },
    };
    rf_optimizer_config config;
    for (uint32_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        rf_optimizer_params p = cases[i].params;
        p.state_type = i % 2 ? RF_OPTIMIZER_STATE_8BIT : RF_OPTIMIZER_STATE_BF16;
        FAILS(rf_optimizer_configure(&p, &config), RF_ERROR_INVALID_ARGUMENT, cases[i].who);
    }
    const rf_optimizer_params none = { .kind = RF_OPTIMIZER_ADAM, .state_type = (rf_optimizer_state_type)3 };
    FAILS(rf_optimizer_configure(&none, &config), RF_ERROR_INVALID_ARGUMENT, "state_type 3 does not exist");
}

TESTS(state_types, NULL, NULL)
