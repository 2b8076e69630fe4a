/* SPDX-License-Identifier: Apache-2.0 */
/* Kernels of optimizer steps. */
#include "ops/pointwise/common/update.h"

bool rf_update_has_hyper(const rf_op *op)
{
    return op->role != RF_RULE_ACCUMULATE && op->role != RF_RULE_ASSIGN;
}

/* With Nesterov's momentum. */
bool rf_update_looks_ahead(const rf_op_call *call)
{
    const bool may = call->op->role == RF_RULE_MOMENTUM || call->op->role == RF_RULE_MUON_MOMENTUM;
    return may && ((const rf_update_attr *)call->attr)->nesterov;
}

bool rf_update_has_shadow(const rf_op_call *call)
{
    return call->n_in > call->op->min_in;
}

/* Number of tensors of the parameter's length, its shadow left out. */
uint32_t rf_update_num_tensors(const rf_op_call *call)
{
    return rf_update_has_hyper(call->op) ? call->op->min_in - 1 : call->op->min_in;
}

/* Where no shadow is asked for the parameter stands in its place, and is not touched. */
static void add_shadow(const rf_op_call *call, const rf_device_caps *caps, rf_flat_job *k)
{
    const bool wanted = rf_update_has_shadow(call);
    const uint32_t at = wanted ? call->op->min_in : 0;
    k->spec[k->n_spec++] = wanted ? rf_type_word(call->in[at].dtype, caps) : 0;
    k->tensors[k->n_tensors].index = at;
    k->tensors[k->n_tensors].narrow = wanted;
    k->tensors[k->n_tensors++].write = wanted;
}

rf_result rf_update_plan(const rf_op_call *call, const rf_device_caps *caps, const void *data, rf_kernel_plan *plan)
{
    const rf_update_form *form = data;
    const uint32_t n = rf_update_num_tensors(call);
    rf_flat_job k = { .shader = form->shaders[call->op->role], .width = form->width, .n_tensors = n };
    for (uint32_t i = 0; i < n; i++) {
        const bool written = call->op->mutates >> i & 1;
        k.tensors[i].index = i;
        k.tensors[i].write = written && !form->texels;
        if (!form->texels) continue;
        k.tensors[i].view = RF_VIEW_TEXEL_RGBA32F;
        if (!written) continue;
        k.tensors[k.n_tensors].index = i;
        k.tensors[k.n_tensors++].write = true;
    }
    if (rf_update_has_hyper(call->op)) k.small[k.n_small++] = n;
    k.spec[k.n_spec++] = rf_update_looks_ahead(call);
    if (call->op->max_in > call->op->min_in) add_shadow(call, caps, &k);
    return rf_flat_job_plan(&k, (uint64_t)rf_shape_count(call->in[0].shape), caps, plan);
}

static double score_vec4(const rf_op_call *call, const rf_device_caps *caps, const void *data)
{
    return RF_SCORE_WIDE;
}

static const rf_kernel kernels[] = {
    { "vec4", score_vec4, rf_update_plan, &(const rf_update_form){ 4, RF_UPDATE_SHADERS(_w4) } },
};
const rf_kernel_list rf_update_common = RF_KERNEL_LIST(kernels);
