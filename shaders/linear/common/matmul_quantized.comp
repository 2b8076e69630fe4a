/* SPDX-License-Identifier: Apache-2.0 */
/* Four neighbouring columns of y = x W an invocation, where W is a matrix of few bits, or with
 * TRANSPOSED one column of y = x W^T, which is a line of W. Runs on anything. */
#version 450
#extension GL_GOOGLE_include_directive : require
#define QUANTIZED_ID 2
#include "include/quantized.glsl"

layout(local_size_x_id = 0) in;
layout(constant_id = 1) const int TRANSPOSED = 0;
layout(std430, binding = 0) readonly buffer X { float x[]; };
layout(std430, binding = 1) readonly buffer Codes { uint codes[]; };
layout(std430, binding = 2) readonly buffer Scales { uint scales[]; };
layout(std430, binding = 3) buffer Y { float y[]; };
layout(push_constant) uniform P {
    int total;             /* invocations */
    int columns;           /* of y in this dispatch, or fours of them */
    int x_base, x_row;     /* elements */
    int y_base, y_row;
    int codes_base;        /* words; scales: halves of words */
    int scales_base;
    int line_fours;        /* of a line, with what follows its numbers */
    int first, summands;   /* of this dispatch: numbers of a line, or lines */
    int length;            /* numbers of a line */
    int accumulate;        /* this adds to y */
};

vec4 weights(int four)
{
    uint word = codes[codes_base + int(quantized_word(uint(four)))];
    uint block = uint(scales_base) + quantized_block(uint(four));
    return quantized_four(word, quantized_shift(uint(four)),
                          quantized_scale(scales[block >> 1], block));
}

void main()
{
    int i = int((gl_WorkGroupID.y * gl_NumWorkGroups.x + gl_WorkGroupID.x) * gl_WorkGroupSize.x +
        gl_LocalInvocationID.x);
    if (i >= total) return;
    int column = i % columns, row = i / columns, at_x = x_base + row * x_row + first,
        at_y = y_base + row * y_row;
    if (TRANSPOSED != 0) {
        float sum = 0.0;
        at_y += column;
        for (int p = 0; p < summands; p += 4) {
            vec4 w = weights(column * line_fours + (first + p) / 4);
            for (int j = 0; j < 4; j++)
                if (p + j < summands) sum += x[at_x + p + j] * w[j];
        }
        y[at_y] = accumulate != 0 ? y[at_y] + sum : sum;
    } else {
        vec4 sum = vec4(0.0);
        for (int line = 0; line < summands; line++)
            sum += x[at_x + line] * weights(line * line_fours + column);
        for (int j = 0; j < 4; j++) {
            int at = column * 4 + j;
            if (at < length) y[at_y + at] = accumulate != 0 ? y[at_y + at] + sum[j] : sum[j];
        }
    }
}
