/* SPDX-License-Identifier: Apache-2.0 */
/* Layers that make one tensor of several, in a functional model: results, gradients, 20 steps against PyTorch
 * (make_layers_trajectory.py), files and mistakes; and how a bidirectional layer merges its two directions. */
#include <math.h>

#include "../support/folder.h"
#include "tests/room.h"
#include "trajectory.h"

enum { EXAMPLES = 5, ROWS = 2, COLUMNS = 3, PER_EXAMPLE = ROWS * COLUMNS, NUM_INPUTS = 3, NUM_OUTPUTS = 8 };
enum { WIDE = EXAMPLES * PER_EXAMPLE, NARROW = EXAMPLES * COLUMNS }; /* the third input broadcasts over rows */

/* Ordinary numbers, without ties among the three. */
static float number(uint32_t input, uint32_t i)
{
    return sinf(1.7f * (float)i + 2.3f * (float)input + 0.4f) + 0.01f * (float)input;
}

static void fill(float values[NUM_INPUTS][WIDE], rf_array arrays[NUM_INPUTS])
{
    for (uint32_t k = 0; k < NUM_INPUTS; k++) {
        for (uint32_t i = 0; i < WIDE; i++) values[k][i] = number(k, i);
        arrays[k] = array_f32(RF_SHAPE(EXAMPLES, k < 2 ? ROWS : 1, COLUMNS), values[k]);
    }
}

static rf_model *build(rf_strategy *strategy)
{
    rf_result (*const kinds[])(rf_layer **) = { rf_layer_add,     rf_layer_subtract, rf_layer_multiply,
                                                rf_layer_average, rf_layer_maximum,  rf_layer_minimum };
    static const int32_t axes[] = { 1, 0 }; /* 0 stands for the last one */
    rf_model_builder *b;
    rf_symbol in[NUM_INPUTS], out[NUM_OUTPUTS];
    rf_model *model;
    rf_layer *layer;
    OK(rf_model_builder_create(strategy, &b));
    for (uint32_t k = 0; k < NUM_INPUTS; k++)
        in[k] = rf_model_builder_input(b, RF_F32, RF_SHAPE(k < 2 ? ROWS : 1, COLUMNS), NULL);
    for (uint32_t i = 0; i < 6; i++) {
        OK(kinds[i](&layer));
        out[i] = rf_model_builder_call_many(b, layer, in, i == 1 ? 2 : NUM_INPUTS);
    }
    for (uint32_t i = 0; i < 2; i++) {
        OK(rf_layer_concatenate(axes[i], &layer));
        /* Along rows the narrow input fits, too. */
        out[6 + i] = rf_model_builder_call_many(b, layer, in, i == 0 ? NUM_INPUTS : 2);
    }
    OK(rf_model_builder_finish(&b, out, NUM_OUTPUTS, NULL, &model));
    return model;
}

/* Element (row, column) of an example of each output, from those of its inputs. */
static double expected(uint32_t output, uint32_t example, uint32_t row, uint32_t column)
{
    const uint32_t wide = (example * ROWS + row % ROWS) * COLUMNS + column % COLUMNS;
    const double a = (double)number(0, wide), b = (double)number(1, wide);
    const double c = (double)number(2, example * COLUMNS + column % COLUMNS);
    switch (output) {
    case 0: return a + b + c;
    case 1: return a - b;
    case 2: return a * b * c;
    case 3: return (a + b + c) / 3;
    case 4: return fmax(fmax(a, b), c);
    case 5: return fmin(fmin(a, b), c);
    case 6: return row < ROWS ? a : row < 2 * ROWS ? b : c;
    default: return column < COLUMNS ? a : b;
    }
}

static void check_outputs(const rf_array *outputs)
{
    for (uint32_t o = 0; o < NUM_OUTPUTS; o++) {
        const uint32_t rows = o == 6 ? 2 * ROWS + 1 : ROWS, columns = o == 7 ? 2 * COLUMNS : COLUMNS;
        assert_true(rf_shape_equal(outputs[o].shape, RF_SHAPE(EXAMPLES, rows, columns)));
        const float *is = outputs[o].data;
        for (uint32_t i = 0; i < EXAMPLES * rows * columns; i++)
            assert_near((double)is[i], expected(o, i / columns / rows, i / columns % rows, i % columns), 1e-6, 1e-6,
                        "y");
    }
}

static rf_dataset *dataset(void)
{
    float values[NUM_INPUTS][WIDE];
    rf_array arrays[NUM_INPUTS];
    rf_dataset *data, *batched;
    fill(values, arrays);
    OK(rf_dataset_from_arrays(&(rf_dataset_arrays_params){ .arrays = arrays, .num_arrays = NUM_INPUTS }, &data));
    OK(rf_dataset_batch(data, EXAMPLES, RF_REMAINDER_KEEP, &batched));
    rf_dataset_destroy(&data);
    return batched;
}

static void predict(rf_model *model, rf_array outputs[NUM_OUTPUTS])
{
    rf_dataset *data = dataset();
    OK(rf_model_predict_many(model, data, outputs, NUM_OUTPUTS));
    rf_dataset_destroy(&data);
}

/* The same after the model has been in a file, to the last bit. */
static void results(rf_strategy *strategy)
{
    char folder[SCRATCH_PATH], path[128];
    rf_model *model = build(strategy), *loaded;
    assert_int_equal(rf_model_num_inputs(model), NUM_INPUTS);
    assert_int_equal(rf_model_num_outputs(model), NUM_OUTPUTS);
    rf_array outputs[NUM_OUTPUTS], again[NUM_OUTPUTS];
    predict(model, outputs);
    check_outputs(outputs);
    scratch(folder);
    snprintf(path, sizeof(path), "%s/model.rfck", folder);
    OK(rf_model_save(model, path, NULL));
    OK(rf_model_load(strategy, path, &loaded));
    predict(loaded, again);
    for (uint32_t o = 0; o < NUM_OUTPUTS; o++) {
        assert_true(rf_shape_equal(again[o].shape, outputs[o].shape));
        assert_memory_equal(again[o].data, outputs[o].data, (size_t)rf_shape_count(outputs[o].shape) * sizeof(float));
        rf_array_free(&again[o]);
        rf_array_free(&outputs[o]);
    }
    rf_model_destroy(&loaded);
    rf_model_destroy(&model);
    scratch_remove(folder);
}
TEST_ON_ONE(results)
TEST_ON_TWO(results)

/* ---- gradients ---- */

/* The gradient of the sum of all elements of all outputs, by each input. */
static rf_result gradient_step(rf_trace *t, const rf_tensor *in, rf_tensor *out, void *user)
{
    rf_tensor y[NUM_OUTPUTS], loss = rf_constant(t, 0);
    (void)rf_model_apply(t, user, in, NUM_INPUTS, RF_TRAINING, y, NUM_OUTPUTS);
    for (uint32_t o = 0; o < NUM_OUTPUTS; o++) loss = rf_add(t, loss, rf_reduce_sum(t, y[o], NULL, 0, RF_DROP_DIMS));
    return rf_gradients(t, loss, in, NUM_INPUTS, out);
}

/* The gradient that one element of an input gets. */
static double slope(uint32_t input, double a, double b, double c)
{
    const double x[] = { a, b, c };
    double sum = 1 + a * b * c / x[input] + 1.0 / 3 + 1; /* add, multiply, average, concatenate along rows */
    if (input < 2) sum += input == 0 ? 2 : 0;            /* subtract, and concatenate along columns */
    if (x[input] == fmax(fmax(a, b), c)) sum += 1;
    if (x[input] == fmin(fmin(a, b), c)) sum += 1;
    return sum;
}

static void gradients(rf_strategy *strategy)
{
    rf_model *model = build(strategy);
    float values[NUM_INPUTS][WIDE];
    rf_element batch = { .num_components = NUM_INPUTS };
    rf_per_replica *outputs[NUM_INPUTS];
    rf_function *function;
    fill(values, batch.component);
    OK(rf_function_create(
        strategy,
        &(rf_function_params){ .step = gradient_step, .user = model, .num_outputs = NUM_INPUTS, .training = true },
        &function));
    OK(rf_strategy_run(strategy, function, &batch, outputs));
    for (uint32_t k = 0; k < NUM_INPUTS; k++) {
        rf_array is;
        double wanted[WIDE] = { 0 };
        OK(rf_strategy_gather(strategy, outputs[k], &is));
        assert_true(rf_shape_equal(is.shape, batch.component[k].shape));
        for (uint32_t i = 0; i < WIDE; i++) {
            const uint32_t narrow = i / PER_EXAMPLE * COLUMNS + i % COLUMNS;
            const double a = (double)values[0][i], b = (double)values[1][i], c = (double)values[2][narrow];
            /* The narrow input gets it once for each row, but for what was joined along rows. */
            wanted[k < 2 ? i : narrow] += slope(k, a, b, c) - (k == 2 && i / COLUMNS % ROWS > 0 ? 1 : 0);
        }
        for (uint32_t i = 0; i < (k < 2 ? WIDE : NARROW); i++)
            assert_near((double)((const float *)is.data)[i], wanted[i], 1e-5, 1e-5, "gradient");
        rf_array_free(&is);
    }
    rf_function_destroy(&function);
    rf_model_destroy(&model);
}
TEST_ON_ONE(gradients)

/* ---- bidirectional ---- */

enum { UNITS = 3, STEPS = 4 };

/* A model of one bidirectional layer on sequences of COLUMNS, with the weights of another one. */
static rf_model *build_directions(rf_strategy *strategy, rf_merge merge, const rf_model *like)
{
    rf_layer *forward, *both;
    rf_model *model;
    float values[3 * UNITS * (UNITS + COLUMNS)];
    OK(rf_layer_rnn(&(rf_rnn_layer_params){ .kind = RF_RNN_GRU, .units = UNITS, .return_sequences = true }, &forward));
    OK(rf_layer_bidirectional(forward, merge, NULL, &both));
    OK(rf_model_create_sequential(strategy, &both, 1, &RF_SHAPE(STEPS, COLUMNS), &model));
    const rf_variable_list to = rf_model_variables(model), from = rf_model_variables(like ? like : model);
    assert_int_equal(to.count, from.count);
    for (uint32_t i = 0; i < to.count; i++) {
        assert_true(rf_shape_count(rf_variable_shape(to.items[i])) <= (int64_t)(sizeof(values) / sizeof(values[0])));
        OK(rf_variable_read(from.items[i], values));
        OK(rf_variable_assign(to.items[i], values));
    }
    return model;
}

static rf_array predict_sequences(rf_model *model)
{
    float values[EXAMPLES * STEPS * COLUMNS];
    rf_dataset *data, *batched;
    rf_array y;
    for (uint32_t i = 0; i < EXAMPLES * STEPS * COLUMNS; i++) values[i] = number(0, i);
    const rf_array x = array_f32(RF_SHAPE(EXAMPLES, STEPS, COLUMNS), values);
    OK(rf_dataset_from_arrays(&(rf_dataset_arrays_params){ .arrays = &x, .num_arrays = 1 }, &data));
    OK(rf_dataset_batch(data, EXAMPLES, RF_REMAINDER_KEEP, &batched));
    OK(rf_model_predict(model, batched, &y));
    rf_dataset_destroy(&batched);
    rf_dataset_destroy(&data);
    return y;
}

/* Sum, product and mean are those of the halves that are concatenated otherwise. */
static void directions(rf_strategy *strategy)
{
    static const rf_merge merges[] = { RF_MERGE_SUM, RF_MERGE_MULTIPLY, RF_MERGE_AVERAGE };
    rf_model *joined = build_directions(strategy, RF_MERGE_CONCATENATE, NULL);
    rf_array halves = predict_sequences(joined);
    assert_true(rf_shape_equal(halves.shape, RF_SHAPE(EXAMPLES, STEPS, 2 * UNITS)));
    for (uint32_t m = 0; m < 3; m++) {
        rf_model *merged = build_directions(strategy, merges[m], joined);
        rf_array y = predict_sequences(merged);
        assert_true(rf_shape_equal(y.shape, RF_SHAPE(EXAMPLES, STEPS, UNITS)));
        for (uint32_t i = 0; i < EXAMPLES * STEPS * UNITS; i++) {
            const float *pair = (const float *)halves.data + i / UNITS * 2 * UNITS + i % UNITS;
            const double f = (double)pair[0], b = (double)pair[UNITS];
            const double wanted = m == 0 ? f + b : m == 1 ? f * b : (f + b) / 2;
            assert_near((double)((const float *)y.data)[i], wanted, 1e-6, 1e-6, "merged");
        }
        rf_array_free(&y);
        rf_model_destroy(&merged);
    }
    rf_array_free(&halves);
    rf_model_destroy(&joined);
}
TEST_ON_ONE(directions)

/* ---- against PyTorch ---- */

static rf_symbol convolve(rf_model_builder *b, int32_t filters, int32_t size, rf_padding padding, rf_symbol x)
{
    rf_layer *layer;
    OK(rf_layer_conv2d(&(rf_conv2d_layer_params){ .filters = filters,
                                                  .kernel_size = { size },
                                                  .conv = { .padding = padding },
                                                  .activation = RF_ACTIVATION_TANH },
                       &layer));
    return rf_model_builder_call(b, layer, x);
}

static rf_symbol merge_two(rf_model_builder *b, rf_result (*create)(rf_layer **), rf_symbol first, rf_symbol second)
{
    rf_layer *layer;
    OK(create(&layer));
    return rf_model_builder_call_many(b, layer, (rf_symbol[]){ first, second }, 2);
}

static rf_result concatenate_last(rf_layer **layer)
{
    return rf_layer_concatenate(-1, layer);
}

static rf_symbol go_both_ways(rf_model_builder *b, rf_rnn_kind kind, rf_merge merge, bool sequences, rf_symbol x)
{
    rf_layer *forward, *both;
    OK(rf_layer_rnn(&(rf_rnn_layer_params){ .kind = kind, .units = 5, .return_sequences = sequences }, &forward));
    OK(rf_layer_bidirectional(forward, merge, NULL, &both));
    return rf_model_builder_call(b, both, x);
}

/* Two convolutions that meet in many ways, and once more after pooling; and sequences whose two directions do. */
static rf_model *build_merged(rf_strategy *strategy)
{
    rf_layer *average, *means, *maxima, *flat, *whole, *sequence, *all, *dense;
    rf_model_builder *b;
    rf_model *model;
    OK(rf_layer_average(&average));
    OK(rf_layer_avg_pool2d(NULL, &means));
    OK(rf_layer_max_pool2d(NULL, &maxima));
    OK(rf_layer_flatten(&flat));
    OK(rf_layer_global_avg_pool2d(&whole));
    OK(rf_layer_reshape(RF_SHAPE(9, 10), &sequence));
    OK(rf_layer_concatenate(-1, &all));
    OK(rf_layer_dense(&(rf_dense_params){ .units = 4 }, &dense));
    OK(rf_model_builder_create(strategy, &b));
    rf_symbol x = rf_model_builder_input(b, RF_F32, trajectory_example_shape(&trajectory_reference), NULL);
    const rf_symbol first = convolve(b, 5, 3, RF_PADDING_SAME, x), second = convolve(b, 5, 3, RF_PADDING_SAME, x);
    const rf_symbol low = merge_two(b, rf_layer_minimum, first, second);
    const rf_symbol range = merge_two(b, rf_layer_subtract, merge_two(b, rf_layer_maximum, first, second), low);
    const rf_symbol three[] = { range, merge_two(b, rf_layer_multiply, first, second), first };
    x = merge_two(b, concatenate_last, rf_model_builder_call_many(b, average, three, 3), low);
    x = rf_model_builder_call(b, means, x);
    rf_symbol y = rf_model_builder_call(b, sequence, x);
    y = go_both_ways(b, RF_RNN_GRU, RF_MERGE_SUM, true, y);
    y = go_both_ways(b, RF_RNN_LSTM, RF_MERGE_MULTIPLY, true, y);
    y = go_both_ways(b, RF_RNN_SIMPLE, RF_MERGE_AVERAGE, false, y);
    x = convolve(b, 3, 2, RF_PADDING_VALID, x);
    const rf_symbol parts[] = { rf_model_builder_call(b, flat, rf_model_builder_call(b, maxima, x)),
                                rf_model_builder_call(b, whole, x), y };
    x = rf_model_builder_call(b, dense, rf_model_builder_call_many(b, all, parts, 3));
    OK(rf_model_builder_finish(&b, &x, 1, NULL, &model));
    return model;
}

static void follows(rf_strategy *strategy)
{
    rf_model *model = build_merged(strategy);
    trajectory_follow_classifier(&trajectory_reference, strategy, model,
                                 &(rf_optimizer_params){ .kind = RF_OPTIMIZER_ADAM });
    rf_model_destroy(&model);
}
TEST_ON_ONE(follows)
TEST_ON_TWO(follows)

/* ---- mistakes ---- */

static void refuse(rf_strategy *strategy, rf_layer *layer, uint32_t num_in, rf_shape second, const char *message)
{
    rf_model_builder *b;
    rf_model *model;
    OK(rf_model_builder_create(strategy, &b));
    const rf_symbol in[] = { rf_model_builder_input(b, RF_F32, RF_SHAPE(2, 3), NULL),
                             rf_model_builder_input(b, RF_F32, second, NULL),
                             rf_model_builder_input(b, RF_F32, RF_SHAPE(2, 3), NULL) };
    const rf_symbol y = rf_model_builder_call_many(b, layer, in, num_in);
    FAILS(rf_model_builder_finish(&b, &y, 1, NULL, &model), RF_ERROR_INVALID_ARGUMENT, message);
}

/* One line names the layer and the shapes. */
static void mistakes(rf_strategy *strategy)
{
    rf_layer *layer;
    OK(rf_layer_subtract(&layer));
    refuse(strategy, layer, 3, RF_SHAPE(2, 3), "layer 'subtract' (Subtract) takes 2 inputs, got 3");
    OK(rf_layer_maximum(&layer));
    refuse(strategy, layer, 3, RF_SHAPE(2, 4), "layer 'maximum'");
    OK(rf_layer_concatenate(1, &layer));
    refuse(strategy, layer, 3, RF_SHAPE(2, 4), "layer 'concatenate'");
    OK(rf_layer_concatenate(3, &layer));
    refuse(strategy, layer, 3, RF_SHAPE(2, 3), "layer 'concatenate'");
    FAILS(rf_layer_concatenate(RF_MAX_RANK, &layer), RF_ERROR_INVALID_ARGUMENT, "axis");
    assert_null(layer);
}
TEST_ON_ONE(mistakes)

TEST_PROGRAM(merge)
{
    trajectory_file = FIXTURES "/layers_merged.traj";
    return room_tests_run(own_tests, trajectory_open, trajectory_close);
}
