/* SPDX-License-Identifier: Apache-2.0 */
#include "train/fit/compile.h"

#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/params.h"
#include "train/loss.h"
#include "train/optimizer/optimizer.h"
#include "train/trace_util.h"

static bool regularized(const rf_model *model)
{
    for (uint32_t i = 0; i < rf_model_num_layers(model); i++)
        if (rf_layer_is_regularized(rf_model_layer(model, i))) return true;
    return false;
}

/* Applies the model, updates the meters and returns this replica's part of the loss of the global batch, regularisation
 * included. */
static rf_tensor forward(rf_trace *t, rf_compiled *c, const rf_tensor *in, rf_mode mode, rf_meters *meters)
{
    const rf_tensor weight = c->num_components > 2 ? in[2] : RF_NO_TENSOR;
    const rf_tensor predictions = rf_model_call(t, c->model, in[0], mode);
    rf_tensor measured, loss = rf_loss_total(t, &c->loss, in[1], predictions, weight, &measured);
    (void)rf_meters_update(t, meters, measured, in[1], predictions);
    if (regularized(c->model)) {
        const rf_tensor penalty = rf_scale_regularization_loss(t, rf_model_regularization_loss(t, c->model));
        (void)rf_meters_add_loss(t, meters, rf_multiply(t, penalty, rf_global_batch_size(t)));
        loss = rf_add(t, loss, penalty);
    }
    return loss;
}

static rf_result train_step(rf_trace *t, const rf_tensor *in, rf_tensor *out, void *user)
{
    rf_compiled *c = user;
    (void)out;
    const rf_tensor loss = forward(t, c, in, RF_TRAINING, &c->train_meters);
    return rf_optimizer_minimize(t, c->optimizer, loss, rf_model_variables(c->model));
}

static rf_result evaluate_step(rf_trace *t, const rf_tensor *in, rf_tensor *out, void *user)
{
    rf_compiled *c = user;
    (void)out;
    (void)forward(t, c, in, RF_INFERENCE, &c->evaluate_meters);
    return rf_trace_status(t);
}

void rf_compiled_destroy(rf_compiled **compiled)
{
    if (!compiled || !*compiled) return;
    rf_function_destroy(&(*compiled)->train);
    rf_function_destroy(&(*compiled)->evaluate);
    rf_meters_destroy(&(*compiled)->train_meters);
    rf_meters_destroy(&(*compiled)->evaluate_meters);
    rf_optimizer_release((*compiled)->optimizer);
    rf_free(*compiled);
    *compiled = NULL;
}

static rf_result check_params(const rf_model *model, const rf_compile_params *params)
{
    RF_REQUIRE(model, "rf_model_compile: model is NULL");
    RF_TRY(rf_model_check_alive(model, "rf_model_compile"));
    RF_REQUIRE(params, "rf_model_compile: params is NULL; an optimizer is needed");
    RF_REQUIRE(params->optimizer, "rf_model_compile: optimizer is NULL");
    RF_REQUIRE(rf_optimizer_strategy(params->optimizer) == model->strategy,
               "rf_model_compile: optimizer was created on another strategy than the model");
    RF_TRY(rf_loss_check(&params->loss, "rf_model_compile"));
    RF_REQUIRE(params->loss.reduction != RF_REDUCTION_NONE,
               "rf_model_compile: loss.reduction NONE gives no scalar to minimise; leave it at RF_REDUCTION_AUTO");
    RF_REQUIRE(params->num_metrics <= RF_MAX_COMPILED_METRICS, "rf_model_compile: num_metrics %u is over %d",
               params->num_metrics, (int)RF_MAX_COMPILED_METRICS);
    RF_REQUIRE(params->num_metrics == 0 || params->metrics, "rf_model_compile: metrics is NULL but num_metrics is %u",
               params->num_metrics);
    for (uint32_t i = 0; i < params->num_metrics; i++) {
        RF_REQUIRE(rf_metric_compares(params->metrics[i]),
                   "rf_model_compile: metrics[%u] does not compare labels with predictions; use it in a custom step",
                   i);
        for (uint32_t j = 0; j < i; j++) {
            RF_REQUIRE(params->metrics[i] != params->metrics[j], "rf_model_compile: metrics[%u] repeats metrics[%u]", i,
                       j);
        }
    }
    return RF_OK;
}

/* One accuracy is called "accuracy", as in Keras; where several kinds are compiled they have their full names. */
static const char *name_metric(const rf_compile_params *params, uint32_t index)
{
    uint32_t accuracies = 0;
    for (uint32_t i = 0; i < params->num_metrics; i++) accuracies += rf_metric_is_accuracy(params->metrics[i]);
    const bool alone = accuracies == 1 && rf_metric_is_accuracy(params->metrics[index]);
    return alone ? "accuracy" : rf_metric_kind_name(params->metrics[index]);
}

static rf_result make_names(rf_model *model, rf_compiled *c, const rf_compile_params *params)
{
    for (uint32_t i = 0; i <= params->num_metrics; i++) {
        const char *name = i == 0 ? "loss" : name_metric(params, i - 1);
        const size_t val_size = strlen(name) + sizeof("val_");
        char *val_name = rf_arena_alloc(&model->names, val_size);
        c->names[i] = rf_arena_strdup(&model->names, name);
        if (!val_name || !c->names[i]) return RF_ERROR_OUT_OF_HOST_MEMORY;
        snprintf(val_name, val_size, "val_%s", name);
        c->val_names[i] = val_name;
    }
    return RF_OK;
}

static rf_result prepare(rf_model *model, rf_compiled *c, const rf_compile_params *params)
{
    RF_TRY(make_names(model, c, params));
    RF_TRY(rf_meters_create(model->strategy, params->metrics, params->num_metrics, &c->train_meters));
    RF_TRY(rf_meters_create(model->strategy, params->metrics, params->num_metrics, &c->evaluate_meters));
    const rf_function_params train = { .step = train_step, .user = c, .name = "train_step", .training = true };
    RF_TRY(rf_function_create(model->strategy, &train, &c->train));
    const rf_function_params evaluate = { .step = evaluate_step, .user = c, .name = "evaluate_step" };
    return rf_function_create(model->strategy, &evaluate, &c->evaluate);
}

rf_result rf_model_compile(rf_model *model, const rf_compile_params *params)
{
    RF_TRY(RF_PARAMS_CHECK(rf_compile_params, params));
    RF_TRY(check_params(model, params));
    rf_compiled *c = RF_NEW(rf_compiled);
    if (!c) return RF_ERROR_OUT_OF_HOST_MEMORY;
    c->model = model;
    c->optimizer = rf_optimizer_retain(params->optimizer);
    c->loss = params->loss;
    c->steps_per_execution = params->steps_per_execution ? params->steps_per_execution : 1;
    const rf_result r = prepare(model, c, params);
    if (r < 0) {
        rf_compiled_destroy(&c);
        return r;
    }
    rf_compiled_destroy(&model->compiled);
    model->compiled = c;
    return RF_OK;
}

/* ---- shared by fit, evaluate and predict ---- */

rf_result rf_check_dataset(const rf_dataset *data, bool labels, const char *argument)
{
    RF_REQUIRE(data, "%s is NULL", argument);
    RF_REQUIRE(rf_dataset_batch_size(data) > 0, "%s is not batched; use rf_dataset_batch()", argument);
    rf_element_spec spec;
    rf_dataset_spec(data, &spec);
    if (labels) {
        RF_REQUIRE(spec.num_components == 2 || spec.num_components == 3,
                   "%s has elements of %u components, not (input, label[, sample weight])", argument,
                   spec.num_components);
    } else {
        RF_REQUIRE(spec.num_components >= 1, "%s has elements without components", argument);
    }
    return RF_OK;
}

rf_result rf_run_batch(rf_compiled *compiled, rf_function *function, rf_meters *meters, const rf_element *batch)
{
    compiled->num_components = batch->num_components;
    RF_TRY(rf_strategy_run(compiled->model->strategy, function, batch, NULL));
    meters->examples += (uint64_t)rf_element_global_rows(batch);
    return RF_OK;
}
