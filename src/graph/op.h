/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The interface of an operation: everything that the project knows about it, in one struct that one file of src/ops/
 * fills in. The graph differentiates and fuses through it, and exec chooses and plans kernels through it.
 */
#ifndef RF_GRAPH_OP_H
#define RF_GRAPH_OP_H

#include <ringfire/common.h>

#include "base/device_caps.h"
#include "base/loss_scale.h"
#include "base/shader.h"

#define RF_MAX_INPUTS 8
#define RF_MAX_OUTPUTS 8
#define RF_MAX_ATTR 256    /* bytes of an op's attributes (plain data, compared with memcmp: zero the padding) */
#define RF_MAX_SPEC 24     /* specialization constants of a dispatch; constant id i is spec[i] */
#define RF_MAX_PUSH 128    /* bytes */
#define RF_MAX_BINDINGS 12 /* of a dispatch; an op with more tensors than that works in several */
#define RF_MAX_COUNTERS 65536

typedef struct rf_op rf_op;
typedef struct rf_graph rf_graph;
typedef struct rf_examples rf_examples; /* examples.h */
typedef uint32_t rf_value;              /* index into a graph's values; 0 is "none" */
typedef uint32_t rf_node;               /* index into a graph's nodes */

typedef struct rf_tensor_desc {
    rf_dtype dtype;
    rf_shape shape;
} rf_tensor_desc;
/* Exact, not padded; 0 for a shape that is not valid. */
static inline uint64_t rf_tensor_bytes(const rf_tensor_desc *desc)
{
    const int64_t count = rf_shape_count(desc->shape);
    return count < 0 ? 0 : (uint64_t)count * rf_dtype_size(desc->dtype);
}

/* An op applied to tensors of known shapes: what inference, reference, cost and kernel plans see. */
typedef struct rf_op_call {
    const rf_op *op;
    const void *attr;
    uint32_t n_in, n_out;
    rf_tensor_desc in[RF_MAX_INPUTS];
    rf_tensor_desc out[RF_MAX_OUTPUTS];
} rf_op_call;

typedef struct rf_cost {
    double flops, bytes;
} rf_cost;

/* ---- attributes, field by field: how files hold them ---- */

typedef enum rf_attr_kind {
    RF_ATTR_ZERO, /* bytes without a meaning, which are zero */
    RF_ATTR_SIGNED,
    RF_ATTR_UNSIGNED, /* of 64 bits: their pattern */
    RF_ATTR_CHOICE,   /* a number that files hold by its name, so that enumerations may change */
    RF_ATTR_FLOAT,    /* of 32 bits */
} rf_attr_kind;

/* A field, or the same field of each element of an array. Zero is what files that do not name a field mean: a field
 * that is added to an op later must be 0 for what the op did before. */
typedef struct rf_attr_field {
    const char *name;
    rf_attr_kind kind;
    uint32_t offset, size; /* of the first */
    uint32_t count, stride;
    int64_t least, most; /* of integers; names are those of the numbers 0 .. most */
    const char *(*choice)(uint32_t number);
} rf_attr_field;

/* Rows of a table. `member` may be an array's first element: RF_ATTR_INTS(t, stride[0], "stride", 2, ...). */
#define RF_ATTR_ROW(type, member, label, kind, n, gap, ...)                                                            \
    {                                                                                                                  \
        label, kind, offsetof(type, member), sizeof(((type *)0)->member), n, gap, __VA_ARGS__                          \
    }
#define RF_ATTR_INT(type, member, least, most) RF_ATTR_INTS(type, member, #member, 1, least, most)
#define RF_ATTR_INTS(type, member, label, n, least, most)                                                              \
    RF_ATTR_ROW(type, member, label, RF_ATTR_SIGNED, n, sizeof(((type *)0)->member), least, most, NULL)
#define RF_ATTR_UINT(type, member, most) RF_ATTR_ROW(type, member, #member, RF_ATTR_UNSIGNED, 1, 0, 0, most, NULL)
#define RF_ATTR_BITS(type, member)                                                                                     \
    RF_ATTR_ROW(type, member, #member, RF_ATTR_UNSIGNED, 1, 0, INT64_MIN, INT64_MAX, NULL)
#define RF_ATTR_FLAG(type, member) RF_ATTR_UINT(type, member, 1)
#define RF_ATTR_NAMED(type, member, most, choice)                                                                      \
    RF_ATTR_ROW(type, member, #member, RF_ATTR_CHOICE, 1, 0, 0, most, choice)
#define RF_ATTR_NUMBER(type, member) RF_ATTR_ROW(type, member, #member, RF_ATTR_FLOAT, 1, 0, 0, 0, NULL)
/* An op's fields for its attributes: their type, and their table. */
#define RF_ATTRIBUTES(type, table)                                                                                     \
    .attr_size = sizeof(type), .attr_fields = table, .num_attr_fields = sizeof(table) / sizeof((table)[0])

/* ---- kernels ---- */

typedef enum rf_bind_kind { RF_BIND_INPUT, RF_BIND_OUTPUT, RF_BIND_WORKSPACE, RF_BIND_COUNTERS } rf_bind_kind;
typedef enum rf_bind_view {
    RF_VIEW_STORAGE,
    RF_VIEW_TEXEL_RGBA32F,
    RF_VIEW_TEXEL_R32F,
    RF_VIEW_TEXEL_RGBA16F,
    RF_VIEW_TEXEL_R16F,
} rf_bind_view;
/* The bytes of one texel; 0: it is storage. */
static inline uint32_t rf_view_texel_bytes(rf_bind_view view)
{
    static const uint32_t bytes[] = { 0, 16, 4, 8, 2 };
    return bytes[view];
}

/* Binding i of a dispatch is `layout(binding = i)`, set 0. */
typedef struct rf_binding {
    rf_bind_kind kind;
    rf_bind_view view;
    uint32_t index;        /* which input / output; 0 for the workspace and the counters */
    bool write;            /* the dispatch writes it (outputs, workspace, counters, mutated inputs) */
    uint64_t offset, size; /* bytes within the tensor; size 0: to the end. offset: multiple of caps->buffer_alignment */
} rf_binding;

/* Runs of bytes, evenly spaced along each dimension, the innermost first; `from` and `to` are where the first one is.
 */
typedef struct rf_runs {
    uint64_t bytes; /* of a run; 0: there are none */
    uint64_t from, to;
    uint32_t rank, count[RF_MAX_RANK];
    int64_t from_step[RF_MAX_RANK], to_step[RF_MAX_RANK];
} rf_runs;

typedef struct rf_dispatch {
    const rf_shader *shader; /* NULL: it copies runs from binding 0 to binding 1, or fills binding 0; no invocations */
    uint32_t n_spec, n_bind, push_size;
    uint32_t
        spec[RF_MAX_SPEC]; /* spec[0] is local_size_x in every shader (spec[1], [2]: y, z where a shader uses them) */
    uint32_t push[RF_MAX_PUSH / 4];
    uint32_t grid[3]; /* workgroups */
    /* The first workgroup of a piece of a dispatch (rf_kernel_plan_split() makes them), which shaders see as such. */
    uint32_t base[3];
    bool piece;
    /* The most iterations that an invocation makes: those of all its loops together, nested loops multiplied out, one
     * more for each time that a loop is entered; both sides of a branch where neighbours branch apart. Loops of fixed,
     * small lengths need not be counted. rf_kernel_plan_check() holds it against the device's limit. */
    uint64_t loops;
    rf_binding bind[RF_MAX_BINDINGS];
    rf_runs runs;
    uint32_t fill;   /* without a shader and runs: the word to fill with */
    bool concurrent; /* needs no barrier against the dispatch before it in the same plan */
} rf_dispatch;

/* Dispatches in order, each seeing the writes of those before it. */
typedef struct rf_kernel_plan {
    rf_dispatch *items;
    uint32_t count, capacity;
    uint64_t workspace; /* bytes of scratch, undefined at the start */
    uint64_t counters;  /* bytes that are zero at the start and that the plan leaves zero: at most RF_MAX_COUNTERS */
} rf_kernel_plan;
/* rf_dispatch.loops of a shader in which no loop's length depends on sizes. */
#define RF_NO_LOOPS 1
/* Appends a dispatch that is zero but for its shader and `loops`; NULL + record on failure. rf_kernel_plan_free()
 * empties the plan. */
rf_dispatch *rf_kernel_plan_add(rf_kernel_plan *plan, const rf_shader *shader, uint64_t loops);
/* The same for those without a shader. Bindings are left to the caller: of runs tensors as a whole. */
rf_dispatch *rf_kernel_plan_add_runs(rf_kernel_plan *plan, const rf_runs *runs);
rf_dispatch *rf_kernel_plan_add_fill(rf_kernel_plan *plan, uint32_t word);
void rf_kernel_plan_free(rf_kernel_plan *plan);
/*
 * Holds every dispatch against what its arrays hold (the three functions below count on, but do not write beyond them)
 * and against the device: workgroup size, grid, push constants, loops. RF_ERROR_UNSUPPORTED for a grid that is too
 * large, RF_ERROR_INTERNAL for what the kernel's score should have ruled out. Part of rf_kernel_plan_make().
 */
rf_result rf_kernel_plan_check(const rf_kernel_plan *plan, const rf_device_caps *caps);
/*
 * Takes dispatch i apart into pieces[i] of about as many workgroups, or as many as it can be taken apart into: along
 * the last dimension of its grid that is longer than 1, because shaders count workgroups by gl_NumWorkGroups.x where
 * there are several in y. Pieces need no barrier between them, and together do exactly what the whole did. After a
 * failure the plan is what it was.
 */
rf_result rf_kernel_plan_split(rf_kernel_plan *plan, const uint32_t *pieces);
void rf_dispatch_spec(rf_dispatch *d, uint32_t value); /* appends a specialization constant */
/* Sets the push constants: the shader's struct of rf_push.h. A shader that has only the first members of a struct takes
 * these. */
void rf_dispatch_push(rf_dispatch *d, const void *data, uint32_t size);
/* Appends a binding of the whole tensor, for the caller to narrow. Never NULL. */
rf_binding *rf_dispatch_bind(rf_dispatch *d, rf_bind_kind kind, uint32_t index, rf_bind_view view, bool write);

typedef struct rf_kernel {
    const char *name; /* unique within the op, e.g. "lanes8_texel" */
    /* Preference among the op's kernels on this device: <= 0 not eligible, otherwise larger is better. Must look at
     * every limit the plan relies on. Static knowledge; measurement (tuning) overrides the order, not the eligibility.
     */
    double (*score)(const rf_op_call *call, const rf_device_caps *caps, const void *data);
    rf_result (*plan)(const rf_op_call *call, const rf_device_caps *caps, const void *data,
                      rf_kernel_plan *plan); /* pure */
    const void *data; /* handed to these and to `narrow`: how this kernel differs from others that share them */
    bool last_resort; /* many times slower than the op's others, and there for what they cannot do: that it runs is
                         worth a line in the log */
    bool cuts_up;     /* takes tensors larger than a descriptor, in pieces of them */
    bool finishes;    /* makes what op->finish would append */
    uint8_t block; /* a convolution that makes so many by so many neighbouring results of common sums, or sums over such
                      blocks: where a pixel that one of them depends on is not finite, all may be none. 0: does not */
    bool cooperative; /* computes with caps->matrix_f16 and matrix_bf16, which are tested before they are used */
    /* Whether it reads and writes the types of 16 bits of such a call by itself, where the op has them. NULL: never. */
    bool (*narrow)(const rf_op_call *call, const rf_device_caps *caps, const void *data);
} rf_kernel;
/* Kernels of one op that are made for one kind of devices. */
typedef struct rf_kernel_list {
    const rf_kernel *rows;
    uint32_t count;
} rf_kernel_list;
/* Who can run the kernels of a list: every device; software drivers, which run a subgroup as lanes of a processor's
 * vector registers; GPUs. */
enum { RF_FAMILY_COMMON, RF_FAMILY_CPU, RF_FAMILY_GPU, RF_NUM_FAMILIES };
/* The call has types of 16 bits, which the kernel leaves to rf_op.widen. */
bool rf_kernel_widens(const rf_kernel *kernel, const rf_op_call *call, const rf_device_caps *caps);
/* The score that the kernel gives the call, in whatever types its tensors are stored; next to nothing for a kernel of a
 * family that is made for the other kind of devices. */
double rf_kernel_score(const rf_kernel *kernel, const rf_op_call *call, const rf_device_caps *caps);
/* kernel->plan and op->finish of a call that needs no widening. Part of rf_kernel_plan_make(). */
rf_result rf_kernel_plan_whole(const rf_kernel *kernel, const rf_op_call *call, const rf_device_caps *caps,
                               rf_kernel_plan *plan);
/* The kernel's plan, checked: the only way to a plan that is to run. To be freed after a failure, too. */
rf_result rf_kernel_plan_make(const rf_kernel *kernel, const rf_op_call *call, const rf_device_caps *caps,
                              rf_kernel_plan *plan);

/* ---- the op ---- */

typedef struct rf_grad_context {
    rf_graph *graph;
    rf_node node;
    const void *attr;
    uint32_t n_in, n_out;
    const rf_value *in, *out;
    const rf_value *dout; /* gradient of each output, 0 where none flows */
    const bool *needed;   /* which input gradients are wanted */
    rf_value *din;        /* to fill in; leave 0 for "no gradient flows" */
} rf_grad_context;

/* A fusion hook proposes this instead of two nodes. */
typedef struct rf_fused {
    const rf_op *op;
    uint32_t n_in;
    rf_value in[RF_MAX_INPUTS];
    bool all_outputs; /* of a producer and its consumer: it makes all that the consumer made, not output 0 alone */
    _Alignas(8) unsigned char attr[RF_MAX_ATTR];
} rf_fused;

enum rf_op_flags {
    RF_OP_VIEW = 1u << 0,        /* output 0 is input 0's bytes under another shape: no kernel */
    RF_OP_INPLACE = 1u << 1,     /* a kernel may be given output 0 at the same place as an input of equal size that
                                    dies here */
    RF_OP_NO_GRADIENT = 1u << 2, /* differentiable nowhere: gradient stops silently (argmax, one_hot, stop_gradient) */
    RF_OP_LAST_AXIS = 1u << 3,   /* works along the last dimension, which kernels need whole: a tensor of one
                                    dimension is never cut into chunks */
    RF_OP_NO_ONNX = 1u << 4,     /* cannot be expressed in ONNX: exporting a graph with it fails and names it */
    RF_OP_SUMS_REPLICAS = 1u << 5, /* output 0 is the sum of input 0 over all replicas; alone it is input 0. A program
                                      that is one of several leaves it to its caller, between two parts of a run */
};

/* Elements first, first + step, ... before `end` of a tensor. */
typedef struct rf_elements {
    int64_t first, step, end;
} rf_elements;

struct rf_op {
    const char *name;
    uint32_t attr_size;
    const rf_attr_field *attr_fields; /* every byte of the attributes belongs to one; see RF_ATTRIBUTES */
    uint32_t num_attr_fields;
    uint32_t min_in, max_in, n_out;
    uint32_t flags;
    uint32_t
        shape_only;   /* bit i: only the shape of input i matters, its bytes are never read (no lifetime, no binding) */
    uint32_t mutates; /* bit i: input i is updated in place; such nodes are never removed */
    uint32_t role;    /* which one the op is of several that share kernels and functions, as these number them */
    /* Bit i: dimension 0 of input or output i counts no examples, but is something of its own (weights and their
     * gradients). In all others it does where it is as large as that of input 0: that is where kernels cut tensors that
     * are larger than a descriptor. */
    uint32_t unbatched_in, unbatched_out;
    uint32_t saved_out; /* bit i: output i is there for the op's own gradient, and has none itself */
    uint32_t settings;  /* bit i: input i holds numbers that are checked before they come here: always finite */
    /* How many choices an op has that looks something up; an input holds their numbers. Other numbers give NaN. NULL:
     * it looks nothing up. */
    int64_t (*choices)(const rf_op_call *call);
    uint32_t index_input;
    /* Where kernels of a product pad input 0 with zeros: the elements of input 1 that zeros may meet in element i of
     * output 0, in which NaN or an infinity among them then shows. NULL: nothing is padded. */
    rf_elements (*met_by_padding)(const rf_op_call *call, int64_t i);
    /* Where an op moves rows along a dimension: which examples those of output `i` belong to, if that depends on the
     * batch. `out` holds what follows from the shapes alone. NULL: rows stay where they are. */
    void (*examples)(const void *attr, const rf_examples *const *in, uint32_t n_in, uint32_t i, rf_examples *out);
    /*
     * Inputs may be stored in f16 or bf16, all in the same, and are computed with in f32: inference, gradient,
     * reference, scores and plans see f32 (widen.c). This makes the plan that converts before and after the kernel.
     * Output i is stored in that type if bit i of `narrow` is set and no input of the highest rank is f32, else in f32.
     * NULL: the op takes such types by itself, or refuses them.
     */
    rf_result (*widen)(const rf_kernel *kernel, const rf_op_call *call, const rf_device_caps *caps,
                       rf_kernel_plan *plan);
    uint32_t narrow;
    /* Bit i: input i has a number for each row of another one, and no say in how results are stored. */
    uint32_t row_numbers;
    /* Whether the attributes ask for output 0 in f32, whatever inputs are stored in. NULL: none do. */
    bool (*makes_f32)(const rf_op_call *call);
    /* Appends to the plan of a kernel that does not do it by itself (rf_kernel.finishes) what further outputs are made
     * with, of outputs that the kernel makes. NULL: kernels make all. */
    rf_result (*finish)(const rf_op_call *call, const rf_device_caps *caps, rf_kernel_plan *plan);
    /* Fills call->out from call->in and attr. Error messages name the op and the shapes. Pure. May lower call->n_out
     * when the attributes ask for fewer outputs. */
    rf_result (*infer)(rf_op_call *call);
    /* Emits the gradient. NULL without RF_OP_NO_GRADIENT: differentiating through it is RF_ERROR_NO_GRADIENT. */
    rf_result (*gradient)(rf_grad_context *ctx);
    /* Plain C, obviously right, slow. Accumulate in double. Mutated inputs are written through in[]. */
    rf_result (*reference)(const rf_op_call *call, void *const *in, void *const *out);
    rf_cost (*cost)(const rf_op_call *call);
    /* Fusion: node `producer` of this op has one output, which is read once, by node `consumer`. True when *fused,
     * whose output 0 has the consumer's output 0 shape, replaces both. NULL: never. Not asked for nodes that mutate. */
    bool (*absorb_consumer)(const rf_graph *graph, rf_node producer, rf_node consumer, rf_fused *fused);
    /* Fusion of two readers of one value, or of a node and one that reads what it makes: node `self` is of this op,
     * `other` comes to be its output number *other_out. That may take the place of one that `other` alone reads. */
    bool (*absorb_sibling)(const rf_graph *graph, rf_node self, rf_node other, rf_fused *fused, uint32_t *other_out);
    /* Each graph holds a reference to an op that does not live as long as the process. NULL: it does. */
    void (*retain)(const rf_op *op);
    void (*release)(const rf_op *op);
    const rf_kernel_list *families[RF_NUM_FAMILIES]; /* NULL: none. rf_op_kernel() numbers the kernels of all */
};
/* The op's kernels are numbered in the order of the families. Among those with the same score the first one runs. */
uint32_t rf_op_num_kernels(const rf_op *op);
const rf_kernel *rf_op_kernel(const rf_op *op, uint32_t i);
const rf_kernel *rf_op_find_kernel(const rf_op *op, const char *name); /* NULL: there is none */
/* The kernel with the highest score; NULL: none takes the call. */
const rf_kernel *rf_best_kernel(const rf_op_call *call, const rf_device_caps *caps);
/* The same if the op did not have the kernels that are left out; NULL leaves none out. */
typedef bool (*rf_kernel_left_out)(const rf_op *op, const rf_kernel *kernel, const void *user);
const rf_kernel *rf_best_kernel_without(const rf_op_call *call, const rf_device_caps *caps, rf_kernel_left_out left_out,
                                        const void *user);

/* ---- types of 16 bits (widen.c) ---- */
bool rf_dtype_is_narrow(rf_dtype dtype);
/* f32 or one of these. */
bool rf_dtype_is_float(rf_dtype dtype);
/* Some input is stored in 16 bits, and the op is one that computes in f32 all the same. */
bool rf_call_is_narrow(const rf_op_call *call);
/* The same call with f32 in place of f16 and bf16. */
rf_op_call rf_call_widened(const rf_op_call *call);
/* op->infer and op->reference, in whatever types tensors are stored. */
rf_result rf_call_infer(rf_op_call *call);
rf_result rf_op_reference(const rf_op_call *call, void *const *in, void *const *out);

/* Updates of variables are made of these, beside an optimizer's own rule (src/replica/update/). The functions of
 * src/ops/ops.h with these names say what they append. */
typedef struct rf_update_ops {
    rf_result (*accumulate)(rf_graph *g, rf_value total, rf_value x); /* total [n] (mutated) += x [n] */
    /* Sums of the squares of scale * x [n]: one f32 scalar, or f32 [blocks] of blocks of RF_NORM_BLOCK elements. */
    rf_result (*sum_squares)(rf_graph *g, rf_value x, float scale, bool blocks, rf_value *out);
    rf_result (*unscale)(rf_graph *g, rf_value gradients, rf_value tally);
    rf_result (*overflow_check)(rf_graph *g, rf_value gradients, rf_value tally, float most);
    rf_result (*loss_scale)(rf_graph *g, const rf_loss_scaling *scaling, rf_value scale, rf_value tally, rf_value found,
                            rf_value *out);
    rf_result (*numbers)(rf_graph *g, rf_value rows, rf_value decided, rf_value *out);
} rf_update_ops;

/* Ops that layers below this one's emit; filled in by src/ops/registry.c. */
typedef struct rf_core_ops {
    rf_result (*add)(rf_graph *graph, rf_value a, rf_value b, rf_value *out);           /* same shapes */
    rf_result (*scale)(rf_graph *graph, rf_value x, rf_value scalar, rf_value *out);    /* f32 product */
    rf_result (*fill_like)(rf_graph *graph, float value, rf_value like, rf_value *out); /* f32 */
    rf_result (*alias)(rf_graph *graph, rf_value x, rf_value *out); /* a view of all of x: another value, no copy */
    rf_result (*cast)(rf_graph *graph, rf_value x, rf_dtype dtype,
                      rf_value *out); /* x itself where it is of the type */
    const rf_op *conversion;          /* what `cast` appends */
    rf_update_ops update;
} rf_core_ops;

#endif
