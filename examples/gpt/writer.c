/* SPDX-License-Identifier: Apache-2.0 */
#include "writer.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "../common/common.h"

struct writer {
    rf_strategy *strategy;
    const gpt *gpt;
    int64_t block;
    gpt_cache *cache; /* NULL: all tokens are read again for each */
    rf_function *next;
    int32_t *tokens, *places; /* [block] */
    int64_t filled, read;     /* tokens there are, and those that the cache knows */
};

/* ---- steps: tokens [1, t], their places [1, t], and the number of the last one [1, 1] ---- */

static rf_result read_on(rf_trace *t, const rf_tensor *in, rf_tensor *out, void *user)
{
    const writer *w = user;
    const rf_tensor tokens = rf_expand_dims(t, example_alone(t, in[0]), 0);
    out[0] = gpt_go_on(t, w->cache, tokens, example_alone(t, in[1]), example_alone(t, in[2]));
    return rf_trace_status(t);
}

static rf_result read_all(rf_trace *t, const rf_tensor *in, rf_tensor *out, void *user)
{
    const writer *w = user;
    const rf_tensor logits = rf_model_call(t, gpt_model(w->gpt), in[0], RF_INFERENCE);
    out[0] = rf_squeeze(t, rf_gather_positions(t, logits, in[2]), 1);
    return rf_trace_status(t);
}

/* ---- text ---- */

void writer_add(writer *w, int32_t token)
{
    if (w->filled == w->block) {
        /* A token's place is part of what the model knows of it: once places change, all are to be read again. That is
         * seldom enough if there is room for many then. */
        const int64_t half = w->block - w->block / 2;
        w->filled -= half;
        memmove(w->tokens, w->tokens + half, (size_t)w->filled * sizeof(w->tokens[0]));
        w->read = 0;
    }
    w->tokens[w->filled++] = token;
}

/* Either the one new token, or a whole block, of which what is not filled yet counts for nothing: two shapes of input,
 * so two recordings, whatever the length of the text. */
int writer_ask(writer *w, rf_array *logits)
{
    if (w->filled == 0) writer_add(w, 0);
    const bool one = w->cache && w->read > 0 && w->filled == w->read + 1;
    const int64_t first = one ? w->read : 0, count = one ? 1 : w->block;
    int32_t last = (int32_t)(w->filled - 1 - first);
    const rf_element batch = { .num_components = 3,
                               .component = { { RF_I32, RF_SHAPE(1, count), w->tokens + first },
                                              { RF_I32, RF_SHAPE(1, count), w->places + first },
                                              { RF_I32, RF_SHAPE(1, 1), &last } } };
    rf_per_replica *results[1];
    TRY(rf_strategy_run(w->strategy, w->next, &batch, results));
    TRY(rf_strategy_gather(w->strategy, results[0], logits));
    w->read = w->filled;
    return 0;
}

/* ---- lifetime ---- */

static int create(rf_strategy *strategy, bool cached, writer *w)
{
    if (cached) TRY(gpt_cache_create(strategy, w->gpt, 1, &w->cache));
    TRY(rf_function_create(
        strategy,
        &(rf_function_params){ .step = cached ? read_on : read_all, .user = w, .num_outputs = 1, .name = "next_token" },
        &w->next));
    return 0;
}

int writer_create(rf_strategy *strategy, const gpt *g, const gpt_config *config, bool cached, writer **out)
{
    writer *w = *out = calloc(1, sizeof(*w));
    if (w) *w = (writer){ .strategy = strategy, .gpt = g, .block = config->block };
    if (w) w->tokens = calloc(config->block, sizeof(w->tokens[0]));
    if (w) w->places = calloc(config->block, sizeof(w->places[0]));
    if (!w || !w->tokens || !w->places) {
        fprintf(stderr, "%s: %s\n", program_invocation_short_name, strerror(ENOMEM));
        return -1;
    }
    for (uint32_t i = 0; i < config->block; i++) w->places[i] = (int32_t)i;
    return create(strategy, cached, w);
}

void writer_destroy(writer **w)
{
    if (!*w) return;
    rf_function_destroy(&(*w)->next);
    gpt_cache_destroy(&(*w)->cache);
    free((*w)->tokens);
    free((*w)->places);
    free(*w);
    *w = NULL;
}
