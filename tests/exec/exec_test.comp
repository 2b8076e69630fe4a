/* SPDX-License-Identifier: Apache-2.0 */
/* What the ops of the exec tests do on a device; `mode` says which. */
#version 450

layout(local_size_x_id = 0) in;
#ifdef SCRIBBLE
layout(std430, binding = 0) buffer A { float a[]; };
#else
layout(std430, binding = 0) readonly buffer A { float a[]; };
#endif
layout(std430, binding = 1) readonly buffer B { float b[]; };
layout(std430, binding = 2) buffer C { float c[]; };
layout(push_constant) uniform Push { uint mode, count, columns, rows; float factor; };

void main()
{
    uint i = gl_GlobalInvocationID.x;
    if (i >= count) return;
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
}
