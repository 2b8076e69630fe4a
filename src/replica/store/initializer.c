/* SPDX-License-Identifier: Apache-2.0 */
#include "replica/store/initializer.h"

#include <math.h>

#include "base/philox.h"

void rf_initializer_fans(rf_shape shape, double *fan_in, double *fan_out)
{
    *fan_in = *fan_out = 1;
    if (shape.rank == 1) *fan_in = *fan_out = (double)shape.dim[0];
    if (shape.rank < 2) return;
    double receptive = 1;
    for (int32_t i = 0; i < shape.rank - 2; i++) receptive *= (double)shape.dim[i];
    *fan_in = receptive * (double)shape.dim[shape.rank - 2];
    *fan_out = receptive * (double)shape.dim[shape.rank - 1];
}

static void fill_constant(float value, int64_t count, float *values)
{
    for (int64_t i = 0; i < count; i++) values[i] = value;
}

static void fill_uniform(rf_rng *rng, double low, double high, int64_t count, float *values)
{
    for (int64_t i = 0; i < count; i++) values[i] = (float)(low + (high - low) * (double)rf_rng_uniform(rng));
}

static void fill_normal(rf_rng *rng, double mean, double deviation, int64_t count, float *values)
{
    for (int64_t i = 0; i < count; i++) values[i] = (float)(mean + deviation * rf_rng_normal(rng));
}

/* A normal distribution cut off at two of its own deviations, scaled so that `deviation` is what remains after the cut.
 */
static void fill_truncated_normal(rf_rng *rng, double deviation, int64_t count, float *values)
{
    const double remaining = 0.87962566103423978; /* deviation of N(0,1) restricted to [-2, 2] */
    for (int64_t i = 0; i < count; i++) {
        double x = rf_rng_normal(rng);
        while (fabs(x) > 2) x = rf_rng_normal(rng);
        values[i] = (float)(x * deviation / remaining);
    }
}

rf_result rf_initializer_fill(const rf_initializer *initializer, rf_shape shape, uint64_t seed, float *values)
{
    const int64_t count = rf_shape_count(shape);
    RF_REQUIRE(count >= 0, "initializer: the shape is not valid");
    double fan_in, fan_out;
    rf_initializer_fans(shape, &fan_in, &fan_out);
    const double a = initializer->a, b = initializer->b;
    RF_REQUIRE(isfinite(a) && isfinite(b), "initializer: a and b must be finite numbers");
    rf_rng rng = { .key = seed };
    switch (initializer->kind) {
    case RF_INIT_GLOROT_UNIFORM: {
        const double limit = sqrt(6 / (fan_in + fan_out));
        fill_uniform(&rng, -limit, limit, count, values);
        return RF_OK;
    }
    case RF_INIT_HE_UNIFORM: {
        const double limit = sqrt(6 / fan_in);
        fill_uniform(&rng, -limit, limit, count, values);
        return RF_OK;
    }
    case RF_INIT_GLOROT_NORMAL: fill_truncated_normal(&rng, sqrt(2 / (fan_in + fan_out)), count, values); return RF_OK;
    case RF_INIT_HE_NORMAL: fill_truncated_normal(&rng, sqrt(2 / fan_in), count, values); return RF_OK;
    case RF_INIT_RANDOM_NORMAL: fill_normal(&rng, a, b == 0 ? 0.05 : b, count, values); return RF_OK;
    case RF_INIT_RANDOM_UNIFORM:
        if (a == 0 && b == 0)
            fill_uniform(&rng, -0.05, 0.05, count, values);
        else
            fill_uniform(&rng, a, b, count, values);
        return RF_OK;
    case RF_INIT_ZEROS: fill_constant(0, count, values); return RF_OK;
    case RF_INIT_ONES: fill_constant(1, count, values); return RF_OK;
    case RF_INIT_CONSTANT: fill_constant(initializer->a, count, values); return RF_OK;
    }
    return RF_FAIL(RF_ERROR_INVALID_ARGUMENT, "initializer: kind %d does not exist; use one of rf_initializer_kind",
                   (int)initializer->kind);
}
