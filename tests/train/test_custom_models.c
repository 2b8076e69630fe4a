/* SPDX-License-Identifier: Apache-2.0 */
/* Layers that a model uses when it is called belong to it: trained, counted, saved, restored, shown and exported. */
#include <ringfire/interchange.h>

#include "test_folder.h"
#include "tests/room.h"

enum { FEATURES = 6, HIDDEN = 5, CLASSES = 3, EXAMPLES = 60, BATCH = 12 };

/* y = head(body(x) * scale + offset): `body` is a model of its own, `scale` is the program's, `offset` cannot be
 * trained, and the head's bias is made by a lambda layer's function. */
typedef struct net {
    rf_model *body, *model;
    rf_layer *head, *shift;
    rf_variable *scale, *offset, *bias;
} net;

static rf_tensor call_net(rf_trace *t, rf_model *model, rf_tensor x, rf_mode mode, void *user)
{
    const net *n = user;
    rf_tensor y = rf_model_call(t, n->body, x, mode);
    y = rf_add(t, rf_multiply(t, y, rf_variable_tensor(t, n->scale)), rf_variable_tensor(t, n->offset));
    return rf_layer_call(t, model, n->shift, rf_layer_call(t, model, n->head, y, mode), mode);
}

static rf_tensor add_bias(rf_trace *t, rf_tensor x, void *user)
{
    return rf_bias_add(t, x, rf_variable_tensor(t, *(rf_variable **)user));
}

static void make_variable(rf_strategy *strategy, const char *name, int64_t count, bool fixed, rf_variable **out)
{
    OK(rf_variable_create(strategy,
                          &(rf_variable_params){ .name = name,
                                                 .shape = RF_SHAPE(count),
                                                 .initializer = { RF_INIT_CONSTANT, 0.5f, 0, 0 },
                                                 .not_trainable = fixed },
                          out));
}

static void open_net(rf_strategy *strategy, net *n, float l2)
{
    rf_layer *l[2];
    OK(rf_layer_dense(
        &(rf_dense_params){ .units = HIDDEN, .activation = RF_ACTIVATION_TANH, .kernel_regularizer = { .l2 = l2 } },
        &l[0]));
    OK(rf_layer_dense(&(rf_dense_params){ .units = HIDDEN }, &l[1]));
    OK(rf_model_create_sequential(strategy, l, 2, NULL, &n->body));
    make_variable(strategy, "scale", HIDDEN, false, &n->scale);
    make_variable(strategy, "offset", HIDDEN, true, &n->offset);
    make_variable(strategy, "dense/bias", CLASSES, false, &n->bias); /* the body has one of that name */
    OK(rf_model_create_custom(strategy, call_net, n, &n->model));
    OK(rf_layer_dense(&(rf_dense_params){ .units = CLASSES, .no_bias = true }, &n->head)); /* "dense", too */
    OK(rf_model_add_layer(n->model, n->head));
    OK(rf_layer_lambda(add_bias, &n->bias, &n->shift));
    OK(rf_model_add_layer(n->model, n->shift));
}

/* The parts first: the model keeps what it needs. */
static void close_net(net *n)
{
    rf_variable_destroy(&n->scale);
    rf_variable_destroy(&n->offset);
    rf_variable_destroy(&n->bias);
    rf_model_destroy(&n->body);
    rf_model_destroy(&n->model);
}

static rf_dataset *make_data(void)
{
    static float x[EXAMPLES * FEATURES];
    static int32_t y[EXAMPLES];
    uint32_t seed = 3;
    for (int i = 0; i < EXAMPLES; i++) {
        y[i] = (int32_t)(i % CLASSES);
        for (int f = 0; f < FEATURES; f++)
            x[i * FEATURES + f] = 0.3f * noise(&seed) + (f % CLASSES == y[i] ? 1.0f : 0.0f);
    }
    const rf_array arrays[] = { array_f32(RF_SHAPE(EXAMPLES, FEATURES), x), array_i32(RF_SHAPE(EXAMPLES), y) };
    rf_dataset *slices, *data;
    OK(rf_dataset_from_arrays(&(rf_dataset_arrays_params){ .arrays = arrays, .num_arrays = 2 }, &slices));
    OK(rf_dataset_batch(slices, BATCH, RF_REMAINDER_KEEP, &data));
    rf_dataset_destroy(&slices);
    return data;
}

enum { PARAMS = FEATURES * HIDDEN + HIDDEN + HIDDEN * HIDDEN + HIDDEN + 2 * HIDDEN + HIDDEN * CLASSES + CLASSES };

static rf_optimizer *compile(rf_strategy *strategy, rf_model *model)
{
    rf_optimizer *optimizer;
    OK(rf_optimizer_create(strategy, &(rf_optimizer_params){ .kind = RF_OPTIMIZER_ADAM, .learning_rate = 0.02 },
                           &optimizer));
    OK(rf_model_compile(model, &(rf_compile_params){ .optimizer = optimizer, .loss = { .from_logits = true } }));
    return optimizer;
}

static double loss_of(rf_model *model, const rf_dataset *data)
{
    rf_logs logs;
    double loss;
    OK(rf_model_evaluate(model, data, &logs));
    assert_true(rf_logs_get(&logs, "loss", &loss));
    return loss;
}

/* ---- training ---- */

static void trains_what_it_uses(rf_strategy *strategy)
{
    net n;
    open_net(strategy, &n, 0);
    rf_dataset *data = make_data();
    rf_optimizer *optimizer = compile(strategy, n.model);
    OK(rf_model_build(n.model, RF_SHAPE(FEATURES)));
    static const char *const names[] = { "dense/kernel", "dense/bias",   "dense_1/kernel", "dense_1/bias",
                                         "scale",        "dense/kernel", "dense/bias" };
    const rf_variable_list list = rf_model_variables(n.model);
    assert_int_equal(list.count, 7);
    float before[7][FEATURES * HIDDEN], after[FEATURES * HIDDEN], fixed[HIDDEN];
    for (uint32_t i = 0; i < list.count; i++) {
        assert_string_equal(rf_variable_name(list.items[i]), names[i]);
        OK(rf_variable_read(list.items[i], before[i]));
    }
    assert_int_equal(rf_model_num_params(n.model), PARAMS);
    const double first = loss_of(n.model, data);
    OK(rf_model_fit(n.model, &(rf_fit_params){ .data = data, .epochs = 20 }, NULL));
    assert_true(loss_of(n.model, data) < 0.3 * first);
    for (uint32_t i = 0; i < list.count; i++) {
        OK(rf_variable_read(list.items[i], after));
        const size_t bytes = (size_t)rf_shape_count(rf_variable_shape(list.items[i])) * sizeof(float);
        if (memcmp(before[i], after, bytes) == 0) fail_msg("'%s' was not trained", names[i]);
    }
    OK(rf_variable_read(n.offset, fixed));
    for (int i = 0; i < HIDDEN; i++) assert_true(fixed[i] == 0.5f);

    char *text;
    OK(rf_model_summary(n.model, &text));
    char total[64];
    snprintf(total, sizeof(total), "total parameters: %d\n", PARAMS);
    const char *const parts[] = { "dense (Dense)", "dense_1 (Dense)", "scale (Variable)", "offset (Variable)", total };
    for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++)
        if (!strstr(text, parts[i])) fail_msg("'%s' is not in\n%s", parts[i], text);
    rf_string_free(text);
    rf_optimizer_destroy(&optimizer);
    close_net(&n);
    rf_dataset_destroy(&data);
}

/* Penalties of layers of a model that is called count as well. */
static void counts_penalties(rf_strategy *strategy)
{
    double losses[2];
    for (int on = 0; on < 2; on++) {
        net n;
        rf_strategy_set_seed(strategy, 5);
        open_net(strategy, &n, on ? 0.5f : 0.0f);
        OK(rf_model_build(n.model, RF_SHAPE(FEATURES)));
        float *kernel = malloc(sizeof(float) * FEATURES * HIDDEN);
        for (int i = 0; i < FEATURES * HIDDEN; i++) kernel[i] = 0.25f;
        OK(rf_variable_assign(rf_model_variables(n.model).items[0], kernel));
        for (uint32_t v = 1; v < 7; v++) {
            fill_noise(kernel, FEATURES * HIDDEN, v);
            OK(rf_variable_assign(rf_model_variables(n.model).items[v], kernel));
        }
        free(kernel);
        rf_dataset *data = make_data();
        rf_optimizer *optimizer = compile(strategy, n.model);
        losses[on] = loss_of(n.model, data);
        rf_optimizer_destroy(&optimizer);
        close_net(&n);
        rf_dataset_destroy(&data);
    }
    assert_near(losses[1] - losses[0], 0.5 * FEATURES * HIDDEN * 0.25 * 0.25, 1e-5, 1e-6, "penalty");
}

/* ---- files ---- */

static void spoil(rf_model *model, rf_variable *fixed)
{
    float zeros[FEATURES * HIDDEN] = { 0 };
    for (uint32_t i = 0; i < rf_model_variables(model).count; i++)
        OK(rf_variable_assign(rf_model_variables(model).items[i], zeros));
    OK(rf_variable_assign(fixed, zeros));
}

static void saves_what_it_uses(rf_strategy *strategy)
{
    char weights[160], tensors[160], exported[160];
    snprintf(weights, sizeof(weights), "%s", in_folder("weights"));
    snprintf(tensors, sizeof(tensors), "%s", in_folder("tensors"));
    snprintf(exported, sizeof(exported), "%s", in_folder("exported"));
    net n;
    open_net(strategy, &n, 0);
    rf_dataset *data = make_data();
    rf_optimizer *optimizer = compile(strategy, n.model);
    OK(rf_model_fit(n.model, &(rf_fit_params){ .data = data, .epochs = 2 }, NULL));
    float moved[HIDDEN];
    fill_noise(moved, HIDDEN, 8);
    OK(rf_variable_assign(n.offset, moved));
    rf_array want, got, out;
    OK(rf_model_predict(n.model, data, &want));
    OK(rf_model_save_weights(n.model, weights, NULL));
    OK(rf_model_export_safetensors(n.model, tensors));
    OK(rf_model_export(n.model, exported, NULL));
    for (int way = 0; way < 2; way++) {
        spoil(n.model, n.offset);
        OK(way ? rf_model_import_safetensors(n.model, tensors) : rf_model_load_weights(n.model, weights));
        OK(rf_model_predict(n.model, data, &got));
        assert_memory_equal(got.data, want.data, EXAMPLES * CLASSES * sizeof(float));
        rf_array_free(&got);
    }
    /* A model made by the same program, in which nothing was called yet. */
    net other;
    open_net(strategy, &other, 0);
    OK(rf_model_build(other.model, RF_SHAPE(FEATURES)));
    OK(rf_model_load_weights(other.model, weights));
    OK(rf_model_predict(other.model, data, &got));
    assert_memory_equal(got.data, want.data, EXAMPLES * CLASSES * sizeof(float));
    rf_array_free(&got);
    close_net(&other);
    /* And one without its program. */
    rf_inference *inference;
    rf_iterator *it;
    const rf_element *batch;
    OK(rf_inference_load(exported, &(rf_inference_params){ .strategy = strategy }, &inference));
    OK(rf_iterator_create(data, 0, &it));
    OK(rf_iterator_next(it, &batch));
    OK(rf_inference_run(inference, &batch->component[0], &out));
    for (int i = 0; i < BATCH * CLASSES; i++)
        assert_near(((float *)out.data)[i], ((float *)want.data)[i], 1e-5, 1e-6, "exported model");
    rf_array_free(&out);
    rf_iterator_destroy(&it);
    rf_inference_destroy(&inference);
    rf_array_free(&want);
    rf_optimizer_destroy(&optimizer);
    close_net(&n);
    rf_dataset_destroy(&data);
}

/* ---- calls that fail ---- */

static rf_tensor call_and_fail(rf_trace *t, rf_model *model, rf_tensor x, rf_mode mode, void *user)
{
    const net *n = user;
    (void)model;
    const rf_tensor y = rf_model_call(t, n->body, x, mode);
    (void)rf_variable_tensor(t, n->scale);
    return rf_reshape(t, y, RF_SHAPE(7, 11, 13)); /* does not fit */
}

static void keeps_nothing_of_a_failed_call(rf_strategy *strategy)
{
    net n;
    open_net(strategy, &n, 0);
    rf_model *failing;
    OK(rf_model_create_custom(strategy, call_and_fail, &n, &failing));
    FAILS(rf_model_build(failing, RF_SHAPE(FEATURES)), RF_ERROR_INVALID_ARGUMENT, "reshape");
    assert_int_equal(rf_model_variables(failing).count, 0);
    assert_int_equal(rf_model_num_params(failing), 0);
    rf_model_destroy(&failing);
    OK(rf_model_build(n.model, RF_SHAPE(FEATURES)));
    assert_int_equal(rf_model_num_params(n.model), PARAMS);
    close_net(&n);
}

TEST_ON_ONE(counts_penalties)
TEST_ON_ONE(saves_what_it_uses)
TEST_ON_ONE(keeps_nothing_of_a_failed_call)
TEST_ON_LISTS(trains_what_it_uses, _on_one, 0, 2, 1)
TEST_ON_TWO(trains_what_it_uses)

TESTS(custom_models, make_folder, remove_folder)
