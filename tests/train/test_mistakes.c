/* SPDX-License-Identifier: Apache-2.0 */
/* Settings with which training would run and learn nothing: refused, or warned of, with the fix. */
#include <math.h>

#include "run_state.h"
#include "tests/room.h"

enum { FEATURES = 8, EXAMPLES = 48, BATCH = 16 };

typedef struct problem {
    float x[EXAMPLES * FEATURES];
    int32_t y[EXAMPLES];
    rf_dataset *data; /* batched */
} problem;

static void open_problem(problem *p, int32_t classes)
{
    uint32_t seed = 12;
    for (int i = 0; i < EXAMPLES; i++) {
        p->y[i] = (int32_t)(i % classes);
        for (int f = 0; f < FEATURES; f++)
            p->x[i * FEATURES + f] = 0.4f * noise(&seed) + (f % classes == p->y[i] ? 1.0f : 0.0f);
    }
    const rf_array arrays[] = { array_f32(RF_SHAPE(EXAMPLES, FEATURES), p->x), array_i32(RF_SHAPE(EXAMPLES), p->y) };
    rf_dataset *slices;
    OK(rf_dataset_from_arrays(&(rf_dataset_arrays_params){ .arrays = arrays, .num_arrays = 2 }, &slices));
    OK(rf_dataset_batch(slices, BATCH, RF_REMAINDER_KEEP, &p->data));
    rf_dataset_destroy(&slices);
}

/* ---- how models end ---- */

typedef enum ending {
    LINEAR,
    LINEAR_NO_BIAS,
    LINEAR_RESHAPED,
    RELU,
    SOFTMAX,
    SOFTMAX_LAYER,
    SOFTMAX_RESHAPED,
    SIGMOID,
    NORMALISED,
    NUM_ENDINGS
} ending;

/* exp(x) / sum(exp(x)), by hand. */
static rf_tensor normalise(rf_trace *t, rf_tensor x, void *user)
{
    (void)user;
    const int32_t last = -1;
    const rf_tensor e = rf_exp(t, x);
    return rf_divide(t, e, rf_reduce_sum(t, e, &last, 1, RF_KEEP_DIMS));
}

static rf_model *make_model(rf_strategy *strategy, ending end, int32_t classes)
{
    static const rf_activation last[] = { [RELU] = RF_ACTIVATION_RELU,
                                          [SOFTMAX] = RF_ACTIVATION_SOFTMAX,
                                          [SOFTMAX_RESHAPED] = RF_ACTIVATION_SOFTMAX,
                                          [SIGMOID] = RF_ACTIVATION_SIGMOID };
    rf_layer *l[2];
    uint32_t count = 1;
    const rf_activation activation = end <= SIGMOID ? last[end] : RF_ACTIVATION_LINEAR;
    OK(rf_layer_dense(
        &(rf_dense_params){ .units = classes, .no_bias = end == LINEAR_NO_BIAS, .activation = activation }, &l[0]));
    if (end == LINEAR_RESHAPED || end == SOFTMAX_RESHAPED) OK(rf_layer_reshape(RF_SHAPE(classes), &l[count++]));
    if (end == SOFTMAX_LAYER) OK(rf_layer_activation(RF_ACTIVATION_SOFTMAX, &l[count++]));
    if (end == NORMALISED) OK(rf_layer_lambda(normalise, NULL, &l[count++]));
    rf_model *model;
    OK(rf_model_create_sequential(strategy, l, count, NULL, &model));
    return model;
}

typedef struct warnings {
    int count;
    char last[1024];
} warnings;

static void count_warning(void *user, rf_log_level level, const char *message)
{
    warnings *w = user;
    if (level != RF_LOG_WARN || !strstr(message, "from_logits")) return;
    w->count++;
    snprintf(w->last, sizeof(w->last), "%s", message);
}

static rf_result fit_once(rf_strategy *strategy, rf_model *model, const rf_loss *loss, const rf_metric_kind *metric,
                          const rf_dataset *data)
{
    rf_optimizer *optimizer;
    OK(rf_optimizer_create(strategy, NULL, &optimizer));
    OK(rf_model_compile(model,
                        &(rf_compile_params){
                            .optimizer = optimizer, .loss = *loss, .metrics = metric, .num_metrics = metric ? 1 : 0 }));
    const rf_result r = rf_model_fit(model, &(rf_fit_params){ .data = data }, NULL);
    rf_model_destroy(&model);
    rf_optimizer_destroy(&optimizer);
    return r;
}

static void logits_and_probabilities(rf_strategy *strategy)
{
    static const struct {
        bool refused, warned[2]; /* with probabilities, with logits */
    } expected[NUM_ENDINGS] = {
        [LINEAR] = { .refused = true },
        [LINEAR_NO_BIAS] = { .refused = true },
        [LINEAR_RESHAPED] = { .refused = true },
        [RELU] = { .refused = true },
        [SOFTMAX] = { .warned = { false, true } },
        [SOFTMAX_LAYER] = { .warned = { false, true } },
        [SOFTMAX_RESHAPED] = { .warned = { false, true } },
        [SIGMOID] = { false, { false, false } },
        [NORMALISED] = { .warned = { true, false } },
    };
    problem p;
    open_problem(&p, 4);
    for (int end = 0; end < NUM_ENDINGS; end++) {
        for (int logits = 0; logits < 2; logits++) {
            warnings w = { 0 };
            rf_log_set(count_warning, &w, RF_LOG_WARN);
            const rf_loss loss = { .from_logits = logits };
            const rf_result r = fit_once(strategy, make_model(strategy, (ending)end, 4), &loss, NULL, p.data);
            rf_log_set(NULL, NULL, RF_LOG_ERROR);
            if (expected[end].refused && !logits) {
                FAILS(r, RF_ERROR_INVALID_ARGUMENT, "set loss.from_logits, or give the layer RF_ACTIVATION_SOFTMAX");
            } else if (r != RF_OK) {
                fail_msg("ending %d, logits %d: %s", end, logits, rf_error_message());
            }
            if ((w.count > 0) != expected[end].warned[logits])
                fail_msg("ending %d, logits %d: %d warnings: %s", end, logits, w.count, w.last);
        }
    }
    rf_dataset_destroy(&p.data);
}

/* A loss in a step of the caller's own, zeroed but for the reduction. */
typedef struct own_step {
    rf_model *model;
    rf_loss loss;
} own_step;

static rf_result loss_step(rf_trace *t, const rf_tensor *in, rf_tensor *out, void *user)
{
    const own_step *s = user;
    out[0] = rf_loss_call(t, &s->loss, in[1], rf_model_call(t, s->model, in[0], RF_TRAINING));
    return rf_trace_status(t);
}

static void loss_of_an_own_step(rf_strategy *strategy)
{
    problem p;
    open_problem(&p, 4);
    rf_iterator *it;
    const rf_element *batch;
    OK(rf_iterator_create(p.data, 0, &it));
    OK(rf_iterator_next(it, &batch));
    own_step s = { .model = make_model(strategy, LINEAR, 4), .loss = { .reduction = RF_REDUCTION_SUM } };
    rf_function *f;
    rf_per_replica *result;
    OK(rf_function_create(strategy, &(rf_function_params){ .step = loss_step, .user = &s, .num_outputs = 1 }, &f));
    FAILS(rf_strategy_run(strategy, f, batch, &result), RF_ERROR_INVALID_ARGUMENT,
          "rf_loss_call: loss.from_logits is false");
    s.loss.from_logits = true;
    OK(rf_strategy_run(strategy, f, batch, &result));
    rf_function_destroy(&f);
    rf_model_destroy(&s.model);
    rf_iterator_destroy(&it);
    rf_dataset_destroy(&p.data);
}

/* The largest of one column is the first and the softmax 1, whatever the model says. */
static rf_result accuracy_step(rf_trace *t, const rf_tensor *in, rf_tensor *out, void *user)
{
    (void)out;
    return rf_metric_update(t, user, in[1], in[0], (rf_tensor){ 0 });
}

static void one_column(rf_strategy *strategy)
{
    problem p;
    open_problem(&p, 2);
    for (int kind = 0; kind < 2; kind++) {
        const rf_loss loss = { .kind =
                                   kind ? RF_LOSS_CATEGORICAL_CROSSENTROPY : RF_LOSS_SPARSE_CATEGORICAL_CROSSENTROPY,
                               .from_logits = true };
        FAILS(fit_once(strategy, make_model(strategy, LINEAR, 1), &loss, NULL, p.data), RF_ERROR_INVALID_ARGUMENT,
              "have one column");
    }
    /* A regression has one column, but no accuracy of classes. */
    const rf_loss regression = { .kind = RF_LOSS_MEAN_SQUARED_ERROR };
    const rf_metric_kind kinds[] = { RF_METRIC_SPARSE_CATEGORICAL_ACCURACY, RF_METRIC_CATEGORICAL_ACCURACY };
    OK(fit_once(strategy, make_model(strategy, LINEAR, 1), &regression, NULL, p.data));
    for (int i = 0; i < 2; i++) {
        FAILS(fit_once(strategy, make_model(strategy, LINEAR, 1), &regression, &kinds[i], p.data),
              RF_ERROR_INVALID_ARGUMENT, "have one column");
        rf_metric *metric;
        rf_function *f;
        float predictions[BATCH] = { 0 };
        const rf_element batch = { 2, { array_f32(RF_SHAPE(BATCH, 1), predictions), array_i32(RF_SHAPE(BATCH), p.y) } };
        OK(rf_metric_create(strategy, &(rf_metric_params){ .kind = kinds[i] }, &metric));
        OK(rf_function_create(strategy, &(rf_function_params){ .step = accuracy_step, .user = metric }, &f));
        FAILS(rf_strategy_run(strategy, f, &batch, NULL), RF_ERROR_INVALID_ARGUMENT, "have one column");
        rf_function_destroy(&f);
        rf_metric_destroy(&metric);
    }
    rf_dataset_destroy(&p.data);
}

/* ---- types of labels ---- */

/* Loss and accuracy of a model with weights of one seed, before training. */
static rf_result evaluate_labels(rf_strategy *strategy, rf_loss_kind kind, rf_metric_kind metric, float *x,
                                 rf_array labels, double values[2])
{
    const rf_array arrays[] = { array_f32(RF_SHAPE(EXAMPLES, FEATURES), x), labels };
    rf_compile_params compile = { .loss = { .kind = kind, .from_logits = true }, .metrics = &metric, .num_metrics = 1 };
    rf_dataset *slices, *data;
    rf_layer *layer;
    rf_model *model;
    rf_logs logs;
    OK(rf_dataset_from_arrays(&(rf_dataset_arrays_params){ .arrays = arrays, .num_arrays = 2 }, &slices));
    OK(rf_dataset_batch(slices, BATCH, RF_REMAINDER_KEEP, &data));
    OK(rf_layer_dense(&(rf_dense_params){ .units = 4, .kernel_initializer = { .seed = 5 } }, &layer));
    OK(rf_model_create_sequential(strategy, &layer, 1, NULL, &model));
    OK(rf_optimizer_create(strategy, NULL, &compile.optimizer));
    OK(rf_model_compile(model, &compile));
    const rf_result r = rf_model_evaluate(model, data, &logs);
    if (r >= 0) assert_true(rf_logs_get(&logs, "loss", &values[0]) && rf_logs_get(&logs, "accuracy", &values[1]));
    rf_model_destroy(&model);
    rf_optimizer_destroy(&compile.optimizer);
    rf_dataset_destroy(&data);
    rf_dataset_destroy(&slices);
    return r;
}

/* Whole numbers for rows of classes are what their f32 are; class numbers are not, and one line says so. */
static void labels_of_other_types(rf_strategy *strategy)
{
    problem p;
    static int32_t whole[EXAMPLES][4];
    static float rows[EXAMPLES][4];
    double numbers[2], a[2], b[2];
    open_problem(&p, 4);
    for (int i = 0; i < EXAMPLES; i++) {
        whole[i][p.y[i]] = 1;
        rows[i][p.y[i]] = 1;
    }
    const rf_loss_kind kind = RF_LOSS_CATEGORICAL_CROSSENTROPY;
    const rf_metric_kind hits = RF_METRIC_CATEGORICAL_ACCURACY;
    const rf_array classes = array_i32(RF_SHAPE(EXAMPLES), p.y);
    OK(evaluate_labels(strategy, RF_LOSS_SPARSE_CATEGORICAL_CROSSENTROPY, RF_METRIC_SPARSE_CATEGORICAL_ACCURACY, p.x,
                       classes, numbers));
    OK(evaluate_labels(strategy, kind, hits, p.x, array_f32(RF_SHAPE(EXAMPLES, 4), rows[0]), a));
    OK(evaluate_labels(strategy, kind, hits, p.x, array_i32(RF_SHAPE(EXAMPLES, 4), whole[0]), b));
    assert_true(a[0] == b[0] && a[1] == b[1] && a[1] == numbers[1]);
    assert_true(fabs(a[0] - numbers[0]) < 1e-5);
    FAILS(evaluate_labels(strategy, kind, hits, p.x, classes, a), RF_ERROR_INVALID_ARGUMENT,
          "the label of output 'output' is i32 [16], which categorical_crossentropy does not take with predictions "
          "[16,4]");
    rf_dataset_destroy(&p.data);
}

/* ---- losses that are no numbers ---- */

static void evaluate_says_so(rf_strategy *strategy)
{
    problem good, bad;
    open_problem(&good, 4);
    open_problem(&bad, 4);
    rf_dataset_destroy(&bad.data);
    bad.x[20 * FEATURES] = NAN;
    const rf_array arrays[] = { array_f32(RF_SHAPE(EXAMPLES, FEATURES), bad.x), array_i32(RF_SHAPE(EXAMPLES), bad.y) };
    rf_dataset *slices;
    OK(rf_dataset_from_arrays(&(rf_dataset_arrays_params){ .arrays = arrays, .num_arrays = 2 }, &slices));
    OK(rf_dataset_batch(slices, BATCH, RF_REMAINDER_KEEP, &bad.data));
    rf_dataset_destroy(&slices);

    rf_model *model = make_model(strategy, LINEAR, 4);
    rf_optimizer *optimizer;
    OK(rf_optimizer_create(strategy, NULL, &optimizer));
    OK(rf_model_compile(model, &(rf_compile_params){ .optimizer = optimizer, .loss = { .from_logits = true } }));
    rf_logs logs;
    double loss;
    OK(rf_model_evaluate(model, good.data, &logs));
    FAILS(rf_model_evaluate(model, bad.data, &logs), RF_ERROR_NOT_FINITE, "rf_model_evaluate: the loss is ");
    assert_true(rf_logs_get(&logs, "loss", &loss) && !isfinite(loss));
    rf_history history;
    FAILS(
        rf_model_fit(model, &(rf_fit_params){ .data = good.data, .validation_data = bad.data, .epochs = 2 }, &history),
        RF_ERROR_NOT_FINITE, "validation after epoch 1: the val_loss is ");
    rf_history_free(&history);
    OK(rf_model_evaluate(model, good.data, &logs)); /* nothing sticks */
    rf_model_destroy(&model);
    rf_optimizer_destroy(&optimizer);
    rf_dataset_destroy(&good.data);
    rf_dataset_destroy(&bad.data);
}

/* ---- optimizers that are destroyed too early ---- */

#define GONE "the optimizer has been destroyed"

/* Those that keep it notice. The user's handle is NULL, a copy of it may be destroyed again. */
static void destroyed_optimizer(rf_strategy *strategy)
{
    problem p;
    char folder[SCRATCH_PATH], path[64];
    snprintf(path, sizeof(path), "%s/net.rfck", scratch(folder));
    open_problem(&p, 4);
    rf_model *model = make_model(strategy, LINEAR, 4), *loaded;
    rf_optimizer *optimizer, *copy;
    rf_checkpoint *checkpoint;
    OK(rf_optimizer_create(strategy, NULL, &optimizer));
    const rf_compile_params compile = { .optimizer = optimizer, .loss = { .from_logits = true } };
    const rf_fit_params fit = { .data = p.data };
    OK(rf_model_compile(model, &compile));
    OK(rf_model_fit(model, &fit, NULL));
    OK(rf_checkpoint_create(strategy, &checkpoint));
    OK(rf_checkpoint_add_model(checkpoint, "model", model));
    OK(rf_checkpoint_add_optimizer(checkpoint, "optimizer", optimizer));
    OK(rf_checkpoint_save(checkpoint, path, NULL));

    copy = optimizer;
    rf_optimizer_destroy(&optimizer);
    assert_null(optimizer);
    rf_optimizer_destroy(&copy);
    FAILS(rf_model_fit(model, &fit, NULL), RF_ERROR_INVALID_ARGUMENT, "rf_model_fit: " GONE);
    FAILS(rf_model_save(model, path, NULL), RF_ERROR_INVALID_ARGUMENT, "rf_model_save: " GONE);
    FAILS(rf_checkpoint_save(checkpoint, path, NULL), RF_ERROR_INVALID_ARGUMENT, "rf_checkpoint_save: " GONE);
    FAILS(rf_checkpoint_restore(checkpoint, path, NULL), RF_ERROR_INVALID_ARGUMENT, "rf_checkpoint_restore: " GONE);
    rf_checkpoint_destroy(&checkpoint);
    rf_logs logs;
    OK(rf_model_evaluate(model, p.data, &logs)); /* needs none */

    rf_optimizer *next;
    OK(rf_optimizer_create(strategy, NULL, &next));
    OK(rf_model_compile(model, &(rf_compile_params){ .optimizer = next, .loss = { .from_logits = true } }));
    OK(rf_model_fit(model, &fit, NULL));
    OK(rf_model_save(model, path, NULL));
    rf_model_destroy(&model);
    rf_optimizer_destroy(&next);

    OK(rf_model_load(strategy, path, &loaded));
    OK(rf_model_fit(loaded, &fit, NULL));
    copy = rf_model_optimizer(loaded); /* the model's own */
    rf_optimizer_destroy(&copy);
    FAILS(rf_model_fit(loaded, &fit, NULL), RF_ERROR_INVALID_ARGUMENT, "rf_model_fit: " GONE);
    rf_model_destroy(&loaded);
    rf_dataset_destroy(&p.data);
    scratch_remove(folder);
}

/* ---- objects of checkpoints that are destroyed too early ---- */

typedef enum victim { MODEL, METRIC, FUNCTION, ITERATOR, NUM_VICTIMS } victim;

/* Through the program's handle; a copy of it is left. */
static void destroy_victim(run_state *run, victim v)
{
    rf_iterator *iterator = run->iterator;
    switch (v) {
    case MODEL: rf_model_destroy(&run->model); break;
    case METRIC: rf_metric_destroy(&run->accuracy); break;
    case FUNCTION: rf_function_destroy(&run->step); break;
    case ITERATOR: rf_iterator_destroy(&iterator); break; /* the checkpoint finds a copy in run->iterator */
    case NUM_VICTIMS: break;
    }
}

static void use_destroyed(const run_state *run, run_state *copies, victim v)
{
    const rf_fit_params fit = { .data = run->data };
    const rf_compile_params compile = { .optimizer = run->optimizer };
    rf_checkpoint *other;
    rf_logs logs;
    rf_array predictions;
    OK(rf_checkpoint_create(run->strategy, &other));
    if (v == MODEL) {
        FAILS(rf_checkpoint_add_model(other, "x", copies->model), RF_ERROR_INVALID_ARGUMENT, "the model has been");
        FAILS(rf_model_compile(copies->model, &compile), RF_ERROR_INVALID_ARGUMENT, "rf_model_compile: the model has");
        FAILS(rf_model_fit(copies->model, &fit, NULL), RF_ERROR_INVALID_ARGUMENT, "rf_model_fit: the model has been");
        FAILS(rf_model_evaluate(copies->model, run->data, &logs), RF_ERROR_INVALID_ARGUMENT, "the model has been");
        FAILS(rf_model_predict(copies->model, run->data, &predictions), RF_ERROR_INVALID_ARGUMENT,
              "the model has been");
        rf_model_destroy(&copies->model);
    } else if (v == METRIC) {
        FAILS(rf_checkpoint_add_metric(other, "x", copies->accuracy), RF_ERROR_INVALID_ARGUMENT, "the metric 'acc");
        rf_metric_destroy(&copies->accuracy);
    } else if (v == FUNCTION) {
        FAILS(rf_checkpoint_add_function(other, "x", copies->step), RF_ERROR_INVALID_ARGUMENT, "the function 'train");
        FAILS(rf_strategy_run(run->strategy, copies->step, NULL, NULL), RF_ERROR_INVALID_ARGUMENT, "the function 'tr");
        rf_function_destroy(&copies->step);
    }
    rf_checkpoint_destroy(&other);
}

/* Everything that a checkpoint would read of them is gone or will never change again: it says so, and leaves the file
 * alone. */
TEST(destroyed_in_a_checkpoint)
{
    static const char *const messages[NUM_VICTIMS] = { [MODEL] = "the model has been destroyed",
                                                       [METRIC] = "the metric 'accuracy' has been destroyed",
                                                       [FUNCTION] = "the function 'train_step' has been destroyed",
                                                       [ITERATOR] = "the iterator 'iterator' has been destroyed" };
    for (victim v = 0; v < NUM_VICTIMS; v++) {
        char folder[SCRATCH_PATH], path[128], other[128], saving[160], restoring[160];
        run_state run;
        if (!run_create(&run, "llvmpipe", 3, NULL)) SKIP("not installed: llvmpipe");
        snprintf(path, sizeof(path), "%s/x.rfck", scratch(folder));
        snprintf(other, sizeof(other), "%s/y.rfck", folder);
        run_batches(&run, 2, NULL);
        OK(rf_checkpoint_save(run.checkpoint, path, NULL));
        run_state copies = run;
        destroy_victim(&run, v);
        snprintf(saving, sizeof(saving), "rf_checkpoint_save: %s", messages[v]);
        snprintf(restoring, sizeof(restoring), "rf_checkpoint_restore: %s", messages[v]);
        FAILS(rf_checkpoint_save(run.checkpoint, other, NULL), RF_ERROR_INVALID_ARGUMENT, saving);
        FAILS(rf_checkpoint_restore(run.checkpoint, path, NULL), RF_ERROR_INVALID_ARGUMENT, restoring);
        assert_int_equal(scratch_count(folder), 1);
        use_destroyed(&run, &copies, v);
        if (v == ITERATOR) {
            run.iterator = NULL;
            OK(rf_checkpoint_restore(run.checkpoint, path, NULL));
            assert_non_null(run.iterator);
            OK(rf_checkpoint_save(run.checkpoint, path, NULL));
        }
        run_destroy(&run);
        scratch_remove(folder);
    }
}

/* Variables and datasets are counted: what a checkpoint has of them stays whole. */
TEST(counted_in_a_checkpoint)
{
    char folder[SCRATCH_PATH], path[128];
    run_state run;
    rf_variable *variable;
    rf_checkpoint *c;
    rf_iterator *iterator = NULL, *foreign;
    if (!run_create(&run, "llvmpipe", 3, NULL)) SKIP("not installed: llvmpipe");
    snprintf(path, sizeof(path), "%s/x.rfck", scratch(folder));
    OK(rf_checkpoint_create(run.strategy, &c));
    OK(rf_variable_create(run.strategy, &(rf_variable_params){ .name = "v", .shape = RF_SHAPE(6) }, &variable));
    OK(rf_checkpoint_add_variable(c, "v", variable));
    rf_dataset *dataset = run_dataset(2);
    OK(rf_checkpoint_add_iterator(c, "iterator", &iterator, dataset));
    OK(rf_iterator_create(dataset, 0, &iterator));
    rf_variable_destroy(&variable);
    rf_dataset_destroy(&dataset);
    OK(rf_checkpoint_save(c, path, NULL));
    OK(rf_checkpoint_restore(c, path, NULL));
    /* The place in another dataset cannot be restored from this one. */
    rf_iterator *own = iterator;
    OK(rf_iterator_create(run.data, 0, &foreign));
    iterator = foreign;
    FAILS(rf_checkpoint_save(c, path, NULL), RF_ERROR_INVALID_ARGUMENT, "or is not over the dataset");
    iterator = own;
    OK(rf_checkpoint_save(c, path, NULL));
    rf_iterator_destroy(&foreign);
    rf_iterator_destroy(&iterator);
    rf_checkpoint_destroy(&c);
    run_destroy(&run);
    scratch_remove(folder);
}

/* ---- messages ---- */

static rf_result mismatched_step(rf_trace *t, const rf_tensor *in, rf_tensor *out, void *user)
{
    (void)user;
    out[0] = rf_reduce_sum(t, rf_mean_squared_error(t, in[0], in[1]), NULL, 0, RF_DROP_DIMS);
    return rf_trace_status(t);
}

/* A batch's shapes are shown as they were passed, whatever share of it the step is traced with. */
static void shapes_are_those_passed(rf_strategy *strategy)
{
    static const int64_t rows[] = { 1, 8 };
    static const char *const shown[] = { "labels [1,4] and predictions [1,3]", "labels [8,4] and predictions [8,3]" };
    float x[8 * 4] = { 0 };
    for (int i = 0; i < 2; i++) {
        const rf_element batch = { 2, { array_f32(RF_SHAPE(rows[i], 4), x), array_f32(RF_SHAPE(rows[i], 3), x) } };
        rf_function *f;
        OK(rf_function_create(strategy, &(rf_function_params){ .step = mismatched_step, .num_outputs = 1 }, &f));
        FAILS(rf_strategy_run(strategy, f, &batch, NULL), RF_ERROR_INVALID_ARGUMENT, shown[i]);
        rf_function_destroy(&f);
    }
}

/* The fix that the message proposes can be done in the call that failed. */
static void fixes_that_exist(rf_strategy *strategy)
{
    char folder[SCRATCH_PATH], path[128];
    problem p;
    open_problem(&p, 4);
    rf_optimizer *optimizer;
    rf_layer *layer;
    rf_model *model, *other = make_model(strategy, LINEAR, 3);
    OK(rf_optimizer_create(strategy, NULL, &optimizer));
    OK(rf_layer_dense(&(rf_dense_params){ .units = 4 }, &layer));
    const rf_shape input = RF_SHAPE(FEATURES);
    OK(rf_model_create_sequential(strategy, &layer, 1, &input, &model));
    snprintf(path, sizeof(path), "%s/x.rfck", scratch(folder));
    OK(rf_model_save_weights(model, path, NULL));
    OK(rf_model_build(other, RF_SHAPE(FEATURES)));
    FAILS(rf_model_load_weights(other, path), RF_ERROR_INVALID_ARGUMENT, "does not match this model: ");
    assert_non_null(strstr(rf_error_message(), "build the model with the layers and names that were saved"));
    assert_null(strstr(rf_error_message(), "`partial`"));
    rf_layer_set_trainable(layer, false);
    OK(rf_model_compile(model, &(rf_compile_params){ .optimizer = optimizer, .loss = { .from_logits = true } }));
    FAILS(rf_model_fit(model, &(rf_fit_params){ .data = p.data }, NULL), RF_ERROR_INVALID_ARGUMENT,
          "all layers were frozen when the model was compiled");
    rf_model_destroy(&model);
    rf_model_destroy(&other);
    rf_optimizer_destroy(&optimizer);
    rf_dataset_destroy(&p.data);
    scratch_remove(folder);
}

TEST_ON_ONE(logits_and_probabilities)
TEST_ON_ONE(loss_of_an_own_step)
TEST_ON_ONE(one_column)
TEST_ON_ONE(labels_of_other_types)
TEST_ON_TWO(evaluate_says_so)
TEST_ON_ONE(destroyed_optimizer)
TEST_ON_TWO(shapes_are_those_passed)
TEST_ON_ONE(fixes_that_exist)

TESTS(mistakes, NULL, NULL)
