/* SPDX-License-Identifier: Apache-2.0 */
/* Tokenizers in files: what is loaded encodes as what was saved, and no damaged file is loaded. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../support/folder.h"
#include "base/memory.h"
#include "tests/room.h"
#include "text/tokenizer.h"
#include "tokens.h"

static char directory[SCRATCH_PATH];
static char path[SCRATCH_PATH + 32];

static const char sample[] = "The newest lowest lower \xc3\xbc"
                             "ber-lower, and the newest; \xff 1234 lower!";

static rf_tokenizer *train_kind(rf_tokenizer_kind kind)
{
    static const char *const special[] = { "[START]", "<|\xe2\x82\xac|>" };
    return TRAIN(&((rf_tokenizer_params){ .kind = kind,
                                          .keep_case = kind == RF_TOKENIZER_WORDS,
                                          .special_tokens = special,
                                          .num_special_tokens = 2 }),
                 sample, sample);
}

static void check_same(const rf_tokenizer *a, const rf_tokenizer *b)
{
    rf_array one, two;
    const uint32_t size = rf_tokenizer_vocabulary_size(a);
    assert_int_equal(rf_tokenizer_get_kind(a), rf_tokenizer_get_kind(b));
    assert_int_equal(size, rf_tokenizer_vocabulary_size(b));
    for (int32_t i = 0; i < (int32_t)size; i++) {
        size_t bytes, other;
        const char *token = rf_tokenizer_token(a, i, &bytes);
        assert_memory_equal(token, rf_tokenizer_token(b, i, &other), bytes + 1);
        assert_int_equal(bytes, other);
        assert_int_equal(rf_tokenizer_is_special(a, i), rf_tokenizer_is_special(b, i));
    }
    OK(rf_tokenizer_encode(a, sample, strlen(sample), &one));
    OK(rf_tokenizer_encode(b, sample, strlen(sample), &two));
    assert_true(rf_shape_equal(one.shape, two.shape));
    assert_memory_equal(one.data, two.data, (size_t)one.shape.dim[0] * sizeof(int32_t));
    rf_array_free(&one);
    rf_array_free(&two);
}

TEST(test_save_and_load)
{
    for (rf_tokenizer_kind kind = RF_TOKENIZER_CHARACTERS; kind <= RF_TOKENIZER_BYTE_PAIR; kind++) {
        rf_tokenizer *t = train_kind(kind), *loaded;
        OK(rf_tokenizer_save(t, path));
        OK(rf_tokenizer_load(path, &loaded));
        check_same(t, loaded);
        rf_tokenizer_destroy(&t);
        rf_tokenizer_destroy(&loaded);
    }
}

/* Cut at any place, or with any byte changed, it is refused; what changes nothing but white space and order is not a
 * change. */
TEST(test_damage)
{
    for (rf_tokenizer_kind kind = RF_TOKENIZER_CHARACTERS; kind <= RF_TOKENIZER_BYTE_PAIR; kind++) {
        rf_tokenizer *t = train_kind(kind), *loaded;
        char *text;
        OK(rf_tokenizer_text(t, &text));
        const size_t size = strlen(text);
        for (size_t cut = 0; cut < size; cut++)
            if (rf_tokenizer_parse(text, cut, true, &loaded) != RF_ERROR_CORRUPT_DATA) fail_msg("cut at %zu", cut);
        for (size_t at = 0; at < size; at++) {
            const char was = text[at];
            for (int bit = 0; bit < 8; bit++) {
                text[at] = (char)(was ^ 1 << bit);
                const rf_result r = rf_tokenizer_parse(text, size, true, &loaded);
                if (r != RF_ERROR_CORRUPT_DATA && r != RF_ERROR_UNSUPPORTED)
                    fail_msg("byte %zu, bit %d: %s", at, bit, rf_result_name(r));
                if (!rf_error_message()[0] || strchr(rf_error_message(), '\n')) fail_msg("'%s'", rf_error_message());
                assert_null(loaded);
            }
            text[at] = was;
        }
        OK(rf_tokenizer_parse(text, size, true, &loaded));
        rf_tokenizer_destroy(&loaded);
        rf_free(text);
        rf_tokenizer_destroy(&t);
    }
}

static void write_text(const char *text)
{
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fputs(text, f) < 0, 0);
    assert_int_equal(fclose(f), 0);
}

TEST(test_messages)
{
    rf_tokenizer *t;
    char name[64];
    snprintf(name, sizeof(name), "%s/none", directory);
    FAILS(rf_tokenizer_load(name, &t), RF_ERROR_NOT_FOUND, "none");
    write_text("{\"format\": \"ringfire tokenizer\",");
    FAILS(rf_tokenizer_load(path, &t), RF_ERROR_CORRUPT_DATA, path);
    write_text("[]");
    FAILS(rf_tokenizer_load(path, &t), RF_ERROR_CORRUPT_DATA, "is no file of a tokenizer");
    write_text("{\"format\": \"ringfire tokenizer\", \"version\": 2}");
    FAILS(rf_tokenizer_load(path, &t), RF_ERROR_UNSUPPORTED, "version 2");
    t = train_kind(RF_TOKENIZER_WORDS);
    snprintf(name, sizeof(name), "%s/none/file", directory);
    assert_true(rf_tokenizer_save(t, name) < 0);
    rf_tokenizer_destroy(&t);
}

/* Without the checksum, to reach what it protects. */
static void refuses(const char *rest, const char *part)
{
    char text[1024];
    rf_tokenizer *t;
    snprintf(text, sizeof(text),
             "{\"format\":\"ringfire tokenizer\",\"version\":1,\"keep_case\":false,\"keep_punctuation\":false,%s}",
             rest);
    FAILS(rf_tokenizer_parse(text, strlen(text), false, &t), RF_ERROR_CORRUPT_DATA, part);
    assert_null(t);
}

TEST(test_contents)
{
    refuses("\"kind\":\"letters\"", "'kind'");
    refuses("\"kind\":\"characters\",\"tokens\":[]", "'special_tokens'");
    refuses("\"kind\":\"characters\",\"special_tokens\":[]", "'tokens'");
    refuses("\"kind\":\"characters\",\"special_tokens\":[\"\"],\"tokens\":[]", "'special_tokens'");
    refuses("\"kind\":\"characters\",\"special_tokens\":[\"[X]\"],\"tokens\":[]", "lacks the special token '[X]'");
    refuses("\"kind\":\"characters\",\"special_tokens\":[],\"tokens\":[\"a\",\"bc\"]", "token 1 is more");
    refuses("\"kind\":\"characters\",\"special_tokens\":[],\"tokens\":[\"a\",[97]]", "token 1 has the same text");
    refuses("\"kind\":\"characters\",\"special_tokens\":[],\"tokens\":[[256]]", "'tokens'");
    refuses("\"kind\":\"characters\",\"special_tokens\":[],\"tokens\":[7]", "'tokens'");
    refuses("\"kind\":\"words\",\"special_tokens\":[],\"tokens\":[\"\"]", "lacks the special token '[UNK]'");
    refuses("\"kind\":\"byte_pair\",\"special_tokens\":[],\"merges\":[[97,256]]", "'merges'");
    refuses("\"kind\":\"byte_pair\",\"special_tokens\":[],\"merges\":[[97]]", "'merges'");
    refuses("\"kind\":\"byte_pair\",\"special_tokens\":[],\"merges\":[[97,-1]]", "'merges'");
    refuses("\"kind\":\"byte_pair\",\"special_tokens\":[],\"merges\":[[97,98],[97,98]]", "different tokens");
    refuses("\"kind\":\"byte_pair\",\"special_tokens\":[\"ab\"],\"merges\":[[97,98]]", "the same text");
    /* Eight merges that double make 256 bytes. */
    refuses("\"kind\":\"byte_pair\",\"special_tokens\":[],\"merges\":[[97,97],[256,256],[257,257],[258,258],[259,259],"
            "[260,260],[261,261],[262,262]]",
            "at most 128 bytes");
}

/* ---- threads ---- */

enum { NUM_THREADS = 4 };

typedef struct shared_tokenizer {
    const rf_tokenizer *tokenizer;
    rf_array tokens[NUM_THREADS];
    char *texts[NUM_THREADS];
    rf_result results[NUM_THREADS];
} shared_tokenizer;
typedef struct encoding_thread {
    shared_tokenizer *shared;
    uint32_t number;
    pthread_t thread;
} encoding_thread;

static void *encode_in_thread(void *user)
{
    const encoding_thread *e = user;
    shared_tokenizer *s = e->shared;
    rf_array *tokens = &s->tokens[e->number];
    rf_result *r = &s->results[e->number];
    for (uint32_t i = 0; i < 20; i++) {
        rf_array_free(tokens);
        rf_string_free(s->texts[e->number]);
        s->texts[e->number] = NULL;
        *r = rf_tokenizer_encode(s->tokenizer, sample, strlen(sample), tokens);
        if (*r == RF_OK)
            *r = rf_tokenizer_decode(s->tokenizer, tokens->data, (uint64_t)tokens->shape.dim[0], &s->texts[e->number],
                                     NULL);
        if (*r < 0) break;
    }
    return NULL;
}

/* Several threads use one tokenizer at the same time. */
TEST(test_threads)
{
    for (rf_tokenizer_kind kind = RF_TOKENIZER_CHARACTERS; kind <= RF_TOKENIZER_BYTE_PAIR; kind++) {
        rf_tokenizer *t = train_kind(kind);
        shared_tokenizer shared = { .tokenizer = t };
        encoding_thread threads[NUM_THREADS];
        for (uint32_t i = 0; i < NUM_THREADS; i++) {
            threads[i] = (encoding_thread){ .shared = &shared, .number = i };
            assert_int_equal(pthread_create(&threads[i].thread, NULL, encode_in_thread, &threads[i]), 0);
        }
        for (uint32_t i = 0; i < NUM_THREADS; i++) assert_int_equal(pthread_join(threads[i].thread, NULL), 0);
        for (uint32_t i = 0; i < NUM_THREADS; i++) {
            assert_int_equal(shared.results[i], RF_OK);
            assert_true(rf_shape_equal(shared.tokens[i].shape, shared.tokens[0].shape));
            assert_memory_equal(shared.tokens[i].data, shared.tokens[0].data,
                                (size_t)shared.tokens[0].shape.dim[0] * sizeof(int32_t));
            assert_string_equal(shared.texts[i], shared.texts[0]);
        }
        for (uint32_t i = 0; i < NUM_THREADS; i++) {
            rf_array_free(&shared.tokens[i]);
            rf_string_free(shared.texts[i]);
        }
        rf_tokenizer_destroy(&t);
    }
}

/* ---- program ---- */

static int make_directory(void **state)
{
    (void)state;
    snprintf(path, sizeof(path), "%s/tokenizer.json", scratch(directory));
    return 0;
}

static int remove_directory(void **state)
{
    (void)state;
    scratch_remove(directory);
    return 0;
}

TESTS(tokenizer_files, make_directory, remove_directory)
