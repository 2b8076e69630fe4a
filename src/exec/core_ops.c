/* SPDX-License-Identifier: Apache-2.0 */
#include "exec/exec.h"

#include "ops/ops.h"

const rf_core_ops *rf_exec_core_ops(void)
{
    return rf_ops_core();
}
