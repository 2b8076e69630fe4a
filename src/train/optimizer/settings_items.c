/* SPDX-License-Identifier: Apache-2.0 */
/* The settings of an optimizer in a checkpoint. Only the learning rate is restored; the others are compared: another
 * kind of optimizer is another object, and its other settings are the program's, which may have changed them on
 * purpose. */
#include <stdio.h>
#include <string.h>

#include "base/numbers.h"
#include "persist/json.h"
#include "train/optimizer/config_json.h"
#include "train/optimizer/items.h"

static rf_result collect_schedule(const rf_item *item, rf_item_value *value)
{
    char *text;
    RF_TRY(rf_json_text(rf_schedule_to_json(&rf_optimizer_configuration(item->tracked->object)->schedule), &text));
    return rf_item_value_set_text(value, text);
}

static rf_result read_schedule(const rf_item *item, const rf_item_value *value, rf_schedule *out)
{
    json_t *root;
    RF_TRY(rf_json_parse(value->data, (size_t)value->size, item->name, &root));
    const rf_result r = rf_schedule_from_json(root, out);
    json_decref(root);
    return rf_error_context(r, "%s", item->name);
}

static rf_result prepare_schedule(rf_item *item, const rf_item_value *value)
{
    rf_schedule schedule;
    return value->present ? read_schedule(item, value, &schedule) : RF_OK;
}

static rf_result apply_schedule(rf_item *item, const rf_item_value *value)
{
    rf_schedule schedule;
    RF_TRY(read_schedule(item, value, &schedule));
    return rf_optimizer_set_schedule(item->tracked->object, &schedule);
}

const rf_item_kind rf_schedule_item_kind = {
    .form = RF_ITEM_TEXT, .collect = collect_schedule, .prepare = prepare_schedule, .apply = apply_schedule
};

static const char *kind_of(const rf_item *item)
{
    return rf_optimizer_config_name(rf_optimizer_configuration(item->tracked->object));
}

static rf_result collect_kind(const rf_item *item, rf_item_value *value)
{
    return rf_item_value_set_text(value, rf_strdup(kind_of(item)));
}

static rf_item_verdict compare_kind(const rf_item *item, const rf_item_value *value, char *detail, size_t size)
{
    if (strcmp(value->data, kind_of(item)) == 0) return RF_ITEM_SAME;
    snprintf(detail, size, "%.40s in the file, %s here", (const char *)value->data, kind_of(item));
    return RF_ITEM_REFUSED;
}

/* Optional: files of earlier versions do not have it. */
const rf_item_kind rf_optimizer_item_kind = {
    .form = RF_ITEM_TEXT, .optional = true, .compare = compare_kind, .collect = collect_kind
};

static json_t *settings_of(const rf_item *item)
{
    const rf_optimizer_config *config = rf_optimizer_configuration(item->tracked->object);
    json_t *settings = rf_optimizer_to_json(&config->params, &config->schedule);
    (void)json_object_del(settings, "kind");
    (void)json_object_del(settings, "learning_rate"); /* these two have items of their own */
    return settings;
}

static rf_result collect_settings(const rf_item *item, rf_item_value *value)
{
    char *text;
    RF_TRY(rf_json_text(settings_of(item), &text));
    return rf_item_value_set_text(value, text);
}

/* A setting that an older file does not name is 0, false or empty there. */
static bool same_setting(const json_t *its, const json_t *mine)
{
    if (json_is_array(mine)) return its ? json_equal(its, mine) : json_array_size(mine) == 0;
    const double a = json_is_boolean(its) ? json_is_true(its) : json_number_value(its);
    const double b = json_is_boolean(mine) ? json_is_true(mine) : json_number_value(mine);
    return a == b;
}

static size_t write_difference(char *text, size_t size, const char *name, const json_t *its, const json_t *mine)
{
    if (json_is_array(mine)) return (size_t)snprintf(text, size, "%s differ", name);
    return (size_t)rf_number_print(text, size, "%s %.9g in the file, %.9g here", name,
                                   json_is_boolean(its) ? json_is_true(its) : json_number_value(its),
                                   json_is_boolean(mine) ? json_is_true(mine) : json_number_value(mine));
}

static rf_item_verdict compare_settings(const rf_item *item, const rf_item_value *value, char *detail, size_t size)
{
    json_t *here = settings_of(item), *saved, *mine;
    RF_WITH_C_NUMBERS(saved = json_loadb(value->data, (size_t)value->size, 0, NULL));
    const char *name;
    size_t used = 0;
    json_object_foreach(here, name, mine)
    {
        const json_t *its = json_object_get(saved, name);
        if (same_setting(its, mine)) continue;
        if (used > 0 && used < size) used += (size_t)snprintf(detail + used, size - used, ", ");
        if (used < size) used += write_difference(detail + used, size - used, name, its, mine);
    }
    json_decref(here);
    json_decref(saved);
    return used ? RF_ITEM_DIFFERS : RF_ITEM_SAME;
}

const rf_item_kind rf_settings_item_kind = {
    .form = RF_ITEM_TEXT, .optional = true, .compare = compare_settings, .collect = collect_settings
};
