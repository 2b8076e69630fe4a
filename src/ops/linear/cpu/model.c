/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Times were measured with lavapipe, or with SwiftShader where a line names it, on two cores of an Intel
 * Xeon with AVX-512; those of loops beside other work.
 */
#include "ops/linear/cpu/model.h"

/* ---- the direct form ---- */

/* Time of a tile for the same number of products: larger ones make better use of what they load. Where a transposed
 * gather may as well be tall it is, so that data gradients of wide and of narrow layers share one pipeline: it takes
 * lavapipe most of a second to compile. Other products read their left operand again for each tile of columns, and have
 * few summands where that is much: of 48 columns three narrow tiles lose there. */
#define NARROW_SLOWNESS 1.25
#define ABREAST_SLOWNESS 1.35
#define ABREAST_TRANSPOSED_SLOWNESS 1.2
#define TALL_SLOWNESS 1.02
#define TALL_TRANSPOSED_SLOWNESS 0.99
#define SLIM_SLOWNESS 3.0
#define SMALL_PRODUCT 1e6 /* multiplications: about 30 us */

const rf_lanes_tile *rf_lanes_choose(const rf_lanes_set *set, const rf_lanes_tile tiles[RF_LANES_SHAPES], int64_t rows,
                                     int64_t columns)
{
    const bool transposed = tiles == set->gather_transposed;
    const double slowness[RF_LANES_SHAPES] = { [RF_LANES_WIDE] = 1,
                                               [RF_LANES_NARROW] = NARROW_SLOWNESS,
                                               [RF_LANES_ABREAST] =
                                                   transposed ? ABREAST_TRANSPOSED_SLOWNESS : ABREAST_SLOWNESS,
                                               [RF_LANES_TALL] = transposed ? TALL_TRANSPOSED_SLOWNESS : TALL_SLOWNESS,
                                               [RF_LANES_SLIM] = SLIM_SLOWNESS };
    const rf_lanes_tile *best = NULL;
    double least = 0;
    for (int i = 0; i < RF_LANES_SHAPES; i++) {
        const rf_lanes_tile *tile = &tiles[i];
        if (!tile->shader) continue;
        const double work = slowness[i] * (double)rf_align_up((uint64_t)rows, tile->rows) *
                            (double)rf_align_up((uint64_t)columns, tile->columns);
        if (best && work >= least) continue;
        best = tile;
        least = work;
    }
    return best;
}

const rf_lanes_tile *rf_lanes_choose_grad(const rf_lanes_set *set, int64_t rows, int64_t columns, int64_t summands)
{
    if ((double)rows * (double)columns * (double)summands < SMALL_PRODUCT) return &set->grad[RF_LANES_WIDE];
    return rf_lanes_choose(set, set->grad, rows, columns);
}

#define DISPATCH 30e-6
#define LANES_FLOPS 60e9       /* in a second, of the set that is a driver's favourite */
#define OTHER_LANES_FLOPS 30e9 /* of the others there */
#define COPIED_BYTES 4e9
#define SCALAR_LOADS 2.5 /* the time of products whose left operand is read one float at a time */

double rf_cpu_lanes_seconds(const rf_lanes_set *set, const rf_device_caps *caps, double padded_flops,
                            double packed_bytes, uint32_t dispatches)
{
    const double rate = caps->driver == set->favourite ? LANES_FLOPS : OTHER_LANES_FLOPS;
    return padded_flops / rate + packed_bytes / COPIED_BYTES + DISPATCH * dispatches;
}

static double padding_waste(int64_t size, uint32_t unit)
{
    return (double)rf_align_up((uint64_t)size, unit) / (double)size;
}

double rf_cpu_direct_seconds(const rf_lanes_set *set, const rf_op_call *call, const rf_device_caps *caps,
                             const rf_conv_geometry *g, bool scalar)
{
    const bool data = g->role == RF_ROLE_DATA, filter = g->role == RF_ROLE_FILTER;
    const rf_lanes_tile *tiles = filter ? (scalar ? set->grad_scalar : set->grad)
                                 : data ? set->gather_transposed
                                        : (scalar ? set->gather_scalar : set->gather);
    const int64_t rows = filter ? g->kh * g->kw * g->cig : data ? g->n * g->h * g->w : g->n * g->oh * g->ow;
    const int64_t summed = data ? g->cog : g->cig, columns = data ? g->cig : g->cog;
    const rf_lanes_tile *tile = rf_lanes_choose(set, tiles, rows, columns);
    const bool pack_a = !scalar && summed % 4 != 0, pack_b = g->cog % 4 != 0;
    /* Rows of fewer than four elements grow to four. */
    const double packed = (pack_a ? (double)rf_tensor_bytes(&call->in[0]) * 4 / (double)(summed < 4 ? summed : 4) : 0) +
                          (pack_b ? (double)rf_tensor_bytes(&call->in[1]) : 0);
    const double waste = padding_waste(columns, tile->columns) *
                         (scalar ? padding_waste(rows, tile->rows) * SCALAR_LOADS : padding_waste(summed, 4));
    const double seconds =
        rf_cpu_lanes_seconds(set, caps, call->op->cost(call).flops * waste, packed, 1u + pack_a + pack_b);
    return data ? seconds * (double)(g->sy * g->sx) : seconds; /* pixels of zeros between those of dy are multiplied */
}

/* ---- forms that were measured beside it ---- */

double rf_cpu_loop_seconds(rf_cpu_loop loop, double tiles, double turns)
{
    /* Seconds of a turn, and of the rest that a workgroup does once. */
    static const struct {
        double turn, rest;
    } times[] = {
        [RF_CPU_LOOP_WINOGRAD_32] = { 0.56e-6, 3.4e-6 },
        [RF_CPU_LOOP_WINOGRAD_16] = { 0.64e-6, 5.2e-6 },
        [RF_CPU_LOOP_WINOGRAD_4] = { 0.48e-6, 9.6e-6 },
        [RF_CPU_LOOP_WALK] = { 0.36e-6, 0 },
    };
    return tiles * (turns * times[loop].turn + times[loop].rest);
}

double rf_cpu_pass_seconds(rf_cpu_pass pass, double amount)
{
    static const double seconds[] = {
        [RF_CPU_PASS_KERNELS_2] = 1 / 1e9, [RF_CPU_PASS_KERNELS_4] = 1 / 4e9, [RF_CPU_PASS_LINES] = 68e-9,
        [RF_CPU_PASS_WALKS] = 50e-9,       [RF_CPU_PASS_WALKS_LARGE] = 75e-9, [RF_CPU_PASS_SUMS] = 1 / 4e9
    };
    return amount * seconds[pass];
}

/* A turn takes four channels; the rest is done once for a tile. */
#define DIRECT_REST 2.8e-6
/* A turn of 3 x 3 is a tap: tiles of 64 rows by 32 columns, or 16 where there are no more. */
enum { DIRECT_ROWS = 64, DIRECT_COLUMNS = 32, DIRECT_NARROW_COLUMNS = 16 };
#define DIRECT_TAP_TURN 0.31e-6
#define DIRECT_NARROW_TAP_TURN 0.17e-6
#define DIRECT_NARROW_REST 2.5e-6
/* A turn of gradients by the kernel is four pixels; by columns of the tile: more than 32, more than 16, fewer. */
#define DIRECT_WIDE_PIXELS_TURN 0.35e-6
#define DIRECT_PIXELS_TURN 0.19e-6
#define DIRECT_NARROW_PIXELS_TURN 0.208e-6

double rf_cpu_direct_3x3_loop_seconds(int64_t pixels, int64_t columns, int64_t channels)
{
    const bool narrow = columns <= DIRECT_NARROW_COLUMNS;
    const uint64_t tiles = rf_div_up((uint64_t)pixels, DIRECT_ROWS) *
                           rf_div_up((uint64_t)columns, narrow ? DIRECT_NARROW_COLUMNS : DIRECT_COLUMNS);
    const double turn = narrow ? DIRECT_NARROW_TAP_TURN : DIRECT_TAP_TURN;
    return (double)tiles * ((double)rf_lanes_fours(channels) * 9 * turn + (narrow ? DIRECT_NARROW_REST : DIRECT_REST));
}

double rf_cpu_direct_filter_loop_seconds(const rf_lanes_set *set, const rf_conv_geometry *g)
{
    const int64_t rows = g->kh * g->kw * rf_lanes_fours(g->cin) * 4, pixels = g->n * g->oh * g->ow;
    const rf_lanes_tile *tile = rf_lanes_choose_grad(set, rows, g->cout, pixels);
    const uint64_t tiles = rf_div_up((uint64_t)rows, tile->rows) * rf_div_up((uint64_t)g->cout, tile->columns);
    const double turn = tile->columns > 32   ? DIRECT_WIDE_PIXELS_TURN
                        : tile->columns > 16 ? DIRECT_PIXELS_TURN
                                             : DIRECT_NARROW_PIXELS_TURN;
    return (double)tiles * (double)pixels / 4 * turn;
}

double rf_cpu_seconds_beside(const rf_lanes_set *set, const rf_op_call *call, const rf_device_caps *caps,
                             const rf_conv_geometry *g, double own, double beside)
{
    return rf_cpu_direct_seconds(set, call, caps, g, false) * own / beside;
}

/* 32 summands of a row; loading the operand that is kept; the loads and stores that begin and end a row, with a margin,
 * because sums of one tap and few channels were not measured. And the same 32 summands in the direct form. */
#define RESIDENT_ROW 0.22e-6
#define RESIDENT_LOAD 6e-6
#define RESIDENT_ENDS 0.3e-6
#define RESIDENT_DIRECT_ROW 0.34e-6
/* Other compilers keep sums in registers through a loop, in the direct form too. */
#define RESIDENT_ELSEWHERE 2.0

double rf_cpu_resident_seconds(const rf_lanes_set *set, const rf_op_call *call, const rf_device_caps *caps,
                               const rf_conv_geometry *g, double rows, double passes, double loads, bool ends)
{
    const double own = rows * (passes * RESIDENT_ROW + (ends ? RESIDENT_ENDS : 0)) + loads * RESIDENT_LOAD;
    const double faster = rows * passes * RESIDENT_DIRECT_ROW / own;
    return rf_cpu_direct_seconds(set, call, caps, g, false) *
           (caps->driver == set->favourite ? 1 / faster : RESIDENT_ELSEWHERE);
}

/* ---- convolutions of few channels ---- */

#define FEW_FLOPS 75e9
#define FEW_OTHER_FLOPS 4e9 /* on other drivers */
/* A turn of gradients by the kernel: loads take as long as products. */
#define FILTER_TURN 0.27e-6
#define FILTER_POOLED_TURN 0.2e-6
#define FILTER_PART_COLUMNS 1.4
#define FILTER_OTHER_DRIVERS 10.0
#define FILTER_START 6e-5

double rf_cpu_small_channels_seconds(const rf_device_caps *caps, double flops, double dispatches)
{
    const double rate = caps->driver == RF_DRIVER_LAVAPIPE ? FEW_FLOPS : FEW_OTHER_FLOPS;
    return flops / rate + DISPATCH * dispatches;
}

double rf_cpu_small_channels_filter_seconds(const rf_device_caps *caps, bool pooled, bool whole_columns, double turns)
{
    double turn = pooled ? FILTER_POOLED_TURN : FILTER_TURN;
    if (!whole_columns) turn *= FILTER_PART_COLUMNS;
    if (caps->driver != RF_DRIVER_LAVAPIPE) turn *= FILTER_OTHER_DRIVERS;
    return turns * turn + FILTER_START;
}
