/* SPDX-License-Identifier: Apache-2.0 */
#include "base/error.h"
#include "train/fit/compile.h"
#include "train/metrics/logs.h"

static rf_result evaluate_batches(rf_compiled *c, rf_iterator *iterator, bool *stopped)
{
    const rf_strategy *s = c->model->strategy;
    const bool before = rf_strategy_stop_agreed(s);
    while (!*stopped) {
        const rf_element *batch;
        const rf_result r = rf_iterator_next(iterator, &batch);
        if (r == RF_END) return RF_OK;
        RF_TRY(r);
        RF_TRY(rf_run_batch(c, c->evaluate, &c->evaluate_meters, batch));
        *stopped = !before && rf_strategy_stop_agreed(s);
    }
    return RF_OK;
}

rf_result rf_evaluate_pass(rf_compiled *compiled, const rf_dataset *data, const char *argument, bool *stopped)
{
    *stopped = false;
    RF_REQUIRE(rf_dataset_cardinality(data) != RF_CARDINALITY_INFINITE,
               "%s is infinite; limit it with rf_dataset_take()", argument);
    RF_TRY(rf_meters_reset(&compiled->evaluate_meters));
    rf_iterator *iterator;
    RF_TRY(rf_iterator_create(data, 0, &iterator));
    const rf_result r = evaluate_batches(compiled, iterator, stopped);
    rf_iterator_destroy(&iterator);
    RF_TRY(r);
    RF_REQUIRE(compiled->evaluate_meters.examples > 0, "%s has no elements", argument);
    return RF_OK;
}

rf_result rf_model_evaluate(rf_model *model, const rf_dataset *data, rf_logs *out)
{
    RF_REQUIRE(out, "rf_model_evaluate: out is NULL");
    *out = (rf_logs){ 0 };
    RF_REQUIRE(model, "rf_model_evaluate: model is NULL");
    RF_TRY(rf_model_check_alive(model, "rf_model_evaluate"));
    RF_REQUIRE(model->compiled, "rf_model_evaluate: model is not compiled; call rf_model_compile() first");
    RF_TRY(rf_check_dataset(model, data, true, "rf_model_evaluate: data"));
    rf_dataset *own;
    bool stopped;
    RF_TRY(rf_strategy_distribute_dataset(model->strategy, data, NULL, &own));
    const rf_result r = rf_evaluate_pass(model->compiled, own, "rf_model_evaluate: data", &stopped);
    rf_dataset_destroy(&own);
    RF_TRY(r);
    if (stopped) return RF_FAIL(RF_ERROR_CANCELLED, "rf_model_evaluate: stopped on request before the end of data");
    RF_TRY(rf_meters_read(&model->compiled->evaluate_meters, model->compiled->names, out));
    return rf_logs_check_finite(out, "loss", "rf_model_evaluate");
}
