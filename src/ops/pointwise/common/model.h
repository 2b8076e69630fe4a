/* SPDX-License-Identifier: Apache-2.0 */
/* The time of kernels that every device runs, in seconds of a call, on software drivers too. */
#ifndef RF_OPS_POINTWISE_COMMON_MODEL_H
#define RF_OPS_POINTWISE_COMMON_MODEL_H

#include "ops/kit.h"

/* ---- the gradient of gather ---- */

/* Each element looks through all places. `places`: of a chunk; `looks`: of all vectors of elements together. */
double rf_gather_direct_seconds(const rf_device_caps *caps, double places, double looks);
/* Places are sorted first. */
typedef struct rf_gather_sorted {
    double passes, counters, part; /* over the keys of a chunk; in each of them so many, in parts of so many places */
    double places, bytes;          /* of the call; of dx and dy */
} rf_gather_sorted;
double rf_gather_sorted_seconds(const rf_device_caps *caps, const rf_gather_sorted *s);

/* ---- copies of boxes ---- */

/* So many runs of bytes take the driver less time than a shader takes for the bytes. False where neither was
 * measured. */
bool rf_copies_runs_are_faster(const rf_device_caps *caps, double runs, double bytes);

#endif
