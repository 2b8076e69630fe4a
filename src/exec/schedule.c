/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The order in which nodes run. A barrier makes the device drain, so nodes that do not touch what others since the last
 * barrier wrote come first, and independent branches share the time between two barriers. Where that would keep more
 * memory alive, nodes are moved less far.
 */
#include <string.h>

#include "exec/internal.h"

/* How far ahead of the first node that waits another one may run: tried from left to right. 1: the order as it is. */
static const uint32_t windows[] = { UINT32_MAX, 32, 8, 1 };
/* The memory that may live at once beyond that of the graph's own order, beside what can be spared: a thirty-second. */
enum { PEAK_SHARE = 32 };

/* A state's reads since it was last updated, each a link to the one before. */
typedef struct reader {
    rf_node node;
    uint32_t previous; /* 1 + its number, 0: none */
} reader;
typedef struct edge {
    rf_node from, to;
} edge;

typedef struct scheduler {
    const rf_order_params *params;
    struct {
        edge *items;
        uint32_t count, capacity;
    } edges;
    uint32_t *first; /* [nodes + 1]: of each node's followers in `followers` */
    rf_node *followers;
    uint32_t *waits_for; /* [nodes]: nodes that have to run before it and have not */
    rf_node *ready;      /* that wait for nothing, ascending */
    uint32_t num_ready;
    bool *done;
    uint32_t *written, *read; /* [values]: 1 + the interval in which the bytes were last written, read */
    uint32_t interval;
} scheduler;

/* ---- who has to come before whom ---- */

static const rf_node_info *node_of(const scheduler *s, rf_node n)
{
    return &s->params->graph->nodes.items[n];
}
static rf_value storage_of(const scheduler *s, rf_value v)
{
    return s->params->graph->values.items[v].storage;
}
static bool reads_bytes(const rf_node_info *node, uint32_t i)
{
    return !(node->op->shape_only >> i & 1);
}
static bool input_updates(const rf_node_info *node, uint32_t i)
{
    return node->op->mutates >> i & 1;
}

static rf_result add_edge(scheduler *s, rf_node from, rf_node to)
{
    if (from == to) return RF_OK;
    RF_TRY(RF_VEC_GROW(&s->edges));
    s->edges.items[s->edges.count++] = (edge){ from, to };
    return RF_OK;
}

/* Each node after those that make what it reads. */
static rf_result follow_inputs(scheduler *s)
{
    const rf_graph *g = s->params->graph;
    for (rf_node n = 0; n < g->nodes.count; n++) {
        const rf_node_info *node = node_of(s, n);
        for (uint32_t i = 0; !node->dead && i < node->n_in; i++) {
            const rf_value_info *value = &g->values.items[node->in[i]];
            if (value->kind == RF_VALUE_RESULT) RF_TRY(add_edge(s, value->producer, n));
        }
    }
    return RF_OK;
}

/* Updates in place after what reads the contents before, and before what reads them after. `last_update` and
 * `last_read` of each value: 1 + a node, 1 + an entry of `readers`; 0: none. */
static rf_result follow_updates(scheduler *s, uint32_t *last_update, uint32_t *last_read, reader *readers)
{
    const rf_graph *g = s->params->graph;
    uint32_t count = 0;
    for (rf_node n = 0; n < g->nodes.count; n++) {
        const rf_node_info *node = node_of(s, n);
        for (uint32_t i = 0; !node->dead && i < node->n_in; i++) {
            const rf_value at = storage_of(s, node->in[i]);
            if (!reads_bytes(node, i) || (node->op->flags & RF_OP_VIEW)) continue;
            if (last_update[at]) RF_TRY(add_edge(s, last_update[at] - 1, n));
            if (!input_updates(node, i)) {
                readers[count] = (reader){ n, last_read[at] };
                last_read[at] = ++count;
            }
        }
        for (uint32_t i = 0; !node->dead && i < node->n_in; i++) {
            const rf_value at = storage_of(s, node->in[i]);
            if (!input_updates(node, i)) continue;
            for (uint32_t r = last_read[at]; r; r = readers[r - 1].previous)
                RF_TRY(add_edge(s, readers[r - 1].node, n));
            last_read[at] = 0;
            last_update[at] = n + 1;
        }
    }
    return RF_OK;
}

static rf_result find_edges(scheduler *s)
{
    const rf_graph *g = s->params->graph;
    uint32_t *last_update = RF_NEW_ARRAY(uint32_t, g->values.count);
    uint32_t *last_read = RF_NEW_ARRAY(uint32_t, g->values.count);
    reader *readers = RF_NEW_ARRAY(reader, (size_t)g->nodes.count * RF_MAX_INPUTS);
    rf_result r = last_update && last_read && readers ? follow_inputs(s) : RF_ERROR_OUT_OF_HOST_MEMORY;
    if (r >= 0) r = follow_updates(s, last_update, last_read, readers);
    rf_free(last_update);
    rf_free(last_read);
    rf_free(readers);
    RF_TRY(r);
    s->first = RF_NEW_ARRAY(uint32_t, g->nodes.count + 2);
    s->followers = RF_NEW_ARRAY(rf_node, s->edges.count);
    if (!s->first || !s->followers) return RF_ERROR_OUT_OF_HOST_MEMORY;
    for (uint32_t e = 0; e < s->edges.count; e++) s->first[s->edges.items[e].from + 2]++;
    for (rf_node n = 0; n < g->nodes.count; n++) s->first[n + 2] += s->first[n + 1];
    for (uint32_t e = 0; e < s->edges.count; e++)
        s->followers[s->first[s->edges.items[e].from + 1]++] = s->edges.items[e].to;
    return RF_OK;
}

/* ---- what needs a barrier ---- */

static bool node_runs(const scheduler *s, rf_node n)
{
    return !node_of(s, n)->dead && s->params->dispatches[n] > 0;
}

/* Reads or writes what was written since the last barrier, or writes what was read. */
static bool node_conflicts(const scheduler *s, rf_node n)
{
    const rf_node_info *node = node_of(s, n);
    const uint32_t now = s->interval + 1;
    for (uint32_t i = 0; i < node->n_in; i++) {
        const rf_value at = storage_of(s, node->in[i]);
        if (!reads_bytes(node, i)) continue;
        if (s->written[at] == now || (input_updates(node, i) && s->read[at] == now)) return true;
    }
    return false;
}

/* The node runs in this interval, or begins in it: the dispatches of one node follow each other. */
static void node_run(scheduler *s, rf_node n)
{
    const rf_node_info *node = node_of(s, n);
    s->interval += s->params->dispatches[n] - 1;
    for (uint32_t i = 0; i < node->n_in; i++) {
        const rf_value at = storage_of(s, node->in[i]);
        if (!reads_bytes(node, i)) continue;
        if (input_updates(node, i))
            s->written[at] = s->interval + 1;
        else
            s->read[at] = s->interval + 1;
    }
    for (uint32_t i = 0; i < node->n_out; i++) s->written[node->out[i]] = s->interval + 1;
}

/* ---- the order ---- */

static void insert_ready(scheduler *s, rf_node n)
{
    uint32_t at = s->num_ready++;
    for (; at > 0 && s->ready[at - 1] > n; at--) s->ready[at] = s->ready[at - 1];
    s->ready[at] = n;
}

static void scheduler_start(scheduler *s)
{
    const rf_graph *g = s->params->graph;
    s->interval = 0;
    s->num_ready = 0;
    memset(s->written, 0, g->values.count * sizeof(*s->written));
    memset(s->read, 0, g->values.count * sizeof(*s->read));
    memset(s->waits_for, 0, g->nodes.count * sizeof(*s->waits_for));
    memset(s->done, 0, g->nodes.count * sizeof(*s->done));
    for (uint32_t e = 0; e < s->edges.count; e++) s->waits_for[s->edges.items[e].to]++;
    for (rf_node n = 0; n < g->nodes.count; n++)
        if (s->waits_for[n] == 0) insert_ready(s, n);
}

/* Place in `ready` of the node that runs next. `oldest` is the first of all that wait. */
static uint32_t node_pick(const scheduler *s, rf_node oldest, uint32_t window)
{
    const uint32_t *segment = s->params->segment;
    /* Dispatches with barriers between them: such a node comes last, the longest one first, which others then share
     * barriers with. */
    uint32_t several = s->num_ready;
    for (uint32_t i = 0; i < s->num_ready; i++) {
        const rf_node n = s->ready[i];
        if (n - oldest >= window || segment[n] != segment[oldest]) break;
        if (!node_runs(s, n)) return i;
        if (node_conflicts(s, n)) continue;
        if (s->params->dispatches[n] == 1) return i;
        if (several == s->num_ready || s->params->dispatches[n] > s->params->dispatches[s->ready[several]]) several = i;
    }
    return several;
}

static void make_order(scheduler *s, uint32_t window, rf_node *order)
{
    const uint32_t count = s->params->graph->nodes.count;
    rf_node oldest = 0;
    scheduler_start(s);
    for (uint32_t k = 0; k < count; k++) {
        while (s->done[oldest]) oldest++;
        uint32_t at = node_pick(s, oldest, window);
        if (at == s->num_ready) {
            s->interval++;
            at = node_pick(s, oldest, window); /* the oldest one waits for nothing but the barrier */
        }
        const rf_node n = s->ready[at];
        s->num_ready--;
        memmove(s->ready + at, s->ready + at + 1, (s->num_ready - at) * sizeof(*s->ready));
        if (node_runs(s, n)) node_run(s, n);
        s->done[n] = true;
        order[k] = n;
        for (uint32_t f = s->first[n]; f < s->first[n + 1]; f++)
            if (--s->waits_for[s->followers[f]] == 0) insert_ready(s, s->followers[f]);
    }
}

/* ---- what it takes ---- */

/* Bytes of results that the node is the last to read; of one of the size of its result if it works in place. */
static uint64_t bytes_freed(const rf_graph *g, const rf_node_info *node, uint32_t k, uint32_t *last, bool in_place)
{
    const uint64_t wanted = in_place && node->n_out > 0 ? rf_tensor_bytes(rf_graph_desc(g, node->out[0])) : 0;
    uint64_t sum = 0;
    for (uint32_t i = 0; i < node->n_in && !(in_place && sum > 0); i++) {
        const rf_value at = g->values.items[node->in[i]].storage;
        const uint64_t size = rf_tensor_bytes(rf_graph_desc(g, at));
        if (g->values.items[at].kind != RF_VALUE_RESULT || last[at] != k || (in_place && size != wanted)) continue;
        sum += size;
        last[at] = UINT32_MAX; /* once */
    }
    return sum;
}

/* The most bytes of results that live at once. last: [values]. */
static uint64_t order_peak(const rf_order_params *params, const rf_node *order, uint32_t *last)
{
    const rf_graph *g = params->graph;
    memset(last, 0, g->values.count * sizeof(*last));
    for (uint32_t k = 0; k < g->nodes.count; k++) {
        const rf_node_info *node = &g->nodes.items[order[k]];
        for (uint32_t i = 0; !node->dead && i < node->n_out; i++) last[node->out[i]] = k;
        for (uint32_t i = 0; !node->dead && i < node->n_in; i++)
            if (reads_bytes(node, i)) last[g->values.items[node->in[i]].storage] = k;
    }
    for (uint32_t i = 0; i < params->roots.num_results; i++)
        last[g->values.items[params->roots.results[i]].storage] = UINT32_MAX;
    uint64_t live = 0, most = 0;
    for (uint32_t k = 0; k < g->nodes.count; k++) {
        const rf_node_info *node = &g->nodes.items[order[k]];
        if (node->dead) continue;
        if (node->op->flags & RF_OP_INPLACE) live -= bytes_freed(g, node, k, last, true);
        for (uint32_t i = 0; i < node->n_out; i++)
            if (g->values.items[node->out[i]].storage == node->out[i])
                live += rf_tensor_bytes(rf_graph_desc(g, node->out[i]));
        if (live > most) most = live;
        live -= bytes_freed(g, node, k, last, false);
        for (uint32_t i = 0; i < node->n_out; i++)
            if (last[node->out[i]] == k && g->values.items[node->out[i]].storage == node->out[i])
                live -= rf_tensor_bytes(rf_graph_desc(g, node->out[i])); /* nobody reads it */
    }
    return most;
}

static rf_result nodes_schedule(scheduler *s, rf_node *order)
{
    const rf_graph *g = s->params->graph;
    s->waits_for = RF_NEW_ARRAY(uint32_t, g->nodes.count);
    s->ready = RF_NEW_ARRAY(rf_node, g->nodes.count);
    s->done = RF_NEW_ARRAY(bool, g->nodes.count + 1);
    s->written = RF_NEW_ARRAY(uint32_t, g->values.count);
    s->read = RF_NEW_ARRAY(uint32_t, g->values.count);
    if (!s->waits_for || !s->ready || !s->done || !s->written || !s->read) return RF_ERROR_OUT_OF_HOST_MEMORY;
    RF_TRY(find_edges(s));
    for (rf_node n = 0; n < g->nodes.count; n++) order[n] = n;
    const uint64_t own = order_peak(s->params, order, s->written);
    for (uint32_t w = 0; w < sizeof(windows) / sizeof(*windows); w++) {
        make_order(s, windows[w], order);
        if (order_peak(s->params, order, s->written) <= own + own / PEAK_SHARE + s->params->spare) break;
    }
    return RF_OK;
}

rf_result rf_order_nodes(const rf_order_params *params, rf_node *order)
{
    scheduler s = { .params = params };
    const rf_result r = nodes_schedule(&s, order);
    rf_free(s.edges.items);
    rf_free(s.first);
    rf_free(s.followers);
    rf_free(s.waits_for);
    rf_free(s.ready);
    rf_free(s.done);
    rf_free(s.written);
    rf_free(s.read);
    return r;
}

/* ---- what runs beside what ---- */

/* Into begins and ends: the intervals in which a node runs; others run where those before them do. */
static void find_intervals(scheduler *s, uint32_t *begins, uint32_t *ends)
{
    for (rf_node n = 0; n < s->params->graph->nodes.count; n++) {
        begins[n] = ends[n] = s->interval;
        if (!node_runs(s, n)) continue;
        if (node_conflicts(s, n)) s->interval++;
        begins[n] = s->interval;
        node_run(s, n);
        ends[n] = s->interval;
    }
}

rf_result rf_order_spans(const rf_order_params *params, rf_node_span *spans)
{
    const uint32_t count = params->graph->nodes.count;
    scheduler s = { .params = params,
                    .written = RF_NEW_ARRAY(uint32_t, params->graph->values.count),
                    .read = RF_NEW_ARRAY(uint32_t, params->graph->values.count) };
    uint32_t *begins = RF_NEW_ARRAY(uint32_t, count), *ends = RF_NEW_ARRAY(uint32_t, count);
    const rf_result r = s.written && s.read && begins && ends ? RF_OK : RF_ERROR_OUT_OF_HOST_MEMORY;
    if (r >= 0) {
        find_intervals(&s, begins, ends);
        for (rf_node n = 0, first = 0; n < count; n++) {
            while (ends[first] < begins[n]) first++;
            spans[n].first = first;
        }
        for (rf_node n = count, last = count; n-- > 0;) {
            while (begins[last - 1] > ends[n]) last--;
            spans[n].last = last - 1;
        }
    }
    rf_free(s.written);
    rf_free(s.read);
    rf_free(begins);
    rf_free(ends);
    return r;
}
