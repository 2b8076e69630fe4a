/* SPDX-License-Identifier: Apache-2.0 */
#include "nmt_training.h"

const nmt_config *nmt_followed;

static void *create(rf_strategy *strategy)
{
    nmt *made;
    OK(nmt_create(strategy, nmt_followed, &made));
    return made;
}

static rf_model *model_of(void *made)
{
    return nmt_model(made);
}

static void destroy(void *made)
{
    nmt_destroy(&(nmt *){ made });
}

static rf_tensor losses_of(rf_trace *t, void *made, const rf_tensor *in)
{
    return nmt_loss(t, in[2], nmt_call(t, made, in[0], in[1], RF_TRAINING, NULL));
}

const trajectory_network nmt_network = { .create = create, .model = model_of, .destroy = destroy, .losses = losses_of };

/* ---- one token after the other ---- */

enum { ROWS = 6, GROUP = 3, MOST_PLACES = 16 };

typedef struct going {
    nmt *nmt;
    nmt_cache *cache;
    bool parents; /* rows go on from others */
    rf_function *whole, *read, *next;
    int32_t source[ROWS * MOST_PLACES], target[ROWS * MOST_PLACES];
} going;

static rf_tensor only(rf_trace *t, rf_tensor x)
{
    return rf_squeeze(t, rf_slice(t, x, (int64_t[]){ 0 }, (int64_t[]){ 1 }, NULL, 1), 0);
}

static rf_result whole_step(rf_trace *t, const rf_tensor *in, rf_tensor *out, void *user)
{
    out[0] = nmt_call(t, ((const going *)user)->nmt, in[0], in[1], RF_INFERENCE, NULL);
    return rf_trace_status(t);
}

static rf_result read_step(rf_trace *t, const rf_tensor *in, rf_tensor *out, void *user)
{
    (void)out;
    return nmt_read(t, ((const going *)user)->cache, only(t, in[0]));
}

static rf_result next_step(rf_trace *t, const rf_tensor *in, rf_tensor *out, void *user)
{
    const going *g = user;
    const rf_tensor parents = g->parents ? only(t, in[2]) : (rf_tensor){ 0 };
    out[0] = rf_expand_dims(t, nmt_go_on(t, g->cache, only(t, in[0]), only(t, in[1]), parents), 0);
    return rf_trace_status(t);
}

/* Translations that go on from others take these over; then all get one more token. */
static void extend(going *g, int64_t place, int32_t *parents, int32_t *tokens)
{
    const int64_t length = nmt_followed->target_length;
    int32_t before[ROWS * MOST_PLACES];
    memcpy(before, g->target, sizeof(before));
    for (int64_t r = 0; r < ROWS; r++) {
        parents[r] = (int32_t)(g->parents ? r / GROUP * GROUP + (2 * r + place) * (r + 1) % GROUP : r);
        memcpy(g->target + r * length, before + parents[r] * length, (size_t)length * sizeof(int32_t));
        tokens[r] = 1 + (int32_t)((7 * r + 3 * place) % (nmt_followed->target_vocabulary - 1));
        g->target[r * length + place] = tokens[r];
    }
}

static void go_on(rf_strategy *strategy, going *g)
{
    const nmt_config *c = nmt_followed;
    const int64_t length = c->target_length, vocabulary = c->target_vocabulary;
    const rf_array source = { RF_I32, RF_SHAPE(1, ROWS, c->source_length), g->source };
    OK(rf_strategy_run(strategy, g->read, &(rf_element){ 1, { source } }, NULL));
    memset(g->target, 0, sizeof(g->target));
    for (int64_t place = 0; place < length; place++) {
        int32_t parents[ROWS], tokens[ROWS], number = (int32_t)place;
        extend(g, place, parents, tokens);
        const rf_element one = { 3,
                                 { array_i32(RF_SHAPE(1, ROWS), tokens), array_i32(RF_SHAPE(1, 1), &number),
                                   array_i32(RF_SHAPE(1, ROWS), parents) } };
        const rf_element all = {
            2, { array_i32(RF_SHAPE(ROWS, c->source_length), g->source), array_i32(RF_SHAPE(ROWS, length), g->target) }
        };
        rf_array is = run_gathered(strategy, g->next, &one), whole = run_gathered(strategy, g->whole, &all);
        assert_true(rf_shape_equal(is.shape, RF_SHAPE(1, ROWS, vocabulary)));
        for (int64_t r = 0; r < ROWS; r++)
            for (int64_t v = 0; v < vocabulary; v++)
                assert_near((double)((const float *)is.data)[r * vocabulary + v],
                            (double)((const float *)whole.data)[(r * length + place) * vocabulary + v], 1e-5, 1e-5,
                            "logit");
        rf_array_free(&is);
        rf_array_free(&whole);
    }
}

void nmt_goes_on(rf_strategy *strategy)
{
    going g = { 0 };
    const int32_t *source = trajectory_reference.batches[0].component[0].data;
    for (uint32_t i = 0; i < ROWS * nmt_followed->source_length; i++)
        g.source[i] = source[i / nmt_followed->source_length / GROUP * nmt_followed->source_length +
                             i % nmt_followed->source_length];
    OK(nmt_create(strategy, nmt_followed, &g.nmt));
    trajectory_assign(&trajectory_reference, nmt_model(g.nmt));
    OK(nmt_cache_create(strategy, g.nmt, ROWS, &g.cache));
    OK(rf_function_create(strategy, &(rf_function_params){ .step = whole_step, .user = &g, .num_outputs = 1 },
                          &g.whole));
    OK(rf_function_create(strategy, &(rf_function_params){ .step = read_step, .user = &g }, &g.read));
    for (int parents = 0; parents < 2; parents++) {
        g.parents = parents == 1;
        OK(rf_function_create(strategy, &(rf_function_params){ .step = next_step, .user = &g, .num_outputs = 1 },
                              &g.next));
        go_on(strategy, &g);
        assert_int_equal(rf_function_num_traces(g.next), 1);
        rf_function_destroy(&g.next);
    }
    OK(rf_strategy_check_identical(strategy, NULL, NULL));
    rf_function_destroy(&g.whole);
    rf_function_destroy(&g.read);
    nmt_cache_destroy(&g.cache);
    nmt_destroy(&g.nmt);
}
