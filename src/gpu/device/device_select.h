/* SPDX-License-Identifier: Apache-2.0 */
/* Which devices are used by default, and which a text like "0,2" or "radeon,llvmpipe" means. Pure: works on a list of
 * descriptions. */
#ifndef RF_GPU_DEVICE_SELECT_H
#define RF_GPU_DEVICE_SELECT_H

#include <ringfire/device.h>

#include "base/error.h"

/* Writes `by_default` and `same_as` of all devices of a machine. */
void rf_device_choose_default(rf_device_info *infos, uint32_t num_infos);
/* Entries as rf_mirrored_params::devices describes them; NULL: those that are used by default. `*indices` is freed with
 * rf_free. */
rf_result rf_device_select(const char *entries, const rf_device_info *infos, uint32_t num_infos, uint32_t **indices,
                           uint32_t *count);
/* One device: what the first of `entries` stands for, or with "all" or NULL the first of the best type, GPUs before
 * software. */
rf_result rf_device_select_one(const char *entries, const rf_device_info *infos, uint32_t num_infos, uint32_t *index);
/* Whether there is more than one entry: names may have commas. */
bool rf_device_is_list(const char *entries, const rf_device_info *infos, uint32_t num_infos);

#endif
