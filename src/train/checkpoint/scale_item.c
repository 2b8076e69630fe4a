/* SPDX-License-Identifier: Apache-2.0 */
/* The scale of an optimizer's losses, and finite steps in a row, as an entry of a checkpoint: f32 [2]. */
#include "replica/strategy.h"
#include "train/checkpoint/checkpoint.h"
#include "train/optimizer/optimizer.h"

static rf_result collect_scale(const rf_item *item, rf_item_value *value)
{
    uint64_t skipped;
    uint32_t finite;
    float *numbers = value->data = RF_NEW_ARRAY(float, rf_shape_count(item->shape));
    if (!numbers) return RF_ERROR_OUT_OF_HOST_MEMORY;
    value->shape = item->shape;
    value->size = (uint64_t)rf_shape_count(item->shape) * sizeof(*numbers);
    value->present = true;
    RF_TRY(rf_updater_read_scale(rf_optimizer_updater(item->tracked->u.optimizer), &numbers[0], &finite, &skipped));
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

/* Of a run whose losses were not scaled: as at the beginning. */
static rf_result apply_scale(rf_item *item, const rf_item_value *value)
{
    const rf_optimizer_config *config = rf_optimizer_configuration(item->tracked->u.optimizer);
    const float initial[2] = { (float)config->loss_scale.initial, 0 };
    const float *numbers = value->present ? value->data : initial;
    return rf_updater_write_scale(rf_optimizer_updater(item->tracked->u.optimizer), numbers[0], (uint32_t)numbers[1]);
}

const rf_item_kind rf_scale_item_kind = { .form = RF_ITEM_TENSOR,
                                          .dtype = RF_F32,
                                          .optional = true,
                                          .collect = collect_scale,
                                          .prepare = prepare_scale,
                                          .apply = apply_scale };
