/* SPDX-License-Identifier: Apache-2.0 */
/* A source of windows of one sequence, which are read where they are. */
#include <string.h>

#include "data/pipeline.h"

static rf_result get_window(rf_stage *stage, uint64_t index, const rf_element **out)
{
    const rf_dataset *d = stage->dataset;
    int32_t *first = (int32_t *)d->data + index * d->count;
    stage->element.component[0] = (rf_array){ RF_I32, d->spec.shape[0], first };
    stage->element.component[1] = (rf_array){ RF_I32, d->spec.shape[1], first + 1 };
    *out = &stage->element;
    return RF_OK;
}

const rf_dataset_kind rf_dataset_kind_token_windows = {
    .name = "windows",
    .open = rf_stage_open_in_place,
    .get = get_window,
    .free_dataset = rf_dataset_free_data,
};

rf_result rf_dataset_from_tokens(const rf_array *tokens, uint32_t length, uint32_t step, rf_dataset **out)
{
    RF_REQUIRE(out, "rf_dataset_from_tokens: out is NULL");
    *out = NULL;
    RF_REQUIRE(tokens && tokens->data && tokens->dtype == RF_I32 && tokens->shape.rank == 1,
               "rf_dataset_from_tokens: tokens are not i32 [n] with data");
    RF_REQUIRE(length > 0, "rf_dataset_from_tokens: length is 0");
    const int64_t count = tokens->shape.dim[0];
    RF_REQUIRE(count > length,
               "rf_dataset_from_tokens: %lld tokens are too few for windows of %u tokens, which need one token more",
               (long long)count, length);
    size_t bytes;
    RF_REQUIRE(rf_mul_size((size_t)count, sizeof(int32_t), &bytes), "rf_dataset_from_tokens: %lld tokens are too many",
               (long long)count);
    const rf_element_spec spec = { .num_components = 2,
                                   .dtype = { RF_I32, RF_I32 },
                                   .shape = { RF_SHAPE(length), RF_SHAPE(length) } };
    RF_TRY(rf_dataset_new(&rf_dataset_kind_token_windows, &spec, out));
    rf_dataset *d = *out;
    d->count = step ? step : length;
    d->cardinality = (count - length - 1) / (int64_t)d->count + 1;
    d->data = rf_calloc(bytes, 1);
    if (!d->data) {
        rf_dataset_destroy(out);
        return RF_ERROR_OUT_OF_HOST_MEMORY;
    }
    memcpy(d->data, tokens->data, bytes);
    return RF_OK;
}
