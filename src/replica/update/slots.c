/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers of an optimizer's slots, in f32 or in few bits: read, written, and as a program has them. */
#include "replica/update/updater.h"

/* The words of the blocks that have these numbers; `first` becomes the place of the first number within them. */
static rf_range block_words(rf_state_form form, uint64_t *first, uint64_t count)
{
    const uint64_t block = *first / RF_STATE_BLOCK, size = rf_state_block_words(form.type);
    const uint64_t blocks = rf_div_up(*first + count, RF_STATE_BLOCK) - block;
    *first -= block * RF_STATE_BLOCK;
    return (rf_range){ block * size, (block + blocks) * size };
}

rf_result rf_slot_read(rf_gpu_buffer *buffer, rf_state_form form, uint64_t first, uint64_t count, float *values)
{
    if (form.type == RF_OPTIMIZER_STATE_F32)
        return rf_gpu_buffer_read(buffer, first * sizeof(float), values, count * sizeof(float));
    const rf_range range = block_words(form, &first, count);
    uint32_t *words = RF_NEW_ARRAY(uint32_t, range.end - range.begin);
    if (!words) return RF_ERROR_OUT_OF_HOST_MEMORY;
    const rf_result r =
        rf_gpu_buffer_read(buffer, range.begin * sizeof(uint32_t), words, (range.end - range.begin) * sizeof(uint32_t));
    if (r >= 0) rf_state_decode(form, words, first, count, values);
    rf_free(words);
    return r;
}

rf_result rf_slot_write(rf_gpu_buffer *buffer, rf_state_form form, uint64_t first, uint64_t count, const float *values)
{
    if (form.type == RF_OPTIMIZER_STATE_F32)
        return rf_gpu_buffer_write(buffer, first * sizeof(float), values, count * sizeof(float));
    const rf_range range = block_words(form, &first, count);
    uint32_t *words = RF_NEW_ARRAY(uint32_t, range.end - range.begin);
    if (!words) return RF_ERROR_OUT_OF_HOST_MEMORY;
    rf_state_encode(form, values, count, words);
    const rf_result r = rf_gpu_buffer_write(buffer, range.begin * sizeof(uint32_t), words,
                                            (range.end - range.begin) * sizeof(uint32_t));
    rf_free(words);
    return r;
}

/* Descriptors begin at aligned places, blocks of 65 words anywhere: words of the blocks before come first. */
rf_result rf_slot_state(const rf_updater *u, uint32_t slot, uint32_t index, rf_range_graph *g, const void *identity,
                        const rf_segment *segment, rf_value *out)
{
    const rf_state_form form = u->params.forms[slot];
    const uint64_t count = segment->range.end - segment->range.begin;
    const uint64_t words = rf_state_words(form.type, count), begin = rf_state_words(form.type, segment->slot_offset);
    const uint64_t before = begin % u->strategy->store.alignment;
    const rf_location at = { u->slots[slot][index], (begin - before) * sizeof(uint32_t) };
    if (form.type == RF_OPTIMIZER_STATE_F32)
        return rf_range_graph_state(g, identity, u->slots[slot][index], segment->slot_offset, count, out);
    return rf_range_graph_located(g, identity, at, (rf_tensor_desc){ RF_I32, RF_SHAPE((int64_t)(before + words)) },
                                  out);
}
