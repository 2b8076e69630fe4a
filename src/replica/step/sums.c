/* SPDX-License-Identifier: Apache-2.0 */
#include "replica/step/sums.h"

#include "base/platform.h"
#include "base/profiler.h"
#include "graph/batch_dims.h"
#include "replica/exchange/exchange_stats.h"
#include "replica/exchange/staging.h"

static bool sums_replicas(const rf_node_info *node)
{
    return !node->dead && (node->op->flags & RF_OP_SUMS_REPLICAS);
}

/* ---- while tracing ---- */

bool rf_trace_needs_sum(rf_trace *t)
{
    const rf_strategy *s = rf_trace_strategy(t);
    if (s->remote)
        rf_trace_fail(t, RF_ERROR_UNSUPPORTED,
                      "rf_all_replica_sum: workers of parameter servers take their steps at different times and have "
                      "nothing to add up; train with a multi-worker strategy");
    return s->num_replicas > 1;
}

uint64_t rf_step_sums_elements(const rf_strategy *s, const rf_graph *g)
{
    uint64_t elements = 0;
    for (rf_node n = 0; n < g->nodes.count; n++) {
        const rf_node_info *node = &g->nodes.items[n];
        if (!sums_replicas(node)) continue;
        elements += rf_align_up((uint64_t)rf_shape_count(rf_graph_desc(g, node->out[0])->shape), s->alignment);
    }
    return elements;
}

rf_result rf_step_sums_check(rf_graph *g)
{
    for (rf_node n = 0; n < g->nodes.count; n++) {
        const rf_node_info *node = &g->nodes.items[n];
        if (!sums_replicas(node)) continue;
        const rf_shape shape = rf_graph_desc(g, node->out[0])->shape;
        char text[96];
        uint32_t dims;
        RF_TRY(rf_graph_batch_dims(g, node->out[0], &dims));
        RF_REQUIRE(dims == 0,
                   "rf_all_replica_sum: the shape of what is summed, %s here, depends on the batch, and replicas have "
                   "batches of different sizes; reduce it over the batch first",
                   rf_shape_format(shape, text, sizeof(text)));
    }
    return RF_OK;
}

/* ---- room ---- */

rf_result rf_step_sums_ensure(rf_strategy *s, uint64_t elements)
{
    if (elements > s->sums.capacity) {
        RF_TRY(rf_strategy_wait(s));
        s->generation++; /* first: also when only one of the two grows, programs know of its old buffers */
        RF_TRY(rf_flat_grow(s, &s->summands, elements, 0));
        RF_TRY(rf_flat_grow(s, &s->sums, elements, 0));
    }
    return rf_staging_ensure_sums(s);
}

/* ---- making and unmaking ---- */

static rf_result record_replica(const rf_strategy *s, rf_sum_part *part, uint32_t index)
{
    if (!s->replicas[index].staged) return RF_OK;
    const rf_segment *segments = part->segments;
    const uint32_t count = part->num_segments;
    RF_TRY(rf_replica_record_copies(s, index, "summands down", segments, count, &s->summands, &s->sum_download,
                                    &part->down[index]));
    return rf_replica_record_copies(s, index, "sums up", segments, count, &s->sum_upload, &s->sums, &part->up[index]);
}

static rf_result prepare_part(rf_step_sums *sums, rf_sum_part *part)
{
    rf_strategy *s = sums->strategy;
    part->down = RF_NEW_ARRAY(rf_gpu_recording *, s->num_local);
    part->up = RF_NEW_ARRAY(rf_gpu_recording *, s->num_local);
    if (!part->down || !part->up) return RF_ERROR_OUT_OF_HOST_MEMORY;
    for (uint32_t r = 0; r < s->num_local; r++) RF_TRY(rf_replica_context(s, r, record_replica(s, part, r)));
    return s->exchange->fns->open(s->exchange, part->segments, part->num_segments, false, false, &part->exchange);
}

static rf_result sums_prepare(rf_step_sums *sums, const rf_program *program)
{
    uint32_t count;
    const rf_program_sum *list = rf_program_sums(program, &count);
    sums->segments = RF_NEW_ARRAY(rf_segment, count);
    sums->parts = RF_NEW_ARRAY(rf_sum_part, rf_program_num_sum_parts(program));
    sums->from = RF_NEW_ARRAY(const float *, sums->strategy->num_local);
    sums->to = RF_NEW_ARRAY(float *, sums->strategy->num_local);
    if (!sums->segments || !sums->parts || !sums->from || !sums->to) return RF_ERROR_OUT_OF_HOST_MEMORY;
    sums->num_parts = rf_program_num_sum_parts(program);
    for (uint32_t i = 0; i < count; i++) {
        rf_sum_part *part = &sums->parts[list[i].part];
        sums->segments[i] =
            (rf_segment){ .range = { list[i].offset, list[i].offset + list[i].count }, .owner = RF_OWNER_ALL };
        if (part->num_segments++ == 0) part->segments = &sums->segments[i];
    }
    for (uint32_t k = 0; k < sums->num_parts; k++) RF_TRY(prepare_part(sums, &sums->parts[k]));
    return RF_OK;
}

rf_result rf_step_sums_prepare(rf_step_sums *sums, rf_strategy *strategy, const rf_program *program)
{
    sums->strategy = strategy;
    const rf_result r = sums_prepare(sums, program);
    if (r < 0) rf_step_sums_unprepare(sums);
    return r;
}

void rf_step_sums_unprepare(rf_step_sums *sums)
{
    const rf_strategy *s = sums->strategy;
    if (!s) return;
    for (uint32_t k = 0; k < sums->num_parts; k++) {
        rf_sum_part *part = &sums->parts[k];
        if (part->exchange) s->exchange->fns->close(&part->exchange);
        for (uint32_t r = 0; part->down && r < s->num_local; r++) rf_gpu_recording_destroy(&part->down[r]);
        for (uint32_t r = 0; part->up && r < s->num_local; r++) rf_gpu_recording_destroy(&part->up[r]);
        rf_free(part->down);
        rf_free(part->up);
    }
    rf_free(sums->segments);
    rf_free(sums->parts);
    rf_free(sums->from);
    rf_free(sums->to);
    *sums = (rf_step_sums){ .elements = sums->elements };
}

/* ---- running ---- */

static rf_result submit_replica(const rf_step_sums *sums, uint32_t part, uint32_t r, rf_frame *frame)
{
    rf_replica *replica = &sums->strategy->replicas[r];
    if (!frame) return RF_OK;
    RF_TRY(rf_frame_submit_sum_part(replica->exec, frame, part, &replica->ticket));
    return rf_replica_submit_one(replica, sums->parts[part].down[r]);
}

/* Those without examples, too: what they were given before may still read the sums that are about to be written. */
static rf_result await_replica(const rf_step_sums *sums, uint32_t r)
{
    const rf_replica *replica = &sums->strategy->replicas[r];
    return replica->ticket ? rf_gpu_wait(replica->device, replica->ticket, RF_GPU_TIMEOUT_NS) : RF_OK;
}

static rf_result exchange_part(rf_step_sums *sums, rf_sum_part *part, rf_frame *const *frames)
{
    rf_strategy *s = sums->strategy;
    for (uint32_t r = 0; r < s->num_local; r++) {
        sums->from[r] = frames[r] ? rf_replica_reachable(s, r, &s->summands, &s->sum_download) : NULL;
        sums->to[r] = rf_replica_reachable(s, r, &s->sums, &s->sum_upload);
    }
    const rf_exchange_mark mark = rf_exchange_mark_now(s);
    const uint64_t begun = rf_now_ns(), span = rf_span_begin();
    RF_TRY(s->exchange->fns->start_reduce(part->exchange, sums->from, sums->to));
    RF_TRY(s->exchange->fns->finish(part->exchange));
    rf_exchange_count(s, &mark, 1e-9 * (double)(rf_now_ns() - begun)); /* every device is idle */
    rf_span_end(span, "replica", "sum");
    return RF_OK;
}

static rf_result run_part(rf_step_sums *sums, uint32_t index, rf_frame *const *frames)
{
    rf_strategy *s = sums->strategy;
    rf_sum_part *part = &sums->parts[index];
    for (uint32_t r = 0; r < s->num_local; r++)
        RF_TRY(rf_replica_context(s, r, submit_replica(sums, index, r, frames[r])));
    for (uint32_t r = 0; r < s->num_local; r++) RF_TRY(rf_replica_context(s, r, await_replica(sums, r)));
    RF_TRY(exchange_part(sums, part, frames));
    for (uint32_t r = 0; r < s->num_local; r++)
        if (frames[r]) RF_TRY(rf_replica_context(s, r, rf_replica_submit_one(&s->replicas[r], part->up[r])));
    return RF_OK;
}

rf_result rf_step_sums_run(rf_step_sums *sums, rf_frame *const *frames)
{
    for (uint32_t k = 0; k < sums->num_parts; k++) RF_TRY(run_part(sums, k, frames));
    return RF_OK;
}
