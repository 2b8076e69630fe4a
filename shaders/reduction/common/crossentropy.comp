// SPDX-License-Identifier: Apache-2.0
// Cross-entropy of each row, or (GRAD) its gradient, or (GRAD, WITH_LOSS) both; labels are one
// class number a row or (DENSE) a weight for each class.
// Predictions are logits, or probabilities, which are normalised and clipped; they, weights and
// gradients may be stored in 16 bits,
// gradients where rows have even lengths. One invocation a row, or (GROUP) one workgroup. TOTAL:
// one workgroup takes all rows, one an invocation at a time, and adds up their losses.
#version 450
#extension GL_GOOGLE_include_directive : require
#include "row_group.glsl"
#include "include/scalar_math.glsl"
#define RF_TYPES_ID 5
#include "include/stored.glsl"

layout(constant_id = 1) const bool FROM_LOGITS = false;

#ifdef DENSE
RF_STORED1(0, label)
#define WEIGHT(i) RF_LOAD1(0, label, i)
#else
layout(std430, binding = 0) readonly buffer Labels { int label[]; };
#endif
RF_STORED1(1, x)
#define X(i) RF_LOAD1(1, x, i)
#ifdef GRAD
layout(std430, binding = 2) readonly buffer Dloss { float dloss[]; };
layout(std430, binding = 3) writeonly buffer Dx { float dx[]; };
layout(std430, binding = 3) writeonly buffer DxWords { uint dx_words[]; };
#ifdef WITH_LOSS
layout(std430, binding = 4) writeonly buffer Loss { float loss[]; };
#ifndef DENSE
layout(std430, binding = 5) writeonly buffer Hits { float hit[]; };
layout(constant_id = 3) const bool WITH_HITS = false;
#endif
#endif
#ifdef TOTAL
layout(std430, binding = 6) writeonly buffer Total { float total_loss; };
layout(constant_id = 4) const bool QUOTIENT = false; // of the sum by the number of `dloss`
const uint MAX_LOCAL = 64;
shared float sums[MAX_LOCAL];
#endif
layout(push_constant) uniform Push { uint rows, columns; float numerator; };
// a number for each row, 1: one for all, 2: numerator by it
layout(constant_id = 2) const uint DLOSS = 0;
#else
#define WITH_LOSS
layout(std430, binding = 2) writeonly buffer Loss { float loss[]; };
layout(push_constant) uniform Push { uint rows, columns; };
#endif

const float LOW = 1e-7, HIGH = 1.0 - 1e-7;

// NaN counts as unclipped, so that it has a gradient.
bool is_unclipped(float q) { return (q >= LOW && q <= HIGH) || rf_is_nan(q); }

float log_of_clipped(float q) { return rf_keep_nan(log(clamp(q, LOW, HIGH)), q); }

#ifdef GRAD
// The gradient of each column c of a row, or of two columns at a time.
#define PUT_ROW(gradient)                                                                          \
    if (!RF_NARROW(3)) {                                                                           \
        for (uint c = FIRST; c < columns; c += STEP) dx[base + c] = gradient;                      \
    } else {                                                                                       \
        for (uint pair = FIRST; 2 * pair < columns; pair += STEP) {                                \
            vec4 both = vec4(0.0);                                                                 \
            for (uint i = 0; i < 2; i++) {                                                         \
                const uint c = 2 * pair + i;                                                       \
                both[i] = gradient;                                                                \
            }                                                                                      \
            dx_words[base / 2 + pair] = rf_narrow(RF_STORED_TYPE, both).x;                         \
        }                                                                                          \
    }

#ifdef DENSE
float part_of(float q, float l) { return is_unclipped(q) && l != 0.0 ? l / q : 0.0; }
#endif
#endif

// Makes what is asked for of one row; where FIRST is 0 this is its loss.
float row_make(uint row)
{
    const uint base = row * columns;
#ifndef DENSE
    const int wanted = label[row];
    if (wanted < 0 || wanted >= int(columns)) {
        const float nan = uintBitsToFloat(0x7fc00000u);
#ifdef GRAD
        PUT_ROW(nan)
#endif
#ifdef WITH_LOSS
        if (FIRST == 0) loss[row] = nan;
#ifdef GRAD
        if (FIRST == 0 && WITH_HITS) hit[row] = 0.0;
#endif
#endif
        return nan;
    }
#endif

    float total = 0.0, shift = 0.0;
    if (FROM_LOGITS) {
        shift = X(base);
        for (uint c = FIRST; c < columns; c += STEP) shift = rf_larger(shift, X(base + c));
        shift = rf_row_max(shift);
    }
    // In blocks: the rounding error of one long sum would show in its logarithm.
    for (uint block = FIRST; block < columns; block += 64 * STEP) {
        float part = 0.0;
        for (uint c = block; c < min(block + 64 * STEP, columns); c += STEP)
            part += FROM_LOGITS ? exp(X(base + c) - shift) : X(base + c);
        total += part;
    }
    total = rf_row_sum(total);
    if (FROM_LOGITS) total = rf_if_finite(total, shift);
    const float scale = 1.0 / total;

#ifdef GRAD
    const float given = dloss[DLOSS == 0 ? row : 0], g = DLOSS == 2 ? numerator / given : given;
#ifdef DENSE
    float weight = 0.0; // probabilities: of the classes that were not clipped
    for (uint c = FIRST; c < columns; c += STEP) {
        const float q = X(base + c) * scale;
        if (FROM_LOGITS || is_unclipped(q)) weight += WEIGHT(base + c);
    }
    weight = rf_row_sum(weight);
    if (FROM_LOGITS) {
        PUT_ROW(g * (exp(X(base + c) - shift) * scale * weight - WEIGHT(base + c)))
    } else {
        PUT_ROW(g * scale * (weight - part_of(X(base + c) * scale, WEIGHT(base + c))))
    }
#else
    const float q = X(base + wanted) * scale;
    const bool counts = FROM_LOGITS || is_unclipped(q);
    if (FROM_LOGITS) {
        PUT_ROW(g * (exp(X(base + c) - shift) * scale - (int(c) == wanted ? 1.0 : 0.0)))
    } else {
        PUT_ROW(g * scale * (counts ? 1.0 - (int(c) == wanted ? 1.0 / q : 0.0) : 0.0))
    }
#endif
#endif
#ifdef WITH_LOSS
    const float log_total = FROM_LOGITS ? rf_log(total) : 0.0;
#ifdef DENSE
    float result = 0.0;
    for (uint c = FIRST; c < columns; c += STEP) {
        const float l = WEIGHT(base + c), v = X(base + c);
        // A class of weight 0 has no part in the loss even where its logarithm is infinite.
        if (l != 0.0) result -= l * (FROM_LOGITS ? v - shift - log_total :
            log_of_clipped(v * scale));
    }
    result = rf_row_sum(result);
    if (FIRST == 0) loss[row] = result;
#else
    const float own_x = X(base + wanted);
    const float result = FROM_LOGITS ? log_total - (own_x - shift) : -log_of_clipped(own_x * scale);
    if (FIRST == 0) loss[row] = result;
#ifdef GRAD
    if (WITH_HITS) {
        float before = 0.0; // that come before the wanted one among the largest
        for (uint c = FIRST; c < columns; c += STEP) {
            const float v = X(base + c);
            const bool own_exceeds = int(c) < wanted && rf_exceeds(own_x, v);
            if (int(c) < wanted ? !own_exceeds : rf_exceeds(v, own_x)) before += 1.0;
        }
        before = rf_row_sum(before);
        if (FIRST == 0) hit[row] = before == 0.0 ? 1.0 : 0.0;
    }
#endif
#endif
    return result;
#else
    return 0.0;
#endif
}

#ifdef TOTAL
void main()
{
    const uint lane = gl_LocalInvocationID.x;
    float sum = 0.0;
    for (uint row = lane; row < rows; row += gl_WorkGroupSize.x) sum += row_make(row);
    sums[lane] = sum;
    barrier();
    for (uint width = gl_WorkGroupSize.x / 2; width > 0; width /= 2) {
        if (lane < width) sums[lane] += sums[lane + width];
        barrier();
    }
    if (lane == 0) total_loss = QUOTIENT ? sums[0] / dloss[0] : sums[0];
}
#else
void main()
{
    const uint row = rf_row();
    if (row < rows) row_make(row);
}
#endif
