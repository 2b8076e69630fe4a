/* SPDX-License-Identifier: Apache-2.0 */
#include "base/initializer.h"

#include <math.h>

#include "base/memory.h"
#include "base/params.h"
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

/* Cut off at two deviations. The cut N(0,1) has the deviation `remaining`; 1: do not make up for the cut. */
static void fill_truncated_normal(rf_rng *rng, double mean, double deviation, double remaining, int64_t count,
                                  float *values)
{
    for (int64_t i = 0; i < count; i++) {
        double x = rf_rng_normal(rng);
        while (fabs(x) > 2) x = rf_rng_normal(rng);
        values[i] = (float)(mean + x * deviation / remaining);
    }
}

/* ---- variance scaling, of which most kinds are cases ---- */

typedef struct scaling {
    double scale;
    rf_fan fan;
    rf_distribution distribution;
} scaling;

static bool find_scaling(const rf_initializer *i, scaling *out)
{
    switch (i->kind) {
    case RF_INIT_GLOROT_UNIFORM: *out = (scaling){ 1, RF_FAN_AVG, RF_DISTRIBUTION_UNIFORM }; return true;
    case RF_INIT_GLOROT_NORMAL: *out = (scaling){ 1, RF_FAN_AVG, RF_DISTRIBUTION_TRUNCATED_NORMAL }; return true;
    case RF_INIT_HE_UNIFORM: *out = (scaling){ 2, RF_FAN_IN, RF_DISTRIBUTION_UNIFORM }; return true;
    case RF_INIT_HE_NORMAL: *out = (scaling){ 2, RF_FAN_IN, RF_DISTRIBUTION_TRUNCATED_NORMAL }; return true;
    case RF_INIT_LECUN_UNIFORM: *out = (scaling){ 1, RF_FAN_IN, RF_DISTRIBUTION_UNIFORM }; return true;
    case RF_INIT_LECUN_NORMAL: *out = (scaling){ 1, RF_FAN_IN, RF_DISTRIBUTION_TRUNCATED_NORMAL }; return true;
    case RF_INIT_VARIANCE_SCALING:
        *out = (scaling){ i->a == 0 ? 1 : (double)i->a, i->fan, i->distribution };
        return true;
    default: return false;
    }
}

static void fill_scaled(rf_rng *rng, const scaling *s, rf_shape shape, int64_t count, float *values)
{
    const double remaining = 0.87962566103423978; /* deviation of N(0,1) restricted to [-2, 2] */
    double fan_in, fan_out;
    rf_initializer_fans(shape, &fan_in, &fan_out);
    const double fan = s->fan == RF_FAN_IN ? fan_in : s->fan == RF_FAN_OUT ? fan_out : (fan_in + fan_out) / 2;
    const double limit = sqrt(3 * s->scale / fan), deviation = sqrt(s->scale / fan);
    switch (s->distribution) {
    case RF_DISTRIBUTION_UNIFORM: fill_uniform(rng, -limit, limit, count, values); return;
    case RF_DISTRIBUTION_TRUNCATED_NORMAL: fill_truncated_normal(rng, 0, deviation, remaining, count, values); return;
    case RF_DISTRIBUTION_UNTRUNCATED_NORMAL: fill_normal(rng, 0, deviation, count, values); return;
    }
}

/* ---- orthogonal ---- */

/* Takes from row `i` what it has of the rows before it, and scales it to length 1. */
static void orthonormalize_row(double *rows, int64_t i, int64_t width)
{
    double *row = rows + i * width, squares = 0;
    for (int64_t k = 0; k < i; k++) {
        const double *other = rows + k * width;
        double along = 0;
        for (int64_t j = 0; j < width; j++) along += row[j] * other[j];
        for (int64_t j = 0; j < width; j++) row[j] -= along * other[j];
    }
    for (int64_t j = 0; j < width; j++) squares += row[j] * row[j];
    for (int64_t j = 0; j < width; j++) row[j] /= sqrt(squares);
}

/* Modified Gram-Schmidt on normally distributed rows gives a matrix of the uniform distribution (Mezzadri 2007, with a
 * positive diagonal of R), as Keras' QR with its signs; a second pass makes it orthogonal to the last digits. The
 * matrix is [product of the leading dimensions, last dimension]; the shorter side is made orthonormal. */
static rf_result fill_orthogonal(rf_rng *rng, double gain, rf_shape shape, float *values)
{
    RF_REQUIRE(shape.rank >= 2, "initializer: orthogonal needs at least two dimensions; the shape has %d", shape.rank);
    const int64_t columns = shape.dim[shape.rank - 1], height = rf_shape_count(shape) / columns;
    const bool wide = height < columns;
    const int64_t count = wide ? height : columns, width = wide ? columns : height;
    double *rows = RF_NEW_ARRAY(double, (size_t)(count * width));
    if (!rows) return RF_ERROR_OUT_OF_HOST_MEMORY;
    for (int64_t i = 0; i < count * width; i++) rows[i] = rf_rng_normal(rng);
    for (int64_t i = 0; i < count; i++) {
        orthonormalize_row(rows, i, width);
        orthonormalize_row(rows, i, width);
    }
    for (int64_t i = 0; i < height; i++)
        for (int64_t j = 0; j < columns; j++)
            values[i * columns + j] = (float)(gain * (wide ? rows[i * width + j] : rows[j * width + i]));
    rf_free(rows);
    return RF_OK;
}

/* ---- all kinds ---- */

rf_result rf_initializer_check(const rf_initializer *i)
{
    RF_REQUIRE((int)i->kind >= RF_INIT_GLOROT_UNIFORM && (int)i->kind <= RF_INIT_VARIANCE_SCALING,
               "initializer: kind %d does not exist; use one of rf_initializer_kind", (int)i->kind);
    RF_REQUIRE(isfinite(i->a) && isfinite(i->b), "initializer: a and b must be finite numbers");
    const bool scaled = i->kind == RF_INIT_VARIANCE_SCALING;
    RF_REQUIRE(scaled || ((int)i->fan == 0 && (int)i->distribution == 0),
               "initializer: fan and distribution are for variance scaling only");
    RF_REQUIRE((int)i->fan >= RF_FAN_IN && (int)i->fan <= RF_FAN_AVG, "initializer: fan %d does not exist",
               (int)i->fan);
    RF_REQUIRE((int)i->distribution >= RF_DISTRIBUTION_TRUNCATED_NORMAL &&
                   (int)i->distribution <= RF_DISTRIBUTION_UNIFORM,
               "initializer: distribution %d does not exist", (int)i->distribution);
    RF_REQUIRE(!scaled || i->a >= 0, "initializer: the scale a of variance scaling is %g; it cannot be negative",
               (double)i->a);
    if (scaled) RF_REFUSE_ZERO(i->a, "initializer: the scale a of variance scaling", "use RF_INIT_ZEROS");
    return RF_OK;
}

rf_result rf_initializer_fill(const rf_initializer *initializer, rf_shape shape, uint64_t seed, float *values)
{
    const int64_t count = rf_shape_count(shape);
    RF_REQUIRE(count >= 0, "initializer: the shape is not valid");
    RF_TRY(rf_initializer_check(initializer));
    const double a = initializer->a, b = initializer->b;
    const double mean = rf_setting(a, 0.0), deviation = rf_setting(b, 0.05);
    rf_rng rng = { .key = seed };
    scaling s;
    if (find_scaling(initializer, &s)) {
        fill_scaled(&rng, &s, shape, count, values);
        return RF_OK;
    }
    switch (initializer->kind) {
    case RF_INIT_RANDOM_NORMAL: fill_normal(&rng, mean, deviation, count, values); return RF_OK;
    case RF_INIT_TRUNCATED_NORMAL: fill_truncated_normal(&rng, mean, deviation, 1, count, values); return RF_OK;
    case RF_INIT_RANDOM_UNIFORM:
        if (a == 0 && b == 0)
            fill_uniform(&rng, -0.05, 0.05, count, values);
        else
            fill_uniform(&rng, mean, rf_setting(b, 0.0), count, values);
        return RF_OK;
    case RF_INIT_ORTHOGONAL: return fill_orthogonal(&rng, rf_setting(a, 1.0), shape, values);
    case RF_INIT_ZEROS: fill_constant(0, count, values); return RF_OK;
    case RF_INIT_ONES: fill_constant(1, count, values); return RF_OK;
    default: fill_constant((float)mean, count, values); return RF_OK;
    }
}
