/* SPDX-License-Identifier: Apache-2.0 */
/* A linear model from variables and operations alone, without layers: 100 steps on made-up data. */
#include <math.h>
#include <stdlib.h>

#include "common/common.h"

enum { FEATURES = 784, CLASSES = 10, STEPS = 100 };

typedef struct app {
    rf_variable *weights, *biases;
    rf_optimizer *optimizer;
} app;

static rf_result train_step(rf_trace *t, const rf_tensor *in, rf_tensor *out, void *user)
{
    const app *a = user;
    const rf_tensor product = rf_matmul(t, in[0], rf_variable_tensor(t, a->weights), false, false);
    const rf_tensor logits = rf_add(t, product, rf_variable_tensor(t, a->biases));
    const rf_tensor losses = rf_categorical_crossentropy(t, in[1], logits, true);
    out[0] = rf_compute_average_loss(t, losses, NULL);
    rf_variable *const variables[] = { a->weights, a->biases };
    rf_optimizer_minimize(t, a->optimizer, out[0], (rf_variable_list){ variables, 2 });
    return rf_trace_status(t);
}

/* Small linear congruential generator (Knuth's MMIX constants): data, not cryptography. */
static double uniform(uint64_t *state)
{
    *state = *state * 6364136223846793005ull + 1442695040888963407ull;
    return ((double)(*state >> 11) + 0.5) * 0x1p-53;
}

static void fill_batch(float *images, float *labels, uint32_t batch, uint64_t seed)
{
    for (uint32_t i = 0; i < batch; i++) {
        for (int j = 0; j < FEATURES; j++)
            images[i * FEATURES + j] =
                (float)(sqrt(-2 * log(uniform(&seed))) * cos(6.283185307179586 * uniform(&seed)));
        labels[i * CLASSES + (int)(uniform(&seed) * CLASSES)] = 1;
    }
}

static int train(const example_options *options, rf_strategy *strategy, app *a, float *images, float *labels,
                 uint32_t batch)
{
    fill_batch(images, labels, batch, options->seed);
    const rf_element data = {
        2, { { RF_F32, RF_SHAPE(batch, FEATURES), images }, { RF_F32, RF_SHAPE(batch, CLASSES), labels } }
    };
    rf_function *step;
    TRY(rf_function_create(
        strategy,
        &(rf_function_params){
            .step = train_step, .user = a, .num_outputs = 1, .training = true, .name = "train_step" },
        &step));
    for (int i = 0; i < STEPS; i++) {
        rf_per_replica *results[1];
        float loss;
        TRY(rf_strategy_run(strategy, step, &data, results));
        TRY(rf_strategy_reduce(strategy, RF_REDUCE_SUM, results[0], &loss));
        if (i % 10 == 0) printf("step %d, loss: %.4f\n", i, (double)loss);
    }
    rf_function_destroy(&step);
    return 0;
}

static int run(const example_options *options)
{
    rf_strategy *strategy = NULL;
    app a = { 0 };
    if (example_create_strategy(options, &strategy) < 0) return -1;
    TRY(rf_variable_create(strategy,
                           &(rf_variable_params){ .name = "weights",
                                                  .shape = RF_SHAPE(FEATURES, CLASSES),
                                                  .initializer = { RF_INIT_RANDOM_NORMAL, 0, 1, 0 } },
                           &a.weights));
    TRY(rf_variable_create(
        strategy,
        &(rf_variable_params){ .name = "biases", .shape = RF_SHAPE(CLASSES), .initializer = { .kind = RF_INIT_ZEROS } },
        &a.biases));
    TRY(rf_optimizer_create(
        strategy, &(rf_optimizer_params){ .kind = RF_OPTIMIZER_ADAM, .learning_rate = options->learning_rate },
        &a.optimizer));
    const uint32_t batch = options->batch_size * rf_strategy_num_replicas_in_sync(strategy);
    float *images = calloc((size_t)batch * FEATURES, sizeof(float)),
          *labels = calloc((size_t)batch * CLASSES, sizeof(float));
    const int result = images && labels ? train(options, strategy, &a, images, labels, batch) : -1;
    free(images);
    free(labels);
    rf_optimizer_destroy(&a.optimizer);
    rf_variable_destroy(&a.biases);
    rf_variable_destroy(&a.weights);
    rf_strategy_destroy(&strategy);
    return result;
}

int main(int argc, char **argv)
{
    example_options options = { 0 };
    example_parse(argc, argv, "Trains a linear model made of variables and operations on random data.", "dbsr",
                  &options);
    return run(&options) == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
