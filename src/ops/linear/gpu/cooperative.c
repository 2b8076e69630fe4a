/* SPDX-License-Identifier: Apache-2.0 */
#include "ops/linear/gpu/cooperative.h"
#include "ops/linear/gpu/model.h"
#include "rf_shaders.h"

#define DEPTH 32     /* summands of a slice */
#define PADDING 8    /* elements behind each of its lines */
#define CONSTANTS 11 /* that these kernels share with those in f32, which have more or fewer */
/* Rows and columns of a workgroup and of each of its subgroups. */
typedef struct tile_size {
    uint32_t rows, columns, subgroup_rows, subgroup_columns;
} tile_size;

/* A lane of a subgroup of 16, which is Intel's, would have to hold twice as much: such subgroups compute less, and not
 * the largest tile. They spill tens of registers then in place of thousands. */
static const tile_size *size_of(const rf_device_caps *caps, rf_block_tile tile, const rf_matrix_shape *shape)
{
    /* An invocation takes up to 256 registers, all that it may. */
    static const tile_size whole = { 128, 128, 64, 64 }, whole_on_cpu = { 64, 32, 16, 16 };
    if (tile == RF_BLOCK_COOP_XL) return caps->is_cpu ? &whole_on_cpu : &whole;
    static const tile_size sizes[] = { { 32, 32, 16, 16 }, { 64, 64, 32, 32 }, { 128, 128, 32, 64 } };
    static const tile_size small[] = { { 32, 32, 8, 16 }, { 64, 64, 16, 16 } };
    return &(shape->subgroup == 16 ? small : sizes)[tile - RF_BLOCK_COOP_S];
}

static rf_matrix_shape shape_of(const rf_device_caps *caps, rf_dtype operands)
{
    return operands == RF_F16 ? caps->matrix_f16 : operands == RF_BF16 ? caps->matrix_bf16 : (rf_matrix_shape){ 0 };
}

/* Software compiles larger tiles than the smallest one for minutes, and they compute nothing that it does not. */
static bool is_offered(const rf_device_caps *caps, rf_block_tile tile, const rf_matrix_shape *shape)
{
    if (shape->m == 0) return false;
    if (tile == RF_BLOCK_COOP_XL)
        return caps->is_cpu ? shape->subgroup == 8
                            : (shape->subgroup == 32 && shape->m == 16 && shape->n == 16 && shape->k == 16);
    if (caps->is_cpu && tile > RF_BLOCK_COOP_S) return false;
    if (shape->subgroup == 16 && tile > RF_BLOCK_COOP_M) return false;
    const tile_size *size = size_of(caps, tile, shape);
    return size->subgroup_rows % shape->m == 0 && size->subgroup_columns % shape->n == 0;
}

rf_block rf_coop_block(const rf_device_caps *caps, rf_block_tile tile, rf_dtype operands)
{
    const rf_matrix_shape shape = shape_of(caps, operands);
    if (!is_offered(caps, tile, &shape)) return (rf_block){ .groups = 1, .depth = DEPTH };
    const tile_size *size = size_of(caps, tile, &shape);
    rf_block b = { .rows = size->rows, .columns = size->columns, .groups = 1 };
    b.efficiency = rf_gpu_cooperative_efficiency(caps, tile, shape.subgroup == 16);
    b.whole = tile == RF_BLOCK_COOP_XL;
    b.depth = DEPTH;
    b.element = sizeof(uint16_t);
    const uint32_t subgroups = size->rows / size->subgroup_rows * (size->columns / size->subgroup_columns);
    const uint32_t sums = size->subgroup_rows * size->subgroup_columns / shape.subgroup;
    b.threads = subgroups * shape.subgroup;
    b.registers = 2 * sums < 64 ? 64 : 2 * sums;
    b.shared = (b.whole ? 1 : 2) * (b.depth + PADDING) * (b.rows + b.columns) * b.element +
               subgroups * shape.m * shape.n * (uint32_t)sizeof(float);
    return b;
}

#define SIZES_BUT_16(name, type, of_16)                                                                                \
    {                                                                                                                  \
        &rf_shader_##name##_coop_##type##_w0, &rf_shader_##name##_coop_##type##_w8, of_16,                             \
            &rf_shader_##name##_coop_##type##_w32                                                                      \
    }
#define SIZES(name, type) SIZES_BUT_16(name, type, &rf_shader_##name##_coop_##type##_w16)
#define TYPES(name)                                                                                                    \
    {                                                                                                                  \
        SIZES(name, f16), SIZES(name, bf16)                                                                            \
    }

const rf_shader *rf_coop_shader(const rf_device_caps *caps, rf_coop_product product, rf_dtype operands)
{
    static const rf_shader *const shaders[][2][4] = { [RF_COOP_MATMUL] = TYPES(matmul),
                                                      [RF_COOP_MATMUL_XL] = { SIZES_BUT_16(matmul_xl, f16, NULL),
                                                                              SIZES_BUT_16(matmul_xl, bf16, NULL) },
                                                      [RF_COOP_MATMUL_QUANTIZED] = TYPES(matmul_quantized),
                                                      [RF_COOP_CONV2D] = TYPES(conv2d),
                                                      [RF_COOP_CONV2D_DATA] = TYPES(conv2d_data),
                                                      [RF_COOP_CONV2D_FILTER] = TYPES(conv2d_filter) };
    const rf_shader *const *of_type = shaders[product][operands == RF_BF16];
    const uint32_t size = shape_of(caps, operands).subgroup;
    if (!caps->full_subgroups) return of_type[0];
    return of_type[size == 8 ? 1 : size == 16 ? 2 : 3];
}

void rf_coop_constants(rf_dispatch *d, const rf_op_call *call, const rf_device_caps *caps, rf_block_tile tile,
                       rf_dtype operands, bool bias)
{
    const rf_matrix_shape m = shape_of(caps, operands);
    const tile_size *size = size_of(caps, tile, &m);
    const rf_block b = rf_coop_block(caps, tile, operands);
    const uint32_t loads_a = b.rows * b.depth / 4 / b.threads, loads_b = b.columns * b.depth / 4 / b.threads;
    const uint32_t vectors = m.m * m.n / 4 / m.subgroup;
    const uint32_t constants[] = { bias && rf_dtype_is_narrow(call->in[2].dtype),
                                   b.rows,
                                   b.columns,
                                   b.depth,
                                   m.m,
                                   m.n,
                                   m.k,
                                   m.subgroup,
                                   b.threads,
                                   b.whole ? size->subgroup_rows : loads_a,
                                   b.whole ? size->subgroup_columns : loads_b,
                                   size->subgroup_rows / m.m * vectors,
                                   size->subgroup_columns / m.n };
    d->spec[3] = rf_dtype_is_narrow(call->out[0].dtype);
    if (d->n_spec > CONSTANTS) d->n_spec = CONSTANTS;
    while (d->n_spec < CONSTANTS) rf_dispatch_spec(d, 0);
    for (uint32_t i = 0; i < RF_LENGTH(constants); i++) rf_dispatch_spec(d, constants[i]);
}
