/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Assigns bytes of the slab to intermediates. Values that share bytes (views, in-place results) form one block. Blocks
 * are laid out twice, by size and in order of time, and the smaller slab is used.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "graph/internal.h"

/* Laying out by size compares each block with every other: beyond this many, only the layout over time is tried. */
enum { BY_SIZE_LIMIT = 32768 };

/* Values that share bytes are represented by the one that is made first, their owner. */
typedef struct owner {
    rf_value merged; /* != 0: the bytes are those of this other owner (made in-place) */
    bool elsewhere;  /* the caller has a place for it, outside of the slab */
    uint32_t last;   /* last node that touches the bytes; the number of nodes for what must survive the run */
    uint32_t before; /* the last one that does so before it */
} owner;

typedef struct block {
    uint64_t size, offset;
    uint32_t first, last; /* nodes, inclusive */
    rf_node node;         /* that makes it */
    rf_value owner;       /* 0: workspace of the node */
} block;

typedef struct planner {
    const rf_graph *graph;
    const rf_memory_plan_params *params;
    uint64_t segment; /* UINT64_MAX: the slab is one */
    owner *owners;    /* per value */
    struct {
        block *items;
        uint32_t count, capacity;
    } blocks;
    rf_memory_plan *plan;
} planner;

static const rf_value_info *value_info(const planner *p, rf_value v)
{
    return &p->graph->values.items[v];
}
static uint64_t value_bytes(const planner *p, rf_value v)
{
    return rf_tensor_bytes(rf_graph_desc(p->graph, v));
}
static bool is_live_result(const planner *p, rf_value v)
{
    return value_info(p, v)->kind == RF_VALUE_RESULT && !p->graph->nodes.items[value_info(p, v)->producer].dead;
}
static bool is_external(const planner *p, rf_value v)
{
    return p->params->external && p->params->external[v];
}

static rf_value owner_of(const planner *p, rf_value v)
{
    const rf_value storage = value_info(p, v)->storage;
    return p->owners[storage].merged ? p->owners[storage].merged : storage;
}

/* The kernel of the node reads the input's bytes. A view has no kernel: who reads the view reads the bytes. */
static bool kernel_reads(const rf_node_info *node, uint32_t i)
{
    return !(node->op->flags & RF_OP_VIEW) && rf_op_reads(node->op, i);
}

/* ---- lifetimes ---- */

static uint32_t runs_from(const planner *p, uint32_t n)
{
    return p->params->spans ? p->params->spans[n].first : n;
}
static uint32_t runs_until(const planner *p, uint32_t n)
{
    return p->params->spans && n < p->graph->nodes.count ? p->params->spans[n].last : n;
}

static void owner_touch(owner *o, uint32_t n)
{
    if (o->last == n) return;
    o->before = o->last;
    o->last = n;
}

static void find_lifetimes(planner *p)
{
    const rf_graph *graph = p->graph;
    const rf_graph_roots *roots = &p->params->roots;
    for (uint32_t n = 0; n < graph->nodes.count; n++) {
        const rf_node_info *node = &graph->nodes.items[n];
        if (node->dead) continue;
        for (uint32_t i = 0; i < node->n_out; i++) {
            if (value_info(p, node->out[i])->storage != node->out[i]) continue;
            p->owners[node->out[i]].last = p->owners[node->out[i]].before = n;
            p->owners[node->out[i]].elsewhere = is_external(p, node->out[i]);
        }
        for (uint32_t i = 0; i < node->n_in; i++) {
            if (kernel_reads(node, i)) owner_touch(&p->owners[value_info(p, node->in[i])->storage], n);
        }
    }
    for (uint32_t i = 0; i < roots->num_results; i++) {
        p->owners[value_info(p, roots->results[i])->storage].last = graph->nodes.count;
    }
}

/* Input i dies at node n and leaves bytes that fit the node's output 0. */
static bool can_take_over(const planner *p, rf_node n, uint32_t i)
{
    const rf_node_info *node = &p->graph->nodes.items[n];
    const rf_value from = owner_of(p, node->in[i]);
    const owner *o = &p->owners[from];
    if (!kernel_reads(node, i) || !is_live_result(p, from) || o->elsewhere || o->last != n) return false;
    if (value_bytes(p, from) != value_bytes(p, node->out[0])) return false;
    if (o->before != n && o->before >= runs_from(p, n)) return false; /* may not have read it yet */
    /* Another input with the same bytes could be read at other places than those just written. */
    for (uint32_t j = 0; j < node->n_in; j++) {
        if (j != i && kernel_reads(node, j) && owner_of(p, node->in[j]) == from) return false;
    }
    return true;
}

static void merge_in_place(planner *p)
{
    for (uint32_t n = 0; n < p->graph->nodes.count; n++) {
        const rf_node_info *node = &p->graph->nodes.items[n];
        if (node->dead || !(node->op->flags & RF_OP_INPLACE) || (node->op->flags & RF_OP_VIEW) || node->n_out == 0)
            continue;
        owner *made = &p->owners[node->out[0]];
        for (uint32_t i = 0; i < node->n_in && !made->elsewhere && !made->merged; i++) {
            if (!can_take_over(p, n, i)) continue;
            made->merged = owner_of(p, node->in[i]);
            p->owners[made->merged].last = made->last;
            p->owners[made->merged].before = made->before;
        }
    }
}

static rf_result add_block(planner *p, uint64_t size, uint32_t first, uint32_t last, rf_value of)
{
    const uint64_t alignment = p->params->alignment;
    if (size == 0) return RF_OK;
    if (size > UINT64_MAX - alignment)
        return RF_FAIL(RF_ERROR_INVALID_ARGUMENT, "memory plan: a size is beyond 2^64 bytes");
    if (rf_align_up(size, alignment) > p->segment)
        return RF_FAIL(RF_ERROR_OUT_OF_DEVICE_MEMORY,
                       "%s needs %" PRIu64 " bytes in one piece, and the device allocates no more than %" PRIu64
                       " at once; use a smaller batch",
                       p->graph->nodes.items[first].op->name, size, p->segment);
    RF_TRY(RF_VEC_GROW(&p->blocks));
    p->blocks.items[p->blocks.count++] = (block){ .size = rf_align_up(size, alignment),
                                                  .first = runs_from(p, first),
                                                  .last = runs_until(p, last),
                                                  .node = first,
                                                  .owner = of };
    return RF_OK;
}

static rf_result list_blocks(planner *p)
{
    const rf_graph *graph = p->graph;
    uint64_t naive = 0;
    for (uint32_t n = 0; n < graph->nodes.count; n++) {
        const rf_node_info *node = &graph->nodes.items[n];
        if (node->dead) continue;
        const uint32_t before = p->blocks.count;
        for (uint32_t i = 0; i < node->n_out; i++) {
            const rf_value v = node->out[i];
            const owner *o = &p->owners[v];
            if (value_info(p, v)->storage != v || o->elsewhere) continue;
            if (o->merged)
                naive += rf_align_up(value_bytes(p, v), p->params->alignment);
            else
                RF_TRY(add_block(p, value_bytes(p, v), n, o->last, v));
        }
        if (p->params->workspace_size) RF_TRY(add_block(p, p->params->workspace_size[n], n, n, 0));
        for (uint32_t b = before; b < p->blocks.count; b++) {
            const uint64_t size = p->blocks.items[b].size;
            if (naive > UINT64_MAX - size)
                return RF_FAIL(RF_ERROR_INVALID_ARGUMENT, "memory plan: more than 2^64 bytes");
            naive += size;
        }
    }
    p->plan->naive_size = naive;
    return RF_OK;
}

/* ---- segments ---- */

/* The first place from `offset` on where so many bytes lie within one segment. */
static uint64_t within_segment(uint64_t offset, uint64_t size, uint64_t segment)
{
    const uint64_t left = segment - offset % segment;
    return size <= left ? offset : offset + left;
}

/* ---- layout by size ---- */

static int larger_first(const void *a, const void *b)
{
    const block *x = a, *y = b;
    if (x->size != y->size) return x->size > y->size ? -1 : 1;
    if (x->first != y->first) return x->first < y->first ? -1 : 1;
    if (x->node != y->node) return x->node < y->node ? -1 : 1;
    return x->owner < y->owner ? -1 : x->owner > y->owner;
}

/* Largest first, each into the smallest gap between those placed so far that live at the same time: "greedy by size" of
 * Pisarchyk & Lee, "Efficient Memory Management for Deep Neural Net Inference", 2020. Sorts the blocks. */
static rf_result lay_out_by_size(block *blocks, uint32_t count, uint64_t segment, uint64_t *slab)
{
    uint32_t *placed = RF_NEW_ARRAY(uint32_t, count); /* sorted by offset */
    if (!placed) return RF_ERROR_OUT_OF_HOST_MEMORY;
    qsort(blocks, count, sizeof(*blocks), larger_first);
    *slab = 0;
    for (uint32_t b = 0; b < count; b++) {
        block *now = &blocks[b];
        uint64_t end = 0, best = UINT64_MAX, best_gap = UINT64_MAX;
        for (uint32_t i = 0; i < b; i++) {
            const block *other = &blocks[placed[i]];
            if (other->last < now->first || other->first > now->last) continue;
            const uint64_t start = within_segment(end, now->size, segment);
            if (other->offset >= start && other->offset - start >= now->size && other->offset - end < best_gap) {
                best = start;
                best_gap = other->offset - end;
            }
            if (other->offset + other->size > end) end = other->offset + other->size;
        }
        now->offset = best != UINT64_MAX ? best : within_segment(end, now->size, segment);
        if (now->offset + now->size > *slab) *slab = now->offset + now->size;
        uint32_t low = 0, high = b;
        while (low < high) {
            const uint32_t middle = low + (high - low) / 2;
            if (blocks[placed[middle]].offset <= now->offset)
                low = middle + 1;
            else
                high = middle;
        }
        memmove(placed + low + 1, placed + low, (b - low) * sizeof(*placed));
        placed[low] = b;
    }
    rf_free(placed);
    return RF_OK;
}

/* ---- layout over time ---- */

typedef struct gap {
    uint64_t offset, size;
} gap;
typedef struct gap_list {
    gap *items; /* sorted by offset, never touching */
    uint32_t count, capacity;
    uint64_t end; /* of the slab */
} gap_list;

static int earlier_first(const void *a, const void *b)
{
    const block *x = a, *y = b;
    if (x->first != y->first) return x->first < y->first ? -1 : 1;
    return larger_first(a, b);
}

static rf_result gap_release(gap_list *gaps, uint64_t offset, uint64_t size)
{
    RF_TRY(RF_VEC_GROW(gaps));
    uint32_t low = 0, high = gaps->count;
    while (low < high) {
        const uint32_t middle = low + (high - low) / 2;
        if (gaps->items[middle].offset < offset)
            low = middle + 1;
        else
            high = middle;
    }
    gap *at = gaps->items + low;
    const bool joins_left = low > 0 && at[-1].offset + at[-1].size == offset;
    const bool joins_right = low < gaps->count && offset + size == at->offset;
    if (joins_left && joins_right) {
        at[-1].size += size + at->size;
        memmove(at, at + 1, (gaps->count - low - 1) * sizeof(*at));
        gaps->count--;
    } else if (joins_left) {
        at[-1].size += size;
    } else if (joins_right) {
        at->offset = offset;
        at->size += size;
    } else {
        memmove(at + 1, at, (gaps->count - low) * sizeof(*at));
        *at = (gap){ offset, size };
        gaps->count++;
    }
    return RF_OK;
}

/* Takes bytes out of a gap that they fit into. */
static rf_result gap_cut(gap_list *gaps, gap *from, uint64_t offset, uint64_t size)
{
    const uint64_t before = offset - from->offset, after = from->size - before - size;
    if (before > 0) {
        from->size = before;
        return after > 0 ? gap_release(gaps, offset + size, after) : RF_OK;
    }
    from->offset += size;
    from->size = after;
    if (after > 0) return RF_OK;
    gaps->count--;
    memmove(from, from + 1, (size_t)(gaps->items + gaps->count - from) * sizeof(*from));
    return RF_OK;
}

static rf_result gap_take(gap_list *gaps, uint64_t size, uint64_t segment, uint64_t *out)
{
    gap *best = NULL;
    for (uint32_t i = 0; i < gaps->count; i++) {
        gap *g = &gaps->items[i];
        const uint64_t skipped = within_segment(g->offset, size, segment) - g->offset;
        if (g->size >= skipped && g->size - skipped >= size && (!best || g->size < best->size)) best = g;
    }
    if (best) {
        *out = within_segment(best->offset, size, segment);
        return gap_cut(gaps, best, *out, size);
    }
    /* A gap at the end of the slab grows to what is needed. */
    uint64_t begin = gaps->end;
    const gap *tail = gaps->count ? &gaps->items[gaps->count - 1] : NULL;
    if (tail && tail->offset + tail->size == gaps->end) {
        begin = tail->offset;
        gaps->count--;
    }
    *out = within_segment(begin, size, segment);
    gaps->end = *out + size;
    return *out > begin ? gap_release(gaps, begin, *out - begin) : RF_OK;
}

typedef struct ending {
    uint32_t last, block;
} ending;

static int ends_first(const void *a, const void *b)
{
    const ending *x = a, *y = b;
    if (x->last != y->last) return x->last < y->last ? -1 : 1;
    return x->block < y->block ? -1 : x->block > y->block;
}

/* Plays an allocator over the order of nodes: best fit among the gaps; the slab grows when nothing fits. *peak is what
 * lives at once at most: no layout needs less. Sorts the blocks. */
static rf_result lay_out_over_time(block *blocks, uint32_t count, uint64_t segment, uint64_t *slab, uint64_t *peak)
{
    ending *endings = RF_NEW_ARRAY(ending, count);
    if (!endings) return RF_ERROR_OUT_OF_HOST_MEMORY;
    qsort(blocks, count, sizeof(*blocks), earlier_first);
    for (uint32_t b = 0; b < count; b++) endings[b] = (ending){ blocks[b].last, b };
    qsort(endings, count, sizeof(*endings), ends_first);
    gap_list gaps = { 0 };
    rf_result r = RF_OK;
    uint32_t ended = 0;
    uint64_t live = 0;
    *peak = 0;
    for (uint32_t b = 0; b < count && r >= 0; b++) {
        for (; r >= 0 && endings[ended].last < blocks[b].first; ended++) {
            const block *dead = &blocks[endings[ended].block];
            r = gap_release(&gaps, dead->offset, dead->size);
            live -= dead->size;
        }
        if (r >= 0) r = gap_take(&gaps, blocks[b].size, segment, &blocks[b].offset);
        live += blocks[b].size;
        if (live > *peak) *peak = live;
    }
    *slab = gaps.end;
    rf_free(gaps.items);
    rf_free(endings);
    return r;
}

static rf_result lay_out(planner *p)
{
    const uint32_t count = p->blocks.count;
    uint64_t slab = 0, peak = 0;
    if (count > 0) RF_TRY(lay_out_over_time(p->blocks.items, count, p->segment, &slab, &peak));
    p->plan->slab_size = slab;
    if (slab - peak <= peak / 64 || count > BY_SIZE_LIMIT) return RF_OK; /* little is left to gain, or it takes long */
    block *other = RF_NEW_ARRAY(block, count);
    if (!other) return RF_ERROR_OUT_OF_HOST_MEMORY;
    memcpy(other, p->blocks.items, count * sizeof(*other));
    const rf_result r = lay_out_by_size(other, count, p->segment, &slab);
    if (r >= 0 && slab < p->plan->slab_size) {
        memcpy(p->blocks.items, other, count * sizeof(*other));
        p->plan->slab_size = slab;
    }
    rf_free(other);
    return r;
}

/* ---- the plan ---- */

static void fill_in(planner *p)
{
    rf_placement *placements = p->plan->placements;
    for (uint32_t b = 0; b < p->blocks.count; b++) {
        const block *at = &p->blocks.items[b];
        if (at->owner)
            placements[at->owner].offset = at->offset;
        else
            p->plan->workspace_offset[at->node] = at->offset;
    }
    for (uint32_t v = 1; v < p->graph->values.count; v++) {
        if (!is_live_result(p, v)) continue;
        const rf_value from = owner_of(p, v);
        placements[v].size = value_bytes(p, v);
        placements[v].alias_of = from == v ? 0 : from;
        placements[v].planned = !p->owners[from].elsewhere && is_live_result(p, from) && !is_external(p, v);
        if (placements[v].planned) placements[v].offset = placements[from].offset;
    }
}

static rf_result plan_make(planner *p)
{
    const rf_graph *graph = p->graph;
    p->owners = RF_NEW_ARRAY(owner, graph->values.count);
    p->plan->placements = RF_NEW_ARRAY(rf_placement, graph->values.count);
    p->plan->workspace_offset = RF_NEW_ARRAY(uint64_t, graph->nodes.count);
    if (!p->owners || !p->plan->placements || !p->plan->workspace_offset) return RF_ERROR_OUT_OF_HOST_MEMORY;
    find_lifetimes(p);
    merge_in_place(p);
    RF_TRY(list_blocks(p));
    RF_TRY(lay_out(p));
    fill_in(p);
    return RF_OK;
}

rf_result rf_memory_plan_make(const rf_graph *graph, const rf_memory_plan_params *params, rf_memory_plan *out)
{
    *out = (rf_memory_plan){ 0 };
    RF_REQUIRE(params->alignment > 0 && params->segment % params->alignment == 0,
               "memory plan: the alignment is 0, or segments are no multiple of it");
    RF_TRY(rf_graph_check_values(graph, "roots", params->roots.results, params->roots.num_results));
    planner p = {
        .graph = graph, .params = params, .segment = params->segment ? params->segment : UINT64_MAX, .plan = out
    };
    const rf_result r = plan_make(&p);
    rf_free(p.owners);
    rf_free(p.blocks.items);
    if (r < 0) rf_memory_plan_free(out);
    return r;
}

void rf_memory_plan_free(rf_memory_plan *plan)
{
    if (!plan) return;
    rf_free(plan->placements);
    rf_free(plan->workspace_offset);
    *plan = (rf_memory_plan){ 0 };
}
