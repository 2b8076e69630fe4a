/* SPDX-License-Identifier: Apache-2.0 */
/* Each kind of tokenizer against results worked out by hand. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../support/clock.h"
#include "../support/noise.h"
#include "base/utf8.h"
#include "tests/room.h"
#include "text/split.h"
#include "tokens.h"

/* ---- UTF-8 ---- */

static void check_code(const char *text, size_t size, uint32_t code, uint32_t length)
{
    uint32_t got;
    assert_int_equal(rf_utf8_decode(text, size, &got), length);
    assert_int_equal(got, code);
}

TEST(test_utf8)
{
    for (uint32_t code = 0; code <= 0x10ffff; code++) {
        char text[5] = "";
        uint32_t back;
        if (code >= 0xd800 && code <= 0xdfff) continue;
        const uint32_t length = rf_utf8_encode(code, text);
        if (rf_utf8_decode(text, length, &back) != length || back != code) fail_msg("U+%04X", code);
        /* Cut, it is none. */
        if (length > 1 && (rf_utf8_decode(text, length - 1, &back) != 1 || back != RF_UTF8_INVALID))
            fail_msg("U+%04X, cut", code);
    }
    check_code("\xc0\x80", 2, RF_UTF8_INVALID, 1);         /* overlong */
    check_code("\xe0\x9f\xbf", 3, RF_UTF8_INVALID, 1);     /* overlong */
    check_code("\xf0\x8f\xbf\xbf", 4, RF_UTF8_INVALID, 1); /* overlong */
    check_code("\xed\xa0\x80", 3, RF_UTF8_INVALID, 1);     /* a surrogate */
    check_code("\xf4\x90\x80\x80", 4, RF_UTF8_INVALID, 1); /* U+110000 */
    check_code("\xff", 1, RF_UTF8_INVALID, 1);
    check_code("\x80", 1, RF_UTF8_INVALID, 1);
    check_code("\xe2\x82x", 3, RF_UTF8_INVALID, 1);
    assert_true(rf_utf8_valid("gr\xc3\xbc\xc3\x9f", 6));
    assert_false(rf_utf8_valid("gr\xc3", 3));
}

static rf_result join_words(void *user, const char *word, size_t size)
{
    char *joined = user;
    const size_t used = strlen(joined);
    assert_true(size > 0 && used + size + 2 < 512 && rf_utf8_valid(word, size));
    memcpy(joined + used, word, size);
    strcpy(joined + used + size, "|");
    return RF_OK;
}

static void splits(const char *text, size_t size, bool keep_case, const char *words)
{
    char joined[512] = "";
    OK(rf_split_basic(text, size, keep_case, join_words, joined));
    if (strcmp(joined, words) != 0) fail_msg("'%s' becomes '%s', not '%s'", text, joined, words);
}

/* BERT's basic tokenizer: as Google's and Hugging Face's programs in Python have it (check_words.py asks Python). */
TEST(test_folding)
{
    static const struct {
        const char *text, *words;
    } cases[] = {
        { u8"ABC z", u8"abc|z|" },
        { u8"\u00c9\u00e9 \u00c6\u00e6 \u00df\u1e9e \u00d8\u00f8", u8"ee|\u00e6\u00e6|\u00df\u00df|\u00f8\u00f8|" },
        { u8"\u0130\u0131I \u0141\u0142 \u0110", u8"i\u0131i|\u0142\u0142|\u0111|" },
        { u8"e\u0301\u0327 \u1ec7 \u0227", u8"e|e|a|" },                   /* marks, two of them, one */
        { u8"\u0386\u03ac\u0390 \u1f82", u8"\u03b1\u03b1\u03b9|\u03b1|" }, /* Greek, polytonic too */
        { u8"\u039f\u0394\u039f\u03a3 \u03a3\u0391\u03a3", u8"\u03bf\u03b4\u03bf\u03c2|\u03c3\u03b1\u03c2|" },
        { u8"\u0391\u03a3. \u0391\u03a3'\u0391 \u03a3", u8"\u03b1\u03c2|.|\u03b1\u03c3|'|\u03b1|\u03c3|" },
        { u8"\u0401\u0419\u042f\u0403", u8"\u0435\u0438\u044f\u0433|" },       /* Cyrillic */
        { u8"\u04d0 \u0531 \u10a0 \u13a0", u8"\u0430|\u0561|\u2d00|\uab70|" }, /* Armenian, Georgian, Cherokee */
        { u8"\u212a\u212b\u2126", u8"ka\u03c9|" },                             /* Kelvin, Angstrom, Ohm */
        { u8"\ud55c\uae00", u8"\u1112\u1161\u11ab\u1100\u1173\u11af|" },       /* Korean syllables are letters */
        { u8"\u304c \u30d7", u8"\u304b|\u30d5|" },                             /* Japanese voicing is a mark */
        { u8"\u0e19\u0e49\u0e33", u8"\u0e19\u0e33|" },                         /* Thai tone */
        { u8"\u0928\u093f\u0930\u094d", u8"\u0928\u093f\u0930|" },             /* Devanagari: a vowel has a width */
        { u8"\u05d0\u05b8 \u0627\u064e", u8"\u05d0|\u0627|" },                 /* Hebrew, Arabic points */
        { u8"ab\u4e2dcd\U00020000e\uf900", u8"ab|\u4e2d|cd|\U00020000|e|\u8c48|" },
        { u8"a\u30a2\uac00", u8"a\u30a2\u1100\u1161|" }, /* neither kana nor Korean is apart */
        { u8"a\u00a0b\u2003c\u3000d\u2028e\u1680f", u8"a|b|c|d|e|f|" },
        { u8"a\u200bb\u00adc\ufeffd\u202ee\ue000f\ufffdg\u0378h\xc2\x85i", u8"abcdefghi|" },
        { "a\x01"
          "b\x7f"
          "c\x0b"
          "d\re\tf\ng",
          "abcd|e|f|g|" },
        { u8"a\u00bfb\u2014c\u3002d\uff01e\u0964f$g\u20ach",
          u8"a|\u00bf|b|\u2014|c|\u3002|d|\uff01|e|\u0964|f|$|g\u20ach|" },
        { u8"\u037e\u1fef", u8";|`|" }, /* what decomposes into ASCII */
        { u8"\u24b6\u216b\uff21", u8"\u24d0\u217b\uff41|" },
        { u8"\U00010400\U0001e900", u8"\U00010428\U0001e922|" },
        { u8"\U0001f600a", u8"\U0001f600a|" },
        { u8"a\u302e\u0323\U0001d165b", u8"a\U0001d165\u302eb|" }, /* marks with a width are put in order */
        { u8"\u0301 \u200b", u8"" },
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        splits(cases[i].text, strlen(cases[i].text), false, cases[i].words);
    splits(u8"\u00c9\u0301 \u03a3 \ud55c,\u4e2d\ufe0f", strlen(u8"\u00c9\u0301 \u03a3 \ud55c,\u4e2d\ufe0f"), true,
           u8"\u00c9\u0301|\u03a3|\ud55c|,|\u4e2d|\ufe0f|");
    splits("a\0b\xff\xc3 c\xe2\x82", 9, false, "ab|c|");
    /* Whatever a character becomes, it stays the same from then on, takes at most three times its bytes, and is no more
     * characters than it had bytes: a text has no more tokens than bytes. */
    for (uint32_t code = 1; code <= 0x10ffff; code++) {
        char text[8], once[512] = "", twice[512] = "";
        if (code >= 0xd800 && code <= 0xdfff) continue;
        const uint32_t size = rf_utf8_encode(code, text);
        OK(rf_split_basic(text, size, false, join_words, once));
        uint32_t characters = 0, bytes = 0;
        for (const char *at = once; *at; at++) {
            characters += ((uint8_t)*at & 0xc0) != 0x80 && (*at != '|' || code == '|');
            bytes += *at != '|' || code == '|';
        }
        assert_true(bytes <= 3 * size && characters <= size + (code == '|'));
        char *end = strchr(once, '|');
        if (!end || end == once || end[1]) continue;
        OK(rf_split_basic(once, (size_t)(end - once), false, join_words, twice));
        assert_string_equal(once, twice);
    }
}

static rf_result count_bytes(void *user, const char *word, size_t size)
{
    (void)word;
    *(uint64_t *)user += size;
    return RF_OK;
}

/* Marks, capital sigmas and what is left out of account between them, in any number, take time in proportion. */
TEST(test_folding_time)
{
    static const char *const parts[] = { u8"\u302e\U0001d165", u8"\u03a3''", u8"\u0323\u0301", u8"\u03a3\u0301",
                                         u8"\ud55c" };
    for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++) {
        enum { TIMES = 200000 };
        const size_t part = strlen(parts[i]);
        char *text = malloc(part * TIMES);
        uint64_t bytes = 0;
        assert_non_null(text);
        for (size_t k = 0; k < TIMES; k++) memcpy(text + k * part, parts[i], part);
        const double begin = seconds_now();
        OK(rf_split_basic(text, part * TIMES, false, count_bytes, &bytes));
        assert_true(bytes <= 3 * part * TIMES && seconds_now() - begin < 20);
        free(text);
    }
}

/* ---- characters ---- */

TEST(test_characters)
{
    rf_tokenizer *t = TRAIN(NULL, "banana \xc3\xbc", "ab\xff");
    assert_int_equal(rf_tokenizer_get_kind(t), RF_TOKENIZER_CHARACTERS);
    assert_int_equal(rf_tokenizer_vocabulary_size(t), 6); /* space, a, b, n, u with dots, the stray byte */
    ENCODES(t, "a b", 1, 0, 2);
    ENCODES(t, "\xc3\xbc\xff\xffn", 4, 5, 5, 3);
    ENCODES(t, "axb", 1, 2); /* x is unknown */
    assert_int_equal(rf_tokenizer_id(t, "\xc3\xbc"), 4);
    assert_int_equal(rf_tokenizer_id(t, "\xc3"), -1);
    round_trip(t, "an\xff \xc3\xbc\xff\xff", 8);
    round_trip(t, "", 0);
    rf_tokenizer_destroy(&t);
    assert_null(t);

    static const char *const special[] = { "[PAD]", "[UNK]" };
    t = TRAIN(&((rf_tokenizer_params){ .special_tokens = special, .num_special_tokens = 2, .max_tokens = 4 }),
              "banana");
    assert_int_equal(rf_tokenizer_vocabulary_size(t), 4);
    ENCODES(t, "ban", 1, 2, 3); /* b, the rarest one, has no token; the others are in the order of their bytes */
    assert_true(rf_tokenizer_is_special(t, 1));
    assert_false(rf_tokenizer_is_special(t, 2));
    decodes(t, "ban", 3, "[UNK]an", 7);
    rf_tokenizer_destroy(&t);
    /* Two characters of Latin-1's block with the same first byte. */
    t = TRAIN(&((rf_tokenizer_params){ .min_count = 2 }), "aab\xc3\xa4\xc3\xa4\xc3\xb6");
    assert_int_equal(rf_tokenizer_vocabulary_size(t), 2);
    rf_tokenizer_destroy(&t);
}

/* ---- words ---- */

/* The rules of Keras' documentation of TextVectorization: lower case, no punctuation, words at white space; "" and
 * "[UNK]" come first, then the most frequent words; max_tokens counts all of them. */
TEST(test_words)
{
    const rf_tokenizer_params params = { .kind = RF_TOKENIZER_WORDS };
    rf_tokenizer *t = TRAIN(&params, "The cat sat, the DOG ran.", "the  cat\tdidn't...", "-- !");
    assert_int_equal(rf_tokenizer_vocabulary_size(t), 8);
    static const char *const words[] = { "", "[UNK]", "the", "cat", "didnt", "dog", "ran", "sat" };
    for (int32_t i = 0; i < 8; i++) {
        size_t size;
        assert_string_equal(rf_tokenizer_token(t, i, &size), words[i]);
        assert_int_equal(size, strlen(words[i]));
        assert_int_equal(rf_tokenizer_id(t, words[i]), i);
        assert_int_equal(rf_tokenizer_is_special(t, i), i < 2);
    }
    ENCODES(t, "A cat, THE dog; didn't [UNK]", 1, 3, 2, 5, 4, 1);
    decodes(t, "A cat,\nTHE  dog", 15, "[UNK] cat the dog", 17);
    const int32_t padded[] = { 3, 0, 7, 0, 0 };
    char *text;
    OK(rf_tokenizer_decode(t, padded, 5, &text, NULL));
    assert_string_equal(text, "cat sat");
    rf_string_free(text);
    rf_tokenizer_destroy(&t);
    /* Only what is ASCII changes. */
    t = TRAIN(&params, "\xc3\x9c"
                       "BER \xc3\xbc"
                       "ber \xc2\xbfqu\xc3\xa9?");
    assert_true(rf_tokenizer_id(t, "\xc3\x9c"
                                   "ber") >= 0);
    assert_true(rf_tokenizer_id(t, "\xc2\xbfqu\xc3\xa9") >= 0);
    rf_tokenizer_destroy(&t);
}

TEST(test_word_options)
{
    static const char *const special[] = { "[START]", "[END]" };
    rf_tokenizer_params params = {
        .kind = RF_TOKENIZER_WORDS, .max_tokens = 6, .special_tokens = special, .num_special_tokens = 2
    };
    rf_tokenizer *t = TRAIN(&params, "b b a c c c a");
    assert_int_equal(rf_tokenizer_vocabulary_size(t), 6);
    assert_int_equal(rf_tokenizer_id(t, "[END]"), 3);
    ENCODES(t, "c a b", 4, 5, 1); /* of the equally frequent a and b, a is first */
    rf_tokenizer_destroy(&t);
    params.min_count = 3;
    t = TRAIN(&params, "b b a c c c a");
    assert_int_equal(rf_tokenizer_vocabulary_size(t), 5);
    rf_tokenizer_destroy(&t);
    t = TRAIN(&((rf_tokenizer_params){ .kind = RF_TOKENIZER_WORDS, .keep_case = true, .keep_punctuation = true }),
              "No, no! [UNK] No,");
    ENCODES(t, "No, no! no", 2, 3, 1);
    assert_int_equal(rf_tokenizer_vocabulary_size(t), 4); /* the text "[UNK]" is not the token */
    rf_tokenizer_destroy(&t);
}

/* ---- WordPiece ---- */

static rf_tokenizer *given(const rf_tokenizer_params *params, const char *const *tokens, uint32_t count)
{
    rf_tokenizer *t;
    OK(rf_tokenizer_create(params, tokens, NULL, count, &t));
    return t;
}
#define GIVEN(params, tokens) given(params, tokens, sizeof(tokens) / sizeof((tokens)[0]))

/* The first eleven tokens and the first three results are those of BERT's published tests. */
TEST(test_word_piece)
{
    static const char *const vocabulary[] = { "[UNK]",  "[CLS]", "[SEP]", "want",  "##want",      "##ed",
                                              "wa",     "un",    "runn",  "##ing", ",",           "[PAD]",
                                              "[MASK]", "low",   "##est", "##e",   "\xe4\xb8\xad" };
    const rf_tokenizer_params params = { .kind = RF_TOKENIZER_WORD_PIECE };
    rf_tokenizer *t = GIVEN(&params, vocabulary);
    ENCODES(t,
            "UNwant\xc3\xa9"
            "d,running",
            7, 4, 5, 10, 8, 9);
    ENCODES(t, "unwanted running", 7, 4, 5, 8, 9);
    ENCODES(t, "unwantedX running", 0, 8, 9); /* one piece is missing, so the whole word is */
    ENCODES(t, "low lowest lowe", 13, 13, 14, 13, 15);
    ENCODES(t, "wa\xe4\xb8\xadwa", 6, 16, 6);
    ENCODES(t,
            "w\xcc\x81"
            "a \xc2\xa0want\xe2\x80\x8b"
            "ed\x01",
            6, 3, 5); /* accent, no-break space, zero width, control */
    ENCODES(t,
            "wa\xff"
            "nt",
            3);                                   /* what is not UTF-8 is left out */
    ENCODES(t, "[MASK] [PAD]", 0, 0, 0, 0, 0, 0); /* bracket, word, bracket */
    decodes(t, "unwanted, low", 13, "unwanted , low", 14);
    const int32_t with_special[] = { 1, 7, 4, 5, 2, 11, 11 };
    char *text;
    OK(rf_tokenizer_decode(t, with_special, 7, &text, NULL));
    assert_string_equal(text, "unwanted");
    rf_string_free(text);
    for (int32_t i = 0; i < 17; i++) assert_int_equal(rf_tokenizer_is_special(t, i), i < 3 || i == 11 || i == 12);
    /* A word of 100 characters is looked into, one of 101 is not. */
    static const char *const runs[] = { "[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "##a" };
    rf_tokenizer_destroy(&t);
    t = GIVEN(&params, runs);
    char word[102];
    memset(word, 'a', 101);
    rf_array array;
    OK(rf_tokenizer_encode(t, word, 100, &array));
    assert_int_equal(array.shape.dim[0], 100);
    rf_array_free(&array);
    word[101] = 0;
    ENCODES(t, word, 1);
    rf_tokenizer_destroy(&t);
    const rf_tokenizer_params cased = { .kind = RF_TOKENIZER_WORD_PIECE, .keep_case = true };
    static const char *const upper[] = { "[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "A", "a", "##\xc3\xa9" };
    t = GIVEN(&cased, upper);
    ENCODES(t, "A a A\xc3\xa9", 5, 6, 5, 7);
    rf_tokenizer_destroy(&t);
}

/* ---- byte pairs ---- */

TEST(test_pieces_of_byte_pairs)
{
    /* With merges for all that can be merged, the tokens of a text that was seen often are GPT-2's pieces of it. */
    const rf_tokenizer_params params = { .kind = RF_TOKENIZER_BYTE_PAIR };
    static const char text[] = "We'll see it's 12 o'clock,  isn't\n\n it?  ";
    rf_tokenizer *t = TRAIN(&params, text, text);
    pieces(t, text, "We|'ll| see| it|'s| 12| o|'|clock|,| | isn|'t|\n\n| it|?|  |");
    round_trip(t, text, strlen(text));
    rf_tokenizer_destroy(&t);
}

TEST(test_any_bytes)
{
    rf_tokenizer *pairs = TRAIN(&((rf_tokenizer_params){ .kind = RF_TOKENIZER_BYTE_PAIR, .min_count = 1 }),
                                "some text to learn pairs from, and some more text");
    char bytes[2048];
    for (uint32_t seed = 0; seed < 60; seed++) {
        uint32_t noise = seed;
        const size_t size = mix(&noise) % sizeof(bytes);
        const uint32_t range = seed % 3 == 0 ? 256 : seed % 3 == 1 ? 4 : 100;
        for (size_t i = 0; i < size; i++) bytes[i] = (char)(mix(&noise) % range + (range == 256 ? 0 : ' '));
        round_trip(pairs, bytes, size);
        rf_tokenizer *characters;
        OK(rf_tokenizer_train(NULL, (const char *const[]){ bytes }, &size, 1, &characters));
        round_trip(characters, bytes, size);
        rf_tokenizer_destroy(&characters);
    }
    for (size_t i = 0; i < 256; i++) bytes[i] = (char)i;
    round_trip(pairs, bytes, 256);
    rf_tokenizer_destroy(&pairs);
}

/* ---- time ---- */

static void encode_long(const rf_tokenizer *t, const char *text, size_t size)
{
    rf_array array;
    const double begin = seconds_now();
    OK(rf_tokenizer_encode(t, text, size, &array));
    print_message("kind %d: %zu bytes, %lld tokens, %.3f s\n", (int)rf_tokenizer_get_kind(t), size,
                  (long long)array.shape.dim[0], seconds_now() - begin);
    rf_array_free(&array);
}

/* A line of a megabyte without any space. With work that grows with the square this would take hours. */
TEST(test_long_lines)
{
    enum { SIZE = 1 << 20 };
    char *text = malloc(SIZE);
    assert_non_null(text);
    for (int what = 0; what < 3; what++) {
        uint32_t noise = 7;
        for (size_t i = 0; i < SIZE; i++) text[i] = what == 0 ? 'a' : what == 1 ? (char)('a' + mix(&noise) % 4) : ' ';
        for (rf_tokenizer_kind kind = RF_TOKENIZER_CHARACTERS; kind <= RF_TOKENIZER_BYTE_PAIR; kind++) {
            rf_tokenizer *t;
            const size_t some = SIZE / 16;
            const rf_tokenizer_params params = { .kind = kind, .max_tokens = 300 };
            OK(rf_tokenizer_train(&params, (const char *const[]){ text }, &some, 1, &t));
            encode_long(t, text, SIZE);
            if (kind == RF_TOKENIZER_BYTE_PAIR || kind == RF_TOKENIZER_CHARACTERS) round_trip(t, text, SIZE);
            rf_tokenizer_destroy(&t);
        }
    }
    free(text);
}

/* ---- mistakes ---- */

TEST(test_mistakes)
{
    rf_tokenizer *t;
    static const char *const twice[] = { "[X]", "[X]" }, *const broken[] = { "\xff" }, *const letter[] = { "x" };
    rf_tokenizer_params p = { .kind = RF_TOKENIZER_BYTE_PAIR, .max_tokens = 255 };
    FAILS(rf_tokenizer_train(&p, NULL, NULL, 0, &t), RF_ERROR_INVALID_ARGUMENT, "max_tokens is 255, but 256");
    assert_null(t);
    p = (rf_tokenizer_params){ .special_tokens = twice, .num_special_tokens = 2 };
    FAILS(rf_tokenizer_train(&p, NULL, NULL, 0, &t), RF_ERROR_INVALID_ARGUMENT, "the same text as token 0");
    p = (rf_tokenizer_params){ .special_tokens = broken, .num_special_tokens = 1 };
    FAILS(rf_tokenizer_train(&p, NULL, NULL, 0, &t), RF_ERROR_INVALID_ARGUMENT, "special token 0 is not UTF-8");
    p = (rf_tokenizer_params){ .kind = RF_TOKENIZER_BYTE_PAIR, .special_tokens = letter, .num_special_tokens = 1 };
    FAILS(rf_tokenizer_train(&p, NULL, NULL, 0, &t), RF_ERROR_INVALID_ARGUMENT,
          "token 256 has the same text as token 120");
    p = (rf_tokenizer_params){ .kind = (rf_tokenizer_kind)9 };
    FAILS(rf_tokenizer_train(&p, NULL, NULL, 0, &t), RF_ERROR_INVALID_ARGUMENT, "kind 9");
    FAILS(rf_tokenizer_train(NULL, (const char *const[]){ NULL }, NULL, 1, &t), RF_ERROR_INVALID_ARGUMENT,
          "text 0 is NULL");
    p = (rf_tokenizer_params){ .kind = RF_TOKENIZER_WORD_PIECE };
    FAILS(rf_tokenizer_create(&p, twice, NULL, 1, &t), RF_ERROR_INVALID_ARGUMENT,
          "the vocabulary lacks the special token '[PAD]'");
    FAILS(rf_tokenizer_create(NULL, (const char *const[]){ "a", "bc" }, NULL, 2, &t), RF_ERROR_INVALID_ARGUMENT,
          "token 1 is more than one character");
    FAILS(rf_tokenizer_create(NULL, (const char *const[]){ "a", "" }, NULL, 2, &t), RF_ERROR_INVALID_ARGUMENT,
          "token 1 is empty");
    FAILS(rf_tokenizer_create(NULL, (const char *const[]){ "a", "b", "a" }, NULL, 3, &t), RF_ERROR_INVALID_ARGUMENT,
          "token 2 has the same text as token 0");
    p = (rf_tokenizer_params){ .kind = RF_TOKENIZER_BYTE_PAIR };
    FAILS(rf_tokenizer_create(&p, twice, NULL, 1, &t), RF_ERROR_INVALID_ARGUMENT, "order of merging");
    t = TRAIN(NULL, "ab");
    char *text;
    FAILS(rf_tokenizer_decode(t, (const int32_t[]){ 0, 2 }, 2, &text, NULL), RF_ERROR_INVALID_ARGUMENT,
          "number 1 is 2, no token of 0 to 1");
    FAILS(rf_tokenizer_decode(t, (const int32_t[]){ -1 }, 1, &text, NULL), RF_ERROR_INVALID_ARGUMENT, "number 0 is -1");
    assert_null(text);
    assert_null(rf_tokenizer_token(t, 2, NULL));
    assert_false(rf_tokenizer_is_special(t, -1));
    rf_tokenizer_destroy(&t);
}

TESTS(tokenizers, NULL, NULL)
