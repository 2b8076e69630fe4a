/* SPDX-License-Identifier: Apache-2.0 */
/* Lines of a matrix of few bits as f32, four numbers an invocation: all of them one after the
 * other, or with INDICES those that indices name, and NaN for an index that names none. */
#version 450
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#define QUANTIZED_ID 1
#include "include/quantized.glsl"

layout(local_size_x_id = 0) in;
layout(constant_id = 2) const int WHOLE = 0; /* lines have whole fours */
layout(std430, binding = 0) readonly buffer Codes { uint codes[]; };
layout(std430, binding = 1) readonly buffer Scales { uint scales[]; };
#ifdef INDICES
layout(std430, binding = 2) readonly buffer Indices { uint indices[]; };
#endif
layout(std430, binding = 3) writeonly buffer Y { float y[]; };
layout(std430, binding = 3) writeonly buffer Fours { vec4 fours[]; };
layout(push_constant) uniform P {
    int total;             /* invocations */
    int length, row_fours; /* of a row of y */
    int line_fours;        /* of a line, with what follows its numbers */
    int y_base, codes_base, scales_base; /* elements; words; halves of words */
#ifdef INDICES
    int indices_base, first, lines, all_lines; /* this dispatch has so many lines, from `first` */
#endif
};

void main()
{
    int i = int((gl_WorkGroupID.y * gl_NumWorkGroups.x + gl_WorkGroupID.x) * gl_WorkGroupSize.x +
        gl_LocalInvocationID.x);
    if (i >= total) return;
    int row = i / row_fours, column = i - row * row_fours, line = row;
    vec4 v = vec4(uintBitsToFloat(0x7fc00000u));
    bool known = true;
#ifdef INDICES
    uint index = indices[indices_base + row]; /* as unsigned numbers negative ones are too large */
    line = int(index) - first;
    known = uint(line) < uint(lines);
    if (!known && (first > 0 || index < uint(all_lines))) return;
#endif
    if (known) {
        uint four = uint(line * line_fours + column), block = uint(scales_base) +
            quantized_block(four);
        v = quantized_four(codes[codes_base + int(quantized_word(four))], quantized_shift(four),
            quantized_scale(scales[block >> 1], block));
    }
    int at = y_base + row * length + column * 4;
    if (WHOLE != 0)
        fours[at >> 2] = v;
    else [[unroll]] for (int j = 0; j < 4; j++)
        if (column * 4 + j < length) y[at + j] = v[j];
}
