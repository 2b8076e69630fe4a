/* SPDX-License-Identifier: Apache-2.0 */
/* A directory of numbered checkpoints. The directory itself is all the memory there is: what a manager keeps follows
 * from the names and times of the files, so that a restarted program goes on as the one before it. */
#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/platform.h"
#include "train/checkpoint.h"
#include "train/path_format.h"

#define SUFFIX ".rfck"
#define DEFAULT_PREFIX "ckpt"
enum { DEFAULT_KEEP = 5, LEAST_KEEP = 2 };

struct rf_checkpoint_manager {
    rf_checkpoint *checkpoint;
    char *directory;
    rf_numbered_name name;
    uint32_t max_to_keep;
    double keep_every_hours;
    rf_save_params save;
};

/* ---- what there is ---- */

typedef struct found {
    uint64_t number;
    double seconds; /* when it was written */
    char *path;
} found;
typedef struct found_list {
    found *items; /* newest number first */
    uint32_t count, capacity;
} found_list;

static void free_list(found_list *list)
{
    for (uint32_t i = 0; i < list->count; i++) rf_free(list->items[i].path);
    rf_free(list->items);
    *list = (found_list){ 0 };
}

static int newest_first(const void *a, const void *b)
{
    const uint64_t x = ((const found *)a)->number, y = ((const found *)b)->number;
    return x < y ? 1 : x > y ? -1 : 0;
}

static rf_result add_file(const char *directory, const char *file, uint64_t number, found_list *list)
{
    RF_TRY(RF_VEC_GROW(list));
    char *path = rf_asprintf("%s/%s", directory, file);
    if (!path) return RF_ERROR_OUT_OF_HOST_MEMORY;
    struct stat status;
    if (stat(path, &status) != 0 || !S_ISREG(status.st_mode)) {
        rf_free(path);
        return RF_OK;
    }
    const double seconds = (double)status.st_mtim.tv_sec + 1e-9 * (double)status.st_mtim.tv_nsec;
    list->items[list->count++] = (found){ number, seconds, path };
    return RF_OK;
}

/* Calls for every file of the directory. No directory: no files. */
typedef rf_result (*file_fn)(const char *directory, const rf_numbered_name *name, const char *file, void *user);
static rf_result each_file(const char *directory, const rf_numbered_name *name, file_fn fn, void *user)
{
    DIR *dir = opendir(directory);
    if (!dir && errno == ENOENT) return RF_OK;
    if (!dir) return RF_FAIL_ERRNO(RF_ERROR_IO, "checkpoints: cannot read the directory '%s'", directory);
    rf_result r = RF_OK;
    const struct dirent *entry;
    while (r >= 0 && (entry = readdir(dir))) r = fn(directory, name, entry->d_name, user);
    closedir(dir);
    return r;
}

static rf_result list_file(const char *directory, const rf_numbered_name *name, const char *file, void *user)
{
    uint64_t number;
    const char *rest;
    if (!rf_numbered_name_match(name, file, &number, &rest) || *rest) return RF_OK;
    return add_file(directory, file, number, user);
}

static rf_result scan(const char *directory, const rf_numbered_name *name, found_list *list)
{
    *list = (found_list){ 0 };
    const rf_result r = each_file(directory, name, list_file, list);
    if (r < 0) {
        free_list(list);
        return r;
    }
    if (list->count > 0) qsort(list->items, list->count, sizeof(list->items[0]), newest_first);
    return RF_OK;
}

/* What a file system lost behind our back is not taken for a checkpoint. */
static bool is_complete(const char *path)
{
    rf_archive *archive;
    if (rf_archive_open(path, &archive) < 0) {
        rf_log_message(RF_LOG_WARN, "checkpoint passed over: %s", rf_error_message());
        return false;
    }
    rf_archive_close(&archive);
    return true;
}

static rf_result none_in(const char *directory, const rf_numbered_name *name)
{
    return RF_FAIL(RF_ERROR_NOT_FOUND, "there is no complete checkpoint '%s<number>%s' in '%s'", name->before,
                   name->after, directory);
}

rf_result rf_checkpoint_latest(const char *directory, const char *prefix, char **path)
{
    RF_REQUIRE(path, "rf_checkpoint_latest: path is NULL");
    *path = NULL;
    RF_REQUIRE(directory && *directory, "rf_checkpoint_latest: directory is empty");
    rf_numbered_name name;
    RF_TRY(rf_error_context(rf_numbered_name_parse(prefix ? prefix : DEFAULT_PREFIX, SUFFIX, &name),
                            "rf_checkpoint_latest"));
    found_list list;
    rf_result r = scan(directory, &name, &list);
    for (uint32_t i = 0; r >= 0 && i < list.count && !*path; i++) {
        if (!is_complete(list.items[i].path)) continue;
        *path = list.items[i].path;
        list.items[i].path = NULL;
    }
    free_list(&list);
    if (r >= 0 && !*path) r = none_in(directory, &name);
    rf_numbered_name_free(&name);
    return r;
}

/* ---- creation ---- */

/* A temporary file whose process is gone will never be finished. */
static rf_result remove_leftover(const char *directory, const rf_numbered_name *name, const char *file, void *user)
{
    (void)user;
    uint64_t number;
    const char *rest;
    if (!rf_numbered_name_match(name, file, &number, &rest) ||
        strncmp(rest, RF_TEMPORARY_INFIX, strlen(RF_TEMPORARY_INFIX)) != 0)
        return RF_OK;
    const long process = strtol(rest + strlen(RF_TEMPORARY_INFIX), NULL, 10);
    if (process <= 0 || kill((pid_t)process, 0) == 0 || errno != ESRCH) return RF_OK;
    char *path = rf_asprintf("%s/%s", directory, file);
    if (!path) return RF_ERROR_OUT_OF_HOST_MEMORY;
    if (unlink(path) != 0) rf_log_message(RF_LOG_WARN, "cannot remove the leftover '%s'", path);
    rf_free(path);
    return RF_OK;
}

static rf_result prepare_directory(const rf_checkpoint_manager *m)
{
    RF_TRY(rf_make_directories(m->directory, 0777));
    return each_file(m->directory, &m->name, remove_leftover, NULL);
}

static rf_result set_up(rf_checkpoint_manager *m, const rf_checkpoint_manager_params *p)
{
    RF_REQUIRE(p->keep_every_hours >= 0, "rf_checkpoint_manager_create: keep_every_hours %g is negative",
               p->keep_every_hours);
    m->directory = rf_strdup(p->directory);
    if (!m->directory) return RF_ERROR_OUT_OF_HOST_MEMORY;
    RF_TRY(rf_error_context(rf_numbered_name_parse(p->prefix ? p->prefix : DEFAULT_PREFIX, SUFFIX, &m->name),
                            "rf_checkpoint_manager_create"));
    m->max_to_keep = p->max_to_keep ? p->max_to_keep : DEFAULT_KEEP;
    m->keep_every_hours = p->keep_every_hours;
    m->save = p->save;
    rf_result r = RF_OK;
    if (rf_strategy_is_chief(m->checkpoint->strategy)) r = prepare_directory(m);
    return rf_share_result(m->checkpoint->strategy, r);
}

rf_result rf_checkpoint_manager_create(rf_checkpoint *checkpoint, const rf_checkpoint_manager_params *params,
                                       rf_checkpoint_manager **out)
{
    RF_REQUIRE(out, "rf_checkpoint_manager_create: out is NULL");
    *out = NULL;
    RF_REQUIRE(checkpoint, "rf_checkpoint_manager_create: checkpoint is NULL");
    RF_REQUIRE(params && params->directory && *params->directory,
               "rf_checkpoint_manager_create: params->directory is missing");
    rf_checkpoint_manager *m = RF_NEW(rf_checkpoint_manager);
    if (!m) return RF_ERROR_OUT_OF_HOST_MEMORY;
    m->checkpoint = checkpoint;
    const rf_result r = set_up(m, params);
    if (r < 0)
        rf_checkpoint_manager_destroy(&m);
    else
        *out = m;
    return r;
}

void rf_checkpoint_manager_destroy(rf_checkpoint_manager **manager)
{
    if (!manager || !*manager) return;
    rf_free((*manager)->directory);
    rf_numbered_name_free(&(*manager)->name);
    rf_free(*manager);
    *manager = NULL;
}

/* ---- saving ---- */

static void remove_file(const char *path)
{
    if (unlink(path) != 0 && errno != ENOENT) rf_log_message(RF_LOG_WARN, "cannot remove the checkpoint '%s'", path);
}

/* Of the files that are not among the newest, the first stays, then the first that is keep_every_hours younger than
 * the one that stayed before it. */
static rf_result prune(const rf_checkpoint_manager *m)
{
    found_list list;
    RF_TRY(scan(m->directory, &m->name, &list));
    const uint32_t keep = m->max_to_keep > LEAST_KEEP ? m->max_to_keep : LEAST_KEEP;
    const double interval = m->keep_every_hours * 3600;
    double last = -1;
    for (uint32_t i = list.count; i-- > keep;) {
        const found *f = &list.items[i];
        if (interval > 0 && (last < 0 || f->seconds - last >= interval))
            last = f->seconds;
        else
            remove_file(f->path);
    }
    free_list(&list);
    return RF_OK;
}

rf_result rf_checkpoint_manager_clear(rf_checkpoint_manager *m)
{
    rf_strategy *strategy = m->checkpoint->strategy;
    found_list list = { 0 };
    const rf_result r = rf_strategy_is_chief(strategy) ? scan(m->directory, &m->name, &list) : RF_OK;
    for (uint32_t i = 0; i < list.count; i++) remove_file(list.items[i].path);
    free_list(&list);
    return rf_share_result(strategy, r);
}

static rf_result prune_on_chief(const rf_checkpoint_manager *m)
{
    rf_strategy *strategy = m->checkpoint->strategy;
    return rf_share_result(strategy, rf_strategy_is_chief(strategy) ? prune(m) : RF_OK);
}

rf_result rf_checkpoint_manager_save(rf_checkpoint_manager *manager, uint64_t number)
{
    RF_REQUIRE(manager, "rf_checkpoint_manager_save: manager is NULL");
    RF_TRY(rf_checkpoint_wait(manager->checkpoint));
    /* What was written in the background is there now. */
    if (manager->save.async) RF_TRY(prune_on_chief(manager));
    char *name = rf_numbered_name_make(&manager->name, number);
    char *path = name ? rf_asprintf("%s/%s", manager->directory, name) : NULL;
    rf_result r = path ? rf_checkpoint_save(manager->checkpoint, path, &manager->save) : RF_ERROR_OUT_OF_HOST_MEMORY;
    rf_free(name);
    rf_free(path);
    if (r >= 0 && !manager->save.async) r = prune_on_chief(manager);
    return r;
}

/* ---- restoring ---- */

/* The newest complete one first; one whose data turns out to be damaged is passed over, too. */
static rf_result restore_newest(rf_checkpoint_manager *m, const found_list *list, const rf_restore_params *params,
                                uint64_t *number)
{
    rf_strategy *strategy = m->checkpoint->strategy;
    const bool chief = rf_strategy_is_chief(strategy);
    rf_result last = RF_OK;
    for (uint32_t i = 0;; i++) {
        while (chief && i < list->count && !is_complete(list->items[i].path)) i++;
        rf_result r = RF_OK;
        if (chief && i >= list->count) r = last < 0 ? last : none_in(m->directory, &m->name);
        RF_TRY(rf_share_result(strategy, r));
        uint64_t candidate = chief ? list->items[i].number : 0;
        RF_TRY(rf_share_bytes(strategy, "number of a checkpoint", &candidate, sizeof(candidate)));
        const char *path = chief ? list->items[i].path : m->directory; /* only the chief reads */
        if (params && params->report && last < 0) rf_string_free(*params->report);
        r = rf_checkpoint_restore(m->checkpoint, path, params);
        if (r >= 0) *number = candidate;
        if (r != RF_ERROR_CORRUPT_DATA) return r;
        rf_log_message(RF_LOG_WARN, "checkpoint passed over: %s", rf_error_message());
        last = r;
    }
}

rf_result rf_checkpoint_manager_restore(rf_checkpoint_manager *manager, const rf_restore_params *params,
                                        uint64_t *number)
{
    uint64_t unused;
    if (!number) number = &unused;
    *number = 0;
    if (params && params->report) *params->report = NULL;
    RF_REQUIRE(manager, "rf_checkpoint_manager_restore: manager is NULL");
    RF_TRY(rf_checkpoint_wait(manager->checkpoint));
    rf_strategy *strategy = manager->checkpoint->strategy;
    found_list list = { 0 };
    rf_result r = rf_strategy_is_chief(strategy) ? scan(manager->directory, &manager->name, &list) : RF_OK;
    r = rf_share_result(strategy, r);
    if (r >= 0) r = restore_newest(manager, &list, params, number);
    free_list(&list);
    return r;
}
