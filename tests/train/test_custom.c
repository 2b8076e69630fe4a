/* SPDX-License-Identifier: Apache-2.0 */
/* Operations with a shader of the program, and layers of the program: those of examples/custom_op. */
#include "custom_op/swish.h"
#include "graph/op.h"
#include "products_data.h"
#include "test_folder.h"

/* The same modules under names of this file's own. */
#define swish_gradient_spirv gradient_module
#define swish_spirv forward_module
#include "swish_gradient_spirv.h"
#include "swish_spirv.h"
#include "tests/room.h"
#undef swish_gradient_spirv
#undef swish_spirv

enum { FEATURES = 3, UNITS = 7, EXAMPLES = 48, BATCH = 12, COUNT = 10 };

/* ---- the shader against its reference ---- */

static void agrees_with_reference(rf_strategy *strategy)
{
    static const int64_t shapes[][2] = { { 1, 1 }, { 1, 63 }, { 13, 5 }, { 64, 64 }, { 257, 129 } };
    swish_ops ops;
    OK(swish_create(&ops));
    for (size_t i = 0; i < sizeof(shapes) / sizeof(shapes[0]); i++) {
        const int64_t rows = shapes[i][0], columns = shapes[i][1];
        float *x = malloc((size_t)(2 * rows + 1) * (size_t)columns * sizeof(float));
        fill_noise(x, (size_t)((2 * rows + 1) * columns), 5);
        const rf_array in[] = { array_f32(RF_SHAPE(rows, columns), x),
                                array_f32(RF_SHAPE(columns), x + 2 * rows * columns),
                                array_f32(RF_SHAPE(rows, columns), x + rows * columns) };
        OK(rf_custom_op_check(strategy, ops.forward, NULL, in, 2, 1e-5, 1e-6));
        OK(rf_custom_op_check(strategy, ops.gradient, NULL, in, 3, 1e-5, 1e-6));
        FAILS(rf_custom_op_check(strategy, ops.forward, NULL, in, 3, 0, 0), RF_ERROR_INVALID_ARGUMENT, "2 inputs");
        free(x);
    }
    swish_destroy(&ops);
}

static rf_result wrong_reference(const rf_custom_call *call, const void *const *inputs, void *const *outputs)
{
    memcpy(outputs[0], inputs[0], (size_t)rf_shape_count(call->inputs[0].shape) * sizeof(float));
    return RF_OK;
}

/* ---- what creating one refuses ---- */

static rf_result infer_first(const rf_custom_call *call, rf_custom_tensor *outputs)
{
    outputs[0] = call->inputs[0];
    return RF_OK;
}

static rf_result dispatch_too_much(const rf_custom_call *call, rf_custom_dispatch *dispatch)
{
    (void)call;
    dispatch->groups[2] = UINT32_MAX;
    return RF_OK;
}

static void count_destroyed(void *user)
{
    ++*(int *)user;
}

static int destroyed;
static const rf_custom_op_params good = { .name = "swish",
                                          .spirv = forward_module,
                                          .spirv_size = sizeof(forward_module),
                                          .num_inputs = 2,
                                          .num_outputs = 1,
                                          .push_size = 8,
                                          .local_size = { 64 },
                                          .infer = infer_first,
                                          .dispatch = dispatch_too_much,
                                          .reference = wrong_reference,
                                          .user = &destroyed,
                                          .destroy = count_destroyed };

TEST(refuses_what_does_not_fit)
{
    rf_custom_op *op;
    rf_custom_op_params p = good;
    destroyed = 0;
    OK(rf_custom_op_create(&p, &op));
    rf_custom_op_destroy(&op);
    assert_null(op);
    assert_int_equal(destroyed, 1);
#define REFUSES(change, code, part)                                                                                    \
    do {                                                                                                               \
        p = good;                                                                                                      \
        change;                                                                                                        \
        destroyed = 0;                                                                                                 \
        FAILS(rf_custom_op_create(&p, &op), code, part);                                                               \
        assert_null(op);                                                                                               \
        assert_int_equal(destroyed, 1);                                                                                \
    } while (0)
    REFUSES(p.name = NULL, RF_ERROR_INVALID_ARGUMENT, "name");
    REFUSES(p.infer = NULL, RF_ERROR_INVALID_ARGUMENT, "infer");
    REFUSES(p.push_size = 12, RF_ERROR_INVALID_ARGUMENT, "push_size is 12, but the shader's push constants take 8");
    REFUSES(p.push_size = 6, RF_ERROR_INVALID_ARGUMENT, "multiple of 4");
    REFUSES(p.num_inputs = 1, RF_ERROR_INVALID_ARGUMENT, "binding 2");
    REFUSES(p.num_outputs = 2, RF_ERROR_INVALID_ARGUMENT, "output 1 is binding 3");
    REFUSES(p.num_inputs = 3, RF_ERROR_INVALID_ARGUMENT, "readonly");
    REFUSES(p.num_inputs = 9, RF_ERROR_INVALID_ARGUMENT, "1 to 8");
    REFUSES(p.local_size[1] = 2, RF_ERROR_INVALID_ARGUMENT, "local_size_y_id = 1");
    REFUSES(p.attribute_size = 257, RF_ERROR_INVALID_ARGUMENT, "attributes");
    REFUSES(p.spirv_size = 18, RF_ERROR_INVALID_ARGUMENT, "no SPIR-V");
    REFUSES(p.spirv_size -= 12, RF_ERROR_INVALID_ARGUMENT, "wrong length");
    REFUSES(p.spirv = forward_module + 1; p.spirv_size -= 4, RF_ERROR_INVALID_ARGUMENT, "no SPIR-V");
    REFUSES(p.spirv = gradient_module; p.spirv_size = sizeof(gradient_module), RF_ERROR_INVALID_ARGUMENT, "binding 3");
#undef REFUSES
}

/* Each word of the module in turn is something else: an error or an op, never a crash. */
TEST(survives_damage)
{
    static const uint32_t values[] = { 0, 1, 0x00010011, 0xffffffff, 0x7fffffff, 0x00050047 };
    uint32_t words[sizeof(forward_module) / 4];
    uint32_t refused = 0;
    for (size_t w = 0; w < sizeof(words) / 4; w += 3)
        for (size_t v = 0; v < sizeof(values) / sizeof(values[0]); v++) {
            memcpy(words, forward_module, sizeof(words));
            words[w] = values[v];
            rf_custom_op_params p = good;
            p.spirv = words;
            rf_custom_op *op;
            const rf_result r = rf_custom_op_create(&p, &op);
            assert_true(r == RF_OK || (r < 0 && strstr(rf_error_message(), "swish") && !op));
            refused += r < 0;
            rf_custom_op_destroy(&op);
        }
    assert_true(refused > 100);
}

/* On devices that are not here. An rf_custom_op begins with its rf_op. */
TEST(names_what_a_device_lacks)
{
    swish_ops ops;
    OK(swish_create(&ops));
    const rf_op *op = (const rf_op *)ops.forward;
    const rf_tensor_desc x = { RF_F32, RF_SHAPE(100, 8) }, beta = { RF_F32, RF_SHAPE(8) };
    rf_op_call call = { .op = op, .n_in = 2, .n_out = 1, .in = { x, beta } };
    OK(op->infer(&call));
    const rf_device_caps enough = { .max_workgroup_size = { 128, 128, 64 },
                                    .max_workgroup_invocations = 128,
                                    .max_grid = { 65535, 65535, 65535 },
                                    .max_shared_memory = 16384,
                                    .max_push_constants = 128,
                                    .max_storage_range = 3200,
                                    .buffer_alignment = 256 };
    rf_device_caps caps = enough;
    rf_kernel_plan plan = { 0 };
    OK(rf_kernel_plan_make(rf_op_kernel(op, 0), &call, &caps, &plan));
    assert_int_equal(plan.items[0].grid[0], 13);
    rf_kernel_plan_free(&plan);
#define LACKS(field, value, part)                                                                                      \
    do {                                                                                                               \
        caps = enough;                                                                                                 \
        caps.field = (value);                                                                                          \
        FAILS(rf_kernel_plan_make(rf_op_kernel(op, 0), &call, &caps, &plan), RF_ERROR_UNSUPPORTED, part);              \
        assert_non_null(strstr(rf_error_message(), "swish"));                                                          \
        rf_kernel_plan_free(&plan);                                                                                    \
    } while (0)
    LACKS(max_storage_range, 3199, "input 0 has 3200 bytes");
    LACKS(max_workgroup_size[0], 32, "workgroups of 64 x 1 x 1");
    LACKS(max_workgroup_invocations, 32, "workgroups of 64 x 1 x 1");
    LACKS(max_grid[0], 12, "a grid of 13 x 1 x 1");
    LACKS(max_push_constants, 4, "push constants");
#undef LACKS
    const rf_tensor_desc wrong = { RF_F32, RF_SHAPE(7) };
    call.in[1] = wrong;
    FAILS(op->infer(&call), RF_ERROR_INVALID_ARGUMENT, "'swish': its inference refuses inputs of f32[100,8], f32[7]");
    swish_destroy(&ops);
}

/* ---- steps ---- */

typedef struct op_step {
    swish_ops *ops;
    const rf_custom_op *op;
    rf_variable *x, *beta;
    float weights[COUNT];
} op_step;

static rf_result gradient_step(rf_trace *t, const rf_tensor *in, rf_tensor *out, void *user)
{
    (void)in;
    op_step *s = user;
    const rf_array weights = array_f32(RF_SHAPE(COUNT / 2, 2), s->weights);
    const rf_tensor x[] = { rf_variable_tensor(t, s->x), rf_variable_tensor(t, s->beta) };
    rf_tensor y;
    rf_custom_op_call(t, s->op, NULL, x, 2, &y, 1);
    const rf_tensor loss =
        rf_reduce_sum(t, rf_multiply(t, rf_square(t, y), rf_constant_array(t, &weights)), NULL, 0, RF_DROP_DIMS);
    if (s->op == s->ops->forward) return rf_gradients(t, loss, x, 2, out);
    out[0] = out[1] = loss;
    return rf_trace_status(t);
}

static double loss_at(const float *w, const double *x, const double *beta)
{
    double sum = 0;
    for (int i = 0; i < COUNT; i++) {
        const double y = x[i] / (1 + exp(-beta[i % 2] * x[i]));
        sum += (double)w[i] * y * y;
    }
    return sum;
}

/* By central differences of the loss in double. */
static void gradients_are_differences(rf_strategy *strategy)
{
    swish_ops ops;
    OK(swish_create(&ops));
    op_step s = { .ops = &ops, .op = ops.forward };
    float x[COUNT], beta[2] = { 0.7f, 1.4f };
    fill_noise(x, COUNT, 3);
    fill_noise(s.weights, COUNT, 4);
    OK(rf_variable_create(strategy, &(rf_variable_params){ .shape = RF_SHAPE(COUNT / 2, 2), .value = x }, &s.x));
    OK(rf_variable_create(strategy, &(rf_variable_params){ .shape = RF_SHAPE(2), .value = beta }, &s.beta));
    rf_function *function;
    OK(rf_function_create(strategy, &(rf_function_params){ .step = gradient_step, .user = &s, .num_outputs = 2 },
                          &function));
    float nothing[2] = { 0 };
    const rf_element batch = { 1, { array_f32(RF_SHAPE(2), nothing) } };
    rf_per_replica *results[RF_MAX_COMPONENTS];
    OK(rf_strategy_run(strategy, function, &batch, results));
    swish_destroy(&ops); /* the function keeps the operations */
    OK(rf_strategy_run(strategy, function, &batch, results));
    for (int k = 0; k < COUNT + 2; k++) {
        double p[COUNT + 2], side[2];
        for (int sign = 0; sign < 2; sign++) {
            for (int i = 0; i < COUNT + 2; i++) p[i] = (double)(i < COUNT ? x[i] : beta[i - COUNT]);
            p[k] += sign ? 1e-5 : -1e-5;
            side[sign] = loss_at(s.weights, p, p + COUNT);
        }
        rf_array local;
        OK(rf_per_replica_local(results[k < COUNT ? 0 : 1], 0, &local));
        assert_near((double)((float *)local.data)[k < COUNT ? k : k - COUNT], (side[1] - side[0]) / 2e-5, 1e-4, 1e-6,
                    "gradient");
    }
    rf_function_destroy(&function);
    rf_variable_destroy(&s.x);
    rf_variable_destroy(&s.beta);
}

static rf_result dispatch_count(const rf_custom_call *call, rf_custom_dispatch *dispatch)
{
    dispatch->push[0] = (uint32_t)rf_shape_count(call->inputs[0].shape);
    dispatch->push[1] = (uint32_t)call->inputs[1].shape.dim[0];
    return RF_OK;
}

/* A reference that is wrong is seen, and so is one that is missing. */
static void compares_with_reference(rf_strategy *strategy)
{
    float ones[COUNT];
    for (int i = 0; i < COUNT; i++) ones[i] = 1.0f;
    const rf_array in[] = { array_f32(RF_SHAPE(COUNT / 2, 2), ones), array_f32(RF_SHAPE(2), ones) };
    rf_custom_op_params p = good;
    rf_custom_op *op;
    p.dispatch = dispatch_count;
    OK(rf_custom_op_create(&p, &op));
    FAILS(rf_custom_op_check(strategy, op, NULL, in, 2, 1e-5, 0), RF_ERROR_INTERNAL, "the reference gives 1");
    OK(rf_custom_op_check(strategy, op, NULL, in, 2, 0.5, 0));
    rf_custom_op_destroy(&op);
    p.reference = NULL;
    OK(rf_custom_op_create(&p, &op));
    FAILS(rf_custom_op_check(strategy, op, NULL, in, 2, 0, 0), RF_ERROR_UNSUPPORTED, "no reference");
    rf_custom_op_destroy(&op);
}

static void refuses_in_steps(rf_strategy *strategy)
{
    float x[COUNT] = { 0 }, nothing[2] = { 0 };
    rf_custom_op *op;
    rf_custom_op_params p = good;
    OK(rf_custom_op_create(&p, &op));
    const rf_array in[] = { array_f32(RF_SHAPE(COUNT / 2, 2), x), array_f32(RF_SHAPE(2), x) };
    FAILS(rf_custom_op_check(strategy, op, NULL, in, 2, 0, 0), RF_ERROR_UNSUPPORTED, "workgroups");
    swish_ops ops = { op, NULL };
    op_step s = { .ops = &ops, .op = op };
    OK(rf_variable_create(strategy, &(rf_variable_params){ .shape = RF_SHAPE(COUNT / 2, 2), .value = x }, &s.x));
    OK(rf_variable_create(strategy, &(rf_variable_params){ .shape = RF_SHAPE(2), .value = x }, &s.beta));
    rf_function *function;
    const rf_element batch = { 1, { array_f32(RF_SHAPE(2), nothing) } };
    rf_per_replica *results[RF_MAX_COMPONENTS];
    const rf_function_params params = { .step = gradient_step, .user = &s, .num_outputs = 2 };
    OK(rf_function_create(strategy, &params, &function));
    FAILS(rf_strategy_run(strategy, function, &batch, results), RF_ERROR_NO_GRADIENT, "'swish' has no gradient");
    rf_function_destroy(&function);
    swish_ops other = { NULL, NULL };
    s.ops = &other;
    OK(rf_function_create(strategy, &params, &function));
    FAILS(rf_strategy_run(strategy, function, &batch, results), RF_ERROR_UNSUPPORTED, "swish");
    rf_function_destroy(&function);
    rf_custom_op_destroy(&op);
    rf_variable_destroy(&s.x);
    rf_variable_destroy(&s.beta);
}

/* ---- layers ---- */

static rf_model *make_model(rf_strategy *strategy, const swish_ops *ops)
{
    rf_layer *l[3];
    rf_model *model;
    OK(rf_layer_dense(&(rf_dense_params){ .units = UNITS, .kernel_initializer = { .seed = 1 } }, &l[0]));
    OK(swish_layer(ops, NULL, &l[1]));
    OK(rf_layer_dense(&(rf_dense_params){ .units = 1, .kernel_initializer = { .seed = 2 } }, &l[2]));
    OK(rf_model_create_sequential(strategy, l, 3, NULL, &model));
    OK(rf_model_build(model, RF_SHAPE(FEATURES)));
    return model;
}

enum { WEIGHTS = FEATURES * UNITS + UNITS + UNITS + UNITS + 1 };

static void train_model(rf_strategy *strategy, const swish_ops *ops, float *weights)
{
    rf_model *model = make_model(strategy, ops);
    rf_dataset *data = products_data(EXAMPLES, FEATURES, BATCH);
    rf_optimizer *optimizer;
    OK(rf_optimizer_create(strategy, &(rf_optimizer_params){ .kind = RF_OPTIMIZER_SGD, .learning_rate = 0.05 },
                           &optimizer));
    OK(rf_model_compile(
        model, &(rf_compile_params){ .optimizer = optimizer, .loss = { .kind = RF_LOSS_MEAN_SQUARED_ERROR } }));
    OK(rf_model_fit(model, &(rf_fit_params){ .data = data, .epochs = 4 }, NULL));
    OK(rf_strategy_check_identical(strategy, NULL, NULL));
    const rf_variable_list list = rf_model_variables(model);
    assert_int_equal(list.count, 5);
    assert_string_equal(rf_variable_name(list.items[2]), "swish/beta");
    for (uint32_t i = 0; i < list.count; i++) {
        OK(rf_variable_read(list.items[i], weights));
        weights += rf_shape_count(rf_variable_shape(list.items[i]));
    }
    rf_model_destroy(&model);
    rf_optimizer_destroy(&optimizer);
    rf_dataset_destroy(&data);
}

/* As with the library's operations, and on one replica as on two. */
static void trains_alike(rf_strategy *strategy)
{
    float with_shader[WEIGHTS], built_in[WEIGHTS], alone[WEIGHTS];
    swish_ops ops;
    OK(swish_create(&ops));
    rf_strategy *one;
    OK(rf_strategy_create_mirrored(&(rf_mirrored_params){ .devices = "llvmpipe" }, &one));
    train_model(strategy, &ops, with_shader);
    train_model(strategy, NULL, built_in);
    train_model(one, &ops, alone);
    float moved = 0;
    for (int i = 0; i < UNITS; i++) moved = fmaxf(moved, fabsf(with_shader[FEATURES * UNITS + UNITS + i] - 1.0f));
    if (!(moved > 1e-4f)) fail_msg("beta has moved by %g only", (double)moved);
    for (int i = 0; i < WEIGHTS; i++) {
        assert_near((double)with_shader[i], (double)built_in[i], 1e-5, 1e-6, "built-in");
        assert_near((double)with_shader[i], (double)alone[i], 1e-5, 1e-6, "one replica");
    }
    rf_strategy_destroy(&one);
    swish_destroy(&ops);
}

static rf_result call_plain(rf_trace *t, const rf_layer *layer, const rf_tensor *inputs, rf_tensor *outputs,
                            rf_mode mode, void *user)
{
    (void)layer;
    (void)mode;
    (void)user;
    outputs[0] = rf_square(t, inputs[0]);
    return rf_trace_status(t);
}

static void is_in_files(rf_strategy *strategy)
{
    char saved[160], weights[160];
    snprintf(saved, sizeof(saved), "%s", in_folder("saved"));
    snprintf(weights, sizeof(weights), "%s", in_folder("weights"));
    swish_ops ops;
    OK(swish_create(&ops));
    rf_dataset *data = products_data(EXAMPLES, FEATURES, BATCH);
    rf_model *model = make_model(strategy, &ops), *loaded;
    float beta[UNITS];
    fill_noise(beta, UNITS, 6);
    OK(rf_variable_assign(rf_model_variables(model).items[2], beta));
    rf_array want, got;
    OK(rf_model_predict(model, data, &want));
    OK(rf_model_save(model, saved, NULL));
    OK(rf_model_save_weights(model, weights, NULL));
    FAILS(rf_model_export(model, in_folder("exported"), NULL), RF_ERROR_UNSUPPORTED, "custom op 'swish'");
    FAILS(rf_model_export_onnx(model, in_folder("onnx")), RF_ERROR_UNSUPPORTED, "custom op 'swish'");
    rf_model_destroy(&model);
    FAILS(rf_model_load(strategy, saved, &loaded), RF_ERROR_UNSUPPORTED, "rf_custom_layer_register");
    OK(swish_register(&ops));
    OK(rf_model_load(strategy, saved, &loaded));
    OK(rf_model_predict(loaded, data, &got));
    assert_memory_equal(got.data, want.data, EXAMPLES * sizeof(float));
    rf_array_free(&got);
    rf_model_destroy(&loaded);
    OK(rf_custom_layer_register("swish", NULL, NULL));
    model = make_model(strategy, &ops);
    OK(rf_model_load_weights(model, weights));
    OK(rf_model_predict(model, data, &got));
    assert_memory_equal(got.data, want.data, EXAMPLES * sizeof(float));
    rf_array_free(&got);
    rf_array_free(&want);
    rf_model_destroy(&model);
    /* A layer without a config. */
    rf_layer *layer;
    destroyed = 0;
    OK(rf_layer_custom(
        &(rf_custom_layer_params){
            .type = "plain", .call = call_plain, .user = &destroyed, .destroy = count_destroyed },
        &layer));
    OK(rf_model_create_sequential(strategy, &layer, 1, NULL, &model));
    OK(rf_model_build(model, RF_SHAPE(FEATURES)));
    FAILS(rf_model_save(model, saved, NULL), RF_ERROR_UNSUPPORTED, "layer 'plain'");
    FAILS(rf_custom_layer_add_variable(layer, &(rf_custom_variable_params){ .name = "late" }),
          RF_ERROR_INVALID_ARGUMENT, "build function");
    rf_model_destroy(&model);
    assert_int_equal(destroyed, 1);
    FAILS(rf_layer_custom(&(rf_custom_layer_params){ .type = "plain" }, &layer), RF_ERROR_INVALID_ARGUMENT, "call");
    rf_dataset_destroy(&data);
    swish_destroy(&ops);
}

/* A functional model that applies one layer twice, saved and loaded. */
static void is_in_graphs(rf_strategy *strategy)
{
    char saved[160];
    snprintf(saved, sizeof(saved), "%s", in_folder("graph"));
    swish_ops ops;
    OK(swish_create(&ops));
    OK(swish_register(&ops));
    rf_model_builder *b;
    rf_layer *swish, *add;
    rf_model *model, *loaded;
    OK(swish_layer(&ops, NULL, &swish));
    OK(rf_layer_add(&add));
    OK(rf_model_builder_create(strategy, &b));
    const rf_symbol x = rf_model_builder_input(b, RF_F32, RF_SHAPE(FEATURES), NULL);
    OK(rf_model_builder_enter_scope(b, "block"));
    const rf_symbol once = rf_model_builder_call(b, swish, x), twice = rf_model_builder_call(b, swish, once);
    const rf_symbol sum = rf_model_builder_call_many(b, add, (const rf_symbol[]){ once, twice }, 2);
    OK(rf_model_builder_leave_scope(b));
    OK(rf_model_builder_finish(&b, &sum, 1, NULL, &model));
    assert_int_equal(rf_model_variables(model).count, 1);
    assert_string_equal(rf_variable_name(rf_model_variables(model).items[0]), "block/swish/beta");
    OK(rf_model_save(model, saved, NULL));
    OK(rf_model_load(strategy, saved, &loaded));
    rf_dataset *data = products_data(EXAMPLES, FEATURES, BATCH);
    rf_array of[2];
    OK(rf_model_predict(model, data, &of[0]));
    OK(rf_model_predict(loaded, data, &of[1]));
    assert_memory_equal(of[0].data, of[1].data, EXAMPLES * FEATURES * sizeof(float));
    for (int i = 0; i < 2; i++) rf_array_free(&of[i]);
    OK(rf_custom_layer_register("swish", NULL, NULL));
    rf_dataset_destroy(&data);
    rf_model_destroy(&model);
    rf_model_destroy(&loaded);
    swish_destroy(&ops);
}

TEST_ON_ONE(is_in_graphs)
TEST_ON_ALL(agrees_with_reference)
TEST_ON_ALL(gradients_are_differences)
TEST_ON_ONE(compares_with_reference)
TEST_ON_ONE(refuses_in_steps)
TEST_ON_TWO(trains_alike)
TEST_ON_ONE(is_in_files)

TESTS(custom, make_folder, remove_folder)
