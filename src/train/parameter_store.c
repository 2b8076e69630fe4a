/* SPDX-License-Identifier: Apache-2.0 */
#include "train/parameter_store.h"

#include <ringfire/train.h>

#include "base/memory.h"
#include "train/files/config_json.h"

#define BLOCK (1u << 22) /* elements of one variable: what every device can bind as a whole */

/* Gradients are variables too, that a step without inputs of its own applies: so the path to the device is the one that
 * all variables take. */
typedef struct store {
    rf_strategy *strategy;
    rf_optimizer *optimizer;
    rf_function *function;
    rf_variable **parameters, **gradients; /* [num_blocks] */
    rf_tensor *tensors;                    /* room for a trace */
    uint32_t num_blocks;
    uint64_t count;
} store;

static uint64_t block_length(const store *s, uint32_t block)
{
    const uint64_t begin = (uint64_t)block * BLOCK;
    return s->count - begin < BLOCK ? s->count - begin : BLOCK;
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
    rf_free(s->parameters);
    rf_free(s->gradients);
    rf_free(s->tensors);
    rf_free(s);
}

static rf_result create_variables(store *s, const float *values)
{
    s->parameters = RF_NEW_ARRAY(rf_variable *, s->num_blocks);
    s->gradients = RF_NEW_ARRAY(rf_variable *, s->num_blocks);
    s->tensors = RF_NEW_ARRAY(rf_tensor, s->num_blocks);
    if (!s->parameters || !s->gradients || !s->tensors) return RF_ERROR_OUT_OF_HOST_MEMORY;
    for (uint32_t b = 0; b < s->num_blocks; b++) {
        rf_variable_params params = { .name = "parameters",
                                      .shape = RF_SHAPE((int64_t)block_length(s, b)),
                                      .value = values + (size_t)b * BLOCK };
        RF_TRY(rf_variable_create(s->strategy, &params, &s->parameters[b]));
        params = (rf_variable_params){
            .name = "gradients", .shape = params.shape, .initializer = { .kind = RF_INIT_ZEROS }, .not_trainable = true
        };
        RF_TRY(rf_variable_create(s->strategy, &params, &s->gradients[b]));
    }
    return RF_OK;
}

static rf_result set_up(store *s, const rf_one_device_params *device, const rf_optimizer_params *optimizer,
                        const float *values)
{
    RF_TRY(rf_strategy_create_one_device(device, &s->strategy));
    RF_TRY(create_variables(s, values));
    RF_TRY(rf_optimizer_create(s->strategy, optimizer, &s->optimizer));
    const rf_function_params function = { .step = update_step, .user = s, .name = "update of parameters" };
    return rf_function_create(s->strategy, &function, &s->function);
}

static rf_result store_create(void *user, const void *optimizer, size_t size, const float *values, uint64_t count,
                              void **out)
{
    rf_optimizer_params params;
    rf_schedule schedule;
    RF_REQUIRE(count <= (uint64_t)BLOCK * UINT32_MAX, "a server of %llu parameters", (unsigned long long)count);
    RF_TRY(rf_optimizer_parse(optimizer, size, &params, &schedule));
    store *s = RF_NEW(store);
    if (!s) {
        rf_optimizer_params_free(&params);
        return RF_ERROR_OUT_OF_HOST_MEMORY;
    }
    s->count = count;
    s->num_blocks = (uint32_t)rf_div_up(count, BLOCK);
    const rf_result r = set_up(s, user, &params, values);
    rf_optimizer_params_free(&params);
    if (r < 0) {
        store_destroy(s);
        return r;
    }
    *out = s;
    return RF_OK;
}

static rf_result store_apply(void *p, const float *gradient, float *values)
{
    store *s = p;
    float unused = 0;
    const rf_element batch = { .num_components = 1, .component = { { RF_F32, RF_SHAPE(1), &unused } } };
    for (uint32_t b = 0; b < s->num_blocks; b++)
        RF_TRY(rf_variable_assign(s->gradients[b], gradient + (size_t)b * BLOCK));
    RF_TRY(rf_strategy_run(s->strategy, s->function, &batch, NULL));
    for (uint32_t b = 0; b < s->num_blocks; b++) RF_TRY(rf_variable_read(s->parameters[b], values + (size_t)b * BLOCK));
    return RF_OK;
}

const rf_ps_store_fns *rf_parameter_store_fns(void)
{
    static const rf_ps_store_fns fns = { store_create, store_apply, store_destroy };
    return &fns;
}
