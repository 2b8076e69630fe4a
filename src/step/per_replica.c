/* SPDX-License-Identifier: Apache-2.0 */
/* Results of a run: one value per replica. */
#include <string.h>

#include "base/half.h"
#include "replica/agree.h"
#include "step/function.h"

/* ---- values ---- */

static const void *value_bytes(const rf_replica_value *v, uint32_t output)
{
    return v->frame ? rf_frame_result(v->frame, output) : v->copy;
}

static rf_result detach_value(rf_per_replica *value)
{
    const rf_strategy *s = value->function->strategy;
    for (uint32_t r = 0; value->values && r < s->members.num_local; r++) {
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

rf_result rf_function_detach_results(rf_function *f)
{
    RF_TRY(rf_strategy_wait(f->strategy));
    for (uint32_t half = 0; half < 2; half++)
        for (uint32_t i = 0; i < f->params.num_outputs; i++) RF_TRY(detach_value(&f->results[half][i]));
    return RF_OK;
}

void rf_per_replica_free(rf_per_replica *value, uint32_t num_local)
{
    for (uint32_t r = 0; value->values && r < num_local; r++) rf_free(value->values[r].copy);
    rf_free(value->values);
    rf_free(value->examples);
    value->values = NULL;
    value->examples = NULL;
}

/* Waits for the replica's value. */
static rf_result per_replica_get(const rf_per_replica *value, uint32_t index, rf_array *out)
{
    rf_strategy *s = value->function->strategy;
    const rf_replica_value *v = &value->values[index];
    RF_TRY(rf_strategy_check_process(s));
    *out = (rf_array){ .dtype = v->desc.dtype, .shape = v->desc.shape };
    if (value->examples[s->members.first + index] == 0) {
        if (out->shape.rank > 0) out->shape.dim[0] = 0;
        return RF_OK;
    }
    RF_TRY(rf_strategy_fail(s, rf_replica_wait(s, index, v->ticket)));
    out->data = (void *)value_bytes(v, value->output);
    return RF_OK;
}

static rf_result check_value(const char *caller, const rf_per_replica *value)
{
    RF_REQUIRE(value, "%s: the value is NULL", caller);
    RF_REQUIRE(value->values, "%s: the value belongs to a function that has not run yet", caller);
    return RF_OK;
}

RF_API rf_result rf_per_replica_local(const rf_per_replica *value, uint32_t replica, rf_array *out)
{
    RF_REQUIRE(out, "rf_per_replica_local: out is NULL");
    *out = (rf_array){ 0 };
    RF_TRY(check_value("rf_per_replica_local", value));
    uint32_t index;
    RF_TRY(rf_strategy_local_index(value->function->strategy, "rf_per_replica_local", replica, &index));
    return per_replica_get(value, index, out);
}

RF_API uint32_t rf_per_replica_num_examples(const rf_per_replica *value, uint32_t replica)
{
    if (!value || !value->values || replica >= value->function->strategy->members.num_replicas) return 0;
    return value->examples[replica];
}

/* ---- reduce ---- */

static double array_scalar(const rf_array *array)
{
    float f;
    int32_t i;
    switch (array->dtype) {
    case RF_F32:
    case RF_F16:
    case RF_BF16: rf_floats_widen(&f, array->data, array->dtype, 1); return f;
    case RF_I32: memcpy(&i, array->data, sizeof(i)); return i;
    case RF_U8: return *(const unsigned char *)array->data;
    default: return 0;
    }
}

static rf_result check_owner(const char *caller, const rf_strategy *strategy, const rf_per_replica *value)
{
    RF_REQUIRE(strategy, "%s: strategy is NULL", caller);
    RF_TRY(check_value(caller, value));
    RF_REQUIRE(value->function->strategy == strategy, "%s: the value belongs to function '%s' of another strategy",
               caller, value->function->name);
    return RF_OK;
}

/* One replica's scalar. */
typedef struct term {
    double value;
    uint64_t active; /* has examples */
} term;

static rf_result local_terms(const rf_strategy *s, const rf_per_replica *value, term *terms)
{
    for (uint32_t r = 0; r < s->members.num_local; r++) {
        rf_array array;
        RF_TRY(per_replica_get(value, r, &array));
        terms[r] = (term){ 0, array.data != NULL };
        if (array.data) terms[r].value = array_scalar(&array);
    }
    return RF_OK;
}

static rf_result per_replica_reduce(rf_strategy *s, rf_reduce_op op, const rf_per_replica *value, term *mine, term *all,
                                    float *out)
{
    RF_TRY(rf_strategy_fail_in_job(s, local_terms(s, value, mine)));
    RF_TRY(rf_world_gather_replicas(&s->members.world, value->function->name, mine, all, sizeof(term)));
    double total = 0;
    uint32_t active = 0;
    for (uint32_t r = 0; r < s->members.num_replicas; r++) {
        if (!all[r].active) continue;
        total += all[r].value;
        active++;
    }
    *out = (float)(op == RF_REDUCE_MEAN && active > 0 ? total / active : total);
    return RF_OK;
}

RF_API rf_result rf_strategy_reduce(rf_strategy *strategy, rf_reduce_op op, const rf_per_replica *value, float *out)
{
    RF_REQUIRE(out, "rf_strategy_reduce: out is NULL");
    *out = 0;
    RF_TRY(check_owner("rf_strategy_reduce", strategy, value));
    RF_REQUIRE(op == RF_REDUCE_SUM || op == RF_REDUCE_MEAN, "rf_strategy_reduce: op %d does not exist", (int)op);
    char shape[96];
    const rf_shape *s = &value->values[0].desc.shape;
    RF_REQUIRE(s->rank == 0,
               "rf_strategy_reduce: output %u of '%s' has shape %s, not a scalar; reduce it in the step or "
               "use rf_strategy_gather()",
               value->output, value->function->name, rf_shape_format(*s, shape, sizeof(shape)));
    RF_TRY(rf_strategy_status(strategy));
    term *terms = RF_NEW_ARRAY(term, (size_t)strategy->members.num_local + strategy->members.num_replicas);
    if (!terms) return rf_strategy_fail_in_job(strategy, RF_ERROR_OUT_OF_HOST_MEMORY);
    const rf_result r = per_replica_reduce(strategy, op, value, terms, terms + strategy->members.num_local, out);
    rf_free(terms);
    return r;
}

/* ---- gather ---- */

/* This worker's values one after the other. `out->data` is the caller's. */
static rf_result join_local(const rf_per_replica *value, rf_array *out)
{
    const rf_strategy *s = value->function->strategy;
    *out = (rf_array){ .dtype = value->values[0].desc.dtype, .shape = value->values[0].desc.shape };
    out->shape.dim[0] = 0;
    for (uint32_t r = 0; r < s->members.num_local; r++)
        if (value->examples[s->members.first + r] > 0) out->shape.dim[0] += value->values[r].desc.shape.dim[0];
    out->data = rf_calloc(1, (size_t)rf_tensor_bytes(&(rf_tensor_desc){ out->dtype, out->shape }));
    if (!out->data) return RF_ERROR_OUT_OF_HOST_MEMORY;
    size_t used = 0;
    for (uint32_t r = 0; r < s->members.num_local; r++) {
        rf_array rows;
        RF_TRY(per_replica_get(value, r, &rows));
        const size_t size = (size_t)rf_tensor_bytes(&(rf_tensor_desc){ rows.dtype, rows.shape });
        if (size == 0 || !rows.data) continue;
        memcpy((char *)out->data + used, rows.data, size);
        used += size;
    }
    return RF_OK;
}

/* The workers' rows joined; the dimensions behind the first are the same everywhere. `sizes` has an entry for each
 * worker. */
static rf_result join_workers(rf_strategy *s, const char *name, const rf_array *mine, uint64_t *sizes, rf_array *out)
{
    const uint64_t rows = (uint64_t)mine->shape.dim[0];
    RF_TRY(rf_world_gather(&s->members.world, name, &rows, sizes, sizeof(rows)));
    *out = *mine;
    out->data = NULL;
    out->shape.dim[0] = 1;
    const uint64_t row = rf_tensor_bytes(&(rf_tensor_desc){ out->dtype, out->shape });
    uint64_t total;
    RF_TRY(rf_agree_rows(&s->members.world, name, row, sizes, &total));
    out->shape.dim[0] = (int64_t)total;
    void *data = rf_calloc((size_t)total, (size_t)row);
    if (!data) return rf_strategy_fail(s, RF_ERROR_OUT_OF_HOST_MEMORY);
    const rf_result r = rf_world_gather_bytes(&s->members.world, name, mine->data, data, sizes);
    if (r < 0)
        rf_free(data);
    else
        out->data = data;
    return r;
}

static rf_result per_replica_gather(rf_strategy *s, const rf_per_replica *value, rf_array *out)
{
    rf_array mine = { 0 };
    uint64_t *sizes = RF_NEW_ARRAY(uint64_t, s->members.world.size);
    rf_result r = sizes ? join_local(value, &mine) : RF_ERROR_OUT_OF_HOST_MEMORY;
    rf_strategy_fail_in_job(s, r);
    if (r >= 0) r = join_workers(s, value->function->name, &mine, sizes, out);
    rf_free(mine.data);
    rf_free(sizes);
    if (r < 0) *out = (rf_array){ 0 };
    return r;
}

RF_API rf_result rf_strategy_gather(rf_strategy *strategy, const rf_per_replica *value, rf_array *out)
{
    RF_REQUIRE(out, "rf_strategy_gather: out is NULL");
    *out = (rf_array){ 0 };
    RF_TRY(check_owner("rf_strategy_gather", strategy, value));
    RF_REQUIRE(
        value->values[0].desc.shape.rank > 0,
        "rf_strategy_gather: output %u of '%s' is a scalar and has no dimension to join; use rf_strategy_reduce()",
        value->output, value->function->name);
    RF_TRY(rf_strategy_status(strategy));
    return per_replica_gather(strategy, value, out);
}
