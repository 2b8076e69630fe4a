/* SPDX-License-Identifier: Apache-2.0 */
#include "train/fit/compile.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/params.h"
#include "trace/logits.h"
#include "trace/trace.h"
#include "train/metrics/loss.h"
#include "train/optimizer/optimizer.h"

static bool is_regularized(const rf_model *model)
{
    for (uint32_t i = 0; i < rf_model_num_all_layers(model); i++)
        if (rf_layer_is_regularized(rf_model_any_layer(model, i))) return true;
    return false;
}

/* The message of an operation would not name the label. False, with the trace failed, where the loss does not take its
 * shape. */
static bool check_label(rf_trace *t, const rf_compiled *c, uint32_t output, rf_tensor label, rf_tensor predictions)
{
    rf_tensor_desc l, p;
    char a[96], b[96];
    if (!rf_operand_desc(t, label, "the label", &l) || !rf_operand_desc(t, predictions, "predictions", &p))
        return false;
    const bool classes = c->losses[output].kind == RF_LOSS_SPARSE_CATEGORICAL_CROSSENTROPY;
    const bool one = p.shape.rank >= 1 && p.shape.dim[p.shape.rank - 1] == 1;
    rf_shape same = p.shape, shorter = p.shape;
    if (classes && same.rank >= 1) same.dim[same.rank - 1] = 1;
    if (shorter.rank >= 1) shorter.rank--;
    if (c->losses[output].kind == RF_LOSS_CTC && l.shape.rank == 2 && p.shape.rank == 3 &&
        l.shape.dim[0] == p.shape.dim[0])
        return true;
    if (rf_shape_equal(l.shape, same) || ((classes || one) && rf_shape_equal(l.shape, shorter))) return true;
    (void)rf_trace_fail(t, RF_ERROR_INVALID_ARGUMENT,
                        "the label of output '%s' is %s %s, which %s does not take with predictions %s",
                        c->model->output_names[output], rf_dtype_name(l.dtype), rf_shape_format(l.shape, a, sizeof(a)),
                        rf_loss_kind_names[c->losses[output].kind], rf_shape_format(p.shape, b, sizeof(b)));
    return false;
}

/* The loss of the metric's output; NULL: a function of the caller. */
static const rf_loss *metric_loss(const rf_compiled *c, uint32_t metric)
{
    return c->loss_fn ? NULL : &c->losses[c->metric_outputs[metric]];
}

/* This replica's part of the loss of one output, weighted; the meters get both forms. */
static rf_tensor output_loss(rf_trace *t, const rf_compiled *c, uint32_t output, rf_tensor label, rf_tensor predictions,
                             rf_tensor sample_weight, rf_meters *meters)
{
    rf_tensor measured;
    if (!check_label(t, c, output, label, predictions)) return RF_NO_TENSOR;
    rf_tensor loss = rf_loss_total(t, &c->losses[output], label, predictions, sample_weight, &measured);
    if (c->model->num_outputs > 1) (void)rf_meters_add_output_loss(t, meters, output, measured);
    if (c->loss_weights[output] != 1.0) {
        const rf_tensor weight = rf_constant(t, (float)c->loss_weights[output]);
        measured = rf_multiply(t, measured, weight);
        loss = rf_multiply(t, loss, weight);
    }
    (void)rf_meters_add_loss(t, meters, measured);
    return loss;
}

/* The same of a loss of the caller, of all outputs. */
static rf_tensor custom_loss(rf_trace *t, const rf_compiled *c, const rf_tensor *labels, const rf_tensor *predictions,
                             rf_tensor sample_weight, rf_meters *meters)
{
    rf_tensor measured, losses = c->loss_fn(t, labels, predictions, c->loss_user);
    rf_tensor_desc desc;
    char text[96];
    if (!rf_operand_desc(t, losses, "rf_model_compile: the result of loss_fn", &desc)) return RF_NO_TENSOR;
    if (desc.dtype != RF_F32 || desc.shape.rank < 1) {
        (void)rf_trace_fail(t, RF_ERROR_INVALID_ARGUMENT,
                            "rf_model_compile: loss_fn gave %s %s, not losses f32 [n...] of examples",
                            rf_dtype_name(desc.dtype), rf_shape_format(desc.shape, text, sizeof(text)));
        return RF_NO_TENSOR;
    }
    losses = rf_loss_average(t, losses, sample_weight, &measured);
    (void)rf_meters_add_loss(t, meters, measured);
    return losses;
}

/* Predictions as a metric of probabilities reads them, beside a loss that takes them for logits. */
static rf_tensor metric_predictions(rf_trace *t, const rf_compiled *c, uint32_t metric, rf_tensor predictions)
{
    const rf_reads_logits reads = rf_metric_reads_logits(&c->metrics[metric], metric_loss(c, metric));
    if (reads == RF_READS_PREDICTIONS || rf_trace_status(t) < 0) return predictions;
    /* A model that ends with the activation all the same: the loss goes back to its logits, too. */
    const rf_squash squash = reads == RF_READS_LOGITS ? RF_SQUASH_SIGMOID : RF_SQUASH_SOFTMAX;
    const rf_tensor behind = rf_logits_behind(t, predictions, squash);
    if (reads != RF_READS_SOFTMAX) return behind.id ? behind : predictions;
    return behind.id ? predictions : rf_softmax(t, predictions);
}

static void update_metric(rf_trace *t, const rf_compiled *c, uint32_t metric, rf_meters *meters, rf_tensor labels,
                          rf_tensor predictions, rf_tensor weight)
{
    if (c->metric_fns[metric]) {
        predictions = c->metric_fns[metric](t, labels, predictions, c->metric_users[metric]);
        labels = RF_NO_TENSOR;
    } else {
        predictions = metric_predictions(t, c, metric, predictions);
    }
    if (!c->weighted[metric]) weight = RF_NO_TENSOR;
    if (rf_trace_status(t) >= 0) (void)rf_meters_update(t, meters, metric, labels, predictions, weight);
}

/* Applies the model, updates the meters and returns this replica's part of the loss of the global batch, regularisation
 * included. */
static rf_tensor call_model(rf_trace *t, rf_compiled *c, const rf_tensor *in, rf_mode mode, rf_meters *meters)
{
    const uint32_t num_outputs = c->model->num_outputs;
    const rf_tensor *labels = in + c->model->num_inputs;
    const rf_tensor weight =
        c->num_components > c->model->num_inputs + num_outputs ? labels[num_outputs] : RF_NO_TENSOR;
    rf_tensor predictions[RF_MAX_COMPONENTS], loss = RF_NO_TENSOR;
    if (rf_model_apply_all(t, c->model, in, mode, predictions) < 0) return RF_NO_TENSOR;
    if (c->loss_fn) loss = custom_loss(t, c, labels, predictions, weight, meters);
    for (uint32_t i = 0; !c->loss_fn && i < num_outputs; i++) {
        const rf_tensor term = output_loss(t, c, i, labels[i], predictions[i], weight, meters);
        loss = i == 0 ? term : rf_add(t, loss, term);
    }
    for (uint32_t i = 0; i < c->num_metrics && rf_trace_status(t) >= 0; i++)
        update_metric(t, c, i, meters, labels[c->metric_outputs[i]], predictions[c->metric_outputs[i]], weight);
    if (is_regularized(c->model)) {
        const rf_tensor penalty = rf_scale_regularization_loss(t, rf_model_regularization_loss(t, c->model));
        (void)rf_meters_add_loss(t, meters, rf_multiply(t, penalty, rf_global_batch_size(t)));
        loss = rf_add(t, loss, penalty);
    }
    return loss;
}

/* ---- what is trained ---- */

static bool knows_layer(const rf_compiled *c, const rf_layer *layer)
{
    for (uint32_t i = 0; i < c->layers.count; i++)
        if (c->layers.items[i].layer == layer) return true;
    return false;
}

/* As in Keras, what is trained is what was trainable when the model was compiled, however often steps are traced. */
static rf_result note_layers(rf_compiled *c)
{
    for (uint32_t i = 0; i < rf_model_num_all_layers(c->model); i++) {
        rf_layer *layer = rf_model_any_layer(c->model, i);
        if (knows_layer(c, layer)) continue;
        RF_TRY(RF_VEC_GROW(&c->layers));
        c->layers.items[c->layers.count++] = (rf_compiled_layer){ layer, rf_layer_state_of(layer) };
    }
    return RF_OK;
}

/* Before a trace, and again after it. */
static void exchange_states(rf_compiled *c)
{
    for (uint32_t i = 0; i < c->layers.count; i++)
        rf_layer_exchange_state(c->layers.items[i].layer, &c->layers.items[i].state);
}

static rf_result minimize_loss(rf_trace *t, const rf_compiled *c, rf_tensor loss)
{
    const rf_variable_list variables = rf_model_variables(c->model);
    if (rf_trace_status(t) >= 0 && variables.count == 0 && rf_model_state_variables(c->model).count > 0)
        return rf_trace_fail(t, RF_ERROR_INVALID_ARGUMENT,
                             "rf_model_fit: all layers were frozen when the model was compiled; there is nothing to "
                             "train. Call rf_layer_set_trainable(), then rf_model_compile()");
    return rf_optimizer_minimize(t, c->optimizer, loss, variables);
}

static rf_result train_step(rf_trace *t, const rf_tensor *in, rf_tensor *out, void *user)
{
    rf_compiled *c = user;
    rf_tensor of_rows[RF_MAX_COMPONENTS];
    (void)out;
    if (c->device_data) {
        RF_TRY(rf_device_data_take(t, c->device_data, in[0], of_rows));
        in = of_rows;
    }
    exchange_states(c);
    const rf_tensor loss = call_model(t, c, in, RF_TRAINING, &c->train_meters);
    const rf_result r = minimize_loss(t, c, loss);
    exchange_states(c);
    RF_TRY(r);
    return note_layers(c); /* those of models that a call has found */
}

static rf_result evaluate_step(rf_trace *t, const rf_tensor *in, rf_tensor *out, void *user)
{
    rf_compiled *c = user;
    (void)out;
    (void)call_model(t, c, in, RF_INFERENCE, &c->evaluate_meters);
    return rf_trace_status(t);
}

static void destroy_compiled(rf_compiled **compiled)
{
    if (!compiled || !*compiled) return;
    rf_function_destroy(&(*compiled)->train);
    rf_function_destroy(&(*compiled)->evaluate);
    rf_meters_destroy(&(*compiled)->train_meters);
    rf_meters_destroy(&(*compiled)->evaluate_meters);
    rf_optimizer_release((*compiled)->optimizer);
    rf_free((*compiled)->layers.items);
    rf_free(*compiled);
    *compiled = NULL;
}

static rf_result check_loss(const rf_loss *loss)
{
    RF_TRY(rf_loss_check(loss, "rf_model_compile"));
    RF_REQUIRE(loss->reduction != RF_REDUCTION_NONE,
               "rf_model_compile: loss.reduction NONE gives no scalar to minimise; leave it at RF_REDUCTION_AUTO");
    return RF_OK;
}

/* By its fields: what lies between them may be anything. */
static bool is_zeroed(const rf_loss *loss)
{
    return loss->kind == 0 && !loss->from_logits && loss->reduction == 0 && loss->label_smoothing == 0.0f &&
           loss->delta == 0.0f && !loss->ignore_class;
}

static rf_result check_losses(const rf_model *model, const rf_compile_params *params)
{
    if (params->loss_fn) {
        RF_REQUIRE(is_zeroed(&params->loss) && !params->losses && !params->loss_weights && params->num_losses == 0,
                   "rf_model_compile: loss_fn is set beside loss, losses or loss_weights; leave those zeroed");
        return RF_OK;
    }
    if (params->num_losses == 0) {
        RF_REQUIRE(model->num_outputs == 1, "rf_model_compile: the model has %u outputs; give losses, one for each",
                   model->num_outputs);
        RF_REQUIRE(!params->losses && !params->loss_weights,
                   "rf_model_compile: losses or loss_weights are set but num_losses is 0");
        return check_loss(&params->loss);
    }
    RF_REQUIRE(params->num_losses == model->num_outputs,
               "rf_model_compile: num_losses is %u; the model has %u outputs, each with a loss", params->num_losses,
               model->num_outputs);
    RF_REQUIRE(params->losses, "rf_model_compile: losses is NULL but num_losses is %u", params->num_losses);
    RF_REQUIRE(is_zeroed(&params->loss), "rf_model_compile: loss and losses are both set; leave loss zeroed");
    for (uint32_t i = 0; i < params->num_losses; i++) {
        RF_TRY(
            rf_error_context(check_loss(&params->losses[i]), "losses[%u], of output '%s'", i, model->output_names[i]));
        RF_REQUIRE(!params->loss_weights || isfinite(params->loss_weights[i]),
                   "rf_model_compile: loss_weights[%u] is not finite", i);
    }
    return RF_OK;
}

static rf_result check_metrics(const rf_model *model, const rf_compile_params *params)
{
    RF_REQUIRE(params->num_metrics <= RF_MAX_COMPILED_METRICS, "rf_model_compile: num_metrics %u is over %d",
               params->num_metrics, (int)RF_MAX_COMPILED_METRICS);
    RF_REQUIRE(params->num_metrics == 0 || params->metrics, "rf_model_compile: metrics is NULL but num_metrics is %u",
               params->num_metrics);
    RF_REQUIRE(params->num_metrics == 0 || model->num_outputs == 1,
               "rf_model_compile: metrics are of a model's only output, this one has %u; use output_metrics",
               model->num_outputs);
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

static rf_result check_output_metrics(const rf_model *model, const rf_compile_params *params)
{
    const uint32_t num_losses = model->num_outputs > 1 && !params->loss_fn ? model->num_outputs : 0;
    RF_REQUIRE(params->num_output_metrics == 0 || params->output_metrics,
               "rf_model_compile: output_metrics is NULL but num_output_metrics is %u", params->num_output_metrics);
    RF_REQUIRE(params->num_output_metrics == 0 || params->num_metrics == 0,
               "rf_model_compile: metrics and output_metrics are both set; leave one out");
    RF_REQUIRE(num_losses + params->num_output_metrics <= RF_MAX_COMPILED_METRICS,
               "rf_model_compile: %u losses of outputs and %u metrics are over %d in all", num_losses,
               params->num_output_metrics, (int)RF_MAX_COMPILED_METRICS);
    for (uint32_t i = 0; i < params->num_output_metrics; i++) {
        const rf_output_metric *m = &params->output_metrics[i];
        RF_REQUIRE(m->output < model->num_outputs,
                   "rf_model_compile: output_metrics[%u] is of output %u; the model has %u outputs", i, m->output,
                   model->num_outputs);
        if (m->fn) {
            RF_REQUIRE(m->metric.kind == RF_METRIC_MEAN && m->metric.name && *m->metric.name,
                       "rf_model_compile: output_metrics[%u] has a function: its metric needs a name, and no kind", i);
            continue;
        }
        RF_REQUIRE(rf_metric_compares(m->metric.kind),
                   "rf_model_compile: output_metrics[%u] does not compare labels with predictions; use it in a custom "
                   "step, or give a function",
                   i);
    }
    return RF_OK;
}

static rf_result check_params(const rf_model *model, const rf_compile_params *params)
{
    RF_REQUIRE(model, "rf_model_compile: model is NULL");
    RF_TRY(rf_model_check_alive(model, "rf_model_compile"));
    RF_REQUIRE(params, "rf_model_compile: params is NULL; an optimizer is needed");
    RF_REQUIRE(params->optimizer, "rf_model_compile: optimizer is NULL");
    RF_REQUIRE(rf_optimizer_strategy(params->optimizer) == model->strategy,
               "rf_model_compile: optimizer was created on another strategy than the model");
    RF_TRY(check_losses(model, params));
    RF_TRY(check_metrics(model, params));
    return check_output_metrics(model, params);
}

/* The caller's number need not live as long as the model. */
static void keep_number(const int32_t **number, int32_t *kept)
{
    if (!*number) return;
    *kept = **number;
    *number = kept;
}

/* Losses and metrics of each output, in whichever form they are given. */
static void copy_params(rf_compiled *c, const rf_compile_params *params)
{
    for (uint32_t i = 0; i < c->model->num_outputs; i++) {
        c->losses[i] = params->num_losses ? params->losses[i] : params->loss;
        c->loss_weights[i] = params->loss_weights ? params->loss_weights[i] : 1.0;
        keep_number(&c->losses[i].ignore_class, &c->ignored[i]);
    }
    for (uint32_t i = 0; i < params->num_metrics; i++) c->metrics[i].kind = params->metrics[i];
    for (uint32_t i = 0; i < params->num_output_metrics; i++) {
        c->metrics[i] = params->output_metrics[i].metric;
        c->metric_outputs[i] = params->output_metrics[i].output;
        c->metric_fns[i] = params->output_metrics[i].fn;
        c->metric_users[i] = params->output_metrics[i].user;
        c->weighted[i] = params->output_metrics[i].weighted;
        keep_number(&c->metrics[i].ignore_class, &c->metric_ignored[i]);
    }
    c->loss_fn = params->loss_fn;
    c->loss_user = params->loss_user;
    c->num_metrics = params->num_metrics + params->num_output_metrics;
    c->steps_per_execution = params->steps_per_execution ? params->steps_per_execution : 1;
}

/* ---- names of values ---- */

/* One accuracy of an output is called "accuracy", as in Keras; where it has several kinds they have their full names.
 */
static const char *name_metric(const rf_compiled *c, uint32_t index)
{
    if (c->metrics[index].name) return c->metrics[index].name;
    uint32_t accuracies = 0;
    for (uint32_t i = 0; i < c->num_metrics; i++)
        accuracies += c->metric_outputs[i] == c->metric_outputs[index] && rf_metric_is_accuracy(c->metrics[i].kind);
    const bool alone = accuracies == 1 && rf_metric_is_accuracy(c->metrics[index].kind);
    return alone ? "accuracy" : rf_metric_kind_name(c->metrics[index].kind);
}

static char *join_names(rf_arena *arena, const char *first, const char *second)
{
    const size_t size = strlen(first) + strlen(second) + 2;
    char *text = rf_arena_alloc(arena, size);
    if (text) snprintf(text, size, "%s_%s", first, second);
    return text;
}

/* `output`: NULL where the model has one. */
static rf_result add_name(rf_compiled *c, uint32_t *count, const char *output, const char *name)
{
    rf_arena *arena = &c->model->names;
    const char *full = output ? join_names(arena, output, name) : rf_arena_strdup(arena, name);
    const char *val = full ? join_names(arena, "val", full) : NULL;
    if (!val) return RF_ERROR_OUT_OF_HOST_MEMORY;
    for (uint32_t i = 0; i < *count; i++)
        RF_REQUIRE(strcmp(c->names[i], full) != 0,
                   "rf_model_compile: two values are called '%s'; give one of the metrics another name", full);
    c->names[*count] = full;
    c->val_names[(*count)++] = val;
    return RF_OK;
}

/* Those that are reported beside their sum. */
static uint32_t num_output_losses(const rf_compiled *c)
{
    return c->model->num_outputs > 1 && !c->loss_fn ? c->model->num_outputs : 0;
}

static rf_result make_names(rf_compiled *c)
{
    const rf_model *model = c->model;
    const bool several = model->num_outputs > 1;
    uint32_t count = 0;
    RF_TRY(add_name(c, &count, NULL, "loss"));
    for (uint32_t i = 0; i < num_output_losses(c); i++) RF_TRY(add_name(c, &count, model->output_names[i], "loss"));
    for (uint32_t i = 0; i < c->num_metrics; i++)
        RF_TRY(add_name(c, &count, several ? model->output_names[c->metric_outputs[i]] : NULL, name_metric(c, i)));
    return RF_OK;
}

static rf_result compiled_prepare(rf_model *model, rf_compiled *c)
{
    RF_TRY(make_names(c));
    RF_TRY(note_layers(c));
    const uint32_t num_losses = num_output_losses(c);
    const char *const *metric_names = &c->names[1 + num_losses];
    for (uint32_t i = 0; i < c->num_metrics; i++) { /* the program's name need not live as long as the model */
        const bool in_logs = model->num_outputs > 1 || c->metrics[i].name;
        const char *given = c->metrics[i].name;
        if (given && !(c->given_names[i] = rf_arena_strdup(&model->names, given))) return RF_ERROR_OUT_OF_HOST_MEMORY;
        c->metrics[i].name = in_logs ? metric_names[i] : NULL;
    }
    rf_metric_params metrics[RF_MAX_COMPILED_METRICS];
    for (uint32_t i = 0; i < c->num_metrics; i++) {
        metrics[i] = c->metrics[i];
        const rf_loss *loss = metric_loss(c, i);
        if (rf_metric_reads_logits(&metrics[i], loss) == RF_READS_LOGITS) metrics[i].from_logits = true;
        if (loss && rf_metric_ignores(metrics[i].kind) && !metrics[i].ignore_class)
            metrics[i].ignore_class = loss->ignore_class;
    }
    RF_TRY(rf_meters_create(model->strategy, metrics, c->num_metrics, num_losses, &c->train_meters));
    RF_TRY(rf_meters_create(model->strategy, metrics, c->num_metrics, num_losses, &c->evaluate_meters));
    const rf_function_params train = { .step = train_step,
                                       .user = c,
                                       .name = "train_step",
                                       .training = true,
                                       .steps_per_execution = c->steps_per_execution };
    RF_TRY(rf_function_create(model->strategy, &train, &c->train));
    const rf_function_params evaluate = {
        .step = evaluate_step, .user = c, .name = "evaluate_step", .steps_per_execution = c->steps_per_execution
    };
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
    copy_params(c, params);
    const rf_result r = compiled_prepare(model, c);
    if (r < 0) {
        destroy_compiled(&c);
        return r;
    }
    /* Random operations go on with other numbers than those that the model was trained with. */
    if (model->compiled) rf_function_set_step(c->train, rf_function_step(model->compiled->train));
    destroy_compiled(&model->compiled);
    model->compiled = c;
    model->destroy_compiled = destroy_compiled;
    return RF_OK;
}

/* ---- shared by fit, evaluate and predict ---- */

/* The plain case has a plain message. */
static rf_result check_components(const rf_model *model, const rf_element_spec *spec, bool labels, const char *argument)
{
    const uint32_t least = model->num_inputs + (labels ? model->num_outputs : 0);
    const bool enough = spec->num_components >= least && (!labels || spec->num_components <= least + 1);
    char text[512];
    if (enough) return RF_OK;
    if (model->num_inputs > 1 || model->num_outputs > 1)
        return RF_FAIL(RF_ERROR_INVALID_ARGUMENT, "%s has elements of %u components, not (%s%s)", argument,
                       spec->num_components, rf_model_format_elements(model, labels, text, sizeof(text)),
                       labels ? "[, sample weight]" : "");
    if (!labels) return RF_FAIL(RF_ERROR_INVALID_ARGUMENT, "%s has elements without components", argument);
    return RF_FAIL(RF_ERROR_INVALID_ARGUMENT, "%s has elements of %u components, not (input, label[, sample weight])",
                   argument, spec->num_components);
}

/* A model may have names for its inputs: their types then show components in another order. */
static rf_result check_input(const rf_model *model, const rf_element_spec *spec, uint32_t i, const char *argument)
{
    char is[96], wanted[96];
    const rf_tensor_desc *built = &model->inputs[i];
    RF_REQUIRE(!model->built || (spec->dtype[i] == built->dtype && spec->shape[i].rank == built->shape.rank + 1),
               "%s: component %u, input '%s', is %s %s; the model was built for %s %s of an example", argument, i,
               model->input_names[i], rf_dtype_name(spec->dtype[i]), rf_shape_format(spec->shape[i], is, sizeof(is)),
               rf_dtype_name(built->dtype), rf_shape_format(built->shape, wanted, sizeof(wanted)));
    return RF_OK;
}

static rf_result check_label_type(const rf_model *model, const rf_element_spec *spec, uint32_t output,
                                  const char *argument)
{
    const uint32_t i = model->num_inputs + output;
    char is[96];
    const bool classes = model->compiled->losses[output].kind == RF_LOSS_SPARSE_CATEGORICAL_CROSSENTROPY;
    RF_REQUIRE(!classes || spec->dtype[i] != RF_F32,
               "%s: component %u, the label of output '%s', is %s %s; sparse_categorical_crossentropy takes class "
               "numbers, i32 or u8",
               argument, i, model->output_names[output], rf_dtype_name(spec->dtype[i]),
               rf_shape_format(spec->shape[i], is, sizeof(is)));
    return RF_OK;
}

rf_result rf_check_dataset(const rf_model *model, const rf_dataset *data, bool labels, const char *argument)
{
    RF_REQUIRE(data, "%s is NULL", argument);
    RF_REQUIRE(rf_dataset_batch_size(data) > 0, "%s is not batched; use rf_dataset_batch()", argument);
    rf_element_spec spec;
    rf_dataset_spec(data, &spec);
    RF_TRY(check_components(model, &spec, labels, argument));
    for (uint32_t i = 0; model->apply && i < model->num_inputs; i++) RF_TRY(check_input(model, &spec, i, argument));
    for (uint32_t i = 0; labels && num_output_losses(model->compiled) > 0 && i < model->num_outputs; i++)
        RF_TRY(check_label_type(model, &spec, i, argument));
    return RF_OK;
}

rf_metric *rf_model_metric(const rf_model *model, const char *name)
{
    const rf_compiled *c = model ? model->compiled : NULL;
    if (!c || !name) return NULL;
    const uint32_t first = 1 + c->train_meters.num_output_losses;
    for (uint32_t i = 0; i < c->num_metrics; i++) {
        if (strcmp(c->names[first + i], name) == 0) return c->train_meters.metrics[i];
        if (strcmp(c->val_names[first + i], name) == 0) return c->evaluate_meters.metrics[i];
    }
    return NULL;
}

rf_result rf_run_batch(rf_compiled *compiled, rf_function *function, rf_meters *meters, const rf_element *batch)
{
    const bool rows = function == compiled->train && compiled->device_data;
    compiled->num_components = rows ? rf_device_data_num_components(compiled->device_data) : batch->num_components;
    RF_TRY(rf_strategy_run(compiled->model->strategy, function, batch, NULL));
    meters->examples += (uint64_t)rf_element_global_rows(batch);
    return RF_OK;
}
