/* SPDX-License-Identifier: Apache-2.0 */
/* A program outside of the tree: fits y = 2 x with one variable, on all devices of its job. */
#include <math.h>
#include <stdio.h>

#include <ringfire/ringfire.h>

struct app {
    rf_variable *slope;
    rf_optimizer *optimizer;
};

static rf_result step(rf_trace *t, const rf_tensor *in, rf_tensor *out, void *user)
{
    struct app *a = user;
    rf_tensor product = rf_multiply(t, in[0], rf_variable_tensor(t, a->slope));
    out[0] = rf_compute_average_loss(t, rf_mean_squared_error(t, in[1], product), NULL);
    rf_optimizer_minimize(t, a->optimizer, out[0], (rf_variable_list){ &a->slope, 1 });
    return rf_trace_status(t);
}

#define NEED(x)                                                                                                        \
    do {                                                                                                               \
        if ((x) < 0) {                                                                                                 \
            fprintf(stderr, "%s\n", rf_error_message());                                                               \
            return 1;                                                                                                  \
        }                                                                                                              \
    } while (0)

int main(void)
{
    float x[4] = { 1, 2, 3, 4 }, y[4] = { 2, 4, 6, 8 }, slope;
    rf_strategy *strategy;
    rf_function *function;
    struct app a;
    NEED(rf_strategy_create_multi_worker(NULL, &strategy));
    NEED(rf_variable_create(strategy, &(rf_variable_params){ .name = "slope", .shape = RF_SHAPE(1) }, &a.slope));
    NEED(rf_optimizer_create(strategy, &(rf_optimizer_params){ .learning_rate = 0.05 }, &a.optimizer));
    NEED(rf_function_create(
        strategy, &(rf_function_params){ .step = step, .user = &a, .num_outputs = 1, .training = true }, &function));
    rf_element batch = { .num_components = 2,
                         .component = { { RF_F32, RF_SHAPE(4, 1), x }, { RF_F32, RF_SHAPE(4, 1), y } } };
    for (int i = 0; i < 40; i++) NEED(rf_strategy_run(strategy, function, &batch, NULL));
    NEED(rf_variable_read(a.slope, &slope));
    printf("ringfire %s, %u devices, slope %f\n", rf_version_string(), rf_strategy_num_replicas_in_sync(strategy),
           slope);
    rf_function_destroy(&function);
    rf_optimizer_destroy(&a.optimizer);
    rf_variable_destroy(&a.slope);
    rf_strategy_destroy(&strategy);
    return fabsf(slope - 2) < 0.01f ? 0 : 1;
}
