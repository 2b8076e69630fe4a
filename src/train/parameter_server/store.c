/* SPDX-License-Identifier: Apache-2.0 */
#include "train/parameter_server/store.h"

#include <stdio.h>

#include <ringfire/train.h>

#include "base/memory.h"
#include "train/optimizer/config_json.h"

#define BLOCK (1u << 22) /* elements of one variable: what every device can bind as a whole */
enum { GROUP_NAME = 16 };

_Static_assert(RF_PS_MAX_GROUPS == RF_MAX_PARAMETER_GROUPS + 1, "every group of an optimizer, and none");

/* Parameters of one group, and where they are in the server's array. */
typedef struct block {
    uint32_t group;
    uint64_t begin, length;
} block;

/* Gradients are variables too, that a step without inputs of its own applies: so the path to the device is the one that
 * all variables take. */
typedef struct store {
    rf_strategy *strategy;
    rf_optimizer *optimizer;
    rf_function *function;
    block *blocks;                         /* [num_blocks] */
    rf_variable **parameters, **gradients; /* [num_blocks] */
    rf_tensor *tensors;                    /* room for a trace */
    uint32_t num_blocks;
} store;

/* The name of a group, and of the variables in it: a server knows no other names. */
static void name_group(uint32_t group, char name[GROUP_NAME])
{
    snprintf(name, GROUP_NAME, "group_%u", group);
}

static rf_result update_step(rf_trace *t, const rf_tensor *in, rf_tensor *out, void *user)
{
    store *s = user;
    (void)in;
    (void)out;
    for (uint32_t b = 0; b < s->num_blocks; b++) s->tensors[b] = rf_variable_tensor(t, s->gradients[b]);
    return rf_optimizer_apply_gradients(t, s->optimizer, s->tensors,
                                        (rf_variable_list){ s->parameters, s->num_blocks });
}

static void store_destroy(void *p)
{
    store *s = p;
    rf_function_destroy(&s->function);
    rf_optimizer_destroy(&s->optimizer);
    for (uint32_t b = 0; b < s->num_blocks; b++) {
        if (s->parameters) rf_variable_destroy(&s->parameters[b]);
        if (s->gradients) rf_variable_destroy(&s->gradients[b]);
    }
    rf_strategy_destroy(&s->strategy);
    rf_free(s->blocks);
    rf_free(s->parameters);
    rf_free(s->gradients);
    rf_free(s->tensors);
    rf_free(s);
}

static rf_result cut_blocks(store *s, const rf_ps_layout *layout)
{
    uint64_t begin = 0, blocks = 0;
    for (uint32_t g = 0; g < RF_PS_MAX_GROUPS; g++) blocks += rf_div_up(layout->groups[g], BLOCK);
    RF_REQUIRE(blocks <= UINT32_MAX, "a server of %llu parameters", (unsigned long long)layout->optimized);
    s->blocks = RF_NEW_ARRAY(block, blocks);
    if (!s->blocks) return RF_ERROR_OUT_OF_HOST_MEMORY;
    for (uint32_t g = 0; g < RF_PS_MAX_GROUPS; g++)
        for (uint64_t left = layout->groups[g]; left > 0; left -= s->blocks[s->num_blocks++].length) {
            const uint64_t length = left < BLOCK ? left : BLOCK;
            s->blocks[s->num_blocks] = (block){ g, begin, length };
            begin += length;
        }
    return RF_OK;
}

static rf_result create_variables(store *s, const float *values)
{
    char name[GROUP_NAME];
    s->parameters = RF_NEW_ARRAY(rf_variable *, s->num_blocks);
    s->gradients = RF_NEW_ARRAY(rf_variable *, s->num_blocks);
    s->tensors = RF_NEW_ARRAY(rf_tensor, s->num_blocks);
    if (!s->parameters || !s->gradients || !s->tensors) return RF_ERROR_OUT_OF_HOST_MEMORY;
    for (uint32_t b = 0; b < s->num_blocks; b++) {
        name_group(s->blocks[b].group, name);
        rf_variable_params params = { .name = name,
                                      .shape = RF_SHAPE((int64_t)s->blocks[b].length),
                                      .value = values + s->blocks[b].begin };
        RF_TRY(rf_variable_create(s->strategy, &params, &s->parameters[b]));
        params = (rf_variable_params){
            .name = "gradients", .shape = params.shape, .initializer = { .kind = RF_INIT_ZEROS }, .not_trainable = true
        };
        RF_TRY(rf_variable_create(s->strategy, &params, &s->gradients[b]));
    }
    return RF_OK;
}

/* Those of the chief's groups that have parameters here: a group that names nothing would be a slip. */
static rf_result create_optimizer(store *s, const rf_optimizer_params *optimizer, const rf_ps_layout *layout)
{
    char names[RF_MAX_PARAMETER_GROUPS][GROUP_NAME];
    rf_parameter_group groups[RF_MAX_PARAMETER_GROUPS];
    rf_optimizer_params params = *optimizer;
    params.groups = groups;
    params.num_groups = 0;
    for (uint32_t g = 1; g < RF_PS_MAX_GROUPS; g++) {
        if (layout->groups[g] == 0) continue;
        RF_REQUIRE(g <= optimizer->num_groups, "%llu parameters are of group %u of an optimizer that has %u",
                   (unsigned long long)layout->groups[g], g, optimizer->num_groups);
        const uint32_t n = params.num_groups++;
        name_group(g, names[n]);
        groups[n] = optimizer->groups[g - 1];
        groups[n].names = names[n];
    }
    return rf_optimizer_create(s->strategy, &params, &s->optimizer);
}

static rf_result set_up(store *s, const rf_one_device_params *device, const rf_optimizer_params *optimizer,
                        const float *values, const rf_ps_layout *layout)
{
    RF_TRY(cut_blocks(s, layout));
    RF_TRY(rf_strategy_create_one_device(device, &s->strategy));
    RF_TRY(create_variables(s, values));
    RF_TRY(create_optimizer(s, optimizer, layout));
    const rf_function_params function = {
        .step = update_step, .user = s, .name = "update of parameters", .training = true
    };
    return rf_function_create(s->strategy, &function, &s->function);
}

static rf_result store_create(void *user, const void *optimizer, size_t size, const float *values,
                              const rf_ps_layout *layout, uint64_t updates, void **out)
{
    rf_optimizer_params params;
    rf_schedule schedule;
    RF_TRY(rf_optimizer_parse(optimizer, size, &params, &schedule));
    store *s = RF_NEW(store);
    if (!s) {
        rf_optimizer_params_free(&params);
        return RF_ERROR_OUT_OF_HOST_MEMORY;
    }
    const rf_result r = set_up(s, user, &params, values, layout);
    rf_optimizer_params_free(&params);
    if (r < 0) {
        store_destroy(s);
        return r;
    }
    rf_updater_set_iterations(rf_optimizer_updater(s->optimizer), updates);
    *out = s;
    return RF_OK;
}

static rf_result store_apply(void *p, const float *gradient, float *values)
{
    store *s = p;
    float unused = 0;
    const rf_element batch = { .num_components = 1, .component = { { RF_F32, RF_SHAPE(1), &unused } } };
    for (uint32_t b = 0; b < s->num_blocks; b++)
        RF_TRY(rf_variable_assign(s->gradients[b], gradient + s->blocks[b].begin));
    RF_TRY(rf_strategy_run(s->strategy, s->function, &batch, NULL));
    for (uint32_t b = 0; b < s->num_blocks; b++)
        RF_TRY(rf_variable_read(s->parameters[b], values + s->blocks[b].begin));
    return RF_OK;
}

static uint32_t store_slots(void *p)
{
    const store *s = p;
    return rf_updater_parameters(rf_optimizer_updater(s->optimizer))->num_slots;
}

static rf_result store_read_slot(void *p, uint32_t slot, float *values)
{
    store *s = p;
    for (uint32_t b = 0; b < s->num_blocks; b++)
        RF_TRY(rf_updater_read_slot(rf_optimizer_updater(s->optimizer), slot, s->parameters[b],
                                    values + s->blocks[b].begin));
    return RF_OK;
}

/* All variables become known at once: the optimizer's state is laid out for them once. */
static rf_result store_write_slot(void *p, uint32_t slot, const float *values)
{
    store *s = p;
    rf_updater *updater = rf_optimizer_updater(s->optimizer);
    RF_TRY(rf_updater_learn(updater, s->parameters, s->num_blocks));
    for (uint32_t b = 0; b < s->num_blocks; b++)
        RF_TRY(rf_updater_write_slot(updater, slot, s->parameters[b], values + s->blocks[b].begin));
    return RF_OK;
}

const rf_ps_store_fns *rf_parameter_store_fns(void)
{
    static const rf_ps_store_fns fns = { .create = store_create,
                                         .apply = store_apply,
                                         .num_slots = store_slots,
                                         .read_slot = store_read_slot,
                                         .write_slot = store_write_slot,
                                         .destroy = store_destroy };
    return &fns;
}
