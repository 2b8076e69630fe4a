/* SPDX-License-Identifier: Apache-2.0 */
/* Learning merges: examples worked out by hand, a slow way of counting, and the project's own documentation. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../support/clock.h"
#include "../support/noise.h"
#include "base/memory.h"
#include "tests/room.h"
#include "text/merges.h"
#include "text/tokenizer.h"
#include "tokens.h"

typedef struct counted_word {
    const char *word;
    uint32_t count;
} counted_word;

static rf_tokenizer *train_counted(const rf_tokenizer_params *params, const counted_word *words, uint32_t num_words)
{
    static const char *texts[256];
    uint32_t count = 0;
    for (uint32_t i = 0; i < num_words; i++)
        for (uint32_t k = 0; k < words[i].count; k++) texts[count++] = words[i].word;
    return train_on(params, texts, count);
}

static void check_tokens(const rf_tokenizer *t, uint32_t first, const char *const *wanted, uint32_t count)
{
    assert_int_equal(rf_tokenizer_vocabulary_size(t), first + count);
    for (uint32_t i = 0; i < count; i++)
        assert_string_equal(rf_tokenizer_token(t, (int32_t)(first + i), NULL), wanted[i]);
}

/* The dictionary of Sennrich, Haddow, Birch 2016 (without their mark for the end of a word). */
TEST(test_byte_pairs)
{
    static const counted_word words[] = { { "low", 5 }, { "lower", 2 }, { "newest", 6 }, { "widest", 3 } };
    static const char *const merged[] = { "es",   "est",   "lo",     "low", "ew",    "new",          "newest",
                                          "dest", "idest", "widest", "er",  "lower", "<|endoftext|>" };
    static const char *const special[] = { "<|endoftext|>" };
    rf_tokenizer_params p = { .kind = RF_TOKENIZER_BYTE_PAIR, .special_tokens = special, .num_special_tokens = 1 };
    rf_tokenizer *t = train_counted(&p, words, 4);
    check_tokens(t, 256, merged, 13);
    assert_true(rf_tokenizer_is_special(t, 268));
    /* "lowest" is none of the words; "slow" begins with a letter that no merge has. */
    pieces(t, "lowest", "low|est|");
    pieces(t, "slow", "s|low|");
    pieces(t, "<|endoftext|>", "<|||e|n|d|o|f|t|e|x|t|||>|");
    rf_tokenizer_destroy(&t);
    p.max_tokens = 256 + 1 + 3;
    t = train_counted(&p, words, 4);
    check_tokens(t, 256, (const char *const[]){ "es", "est", "lo", "<|endoftext|>" }, 4);
    rf_tokenizer_destroy(&t);
    p.max_tokens = 0;
    p.min_count = 7;
    t = train_counted(&p, words, 4);
    check_tokens(t, 256, (const char *const[]){ "es", "est", "lo", "low", "<|endoftext|>" }, 5);
    rf_tokenizer_destroy(&t);
}

TEST(test_ranks)
{
    /* (a, a) is first, of three letters for the left two. */
    static const counted_word words[] = { { "aaaa", 4 }, { "aab", 3 } };
    rf_tokenizer *t = train_counted(&((rf_tokenizer_params){ .kind = RF_TOKENIZER_BYTE_PAIR }), words, 2);
    check_tokens(t, 256, (const char *const[]){ "aa", "aaaa", "aab" }, 3);
    pieces(t, "aaa", "aa|a|");
    pieces(t, "aaaaaaa", "aaaa|aa|a|");
    pieces(t, "aaaab", "aaaa|b|"); /* "aaaa" was merged before "aab" */
    rf_tokenizer_destroy(&t);
}

TEST(test_word_pieces)
{
    static const counted_word words[] = { { "hug", 10 }, { "pug", 5 }, { "pun", 12 }, { "bun", 4 }, { "hugs", 5 } };
    static const char *const learned[] = { "##g",  "##n",  "##s", "##u", "b",   "h",    "p",
                                           "##ug", "##un", "hug", "pun", "pug", "hugs", "bun" };
    rf_tokenizer_params p = { .kind = RF_TOKENIZER_WORD_PIECE };
    rf_tokenizer *t = train_counted(&p, words, 5);
    check_tokens(t, 5, learned, 14);
    pieces(t, "hugs bugs pugs x sun", "hugs|b|##ug|##s|pug|##s|[UNK]|[UNK]|");
    rf_tokenizer_destroy(&t);
    /* Room for five characters: the most frequent ones. */
    p.max_tokens = 10;
    t = train_counted(&p, words, 5);
    check_tokens(t, 5, (const char *const[]){ "##g", "##n", "##u", "h", "p" }, 5);
    rf_tokenizer_destroy(&t);
}

/* ---- counted anew before each merge ---- */

enum { MAX_WORDS = 40, MAX_LENGTH = 30, MAX_SYMBOLS = 64, LETTERS = 4 };

typedef struct naive_words {
    uint32_t symbols[MAX_WORDS][MAX_LENGTH], length[MAX_WORDS], weight[MAX_WORDS], count;
} naive_words;

static uint64_t merge_naively(naive_words *n, uint32_t symbol)
{
    static uint64_t counts[MAX_SYMBOLS][MAX_SYMBOLS];
    uint64_t best = 0;
    uint32_t left = 0, right = 0;
    memset(counts, 0, sizeof(counts));
    for (uint32_t w = 0; w < n->count; w++)
        for (uint32_t i = 0; i + 1 < n->length[w]; i++) counts[n->symbols[w][i]][n->symbols[w][i + 1]] += n->weight[w];
    for (uint32_t a = 0; a < MAX_SYMBOLS; a++)
        for (uint32_t b = 0; b < MAX_SYMBOLS; b++)
            if (counts[a][b] > best) {
                best = counts[a][b];
                left = a;
                right = b;
            }
    for (uint32_t w = 0; w < n->count && best > 0; w++) {
        uint32_t kept = 0;
        for (uint32_t i = 0; i < n->length[w]; i++) {
            const uint32_t *s = &n->symbols[w][i];
            const bool both = i + 1 < n->length[w] && s[0] == left && s[1] == right;
            n->symbols[w][kept++] = both ? symbol : s[0];
            i += both;
        }
        n->length[w] = kept;
    }
    return best > 0 ? rf_pair_key(left, right) : UINT64_MAX;
}

typedef struct merge_record {
    uint64_t pairs[MAX_SYMBOLS];
    uint32_t count;
} merge_record;

static rf_result record_merge(void *user, uint32_t left, uint32_t right, uint32_t symbol, bool *taken)
{
    merge_record *record = user;
    assert_int_equal(symbol, LETTERS + record->count);
    record->pairs[record->count++] = rf_pair_key(left, right);
    *taken = true;
    return RF_OK;
}

static void compare_ways(uint32_t seed)
{
    static naive_words n;
    rf_symbol_words words = { 0 };
    merge_record record = { 0 };
    uint32_t noise = seed * 2654435761u;
    n.count = mix(&noise) % MAX_WORDS;
    words.symbols = RF_NEW_ARRAY(uint32_t, MAX_WORDS * MAX_LENGTH);
    words.starts = RF_NEW_ARRAY(uint32_t, MAX_WORDS + 1);
    words.weights = RF_NEW_ARRAY(uint64_t, MAX_WORDS);
    words.count = n.count;
    const uint32_t letters = mix(&noise) % LETTERS + 1;
    for (uint32_t w = 0; w < n.count; w++) {
        n.length[w] = mix(&noise) % (MAX_LENGTH + 1);
        words.weights[w] = n.weight[w] = mix(&noise) % 5 + 1;
        for (uint32_t i = 0; i < n.length[w]; i++)
            words.symbols[words.starts[w] + i] = n.symbols[w][i] = mix(&noise) % letters;
        words.starts[w + 1] = words.starts[w] + n.length[w];
    }
    const rf_merge_params params = {
        .num_symbols = LETTERS, .max_symbols = MAX_SYMBOLS, .min_count = 1, .merge = record_merge, .user = &record
    };
    OK(rf_learn_merges(&words, &params));
    rf_symbol_words_free(&words);
    for (uint32_t i = 0; i < record.count; i++) {
        const uint64_t naive = merge_naively(&n, LETTERS + i);
        if (naive != record.pairs[i])
            fail_msg("seed %u, merge %u: %llx, counted anew %llx", seed, i, (unsigned long long)record.pairs[i],
                     (unsigned long long)naive);
    }
    if (record.count < MAX_SYMBOLS - LETTERS) assert_true(merge_naively(&n, 0) == UINT64_MAX);
}

TEST(test_counted_anew)
{
    for (uint32_t seed = 0; seed < 300; seed++) compare_ways(seed);
}

/* ---- real text ---- */

#define GUIDE(name) SOURCE_ROOT "/docs/guides/" name ".md"
static const char *const documents[] = {
    SOURCE_ROOT "/README.md", SOURCE_ROOT "/docs/internals/tests.md",
    GUIDE("balance"),         GUIDE("custom"),
    GUIDE("failures"),        GUIDE("memory"),
    GUIDE("observing"),       GUIDE("parameter-servers"),
    GUIDE("performance"),     GUIDE("saving"),
    GUIDE("security"),
};

TEST(test_documentation)
{
    rf_text_lines *lines;
    OK(rf_text_lines_read(documents, sizeof(documents) / sizeof(documents[0]), &lines));
    const uint64_t count = rf_text_lines_count(lines);
    const char *const *texts = rf_text_lines_texts(lines);
    const size_t *sizes = rf_text_lines_sizes(lines);
    for (rf_tokenizer_kind kind = RF_TOKENIZER_CHARACTERS; kind <= RF_TOKENIZER_BYTE_PAIR; kind++) {
        const rf_tokenizer_params params = { .kind = kind, .max_tokens = 1500 };
        rf_tokenizer *t, *again;
        char *one, *other;
        const double begin = seconds_now();
        OK(rf_tokenizer_train(&params, texts, sizes, count, &t));
        OK(rf_tokenizer_train(&params, texts, sizes, count, &again));
        OK(rf_tokenizer_text(t, &one));
        OK(rf_tokenizer_text(again, &other));
        assert_string_equal(one, other);
        rf_free(one);
        rf_free(other);
        if (kind != RF_TOKENIZER_CHARACTERS) assert_int_equal(rf_tokenizer_vocabulary_size(t), 1500);
        uint64_t bytes = 0, tokens = 0;
        for (uint64_t i = 0; i < count; i++) {
            rf_array array;
            OK(rf_tokenizer_encode(t, texts[i], sizes[i], &array));
            bytes += sizes[i];
            tokens += (uint64_t)array.shape.dim[0];
            rf_array_free(&array);
            if (kind == RF_TOKENIZER_CHARACTERS || kind == RF_TOKENIZER_BYTE_PAIR) round_trip(t, texts[i], sizes[i]);
        }
        print_message("kind %d: %.2f bytes for a token, %.2f s\n", (int)kind, (double)bytes / (double)tokens,
                      seconds_now() - begin);
        if (kind == RF_TOKENIZER_BYTE_PAIR) assert_true(bytes > 3 * tokens);
        if (kind == RF_TOKENIZER_WORD_PIECE) assert_true(bytes > 3 * tokens);
        rf_tokenizer_destroy(&t);
        rf_tokenizer_destroy(&again);
    }
    rf_text_lines_destroy(&lines);
}

TESTS(merges, NULL, NULL)
