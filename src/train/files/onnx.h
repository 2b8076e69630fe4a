/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Graphs for inference as ONNX graphs. Images are [n, h, w, c] here and [n, c, h, w] there: inputs and outputs of the
 * graph have our layout. A value has a name for each layout in which an operation produces or reads it; the other
 * layout is a Transpose, which is made on demand, so that two adjacent ones cancel. Weights are transposed when they
 * are written.
 */
#ifndef RF_TRAIN_FILES_ONNX_H
#define RF_TRAIN_FILES_ONNX_H

#include "persist/file_ops.h"
#include "train/files/inference_graph.h"
#include "train/files/onnx_model.pb-c.h"

enum {
    RF_ONNX_FLOAT = 1,
    RF_ONNX_UINT8 = 2,
    RF_ONNX_INT32 = 6,
    RF_ONNX_INT64 = 7,
    RF_ONNX_FLOAT16 = 10,
    RF_ONNX_BFLOAT16 = 16
}; /* of the format */

typedef struct rf_onnx_value {
    char *name;              /* in our layout; NULL: not there (yet) */
    char *first;             /* channels first; of a leaf of fewer dimensions with ones in front */
    char *kernel;            /* of a leaf: [out, in, kh, kw] */
    RfOnnx__NodeProto *node; /* that makes it */
} rf_onnx_value;

/* Memory is the arena's; a failure sticks, and everything after it does nothing and gives NULL. */
typedef struct rf_onnx {
    const rf_inference_graph *source;
    rf_arena arena;
    rf_result status;
    struct {
        RfOnnx__NodeProto **items;
        uint32_t count, capacity;
    } nodes;
    struct {
        RfOnnx__TensorProto **items;
        uint32_t count, capacity;
    } tensors;
    rf_onnx_value *values; /* by value of the source */
    uint32_t serial;       /* of names */
} rf_onnx;

/* Writes the file. RF_ERROR_UNSUPPORTED names an operation that has no form there. */
rf_result rf_onnx_write(const rf_inference_graph *g, const rf_file_ops *ops, const char *path);
/* The source's node (onnx_ops.c). */
rf_result rf_onnx_add_node(rf_onnx *o, const rf_node_info *node);
/* A recurrent layer (onnx_rnn.c). */
rf_result rf_onnx_add_rnn(rf_onnx *o, const rf_node_info *node);

/* ---- building (onnx_graph.c) ---- */

void *rf_onnx_alloc(rf_onnx *o, size_t size);
char *rf_onnx_copy(rf_onnx *o, const char *text);
/* Makes a failure stick. */
void rf_onnx_fail(rf_onnx *o, rf_result result);
/* Appends an operation; gives the name of its result. b and c may be NULL. */
char *rf_onnx_op(rf_onnx *o, const char *op, char *a, char *b, char *c);
/* Another input of the operation that was appended last: up to RF_MAX_INPUTS in all. */
void rf_onnx_input(rf_onnx *o, char *name);
/* Another result of the operation that was appended last: up to three in all. */
char *rf_onnx_output(rf_onnx *o);
/* Attributes of the operation that was appended last. */
void rf_onnx_int(rf_onnx *o, const char *name, int64_t value);
void rf_onnx_float(rf_onnx *o, const char *name, float value);
void rf_onnx_text(rf_onnx *o, const char *name, const char *value);
void rf_onnx_ints(rf_onnx *o, const char *name, const int64_t *values, size_t count);
/* Constants. */
char *rf_onnx_number(rf_onnx *o, float value);
char *rf_onnx_list(rf_onnx *o, const int64_t *values, int64_t count);
char *rf_onnx_tensor(rf_onnx *o, const char *label, int type, rf_shape shape, const void *data);
int rf_onnx_type(rf_dtype dtype);

/* ---- values ---- */

static inline rf_shape rf_onnx_shape(const rf_onnx *o, rf_value v)
{
    return o->source->shapes[v];
}
bool rf_onnx_is_leaf(const rf_onnx *o, rf_value v); /* with bytes: a variable or a constant */
/* Only there with channels first: who does not care should take that. */
bool rf_onnx_is_first(const rf_onnx *o, rf_value v);
/* One computed number for each channel of images that it is combined with. */
bool rf_onnx_is_per_channel(const rf_onnx *o, rf_value v);
/* Names in a layout. `first`: of four dimensions, per channel, or a leaf. */
char *rf_onnx_get(rf_onnx *o, rf_value v);
char *rf_onnx_get_first(rf_onnx *o, rf_value v);
/* A leaf or another value with its dimensions in another order. */
char *rf_onnx_permuted(rf_onnx *o, rf_value v, const int32_t *perm);
char *rf_onnx_kernel(rf_onnx *o, rf_value v);
/* The shape as a list: numbers, or what it is at run time where the batch is part of it. */
char *rf_onnx_shape_of(rf_onnx *o, rf_value v);

#endif
