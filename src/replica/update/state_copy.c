/* SPDX-License-Identifier: Apache-2.0 */
/* State as it is now, copied out of the devices' memory by another thread while the next step's forward and backward
 * pass, which only read it, compute. Updates wait until the copy is made, and so does everything else that waits for
 * the devices before it writes. */
#include "base/profiler.h"
#include "replica/internal.h"
#include "replica/store/copying.h"
#include "replica/store/flat.h"
#include "replica/store/variables.h"
#include "replica/update/updater.h"

static void set_under_way(rf_copying *copying, bool under_way)
{
    pthread_mutex_lock(&copying->mutex);
    copying->under_way = under_way;
    pthread_cond_broadcast(&copying->ended);
    pthread_mutex_unlock(&copying->mutex);
}

typedef struct copied {
    const void *from; /* mapped memory of a device */
    rf_state_form form;
    uint64_t first, count;
    float *to;
} copied;

struct rf_state_copy {
    rf_strategy *strategy;
    struct {
        copied *items;
        uint32_t count, capacity;
    } ranges;
    uint64_t *tickets; /* [num_local]: what is copied is there then */
};

rf_result rf_state_copy_create(rf_strategy *strategy, rf_state_copy **out)
{
    rf_state_copy *c = *out = RF_NEW(rf_state_copy);
    if (!c) return RF_ERROR_OUT_OF_HOST_MEMORY;
    c->strategy = strategy;
    c->tickets = RF_NEW_ARRAY(uint64_t, strategy->members.num_local);
    if (c->tickets) return RF_OK;
    rf_state_copy_destroy(out);
    return RF_ERROR_OUT_OF_HOST_MEMORY;
}

void rf_state_copy_destroy(rf_state_copy **copy)
{
    rf_state_copy *c = *copy;
    if (!c) return;
    rf_free(c->ranges.items);
    rf_free(c->tickets);
    rf_free(c);
    *copy = NULL;
}

static rf_result state_copy_add(rf_state_copy *c, copied range)
{
    RF_TRY(RF_VEC_GROW(&c->ranges));
    c->ranges.items[c->ranges.count++] = range;
    return RF_OK;
}

rf_result rf_state_copy_variable(rf_state_copy *c, const rf_variable *v, rf_range range, float *to, bool *taken)
{
    const float *from = rf_flat_mapped(&rf_variable_store(v)->values, 0);
    const copied own = { .from = from, .first = v->offset + range.begin, .count = range.end - range.begin, .to = to };
    *taken = v->trainable && from;
    return *taken ? state_copy_add(c, own) : RF_OK;
}

rf_result rf_state_copy_slot(rf_state_copy *c, const rf_updater *u, uint32_t slot, const rf_variable *v, rf_range range,
                             float *to, bool *taken)
{
    const uint32_t before = c->ranges.count;
    const rf_range wanted = { v->offset + range.begin, v->offset + range.end };
    uint64_t found = 0;
    for (uint32_t i = 0; i < u->plan.count; i++) {
        rf_segment p;
        if (!rf_segment_clip(&u->plan.items[i], wanted, &p)) continue;
        const uint32_t index = rf_segment_index(c->strategy, &p);
        const void *from = index == UINT32_MAX ? NULL : rf_gpu_buffer_mapped(u->slots[slot][index]);
        if (!from) break;
        const uint64_t count = p.range.end - p.range.begin;
        RF_TRY(state_copy_add(c, (copied){ .from = from,
                                           .form = u->params.forms[slot],
                                           .first = p.slot_offset,
                                           .count = count,
                                           .to = to + (p.range.begin - wanted.begin) }));
        found += count;
    }
    *taken = found == range.end - range.begin;
    if (!*taken) c->ranges.count = before;
    return RF_OK;
}

rf_result rf_state_copy_begin(rf_state_copy *c)
{
    rf_strategy *s = c->strategy;
    RF_TRY(rf_strategy_status(s));
    RF_TRY(rf_strategy_await_copy(s));
    for (uint32_t r = 0; r < s->members.num_local; r++)
        RF_TRY(rf_replica_context(s, r, rf_gpu_submit_host_flush(s->members.replicas[r].device, &c->tickets[r])));
    set_under_way(&s->store.copying, true);
    return RF_OK;
}

static rf_result state_copy_run(const rf_state_copy *c)
{
    for (uint32_t r = 0; r < c->strategy->members.num_local; r++) {
        const rf_result waited =
            rf_gpu_watch(c->strategy->members.replicas[r].device, c->tickets[r], RF_GPU_TIMEOUT_NS);
        if (waited < 0)
            return RF_FAIL(waited, "%s: the step before the save did not end in time",
                           rf_strategy_device_name(c->strategy, r));
    }
    for (uint32_t i = 0; i < c->ranges.count; i++) {
        const copied *p = &c->ranges.items[i];
        rf_state_decode(p->form, p->from, p->first, p->count, p->to);
    }
    return RF_OK;
}

rf_result rf_state_copy_run(rf_state_copy *c)
{
    const uint64_t begin = rf_span_begin();
    const rf_result r = state_copy_run(c);
    rf_span_end(begin, "replica", "copy state");
    set_under_way(&c->strategy->store.copying, false);
    return r;
}
