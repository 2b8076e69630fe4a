/* SPDX-License-Identifier: Apache-2.0 */
/* Cycles of a compute unit that holds so many workgroups. Where these numbers were measured is not recorded. */
#include "ops/pointwise/gpu/model.h"

#define UNIT_GROUPS 4
#define UNIT_BYTES 64.0 /* in a cycle */
#define HERTZ 1.7e9
/* Cycles. */
#define LOAD_LATENCY 900.0   /* from a load to its use */
#define GROUP_LATENCY 3000.0 /* of a workgroup: start, empty marks, lists, stores */
#define SLICES_LATENCY 600.0 /* of a choice whose places all invocations share */
#define LAUNCH_SECONDS 3e-6

double rf_gather_marks_seconds(const rf_device_caps *caps, const rf_gather_marks *m)
{
    const uint64_t units = caps->compute_units > 0 ? caps->compute_units : 1;
    const uint64_t of_a_unit = rf_min(rf_div_up(m->groups, units), UNIT_GROUPS);
    const double reads = (double)of_a_unit * (double)m->at_once * sizeof(uint32_t) / UNIT_BYTES;
    double cycles = GROUP_LATENCY;
    cycles += rf_gather_turns(m->places, m->at_once) * (reads > LOAD_LATENCY ? reads : LOAD_LATENCY);
    if (m->few)
        cycles += rf_gather_turns(m->rows, m->slices) * (1 + rf_gather_turns(m->of_choice, 4)) * LOAD_LATENCY;
    else
        cycles +=
            (double)m->rows * (SLICES_LATENCY + (1 + rf_gather_turns(m->of_choice, 4 * m->slices)) * LOAD_LATENCY);
    return LAUNCH_SECONDS + cycles * rf_gather_turns(m->groups, units * UNIT_GROUPS) / HERTZ;
}
