/* SPDX-License-Identifier: Apache-2.0 */
/* Recurrent layers in a classifier of padded sequences against PyTorch (make_rnn_trajectory.py), and two replicas
 * against one device. */
#include "trajectory.h"

enum { TOKENS = 12, WIDTH = 5, UNITS = 4, CLASSES = 3, MAX_VARIABLES = 16 };

typedef struct network {
    rf_variable *variables[MAX_VARIABLES];
    const char *names[MAX_VARIABLES];
    uint32_t count;
    rf_model *model;
    rf_optimizer *optimizer;
} network;

static rf_tensor named(rf_trace *t, const network *n, const char *layer, const char *what)
{
    char name[64];
    snprintf(name, sizeof(name), "%s%s", layer, what);
    for (uint32_t i = 0; i < n->count; i++)
        if (strcmp(n->names[i], name) == 0) return rf_variable_tensor(t, n->variables[i]);
    fail_msg("there is no variable %s", name);
    return (rf_tensor){ 0 };
}

static rf_tensor run(rf_trace *t, const network *n, const char *layer, rf_tensor x, rf_rnn_params params,
                     rf_tensor *last)
{
    rf_tensor sequence, final[2];
    rf_tensor product = rf_matmul(t, x, named(t, n, layer, "/kernel"), false, false);
    if (params.kind == RF_RNN_GRU) product = rf_bias_add(t, product, named(t, n, layer, "/input_bias"));
    (void)rf_rnn(t, product, named(t, n, layer, "/recurrent"), named(t, n, layer, "/bias"), NULL, &params, &sequence,
                 final);
    if (last) *last = final[0];
    return sequence;
}

static rf_tensor forward(rf_trace *t, rf_model *model, rf_tensor tokens, rf_mode mode, void *user)
{
    static int32_t padding[1] = { 0 };
    const network *n = user;
    (void)model;
    (void)mode;
    const rf_array none = array_i32(RF_SHAPE(1), padding);
    const rf_tensor mask = rf_compare(t, RF_NOT_EQUAL, tokens, rf_constant_array(t, &none));
    const rf_tensor x = rf_gather(t, named(t, n, "embeddings", ""), tokens, 0);
    const rf_tensor both[2] = {
        run(t, n, "forwards", x, (rf_rnn_params){ .kind = RF_RNN_LSTM, .mask = mask }, NULL),
        run(t, n, "backwards", x, (rf_rnn_params){ .kind = RF_RNN_LSTM, .backwards = true, .mask = mask }, NULL),
    };
    const rf_tensor joined = rf_concat(t, both, 2, -1);
    const rf_tensor gated = run(t, n, "gru", joined, (rf_rnn_params){ .kind = RF_RNN_GRU, .mask = mask }, NULL);
    rf_tensor last;
    (void)run(t, n, "simple", gated, (rf_rnn_params){ .kind = RF_RNN_SIMPLE, .mask = mask }, &last);
    return rf_matmul(t, last, named(t, n, "classifier", "/kernel"), false, false);
}

static rf_result train_step(rf_trace *t, const rf_tensor *in, rf_tensor *out, void *user)
{
    const network *n = user;
    const rf_tensor logits = rf_model_call(t, n->model, in[0], RF_TRAINING);
    out[0] = rf_compute_average_loss(t, rf_sparse_categorical_crossentropy(t, in[1], logits, true), NULL);
    (void)rf_optimizer_minimize(t, n->optimizer, out[0], rf_model_variables(n->model));
    return rf_trace_status(t);
}

static void create(rf_strategy *strategy, network *n)
{
    *n = (network){ .count = trajectory_reference.num_variables };
    assert_true(n->count <= MAX_VARIABLES);
    for (uint32_t i = 0; i < n->count; i++) {
        const trajectory_variable *v = &trajectory_reference.variables[i];
        n->names[i] = v->name;
        OK(rf_variable_create(strategy, &(rf_variable_params){ .name = v->name, .shape = v->shape }, &n->variables[i]));
    }
    OK(rf_model_create_custom(strategy, forward, n, &n->model));
    const rf_element_spec spec = {
        1, { RF_I32 }, { RF_SHAPE(-1, trajectory_example_shape(&trajectory_reference).dim[0]) }, { 0 }
    };
    OK(rf_model_build_inputs(n->model, &spec));
    OK(rf_optimizer_create(strategy, &(rf_optimizer_params){ .kind = RF_OPTIMIZER_ADAM }, &n->optimizer));
}

static void train(rf_strategy *strategy, double *losses)
{
    network n;
    rf_function *function;
    create(strategy, &n);
    OK(rf_function_create(strategy,
                          &(rf_function_params){ .step = train_step, .user = &n, .num_outputs = 1, .training = true },
                          &function));
    trajectory_assign(&trajectory_reference, n.model);
    trajectory_follow(&trajectory_reference, strategy, n.model, function, TRAJECTORY_MAX_STEPS, losses);
    OK(rf_strategy_check_identical(strategy, NULL, NULL));
    rf_function_destroy(&function);
    rf_optimizer_destroy(&n.optimizer);
    rf_model_destroy(&n.model);
    for (uint32_t i = 0; i < n.count; i++) rf_variable_destroy(&n.variables[i]);
}

static void follow(rf_strategy *strategy)
{
    trajectory_keep(strategy, train);
}
ON_LISTS(follow, _on_lavapipe, 0, 1, 1)
ON_LISTS(follow, _on_swiftshader, 1, 1, 1)

static void compare(rf_strategy *strategy)
{
    trajectory_compare(strategy, train);
}
ON_LISTS(compare, _one_driver_twice, 3, 1, 1)
ON_LISTS(compare, _two_drivers, 2, 1, 1)

int main(int argc, char **argv)
{
    const struct CMUnitTest driver_tests[] = { cmocka_unit_test(follow_on_lavapipe),
                                               cmocka_unit_test(follow_on_swiftshader),
                                               cmocka_unit_test(compare_two_drivers) };
    const struct CMUnitTest tests[] = { cmocka_unit_test(follow_on_lavapipe),
                                        cmocka_unit_test(compare_one_driver_twice) };
    if (argc > 1 && strcmp(argv[1], "drivers") == 0)
        return cmocka_run_group_tests(driver_tests, trajectory_open, trajectory_close);
    return cmocka_run_group_tests(tests, trajectory_open, trajectory_close);
}
