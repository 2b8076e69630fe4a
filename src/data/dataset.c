/* SPDX-License-Identifier: Apache-2.0 */
/* Creation and destruction of datasets, and their public getters. */
#include <string.h>

#include "data/pipeline.h"

rf_dataset *rf_dataset_retain(const rf_dataset *dataset)
{
    /* The description is immutable; only the counter changes. */
    rf_dataset *d = (rf_dataset *)(uintptr_t)dataset;
    atomic_fetch_add(&d->references, 1);
    return d;
}

static void release_others(rf_dataset *d)
{
    for (uint32_t i = 0; i < d->num_others; i++) rf_dataset_destroy(&d->others[i]);
    rf_free(d->others);
}

void rf_dataset_free_data(rf_dataset *dataset)
{
    rf_free(dataset->data);
}

void rf_dataset_destroy(rf_dataset **dataset)
{
    if (!dataset) return;
    rf_dataset *d = *dataset;
    *dataset = NULL;
    while (d && atomic_fetch_sub(&d->references, 1) == 1) {
        rf_dataset *input = d->input;
        if (d->original) {
            rf_dataset_destroy(&d->original); /* the others are its */
        } else {
            if (d->kind->free_dataset) d->kind->free_dataset(d);
            release_others(d);
        }
        rf_dataset_destroy(&d->stands_for);
        pthread_mutex_destroy(&d->lock);
        rf_free(d);
        d = input;
    }
}

static rf_result check_spec(const rf_element_spec *spec)
{
    RF_REQUIRE(spec->num_components >= 1 && spec->num_components <= RF_MAX_COMPONENTS,
               "dataset: an element has 1 to %d components, not %u", RF_MAX_COMPONENTS, spec->num_components);
    size_t total = 0;
    for (uint32_t i = 0; i < spec->num_components; i++) {
        const int64_t count = rf_shape_count(spec->shape[i]);
        size_t bytes;
        RF_REQUIRE(rf_dtype_size(spec->dtype[i]) > 0, "dataset: component %u has no valid type", i);
        RF_REQUIRE(count >= 0 && rf_mul_size((size_t)count, rf_dtype_size(spec->dtype[i]), &bytes) &&
                       !__builtin_add_overflow(total, bytes + 64, &total),
                   "dataset: component %u has no valid shape", i);
    }
    return RF_OK;
}

rf_result rf_spec_check_same(const rf_element_spec *a, const char *a_name, const rf_element_spec *b, const char *b_name)
{
    RF_REQUIRE(a->num_components == b->num_components,
               "elements of %u components in %s and of %u in %s; they must agree", a->num_components, a_name,
               b->num_components, b_name);
    for (uint32_t c = 0; c < a->num_components; c++) {
        char here[128], there[128];
        RF_REQUIRE(a->dtype[c] == b->dtype[c] && rf_shape_equal(a->shape[c], b->shape[c]),
                   "component %u is %s %s in %s and %s %s in %s; they must agree", c, rf_dtype_name(a->dtype[c]),
                   rf_shape_format(a->shape[c], here, sizeof(here)), a_name, rf_dtype_name(b->dtype[c]),
                   rf_shape_format(b->shape[c], there, sizeof(there)), b_name);
    }
    return RF_OK;
}

static rf_result init_lock(rf_dataset *d)
{
    const int code = pthread_mutex_init(&d->lock, NULL);
    return code == 0 ? RF_OK : RF_FAIL(RF_ERROR_OUT_OF_HOST_MEMORY, "dataset: no lock: %s", strerror(code));
}

rf_result rf_dataset_new(const rf_dataset_kind *kind, const rf_element_spec *spec, rf_dataset **out)
{
    RF_TRY(check_spec(spec));
    rf_dataset *d = RF_NEW(rf_dataset);
    if (!d) return RF_ERROR_OUT_OF_HOST_MEMORY;
    const rf_result r = init_lock(d);
    if (r < 0) {
        rf_free(d);
        return r;
    }
    atomic_init(&d->references, 1);
    d->kind = kind;
    d->spec = *spec;
    d->cardinality = RF_CARDINALITY_UNKNOWN;
    *out = d;
    return RF_OK;
}

rf_result rf_dataset_derive(const rf_dataset *input, const rf_dataset_kind *kind, rf_dataset **out)
{
    RF_REQUIRE(out, "%s: out is NULL", kind->name);
    *out = NULL;
    RF_REQUIRE(input, "%s: the input dataset is NULL", kind->name);
    RF_TRY(rf_dataset_new(kind, &input->spec, out));
    (*out)->input = rf_dataset_retain(input);
    (*out)->cardinality = input->cardinality;
    (*out)->batch_size = input->batch_size;
    return RF_OK;
}

rf_result rf_dataset_derive_with(const rf_dataset *input, const rf_dataset_kind *kind, size_t size, rf_dataset **out)
{
    RF_TRY(rf_dataset_derive(input, kind, out));
    (*out)->data = rf_calloc(1, size);
    if ((*out)->data) return RF_OK;
    rf_dataset_destroy(out);
    return RF_ERROR_OUT_OF_HOST_MEMORY;
}

rf_result rf_dataset_clone_over(const rf_dataset *dataset, const rf_dataset *input, rf_dataset **out)
{
    *out = NULL;
    rf_dataset *d = RF_NEW(rf_dataset);
    if (!d) return RF_ERROR_OUT_OF_HOST_MEMORY;
    *d = *dataset;
    d->iterators = NULL;
    const rf_result r = init_lock(d);
    if (r < 0) {
        rf_free(d);
        return r;
    }
    atomic_init(&d->references, 1);
    d->input = input ? rf_dataset_retain(input) : NULL;
    d->original = rf_dataset_retain(dataset);
    if (d->stands_for) rf_dataset_retain(d->stands_for);
    *out = d;
    return RF_OK;
}

void rf_dataset_spec(const rf_dataset *dataset, rf_element_spec *out)
{
    if (out) *out = dataset ? dataset->spec : (rf_element_spec){ 0 };
}
int64_t rf_dataset_cardinality(const rf_dataset *dataset)
{
    return dataset ? dataset->cardinality : 0;
}
uint32_t rf_dataset_batch_size(const rf_dataset *dataset)
{
    return dataset ? dataset->batch_size : 0;
}

size_t rf_component_bytes(const rf_element_spec *spec, uint32_t component)
{
    return (size_t)rf_shape_count(spec->shape[component]) * rf_dtype_size(spec->dtype[component]);
}

size_t rf_element_bytes(const rf_element_spec *spec)
{
    size_t total = 0;
    for (uint32_t i = 0; i < spec->num_components; i++) total += (size_t)rf_align_up(rf_component_bytes(spec, i), 64);
    return total;
}

void rf_element_place(rf_element *element, const rf_element_spec *spec, void *memory)
{
    char *p = memory;
    element->num_components = spec->num_components;
    for (uint32_t i = 0; i < spec->num_components; i++) {
        element->component[i] = (rf_array){ spec->dtype[i], spec->shape[i], p };
        p += rf_align_up(rf_component_bytes(spec, i), 64);
    }
}

void rf_element_copy(rf_element *to, const rf_element *from)
{
    for (uint32_t i = 0; i < from->num_components; i++) {
        const rf_array *a = &from->component[i];
        memcpy(to->component[i].data, a->data, (size_t)rf_shape_count(a->shape) * rf_dtype_size(a->dtype));
        to->component[i].shape = a->shape;
    }
    to->first_row = from->first_row;
    to->global_rows = from->global_rows;
}

rf_result rf_stage_allocate_element(rf_stage *stage, const rf_element_spec *spec)
{
    stage->element_memory = rf_aligned_calloc(rf_element_bytes(spec));
    if (!stage->element_memory) return RF_ERROR_OUT_OF_HOST_MEMORY;
    rf_element_place(&stage->element, spec, stage->element_memory);
    return RF_OK;
}

rf_result rf_stage_open_in_place(rf_stage *stage)
{
    stage->indexed = true;
    stage->count = (uint64_t)stage->dataset->cardinality;
    stage->element.num_components = stage->dataset->spec.num_components;
    return RF_OK;
}
