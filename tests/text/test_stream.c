/* SPDX-License-Identifier: Apache-2.0 */
/* Text of tokens that come one by one: that of all tokens at once, in pieces of whole characters, up to a stop. */
#include <ringfire/text.h>

#include <stdlib.h>
#include <string.h>

#include "../support/expect.h"
#include "tests/room.h"

enum { MOST = 4096 };

static rf_tokenizer *byte_pairs(void)
{
    rf_tokenizer *t;
    OK(rf_tokenizer_train(&(rf_tokenizer_params){ .kind = RF_TOKENIZER_BYTE_PAIR }, NULL, NULL, 0, &t));
    return t;
}

typedef struct heard {
    char text[MOST];
    size_t size;
    uint32_t tokens, pieces; /* before the end; calls that gave text */
} heard;

static void hear(heard *h, const char *text, size_t size)
{
    assert_int_equal(text[size], 0);
    assert_true(h->size + size < MOST);
    memcpy(h->text + h->size, text, size);
    h->size += size;
    h->pieces += size > 0;
}

/* Adds tokens, then ends the stream. */
static heard stream_tokens(const rf_text_stream_params *params, const int32_t *tokens, uint64_t count)
{
    heard h = { 0 };
    rf_text_stream *s;
    const char *text;
    size_t size;
    rf_result r = RF_OK;
    OK(rf_text_stream_create(params, &s));
    for (uint64_t i = 0; r == RF_OK && i < count; i++) {
        r = rf_text_stream_add(s, tokens[i], &text, &size);
        assert_true(r >= 0);
        hear(&h, text, size);
        h.tokens += r == RF_OK;
    }
    assert_int_equal(rf_text_stream_finish(s, &text, &size), RF_END);
    hear(&h, text, size);
    assert_int_equal(rf_text_stream_add(s, tokens[0], &text, NULL), RF_END);
    assert_string_equal(text, "");
    rf_text_stream_destroy(&s);
    assert_null(s);
    return h;
}

static heard stream_text(const rf_tokenizer *t, const char *text, const char *const *stops, uint32_t num_stops)
{
    rf_array tokens;
    const rf_text_stream_params params = { .tokenizer = t, .stop_strings = stops, .num_stop_strings = num_stops };
    OK(rf_tokenizer_encode(t, text, strlen(text), &tokens));
    const heard h = stream_tokens(&params, tokens.data, (uint64_t)tokens.shape.dim[0]);
    rf_array_free(&tokens);
    return h;
}

/* Bytes are tokens: a character is there when its last byte is. */
TEST(whole_characters)
{
    rf_tokenizer *t = byte_pairs();
    const char *text = "a\xc3\xa9\xe2\x82\xac\xf0\x9f\x99\x82 \xff z";
    const heard h = stream_text(t, text, NULL, 0);
    assert_string_equal(h.text, text);
    assert_int_equal(h.pieces, 7); /* 0xff waits for the space */
    assert_int_equal(h.tokens, strlen(text));
    /* A part of a character comes at the end. */
    assert_string_equal(stream_text(t, "x\xf0\x9f", NULL, 0).text, "x\xf0\x9f");
    rf_tokenizer_destroy(&t);
}

TEST(stop_strings)
{
    rf_tokenizer *t = byte_pairs();
    static const struct {
        const char *text, *shown;
        uint32_t tokens;
    } cases[] = {
        { "one\n\nUser: two", "one", 9 },
        { "one\n\nUse it", "one\n\nUse it", 11 },
        { "###", "###", 3 },
        { "a##\n\nUser:", "a##", 9 },
        { "ab####c", "ab", 5 },
        { "", "", 0 },
        { "User:", "User:", 5 },
        { "\n\n\nUser:", "\n", 7 },
    };
    const char *const stops[] = { "\n\nUser:", "####" };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        const heard h = cases[i].text[0] ? stream_text(t, cases[i].text, stops, 2) : (heard){ 0 };
        assert_string_equal(h.text, cases[i].shown);
        assert_int_equal(h.tokens, cases[i].tokens);
    }
    rf_tokenizer_destroy(&t);
}

/* Words are parted by spaces, which no token has. */
TEST(words)
{
    const char *const words[] = { "", "[UNK]", "the", "cat", "sat" };
    const int32_t tokens[] = { 2, 3, 4, 1, 2 };
    rf_tokenizer *t;
    OK(rf_tokenizer_create(&(rf_tokenizer_params){ .kind = RF_TOKENIZER_WORDS }, words, NULL, 5, &t));
    const rf_text_stream_params params = { .tokenizer = t };
    assert_string_equal(stream_tokens(&params, tokens, 5).text, "the cat sat [UNK] the");
    rf_tokenizer_destroy(&t);
}

TEST(mistakes)
{
    rf_tokenizer *t = byte_pairs();
    rf_text_stream *s;
    const char *text, *const empty[] = { "" };
    size_t size;
    FAILS(rf_text_stream_create(&(rf_text_stream_params){ 0 }, &s), RF_ERROR_INVALID_ARGUMENT, "tokenizer is NULL");
    FAILS(rf_text_stream_create(
              &(rf_text_stream_params){ .tokenizer = t, .stop_strings = empty, .num_stop_strings = 1 }, &s),
          RF_ERROR_INVALID_ARGUMENT, "stop string 0 is empty");
    OK(rf_text_stream_create(&(rf_text_stream_params){ .tokenizer = t }, &s));
    OK(rf_text_stream_add(s, 'a', &text, &size));
    FAILS(rf_text_stream_add(s, 256, &text, &size), RF_ERROR_INVALID_ARGUMENT, "rf_text_stream_add: token 256");
    OK(rf_text_stream_add(s, 'b', &text, &size));
    assert_string_equal(text, "b");
    rf_text_stream_destroy(&s);
    rf_tokenizer_destroy(&t);
}

TESTS(stream, NULL, NULL)
