/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every op's gradient as a graph, without a device: that it can be built, for every output and for every input alone,
 * and has its input's shape. AddressSanitizer watches over what the rules hold while the graph grows. Numbers are
 * test_ops's matter.
 */
#include <stdio.h>
#include <string.h>

#include <ringfire/common.h>

#include "graph/graph.h"
#include "ops/kit.h"
#include "ops/ops.h"
#include "tests/ops/cases/cases.h"
#include "tests/room.h"

typedef struct traced_case {
    rf_graph *graph;
    rf_value leaf[RF_MAX_INPUTS], out[RF_MAX_OUTPUTS], targets[RF_MAX_INPUTS];
    uint32_t num_targets;
} traced_case;

static void trace_case(const rf_op *op, const rf_op_case *c, traced_case *t)
{
    *t = (traced_case){ 0 };
    assert_int_equal(rf_graph_create(rf_ops_core(), &t->graph), RF_OK);
    for (uint32_t i = 0; i < c->n_in; i++) {
        const rf_tensor_desc desc = c->in[i].desc;
        assert_int_equal(rf_graph_state(t->graph, &c->in[i], desc, "x", &t->leaf[i]), RF_OK);
        if (desc.dtype == RF_F32 && !(op->shape_only >> i & 1)) t->targets[t->num_targets++] = t->leaf[i];
    }
    assert_int_equal(rf_graph_add(t->graph, op, c->attr, t->leaf, c->n_in, t->out), RF_OK);
}

/* The sum of one output, differentiated by `count` targets. */
static void differentiate(const rf_op *op, const rf_op_case *c, uint32_t output, uint32_t first, uint32_t count)
{
    traced_case t;
    rf_value sum, gradients[RF_MAX_INPUTS];
    trace_case(op, c, &t);
    assert_int_equal(rf_emit_reduce(t.graph, RF_REDUCE_KIND_SUM, t.out[output], NULL, 0, false, &sum), RF_OK);
    const rf_result r = rf_graph_differentiate(t.graph, sum, t.targets + first, count, gradients);
    /* One output or one input alone may have none, which is told in words. */
    if (r < 0 && r != RF_ERROR_NO_GRADIENT)
        fail_msg("%s: %s: output %u, inputs from %u: %s", op->name, c->name, output, first, rf_error_message());
    for (uint32_t i = 0; r >= 0 && i < count; i++)
        assert_true(rf_shape_equal(rf_graph_desc(t.graph, gradients[i])->shape,
                                   rf_graph_desc(t.graph, t.targets[first + i])->shape));
    rf_graph_destroy(&t.graph);
}

TEST(gradients_are_built)
{
    uint32_t num_ops, built = 0;
    const rf_op *const *ops = rf_ops_all(&num_ops);
    for (uint32_t n = 0; n < num_ops; n++)
        for (uint32_t k = 0; k < rf_op_cases(ops[n])->count; k++) {
            const rf_op_case *c = &rf_op_cases(ops[n])->items[k];
            if (!c->check_gradient) continue;
            traced_case t;
            trace_case(ops[n], c, &t);
            for (uint32_t o = 0; o < ops[n]->n_out; o++) {
                if (!t.out[o] || rf_graph_desc(t.graph, t.out[o])->dtype != RF_F32 || ops[n]->saved_out >> o & 1)
                    continue;
                differentiate(ops[n], c, o, 0, t.num_targets);
                for (uint32_t i = 0; t.num_targets > 1 && i < t.num_targets; i++) differentiate(ops[n], c, o, i, 1);
                built++;
            }
            rf_graph_destroy(&t.graph);
        }
    assert_true(built > 200);
    printf("%u gradients\n", built);
}

TESTS(gradients_host, NULL, NULL)
