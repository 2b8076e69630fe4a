/* SPDX-License-Identifier: Apache-2.0 */
/* The stages of steps of all optimizers and strategies, as text: `replica_tests schedules FILE` compares them with
 * FILE, `replica_tests schedules FILE renew` writes it. */
#include <stdio.h>
#include <stdlib.h>

#include <ringfire/ringfire.h>

#include "linear.h"

#include "../support/noise.h"
#include "replica/step/function.h"
#include "tests/room.h"

enum { SIDE = 32, CLASSES = 10, BATCH = 8, WEIGHTS = 4 };

static const char *golden;
static FILE *found;

/* ---- what is planned ---- */

typedef struct place {
    const char *name, *devices;
    rf_mirrored_params params;
    bool central, staged, refuses; /* the host does not reach memory; drivers import none */
} place;

static const place places[] = {
    { "one device", NULL, { 0 }, false, false, false },
    { "two devices", "llvmpipe,llvmpipe", { .bucket_bytes = 4096 }, false, false, false },
    { "two devices, after the backward pass", "llvmpipe,llvmpipe", { .no_overlap = true }, false, false, false },
    { "two devices with staging", "llvmpipe,llvmpipe", { .bucket_bytes = 4096 }, false, true, true },
    { "two devices in imported memory", "llvmpipe,llvmpipe", { .bucket_bytes = 4096 }, false, true, false },
    { "two devices, updates on each", "llvmpipe,llvmpipe", { .update_mode = RF_UPDATE_LOCAL }, false, false, false },
    { "central storage", "llvmpipe,llvmpipe", { .bucket_bytes = 4096 }, true, false, false },
};

typedef struct work {
    const char *name;
    rf_optimizer_params optimizer;
    bool transforms, exchanges; /* gradients; sums over replicas, and assigns variables */
} work;

static const rf_loss_scale_params scale = { .growth_steps = 10 };
static const work works[] = {
    { "Adam", { .kind = RF_OPTIMIZER_ADAM }, false, false },
    { "Adam, norms of each gradient", { .kind = RF_OPTIMIZER_ADAM, .clip_norm = 1 }, false, false },
    { "Adam, norm of all gradients", { .kind = RF_OPTIMIZER_ADAM, .global_clip_norm = 1 }, false, false },
    { "Adam, four steps accumulated", { .kind = RF_OPTIMIZER_ADAM, .accumulation_steps = 4 }, false, false },
    { "Adam, scaled losses", { .kind = RF_OPTIMIZER_ADAM, .loss_scale = &scale }, false, false },
    { "Adam, scaled losses, four steps accumulated",
      { .kind = RF_OPTIMIZER_ADAM, .loss_scale = &scale, .accumulation_steps = 4 },
      false,
      false },
    { "Adam, transformed gradients", { .kind = RF_OPTIMIZER_ADAM }, true, false },
    { "LAMB", { .kind = RF_OPTIMIZER_LAMB }, false, false },
    { "LAMB, norm of all gradients, scaled losses",
      { .kind = RF_OPTIMIZER_LAMB, .global_clip_norm = 1, .loss_scale = &scale },
      false,
      false },
    { "Muon", { .kind = RF_OPTIMIZER_MUON }, false, false },
    { "SGD, sums over replicas and assignments", { .kind = RF_OPTIMIZER_SGD }, false, true },
};

typedef struct net {
    const work *work;
    rf_variable *weights[WEIGHTS], *counter, *first;
    rf_optimizer *optimizer;
    rf_function *step;
} net;

static rf_tensor scaled(rf_trace *t, rf_tensor g)
{
    return rf_multiply(t, g,
                       rf_minimum(t, rf_constant(t, 1), rf_reduce_sum(t, rf_square(t, g), NULL, 0, RF_DROP_DIMS)));
}

static rf_tensor hidden_layer(rf_trace *t, const net *n, rf_tensor x)
{
    if (!n->work->exchanges) return rf_tanh(t, x);
    const rf_tensor mean = rf_divide(t, rf_all_replica_sum(t, rf_reduce_sum(t, x, (int32_t[]){ 0 }, 1, RF_DROP_DIMS)),
                                     rf_global_batch_size(t));
    (void)rf_variable_update(t, n->counter, rf_reduce_sum(t, mean, NULL, 0, RF_DROP_DIMS), RF_AGGREGATE_MEAN);
    (void)rf_variable_update(t, n->first, rf_reduce_sum(t, mean, NULL, 0, RF_DROP_DIMS), RF_AGGREGATE_FIRST_REPLICA);
    return rf_subtract(t, x, mean);
}

static rf_result net_step(rf_trace *t, const rf_tensor *in, rf_tensor *out, void *user)
{
    const net *n = user;
    rf_tensor v[WEIGHTS], g[WEIGHTS];
    for (uint32_t i = 0; i < WEIGHTS; i++) v[i] = rf_variable_tensor(t, n->weights[i]);
    const rf_tensor x = hidden_layer(t, n, rf_bias_add(t, rf_matmul(t, in[0], v[0], RF_TRANSPOSE_NONE), v[1]));
    const rf_tensor logits = rf_bias_add(t, rf_matmul(t, x, v[2], RF_TRANSPOSE_NONE), v[3]);
    out[0] = rf_compute_average_loss(t, rf_sparse_categorical_crossentropy(t, in[1], logits, RF_LOGITS), NULL);
    if (!n->work->transforms)
        return rf_optimizer_minimize(t, n->optimizer, out[0], (rf_variable_list){ n->weights, WEIGHTS });
    rf_gradients(t, out[0], v, WEIGHTS, g);
    for (uint32_t i = 0; i < WEIGHTS; i++) g[i] = scaled(t, g[i]);
    return rf_optimizer_apply_gradients(t, n->optimizer, g, (rf_variable_list){ n->weights, WEIGHTS });
}

static rf_strategy *open_place(const place *p)
{
    rf_strategy *s;
    rf_mirrored_params params = p->params;
    params.devices = p->devices;
    const rf_result r = !p->devices ? rf_strategy_create_one_device(&(rf_one_device_params){ .device = "llvmpipe" }, &s)
                        : p->central
                            ? rf_strategy_create_central_storage(&(rf_central_storage_params){ .mirrored = params }, &s)
                            : rf_strategy_create_mirrored(&params, &s);
    if (r == RF_ERROR_NOT_FOUND) SKIP("%s", rf_error_message());
    CHECK(r);
    for (uint32_t i = 0; i < s->members.num_local; i++) s->members.replicas[i].staged = p->staged;
    s->exchange.imported.refused = p->refuses;
    return s;
}

static void open_net(rf_strategy *s, const work *w, net *n)
{
    static const rf_shape shapes[] = {
        { 2, { SIDE, SIDE } }, { 1, { SIDE } }, { 2, { SIDE, CLASSES } }, { 1, { CLASSES } }
    };
    *n = (net){ .work = w };
    for (uint32_t i = 0; i < WEIGHTS; i++)
        CHECK(rf_variable_create(
            s, &(rf_variable_params){ .shape = shapes[i], .initializer = { .kind = RF_INIT_RANDOM_NORMAL, .b = 0.3f } },
            &n->weights[i]));
    CHECK(rf_variable_create(s, &(rf_variable_params){ .shape = RF_SCALAR_SHAPE, .not_trainable = true }, &n->counter));
    CHECK(rf_variable_create(s, &(rf_variable_params){ .shape = RF_SCALAR_SHAPE, .not_trainable = true }, &n->first));
    CHECK(rf_optimizer_create(s, &w->optimizer, &n->optimizer));
    CHECK(rf_function_create(
        s, &(rf_function_params){ .step = net_step, .user = n, .num_outputs = 1, .training = true }, &n->step));
}

static void close_net(net *n)
{
    rf_function_destroy(&n->step);
    rf_optimizer_destroy(&n->optimizer);
    for (uint32_t i = 0; i < WEIGHTS; i++) rf_variable_destroy(&n->weights[i]);
    rf_variable_destroy(&n->counter);
    rf_variable_destroy(&n->first);
}

/* ---- the text ---- */

static void write_schedule(rf_strategy *s, const place *p, const work *w)
{
    net n;
    float x[BATCH * SIDE];
    int32_t labels[BATCH];
    open_net(s, w, &n);
    noise_batch(1, BATCH, SIDE, CLASSES, x, labels);
    const rf_element batch = {
        .num_components = 2, .component = { { RF_F32, RF_SHAPE(BATCH, SIDE), x }, { RF_I32, RF_SHAPE(BATCH), labels } }
    };
    CHECK(rf_strategy_run(s, n.step, &batch, NULL));
    char *text = rf_function_schedule_text(n.step);
    assert_non_null(text);
    fprintf(found, "%s: %s\n%s\n", p->name, w->name, text);
    rf_free(text);
    close_net(&n);
}

static void compare_files(FILE *wanted)
{
    char want[400] = "", got[400] = "";
    rewind(found);
    for (uint32_t line = 1;; line++) {
        const char *a = fgets(want, sizeof(want), wanted), *b = fgets(got, sizeof(got), found);
        if (!a && !b) return;
        if (!a || !b || strcmp(want, got) != 0)
            fail_msg("line %u of %s is '%.*s', planned is '%.*s'; is the change wanted? Then renew the file", line,
                     golden, (int)strcspn(want, "\n"), a ? want : "no more", (int)strcspn(got, "\n"),
                     b ? got : "no more");
    }
}

TEST(all_schedules)
{
    for (size_t p = 0; p < sizeof(places) / sizeof(places[0]); p++) {
        rf_strategy *s = open_place(&places[p]);
        for (size_t w = 0; w < sizeof(works) / sizeof(works[0]); w++) write_schedule(s, &places[p], &works[w]);
        rf_strategy_destroy(&s);
    }
    fflush(found);
}

TEST(as_they_were)
{
    FILE *wanted = fopen(golden, "r");
    if (!wanted) fail_msg("there is no file %s", golden);
    compare_files(wanted);
    fclose(wanted);
}

TEST_PROGRAM(schedules)
{
    const bool renews = argc > 2 && strcmp(argv[2], "renew") == 0;
    if (argc < 2) return 2;
    golden = argv[1];
    found = renews ? fopen(golden, "w+") : tmpfile();
    if (!found) return 2;
    const int failed = room_tests_run(own_tests, NULL, NULL);
    fclose(found);
    return failed;
}
