/* SPDX-License-Identifier: Apache-2.0 */
/* Layers that normalise rows: twenty steps against PyTorch (make_norm_trajectory.py), replicas, files, the operations
 * against their definition, and mistakes. */
#include <ringfire/interchange.h>

#include "test_folder.h"
#include "trajectory.h"

enum { IN = 7, LAYERS = 9 };

static rf_model *make_model(rf_strategy *strategy)
{
    rf_layer *l[LAYERS];
    rf_model *model;
    OK(rf_layer_dense(&(rf_dense_params){ .units = 12 }, &l[0]));
    OK(rf_layer_reshape(RF_SHAPE(3, 4), &l[1]));
    OK(rf_layer_layer_norm(&(rf_layer_norm_params){ .epsilon = 1e-5, .no_scale = true }, &l[2]));
    OK(rf_layer_flatten(&l[3]));
    OK(rf_layer_layer_norm(NULL, &l[4]));
    OK(rf_layer_activation(RF_ACTIVATION_TANH, &l[5]));
    OK(rf_layer_dense(&(rf_dense_params){ .units = 6 }, &l[6]));
    OK(rf_layer_rms_norm(NULL, &l[7]));
    OK(rf_layer_dense(&(rf_dense_params){ .units = 4 }, &l[8]));
    OK(rf_model_create_sequential(strategy, l, LAYERS, &RF_SHAPE(IN), &model));
    return model;
}

typedef struct training {
    rf_model *model;
    rf_optimizer *optimizer;
} training;

static rf_result train_step(rf_trace *t, const rf_tensor *in, rf_tensor *out, void *user)
{
    const training *tr = user;
    const rf_tensor logits = rf_model_call(t, tr->model, in[0], RF_TRAINING);
    out[0] = rf_compute_average_loss(t, rf_sparse_categorical_crossentropy(t, in[1], logits, true), NULL);
    (void)rf_optimizer_minimize(t, tr->optimizer, out[0], rf_model_variables(tr->model));
    return rf_trace_status(t);
}

static void train(rf_strategy *strategy, double *losses)
{
    training tr = { .model = make_model(strategy) };
    rf_function *function;
    OK(rf_optimizer_create(strategy, &(rf_optimizer_params){ .kind = RF_OPTIMIZER_ADAM }, &tr.optimizer));
    OK(rf_function_create(strategy,
                          &(rf_function_params){ .step = train_step, .user = &tr, .num_outputs = 1, .training = true },
                          &function));
    trajectory_assign(&trajectory_reference, tr.model);
    trajectory_follow(&trajectory_reference, strategy, tr.model, function, TRAJECTORY_MAX_STEPS, losses);
    rf_function_destroy(&function);
    rf_optimizer_destroy(&tr.optimizer);
    rf_model_destroy(&tr.model);
}

static void follow(rf_strategy *strategy)
{
    trajectory_keep(strategy, train);
}
ON_LISTS(follow, _on_lavapipe, 0, 1, 1)

static void compare(rf_strategy *strategy)
{
    trajectory_compare(strategy, train);
}
ON_LISTS(compare, _two_drivers, 2, 1, 1)

/* ---- files ---- */

static void predict(rf_model *model, float *y)
{
    const rf_array x = trajectory_reference.batches[0].component[0];
    rf_dataset *slices, *data;
    rf_array is;
    OK(rf_dataset_from_arrays(&(rf_dataset_arrays_params){ .arrays = &x, .num_arrays = 1 }, &slices));
    OK(rf_dataset_batch(slices, 10, false, &data));
    OK(rf_model_predict(model, data, &is));
    assert_int_equal(rf_shape_count(is.shape), 40);
    memcpy(y, is.data, 40 * sizeof(*y));
    rf_array_free(&is);
    rf_dataset_destroy(&data);
    rf_dataset_destroy(&slices);
}

static void lasts(rf_strategy *strategy)
{
    rf_model *model = make_model(strategy), *loaded;
    float expected[40], got[40];
    char *summary;
    trajectory_assign(&trajectory_reference, model);
    predict(model, expected);
    OK(rf_model_summary(model, &summary));
    assert_non_null(strstr(summary, "LayerNormalization"));
    assert_non_null(strstr(summary, "RMSNormalization"));
    rf_string_free(summary);
    OK(rf_model_save(model, in_folder("model"), NULL));
    OK(rf_model_load(strategy, in_folder("model"), &loaded));
    predict(loaded, got);
    assert_memory_equal(got, expected, sizeof(got));
    rf_model_destroy(&loaded);

    rf_inference *inference;
    rf_array y = { 0 };
    OK(rf_model_export(model, in_folder("inference"), NULL));
    OK(rf_inference_load(in_folder("inference"), &(rf_inference_params){ .strategy = strategy }, &inference));
    OK(rf_inference_run(inference, &trajectory_reference.batches[0].component[0], &y));
    for (int i = 0; i < 40; i++) assert_near(((const float *)y.data)[i], expected[i], 1e-5, 1e-5, "inference");
    rf_array_free(&y);
    rf_inference_destroy(&inference);
    rf_model_destroy(&model);
}

/* ---- the operations ---- */

enum { N = 4, C = 5 };

/* Without vectors, and with an epsilon of zero, which is the default. */
static rf_result plain_step(rf_trace *t, const rf_tensor *in, rf_tensor *out, void *user)
{
    (void)user;
    const rf_tensor none = { 0 };
    out[0] = rf_layer_norm(t, in[0], none, none, 0);
    out[1] = rf_rms_norm(t, in[0], none, 0);
    return rf_trace_status(t);
}

static void definitions(rf_strategy *strategy)
{
    float x[N * C];
    rf_array y[2];
    rf_function *function;
    rf_per_replica *results[2];
    fill_noise(x, N * C, 3);
    for (int i = 0; i < N * C; i++) x[i] += 1000; /* far from zero: in a mean of squares the variance would drown */
    OK(rf_function_create(strategy, &(rf_function_params){ .step = plain_step, .num_outputs = 2 }, &function));
    const rf_element batch = { .num_components = 1, .component = { array_f32(RF_SHAPE(N, C), x) } };
    OK(rf_strategy_run(strategy, function, &batch, results));
    for (int k = 0; k < 2; k++) OK(rf_strategy_gather(strategy, results[k], &y[k]));
    const float *layer = y[0].data, *rms = y[1].data;
    for (int n = 0; n < N; n++) {
        const float *row = &x[n * C];
        double mean = 0, variance = 0, squares = 0;
        for (int c = 0; c < C; c++) mean += (double)row[c] / C;
        for (int c = 0; c < C; c++) {
            variance += ((double)row[c] - mean) * ((double)row[c] - mean) / C;
            squares += (double)row[c] * (double)row[c] / C;
        }
        for (int c = 0; c < C; c++) {
            assert_near(layer[n * C + c], ((double)row[c] - mean) / sqrt(variance + 1e-3), 5e-4, 5e-4, "layer norm");
            assert_near(rms[n * C + c], (double)row[c] / sqrt(squares + 1e-6), 1e-5, 0, "rms norm");
        }
    }
    for (int k = 0; k < 2; k++) rf_array_free(&y[k]);
    rf_function_destroy(&function);
}

/* ---- mistakes ---- */

static rf_result negative_step(rf_trace *t, const rf_tensor *in, rf_tensor *out, void *user)
{
    (void)user;
    out[0] = rf_rms_norm(t, in[0], (rf_tensor){ 0 }, -1);
    return rf_trace_status(t);
}

static rf_result shape_step(rf_trace *t, const rf_tensor *in, rf_tensor *out, void *user)
{
    (void)user;
    static float gamma[3];
    const rf_tensor three = rf_constant_array(t, &(rf_array){ RF_F32, RF_SHAPE(3), gamma });
    out[0] = rf_layer_norm(t, in[0], three, (rf_tensor){ 0 }, 0);
    return rf_trace_status(t);
}

static void refuse(rf_strategy *strategy, rf_step_fn step, const char *part)
{
    float x[N * C] = { 0 };
    rf_function *function;
    OK(rf_function_create(strategy, &(rf_function_params){ .step = step, .num_outputs = 1 }, &function));
    const rf_element batch = { .num_components = 1, .component = { array_f32(RF_SHAPE(N, C), x) } };
    FAILS(rf_strategy_run(strategy, function, &batch, NULL), RF_ERROR_INVALID_ARGUMENT, part);
    rf_function_destroy(&function);
}

static void refuses(rf_strategy *strategy)
{
    rf_layer *layer;
    rf_model *model;
    const rf_initializer ones = { .kind = RF_INIT_ONES };
    refuse(strategy, negative_step, "layer_norm: epsilon is -1, must be positive");
    refuse(strategy, shape_step, "layer_norm: input 1 has shape [3], needs [5]");
    FAILS(rf_layer_layer_norm(&(rf_layer_norm_params){ .epsilon = -1 }, &layer), RF_ERROR_INVALID_ARGUMENT,
          "rf_layer_layer_norm: epsilon is -1");
    FAILS(rf_layer_rms_norm(&(rf_rms_norm_params){ .epsilon = 1e-60 }, &layer), RF_ERROR_INVALID_ARGUMENT,
          "rf_layer_rms_norm: epsilon is 1e-60");
    FAILS(rf_layer_layer_norm(&(rf_layer_norm_params){ .no_center = true, .beta_initializer = &ones }, &layer),
          RF_ERROR_INVALID_ARGUMENT, "no_center leaves out beta");
    FAILS(rf_layer_rms_norm(&(rf_rms_norm_params){ .no_scale = true, .gamma_initializer = &ones }, &layer),
          RF_ERROR_INVALID_ARGUMENT, "no_scale leaves out gamma");
    OK(rf_layer_layer_norm(&(rf_layer_norm_params){ .name = "mine" }, &layer));
    OK(rf_model_create_sequential(strategy, &layer, 1, NULL, &model));
    FAILS(rf_model_build_for(model, RF_I32, RF_SHAPE(3)), RF_ERROR_INVALID_ARGUMENT,
          "layer 'mine' takes f32 inputs, got i32");
    rf_model_destroy(&model);
}

ON_TWO(lasts)
ON_TWO(definitions)
ON_ONE(refuses)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(follow_on_lavapipe),
        cmocka_unit_test(compare_two_drivers),
        cmocka_unit_test_setup_teardown(lasts_on_two, make_folder, remove_folder),
        cmocka_unit_test(definitions_on_two),
        cmocka_unit_test(refuses_on_one),
    };
    return cmocka_run_group_tests(tests, trajectory_open, trajectory_close);
}
