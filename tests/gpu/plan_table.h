/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which kernel each case of each op gets on each device of tests/gpu/snapshots, and with which plan: as a table, and as
 * a digest for each device and op (tests/gpu/plans.txt), so that a change of choices or plans is never made unseen.
 */
#ifndef RF_TESTS_GPU_PLAN_TABLE_H
#define RF_TESTS_GPU_PLAN_TABLE_H

#include <stdbool.h>
#include <stdio.h>

#define NUM_PLANNED_DEVICES 16
extern const char *const planned_devices[NUM_PLANNED_DEVICES];

/* Appends to `out`, for each op, either a line for each case and type: device, op, case, type, kernel, dispatches, hash
 * of the plan; or one line: device, op, number of calls, digest. */
void write_plan_table(const char *directory, const char *device, bool digests, FILE *out);

#endif
