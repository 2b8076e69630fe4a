/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Dead-code removal and fusion. A fused node takes the place of one of the two nodes it stands for, and the values that
 * stay keep their numbers, so that neither roots nor the order of nodes need fixing afterwards.
 */
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "graph/batch_dims.h"
#include "graph/internal.h"

/* A value with thousands of readers is not searched for fusable pairs beyond this many neighbours of each reader. */
enum { SIBLING_WINDOW = 16 };

/* ---- dead code ---- */

static rf_result remove_dead(rf_graph *graph, const rf_graph_roots *roots)
{
    bool *needed = RF_NEW_ARRAY(bool, graph->values.count);
    if (!needed) return RF_ERROR_OUT_OF_HOST_MEMORY;
    for (uint32_t i = 0; i < roots->num_results; i++) needed[roots->results[i]] = true;
    for (uint32_t n = graph->nodes.count; n-- > 0;) {
        const rf_node_info *node = &graph->nodes.items[n];
        if (node->dead) continue;
        bool live = node->op->mutates != 0;
        for (uint32_t i = 0; i < node->n_out; i++) live = live || needed[node->out[i]];
        if (live) {
            for (uint32_t i = 0; i < node->n_in; i++) needed[node->in[i]] = true;
        } else {
            rf_graph_remove_node(graph, n);
        }
    }
    rf_free(needed);
    return RF_OK;
}

/* ---- who reads what, kept up to date while nodes are replaced ---- */

/* A read is numbered node * RF_MAX_INPUTS + input + 1; 0 is none. The reads of a value form a list. */
typedef struct read_link {
    uint32_t previous, next;
} read_link;
typedef struct read_list {
    uint32_t head, tail;
    bool root;
} read_list;
typedef struct mutation {
    rf_value state;
    rf_node node;
} mutation;

typedef struct rewriter {
    rf_graph *graph;
    struct {
        read_list *items;
        uint32_t count, capacity;
    } values;
    read_link *links;
    mutation *mutations; /* sorted */
    uint32_t num_mutations;
    rf_node *queue; /* ring of nodes to look at (again); a node stands in it at most once */
    bool *queued;
    uint32_t queue_head, queue_count;
    uint32_t fusions; /* made so far */
} rewriter;

static rf_node read_node(uint32_t read)
{
    return (read - 1) / RF_MAX_INPUTS;
}
static uint32_t read_input(uint32_t read)
{
    return (read - 1) % RF_MAX_INPUTS;
}
static uint32_t read_of(rf_node node, uint32_t input)
{
    return node * RF_MAX_INPUTS + input + 1;
}

static void link_reads(rewriter *rw, rf_node n)
{
    const rf_node_info *node = &rw->graph->nodes.items[n];
    for (uint32_t i = 0; i < node->n_in; i++) {
        read_list *list = &rw->values.items[node->in[i]];
        const uint32_t read = read_of(n, i);
        rw->links[read] = (read_link){ list->tail, 0 };
        if (list->tail)
            rw->links[list->tail].next = read;
        else
            list->head = read;
        list->tail = read;
    }
}

static void unlink_reads(rewriter *rw, rf_node n)
{
    const rf_node_info *node = &rw->graph->nodes.items[n];
    for (uint32_t i = 0; i < node->n_in; i++) {
        read_list *list = &rw->values.items[node->in[i]];
        const read_link link = rw->links[read_of(n, i)];
        if (link.previous)
            rw->links[link.previous].next = link.next;
        else
            list->head = link.next;
        if (link.next)
            rw->links[link.next].previous = link.previous;
        else
            list->tail = link.previous;
    }
}

static void node_enqueue(rewriter *rw, rf_node n)
{
    if (rw->queued[n] || rw->graph->nodes.items[n].dead) return;
    rw->queued[n] = true;
    rw->queue[(rw->queue_head + rw->queue_count++) % rw->graph->nodes.count] = n;
}

static rf_node node_dequeue(rewriter *rw)
{
    const rf_node n = rw->queue[rw->queue_head];
    rw->queue_head = (rw->queue_head + 1) % rw->graph->nodes.count;
    rw->queue_count--;
    rw->queued[n] = false;
    return n;
}

static int compare_mutations(const void *a, const void *b)
{
    const mutation *x = a, *y = b;
    if (x->state != y->state) return x->state < y->state ? -1 : 1;
    return x->node < y->node ? -1 : x->node > y->node;
}

static rf_result list_mutations(rewriter *rw)
{
    const rf_graph *graph = rw->graph;
    uint32_t capacity = 0;
    for (uint32_t n = 0; n < graph->nodes.count; n++) {
        const rf_node_info *node = &graph->nodes.items[n];
        for (uint32_t i = 0; !node->dead && i < node->n_in; i++) {
            if (!(node->op->mutates >> i & 1)) continue;
            RF_TRY(rf_array_reserve((void **)&rw->mutations, &capacity, rw->num_mutations + 1, sizeof(mutation)));
            rw->mutations[rw->num_mutations++] = (mutation){ graph->values.items[node->in[i]].storage, n };
        }
    }
    if (rw->num_mutations > 1) qsort(rw->mutations, rw->num_mutations, sizeof(mutation), compare_mutations);
    return RF_OK;
}

static rf_result rewriter_start(rewriter *rw, rf_graph *graph, const rf_graph_roots *roots)
{
    *rw = (rewriter){ .graph = graph };
    rw->links = RF_NEW_ARRAY(read_link, (size_t)graph->nodes.count * RF_MAX_INPUTS + 1);
    rw->queue = RF_NEW_ARRAY(rf_node, graph->nodes.count);
    rw->queued = RF_NEW_ARRAY(bool, graph->nodes.count);
    if (!rw->links || !rw->queue || !rw->queued) return RF_ERROR_OUT_OF_HOST_MEMORY;
    RF_TRY(rf_array_reserve((void **)&rw->values.items, &rw->values.capacity, graph->values.count, sizeof(read_list)));
    rw->values.count = graph->values.count;
    for (uint32_t i = 0; i < roots->num_results; i++) rw->values.items[roots->results[i]].root = true;
    for (uint32_t n = 0; n < graph->nodes.count; n++) {
        if (graph->nodes.items[n].dead) continue;
        link_reads(rw, n);
        node_enqueue(rw, n);
    }
    return list_mutations(rw);
}

static void rewriter_finish(rewriter *rw)
{
    rf_free(rw->values.items);
    rf_free(rw->links);
    rf_free(rw->queue);
    rf_free(rw->queued);
    rf_free(rw->mutations);
}

/* ---- what keeps a fusion from being allowed ---- */

/* A state that the node reads is updated strictly between two places: it would read something else at the other place.
 */
static bool crosses_mutation(const rewriter *rw, rf_node n, rf_node from, rf_node to)
{
    const rf_node_info *node = &rw->graph->nodes.items[n];
    for (uint32_t i = 0; i < node->n_in; i++) {
        const rf_value state = rw->graph->values.items[node->in[i]].storage;
        if (!rf_op_reads(node->op, i) || rw->graph->values.items[state].mutated == 0) continue;
        /* Binary search for the first mutation of the state after `from`. */
        uint32_t low = 0, high = rw->num_mutations;
        while (low < high) {
            const uint32_t middle = low + (high - low) / 2;
            const mutation *m = &rw->mutations[middle];
            if (m->state < state || (m->state == state && m->node <= from))
                low = middle + 1;
            else
                high = middle;
        }
        if (low < rw->num_mutations && rw->mutations[low].state == state && rw->mutations[low].node < to) return true;
    }
    return false;
}

static bool all_readers_after(const rewriter *rw, rf_node n, rf_node place)
{
    const rf_node_info *node = &rw->graph->nodes.items[n];
    for (uint32_t i = 0; i < node->n_out; i++) {
        for (uint32_t read = rw->values.items[node->out[i]].head; read; read = rw->links[read].next) {
            if (read_node(read) <= place) return false;
        }
    }
    return true;
}

static bool all_inputs_before(const rewriter *rw, const rf_fused *fused, rf_node place)
{
    for (uint32_t i = 0; i < fused->n_in; i++) {
        const rf_value_info *value = &rw->graph->values.items[fused->in[i]];
        if (value->kind == RF_VALUE_RESULT && value->producer >= place) return false;
    }
    return true;
}

static bool is_unused(const rewriter *rw, rf_value v)
{
    return !rw->values.items[v].root && !rw->values.items[v].head;
}

/* Nobody needs the value but, at most, the node. */
static bool can_replace(const rewriter *rw, rf_value v, rf_node n)
{
    const read_list *list = &rw->values.items[v];
    return !list->root && (!list->head || (list->head == list->tail && read_node(list->head) == n));
}

/* ---- replacing two nodes by one ---- */

typedef struct fusion {
    rf_node place, gone; /* the fused node goes to `place`, the other node dies */
    rf_fused fused;
    rf_value out[RF_MAX_OUTPUTS]; /* values that the fused node makes from now on; 0: a new one */
} fusion;

static rf_result check_fusion(const rewriter *rw, fusion *f, rf_op_call *call)
{
    const rf_graph *graph = rw->graph;
    const rf_fused *fused = &f->fused;
    RF_TRY(rf_op_check(fused->op, fused->n_in));
    RF_TRY(rf_graph_check_values(graph, fused->op->name, fused->in, fused->n_in));
    bool reads_gone = false;
    for (uint32_t i = 0; i < fused->n_in; i++) {
        const rf_value_info *value = &graph->values.items[fused->in[i]];
        reads_gone = reads_gone || (value->kind == RF_VALUE_RESULT && value->producer == f->gone);
    }
    if (fused->op->mutates || reads_gone || !all_inputs_before(rw, fused, f->place))
        return RF_FAIL(RF_ERROR_INTERNAL,
                       "%s: a fused node may not mutate, nor read what it replaces or what comes after it",
                       fused->op->name);
    *call = (rf_op_call){ .op = fused->op, .attr = fused->attr, .n_in = fused->n_in };
    for (uint32_t i = 0; i < fused->n_in; i++) call->in[i] = *rf_graph_desc(graph, fused->in[i]);
    RF_TRY(rf_op_infer(call));
    for (uint32_t i = 0; i < RF_MAX_OUTPUTS; i++) {
        if (i >= call->n_out && f->out[i] && is_unused(rw, f->out[i])) f->out[i] = 0; /* it has no other reader */
        if (f->out[i] == 0) continue;
        const rf_tensor_desc *desc = rf_graph_desc(graph, f->out[i]);
        if (i >= call->n_out || desc->dtype != call->out[i].dtype || !rf_shape_equal(desc->shape, call->out[i].shape)) {
            char shape[96];
            return RF_FAIL(RF_ERROR_INTERNAL, "%s: output %u is not the %s%s it replaces", fused->op->name, i,
                           rf_dtype_name(desc->dtype), rf_shape_format(desc->shape, shape, sizeof(shape)));
        }
    }
    return RF_OK;
}

static void requeue_around(rewriter *rw, rf_node n)
{
    node_enqueue(rw, n);
    const rf_node_info *node = &rw->graph->nodes.items[n];
    for (uint32_t i = 0; i < node->n_in; i++) {
        const rf_value_info *value = &rw->graph->values.items[node->in[i]];
        if (value->kind == RF_VALUE_RESULT) node_enqueue(rw, value->producer);
    }
}

/* Types that results are stored in follow from those of all inputs: two nodes that would make others as one stay two.
 */
static bool keeps_types(const rewriter *rw, const fusion *f)
{
    rf_op_call call = { .op = f->fused.op, .attr = f->fused.attr, .n_in = f->fused.n_in };
    for (uint32_t i = 0; i < call.n_in; i++) call.in[i] = *rf_graph_desc(rw->graph, f->fused.in[i]);
    if (!rf_call_is_narrow(&call) || rf_op_infer(&call) < 0) return true;
    for (uint32_t i = 0; i < call.n_out; i++)
        if (f->out[i] && rf_graph_desc(rw->graph, f->out[i])->dtype != call.out[i].dtype) return false;
    return true;
}

static rf_result fusion_apply(rewriter *rw, fusion *f)
{
    if (!keeps_types(rw, f)) return RF_OK;
    rf_graph *graph = rw->graph;
    rf_batch_shapes shapes[RF_MAX_OUTPUTS];
    const char *first = graph->nodes.items[f->gone].op->name, *second = graph->nodes.items[f->place].op->name;
    rf_op_call call;
    rf_result r = check_fusion(rw, f, &call);
    if (r < 0) return rf_error_context(r, "fusing '%s' and '%s'", first, second);
    /* Shapes may agree for the traced batch alone. */
    const bool fits = rf_batch_shapes_fit(graph, &call, f->fused.in, f->out, shapes);
    if (!fits && !graph->fixed_by) return RF_OK;

    /* All that can fail comes first, so that a failure leaves the graph as it was. */
    const uint32_t need = graph->values.count + RF_MAX_OUTPUTS;
    RF_TRY(rf_array_reserve((void **)&graph->values.items, &graph->values.capacity, need, sizeof(rf_value_info)));
    RF_TRY(rf_array_reserve((void **)&rw->values.items, &rw->values.capacity, need, sizeof(read_list)));
    RF_TRY(rf_array_reserve((void **)&graph->batches.items, &graph->batches.capacity, need, sizeof(rf_batch_shapes)));
    const void *attr = rf_graph_keep_attr(graph, f->fused.op, f->fused.attr);
    if (!attr) return RF_ERROR_OUT_OF_HOST_MEMORY;

    unlink_reads(rw, f->place);
    unlink_reads(rw, f->gone);
    rf_graph_remove_node(graph, f->gone);
    rf_graph_remove_node(graph, f->place);
    rf_node_info *node = &graph->nodes.items[f->place];
    for (uint32_t i = 0; i < node->n_out; i++) {
        /* Unused ones that the fused node does not make any more. The others are set below. */
        if (is_unused(rw, node->out[i])) graph->values.items[node->out[i]].producer = f->gone;
    }
    const char *said = node->call ? node->call : graph->nodes.items[f->gone].call;
    *node = (rf_node_info){ .op = f->fused.op, .attr = attr, .n_in = f->fused.n_in, .n_out = call.n_out, .call = said };
    memcpy(node->in, f->fused.in, sizeof(node->in));
    for (uint32_t i = 0; i < node->n_out; i++) {
        rf_value v = f->out[i];
        if (v == 0) {
            v = graph->values.count++;
            graph->values.items[v] = (rf_value_info){ .kind = RF_VALUE_RESULT, .desc = call.out[i], .storage = v };
            rw->values.items[rw->values.count++] = (read_list){ 0 };
            graph->batches.items[graph->batches.count++] =
                fits ? shapes[i] : (rf_batch_shapes){ { call.out[i].shape, call.out[i].shape } };
        }
        graph->values.items[v].producer = f->place;
        graph->values.items[v].slot = i;
        node->out[i] = v;
    }
    rf_graph_count_uses(graph, node, 1);
    link_reads(rw, f->place);
    requeue_around(rw, f->place);
    rw->fusions++;
    return RF_OK;
}

/* A view is made only of views: anything else would let a later update of a state show through. */
static bool keeps_views(const rf_fused *fused, const rf_op *a, const rf_op *b)
{
    return !(fused->op->flags & RF_OP_VIEW) || (a->flags & b->flags & RF_OP_VIEW);
}

static rf_result try_consumer(rewriter *rw, rf_node n)
{
    const rf_node_info *node = &rw->graph->nodes.items[n];
    if (!node->op->absorb_consumer || node->op->mutates || node->n_out != 1) return RF_OK;
    const read_list *list = &rw->values.items[node->out[0]];
    if (list->root || list->head == 0 || list->head != list->tail) return RF_OK;
    const rf_node c = read_node(list->head);
    const rf_node_info *consumer = &rw->graph->nodes.items[c];
    if (consumer->op->mutates || consumer->n_out == 0 || !rf_op_reads(consumer->op, read_input(list->head)) ||
        crosses_mutation(rw, n, n, c))
        return RF_OK;
    bool has_more = false;
    for (uint32_t i = 1; i < consumer->n_out; i++) has_more = has_more || !is_unused(rw, consumer->out[i]);
    fusion f = { .place = c, .gone = n };
    if (!node->op->absorb_consumer(rw->graph, n, c, &f.fused) || !keeps_views(&f.fused, node->op, consumer->op) ||
        (has_more && !f.fused.all_outputs))
        return RF_OK;
    for (uint32_t i = 0; i < (f.fused.all_outputs ? consumer->n_out : 1); i++) f.out[i] = consumer->out[i];
    return fusion_apply(rw, &f);
}

static rf_result try_sibling(rewriter *rw, rf_node n, rf_node o)
{
    const rf_node_info *self = &rw->graph->nodes.items[n], *other = &rw->graph->nodes.items[o];
    if (n == o || other->op->mutates || other->n_out != 1) return RF_OK;
    fusion f = { 0 };
    uint32_t other_out = 0;
    if (!self->op->absorb_sibling(rw->graph, n, o, &f.fused, &other_out)) return RF_OK;
    if (other_out >= RF_MAX_OUTPUTS || (other_out < self->n_out && !can_replace(rw, self->out[other_out], o)) ||
        !keeps_views(&f.fused, self->op, other->op))
        return RF_OK;
    memcpy(f.out, self->out, sizeof(f.out));
    f.out[other_out] = other->out[0];
    const rf_node early = n < o ? n : o, late = n < o ? o : n;
    if (all_readers_after(rw, early, late) && !crosses_mutation(rw, early, early, late)) {
        f.place = late;
        f.gone = early;
    } else if (all_inputs_before(rw, &f.fused, early) && !crosses_mutation(rw, late, early, late)) {
        f.place = early;
        f.gone = late;
    } else {
        return RF_OK;
    }
    return fusion_apply(rw, &f);
}

/* Those that read what the node makes. */
static rf_result try_readers(rewriter *rw, rf_node n)
{
    const rf_node_info *node = &rw->graph->nodes.items[n];
    for (uint32_t i = 0; i < node->n_out; i++) {
        uint32_t read = rw->values.items[node->out[i]].head;
        for (uint32_t step = 0; step < SIBLING_WINDOW && read; step++, read = rw->links[read].next) {
            const uint32_t before = rw->fusions;
            if (rf_op_reads(rw->graph->nodes.items[read_node(read)].op, read_input(read)))
                RF_TRY(try_sibling(rw, n, read_node(read)));
            if (rw->fusions > before) return RF_OK; /* the fused node stands in the queue */
        }
    }
    return RF_OK;
}

static rf_result try_siblings(rewriter *rw, rf_node n)
{
    const rf_node_info *node = &rw->graph->nodes.items[n];
    if (node->dead || !node->op->absorb_sibling || node->op->mutates) return RF_OK;
    const rf_op *op = node->op;
    for (uint32_t i = 0; i < node->n_in; i++) {
        if (!rf_op_reads(op, i)) continue;
        uint32_t forward = read_of(n, i), backward = forward;
        for (uint32_t step = 0; step < SIBLING_WINDOW && (forward || backward); step++) {
            if (forward) forward = rw->links[forward].next;
            if (backward) backward = rw->links[backward].previous;
            const uint32_t reads[] = { forward, backward };
            for (uint32_t k = 0; k < 2; k++) {
                if (!reads[k] || !rf_op_reads(rw->graph->nodes.items[read_node(reads[k])].op, read_input(reads[k])))
                    continue;
                const uint32_t before = rw->fusions;
                RF_TRY(try_sibling(rw, n, read_node(reads[k])));
                if (rw->fusions > before) return RF_OK;
            }
        }
    }
    return try_readers(rw, n);
}

/* One round over all nodes, and again over what changes under way. */
static rf_result graph_fuse(rf_graph *graph, const rf_graph_roots *roots, bool *changed)
{
    rewriter rw;
    rf_result r = rewriter_start(&rw, graph, roots);
    while (r >= 0 && rw.queue_count > 0) {
        const rf_node n = node_dequeue(&rw);
        if (graph->nodes.items[n].dead) continue;
        r = try_consumer(&rw, n);
        if (r >= 0) r = try_siblings(&rw, n);
    }
    *changed = rw.fusions > 0;
    rewriter_finish(&rw);
    return r;
}

/* After nodes were replaced: whose bytes views look at. */
static void find_storage(rf_graph *graph)
{
    for (uint32_t n = 0; n < graph->nodes.count; n++) {
        const rf_node_info *node = &graph->nodes.items[n];
        if (node->dead) continue;
        for (uint32_t i = 0; i < node->n_out; i++) graph->values.items[node->out[i]].storage = node->out[i];
        if (node->op->flags & RF_OP_VIEW)
            graph->values.items[node->out[0]].storage = graph->values.items[node->in[0]].storage;
    }
}

rf_result rf_graph_optimize(rf_graph *graph, const rf_graph_roots *roots)
{
    static const rf_graph_roots none;
    if (!roots) roots = &none;
    RF_TRY(rf_graph_check_values(graph, "roots", roots->results, roots->num_results));
    RF_TRY(remove_dead(graph, roots));
    if (!graph->batches_checked) RF_TRY(rf_graph_check_batches(graph, NULL, 0));
    RF_TRY(rf_batch_shapes_update(graph)); /* a copy has none */
    bool changed = graph->nodes.count > 0;
    rf_result r = RF_OK;
    while (r >= 0 && changed) {
        r = graph_fuse(graph, roots, &changed);
        if (r >= 0 && changed) r = remove_dead(graph, roots);
    }
    find_storage(graph);
    return r;
}
