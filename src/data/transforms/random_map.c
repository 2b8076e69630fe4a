/* SPDX-License-Identifier: Apache-2.0 */
/* Maps that draw random numbers, each element's from a key of its own, and the augmentation of images by one. */
#include <math.h>
#include <string.h>

#include "base/params.h"
#include "base/philox.h"
#include "data/pipeline.h"

/* ---- keys ---- */

static uint64_t draw_bits(rf_random_key key, uint64_t draw)
{
    const rf_philox4 x = rf_philox(rf_hash64(key.seed, key.epoch), key.index, draw);
    return (uint64_t)x.v[1] << 32 | x.v[0];
}

uint64_t rf_random_key_below(rf_random_key key, uint64_t draw, uint64_t bound)
{
    rf_rng rng = { .key = draw_bits(key, draw) };
    return bound ? rf_rng_below(&rng, bound) : 0;
}

float rf_random_key_uniform(rf_random_key key, uint64_t draw)
{
    return rf_uniform_from_bits((uint32_t)(draw_bits(key, draw) >> 32));
}

double rf_random_key_normal(rf_random_key key, uint64_t draw)
{
    rf_rng rng = { .key = draw_bits(key, draw) };
    return rf_rng_normal(&rng);
}

/* ---- the step ---- */

typedef struct random_step {
    rf_random_map_fn fn;
    void *user;
    uint32_t component; /* of the augmentation */
    rf_augment_params augment;
} random_step;

static rf_result open_step(rf_stage *stage)
{
    stage->indexed = stage->input->indexed;
    stage->count = stage->input->count;
    return rf_stage_allocate_element(stage, &stage->dataset->spec);
}

static rf_result random_map_apply(rf_stage *stage, uint64_t index, const rf_element *in, const rf_element **out)
{
    const random_step *step = stage->dataset->data;
    const rf_random_key key = { stage->dataset->seed, stage->epoch, index };
    rf_element_place(&stage->element, &stage->dataset->spec,
                     stage->element_memory); /* whatever the last call made of it */
    const uint64_t before = rf_error_count();
    const rf_result r = rf_error_of_user(step->fn(step->user, key, in, &stage->element), before, "the function");
    if (r < 0) return rf_error_context(r, "random map, element %llu", (unsigned long long)index);
    RF_TRY(RF_PARAMS_CHECK(rf_element, &stage->element));
    stage->element.first_row = in->first_row;
    stage->element.global_rows = in->global_rows;
    *out = &stage->element;
    return RF_OK;
}

static rf_result get_mapped(rf_stage *stage, uint64_t index, const rf_element **out)
{
    const rf_element *in;
    RF_TRY(stage->input->dataset->kind->get(stage->input, index, &in));
    return random_map_apply(stage, index, in, out);
}

static rf_result next_mapped(rf_stage *stage, const rf_element **out)
{
    const rf_element *in;
    rf_result r = rf_stage_peek_input(stage, &in);
    if (r == RF_OK) r = random_map_apply(stage, stage->position, in, out);
    if (r == RF_OK) rf_stage_take_input(stage);
    return r;
}

const rf_dataset_kind rf_dataset_kind_random_map = {
    .name = "random map",
    .open = open_step,
    .get = get_mapped,
    .next = next_mapped,
    .pass_over = rf_stage_pass_over_input,
    .free_dataset = rf_dataset_free_data,
};

static rf_result make_step(const rf_dataset *in, const random_step *step, uint64_t seed, const rf_element_spec *spec,
                           rf_dataset **out)
{
    RF_TRY(rf_dataset_derive_with(in, &rf_dataset_kind_random_map, sizeof(random_step), out));
    random_step *copy = (*out)->data;
    *copy = *step;
    (*out)->seed = seed;
    (*out)->spec = *spec;
    return RF_OK;
}

rf_result rf_dataset_map_random(const rf_dataset *in, rf_random_map_fn fn, void *user, uint64_t seed,
                                const rf_element_spec *spec, rf_dataset **out)
{
    RF_REQUIRE(out, "rf_dataset_map_random: out is NULL");
    *out = NULL;
    RF_REQUIRE(in && fn && spec, "rf_dataset_map_random: an argument is NULL");
    RF_TRY(RF_PARAMS_CHECK(rf_element_spec, spec));
    rf_dataset *probe; /* checks the spec */
    RF_TRY(rf_dataset_new(&rf_dataset_kind_random_map, spec, &probe));
    rf_dataset_destroy(&probe);
    return make_step(in, &(random_step){ .fn = fn, .user = user }, seed, spec, out);
}

/* ---- augmentation ---- */

enum { DRAW_FLIP, DRAW_DOWN, DRAW_RIGHT, MAX_CHANNELS = 4 };

static float image_pixel(const rf_array *image, int64_t i)
{
    return image->dtype == RF_U8 ? (float)((const uint8_t *)image->data)[i] : ((const float *)image->data)[i];
}

static void augment_image(const rf_augment_params *p, rf_random_key key, const rf_array *image, float *out)
{
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
                const float value = inside ? image_pixel(image, (row * width + column) * channels + c) : 0;
                const float mean = c < MAX_CHANNELS ? p->mean[c] : 0;
                const float deviation = c < MAX_CHANNELS && p->deviation[c] > 0 ? p->deviation[c] : 1;
                out[(y * width + x) * channels + c] = (value - mean) / deviation;
            }
}

static rf_result image_augment(void *user, rf_random_key key, const rf_element *in, rf_element *out)
{
    const random_step *step = user;
    for (uint32_t i = 0; i < in->num_components; i++) {
        const rf_array *a = &in->component[i];
        out->component[i].shape = a->shape;
        if (i == step->component)
            augment_image(&step->augment, key, a, out->component[i].data);
        else
            memcpy(out->component[i].data, a->data, (size_t)rf_shape_count(a->shape) * rf_dtype_size(a->dtype));
    }
    return RF_OK;
}

static rf_result check_augment(const rf_dataset *in, uint32_t index, const rf_augment_params *p)
{
    RF_REQUIRE(index < in->spec.num_components, "rf_dataset_map_augment: index is %u, the elements have %u components",
               index, in->spec.num_components);
    const rf_shape shape = in->spec.shape[index];
    const rf_dtype dtype = in->spec.dtype[index];
    RF_REQUIRE(dtype == RF_U8 || dtype == RF_F32, "rf_dataset_map_augment: component %u is %s, not u8 or f32", index,
               rf_dtype_name(dtype));
    RF_REQUIRE(shape.rank == 3,
               "rf_dataset_map_augment: component %u has %d dimensions; apply it to images [height, width, channels], "
               "before they are batched",
               index, shape.rank);
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
    rf_element_spec spec = in->spec;
    spec.dtype[index] = RF_F32;
    RF_TRY(make_step(in, &(random_step){ image_augment, NULL, index, *params }, seed, &spec, out));
    random_step *step = (*out)->data;
    step->user = step;
    return RF_OK;
}
