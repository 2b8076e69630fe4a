/* SPDX-License-Identifier: Apache-2.0 */
/* Steps that vary images at random: one component of each element changes, by numbers from the element's key. */
#ifndef RF_DATA_VARY_H
#define RF_DATA_VARY_H

#include "data/pipeline.h"

/* The first draw of each step. Steps with the same seed draw different numbers, so that what they do is unrelated. */
enum { RF_DRAW_AUGMENT = 0, RF_DRAW_COLOR = 16, RF_DRAW_AFFINE = 32, RF_DRAW_ERASE = 48, RF_DRAW_MIXUP = 80 };

typedef struct rf_vary_step rf_vary_step;
struct rf_vary_step {
    uint32_t component; /* u8 or f32 [height, width, channels] */
    /* Makes an image of the same size. */
    void (*vary)(const rf_vary_step *step, rf_random_key key, const rf_array *in, rf_array *out);
    union {
        rf_augment_params augment;
        rf_color_jitter_params color;
        rf_affine_params affine;
        rf_erase_params erase;
    } u;
};

/* The step on `in`; the component gets this type. */
rf_result rf_dataset_vary(const rf_dataset *in, const rf_vary_step *step, rf_dtype dtype, uint64_t seed,
                          rf_dataset **out);
/* RF_ERROR_INVALID_ARGUMENT, in the name of `function`, where component `index` is no image. */
rf_result rf_vary_check(const char *function, const rf_dataset *in, uint32_t index);

static inline float rf_pixel_get(const rf_array *image, int64_t i)
{
    return image->dtype == RF_U8 ? (float)((const uint8_t *)image->data)[i] : ((const float *)image->data)[i];
}

/* Bytes are rounded, and end at 0 and 255. */
static inline void rf_pixel_put(rf_array *image, int64_t i, float value)
{
    if (image->dtype == RF_U8)
        ((uint8_t *)image->data)[i] = (uint8_t)(value > 0 ? value < 255 ? value + 0.5f : 255 : 0);
    else
        ((float *)image->data)[i] = value;
}

/* An even draw between two numbers. */
static inline double rf_vary_between(rf_random_key key, uint64_t draw, double least, double greatest)
{
    return least + (greatest - least) * (double)rf_random_key_uniform(key, draw);
}

#endif
