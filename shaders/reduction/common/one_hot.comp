// SPDX-License-Identifier: Apache-2.0
#version 450
#extension GL_GOOGLE_include_directive : require
#include "include/reduction.glsl"

layout(std430, binding = 0) readonly buffer Indices { int index[]; };
layout(std430, binding = 1) writeonly buffer Y { float y[]; };
layout(push_constant) uniform Push { uint rows, depth; };

void main()
{
    const uint i = rf_thread();
    if (i < rows * depth) y[i] = index[i / depth] == int(i % depth) ? 1.0 : 0.0;
}
