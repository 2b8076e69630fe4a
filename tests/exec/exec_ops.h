/* SPDX-License-Identifier: Apache-2.0 */
/* A handful of ops made for testing src/exec/ alone. */
#ifndef RF_TESTS_EXEC_OPS_H
#define RF_TESTS_EXEC_OPS_H

#include "graph/graph.h"

typedef struct test_attr {
    float factor;
    float cost; /* flops that the op claims */
} test_attr;

extern const rf_op op_axpy;                   /* factor * a + b, shapes alike; may work in place */
extern const rf_op op_update;                 /* a (mutated) += factor * b; no output */
extern const rf_op op_column_sums;            /* [n, c] -> [c], times factor, through a workspace */
extern const rf_op op_flat;                   /* view as [n * c] */
extern const rf_op op_forgetful, op_scribble; /* axpy with a defect */
extern const rf_op op_nowhere;                /* axpy whose only kernel is never eligible */

extern const rf_op op_fan; /* output k of RF_MAX_OUTPUTS: (k + 1) * factor * a, all of them by one dispatch */

rf_result emit(rf_graph *g, const rf_op *op, float factor, rf_value a, rf_value b, rf_value *out);

#endif
