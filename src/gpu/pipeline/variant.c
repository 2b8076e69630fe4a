/* SPDX-License-Identifier: Apache-2.0 */
/* Pipelines that a recording dispatches and its driver has not compiled yet; precompile.c compiles them before the
 * recording is submitted. */
#include <string.h>

#include "gpu/internal.h"

static bool is_short(uint64_t span)
{
    return (span & 0xff00) == 0;
}

/* The validation layer takes all that a view spans for what is read, and what a kernel writes behind it for a hazard:
 * views have the sizes that are asked for where it watches. */
uint64_t rf_gpu_texel_span(const rf_gpu_device *device, const rf_gpu_binding *b)
{
    const rf_device_caps *caps = &device->plan.caps;
    const uint64_t room = b->buffer->capacity + b->buffer->spare - b->offset, more = b->size + RF_GPU_TEXEL_SPARE;
    const uint64_t texel = (b->texel_half ? 2ull : 4ull) * b->texel_components;
    const bool fits = more <= room && more / texel <= caps->max_texel_elements;
    const bool watched = device->gpu->layer_version > 0;
    return caps->compiles_at_dispatch && !watched && is_short(b->size) && fits ? more : b->size;
}

void rf_gpu_texel_forms_add(rf_gpu_texel_forms *forms, uint32_t at, const rf_gpu_binding *binding, uint64_t buffer_size)
{
    const uint32_t bit = 1u << at;
    if (binding->texel_components == 4) forms->rgba |= bit;
    if (binding->texel_half) forms->half |= bit;
    if ((buffer_size & (buffer_size - 1)) == 0) forms->power_of_two |= bit;
    if (is_short(binding->size)) forms->short_span |= bit;
}

static rf_result find_variant(rf_gpu_pipeline *pipeline, const rf_gpu_texel_forms *forms, rf_gpu_variant **out)
{
    for (rf_gpu_variant *v = pipeline->variants; v; v = v->next)
        if (memcmp(&v->forms, forms, sizeof(*forms)) == 0) {
            *out = v;
            return RF_OK;
        }
    rf_gpu_variant *v = RF_NEW(rf_gpu_variant);
    if (!v) return RF_ERROR_OUT_OF_HOST_MEMORY;
    v->pipeline = pipeline;
    v->forms = *forms;
    v->next = pipeline->variants;
    pipeline->variants = v;
    *out = v;
    return RF_OK;
}

void rf_gpu_variants_free(rf_gpu_pipeline *pipeline)
{
    while (pipeline->variants) {
        rf_gpu_variant *next = pipeline->variants->next;
        rf_free(pipeline->variants);
        pipeline->variants = next;
    }
}

rf_result rf_gpu_variant_note(rf_gpu_recording *rec, rf_gpu_pipeline *pipeline, const rf_gpu_binding *bindings)
{
    if (!rec->device->plan.caps.compiles_at_dispatch) return RF_OK;
    rf_gpu_texel_forms forms = { 0 };
    for (uint32_t i = 0; i < pipeline->layout->num_bindings; i++) {
        if (!(pipeline->layout->texel_mask >> i & 1)) continue;
        rf_gpu_binding view = bindings[i];
        view.size = rf_gpu_texel_span(rec->device, &view);
        rf_gpu_texel_forms_add(&forms, i, &view, view.buffer->capacity + view.buffer->spare);
    }
    rf_gpu_variant *v;
    RF_TRY(find_variant(pipeline, &forms, &v));
    if (v->compiled) return RF_OK;
    RF_TRY(RF_VEC_GROW(&rec->uncompiled));
    rec->uncompiled.items[rec->uncompiled.count++] = v;
    return RF_OK;
}
