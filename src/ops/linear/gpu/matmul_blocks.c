/* SPDX-License-Identifier: Apache-2.0 */
#include "ops/linear/common/matmul.h"
#include "ops/linear/common/quantized.h"
#include "ops/linear/gpu/blocks.h"
#include "ops/linear/gpu/cooperative.h"
#include "rf_shaders.h"

/* Instructions that decode a number, by those that multiply and add one; each row of a tile shares them. */
#define DECODING 16.0

static rf_matmul_geometry geometry_of(const rf_op_call *call, const rf_block_kernel *kernel)
{
    if (kernel->role == RF_ROLE_MATMUL) return rf_matmul_geometry_of(call);
    const rf_quantized_product p = rf_quantized_product_of(call);
    rf_matmul_geometry g = { .m = (int64_t)p.rows, .n = (int64_t)p.columns, .k = (int64_t)p.summands, .batch = 1 };
    for (int i = 0; i < RF_MATMUL_BATCH_DIMS; i++) g.dim[i] = 1;
    g.tb = p.transposed;
    return g;
}

/* Numbers of few bits are decoded to what x is stored in. */
static rf_dtype operands_of(const rf_op_call *call, const rf_block_kernel *kernel)
{
    if (kernel->role == RF_ROLE_MATMUL) return rf_block_operands(call);
    return kernel->tile >= RF_BLOCK_TILES ? call->in[0].dtype : RF_F32;
}

/* *ride: the sums of b's rows are one more row of c. */
static rf_block_job job_of(const rf_op_call *call, const rf_device_caps *caps, const rf_matmul_geometry *g,
                           const rf_block_kernel *kernel, bool *ride)
{
    const rf_block_tile tile = kernel->tile;
    rf_block_job job = { g->m, g->n, g->k, g->batch, operands_of(call, kernel) };
    /* Parts write their sums one behind the other in fours; the shader that adds them up reads and writes f32 alone. */
    job.can_add =
        tile == RF_BLOCK_COOP_XL && call->out[0].dtype == RF_F32 && !g->bias && g->m * g->n * g->batch % 4 == 0;
    *ride = g->bias_gradient && rf_block_sums_ride(caps, tile, &job, (double)rf_tensor_bytes(&call->in[1]));
    return job;
}

/* Lines that start anywhere are loaded element by element, whose addresses take registers beside the larger tile of
 * matrices: more than 128 in machine code. */
static bool fits_registers(const rf_device_caps *caps, rf_block_tile tile, const rf_matmul_geometry *g)
{
    const bool few = caps->invocation_registers > 0 && caps->invocation_registers <= 128;
    return !few || tile != RF_BLOCK_COOP_M || ((g->m | g->n | g->k) & 3) == 0;
}

/* Kernel coop_xl loads eight elements at once, and has no condition for what is not there (matmul_coop.comp). */
static bool is_whole(const rf_device_caps *caps, const rf_block_job *job, const rf_matmul_geometry *g)
{
    const rf_block b = rf_block_make(caps, RF_BLOCK_COOP_XL, job->operands);
    const int64_t lines = (g->ta ? g->m : g->k) | (g->tb ? g->k : g->n);
    return lines % 8 == 0 && g->m >= b.rows && g->n >= b.columns && g->k > b.depth;
}

double rf_matmul_blocks_score(const rf_op_call *call, const rf_device_caps *caps, const void *data)
{
    const rf_block_kernel *kernel = data;
    const rf_block_tile tile = kernel->tile;
    /* SwiftShader's compiler does not come to an end with this tile, and takes gigabytes. */
    if (tile == RF_BLOCK_T && caps->driver == RF_DRIVER_SWIFTSHADER) return RF_SCORE_NONE;
    const rf_matmul_geometry g = geometry_of(call, kernel);
    if (!fits_registers(caps, tile, &g)) return RF_SCORE_NONE;
    bool ride;
    const rf_block_job job = job_of(call, caps, &g, kernel, &ride);
    if (tile == RF_BLOCK_COOP_XL && !is_whole(caps, &job, &g)) return RF_SCORE_NONE;
    const double score = rf_block_score(call, caps, tile, &job);
    if (kernel->role == RF_ROLE_MATMUL || score <= 0) return score;
    return score / (1 + DECODING / rf_block_make(caps, tile, job.operands).rows);
}

bool rf_matmul_blocks_narrow(const rf_op_call *call, const rf_device_caps *caps, const void *data)
{
    (void)caps;
    return rf_block_takes_narrow(call, geometry_of(call, data).n);
}

/* Adds up the parts that coop_xl wrote. */
static rf_result add_parts(const rf_op_call *call, const rf_device_caps *caps, const rf_matmul_geometry *g,
                           const rf_block_grid *t, rf_binding partial, rf_kernel_plan *plan)
{
    const uint64_t count = (uint64_t)(g->m * g->n * g->batch);
    return rf_linear_add_sum(plan, call, caps,
                             &(rf_linear_sum){ .partial = partial,
                                               .parts = t->parts,
                                               .stride = count,
                                               .count = count,
                                               .columns = g->n,
                                               .activation = g->activation });
}

static const rf_shader *shader_of(const rf_device_caps *caps, const rf_block_kernel *kernel, rf_dtype operands)
{
    static const rf_shader *const shaders[RF_BLOCK_TILES][RF_BLOCK_WIDTHS] = {
        RF_BLOCK_SHADERS(matmul_block_s), RF_BLOCK_SHADERS(matmul_block_deep),
        RF_BLOCK_SHADERS(matmul_block_m), RF_BLOCK_LARGE_SHADERS(matmul_block_t),
        RF_BLOCK_SHADERS(matmul_block_l), RF_BLOCK_LARGE_SHADERS(matmul_block_xl),
    };
    static const rf_shader *const quantized[RF_BLOCK_TILES][RF_BLOCK_WIDTHS] = {
        [RF_BLOCK_S] = RF_BLOCK_SHADERS(matmul_block_s_quantized),
        [RF_BLOCK_M] = RF_BLOCK_SHADERS(matmul_block_m_quantized),
        [RF_BLOCK_L] = RF_BLOCK_SHADERS(matmul_block_l_quantized),
        [RF_BLOCK_XL] = RF_BLOCK_LARGE_SHADERS(matmul_block_xl_quantized),
    };
    const bool few = kernel->role == RF_ROLE_QUANTIZED;
    if (kernel->tile < RF_BLOCK_TILES) return (few ? quantized : shaders)[kernel->tile][rf_block_width_of(caps)];
    const rf_coop_product product = few                                ? RF_COOP_MATMUL_QUANTIZED
                                    : kernel->tile == RF_BLOCK_COOP_XL ? RF_COOP_MATMUL_XL
                                                                       : RF_COOP_MATMUL;
    return rf_coop_shader(caps, product, operands);
}

static void bind_scales(rf_dispatch *d, const rf_op_call *call, const rf_device_caps *caps, rf_push_matmul_block *p)
{
    const rf_quantized_layout w = rf_quantized_product_of(call).w;
    const uint64_t first = w.scales_at / 4;
    p->b_line = (int32_t)(w.padded / 4);
    p->scales_at = (int32_t)(2 * rf_bind_elements(d, caps, RF_BIND_INPUT, 1, first, w.words - first));
}

rf_result rf_matmul_blocks_plan(const rf_op_call *call, const rf_device_caps *caps, const void *data,
                                rf_kernel_plan *out)
{
    const rf_block_kernel *kernel = data;
    const rf_block_tile tile = kernel->tile;
    const bool coop = tile >= RF_BLOCK_TILES, quantized = kernel->role == RF_ROLE_QUANTIZED;
    const rf_matmul_geometry g = geometry_of(call, kernel);
    bool ride;
    const rf_block_job job = job_of(call, caps, &g, kernel, &ride);
    const rf_block_grid t = rf_block_grid_make(caps, tile, &job);
    rf_push_matmul_block p = { .total = (int32_t)t.total,
                               .row_tiles = t.row_tiles,
                               .column_tiles = t.column_tiles,
                               .parts = t.parts,
                               .parts_of_group = t.parts_of_group,
                               .m = (int32_t)g.m,
                               .n = (int32_t)g.n,
                               .k = (int32_t)g.k,
                               .split = t.split,
                               .a_line = (int32_t)(g.ta ? g.m : g.k),
                               .b_line = (int32_t)(g.tb ? g.k : g.n) };
    for (int i = 0; i < 4; i++) {
        p.dim[i] = (int32_t)g.dim[i];
        p.a_stride[i] = (int32_t)g.a_stride[i];
        p.b_stride[i] = (int32_t)g.b_stride[i];
    }
    rf_dispatch *d = rf_kernel_plan_add(out, shader_of(caps, kernel, job.operands), t.loops);
    if (!d) return RF_ERROR_OUT_OF_HOST_MEMORY;
    const bool adds = tile == RF_BLOCK_COOP_XL && t.parts > 1;
    const uint32_t constants[] = { rf_block_make(caps, tile, job.operands).threads,
                                   adds ? 0 : g.activation,
                                   g.bias,
                                   rf_block_slice(caps),
                                   t.parts > 1,
                                   g.ta,
                                   g.tb,
                                   p.a_line % 4 == 0,
                                   p.b_line % 4 == 0,
                                   g.n % 4 == 0,
                                   quantized ? ((const rf_quantized_attr *)call->attr)->kind : ride,
                                   g.relu_mask };
    for (uint32_t i = 0; i < RF_LENGTH(constants); i++) rf_dispatch_spec(d, constants[i]);
    if (coop)
        rf_coop_constants(d, call, caps, tile, job.operands, g.bias);
    else
        rf_block_types(d, call, caps);
    rf_dispatch_groups(d, caps, t.total);
    rf_bind_whole(d, RF_BIND_INPUT, 0);
    rf_bind_whole(d, RF_BIND_INPUT, 1);
    rf_bind_whole(d, RF_BIND_INPUT, g.bias || g.relu_mask ? 2 : 0);
    rf_binding result = { .kind = RF_BIND_OUTPUT, .write = true };
    if (adds) result = rf_linear_workspace(out, caps, t.partial);
    rf_linear_bind(d, result, RF_VIEW_STORAGE, true);
    rf_block_bind_parts(d, out, caps, &t);
    if (quantized)
        bind_scales(d, call, caps, &p);
    else
        rf_bind_whole(d, RF_BIND_OUTPUT, ride);
    rf_dispatch_push(d, &p, sizeof(p));
    if (adds) RF_TRY(add_parts(call, caps, &g, &t, result, out));
    return g.bias_gradient && !ride ? rf_linear_append_sums(call, caps, out) : RF_OK;
}
