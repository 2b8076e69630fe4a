/* SPDX-License-Identifier: Apache-2.0 */
/*
 * All steps of a recurrent layer, or (GRAD) of its gradient, in one dispatch: a workgroup walks the
 * steps of one example. Its invocations hold in registers what fits of the recurrent kernel, and
 * read the rest in each step; states stay in registers and in shared memory, so that nothing that
 * is written to a buffer is read again. KIND as in rnn.comp; a GRU resets after the product. Units
 * are a multiple of four.
 */
#version 450
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#include "include/reduction.glsl"
#define ACTIVATIONS_ONLY
#include "include/scalar_math.glsl"

#define GRU 0
#define LSTM 1
#define SIMPLE 2
layout(constant_id = 1) const uint KIND = GRU;
layout(constant_id = 2) const uint OPTIONS = 0;
/* fours of a column that an invocation holds; of the gradient: of each of its lines */
layout(constant_id = 3) const uint HELD = 0;
#define HAS_MASK ((OPTIONS & 1u) != 0u)
/* initial states; of the gradient: that of all cell states */
#define HAS_OTHER ((OPTIONS & 2u) != 0u)
#define GATES (KIND == GRU ? 3u : KIND == LSTM ? 4u : 1u)

/* As in src/ops/linear/gpu/rnn_register_resident.c. */
#define MOST_UNITS 256
#define MOST_COLUMNS 1024

layout(push_constant) uniform Push { uint rows, steps, fours, backwards; }; /* `fours` of units */

/* Buffers that the kind or the options leave out are bound to other tensors, which are neither
 * read nor written. */
#ifdef GRAD
layout(std430, binding = 0) readonly buffer InputDh { float dh_of[]; };
layout(std430, binding = 1) readonly buffer Recurrent { vec4 recurrent[]; };
layout(std430, binding = 2) readonly buffer InputX { float x[]; };
layout(std430, binding = 3) readonly buffer InputProduct { float product[]; };
layout(std430, binding = 4) readonly buffer InputState { float previous_of[]; };
layout(std430, binding = 5) readonly buffer InputDc { float dc_of[]; };
layout(std430, binding = 6) readonly buffer InputMask { float mask[]; };
layout(std430, binding = 7) writeonly buffer Dx { float dx[]; };
layout(std430, binding = 8) writeonly buffer DProduct { float dproduct[]; };
layout(std430, binding = 9) writeonly buffer DState { float dstate[]; };
layout(std430, binding = 10) writeonly buffer DCell { float dcell[]; };
#else
layout(std430, binding = 0) readonly buffer InputX { float x[]; };
layout(std430, binding = 1) readonly buffer Recurrent { float recurrent[]; };
layout(std430, binding = 2) readonly buffer Bias { float bias[]; };
layout(std430, binding = 3) readonly buffer InputState { float initial[]; };
layout(std430, binding = 4) readonly buffer InputCell { float initial_cell[]; };
layout(std430, binding = 5) readonly buffer InputMask { float mask[]; };
layout(std430, binding = 6) writeonly buffer OutputH { float h_of[]; };
layout(std430, binding = 7) writeonly buffer OutputC { float c_of[]; };
#endif

bool left_out(uint step) { return HAS_MASK && (floatBitsToUint(mask[step]) & 0x7fffffffu) == 0u; }

/* Step number i of this example, among the steps of all examples. */
uint step_of(uint row, uint i) { return row * steps + (backwards != 0u ? steps - 1u - i : i); }

#ifdef GRAD
/* of the recurrent kernel that an invocation has a part in: as many units' sums */
layout(constant_id = 4) const uint LINES = 1;
#define MOST_LINES 4
#define MOST_HELD 12
/* Invocations that share a line take turns with its fours, so that they read it side by side. */
#define LANES 8u

/* gradients of a step's products, and zeros up to a whole number of LANES */
shared vec4 flow[MOST_COLUMNS / 4];
/* the lanes' sums, apart by a number that spreads them over banks */
shared float parts[LANES * (MOST_UNITS + 4)];

vec4 weights(uint k, uint four)
{
    const uint line = GATES * fours;
    const vec4 w = recurrent[min(k, 4u * fours - 1u) * line + min(four, line - 1u)];
    return mix(vec4(0.0), w, bvec4(four < line));
}

/* A step of the gradient reads these: a number for each gate, and those of the unit. */
struct Inputs {
    vec4 x, product;
    float dh, dc, previous;
    bool skipped;
};

Inputs inputs_of(uint own, uint k)
{
    const uint units = 4u * fours, at = own * GATES * units + k, cell = own * units + k;
    Inputs s;
    s.x = vec4(x[at], 0.0, 0.0, 0.0);
    s.product = vec4(product[at], 0.0, 0.0, 0.0);
    if (KIND != SIMPLE) {
        s.x.y = x[at + units];
        s.product.y = product[at + units];
        s.x.z = x[at + 2u * units];
        s.product.z = product[at + 2u * units];
    }
    if (KIND == LSTM) {
        s.x.w = x[at + 3u * units];
        s.product.w = product[at + 3u * units];
    }
    s.dh = dh_of[cell];
    s.dc = KIND == LSTM && HAS_OTHER ? dc_of[cell] : 0.0;
    s.previous = previous_of[cell];
    s.skipped = left_out(own);
    return s;
}

/* The gradients of a unit's products. Among those of the states, dh comes to be what reaches the
 * state before the step directly. */
vec4 unit_flow(Inputs s, inout float dh, inout float dc, out vec4 by_x)
{
    const vec4 sum = s.x + s.product;
    vec4 d = vec4(0.0);
    float candidate = 0.0;
    if (KIND == LSTM) {
        const float i = rf_sigmoid(sum.x), f = rf_sigmoid(sum.y), g = rf_tanh(sum.z),
            o = rf_sigmoid(sum.w);
        const float c = rf_tanh(f * s.previous + i * g);
        dc += dh * o * (1.0 - c * c);
        d = vec4(dc * g * i * (1.0 - i), dc * s.previous * f * (1.0 - f), dc * i * (1.0 - g * g),
            dh * c * o * (1.0 - o));
        dc *= f;
        dh = 0.0;
        by_x = d;
    } else if (KIND == SIMPLE) {
        const float h = rf_tanh(sum.x);
        d.x = dh * (1.0 - h * h);
        dh = 0.0;
        by_x = d;
    } else {
        const float z = rf_sigmoid(sum.x), r = rf_sigmoid(sum.y), inner = s.product.z;
        const float c = rf_tanh(s.x.z + r * inner), dsum = dh * (1.0 - z) * (1.0 - c * c);
        d = vec4(dh * (s.previous - c) * z * (1.0 - z), dsum * inner * r * (1.0 - r), dsum * r,
            0.0);
        dh *= z;
        by_x = vec4(d.xy, dsum, 0.0);
    }
    return d;
}

void main()
{
    const uint row = rf_group();
    if (row >= rows) return;
    const uint k = gl_LocalInvocationID.x, units = 4u * fours, line = GATES * fours,
        blocks = (line + LANES - 1u) / LANES;
    const uint lane = k % LANES, first = k / LANES, apart = gl_WorkGroupSize.x / LANES;
    const bool has_unit = k < units;

    vec4 w[MOST_LINES][MOST_HELD];
    [[unroll]] for (uint n = 0; n < MOST_LINES; n++) {
        [[unroll]] for (uint c = 0; c < MOST_HELD; c++) w[n][c] = vec4(0.0);
        if (n < LINES) {
            [[unroll]] for (uint c = 0; c < MOST_HELD; c++) {
                if (c < HELD) w[n][c] = weights(first + n * apart, c * LANES + lane);
            }
        }
    }
    if (k < LANES && (blocks - 1u) * LANES + k >= line) flow[(blocks - 1u) * LANES + k] = vec4(0.0);

    float dh = 0.0, dc = 0.0;
    Inputs next = inputs_of(step_of(row, steps - 1u), min(k, units - 1u));
    for (uint left = steps; left > 0u; left--) {
        const Inputs s = next;
        const uint own = step_of(row, left - 1u), at = own * GATES * units + k;
        if (has_unit) {
            /* early: there is all of this step to wait for them */
            next = inputs_of(step_of(row, max(left, 2u) - 2u), k);
            dh += s.dh;
            dc += s.dc;
            vec4 by_x = vec4(0.0), d = vec4(0.0);
            if (!s.skipped) d = unit_flow(s, dh, dc, by_x);
            [[unroll]] for (uint g = 0; g < 4; g++) {
                if (g < GATES) {
                    flow[g * fours + k / 4u][k % 4u] = d[g];
                    dx[at + g * units] = by_x[g];
                    if (KIND == GRU) dproduct[at + g * units] = d[g];
                }
            }
        }
        barrier();
        float sums[MOST_LINES] = float[](0.0, 0.0, 0.0, 0.0);
        [[unroll]] for (uint c = 0; c < MOST_HELD; c++) {
            if (c < HELD) {
                const vec4 f = flow[c * LANES + lane];
                [[unroll]] for (uint n = 0; n < MOST_LINES; n++)
                    sums[n] = fma(f.w, w[n][c].w,
                        fma(f.z, w[n][c].z, fma(f.y, w[n][c].y, fma(f.x, w[n][c].x, sums[n]))));
            }
        }
        for (uint c = HELD; c < blocks; c++) {
            const vec4 f = flow[c * LANES + lane];
            [[unroll]] for (uint n = 0; n < MOST_LINES; n++) {
                if (n < LINES) {
                    const vec4 v = weights(first + n * apart, c * LANES + lane);
                    sums[n] = fma(f.w, v.w, fma(f.z, v.z, fma(f.y, v.y, fma(f.x, v.x, sums[n]))));
                }
            }
        }
        [[unroll]] for (uint n = 0; n < MOST_LINES; n++) {
            if (n < LINES && first + n * apart < units)
                parts[lane * (units + 4u) + first + n * apart] = sums[n];
        }
        barrier();
        /* A step that is left out has no part in anything, be the recurrent kernel infinite. */
        if (has_unit && !s.skipped) {
            float carried = 0.0;
            [[unroll]] for (uint l = 0; l < LANES; l++) carried += parts[l * (units + 4u) + k];
            dh += carried;
        }
    }
    if (has_unit) {
        dstate[row * units + k] = dh;
        if (KIND == LSTM) dcell[row * units + k] = dc;
    }
}
#else
#define MOST_HELD 32
#define AHEAD 4u /* fours that are read at a time */

shared vec4 state[MOST_UNITS / 4];
shared float gates[MOST_COLUMNS];

vec4 weights(uint four, uint column)
{
    const uint width = GATES * 4u * fours, at = four * 4u * width + column;
    return vec4(recurrent[at], recurrent[at + width], recurrent[at + 2u * width],
        recurrent[at + 3u * width]);
}

void main()
{
    const uint row = rf_group();
    if (row >= rows) return;
    const uint units = 4u * fours, width = GATES * units, thread = gl_LocalInvocationID.x,
        column = min(thread, width - 1u);
    const uint gate = column / units, k = column - gate * units;
    /* the last gate's makes the unit's state */
    const bool live = thread < width, ends = live && gate == GATES - 1u;

    vec4 w[MOST_HELD];
    [[unroll]] for (uint c = 0; c < MOST_HELD; c++) {
        w[c] = vec4(0.0);
        if (c < HELD) w[c] = weights(c, column);
    }
    const float constant = bias[column];
    float h = HAS_OTHER ? initial[row * units + k] : 0.0;
    float cell = HAS_OTHER && KIND == LSTM ? initial_cell[row * units + k] : 0.0;
    if (ends) state[k / 4u][k % 4u] = h;
    uint next = step_of(row, 0u);
    float next_x = x[next * width + column];
    bool next_skipped = left_out(next);
    barrier();
    for (uint i = 0u; i < steps; i++) {
        const float x_here = next_x;
        const bool skipped = next_skipped;
        const uint own = next;
        /* early: there is all of this step to wait for them */
        next = step_of(row, min(i + 1u, steps - 1u));
        next_x = x[next * width + column];
        next_skipped = left_out(next);

        vec4 part = vec4(0.0);
        [[unroll]] for (uint c = 0; c < MOST_HELD; c++) {
            if (c < HELD) part = fma(state[c], w[c], part);
        }
        uint four = HELD;
        for (; four + AHEAD <= fours; four += AHEAD) {
            vec4 v[AHEAD];
            [[unroll]] for (uint n = 0; n < AHEAD; n++) v[n] = weights(four + n, column);
            [[unroll]] for (uint n = 0; n < AHEAD; n++) part = fma(state[four + n], v[n], part);
        }
        for (; four < fours; four++) part = fma(state[four], weights(four, column), part);
        const float sum = ((part.x + part.y) + (part.z + part.w)) + constant;

        float value = sum;
        if (KIND == SIMPLE || (KIND == LSTM && gate == 2u))
            value = rf_tanh(x_here + sum);
        else if (KIND == LSTM || gate < 2u)
            value = rf_sigmoid(x_here + sum);
        if (live && !ends) gates[column] = value;
        barrier();
        if (ends) {
            if (!skipped) {
                if (KIND == LSTM) {
                    cell = gates[units + k] * cell + gates[k] * gates[2u * units + k];
                    h = value * rf_tanh(cell);
                } else if (KIND == SIMPLE) {
                    h = value;
                } else {
                    const float z = gates[k];
                    h = z * h + (1.0 - z) * rf_tanh(x_here + gates[units + k] * sum);
                }
            }
            state[k / 4u][k % 4u] = h;
            h_of[own * units + k] = h;
            if (KIND == LSTM) c_of[own * units + k] = cell;
        }
        barrier();
    }
}
#endif
