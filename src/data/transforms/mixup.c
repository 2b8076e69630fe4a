/* SPDX-License-Identifier: Apache-2.0 */
/* Mixup (Zhang et al. 2017), of the rows of a batch in pairs. */
#include <math.h>
#include <string.h>

#include "base/params.h"
#include "base/philox.h"
#include "data/transforms/vary.h"

#define DEFAULT_ALPHA 0.2

enum { DRAW_ORDER = RF_DRAW_MIXUP, DRAW_PARTS };

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

static rf_result mix_batch(void *user, rf_random_key key, const rf_element *in, rf_element *out)
{
    const rf_mixup_params *p = user;
    const uint32_t rows = (uint32_t)in->component[0].shape.dim[0];
    uint32_t *order = RF_NEW_ARRAY(uint32_t, rows);
    if (!order) return RF_ERROR_OUT_OF_HOST_MEMORY;
    draw_order(key, order, rows);
    rf_rng rng = { .key = rf_random_key_below(key, DRAW_PARTS, UINT64_MAX) };
    for (uint32_t i = 0; i < in->num_components; i++) out->component[i].shape = in->component[i].shape;
    for (uint32_t row = 0; row < rows; row++) {
        const float part = (float)draw_beta(&rng, rf_setting(p->alpha, DEFAULT_ALPHA));
        for (uint32_t i = 0; i < in->num_components; i++) {
            const rf_array *a = &in->component[i];
            const float *values = a->data;
            const int64_t count = rf_shape_count(a->shape) / rows;
            mix_rows(values + row * count, values + order[row] * count, part, count,
                     (float *)out->component[i].data + row * count);
        }
    }
    rf_free(order);
    return RF_OK;
}

rf_result rf_dataset_mixup(const rf_dataset *in, uint64_t seed, const rf_mixup_params *params, rf_dataset **out)
{
    RF_REQUIRE(out, "rf_dataset_mixup: out is NULL");
    *out = NULL;
    RF_REQUIRE(in, "rf_dataset_mixup: in is NULL");
    RF_TRY(RF_PARAMS_CHECK(rf_mixup_params, params));
    const rf_mixup_params p = params ? *params : (rf_mixup_params){ 0 };
    RF_REFUSE_ZERO(p.alpha, "rf_dataset_mixup: alpha", "nothing would be mixed; leave the step out");
    RF_REQUIRE(isfinite(p.alpha) && p.alpha >= 0, "rf_dataset_mixup: alpha is %g; give a number above 0", p.alpha);
    RF_REQUIRE(in->batch_size > 0, "rf_dataset_mixup: the dataset is not batched; call rf_dataset_batch() first");
    for (uint32_t i = 0; i < in->spec.num_components; i++)
        RF_REQUIRE(in->spec.dtype[i] == RF_F32,
                   "rf_dataset_mixup: component %u is %s, not f32; rf_dataset_map_scale_u8() and "
                   "rf_dataset_map_one_hot() make it so, before the batch",
                   i, rf_dtype_name(in->spec.dtype[i]));
    return rf_dataset_derive_random(in, mix_batch, &p, sizeof(p), seed, &in->spec, out);
}
