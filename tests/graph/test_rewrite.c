/* SPDX-License-Identifier: Apache-2.0 */
/* Dead code and fusion: what is rewritten, what must not be, and that results stay what they were. */
#include <time.h>

#include "../sanitized.h"
#include "tests/room.h"
#include "toy.h"

static void optimize(rf_graph *g, const rf_value *results, uint32_t num_results)
{
    OK(rf_graph_optimize(g, &(rf_graph_roots){ results, num_results }));
    toy_check_order(g);
}

TEST(dead_code_goes_and_updates_stay)
{
    rf_value x, w, again;
    rf_graph *g = toy_graph(&x, &w);
    const rf_value unused = toy1(g, &toy_sin, toy1(g, &toy_cos, x));
    const rf_value wanted = toy1(g, &toy_floor, x);
    toy_accumulated(g, w, toy1(g, &toy_stop, x));
    optimize(g, &wanted, 1);
    assert_int_equal(3, toy_live_nodes(g));
    assert_int_equal(1, toy_count(g, &toy_accumulate));
    FAILS(rf_graph_add(g, &toy_sin, NULL, &unused, 1, &again), RF_ERROR_INVALID_ARGUMENT, "a rewrite has removed");
    FAILS(rf_graph_optimize(g, &(rf_graph_roots){ &unused, 1 }), RF_ERROR_INVALID_ARGUMENT, "root");
    /* Nodes that were removed are made anew; the graph takes more nodes. */
    assert_int_not_equal(unused, toy1(g, &toy_sin, toy1(g, &toy_cos, x)));
    toy_check_order(g);
    rf_graph_destroy(&g);
}

TEST(consumers_are_absorbed_in_chains)
{
    rf_value x, w;
    rf_graph *g = toy_graph(&x, &w);
    rf_value v = x;
    for (uint32_t i = 0; i < 10; i++) v = toy_scaled(g, v, 2);
    const rf_value y = toy2(g, &toy_add, w, toy2(g, &toy_mul, v, x));
    optimize(g, &y, 1);
    assert_int_equal(2, toy_live_nodes(g));
    assert_int_equal(1, toy_count(g, &toy_muladd));
    const rf_node_info *scale = &g->nodes.items[g->values.items[v].producer];
    assert_true(scale->op == &toy_scale && *(const float *)scale->attr == 1024);
    rf_graph_destroy(&g);
}

TEST(roots_and_shared_values_are_kept)
{
    rf_value x, w;
    rf_graph *g = toy_graph(&x, &w);
    const rf_value a = toy_scaled(g, x, 2), b = toy_scaled(g, a, 2), c = toy_scaled(g, b, 2);
    const rf_value twice = toy_scaled(g, w, 2);
    const rf_value d = toy_scaled(g, twice, 2), e = toy1(g, &toy_sin, twice);
    const rf_value self = toy2(g, &toy_mul, w, w), both = toy2(g, &toy_add, self, self);
    const rf_value results[] = { a, c, d, e, both };
    optimize(g, results, 5);
    /* b went into c; a is a root, `twice` has two readers, `self` is read twice by one. */
    assert_int_equal(7, toy_live_nodes(g));
    assert_true(g->nodes.items[g->values.items[b].producer].dead);
    assert_int_equal(x, g->nodes.items[g->values.items[a].producer].in[0]);
    assert_int_equal(a, g->nodes.items[g->values.items[c].producer].in[0]);
    assert_int_equal(twice, g->nodes.items[g->values.items[d].producer].in[0]);
    rf_graph_destroy(&g);
}

TEST(siblings_become_one_node)
{
    rf_value x, w;
    rf_graph *g = toy_graph(&x, &w);
    const rf_value square = toy1(g, &toy_square, x), reader = toy1(g, &toy_sin, square), scale = toy_scaled(g, x, 3);
    const rf_value z = toy2(g, &toy_add, reader, scale);
    const rf_value results[] = { square, z, scale };
    optimize(g, results, 3);
    assert_int_equal(1, toy_count(g, &toy_square_scale));
    assert_int_equal(3, toy_live_nodes(g));
    assert_int_equal(g->values.items[square].producer, g->values.items[scale].producer);
    assert_int_equal(1, g->values.items[scale].slot);
    rf_graph_destroy(&g);

    /* One needs the other: cannot be one node. */
    g = toy_graph(&x, &w);
    const rf_value s = toy1(g, &toy_square, x);
    const rf_value m = toy2(g, &toy_mul, s, x);
    const rf_op *const before = g->nodes.items[g->values.items[s].producer].op;
    rf_value t;
    const float three = 3;
    OK(rf_graph_add(g, &toy_scale, &three, &m, 1, &t));
    optimize(g, &t, 1);
    assert_ptr_equal(before, g->nodes.items[g->values.items[s].producer].op);
    rf_graph_destroy(&g);
}

static rf_result infer_both(rf_op_call *call)
{
    call->out[0] = call->out[1] = call->in[0];
    return RF_OK;
}
static const rf_op both = { .name = "both", .min_in = 2, .max_in = 2, .n_out = 2, .infer = infer_both };

static bool absorbs_anything(const rf_graph *g, rf_node self, rf_node other, rf_fused *fused, uint32_t *other_out)
{
    const rf_node_info *s = &g->nodes.items[self], *o = &g->nodes.items[other];
    if (o->op != &toy_mul) return false;
    fused->op = &both;
    fused->n_in = 2;
    fused->in[0] = s->in[0];
    fused->in[1] = o->in[1];
    *other_out = 1;
    return true;
}

TEST(siblings_that_depend_on_each_other_stay)
{
    rf_op greedy = toy_sin;
    greedy.absorb_sibling = absorbs_anything;
    rf_value x, w;
    rf_graph *g = toy_graph(&x, &w);
    const rf_value s = toy1(g, &greedy, x);
    const rf_value m = toy2(g, &toy_mul, x, toy1(g, &toy_cos, s)); /* reads x, and s by way of cos */
    optimize(g, &m, 1);
    assert_int_equal(3, toy_live_nodes(g));
    assert_int_equal(1, toy_count(g, &greedy));
    rf_graph_destroy(&g);

    /* A reader stands between the two, but the later one can go to the earlier one's place. */
    g = toy_graph(&x, &w);
    const rf_value between = toy1(g, &toy_cos, toy1(g, &greedy, x)), after = toy2(g, &toy_mul, x, w);
    const rf_value results[] = { between, after };
    optimize(g, results, 2);
    assert_int_equal(1, toy_count(g, &both));
    assert_int_equal(0, g->values.items[after].producer);
    rf_graph_destroy(&g);
}

/* A cosine of output 0 becomes output 1, and a multiple of output 1 takes its place. */
static bool absorbs_readers(const rf_graph *g, rf_node self, rf_node other, rf_fused *fused, uint32_t *other_out);
static const rf_op pair = {
    .name = "pair", .min_in = 1, .max_in = 1, .n_out = 2, .infer = infer_both, .absorb_sibling = absorbs_readers
};
static bool absorbs_readers(const rf_graph *g, rf_node self, rf_node other, rf_fused *fused, uint32_t *other_out)
{
    const rf_node_info *s = &g->nodes.items[self], *o = &g->nodes.items[other];
    const bool first = s->n_out == 1 && o->op == &toy_cos && o->in[0] == s->out[0];
    fused->op = &pair;
    fused->n_in = 1;
    fused->in[0] = s->in[0];
    *other_out = 1;
    return first || (s->n_out == 2 && o->op == &toy_scale && o->in[0] == s->out[1]);
}

TEST(readers_become_outputs)
{
    rf_op first = toy_sin;
    first.absorb_sibling = absorbs_readers;
    rf_value x, w;
    for (int is_read_twice = 0; is_read_twice < 2; is_read_twice++) {
        rf_graph *g = toy_graph(&x, &w);
        const rf_value s = toy1(g, &first, x), other = toy1(g, &toy_square, s), cosine = toy1(g, &toy_cos, s);
        const rf_value scaled = toy_scaled(g, cosine, 3),
                       results[] = { other, scaled, toy2(g, &toy_add, scaled, x), is_read_twice ? cosine : scaled };
        optimize(g, results, 4);
        const rf_value_info *made = &g->values.items[is_read_twice ? cosine : scaled];
        assert_int_equal(g->values.items[s].producer, made->producer);
        assert_int_equal(1, made->slot);
        assert_int_equal(1, toy_count(g, &pair));
        assert_int_equal(is_read_twice, toy_count(g, &toy_scale)); /* what is still wanted is not replaced */
        assert_int_equal(3 + is_read_twice, toy_live_nodes(g));
        rf_graph_destroy(&g);
    }
}

TEST(nothing_moves_across_an_update)
{
    rf_value x, w;
    rf_graph *g = toy_graph(&x, &w);
    const rf_value old = toy_scaled(g, w, 2);
    const rf_value square = toy1(g, &toy_square, toy1(g, &toy_flatten, w));
    toy_accumulated(g, w, x);
    const rf_value moved = toy_scaled(g, old, 3); /* would read w after the update */
    const rf_value late = toy_scaled(g, toy1(g, &toy_flatten, w), 5);
    const rf_value results[] = { moved, square, late };
    optimize(g, results, 3);
    assert_int_equal(3, toy_count(g, &toy_scale));
    assert_int_equal(0, toy_count(g, &toy_square_scale));
    rf_graph_destroy(&g);
}

TEST(siblings_do_not_move_across_an_update)
{
    rf_value x, w;
    rf_graph *g = toy_graph(&x, &w);
    const rf_value before = toy1(g, &toy_square, w);
    toy_accumulated(g, w, x);
    const rf_value after = toy_scaled(g, w, 5);
    const rf_value results[] = { before, after };
    optimize(g, results, 2);
    assert_int_equal(3, toy_live_nodes(g));
    rf_graph_destroy(&g);
}

TEST(unread_roots_are_kept)
{
    rf_op greedy = toy_split; /* would give up its second output for the sibling's */
    greedy.absorb_sibling = absorbs_anything;
    rf_value x, w, split[2];
    rf_graph *g = toy_graph(&x, &w);
    OK(rf_graph_add(g, &greedy, NULL, &x, 1, split));
    const rf_value product = toy2(g, &toy_mul, x, w);
    const rf_value results[] = { split[0], split[1], product };
    optimize(g, results, 3);
    assert_int_equal(2, toy_live_nodes(g));
    optimize(g, results + 2, 1); /* now it may, but is dead */
    assert_int_equal(1, toy_live_nodes(g));
    rf_graph_destroy(&g);
    g = toy_graph(&x, &w);
    OK(rf_graph_add(g, &greedy, NULL, &x, 1, split));
    const rf_value two[] = { split[0], toy2(g, &toy_mul, x, w) };
    optimize(g, two, 2);
    assert_int_equal(1, toy_count(g, &both));
    rf_value again;
    FAILS(rf_graph_add(g, &toy_sin, NULL, &split[1], 1, &again), RF_ERROR_INVALID_ARGUMENT, "a rewrite has removed");
    rf_graph_destroy(&g);
}

static bool absorbs_cos(const rf_graph *g, rf_node producer, rf_node consumer, rf_fused *fused)
{
    fused->op = &toy_cos;
    fused->n_in = 1;
    fused->in[0] = g->nodes.items[producer].in[0];
    return g->nodes.items[consumer].op == &toy_cos;
}

static bool absorbs_wrongly(const rf_graph *g, rf_node producer, rf_node consumer, rf_fused *fused)
{
    (void)consumer;
    fused->op = &toy_sum; /* a scalar in the place of a matrix */
    fused->n_in = 1;
    fused->in[0] = g->nodes.items[producer].in[0];
    return true;
}

static bool absorbs_itself(const rf_graph *g, rf_node producer, rf_node consumer, rf_fused *fused)
{
    (void)consumer;
    fused->op = &toy_sin;
    fused->n_in = 1;
    fused->in[0] = g->nodes.items[producer].out[0];
    return true;
}

TEST(broken_hooks_are_reported)
{
    rf_value x, w;
    rf_graph *g = toy_graph(&x, &w);
    rf_op broken = toy_sin;
    broken.name = "broken";
    broken.absorb_consumer = absorbs_wrongly;
    const rf_value y = toy1(g, &toy_cos, toy1(g, &broken, x));
    FAILS(rf_graph_optimize(g, &(rf_graph_roots){ &y, 1 }), RF_ERROR_INTERNAL, "fusing 'broken' and 'toy_cos'");
    toy_check_order(g);
    broken.absorb_consumer = absorbs_itself;
    FAILS(rf_graph_optimize(g, &(rf_graph_roots){ &y, 1 }), RF_ERROR_INTERNAL, "fusing 'broken' and 'toy_cos'");
    toy_check_order(g);
    broken.absorb_consumer = NULL;
    optimize(g, &y, 1);
    rf_graph_destroy(&g);
}

/* Random graphs with updates, views and fan-out: the rewritten graph computes the same numbers. */
TEST(results_stay_the_same)
{
    uint32_t fused = 0, siblings = 0;
    for (uint64_t seed = 0; seed < 300; seed++) {
        rf_rng rng = { .key = seed };
        rf_value results[6];
        const uint32_t nodes = 3 + (uint32_t)rf_rng_below(&rng, 60);
        rf_graph *g = toy_random(&rng, nodes, 2, results, 6), *h;
        OK(rf_graph_clone(g, &h));
        optimize(h, results, 6);
        fused += toy_count(h, &toy_muladd);
        siblings += toy_count(h, &toy_square_scale);
        rf_arena arena = { 0 };
        void **was = toy_fill_leaves(g, &arena, seed), **is = toy_fill_leaves(h, &arena, seed);
        OK(rf_graph_interpret(g, &arena, was));
        OK(rf_graph_interpret(h, &arena, is));
        for (uint32_t v = 1; v < g->values.count; v++) {
            bool compare = g->values.items[v].kind == RF_VALUE_STATE;
            for (uint32_t i = 0; i < 6; i++) compare = compare || results[i] == v;
            if (compare && !same_numbers(was[v], is[v], (size_t)rf_shape_count(rf_graph_desc(g, v)->shape)))
                fail_msg("seed %d: value %u differs", (int)seed, v);
        }
        rf_arena_free(&arena);
        rf_graph_destroy(&g);
        rf_graph_destroy(&h);
    }
    print_message("%u + %u fused\n", fused, siblings);
    assert_true(fused > 50 && siblings > 50); /* the test tests something */
}

/* The processor time of this process: tests run beside each other. */
static double seconds(clock_t since)
{
    return (double)(clock() - since) / CLOCKS_PER_SEC;
}

/* Bounds are generous (a slow machine; sanitizers make everything several times slower); what is quadratic in 10,000
 * nodes exceeds them. */
TEST(ten_thousand_nodes)
{
    rf_value x, w;
    rf_graph *g = toy_graph(&x, &w);
    clock_t start = clock();
    rf_value v = x;
    for (uint32_t i = 0; i < 2000; i++) {
        const rf_value s = toy1(g, &toy_sin, v);
        v = toy2(g, &toy_add, toy2(g, &toy_mul, s, w), toy_scaled(g, x, (float)i)); /* x and w: thousands of readers */
        v = toy1(g, &toy_square, v);
    }
    const rf_value loss = toy1(g, &toy_sum, v);
    assert_true(g->nodes.count > 10000);
    const double build = seconds(start);
    start = clock();
    const rf_value targets[] = { x, w };
    rf_value grads[2];
    OK(rf_graph_differentiate(g, loss, targets, 2, grads));
    const double differentiation = seconds(start);
    start = clock();
    const rf_value results[] = { loss, grads[0], grads[1] };
    optimize(g, results, 3);
    const double optimization = seconds(start);
    assert_true(toy_count(g, &toy_muladd) >= 2000);
    start = clock();
    for (uint32_t i = 0; i < 2; i++) OK(rf_graph_specialize(g, 2));
    print_message("%u nodes: build %.4f s, differentiate %.4f s, optimize %.4f s, specialize %.4f s\n", g->nodes.count,
                  build, differentiation, optimization, seconds(start));
    const double scale = SANITIZED ? 4 : 1;
    assert_true(build < 0.5 * scale && differentiation < 0.5 * scale && optimization < 1.0 * scale);
    rf_graph_destroy(&g);

    /* One chain of ten thousand, and one where each fusion makes the one before it possible. */
    g = toy_graph(&x, &w);
    v = x;
    for (uint32_t i = 0; i < 10000; i++) v = toy_scaled(g, v, 1);
    start = clock();
    optimize(g, &v, 1);
    assert_int_equal(1, toy_live_nodes(g));
    assert_true(seconds(start) < 1.0);
    rf_graph_destroy(&g);
    g = toy_graph(&x, &w);
    rf_op back = toy_sin;
    back.absorb_consumer = absorbs_cos;
    v = x;
    for (uint32_t i = 0; i < 10000; i++) v = toy1(g, &back, v);
    v = toy1(g, &toy_cos, v);
    start = clock();
    optimize(g, &v, 1);
    assert_int_equal(1, toy_live_nodes(g));
    assert_true(seconds(start) < 0.5);
    rf_graph_destroy(&g);
}

TESTS(rewrite, NULL, NULL)
