/* SPDX-License-Identifier: Apache-2.0 */
/* Losses and their scaling to the global batch. */
#include "train/loss.h"

#include "base/error.h"
#include "train/trace_util.h"

rf_result rf_loss_check(const rf_loss *loss, const char *function)
{
    RF_REQUIRE((int)loss->kind >= RF_LOSS_SPARSE_CATEGORICAL_CROSSENTROPY &&
                   (int)loss->kind <= RF_LOSS_MEAN_SQUARED_ERROR,
               "%s: loss.kind %d does not exist", function, (int)loss->kind);
    RF_REQUIRE((int)loss->reduction >= RF_REDUCTION_AUTO && (int)loss->reduction <= RF_REDUCTION_SUM_OVER_BATCH_SIZE,
               "%s: loss.reduction %d does not exist", function, (int)loss->reduction);
    RF_REQUIRE(!(loss->from_logits && loss->kind == RF_LOSS_MEAN_SQUARED_ERROR),
               "%s: loss.from_logits has no meaning for the mean squared error", function);
    return RF_OK;
}

rf_tensor rf_class_labels(rf_trace *t, rf_tensor labels, rf_tensor predictions)
{
    rf_tensor_desc l, p;
    if (!rf_operand_desc(t, labels, "class labels", &l) || !rf_operand_desc(t, predictions, "predictions", &p)) {
        return RF_NO_TENSOR;
    }
    if (l.dtype != RF_I32) labels = rf_cast(t, labels, RF_I32);
    if (l.shape.rank >= 2 && l.shape.rank == p.shape.rank && l.shape.dim[l.shape.rank - 1] == 1) {
        rf_shape example = rf_example_shape(l.shape);
        example.rank--;
        labels = rf_reshape_examples(t, labels, example);
    }
    return labels;
}

/* Targets [n...] for predictions [n..., 1] get the missing dimension. */
static rf_tensor regression_labels(rf_trace *t, rf_tensor labels, rf_tensor predictions)
{
    rf_tensor_desc l, p;
    if (!rf_operand_desc(t, labels, "labels", &l) || !rf_operand_desc(t, predictions, "predictions", &p)) {
        return RF_NO_TENSOR;
    }
    if (l.dtype != RF_F32) labels = rf_cast(t, labels, RF_F32);
    if (p.shape.rank >= 2 && l.shape.rank + 1 == p.shape.rank && p.shape.dim[p.shape.rank - 1] == 1) {
        rf_shape example = rf_example_shape(l.shape);
        example.dim[example.rank++] = 1;
        labels = rf_reshape_examples(t, labels, example);
    }
    return labels;
}

rf_tensor rf_loss_per_example(rf_trace *t, const rf_loss *loss, rf_tensor labels, rf_tensor predictions)
{
    switch (loss->kind) {
    case RF_LOSS_SPARSE_CATEGORICAL_CROSSENTROPY:
        labels = rf_class_labels(t, labels, predictions);
        return rf_sparse_categorical_crossentropy(t, labels, predictions, loss->from_logits);
    case RF_LOSS_CATEGORICAL_CROSSENTROPY:
        return rf_categorical_crossentropy(t, labels, predictions, loss->from_logits);
    case RF_LOSS_MEAN_SQUARED_ERROR:
        return rf_mean_squared_error(t, regression_labels(t, labels, predictions), predictions);
    }
    return RF_NO_TENSOR;
}

rf_tensor rf_loss_call(rf_trace *t, const rf_loss *loss, rf_tensor labels, rf_tensor predictions)
{
    rf_tensor_desc desc;
    if (!rf_operand_desc(t, labels, "rf_loss_call: labels", &desc) ||
        !rf_operand_desc(t, predictions, "rf_loss_call: predictions", &desc)) {
        return RF_NO_TENSOR;
    }
    const rf_result r =
        loss ? rf_loss_check(loss, "rf_loss_call") : RF_FAIL(RF_ERROR_INVALID_ARGUMENT, "rf_loss_call: loss is NULL");
    if (r < 0) return rf_trace_emit(t, r, 0);
    if (loss->reduction == RF_REDUCTION_AUTO) {
        (void)rf_trace_fail(
            t, RF_ERROR_INVALID_ARGUMENT,
            "rf_loss_call: loss.reduction AUTO is refused in a custom step, where only you know how losses of "
            "several replicas add up; take RF_REDUCTION_NONE with rf_compute_average_loss(), or "
            "RF_REDUCTION_SUM");
        return RF_NO_TENSOR;
    }
    if (loss->reduction == RF_REDUCTION_SUM_OVER_BATCH_SIZE) {
        (void)rf_trace_fail(
            t, RF_ERROR_INVALID_ARGUMENT,
            "rf_loss_call: loss.reduction SUM_OVER_BATCH_SIZE is refused in a custom step: it would divide by "
            "this replica's share of the batch, but gradients are summed over replicas, so each must divide "
            "by the global batch; take RF_REDUCTION_NONE with rf_compute_average_loss()");
        return RF_NO_TENSOR;
    }
    const rf_tensor losses = rf_loss_per_example(t, loss, labels, predictions);
    return loss->reduction == RF_REDUCTION_SUM ? rf_reduce_sum(t, losses, NULL, 0, false) : losses;
}

rf_tensor rf_align_weight(rf_trace *t, rf_tensor weight, rf_tensor values)
{
    rf_tensor_desc v, w;
    if (!rf_operand_desc(t, values, "weighted values", &v) || !rf_operand_desc(t, weight, "sample_weight", &w)) {
        return RF_NO_TENSOR;
    }
    bool fits = w.shape.rank <= v.shape.rank;
    for (int32_t i = 0; fits && i < w.shape.rank; i++) {
        fits = w.shape.dim[i] == v.shape.dim[i] || (i > 0 && w.shape.dim[i] == 1);
    }
    if (!fits) {
        char a[96], b[96];
        (void)rf_trace_fail(t, RF_ERROR_INVALID_ARGUMENT, "sample_weight %s does not go with values %s",
                            rf_shape_format(w.shape, a, sizeof(a)), rf_shape_format(v.shape, b, sizeof(b)));
        return RF_NO_TENSOR;
    }
    if (w.dtype != RF_F32) weight = rf_cast(t, weight, RF_F32);
    if (w.shape.rank == 0 || w.shape.rank == v.shape.rank) return weight;
    rf_shape example = rf_example_shape(w.shape);
    while (example.rank + 1 < v.shape.rank) example.dim[example.rank++] = 1;
    return rf_reshape_examples(t, weight, example);
}

static rf_tensor weigh(rf_trace *t, rf_tensor losses, rf_tensor weight)
{
    return rf_multiply(t, losses, rf_align_weight(t, weight, losses));
}

rf_tensor rf_compute_average_loss(rf_trace *t, rf_tensor per_example_loss, const rf_average_loss_params *params)
{
    rf_value v;
    if (!rf_operand(t, per_example_loss, "rf_compute_average_loss: per_example_loss", &v)) return RF_NO_TENSOR;
    const rf_average_loss_params p = params ? *params : (rf_average_loss_params){ 0 };
    if (p.sample_weight.id != 0) per_example_loss = weigh(t, per_example_loss, p.sample_weight);
    const rf_tensor sum = rf_reduce_sum(t, per_example_loss, NULL, 0, false);
    const rf_tensor batch = p.global_batch_size ? rf_constant(t, (float)p.global_batch_size) : rf_global_batch_size(t);
    return rf_divide(t, sum, batch);
}

rf_tensor rf_scale_regularization_loss(rf_trace *t, rf_tensor loss)
{
    rf_value v;
    if (!rf_operand(t, loss, "rf_scale_regularization_loss: loss", &v)) return RF_NO_TENSOR;
    if (rf_graph_desc(rf_trace_graph(t), v)->shape.rank != 0) {
        (void)rf_trace_fail(t, RF_ERROR_INVALID_ARGUMENT, "rf_scale_regularization_loss: loss is no scalar");
        return RF_NO_TENSOR;
    }
    const rf_value inverse = rf_trace_inverse_active(t);
    return inverse ? rf_multiply(t, loss, rf_trace_wrap(t, inverse)) : RF_NO_TENSOR;
}

rf_tensor rf_loss_total(rf_trace *t, const rf_loss *loss, rf_tensor labels, rf_tensor predictions,
                        rf_tensor sample_weight, rf_tensor *measured)
{
    *measured = RF_NO_TENSOR;
    rf_tensor losses = rf_loss_per_example(t, loss, labels, predictions);
    if (sample_weight.id != 0) losses = weigh(t, losses, sample_weight);
    if (loss->reduction == RF_REDUCTION_SUM) {
        const rf_tensor sum = rf_reduce_sum(t, losses, NULL, 0, false);
        *measured = rf_multiply(t, sum, rf_global_batch_size(t));
        return sum;
    }
    rf_tensor_desc desc;
    if (!rf_operand_desc(t, losses, "losses", &desc)) return RF_NO_TENSOR;
    int32_t axes[RF_MAX_RANK];
    for (int32_t i = 1; i < desc.shape.rank; i++) axes[i - 1] = i;
    if (desc.shape.rank > 1) losses = rf_reduce_mean(t, losses, axes, (uint32_t)desc.shape.rank - 1, false);
    *measured = losses;
    return rf_compute_average_loss(t, losses, NULL);
}
