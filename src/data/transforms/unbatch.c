/* SPDX-License-Identifier: Apache-2.0 */
/* unbatch: the rows of each element, one after the other. They are used in place. */
#include <string.h>

#include "data/pipeline.h"

static rf_result open_rows(rf_stage *stage)
{
    stage->element.num_components = stage->dataset->spec.num_components; /* read in order, whatever the input is */
    return RF_OK;
}

static rf_result count_rows(const rf_element *batch, int64_t *rows)
{
    *rows = batch->component[0].shape.dim[0];
    for (uint32_t i = 0; i < batch->num_components; i++) {
        const rf_shape *shape = &batch->component[i].shape;
        if (shape->rank < 1 || shape->dim[0] != *rows)
            return RF_FAIL(RF_ERROR_INVALID_ARGUMENT, "unbatch: component %u has other rows than component 0", i);
    }
    return RF_OK;
}

static void point_at_row(rf_stage *stage, const rf_element *batch, uint64_t row)
{
    for (uint32_t i = 0; i < batch->num_components; i++) {
        rf_array *to = &stage->element.component[i];
        *to = batch->component[i];
        to->shape.rank--;
        memmove(&to->shape.dim[0], &to->shape.dim[1], (size_t)to->shape.rank * sizeof(to->shape.dim[0]));
        to->shape.dim[to->shape.rank] = 0;
        to->data = (char *)to->data + row * (size_t)rf_shape_count(to->shape) * rf_dtype_size(to->dtype);
    }
}

static rf_result next_row(rf_stage *stage, const rf_element **out)
{
    uint64_t *row = &stage->count; /* not indexed: the field is free */
    for (;;) {
        const rf_element *batch;
        const rf_result r = rf_stage_peek_input(stage, &batch);
        if (r != RF_OK) return r;
        int64_t rows;
        RF_TRY(count_rows(batch, &rows));
        if (*row < (uint64_t)rows) {
            point_at_row(stage, batch, (*row)++);
            *out = &stage->element;
            return RF_OK;
        }
        rf_stage_take_input(stage);
        *row = 0;
    }
}

const rf_dataset_kind rf_dataset_kind_unbatch = {
    .name = "unbatch",
    .open = open_rows,
    .next = next_row,
};

/* The batch size that elements of `d` would have without the outermost of its batches. */
static uint32_t inner_batch_size(const rf_dataset *d)
{
    uint32_t batches = 1; /* still to be taken off */
    for (; d && batches > 0; d = d->input) {
        if (d->kind == &rf_dataset_kind_flat_map || d->kind == &rf_dataset_kind_interleave) return 0;
        if (d->kind == &rf_dataset_kind_unbatch)
            batches++;
        else if (d->kind == &rf_dataset_kind_batch || d->kind == &rf_dataset_kind_padded_batch ||
                 (d->kind == &rf_dataset_kind_slice && rf_slice_stands_for(d)))
            batches--;
    }
    return d ? d->batch_size : 0;
}

rf_result rf_dataset_unbatch(const rf_dataset *in, rf_dataset **out)
{
    RF_REQUIRE(out, "rf_dataset_unbatch: out is NULL");
    *out = NULL;
    RF_REQUIRE(in, "rf_dataset_unbatch: in is NULL");
    for (uint32_t i = 0; i < in->spec.num_components; i++)
        RF_REQUIRE(in->spec.shape[i].rank > 0 && in->spec.shape[i].dim[0] == in->spec.shape[0].dim[0],
                   "rf_dataset_unbatch: component %u has no rows, or not as many as component 0; is the dataset "
                   "batched?",
                   i);
    RF_TRY(rf_dataset_derive(in, &rf_dataset_kind_unbatch, out));
    rf_dataset *d = *out;
    for (uint32_t i = 0; i < d->spec.num_components; i++) {
        rf_shape *s = &d->spec.shape[i];
        s->rank--;
        memmove(&s->dim[0], &s->dim[1], (size_t)s->rank * sizeof(s->dim[0]));
        s->dim[s->rank] = 0;
    }
    d->batch_size = inner_batch_size(in);
    if (in->cardinality > 0) d->cardinality = RF_CARDINALITY_UNKNOWN;
    return RF_OK;
}
