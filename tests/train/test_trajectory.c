/* SPDX-License-Identifier: Apache-2.0 */
/* Twenty Adam steps of the CNN of the tutorials against PyTorch in double precision (make_trajectory.py), and mirrored
 * replicas against one device. */
#include "../support/strategies.h"

#include "../support/fixture.h"
#include "../support/gzip.h"
#include "tests/room.h"

enum { VARIABLES = 8, BATCHES = 20, BATCH = 64, SIDE = 28, PIXELS = SIDE * SIDE };

typedef struct trajectory {
    int64_t count[VARIABLES];
    float *initial[VARIABLES], *gradient[VARIABLES];
    uint8_t *images; /* [BATCHES, BATCH, PIXELS] */
    uint8_t *labels;
    double losses[BATCHES];
} trajectory;

static trajectory reference;

/* ---- the fixture ---- */

static int load_reference(void **state)
{
    (void)state;
    gzFile file = gzopen(fixture_path(FIXTURES "/trajectory.bin"), "rb");
    if (!file) return -1;
    char magic[8];
    uint32_t header[5];
    read_exactly(file, magic, sizeof(magic));
    assert_memory_equal(magic, "RFTRAJ01", sizeof(magic));
    read_exactly(file, header, sizeof(header));
    const uint32_t expected[5] = { VARIABLES, BATCHES, BATCH, SIDE, SIDE };
    assert_memory_equal(header, expected, sizeof(header));
    for (int i = 0; i < VARIABLES; i++) {
        uint32_t rank, dim[4];
        read_exactly(file, &rank, sizeof(rank));
        assert_true(rank >= 1 && rank <= 4);
        read_exactly(file, dim, rank * sizeof(dim[0]));
        reference.count[i] = 1;
        for (uint32_t k = 0; k < rank; k++) reference.count[i] *= dim[k];
        reference.initial[i] = test_malloc((size_t)reference.count[i] * sizeof(float));
        reference.gradient[i] = test_malloc((size_t)reference.count[i] * sizeof(float));
        read_exactly(file, reference.initial[i], (size_t)reference.count[i] * sizeof(float));
    }
    reference.images = test_malloc(BATCHES * BATCH * PIXELS);
    reference.labels = test_malloc(BATCHES * BATCH);
    read_exactly(file, reference.images, BATCHES * BATCH * PIXELS);
    read_exactly(file, reference.labels, BATCHES * BATCH);
    read_exactly(file, reference.losses, sizeof(reference.losses));
    for (int i = 0; i < VARIABLES; i++) {
        read_exactly(file, reference.gradient[i], (size_t)reference.count[i] * sizeof(float));
    }
    gzclose(file);
    return 0;
}

static int free_reference(void **state)
{
    (void)state;
    for (int i = 0; i < VARIABLES; i++) {
        test_free(reference.initial[i]);
        test_free(reference.gradient[i]);
    }
    test_free(reference.images);
    test_free(reference.labels);
    return 0;
}

/* ---- the same training with the library ---- */

typedef struct training {
    rf_strategy *strategy;
    rf_model *model;
    rf_optimizer *optimizer;
    rf_function *function;
} training;

static rf_result train_step(rf_trace *t, const rf_tensor *in, rf_tensor *out, void *user)
{
    training *tr = user;
    const rf_tensor logits = rf_model_call(t, tr->model, in[0], RF_TRAINING);
    out[0] = rf_compute_average_loss(t, rf_sparse_categorical_crossentropy(t, in[1], logits, RF_LOGITS), NULL);
    (void)rf_optimizer_minimize(t, tr->optimizer, out[0], rf_model_variables(tr->model));
    return rf_trace_status(t);
}

/* As many as the program is asked for: with the validation layer in between all of them take minutes. */
static int num_batches = BATCHES;

static void open_training(rf_strategy *strategy, training *tr)
{
    *tr = (training){ .strategy = strategy };
    rf_layer *l[7];
    OK(rf_layer_conv2d(
        &(rf_conv2d_layer_params){ .filters = 32, .kernel_size = { 3 }, .activation = RF_ACTIVATION_RELU }, &l[0]));
    OK(rf_layer_max_pool2d(NULL, &l[1]));
    OK(rf_layer_conv2d(
        &(rf_conv2d_layer_params){ .filters = 64, .kernel_size = { 3 }, .activation = RF_ACTIVATION_RELU }, &l[2]));
    OK(rf_layer_max_pool2d(NULL, &l[3]));
    OK(rf_layer_flatten(&l[4]));
    OK(rf_layer_dense(&(rf_dense_params){ .units = 64, .activation = RF_ACTIVATION_RELU }, &l[5]));
    OK(rf_layer_dense(&(rf_dense_params){ .units = 10 }, &l[6]));
    OK(rf_model_create_sequential(strategy, l, 7, &RF_SHAPE(SIDE, SIDE, 1), &tr->model));
    assert_int_equal(rf_model_num_params(tr->model), 121930);
    OK(rf_optimizer_create(strategy, &(rf_optimizer_params){ .kind = RF_OPTIMIZER_ADAM }, &tr->optimizer));
    OK(rf_function_create(strategy,
                          &(rf_function_params){ .step = train_step, .user = tr, .num_outputs = 1, .training = true },
                          &tr->function));
    const rf_variable_list variables = rf_model_variables(tr->model);
    assert_int_equal(variables.count, VARIABLES);
    for (int i = 0; i < VARIABLES; i++) {
        assert_int_equal(rf_shape_count(rf_variable_shape(variables.items[i])), reference.count[i]);
        OK(rf_variable_assign(variables.items[i], reference.initial[i]));
    }
}

static void close_training(training *tr)
{
    rf_function_destroy(&tr->function);
    rf_optimizer_destroy(&tr->optimizer);
    rf_model_destroy(&tr->model);
}

static double run_batch(training *tr, int number)
{
    static float images[BATCH * PIXELS];
    int32_t labels[BATCH];
    for (int i = 0; i < BATCH * PIXELS; i++) images[i] = (float)reference.images[number * BATCH * PIXELS + i] / 255.0f;
    for (int i = 0; i < BATCH; i++) labels[i] = reference.labels[number * BATCH + i];
    const rf_element batch = {
        2, { array_f32(RF_SHAPE(BATCH, SIDE, SIDE, 1), images), array_i32(RF_SHAPE(BATCH), labels) }
    };
    float loss;
    run_once(tr->strategy, tr->function, &batch, &loss, 1);
    return loss;
}

/* Norm of the difference against the norm, and every element against a floor of a thousandth of the largest one. */
static void check_gradient(const training *tr, int i)
{
    float *is = test_malloc((size_t)reference.count[i] * sizeof(float));
    OK(rf_variable_read_gradient(rf_model_variables(tr->model).items[i], is));
    double difference = 0.0, norm = 0.0, largest = 0.0;
    for (int64_t k = 0; k < reference.count[i]; k++) {
        const double expected = (double)reference.gradient[i][k], d = (double)is[k] - expected;
        difference += d * d;
        norm += expected * expected;
        largest = fmax(largest, fabs(expected));
    }
    const char *name = rf_variable_name(rf_model_variables(tr->model).items[i]);
    assert_near(sqrt(difference / norm), 0.0, 0.0, 1e-4, name);
    for (int64_t k = 0; k < reference.count[i]; k++) {
        assert_near(is[k], (double)reference.gradient[i][k], 1e-4, 1e-4 * largest, name);
    }
    print_message("  gradient of %-16s relative error %.2g\n", name, sqrt(difference / norm));
    test_free(is);
}

static void follow(rf_strategy *strategy)
{
    training tr;
    open_training(strategy, &tr);
    double worst = 0.0;
    for (int i = 0; i < num_batches; i++) {
        const double loss = run_batch(&tr, i);
        assert_near(loss, reference.losses[i], 1e-4, 0.0, "loss");
        worst = fmax(worst, fabs(loss / reference.losses[i] - 1.0));
        for (int v = 0; i == 0 && v < VARIABLES; v++) check_gradient(&tr, v);
    }
    print_message("  losses: worst relative error %.2g\n", worst);
    OK(rf_strategy_check_identical(strategy, NULL, NULL));
    close_training(&tr);
}

TEST(on_lavapipe)
{
    on_devices(follow, 0, 1, 1);
}

TEST(on_swiftshader)
{
    on_devices(follow, 1, 1, 1);
}

/* ---- replicas against one device ---- */

static void losses_on(const char *devices, double *losses)
{
    rf_strategy *strategy = open_devices(devices);
    if (!strategy) SKIP("not installed: %s", devices);
    training tr;
    open_training(strategy, &tr);
    for (int i = 0; i < num_batches; i++) {
        losses[i] = run_batch(&tr, i);
        OK(rf_strategy_check_identical(strategy, NULL, NULL));
    }
    close_training(&tr);
    rf_strategy_destroy(&strategy);
}

static void compare_replicas(const char *devices)
{
    static double one[BATCHES];
    double two[BATCHES], worst = 0.0;
    if (one[0] == 0.0) losses_on("llvmpipe", one);
    losses_on(devices, two);
    for (int i = 0; i < num_batches; i++) {
        assert_near(two[i], one[i], 1e-5, 0.0, devices);
        worst = fmax(worst, fabs(two[i] / one[i] - 1.0));
    }
    print_message("  %s against llvmpipe: worst relative error %.2g\n", devices, worst);
}

TEST(two_drivers)
{
    compare_replicas("llvmpipe,SwiftShader");
}

TEST(one_driver_twice)
{
    compare_replicas("llvmpipe,llvmpipe");
}

TEST_PROGRAM(trajectory)
{
    if (argc > 1) num_batches = atoi(argv[1]);
    return room_tests_run(own_tests, load_reference, free_reference);
}
