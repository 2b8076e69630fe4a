/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/ops/cases/cases.h"

static const struct {
    const rf_op *op;
    const rf_case_table *cases;
} all[] = {
#define ROW(name) { &rf_op_##name, &rf_cases_of_##name },
    RF_ALL_OPS(ROW)
};

const rf_case_table *rf_op_cases(const rf_op *op)
{
    static const rf_case_table none = { 0 };
    for (uint32_t i = 0; i < RF_LENGTH(all); i++)
        if (all[i].op == op) return all[i].cases;
    return &none;
}
