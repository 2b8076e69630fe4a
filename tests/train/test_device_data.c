/* SPDX-License-Identifier: Apache-2.0 */
/* Data sets on the devices: which qualify, and that training on them has the bits of training on batches of the host.
 */
#include "../support/strategies.h"

#include "data/pipeline.h"
#include "data/rows.h"
#include "step/function.h"
#include "tests/room.h"
#include "train/fit/compile.h"
#include "train/fit/device_data.h"
#include "train/model/model.h"

enum { SIDE = 6, PIXELS = SIDE * SIDE, CLASSES = 5, EXAMPLES = 70, BATCH = 16 /* the last one has 6 */ };

/* ---- decisions ---- */

TEST(what_fits)
{
    assert_null(rf_device_data_obstacle(100, 0, 400, 1000));
    assert_non_null(strstr(rf_device_data_obstacle(101, 0, 400, 1000), "budget"));
    assert_null(rf_device_data_obstacle(300, 300, 400, 1000));
    assert_non_null(strstr(rf_device_data_obstacle(301, 300, 400, 1000), "budget"));
    assert_non_null(strstr(rf_device_data_obstacle(300, 300, 400, 299), "at once"));
}

/* ---- pipelines ---- */

typedef struct images {
    uint8_t pixels[EXAMPLES * PIXELS], odd[EXAMPLES * 3];
    int32_t labels[EXAMPLES];
    float weights[EXAMPLES];
} images;

static void fill_images(images *m)
{
    uint32_t seed = 9;
    for (int i = 0; i < EXAMPLES; i++) {
        m->labels[i] = (i * 3) % CLASSES;
        m->weights[i] = 0.5f + 0.25f * (float)(i % 3);
        for (int k = 0; k < 3; k++) m->odd[i * 3 + k] = (uint8_t)(255.0f * 0.5f * (noise(&seed) + 1));
        for (int p = 0; p < PIXELS; p++)
            m->pixels[i * PIXELS + p] =
                (uint8_t)(100.0f * 0.5f * (noise(&seed) + 1) + (p % CLASSES == m->labels[i] ? 120 : 0));
    }
}

/* Takes the place of its input. */
#define STEP(d, call)                                                                                                  \
    do {                                                                                                               \
        rf_dataset *step_out_;                                                                                         \
        OK(call);                                                                                                      \
        rf_dataset_destroy(&(d));                                                                                      \
        (d) = step_out_;                                                                                               \
    } while (0)
#define NEXT &step_out_

static rf_dataset *arrays_of(images *m, bool weighted)
{
    const rf_array arrays[] = { { RF_U8, RF_SHAPE(EXAMPLES, SIDE, SIDE, 1), m->pixels },
                                { RF_I32, RF_SHAPE(EXAMPLES), m->labels },
                                { RF_F32, RF_SHAPE(EXAMPLES), m->weights } };
    rf_dataset *d;
    OK(rf_dataset_from_arrays(&(rf_dataset_arrays_params){ .arrays = arrays, .num_arrays = weighted ? 3 : 2 }, &d));
    return d;
}

static rf_dataset *open_data(images *m, bool weighted)
{
    rf_dataset *d = arrays_of(m, weighted);
    STEP(d, rf_dataset_map_scale_u8(d, 0, NEXT));
    STEP(d, rf_dataset_shuffle(d, EXAMPLES, 4, RF_SHUFFLE_EACH_PASS, NEXT));
    STEP(d, rf_dataset_batch(d, BATCH, RF_REMAINDER_KEEP, NEXT));
    STEP(d, rf_dataset_prefetch(d, 2, NEXT));
    return d;
}

static rf_result keep_u8(void *user, const rf_element *in, rf_element *out)
{
    (void)user;
    rf_element_copy(out, in);
    return RF_OK;
}

static void expect_refused(rf_dataset *d, const char *text)
{
    rf_row_source source;
    rf_dataset *rows;
    assert_int_equal(rf_dataset_rows(d, &source, &rows), RF_ERROR_UNSUPPORTED);
    if (!strstr(rf_error_message(), text)) fail_msg("'%s' is not in: %s", text, rf_error_message());
    assert_null(rows);
    rf_dataset_destroy(&d);
}

TEST(what_qualifies)
{
    images m;
    fill_images(&m);
    rf_element_spec spec;
    rf_dataset *d = arrays_of(&m, false);
    expect_refused(d, "not batched");
    d = arrays_of(&m, false);
    rf_dataset_spec(d, &spec);
    STEP(d, rf_dataset_map(d, keep_u8, NULL, &spec, NEXT));
    STEP(d, rf_dataset_batch(d, 4, RF_REMAINDER_KEEP, NEXT));
    expect_refused(d, "a function of the program's own");
    d = arrays_of(&m, false);
    STEP(d, rf_dataset_cache(d, NEXT));
    STEP(d, rf_dataset_batch(d, 4, RF_REMAINDER_KEEP, NEXT));
    expect_refused(d, "a 'cache' step");
    d = arrays_of(&m, false);
    STEP(d, rf_dataset_map_one_hot(d, 1, CLASSES - 1, NEXT));
    STEP(d, rf_dataset_batch(d, 4, RF_REMAINDER_KEEP, NEXT));
    expect_refused(d, "class 4 of row");
    d = arrays_of(&m, false);
    STEP(d, rf_dataset_batch(d, 4, RF_REMAINDER_KEEP, NEXT));
    STEP(d, rf_dataset_batch(d, 4, RF_REMAINDER_DROP, NEXT));
    expect_refused(d, "twice");
}

/* The rows' numbers name the examples that the pipeline gives, also where it is sliced, repeated or goes on. */
TEST(rows_name_the_examples)
{
    images m;
    fill_images(&m);
    rf_dataset *d = arrays_of(&m, false), *rows;
    STEP(d, rf_dataset_skip(d, 3, NEXT));
    STEP(d, rf_dataset_shuffle(d, 11, 4, RF_SHUFFLE_EACH_PASS, NEXT)); /* in a buffer */
    STEP(d, rf_dataset_repeat(d, 2, NEXT));
    STEP(d, rf_dataset_batch(d, BATCH, RF_REMAINDER_KEEP, NEXT));
    rf_row_source source;
    OK(rf_dataset_rows(d, &source, &rows));
    assert_int_equal(rf_dataset_cardinality(rows), rf_dataset_cardinality(d));
    assert_int_equal(rf_dataset_batch_size(rows), BATCH);
    for (uint64_t epoch = 0; epoch < 3; epoch++) {
        rf_iterator *of_examples, *of_rows;
        const rf_element *examples, *numbers;
        OK(rf_iterator_create(d, epoch, &of_examples));
        OK(rf_iterator_create(rows, epoch, &of_rows));
        for (int batch = 0;; batch++) {
            if (batch == 3) { /* each goes on where the other was */
                void *state_a, *state_b;
                size_t size_a, size_b;
                OK(rf_iterator_save(of_examples, &state_a, &size_a));
                OK(rf_iterator_save(of_rows, &state_b, &size_b));
                assert_int_equal(size_a, size_b);
                assert_memory_equal(state_a, state_b, size_a);
                rf_iterator_destroy(&of_rows);
                OK(rf_iterator_restore(rows, state_a, size_a, &of_rows));
                rf_iterator_state_free(state_a);
                rf_iterator_state_free(state_b);
            }
            const rf_result r = rf_iterator_next(of_examples, &examples);
            assert_int_equal(rf_iterator_next(of_rows, &numbers), r);
            if (r == RF_END) break;
            OK(r);
            assert_int_equal(numbers->num_components, 1);
            assert_int_equal(numbers->component[0].shape.rank, 1);
            assert_int_equal(numbers->component[0].shape.dim[0], examples->component[0].shape.dim[0]);
            for (int64_t i = 0; i < numbers->component[0].shape.dim[0]; i++) {
                const int32_t row = ((const int32_t *)numbers->component[0].data)[i];
                assert_memory_equal((const uint8_t *)examples->component[0].data + i * PIXELS, m.pixels + row * PIXELS,
                                    PIXELS);
                assert_int_equal(((const int32_t *)examples->component[1].data)[i], m.labels[row]);
            }
        }
        rf_iterator_destroy(&of_examples);
        rf_iterator_destroy(&of_rows);
    }
    rf_dataset_destroy(&d);
    rf_dataset_destroy(&rows);
}

/* ---- on devices ---- */

typedef struct taker {
    const rf_device_data *kept;
} taker;

static rf_result take_step(rf_trace *t, const rf_tensor *in, rf_tensor *out, void *user)
{
    const taker *k = user;
    return rf_device_data_take(t, k->kept, in[0], out);
}

/* Every kind of component and every value of a pixel, bit for bit. */
static void takes_examples(rf_strategy *strategy)
{
    images m;
    fill_images(&m);
    for (int i = 0; i < 256; i++) m.pixels[i] = (uint8_t)i;
    const rf_array arrays[] = { { RF_U8, RF_SHAPE(EXAMPLES, SIDE, SIDE, 1), m.pixels },
                                { RF_I32, RF_SHAPE(EXAMPLES), m.labels },
                                { RF_F32, RF_SHAPE(EXAMPLES), m.weights },
                                { RF_U8, RF_SHAPE(EXAMPLES, 3), m.odd },
                                { RF_U8, RF_SHAPE(EXAMPLES, SIDE, SIDE, 1), m.pixels },
                                { RF_I32, RF_SHAPE(EXAMPLES), m.labels } };
    rf_dataset *d;
    OK(rf_dataset_from_arrays(&(rf_dataset_arrays_params){ .arrays = arrays, .num_arrays = 6 }, &d));
    STEP(d, rf_dataset_map_scale_u8(d, 0, NEXT));
    STEP(d, rf_dataset_map_one_hot(d, 5, CLASSES, NEXT));
    STEP(d, rf_dataset_shuffle(d, EXAMPLES, 4, RF_SHUFFLE_EACH_PASS, NEXT));
    STEP(d, rf_dataset_batch(d, BATCH, RF_REMAINDER_KEEP, NEXT));
    taker k = { NULL };
    rf_device_data *kept;
    OK(rf_device_data_create(strategy, d, &(rf_device_data_params){ .policy = RF_DEVICE_CACHE_ON }, &kept));
    k.kept = kept;
    assert_int_equal(rf_device_data_num_components(kept), 6);
    rf_function *f;
    OK(rf_function_create(strategy, &(rf_function_params){ .step = take_step, .user = &k, .num_outputs = 6 }, &f));
    rf_iterator *of_examples, *of_rows;
    const rf_element *examples, *rows;
    OK(rf_iterator_create(d, 1, &of_examples));
    OK(rf_iterator_create(rf_device_data_rows(kept), 1, &of_rows));
    while (rf_iterator_next(of_examples, &examples) == RF_OK) {
        rf_per_replica *results[6];
        OK(rf_iterator_next(of_rows, &rows));
        OK(rf_strategy_run(strategy, f, rows, results));
        for (uint32_t i = 0; i < 6; i++) {
            rf_array is;
            OK(rf_strategy_gather(strategy, results[i], &is));
            const rf_array *wanted = &examples->component[i];
            assert_int_equal(is.dtype, wanted->dtype);
            assert_true(rf_shape_equal(is.shape, wanted->shape));
            assert_memory_equal(is.data, wanted->data, (size_t)rf_shape_count(is.shape) * rf_dtype_size(is.dtype));
            rf_array_free(&is);
        }
    }
    rf_program_stats stats;
    OK(rf_program_stats_get(f->signatures.items[0]->programs[0], rows->component[0].shape.dim[0], &stats));
    assert_in_range(stats.upload_size, 1, 256); /* numbers of rows */
    rf_iterator_destroy(&of_examples);
    rf_iterator_destroy(&of_rows);
    rf_device_data_destroy(&kept);
    rf_function_destroy(&f);
    rf_dataset_destroy(&d);
}

/* ---- training ---- */

typedef struct trainer {
    rf_model *model;
    rf_optimizer *optimizer;
} trainer;

static void open_trainer(rf_strategy *strategy, trainer *t, uint32_t steps_per_execution)
{
    rf_layer *l[5];
    strategy->store.variables_created = 0; /* the same initial values for each */
    rf_strategy_set_seed(strategy, 5);
    OK(rf_layer_conv2d(
        &(rf_conv2d_layer_params){ .filters = 4, .kernel_size = { 3 }, .activation = RF_ACTIVATION_RELU }, &l[0]));
    OK(rf_layer_max_pool2d(NULL, &l[1]));
    OK(rf_layer_flatten(&l[2]));
    OK(rf_layer_dropout(0.2f, 3, &l[3]));
    OK(rf_layer_dense(&(rf_dense_params){ .units = CLASSES }, &l[4]));
    OK(rf_model_create_sequential(strategy, l, 5, NULL, &t->model));
    OK(rf_optimizer_create(strategy, &(rf_optimizer_params){ .kind = RF_OPTIMIZER_ADAM, .learning_rate = 0.01 },
                           &t->optimizer));
    const rf_metric_kind accuracy = RF_METRIC_SPARSE_CATEGORICAL_ACCURACY;
    OK(rf_model_compile(t->model, &(rf_compile_params){ .optimizer = t->optimizer,
                                                        .loss = { .from_logits = true },
                                                        .metrics = &accuracy,
                                                        .num_metrics = 1,
                                                        .steps_per_execution = steps_per_execution }));
}

static void close_trainer(trainer *t)
{
    rf_model_destroy(&t->model);
    rf_optimizer_destroy(&t->optimizer);
}

/* Two fits, the second one with epochs that do not end where passes do: each keeps its data anew. */
static void same_bits(rf_strategy *strategy)
{
    images m;
    fill_images(&m);
    for (int weighted = 0; weighted < 2; weighted++) {
        trainer host, device;
        rf_history of_host[2], of_device[2];
        rf_dataset *d = open_data(&m, weighted);
        for (int kept = 0; kept < 2; kept++) {
            trainer *t = kept ? &device : &host;
            open_trainer(strategy, t, kept && weighted ? 3 : 1);
            rf_fit_params params = { .data = d,
                                     .validation_data = d,
                                     .epochs = 2,
                                     .device_cache = kept ? RF_DEVICE_CACHE_ON : RF_DEVICE_CACHE_OFF };
            OK(rf_model_fit(t->model, &params, kept ? &of_device[0] : &of_host[0]));
            params.steps_per_epoch = 4;
            OK(rf_model_fit(t->model, &params, kept ? &of_device[1] : &of_host[1]));
        }
        assert_same_variables(rf_model_variables(host.model), rf_model_variables(device.model));
        for (int f = 0; f < 2; f++)
            for (uint32_t e = 0; e < 2; e++)
                for (uint32_t i = 0; i < of_host[f].epochs[e].count; i++)
                    assert_memory_equal(&of_host[f].epochs[e].value[i], &of_device[f].epochs[e].value[i],
                                        sizeof(double));
        for (int f = 0; f < 2; f++) {
            rf_history_free(&of_host[f]);
            rf_history_free(&of_device[f]);
        }
        close_trainer(&host);
        close_trainer(&device);
        rf_dataset_destroy(&d);
    }
}

static void falls_back(rf_strategy *strategy)
{
    images m;
    fill_images(&m);
    rf_device_data *kept;
    rf_dataset *d = arrays_of(&m, false);
    STEP(d, rf_dataset_map_scale_u8(d, 0, NEXT));
    STEP(d, rf_dataset_cache(d, NEXT));
    STEP(d, rf_dataset_batch(d, BATCH, RF_REMAINDER_KEEP, NEXT));
    trainer t;
    open_trainer(strategy, &t, 1);
    rf_fit_params params = { .data = d, .device_cache = RF_DEVICE_CACHE_AUTO };
    OK(rf_model_fit(t.model, &params, NULL));
    params.device_cache = RF_DEVICE_CACHE_ON;
    assert_int_equal(rf_model_fit(t.model, &params, NULL), RF_ERROR_UNSUPPORTED);
    assert_non_null(strstr(rf_error_message(), "a 'cache' step needs the host"));
    rf_dataset_destroy(&d);

    d = open_data(&m, false);
    rf_device_data_params little = { .policy = RF_DEVICE_CACHE_AUTO, .max_bytes = 1000 };
    OK(rf_device_data_create(strategy, d, &little, &kept));
    assert_null(kept);
    little.policy = RF_DEVICE_CACHE_ON;
    assert_int_equal(rf_device_data_create(strategy, d, &little, &kept), RF_ERROR_UNSUPPORTED);
    assert_non_null(strstr(rf_error_message(), "more than the budget"));
    little.max_bytes = 4 * EXAMPLES + PIXELS * EXAMPLES;
    OK(rf_device_data_create(strategy, d, &little, &kept));
    assert_non_null(kept);
    rf_device_data_destroy(&kept);
    close_trainer(&t);
    rf_dataset_destroy(&d);
}

TEST_ON_ALL(takes_examples)
TEST_ON_ONE(same_bits)
TEST_ON_TWO(same_bits)
TEST_ON_ONE(falls_back)

TESTS(device_data, NULL, NULL)
