/* SPDX-License-Identifier: Apache-2.0 */
/* Copies of boxes by texels, each in one dispatch; out of the box also where elements are apart. */
#include "ops/pointwise/common/strided_copy.h"
#include "ops/pointwise/cpu/kernels.h"
#include "rf_shaders.h"

/* How a copy goes by texels: of four elements, one or two an item, or of one where elements are apart. */
typedef enum texel_way { TEXELS_NONE, TEXELS_OF_FOUR, TEXELS_IN_PAIRS, TEXELS_OF_ONE } texel_way;

static texel_way way_of(const rf_box_copy *copy, const rf_box_layout *l, const rf_device_caps *caps)
{
    const rf_box_chunk all = { l, l->rank, l->first, 0 };
    const uint64_t count = rf_box_count(l, l->rank);
    uint64_t before;
    if (!rf_flat_texels(caps) || rf_box_steps(l, l->rank, caps) < l->size[l->rank - 1]) return TEXELS_NONE;
    const uint64_t read =
        copy->scatter ? count : rf_box_reach(l, l->rank, &before) + caps->buffer_alignment / sizeof(float);
    const texel_way fours = rf_box_is_of_vectors(&all, caps, 8) ? TEXELS_IN_PAIRS : TEXELS_OF_FOUR;
    if (rf_box_is_of_vectors(&all, caps, 4)) return read / 4 < caps->max_texel_elements ? fours : TEXELS_NONE;
    const bool long_lines = l->rank == 1 || l->size[0] >= 4;
    return !copy->scatter && long_lines && read < caps->max_texel_elements ? TEXELS_OF_ONE : TEXELS_NONE;
}

static bool fits_texels(const rf_box_copy *copy, const rf_device_caps *caps)
{
    const rf_box_layout l = rf_box_layout_of(copy);
    return rf_box_count(&l, l.rank) == 0 || way_of(copy, &l, caps) != TEXELS_NONE;
}

static rf_result plan_copy(const rf_box_copy *copy, const rf_device_caps *caps, rf_kernel_plan *plan)
{
    static const rf_shader *const shaders[2][4] = {
        { [TEXELS_OF_FOUR] = &rf_shader_slice_texel,
          [TEXELS_IN_PAIRS] = &rf_shader_slice_eights,
          [TEXELS_OF_ONE] = &rf_shader_slice_ones },
        { [TEXELS_OF_FOUR] = &rf_shader_slice_grad_texel, [TEXELS_IN_PAIRS] = &rf_shader_slice_grad_eights },
    };
    static const uint32_t widths[] = { 0, 4, 8, 1 }, items[] = { 1, 2, 4, 4 }; /* of an item; of an invocation */
    const rf_box_layout l = rf_box_layout_of(copy);
    const rf_box_chunk all = { &l, l.rank, l.first, 0 };
    if (rf_box_count(&l, l.rank) == 0) return RF_OK;
    const texel_way way = way_of(copy, &l, caps);
    rf_dispatch *d = rf_box_chunk_plan(copy, &all, shaders[copy->scatter][way], widths[way], caps, plan);
    if (!d) return RF_ERROR_OUT_OF_HOST_MEMORY;
    d->bind[0].view = way == TEXELS_OF_ONE ? RF_VIEW_TEXEL_R32F : RF_VIEW_TEXEL_RGBA32F;
    rf_dispatch_items(d, caps, rf_div_up(d->push[0], items[way]));
    return RF_OK;
}

double rf_copies_texels_score(const rf_op_call *call, const rf_device_caps *caps, const void *data)
{
    rf_copies all;
    rf_copies_make(call, &all);
    if (all.units.in[0].dtype != RF_F32) return RF_SCORE_NONE; /* what texels of floats do to other bits is not said */
    for (uint32_t i = 0; i < all.count; i++)
        if (!fits_texels(&all.copies[i], caps)) return RF_SCORE_NONE;
    return caps->driver == RF_DRIVER_LAVAPIPE ? RF_SCORE_DRIVER : RF_SCORE_RESERVE;
}

rf_result rf_copies_texels_plan(const rf_op_call *call, const rf_device_caps *caps, const void *data,
                                rf_kernel_plan *plan)
{
    rf_copies all;
    rf_copies_make(call, &all);
    RF_TRY(rf_copies_fill(&all, caps, plan));
    for (uint32_t i = 0; i < all.count; i++) RF_TRY(plan_copy(&all.copies[i], caps, plan));
    return RF_OK;
}

bool rf_copies_texels_narrow(const rf_op_call *call, const rf_device_caps *caps, const void *data)
{
    return rf_texels_narrow(call, caps, data) && rf_copies_narrow(call, caps, data);
}
