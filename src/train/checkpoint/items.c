/* SPDX-License-Identifier: Apache-2.0 */
/* The entries of each kind of object in a checkpoint, and how they are read from the object and written back. */
#include <stdio.h>
#include <string.h>

#include "base/numbers.h"
#include "replica/strategy.h"
#include "train/checkpoint/checkpoint.h"
#include "train/files/config_json.h"
#include "train/files/model_json.h"
#include "train/metrics/metric.h"
#include "train/model/model.h"

static rf_result item_value_allocate(rf_item_value *value, rf_shape shape, rf_dtype dtype)
{
    value->shape = shape;
    value->size = (uint64_t)rf_shape_count(shape) * rf_dtype_size(dtype);
    value->data = rf_calloc((size_t)value->size, 1);
    value->present = value->data != NULL;
    return value->data ? RF_OK : RF_ERROR_OUT_OF_HOST_MEMORY;
}

static void set_number(rf_item_value *value, uint64_t number)
{
    value->present = true;
    value->number = number;
}

static rf_result set_text(rf_item_value *value, char *text)
{
    value->data = text;
    value->size = text ? strlen(text) : 0;
    value->present = text != NULL;
    return text ? RF_OK : RF_ERROR_OUT_OF_HOST_MEMORY;
}

/* ---- variables ---- */

static rf_result collect_variable(const rf_item *item, rf_item_value *value)
{
    RF_TRY(item_value_allocate(value, item->shape, RF_F32));
    return rf_variable_read(item->variable, value->data);
}

static rf_result defer_variable(const rf_item *item, rf_state_copy *copy, rf_range range, float *to, bool *taken)
{
    return rf_state_copy_variable(copy, item->variable, range, to, taken);
}

static rf_result read_variable(const rf_item *item, rf_range range, float *to)
{
    return rf_variable_read_range(item->variable, range, to);
}

/* What all workers have is cut into equal shares; small tensors are the chief's. */
static rf_result range_list_owners(const rf_strategy *strategy, rf_range range, rf_owned_list *out)
{
    enum { LEAST_SHARE = 4096 }; /* elements */
    const uint32_t ranks = rf_strategy_world_size(strategy);
    rf_range *shares = RF_NEW_ARRAY(rf_range, ranks);
    if (!shares) return RF_ERROR_OUT_OF_HOST_MEMORY;
    rf_shard_ranges(range.end - range.begin, LEAST_SHARE, ranks, shares);
    rf_result r = RF_OK;
    for (uint32_t i = 0; r >= 0 && i < ranks; i++) {
        if (shares[i].begin == shares[i].end) continue;
        r = RF_VEC_GROW(out);
        if (r >= 0)
            out->items[out->count++] = (rf_owned){ i, { range.begin + shares[i].begin, range.begin + shares[i].end } };
    }
    rf_free(shares);
    return r;
}

/* As the updater has it, what all workers have dealt out. */
static rf_result owners_in(const rf_updater *updater, const rf_item *item, rf_owned_list *out)
{
    rf_owned_list known = { 0 };
    rf_result r = rf_updater_owners(updater, item->variable, &known);
    for (uint32_t i = 0; r >= 0 && i < known.count; i++) {
        if (known.items[i].rank == RF_RANK_ALL) {
            r = range_list_owners(item->tracked->strategy, known.items[i].range, out);
            continue;
        }
        r = RF_VEC_GROW(out);
        if (r >= 0) out->items[out->count++] = known.items[i];
    }
    rf_free(known.items);
    return r;
}

/* Every worker has all of it: each writes what it updates. Others than trainable variables may differ; the chief's
 * count. */
static rf_result owners_of_variable(const rf_checkpoint *c, const rf_item *item, rf_owned_list *out)
{
    if (!rf_variable_trainable(item->variable)) return RF_OK;
    for (uint32_t i = 0; i < c->objects.count && out->count == 0; i++)
        if (c->objects.items[i].kind == RF_TRACKED_OPTIMIZER)
            RF_TRY(owners_in(rf_optimizer_updater(c->objects.items[i].u.optimizer), item, out));
    if (out->count > 0) return RF_OK;
    return range_list_owners(item->tracked->strategy, (rf_range){ 0, (uint64_t)rf_shape_count(item->shape) }, out);
}

static rf_result apply_variable(rf_item *item, const rf_item_value *value)
{
    return rf_variable_assign(item->variable, value->data);
}

static const rf_item_kind variable_kind = { .form = RF_ITEM_TENSOR,
                                            .dtype = RF_F32,
                                            .defer = defer_variable,
                                            .owners = owners_of_variable,
                                            .read = read_variable,
                                            .collect = collect_variable,
                                            .apply = apply_variable };

/* ---- optimizer ---- */

static bool updates_variable(const rf_updater *updater, const rf_variable *variable)
{
    const rf_variable_list known = rf_updater_variables(updater);
    for (uint32_t i = 0; i < known.count; i++)
        if (known.items[i] == variable) return true;
    return false;
}

static rf_updater *updater_of(const rf_item *item)
{
    return rf_optimizer_updater(item->tracked->u.optimizer);
}

static rf_result collect_slot(const rf_item *item, rf_item_value *value)
{
    if (!updates_variable(updater_of(item), item->variable)) return RF_OK;
    RF_TRY(item_value_allocate(value, item->shape, RF_F32));
    return rf_updater_read_slot(updater_of(item), item->slot, item->variable, value->data);
}

static rf_result defer_slot(const rf_item *item, rf_state_copy *copy, rf_range range, float *to, bool *taken)
{
    *taken = false;
    if (!updates_variable(updater_of(item), item->variable)) return RF_OK;
    return rf_state_copy_slot(copy, updater_of(item), item->slot, item->variable, range, to, taken);
}

static rf_result owners_of_slot(const rf_checkpoint *c, const rf_item *item, rf_owned_list *out)
{
    (void)c;
    return owners_in(updater_of(item), item, out);
}

static rf_result read_slot(const rf_item *item, rf_range range, float *to)
{
    return rf_updater_read_owned(updater_of(item), item->slot, item->variable, range, to);
}

static rf_result prepare_numbers(rf_item *item)
{
    item->numbers = RF_NEW_ARRAY(float, rf_shape_count(item->shape));
    return item->numbers ? RF_OK : RF_ERROR_OUT_OF_HOST_MEMORY;
}

/* A variable that was never updated has initial values. */
static rf_result prepare_slot(rf_item *item, const rf_item_value *value)
{
    rf_updater *u = updater_of(item);
    if (value->present || !updates_variable(u, item->variable)) return RF_OK;
    RF_TRY(prepare_numbers(item));
    for (int64_t i = 0; i < rf_shape_count(item->shape); i++) item->numbers[i] = rf_updater_initial(u, item->slot);
    return RF_OK;
}

static rf_result apply_slot(rf_item *item, const rf_item_value *value)
{
    const float *numbers = value->present ? value->data : item->numbers;
    if (numbers && !value->present && rf_updater_begins_as_weights(updater_of(item), item->slot))
        RF_TRY(rf_variable_read(item->variable, item->numbers));
    return numbers ? rf_updater_write_slot(updater_of(item), item->slot, item->variable, numbers) : RF_OK;
}

static const rf_item_kind slot_kind = { .form = RF_ITEM_TENSOR,
                                        .dtype = RF_F32,
                                        .optional = true,
                                        .exchanged = true,
                                        .defer = defer_slot,
                                        .owners = owners_of_slot,
                                        .read = read_slot,
                                        .collect = collect_slot,
                                        .prepare = prepare_slot,
                                        .apply = apply_slot };

static rf_result collect_totals(const rf_item *item, rf_item_value *value)
{
    rf_updater *u = updater_of(item);
    if (rf_updater_accumulated(u) == 0 || !updates_variable(u, item->variable)) return RF_OK;
    RF_TRY(item_value_allocate(value, item->shape, RF_F32));
    return rf_updater_read_totals(u, item->variable, value->data);
}

/* Each worker has the rows of its replicas. */
static rf_result owners_of_totals(const rf_checkpoint *c, const rf_item *item, rf_owned_list *out)
{
    const rf_updater *u = updater_of(item);
    if (rf_updater_accumulated(u) == 0 || !updates_variable(u, item->variable)) return RF_OK;
    const uint64_t count = (uint64_t)item->shape.dim[1];
    for (uint32_t i = 0; i < rf_strategy_world_size(c->strategy); i++) {
        const rf_range rows = { rf_strategy_first_replica(c->strategy, i),
                                rf_strategy_first_replica(c->strategy, i + 1) };
        if (rows.begin == rows.end || count == 0) continue;
        RF_TRY(RF_VEC_GROW(out));
        out->items[out->count++] = (rf_owned){ i, { rows.begin * count, rows.end * count } };
    }
    return RF_OK;
}

static rf_result read_totals(const rf_item *item, rf_range range, float *to)
{
    (void)range; /* all that this worker has */
    return rf_updater_read_own_totals(updater_of(item), item->variable, to);
}

/* On as many replicas as there were each gets its own sum back, so that the next update adds in the same order; else
 * the first gets all. Variables without sums get zeros. */
static rf_result prepare_totals(rf_item *item, const rf_item_value *value)
{
    if (!value->present && !updates_variable(updater_of(item), item->variable)) return RF_OK;
    const uint64_t replicas = (uint64_t)item->shape.dim[0], count = (uint64_t)item->shape.dim[1];
    const uint64_t saved = value->present ? (uint64_t)value->shape.dim[0] : 0;
    RF_TRY(prepare_numbers(item));
    const float *from = value->data;
    for (uint64_t r = 0; r < saved; r++) {
        float *to = item->numbers + (saved == replicas ? r * count : 0);
        for (uint64_t i = 0; i < count; i++) to[i] += from[r * count + i];
    }
    return RF_OK;
}

static rf_result apply_totals(rf_item *item, const rf_item_value *value)
{
    (void)value;
    return item->numbers ? rf_updater_write_totals(updater_of(item), item->variable, item->numbers) : RF_OK;
}

static const rf_item_kind totals_kind = { .form = RF_ITEM_TENSOR,
                                          .dtype = RF_F32,
                                          .optional = true,
                                          .free_rows = true,
                                          .exchanged = true,
                                          .owners = owners_of_totals,
                                          .read = read_totals,
                                          .collect = collect_totals,
                                          .prepare = prepare_totals,
                                          .apply = apply_totals };

static rf_result collect_iterations(const rf_item *item, rf_item_value *value)
{
    set_number(value, rf_updater_iterations(updater_of(item)));
    return RF_OK;
}

static rf_result apply_iterations(rf_item *item, const rf_item_value *value)
{
    rf_updater_set_iterations(updater_of(item), value->number);
    return RF_OK;
}

static const rf_item_kind iterations_kind = { .form = RF_ITEM_NUMBER,
                                              .collect = collect_iterations,
                                              .apply = apply_iterations };

static rf_result collect_accumulated(const rf_item *item, rf_item_value *value)
{
    const uint32_t steps = rf_updater_accumulated(updater_of(item));
    if (steps > 0) set_number(value, steps);
    return RF_OK;
}

static rf_result prepare_accumulated(rf_item *item, const rf_item_value *value)
{
    const uint32_t most = rf_updater_accumulation_steps(updater_of(item));
    RF_REQUIRE(!value->present || value->number < most,
               "%s: %llu steps are accumulated, but the optimizer updates after %u; create it with the same "
               "accumulation_steps",
               item->name, (unsigned long long)value->number, most);
    return RF_OK;
}

static rf_result apply_accumulated(rf_item *item, const rf_item_value *value)
{
    rf_updater_set_accumulated(updater_of(item), (uint32_t)value->number);
    return RF_OK;
}

static const rf_item_kind accumulated_kind = { .form = RF_ITEM_NUMBER,
                                               .optional = true,
                                               .collect = collect_accumulated,
                                               .prepare = prepare_accumulated,
                                               .apply = apply_accumulated };

static rf_result collect_schedule(const rf_item *item, rf_item_value *value)
{
    char *text;
    RF_TRY(rf_json_text(rf_schedule_to_json(&rf_optimizer_configuration(item->tracked->u.optimizer)->schedule), &text));
    return set_text(value, text);
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
    return rf_optimizer_set_schedule(item->tracked->u.optimizer, &schedule);
}

static const rf_item_kind schedule_kind = {
    .form = RF_ITEM_TEXT, .collect = collect_schedule, .prepare = prepare_schedule, .apply = apply_schedule
};

/* What is not restored is compared: another kind of optimizer is another object; its other settings are the program's,
 * which may have changed them on purpose. */
static rf_result apply_nothing(rf_item *item, const rf_item_value *value)
{
    (void)item;
    (void)value;
    return RF_OK;
}

static const char *kind_of(const rf_item *item)
{
    return rf_optimizer_config_name(rf_optimizer_configuration(item->tracked->u.optimizer));
}

static rf_result collect_kind(const rf_item *item, rf_item_value *value)
{
    return set_text(value, rf_strdup(kind_of(item)));
}

static rf_item_verdict compare_kind(const rf_item *item, const rf_item_value *value, char *detail, size_t size)
{
    if (strcmp(value->data, kind_of(item)) == 0) return RF_ITEM_SAME;
    snprintf(detail, size, "%.40s in the file, %s here", (const char *)value->data, kind_of(item));
    return RF_ITEM_REFUSED;
}

/* Optional: files of earlier versions do not have it. */
static const rf_item_kind item_kind_optimizer_kind = {
    .form = RF_ITEM_TEXT, .optional = true, .compare = compare_kind, .collect = collect_kind, .apply = apply_nothing
};

static json_t *settings_of(const rf_item *item)
{
    const rf_optimizer_config *config = rf_optimizer_configuration(item->tracked->u.optimizer);
    json_t *settings = rf_optimizer_to_json(&config->params, &config->schedule);
    (void)json_object_del(settings, "kind");
    (void)json_object_del(settings, "learning_rate"); /* these two have items of their own */
    return settings;
}

static rf_result collect_settings(const rf_item *item, rf_item_value *value)
{
    char *text;
    RF_TRY(rf_json_text(settings_of(item), &text));
    return set_text(value, text);
}

/* What an older file does not name is 0, false or empty there. */
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

static const rf_item_kind settings_kind = { .form = RF_ITEM_TEXT,
                                            .optional = true,
                                            .compare = compare_settings,
                                            .collect = collect_settings,
                                            .apply = apply_nothing };

/* ---- metrics ---- */

static rf_result collect_metric(const rf_item *item, rf_item_value *value)
{
    RF_TRY(item_value_allocate(value, item->shape, RF_F32));
    return rf_local_state_read(rf_metric_state(item->tracked->u.metric), value->data);
}

static rf_result prepare_metric(rf_item *item, const rf_item_value *value)
{
    if (!value->present) return RF_OK;
    RF_TRY(prepare_numbers(item));
    rf_metric_spread(value->data, (uint32_t)value->shape.dim[0], item->numbers, (uint32_t)item->shape.dim[0],
                     (uint32_t)item->shape.dim[1]);
    return RF_OK;
}

static rf_result apply_metric(rf_item *item, const rf_item_value *value)
{
    (void)value;
    return rf_local_state_write(rf_metric_state(item->tracked->u.metric), item->numbers);
}

static const rf_item_kind metric_kind = { .form = RF_ITEM_TENSOR,
                                          .dtype = RF_F32,
                                          .free_rows = true,
                                          .collect = collect_metric,
                                          .prepare = prepare_metric,
                                          .apply = apply_metric };

/* ---- numbers ---- */

static rf_result collect_function(const rf_item *item, rf_item_value *value)
{
    set_number(value, rf_function_step(item->tracked->u.function));
    return RF_OK;
}

static rf_result apply_function(rf_item *item, const rf_item_value *value)
{
    rf_function_set_step(item->tracked->u.function, value->number);
    return RF_OK;
}

static const rf_item_kind function_kind = { .form = RF_ITEM_NUMBER,
                                            .collect = collect_function,
                                            .apply = apply_function };

static rf_result collect_counter(const rf_item *item, rf_item_value *value)
{
    set_number(value, *item->tracked->u.counter);
    return RF_OK;
}

static rf_result apply_counter(rf_item *item, const rf_item_value *value)
{
    *item->tracked->u.counter = value->number;
    return RF_OK;
}

static const rf_item_kind counter_kind = { .form = RF_ITEM_NUMBER, .collect = collect_counter, .apply = apply_counter };

static rf_result collect_seed(const rf_item *item, rf_item_value *value)
{
    set_number(value, rf_strategy_seed(item->tracked->strategy));
    return RF_OK;
}

static rf_result apply_seed(rf_item *item, const rf_item_value *value)
{
    rf_strategy_set_seed(item->tracked->strategy, value->number);
    return RF_OK;
}

static const rf_item_kind seed_kind = { .form = RF_ITEM_NUMBER, .collect = collect_seed, .apply = apply_seed };

/* ---- iterators ---- */

static rf_result collect_iterator(const rf_item *item, rf_item_value *value)
{
    const rf_iterator *iterator = *item->tracked->u.iterator;
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

static rf_result prepare_iterator(rf_item *item, const rf_item_value *value)
{
    if (!value->present) return RF_OK;
    const rf_result r = rf_iterator_restore(item->tracked->dataset, value->data, (size_t)value->size, &item->iterator);
    return rf_error_context(r, "%s", item->name);
}

static rf_result apply_iterator(rf_item *item, const rf_item_value *value)
{
    (void)value;
    rf_iterator_destroy(item->tracked->u.iterator);
    *item->tracked->u.iterator = item->iterator;
    item->iterator = NULL;
    return RF_OK;
}

static const rf_item_kind iterator_kind = { .form = RF_ITEM_BYTES,
                                            .optional = true,
                                            .collect = collect_iterator,
                                            .prepare = prepare_iterator,
                                            .apply = apply_iterator };

/* ---- bytes of anything else: a tensor, because they may be many ---- */

static rf_result collect_blob(const rf_item *item, rf_item_value *value)
{
    size_t size = 0;
    const uint64_t before = rf_error_count();
    RF_TRY(rf_error_context(rf_error_of_user(item->tracked->blob.save(item->tracked->u.user, &value->data, &size),
                                             before, "the function that saves it"),
                            "%s", item->name));
    value->present = value->data && size > 0;
    value->size = size;
    value->shape = RF_SHAPE((int64_t)size);
    return RF_OK;
}

static rf_result apply_blob(rf_item *item, const rf_item_value *value)
{
    if (!value->present) return RF_OK;
    const uint64_t before = rf_error_count();
    const rf_result r = item->tracked->blob.restore(item->tracked->u.user, value->data, (size_t)value->size);
    return rf_error_context(rf_error_of_user(r, before, "the function that restores it"), "%s", item->name);
}

static const rf_item_kind blob_kind = { .form = RF_ITEM_TENSOR,
                                        .dtype = RF_U8,
                                        .optional = true,
                                        .free_rows = true,
                                        .collect = collect_blob,
                                        .apply = apply_blob };

static rf_result collect_text(const rf_item *item, rf_item_value *value)
{
    return set_text(value, rf_strdup(item->tracked->u.text));
}

static const rf_item_kind text_kind = { .form = RF_ITEM_TEXT, .collect = collect_text, .apply = apply_nothing };

/* ---- the list ---- */

/* Appends an item; `name` is taken over, NULL: out of memory. */
static rf_result item_append(rf_item_list *list, char *name, rf_item item)
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

static rf_result append_plain(rf_item_list *list, const rf_tracked *tracked, const char *suffix,
                              const rf_item_kind *kind)
{
    return item_append(list, rf_asprintf("%s%s", tracked->name, suffix), (rf_item){ .kind = kind, .tracked = tracked });
}

static rf_result append_model(rf_item_list *list, const rf_tracked *tracked)
{
    const rf_model *model = tracked->u.model;
    RF_REQUIRE(model->built, "checkpoint: '%s' has no variables yet; call rf_model_build() first", tracked->name);
    for (uint32_t i = 0; i < model->tracked.count; i++) {
        rf_variable *v = model->tracked.items[i].variable;
        RF_TRY(item_append(
            list, rf_asprintf("%s/%s", tracked->name, model->tracked.items[i].name),
            (rf_item){ .kind = &variable_kind, .tracked = tracked, .variable = v, .shape = rf_variable_shape(v) }));
    }
    return RF_OK;
}

/* A variable that an optimizer may have state for, and what it is called in the file. */
typedef struct candidate {
    rf_variable *variable;
    const char *name;   /* the variable's, or what its model calls it */
    const char *object; /* it was added with; NULL: only the optimizer knows it */
} candidate;
typedef struct candidate_list {
    candidate *items;
    uint32_t count, capacity;
} candidate_list;

static rf_result add_candidate(candidate_list *list, rf_variable *variable, const char *name, const char *object)
{
    if (!rf_variable_trainable(variable)) return RF_OK;
    for (uint32_t i = 0; i < list->count; i++)
        if (list->items[i].variable == variable) return RF_OK;
    RF_TRY(RF_VEC_GROW(list));
    list->items[list->count++] = (candidate){ variable, name, object };
    return RF_OK;
}

static rf_result find_candidates(const rf_checkpoint *c, rf_optimizer *optimizer, candidate_list *list)
{
    for (uint32_t i = 0; i < c->objects.count; i++) {
        const rf_tracked *t = &c->objects.items[i];
        if (t->kind == RF_TRACKED_VARIABLE)
            RF_TRY(add_candidate(list, t->u.variable, rf_variable_name(t->u.variable), t->name));
        for (uint32_t k = 0; t->kind == RF_TRACKED_MODEL && k < t->u.model->tracked.count; k++) {
            const rf_model_variable *v = &t->u.model->tracked.items[k];
            RF_TRY(add_candidate(list, v->variable, v->name, t->name));
        }
    }
    const rf_variable_list known = rf_updater_variables(rf_optimizer_updater(optimizer));
    for (uint32_t i = 0; i < known.count; i++)
        RF_TRY(add_candidate(list, known.items[i], rf_variable_name(known.items[i]), NULL));
    return RF_OK;
}

/* The variable's own name; with the object's in front where several have that. */
static rf_result candidate_name(const candidate_list *list, uint32_t index, char **out)
{
    const candidate *mine = &list->items[index];
    const char *name = mine->name;
    bool shared = false;
    for (uint32_t i = 0; i < list->count; i++) shared |= i != index && strcmp(list->items[i].name, name) == 0;
    RF_REQUIRE(!shared || mine->object,
               "checkpoint: the optimizer updates two variables '%s'; add them or their models to the checkpoint",
               name);
    *out = shared ? rf_asprintf("%s/%s", mine->object, name) : rf_strdup(name);
    return *out ? RF_OK : RF_ERROR_OUT_OF_HOST_MEMORY;
}

static rf_result append_state_of(rf_item_list *list, const rf_tracked *tracked, rf_variable *v, const char *name)
{
    rf_updater *u = rf_optimizer_updater(tracked->u.optimizer);
    const rf_optimizer_config *config = rf_optimizer_configuration(tracked->u.optimizer);
    const uint32_t num_slots = rf_updater_num_slots(u);
    for (uint32_t k = 0; k < num_slots; k++)
        RF_TRY(item_append(list, rf_asprintf("%s/%s/%s", tracked->name, rf_optimizer_config_slot(config, k), name),
                           (rf_item){ .kind = &slot_kind,
                                      .tracked = tracked,
                                      .variable = v,
                                      .slot = k,
                                      .siblings = k == 0 ? num_slots - 1 : 0,
                                      .shape = rf_variable_shape(v) }));
    if (rf_updater_accumulation_steps(u) == 1) return RF_OK;
    return item_append(list, rf_asprintf("%s/accumulated_gradient/%s", tracked->name, name),
                       (rf_item){ .kind = &totals_kind,
                                  .tracked = tracked,
                                  .variable = v,
                                  .shape = RF_SHAPE(rf_strategy_num_replicas_in_sync(tracked->strategy),
                                                    rf_shape_count(rf_variable_shape(v))) });
}

static rf_result append_optimizer(rf_item_list *list, const rf_checkpoint *c, const rf_tracked *tracked)
{
    candidate_list candidates = { 0 };
    rf_result r = find_candidates(c, tracked->u.optimizer, &candidates);
    for (uint32_t i = 0; r >= 0 && i < candidates.count; i++) {
        char *name = NULL;
        r = candidate_name(&candidates, i, &name);
        if (r >= 0) r = append_state_of(list, tracked, candidates.items[i].variable, name);
        rf_free(name);
    }
    rf_free(candidates.items);
    RF_TRY(r);
    RF_TRY(append_plain(list, tracked, "/iterations", &iterations_kind));
    RF_TRY(append_plain(list, tracked, "/accumulated_steps", &accumulated_kind));
    RF_TRY(append_plain(list, tracked, "/accumulated_weight", &rf_weight_item_kind));
    if (rf_optimizer_configuration(tracked->u.optimizer)->params.loss_scale)
        RF_TRY(item_append(list, rf_asprintf("%s/loss_scale", tracked->name),
                           (rf_item){ .kind = &rf_scale_item_kind, .tracked = tracked, .shape = RF_SHAPE(2) }));
    RF_TRY(append_plain(list, tracked, "/kind", &item_kind_optimizer_kind));
    RF_TRY(append_plain(list, tracked, "/settings", &settings_kind));
    return append_plain(list, tracked, "/learning_rate", &schedule_kind);
}

static rf_result append_object(rf_item_list *list, const rf_checkpoint *c, const rf_tracked *t)
{
    switch (t->kind) {
    case RF_TRACKED_MODEL: return append_model(list, t);
    case RF_TRACKED_OPTIMIZER: return append_optimizer(list, c, t);
    case RF_TRACKED_METRIC:
        return item_append(list, rf_asprintf("%s/state", t->name),
                           (rf_item){ .kind = &metric_kind,
                                      .tracked = t,
                                      .shape = RF_SHAPE(rf_strategy_num_replicas_in_sync(t->strategy),
                                                        rf_local_state_count(rf_metric_state(t->u.metric))) });
    case RF_TRACKED_VARIABLE:
        return item_append(list, rf_strdup(t->name),
                           (rf_item){ .kind = &variable_kind,
                                      .tracked = t,
                                      .variable = t->u.variable,
                                      .shape = rf_variable_shape(t->u.variable) });
    case RF_TRACKED_FUNCTION: return append_plain(list, t, "/step", &function_kind);
    case RF_TRACKED_ITERATOR: return append_plain(list, t, "/position", &iterator_kind);
    case RF_TRACKED_COUNTER: return append_plain(list, t, "", &counter_kind);
    case RF_TRACKED_BLOB:
        return item_append(list, rf_asprintf("%s/state", t->name),
                           (rf_item){ .kind = &blob_kind, .tracked = t, .shape = RF_SHAPE(0) });
    case RF_TRACKED_TEXT: return append_plain(list, t, "", &text_kind);
    case RF_TRACKED_SEED: return append_plain(list, t, "/seed", &seed_kind);
    }
    return RF_FAIL(RF_ERROR_INTERNAL, "checkpoint: '%s' has no kind", t->name);
}

rf_result rf_items_make(const rf_checkpoint *checkpoint, rf_item_list *out)
{
    *out = (rf_item_list){ 0 };
    rf_result r = RF_OK;
    for (uint32_t i = 0; r >= 0 && i < checkpoint->objects.count; i++)
        r = append_object(out, checkpoint, &checkpoint->objects.items[i]);
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

void rf_item_values_free(rf_item_value *values, uint32_t count)
{
    for (uint32_t i = 0; values && i < count; i++) {
        if (!values[i].borrowed) rf_free(values[i].data);
        rf_free(values[i].owners.items);
    }
    rf_free(values);
}

rf_result rf_items_lacking(const rf_item_list *list, const rf_item_value *values, rf_lack_fn lacks, void *user)
{
    for (uint32_t i = 0; i < list->count; i++) {
        const rf_item *item = &list->items[i];
        if ((item->kind != &iterations_kind && item->kind != &accumulated_kind) || values[i].number == 0) continue;
        bool any = false;
        for (uint32_t k = 0; k < list->count; k++)
            any |= list->items[k].tracked == item->tracked && list->items[k].kind == &slot_kind && values[k].present;
        for (uint32_t k = 0; !any && k < list->count; k++)
            if (list->items[k].tracked == item->tracked && list->items[k].kind == &slot_kind)
                RF_TRY(lacks(user, list->items[k].name));
        if (!any && item->kind == &iterations_kind) i++; /* accumulated steps follow: once is enough */
    }
    return RF_OK;
}

rf_result rf_items_learn(const rf_checkpoint *checkpoint, const rf_item_list *list, const rf_item_value *values)
{
    rf_variable **found = RF_NEW_ARRAY(rf_variable *, list->count);
    if (!found) return RF_ERROR_OUT_OF_HOST_MEMORY;
    rf_result r = RF_OK;
    for (uint32_t i = 0; r >= 0 && i < checkpoint->objects.count; i++) {
        const rf_tracked *t = &checkpoint->objects.items[i];
        if (t->kind != RF_TRACKED_OPTIMIZER) continue;
        uint32_t count = 0;
        for (uint32_t k = 0; k < list->count; k++) {
            const rf_item *item = &list->items[k];
            const bool state = item->kind == &slot_kind || item->kind == &totals_kind;
            if (state && item->tracked == t && values[k].present && (count == 0 || found[count - 1] != item->variable))
                found[count++] = item->variable;
        }
        r = rf_updater_learn(rf_optimizer_updater(t->u.optimizer), found, count);
    }
    rf_free(found);
    return r;
}
