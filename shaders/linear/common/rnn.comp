// SPDX-License-Identifier: Apache-2.0
// One step of a recurrent layer, or (GRAD) of its gradient: an invocation for each example and
// unit. A plan dispatches it once for each step, in order. A GRU that resets before the product
// needs two phases: in between stands what the units of an example exchange.
#version 450
#extension GL_GOOGLE_include_directive : require
#include "include/reduction.glsl"
#define ACTIVATIONS_ONLY
#include "include/scalar_math.glsl"

#define GRU 0
#define LSTM 1
#define SIMPLE 2
layout(constant_id = 1) const uint KIND = GRU;
layout(constant_id = 2) const bool RESET_BEFORE = false;
layout(constant_id = 3) const uint PHASE = 0;
layout(constant_id = 4) const uint OPTIONS = 0;
#define HAS_MASK ((OPTIONS & 1u) != 0u)
#define HAS_OTHER ((OPTIONS & 2u) != 0u) // initial states; of the gradient: that of all cell states
#define GATES (KIND == GRU ? 3u : KIND == LSTM ? 4u : 1u)

// `now` is the place of this step in the sequences, `before` that of the step whose dispatch came
// before.
#define FIRST 1u
#define FINISH 2u
layout(push_constant) uniform Push { uint rows, steps, units, now, before, flags; };

// Buffers that the kind or the options leave out are bound to other tensors, which are neither read
// nor written.
#ifdef GRAD
layout(std430, binding = 0) readonly buffer InputDh { float dh_of[]; };
layout(std430, binding = 1) readonly buffer Recurrent { float recurrent[]; };
layout(std430, binding = 2) readonly buffer InputX { float x[]; };
layout(std430, binding = 3) readonly buffer InputProduct { float product[]; };
layout(std430, binding = 4) readonly buffer InputState { float previous_of[]; };
layout(std430, binding = 5) readonly buffer InputDc { float dc_of[]; };
layout(std430, binding = 6) readonly buffer InputMask { float mask[]; };
layout(std430, binding = 7) buffer Dx { float dx[]; };
layout(std430, binding = 8) buffer DProduct { float dproduct[]; };
layout(std430, binding = 9) buffer DState { float dstate[]; };
layout(std430, binding = 10) buffer DCell { float dcell[]; };

// A step that is left out has no part in anything, be the recurrent kernel infinite.
bool left_out(uint step) { return HAS_MASK && (floatBitsToUint(mask[step]) & 0x7fffffffu) == 0u; }

// The share that comes to unit k through the products of the step before: its row of the recurrent
// kernel times their gradients.
float carried(uint row, uint k, uint place, uint from, uint to)
{
    const uint width = GATES * units, left = (row * steps + place) * width, right = k * width;
    float total = 0.0;
    for (uint block = from; block < to; block += 64) {
        float part = 0.0;
        for (uint j = block; j < min(block + 64, to); j++)
            part += dproduct[left + j] * recurrent[right + j];
        total += part;
    }
    return total;
}

void main()
{
    const uint item = rf_thread();
    if (item >= rows * units) return;
    const uint row = item / units, k = item % units, own = row * steps + now, width = GATES * units;
    const uint at = own * width + k, cell = own * units + k;
    const bool first = (flags & FIRST) != 0u;
    const uint linked = KIND == GRU && RESET_BEFORE ? 2 * units : width;

    if (PHASE == 1) { // of the gate that resets
        const float reset = rf_sigmoid(x[at + units] + product[at + units]),
            previous = previous_of[cell];
        const float update = rf_sigmoid(x[at] + product[at]), dh = dstate[item];
        if (left_out(own)) {
            dx[at + units] = dproduct[at + units] = 0.0;
            return;
        }
        const float through = carried(row, k, now, 2 * units, 3 * units);
        dx[at + units] = dproduct[at + units] = through * previous * reset * (1.0 - reset);
        dstate[item] = dh * update + through * reset;
        return;
    }

    float dh = 0.0, dc = 0.0;
    if (!first) {
        dh = dstate[item];
        if (!left_out(row * steps + before)) dh += carried(row, k, before, 0, linked);
        if (KIND == LSTM) dc = dcell[item];
    }
    if ((flags & FINISH) != 0u) {
        dstate[item] = dh;
        return;
    }
    dh += dh_of[cell];
    if (KIND == LSTM && HAS_OTHER) dc += dc_of[cell];
    if (left_out(own)) {
        for (uint g = 0; g < GATES; g++) {
            dx[at + g * units] = 0.0;
            dproduct[at + g * units] = 0.0;
        }
        dstate[item] = dh;
        if (KIND == LSTM) dcell[item] = dc;
        return;
    }
    const float previous = previous_of[cell], sum0 = x[at] + product[at];
    if (KIND == LSTM) {
        const float i = rf_sigmoid(sum0), f = rf_sigmoid(x[at + units] + product[at + units]);
        const float g = rf_tanh(x[at + 2 * units] + product[at + 2 * units]);
        const float o = rf_sigmoid(x[at + 3 * units] + product[at + 3 * units]);
        const float c = rf_tanh(f * previous + i * g);
        dc += dh * o * (1.0 - c * c);
        dx[at] = dproduct[at] = dc * g * i * (1.0 - i);
        dx[at + units] = dproduct[at + units] = dc * previous * f * (1.0 - f);
        dx[at + 2 * units] = dproduct[at + 2 * units] = dc * i * (1.0 - g * g);
        dx[at + 3 * units] = dproduct[at + 3 * units] = dh * c * o * (1.0 - o);
        dstate[item] = 0.0;
        dcell[item] = dc * f;
    } else if (KIND == SIMPLE) {
        const float h = rf_tanh(sum0);
        dx[at] = dproduct[at] = dh * (1.0 - h * h);
        dstate[item] = 0.0;
    } else {
        const float z = rf_sigmoid(sum0), inner = product[at + 2 * units];
        const float r = RESET_BEFORE ? 1.0 : rf_sigmoid(x[at + units] + product[at + units]);
        const float c = rf_tanh(x[at + 2 * units] + r * inner),
            dsum = dh * (1.0 - z) * (1.0 - c * c);
        dx[at] = dproduct[at] = dh * (previous - c) * z * (1.0 - z);
        dx[at + 2 * units] = dsum;
        dproduct[at + 2 * units] = dsum * r;
        if (!RESET_BEFORE) dx[at + units] = dproduct[at + units] = dsum * inner * r * (1.0 - r);
        dstate[item] = RESET_BEFORE ? dh : dh * z;
    }
}
#else
layout(std430, binding = 0) readonly buffer InputX { float x[]; };
layout(std430, binding = 1) readonly buffer Recurrent { float recurrent[]; };
layout(std430, binding = 2) readonly buffer Bias { float bias[]; };
layout(std430, binding = 3) readonly buffer InputState { float initial[]; };
layout(std430, binding = 4) readonly buffer InputCell { float initial_cell[]; };
layout(std430, binding = 5) readonly buffer InputMask { float mask[]; };
layout(std430, binding = 6) buffer OutputH { float h_of[]; };
layout(std430, binding = 7) buffer OutputC { float c_of[]; };
// for each example: the update gates, the states that are reset
layout(std430, binding = 8) buffer Work { float work[]; };

void main()
{
    const uint item = rf_thread();
    if (item >= rows * units) return;
    const uint row = item / units, k = item % units, own = row * steps + now, width = GATES * units;
    const uint at = own * width + k, cell = own * units + k;
    const bool first = (flags & FIRST) != 0u, given = HAS_OTHER;
    const uint from = first ? row * units : (row * steps + before) * units;
    const float previous = first ? (given ? initial[from + k] : 0.0) : h_of[from + k];

    vec4 sums = vec4(0.0);
    for (uint block = 0; block < units; block += 64) {
        vec4 part = vec4(0.0);
        for (uint j = block; j < min(block + 64, units); j++) {
            const uint line = j * width + k;
            if (PHASE == 1) {
                part.z += work[row * 2 * units + units + j] * recurrent[line + 2 * units];
                continue;
            }
            const float state = first ? (given ? initial[from + j] : 0.0) : h_of[from + j];
            part.x += state * recurrent[line];
            if (KIND != SIMPLE) part.y += state * recurrent[line + units];
            if (KIND == LSTM || (KIND == GRU && !RESET_BEFORE))
                part.z += state * recurrent[line + 2 * units];
            if (KIND == LSTM) part.w += state * recurrent[line + 3 * units];
        }
        sums += part;
    }
    const bool skipped = HAS_MASK && (floatBitsToUint(mask[own]) & 0x7fffffffu) == 0u;
    if (KIND == SIMPLE) {
        const float h = rf_tanh(x[at] + (sums.x + bias[k]));
        h_of[cell] = skipped ? previous : h;
    } else if (KIND == LSTM) {
        const float i = rf_sigmoid(x[at] + (sums.x + bias[k]));
        const float f = rf_sigmoid(x[at + units] + (sums.y + bias[k + units]));
        const float g = rf_tanh(x[at + 2 * units] + (sums.z + bias[k + 2 * units]));
        const float o = rf_sigmoid(x[at + 3 * units] + (sums.w + bias[k + 3 * units]));
        const float c_before = first ? (given ? initial_cell[from + k] : 0.0) : c_of[from + k];
        const float c = f * c_before + i * g;
        c_of[cell] = skipped ? c_before : c;
        h_of[cell] = skipped ? previous : o * rf_tanh(c);
    } else if (RESET_BEFORE && PHASE == 0) {
        work[row * 2 * units + k] = rf_sigmoid(x[at] + (sums.x + bias[k]));
        work[row * 2 * units + units + k] =
            rf_sigmoid(x[at + units] + (sums.y + bias[k + units])) * previous;
    } else {
        const float inner = sums.z + bias[k + 2 * units];
        const float z = RESET_BEFORE ? work[row * 2 * units + k]
            : rf_sigmoid(x[at] + (sums.x + bias[k]));
        const float r = RESET_BEFORE ? 1.0 : rf_sigmoid(x[at + units] + (sums.y + bias[k + units]));
        const float c = rf_tanh(x[at + 2 * units] + r * inner);
        h_of[cell] = skipped ? previous : z * previous + (1.0 - z) * c;
    }
}
#endif
