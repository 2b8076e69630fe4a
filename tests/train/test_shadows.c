/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Copies of weights in 16 bits that the optimizer's dispatches write: training has the bits that it has where each step
 * casts its weights itself, whatever else changes weights in between, and takes fewer dispatches.
 */
#include "../support/strategies.h"

#include <ringfire/checkpoint.h>

#include "../support/folder.h"
#include "base/half.h"
#include "exec/exec.h"
#include "ops/ops.h"
#include "replica/internal.h"
#include "step/function.h"
#include "step/signature.h"
#include "tests/room.h"

/* Two products, the weights of which are cast, and a bias, which is not. */
enum { IN = 37, HIDDEN = 45, OUT = 3, BATCH = 8, W = IN * HIDDEN, V = HIDDEN * OUT, ALL = W + HIDDEN + V, STEPS = 5 };

typedef struct net {
    rf_strategy *strategy;
    rf_variable *w, *b, *v;
    rf_dtype type, second; /* of w and of v */
    rf_optimizer *optimizer;
    rf_function *train, *predict;
    rf_checkpoint *checkpoint;
} net;

static rf_tensor net_forward(rf_trace *t, const net *n, rf_tensor x)
{
    const rf_tensor w = rf_cast(t, rf_variable_tensor(t, n->w), n->type),
                    v = rf_cast(t, rf_variable_tensor(t, n->v), n->second);
    const rf_tensor h =
        rf_add(t, rf_matmul(t, rf_cast(t, x, n->type), w, RF_TRANSPOSE_NONE), rf_variable_tensor(t, n->b));
    return rf_cast(t, rf_matmul(t, rf_cast(t, rf_tanh(t, h), n->second), v, RF_TRANSPOSE_NONE), RF_F32);
}

static rf_result train_step(rf_trace *t, const rf_tensor *in, rf_tensor *out, void *user)
{
    const net *n = user;
    out[0] = rf_compute_average_loss(t, rf_mean_squared_error(t, in[1], net_forward(t, n, in[0])), NULL);
    return rf_optimizer_minimize(t, n->optimizer, out[0],
                                 (rf_variable_list){ (rf_variable *const[]){ n->w, n->b, n->v }, 3 });
}

static rf_result predict_step(rf_trace *t, const rf_tensor *in, rf_tensor *out, void *user)
{
    out[0] = rf_reduce_sum(t, net_forward(t, user, in[0]), NULL, 0, RF_DROP_DIMS);
    return rf_trace_status(t);
}

static void open_net(rf_strategy *strategy, const rf_optimizer_params *params, rf_dtype type, rf_dtype second, net *n)
{
    float initial[ALL];
    fill_noise(initial, ALL, 5);
    *n = (net){ .strategy = strategy, .type = type, .second = second };
    const rf_variable_params w = { .name = "w", .shape = RF_SHAPE(IN, HIDDEN), .value = initial },
                             b = { .name = "b", .shape = RF_SHAPE(HIDDEN), .value = initial + W },
                             v = { .name = "v", .shape = RF_SHAPE(HIDDEN, OUT), .value = initial + W + HIDDEN };
    OK(rf_variable_create(strategy, &w, &n->w));
    OK(rf_variable_create(strategy, &b, &n->b));
    OK(rf_variable_create(strategy, &v, &n->v));
    OK(rf_optimizer_create(strategy, params, &n->optimizer));
    OK(rf_function_create(strategy,
                          &(rf_function_params){ .step = train_step, .user = n, .num_outputs = 1, .training = true },
                          &n->train));
    OK(rf_function_create(strategy, &(rf_function_params){ .step = predict_step, .user = n, .num_outputs = 1 },
                          &n->predict));
    OK(rf_checkpoint_create(strategy, &n->checkpoint));
    OK(rf_checkpoint_add_variable(n->checkpoint, "w", n->w));
    OK(rf_checkpoint_add_variable(n->checkpoint, "b", n->b));
    OK(rf_checkpoint_add_variable(n->checkpoint, "v", n->v));
}

static void close_net(net *n)
{
    rf_checkpoint_destroy(&n->checkpoint);
    rf_function_destroy(&n->train);
    rf_function_destroy(&n->predict);
    rf_optimizer_destroy(&n->optimizer);
    rf_variable_destroy(&n->w);
    rf_variable_destroy(&n->b);
    rf_variable_destroy(&n->v);
}

static float run_step(rf_function *function, const net *n, uint32_t step, float factor)
{
    float x[BATCH * IN], y[BATCH * OUT], loss;
    fill_noise(x, BATCH * IN, 31 + step);
    fill_noise(y, BATCH * OUT, 91 + step);
    for (int i = 0; i < BATCH * IN; i++) x[i] *= factor;
    const rf_element batch = { function == n->train ? 2 : 1,
                               { array_f32(RF_SHAPE(BATCH, IN), x), array_f32(RF_SHAPE(BATCH, OUT), y) } };
    run_once(n->strategy, function, &batch, &loss, 1);
    return loss;
}

static void read_net(const net *n, float *values)
{
    OK(rf_variable_read(n->w, values));
    OK(rf_variable_read(n->b, values + W));
    OK(rf_variable_read(n->v, values + W + HIDDEN));
}

/* ---- what a step reads ---- */

static void check_shadow(const rf_strategy *s, uint32_t replica, const rf_variable *v)
{
    static float values[W];
    static uint16_t shadow[W];
    if (!v->has_copy) return;
    const rf_location at = rf_weight_copies_location(s, replica, v->offset);
    OK(rf_gpu_buffer_read(s->store.trainable.values.buffers[replica], v->offset * sizeof(float), values,
                          v->count * sizeof(float)));
    OK(rf_gpu_buffer_read(at.buffer, at.offset, shadow, v->count * sizeof(uint16_t)));
    for (uint64_t i = 0; i < v->count; i++)
        assert_int_equal(shadow[i],
                         s->store.weight_copies.type == RF_F16 ? rf_f32_to_f16(values[i]) : rf_f32_to_bf16(values[i]));
}

/* Shadows are those of the weights, unless it is known that they are not. */
static void check_shadows(const net *n)
{
    rf_strategy *s = n->strategy;
    OK(rf_strategy_wait(s));
    if (s->store.weight_copies.stale) return;
    for (uint32_t r = 0; r < s->members.num_local; r++) {
        check_shadow(s, r, n->w);
        check_shadow(s, r, n->v);
    }
}

/* ---- the same bits ---- */

/* Changes weights in other ways, in front of step `at`. */
static void disturb(net *n, const rf_optimizer_params *params, uint32_t at, const char *path)
{
    float other[W];
    fill_noise(other, W, 77);
    if (at == 1) OK(rf_checkpoint_save(n->checkpoint, path, NULL));
    if (at == 2) OK(rf_variable_assign(n->w, other));
    if (at == 3 && params->use_ema) {
        OK(rf_optimizer_swap_averages(n->optimizer));
        (void)run_step(n->predict, n, at, 1);
        OK(rf_optimizer_swap_averages(n->optimizer));
    }
    if (at == 4) OK(rf_checkpoint_restore(n->checkpoint, path, NULL));
}

/* Losses and weights. A strategy whose shadows are of another type has none of the net's. */
static void train_net(rf_strategy *strategy, const rf_optimizer_params *params, rf_dtype type, bool shadows,
                      float *losses, float *weights)
{
    char folder[64], path[128];
    net n;
    snprintf(path, sizeof(path), "%s/x.rfck", scratch(folder));
    strategy->store.weight_copies.type = shadows ? RF_DTYPE_INVALID : type == RF_F16 ? RF_BF16 : RF_F16;
    strategy->store.weight_copies.capacity = 0; /* of the type before */
    open_net(strategy, params, type, type, &n);
    for (uint32_t step = 0; step < STEPS; step++) {
        disturb(&n, params, step, path);
        losses[step] = run_step(n.train, &n, step, step == 1 && params->loss_scale ? 1e6f : 1.0f);
        if (params->loss_scale && step == 1) { /* the infinity is in the products: this step changed nothing */
            rf_loss_scale scale;
            OK(rf_optimizer_loss_scale(n.optimizer, &scale));
            assert_int_equal(scale.skipped_steps, 1);
        }
        assert_true(n.w->has_copy == shadows && n.v->has_copy == shadows && !n.b->has_copy);
        check_shadows(&n);
    }
    losses[STEPS] = run_step(n.predict, &n, 0, 1);
    read_net(&n, weights);
    close_net(&n);
    scratch_remove(folder);
}

static void compare_bits(rf_strategy *strategy, const rf_optimizer_params *params, rf_dtype type, const char *name)
{
    static float expected[ALL], is[ALL];
    float losses[2][STEPS + 1];
    train_net(strategy, params, type, false, losses[0], expected);
    train_net(strategy, params, type, true, losses[1], is);
    for (int i = 0; i < ALL; i++)
        if (!isfinite(expected[i])) fail_msg("%s: weight %d is %g", name, i, (double)expected[i]);
    if (memcmp(is, expected, sizeof(is)) != 0) fail_msg("%s: weights differ", name);
    if (memcmp(losses[0], losses[1], sizeof(losses[0])) != 0) fail_msg("%s: losses differ", name);
}

static rf_result own_update(rf_trace *t, const rf_update_inputs *in, rf_tensor *weight, rf_tensor *slots, void *user)
{
    (void)user;
    slots[0] = rf_add(t, in->slots[0], in->gradient);
    *weight = rf_subtract(t, in->weight, rf_multiply(t, in->learning_rate, slots[0]));
    return rf_trace_status(t);
}

static const rf_optimizer_slot sum = { .name = "sum" };
static const rf_custom_optimizer own = { .name = "own", .update = own_update, .slots = &sum, .num_slots = 1 };
static const rf_parameter_group groups[] = { { .names = "b", .rate_factor = 0.5 }, { .names = "v", .rate_factor = 2 } };
static const rf_loss_scale_params scale = { .initial = 256 };

#define RATE .learning_rate = 0.01
static const struct {
    const char *name;
    rf_optimizer_params params;
} optimizers[] = {
    { "sgd", { .kind = RF_OPTIMIZER_SGD, RATE } },
    { "momentum", { .kind = RF_OPTIMIZER_SGD, RATE, .momentum = 0.9, .nesterov = true, .clip_norm = 1 } },
    { "adam", { .kind = RF_OPTIMIZER_ADAM, RATE, .groups = groups, .num_groups = 2 } },
    { "adamw", { .kind = RF_OPTIMIZER_ADAMW, RATE, .weight_decay = 0.1, .global_clip_norm = 1 } },
    { "rmsprop", { .kind = RF_OPTIMIZER_RMSPROP, RATE } },
    { "adagrad", { .kind = RF_OPTIMIZER_ADAGRAD, RATE } },
    { "nadam", { .kind = RF_OPTIMIZER_NADAM, RATE, .accumulation_steps = 2 } },
    { "lion", { .kind = RF_OPTIMIZER_LION, RATE } },
    { "lamb", { .kind = RF_OPTIMIZER_LAMB, RATE } },
    { "muon", { .kind = RF_OPTIMIZER_MUON, RATE } },
    { "custom", { .kind = RF_OPTIMIZER_CUSTOM, RATE, .custom = &own } },
    { "averages", { .kind = RF_OPTIMIZER_ADAM, RATE, .use_ema = true, .ema_momentum = 0.9 } },
    { "overwrite", { .kind = RF_OPTIMIZER_ADAM, RATE, .use_ema = true, .ema_overwrite_frequency = 2 } },
    { "scale", { .kind = RF_OPTIMIZER_ADAM, RATE, .loss_scale = &scale } },
};

static void bits(rf_strategy *strategy)
{
    for (size_t i = 0; i < sizeof(optimizers) / sizeof(optimizers[0]); i++)
        compare_bits(strategy, &optimizers[i].params, i % 2 && !optimizers[i].params.loss_scale ? RF_BF16 : RF_F16,
                     optimizers[i].name);
}

/* Several replicas update all weights, or each its own. */
static void bits_of_several(rf_strategy *strategy)
{
    static const uint32_t some[] = { 2, 8, 12 };
    for (size_t i = 0; i < sizeof(some) / sizeof(some[0]); i++)
        compare_bits(strategy, &optimizers[some[i]].params, RF_F16, optimizers[some[i]].name);
}

TEST(bits_where_all_update_on_two)
{
    rf_strategy *strategy;
    const rf_mirrored_params params = { .devices = "llvmpipe,llvmpipe", .update_mode = RF_UPDATE_LOCAL };
    const rf_result r = rf_strategy_create_mirrored(&params, &strategy);
    if (r == RF_ERROR_NOT_FOUND) SKIP("lavapipe is not installed");
    OK(r);
    bits_of_several(strategy);
    rf_strategy_destroy(&strategy);
}

/* ---- dispatches ---- */

static uint32_t count_dispatches(rf_strategy *strategy, bool shadows)
{
    net n;
    rf_program_stats step, update;
    strategy->store.weight_copies.type = shadows ? RF_DTYPE_INVALID : RF_F16;
    strategy->store.weight_copies.capacity = 0;
    open_net(strategy, &optimizers[2].params, RF_BF16, RF_BF16, &n);
    for (uint32_t i = 0; i < 3; i++) (void)run_step(n.train, &n, i, 1);
    const rf_signature *sig = n.train->signatures.items[0];
    OK(rf_program_stats_get(sig->programs[0], BATCH, &step));
    const rf_step_stage *apply =
        rf_step_schedule_find(&sig->schedule, &rf_update_apply_action, &sig->updates.items[0], 0);
    OK(rf_program_stats_get(apply->works[0].program, 0, &update));
    /* Step and update are one submission, and nothing was made anew behind it. */
    assert_int_equal(n.train->num_submissions, 1);
    assert_false(shadows && strategy->store.weight_copies.stale);
    close_net(&n);
    return step.num_dispatches + update.num_dispatches;
}

static void dispatches(rf_strategy *strategy)
{
    const uint32_t cast = count_dispatches(strategy, false), read = count_dispatches(strategy, true);
    print_message("%u dispatches, with shadows %u\n", cast, read);
    assert_int_equal(cast - read, 2); /* one for each weight of a product */
}

/* ---- the plan ---- */

TEST(plan)
{
    rf_graph *g;
    rf_value a, b, c, d, x[5], source[32];
    static const int objects[4];
    const bool updated[] = { true, true, false, true };
    OK(rf_graph_create(rf_exec_core_ops(), &g));
    OK(rf_graph_state(g, &objects[0], (rf_tensor_desc){ RF_F32, RF_SHAPE(10) }, "a", &a));
    OK(rf_graph_state(g, &objects[1], (rf_tensor_desc){ RF_F32, RF_SHAPE(20) }, "b", &b));
    OK(rf_graph_state(g, &objects[2], (rf_tensor_desc){ RF_F32, RF_SHAPE(90) }, "c", &c));
    OK(rf_graph_state(g, &objects[3], (rf_tensor_desc){ RF_I32, RF_SHAPE(90) }, "d", &d));
    OK(rf_emit_cast(g, a, RF_BF16, &x[0]));
    OK(rf_emit_cast(g, b, RF_F16, &x[1]));
    OK(rf_emit_cast(g, c, RF_BF16, &x[2])); /* which the step does not update */
    OK(rf_emit_cast(g, d, RF_BF16, &x[3])); /* no weight */
    OK(rf_emit_cast(g, x[0], RF_F32, &x[4]));
    assert_true(g->values.count <= 32);
    /* Most elements are cast to f16: the others stay casts. */
    assert_int_equal(rf_weight_copies_plan(g, updated, RF_DTYPE_INVALID, source), RF_F16);
    for (rf_value v = 0; v < g->values.count; v++) assert_int_equal(source[v], v == x[1] ? b : 0);
    /* There are some already. */
    assert_int_equal(rf_weight_copies_plan(g, updated, RF_BF16, source), RF_BF16);
    for (rf_value v = 0; v < g->values.count; v++) assert_int_equal(source[v], v == x[0] ? a : 0);
    /* A step that updates nothing reads none. */
    const bool none[4] = { false };
    assert_int_equal(rf_weight_copies_plan(g, none, RF_DTYPE_INVALID, source), RF_DTYPE_INVALID);
    for (rf_value v = 0; v < g->values.count; v++) assert_int_equal(source[v], 0);
    rf_graph_destroy(&g);
}

/* Two types in one step: one of them has shadows, and both are right. */
static void two_types(rf_strategy *strategy)
{
    net n;
    strategy->store.weight_copies.type = RF_DTYPE_INVALID;
    strategy->store.weight_copies.capacity = 0;
    open_net(strategy, &optimizers[2].params, RF_BF16, RF_F16, &n);
    const float before = run_step(n.train, &n, 0, 1);
    for (uint32_t i = 0; i < 8; i++) (void)run_step(n.train, &n, 0, 1);
    assert_true(n.w->has_copy && !n.v->has_copy && strategy->store.weight_copies.type == RF_BF16);
    check_shadows(&n);
    assert_true(run_step(n.train, &n, 0, 1) < before);
    close_net(&n);
}

/* Variables that come later move all arrays. */
static void growth(rf_strategy *strategy)
{
    net n;
    rf_variable *large;
    strategy->store.weight_copies.type = RF_DTYPE_INVALID;
    strategy->store.weight_copies.capacity = 0;
    open_net(strategy, &optimizers[0].params, RF_F16, RF_F16, &n);
    (void)run_step(n.train, &n, 0, 1);
    const uint64_t capacity = strategy->store.weight_copies.capacity;
    OK(rf_variable_create(strategy, &(rf_variable_params){ .name = "large", .shape = RF_SHAPE(100000) }, &large));
    for (uint32_t i = 1; i < 4; i++) (void)run_step(n.train, &n, i, 1);
    assert_true(strategy->store.weight_copies.capacity > capacity);
    check_shadows(&n);
    rf_variable_destroy(&large);
    close_net(&n);
}

TEST_ON_ONE(bits)
TEST_ON_TWO(bits_of_several)
TEST_ON_ONE(dispatches)
TEST_ON_ONE(two_types)
TEST_ON_ONE(growth)

TESTS(shadows, NULL, NULL)
