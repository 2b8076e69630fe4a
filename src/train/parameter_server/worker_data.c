/* SPDX-License-Identifier: Apache-2.0 */
#include "train/parameter_server/worker_data.h"

#include "base/crc32c.h"
#include "data/pipeline.h"

void rf_batch_reader_close(rf_batch_reader *at)
{
    rf_iterator_destroy(&at->iterator);
}

/* Batches `index`, index + stride, ... of a pass. */
static rf_result open_pass(rf_batch_reader *at, const rf_dataset *data, uint64_t pass, uint64_t index, uint64_t stride)
{
    rf_dataset *window;
    rf_batch_reader_close(at);
    RF_TRY(rf_dataset_window(data, index, stride, UINT64_MAX, &window));
    const rf_result r = rf_iterator_create(window, pass, &at->iterator);
    rf_dataset_destroy(&window);
    at->pass = pass;
    at->stride = stride;
    return r;
}

/* RF_END: the end of a pass. */
static rf_result take_next(rf_batch_reader *at, rf_element *out)
{
    const rf_element *batch;
    const rf_result r = rf_iterator_next(at->iterator, &batch);
    if (r == RF_OK) *out = *batch;
    return r;
}

/* Passes of a length that is not known: batches before the one that is wanted are read. */
static rf_result walk_to(rf_batch_reader *at, const rf_dataset *data, uint64_t number, rf_element *out)
{
    bool empty = false;
    if (!at->iterator || at->stride != 1 || at->next > number) {
        at->next = 0;
        RF_TRY(open_pass(at, data, 0, 0, 1));
    }
    while (at->next <= number) {
        const rf_result r = take_next(at, out);
        RF_TRY(r);
        if (r == RF_OK) {
            at->next++;
            empty = false;
            continue;
        }
        RF_REQUIRE(!empty, "it is empty");
        RF_TRY(open_pass(at, data, at->pass + 1, 0, 1));
        empty = true;
    }
    return RF_OK;
}

rf_result rf_batch_reader_read(rf_batch_reader *at, const rf_dataset *data, uint64_t number, uint64_t stride,
                               rf_element *out)
{
    const int64_t length = rf_dataset_cardinality(data);
    RF_REQUIRE(length != 0, "it is empty");
    at->begun = true;
    if (length == RF_CARDINALITY_UNKNOWN) return walk_to(at, data, number, out);
    const uint64_t pass = length > 0 ? number / (uint64_t)length : 0;
    const uint64_t index = length > 0 ? number % (uint64_t)length : number;
    if (!at->iterator || at->next != number || at->pass != pass || at->stride != stride)
        RF_TRY(open_pass(at, data, pass, index, stride));
    const rf_result r = take_next(at, out);
    RF_TRY(r);
    RF_REQUIRE(r == RF_OK, "it has fewer than its %lld batches", (long long)length);
    at->next = number + stride;
    return RF_OK;
}

uint64_t rf_batch_hash(const rf_element *batch)
{
    uint64_t hash = batch->num_components;
    for (uint32_t i = 0; i < batch->num_components; i++) {
        const rf_array *array = &batch->component[i];
        const size_t size = (size_t)rf_shape_count(array->shape) * rf_dtype_size(array->dtype);
        hash = hash * 0x9E3779B97F4A7C15ull + (size ^ (uint64_t)rf_crc32c(0, array->data, size) << 32);
    }
    return hash ? hash : 1;
}
