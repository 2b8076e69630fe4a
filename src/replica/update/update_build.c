/* SPDX-License-Identifier: Apache-2.0 */
/* What an update needs on each replica: programs over flat ranges, and copies. */
#include <string.h>

#include "replica/internal.h"
#include "replica/store/local_state.h"
#include "replica/store/variables.h"
#include "replica/update/turns.h"
#include "replica/update/update.h"
#include "replica/update/updater.h"

/* ---- programs over ranges ---- */

/* A graph under construction whose STATE values are ranges of flat arrays. */
typedef struct range_graph {
    rf_graph *graph;
    struct {
        rf_location *items;
        uint32_t count, capacity;
    } states;
} range_graph;

static rf_result located_state(range_graph *g, const void *object, rf_location at, rf_tensor_desc desc, rf_value *out)
{
    RF_TRY(RF_VEC_GROW(&g->states));
    RF_TRY(rf_graph_state(g->graph, object, desc, NULL, out));
    if (g->graph->values.items[*out].slot < g->states.count) return RF_OK;
    g->states.items[g->states.count++] = at;
    return RF_OK;
}

static rf_result shaped_state(range_graph *g, const void *object, rf_gpu_buffer *buffer, uint64_t offset,
                              rf_shape shape, rf_value *out)
{
    const rf_location at = { buffer, offset * sizeof(float) };
    return located_state(g, object, at, (rf_tensor_desc){ RF_F32, shape }, out);
}

static rf_result range_state(range_graph *g, const void *object, rf_gpu_buffer *buffer, uint64_t offset, uint64_t count,
                             rf_value *out)
{
    return shaped_state(g, object, buffer, offset, RF_SHAPE((int64_t)count), out);
}

/* Places in a graph are told apart by address: byte `k` of the segment stands for its k-th array. */
static const void *place_identity(const void *segment, uint32_t k)
{
    return (const char *)segment + k;
}

typedef struct build {
    rf_update *update;
    rf_updater *updater;
    uint32_t index;
    const rf_update_bucket *bucket; /* whose segments are meant */
    uint32_t pass;                  /* of sums of squares */
} build;

static bool owned_here(const build *b, const rf_segment *segment)
{
    return segment->owner == b->updater->strategy->first + b->index || segment->owner == RF_OWNER_ALL;
}

static rf_result emit_accumulate(const build *b, range_graph *g, rf_value *results)
{
    (void)results;
    const rf_strategy *s = b->updater->strategy;
    for (uint32_t i = 0; i < b->update->num_runs; i++) {
        const rf_range *run = &b->update->runs[i];
        const uint64_t count = run->end - run->begin;
        rf_value total, x;
        RF_TRY(range_state(g, place_identity(run, 0), b->updater->totals.buffers[b->index], run->begin, count, &total));
        RF_TRY(range_state(g, place_identity(run, 1), s->gradients.buffers[b->index], run->begin, count, &x));
        RF_TRY(b->updater->params.emit_accumulate(g->graph, total, x));
    }
    return RF_OK;
}

/* Of the owner's segments: gradients of all replicas but the first, added to that one's in their order. Nothing needs
 * room beside what is added up. */
static rf_result emit_sum(const build *b, range_graph *g, rf_value *results)
{
    (void)results;
    const rf_strategy *s = b->updater->strategy;
    const rf_flat *gradients = rf_updater_gradients(b->updater);
    for (uint32_t i = 0; i < b->bucket->num_segments; i++) {
        const rf_segment *segment = &b->bucket->segments[i];
        const uint64_t count = segment->range.end - segment->range.begin;
        rf_value total, x;
        if (!owned_here(b, segment)) continue;
        RF_TRY(range_state(g, place_identity(segment, 0), gradients->buffers[b->index], segment->range.begin, count,
                           &total));
        for (uint32_t r = 1; r < s->num_local; r++) {
            const uint64_t at = rf_meeting_array(&s->meeting, r) + segment->range.begin;
            RF_TRY(range_state(g, rf_meeting_mapped(&s->meeting) + at, s->meeting.arrays.buffers[b->index], at, count,
                               &x));
            RF_TRY(b->updater->params.emit_accumulate(g->graph, total, x));
        }
    }
    return RF_OK;
}

/* Numbers of one group or variable; HOST slots are in the order of the first calls. Behind several rows of them stands
 * what the host knew when it made them. */
static rf_result list_hosts(const build *b, range_graph *g, uint32_t hyper, rf_value *out)
{
    const rf_updater_params *p = &b->updater->params;
    const uint32_t first = hyper * (1 + p->num_scalars), rows = b->update->num_rows;
    const rf_tensor_desc all = { RF_F32, RF_SHAPE((int64_t)rows * p->hyper_count + (rows > 1)) };
    const rf_tensor_desc one = { RF_F32, RF_SCALAR_SHAPE };
    for (uint32_t k = 0; k <= p->num_scalars; k++)
        RF_TRY(rf_graph_host(g->graph, place_identity(b->update->hypers, first + k), k == 0 ? all : one, "hyper",
                             &out[k]));
    return RF_OK;
}

/* What is updated in one segment. */
typedef struct segment_values {
    rf_value param, grad, direction, slots[RF_MAX_SLOTS], shadow;
    rf_value *hyper;   /* [1 + num_scalars] */
    rf_value *numbers; /* [num_hypers]: those that the device has chosen; NULL: the host has */
} segment_values;

static rf_result list_values(const build *b, range_graph *g, const rf_segment *segment, segment_values *out)
{
    const rf_updater *u = b->updater;
    const uint32_t r = b->index;
    const uint64_t count = segment->range.end - segment->range.begin;
    RF_TRY(range_state(g, place_identity(segment, 0), u->strategy->trainable.values.buffers[r], segment->range.begin,
                       count, &out->param));
    RF_TRY(range_state(g, place_identity(segment, 1), rf_update_gradients(b->update)->buffers[r], segment->range.begin,
                       count, &out->grad));
    if (rf_update_is_whole(b->update, segment->hyper))
        RF_TRY(range_state(g, place_identity(segment, 2), u->directions.buffers[r], segment->range.begin, count,
                           &out->direction));
    for (uint32_t k = 0; k < u->params.num_slots; k++)
        RF_TRY(range_state(g, place_identity(segment, 3 + k), u->slots[k][r], segment->slot_offset, count,
                           &out->slots[k]));
    return out->numbers ? RF_OK : list_hosts(b, g, segment->hyper, out->hyper);
}

/* What is written beside the segment's values; 0: nothing. */
static rf_result shadow_state(const build *b, range_graph *g, const rf_segment *segment, rf_value *out)
{
    const rf_strategy *s = b->updater->strategy;
    *out = 0;
    if (!rf_shadows_are_written(s, segment->range)) return RF_OK;
    const rf_tensor_desc desc = { s->shadows.type, RF_SHAPE((int64_t)(segment->range.end - segment->range.begin)) };
    return located_state(g, place_identity(segment, 3 + RF_MAX_SLOTS),
                         rf_shadows_location(s, b->index, segment->range.begin), desc, out);
}

/* ---- gradients of scaled losses ---- */

static rf_result list_tally(const build *b, range_graph *g, rf_value *tally)
{
    rf_local_state *state = b->updater->scaling.tally;
    return range_state(g, state, state->values.buffers[b->index], 0, RF_SCALE_TALLY, tally);
}

static rf_result list_scale(const build *b, range_graph *g, rf_value *scale, rf_value *tally)
{
    rf_local_state *state = b->updater->scaling.scale;
    RF_TRY(range_state(g, state, state->values.buffers[b->index], 0, 1, scale));
    return list_tally(b, g, tally);
}

/* Of all gradients that the replica adds to the sums. */
static rf_result emit_check(const build *b, range_graph *g, rf_value *results)
{
    const float most = rf_loss_scale_most(rf_update_wire(b->update), b->updater->strategy->num_replicas);
    RF_TRY(list_tally(b, g, results));
    for (uint32_t i = 0; i < b->update->num_runs; i++) {
        const rf_range *run = &b->update->runs[i];
        rf_value x;
        RF_TRY(range_state(g, run, rf_updater_gradients(b->updater)->buffers[b->index], run->begin,
                           run->end - run->begin, &x));
        RF_TRY(b->updater->params.emit_overflow_check(g->graph, x, results[0], most));
    }
    return RF_OK;
}

static rf_result emit_unscale_range(const build *b, range_graph *g, const void *identity, rf_range range,
                                    rf_value tally)
{
    rf_value x;
    RF_TRY(range_state(g, identity, rf_updater_gradients(b->updater)->buffers[b->index], range.begin,
                       range.end - range.begin, &x));
    return b->updater->params.emit_unscale(g->graph, x, tally);
}

/* All gradients where the replica has all: alone, or because something is computed from whole gradients. */
static bool unscales_runs(const build *b)
{
    return b->updater->strategy->num_replicas == 1 || b->update->transform.graph;
}

static rf_result emit_unscale(const build *b, range_graph *g, rf_value *results)
{
    rf_value tally;
    (void)results;
    RF_TRY(list_tally(b, g, &tally));
    for (uint32_t i = 0; unscales_runs(b) && i < b->update->num_runs; i++)
        RF_TRY(emit_unscale_range(b, g, &b->update->runs[i], b->update->runs[i], tally));
    for (uint32_t i = 0; !unscales_runs(b) && i < b->update->segments.count; i++) {
        const rf_segment *segment = &b->update->segments.items[i];
        if (owned_here(b, segment)) RF_TRY(emit_unscale_range(b, g, segment, segment->range, tally));
    }
    return RF_OK;
}

static rf_result emit_decide(const build *b, range_graph *g, rf_value *results)
{
    const rf_updater_params *p = &b->updater->params;
    rf_value scale, tally, found;
    (void)results;
    RF_TRY(list_scale(b, g, &scale, &tally));
    RF_TRY(rf_graph_host(g->graph, &b->update->found, (rf_tensor_desc){ RF_F32, RF_SHAPE(1) }, "found", &found));
    rf_value decided;
    return p->emit_loss_scale(g->graph, &p->scaling, scale, tally, found, &decided);
}

/* In one program with the update: the device decides, and takes the numbers from the rows. */
static rf_result emit_decided(const build *b, range_graph *g, segment_values *v, rf_value *decided)
{
    const rf_updater_params *p = &b->updater->params;
    const float none = 0;
    rf_value scale, tally, found;
    RF_TRY(emit_unscale(b, g, NULL));
    RF_TRY(list_scale(b, g, &scale, &tally));
    RF_TRY(rf_graph_constant(g->graph, (rf_tensor_desc){ RF_F32, RF_SHAPE(1) }, &none, &found));
    RF_TRY(p->emit_loss_scale(g->graph, &p->scaling, scale, tally, found, decided));
    for (uint32_t i = 0; i < b->update->num_hypers; i++) {
        rf_value rows;
        RF_TRY(list_hosts(b, g, i, &rows));
        RF_TRY(p->emit_numbers(g->graph, rows, *decided, &v->numbers[i]));
    }
    return RF_OK;
}

/* ---- programs ---- */

static rf_result emit_segments(const build *b, range_graph *g, segment_values *v)
{
    const rf_updater_params *p = &b->updater->params;
    for (uint32_t i = 0; !v->numbers && i < b->update->num_hypers; i++) RF_TRY(list_hosts(b, g, i, v->hyper));
    for (uint32_t i = 0; i < b->bucket->num_segments; i++) {
        const rf_segment *segment = &b->bucket->segments[i];
        if (!owned_here(b, segment)) continue;
        RF_TRY(list_values(b, g, segment, v));
        if (v->numbers) v->hyper[0] = v->numbers[segment->hyper];
        const rf_value along = rf_update_is_whole(b->update, segment->hyper) ? v->direction : v->grad;
        RF_TRY(shadow_state(b, g, segment, &v->shadow));
        RF_TRY(p->emit(p->user, g->graph, b->update->hyper_groups[segment->hyper], v->param, along, v->slots, v->hyper,
                       v->shadow));
    }
    return RF_OK;
}

static rf_result emit_direction_segments(const build *b, range_graph *g, segment_values *v)
{
    const rf_updater_params *p = &b->updater->params;
    for (uint32_t i = 0; i < b->update->num_hypers; i++) RF_TRY(list_hosts(b, g, i, v->hyper));
    for (uint32_t i = 0; i < b->update->wholes.count; i++) {
        const rf_segment *segment = &b->update->wholes.items[i];
        if (!owned_here(b, segment)) continue;
        RF_TRY(list_values(b, g, segment, v));
        RF_TRY(p->emit_direction(p->user, g->graph, b->update->hyper_groups[segment->hyper], v->direction, v->grad,
                                 v->slots, v->hyper));
    }
    return RF_OK;
}

static rf_result emit_ratio_segments(const build *b, range_graph *g, segment_values *v, rf_value *results)
{
    const rf_updater_params *p = &b->updater->params;
    const rf_update_replica *at = &b->update->replicas[b->index];
    for (uint32_t i = 0; i < b->update->num_hypers; i++) RF_TRY(list_hosts(b, g, i, v->hyper));
    for (uint32_t i = 0; i < at->num_ratios; i++) {
        RF_TRY(list_values(b, g, &b->update->segments.items[at->ratio_segments[i]], v));
        RF_TRY(p->emit_norms(p->user, g->graph, v->param, v->grad, v->slots, v->hyper, rf_update_pass_scale(b->pass),
                             &results[i]));
    }
    return RF_OK;
}

/* Where the device decides, results[0] is what it decided. */
static rf_result emit_apply(const build *b, range_graph *g, rf_value *results)
{
    const bool decides = rf_update_decides(b->update);
    segment_values v = { .hyper = RF_NEW_ARRAY(rf_value, 1 + b->updater->params.num_scalars),
                         .numbers = decides ? RF_NEW_ARRAY(rf_value, b->update->num_hypers) : NULL };
    rf_result r = v.hyper && (v.numbers || !decides) ? RF_OK : RF_ERROR_OUT_OF_HOST_MEMORY;
    if (r >= 0 && decides) r = emit_decided(b, g, &v, &results[0]);
    if (r >= 0) r = emit_segments(b, g, &v);
    rf_free(v.hyper);
    rf_free(v.numbers);
    return r;
}

static rf_result emit_ratios(const build *b, range_graph *g, rf_value *results)
{
    segment_values v = { .hyper = RF_NEW_ARRAY(rf_value, 1 + b->updater->params.num_scalars) };
    const rf_result r = v.hyper ? emit_ratio_segments(b, g, &v, results) : RF_ERROR_OUT_OF_HOST_MEMORY;
    rf_free(v.hyper);
    return r;
}

static rf_result emit_directions(const build *b, range_graph *g, rf_value *results)
{
    (void)results;
    segment_values v = { .hyper = RF_NEW_ARRAY(rf_value, 1 + b->updater->params.num_scalars) };
    const rf_result r = v.hyper ? emit_direction_segments(b, g, &v) : RF_ERROR_OUT_OF_HOST_MEMORY;
    rf_free(v.hyper);
    return r;
}

/* Those that the replica owns some of: so each element is made and used by one device. */
static rf_result emit_wholes(const build *b, range_graph *g, rf_value *results)
{
    const rf_updater *u = b->updater;
    (void)results;
    for (uint32_t i = 0; i < b->update->count; i++) {
        const rf_variable *variable = b->update->sorted[i];
        const rf_range span = b->update->spans[i];
        bool owned = false;
        for (uint32_t k = 0; k < b->update->wholes.count; k++) {
            const rf_segment *segment = &b->update->wholes.items[k];
            const bool meet = segment->range.begin < span.end && span.begin < segment->range.end;
            owned = owned || (meet && owned_here(b, segment));
        }
        rf_value direction;
        if (!owned) continue;
        RF_TRY(
            shaped_state(g, variable, u->directions.buffers[b->index], variable->offset, variable->shape, &direction));
        const uint32_t group = b->update->hyper_groups[b->update->hyper_of[i]];
        RF_TRY(u->params.emit_whole(u->params.user, g->graph, group, direction));
    }
    return RF_OK;
}

static rf_result emit_norms(const build *b, range_graph *g, rf_value *results)
{
    rf_update_replica *at = &b->update->replicas[b->index];
    for (uint32_t i = 0; i < at->num_norms; i++) {
        const rf_segment *segment = &b->update->segments.items[at->norm_segments[i]];
        rf_value x;
        RF_TRY(range_state(g, segment, rf_update_gradients(b->update)->buffers[b->index], segment->range.begin,
                           segment->range.end - segment->range.begin, &x));
        RF_TRY(b->updater->params.emit_sum_squares(g->graph, x, rf_update_pass_scale(b->pass), &results[i]));
    }
    return RF_OK;
}

static rf_result make_program(const build *b, const char *name,
                              rf_result (*emit)(const build *, range_graph *, rf_value *), uint32_t num_results,
                              rf_program **out)
{
    range_graph g = { 0 };
    rf_value *results = RF_NEW_ARRAY(rf_value, num_results);
    rf_result r = results ? rf_graph_create(rf_exec_core_ops(), &g.graph) : RF_ERROR_OUT_OF_HOST_MEMORY;
    if (r >= 0) r = emit(b, &g, results);
    if (r >= 0) {
        const rf_program_params params = { .name = name,
                                           .graph = g.graph,
                                           .results = results,
                                           .num_results = num_results,
                                           .states = g.states.items,
                                           .picks_numbers = rf_update_decides(b->update) };
        r = rf_program_create(b->updater->strategy->replicas[b->index].exec, &params, out);
    }
    rf_graph_destroy(&g.graph);
    rf_free(g.states.items);
    rf_free(results);
    return r;
}

/* ---- recordings ---- */

typedef struct transfer {
    const char *name;
    const rf_flat *from; /* NULL: zeros */
    const rf_flat *to;
    enum { TRANSFER_RUNS, TRANSFER_SEGMENTS, TRANSFER_OWNED, TRANSFER_OTHERS } what; /* RUNS: of the whole update */
    uint64_t from_array, to_array; /* where the arrays begin in their buffers, in elements */
} transfer;

static rf_result copy_range(const build *b, const transfer *t, rf_gpu_recording *rec, rf_range range)
{
    const uint64_t to = (t->to_array + range.begin) * sizeof(float), size = (range.end - range.begin) * sizeof(float);
    if (!t->from) return rf_gpu_record_fill(rec, t->to->buffers[b->index], to, size, 0);
    return rf_gpu_record_copy(rec, t->from->buffers[b->index], (t->from_array + range.begin) * sizeof(float),
                              t->to->buffers[b->index], to, size);
}

static rf_result record_transfer(const build *b, const transfer *t, rf_gpu_recording *rec)
{
    for (uint32_t i = 0; t->what == TRANSFER_RUNS && i < b->update->num_runs; i++)
        RF_TRY(copy_range(b, t, rec, b->update->runs[i]));
    for (uint32_t i = 0; t->what != TRANSFER_RUNS && i < b->bucket->num_segments; i++) {
        const rf_segment *segment = &b->bucket->segments[i];
        if (t->what == TRANSFER_SEGMENTS || owned_here(b, segment) == (t->what == TRANSFER_OWNED))
            RF_TRY(copy_range(b, t, rec, segment->range));
    }
    return RF_OK;
}

static rf_result make_recording(const build *b, const transfer *t, rf_gpu_recording **out)
{
    RF_TRY(rf_gpu_recording_begin(b->updater->strategy->replicas[b->index].device, t->name, out));
    RF_TRY(record_transfer(b, t, *out));
    return rf_gpu_recording_end(*out);
}

static rf_result make_staging(const build *b, rf_update_bucket_replica *at)
{
    rf_strategy *s = b->updater->strategy;
    const rf_flat *gradients = rf_updater_gradients(b->updater), *values = &s->trainable.values;
    const transfer down = { "gradients down", gradients, &s->download, TRANSFER_SEGMENTS },
                   up = { "gradients up", &s->upload, gradients,
                          b->update->transform.graph ? TRANSFER_SEGMENTS : TRANSFER_OWNED },
                   values_down = { "values down", values, &s->download, TRANSFER_OWNED },
                   values_up = { "values up", &s->upload, values, TRANSFER_OTHERS };
    RF_TRY(make_recording(b, &down, &at->gradients_down));
    RF_TRY(make_recording(b, &up, &at->gradients_up));
    if (s->update_mode == RF_UPDATE_LOCAL) return RF_OK;
    RF_TRY(make_recording(b, &values_down, &at->values_down));
    return make_recording(b, &values_up, &at->values_up);
}

/* The owner takes the first replica's gradients, and the program adds those of the others. */
static rf_result make_meeting(const build *b, rf_update_bucket_replica *at)
{
    rf_strategy *s = b->updater->strategy;
    const rf_flat *gradients = rf_updater_gradients(b->updater), *values = &s->trainable.values,
                  *arrays = &s->meeting.arrays;
    const uint64_t own = rf_meeting_array(&s->meeting, b->index), first = rf_meeting_array(&s->meeting, 0),
                   shared = rf_meeting_array(&s->meeting, s->num_local);
    const transfer down = { "gradients to all", gradients, arrays, TRANSFER_SEGMENTS, .to_array = own },
                   up = { "first gradients of all", arrays, gradients, TRANSFER_OWNED, .from_array = first },
                   values_down = { "values to all", values, arrays, TRANSFER_OWNED, .to_array = shared },
                   values_up = { "values of all", arrays, values, TRANSFER_OTHERS, .from_array = shared };
    RF_TRY(make_recording(b, &down, &at->gradients_down));
    RF_TRY(make_recording(b, &values_up, &at->values_up));
    if (!at->apply) return RF_OK;
    RF_TRY(make_recording(b, &up, &at->gradients_up));
    RF_TRY(make_program(b, "sum of gradients", emit_sum, 0, &at->sum));
    return make_recording(b, &values_down, &at->values_down);
}

/* ---- transforms ---- */

static rf_location transform_state(const build *b, const rf_transform_state *state)
{
    const rf_variable *v = state->variable;
    const rf_flat *flat = state->gradient ? rf_updater_gradients(b->updater) : &rf_variable_store(v)->values;
    return (rf_location){ flat->buffers[b->index], v->offset * sizeof(float) };
}

/* Of whole gradients, on every replica that updates something: so each value is transformed and used by one device. */
static rf_result make_transform(const build *b, rf_program **out)
{
    const rf_gradient_transform *t = &b->update->transform;
    rf_location *states = RF_NEW_ARRAY(rf_location, t->states.count);
    rf_program_placement *placements = RF_NEW_ARRAY(rf_program_placement, b->update->count);
    rf_result r = states && placements ? RF_OK : RF_ERROR_OUT_OF_HOST_MEMORY;
    if (r >= 0) {
        for (uint32_t i = 0; i < t->states.count; i++) states[i] = transform_state(b, &t->states.items[i]);
        for (uint32_t i = 0; i < b->update->count; i++)
            placements[i] = (rf_program_placement){ .value = t->results[i],
                                                    .at = { b->updater->transformed.buffers[b->index],
                                                            b->update->variables[i]->offset * sizeof(float) } };
        const rf_program_params params = { .name = "transform",
                                           .graph = t->graph,
                                           .states = states,
                                           .placements = placements,
                                           .num_placements = b->update->count };
        r = rf_program_create(b->updater->strategy->replicas[b->index].exec, &params, out);
    }
    rf_free(states);
    rf_free(placements);
    return r;
}

/* ---- one replica ---- */

/* Norms of segments that all replicas have are taken on the first alone, so that all use the same number. */
static rf_result list_norms(const build *b, rf_update_replica *at)
{
    const rf_segment_list *segments = &b->update->segments;
    at->norm_segments = RF_NEW_ARRAY(uint32_t, segments->count);
    if (!at->norm_segments) return RF_ERROR_OUT_OF_HOST_MEMORY;
    const rf_updater_params *p = &b->updater->params;
    for (uint32_t i = 0; i < segments->count; i++) {
        const rf_segment *segment = &segments->items[i];
        const uint32_t reader = rf_update_norm_reader(segment);
        if ((p->variable_norms || p->global_norm) && reader == b->updater->strategy->first + b->index)
            at->norm_segments[at->num_norms++] = i;
    }
    return RF_OK;
}

/* Every owner changes its slots, also of segments that all have. */
static rf_result make_ratios(const build *b, rf_update_replica *at)
{
    const rf_segment_list *segments = &b->update->segments;
    if (!b->updater->params.emit_norms) return RF_OK;
    at->ratio_segments = RF_NEW_ARRAY(uint32_t, segments->count);
    if (!at->ratio_segments) return RF_ERROR_OUT_OF_HOST_MEMORY;
    for (uint32_t i = 0; i < segments->count; i++)
        if (owned_here(b, &segments->items[i])) at->ratio_segments[at->num_ratios++] = i;
    rf_program *first;
    return rf_update_sums_program(b->update, b->index, true, 0, &first);
}

rf_result rf_update_sums_program(rf_update *update, uint32_t index, bool ratios, uint32_t pass, rf_program **out)
{
    rf_update_replica *at = &update->replicas[index];
    const build b = { .update = update, .updater = update->updater, .index = index, .pass = pass };
    const uint32_t count = ratios ? at->num_ratios : at->num_norms;
    rf_program **program = ratios ? &at->ratios[pass] : &at->norms[pass];
    if (!*program && count > 0)
        RF_TRY(make_program(&b, ratios ? "ratios" : "norms", ratios ? emit_ratios : emit_norms, count, program));
    *out = *program;
    return RF_OK;
}

/* Nothing travels where every replica has the directions that it goes on with. */
static rf_result make_directions(const build *b, rf_update_replica *at)
{
    const rf_segment_list *wholes = &b->update->wholes;
    rf_strategy *s = b->updater->strategy;
    bool any = false;
    for (uint32_t i = 0; i < wholes->count; i++) any = any || owned_here(b, &wholes->items[i]);
    if (any) RF_TRY(make_program(b, "directions", emit_directions, 0, &at->directions));
    if (any) RF_TRY(make_program(b, "whole directions", emit_wholes, 0, &at->wholes));
    if (!b->update->wholes_exchange || !s->replicas[b->index].staged) return RF_OK;
    const rf_update_bucket bucket = { .segments = wholes->items, .num_segments = wholes->count };
    const build of = { b->update, b->updater, b->index, &bucket };
    const rf_flat *directions = &b->updater->directions;
    RF_TRY(make_recording(&of, &(transfer){ "directions down", directions, &s->download, TRANSFER_OWNED },
                          &at->directions_down));
    return make_recording(&of, &(transfer){ "directions up", &s->upload, directions, TRANSFER_OTHERS },
                          &at->directions_up);
}

static rf_result build_bucket(const build *b)
{
    const rf_strategy *s = b->updater->strategy;
    rf_update_bucket_replica *at = &b->bucket->replicas[b->index];
    bool any = false;
    for (uint32_t i = 0; i < b->bucket->num_segments; i++) any = any || owned_here(b, &b->bucket->segments[i]);
    const uint32_t num_results = rf_update_decides(b->update);
    if (any) RF_TRY(make_program(b, "update", emit_apply, num_results, &at->apply));
    if (rf_update_meets(b->update)) return make_meeting(b, at);
    return s->num_replicas > 1 && s->replicas[b->index].staged ? make_staging(b, at) : RF_OK;
}

/* Every replica is told of the decision; those that own nothing have no part in it. */
static rf_result make_scaling(const build *b, rf_update_replica *at)
{
    if (!rf_update_asks(b->update)) return RF_OK;
    RF_TRY(make_program(b, "overflow check", emit_check, 1, &at->check));
    if (b->update->buckets[0].replicas[b->index].apply)
        RF_TRY(make_program(b, "unscale", emit_unscale, 0, &at->unscale));
    return make_program(b, "loss scale", emit_decide, 0, &at->decide);
}

static rf_result build_replica(const build *b)
{
    rf_update_replica *at = &b->update->replicas[b->index];
    rf_program *norms;
    RF_TRY(list_norms(b, at));
    for (uint32_t k = 0; k < b->update->num_buckets; k++)
        RF_TRY(build_bucket(&(build){ b->update, b->updater, b->index, &b->update->buckets[k] }));
    if (b->update->transform.graph && b->update->buckets[0].replicas[b->index].apply)
        RF_TRY(make_transform(b, &at->transform));
    RF_TRY(rf_update_sums_program(b->update, b->index, false, 0, &norms));
    RF_TRY(make_ratios(b, at));
    RF_TRY(make_directions(b, at));
    RF_TRY(make_scaling(b, at));
    if (b->updater->params.accumulation_steps == 1) return RF_OK;
    return make_program(b, "accumulate", emit_accumulate, 0, &at->accumulate);
}

rf_result rf_update_record_first(rf_update *update, uint32_t index, bool clear, rf_gpu_recording **out)
{
    rf_updater *u = update->updater;
    const transfer first = { "first gradients", &u->strategy->gradients, &u->totals, TRANSFER_RUNS },
                   none = { "clear gradients", NULL, &u->totals, TRANSFER_RUNS };
    return make_recording(&(build){ update, u, index, NULL }, clear ? &none : &first, out);
}

/* ---- the update ---- */

/* Spans of the variables in order, and what they merge to. */
static rf_result list_ranges(rf_update *update, uint64_t max_segment)
{
    uint32_t capacity = 0;
    for (uint32_t i = 0; i < update->count; i++) {
        update->spans[i] = rf_variable_span(update->sorted[i]);
        capacity += (uint32_t)rf_div_up(update->spans[i].end - update->spans[i].begin, max_segment) + 1;
    }
    update->runs = RF_NEW_ARRAY(rf_range, capacity);
    if (!update->runs) return RF_ERROR_OUT_OF_HOST_MEMORY;
    for (uint32_t i = 0; i < update->count;) {
        rf_range run = update->spans[i];
        for (i++; i < update->count && update->spans[i].begin == run.end; i++) run.end = update->spans[i].end;
        for (; run.begin < run.end; run.begin += max_segment) {
            const uint64_t end = run.end - run.begin > max_segment ? run.begin + max_segment : run.end;
            update->runs[update->num_runs++] = (rf_range){ run.begin, end };
        }
    }
    return RF_OK;
}

/* One for all segments, or one for each bucket of the plan. */
static rf_result list_buckets(rf_update *update, uint32_t num_local, bool by_bucket)
{
    const rf_segment_list *segments = &update->segments;
    update->buckets = RF_NEW_ARRAY(rf_update_bucket, segments->count);
    if (!update->buckets) return RF_ERROR_OUT_OF_HOST_MEMORY;
    for (uint32_t i = 0; i < segments->count; i++) {
        if (i == 0 || (by_bucket && segments->items[i].bucket != segments->items[i - 1].bucket))
            update->buckets[update->num_buckets++].segments = &segments->items[i];
        update->buckets[update->num_buckets - 1].num_segments++;
    }
    for (uint32_t k = 0; k < update->num_buckets; k++) {
        update->buckets[k].replicas = RF_NEW_ARRAY(rf_update_bucket_replica, num_local);
        if (!update->buckets[k].replicas) return RF_ERROR_OUT_OF_HOST_MEMORY;
    }
    return RF_OK;
}

static rf_result make_room(rf_update *update, const rf_updater *u)
{
    const uint32_t replicas = u->strategy->num_local;
    const size_t num_numbers = (size_t)rf_updater_num_numbers(u) * update->num_hypers * update->num_rows;
    uint64_t num_sums = 0;
    for (uint32_t i = 0; i < update->segments.count; i++)
        num_sums += (u->params.emit_norms ? 2 : 1) * rf_update_num_blocks(update, &update->segments.items[i]);
    update->hypers = RF_NEW_ARRAY(float, num_numbers);
    update->rows_made = RF_NEW_ARRAY(uint64_t, update->num_rows);
    update->squares = RF_NEW_ARRAY(double, update->num_hypers);
    update->sums = RF_NEW_ARRAY(float, num_sums);
    update->gathered = RF_NEW_ARRAY(float, num_sums);
    update->exact = RF_NEW_ARRAY(double, num_sums);
    update->counts = RF_NEW_ARRAY(uint64_t, u->strategy->world.size);
    update->frames = RF_NEW_ARRAY(rf_frame *, replicas);
    update->replicas = RF_NEW_ARRAY(rf_update_replica, replicas);
    return update->hypers && update->rows_made && update->squares && update->sums && update->gathered &&
                   update->exact && update->counts && update->frames && update->replicas
               ? RF_OK
               : RF_ERROR_OUT_OF_HOST_MEMORY;
}

/* Where norms are taken of each variable, each has numbers of its own. */
static rf_result list_hypers(rf_update *update)
{
    const rf_updater_params *p = &update->updater->params;
    const bool by_variable = rf_updater_by_variable(update->updater);
    const uint32_t num_groups = p->num_groups > 0 ? p->num_groups : 1;
    update->num_hypers = by_variable ? update->count : num_groups;
    update->hyper_of = RF_NEW_ARRAY(uint32_t, update->count);
    update->hyper_groups = RF_NEW_ARRAY(uint32_t, update->num_hypers);
    if (!update->hyper_of || !update->hyper_groups) return RF_ERROR_OUT_OF_HOST_MEMORY;
    for (uint32_t i = 0; i < update->num_hypers; i++) update->hyper_groups[i] = by_variable ? 0 : i;
    for (uint32_t i = 0; i < update->count; i++) {
        const uint32_t group = num_groups > 1 ? p->group(p->user, update->sorted[i]) : 0;
        update->hyper_of[i] = by_variable ? i : group;
        if (by_variable) update->hyper_groups[i] = group;
    }
    return RF_OK;
}

static rf_result update_prepare(rf_update *update, bool by_bucket, uint32_t under_way)
{
    rf_updater *u = update->updater;
    update->num_rows = rf_update_decides(update) ? under_way : 1;
    RF_REQUIRE(
        u->params.accumulation_steps == 1 || u->variables.count == update->count,
        "an optimizer that accumulates gradients must update the same variables in every function: %u here, %u in all",
        update->count, u->variables.count);
    update->sorted = RF_NEW_ARRAY(rf_variable *, update->count);
    update->spans = RF_NEW_ARRAY(rf_range, update->count);
    if (!update->sorted || !update->spans) return RF_ERROR_OUT_OF_HOST_MEMORY;
    memcpy(update->sorted, update->variables, update->count * sizeof(update->sorted[0]));
    rf_variables_sort(update->sorted, update->count);
    RF_TRY(list_ranges(update, u->strategy->max_segment));
    RF_TRY(list_hypers(update));
    RF_TRY(rf_segments_restrict(&u->plan, update->spans, update->hyper_of, update->count, &update->segments));
    RF_TRY(list_buckets(update, u->strategy->num_local, by_bucket));
    RF_TRY(rf_update_list_wholes(update));
    RF_TRY(make_room(update, u));
    for (uint32_t r = 0; r < u->strategy->num_local; r++)
        RF_TRY(rf_error_context(build_replica(&(build){ update, u, r, NULL }), "update on replica %u",
                                u->strategy->first + r));
    return RF_OK;
}

rf_result rf_update_prepare(rf_update *update, bool by_bucket, uint32_t under_way)
{
    const rf_result r = update_prepare(update, by_bucket, under_way);
    if (r < 0) rf_update_unprepare(update);
    return r;
}

static void free_replica(rf_update_replica *at)
{
    rf_program_destroy(&at->accumulate);
    rf_program_destroy(&at->transform);
    for (uint32_t pass = 0; pass < RF_UPDATE_PASSES; pass++) {
        rf_program_destroy(&at->norms[pass]);
        rf_program_destroy(&at->ratios[pass]);
    }
    rf_program_destroy(&at->directions);
    rf_program_destroy(&at->wholes);
    rf_gpu_recording_destroy(&at->directions_down);
    rf_gpu_recording_destroy(&at->directions_up);
    rf_program_destroy(&at->check);
    rf_program_destroy(&at->unscale);
    rf_program_destroy(&at->decide);
    rf_repeated_free(&at->first);
    rf_repeated_free(&at->clear);
    rf_free(at->norm_segments);
    rf_free(at->ratio_segments);
}

static void free_bucket(rf_update_bucket *bucket, uint32_t num_local)
{
    for (uint32_t r = 0; bucket->replicas && r < num_local; r++) {
        rf_update_bucket_replica *at = &bucket->replicas[r];
        rf_program_destroy(&at->apply);
        rf_program_destroy(&at->sum);
        rf_gpu_recording *recs[] = { at->gradients_down, at->gradients_up, at->values_down, at->values_up };
        for (size_t i = 0; i < sizeof(recs) / sizeof(recs[0]); i++) rf_gpu_recording_destroy(&recs[i]);
    }
    rf_free(bucket->replicas);
}

/* Nothing of it may be in flight. */
void rf_update_unprepare(rf_update *update)
{
    const uint32_t num_local = update->updater->strategy->num_local;
    (void)rf_updater_settle(update->updater); /* frames that it waits for are of these programs */
    rf_turns_free(&update->turns);
    for (uint32_t r = 0; update->replicas && r < num_local; r++) free_replica(&update->replicas[r]);
    for (uint32_t k = 0; k < update->num_buckets; k++) free_bucket(&update->buckets[k], num_local);
    rf_free(update->buckets);
    rf_free(update->replicas);
    rf_free(update->sorted);
    rf_free(update->spans);
    rf_free(update->hyper_of);
    rf_free(update->hyper_groups);
    rf_free(update->runs);
    rf_free(update->hypers);
    rf_free(update->rows_made);
    rf_free(update->squares);
    rf_free(update->sums);
    rf_free(update->gathered);
    rf_free(update->exact);
    rf_free(update->counts);
    rf_free(update->frames);
    if (update->wholes_exchange) update->updater->strategy->exchange->fns->close(&update->wholes_exchange);
    rf_segment_list_free(&update->wholes);
    rf_segment_list_free(&update->segments);
    *update = (rf_update){ .updater = update->updater,
                           .variables = update->variables,
                           .gradients = update->gradients,
                           .count = update->count,
                           .transform = update->transform,
                           .transform_hash = update->transform_hash,
                           .weighing = update->weighing };
}

void rf_update_free(rf_update *update)
{
    rf_update_unprepare(update);
    for (uint32_t i = 0; i < update->count; i++) rf_variable_release(update->variables[i]);
    rf_free(update->variables);
    rf_free(update->gradients);
    rf_gradient_transform_free(&update->transform);
    rf_updater_release(update->updater);
    *update = (rf_update){ 0 };
}
