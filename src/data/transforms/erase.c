/* SPDX-License-Identifier: Apache-2.0 */
/* Random erasing (Zhong et al. 2017), with the draws of torchvision's RandomErasing; cutout is a case of it. */
#include <math.h>
#include <string.h>

#include "base/params.h"
#include "data/transforms/vary.h"

/* A rectangle that is too large for the image is drawn again, so often. */
enum { ATTEMPTS = 10, DRAW_WHETHER = RF_DRAW_ERASE, DRAW_DOWN, DRAW_RIGHT, DRAW_SIZES };

static const float usual_area[2] = { 0.02f, 0.33f }, usual_ratio[2] = { 0.3f, 3.3f };

typedef struct erase_box {
    int64_t row, column, height, width;
} erase_box;

static const float *range_or(const float range[2], const float usual[2])
{
    return range[0] == 0 && range[1] == 0 ? usual : range;
}

/* A box of no size where none fits. */
static erase_box draw_box(const rf_erase_params *p, rf_random_key key, int64_t height, int64_t width)
{
    const float *area = range_or(p->area, usual_area), *ratio = range_or(p->ratio, usual_ratio);
    for (uint64_t i = 0; i < ATTEMPTS; i++) {
        const double pixels =
            rf_vary_between(key, DRAW_SIZES + 2 * i, (double)area[0], (double)area[1]) * (double)height * (double)width;
        const double shape =
            exp(rf_vary_between(key, DRAW_SIZES + 2 * i + 1, log((double)ratio[0]), log((double)ratio[1])));
        const int64_t h = (int64_t)floor(sqrt(pixels * shape) + 0.5), w = (int64_t)floor(sqrt(pixels / shape) + 0.5);
        if (h >= height || w >= width) continue;
        return (erase_box){ (int64_t)rf_random_key_below(key, DRAW_DOWN, (uint64_t)(height - h + 1)),
                            (int64_t)rf_random_key_below(key, DRAW_RIGHT, (uint64_t)(width - w + 1)), h, w };
    }
    return (erase_box){ 0 };
}

static void erase_part(const rf_vary_step *step, rf_random_key key, const rf_array *in, rf_array *out)
{
    const rf_erase_params *p = &step->u.erase;
    const int64_t width = in->shape.dim[1], channels = in->shape.dim[2];
    memcpy(out->data, in->data, (size_t)rf_shape_count(in->shape) * rf_dtype_size(in->dtype));
    if ((double)rf_random_key_uniform(key, DRAW_WHETHER) >= rf_setting((double)p->probability, 0.5)) return;
    const erase_box box = draw_box(p, key, in->shape.dim[0], width);
    for (int64_t y = box.row; y < box.row + box.height; y++)
        for (int64_t i = box.column * channels; i < (box.column + box.width) * channels; i++)
            rf_pixel_put(out, y * width * channels + i, p->value);
}

static rf_result check_range(const char *name, const float range[2], float most)
{
    for (int i = 0; i < 2; i++)
        RF_REQUIRE(range[i] != RF_ZERO,
                   "rf_dataset_map_erase: %s is RF_ZERO: nothing has that %s; {0, 0} is the default", name, name);
    RF_REQUIRE((range[0] == 0 && range[1] == 0) || (range[0] > 0 && range[0] <= range[1] && range[1] <= most),
               "rf_dataset_map_erase: %s is %g to %g; give the least and the greatest, above 0 and up to %g", name,
               (double)range[0], (double)range[1], (double)most);
    return RF_OK;
}

static rf_result check_erase(const rf_dataset *in, uint32_t index, const rf_erase_params *p)
{
    RF_TRY(rf_vary_check("rf_dataset_map_erase", in, index));
    RF_REFUSE_ZERO(p->probability, "rf_dataset_map_erase: probability", "the step would do nothing; leave it out");
    RF_REQUIRE(p->probability >= 0 && p->probability <= 1, "rf_dataset_map_erase: probability is %g; give 0 to 1",
               (double)p->probability);
    RF_TRY(check_range("area", p->area, 1));
    RF_TRY(check_range("ratio", p->ratio, 1000));
    RF_REQUIRE(isfinite(p->value), "rf_dataset_map_erase: value is %g", (double)p->value);
    return RF_OK;
}

rf_result rf_dataset_map_erase(const rf_dataset *in, uint32_t index, uint64_t seed, const rf_erase_params *params,
                               rf_dataset **out)
{
    RF_REQUIRE(out, "rf_dataset_map_erase: out is NULL");
    *out = NULL;
    RF_REQUIRE(in, "rf_dataset_map_erase: in is NULL");
    static const rf_erase_params usual = { 0 };
    if (!params) params = &usual;
    RF_TRY(RF_PARAMS_CHECK(rf_erase_params, params));
    RF_TRY(check_erase(in, index, params));
    const rf_vary_step step = { .component = index, .vary = erase_part, .u.erase = *params };
    return rf_dataset_vary(in, &step, in->spec.dtype[index], seed, out);
}
