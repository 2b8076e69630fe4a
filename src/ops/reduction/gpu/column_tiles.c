/* SPDX-License-Identifier: Apache-2.0 */
#include "ops/reduction/gpu/column_tiles.h"

enum {
    /* As many as the shaders have shared memory for. */
    STRIP_LANES = 256,
    /* Lines that are read at once, by one invocation after the other: as many as the shaders load before they add. */
    LINES_AT_ONCE = 4,
    /* Lines that one invocation adds up: rounding errors, and those of an outlier that it measures deviations from,
     * grow with their number. */
    MOST_LINES = 512,
    /* Up to so many lines of an invocation, all rows in one part take less time than parts that wait for each other. */
    WHOLE_LINES = 12,
};

/* Workgroups that keep enough loads on their way. */
static uint64_t busy_groups(const rf_device_caps *caps, uint32_t vector)
{
    return (uint64_t)(caps->compute_units > 0 ? caps->compute_units : 16) * (vector == 4 ? 4 : 8);
}

/* Columns of the strips where all rows are one part. */
static uint64_t narrow_width(const rf_device_caps *caps, uint64_t matrices, uint64_t rows, uint64_t columns,
                             uint32_t vector)
{
    const uint64_t local = rf_local_size(caps, STRIP_LANES);
    /* 64 and 32 bytes: memory is read in no smaller units. */
    uint64_t width = vector == 4 ? 4 : 8;
    /* No more lines than rows; and where there are more strips than the device needs, several rows for each. */
    if (width < local / rows) width = local / rows;
    const uint64_t wide = rf_min(LINES_AT_ONCE * local / rows, local);
    if (width < wide && matrices * rf_div_up(columns, width) > 2 * busy_groups(caps, vector)) width = wide;
    return rf_min(columns, width);
}

rf_column_tiles rf_column_tiles_make(const rf_device_caps *caps, uint64_t matrices, uint64_t rows, uint64_t columns,
                                     uint32_t vector)
{
    rf_column_tiles s = {
        .matrices = matrices, .rows = rows, .columns = columns, .local = rf_local_size(caps, STRIP_LANES)
    };
    const uint64_t narrow = narrow_width(caps, matrices, rows, columns, vector);
    const bool whole = rf_div_up(rows, s.local / narrow) <= WHOLE_LINES;
    /* Narrow strips are many: they occupy a device that has no parts to do. Others are lines of the cache. */
    const uint64_t widest = whole ? narrow : vector == 4 ? 8 : 32;
    s.strips = (uint32_t)rf_div_up(columns, widest);
    s.width = (uint32_t)rf_div_up(columns, s.strips);
    s.strips = (uint32_t)rf_div_up(columns, s.width);
    s.lines = s.local / s.width;
    for (s.merges = 1; 2 * s.merges < s.lines;) s.merges *= 2;

    const uint64_t busy = rf_div_up(busy_groups(caps, vector), s.strips * matrices);
    const uint64_t turns = rf_div_up(rows, s.lines), most = rf_div_up(turns, LINES_AT_ONCE);
    uint64_t share = rf_align_up(rf_div_up(turns, whole ? 1 : rf_min(busy, most)), LINES_AT_ONCE);
    if (share > MOST_LINES) share = MOST_LINES;
    s.part_rows = share * s.lines;
    s.parts = rf_div_up(rows, s.part_rows);
    /* Both trees, and the parts. */
    s.loops = share / LINES_AT_ONCE + s.parts / s.lines / LINES_AT_ONCE + 24;
    return s;
}

bool rf_column_tiles_fit(const rf_device_caps *caps, const rf_column_tiles *s, uint64_t workspace)
{
    uint32_t grid[3];
    const bool counted = s->parts == 1 || s->matrices * s->strips * sizeof(uint32_t) <= RF_MAX_COUNTERS;
    return counted && workspace <= caps->max_storage_range && s->loops <= rf_loop_limit(caps) &&
           rf_grid_make(caps, s->parts * s->strips * s->matrices, grid);
}

void rf_column_tiles_plan(const rf_device_caps *caps, rf_kernel_plan *plan, rf_dispatch *d, const rf_column_tiles *s,
                          uint64_t workspace)
{
    plan->workspace = workspace;
    if (s->parts > 1) {
        plan->counters = s->matrices * s->strips * sizeof(uint32_t);
        rf_bind_bytes(d, RF_BIND_WORKSPACE, 0, 0, workspace);
        rf_bind_whole(d, RF_BIND_COUNTERS, 0);
    } else {
        /* The shader names them, and never uses them. */
        rf_bind_whole(d, RF_BIND_OUTPUT, 0);
        rf_bind_whole(d, RF_BIND_OUTPUT, 0);
    }
    rf_dispatch_groups(d, caps, s->parts * s->strips * s->matrices);
}
