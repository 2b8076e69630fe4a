/* SPDX-License-Identifier: Apache-2.0 */
/*
 * W elements per invocation: 8 through 64-bit integer vectors (software drivers load those with fewer instructions), 4
 * through vec4, or 1. A shader declares each buffer twice at one binding: as VEC for whole vectors and as float for the tail.
 */
#ifndef RF_WIDE_GLSL
#define RF_WIDE_GLSL

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

/* The dispatch's invocations in one row; plans spread them over y where x would exceed the device's limit. */
uint rf_invocation() { return (gl_WorkGroupID.y * gl_NumWorkGroups.x + gl_WorkGroupID.x) * gl_WorkGroupSize.x + gl_LocalInvocationID.x; }

#endif
