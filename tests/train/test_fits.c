/* SPDX-License-Identifier: Apache-2.0 */
/* Several fits of one model: what goes on from one to the next. The needs of a fit are checked when it begins. Metrics
 * beside losses of logits. */
#include <sys/stat.h>
#include <unistd.h>

#include "../support/folder.h"
#include "../support/strategies.h"
#include "tests/room.h"

enum { EXAMPLES = 8, MOST_BATCHES = 64 };

typedef struct line {
    rf_strategy *strategy;
    rf_dataset *data, *shuffled; /* batches of one example */
    rf_model *model;
    rf_optimizer *optimizer;
    double losses[MOST_BATCHES]; /* of batches */
    int num_losses;
    double sum;
} line;

static void compile(line *l)
{
    OK(rf_model_compile(
        l->model, &(rf_compile_params){ .optimizer = l->optimizer, .loss = { .kind = RF_LOSS_MEAN_SQUARED_ERROR } }));
}

/* x is 0 but for `x_of`, y is 1, 2, ..; one neuron, whose rate is next to nothing, so that a loss is y squared. */
static void line_open(line *l, float x_of, double rate, float dropout)
{
    float x[EXAMPLES], y[EXAMPLES];
    for (int i = 0; i < EXAMPLES; i++) x[i] = x_of * (float)(i + 1), y[i] = (float)(i + 1);
    const rf_array arrays[] = { array_f32(RF_SHAPE(EXAMPLES, 1), x), array_f32(RF_SHAPE(EXAMPLES, 1), y) };
    rf_dataset *examples, *order;
    *l = (line){ .strategy = open_devices("llvmpipe") };
    if (!l->strategy) SKIP("not installed: llvmpipe");
    rf_strategy_set_seed(l->strategy, 3);
    OK(rf_dataset_from_arrays(&(rf_dataset_arrays_params){ .arrays = arrays, .num_arrays = 2 }, &examples));
    OK(rf_dataset_shuffle(examples, EXAMPLES, 5, RF_SHUFFLE_EACH_PASS, &order));
    OK(rf_dataset_batch(order, 1, RF_REMAINDER_KEEP, &l->shuffled));
    OK(rf_dataset_batch(examples, EXAMPLES, RF_REMAINDER_KEEP, &l->data));
    rf_dataset_destroy(&examples);
    rf_dataset_destroy(&order);
    rf_layer *layers[2];
    uint32_t n = 0;
    if (dropout > 0) OK(rf_layer_dropout(dropout, 0, &layers[n++]));
    OK(rf_layer_dense(&(rf_dense_params){ .units = 1, .name = "neuron" }, &layers[n++]));
    const rf_shape input = RF_SHAPE(1);
    OK(rf_model_create_sequential(l->strategy, layers, n, &input, &l->model));
    OK(rf_optimizer_create(l->strategy, &(rf_optimizer_params){ .kind = RF_OPTIMIZER_SGD, .learning_rate = rate },
                           &l->optimizer));
    compile(l);
}

static void line_close(line *l)
{
    rf_model_destroy(&l->model);
    rf_optimizer_destroy(&l->optimizer);
    rf_dataset_destroy(&l->data);
    rf_dataset_destroy(&l->shuffled);
    rf_strategy_destroy(&l->strategy);
}

/* ---- the data of successive fits ---- */

static rf_result note_loss(void *user, rf_fit_state *state, const rf_logs *logs)
{
    line *l = user;
    double mean = 0;
    assert_true(rf_logs_get(logs, "loss", &mean) && l->num_losses < MOST_BATCHES);
    const double sum = mean * (double)(state->batch + 1);
    l->losses[l->num_losses++] = round(state->batch == 0 ? sum : sum - l->sum);
    l->sum = sum;
    return RF_OK;
}

static void fit_epochs(line *l, const rf_dataset *data, uint32_t from, uint32_t to, uint64_t steps)
{
    rf_callback *watch;
    OK(rf_callback_create(&(rf_callback_fns){ .on_batch_end = note_loss }, l, &watch));
    const rf_fit_params params = { .data = data,
                                   .epochs = to,
                                   .initial_epoch = from,
                                   .steps_per_epoch = steps,
                                   .callbacks = &watch,
                                   .num_callbacks = 1 };
    OK(rf_model_fit(l->model, &params, NULL));
    rf_callback_destroy(&watch);
}

/* Epochs of one fit, and the same number of each of several ones. */
static void check_order(uint64_t steps, bool initial, bool recompiled)
{
    enum { EPOCHS = 5 };
    line whole, parts;
    line_open(&whole, 0, 1e-30, 0);
    line_open(&parts, 0, 1e-30, 0);
    fit_epochs(&whole, whole.shuffled, 0, EPOCHS, steps);
    for (uint32_t e = 0; e < EPOCHS; e += e ? 1 : 2) {
        if (recompiled) compile(&parts);
        const uint32_t count = e ? 1 : 2;
        fit_epochs(&parts, parts.shuffled, initial ? e : 0, initial ? e + count : count, steps);
    }
    assert_int_equal(whole.num_losses, EPOCHS * (steps ? (int)steps : EXAMPLES));
    assert_int_equal(parts.num_losses, whole.num_losses);
    for (int i = 0; i < whole.num_losses; i++)
        if (whole.losses[i] != parts.losses[i])
            fail_msg("%llu steps, batch %d: loss %g, not %g", (unsigned long long)steps, i, parts.losses[i],
                     whole.losses[i]);
    line_close(&whole);
    line_close(&parts);
}

TEST(passes_go_on)
{
    check_order(0, false, false);
    check_order(0, true, false);
    check_order(3, false, false);
    check_order(3, true, true);
    check_order(EXAMPLES, false, true);
}

/* The numbers of random operations, too, whether the model is compiled anew or not. */
TEST(random_numbers_go_on)
{
    line l;
    line_open(&l, 100, 1e-30, 0.5f);
    for (int i = 0; i < 4; i++) {
        if (i == 2) compile(&l);
        l.sum = 0;
        fit_epochs(&l, l.data, 0, 1, 0);
        for (int k = 0; k < i; k++) assert_true(l.losses[i] != l.losses[k]);
    }
    line_close(&l);
}

/* Another pipeline begins with its next pass. */
TEST(another_pipeline_begins_anew)
{
    line l;
    rf_dataset *two;
    line_open(&l, 0, 1e-30, 0);
    OK(rf_dataset_take(l.shuffled, 2, &two));
    fit_epochs(&l, l.shuffled, 0, 1, 7);
    fit_epochs(&l, two, 0, 1, 2);
    fit_epochs(&l, two, 0, 2, 3);
    fit_epochs(&l, l.shuffled, 0, 1, EXAMPLES);
    double sum = 0;
    assert_int_equal(l.num_losses, 7 + 2 + 6 + EXAMPLES);
    for (int i = 15; i < l.num_losses; i++) sum += l.losses[i];
    assert_near(sum, 204, 0, 0, "all squares, each once");
    rf_dataset_destroy(&two);
    line_close(&l);
}

/* ---- the best of all fits ---- */

static double loss_in_file(const line *l, const char *path)
{
    rf_logs logs;
    double loss = 0;
    OK(rf_model_load_weights(l->model, path));
    OK(rf_model_evaluate(l->model, l->data, &logs));
    assert_true(rf_logs_get(&logs, "loss", &loss));
    return loss;
}

static void fit_from(line *l, float kernel, rf_callback *callback)
{
    OK(rf_variable_assign(rf_model_variables(l->model).items[0], &kernel));
    OK(rf_model_fit(
        l->model,
        &(rf_fit_params){ .data = l->data, .validation_data = l->data, .callbacks = &callback, .num_callbacks = 1 },
        NULL));
}

TEST(best_of_all_fits)
{
    char folder[64], path[96];
    line l;
    rf_callback *best, *later;
    line_open(&l, 1, 1e-30, 0);
    snprintf(path, sizeof(path), "%s/best.rfck", scratch(folder));
    const rf_model_checkpoint_params params = { .path = path, .save_best_only = true, .save_weights_only = true };
    OK(rf_callback_model_checkpoint(&params, &best));
    fit_from(&l, 1.5f, best); /* loss 6.375 */
    fit_from(&l, 9.0f, best);
    assert_near(loss_in_file(&l, path), 6.375, 1e-5, 0, "the first fit's");
    fit_from(&l, 1.25f, best);
    assert_near(loss_in_file(&l, path), 1.59375, 1e-5, 0, "the third fit's");
    rf_callback_destroy(&best);
    /* Another program knows the value of the file. */
    const double known = 1.59375, none = NAN;
    rf_model_checkpoint_params again = params;
    again.initial_value_threshold = &known;
    OK(rf_callback_model_checkpoint(&again, &later));
    fit_from(&l, 1.5f, later);
    assert_near(loss_in_file(&l, path), 1.59375, 1e-5, 0, "a worse one is not saved");
    fit_from(&l, 1.125f, later);
    assert_true(loss_in_file(&l, path) < 0.5);
    rf_callback_destroy(&later);
    again.initial_value_threshold = &none;
    FAILS(rf_callback_model_checkpoint(&again, &later), RF_ERROR_INVALID_ARGUMENT, "NaN");
    again = (rf_model_checkpoint_params){ .path = path, .initial_value_threshold = &known };
    FAILS(rf_callback_model_checkpoint(&again, &later), RF_ERROR_INVALID_ARGUMENT, "for save_best_only");
    line_close(&l);
    scratch_remove(folder);
}

/* ---- what a fit needs ---- */

static rf_result note_begin(void *user, rf_fit_state *state)
{
    (void)state;
    ++*(int *)user;
    return RF_OK;
}

/* Nothing has happened when fit says what is missing: neither training nor a file. */
static void refuse(line *l, rf_callback *callback, rf_result code, const char *part)
{
    int begun = 0;
    rf_callback *watch;
    OK(rf_callback_create(&(rf_callback_fns){ .on_batch_begin = note_begin }, &begun, &watch));
    rf_callback *const callbacks[] = { watch, callback };
    FAILS(rf_model_fit(l->model, &(rf_fit_params){ .data = l->data, .callbacks = callbacks, .num_callbacks = 2 }, NULL),
          code, part);
    assert_int_equal(begun, 0);
    assert_int_equal(rf_optimizer_iterations(l->optimizer), 0);
    rf_callback_destroy(&callback);
    rf_callback_destroy(&watch);
}

TEST(checked_when_fit_begins)
{
    char folder[64], path[128];
    line l;
    rf_callback *c;
    line_open(&l, 1, 0.01, 0);
    scratch(folder);
    OK(rf_callback_early_stopping(NULL, &c));
    refuse(&l, c, RF_ERROR_INVALID_ARGUMENT, "callbacks[1]: early stopping: no value 'val_loss' among loss,");
    static const struct {
        const char *path;
        bool best;
        const char *part;
    } patterns[] = {
        { "best", true, "model checkpoint: no value 'val_loss' among loss" },
        { "{val_loss}", false, "there is no value 'val_loss'" },
        { "{epoch}-{los:.2f}", false, "there is no value 'los'" },
        { "{los}/a", false, "there is no value 'los'" },
        { "{epoch:.2x}", false, "not a valid place" },
        { "{loss:d}", false, "not a whole number" },
        { "{1}", false, "there is no value '1'; for braces" },
        { "{}", false, "not a valid place" },
    };
    for (size_t i = 0; i < sizeof(patterns) / sizeof(patterns[0]); i++) {
        snprintf(path, sizeof(path), "%s/%s", folder, patterns[i].path);
        OK(rf_callback_model_checkpoint(
            &(rf_model_checkpoint_params){ .path = path, .save_best_only = patterns[i].best }, &c));
        refuse(&l, c, RF_ERROR_INVALID_ARGUMENT, patterns[i].part);
    }
    assert_int_equal(scratch_count(folder), 0);
    /* Directories that cannot be: /proc has no files of ours, and a file is no directory. */
    static const char *const nowhere[] = { "/proc/a", "/proc/{epoch}/a", "/dev/null/a", "/dev/null/{epoch}/a" };
    for (size_t i = 0; i < sizeof(nowhere) / sizeof(nowhere[0]); i++) {
        OK(rf_callback_model_checkpoint(&(rf_model_checkpoint_params){ .path = nowhere[i] }, &c));
        refuse(&l, c, RF_ERROR_IO, "model checkpoint");
    }
    OK(rf_callback_backup_and_restore(&(rf_backup_params){ .directory = "/proc" }, &c));
    refuse(&l, c, RF_ERROR_IO, "backup in '/proc'");
    OK(rf_callback_tensorboard(&(rf_tensorboard_params){ .directory = "/proc/logs" }, &c));
    refuse(&l, c, RF_ERROR_IO, "tensorboard");
    line_close(&l);
    scratch_remove(folder);
}

TEST(braces_in_names)
{
    static const struct {
        const char *path, *file;
    } names[] = { { "{1}/{epoch}", "{1}/1.rfck" },
                  { "{}{a b}{/x}y/z", "{}{a b}{/x}y/z.rfck" },
                  { "{{loss}}/{epoch:02d}", "{loss}/01.rfck" },
                  { "e{epoch}/{{{epoch}}}", "e1/{1}.rfck" },
                  { "{-1}/{epoch}/a", "{-1}/1/a.rfck" } };
    char folder[64], path[160];
    line l;
    line_open(&l, 1, 0.01, 0);
    scratch(folder);
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        rf_callback *c;
        snprintf(path, sizeof(path), "%s/%s", folder, names[i].path);
        OK(rf_callback_model_checkpoint(&(rf_model_checkpoint_params){ .path = path, .save_weights_only = true }, &c));
        OK(rf_model_fit(l.model, &(rf_fit_params){ .data = l.data, .callbacks = &c, .num_callbacks = 1 }, NULL));
        rf_callback_destroy(&c);
        snprintf(path, sizeof(path), "%s/%s", folder, names[i].file);
        if (access(path, R_OK) != 0) fail_msg("'%s' gave no '%s'", names[i].path, names[i].file);
        OK(rf_model_load_weights(l.model, path));
    }
    line_close(&l);
    scratch_remove(folder);
}

/* ---- a resumed epoch ---- */

typedef struct stopper {
    rf_strategy *strategy;
    uint64_t after; /* batches; 0: none */
    uint64_t examples, timed;
} stopper;

static rf_result stop_later(void *user, rf_fit_state *state, const rf_logs *logs)
{
    stopper *s = user;
    (void)logs;
    if (state->batch + 1 == s->after) rf_strategy_request_stop(s->strategy);
    s->examples = state->epoch_examples;
    s->timed = state->timed_examples;
    return RF_OK;
}

TEST(examples_of_a_resumed_epoch)
{
    char folder[64];
    uint64_t before = 0;
    scratch(folder);
    for (int run = 0; run < 2; run++) {
        line l;
        rf_callback *c[2];
        line_open(&l, 0, 0.01, 0);
        stopper s = { .strategy = l.strategy, .after = run ? 0 : 3 };
        OK(rf_callback_create(&(rf_callback_fns){ .on_batch_end = stop_later }, &s, &c[0]));
        OK(rf_callback_backup_and_restore(&(rf_backup_params){ .directory = folder }, &c[1]));
        OK(rf_model_fit(l.model, &(rf_fit_params){ .data = l.shuffled, .callbacks = c, .num_callbacks = 2 }, NULL));
        assert_in_range(s.examples, run ? EXAMPLES : 3, run ? EXAMPLES : EXAMPLES - 1);
        assert_int_equal(s.timed, s.examples - before);
        before = s.examples;
        for (int i = 0; i < 2; i++) rf_callback_destroy(&c[i]);
        line_close(&l);
    }
    scratch_remove(folder);
}

/* ---- metrics beside losses of logits ---- */

typedef enum ending { LOGITS, PROBABILITIES } ending;

/* Takes logits, which the input is, or their probabilities: values of all metrics of probabilities that a loss may
 * have. */
static void evaluate(rf_strategy *strategy, bool binary, ending end, bool from_logits, double *values, uint32_t *count)
{
    enum { ROWS = 4 };
    static const rf_metric_kind kinds[2][4] = {
        { RF_METRIC_PERPLEXITY, RF_METRIC_PRECISION, RF_METRIC_AUC_PR, RF_METRIC_SPARSE_CATEGORICAL_ACCURACY },
        { RF_METRIC_BINARY_ACCURACY, RF_METRIC_RECALL, RF_METRIC_AUC_ROC, RF_METRIC_F1 }
    };
    float x[2 * ROWS] = { 0.3f, 0.2f, 0.4f, -0.1f, 2, 1.7f, -2, -2.5f }, y[] = { 1, 1, 1, 0 };
    int32_t classes[] = { 0, 1, 0, 0 };
    float hot[] = { 1, 0, 0, 1, 1, 0, 1, 0 };
    const int64_t columns = binary ? 1 : 2;
    /* Metrics of elements take one-hot labels, perplexity and the accuracy class numbers. */
    for (int sparse = 0; sparse < (binary ? 1 : 2); sparse++) {
        const rf_array arrays[] = { array_f32(RF_SHAPE(ROWS, columns), x), binary ? array_f32(RF_SHAPE(ROWS, 1), y)
                                                                           : sparse
                                                                               ? array_i32(RF_SHAPE(ROWS), classes)
                                                                               : array_f32(RF_SHAPE(ROWS, 2), hot) };
        rf_dataset *examples, *data;
        OK(rf_dataset_from_arrays(&(rf_dataset_arrays_params){ .arrays = arrays, .num_arrays = 2 }, &examples));
        OK(rf_dataset_batch(examples, ROWS, RF_REMAINDER_KEEP, &data));
        const rf_activation activation = binary ? RF_ACTIVATION_SIGMOID : RF_ACTIVATION_SOFTMAX;
        rf_layer *layer;
        OK(rf_layer_activation(end == PROBABILITIES ? activation : RF_ACTIVATION_LINEAR, &layer));
        rf_model *model;
        const rf_shape input = RF_SHAPE(columns);
        OK(rf_model_create_sequential(strategy, &layer, 1, &input, &model));
        rf_optimizer *optimizer;
        OK(rf_optimizer_create(strategy, NULL, &optimizer));
        const rf_loss loss = { .kind = binary   ? RF_LOSS_BINARY_CROSSENTROPY
                                       : sparse ? RF_LOSS_SPARSE_CATEGORICAL_CROSSENTROPY
                                                : RF_LOSS_CATEGORICAL_CROSSENTROPY,
                               .from_logits = from_logits };
        rf_output_metric metrics[4] = { { .output = 0 } };
        uint32_t n = 0;
        for (int i = 0; i < 4; i++) {
            const bool of_classes = !binary && (i == 0 || i == 3);
            if (binary || of_classes == (sparse == 1)) metrics[n++].metric.kind = kinds[binary][i];
        }
        OK(rf_model_compile(
            model, &(rf_compile_params){
                       .optimizer = optimizer, .loss = loss, .output_metrics = metrics, .num_output_metrics = n }));
        rf_logs logs;
        OK(rf_model_evaluate(model, data, &logs));
        for (uint32_t i = 0; i < logs.count; i++) values[(*count)++] = logs.value[i];
        rf_model_destroy(&model);
        rf_optimizer_destroy(&optimizer);
        rf_dataset_destroy(&examples);
        rf_dataset_destroy(&data);
    }
}

TEST(metrics_of_logits)
{
    rf_strategy *strategy = open_devices("llvmpipe");
    if (!strategy) SKIP("not installed: llvmpipe");
    for (int binary = 0; binary < 2; binary++) {
        double want[8], got[8];
        uint32_t num_want = 0;
        evaluate(strategy, binary, PROBABILITIES, false, want, &num_want);
        if (binary) assert_near(want[1], 1, 0, 0, "all four are right");
        for (int end = LOGITS; end <= PROBABILITIES; end++) { /* also where logits are meant by mistake */
            uint32_t num_got = 0;
            evaluate(strategy, binary, (ending)end, true, got, &num_got);
            assert_int_equal(num_got, num_want);
            for (uint32_t i = 0; i < num_want; i++) assert_near(got[i], want[i], 1e-6, 1e-6, "a value beside logits");
        }
    }
    rf_strategy_destroy(&strategy);
}

TESTS(fits, NULL, NULL)
