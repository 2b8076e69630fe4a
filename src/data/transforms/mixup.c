/* SPDX-License-Identifier: Apache-2.0 */
/* Mixup (Zhang et al. 2017) and CutMix (Yun et al. 2019), of the rows of a batch in pairs. */
#include <math.h>
#include <string.h>

#include "base/params.h"
#include "base/philox.h"
#include "data/transforms/vary.h"

enum { DRAW_ORDER = RF_DRAW_MIXUP, DRAW_PARTS };

typedef struct mix_step {
    double alpha;
    bool cut;
    uint32_t image; /* component f32 [rows, height, width, channels] that is cut */
} mix_step;

/* A number of the distribution Gamma(shape, 1) as its logarithm, which small shapes need: Marsaglia and Tsang (2000).
 */
static double draw_log_gamma(rf_rng *rng, double shape)
{
    double smaller = 0;
    if (shape < 1) {
        smaller = log(1 - (double)rf_rng_uniform(rng)) / shape;
        shape += 1;
    }
    const double d = shape - 1.0 / 3, c = 1 / sqrt(9 * d);
    for (;;) {
        const double x = rf_rng_normal(rng), v = (1 + c * x) * (1 + c * x) * (1 + c * x);
        const double u = 1 - (double)rf_rng_uniform(rng);
        if (v > 0 && log(u) < x * x / 2 + d - d * v + d * log(v)) return log(d * v) + smaller;
    }
}

/* A number of the distribution Beta(alpha, alpha). */
static double draw_beta(rf_rng *rng, double alpha)
{
    const double a = draw_log_gamma(rng, alpha), b = draw_log_gamma(rng, alpha);
    return 1 / (1 + exp(b - a));
}

static void mix_rows(const float *row, const float *other, float part, int64_t count, float *out)
{
    for (int64_t i = 0; i < count; i++) out[i] = part * row[i] + (1 - part) * other[i];
}

/* The partner of row i is `order[i]`, which is drawn by exchanging, row by row, what is left. */
static void draw_order(rf_random_key key, uint32_t *order, uint32_t rows)
{
    rf_rng rng = { .key = rf_random_key_below(key, DRAW_ORDER, UINT64_MAX) };
    for (uint32_t i = 0; i < rows; i++) order[i] = i;
    for (uint32_t i = rows; i > 1; i--) {
        const uint32_t k = (uint32_t)rf_rng_below(&rng, i), last = order[i - 1];
        order[i - 1] = order[k];
        order[k] = last;
    }
}

/* The rows and columns from `begin` to before `end` of an image that its partner gives: `share` of it, but for what
 * would lie outside. */
static void draw_cut(rf_rng *rng, double share, const int64_t size[2], int64_t begin[2], int64_t end[2])
{
    for (int i = 0; i < 2; i++) {
        const int64_t length = (int64_t)((double)size[i] * sqrt(share));
        const int64_t middle = (int64_t)rf_rng_below(rng, (uint64_t)size[i]);
        begin[i] = middle - length / 2 > 0 ? middle - length / 2 : 0;
        end[i] = middle - length / 2 + length < size[i] ? middle - length / 2 + length : size[i];
    }
}

/* An image with a cut of its partner; returns the part of it that stays. */
static float cut_row(rf_rng *rng, double part, const rf_array *images, const float *row, const float *other, float *out)
{
    const int64_t *size = &images->shape.dim[1], line = size[1] * size[2];
    int64_t begin[2], end[2];
    draw_cut(rng, 1 - part, size, begin, end);
    memcpy(out, row, (size_t)(size[0] * line) * sizeof(*out));
    for (int64_t y = begin[0]; y < end[0]; y++) {
        const int64_t at = y * line + begin[1] * size[2];
        memcpy(out + at, other + at, (size_t)((end[1] - begin[1]) * size[2]) * sizeof(*out));
    }
    return 1 - (float)((end[0] - begin[0]) * (end[1] - begin[1])) / (float)(size[0] * size[1]);
}

/* Row `row` of each component, with row `other`. */
static void mix_pair(const mix_step *step, rf_rng *rng, const rf_element *in, uint32_t row, uint32_t other,
                     rf_element *out)
{
    const double drawn = draw_beta(rng, step->alpha);
    float part = (float)drawn;
    for (uint32_t k = 0; k < in->num_components; k++) {
        /* The image comes first: its cut says how much of the others stays. */
        const uint32_t i = !step->cut ? k : k == 0 ? step->image : k <= step->image ? k - 1 : k;
        const rf_array *a = &in->component[i];
        const int64_t count = rf_shape_count(a->shape) / a->shape.dim[0];
        const float *mine = (const float *)a->data + row * count, *its = (const float *)a->data + other * count;
        float *to = (float *)out->component[i].data + row * count;
        if (step->cut && i == step->image)
            part = cut_row(rng, drawn, a, mine, its, to);
        else
            mix_rows(mine, its, part, count, to);
    }
}

static rf_result mix_batch(void *user, rf_random_key key, const rf_element *in, rf_element *out)
{
    const mix_step *step = user;
    const uint32_t rows = (uint32_t)in->component[0].shape.dim[0];
    for (uint32_t i = 1; i < in->num_components; i++)
        RF_REQUIRE(in->component[i].shape.dim[0] == rows,
                   "mixup: component %u has %lld rows, component 0 has %u; zip the elements and batch them afterwards",
                   i, (long long)in->component[i].shape.dim[0], rows);
    uint32_t *order = RF_NEW_ARRAY(uint32_t, rows);
    if (!order) return RF_ERROR_OUT_OF_HOST_MEMORY;
    draw_order(key, order, rows);
    rf_rng rng = { .key = rf_random_key_below(key, DRAW_PARTS, UINT64_MAX) };
    for (uint32_t i = 0; i < in->num_components; i++) out->component[i].shape = in->component[i].shape;
    for (uint32_t row = 0; row < rows; row++) mix_pair(step, &rng, in, row, order[row], out);
    rf_free(order);
    return RF_OK;
}

/* `step` has the alpha that is usual. */
static rf_result derive_mixing(const char *function, const rf_dataset *in, uint64_t seed, const rf_mixup_params *params,
                               mix_step step, rf_dataset **out)
{
    const double alpha = params ? params->alpha : 0;
    RF_REQUIRE(alpha != (double)RF_ZERO, "%s: alpha is RF_ZERO: nothing would be mixed; leave the step out", function);
    RF_REQUIRE(isfinite(alpha) && alpha >= 0, "%s: alpha is %g; give a number above 0", function, alpha);
    step.alpha = rf_setting(alpha, step.alpha);
    RF_REQUIRE(in->batch_size > 0, "%s: the dataset is not batched; call rf_dataset_batch() first", function);
    for (const rf_dataset *d = in; d; d = d->input)
        RF_REQUIRE(
            d->kind != &rf_dataset_kind_slice,
            "%s: the dataset has been distributed, and the pairs would depend on the workers; mix whole batches, "
            "then distribute",
            function);
    for (uint32_t i = 0; i < in->spec.num_components; i++)
        RF_REQUIRE(
            in->spec.dtype[i] == RF_F32,
            "%s: component %u is %s, not f32; rf_dataset_map_scale_u8() and rf_dataset_map_one_hot() make it so, "
            "before the batch",
            function, i, rf_dtype_name(in->spec.dtype[i]));
    return rf_dataset_derive_random(in, mix_batch, &step, sizeof(step), seed, &in->spec, out);
}

rf_result rf_dataset_mixup(const rf_dataset *in, uint64_t seed, const rf_mixup_params *params, rf_dataset **out)
{
    RF_REQUIRE(out, "rf_dataset_mixup: out is NULL");
    *out = NULL;
    RF_REQUIRE(in, "rf_dataset_mixup: in is NULL");
    RF_TRY(RF_PARAMS_CHECK(rf_mixup_params, params));
    return derive_mixing("rf_dataset_mixup", in, seed, params, (mix_step){ .alpha = 0.2 }, out);
}

rf_result rf_dataset_cutmix(const rf_dataset *in, uint32_t index, uint64_t seed, const rf_mixup_params *params,
                            rf_dataset **out)
{
    char text[96];
    RF_REQUIRE(out, "rf_dataset_cutmix: out is NULL");
    *out = NULL;
    RF_REQUIRE(in, "rf_dataset_cutmix: in is NULL");
    RF_TRY(RF_PARAMS_CHECK(rf_mixup_params, params));
    RF_REQUIRE(index < in->spec.num_components, "rf_dataset_cutmix: index is %u, the elements have %u components",
               index, in->spec.num_components);
    RF_REQUIRE(in->batch_size == 0 || in->spec.shape[index].rank == 4,
               "rf_dataset_cutmix: component %u has the shape %s; give batches of images [n, height, width, channels]",
               index, rf_shape_format(in->spec.shape[index], text, sizeof(text)));
    return derive_mixing("rf_dataset_cutmix", in, seed, params, (mix_step){ .alpha = 1, .cut = true, .image = index },
                         out);
}
