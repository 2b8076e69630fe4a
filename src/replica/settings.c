/* SPDX-License-Identifier: Apache-2.0 */
#include "replica/settings.h"

#include <string.h>

#include "base/platform.h"

const char *rf_settings_devices(const char *devices)
{
    return devices ? devices : rf_env("RINGFIRE_DEVICES");
}

bool rf_settings_validation(const rf_device_options *options)
{
    const char *wanted = rf_env("RINGFIRE_VALIDATION");
    return options->validation || (wanted && strcmp(wanted, "0") != 0);
}

char *rf_settings_cache(const rf_device_options *options)
{
    return options->no_cache ? NULL : rf_cache_directory(options->cache_directory);
}
