/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "base/error.h"
#include "train/fit/compile.h"

static rf_result predict_step(rf_trace *t, const rf_tensor *in, rf_tensor *out, void *user)
{
    out[0] = rf_model_call(t, user, in[0], RF_INFERENCE);
    return rf_trace_status(t);
}

/* Predictions so far; rows are dimension 0. */
typedef struct rf_joined {
    rf_array array;
    size_t row_bytes, capacity; /* capacity in rows */
} rf_joined;

static rf_result reserve(rf_joined *joined, size_t rows)
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

static rf_result append(rf_joined *joined, const rf_array *part)
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
    RF_TRY(reserve(joined, rows + more));
    memcpy((unsigned char *)joined->array.data + rows * joined->row_bytes, part->data, more * joined->row_bytes);
    joined->array.shape.dim[0] += part->shape.dim[0];
    return RF_OK;
}

static rf_result collect(rf_model *model, const rf_per_replica *value, rf_joined *joined)
{
    rf_array part = { 0 };
    RF_TRY(rf_strategy_gather(model->strategy, value, &part));
    const rf_result r = append(joined, &part);
    rf_array_free(&part);
    return r;
}

static rf_result predict_batches(rf_model *model, rf_iterator *iterator, rf_joined *joined)
{
    /* A batch is read back only after the next one was submitted, so that devices and host work at the same time. */
    rf_per_replica *pending = NULL;
    for (;;) {
        const rf_element *batch;
        rf_result r = rf_iterator_next(iterator, &batch);
        if (r == RF_END) break;
        RF_TRY(r);
        const rf_element input = { .num_components = 1,
                                   .component = { batch->component[0] },
                                   .first_row = batch->first_row,
                                   .global_rows = batch->global_rows };
        rf_per_replica *value;
        RF_TRY(rf_strategy_run(model->strategy, model->predict, &input, &value));
        if (pending) RF_TRY(collect(model, pending, joined));
        pending = value;
    }
    RF_REQUIRE(pending, "rf_model_predict: data has no elements");
    return collect(model, pending, joined);
}

rf_result rf_model_predict(rf_model *model, const rf_dataset *data, rf_array *out)
{
    RF_REQUIRE(out, "rf_model_predict: out is NULL");
    *out = (rf_array){ 0 };
    RF_REQUIRE(model, "rf_model_predict: model is NULL");
    RF_TRY(rf_model_check_alive(model, "rf_model_predict"));
    RF_TRY(rf_check_dataset(data, false, "rf_model_predict: data"));
    RF_REQUIRE(rf_dataset_cardinality(data) != RF_CARDINALITY_INFINITE,
               "rf_model_predict: data is infinite; limit it with rf_dataset_take()");
    if (!model->predict) {
        const rf_function_params params = {
            .step = predict_step, .user = model, .num_outputs = 1, .name = "predict_step"
        };
        RF_TRY(rf_function_create(model->strategy, &params, &model->predict));
    }
    rf_dataset *own;
    RF_TRY(rf_strategy_distribute_dataset(model->strategy, data, NULL, &own));
    rf_iterator *iterator;
    rf_result r = rf_iterator_create(own, 0, &iterator);
    rf_dataset_destroy(&own);
    RF_TRY(r);
    rf_joined joined = { 0 };
    r = predict_batches(model, iterator, &joined);
    rf_iterator_destroy(&iterator);
    if (r < 0) {
        rf_free(joined.array.data);
        return r;
    }
    *out = joined.array;
    return RF_OK;
}
