/* SPDX-License-Identifier: Apache-2.0 */
/* Elements of unequal length in a step: one trace for each border, and losses that do not depend on the padding. */
#include "../support/strategies.h"
#include "tests/room.h"

enum { N = 48, LONGEST = 12, VOCABULARY = 9, WIDTH = 4, CLASSES = 3, BATCH = 6, NUM_BORDERS = 3 };
static const uint32_t borders[NUM_BORDERS] = { 4, 8, 12 };

/* (words i32 [length], class i32 []): all words but 0; a class has more of one word than of others. */
static rf_result generate(void *user, uint64_t index, rf_element *out)
{
    (void)user;
    uint32_t seed = (uint32_t)index + 1;
    const int32_t length = 1 + (int32_t)(index * 5 % LONGEST), class_number = (int32_t)(index / 3 % CLASSES);
    out->component[0].shape.dim[0] = length;
    for (int32_t i = 0; i < length; i++)
        ((int32_t *)out->component[0].data)[i] =
            i % 2 ? 4 + (int32_t)((noise(&seed) + 1) / 2 * (VOCABULARY - 4)) : 1 + class_number;
    *(int32_t *)out->component[1].data = class_number;
    return RF_OK;
}

static rf_dataset *sentences(uint32_t num_borders)
{
    rf_dataset *d, *out;
    OK(rf_dataset_from_generator(
        &(rf_dataset_generator_params){ .generate = generate,
                                        .spec = { 2, { RF_I32, RF_I32 }, { RF_SHAPE(LONGEST), RF_SCALAR_SHAPE } },
                                        .cardinality = N },
        &d));
    OK(rf_dataset_padded_batch(d,
                               &(rf_padded_batch_params){ .batch_size = BATCH,
                                                          .padded = { true },
                                                          .borders = num_borders ? borders : NULL,
                                                          .num_borders = num_borders },
                               &out));
    rf_dataset_destroy(&d);
    return out;
}

typedef struct app {
    rf_model *model;
    rf_optimizer *optimizer;
    rf_layer *words, *classes;
    uint32_t traces[LONGEST + 1]; /* by the length of the words */
} app;

/* The mean of the words' vectors, without padding (word 0). */
static rf_result apply_words(rf_trace *t, rf_model *model, const rf_tensor *in, rf_tensor *out, rf_mode mode,
                             void *user)
{
    const app *a = user;
    const int32_t steps = 1;
    const rf_tensor zero = rf_constant_array(t, &(rf_array){ RF_I32, RF_SHAPE(1), (int32_t[]){ 0 } });
    const rf_tensor there = rf_compare(t, RF_NOT_EQUAL, in[0], zero);
    const rf_tensor vectors = rf_layer_call(t, model, a->words, in[0], mode);
    const rf_tensor sum =
        rf_reduce_sum(t, rf_multiply(t, vectors, rf_expand_dims(t, there, -1)), &steps, 1, RF_DROP_DIMS);
    const rf_tensor mean = rf_divide(t, sum, rf_reduce_sum(t, there, &steps, 1, RF_KEEP_DIMS));
    out[0] = rf_layer_call(t, model, a->classes, mean, mode);
    return rf_trace_status(t);
}

static void open_app(rf_strategy *strategy, app *a)
{
    static const char *const name = "words";
    *a = (app){ 0 };
    OK(rf_layer_embedding(&(rf_embedding_params){ .input_dim = VOCABULARY, .output_dim = WIDTH }, &a->words));
    OK(rf_layer_dense(&(rf_dense_params){ .units = CLASSES }, &a->classes));
    OK(rf_model_create(
        strategy,
        &(rf_model_params){ .apply = apply_words, .user = a, .num_inputs = 1, .num_outputs = 1, .input_names = &name },
        &a->model));
    OK(rf_model_add_layer(a->model, a->words));
    OK(rf_model_add_layer(a->model, a->classes));
    OK(rf_optimizer_create(strategy, &(rf_optimizer_params){ .kind = RF_OPTIMIZER_ADAM, .learning_rate = 0.03 },
                           &a->optimizer));
    OK(rf_model_compile(a->model, &(rf_compile_params){ .optimizer = a->optimizer, .loss = { .from_logits = true } }));
}

static void close_app(app *a)
{
    rf_model_destroy(&a->model);
    rf_optimizer_destroy(&a->optimizer);
}

static double loss_of(rf_model *model, const rf_dataset *data)
{
    rf_logs logs = { 0 };
    double loss = NAN;
    OK(rf_model_evaluate(model, data, &logs));
    assert_true(rf_logs_get(&logs, "loss", &loss));
    return loss;
}

static void fits(rf_strategy *strategy)
{
    app a;
    open_app(strategy, &a);
    rf_dataset *buckets = sentences(NUM_BORDERS), *one = sentences(0);
    OK(rf_model_fit(a.model, &(rf_fit_params){ .data = buckets, .epochs = 1 }, NULL));
    const double before = loss_of(a.model, buckets);
    assert_near(loss_of(a.model, one), before, 1e-5, 0, "loss with more padding");
    OK(rf_model_fit(a.model, &(rf_fit_params){ .data = buckets, .epochs = 12 }, NULL));
    const double after = loss_of(a.model, buckets);
    assert_true(after < 0.5 * before);
    assert_near(loss_of(a.model, one), after, 1e-5, 0, "loss with more padding, trained");
    rf_array predictions;
    OK(rf_model_predict(a.model, buckets, &predictions));
    assert_true(rf_shape_equal(predictions.shape, RF_SHAPE(N, CLASSES)));
    rf_array_free(&predictions);
    rf_dataset_destroy(&buckets);
    rf_dataset_destroy(&one);
    close_app(&a);
}
TEST_ON_ONE(fits)
TEST_ON_TWO(fits)

static rf_result train_step(rf_trace *t, const rf_tensor *in, rf_tensor *out, void *user)
{
    app *a = user;
    rf_tensor y;
    a->traces[rf_tensor_shape(t, in[0]).dim[1]]++;
    (void)rf_model_apply(t, a->model, in, 1, RF_TRAINING, &y, 1);
    out[0] = rf_compute_average_loss(t, rf_sparse_categorical_crossentropy(t, in[1], y, RF_LOGITS), NULL);
    return rf_optimizer_minimize(t, a->optimizer, out[0], rf_model_variables(a->model));
}

/* A step of the caller is traced once for each border, whatever comes how often. */
static void traces_once(rf_strategy *strategy)
{
    app a;
    rf_function *step;
    double first = 0, last = 0;
    open_app(strategy, &a);
    OK(rf_model_build_for(a.model, RF_I32, RF_SHAPE(LONGEST)));
    OK(rf_function_create(
        strategy, &(rf_function_params){ .step = train_step, .user = &a, .num_outputs = 1, .training = true }, &step));
    rf_dataset *buckets = sentences(NUM_BORDERS);
    for (uint64_t epoch = 0; epoch < 10; epoch++) {
        rf_iterator *it;
        const rf_element *batch;
        uint32_t batches = 0;
        last = 0;
        OK(rf_iterator_create(buckets, epoch, &it));
        for (; rf_iterator_next(it, &batch) == RF_OK; batches++) {
            float loss;
            run_once(strategy, step, batch, &loss, 1);
            last += (double)loss;
        }
        rf_iterator_destroy(&it);
        assert_in_range(batches, N / BATCH, N / BATCH + NUM_BORDERS);
        if (epoch == 0) first = last;
    }
    assert_true(last < 0.7 * first);
    for (uint32_t length = 0; length <= LONGEST; length++)
        assert_int_equal(a.traces[length], length > 0 && length % 4 == 0);
    rf_dataset_destroy(&buckets);
    rf_function_destroy(&step);
    close_app(&a);
}
TEST_ON_ONE(traces_once)

TESTS(padded, NULL, NULL)
