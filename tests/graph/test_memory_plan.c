/* SPDX-License-Identifier: Apache-2.0 */
/* Memory plans: single cases, properties over random graphs, and a run inside the planned slab against the interpreter.
 */
#include <stdlib.h>
#include <time.h>

#include "tests/room.h"
#include "toy.h"

static const char object;

static rf_graph *new_graph(rf_value *x, rf_value *w)
{
    rf_graph *g;
    OK(rf_graph_create(&toy_core, &g));
    OK(rf_graph_input(g, 0, F32(4, 16), x));
    OK(rf_graph_state(g, &object, F32(4, 16), "w", w));
    return g;
}

TEST(in_place_chain_needs_one_place)
{
    rf_value x, w;
    rf_graph *g = new_graph(&x, &w);
    const rf_value a = toy_scaled(g, x, 2), b = toy2(g, &toy_mul, a, w), c = toy_scaled(g, b, 2);
    rf_memory_plan plan;
    OK(rf_memory_plan_make(g, &(rf_memory_plan_params){ .roots = { &c, 1 }, .alignment = 64 }, &plan));
    assert_int_equal(256, plan.slab_size);
    assert_int_equal(768, plan.naive_size);
    assert_false(plan.placements[x].planned); /* leaves are never written over */
    assert_int_equal(0, plan.placements[a].alias_of);
    assert_int_equal(a, plan.placements[b].alias_of);
    assert_int_equal(a, plan.placements[c].alias_of);
    assert_true(plan.placements[c].planned);
    rf_memory_plan_free(&plan);
    /* As a root, b must survive. */
    const rf_value results[] = { b, c };
    OK(rf_memory_plan_make(g, &(rf_memory_plan_params){ .roots = { results, 2 }, .alignment = 64 }, &plan));
    assert_int_equal(0, plan.placements[c].alias_of);
    assert_int_equal(512, plan.slab_size);
    rf_memory_plan_free(&plan);
    rf_graph_destroy(&g);
}

TEST(in_place_needs_a_dying_lonely_input)
{
    rf_value x, w;
    rf_graph *g = new_graph(&x, &w);
    const rf_value a = toy1(g, &toy_sin, x);
    const rf_value view = toy1(g, &toy_flatten, a);
    const rf_value b = toy_scaled(g, a, 2);        /* the view is read later: not in place */
    const rf_value c = toy2(g, &toy_add, view, b); /* both die: takes the first */
    const rf_value d = toy2(g, &toy_mul, c, c);    /* read twice: not in place */
    const rf_value e = toy2(g, &toy_expand_like, toy1(g, &toy_sum, d), d);
    rf_memory_plan plan;
    OK(rf_memory_plan_make(g, &(rf_memory_plan_params){ .roots = { &e, 1 }, .alignment = 64 }, &plan));
    assert_int_equal(a, plan.placements[view].alias_of);
    assert_int_equal(0, plan.placements[b].alias_of);
    assert_int_equal(a, plan.placements[c].alias_of);
    assert_int_equal(0, plan.placements[d].alias_of);
    assert_int_equal(0, plan.placements[e].alias_of);
    assert_int_equal(512, plan.slab_size); /* e takes d's place: its shape alone is read */
    rf_memory_plan_free(&plan);
    rf_graph_destroy(&g);
}

TEST(external_places)
{
    rf_value x, w;
    rf_graph *g = new_graph(&x, &w);
    const rf_value a = toy1(g, &toy_sin, x), view = toy1(g, &toy_flatten, a), scaled = toy_scaled(g, view, 2);
    const rf_value leaf_view = toy1(g, &toy_flatten, w);
    const rf_value results[] = { view, scaled, leaf_view };
    bool *external = test_calloc(g->values.count, 1);
    external[view] = true;
    rf_memory_plan plan;
    OK(rf_memory_plan_make(
        g, &(rf_memory_plan_params){ .roots = { results, 3 }, .external = external, .alignment = 64 }, &plan));
    /* A view is made by no kernel: the plan says what to copy to its place. */
    assert_true(plan.placements[a].planned && plan.placements[a].alias_of == 0);
    assert_false(plan.placements[view].planned);
    assert_int_equal(a, plan.placements[view].alias_of);
    assert_true(plan.placements[scaled].planned && plan.placements[scaled].alias_of == 0);
    assert_false(plan.placements[leaf_view].planned);
    assert_int_equal(w, plan.placements[leaf_view].alias_of);
    assert_int_equal(512, plan.slab_size);
    rf_memory_plan_free(&plan);
    /* Views see what a kernel makes in the caller's place, and nothing is made in-place over it. */
    memset(external, 0, g->values.count);
    external[a] = true;
    OK(rf_memory_plan_make(
        g, &(rf_memory_plan_params){ .roots = { &scaled, 1 }, .external = external, .alignment = 64 }, &plan));
    assert_false(plan.placements[a].planned || plan.placements[view].planned);
    assert_int_equal(0, plan.placements[a].alias_of);
    assert_int_equal(a, plan.placements[view].alias_of);
    assert_true(plan.placements[scaled].planned && plan.placements[scaled].alias_of == 0);
    assert_int_equal(256, plan.slab_size);
    rf_memory_plan_free(&plan);
    test_free(external);
    FAILS(rf_memory_plan_make(g, &(rf_memory_plan_params){ 0 }, &plan), RF_ERROR_INVALID_ARGUMENT, "alignment");
    FAILS(rf_memory_plan_make(g, &(rf_memory_plan_params){ .alignment = 64, .segment = 100 }, &plan),
          RF_ERROR_INVALID_ARGUMENT, "no multiple");
    FAILS(
        rf_memory_plan_make(g, &(rf_memory_plan_params){ .roots = { (rf_value[]){ 99 }, 1 }, .alignment = 64 }, &plan),
        RF_ERROR_INVALID_ARGUMENT, "roots");
    rf_memory_plan_free(&plan);
    rf_graph_destroy(&g);
}

TEST(workspace_lives_during_its_node)
{
    rf_value x, w;
    rf_graph *g = new_graph(&x, &w);
    const rf_value a = toy1(g, &toy_sin, x), b = toy1(g, &toy_sin, a), c = toy1(g, &toy_sin, b);
    const uint64_t workspace[] = { 1000, 0, 900 };
    rf_memory_plan plan;
    OK(rf_memory_plan_make(
        g, &(rf_memory_plan_params){ .roots = { &c, 1 }, .workspace_size = workspace, .alignment = 256 }, &plan));
    assert_int_equal(3 * 256 + 1024 + 1024, plan.naive_size);
    assert_int_equal(1024 + 2 * 256, plan.slab_size); /* node 2: b, c and 900 bytes */
    assert_int_equal(0, plan.workspace_offset[0] % 256);
    rf_memory_plan_free(&plan);
    rf_graph_destroy(&g);
}

/* ---- properties over random graphs ---- */

typedef struct interval {
    uint64_t begin, end;
    uint32_t first, last;
    rf_value group;
} interval;

static rf_value group_of(const rf_memory_plan *plan, rf_value v)
{
    return plan->placements[v].alias_of ? plan->placements[v].alias_of : v;
}

/* Lifetimes here are found per value in the plainest way, not per group as the planner does. Returns what lives at once
 * at most, which no plan can do with less. */
static uint64_t check_no_overlap(const rf_graph *g, const rf_memory_plan *plan, const rf_value *results,
                                 uint32_t num_results, const uint64_t *workspace, uint64_t alignment)
{
    interval *all = test_calloc(g->values.count + g->nodes.count, sizeof(*all));
    uint32_t count = 0;
    for (uint32_t v = 1; v < g->values.count; v++) {
        const rf_placement *place = &plan->placements[v];
        if (!place->planned) continue;
        /* The bytes of a view are there since what it looks at was made; who reads the view reads them. */
        const uint32_t made = g->values.items[g->values.items[v].storage].producer;
        interval now = { place->offset, place->offset + place->size, made, made, group_of(plan, v) };
        for (uint32_t n = now.first + 1; n < g->nodes.count; n++) {
            const rf_node_info *node = &g->nodes.items[n];
            for (uint32_t i = 0; !node->dead && !(node->op->flags & RF_OP_VIEW) && i < node->n_in; i++) {
                if (node->in[i] == v && !(node->op->shape_only >> i & 1)) now.last = n;
            }
        }
        for (uint32_t i = 0; i < num_results; i++) {
            if (results[i] == v) now.last = UINT32_MAX;
        }
        assert_int_equal(0, place->offset % alignment);
        assert_true(now.end <= plan->slab_size);
        all[count++] = now;
    }
    for (uint32_t n = 0; n < g->nodes.count; n++) {
        if (g->nodes.items[n].dead || workspace[n] == 0) continue;
        assert_int_equal(0, plan->workspace_offset[n] % alignment);
        assert_true(plan->workspace_offset[n] + workspace[n] <= plan->slab_size);
        all[count++] = (interval){ plan->workspace_offset[n], plan->workspace_offset[n] + workspace[n], n, n, 0 };
    }
    for (uint32_t i = 0; i < count; i++) {
        for (uint32_t j = 0; j < i; j++) {
            const interval *a = &all[i], *b = &all[j];
            if (a->group && a->group == b->group) continue;
            const bool together = a->first <= b->last && b->first <= a->last;
            if (together && a->begin < b->end && b->begin < a->end)
                fail_msg("[%u, %u] and [%u, %u] overlap", (unsigned)a->begin, (unsigned)a->end, (unsigned)b->begin,
                         (unsigned)b->end);
        }
    }
    uint64_t peak = 0;
    for (uint32_t n = 0; n < g->nodes.count; n++) {
        uint64_t live = 0;
        for (uint32_t i = 0; i < count; i++) {
            bool counted = all[i].first > n || all[i].last < n;
            for (uint32_t j = 0; j < i && all[i].group; j++)
                counted = counted || (all[j].group == all[i].group && all[j].first <= n && all[j].last >= n);
            if (!counted) live += rf_align_up(all[i].end - all[i].begin, alignment);
        }
        if (live > peak) peak = live;
    }
    assert_true(plan->slab_size >= peak);
    test_free(all);
    return peak;
}

static void *address(const rf_memory_plan *plan, char *slab, void **elsewhere, rf_value v)
{
    if (plan->placements[v].planned) return slab + plan->placements[v].offset;
    return elsewhere[group_of(plan, v)];
}

/* Runs the graph with every value where the plan puts it; scratch is overwritten before and after each node. */
static void run_in_slab(const rf_graph *g, const rf_memory_plan *plan, const uint64_t *workspace, char *slab,
                        void **elsewhere)
{
    for (uint32_t n = 0; n < g->nodes.count; n++) {
        const rf_node_info *node = &g->nodes.items[n];
        if (node->dead || (node->op->flags & RF_OP_VIEW)) continue;
        if (workspace[n]) memset(slab + plan->workspace_offset[n], 0xff, workspace[n]);
        void *in[RF_MAX_INPUTS] = { 0 }, *out[RF_MAX_OUTPUTS] = { 0 };
        for (uint32_t i = 0; i < node->n_in; i++) in[i] = address(plan, slab, elsewhere, node->in[i]);
        for (uint32_t i = 0; i < node->n_out; i++) out[i] = address(plan, slab, elsewhere, node->out[i]);
        rf_op_call call;
        rf_graph_call(g, n, &call);
        OK(node->op->reference(&call, in, out));
        if (workspace[n]) memset(slab + plan->workspace_offset[n], 0xff, workspace[n]);
    }
}

typedef struct totals {
    uint64_t slab, naive, peak;
    uint32_t in_place, optimal;
} totals;

/* The same graph where the slab is in segments: as short as its largest block lets them be, or half as long again. */
static void check_segments(const rf_graph *g, rf_memory_plan_params memory, const rf_memory_plan *whole, bool longer)
{
    const uint64_t alignment = memory.alignment;
    uint64_t largest = alignment;
    for (uint32_t v = 1; v < g->values.count; v++)
        if (whole->placements[v].planned && whole->placements[v].size > largest) largest = whole->placements[v].size;
    for (uint32_t n = 0; n < g->nodes.count; n++)
        if (!g->nodes.items[n].dead && memory.workspace_size[n] > largest) largest = memory.workspace_size[n];
    memory.segment = rf_align_up(longer ? largest + largest / 2 : largest, alignment);
    rf_memory_plan plan;
    OK(rf_memory_plan_make(g, &memory, &plan));
    (void)check_no_overlap(g, &plan, memory.roots.results, memory.roots.num_results, memory.workspace_size, alignment);
    for (uint32_t v = 1; v < g->values.count; v++) {
        const rf_placement *place = &plan.placements[v];
        assert_int_equal(whole->placements[v].planned, place->planned);
        if (place->planned) assert_true(place->offset % memory.segment + place->size <= memory.segment);
    }
    for (uint32_t n = 0; n < g->nodes.count; n++)
        if (!g->nodes.items[n].dead && memory.workspace_size[n])
            assert_true(plan.workspace_offset[n] % memory.segment + memory.workspace_size[n] <= memory.segment);
    rf_memory_plan_free(&plan);
    memory.segment = rf_align_up(largest, alignment) - alignment;
    if (memory.segment > 0)
        FAILS(rf_memory_plan_make(g, &memory, &plan), RF_ERROR_OUT_OF_DEVICE_MEMORY, "in one piece");
}

static void check_random(uint64_t seed, totals *t)
{
    rf_rng rng = { .key = seed };
    rf_value results[5];
    const uint32_t nodes = 2 + (uint32_t)rf_rng_below(&rng, 80);
    rf_graph *g = toy_random(&rng, nodes, 1 + (int64_t)rf_rng_below(&rng, 40), results, 5);
    OK(rf_graph_optimize(g, &(rf_graph_roots){ results, 5 }));
    const uint64_t alignment = seed % 3 == 0 ? 1 : seed % 3 == 1 ? 64 : 48;
    uint64_t *workspace = test_calloc(g->nodes.count, sizeof(*workspace));
    for (uint32_t n = 0; n < g->nodes.count; n++) workspace[n] = rf_rng_below(&rng, 4) ? 0 : rf_rng_below(&rng, 700);
    bool *external = test_calloc(g->values.count, sizeof(*external));
    rf_arena arena = { 0 };
    void **expected = toy_fill_leaves(g, &arena, seed), **elsewhere = toy_fill_leaves(g, &arena, seed);
    for (uint32_t i = 0; i < 2; i++) {
        /* Not a view: who wants one in a place of its own copies it there. */
        external[results[i]] =
            g->values.items[results[i]].kind == RF_VALUE_RESULT && g->values.items[results[i]].storage == results[i];
        if (external[results[i]] && !elsewhere[results[i]])
            elsewhere[results[i]] = rf_arena_alloc(&arena, rf_tensor_bytes(rf_graph_desc(g, results[i])));
    }
    rf_memory_plan plan;
    const rf_memory_plan_params memory = {
        .roots = { results, 5 }, .external = external, .workspace_size = workspace, .alignment = alignment
    };
    OK(rf_memory_plan_make(g, &memory, &plan));
    check_segments(g, memory, &plan, seed % 2);
    assert_true(plan.slab_size <= plan.naive_size);
    const uint64_t peak = check_no_overlap(g, &plan, results, 5, workspace, alignment);

    t->slab += plan.slab_size;
    t->naive += plan.naive_size;
    t->peak += peak;
    t->optimal += plan.slab_size == peak;

    OK(rf_graph_interpret(g, &arena, expected));
    char *slab = aligned_alloc(64, (size_t)rf_align_up(plan.slab_size + 1, 64));
    memset(slab, 0xff, plan.slab_size + 1);
    if (alignment != 1) run_in_slab(g, &plan, workspace, slab, elsewhere); /* floats need their alignment */
    for (uint32_t v = 1; v < g->values.count; v++) {
        const rf_value_info *value = &g->values.items[v];
        const rf_placement *place = &plan.placements[v];
        if (place->alias_of) assert_int_equal(0, plan.placements[place->alias_of].alias_of);
        t->in_place += place->alias_of && value->storage == v;
        bool wanted = value->kind == RF_VALUE_STATE;
        for (uint32_t i = 0; i < 5; i++) wanted = wanted || results[i] == v;
        if (wanted && alignment != 1 &&
            !same_numbers(expected[v], address(&plan, slab, elsewhere, v), (size_t)rf_shape_count(value->desc.shape)))
            fail_msg("seed %d: value %u differs", (int)seed, v);
    }
    free(slab);
    rf_memory_plan_free(&plan);
    rf_arena_free(&arena);
    test_free(external);
    test_free(workspace);
    rf_graph_destroy(&g);
}

/* The processor time of this process: tests run beside each other. */
static double cpu_seconds(void)
{
    return (double)clock() / CLOCKS_PER_SEC;
}

TEST(random_graphs)
{
    totals t = { 0 };
    for (uint64_t seed = 0; seed < 300; seed++) check_random(seed, &t);
    print_message(
        "slabs: %.1f %% of the sum of sizes, %.2f %% of the most that lives at once, %u of 300 optimal; %u results in "
        "place\n",
        100.0 * (double)t.slab / (double)t.naive, 100.0 * (double)t.slab / (double)t.peak, t.optimal, t.in_place);
    assert_true(t.in_place > 300);
    assert_true(t.slab * 10 < t.naive * 8);
    /* 3.5 %; either layout alone takes 4 % or more. */
    assert_true(t.slab * 1000 < t.peak * 1037);
}

/* A training step's shape of memory: all activations live until their backward node. */
TEST(ten_thousand_nodes)
{
    rf_value x, w;
    rf_graph *g = new_graph(&x, &w);
    rf_value v = x;
    for (uint32_t i = 0; g->nodes.count < 4000; i++) v = toy2(g, &toy_mul, toy1(g, &toy_sin, v), i % 3 ? w : x);
    const rf_value loss = toy1(g, &toy_sum, v);
    const rf_value targets[] = { x, w };
    rf_value grads[2];
    OK(rf_graph_differentiate(g, loss, targets, 2, grads));
    assert_true(g->nodes.count > 10000);
    const rf_value results[] = { loss, grads[0], grads[1] };
    uint64_t *workspace = test_calloc(g->nodes.count, sizeof(*workspace));
    for (uint32_t n = 0; n < g->nodes.count; n++) workspace[n] = n % 7 * 100;
    rf_memory_plan plan;
    const double start = cpu_seconds();
    OK(rf_memory_plan_make(
        g, &(rf_memory_plan_params){ .roots = { results, 3 }, .workspace_size = workspace, .alignment = 64 }, &plan));
    const double seconds = cpu_seconds() - start;
    print_message("%u nodes: plan %.4f s, slab %.2f MB of %.2f MB\n", g->nodes.count, seconds,
                  (double)plan.slab_size * 1e-6, (double)plan.naive_size * 1e-6);
    assert_true(seconds < 4.0);
    assert_true(plan.slab_size < plan.naive_size);
    rf_memory_plan_free(&plan);
    test_free(workspace);
    rf_graph_destroy(&g);
}

TESTS(memory_plan, NULL, NULL)
