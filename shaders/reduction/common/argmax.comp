// SPDX-License-Identifier: Apache-2.0
// Where the first maximum of each row is: one invocation a row, or (GROUP) one workgroup. With
// ACCURACY_CLASSES or
// ACCURACY_ONE_HOT, whether that is where the label points.
#version 450
#extension GL_GOOGLE_include_directive : require
#include "row_group.glsl"
#include "include/scalar_math.glsl"

layout(std430, binding = 0) readonly buffer X { float x[]; };
#if defined(ACCURACY_CLASSES)
layout(std430, binding = 1) readonly buffer Labels { int label[]; };
layout(std430, binding = 2) writeonly buffer Y { float y[]; };
#elif defined(ACCURACY_ONE_HOT)
layout(std430, binding = 1) readonly buffer Labels { float label[]; };
layout(std430, binding = 2) writeonly buffer Y { float y[]; };
#else
layout(std430, binding = 1) writeonly buffer Y { int y[]; };
#endif
layout(push_constant) uniform Push { uint rows, columns; };

#ifdef GROUP
shared int places[MAX_GROUP];

// The candidate that none beats; the first among equals.
int first_of(float best, int at)
{
    const uint lane = gl_LocalInvocationID.x;
    barrier();
    parts[lane] = best;
    places[lane] = at;
    barrier();
    for (uint width = gl_WorkGroupSize.x / 2; width > 0; width /= 2) {
        if (lane < width) {
            const float a = parts[lane], b = parts[lane + width];
            if (rf_exceeds(b, a) || (!rf_exceeds(a, b) && places[lane + width] < places[lane])) {
                parts[lane] = b;
                places[lane] = places[lane + width];
            }
        }
        barrier();
    }
    return places[0];
}
#else
int first_of(float best, int at)
{
    return at;
}
#endif

#define FIRST_MAXIMUM(name, values)                                                                \
    int name(uint base)                                                                            \
    {                                                                                              \
        float best = values[base];                                                                 \
        int at = 0;                                                                                \
        for (uint c = FIRST; c < columns; c += STEP) {                                             \
            const float v = values[base + c];                                                      \
            if (rf_exceeds(v, best)) {                                                             \
                best = v;                                                                          \
                at = int(c);                                                                       \
            }                                                                                      \
        }                                                                                          \
        return first_of(best, at);                                                                 \
    }
FIRST_MAXIMUM(first_maximum, x)
#ifdef ACCURACY_ONE_HOT
FIRST_MAXIMUM(first_label, label)
#endif

void main()
{
    const uint row = rf_row();
    if (row >= rows) return;
    const int at = first_maximum(row * columns);
#if defined(ACCURACY_CLASSES)
    const float result = at == label[row] ? 1.0 : 0.0;
#elif defined(ACCURACY_ONE_HOT)
    const float result = at == first_label(row * columns) ? 1.0 : 0.0;
#else
    const int result = at;
#endif
    if (FIRST == 0) y[row] = result;
}
