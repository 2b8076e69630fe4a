#version 450
/* SPDX-License-Identifier: Apache-2.0 */
/* Optimizer updates, in place: RULE 0 SGD, 1 momentum, 2 Adam, 3 RMSprop, 4 accumulation, 5
 * Adagrad, 6 Lion, 7 Nadam, 8 LAMB's moments (m in the place of the parameter, v in that of a
 * slot), 9 LAMB's step (m in the place of the gradient, v in that of a slot), 10 average of the
 * parameter (in its place), which stands where gradients do, 11 the average into the parameter, 12
 * assignment, 13 Muon's momentum (in the place of a slot) and what it makes of the gradient (in the
 * place of the parameter), 14 Muon's step along what has become of that (in the place of the
 * gradient). `precise` keeps the compiler from contracting, so that an element's result does not
 * depend on whether it fell into a vector or into the tail. -DTEXEL: what is read is read through
 * texel buffers; tensors that are written are bound once more. Where SHADOW is a type of 16 bits
 * the parameter is also written in that. */
#extension GL_GOOGLE_include_directive : require
#if W == 8
#extension GL_EXT_shader_explicit_arithmetic_types_int64 : require
#endif
#include "include/wide.glsl"
#include "include/scalar_math.glsl"
#include "include/narrow.glsl"

layout(constant_id = 1) const uint HAS_TAIL = 1;
layout(constant_id = 2) const uint NESTEROV = 0;
layout(constant_id = 3) const uint SHADOW = 0;
layout(push_constant) uniform Push { uint n_vec, n_tail; } p;

#if RULE == 0 || RULE == 4 || (RULE >= 10 && RULE <= 12) || RULE == 14
#define SLOTS 0
#elif RULE == 1 || RULE == 5 || RULE == 6 || RULE == 8 || RULE == 9 || RULE == 13
#define SLOTS 1
#else
#define SLOTS 2
#endif
#if RULE == 9
#define SLOTS_WRITTEN 0
#define SLOT_ACCESS readonly
#else
#define SLOTS_WRITTEN SLOTS
#define SLOT_ACCESS
#endif
#ifdef TEXEL
#define TENSOR(i, name) layout(binding = i) uniform samplerBuffer name##_t;
TENSOR(0, param)
TENSOR(1, grad)
#if SLOTS >= 1
TENSOR(2, slot0)
#endif
#if SLOTS >= 2
TENSOR(3, slot1)
#endif
#define WRITTEN(i, name)                                                                           \
    layout(std430, binding = SLOTS + 2 + i) writeonly buffer name##V { VEC v[]; } name##_v;        \
    layout(std430, binding = SLOTS + 2 + i) writeonly buffer name##S { float s[]; } name##_s;
WRITTEN(0, param)
#if SLOTS_WRITTEN >= 1
WRITTEN(1, slot0)
#endif
#if SLOTS_WRITTEN >= 2
WRITTEN(2, slot1)
#endif
#define TENSORS (SLOTS + SLOTS_WRITTEN + 3)
#else
#define TENSOR(i, name, access)                                                                    \
    layout(std430, binding = i) access buffer name##V { VEC v[]; } name##_v;                       \
    layout(std430, binding = i) access buffer name##S { float s[]; } name##_s;
TENSOR(0, param, )
TENSOR(1, grad, readonly)
#if SLOTS >= 1
TENSOR(2, slot0, SLOT_ACCESS)
#endif
#if SLOTS >= 2
TENSOR(3, slot1, )
#endif
#define TENSORS (SLOTS + 2)
#endif

#if RULE == 4 || RULE == 8 || RULE == 10 || RULE == 13
#define HYPER TENSORS
#define WRITE_SHADOW(n_vec, t, x)
#else
#define HYPER (TENSORS + 1)
#define SHADOWED
#if W == 8
layout(std430, binding = TENSORS) writeonly buffer ShadowV { u64vec2 v[]; } shadow_v;
#else
layout(std430, binding = TENSORS) writeonly buffer ShadowV { uvec2 v[]; } shadow_v;
#endif
layout(std430, binding = TENSORS) buffer ShadowW { uint w[]; } shadow_w;
#if defined(TEXEL)
#define WRITE_SHADOW(n_vec, t, x)                                                                  \
    if (SHADOW != 0u) RF_WRITE_NARROW(shadow_v.v, n_vec, t,                                        \
        uvec4(rf_narrow(SHADOW, x.lo), rf_narrow(SHADOW, x.hi)))
#else
#define WRITE_SHADOW(n_vec, t, x)                                                                  \
    if (SHADOW != 0u) shadow_v.v[t] = rf_narrow(SHADOW, x.lo);
#endif
#endif

#include "pointwise/common/update_rule.glsl"

void write_element(uint at, float x, float a, float b)
{
    param_s.s[at] = x;
#ifdef SHADOWED
    /* Each half of a word is another invocation's. */
    if (SHADOW != 0u) {
        uint half_word = rf_narrow(SHADOW, vec4(x)).x & 0xffffu, shift = 16u * (at & 1u);
        atomicAnd(shadow_w.w[at / 2], ~(0xffffu << shift));
        atomicOr(shadow_w.w[at / 2], half_word << shift);
    }
#endif
#if SLOTS_WRITTEN >= 1
    slot0_s.s[at] = a;
#endif
#if SLOTS_WRITTEN >= 2
    slot1_s.s[at] = b;
#endif
}

#ifdef TEXEL
void main()
{
    /* No return where it skips: behind one, lavapipe loads each of the numbers lane by lane. */
    uint t = rf_invocation(), n_vec = SKIPS ? 0u : p.n_vec;
    bool whole = t < p.n_vec, tail = HAS_TAIL != 0u && !whole &&
        t - p.n_vec < (SKIPS ? 0u : p.n_tail);
    uint first = whole ? t * W : p.n_vec * W + (t - p.n_vec);
    first = whole || tail ? first : 0u; /* all invocations take part in what follows */
    whole = whole || HAS_TAIL == 0u;    /* for the compiler */
#define READ(name) RF_TEXELS(name##_t, whole, first, first + 4)
    Reg x = READ(param), g = READ(grad), a = rf_splat(0.0), b = rf_splat(0.0);
#if SLOTS >= 1
    a = READ(slot0);
#endif
#if SLOTS >= 2
    b = READ(slot1);
#endif
    update(x.lo, g.lo, a.lo, b.lo);
    update(x.hi, g.hi, a.hi, b.hi);
    RF_WRITE(param_v.v, n_vec, t, x)
    WRITE_SHADOW(n_vec, t, x)
#if SLOTS_WRITTEN >= 1
    RF_WRITE(slot0_v.v, n_vec, t, a)
#endif
#if SLOTS_WRITTEN >= 2
    RF_WRITE(slot1_v.v, n_vec, t, b)
#endif
    if (tail) write_element(first, x.lo.x, a.lo.x, b.lo.x);
}
#else
void main()
{
    if (SKIPS) return;
    uint t = rf_invocation();
    if (t < p.n_vec) {
        Reg x = rf_unpack(param_v.v[t]), g = rf_unpack(grad_v.v[t]), a = rf_splat(0.0),
            b = rf_splat(0.0);
#if SLOTS >= 1
        a = rf_unpack(slot0_v.v[t]);
#endif
#if SLOTS >= 2
        b = rf_unpack(slot1_v.v[t]);
#endif
        update(x.lo, g.lo, a.lo, b.lo);
        param_v.v[t] = rf_pack(x);
        WRITE_SHADOW(p.n_vec, t, x)
#if SLOTS_WRITTEN >= 1
        slot0_v.v[t] = rf_pack(a);
#endif
#if SLOTS_WRITTEN >= 2
        slot1_v.v[t] = rf_pack(b);
#endif
    } else if (HAS_TAIL != 0u && t - p.n_vec < p.n_tail) {
        uint at = p.n_vec * W + (t - p.n_vec);
        vec4 x = vec4(param_s.s[at]), g = vec4(grad_s.s[at]), a = vec4(0), b = vec4(0);
#if SLOTS >= 1
        a = vec4(slot0_s.s[at]);
#endif
#if SLOTS >= 2
        b = vec4(slot1_s.s[at]);
#endif
        update(x, g, a, b);
        write_element(at, x.x, a.x, b.x);
    }
}
#endif
