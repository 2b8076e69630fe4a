/* SPDX-License-Identifier: Apache-2.0 */
/* Attention for devices with shared memory: shaders/linear/gpu/attention_blocks.comp. */
#include "ops/linear/common/attention.h"
#include "ops/linear/gpu/blocks.h"
#include "rf_shaders.h"

typedef enum blocks_pass { PASS_FORWARD, PASS_QUERIES, PASS_KEYS, PASSES } blocks_pass;

/* A build of the shader: columns that widths are padded to, rows / 4 and columns of a workgroup's invocations (of half
 * of them where gradients are made), scores of one in a row. */
typedef struct blocks_tile {
    uint32_t depth, rows_4, lanes, scores;
    const rf_shader *shaders[RF_BLOCK_WIDTHS];
} blocks_tile;

/* The large ones first, for devices with 48 KiB of shared memory, then those for 32 KiB; shaders/linear/meson.build has
 * the same sizes. */
enum { TILES = 6, SMALL = 3 };
/* In the forms of RF_BLOCK_SHADERS() that some device takes. */
#define SMALL_SHADERS(name)                                                                                            \
    {                                                                                                                  \
        &rf_shader_##name##_w0, &rf_shader_##name##_w8, &rf_shader_##name##_w16, &rf_shader_##name##_w0                \
    }
#define ONE_SHADER(name)                                                                                               \
    {                                                                                                                  \
        &rf_shader_##name##_w, &rf_shader_##name##_w, &rf_shader_##name##_w, &rf_shader_##name##_w                     \
    }
static const blocks_tile tiles[PASSES][TILES] = {
    [PASS_FORWARD] = { { 32, 16, 8, 4, RF_BLOCK_LARGE_SHADERS(attention_blocks_forward_32) },
                       { 64, 16, 8, 4, RF_BLOCK_LARGE_SHADERS(attention_blocks_forward_64) },
                       { 128, 8, 16, 2, RF_BLOCK_LARGE_SHADERS(attention_blocks_forward_128) },
                       { 32, 8, 8, 4, RF_BLOCK_SHADERS(attention_blocks_forward_32_small) },
                       { 64, 8, 16, 2, RF_BLOCK_SHADERS(attention_blocks_forward_64_small) },
                       { 128, 8, 16, 1, RF_BLOCK_LARGE_SHADERS(attention_blocks_forward_128_small) } },
    [PASS_QUERIES] = { { 32, 8, 8, 4, RF_BLOCK_SHADERS(attention_blocks_queries_32) },
                       { 64, 8, 8, 4, RF_BLOCK_LARGE_SHADERS(attention_blocks_queries_64) },
                       { 128, 4, 16, 1, RF_BLOCK_LARGE_SHADERS(attention_blocks_queries_128) },
                       { 0 },
                       { 64, 4, 16, 2, SMALL_SHADERS(attention_blocks_queries_64_small) },
                       { 128, 2, 16, 1, ONE_SHADER(attention_blocks_queries_128_small) } },
    [PASS_KEYS] = { { 32, 8, 8, 4, RF_BLOCK_SHADERS(attention_blocks_keys_32) },
                    { 64, 8, 8, 4, RF_BLOCK_LARGE_SHADERS(attention_blocks_keys_64) },
                    { 128, 4, 16, 1, RF_BLOCK_LARGE_SHADERS(attention_blocks_keys_128) },
                    { 0 },
                    { 64, 4, 16, 2, SMALL_SHADERS(attention_blocks_keys_64_small) },
                    { 128, 2, 16, 1, ONE_SHADER(attention_blocks_keys_128_small) } },
};

static uint32_t threads_of(const blocks_tile *tile, blocks_pass pass)
{
    return tile->rows_4 * tile->lanes * (pass == PASS_FORWARD ? 1 : 2);
}

static uint64_t tile_shared(const blocks_tile *tile, blocks_pass pass)
{
    const uint64_t rows = 4 * tile->rows_4, columns = tile->scores * tile->lanes;
    const uint64_t groups = pass == PASS_FORWARD ? 1 : 2;
    const uint64_t parts = rows * tile->lanes / groups;
    return (groups * (rows * tile->depth + columns * tile->depth + rows * columns) + parts) * sizeof(float);
}

static int64_t own_rows(const rf_attention_geometry *g, blocks_pass pass)
{
    return pass == PASS_KEYS ? g->s : g->t;
}

static uint64_t total_groups(const rf_attention_geometry *g, const blocks_tile *tile, blocks_pass pass)
{
    return (uint64_t)g->items * rf_div_up((uint64_t)own_rows(g, pass), 4 * tile->rows_4);
}

/* Iterations of an invocation over tiles of the other side, whose products are loops over columns, four vectors of four
 * at a time, and rows, eight at a time. */
static uint64_t loops_of(const rf_attention_geometry *g, const blocks_tile *tile, blocks_pass pass)
{
    const uint64_t columns = tile->scores * tile->lanes;
    const uint64_t others = (uint64_t)(pass == PASS_KEYS ? g->t : g->s);
    return rf_div_up(others, columns) * (tile->depth / 16 + columns / 8 + 3) + tile->depth / 4 + 2;
}

static bool tile_fits(const rf_attention_geometry *g, const rf_device_caps *caps, blocks_pass pass, uint32_t index)
{
    const blocks_tile *tile = &tiles[pass][index];
    const uint32_t threads = threads_of(tile, pass);
    return tile->depth >= (uint32_t)(g->k > g->v ? g->k : g->v) && threads <= caps->max_workgroup_invocations &&
           threads <= caps->max_workgroup_size[0] && tile_shared(tile, pass) <= caps->max_shared_memory &&
           loops_of(g, tile, pass) <= rf_loop_limit(caps) && total_groups(g, tile, pass) <= INT32_MAX;
}

/* Whether an invocation may take 128 registers and more. */
static bool has_registers(const rf_device_caps *caps)
{
    return caps->driver == RF_DRIVER_NVIDIA || caps->driver == RF_DRIVER_AMD;
}

/* The longest rows that the compilers were not seen to spill for: those of Honeykrisp and ANV do beyond 64 elements,
 * Turnip's on Adreno 6xx beyond 32. */
static int64_t longest_row(const rf_device_caps *caps)
{
    if (caps->is_cpu || has_registers(caps)) return INT64_MAX;
    return caps->invocation_registers > 0 && caps->driver != RF_DRIVER_INTEL ? 32 : 64;
}

/* With the fewest columns that hold a row; the large one where the device has room for it and enough to do. NULL: none.
 */
static const blocks_tile *choose_tile(const rf_attention_geometry *g, const rf_device_caps *caps, blocks_pass pass)
{
    const bool many = has_registers(caps);
    for (uint32_t i = 0; i < SMALL; i++) {
        const bool small = tile_fits(g, caps, pass, i + SMALL), large = tile_fits(g, caps, pass, i);
        const bool fills = total_groups(g, &tiles[pass][i], pass) >= 2 * (uint64_t)caps->compute_units;
        if (large && (!small || (many && (pass != PASS_FORWARD || fills)))) return &tiles[pass][i];
        if (small) return &tiles[pass][i + SMALL];
    }
    return NULL;
}

static bool blocks_fit(const rf_attention_geometry *g, const rf_device_caps *caps)
{
    /* SwiftShader's compiler was not seen to come to an end. */
    if (caps->driver == RF_DRIVER_SWIFTSHADER || g->k > longest_row(caps) || g->v > longest_row(caps)) return false;
    /* Vectors, and elements of the mask, are numbered in 32 bits. */
    const int64_t rows = g->t > g->s ? g->t : g->s, width = g->k > g->v ? g->k : g->v;
    if (g->k % 4 || g->v % 4 || g->items > INT32_MAX / rows ||
        (uint64_t)(g->items * rows) * (uint64_t)width * sizeof(float) > caps->max_storage_range)
        return false;
    for (int pass = 0; pass < PASSES; pass++)
        if (!choose_tile(g, caps, (blocks_pass)pass)) return false;
    return true;
}

double rf_attention_blocks_score(const rf_op_call *call, const rf_device_caps *caps, const void *data)
{
    const rf_attention_geometry g = rf_attention_geometry_of(call, data && *(const bool *)data);
    return rf_fits_storage(call, caps) && blocks_fit(&g, caps) ? RF_SCORE_SHAPE : RF_SCORE_NONE;
}

/* ---- plans ---- */

static rf_dispatch *add_pass(const rf_attention_geometry *g, const rf_device_caps *caps, blocks_pass pass,
                             rf_kernel_plan *plan)
{
    const blocks_tile *tile = choose_tile(g, caps, pass);
    const uint64_t total = total_groups(g, tile, pass);
    const rf_push_attention_blocks push = { .total = (int32_t)total,
                                            .items = (int32_t)g->items,
                                            .tiles = (int32_t)(total / (uint64_t)g->items),
                                            .queries = (int32_t)g->t,
                                            .keys = (int32_t)g->s,
                                            .last_key = (int32_t)rf_attention_last_key(g),
                                            .scale = g->scale,
                                            .heads = (int32_t)g->heads,
                                            .mask_item = (int32_t)g->mask_item,
                                            .mask_head = (int32_t)g->mask_head,
                                            .mask_query = (int32_t)g->mask_query,
                                            .mask_key = (int32_t)g->mask_key };
    rf_dispatch *d = rf_kernel_plan_add(plan, tile->shaders[rf_block_width_of(caps)], loops_of(g, tile, pass));
    if (!d) return NULL;
    rf_dispatch_spec(d, threads_of(tile, pass));
    rf_dispatch_spec(d, g->causal);
    rf_dispatch_spec(d, !g->mask ? 0 : g->mask_query ? 1 : 2);
    rf_dispatch_spec(d, has_registers(caps)); /* the next tile is held beside the sums */
    rf_dispatch_spec(d, (uint32_t)g->k / 4);
    rf_dispatch_spec(d, (uint32_t)g->v / 4);
    rf_dispatch_push(d, &push, sizeof(push));
    rf_dispatch_groups(d, caps, total);
    return d;
}

rf_result rf_attention_blocks_plan(const rf_op_call *call, const rf_device_caps *caps, const void *data,
                                   rf_kernel_plan *plan)
{
    const rf_attention_geometry g = rf_attention_geometry_of(call, false);
    rf_dispatch *d = add_pass(&g, caps, PASS_FORWARD, plan);
    if (!d) return RF_ERROR_OUT_OF_HOST_MEMORY;
    for (uint32_t i = 0; i < 3; i++) rf_bind_whole(d, RF_BIND_INPUT, i);
    rf_bind_whole(d, RF_BIND_INPUT, g.mask);
    rf_bind_whole(d, RF_BIND_OUTPUT, 0);
    rf_bind_whole(d, RF_BIND_OUTPUT, 1);
    return RF_OK;
}

rf_result rf_attention_grad_blocks_plan(const rf_op_call *call, const rf_device_caps *caps, const void *data,
                                        rf_kernel_plan *plan)
{
    const rf_attention_geometry g = rf_attention_geometry_of(call, true);
    plan->workspace = (uint64_t)(g.items * g.t) * sizeof(float);
    for (blocks_pass pass = PASS_QUERIES; pass <= PASS_KEYS; pass++) {
        rf_dispatch *d = add_pass(&g, caps, pass, plan);
        if (!d) return RF_ERROR_OUT_OF_HOST_MEMORY;
        for (uint32_t i = 0; i < 4; i++) rf_bind_whole(d, RF_BIND_INPUT, i);
        rf_bind_whole(d, RF_BIND_INPUT, 5);
        rf_bind_whole(d, RF_BIND_INPUT, g.mask);
        if (pass == PASS_QUERIES) rf_bind_whole(d, RF_BIND_INPUT, 4);
        rf_bind(d, (rf_binding){ .kind = RF_BIND_WORKSPACE, .size = plan->workspace, .write = pass == PASS_QUERIES });
        rf_bind_whole(d, RF_BIND_OUTPUT, pass == PASS_QUERIES ? 0 : 1);
        if (pass == PASS_KEYS) rf_bind_whole(d, RF_BIND_OUTPUT, 2);
    }
    return RF_OK;
}
