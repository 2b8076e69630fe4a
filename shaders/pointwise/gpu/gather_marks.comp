#version 450
/* SPDX-License-Identifier: Apache-2.0 */
/*
 * dx [batch, outer, choices, inner]: the sum of dy [batch, outer, places, inner] over the places
 * whose index [batch, places] is this choice; W neighbours a vector. A workgroup has a few choices
 * and up to `columns` vectors of their rows. It reads all indices and marks in shared memory, for
 * each of its choices, the places that take it: a bit each. Marks are set in any order and read in
 * the order of the places, so sums are the same bits each time. Choices of few places are added
 * side by side, each by `columns` invocations; for one of many places all invocations share the
 * places, and the sums of these slices are added in pairs.
 */
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require

layout(local_size_x_id = 0) in;
layout(push_constant) uniform Push {
    uint groups, row_blocks, column_blocks;
    uint outer, choices, places, inner; /* inner: in vectors */
    uint rows, columns;                 /* of a workgroup: choices; vectors, a power of two */
    uint words, heads;                  /* of marks for a choice; of marks of these words */
    /* first choice of this dispatch; whether dx holds the sum of places before */
    uint first, adds;
    uint dy_offset, indices_offset, dx_offset;
} p;

layout(std430, binding = 1) readonly buffer Indices { uint indices[]; };
#if W == 4
#define RF_TYPES_ID 1
#include "include/stored.glsl"
#define VEC vec4
RF_STORED4(0, dy, readonly)
RF_STORED4(2, dx, )
#define DY(at) RF_LOAD4(0, dy, at)
#define SET_DX(at, v) RF_STORE4(2, dx, at, v)
#else
#define VEC float
layout(std430, binding = 0) readonly buffer Dy { VEC dy[]; };
layout(std430, binding = 2) buffer Dx { VEC dx_f[]; };
#define DY(at) dy[at]
#define SET_DX(at, v) dx_f[at] = v;
#endif

/* src/ops/pointwise/gpu/gather_grad_marks.c has the same sizes. */
const uint LANES = 256, MOST_WORDS = 4096, MOST_HEADS = 256, MOST_ROWS = 64, FEW = 16;
shared uint marks[MOST_WORDS];
shared uint marked_words[MOST_HEADS];
shared uint counts[MOST_ROWS];
shared uint few_places[MOST_ROWS * FEW];
shared VEC slice_sums[LANES];

void mark_places(uint lane, uint rows, uint low, uint from)
{
    for (uint i = lane; i < rows * p.words; i += LANES) marks[i] = 0u;
    if (lane < rows * p.heads) marked_words[lane] = 0u;
    if (lane < rows) counts[lane] = 0u;
    barrier();
    for (uint first = lane; first < p.places; first += 8 * LANES) {
        uint taken[8];
        [[unroll]] for (uint j = 0; j < 8; j++) taken[j] =
            indices[from + min(first + j * LANES, p.places - 1)];
        [[unroll]] for (uint j = 0; j < 8; j++) {
            uint place = first + j * LANES, row = taken[j] - low;
            if (place < p.places && row < rows) {
                atomicOr(marks[row * p.words + place / 32], 1u << place % 32);
                atomicOr(marked_words[row * p.heads + place / 1024], 1u << place / 32 % 32);
                atomicAdd(counts[row], 1u);
            }
        }
    }
    barrier();
}

/* The places of a choice that has few. */
void list_places(uint row)
{
    uint to = row * FEW;
    for (uint h = 0; h < p.heads; h++)
        for (uint head = marked_words[row * p.heads + h]; head != 0u; head &= head - 1) {
            uint word = h * 32 + findLSB(head);
            for (uint mark = marks[row * p.words + word]; mark != 0u; mark &= mark - 1)
                few_places[to++] = word * 32 + findLSB(mark);
        }
}

VEC add_few(VEC sum, uint row, uint from)
{
    uint count = counts[row];
    for (uint i = 0; i < count; i += 4) {
        VEC v[4];
        [[unroll]] for (uint j = 0; j < 4; j++) v[j] =
            DY(from + few_places[row * FEW + min(i + j, count - 1)] * p.inner);
        [[unroll]] for (uint j = 0; j < 4; j++)
            if (i + j < count) sum += v[j];
    }
    return sum;
}

/* The places that are marked in the words of a slice. */
VEC add_slice(uint row, uint slice, uint slices, uint from)
{
    VEC sum = VEC(0.0);
    uint length = (p.words + slices - 1) / slices, end = min((slice + 1) * length, p.words);
    for (uint word = slice * length; word < end; word++)
        for (uint mark = marks[row * p.words + word]; mark != 0u;) {
            VEC v[8];
            bool there[8];
            uint place = 0u;
            [[unroll]] for (uint j = 0; j < 8; j++) {
                there[j] = mark != 0u;
                place = there[j] ? word * 32 + findLSB(mark) : place;
                mark &= mark - 1;
                v[j] = DY(from + place * p.inner);
            }
            [[unroll]] for (uint j = 0; j < 8; j++)
                if (there[j]) sum += v[j];
        }
    return sum;
}

void main()
{
    const uint id = gl_WorkGroupID.y * gl_NumWorkGroups.x + gl_WorkGroupID.x,
        lane = gl_LocalInvocationID.x;
    if (id >= p.groups) return;
    const uint block = id / p.column_blocks, slab = block / p.row_blocks,
        first_row = (block - slab * p.row_blocks) * p.rows;
    const uint rows = min(p.rows, p.choices - first_row), slice = lane / p.columns,
        slices = LANES / p.columns;
    const uint column = (id - block * p.column_blocks) * p.columns + lane % p.columns;
    mark_places(lane, rows, p.first + first_row, p.indices_offset + slab / p.outer * p.places);
    if (lane < rows && counts[lane] <= FEW) list_places(lane);
    barrier();
    const uint from = p.dy_offset + slab * p.places * p.inner + column,
        to = p.dx_offset + (slab * p.choices + first_row) * p.inner + column;
    if (column < p.inner)
        for (uint row = slice; row < rows; row += slices) {
            if (counts[row] > FEW) continue;
            VEC sum = VEC(0.0);
            if (p.adds != 0u) sum = dx_f[to + row * p.inner];
            sum = add_few(sum, row, from);
            SET_DX(to + row * p.inner, sum)
        }
    for (uint row = 0; row < rows; row++) {
        if (counts[row] <= FEW) continue;
        slice_sums[lane] = column < p.inner ? add_slice(row, slice, slices, from) : VEC(0.0);
        barrier();
        for (uint step = slices / 2; step > 0; step /= 2) {
            if (slice < step) slice_sums[lane] += slice_sums[lane + step * p.columns];
            barrier();
        }
        if (slice == 0 && column < p.inner) {
            VEC sum = slice_sums[lane];
            if (p.adds != 0u) sum += dx_f[to + row * p.inner]; /* then stored in f32 */
            SET_DX(to + row * p.inner, sum)
        }
        barrier();
    }
}
