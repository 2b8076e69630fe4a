/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The graph in a model file, as rf_inference_load() reads it; tensors are whatever the text says, within 64 KiB each. A
 * graph that is accepted must come out the same when it is written and read again, and be a graph whose shapes can be
 * inferred.
 */
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/memory.h"
#include "fuzz.h"
#include "train/files/inference_json.h"

enum { MOST_BYTES = 1 << 16, MOST_VALUES = 4096 };

static char objects[MOST_VALUES]; /* that stand for variables */
static uint32_t num_objects;

static rf_result constant(void *user, const char *tensor, const rf_tensor_desc *desc, void **data)
{
    (void)user;
    const uint64_t bytes = rf_tensor_bytes(desc);
    /* Equal constants would become one: each has another number in it, and room for that. */
    if (bytes > MOST_BYTES || bytes < sizeof(num_objects)) return RF_FAIL(RF_ERROR_CORRUPT_DATA, "tensor '%s'", tensor);
    *data = rf_calloc((size_t)bytes, 1);
    PROMISE(*data);
    memcpy(*data, &num_objects, sizeof(num_objects));
    num_objects++;
    return RF_OK;
}

static rf_result variable(void *user, const char *tensor, const char *name, const rf_tensor_desc *desc, void **object)
{
    (void)user;
    PROMISE(desc->dtype == RF_F32 && name);
    if (num_objects == MOST_VALUES) return RF_FAIL(RF_ERROR_CORRUPT_DATA, "tensor '%s'", tensor);
    *object = &objects[num_objects++];
    return RF_OK;
}

static rf_result read_text(const char *text, size_t size, rf_inference_graph *out)
{
    static const rf_inference_tensors tensors = { .constant = constant, .variable = variable };
    num_objects = 0;
    return rf_inference_graph_from_text(text, size, &tensors, out);
}

static char *write_text(const rf_inference_graph *g)
{
    static char label[] = "t";
    char *text, **names = RF_NEW_ARRAY(char *, g->graph->values.count);
    PROMISE(names);
    for (rf_value v = 1; v < g->graph->values.count; v++) {
        const rf_value_kind kind = g->graph->values.items[v].kind;
        if (kind == RF_VALUE_STATE || kind == RF_VALUE_CONSTANT) names[v] = label;
    }
    PROMISE(rf_inference_graph_to_text(g, names, &text) == RF_OK);
    rf_free(names);
    return text;
}

FUZZ_TARGET(graph)
{
    rf_inference_graph one, two;
    const rf_result r = read_text((const char *)data, size, &one);
    if (r < 0) {
        PROMISE((r == RF_ERROR_CORRUPT_DATA || r == RF_ERROR_UNSUPPORTED) && rf_error_message()[0] && !one.graph);
        return 0;
    }
    PROMISE(one.num_outputs > 0);
    for (rf_node n = 0; n < one.graph->nodes.count; n++) PROMISE(one.graph->nodes.items[n].op->mutates == 0);
    char *first = write_text(&one);
    PROMISE(read_text(first, strlen(first), &two) == RF_OK);
    char *second = write_text(&two);
    PROMISE(strcmp(first, second) == 0);
    rf_free(first);
    rf_free(second);
    rf_inference_graph_free(&one);
    rf_inference_graph_free(&two);
    return 0;
}
