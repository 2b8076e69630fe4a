/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ring: the data are cut into one part per rank; each part travels round once and collects every rank's addend
 * (reduce-scatter), then once more as the finished sum (all-gather). Every link carries 2 (n - 1) / n of the data, the
 * least possible. Patarasuk and Yuan, "Bandwidth optimal all-reduce algorithms for clusters of workstations", J.
 * Parallel Distrib. Comput. 69 (2009). Part i ends at rank i, so that the first half is the reduce-scatter operation.
 */
#include "base/error.h"
#include "base/memory.h"
#include "transport/schedule.h"

/* Rank `index - back` of the group's ring. */
static uint32_t behind(const rf_group *g, uint32_t back)
{
    return (g->index + 2 * g->size - back) % g->size;
}

static rf_step *ring_step(rf_schedule *s, const rf_group *g, uint32_t round)
{
    rf_step *step = rf_schedule_add(s, round);
    if (!step) return NULL;
    step->to = (int32_t)g->ranks[(g->index + 1) % g->size];
    step->from = (int32_t)g->ranks[behind(g, 1)];
    return step;
}

rf_result rf_ring_all_reduce(rf_schedule *s, const rf_group *g, uint64_t count, rf_space *source, uint32_t *round)
{
    const uint32_t n = g->size;
    for (uint32_t k = 0; k + 1 < n; k++) {
        rf_step *step = ring_step(s, g, (*round)++);
        if (!step) return RF_ERROR_OUT_OF_HOST_MEMORY;
        const uint32_t out = behind(g, k + 1), in = behind(g, k + 2);
        step->send = (rf_place){ k == 0 ? *source : RF_SPACE_OUTPUT, rf_part_begin(count, n, out) };
        step->send_count = rf_part_begin(count, n, out + 1) - step->send.begin;
        step->receive = (rf_place){ RF_SPACE_OUTPUT, rf_part_begin(count, n, in) };
        step->receive_count = rf_part_begin(count, n, in + 1) - step->receive.begin;
        step->local = (rf_place){ *source, step->receive.begin };
        step->reduce = step->received_left = true;
    }
    for (uint32_t k = 0; k + 1 < n; k++) {
        rf_step *step = ring_step(s, g, (*round)++);
        if (!step) return RF_ERROR_OUT_OF_HOST_MEMORY;
        const uint32_t out = behind(g, k), in = behind(g, k + 1);
        step->send = (rf_place){ RF_SPACE_OUTPUT, rf_part_begin(count, n, out) };
        step->send_count = rf_part_begin(count, n, out + 1) - step->send.begin;
        step->receive = (rf_place){ RF_SPACE_OUTPUT, rf_part_begin(count, n, in) };
        step->receive_count = rf_part_begin(count, n, in + 1) - step->receive.begin;
        step->keeps = true;
    }
    if (n > 1) *source = RF_SPACE_OUTPUT;
    return RF_OK;
}

/* Begin of every rank's part, and the end. */
static uint64_t *part_begins(const uint64_t *counts, uint32_t n, uint64_t *largest)
{
    uint64_t *begins = RF_NEW_ARRAY(uint64_t, n + 1);
    if (!begins) return NULL;
    *largest = 0;
    for (uint32_t i = 0; i < n; i++) {
        begins[i + 1] = begins[i] + counts[i];
        if (counts[i] > *largest) *largest = counts[i];
    }
    return begins;
}

/* What is on its way is neither in the input, which is not ours to change, nor in the output, which has room for one
 * part: two parts of scratch take turns. */
rf_result rf_ring_reduce_scatter(rf_schedule *s, const rf_group *g, const uint64_t *counts)
{
    const uint32_t n = g->size;
    uint64_t largest;
    uint64_t *begins = part_begins(counts, n, &largest);
    if (!begins) return RF_ERROR_OUT_OF_HOST_MEMORY;
    rf_result r = RF_OK;
    for (uint32_t k = 0; k + 1 < n && r == RF_OK; k++) {
        rf_step *step = ring_step(s, g, k);
        if (!step) {
            r = RF_ERROR_OUT_OF_HOST_MEMORY;
            break;
        }
        const uint32_t out = behind(g, k + 1), in = behind(g, k + 2);
        step->send =
            k == 0 ? (rf_place){ RF_SPACE_INPUT, begins[out] } : (rf_place){ RF_SPACE_SCRATCH, (k - 1) % 2 * largest };
        step->send_count = counts[out];
        step->receive = k + 2 == n ? (rf_place){ RF_SPACE_OUTPUT, 0 } : (rf_place){ RF_SPACE_SCRATCH, k % 2 * largest };
        step->receive_count = counts[in];
        step->local = (rf_place){ RF_SPACE_INPUT, begins[in] };
        step->reduce = step->received_left = true;
    }
    s->scratch = n > 3 ? 2 * largest : n > 2 ? largest : 0;
    rf_free(begins);
    return r;
}

rf_result rf_ring_all_gather(rf_schedule *s, const rf_group *g, const uint64_t *counts)
{
    const uint32_t n = g->size;
    uint64_t largest;
    uint64_t *begins = part_begins(counts, n, &largest);
    if (!begins) return RF_ERROR_OUT_OF_HOST_MEMORY;
    s->copy_from = (rf_place){ RF_SPACE_INPUT, 0 };
    s->copy_to = (rf_place){ RF_SPACE_OUTPUT, begins[g->index] };
    s->copy_count = counts[g->index];
    rf_result r = RF_OK;
    for (uint32_t k = 0; k + 1 < n && r == RF_OK; k++) {
        rf_step *step = ring_step(s, g, k);
        if (!step) {
            r = RF_ERROR_OUT_OF_HOST_MEMORY;
            break;
        }
        const uint32_t out = behind(g, k), in = behind(g, k + 1);
        step->send = (rf_place){ RF_SPACE_OUTPUT, begins[out] };
        step->send_count = counts[out];
        step->receive = (rf_place){ RF_SPACE_OUTPUT, begins[in] };
        step->receive_count = counts[in];
        step->keeps = true;
    }
    rf_free(begins);
    return r;
}
