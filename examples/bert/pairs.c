/* SPDX-License-Identifier: Apache-2.0 */
#include "pairs.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "../common/common.h"

static int no_room(void)
{
    fprintf(stderr, "%s: %s\n", program_invocation_short_name, strerror(ENOMEM));
    return -1;
}

/* ---- pairs ---- */

int pairs_begin(const corpus *c, const bert_config *config, bool held_out, pair_maker *out)
{
    *out = (pair_maker){ .corpus = c, .length = config->length, .predictions = config->predictions };
    out->starts = malloc(c->num_sentences * sizeof(*out->starts));
    if (!out->starts) return no_room();
    uint32_t sections = 0;
    for (uint32_t s = 0; s < c->num_sections; s++) {
        const corpus_section *section = &c->sections[s];
        if (section->held_out != held_out) continue;
        sections += section->count > 1;
        for (uint32_t i = 0; i + 1 < section->count; i++) out->starts[out->num_starts++] = section->first + i;
    }
    if (sections >= 2) return 0;
    fprintf(stderr, "%s: too little text: of the sections %s, fewer than two have several sentences\n",
            program_invocation_short_name, held_out ? "for tests" : "to train on");
    pairs_end(out);
    return -1;
}

void pairs_end(pair_maker *p)
{
    free(p->starts);
    *p = (pair_maker){ 0 };
}

/* Random numbers of one example, one after the other. */
typedef struct drawer {
    rf_random_key key;
    uint64_t draws;
} drawer;

static uint32_t draw_below(drawer *d, uint32_t bound)
{
    return (uint32_t)rf_random_key_below(d->key, d->draws++, bound);
}

/* The second segment begins where a sentence follows another one, whether it is the right one or not: where it begins
 * tells nothing. */
static uint32_t choose_other(const pair_maker *p, drawer *d, uint32_t start)
{
    uint32_t other;
    do other = p->starts[draw_below(d, p->num_starts)] + 1;
    while (p->corpus->section_of[other] == p->corpus->section_of[start]);
    return other;
}

static uint32_t section_end(const corpus *c, uint32_t sentence)
{
    const corpus_section *section = &c->sections[c->section_of[sentence]];
    return section->first + section->count;
}

/* [CLS] A [SEP] B [SEP] and padding. Returns how many tokens there are without the latter. */
static int32_t join_segments(const pair_maker *p, drawer *d, uint32_t start, int32_t *tokens, int32_t *segments,
                             int32_t *label)
{
    const corpus *c = p->corpus;
    const int32_t most = p->length - 3; /* without [CLS] and twice [SEP] */
    /* One example in ten is shorter, so that short texts are not new later on. */
    const int32_t room = draw_below(d, 10) == 0 ? 4 + (int32_t)draw_below(d, (uint32_t)(most - 3)) : most;
    const uint64_t goal = 1 + draw_below(d, (uint32_t)room - 1);
    const uint64_t *first = c->first_token;
    uint32_t second = start + 1; /* A ends before it */
    while (first[second] - first[start] < goal && second + 1 < section_end(c, start)) second++;
    /* The end of A is kept, which B may go on from. */
    const uint64_t half = (uint64_t)room / 2, all_a = first[second] - first[start];
    const uint64_t a = all_a < goal || all_a < half ? all_a : goal > half ? goal : half;
    const uint64_t a_end = first[second];
    *label = (int32_t)draw_below(d, 2);
    if (*label) second = choose_other(p, d, start);
    const uint64_t all_b = first[section_end(c, second)] - first[second];
    const uint64_t b = all_b < (uint64_t)room - a ? all_b : (uint64_t)room - a;
    const int32_t border = (int32_t)a + 2, end = border + (int32_t)b + 1;
    tokens[0] = c->cls;
    memcpy(tokens + 1, c->tokens + a_end - a, a * sizeof(*tokens));
    tokens[border - 1] = c->sep;
    memcpy(tokens + border, c->tokens + first[second], b * sizeof(*tokens));
    tokens[end - 1] = c->sep;
    for (int32_t i = end; i < p->length; i++) tokens[i] = BERT_PADDING;
    for (int32_t i = 0; i < p->length; i++) segments[i] = i >= border && i < end;
    return end;
}

static int32_t replace_word(const corpus *c, drawer *d, int32_t word)
{
    const uint32_t draw = draw_below(d, 10), words = rf_tokenizer_vocabulary_size(c->tokenizer) - (uint32_t)c->special;
    if (draw < 8) return c->mask;
    return draw == 8 ? c->special + (int32_t)draw_below(d, words) : word;
}

/* The chosen places are in order; those that an example has too few words for are 0 and have no weight. */
static void mask_words(const pair_maker *p, drawer *d, int32_t count, int32_t *tokens, rf_element *out)
{
    int32_t *positions = out->component[PAIR_POSITIONS].data, *words = out->component[PAIR_WORDS].data;
    float *weights = out->component[PAIR_WEIGHTS].data;
    int32_t wanted = (count * 15 + 50) / 100, left = 0, chosen = 0;
    wanted = wanted < 1 ? 1 : wanted > p->predictions ? p->predictions : wanted;
    for (int32_t i = 0; i < count; i++) left += tokens[i] != p->corpus->cls && tokens[i] != p->corpus->sep;
    for (int32_t i = 0; i < count && chosen < wanted; i++) {
        if (tokens[i] == p->corpus->cls || tokens[i] == p->corpus->sep) continue;
        if ((int32_t)draw_below(d, (uint32_t)left--) >= wanted - chosen) continue;
        positions[chosen] = i;
        words[chosen] = tokens[i];
        weights[chosen++] = 1;
        tokens[i] = replace_word(p->corpus, d, tokens[i]);
    }
    for (int32_t i = chosen; i < p->predictions; i++) {
        positions[i] = words[i] = 0;
        weights[i] = 0;
    }
}

rf_result pairs_make(const pair_maker *p, rf_random_key key, uint32_t start, rf_element *out)
{
    drawer d = { key, 0 };
    int32_t *tokens = out->component[PAIR_TOKENS].data;
    const int32_t count =
        join_segments(p, &d, start, tokens, out->component[PAIR_SEGMENTS].data, out->component[PAIR_LABEL].data);
    mask_words(p, &d, count, tokens, out);
    return RF_OK;
}

static rf_result map_start(void *user, rf_random_key key, const rf_element *in, rf_element *out)
{
    return pairs_make(user, key, *(const uint32_t *)in->component[0].data, out);
}

int pairs_dataset(pair_maker *p, uint64_t seed, bool shuffled, rf_dataset **out)
{
    const int64_t length = p->length, predictions = p->predictions;
    const rf_array starts = { RF_I32, RF_SHAPE(p->num_starts), p->starts };
    const rf_element_spec spec = { .num_components = PAIR_COMPONENTS,
                                   .dtype = { RF_I32, RF_I32, RF_I32, RF_I32, RF_F32, RF_I32 },
                                   .shape = { RF_SHAPE(length),
                                              RF_SHAPE(length),
                                              RF_SHAPE(predictions),
                                              RF_SHAPE(predictions),
                                              RF_SHAPE(predictions),
                                              { 0 } } };
    rf_dataset *data, *next;
    TRY(rf_dataset_from_arrays(&(rf_dataset_arrays_params){ .arrays = &starts, .num_arrays = 1 }, &data));
    rf_result r = rf_dataset_map_random(data, map_start, p, seed, &spec, &next);
    rf_dataset_destroy(&data);
    TRY(r);
    if (!shuffled) {
        *out = next;
        return 0;
    }
    r = rf_dataset_shuffle(next, p->num_starts, seed, RF_SHUFFLE_EACH_PASS, out);
    rf_dataset_destroy(&next);
    TRY(r);
    return 0;
}

/* ---- passages ---- */

/* From a sentence to the end of its section. */
static uint64_t count_tokens(const corpus *c, uint32_t sentence)
{
    return c->first_token[section_end(c, sentence)] - c->first_token[sentence];
}

static uint32_t class_of(const corpus *c, const passage_set *s, uint32_t sentence)
{
    uint32_t class = 0;
    while (class < s->num_classes && s->documents[class] != c->sections[c->section_of[sentence]].document) class ++;
    return class;
}

/* The documents that have the most passages for tests, and some to train on; the larger one first. */
static void choose_documents(const corpus *c, passage_set *s, const uint32_t *train, const uint32_t *test)
{
    for (uint32_t d = 0; d < c->num_documents; d++) {
        if (!train[d] || !test[d]) continue;
        uint32_t place = s->num_classes < MAX_CLASSES ? s->num_classes++ : MAX_CLASSES;
        for (; place > 0 && test[s->documents[place - 1]] < test[d]; place--)
            if (place < MAX_CLASSES) s->documents[place] = s->documents[place - 1];
        if (place < MAX_CLASSES) s->documents[place] = d;
    }
}

/* Takes from each class the first `labels` of its passages, in an order that is drawn. */
static void divide_passages(const corpus *c, uint32_t labels, uint64_t seed, passage_set *s)
{
    uint32_t taken[MAX_CLASSES] = { 0 }, tests[MAX_CLASSES] = { 0 };
    uint32_t *order = s->train; /* what is taken stands before what is not */
    for (uint32_t i = 0; i < c->num_sentences; i++) order[i] = i;
    for (uint32_t i = 0; i < c->num_sentences; i++) {
        const rf_random_key key = { .seed = seed, .index = i };
        const uint32_t other = i + (uint32_t)rf_random_key_below(key, 0, c->num_sentences - i), sentence = order[other];
        order[other] = order[i];
        const uint32_t class = class_of(c, s, sentence);
        if (class == s->num_classes || count_tokens(c, sentence) < LEAST_TOKENS) continue;
        if (c->sections[c->section_of[sentence]].held_out) {
            s->test[s->num_test++] = sentence;
            if (++tests[class] > s->largest) s->largest = tests[class];
        } else if (taken[class] < labels) {
            taken[class]++;
            s->train[s->num_train++] = sentence;
        }
    }
}

int passages_choose(const corpus *c, uint32_t labels, uint64_t seed, passage_set *out)
{
    *out = (passage_set){ 0 };
    uint32_t *counts = calloc(2 * (size_t)c->num_documents, sizeof(*counts));
    out->train = malloc(c->num_sentences * sizeof(*out->train));
    out->test = malloc(c->num_sentences * sizeof(*out->test));
    if (counts && out->train && out->test) {
        for (uint32_t i = 0; i < c->num_sentences; i++) {
            const corpus_section *section = &c->sections[c->section_of[i]];
            if (count_tokens(c, i) >= LEAST_TOKENS) counts[section->document + section->held_out * c->num_documents]++;
        }
        choose_documents(c, out, counts, counts + c->num_documents);
        divide_passages(c, labels, seed, out);
    }
    const bool ok = counts && out->train && out->test;
    free(counts);
    if (ok && out->num_classes >= 2) return 0;
    if (ok)
        fprintf(stderr,
                "%s: fewer than two documents have passages to train on and for tests: give more files, or leave out "
                "the fine-tuning with --task none\n",
                program_invocation_short_name);
    else
        (void)no_room();
    passages_free(out);
    return -1;
}

void passages_free(passage_set *s)
{
    free(s->train);
    free(s->test);
    *s = (passage_set){ 0 };
}

/* [CLS] passage [SEP] */
static void fill_passage(const corpus *c, uint32_t sentence, uint32_t length, int32_t *out)
{
    uint64_t count = count_tokens(c, sentence);
    if (count > length - 2) count = length - 2;
    for (uint32_t i = 0; i < length; i++) out[i] = BERT_PADDING;
    out[0] = c->cls;
    memcpy(out + 1, c->tokens + c->first_token[sentence], count * sizeof(*out));
    out[count + 1] = c->sep;
}

/* Examples that are classified. */
typedef struct example_arrays {
    uint32_t n, length;
    int32_t *tokens, *segments, *classes;
} example_arrays;

static bool make_room(uint32_t n, uint32_t length, example_arrays *out)
{
    *out = (example_arrays){ .n = n, .length = length };
    out->tokens = malloc((size_t)n * length * sizeof(*out->tokens));
    out->segments = calloc((size_t)n * length, sizeof(*out->segments));
    out->classes = malloc(n * sizeof(*out->classes));
    return out->tokens && out->segments && out->classes;
}

/* Frees them. */
static int make_dataset(example_arrays *a, bool ok, rf_dataset **out)
{
    const rf_array arrays[] = { { RF_I32, RF_SHAPE(a->n, a->length), a->tokens },
                                { RF_I32, RF_SHAPE(a->n, a->length), a->segments },
                                { RF_I32, RF_SHAPE(a->n), a->classes } };
    const rf_result r =
        ok ? rf_dataset_from_arrays(&(rf_dataset_arrays_params){ .arrays = arrays, .num_arrays = 3 }, out) : RF_OK;
    free(a->tokens);
    free(a->segments);
    free(a->classes);
    TRY(r);
    return ok ? 0 : no_room();
}

int passages_dataset(const corpus *c, const passage_set *s, bool training, uint32_t length, rf_dataset **out)
{
    const uint32_t n = training ? s->num_train : s->num_test, *sentences = training ? s->train : s->test;
    example_arrays a;
    const bool ok = make_room(n, length, &a);
    for (uint32_t i = 0; ok && i < n; i++) {
        fill_passage(c, sentences[i], length, a.tokens + (size_t)i * length);
        a.classes[i] = (int32_t)class_of(c, s, sentences[i]);
    }
    return make_dataset(&a, ok, out);
}

int pairs_labelled(const pair_maker *p, uint32_t count, uint64_t seed, uint32_t *num_follow, rf_dataset **out)
{
    const uint32_t length = (uint32_t)p->length;
    example_arrays a;
    const bool ok = make_room(count, length, &a);
    *num_follow = 0;
    for (uint32_t i = 0; ok && i < count; i++) {
        drawer d = { { .seed = seed, .index = i }, 0 };
        const uint32_t start = p->starts[count < p->num_starts ? draw_below(&d, p->num_starts) : i % p->num_starts];
        (void)join_segments(p, &d, start, a.tokens + (size_t)i * length, a.segments + (size_t)i * length,
                            &a.classes[i]);
        *num_follow += a.classes[i] == 0;
    }
    return make_dataset(&a, ok, out);
}
