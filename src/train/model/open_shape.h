/* SPDX-License-Identifier: Apache-2.0 */
/* Shapes of examples of which dimensions may be left open, as -1: a model is traced for each size that comes. */
#ifndef RF_TRAIN_MODEL_OPEN_SHAPE_H
#define RF_TRAIN_MODEL_OPEN_SHAPE_H

#include <ringfire/common.h>

/* A model is built for the first size, and traced for the second one to see what follows from it. Those of images, of
 * which networks halve the rows and columns, are larger. */
enum { RF_OPEN_SIZE = 8, RF_OTHER_OPEN_SIZE = 11, RF_OPEN_IMAGE = 64, RF_OTHER_OPEN_IMAGE = 96 };

static inline bool rf_shape_is_open(rf_shape shape)
{
    for (int32_t i = 0; i < shape.rank; i++)
        if (shape.dim[i] == -1) return true;
    return false;
}

/* The size for examples of that rank, which of images is that of images. */
static inline int64_t rf_open_size_of(int32_t rank, int64_t size)
{
    if (rank == 3 && size == RF_OPEN_SIZE) return RF_OPEN_IMAGE;
    return rank == 3 && size == RF_OTHER_OPEN_SIZE ? RF_OTHER_OPEN_IMAGE : size;
}

/* The shape of an example with a size in the place of what is open. */
static inline rf_shape rf_shape_filled(rf_shape shape, int64_t size)
{
    size = rf_open_size_of(shape.rank, size);
    for (int32_t i = 0; i < shape.rank; i++)
        if (shape.dim[i] == -1) shape.dim[i] = size;
    return shape;
}

/* A size of a model that was traced for both is that of the inputs. */
static inline bool rf_is_open_size(int64_t first, int64_t other)
{
    return (first == RF_OPEN_SIZE && other == RF_OTHER_OPEN_SIZE) ||
           (first == RF_OPEN_IMAGE && other == RF_OTHER_OPEN_IMAGE);
}

/* Two shapes that differ where something was open: it is open in the result. */
static inline rf_shape rf_shape_opened(rf_shape a, rf_shape b)
{
    for (int32_t i = 0; i < a.rank; i++)
        if (a.dim[i] != b.dim[i]) a.dim[i] = -1;
    return a;
}

/* A shape without open dimensions is one of those that another one leaves open. */
static inline bool rf_shape_fits(rf_shape shape, rf_shape open)
{
    if (shape.rank != open.rank) return false;
    for (int32_t i = 0; i < shape.rank; i++)
        if (shape.dim[i] != open.dim[i] && (open.dim[i] != -1 || shape.dim[i] < 1)) return false;
    return true;
}

#endif
