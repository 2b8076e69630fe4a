/* SPDX-License-Identifier: Apache-2.0 */
#ifndef RF_TRAIN_METRICS_LOSS_H
#define RF_TRAIN_METRICS_LOSS_H

#include <ringfire/train.h>

enum { RF_LOSS_KINDS = RF_LOSS_CTC + 1 };
/* By kind: what files and messages call it. */
extern const char *const rf_loss_kind_names[RF_LOSS_KINDS];
/* RF_ERROR_INVALID_ARGUMENT naming the field; `function` is for the message. */
rf_result rf_loss_check(const rf_loss *loss, const char *function);
/* Fails the trace and returns false where the graph proves that the predictions are not what a crossentropy takes them
 * for: no probabilities although `from_logits` is not set, or one column. Warns where that is likely. */
bool rf_loss_check_predictions(rf_trace *t, const rf_loss *loss, rf_tensor predictions, const char *function);
/* Fails the trace and returns false where predictions of classes have one column. */
bool rf_check_columns(rf_trace *t, rf_tensor predictions, const char *what);
/* Losses before any reduction, [n...]. Labels are brought into the form that the loss expects (rf_class_labels).
 * *counts: 0 where the loss ignores the label, else 1, like the losses; the invalid tensor where it ignores none. */
rf_tensor rf_loss_per_example(rf_trace *t, const rf_loss *loss, rf_tensor labels, rf_tensor predictions,
                              rf_tensor *counts);
/* Class numbers for predictions [n..., c]: [n..., 1] becomes [n...] and u8 or f32 becomes i32, as Keras does. */
rf_tensor rf_class_labels(rf_trace *t, rf_tensor labels, rf_tensor predictions);
/* Where the i32 class numbers are `ignored`: *labels gets 0 there, and the result is 0 there and 1 elsewhere, f32. */
rf_tensor rf_leave_out_labels(rf_trace *t, int32_t ignored, rf_tensor *labels);
/* Targets as f32; [n...] for predictions [n..., 1] get the missing dimension. */
rf_tensor rf_regression_labels(rf_trace *t, rf_tensor labels, rf_tensor predictions);
/* labels (1 - smoothing) + smoothing / classes, which are those of the last axis of a tensor; the invalid tensor: 2. */
rf_tensor rf_smooth_labels(rf_trace *t, rf_tensor labels, float smoothing, rf_tensor classes);
/* Weights [n] or [n, ...] as f32 with the rank of `values` [n, ...], so that they broadcast: missing dimensions are
 * appended. */
rf_tensor rf_align_weight(rf_trace *t, rf_tensor weight, rf_tensor values);
/* The same, in the shape of the values. */
rf_tensor rf_broadcast_weight(rf_trace *t, rf_tensor weight, rf_tensor values);
/* Fit minimises this, and here is this replica's part of it: the mean of the losses of an example, averaged over the
 * global batch with weights (or the plain sum, if the reduction says so). The elements of `measured` add up to that
 * times the global batch; they need no reduction of their own, so a step that only measures does not compute the
 * scalar. */
rf_tensor rf_loss_total(rf_trace *t, const rf_loss *loss, rf_tensor labels, rf_tensor predictions,
                        rf_tensor sample_weight, rf_tensor *measured);
/* The same for losses of examples [n...] that somebody else computed. */
rf_tensor rf_loss_average(rf_trace *t, rf_tensor losses, rf_tensor sample_weight, rf_tensor *measured);

#endif
