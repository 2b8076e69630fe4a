/* SPDX-License-Identifier: Apache-2.0 */
/* Datasets that begin a pipeline: arrays in memory and generator functions. */
#include <string.h>

#include "base/params.h"
#include "data/pipeline.h"

/* ---- arrays ---- */

typedef struct array_source {
    rf_array arrays[RF_MAX_COMPONENTS];
    void *owned; /* copy of all bytes, NULL when borrowed */
} array_source;

static void free_arrays(rf_dataset *dataset)
{
    array_source *source = dataset->data;
    if (!source) return;
    rf_free(source->owned);
    rf_free(source);
}

static rf_result get_from_arrays(rf_stage *stage, uint64_t index, const rf_element **out)
{
    const array_source *source = stage->dataset->data;
    const rf_element_spec *spec = &stage->dataset->spec;
    for (uint32_t i = 0; i < spec->num_components; i++) {
        char *bytes = source->arrays[i].data;
        stage->element.component[i] =
            (rf_array){ spec->dtype[i], spec->shape[i], bytes + index * rf_component_bytes(spec, i) };
    }
    *out = &stage->element;
    return RF_OK;
}

const rf_dataset_kind rf_dataset_kind_arrays = {
    .name = "arrays",
    .open = rf_stage_open_in_place,
    .get = get_from_arrays,
    .free_dataset = free_arrays,
};

const rf_array *rf_dataset_arrays(const rf_dataset *dataset)
{
    return ((const array_source *)dataset->data)->arrays;
}

static rf_result copy_arrays(array_source *source, uint32_t count)
{
    size_t total = 0;
    for (uint32_t i = 0; i < count; i++) {
        const size_t bytes = (size_t)rf_shape_count(source->arrays[i].shape) * rf_dtype_size(source->arrays[i].dtype);
        total += (size_t)rf_align_up(bytes, 64);
    }
    char *p = source->owned = rf_aligned_calloc(total);
    if (!p) return RF_ERROR_OUT_OF_HOST_MEMORY;
    for (uint32_t i = 0; i < count; i++) {
        const size_t bytes = (size_t)rf_shape_count(source->arrays[i].shape) * rf_dtype_size(source->arrays[i].dtype);
        if (bytes > 0) memcpy(p, source->arrays[i].data, bytes);
        source->arrays[i].data = p;
        p += rf_align_up(bytes, 64);
    }
    return RF_OK;
}

static rf_result check_arrays(const rf_dataset_arrays_params *params, rf_element_spec *spec)
{
    RF_REQUIRE(params && params->arrays, "rf_dataset_from_arrays: no arrays given");
    RF_REQUIRE(params->num_arrays >= 1 && params->num_arrays <= RF_MAX_COMPONENTS,
               "rf_dataset_from_arrays: num_arrays is %u, must be 1 to %d", params->num_arrays, RF_MAX_COMPONENTS);
    spec->num_components = params->num_arrays;
    for (uint32_t i = 0; i < params->num_arrays; i++) {
        const rf_array *a = &params->arrays[i];
        const int64_t count = rf_shape_count(a->shape);
        RF_REQUIRE(rf_dtype_size(a->dtype) > 0 && a->shape.rank >= 1 && count >= 0 && (a->data || count == 0),
                   "rf_dataset_from_arrays: array %u needs a valid type, at least one dimension and data", i);
        RF_REQUIRE(a->shape.dim[0] == params->arrays[0].shape.dim[0],
                   "rf_dataset_from_arrays: array %u has %lld entries, array 0 has %lld; they must agree", i,
                   (long long)a->shape.dim[0], (long long)params->arrays[0].shape.dim[0]);
        spec->dtype[i] = a->dtype;
        spec->shape[i].rank = a->shape.rank - 1;
        for (int32_t d = 1; d < a->shape.rank; d++) spec->shape[i].dim[d - 1] = a->shape.dim[d];
    }
    return RF_OK;
}

rf_result rf_dataset_from_arrays(const rf_dataset_arrays_params *params, rf_dataset **out)
{
    RF_REQUIRE(out, "rf_dataset_from_arrays: out is NULL");
    *out = NULL;
    RF_TRY(RF_PARAMS_CHECK(rf_dataset_arrays_params, params));
    rf_element_spec spec = { 0 };
    RF_TRY(check_arrays(params, &spec));
    RF_TRY(rf_dataset_new(&rf_dataset_kind_arrays, &spec, out));
    array_source *source = (*out)->data = RF_NEW(array_source);
    rf_result r = source ? RF_OK : RF_ERROR_OUT_OF_HOST_MEMORY;
    if (r == RF_OK) {
        memcpy(source->arrays, params->arrays, params->num_arrays * sizeof(rf_array));
        (*out)->cardinality = params->arrays[0].shape.dim[0];
        if (!params->borrow) r = copy_arrays(source, params->num_arrays);
    }
    if (r < 0) rf_dataset_destroy(out);
    return r;
}

/* ---- generator ---- */

static rf_result open_generator(rf_stage *stage)
{
    return rf_stage_allocate_element(stage, &stage->dataset->spec);
}

static rf_result next_from_generator(rf_stage *stage, const rf_element **out)
{
    const rf_dataset_generator_params *params = stage->dataset->data;
    if (params->cardinality > 0 && stage->position >= params->cardinality) return RF_END;
    const uint64_t before = rf_error_count();
    rf_element_place(&stage->element, &stage->dataset->spec,
                     stage->element_memory); /* whatever the last call made of it */
    const rf_result r = params->generate(params->user, stage->position, &stage->element);
    RF_TRY(RF_PARAMS_CHECK(rf_element, &stage->element));
    *out = &stage->element;
    if (r == RF_END) return r;
    return rf_error_context(rf_error_of_user(r, before, "the function"), "generator, element %llu",
                            (unsigned long long)stage->position);
}

const rf_dataset_kind rf_dataset_kind_generator = {
    .name = "generator",
    .open = open_generator,
    .next = next_from_generator,
    .free_dataset = rf_dataset_free_data,
};

rf_result rf_dataset_from_generator(const rf_dataset_generator_params *params, rf_dataset **out)
{
    RF_REQUIRE(out, "rf_dataset_from_generator: out is NULL");
    *out = NULL;
    RF_TRY(RF_PARAMS_CHECK(rf_dataset_generator_params, params));
    RF_REQUIRE(params && params->generate, "rf_dataset_from_generator: params->generate is NULL");
    RF_TRY(rf_dataset_new(&rf_dataset_kind_generator, &params->spec, out));
    rf_dataset_generator_params *copy = (*out)->data = RF_NEW(rf_dataset_generator_params);
    if (!copy) {
        rf_dataset_destroy(out);
        return RF_ERROR_OUT_OF_HOST_MEMORY;
    }
    *copy = *params;
    if (params->cardinality > 0) (*out)->cardinality = (int64_t)params->cardinality;
    return RF_OK;
}
