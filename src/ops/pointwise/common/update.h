/* SPDX-License-Identifier: Apache-2.0 */
/* The roles of updates, and their kernels. */
#ifndef RF_OPS_POINTWISE_COMMON_UPDATE_H
#define RF_OPS_POINTWISE_COMMON_UPDATE_H

#include "ops/kit.h"
#include "ops/ops.h"
#include "rf_shaders.h"

enum {
    RF_RULE_SGD,
    RF_RULE_MOMENTUM,
    RF_RULE_ADAM,
    RF_RULE_RMSPROP,
    RF_RULE_ACCUMULATE,
    RF_RULE_ADAGRAD,
    RF_RULE_LION,
    RF_RULE_NADAM,
    RF_RULE_LAMB_MOMENTS,
    RF_RULE_LAMB,
    RF_RULE_AVERAGE,
    RF_RULE_OVERWRITE,
    RF_RULE_ASSIGN,
    RF_RULE_MUON_MOMENTUM,
    RF_RULE_MUON,
};
/* The shaders of these rules, by the end of their names. */
#define RF_UPDATE_SHADERS(end)                                                                                         \
    (const rf_shader *const[])                                                                                         \
    {                                                                                                                  \
        [RF_RULE_SGD] = &rf_shader_update_sgd##end, [RF_RULE_MOMENTUM] = &rf_shader_update_momentum##end,              \
        [RF_RULE_ADAM] = &rf_shader_update_adam##end, [RF_RULE_RMSPROP] = &rf_shader_update_rmsprop##end,              \
        [RF_RULE_ACCUMULATE] = &rf_shader_update_accumulate##end, [RF_RULE_ADAGRAD] = &rf_shader_update_adagrad##end,  \
        [RF_RULE_LION] = &rf_shader_update_lion##end, [RF_RULE_NADAM] = &rf_shader_update_nadam##end,                  \
        [RF_RULE_LAMB_MOMENTS] = &rf_shader_update_lamb_moments##end, [RF_RULE_LAMB] = &rf_shader_update_lamb##end,    \
        [RF_RULE_AVERAGE] = &rf_shader_update_average##end, [RF_RULE_OVERWRITE] = &rf_shader_update_overwrite##end,    \
        [RF_RULE_ASSIGN] = &rf_shader_update_assign##end,                                                              \
        [RF_RULE_MUON_MOMENTUM] = &rf_shader_update_muon_momentum##end, [RF_RULE_MUON] = &rf_shader_update_muon##end   \
    }

bool rf_update_has_hyper(const rf_op *op);
/* Whether it is one with Nesterov's momentum. */
bool rf_update_looks_ahead(const rf_op_call *call);
bool rf_update_has_shadow(const rf_op_call *call);
/* Number of tensors of the parameter's length, its shadow left out. */
uint32_t rf_update_num_tensors(const rf_op_call *call);
rf_result rf_update_reference(const rf_op_call *call, void *const *in, void *const *out);

/* Elements of an invocation, and shaders, which may read texels. */
typedef struct rf_update_form {
    uint32_t width;
    const rf_shader *const *shaders;
    bool texels;
} rf_update_form;
rf_plan_fn rf_update_plan; /* the data is a form */
extern const rf_kernel_list rf_update_common;

#endif
