/* SPDX-License-Identifier: Apache-2.0 */
#include "train/model/layer_graph.h"

#include "base/error.h"

rf_result rf_layer_graph_add(rf_layer_graph *graph, uint32_t layer, const uint32_t *in, uint32_t num_in, uint32_t mask,
                             uint32_t num_out)
{
    RF_TRY(RF_VEC_GROW(&graph->uses));
    const rf_layer_use use = { layer, graph->operands.count, num_in, mask, num_out };
    for (uint32_t i = 0; i < num_in; i++) {
        RF_TRY(RF_VEC_GROW(&graph->operands));
        graph->operands.items[graph->operands.count++] = in[i];
    }
    graph->uses.items[graph->uses.count++] = use;
    graph->num_values += num_out;
    return RF_OK;
}

void rf_layer_graph_free(rf_layer_graph *graph)
{
    if (!graph) return;
    rf_free(graph->uses.items);
    rf_free(graph->operands.items);
    rf_free(graph);
}

/* ---- checking ---- */

/* A value that is not made before it is used would be one of a cycle, or none at all. */
static rf_result check_value(const rf_layer_graph *graph, const rf_layer *layer, uint32_t value, uint32_t known)
{
    RF_REQUIRE(value < graph->num_values, "layer '%s' uses value %u; the graph has %u", layer->name, value,
               graph->num_values);
    RF_REQUIRE(value < known, "layer '%s' uses value %u, which is made by itself or later: the graph has a cycle",
               layer->name, value);
    return RF_OK;
}

static rf_result check_uses(const rf_layer_graph *graph, rf_layer *const *layers, uint32_t num_layers)
{
    uint32_t known = graph->num_inputs;
    for (uint32_t i = 0; i < graph->uses.count; i++) {
        const rf_layer_use *use = &graph->uses.items[i];
        RF_REQUIRE(use->layer < num_layers, "call %u is of layer %u; the model has %u", i, use->layer, num_layers);
        const rf_layer *layer = layers[use->layer];
        const bool mask = use->mask != RF_NO_VALUE;
        RF_REQUIRE(use->num_in > 0, "layer '%s' has no input", layer->name);
        RF_TRY(rf_layer_check_call(layer, use->num_in, mask, use->num_out));
        for (uint32_t k = 0; k < use->num_in; k++)
            RF_TRY(check_value(graph, layer, graph->operands.items[use->first_operand + k], known));
        if (mask) RF_TRY(check_value(graph, layer, use->mask, known));
        known += use->num_out;
    }
    return RF_OK;
}

/* Marks, from the outputs back, the values that have a part in one. */
static void mark_used(const rf_layer_graph *graph, bool *used)
{
    uint32_t end = graph->num_values;
    for (uint32_t i = 0; i < graph->num_outputs; i++) used[graph->outputs[i]] = true;
    for (uint32_t i = graph->uses.count; i-- > 0;) {
        const rf_layer_use *use = &graph->uses.items[i];
        bool any = false;
        end -= use->num_out;
        for (uint32_t k = 0; k < use->num_out; k++) any = any || used[end + k];
        for (uint32_t k = 0; any && k < use->num_out; k++) used[end + k] = true;
        for (uint32_t k = 0; any && k < use->num_in; k++) used[graph->operands.items[use->first_operand + k]] = true;
        if (any && use->mask != RF_NO_VALUE) used[use->mask] = true;
    }
}

static rf_result check_parts(const rf_layer_graph *graph, rf_layer *const *layers, const bool *used,
                             const char *const *input_names)
{
    for (uint32_t i = 0; i < graph->num_inputs; i++)
        RF_REQUIRE(used[i], "input '%s' has no part in any output", input_names[i]);
    uint32_t value = graph->num_inputs;
    for (uint32_t i = 0; i < graph->uses.count; i++) {
        const rf_layer_use *use = &graph->uses.items[i];
        RF_REQUIRE(used[value], "what layer '%s' gives has no part in any output", layers[use->layer]->name);
        value += use->num_out;
    }
    return RF_OK;
}

static rf_result check_all_called(const rf_layer_graph *graph, rf_layer *const *layers, uint32_t num_layers)
{
    for (uint32_t i = 0; i < num_layers; i++) {
        bool called = false;
        for (uint32_t k = 0; k < graph->uses.count; k++) called = called || graph->uses.items[k].layer == i;
        RF_REQUIRE(called, "layer '%s' has no input: it is never called", layers[i]->name);
    }
    return RF_OK;
}

rf_result rf_layer_graph_check(const rf_layer_graph *graph, rf_layer *const *layers, uint32_t num_layers,
                               const char *const *input_names)
{
    RF_REQUIRE(graph->num_inputs > 0, "the model has no input");
    RF_REQUIRE(graph->num_outputs > 0, "the model has no output");
    RF_TRY(check_uses(graph, layers, num_layers));
    RF_TRY(check_all_called(graph, layers, num_layers));
    for (uint32_t i = 0; i < graph->num_outputs; i++)
        RF_REQUIRE(graph->outputs[i] < graph->num_values, "output %u is value %u; the graph has %u", i,
                   graph->outputs[i], graph->num_values);
    bool *used = RF_NEW_ARRAY(bool, graph->num_values);
    if (!used) return RF_ERROR_OUT_OF_HOST_MEMORY;
    mark_used(graph, used);
    const rf_result r = check_parts(graph, layers, used, input_names);
    rf_free(used);
    return r;
}
