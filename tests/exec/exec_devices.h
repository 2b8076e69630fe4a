/* SPDX-License-Identifier: Apache-2.0 */
/* Every usable device, open for a group of tests; under the validation layer when RINGFIRE_VALIDATION is set. */
#ifndef RF_TESTS_EXEC_DEVICES_H
#define RF_TESTS_EXEC_DEVICES_H

#include <string.h>

#include "../support/expect.h"
#include "base/error.h"
#include "exec/exec.h"
#include "tests/room.h"

extern rf_gpu_device *devices[]; /* num_devices of them, between open_all and close_all */
extern uint32_t num_devices;

/* Set-up and tear-down of a group. Opening fails without a usable device, closing when the layer has said anything. */
int open_all(void **state);
int close_all(void **state);

/* Runs a test body on each device: mapped, staged, and with memory that is not coherent. */
void everywhere(void (*body)(rf_exec *exec));

/* Small integers: every sum of a few is exact, so results can be compared bit for bit. */
void fill_floats(void *bytes, size_t count, uint32_t seed);
/* Submits a frame and waits for it. */
void run_frame(rf_exec *exec, rf_frame *frame);
void check_floats(const void *got, const void *expected, size_t count);

#endif
