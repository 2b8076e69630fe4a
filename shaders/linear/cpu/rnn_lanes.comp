/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rnn.comp on drivers that run a subgroup as the lanes of a SIMD register: a workgroup takes ROWS
 * examples and 4 * LANES units, and keeps their sums in registers. KIND as there; a GRU resets
 * after the product. Units are a multiple of four.
 */
#version 450
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_shuffle : require
#define ACTIVATIONS_ONLY
#include "products.glsl"
#include "include/scalar_math.glsl"
layout(local_size_x_id = 0) in;

#define GRU 0
#define LSTM 1
#define SIMPLE 2
#if KIND == GRU
#define GATES 3
#elif KIND == LSTM
#define GATES 4
#else
#define GATES 1
#endif
layout(constant_id = 1) const int HAS_MASK = 0;
layout(constant_id = 2) const int HAS_OTHER = 0; /* of the gradient: that of all cell states */

#define FIRST 1
#define FINISH 2
/* `now` is the place of this step in the sequences; `units` counts fours. The states before it
 * are row * state_row + state_at; the gradient's are those of the step whose dispatch came
 * before, at `before`. */
layout(push_constant) uniform P { int total, tiles, rows, steps, units, now, before, state_row,
    state_at, flags; };

#define FROM_LANE(value, lane) subgroupShuffle(value, uint(lane))
#define ROW_GROUPS (ROWS / LANES)

#ifdef GRAD
layout(binding = 0) uniform samplerBuffer dh_of;
layout(binding = 1) uniform samplerBuffer recurrent; /* transposed: a line for each column */
layout(binding = 2) uniform samplerBuffer x;
layout(binding = 3) uniform samplerBuffer product;
layout(binding = 4) uniform samplerBuffer previous_of;
layout(binding = 5) uniform samplerBuffer dc_of;
layout(binding = 6) uniform samplerBuffer mask;
layout(binding = 7) uniform samplerBuffer dproduct_of; /* of steps that were done */
layout(std430, binding = 8) writeonly buffer Dx { vec4 dx[]; };
layout(std430, binding = 9) buffer DState { vec4 dstate[]; };
#if KIND == GRU
layout(std430, binding = 10) writeonly buffer DProduct { vec4 dproduct[]; };
#elif KIND == LSTM
layout(std430, binding = 10) buffer DCell { vec4 dcell[]; };
#endif
#define INPUT dproduct_of
#else
layout(binding = 0) uniform samplerBuffer x;
layout(binding = 1) uniform samplerBuffer recurrent;
layout(binding = 2) uniform samplerBuffer bias;
/* initial ones; then the output, of the step before */
layout(binding = 3) uniform samplerBuffer state;
layout(binding = 4) uniform samplerBuffer mask;
layout(std430, binding = 5) writeonly buffer OutputH { vec4 h_of[]; };
#if KIND == LSTM
layout(binding = 6) uniform samplerBuffer cell;
layout(std430, binding = 7) writeonly buffer OutputC { vec4 c_of[]; };
#endif
#define INPUT state
#endif

bool left_out(int step) {
    return HAS_MASK != 0 && (floatBitsToInt(texelFetch(mask, step).x) & 0x7fffffff) == 0; }

void main()
{
    int id = int(gl_WorkGroupID.y * gl_NumWorkGroups.x + gl_WorkGroupID.x),
        lane = int(gl_SubgroupInvocationID);
    if (id >= total) return;
    int first_row = id / tiles * ROWS, four = id % tiles * LANES + lane,
        here = min(four, units - 1);
    int all_rows = rows, width = GATES * units;
    bool begins = (flags & FIRST) != 0;
#ifdef GRAD
#define SUMS 1
    int depth = width, line_step = units, row_step = steps * width, at_step = before * width;
#else
#define SUMS GATES
    int depth = units, line_step = width, row_step = state_row, at_step = state_at;
    bvec4 known = bvec4(!begins || HAS_OTHER != 0); /* states; else they are zeros */
#endif

    vec4 sums[ROWS][SUMS];
    int row_at[ROW_GROUPS];
    [[unroll]] for (int r = 0; r < ROWS; r++) [[unroll]] for (int g = 0; g < SUMS; g++)
        sums[r][g] = vec4(0.0);
    [[unroll]] for (int g = 0; g < ROW_GROUPS; g++)
        row_at[g] = min(first_row + g * LANES + lane, all_rows - 1) * row_step + at_step;
    /* Tests at its end: lavapipe would run the body of another loop once more. */
    int k = 0;
    do {
#ifdef GRAD
        if (begins) break;
#endif
        vec4 a[ROW_GROUPS], b[4][SUMS];
        [[unroll]] for (int g = 0; g < ROW_GROUPS; g++) a[g] = texelFetch(INPUT, row_at[g] + k);
#ifndef GRAD
        [[unroll]] for (int g = 0; g < ROW_GROUPS; g++) a[g] = mix(vec4(0.0), a[g], known);
#endif
        [[unroll]] for (int q = 0; q < 4; q++) [[unroll]] for (int g = 0; g < SUMS; g++)
            b[q][g] = texelFetch(recurrent, (k * 4 + q) * line_step + g * units + here);
        [[unroll]] for (int r = 0; r < ROWS; r++) {
            float s[4];
            TAKE_4(s, a[r / LANES][0], a[r / LANES][1], a[r / LANES][2], a[r / LANES][3], r % LANES)
            [[unroll]] for (int g = 0; g < SUMS; g++) {
                ADD_PRODUCTS_4(sums[r][g], s, b[0][g], b[1][g], b[2][g], b[3][g])
            }
        }
        k++;
    } while (k < depth);

    [[unroll]] for (int r = 0; r < ROWS; r++) {
        int row = min(first_row + r, all_rows - 1), own = row * steps + now;
        int at = own * width + here, cell_at = own * units + here;
        bool live = first_row + r < all_rows && four < units;
#ifdef GRAD
        int item = row * units + here;
        vec4 dh = begins ? vec4(0.0) : dstate[item];
        if (!left_out(row * steps + before)) dh += sums[r][0];
        if ((flags & FINISH) != 0) {
            if (live) dstate[item] = dh;
        } else {
            dh += texelFetch(dh_of, cell_at);
            bool skipped = left_out(own);
            bvec4 skip = bvec4(skipped);
            vec4 previous = texelFetch(previous_of, cell_at),
                sum0 = texelFetch(x, at) + texelFetch(product, at);
#if KIND == LSTM
            vec4 i = rf_sigmoid(sum0),
                f = rf_sigmoid(texelFetch(x, at + units) + texelFetch(product, at + units));
            vec4 g = rf_tanh(texelFetch(x, at + 2 * units) + texelFetch(product, at + 2 * units));
            vec4 o = rf_sigmoid(texelFetch(x, at + 3 * units) +
                texelFetch(product, at + 3 * units));
            vec4 c = rf_tanh(f * previous + i * g), dc = begins ? vec4(0.0) : dcell[item];
            if (HAS_OTHER != 0) dc += texelFetch(dc_of, cell_at);
            vec4 inner = dc + dh * o * (1.0 - c * c);
            if (live) {
                dx[at] = mix(inner * g * i * (1.0 - i), vec4(0.0), skip);
                dx[at + units] = mix(inner * previous * f * (1.0 - f), vec4(0.0), skip);
                dx[at + 2 * units] = mix(inner * i * (1.0 - g * g), vec4(0.0), skip);
                dx[at + 3 * units] = mix(dh * c * o * (1.0 - o), vec4(0.0), skip);
                dstate[item] = mix(vec4(0.0), dh, skip);
                dcell[item] = mix(inner * f, dc, skip);
            }
#elif KIND == SIMPLE
            vec4 h = rf_tanh(sum0);
            if (live) {
                dx[at] = mix(dh * (1.0 - h * h), vec4(0.0), skip);
                dstate[item] = mix(vec4(0.0), dh, skip);
            }
#else
            vec4 z = rf_sigmoid(sum0), inner = texelFetch(product, at + 2 * units);
            vec4 reset = rf_sigmoid(texelFetch(x, at + units) + texelFetch(product, at + units));
            vec4 c = rf_tanh(texelFetch(x, at + 2 * units) + reset * inner),
                dsum = dh * (1.0 - z) * (1.0 - c * c);
            vec4 update = mix(dh * (previous - c) * z * (1.0 - z), vec4(0.0), skip);
            vec4 through = mix(dsum * inner * reset * (1.0 - reset), vec4(0.0), skip);
            if (live) {
                dx[at] = dproduct[at] = update;
                dx[at + units] = dproduct[at + units] = through;
                dx[at + 2 * units] = mix(dsum, vec4(0.0), skip);
                dproduct[at + 2 * units] = mix(dsum * reset, vec4(0.0), skip);
                dstate[item] = mix(dh * z, dh, skip);
            }
#endif
        }
#else
        bvec4 skip = bvec4(left_out(own));
        int state_here = row * state_row + state_at + here;
        vec4 previous = mix(vec4(0.0), texelFetch(state, state_here), known);
        vec4 all[GATES];
        [[unroll]] for (int g = 0; g < GATES; g++)
            all[g] = sums[r][g] + texelFetch(bias, g * units + here);
#if KIND == SIMPLE
        vec4 h = rf_tanh(texelFetch(x, at) + all[0]);
#elif KIND == LSTM
        vec4 i = rf_sigmoid(texelFetch(x, at) + all[0]),
            f = rf_sigmoid(texelFetch(x, at + units) + all[1]);
        vec4 g = rf_tanh(texelFetch(x, at + 2 * units) + all[2]),
            o = rf_sigmoid(texelFetch(x, at + 3 * units) + all[3]);
        vec4 c_before = mix(vec4(0.0), texelFetch(cell, state_here), known),
            c = f * c_before + i * g, h = o * rf_tanh(c);
        if (live) c_of[cell_at] = mix(c, c_before, skip);
#else
        vec4 z = rf_sigmoid(texelFetch(x, at) + all[0]),
            reset = rf_sigmoid(texelFetch(x, at + units) + all[1]);
        vec4 h = z * previous + (1.0 - z) * rf_tanh(texelFetch(x, at + 2 * units) + reset * all[2]);
#endif
        if (live) h_of[cell_at] = mix(h, previous, skip);
#endif
    }
}
