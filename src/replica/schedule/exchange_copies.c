/* SPDX-License-Identifier: Apache-2.0 */
#include "replica/schedule/schedule.h"

/* ---- copies ---- */

typedef enum copied_segments { COPY_ALL, COPY_OWNED, COPY_OTHERS } copied_segments;

typedef struct copies {
    const char *name;
    const rf_flat *from, *to;
    uint64_t from_array, to_array; /* where the arrays begin in their buffers, in elements */
    const rf_segment *segments;
    uint32_t num_segments;
    copied_segments which;
} copies;

static bool is_copied(const rf_strategy *s, const copies *c, const rf_segment *segment, uint32_t index)
{
    return c->which == COPY_ALL || rf_segment_is_owned(s, segment, index) == (c->which == COPY_OWNED);
}

static rf_result record_range(const copies *c, uint32_t index, rf_range range, rf_gpu_recording *rec)
{
    const uint64_t to = (c->to_array + range.begin) * sizeof(float), size = (range.end - range.begin) * sizeof(float);
    if (!c->from) return rf_gpu_record_fill(rec, c->to->buffers[index], to, size, 0);
    return rf_gpu_record_copy(rec, c->from->buffers[index], (c->from_array + range.begin) * sizeof(float),
                              c->to->buffers[index], to, size);
}

/* *out stays NULL where there is nothing to copy, and may be set when this fails. */
static rf_result record_copies(const rf_strategy *s, uint32_t index, const copies *c, rf_gpu_recording **out)
{
    for (uint32_t i = 0; i < c->num_segments; i++) {
        if (!is_copied(s, c, &c->segments[i], index)) continue;
        if (!*out) RF_TRY(rf_gpu_recording_begin_shared(s->members.replicas[index].device, c->name, out));
        RF_TRY(record_range(c, index, c->segments[i].range, *out));
    }
    return *out ? rf_gpu_recording_end(*out) : RF_OK;
}

rf_result rf_stage_record(const rf_strategy *s, const rf_step_stage *stage, uint32_t index, rf_gpu_recording **out)
{
    const copies c = { .name = stage->action->name,
                       .from = stage->copy.from,
                       .to = stage->copy.to,
                       .segments = stage->copy.segments,
                       .num_segments = stage->copy.num_segments };
    *out = NULL;
    return record_copies(s, index, &c, out);
}

/* ---- imported memory ---- */

/* For the owner's segments: values of all replicas but the first, added to that one's in their order. Nothing needs
 * room beside what is added up. */
static rf_result emit_sum(const rf_strategy *s, const rf_stage_exchange *x, uint32_t index, rf_range_graph *g)
{
    for (uint32_t i = 0; i < x->num_segments; i++) {
        const rf_segment *segment = &x->segments[i];
        const uint64_t begin = segment->range.begin, count = segment->range.end - begin;
        rf_value total, v;
        if (!rf_segment_is_owned(s, segment, index)) continue;
        RF_TRY(rf_range_graph_state(g, segment, x->to.flat->buffers[index], begin, count, &total));
        for (uint32_t r = 1; r < s->members.num_local; r++) {
            const uint64_t at = rf_imported_memory_array(&s->exchange.imported, r) + begin;
            RF_TRY(rf_range_graph_state(g, rf_imported_memory_mapped(&s->exchange.imported) + at,
                                        s->exchange.imported.arrays.buffers[index], at, count, &v));
            RF_TRY(g->graph->core->update.accumulate(g->graph, total, v));
        }
    }
    return RF_OK;
}

static rf_result make_sum(const rf_strategy *s, const rf_stage_exchange *x, uint32_t index, rf_program **out)
{
    rf_range_graph g = { 0 };
    rf_result r = rf_graph_create(rf_exec_core_ops(), &g.graph);
    if (r >= 0) r = emit_sum(s, x, index, &g);
    if (r >= 0) r = rf_range_graph_program(&g, s->members.replicas[index].exec, "sum in imported memory", false, out);
    rf_range_graph_free(&g);
    return r;
}

/* ---- the exchange ---- */

/* From where values are to where the exchange finds them: staging, or an array in imported memory, one for each
 * replica's gradients and one for values. And back: there the owner takes the first replica's gradients, to which its
 * program adds those of the others. */
static rf_result build_copies(const rf_strategy *s, rf_stage_exchange *x, uint32_t index)
{
    const rf_imported_memory *m = &s->exchange.imported;
    const bool sums = x->verb != RF_EXCHANGE_GATHER;
    const uint64_t own = x->imported ? rf_imported_memory_array(m, sums ? index : s->members.num_local) : 0;
    const uint64_t first = x->imported ? rf_imported_memory_array(m, sums ? 0 : s->members.num_local) : 0;
    const copies down = { .name = x->name,
                          .from = x->from.flat,
                          .to = x->imported ? &m->arrays : x->from.staging,
                          .to_array = own,
                          .segments = x->segments,
                          .num_segments = x->num_segments,
                          .which = sums ? COPY_ALL : COPY_OWNED };
    const copies up = { .name = x->name,
                        .from = x->imported ? &m->arrays : x->to.staging,
                        .from_array = first,
                        .to = x->to.flat,
                        .segments = x->segments,
                        .num_segments = x->num_segments,
                        .which = !sums                        ? COPY_OTHERS
                                 : x->verb == RF_EXCHANGE_SUM ? COPY_OWNED
                                                              : COPY_ALL };
    RF_TRY(record_copies(s, index, &down, &x->replicas[index].down));
    RF_TRY(record_copies(s, index, &up, &x->replicas[index].up));
    return x->imported && sums ? make_sum(s, x, index, &x->replicas[index].sum) : RF_OK;
}

rf_result rf_stage_exchange_build(rf_strategy *s, rf_arena *room, rf_stage_exchange *x)
{
    RF_TRY(RF_ARENA_ARRAY(room, x->replicas, s->members.num_local));
    for (uint32_t r = 0; r < s->members.num_local; r++) {
        rf_result result = RF_OK;
        if (x->imported || s->members.replicas[r].staged) result = build_copies(s, x, r);
        RF_TRY(rf_replica_context(s, r, rf_error_context(result, "%s", x->name)));
    }
    if (x->imported || x->shares) return RF_OK;
    return rf_bucket_exchange_open(&s->exchange.between, x->segments, x->num_segments, x->gradients, x->background,
                                   &x->handle);
}

void rf_stage_exchange_free(const rf_strategy *s, rf_stage_exchange *x)
{
    rf_bucket_exchange_close(&x->handle);
    for (uint32_t r = 0; x->replicas && r < s->members.num_local; r++) {
        rf_gpu_recording_destroy(&x->replicas[r].down);
        rf_gpu_recording_destroy(&x->replicas[r].up);
        rf_program_destroy(&x->replicas[r].sum);
    }
}
