/* SPDX-License-Identifier: Apache-2.0 */
/* Abilities of devices that do not exist: parts of rf_device_caps, for tests of plans. */
#ifndef RF_TESTS_SUPPORT_INVENTED_H
#define RF_TESTS_SUPPORT_INVENTED_H

#include "base/device_caps.h"

#define SUBGROUPS(size)                                                                                                \
    .subgroup_size = size, .subgroup_shuffle = true, .subgroup_ballot = true, .subgroup_arithmetic = true,             \
    .subgroup_quad = true, .full_subgroups = true
#define LIMITS(threads, range, texels, alignment)                                                                      \
    .max_workgroup_size = { threads, threads, 64 }, .max_workgroup_invocations = threads,                              \
    .max_grid = { 65535, 65535, 65535 }, .max_shared_memory = 32768, .max_push_constants = 128,                        \
    .max_storage_range = range, .max_texel_elements = texels, .buffer_alignment = alignment

#endif
