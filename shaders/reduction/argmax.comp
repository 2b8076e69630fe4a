// SPDX-License-Identifier: Apache-2.0
// Where the first maximum of each row is: one invocation a row. With ACCURACY, whether that is where the label points.
#version 450
#extension GL_GOOGLE_include_directive : require
#include "include/reduction.glsl"
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

void main()
{
    const uint row = rf_thread();
    if (row >= rows) return;
    const uint base = row * columns;
    float best = x[base];
    int at = 0;
    for (uint c = 1; c < columns; c++) {
        const float v = x[base + c];
        if (rf_exceeds(v, best)) {
            best = v;
            at = int(c);
        }
    }
#if defined(ACCURACY_CLASSES)
    y[row] = at == label[row] ? 1.0 : 0.0;
#elif defined(ACCURACY_ONE_HOT)
    float best_label = label[base];
    int label_at = 0;
    for (uint c = 1; c < columns; c++) {
        const float v = label[base + c];
        if (rf_exceeds(v, best_label)) {
            best_label = v;
            label_at = int(c);
        }
    }
    y[row] = at == label_at ? 1.0 : 0.0;
#else
    y[row] = at;
#endif
}
