/* SPDX-License-Identifier: Apache-2.0 */
/* Programs of an update over flat ranges: accumulation, sums in imported memory, transforms, and the update itself. */
#include "replica/store/variables.h"
#include "replica/store/weight_copies_16bit.h"
#include "replica/update/update.h"

/* Places in a graph are told apart by address: byte `k` of the segment stands for its k-th array. */
static const void *place_identity(const void *segment, uint32_t k)
{
    return (const char *)segment + k;
}

/* ---- sums of gradients ---- */

static rf_result emit_accumulate(const rf_step_stage *stage, uint32_t index, rf_range_graph *g)
{
    const rf_update *update = stage->user;
    const rf_updater *u = update->updater;
    for (uint32_t i = 0; i < update->runs.count; i++) {
        const rf_segment *run = &update->runs.items[i];
        const uint64_t count = run->range.end - run->range.begin;
        rf_value total, x;
        RF_TRY(
            rf_range_graph_state(g, place_identity(run, 0), u->totals.buffers[index], run->range.begin, count, &total));
        RF_TRY(rf_range_graph_state(g, place_identity(run, 1), u->strategy->store.gradients.buffers[index],
                                    run->range.begin, count, &x));
        RF_TRY(g->graph->core->update.accumulate(g->graph, total, x));
    }
    return RF_OK;
}

/* ---- what is updated in a segment ---- */

/* Behind several rows of them stands what the host knew when it made them. HOST slots are in the order of the first
 * calls. */
static rf_result list_numbers(const rf_update *update, rf_range_graph *g, uint32_t hyper, rf_value *out)
{
    const rf_updater_params *p = &update->updater->params;
    const uint32_t first = hyper * (1 + p->num_scalars), rows = update->num_rows;
    const rf_tensor_desc all = { RF_F32, RF_SHAPE((int64_t)rows * p->hyper_count + (rows > 1)) };
    const rf_tensor_desc one = { RF_F32, RF_SCALAR_SHAPE };
    for (uint32_t k = 0; k <= p->num_scalars; k++)
        RF_TRY(
            rf_graph_host(g->graph, place_identity(update->hypers, first + k), k == 0 ? all : one, "hyper", &out[k]));
    return RF_OK;
}

static rf_result list_values(const rf_update *update, uint32_t index, rf_range_graph *g, const rf_segment *segment,
                             rf_segment_values *v)
{
    const rf_updater *u = update->updater;
    const uint64_t begin = segment->range.begin, count = segment->range.end - begin;
    RF_TRY(rf_range_graph_state(g, place_identity(segment, 0), u->strategy->store.trainable.values.buffers[index],
                                begin, count, &v->param));
    RF_TRY(rf_range_graph_state(g, place_identity(segment, 1), rf_update_gradients(update)->buffers[index], begin,
                                count, &v->grad));
    if (rf_update_is_whole(update, segment->hyper))
        RF_TRY(rf_range_graph_state(g, place_identity(segment, 2), u->directions.buffers[index], begin, count,
                                    &v->direction));
    for (uint32_t k = 0; k < u->params.num_slots; k++)
        RF_TRY(rf_range_graph_state(g, place_identity(segment, 3 + k), u->slots[k][index], segment->slot_offset, count,
                                    &v->slots[k]));
    return update->facts.device_decides ? RF_OK : list_numbers(update, g, segment->hyper, v->hyper);
}

/* The copy in 16 bits that is written beside the segment's values; 0: none. */
static rf_result shadow_state(const rf_strategy *s, uint32_t index, rf_range_graph *g, const rf_segment *segment,
                              rf_value *out)
{
    *out = 0;
    if (!rf_weight_copies_are_written(s, segment->range)) return RF_OK;
    const rf_tensor_desc desc = { s->store.weight_copies.type,
                                  RF_SHAPE((int64_t)(segment->range.end - segment->range.begin)) };
    return rf_range_graph_located(g, place_identity(segment, 3 + RF_MAX_SLOTS),
                                  rf_weight_copies_location(s, index, segment->range.begin), desc, out);
}

/* ---- the update ---- */

static rf_result emit_owned(const rf_step_stage *stage, uint32_t index, rf_range_graph *g, const rf_segment *segments,
                            uint32_t num_segments, const rf_value *numbers, rf_segment_emit emit)
{
    const rf_update *update = stage->user;
    rf_segment_values v;
    for (uint32_t i = 0; !numbers && i < update->num_hypers; i++) RF_TRY(list_numbers(update, g, i, v.hyper));
    for (uint32_t i = 0; i < num_segments; i++) {
        if (!rf_segment_is_owned(update->updater->strategy, &segments[i], index)) continue;
        RF_TRY(list_values(update, index, g, &segments[i], &v));
        if (numbers) v.hyper[0] = numbers[segments[i].hyper];
        RF_TRY(emit(stage, index, g, &segments[i], &v));
    }
    return RF_OK;
}

rf_result rf_update_emit_segments(const rf_step_stage *stage, uint32_t index, rf_range_graph *g,
                                  const rf_segment *segments, uint32_t num_segments, rf_segment_emit emit)
{
    return emit_owned(stage, index, g, segments, num_segments, NULL, emit);
}

static rf_result emit_segment(const rf_step_stage *stage, uint32_t index, rf_range_graph *g, const rf_segment *segment,
                              const rf_segment_values *v)
{
    const rf_update *update = stage->user;
    const rf_updater *u = update->updater;
    const rf_value along = rf_update_is_whole(update, segment->hyper) ? v->direction : v->grad;
    rf_value shadow;
    RF_TRY(shadow_state(u->strategy, index, g, segment, &shadow));
    return u->params.emit(u->params.user, g->graph, update->hyper_groups[segment->hyper], v->param, along, v->slots,
                          v->hyper, shadow);
}

/* In one program with the update: the device decides, and takes the numbers from the rows. The decision is a result of
 * the program. */
static rf_result emit_numbers(const rf_step_stage *stage, uint32_t index, rf_range_graph *g, rf_value *numbers)
{
    const rf_update *update = stage->user;
    rf_value decided;
    RF_TRY(rf_update_emit_decided(stage, index, g, &decided));
    for (uint32_t i = 0; i < update->num_hypers; i++) {
        rf_value rows;
        RF_TRY(list_numbers(update, g, i, &rows));
        RF_TRY(g->graph->core->update.numbers(g->graph, rows, decided, &numbers[i]));
    }
    return rf_range_graph_result(g, decided);
}

static rf_result emit_apply(const rf_step_stage *stage, uint32_t index, rf_range_graph *g)
{
    const rf_update *update = stage->user;
    const rf_update_bucket *bucket = &update->buckets[stage->bucket];
    rf_value *numbers = update->facts.device_decides ? RF_NEW_ARRAY(rf_value, update->num_hypers) : NULL;
    if (update->facts.device_decides && !numbers) return RF_ERROR_OUT_OF_HOST_MEMORY;
    rf_result r = numbers ? emit_numbers(stage, index, g, numbers) : RF_OK;
    if (r >= 0) r = emit_owned(stage, index, g, bucket->segments, bucket->num_segments, numbers, emit_segment);
    rf_free(numbers);
    return r;
}

static rf_result fill_apply(const rf_step_stage *stage, uint32_t index, rf_frame *frame)
{
    rf_update *update = stage->user;
    if (update->facts.joins) {
        /* The frame may be that of a pending update: it has ended, and its results are there until the next submission.
         */
        if (update->facts.device_decides) RF_TRY(rf_updater_learn_pending(update->updater, update->num_rows));
        RF_TRY(rf_update_compute_numbers(update, NULL));
    }
    return rf_update_fill_numbers(stage, index, frame);
}

/* ---- transforms ---- */

static rf_location transform_state(const rf_update *update, uint32_t index, const rf_transform_state *state)
{
    const rf_variable *v = state->variable;
    const rf_flat *flat = state->gradient ? rf_updater_gradients(update->updater) : &rf_variable_store(v)->values;
    return (rf_location){ flat->buffers[index], v->offset * sizeof(float) };
}

/* Every replica that updates something transforms whole gradients: so each value is transformed and used by one device.
 */
static rf_result make_transform(const rf_step_stage *stage, uint32_t index, rf_program **out)
{
    const rf_update *update = stage->user;
    const rf_gradient_transform *t = &update->transform;
    if (!rf_update_owns_some(update, index)) return RF_OK;
    rf_location *states = RF_NEW_ARRAY(rf_location, t->states.count);
    rf_program_placement *placements = RF_NEW_ARRAY(rf_program_placement, update->count);
    rf_result r = states && placements ? RF_OK : RF_ERROR_OUT_OF_HOST_MEMORY;
    for (uint32_t i = 0; r >= 0 && i < t->states.count; i++)
        states[i] = transform_state(update, index, &t->states.items[i]);
    for (uint32_t i = 0; r >= 0 && i < update->count; i++)
        placements[i] = (rf_program_placement){ .value = t->results[i],
                                                .at = { update->updater->transformed.buffers[index],
                                                        update->variables[i]->offset * sizeof(float) } };
    const rf_program_params params = { .name = "transform",
                                       .graph = t->graph,
                                       .states = states,
                                       .placements = placements,
                                       .num_placements = update->count };
    if (r >= 0) r = rf_program_create(update->updater->strategy->members.replicas[index].exec, &params, out);
    rf_free(states);
    rf_free(placements);
    return r;
}

/* Sums to means, and back: what transforms compute with, and what updates take. */
static rf_result fill_transform(const rf_step_stage *stage, uint32_t index, rf_frame *frame)
{
    const rf_update *update = stage->user;
    float *mean = update->transform.weighs ? rf_frame_host(frame, 0) : NULL;
    float *sum = update->transform.weighs ? rf_frame_host(frame, 1) : NULL;
    (void)index;
    if (mean) *mean = (float)(1 / update->divisor);
    if (sum) *sum = (float)update->divisor;
    return RF_OK;
}

const rf_stage_action rf_update_accumulate_action = { .name = "accumulate", .emit = emit_accumulate };
const rf_stage_action rf_update_apply_action = { .name = "update", .emit = emit_apply, .fill = fill_apply };
const rf_stage_action rf_update_transform_action = { .name = "transform",
                                                     .make = make_transform,
                                                     .fill = fill_transform };
