/* SPDX-License-Identifier: Apache-2.0 */
/* Functional models: a language model with attention to a second input against PyTorch (make_attention_trajectory.py),
 * and two replicas against one device; files, frozen layers, several outputs, mistakes. */
#include <math.h>

#include "../support/folder.h"
#include "tests/room.h"
#include "trajectory.h"

enum { TOKENS = 11, WIDTH = 8, HEADS = 4, KEY = 2, LENGTH = 5, SEEN = 4 };

static rf_layer *attention(int32_t few, bool causal, float rotary_base, const char *name)
{
    rf_layer *layer;
    const rf_multi_head_attention_params params = { .num_heads = HEADS,
                                                    .num_key_value_heads = few,
                                                    .key_dim = KEY,
                                                    .causal = causal,
                                                    .rotary_base = rotary_base,
                                                    .name = name };
    OK(rf_layer_multi_head_attention(&params, &layer));
    return layer;
}

static rf_layer *sum(void)
{
    rf_layer *layer;
    OK(rf_layer_add(&layer));
    return layer;
}

static rf_layer *dense(int32_t units, const char *name)
{
    rf_layer *layer;
    OK(rf_layer_dense(&(rf_dense_params){ .units = units, .name = name }, &layer));
    return layer;
}

/* Both inputs go through one embedding, and the head has its table, too. */
static rf_model *build_language_model(rf_strategy *strategy)
{
    rf_model_builder *b;
    rf_model *model;
    rf_layer *embedding, *head, *positions, *sines, *padding;
    OK(rf_layer_embedding(&(rf_embedding_params){ .input_dim = TOKENS, .output_dim = WIDTH }, &embedding));
    OK(rf_layer_embedding_head(embedding, RF_WITH_BIAS, NULL, &head));
    OK(rf_layer_position_embedding(LENGTH + 2, NULL, NULL, &positions));
    OK(rf_layer_sine_position_encoding(50, &sines));
    OK(rf_layer_not_equal(0, &padding));
    OK(rf_model_builder_create(strategy, &b));
    const rf_symbol tokens = rf_model_builder_input(b, RF_I32, RF_SHAPE(LENGTH), "tokens");
    const rf_symbol seen = rf_model_builder_input(b, RF_I32, RF_SHAPE(SEEN), "seen");
    rf_symbol x = rf_model_builder_call(b, positions, rf_model_builder_call(b, embedding, tokens));
    const rf_symbol other = rf_model_builder_call(b, sines, rf_model_builder_call(b, embedding, seen));
    OK(rf_model_builder_enter_scope(b, "block"));
    const rf_symbol own = rf_model_builder_call(b, attention(2, true, 100, "self_attention"), x);
    x = rf_model_builder_call_many(b, sum(), (rf_symbol[]){ x, own }, 2);
    rf_symbol cross;
    OK(rf_model_builder_apply(b, attention(0, false, 0, "cross_attention"), (rf_symbol[]){ x, other }, 2,
                              rf_model_builder_call(b, padding, seen), &cross, 1));
    x = rf_model_builder_call_many(b, sum(), (rf_symbol[]){ x, cross }, 2);
    OK(rf_model_builder_leave_scope(b));
    x = rf_model_builder_call(b, head, x);
    OK(rf_model_builder_finish(&b, &x, 1, NULL, &model));
    assert_null(b);
    return model;
}

/* ---- against PyTorch ---- */

static void *create(rf_strategy *strategy)
{
    return build_language_model(strategy);
}

static rf_tensor losses_of(rf_trace *t, void *model, const rf_tensor *in)
{
    rf_tensor logits;
    (void)rf_model_apply(t, model, in, 2, RF_TRAINING, &logits, 1);
    const int32_t places[] = { 1 };
    return rf_reduce_mean(t, rf_sparse_categorical_crossentropy(t, in[2], logits, RF_LOGITS), places, 1, RF_DROP_DIMS);
}

static const trajectory_network network = { .create = create, .losses = losses_of };

/* ---- files ---- */

static void fill_sequences(int32_t *tokens, int32_t *seen)
{
    for (int32_t i = 0; i < 6 * LENGTH; i++) tokens[i] = (i * 7 + 3) % TOKENS;
    for (int32_t i = 0; i < 6 * SEEN; i++) seen[i] = i % SEEN == 3 ? 0 : (i * 5 + 1) % TOKENS;
}

static rf_dataset *sequences(void)
{
    static int32_t tokens[6 * LENGTH], seen[6 * SEEN];
    rf_dataset *data, *batched;
    fill_sequences(tokens, seen);
    const rf_array arrays[] = { array_i32(RF_SHAPE(6, LENGTH), tokens), array_i32(RF_SHAPE(6, SEEN), seen) };
    OK(rf_dataset_from_arrays(&(rf_dataset_arrays_params){ .arrays = arrays, .num_arrays = 2 }, &data));
    OK(rf_dataset_batch(data, 4, RF_REMAINDER_KEEP, &batched));
    rf_dataset_destroy(&data);
    return batched;
}

/* A program that only infers reads the same file. */
static void infer(const char *path, const rf_array *expected)
{
    int32_t tokens[6 * LENGTH], seen[6 * SEEN];
    rf_inference *inference;
    rf_array signature, output;
    fill_sequences(tokens, seen);
    OK(rf_inference_load(path, NULL, &inference));
    assert_string_equal(rf_inference_input(inference, 1, &signature), "seen");
    assert_true(signature.dtype == RF_I32 && rf_shape_equal(signature.shape, RF_SHAPE(-1, SEEN)));
    assert_string_equal(rf_inference_output(inference, 0, &signature), "output");
    assert_true(rf_shape_equal(signature.shape, RF_SHAPE(-1, LENGTH, TOKENS)));
    const rf_array inputs[] = { array_i32(RF_SHAPE(6, LENGTH), tokens), array_i32(RF_SHAPE(6, SEEN), seen) };
    OK(rf_inference_run_many(inference, inputs, 2, &output, 1));
    const float *is = output.data, *wanted = expected->data;
    for (int64_t i = 0; i < rf_shape_count(output.shape); i++)
        assert_near((double)is[i], (double)wanted[i], 1e-5, 1e-6, "inference");
    rf_array_free(&output);
    rf_inference_destroy(&inference);
}

/* The same numbers from a model that the file alone describes, with the same names. */
static void save_and_load(rf_strategy *strategy)
{
    char folder[SCRATCH_PATH], path[128], *summary, *loaded_summary;
    rf_model *model = build_language_model(strategy), *loaded;
    rf_dataset *data = sequences();
    rf_array is, expected;
    scratch(folder);
    snprintf(path, sizeof(path), "%s/model.rfck", folder);
    OK(rf_model_save(model, path, NULL));
    OK(rf_model_load(strategy, path, &loaded));
    assert_int_equal(rf_model_num_inputs(loaded), 2);
    assert_string_equal(rf_model_input_name(loaded, 1), "seen");
    const rf_variable_list ours = rf_model_variables(model), theirs = rf_model_variables(loaded);
    assert_int_equal(ours.count, theirs.count);
    for (uint32_t i = 0; i < ours.count; i++)
        assert_string_equal(rf_variable_name(ours.items[i]), rf_variable_name(theirs.items[i]));
    OK(rf_model_summary(model, &summary));
    OK(rf_model_summary(loaded, &loaded_summary));
    assert_non_null(strstr(summary, "functional"));
    assert_non_null(strstr(summary, "block/self_attention"));
    assert_string_equal(summary, loaded_summary);
    OK(rf_model_predict(model, data, &expected));
    OK(rf_model_predict(loaded, data, &is));
    assert_memory_equal(is.data, expected.data, (size_t)rf_shape_count(is.shape) * sizeof(float));
    infer(path, &expected);
    rf_array_free(&is);
    rf_array_free(&expected);
    rf_string_free(summary);
    rf_string_free(loaded_summary);
    rf_dataset_destroy(&data);
    rf_model_destroy(&model);
    rf_model_destroy(&loaded);
    scratch_remove(folder);
}
TEST_ON_ONE(save_and_load)

/* ---- fit ---- */

enum { EXAMPLES = 32, FEATURES = 6 };

static rf_dataset *examples(void)
{
    static float x[EXAMPLES * FEATURES], target[EXAMPLES];
    static int32_t label[EXAMPLES];
    rf_dataset *data, *batched;
    fill_noise(x, EXAMPLES * FEATURES, 3);
    for (int32_t i = 0; i < EXAMPLES; i++) {
        target[i] = x[i * FEATURES] - x[i * FEATURES + 1];
        label[i] = target[i] > 0;
    }
    const rf_array arrays[] = { array_f32(RF_SHAPE(EXAMPLES, FEATURES), x), array_i32(RF_SHAPE(EXAMPLES), label),
                                array_f32(RF_SHAPE(EXAMPLES, 1), target) };
    OK(rf_dataset_from_arrays(&(rf_dataset_arrays_params){ .arrays = arrays, .num_arrays = 3 }, &data));
    OK(rf_dataset_batch(data, 8, RF_REMAINDER_KEEP, &batched));
    rf_dataset_destroy(&data);
    return batched;
}

/* A trunk with a skip connection, and two heads. */
static rf_model *build_two_heads(rf_strategy *strategy, bool frozen_trunk)
{
    rf_model_builder *b;
    rf_model *model;
    rf_layer *norm, *trunk = dense(FEATURES, "trunk");
    OK(rf_layer_batch_norm(NULL, &norm));
    rf_layer_set_trainable(trunk, !frozen_trunk);
    rf_layer_set_trainable(norm, !frozen_trunk);
    OK(rf_model_builder_create(strategy, &b));
    const rf_symbol in = rf_model_builder_input(b, RF_F32, RF_SHAPE(FEATURES), NULL);
    const rf_symbol x = rf_model_builder_call(b, norm, rf_model_builder_call(b, trunk, in));
    const rf_symbol joined = rf_model_builder_call_many(b, sum(), (rf_symbol[]){ in, x }, 2);
    const rf_symbol outputs[] = { rf_model_builder_call(b, dense(2, "class"), joined),
                                  rf_model_builder_call(b, dense(1, "number"), joined) };
    OK(rf_model_builder_finish(&b, outputs, 2, (const char *const[]){ "class", "number" }, &model));
    return model;
}

static void compile_two_heads(rf_strategy *strategy, rf_model *model, rf_optimizer **optimizer)
{
    static const rf_loss losses[] = { { .kind = RF_LOSS_SPARSE_CATEGORICAL_CROSSENTROPY, .from_logits = true },
                                      { .kind = RF_LOSS_MEAN_SQUARED_ERROR } };
    static const double weights[] = { 1.0, 0.5 };
    static const rf_output_metric metrics[] = {
        { .output = 0, .metric = { .kind = RF_METRIC_SPARSE_TOP_K_CATEGORICAL_ACCURACY, .k = 1, .name = "first" } },
        { .output = 1, .metric = { .kind = RF_METRIC_MEAN_ABSOLUTE_ERROR } },
    };
    OK(rf_optimizer_create(strategy, &(rf_optimizer_params){ .kind = RF_OPTIMIZER_ADAM, .learning_rate = 0.01 },
                           optimizer));
    const rf_compile_params params = { .optimizer = *optimizer,
                                       .losses = losses,
                                       .loss_weights = weights,
                                       .num_losses = 2,
                                       .output_metrics = metrics,
                                       .num_output_metrics = 2 };
    OK(rf_model_compile(model, &params));
}

/* The loss and optimizer that the model was compiled with come back, too: training goes on as if it had not been
 * interrupted. */
static void fit_save_fit(rf_strategy *strategy)
{
    char folder[SCRATCH_PATH], path[128];
    rf_model *model = build_two_heads(strategy, false), *loaded;
    rf_optimizer *optimizer;
    rf_dataset *data = examples();
    rf_history begun, on, expected;
    compile_two_heads(strategy, model, &optimizer);
    scratch(folder);
    snprintf(path, sizeof(path), "%s/model.rfck", folder);
    const rf_fit_params params = { .data = data, .epochs = 2 };
    OK(rf_model_fit(model, &params, &begun));
    OK(rf_model_save(model, path, NULL));
    OK(rf_model_fit(model, &params, &expected));
    OK(rf_model_load(strategy, path, &loaded));
    OK(rf_model_fit(loaded, &params, &on));
    assert_int_equal(on.num_epochs, 2);
    for (uint32_t e = 0; e < 2; e++) {
        assert_int_equal(on.epochs[e].count, expected.epochs[e].count);
        for (uint32_t i = 0; i < on.epochs[e].count; i++) {
            assert_string_equal(on.epochs[e].name[i], expected.epochs[e].name[i]);
            assert_true(on.epochs[e].value[i] == expected.epochs[e].value[i]);
        }
    }
    double first = 0, last = 0, top = 0;
    assert_true(rf_logs_get(&begun.epochs[0], "loss", &first));
    assert_true(rf_logs_get(&on.epochs[1], "loss", &last));
    assert_true(rf_logs_get(&on.epochs[1], "class_first", &top));
    assert_true(last < first && top > 0.5);
    rf_history_free(&begun);
    rf_history_free(&on);
    rf_history_free(&expected);
    rf_dataset_destroy(&data);
    rf_model_destroy(&model);
    rf_model_destroy(&loaded);
    rf_optimizer_destroy(&optimizer);
    scratch_remove(folder);
}
TEST_ON_TWO(fit_save_fit)

/* ---- frozen layers ---- */

static void read_kernel(rf_variable *variable, float *values)
{
    assert_non_null(variable);
    OK(rf_variable_read(variable, values));
}

static void freeze(rf_strategy *strategy)
{
    rf_model *model = build_two_heads(strategy, true);
    rf_optimizer *optimizer;
    rf_dataset *data = examples();
    float before[FEATURES * FEATURES], after[FEATURES * FEATURES], mean[FEATURES];
    const rf_variable_list trained = rf_model_variables(model), others = rf_model_state_variables(model);
    assert_int_equal(trained.count, 4); /* of the heads */
    assert_int_equal(others.count, 2 + 4);
    assert_string_equal(rf_variable_name(others.items[0]), "trunk/kernel");
    rf_variable *kernel = others.items[0], *average = others.items[4];
    assert_string_equal(rf_variable_name(average), "batch_normalization/moving_mean");
    compile_two_heads(strategy, model, &optimizer);
    read_kernel(kernel, before);
    OK(rf_model_fit(model, &(rf_fit_params){ .data = data }, NULL));
    read_kernel(kernel, after);
    assert_memory_equal(before, after, sizeof(before));
    OK(rf_variable_read(average, mean));
    for (int32_t i = 0; i < FEATURES; i++) assert_true(mean[i] == 0.0f); /* not moved */
    rf_dataset_destroy(&data);
    rf_model_destroy(&model);
    rf_optimizer_destroy(&optimizer);
}
TEST_ON_ONE(freeze)

/* Layers of a custom model, frozen after they were built and freed again. */
static rf_tensor call_two(rf_trace *t, rf_model *model, rf_tensor x, rf_mode mode, void *user)
{
    rf_layer *const *layers = user;
    return rf_layer_call(t, model, layers[1], rf_layer_call(t, model, layers[0], x, mode), mode);
}

static void freeze_later(rf_strategy *strategy)
{
    rf_layer *layers[] = { dense(3, "below"), dense(1, "above") };
    rf_model *model;
    OK(rf_model_create_custom(strategy, call_two, layers, &model));
    OK(rf_model_add_layer(model, layers[0]));
    OK(rf_model_add_layer(model, layers[1]));
    assert_null(rf_layer_variable(layers[0], "kernel"));
    OK(rf_model_build(model, RF_SHAPE(2)));
    assert_true(rf_layer_trainable(layers[0]));
    assert_int_equal(rf_model_variables(model).count, 4);
    rf_layer_set_trainable(layers[0], false);
    assert_false(rf_layer_trainable(layers[0]));
    assert_int_equal(rf_model_variables(model).count, 2);
    assert_int_equal(rf_model_state_variables(model).count, 2);
    assert_ptr_equal(rf_layer_variable(layers[0], "kernel"), rf_model_state_variables(model).items[0]);
    assert_null(rf_layer_variable(layers[0], "gamma"));
    rf_layer_set_trainable(layers[0], true);
    assert_int_equal(rf_model_variables(model).count, 4);
    rf_model_destroy(&model);
}
TEST_ON_ONE(freeze_later)

/* ---- mistakes ---- */

static rf_model_builder *begin(rf_strategy *strategy, rf_symbol *in)
{
    rf_model_builder *b;
    OK(rf_model_builder_create(strategy, &b));
    *in = rf_model_builder_input(b, RF_F32, RF_SHAPE(FEATURES), "features");
    return b;
}

/* The builder ends, and says why. */
static void refuse(rf_model_builder *b, rf_symbol output, const char *message)
{
    rf_model *model;
    FAILS(rf_model_builder_finish(&b, &output, 1, NULL, &model), RF_ERROR_INVALID_ARGUMENT, message);
    assert_null(b);
    assert_null(model);
}

static void mistakes(rf_strategy *strategy)
{
    rf_symbol in, other_in;
    const rf_symbol none = { 0 };
    rf_layer *layer;
    rf_model_builder *b = begin(strategy, &in);
    (void)rf_model_builder_call_many(b, sum(), &in, 1);
    refuse(b, in, "layer 'add' (Add) takes 2 or more inputs, got 1");

    b = begin(strategy, &in);
    (void)rf_model_builder_call_many(b, dense(2, "lonely"), NULL, 0);
    refuse(b, in, "layer 'lonely' has no input");

    b = begin(strategy, &in);
    refuse(b, rf_model_builder_call(b, dense(2, NULL), none), "input 0 of layer 'dense' is no symbol");

    rf_model_builder *other = begin(strategy, &other_in);
    b = begin(strategy, &in);
    refuse(b, rf_model_builder_call(b, dense(2, NULL), other_in), "a symbol of another builder");
    rf_model_builder_destroy(&other);

    b = begin(strategy, &in);
    (void)rf_model_builder_call(b, dense(2, "forgotten"), in);
    refuse(b, rf_model_builder_call(b, dense(2, NULL), in), "what layer 'forgotten' gives has no part in any output");

    b = begin(strategy, &in);
    const rf_symbol unused = rf_model_builder_input(b, RF_F32, RF_SHAPE(2), "unused");
    assert_true(unused.id > 0);
    refuse(b, rf_model_builder_call(b, dense(2, NULL), in), "input 'unused' has no part in any output");

    b = begin(strategy, &in);
    OK(rf_model_builder_enter_scope(b, "open"));
    refuse(b, rf_model_builder_call(b, dense(2, NULL), in), "the scope 'open/' has not been left");

    b = begin(strategy, &in);
    const rf_symbol x = rf_model_builder_call(b, dense(2, "same"), in);
    refuse(b, rf_model_builder_call(b, dense(2, "same"), x), "two layers are called 'same'");

    b = begin(strategy, &in);
    rf_symbol y;
    FAILS(rf_model_builder_apply(b, dense(2, NULL), &in, 1, in, &y, 1), RF_ERROR_INVALID_ARGUMENT, "takes no mask");
    assert_int_equal(y.id, 0);
    rf_model_builder_destroy(&b);

    /* Shapes are checked when the model is made. */
    b = begin(strategy, &in);
    const rf_symbol two = rf_model_builder_call(b, dense(2, "two"), in);
    const rf_symbol three = rf_model_builder_call(b, dense(3, "three"), in);
    refuse(b, rf_model_builder_call_many(b, sum(), (rf_symbol[]){ two, three }, 2), "layer 'add'");
    b = begin(strategy, &in);
    OK(rf_layer_rnn(&(rf_rnn_layer_params){ .units = 2 }, &layer));
    refuse(b, rf_model_builder_call(b, layer, in), "layer 'gru' needs an input f32 [n, steps, features], got f32 [");
}
TEST_ON_ONE(mistakes)

static void mistakes_of_layers(rf_strategy *strategy)
{
    rf_layer *layer, *forward;
    (void)strategy;
    FAILS(rf_layer_rnn(&(rf_rnn_layer_params){ 0 }, &layer), RF_ERROR_INVALID_ARGUMENT, "units is 0");
    FAILS(rf_layer_rnn(&(rf_rnn_layer_params){ .units = 1, .kind = RF_RNN_LSTM, .reset_before = true }, &layer),
          RF_ERROR_INVALID_ARGUMENT, "reset_before is for RF_RNN_GRU");
    OK(rf_layer_rnn(&(rf_rnn_layer_params){ .units = 1, .go_backwards = true }, &forward));
    FAILS(rf_layer_bidirectional(forward, RF_MERGE_SUM, NULL, &layer), RF_ERROR_INVALID_ARGUMENT, "go_backwards");
    FAILS(rf_layer_bidirectional(dense(1, NULL), RF_MERGE_SUM, NULL, &layer), RF_ERROR_INVALID_ARGUMENT,
          "of type Dense");
    FAILS(rf_layer_multi_head_attention(
              &(rf_multi_head_attention_params){ .num_heads = 3, .key_dim = 2, .num_key_value_heads = 2 }, &layer),
          RF_ERROR_INVALID_ARGUMENT, "2 does not divide num_heads 3");
    FAILS(rf_layer_multi_head_attention(
              &(rf_multi_head_attention_params){ .num_heads = 1, .key_dim = 3, .rotary_base = 10 }, &layer),
          RF_ERROR_INVALID_ARGUMENT, "even key_dim");
    forward = dense(1, NULL);
    FAILS(rf_layer_embedding_head(forward, RF_WITH_BIAS, NULL, &layer), RF_ERROR_INVALID_ARGUMENT, "of type Dense");
    rf_layer_destroy(&forward);
}
TEST_ON_ONE(mistakes_of_layers)

TEST_PROGRAM(functional)
{
    return trajectory_run(FIXTURES "/attention.traj", &network, own_tests, argc, argv);
}
