/* SPDX-License-Identifier: Apache-2.0 */
/* Steps of which all algorithms make their schedules. */
#include <string.h>

#include "base/memory.h"
#include "transport/collective/schedule.h"

uint64_t rf_collective_shard_begin(uint64_t count, uint32_t shards, uint32_t index)
{
    const uint64_t more = count % shards;
    return count / shards * index + (index < more ? index : more);
}

rf_collective_step *rf_collective_schedule_add(rf_collective_schedule *schedule, uint32_t round)
{
    if (RF_VEC_GROW(schedule) < 0) return NULL;
    rf_collective_step *step = &schedule->items[schedule->count++];
    memset(step, 0, sizeof(*step));
    step->round = round;
    step->to = step->from = -1;
    return step;
}

rf_result rf_collective_schedule_send(rf_collective_schedule *schedule, uint32_t round, uint32_t to, rf_place place,
                                      uint64_t count, bool keeps)
{
    rf_collective_step *step = rf_collective_schedule_add(schedule, round);
    if (!step) return RF_ERROR_OUT_OF_HOST_MEMORY;
    step->to = (int32_t)to;
    step->send = place;
    step->send_count = count;
    step->keeps = keeps;
    return RF_OK;
}

rf_result rf_collective_schedule_receive(rf_collective_schedule *schedule, uint32_t round, uint32_t from,
                                         rf_place place, uint64_t count)
{
    rf_collective_step *step = rf_collective_schedule_add(schedule, round);
    if (!step) return RF_ERROR_OUT_OF_HOST_MEMORY;
    step->from = (int32_t)from;
    step->receive = place;
    step->receive_count = count;
    return RF_OK;
}

void rf_collective_schedule_in_place(rf_collective_schedule *schedule)
{
    for (uint32_t i = 0; i < schedule->count; i++) {
        rf_collective_step *step = &schedule->items[i];
        if (step->send.space == RF_SPACE_INPUT) step->send.space = RF_SPACE_OUTPUT;
        if (step->local.space == RF_SPACE_INPUT) step->local.space = RF_SPACE_OUTPUT;
    }
}

void rf_collective_schedule_free(rf_collective_schedule *schedule)
{
    rf_free(schedule->items);
    memset(schedule, 0, sizeof(*schedule));
}
