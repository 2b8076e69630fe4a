/* SPDX-License-Identifier: Apache-2.0 */
/* A network with NaN among its weights does not train as if nothing were wrong, whatever stands between them and the
 * loss. */
#include "../support/strategies.h"
#include "tests/room.h"

enum { SIDE = 6, CLASSES = 3, EXAMPLES = 16, BATCH = 8 };

typedef struct network {
    rf_model *model;
    rf_optimizer *optimizer;
    rf_dataset *data;
    float x[EXAMPLES * SIDE * SIDE];
    int32_t y[EXAMPLES];
} network;

static void open_data(network *n)
{
    fill_noise(n->x, sizeof(n->x) / sizeof(n->x[0]), 5);
    for (int i = 0; i < EXAMPLES; i++) n->y[i] = i % CLASSES;
    const rf_array arrays[] = { array_f32(RF_SHAPE(EXAMPLES, SIDE, SIDE, 1), n->x),
                                array_i32(RF_SHAPE(EXAMPLES), n->y) };
    rf_dataset *slices;
    OK(rf_dataset_from_arrays(&(rf_dataset_arrays_params){ .arrays = arrays, .num_arrays = 2 }, &slices));
    OK(rf_dataset_batch(slices, BATCH, RF_REMAINDER_KEEP, &n->data));
    rf_dataset_destroy(&slices);
}

/* Convolution, pooling and two dense layers; the last gives logits or probabilities. */
static void open_network(rf_strategy *strategy, network *n, rf_activation activation, bool logits)
{
    open_data(n);
    rf_layer *l[5];
    OK(rf_layer_conv2d(
        &(rf_conv2d_layer_params){ .filters = 4, .kernel_size = { 3 }, .activation = activation, .name = "conv" },
        &l[0]));
    OK(rf_layer_max_pool2d(NULL, &l[1]));
    OK(rf_layer_flatten(&l[2]));
    OK(rf_layer_dense(&(rf_dense_params){ .units = 8, .activation = activation, .name = "hidden" }, &l[3]));
    OK(rf_layer_dense(
        &(rf_dense_params){ .units = CLASSES, .activation = logits ? RF_ACTIVATION_LINEAR : RF_ACTIVATION_SOFTMAX },
        &l[4]));
    OK(rf_model_create_sequential(strategy, l, 5, &RF_SHAPE(SIDE, SIDE, 1), &n->model));
    OK(rf_optimizer_create(strategy, &(rf_optimizer_params){ .kind = RF_OPTIMIZER_SGD, .learning_rate = 0.01 },
                           &n->optimizer));
    OK(rf_model_compile(n->model,
                        &(rf_compile_params){ .optimizer = n->optimizer, .loss = { .from_logits = logits } }));
}

static void close_network(network *n)
{
    rf_model_destroy(&n->model);
    rf_optimizer_destroy(&n->optimizer);
    rf_dataset_destroy(&n->data);
}

/* Small numbers in all variables, but for the first element of one of them. */
static void set_variables(const network *n, uint32_t variable, float first)
{
    const rf_variable_list all = rf_model_variables(n->model);
    for (uint32_t v = 0; v < all.count; v++) {
        const size_t count = (size_t)rf_shape_count(rf_variable_shape(all.items[v]));
        float *values = calloc(count, sizeof(float));
        assert_non_null(values);
        fill_noise(values, count, 7 + v);
        if (v == variable) values[0] = first;
        OK(rf_variable_assign(all.items[v], values));
        free(values);
    }
}

static const rf_activation activations[] = { RF_ACTIVATION_LINEAR,  RF_ACTIVATION_RELU, RF_ACTIVATION_LEAKY_RELU,
                                             RF_ACTIVATION_SIGMOID, RF_ACTIVATION_TANH, RF_ACTIVATION_GELU };

static void nan_weight_ends_fit(rf_strategy *strategy)
{
    for (size_t i = 0; i < sizeof(activations) / sizeof(activations[0]); i++) {
        network n;
        open_network(strategy, &n, activations[i], i % 2 == 0);
        const rf_fit_params params = { .data = n.data, .epochs = 1 };
        set_variables(&n, 0, 0.5f);
        OK(rf_model_fit(n.model, &params, NULL));
        for (uint32_t variable = 0; variable < 4; variable += 2) { /* the kernels of "conv" and of "hidden" */
            set_variables(&n, variable, NAN);
            FAILS(rf_model_fit(n.model, &params, NULL), RF_ERROR_NOT_FINITE, "the loss is ");
        }
        close_network(&n);
    }
}

TEST_ON_LISTS(nan_weight_ends_fit, _on_lavapipe, 0, 1, 1)
TEST_ON_LISTS(nan_weight_ends_fit, _on_swiftshader, 1, 1, 1)

TESTS(not_finite, NULL, NULL)
