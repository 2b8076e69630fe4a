/* SPDX-License-Identifier: Apache-2.0 */
/* The encoder and decoder of gated recurrent units with additive attention (Bahdanau, Cho & Bengio 2015). */
#include <stdio.h>

#include "internal.h"

/* ---- forward ---- */

/* One step of a state. `x` [n, 3 units] is the input times its kernel, the bias included. */
static rf_tensor step(rf_trace *t, const gated *g, rf_tensor x, rf_tensor state, int64_t units)
{
    const rf_tensor states[2] = { state, { 0 } };
    rf_tensor sequence, final[2] = { { 0 }, { 0 } };
    (void)rf_rnn(t, rf_reshape(t, x, RF_SHAPE(-1, 1, 3 * units)), rf_variable_tensor(t, g->recurrent.kernel),
                 rf_variable_tensor(t, g->recurrent.bias), states, NULL, &sequence, final);
    return final[0];
}

/* All states of the source, and the last one: padding changes nothing. */
static rf_tensor encode(rf_trace *t, const nmt *m, rf_tensor source, rf_tensor mask, rf_tensor *last)
{
    const gated *g = &m->recurrent.encoder;
    const rf_rnn_params params = { .mask = mask };
    const rf_tensor rows = rf_gather(t, rf_variable_tensor(t, m->source_table), source, 0);
    rf_tensor sequence = { 0 }, final[2] = { { 0 }, { 0 } };
    (void)rf_rnn(t, nmt_project(t, rows, &g->input), rf_variable_tensor(t, g->recurrent.kernel),
                 rf_variable_tensor(t, g->recurrent.bias), NULL, &params, &sequence, final);
    *last = final[0];
    return sequence;
}

/* The weights with which the state attends, [n, source_length]. `keys` [n, source_length, units] are the memory's. */
static rf_tensor attend(rf_trace *t, const nmt *m, rf_tensor keys, rf_tensor mask, rf_tensor state)
{
    const float far = -1e9f;
    const rf_tensor query = rf_expand_dims(t, nmt_project(t, state, &m->recurrent.query), 1);
    const rf_tensor score = nmt_project(t, rf_tanh(t, rf_add(t, keys, query)), &m->recurrent.score);
    return rf_softmax(t, rf_where(t, mask, rf_squeeze(t, score, 2), rf_constant(t, far)));
}

/* Rows [begin, end) of a kernel. */
static rf_tensor rows_of(rf_trace *t, rf_variable *kernel, int64_t begin, int64_t end)
{
    return rf_slice(t, rf_variable_tensor(t, kernel), &begin, &end, NULL, 1);
}

/* The decoder's input is (context, token). The tokens' part is the same whatever the states are: one product for all
 * places, [n, target_length, 3 units]. */
static rf_tensor prepare_tokens(rf_trace *t, const nmt *m, rf_tensor target)
{
    const int64_t units = m->config.units;
    const projection *input = &m->recurrent.decoder.input;
    const rf_tensor rows = rf_gather(t, rf_variable_tensor(t, m->target_table), target, 0);
    const rf_tensor kernel = rows_of(t, input->kernel, units, units + m->config.width);
    return rf_bias_add(t, rf_matmul(t, rows, kernel, RF_TRANSPOSE_NONE), rf_variable_tensor(t, input->bias));
}

/* The memory that the decoder looks at, and the tensors with which it looks. */
typedef struct sight {
    rf_tensor memory, keys, mask, kernel;
} sight;

static sight look(rf_trace *t, const nmt *m, rf_tensor memory, rf_tensor keys, rf_tensor mask)
{
    return (sight){ memory, keys, mask, rows_of(t, m->recurrent.decoder.input.kernel, 0, m->config.units) };
}

/* The state after a token [n, 3 units], and what the one before it attends to. */
static rf_tensor advance(rf_trace *t, const nmt *m, const sight *at, rf_tensor token, rf_tensor state, rf_tensor *seen)
{
    *seen = attend(t, m, at->keys, at->mask, state);
    const rf_tensor context =
        rf_squeeze(t, rf_matmul(t, rf_expand_dims(t, *seen, 1), at->memory, RF_TRANSPOSE_NONE), 1);
    const rf_tensor x = rf_add(t, rf_matmul(t, context, at->kernel, RF_TRANSPOSE_NONE), token);
    return step(t, &m->recurrent.decoder, x, state, m->config.units);
}

rf_tensor recurrent_call(rf_trace *t, const nmt *m, rf_tensor source, rf_tensor target, rf_tensor *weights)
{
    enum { MOST = RECURRENT_MAX_LENGTH };
    const int64_t places = m->config.target_length;
    rf_tensor states[MOST], seen[MOST], state;
    const rf_tensor mask = nmt_mask(t, source), memory = encode(t, m, source, mask, &state);
    const rf_tensor keys = nmt_project(t, memory, &m->recurrent.memory), tokens = prepare_tokens(t, m, target);
    const sight at = look(t, m, memory, keys, mask);
    for (int64_t i = 0; i < places; i++) {
        const int64_t begin[] = { 0, i }, end[] = { INT64_MAX, i + 1 };
        const rf_tensor token = rf_squeeze(t, rf_slice(t, tokens, begin, end, NULL, 2), 1);
        states[i] = state = advance(t, m, &at, token, state, &seen[i]);
    }
    if (weights) *weights = rf_stack(t, seen, (uint32_t)places, 1);
    return nmt_project(t, rf_stack(t, states, (uint32_t)places, 1), &m->classifier);
}

/* ---- one token after the other ---- */

void recurrent_read(rf_trace *t, const nmt_cache *cache, rf_tensor sources)
{
    rf_tensor state;
    const rf_tensor mask = nmt_mask(t, sources), memory = encode(t, cache->m, sources, mask, &state);
    nmt_keep(t, cache->mask, mask);
    nmt_keep(t, cache->memory, memory);
    nmt_keep(t, cache->keys, nmt_project(t, memory, &cache->m->recurrent.memory));
    nmt_keep(t, cache->state, state);
}

/* The state is all that there is of earlier tokens. */
rf_tensor recurrent_go_on(rf_trace *t, const nmt_cache *cache, rf_tensor tokens, rf_tensor parents)
{
    const nmt *m = cache->m;
    const sight at = look(t, m, rf_variable_tensor(t, cache->memory), rf_variable_tensor(t, cache->keys),
                          rf_variable_tensor(t, cache->mask));
    const rf_tensor token = rf_squeeze(t, prepare_tokens(t, m, rf_expand_dims(t, tokens, 1)), 1);
    rf_tensor seen;
    const rf_tensor state = advance(t, m, &at, token, nmt_recall(t, cache->state, parents), &seen);
    nmt_keep(t, cache->state, state);
    return nmt_project(t, state, &m->classifier);
}

/* ---- variables ---- */

static gated make_gated(maker *k, const char *name, uint32_t from)
{
    const uint32_t units = k->m->config.units;
    char kernel[48], state_kernel[48], bias[48], recurrent_bias[48];
    snprintf(kernel, sizeof(kernel), "%s/kernel", name);
    snprintf(state_kernel, sizeof(state_kernel), "%s/recurrent_kernel", name);
    snprintf(bias, sizeof(bias), "%s/bias", name);
    snprintf(recurrent_bias, sizeof(recurrent_bias), "%s/recurrent_bias", name);
    return (gated){ .input = { nmt_make(k, kernel, RF_SHAPE(from, 3 * units), RF_INIT_GLOROT_UNIFORM),
                               nmt_make(k, bias, RF_SHAPE(3 * units), RF_INIT_ZEROS) },
                    .recurrent = { nmt_make(k, state_kernel, RF_SHAPE(units, 3 * units), RF_INIT_GLOROT_UNIFORM),
                                   nmt_make(k, recurrent_bias, RF_SHAPE(3 * units), RF_INIT_ZEROS) } };
}

void recurrent_make(maker *k)
{
    const uint32_t units = k->m->config.units, width = k->m->config.width;
    recurrent *n = &k->m->recurrent;
    n->encoder = make_gated(k, "encoder", width);
    n->memory = nmt_make_projection(k, "attention/memory", units, units);
    n->query = nmt_make_projection(k, "attention/query", units, units);
    n->score = nmt_make_projection(k, "attention/score", units, 1);
    n->decoder = make_gated(k, "decoder", units + width);
}
