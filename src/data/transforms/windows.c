/* SPDX-License-Identifier: Apache-2.0 */
/* windows: elements made of rows of the input that lie at fixed distances from each other. */
#include <string.h>

#include "base/params.h"
#include "base/philox.h"
#include "data/pipeline.h"

typedef struct windows_step {
    uint32_t stride;
    rf_window_part parts[RF_MAX_COMPONENTS]; /* without zeros that mean a default */
} windows_step;

/* Rows from the beginning of a window to its last one, and that one. */
static uint64_t rows_of_part(const rf_window_part *part)
{
    const uint64_t steps = part->length > 0 ? part->length - 1 : 0;
    return part->offset + steps * part->sampling_rate + 1;
}

static uint64_t rows_of_window(const windows_step *step, uint32_t num_parts)
{
    uint64_t most = 0;
    for (uint32_t i = 0; i < num_parts; i++) {
        const uint64_t rows = rows_of_part(&step->parts[i]);
        if (rows > most) most = rows;
    }
    return most;
}

static uint64_t count_windows(const rf_dataset *d, uint64_t rows)
{
    const windows_step *step = d->data;
    const uint64_t span = rows_of_window(step, d->spec.num_components);
    return rows < span ? 0 : (rows - span) / step->stride + 1;
}

static rf_result open_windows(rf_stage *stage)
{
    stage->indexed = true;
    stage->count = count_windows(stage->dataset, stage->input->count);
    return rf_stage_allocate_element(stage, &stage->dataset->spec);
}

static rf_result get_window(rf_stage *stage, uint64_t index, const rf_element **out)
{
    const rf_dataset *d = stage->dataset, *table = d->input;
    const windows_step *step = d->data;
    for (uint32_t i = 0; i < d->spec.num_components; i++) {
        const rf_window_part *part = &step->parts[i];
        const size_t bytes = rf_component_bytes(&table->spec, part->component);
        for (uint32_t k = 0; k < (part->length ? part->length : 1); k++) {
            const rf_element *row;
            const uint64_t number = index * step->stride + part->offset + (uint64_t)k * part->sampling_rate;
            RF_TRY(table->kind->get(stage->input, number, &row));
            if (!rf_shape_equal(row->component[part->component].shape, table->spec.shape[part->component]))
                return RF_FAIL(RF_ERROR_INVALID_ARGUMENT,
                               "windows: component %u changes its shape in row %llu; all rows have to have one",
                               part->component, (unsigned long long)number);
            memcpy((char *)stage->element.component[i].data + k * bytes, row->component[part->component].data, bytes);
        }
    }
    *out = &stage->element;
    return RF_OK;
}

const rf_dataset_kind rf_dataset_kind_windows = {
    .name = "windows",
    .open = open_windows,
    .get = get_window,
    .free_dataset = rf_dataset_free_data,
};

static rf_result add_part(const rf_dataset *in, uint32_t number, const rf_window_part *part, rf_element_spec *spec,
                          windows_step *step)
{
    RF_REQUIRE(part->component < in->spec.num_components,
               "rf_dataset_windows: part %u is of component %u, the rows have %u components", number, part->component,
               in->spec.num_components);
    rf_shape *shape = &spec->shape[number];
    *shape = in->spec.shape[part->component];
    spec->dtype[number] = in->spec.dtype[part->component];
    step->parts[number] = *part;
    if (part->sampling_rate == 0) step->parts[number].sampling_rate = 1;
    if (part->length == 0) return RF_OK;
    RF_REQUIRE(shape->rank < RF_MAX_RANK, "rf_dataset_windows: component %u has %d dimensions already", part->component,
               RF_MAX_RANK);
    memmove(&shape->dim[1], &shape->dim[0], (size_t)shape->rank * sizeof(shape->dim[0]));
    shape->dim[0] = part->length;
    shape->rank++;
    return RF_OK;
}

static rf_result derive_windows(const rf_dataset *in, const windows_step *step, const rf_element_spec *spec,
                                rf_dataset **out)
{
    RF_TRY(rf_dataset_derive_with(in, &rf_dataset_kind_windows, sizeof(*step), out));
    rf_dataset *d = *out;
    memcpy(d->data, step, sizeof(*step));
    d->spec = *spec;
    d->count = rf_hash_bytes(step, sizeof(*step), 0); /* for positions */
    d->batch_size = 0;
    d->cardinality = (int64_t)count_windows(d, (uint64_t)in->cardinality);
    return RF_OK;
}

rf_result rf_dataset_windows(const rf_dataset *in, const rf_windows_params *params, rf_dataset **out)
{
    RF_REQUIRE(out, "rf_dataset_windows: out is NULL");
    *out = NULL;
    RF_REQUIRE(in && params, "rf_dataset_windows: an argument is NULL");
    RF_TRY(RF_PARAMS_CHECK(rf_windows_params, params));
    RF_REQUIRE(params->parts && params->num_parts >= 1 && params->num_parts <= RF_MAX_COMPONENTS,
               "rf_dataset_windows: %u parts; give 1 to %d", params->parts ? params->num_parts : 0, RF_MAX_COMPONENTS);
    RF_TRY(RF_PARAMS_CHECK_ALL(rf_window_part, params->parts, params->num_parts));
    bool indexed;
    RF_TRY(rf_dataset_is_indexed(in, &indexed));
    RF_REQUIRE(
        indexed && in->cardinality >= 0,
        "rf_dataset_windows: the rows are read in order, one by one; take them from arrays, CSV or plain TFRecord "
        "files, with maps alone in between");
    windows_step step = { .stride = params->stride ? params->stride : 1 };
    rf_element_spec spec = { .num_components = params->num_parts };
    for (uint32_t i = 0; i < params->num_parts; i++) RF_TRY(add_part(in, i, &params->parts[i], &spec, &step));
    const uint64_t rows = rows_of_window(&step, params->num_parts);
    RF_REQUIRE(rows <= (uint64_t)in->cardinality,
               "rf_dataset_windows: a window has %llu rows from end to end, the "
               "table has %lld",
               (unsigned long long)rows, (long long)in->cardinality);
    return derive_windows(in, &step, &spec, out);
}
