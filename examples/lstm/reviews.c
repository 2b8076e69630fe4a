/* SPDX-License-Identifier: Apache-2.0 */
#include "reviews.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- made ---- */

static const char *const things[] = { "the cast",   "the music",   "the plot",     "the script",  "the ending",
                                      "the camera", "the editing", "the dialogue", "the pace",    "the light",
                                      "the sound",  "the story",   "the hero",     "the villain", "the opening" };
static const char *const good[] = { "good",   "great",     "brilliant", "charming", "clever",  "moving",
                                    "superb", "wonderful", "inspired",  "gripping", "elegant", "funny" };
static const char *const bad[] = { "bad",      "awful",  "boring", "clumsy",   "dull",       "lazy",
                                   "terrible", "stupid", "flat",   "tiresome", "mechanical", "shallow" };
static const char *const asides[] = { "we saw it on a rainy evening",   "my neighbour had the tickets",
                                      "it runs for two hours",          "there were nine people in the room",
                                      "the director is from the north", "they sell tea in the break",
                                      "it was made in a year",          "i had read the book before",
                                      "the cinema has a new screen",    "it is the third of a series" };

#define COUNT(list) (sizeof(list) / sizeof((list)[0]))

/* Draws for one review after the other. */
typedef struct writer {
    rf_random_key key;
    uint64_t draw;
    char *text;
    size_t length;
} writer;

static uint64_t draw(writer *w, uint64_t bound)
{
    return rf_random_key_below(w->key, w->draw++, bound);
}

static void add(writer *w, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void add(writer *w, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    const int written = vsnprintf(w->text + w->length, REVIEW_SIZE - w->length, format, arguments);
    va_end(arguments);
    w->length += (size_t)written < REVIEW_SIZE - w->length ? (size_t)written : REVIEW_SIZE - w->length - 1;
}

/* "the plot was never dull": a verdict, said straight or by what it is not. */
static void add_clause(writer *w, bool positive)
{
    static const char *const verbs[] = { "was", "is", "seemed" };
    static const char *const negations[] = { "not", "never", "hardly", "by no means" };
    const bool negated = draw(w, 3) == 0;
    const uint64_t word = draw(w, COUNT(good));
    add(w, "%s %s ", things[draw(w, COUNT(things))], verbs[draw(w, COUNT(verbs))]);
    if (negated) add(w, "%s ", negations[draw(w, COUNT(negations))]);
    add(w, "%s", positive != negated ? good[word] : bad[word]);
}

static void add_verdict(writer *w, bool positive)
{
    switch (draw(w, 5)) {
    case 0: add_clause(w, positive); break;
    case 1:
        add_clause(w, positive);
        add(w, " and ");
        add_clause(w, positive);
        break;
    case 2:
        add_clause(w, !positive);
        add(w, ", but ");
        add_clause(w, positive);
        break;
    case 3:
        add(w, "although ");
        add_clause(w, !positive);
        add(w, ", ");
        add_clause(w, positive);
        break;
    default:
        add_clause(w, positive);
        add(w, ", although ");
        add_clause(w, !positive);
        break;
    }
}

int32_t reviews_make(uint64_t seed, uint64_t index, bool for_training, char text[REVIEW_SIZE])
{
    writer w = { .key = { .seed = seed, .epoch = for_training, .index = index }, .text = text };
    const bool positive = draw(&w, 2) == 1;
    if (draw(&w, 2) == 0) add(&w, "%s. ", asides[draw(&w, COUNT(asides))]);
    add_verdict(&w, positive);
    add(&w, ".");
    if (draw(&w, 2) == 0) add(&w, " %s.", asides[draw(&w, COUNT(asides))]);
    return positive;
}

static int report_memory(uint64_t count)
{
    fprintf(stderr, "%s: no memory for %llu texts\n", program_invocation_short_name, (unsigned long long)count);
    return -1;
}

static int allocate(reviews *r, uint64_t count)
{
    *r = (reviews){ .texts = calloc(count, sizeof(*r->texts)), .labels = calloc(count, sizeof(*r->labels)) };
    if (r->texts && r->labels) return 0;
    reviews_free(r);
    return report_memory(count);
}

int reviews_make_all(uint64_t seed, uint32_t count, bool for_training, reviews *out)
{
    if (allocate(out, count) < 0) return -1;
    out->made = malloc((size_t)count * REVIEW_SIZE);
    if (!out->made) {
        reviews_free(out);
        return report_memory(count);
    }
    for (uint32_t i = 0; i < count; i++) {
        char *text = out->made + (size_t)i * REVIEW_SIZE;
        out->labels[i] = reviews_make(seed, i, for_training, text);
        out->texts[i] = text;
    }
    out->count = count;
    return 0;
}

/* ---- read ---- */

static const char *take_line(const char *line, size_t size, reviews *out)
{
    if (size == 0) return NULL;
    if (memchr(line, '\0', size)) return "a zero byte";
    if (size < 2 || (line[0] != '0' && line[0] != '1') || line[1] != '\t') return "no class";
    if (size == 2) return "no text";
    out->labels[out->count] = line[0] - '0';
    out->texts[out->count++] = line + 2;
    return NULL;
}

const char *reviews_take(rf_text_lines *lines, reviews *out, uint64_t *line)
{
    const uint64_t count = rf_text_lines_count(lines);
    const char *problem = NULL;
    *out = (reviews){ .lines = lines };
    *line = 0;
    if (count < UINT32_MAX) {
        out->texts = calloc(count + 1, sizeof(*out->texts));
        out->labels = calloc(count + 1, sizeof(*out->labels));
    }
    if (!out->texts || !out->labels) problem = "too many texts for the memory";
    for (uint64_t i = 0; !problem && i < count; i++) {
        problem = take_line(rf_text_lines_texts(lines)[i], rf_text_lines_sizes(lines)[i], out);
        if (problem) *line = i + 1;
    }
    if (!problem && out->count < 2) problem = "there must be a text to train on and one to test on";
    if (problem) reviews_free(out);
    return problem;
}

int reviews_read(const char *path, reviews *out)
{
    rf_text_lines *lines;
    uint64_t line;
    *out = (reviews){ 0 };
    if (rf_text_lines_read(&path, 1, &lines) < 0) {
        fprintf(stderr, "%s: %s\n", program_invocation_short_name, rf_error_message());
        return -1;
    }
    const char *problem = reviews_take(lines, out, &line);
    if (!problem) return 0;
    fprintf(stderr, "%s: %s", program_invocation_short_name, path);
    if (line > 0) fprintf(stderr, ", line %llu", (unsigned long long)line);
    fprintf(stderr, line > 0 ? ": %s; a line is 0 or 1, a tab and a text\n" : ": %s\n", problem);
    return -1;
}

int reviews_split(reviews *all, uint32_t count, reviews *tail)
{
    if (allocate(tail, count) < 0) return -1;
    all->count -= count;
    tail->count = count;
    memcpy(tail->texts, all->texts + all->count, count * sizeof(*tail->texts)); /* which belong to `all` */
    memcpy(tail->labels, all->labels + all->count, count * sizeof(*tail->labels));
    return 0;
}

void reviews_free(reviews *r)
{
    free(r->texts);
    free(r->labels);
    free(r->made);
    rf_text_lines_destroy(&r->lines);
    *r = (reviews){ 0 };
}

/* ---- as numbers ---- */

rf_result reviews_encode(const rf_tokenizer *tokenizer, const char *const *texts, const size_t *sizes, uint32_t count,
                         uint32_t length, rf_array *out)
{
    const rf_sequence_pad_params pad = { .length = length,
                                         .padding = RF_SEQUENCE_POST,
                                         .truncating = RF_SEQUENCE_POST };
    return rf_tokenizer_encode_padded(tokenizer, texts, sizes, count, &pad, out);
}

rf_result reviews_dataset(const reviews *r, const rf_tokenizer *tokenizer, uint32_t length, rf_dataset **out)
{
    rf_array arrays[2] = { { 0 }, { RF_F32, RF_SHAPE(r->count, 1), malloc(r->count * sizeof(float)) } };
    rf_result result = arrays[1].data ? RF_OK : RF_ERROR_OUT_OF_HOST_MEMORY;
    for (uint32_t i = 0; result >= 0 && i < r->count; i++) ((float *)arrays[1].data)[i] = (float)r->labels[i];
    if (result >= 0) result = reviews_encode(tokenizer, r->texts, NULL, r->count, length, &arrays[0]);
    if (result >= 0)
        result = rf_dataset_from_arrays(&(rf_dataset_arrays_params){ .arrays = arrays, .num_arrays = 2 }, out);
    rf_array_free(&arrays[0]);
    free(arrays[1].data);
    return result;
}
