#version 450
/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Connectionist temporal classification (Graves et al. 2006): one workgroup an example, whose
 * invocations take turns with the states, which are the labels with a blank between and around
 * them. Probabilities of all beginnings (ALPHAS) and of all rests (BETAS) of a labelling keep
 * exponents of their own, which is as exact in long sequences as in short ones.
 *
 * ALPHAS walks steps first .. last - 1 and keeps `kept` of them in turn, two words a state. At the
 * end of the sequence it writes the loss (LOSS), or the probability of the labels behind the two
 * rows of betas. BETAS walks the steps back; what it makes of alphas are the parts that a state has
 * in the labelling. SCATTER: an invocation adds up those of a class at a step.
 */
#extension GL_GOOGLE_include_directive : require
#include "include/reduction.glsl"
#include "include/scalar_math.glsl"
#include "exponents.glsl"

layout(push_constant) uniform Push {
    uint rows, steps, classes, labels, blank; /* of this dispatch; of every example */
    uint first, last, kept;
    uint with_lengths, zero_infinity;
} p;

layout(std430, binding = 0) readonly buffer LogProbabilities { float log_probability[]; };
layout(std430, binding = 1) readonly buffer Labels { int label[]; };
layout(std430, binding = 2) readonly buffer Lengths { int length_of[]; };
layout(std430, binding = 3) coherent buffer Alphas { uint alphas[]; };
#ifdef LOSS
layout(std430, binding = 4) writeonly buffer Loss { float loss[]; };
#else
layout(std430, binding = 4) coherent buffer Betas { uint betas[]; };
#endif
#ifdef SCATTER
layout(std430, binding = 5) readonly buffer Dloss { float dloss[]; };
layout(std430, binding = 6) writeonly buffer Gradient { float gradient[]; };
#endif

#define NOT_A_NUMBER uintBitsToFloat(0x7fc00000u)
#define INFINITE uintBitsToFloat(0x7f800000u)

uint states() { return 2u * p.labels + 1u; }

uint alpha_at(uint row, uint t, uint s)
{
    return 2u * ((row * p.kept + t % p.kept) * states() + s);
}

/* -1: there is no such sequence. */
int length_in(uint row)
{
    int n = p.with_lengths != 0u ? length_of[row] : int(p.steps);
    return n < 0 || n > int(p.steps) ? -1 : n;
}

bool is_label(int l) { return l < int(p.classes) && l != int(p.blank); }

#ifdef SCATTER
void main()
{
    uint i = rf_thread(), each = p.steps * p.classes;
    if (i >= p.rows * each) return;
    uint row = i / each, t = i % each / p.classes, which = i % p.classes;
    int n = length_in(row);
    bool wrong = n < 0;
    float sum = 0.0;
    uint s = 0u;
    for (; s < p.labels; s++) {
        int l = label[row * p.labels + s];
        if (l < 0) break;
        wrong = wrong || !is_label(l);
        if (int(t) >= n || (which != p.blank && int(which) != l)) continue;
        sum += uintBitsToFloat(alphas[alpha_at(row, t, 2u * s + uint(which != p.blank))]);
    }
    if (int(t) < n && which == p.blank) sum += uintBitsToFloat(alphas[alpha_at(row, t, 2u * s)]);
    gradient[i] = wrong ? NOT_A_NUMBER : -dloss[row] * sum;
}
#else
shared uint label_count, wrong_labels;

/* How many labels there are before the first negative one. */
void count_labels(uint row)
{
    uint lane = gl_LocalInvocationID.x;
    if (lane == 0u) label_count = p.labels;
    if (lane == 0u) wrong_labels = 0u;
    barrier();
    for (uint s = lane; s < p.labels; s += gl_WorkGroupSize.x)
        if (label[row * p.labels + s] < 0) atomicMin(label_count, s);
    barrier();
    for (uint s = lane; s < label_count; s += gl_WorkGroupSize.x)
        if (!is_label(label[row * p.labels + s])) atomicOr(wrong_labels, 1u);
    barrier();
}

Wide load_alpha(uint row, uint t, uint s)
{
    uint at = alpha_at(row, t, s);
    return Wide(uintBitsToFloat(alphas[at]), int(alphas[at + 1u]));
}

void store_alpha(uint row, uint t, uint s, Wide v)
{
    uint at = alpha_at(row, t, s);
    alphas[at] = floatBitsToUint(v.m);
    alphas[at + 1u] = uint(v.e);
}

/* e to the power x, split so that its fraction stays exact. Beyond 2^17 it is infinite, or 0. */
Wide exponential(float x)
{
    if (rf_is_nan(x)) return Wide(x, 0);
    if (abs(x) > 131072.0) return Wide(x > 0.0 ? INFINITE : 0.0, 0);
    float e = floor(x * 1.44269504);
    Wide v = wide_of(exp((x - e * 0.693145752) - e * 1.42860677e-6));
    return Wide(v.m, v.e + int(e));
}

Wide probability(uint row, uint t, uint s)
{
    uint which = (s & 1u) == 0u ? p.blank : uint(label[row * p.labels + s / 2u]);
    return exponential(log_probability[(row * p.steps + t) * p.classes + which]);
}

/* Whether a path may come to state s from the one two before it: not from a label to its like. */
bool skips(uint row, uint s)
{
    return s >= 3u && (s & 1u) != 0u &&
           label[row * p.labels + s / 2u] != label[row * p.labels + s / 2u - 1u];
}

void wait_for_states()
{
    memoryBarrierBuffer();
    barrier();
}
#endif

#ifdef ALPHAS
/* The probability of the labels, at the end of the sequence. */
Wide total(uint row, uint n, uint count)
{
    if (n == 0u) return Wide(count == 1u ? 1.0 : 0.0, 0);
    Wide sum = load_alpha(row, n - 1u, count - 1u);
    return count > 1u ? plus(sum, load_alpha(row, n - 1u, count - 2u)) : sum;
}

void finish(uint row, bool wrong, uint n, uint count)
{
    Wide sum = wrong ? Wide(NOT_A_NUMBER, 0) : total(row, n, count);
#ifdef LOSS
    float negative = sum.m == 0.0 ? INFINITE : -(rf_log(sum.m) + float(sum.e) * 0.69314718056);
    loss[row] = negative == INFINITE && p.zero_infinity != 0u ? 0.0 : negative;
#else
    uint at = 2u * ((2u * states() + 1u) * row + 2u * states());
    betas[at] = floatBitsToUint(sum.m);
    betas[at + 1u] = uint(sum.e);
#endif
}

void main()
{
    uint row = rf_group();
    if (row >= p.rows) return;
    count_labels(row);
    int given = length_in(row);
    bool wrong = given < 0 || wrong_labels != 0u;
    uint n = wrong ? 0u : uint(given), count = 2u * label_count + 1u;
    for (uint t = p.first; t < min(p.last, n); t++) {
        for (uint s = gl_LocalInvocationID.x; s < count; s += gl_WorkGroupSize.x) {
            Wide sum = Wide(s < 2u ? 1.0 : 0.0, 0);
            if (t > 0u) {
                sum = load_alpha(row, t - 1u, s);
                if (s >= 1u) sum = plus(sum, load_alpha(row, t - 1u, s - 1u));
                if (skips(row, s)) sum = plus(sum, load_alpha(row, t - 1u, s - 2u));
            }
            store_alpha(row, t, s, times(sum, probability(row, t, s)));
        }
        wait_for_states();
    }
    bool ends = n == 0u ? p.first == 0u : p.first < n && n <= p.last;
    if (ends && gl_LocalInvocationID.x == 0u) finish(row, wrong, n, count);
}
#endif

#ifdef BETAS
/* Betas times the probability of their state, of every second step. */
uint beta_at(uint row, uint t, uint s)
{
    return 2u * ((2u * states() + 1u) * row + t % 2u * states() + s);
}

Wide load_beta(uint row, uint t, uint s)
{
    uint at = beta_at(row, t, s);
    return Wide(uintBitsToFloat(betas[at]), int(betas[at + 1u]));
}

Wide load_total(uint row)
{
    uint at = 2u * ((2u * states() + 1u) * row + 2u * states());
    return Wide(uintBitsToFloat(betas[at]), int(betas[at + 1u]));
}

Wide inverse_of(Wide v)
{
    Wide m = wide_of(1.0 / v.m);
    return Wide(v.m == 0.0 ? NOT_A_NUMBER : m.m, m.e - v.e);
}

void main()
{
    uint row = rf_group();
    if (row >= p.rows) return;
    count_labels(row);
    int given = length_in(row);
    uint n = given < 0 || wrong_labels != 0u ? 0u : uint(given), count = 2u * label_count + 1u;
    Wide sum = load_total(row), inverse = inverse_of(sum);
    bool impossible = sum.m == 0.0 && p.zero_infinity != 0u;
    for (uint end = min(p.last, n); end > p.first; end--) {
        uint t = end - 1u;
        for (uint s = gl_LocalInvocationID.x; s < count; s += gl_WorkGroupSize.x) {
            Wide beta = Wide(s + 2u >= count ? 1.0 : 0.0, 0);
            if (end < n) {
                beta = load_beta(row, end, s);
                if (s + 1u < count) beta = plus(beta, load_beta(row, end, s + 1u));
                if (s + 2u < count && skips(row, s + 2u))
                    beta = plus(beta, load_beta(row, end, s + 2u));
            }
            Wide part = times(load_alpha(row, t, s), beta);
            part = impossible ? Wide(0.0, 0) : times(part, inverse);
            alphas[alpha_at(row, t, s)] = floatBitsToUint(float_of(part));
            Wide here = times(beta, probability(row, t, s));
            uint at = beta_at(row, t, s);
            betas[at] = floatBitsToUint(here.m);
            betas[at + 1u] = uint(here.e);
        }
        wait_for_states();
    }
}
#endif
