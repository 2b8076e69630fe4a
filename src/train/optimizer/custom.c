/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Updates of callers. The caller's function is traced once, over ranges of a length that stands for all; the nodes are
 * appended again for every range that is updated. Everything it reads comes before anything is written.
 */
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/memory.h"
#include "base/philox.h"
#include "trace/trace.h"
#include "train/optimizer/optimizer.h"

enum { TRACED_LENGTH = 61 };
/* Places in rf_custom_update::leaves. */
enum { LEAF_WEIGHT, LEAF_GRADIENT, LEAF_SLOTS, LEAF_SCALARS = LEAF_SLOTS + RF_MAX_CUSTOM_SLOTS };

/* ---- what the caller describes ---- */

static rf_result copy_custom(const rf_custom_optimizer *p, rf_custom_update *c)
{
    c->params = *p;
    bool copied = (c->params.name = rf_strdup(p->name)) != NULL;
    for (uint32_t i = 0; i < p->num_slots; i++) {
        c->slots[i] = p->slots[i];
        copied = (c->slots[i].name = rf_strdup(p->slots[i].name)) != NULL && copied;
    }
    for (uint32_t i = 0; i < p->num_hyperparameters; i++) {
        c->hyperparameters[i] = p->hyperparameters[i];
        copied = (c->hyperparameters[i].name = rf_strdup(p->hyperparameters[i].name)) != NULL && copied;
    }
    c->params.slots = c->slots;
    c->params.hyperparameters = c->hyperparameters;
    return copied ? RF_OK : RF_ERROR_OUT_OF_HOST_MEMORY;
}

/* ---- the trace ---- */

static rf_result add_custom_leaves(rf_custom_update *c, rf_graph *g)
{
    const rf_tensor_desc range = { RF_F32, RF_SHAPE(TRACED_LENGTH) }, number = { RF_F32, RF_SCALAR_SHAPE };
    for (uint32_t i = 0; i < LEAF_SLOTS + c->params.num_slots; i++)
        RF_TRY(rf_graph_state(g, &c->leaves[i], range, NULL, &c->leaves[i]));
    for (uint32_t i = 0; i < rf_custom_num_scalars(c); i++)
        RF_TRY(rf_graph_host(g, &c->leaves[LEAF_SCALARS + i], number, NULL, &c->leaves[LEAF_SCALARS + i]));
    return RF_OK;
}

static rf_result take_result(rf_trace *t, rf_tensor x, const char *what, rf_value *out)
{
    rf_tensor_desc desc;
    char text[96];
    if (!rf_operand_desc(t, x, what, &desc) || !rf_operand(t, x, what, out)) return rf_trace_status(t);
    if (desc.dtype != RF_F32 || !rf_shape_equal(desc.shape, RF_SHAPE(TRACED_LENGTH)))
        return rf_trace_fail(t, RF_ERROR_INVALID_ARGUMENT, "%s became %s %s, not f32 [%d] as it was", what,
                             rf_dtype_name(desc.dtype), rf_shape_format(desc.shape, text, sizeof(text)),
                             (int)TRACED_LENGTH);
    return RF_OK;
}

static rf_result trace_custom(rf_trace *t, void *user)
{
    rf_custom_update *c = user;
    const rf_custom_optimizer *p = &c->params;
    rf_tensor old[RF_MAX_CUSTOM_SLOTS], slots[RF_MAX_CUSTOM_SLOTS], numbers[RF_MAX_HYPERPARAMETERS];
    rf_tensor weight = RF_NO_TENSOR;
    RF_TRY(add_custom_leaves(c, rf_trace_graph(t)));
    for (uint32_t i = 0; i < p->num_slots; i++) old[i] = slots[i] = rf_trace_wrap(t, c->leaves[LEAF_SLOTS + i]);
    for (uint32_t i = 0; i < p->num_hyperparameters; i++)
        numbers[i] = rf_trace_wrap(t, c->leaves[LEAF_SCALARS + RF_CUSTOM_HYPERPARAMETERS + i]);
    const rf_update_inputs in = { .weight = rf_trace_wrap(t, c->leaves[LEAF_WEIGHT]),
                                  .gradient = rf_trace_wrap(t, c->leaves[LEAF_GRADIENT]),
                                  .slots = old,
                                  .learning_rate = rf_trace_wrap(t, c->leaves[LEAF_SCALARS + RF_CUSTOM_RATE]),
                                  .step = rf_trace_wrap(t, c->leaves[LEAF_SCALARS + RF_CUSTOM_STEP]),
                                  .hyperparameters = numbers };
    RF_TRY(p->update(t, &in, &weight, slots, p->user));
    RF_TRY(take_result(t, weight, "the weight", &c->results[0]));
    for (uint32_t i = 0; i < p->num_slots; i++) {
        char what[RF_MAX_CUSTOM_NAME + 16];
        snprintf(what, sizeof(what), "slot '%s'", p->slots[i].name);
        RF_TRY(take_result(t, slots[i], what, &c->results[1 + i]));
    }
    return rf_trace_status(t);
}

/* Ranges are cut anywhere: each element must depend on those in its place alone. */
static rf_result check_elementwise(const rf_custom_update *c)
{
    for (rf_node n = 0; n < c->graph->nodes.count; n++) {
        const rf_op *op = c->graph->nodes.items[n].op;
        const bool allowed = op == &rf_op_elementwise || op == &rf_op_fill_like || op == &rf_op_broadcast_like ||
                             op == &rf_op_stop_gradient || op == &rf_op_cast;
        if (!allowed)
            return RF_FAIL(RF_ERROR_UNSUPPORTED,
                           "%s is not element-wise; an update computes each weight from what "
                           "stands in its place, and from scalars",
                           op->name);
    }
    for (rf_value v = 1; v < c->graph->values.count; v++) {
        const rf_value_info *info = &c->graph->values.items[v];
        RF_REQUIRE(info->kind != RF_VALUE_CONSTANT || rf_shape_count(info->desc.shape) == 1,
                   "a constant has %lld values; weights have no fixed number, so give a scalar",
                   (long long)rf_shape_count(info->desc.shape));
    }
    return RF_OK;
}

static rf_result make_custom(rf_strategy *strategy, const rf_custom_optimizer *params, rf_custom_update *c)
{
    RF_TRY(copy_custom(params, c));
    RF_TRY(rf_trace_alone(strategy, c->params.name, trace_custom, c, &c->graph));
    c->hash = rf_hash_bytes(c->results, sizeof(c->results), rf_graph_hash(c->graph));
    return check_elementwise(c);
}

rf_result rf_custom_update_create(rf_strategy *strategy, const rf_custom_optimizer *params, rf_custom_update **out)
{
    *out = RF_NEW(rf_custom_update);
    if (!*out) return RF_ERROR_OUT_OF_HOST_MEMORY;
    const rf_result r = make_custom(strategy, params, *out);
    if (r < 0) {
        (void)rf_error_context(r, "rf_optimizer_create: the update of '%s'", params->name);
        rf_custom_update_destroy(out);
    }
    return r;
}

void rf_custom_update_destroy(rf_custom_update **update)
{
    rf_custom_update *c = *update;
    if (!c) return;
    rf_graph_destroy(&c->graph);
    rf_free((void *)(uintptr_t)c->params.name);
    for (uint32_t i = 0; i < c->params.num_slots; i++) rf_free((void *)(uintptr_t)c->slots[i].name);
    for (uint32_t i = 0; i < c->params.num_hyperparameters; i++) rf_free((void *)(uintptr_t)c->hyperparameters[i].name);
    rf_free(c);
    *update = NULL;
}

/* ---- the update of a range ---- */

static rf_result emit_clipped(const rf_optimizer_params *p, rf_graph *g, rf_value grad, rf_value scale, rf_value *out)
{
    const rf_tensor_desc number = { RF_F32, RF_SCALAR_SHAPE };
    const float low = (float)-p->clip_value, high = (float)p->clip_value;
    rf_value least, most;
    RF_TRY(rf_emit_binary(g, RF_FN_MULTIPLY, 0, grad, scale, out));
    if (p->clip_value == 0.0) return RF_OK;
    RF_TRY(rf_graph_constant(g, number, &low, &least));
    RF_TRY(rf_graph_constant(g, number, &high, &most));
    RF_TRY(rf_emit_binary(g, RF_FN_MAXIMUM, 0, *out, least, out));
    return rf_emit_binary(g, RF_FN_MINIMUM, 0, *out, most, out);
}

static rf_result emit_decayed(const rf_optimizer_params *p, rf_graph *g, rf_value param, rf_value decay, rf_value *out)
{
    *out = param;
    if (p->weight_decay == 0.0) return RF_OK;
    RF_TRY(rf_emit_binary(g, RF_FN_MULTIPLY, 0, param, decay, out));
    return rf_emit_binary(g, RF_FN_SUBTRACT, 0, param, *out, out);
}

/* Values of the traced graph in the range's. */
static rf_result map_custom(const rf_custom_update *c, const rf_optimizer_params *p, rf_graph *g, rf_value param,
                            rf_value grad, const rf_value *slots, const rf_value *scalars, rf_value *map)
{
    RF_TRY(emit_decayed(p, g, param, scalars[RF_CUSTOM_DECAY], &map[c->leaves[LEAF_WEIGHT]]));
    RF_TRY(emit_clipped(p, g, grad, scalars[RF_CUSTOM_GRAD_SCALE], &map[c->leaves[LEAF_GRADIENT]]));
    for (uint32_t i = 0; i < c->params.num_slots; i++) map[c->leaves[LEAF_SLOTS + i]] = slots[i];
    for (uint32_t i = 0; i < rf_custom_num_scalars(c); i++) map[c->leaves[LEAF_SCALARS + i]] = scalars[i];
    for (rf_value v = 1; v < c->graph->values.count; v++) {
        const rf_value_info *info = &c->graph->values.items[v];
        if (info->kind == RF_VALUE_CONSTANT) RF_TRY(rf_graph_constant(g, info->desc, info->data, &map[v]));
    }
    return rf_graph_replay(c->graph, NULL, g, map);
}

/* The value to write to `target`; 0: none, as it stays as it is. Bytes that are written too are copied first. */
static rf_result emit_source(rf_graph *g, rf_value source, rf_value target, rf_value *out)
{
    *out = source == target ? 0 : source;
    if (*out == 0 || g->values.items[g->values.items[source].storage].kind == RF_VALUE_RESULT) return RF_OK;
    return rf_emit_unary(g, RF_FN_COPY, 0, source, out);
}

rf_result rf_custom_update_emit(const rf_custom_update *c, const rf_optimizer_params *p, rf_graph *g, rf_value param,
                                rf_value grad, const rf_value *slots, const rf_value *scalars, rf_value shadow)
{
    rf_value sources[1 + RF_MAX_CUSTOM_SLOTS];
    rf_value *map = RF_NEW_ARRAY(rf_value, c->graph->values.count);
    if (!map) return RF_ERROR_OUT_OF_HOST_MEMORY;
    rf_result r = map_custom(c, p, g, param, grad, slots, scalars, map);
    for (uint32_t i = 0; r >= 0 && i < 1 + c->params.num_slots; i++)
        r = emit_source(g, map[c->results[i]], i == 0 ? param : slots[i - 1], &sources[i]);
    for (uint32_t i = 0; r >= 0 && i < 1 + c->params.num_slots; i++)
        if (sources[i])
            r = rf_emit_update(g, &rf_op_assign, NULL,
                               (rf_value[]){ i == 0 ? param : slots[i - 1], sources[i], shadow },
                               2 + (i == 0 && shadow != 0));
    rf_free(map);
    return r;
}
