/* SPDX-License-Identifier: Apache-2.0 */
/* The stages of steps of all optimizers and strategies, which are planned without a device, and what their runs submit
 * to each device, as text: `replica_tests schedules FILE` and `replica_tests schedules submissions FILE` compare them
 * with FILE; with `renew` behind it they write it. */
#include <stdio.h>
#include <stdlib.h>

#include <ringfire/ringfire.h>

#include "linear.h"

#include "../support/noise.h"
#include "bench/measure/measure.h"
#include "exec/internal.h"
#include "replica/update/updater.h"
#include "step/function.h"
#include "tests/room.h"

enum { SIDE = 32, CLASSES = 10, BATCH = 8, WEIGHTS = 4, RUNS = 12 };

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
    bool counted;               /* its submissions are */
} work;

static const rf_loss_scale_params scale = { .growth_steps = 10 };
static const work works[] = {
    { "Adam", { .kind = RF_OPTIMIZER_ADAM }, false, false, true },
    { "Adam, norms of each gradient", { .kind = RF_OPTIMIZER_ADAM, .clip_norm = 1 }, false, false },
    { "Adam, norm of all gradients", { .kind = RF_OPTIMIZER_ADAM, .global_clip_norm = 1 }, false, false },
    { "Adam, four steps accumulated", { .kind = RF_OPTIMIZER_ADAM, .accumulation_steps = 4 }, false, false, true },
    { "Adam, scaled losses", { .kind = RF_OPTIMIZER_ADAM, .loss_scale = &scale }, false, false },
    { "Adam, scaled losses, four steps accumulated",
      { .kind = RF_OPTIMIZER_ADAM, .loss_scale = &scale, .accumulation_steps = 4 },
      false,
      false,
      true },
    { "Adam, transformed gradients", { .kind = RF_OPTIMIZER_ADAM }, true, false },
    { "LAMB", { .kind = RF_OPTIMIZER_LAMB }, false, false },
    { "LAMB, norm of all gradients, scaled losses",
      { .kind = RF_OPTIMIZER_LAMB, .global_clip_norm = 1, .loss_scale = &scale },
      false,
      false },
    { "Muon", { .kind = RF_OPTIMIZER_MUON }, false, false },
    { "SGD, sums over replicas and assignments", { .kind = RF_OPTIMIZER_SGD }, false, true, true },
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

static void open_net(rf_strategy *s, const work *w, uint32_t steps_per_execution, net *n)
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
    const rf_function_params step = {
        .step = net_step, .user = n, .num_outputs = 1, .training = true, .steps_per_execution = steps_per_execution
    };
    CHECK(rf_function_create(s, &step, &n->step));
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

static const rf_element *make_batch(void)
{
    static float x[BATCH * SIDE];
    static int32_t labels[BATCH];
    static const rf_element batch = { .num_components = 2,
                                      .component = { { RF_F32, { 2, { BATCH, SIDE } }, x },
                                                     { RF_I32, { 1, { BATCH } }, labels } } };
    noise_batch(1, BATCH, SIDE, CLASSES, x, labels);
    return &batch;
}

/* A strategy without devices, for plans. */
static rf_strategy *open_plan(const place *p)
{
    rf_strategy *s = rf_strategy_allocate();
    assert_non_null(s);
    CHECK(rf_world_create(NULL, &s->members.world));
    s->members.num_replicas = s->members.world.first[1] = p->devices ? 2 : 1;
    CHECK(rf_exchange_init(&s->members.world, 0, (rf_exchange_compression){ RF_COMPRESSION_NONE, 0 },
                           &s->exchange.between));
    s->store.alignment = 64;
    s->store.max_segment = 1 << 25;
    s->update_mode = p->params.update_mode;
    s->central = p->central;
    s->exchange.overlap = !p->params.no_overlap;
    s->exchange.bucket_elements = p->params.bucket_bytes / sizeof(float);
    return s;
}

static rf_result plan_stages(rf_function *f, rf_signature *sig)
{
    rf_program_sum sums[4];
    uint32_t num_sums;
    bool *runs = RF_NEW_ARRAY(bool, sig->graph->nodes.count);
    if (!runs) return RF_ERROR_OUT_OF_HOST_MEMORY;
    for (rf_node n = 0; n < sig->graph->nodes.count; n++) runs[n] = true;
    (void)rf_list_sums(sig->graph, runs, f->strategy->store.alignment, sums, &num_sums);
    rf_free(runs);
    RF_TRY(rf_signature_prepare_updates(f, sig));
    return rf_signature_append_stages(sig, sums, num_sums);
}

static void write_schedule(rf_strategy *s, const place *p, const work *w)
{
    net n;
    rf_signature *sig;
    rf_replica replicas[2] = { { .staged = p->staged }, { .staged = p->staged } };
    const bool imports = p->staged && !p->refuses;
    open_net(s, w, 1, &n);
    CHECK(rf_signature_find(n.step, make_batch(), BATCH / s->members.num_replicas, &sig));
    for (uint32_t u = 0; u < sig->updates.count; u++)
        CHECK(rf_updater_learn(sig->updates.items[u].updater, sig->updates.items[u].variables,
                               sig->updates.items[u].count));
    /* Plans depend on what replicas are, but all that was made for them before needs no device. */
    s->members.replicas = replicas;
    s->members.num_local = s->members.num_replicas;
    s->exchange.imported.memory = imports ? replicas : NULL;
    CHECK(plan_stages(n.step, sig));
    char *text = rf_bench_schedule_text(&sig->schedule);
    assert_non_null(text);
    fprintf(found, "%s: %s\n%s\n", p->name, w->name, text);
    rf_free(text);
    s->members.replicas = NULL;
    s->members.num_local = 0;
    s->exchange.imported.memory = NULL;
    close_net(&n);
}

/* Numbers of submissions of each run to each device: runs that go together have one, with their last. */
static void write_submissions(rf_strategy *s, const place *p, const work *w, uint32_t steps_per_execution)
{
    net n;
    uint64_t before[2];
    open_net(s, w, steps_per_execution, &n);
    n.step->group.longest = 1e9; /* how many runs go together is then a matter of their number alone */
    fprintf(found, "%s: %s, %u steps in an execution:", p->name, w->name, steps_per_execution);
    CHECK(rf_strategy_run(s, n.step, make_batch(), NULL)); /* the first may also submit what drivers compile ahead */
    for (uint32_t run = 0; run < RUNS; run++) {
        for (uint32_t r = 0; r < s->members.num_local; r++)
            before[r] = rf_gpu_num_submissions(s->members.replicas[r].device);
        CHECK(rf_strategy_run(s, n.step, make_batch(), NULL));
        for (uint32_t r = 0; r < s->members.num_local; r++) {
            const uint64_t now = rf_gpu_num_submissions(s->members.replicas[r].device);
            fprintf(found, "%s%u", r ? "," : " ", (uint32_t)(now - before[r]));
        }
    }
    fputc('\n', found);
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

static void as_they_were(void)
{
    FILE *wanted = fopen(golden, "r");
    if (!wanted) fail_msg("there is no file %s", golden);
    fflush(found);
    compare_files(wanted);
    fclose(wanted);
}

static room_test *planned, *counted;

TEST_OF(planned, all_schedules)
{
    for (size_t p = 0; p < sizeof(places) / sizeof(places[0]); p++) {
        rf_strategy *s = open_plan(&places[p]);
        for (size_t w = 0; w < sizeof(works) / sizeof(works[0]); w++) write_schedule(s, &places[p], &works[w]);
        rf_strategy_destroy(&s);
    }
    as_they_were();
}

TEST_OF(counted, all_submissions)
{
    for (size_t p = 0; p < sizeof(places) / sizeof(places[0]); p++) {
        rf_strategy *s = open_place(&places[p]);
        for (size_t w = 0; w < sizeof(works) / sizeof(works[0]); w++)
            for (uint32_t steps = 1; works[w].counted && steps <= RUNS; steps += RUNS - 1)
                write_submissions(s, &places[p], &works[w], steps);
        rf_strategy_destroy(&s);
    }
    as_they_were();
}

TEST_PROGRAM(schedules)
{
    const int counts = argc > 1 && strcmp(argv[1], "submissions") == 0;
    if (argc < 2 + counts) return 2;
    golden = argv[1 + counts];
    found = argc > 2 + counts && strcmp(argv[2 + counts], "renew") == 0 ? fopen(golden, "w+") : tmpfile();
    if (!found) return 2;
    const int failed = room_tests_run(counts ? counted : planned, NULL, NULL);
    fclose(found);
    return failed;
}
