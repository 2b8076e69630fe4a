/* SPDX-License-Identifier: Apache-2.0 */
/* Devices that are not at hand, from what they reported once. */
#ifndef RF_TESTS_GPU_READ_SNAPSHOT_H
#define RF_TESTS_GPU_READ_SNAPSHOT_H

#include "gpu/device/plan.h"

/* Reads DIRECTORY/DEVICE.txt, which dump_snapshot wrote. A file that cannot be read fails the test. */
rf_gpu_snapshot read_snapshot(const char *directory, const char *device);

#endif
