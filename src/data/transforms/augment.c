/* SPDX-License-Identifier: Apache-2.0 */
/* Images are exchanged left and right, cut out at a random place, and normalised. */
#include <math.h>

#include "base/params.h"
#include "data/transforms/vary.h"

enum { DRAW_FLIP = RF_DRAW_AUGMENT, DRAW_DOWN, DRAW_RIGHT, MAX_CHANNELS = 4 };

static void augment_image(const rf_vary_step *step, rf_random_key key, const rf_array *image, rf_array *result)
{
    const rf_augment_params *p = &step->u.augment;
    float *out = result->data;
    const int64_t height = image->shape.dim[0], width = image->shape.dim[1], channels = image->shape.dim[2];
    const bool flip = p->flip && rf_random_key_below(key, DRAW_FLIP, 2);
    const uint64_t places = 2 * (uint64_t)p->pad + 1;
    const int64_t down = (int64_t)rf_random_key_below(key, DRAW_DOWN, places) - p->pad;
    const int64_t right = (int64_t)rf_random_key_below(key, DRAW_RIGHT, places) - p->pad;
    for (int64_t y = 0; y < height; y++)
        for (int64_t x = 0; x < width; x++)
            for (int64_t c = 0; c < channels; c++) {
                const int64_t row = y + down, at = x + right, column = flip ? width - 1 - at : at;
                const bool inside = row >= 0 && row < height && at >= 0 && at < width;
                const float value = inside ? rf_pixel_get(image, (row * width + column) * channels + c) : 0;
                const float mean = c < MAX_CHANNELS ? p->mean[c] : 0;
                const float deviation = c < MAX_CHANNELS && p->deviation[c] > 0 ? p->deviation[c] : 1;
                out[(y * width + x) * channels + c] = (value - mean) / deviation;
            }
}

static rf_result check_augment(const rf_dataset *in, uint32_t index, const rf_augment_params *p)
{
    RF_TRY(rf_vary_check("rf_dataset_map_augment", in, index));
    const rf_shape shape = in->spec.shape[index];
    RF_REQUIRE(p->pad >= 0 && p->pad <= shape.dim[0] && p->pad <= shape.dim[1],
               "rf_dataset_map_augment: pad %d is not between 0 and the size of the image", p->pad);
    for (int c = 0; c < MAX_CHANNELS; c++) {
        RF_REFUSE_ZERO(p->deviation[c], "rf_dataset_map_augment: deviation",
                       "it divides; 0 leaves the channel unchanged");
        RF_REQUIRE(isfinite(p->mean[c]) && isfinite(p->deviation[c]) && p->deviation[c] >= 0,
                   "rf_dataset_map_augment: channel %d has the mean %g and the deviation %g", c, (double)p->mean[c],
                   (double)p->deviation[c]);
        RF_REQUIRE(c < shape.dim[2] || (p->mean[c] == 0 && p->deviation[c] == 0),
                   "rf_dataset_map_augment: channel %d has a mean or deviation, but images have %lld channels", c,
                   (long long)shape.dim[2]);
    }
    return RF_OK;
}

rf_result rf_dataset_map_augment(const rf_dataset *in, uint32_t index, uint64_t seed, const rf_augment_params *params,
                                 rf_dataset **out)
{
    RF_REQUIRE(out, "rf_dataset_map_augment: out is NULL");
    *out = NULL;
    RF_REQUIRE(in && params, "rf_dataset_map_augment: an argument is NULL");
    RF_TRY(RF_PARAMS_CHECK(rf_augment_params, params));
    RF_TRY(check_augment(in, index, params));
    const rf_vary_step step = { .component = index, .vary = augment_image, .u.augment = *params };
    return rf_dataset_vary(in, &step, RF_F32, seed, out);
}
