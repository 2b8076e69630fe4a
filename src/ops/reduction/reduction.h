/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What reductions, row operations (softmax, losses) and pooling share: the view of a tensor as rows, kernels that are
 * dispatched over ranges of rows, and small helpers for inference and costs. A row is whatever the op cuts the leading
 * dimensions into: a vector along the last axis, or an image.
 */
#ifndef RF_OPS_REDUCTION_REDUCTION_H
#define RF_OPS_REDUCTION_REDUCTION_H

#include "base/error.h"
#include "base/memory.h"
#include "graph/graph.h"
#include "ops/ops.h"

/* Attributes of the ops of loss.c and one_hot.c. */
typedef struct rf_loss_attr {
    uint32_t from_logits;
} rf_loss_attr;
typedef struct rf_one_hot_attr {
    int32_t depth;
} rf_one_hot_attr;

/* Static initialisers of descriptors, for test cases. */
#define RF_DESC(type, rank, ...)                                                                                       \
    {                                                                                                                  \
        (type),                                                                                                        \
        {                                                                                                              \
            (rank),                                                                                                    \
            {                                                                                                          \
                __VA_ARGS__                                                                                            \
            }                                                                                                          \
        }                                                                                                              \
    }
#define RF_COUNT_OF(array) ((uint32_t)(sizeof(array) / sizeof((array)[0])))

/* ---- shapes ---- */
uint64_t rf_desc_count(const rf_tensor_desc *desc);
uint64_t rf_desc_columns(const rf_tensor_desc *desc); /* last dimension; 1 for a scalar */
uint64_t rf_desc_rows(const rf_tensor_desc *desc);    /* product of all other dimensions */
/* Failures that name the op, the argument and its shape. */
rf_result rf_expect_dtype(const rf_op_call *call, uint32_t input, rf_dtype dtype);
rf_result rf_expect_not_empty(const rf_op_call *call, uint32_t input);
rf_result rf_expect_shape(const rf_op_call *call, uint32_t input, const rf_shape *shape, const char *why);
/* f32 with at least one dimension: what softmax and its relatives take. */
rf_result rf_expect_rows(const rf_op_call *call, uint32_t input);
/* Reads and writes every byte of the tensors once. */
rf_cost rf_cost_of(const rf_op_call *call, double flops);

/* ---- kernels over rows ---- */
typedef enum rf_row_grid {
    RF_GRID_THREADS, /* rows * threads_per_row invocations, numbered through x and y */
    RF_GRID_GROUPS,  /* one workgroup a row, numbered through x and y */
    RF_GRID_IMAGES,  /* x: threads_per_row invocations, y: the row */
} rf_row_grid;
typedef struct rf_row_tensor {
    rf_bind_kind kind;
    uint32_t index;
    bool write;
    rf_bind_view view;
    uint64_t row_bytes;
    uint64_t base; /* bytes before the first row: of a workspace that holds several things; aligned as bindings are */
} rf_row_tensor;
typedef struct rf_row_job {
    const rf_shader *shader;
    rf_row_grid grid;
    uint32_t local; /* workgroup size: spec[0] */
    uint64_t rows, threads_per_row;
    uint64_t loops; /* see rf_dispatch: RF_NO_LOOPS where no loop depends on sizes */
    uint32_t n_tensors, n_push, n_spec;
    rf_row_tensor tensors[RF_MAX_BINDINGS];
    uint32_t spec[4];               /* spec[1] and on */
    uint32_t push[RF_MAX_PUSH / 4]; /* push[0] is overwritten with the rows of the dispatch */
} rf_row_job;
void rf_row_job_tensor(rf_row_job *job, rf_bind_kind kind, uint32_t index, uint64_t row_bytes);
/* Rows that one dispatch may take, so that every tensor's part fits a descriptor and starts where descriptors may, and
 * the grid fits; 0 when not even one may. */
uint64_t rf_row_job_chunk(const rf_row_job *job, const rf_device_caps *caps);
/* As many dispatches as that needs. */
rf_result rf_row_job_plan(const rf_row_job *job, const rf_device_caps *caps, rf_kernel_plan *plan);
/*
 * Row operations come in two ways: one invocation walks a row, or a workgroup does, whose invocations take every so
 * manieth column (GROUP of shaders/include/row_group.glsl). `passes`: how often a row is walked, in blocks of 64 or
 * not.
 */
/* Iterations for `columns` steps shared by `lanes` invocations. */
uint64_t rf_row_loops(uint64_t columns, uint32_t lanes, uint32_t passes);
/* Invocations of a workgroup that walks a row: 128, more where these would loop longer than the device lets them. */
uint32_t rf_row_group_size(const rf_device_caps *caps, uint64_t columns, uint32_t passes);
/* Makes the job one of workgroups: its grid, local size and loops. */
void rf_row_job_group(rf_row_job *job, const rf_device_caps *caps, const rf_shader *shader, uint64_t columns,
                      uint32_t passes);
/* 0 where the device cannot loop that long or a row does not fit its descriptors; otherwise what rates the two ways:
 * rows for software devices, workgroups for GPUs. */
double rf_row_job_score(const rf_row_job *job, const rf_device_caps *caps, uint64_t columns);
/* `wanted` invocations, or as many as the device takes. */
uint32_t rf_local_size(const rf_device_caps *caps, uint32_t wanted);
/* Grid of `groups` workgroups in x and y; false when they are too many. */
bool rf_flat_grid(const rf_device_caps *caps, uint64_t groups, uint32_t grid[3]);
static inline uint32_t rf_float_word(float value)
{
    union {
        float f;
        uint32_t u;
    } bits = { .f = value };
    return bits.u;
}

#endif
