/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The model of a compute unit. None of its numbers is asked of a device: they are assumed of all, and were measured
 * where a line says so. Other GPUs are judged by the same ones, because all that they decide is an order.
 */
#include "ops/linear/gpu/model.h"

/* A unit holds so much: 64 KiB of shared memory, or more where one workgroup may have more. */
#define UNIT_SHARED 65536u
#define UNIT_THREADS 2048u
#define UNIT_REGISTERS 65536u
#define UNIT_BYTES 32.0        /* from the cache each cycle, where tiles are loaded */
#define UNIT_SKINNY_BYTES 64.0 /* where every load is used once */
#define UNIT_SKINNY_GROUPS 8
#define HERTZ 1.7e9
/* Cycles. */
#define SLICE_LATENCY 520.0  /* from a load to its use */
#define GATHER_LATENCY 900.0 /* the same where places are worked out */
#define WHOLE_LATENCY 950.0  /* of a slice between two barriers: on an NVIDIA H200 a product of 1024 is that slow */
#define BLOCK_LATENCY 2000.0 /* of a workgroup: start, first slice, stores */
#define PARTS_LATENCY 2500.0 /* write, count, read */
#define LOAD_LATENCY 900.0   /* of skinny products' loads, while which nothing is done */
#define GROUP_LATENCY 1200.0 /* of their workgroups apart from loads */
#define STEP_LATENCY 60.0    /* of adding slices in pairs */
#define LAUNCH_SECONDS 3e-6
/* Multiply-adds of matrix units by those of others: 4 (RDNA3) to 16 (H100); a guess at the lower end, because what this
 * decides is how long sums are cut up. */
#define MATRIX_SPEED 4.0

double rf_gpu_block_efficiency(rf_block_tile tile)
{
    /* Products of 2048 and 4096 on an NVIDIA H200, whose arithmetic units are what bench device measures. */
    static const double efficiencies[RF_BLOCK_TILES] = {
        [RF_BLOCK_S] = 0.56, [RF_BLOCK_DEEP] = 0.45, [RF_BLOCK_M] = 0.58,
        [RF_BLOCK_T] = 0.57, [RF_BLOCK_L] = 0.72,    [RF_BLOCK_XL] = 0.75
    };
    return efficiencies[tile];
}

double rf_gpu_cooperative_efficiency(const rf_device_caps *caps, rf_block_tile tile, bool small)
{
    /* Products in bf16 on an NVIDIA H200, the whole tiles' of 4096. */
    static const double efficiencies[] = { 0.23, 0.73, 0.4 }, small_efficiencies[] = { 0.3, 0.5 };
    if (tile == RF_BLOCK_COOP_XL) return MATRIX_SPEED * (caps->is_cpu ? 0.2 : 1.45);
    return MATRIX_SPEED * (small ? small_efficiencies : efficiencies)[tile - RF_BLOCK_COOP_S];
}

/* Multiply-adds of a compute unit in a cycle. */
static double unit_lanes(const rf_device_caps *caps)
{
    return caps->driver == RF_DRIVER_AMD ? 64 : 128;
}

/* Workgroups that a compute unit holds at once. */
static uint64_t blocks_resident(const rf_device_caps *caps, const rf_block *b)
{
    const uint32_t shared = caps->max_shared_memory > UNIT_SHARED ? caps->max_shared_memory : UNIT_SHARED;
    uint64_t most = shared / b->shared;
    most = rf_min(most, UNIT_THREADS / b->threads);
    most = rf_min(most, UNIT_REGISTERS / (b->threads * b->registers));
    return most < 1 ? 1 : most;
}

/* Cycles that a compute unit takes for `count` workgroups at once. Their loads and their arithmetic overlap, and those
 * of one with those of another; what no neighbour covers is the latency of each slice. */
static double wave_cycles(const rf_device_caps *caps, const rf_block *b, bool gathers, double count, double slices)
{
    const double arithmetic = b->rows * b->columns * b->depth / (unit_lanes(caps) * b->efficiency);
    const double loads = (b->rows + b->columns) * b->depth * b->element / UNIT_BYTES;
    double slice = count * (arithmetic > loads ? arithmetic : loads);
    const double latency = b->whole ? WHOLE_LATENCY : gathers ? GATHER_LATENCY : SLICE_LATENCY;
    if (slice < latency) slice = latency;
    return slices * slice + BLOCK_LATENCY;
}

/* From memory come half as many bytes as from the cache. */
double rf_gpu_reread_seconds(const rf_device_caps *caps, double bytes)
{
    const uint32_t units = caps->compute_units > 0 ? caps->compute_units : 1;
    return bytes > 0 ? LAUNCH_SECONDS + bytes / (units * UNIT_BYTES / 2 * HERTZ) : 0;
}

double rf_gpu_block_seconds(const rf_device_caps *caps, const rf_block *b, bool gathers, const rf_block_grid *g)
{
    const uint64_t units = caps->compute_units > 0 ? caps->compute_units : 1;
    const uint64_t at_once = blocks_resident(caps, b), of_a_unit = rf_div_up(g->total, units);
    const double slices = (double)g->split / b->depth;
    const uint64_t whole_waves = of_a_unit / at_once;
    double cycles = (double)whole_waves * wave_cycles(caps, b, gathers, (double)at_once, slices);
    if (of_a_unit % at_once > 0) cycles += wave_cycles(caps, b, gathers, (double)(of_a_unit % at_once), slices);
    const int32_t adds = g->parts_of_group + (g->groups > 1 ? g->groups : 0);
    if (g->parts > 1 && !b->whole)
        cycles += PARTS_LATENCY * (g->groups > 1 ? 2 : 1) +
                  (double)rf_div_up(g->tiles, units) * adds * 2 * b->rows * b->columns * sizeof(float) / UNIT_BYTES;
    const double adding = g->parts > 1 && b->whole ? rf_gpu_reread_seconds(caps, 2.0 * (double)g->partial) : 0;
    return LAUNCH_SECONDS + cycles / HERTZ + adding;
}

/* ---- products of few rows or columns ---- */

static double waves_of(uint64_t count, uint64_t at_once)
{
    return (double)rf_div_up(count, at_once);
}

double rf_gpu_skinny_seconds(const rf_device_caps *caps, const rf_gpu_skinny *s)
{
    const uint64_t units = caps->compute_units > 0 ? caps->compute_units : 1, width = s->local / s->slices;
    const uint64_t groups = s->tiles * s->parts, of_a_unit = rf_min(rf_div_up(groups, units), UNIT_SKINNY_GROUPS);
    /* Fewer of a sector's eight numbers count where neighbours do not read all of them. */
    const uint64_t neighbours = s->along ? s->slices : width;
    const double waste = neighbours < 8 ? 8.0 / (double)neighbours : 1;
    const double loads = (double)of_a_unit * s->local * s->at_once * 2 * sizeof(float) * waste / UNIT_SKINNY_BYTES;
    const double turn = loads > LOAD_LATENCY ? loads : LOAD_LATENCY;
    double cycles = waves_of(s->part, (uint64_t)s->at_once * s->slices) * turn + GROUP_LATENCY;
    for (uint32_t step = s->slices; step > 1; step /= 2) cycles += STEP_LATENCY;
    cycles *= waves_of(groups, units * UNIT_SKINNY_GROUPS);
    if (s->parts > 1) cycles += PARTS_LATENCY + waves_of(s->parts, s->slices) * LOAD_LATENCY;
    return LAUNCH_SECONDS + cycles / HERTZ;
}
