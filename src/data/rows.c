/* SPDX-License-Identifier: Apache-2.0 */
#include "data/rows.h"

#include "data/pipeline.h"

/* `rows` has the place of `like` in a pipeline. */
static void stand_for(rf_dataset *rows, const rf_dataset *like)
{
    rf_dataset_destroy(&rows->stands_for);
    rows->stands_for = rf_dataset_retain(like);
}

static rf_result number_rows(const rf_dataset *in, rf_row_source *source, rf_dataset **rows)
{
    const rf_array *arrays = rf_dataset_arrays(in);
    const int64_t count = in->cardinality;
    RF_REQUIRE(count > 0, "it has no elements");
    if (count > INT32_MAX) return RF_FAIL(RF_ERROR_UNSUPPORTED, "%lld rows are too many", (long long)count);
    source->num_components = in->spec.num_components;
    for (uint32_t i = 0; i < source->num_components; i++)
        source->component[i] = (rf_row_component){ .array = arrays[i] };
    int32_t *numbers = RF_NEW_ARRAY(int32_t, count);
    if (!numbers) return RF_ERROR_OUT_OF_HOST_MEMORY;
    for (int64_t i = 0; i < count; i++) numbers[i] = (int32_t)i;
    const rf_array array = { RF_I32, RF_SHAPE(count), numbers };
    const rf_result r = rf_dataset_from_arrays(&(rf_dataset_arrays_params){ .arrays = &array, .num_arrays = 1 }, rows);
    rf_free(numbers);
    return r;
}

static rf_result check_classes(const rf_row_component *c)
{
    const int32_t *classes = c->array.data;
    for (int64_t i = 0; i < c->array.shape.dim[0]; i++)
        if (classes[i] < 0 || (uint32_t)classes[i] >= c->depth)
            return RF_FAIL(RF_ERROR_UNSUPPORTED, "one-hot: class %d of row %lld is outside of 0 to %u", classes[i],
                           (long long)i, c->depth - 1);
    return RF_OK;
}

/* The device maps the rows: they go through the pipeline as they are. */
static rf_result leave_map(const rf_dataset *in, rf_row_source *source)
{
    uint32_t component, depth;
    if (!rf_dataset_builtin_map(in, &component, &depth))
        return RF_FAIL(RF_ERROR_UNSUPPORTED,
                       "a map with a function of the program's own needs the host; of maps, devices do "
                       "rf_dataset_map_scale_u8() and rf_dataset_map_one_hot()");
    rf_row_component *c = &source->component[component];
    c->map = depth > 0 ? RF_ROW_ONE_HOT : RF_ROW_SCALE_U8;
    c->depth = depth;
    return depth > 0 ? check_classes(c) : RF_OK;
}

static bool looks_at_no_values(const rf_dataset *d)
{
    const rf_dataset_kind *k = d->kind;
    return k == &rf_dataset_kind_shuffle || k == &rf_dataset_kind_batch || k == &rf_dataset_kind_window ||
           k == &rf_dataset_kind_repeat || k == &rf_dataset_kind_prefetch || k == &rf_dataset_kind_first_pass;
}

static rf_result step_over(const rf_dataset *in, const rf_dataset *below, rf_dataset **rows)
{
    RF_TRY(rf_dataset_clone_over(in, below, rows));
    rf_element_spec spec = below->spec;
    if (in->kind == &rf_dataset_kind_batch) {
        spec.shape[0] = RF_SHAPE((int64_t)in->count, 0);
        spec.shape[0].rank = below->spec.shape[0].rank + 1;
    }
    (*rows)->spec = spec;
    return RF_OK;
}

static rf_result rebuild_rows(const rf_dataset *in, rf_row_source *source, rf_dataset **rows)
{
    *rows = NULL;
    rf_result r;
    if (in->kind == &rf_dataset_kind_arrays) {
        r = number_rows(in, source, rows);
    } else if (in->kind == &rf_dataset_kind_map) {
        r = rebuild_rows(in->input, source, rows);
        if (r >= 0) r = leave_map(in, source);
    } else if (looks_at_no_values(in)) {
        rf_dataset *below;
        RF_TRY(rebuild_rows(in->input, source, &below));
        r = step_over(in, below, rows);
        rf_dataset_destroy(&below);
    } else if (in->input) {
        r = RF_FAIL(RF_ERROR_UNSUPPORTED, "a '%s' step needs the host", in->kind->name);
    } else {
        r = RF_FAIL(RF_ERROR_UNSUPPORTED, "its source ('%s') is no arrays in memory", in->kind->name);
    }
    if (r < 0)
        rf_dataset_destroy(rows);
    else
        stand_for(*rows, in);
    return r;
}

rf_result rf_dataset_rows(const rf_dataset *in, rf_row_source *source, rf_dataset **rows)
{
    *rows = NULL;
    *source = (rf_row_source){ 0 };
    if (in->batch_size == 0 || in->spec.shape[0].rank < 1)
        return RF_FAIL(RF_ERROR_UNSUPPORTED, "it is not batched; use rf_dataset_batch()");
    RF_TRY(rebuild_rows(in, source, rows));
    if ((*rows)->spec.shape[0].rank == 1) return RF_OK;
    rf_dataset_destroy(rows);
    return RF_FAIL(RF_ERROR_UNSUPPORTED, "it is batched twice");
}
