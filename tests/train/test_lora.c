/* SPDX-License-Identifier: Apache-2.0 */
/* Adapters: what they change and what not, which of them act, weights that they are merged into, and their files. */
#include <ringfire/interchange.h>
#include <ringfire/lora.h>

#include <unistd.h>

#include "../support/strategies.h"
#include "../support/try.h"
#include "base/philox.h"
#include "base/platform.h"
#include "replica/store/variables.h"
#include "replica/update/updater.h"
#include "test_folder.h"
#include "tests/room.h"
#include "train/lora/config.h"
#include "train/optimizer/optimizer_object.h"

enum { N = 16, STEPS = 6, VOCABULARY = 9, WIDTH = 8, CLASSES = 3 };

typedef struct app {
    rf_dataset *data;
    rf_model *model;
    rf_optimizer *optimizer;
    int32_t words[N * STEPS], labels[N];
} app;

/* Embedding, attention, a convolution along the steps, and dense layers. */
static rf_model *make_model(rf_strategy *strategy)
{
    rf_model_builder *b;
    rf_layer *embedding, *attention, *conv, *pool, *hidden, *head;
    rf_model *model;
    OK(rf_layer_embedding(&(rf_embedding_params){ .input_dim = VOCABULARY, .output_dim = WIDTH, .name = "words" },
                          &embedding));
    OK(rf_layer_multi_head_attention(
        &(rf_multi_head_attention_params){ .num_heads = 2, .key_dim = 4, .causal = true, .name = "block/attn" },
        &attention));
    OK(rf_layer_conv1d(
        &(rf_conv1d_layer_params){ .filters = WIDTH, .kernel_size = 3, .causal = true, .name = "block/conv" }, &conv));
    OK(rf_layer_global_avg_pool1d(&pool));
    OK(rf_layer_dense(&(rf_dense_params){ .units = WIDTH, .activation = RF_ACTIVATION_TANH, .name = "block/hidden" },
                      &hidden));
    OK(rf_layer_dense(&(rf_dense_params){ .units = CLASSES, .name = "head" }, &head));
    OK(rf_model_builder_create(strategy, &b));
    rf_symbol x = rf_model_builder_input(b, RF_I32, RF_SHAPE(STEPS), NULL);
    x = rf_model_builder_call(b, embedding, x);
    x = rf_model_builder_call(b, attention, x);
    x = rf_model_builder_call(b, conv, x);
    x = rf_model_builder_call(b, pool, x);
    x = rf_model_builder_call(b, hidden, x);
    x = rf_model_builder_call(b, head, x);
    OK(rf_model_builder_finish(&b, &x, 1, NULL, &model));
    return model;
}

static rf_dataset *make_data(app *a)
{
    const rf_array arrays[2] = { array_i32(RF_SHAPE(N, STEPS), a->words), array_i32(RF_SHAPE(N), a->labels) };
    rf_dataset *rows, *data;
    uint32_t seed = 3;
    for (int i = 0; i < N * STEPS; i++) a->words[i] = (int32_t)((noise(&seed) + 1) / 2 * VOCABULARY);
    for (int i = 0; i < N; i++) a->labels[i] = a->words[i * STEPS] % CLASSES;
    OK(rf_dataset_from_arrays(&(rf_dataset_arrays_params){ .arrays = arrays, .num_arrays = 2 }, &rows));
    OK(rf_dataset_batch(rows, N, RF_REMAINDER_KEEP, &data));
    rf_dataset_destroy(&rows);
    return data;
}

static void app_open_with(rf_strategy *strategy, rf_model *model, app *a)
{
    memset(a, 0, sizeof(*a));
    a->data = make_data(a);
    a->model = model;
    OK(rf_optimizer_create(strategy, &(rf_optimizer_params){ .kind = RF_OPTIMIZER_ADAMW, .learning_rate = 0.05 },
                           &a->optimizer));
}

static void app_open(rf_strategy *strategy, app *a)
{
    app_open_with(strategy, make_model(strategy), a);
}

static void app_close(app *a)
{
    rf_dataset_destroy(&a->data);
    rf_optimizer_destroy(&a->optimizer);
    rf_model_destroy(&a->model);
}

static double train(app *a, uint32_t epochs)
{
    rf_history history = { 0 };
    OK(rf_model_compile(a->model, &(rf_compile_params){ .optimizer = a->optimizer, .loss = { .from_logits = true } }));
    OK(rf_model_fit(a->model, &(rf_fit_params){ .data = a->data, .epochs = epochs }, &history));
    const double loss = history.epochs[epochs - 1].value[0];
    rf_history_free(&history);
    return loss;
}

typedef struct logits {
    float value[N * CLASSES];
} logits;

static logits predict(const app *a)
{
    logits out;
    rf_array result;
    OK(rf_model_predict(a->model, a->data, &result));
    memcpy(out.value, result.data, sizeof(out.value));
    rf_array_free(&result);
    return out;
}

static bool same(const logits *a, const logits *b)
{
    return memcmp(a, b, sizeof(*a)) == 0;
}

static void expect_close(const logits *a, const logits *b)
{
    for (int i = 0; i < N * CLASSES; i++) assert_float_equal(a->value[i], b->value[i], 1e-5);
}

static uint64_t hash_of(const rf_model *model, const char *layer, const char *variable)
{
    rf_variable *v = rf_layer_variable(rf_model_find_layer(model, layer), variable);
    float values[512];
    assert_non_null(v);
    OK(rf_variable_read(v, values));
    return rf_hash_floats(values, (uint64_t)rf_shape_count(rf_variable_shape(v)));
}

static const char *const everything[] = { "*" };
static const rf_lora_params all_modules = { .rank = 2, .alpha = 4, .targets = everything, .num_targets = 1 };

/* ---- names ---- */

TEST(patterns_name_modules)
{
    assert_true(rf_lora_pattern_matches("q_proj", "model.layers.0.self_attn.q_proj"));
    assert_true(rf_lora_pattern_matches("self_attn.q_proj", "model.layers.0.self_attn.q_proj"));
    assert_true(rf_lora_pattern_matches("self_attn.*", "model.layers.0.self_attn.q_proj"));
    assert_true(rf_lora_pattern_matches("layers.*.q_proj", "model.layers.0.self_attn.q_proj"));
    assert_true(rf_lora_pattern_matches("*", "head"));
    assert_false(rf_lora_pattern_matches("proj", "model.layers.0.self_attn.q_proj"));
    assert_false(rf_lora_pattern_matches("q_proj", "model.q_proj.k"));
    assert_false(rf_lora_pattern_matches("layers.1.*", "model.layers.0.self_attn.q_proj"));
}

static void expect_modules(rf_model *model, const char *const *names, uint32_t count)
{
    assert_int_equal(rf_lora_num_modules(model), count);
    for (uint32_t i = 0; i < count; i++) assert_string_equal(rf_lora_module_name(model, i), names[i]);
    assert_null(rf_lora_module_name(model, count));
}

/* Projections and dense layers but the last have two matrices each. */
static void modules_are_layers(rf_strategy *strategy)
{
    static const char *const names[] = { "words",
                                         "block.attn.query",
                                         "block.attn.key",
                                         "block.attn.value",
                                         "block.attn.attention_output",
                                         "block.conv",
                                         "block.hidden",
                                         "head" };
    static const char *const wanted[] = { "block/attn/query/lora_A/plain", "block/attn/query/lora_B/plain" };
    rf_model *model = make_model(strategy);
    expect_modules(model, names, 8);
    OK(rf_lora_attach(model, "plain", NULL));
    assert_int_equal(rf_model_variables(model).count, 10);
    for (int i = 0; i < 2; i++) assert_string_equal(rf_variable_name(rf_model_variables(model).items[i]), wanted[i]);
    rf_model_destroy(&model);
}
TEST_ON_ONE(modules_are_layers)

TEST(short_names_stand_for_modules)
{
    rf_lora_module items[3] = { { .name = (char[]){ "a.q" } },
                                { .name = (char[]){ "b.q" } },
                                { .name = (char[]){ "b.k" } } };
    const rf_lora_modules modules = { items, 3, 3 };
    const char *names[3];
    const bool both[3] = { true, true, false }, one[3] = { false, true, false };
    assert_int_equal(rf_lora_target_names(&modules, both, names), 1);
    assert_string_equal(names[0], "q");
    assert_int_equal(rf_lora_target_names(&modules, one, names), 1);
    assert_string_equal(names[0], "b.q");
    static const char *const targets[] = { "b/q" };
    bool chosen[3];
    OK(rf_lora_choose(&modules, targets, 1, chosen));
    assert_memory_equal(chosen, one, sizeof(one));
}

/* ---- training ---- */

static const char *const frozen[][2] = { { "words", "embeddings" },    { "block/attn", "query/kernel" },
                                         { "block/attn", "key/bias" }, { "block/conv", "kernel" },
                                         { "block/hidden", "kernel" }, { "head", "bias" } };
enum { NUM_FROZEN = sizeof(frozen) / sizeof(frozen[0]) };

static uint64_t elements_of(rf_variable_list variables)
{
    uint64_t count = 0;
    for (uint32_t i = 0; i < variables.count; i++)
        count += (uint64_t)rf_shape_count(rf_variable_shape(variables.items[i]));
    return count;
}

/* Segments are what replicas exchange, and what has slots. */
static void expect_updates(const app *a, uint64_t elements)
{
    const rf_updater *u = a->optimizer->updater;
    uint64_t exchanged = 0;
    assert_int_equal(elements_of(rf_updater_variables(u)), elements);
    for (uint32_t i = 0; i < u->plan.count; i++) exchanged += u->plan.items[i].range.end - u->plan.items[i].range.begin;
    assert_in_range(exchanged, elements, elements + u->variables.count * u->strategy->store.alignment);
}

/* Adapters alone change, and alone have gradients, slots and a part in the exchange. */
static void base_is_frozen(rf_strategy *strategy)
{
    app a;
    uint64_t before[NUM_FROZEN];
    app_open(strategy, &a);
    const logits plain = predict(&a);
    OK(rf_lora_attach(a.model, "task", &all_modules));
    const logits begun = predict(&a);
    assert_true(same(&plain, &begun));
    for (int i = 0; i < NUM_FROZEN; i++) before[i] = hash_of(a.model, frozen[i][0], frozen[i][1]);
    const double first = train(&a, 1);
    assert_true(train(&a, 30) < 0.5 * first);
    for (int i = 0; i < NUM_FROZEN; i++) assert_int_equal(hash_of(a.model, frozen[i][0], frozen[i][1]), before[i]);
    assert_int_equal(rf_model_variables(a.model).count, 16);
    expect_updates(&a, elements_of(rf_model_variables(a.model)));

    OK(rf_lora_set_active(a.model, NULL));
    const logits without = predict(&a);
    assert_true(same(&plain, &without));
    OK(rf_lora_detach(a.model, "task"));
    assert_int_equal(rf_model_variables(a.model).count, 15);
    assert_true(rf_layer_trainable(rf_model_find_layer(a.model, "head")));
    assert_true(train(&a, 1) > 0);
    app_close(&a);
}
TEST_ON_ALL(base_is_frozen)

enum { ROWS = 2000, COLUMNS = 32, TABLE = ROWS * COLUMNS };

static rf_model *make_large_model(rf_strategy *strategy)
{
    rf_layer *layers[3];
    rf_model *model;
    OK(rf_layer_embedding(&(rf_embedding_params){ .input_dim = ROWS, .output_dim = COLUMNS, .name = "words" },
                          &layers[0]));
    OK(rf_layer_global_avg_pool1d(&layers[1]));
    OK(rf_layer_dense(&(rf_dense_params){ .units = CLASSES, .name = "head" }, &layers[2]));
    OK(rf_model_create_sequential(strategy, layers, 3, NULL, &model));
    OK(rf_model_build_for(model, RF_I32, RF_SHAPE(STEPS)));
    return model;
}

/* Room for gradients is that of adapters; a base that is trained again gets room, and one that was trained keeps it. */
static void base_takes_no_room(rf_strategy *strategy)
{
    static const char *const head[] = { "head" };
    static float table[TABLE], again[TABLE];
    const rf_lora_params params = { .rank = 2, .targets = head, .num_targets = 1 };
    const rf_store *store = &strategy->store.trainable;
    app a;
    app_open_with(strategy, make_large_model(strategy), &a);
    rf_variable *words = rf_layer_variable(rf_model_find_layer(a.model, "words"), "embeddings");
    const logits plain = predict(&a);
    OK(rf_variable_read(words, table));
    OK(rf_lora_attach(a.model, "task", &params));
    (void)train(&a, 3);
    assert_in_range(store->values.capacity, 1, TABLE / 2);
    assert_in_range(strategy->store.gradients.capacity, 1, TABLE / 2);
    assert_in_range(a.optimizer->updater->variables.count, 2, 2);
    OK(rf_variable_read(words, again));
    assert_memory_equal(table, again, sizeof(table));
    OK(rf_lora_detach(a.model, "task"));
    const logits without = predict(&a);
    assert_true(same(&plain, &without));

    (void)train(&a, 1);
    assert_in_range(strategy->store.gradients.capacity, TABLE, 2 * TABLE);
    assert_int_equal(strategy->store.aside.values.capacity, 0);
    OK(rf_variable_read(words, again));
    assert_memory_not_equal(table, again, sizeof(table));
    OK(rf_lora_attach(a.model, "task", &params));
    const logits before = predict(&a);
    (void)train(&a, 3);
    assert_in_range(store->values.capacity, TABLE, 2 * TABLE);
    OK(rf_lora_set_active(a.model, NULL));
    const logits after = predict(&a);
    assert_true(same(&before, &after));
    app_close(&a);
}
TEST_ON_ALL(base_takes_no_room)

/* A base in 4 bits has adapters as any other one, but for what needs its weights in f32. */
static void base_in_few_bits(rf_strategy *strategy)
{
    static const char *const kernels[] = { "*kernel" };
    const rf_quantize_params quantize = { .kind = RF_QUANTIZATION_NF4, .weights = kernels, .num_weights = 1 };
    app a;
    OK(rf_strategy_set_quantization(strategy, &quantize));
    app_open(strategy, &a);
    OK(rf_strategy_set_quantization(strategy, NULL));
    rf_quantization kind;
    assert_non_null(
        rf_variable_quantized(rf_layer_variable(rf_model_find_layer(a.model, "block/hidden"), "kernel"), &kind));
    const uint64_t kernel = hash_of(a.model, "block/hidden", "kernel");
    const logits plain = predict(&a);
    OK(rf_lora_attach(a.model, "task", NULL));
    const logits begun = predict(&a);
    assert_true(same(&plain, &begun));
    const double first = train(&a, 1);
    assert_true(train(&a, 30) < 0.5 * first);
    assert_int_equal(hash_of(a.model, "block/hidden", "kernel"), kernel);
    FAILS(rf_lora_merge(a.model, "task"), RF_ERROR_UNSUPPORTED, "few bits");
    OK(rf_lora_save(a.model, "task", in_folder("adapter")));
    OK(rf_lora_detach(a.model, "task"));
    const logits without = predict(&a);
    assert_true(same(&plain, &without));
    app_close(&a);
}
TEST_ON_ONE(base_in_few_bits)
TEST_ON_TWO(base_in_few_bits)

/* ---- dropout ---- */

enum { UNITS = 4, EXAMPLES = 64 };

static void assign_identity(rf_variable *variable)
{
    float values[UNITS * UNITS] = { 0 };
    for (int i = 0; i < UNITS; i++) values[i * UNITS + i] = 1;
    OK(rf_variable_assign(variable, values));
}

/* x W + dropped(x) A B, where all matrices are the identity: elements are x where they were dropped, else 3 x. */
static void base_sees_what_is_dropped(rf_strategy *strategy)
{
    static const char *const target[] = { "body" };
    static float x[EXAMPLES * UNITS];
    rf_layer *layer;
    rf_model *model;
    rf_function *function;
    rf_per_replica *result;
    rf_array out;
    uint32_t dropped = 0, seed = 5;
    for (int i = 0; i < EXAMPLES * UNITS; i++) x[i] = 2 + noise(&seed);
    OK(rf_layer_dense(&(rf_dense_params){ .units = UNITS, .no_bias = true, .name = "body" }, &layer));
    OK(rf_model_create_sequential(strategy, &layer, 1, &RF_SHAPE(UNITS), &model));
    OK(rf_lora_attach(
        model, "a",
        &(rf_lora_params){ .rank = UNITS, .alpha = UNITS, .dropout = 0.5f, .targets = target, .num_targets = 1 }));
    assign_identity(rf_layer_variable(layer, "kernel"));
    for (uint32_t i = 0; i < 2; i++) assign_identity(rf_model_variables(model).items[i]);
    OK(rf_function_create(
        strategy, &(rf_function_params){ .step = call_for_training, .user = model, .num_outputs = 1, .training = true },
        &function));
    const rf_element batch = { .num_components = 1, .component = { array_f32(RF_SHAPE(EXAMPLES, UNITS), x) } };
    OK(rf_strategy_run(strategy, function, &batch, &result));
    OK(rf_strategy_gather(strategy, result, &out));
    for (int i = 0; i < EXAMPLES * UNITS; i++) {
        const float y = ((const float *)out.data)[i];
        const bool is_dropped = fabsf(y - x[i]) < 1e-5f;
        assert_float_equal(y, is_dropped ? x[i] : 3 * x[i], 1e-5);
        dropped += is_dropped;
    }
    assert_in_range(dropped, EXAMPLES * UNITS / 3, EXAMPLES * UNITS * 2 / 3);
    rf_array_free(&out);
    rf_function_destroy(&function);
    rf_model_destroy(&model);
}
TEST_ON_ONE(base_sees_what_is_dropped)

/* Each is as it was, whichever was trained meanwhile. */
static void adapters_are_switched(rf_strategy *strategy)
{
    app a;
    app_open(strategy, &a);
    OK(rf_lora_attach(a.model, "one", &all_modules));
    (void)train(&a, 5);
    const logits one = predict(&a);
    const rf_lora_params other = { .rank = 3, .rank_stabilized = true, .dropout = 0.2f };
    OK(rf_lora_attach(a.model, "two", &other));
    assert_string_equal(rf_lora_active(a.model), "two");
    (void)train(&a, 5);
    const logits two = predict(&a);
    assert_false(same(&one, &two));
    OK(rf_lora_set_active(a.model, "one"));
    const logits again = predict(&a);
    assert_true(same(&one, &again));
    OK(rf_lora_set_active(a.model, "two"));
    const logits back = predict(&a);
    assert_true(same(&two, &back));
    assert_int_equal(rf_lora_num_adapters(a.model), 2);
    assert_string_equal(rf_lora_adapter_name(a.model, 1), "two");
    app_close(&a);
}
TEST_ON_ONE(adapters_are_switched)

/* ---- merging ---- */

static void merges(rf_strategy *strategy)
{
    app a;
    uint64_t before[NUM_FROZEN];
    const rf_lora_params decomposed = { .rank = 2, .weight_decomposed = true, .targets = everything, .num_targets = 1 };
    app_open(strategy, &a);
    for (int i = 0; i < NUM_FROZEN; i++) before[i] = hash_of(a.model, frozen[i][0], frozen[i][1]);
    OK(rf_lora_attach(a.model, "plain", &all_modules));
    (void)train(&a, 5);
    const logits plain = predict(&a);
    OK(rf_lora_attach(a.model, "dora", &decomposed));
    (void)train(&a, 5);
    const logits dora = predict(&a);

    OK(rf_lora_merge(a.model, "dora"));
    assert_null(rf_lora_active(a.model));
    const logits merged = predict(&a);
    expect_close(&dora, &merged);
    FAILS(rf_lora_merge(a.model, "dora"), RF_ERROR_INVALID_ARGUMENT, "'dora' is merged already");
    FAILS(rf_lora_set_active(a.model, "dora"), RF_ERROR_INVALID_ARGUMENT, "rf_lora_unmerge");
    OK(rf_lora_unmerge(a.model));
    OK(rf_lora_merge(a.model, "plain"));
    const logits other = predict(&a);
    expect_close(&plain, &other);
    OK(rf_lora_merge(a.model, "dora"));
    OK(rf_lora_unmerge(a.model));
    for (int i = 0; i < NUM_FROZEN; i++) assert_int_equal(hash_of(a.model, frozen[i][0], frozen[i][1]), before[i]);
    OK(rf_lora_set_active(a.model, "dora"));
    const logits back = predict(&a);
    assert_true(same(&dora, &back));
    app_close(&a);
}
TEST_ON_ALL(merges)

/* ---- files ---- */

static const rf_lora_params decomposed_all = {
    .rank = 2, .alpha = 6, .weight_decomposed = true, .targets = everything, .num_targets = 1
};

static void write_adapter(app *a)
{
    OK(rf_lora_attach(a->model, "task", &decomposed_all));
    (void)train(a, 3);
    OK(rf_lora_save(a->model, "task", in_folder("adapter")));
}

static void files_hold_the_adapter(rf_strategy *strategy)
{
    app a;
    rf_array_set set;
    app_open(strategy, &a);
    write_adapter(&a);
    const logits trained = predict(&a);
    OK(rf_safetensors_read(in_folder("adapter/adapter_model.safetensors"), &set));
    assert_int_equal(set.count, 3 * 8);
    rf_array_set_free(&set);
    OK(rf_lora_set_active(a.model, NULL));
    OK(rf_lora_load(a.model, "again", in_folder("adapter")));
    assert_string_equal(rf_lora_active(a.model), "again");
    const logits loaded = predict(&a);
    assert_true(same(&trained, &loaded));
    app_close(&a);
}
TEST_ON_ONE(files_hold_the_adapter)
TEST_ON_TWO(files_hold_the_adapter)

/* In the directory of adapters that are wrong, or made here. */
static void write_config(const char *text)
{
    char path[256];
    snprintf(path, sizeof(path), "%s", in_folder("other/adapter_config.json"));
    scratch_write(path, text);
}

enum { HIGH = 3, WIDE = 2, IN = 3, OUT = 4, RANK = 2, KERNEL = HIGH * WIDE * IN * OUT, IMAGE = 6 * 5 * IN };

/* PEFT's own arithmetic: the two convolutions are one whose kernel [out, in, h, w] is B [out, rank] A [rank, in, h, w],
 * and `lengths` NULL, or those of its parts for each output. */
static void merge_kernel(float *kernel, const float *a, const float *b, float scale, const float *lengths)
{
    for (int o = 0; o < OUT; o++) {
        double sum = 0;
        for (int i = 0; i < HIGH * WIDE * IN; i++) {
            const int at = i % IN * HIGH * WIDE + i / IN;
            float *element = &kernel[i * OUT + o];
            for (int k = 0; k < RANK; k++) *element += scale * b[o * RANK + k] * a[k * HIGH * WIDE * IN + at];
            sum += (double)*element * (double)*element;
        }
        for (int i = 0; lengths && i < HIGH * WIDE * IN; i++) kernel[i * OUT + o] *= lengths[o] / (float)sqrt(sum);
    }
}

static void predict_images(rf_model *model, const rf_dataset *data, float *out)
{
    rf_array result;
    OK(rf_model_predict(model, data, &result));
    assert_int_equal(rf_shape_count(result.shape), 2 * 3 * 5 * OUT);
    memcpy(out, result.data, 2 * 3 * 5 * OUT * sizeof(float));
    rf_array_free(&result);
}

static void check_convolution(rf_strategy *strategy, bool decomposed)
{
    static float images[2 * IMAGE], a[RANK * HIGH * WIDE * IN], b[OUT * RANK], lengths[OUT] = { 1, 2, 0.5f, 3 };
    float kernel[KERNEL], adapted[2 * 3 * 5 * OUT], merged[2 * 3 * 5 * OUT];
    const rf_named_array tensors[] = {
        { "base_model.model.conv.lora_A.weight", array_f32(RF_SHAPE(RANK, IN, HIGH, WIDE), a) },
        { "base_model.model.conv.lora_B.weight", array_f32(RF_SHAPE(OUT, RANK, 1, 1), b) },
        { "base_model.model.conv.lora_magnitude_vector", array_f32(RF_SHAPE(1, OUT, 1, 1), lengths) }
    };
    const rf_array rows = array_f32(RF_SHAPE(2, 6, 5, IN), images);
    uint32_t seed = 8;
    rf_layer *layer;
    rf_model *model;
    rf_dataset *examples, *data;
    for (int i = 0; i < 2 * IMAGE; i++) images[i] = noise(&seed);
    for (int i = 0; i < RANK * HIGH * WIDE * IN; i++) a[i] = noise(&seed);
    for (int i = 0; i < OUT * RANK; i++) b[i] = noise(&seed);
    OK(rf_dataset_from_arrays(&(rf_dataset_arrays_params){ .arrays = &rows, .num_arrays = 1 }, &examples));
    OK(rf_dataset_batch(examples, 2, RF_REMAINDER_KEEP, &data));
    OK(rf_layer_conv2d(&(rf_conv2d_layer_params){ .filters = OUT,
                                                  .kernel_size = { HIGH, WIDE },
                                                  .conv.stride = { 2, 1 },
                                                  .conv.padding = RF_PADDING_SAME,
                                                  .name = "conv" },
                       &layer));
    OK(rf_model_create_sequential(strategy, &layer, 1, &RF_SHAPE(6, 5, IN), &model));
    OK(rf_make_directories(in_folder("other"), 0777));
    OK(rf_safetensors_write(in_folder("other/adapter_model.safetensors"), tensors, decomposed ? 3 : 2));
    write_config(decomposed ? "{\"r\": 2, \"lora_alpha\": 6, \"use_dora\": true}" : "{\"r\": 2, \"lora_alpha\": 6}");
    OK(rf_lora_load(model, "a", in_folder("other")));
    predict_images(model, data, adapted);
    OK(rf_lora_detach(model, "a"));
    rf_variable *variable = rf_layer_variable(layer, "kernel");
    OK(rf_variable_read(variable, kernel));
    merge_kernel(kernel, a, b, 3, decomposed ? lengths : NULL);
    OK(rf_variable_assign(variable, kernel));
    predict_images(model, data, merged);
    for (int i = 0; i < 2 * 3 * 5 * OUT; i++) assert_float_equal(adapted[i], merged[i], 1e-4);
    rf_model_destroy(&model);
    rf_dataset_destroy(&data);
    rf_dataset_destroy(&examples);
}

static void convolutions_are_as_in_peft(rf_strategy *strategy)
{
    check_convolution(strategy, false);
    check_convolution(strategy, true);
}
TEST_ON_ONE(convolutions_are_as_in_peft)

/* In another directory, one tensor of the file is zeros of that shape, or has another name. */
static void change_file(const char *name, rf_shape shape, const char *renamed)
{
    rf_array_set set;
    static float zeros[64];
    OK(rf_safetensors_read(in_folder("adapter/adapter_model.safetensors"), &set));
    rf_named_array *tensor = NULL;
    for (uint32_t i = 0; i < set.count; i++)
        if (strcmp(set.items[i].name, name) == 0) tensor = &set.items[i];
    assert_non_null(tensor);
    const rf_named_array own = *tensor;
    if (renamed) tensor->name = renamed;
    if (!renamed) tensor->array = (rf_array){ RF_F32, shape, zeros };
    OK(rf_make_directories(in_folder("other"), 0777));
    OK(rf_safetensors_write(in_folder("other/adapter_model.safetensors"), set.items, set.count));
    *tensor = own;
    rf_array_set_free(&set);
}

#define HEAD_A "base_model.model.head.lora_A.weight"
#define GOOD "{\"peft_type\": \"LORA\", \"r\": 2, \"lora_alpha\": 6, \"use_dora\": true"

static void expect_refused(rf_model *model, rf_result code, const char *part)
{
    FAILS(rf_lora_load(model, "other", in_folder("other")), code, part);
    assert_int_equal(rf_lora_num_adapters(model), 1);
}

/* The message names the tensor or the key, and the model is as before. */
static void wrong_files(rf_strategy *strategy)
{
    static const struct {
        const char *config, *part;
        rf_result code;
    } configs[] = {
        { "{\"peft_type\": \"LORA\", \"r\": 3, \"use_dora\": true}", "lora_A.weight' is [2,",
          RF_ERROR_INVALID_ARGUMENT },
        { "{\"peft_type\": \"LORA\", \"r\": 2}", "use_dora", RF_ERROR_INVALID_ARGUMENT },
        { "{\"peft_type\": \"LORA\", \"r\": 0, \"use_dora\": true}", "'r' is 0", RF_ERROR_INVALID_ARGUMENT },
        { "{\"peft_type\": \"LORA\", \"r\": -2}", "'r' is -2", RF_ERROR_INVALID_ARGUMENT },
        { "{\"peft_type\": \"PREFIX_TUNING\", \"r\": 2}", "'peft_type' is 'PREFIX_TUNING'", RF_ERROR_UNSUPPORTED },
        { GOOD ", \"bias\": \"all\"}", "'bias' is 'all'", RF_ERROR_UNSUPPORTED },
        { GOOD ", \"modules_to_save\": [\"head\"]}", "'modules_to_save'", RF_ERROR_UNSUPPORTED },
        { GOOD ", \"rank_pattern\": {\"head\": 3}}", "'rank_pattern'", RF_ERROR_UNSUPPORTED },
        { GOOD ", \"init_lora_weights\": \"pissa\"}", "'init_lora_weights' is 'pissa'", RF_ERROR_UNSUPPORTED },
        { GOOD ", \"lora_dropout\": 1}", "dropout 1", RF_ERROR_INVALID_ARGUMENT },
        { "{\"r\": ", "configuration", RF_ERROR_CORRUPT_DATA },
        { "[]", "configuration", RF_ERROR_CORRUPT_DATA },
    };
    app a;
    app_open(strategy, &a);
    write_adapter(&a);
    const logits before = predict(&a);
    FAILS(rf_lora_load(a.model, "other", in_folder("nowhere")), RF_ERROR_NOT_FOUND, "adapter_config.json");
    change_file(HEAD_A, RF_SHAPE(2, 8), NULL);
    for (size_t i = 0; i < sizeof(configs) / sizeof(configs[0]); i++) {
        write_config(configs[i].config);
        expect_refused(a.model, configs[i].code, configs[i].part);
    }
    write_config(GOOD "}");
    OK(rf_lora_load(a.model, "other", in_folder("other")));
    OK(rf_lora_detach(a.model, "other"));
    change_file(HEAD_A, RF_SHAPE(2, 7), NULL);
    expect_refused(a.model, RF_ERROR_INVALID_ARGUMENT, HEAD_A "' is [2,7], not [2,8]");
    change_file(HEAD_A, RF_SHAPE(0), "base_model.model.tail.lora_A.weight");
    expect_refused(a.model, RF_ERROR_INVALID_ARGUMENT, "'base_model.model.tail.lora_A.weight' has no place");
    change_file(HEAD_A, RF_SHAPE(0), "base_model.model.block.lora_A.weight");
    expect_refused(a.model, RF_ERROR_INVALID_ARGUMENT, "has no place");
    OK(rf_lora_set_active(a.model, "task"));
    const logits after = predict(&a);
    assert_true(same(&before, &after));
    app_close(&a);
}
TEST_ON_ONE(wrong_files)

/* ---- docs/guides/lora.md ---- */

static rf_result teach_task(rf_model *model, rf_optimizer *optimizer, rf_loss loss, rf_dataset *data)
{
    static const char *const targets[] = { "query", "value" };
    const rf_lora_params lora = { .rank = 4, .alpha = 8, .dropout = 0.1f, .targets = targets, .num_targets = 2 };
    TRY(rf_lora_attach(model, "task", &lora));
    TRY(rf_model_compile(model, &(rf_compile_params){ .optimizer = optimizer, .loss = loss }));
    TRY(rf_model_fit(model, &(rf_fit_params){ .data = data }, NULL));
    TRY(rf_lora_save(model, "task", "adapter"));
    return RF_OK;
}

static rf_result use_several(rf_model *model, const rf_dataset *data, rf_array *out)
{
    rf_array answers;
    TRY(rf_lora_load(model, "formal", "formal"));
    TRY(rf_lora_load(model, "short", "short"));
    TRY(rf_lora_set_active(model, "formal"));
    TRY(rf_lora_merge(model, "formal"));
    TRY(rf_model_predict(model, data, &answers));
    TRY(rf_lora_unmerge(model));
    *out = answers;
    return RF_OK;
}

static void guide(rf_strategy *strategy)
{
    app a;
    rf_array answers;
    app_open(strategy, &a);
    assert_int_equal(chdir(folder), 0);
    OK(teach_task(a.model, a.optimizer, (rf_loss){ .from_logits = true }, a.data));
    OK(rf_lora_save(a.model, "task", "formal"));
    OK(rf_lora_save(a.model, "task", "short"));
    OK(use_several(a.model, a.data, &answers));
    rf_array_free(&answers);
    assert_int_equal(rf_lora_num_adapters(a.model), 3);
    app_close(&a);
}
TEST_ON_ONE(guide)

/* ---- checkpoints ---- */

static void checkpoints_hold_the_adapter(rf_strategy *strategy)
{
    app a;
    rf_checkpoint *checkpoint;
    rf_archive *archive;
    app_open(strategy, &a);
    OK(rf_lora_attach(a.model, "task", &all_modules));
    (void)train(&a, 3);
    const logits saved = predict(&a);
    OK(rf_checkpoint_create(strategy, &checkpoint));
    OK(rf_checkpoint_add_model(checkpoint, "model", a.model));
    OK(rf_checkpoint_save(checkpoint, in_folder("state"), NULL));
    OK(rf_archive_open(in_folder("state"), &archive));
    assert_int_equal(rf_archive_num_tensors(archive), 16);
    rf_archive_close(&archive);
    (void)train(&a, 3);
    OK(rf_checkpoint_restore(checkpoint, in_folder("state"), NULL));
    const logits restored = predict(&a);
    assert_true(same(&saved, &restored));
    FAILS(rf_model_save(a.model, in_folder("model"), NULL), RF_ERROR_UNSUPPORTED, "rf_lora_merge()");
    OK(rf_lora_merge(a.model, "task"));
    OK(rf_lora_detach(a.model, "task"));
    OK(rf_model_save(a.model, in_folder("model"), NULL));
    const logits merged = predict(&a);
    expect_close(&saved, &merged);
    rf_checkpoint_destroy(&checkpoint);
    app_close(&a);
}
TEST_ON_ONE(checkpoints_hold_the_adapter)

/* ---- arguments ---- */

static void wrong_arguments(rf_strategy *strategy)
{
    static const char *const nothing[] = { "head", "tail" };
    const rf_lora_params missing = { .targets = nothing, .num_targets = 2 }, rate = { .dropout = 1 },
                         rank = { .rank = 65537 }, alpha = { .alpha = -1 }, zero = { .alpha = RF_ZERO };
    rf_model *model = make_model(strategy);
    FAILS(rf_lora_attach(model, "a", &missing), RF_ERROR_INVALID_ARGUMENT, "targets[1], 'tail', names none");
    FAILS(rf_lora_attach(model, "a", &rate), RF_ERROR_INVALID_ARGUMENT, "dropout 1");
    FAILS(rf_lora_attach(model, "a", &rank), RF_ERROR_INVALID_ARGUMENT, "rank 65537");
    FAILS(rf_lora_attach(model, "a", &alpha), RF_ERROR_INVALID_ARGUMENT, "alpha -1");
    FAILS(rf_lora_attach(model, "a", &zero), RF_ERROR_INVALID_ARGUMENT, "alpha is RF_ZERO");
    FAILS(rf_lora_attach(model, "a/b", NULL), RF_ERROR_INVALID_ARGUMENT, "'a/b'");
    FAILS(rf_lora_attach(model, "", NULL), RF_ERROR_INVALID_ARGUMENT, "name is empty");
    assert_int_equal(rf_model_variables(model).count, 15);
    OK(rf_lora_attach(model, "a", NULL));
    FAILS(rf_lora_attach(model, "a", NULL), RF_ERROR_INVALID_ARGUMENT, "adapter 'a' already");
    FAILS(rf_lora_set_active(model, "b"), RF_ERROR_INVALID_ARGUMENT, "no adapter 'b'");
    FAILS(rf_lora_save(model, "a", ""), RF_ERROR_INVALID_ARGUMENT, "path is empty");
    assert_string_equal(rf_lora_active(model), "a");
    rf_model_destroy(&model);
}
TEST_ON_ONE(wrong_arguments)

TESTS(lora, make_folder, remove_folder)
