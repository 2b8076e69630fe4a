/* SPDX-License-Identifier: Apache-2.0 */
/* How the algorithms for powers of two handle the excess ranks: see doubling.c. */
#ifndef RF_TRANSPORT_COLLECTIVE_FOLD_H
#define RF_TRANSPORT_COLLECTIVE_FOLD_H

#include "transport/collective/schedule.h"

typedef struct rf_fold {
    uint32_t size;  /* power of two: ranks that take part */
    uint32_t extra; /* pairs of which only the even rank does */
    uint32_t index; /* this rank's number among those that take part */
    bool out;       /* this one does not */
} rf_fold;

rf_fold rf_fold_of(const rf_group *group);
/* Place in the group of number `index`. */
uint32_t rf_fold_real(const rf_fold *fold, uint32_t index);
rf_result rf_fold_in(rf_collective_schedule *s, const rf_group *g, const rf_fold *fold, uint64_t count,
                     rf_space *source, uint32_t *round);
rf_result rf_fold_out(rf_collective_schedule *s, const rf_group *g, const rf_fold *fold, uint64_t count,
                      rf_space *source, uint32_t *round);

#endif
