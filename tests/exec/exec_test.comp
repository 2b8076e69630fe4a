/* SPDX-License-Identifier: Apache-2.0 */
/* The ops of the exec tests on a device; `mode` says which. */
#version 450

layout(local_size_x_id = 0) in;
#ifdef SCRIBBLE
layout(std430, binding = 0) buffer A { float a[]; };
#else
layout(std430, binding = 0) readonly buffer A { float a[]; };
#endif
#ifdef FAN
layout(std430, binding = 1) writeonly buffer O0 { float o0[]; };
layout(std430, binding = 2) writeonly buffer O1 { float o1[]; };
layout(std430, binding = 3) writeonly buffer O2 { float o2[]; };
layout(std430, binding = 4) writeonly buffer O3 { float o3[]; };
layout(std430, binding = 5) writeonly buffer O4 { float o4[]; };
layout(std430, binding = 6) writeonly buffer O5 { float o5[]; };
layout(std430, binding = 7) writeonly buffer O6 { float o6[]; };
layout(std430, binding = 8) writeonly buffer O7 { float o7[]; };
#else
layout(std430, binding = 1) readonly buffer B { float b[]; };
layout(std430, binding = 2) buffer C { float c[]; };
#endif
layout(push_constant) uniform Push { uint mode, count, columns, rows; float factor; };

void main()
{
    uint i = gl_GlobalInvocationID.x;
    if (i >= count) return;
#ifdef FAN
    float x = factor * a[i];
    o0[i] = x;
    o1[i] = 2.0 * x;
    o2[i] = 3.0 * x;
    o3[i] = 4.0 * x;
    o4[i] = 5.0 * x;
    o5[i] = 6.0 * x;
    o6[i] = 7.0 * x;
    o7[i] = 8.0 * x;
#else
    switch (mode) {
    case 0: c[i] = factor * a[i] + b[i]; break;
    case 1: c[i] += factor * b[i]; break;
    case 2: c[i] = a[i] * factor; break;
    case 3: /* column sums */
        float sum = 0.0;
        for (uint r = 0; r < rows; r++) sum += a[r * columns + i];
        c[i] = sum;
        break;
    case 4: /* forgets the last element */
        if (i != count - 1) c[i] = factor * a[i] + b[i];
        break;
#ifdef SCRIBBLE
    case 5: /* writes what it only may read */
        c[i] = factor * a[i] + b[i];
        a[i] = 0.0;
        break;
#endif
    }
#endif
}
