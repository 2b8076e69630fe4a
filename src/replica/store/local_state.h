/* SPDX-License-Identifier: Apache-2.0 */
/* State that every replica has for itself. */
#ifndef RF_REPLICA_STORE_LOCAL_STATE_H
#define RF_REPLICA_STORE_LOCAL_STATE_H

#include "replica/internal.h"

struct rf_local_state {
    uint32_t references;
    rf_strategy *strategy;
    char *name;
    uint32_t count;      /* of words */
    rf_tensor_desc desc; /* as steps see it */
    rf_flat values;
};

rf_local_state *rf_local_state_retain(rf_local_state *state);
void rf_local_state_release(rf_local_state *state);
/* For states that all replicas have alike. */
rf_result rf_local_state_read_first(rf_local_state *state, float *values);
rf_result rf_local_state_write_same(rf_local_state *state, const float *values);

#endif
