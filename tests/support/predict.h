/* SPDX-License-Identifier: Apache-2.0 */
#ifndef RF_TESTS_SUPPORT_PREDICT_H
#define RF_TESTS_SUPPORT_PREDICT_H

#include <ringfire/train.h>

/* A step that uses the model `user`. */
static inline rf_result predict_step(rf_trace *t, const rf_tensor *in, rf_tensor *out, void *user)
{
    out[0] = rf_model_call(t, user, in[0], RF_INFERENCE);
    return rf_trace_status(t);
}

#endif
