// SPDX-License-Identifier: Apache-2.0
// batch_sums.comp and batch_total.comp for GPUs, by strips of columns (column_tiles.glsl): every
// part of the rows leaves two numbers
// for each column.
//   without a definition: mean and sum of squared deviations from it, merged by the formula of
//   Chan, Golub and LeVeque (1979)
//   AVERAGES: the same, and what normalization makes of them
//   PRODUCTS: the sums of dy * (x - mean) and of dy; with RELU of what the gradient of a ReLU
//   behind the normalization leaves of dy
// Tensors may be stored in 16 bits.
#version 450
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#ifdef PRODUCTS
#define ARRIVALS 11
#elif defined(AVERAGES)
#define ARRIVALS 10
#else
#define ARRIVALS 4
#endif
#include "column_tiles.glsl"
#include "include/scalar_math.glsl"

#if W == 4
#define VEC vec4
#else
#define VEC float
#endif

#define RF_TYPES_ID 1
#include "include/stored.glsl"
#if W == 4
#define STORED(i, name) RF_STORED4(i, name, readonly)
#define LOAD RF_LOAD4
#else
#define STORED RF_STORED1
#define LOAD RF_LOAD1
#endif
STORED(0, x)
#define X(i) LOAD(0, x, i)
#ifdef PRODUCTS
STORED(1, dy)
#define DY(i) LOAD(1, dy, i)
layout(std430, binding = 2) readonly buffer Mean { VEC mean[]; };
layout(std430, binding = 3) readonly buffer Scale { VEC scale[]; };
layout(std430, binding = 4) readonly buffer Variance { VEC variance[]; };
layout(std430, binding = 5) readonly buffer Shift { VEC shift[]; };
layout(std430, binding = 6) writeonly buffer First { VEC first_out[]; };
layout(std430, binding = 7) writeonly buffer Second { VEC second_out[]; };
layout(std430, binding = 8) writeonly buffer Third { VEC third_out[]; };
layout(std430, binding = 9) writeonly buffer Fourth { VEC fourth_out[]; };
layout(std430, binding = 10) coherent buffer Lists { VEC lists[]; };
#elif defined(AVERAGES)
layout(std430, binding = 1) readonly buffer AverageMean { VEC average_mean[]; };
layout(std430, binding = 2) readonly buffer AverageVariance { VEC average_variance[]; };
layout(std430, binding = 3) readonly buffer Gamma { VEC gamma[]; };
layout(std430, binding = 4) writeonly buffer First { VEC first_out[]; };
layout(std430, binding = 5) writeonly buffer Second { VEC second_out[]; };
layout(std430, binding = 6) writeonly buffer Scale { VEC scale_out[]; };
layout(std430, binding = 7) writeonly buffer NextMean { VEC next_mean[]; };
layout(std430, binding = 8) writeonly buffer NextVariance { VEC next_variance[]; };
layout(std430, binding = 9) coherent buffer Lists { VEC lists[]; };
layout(constant_id = 2) const uint SCALED = 0;
#else
layout(std430, binding = 1) writeonly buffer First { VEC first_out[]; };
layout(std430, binding = 2) writeonly buffer Second { VEC second_out[]; };
layout(std430, binding = 3) coherent buffer Lists { VEC lists[]; };
#endif
// Columns count vectors.
layout(push_constant) uniform Push {
    uint rows, columns, part_rows, parts, width, strips, lines, merges;
    float epsilon;
#ifdef AVERAGES
    float keep, take;
#endif
};

// The lines' sums: products and sums of dy, or moments.
struct Pair {
    VEC a, b;
};
shared VEC line_a[STRIP_LANES], line_b[STRIP_LANES];

VEC chosen(bool yes, VEC v)
{
    return yes ? v : VEC(0);
}

#ifdef PRODUCTS
#define KEEP(pair, count)                                                                          \
    line_a[lane] = pair.a;                                                                         \
    line_b[lane] = pair.b;
#define MERGE(to, from)                                                                            \
    {                                                                                              \
        line_a[to] += line_a[from];                                                                \
        line_b[to] += line_b[from];                                                                \
    }
#else
shared float line_count[STRIP_LANES];

// From sums over `count` numbers: of themselves, of their deviations from `origin` and of what
// there is of squared ones.
Pair moments_of(float count, VEC origin, VEC sum, VEC deviation, VEC squares)
{
    const VEC offset = deviation / count;
    // Deviations from an infinite number are NaN, means of numbers that are not finite are not.
    return Pair(rf_known(origin + offset, sum / count),
        rf_larger(squares - deviation * offset, VEC(0)));
}

void merge_moments(uint to, uint from)
{
    const float count = line_count[to] + line_count[from], share = line_count[from] / count;
    const VEC mean = line_a[to], other = line_a[from], distance = other - mean;
    line_a[to] = rf_known(mean + distance * share, mean * (1.0 - share) + other * share);
    line_b[to] += line_b[from] + distance * distance * (line_count[to] * share);
    line_count[to] = count;
}
#define KEEP(pair, count)                                                                          \
    line_a[lane] = pair.a;                                                                         \
    line_b[lane] = pair.b;                                                                         \
    line_count[lane] = count;
#define MERGE(to, from)                                                                            \
    if (line_count[from] > 0.0) merge_moments(to, from)
#endif

#ifdef PRODUCTS
layout(constant_id = 2) const uint RELU = 0;

VEC passed(VEC dy, VEC centred, VEC factor, VEC offset)
{
    return RELU != 0u ? rf_relu_grad(dy, centred * factor + offset) : dy;
}

Pair add_lines(Place p, out float count)
{
    Pair total = Pair(VEC(0), VEC(0));
    count = float(p.left);
    if (p.left == 0) return total;
    const uint step = lines * columns;
    const VEC centre = mean[p.column];
    VEC factor = VEC(0), offset = VEC(0);
    if (RELU != 0u) factor = scale[p.column], offset = shift[p.column];
    uint at = p.first * columns + p.column, left = p.left;
    for (; left >= 4; left -= 4, at += 4 * step) {
        VEC a = DY(at), b = DY(at + step), c = DY(at + 2 * step), d = DY(at + 3 * step);
        VEC xa = X(at), xb = X(at + step), xc = X(at + 2 * step), xd = X(at + 3 * step);
        xa -= centre, xb -= centre, xc -= centre, xd -= centre;
        a = passed(a, xa, factor, offset), b = passed(b, xb, factor, offset);
        c = passed(c, xc, factor, offset), d = passed(d, xd, factor, offset);
        total.a += (a * xa + b * xb) + (c * xc + d * xd);
        total.b += (a + b) + (c + d);
    }
    if (left > 0) {
        const uint to_b = left > 1 ? at + step : at, to_c = left > 2 ? at + 2 * step : at;
        VEC a = DY(at), b = DY(to_b), c = DY(to_c), xa = X(at), xb = X(to_b), xc = X(to_c);
        xa -= centre, xb -= centre, xc -= centre;
        a = passed(a, xa, factor, offset), b = passed(b, xb, factor, offset),
            c = passed(c, xc, factor, offset);
        total.a += (a * xa + chosen(left > 1, b * xb)) + chosen(left > 2, c * xc);
        total.b += (a + chosen(left > 1, b)) + chosen(left > 2, c);
    }
    return total;
}
#else
Pair add_lines(Place p, out float count)
{
    count = float(p.left);
    if (p.left == 0) return Pair(VEC(0), VEC(0));
    const uint step = lines * columns;
    uint at = p.first * columns + p.column, left = p.left;
    // Deviations from the first row are small where the mean is large: little is lost when its
    // square is taken off.
    const VEC origin = X(at);
    VEC sum = VEC(0), deviation = VEC(0), squares = VEC(0);
    for (; left >= 4; left -= 4, at += 4 * step) {
        const VEC va = X(at), vb = X(at + step), vc = X(at + 2 * step), vd = X(at + 3 * step);
        const VEC a = va - origin, b = vb - origin, c = vc - origin, d = vd - origin;
        sum += (va + vb) + (vc + vd);
        deviation += (a + b) + (c + d);
        squares += (a * a + b * b) + (c * c + d * d);
    }
    if (left > 0) {
        const VEC va = X(at), vb = X(left > 1 ? at + step : at),
            vc = X(left > 2 ? at + 2 * step : at);
        const VEC a = va - origin, b = chosen(left > 1, vb - origin),
            c = chosen(left > 2, vc - origin);
        sum += (va + chosen(left > 1, vb)) + chosen(left > 2, vc);
        deviation += (a + b) + c;
        squares += (a * a + b * b) + c * c;
    }
    return moments_of(count, origin, sum, deviation, squares);
}
#endif

// The parts, four of which are loaded at once: a line of invocations takes every one that is
// `lines` further on.
Pair add_parts(Place p, out float count)
{
    const bool busy = p.line < min(lines, parts) && p.column < columns;
    Pair total = Pair(VEC(0), VEC(0));
    count = 0.0;
#ifndef PRODUCTS
    VEC origin = VEC(0), sum = VEC(0);
#endif
    const uint list = parts * columns;
    for (uint part = p.line; busy && part < parts; part += 4 * lines) {
        VEC a[4], b[4];
        [[unroll]] for (uint k = 0; k < 4; k++) {
            const uint at = min(part + k * lines, parts - 1) * columns + p.column;
            a[k] = lists[at];
            b[k] = lists[list + at];
        }
#ifndef PRODUCTS
        if (part == p.line) origin = a[0];
#endif
        [[unroll]] for (uint k = 0; k < 4; k++) {
            const uint here = part + k * lines;
            const bool yes = here < parts;
#ifdef PRODUCTS
            total.a += chosen(yes, a[k]);
            total.b += chosen(yes, b[k]);
#else
            const float n = yes ? float(min(part_rows, rows - here * part_rows)) : 0.0;
            const VEC distance = chosen(yes, a[k] - origin);
            count += n;
            sum += chosen(yes, a[k]) * n;
            total.a += distance * n;
            total.b += chosen(yes, b[k]) + distance * distance * n;
#endif
        }
    }
#ifndef PRODUCTS
    if (busy) total = moments_of(count, origin, sum, total.a, total.b);
#endif
    return total;
}

void write_column(Place p, Pair total)
{
#ifdef PRODUCTS
    const VEC spread = variance[p.column] + epsilon, per_row = -scale[p.column] / float(rows);
    first_out[p.column] = total.a / sqrt(spread);
    second_out[p.column] = total.b;
    third_out[p.column] = per_row * (total.a / spread);
    fourth_out[p.column] = per_row * total.b;
#else
    const VEC moment = total.b / float(rows);
    first_out[p.column] = total.a;
    second_out[p.column] = moment;
#ifdef AVERAGES
    const VEC deviation = sqrt(moment + epsilon);
    scale_out[p.column] = (SCALED != 0u ? gamma[p.column] : VEC(1)) / deviation;
    next_mean[p.column] = average_mean[p.column] * keep + total.a * take;
    next_variance[p.column] = average_variance[p.column] * keep + moment * take;
#endif
#endif
}

void main()
{
    const Place p = rf_place(rf_group(), rows, columns, part_rows, strips, width, lines);
    const uint lane = gl_LocalInvocationID.x;
    if (p.part >= parts) return;
    float count;
    Pair own = add_lines(p, count);
    KEEP(own, count)
    RF_MERGE_LINES(p, width, lines, merges)
    const bool first_line = p.line == 0 && p.column < columns;
    if (parts > 1) {
        const uint to = p.part * columns + p.column;
        if (first_line) {
            lists[to] = line_a[lane];
            lists[parts * columns + to] = line_b[lane];
        }
        if (!rf_all_arrived(p.strip, parts)) return;
        own = add_parts(p, count);
        KEEP(own, count)
        RF_MERGE_LINES(p, width, lines, merges)
    }
    if (first_line) write_column(p, Pair(line_a[lane], line_b[lane]));
}
