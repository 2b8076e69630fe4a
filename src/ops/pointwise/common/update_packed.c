/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Optimizer steps whose slots are in few bits (base/state_form.h): those of update.c on slots that are decoded before
 * and encoded after. A slot is a tensor of words, which ends with as many blocks as the parameter has; words before
 * these are others', because descriptors begin at aligned offsets and blocks anywhere.
 */
#include <float.h>
#include <math.h>
#include <string.h>

#include "base/philox.h"
#include "base/state_form.h"
#include "ops/pointwise/common/update.h"
#include "ops/scalar.h"

enum { LANES = 64 /* of a workgroup, which has a block */, KEY_LOW = 0x52494e47, KEY_HIGH = 0x46495245 };

/* Inputs are param, grad, slots, hyper, and a shadow where there is one. */
static uint32_t count_slots(const rf_op_call *call)
{
    return call->op->min_in - 3;
}

static const rf_packed_update_attr *attr_of(const rf_op_call *call)
{
    return call->attr;
}

static uint64_t count_blocks(const rf_op_call *call)
{
    return rf_desc_count(&call->in[0]) / RF_STATE_BLOCK;
}

static uint64_t block_words(const rf_op_call *call)
{
    return rf_state_block_words((rf_optimizer_state_type)attr_of(call)->state_type);
}

/* Where the blocks of a slot begin. */
static uint64_t first_word(const rf_op_call *call, uint32_t input)
{
    return rf_desc_count(&call->in[input]) - count_blocks(call) * block_words(call);
}

static rf_result packed_infer(rf_op_call *call)
{
    const rf_packed_update_attr *attr = attr_of(call);
    const uint32_t slots = count_slots(call), hyper = 2 + slots;
    const uint64_t count = rf_desc_count(&call->in[0]);
    const bool packed = attr->state_type == RF_OPTIMIZER_STATE_BF16 || attr->state_type == RF_OPTIMIZER_STATE_8BIT;
    if (!packed || attr->first % 4 != 0 || count == 0 || count % RF_STATE_BLOCK != 0)
        return RF_FAIL(RF_ERROR_INVALID_ARGUMENT,
                       "%s: slots of type %u of %llu elements from number %llu on are no whole blocks of %d",
                       call->op->name, attr->state_type, (unsigned long long)count, (unsigned long long)attr->first,
                       RF_STATE_BLOCK);
    RF_TRY(rf_expect_dtype(call, 0, RF_F32));
    RF_TRY(rf_expect_dtype(call, 1, RF_F32));
    RF_TRY(rf_expect_dtype(call, hyper, RF_F32));
    for (uint32_t i = 0; i < slots; i++) {
        RF_TRY(rf_expect_dtype(call, 2 + i, RF_I32));
        if (rf_desc_count(&call->in[2 + i]) < count_blocks(call) * block_words(call))
            return RF_FAIL(RF_ERROR_INVALID_ARGUMENT, "%s: slot %u has %llu words, too few for %llu elements",
                           call->op->name, i, (unsigned long long)rf_desc_count(&call->in[2 + i]),
                           (unsigned long long)count);
    }
    const bool narrow = !rf_update_has_shadow(call) || rf_dtype_is_narrow(call->in[hyper + 1].dtype);
    if (rf_desc_count(&call->in[1]) != count || rf_desc_count(&call->in[hyper]) < RF_HYPER_COUNT || !narrow ||
        (rf_update_has_shadow(call) && rf_desc_count(&call->in[hyper + 1]) != count))
        return RF_FAIL(RF_ERROR_INVALID_ARGUMENT,
                       "%s: a gradient and a shadow in 16 bits have the parameter's %llu elements, hyperparameters %d",
                       call->op->name, (unsigned long long)count, RF_HYPER_COUNT);
    return RF_OK;
}

/* ---- reference ---- */

static const rf_op *plain_op(const rf_op_call *call)
{
    return call->op->role == RF_RULE_ADAM   ? &rf_op_adam_update
           : call->op->role == RF_RULE_LION ? &rf_op_lion_update
                                            : &rf_op_momentum_update;
}

static rf_state_form form_of(const rf_op_call *call, uint32_t slot)
{
    return (rf_state_form){ (rf_optimizer_state_type)attr_of(call)->state_type, slot == 1 };
}

/* Up or down, by 16 bits of a number that belongs to element and update. Denormal numbers become 0, and NaN has one
 * form. */
static void round_by_chance(const rf_op_call *call, uint32_t slot, float step, const float *values, uint16_t *halves)
{
    const uint64_t count = rf_desc_count(&call->in[0]), key = (uint64_t)KEY_HIGH << 32 | KEY_LOW;
    for (uint64_t i = 0; i < count; i += 4) {
        const rf_philox4 random = rf_philox(key, (attr_of(call)->first + i) / 4, (uint32_t)step);
        for (uint32_t k = 0; k < 4; k++) {
            const uint32_t bits = rf_float_word(values[i + k]), chance = random.v[k] >> (slot == 1 ? 16 : 0) & 0xffff;
            const float x = values[i + k];
            halves[i + k] = isnan(x)             ? 0x7fc0
                            : fabsf(x) < FLT_MIN ? 0
                                                 : (uint16_t)((bits + (isinf(x) ? 0 : chance)) >> 16);
        }
    }
}

/* As kernels compute them, in f32: the last bit of a number may decide about its code. */
static void update_slots(const rf_op_call *call, const float *grad, const float *hyper, float *slots)
{
    const uint64_t count = rf_desc_count(&call->in[0]);
    const float clip = hyper[RF_HYPER_CLIP_VALUE], beta_1 = hyper[RF_HYPER_BETA_1], beta_2 = hyper[RF_HYPER_BETA_2];
    for (uint64_t i = 0; i < count; i++) {
        float g = grad[i] * hyper[RF_HYPER_GRAD_SCALE], *m = &slots[i], *v = &slots[count + i];
        if (clip > 0) g = (float)rf_clamp((double)g, -(double)clip, (double)clip);
        if (call->op->role == RF_RULE_MOMENTUM) *m = hyper[RF_HYPER_MOMENTUM] * *m - hyper[RF_HYPER_RATE] * g;
        if (call->op->role == RF_RULE_LION) *m = beta_2 * *m + (1 - beta_2) * g;
        if (call->op->role != RF_RULE_ADAM) continue;
        *m = beta_1 * *m + (1 - beta_1) * g;
        *v = beta_2 * *v + (1 - beta_2) * (g * g);
    }
}

static void encode_slot(const rf_op_call *call, uint32_t slot, float step, const float *values, void *words)
{
    if (attr_of(call)->state_type == RF_OPTIMIZER_STATE_BF16)
        round_by_chance(call, slot, step, values, words);
    else
        rf_state_encode(form_of(call, slot), values, rf_desc_count(&call->in[0]), words);
}

/* `slots` has room for those of all elements twice. */
static rf_result refer_to_plain(const rf_op_call *call, void *const *in, float *slots)
{
    const uint64_t count = rf_desc_count(&call->in[0]);
    const rf_update_attr attr = { attr_of(call)->nesterov };
    const uint32_t n = count_slots(call), hyper = 2 + n;
    const float *numbers = in[hyper];
    rf_op_call plain = *call;
    void *inputs[RF_MAX_INPUTS];
    plain.op = plain_op(call);
    plain.attr = &attr;
    for (uint32_t i = 0; i < call->n_in; i++) inputs[i] = in[i];
    for (uint32_t i = 0; i < n; i++) {
        plain.in[2 + i] = call->in[0];
        inputs[2 + i] = slots + i * count;
        rf_state_decode(form_of(call, i), (uint32_t *)in[2 + i] + first_word(call, 2 + i), 0, count, inputs[2 + i]);
    }
    memcpy(slots + n * count, slots, n * count * sizeof(float));
    update_slots(call, in[1], numbers, slots + n * count);
    RF_TRY(rf_update_reference(&plain, inputs, NULL));
    for (uint32_t i = 0; i < n; i++)
        encode_slot(call, i, numbers[RF_HYPER_STEP], slots + (n + i) * count,
                    (uint32_t *)in[2 + i] + first_word(call, 2 + i));
    return RF_OK;
}

static rf_result packed_reference(const rf_op_call *call, void *const *in, void *const *out)
{
    (void)out;
    if (((const float *)in[2 + count_slots(call)])[RF_HYPER_SKIP] >= 1) return RF_OK;
    float *slots = RF_NEW_ARRAY(float, 2 * count_slots(call) * rf_desc_count(&call->in[0]));
    if (!slots) return RF_ERROR_OUT_OF_HOST_MEMORY;
    const rf_result r = refer_to_plain(call, in, slots);
    rf_free(slots);
    return r;
}

static rf_cost packed_cost(const rf_op_call *call)
{
    const double count = (double)rf_desc_count(&call->in[0]), slots = count_slots(call);
    const double words = 2 * slots * (double)(count_blocks(call) * block_words(call));
    return (rf_cost){ (14 + 20 * slots) * count,
                      3 * 4 * count + 4 * words + (rf_update_has_shadow(call) ? 2 * count : 0) };
}

/* ---- the kernel ---- */

/* Blocks of one dispatch: as many as a descriptor spans, and an even number of them, so that shadows begin at words. */
static uint64_t blocks_at_once(const rf_device_caps *caps)
{
    const uint64_t range = rf_min(caps->max_storage_range, 1u << 31);
    const uint64_t bytes = RF_STATE_BLOCK * sizeof(float), slack = caps->buffer_alignment;
    return range > bytes + slack ? (range - slack) / bytes : 0;
}

static double score_blocks(const rf_op_call *call, const rf_device_caps *caps, const void *data)
{
    const bool small = caps->max_workgroup_size[0] < LANES || caps->max_workgroup_invocations < LANES;
    return small || blocks_at_once(caps) == 0 ? RF_SCORE_NONE : RF_SCORE_ANY;
}

static const rf_shader *shader_of(const rf_op_call *call)
{
    const bool bytes = attr_of(call)->state_type == RF_OPTIMIZER_STATE_8BIT;
    switch (call->op->role) {
    case RF_RULE_ADAM: return bytes ? &rf_shader_update_adam_8bit : &rf_shader_update_adam_bf16;
    case RF_RULE_LION: return bytes ? &rf_shader_update_lion_8bit : &rf_shader_update_lion_bf16;
    default: return bytes ? &rf_shader_update_momentum_8bit : &rf_shader_update_momentum_bf16;
    }
}

static uint32_t bind_written(rf_dispatch *d, const rf_device_caps *caps, uint32_t input, uint64_t first, uint64_t words)
{
    const uint32_t base = rf_bind_elements(d, caps, RF_BIND_INPUT, input, first, words);
    d->bind[d->n_bind - 1].write = true;
    return base;
}

/* Where no shadow is asked for the parameter stands in its place, and is not touched. */
static void bind_all(const rf_op_call *call, const rf_device_caps *caps, uint64_t first, uint64_t blocks,
                     rf_dispatch *d, rf_push_update_packed *push)
{
    const uint32_t slots = count_slots(call), hyper = 2 + slots;
    const uint64_t start = first * RF_STATE_BLOCK, count = blocks * RF_STATE_BLOCK;
    push->param_base = bind_written(d, caps, 0, start, count) / 4;
    push->grad_base = rf_bind_elements(d, caps, RF_BIND_INPUT, 1, start, count) / 4;
    for (uint32_t i = 0; i < slots; i++)
        push->slot_base[i] = bind_written(d, caps, 2 + i, first_word(call, 2 + i) + first * block_words(call),
                                          blocks * block_words(call));
    if (rf_update_has_shadow(call))
        push->shadow_base = bind_written(d, caps, hyper + 1, start / 2, count / 2) / 2;
    else
        rf_bind_elements(d, caps, RF_BIND_INPUT, 0, start, count);
    rf_bind_whole(d, RF_BIND_INPUT, hyper);
}

static rf_result plan_blocks(const rf_op_call *call, const rf_device_caps *caps, const void *data, rf_kernel_plan *plan)
{
    const uint64_t blocks = count_blocks(call), most = blocks_at_once(caps);
    const bool shadow = rf_update_has_shadow(call);
    for (uint64_t first = 0; first < blocks; first += most) {
        const uint64_t here = rf_min(blocks - first, most);
        const uint64_t place = (attr_of(call)->first + first * RF_STATE_BLOCK) / 4;
        rf_push_update_packed push = { .blocks = (uint32_t)here,
                                       .place = { (uint32_t)place, (uint32_t)(place >> 32) } };
        rf_dispatch *d = rf_kernel_plan_add(plan, shader_of(call), RF_NO_LOOPS);
        if (!d) return RF_ERROR_OUT_OF_HOST_MEMORY;
        d->concurrent = first > 0;
        rf_dispatch_spec(d, LANES);
        rf_dispatch_spec(d, attr_of(call)->nesterov);
        rf_dispatch_spec(d, shadow ? rf_type_word(call->in[call->op->min_in].dtype, caps) : 0);
        bind_all(call, caps, first, here, d, &push);
        rf_dispatch_push(d, &push, sizeof(push));
        rf_dispatch_groups(d, caps, here);
    }
    return RF_OK;
}

static const rf_kernel packed_kernels[] = {
    { "blocks", score_blocks, plan_blocks },
};

/* ---- the ops ---- */

static const char *name_type(uint32_t type)
{
    static const char *const names[] = { "f32", "bf16", "8bit" };
    return type < 3 ? names[type] : NULL;
}
static const rf_attr_field packed_fields[] = {
    RF_ATTR_NAMED(rf_packed_update_attr, state_type, RF_OPTIMIZER_STATE_8BIT, name_type),
    RF_ATTR_FLAG(rf_packed_update_attr, nesterov),
    RF_ATTR_BITS(rf_packed_update_attr, first),
};

#define PACKED_OP(rule, op_name, slots)                                                                                \
    {                                                                                                                  \
        .name = op_name, .role = rule, .min_in = 3 + slots, .max_in = 4 + slots, .flags = RF_OP_NO_ONNX,               \
        .mutates = 1u | ((1u << slots) - 1) << 2 | 1u << (3 + slots), .settings = 1u << (2 + slots),                   \
        .unbatched_in = 0xff, .infer = packed_infer, .reference = packed_reference, .cost = packed_cost,               \
        RF_ATTRIBUTES(rf_packed_update_attr, packed_fields), RF_KERNELS(packed_kernels),                               \
    }
const rf_op rf_op_momentum_packed = PACKED_OP(RF_RULE_MOMENTUM, "momentum_packed", 1);
const rf_op rf_op_adam_packed = PACKED_OP(RF_RULE_ADAM, "adam_packed", 2);
const rf_op rf_op_lion_packed = PACKED_OP(RF_RULE_LION, "lion_packed", 1);
