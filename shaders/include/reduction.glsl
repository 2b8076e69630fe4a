// SPDX-License-Identifier: Apache-2.0
// Numbering of invocations and workgroups over a grid whose x and y are one long line.
#ifndef RF_REDUCTION_GLSL
#define RF_REDUCTION_GLSL

layout(local_size_x_id = 0) in;

uint rf_group()
{
    return gl_WorkGroupID.y * gl_NumWorkGroups.x + gl_WorkGroupID.x;
}

uint rf_thread()
{
    return rf_group() * gl_WorkGroupSize.x + gl_LocalInvocationID.x;
}

#endif
