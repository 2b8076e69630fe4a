/* SPDX-License-Identifier: Apache-2.0 */
/* The meters of fit and evaluate. */
#include <stdio.h>

#include "base/error.h"
#include "trace/trace.h"
#include "train/metrics/logs.h"
#include "train/metrics/metric.h"

rf_result rf_meters_create(rf_strategy *strategy, const rf_metric_params *metrics, uint32_t num_metrics,
                           uint32_t num_output_losses, rf_meters *out)
{
    *out = (rf_meters){ 0 };
    rf_result r = rf_metric_create(strategy, &(rf_metric_params){ .kind = RF_METRIC_SUM, .name = "loss" }, &out->loss);
    for (uint32_t i = 0; i < num_output_losses && r == RF_OK; i++) {
        char name[32];
        snprintf(name, sizeof(name), "loss_%u", i);
        r = rf_metric_create(strategy, &(rf_metric_params){ .kind = RF_METRIC_SUM, .name = name },
                             &out->output_losses[i]);
        if (r == RF_OK) out->num_output_losses++;
    }
    for (uint32_t i = 0; i < num_metrics && r == RF_OK; i++) {
        r = rf_metric_create(strategy, &metrics[i], &out->metrics[i]);
        if (r == RF_OK) out->num_metrics++;
    }
    if (r < 0) rf_meters_destroy(out);
    return r;
}

void rf_meters_destroy(rf_meters *meters)
{
    rf_metric_destroy(&meters->loss);
    for (uint32_t i = 0; i < meters->num_output_losses; i++) rf_metric_destroy(&meters->output_losses[i]);
    for (uint32_t i = 0; i < meters->num_metrics; i++) rf_metric_destroy(&meters->metrics[i]);
    *meters = (rf_meters){ 0 };
}

rf_result rf_meters_reset(rf_meters *meters)
{
    meters->examples = 0;
    RF_TRY(rf_metric_reset(meters->loss));
    for (uint32_t i = 0; i < meters->num_output_losses; i++) RF_TRY(rf_metric_reset(meters->output_losses[i]));
    for (uint32_t i = 0; i < meters->num_metrics; i++) RF_TRY(rf_metric_reset(meters->metrics[i]));
    return RF_OK;
}

rf_result rf_meters_add_loss(rf_trace *t, rf_meters *meters, rf_tensor losses)
{
    return rf_metric_update(t, meters->loss, RF_NO_TENSOR, losses, RF_NO_TENSOR);
}

rf_result rf_meters_add_output_loss(rf_trace *t, rf_meters *meters, uint32_t output, rf_tensor losses)
{
    return rf_metric_update(t, meters->output_losses[output], RF_NO_TENSOR, losses, RF_NO_TENSOR);
}

rf_result rf_meters_update(rf_trace *t, rf_meters *meters, uint32_t metric, rf_tensor labels, rf_tensor predictions,
                           rf_tensor weight)
{
    return rf_metric_update(t, meters->metrics[metric], labels, predictions, weight);
}

uint32_t rf_meters_count(const rf_meters *meters)
{
    return 1 + meters->num_output_losses + meters->num_metrics;
}

static rf_result read_mean(const rf_meters *meters, rf_metric *loss, const char *name, rf_logs *logs)
{
    double value;
    RF_TRY(rf_metric_result(loss, &value));
    rf_logs_add(logs, name, meters->examples > 0 ? value / (double)meters->examples : 0.0);
    return RF_OK;
}

rf_result rf_meters_read(rf_meters *meters, const char *const *names, rf_logs *logs)
{
    RF_TRY(read_mean(meters, meters->loss, *names++, logs));
    for (uint32_t i = 0; i < meters->num_output_losses; i++)
        RF_TRY(read_mean(meters, meters->output_losses[i], *names++, logs));
    for (uint32_t i = 0; i < meters->num_metrics; i++) {
        double value;
        RF_TRY(rf_metric_result(meters->metrics[i], &value));
        rf_logs_add(logs, *names++, value);
    }
    return RF_OK;
}
