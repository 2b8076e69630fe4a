/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Restoring. The chief finds every item in the file, compares names and shapes, and reads all data; then all workers
 * get the values and prepare them. Objects are changed only when nothing can fail any more.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/params.h"
#include "base/platform.h"
#include "persist/archive/reader.h"
#include "replica/strategy.h"
#include "train/checkpoint/checkpoint.h"

/* ---- the report ---- */

enum { MISSING, UNEXPECTED, OTHER, DIFFERENT, NUM_TROUBLES }; /* the last one is no reason to refuse */
static const char *const trouble_names[] = { "missing", "unexpected", "of another shape or kind",
                                             "different, kept as it is here" };

typedef struct report {
    char *text; /* a line for each; "" */
    char *first[NUM_TROUBLES];
    uint32_t counts[NUM_TROUBLES];
} report;

static void free_report(report *r)
{
    rf_free(r->text);
    for (int i = 0; i < NUM_TROUBLES; i++) rf_free(r->first[i]);
}

/* `detail` may be "". */
static rf_result note_trouble(report *r, int trouble, const char *name, const char *detail)
{
    char *text = rf_asprintf("%s%s: %s%s%s\n", r->text, trouble_names[trouble], name, *detail ? ": " : "", detail);
    if (!text) return RF_ERROR_OUT_OF_HOST_MEMORY;
    rf_free(r->text);
    r->text = text;
    if (r->counts[trouble]++ == 0 && !(r->first[trouble] = rf_strdup(name))) return RF_ERROR_OUT_OF_HOST_MEMORY;
    return RF_OK;
}

static bool is_refused(const report *r)
{
    return r->counts[MISSING] + r->counts[UNEXPECTED] + r->counts[OTHER] > 0;
}

/* `subset`: what is loaded is a model, by a call that has no parameters. */
static rf_result fail_troubled(const report *r, const char *path, bool subset)
{
    char text[600] = "";
    size_t used = 0;
    for (int i = 0; i < DIFFERENT && used < sizeof(text); i++) {
        if (r->counts[i] == 0) continue;
        used += (size_t)snprintf(text + used, sizeof(text) - used, "%s%u %s (%s%s)", used ? ", " : "", r->counts[i],
                                 trouble_names[i], r->first[i], r->counts[i] > 1 ? ", ..." : "");
    }
    return RF_FAIL(RF_ERROR_INVALID_ARGUMENT, "checkpoint '%s' does not match %s: %s; %s", path,
                   subset ? "this model" : "these objects", text,
                   subset ? "build the model with the layers and names that were saved, or restore what fits with "
                            "rf_checkpoint_restore()"
                          : "the report of the restore parameters lists all, `partial` restores what fits");
}

/* ---- finding items in the file ---- */

static bool item_fits(const rf_item *item, const rf_archive_entry *entry)
{
    if (entry->dtype != item->kind->dtype || entry->shape.rank != item->shape.rank) return false;
    for (int32_t i = item->kind->free_rows ? 1 : 0; i < item->shape.rank; i++)
        if (entry->shape.dim[i] != item->shape.dim[i]) return false;
    return true;
}

static rf_result find_tensor(const rf_archive *archive, const rf_item *item, rf_item_value *value, report *rep)
{
    rf_archive_entry entry;
    if (rf_archive_find(archive, item->name, &entry) < 0)
        return item->kind->optional ? RF_OK : note_trouble(rep, MISSING, item->name, "");
    if (!item_fits(item, &entry)) {
        char a[96], b[96], detail[256];
        snprintf(detail, sizeof(detail), "%s %s in the file, %s %s here", rf_dtype_name(entry.dtype),
                 rf_shape_format(entry.shape, a, sizeof(a)), rf_dtype_name(item->kind->dtype),
                 rf_shape_format(item->shape, b, sizeof(b)));
        return note_trouble(rep, OTHER, item->name, detail);
    }
    value->present = true;
    value->shape = entry.shape;
    value->size = entry.bytes;
    return RF_OK;
}

static rf_result item_compare(const rf_item *item, const rf_item_value *value, report *rep)
{
    char detail[400] = "";
    if (!item->kind->compare) return RF_OK;
    const rf_item_verdict verdict = item->kind->compare(item, value, detail, sizeof(detail));
    if (verdict == RF_ITEM_SAME) return RF_OK;
    if (verdict == RF_ITEM_DIFFERS) rf_log_message(RF_LOG_WARN, "checkpoint: '%s': %s", item->name, detail);
    return note_trouble(rep, verdict == RF_ITEM_DIFFERS ? DIFFERENT : OTHER, item->name, detail);
}

static rf_result find_value(const rf_archive *archive, const rf_item *item, rf_item_value *value, report *rep)
{
    rf_archive_value found;
    if (rf_archive_value_get(archive, item->name, &found) < 0)
        return item->kind->optional ? RF_OK : note_trouble(rep, MISSING, item->name, "");
    if (found.kind != rf_item_archive_kind(item)) return note_trouble(rep, OTHER, item->name, "");
    value->present = true;
    value->number = found.kind == RF_VALUE_UINT ? found.number : 0;
    if (found.kind == RF_VALUE_UINT) return RF_OK;
    value->size = found.size;
    value->data = rf_calloc((size_t)found.size + 1, 1);
    if (!value->data) return RF_ERROR_OUT_OF_HOST_MEMORY;
    if (found.size > 0) memcpy(value->data, found.bytes, (size_t)found.size);
    return item_compare(item, value, rep);
}

/* Slots of one variable come together. */
static rf_result check_siblings(const rf_item_list *list, rf_item_value *values, report *rep)
{
    for (uint32_t i = 0; i < list->count; i++) {
        const uint32_t last = i + list->items[i].siblings;
        uint32_t found = 0;
        for (uint32_t k = i; k <= last; k++) found += values[k].present;
        if (found == 0 || found == last - i + 1) continue;
        for (uint32_t k = i; k <= last; k++) {
            if (!values[k].present) RF_TRY(note_trouble(rep, MISSING, list->items[k].name, ""));
            values[k].present = false;
        }
    }
    return RF_OK;
}

static rf_result note_missing(void *user, const char *name)
{
    return note_trouble(user, MISSING, name, "");
}

static int compare_names(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static bool is_item(const char **names, uint32_t count, const char *name)
{
    return bsearch(&name, names, count, sizeof(*names), compare_names) != NULL;
}

static rf_result find_unexpected(const rf_archive *archive, const rf_item_list *list, report *rep)
{
    const char **names = RF_NEW_ARRAY(const char *, list->count);
    if (!names) return RF_ERROR_OUT_OF_HOST_MEMORY;
    for (uint32_t i = 0; i < list->count; i++) names[i] = list->items[i].name;
    qsort(names, list->count, sizeof(*names), compare_names);
    rf_result r = RF_OK;
    for (uint64_t i = 0; r >= 0 && i < rf_archive_num_tensors(archive); i++) {
        rf_archive_entry entry;
        r = rf_archive_entry_at(archive, i, &entry);
        if (r >= 0 && !is_item(names, list->count, entry.name)) r = note_trouble(rep, UNEXPECTED, entry.name, "");
    }
    for (uint64_t i = 0; r >= 0 && i < rf_archive_num_values(archive); i++) {
        const char *name = rf_archive_value_name(archive, i);
        if (!is_item(names, list->count, name)) r = note_trouble(rep, UNEXPECTED, name, "");
    }
    rf_free(names);
    return r;
}

static rf_result read_tensors(const rf_archive *archive, const rf_item_list *list, rf_item_value *values)
{
    for (uint32_t i = 0; i < list->count; i++) {
        rf_item_value *value = &values[i];
        if (list->items[i].kind->form != RF_ITEM_TENSOR || !value->present) continue;
        value->data = rf_calloc((size_t)value->size, 1);
        if (!value->data) return RF_ERROR_OUT_OF_HOST_MEMORY;
        RF_TRY(rf_archive_read(archive, list->items[i].name, value->data, value->size));
    }
    return RF_OK;
}

/* On the chief: everything that is wanted from the file, in memory. */
static rf_result items_load(const rf_checkpoint *c, const char *path, const rf_item_list *list, bool partial,
                            rf_item_value *values, report *rep)
{
    rf_archive *archive;
    RF_TRY(rf_archive_open_with(c->ops ? c->ops : &rf_system_file_ops, path, &archive));
    rf_result r = RF_OK;
    for (uint32_t i = 0; r >= 0 && i < list->count; i++) {
        const rf_item *item = &list->items[i];
        r = item->kind->form == RF_ITEM_TENSOR ? find_tensor(archive, item, &values[i], rep)
                                               : find_value(archive, item, &values[i], rep);
    }
    if (r >= 0) r = check_siblings(list, values, rep);
    for (uint32_t i = 0; r >= 0 && i < c->objects.count; i++) {
        const rf_tracked *t = &c->objects.items[i];
        if (t->kind->find_missing) r = t->kind->find_missing(t, list, values, note_missing, rep);
    }
    if (r >= 0 && !c->subset) r = find_unexpected(archive, list, rep);
    if (r >= 0 && is_refused(rep) && !partial) r = fail_troubled(rep, path, c->subset);
    if (r >= 0) r = read_tensors(archive, list, values);
    rf_archive_close(&archive);
    return r;
}

/* ---- to all workers ---- */

static rf_result broadcast_headers(rf_strategy *strategy, const rf_item_list *list, rf_item_value *values)
{
    const uint32_t count = list->count;
    rf_item_header *headers = RF_NEW_ARRAY(rf_item_header, count);
    if (!headers) return rf_strategy_fail_in_job(strategy, RF_ERROR_OUT_OF_HOST_MEMORY);
    for (uint32_t i = 0; i < count; i++) headers[i] = rf_item_header_of(&values[i]);
    rf_result r = rf_broadcast_bytes(strategy, "checkpoint", headers, count * sizeof(*headers));
    for (uint32_t i = 0; r >= 0 && i < count && !rf_strategy_is_chief(strategy); i++)
        r = rf_strategy_fail_in_job(strategy, rf_item_header_take(&list->items[i], &headers[i], &values[i]));
    rf_free(headers);
    return r;
}

static rf_result broadcast_values(rf_strategy *strategy, const rf_item_list *list, rf_item_value *values)
{
    if (rf_strategy_world_size(strategy) == 1) return RF_OK;
    RF_TRY(broadcast_headers(strategy, list, values));
    for (uint32_t i = 0; i < list->count; i++) {
        if (!values[i].present) continue;
        if (!values[i].data) values[i].data = rf_calloc((size_t)values[i].size + 1, 1);
        if (!values[i].data) return rf_strategy_fail_in_job(strategy, RF_ERROR_OUT_OF_HOST_MEMORY);
        RF_TRY(rf_broadcast_bytes(strategy, "checkpoint", values[i].data, values[i].size));
    }
    return RF_OK;
}

/* ---- applying ---- */

static rf_result prepare_all(rf_item_list *list, const rf_item_value *values)
{
    for (uint32_t i = 0; i < list->count; i++) {
        rf_item *item = &list->items[i];
        if (item->kind->prepare) RF_TRY(item->kind->prepare(item, &values[i]));
    }
    return RF_OK;
}

/* With `partial`, what the file does not have stays as it is. */
static rf_result apply_all(const rf_checkpoint *c, rf_item_list *list, const rf_item_value *values, bool partial)
{
    for (uint32_t i = 0; i < c->objects.count; i++) {
        const rf_tracked *t = &c->objects.items[i];
        if (t->kind->begin_apply) RF_TRY(t->kind->begin_apply(t, list, values));
    }
    for (uint32_t i = 0; i < list->count; i++) {
        rf_item *item = &list->items[i];
        if (!item->kind->apply || (!values[i].present && (partial || !item->kind->optional))) continue;
        RF_TRY(rf_error_context(item->kind->apply(item, &values[i]), "restoring '%s'", item->name));
    }
    return RF_OK;
}

/* A refusal of one worker is one of all. */
static rf_result result_agree(rf_strategy *strategy, rf_result mine)
{
    rf_error_record record;
    rf_error_save(&record);
    bool any;
    RF_TRY(rf_strategy_any(strategy, mine < 0, &any));
    if (mine < 0) return rf_error_restore(&record);
    return any ? RF_FAIL(RF_ERROR_INVALID_ARGUMENT, "another worker could not restore the checkpoint; see its message")
               : RF_OK;
}

static rf_result checkpoint_restore(rf_checkpoint *c, const char *path, bool partial, rf_item_list *list, report *rep)
{
    RF_TRY(rf_items_make(c, list));
    rf_item_value *values = RF_NEW_ARRAY(rf_item_value, list->count);
    if (!values) return rf_strategy_fail_in_job(c->strategy, RF_ERROR_OUT_OF_HOST_MEMORY);
    rf_result r = RF_OK;
    if (rf_strategy_is_chief(c->strategy)) r = items_load(c, path, list, partial, values, rep);
    r = rf_broadcast_result(c->strategy, r);
    if (r >= 0) r = broadcast_values(c->strategy, list, values);
    if (r >= 0) r = result_agree(c->strategy, prepare_all(list, values));
    if (r >= 0) r = rf_strategy_fail_in_job(c->strategy, apply_all(c, list, values, partial));
    rf_item_values_free(values, list->count);
    return r;
}

rf_result rf_checkpoint_restore(rf_checkpoint *checkpoint, const char *path, const rf_restore_params *params)
{
    static const rf_restore_params defaults = { 0 };
    if (!params) params = &defaults;
    if (params->report) *params->report = NULL;
    RF_TRY(RF_PARAMS_CHECK(rf_restore_params, params));
    RF_REQUIRE(checkpoint, "rf_checkpoint_restore: checkpoint is NULL");
    RF_REQUIRE(path && *path, "rf_checkpoint_restore: path is empty");
    RF_TRY(rf_checkpoint_check_alive(checkpoint, "rf_checkpoint_restore"));
    RF_TRY(rf_checkpoint_wait(checkpoint));
    rf_item_list list = { 0 };
    report rep = { .text = rf_strdup("") };
    if (!rep.text) return rf_strategy_fail_in_job(checkpoint->strategy, RF_ERROR_OUT_OF_HOST_MEMORY);
    const rf_result r = checkpoint_restore(checkpoint, path, params->partial, &list, &rep);
    rf_items_free(&list);
    if (params->report) {
        *params->report = rep.text;
        rep.text = NULL;
    }
    free_report(&rep);
    return r;
}
