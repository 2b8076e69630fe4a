/* SPDX-License-Identifier: Apache-2.0 */
/* The C side of overhead.py: trains a small network, and prints the microseconds that
 * its thread computes for a step, for each line that it reads from its input. Usage: overhead STEPS */
#include <stdio.h>
#include <stdlib.h>

#include <time.h>

#include <ringfire/ringfire.h>

enum { BATCH = 32, INPUTS = 64, HIDDEN = 64, CLASSES = 10, EXAMPLES = 64 * BATCH };

typedef struct app {
    rf_strategy *strategy;
    rf_variable *weights[4];
    rf_optimizer *optimizer;
    rf_function *function;
    rf_dataset *data;
} app;

static rf_result step(rf_trace *t, const rf_tensor *in, rf_tensor *out, void *user)
{
    const app *a = user;
    rf_tensor w[4];
    for (int i = 0; i < 4; i++) w[i] = rf_variable_tensor(t, a->weights[i]);
    const rf_tensor hidden = rf_relu(t, rf_bias_add(t, rf_matmul(t, in[0], w[0], RF_TRANSPOSE_NONE), w[1]));
    const rf_tensor logits = rf_bias_add(t, rf_matmul(t, hidden, w[2], RF_TRANSPOSE_NONE), w[3]);
    out[0] = rf_compute_average_loss(t, rf_sparse_categorical_crossentropy(t, in[1], logits, true), NULL);
    rf_optimizer_minimize(t, a->optimizer, out[0], (rf_variable_list){ a->weights, 4 });
    return rf_trace_status(t);
}

static rf_result create_data(app *a)
{
    static float images[EXAMPLES][INPUTS];
    static int32_t labels[EXAMPLES];
    for (int i = 0; i < EXAMPLES; i++) labels[i] = i % CLASSES;
    const rf_array arrays[2] = { { RF_F32, RF_SHAPE(EXAMPLES, INPUTS), images },
                                 { RF_I32, RF_SHAPE(EXAMPLES), labels } };
    rf_dataset *examples;
    rf_result r = rf_dataset_from_arrays(&(rf_dataset_arrays_params){ .arrays = arrays, .num_arrays = 2 }, &examples);
    if (r >= 0) r = rf_dataset_batch(examples, BATCH, false, &a->data);
    rf_dataset_destroy(&examples);
    return r;
}

static rf_result create(app *a)
{
    const rf_shape shapes[4] = { RF_SHAPE(INPUTS, HIDDEN), RF_SHAPE(HIDDEN), RF_SHAPE(HIDDEN, CLASSES),
                                 RF_SHAPE(CLASSES) };
    rf_result r = rf_strategy_create_one_device(NULL, &a->strategy);
    for (int i = 0; r >= 0 && i < 4; i++)
        r = rf_variable_create(a->strategy, &(rf_variable_params){ .shape = shapes[i] }, &a->weights[i]);
    if (r >= 0) r = rf_optimizer_create(a->strategy, NULL, &a->optimizer);
    if (r >= 0)
        r = rf_function_create(a->strategy,
                               &(rf_function_params){ .step = step, .user = a, .num_outputs = 1, .training = true },
                               &a->function);
    return r < 0 ? r : create_data(a);
}

static rf_result train(app *a, int steps)
{
    rf_iterator *it = NULL;
    const rf_element *batch;
    rf_per_replica *results[1];
    float loss;
    rf_result r = RF_END;
    for (int i = 0; i < steps; i++) {
        if (r == RF_END) {
            rf_iterator_destroy(&it);
            if ((r = rf_iterator_create(a->data, 0, &it)) < 0) break;
        }
        if ((r = rf_iterator_next(it, &batch)) < 0) break;
        if (r == RF_END) {
            i--;
            continue;
        }
        if ((r = rf_strategy_run(a->strategy, a->function, batch, results)) < 0) break;
        if ((r = rf_strategy_reduce(a->strategy, RF_REDUCE_SUM, results[0], &loss)) < 0) break;
    }
    rf_iterator_destroy(&it);
    return r;
}

int main(int argc, char **argv)
{
    app a = { 0 };
    const int steps = argc == 2 ? atoi(argv[1]) : 0;
    rf_result r = create(&a);
    while (r >= 0 && getchar() != EOF) {
        struct timespec begin, end;
        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &begin);
        r = train(&a, steps);
        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &end);
        printf("%f\n",
               ((double)(end.tv_sec - begin.tv_sec) * 1e6 + (double)(end.tv_nsec - begin.tv_nsec) * 1e-3) / steps);
        fflush(stdout);
    }
    if (r < 0) fprintf(stderr, "%s\n", rf_error_message());
    rf_function_destroy(&a.function);
    rf_optimizer_destroy(&a.optimizer);
    for (int i = 0; i < 4; i++) rf_variable_destroy(&a.weights[i]);
    rf_dataset_destroy(&a.data);
    rf_strategy_destroy(&a.strategy);
    return r < 0 ? 1 : 0;
}
