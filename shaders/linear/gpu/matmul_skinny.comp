/* SPDX-License-Identifier: Apache-2.0 */
/*
 * c = activation(op(a) op(b) + bias) where c has few rows or few columns: SLICES invocations of a
 * workgroup share the summands of one element, and workgroups share long sums in parts. Sums are
 * added in a fixed order: those of the slices in pairs, those of the parts by the workgroup that
 * comes last.
 */
#version 450
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#include "include/linear_epilogue.glsl"
#include "include/narrow.glsl"

layout(local_size_x_id = 0) in;
layout(constant_id = 3) const int SLICES = 8;  /* a power of two */
/* neighbours have neighbouring summands, not neighbouring elements of c */
layout(constant_id = 4) const int ALONG_K = 0;
layout(constant_id = 5) const int SPLIT = 0;   /* into several parts */
/* what lies in place of biases is like c, which counts where that is positive */
layout(constant_id = 6) const int MASK = 0;
/* of b's rows, too: the product of one more row of a, of ones */
layout(constant_id = 7) const int SUMS = 0;
/* Which are stored in 16 bits, bit 0: a, 1: b, 2: biases or mask, 3: c, in pairs; << 8: in which
 * type. */
layout(constant_id = 12) const uint TYPES = 0;
#define TYPE (TYPES >> 8)

#define OPERAND(name, number)                                                                      \
    layout(std430, binding = number) readonly buffer Floats_##name { float name[]; };              \
    layout(std430, binding = number) readonly buffer Words_##name { uint name##_w[]; };            \
    float get_##name(int at)                                                                       \
    {                                                                                              \
        if ((TYPES >> number & 1u) != 0u)                                                          \
            return rf_widen_one(TYPE, name##_w[at >> 1] >> 16 * (at & 1) & 0xffffu);               \
        return name[at];                                                                           \
    }
OPERAND(a, 0)
OPERAND(b, 1)
OPERAND(bias, 2)
layout(std430, binding = 3) writeonly buffer C { float c[]; };
layout(std430, binding = 3) writeonly buffer Pairs { uint c_w[]; };
layout(std430, binding = 4) coherent buffer Parts { float partial[]; };
/* zero before and after */
layout(std430, binding = 5) coherent buffer Arrivals { int arrivals[]; };
layout(std430, binding = 6) writeonly buffer Sums { float sums[]; };
layout(push_constant) uniform P {
    int total, groups;                 /* elements of c, with those of sums; workgroups */
    int rows, n, k;                    /* rows: with the one of ones */
    int parts, part_size;              /* part_size: summands */
    int a_row, a_k, b_k, b_column;     /* strides */
    int ones;                          /* the row of ones */
    ivec4 dim, a_stride, b_stride;     /* batch dimensions */
};

const int ABREAST = 8; /* summands whose loads are under way together */
shared float slice_sums[256];
shared int arrived;

/* The sum of all slices of this invocation's element: right in slice 0. */
float add_slices(float sum, int slice, int stride)
{
    int lane = int(gl_LocalInvocationID.x);
    slice_sums[lane] = sum;
    barrier();
    for (int step = SLICES / 2; step > 0; step /= 2) {
        if (slice < step) slice_sums[lane] += slice_sums[lane + step * stride];
        barrier();
    }
    return slice_sums[lane];
}

void main()
{
    int id = int(gl_WorkGroupID.y * gl_NumWorkGroups.x + gl_WorkGroupID.x),
        lane = int(gl_LocalInvocationID.x);
    if (id >= groups) return;
    int width = int(gl_WorkGroupSize.x) / SLICES; /* elements of a workgroup */
    int slice = ALONG_K != 0 ? lane % SLICES : lane / width,
        element = ALONG_K != 0 ? lane / SLICES : lane % width;
    int stride = ALONG_K != 0 ? 1 : width;
    int tile = id / parts, part = id - tile * parts, at = tile * width + element,
        i = min(at, total - 1);
    int column = i % n, row = i / n % rows, z = i / n / rows;
    bool of_ones = SUMS != 0 && row == ones;
    int ia = of_ones ? 0 : row * a_row, ib = column * b_column, ic = (z * rows + row) * n + column;
    if (z > 0)
        for (int d = 3; d >= 0; d--) {
            ia += z % dim[d] * a_stride[d];
            ib += z % dim[d] * b_stride[d];
            z /= dim[d];
        }
    int end = min((part + 1) * part_size, k);
    float sum = 0.0;
    for (int p = part * part_size + slice; p < end; p += ABREAST * SLICES) {
        float x[ABREAST], y[ABREAST];
        [[unroll]] for (int j = 0; j < ABREAST; j++) {
            int q = min(p + j * SLICES, end - 1);
            x[j] = get_a(ia + q * a_k);
            y[j] = get_b(ib + q * b_k);
        }
        [[unroll]] for (int j = 0; j < ABREAST; j++) {
            float more = of_ones ? sum + y[j] : fma(x[j], y[j], sum);
            sum = p + j * SLICES < end ? more : sum;
        }
    }
    sum = add_slices(sum, slice, stride);
    if (SPLIT != 0) {
        if (slice == 0) partial[id * width + element] = sum;
        memoryBarrierBuffer();
        barrier();
        if (lane == 0) arrived = atomicAdd(arrivals[tile], 1);
        barrier();
        if (arrived != parts - 1) return;
        memoryBarrierBuffer();
        if (lane == 0) arrivals[tile] = 0;
        sum = 0.0;
        for (int q = slice; q < parts; q += SLICES)
            sum += partial[(tile * parts + q) * width + element];
        sum = add_slices(sum, slice, stride);
    }
    if (HAS_BIAS != 0) sum += get_bias(column);
    float value = linear_activate(sum);
    if (MASK != 0 && !of_ones) value = rf_relu_grad(value, get_bias(ic));
    bool stores = slice == 0 && at < total;
    if (stores && of_ones) sums[column] = sum;
    if ((TYPES & 8u) == 0u) {
        if (stores && !of_ones) c[ic] = value;
        return;
    }
    /* The number of elements is even, so that a word's are neighbours in a tile. */
    barrier();
    if (slice == 0) slice_sums[element] = value;
    barrier();
    if (stores && !of_ones && (element & 1) == 0)
        c_w[ic >> 1] = rf_narrow(TYPE, vec4(value, slice_sums[element + 1], 0.0, 0.0)).x;
}
