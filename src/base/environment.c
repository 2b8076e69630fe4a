/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/platform.h"

static const rf_env_entry entries[] = {
    { "RINGFIRE_DEVICES", "list",
      "Devices to use where the program names none: indices (\"0,2\"), parts of names, or \"all\"" },
    { "RINGFIRE_VALIDATION", "0 or 1", "1 loads the Vulkan validation layer with its synchronisation checks" },
    { "RINGFIRE_CACHE", "directory", "Where compiled pipelines and tuning results are kept" },
    { "RINGFIRE_TUNE", "0 or 1", "1 measures every eligible kernel of a new operation and remembers the fastest" },
    { "RINGFIRE_DATA", "directory", "Where the four IDX files of an MNIST-like data set are looked for" },
    { "XDG_CACHE_HOME", "directory", "Base of the cache directory where RINGFIRE_CACHE is unset" },
    { "HOME", "directory", "Base of the cache directory where XDG_CACHE_HOME is unset" },
};

const rf_env_entry *rf_env_table(uint32_t *count)
{
    *count = sizeof(entries) / sizeof(entries[0]);
    return entries;
}

const char *rf_env(const char *name)
{
    for (size_t i = 0; i < sizeof(entries) / sizeof(entries[0]); i++) {
        if (strcmp(entries[i].name, name) != 0) continue;
        const char *value = getenv(name);
        return value && value[0] ? value : NULL;
    }
    return NULL;
}

char *rf_cache_directory(const char *explicit_path)
{
    if (explicit_path) return rf_strdup(explicit_path);
    const char *base = rf_env("RINGFIRE_CACHE");
    if (base) return rf_strdup(base);
    base = rf_env("XDG_CACHE_HOME");
    if (base) return rf_asprintf("%s/ringfire", base);
    base = rf_env("HOME");
    return base ? rf_asprintf("%s/.cache/ringfire", base) : NULL;
}
