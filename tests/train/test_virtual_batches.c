/* SPDX-License-Identifier: Apache-2.0 */
/* Batch normalization with virtual batches: sixteen steps against PyTorch (make_virtual_batches_trajectory.py), on any
 * split of the batch the same, the definition, files, and mistakes. */
#include "test_folder.h"
#include "tests/room.h"
#include "trajectory.h"

enum { STATES = 4, CHANNELS = 6, UNITS = 10, MOST_STATE = 16 };

static rf_model *make_model(rf_strategy *strategy)
{
    enum { LAYERS = 8 };
    rf_layer *l[LAYERS];
    rf_model *model;
    OK(rf_layer_conv2d(&(rf_conv2d_layer_params){ .filters = CHANNELS, .kernel_size = { 3, 2 }, .no_bias = true },
                       &l[0]));
    OK(rf_layer_batch_norm(&(rf_batch_norm_params){ .virtual_batch_size = 8 }, &l[1]));
    OK(rf_layer_activation(RF_ACTIVATION_ELU, &l[2]));
    OK(rf_layer_flatten(&l[3]));
    OK(rf_layer_dense(&(rf_dense_params){ .units = UNITS, .no_bias = true }, &l[4]));
    OK(rf_layer_batch_norm(&(rf_batch_norm_params){ .virtual_batch_size = 4, .epsilon = 1e-2, .no_scale = true },
                           &l[5]));
    OK(rf_layer_activation(RF_ACTIVATION_TANH, &l[6]));
    OK(rf_layer_dense(&(rf_dense_params){ .units = 4 }, &l[7]));
    OK(rf_model_create_sequential(strategy, l, LAYERS, &RF_SHAPE(5, 4, 2), &model));
    return model;
}

/* ---- steps ---- */

static const rf_optimizer_params sgd = { .kind = RF_OPTIMIZER_SGD, .learning_rate = 0.05, .momentum = 0.9 };

/* Losses and moving averages. */
typedef struct course {
    double losses[TRAJECTORY_MAX_STEPS];
    float averages[STATES][MOST_STATE];
} course;

static void train(rf_strategy *strategy, course *c)
{
    rf_model *model = make_model(strategy);
    trajectory_train_classifier(&trajectory_reference, strategy, model, &sgd, TRAJECTORY_MAX_STEPS, c->losses);
    const rf_variable_list averages = rf_model_state_variables(model);
    assert_int_equal(averages.count, STATES);
    for (uint32_t i = 0; i < STATES; i++) OK(rf_variable_read(averages.items[i], c->averages[i]));
    rf_model_destroy(&model);
}

static course kept;

static void follow(rf_strategy *strategy)
{
    train(strategy, &kept);
}
ON_ONE(follow)

static void check_same(rf_strategy *strategy)
{
    course c = { 0 };
    assert_true(kept.losses[0] != 0);
    train(strategy, &c);
    for (uint32_t s = 0; s < trajectory_reference.num_steps; s++)
        assert_near(c.losses[s], kept.losses[s], 1e-5, 0, "loss");
    for (uint32_t i = 0; i < STATES; i++)
        for (int k = 0; k < (i < 2 ? CHANNELS : UNITS); k++)
            assert_near(c.averages[i][k], kept.averages[i][k], 1e-5, 1e-6, "moving average");
}
ON_TWO(check_same)

/* Shares that are no multiples become some; those that follow speeds stay some. */
static void splits_do_not_matter(void **state)
{
    (void)state;
    static const double uneven[] = { 0.2, 0.5, 0.3 }, one_of_two[] = { 0, 1 };
    const rf_mirrored_params how[] = {
        { .devices = "llvmpipe,llvmpipe,llvmpipe", .shares = uneven, .num_shares = 3 },
        { .devices = "llvmpipe,llvmpipe", .shares = one_of_two, .num_shares = 2 },
        { .devices = "llvmpipe,llvmpipe", .balance = RF_BALANCE_AUTO },
    };
    for (size_t i = 0; i < sizeof(how) / sizeof(how[0]); i++) {
        rf_strategy *s = NULL;
        const rf_result r = rf_strategy_create_mirrored(&how[i], &s);
        if (r == RF_ERROR_NOT_FOUND) SKIP("%s", rf_error_message());
        OK(r);
        check_same(s);
        rf_strategy_destroy(&s);
    }
}

/* ---- the definition ---- */

enum { GROUP = 4, PLACES = 3, DEPTH = 5 };

static rf_result call_step(rf_trace *t, const rf_tensor *in, rf_tensor *out, void *user)
{
    out[0] = rf_model_call(t, user, in[0], RF_TRAINING);
    out[1] = rf_model_call(t, user, in[0], RF_INFERENCE);
    return rf_trace_status(t);
}

/* Mean and variance of channel c of the examples from `first` to `last` of x [n, PLACES, DEPTH]. */
static void moments(const float *x, int first, int last, int c, double *mean, double *variance)
{
    const double count = (double)(last - first) * PLACES;
    *mean = *variance = 0;
    for (int i = first * PLACES; i < last * PLACES; i++) *mean += (double)x[i * DEPTH + c] / count;
    for (int i = first * PLACES; i < last * PLACES; i++) *variance += pow((double)x[i * DEPTH + c] - *mean, 2) / count;
}

static void check_examples(const float *x, const float *y, const float *averages, int n)
{
    double total_mean[DEPTH] = { 0 }, total_variance[DEPTH] = { 0 };
    for (int first = 0; first < n; first += GROUP) {
        const int last = first + GROUP < n ? first + GROUP : n;
        for (int c = 0; c < DEPTH; c++) {
            double mean, variance;
            moments(x, first, last, c, &mean, &variance);
            total_mean[c] += mean * (last - first) / n;
            total_variance[c] += variance * (last - first) / n;
            for (int i = first * PLACES; i < last * PLACES; i++)
                assert_near(y[i * DEPTH + c], ((double)x[i * DEPTH + c] - mean) / sqrt(variance + 1e-3), 2e-3, 2e-3,
                            "y");
        }
    }
    for (int c = 0; c < DEPTH; c++) {
        assert_near(averages[c], 0.01 * total_mean[c], 1e-5, 1e-6, "moving mean");
        assert_near(averages[DEPTH + c], 0.99 + 0.01 * total_variance[c], 1e-5, 0, "moving variance");
    }
}

/* On each replica whole groups, of which the batch's last one may be smaller. */
static void check_counts(const rf_strategy *strategy, const rf_per_replica *result, int n)
{
    uint32_t before = 0;
    for (uint32_t r = 0; r < rf_strategy_num_replicas_in_sync(strategy); r++) {
        const uint32_t examples = rf_per_replica_num_examples(result, r);
        assert_true(examples % GROUP == 0 || before + examples == (uint32_t)n);
        before += examples;
    }
    assert_int_equal(before, n);
}

/* Batches with one incomplete group, with nothing else, of whole groups, of one example; far from zero. */
static void definition(rf_strategy *strategy)
{
    static const int sizes[] = { 11, 3, 16, 1, 37 };
    float x[37 * PLACES * DEPTH], averages[2 * DEPTH];
    const rf_batch_norm_params params = { .virtual_batch_size = GROUP };
    fill_noise(x, sizeof(x) / sizeof(x[0]), 5);
    for (size_t i = 0; i < sizeof(x) / sizeof(x[0]); i++) x[i] += 100;
    for (size_t k = 0; k < sizeof(sizes) / sizeof(sizes[0]); k++) {
        const int n = sizes[k];
        rf_layer *layer;
        rf_model *model;
        rf_function *f;
        rf_per_replica *results[2];
        rf_array y;
        OK(rf_layer_batch_norm(&params, &layer));
        OK(rf_model_create_sequential(strategy, &layer, 1, &RF_SHAPE(PLACES, DEPTH), &model));
        OK(rf_function_create(
            strategy, &(rf_function_params){ .step = call_step, .user = model, .num_outputs = 2, .training = true },
            &f));
        OK(rf_strategy_run(strategy, f, &(rf_element){ 1, { array_f32(RF_SHAPE(n, PLACES, DEPTH), x) } }, results));
        check_counts(strategy, results[0], n);
        OK(rf_strategy_gather(strategy, results[0], &y));
        for (int i = 0; i < 2; i++)
            OK(rf_variable_read(rf_model_state_variables(model).items[i], averages + i * DEPTH));
        check_examples(x, y.data, averages, n);
        OK(rf_strategy_check_identical(strategy, NULL, NULL));
        rf_array_free(&y);
        rf_function_destroy(&f);
        rf_model_destroy(&model);
    }
}
ON_ONE(definition)
ON_TWO(definition)

/* ---- files ---- */

static void lasts(rf_strategy *strategy)
{
    rf_model *model = make_model(strategy), *loaded;
    trajectory_assign(&trajectory_reference, model);
    OK(rf_model_save(model, in_folder("model"), NULL));
    OK(rf_model_load(strategy, in_folder("model"), &loaded));
    double was[1], is[1];
    trajectory_train_classifier(&trajectory_reference, strategy, model, &sgd, 1, was);
    trajectory_train_classifier(&trajectory_reference, strategy, loaded, &sgd, 1, is);
    assert_memory_equal(is, was, sizeof(is));
    rf_model_destroy(&loaded);
    rf_model_destroy(&model);
}
ON_TWO(lasts)

/* ---- mistakes ---- */

static void refuses(rf_strategy *strategy)
{
    rf_layer *l[2];
    rf_model *model;
    rf_function *f;
    float x[8] = { 0 };
    FAILS(rf_layer_batch_norm(&(rf_batch_norm_params){ .virtual_batch_size = 8, .synchronized = true }, &l[0]),
          RF_ERROR_INVALID_ARGUMENT, "synchronized takes the whole batch, virtual_batch_size 8 parts of it");
    FAILS(rf_layer_batch_norm(&(rf_batch_norm_params){ .virtual_batch_size = 65537 }, &l[0]), RF_ERROR_INVALID_ARGUMENT,
          "virtual_batch_size 65537; at most 65536");
    OK(rf_layer_batch_norm(&(rf_batch_norm_params){ .virtual_batch_size = 65535, .name = "a" }, &l[0]));
    OK(rf_layer_batch_norm(&(rf_batch_norm_params){ .virtual_batch_size = 65536, .name = "b" }, &l[1]));
    OK(rf_model_create_sequential(strategy, l, 2, &RF_SHAPE(2), &model));
    OK(rf_function_create(
        strategy, &(rf_function_params){ .step = call_step, .user = model, .num_outputs = 2, .training = true }, &f));
    FAILS(rf_strategy_run(strategy, f, &(rf_element){ 1, { array_f32(RF_SHAPE(4, 2), x) } }, NULL),
          RF_ERROR_INVALID_ARGUMENT, "b keeps 65536 examples together, 'a' and others before it 65535");
    rf_function_destroy(&f);
    rf_model_destroy(&model);
}
ON_ONE(refuses)

TEST_PROGRAM(virtual_batches)
{
    trajectory_file = FIXTURES "/virtual_batches.traj";
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(follow_on_one),
        cmocka_unit_test(check_same_on_two),
        cmocka_unit_test(splits_do_not_matter),
        cmocka_unit_test(definition_on_one),
        cmocka_unit_test(definition_on_two),
        cmocka_unit_test_setup_teardown(lasts_on_two, make_folder, remove_folder),
        cmocka_unit_test(refuses_on_one),
    };
    return cmocka_run_group_tests(tests, trajectory_open, trajectory_close);
}
