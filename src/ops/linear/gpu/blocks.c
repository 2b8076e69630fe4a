/* SPDX-License-Identifier: Apache-2.0 */
#include "ops/linear/gpu/blocks.h"
#include "ops/linear/gpu/cooperative.h"
#include "ops/linear/gpu/model.h"

/* shaders/linear/meson.build has the same sizes. */
static const rf_block blocks[RF_BLOCK_TILES] = {
    [RF_BLOCK_S] = { .rows = 32, .columns = 32, .threads = 64, .registers = 64, .groups = 1 },
    [RF_BLOCK_DEEP] = { .rows = 32, .columns = 32, .threads = 256, .registers = 64, .groups = 4 },
    [RF_BLOCK_M] = { .rows = 64, .columns = 64, .threads = 256, .registers = 64, .groups = 1 },
    [RF_BLOCK_T] = { .rows = 128, .columns = 32, .threads = 128, .registers = 104, .groups = 1 },
    [RF_BLOCK_L] = { .rows = 128, .columns = 64, .threads = 256, .registers = 96, .groups = 1 },
    [RF_BLOCK_XL] = { .rows = 128, .columns = 128, .threads = 256, .registers = 128, .groups = 1 },
};

rf_block rf_block_make(const rf_device_caps *caps, rf_block_tile tile, rf_dtype operands)
{
    if (tile >= RF_BLOCK_TILES) return rf_coop_block(caps, tile, operands);
    rf_block b = blocks[tile];
    b.depth = RF_BLOCK_K * b.groups;
    b.element = sizeof(float);
    b.efficiency = rf_gpu_block_efficiency(tile);
    b.shared = 2 * b.depth * (b.rows + b.columns) * b.element;
    return b;
}

rf_dtype rf_block_operands(const rf_op_call *call)
{
    return call->in[0].dtype == call->in[1].dtype ? call->in[0].dtype : RF_F32;
}

/* ---- grids ---- */

/* The grid with `parts`, or a few less; its time is 0 where the device does not allow it. */
static rf_block_grid grid_of(const rf_device_caps *caps, rf_block_tile tile, const rf_block_job *job, int64_t parts)
{
    const rf_block b = rf_block_make(caps, tile, job->operands);
    rf_block_grid g = { .row_tiles = (int32_t)rf_div_up((uint64_t)job->rows, b.rows),
                        .column_tiles = (int32_t)rf_div_up((uint64_t)job->columns, b.columns) };
    g.split = (int32_t)rf_align_up(rf_div_up((uint64_t)job->length, (uint64_t)parts), b.depth);
    g.parts = (int32_t)rf_div_up((uint64_t)job->length, (uint64_t)g.split);
    for (g.parts_of_group = g.parts < 8 ? g.parts : 4; g.parts_of_group * g.parts_of_group < g.parts;)
        g.parts_of_group++;
    g.groups = (int32_t)rf_div_up((uint64_t)g.parts, (uint64_t)g.parts_of_group);
    g.tiles = (uint64_t)g.row_tiles * (uint64_t)g.column_tiles * (uint64_t)job->batch;
    g.total = g.tiles * (uint64_t)g.parts;
    g.counters = g.parts == 1 || b.whole ? 0 : g.tiles * (uint64_t)(g.groups > 1 ? g.groups + 1 : 1);
    /* A slice's loop is left to the driver to unroll, so it counts. */
    g.loops = ((uint64_t)g.split / b.depth + 1) * (b.depth + 2) + (uint64_t)(g.parts_of_group + g.groups);
    const uint64_t results = (uint64_t)(job->rows * job->columns * job->batch) * (uint64_t)g.parts;
    g.partial = (b.whole ? results : g.total * b.rows * b.columns) * sizeof(float);
    const bool parts_fit = g.parts == 1 || (g.partial <= caps->max_storage_range && g.counters * 4 <= RF_MAX_COUNTERS);
    /* Longer sums than this would lose precision. */
    const uint64_t longest = 16384 * (uint64_t)b.depth;
    if (parts_fit && g.loops <= rf_loop_limit(caps) && (uint64_t)g.split <= longest && g.total <= INT32_MAX)
        g.seconds = rf_gpu_block_seconds(caps, &b, job->gathers, &g) + rf_gpu_reread_seconds(caps, job->reread);
    return g;
}

rf_block_grid rf_block_grid_make(const rf_device_caps *caps, rf_block_tile tile, const rf_block_job *job)
{
    const rf_block b = rf_block_make(caps, tile, job->operands);
    const int64_t shortest = 4 * (int64_t)(b.depth / b.groups);
    rf_block_grid best = { 0 };
    /* Two steps from each power of two to the next; no part shorter than what a group has of four slices, unless a
     * device needs many. */
    for (int64_t parts = 1; parts <= 4096; parts += parts < 2 ? 1 : parts & (parts - 1) ? parts / 3 : parts / 2) {
        if (best.seconds > 0 && parts > 1 && job->length / parts < shortest) break;
        if (parts > 1 && b.whole && !job->can_add) break;
        const rf_block_grid g = grid_of(caps, tile, job, parts);
        if (g.seconds > 0 && (best.seconds == 0 || g.seconds < RF_GPU_WORTHWHILE * best.seconds)) best = g;
    }
    return best;
}

/* Summands of a part for each part that there is: relative errors of sums of positive numbers stay below 5e-7. */
enum { RIDE_BY_PARTS = 256 };

bool rf_block_sums_ride(const rf_device_caps *caps, rf_block_tile tile, rf_block_job *job, double bytes)
{
    const rf_block b = rf_block_make(caps, tile, job->operands);
    rf_block_job with = *job;
    with.rows++;
    rf_block_grid g = { 0 };
    if (b.threads > 0 && !b.whole) g = rf_block_grid_make(caps, tile, &with);
    /* Errors of parts are independent: many parts may be longer, because what they round off averages out. */
    const bool short_parts = g.split <= RF_LONGEST_RIDE || (int64_t)g.split <= RIDE_BY_PARTS * (int64_t)g.parts;
    const bool ride = g.seconds > 0 && short_parts;
    job->rows += ride;
    if (!ride) job->reread = bytes;
    return ride;
}

static bool takes_many_registers(rf_block_tile tile)
{
    return tile == RF_BLOCK_XL || tile == RF_BLOCK_T || tile == RF_BLOCK_COOP_XL;
}

/* Whether an invocation may take 128 registers, and twice as many where matrices are. Elsewhere the tiles that need so
 * many spill: the compilers of Turnip (Adreno 6xx), Honeykrisp and ANV were seen to. */
static bool has_registers(const rf_device_caps *caps)
{
    return caps->is_cpu || caps->driver == RF_DRIVER_AMD || caps->driver == RF_DRIVER_NVIDIA;
}

double rf_block_score(const rf_op_call *call, const rf_device_caps *caps, rf_block_tile tile, const rf_block_job *job)
{
    const rf_block b = rf_block_make(caps, tile, job->operands);
    if (b.threads == 0 || caps->max_workgroup_invocations < b.threads || caps->max_workgroup_size[0] < b.threads ||
        caps->max_shared_memory < b.shared || !rf_fits_storage(call, caps) ||
        (takes_many_registers(tile) && !has_registers(caps)))
        return RF_SCORE_NONE;
    const rf_block_grid g = rf_block_grid_make(caps, tile, job);
    if (g.seconds == 0) return RF_SCORE_NONE;
    /* Adding parts up was seen to take a few more registers than 128. */
    if (tile == RF_BLOCK_L && g.parts > 1 && !has_registers(caps)) return RF_SCORE_NONE;
    return rf_score_of_time(g.seconds);
}

/* ---- plans ---- */

rf_block_width rf_block_width_of(const rf_device_caps *caps)
{
    static const uint32_t sizes[RF_BLOCK_WIDTHS] = { [RF_BLOCK_8] = 8, [RF_BLOCK_16] = 16, [RF_BLOCK_32] = 32 };
    rf_block_width width = RF_BLOCK_ANY;
    /* RDNA3 issues two multiply-adds at once in subgroups of 32 alone. On Intel what an invocation has of a thread's
     * registers is the more the fewer share them. */
    if (caps->driver == RF_DRIVER_AMD) width = RF_BLOCK_32;
    if (caps->driver == RF_DRIVER_INTEL) width = caps->min_subgroup_size <= 8 ? RF_BLOCK_8 : RF_BLOCK_16;
    const bool has =
        caps->full_subgroups && caps->min_subgroup_size <= sizes[width] && sizes[width] <= caps->max_subgroup_size;
    return has ? width : RF_BLOCK_ANY;
}

uint32_t rf_block_slice(const rf_device_caps *caps)
{
    return caps->is_cpu ? 0 : RF_BLOCK_K;
}

bool rf_block_takes_narrow(const rf_op_call *call, int64_t columns)
{
    return call->out[0].dtype == RF_F32 || columns % 4 == 0;
}

void rf_block_types(rf_dispatch *d, const rf_op_call *call, const rf_device_caps *caps)
{
    enum { OUTPUT = 3, CONSTANT = 12 };
    uint32_t word = 0, type = 0;
    for (uint32_t i = 0; i <= OUTPUT; i++) {
        if (i != OUTPUT && i >= call->n_in) continue;
        const rf_dtype dtype = i == OUTPUT ? call->out[0].dtype : call->in[i].dtype;
        if (!rf_dtype_is_narrow(dtype)) continue;
        word |= 1u << i;
        type = rf_type_word(dtype, caps);
    }
    while (d->n_spec < CONSTANT) rf_dispatch_spec(d, 0);
    rf_dispatch_spec(d, word | type << 8);
}

void rf_block_bind_parts(rf_dispatch *d, rf_kernel_plan *plan, const rf_device_caps *caps, const rf_block_grid *grid)
{
    if (grid->counters == 0) {
        rf_bind_whole(d, RF_BIND_OUTPUT, 0);
        rf_bind_whole(d, RF_BIND_OUTPUT, 0);
        return;
    }
    plan->counters = grid->counters * 4;
    rf_linear_bind(d, rf_linear_workspace(plan, caps, grid->partial), RF_VIEW_STORAGE, true);
    rf_bind_whole(d, RF_BIND_COUNTERS, 0);
}
