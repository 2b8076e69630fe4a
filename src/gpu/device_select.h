/* SPDX-License-Identifier: Apache-2.0 */
/* Which devices a text like "0,2" or "radeon,llvmpipe" means. Pure: works on a list of descriptions. */
#ifndef RF_GPU_DEVICE_SELECT_H
#define RF_GPU_DEVICE_SELECT_H

#include <ringfire/device.h>

#include "base/error.h"

/* Entries are positions in the list, "all" (every usable device), or parts of a device's or driver's name (letter case
 * does not matter), which stand for the first usable device that matches. NULL means "all". A repeated entry gives the
 * device again. `*indices` is freed with rf_free. */
rf_result rf_device_select(const char *entries, const rf_device_info *infos, uint32_t num_infos, uint32_t **indices,
                           uint32_t *count);
/* One device: what the first of `entries` stands for, or with "all" or NULL the first usable one, GPUs before software.
 */
rf_result rf_device_select_one(const char *entries, const rf_device_info *infos, uint32_t num_infos, uint32_t *index);

#endif
