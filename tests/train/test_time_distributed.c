/* SPDX-License-Identifier: Apache-2.0 */
/* Layers that are applied to each step: sixteen steps against PyTorch (make_time_distributed_trajectory.py), replicas,
 * random numbers and statistics of the batch, masks, files, and mistakes. */
#include <ringfire/interchange.h>

#include "test_folder.h"
#include "tests/room.h"
#include "trajectory.h"

enum { STEPS = 3 };

static rf_layer *each_step(rf_layer *inner, const char *name)
{
    rf_layer *layer;
    OK(rf_layer_time_distributed(inner, name, &layer));
    return layer;
}

static rf_model *make_model(rf_strategy *strategy)
{
    enum { LAYERS = 7 };
    rf_layer *l[LAYERS];
    rf_model *model;
    OK(rf_layer_conv2d(
        &(rf_conv2d_layer_params){ .filters = 4, .kernel_size = { 3, 2 }, .activation = RF_ACTIVATION_RELU }, &l[0]));
    OK(rf_layer_group_norm(&(rf_group_norm_params){ .groups = 2 }, &l[1]));
    OK(rf_layer_flatten(&l[2]));
    OK(rf_layer_dense(&(rf_dense_params){ .units = 6, .activation = RF_ACTIVATION_TANH }, &l[3]));
    OK(rf_layer_dropout(0, 1, &l[4]));
    for (int i = 0; i < 5; i++) l[i] = each_step(l[i], i == 1 ? "norm" : NULL);
    OK(rf_layer_global_avg_pool1d(&l[5]));
    OK(rf_layer_dense(&(rf_dense_params){ .units = 4 }, &l[6]));
    OK(rf_model_create_sequential(strategy, l, LAYERS, &RF_SHAPE(STEPS, 4, 5, 2), &model));
    return model;
}

/* ---- steps ---- */

static void train(rf_strategy *strategy, double *losses)
{
    rf_model *model = make_model(strategy);
    const rf_optimizer_params adam = { .kind = RF_OPTIMIZER_ADAM };
    trajectory_train_classifier(&trajectory_reference, strategy, model, &adam, TRAJECTORY_MAX_STEPS, losses);
    rf_model_destroy(&model);
}

static void follow(rf_strategy *strategy)
{
    trajectory_keep(strategy, train);
}
ON_ONE(follow)

static void compare(rf_strategy *strategy)
{
    trajectory_compare(strategy, train);
}
ON_TWO(compare)

/* ---- what depends on the batch ---- */

enum { N = 10, C = 4, COUNT = N * STEPS * C };

/* Runs a layer on x [N, STEPS, C]; `layer` is taken over. */
static void run_layer(rf_strategy *strategy, rf_layer *layer, float *y)
{
    float x[COUNT];
    rf_model *model;
    rf_function *f;
    rf_per_replica *result;
    rf_array is;
    fill_noise(x, COUNT, 3);
    for (int i = 0; i < COUNT; i++) x[i] += 2;
    OK(rf_model_create_sequential(strategy, &layer, 1, &RF_SHAPE(STEPS, C), &model));
    OK(rf_function_create(
        strategy, &(rf_function_params){ .step = call_for_training, .user = model, .num_outputs = 1, .training = true },
        &f));
    const rf_element batch = { .num_components = 1, .component = { array_f32(RF_SHAPE(N, STEPS, C), x) } };
    OK(rf_strategy_run(strategy, f, &batch, &result));
    OK(rf_strategy_gather(strategy, result, &is));
    assert_true(rf_shape_equal(is.shape, batch.component[0].shape));
    memcpy(y, is.data, COUNT * sizeof(*y));
    rf_array_free(&is);
    rf_function_destroy(&f);
    rf_model_destroy(&model);
}

/* By itself and for each step: the same bits, or numbers. */
static void check_equal(rf_strategy *strategy, rf_layer *plain, rf_layer *inner, double tolerance)
{
    float expected[COUNT], y[COUNT];
    run_layer(strategy, plain, expected);
    run_layer(strategy, each_step(inner, NULL), y);
    for (int i = 0; i < COUNT; i++) assert_near(y[i], expected[i], tolerance, tolerance, "y");
}

/* Places in the batch and its size count examples, not steps. */
static void depends_on_the_batch(rf_strategy *strategy)
{
    const rf_batch_norm_params synchronized = { .synchronized = true };
    rf_layer *plain, *inner;
    OK(rf_layer_dropout(0.5f, 7, &plain));
    OK(rf_layer_dropout(0.5f, 7, &inner));
    check_equal(strategy, plain, inner, 0);
    OK(rf_layer_gaussian_noise(0.5f, 7, &plain));
    OK(rf_layer_gaussian_noise(0.5f, 7, &inner));
    check_equal(strategy, plain, inner, 0);
    OK(rf_layer_batch_norm(&synchronized, &plain));
    OK(rf_layer_batch_norm(&synchronized, &inner));
    check_equal(strategy, plain, inner, 1e-5);
}
ON_ONE(depends_on_the_batch)
ON_TWO(depends_on_the_batch)

/* ---- masks ---- */

enum { OUTER = 2, INNER = 3, UNITS = 2 };

typedef struct masked {
    rf_model *model;
    rf_layer *recurrent, *dense;
} masked;

static rf_result mask_step(rf_trace *t, const rf_tensor *in, rf_tensor *out, void *user)
{
    const masked *m = user;
    const rf_layer_apply_params params = { .in = in, .num_in = 1, .mask = in[1] };
    (void)rf_layer_apply(t, m->model, m->recurrent, &params, &out[0], 1);
    const rf_layer_apply_params next = { .in = &out[0], .num_in = 1, .mask = in[2] }; /* a dense layer ignores it */
    (void)rf_layer_apply(t, m->model, m->dense, &next, &out[1], 1);
    return rf_trace_status(t);
}

static rf_tensor never_called(rf_trace *t, rf_model *model, rf_tensor x, rf_mode mode, void *user)
{
    (void)model;
    (void)mode;
    (void)user;
    (void)rf_trace_fail(t, RF_ERROR_INVALID_ARGUMENT, "not to be called");
    return x;
}

/* Everything after the first step of each inner sequence is padding, which changes nothing. */
static void passes_masks_on(rf_strategy *strategy)
{
    float x[N * OUTER * INNER * C], mask[N * OUTER * INNER], outer[N * OUTER];
    rf_array y[2], again;
    rf_per_replica *results[2];
    rf_function *f;
    masked m;
    fill_noise(x, N * OUTER * INNER * C, 3);
    for (int i = 0; i < N * OUTER * INNER; i++) mask[i] = i % INNER == 0 ? 1.0f : 0.0f;
    for (int i = 0; i < N * OUTER; i++) outer[i] = 1;
    OK(rf_layer_rnn(&(rf_rnn_layer_params){ .kind = RF_RNN_LSTM, .units = UNITS }, &m.recurrent));
    OK(rf_layer_dense(&(rf_dense_params){ .units = 1 }, &m.dense));
    m.recurrent = each_step(m.recurrent, "recurrent");
    m.dense = each_step(m.dense, "dense");
    OK(rf_model_create_custom(strategy, never_called, NULL, &m.model));
    OK(rf_model_add_layer(m.model, m.recurrent));
    OK(rf_model_add_layer(m.model, m.dense));
    OK(rf_function_create(strategy, &(rf_function_params){ .step = mask_step, .user = &m, .num_outputs = 2 }, &f));
    const rf_element batch = { .num_components = 3,
                               .component = { array_f32(RF_SHAPE(N, OUTER, INNER, C), x),
                                              array_f32(RF_SHAPE(N, OUTER, INNER), mask),
                                              array_f32(RF_SHAPE(N, OUTER), outer) } };
    OK(rf_strategy_run(strategy, f, &batch, results));
    for (int k = 0; k < 2; k++) OK(rf_strategy_gather(strategy, results[k], &y[k]));
    assert_true(rf_shape_equal(y[0].shape, RF_SHAPE(N, OUTER, UNITS)));
    assert_true(rf_shape_equal(y[1].shape, RF_SHAPE(N, OUTER, 1)));
    for (int i = 0; i < N * OUTER * INNER * C; i++)
        if (i / C % INNER > 0) x[i] = 9;
    OK(rf_strategy_run(strategy, f, &batch, results));
    OK(rf_strategy_gather(strategy, results[0], &again));
    assert_memory_equal(again.data, y[0].data, N * OUTER * UNITS * sizeof(float));
    rf_array_free(&again);
    for (int i = 0; i < N * OUTER * INNER; i++) mask[i] = 1;
    OK(rf_strategy_run(strategy, f, &batch, results));
    OK(rf_strategy_gather(strategy, results[0], &again));
    assert_memory_not_equal(again.data, y[0].data, N * OUTER * UNITS * sizeof(float));
    rf_array_free(&again);
    for (int k = 0; k < 2; k++) rf_array_free(&y[k]);
    rf_function_destroy(&f);
    rf_model_destroy(&m.model);
}
ON_TWO(passes_masks_on)

/* ---- files ---- */

static void predict(rf_model *model, float *y)
{
    const rf_array x = trajectory_reference.batches[0].component[0];
    rf_dataset *slices, *data;
    rf_array is;
    OK(rf_dataset_from_arrays(&(rf_dataset_arrays_params){ .arrays = &x, .num_arrays = 1 }, &slices));
    OK(rf_dataset_batch(slices, 10, RF_REMAINDER_KEEP, &data));
    OK(rf_model_predict(model, data, &is));
    memcpy(y, is.data, 40 * sizeof(*y));
    rf_array_free(&is);
    rf_dataset_destroy(&data);
    rf_dataset_destroy(&slices);
}

static void lasts(rf_strategy *strategy)
{
    rf_model *model = make_model(strategy), *loaded;
    rf_inference *inference;
    rf_array y = { 0 };
    float expected[40], got[40];
    char *summary;
    trajectory_assign(&trajectory_reference, model);
    predict(model, expected);
    OK(rf_model_summary(model, &summary));
    assert_non_null(strstr(summary, "time_distributed_3 (TimeDistributed)"));
    assert_non_null(strstr(summary, "[n,3,2,4,4]"));
    rf_string_free(summary);
    OK(rf_model_save(model, in_folder("model"), NULL));
    OK(rf_model_load(strategy, in_folder("model"), &loaded));
    predict(loaded, got);
    assert_memory_equal(got, expected, sizeof(got));
    rf_model_destroy(&loaded);
    OK(rf_model_export(model, in_folder("inference"), NULL));
    OK(rf_inference_load(in_folder("inference"), &(rf_inference_params){ .strategy = strategy }, &inference));
    OK(rf_inference_run(inference, &trajectory_reference.batches[0].component[0], &y));
    for (int i = 0; i < 40; i++) assert_near(((const float *)y.data)[i], expected[i], 1e-5, 1e-5, "inference");
    rf_array_free(&y);
    rf_inference_destroy(&inference);
    OK(rf_model_export_onnx(model, in_folder("model.onnx")));
    rf_model_destroy(&model);
}
ON_TWO(lasts)

/* A sequential model that begins with an embedding for each step takes indices, also once it is loaded. */
static void takes_indices(rf_strategy *strategy)
{
    rf_layer *l[2];
    rf_model *model, *loaded;
    OK(rf_layer_embedding(&(rf_embedding_params){ .input_dim = 5, .output_dim = 3 }, &l[0]));
    l[0] = each_step(l[0], "words");
    OK(rf_layer_dense(&(rf_dense_params){ .units = 2 }, &l[1]));
    l[1] = each_step(l[1], NULL);
    OK(rf_model_create_sequential(strategy, l, 1, &RF_SHAPE(STEPS, 4), &model));
    rf_layer_destroy(&l[1]); /* that no model has: with the one within it */
    assert_string_equal(rf_variable_name(rf_model_variables(model).items[0]), "words/embeddings");
    OK(rf_model_save(model, in_folder("model"), NULL));
    OK(rf_model_load(strategy, in_folder("model"), &loaded));
    rf_model_destroy(&loaded);
    rf_model_destroy(&model);
}
ON_ONE(takes_indices)

/* ---- an interrupted training ---- */

typedef struct training {
    rf_model *model;
    rf_optimizer *optimizer;
    rf_function *step;
    rf_checkpoint *checkpoint; /* of all of it */
} training;

static rf_result normalized_step(rf_trace *t, const rf_tensor *in, rf_tensor *out, void *user)
{
    const training *tr = user;
    const rf_tensor y = rf_model_call(t, tr->model, in[0], RF_TRAINING);
    out[0] =
        rf_compute_average_loss(t, rf_reduce_sum(t, rf_square(t, y), (const int32_t[]){ 1, 2 }, 2, RF_DROP_DIMS), NULL);
    return rf_optimizer_minimize(t, tr->optimizer, out[0], rf_model_variables(tr->model));
}

static void open_training(rf_strategy *strategy, training *tr)
{
    rf_layer *l[3];
    const rf_optimizer_params adam = { .kind = RF_OPTIMIZER_ADAM };
    OK(rf_layer_dense(&(rf_dense_params){ .units = 3, .kernel_initializer.seed = 1 }, &l[0]));
    OK(rf_layer_batch_norm(&(rf_batch_norm_params){ .virtual_batch_size = 4 }, &l[1]));
    OK(rf_layer_dropout(0.25f, 0, &l[2]));
    for (int i = 0; i < 3; i++) l[i] = each_step(l[i], NULL);
    OK(rf_model_create_sequential(strategy, l, 3, &RF_SHAPE(STEPS, C), &tr->model));
    OK(rf_optimizer_create(strategy, &adam, &tr->optimizer));
    OK(rf_function_create(
        strategy, &(rf_function_params){ .step = normalized_step, .user = tr, .num_outputs = 1, .training = true },
        &tr->step));
    OK(rf_checkpoint_create(strategy, &tr->checkpoint));
    OK(rf_checkpoint_add_model(tr->checkpoint, "model", tr->model));
    OK(rf_checkpoint_add_optimizer(tr->checkpoint, "optimizer", tr->optimizer));
    OK(rf_checkpoint_add_function(tr->checkpoint, "step", tr->step));
}

static void close_training(training *tr)
{
    rf_checkpoint_destroy(&tr->checkpoint);
    rf_function_destroy(&tr->step);
    rf_optimizer_destroy(&tr->optimizer);
    rf_model_destroy(&tr->model);
}

static void run_steps(rf_strategy *strategy, training *tr, uint32_t first, uint32_t last)
{
    float x[COUNT], loss;
    for (uint32_t i = first; i < last; i++) {
        fill_noise(x, COUNT, i);
        const rf_element batch = { .num_components = 1, .component = { array_f32(RF_SHAPE(N, STEPS, C), x) } };
        run_once(strategy, tr->step, &batch, &loss, 1);
    }
}

/* Continued from the middle it has the same bits. */
static void resumes(rf_strategy *strategy)
{
    training whole, resumed;
    open_training(strategy, &whole);
    run_steps(strategy, &whole, 0, 3);
    OK(rf_checkpoint_save(whole.checkpoint, in_folder("checkpoint"), NULL));
    run_steps(strategy, &whole, 3, 6);
    open_training(strategy, &resumed);
    run_steps(strategy, &resumed, 9, 10); /* moves what is restored */
    OK(rf_checkpoint_restore(resumed.checkpoint, in_folder("checkpoint"), NULL));
    run_steps(strategy, &resumed, 3, 6);
    const rf_variable_list lists[2][2] = { { rf_model_variables(whole.model), rf_model_state_variables(whole.model) },
                                           { rf_model_variables(resumed.model),
                                             rf_model_state_variables(resumed.model) } };
    assert_int_equal(lists[0][0].count, 4);
    assert_int_equal(lists[0][1].count, 2);
    for (int k = 0; k < 2; k++)
        for (uint32_t i = 0; i < lists[0][k].count; i++) {
            float a[16] = { 0 }, b[16] = { 0 };
            OK(rf_variable_read(lists[0][k].items[i], a));
            OK(rf_variable_read(lists[1][k].items[i], b));
            assert_memory_equal(a, b, sizeof(a));
        }
    close_training(&resumed);
    close_training(&whole);
}
ON_TWO(resumes)

/* ---- mistakes ---- */

static rf_tensor identity(rf_trace *t, rf_tensor x, void *user)
{
    (void)t;
    (void)user;
    return x;
}

static void refuses(rf_strategy *strategy)
{
    rf_layer *l, *deep;
    rf_model *model;
    FAILS(rf_layer_time_distributed(NULL, NULL, &l), RF_ERROR_INVALID_ARGUMENT,
          "rf_layer_time_distributed: layer is NULL");
    assert_null(l);
    OK(rf_layer_add(&l));
    FAILS(rf_layer_time_distributed(l, NULL, &deep), RF_ERROR_INVALID_ARGUMENT,
          "layer is of type Add, which takes 2 inputs or more");
    OK(rf_layer_flatten(&l));
    FAILS(rf_layer_time_distributed(l, NULL, NULL), RF_ERROR_INVALID_ARGUMENT, "out is NULL");
    OK(rf_layer_flatten(&deep));
    for (int i = 0; i < 4; i++) deep = each_step(deep, NULL);
    FAILS(rf_layer_time_distributed(deep, NULL, &l), RF_ERROR_INVALID_ARGUMENT, "5 layers within each other");
    OK(rf_layer_dense(&(rf_dense_params){ .units = 2 }, &l));
    l = each_step(l, "mine");
    OK(rf_model_create_sequential(strategy, &l, 1, NULL, &model));
    FAILS(rf_layer_time_distributed(l, NULL, &deep), RF_ERROR_INVALID_ARGUMENT, "layer 'mine' belongs to a model");
    FAILS(rf_model_build(model, RF_SHAPE(4)), RF_ERROR_INVALID_ARGUMENT,
          "layer 'mine' applies a layer to the steps of [n, steps, ...], got [");
    OK(rf_model_build(model, RF_SHAPE(3, 4)));
    assert_int_equal(rf_model_num_params(model), 10);
    rf_model_destroy(&model);
    OK(rf_layer_lambda(identity, NULL, &l));
    l = each_step(l, "code");
    OK(rf_model_create_sequential(strategy, &l, 1, &RF_SHAPE(3, 4), &model));
    FAILS(rf_model_save(model, "/nonexistent/model", NULL), RF_ERROR_UNSUPPORTED, "layer 'code' (TimeDistributed) is");
    rf_model_destroy(&model);
}
ON_ONE(refuses)

TEST_PROGRAM(time_distributed)
{
    trajectory_file = FIXTURES "/time_distributed.traj";
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(follow_on_one),
        cmocka_unit_test(compare_on_two),
        cmocka_unit_test(depends_on_the_batch_on_one),
        cmocka_unit_test(depends_on_the_batch_on_two),
        cmocka_unit_test(passes_masks_on_on_two),
        cmocka_unit_test_setup_teardown(lasts_on_two, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(resumes_on_two, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(takes_indices_on_one, make_folder, remove_folder),
        cmocka_unit_test(refuses_on_one),
    };
    return cmocka_run_group_tests(tests, trajectory_open, trajectory_close);
}
