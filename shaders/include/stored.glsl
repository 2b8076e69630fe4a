/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tensors that may be stored in 16 bits: bit i of TYPES says that the one at binding i is, << 8 in
 * which type. A shader defines RF_TYPES_ID, its number of that constant, before. A buffer that is
 * declared with RF_STORED4 is fours of elements, with RF_STORED1 single ones, which can only be
 * read.
 */
#ifndef RF_STORED_GLSL
#define RF_STORED_GLSL

#include "include/narrow.glsl"

layout(constant_id = RF_TYPES_ID) const uint TYPES = 0;
#define RF_NARROW(i) ((TYPES >> (i) & 1u) != 0u)
#define RF_STORED_TYPE (TYPES >> 8)

#define RF_STORED4(i, name, access)                                                                \
    layout(std430, binding = i) access buffer name##4                                              \
    {                                                                                              \
        vec4 name##_f[];                                                                           \
    };                                                                                             \
    layout(std430, binding = i) access buffer name##2                                              \
    {                                                                                              \
        uvec2 name##_h[];                                                                          \
    };
#define RF_LOAD4(i, name, at) (RF_NARROW(i) ? rf_widen(RF_STORED_TYPE, name##_h[at]) : name##_f[at])
#define RF_STORE4(i, name, at, v)                                                                  \
    {                                                                                              \
        if (RF_NARROW(i))                                                                          \
            name##_h[at] = rf_narrow(RF_STORED_TYPE, v);                                           \
        else                                                                                       \
            name##_f[at] = v;                                                                      \
    }

#define RF_STORED1(i, name)                                                                        \
    layout(std430, binding = i) readonly buffer name##1                                            \
    {                                                                                              \
        float name##_f[];                                                                          \
    };                                                                                             \
    layout(std430, binding = i) readonly buffer name##Words                                        \
    {                                                                                              \
        uint name##_w[];                                                                           \
    };
#define RF_LOAD1(i, name, at)                                                                      \
    (RF_NARROW(i)                                                                                  \
         ? rf_widen_one(RF_STORED_TYPE, name##_w[(at) >> 1] >> (((at)&1u) << 4) & 0xffffu)         \
         : name##_f[at])
#endif
