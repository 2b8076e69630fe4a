/* SPDX-License-Identifier: Apache-2.0 */
/* A directory of numbered checkpoints. The directory holds the only state: which files a manager keeps follows from
 * their names and times, so that a restarted program continues like the one before it. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/params.h"
#include "base/platform.h"
#include "persist/archive/reader.h"
#include "persist/directory_lock.h"
#include "persist/path_format.h"
#include "replica/strategy.h"
#include "train/checkpoint/checkpoint.h"

#define SUFFIX ".rfck"
#define DEFAULT_PREFIX "ckpt"
enum { DEFAULT_KEEP = 5, LEAST_KEEP = 2 };

struct rf_checkpoint_manager {
    rf_checkpoint_link link; /* the first, so that managers are found by it */
    char *directory;
    rf_numbered_name name;
    rf_directory_lock lock; /* the chief's */
    uint32_t max_to_keep;
    double keep_every_hours;
    rf_save_params save;
    bool has_latest; /* on the chief */
    uint64_t latest; /* restored or saved; files of higher numbers that were there then are damaged */
    bool told;       /* when the save in the background has ended; the checkpoint is there until then */
    bool destroyed;  /* while that save runs: it is freed, and its lock released, when the save has ended */
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

/* A function for each name in a directory, and its arguments. */
typedef struct walk walk;
struct walk {
    const rf_file_ops *ops;
    const char *directory;
    const rf_numbered_name *name;
    rf_result (*fn)(const walk *w, const char *file);
    found_list *list;
    const char *main; /* file whose parts are looked for */
    rf_result result;
};

static bool visit_file(void *argument, const char *file)
{
    walk *w = argument;
    w->result = w->fn(w, file);
    return w->result >= 0;
}

/* No directory: no files. */
static rf_result each_file(walk *w)
{
    if (w->ops->list(w->ops->user, w->directory, visit_file, w) == 0 || w->result < 0) return w->result;
    if (errno == ENOENT) return RF_OK;
    return RF_FAIL_ERRNO(RF_ERROR_IO, "checkpoints: cannot read the directory '%s'", w->directory);
}

/* When a file of the directory was written. `*path` stays NULL for what is no file, or was removed meanwhile. */
static rf_result inspect_file(const walk *w, const char *file, char **path, double *seconds)
{
    *path = rf_asprintf("%s/%s", w->directory, file);
    if (!*path) return RF_ERROR_OUT_OF_HOST_MEMORY;
    if (w->ops->modified(w->ops->user, *path, seconds) == 0) return RF_OK;
    rf_result r = RF_OK;
    if (errno != ENOENT && errno != EINVAL)
        r = RF_FAIL_ERRNO(RF_ERROR_IO, "checkpoints: cannot tell the age of '%s'", *path);
    rf_free(*path);
    *path = NULL;
    return r;
}

static rf_result list_file(const walk *w, const char *file)
{
    found f = { 0 };
    const char *rest;
    if (!rf_numbered_name_match(w->name, file, &f.number, &rest) || *rest) return RF_OK;
    RF_TRY(RF_VEC_GROW(w->list));
    RF_TRY(inspect_file(w, file, &f.path, &f.seconds));
    if (f.path) w->list->items[w->list->count++] = f;
    return RF_OK;
}

static rf_result manager_scan(const rf_file_ops *ops, const char *directory, const rf_numbered_name *name,
                              found_list *list)
{
    *list = (found_list){ 0 };
    walk w = { .ops = ops, .directory = directory, .name = name, .fn = list_file, .list = list };
    const rf_result r = each_file(&w);
    if (r < 0) {
        free_list(list);
        return r;
    }
    if (list->count > 0) qsort(list->items, list->count, sizeof(list->items[0]), newest_first);
    return RF_OK;
}

/* Damaged files that were passed over, newest first. */
typedef struct damaged_list {
    uint32_t count;
    char newest[600]; /* what is wrong with the newest of them */
} damaged_list;

/* The calling thread's error says what is wrong. */
static void pass_over(damaged_list *damaged)
{
    rf_log_message(RF_LOG_WARN, "checkpoint skipped: %s", rf_error_message());
    if (damaged && damaged->count++ == 0) snprintf(damaged->newest, sizeof(damaged->newest), "%s", rf_error_message());
}

/* A file that the file system lost, or that another program removed meanwhile, is no checkpoint. One that cannot be
 * read for another reason may well be one: to pass over it would be to take an older one, or to start anew, unseen.
 * Damaged ones are added to `damaged` (NULL: not wanted). */
static rf_result is_complete(const rf_file_ops *ops, const char *path, damaged_list *damaged, bool *complete)
{
    rf_archive *archive;
    const rf_result r = rf_archive_open_with(ops, path, &archive);
    rf_archive_close(&archive);
    *complete = r >= 0;
    if (r >= 0 || r == RF_ERROR_NOT_FOUND) return RF_OK;
    if (r != RF_ERROR_CORRUPT_DATA) return r;
    pass_over(damaged);
    return RF_OK;
}

/* Moves `*index` on to a complete one; list->count: none. */
static rf_result next_complete(const rf_file_ops *ops, const found_list *list, damaged_list *damaged, uint32_t *index)
{
    for (; *index < list->count; ++*index) {
        bool complete;
        RF_TRY(is_complete(ops, list->items[*index].path, damaged, &complete));
        if (complete) break;
    }
    return RF_OK;
}

/* Where all are damaged, a program that took this for a first start would train anew over what may still be rescued. */
static rf_result none_in(const char *directory, const rf_numbered_name *name, const damaged_list *damaged)
{
    if (damaged->count > 0)
        return RF_FAIL(RF_ERROR_CORRUPT_DATA,
                       "none of the %u checkpoints '%s<number>%s' in '%s' is intact; the newest: %s; nothing was "
                       "removed: copy the files again, or move them away to start from scratch",
                       damaged->count, name->before, name->after, directory, damaged->newest);
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
    const rf_file_ops *ops = &rf_system_file_ops;
    found_list list;
    damaged_list damaged = { 0 };
    uint32_t i = 0;
    rf_result r = manager_scan(ops, directory, &name, &list);
    if (r >= 0) r = next_complete(ops, &list, &damaged, &i);
    if (r >= 0 && i < list.count) {
        *path = list.items[i].path;
        list.items[i].path = NULL;
    }
    free_list(&list);
    if (r >= 0 && !*path) r = none_in(directory, &name, &damaged);
    rf_numbered_name_free(&name);
    return r;
}

/* ---- creation ---- */

static const rf_file_ops *ops_of(const rf_checkpoint_manager *m)
{
    return m->link.checkpoint->ops ? m->link.checkpoint->ops : &rf_system_file_ops;
}

static rf_result remove_part(const walk *w, const char *file)
{
    const size_t length = strlen(w->main);
    if (strncmp(file, w->main, length) != 0 ||
        strncmp(file + length, RF_ARCHIVE_PART_INFIX, strlen(RF_ARCHIVE_PART_INFIX)) != 0)
        return RF_OK;
    char *path = rf_asprintf("%s/%s", w->directory, file);
    if (!path) return RF_ERROR_OUT_OF_HOST_MEMORY;
    rf_file_discard(w->ops, path);
    rf_free(path);
    return RF_OK;
}

/* The main file first: what is left when this is interrupted is no checkpoint, and is removed with the leftovers. */
static void remove_checkpoint(const rf_checkpoint_manager *m, const char *path)
{
    const rf_file_ops *ops = ops_of(m);
    walk w = { .ops = ops, .directory = m->directory, .fn = remove_part, .main = strrchr(path, '/') + 1 };
    if (rf_file_discard(ops, path) && each_file(&w) < 0)
        rf_log_message(RF_LOG_WARN, "part files of '%s' were not removed: %s", path, rf_error_message());
}

/* Whether the main file, which is called as `part` up to `length`, lists the part. Where it cannot be read: perhaps. */
static rf_result is_listed(const walk *w, const char *part, size_t length, bool *listed)
{
    rf_archive *archive;
    char *path = rf_asprintf("%s/%.*s", w->directory, (int)length, part);
    if (!path) return RF_ERROR_OUT_OF_HOST_MEMORY;
    const rf_result r = rf_archive_open_main(w->ops, path, &archive);
    rf_free(path);
    *listed = r < 0 && r != RF_ERROR_NOT_FOUND;
    for (uint64_t i = 0; i < rf_archive_num_parts(archive); i++)
        *listed |= strcmp(rf_archive_part_name(archive, i), part) == 0;
    rf_archive_close(&archive);
    return r == RF_ERROR_OUT_OF_HOST_MEMORY ? r : RF_OK;
}

/* The writer's part of the name of a temporary file or of a part; NULL: it is neither. */
static const char *writer_of(const char *rest, bool *part)
{
    const char *temporary = strstr(rest, RF_TEMPORARY_INFIX);
    unsigned rank, workers;
    int end = 0;
    (void)sscanf(rest, RF_ARCHIVE_PART_INFIX "%5u-of-%5u-%n", &rank, &workers, &end);
    *part = end > 0 && !temporary;
    if (temporary && (temporary == rest || end > 0)) return temporary + strlen(RF_TEMPORARY_INFIX);
    return *part ? rest + end : NULL;
}

/* A temporary file without its writer will never be finished, and neither will a part file without its main file. */
static rf_result remove_leftover(const walk *w, const char *file)
{
    uint64_t number;
    const char *rest, *writer;
    char *path;
    double modified;
    bool part, listed = false;
    if (!rf_numbered_name_match(w->name, file, &number, &rest) || !(writer = writer_of(rest, &part))) return RF_OK;
    RF_TRY(inspect_file(w, file, &path, &modified));
    rf_result r = RF_OK;
    if (path && rf_temporary_abandoned(writer, modified)) {
        if (part) r = is_listed(w, file, (size_t)(rest - file), &listed);
        if (r >= 0 && !listed) rf_file_discard(w->ops, path);
    }
    rf_free(path);
    return r;
}

/* Managers of other prefixes may be at work in the same directory. */
static rf_result lock_directory(rf_checkpoint_manager *m)
{
    char *name = rf_asprintf("%s%s", m->name.before, m->name.after);
    if (!name) return RF_ERROR_OUT_OF_HOST_MEMORY;
    const rf_result r = rf_directory_lock_take(&m->lock, m->directory, name);
    rf_free(name);
    return r;
}

static rf_result prepare_directory(rf_checkpoint_manager *m)
{
    RF_TRY(rf_make_directories(m->directory, 0777));
    RF_TRY(lock_directory(m));
    walk w = { .ops = ops_of(m), .directory = m->directory, .name = &m->name, .fn = remove_leftover };
    return each_file(&w);
}

static rf_result set_up(rf_checkpoint_manager *m, const rf_checkpoint_manager_params *p)
{
    RF_REFUSE_ZERO(p->keep_every_hours, "rf_checkpoint_manager_create: keep_every_hours", "0 keeps none in addition");
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
    if (rf_strategy_is_chief(m->link.checkpoint->strategy)) r = prepare_directory(m);
    return rf_broadcast_result(m->link.checkpoint->strategy, r);
}

rf_result rf_checkpoint_manager_create(rf_checkpoint *checkpoint, const rf_checkpoint_manager_params *params,
                                       rf_checkpoint_manager **out)
{
    RF_REQUIRE(out, "rf_checkpoint_manager_create: out is NULL");
    *out = NULL;
    RF_TRY(RF_PARAMS_CHECK(rf_checkpoint_manager_params, params));
    RF_REQUIRE(checkpoint, "rf_checkpoint_manager_create: checkpoint is NULL");
    RF_REQUIRE(params && params->directory && *params->directory,
               "rf_checkpoint_manager_create: params->directory is missing");
    rf_checkpoint_manager *m = RF_NEW(rf_checkpoint_manager);
    if (!m) return RF_ERROR_OUT_OF_HOST_MEMORY;
    m->link.checkpoint = checkpoint;
    m->link.next = checkpoint->users;
    checkpoint->users = &m->link;
    m->lock = RF_DIRECTORY_LOCK_NONE;
    const rf_result r = set_up(m, params);
    if (r < 0)
        rf_checkpoint_manager_destroy(&m);
    else
        *out = m;
    return r;
}

/* ---- destruction ---- */

/* Where this one has the lock, another manager of the checkpoint may be saving under it. */
static void pass_on_lock(rf_checkpoint_manager *m)
{
    for (rf_checkpoint_link *at = m->link.checkpoint->users; at; at = at->next) {
        rf_checkpoint_manager *other = (rf_checkpoint_manager *)at;
        if (other->told) rf_directory_lock_pass(&m->lock, &other->lock);
    }
}

static void leave_checkpoint(rf_checkpoint_manager *m)
{
    rf_checkpoint_link **at = &m->link.checkpoint->users;
    while (*at != &m->link) at = &(*at)->next;
    *at = m->link.next;
    pass_on_lock(m);
}

static void free_manager(rf_checkpoint_manager *m)
{
    if (m->link.checkpoint) leave_checkpoint(m);
    rf_directory_lock_release(&m->lock);
    rf_free(m->directory);
    rf_numbered_name_free(&m->name);
    rf_free(m);
}

/* The thread of a save still writes into the directory, and is not waited for here: waiting is collective. In a child
 * of the process there is no such thread. */
void rf_checkpoint_manager_destroy(rf_checkpoint_manager **manager)
{
    if (!manager || !*manager) return;
    rf_checkpoint_manager *m = *manager;
    *manager = NULL;
    m->destroyed = true;
    if (!m->told || rf_strategy_is_foreign(m->link.checkpoint->strategy)) free_manager(m);
}

static rf_result check_manager(const rf_checkpoint_manager *m, const char *function)
{
    RF_REQUIRE(m, "%s: manager is NULL", function);
    RF_REQUIRE(m->link.checkpoint, "%s: the checkpoint has been destroyed; destroy it after its managers", function);
    return RF_OK;
}

/* ---- saving ---- */

/*
 * "Newest" is the highest number everywhere, so a file that is saved must have the highest one: else restoring would
 * take another run's, and pruning remove the new one. Damaged files do not count: restoring passes over them.
 */
static rf_result check_number(const rf_checkpoint_manager *m, const found_list *list, uint64_t number)
{
    for (uint32_t i = 0; i < list->count && list->items[i].number > number; i++) {
        bool complete = false;
        if (m->has_latest && list->items[i].number > m->latest) continue; /* restoring found it damaged */
        RF_TRY(is_complete(ops_of(m), list->items[i].path, NULL, &complete));
        RF_REQUIRE(
            !complete,
            "checkpoint %llu would not be the newest: there is '%s', of another run or a later time; restore the "
            "newest before going on, remove the old ones, or use another directory or prefix",
            (unsigned long long)number, list->items[i].path);
    }
    return RF_OK;
}

/* A training that never restored does not write into a directory whose checkpoints are all damaged: what it saves would
 * push them out one by one. */
static rf_result check_not_lost(const rf_checkpoint_manager *m, const found_list *list)
{
    damaged_list damaged = { 0 };
    uint32_t i = 0;
    if (m->has_latest || list->count == 0) return RF_OK;
    const rf_result r = next_complete(ops_of(m), list, &damaged, &i);
    /* One that cannot be read now may be whole. */
    return r >= 0 && i == list->count && damaged.count > 0 ? none_in(m->directory, &m->name, &damaged) : RF_OK;
}

/* Removes old ones around checkpoint `number`, which has been written: it and max_to_keep - 1 older ones stay. Among
 * those that are older still the first stays, then the first that is keep_every_hours younger than the one that stayed
 * before it. */
static void manager_prune(const rf_checkpoint_manager *m, const found_list *list, uint64_t number)
{
    const uint32_t keep = m->max_to_keep > LEAST_KEEP ? m->max_to_keep : LEAST_KEEP;
    const double interval = m->keep_every_hours * 3600;
    double last = -1;
    uint32_t older = 0;
    while (older < list->count && list->items[older].number >= number) older++;
    for (uint32_t i = list->count; i-- > older && i - older >= keep - 1;) {
        const found *f = &list->items[i];
        if (interval > 0 && (last < 0 || f->seconds - last >= interval))
            last = f->seconds;
        else
            remove_checkpoint(m, f->path);
    }
}

/* On the chief, before a save. */
static rf_result prepare_save(rf_checkpoint_manager *m, uint64_t number)
{
    found_list list;
    RF_TRY(lock_directory(m)); /* another manager of this process may have had it, and be gone */
    RF_TRY(manager_scan(ops_of(m), m->directory, &m->name, &list));
    rf_result r = check_number(m, &list, number);
    if (r >= 0) r = check_not_lost(m, &list);
    free_list(&list);
    return r;
}

/* The new file is there: what cannot be listed now is removed after the next one. */
static void prune_around_latest(const rf_checkpoint_manager *m)
{
    found_list list;
    if (manager_scan(ops_of(m), m->directory, &m->name, &list) < 0) {
        rf_log_message(RF_LOG_WARN, "old checkpoints were not removed: %s", rf_error_message());
        return;
    }
    manager_prune(m, &list, m->latest);
    free_list(&list);
}

static void background_ended(void *user, bool written)
{
    rf_checkpoint_manager *m = user;
    m->told = false;
    if (written) prune_around_latest(m);
    if (m->destroyed) free_manager(m);
}

/* On the chief, after it. Old ones go when the new one is there. */
static void finish_save(rf_checkpoint_manager *m, uint64_t number)
{
    m->has_latest = true;
    m->latest = number;
    if (!m->save.async) {
        prune_around_latest(m);
        return;
    }
    m->told = true;
    m->link.checkpoint->on_end = background_ended;
    m->link.checkpoint->on_end_user = m;
}

/* The oldest first: when this is interrupted, what is left is the end of the training. */
rf_result rf_checkpoint_manager_clear(rf_checkpoint_manager *m)
{
    rf_strategy *strategy = m->link.checkpoint->strategy;
    found_list list = { 0 };
    const rf_result r = rf_strategy_is_chief(strategy) ? manager_scan(ops_of(m), m->directory, &m->name, &list) : RF_OK;
    for (uint32_t i = list.count; i-- > 0;) remove_checkpoint(m, list.items[i].path);
    free_list(&list);
    return rf_broadcast_result(strategy, r);
}

rf_result rf_checkpoint_manager_save(rf_checkpoint_manager *manager, uint64_t number)
{
    RF_TRY(check_manager(manager, "rf_checkpoint_manager_save"));
    rf_strategy *strategy = manager->link.checkpoint->strategy;
    const bool chief = rf_strategy_is_chief(strategy);
    RF_TRY(rf_checkpoint_wait(manager->link.checkpoint));
    char *name = rf_numbered_name_make(&manager->name, number);
    char *path = name ? rf_asprintf("%s/%s", manager->directory, name) : NULL;
    rf_result r = path ? RF_OK : rf_strategy_fail_in_job(strategy, RF_ERROR_OUT_OF_HOST_MEMORY);
    if (r >= 0) {
        if (chief) r = prepare_save(manager, number);
        r = rf_error_context(rf_broadcast_result(strategy, r), "rf_checkpoint_manager_save");
    }
    if (r >= 0) r = rf_checkpoint_save(manager->link.checkpoint, path, &manager->save);
    if (r >= 0 && chief) finish_save(manager, number);
    rf_free(name);
    rf_free(path);
    return r;
}

/* ---- restoring ---- */

/* The newest complete one first; one whose data turns out to be damaged is passed over, too. */
static rf_result restore_newest(rf_checkpoint_manager *m, const found_list *list, const rf_restore_params *params,
                                uint64_t *number)
{
    rf_strategy *strategy = m->link.checkpoint->strategy;
    const bool chief = rf_strategy_is_chief(strategy);
    damaged_list damaged = { 0 };
    bool again = false;
    for (uint32_t i = 0;; i++) {
        rf_result r = chief ? next_complete(ops_of(m), list, &damaged, &i) : RF_OK;
        if (r >= 0 && chief && i >= list->count) r = none_in(m->directory, &m->name, &damaged);
        RF_TRY(rf_broadcast_result(strategy, r));
        uint64_t candidate = chief ? list->items[i].number : 0;
        RF_TRY(rf_broadcast_bytes(strategy, "number of a checkpoint", &candidate, sizeof(candidate)));
        const char *path = chief ? list->items[i].path : m->directory; /* only the chief reads */
        if (params && params->report && again) rf_string_free(*params->report);
        r = rf_checkpoint_restore(m->link.checkpoint, path, params);
        if (r >= 0) {
            *number = m->latest = candidate;
            m->has_latest = true;
        }
        if (r != RF_ERROR_CORRUPT_DATA && r != RF_ERROR_NOT_FOUND) return r; /* not found: removed meanwhile */
        if (r == RF_ERROR_CORRUPT_DATA)
            pass_over(&damaged);
        else
            rf_log_message(RF_LOG_WARN, "checkpoint skipped: %s", rf_error_message());
        again = true;
    }
}

rf_result rf_checkpoint_manager_restore(rf_checkpoint_manager *manager, const rf_restore_params *params,
                                        uint64_t *number)
{
    uint64_t unused;
    if (!number) number = &unused;
    *number = 0;
    if (params && params->report) *params->report = NULL;
    RF_TRY(RF_PARAMS_CHECK(rf_restore_params, params));
    RF_TRY(check_manager(manager, "rf_checkpoint_manager_restore"));
    RF_TRY(rf_checkpoint_wait(manager->link.checkpoint));
    rf_strategy *strategy = manager->link.checkpoint->strategy;
    found_list list = { 0 };
    rf_result r = RF_OK;
    if (rf_strategy_is_chief(strategy)) r = manager_scan(ops_of(manager), manager->directory, &manager->name, &list);
    r = rf_broadcast_result(strategy, r);
    if (r >= 0) r = restore_newest(manager, &list, params, number);
    free_list(&list);
    return r;
}
