/* SPDX-License-Identifier: Apache-2.0 */
/* Plans that fill a tensor. */
#include "ops/kit.h"
#include "rf_shaders.h"

rf_result rf_fill_plan_by_shader(const rf_op_call *call, float value, const rf_device_caps *caps, rf_kernel_plan *plan)
{
    rf_flat_job job = { .shader = &rf_shader_fill, .width = 4, .n_tensors = 1 };
    const rf_push_fill push = { .value = value };
    RF_FLAT_JOB_PUSH(&job, push, n_vec, n_tail);
    job.tensors[0].kind = RF_BIND_OUTPUT;
    job.tensors[0].write = true;
    return rf_flat_job_plan(&job, rf_desc_count(&call->out[0]), caps, plan);
}

rf_result rf_fill_plan_by_driver(float value, rf_kernel_plan *plan)
{
    rf_dispatch *d = rf_kernel_plan_add_fill(plan, rf_float_word(value));
    if (!d) return RF_ERROR_OUT_OF_HOST_MEMORY;
    rf_bind_whole(d, RF_BIND_OUTPUT, 0);
    return RF_OK;
}

double rf_fill_driver_score(const rf_op_call *call, const rf_device_caps *caps, const void *data)
{
    if (rf_desc_count(&call->out[0]) > caps->max_storage_range / sizeof(float)) return RF_SCORE_NONE;
    /* In one thread, at the pace of memory: several times as fast as a shader on two processors. */
    const bool copies = caps->driver == RF_DRIVER_LAVAPIPE || caps->driver == RF_DRIVER_SWIFTSHADER;
    return copies ? RF_SCORE_COPY : RF_SCORE_RESERVE;
}

rf_result rf_fill_plan(const rf_op_call *call, float value, const rf_device_caps *caps, rf_kernel_plan *plan)
{
    return rf_fill_driver_score(call, caps, NULL) > RF_SCORE_ANY ? rf_fill_plan_by_driver(value, plan)
                                                                 : rf_fill_plan_by_shader(call, value, caps, plan);
}
