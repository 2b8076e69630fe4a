/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/ops/cases/cases.h"

#define SUM_CASE(label, ...)                                                                                           \
    {                                                                                                                  \
        .name = label, .n_in = 1, .in = { { RF_DESC(RF_F32, __VA_ARGS__), RF_FILL_NORMAL, 0, 1 } },                    \
        .check_gradient = true                                                                                         \
    }
static const rf_op_case cases[] = {
    SUM_CASE("scalar", 0, 0),
    SUM_CASE("channels", 1, 17),
    SUM_CASE("matrix", 2, 3, 64),
};

RF_OP_CASES(all_replica_sum, cases);
