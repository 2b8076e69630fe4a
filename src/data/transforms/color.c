/* SPDX-License-Identifier: Apache-2.0 */
/* Brightness, contrast, saturation and hue of images vary, as torchvision's ColorJitter varies them. */
#include <math.h>

#include "base/params.h"
#include "data/transforms/vary.h"

enum { DRAW_BRIGHTNESS = RF_DRAW_COLOR, DRAW_CONTRAST, DRAW_SATURATION, DRAW_HUE };

/* Factors of 1 and a turn of 0 change nothing. */
typedef struct color_change {
    float brightness, contrast, saturation, hue;
    float white; /* the greatest value; colours stay between 0 and it */
    float grey;  /* that contrast goes by: the mean of the image */
} color_change;

static float draw_factor(rf_random_key key, uint64_t draw, float range)
{
    return (float)rf_vary_between(key, draw, range < 1 ? 1 - (double)range : 0, 1 + (double)range);
}

static float clamp_color(float value, float white)
{
    return value < 0 ? 0 : value > white ? white : value;
}

/* The brightness that the eye sees; a pixel of fewer than three channels is grey. */
static float pixel_grey(const float *pixel, int colors)
{
    return colors == 1 ? pixel[0] : 0.299f * pixel[0] + 0.587f * pixel[1] + 0.114f * pixel[2];
}

/* The same place of the circle, from 0 to 6, of one that is less than a turn away from it. */
static float within_circle(float sixth)
{
    return sixth < 0 ? sixth + 6 : sixth >= 6 ? sixth - 6 : sixth;
}

/* Hues are sixths of the circle from red on, the rest by the hexagon of Smith (1978). */
static void turn_hue(float *pixel, float turn)
{
    const float r = pixel[0], g = pixel[1], b = pixel[2];
    const float most = r > g ? (r > b ? r : b) : (g > b ? g : b), least = r < g ? (r < b ? r : b) : (g < b ? g : b);
    const float chroma = most - least;
    if (chroma <= 0) return;
    const float sixth = most == r ? (g - b) / chroma : most == g ? 2 + (b - r) / chroma : 4 + (r - g) / chroma;
    static const float from[] = { 5, 3, 1 }; /* the sixth at which red, green and blue begin to fall */
    const float turned = within_circle(within_circle(sixth) + 6 * turn);
    for (int c = 0; c < 3; c++) {
        const float k = within_circle(from[c] + turned), to_next = k < 4 - k ? k : 4 - k;
        pixel[c] = most - chroma * clamp_color(to_next, 1);
    }
}

/* Brightness and contrast, which concern each value by itself. */
static float change_value(const color_change *change, float value)
{
    value = clamp_color(value * change->brightness, change->white);
    if (change->contrast == 1) return value;
    return clamp_color(change->grey + change->contrast * (value - change->grey), change->white);
}

/* The rest, of a pixel whose values have been changed. */
static void change_pixel(const color_change *change, float *pixel, int colors)
{
    const float white = change->white;
    if (colors == 1) return;
    const float grey = pixel_grey(pixel, colors), factor = change->saturation;
    for (int c = 0; factor != 1 && c < colors; c++) pixel[c] = clamp_color(grey + factor * (pixel[c] - grey), white);
    if (change->hue != 0) turn_hue(pixel, change->hue);
}

/* The mean of the image's grey after a change of brightness. */
static float mean_grey(const rf_array *image, int colors, const color_change *change)
{
    const int64_t channels = image->shape.dim[2], count = image->shape.dim[0] * image->shape.dim[1];
    double sum = 0;
    for (int64_t i = 0; i < count; i++) {
        float pixel[3];
        for (int c = 0; c < colors; c++)
            pixel[c] = clamp_color(rf_pixel_get(image, i * channels + c) * change->brightness, change->white);
        sum += (double)pixel_grey(pixel, colors);
    }
    return (float)(sum / (double)count);
}

static void vary_color(const rf_vary_step *step, rf_random_key key, const rf_array *in, rf_array *out)
{
    const rf_color_jitter_params *p = &step->u.color;
    const int64_t channels = in->shape.dim[2], count = in->shape.dim[0] * in->shape.dim[1];
    const int colors = channels < 3 ? 1 : 3;
    color_change change = {
        .brightness = draw_factor(key, DRAW_BRIGHTNESS, p->brightness),
        .contrast = draw_factor(key, DRAW_CONTRAST, p->contrast),
        .saturation = draw_factor(key, DRAW_SATURATION, p->saturation),
        .hue = (float)rf_vary_between(key, DRAW_HUE, -(double)p->hue, (double)p->hue),
        .white = in->dtype == RF_U8 ? 255 : (float)rf_setting((double)p->max_value, 1),
    };
    if (p->contrast > 0) change.grey = mean_grey(in, colors, &change);
    float of_bytes[256];
    for (int i = 0; in->dtype == RF_U8 && i < 256; i++) of_bytes[i] = change_value(&change, (float)i);
    for (int64_t i = 0; i < count; i++) {
        float pixel[4];
        for (int64_t c = 0; c < channels; c++) {
            const float value = rf_pixel_get(in, i * channels + c);
            pixel[c] = c >= colors ? value : in->dtype == RF_U8 ? of_bytes[(int)value] : change_value(&change, value);
        }
        change_pixel(&change, pixel, colors);
        for (int64_t c = 0; c < channels; c++) rf_pixel_put(out, i * channels + c, pixel[c]);
    }
}

static rf_result check_color(const rf_dataset *in, uint32_t index, const rf_color_jitter_params *p)
{
    static const char function[] = "rf_dataset_map_color_jitter";
    RF_TRY(rf_vary_check(function, in, index));
    const int64_t channels = in->spec.shape[index].dim[2];
    const struct {
        const char *name;
        float value, most;
    } ranges[] = { { "brightness", p->brightness, INFINITY },
                   { "contrast", p->contrast, INFINITY },
                   { "saturation", p->saturation, INFINITY },
                   { "hue", p->hue, 0.5f } };
    for (int i = 0; i < 4; i++)
        RF_REQUIRE(isfinite(ranges[i].value) && ranges[i].value >= 0 && ranges[i].value <= ranges[i].most,
                   "%s: %s is %g; give a number from 0 to %s", function, ranges[i].name, (double)ranges[i].value,
                   i == 3 ? "0.5, half of the circle" : "1, or above it");
    RF_REQUIRE(channels >= 1 && channels <= 4, "%s: component %u has %lld channels; images have 1 to 4", function,
               index, (long long)channels);
    RF_REQUIRE(channels >= 3 || (p->saturation == 0 && p->hue == 0),
               "%s: images of %lld channels have no saturation and no hue to vary; leave both 0", function,
               (long long)channels);
    RF_REFUSE_ZERO(p->max_value, "rf_dataset_map_color_jitter: max_value", "white is greater than black; 0 is 1");
    RF_REQUIRE(isfinite(p->max_value) && p->max_value >= 0, "%s: max_value is %g; give white's value, 0 for 1",
               function, (double)p->max_value);
    RF_REQUIRE(in->spec.dtype[index] == RF_F32 || p->max_value == 0 || p->max_value == 255,
               "%s: max_value is %g, and white is 255 in u8; leave it 0", function, (double)p->max_value);
    return RF_OK;
}

rf_result rf_dataset_map_color_jitter(const rf_dataset *in, uint32_t index, uint64_t seed,
                                      const rf_color_jitter_params *params, rf_dataset **out)
{
    RF_REQUIRE(out, "rf_dataset_map_color_jitter: out is NULL");
    *out = NULL;
    RF_REQUIRE(in && params, "rf_dataset_map_color_jitter: an argument is NULL");
    RF_TRY(RF_PARAMS_CHECK(rf_color_jitter_params, params));
    RF_TRY(check_color(in, index, params));
    const rf_vary_step step = { .component = index, .vary = vary_color, .u.color = *params };
    return rf_dataset_vary(in, &step, in->spec.dtype[index], seed, out);
}
