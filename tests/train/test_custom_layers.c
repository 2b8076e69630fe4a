/* SPDX-License-Identifier: Apache-2.0 */
/* Layers of the program with several inputs, state and a penalty, under every strategy, and operations of the program
 * in checkpoints and traces. */
#include <ringfire/profile.h>

#include "custom_op/swish.h"
#include "products_data.h"
#include "test_folder.h"
#include "tests/room.h"

enum { FEATURES = 5, UNITS = 6, EXAMPLES = 48, BATCH = 12, EPOCHS = 3 };
#define PENALTY 0.25f
#define FIRST_GAIN 0.75f

/* ---- a layer: a * sigmoid(gain * b), which counts the steps that it was trained in ---- */

static rf_result build_gate(rf_layer *layer, const rf_custom_tensor *inputs, uint32_t num_inputs, void *user)
{
    const float *penalty = user;
    if (num_inputs != 2 || !rf_shape_equal(inputs[0].shape, inputs[1].shape)) return RF_ERROR_INVALID_ARGUMENT;
    const rf_result r = rf_custom_layer_add_variable(
        layer, &(rf_custom_variable_params){ .name = "gain",
                                             .shape = RF_SHAPE(inputs[0].shape.dim[1]),
                                             .initializer = { .kind = RF_INIT_CONSTANT, .a = FIRST_GAIN },
                                             .regularizer = { .l2 = *penalty } });
    if (r < 0) return r;
    return rf_custom_layer_add_variable(layer, &(rf_custom_variable_params){ .name = "steps",
                                                                             .shape = RF_SCALAR_SHAPE,
                                                                             .initializer = { .kind = RF_INIT_ZEROS },
                                                                             .not_trainable = true });
}

static rf_result call_gate(rf_trace *t, const rf_layer *layer, const rf_tensor *inputs, rf_tensor *outputs,
                           rf_mode mode, void *user)
{
    (void)user;
    rf_variable *steps = rf_layer_variable(layer, "steps");
    const rf_tensor gain = rf_variable_tensor(t, rf_layer_variable(layer, "gain"));
    outputs[0] = rf_multiply(t, inputs[0], rf_sigmoid(t, rf_multiply(t, inputs[1], gain)));
    if (mode == RF_TRAINING)
        rf_variable_update(t, steps, rf_add(t, rf_variable_tensor(t, steps), rf_constant(t, 1)),
                           RF_AGGREGATE_FIRST_REPLICA);
    return rf_trace_status(t);
}

static rf_layer *make_gate(const float *penalty)
{
    rf_layer *layer;
    OK(rf_layer_custom(&(rf_custom_layer_params){ .type = "gate",
                                                  .num_inputs = 2,
                                                  .build = build_gate,
                                                  .call = call_gate,
                                                  .user = (void *)(uintptr_t)penalty },
                       &layer));
    return layer;
}

static rf_layer *make_dense(int32_t units, uint64_t seed)
{
    rf_layer *layer;
    OK(rf_layer_dense(&(rf_dense_params){ .units = units, .kernel_initializer = { .seed = seed } }, &layer));
    return layer;
}

/* Two dense layers through the gate, the shader's swish, and one number. */
static rf_model *make_model(rf_strategy *strategy, const swish_ops *ops, const float *penalty)
{
    rf_model_builder *b;
    rf_model *model;
    rf_layer *swish;
    OK(rf_model_builder_create(strategy, &b));
    const rf_symbol x = rf_model_builder_input(b, RF_F32, RF_SHAPE(FEATURES), NULL);
    const rf_symbol sides[] = { rf_model_builder_call(b, make_dense(UNITS, 1), x),
                                rf_model_builder_call(b, make_dense(UNITS, 2), x) };
    const rf_symbol gated = rf_model_builder_call_many(b, make_gate(penalty), sides, 2);
    OK(swish_layer(ops, NULL, &swish));
    const rf_symbol y = rf_model_builder_call(b, make_dense(1, 3), rf_model_builder_call(b, swish, gated));
    OK(rf_model_builder_finish(&b, &y, 1, NULL, &model));
    return model;
}

typedef struct training {
    rf_model *model;
    rf_dataset *data;
    rf_optimizer *optimizer;
} training;

static void begin(rf_strategy *strategy, const swish_ops *ops, const float *penalty, training *t)
{
    t->model = make_model(strategy, ops, penalty);
    t->data = products_data(EXAMPLES, FEATURES, BATCH);
    OK(rf_optimizer_create(strategy, &(rf_optimizer_params){ .kind = RF_OPTIMIZER_ADAM, .learning_rate = 0.02 },
                           &t->optimizer));
    OK(rf_model_compile(
        t->model, &(rf_compile_params){ .optimizer = t->optimizer, .loss = { .kind = RF_LOSS_MEAN_SQUARED_ERROR } }));
}

static void end(training *t)
{
    rf_model_destroy(&t->model);
    rf_optimizer_destroy(&t->optimizer);
    rf_dataset_destroy(&t->data);
}

enum { MOST_WEIGHTS = 256 };

/* Those that are trained, then the layer's state; how many. */
static size_t read_weights(const rf_model *model, float *weights)
{
    const rf_variable_list lists[] = { rf_model_variables(model), rf_model_state_variables(model) };
    size_t count = 0;
    for (int l = 0; l < 2; l++)
        for (uint32_t i = 0; i < lists[l].count; i++) {
            const size_t size = (size_t)rf_shape_count(rf_variable_shape(lists[l].items[i]));
            assert_true(count + size <= MOST_WEIGHTS);
            OK(rf_variable_read(lists[l].items[i], weights + count));
            count += size;
        }
    return count;
}

static size_t train(rf_strategy *strategy, const swish_ops *ops, float *weights)
{
    const float penalty = PENALTY;
    float steps;
    training t;
    begin(strategy, ops, &penalty, &t);
    OK(rf_model_fit(t.model, &(rf_fit_params){ .data = t.data, .epochs = EPOCHS }, NULL));
    OK(rf_strategy_check_identical(strategy, NULL, NULL));
    assert_string_equal(rf_variable_name(rf_model_state_variables(t.model).items[0]), "gate/steps");
    OK(rf_variable_read(rf_model_state_variables(t.model).items[0], &steps));
    assert_true(steps == EPOCHS * EXAMPLES / BATCH);
    const size_t count = read_weights(t.model, weights);
    end(&t);
    return count;
}

/* On two replicas or in a job as on one device, and so under central storage. */
static void trains_alike(rf_strategy *strategy)
{
    float alone[MOST_WEIGHTS], is[MOST_WEIGHTS];
    rf_strategy *other;
    swish_ops ops;
    OK(swish_create(&ops));
    OK(rf_strategy_create_one_device(&(rf_one_device_params){ .device = "llvmpipe" }, &other));
    const size_t count = train(other, &ops, alone);
    rf_strategy_destroy(&other);
    train(strategy, &ops, is);
    for (size_t i = 0; i < count; i++) assert_near((double)is[i], (double)alone[i], 1e-5, 1e-6, "weight");
    const rf_central_storage_params central = { .mirrored = { .devices = "llvmpipe,llvmpipe" } };
    OK(rf_strategy_create_central_storage(&central, &other));
    train(other, &ops, is);
    for (size_t i = 0; i < count; i++) assert_near((double)is[i], (double)alone[i], 1e-5, 1e-6, "central storage");
    rf_strategy_destroy(&other);
    swish_destroy(&ops);
}
TEST_ON_TWO(trains_alike)

static double loss_with(rf_strategy *strategy, const swish_ops *ops, const float *penalty)
{
    training t;
    double loss;
    begin(strategy, ops, penalty, &t);
    rf_logs logs;
    OK(rf_model_evaluate(t.model, t.data, &logs));
    assert_true(rf_logs_get(&logs, "loss", &loss));
    end(&t);
    return loss;
}

/* The loss has the penalty of the layer's variable in it. */
static void is_penalised(rf_strategy *strategy)
{
    const float penalty = PENALTY, none = 0;
    swish_ops ops;
    OK(swish_create(&ops));
    const double difference = loss_with(strategy, &ops, &penalty) - loss_with(strategy, &ops, &none);
    assert_near(difference, (double)(PENALTY * UNITS * FIRST_GAIN * FIRST_GAIN), 1e-5, 0, "penalty");
    swish_destroy(&ops);
}
TEST_ON_ONE(is_penalised)

/* ---- checkpoints ---- */

/* Saved in mid training and restored, it goes on with the same bits, state of the layer included. */
static void resumes(rf_strategy *strategy)
{
    const float penalty = PENALTY;
    float want[MOST_WEIGHTS], is[MOST_WEIGHTS];
    size_t count = 0;
    swish_ops ops;
    OK(swish_create(&ops));
    for (int again = 0; again < 2; again++) {
        training t;
        rf_checkpoint *checkpoint;
        begin(strategy, &ops, &penalty, &t);
        OK(rf_checkpoint_create(strategy, &checkpoint));
        OK(rf_checkpoint_add_model(checkpoint, "model", t.model));
        OK(rf_checkpoint_add_optimizer(checkpoint, "optimizer", t.optimizer));
        if (again) {
            OK(rf_checkpoint_restore(checkpoint, in_folder("custom.rfck"), NULL));
        } else {
            OK(rf_model_fit(t.model, &(rf_fit_params){ .data = t.data, .epochs = 2 }, NULL));
            OK(rf_checkpoint_save(checkpoint, in_folder("custom.rfck"), NULL));
        }
        OK(rf_model_fit(t.model, &(rf_fit_params){ .data = t.data, .epochs = 1 }, NULL));
        count = read_weights(t.model, again ? is : want);
        rf_checkpoint_destroy(&checkpoint);
        end(&t);
    }
    assert_memory_equal(is, want, count * sizeof(float));
    swish_destroy(&ops);
}
TEST_ON_ONE(resumes)

/* ---- traces ---- */

static char *read_text(const char *path)
{
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    assert_int_equal(fseek(file, 0, SEEK_END), 0);
    const long size = ftell(file);
    char *text = calloc((size_t)size + 1, 1);
    rewind(file);
    assert_int_equal(fread(text, 1, (size_t)size, file), size);
    assert_int_equal(fclose(file), 0);
    return text;
}

/* The operations of the program have their own names. */
static void is_in_traces(rf_strategy *strategy)
{
    float weights[MOST_WEIGHTS];
    swish_ops ops;
    OK(swish_create(&ops));
    OK(rf_profiler_start(&(rf_profiler_params){ .path = in_folder("trace.json"), .op_interval = 1 }));
    train(strategy, &ops, weights);
    OK(rf_profiler_stop());
    char *text = read_text(in_folder("trace.json"));
    assert_non_null(strstr(text, "\"swish (shader)\""));
    assert_non_null(strstr(text, "\"swish_gradient (shader)\""));
    free(text);
    swish_destroy(&ops);
}
TEST_ON_ONE(is_in_traces)

/* ---- operations that come and go ---- */

static void is_made_again(rf_strategy *strategy)
{
    float x[64];
    fill_noise(x, 64, 2);
    const rf_array in[] = { array_f32(RF_SHAPE(8, 8), x), array_f32(RF_SHAPE(8), x) };
    swish_ops kept, ops;
    OK(swish_create(&kept));
    for (int i = 0; i < 20; i++) {
        OK(swish_create(&ops));
        OK(rf_custom_op_check(strategy, ops.forward, NULL, in, 2, 1e-5, 1e-6));
        swish_destroy(&ops);
        OK(rf_custom_op_check(strategy, kept.forward, NULL, in, 2, 1e-5, 1e-6));
    }
    swish_destroy(&kept);
}
TEST_ON_ONE(is_made_again)

TESTS(custom_layers, make_folder, remove_folder)
