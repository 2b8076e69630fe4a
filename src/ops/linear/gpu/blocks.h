/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The matrix kernels for devices with shared memory (shaders/include/linear_block.glsl): tiles of six shapes, and a
 * model of the time that a device takes for each, which chooses the tile and the parts that long sums are cut into.
 */
#ifndef RF_OPS_LINEAR_GPU_BLOCKS_H
#define RF_OPS_LINEAR_GPU_BLOCKS_H

#include "ops/linear/common/linear.h"

#define RF_BLOCK_K 16 /* summands of a slice that an invocation multiplies */

typedef enum rf_block_tile {
    RF_BLOCK_S,
    RF_BLOCK_DEEP, /* small products: long slices, which several groups of invocations share */
    RF_BLOCK_M,
    RF_BLOCK_T,
    RF_BLOCK_L,
    RF_BLOCK_XL,
    RF_BLOCK_TILES,
    /* Tiles of cooperative matrices (cooperative.c). */
    RF_BLOCK_COOP_S = RF_BLOCK_TILES,
    RF_BLOCK_COOP_M,
    RF_BLOCK_COOP_L,
    RF_BLOCK_COOP_XL, /* products of whole tiles alone */
} rf_block_tile;

typedef struct rf_block {
    uint32_t rows, columns;
    uint32_t threads;
    uint32_t registers; /* of an invocation, as compilers of several devices make them */
    double efficiency;  /* of the arithmetic units that it keeps busy while nothing is waited for */
    uint32_t groups;    /* of invocations, each of which multiplies its share of a slice */
    uint32_t depth;     /* summands of a slice */
    uint32_t shared;    /* bytes of shared memory; of one operand's element: */
    uint32_t element;
    bool whole; /* each part of a sum is a result of its own, and another dispatch adds them up */
} rf_block;
/* As operands of the type take it; without threads where the device has no such matrices. */
rf_block rf_block_make(const rf_device_caps *caps, rf_block_tile tile, rf_dtype operands);

/* `batch` products of rows x length by length x columns. */
typedef struct rf_block_job {
    int64_t rows, columns, length, batch;
    rf_dtype operands;
    double reread; /* bytes of what is read once more after the product */
    bool gathers;  /* places of summands are worked out while they are loaded */
    bool can_add;  /* by that dispatch, where a block is whole */
} rf_block_job;
/* The type that the operands of a call have in common, which is f32 where they have none. */
rf_dtype rf_block_operands(const rf_op_call *call);

/* How a device runs a job in one size of tile. */
typedef struct rf_block_grid {
    int32_t row_tiles, column_tiles, parts, split; /* summands per part */
    int32_t parts_of_group, groups;                /* parts are added up by groups, then groups */
    uint64_t tiles, total, counters;               /* without parts, with them; of arrivals */
    uint64_t loops;                                /* of an invocation */
    uint64_t partial;                              /* bytes of what parts write */
    double seconds;                                /* 0: it cannot */
} rf_block_grid;
/* With the parts that take the least time. */
rf_block_grid rf_block_grid_make(const rf_device_caps *caps, rf_block_tile tile, const rf_block_job *job);
/* Sums of columns beside a product are one more row of it, a product of ones, where that rounds no more than adding up
 * RF_LONGEST_RIDE of them one after the other; else a reduction reads `bytes` once more. Says which, in the job too. */
bool rf_block_sums_ride(const rf_device_caps *caps, rf_block_tile tile, rf_block_job *job, double bytes);

/* Score of a kernel that runs the job, 0 where the device or the size of a tensor does not allow it. */
double rf_block_score(const rf_op_call *call, const rf_device_caps *caps, rf_block_tile tile, const rf_block_job *job);

/* The subgroups that the shaders ask for. */
typedef enum rf_block_width {
    RF_BLOCK_ANY, /* of the device's choice */
    RF_BLOCK_8,
    RF_BLOCK_16,
    RF_BLOCK_32,
    RF_BLOCK_WIDTHS
} rf_block_width;
rf_block_width rf_block_width_of(const rf_device_caps *caps);
/* A shader in the form for each of them; where small subgroups are, the large tiles never are. */
#define RF_BLOCK_LARGE_SHADERS(name)                                                                                   \
    {                                                                                                                  \
        &rf_shader_##name##_w0, &rf_shader_##name##_w0, &rf_shader_##name##_w0, &rf_shader_##name##_w32                \
    }
#define RF_BLOCK_SHADERS(name)                                                                                         \
    {                                                                                                                  \
        &rf_shader_##name##_w0, &rf_shader_##name##_w8, &rf_shader_##name##_w16, &rf_shader_##name##_w32               \
    }

/* The shaders' constant SLICE. */
uint32_t rf_block_slice(const rf_device_caps *caps);

/* rf_kernel.narrow of these kernels: what they write in 16 bits has `columns` in whole vectors. */
bool rf_block_takes_narrow(const rf_op_call *call, int64_t columns);
/* Appends the shaders' constant TYPES, and zeros in front of it. */
void rf_block_types(rf_dispatch *d, const rf_op_call *call, const rf_device_caps *caps);

/* Binds 4 and 5 of the shaders: partial sums and arrivals; output 0 stands for both where there are none. */
void rf_block_bind_parts(rf_dispatch *d, rf_kernel_plan *plan, const rf_device_caps *caps, const rf_block_grid *grid);

/* The data of a kernel. */
typedef struct rf_block_kernel {
    rf_block_tile tile;
    rf_linear_role role;
} rf_block_kernel;

/* Functions of the tables (kernels.c). */
rf_score_fn rf_matmul_blocks_score, rf_conv2d_blocks_score;
rf_plan_fn rf_matmul_blocks_plan, rf_conv2d_blocks_plan;
bool rf_matmul_blocks_narrow(const rf_op_call *call, const rf_device_caps *caps, const void *data);
bool rf_conv2d_blocks_narrow(const rf_op_call *call, const rf_device_caps *caps, const void *data);
rf_score_fn rf_matmul_skinny_score;
rf_plan_fn rf_matmul_skinny_plan;
bool rf_matmul_skinny_narrow(const rf_op_call *call, const rf_device_caps *caps, const void *data);
/* Their data is a bool: they make the gradient. */
rf_score_fn rf_attention_blocks_score, rf_rnn_register_score;
rf_plan_fn rf_attention_blocks_plan, rf_attention_grad_blocks_plan, rf_rnn_register_plan;

#endif
