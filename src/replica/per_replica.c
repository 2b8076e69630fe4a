/* SPDX-License-Identifier: Apache-2.0 */
/* Results of a run: one value per replica. */
#include <string.h>

#include "base/half.h"
#include "replica/internal.h"

/* ---- values ---- */

static const void *value_bytes(const rf_replica_value *v, uint32_t output)
{
    return v->frame ? rf_frame_result(v->frame, output) : v->copy;
}

rf_result rf_per_replica_detach(rf_per_replica *value)
{
    const rf_strategy *s = value->function->strategy;
    for (uint32_t r = 0; value->values && r < s->num_replicas; r++) {
        rf_replica_value *v = &value->values[r];
        if (!v->frame) continue;
        const size_t size = (size_t)rf_tensor_bytes(&v->desc);
        v->copy = rf_calloc(1, size);
        if (!v->copy) return RF_ERROR_OUT_OF_HOST_MEMORY;
        memcpy(v->copy, rf_frame_result(v->frame, value->output), size);
        v->frame = NULL;
    }
    return RF_OK;
}

void rf_per_replica_free(rf_per_replica *value, uint32_t num_replicas)
{
    for (uint32_t r = 0; value->values && r < num_replicas; r++) rf_free(value->values[r].copy);
    rf_free(value->values);
    value->values = NULL;
}

/* Waits for the replica's value. */
static rf_result get(const rf_per_replica *value, uint32_t replica, rf_array *out)
{
    const rf_replica_value *v = &value->values[replica];
    *out = (rf_array){ .dtype = v->desc.dtype, .shape = v->desc.shape };
    if (v->examples == 0) {
        if (out->shape.rank > 0) out->shape.dim[0] = 0;
        return RF_OK;
    }
    rf_strategy *s = value->function->strategy;
    const rf_result r = rf_gpu_wait(s->replicas[replica].device, v->ticket, RF_GPU_TIMEOUT_NS);
    if (r < 0)
        return rf_strategy_stick(s,
                                 rf_error_context(r, "replica %u (%s)", replica, rf_strategy_device_name(s, replica)));
    out->data = (void *)value_bytes(v, value->output);
    return RF_OK;
}

static rf_result check_value(const char *caller, const rf_per_replica *value)
{
    RF_REQUIRE(value, "%s: the value is NULL", caller);
    RF_REQUIRE(value->values, "%s: the value is of a function that has not run yet", caller);
    return RF_OK;
}

RF_API rf_result rf_per_replica_local(const rf_per_replica *value, uint32_t replica, rf_array *out)
{
    RF_REQUIRE(out, "rf_per_replica_local: out is NULL");
    *out = (rf_array){ 0 };
    RF_TRY(check_value("rf_per_replica_local", value));
    const uint32_t count = value->function->strategy->num_replicas;
    RF_REQUIRE(replica < count, "rf_per_replica_local: replica %u; there are %u", replica, count);
    return get(value, replica, out);
}

RF_API uint32_t rf_per_replica_examples(const rf_per_replica *value, uint32_t replica)
{
    if (!value || !value->values || replica >= value->function->strategy->num_replicas) return 0;
    return value->values[replica].examples;
}

/* ---- reduce ---- */

static double scalar(const rf_array *array)
{
    uint16_t half;
    float f;
    int32_t i;
    switch (array->dtype) {
    case RF_F32:
        memcpy(&f, array->data, sizeof(f));
        return f;
    case RF_F16:
        memcpy(&half, array->data, sizeof(half));
        return rf_f16_to_f32(half);
    case RF_BF16:
        memcpy(&half, array->data, sizeof(half));
        return rf_bf16_to_f32(half);
    case RF_I32:
        memcpy(&i, array->data, sizeof(i));
        return i;
    case RF_U8:
        return *(const unsigned char *)array->data;
    default:
        return 0;
    }
}

static rf_result check_owner(const char *caller, const rf_strategy *strategy, const rf_per_replica *value)
{
    RF_REQUIRE(strategy, "%s: strategy is NULL", caller);
    RF_TRY(check_value(caller, value));
    RF_REQUIRE(value->function->strategy == strategy, "%s: the value is of function '%s' of another strategy", caller,
               value->function->name);
    return RF_OK;
}

RF_API rf_result rf_strategy_reduce(rf_strategy *strategy, rf_reduce_op op, const rf_per_replica *value, float *out)
{
    RF_REQUIRE(out, "rf_strategy_reduce: out is NULL");
    *out = 0;
    RF_TRY(check_owner("rf_strategy_reduce", strategy, value));
    RF_REQUIRE(op == RF_REDUCE_SUM || op == RF_REDUCE_MEAN, "rf_strategy_reduce: op %d does not exist", (int)op);
    double total = 0;
    uint32_t active = 0;
    for (uint32_t r = 0; r < strategy->num_replicas; r++) {
        rf_array array;
        char shape[96];
        const rf_shape *s = &value->values[r].desc.shape;
        RF_REQUIRE(s->rank == 0,
                   "rf_strategy_reduce: output %u of '%s' has shape %s, not a scalar; reduce it in the step or "
                   "use rf_strategy_gather()",
                   value->output, value->function->name, rf_shape_format(*s, shape, sizeof(shape)));
        RF_TRY(get(value, r, &array));
        if (!array.data) continue;
        total += scalar(&array);
        active++;
    }
    *out = (float)(op == RF_REDUCE_MEAN && active > 0 ? total / active : total);
    return RF_OK;
}

/* ---- gather ---- */

static rf_result join(const rf_per_replica *value, uint32_t num_replicas, rf_array *out)
{
    size_t used = 0;
    for (uint32_t r = 0; r < num_replicas; r++) {
        rf_array part;
        RF_TRY(get(value, r, &part));
        const size_t size = (size_t)rf_tensor_bytes(&(rf_tensor_desc){ part.dtype, part.shape });
        if (size == 0 || !part.data) continue;
        memcpy((char *)out->data + used, part.data, size);
        used += size;
    }
    return RF_OK;
}

RF_API rf_result rf_strategy_gather(rf_strategy *strategy, const rf_per_replica *value, rf_array *out)
{
    RF_REQUIRE(out, "rf_strategy_gather: out is NULL");
    *out = (rf_array){ 0 };
    RF_TRY(check_owner("rf_strategy_gather", strategy, value));
    rf_array joined = { .dtype = value->values[0].desc.dtype, .shape = value->values[0].desc.shape };
    RF_REQUIRE(
        joined.shape.rank > 0,
        "rf_strategy_gather: output %u of '%s' is a scalar and has no dimension to join; use rf_strategy_reduce()",
        value->output, value->function->name);
    joined.shape.dim[0] = 0;
    for (uint32_t r = 0; r < strategy->num_replicas; r++)
        if (value->values[r].examples > 0) joined.shape.dim[0] += value->values[r].desc.shape.dim[0];
    joined.data = rf_calloc(1, (size_t)rf_tensor_bytes(&(rf_tensor_desc){ joined.dtype, joined.shape }));
    if (!joined.data) return RF_ERROR_OUT_OF_HOST_MEMORY;
    const rf_result r = join(value, strategy->num_replicas, &joined);
    if (r < 0) {
        rf_free(joined.data);
        return r;
    }
    *out = joined;
    return RF_OK;
}
