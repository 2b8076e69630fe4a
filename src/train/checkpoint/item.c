/* SPDX-License-Identifier: Apache-2.0 */
/* Lists of items, and values of one. */
#include "train/checkpoint/item.h"

#include <string.h>

#include "train/checkpoint/checkpoint.h"

/* ---- values ---- */

rf_result rf_item_value_allocate(rf_item_value *value, rf_shape shape)
{
    value->shape = shape;
    value->size = (uint64_t)rf_shape_count(shape) * sizeof(float);
    value->data = rf_calloc((size_t)value->size, 1);
    value->present = value->data != NULL;
    return value->data ? RF_OK : RF_ERROR_OUT_OF_HOST_MEMORY;
}

void rf_item_value_set_number(rf_item_value *value, uint64_t number)
{
    value->present = true;
    value->number = number;
}

rf_result rf_item_value_set_text(rf_item_value *value, char *text)
{
    value->data = text;
    value->size = text ? strlen(text) : 0;
    value->present = text != NULL;
    return text ? RF_OK : RF_ERROR_OUT_OF_HOST_MEMORY;
}

void rf_item_values_free(rf_item_value *values, uint32_t count)
{
    for (uint32_t i = 0; values && i < count; i++)
        if (!values[i].borrowed) rf_free(values[i].data);
    rf_free(values);
}

/* ---- items ---- */

rf_result rf_item_append(rf_item_list *list, char *name, rf_item item)
{
    const rf_result r = name ? RF_VEC_GROW(list) : RF_ERROR_OUT_OF_HOST_MEMORY;
    if (r < 0) {
        rf_free(name);
        return r;
    }
    item.name = name;
    list->items[list->count++] = item;
    return RF_OK;
}

rf_result rf_item_append_plain(rf_item_list *list, const rf_tracked *tracked, const char *suffix,
                               const rf_item_kind *kind)
{
    return rf_item_append(list, rf_asprintf("%s%s", tracked->name, suffix),
                          (rf_item){ .kind = kind, .tracked = tracked });
}

rf_result rf_item_prepare_numbers(rf_item *item)
{
    item->numbers = RF_NEW_ARRAY(float, rf_shape_count(item->shape));
    return item->numbers ? RF_OK : RF_ERROR_OUT_OF_HOST_MEMORY;
}

rf_result rf_items_make(const rf_checkpoint *checkpoint, rf_item_list *out)
{
    *out = (rf_item_list){ 0 };
    rf_result r = RF_OK;
    for (uint32_t i = 0; r >= 0 && i < checkpoint->objects.count; i++) {
        const rf_tracked *tracked = &checkpoint->objects.items[i];
        r = tracked->kind->append(tracked, out);
    }
    if (r < 0) rf_items_free(out);
    return r;
}

void rf_items_free(rf_item_list *list)
{
    for (uint32_t i = 0; i < list->count; i++) {
        rf_iterator_destroy(&list->items[i].iterator);
        rf_free(list->items[i].numbers);
        rf_free(list->items[i].name);
    }
    rf_free(list->items);
    *list = (rf_item_list){ 0 };
}
