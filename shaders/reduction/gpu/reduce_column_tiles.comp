// SPDX-License-Identifier: Apache-2.0
// Reduces the middle of [matrices, rows, columns] on GPUs, by strips of columns
// (column_tiles.glsl).
#version 450
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#define OWN_PUSH
#include "reduction/common/reduce.glsl"
#define ARRIVALS 3
#include "column_tiles.glsl"

#define RF_TYPES_ID 2
#include "include/stored.glsl"
#if W == 4
#define VEC vec4
RF_STORED4(0, x, readonly)
#define X(i) RF_LOAD4(0, x, i)
#else
#define VEC float
RF_STORED1(0, x)
#define X(i) RF_LOAD1(0, x, i)
#endif
layout(std430, binding = 1) writeonly buffer Y { VEC y[]; };
// of each part a row of results for all matrices
layout(std430, binding = 2) coherent buffer Lists { VEC lists[]; };
// Columns count vectors.
layout(push_constant) uniform Push {
    uint rows, columns, part_rows, parts, width, strips, lines, merges, matrices;
    float scale;
};

shared VEC of_line[STRIP_LANES];
#define MERGE(to, from) of_line[to] = rf_combine(of_line[to], of_line[from])

void main()
{
    const uint group = rf_group(), matrix = group / (parts * strips);
    if (matrix >= matrices) return;
    const Place p = rf_place(group - matrix * (parts * strips), rows, columns, part_rows, strips,
        width, lines);
    const uint lane = gl_LocalInvocationID.x, step = lines * columns;
    VEC result = VEC(rf_start());
    uint at = (matrix * rows + p.first) * columns + p.column, left = p.left;
    for (; left >= 4; left -= 4, at += 4 * step) {
        const VEC a = X(at), b = X(at + step), c = X(at + 2 * step), d = X(at + 3 * step);
        result = rf_combine(result, rf_combine(rf_combine(rf_apply(a), rf_apply(b)),
            rf_combine(rf_apply(c), rf_apply(d))));
    }
    if (left > 0) {
        const VEC a = X(at), b = X(left > 1 ? at + step : at), c = X(left > 2 ? at + 2 * step : at);
        result = rf_combine(result, rf_apply(a));
        if (left > 1) result = rf_combine(result, rf_apply(b));
        if (left > 2) result = rf_combine(result, rf_apply(c));
    }
    of_line[lane] = result;
    RF_MERGE_LINES(p, width, lines, merges)
    const uint to = matrix * columns + p.column, list = matrices * columns;
    const bool first_line = p.line == 0 && p.column < columns;
    if (parts > 1) {
        if (first_line) lists[p.part * list + to] = of_line[lane];
        if (!rf_all_arrived(matrix * strips + p.strip, parts)) return;
        const uint here = p.line < lines && p.column < columns ? parts : 0;
        result = VEC(rf_start());
        for (uint part = p.line; part < here; part += 4 * lines) {
            VEC v[4];
            [[unroll]] for (uint k = 0; k < 4; k++) v[k] =
                lists[min(part + k * lines, parts - 1) * list + to];
            [[unroll]] for (uint k = 0; k < 4; k++)
                result = part + k * lines < parts ? rf_combine(result, v[k]) : result;
        }
        of_line[lane] = result;
        RF_MERGE_LINES(p, width, lines, merges)
    }
    if (first_line) y[to] = of_line[lane] * scale;
}
