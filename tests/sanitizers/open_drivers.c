/* SPDX-License-Identifier: Apache-2.0 */
/* Opens and closes the installed Vulkan drivers, whatever they offer. Its allocations are freed: what is left is the
 * drivers'. */
#include <stdio.h>

#include "base/error.h"
#include "gpu/gpu.h"

int main(void)
{
    rf_gpu *gpu;
    const rf_result r = rf_gpu_create(NULL, &gpu);
    printf("%s\n", r < 0 ? rf_error_message() : "devices found");
    fflush(stdout); /* a leak ends the process at its exit */
    rf_gpu_destroy(&gpu);
    return r == RF_OK || r == RF_ERROR_NOT_FOUND ? 0 : 1;
}
