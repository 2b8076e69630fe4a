/* SPDX-License-Identifier: Apache-2.0 */
/*
 * c[tap, channel][column] = sum over pixels of a[pixel moved by the tap][channel] *
 * b[pixel][column], as lanes_grad.comp, in the way of register_resident.glsl: for 32 pixels after
 * the other a workgroup adds to what it has left in c.
 */
#version 450
#extension GL_GOOGLE_include_directive : require
#include "register_resident.glsl"
#include "include/exact_sum.glsl"

layout(local_size_x_id = 0) in;
layout(std430, binding = 0) readonly buffer A { float a[]; };
layout(std430, binding = 1) readonly buffer B { Eight b[]; };
layout(std430, binding = 2) buffer C { Eight c[]; };
layout(std430, binding = 3) writeonly buffer BiasGradient { Eight bias_gradient[]; };
layout(push_constant) uniform P {
    int total;        /* workgroups */
    int tiles;        /* of columns */
    int count, split; /* pixels of b: all, of a part */
    int channels;
    int high, wide; /* taps */
    int h, w, out_h, out_w;
    int step_y, step_x, dilation_y, dilation_x, pad_y, pad_x;
    /* in eights: from part to part; where the sums of b stand, -1: nowhere */
    int c_split, bias_gradient_at;
};

#define LOAD(i) intBitsToFloat(floatBitsToInt(a[at[i] + channel]) & there[i])

void main()
{
    int id = int(gl_WorkGroupID.y * gl_NumWorkGroups.x + gl_WorkGroupID.x),
        lane = int(gl_SubgroupInvocationID);
    if (id >= total) return;
    uint no_bits = RF_NO_BITS(total);
    int part = id / tiles, c_row = tiles * 4, column = id % tiles * 4 + lane;
    int end = min((part + 1) * split, count);
    Eight held[SUMMANDS], b_sum = Eight(vec4(0.0), vec4(0.0)), lost = b_sum;
    int line[8], place[8], at[8], there[8]; /* of this lane's pixels: where a's stands for tap 0 */
    for (int pixel = part * split; pixel < end; pixel += SUMMANDS) {
        Eight of_turn = Eight(vec4(0.0), vec4(0.0));
        for (int i = 0; i < SUMMANDS; i++) {
            int summand = pixel + HELD_SUMMAND(i), live = summand < end ? -1 : 0;
            Eight value = b[min(summand, end - 1) * c_row + column];
            value.low = intBitsToFloat(floatBitsToInt(value.low) & live);
            value.high = intBitsToFloat(floatBitsToInt(value.high) & live);
            held[i] = value;
            of_turn.low += value.low;
            of_turn.high += value.high;
        }
        RF_ADD_EXACTLY(vec4, b_sum.low, lost.low, of_turn.low, no_bits)
        RF_ADD_EXACTLY(vec4, b_sum.high, lost.high, of_turn.high, no_bits)
        int image_line[8];
        for (int i = 0; i < 8; i++) {
            int summand = pixel + lane * 8 + i, out_line = summand / out_w,
                image = out_line / out_h;
            place[i] = summand < end ? (summand - out_line * out_w) * step_x - pad_x : -0x10000000;
            line[i] = (out_line - image * out_h) * step_y - pad_y;
            image_line[i] = image * h;
        }
        int to = part * c_split + column;
        for (int tap = 0; tap < high * wide; tap++) {
            int tap_y = tap / wide, tap_x = (tap - tap_y * wide) * dilation_x;
            tap_y *= dilation_y;
            for (int i = 0; i < 8; i++) {
                int y = line[i] + tap_y, x = place[i] + tap_x;
                there[i] = uint(y) < uint(h) && uint(x) < uint(w) ? -1 : 0;
                at[i] = ((image_line[i] + y) * w + x) * channels & there[i];
            }
            for (int channel = 0; channel < channels; channel++) {
                vec4 low = vec4(0.0), high = vec4(0.0);
                if (pixel > part * split) {
                    Eight before = c[to];
                    low = before.low;
                    high = before.high;
                }
                vec4 value_low = vec4(LOAD(0), LOAD(1), LOAD(2), LOAD(3));
                vec4 value_high = vec4(LOAD(4), LOAD(5), LOAD(6), LOAD(7));
                ADD_ROW_HELD(value_low, value_high)
                c[to] = Eight(low, high);
                to += c_row;
            }
        }
    }
    if (bias_gradient_at >= 0) bias_gradient[part * c_split + bias_gradient_at + column] = b_sum;
}
