/* SPDX-License-Identifier: Apache-2.0 */
/* Models of indices: an embedding is built, trained, evaluated, saved, exported and restored, and says what it refuses.
 */
#include <ringfire/interchange.h>

#include "../support/strategies.h"
#include "test_folder.h"
#include "tests/room.h"

enum { N = 24, WORDS = 5, VOCABULARY = 11, WIDTH = 4, CLASSES = 3, BATCH = 8 };

typedef struct app {
    rf_dataset *data;
    rf_model *model;
    rf_optimizer *optimizer;
    int32_t words[N * WORDS], labels[N];
} app;

static void make_data(app *a)
{
    uint32_t seed = 5;
    for (int i = 0; i < N; i++) {
        a->labels[i] = i % CLASSES;
        /* A class has words of its own among others. */
        for (int w = 0; w < WORDS; w++)
            a->words[i * WORDS + w] = w == 0 ? i % CLASSES : (int32_t)((noise(&seed) + 1) / 2 * VOCABULARY);
    }
}

static rf_dataset *make_dataset(app *a)
{
    const rf_array arrays[2] = { array_i32(RF_SHAPE(N, WORDS), a->words), array_i32(RF_SHAPE(N), a->labels) };
    rf_dataset *slices, *data;
    OK(rf_dataset_from_arrays(&(rf_dataset_arrays_params){ .arrays = arrays, .num_arrays = 2 }, &slices));
    OK(rf_dataset_batch(slices, BATCH, RF_REMAINDER_KEEP, &data));
    rf_dataset_destroy(&slices);
    return data;
}

static rf_model *make_model(rf_strategy *strategy, const rf_shape *input)
{
    rf_layer *l[3];
    rf_model *model;
    const rf_embedding_params params = { .input_dim = VOCABULARY, .output_dim = WIDTH, .regularizer.l2 = 1e-4f };
    OK(rf_layer_embedding(&params, &l[0]));
    OK(rf_layer_flatten(&l[1]));
    OK(rf_layer_dense(&(rf_dense_params){ .units = CLASSES }, &l[2]));
    OK(rf_model_create_sequential(strategy, l, 3, input, &model));
    return model;
}

static void compile(rf_strategy *strategy, app *a)
{
    OK(rf_optimizer_create(strategy, &(rf_optimizer_params){ .kind = RF_OPTIMIZER_ADAM, .learning_rate = 0.03 },
                           &a->optimizer));
    OK(rf_model_compile(a->model, &(rf_compile_params){ .optimizer = a->optimizer, .loss = { .from_logits = true } }));
}

static void open_app(rf_strategy *strategy, app *a)
{
    memset(a, 0, sizeof(*a));
    make_data(a);
    a->data = make_dataset(a);
    a->model = make_model(strategy, &RF_SHAPE(WORDS));
    compile(strategy, a);
}

static void close_app(app *a)
{
    rf_model_destroy(&a->model);
    rf_optimizer_destroy(&a->optimizer);
    rf_dataset_destroy(&a->data);
}

static double loss_of(rf_model *model, const rf_dataset *data)
{
    rf_logs logs = { 0 };
    OK(rf_model_evaluate(model, data, &logs));
    double loss = NAN;
    assert_true(rf_logs_get(&logs, "loss", &loss));
    return loss;
}

static void expect_predictions(rf_model *model, const rf_dataset *data, const float *expected, const char *what)
{
    rf_array is;
    OK(rf_model_predict(model, data, &is));
    assert_true(rf_shape_equal(is.shape, RF_SHAPE(N, CLASSES)));
    for (int i = 0; i < N * CLASSES; i++) assert_near(((const float *)is.data)[i], expected[i], 1e-5, 1e-5, what);
    rf_array_free(&is);
}

/* Computes what the variables make of the words, in double. */
static void compute(const app *a, float *out)
{
    float table[VOCABULARY * WIDTH], kernel[WORDS * WIDTH * CLASSES], bias[CLASSES];
    const rf_variable_list all = rf_model_variables(a->model);
    assert_int_equal(all.count, 3);
    assert_string_equal(rf_variable_name(all.items[0]), "embedding/embeddings");
    OK(rf_variable_read(all.items[0], table));
    OK(rf_variable_read(all.items[1], kernel));
    OK(rf_variable_read(all.items[2], bias));
    for (int i = 0; i < N; i++)
        for (int c = 0; c < CLASSES; c++) {
            double sum = (double)bias[c];
            for (int k = 0; k < WORDS * WIDTH; k++)
                sum += (double)table[a->words[i * WORDS + k / WIDTH] * WIDTH + k % WIDTH] *
                       (double)kernel[k * CLASSES + c];
            out[i * CLASSES + c] = (float)sum;
        }
}

static void trains(rf_strategy *strategy)
{
    app a;
    float expected[N * CLASSES], table[VOCABULARY * WIDTH];
    open_app(strategy, &a);
    assert_int_equal(rf_model_num_params(a.model), VOCABULARY * WIDTH + WORDS * WIDTH * CLASSES + CLASSES);
    OK(rf_variable_read(rf_model_variables(a.model).items[0], table));
    for (int i = 0; i < VOCABULARY * WIDTH; i++) assert_true(fabsf(table[i]) <= 0.05f);
    const double before = loss_of(a.model, a.data);
    OK(rf_model_fit(a.model, &(rf_fit_params){ .data = a.data, .epochs = 20 }, NULL));
    assert_true(loss_of(a.model, a.data) < 0.3 * before);
    compute(&a, expected);
    expect_predictions(a.model, a.data, expected, "prediction");
    close_app(&a);
}

static void lasts(rf_strategy *strategy)
{
    app a;
    float expected[N * CLASSES];
    open_app(strategy, &a);
    OK(rf_model_fit(a.model, &(rf_fit_params){ .data = a.data, .epochs = 2 }, NULL));
    compute(&a, expected);

    rf_model *loaded;
    OK(rf_model_save(a.model, in_folder("model"), NULL));
    OK(rf_model_load(strategy, in_folder("model"), &loaded));
    expect_predictions(loaded, a.data, expected, "of a loaded model");
    OK(rf_model_fit(loaded, &(rf_fit_params){ .data = a.data, .epochs = 1 }, NULL));
    rf_model_destroy(&loaded);

    static const char *const files[] = { "model", "inference" };
    OK(rf_model_export(a.model, in_folder("inference"), NULL));
    for (int f = 0; f < 2; f++) {
        rf_inference *inference;
        rf_array y = { 0 };
        OK(rf_inference_load(in_folder(files[f]), &(rf_inference_params){ .strategy = strategy }, &inference));
        OK(rf_inference_run(inference, &(rf_array){ RF_I32, RF_SHAPE(N, WORDS), a.words }, &y));
        for (int i = 0; i < N * CLASSES; i++)
            assert_near(((const float *)y.data)[i], expected[i], 1e-5, 1e-5, files[f]);
        rf_array_free(&y);
        rf_inference_destroy(&inference);
    }

    rf_checkpoint *checkpoint;
    OK(rf_checkpoint_create(strategy, &checkpoint));
    OK(rf_checkpoint_add_model(checkpoint, "model", a.model));
    OK(rf_checkpoint_add_optimizer(checkpoint, "optimizer", a.optimizer));
    OK(rf_checkpoint_save(checkpoint, in_folder("checkpoint"), NULL));
    OK(rf_model_fit(a.model, &(rf_fit_params){ .data = a.data, .epochs = 2 }, NULL));
    OK(rf_checkpoint_restore(checkpoint, in_folder("checkpoint"), NULL));
    rf_checkpoint_destroy(&checkpoint);
    expect_predictions(a.model, a.data, expected, "of a restored model");
    close_app(&a);
}

static rf_tensor twice(rf_trace *t, rf_model *model, rf_tensor x, rf_mode mode, void *user)
{
    const rf_tensor y = rf_layer_call(t, model, user, x, mode);
    return rf_add(t, y, y);
}

static void builds_for_indices(rf_strategy *strategy)
{
    rf_layer *layer;
    rf_model *model;
    OK(rf_layer_embedding(&(rf_embedding_params){ .input_dim = 7, .output_dim = 2, .name = "words" }, &layer));
    OK(rf_model_create_custom(strategy, twice, layer, &model));
    OK(rf_model_add_layer(model, layer));
    FAILS(rf_model_build(model, RF_SHAPE(3)), RF_ERROR_INVALID_ARGUMENT, "layer 'words' takes i32 indices, got f32 [");
    OK(rf_model_build_for(model, RF_I32, RF_SHAPE(3)));
    OK(rf_model_build(model, RF_SHAPE(3)));
    assert_int_equal(rf_model_num_params(model), 14);
    FAILS(rf_model_build_for(model, RF_F32, RF_SHAPE(3)), RF_ERROR_INVALID_ARGUMENT, "was built for i32, not f32");
    FAILS(rf_model_build_for(model, RF_DTYPE_COUNT, RF_SHAPE(3)), RF_ERROR_INVALID_ARGUMENT, "does not exist");
    rf_model_destroy(&model);
}

static void refuses(rf_strategy *strategy)
{
    app a;
    rf_layer *layer;
    FAILS(rf_layer_embedding(NULL, &layer), RF_ERROR_INVALID_ARGUMENT, "params is NULL");
    FAILS(rf_layer_embedding(&(rf_embedding_params){ .input_dim = 5 }, &layer), RF_ERROR_INVALID_ARGUMENT,
          "input_dim is 5 and output_dim is 0, both must be positive");
    FAILS(rf_layer_embedding(&(rf_embedding_params){ 5, 5, .regularizer.l1 = -1 }, &layer), RF_ERROR_INVALID_ARGUMENT,
          "rf_layer_embedding: regularizer: l1 -1");
    FAILS(rf_layer_embedding(&(rf_embedding_params){ 5, 5, .initializer = &(rf_initializer){ .a = NAN } }, &layer),
          RF_ERROR_INVALID_ARGUMENT, "rf_layer_embedding: embeddings: initializer: a and b must be finite");
    open_app(strategy, &a);
    /* A word that is none: the dataset keeps its own numbers. */
    rf_dataset_destroy(&a.data);
    a.words[WORDS + 1] = VOCABULARY;
    a.data = make_dataset(&a);
    FAILS(rf_model_fit(a.model, &(rf_fit_params){ .data = a.data, .epochs = 1 }, NULL), RF_ERROR_INVALID_ARGUMENT,
          "component 0 of the batch has 11 at [1,1]; gather of 'embedding/embeddings' [11,4] takes 0 to 10");
    rf_dataset_destroy(&a.data);
    a.words[WORDS + 1] = -1;
    a.data = make_dataset(&a);
    FAILS(rf_model_fit(a.model, &(rf_fit_params){ .data = a.data, .epochs = 1 }, NULL), RF_ERROR_INVALID_ARGUMENT,
          "component 0 of the batch has -1 at [1,1]");
    rf_dataset_destroy(&a.data);
    a.words[WORDS + 1] = VOCABULARY - 1;
    a.data = make_dataset(&a);
    OK(rf_model_fit(a.model, &(rf_fit_params){ .data = a.data, .epochs = 1 }, NULL));
    close_app(&a);
}

TEST_ON_ONE(trains)
TEST_ON_TWO(trains)
TEST_ON_TWO(lasts)
TEST_ON_ONE(builds_for_indices)
TEST_ON_TWO(builds_for_indices)
TEST_ON_TWO(refuses)

TESTS(embedding, make_folder, remove_folder)
