/* SPDX-License-Identifier: Apache-2.0 */
#include "epoch_bar.h"

#include <stdio.h>

#include "common.h"

static rf_result begin_bar(void *user, rf_fit_state *state)
{
    epoch_bar *e = user;
    snprintf(e->label, sizeof(e->label), "Epoch %u/%u", state->epoch + 1, state->num_epochs);
    e->seen = 0;
    progress_begin(&e->bar, e->label, e->total, e->visible);
    return RF_OK;
}

static rf_result advance_bar(void *user, rf_fit_state *state, const rf_logs *logs)
{
    epoch_bar *e = user;
    double loss = 0, accuracy = 0;
    char status[64];
    e->seen += state->batch_examples;
    rf_logs_get(logs, "loss", &loss);
    rf_logs_get(logs, "accuracy", &accuracy);
    snprintf(status, sizeof(status), "loss %.4f  accuracy %.2f %%", loss, 100 * accuracy);
    progress_update(&e->bar, e->seen, status);
    return RF_OK;
}

static rf_result end_bar(void *user, rf_fit_state *state, const rf_logs *logs)
{
    epoch_bar *e = user;
    (void)progress_end(&e->bar);
    example_print("Epoch %u/%u: ", state->epoch + 1, state->num_epochs);
    for (uint32_t i = 0; i < logs->count; i++)
        example_print("%s%s: %.4g", i ? ", " : "", logs->name[i], logs->value[i]);
    example_print("\n");
    return RF_OK;
}

rf_result epoch_bar_create_callback(epoch_bar *bar, rf_callback **out)
{
    return rf_callback_create(
        &(rf_callback_fns){ .on_epoch_begin = begin_bar, .on_batch_end = advance_bar, .on_epoch_end = end_bar }, bar,
        out);
}
