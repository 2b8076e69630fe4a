/* SPDX-License-Identifier: Apache-2.0 */
/* Layers that tell the positions of a sequence apart. */
#include <math.h>

#include "base/error.h"
#include "base/memory.h"
#include "base/params.h"
#include "trace/trace.h"
#include "train/layers/layer.h"

/* `steps`: that the input may have. */
static rf_result position_build(rf_layer *layer, rf_strategy *strategy, rf_dtype dtype, rf_shape input, int64_t steps)
{
    const int64_t most = layer->u.position.max_length;
    char text[96];
    RF_REQUIRE(dtype == RF_F32 && input.rank == 3, "layer '%s' needs an input f32 [n, steps, features], got %s %s",
               layer->name, rf_dtype_name(dtype), rf_shape_format(input, text, sizeof(text)));
    if (most == 0) return RF_OK;
    RF_REQUIRE(input.dim[1] <= steps, "layer '%s' has places for %lld steps, got %s", layer->name, (long long)most,
               rf_shape_format(input, text, sizeof(text)));
    if (!layer->built)
        return rf_layer_add_variable(layer, strategy, "embeddings", RF_SHAPE(most, input.dim[2]),
                                     layer->u.position.initializer);
    const int64_t features = rf_variable_shape(layer->variables[0]).dim[1];
    RF_REQUIRE(input.dim[2] == features, "layer '%s' was built for %lld features, got %s", layer->name,
               (long long)features, rf_shape_format(input, text, sizeof(text)));
    return RF_OK;
}

/* ---- learned ---- */

static rf_result embedding_build(rf_layer *layer, rf_strategy *strategy, const rf_tensor_desc *in, uint32_t num_in)
{
    char text[96];
    const int64_t steps = num_in == 2 ? INT64_MAX : layer->u.position.max_length;
    RF_TRY(position_build(layer, strategy, in[0].dtype, in[0].shape, steps));
    RF_REQUIRE(num_in < 2 || (in[1].dtype == RF_I32 &&
                              rf_shape_equal(in[1].shape, RF_SHAPE(in[0].shape.dim[0], in[0].shape.dim[1]))),
               "layer '%s': positions are %s %s, not i32 [%lld, %lld]", layer->name, rf_dtype_name(in[1].dtype),
               rf_shape_format(in[1].shape, text, sizeof(text)), (long long)in[0].shape.dim[0],
               (long long)in[0].shape.dim[1]);
    return RF_OK;
}

/* Rows of the table for so many steps. */
static rf_tensor rows_from(rf_trace *t, rf_tensor table, rf_tensor start, int64_t steps, int64_t most)
{
    const int64_t begin = 0;
    if (start.id == 0) return steps < most ? rf_slice(t, table, &begin, &steps, NULL, 1) : table;
    const rf_tensor rows = rf_position_rows(t, start, steps, "rf_layer_apply: start_index");
    return rows.id ? rf_gather(t, table, rows, 0) : RF_NO_TENSOR;
}

static void embedding_apply(rf_trace *t, const rf_layer *layer, const rf_layer_apply_params *p, rf_tensor *out,
                            uint32_t num_out)
{
    (void)num_out;
    const int64_t steps = rf_tensor_shape(t, p->in[0]).dim[1];
    const rf_tensor table = rf_variable_tensor(t, layer->variables[0]);
    if (p->num_in == 2 && p->start_index.id != 0) {
        (void)rf_trace_fail(t, RF_ERROR_INVALID_ARGUMENT, "layer '%s' has positions and a start_index; give one",
                            layer->name);
        return;
    }
    if (p->num_in == 2)
        out[0] = rf_add(t, p->in[0], rf_gather(t, table, p->in[1], 0));
    else
        out[0] = rf_add(t, p->in[0], rows_from(t, table, p->start_index, steps, layer->u.position.max_length));
}

static const rf_layer_kind embedding_kind = { .base_name = "position_embedding",
                                              .type_name = "PositionEmbedding",
                                              .build_inputs = embedding_build,
                                              .apply = embedding_apply,
                                              .min_inputs = 1,
                                              .max_inputs = 2,
                                              .max_outputs = 1,
                                              .takes_start = true,
                                              .narrow = true };

rf_result rf_layer_position_embedding(int32_t max_length, const rf_initializer *initializer, const char *name,
                                      rf_layer **out)
{
    RF_REQUIRE(out, "rf_layer_position_embedding: out is NULL");
    *out = NULL;
    RF_TRY(RF_PARAMS_CHECK(rf_initializer, initializer));
    RF_REQUIRE(max_length > 0, "rf_layer_position_embedding: max_length is %d, must be positive", (int)max_length);
    if (initializer) RF_TRY(rf_layer_check_initializer(initializer, "rf_layer_position_embedding", "initializer"));
    RF_TRY(rf_layer_new(&embedding_kind, name, out));
    (*out)->u.position.max_length = max_length;
    if (initializer) (*out)->u.position.initializer = *initializer;
    return RF_OK;
}

/* ---- sines ---- */

/* Positions that a table has; those of a step are two digits of this base. */
enum { DIGIT = 256 };

static double turned_sine(double angle, int quarters)
{
    return quarters == 0 ? sin(angle) : quarters == 1 ? cos(angle) : -sin(angle);
}

/* Sines of the angles at positions 0, step, 2 step and so on, ahead by quarters of a turn, in even and in odd columns.
 */
static rf_tensor sine_table(rf_trace *t, const rf_layer *layer, int64_t rows, int64_t features, int64_t step, int even,
                            int odd)
{
    float *values = RF_NEW_ARRAY(float, (size_t)(rows * features));
    if (!values) return rf_trace_emit(t, RF_ERROR_OUT_OF_HOST_MEMORY, 0);
    for (int64_t s = 0; s < rows; s++) {
        for (int64_t i = 0; i < features; i++) {
            const double exponent = (double)(i - i % 2) / (double)features;
            const double angle = (double)(s * step) / pow((double)layer->u.position.max_wavelength, exponent);
            values[s * features + i] = (float)turned_sine(angle, i % 2 == 0 ? even : odd);
        }
    }
    const rf_array constant = { .dtype = RF_F32, .shape = RF_SHAPE(rows, features), .data = values };
    const rf_tensor table = rf_constant_array(t, &constant);
    rf_free(values);
    return table;
}

/* sin(a + b) from tables of both digits: sines of large angles differ from device to device. */
static rf_tensor sines_from(rf_trace *t, const rf_layer *layer, rf_tensor start, int64_t steps, int64_t features)
{
    const rf_tensor positions = rf_cast(t, rf_position_rows(t, start, steps, "rf_layer_apply: start_index"), RF_F32);
    const rf_tensor high = rf_floor(t, rf_multiply(t, positions, rf_constant(t, 1.0f / DIGIT)));
    const rf_tensor low = rf_subtract(t, positions, rf_multiply(t, high, rf_constant(t, DIGIT)));
    const rf_tensor rows[2] = { rf_cast(t, low, RF_I32), rf_cast(t, high, RF_I32) };
    const rf_tensor sine = rf_gather(t, sine_table(t, layer, DIGIT, features, 1, 0, 1), rows[0], 0);
    const rf_tensor ahead = rf_gather(t, sine_table(t, layer, DIGIT, features, 1, 1, 2), rows[0], 0);
    const rf_tensor high_cosine = rf_gather(t, sine_table(t, layer, DIGIT, features, DIGIT, 1, 1), rows[1], 0);
    const rf_tensor high_sine = rf_gather(t, sine_table(t, layer, DIGIT, features, DIGIT, 0, 0), rows[1], 0);
    return rf_add(t, rf_multiply(t, sine, high_cosine), rf_multiply(t, ahead, high_sine));
}

static void sine_apply(rf_trace *t, const rf_layer *layer, const rf_layer_apply_params *p, rf_tensor *out,
                       uint32_t num_out)
{
    (void)num_out;
    const rf_shape shape = rf_tensor_shape(t, p->in[0]);
    const int64_t steps = shape.dim[1], features = shape.dim[2];
    out[0] = rf_add(t, p->in[0],
                    p->start_index.id == 0 ? sine_table(t, layer, steps, features, 1, 0, 1)
                                           : sines_from(t, layer, p->start_index, steps, features));
}

static const rf_layer_kind sine_kind = { .base_name = "sine_position_encoding",
                                         .type_name = "SinePositionEncoding",
                                         .build_inputs = embedding_build,
                                         .apply = sine_apply,
                                         .min_inputs = 1,
                                         .max_inputs = 1,
                                         .max_outputs = 1,
                                         .takes_start = true,
                                         .narrow = true };

rf_result rf_layer_sine_position_encoding(float max_wavelength, rf_layer **out)
{
    RF_REQUIRE(out, "rf_layer_sine_position_encoding: out is NULL");
    *out = NULL;
    RF_REQUIRE(max_wavelength >= 0.0f && isfinite(max_wavelength),
               "rf_layer_sine_position_encoding: max_wavelength %g must be positive and finite; 10000 is usual",
               (double)max_wavelength);
    RF_REFUSE_ZERO(max_wavelength, "rf_layer_sine_position_encoding: max_wavelength",
                   "10000 is usual, and what 0 stands for");
    RF_TRY(rf_layer_new(&sine_kind, NULL, out));
    (*out)->u.position.max_wavelength = max_wavelength > 0.0f ? max_wavelength : 10000.0f;
    return RF_OK;
}
