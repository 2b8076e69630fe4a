/* SPDX-License-Identifier: Apache-2.0 */
/* Linear regression with the inside functions alone: what the tests of strategies train. Made of operations whose
 * kernels every driver compiles quickly. */
#ifndef RF_TESTS_REPLICA_LINEAR_H
#define RF_TESTS_REPLICA_LINEAR_H

#include <string.h>

#include "../skip.h"
#include "../support/expect.h"
#include "../validation.h"
#include "ops/ops.h"
#include "replica/internal.h"
#include "replica/store/variables.h"
#include "replica/update/updater.h"
#include "tests/room.h"

enum { IN = 150, MAX_BATCH = 64 }; /* w [IN] takes three units of the store, b [1] one */

/* The call fails with this result and a message that contains all of the parts. */
#define CHECK_FAILS(expression, want, ...)                                                                             \
    check_failure((expression), (want), #expression, (const char *const[]){ __VA_ARGS__, NULL })
void check_failure(rf_result got, rf_result want, const char *expression, const char *const *parts);

/* A strategy over these devices, or NULL (and the test is skipped) where one is not installed. */
rf_strategy *open_devices(const char *devices, const rf_mirrored_params *params);

typedef struct linear {
    rf_strategy *strategy;
    rf_variable *w, *b;
    rf_updater *updater;
    rf_function *train, *predict;
    bool adam;
    float rate, clip_norm;
    uint32_t accumulation_steps;
    double last_norm;    /* that hyper() was given */
    uint32_t num_hypers; /* calls of hyper() */
} linear;
typedef struct linear_params {
    bool adam;
    rf_gradient_norms norms;
    float clip_norm;
    uint32_t accumulation_steps; /* 0: 1 */
} linear_params;
void linear_create(linear *m, rf_strategy *strategy, const linear_params *params);
void linear_destroy(linear *m);
/* One training step on examples [first, first + count) of a fixed data set; returns the loss summed over replicas. */
float linear_step(linear *m, uint32_t first, uint32_t count);
rf_element linear_batch(uint32_t first, uint32_t count);
/* The same in double precision on the host: SGD over `steps` batches of `count` examples. */
void linear_reference(double *w, double *b, float rate, uint32_t steps, uint32_t count, double *losses);
double linear_predict(const double *w, double b, uint32_t n); /* example n of the data */
void linear_initial(float *w, float *b);

#endif
