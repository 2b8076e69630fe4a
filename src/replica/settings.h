/* SPDX-License-Identifier: Apache-2.0 */
/* What a strategy takes from the environment where its parameters leave it open. */
#ifndef RF_REPLICA_SETTINGS_H
#define RF_REPLICA_SETTINGS_H

#include <ringfire/strategy.h>

/* `devices`, else RINGFIRE_DEVICES, else NULL. */
const char *rf_settings_devices(const char *devices);
bool rf_settings_validation(const rf_device_options *options);
/* New string, or NULL for "keep nothing" (no record unless memory ran out). */
char *rf_settings_cache(const rf_device_options *options);

#endif
