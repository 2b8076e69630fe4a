/* SPDX-License-Identifier: Apache-2.0 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "base/memory.h"
#include "base/platform.h"

static char *resolve_cache(const char *explicit_path, const char **origin)
{
    *origin = "cache_directory";
    if (explicit_path) return rf_strdup(explicit_path);
    *origin = "RINGFIRE_CACHE";
    const char *base = rf_env(*origin);
    if (base) return rf_strdup(base);
    *origin = NULL;
    base = rf_env("XDG_CACHE_HOME");
    if (base) return rf_asprintf("%s/ringfire", base);
    base = rf_env("HOME");
    return base ? rf_asprintf("%s/.cache/ringfire", base) : NULL;
}

static rf_result make_writable(const char *directory)
{
    RF_TRY(rf_make_directories(directory, 0700));
    struct stat st;
    if (stat(directory, &st) == 0 && !S_ISDIR(st.st_mode))
        errno = ENOTDIR;
    else if (faccessat(AT_FDCWD, directory, W_OK | X_OK, AT_EACCESS) == 0)
        return RF_OK;
    return RF_FAIL_ERRNO(RF_ERROR_IO, "%s: cannot write there", directory);
}

/* Whether a cache has been filled there. */
static bool has_files(const char *directory)
{
    DIR *dir = opendir(directory);
    bool found = false;
    for (const struct dirent *entry; dir && !found && (entry = readdir(dir));)
        found = strncmp(entry->d_name, RF_CACHE_PIPELINES, strlen(RF_CACHE_PIPELINES)) == 0 ||
                strncmp(entry->d_name, RF_CACHE_TUNING, strlen(RF_CACHE_TUNING)) == 0;
    if (dir) closedir(dir);
    return found;
}

rf_result rf_cache_open(const char *explicit_path, bool required, rf_cache *out)
{
    const char *origin;
    char *path = resolve_cache(explicit_path, &origin);
    *out = (rf_cache){ .directory = path };
    if (!path && (origin || rf_env("XDG_CACHE_HOME") || rf_env("HOME"))) return RF_ERROR_OUT_OF_HOST_MEMORY;
    rf_error_record before;
    rf_error_save(&before);
    const rf_result r = path ? make_writable(path) : RF_FAIL(RF_ERROR_NOT_FOUND, "HOME is not set");
    if (r == RF_OK) return RF_OK;
    if (path && !required && has_files(path)) {
        rf_log_message(RF_LOG_INFO, "what is compiled and tuned anew is not kept: %s", rf_error_message());
        out->read_only = true;
        (void)rf_error_restore(&before);
        return RF_OK;
    }
    out->directory = NULL;
    rf_free(path);
    if (origin)
        return rf_error_context(r, "cache directory of %s (name another one, or set no_cache in the options)", origin);
    if (required) return rf_error_context(r, "no cache directory (name one in RINGFIRE_CACHE)");
    rf_log_message(RF_LOG_WARN,
                   "no cache of compiled kernels and tuning results: %s; name a directory in RINGFIRE_CACHE",
                   rf_error_message());
    (void)rf_error_restore(&before);
    return RF_OK;
}
