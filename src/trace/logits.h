/* SPDX-License-Identifier: Apache-2.0 */
/* Logits in front of the softmax or the sigmoid that made predictions of them. */
#ifndef RF_TRACE_LOGITS_H
#define RF_TRACE_LOGITS_H

#include <ringfire/ops.h>

typedef enum rf_squash { RF_SQUASH_SOFTMAX, RF_SQUASH_SIGMOID } rf_squash;

/* The logits, in the shape and the type of the predictions, where the graph shows them: the predictions are what this
 * function made, perhaps converted or in another shape. The invalid tensor where it does not, and where the trace has
 * failed. */
rf_tensor rf_logits_behind(rf_trace *t, rf_tensor predictions, rf_squash squash);

#endif
