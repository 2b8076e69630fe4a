/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A graph: values and the nodes (op applications) that make them, in an order in which each node follows its inputs.
 * Pure host data. Shapes are those of the traced batch; rf_graph_specialize() infers them again for another batch.
 */
#ifndef RF_GRAPH_GRAPH_H
#define RF_GRAPH_GRAPH_H

#include "base/memory.h"
#include "graph/op.h"

typedef enum rf_value_kind {
    RF_VALUE_NONE,
    RF_VALUE_INPUT, /* component `slot` of the batch; dimension 0 is the batch */
    RF_VALUE_STATE, /* device memory that outlives a run, e.g. a variable; `slot` numbers it within the graph, `object`
                       says which one to whoever compiles the graph */
    RF_VALUE_HOST,  /* a few numbers that the host writes before each run; `slot` numbers it, `object` identifies */
    RF_VALUE_CONSTANT, /* bytes in `data` */
    RF_VALUE_RESULT,   /* output `slot` of node `producer` */
} rf_value_kind;

typedef struct rf_value_info {
    rf_value_kind kind;
    rf_tensor_desc desc;
    uint32_t slot;
    rf_node producer;   /* for RESULT */
    const void *object; /* for STATE and HOST: identity, not owned */
    const void *data;   /* for CONSTANT: owned by the graph */
    const char *name;   /* may be NULL; owned by the graph */
    rf_value storage;   /* whose bytes these are: itself, or what the view (of the view ...) looks at */
    uint32_t uses;      /* live nodes that read it */
    uint32_t mutated;   /* for STATE: 1 + number of the last node that updates it in place, 0: none */
} rf_value_info;

typedef struct rf_node_info {
    const rf_op *op;
    const void *attr; /* op->attr_size bytes, owned by the graph */
    uint32_t n_in, n_out;
    rf_value in[RF_MAX_INPUTS];
    rf_value out[RF_MAX_OUTPUTS];
    const char *call; /* what the user called, for messages: see rf_graph_set_call(); NULL: nothing is known */
    bool fixed;       /* fits the traced batch alone; known for the nodes that batch_dims.c has seen */
    bool dead;        /* removed by a rewrite */
} rf_node_info;

/* Shapes of a value for two other batches; batch_dims.c's own. */
typedef struct rf_batch_shapes {
    rf_shape at[2];
} rf_batch_shapes;

/* Batches of other sizes are refused; the reason names the call of the step. */
typedef struct rf_batch_limit {
    int64_t least, most;
    const char *reason;
} rf_batch_limit;

/* A value and its gradient, or a part of that, have one shape, whatever the batch. */
typedef struct rf_shape_pair {
    rf_value value, gradient;
} rf_shape_pair;

/* A hash table of leaves and nodes; index.c's own. */
typedef struct rf_graph_index {
    uint32_t *slots, count, capacity;
} rf_graph_index;

struct rf_graph {
    rf_arena arena;
    const rf_core_ops *core;
    struct {
        rf_value_info *items;
        uint32_t count, capacity;
    } values; /* [0] is "none" */
    struct {
        rf_node_info *items;
        uint32_t count, capacity;
    } nodes;
    struct {
        const rf_op **items;
        uint32_t count, capacity;
    } held;      /* ops with `retain`, once each */
    void *trace; /* whoever traces into it, for gradients that are traced; NULL: nobody */
    uint32_t num_inputs, num_states, num_hosts; /* one more than the largest slot */
    rf_graph_index leaves;                      /* those that are found again: all but constants */
    const char *call;                           /* of the nodes to come */
    struct {
        rf_batch_shapes *items; /* of the first values */
        uint32_t count, capacity;
        uint32_t nodes;   /* whose results are among them */
        int64_t examples; /* of the traced batch; 0: there is none */
        uint32_t pair;    /* which other batches they are */
    } batches;
    struct {
        rf_shape_pair *items;
        uint32_t count, capacity;
    } gradients;
    bool batches_checked;
    struct {
        rf_batch_limit *items;
        uint32_t count, capacity;
    } limits;
    const char *fixed_by; /* once checked: why no batch but the traced one fits; NULL: others do */
};

rf_result rf_graph_create(const rf_core_ops *core, rf_graph **out);
void rf_graph_destroy(rf_graph **graph);
rf_result rf_graph_clone(const rf_graph *graph, rf_graph **out); /* values and nodes keep their numbers */

rf_result rf_graph_input(rf_graph *graph, uint32_t slot, rf_tensor_desc desc, rf_value *out);
/* The same object gives the same value again. */
rf_result rf_graph_state(rf_graph *graph, const void *object, rf_tensor_desc desc, const char *name, rf_value *out);
rf_result rf_graph_host(rf_graph *graph, const void *object, rf_tensor_desc desc, const char *name, rf_value *out);
rf_result rf_graph_constant(rf_graph *graph, rf_tensor_desc desc, const void *data, rf_value *out); /* copies */
/* Infers, appends; out[] gets op->n_out values (0 for those that inference left out). `attr` may be NULL (zeroes).
 * Every call makes values of its own, whatever is in the graph already: two equal expressions are two targets of
 * differentiation. rf_graph_merge_common() joins them once all gradients are there. */
rf_result rf_graph_add(rf_graph *graph, const rf_op *op, const void *attr, const rf_value *in, uint32_t n_in,
                       rf_value *out);

/* Nodes to come are part of this call of the user, such as "rf_sort", for messages. Copied. A text ends at its
 * first ':', so that "rf_sort: x" will do. NULL: nothing is known. */
rf_result rf_graph_set_call(rf_graph *graph, const char *call);

static inline const rf_tensor_desc *rf_graph_desc(const rf_graph *graph, rf_value v)
{
    return &graph->values.items[v].desc;
}
/* The op call of a node, with shapes as they stand in the graph. */
void rf_graph_call(const rf_graph *graph, rf_node node, rf_op_call *call);
/* How many live nodes read the value (shape-only reads count too). */
uint32_t rf_graph_num_uses(const rf_graph *graph, rf_value v);

/* The values that must be computed. Those in `results` and all nodes that mutate something are kept. */
typedef struct rf_graph_roots {
    const rf_value *results;
    uint32_t num_results;
} rf_graph_roots;

/* Reverse-mode differentiation (Griewank & Walther 2008, ch. 3): appends nodes; grads[i] = d loss / d targets[i].
 * `loss` must be a scalar f32. A target without influence gets zeros of its shape. Refused through a node that reads a
 * state which is updated in place later on: the gradient would see the new contents. */
rf_result rf_graph_differentiate(rf_graph *graph, rf_value loss, const rf_value *targets, uint32_t num_targets,
                                 rf_value *grads);
/* The same, but of a target without influence grads[i] becomes 0, no value. */
rf_result rf_graph_differentiate_reached(rf_graph *graph, rf_value loss, const rf_value *targets, uint32_t num_targets,
                                         rf_value *grads);
/* RF_ERROR_NO_GRADIENT when none of the targets can get a gradient of `loss`: all would be zeros. */
rf_result rf_graph_check_influence(const rf_graph *graph, rf_value loss, const rf_value *targets, uint32_t num_targets);

/* Joins equal constants and equal pure nodes (aliases with what they stand for), but not across an in-place update of a
 * state that they read: the first of them stays, the others die. map[v] is the value that holds from now on what v
 * held. Values differentiated by before keep their gradients; whatever is differentiated afterwards sees one value
 * where there were several. */
rf_result rf_graph_merge_common(rf_graph *graph, rf_value *map);

/* All nodes that read `from` read `to` instead: a leaf of the same type and shape. */
void rf_graph_substitute(rf_graph *graph, rf_value from, rf_value to);

/* Rewrites, in place: dead nodes out, then fusion through the ops' hooks until nothing changes, then dead nodes out.
 * Values in `roots` keep their numbers and contents. */
rf_result rf_graph_optimize(rf_graph *graph, const rf_graph_roots *roots);

/* A node that takes the numbers of an input for indices. */
typedef struct rf_lookup {
    const rf_op *op; /* NULL: nothing does */
    int64_t choices; /* indices are 0 to one below */
    rf_value table;  /* what is looked into */
} rf_lookup;
/* For each input slot below `count` the op with the fewest choices of those that take the input as it is, or a view of
 * it. Ops whose choices depend on the batch do not count. */
rf_result rf_graph_find_lookups(rf_graph *graph, rf_lookup *lookups, uint32_t count);

/* Refuses batches of fewer and of more examples than that, for this reason, which names the call of the step. */
rf_result rf_graph_limit_batch(rf_graph *graph, int64_t least, int64_t most, const char *reason);
/* Infers all shapes for a batch of another size (dimension 0 of every input). Fails with a clear message when a shape
 * in the trace was fixed to the traced batch. */
rf_result rf_graph_specialize(rf_graph *graph, int64_t batch);

/* Puts the nodes into another order, order[i] being the present number of the node that gets number i. All nodes are
 * listed, dead ones as well; RF_ERROR_INTERNAL, and nothing has changed, where one would come before what it reads. */
rf_result rf_graph_reorder(rf_graph *graph, const rf_node *order);

/* Sets needed[v] for every value that the results depend on; the other entries stay. */
void rf_graph_needed(const rf_graph *graph, const rf_value *results, uint32_t num_results, bool *needed);
/* Appends the nodes of `from` whose outputs are needed (NULL: all live ones) to another graph, for shapes as its leaves
 * have them. map[v] is the value there: of leaves before, of results after. */
rf_result rf_graph_replay(const rf_graph *from, const bool *needed, rf_graph *to, rf_value *map);

/* Text form for logs and tests, one leaf or live node a line. NULL + record on failure. Free with rf_free. */
char *rf_graph_dump(const rf_graph *graph);
/* Hashes live nodes with their attributes and shapes, and constants: graphs that were traced alike have equal ones. */
uint64_t rf_graph_hash(const rf_graph *graph);

/* Runs the whole graph on the host with the ops' references: the oracle of tests. `values[v]` holds the bytes of every
 * leaf before, of every value after (allocated from `arena`). */
rf_result rf_graph_interpret(const rf_graph *graph, rf_arena *arena, void **values);

/* ---- memory plan ---- */

typedef struct rf_placement {
    bool planned;          /* false: not in the slab (leaf, view of one, dead, or placed elsewhere by the caller) */
    rf_value alias_of;     /* != 0: same bytes as that value (view or in-place), which aliases nothing itself. For
                              an external view these are to be copied to where the caller wants them */
    uint64_t offset, size; /* `offset` also of aliases */
} rf_placement;
typedef struct rf_memory_plan {
    rf_placement *placements;   /* one per value */
    uint64_t *workspace_offset; /* one per node, valid where workspace_size[node] > 0 */
    uint64_t slab_size;         /* high-water mark */
    uint64_t naive_size;        /* sum of all aligned sizes of what is planned, views excepted, for comparison */
} rf_memory_plan;
/* The nodes, first to last, that may run at the same time as a node: what one of them reads or writes stays as long as
 * all of them run. Neither end goes back from one node to the next. */
typedef struct rf_node_span {
    rf_node first, last;
} rf_node_span;
typedef struct rf_memory_plan_params {
    rf_graph_roots roots;
    const bool *external;           /* [values]: placed by the caller; NULL: none */
    const uint64_t *workspace_size; /* [nodes]: bytes that are live during the node only; NULL: none */
    const rf_node_span *spans;      /* [nodes]; NULL: they run one after the other */
    uint64_t alignment;             /* every offset is a multiple of it */
    uint64_t segment; /* a multiple of the alignment: nothing lies across a multiple of it, so that the slab can be
                         several buffers of so many bytes; 0: it is one */
} rf_memory_plan_params;
/* Assigns every result that lives only during the run a place in one slab so that no two that live at once overlap.
 * Views alias; in-place where the op allows it and the input dies. RF_ERROR_OUT_OF_DEVICE_MEMORY where a result or a
 * workspace is larger than a segment. */
rf_result rf_memory_plan_make(const rf_graph *graph, const rf_memory_plan_params *params, rf_memory_plan *out);
void rf_memory_plan_free(rf_memory_plan *plan);

#endif
