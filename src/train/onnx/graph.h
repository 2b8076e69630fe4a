/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An ONNX graph while it becomes a functional model. A value is numbers that are known at import, of which some may be
 * expressions of tensors' sizes, or a tensor of the model.
 */
#ifndef RF_TRAIN_ONNX_GRAPH_H
#define RF_TRAIN_ONNX_GRAPH_H

#include <ringfire/interchange.h>

#include "train/model/model.h"
#include "train/onnx/op.h"
#include "train/onnx/read.h"

/* A size that is known when the model runs: a number, a dimension of a tensor, or an operator of op.c. */
typedef struct rf_import_size {
    char operator; /* 0: a number; 'd': dimension `axis` of value `a` */
    uint32_t a, b; /* expressions */
    int32_t axis;
    double number;
    uint32_t tokens; /* of the whole expression */
} rf_import_size;

typedef struct rf_import_constant {
    bool whole;
    int32_t type; /* of the file */
    rf_shape shape;
    float *f;
    int64_t *w;
    uint32_t *sizes;  /* expressions, 0: a number; NULL: all are numbers */
    const char *name; /* of the initializer that it comes from, which is trained. NULL: numbers alone */
} rf_import_constant;

typedef enum rf_import_kind { RF_IMPORT_UNKNOWN, RF_IMPORT_CONSTANT, RF_IMPORT_TENSOR } rf_import_kind;
typedef struct rf_import_value {
    const char *name;
    rf_import_kind kind;
    rf_import_constant constant;
    rf_symbol symbol, other; /* the latter in the other layout; zeroed: not made */
    int32_t rank;
    bool last, whole, truth; /* last: of four dimensions, with channels last */
    uint32_t uses, consumer; /* nodes that read it; the number of the last one */
} rf_import_value;

/* A value that a variable gets when the model is there. */
typedef struct rf_import_weight {
    rf_layer *layer;
    const char *variable;
    const float *values;
    uint64_t count;
} rf_import_weight;

/* A layer that nodes with the same weights share. */
typedef struct rf_import_shared {
    const rf_import_node *node;
    const char *name; /* of its kernel or table */
    const float *kernel, *bias;
    rf_layer *layer;
} rf_import_shared;

typedef struct rf_import {
    rf_import_file file;
    rf_model_builder *builder;
    rf_import_value *values;
    uint32_t num_values, most_values, *table, table_size;
    struct {
        rf_import_size *items;
        uint32_t count, capacity;
    } sizes;
    struct {
        rf_import_weight *items;
        uint32_t count, capacity;
    } weights;
    struct {
        char **items;
        uint32_t count, capacity;
    } names;                      /* of layers */
    uint64_t folded, most_folded; /* numbers of constants that were made */
    uint32_t serial;
    rf_symbol any; /* the first input */
    struct {
        rf_import_shared *items;
        uint32_t count, capacity;
    } shared;
    int64_t batch; /* dimension 0 of the file's inputs, where it is a number for all; else 0 */
} rf_import;

/* ---- values (graph.c) ---- */
rf_import_value *rf_import_find(rf_import *im, const char *name); /* NULL: there is none */
/* The value of that name, which is new where there is none. NULL: there are too many, or the name is empty. */
rf_import_value *rf_import_add_value(rf_import *im, const char *name);
uint32_t rf_import_number_of(const rf_import *im, const rf_import_value *v);
void *rf_import_alloc(rf_import *im, size_t size);
/* Fails where the graph becomes too large. */
rf_result rf_import_constant_new(rf_import *im, bool whole, rf_shape shape, rf_import_constant *out);
static inline int64_t rf_import_count(const rf_import_constant *c)
{
    return rf_shape_count(c->shape);
}
double rf_import_element(const rf_import_constant *c, int64_t i);
static inline uint32_t rf_import_size_at(const rf_import_constant *c, int64_t i)
{
    return c->sizes ? c->sizes[i] : 0;
}
bool rf_import_has_sizes(const rf_import_constant *c);
rf_result rf_import_set_size(rf_import *im, rf_import_constant *c, int64_t i, uint32_t size);
/* Numbers of the expression, or an expression of two. 0 with *number where it is a number. */
rf_result rf_import_size_new(rf_import *im, char op, uint32_t a, double na, uint32_t b, double nb, uint32_t *out,
                             double *number);
rf_result rf_import_size_dim(rf_import *im, uint32_t value, int32_t axis, uint32_t *out);
/* Failures of a node: "node 'name' (Op): ...". */
rf_result rf_import_fail(const rf_import_node *n, rf_result code, const char *format, ...) RF_PRINTF(3, 4);
rf_result rf_import_tensor_constant(rf_import *im, const rf_import_tensor *t, const char *name,
                                    rf_import_constant *out);
int64_t rf_import_attribute_int(const rf_import_node *n, const char *name, int64_t fallback);
double rf_import_attribute_float(const rf_import_node *n, const char *name, double fallback);
const char *rf_import_attribute_text(const rf_import_node *n, const char *name, const char *fallback);

/* ---- passes ---- */
/* Puts operations in the place of the parts that files make of them (patterns.c). */
rf_result rf_import_join_patterns(rf_import *im);
/* A node in the form that the passes below know (forms.c). */
rf_result rf_import_renew(rf_import *im, const rf_import_node *n, rf_import_node *out);
/* Computes a node whose operands are all known. *done is false where it has to be computed at run time (fold.c). */
rf_result rf_import_fold(rf_import *im, const rf_import_node *n, bool *done);
/* A node as one of the library's layers; *done is false where it is none (layers.c). */
rf_result rf_import_layer(rf_import *im, const rf_import_node *n, bool *done);
/* Any other node (lower.c). */
rf_result rf_import_lower(rf_import *im, const rf_import_node *n);

/* ---- for layers ---- */
/* The tensor in the file's order, or with channels last. */
rf_result rf_import_in_order(rf_import *im, rf_import_value *v, rf_symbol *out);
rf_result rf_import_with_channels_last(rf_import *im, rf_import_value *v, rf_symbol *out);
/* A name that no layer has; of an initializer, or of an operation where that is NULL. */
const char *rf_import_layer_name(rf_import *im, const char *initializer, const char *op);
rf_result rf_import_add_weight(rf_import *im, rf_layer *layer, const char *variable, const float *values,
                               uint64_t count);
/* Values of a constant with its dimensions in another order. */
float *rf_import_permuted(rf_import *im, const rf_import_constant *c, const int32_t *perm);
static inline rf_import_constant *rf_import_known(rf_import_value *v)
{
    return v && v->kind == RF_IMPORT_CONSTANT ? &v->constant : NULL;
}
static inline int32_t rf_import_rank(const rf_import_value *v)
{
    return v->kind == RF_IMPORT_TENSOR ? v->rank : v->constant.shape.rank;
}

#endif
