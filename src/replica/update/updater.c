/* SPDX-License-Identifier: Apache-2.0 */
/* State that updates keep between steps: optimizer slots, each range of them with its owner, sums of accumulated
 * gradients.
 */
#include <string.h>

#include "base/platform.h"
#include "replica/internal.h"
#include "replica/store/flat.h"
#include "replica/store/variables.h"
#include "replica/update/updater.h"

/* ---- lifetime ---- */

static void free_slots(const rf_strategy *s, rf_gpu_buffer **slots[RF_MAX_SLOTS])
{
    for (uint32_t k = 0; k < RF_MAX_SLOTS; k++) {
        for (uint32_t r = 0; slots[k] && r < s->members.num_local; r++) rf_gpu_buffer_destroy(&slots[k][r]);
        rf_free(slots[k]);
        slots[k] = NULL;
    }
}

rf_updater *rf_updater_retain(rf_updater *updater)
{
    updater->references++;
    return updater;
}

void rf_updater_release(rf_updater *u)
{
    if (!u || --u->references > 0 || rf_strategy_is_foreign(u->strategy)) return;
    (void)rf_strategy_wait(u->strategy); /* when waiting fails nothing runs any more */
    for (uint32_t i = 0; i < u->variables.count; i++) {
        if (u->variables.items[i]->updater == u) u->variables.items[i]->updater = NULL;
        u->variables.items[i]->updaters--;
        rf_variable_release(u->variables.items[i]);
    }
    rf_free(u->variables.items);
    rf_segment_list_free(&u->plan);
    free_slots(u->strategy, u->slots);
    rf_flat_free(u->strategy, &u->totals);
    rf_flat_free(u->strategy, &u->transformed);
    rf_flat_free(u->strategy, &u->directions);
    rf_updater_free_scale(u);
    rf_local_state_destroy(&u->weights.device);
    rf_free(u->weights.took_part);
    rf_strategy_release(u->strategy);
    rf_free(u);
}

rf_result rf_updater_create(rf_strategy *strategy, const rf_updater_params *params, rf_updater **out)
{
    *out = NULL;
    RF_REQUIRE(params->emit && params->hyper && params->hyper_count > 0,
               "updater: emit, hyper and hyper_count are needed");
    RF_REQUIRE(params->num_groups <= 1 || params->group, "updater: groups need group()");
    RF_REQUIRE(params->num_slots <= RF_MAX_SLOTS, "updater: %u slots; at most %d", params->num_slots, RF_MAX_SLOTS);
    RF_REQUIRE(params->num_scalars <= RF_MAX_SCALARS, "updater: %u scalars; at most %d", params->num_scalars,
               RF_MAX_SCALARS);
    RF_REQUIRE(params->accumulation_steps >= 1, "updater: accumulation_steps must be at least 1");
    if (params->scaling.initial != 0 && strategy->members.world.size > 1 &&
        strategy->exchange.compression.kind == RF_COMPRESSION_TOP_K)
        return RF_FAIL(RF_ERROR_UNSUPPORTED,
                       "losses cannot be scaled where only the largest gradients travel: what is kept for later steps "
                       "would be of another scale; leave out loss_scale, or use another compression");
    RF_TRY(rf_strategy_begin_training(strategy));
    rf_updater *u = RF_NEW(rf_updater);
    if (!u) return RF_ERROR_OUT_OF_HOST_MEMORY;
    u->references = 1;
    u->strategy = rf_strategy_retain(strategy);
    u->params = *params;
    u->totals.name = "accumulated gradients";
    u->transformed.name = "transformed gradients";
    u->directions.name = "directions";
    const rf_result r = rf_updater_create_scale(u);
    if (r < 0) {
        rf_updater_release(u);
        return r;
    }
    *out = u;
    return RF_OK;
}

void rf_updater_destroy(rf_updater **updater)
{
    if (!updater || !*updater) return;
    rf_updater_retire(*updater);
    rf_updater_release(*updater);
    *updater = NULL;
}

void rf_updater_retire(rf_updater *updater)
{
    updater->destroyed = true;
}

void rf_updater_suspend(rf_updater *updater, const char *why)
{
    updater->suspended = why;
}

const rf_updater_params *rf_updater_parameters(const rf_updater *updater)
{
    return &updater->params;
}

uint64_t rf_updater_iterations(rf_updater *updater)
{
    (void)rf_updater_settle(updater); /* a failure has stuck to the strategy */
    return updater->iterations;
}

void rf_updater_set_iterations(rf_updater *updater, uint64_t iterations)
{
    (void)rf_updater_settle(updater);
    updater->iterations = iterations;
}

void rf_updater_change_numbers(rf_updater *updater)
{
    updater->numbers_version++;
}

rf_variable_list rf_updater_variables(const rf_updater *updater)
{
    return (rf_variable_list){ updater->variables.items, updater->variables.count };
}

uint32_t rf_updater_accumulated(const rf_updater *updater)
{
    return updater->accumulated;
}

void rf_updater_set_accumulated(rf_updater *updater, uint32_t steps)
{
    updater->accumulated = steps;
    rf_updater_write_weight(updater, steps, 0);
}

/* ---- plans and the move of state between owners ---- */

rf_result rf_segment_read(rf_strategy *s, const char *name, rf_gpu_buffer *const *buffers, rf_state_form form,
                          const rf_segment *part, uint64_t at, float *values)
{
    const uint64_t count = part->range.end - part->range.begin;
    const uint32_t index = rf_segment_index(s, part);
    rf_result r = RF_OK;
    if (index != UINT32_MAX) r = rf_slot_read(buffers[index], form, at, count, values);
    if (part->owner == RF_OWNER_ALL) return r;
    RF_TRY(rf_strategy_fail_in_job(s, r));
    return rf_world_broadcast(&s->members.world, name, values, (size_t)count * sizeof(float), part->owner);
}

/* Reads or writes a range of a slot, whose arrays are by owner. */
static rf_result move_range(rf_strategy *s, const rf_segment_list *plan, rf_gpu_buffer *const *slot, rf_state_form form,
                            rf_range range, float *values, bool write)
{
    for (uint32_t i = 0; i < plan->count; i++) {
        rf_segment part;
        if (!rf_segment_clip(&plan->items[i], range, &part)) continue;
        float *at = values + (part.range.begin - range.begin);
        if (!write) RF_TRY(rf_segment_read(s, "optimizer state", slot, form, &part, part.slot_offset, at));
        for (uint32_t r = 0; write && r < s->members.num_local; r++)
            if (rf_segment_is_owned(s, &part, r))
                RF_TRY(rf_slot_write(slot[r], form, part.slot_offset, part.range.end - part.range.begin, at));
    }
    return RF_OK;
}

/* New buffers are zeros already. */
static rf_result fill_slot(rf_gpu_buffer *buffer, float value, uint64_t count)
{
    enum { AT_ONCE = 1 << 16 };
    if (value == 0.0f) return RF_OK;
    float *values = RF_NEW_ARRAY(float, AT_ONCE);
    if (!values) return RF_ERROR_OUT_OF_HOST_MEMORY;
    for (uint32_t i = 0; i < AT_ONCE; i++) values[i] = value;
    rf_result r = RF_OK;
    for (uint64_t at = 0; r >= 0 && at < count; at += AT_ONCE) {
        const uint64_t here = count - at < AT_ONCE ? count - at : AT_ONCE;
        r = rf_gpu_buffer_write(buffer, at * sizeof(float), values, here * sizeof(float));
    }
    rf_free(values);
    return r;
}

/* `counts` is by number of replica. */
static rf_result create_slots(const rf_updater *u, const uint64_t *counts, rf_gpu_buffer **slots[RF_MAX_SLOTS])
{
    const rf_strategy *s = u->strategy;
    uint64_t bytes = 0;
    for (uint32_t k = 0; k < u->params.num_slots; k++) {
        slots[k] = RF_NEW_ARRAY(rf_gpu_buffer *, s->members.num_local);
        if (!slots[k]) return RF_ERROR_OUT_OF_HOST_MEMORY;
        for (uint32_t r = 0; r < s->members.num_local; r++) {
            const uint64_t count = counts[s->members.first + r];
            const uint64_t size = rf_state_words(u->params.forms[k].type, count) * sizeof(float);
            if (count == 0) continue;
            RF_TRY(rf_gpu_buffer_create(s->members.replicas[r].device, RF_GPU_MEMORY_DEVICE, size, "optimizer state",
                                        &slots[k][r]));
            RF_TRY(fill_slot(slots[k][r], u->params.initial[k], count));
            bytes += size;
        }
    }
    if (bytes > 0) rf_log_message(RF_LOG_DEBUG, "the optimizer's state takes %.2f MiB", (double)bytes / (1 << 20));
    return RF_OK;
}

static bool updates_variable(const rf_updater *u, const rf_variable *variable)
{
    for (uint32_t i = 0; i < u->variables.count; i++)
        if (u->variables.items[i] == variable) return true;
    return false;
}

/* To the owners of the new plan: slots from the old owners, or, of a variable that is new, the slot that begins as the
 * variable does. Every worker has all of a variable. */
static rf_result move_variable(const rf_updater *u, const rf_variable *v, const rf_segment_list *plan,
                               rf_gpu_buffer **slots[RF_MAX_SLOTS], float *values)
{
    const rf_range span = rf_variable_span(v), own = { v->offset, v->offset + v->count };
    const uint32_t slot = u->params.weights_slot;
    const bool known = updates_variable(u, v);
    for (uint32_t k = 0; known && k < u->params.num_slots; k++) {
        RF_TRY(move_range(u->strategy, &u->plan, u->slots[k], u->params.forms[k], span, values, false));
        RF_TRY(move_range(u->strategy, plan, slots[k], u->params.forms[k], span, values, true));
    }
    if (known || slot == 0) return RF_OK;
    RF_TRY(rf_variable_read_range(v, (rf_range){ 0, v->count }, values));
    return move_range(u->strategy, plan, slots[slot - 1], u->params.forms[slot - 1], own, values, true);
}

static rf_result move_state(const rf_updater *u, rf_variable *const *all, uint32_t count, const rf_segment_list *plan,
                            rf_gpu_buffer **slots[RF_MAX_SLOTS])
{
    for (uint32_t i = 0; i < count; i++) {
        const rf_range span = rf_variable_span(all[i]);
        float *values = RF_NEW_ARRAY(float, span.end - span.begin);
        if (!values) return RF_ERROR_OUT_OF_HOST_MEMORY;
        const rf_result r = move_variable(u, all[i], plan, slots, values);
        rf_free(values);
        RF_TRY(r);
    }
    return RF_OK;
}

static rf_result make_plan(const rf_updater *u, rf_variable *const *variables, uint32_t count, rf_segment_list *plan,
                           uint64_t *slot_counts)
{
    const rf_strategy *s = u->strategy;
    const uint64_t block = rf_updater_block(u), alignment = s->store.alignment;
    rf_range *spans = RF_NEW_ARRAY(rf_range, count);
    if (!spans) return RF_ERROR_OUT_OF_HOST_MEMORY;
    uint64_t total = 0;
    for (uint32_t i = 0; i < count; i++) {
        spans[i] = rf_variable_span(variables[i]);
        total += spans[i].end - spans[i].begin;
    }
    const rf_update_plan_params params = { .spans = spans,
                                           .num_spans = count,
                                           .num_replicas = s->members.num_replicas,
                                           .sharded = s->update_mode == RF_UPDATE_SHARDED,
                                           .central = s->central,
                                           .bucket_elements = rf_bucket_size(s->exchange.bucket_elements, total),
                                           .granularity = alignment,
                                           /* Segments begin at whole blocks, and where descriptors do. */
                                           .block = block > 0 && block < alignment ? alignment : block,
                                           .max_segment = s->store.max_segment };
    const rf_result r = rf_update_plan_make(&params, plan, slot_counts);
    rf_free(spans);
    return r;
}

/* `all`: the variables known so far and the new ones; by offset then. */
static rf_result updater_replan(rf_updater *u, rf_variable **all, uint32_t count)
{
    rf_strategy *s = u->strategy;
    rf_segment_list plan = { 0 };
    rf_gpu_buffer **slots[RF_MAX_SLOTS] = { 0 };
    uint64_t *slot_counts = RF_NEW_ARRAY(uint64_t, s->members.num_replicas);
    rf_result r = slot_counts ? RF_OK : RF_ERROR_OUT_OF_HOST_MEMORY;
    for (uint32_t i = 0; r >= 0 && i < count; i++) r = rf_variable_bring_back(all[i]);
    rf_variables_sort(all, count);
    if (r >= 0) r = make_plan(u, all, count, &plan, slot_counts);
    if (r >= 0) r = create_slots(u, slot_counts, slots);
    if (r >= 0) r = move_state(u, all, count, &plan, slots);
    if (u->plan.count > 0) r = rf_strategy_fail_in_job(s, r); /* state moves between workers */
    rf_free(slot_counts);
    if (r < 0) {
        free_slots(s, slots);
        rf_segment_list_free(&plan);
        return rf_error_context(r, "optimizer state");
    }
    free_slots(s, u->slots);
    rf_segment_list_free(&u->plan);
    memcpy(u->slots, slots, sizeof(slots));
    u->plan = plan;
    u->generation++;
    /* Reduced gradients stay with the old owners. */
    for (uint32_t i = 0; i < u->variables.count; i++)
        if (u->variables.items[i]->updater == u) u->variables.items[i]->updater = NULL;
    return RF_OK;
}

/* Nobody but the updater has the variable, so nothing can name its state any more. Not told in jobs: workers, who make
 * the same plans, may have let go of it at different times. */
static bool is_gone(const rf_updater *u, const rf_variable *v)
{
    return v->references == 1 && u->strategy->members.world.size == 1;
}

static void release_gone(rf_variable **variables, uint32_t count, const rf_updater *u)
{
    for (uint32_t i = 0; i < count; i++)
        if (is_gone(u, variables[i])) rf_variable_release(variables[i]);
}

rf_result rf_updater_learn(rf_updater *u, rf_variable *const *variables, uint32_t count)
{
    const uint32_t known = u->variables.count;
    uint32_t news = 0, total = 0;
    for (uint32_t i = 0; i < count; i++) news += !updates_variable(u, variables[i]);
    if (news == 0) return RF_OK;
    RF_TRY(rf_strategy_wait(u->strategy));
    rf_variable **all = RF_NEW_ARRAY(rf_variable *, known + news);
    if (!all) return RF_ERROR_OUT_OF_HOST_MEMORY;
    for (uint32_t i = 0; i < known; i++)
        if (!is_gone(u, u->variables.items[i])) all[total++] = u->variables.items[i];
    for (uint32_t i = 0; i < count; i++)
        if (!updates_variable(u, variables[i])) all[total++] = variables[i];
    const rf_result r = updater_replan(u, all, total);
    if (r < 0) {
        rf_free(all);
        return r;
    }
    for (uint32_t i = 0; i < total; i++)
        if (!updates_variable(u, all[i])) rf_variable_retain(all[i])->updaters++;
    release_gone(u->variables.items, known, u);
    rf_free(u->variables.items);
    u->variables.items = all;
    u->variables.count = u->variables.capacity = total;
    return RF_OK;
}

rf_result rf_updater_ensure_arrays(rf_updater *u, bool transforms)
{
    const uint64_t capacity = u->strategy->store.trainable.values.capacity;
    if (u->params.accumulation_steps > 1) RF_TRY(rf_flat_fit(u->strategy, &u->totals, capacity));
    if (transforms) RF_TRY(rf_flat_fit(u->strategy, &u->transformed, capacity));
    return u->params.whole_matrix ? rf_flat_fit(u->strategy, &u->directions, capacity) : RF_OK;
}

/* ---- slots for checkpoints ---- */

static rf_result check_slot(const rf_updater *u, uint32_t slot, const rf_variable *v)
{
    RF_REQUIRE(slot < u->params.num_slots, "optimizer state: slot %u; there are %u", slot, u->params.num_slots);
    RF_REQUIRE(v->strategy == u->strategy && v->trainable,
               "optimizer state: variable '%s' is not a trainable variable of the optimizer's strategy", v->name);
    RF_TRY(rf_strategy_wait(u->strategy));
    return rf_strategy_status(u->strategy);
}

rf_result rf_updater_read_slot(rf_updater *u, uint32_t slot, const rf_variable *variable, float *values)
{
    RF_TRY(check_slot(u, slot, variable));
    for (uint64_t i = 0; i < variable->count; i++) values[i] = u->params.initial[slot];
    if (!updates_variable(u, variable)) return RF_OK;
    const rf_range range = { variable->offset, variable->offset + variable->count };
    return move_range(u->strategy, &u->plan, u->slots[slot], u->params.forms[slot], range, values, false);
}

rf_result rf_updater_write_slot(rf_updater *u, uint32_t slot, const rf_variable *variable, const float *values)
{
    RF_TRY(check_slot(u, slot, variable));
    rf_variable *known = (rf_variable *)variable; /* learning takes a reference and changes nothing else */
    RF_TRY(rf_updater_learn(u, &known, 1));
    const rf_range range = { variable->offset, variable->offset + variable->count };
    float *from = (float *)(uintptr_t)values; /* writing only reads it */
    return move_range(u->strategy, &u->plan, u->slots[slot], u->params.forms[slot], range, from, true);
}
