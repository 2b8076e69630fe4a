/* SPDX-License-Identifier: Apache-2.0 */
/* The state of an optimizer in a checkpoint: what changes with every step. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "train/optimizer/items.h"

/* ---- slots ---- */

static rf_updater *updater_of(const rf_item *item)
{
    return rf_optimizer_updater(item->tracked->object);
}

static bool updates_variable(const rf_item *item)
{
    const rf_variable_list known = rf_updater_variables(updater_of(item));
    for (uint32_t i = 0; i < known.count; i++)
        if (known.items[i] == item->variable) return true;
    return false;
}

static rf_result find_slot_owners(const rf_item *item, rf_owned_list *out)
{
    return rf_updater_owners(updater_of(item), item->variable, out);
}

static rf_result collect_slot(const rf_item *item, rf_item_value *value)
{
    RF_TRY(rf_item_value_allocate(value, item->shape));
    return rf_updater_read_slot(updater_of(item), item->slot, item->variable, value->data);
}

static rf_result defer_slot(const rf_item *item, rf_state_copy *copy, rf_range range, float *to, bool *taken)
{
    return rf_state_copy_slot(copy, updater_of(item), item->slot, item->variable, range, to, taken);
}

static rf_result read_slot(const rf_item *item, rf_range range, float *to)
{
    return rf_updater_read_owned(updater_of(item), item->slot, item->variable, range, to);
}

/* A variable that was never updated has initial values. */
static rf_result prepare_slot(rf_item *item, const rf_item_value *value)
{
    rf_updater *u = updater_of(item);
    if (value->present || !updates_variable(item)) return RF_OK;
    RF_TRY(rf_item_prepare_numbers(item));
    for (int64_t i = 0; i < rf_shape_count(item->shape); i++)
        item->numbers[i] = rf_updater_parameters(u)->initial[item->slot];
    return RF_OK;
}

static rf_result apply_slot(rf_item *item, const rf_item_value *value)
{
    const float *numbers = value->present ? value->data : item->numbers;
    if (numbers && !value->present && rf_updater_parameters(updater_of(item))->weights_slot == item->slot + 1)
        RF_TRY(rf_variable_read(item->variable, item->numbers));
    return numbers ? rf_updater_write_slot(updater_of(item), item->slot, item->variable, numbers) : RF_OK;
}

const rf_item_kind rf_slot_item_kind = { .form = RF_ITEM_TENSOR,
                                         .dtype = RF_F32,
                                         .optional = true,
                                         .owners = find_slot_owners,
                                         .read = read_slot,
                                         .defer = defer_slot,
                                         .collect = collect_slot,
                                         .prepare = prepare_slot,
                                         .apply = apply_slot };

/* ---- accumulated gradients ---- */

/* Each worker has the rows of its replicas. */
static rf_result find_totals_owners(const rf_item *item, rf_owned_list *out)
{
    const rf_strategy *strategy = item->tracked->strategy;
    if (rf_updater_accumulated(updater_of(item)) == 0 || !updates_variable(item)) return RF_OK;
    const uint64_t count = (uint64_t)item->shape.dim[1];
    for (uint32_t i = 0; i < rf_strategy_world_size(strategy); i++) {
        const rf_range rows = { rf_strategy_first_replica(strategy, i), rf_strategy_first_replica(strategy, i + 1) };
        if (rows.begin == rows.end) continue;
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

static rf_result collect_totals(const rf_item *item, rf_item_value *value)
{
    RF_TRY(rf_item_value_allocate(value, item->shape));
    return rf_updater_read_totals(updater_of(item), item->variable, value->data);
}

/* On as many replicas as there were each gets its own sum back, so that the next update adds in the same order; else
 * the first gets all. Variables without sums get zeros. */
static rf_result prepare_totals(rf_item *item, const rf_item_value *value)
{
    if (!value->present && !updates_variable(item)) return RF_OK;
    const uint64_t replicas = (uint64_t)item->shape.dim[0], count = (uint64_t)item->shape.dim[1];
    const uint64_t saved = value->present ? (uint64_t)value->shape.dim[0] : 0;
    RF_TRY(rf_item_prepare_numbers(item));
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

const rf_item_kind rf_totals_item_kind = { .form = RF_ITEM_TENSOR,
                                           .dtype = RF_F32,
                                           .optional = true,
                                           .free_rows = true,
                                           .owners = find_totals_owners,
                                           .read = read_totals,
                                           .collect = collect_totals,
                                           .prepare = prepare_totals,
                                           .apply = apply_totals };

/* ---- counters ---- */

static rf_result collect_iterations(const rf_item *item, rf_item_value *value)
{
    rf_item_value_set_number(value, rf_updater_iterations(updater_of(item)));
    return RF_OK;
}

static rf_result apply_iterations(rf_item *item, const rf_item_value *value)
{
    rf_updater_set_iterations(updater_of(item), value->number);
    return RF_OK;
}

const rf_item_kind rf_iterations_item_kind = { .form = RF_ITEM_NUMBER,
                                               .collect = collect_iterations,
                                               .apply = apply_iterations };

static rf_result collect_accumulated(const rf_item *item, rf_item_value *value)
{
    const uint32_t steps = rf_updater_accumulated(updater_of(item));
    if (steps > 0) rf_item_value_set_number(value, steps);
    return RF_OK;
}

static rf_result prepare_accumulated(rf_item *item, const rf_item_value *value)
{
    const uint32_t most = rf_updater_parameters(updater_of(item))->accumulation_steps;
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

const rf_item_kind rf_accumulated_item_kind = { .form = RF_ITEM_NUMBER,
                                                .optional = true,
                                                .collect = collect_accumulated,
                                                .prepare = prepare_accumulated,
                                                .apply = apply_accumulated };

/* ---- weight of accumulated steps ---- */

/* They are the bits of two doubles, so that a resumed run has those of one that went on. */
static rf_result collect_weight(const rf_item *item, rf_item_value *value)
{
    rf_updater *u = updater_of(item);
    double numbers[2];
    uint64_t bits[2];
    if (rf_updater_accumulated(u) == 0) return RF_OK;
    RF_TRY(rf_updater_read_weight(u, &numbers[0], &numbers[1]));
    memcpy(bits, numbers, sizeof(bits));
    return rf_item_value_set_text(value, rf_asprintf("%016" PRIx64 " %016" PRIx64, bits[0], bits[1]));
}

static bool parse_weight(const rf_item_value *value, double numbers[2])
{
    uint64_t bits[2];
    if (sscanf(value->data, "%16" SCNx64 " %16" SCNx64, &bits[0], &bits[1]) != 2) return false;
    memcpy(numbers, bits, sizeof(bits));
    return numbers[0] >= 0 && isfinite(numbers[0]) && numbers[1] >= 0 && isfinite(numbers[1]);
}

static rf_result prepare_weight(rf_item *item, const rf_item_value *value)
{
    double numbers[2];
    if (value->present && !parse_weight(value, numbers))
        return RF_FAIL(RF_ERROR_CORRUPT_DATA, "%s: '%.60s' is not what accumulated steps count", item->name,
                       (const char *)value->data);
    return RF_OK;
}

/* Files that lack it are of steps that counted 1 each, which setting their number has set. */
static rf_result apply_weight(rf_item *item, const rf_item_value *value)
{
    double numbers[2];
    if (value->present && parse_weight(value, numbers))
        rf_updater_write_weight(updater_of(item), numbers[0], numbers[1]);
    return RF_OK;
}

const rf_item_kind rf_weight_item_kind = {
    .form = RF_ITEM_TEXT, .optional = true, .collect = collect_weight, .prepare = prepare_weight, .apply = apply_weight
};

/* ---- the scale of losses, and finite steps in a row ---- */

static rf_result collect_scale(const rf_item *item, rf_item_value *value)
{
    uint64_t skipped;
    uint32_t finite;
    RF_TRY(rf_item_value_allocate(value, item->shape));
    float *numbers = value->data;
    RF_TRY(rf_updater_read_scale(updater_of(item), &numbers[0], &finite, &skipped));
    numbers[1] = (float)finite;
    return RF_OK;
}

static rf_result prepare_scale(rf_item *item, const rf_item_value *value)
{
    const float *numbers = value->data;
    if (!value->present) return RF_OK;
    RF_REQUIRE(numbers[0] >= RF_SCALE_LEAST && numbers[0] <= RF_SCALE_MOST,
               "%s: the scale %g is not in [2^-100, 2^100]", item->name, (double)numbers[0]);
    RF_REQUIRE(numbers[1] >= 0 && numbers[1] <= (float)RF_SCALE_MAX_GROWTH_STEPS,
               "%s: %g finite steps are not in [0, 2^24]", item->name, (double)numbers[1]);
    return RF_OK;
}

/* A run whose losses were not scaled goes on as at the beginning. */
static rf_result apply_scale(rf_item *item, const rf_item_value *value)
{
    const rf_optimizer_config *config = rf_optimizer_configuration(item->tracked->object);
    const float initial[2] = { (float)config->loss_scale.initial, 0 };
    const float *numbers = value->present ? value->data : initial;
    return rf_updater_write_scale(updater_of(item), numbers[0], (uint32_t)numbers[1]);
}

const rf_item_kind rf_scale_item_kind = { .form = RF_ITEM_TENSOR,
                                          .dtype = RF_F32,
                                          .optional = true,
                                          .collect = collect_scale,
                                          .prepare = prepare_scale,
                                          .apply = apply_scale };
