/* SPDX-License-Identifier: Apache-2.0 */
/* Sequences that are packed into rows: the same loss, gradients and step as of the same sequences one to a row. */
#include <math.h>
#include <stdio.h>

#include "../support/apply.h"
#include "../support/folder.h"
#include "../support/strategies.h"
#include "tests/room.h"

enum { VOCABULARY = 11, WIDTH = 8, HEADS = 2, LONGEST = 9, SEQUENCES = 7, ROW = 16 };

static int length_of(uint64_t index)
{
    return 3 + (int)(index * 5 % (LONGEST - 2));
}

/* (tokens, labels), of which the first and the last label of a sequence do not count. */
static rf_result make_sequence(void *user, uint64_t index, rf_element *out)
{
    (void)user;
    if (index >= SEQUENCES) return RF_END;
    const int length = length_of(index);
    for (int c = 0; c < 2; c++) out->component[c].shape.dim[0] = length;
    for (int i = 0; i < length; i++) {
        ((int32_t *)out->component[0].data)[i] = (int32_t)((index * 3 + (uint64_t)(i * i)) % VOCABULARY);
        ((int32_t *)out->component[1].data)[i] =
            i == 0 || i == length - 1 ? RF_IGNORED_LABEL : (int32_t)((index + (uint64_t)(2 * i)) % VOCABULARY);
    }
    return RF_OK;
}

static rf_dataset *sequences(void)
{
    rf_dataset *d;
    OK(rf_dataset_from_generator(
        &(rf_dataset_generator_params){ .generate = make_sequence,
                                        .spec = { 2, { RF_I32, RF_I32 }, { RF_SHAPE(LONGEST), RF_SHAPE(LONGEST) } } },
        &d));
    return d;
}

static rf_dataset *rows_of(bool packed)
{
    rf_dataset *d = sequences();
    const rf_padded_batch_params one = { .batch_size = SEQUENCES,
                                         .padded = { true, true },
                                         .pad_value = { 0, RF_IGNORED_LABEL } };
    const rf_pack_params several = { .length = ROW, .pad_value = { 0, RF_IGNORED_LABEL } };
    if (!packed) {
        APPLY(d, rf_dataset_padded_batch(d, &one, &applied_));
        return d;
    }
    APPLY(d, rf_dataset_pack(d, &several, &applied_));
    APPLY(d, rf_dataset_batch(d, SEQUENCES, RF_REMAINDER_KEEP, &applied_));
    return d;
}

typedef struct layout {
    const char *name;
    float rotary_base; /* 0: learned positions */
    int32_t window;
} layout;

static rf_model *make_model(rf_strategy *strategy, const layout *l, bool packed)
{
    rf_model_builder *b;
    rf_layer *table, *places, *attention, *head;
    rf_model *model;
    rf_symbol positions = { 0, 0 }, y = { 0, 0 };
    const rf_initializer noise = { .kind = RF_INIT_RANDOM_NORMAL, .b = 0.5f, .seed = 3 };
    OK(rf_model_builder_create(strategy, &b));
    const int32_t steps = packed ? ROW : LONGEST;
    const rf_symbol ids = rf_model_builder_input(b, RF_I32, RF_SHAPE(steps), "input_ids");
    if (packed) positions = rf_model_builder_input(b, RF_I32, RF_SHAPE(steps), "position_ids");
    OK(rf_layer_embedding(
        &(rf_embedding_params){ .input_dim = VOCABULARY, .output_dim = WIDTH, .name = "table", .initializer = &noise },
        &table));
    rf_symbol x = rf_model_builder_call(b, table, ids);
    if (l->rotary_base == 0) {
        OK(rf_layer_position_embedding(LONGEST, &noise, "places", &places));
        x = rf_model_builder_call_many(b, places, (rf_symbol[]){ x, positions }, 1 + packed);
    }
    for (int i = 0; i < 2; i++) {
        char name[16];
        snprintf(name, sizeof(name), "attention%d", i);
        OK(rf_layer_multi_head_attention(&(rf_multi_head_attention_params){ .num_heads = HEADS,
                                                                            .key_dim = WIDTH / HEADS,
                                                                            .causal = true,
                                                                            .rotary_base = l->rotary_base,
                                                                            .window = l->window,
                                                                            .packed = packed,
                                                                            .kernel_initializer = &noise,
                                                                            .name = name },
                                         &attention));
        OK(rf_model_builder_apply(b, attention, &x, 1, positions, &y, 1));
        x = y;
    }
    OK(rf_layer_dense(&(rf_dense_params){ .units = VOCABULARY, .name = "head", .kernel_initializer = noise }, &head));
    const rf_symbol out = rf_model_builder_call(b, head, x);
    OK(rf_model_builder_finish(&b, &out, 1, NULL, &model));
    return model;
}

/* The loss before a step of gradient descent of rate 1. */
static double train_once(rf_strategy *strategy, rf_model *model, bool packed)
{
    static const int32_t ignored = RF_IGNORED_LABEL;
    rf_optimizer *sgd;
    rf_history history;
    rf_dataset *data = rows_of(packed);
    OK(rf_optimizer_create(strategy, &(rf_optimizer_params){ .kind = RF_OPTIMIZER_SGD, .learning_rate = 1 }, &sgd));
    OK(rf_model_compile(
        model, &(rf_compile_params){ .optimizer = sgd, .loss = { .from_logits = true, .ignore_class = &ignored } }));
    OK(rf_model_fit(model, &(rf_fit_params){ .data = data, .epochs = 1 }, &history));
    const double loss = history.epochs[0].value[0];
    rf_history_free(&history);
    rf_optimizer_destroy(&sgd);
    rf_dataset_destroy(&data);
    return loss;
}

enum { MOST_VALUES = VOCABULARY * WIDTH };

static void read(const rf_variable *variable, float *values)
{
    assert_true(rf_shape_count(rf_variable_shape(variable)) <= MOST_VALUES);
    OK(rf_variable_read(variable, values));
}

/* Gives both models the values of the first. */
static void equalize(const rf_model *from, const rf_model *to)
{
    float values[MOST_VALUES];
    const rf_variable_list a = rf_model_variables(from), b = rf_model_variables(to);
    assert_int_equal(a.count, b.count);
    for (uint32_t i = 0; i < a.count; i++) {
        assert_string_equal(rf_variable_name(a.items[i]), rf_variable_name(b.items[i]));
        read(a.items[i], values);
        OK(rf_variable_assign(b.items[i], values));
    }
}

static const layout layouts[] = { { "learned positions", 0, 0 },
                                  { "rotary positions", 100, 0 },
                                  { "rotary positions, a window", 100, 3 } };

static void same_steps(rf_strategy *strategy)
{
    float before[MOST_VALUES], after[2][MOST_VALUES];
    for (size_t k = 0; k < sizeof(layouts) / sizeof(layouts[0]); k++) {
        rf_model *model[2] = { make_model(strategy, &layouts[k], false), make_model(strategy, &layouts[k], true) };
        double loss[2];
        equalize(model[0], model[1]);
        const rf_variable_list lists[2] = { rf_model_variables(model[0]), rf_model_variables(model[1]) };
        rf_model *kept = make_model(strategy, &layouts[k], false);
        equalize(model[0], kept);
        for (int packed = 0; packed < 2; packed++) loss[packed] = train_once(strategy, model[packed], packed);
        assert_near(loss[1], loss[0], 1e-6, 0, layouts[k].name);
        for (uint32_t i = 0; i < lists[0].count; i++) {
            const int64_t count = rf_shape_count(rf_variable_shape(lists[0].items[i]));
            double largest = 0;
            read(rf_model_variables(kept).items[i], before);
            for (int packed = 0; packed < 2; packed++) read(lists[packed].items[i], after[packed]);
            for (int64_t e = 0; e < count; e++) largest = fmax(largest, fabs((double)after[0][e] - (double)before[e]));
            if (largest < 1e-4 && !strstr(rf_variable_name(lists[0].items[i]), "key/bias"))
                fail_msg("%s: %s did not change", layouts[k].name, rf_variable_name(lists[0].items[i]));
            for (int64_t e = 0; e < count; e++)
                assert_near((double)after[1][e], (double)after[0][e], 0, 1e-5 * fmax(largest, 0.05), layouts[k].name);
        }
        rf_model_destroy(&kept);
        for (int packed = 0; packed < 2; packed++) rf_model_destroy(&model[packed]);
    }
}

/* The same model in a file. */
static void saved(rf_strategy *strategy)
{
    char folder[SCRATCH_PATH], path[SCRATCH_PATH + 16];
    rf_dataset *data = rows_of(true);
    rf_array y[2];
    scratch(folder);
    snprintf(path, sizeof(path), "%s/model.rfck", folder);
    rf_model *model = make_model(strategy, &layouts[0], true), *loaded;
    OK(rf_model_save(model, path, NULL));
    OK(rf_model_load(strategy, path, &loaded));
    OK(rf_model_predict(model, data, &y[0]));
    OK(rf_model_predict(loaded, data, &y[1]));
    assert_memory_equal(y[0].data, y[1].data, (size_t)rf_shape_count(y[0].shape) * sizeof(float));
    for (int i = 0; i < 2; i++) rf_array_free(&y[i]);
    rf_model_destroy(&loaded);
    rf_model_destroy(&model);
    rf_dataset_destroy(&data);
    scratch_remove(folder);
}

static rf_symbol call_packed(rf_model_builder *b, rf_symbol x, rf_symbol mask)
{
    rf_layer *layer;
    rf_symbol y = { 0, 0 };
    OK(rf_layer_multi_head_attention(
        &(rf_multi_head_attention_params){ .num_heads = 1, .key_dim = 2, .packed = true, .name = "a" }, &layer));
    OK(rf_model_builder_apply(b, layer, &x, 1, mask, &y, 1));
    return y;
}

static void refuses(rf_strategy *strategy)
{
    for (int with_mask = 0; with_mask < 2; with_mask++) {
        rf_model_builder *b;
        rf_model *model;
        OK(rf_model_builder_create(strategy, &b));
        const rf_symbol x = rf_model_builder_input(b, RF_F32, RF_SHAPE(4, 2), "x");
        rf_symbol mask = { 0, 0 };
        if (with_mask) mask = rf_model_builder_input(b, RF_F32, RF_SHAPE(4), "mask");
        const rf_symbol y = call_packed(b, x, mask);
        FAILS(rf_model_builder_finish(&b, &y, 1, NULL, &model), RF_ERROR_INVALID_ARGUMENT,
              with_mask ? "layer 'a' is for packed rows: it takes one input" : "i32 [1, 4], got no mask");
        rf_model_builder_destroy(&b);
    }
}

TEST_ON_ONE(same_steps)
TEST_ON_TWO(same_steps)
TEST_ON_ONE(saved)
TEST_ON_ONE(refuses)
TESTS(packed, NULL, NULL)
