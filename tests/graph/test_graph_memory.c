/* SPDX-License-Identifier: Apache-2.0 */
/* Every allocation of the graph layer fails once: the failure is reported, the graph stays whole, nothing leaks (the
 * last under AddressSanitizer). Allocation is replaced with the linker's --wrap. */
#include "../sanitized.h"
#include "../support/allocations.h"
#include "tests/room.h"
#include "toy.h"

typedef struct everything {
    rf_graph *graph, *clone;
    rf_arena arena;
    rf_memory_plan plan;
    char *dump;
} everything;

static rf_result add1(rf_graph *g, const rf_op *op, const void *attr, rf_value *v)
{
    return rf_graph_add(g, op, attr, v, 1, v);
}

static rf_result build(rf_graph *g, rf_value *results)
{
    static const char object;
    float data[64 * 4] = { 0 };
    rf_value x, w, c, rate, pair[2];
    RF_TRY(rf_graph_input(g, 0, F32(64, 4), &x));
    RF_TRY(rf_graph_state(g, &object, F32(64, 4), "w", &w));
    RF_TRY(rf_graph_host(g, &object, SCALAR, "rate", &rate));
    RF_TRY(rf_graph_constant(g, F32(64, 4), data, &c));
    rf_value v = x;
    /* Under sanitizers arrays move with each element, so that the time grows with the cube of their length. */
    for (uint32_t i = 0; i < (SANITIZED ? 16 : 60); i++) {
        const float by = (float)i;
        rf_value s = v;
        RF_TRY(add1(g, &toy_sin, NULL, &v));
        RF_TRY(rf_graph_add(g, &toy_mul, NULL, (rf_value[]){ v, w }, 2, &v));
        RF_TRY(rf_graph_add(g, &toy_add, NULL, (rf_value[]){ v, i % 2 ? c : x }, 2, &v));
        RF_TRY(add1(g, &toy_flatten, NULL, &v));
        RF_TRY(add1(g, &toy_scale, &by, &s));
        RF_TRY(add1(g, &toy_scale, &by, &s));
        RF_TRY(rf_graph_add(g, &toy_add, NULL, (rf_value[]){ v, s }, 2, &v));
        pair[0] = pair[1] = v;
        RF_TRY(add1(g, &toy_square, NULL, &pair[0]));
        RF_TRY(add1(g, &toy_scale, &by, &pair[1]));
        RF_TRY(rf_graph_add(g, &toy_add, NULL, pair, 2, &v));
    }
    results[0] = v;
    RF_TRY(add1(g, &toy_sum, NULL, &results[0]));
    RF_TRY(rf_graph_differentiate(g, results[0], (rf_value[]){ x, w }, 2, results + 1));
    return rf_graph_add(g, &toy_accumulate, NULL, (rf_value[]){ w, results[2] }, 2, NULL);
}

static rf_result do_everything(everything *all)
{
    rf_value results[3];
    const rf_graph_roots roots = { results, 3 };
    RF_TRY(rf_graph_create(&toy_core, &all->graph));
    RF_TRY(build(all->graph, results));
    rf_value *map = rf_arena_alloc(&all->arena, all->graph->values.count * sizeof(*map));
    if (!map) return RF_ERROR_OUT_OF_HOST_MEMORY;
    RF_TRY(rf_graph_merge_common(all->graph, map));
    for (uint32_t i = 0; i < 3; i++) results[i] = map[results[i]];
    RF_TRY(rf_graph_clone(all->graph, &all->clone));
    RF_TRY(rf_graph_optimize(all->graph, &roots));
    if (!(all->dump = rf_graph_dump(all->graph))) return RF_ERROR_OUT_OF_HOST_MEMORY;
    RF_TRY(rf_memory_plan_make(all->graph, &(rf_memory_plan_params){ .roots = roots, .alignment = 64 }, &all->plan));
    void **values = rf_arena_alloc(&all->arena, all->graph->values.count * sizeof(*values));
    if (!values) return RF_ERROR_OUT_OF_HOST_MEMORY;
    for (uint32_t v = 1; v < all->graph->values.count; v++) {
        if (all->graph->values.items[v].kind == RF_VALUE_RESULT) continue;
        values[v] = rf_arena_alloc(&all->arena, rf_tensor_bytes(rf_graph_desc(all->graph, v)));
        if (!values[v]) return RF_ERROR_OUT_OF_HOST_MEMORY;
    }
    return rf_graph_interpret(all->graph, &all->arena, values);
}

TEST(every_allocation_fails_once)
{
    long failures = 0;
    for (long limit = 0;; limit++) {
        everything all = { 0 };
        allowed = limit;
        const rf_result r = do_everything(&all);
        const bool exhausted = allowed < 0;
        allowed = -1;
        if (r != RF_OK) assert_int_equal(RF_ERROR_OUT_OF_HOST_MEMORY, r);
        if (all.graph) {
            toy_check_order(all.graph);
            /* Still in working order. */
            rf_graph *again;
            OK(rf_graph_optimize(all.graph, NULL));
            OK(rf_graph_clone(all.graph, &again));
            rf_graph_destroy(&again);
        }
        rf_graph_destroy(&all.graph);
        rf_graph_destroy(&all.clone);
        rf_memory_plan_free(&all.plan);
        rf_arena_free(&all.arena);
        rf_free(all.dump);
        if (!exhausted) {
            OK(r);
            break;
        }
        assert_true(r < 0);
        failures++;
    }
    print_message("%ld allocations failed\n", failures);
    assert_true(failures > 30);
}

TESTS(graph_memory, NULL, NULL)
