/* SPDX-License-Identifier: Apache-2.0 */
#include "replica/update/assign.h"

#include <string.h>

#include "base/platform.h"
#include "base/profiler.h"
#include "replica/exchange/exchange_stats.h"
#include "replica/exchange/staging.h"
#include "replica/store/variables.h"

/* ---- room ---- */

rf_result rf_assignments_ensure(rf_strategy *s)
{
    const uint64_t capacity = s->fixed.values.capacity;
    if (s->assigned.capacity != capacity) {
        RF_TRY(rf_strategy_wait(s));
        RF_TRY(rf_flat_grow(s, &s->assigned, capacity, 0));
    }
    return rf_staging_ensure_fixed(s);
}

/* ---- what is exchanged ---- */

static uint32_t group_of(const rf_assignment *a)
{
    return a->aggregation == RF_AGGREGATE_FIRST_REPLICA ? RF_ASSIGN_FROM_FIRST : RF_ASSIGN_FROM_ALL;
}

/* Insertion sort: lists come in creation order as a rule. */
static void add_segment(rf_segment *segments, uint32_t count, rf_segment segment)
{
    for (; count > 0 && segments[count - 1].range.begin > segment.range.begin; count--)
        segments[count] = segments[count - 1];
    segments[count] = segment;
}

/* Without the padding between variables: what lies there stays zero. */
static void list_segments(rf_assignments *a)
{
    rf_segment *segments = a->segments;
    for (uint32_t g = 0; g < RF_ASSIGN_GROUPS; segments += a->num_segments[g++]) {
        a->num_segments[g] = 0;
        for (uint32_t i = 0; i < a->count; i++) {
            const rf_variable *v = a->items[i].variable;
            if (group_of(&a->items[i]) != g) continue;
            add_segment(segments, a->num_segments[g]++,
                        (rf_segment){ .range = { v->offset, v->offset + v->count }, .owner = RF_OWNER_ALL });
        }
    }
}

static rf_result open_exchanges(rf_assignments *a)
{
    rf_exchange *exchange = a->strategy->exchange;
    const rf_segment *segments = a->segments;
    for (uint32_t g = 0; g < RF_ASSIGN_GROUPS; segments += a->num_segments[g++])
        if (a->num_segments[g] > 0)
            RF_TRY(exchange->fns->open(exchange, segments, a->num_segments[g], false, false, &a->exchanges[g]));
    return RF_OK;
}

/* ---- recordings ---- */

static rf_result record_copies(const rf_assignments *a, uint32_t index, const char *name, const rf_flat *from,
                               const rf_flat *to, rf_gpu_recording **out)
{
    return rf_replica_record_copies(a->strategy, index, name, a->segments, a->count, from, to, out);
}

static rf_result record_replica(rf_assignments *a, uint32_t index)
{
    const rf_strategy *s = a->strategy;
    rf_assign_replica *at = &a->replicas[index];
    if (s->num_replicas == 1 || !s->replicas[index].staged) return RF_OK;
    RF_TRY(record_copies(a, index, "assigned values down", &s->assigned, &s->fixed_download, &at->down));
    return record_copies(a, index, "assigned values up", &s->fixed_upload, &s->fixed.values, &at->up);
}

/* ---- making and unmaking ---- */

static rf_result assign_prepare(rf_assignments *a)
{
    const uint32_t num_local = a->strategy->num_local;
    a->segments = RF_NEW_ARRAY(rf_segment, a->count);
    a->replicas = RF_NEW_ARRAY(rf_assign_replica, num_local);
    a->from = RF_NEW_ARRAY(const float *, num_local);
    a->to = RF_NEW_ARRAY(float *, num_local);
    if (!a->segments || !a->replicas || !a->from || !a->to) return RF_ERROR_OUT_OF_HOST_MEMORY;
    list_segments(a);
    for (uint32_t r = 0; r < num_local; r++) RF_TRY(rf_replica_context(a->strategy, r, record_replica(a, r)));
    return a->strategy->num_replicas > 1 ? open_exchanges(a) : RF_OK;
}

rf_result rf_assignments_prepare(rf_assignments *a, rf_strategy *strategy)
{
    if (a->count == 0) return RF_OK;
    a->strategy = strategy;
    const rf_result r = assign_prepare(a);
    if (r < 0) rf_assignments_unprepare(a);
    return r;
}

void rf_assignments_unprepare(rf_assignments *a)
{
    if (!a->strategy) return;
    for (uint32_t g = 0; g < RF_ASSIGN_GROUPS; g++)
        if (a->exchanges[g]) a->strategy->exchange->fns->close(&a->exchanges[g]);
    for (uint32_t r = 0; a->replicas && r < a->strategy->num_local; r++) {
        rf_assign_replica *at = &a->replicas[r];
        rf_repeated_free(&at->copies);
        rf_gpu_recording_destroy(&at->down);
        rf_gpu_recording_destroy(&at->up);
    }
    rf_free(a->segments);
    rf_free(a->replicas);
    rf_free(a->from);
    rf_free(a->to);
    *a = (rf_assignments){ .items = a->items, .count = a->count, .capacity = a->capacity };
}

void rf_assignments_free(rf_assignments *a)
{
    rf_assignments_unprepare(a);
    rf_free(a->items);
    *a = (rf_assignments){ 0 };
}

/* ---- running ---- */

static rf_result copy_alone(rf_assignments *a)
{
    rf_repeated *copies = &a->replicas[0].copies;
    rf_replica *replica = &a->strategy->replicas[0];
    if (rf_repeated_is_busy(copies, replica)) {
        rf_gpu_recording *rec = NULL;
        RF_TRY(record_copies(a, 0, "assign", &a->strategy->assigned, &a->strategy->fixed.values, &rec));
        RF_TRY(rf_repeated_add(copies, rec));
    }
    return rf_repeated_submit(copies, replica);
}

/* The host reads what the replicas have made, and writes to their variables: nothing may be under way. */
static rf_result await_values(rf_assignments *a, uint32_t r, bool contributes)
{
    rf_replica *replica = &a->strategy->replicas[r];
    if (contributes) RF_TRY(rf_replica_submit_one(replica, a->replicas[r].down));
    return replica->ticket ? rf_gpu_wait(replica->device, replica->ticket, RF_GPU_TIMEOUT_NS) : RF_OK;
}

static rf_result exchange_group(rf_assignments *a, uint32_t group, const uint32_t *examples, uint32_t first_active)
{
    const rf_strategy *s = a->strategy;
    if (!a->exchanges[group]) return RF_OK;
    for (uint32_t r = 0; r < s->num_local; r++) {
        const uint32_t replica = s->first + r;
        const bool contributes = group == RF_ASSIGN_FROM_FIRST ? replica == first_active : examples[replica] > 0;
        a->from[r] = contributes ? rf_replica_reachable(s, r, &s->assigned, &s->fixed_download) : NULL;
        a->to[r] = rf_replica_reachable(s, r, &s->fixed.values, &s->fixed_upload);
    }
    RF_TRY(s->exchange->fns->start_reduce(a->exchanges[group], a->from, a->to));
    return s->exchange->fns->finish(a->exchanges[group]);
}

static rf_result exchange_values(rf_assignments *a, const uint32_t *examples, uint32_t first_active)
{
    rf_strategy *s = a->strategy;
    for (uint32_t r = 0; r < s->num_local; r++)
        RF_TRY(rf_replica_context(s, r, await_values(a, r, examples[s->first + r] > 0)));
    const rf_exchange_mark mark = rf_exchange_mark_now(s);
    const uint64_t begun = rf_now_ns(), span = rf_span_begin();
    for (uint32_t g = 0; g < RF_ASSIGN_GROUPS; g++) RF_TRY(exchange_group(a, g, examples, first_active));
    rf_exchange_count(s, &mark, 1e-9 * (double)(rf_now_ns() - begun)); /* every device is idle */
    rf_span_end(span, "replica", "assign");
    for (uint32_t r = 0; r < s->num_local; r++)
        RF_TRY(rf_replica_context(s, r, rf_replica_submit_one(&s->replicas[r], a->replicas[r].up)));
    return RF_OK;
}

rf_result rf_assignments_run(rf_assignments *a, const uint32_t *examples)
{
    if (a->count == 0) return RF_OK;
    const uint32_t count = a->strategy->num_replicas;
    uint32_t first_active = 0;
    while (first_active < count && examples[first_active] == 0) first_active++;
    if (first_active == count) return RF_OK;
    return count == 1 ? rf_replica_context(a->strategy, 0, copy_alone(a)) : exchange_values(a, examples, first_active);
}
