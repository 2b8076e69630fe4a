/* SPDX-License-Identifier: Apache-2.0 */
/* Which embedded shaders some kernel plans: one that no kernel plans is dead weight, or a kernel lost its eligibility.
 */
#include <stdio.h>

#include "rf_shaders.h"
#include "walk.h"

typedef struct shader_use {
    const rf_shader *shader;
    bool on_device, planned;
} shader_use;

#define ENTRY(name) { &rf_shader_##name, false, false },
static shader_use uses[] = { RF_ALL_SHADERS(ENTRY) };
#define NUM_USES (sizeof(uses) / sizeof(uses[0]))

void walk_mark_shaders(const rf_op_call *call, const rf_device_caps *caps, bool on_device)
{
    for (uint32_t i = 0; i < rf_op_num_kernels(call->op); i++) {
        const rf_kernel *kernel = rf_op_kernel(call->op, i);
        rf_kernel_plan plan = { 0 };
        if (rf_kernel_score(kernel, call, caps) <= 0 || rf_kernel_plan_make(kernel, call, caps, &plan) < 0) continue;
        for (uint32_t d = 0; d < plan.count; d++)
            for (size_t s = 0; s < NUM_USES; s++)
                if (uses[s].shader == plan.items[d].shader) {
                    uses[s].planned = true;
                    uses[s].on_device = uses[s].on_device || on_device;
                }
        rf_kernel_plan_free(&plan);
    }
}

uint32_t walk_unused_shaders(void)
{
    uint32_t unused = 0, elsewhere = 0;
    for (size_t s = 0; s < NUM_USES; s++) {
        if (!uses[s].planned) {
            printf("FAIL shader %s: no kernel plans it for any case\n", uses[s].shader->name);
            unused++;
        } else if (!uses[s].on_device) {
            printf("note: shader %s is only planned for devices that are not here\n", uses[s].shader->name);
            elsewhere++;
        }
    }
    printf("shaders: %zu, %u of them only for other devices, %u unused\n", NUM_USES, elsewhere, unused);
    return unused;
}
