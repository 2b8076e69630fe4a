/* SPDX-License-Identifier: Apache-2.0 */
#include "replica/update/assign.h"

#include "replica/store/variables.h"

const rf_stage_action rf_assign_action = { .name = "assign" };

rf_result rf_assignments_ensure(rf_strategy *s)
{
    const uint64_t capacity = s->store.fixed.values.capacity;
    RF_TRY(rf_flat_fit(s, &s->store.assigned, capacity));
    return rf_staging_ensure(s, &s->exchange.fixed, capacity);
}

/* Insertion sort: lists come in creation order as a rule. */
static void add_segment(rf_segment *segments, uint32_t count, rf_segment segment)
{
    for (; count > 0 && segments[count - 1].range.begin > segment.range.begin; count--)
        segments[count] = segments[count - 1];
    segments[count] = segment;
}

/* Those of one kind, without the padding between variables: what lies there stays zero. Returns how many there are. */
static uint32_t list_segments(const rf_assignments *a, bool of_first, rf_segment *segments)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < a->count; i++) {
        const rf_variable *v = a->items[i].variable;
        if ((a->items[i].aggregation == RF_AGGREGATE_FIRST_REPLICA) != of_first) continue;
        add_segment(segments, count++,
                    (rf_segment){ .range = { v->offset, v->offset + v->count }, .owner = RF_OWNER_ALL });
    }
    return count;
}

static rf_result append_sum(rf_step_schedule *schedule, const rf_segment *segments, uint32_t count,
                            rf_stage_replicas on)
{
    const rf_strategy *s = schedule->strategy;
    const rf_stage_exchange sum = { .name = "assign",
                                    .segments = segments,
                                    .num_segments = count,
                                    .from = { &s->store.assigned, &s->exchange.fixed.down },
                                    .to = { &s->store.fixed.values, &s->exchange.fixed.up },
                                    .on = on };
    return count > 0 ? rf_step_schedule_append_exchange(schedule, &sum, &(rf_step_stage){ .when = 0 }) : RF_OK;
}

rf_result rf_assignments_append(rf_step_schedule *schedule, rf_assignments *a)
{
    const rf_strategy *s = schedule->strategy;
    if (a->count == 0) return RF_OK;
    if (!a->segments) a->segments = RF_NEW_ARRAY(rf_segment, a->count);
    if (!a->segments) return RF_ERROR_OUT_OF_HOST_MEMORY;
    const uint32_t of_all = list_segments(a, false, a->segments);
    (void)list_segments(a, true, a->segments + of_all);
    if (s->members.num_replicas > 1) {
        RF_TRY(append_sum(schedule, a->segments, of_all, RF_ON_ACTIVE));
        return append_sum(schedule, a->segments + of_all, a->count - of_all, RF_ON_FIRST_ACTIVE);
    }
    const rf_step_stage copy = { .op = RF_STAGE_COPY,
                                 .action = &rf_assign_action,
                                 .copy = { &s->store.assigned, &s->store.fixed.values, a->segments, a->count } };
    return rf_step_schedule_append(schedule, &copy, NULL);
}

void rf_assignments_free(rf_assignments *a)
{
    rf_free(a->items);
    rf_free(a->segments);
    *a = (rf_assignments){ 0 };
}
