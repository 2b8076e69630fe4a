/* SPDX-License-Identifier: Apache-2.0 */
/* fit, evaluate, predict and callbacks on small synthetic problems. */
#include <unistd.h>

#include "../support/strategies.h"
#include "tests/room.h"

enum { FEATURES = 8, CLASSES = 4, EXAMPLES = 200, BATCH = 32 /* the last batch has 8 */ };

typedef struct problem {
    float x[EXAMPLES * FEATURES], weight[EXAMPLES];
    int32_t y[EXAMPLES];
    rf_dataset *data, *weighted; /* batched */
} problem;

/* Four clusters, one per class, that a small network tells apart. */
static void open_problem(problem *p)
{
    uint32_t seed = 12;
    for (int i = 0; i < EXAMPLES; i++) {
        p->y[i] = (int32_t)((i * 7) % CLASSES);
        p->weight[i] = 0.25f + 0.5f * (float)(i % 4);
        for (int f = 0; f < FEATURES; f++) {
            p->x[i * FEATURES + f] = 0.4f * noise(&seed) + (f % CLASSES == p->y[i] ? 1.0f : 0.0f);
        }
    }
    const rf_array arrays[] = { array_f32(RF_SHAPE(EXAMPLES, FEATURES), p->x), array_i32(RF_SHAPE(EXAMPLES), p->y),
                                array_f32(RF_SHAPE(EXAMPLES), p->weight) };
    rf_dataset *slices;
    OK(rf_dataset_from_arrays(&(rf_dataset_arrays_params){ .arrays = arrays, .num_arrays = 2 }, &slices));
    OK(rf_dataset_batch(slices, BATCH, RF_REMAINDER_KEEP, &p->data));
    rf_dataset_destroy(&slices);
    OK(rf_dataset_from_arrays(&(rf_dataset_arrays_params){ .arrays = arrays, .num_arrays = 3 }, &slices));
    OK(rf_dataset_batch(slices, BATCH, RF_REMAINDER_KEEP, &p->weighted));
    rf_dataset_destroy(&slices);
}

static void close_problem(problem *p)
{
    rf_dataset_destroy(&p->data);
    rf_dataset_destroy(&p->weighted);
}

typedef struct trainer {
    problem problem;
    rf_model *model;
    rf_optimizer *optimizer;
} trainer;

static const rf_metric_kind accuracy = RF_METRIC_SPARSE_CATEGORICAL_ACCURACY;

static void compile(trainer *t, uint32_t steps_per_execution, rf_reduction reduction)
{
    OK(rf_model_compile(t->model, &(rf_compile_params){ .optimizer = t->optimizer,
                                                        .loss = { .from_logits = true, .reduction = reduction },
                                                        .metrics = &accuracy,
                                                        .num_metrics = 1,
                                                        .steps_per_execution = steps_per_execution }));
}

static void open_trainer(rf_strategy *strategy, trainer *t, float l2, double rate)
{
    open_problem(&t->problem);
    rf_layer *l[2];
    OK(rf_layer_dense(
        &(rf_dense_params){ .units = 16, .activation = RF_ACTIVATION_RELU, .kernel_regularizer = { .l2 = l2 } },
        &l[0]));
    OK(rf_layer_dense(&(rf_dense_params){ .units = CLASSES }, &l[1]));
    OK(rf_model_create_sequential(strategy, l, 2, NULL, &t->model));
    OK(rf_optimizer_create(strategy, &(rf_optimizer_params){ .kind = RF_OPTIMIZER_ADAM, .learning_rate = rate },
                           &t->optimizer));
    compile(t, 0, RF_REDUCTION_AUTO);
}

static void close_trainer(trainer *t)
{
    rf_model_destroy(&t->model);
    rf_optimizer_destroy(&t->optimizer);
    close_problem(&t->problem);
}

static double get(const rf_logs *logs, const char *name)
{
    double value = 0.0;
    if (!rf_logs_get(logs, name, &value)) fail_msg("no '%s' in the logs", name);
    return value;
}

/* ---- learning ---- */

static void learns(rf_strategy *strategy)
{
    trainer t;
    open_trainer(strategy, &t, 0.0f, 0.02);
    rf_history history;
    OK(rf_model_fit(t.model, &(rf_fit_params){ .data = t.problem.data, .validation_data = t.problem.data, .epochs = 6 },
                    &history));
    assert_int_equal(history.num_epochs, 6);
    const rf_logs *last = &history.epochs[5];
    static const char *const names[] = { "loss", "accuracy", "val_loss", "val_accuracy", "learning_rate" };
    assert_int_equal(last->count, 5);
    for (uint32_t i = 0; i < 5; i++) assert_string_equal(last->name[i], names[i]);
    assert_true(get(last, "loss") < get(&history.epochs[0], "loss"));
    assert_true(get(last, "val_accuracy") > 0.97);
    assert_near(get(last, "learning_rate"), 0.02, 0.0, 0.0, "learning rate");
    assert_int_equal(rf_optimizer_iterations(t.optimizer), 6 * 7);

    /* evaluate gives what validation gave; predict agrees with the accuracy; both see the short last batch. */
    rf_logs logs;
    OK(rf_model_evaluate(t.model, t.problem.data, &logs));
    assert_int_equal(logs.count, 2);
    assert_near(get(&logs, "loss"), get(last, "val_loss"), 1e-6, 0.0, "evaluate");
    rf_array logits;
    OK(rf_model_predict(t.model, t.problem.data, &logits));
    assert_true(rf_shape_equal(logits.shape, RF_SHAPE(EXAMPLES, CLASSES)));
    int hits = 0;
    double loss = 0.0;
    for (int i = 0; i < EXAMPLES; i++) {
        const float *row = (const float *)logits.data + i * CLASSES;
        int best = 0;
        double sum = 0.0;
        for (int c = 0; c < CLASSES; c++) {
            best = row[c] > row[best] ? c : best;
            sum += exp((double)row[c]);
        }
        hits += best == t.problem.y[i];
        loss += (log(sum) - (double)row[t.problem.y[i]]) / EXAMPLES;
    }
    assert_near(get(&logs, "accuracy"), hits / (double)EXAMPLES, 1e-6, 0.0, "accuracy");

    /* Where there are two kinds, each has its whole name. */
    const rf_metric_kind both[] = { RF_METRIC_CATEGORICAL_ACCURACY, RF_METRIC_SPARSE_CATEGORICAL_ACCURACY };
    OK(rf_model_compile(
        t.model, &(rf_compile_params){
                     .optimizer = t.optimizer, .loss = { .from_logits = true }, .metrics = both, .num_metrics = 2 }));
    OK(rf_model_evaluate(t.model, t.problem.data, &logs));
    assert_int_equal(logs.count, 3);
    assert_near(get(&logs, "sparse_categorical_accuracy"), hits / (double)EXAMPLES, 1e-6, 0.0, "accuracy");
    assert_near(get(&logs, "categorical_accuracy"), hits / (double)EXAMPLES, 1e-6, 0.0, "accuracy");
    assert_near(get(&logs, "loss"), loss, 1e-4, 1e-6, "loss");
    OK(rf_strategy_check_identical(strategy, NULL, NULL));
    rf_array_free(&logits);
    rf_history_free(&history);
    close_trainer(&t);
}

/* With a rate of zero every batch sees the same weights, so that the reported loss can be computed by hand: weighted
 * losses over the number of examples, plus the penalty. */
static void reported_loss(rf_strategy *strategy)
{
    trainer t;
    open_trainer(strategy, &t, 0.05f, 0.01);
    OK(rf_optimizer_set_learning_rate(t.optimizer, 0.0));
    rf_history plain, weighted, summed;
    OK(rf_model_fit(t.model, &(rf_fit_params){ .data = t.problem.data }, &plain));
    OK(rf_model_fit(t.model, &(rf_fit_params){ .data = t.problem.weighted }, &weighted));
    compile(&t, 0, RF_REDUCTION_SUM);
    OK(rf_model_fit(t.model, &(rf_fit_params){ .data = t.problem.data }, &summed));
    rf_array logits;
    OK(rf_model_predict(t.model, t.problem.data, &logits));
    float kernel[FEATURES * 16];
    OK(rf_variable_read(rf_model_variables(t.model).items[0], kernel));
    double penalty = 0.0, sum = 0.0, weighted_sum = 0.0, of_sums = 0.0;
    for (int i = 0; i < FEATURES * 16; i++) penalty += 0.05 * (double)kernel[i] * (double)kernel[i];
    for (int i = 0; i < EXAMPLES; i++) {
        const float *row = (const float *)logits.data + i * CLASSES;
        double total = 0.0;
        for (int c = 0; c < CLASSES; c++) total += exp((double)row[c]);
        const double loss = log(total) - (double)row[t.problem.y[i]];
        sum += loss;
        weighted_sum += loss * (double)t.problem.weight[i];
        of_sums +=
            loss * (i < EXAMPLES / BATCH * BATCH ? BATCH : EXAMPLES % BATCH); /* a batch's sum, weighed by its size */
    }
    assert_near(get(&plain.epochs[0], "loss"), sum / EXAMPLES + penalty, 1e-5, 0.0, "plain");
    assert_near(get(&weighted.epochs[0], "loss"), weighted_sum / EXAMPLES + penalty, 1e-5, 0.0, "weighted");
    assert_near(get(&summed.epochs[0], "loss"), of_sums / EXAMPLES + penalty, 1e-5, 0.0, "sum");
    rf_array_free(&logits);
    rf_history_free(&plain);
    rf_history_free(&weighted);
    rf_history_free(&summed);
    close_trainer(&t);
}

/* Softmax as the last layer with crossentropy from probabilities, one-hot labels: the other common way to write it. */
static void from_probabilities(rf_strategy *strategy)
{
    problem p;
    open_problem(&p);
    rf_dataset *slices, *one_hot, *data;
    const rf_array arrays[] = { array_f32(RF_SHAPE(EXAMPLES, FEATURES), p.x), array_i32(RF_SHAPE(EXAMPLES), p.y) };
    OK(rf_dataset_from_arrays(&(rf_dataset_arrays_params){ .arrays = arrays, .num_arrays = 2 }, &slices));
    OK(rf_dataset_map_one_hot(slices, 1, CLASSES, &one_hot));
    OK(rf_dataset_batch(one_hot, 25, RF_REMAINDER_KEEP, &data));
    rf_layer *l[1];
    OK(rf_layer_dense(&(rf_dense_params){ .units = CLASSES, .activation = RF_ACTIVATION_SOFTMAX }, &l[0]));
    rf_model *model;
    OK(rf_model_create_sequential(strategy, l, 1, &RF_SHAPE(FEATURES), &model));
    rf_optimizer *optimizer;
    OK(rf_optimizer_create(strategy, &(rf_optimizer_params){ .learning_rate = 0.5, .momentum = 0.9 }, &optimizer));
    const rf_metric_kind metric = RF_METRIC_CATEGORICAL_ACCURACY;
    OK(rf_model_compile(model, &(rf_compile_params){ .optimizer = optimizer,
                                                     .loss = { .kind = RF_LOSS_CATEGORICAL_CROSSENTROPY },
                                                     .metrics = &metric,
                                                     .num_metrics = 1 }));
    rf_history history;
    OK(rf_model_fit(model, &(rf_fit_params){ .data = data, .epochs = 5 }, &history));
    assert_true(get(&history.epochs[4], "accuracy") > 0.97);
    rf_history_free(&history);
    rf_model_destroy(&model);
    rf_optimizer_destroy(&optimizer);
    rf_dataset_destroy(&slices);
    rf_dataset_destroy(&one_hot);
    rf_dataset_destroy(&data);
    close_problem(&p);
}

/* ---- callbacks ---- */

typedef struct diary {
    char text[1024];
    const char *fail_in; /* "E<" and so on: returns `code` there */
    rf_result code;
    uint32_t stop_after; /* epochs; 0: never */
    uint32_t examples;
    int destroyed;
} diary;

static rf_result note(diary *d, const char *event, const rf_fit_state *state, const rf_logs *logs)
{
    size_t used = strlen(d->text);
    snprintf(d->text + used, sizeof(d->text) - used, "%s%s", event, logs ? "" : "-");
    if (event[0] == 'b') {
        used = strlen(d->text);
        snprintf(d->text + used, sizeof(d->text) - used, "%d", (int)state->batch);
    }
    if (logs) assert_true(rf_logs_get(logs, "loss", NULL));
    return d->fail_in && strcmp(d->fail_in, event) == 0 ? d->code : RF_OK;
}

static rf_result note_train_begin(void *d, rf_fit_state *s)
{
    return note(d, "T<", s, NULL);
}
static rf_result note_train_end(void *d, rf_fit_state *s, const rf_logs *logs)
{
    return note(d, "T>", s, logs);
}
static rf_result note_epoch_begin(void *d, rf_fit_state *s)
{
    return note(d, "E<", s, NULL);
}
static rf_result note_epoch_end(void *user, rf_fit_state *s, const rf_logs *logs)
{
    diary *d = user;
    if (s->epoch + 1 == d->stop_after) s->stop_training = true;
    return note(d, "E>", s, logs);
}
static rf_result note_batch_begin(void *d, rf_fit_state *s)
{
    return note(d, "b<", s, NULL);
}
static rf_result note_batch_end(void *user, rf_fit_state *s, const rf_logs *logs)
{
    diary *d = user;
    d->examples += s->batch_examples;
    assert_true(s->seconds >= 0.0);
    return note(d, "b>", s, logs);
}
static void note_destroy(void *d)
{
    ((diary *)d)->destroyed++;
}

static rf_callback *diary_callback(diary *d)
{
    static const rf_callback_fns fns = { note_train_begin, note_train_end, note_epoch_begin, note_epoch_end,
                                         note_batch_begin, note_batch_end, note_destroy };
    rf_callback *callback;
    OK(rf_callback_create(&fns, d, &callback));
    return callback;
}

static void callback_order(rf_strategy *strategy)
{
    trainer t;
    open_trainer(strategy, &t, 0.0f, 0.01);
    diary d = { .stop_after = 2 };
    rf_callback *callback = diary_callback(&d);
    rf_fit_params params = {
        .data = t.problem.data, .epochs = 9, .steps_per_epoch = 3, .callbacks = &callback, .num_callbacks = 1
    };
    OK(rf_model_fit(t.model, &params, NULL));
    assert_string_equal(d.text, "T<-E<-b<-0b>0b<-1b>1b<-2b>2E>E<-b<-0b>0b<-1b>1b<-2b>2E>T>");
    assert_int_equal(d.examples, 6 * BATCH);

    compile(&t, 2, RF_REDUCTION_AUTO); /* every second batch, and the rest of the epoch */
    memset(d.text, 0, sizeof(d.text));
    d.examples = 0;
    d.stop_after = 1;
    OK(rf_model_fit(t.model, &params, NULL));
    assert_string_equal(d.text, "T<-E<-b<-0b>1b<-2b>2E>T>");
    assert_int_equal(d.examples, EXAMPLES % BATCH + 2 * BATCH); /* goes on with the last batch of the pass */

    /* A failing callback ends fit with its code and says which one it was. */
    static const char *const events[] = { "T<", "T>", "E<", "E>", "b<", "b>" };
    static const char *const names[] = { "on_train_begin", "on_train_end",   "on_epoch_begin",
                                         "on_epoch_end",   "on_batch_begin", "on_batch_end" };
    for (int i = 0; i < 6; i++) {
        memset(d.text, 0, sizeof(d.text));
        d.fail_in = events[i];
        d.code = RF_ERROR_CANCELLED;
        FAILS(rf_model_fit(t.model, &params, NULL), RF_ERROR_CANCELLED, names[i]);
        assert_non_null(strstr(rf_error_message(), "callbacks[0]"));
        d.code = i % 2 ? RF_END : (rf_result)7; /* no success either */
        FAILS(rf_model_fit(t.model, &params, NULL), RF_ERROR_INVALID_ARGUMENT, names[i]);
        assert_non_null(strstr(rf_error_message(), i % 2 ? "returned 1 (RF_END)" : "returned 7 (unknown"));
    }
    assert_int_equal(d.destroyed, 0);
    rf_callback_destroy(&callback);
    assert_int_equal(d.destroyed, 1);
    close_trainer(&t);
}

static double drop_rate(void *user, uint32_t epoch, double rate)
{
    assert_non_null(user);
    return epoch == 0 ? 1e-2 : epoch == 3 ? -1.0 : rate / 10.0;
}

static void rate_scheduler(rf_strategy *strategy)
{
    trainer t;
    open_trainer(strategy, &t, 0.0f, 0.5);
    rf_callback *callback;
    FAILS(rf_callback_learning_rate_scheduler(NULL, NULL, &callback), RF_ERROR_INVALID_ARGUMENT, "fn");
    OK(rf_callback_learning_rate_scheduler(drop_rate, &t, &callback));
    rf_fit_params params = { .data = t.problem.data, .epochs = 3, .callbacks = &callback, .num_callbacks = 1 };
    rf_history history;
    OK(rf_model_fit(t.model, &params, &history));
    for (int i = 0; i < 3; i++)
        assert_near(get(&history.epochs[i], "learning_rate"), pow(10.0, -2 - i), 1e-12, 0.0, "rate");
    rf_history_free(&history);
    params.initial_epoch = 3;
    params.epochs = 4;
    FAILS(rf_model_fit(t.model, &params, NULL), RF_ERROR_INVALID_ARGUMENT, "rate -1");
    rf_callback_destroy(&callback);
    close_trainer(&t);
}

/* Makes the model worse from its third epoch on. */
static rf_result spoil(void *user, rf_fit_state *state)
{
    trainer *t = user;
    float bias[CLASSES];
    OK(rf_optimizer_set_learning_rate(state->optimizer, state->epoch < 2 ? 0.01 : 0.0));
    for (int i = 0; i < CLASSES; i++) bias[i] = (float)(state->epoch * 5 * (uint32_t)i);
    if (state->epoch >= 2) OK(rf_variable_assign(rf_model_variables(t->model).items[3], bias));
    return RF_OK;
}

static void early_stopping(rf_strategy *strategy)
{
    for (int restore = 0; restore < 2; restore++) {
        trainer t;
        open_trainer(strategy, &t, 0.0f, 0.01);
        rf_callback *callbacks[2];
        OK(rf_callback_early_stopping(&(rf_early_stopping_params){ .patience = 2, .restore_best_weights = restore },
                                      &callbacks[0]));
        OK(rf_callback_create(&(rf_callback_fns){ .on_epoch_begin = spoil }, &t, &callbacks[1]));
        rf_fit_params params = { .data = t.problem.data,
                                 .validation_data = t.problem.data,
                                 .epochs = 20,
                                 .callbacks = callbacks,
                                 .num_callbacks = 2 };
        rf_history history;
        OK(rf_model_fit(t.model, &params, &history));
        assert_int_equal(history.num_epochs, 4); /* 0 and 1 get better, 2 and 3 do not */
        rf_logs logs;
        OK(rf_model_evaluate(t.model, t.problem.data, &logs));
        assert_near(get(&logs, "loss"), get(&history.epochs[restore ? 1 : 3], "val_loss"), 1e-6, 0.0, "restored");
        rf_history_free(&history);
        params.validation_data = NULL;
        FAILS(rf_model_fit(t.model, &params, NULL), RF_ERROR_INVALID_ARGUMENT, "'val_loss'");
        for (int i = 0; i < 2; i++) rf_callback_destroy(&callbacks[i]);
        close_trainer(&t);
    }
    rf_callback *callback;
    FAILS(rf_callback_early_stopping(&(rf_early_stopping_params){ .min_delta = -1.0 }, &callback),
          RF_ERROR_INVALID_ARGUMENT, "min_delta");
}

static rf_result look(void *user, rf_fit_state *state, const rf_logs *logs)
{
    (void)state;
    (void)logs;
    ++*(int *)user;
    return RF_OK;
}

static rf_dataset *make_batches(float *x, int32_t *labels)
{
    const rf_array arrays[] = { array_f32(RF_SHAPE(EXAMPLES, FEATURES), x), array_i32(RF_SHAPE(EXAMPLES), labels) };
    rf_dataset *slices, *data;
    OK(rf_dataset_from_arrays(&(rf_dataset_arrays_params){ .arrays = arrays, .num_arrays = 2 }, &slices));
    OK(rf_dataset_batch(slices, BATCH, RF_REMAINDER_KEEP, &data));
    rf_dataset_destroy(&slices);
    return data;
}

/* A label that is no class ends the run before anything is computed. */
static void refuses_labels(rf_strategy *strategy)
{
    trainer t;
    open_trainer(strategy, &t, 0.0f, 0.02);
    int32_t labels[EXAMPLES];
    memcpy(labels, t.problem.y, sizeof(labels));
    labels[40] = 99; /* of the second batch */
    rf_dataset *data = make_batches(t.problem.x, labels);
    rf_logs logs;
    FAILS(rf_model_fit(t.model, &(rf_fit_params){ .data = data, .epochs = 3 }, NULL), RF_ERROR_INVALID_ARGUMENT,
          "component 1 of the batch has 99 at [8]; sparse_crossentropy of [32,");
    FAILS(rf_model_evaluate(t.model, data, &logs), RF_ERROR_INVALID_ARGUMENT,
          "component 1 of the batch has 99 at [8]; sparse_crossentropy of [");
    OK(rf_model_fit(t.model, &(rf_fit_params){ .data = t.problem.data, .epochs = 1 }, NULL));
    rf_dataset_destroy(&data);
    close_trainer(&t);
}

/* NaN in the data makes the loss NaN: an error as soon as the loss is read, and at the end of the epoch at the latest.
 */
static void diverges(rf_strategy *strategy)
{
    trainer t;
    open_trainer(strategy, &t, 0.0f, 0.02);
    float x[EXAMPLES * FEATURES];
    memcpy(x, t.problem.x, sizeof(x));
    x[40 * FEATURES] = NAN; /* of the second batch */
    rf_dataset *data = make_batches(x, t.problem.y);
    int looks = 0;
    rf_callback *callback;
    OK(rf_callback_create(&(rf_callback_fns){ .on_epoch_end = look }, &looks, &callback));
    rf_fit_params params = { .data = data, .epochs = 3, .callbacks = &callback, .num_callbacks = 1 };
    FAILS(rf_model_fit(t.model, &params, NULL), RF_ERROR_NOT_FINITE, "epoch 1, batch 7 or before: the loss is ");
    assert_int_equal(looks, 0);
    rf_callback_destroy(&callback);
    OK(rf_callback_create(&(rf_callback_fns){ .on_batch_end = look }, &looks, &callback));
    close_trainer(&t);
    open_trainer(strategy, &t, 0.0f, 0.02);
    FAILS(rf_model_fit(t.model, &params, NULL), RF_ERROR_NOT_FINITE, "epoch 1, batch 2 or before: the loss is ");
    assert_int_equal(looks, 1);
    rf_callback_destroy(&callback);
    rf_dataset_destroy(&data);
    close_trainer(&t);
}

static void csv_log(rf_strategy *strategy)
{
    trainer t;
    open_trainer(strategy, &t, 0.0f, 0.01);
    char path[] = "/tmp/ringfire_fit_XXXXXX", line[256];
    const int fd = mkstemp(path);
    assert_true(fd >= 0);
    close(fd);
    rf_callback *callback;
    OK(rf_callback_csv_log(path, RF_CSV_LOG_REPLACE, &callback));
    OK(rf_model_fit(t.model,
                    &(rf_fit_params){ .data = t.problem.data, .epochs = 2, .callbacks = &callback, .num_callbacks = 1 },
                    NULL));
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    assert_non_null(fgets(line, sizeof(line), file));
    assert_string_equal(line, "epoch,loss,accuracy,learning_rate\n");
    for (int i = 0; i < 2; i++) {
        int epoch;
        double loss, hits, rate;
        assert_non_null(fgets(line, sizeof(line), file));
        assert_int_equal(sscanf(line, "%d,%lf,%lf,%lf", &epoch, &loss, &hits, &rate), 4);
        assert_int_equal(epoch, i);
        assert_near(rate, 0.01, 0.0, 0.0, "rate");
    }
    fclose(file);
    unlink(path);
    rf_callback_destroy(&callback);
    close_trainer(&t);
}

/* ---- datasets of all lengths ---- */

static rf_result generate(void *user, uint64_t index, rf_element *out)
{
    const problem *p = user;
    if (index >= 40) return RF_END;
    memcpy(out->component[0].data, p->x + index * FEATURES, FEATURES * sizeof(float));
    memcpy(out->component[1].data, p->y + index, sizeof(int32_t));
    return RF_OK;
}

static rf_result remember_batches(void *user, rf_fit_state *state)
{
    int64_t *seen = user;
    seen[state->epoch] = state->batches_per_epoch;
    return RF_OK;
}

static void lengths(rf_strategy *strategy)
{
    trainer t;
    open_trainer(strategy, &t, 0.0f, 0.01);
    /* Unknown: counted in the first epoch. */
    rf_dataset *generated, *batched, *endless, *empty;
    const rf_dataset_generator_params params = { .generate = generate,
                                                 .user = &t.problem,
                                                 .spec = {
                                                     2, { RF_F32, RF_I32 }, { RF_SHAPE(FEATURES), RF_SCALAR_SHAPE } } };
    OK(rf_dataset_from_generator(&params, &generated));
    OK(rf_dataset_batch(generated, 16, RF_REMAINDER_KEEP, &batched));
    assert_int_equal(rf_dataset_cardinality(batched), RF_CARDINALITY_UNKNOWN);
    int64_t seen[2] = { 0 };
    rf_callback *callback;
    OK(rf_callback_create(&(rf_callback_fns){ .on_epoch_begin = remember_batches }, seen, &callback));
    OK(rf_model_fit(
        t.model, &(rf_fit_params){ .data = batched, .epochs = 2, .callbacks = &callback, .num_callbacks = 1 }, NULL));
    assert_int_equal(seen[0], -1);
    assert_int_equal(seen[1], 3);
    assert_int_equal(rf_optimizer_iterations(t.optimizer), 6);
    rf_callback_destroy(&callback);
    /* Endless: needs steps_per_epoch. Shorter than an epoch: begins again. */
    OK(rf_dataset_repeat(t.problem.data, 0, &endless));
    FAILS(rf_model_fit(t.model, &(rf_fit_params){ .data = endless }, NULL), RF_ERROR_INVALID_ARGUMENT,
          "steps_per_epoch");
    OK(rf_model_fit(t.model, &(rf_fit_params){ .data = endless, .steps_per_epoch = 10 }, NULL));
    OK(rf_model_fit(t.model, &(rf_fit_params){ .data = t.problem.data, .steps_per_epoch = 10 }, NULL));
    assert_int_equal(rf_optimizer_iterations(t.optimizer), 26);
    rf_logs logs;
    rf_array out;
    FAILS(rf_model_evaluate(t.model, endless, &logs), RF_ERROR_INVALID_ARGUMENT, "infinite");
    FAILS(rf_model_predict(t.model, endless, &out), RF_ERROR_INVALID_ARGUMENT, "infinite");
    /* Empty and not batched. */
    OK(rf_dataset_skip(t.problem.data, 100, &empty));
    FAILS(rf_model_fit(t.model, &(rf_fit_params){ .data = empty }, NULL), RF_ERROR_INVALID_ARGUMENT, "no elements");
    FAILS(rf_model_fit(t.model, &(rf_fit_params){ .data = empty, .steps_per_epoch = 2 }, NULL),
          RF_ERROR_INVALID_ARGUMENT, "no elements");
    FAILS(rf_model_evaluate(t.model, empty, &logs), RF_ERROR_INVALID_ARGUMENT, "no elements");
    FAILS(rf_model_predict(t.model, empty, &out), RF_ERROR_INVALID_ARGUMENT, "no elements");
    FAILS(rf_model_fit(t.model, &(rf_fit_params){ .data = generated }, NULL), RF_ERROR_INVALID_ARGUMENT, "not batched");
    rf_dataset_destroy(&generated);
    rf_dataset_destroy(&batched);
    rf_dataset_destroy(&endless);
    rf_dataset_destroy(&empty);
    close_trainer(&t);
}

/* ---- contract ---- */

static void bad_arguments(rf_strategy *strategy)
{
    trainer t;
    open_trainer(strategy, &t, 0.0f, 0.01);
    rf_compile_params c = { .optimizer = t.optimizer };
    FAILS(rf_model_compile(NULL, &c), RF_ERROR_INVALID_ARGUMENT, "model");
    FAILS(rf_model_compile(t.model, NULL), RF_ERROR_INVALID_ARGUMENT, "params");
    FAILS(rf_model_compile(t.model, &(rf_compile_params){ 0 }), RF_ERROR_INVALID_ARGUMENT, "optimizer");
    c.loss.reduction = RF_REDUCTION_NONE;
    FAILS(rf_model_compile(t.model, &c), RF_ERROR_INVALID_ARGUMENT, "loss.reduction NONE");
    c.loss.reduction = RF_REDUCTION_AUTO;
    const rf_metric_kind metrics[] = { RF_METRIC_MEAN, RF_METRIC_CATEGORICAL_ACCURACY, RF_METRIC_CATEGORICAL_ACCURACY };
    c.metrics = metrics;
    c.num_metrics = 1;
    FAILS(rf_model_compile(t.model, &c), RF_ERROR_INVALID_ARGUMENT, "metrics[0]");
    c.metrics = metrics + 1;
    c.num_metrics = 2;
    FAILS(rf_model_compile(t.model, &c), RF_ERROR_INVALID_ARGUMENT, "metrics[1]");
    c.num_metrics = 9;
    FAILS(rf_model_compile(t.model, &c), RF_ERROR_INVALID_ARGUMENT, "num_metrics 9");
    FAILS(rf_model_fit(t.model, NULL, NULL), RF_ERROR_INVALID_ARGUMENT, "params");
    FAILS(rf_model_fit(t.model, &(rf_fit_params){ 0 }, NULL), RF_ERROR_INVALID_ARGUMENT, "data");
    FAILS(rf_model_fit(NULL, &(rf_fit_params){ 0 }, NULL), RF_ERROR_INVALID_ARGUMENT, "model");
    FAILS(rf_model_fit(
              t.model,
              &(rf_fit_params){ .data = t.problem.data, .callbacks = (rf_callback *[]){ NULL }, .num_callbacks = 1 },
              NULL),
          RF_ERROR_INVALID_ARGUMENT, "callbacks[0]");
    rf_logs logs;
    FAILS(rf_model_evaluate(t.model, NULL, &logs), RF_ERROR_INVALID_ARGUMENT, "data");
    FAILS(rf_model_evaluate(t.model, t.problem.data, NULL), RF_ERROR_INVALID_ARGUMENT, "out");

    rf_layer *l;
    rf_model *fresh;
    OK(rf_layer_flatten(&l));
    OK(rf_model_create_sequential(strategy, &l, 1, NULL, &fresh));
    FAILS(rf_model_fit(fresh, &(rf_fit_params){ .data = t.problem.data }, NULL), RF_ERROR_INVALID_ARGUMENT,
          "rf_model_compile()");
    FAILS(rf_model_evaluate(fresh, t.problem.data, &logs), RF_ERROR_INVALID_ARGUMENT, "rf_model_compile()");
    OK(rf_model_compile(fresh, &(rf_compile_params){ .optimizer = t.optimizer, .loss = { .from_logits = true } }));
    FAILS(rf_model_fit(fresh, &(rf_fit_params){ .data = t.problem.data }, NULL), RF_ERROR_INVALID_ARGUMENT,
          "variables");
    rf_model_destroy(&fresh);
    close_trainer(&t);
}

TEST_ON_ONE(learns)
TEST_ON_TWO(learns)
TEST_ON_TWO(reported_loss)
TEST_ON_ONE(from_probabilities)
TEST_ON_TWO(callback_order)
TEST_ON_ONE(rate_scheduler)
TEST_ON_TWO(early_stopping)
TEST_ON_ONE(refuses_labels)
TEST_ON_ONE(diverges)
TEST_ON_ONE(csv_log)
TEST_ON_ONE(lengths)
TEST_ON_ONE(bad_arguments)

TESTS(fit, NULL, NULL)
