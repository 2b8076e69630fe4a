/* SPDX-License-Identifier: Apache-2.0 */
/* Tokenizers in a line. */
#ifndef RF_TESTS_TEXT_TOKENS_H
#define RF_TESTS_TEXT_TOKENS_H

#include <ringfire/text.h>

#include "../support/expect.h"

/* Learned from texts that end with zero bytes. */
#define TRAIN(params, ...)                                                                                             \
    train_on(params, (const char *const[]){ __VA_ARGS__ },                                                             \
             sizeof((const char *const[]){ __VA_ARGS__ }) / sizeof(const char *))
static inline rf_tokenizer *train_on(const rf_tokenizer_params *params, const char *const *texts, uint64_t count)
{
    rf_tokenizer *t;
    OK(rf_tokenizer_train(params, texts, NULL, count, &t));
    return t;
}

/* The text becomes these tokens. */
#define ENCODES(t, text, ...)                                                                                          \
    encodes(t, text, (const int32_t[]){ __VA_ARGS__ }, sizeof((const int32_t[]){ __VA_ARGS__ }) / sizeof(int32_t),     \
            __LINE__)
static inline void encodes(const rf_tokenizer *t, const char *text, const int32_t *tokens, size_t count, int line)
{
    rf_array array;
    OK(rf_tokenizer_encode(t, text, strlen(text), &array));
    const int32_t *got = array.data;
    if (array.shape.dim[0] != (int64_t)count)
        fail_msg("line %d: '%s' has %lld tokens", line, text, (long long)array.shape.dim[0]);
    for (size_t i = 0; i < count; i++)
        if (got[i] != tokens[i]) fail_msg("line %d: '%s': token %zu is %d, not %d", line, text, i, got[i], tokens[i]);
    rf_array_free(&array);
}

/* The text becomes the tokens with these texts, in one string with a bar after each. */
static inline void pieces(const rf_tokenizer *t, const char *text, const char *wanted)
{
    rf_array array;
    char got[1024] = "";
    OK(rf_tokenizer_encode(t, text, strlen(text), &array));
    for (int64_t i = 0; i < array.shape.dim[0]; i++) {
        strncat(got, rf_tokenizer_token(t, ((const int32_t *)array.data)[i], NULL), sizeof(got) - strlen(got) - 1);
        strncat(got, "|", sizeof(got) - strlen(got) - 1);
    }
    rf_array_free(&array);
    assert_string_equal(got, wanted);
}

/* The text, and what decoding its tokens gives. */
static inline void decodes(const rf_tokenizer *t, const char *text, size_t size, const char *wanted, size_t wanted_size)
{
    rf_array array;
    char *back;
    size_t back_size;
    OK(rf_tokenizer_encode(t, text, size, &array));
    assert_int_equal(array.dtype, RF_I32);
    assert_int_equal(array.shape.rank, 1);
    OK(rf_tokenizer_decode(t, array.data, (uint64_t)array.shape.dim[0], &back, &back_size));
    assert_int_equal(back_size, wanted_size);
    assert_memory_equal(back, wanted, wanted_size);
    assert_int_equal(back[back_size], 0);
    rf_string_free(back);
    rf_array_free(&array);
}
static inline void round_trip(const rf_tokenizer *t, const char *text, size_t size)
{
    decodes(t, text, size, text, size);
}

#endif
