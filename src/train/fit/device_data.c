/* SPDX-License-Identifier: Apache-2.0 */
#include "train/fit/device_data.h"

#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/params.h"
#include "base/platform.h"
#include "data/pipeline.h"
#include "data/rows.h"
#include "step/step.h"

struct rf_device_data {
    rf_dataset *rows;
    rf_row_source source;
    rf_local_state *tables[RF_MAX_COMPONENTS];
};

/* ---- decisions ---- */

const char *rf_device_data_obstacle(uint64_t bytes, uint64_t budget, uint64_t memory_size, uint64_t max_allocation)
{
    if (bytes > (budget > 0 ? budget : memory_size / 4)) return "more than the budget";
    return bytes > max_allocation ? "more than the device allocates at once" : NULL;
}

/* Rows of u8 are taken by words. Others lie there as i32. */
static bool has_whole_words(const rf_array *array)
{
    const int64_t bytes = rf_shape_count(array->shape) / array->shape.dim[0] * (int64_t)rf_dtype_size(array->dtype);
    return bytes % 4 == 0;
}

static uint64_t table_bytes(const rf_array *array)
{
    const uint64_t count = (uint64_t)rf_shape_count(array->shape);
    return count * (has_whole_words(array) ? rf_dtype_size(array->dtype) : sizeof(int32_t));
}

static rf_result check_source(rf_strategy *s, const rf_row_source *source, uint64_t budget)
{
    uint64_t total = 0;
    for (uint32_t i = 0; i < source->num_components; i++) {
        const rf_array *array = &source->component[i].array;
        char shape[96];
        if (array->dtype != RF_F32 && array->dtype != RF_I32 && array->dtype != RF_U8)
            return RF_FAIL(RF_ERROR_UNSUPPORTED, "component %u is %s; devices take rows of f32, i32 and u8", i,
                           rf_dtype_name(array->dtype));
        if (rf_shape_count(array->shape) == 0)
            return RF_FAIL(RF_ERROR_UNSUPPORTED, "component %u has shape %s", i,
                           rf_shape_format(array->shape, shape, sizeof(shape)));
        total += table_bytes(array);
    }
    for (uint32_t r = 0; r < rf_strategy_num_local_replicas(s); r++) {
        uint64_t memory, allocation;
        const char *name = rf_strategy_local_memory(s, r, &memory, &allocation);
        const char *why = rf_device_data_obstacle(total, budget, memory, allocation);
        if (why)
            return RF_FAIL(RF_ERROR_UNSUPPORTED,
                           "its %llu MiB are %s: %s has %llu MiB, of which a quarter, or "
                           "max_bytes, may be taken",
                           (unsigned long long)(total >> 20), why, name, (unsigned long long)(memory >> 20));
    }
    return RF_OK;
}

/* ---- tables ---- */

static rf_result upload_table(rf_strategy *s, const rf_array *array, const char *name, rf_local_state **out)
{
    if (has_whole_words(array)) return rf_local_state_create_table(s, array, name, out);
    const int64_t count = rf_shape_count(array->shape);
    rf_array wide = { RF_I32, array->shape, RF_NEW_ARRAY(int32_t, count) };
    if (!wide.data) return RF_ERROR_OUT_OF_HOST_MEMORY;
    for (int64_t i = 0; i < count; i++) ((int32_t *)wide.data)[i] = ((const uint8_t *)array->data)[i];
    const rf_result r = rf_local_state_create_table(s, &wide, name, out);
    rf_free(wide.data);
    return r;
}

static rf_result make_tables(rf_strategy *s, rf_device_data *d)
{
    for (uint32_t i = 0; i < d->source.num_components; i++) {
        char name[32];
        snprintf(name, sizeof(name), "data %u", i);
        RF_TRY(upload_table(s, &d->source.component[i].array, name, &d->tables[i]));
    }
    return RF_OK;
}

static rf_result prepare_data(rf_strategy *s, const rf_dataset *data, uint64_t budget, rf_device_data *d)
{
    RF_TRY(rf_dataset_rows(data, &d->source, &d->rows));
    RF_TRY(check_source(s, &d->source, budget));
    return make_tables(s, d);
}

/* Whether a failure says that the data does not fit, not that something is broken. */
static bool does_not_qualify(rf_result r)
{
    return r == RF_ERROR_UNSUPPORTED || r == RF_ERROR_OUT_OF_DEVICE_MEMORY;
}

rf_result rf_device_data_create(rf_strategy *strategy, const rf_dataset *data, const rf_device_data_params *params,
                                rf_device_data **out)
{
    RF_REQUIRE(out, "rf_device_data_create: out is NULL");
    *out = NULL;
    RF_TRY(RF_PARAMS_CHECK(rf_device_data_params, params));
    RF_REQUIRE(strategy, "rf_device_data_create: strategy is NULL");
    RF_REQUIRE(data, "rf_device_data_create: data is NULL");
    const rf_device_cache policy = params ? params->policy : RF_DEVICE_CACHE_AUTO;
    RF_REQUIRE(policy >= RF_DEVICE_CACHE_OFF && policy <= RF_DEVICE_CACHE_ON,
               "rf_device_data_create: policy %d does not exist", (int)policy);
    if (policy == RF_DEVICE_CACHE_OFF) return RF_OK;
    rf_device_data *d = RF_NEW(rf_device_data);
    rf_result r = d ? prepare_data(strategy, data, params ? params->max_bytes : 0, d) : RF_ERROR_OUT_OF_HOST_MEMORY;
    r = rf_error_context(r, "rf_device_data_create: the data set cannot be kept on the devices");
    /* All workers or none: they run the same step. */
    rf_error_record record = { 0 };
    if (r < 0) rf_error_save(&record);
    bool any_failed = false;
    const rf_result agreed = rf_strategy_any(strategy, r < 0, &any_failed);
    if (r < 0) (void)rf_error_restore(&record);
    if (agreed < 0 && r >= 0) r = agreed;
    if (r >= 0 && any_failed)
        r = RF_FAIL(RF_ERROR_UNSUPPORTED,
                    "rf_device_data_create: another worker cannot keep the data set on its devices");
    if (r >= 0) {
        *out = d;
        return RF_OK;
    }
    if (d) rf_device_data_destroy(&d);
    if (policy != RF_DEVICE_CACHE_AUTO || !does_not_qualify(r)) return r;
    rf_log_message(RF_LOG_DEBUG, "batches come from the host: %s", rf_error_message());
    return RF_OK;
}

void rf_device_data_destroy(rf_device_data **data)
{
    if (!data || !*data) return;
    rf_device_data *d = *data;
    *data = NULL;
    for (uint32_t i = 0; i < RF_MAX_COMPONENTS; i++) rf_local_state_destroy(&d->tables[i]);
    rf_dataset_destroy(&d->rows);
    rf_free(d);
}

const rf_dataset *rf_device_data_rows(const rf_device_data *data)
{
    return data ? data->rows : NULL;
}

/* ---- in a step ---- */

/* Looked up: drivers round a division, and what stands for one, as they like. */
static rf_tensor scale_pixels(rf_trace *t, rf_tensor x)
{
    float scaled[256];
    for (int i = 0; i < 256; i++) scaled[i] = (float)i / 255.0f;
    const rf_tensor table = rf_constant_array(t, &(rf_array){ RF_F32, RF_SHAPE(256), scaled });
    return rf_gather(t, table, rf_cast(t, x, RF_I32), 0);
}

static rf_tensor map_component(rf_trace *t, const rf_row_component *c, rf_tensor x)
{
    switch (c->map) {
    case RF_ROW_SCALE_U8: return scale_pixels(t, x);
    case RF_ROW_ONE_HOT: return rf_one_hot(t, x, (int32_t)c->depth);
    default: return x;
    }
}

rf_result rf_device_data_take(rf_trace *t, const rf_device_data *data, rf_tensor rows, rf_tensor *components)
{
    RF_REQUIRE(t, "rf_device_data_take: the trace is NULL");
    RF_TRY(rf_trace_status(t));
    if (!data || !components)
        return rf_trace_fail(t, RF_ERROR_INVALID_ARGUMENT, "rf_device_data_take: %s is NULL",
                             data ? "components" : "data");
    for (uint32_t i = 0; i < data->source.num_components; i++) {
        const rf_row_component *c = &data->source.component[i];
        const rf_tensor table = rf_trace_emit(t, RF_OK, rf_trace_local_state(t, data->tables[i]));
        rf_tensor x = rf_gather(t, table, rows, 0);
        if (c->array.dtype == RF_U8 && !has_whole_words(&c->array)) x = rf_cast(t, x, RF_U8);
        components[i] = map_component(t, c, x);
    }
    return rf_trace_status(t);
}

uint32_t rf_device_data_num_components(const rf_device_data *data)
{
    return data ? data->source.num_components : 0;
}
