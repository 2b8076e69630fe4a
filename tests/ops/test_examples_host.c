/* SPDX-License-Identifier: Apache-2.0 */
/* Which example of the batch elements belong to, against what the references make of a batch whose elements all hold
 * the number of their example. */
#include <stdlib.h>
#include <string.h>

#include "../support/expect.h"
#include "base/memory.h"
#include "graph/examples.h"
#include "ops/ops.h"
#include "tests/room.h"

enum { BATCH = 6, ROWS = 4, COLUMNS = 3 };

static rf_value shaped(rf_graph *g, rf_value x, rf_shape shape)
{
    rf_value out;
    OK(rf_emit_reshape(g, x, shape, &out));
    return out;
}

static rf_value transposed(rf_graph *g, rf_value x, int32_t a, int32_t b, int32_t c)
{
    rf_value out;
    OK(rf_emit_transpose(g, x, (int32_t[]){ a, b, c }, &out));
    return out;
}

static rf_value joined(rf_graph *g, rf_value a, rf_value b, int32_t axis)
{
    rf_value out;
    OK(rf_emit_concat(g, (rf_value[]){ a, b }, 2, axis, &out));
    return out;
}

static rf_value part_of(rf_graph *g, rf_value x, int32_t axis, uint32_t num_parts, uint32_t i)
{
    rf_value out[8];
    OK(rf_emit_split(g, x, axis, num_parts, out));
    return out[i];
}

static rf_value sliced(rf_graph *g, rf_value x, int64_t begin, int64_t end, int64_t step)
{
    rf_value out;
    OK(rf_emit_slice(g, x, &begin, &end, &step, 1, &out));
    return out;
}

static rf_value product(rf_graph *g, rf_value a, rf_value b, bool transpose_a, bool transpose_b)
{
    rf_value out;
    OK(rf_emit_matmul(g, a, b, transpose_a, transpose_b, &out));
    return out;
}

static rf_value twice(rf_graph *g, rf_value x)
{
    rf_value out;
    OK(rf_emit_binary(g, RF_FN_MAXIMUM, 0, x, x, &out));
    return out;
}

static rf_value ones(rf_graph *g, rf_shape shape)
{
    static const float one[64] = { 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1 };
    rf_value out;
    OK(rf_graph_constant(g, (rf_tensor_desc){ RF_F32, shape }, one, &out));
    return out;
}

/* A form of x [n, ROWS, COLUMNS]. */
typedef rf_value (*form_fn)(rf_graph *g, rf_value x);

static rf_value as_it_came(rf_graph *g, rf_value x)
{
    return twice(g, x);
}
static rf_value flat(rf_graph *g, rf_value x)
{
    return twice(g, shaped(g, x, RF_SHAPE(-1)));
}
static rf_value merged(rf_graph *g, rf_value x)
{
    return twice(g, shaped(g, x, RF_SHAPE(-1, COLUMNS)));
}
static rf_value middle(rf_graph *g, rf_value x)
{
    return twice(g, transposed(g, x, 1, 0, 2));
}
static rf_value last(rf_graph *g, rf_value x)
{
    return transposed(g, x, 2, 1, 0);
}
static rf_value rows_first_merged(rf_graph *g, rf_value x)
{
    return twice(g, shaped(g, middle(g, x), RF_SHAPE(-1, COLUMNS)));
}
static rf_value rows_first_and_back(rf_graph *g, rf_value x)
{
    return transposed(g, shaped(g, rows_first_merged(g, x), RF_SHAPE(ROWS, -1, COLUMNS)), 1, 2, 0);
}
static rf_value across(rf_graph *g, rf_value x) /* rows that begin and end within examples */
{
    return twice(g, shaped(g, x, RF_SHAPE(3, -1)));
}
static rf_value pairs(rf_graph *g, rf_value x)
{
    return twice(g, shaped(g, x, RF_SHAPE(-1, 2 * ROWS * COLUMNS)));
}
static rf_value across_and_back(rf_graph *g, rf_value x)
{
    return transposed(g, shaped(g, across(g, x), RF_SHAPE(-1, ROWS, COLUMNS)), 1, 0, 2);
}
static rf_value two_batches(rf_graph *g, rf_value x)
{
    return twice(g, joined(g, x, x, 0));
}
static rf_value two_batches_in_the_middle(rf_graph *g, rf_value x)
{
    return joined(g, middle(g, x), middle(g, x), 1);
}
static rf_value second_of_two(rf_graph *g, rf_value x)
{
    return part_of(g, two_batches(g, x), 0, 2, 1);
}
static rf_value three_copies(rf_graph *g, rf_value x)
{
    rf_value out;
    OK(rf_emit_tile(g, x, (int64_t[]){ 3 }, 1, &out));
    return out;
}
static rf_value beside(rf_graph *g, rf_value x)
{
    return joined(g, x, x, 2);
}
static rf_value more_dims(rf_graph *g, rf_value x)
{
    rf_value out;
    OK(rf_emit_expand_dims(g, middle(g, x), 0, &out));
    return twice(g, out);
}
static rf_value first_rows(rf_graph *g, rf_value x) /* of each example */
{
    rf_value out;
    OK(rf_emit_slice(g, x, (int64_t[]){ 0, 1 }, (int64_t[]){ INT64_MAX, 2 }, (int64_t[]){ 1, 1 }, 2, &out));
    return out;
}
static rf_value columns_reversed(rf_graph *g, rf_value x)
{
    rf_value out;
    OK(rf_emit_slice(g, x, (int64_t[]){ 0, 0, -1 }, (int64_t[]){ INT64_MAX, INT64_MAX, INT64_MIN },
                     (int64_t[]){ 1, 1, -1 }, 3, &out));
    return out;
}
static rf_value dense(rf_graph *g, rf_value x)
{
    rf_value out;
    const rf_value y = product(g, merged(g, x), ones(g, RF_SHAPE(COLUMNS, 5)), false, false);
    OK(rf_emit_unary(g, RF_FN_MUL_IMM, 1.0f / COLUMNS, y, &out));
    return out;
}
static rf_value reduced(rf_graph *g, rf_value x)
{
    rf_value out;
    OK(rf_emit_reduce(g, RF_REDUCE_KIND_MAX, middle(g, x), (int32_t[]){ 0 }, 1, false, &out));
    return out;
}
static rf_value gradient_of_parts(rf_graph *g, rf_value x)
{
    return product(g, x, x, true, false); /* [n, 3, 3], squares: the example stays to be seen */
}
static rf_value with_reversed(rf_graph *g, rf_value x) /* rows are still those of their examples */
{
    rf_value out;
    const rf_value zero =
        sliced(g, product(g, x, ones(g, RF_SHAPE(COLUMNS, COLUMNS)), false, false), -1, INT64_MIN, -1);
    OK(rf_emit_unary(g, RF_FN_MUL_IMM, 0, zero, &out));
    OK(rf_emit_binary(g, RF_FN_ADD, 0, x, out, &out));
    return out;
}

static rf_value looked_up(rf_graph *g, rf_value table, rf_value numbers, int32_t axis)
{
    rf_value indices, out;
    OK(rf_emit_cast(g, numbers, RF_I32, &indices));
    OK(rf_emit_gather(g, table, indices, axis, 0, &out));
    return out;
}
static rf_value embedded(rf_graph *g, rf_value x) /* by the number of the example, in a table of such numbers */
{
    static const float table[BATCH] = { 0, 1, 2, 3, 4, 5 };
    rf_value v;
    OK(rf_graph_constant(g, (rf_tensor_desc){ RF_F32, RF_SHAPE(1, BATCH) }, table, &v));
    return looked_up(g, v, middle(g, x), 1);
}

static rf_value parameters(rf_graph *g, rf_value x)
{
    (void)x;
    return twice(g, ones(g, RF_SHAPE(BATCH, 2)));
}
static rf_value sums(rf_graph *g, rf_value x)
{
    rf_value out;
    OK(rf_emit_reduce(g, RF_REDUCE_KIND_SUM, x, (int32_t[]){ 0 }, 1, false, &out));
    return out;
}
static rf_value correlations(rf_graph *g, rf_value x)
{
    const rf_value y = shaped(g, x, RF_SHAPE(-1, ROWS * COLUMNS));
    return product(g, y, y, true, false);
}

static rf_value reversed(rf_graph *g, rf_value x)
{
    return sliced(g, x, -1, INT64_MIN, -1);
}
static rf_value across_reversed(rf_graph *g, rf_value x)
{
    return sliced(g, across(g, x), -1, INT64_MIN, -1);
}
static rf_value without_the_first(rf_graph *g, rf_value x)
{
    return sliced(g, x, 1, INT64_MAX, 1);
}
static rf_value turned(rf_graph *g, rf_value x)
{
    return joined(g, sliced(g, x, 1, INT64_MAX, 1), sliced(g, x, 0, 1, 1), 0);
}
static rf_value every_other(rf_graph *g, rf_value x)
{
    return sliced(g, x, 0, INT64_MAX, 2);
}
static rf_value half(rf_graph *g, rf_value x)
{
    return part_of(g, x, 0, 2, 0);
}
static rf_value with_one_more(rf_graph *g, rf_value x)
{
    return twice(g, joined(g, x, ones(g, RF_SHAPE(1, ROWS, COLUMNS)), 0));
}
static rf_value mixed_orders(rf_graph *g, rf_value x)
{
    return joined(g, merged(g, x), rows_first_merged(g, x), 0);
}
static rf_value two_orders(rf_graph *g, rf_value x)
{
    rf_value out;
    OK(rf_emit_binary(g, RF_FN_MAXIMUM, 0, merged(g, x), rows_first_merged(g, x), &out));
    return out;
}
static rf_value similarities(rf_graph *g, rf_value x)
{
    const rf_value y = shaped(g, x, RF_SHAPE(-1, ROWS * COLUMNS));
    return product(g, y, y, false, true);
}
static rf_value sorted_batch(rf_graph *g, rf_value x)
{
    rf_value values, indices;
    OK(rf_emit_sort(g, last(g, x), false, &values, &indices));
    return values;
}
static rf_value shuffled(rf_graph *g, rf_value x) /* by what each replica finds in its share */
{
    rf_value values, indices, sums, out;
    OK(rf_emit_reduce(g, RF_REDUCE_KIND_SUM, x, (int32_t[]){ 1, 2 }, 2, false, &sums));
    OK(rf_emit_sort(g, sums, true, &values, &indices));
    OK(rf_emit_gather(g, x, indices, 0, 0, &out));
    return out;
}
static rf_value traced_size(rf_graph *g, rf_value x) /* does not fit twice the batch */
{
    return twice(g, shaped(g, x, RF_SHAPE(ROWS, BATCH * COLUMNS)));
}

static const struct {
    const char *name;
    form_fn form;
    rf_examples_kind kind;
    int64_t outer, inner;
    bool changes; /* elements are not the examples' numbers any more, but are the same within an example */
} forms[] = {
#define EACH(form, ...)                                                                                                \
    {                                                                                                                  \
#form, form, RF_EXAMPLES_EACH, __VA_ARGS__                                                                     \
    }
    EACH(as_it_came, 1, 12),
    EACH(flat, 1, 12),
    EACH(merged, 1, 12),
    EACH(middle, 4, 3),
    EACH(last, 12, 1),
    EACH(rows_first_merged, 4, 3),
    EACH(rows_first_and_back, 1, 12),
    EACH(across, 1, 12),
    EACH(pairs, 1, 12),
    EACH(across_and_back, 4, 3),
    EACH(two_batches, 2, 12),
    EACH(two_batches_in_the_middle, 8, 3),
    EACH(second_of_two, 1, 12),
    EACH(three_copies, 3, 12),
    EACH(beside, 1, 24),
    EACH(more_dims, 4, 3),
    EACH(first_rows, 1, 3),
    EACH(columns_reversed, 1, 12),
    EACH(dense, 1, 20, true),
    EACH(reduced, 1, 3),
    EACH(gradient_of_parts, 1, 9, true),
    EACH(with_reversed, 1, 12),
    EACH(embedded, 4, 3),
#define OTHER(form, kind)                                                                                              \
    {                                                                                                                  \
#form, form, kind, 0, 0, false                                                                                 \
    }
    OTHER(parameters, RF_EXAMPLES_NONE),
    OTHER(sums, RF_EXAMPLES_NONE),
    OTHER(correlations, RF_EXAMPLES_NONE),
    OTHER(reversed, RF_EXAMPLES_UNKNOWN),
    OTHER(across_reversed, RF_EXAMPLES_UNKNOWN),
    OTHER(without_the_first, RF_EXAMPLES_UNKNOWN),
    OTHER(turned, RF_EXAMPLES_UNKNOWN),
    OTHER(every_other, RF_EXAMPLES_UNKNOWN),
    OTHER(half, RF_EXAMPLES_UNKNOWN),
    OTHER(with_one_more, RF_EXAMPLES_UNKNOWN),
    OTHER(mixed_orders, RF_EXAMPLES_UNKNOWN),
    OTHER(two_orders, RF_EXAMPLES_UNKNOWN),
    OTHER(similarities, RF_EXAMPLES_UNKNOWN),
    OTHER(sorted_batch, RF_EXAMPLES_UNKNOWN),
    OTHER(shuffled, RF_EXAMPLES_UNKNOWN),
    OTHER(traced_size, RF_EXAMPLES_UNKNOWN),
};

/* Every element holds the number of the example that it is said to belong to. */
static void check_elements(rf_graph *g, rf_value x, rf_value y, const rf_examples *is, bool changes)
{
    float numbers[BATCH * ROWS * COLUMNS], of[BATCH];
    rf_arena arena = { 0 };
    void **values = RF_NEW_ARRAY(void *, g->values.count);
    for (int e = 0; e < BATCH * ROWS * COLUMNS; e++) numbers[e] = (float)(e / (ROWS * COLUMNS));
    for (rf_value v = 1; v < g->values.count; v++)
        if (g->values.items[v].kind == RF_VALUE_CONSTANT) values[v] = (void *)(uintptr_t)g->values.items[v].data;
    values[x] = numbers;
    OK(rf_graph_interpret(g, &arena, values));
    const float *elements = values[y];
    const int64_t count = rf_shape_count(rf_graph_desc(g, y)->shape);
    assert_int_equal(count, is->outer * BATCH * is->inner);
    for (int64_t e = 0; e < count; e++) {
        const int64_t example = e / is->inner % BATCH;
        if (e < is->inner * BATCH && e % is->inner == 0) of[example] = changes ? elements[e] : (float)example;
        assert_true(elements[e] == of[example]);
    }
    rf_free(values);
    rf_arena_free(&arena);
}

TEST(elements_belong_to_examples)
{
    for (size_t f = 0; f < sizeof(forms) / sizeof(forms[0]); f++) {
        rf_graph *g;
        rf_value x;
        rf_examples_map map = { 0 };
        OK(rf_graph_create(rf_ops_core(), &g));
        OK(rf_graph_input(g, 0, (rf_tensor_desc){ RF_F32, RF_SHAPE(BATCH, ROWS, COLUMNS) }, &x));
        OK(rf_examples_follow(&map, g)); /* in several steps, as a trace does it */
        const rf_value y = forms[f].form(g, x);
        OK(rf_examples_follow(&map, g));
        const rf_examples *is = &map.items[y];
        if (is->kind != forms[f].kind)
            fail_msg("%s: kind %d, not %d", forms[f].name, (int)is->kind, (int)forms[f].kind);
        if (is->kind == RF_EXAMPLES_UNKNOWN) assert_non_null(is->lost_by);
        if (is->kind == RF_EXAMPLES_EACH) {
            if (is->outer != forms[f].outer || is->inner != forms[f].inner)
                fail_msg("%s: %lld batches of %lld", forms[f].name, (long long)is->outer, (long long)is->inner);
            check_elements(g, x, y, is, forms[f].changes);
        }
        rf_examples_map_free(&map);
        rf_graph_destroy(&g);
    }
}

TESTS(examples_host, NULL, NULL)
