/* SPDX-License-Identifier: Apache-2.0 */
/* Inside of the element-wise op, shared by its files: the function table and the kernels. */
#ifndef RF_OPS_POINTWISE_COMMON_ELEMENTWISE_H
#define RF_OPS_POINTWISE_COMMON_ELEMENTWISE_H

#include "ops/kit.h"
#include "ops/ops.h"

#define RF_ELEMENTWISE_INPUTS 7 /* most inputs of any shader variant; the output is the binding after them */

/* A partial derivative times the incoming gradient, as a program over the registers dy, a, b, y (0-3); steps are 4 and
 * up. n_steps 0: dy itself. */
typedef struct rf_scalar_derivative {
    enum { RF_DERIVATIVE_NONE, RF_DERIVATIVE_ZERO, RF_DERIVATIVE_PROGRAM } kind;
    uint32_t n_steps;
    rf_scalar_step steps[RF_MAX_STEPS];
} rf_scalar_derivative;
enum { RF_REG_DY, RF_REG_A, RF_REG_B, RF_REG_Y, RF_REG_STEP };

typedef struct rf_scalar_info {
    const char *name;
    uint32_t arity;
    bool uses_imm;
    bool lone; /* in programs of one step only */
    double (*reference)(double a, double b, double imm);
    const rf_scalar_derivative
        *derivative; /* by operand; a step with imm NAN takes the imm of the step it differentiates */
} rf_scalar_info;
extern const rf_scalar_info rf_scalar_table[RF_FN_COUNT];

/* Whether the operands of a function are i32. */
static inline bool rf_scalar_takes_i32(uint32_t fn)
{
    return fn >= RF_FN_WHOLE_GREATER && fn <= RF_FN_WHOLE_EQUAL;
}

/* The kernels run what ops are as programs of scalar functions, by role. */
enum {
    RF_PROGRAM_OWN,       /* elementwise: the attributes are the program */
    RF_PROGRAM_COPY,      /* input 0, broadcast to the output */
    RF_PROGRAM_NORMALIZE, /* what normalize does */
};
/* Shaders for programs of at most 1, 2, 4 and 8 steps: rf_shader_elementwise_N_form. */
enum { RF_ELEMENTWISE_SIZES = 4 };
#define RF_ELEMENTWISE_SHADERS(form)                                                                                   \
    {                                                                                                                  \
        &rf_shader_elementwise_1_##form, &rf_shader_elementwise_2_##form, &rf_shader_elementwise_4_##form,             \
            &rf_shader_elementwise_8_##form                                                                            \
    }
/* The wide forms of the shader: elements of an invocation, and of a vector that it reads at once. */
typedef struct rf_elementwise_form {
    const rf_shader *shaders[RF_ELEMENTWISE_SIZES];
    uint32_t width, vector;
    bool texel;
} rf_elementwise_form;
/* The data is a form. */
rf_score_fn rf_elementwise_score, rf_elementwise_texel_score;
rf_plan_fn rf_elementwise_plan;
/* Without data. */
rf_score_fn rf_elementwise_strided_score;
rf_plan_fn rf_elementwise_strided_plan;
/* Rows of a table. */
extern const rf_elementwise_form rf_elementwise_fours;
#define RF_ELEMENTWISE_KERNELS                                                                                         \
    { "vec4", rf_elementwise_score, rf_elementwise_plan, &rf_elementwise_fours, .narrow = rf_always_narrow },          \
    {                                                                                                                  \
        "strided", rf_elementwise_strided_score, rf_elementwise_strided_plan                                           \
    }
extern const rf_kernel_list rf_elementwise_common;
/* programs.c. The call whose attributes are the program, and whose inputs are those that it reads. */
rf_op_call rf_program_of(const rf_op_call *call);
extern const rf_elementwise_attr rf_copy_program;
const rf_elementwise_attr *rf_normalize_program(const rf_normalize_attr *attr, uint32_t *n_in);

/* Joins a node that is a program of scalar functions, or runs as one, with its only reader, where nothing is computed
 * more often than before: an rf_op's absorb_consumer. */
bool rf_elementwise_absorb(const rf_graph *graph, rf_node producer, rf_node consumer, rf_fused *fused);
/* ---- broadcast_shapes.c ---- */

/* Inference of an op between input 0 and a tensor like input 1: input 0 has more dimensions, or larger ones, if it goes
 * `to_small`. */
rf_result rf_broadcast_infer(rf_op_call *call, bool to_small);
rf_cost rf_broadcast_cost(const rf_op_call *call);
/* Index into a tensor of shape `small` of element e of one of shape `full`. */
int64_t rf_broadcast_index(rf_shape small, rf_shape full, int64_t e);
/* The shape that NumPy's rules give; failure names the op. */
rf_result rf_broadcast_shape(const char *op, rf_shape a, rf_shape b, rf_shape *out);

/* Dimensions of `full` that no input distinguishes, merged. Bit d of present[i]: input i has dimension d (else it has
 * 1). */
typedef struct rf_collapsed {
    uint32_t rank;
    uint64_t size[RF_MAX_RANK];
    uint32_t present[RF_MAX_INPUTS];
} rf_collapsed;
void rf_broadcast_collapse(rf_shape full, const rf_tensor_desc *in, uint32_t n_in, rf_collapsed *out);

#endif
