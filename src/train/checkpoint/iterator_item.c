/* SPDX-License-Identifier: Apache-2.0 */
/* An iterator in a checkpoint: its position in its dataset. */
#include <string.h>

#include "data/pipeline.h"
#include "train/checkpoint/checkpoint.h"

static rf_result collect_position(const rf_item *item, rf_item_value *value)
{
    const rf_iterator *iterator = *(rf_iterator **)item->tracked->object;
    if (!iterator) return RF_OK;
    void *state;
    size_t size;
    RF_TRY(rf_iterator_save(iterator, &state, &size));
    value->data = rf_calloc(size, 1);
    if (value->data) memcpy(value->data, state, size);
    rf_iterator_state_free(state);
    if (!value->data) return RF_ERROR_OUT_OF_HOST_MEMORY;
    value->size = size;
    value->present = true;
    return RF_OK;
}

static rf_result prepare_position(rf_item *item, const rf_item_value *value)
{
    if (!value->present) return RF_OK;
    const rf_result r = rf_iterator_restore(item->tracked->dataset, value->data, (size_t)value->size, &item->iterator);
    return rf_error_context(r, "%s", item->name);
}

static rf_result apply_position(rf_item *item, const rf_item_value *value)
{
    rf_iterator **iterator = item->tracked->object;
    (void)value;
    rf_iterator_destroy(iterator);
    *iterator = item->iterator;
    item->iterator = NULL;
    return RF_OK;
}

static const rf_item_kind position_kind = { .form = RF_ITEM_BYTES,
                                            .optional = true,
                                            .collect = collect_position,
                                            .prepare = prepare_position,
                                            .apply = apply_position };

static rf_result append_iterator(const rf_tracked *t, rf_item_list *list)
{
    return rf_item_append_plain(list, t, "/position", &position_kind);
}

static rf_result check_iterator(const rf_tracked *t, const char *function)
{
    const rf_iterator *iterator = *(rf_iterator **)t->object;
    RF_REQUIRE(!iterator || rf_dataset_has_iterator(t->dataset, iterator),
               "%s: the iterator '%s' has been destroyed, or is not over the dataset that was added with it; set it "
               "to NULL, or create it from that dataset",
               function, t->name);
    return RF_OK;
}

static void release_dataset(rf_tracked *t)
{
    rf_dataset_destroy(&t->dataset);
}

/* There need not be an iterator yet when its place is added. */
static const rf_tracked_kind iterator_kind = {
    .append = append_iterator, .check_alive = check_iterator, .checked_later = true, .release = release_dataset
};

rf_result rf_checkpoint_add_iterator(rf_checkpoint *checkpoint, const char *name, rf_iterator **iterator,
                                     const rf_dataset *dataset)
{
    RF_REQUIRE(dataset, "rf_checkpoint_add_iterator: dataset is NULL");
    rf_dataset *kept = (rf_dataset *)(uintptr_t)dataset; /* a reference changes nothing else of it */
    RF_TRY(rf_checkpoint_add(checkpoint, "rf_checkpoint_add_iterator", name,
                             (rf_tracked){ .kind = &iterator_kind, .object = iterator, .dataset = kept }));
    rf_dataset_retain(kept);
    return RF_OK;
}
