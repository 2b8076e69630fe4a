/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ONNX files as they are: the messages that an import needs, read from protobuf's wire format without trust in any
 * byte. Numbers and names of the format are those of its public description. Everything lives in one arena; tensors
 * point into the bytes that were read.
 */
#ifndef RF_TRAIN_ONNX_READ_H
#define RF_TRAIN_ONNX_READ_H

#include "base/error.h"
#include "base/memory.h"

/* TensorProto.DataType */
enum {
    RF_IMPORT_TYPE_FLOAT = 1,
    RF_IMPORT_TYPE_UINT8 = 2,
    RF_IMPORT_TYPE_INT8 = 3,
    RF_IMPORT_TYPE_UINT16 = 4,
    RF_IMPORT_TYPE_INT16 = 5,
    RF_IMPORT_TYPE_INT32 = 6,
    RF_IMPORT_TYPE_INT64 = 7,
    RF_IMPORT_TYPE_BOOL = 9,
    RF_IMPORT_TYPE_FLOAT16 = 10,
    RF_IMPORT_TYPE_DOUBLE = 11,
    RF_IMPORT_TYPE_UINT32 = 12,
    RF_IMPORT_TYPE_UINT64 = 13,
    RF_IMPORT_TYPE_BFLOAT16 = 16
};

typedef struct rf_import_bytes {
    const uint8_t *at;
    size_t size;
} rf_import_bytes;

/* A tensor with its values: `raw`, or lists of numbers of the types that have no bytes there. */
typedef struct rf_import_tensor {
    const char *name;
    int32_t type;
    rf_shape shape;
    rf_import_bytes raw;
    rf_import_bytes floats, doubles, varints; /* lists that are packed; `varints` of all types of whole numbers */
    uint32_t num_single;                      /* numbers that are not */
    double *single;
    const char *location; /* of external data; NULL: it is here */
    uint64_t offset, length;
    bool external, has_length;
} rf_import_tensor;

struct rf_import_graph;
typedef struct rf_import_attribute {
    const char *name;
    int32_t type;
    float f;
    int64_t i;
    const char *s;
    rf_import_tensor *t;
    struct rf_import_graph *g;
    float *floats;
    int64_t *ints;
    const char **strings;
    uint32_t num_floats, num_ints, num_strings;
} rf_import_attribute;
enum { RF_IMPORT_ATTRIBUTE_FLOAT = 1, RF_IMPORT_ATTRIBUTE_INT, RF_IMPORT_ATTRIBUTE_STRING, RF_IMPORT_ATTRIBUTE_TENSOR };

typedef struct rf_import_node {
    const char *name, *op, *domain;
    const char **in, **out; /* "": left out */
    uint32_t num_in, num_out;
    rf_import_attribute *attributes;
    uint32_t num_attributes;
} rf_import_node;

/* A dimension is -1 where the file leaves it open. */
typedef struct rf_import_port {
    const char *name;
    int32_t type; /* 0: the file does not say */
    bool has_shape;
    rf_shape shape;
} rf_import_port;

typedef struct rf_import_graph {
    rf_import_node *nodes;
    rf_import_tensor *initializers;
    rf_import_port *inputs, *outputs;
    uint32_t num_nodes, num_initializers, num_inputs, num_outputs;
} rf_import_graph;

typedef struct rf_import_file {
    rf_arena arena;
    rf_import_graph graph;
    const char *producer;
    int64_t opset; /* of the domain "" */
} rf_import_file;

/* The most nodes and initializers, those of subgraphs included; how deep these lie; dimensions of a tensor of a file.
 */
enum { RF_IMPORT_MOST_NODES = 1 << 14, RF_IMPORT_MOST_DEPTH = 8 };

/* The bytes are borrowed. RF_ERROR_CORRUPT_DATA, or RF_ERROR_UNSUPPORTED with what is missing. Freed with
 * rf_import_file_clear(), also when it fails. */
rf_result rf_import_parse(rf_import_file *file, const uint8_t *bytes, size_t size);
void rf_import_file_clear(rf_import_file *file);
/* Each tensor with external data, in the order of the file. */
rf_result rf_import_each_external(rf_import_file *file, rf_result (*visit)(void *user, rf_import_tensor *tensor),
                                  void *user);

/* Bytes of an element; 0 for a type that cannot be read. */
size_t rf_import_type_size(int32_t type);
bool rf_import_type_is_float(int32_t type);
/* Numbers of a tensor whose data is here, `count` of them. RF_ERROR_CORRUPT_DATA where there are others. */
rf_result rf_import_tensor_floats(const rf_import_tensor *tensor, float *out);
rf_result rf_import_tensor_whole(const rf_import_tensor *tensor, int64_t *out);

const rf_import_attribute *rf_import_find_attribute(const rf_import_node *node, const char *name);

#endif
