/* SPDX-License-Identifier: Apache-2.0 */
/* The time of kernels on software drivers, in seconds of a call. */
#ifndef RF_OPS_POINTWISE_CPU_MODEL_H
#define RF_OPS_POINTWISE_CPU_MODEL_H

/* The gradient of gather by lists. `part`: places of a list's part; `bytes`: of dx and dy. */
double rf_gather_lists_seconds(double part, double bytes);

#endif
