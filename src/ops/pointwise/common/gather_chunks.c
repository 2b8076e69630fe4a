/* SPDX-License-Identifier: Apache-2.0 */
/* The tensors of gather in chunks that descriptors can span. */
#include "ops/pointwise/common/gather.h"

static uint64_t count_between(const rf_shape *shape, int32_t from, int32_t to)
{
    uint64_t count = 1;
    for (int32_t d = from; d < to; d++) count *= (uint64_t)shape->dim[d];
    return count;
}

rf_gather_shape rf_gather_shape_of(const rf_gather_attr *attr, const rf_shape *x, const rf_shape *indices)
{
    return (rf_gather_shape){ .batch = count_between(x, 0, attr->batch_dims),
                              .outer = count_between(x, attr->batch_dims, attr->axis),
                              .choices = (uint64_t)x->dim[attr->axis],
                              .places = count_between(indices, attr->batch_dims, indices->rank),
                              .inner = count_between(x, attr->axis + 1, x->rank) };
}

rf_gather_shape rf_gather_chunk_size(const rf_gather_shape *all, const rf_device_caps *caps, uint64_t words)
{
    /* With room for alignment; indices of elements stay below 2^29. */
    const uint64_t limit = rf_min(caps->max_storage_range - caps->buffer_alignment, INT32_MAX) / sizeof(float);
    const uint64_t larger = all->choices > all->places ? all->choices : all->places;
    rf_gather_shape size = *all;
    const uint64_t most = all->inner * all->outer > words ? all->inner * all->outer : words;
    size.batch = rf_min(all->batch, limit / most / larger);
    if (size.batch > 0) return size;
    size.batch = 1;
    size.outer = words * larger > limit ? 0 : rf_min(all->outer, limit / all->inner / larger);
    if (size.outer > 0) return size;
    size.outer = 1;
    const uint64_t row = all->inner > words ? all->inner : words;
    size.choices = rf_min(all->choices, limit / row);
    size.places = rf_min(all->places, limit / row);
    return size;
}

/* Goes on by `step` along one dimension; back to 0 at its end. */
static bool advance_place(uint64_t *at, uint64_t step, uint64_t all)
{
    *at += step;
    if (*at < all) return true;
    *at = 0;
    return false;
}

static void chunk_clip(rf_gather_chunk *chunk, const rf_gather_shape *all, const rf_gather_shape *size)
{
    chunk->size = (rf_gather_shape){ .batch = rf_min(size->batch, all->batch - chunk->batch),
                                     .outer = rf_min(size->outer, all->outer - chunk->outer),
                                     .choices = rf_min(size->choices, all->choices - chunk->choice),
                                     .places = rf_min(size->places, all->places - chunk->place),
                                     .inner = all->inner };
}

bool rf_gather_chunk_next(const rf_gather_shape *all, const rf_gather_shape *size, rf_gather_chunk *chunk)
{
    bool more = chunk->size.inner == 0; /* the first one */
    if (!more) more = advance_place(&chunk->place, size->places, all->places);
    if (!more) more = advance_place(&chunk->choice, size->choices, all->choices);
    if (!more) more = advance_place(&chunk->outer, size->outer, all->outer);
    if (!more) more = advance_place(&chunk->batch, size->batch, all->batch);
    chunk_clip(chunk, all, size);
    return more;
}

uint32_t rf_gather_width(const rf_gather_shape *all)
{
    return all->inner % 4 == 0 ? 4 : 1;
}

bool rf_gather_takes_texels(const rf_gather_shape *all, uint64_t rows_read, const rf_device_caps *caps)
{
    const uint64_t texels = (all->batch * all->outer * rows_read * all->inner + caps->buffer_alignment) / 4;
    return all->inner % 8 == 0 && caps->driver == RF_DRIVER_LAVAPIPE && rf_flat_texels(caps) &&
           texels <= caps->max_texel_elements;
}

/* `rows` rows from number `first` on. Where there are vectors, every row starts where one may. */
static uint32_t bind_rows(rf_dispatch *d, const rf_device_caps *caps, rf_bind_kind kind, uint64_t first, uint64_t rows,
                          uint64_t inner, uint32_t width)
{
    const uint32_t base = rf_bind_elements(d, caps, kind, 0, first * inner, rows * inner);
    if (width == 8 && kind == RF_BIND_INPUT) d->bind[d->n_bind - 1].view = RF_VIEW_TEXEL_RGBA32F;
    return base / width;
}

uint32_t rf_gather_bind_x(rf_dispatch *d, const rf_device_caps *caps, rf_bind_kind kind, const rf_gather_shape *all,
                          const rf_gather_chunk *chunk, uint32_t width)
{
    const rf_gather_shape *n = &chunk->size;
    const uint64_t first = (chunk->batch * all->outer + chunk->outer) * all->choices + chunk->choice;
    return bind_rows(d, caps, kind, first, n->batch * n->outer * n->choices, all->inner, width);
}

uint32_t rf_gather_bind_y(rf_dispatch *d, const rf_device_caps *caps, rf_bind_kind kind, const rf_gather_shape *all,
                          const rf_gather_chunk *chunk, uint32_t width)
{
    const rf_gather_shape *n = &chunk->size;
    const uint64_t first = (chunk->batch * all->outer + chunk->outer) * all->places + chunk->place;
    return bind_rows(d, caps, kind, first, n->batch * n->outer * n->places, all->inner, width);
}

uint32_t rf_gather_bind_indices(rf_dispatch *d, const rf_device_caps *caps, const rf_gather_shape *all,
                                const rf_gather_chunk *chunk)
{
    return rf_bind_elements(d, caps, RF_BIND_INPUT, 1, chunk->batch * all->places + chunk->place,
                            chunk->size.batch * chunk->size.places);
}
