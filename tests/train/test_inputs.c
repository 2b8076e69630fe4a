/* SPDX-License-Identifier: Apache-2.0 */
/* Models with several inputs and outputs: against PyTorch (make_two_towers_trajectory.py), replicas against one device,
 * fit, evaluate, predict and files, and what each mistake is told. */
#include <ringfire/interchange.h>

#include "test_folder.h"
#include "tests/room.h"
#include "trajectory.h"

enum { USERS = 13, ITEMS = 17, WIDTH = 6, HIDDEN = 8, GENRES = 3, EXAMPLES = 70, BATCH = 20 };
static const float rating_weight = 0.25f;
static const char *const input_names[] = { "user", "item" }, *const output_names[] = { "rating", "genre" };

typedef enum layer_name { USER, ITEM, JOINED, RATING, GENRE, NUM_LAYERS } layer_name;

/* Users and items through embeddings; their product, beside a layer of both, leads to a rating and to a class. */
typedef struct towers {
    rf_model *model;
    rf_layer *layers[NUM_LAYERS];
    rf_optimizer *optimizer;
    uint32_t forget; /* an output that the function leaves alone, and 1 */
} towers;

static rf_result apply_towers(rf_trace *t, rf_model *model, const rf_tensor *in, rf_tensor *out, rf_mode mode,
                              void *user)
{
    const towers *w = user;
    const rf_tensor u = rf_layer_call(t, model, w->layers[USER], in[0], mode);
    const rf_tensor i = rf_layer_call(t, model, w->layers[ITEM], in[1], mode);
    const rf_tensor hidden =
        rf_layer_call(t, model, w->layers[JOINED], rf_concat(t, (rf_tensor[]){ u, i }, 2, 1), mode);
    const rf_tensor joined = rf_concat(t, (rf_tensor[]){ rf_multiply(t, u, i), hidden }, 2, 1);
    out[0] = rf_layer_call(t, model, w->layers[RATING], joined, mode);
    out[1] = rf_layer_call(t, model, w->layers[GENRE], joined, mode);
    if (w->forget) out[w->forget - 1] = (rf_tensor){ 0 };
    return rf_trace_status(t);
}

static void add_dense(towers *w, layer_name which, const char *name, int32_t units, rf_activation activation)
{
    OK(rf_layer_dense(&(rf_dense_params){ .units = units, .name = name, .activation = activation }, &w->layers[which]));
}

static void open_towers(rf_strategy *strategy, towers *w)
{
    *w = (towers){ 0 };
    OK(rf_model_create(strategy,
                       &(rf_model_params){ .apply = apply_towers,
                                           .user = w,
                                           .num_inputs = 2,
                                           .num_outputs = 2,
                                           .input_names = input_names,
                                           .output_names = output_names },
                       &w->model));
    OK(rf_layer_embedding(&(rf_embedding_params){ .input_dim = USERS, .output_dim = WIDTH, .name = "user" },
                          &w->layers[USER]));
    OK(rf_layer_embedding(&(rf_embedding_params){ .input_dim = ITEMS, .output_dim = WIDTH, .name = "item" },
                          &w->layers[ITEM]));
    add_dense(w, JOINED, "hidden", HIDDEN, RF_ACTIVATION_TANH);
    add_dense(w, RATING, "rating", 1, RF_ACTIVATION_LINEAR);
    add_dense(w, GENRE, "genre", GENRES, RF_ACTIVATION_LINEAR);
    for (uint32_t i = 0; i < NUM_LAYERS; i++) OK(rf_model_add_layer(w->model, w->layers[i]));
    OK(rf_optimizer_create(strategy,
                           &(rf_optimizer_params){ .kind = RF_OPTIMIZER_ADAM, .learning_rate = 1e-3, .epsilon = 1e-7 },
                           &w->optimizer));
}

static void close_towers(towers *w)
{
    rf_model_destroy(&w->model);
    rf_optimizer_destroy(&w->optimizer);
}

static const rf_element_spec spec = { .num_components = 2,
                                      .dtype = { RF_I32, RF_I32 },
                                      .shape = { { 1, { BATCH } }, { 1, { BATCH } } } };

/* ---- against PyTorch ---- */

static rf_result train_step(rf_trace *t, const rf_tensor *in, rf_tensor *out, void *user)
{
    const towers *w = user;
    rf_tensor y[2];
    (void)rf_model_apply(t, w->model, in, 2, RF_TRAINING, y, 2);
    const rf_tensor rated = rf_mean_squared_error(t, rf_reshape(t, in[2], RF_SHAPE(-1, 1)), y[0]);
    const rf_tensor classified = rf_sparse_categorical_crossentropy(t, in[3], y[1], RF_LOGITS);
    out[0] =
        rf_compute_average_loss(t, rf_add(t, rf_multiply(t, rated, rf_constant(t, rating_weight)), classified), NULL);
    return rf_optimizer_minimize(t, w->optimizer, out[0], rf_model_variables(w->model));
}

static void train(rf_strategy *strategy, double *losses)
{
    towers w;
    rf_function *step;
    open_towers(strategy, &w);
    OK(rf_model_build_inputs(w.model, &spec));
    assert_int_equal(rf_model_num_params(w.model), 344);
    OK(rf_function_create(
        strategy, &(rf_function_params){ .step = train_step, .user = &w, .num_outputs = 1, .training = true }, &step));
    trajectory_assign(&trajectory_reference, w.model);
    trajectory_follow(&trajectory_reference, strategy, w.model, step, TRAJECTORY_MAX_STEPS, losses);
    rf_function_destroy(&step);
    close_towers(&w);
}

static void follow(rf_strategy *strategy)
{
    trajectory_keep(strategy, train);
}
TEST_ON_ONE(follow)

static void compare(rf_strategy *strategy)
{
    trajectory_compare(strategy, train);
}
TEST_ON_TWO(compare)

/* ---- fit, evaluate, predict, files ---- */

typedef struct table {
    int32_t user[EXAMPLES], item[EXAMPLES], genre[EXAMPLES];
    float rating[EXAMPLES], weight[EXAMPLES];
} table;

static table examples;

/* Components by number: user, item, rating, genre, weight. */
static rf_dataset *make_data(const uint32_t *components, uint32_t count)
{
    rf_array all[] = { array_i32(RF_SHAPE(EXAMPLES), examples.user), array_i32(RF_SHAPE(EXAMPLES), examples.item),
                       array_f32(RF_SHAPE(EXAMPLES), examples.rating), array_i32(RF_SHAPE(EXAMPLES), examples.genre),
                       array_f32(RF_SHAPE(EXAMPLES), examples.weight) };
    rf_array arrays[RF_MAX_COMPONENTS];
    rf_dataset *slices, *data;
    for (int32_t i = 0; i < EXAMPLES; i++) {
        examples.user[i] = i * 5 % USERS;
        examples.item[i] = i * 3 % ITEMS;
        examples.genre[i] = examples.item[i] % GENRES;
        examples.rating[i] = (float)((examples.user[i] * 7 + examples.item[i] * 3) % 5);
        examples.weight[i] = (float)(i % 3);
    }
    for (uint32_t i = 0; i < count; i++) arrays[i] = all[components[i]];
    OK(rf_dataset_from_arrays(&(rf_dataset_arrays_params){ .arrays = arrays, .num_arrays = count }, &slices));
    OK(rf_dataset_batch(slices, BATCH, RF_REMAINDER_KEEP, &data));
    rf_dataset_destroy(&slices);
    return data;
}
#define DATA(...)                                                                                                      \
    make_data((const uint32_t[]){ __VA_ARGS__ }, sizeof((const uint32_t[]){ __VA_ARGS__ }) / sizeof(uint32_t))

static const rf_loss losses_of_both[] = { { .kind = RF_LOSS_MEAN_SQUARED_ERROR },
                                          { .kind = RF_LOSS_SPARSE_CATEGORICAL_CROSSENTROPY, .from_logits = true } };
static const double weights_of_both[] = { 0.25, 1 };
static const rf_output_metric metrics_of_both[] = {
    { .output = 0, .metric = { .kind = RF_METRIC_MEAN_ABSOLUTE_ERROR } },
    { .output = 1, .metric = { .kind = RF_METRIC_SPARSE_CATEGORICAL_ACCURACY } },
};

static rf_compile_params compiled(const towers *w)
{
    return (rf_compile_params){ .optimizer = w->optimizer,
                                .losses = losses_of_both,
                                .num_losses = 2,
                                .loss_weights = weights_of_both,
                                .output_metrics = metrics_of_both,
                                .num_output_metrics = 2 };
}

static double logged(const rf_logs *logs, const char *name)
{
    double value = 0;
    if (!rf_logs_get(logs, name, &value)) fail_msg("no value '%s' in the logs", name);
    return value;
}

/* Checks the logs by the predictions. */
static void check_logs(const rf_logs *logs, const rf_array *outputs, bool weighted)
{
    double squares = 0, absolute = 0, entropy = 0, hits = 0;
    const float *rated = outputs[0].data, *logits = outputs[1].data;
    for (uint32_t i = 0; i < EXAMPLES; i++, logits += GENRES) {
        const double weight = weighted ? (double)examples.weight[i] : 1, d = (double)(rated[i] - examples.rating[i]);
        double sum = 0;
        int32_t best = 0;
        for (int32_t k = 0; k < GENRES; k++) {
            sum += exp((double)logits[k]);
            if (logits[k] > logits[best]) best = k;
        }
        squares += weight * d * d;
        absolute += fabs(d);
        entropy += weight * (log(sum) - (double)logits[examples.genre[i]]);
        hits += best == examples.genre[i];
    }
    assert_near(logged(logs, "rating_loss"), squares / EXAMPLES, 1e-5, 0, "rating_loss");
    assert_near(logged(logs, "genre_loss"), entropy / EXAMPLES, 1e-5, 0, "genre_loss");
    assert_near(logged(logs, "loss"), (0.25 * squares + entropy) / EXAMPLES, 1e-5, 0, "loss");
    assert_near(logged(logs, "rating_mean_absolute_error"), absolute / EXAMPLES, 1e-5, 0, "mean_absolute_error");
    assert_near(logged(logs, "genre_accuracy"), hits / EXAMPLES, 1e-6, 0, "accuracy");
}

static void fit_both(rf_strategy *strategy)
{
    towers w;
    open_towers(strategy, &w);
    rf_dataset *data = DATA(0, 1, 2, 3), *weighted = DATA(0, 1, 2, 3, 4);
    const rf_compile_params params = compiled(&w);
    OK(rf_model_compile(w.model, &params));
    rf_history history;
    OK(rf_optimizer_set_learning_rate(w.optimizer, 0.02));
    OK(rf_model_fit(w.model, &(rf_fit_params){ .data = weighted, .validation_data = data, .epochs = 4 }, &history));
    static const char *const names[] = {
        "loss",         "rating_loss",     "genre_loss",     "rating_mean_absolute_error",     "genre_accuracy",
        "val_loss",     "val_rating_loss", "val_genre_loss", "val_rating_mean_absolute_error", "val_genre_accuracy",
        "learning_rate"
    };
    assert_int_equal(history.epochs[0].count, sizeof(names) / sizeof(names[0]));
    for (uint32_t i = 0; i < history.epochs[0].count; i++) assert_string_equal(history.epochs[0].name[i], names[i]);
    assert_true(logged(&history.epochs[3], "loss") < 0.9 * logged(&history.epochs[0], "loss"));
    rf_logs plain, heavy;
    rf_array outputs[2];
    OK(rf_model_evaluate(w.model, data, &plain));
    OK(rf_model_evaluate(w.model, weighted, &heavy));
    OK(rf_model_predict_many(w.model, data, outputs, 2));
    assert_int_equal(outputs[0].shape.dim[0], EXAMPLES);
    assert_int_equal(outputs[1].shape.dim[1], GENRES);
    check_logs(&plain, outputs, false);
    check_logs(&heavy, outputs, true);
    assert_near(logged(&history.epochs[3], "val_loss"), logged(&plain, "loss"), 1e-6, 0, "val_loss");
    for (uint32_t i = 0; i < 2; i++) rf_array_free(&outputs[i]);
    rf_history_free(&history);
    rf_dataset_destroy(&data);
    rf_dataset_destroy(&weighted);
    close_towers(&w);
}
TEST_ON_ONE(fit_both)
TEST_ON_TWO(fit_both)

static rf_result fail_later(void *user, rf_fit_state *state, const rf_logs *logs)
{
    (void)user;
    (void)logs;
    return state->epoch == 1 && state->batch == 2 ? RF_ERROR_CANCELLED : RF_OK;
}

/* Two epochs; with `fail` until the third batch of the second, where the backup of the second is kept. */
static rf_result fit_with_backup(rf_strategy *strategy, const char *directory, bool fail, rf_history *history)
{
    towers w;
    rf_callback *callbacks[2];
    open_towers(strategy, &w);
    rf_dataset *data = DATA(0, 1, 2, 3);
    const rf_compile_params params = compiled(&w);
    OK(rf_model_build_inputs(w.model, &spec));
    trajectory_assign(&trajectory_reference, w.model);
    OK(rf_model_compile(w.model, &params));
    OK(rf_callback_create(&(rf_callback_fns){ .on_batch_end = fail_later }, NULL, &callbacks[0]));
    OK(rf_callback_backup_and_restore(&(rf_backup_params){ .directory = directory, .save_every_batches = 1 },
                                      &callbacks[1]));
    const rf_result r = rf_model_fit(
        w.model,
        &(rf_fit_params){
            .data = data, .epochs = 2, .callbacks = fail ? callbacks : callbacks + 1, .num_callbacks = fail ? 2 : 1 },
        history);
    for (uint32_t i = 0; i < 2; i++) rf_callback_destroy(&callbacks[i]);
    rf_dataset_destroy(&data);
    close_towers(&w);
    return r;
}

/* The second epoch's values count the batches before the interruption. Names in a history go with its model. */
static void resume_both(rf_strategy *strategy)
{
    char broken[200], whole[200];
    rf_history interrupted, resumed, straight;
    snprintf(broken, sizeof(broken), "%s", in_folder("broken"));
    snprintf(whole, sizeof(whole), "%s", in_folder("whole"));
    assert_int_equal(fit_with_backup(strategy, broken, true, &interrupted), RF_ERROR_CANCELLED);
    OK(fit_with_backup(strategy, broken, false, &resumed));
    OK(fit_with_backup(strategy, whole, false, &straight));
    assert_int_equal(interrupted.num_epochs, 1);
    const rf_logs *is = &resumed.epochs[resumed.num_epochs - 1], *expected = &straight.epochs[1];
    assert_int_equal(is->count, expected->count);
    for (uint32_t i = 0; i < is->count; i++) assert_near(is->value[i], expected->value[i], 1e-6, 0, "value");
    rf_history_free(&interrupted);
    rf_history_free(&resumed);
    rf_history_free(&straight);
}
TEST_ON_ONE(resume_both)

static void run_exported(rf_strategy *strategy)
{
    towers w;
    open_towers(strategy, &w);
    rf_dataset *data = DATA(0, 1, 2, 3);
    rf_inference *net;
    rf_array predicted[2], outputs[2], signature;
    OK(rf_model_build_inputs(w.model, &spec));
    OK(rf_model_predict_many(w.model, data, predicted, 2));
    OK(rf_model_export(w.model, in_folder("towers.rfck"), NULL));
    OK(rf_model_export_onnx(w.model, in_folder("towers.onnx")));
    OK(rf_inference_load(in_folder("towers.rfck"), &(rf_inference_params){ .strategy = strategy }, &net));
    assert_int_equal(rf_inference_num_inputs(net), 2);
    assert_int_equal(rf_inference_num_outputs(net), 2);
    assert_string_equal(rf_inference_input(net, 1, &signature), "item");
    assert_int_equal(signature.dtype, RF_I32);
    assert_string_equal(rf_inference_output(net, 1, &signature), "genre");
    assert_int_equal(signature.shape.dim[0], -1);
    assert_int_equal(signature.shape.dim[1], GENRES);
    assert_null(rf_inference_output(net, 2, &signature));
    rf_array inputs[] = { array_i32(RF_SHAPE(EXAMPLES), examples.user), array_i32(RF_SHAPE(EXAMPLES), examples.item) };
    OK(rf_inference_run_many(net, inputs, 2, outputs, 2));
    for (uint32_t i = 0; i < 2; i++) {
        const float *is = outputs[i].data, *expected = predicted[i].data;
        assert_int_equal(rf_shape_count(outputs[i].shape), rf_shape_count(predicted[i].shape));
        for (int64_t k = 0; k < rf_shape_count(outputs[i].shape); k++)
            assert_near((double)is[k], (double)expected[k], 1e-5, 1e-6, output_names[i]);
        rf_array_free(&outputs[i]);
        rf_array_free(&predicted[i]);
    }
    inputs[1].shape.dim[0] = EXAMPLES - 1;
    FAILS(rf_inference_run_many(net, inputs, 2, outputs, 2), RF_ERROR_INVALID_ARGUMENT,
          "input 'item' has 69 rows, input 'user' has 70");
    inputs[1] = array_f32(RF_SHAPE(EXAMPLES), examples.rating);
    FAILS(rf_inference_run_many(net, inputs, 2, outputs, 2), RF_ERROR_INVALID_ARGUMENT,
          "input 'item' is f32 [70], not i32 [-1]");
    FAILS(rf_inference_run_many(net, inputs, 1, outputs, 2), RF_ERROR_INVALID_ARGUMENT,
          "num_inputs is 1 and num_outputs 2; the model has 2 and 2");
    FAILS(rf_inference_run(net, inputs, outputs), RF_ERROR_INVALID_ARGUMENT,
          "the model has 2 inputs and 2 outputs; use rf_inference_run_many()");
    rf_inference_destroy(&net);
    rf_dataset_destroy(&data);
    close_towers(&w);
}
TEST_ON_ONE(run_exported)

/* ---- mistakes ---- */

static void name_badly(rf_strategy *strategy)
{
    static const char *const twice[] = { "user", "user" }, *const odd[] = { "user", "item id" };
    rf_model *model;
    rf_model_params p = { .apply = apply_towers, .num_inputs = 2, .num_outputs = 2, .input_names = twice };
    FAILS(rf_model_create(strategy, &p, &model), RF_ERROR_INVALID_ARGUMENT,
          "input_names[1] 'user' is the name of another input or output");
    p.input_names = odd;
    FAILS(rf_model_create(strategy, &p, &model), RF_ERROR_INVALID_ARGUMENT, "input_names[1] 'item id' is not a name");
    p.num_inputs = RF_MAX_COMPONENTS + 1;
    FAILS(rf_model_create(strategy, &p, &model), RF_ERROR_INVALID_ARGUMENT, "num_inputs 9 is over 8");
    p = (rf_model_params){ .apply = apply_towers, .num_outputs = 2 };
    OK(rf_model_create(strategy, &p, &model));
    assert_string_equal(rf_model_input_name(model, 0), "input");
    assert_string_equal(rf_model_output_name(model, 1), "output_1");
    assert_null(rf_model_output_name(model, 2));
    rf_model_destroy(&model);
}
TEST_ON_ONE(name_badly)

static void expect_fit(const towers *w, rf_dataset *data, const char *message)
{
    FAILS(rf_model_fit(w->model, &(rf_fit_params){ .data = data }, NULL), RF_ERROR_INVALID_ARGUMENT, message);
    rf_dataset_destroy(&data);
}

static void give_badly(rf_strategy *strategy)
{
    towers w;
    open_towers(strategy, &w);
    rf_compile_params p = compiled(&w);
    OK(rf_model_compile(w.model, &p));
    expect_fit(&w, DATA(0, 1, 2),
               "elements of 3 components, not (user, item, label of rating, label of genre[, sample weight])");
    expect_fit(&w, DATA(0, 1, 3, 2), "component 3, the label of output 'genre', is f32 [20]");
    OK(rf_model_build_inputs(w.model, &spec));
    expect_fit(&w, DATA(0, 2, 2, 3), "component 1, input 'item', is f32 [20]; the model was built for i32 []");
    rf_dataset *data = DATA(0);
    rf_array outputs[2];
    FAILS(rf_model_predict_many(w.model, data, outputs, 2), RF_ERROR_INVALID_ARGUMENT,
          "elements of 1 components, not (user, item)");
    FAILS(rf_model_predict(w.model, data, outputs), RF_ERROR_INVALID_ARGUMENT, "use rf_model_predict_many()");
    FAILS(rf_model_build_for(w.model, RF_I32, RF_SHAPE(1)), RF_ERROR_INVALID_ARGUMENT, "use rf_model_build_inputs()");
    rf_dataset_destroy(&data);
    rf_element_spec other = spec;
    other.shape[1] = RF_SHAPE(BATCH, 3);
    FAILS(rf_model_build_inputs(w.model, &other), RF_ERROR_INVALID_ARGUMENT,
          "the model was built for [] of input 'item', not [3]");
    other.num_components = 1;
    FAILS(rf_model_build_inputs(w.model, &other), RF_ERROR_INVALID_ARGUMENT, "the model has 2 inputs (user, item)");
    const rf_loss rating_of_classes[] = { losses_of_both[0], losses_of_both[0] };
    p.losses = rating_of_classes;
    p.num_output_metrics = 0;
    OK(rf_model_compile(w.model, &p));
    expect_fit(
        &w, DATA(0, 1, 2, 3),
        "the label of output 'genre' is i32 [20], which mean_squared_error does not take with predictions [20,3]");
    w.forget = 2;
    OK(rf_model_compile(w.model, &p));
    expect_fit(&w, DATA(0, 1, 2, 3), "output 'genre' is the invalid tensor");
    close_towers(&w);
}
TEST_ON_ONE(give_badly)

static void compile_badly(rf_strategy *strategy)
{
    towers w;
    open_towers(strategy, &w);
    rf_compile_params p = { .optimizer = w.optimizer };
    FAILS(rf_model_compile(w.model, &p), RF_ERROR_INVALID_ARGUMENT, "the model has 2 outputs; give losses");
    p = compiled(&w);
    p.num_losses = 1;
    FAILS(rf_model_compile(w.model, &p), RF_ERROR_INVALID_ARGUMENT, "num_losses is 1; the model has 2 outputs");
    p = compiled(&w);
    p.loss.from_logits = true;
    FAILS(rf_model_compile(w.model, &p), RF_ERROR_INVALID_ARGUMENT, "loss and losses are both set");
    const double infinite[] = { 1, INFINITY };
    p = compiled(&w);
    p.loss_weights = infinite;
    FAILS(rf_model_compile(w.model, &p), RF_ERROR_INVALID_ARGUMENT, "loss_weights[1] is not finite");
    const rf_loss bad[] = { losses_of_both[0], { .kind = RF_LOSS_HUBER, .delta = -1 } };
    p = compiled(&w);
    p.losses = bad;
    FAILS(rf_model_compile(w.model, &p), RF_ERROR_INVALID_ARGUMENT, "losses[1], of output 'genre'");
    const rf_metric_kind kind = RF_METRIC_MEAN_ABSOLUTE_ERROR;
    p = compiled(&w);
    p.metrics = &kind;
    p.num_metrics = 1;
    FAILS(rf_model_compile(w.model, &p), RF_ERROR_INVALID_ARGUMENT, "use output_metrics");
    rf_output_metric metrics[5] = { { .output = 2 } };
    p = compiled(&w);
    p.output_metrics = metrics;
    metrics[0].metric.kind = kind;
    FAILS(rf_model_compile(w.model, &p), RF_ERROR_INVALID_ARGUMENT,
          "output_metrics[0] is of output 2; the model has 2 outputs");
    for (uint32_t i = 0; i < 5; i++) metrics[i] = metrics_of_both[0];
    FAILS(rf_model_compile(w.model, &p), RF_ERROR_INVALID_ARGUMENT,
          "two values are called 'rating_mean_absolute_error'");
    p.num_output_metrics = 5;
    FAILS(rf_model_compile(w.model, &p), RF_ERROR_INVALID_ARGUMENT, "2 losses of outputs and 5 metrics are over 6");
    close_towers(&w);
}
TEST_ON_ONE(compile_badly)

static rf_result call_badly(rf_trace *t, const rf_tensor *in, rf_tensor *out, void *user)
{
    const towers *w = user;
    rf_tensor y[2];
    if (w->forget == 9)
        out[0] = rf_model_call(t, w->model, in[0], RF_INFERENCE);
    else
        (void)rf_model_apply(t, w->model, in, 1, RF_INFERENCE, y, 2);
    return rf_trace_status(t);
}

static void apply_badly(rf_strategy *strategy)
{
    towers w;
    rf_function *step;
    open_towers(strategy, &w);
    rf_element batch = { .num_components = 1 };
    batch.component[0] = array_i32(RF_SHAPE(4), (int32_t[]){ 0, 1, 2, 3 });
    OK(rf_function_create(strategy, &(rf_function_params){ .step = call_badly, .user = &w, .num_outputs = 1 }, &step));
    FAILS(rf_strategy_run(strategy, step, &batch, NULL), RF_ERROR_INVALID_ARGUMENT,
          "num_in is 1 and num_out 2; the model has 2 inputs (user, item) and 2 outputs");
    w.forget = 9;
    FAILS(rf_strategy_run(strategy, step, &batch, NULL), RF_ERROR_INVALID_ARGUMENT,
          "the model has 2 inputs and 2 outputs; use rf_model_apply()");
    rf_function_destroy(&step);
    close_towers(&w);
}
TEST_ON_ONE(apply_badly)

static int open_all(void **state)
{
    return make_folder(state) || trajectory_open(state);
}

static int close_all(void **state)
{
    return remove_folder(state) || trajectory_close(state);
}

TEST_PROGRAM(inputs)
{
    trajectory_file = FIXTURES "/two_towers.traj";
    return room_tests_run(own_tests, open_all, close_all);
}
