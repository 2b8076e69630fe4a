/* SPDX-License-Identifier: Apache-2.0 */
/* A linear model made of variables and operations, without layers: 100 steps on generated data. */
#include <math.h>
#include <stdlib.h>

#include "common/common.h"

enum { FEATURES = 784, CLASSES = 10, STEPS = 100 };

typedef struct app {
    rf_strategy *strategy;
    rf_function *step;
    float *images, *labels;
    rf_variable *weights, *biases;
    rf_optimizer *optimizer;
} app;

static rf_result train_step(rf_trace *t, const rf_tensor *in, rf_tensor *out, void *user)
{
    const app *a = user;
    const rf_tensor product = rf_matmul(t, in[0], rf_variable_tensor(t, a->weights), RF_TRANSPOSE_NONE);
    const rf_tensor logits = rf_add(t, product, rf_variable_tensor(t, a->biases));
    const rf_tensor losses = rf_categorical_crossentropy(t, in[1], logits, RF_LOGITS);
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

static int train(const example_options *options, app *a, uint32_t batch)
{
    fill_batch(a->images, a->labels, batch, options->seed);
    const rf_element data = {
        2, { { RF_F32, RF_SHAPE(batch, FEATURES), a->images }, { RF_F32, RF_SHAPE(batch, CLASSES), a->labels } }
    };
    TRY(rf_function_create(
        a->strategy,
        &(rf_function_params){
            .step = train_step, .user = a, .num_outputs = 1, .training = true, .name = "train_step" },
        &a->step));
    for (int i = 0; i < STEPS; i++) {
        rf_per_replica *results[1];
        float loss;
        TRY(rf_strategy_run(a->strategy, a->step, &data, results));
        TRY(rf_strategy_reduce(a->strategy, RF_REDUCE_SUM, results[0], &loss));
        if (example_check_loss((double)loss, 0, (uint64_t)i + 1) < 0) return -1;
        if (rf_strategy_stop_agreed(a->strategy)) break;
        if (i % 10 == 0) example_print("step %d, loss: %.4f\n", i, (double)loss);
    }
    return 0;
}

static int run(const example_options *options, app *a)
{
    if (example_create_strategy(options, &a->strategy) < 0) return -1;
    TRY(rf_variable_create(a->strategy,
                           &(rf_variable_params){ .name = "weights",
                                                  .shape = RF_SHAPE(FEATURES, CLASSES),
                                                  .initializer = { RF_INIT_RANDOM_NORMAL, 0, 1, 0 } },
                           &a->weights));
    TRY(rf_variable_create(
        a->strategy,
        &(rf_variable_params){ .name = "biases", .shape = RF_SHAPE(CLASSES), .initializer = { .kind = RF_INIT_ZEROS } },
        &a->biases));
    TRY(rf_optimizer_create(
        a->strategy, &(rf_optimizer_params){ .kind = RF_OPTIMIZER_ADAM, .learning_rate = options->learning_rate },
        &a->optimizer));
    const uint32_t batch = options->batch_size * rf_strategy_num_replicas_in_sync(a->strategy);
    a->images = calloc((size_t)batch * FEATURES, sizeof(float));
    a->labels = calloc((size_t)batch * CLASSES, sizeof(float));
    if (!a->images || !a->labels) {
        fprintf(stderr, "linear_model: no memory for a batch of %u\n", batch);
        return -1;
    }
    return train(options, a, batch);
}

static void destroy(app *a)
{
    free(a->images);
    free(a->labels);
    rf_function_destroy(&a->step);
    rf_optimizer_destroy(&a->optimizer);
    rf_variable_destroy(&a->biases);
    rf_variable_destroy(&a->weights);
    example_destroy_strategy(&a->strategy);
}

int main(int argc, char **argv)
{
    example_options options = { 0 };
    example_parse(argc, argv, "Trains a linear model made of variables and operations on random data.", "dbsrB",
                  &options);
    app a = { 0 };
    const int result = run(&options, &a);
    destroy(&a);
    return example_exit_status(result);
}
