#version 450
/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A straight-line program of up to eight scalar functions per element. The program is in specialization constants and every step
 * is written out here, so that drivers fold each into the one function it is. Registers: 0-5 inputs, 6-13 steps;
 * the last step is the output (the host pads with copies). Immediates are push constants: they would multiply pipelines.
 *
 * STRIDED 0: each input is the output's size, one element, or x[(i / inner) % period], W elements per invocation.
 * STRIDED 1: any broadcasting, one element per invocation.
 */
#extension GL_GOOGLE_include_directive : require
#if W == 8
#extension GL_EXT_shader_explicit_arithmetic_types_int64 : require
#endif
#include "include/wide.glsl"
#include "include/division.glsl"
#include "include/scalar_math.glsl"
#include "include/scalar_fns.h"

layout(constant_id = 1) const uint MODES = 0;    /* four bits an input, see below; STRIDED: bit i for input i is used */
layout(constant_id = 2) const uint HAS_TAIL = 1; /* the element count is not a multiple of W */
/* Steps: function | a << 8 | b << 16 */
layout(constant_id = 3) const uint S0 = 0;
layout(constant_id = 4) const uint S1 = 0;
layout(constant_id = 5) const uint S2 = 0;
layout(constant_id = 6) const uint S3 = 0;
layout(constant_id = 7) const uint S4 = 0;
layout(constant_id = 8) const uint S5 = 0;
layout(constant_id = 9) const uint S6 = 0;
layout(constant_id = 10) const uint S7 = 0;

#if STRIDED
layout(push_constant) uniform Push {
    uint count, start;
    uint size[6];      /* of the output, outermost first */
    uint present[2];   /* four inputs a word, a byte each: bit d says that the input has dimension d */
    uint offset[6];    /* of each input's first element within its binding; wraps around */
    float imm[8];
} p;
#else
struct Window { uint base, inner_magic, period, period_magic, shifts; };
layout(push_constant) uniform Push {
    uint n_vec, n_tail;
    Window window[2];
    float imm[8];
} p;
#endif

#define INPUT(i)                                                                                                       \
    layout(std430, binding = i) readonly buffer InV##i { VEC v[]; } in_v##i;                                           \
    layout(std430, binding = i) readonly buffer InS##i { float s[]; } in_s##i;
INPUT(0)
INPUT(1)
INPUT(2)
INPUT(3)
INPUT(4)
INPUT(5)
layout(std430, binding = 6) writeonly buffer OutV { VEC v[]; } out_v;
layout(std430, binding = 6) writeonly buffer OutS { float s[]; } out_s;

vec4 run_step(uint code, float imm, vec4 a, vec4 b)
{
    uint fn = code & 255u;
    vec4 r = a;
#define FN(number, symbol, name, operands, c, glsl) if (fn == uint(number)) r = glsl;
    RF_SCALAR_FNS(FN)
    return r;
}

#define PICK6(k) ((k) == 0u ? r0 : (k) == 1u ? r1 : (k) == 2u ? r2 : (k) == 3u ? r3 : (k) == 4u ? r4 : r5)
#define PICK7(k) ((k) == 6u ? r6 : PICK6(k))
#define PICK8(k) ((k) == 7u ? r7 : PICK7(k))
#define PICK9(k) ((k) == 8u ? r8 : PICK8(k))
#define PICK10(k) ((k) == 9u ? r9 : PICK9(k))
#define PICK11(k) ((k) == 10u ? r10 : PICK10(k))
#define PICK12(k) ((k) == 11u ? r11 : PICK11(k))
#define PICK13(k) ((k) == 12u ? r12 : PICK12(k))
#define STEP(i, pick) run_step(S##i, p.imm[i], pick((S##i >> 8) & 255u), pick(S##i >> 16))

vec4 run_program(vec4 r0, vec4 r1, vec4 r2, vec4 r3, vec4 r4, vec4 r5)
{
    vec4 r6 = STEP(0, PICK6);
    vec4 r7 = STEP(1, PICK7);
    vec4 r8 = STEP(2, PICK8);
    vec4 r9 = STEP(3, PICK9);
    vec4 r10 = STEP(4, PICK10);
    vec4 r11 = STEP(5, PICK11);
    vec4 r12 = STEP(6, PICK12);
    return STEP(7, PICK13);
}

#if STRIDED
void main()
{
    uint t = rf_invocation();
    if (t >= p.count) return;
    uint rest = p.start + t;
    uint index[6] = uint[6](p.offset[0], p.offset[1], p.offset[2], p.offset[3], p.offset[4], p.offset[5]);
    uint stride[6] = uint[6](1u, 1u, 1u, 1u, 1u, 1u);
#define ADVANCE(i, d)                                                                                                  \
    if ((MODES & (1u << i)) != 0u && (p.present[i / 4] & (1u << (8 * (i & 3) + d))) != 0u) {                           \
        index[i] += stride[i] * at;                                                                                    \
        stride[i] *= p.size[d];                                                                                        \
    }
#define DIMENSION(d)                                                                                                   \
    if (p.size[d] > 1u) {                                                                                              \
        uint above = rest / p.size[d];                                                                                 \
        uint at = rest - above * p.size[d];                                                                            \
        rest = above;                                                                                                  \
        ADVANCE(0, d) ADVANCE(1, d) ADVANCE(2, d) ADVANCE(3, d) ADVANCE(4, d) ADVANCE(5, d)                            \
    }
    DIMENSION(5) DIMENSION(4) DIMENSION(3) DIMENSION(2) DIMENSION(1) DIMENSION(0)
#define FETCH(i) vec4 r##i = vec4(0); if ((MODES & (1u << i)) != 0u) r##i = vec4(in_s##i.s[index[i]]);
    FETCH(0) FETCH(1) FETCH(2) FETCH(3) FETCH(4) FETCH(5)
    out_s.s[t] = run_program(r0, r1, r2, r3, r4, r5).x;
}
#else
/* Modes: 0 not used, 1 the output's size, 2 one element, 3 window of whole vectors (inner 1, period a multiple of W), 4 window with
 * inner a multiple of W, 5 any window; + 8 for window[1]. */
uint window_index(uint w, uint i)
{
    uint at = p.window[w].base + i;
    uint q = rf_divide(at, p.window[w].inner_magic, p.window[w].shifts & 255u);
    return q - rf_divide(q, p.window[w].period_magic, p.window[w].shifts >> 8) * p.window[w].period;
}

#if W == 8
#define GATHER(s, w, i)                                                                                                \
    Reg(vec4(s[window_index(w, i)], s[window_index(w, i + 1)], s[window_index(w, i + 2)], s[window_index(w, i + 3)]),  \
        vec4(s[window_index(w, i + 4)], s[window_index(w, i + 5)], s[window_index(w, i + 6)],                          \
             s[window_index(w, i + 7)]))
#elif W == 4
#define GATHER(s, w, i)                                                                                                \
    Reg(vec4(s[window_index(w, i)], s[window_index(w, i + 1)], s[window_index(w, i + 2)], s[window_index(w, i + 3)]))
#else
#define GATHER(s, w, i) rf_splat(s[window_index(w, i)])
#endif

#define MODE(i) ((MODES >> (4 * i)) & 7u)
#define WHICH(i) ((MODES >> (4 * i + 3)) & 1u)
#define LOAD(i)                                                                                                        \
    if (MODE(i) == 1u) r##i = rf_unpack(in_v##i.v[t]);                                                                 \
    if (MODE(i) == 3u) r##i = rf_unpack(in_v##i.v[window_index(WHICH(i), t * W) / W]);                                 \
    if (MODE(i) == 4u) r##i = rf_splat(in_s##i.s[window_index(WHICH(i), t * W)]);                                      \
    if (MODE(i) == 5u) r##i = GATHER(in_s##i.s, WHICH(i), t * W);
#define LOAD_TAIL(i)                                                                                                   \
    if (MODE(i) == 1u) r##i.lo.x = in_s##i.s[at];                                                                      \
    if (MODE(i) >= 3u) r##i.lo.x = in_s##i.s[window_index(WHICH(i), at)];
#define LOAD_ONE(i) Reg r##i = rf_splat(0.0); if (MODE(i) == 2u) r##i = rf_splat(in_s##i.s[0]);

void main()
{
    uint t = rf_invocation();
    uint at = p.n_vec * W + (t - p.n_vec);
    bool whole = t < p.n_vec;
    bool tail = HAS_TAIL != 0u && !whole && t - p.n_vec < p.n_tail;
    LOAD_ONE(0) LOAD_ONE(1) LOAD_ONE(2) LOAD_ONE(3) LOAD_ONE(4) LOAD_ONE(5)
    if (whole) {
        LOAD(0) LOAD(1) LOAD(2) LOAD(3) LOAD(4) LOAD(5)
    }
    if (tail) {
        LOAD_TAIL(0) LOAD_TAIL(1) LOAD_TAIL(2) LOAD_TAIL(3) LOAD_TAIL(4) LOAD_TAIL(5)
    }
    Reg y;
    y.lo = run_program(r0.lo, r1.lo, r2.lo, r3.lo, r4.lo, r5.lo);
#if W == 8
    y.hi = run_program(r0.hi, r1.hi, r2.hi, r3.hi, r4.hi, r5.hi);
#endif
    if (whole) out_v.v[t] = rf_pack(y);
    if (tail) out_s.s[at] = y.lo.x;
}
#endif
