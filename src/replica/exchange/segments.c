/* SPDX-License-Identifier: Apache-2.0 */
#include "replica/exchange/segments.h"

/* ---- buckets ---- */

uint64_t rf_bucket_size(uint64_t wanted, uint64_t total)
{
    const uint64_t least = (1u << 20) / sizeof(float), most = (16u << 20) / sizeof(float);
    if (wanted > 0) return wanted;
    const uint64_t size = rf_div_up(total, 16);
    return size < least ? least : size > most ? most : size;
}

/* The backward pass finishes the gradients of late variables first, so buckets are filled from the end: the first
 * bucket can be on its way while the gradients of earlier layers are still computed. A bucket that is nearly empty (the
 * bias of a large matrix, say) takes one more variable whatever its size: a message of a few bytes costs more than it
 * is worth. */
rf_result rf_bucket_plan(const uint64_t *variable_counts, uint32_t num_variables, uint64_t bucket_elements,
                         rf_range **buckets, uint32_t *num_buckets)
{
    *num_buckets = 0;
    *buckets = RF_NEW_ARRAY(rf_range, num_variables);
    if (!*buckets) return RF_ERROR_OUT_OF_HOST_MEMORY;
    uint64_t end = 0;
    for (uint32_t i = 0; i < num_variables; i++) end += variable_counts[i];
    rf_range *open = NULL;
    for (uint32_t i = num_variables; i-- > 0;) {
        const uint64_t begin = end - variable_counts[i];
        const bool fits = open && open->end - begin <= bucket_elements;
        if (fits || (open && open->end - open->begin < bucket_elements / 8)) {
            open->begin = begin;
        } else {
            open = &(*buckets)[(*num_buckets)++];
            *open = (rf_range){ begin, end };
        }
        end = begin;
    }
    return RF_OK;
}

/* ---- segments ---- */

void rf_segment_list_free(rf_segment_list *segments)
{
    rf_free(segments->items);
    *segments = (rf_segment_list){ 0 };
}

static rf_result add_segment(rf_segment_list *segments, rf_segment segment)
{
    RF_TRY(RF_VEC_GROW(segments));
    segments->items[segments->count++] = segment;
    return RF_OK;
}

/* The last place up to `at` that a segment may begin at. */
static uint64_t block_border(const rf_update_plan_params *p, uint64_t at)
{
    for (uint32_t i = 0; p->block > 0 && i < p->num_spans; i++)
        if (p->spans[i].begin <= at && at < p->spans[i].end)
            return p->spans[i].begin + (at - p->spans[i].begin) / p->block * p->block;
    return at;
}

/* Gives `range` to `owner` in segments of at most max_segment elements, and a place in the owner's slots. */
static rf_result give_range(const rf_update_plan_params *p, rf_range range, uint32_t owner, uint32_t bucket,
                            rf_segment_list *segments, uint64_t *slot_counts)
{
    while (range.begin < range.end) {
        uint64_t length = range.end - range.begin;
        if (length > p->max_segment) length = block_border(p, range.begin + p->max_segment) - range.begin;
        const uint32_t first = owner == RF_OWNER_ALL ? 0 : owner;
        RF_TRY(add_segment(segments, (rf_segment){ .range = { range.begin, range.begin + length },
                                                   .slot_offset = slot_counts[first],
                                                   .owner = owner,
                                                   .bucket = bucket }));
        if (owner == RF_OWNER_ALL)
            for (uint32_t r = 0; r < p->num_replicas; r++) slot_counts[r] += length;
        else
            slot_counts[owner] += length;
        range.begin += length;
    }
    return RF_OK;
}

/* One run of adjacent spans: buckets from its end, each cut into one shard per owner. */
static rf_result share_run(const rf_update_plan_params *p, uint32_t first, uint32_t count, uint64_t *counts,
                           rf_range *shards, uint32_t *bucket, rf_segment_list *segments, uint64_t *slot_counts)
{
    for (uint32_t i = 0; i < count; i++) counts[i] = p->spans[first + i].end - p->spans[first + i].begin;
    rf_range *buckets;
    uint32_t num_buckets;
    RF_TRY(rf_bucket_plan(counts, count, p->bucket_elements, &buckets, &num_buckets));
    rf_result r = RF_OK;
    for (uint32_t b = 0; r >= 0 && b < num_buckets; b++, ++*bucket) {
        const uint64_t base = p->spans[first].begin + buckets[b].begin;
        const uint32_t owners = p->central || !p->sharded ? 1 : p->num_replicas;
        rf_shard_ranges(buckets[b].end - buckets[b].begin, p->granularity, owners, shards);
        for (uint32_t o = 0; r >= 0 && o < owners; o++)
            r = give_range(p,
                           (rf_range){ block_border(p, base + shards[o].begin), block_border(p, base + shards[o].end) },
                           p->sharded ? o : RF_OWNER_ALL, *bucket, segments, slot_counts);
    }
    rf_free(buckets);
    return r;
}

rf_result rf_update_plan_make(const rf_update_plan_params *p, rf_segment_list *segments, uint64_t *slot_counts)
{
    *segments = (rf_segment_list){ 0 };
    for (uint32_t r = 0; r < p->num_replicas; r++) slot_counts[r] = 0;
    uint64_t *counts = RF_NEW_ARRAY(uint64_t, p->num_spans);
    rf_range *shards = RF_NEW_ARRAY(rf_range, p->num_replicas);
    rf_result r = counts && shards ? RF_OK : RF_ERROR_OUT_OF_HOST_MEMORY;
    uint32_t bucket = 0;
    for (uint32_t end = p->num_spans; r >= 0 && end > 0;) {
        uint32_t first = end - 1;
        while (first > 0 && p->spans[first - 1].end == p->spans[first].begin) first--;
        const rf_range run = { p->spans[first].begin, p->spans[end - 1].end };
        if (p->num_replicas == 1)
            r = give_range(p, run, 0, bucket++, segments, slot_counts);
        else
            r = share_run(p, first, end - first, counts, shards, &bucket, segments, slot_counts);
        end = first;
    }
    rf_free(counts);
    rf_free(shards);
    if (r < 0) rf_segment_list_free(segments);
    return r;
}

bool rf_segment_clip(const rf_segment *segment, rf_range range, rf_segment *out)
{
    *out = *segment;
    if (range.begin > segment->range.begin) out->range.begin = range.begin;
    if (range.end < segment->range.end) out->range.end = range.end;
    out->slot_offset += out->range.begin - segment->range.begin;
    return out->range.begin < out->range.end;
}

rf_result rf_segments_restrict(const rf_segment_list *segments, const rf_range *spans, const uint32_t *hypers,
                               uint32_t num_spans, rf_segment_list *out)
{
    *out = (rf_segment_list){ 0 };
    for (uint32_t i = 0; i < segments->count; i++) {
        const rf_segment *segment = &segments->items[i];
        for (uint32_t s = 0; s < num_spans;) {
            /* A run of adjacent spans counts as one as long as they have the same numbers. */
            uint32_t last = s;
            while (last + 1 < num_spans && spans[last + 1].begin == spans[last].end && hypers[last + 1] == hypers[s])
                last++;
            rf_segment cut;
            const bool meet = rf_segment_clip(segment, (rf_range){ spans[s].begin, spans[last].end }, &cut);
            cut.hyper = hypers[s];
            const rf_result r = meet ? add_segment(out, cut) : RF_OK;
            if (r < 0) {
                rf_segment_list_free(out);
                return r;
            }
            s = last + 1;
        }
    }
    return RF_OK;
}
