/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "base/error.h"
#include "train/fit/compile.h"

static rf_result predict_step(rf_trace *t, const rf_tensor *in, rf_tensor *out, void *user)
{
    return rf_model_apply_all(t, user, in, RF_INFERENCE, out);
}

/* Predictions so far; rows are dimension 0. */
typedef struct rf_joined {
    rf_array array;
    size_t row_bytes, capacity; /* capacity in rows */
} rf_joined;

static rf_result joined_reserve(rf_joined *joined, size_t rows)
{
    if (rows <= joined->capacity) return RF_OK;
    size_t capacity = joined->capacity * 2 > rows ? joined->capacity * 2 : rows;
    unsigned char *data = rf_calloc(capacity, joined->row_bytes);
    if (!data) return RF_ERROR_OUT_OF_HOST_MEMORY;
    if (joined->array.data) memcpy(data, joined->array.data, (size_t)joined->array.shape.dim[0] * joined->row_bytes);
    rf_free(joined->array.data);
    joined->array.data = data;
    joined->capacity = capacity;
    return RF_OK;
}

static rf_result joined_append(rf_joined *joined, const rf_array *part)
{
    RF_REQUIRE(part->shape.rank >= 1, "rf_model_predict: the model gives a scalar, not one prediction per example");
    if (joined->row_bytes == 0) {
        rf_shape row = part->shape;
        row.dim[0] = 1;
        joined->array.dtype = part->dtype;
        joined->array.shape = part->shape;
        joined->array.shape.dim[0] = 0;
        joined->row_bytes = (size_t)rf_shape_count(row) * rf_dtype_size(part->dtype);
    }
    rf_shape expected = joined->array.shape;
    expected.dim[0] = part->shape.dim[0];
    char a[96], b[96];
    RF_REQUIRE(rf_shape_equal(expected, part->shape), "rf_model_predict: predictions of shape %s do not continue %s",
               rf_shape_format(part->shape, a, sizeof(a)), rf_shape_format(joined->array.shape, b, sizeof(b)));
    const size_t rows = (size_t)joined->array.shape.dim[0], more = (size_t)part->shape.dim[0];
    RF_TRY(joined_reserve(joined, rows + more));
    memcpy((unsigned char *)joined->array.data + rows * joined->row_bytes, part->data, more * joined->row_bytes);
    joined->array.shape.dim[0] += part->shape.dim[0];
    return RF_OK;
}

/* Collects the results of a batch, one for each output. */
static rf_result joined_collect(rf_model *model, rf_per_replica *const *values, rf_joined *joined)
{
    for (uint32_t i = 0; i < model->num_outputs; i++) {
        rf_array part = { 0 };
        RF_TRY(rf_strategy_gather(model->strategy, values[i], &part));
        const rf_result r = joined_append(&joined[i], &part);
        rf_array_free(&part);
        RF_TRY(r);
    }
    return RF_OK;
}

static rf_result predict_batches(rf_model *model, rf_iterator *iterator, rf_joined *joined)
{
    /* A batch is read back only after the next one was submitted, so that devices and host work at the same time. */
    rf_per_replica *pending[RF_MAX_COMPONENTS] = { NULL };
    const bool before = rf_strategy_stop_agreed(model->strategy);
    for (;;) {
        const rf_element *batch;
        rf_result r = rf_iterator_next(iterator, &batch);
        if (r == RF_END) break;
        RF_TRY(r);
        rf_element inputs = { .num_components = model->num_inputs,
                              .first_row = batch->first_row,
                              .global_rows = batch->global_rows };
        memcpy(inputs.component, batch->component, model->num_inputs * sizeof(inputs.component[0]));
        rf_per_replica *values[RF_MAX_COMPONENTS];
        RF_TRY(rf_strategy_run(model->strategy, model->predict, &inputs, values));
        if (!before && rf_strategy_stop_agreed(model->strategy))
            return RF_FAIL(RF_ERROR_CANCELLED, "rf_model_predict: stopped on request before the end of data");
        if (pending[0]) RF_TRY(joined_collect(model, pending, joined));
        memcpy(pending, values, model->num_outputs * sizeof(values[0]));
    }
    RF_REQUIRE(pending[0], "rf_model_predict: data has no elements");
    return joined_collect(model, pending, joined);
}

/* All outputs; zeroed after a failure. */
static rf_result dataset_predict(rf_model *model, const rf_dataset *data, rf_array *outputs)
{
    RF_TRY(rf_model_check_alive(model, "rf_model_predict"));
    RF_TRY(rf_check_dataset(model, data, false, "rf_model_predict: data"));
    RF_REQUIRE(rf_dataset_cardinality(data) != RF_CARDINALITY_INFINITE,
               "rf_model_predict: data is infinite; limit it with rf_dataset_take()");
    if (!model->predict) {
        const rf_function_params params = {
            .step = predict_step, .user = model, .num_outputs = model->num_outputs, .name = "predict_step"
        };
        RF_TRY(rf_function_create(model->strategy, &params, &model->predict));
    }
    rf_dataset *own;
    RF_TRY(rf_strategy_distribute_dataset(model->strategy, data, NULL, &own));
    rf_iterator *iterator;
    rf_result r = rf_iterator_create(own, 0, &iterator);
    rf_dataset_destroy(&own);
    RF_TRY(r);
    rf_joined joined[RF_MAX_COMPONENTS] = { 0 };
    r = predict_batches(model, iterator, joined);
    rf_iterator_destroy(&iterator);
    for (uint32_t i = 0; i < model->num_outputs; i++) {
        if (r < 0)
            rf_free(joined[i].array.data);
        else
            outputs[i] = joined[i].array;
    }
    return r;
}

rf_result rf_model_predict(rf_model *model, const rf_dataset *data, rf_array *out)
{
    RF_REQUIRE(out, "rf_model_predict: out is NULL");
    *out = (rf_array){ 0 };
    RF_REQUIRE(model, "rf_model_predict: model is NULL");
    RF_REQUIRE(model->num_outputs == 1, "rf_model_predict: the model has %u outputs; use rf_model_predict_many()",
               model->num_outputs);
    return dataset_predict(model, data, out);
}

rf_result rf_model_predict_many(rf_model *model, const rf_dataset *data, rf_array *outputs, uint32_t num_outputs)
{
    RF_REQUIRE(outputs, "rf_model_predict_many: outputs is NULL");
    RF_REQUIRE(model, "rf_model_predict_many: model is NULL");
    RF_REQUIRE(num_outputs == model->num_outputs, "rf_model_predict_many: num_outputs is %u; the model has %u",
               num_outputs, model->num_outputs);
    memset(outputs, 0, num_outputs * sizeof(*outputs));
    return dataset_predict(model, data, outputs);
}
