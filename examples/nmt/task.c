/* SPDX-License-Identifier: Apache-2.0 */
#include "task.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../common/common.h"
#include "dates.h"
#include "model.h"

enum { MOST_WORDS = 12 };

static int out_of_memory(const task *t)
{
    fprintf(stderr, "%s: %s: %s\n", program_invocation_short_name, t->name, strerror(ENOMEM));
    return -1;
}

int task_create_dates(uint64_t seed, uint64_t limit, uint32_t most_tests, task *out)
{
    *out = (task){ .name = "dates",
                   .source_vocabulary = dates_source_vocabulary,
                   .target_vocabulary = dates_target_vocabulary,
                   .source_length = DATES_SOURCE_LENGTH,
                   .target_length = DATES_TARGET_LENGTH,
                   .start = DATES_START,
                   .end = DATES_END,
                   .num_train = limit,
                   .num_tests = limit < most_tests ? (uint32_t)limit : most_tests,
                   .seed = seed };
    return 0;
}

/* ---- messages ---- */

/* The word pieces of one side. */
static int learn_pieces(const messages *m, bool of_translations, uint32_t vocabulary, rf_tokenizer **out)
{
    static const char *const ends[] = { "[START]", "[END]" };
    const rf_tokenizer_params params = { .kind = RF_TOKENIZER_WORD_PIECE,
                                         .max_tokens = vocabulary,
                                         .keep_case = true,
                                         .special_tokens = ends,
                                         .num_special_tokens = 2 };
    const char **texts = malloc(m->count * sizeof(*texts));
    rf_result r = texts ? RF_OK : RF_ERROR_OUT_OF_HOST_MEMORY;
    for (uint32_t i = 0; r >= 0 && i < m->count; i++)
        texts[i] = of_translations ? m->items[i].translation : m->items[i].source;
    if (r >= 0) r = rf_tokenizer_train(&params, texts, NULL, m->count, out);
    free(texts);
    TRY(r);
    return 0;
}

/* Tokens of a text, filled up with padding; their number, 0 where there are none or more than `most`. */
static uint32_t encode(const rf_tokenizer *pieces, const char *text, uint32_t most, uint32_t length, int32_t *tokens)
{
    rf_array array;
    if (rf_tokenizer_encode(pieces, text, strlen(text), &array) < 0) return 0;
    const uint32_t count = array.shape.dim[0] <= most ? (uint32_t)array.shape.dim[0] : 0;
    for (uint32_t i = 0; i < length; i++) tokens[i] = NMT_PADDING;
    memcpy(tokens, array.data, count * sizeof(tokens[0]));
    rf_array_free(&array);
    return count;
}

/* Keeps the messages whose tokens fit. */
static int encode_messages(task *t)
{
    messages *m = &t->messages;
    const size_t row = TASK_MAX_LENGTH * sizeof(int32_t);
    uint32_t kept = 0;
    t->sources = malloc(m->count * row);
    t->targets = malloc(m->count * row);
    if (!t->sources || !t->targets) return out_of_memory(t);
    for (uint32_t i = 0; i < m->count; i++) {
        if (!task_encode_source(t, m->items[i].source, t->sources + (size_t)kept * t->source_length) ||
            task_encode_target(t, m->items[i].translation, t->targets + (size_t)kept * t->target_length) == 0)
            continue;
        m->items[kept++] = m->items[i];
    }
    m->count = kept;
    return 0;
}

static int make_messages(task *t, uint32_t vocabulary, uint64_t limit, uint32_t most_tests)
{
    if (learn_pieces(&t->messages, false, vocabulary, &t->source_pieces) < 0 ||
        learn_pieces(&t->messages, true, vocabulary, &t->target_pieces) < 0 || encode_messages(t) < 0)
        return -1;
    const uint32_t tenth = t->messages.count / 10;
    t->num_tests = tenth < most_tests ? tenth : most_tests;
    t->num_train = t->messages.count - t->num_tests;
    if (limit && limit < t->num_train) t->num_train = limit;
    if (t->num_train < t->num_tests) t->num_tests = (uint32_t)t->num_train;
    t->source_vocabulary = rf_tokenizer_vocabulary_size(t->source_pieces);
    t->target_vocabulary = rf_tokenizer_vocabulary_size(t->target_pieces);
    t->start = rf_tokenizer_id(t->target_pieces, "[START]");
    t->end = rf_tokenizer_id(t->target_pieces, "[END]");
    return 0;
}

int task_create_messages(const char *locales, const char *language, uint32_t vocabulary, uint64_t limit,
                         uint32_t most_tests, bool quiet, task *out)
{
    *out = (task){ .source_length = TASK_MAX_LENGTH, .target_length = TASK_MAX_LENGTH };
    if (messages_read(locales, language, MOST_WORDS, quiet, &out->messages) < 0) return -1;
    int result = 0;
    if (out->messages.count >= TASK_LEAST_MESSAGES) {
        out->name = "messages";
        result = make_messages(out, vocabulary, limit, most_tests);
    }
    if (result < 0 || !out->name) task_free(out);
    return result;
}

void task_free(task *t)
{
    rf_tokenizer_destroy(&t->source_pieces);
    rf_tokenizer_destroy(&t->target_pieces);
    free(t->sources);
    free(t->targets);
    messages_free(&t->messages);
    *t = (task){ 0 };
}

/* Fills in what the network reads of a translation, and what it is to say. */
static void fill_targets(const task *t, int32_t *targets, int32_t *following)
{
    for (uint64_t i = 0; i < t->num_train; i++, targets += t->target_length, following += t->target_length) {
        const int32_t *tokens = t->targets + i * t->target_length;
        const uint32_t count = task_length(t, tokens);
        memcpy(following, tokens, t->target_length * sizeof(tokens[0]));
        following[count] = t->end;
        targets[0] = t->start;
        memcpy(targets + 1, tokens, (t->target_length - 1) * sizeof(tokens[0]));
    }
}

int task_dataset(const task *t, rf_dataset **out)
{
    if (t->messages.count == 0) return dates_dataset(t->seed, t->num_train, true, out);
    const int64_t n = (int64_t)t->num_train, length = t->target_length;
    int32_t *targets = malloc((size_t)(n * length) * sizeof(*targets));
    int32_t *following = malloc((size_t)(n * length) * sizeof(*following));
    const rf_array arrays[] = { { RF_I32, RF_SHAPE(n, t->source_length), t->sources },
                                { RF_I32, RF_SHAPE(n, length), targets },
                                { RF_I32, RF_SHAPE(n, length), following } };
    const bool ok = targets && following;
    if (ok) fill_targets(t, targets, following);
    const rf_result r =
        ok ? rf_dataset_from_arrays(&(rf_dataset_arrays_params){ .arrays = arrays, .num_arrays = 3 }, out) : RF_OK;
    free(targets);
    free(following);
    TRY(r);
    return ok ? 0 : out_of_memory(t);
}

void task_test(const task *t, uint32_t index, char source[TASK_MAX_TEXT], char target[TASK_MAX_TEXT])
{
    if (t->messages.count == 0) {
        const date_pair pair = dates_make(t->seed, index, false);
        snprintf(source, TASK_MAX_TEXT, "%s", pair.source);
        snprintf(target, TASK_MAX_TEXT, "%s", pair.target);
        return;
    }
    const message *m = &t->messages.items[t->messages.count - t->num_tests + index];
    snprintf(source, TASK_MAX_TEXT, "%s", m->source);
    snprintf(target, TASK_MAX_TEXT, "%s", m->translation);
}

/* ---- texts and tokens ---- */

bool task_encode_source(const task *t, const char *text, int32_t *tokens)
{
    if (!t->source_pieces) return dates_encode_source(text, tokens);
    return strlen(text) < TASK_MAX_TEXT &&
           encode(t->source_pieces, text, t->source_length, t->source_length, tokens) > 0;
}

uint32_t task_encode_target(const task *t, const char *text, int32_t *tokens)
{
    if (!t->target_pieces) return dates_encode_target(text, tokens);
    return strlen(text) < TASK_MAX_TEXT ? encode(t->target_pieces, text, t->target_length - 1, t->target_length, tokens)
                                        : 0;
}

uint32_t task_length(const task *t, const int32_t *tokens)
{
    uint32_t count = 0;
    while (count < t->target_length && tokens[count] != t->end && tokens[count] != NMT_PADDING) count++;
    return count;
}

int task_decode_target(const task *t, const int32_t *tokens, char text[TASK_MAX_TEXT])
{
    if (!t->target_pieces) {
        dates_decode_target(tokens, t->target_length, text);
        return 0;
    }
    char *decoded;
    TRY(rf_tokenizer_decode(t->target_pieces, tokens, task_length(t, tokens), &decoded, NULL));
    snprintf(text, TASK_MAX_TEXT, "%s", decoded);
    rf_string_free(decoded);
    return 0;
}
