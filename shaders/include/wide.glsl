/* SPDX-License-Identifier: Apache-2.0 */
/*
 * W elements per invocation: 8 through 64-bit integer vectors (software drivers load those with
 * fewer instructions), 4 through vec4, or 1. A shader declares each buffer twice at one binding: as
 * VEC for whole vectors and as float for the tail.
 */
#ifndef RF_WIDE_GLSL
#define RF_WIDE_GLSL

#ifdef TEXEL
#include "include/write_fours.glsl"
#endif

/* Before any mention of gl_WorkGroupSize, which is 1 until then. */
layout(local_size_x_id = 0) in;

#if W == 8
#define VEC u64vec4
struct Reg { vec4 lo, hi; };
Reg rf_unpack(u64vec4 x)
{
    return Reg(vec4(uintBitsToFloat(unpack32(x.x)), uintBitsToFloat(unpack32(x.y))),
               vec4(uintBitsToFloat(unpack32(x.z)), uintBitsToFloat(unpack32(x.w))));
}
u64vec4 rf_pack(Reg r)
{
    return u64vec4(pack64(floatBitsToUint(r.lo.xy)), pack64(floatBitsToUint(r.lo.zw)),
                   pack64(floatBitsToUint(r.hi.xy)), pack64(floatBitsToUint(r.hi.zw)));
}
Reg rf_splat(float x) { return Reg(vec4(x), vec4(x)); }
#elif W == 4
#define VEC vec4
struct Reg { vec4 lo; };
Reg rf_unpack(vec4 x) { return Reg(x); }
vec4 rf_pack(Reg r) { return r.lo; }
Reg rf_splat(float x) { return Reg(vec4(x)); }
#else
#define VEC float
struct Reg { vec4 lo; };
Reg rf_unpack(float x) { return Reg(vec4(x)); }
float rf_pack(Reg r) { return r.lo.x; }
Reg rf_splat(float x) { return Reg(vec4(x)); }
#endif

#if defined(TEXEL) && W == 8
/* Reads through a texel buffer of fours: where `whole`, four elements from `low` and four from
 * `high`, both multiples of four. An invocation for a tail element asks for the one at `low`, which
 * comes first; of that texel others may write other elements meanwhile, where a tensor is updated
 * in place. */
#define RF_TEXELS(buffer, whole, low, high)                                                        \
    rf_texels(whole, low, texelFetch(buffer, int((low) / 4)),                                      \
              texelFetch(buffer, int(((whole) ? (high) : (low)) / 4)))
Reg rf_texels(bool whole, uint low, vec4 x, vec4 y)
{
    vec2 pair = (low & 2u) == 0u ? x.xy : x.zw;
    if (!whole) x.x = (low & 1u) == 0u ? pair.x : pair.y;
    return Reg(x, y);
}
#endif

#ifdef TEXEL

/* buffer[t] = r where t < n_vec, for all invocations of full subgroups of at least eight. A driver
 * that writes lane by lane out of registers of 512 bits stores such a register and loads one lane's
 * 64 bits again, which x86 processors forward from the lower half of a store only, else wait for
 * all stores before it: so lanes of lower halves write for those of upper halves. AMD's forward
 * from all of it, and there each lane writes for itself. */
#define RF_WRITE(buffer, n_vec, t, r)                                                              \
    {                                                                                              \
        if (RF_SWAPS_HALVES) {                                                                     \
            uint partner = gl_SubgroupInvocationID ^ 4u, t_there = subgroupShuffle(t, partner);    \
            Reg there = Reg(subgroupShuffle(r.lo, partner), subgroupShuffle(r.hi, partner));       \
            bool writes = (gl_SubgroupInvocationID & 4u) == 0u;                                    \
            if (writes && t < n_vec) buffer[t] = rf_pack(r);                                       \
            if (writes && t_there < n_vec) buffer[t_there] = rf_pack(there);                       \
        } else {                                                                                   \
            if (t < n_vec) buffer[t] = rf_pack(r);                                                 \
        }                                                                                          \
    }
/* The same of eight elements of 16 bits. */
#define RF_WRITE_NARROW(buffer, n_vec, t, words)                                                   \
    {                                                                                              \
        if (RF_SWAPS_HALVES) {                                                                     \
            uvec4 here = words, there = subgroupShuffle(here, gl_SubgroupInvocationID ^ 4u);       \
            uint t_there = subgroupShuffle(t, gl_SubgroupInvocationID ^ 4u);                       \
            bool writes = (gl_SubgroupInvocationID & 4u) == 0u;                                    \
            if (writes && t < n_vec) buffer[t] = u64vec2(pack64(here.xy), pack64(here.zw));        \
            if (writes && t_there < n_vec)                                                         \
                buffer[t_there] = u64vec2(pack64(there.xy), pack64(there.zw));                     \
        } else {                                                                                   \
            uvec4 here = words;                                                                    \
            if (t < n_vec) buffer[t] = u64vec2(pack64(here.xy), pack64(here.zw));                  \
        }                                                                                          \
    }
#endif

/* The dispatch's invocations in one row; plans spread them over y where x would exceed the device's
 * limit. */
uint rf_invocation()
{
    return (gl_WorkGroupID.y * gl_NumWorkGroups.x + gl_WorkGroupID.x) * gl_WorkGroupSize.x +
           gl_LocalInvocationID.x;
}

#endif
