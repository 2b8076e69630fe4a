/* SPDX-License-Identifier: Apache-2.0 */
/* Building, sharing, cloning, dumping, specializing, interpreting; helpers for kernel plans. */
#include <stdlib.h>

#include "base/shader.h"
#include "graph/batch_dims.h"
#include "tests/room.h"
#include "toy.h"

static const char object_a, object_b;

TEST(leaves_are_shared)
{
    rf_graph *g;
    OK(rf_graph_create(&toy_core, &g));
    rf_value a, b, c;
    OK(rf_graph_input(g, 1, F32(4, 3), &a));
    OK(rf_graph_input(g, 1, F32(4, 3), &b));
    assert_int_equal(a, b);
    assert_int_equal(2, g->num_inputs);
    FAILS(rf_graph_input(g, 1, F32(4, 2), &c), RF_ERROR_INVALID_ARGUMENT, "[4,3]");

    OK(rf_graph_state(g, &object_a, F32(3), "w", &a));
    OK(rf_graph_state(g, &object_b, F32(3), "w", &b));
    OK(rf_graph_state(g, &object_a, F32(3), "w", &c));
    assert_int_equal(a, c);
    assert_int_not_equal(a, b);
    assert_int_equal(2, g->num_states);
    assert_int_equal(1, g->values.items[b].slot);
    FAILS(rf_graph_state(g, &object_a, F32(4), "w", &c), RF_ERROR_INVALID_ARGUMENT, "'w'");
    assert_int_equal(0, c);
    FAILS(rf_graph_state(g, NULL, F32(4), "w", &c), RF_ERROR_INVALID_ARGUMENT, "NULL");

    /* The same object may be a state and a host value: those are different things. */
    OK(rf_graph_host(g, &object_a, F32(3), "rate", &c));
    assert_int_not_equal(a, c);
    assert_int_equal(1, g->num_hosts);

    float data[3] = { 1, 2, 3 };
    OK(rf_graph_constant(g, F32(3), data, &a));
    OK(rf_graph_constant(g, F32(3, 1), data, &b));
    assert_int_not_equal(a, b);
    /* Constants may be differentiated by: each is one of its own, until they are joined. */
    OK(rf_graph_constant(g, F32(3), data, &b));
    assert_int_not_equal(a, b);
    data[2] = 4;
    assert_true(((const float *)g->values.items[a].data)[2] == 3);

    FAILS(rf_graph_input(g, 7, F32(-1), &c), RF_ERROR_INVALID_ARGUMENT, "input");
    FAILS(rf_graph_input(g, 7, (rf_tensor_desc){ RF_F32, RF_SHAPE(INT64_C(1) << 40, INT64_C(1) << 40) }, &c),
          RF_ERROR_INVALID_ARGUMENT, "input");
    FAILS(rf_graph_input(g, 7, (rf_tensor_desc){ RF_DTYPE_INVALID, RF_SHAPE(1) }, &c), RF_ERROR_INVALID_ARGUMENT,
          "invalid");
    FAILS(rf_graph_input(g, 7, (rf_tensor_desc){ RF_I64, RF_SHAPE(1) }, &c), RF_ERROR_INVALID_ARGUMENT,
          "input '7': i64");
    rf_graph_destroy(&g);
    assert_null(g);
    rf_graph_destroy(&g);
}

static rf_result infer_huge(rf_op_call *call)
{
    call->out[0] = F32(INT64_MAX, 4);
    return RF_OK;
}
static rf_result infer_one(rf_op_call *call)
{
    call->n_out = 1;
    call->out[0] = call->in[0];
    return RF_OK;
}

TEST(add_checks_its_arguments)
{
    rf_graph *g;
    OK(rf_graph_create(&toy_core, &g));
    rf_value x, y, out[RF_MAX_OUTPUTS] = { 0 };
    OK(rf_graph_input(g, 0, F32(4, 3), &x));
    OK(rf_graph_input(g, 1, F32(4, 2), &y));
    FAILS(rf_graph_add(g, &toy_add, NULL, &x, 1, out), RF_ERROR_INVALID_ARGUMENT, "toy_add");
    FAILS(rf_graph_add(g, &toy_add, NULL, (rf_value[]){ x, x, x }, 3, out), RF_ERROR_INVALID_ARGUMENT, "toy_add");
    FAILS(rf_graph_add(g, &toy_add, NULL, (rf_value[]){ x, 0 }, 2, out), RF_ERROR_INVALID_ARGUMENT, "toy_add");
    FAILS(rf_graph_add(g, &toy_add, NULL, (rf_value[]){ x, 99 }, 2, out), RF_ERROR_INVALID_ARGUMENT, "toy_add");
    /* Inference's own message does not name the op here; the graph adds that. */
    FAILS(rf_graph_add(g, &toy_add, NULL, (rf_value[]){ x, y }, 2, out), RF_ERROR_INVALID_ARGUMENT,
          "toy_add: shapes [4,3] and [4,2]");
    FAILS(rf_graph_add(g, &toy_accumulate, NULL, (rf_value[]){ x, x }, 2, NULL), RF_ERROR_INVALID_ARGUMENT,
          "must be a state");

    const rf_op wide = {
        .name = "wide", .min_in = 1, .max_in = 1, .n_out = 1, .attr_size = RF_MAX_ATTR + 1, .infer = infer_one
    };
    FAILS(rf_graph_add(g, &wide, NULL, &x, 1, out), RF_ERROR_INTERNAL, "wide");
    const rf_op huge = { .name = "huge", .min_in = 1, .max_in = 1, .n_out = 1, .infer = infer_huge };
    FAILS(rf_graph_add(g, &huge, NULL, &x, 1, out), RF_ERROR_INVALID_ARGUMENT, "huge");
    assert_int_equal(0, g->nodes.count);
    assert_int_equal(3, g->values.count);

    /* Inference may leave outputs out. */
    const rf_op optional = { .name = "optional", .min_in = 1, .max_in = 1, .n_out = 2, .infer = infer_one };
    out[1] = 77;
    OK(rf_graph_add(g, &optional, NULL, &x, 1, out));
    assert_int_equal(3, out[0]);
    assert_int_equal(0, out[1]);
    /* `out` may be where `in` is. */
    rf_value v = x;
    OK(rf_graph_add(g, &toy_sin, NULL, &v, 1, &v));
    assert_int_equal(x, g->nodes.items[1].in[0]);
    assert_int_equal(v, g->nodes.items[1].out[0]);
    rf_graph_destroy(&g);
}

/* Joins what is equal; gives where each value is now. */
static rf_value *share(rf_graph *g)
{
    rf_value *map = test_calloc(g->values.count, sizeof(*map));
    OK(rf_graph_merge_common(g, map));
    toy_check_order(g);
    return map;
}

TEST(equal_pure_nodes_are_joined)
{
    rf_graph *g;
    OK(rf_graph_create(&toy_core, &g));
    const float data[2][3] = { { 1, 2, 3 }, { 1, 2, 4 } };
    rf_value x, w, c[3];
    OK(rf_graph_input(g, 0, F32(4, 3), &x));
    OK(rf_graph_state(g, &object_a, F32(4, 3), "w", &w));
    for (uint32_t i = 0; i < 3; i++) OK(rf_graph_constant(g, F32(3), data[i / 2], &c[i]));
    const rf_value a = toy1(g, &toy_sin, x), a2 = toy1(g, &toy_sin, x), b = toy1(g, &toy_cos, x);
    const rf_value two = toy_scaled(g, x, 2), three = toy_scaled(g, x, 3), two2 = toy_scaled(g, x, 2);
    const rf_value ax = toy2(g, &toy_add, a, x), xa = toy2(g, &toy_add, x, a), ax2 = toy2(g, &toy_add, a2, x);
    const rf_value sums[3] = { toy1(g, &toy_sum, c[0]), toy1(g, &toy_sum, c[1]), toy1(g, &toy_sum, c[2]) };
    /* Every expression is a value of its own to begin with. */
    assert_int_not_equal(a, a2);
    assert_int_not_equal(two, two2);
    assert_int_not_equal(ax, ax2);

    /* Not across an update of what they read, directly or through a view; shapes do not change. */
    const rf_value view = toy1(g, &toy_flatten, w);
    assert_int_equal(w, g->values.items[view].storage);
    const rf_value old = toy1(g, &toy_sin, w), old_view = toy1(g, &toy_sin, toy1(g, &toy_flatten, w));
    const rf_value like = toy2(g, &toy_expand_like, toy1(g, &toy_sum, x), w);
    toy_accumulated(g, w, x);
    const rf_value new = toy1(g, &toy_sin, w), new_view = toy1(g, &toy_sin, view), new2 = toy1(g, &toy_sin, w);
    const rf_value like2 = toy2(g, &toy_expand_like, toy1(g, &toy_sum, x), w);
    /* Updates are never joined. */
    toy_accumulated(g, view, x);
    toy_accumulated(g, view, x);
    const uint32_t accumulations = toy_count(g, &toy_accumulate);

    rf_value *map = share(g);
    assert_int_equal(a, map[a2]);
    assert_int_equal(b, map[b]);
    assert_int_equal(two, map[two2]);
    assert_int_equal(three, map[three]);
    assert_int_equal(ax, map[ax2]); /* equal once their inputs are */
    assert_int_equal(xa, map[xa]);
    assert_int_equal(c[0], map[c[1]]);
    assert_int_equal(c[2], map[c[2]]);
    assert_int_equal(sums[0], map[sums[1]]);
    assert_int_equal(sums[2], map[sums[2]]);
    assert_int_equal(old, map[old]);
    assert_int_equal(new, map[new]);
    assert_int_equal(new, map[new2]);
    assert_int_equal(old_view, map[old_view]);
    assert_int_equal(new_view, map[new_view]);
    assert_int_equal(w, g->values.items[map[view]].storage);
    assert_int_equal(like, map[like2]);
    assert_int_equal(accumulations, toy_count(g, &toy_accumulate));
    test_free(map);
    /* A second pass finds nothing more. */
    const uint32_t live = toy_live_nodes(g);
    map = share(g);
    assert_int_equal(live, toy_live_nodes(g));
    test_free(map);
    rf_graph_destroy(&g);
}

TEST(clone_and_dump)
{
    rf_graph *g, *h;
    OK(rf_graph_create(&toy_core, &g));
    rf_value x, w, c;
    const float three[3] = { 1, 2, 3 };
    OK(rf_graph_input(g, 0, F32(2, 3), &x));
    OK(rf_graph_state(g, &object_a, F32(2, 3), "w", &w));
    OK(rf_graph_constant(g, F32(3), three, &c));
    toy_accumulated(g, w, toy2(g, &toy_expand_like, toy1(g, &toy_sum, c), x));
    char *text = rf_graph_dump(g);
    assert_string_equal("%1 f32[2,3] = input 0\n"
                        "%2 f32[2,3] = state 0 'w'\n"
                        "%3 f32[3] = constant\n"
                        "%4 f32[] = toy_sum(%3)\n"
                        "%5 f32[2,3] = toy_expand_like(%4, #%1)\n"
                        "toy_accumulate(!%2, %5)\n",
                        text);
    OK(rf_graph_clone(g, &h));
    rf_graph_destroy(&g);
    char *copy = rf_graph_dump(h);
    assert_string_equal(text, copy);
    /* The clone finds the leaves that are in it, too. */
    rf_value again;
    OK(rf_graph_state(h, &object_a, F32(2, 3), "w", &again));
    assert_int_equal(w, again);
    rf_free(text);
    rf_free(copy);
    rf_graph_destroy(&h);

    OK(rf_graph_create(NULL, &g));
    text = rf_graph_dump(g);
    assert_string_equal("", text);
    rf_free(text);
    OK(rf_graph_clone(g, &h));
    rf_graph_destroy(&h);
    OK(rf_graph_optimize(g, NULL));
    OK(rf_graph_specialize(g, 0));
    rf_graph_destroy(&g);
}

TEST(specialize_infers_again)
{
    rf_graph *g;
    OK(rf_graph_create(&toy_core, &g));
    rf_value x, w;
    OK(rf_graph_input(g, 0, F32(4, 5, 2), &x));
    OK(rf_graph_state(g, &object_a, F32(7), "w", &w));
    const rf_value flat = toy1(g, &toy_flatten, toy1(g, &toy_sin, x)), sum = toy1(g, &toy_sum, flat);
    OK(rf_graph_specialize(g, 9));
    assert_true(rf_shape_equal(RF_SHAPE(9, 10), rf_graph_desc(g, flat)->shape));
    assert_true(rf_shape_equal(RF_SCALAR_SHAPE, rf_graph_desc(g, sum)->shape));
    assert_true(rf_shape_equal(RF_SHAPE(7), rf_graph_desc(g, w)->shape));
    FAILS(rf_graph_specialize(g, 0), RF_ERROR_INVALID_ARGUMENT, "batch");
    OK(rf_graph_specialize(g, 4));

    const rf_shape fixed = RF_SHAPE(8, 5);
    rf_value y;
    OK(rf_graph_add(g, &toy_reshape, &fixed, &flat, 1, &y));
    char *before = rf_graph_dump(g);
    FAILS(rf_graph_specialize(g, 6), RF_ERROR_INVALID_ARGUMENT, "toy_reshape");
    FAILS(rf_graph_specialize(g, 6), RF_ERROR_INVALID_ARGUMENT, "traced with 4 examples does not fit a batch of 6");
    char *after = rf_graph_dump(g);
    assert_string_equal(before, after); /* all or nothing */
    rf_free(before);
    rf_free(after);
    OK(rf_graph_specialize(g, 4));

    rf_value scalar;
    OK(rf_graph_input(g, 1, SCALAR, &scalar));
    FAILS(rf_graph_specialize(g, 4), RF_ERROR_INVALID_ARGUMENT, "input 1 is a scalar");
    rf_graph_destroy(&g);
}

/* [a, ...], [b, ...] -> [a, b]. */
static rf_result infer_pairs(rf_op_call *call)
{
    call->out[0] = F32(call->in[0].shape.dim[0], call->in[1].shape.dim[0]);
    return RF_OK;
}

/* Pairs of rows, the odd one left out. */
static rf_result infer_halves(rf_op_call *call)
{
    call->out[0] = F32(call->in[0].shape.dim[0] / 2);
    return RF_OK;
}

static const rf_op pairs = { .name = "pairs", .min_in = 2, .max_in = 2, .n_out = 1, .infer = infer_pairs };
static const rf_op halves = { .name = "halves", .min_in = 1, .max_in = 1, .n_out = 1, .infer = infer_halves };

static void expect_dim(rf_graph *g, rf_value v, int32_t d, int64_t per_example, int64_t fixed)
{
    rf_batch_dim dim;
    bool linear = false;
    OK(rf_graph_batch_dim(g, v, d, &dim, &linear));
    assert_true(linear);
    assert_int_equal(per_example, dim.per_example);
    assert_int_equal(fixed, dim.fixed);
}

TEST(batch_dims_are_found)
{
    rf_graph *g;
    rf_value x, w;
    uint32_t dims;
    OK(rf_graph_create(&toy_core, &g));
    OK(rf_graph_input(g, 0, F32(4, 5), &x));
    OK(rf_graph_state(g, &object_a, F32(4, 4), "w", &w)); /* as large as the batch, and fixed */
    const rf_value square = toy2(g, &pairs, x, x), mixed = toy2(g, &pairs, w, x), flat = toy1(g, &toy_flatten, square);
    OK(rf_graph_batch_dims(g, x, &dims));
    assert_int_equal(1, dims);
    OK(rf_graph_batch_dims(g, square, &dims));
    assert_int_equal(3, dims);
    OK(rf_graph_batch_dims(g, mixed, &dims));
    assert_int_equal(2, dims);
    OK(rf_graph_batch_dims(g, w, &dims));
    assert_int_equal(0, dims);
    expect_dim(g, mixed, 0, 0, 4);
    expect_dim(g, flat, 1, 1, 0);

    /* Later nodes are found, too. */
    rf_batch_dim dim;
    bool linear;
    const rf_value half = toy1(g, &halves, x);
    OK(rf_graph_batch_dim(g, half, 0, &dim, &linear));
    assert_false(linear); /* 2 of 4, but 22 of 44 and 14 of 28: half an example each */
    OK(rf_graph_batch_dims(g, half, &dims));
    assert_int_equal(1, dims);
    rf_graph_destroy(&g);
}

TEST(what_fits_one_batch_is_refused)
{
    rf_graph *g;
    rf_value x, w;
    OK(rf_graph_create(&toy_core, &g));
    OK(rf_graph_input(g, 0, F32(4, 5), &x));
    OK(rf_graph_state(g, &object_a, F32(4, 4), "w", &w));
    const rf_value square = toy2(g, &pairs, x, x), fits = toy1(g, &toy_sin, square);
    OK(rf_graph_set_call(g, "rf_add: a"));
    const rf_value sum = toy2(g, &toy_add, square, w);
    /* Only where it is needed. */
    OK(rf_graph_check_batches(g, &fits, 1));
    assert_null(g->fixed_by);
    OK(rf_graph_check_batches(g, &sum, 1));
    assert_non_null(g->fixed_by);
    assert_non_null(strstr(g->fixed_by, "rf_add of [n, n] and [4, 4] fits n = 4 alone"));
    for (int64_t batch = 1; batch < 8; batch++) {
        if (batch == 4) continue;
        FAILS(rf_graph_specialize(g, batch), RF_ERROR_INVALID_ARGUMENT, "rf_add of [n, n] and [4, 4]");
    }
    OK(rf_graph_specialize(g, 4));
    rf_graph_destroy(&g);
}

static rf_result infer_looked_up(rf_op_call *call)
{
    call->out[0] = call->in[1];
    return RF_OK;
}

static int64_t rows_of_table(const rf_op_call *call)
{
    return call->in[0].shape.dim[0];
}

static int64_t columns_of_table(const rf_op_call *call)
{
    return call->in[0].shape.dim[1];
}

static const rf_op by_row = { .name = "by_row",
                              .min_in = 2,
                              .max_in = 2,
                              .n_out = 1,
                              .infer = infer_looked_up,
                              .choices = rows_of_table,
                              .index_input = 1 };
static const rf_op by_column = { .name = "by_column",
                                 .min_in = 2,
                                 .max_in = 2,
                                 .n_out = 1,
                                 .infer = infer_looked_up,
                                 .choices = columns_of_table,
                                 .index_input = 1 };

static rf_value look_up(rf_graph *g, const rf_op *op, rf_value table, rf_value indices)
{
    rf_value out;
    OK(rf_graph_add(g, op, NULL, (rf_value[]){ table, indices }, 2, &out));
    return out;
}

TEST(lookups_are_found)
{
    rf_graph *g;
    OK(rf_graph_create(&toy_core, &g));
    rf_value in[6], large, small;
    for (uint32_t i = 0; i < 6; i++) OK(rf_graph_input(g, i, F32(4, 5), &in[i]));
    OK(rf_graph_state(g, &object_a, F32(9, 3), "large", &large));
    OK(rf_graph_state(g, &object_b, F32(7, 3), "small", &small));
    look_up(g, &by_row, large, toy1(g, &toy_flatten, in[0])); /* through a view */
    look_up(g, &by_row, large, in[1]);
    look_up(g, &by_row, small, in[1]); /* the fewest count */
    look_up(g, &by_row, large, in[1]);
    look_up(g, &by_row, large, toy1(g, &toy_sin, in[2])); /* computed */
    look_up(g, &by_row, in[5], in[3]);                    /* as many as there are examples */
    look_up(g, &by_column, in[5], in[4]);
    rf_lookup lookups[5];
    OK(rf_graph_find_lookups(g, lookups, 5)); /* slot 5 is beyond the room */
    assert_ptr_equal(lookups[0].op, &by_row);
    assert_int_equal(lookups[0].choices, 9);
    assert_int_equal(lookups[0].table, large);
    assert_int_equal(lookups[1].choices, 7);
    assert_int_equal(lookups[1].table, small);
    assert_null(lookups[2].op);
    assert_null(lookups[3].op);
    assert_ptr_equal(lookups[4].op, &by_column);
    assert_int_equal(lookups[4].choices, 5);
    /* As many columns as there are examples: they are no fixed number of choices. */
    look_up(g, &by_column, toy2(g, &pairs, in[5], in[5]), in[2]);
    look_up(g, &by_row, large, in[5]);
    OK(rf_graph_find_lookups(g, lookups, 5));
    assert_null(lookups[2].op);
    rf_graph_destroy(&g);
}

TEST(interpret_in_program_order)
{
    rf_graph *g;
    OK(rf_graph_create(&toy_core, &g));
    rf_value x, w;
    OK(rf_graph_input(g, 0, F32(1, 1), &x));
    OK(rf_graph_state(g, &object_a, F32(1, 1), "w", &w));
    const rf_value view = toy1(g, &toy_flatten, w);
    const rf_value before = toy_scaled(g, view, 10);
    toy_accumulated(g, w, x);
    const rf_value after = toy_scaled(g, view, 10);
    rf_arena arena = { 0 };
    void **values = rf_arena_alloc(&arena, g->values.count * sizeof(*values));
    float xs = 3, ws = 4;
    values[x] = &xs;
    FAILS(rf_graph_interpret(g, &arena, values), RF_ERROR_INVALID_ARGUMENT, "toy_flatten: input 0");
    values[w] = &ws;
    OK(rf_graph_interpret(g, &arena, values));
    assert_true(*(float *)values[before] == 40 && *(float *)values[after] == 70 && ws == 7);
    rf_arena_free(&arena);
    rf_graph_destroy(&g);
}

static rf_device_caps plan_caps(void)
{
    return (rf_device_caps){ .max_workgroup_size = { 128, 128, 64 },
                             .max_workgroup_invocations = 128,
                             .max_grid = { 10, 20, 30 },
                             .max_push_constants = 128 };
}

/* One dispatch that keeps to all limits, to be broken one at a time. */
static rf_dispatch *plan_of_one(rf_kernel_plan *plan, uint64_t loops)
{
    static const rf_shader shader = { .name = "toy" };
    rf_kernel_plan_free(plan);
    rf_dispatch *d = rf_kernel_plan_add(plan, &shader, loops);
    assert_non_null(d);
    rf_dispatch_spec(d, 128);
    for (int i = 0; i < 3; i++) d->grid[i] = 1;
    return d;
}

TEST(kernel_plans_are_held_against_the_device)
{
    rf_device_caps caps = plan_caps();
    rf_kernel_plan plan = { 0 };
    FAILS(rf_kernel_plan_check(&plan, &caps), RF_ERROR_INTERNAL, "no dispatch");
    plan_of_one(&plan, RF_NO_LOOPS);
    OK(rf_kernel_plan_check(&plan, &caps));

    plan.counters = RF_MAX_COUNTERS;
    OK(rf_kernel_plan_check(&plan, &caps));
    plan.counters++;
    FAILS(rf_kernel_plan_check(&plan, &caps), RF_ERROR_INTERNAL, "65537 bytes of counters");

    plan_of_one(&plan, 0);
    FAILS(rf_kernel_plan_check(&plan, &caps), RF_ERROR_INTERNAL, "does not say how long");
    plan_of_one(&plan, UINT64_MAX);
    OK(rf_kernel_plan_check(&plan, &caps)); /* a device without the limit */
    caps.max_loop_iterations = 1000;
    plan_of_one(&plan, 1000);
    OK(rf_kernel_plan_check(&plan, &caps));
    plan_of_one(&plan, 1001);
    FAILS(rf_kernel_plan_check(&plan, &caps), RF_ERROR_INTERNAL, "loops 1001 times");

    rf_kernel_plan_free(&plan);
    rf_dispatch *copy = rf_kernel_plan_add_runs(&plan, &(rf_runs){ .bytes = 4, .rank = 1, .count = { 3 } });
    assert_non_null(copy);
    FAILS(rf_kernel_plan_check(&plan, &caps), RF_ERROR_INTERNAL, "no copy or fill");
    (void)rf_dispatch_bind(copy, RF_BIND_INPUT, 0, RF_VIEW_STORAGE, false);
    (void)rf_dispatch_bind(copy, RF_BIND_OUTPUT, 0, RF_VIEW_STORAGE, true);
    OK(rf_kernel_plan_check(&plan, &caps));
    copy->runs.count[0] = 0;
    FAILS(rf_kernel_plan_check(&plan, &caps), RF_ERROR_INTERNAL, "no copy or fill");

    plan_of_one(&plan, 1)->spec[0] = 129;
    FAILS(rf_kernel_plan_check(&plan, &caps), RF_ERROR_INTERNAL, "workgroups of 129");
    plan_of_one(&plan, 1)->n_spec = 0;
    FAILS(rf_kernel_plan_check(&plan, &caps), RF_ERROR_INTERNAL, "workgroups of 0");
    plan_of_one(&plan, 1)->grid[1] = 21;
    FAILS(rf_kernel_plan_check(&plan, &caps), RF_ERROR_UNSUPPORTED, "1 x 21 x 1");
    plan_of_one(&plan, 1)->grid[2] = 0;
    FAILS(rf_kernel_plan_check(&plan, &caps), RF_ERROR_UNSUPPORTED, "1 x 1 x 0");
    plan_of_one(&plan, 1)->push_size = 128;
    OK(rf_kernel_plan_check(&plan, &caps));
    caps.max_push_constants = 64;
    FAILS(rf_kernel_plan_check(&plan, &caps), RF_ERROR_INTERNAL, "128 push-constant bytes");
    rf_kernel_plan_free(&plan);
}

TEST(kernel_plans_do_not_overflow)
{
    const rf_shader shader = { .name = "toy" };
    const rf_device_caps caps = plan_caps();
    rf_kernel_plan plan = { 0 };
    for (uint32_t i = 0; i < 100; i++) {
        rf_dispatch *d = rf_kernel_plan_add(&plan, &shader, RF_NO_LOOPS);
        assert_non_null(d);
        assert_int_equal(0, d->n_spec);
        rf_dispatch_spec(d, 64);
        rf_dispatch_spec(d, i);
        rf_dispatch_push(d, &i, sizeof(i));
        rf_dispatch_bind(d, RF_BIND_OUTPUT, 1, RF_VIEW_STORAGE, true);
        d->grid[0] = d->grid[1] = d->grid[2] = 1;
    }
    assert_int_equal(100, plan.count);
    rf_dispatch *d = &plan.items[99];
    assert_int_equal(99, d->spec[1]);
    assert_int_equal(99, d->push[0]);
    assert_int_equal(sizeof(uint32_t), d->push_size);
    assert_true(d->bind[0].write && d->bind[0].index == 1 && d->bind[0].kind == RF_BIND_OUTPUT);
    OK(rf_kernel_plan_check(&plan, &caps));
    for (uint32_t i = 2; i < RF_MAX_SPEC; i++) rf_dispatch_spec(d, 0);
    OK(rf_kernel_plan_check(&plan, &caps));
    rf_dispatch_spec(d, 0);
    FAILS(rf_kernel_plan_check(&plan, &caps), RF_ERROR_INTERNAL, "toy");
    d->n_spec = 2;
    for (uint32_t i = 0; i < RF_MAX_BINDINGS; i++) {
        rf_binding *binding = rf_dispatch_bind(d, RF_BIND_INPUT, i, RF_VIEW_STORAGE, false);
        assert_true(binding >= d->bind && binding < d->bind + RF_MAX_BINDINGS); /* for callers to write to */
    }
    FAILS(rf_kernel_plan_check(&plan, &caps), RF_ERROR_INTERNAL, "bindings");
    d->n_bind = 1;
    char big[RF_MAX_PUSH + 4] = { 0 };
    rf_dispatch_push(d, big, sizeof(big));
    FAILS(rf_kernel_plan_check(&plan, &caps), RF_ERROR_INTERNAL, "132");
    rf_kernel_plan_free(&plan);
    assert_null(plan.items);
    rf_kernel_plan_free(NULL);
}

static double score_of_data(const rf_op_call *call, const rf_device_caps *caps, const void *data)
{
    (void)call;
    (void)caps;
    return *(const int *)data;
}

static bool is_this(const rf_op *op, const rf_kernel *kernel, const void *user)
{
    (void)op;
    return kernel == user;
}

static bool scores_three(const rf_op *op, const rf_kernel *kernel, const void *user)
{
    (void)op;
    (void)user;
    return *(const int *)kernel->data == 3;
}

/* The first of the best runs; without it the next best one does, and without the only one none. */
TEST(kernels_are_left_out)
{
    static const int scores[] = { 2, 3, 3, 0 };
    rf_kernel rows[4];
    for (int i = 0; i < 4; i++) rows[i] = (rf_kernel){ .score = score_of_data, .data = &scores[i] };
    const rf_kernel_list all = { rows, 4 }, few = { rows, 1 };
    const rf_op op = { .families = { &all } }, narrow = { .families = { &few } };
    const rf_op_call call = { .op = &op }, other = { .op = &narrow };
    const rf_device_caps caps = { 0 };
    assert_ptr_equal(rf_best_kernel(&call, &caps), &rows[1]);
    assert_ptr_equal(rf_best_kernel_without(&call, &caps, NULL, NULL), &rows[1]);
    assert_ptr_equal(rf_best_kernel_without(&call, &caps, is_this, &rows[0]), &rows[1]);
    assert_ptr_equal(rf_best_kernel_without(&call, &caps, is_this, &rows[1]), &rows[2]);
    assert_ptr_equal(rf_best_kernel_without(&call, &caps, scores_three, NULL), &rows[0]);
    assert_ptr_equal(rf_best_kernel(&other, &caps), &rows[0]);
    assert_null(rf_best_kernel_without(&other, &caps, is_this, &rows[0]));
}

TEST(tensor_bytes)
{
    assert_int_equal(4, rf_tensor_bytes(&SCALAR));
    assert_int_equal(24, rf_tensor_bytes(&F32(2, 3)));
    assert_int_equal(0, rf_tensor_bytes(&F32(2, 0)));
    assert_int_equal(6, rf_tensor_bytes(&(rf_tensor_desc){ RF_U8, RF_SHAPE(2, 3) }));
}

TESTS(graph, NULL, NULL)
