/* SPDX-License-Identifier: Apache-2.0 */
/* Layers that normalise examples, by rows and by groups: twenty steps against PyTorch (make_norm_trajectory.py),
 * replicas, files, the operations against their definition, and mistakes. */
#include <ringfire/interchange.h>

#include "test_folder.h"
#include "tests/room.h"
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

static trajectory groups;

static int open_both(void **state)
{
    trajectory_load(FIXTURES "/group_norm.traj", &groups);
    return trajectory_open(state);
}

static int close_both(void **state)
{
    trajectory_free(&groups);
    return trajectory_close(state);
}

/* Groups of channels, channels by themselves, groups of rows. */
static rf_model *make_group_model(rf_strategy *strategy)
{
    enum { GROUP_LAYERS = 9 };
    const rf_conv2d_layer_params conv = {
        .filters = 6, .kernel_size = { 3 }, .conv.padding = RF_PADDING_SAME, .no_bias = true
    };
    rf_layer *l[GROUP_LAYERS];
    rf_model *model;
    OK(rf_layer_conv2d(&conv, &l[0]));
    OK(rf_layer_group_norm(&(rf_group_norm_params){ .groups = 3 }, &l[1]));
    OK(rf_layer_activation(RF_ACTIVATION_GELU, &l[2]));
    OK(rf_layer_conv2d(&conv, &l[3]));
    OK(rf_layer_group_norm(&(rf_group_norm_params){ .groups = -1, .epsilon = 1e-5, .no_scale = true }, &l[4]));
    OK(rf_layer_activation(RF_ACTIVATION_TANH, &l[5]));
    OK(rf_layer_group_norm(&(rf_group_norm_params){ .groups = 2, .axis = 1, .epsilon = 1e-2, .no_center = true },
                           &l[6]));
    OK(rf_layer_flatten(&l[7]));
    OK(rf_layer_dense(&(rf_dense_params){ .units = 4 }, &l[8]));
    OK(rf_model_create_sequential(strategy, l, GROUP_LAYERS, &RF_SHAPE(4, 5, 3), &model));
    return model;
}

/* `model` is taken over. */
static void train_model(rf_strategy *strategy, rf_model *model, const trajectory *reference, double *losses)
{
    const rf_optimizer_params adam = { .kind = RF_OPTIMIZER_ADAM };
    trajectory_train_classifier(reference, strategy, model, &adam, TRAJECTORY_MAX_STEPS, losses);
    rf_model_destroy(&model);
}

static void train(rf_strategy *strategy, double *losses)
{
    train_model(strategy, make_model(strategy), &trajectory_reference, losses);
}

/* One replica, then two, which share the batch. */
static double group_losses[TRAJECTORY_MAX_STEPS];

static void groups_follow(rf_strategy *strategy)
{
    train_model(strategy, make_group_model(strategy), &groups, group_losses);
}
ON_ONE(groups_follow)

static void groups_compare(rf_strategy *strategy)
{
    double losses[TRAJECTORY_MAX_STEPS] = { 0 };
    assert_true(group_losses[0] != 0);
    train_model(strategy, make_group_model(strategy), &groups, losses);
    for (uint32_t s = 0; s < groups.num_steps; s++) assert_near(losses[s], group_losses[s], 1e-5, 0, "loss");
}
ON_TWO(groups_compare)

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

static void predict(rf_model *model, const trajectory *reference, float *y)
{
    const rf_array x = reference->batches[0].component[0];
    rf_dataset *slices, *data;
    rf_array is;
    OK(rf_dataset_from_arrays(&(rf_dataset_arrays_params){ .arrays = &x, .num_arrays = 1 }, &slices));
    OK(rf_dataset_batch(slices, 10, RF_REMAINDER_KEEP, &data));
    OK(rf_model_predict(model, data, &is));
    assert_int_equal(rf_shape_count(is.shape), 40);
    memcpy(y, is.data, 40 * sizeof(*y));
    rf_array_free(&is);
    rf_dataset_destroy(&data);
    rf_dataset_destroy(&slices);
}

/* Saved and loaded it gives the same bits; exported, the same numbers. */
static void check_files(rf_strategy *strategy, rf_model *model, const trajectory *reference, const char *const *types)
{
    rf_model *loaded;
    float expected[40], got[40];
    char *summary;
    trajectory_assign(reference, model);
    predict(model, reference, expected);
    OK(rf_model_summary(model, &summary));
    for (; *types; types++) assert_non_null(strstr(summary, *types));
    rf_string_free(summary);
    OK(rf_model_save(model, in_folder("model"), NULL));
    OK(rf_model_load(strategy, in_folder("model"), &loaded));
    predict(loaded, reference, got);
    assert_memory_equal(got, expected, sizeof(got));
    rf_model_destroy(&loaded);

    rf_inference *inference;
    rf_array y = { 0 };
    OK(rf_model_export(model, in_folder("inference"), NULL));
    OK(rf_inference_load(in_folder("inference"), &(rf_inference_params){ .strategy = strategy }, &inference));
    OK(rf_inference_run(inference, &reference->batches[0].component[0], &y));
    for (int i = 0; i < 40; i++) assert_near(((const float *)y.data)[i], expected[i], 1e-5, 1e-5, "inference");
    rf_array_free(&y);
    rf_inference_destroy(&inference);
    OK(rf_model_export_onnx(model, in_folder("model.onnx")));
    rf_model_destroy(&model);
}

static void lasts(rf_strategy *strategy)
{
    static const char *const rows[] = { "LayerNormalization", "RMSNormalization", NULL }, *const of_groups[] = {
        "GroupNormalization", "group_normalization_2", NULL
    };
    check_files(strategy, make_model(strategy), &trajectory_reference, rows);
    check_files(strategy, make_group_model(strategy), &groups, of_groups);
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

static rf_result divide_step(rf_trace *t, const rf_tensor *in, rf_tensor *out, void *user)
{
    (void)user;
    out[0] = rf_group_norm(t, in[0], (rf_tensor){ 0 }, (rf_tensor){ 0 }, 2, -1, 0);
    return rf_trace_status(t);
}

static rf_result axis_step(rf_trace *t, const rf_tensor *in, rf_tensor *out, void *user)
{
    (void)user;
    out[0] = rf_group_norm(t, in[0], (rf_tensor){ 0 }, (rf_tensor){ 0 }, 1, 2, 0);
    return rf_trace_status(t);
}

static rf_result beta_step(rf_trace *t, const rf_tensor *in, rf_tensor *out, void *user)
{
    (void)user;
    static float beta[3];
    const rf_tensor three = rf_constant_array(t, &(rf_array){ RF_F32, RF_SHAPE(3), beta });
    out[0] = rf_group_norm(t, in[0], (rf_tensor){ 0 }, three, 5, 0, 0);
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
    refuse(strategy, negative_step, "rf_rms_norm: epsilon is -1, must be positive");
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

static void refuses_groups(rf_strategy *strategy)
{
    rf_layer *layer;
    rf_model *model;
    const rf_initializer ones = { .kind = RF_INIT_ONES };
    refuse(strategy, divide_step, "rf_group_norm: 5 channels cannot be divided into 2 groups");
    refuse(strategy, axis_step, "rf_group_norm: x is f32 [");
    refuse(strategy, beta_step, "rf_group_norm: beta is f32 [3], needs f32 [5]");
    FAILS(rf_layer_group_norm(&(rf_group_norm_params){ .groups = -2 }, &layer), RF_ERROR_INVALID_ARGUMENT,
          "rf_layer_group_norm: groups is -2");
    FAILS(rf_layer_group_norm(&(rf_group_norm_params){ .epsilon = 1e-60 }, &layer), RF_ERROR_INVALID_ARGUMENT,
          "rf_layer_group_norm: epsilon is 1e-60");
    FAILS(rf_layer_group_norm(&(rf_group_norm_params){ .axis = 7 }, &layer), RF_ERROR_INVALID_ARGUMENT,
          "rf_layer_group_norm: axis 7");
    FAILS(rf_layer_group_norm(&(rf_group_norm_params){ .no_scale = true, .gamma_initializer = &ones }, &layer),
          RF_ERROR_INVALID_ARGUMENT, "no_scale leaves out gamma");
    OK(rf_layer_group_norm(NULL, &layer));
    OK(rf_model_create_sequential(strategy, &layer, 1, NULL, &model));
    FAILS(rf_model_build_for(model, RF_F32, RF_SHAPE(4, 48)), RF_ERROR_INVALID_ARGUMENT,
          "layer 'group_normalization': 48 channels cannot be divided into 32 groups");
    rf_model_destroy(&model);
    OK(rf_layer_group_norm(&(rf_group_norm_params){ .axis = -3, .name = "mine" }, &layer));
    OK(rf_model_create_sequential(strategy, &layer, 1, NULL, &model));
    FAILS(rf_model_build_for(model, RF_F32, RF_SHAPE(4, 48)), RF_ERROR_INVALID_ARGUMENT,
          "layer 'mine' normalizes groups along axis -3, which an input [");
    rf_model_destroy(&model);
}

ON_TWO(lasts)
ON_TWO(definitions)
ON_ONE(refuses)
ON_ONE(refuses_groups)

TEST_PROGRAM(norms)
{
    trajectory_file = FIXTURES "/norm.traj";
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(follow_on_lavapipe),
        cmocka_unit_test(compare_two_drivers),
        cmocka_unit_test(groups_follow_on_one),
        cmocka_unit_test(groups_compare_on_two),
        cmocka_unit_test_setup_teardown(lasts_on_two, make_folder, remove_folder),
        cmocka_unit_test(definitions_on_two),
        cmocka_unit_test(refuses_on_one),
        cmocka_unit_test(refuses_groups_on_one),
    };
    return cmocka_run_group_tests(tests, open_both, close_both);
}
