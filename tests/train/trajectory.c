/* SPDX-License-Identifier: Apache-2.0 */
#include "trajectory.h"

#include "../support/fixture.h"
#include "../support/gzip.h"

static uint32_t read_number(gzFile file, uint32_t most)
{
    uint32_t number;
    read_exactly(file, &number, sizeof(number));
    assert_true(number <= most);
    return number;
}

static rf_shape read_shape(gzFile file)
{
    rf_shape shape = { .rank = (int32_t)read_number(file, RF_MAX_RANK) };
    for (int32_t i = 0; i < shape.rank; i++) shape.dim[i] = read_number(file, 1u << 20);
    return shape;
}

static void *read_values(gzFile file, rf_shape shape)
{
    const size_t size = (size_t)rf_shape_count(shape) * sizeof(float); /* all types have four bytes */
    void *values = test_malloc(size);
    read_exactly(file, values, size);
    return values;
}

void trajectory_load(const char *path, trajectory *t)
{
    gzFile file = gzopen(fixture_path(path), "rb");
    assert_non_null(file);
    char magic[8];
    read_exactly(file, magic, sizeof(magic));
    assert_memory_equal(magic, "RFTRAJ02", sizeof(magic));
    *t = (trajectory){ .num_variables = read_number(file, TRAJECTORY_MAX_VARIABLES) };
    t->num_steps = read_number(file, TRAJECTORY_MAX_STEPS);
    t->num_components = read_number(file, RF_MAX_COMPONENTS);
    for (uint32_t i = 0; i < t->num_variables; i++) {
        trajectory_variable *v = &t->variables[i];
        read_exactly(file, v->name, read_number(file, sizeof(v->name) - 1));
        v->shape = read_shape(file);
        v->initial = read_values(file, v->shape);
    }
    rf_element batch = { .num_components = t->num_components };
    for (uint32_t i = 0; i < t->num_components; i++) {
        batch.component[i].dtype = read_number(file, 1) ? RF_I32 : RF_F32;
        batch.component[i].shape = read_shape(file);
    }
    for (uint32_t s = 0; s < t->num_steps; s++) {
        t->batches[s] = batch;
        for (uint32_t i = 0; i < t->num_components; i++)
            t->batches[s].component[i].data = read_values(file, batch.component[i].shape);
    }
    read_exactly(file, t->losses, t->num_steps * sizeof(double));
    for (uint32_t i = 0; i < t->num_variables; i++) t->variables[i].gradient = read_values(file, t->variables[i].shape);
    gzclose(file);
}

void trajectory_free(trajectory *t)
{
    for (uint32_t i = 0; i < t->num_variables; i++) {
        test_free(t->variables[i].initial);
        test_free(t->variables[i].gradient);
    }
    for (uint32_t s = 0; s < t->num_steps; s++)
        for (uint32_t i = 0; i < t->num_components; i++) test_free(t->batches[s].component[i].data);
    *t = (trajectory){ 0 };
}

static rf_variable *find_variable(const rf_model *model, const trajectory_variable *wanted)
{
    const rf_variable_list variables = rf_model_variables(model);
    for (uint32_t i = 0; i < variables.count; i++) {
        if (strcmp(rf_variable_name(variables.items[i]), wanted->name) != 0) continue;
        const rf_shape shape = rf_variable_shape(variables.items[i]);
        assert_int_equal(shape.rank, wanted->shape.rank);
        assert_memory_equal(shape.dim, wanted->shape.dim, (size_t)shape.rank * sizeof(shape.dim[0]));
        return variables.items[i];
    }
    fail_msg("the model has no variable %s", wanted->name);
    return NULL;
}

void trajectory_assign(const trajectory *t, const rf_model *model)
{
    assert_int_equal(rf_model_variables(model).count, t->num_variables);
    for (uint32_t i = 0; i < t->num_variables; i++)
        OK(rf_variable_assign(find_variable(model, &t->variables[i]), t->variables[i].initial));
}

/* The largest element of all gradients of the first step. */
static double largest_gradient(const trajectory *t)
{
    double largest = 0;
    for (uint32_t i = 0; i < t->num_variables; i++)
        for (int64_t k = 0; k < rf_shape_count(t->variables[i].shape); k++)
            largest = fmax(largest, fabs((double)t->variables[i].gradient[k]));
    return largest;
}

/* `scale` is the largest element of all gradients. A variable without any influence, as a bias of all scores that a
 * softmax takes, has a gradient of rounding errors, in any precision. */
static double check_gradient(const trajectory_variable *v, rf_variable *variable, double scale)
{
    const int64_t count = rf_shape_count(v->shape);
    float *is = test_malloc((size_t)count * sizeof(float));
    OK(rf_variable_read_gradient(variable, is));
    double difference = 0, norm = 0, largest = 0;
    for (int64_t k = 0; k < count; k++) {
        const double expected = (double)v->gradient[k], d = (double)is[k] - expected;
        difference += d * d;
        norm += expected * expected;
        largest = fmax(largest, fabs(expected));
    }
    const bool is_zero = largest < 1e-12 * scale;
    if (!is_zero) assert_near(sqrt(difference / norm), 0, 0, 1e-4, v->name);
    for (int64_t k = 0; k < count; k++)
        assert_near((double)is[k], (double)v->gradient[k], 1e-4, is_zero ? 1e-6 * scale : 1e-4 * largest, v->name);
    test_free(is);
    if (is_zero) return 0;
    return sqrt(difference / norm);
}

void trajectory_follow(const trajectory *t, rf_strategy *strategy, rf_model *model, rf_function *step,
                       uint32_t num_steps, double *losses)
{
    const double scale = largest_gradient(t);
    double worst_loss = 0, worst_gradient = 0;
    for (uint32_t s = 0; s < num_steps && s < t->num_steps; s++) {
        float loss;
        run_once(strategy, step, &t->batches[s], &loss, 1);
        assert_near((double)loss, t->losses[s], 1e-4, 0, "loss");
        losses[s] = (double)loss;
        worst_loss = fmax(worst_loss, fabs((double)loss / t->losses[s] - 1));
        for (uint32_t i = 0; s == 0 && i < t->num_variables; i++)
            worst_gradient =
                fmax(worst_gradient, check_gradient(&t->variables[i], find_variable(model, &t->variables[i]), scale));
    }
    OK(rf_strategy_check_identical(strategy, NULL, NULL));
    print_message("  worst relative error: losses %.2g, gradients %.2g\n", worst_loss, worst_gradient);
}

const char *trajectory_file;
trajectory trajectory_reference;

int trajectory_open(void **state)
{
    (void)state;
    trajectory_load(trajectory_file, &trajectory_reference);
    return 0;
}

int trajectory_close(void **state)
{
    (void)state;
    trajectory_free(&trajectory_reference);
    return 0;
}

/* ---- one device and others ---- */

static double kept[TRAJECTORY_MAX_STEPS];

void trajectory_keep(rf_strategy *strategy, trajectory_train_fn train)
{
    train(strategy, kept);
}

void trajectory_compare(rf_strategy *strategy, trajectory_train_fn train)
{
    double losses[TRAJECTORY_MAX_STEPS] = { 0 };
    train(strategy, losses);
    assert_true(kept[0] != 0);
    for (uint32_t s = 0; s < trajectory_reference.num_steps; s++) assert_near(losses[s], kept[s], 1e-5, 0, "loss");
}

/* ---- a program's network ---- */

static const trajectory_network *trained;

typedef struct training {
    void *network;
    rf_model *model;
    rf_optimizer *optimizer;
} training;

static rf_result network_step(rf_trace *t, const rf_tensor *in, rf_tensor *out, void *user)
{
    const training *tr = user;
    out[0] = rf_compute_average_loss(t, trained->losses(t, tr->network, in), NULL);
    (void)rf_optimizer_minimize(t, tr->optimizer, out[0], rf_model_variables(tr->model));
    return rf_trace_status(t);
}

static void train_network(rf_strategy *strategy, double *losses)
{
    training tr = { .network = trained->create(strategy) };
    rf_function *function;
    tr.model = trained->model ? trained->model(tr.network) : tr.network;
    OK(rf_optimizer_create(strategy, &(rf_optimizer_params){ .kind = RF_OPTIMIZER_ADAM }, &tr.optimizer));
    const rf_function_params params = { .step = network_step, .user = &tr, .num_outputs = 1, .training = true };
    OK(rf_function_create(strategy, &params, &function));
    trajectory_assign(&trajectory_reference, tr.model);
    trajectory_follow(&trajectory_reference, strategy, tr.model, function,
                      trained->num_steps ? trained->num_steps : TRAJECTORY_MAX_STEPS, losses);
    rf_function_destroy(&function);
    rf_optimizer_destroy(&tr.optimizer);
    if (trained->destroy)
        trained->destroy(tr.network);
    else
        rf_model_destroy(&tr.model);
}

static void follow(rf_strategy *strategy)
{
    trajectory_keep(strategy, trained->train ? trained->train : train_network);
}
ON_LISTS(follow, _on_lavapipe, 0, 1, 1)
ON_LISTS(follow, _on_swiftshader, 1, 1, 1)

static void compare(rf_strategy *strategy)
{
    trajectory_compare(strategy, trained->train ? trained->train : train_network);
}
ON_LISTS(compare, _two_drivers, 2, 1, 1)
ON_LISTS(compare, _one_driver_twice, 3, 1, 1)

int trajectory_run(const char *file, const trajectory_network *network, room_test *own, int argc, char **argv)
{
    const struct CMUnitTest drivers[] = { cmocka_unit_test(follow_on_lavapipe), cmocka_unit_test(follow_on_swiftshader),
                                          cmocka_unit_test(compare_two_drivers) };
    room_test second = { "compare_one_driver_twice", compare_one_driver_twice, own };
    room_test first = { "follow_on_lavapipe", follow_on_lavapipe, &second };
    trajectory_file = file;
    trained = network;
    if (argc > 1 && strcmp(argv[1], "drivers") == 0)
        return cmocka_run_group_tests(drivers, trajectory_open, trajectory_close);
    return room_tests_run(&first, trajectory_open, trajectory_close);
}

/* ---- networks that classify ---- */

typedef struct classifier {
    rf_model *model;
    rf_optimizer *optimizer;
} classifier;

static rf_result train_step(rf_trace *t, const rf_tensor *in, rf_tensor *out, void *user)
{
    const classifier *c = user;
    const rf_tensor logits = rf_model_call(t, c->model, in[0], RF_TRAINING);
    out[0] = rf_compute_average_loss(t, rf_sparse_categorical_crossentropy(t, in[1], logits, RF_LOGITS), NULL);
    (void)rf_optimizer_minimize(t, c->optimizer, out[0], rf_model_variables(c->model));
    return rf_trace_status(t);
}

/* All replicas get all examples. */
static trajectory repeat(const trajectory *t, uint32_t times)
{
    trajectory repeated = *t;
    for (uint32_t s = 0; s < t->num_steps; s++)
        for (uint32_t i = 0; i < t->num_components; i++) {
            rf_array *array = &repeated.batches[s].component[i];
            const size_t size = (size_t)rf_shape_count(array->shape) * sizeof(float);
            array->shape.dim[0] *= times;
            array->data = test_malloc(times * size);
            for (uint32_t k = 0; k < times; k++)
                memcpy((char *)array->data + k * size, t->batches[s].component[i].data, size);
        }
    return repeated;
}

static void free_repeated(trajectory *t)
{
    for (uint32_t s = 0; s < t->num_steps; s++)
        for (uint32_t i = 0; i < t->num_components; i++) test_free(t->batches[s].component[i].data);
}

rf_shape trajectory_example_shape(const trajectory *t)
{
    const rf_shape batch = t->batches[0].component[0].shape;
    rf_shape shape = { .rank = batch.rank - 1 };
    memcpy(shape.dim, &batch.dim[1], (size_t)shape.rank * sizeof(shape.dim[0]));
    return shape;
}

void trajectory_train_classifier(const trajectory *t, rf_strategy *strategy, rf_model *model,
                                 const rf_optimizer_params *optimizer, uint32_t num_steps, double *losses)
{
    classifier c = { .model = model };
    rf_function *step;
    OK(rf_optimizer_create(strategy, optimizer, &c.optimizer));
    OK(rf_function_create(
        strategy, &(rf_function_params){ .step = train_step, .user = &c, .num_outputs = 1, .training = true }, &step));
    trajectory_assign(t, model);
    trajectory_follow(t, strategy, model, step, num_steps, losses);
    rf_function_destroy(&step);
    rf_optimizer_destroy(&c.optimizer);
}

void trajectory_follow_classifier(const trajectory *t, rf_strategy *strategy, rf_model *model,
                                  const rf_optimizer_params *optimizer)
{
    double losses[TRAJECTORY_MAX_STEPS];
    trajectory repeated = repeat(t, rf_strategy_num_replicas_in_sync(strategy));
    trajectory_train_classifier(&repeated, strategy, model, optimizer, TRAJECTORY_MAX_STEPS, losses);
    free_repeated(&repeated);
}

uint64_t trajectory_count_trainable(const rf_model *model)
{
    uint64_t count = 0;
    const rf_variable_list variables = rf_model_variables(model);
    for (uint32_t i = 0; i < variables.count; i++)
        count += (uint64_t)rf_shape_count(rf_variable_shape(variables.items[i]));
    return count;
}
