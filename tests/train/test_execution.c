/* SPDX-License-Identifier: Apache-2.0 */
/* Runs that are submitted together (steps_per_execution): what may be, how many, and that nothing else changes. */
#include "../support/strategies.h"

#include "../support/lost_queue.h"

#include "gpu/internal.h"
#include "step/function.h"
#include "tests/room.h"
#include "train/fit/compile.h"
#include "train/model/model.h"

enum { FEATURES = 8, CLASSES = 4, EXAMPLES = 150, BATCH = 8, STEPS = 19 /* of an epoch; the last batch has 6 */ };

/* ---- decisions ---- */

TEST(what_may_be_held)
{
    const rf_submission_batch_facts plain = { .wanted = 4, .updates = true };
    assert_null(rf_submission_batch_obstacle(&plain));
    assert_null(rf_submission_batch_obstacle(&(rf_submission_batch_facts){ .wanted = 2 }));
    const struct {
        rf_submission_batch_facts facts;
        const char *obstacle;
    } others[] = {
        { { .wanted = 1, .updates = true }, "nothing else" },
        { { .wanted = 4, .updates = true, .waits = true }, "the host takes part" },
        { { .wanted = 4, .waits = true }, "the host takes part" },
        { { .wanted = 4, .paced = true }, "pace" },
        { { .wanted = 4, .updates = true, .copied = true }, "checkpoint" },
    };
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
        const char *obstacle = rf_submission_batch_obstacle(&others[i].facts);
        assert_non_null(obstacle);
        assert_non_null(strstr(obstacle, others[i].obstacle));
    }
}

TEST(how_many_go_together)
{
    rf_submission_batch_limits l = { .wanted = 20, .frames = 64, .longest = 0.1 };
    uint32_t sizes[5];
    for (int i = 0; i < 5; i++) sizes[i] = l.previous = rf_submission_batch_size(&l);
    const uint32_t growing[] = { 1, 4, 16, 20, 20 };
    assert_memory_equal(sizes, growing, sizeof(sizes));
    l.frames = 9;
    assert_int_equal(rf_submission_batch_size(&l), 4);
    l.frames = 2;
    assert_int_equal(rf_submission_batch_size(&l), 1);
    l.frames = 64;
    l.seconds = 0.03;
    assert_int_equal(rf_submission_batch_size(&l), 3);
    l.seconds = 7;
    assert_int_equal(rf_submission_batch_size(&l), 1);
    l.seconds = 1e-5;
    assert_int_equal(rf_submission_batch_size(&l), 20);

    assert_int_equal(rf_frame_limit(0, 100), 2);
    assert_int_equal(rf_frame_limit(40, 0), 40);
    assert_int_equal(rf_frame_limit(40, 200704), 40);
    assert_int_equal(rf_frame_limit(1000, 1), RF_MAX_FRAMES);
    assert_int_equal(rf_frame_limit(40, 32 << 20), 8);
    assert_int_equal(rf_frame_limit(40, (uint64_t)1 << 40), 2);
}

/* ---- training ---- */

typedef struct trainer {
    rf_dataset *data;
    rf_model *model;
    rf_optimizer *optimizer;
    rf_callback *callback;
    double losses[2 * STEPS], accuracies[2 * STEPS]; /* that on_batch_end saw, by step */
    uint32_t ends;
} trainer;

/* The model that is trained. */
typedef struct training {
    bool averages; /* moving averages, which the step assigns */
    bool scaled;   /* in f16, with a scale that soon makes gradients overflow, again and again */
    uint32_t accumulation_steps;
    double global_clip_norm;
} training;

static rf_dataset *open_data(void)
{
    float x[EXAMPLES * FEATURES];
    int32_t y[EXAMPLES];
    fill_noise(x, EXAMPLES * FEATURES, 3);
    for (int i = 0; i < EXAMPLES; i++) {
        y[i] = (i * 7) % CLASSES;
        x[i * FEATURES + y[i]] += 1.5f;
    }
    const rf_array arrays[] = { array_f32(RF_SHAPE(EXAMPLES, FEATURES), x), array_i32(RF_SHAPE(EXAMPLES), y) };
    rf_dataset *examples, *shuffled, *batches;
    OK(rf_dataset_from_arrays(&(rf_dataset_arrays_params){ .arrays = arrays, .num_arrays = 2 }, &examples));
    OK(rf_dataset_shuffle(examples, EXAMPLES, 5, RF_SHUFFLE_EACH_PASS, &shuffled));
    OK(rf_dataset_batch(shuffled, BATCH, RF_REMAINDER_KEEP, &batches));
    rf_dataset_destroy(&examples);
    rf_dataset_destroy(&shuffled);
    return batches;
}

/* Values that change with each step: of an optimizer's schedule, random ones, and moving averages. */
static void open_trainer(rf_strategy *strategy, trainer *t, uint32_t steps_per_execution, const training *what)
{
    const rf_loss_scale_params scale = { .growth_steps = what->accumulation_steps > 1 ? 1 : 3 };
    *t = (trainer){ .data = open_data() };
    strategy->store.variables_created = 0; /* the same initial values for each */
    OK(rf_strategy_set_dtype_policy(strategy, what->scaled ? &(rf_dtype_policy){ .compute = RF_F16 } : NULL));
    rf_layer *l[4];
    uint32_t n = 0;
    OK(rf_layer_dense(&(rf_dense_params){ .units = 16, .activation = RF_ACTIVATION_RELU }, &l[n++]));
    if (what->averages) OK(rf_layer_batch_norm(NULL, &l[n++]));
    OK(rf_layer_dropout(0.2f, 11, &l[n++]));
    OK(rf_layer_dense(&(rf_dense_params){ .units = CLASSES }, &l[n++]));
    OK(rf_model_create_sequential(strategy, l, n, NULL, &t->model));
    const rf_schedule decay = {
        .kind = RF_SCHEDULE_EXPONENTIAL_DECAY, .initial = 0.02, .decay_rate = 0.9, .decay_steps = 3
    };
    OK(rf_optimizer_create(strategy,
                           &(rf_optimizer_params){ .kind = RF_OPTIMIZER_ADAM,
                                                   .schedule = &decay,
                                                   .accumulation_steps = what->accumulation_steps,
                                                   .global_clip_norm = what->global_clip_norm,
                                                   .loss_scale = what->scaled ? &scale : NULL },
                           &t->optimizer));
    const rf_metric_kind accuracy = RF_METRIC_SPARSE_CATEGORICAL_ACCURACY;
    OK(rf_model_compile(t->model, &(rf_compile_params){ .optimizer = t->optimizer,
                                                        .loss = { .from_logits = true },
                                                        .metrics = &accuracy,
                                                        .num_metrics = 1,
                                                        .steps_per_execution = steps_per_execution }));
    t->model->compiled->train->group.longest = INFINITY; /* however busy the machine is */
    t->model->compiled->evaluate->group.longest = INFINITY;
}

static void close_trainer(trainer *t)
{
    rf_callback_destroy(&t->callback);
    rf_model_destroy(&t->model);
    rf_optimizer_destroy(&t->optimizer);
    rf_dataset_destroy(&t->data);
}

static rf_result note_batch(void *user, rf_fit_state *state, const rf_logs *logs)
{
    trainer *t = user;
    const uint32_t step = state->epoch * STEPS + (uint32_t)state->batch;
    assert_in_range(step, 0, 2 * STEPS - 1);
    assert_true(rf_logs_get(logs, "loss", &t->losses[step]));
    assert_true(rf_logs_get(logs, "accuracy", &t->accuracies[step]));
    t->ends++;
    return RF_OK;
}

/* Two epochs, whose number of steps is no multiple; `reads`: values are read after each execution. */
static void train(trainer *t, bool reads, rf_history *history)
{
    const rf_callback_fns fns = { .on_batch_end = note_batch };
    if (reads) OK(rf_callback_create(&fns, t, &t->callback));
    OK(rf_model_fit(t->model,
                    &(rf_fit_params){ .data = t->data,
                                      .validation_data = t->data,
                                      .epochs = 2,
                                      .callbacks = &t->callback,
                                      .num_callbacks = reads ? 1 : 0 },
                    history));
}

static void assert_same_history(const rf_history *a, const rf_history *b)
{
    assert_int_equal(a->num_epochs, b->num_epochs);
    for (uint32_t e = 0; e < a->num_epochs; e++)
        for (uint32_t i = 0; i < a->epochs[e].count; i++)
            if (memcmp(&a->epochs[e].value[i], &b->epochs[e].value[i], sizeof(double)) != 0)
                fail_msg("%s of epoch %u is %.17g, alone %.17g", a->epochs[e].name[i], e, b->epochs[e].value[i],
                         a->epochs[e].value[i]);
}

static void assert_same_optimizers(const training *what, const rf_optimizer *one, const rf_optimizer *many)
{
    rf_loss_scale a, b;
    assert_int_equal(rf_optimizer_iterations(one), rf_optimizer_iterations(many));
    if (!what->scaled) return;
    OK(rf_optimizer_loss_scale(one, &a));
    OK(rf_optimizer_loss_scale(many, &b));
    assert_true(a.scale == b.scale);
    assert_int_equal(a.finite_steps, b.finite_steps);
    assert_int_equal(a.skipped_steps, b.skipped_steps);
    const uint32_t updates = 2 * STEPS / (what->accumulation_steps ? what->accumulation_steps : 1);
    assert_int_equal(rf_optimizer_iterations(one) + a.skipped_steps, updates);
    assert_in_range(a.skipped_steps, 1, updates - 2);
}

static void same_bits_of(rf_strategy *strategy, const training *what, bool reads)
{
    const uint32_t groups[] = { 3, 8, 100 };
    trainer one, many;
    rf_history of_one, of_many;
    rf_strategy_set_seed(strategy, 77);
    open_trainer(strategy, &one, 1, what);
    train(&one, reads, &of_one);
    for (size_t i = 0; i < sizeof(groups) / sizeof(groups[0]); i++) {
        rf_strategy_set_seed(strategy, 77);
        open_trainer(strategy, &many, groups[i], what);
        train(&many, reads, &of_many);
        assert_same_history(&of_one, &of_many);
        assert_same_variables(rf_model_variables(one.model), rf_model_variables(many.model));
        assert_same_variables(rf_model_state_variables(one.model), rf_model_state_variables(many.model));
        assert_same_optimizers(what, one.optimizer, many.optimizer);
        if (reads) assert_int_equal(many.ends, 2 * ((STEPS + groups[i] - 1) / groups[i]));
        for (uint32_t s = 0; s < 2 * STEPS; s++) {
            if (many.losses[s] == 0) continue; /* not the end of an execution */
            assert_memory_equal(&many.losses[s], &one.losses[s], sizeof(double));
            assert_memory_equal(&many.accuracies[s], &one.accuracies[s], sizeof(double));
        }
        rf_history_free(&of_many);
        close_trainer(&many);
    }
    rf_history_free(&of_one);
    close_trainer(&one);
}

static void same_bits(rf_strategy *strategy)
{
    same_bits_of(strategy, &(training){ 0 }, false);
    same_bits_of(strategy, &(training){ .averages = true }, true);
    same_bits_of(strategy, &(training){ .averages = true }, false);
}

/* The device decides within a group which of its updates are made. */
static void same_bits_scaled(rf_strategy *strategy)
{
    same_bits_of(strategy, &(training){ .scaled = true }, false);
    same_bits_of(strategy, &(training){ .averages = true, .scaled = true }, true);
}

/* Updates end within groups, whose sizes are no multiples. */
static void same_bits_accumulated(rf_strategy *strategy)
{
    same_bits_of(strategy, &(training){ .accumulation_steps = 5 }, false);
    same_bits_of(strategy, &(training){ .averages = true, .accumulation_steps = 2 }, true);
    same_bits_of(strategy, &(training){ .scaled = true, .accumulation_steps = 4 }, false);
    same_bits_of(strategy, &(training){ .accumulation_steps = 4, .global_clip_norm = 0.1 }, false);
}

/* ---- submissions ---- */

static uint64_t count_submissions(const rf_strategy *strategy)
{
    return rf_gpu_num_submissions(strategy->members.replicas[0].device);
}

/* Counts submissions of `steps` runs of the train step, nothing read in between, and the wait for them. */
static uint64_t submissions_of(rf_strategy *strategy, trainer *t, uint32_t steps)
{
    rf_iterator *it;
    const rf_element *batch;
    OK(rf_iterator_create(t->data, 0, &it));
    OK(rf_iterator_next(it, &batch));
    const uint64_t before = count_submissions(strategy);
    for (uint32_t i = 0; i < steps; i++)
        OK(rf_run_batch(t->model->compiled, t->model->compiled->train, &t->model->compiled->train_meters, batch));
    OK(rf_strategy_wait(strategy));
    rf_iterator_destroy(&it);
    return count_submissions(strategy) - before;
}

static void fewer_submissions(rf_strategy *strategy)
{
    trainer t;
    for (int averages = 0; averages < 2; averages++) {
        const uint64_t of_step = averages ? 2 : 1; /* what the step assigns is copied by itself */
        open_trainer(strategy, &t, 1, &(training){ .averages = averages });
        submissions_of(strategy, &t, 1); /* compiles */
        assert_int_equal(submissions_of(strategy, &t, 40), 40 * of_step);
        close_trainer(&t);

        open_trainer(strategy, &t, 8, &(training){ .averages = averages });
        submissions_of(strategy, &t, 1);
        t.model->compiled->train->group.longest = 3600; /* however slow the machine is */
        /* 1 + 4 + 8 + 8 + 8 + 8, and 3 that are waited for */
        assert_int_equal(submissions_of(strategy, &t, 40), 7);
        const rf_frame *frame = NULL;
        assert_int_equal(
            rf_program_acquire(t.model->compiled->train->signatures.items[0]->programs[0], BATCH, (rf_frame **)&frame),
            RF_OK);
        assert_int_equal(rf_frame_most(frame), 16);
        close_trainer(&t);
    }
}

/* Counts submissions of 20 runs in groups of 8, nothing read in between, and the wait for them. */
static void submissions_of_updates(rf_strategy *strategy)
{
    static const struct {
        training what;
        uint64_t submissions;
    } cases[] = {
        { { .scaled = true }, 4 }, /* 1 + 4 + 8, and 7 that are waited for */
        { { .accumulation_steps = 3 }, 4 },
        { { .scaled = true, .accumulation_steps = 3 }, 4 },
        /* The first of four runs goes by itself, for the device is idle, and the last takes along the two before it;
         * then come norms, which are waited for, and the update. */
        { { .accumulation_steps = 4, .global_clip_norm = 0.1 }, 20 },
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        trainer t;
        open_trainer(strategy, &t, 8, &cases[i].what);
        /* Compiles; ends with an update, so that the next run is the first of those that are accumulated. */
        submissions_of(strategy, &t, 12);
        assert_int_equal(submissions_of(strategy, &t, 20), cases[i].submissions);
        close_trainer(&t);
    }
}

/* Long runs are not joined. */
static void long_steps(rf_strategy *strategy)
{
    trainer t;
    open_trainer(strategy, &t, 8, &(training){ 0 });
    submissions_of(strategy, &t, 1);
    t.model->compiled->train->group.longest = 1e-9;
    t.model->compiled->train->group.seconds = 1;
    assert_int_equal(submissions_of(strategy, &t, 12), 12);
    close_trainer(&t);
}

/* Whatever reads makes the runs that it needs go. */
static void reading_submits(rf_strategy *strategy)
{
    trainer t;
    double value;
    float weights[FEATURES * 16], again[FEATURES * 16];
    open_trainer(strategy, &t, 50, &(training){ 0 });
    t.model->compiled->train->group.longest = 3600;
    for (int i = 0; i < 3; i++) {
        submissions_of(strategy, &t, 1);
        rf_iterator *it;
        const rf_element *batch;
        OK(rf_iterator_create(t.data, 0, &it));
        OK(rf_iterator_next(it, &batch));
        for (int k = 0; k < 3; k++)
            OK(rf_run_batch(t.model->compiled, t.model->compiled->train, &t.model->compiled->train_meters, batch));
        assert_true(rf_gpu_has_held(strategy->members.replicas[0].device));
        if (i == 0) OK(rf_metric_result(t.model->compiled->train_meters.loss, &value));
        if (i == 1) OK(rf_variable_read(rf_model_variables(t.model).items[0], weights));
        if (i == 2) assert_int_equal(rf_optimizer_iterations(t.optimizer), 12);
        if (i < 2) assert_false(rf_gpu_has_held(strategy->members.replicas[0].device));
        OK(rf_strategy_wait(strategy));
        OK(rf_variable_read(rf_model_variables(t.model).items[0], again));
        if (i == 1) assert_memory_equal(weights, again, sizeof(weights));
        rf_iterator_destroy(&it);
    }
    /* Destroying with runs held back. */
    rf_iterator *it;
    const rf_element *batch;
    OK(rf_iterator_create(t.data, 0, &it));
    OK(rf_iterator_next(it, &batch));
    for (int k = 0; k < 3; k++)
        OK(rf_run_batch(t.model->compiled, t.model->compiled->train, &t.model->compiled->train_meters, batch));
    rf_iterator_destroy(&it);
    close_trainer(&t);
}

/* Several replicas exchange gradients in each step; evaluation exchanges nothing. */
static void several_replicas(rf_strategy *strategy)
{
    trainer one, many;
    rf_logs logs;
    open_trainer(strategy, &one, 1, &(training){ 0 });
    open_trainer(strategy, &many, 8, &(training){ 0 });
    for (int i = 0; i < 2; i++) OK(rf_model_evaluate(i ? many.model : one.model, one.data, &logs));
    uint64_t before = count_submissions(strategy);
    OK(rf_model_evaluate(one.model, one.data, &logs));
    const uint64_t alone = count_submissions(strategy) - before;
    before = count_submissions(strategy);
    OK(rf_model_evaluate(many.model, one.data, &logs));
    const uint64_t together = count_submissions(strategy) - before;
    /* 1 + 4 + 8 + 5, and what reading the meters takes in both. The last batch is too small for some replicas. */
    assert_in_range(alone - together, STEPS - 1 - 4, STEPS - 4);
    close_trainer(&one);
    close_trainer(&many);

    /* Steps between two updates exchange nothing: of four, with a copy at the beginning, the last three go together. */
    uint64_t submissions[2];
    for (int i = 0; i < 2; i++) {
        open_trainer(strategy, &one, i ? 8 : 1, &(training){ .accumulation_steps = 4 });
        submissions_of(strategy, &one, 4);
        submissions[i] = submissions_of(strategy, &one, 12);
        close_trainer(&one);
    }
    assert_int_equal(submissions[0] - submissions[1], 3 * 3);
}

/* ---- failures ---- */

static void lost_with_runs_held(rf_strategy *strategy)
{
    trainer t;
    float weights[FEATURES * 16];
    open_trainer(strategy, &t, 50, &(training){ 0 });
    submissions_of(strategy, &t, 1);
    rf_iterator *it;
    const rf_element *batch;
    OK(rf_iterator_create(t.data, 0, &it));
    OK(rf_iterator_next(it, &batch));
    rf_compiled *c = t.model->compiled;
    for (int k = 0; k < 2; k++) OK(rf_run_batch(c, c->train, &c->train_meters, batch));
    assert_true(rf_gpu_has_held(strategy->members.replicas[0].device));
    rf_vk_device *vk = &strategy->members.replicas[0].device->vk;
    const PFN_vkQueueSubmit real = vk->QueueSubmit;
    /* The first run was submitted, and nobody waits for a lost device: this one goes on computing. */
    assert_int_equal(vk->DeviceWaitIdle(strategy->members.replicas[0].device->device), VK_SUCCESS);
    vk->QueueSubmit = lose_submit;
    assert_int_equal(rf_variable_read(rf_model_variables(t.model).items[0], weights), RF_ERROR_DEVICE_LOST);
    vk->QueueSubmit = real;
    assert_int_equal(rf_run_batch(c, c->train, &c->train_meters, batch), RF_ERROR_DEVICE_LOST);
    assert_non_null(strstr(rf_error_message(), "VK_ERROR_DEVICE_LOST"));
    rf_iterator_destroy(&it);
    close_trainer(&t);
}

TEST_ON_ONE(same_bits)
TEST_ON_TWO(same_bits)
TEST_ON_ONE(same_bits_scaled)
TEST_ON_ONE(same_bits_accumulated)
TEST_ON_TWO(same_bits_accumulated)
TEST_ON_ONE(submissions_of_updates)
TEST_ON_ONE(fewer_submissions)
TEST_ON_ONE(long_steps)
TEST_ON_ONE(reading_submits)
TEST_ON_TWO(several_replicas)
TEST_ON_ONE(lost_with_runs_held)

TESTS(execution, NULL, NULL)
