/* SPDX-License-Identifier: Apache-2.0 */
/* Sequences of one length, and windows of a long one. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../support/apply.h"
#include "tests/room.h"
#include "tokens.h"

#define SEQUENCE(...)                                                                                                  \
    {                                                                                                                  \
        RF_I32, { 1, { sizeof((int32_t[]){ __VA_ARGS__ }) / sizeof(int32_t) } }, (int32_t[])                           \
        {                                                                                                              \
            __VA_ARGS__                                                                                                \
        }                                                                                                              \
    }

static void check_rows(const rf_sequence_pad_params *params, int64_t length, const int32_t *wanted)
{
    rf_array sequences[] = { SEQUENCE(1, 2, 3), SEQUENCE(4), { RF_I32, { 1, { 0 } }, NULL }, SEQUENCE(5, 6, 7, 8) };
    rf_array out;
    OK(rf_sequences_pad(sequences, 4, params, &out));
    assert_int_equal(out.dtype, RF_I32);
    assert_true(rf_shape_equal(out.shape, RF_SHAPE(4, length)));
    assert_memory_equal(out.data, wanted, (size_t)(4 * length) * sizeof(int32_t));
    rf_array_free(&out);
}

/* Keras' pad_sequences: both ends are "pre" where nothing is said. */
TEST(test_pad)
{
    check_rows(NULL, 4, (const int32_t[]){ 0, 1, 2, 3, 0, 0, 0, 4, 0, 0, 0, 0, 5, 6, 7, 8 });
    check_rows(&(rf_sequence_pad_params){ .padding = RF_SEQUENCE_POST, .value = -1 }, 4,
               (const int32_t[]){ 1, 2, 3, -1, 4, -1, -1, -1, -1, -1, -1, -1, 5, 6, 7, 8 });
    check_rows(&(rf_sequence_pad_params){ .length = 2 }, 2, (const int32_t[]){ 2, 3, 0, 4, 0, 0, 7, 8 });
    check_rows(&(rf_sequence_pad_params){ .length = 2, .padding = RF_SEQUENCE_POST, .truncating = RF_SEQUENCE_POST }, 2,
               (const int32_t[]){ 1, 2, 4, 0, 0, 0, 5, 6 });
    rf_array out;
    OK(rf_sequences_pad(NULL, 0, NULL, &out));
    assert_true(rf_shape_equal(out.shape, RF_SHAPE(0, 0)));
    rf_array_free(&out);
    float number = 1;
    const rf_array wrong = { RF_F32, RF_SHAPE(1), &number };
    FAILS(rf_sequences_pad(&wrong, 1, NULL, &out), RF_ERROR_INVALID_ARGUMENT, "sequence 0 is not i32");
    FAILS(rf_sequences_pad(NULL, 0, &(rf_sequence_pad_params){ .padding = (rf_sequence_end)2 }, &out),
          RF_ERROR_INVALID_ARGUMENT, "padding is 2");
}

TEST(test_encode_padded)
{
    rf_tokenizer *t = TRAIN(&((rf_tokenizer_params){ .kind = RF_TOKENIZER_WORDS }), "a a a b b c");
    rf_array out;
    const char *const texts[] = { "c b", "", "a a a d" };
    OK(rf_tokenizer_encode_padded(t, texts, NULL, 3,
                                  &(rf_sequence_pad_params){ .length = 3, .padding = RF_SEQUENCE_POST }, &out));
    assert_true(rf_shape_equal(out.shape, RF_SHAPE(3, 3)));
    assert_memory_equal(out.data, ((const int32_t[]){ 4, 3, 0, 0, 0, 0, 2, 2, 1 }), 9 * sizeof(int32_t));
    rf_array_free(&out);
    OK(rf_tokenizer_encode_padded(t, texts, (const size_t[]){ 1, 0, 4 }, 3, NULL, &out));
    assert_memory_equal(out.data, ((const int32_t[]){ 0, 4, 0, 0, 2, 2 }), 6 * sizeof(int32_t));
    rf_array_free(&out);
    FAILS(rf_tokenizer_encode_padded(t, (const char *const[]){ "a", NULL }, NULL, 2, NULL, &out),
          RF_ERROR_INVALID_ARGUMENT, "text 1 is NULL");
    rf_tokenizer_destroy(&t);
}

static void check_window(rf_iterator *it, int64_t length, int32_t first)
{
    const rf_element *e;
    OK(rf_iterator_next(it, &e));
    assert_int_equal(e->num_components, 2);
    for (uint32_t c = 0; c < 2; c++) {
        assert_int_equal(e->component[c].dtype, RF_I32);
        assert_true(rf_shape_equal(e->component[c].shape, RF_SHAPE(length)));
        for (int64_t i = 0; i < length; i++)
            assert_int_equal(((const int32_t *)e->component[c].data)[i], first + (int32_t)(i + c));
    }
}

TEST(test_windows)
{
    int32_t tokens[20];
    for (int32_t i = 0; i < 20; i++) tokens[i] = 100 + i;
    const rf_array array = { RF_I32, RF_SHAPE(20), tokens };
    static const struct {
        uint32_t length, step;
        int64_t count;
    } cases[] = { { 4, 1, 16 }, { 4, 0, 4 }, { 19, 5, 1 }, { 6, 13, 2 }, { 6, 14, 1 }, { 1, 1, 19 } };
    for (size_t k = 0; k < sizeof(cases) / sizeof(cases[0]); k++) {
        rf_dataset *d;
        rf_iterator *it;
        const rf_element *e;
        OK(rf_dataset_from_tokens(&array, cases[k].length, cases[k].step, &d));
        assert_int_equal(rf_dataset_cardinality(d), cases[k].count);
        OK(rf_iterator_create(d, 0, &it));
        rf_dataset_destroy(&d); /* the iterator keeps it */
        for (int64_t i = 0; i < cases[k].count; i++)
            check_window(it, cases[k].length,
                         100 + (int32_t)i * (int32_t)(cases[k].step ? cases[k].step : cases[k].length));
        assert_int_equal(rf_iterator_next(it, &e), RF_END);
        rf_iterator_destroy(&it);
    }
}

/* The tokens are the data set's own; shuffled and batched windows are the same ones; a saved position goes on. */
TEST(test_windows_in_pipeline)
{
    int32_t *tokens = malloc(101 * sizeof(*tokens));
    assert_non_null(tokens);
    for (int32_t i = 0; i < 101; i++) tokens[i] = i;
    const rf_array array = { RF_I32, RF_SHAPE(101), tokens };
    rf_dataset *d;
    OK(rf_dataset_from_tokens(&array, 10, 10, &d));
    free(tokens);
    APPLY(d, rf_dataset_shuffle(d, 10, 3, RF_SHUFFLE_ONCE, &applied_));
    APPLY(d, rf_dataset_batch(d, 4, RF_REMAINDER_KEEP, &applied_));
    rf_iterator *it;
    const rf_element *e;
    uint32_t seen = 0, rows = 0;
    void *position;
    size_t size;
    OK(rf_iterator_create(d, 0, &it));
    OK(rf_iterator_next(it, &e));
    OK(rf_iterator_save(it, &position, &size));
    for (rf_result r = RF_OK; r == RF_OK; r = rf_iterator_next(it, &e)) {
        rows += (uint32_t)e->component[0].shape.dim[0];
        for (int64_t i = 0; i < e->component[0].shape.dim[0]; i++) {
            const int32_t *x = (const int32_t *)e->component[0].data + 10 * i;
            const int32_t *y = (const int32_t *)e->component[1].data + 10 * i;
            for (int32_t k = 0; k < 10; k++) assert_true(x[k] == x[0] + k && y[k] == x[k] + 1);
            seen |= 1u << x[0] / 10;
        }
    }
    assert_int_equal(rows, 10);
    assert_int_equal(seen, 0x3ff);
    rf_iterator_destroy(&it);
    OK(rf_iterator_restore(d, position, size, &it));
    OK(rf_iterator_next(it, &e));
    OK(rf_iterator_next(it, &e));
    assert_int_equal(e->component[0].shape.dim[0], 2);
    assert_int_equal(rf_iterator_next(it, &e), RF_END);
    rf_iterator_destroy(&it);
    rf_iterator_state_free(position);
    rf_dataset_destroy(&d);
}

TEST(test_mistakes)
{
    int32_t tokens[4] = { 0 };
    rf_dataset *d;
    const rf_array array = { RF_I32, RF_SHAPE(4), tokens }, floats = { RF_F32, RF_SHAPE(4), tokens };
    FAILS(rf_dataset_from_tokens(&array, 4, 1, &d), RF_ERROR_INVALID_ARGUMENT,
          "4 tokens are too few for windows of 4 tokens");
    FAILS(rf_dataset_from_tokens(&array, 0, 1, &d), RF_ERROR_INVALID_ARGUMENT, "length is 0");
    FAILS(rf_dataset_from_tokens(&floats, 2, 1, &d), RF_ERROR_INVALID_ARGUMENT, "not i32");
    assert_null(d);
}

TESTS(sequences, NULL, NULL)
