/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Operations of ONNX as layers of a functional model: one layer for each node that is none of the library's layers. Its
 * configuration, a text, has all of the node but its tensors, so that files hold such layers as any other.
 *
 * Numbers are f32, whole numbers i32, truth values f32 0 and 1. Values of four dimensions may stand with their channels
 * last ("last"): a layer is told so, and axes are still those of the file.
 */
#ifndef RF_TRAIN_ONNX_OP_H
#define RF_TRAIN_ONNX_OP_H

#include <jansson.h>
#include <ringfire/custom.h>

#include "base/error.h"
#include "base/memory.h"

#define RF_IMPORT_LAYER_TYPE "rf.onnx"
enum { RF_IMPORT_MOST_OPERANDS = 24 };

/* An input of a node while it is traced. */
typedef struct rf_import_operand {
    bool there, is_float;
    rf_tensor tensor; /* id 0: numbers */
    rf_shape shape;   /* of numbers, in the file's order */
    const double *numbers;
    bool *follows;      /* by number: it is another one with another batch. NULL: none is */
    double per_example; /* the only number is so many times the batch; 0: it is not */
} rf_import_operand;

typedef struct rf_import_call {
    rf_trace *t;
    rf_mode mode;
    const char *op;
    json_t *attributes;
    int64_t opset;
    bool last;
    rf_import_operand in[RF_IMPORT_MOST_OPERANDS];
    uint32_t num_in, num_out;
    rf_tensor *out;
    const rf_tensor *tensors; /* all that the layer gets, also those whose sizes alone are read */
    uint32_t num_tensors;
    rf_arena arena;
} rf_import_call;

typedef void (*rf_import_op_fn)(rf_import_call *c);

/* How a node's layouts are decided. */
typedef enum rf_import_layout {
    RF_IMPORT_ELEMENTS, /* broadcasts: in whichever layout its operands have */
    RF_IMPORT_AXES,     /* has axes, which it finds in either layout */
    RF_IMPORT_IMAGES,   /* of images with channels last, where there are four dimensions */
    RF_IMPORT_PLAIN     /* in the file's order */
} rf_import_layout;

typedef struct rf_import_op {
    const char *name;
    rf_import_op_fn trace;
    rf_import_layout layout;
    uint8_t min_in, max_in, max_out; /* max_in 0: any number */
    uint8_t rank;                    /* how many dimensions results have: RF_IMPORT_RANK_... */
    uint8_t truth;                   /* results are truth values */
} rf_import_op;
enum {
    RF_IMPORT_RANK_SAME,    /* of the first operand */
    RF_IMPORT_RANK_WIDEST,  /* of the one of most dimensions */
    RF_IMPORT_RANK_SPECIAL, /* rank_of() in lower.c */
};
/* NULL: there is none of that name. */
const rf_import_op *rf_import_find_op(const char *name);

/* Lists of the files op_*.c. */
typedef struct rf_import_op_list {
    const rf_import_op *items;
    uint32_t count;
} rf_import_op_list;
extern const rf_import_op_list rf_import_element_ops, rf_import_axis_ops, rf_import_place_ops, rf_import_image_ops,
    rf_import_matrix_ops;

/* A layer of a configuration, whose reference it takes. `name` may be NULL. */
rf_result rf_import_op_layer(json_t *config, const char *name, rf_layer **out);
/* rf_custom_layer_fn of the type. */
rf_result rf_import_op_layer_make(void *user, const char *name, const char *config, rf_layer **out);

/* ---- for operations ---- */

/* Makes the trace fail; `why` follows the operation's name. */
void rf_import_call_fail(rf_import_call *c, const char *why);
bool rf_import_has(const rf_import_call *c, uint32_t i);
/* As a tensor of its own type, or in f32. */
rf_tensor rf_import_tensor_of(rf_import_call *c, uint32_t i);
rf_tensor rf_import_float_of(rf_import_call *c, uint32_t i);
bool rf_import_is_whole(const rf_import_call *c, uint32_t i);
rf_shape rf_import_shape_of_operand(rf_import_call *c, uint32_t i);
/* Numbers of an operand that must be known; false, with the trace failed, where it is a tensor. */
bool rf_import_numbers(rf_import_call *c, uint32_t i, const double **numbers, int64_t *count);
double rf_import_number(rf_import_call *c, uint32_t i, double fallback);
/* Attributes. Lists give how many there are, at most `most`. */
int64_t rf_import_int(const rf_import_call *c, const char *name, int64_t fallback);
double rf_import_real(const rf_import_call *c, const char *name, double fallback);
const char *rf_import_text(const rf_import_call *c, const char *name, const char *fallback);
uint32_t rf_import_ints(const rf_import_call *c, const char *name, int64_t *out, uint32_t most);
/* An axis of the file where it stands now; `rank` dimensions. -1, with the trace failed, where there is none. */
int32_t rf_import_axis(rf_import_call *c, int64_t axis, int32_t rank);
/* Axes of an attribute or, from some opset on, of an operand. */
uint32_t rf_import_axes(rf_import_call *c, uint32_t operand, int32_t rank, int32_t *out);
static inline rf_tensor rf_import_scalar(const rf_import_call *c, double value)
{
    return rf_constant(c->t, (float)value);
}
/* Exchanges the last axis with another one: the same permutation there and back. */
rf_tensor rf_import_swap_last(rf_import_call *c, rf_tensor x, int32_t axis);
/* x[..., from:to:by, ...] along an axis as it stands now; -1: the trace has failed. */
rf_tensor rf_import_slice(rf_import_call *c, rf_tensor x, int32_t axis, int64_t from, int64_t to, int64_t by);
/* `value` in the shape of numbers, some of which may follow the batch. */
rf_tensor rf_import_fill(rf_import_call *c, const rf_import_operand *sizes, double value);
/* Whole numbers back in their type. */
rf_tensor rf_import_back(rf_import_call *c, uint32_t operand, rf_tensor y);

#endif
