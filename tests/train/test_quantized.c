/* SPDX-License-Identifier: Apache-2.0 */
/* Layers whose weights are stored in 8 and 4 bits: against the same model with the rounded weights in f32, in training,
 * on two replicas; and what is refused. */
#include <ringfire/lora.h>

#include "../support/strategies.h"
#include "../support/try.h"
#include "replica/store/variables.h"
#include "test_folder.h"
#include "train/model/model.h"

enum { EXAMPLES = 6, LENGTH = 5, WORDS = 7, WIDTH = 40, CLASSES = 3, MOST = 8192 };

static const rf_quantization kinds[] = { RF_QUANTIZATION_INT8, RF_QUANTIZATION_NF4, RF_QUANTIZATION_Q4_0 };
enum { NUM_KINDS = sizeof(kinds) / sizeof(kinds[0]) };

static rf_symbol call_dense(rf_model_builder *b, int32_t units, rf_activation activation, const char *name, rf_symbol x)
{
    rf_layer *layer;
    OK(rf_layer_dense(&(rf_dense_params){ .units = units, .activation = activation, .name = name }, &layer));
    return rf_model_builder_call(b, layer, x);
}

/* Tokens -> table -> attention -> 70, GELU -> classes of each step. */
static rf_model *make_model(rf_strategy *strategy)
{
    rf_model_builder *b;
    rf_model *model;
    rf_layer *table, *attention;
    const rf_multi_head_attention_params heads = {
        .num_heads = 2, .key_dim = WIDTH / 2, .causal = true, .name = "attention"
    };
    OK(rf_layer_embedding(&(rf_embedding_params){ .input_dim = WORDS, .output_dim = WIDTH, .name = "table" }, &table));
    OK(rf_layer_multi_head_attention(&heads, &attention));
    OK(rf_model_builder_create(strategy, &b));
    rf_symbol x = rf_model_builder_input(b, RF_I32, RF_SHAPE(LENGTH), "tokens");
    x = rf_model_builder_call(b, attention, rf_model_builder_call(b, table, x));
    x = call_dense(b, 70, RF_ACTIVATION_GELU, "hidden", x);
    x = call_dense(b, CLASSES, RF_ACTIVATION_LINEAR, "lm_head", x);
    OK(rf_model_builder_finish(&b, &x, 1, NULL, &model));
    return model;
}

static rf_dataset *make_data(void)
{
    static int32_t tokens[EXAMPLES * LENGTH], labels[EXAMPLES * LENGTH];
    for (int i = 0; i < EXAMPLES * LENGTH; i++) {
        tokens[i] = i * 5 % WORDS;
        labels[i] = i * i % CLASSES;
    }
    const rf_array arrays[] = { array_i32(RF_SHAPE(EXAMPLES, LENGTH), tokens),
                                array_i32(RF_SHAPE(EXAMPLES, LENGTH), labels) };
    rf_dataset *rows, *data;
    OK(rf_dataset_from_arrays(&(rf_dataset_arrays_params){ .arrays = arrays, .num_arrays = 2 }, &rows));
    OK(rf_dataset_batch(rows, EXAMPLES, RF_REMAINDER_KEEP, &data));
    rf_dataset_destroy(&rows);
    return data;
}

/* The guide's lines. */
static rf_result set_nf4(rf_strategy *strategy)
{
    const rf_quantize_params params = { .kind = RF_QUANTIZATION_NF4 };
    TRY(rf_strategy_set_quantization(strategy, &params));
    return RF_OK;
}

static void set_quantization(rf_strategy *strategy, rf_quantization kind, const char *weights)
{
    const rf_quantize_params params = { .kind = kind,
                                        .weights = weights ? &weights : NULL,
                                        .num_weights = weights != NULL };
    OK(rf_strategy_set_quantization(strategy, &params));
}

static rf_variable *find(const rf_model *model, const char *name)
{
    for (uint32_t i = 0; i < model->tracked.count; i++)
        if (strcmp(model->tracked.items[i].name, name) == 0) return model->tracked.items[i].variable;
    fail_msg("no variable '%s'", name);
    return NULL;
}

/* The values of all variables, in an f32 model of their own. */
static void copy_values(const rf_model *from, const rf_model *to)
{
    static float values[MOST];
    for (uint32_t i = 0; i < from->tracked.count; i++) {
        rf_variable *v = from->tracked.items[i].variable;
        assert_in_range(rf_shape_count(rf_variable_shape(v)), 1, MOST);
        OK(rf_variable_read(v, values));
        OK(rf_variable_assign(find(to, from->tracked.items[i].name), values));
    }
}

static void train(rf_strategy *strategy, rf_model *model, const rf_dataset *data, rf_history *history)
{
    const rf_optimizer_params adam = { .kind = RF_OPTIMIZER_ADAM, .learning_rate = 0.01 };
    const rf_loss loss = { .kind = RF_LOSS_SPARSE_CATEGORICAL_CROSSENTROPY, .from_logits = true };
    rf_optimizer *optimizer;
    OK(rf_optimizer_create(strategy, &adam, &optimizer));
    OK(rf_model_compile(model, &(rf_compile_params){ .optimizer = optimizer, .loss = loss }));
    OK(rf_model_fit(model, &(rf_fit_params){ .data = data, .epochs = 6 }, history));
    rf_optimizer_destroy(&optimizer);
}

static void check_kind(rf_strategy *strategy, rf_quantization kind, const char *weights)
{
    static float before[MOST], after[MOST];
    rf_dataset *data = make_data();
    rf_history few = { 0 }, whole = { 0 };
    if (weights)
        set_quantization(strategy, kind, weights);
    else
        OK(set_nf4(strategy));
    rf_model *model = make_model(strategy);
    OK(rf_strategy_set_quantization(strategy, NULL));
    rf_model *f32 = make_model(strategy);
    copy_values(model, f32);
    rf_variable *kernel = find(model, "hidden/kernel");
    assert_false(rf_variable_trainable(kernel));
    assert_true(rf_variable_trainable(find(model, "hidden/bias")));
    assert_int_equal(rf_variable_trainable(find(model, "table/embeddings")), weights == NULL);
    assert_int_equal(rf_variable_trainable(find(model, "lm_head/kernel")), weights == NULL);
    OK(rf_variable_read(kernel, before));
    /* Other weights are trained in the same way. */
    const char *const frozen[] = { "attention/query/kernel", "attention/key/kernel",
                                   "attention/value/kernel", "attention/attention_output/kernel",
                                   "hidden/kernel",          "table/embeddings",
                                   "lm_head/kernel" };
    for (uint32_t i = 0; i < (weights ? 7u : 5u); i++) find(f32, frozen[i])->frozen = true;
    train(strategy, model, data, &few);
    train(strategy, f32, data, &whole);
    assert_int_equal(few.num_epochs, 6);
    for (uint32_t i = 0; i < few.num_epochs; i++)
        assert_near(few.epochs[i].value[0], whole.epochs[i].value[0], 2e-5, 0, "loss");
    assert_true(few.epochs[5].value[0] < few.epochs[0].value[0]);
    OK(rf_variable_read(kernel, after));
    assert_memory_equal(before, after, WIDTH * 70 * sizeof(float));
    OK(rf_variable_assign(kernel, before)); /* what was read comes back to the bit */
    OK(rf_variable_read(kernel, after));
    assert_memory_equal(before, after, WIDTH * 70 * sizeof(float));
    rf_history_free(&few);
    rf_history_free(&whole);
    rf_model_destroy(&model);
    rf_model_destroy(&f32);
    rf_dataset_destroy(&data);
}

static void trains_like_rounded_weights(rf_strategy *strategy)
{
    check_kind(strategy, RF_QUANTIZATION_INT8, "*");
    check_kind(strategy, RF_QUANTIZATION_NF4, NULL);
}
TEST_ON_ONE(trains_like_rounded_weights)

static void q4_0_on_two_replicas(rf_strategy *strategy)
{
    check_kind(strategy, RF_QUANTIZATION_Q4_0, "*");
}
TEST_ON_TWO(q4_0_on_two_replicas)

/* ---- adapters ---- */

static const char *const everything[] = { "*" };

static rf_model *make_quantized(rf_strategy *strategy, rf_quantization kind)
{
    set_quantization(strategy, kind, "*");
    rf_model *model = make_model(strategy);
    OK(rf_strategy_set_quantization(strategy, NULL));
    return model;
}

/* Those of the first layers learn by what comes back through the later ones. */
static void check_adapter(rf_strategy *strategy, bool decomposed)
{
    const rf_lora_params params = {
        .rank = 2, .alpha = 4, .weight_decomposed = decomposed, .targets = everything, .num_targets = 1
    };
    rf_dataset *data = make_data();
    rf_history few = { 0 }, whole = { 0 };
    rf_model *model = make_quantized(strategy, RF_QUANTIZATION_NF4), *f32 = make_model(strategy);
    copy_values(model, f32);
    OK(rf_lora_attach(model, "a", &params));
    OK(rf_lora_save(model, "a", in_folder("adapter")));
    OK(rf_lora_load(f32, "a", in_folder("adapter")));
    train(strategy, model, data, &few);
    train(strategy, f32, data, &whole);
    for (uint32_t i = 0; i < 6; i++) assert_near(few.epochs[i].value[0], whole.epochs[i].value[0], 2e-5, 0, "loss");
    assert_true(few.epochs[5].value[0] < few.epochs[0].value[0]);
    rf_history_free(&few);
    rf_history_free(&whole);
    rf_model_destroy(&model);
    rf_model_destroy(&f32);
    rf_dataset_destroy(&data);
}

static void adapters_train_like_on_rounded_weights(rf_strategy *strategy)
{
    check_adapter(strategy, false);
    check_adapter(strategy, true);
}
TEST_ON_ONE(adapters_train_like_on_rounded_weights)

static void train_adapter(rf_strategy *strategy, rf_history *history)
{
    const rf_lora_params params = { .rank = 4, .targets = everything, .num_targets = 1 };
    rf_dataset *data = make_data();
    rf_model *model = make_quantized(strategy, RF_QUANTIZATION_Q4_0);
    OK(rf_lora_attach(model, "a", &params));
    train(strategy, model, data, history);
    rf_model_destroy(&model);
    rf_dataset_destroy(&data);
}

/* The same numbers on one replica as on two. */
static void adapters_train_alike(rf_strategy *strategy)
{
    rf_history one = { 0 }, two = { 0 };
    rf_strategy *own = open_devices(device_lists[0]);
    assert_non_null(own);
    rf_strategy_set_seed(own, 1234);
    train_adapter(own, &one);
    train_adapter(strategy, &two);
    for (uint32_t i = 0; i < 6; i++) assert_near(two.epochs[i].value[0], one.epochs[i].value[0], 1e-5, 0, "loss");
    assert_true(one.epochs[5].value[0] < one.epochs[0].value[0]);
    rf_history_free(&one);
    rf_history_free(&two);
    rf_strategy_destroy(&own);
}
TEST_ON_TWO(adapters_train_alike)

/* ---- memory ---- */

/* Bytes of one of the strategy's arrays on the first device. */
static uint64_t bytes_of(const rf_strategy *strategy, const char *array)
{
    rf_memory_use use;
    for (uint32_t i = 0; rf_strategy_memory_use(strategy, 0, i, &use); i++)
        if (strcmp(use.name, array) == 0) return use.bytes;
    return 0;
}

/* GPT-2 124M, of which all sizes but that of heads are half. */
enum { BLOCKS = 12, HIDDEN = 384, TOKENS = 25128, STEPS = 512 };
static rf_symbol call_block(rf_model_builder *b, rf_symbol x)
{
    const rf_multi_head_attention_params heads = { .num_heads = HIDDEN / 64, .key_dim = 64, .causal = true };
    rf_layer *norms[2], *attention;
    for (int i = 0; i < 2; i++) OK(rf_layer_layer_norm(NULL, &norms[i]));
    OK(rf_layer_multi_head_attention(&heads, &attention));
    x = rf_model_builder_call(b, attention, rf_model_builder_call(b, norms[0], x));
    x = call_dense(b, 4 * HIDDEN, RF_ACTIVATION_GELU, NULL, rf_model_builder_call(b, norms[1], x));
    return call_dense(b, HIDDEN, RF_ACTIVATION_LINEAR, NULL, x);
}

static rf_model *make_base(rf_strategy *strategy)
{
    rf_model_builder *b;
    rf_model *model;
    rf_layer *table, *places;
    OK(rf_layer_embedding(&(rf_embedding_params){ .input_dim = TOKENS, .output_dim = HIDDEN }, &table));
    OK(rf_layer_position_embedding(STEPS, NULL, NULL, &places));
    OK(rf_model_builder_create(strategy, &b));
    rf_symbol x = rf_model_builder_input(b, RF_I32, RF_SHAPE(STEPS), NULL);
    x = rf_model_builder_call(b, places, rf_model_builder_call(b, table, x));
    for (int i = 0; i < BLOCKS; i++) x = call_block(b, x);
    OK(rf_model_builder_finish(&b, &x, 1, NULL, &model));
    return model;
}

/* Room for them at once, as opening a directory makes it; otherwise stores grow by half. */
static void reserve_base(rf_strategy *strategy, rf_quantization kind)
{
    const uint64_t h = HIDDEN, left = (STEPS + BLOCKS * 13) * h;
    const uint64_t words =
        rf_quantized_layout_make(kind, TOKENS, h).words +
        BLOCKS * (4 * rf_quantized_layout_make(kind, h, h).words + rf_quantized_layout_make(kind, 4 * h, h).words +
                  rf_quantized_layout_make(kind, h, 4 * h).words);
    const rf_variable_room room = { left, 1 + BLOCKS * 10, words, 1 + BLOCKS * 6 };
    OK(rf_strategy_reserve_variables(strategy, &room));
}

/* All of its weights, by 2 bytes for each: those that are left in f32 count. */
static void takes_less_memory(rf_strategy *strategy)
{
    static const double most[] = { 0.56, 0.30, 0.30 };
    (void)strategy;
    for (uint32_t k = 0; k < NUM_KINDS; k++) {
        rf_strategy *own = open_devices(device_lists[0]);
        if (!own) SKIP("%s is not installed", device_lists[0]);
        set_quantization(own, kinds[k], "*");
        reserve_base(own, kinds[k]);
        rf_model *model = make_base(own);
        const double bytes = (double)(bytes_of(own, "fixed variables") + bytes_of(own, "variables"));
        const double share = bytes / (2.0 * (double)rf_model_num_params(model));
        print_message("%s: %.1f MB, %.3f of bf16\n", rf_quantized_form_of(kinds[k])->name, bytes / 1e6, share);
        assert_true(share <= most[k]);
        rf_model_destroy(&model);
        rf_strategy_destroy(&own);
    }
}
TEST_ON_ONE(takes_less_memory)

/* ---- what is refused ---- */

static rf_result read_kernel(rf_trace *t, const rf_tensor *in, rf_tensor *out, void *user)
{
    (void)in;
    out[0] = rf_square(t, rf_variable_tensor(t, user));
    return RF_OK;
}

static void refuses(rf_strategy *strategy)
{
    static float wrong[WIDTH * 70] = { [77] = INFINITY };
    float x[1] = { 0 };
    const char *const empty[] = { "*", "" };
    const rf_quantize_params none = { .kind = (rf_quantization)9 },
                             nameless = { RF_QUANTIZATION_NF4, .weights = empty, .num_weights = 2 };
    FAILS(rf_strategy_set_quantization(strategy, &none), RF_ERROR_INVALID_ARGUMENT, "quantization 9 does not exist");
    FAILS(rf_strategy_set_quantization(strategy, &nameless), RF_ERROR_INVALID_ARGUMENT, "weights[1] is empty");
    set_quantization(strategy, RF_QUANTIZATION_NF4, "hid*/kernel");
    rf_model *model = make_model(strategy);
    rf_variable *kernel = find(model, "hidden/kernel");
    assert_true(rf_variable_trainable(find(model, "attention/query/kernel")));
    FAILS(rf_variable_assign(kernel, wrong), RF_ERROR_INVALID_ARGUMENT, "'hidden/kernel' has a number that is not");
    FAILS(rf_model_export(model, "quantized.rfm", NULL), RF_ERROR_UNSUPPORTED, "'hidden/kernel' is stored in few bits");

    const rf_function_params params = { .name = "squares", .step = read_kernel, .user = kernel, .num_outputs = 1 };
    rf_function *function;
    OK(rf_function_create(strategy, &params, &function));
    FAILS(rf_strategy_run(strategy, function, &(rf_element){ 1, { array_f32(RF_SHAPE(1), x) } }, NULL),
          RF_ERROR_INVALID_ARGUMENT, "'hidden/kernel' is stored in few bits");
    rf_function_destroy(&function);
    rf_model_destroy(&model);
    OK(rf_strategy_set_quantization(strategy, NULL));
}
TEST_ON_ONE(refuses)

TESTS(quantized, make_folder, remove_folder)
