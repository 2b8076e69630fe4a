/* SPDX-License-Identifier: Apache-2.0 */
#include "decode.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "../common/common.h"

enum { ROWS = 64 }; /* hypotheses that the model sees at once, if a source has no more */

typedef struct hypothesis {
    double score; /* sum of log probabilities */
    uint32_t length;
    bool ended;
    int32_t parent;  /* the row of the one that it continues */
    int32_t *tokens; /* [target_length] */
} hypothesis;

struct decoder {
    rf_strategy *strategy;
    decoder_params params;
    nmt_cache *cache;
    rf_function *read, *next;
    uint32_t sources, rows;             /* of a batch; rows are sources times beam */
    int32_t *source, *latest, *parents; /* [rows, source_length], [rows] each */
    hypothesis *now, *then;             /* [rows] */
    int32_t *now_tokens, *then_tokens;  /* what theirs point into */
};

/* ---- steps ---- */

/* Sources [1, rows, source_length]. */
static rf_result read_sources(rf_trace *t, const rf_tensor *in, rf_tensor *out, void *user)
{
    const decoder *d = user;
    (void)out;
    return nmt_read(t, d->cache, example_alone(t, in[0]));
}

/* The latest tokens [1, rows], their place [1, 1] and parents [1, rows]: log probabilities of what follows them,
 * [1, rows, vocabulary]. */
static rf_result predict(rf_trace *t, const rf_tensor *in, rf_tensor *out, void *user)
{
    const decoder *d = user;
    const rf_tensor parents = d->params.beam > 1 ? example_alone(t, in[2]) : (rf_tensor){ 0 };
    const rf_tensor logits = nmt_go_on(t, d->cache, example_alone(t, in[0]), example_alone(t, in[1]), parents);
    out[0] = rf_expand_dims(t, rf_log_softmax(t, logits), 0);
    return rf_trace_status(t);
}

static int ask(decoder *d, uint32_t place, rf_array *log_probabilities)
{
    int32_t number = (int32_t)place;
    for (uint32_t r = 0; r < d->rows; r++) {
        d->latest[r] = place > 0 ? d->now[r].tokens[place - 1] : d->params.start;
        d->parents[r] = place > 0 ? d->now[r].parent : (int32_t)r;
    }
    const rf_element batch = { .num_components = 3,
                               .component = { { RF_I32, RF_SHAPE(1, d->rows), d->latest },
                                              { RF_I32, RF_SHAPE(1, 1), &number },
                                              { RF_I32, RF_SHAPE(1, d->rows), d->parents } } };
    rf_per_replica *results[1];
    TRY(rf_strategy_run(d->strategy, d->next, &batch, results));
    TRY(rf_strategy_gather(d->strategy, results[0], log_probabilities));
    return 0;
}

/* ---- hypotheses ---- */

static double quality(const hypothesis *h)
{
    return h->length > 0 ? h->score / h->length : h->score;
}

/* Puts a candidate among the best of one source, best first, of which there are *count. */
static void offer(const decoder *d, hypothesis *best, uint32_t *count, const hypothesis *from, int32_t token,
                  double log_probability)
{
    hypothesis h = { from->score + log_probability, from->length + 1, token == d->params.end, 0, NULL };
    if (from->ended) h = *from;
    h.parent = (int32_t)(from - d->now);
    const size_t room = d->params.config->target_length * sizeof(int32_t);
    if (*count == d->params.beam && quality(&h) <= quality(&best[*count - 1])) return;
    uint32_t place = *count < d->params.beam ? (*count)++ : *count - 1;
    h.tokens = best[place].tokens;
    memcpy(h.tokens, from->tokens, room);
    if (!from->ended) h.tokens[from->length] = token;
    for (; place > 0 && quality(&h) > quality(&best[place - 1]); place--) best[place] = best[place - 1];
    best[place] = h;
}

/* The best continuations of one source's hypotheses, `now`, become `then`. */
static void advance(const decoder *d, const hypothesis *now, hypothesis *then, uint32_t place,
                    const float *log_probabilities)
{
    const uint32_t beam = d->params.beam, vocabulary = d->params.config->target_vocabulary;
    uint32_t count = 0;
    for (uint32_t b = 0; b < beam; b++) {
        if (place == 0 && b > 0) break; /* all are the same: nothing yet */
        if (now[b].ended) offer(d, then, &count, &now[b], NMT_PADDING, 0);
        for (uint32_t v = 0; !now[b].ended && v < vocabulary; v++)
            if (v != NMT_PADDING && (int32_t)v != d->params.start)
                offer(d, then, &count, &now[b], (int32_t)v, (double)log_probabilities[(size_t)b * vocabulary + v]);
    }
    /* A small vocabulary may have fewer than `beam` continuations: the rest is never taken. */
    for (; count < beam; count++) {
        then[count].score = -INFINITY;
        then[count].length = place + 1;
        then[count].ended = true;
    }
}

/* Rows that no source needs translate the last one once more. */
static int begin(decoder *d, const int32_t *sources, uint32_t count)
{
    const size_t length = d->params.config->source_length, room = d->params.config->target_length;
    for (uint32_t r = 0; r < d->rows; r++) {
        const uint32_t source = r / d->params.beam < count ? r / d->params.beam : count - 1;
        memcpy(d->source + r * length, sources + source * length, length * sizeof(int32_t));
        d->now[r] = (hypothesis){ .parent = (int32_t)r, .tokens = d->now_tokens + r * room };
        d->then[r] = (hypothesis){ .parent = (int32_t)r, .tokens = d->then_tokens + r * room };
        memset(d->now[r].tokens, 0, room * sizeof(int32_t));
        memset(d->then[r].tokens, 0, room * sizeof(int32_t));
    }
    const rf_element batch = { 1, { { RF_I32, RF_SHAPE(1, d->rows, (int64_t)length), d->source } } };
    TRY(rf_strategy_run(d->strategy, d->read, &batch, NULL));
    return 0;
}

static bool all_ended(const decoder *d, uint32_t rows)
{
    for (uint32_t r = 0; r < rows; r++)
        if (!d->now[r].ended) return false;
    return true;
}

static int translate(decoder *d, const int32_t *sources, uint32_t count, int32_t *translations)
{
    const uint32_t beam = d->params.beam, rows = count * beam, room = d->params.config->target_length;
    if (begin(d, sources, count) < 0) return -1;
    for (uint32_t place = 0; place < room && !all_ended(d, rows); place++) {
        rf_array log_probabilities;
        if (ask(d, place, &log_probabilities) < 0) return -1;
        for (uint32_t s = 0; s < count; s++)
            advance(d, d->now + s * beam, d->then + s * beam, place,
                    (const float *)log_probabilities.data + (size_t)s * beam * d->params.config->target_vocabulary);
        rf_array_free(&log_probabilities);
        if (rf_strategy_stop_agreed(d->strategy)) return example_stopped();
        hypothesis *now = d->now;
        d->now = d->then;
        d->then = now;
    }
    for (uint32_t s = 0; s < count; s++)
        memcpy(translations + (size_t)s * room, d->now[s * beam].tokens, room * sizeof(int32_t));
    return 0;
}

int decoder_run(decoder *d, const int32_t *sources, uint32_t count, int32_t *translations)
{
    const nmt_config *c = d->params.config;
    for (uint32_t done = 0; done < count; done += d->sources) {
        const uint32_t some = count - done < d->sources ? count - done : d->sources;
        const int result = translate(d, sources + (size_t)done * c->source_length, some,
                                     translations + (size_t)done * c->target_length);
        if (result != 0) return result;
    }
    return 0;
}

/* ---- lifetime ---- */

static bool allocate(decoder *d)
{
    const nmt_config *c = d->params.config;
    const size_t rows = d->rows;
    d->source = calloc(rows * c->source_length, sizeof(int32_t));
    d->latest = calloc(rows, sizeof(int32_t));
    d->parents = calloc(rows, sizeof(int32_t));
    d->now = calloc(rows, sizeof(hypothesis));
    d->then = calloc(rows, sizeof(hypothesis));
    d->now_tokens = calloc(rows * c->target_length, sizeof(int32_t));
    d->then_tokens = calloc(rows * c->target_length, sizeof(int32_t));
    return d->source && d->latest && d->parents && d->now && d->then && d->now_tokens && d->then_tokens;
}

int decoder_create(rf_strategy *strategy, const nmt *m, const decoder_params *params, decoder **out)
{
    decoder *d = calloc(1, sizeof(*d));
    *out = d;
    if (d) {
        d->strategy = strategy;
        d->params = *params;
        d->sources = params->beam < ROWS ? ROWS / params->beam : 1;
        d->rows = d->sources * params->beam;
    }
    if (!d || !allocate(d)) {
        fprintf(stderr, "%s: no memory for %u hypotheses\n", program_invocation_short_name, params->beam);
        return -1;
    }
    TRY(nmt_cache_create(strategy, m, d->rows, &d->cache));
    const rf_function_params read = { .step = read_sources, .user = d, .name = "read_sources" };
    const rf_function_params next = { .step = predict, .user = d, .num_outputs = 1, .name = "predict" };
    TRY(rf_function_create(strategy, &read, &d->read));
    TRY(rf_function_create(strategy, &next, &d->next));
    return 0;
}

void decoder_destroy(decoder **d)
{
    if (!*d) return;
    rf_function_destroy(&(*d)->read);
    rf_function_destroy(&(*d)->next);
    nmt_cache_destroy(&(*d)->cache);
    void *all[] = { (*d)->source, (*d)->latest,     (*d)->parents,    (*d)->now,
                    (*d)->then,   (*d)->now_tokens, (*d)->then_tokens };
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) free(all[i]);
    free(*d);
    *d = NULL;
}
