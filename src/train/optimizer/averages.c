/* SPDX-License-Identifier: Apache-2.0 */
/* Averages of weights, which may change places with them. */
#include "base/error.h"
#include "base/memory.h"
#include "train/optimizer/optimizer_object.h"

/* Weights become averages, and where `back` is given, which has room for the largest, averages become weights. */
static rf_result overwrite_all(rf_optimizer *optimizer, float *averages, float *back)
{
    const rf_variable_list known = rf_updater_variables(optimizer->updater);
    const uint32_t slot = rf_optimizer_config_slots(&optimizer->config);
    for (uint32_t i = 0; i < known.count; i++) {
        rf_variable *v = known.items[i];
        RF_TRY(rf_updater_read_slot(optimizer->updater, slot, v, averages));
        if (back) {
            RF_TRY(rf_variable_read(v, back));
            RF_TRY(rf_updater_write_slot(optimizer->updater, slot, v, back));
        }
        RF_TRY(rf_variable_assign(v, averages));
    }
    return RF_OK;
}

static rf_result move_averages(rf_optimizer *optimizer, bool swap)
{
    const rf_variable_list known = rf_updater_variables(optimizer->updater);
    int64_t largest = 1;
    for (uint32_t i = 0; i < known.count; i++) {
        const int64_t count = rf_shape_count(rf_variable_shape(known.items[i]));
        if (count > largest) largest = count;
    }
    float *room = RF_NEW_ARRAY(float, 2 * (size_t)largest);
    if (!room) return RF_ERROR_OUT_OF_HOST_MEMORY;
    const rf_result r = overwrite_all(optimizer, room, swap ? room + largest : NULL);
    rf_free(room);
    return r;
}

rf_result rf_optimizer_swap_averages(rf_optimizer *optimizer)
{
    RF_REQUIRE(optimizer, "rf_optimizer_swap_averages: optimizer is NULL");
    RF_REQUIRE(optimizer->config.params.use_ema,
               "rf_optimizer_swap_averages: the optimizer keeps no averages; create it with use_ema");
    RF_TRY(rf_error_context(move_averages(optimizer, true), "rf_optimizer_swap_averages"));
    optimizer->swapped = !optimizer->swapped;
    rf_updater_suspend(optimizer->updater, optimizer->swapped ? "weights are exchanged with their averages; call "
                                                                "rf_optimizer_swap_averages() again before the "
                                                                "next step"
                                                              : NULL);
    return RF_OK;
}

rf_result rf_optimizer_finalize_variables(rf_optimizer *optimizer)
{
    RF_REQUIRE(optimizer, "rf_optimizer_finalize_variables: optimizer is NULL");
    if (!optimizer->config.params.use_ema) return RF_OK;
    RF_REQUIRE(!optimizer->swapped, "rf_optimizer_finalize_variables: weights are exchanged with their averages; call "
                                    "rf_optimizer_swap_averages() again first");
    return rf_error_context(move_averages(optimizer, false), "rf_optimizer_finalize_variables");
}
