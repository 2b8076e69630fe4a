/* SPDX-License-Identifier: Apache-2.0 */
#include "nmt_training.h"

typedef struct training {
    nmt *nmt;
    rf_optimizer *optimizer;
} training;

static rf_result train_step(rf_trace *t, const rf_tensor *in, rf_tensor *out, void *user)
{
    const training *tr = user;
    const rf_tensor logits = nmt_call(t, tr->nmt, in[0], in[1], RF_TRAINING, NULL);
    out[0] = rf_compute_average_loss(t, nmt_loss(t, in[2], logits), NULL);
    (void)rf_optimizer_minimize(t, tr->optimizer, out[0], rf_model_variables(nmt_model(tr->nmt)));
    return rf_trace_status(t);
}

static void train(rf_strategy *strategy, double *losses)
{
    training tr;
    rf_function *function;
    OK(nmt_create(strategy, &nmt_followed, &tr.nmt));
    OK(rf_optimizer_create(strategy, &(rf_optimizer_params){ .kind = RF_OPTIMIZER_ADAM }, &tr.optimizer));
    OK(rf_function_create(strategy,
                          &(rf_function_params){ .step = train_step, .user = &tr, .num_outputs = 1, .training = true },
                          &function));
    trajectory_assign(&trajectory_reference, nmt_model(tr.nmt));
    trajectory_follow(&trajectory_reference, strategy, nmt_model(tr.nmt), function, TRAJECTORY_MAX_STEPS, losses);
    OK(rf_strategy_check_identical(strategy, NULL, NULL));
    rf_function_destroy(&function);
    rf_optimizer_destroy(&tr.optimizer);
    nmt_destroy(&tr.nmt);
}

void nmt_follow(rf_strategy *strategy)
{
    trajectory_keep(strategy, train);
}

void nmt_compare(rf_strategy *strategy)
{
    trajectory_compare(strategy, train);
}
