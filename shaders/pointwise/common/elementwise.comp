#version 450
/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A straight-line program of scalar functions per element. The program is in specialization
 * constants and every step is written out here, so that drivers fold each into the one function it
 * is; variants for programs of at most STEPS steps and INPUTS inputs keep what drivers have to fold
 * small. Registers: inputs, then steps; the last step is the output (the host pads with copies).
 * Immediates are push constants: as specialization constants they would multiply pipelines.
 *
 * STRIDED 0: each input is the output's size, one element, x[(i / inner) % period], or with a gap
 * x[i / inner * period + i % period]; W elements per invocation.
 * TEXEL: the same, W is 8, read through texel buffers: of four elements a texel where whole vectors
 * are read, else of one. An invocation computes several vectors, and one all elements behind the
 * last whole vector.
 * STRIDED 1: any broadcasting, one element per invocation. Where TYPES is not 0, tensors are stored
 * in 16 bits (not STRIDED); their texels are RGBA32F, too, for eight elements, and R32F for two.
 */
#extension GL_GOOGLE_include_directive : require
#if W == 8
#extension GL_EXT_shader_explicit_arithmetic_types_int64 : require
#endif
#include "include/wide.glsl"
#include "include/division.glsl"
#include "include/narrow.glsl"
#include "scalar_rows.glsl"
#include "include/scalar_fns.h"

/* four bits an input, see below; STRIDED: bit i for input i is used, rank << 8 */
layout(constant_id = 1) const uint MODES = 0;
/* bit 0: the element count is not a multiple of W; windows, see below */
layout(constant_id = 2) const uint FORM = 1;
#define HAS_TAIL (FORM & 1u)
/* Steps: function | a << 8 | b << 16 */
#define CODE(i) layout(constant_id = 3 + i) const uint S##i = 0;
CODE(0)
#if STEPS > 1
CODE(1)
#endif
#if STEPS > 2
CODE(2)
CODE(3)
#endif
#if STEPS > 4
CODE(4)
CODE(5)
CODE(6)
CODE(7)
#endif

/* Bit i: input i is stored in 16 bits; bit 7: the output is; << 8: in which. */
layout(constant_id = 3 + STEPS) const uint TYPES = 0;
#define NARROW(i) ((TYPES >> i & 1u) != 0u)
#define NARROW_OUT ((TYPES & 128u) != 0u)
#define TYPE (TYPES >> 8)

#if STRIDED
layout(push_constant) uniform Push {
    uint count, start;
    uint size[6], magic[6]; /* of the output's dimensions, innermost first */
    uint shifts;            /* of the divisions by size, five bits each */
    /* four inputs a word, a byte each: bit d says that the input has dimension d */
    uint present[2];
    uint offset[7];         /* of each input's first element within its binding; wraps around */
    float imm[STEPS];
} p;
#else
struct Window { uint base, inner_magic, period, period_magic, shifts; };
layout(push_constant) uniform Push {
    uint n_vec, n_tail;
    /* TEXEL: an invocation has `turns` vectors, one in each `stride` */
    uint turns, stride, stride_magic, stride_shift;
    Window window[2];
    float imm[STEPS];
} p;
#endif

#ifdef TEXEL
#define INPUT(i) layout(binding = i) uniform samplerBuffer in_t##i;
#else
#define INPUT(i)                                                                                   \
    layout(std430, binding = i) readonly buffer InV##i { VEC v[]; } in_v##i;                       \
    layout(std430, binding = i) readonly buffer InS##i { float s[]; } in_s##i;                     \
    layout(std430, binding = i) readonly buffer InH##i { uvec2 h[]; } in_h##i;                     \
    layout(std430, binding = i) readonly buffer InW##i { uint w[]; } in_w##i;
#endif
#if INPUTS == 2
#define FOR_INPUTS(X) X(0) X(1)
#elif INPUTS == 3
#define FOR_INPUTS(X) X(0) X(1) X(2)
#elif INPUTS == 5
#define FOR_INPUTS(X) X(0) X(1) X(2) X(3) X(4)
#else
#define FOR_INPUTS(X) X(0) X(1) X(2) X(3) X(4) X(5) X(6)
#endif
FOR_INPUTS(INPUT)
layout(std430, binding = INPUTS) writeonly buffer OutV { VEC v[]; } out_v;
layout(std430, binding = INPUTS) writeonly buffer OutS { float s[]; } out_s;
#if W == 8
layout(std430, binding = INPUTS) writeonly buffer OutH { u64vec2 h[]; } out_h;
#else
layout(std430, binding = INPUTS) writeonly buffer OutH { uvec2 h[]; } out_h;
#endif
layout(std430, binding = INPUTS) buffer OutW { uint w[]; } out_w;

vec4 run_step(uint code, float imm, vec4 a, vec4 b)
{
    uint fn = code & 255u;
    vec4 r = a;
#define FN(number, symbol, name, operands, c, glsl) if (fn == uint(number)) r = glsl;
    RF_FUSED_SCALAR_FNS(FN)
#if STEPS == 1
    RF_LONE_SCALAR_FNS(FN)
#endif
    return r;
}

#define STEP(i) r[INPUTS + i] = run_step(S##i, p.imm[i], r[(S##i >> 8) & 255u], r[S##i >> 16]);
vec4 run_program(vec4 r[INPUTS + STEPS])
{
    STEP(0)
#if STEPS > 1
    STEP(1)
#endif
#if STEPS > 2
    STEP(2)
    STEP(3)
#endif
#if STEPS > 4
    STEP(4)
    STEP(5)
    STEP(6)
    STEP(7)
#endif
    return r[INPUTS + STEPS - 1];
}

#if STRIDED
const uint RANK = MODES >> 8;

void main()
{
    uint t = rf_invocation();
    if (t >= p.count) return;
    uint rest = p.start + t;
    uint index[7] = uint[7](p.offset[0], p.offset[1], p.offset[2], p.offset[3], p.offset[4],
        p.offset[5], p.offset[6]);
    uint stride[7] = uint[7](1u, 1u, 1u, 1u, 1u, 1u, 1u);
#define ADVANCE(i)                                                                                 \
    if ((MODES & (1u << i)) != 0u) {                                                               \
        bool has = (p.present[i / 4] >> (8 * (i & 3)) & bit) != 0u;                                \
        index[i] += has ? stride[i] * at : 0u;                                                     \
        stride[i] *= has ? p.size[dimension] : 1u;                                                 \
    }
#define DIMENSION(d)                                                                               \
    if (RANK > d) {                                                                                \
        const uint dimension = d, bit = 1u << d;                                                   \
        uint above = 0u;                                                                           \
        if (RANK > d + 1) above = rf_divide(rest, p.magic[d], p.shifts >> (5 * d) & 31u);          \
        uint at = rest - above * p.size[d];                                                        \
        rest = above;                                                                              \
        FOR_INPUTS(ADVANCE)                                                                        \
    }
    DIMENSION(0) DIMENSION(1) DIMENSION(2) DIMENSION(3) DIMENSION(4) DIMENSION(5)
    vec4 r[INPUTS + STEPS];
#define FETCH(i) r[i] = vec4(0); if ((MODES & (1u << i)) != 0u) r[i] = vec4(in_s##i.s[index[i]]);
    FOR_INPUTS(FETCH)
    out_s.s[t] = run_program(r).x;
}
#else
/* Modes: 0 not used, 1 the output's size, 2 one element, 3 window of whole vectors (inner 1 or a
 * gap, period a multiple of V), 4 window with inner a multiple of V, 5 any window; + 8 for
 * window[1]. V is W, with TEXEL 4. Bit 24 + w of FORM: some input has mode 5 with window w. With
 * TEXEL, 26 + w and 28 + w: inputs have mode 3 and 4 with window w, and those multiples are of 8.
 * 30 + w: window w has a gap. */
uint window_index(uint w, uint i)
{
    uint at = p.window[w].base + i;
    uint q = rf_divide(at, p.window[w].inner_magic, p.window[w].shifts & 255u);
    bool gap = (FORM & (1u << (30 + w))) != 0u;
    uint x = gap ? at : q;
    x -= rf_divide(x, p.window[w].period_magic, p.window[w].shifts >> 8) * p.window[w].period;
    return gap ? q * p.window[w].period + x : x;
}

/* Beyond the end it is the last element's. */
uint window_index_within(uint w, uint i)
{
    return window_index(w, HAS_TAIL != 0u ? min(i, p.n_vec * W + p.n_tail - 1u) : i);
}

#define MODE(i) ((MODES >> (4 * i)) & 7u)
#define WHICH(i) ((MODES >> (4 * i + 3)) & 1u)
#define AT(i, k) (WHICH(i) == 0u ? at0[k] : at1[k])

float half_of(uint word, uint at)
{
    return rf_widen_one(TYPE, (at & 1u) == 0u ? word & 0xffffu : word >> 16);
}

#ifdef TEXEL
/* Whether texels of what is beyond the end can be read is not said: these are those of the first
 * four. */
uint second_four(uint first)
{
    return HAS_TAIL == 0u || first + 4u < p.n_vec * W + p.n_tail ? first + 4u : first;
}
Reg eight_of(uvec4 w) { return Reg(rf_widen(TYPE, w.xy), rf_widen(TYPE, w.zw)); }
#define AT_MIDDLE(w)                                                                               \
    if ((FORM & (1u << (26 + w))) != 0u) at##w[4] = at##w[0] + 4;                                  \
    else if ((FORM & (1u << (28 + w))) != 0u) at##w[4] = at##w[0];                                 \
    else at##w[4] = window_index_within(w, first + 4);
/* One element, eight that are stored in 16 bits. */
#define TEXEL1(i, at)                                                                              \
    (NARROW(i) ? half_of(floatBitsToUint(texelFetch(in_t##i, int((at) / 2)).x), at) :              \
        texelFetch(in_t##i, int(at)).x)
#define TEXEL8(i, at) eight_of(floatBitsToUint(texelFetch(in_t##i, int((at) / 8))))
#define AT_SECOND(w)
#define TEXEL4(i, k) vec4(TEXEL1(i, AT(i, k)), TEXEL1(i, AT(i, k + 1)), TEXEL1(i, AT(i, k + 2)), \
    TEXEL1(i, AT(i, k + 3)))
/* Values that are the same in all of an invocation's turns, whose stride is a multiple of such
 * windows' periods. */
#define HELD(i) (MODE(i) == 2u || MODE(i) == 3u && (FORM & (1u << (30 + WHICH(i)))) == 0u)
#define FETCH(i)                                                                                   \
    if (MODE(i) == 1u && !NARROW(i)) r##i = RF_TEXELS(in_t##i, true, first, second_four(first));   \
    if (MODE(i) == 1u && NARROW(i)) r##i = TEXEL8(i, first);                                       \
    if (MODE(i) == 2u) r##i = rf_splat(TEXEL1(i, 0u));                                             \
    if (MODE(i) == 3u && !NARROW(i)) r##i = RF_TEXELS(in_t##i, true, AT(i, 0), AT(i, 4));          \
    if (MODE(i) == 3u && NARROW(i)) r##i = TEXEL8(i, AT(i, 0));                                    \
    if (MODE(i) == 4u) r##i = Reg(vec4(TEXEL1(i, AT(i, 0))), vec4(TEXEL1(i, AT(i, 4))));           \
    if (MODE(i) == 5u) r##i = Reg(TEXEL4(i, 0), TEXEL4(i, 4));
#define HOLD(i)                                                                                    \
    held[i] = rf_splat(0.0);                                                                       \
    if (HELD(i)) {                                                                                 \
        Reg r##i;                                                                                  \
        FETCH(i)                                                                                   \
        held[i] = r##i;                                                                            \
    }
#define READ(i)                                                                                    \
    Reg r##i = held[i];                                                                            \
    if (HELD(i)) {                                                                                 \
    } else {                                                                                       \
        FETCH(i)                                                                                   \
    }
#define READ_INPUTS FOR_INPUTS(READ)
#else
#define AT_MIDDLE(w)
#define AT_SECOND(w) if (NARROW_OUT && HAS_TAIL != 0u && tail) at##w[1] = \
    window_index_within(w, first + 1);
#define ELEMENT(i, at) (NARROW(i) ? half_of(in_w##i.w[(at) / 2], at) : in_s##i.s[at])
#define GATHER4(i, at, k) vec4(ELEMENT(i, at[k]), ELEMENT(i, at[k + 1]), ELEMENT(i, at[k + 2]), \
    ELEMENT(i, at[k + 3]))
#define GATHER(i, at) Reg(GATHER4(i, at, 0))
#define VECTOR(i, at) (NARROW(i) ? Reg(rf_widen(TYPE, in_h##i.h[at])) : rf_unpack(in_v##i.v[at]))
#define LOAD_ONE(i) Reg r##i = rf_splat(0.0); if (MODE(i) == 2u) r##i = rf_splat(ELEMENT(i, 0u));
#define LOAD(i)                                                                                    \
    if (MODE(i) == 1u) r##i = VECTOR(i, t);                                                        \
    if (MODE(i) == 3u) r##i = VECTOR(i, AT(i, 0) / W);                                             \
    if (MODE(i) == 4u) r##i = rf_splat(ELEMENT(i, AT(i, 0)));                                      \
    if (MODE(i) == 5u && WHICH(i) == 0u) r##i = GATHER(i, at0);                                    \
    if (MODE(i) == 5u && WHICH(i) == 1u) r##i = GATHER(i, at1);
/* A word that is written holds two elements. */
#define LOAD_TAIL(i)                                                                               \
    if (MODE(i) == 1u) r##i.lo.x = ELEMENT(i, first);                                              \
    if (MODE(i) >= 3u) r##i.lo.x = ELEMENT(i, AT(i, 0));                                           \
    if (NARROW_OUT && has_second) {                                                                \
        if (MODE(i) == 1u) r##i.lo.y = ELEMENT(i, first + 1u);                                     \
        if (MODE(i) >= 3u) r##i.lo.y = ELEMENT(i, AT(i, 1));                                       \
    }
#define READ_INPUTS                                                                                \
    FOR_INPUTS(LOAD_ONE)                                                                           \
    if (whole) {                                                                                   \
        FOR_INPUTS(LOAD)                                                                           \
    }                                                                                              \
    if (tail) {                                                                                    \
        bool has_second = first + 1u < p.n_vec * W + p.n_tail;                                     \
        FOR_INPUTS(LOAD_TAIL)                                                                      \
    }
#endif

#define WINDOW(w)                                                                                  \
    uint at##w[W];                                                                                 \
    at##w[0] = window_index(w, first);                                                             \
    AT_MIDDLE(w)                                                                                   \
    if ((FORM & (1u << (24 + w))) != 0u)                                                           \
        for (int k = 1; k < W; k++) at##w[k] = window_index_within(w, first + k);                  \
    AT_SECOND(w)

#ifdef TEXEL
void hold(uint first, out Reg held[INPUTS])
{
    WINDOW(0)
    WINDOW(1)
    FOR_INPUTS(HOLD)
}
Reg compute(uint first, Reg held[INPUTS])
#else
Reg compute(uint t, bool whole, bool tail, uint first)
#endif
{
    WINDOW(0)
    WINDOW(1)
    READ_INPUTS
    Reg y;
    vec4 r[INPUTS + STEPS];
#define LOW(i) r[i] = r##i.lo;
    FOR_INPUTS(LOW)
    y.lo = run_program(r);
#if W == 8
#define HIGH(i) r[i] = r##i.hi;
    FOR_INPUTS(HIGH)
    y.hi = run_program(r);
#endif
    return y;
}

/* Elements of an invocation behind the last whole vector. */
#define TAIL_SPAN (NARROW_OUT ? 2u : 1u)
#define PLACE(i)                                                                                   \
    bool whole##i = t##i < p.n_vec;                                                                \
    bool tail##i = HAS_TAIL != 0u && !whole##i && (t##i - p.n_vec) * TAIL_SPAN < p.n_tail;         \
    uint first##i = whole##i ? t##i * W : p.n_vec * W + (t##i - p.n_vec) * TAIL_SPAN;

/* Two elements in a word, of which the second may not be the tensor's. */
void write_word(uint first, uint w)
{
    bool has_second = first + 1u < p.n_vec * W + p.n_tail;
    out_w.w[first / 2] = has_second ? w : (out_w.w[first / 2] & 0xffff0000u) | (w & 0xffffu);
}

#ifdef TEXEL
void write_tail(uint first, Reg y)
{
    float f[8] = float[8](y.lo.x, y.lo.y, y.lo.z, y.lo.w, y.hi.x, y.hi.y, y.hi.z, y.hi.w);
    uvec2 lo = rf_narrow(TYPE, y.lo), hi = rf_narrow(TYPE, y.hi);
    uint w[4] = uint[4](lo.x, lo.y, hi.x, hi.y);
    if (!NARROW_OUT)
        for (uint k = 0; k < 7u; k++) if (k < p.n_tail) out_s.s[first + k] = f[k];
    if (NARROW_OUT)
        for (uint k = 0; k < 4u; k++) if (2u * k < p.n_tail) write_word(first + 2u * k, w[k]);
}

/* All invocations take part throughout: those beyond the end read what the first does. */
uint first_of(uint t) { return t < p.n_vec || HAS_TAIL != 0u && t == p.n_vec ? t * W : 0u; }
#define WRITE(t, y)                                                                                \
    if (NARROW_OUT) RF_WRITE_NARROW(out_h.h, p.n_vec, t,                                           \
        uvec4(rf_narrow(TYPE, y.lo), rf_narrow(TYPE, y.hi)))                                       \
    else RF_WRITE(out_v.v, p.n_vec, t, y)

void main()
{
    uint t = rf_invocation();
    t += rf_divide(t, p.stride_magic, p.stride_shift) * p.stride * (p.turns - 1u);
    Reg held[INPUTS], last = rf_splat(0.0);
    bool tail = false;
    hold(first_of(t), held);
    for (uint turn = 0u; turn < p.turns; turn++) {
        const uint t0 = t + turn * p.stride;
        const Reg y = compute(first_of(t0), held);
        WRITE(t0, y)
        if (HAS_TAIL != 0u && t0 == p.n_vec) {
            last = y;
            tail = true;
        }
    }
    if (tail) write_tail(p.n_vec * W, last);
}
#else
void main()
{
    uint t0 = rf_invocation();
    PLACE(0)
    Reg y = compute(t0, whole0, tail0, first0);
    if (NARROW_OUT) {
        uvec2 w = rf_narrow(TYPE, y.lo);
        if (whole0) out_h.h[t0] = w;
        if (tail0) write_word(first0, w.x);
        return;
    }
    if (whole0) out_v.v[t0] = rf_pack(y);
    if (tail0) out_s.s[first0] = y.lo.x;
}
#endif
#endif
