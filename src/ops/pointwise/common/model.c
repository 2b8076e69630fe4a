/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers were measured where a line says so; where the others come from is not recorded. */
#include "ops/pointwise/common/model.h"

/* ---- the gradient of gather: seconds ---- */

#define DIRECT_CPU_START 1e-5
#define DIRECT_CPU_LOOK 5e-10
#define DIRECT_GPU_START 4e-6
#define DIRECT_GPU_PLACE 9e-8 /* an invocation waits for one index after the other: on an NVIDIA H100 */
#define DIRECT_GPU_LOOK 1e-11

double rf_gather_direct_seconds(const rf_device_caps *caps, double places, double looks)
{
    if (caps->is_cpu) return DIRECT_CPU_START + looks * DIRECT_CPU_LOOK;
    return DIRECT_GPU_START + places * DIRECT_GPU_PLACE + looks * DIRECT_GPU_LOOK;
}

#define SORTED_CPU_START 2e-4
#define SORTED_CPU_PLACE 5e-8
#define SORTED_CPU_BYTE 1e-10
/* On GPUs the sum is within a third of what was measured on an NVIDIA H100. A pass goes through the places of a part
 * one after the other, and one workgroup through the counts. */
#define SORTED_GPU_START 2e-5
#define SORTED_GPU_COUNTER 1.6e-9
#define SORTED_GPU_PART_PLACE 5e-7
#define SORTED_GPU_PLACE 1e-9
#define SORTED_GPU_BYTE 2e-12

double rf_gather_sorted_seconds(const rf_device_caps *caps, const rf_gather_sorted *s)
{
    if (caps->is_cpu) return SORTED_CPU_START + s->places * SORTED_CPU_PLACE + s->bytes * SORTED_CPU_BYTE;
    const double pass = s->counters * SORTED_GPU_COUNTER + s->part * SORTED_GPU_PART_PLACE;
    return SORTED_GPU_START + s->passes * pass + s->places * SORTED_GPU_PLACE + s->bytes * SORTED_GPU_BYTE;
}

/* ---- copies of boxes ---- */

/* A driver copies in one thread, and its kernels for boxes run on two processors: as measured with each of the two.
 * Nanoseconds of a run beside those of its bytes, and bytes in a nanosecond. */
#define LAVAPIPE_RUN 200.0
#define LAVAPIPE_COPIED 20.0
#define LAVAPIPE_SHADED 4.2
#define SWIFTSHADER_RUN 20.0
#define SWIFTSHADER_COPIED 20.0
#define SWIFTSHADER_SHADED 1.5

bool rf_copies_runs_are_faster(const rf_device_caps *caps, double runs, double bytes)
{
    const bool lavapipe = caps->driver == RF_DRIVER_LAVAPIPE;
    if (!lavapipe && caps->driver != RF_DRIVER_SWIFTSHADER) return false;
    const double run = lavapipe ? LAVAPIPE_RUN : SWIFTSHADER_RUN,
                 copied = lavapipe ? LAVAPIPE_COPIED : SWIFTSHADER_COPIED,
                 shaded = lavapipe ? LAVAPIPE_SHADED : SWIFTSHADER_SHADED;
    return runs * run + bytes / copied < bytes / shaded;
}
