/* SPDX-License-Identifier: Apache-2.0 */
/* The order of nodes: independent branches run side by side, what depends stays in order, memory does not grow. */
#include "../graph/toy.h"
#include "exec/internal.h"
#include "tests/room.h"

typedef struct plan {
    rf_graph *graph;
    uint32_t *dispatches, *segment;
    rf_node *order;
    rf_node_span *spans;
    rf_graph_roots roots;
} plan;

static plan make_plan(rf_graph *g)
{
    plan p = { .graph = g };
    p.dispatches = test_calloc(g->nodes.count, sizeof(*p.dispatches));
    p.segment = test_calloc(g->nodes.count, sizeof(*p.segment));
    p.order = test_calloc(g->nodes.count, sizeof(*p.order));
    p.spans = test_calloc(g->nodes.count, sizeof(*p.spans));
    for (rf_node n = 0; n < g->nodes.count; n++)
        p.dispatches[n] = !g->nodes.items[n].dead && !(g->nodes.items[n].op->flags & RF_OP_VIEW);
    return p;
}

static void free_plan(plan *p)
{
    test_free(p->dispatches);
    test_free(p->segment);
    test_free(p->order);
    test_free(p->spans);
    rf_graph_destroy(&p->graph);
}

static rf_order_params params_of(const plan *p)
{
    return (
        rf_order_params){ .graph = p->graph, .dispatches = p->dispatches, .segment = p->segment, .roots = p->roots };
}

/* Schedules and puts the graph, and what goes by its nodes, into the new order. */
static void schedule(plan *p)
{
    const rf_order_params params = params_of(p);
    const uint32_t count = p->graph->nodes.count;
    OK(rf_order_nodes(&params, p->order));
    OK(rf_graph_reorder(p->graph, p->order));
    toy_check_order(p->graph);
    uint32_t *dispatches = test_calloc(count, sizeof(*dispatches)), *segment = test_calloc(count, sizeof(*segment));
    for (rf_node n = 0; n < count; n++) {
        dispatches[n] = p->dispatches[p->order[n]];
        segment[n] = p->segment[p->order[n]];
    }
    test_free(p->dispatches);
    test_free(p->segment);
    p->dispatches = dispatches;
    p->segment = segment;
    const rf_order_params after = params_of(p);
    OK(rf_order_spans(&after, p->spans));
}

static void check_order(const plan *p, const rf_node *expected, uint32_t count)
{
    assert_int_equal(count, p->graph->nodes.count);
    for (uint32_t i = 0; i < count; i++)
        if (p->order[i] != expected[i]) fail_msg("place %u has node %u, not %u", i, p->order[i], expected[i]);
}

TEST(branches_run_side_by_side)
{
    rf_value x, w;
    rf_graph *g = toy_graph(&x, &w);
    const rf_value a = toy1(g, &toy_sin, toy1(g, &toy_cos, toy1(g, &toy_floor, x)));
    const rf_value b = toy1(g, &toy_cos, toy1(g, &toy_sin, toy1(g, &toy_stop, x)));
    (void)toy2(g, &toy_add, a, b);
    plan p = make_plan(g);
    schedule(&p);
    check_order(&p, (const rf_node[]){ 0, 3, 1, 4, 2, 5, 6 }, 7);
    for (rf_node n = 0; n < 6; n++) {
        assert_int_equal(p.spans[n].first, n / 2 * 2);
        assert_int_equal(p.spans[n].last, n / 2 * 2 + 1);
    }
    assert_int_equal(p.spans[6].first, 6);
    free_plan(&p);
}

TEST(several_dispatches_come_last)
{
    rf_value x, w;
    rf_graph *g = toy_graph(&x, &w);
    const rf_value a = toy1(g, &toy_sin, x);   /* 0: two dispatches */
    const rf_value b = toy1(g, &toy_cos, x);   /* 1 */
    const rf_value c = toy1(g, &toy_floor, b); /* 2: beside the second dispatch of 0 */
    (void)toy2(g, &toy_add, a, c);
    plan p = make_plan(g);
    p.dispatches[0] = 2;
    schedule(&p);
    check_order(&p, (const rf_node[]){ 1, 0, 2, 3 }, 4);
    assert_int_equal(p.spans[1].first, 0);
    assert_int_equal(p.spans[1].last, 2);
    assert_int_equal(p.spans[0].last, 1); /* the one with one dispatch is over before 2 begins */
    assert_int_equal(p.spans[2].first, 1);
    free_plan(&p);
}

TEST(the_longest_comes_first)
{
    rf_value x, w;
    rf_graph *g = toy_graph(&x, &w);
    const rf_value a = toy1(g, &toy_sin, x); /* 0: two dispatches */
    const rf_value b = toy1(g, &toy_cos, x); /* 1: three; what needs it runs beside the second one of 0 */
    (void)toy2(g, &toy_add, b, x);           /* 2 */
    (void)toy1(g, &toy_floor, a);            /* 3 */
    plan p = make_plan(g);
    p.dispatches[0] = 2;
    p.dispatches[1] = 3;
    schedule(&p);
    check_order(&p, (const rf_node[]){ 1, 0, 2, 3 }, 4);
    free_plan(&p);
}

TEST(updates_keep_their_place)
{
    rf_value x, w;
    rf_graph *g = toy_graph(&x, &w);
    const rf_value early = toy1(g, &toy_sin, w);                       /* 0 */
    const rf_value slow = toy1(g, &toy_cos, toy1(g, &toy_sin, early)); /* 1, 2 */
    toy_accumulated(g, w, slow);                                       /* 3 */
    const rf_value late = toy1(g, &toy_cos, w);                        /* 4 */
    toy_accumulated(g, w, x);                                          /* 5: could run at once but for the state */
    (void)toy2(g, &toy_add, early, late);                              /* 6 */
    plan p = make_plan(g);
    schedule(&p);
    check_order(&p, (const rf_node[]){ 0, 1, 2, 3, 4, 5, 6 }, 7);
    assert_int_equal(g->values.items[w].mutated, 6);
    free_plan(&p);
}

TEST(segments_are_not_crossed)
{
    rf_value x, w;
    rf_graph *g = toy_graph(&x, &w);
    const rf_value results[] = {
        toy1(g, &toy_sin, toy1(g, &toy_cos, x)), /* 0, 1 */
        toy1(g, &toy_sin, toy1(g, &toy_cos, w)), /* 2, 3 */
    };
    plan p = make_plan(g);
    p.roots = (rf_graph_roots){ results, 2 };
    p.segment[2] = p.segment[3] = 1;
    schedule(&p);
    check_order(&p, (const rf_node[]){ 0, 1, 2, 3 }, 4);
    p.segment[2] = p.segment[3] = 0;
    schedule(&p);
    check_order(&p, (const rf_node[]){ 0, 2, 1, 3 }, 4);
    free_plan(&p);
}

/* Many branches of one big value each: side by side, all would live at once. */
TEST(memory_is_not_traded_away)
{
    for (uint32_t spare = 0; spare < 2; spare++) {
        rf_value x, w;
        rf_graph *g = toy_graph(&x, &w);
        for (uint32_t i = 0; i < 60; i++) (void)toy1(g, &toy_sum, toy1(g, &toy_sin, toy1(g, &toy_cos, x)));
        plan p = make_plan(g);
        const uint64_t size = rf_tensor_bytes(rf_graph_desc(g, x));
        rf_order_params params = params_of(&p);
        if (spare) params.spare = 60 * size;
        OK(rf_order_nodes(&params, p.order));
        rf_memory_plan before, after;
        OK(rf_memory_plan_make(g, &(rf_memory_plan_params){ .alignment = 4 }, &before));
        OK(rf_graph_reorder(g, p.order));
        OK(rf_memory_plan_make(g, &(rf_memory_plan_params){ .alignment = 4 }, &after));
        if (spare)
            assert_true(after.slab_size >= 60 * size);
        else
            assert_true(after.slab_size * 100 <= before.slab_size * 110);
        rf_memory_plan_free(&before);
        rf_memory_plan_free(&after);
        free_plan(&p);
    }
}

typedef struct totals {
    uint64_t before, after, beside;
    uint32_t intervals_before, intervals_after;
} totals;

static uint32_t count_intervals(const rf_node_span *spans, const uint32_t *dispatches, uint32_t count)
{
    uint32_t intervals = 0;
    for (rf_node n = 0, next = 0; n < count; n++) {
        if (dispatches[n] == 0 || n < next) continue;
        intervals++;
        next = spans[n].last + 1;
    }
    return intervals;
}

static void check_random(uint64_t seed, totals *t)
{
    rf_rng rng = { .key = seed };
    rf_value results[5];
    rf_graph *g = toy_random(&rng, 80, 2, results, 5), *plain;
    OK(rf_graph_clone(g, &plain));
    const rf_graph_roots roots = { results, 5 };
    plan p = make_plan(g);
    p.roots = roots;
    const rf_order_params before = params_of(&p);
    OK(rf_order_spans(&before, p.spans));
    t->intervals_before += count_intervals(p.spans, p.dispatches, g->nodes.count);
    schedule(&p);
    t->intervals_after += count_intervals(p.spans, p.dispatches, g->nodes.count);
    for (rf_node n = 0; n < g->nodes.count; n++) {
        assert_true(p.spans[n].first <= n && n <= p.spans[n].last);
        if (n > 0) assert_true(p.spans[n - 1].first <= p.spans[n].first && p.spans[n - 1].last <= p.spans[n].last);
    }
    rf_memory_plan old, new, beside;
    rf_memory_plan_params memory = { .roots = roots, .alignment = 4 };
    OK(rf_memory_plan_make(plain, &memory, &old));
    OK(rf_memory_plan_make(g, &memory, &new));
    memory.spans = p.spans;
    OK(rf_memory_plan_make(g, &memory, &beside));
    t->before += old.slab_size;
    t->after += new.slab_size;
    t->beside += beside.slab_size;
    /* Nodes that may run at the same time share no bytes that one of them writes. */
    for (rf_node n = 0; n < g->nodes.count; n++) {
        const rf_node_info *a = &g->nodes.items[n];
        for (rf_node m = n + 1; p.dispatches[n] && m <= p.spans[n].last; m++) {
            const rf_node_info *b = &g->nodes.items[m];
            for (uint32_t i = 0; p.dispatches[m] && i < b->n_out; i++) {
                const rf_placement *made = &beside.placements[b->out[i]];
                for (uint32_t k = 0; made->planned && k < a->n_in + a->n_out; k++) {
                    const rf_value v = k < a->n_in ? a->in[k] : a->out[k - a->n_in];
                    const rf_placement *used = &beside.placements[v];
                    if (k < a->n_in && (a->op->shape_only >> k & 1)) continue;
                    if (used->planned && used->offset < made->offset + made->size &&
                        made->offset < used->offset + used->size)
                        fail_msg("seed %d: nodes %u and %u meet", (int)seed, n, m);
                }
            }
        }
    }
    rf_memory_plan_free(&old);
    rf_memory_plan_free(&new);
    rf_memory_plan_free(&beside);
    rf_arena arena = { 0 };
    void **expected = toy_fill_leaves(plain, &arena, seed), **got = toy_fill_leaves(g, &arena, seed);
    OK(rf_graph_interpret(plain, &arena, expected));
    OK(rf_graph_interpret(g, &arena, got));
    for (rf_value v = 1; v < g->values.count; v++) {
        const rf_value_info *value = &g->values.items[v];
        /* A view of a state shows what the state holds in the end. */
        if (value->kind == RF_VALUE_RESULT && g->nodes.items[value->producer].dead) continue;
        if (!same_numbers(expected[v], got[v], (size_t)rf_shape_count(value->desc.shape)))
            fail_msg("seed %d: value %u differs", (int)seed, v);
    }
    rf_arena_free(&arena);
    rf_graph_destroy(&plain);
    free_plan(&p);
}

TEST(random_graphs)
{
    totals t = { 0 };
    for (uint64_t seed = 0; seed < 300; seed++) check_random(seed, &t);
    print_message("intervals: %u of %u; slabs: %.1f %% in the new order, %.1f %% with nodes side by side\n",
                  t.intervals_after, t.intervals_before, 100.0 * (double)t.after / (double)t.before,
                  100.0 * (double)t.beside / (double)t.before);
    assert_true(t.intervals_after < t.intervals_before);
    assert_true(t.after * 100 <= t.before * 103);
}

TEST(orders_that_are_none_are_refused)
{
    rf_value x, w;
    rf_graph *g = toy_graph(&x, &w);
    (void)toy1(g, &toy_sin, toy1(g, &toy_cos, x));
    FAILS(rf_graph_reorder(g, (const rf_node[]){ 1, 0 }), RF_ERROR_INTERNAL, "before what it reads");
    FAILS(rf_graph_reorder(g, (const rf_node[]){ 0, 0 }), RF_ERROR_INTERNAL, "listed");
    FAILS(rf_graph_reorder(g, (const rf_node[]){ 0, 2 }), RF_ERROR_INTERNAL, "none");
    toy_check_order(g);
    rf_graph_destroy(&g);
}

TESTS(schedule, NULL, NULL)
