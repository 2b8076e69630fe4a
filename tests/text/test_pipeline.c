/* SPDX-License-Identifier: Apache-2.0 */
/* Files of Hugging Face's library: their errors, and what their tokenizers can be asked. Whether the tokens are right
 * is compared with that library itself (check_tokenizers.py). */
#include <stdio.h>
#include <stdlib.h>

#include "../support/folder.h"
#include "base/memory.h"
#include "tests/room.h"
#include "text/tokenizer.h"
#include "tokens.h"

/* A file's text with apostrophes for quotation marks. */
static rf_result parse(const char *text, rf_tokenizer **out)
{
    char *copy = strdup(text);
    assert_non_null(copy);
    for (char *c = copy; *c; c++)
        if (*c == '\'') *c = '"';
    const rf_result r = rf_tokenizer_parse(copy, strlen(copy), true, out);
    free(copy);
    return r;
}

static rf_tokenizer *parsed(const char *text)
{
    rf_tokenizer *t;
    OK(parse(text, &t));
    return t;
}

#define LETTERS "'a': 0, 'b': 1, 'ab': 2, ' ': 3, '<s>': 4, '</s>': 5"
#define BPE "'model': {'type': 'BPE', 'unk_token': null, 'vocab': {" LETTERS "}, 'merges': ['a b']}"
#define FILE_OF(parts) "{'version': '1.0', " parts ", " BPE "}"
#define ADDED(id, text, more) "{'id': " #id ", 'content': '" text "'" more "}"
#define SPECIAL ", 'special': true"
#define TEMPLATE                                                                                                       \
    "'post_processor': {'type': 'TemplateProcessing', 'single': [{'SpecialToken': {'id': '<s>', 'type_id': 0}}, "      \
    "{'Sequence': {'id': 'A', 'type_id': 0}}], 'pair': [{'Sequence': {'id': 'A', 'type_id': 0}}, "                     \
    "{'SpecialToken': {'id': '</s>', 'type_id': 2}}, {'Sequence': {'id': 'B', 'type_id': 1}}], "                       \
    "'special_tokens': {'<s>': {'id': '<s>', 'ids': [4]}, '</s>': {'id': '</s>', 'ids': [5]}}}"
#define TOKENS "'added_tokens': [" ADDED(4, "<s>", SPECIAL) ", " ADDED(5, "</s>", SPECIAL) "]"

static const struct {
    const char *file;
    rf_result code;
    const char *message; /* is part of it */
} refused[] = {
    { "{'version': '2.0', " BPE "}", RF_ERROR_UNSUPPORTED, "its version is not \"1.0\"" },
    { FILE_OF("'colour': 1"), RF_ERROR_UNSUPPORTED, "has a member \"colour\"" },
    { FILE_OF("'normalizer': {'type': 'Sequence', 'normalizers': [{'type': 'NFC'}, {'type': 'Rot13'}]}"),
      RF_ERROR_UNSUPPORTED, "normalizer: normalizers[1]: type \"Rot13\" is not known" },
    { FILE_OF("'pre_tokenizer': {'type': 'Split', 'pattern': {'Regex': 'x'}, 'behavior': 'Isolated', 'depth': 2}"),
      RF_ERROR_UNSUPPORTED, "pre_tokenizer: Split: has a member \"depth\"" },
    { FILE_OF("'pre_tokenizer': {'type': 'Split', 'pattern': {'Regex': 'x'}, 'behavior': 'Eaten'}"),
      RF_ERROR_UNSUPPORTED, "behavior is \"Eaten\"" },
    { FILE_OF("'decoder': {'type': 'CTC'}"), RF_ERROR_UNSUPPORTED, "decoder: type \"CTC\"" },
    { FILE_OF("'decoder': {'type': 'Strip', 'content': 'ab', 'start': 1, 'stop': 0}"), RF_ERROR_CORRUPT_DATA,
      "content is not one character" },
    { FILE_OF("'decoder': {'type': 'Strip', 'content': 'a', 'start': 9999999999, 'stop': 0}"), RF_ERROR_CORRUPT_DATA,
      "start is not a number from 0 to 2147483647" },
    { FILE_OF("'post_processor': {'type': 'BertProcessing', 'cls': ['<s>', 4], 'sep': ['</s>', 600]}"),
      RF_ERROR_CORRUPT_DATA, "post_processor: BertProcessing: sep is no token" },
    { FILE_OF("'truncation': {'max_length': 1e99, 'strategy': 'OnlyFirst', 'stride': 0}"), RF_ERROR_CORRUPT_DATA,
      "truncation: max_length is not a number" },
    { FILE_OF("'added_tokens': [" ADDED(1099511627776, "x", "") "]"), RF_ERROR_CORRUPT_DATA, "added_tokens[0]: id" },
    { FILE_OF("'added_tokens': [" ADDED(2000000000, "x", "") "]"), RF_ERROR_CORRUPT_DATA,
      "a token has number 2000000000" },
    { FILE_OF("'added_tokens': [" ADDED(0, "x", "") "]"), RF_ERROR_CORRUPT_DATA, "two tokens have the number 0" },
    { FILE_OF("'normalizer': {'type': 'Precompiled', 'precompiled_charsmap': '/////w=='}"), RF_ERROR_CORRUPT_DATA,
      "precompiled_charsmap: is no map of characters" },
    { "{'version': '1.0', 'model': {'type': 'BPE', 'vocab': {'a': 0, 'c': 2}, 'merges': []}}", RF_ERROR_CORRUPT_DATA,
      "a token has number 2" },
    { "{'version': '1.0', 'model': {'type': 'BPE', 'vocab': {'a': 0, 'b': 1}, 'merges': ['a b']}}",
      RF_ERROR_CORRUPT_DATA, "model: merges[0]: its result \"ab\" is not in the vocabulary" },
    { "{'version': '1.0', 'model': {'type': 'BPE', 'vocab': {'a': 0}, 'merges': [['a', 'z']]}}", RF_ERROR_CORRUPT_DATA,
      "merges[0]: token \"z\" is not in the vocabulary" },
    { "{'version': '1.0', 'model': {'type': 'BPE', 'vocab': {'a': 0}, 'merges': ['a']}}", RF_ERROR_CORRUPT_DATA,
      "is not two tokens and a space" },
    { "{'version': '1.0', 'model': {'type': 'BPE', 'dropout': 0.1, 'vocab': {'a': 0}, 'merges': []}}",
      RF_ERROR_UNSUPPORTED, "dropout" },
    { "{'version': '1.0', 'model': {'type': 'WordLevel', 'unk_token': 'u', 'vocab': {'a': 0}}}", RF_ERROR_CORRUPT_DATA,
      "unk_token \"u\" is not in the vocabulary" },
    { "{'version': '1.0', 'model': {'type': 'Unigram', 'unk_id': 7, 'vocab': [['a', -1.5]]}}", RF_ERROR_CORRUPT_DATA,
      "unk_id" },
    { FILE_OF("'post_processor': {'type': 'TemplateProcessing', 'single': [{'Sequence': {'id': 'A', 'type_id': 0}}, "
              "{'Sequence': {'id': 'A', 'type_id': 0}}], 'pair': [], 'special_tokens': {}}"),
      RF_ERROR_UNSUPPORTED, "sequence \"A\" is there twice" },
    { "{'version': '1.0', 'model': {'type': 'Markov', 'vocab': {'a': 0}}}", RF_ERROR_UNSUPPORTED,
      "model: type \"Markov\" is not known" },
};

TEST(names_what_it_does_not_know)
{
    for (size_t i = 0; i < sizeof(refused) / sizeof(refused[0]); i++) {
        rf_tokenizer *t = NULL;
        const rf_result r = parse(refused[i].file, &t);
        if (r != refused[i].code || t || !strstr(rf_error_message(), refused[i].message))
            fail_msg("file %zu gives %d: %s", i, (int)r, rf_error_message());
    }
}

/* Expressions that Oniguruma and PCRE2 read differently, or that only one of them knows. */
TEST(refuses_expressions_that_it_would_misread)
{
    static const char *const patterns[] = {
        "(?R)",    "(a)\\\\1", "(*UTF)a", "[a&&[b]]",    "[[a]b]", "\\\\h",  "\\\\bx",
        "a{1,2}+", "(?<n>a)",  "(",       "\\\\p{Nope}", "\\\\C",  "(?{x})",
    };
    for (size_t i = 0; i < sizeof(patterns) / sizeof(patterns[0]); i++) {
        char file[512];
        rf_tokenizer *t;
        snprintf(file, sizeof(file),
                 FILE_OF("'pre_tokenizer': {'type': 'Split', 'pattern': {'Regex': '%s'}, 'behavior': 'Removed'}"),
                 patterns[i]);
        const rf_result r = parse(file, &t);
        if (r != RF_ERROR_UNSUPPORTED || !strstr(rf_error_message(), "pre_tokenizer: Split: pattern: "))
            fail_msg("%s gives %d: %s", patterns[i], (int)r, rf_error_message());
    }
}

/* Some try all ways to divide a run, the last one to begin at each of its places. */
TEST(ends_an_expression_that_never_ends)
{
    static const char *const patterns[] = { "(?:a|a|aa)+[cd]", "(?:a+a+)+[cd]", "(?:a|b)*(?:a|b)*(?:a|b)*[cd]",
                                            "(?:aa|ab)*[cd]" };
    static char text[200001];
    memset(text, 'a', sizeof(text) - 1);
    for (size_t i = 0; i < sizeof(patterns) / sizeof(patterns[0]); i++) {
        char file[512];
        rf_array out;
        snprintf(file, sizeof(file),
                 FILE_OF("'pre_tokenizer': {'type': 'Split', 'pattern': {'Regex': '%s'}, 'behavior': 'Removed'}"),
                 patterns[i]);
        rf_tokenizer *t = parsed(file);
        const rf_result r = rf_tokenizer_encode(t, text, sizeof(text) - 1, &out);
        if (r != RF_ERROR_UNSUPPORTED || !strstr(rf_error_message(), "takes too long"))
            fail_msg("%s gives %d", patterns[i], (int)r);
        assert_null(out.data);
        rf_tokenizer_destroy(&t);
    }
}

/* Replace takes ten bytes for each, ByteLevel two, again and again. */
TEST(ends_a_text_that_grows)
{
    static const struct {
        const char *role, *sequence, *part;
    } cases[] = {
        { "normalizer", "normalizers", "{'type': 'Replace', 'pattern': {'String': 'a'}, 'content': 'aaaaaaaaaa'}" },
        { "pre_tokenizer", "pretokenizers", "{'type': 'ByteLevel', 'add_prefix_space': false, 'use_regex': false}" },
        { "decoder", "decoders", "{'type': 'Replace', 'pattern': {'Regex': 'a'}, 'content': 'aaaaaaaaaa'}" },
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char file[8192];
        rf_array out = { 0 };
        char *text = NULL;
        int end = snprintf(file, sizeof(file), "{'version': '1.0', '%s': {'type': 'Sequence', '%s': [", cases[i].role,
                           cases[i].sequence);
        for (int k = 0; k < 40; k++)
            end += snprintf(file + end, sizeof(file) - (size_t)end, "%s%s", k > 0 ? ", " : "", cases[i].part);
        snprintf(file + end, sizeof(file) - (size_t)end, "]}, " BPE "}");
        rf_tokenizer *t = parsed(file);
        const bool encodes = i == 2;
        const rf_result r = rf_tokenizer_encode(t, "a\xc2\x80", 3, &out);
        assert_int_equal(r, encodes ? RF_OK : RF_ERROR_UNSUPPORTED);
        if (encodes)
            FAILS(rf_tokenizer_decode(t, out.data, 1, &text, NULL), RF_ERROR_UNSUPPORTED, "the text becomes too large");
        rf_array_free(&out);
        rf_tokenizer_destroy(&t);
    }
}

static char *nested(int depth)
{
    char *file = calloc(64 + 48 * (size_t)depth + sizeof(BPE), 1);
    assert_non_null(file);
    strcat(file, "{'version': '1.0', 'normalizer': ");
    char *end = file + strlen(file);
    for (int i = 0; i < depth; i++) end += sprintf(end, "{'type': 'Sequence', 'normalizers': [");
    for (int i = 0; i < depth; i++) end += sprintf(end, "]}");
    sprintf(end, ", " BPE "}");
    return file;
}

TEST(refuses_deep_nesting)
{
    static const int depths[] = { 9, 900, 100000 };
    rf_tokenizer *t;
    char *file = nested(8);
    t = parsed(file);
    rf_tokenizer_destroy(&t);
    free(file);
    for (size_t i = 0; i < sizeof(depths) / sizeof(depths[0]); i++) {
        file = nested(depths[i]);
        const rf_result r = parse(file, &t);
        assert_true(r == RF_ERROR_UNSUPPORTED || r == RF_ERROR_CORRUPT_DATA);
        free(file);
    }
}

static void gives(const rf_tokenizer *t, const char *text, const rf_tokenizer_encode_params *params, const char *tokens,
                  const char *types)
{
    rf_array out, kinds;
    char got[2][64] = { "", "" };
    OK(rf_tokenizer_encode_with(t, text, strlen(text), params, &out, &kinds));
    for (int64_t i = 0; i < out.shape.dim[0]; i++) {
        snprintf(got[0] + strlen(got[0]), 8, "%d ", ((const int32_t *)out.data)[i]);
        snprintf(got[1] + strlen(got[1]), 8, "%d ", ((const int32_t *)kinds.data)[i]);
    }
    assert_string_equal(got[0], tokens);
    assert_string_equal(got[1], types);
    rf_array_free(&out);
    rf_array_free(&kinds);
}

TEST(puts_special_tokens_around_texts)
{
    rf_tokenizer *t = parsed(FILE_OF(TOKENS ", " TEMPLATE));
    gives(t, "ab", NULL, "4 2 ", "0 0 ");
    gives(t, "ab", &(rf_tokenizer_encode_params){ .no_special_tokens = true }, "2 ", "0 ");
    gives(t, "ab", &(rf_tokenizer_encode_params){ .pair = "ba", .pair_size = 2 }, "2 5 1 0 ", "0 2 1 1 ");
    gives(t, "", &(rf_tokenizer_encode_params){ .pair = "", .pair_size = 0 }, "5 ", "2 ");
    gives(t, "<s>a", NULL, "4 4 0 ", "0 0 0 ");
    ENCODES(t, "b<s>", 4, 1, 4);
    assert_true(rf_tokenizer_is_special(t, 4) && !rf_tokenizer_is_special(t, 2));
    assert_int_equal(rf_tokenizer_get_kind(t), RF_TOKENIZER_PIPELINE);
    assert_int_equal(rf_tokenizer_vocabulary_size(t), 6);
    assert_int_equal(rf_tokenizer_id(t, "</s>"), 5);
    assert_string_equal(rf_tokenizer_token(t, 2, NULL), "ab");
    rf_tokenizer_destroy(&t);
}

/* The characters that no token has are left out, since the model has no unknown token. */
TEST(can_take_special_tokens_for_text)
{
    rf_tokenizer *t = parsed(FILE_OF(TOKENS));
    gives(t, "<s>ab", &(rf_tokenizer_encode_params){ .split_special_tokens = true }, "2 ", "0 ");
    rf_tokenizer_destroy(&t);
}

TEST(truncates)
{
    static const char file[] = FILE_OF(
        TOKENS ", " TEMPLATE ", 'truncation': {'max_length': 3, 'direction': 'Left', 'strategy': '%s', 'stride': 0}");
    char text[2048];
    snprintf(text, sizeof(text), file, "LongestFirst");
    rf_tokenizer *t = parsed(text);
    const rf_tokenizer_encode_params pair = { .pair = "bbb", .pair_size = 3 };
    gives(t, "aaab", NULL, "4 0 2 ", "0 0 0 ");
    gives(t, "aaab", &(rf_tokenizer_encode_params){ .no_special_tokens = true }, "0 0 2 ", "0 0 0 ");
    gives(t, "aaab", &pair, "2 5 1 ", "0 2 1 ");
    rf_tokenizer_destroy(&t);
    snprintf(text, sizeof(text), file, "OnlySecond");
    t = parsed(text);
    gives(t, "a", &pair, "0 5 1 ", "0 2 1 ");
    rf_array out;
    assert_int_equal(rf_tokenizer_encode_with(t, "aaa", 3, &pair, &out, NULL), RF_ERROR_INVALID_ARGUMENT);
    assert_non_null(strstr(rf_error_message(), "text 2 has 3 tokens"));
    rf_tokenizer_destroy(&t);
}

/* A character cut short is one replacement, a byte that begins none is one, too. */
TEST(replaces_what_is_not_utf8)
{
    static const struct {
        const char *text;
        const char *tokens;
    } cases[] = {
        { "a\xff\xfe"
          "b",
          "0 1 1 2 " },
        { "\xe2\x82", "1 " },
        { "\xe2\x82"
          "a",
          "1 0 " },
        { "\xf0\x9f\x98", "1 " },
        { "\xed\xa0\x80", "1 1 1 " },
        { "\xc3", "1 " },
        { "\xf0\x80\x80\x80", "1 1 1 1 " },
        { "\xf4\x90\x80", "1 1 1 " },
        { "\xe2\x82\xff", "1 1 " },
    };
    rf_tokenizer *t =
        parsed("{'version': '1.0', 'model': {'type': 'BPE', 'vocab': {'a': 0, '\xef\xbf\xbd': 1, 'b': 2}, "
               "'merges': []}}");
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char types[64] = "";
        for (size_t k = 0; k < strlen(cases[i].tokens) / 2; k++) strcat(types, "0 ");
        gives(t, cases[i].text, NULL, cases[i].tokens, types);
    }
    rf_tokenizer_destroy(&t);
}

TEST(other_functions_know_the_kind)
{
    static const char *const texts[] = { "ab", "b" };
    rf_tokenizer *t = parsed(FILE_OF(TOKENS ", " TEMPLATE)), *again;
    char folder[SCRATCH_PATH], path[SCRATCH_PATH + 32], *first, *second;
    rf_array rows;
    OK(rf_tokenizer_encode_padded(t, texts, NULL, 2, &(rf_sequence_pad_params){ .length = 3 }, &rows));
    const int32_t wanted[] = { 0, 4, 2, 0, 4, 1 };
    assert_memory_equal(rows.data, wanted, sizeof(wanted));
    rf_array_free(&rows);
    snprintf(path, sizeof(path), "%s/tokenizer.json", scratch(folder));
    OK(rf_tokenizer_save(t, path));
    OK(rf_tokenizer_load(path, &again));
    OK(rf_tokenizer_text(t, &first));
    OK(rf_tokenizer_text(again, &second));
    assert_string_equal(first, second);
    rf_free(first);
    rf_free(second);
    scratch_remove(folder);
    rf_tokenizer_destroy(&again);
    rf_tokenizer_destroy(&t);

    const rf_tokenizer_params params = { .kind = RF_TOKENIZER_PIPELINE };
    FAILS(rf_tokenizer_create(&params, texts, NULL, 2, &t), RF_ERROR_INVALID_ARGUMENT, "rf_tokenizer_load()");
    FAILS(rf_tokenizer_train(&params, texts, NULL, 2, &t), RF_ERROR_INVALID_ARGUMENT, "rf_tokenizer_load()");
    t = TRAIN(&(rf_tokenizer_params){ .kind = RF_TOKENIZER_CHARACTERS }, "ab");
    FAILS(rf_tokenizer_encode_with(t, "a", 1, NULL, &rows, NULL), RF_ERROR_INVALID_ARGUMENT, "rf_tokenizer_encode()");
    rf_tokenizer_destroy(&t);
}

TESTS(pipeline, NULL, NULL)
