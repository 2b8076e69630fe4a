/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A snapshot becomes one file, or a part file from each worker and a main file from the chief, as its plan says. The
 * main file is written when all part files are on the disk, and replaces the previous one, whose part files are removed
 * afterwards. So there is a complete checkpoint under the path at every moment.
 */
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/platform.h"
#include "persist/archive/reader.h"
#include "train/checkpoint/checkpoint.h"

void rf_snapshot_free(rf_snapshot **snapshot)
{
    rf_snapshot *s = *snapshot;
    if (!s) return;
    rf_state_copy_destroy(&s->copy);
    rf_save_plan_free(&s->plan);
    rf_item_values_free(s->values, s->items.count);
    rf_items_free(&s->items);
    rf_free(s->path);
    rf_free(s);
    *snapshot = NULL;
}

/* ---- contents ---- */

rf_archive_value_kind rf_item_archive_kind(const rf_item *item)
{
    static const rf_archive_value_kind kinds[] = {
        [RF_ITEM_NUMBER] = RF_VALUE_UINT, [RF_ITEM_BYTES] = RF_VALUE_BYTES, [RF_ITEM_TEXT] = RF_VALUE_STRING
    };
    return kinds[item->kind->form];
}

/* The contents of a file; `extents` are those of a main file. */
typedef struct contents {
    rf_archive_tensor *tensors;
    rf_archive_value *values;
    rf_archive_extents *extents;
    rf_archive_contents archive; /* the tensors and values, counted */
} contents;

static void add_tensor(contents *c, const rf_item *item, rf_shape shape, void *data)
{
    c->tensors[c->archive.num_tensors++] = (rf_archive_tensor){ item->name, item->kind->dtype, shape, data };
}

/* A part file has this worker's elements of each tensor. A whole file has everything; so has a main file, where the
 * tensors' data do not count. */
static rf_result contents_create(const rf_snapshot *s, bool part, contents *c)
{
    *c = (contents){ .tensors = RF_NEW_ARRAY(rf_archive_tensor, s->items.count),
                     .values = RF_NEW_ARRAY(rf_archive_value, s->items.count),
                     .extents = RF_NEW_ARRAY(rf_archive_extents, s->items.count) };
    if (!c->tensors || !c->values || !c->extents) return RF_ERROR_OUT_OF_HOST_MEMORY;
    c->archive = (rf_archive_contents){ .type = part ? RF_ARCHIVE_PART_TYPE : s->type,
                                        .tensors = c->tensors,
                                        .values = c->values };
    for (uint32_t i = 0; i < s->items.count; i++) {
        const rf_item *item = &s->items.items[i];
        const rf_item_value *value = &s->values[i];
        const bool tensor = item->kind->form == RF_ITEM_TENSOR;
        if (!value->present || (part && (!tensor || value->size == 0))) continue;
        if (part)
            add_tensor(c, item, RF_SHAPE((int64_t)(value->size / rf_dtype_size(item->kind->dtype))), value->data);
        else if (tensor)
            add_tensor(c, item, value->shape, value->data);
        else
            c->values[c->archive.num_values++] = (rf_archive_value){ .name = item->name,
                                                                     .kind = rf_item_archive_kind(item),
                                                                     .number = value->number,
                                                                     .bytes = value->data,
                                                                     .size = value->size };
    }
    return RF_OK;
}

static void contents_free(contents *c)
{
    for (uint64_t i = 0; i < c->archive.num_tensors; i++) rf_free(c->extents[i].items);
    rf_free(c->extents);
    rf_free(c->tensors);
    rf_free(c->values);
}

/* Writes the main file, or with `split` NULL the only one, and removes the parts of the one that it replaces. A main
 * file that cannot be read has none that anybody could read. */
static rf_result files_replace(const rf_snapshot *s, const contents *c, const rf_archive_split *split,
                               rf_archive_identity *is)
{
    rf_archive *old;
    (void)rf_archive_open_main(s->ops, s->path, &old);
    const rf_result r = rf_archive_write_split(s->ops, s->path, &c->archive, split, &s->params, is);
    for (uint64_t i = 0; r >= 0 && i < rf_archive_num_parts(old); i++) {
        char *part = rf_path_beside(s->path, rf_archive_part_name(old, i));
        if (part) rf_file_discard(s->ops, part); /* else it is removed with what a killed process leaves */
        rf_free(part);
    }
    rf_archive_close(&old);
    return r;
}

/* ---- the file of this worker ---- */

rf_result rf_part_id_draw(rf_strategy *strategy, rf_part_id *id)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    memset(id, 0, sizeof(*id));
    snprintf(id->text, sizeof(id->text), "%08x-%ld-%llx%08lx", rf_file_host(), (long)getpid(),
             (unsigned long long)now.tv_sec, (unsigned long)now.tv_nsec);
    RF_TRY(rf_broadcast_bytes(strategy, "id of a checkpoint", id, sizeof(*id)));
    if (rf_part_id_is_valid(id)) return RF_OK;
    return rf_strategy_fail_in_job(
        strategy, RF_FAIL(RF_ERROR_CORRUPT_DATA, "rank 0 sent an invalid id for the part files of a checkpoint"));
}

static char *part_path(const rf_snapshot *s, uint32_t rank)
{
    return rf_asprintf("%s" RF_ARCHIVE_PART_INFIX "%05u-of-%05u-%s", s->path, rank, s->plan.world_size, s->id.text);
}

static void remove_part(const rf_snapshot *s)
{
    char *path = part_path(s, s->plan.rank);
    if (path) rf_file_discard(s->ops, path);
    rf_free(path);
}

rf_result rf_snapshot_write(rf_snapshot *s)
{
    const bool part = s->plan.file == RF_SAVE_PART;
    contents c;
    if (s->plan.file == RF_SAVE_NO_FILE) return RF_OK;
    char *path = part ? part_path(s, s->plan.rank) : NULL;
    rf_result r = contents_create(s, part, &c);
    if (r >= 0 && part && !path) r = RF_ERROR_OUT_OF_HOST_MEMORY;
    if (r >= 0)
        r = part ? rf_archive_write_split(s->ops, path, &c.archive, NULL, &s->params, &s->part)
                 : files_replace(s, &c, NULL, NULL);
    contents_free(&c);
    rf_free(path);
    return r;
}

/* ---- the main file ---- */

/* A worker's words about its part. */
typedef struct outcome {
    int32_t result;
    char message[1004];
    rf_archive_identity part;
} outcome;

/* One that another host wrote elsewhere would otherwise be found missing only at the next restore. */
static rf_result check_part(const rf_snapshot *s, const char *path, uint32_t rank, const rf_archive_identity *expected)
{
    rf_archive_identity is;
    const rf_result r = rf_archive_identify(s->ops, path, &is);
    if (r < 0 && r != RF_ERROR_NOT_FOUND) return r;
    if (r >= 0 && is.size == expected->size && is.hash == expected->hash) return RF_OK;
    return RF_FAIL(RF_ERROR_INVALID_ARGUMENT,
                   "checkpoint '%s': '%s', which rank %u has written, is not here%s; workers that save sharded must be "
                   "given the same path in a directory that all of them share",
                   s->path, path, rank, r >= 0 ? " but another" : "");
}

static rf_result name_parts(const rf_snapshot *s, const outcome *outcomes, char **paths, rf_archive_part *parts)
{
    for (uint32_t i = 0; i < s->plan.world_size; i++) {
        paths[i] = part_path(s, i);
        if (!paths[i]) return RF_ERROR_OUT_OF_HOST_MEMORY;
        RF_TRY(check_part(s, paths[i], i, &outcomes[i].part));
        const char *slash = strrchr(paths[i], '/');
        parts[i] = (rf_archive_part){ slash ? slash + 1 : paths[i], outcomes[i].part };
    }
    return RF_OK;
}

static rf_result add_extent(rf_archive_extents *extents, uint32_t part, uint64_t count)
{
    if (count == 0) return RF_OK;
    RF_TRY(RF_VEC_GROW(extents));
    extents->items[extents->count++] = (rf_archive_extent){ part, count };
    return RF_OK;
}

/* The extents of the tensors of a main file, in their order there. */
static rf_result list_extents(const rf_snapshot *s, contents *c)
{
    uint32_t tensor = 0;
    for (uint32_t i = 0; i < s->items.count; i++) {
        const rf_item_value *value = &s->values[i];
        const rf_owned_list *writers = &s->plan.entries[i].writers;
        if (s->items.items[i].kind->form != RF_ITEM_TENSOR || !value->present) continue;
        rf_archive_extents *extents = &c->extents[tensor++];
        for (uint32_t k = 0; k < writers->count; k++) {
            const rf_owned *owned = &writers->items[k];
            RF_TRY(add_extent(extents, owned->rank, owned->range.end - owned->range.begin));
        }
        if (s->plan.entries[i].collected) RF_TRY(add_extent(extents, 0, (uint64_t)rf_shape_count(value->shape)));
    }
    return RF_OK;
}

/* On the chief. `*there`: the main file is in its place, although it may have failed after that. */
static rf_result write_main(const rf_snapshot *s, const outcome *outcomes, bool *there)
{
    contents c;
    rf_archive_identity is = { 0 }, found;
    char **paths = RF_NEW_ARRAY(char *, s->plan.world_size);
    rf_archive_part *parts = RF_NEW_ARRAY(rf_archive_part, s->plan.world_size);
    rf_result r = contents_create(s, false, &c);
    if (r >= 0 && (!paths || !parts)) r = RF_ERROR_OUT_OF_HOST_MEMORY;
    if (r >= 0) r = name_parts(s, outcomes, paths, parts);
    if (r >= 0) r = list_extents(s, &c);
    if (r >= 0) r = files_replace(s, &c, &(rf_archive_split){ parts, s->plan.world_size, c.extents }, &is);
    *there = r >= 0;
    if (r < 0 && is.size > 0) {
        rf_error_record record;
        rf_error_save(&record);
        *there = rf_archive_identify(s->ops, s->path, &found) >= 0 && found.size == is.size && found.hash == is.hash;
        r = rf_error_restore(&record);
    }
    contents_free(&c);
    for (uint32_t i = 0; paths && i < s->plan.world_size; i++) rf_free(paths[i]);
    rf_free(paths);
    rf_free(parts);
    return r;
}

static outcome outcome_of(const rf_snapshot *s, rf_result mine)
{
    outcome o = { .result = mine < 0 ? mine : RF_OK, .part = s->part };
    if (mine < 0) snprintf(o.message, sizeof(o.message), "%.1000s", rf_error_message());
    return o;
}

/* The first failure, of which every worker has the text. */
static rf_result first_failure(const rf_snapshot *s, outcome *outcomes)
{
    for (uint32_t i = 0; i < s->plan.world_size; i++) {
        outcomes[i].message[sizeof(outcomes[i].message) - 1] = '\0';
        if (outcomes[i].result >= 0) continue;
        const rf_result r = rf_error_code(outcomes[i].result);
        return i == s->plan.rank ? RF_FAIL(r, "%s", outcomes[i].message)
                                 : RF_FAIL(r, "rank %u: %s", i, outcomes[i].message);
    }
    return RF_OK;
}

/* The others' parts are there. */
static rf_result commit_parts(rf_strategy *strategy, const rf_snapshot *s, const outcome *outcomes)
{
    bool there = false;
    const rf_result written = s->plan.rank == 0 ? write_main(s, outcomes, &there) : RF_OK;
    const rf_result r = rf_broadcast_result(strategy, written);
    uint8_t keep = there;
    /* Where the others cannot be told, or this worker is not told, the parts stay: they may belong to a checkpoint. */
    if (r < 0) {
        rf_error_record record;
        rf_error_save(&record);
        const bool told = rf_broadcast_bytes(strategy, "whether a checkpoint is there", &keep, sizeof(keep)) >= 0;
        if (s->plan.rank == 0 ? !there : told && !keep) remove_part(s);
        return rf_error_restore(&record);
    }
    return r;
}

static rf_result commit_snapshot(rf_strategy *strategy, rf_snapshot *s, rf_result mine)
{
    if (!s->plan.sharded) return rf_broadcast_result(strategy, mine);
    const outcome own = outcome_of(s, mine);
    outcome *outcomes = RF_NEW_ARRAY(outcome, s->plan.world_size);
    if (!outcomes) return rf_strategy_fail_in_job(strategy, RF_ERROR_OUT_OF_HOST_MEMORY);
    rf_result r = rf_gather_bytes(strategy, "parts of a checkpoint", &own, outcomes, sizeof(own));
    /* Without the others nothing is committed by the chief; but the chief may have heard of all. */
    const bool told = r >= 0;
    if (told) r = first_failure(s, outcomes);
    if (r >= 0)
        r = commit_parts(strategy, s, outcomes);
    else if (told || s->plan.rank == 0)
        remove_part(s);
    rf_free(outcomes);
    return r;
}

rf_result rf_snapshot_commit(rf_strategy *strategy, rf_snapshot *s, rf_result mine)
{
    const rf_result r = commit_snapshot(strategy, s, mine);
    if (r >= 0) rf_strategy_note_checkpoint(strategy, s->path);
    return r;
}
