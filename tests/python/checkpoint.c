/* SPDX-License-Identifier: Apache-2.0 */
/* The C side of checkpoints that Python shares: a variable and an optimizer, updated so many times.
 * Usage: checkpoint save|restore PATH UPDATES. Prints the variable and the number of updates. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <ringfire/ringfire.h>

typedef struct app {
    rf_strategy *strategy;
    rf_variable *weight;
    rf_optimizer *optimizer;
    rf_function *function;
    rf_checkpoint *checkpoint;
} app;

static rf_result step(rf_trace *t, const rf_tensor *in, rf_tensor *out, void *user)
{
    const app *a = user;
    (void)out;
    const rf_tensor product = rf_multiply(t, in[0], rf_variable_tensor(t, a->weight));
    const rf_tensor loss = rf_compute_average_loss(t, rf_mean_squared_error(t, in[0], product), NULL);
    rf_optimizer_minimize(t, a->optimizer, loss, (rf_variable_list){ &a->weight, 1 });
    return rf_trace_status(t);
}

static rf_result create(app *a)
{
    const float start[2] = { 0.5F, -1 };
    const rf_variable_params weight = { .name = "weight", .shape = RF_SHAPE(2), .value = start };
    const rf_optimizer_params adam = { .kind = RF_OPTIMIZER_ADAM, .learning_rate = 0.1 };
    rf_result r = rf_strategy_create_one_device(NULL, &a->strategy);
    if (r >= 0) r = rf_variable_create(a->strategy, &weight, &a->weight);
    if (r >= 0) r = rf_optimizer_create(a->strategy, &adam, &a->optimizer);
    if (r >= 0)
        r = rf_function_create(a->strategy, &(rf_function_params){ .step = step, .user = a, .training = true },
                               &a->function);
    if (r >= 0) r = rf_checkpoint_create(a->strategy, &a->checkpoint);
    if (r >= 0) r = rf_checkpoint_add_variable(a->checkpoint, "weight", a->weight);
    return r < 0 ? r : rf_checkpoint_add_optimizer(a->checkpoint, "optimizer", a->optimizer);
}

static rf_result run(app *a, const char *what, const char *path, int updates)
{
    float x[2] = { 1, 2 }, values[2];
    const rf_element batch = { .num_components = 1, .component = { { RF_F32, RF_SHAPE(1, 2), x } } };
    rf_result r = create(a);
    if (r >= 0 && strcmp(what, "restore") == 0) r = rf_checkpoint_restore(a->checkpoint, path, NULL);
    for (int i = 0; r >= 0 && i < updates; i++) r = rf_strategy_run(a->strategy, a->function, &batch, NULL);
    if (r >= 0 && strcmp(what, "save") == 0) r = rf_checkpoint_save(a->checkpoint, path, NULL);
    if (r >= 0) r = rf_variable_read(a->weight, values);
    if (r >= 0)
        printf("%a %a %llu\n", (double)values[0], (double)values[1],
               (unsigned long long)rf_optimizer_iterations(a->optimizer));
    return r;
}

int main(int argc, char **argv)
{
    app a = { 0 };
    if (argc != 4) return 2;
    const rf_result r = run(&a, argv[1], argv[2], atoi(argv[3]));
    if (r < 0) fprintf(stderr, "%s\n", rf_error_message());
    rf_checkpoint_destroy(&a.checkpoint);
    rf_function_destroy(&a.function);
    rf_optimizer_destroy(&a.optimizer);
    rf_variable_destroy(&a.weight);
    rf_strategy_destroy(&a.strategy);
    return r < 0 ? 1 : 0;
}
