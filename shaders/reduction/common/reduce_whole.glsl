// SPDX-License-Identifier: Apache-2.0
// A reduction in slices as one dispatch: a workgroup is a subgroup, and the one that comes last
// finds what all have left behind, which it
// takes in their order. For drivers to which a dispatch costs more than what little is left to do.
// ARRIVALS: the binding of the counter.
#ifndef RF_REDUCE_WHOLE_GLSL
#define RF_REDUCE_WHOLE_GLSL

#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_shuffle : require

// zero before and after
layout(std430, binding = ARRIVALS) coherent buffer Arrivals { uint arrivals[]; };

// Workgroups that `slices` of work take: not gl_NumWorkGroups, which is that of a piece where a
// dispatch is taken apart.
uint rf_groups_of(uint slices) { return (slices + gl_WorkGroupSize.x - 1) / gl_WorkGroupSize.x; }

// After what a workgroup found is written; `groups` of them do.
bool rf_comes_last(uint groups)
{
    uint before = 0;
    memoryBarrierBuffer();
    if (gl_SubgroupInvocationID == 0) before = atomicAdd(arrivals[0], 1u);
    before = subgroupShuffle(before, 0u);
    if (before != groups - 1) return false;
    memoryBarrierBuffer();
    if (gl_SubgroupInvocationID == 0) arrivals[0] = 0;
    return true;
}

#endif
