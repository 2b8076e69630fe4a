/* SPDX-License-Identifier: Apache-2.0 */
#include "nmt_training.h"

const nmt_config *nmt_followed;

typedef struct training {
    nmt *nmt;
    rf_optimizer *optimizer;
} training;

static rf_result train_step(rf_trace *t, const rf_tensor *in, rf_tensor *out, void *user)
{
    const training *tr = user;
    const rf_tensor logits = nmt_call(t, tr->nmt, in[0], in[1], RF_TRAINING, NULL);
    out[0] = rf_compute_average_loss(t, nmt_loss(t, in[2], logits), NULL);
    (void)rf_optimizer_minimize(t, tr->optimizer, out[0], rf_model_variables(nmt_model(tr->nmt)));
    return rf_trace_status(t);
}

static void train(rf_strategy *strategy, double *losses)
{
    training tr;
    rf_function *function;
    OK(nmt_create(strategy, nmt_followed, &tr.nmt));
    OK(rf_optimizer_create(strategy, &(rf_optimizer_params){ .kind = RF_OPTIMIZER_ADAM }, &tr.optimizer));
    OK(rf_function_create(strategy,
                          &(rf_function_params){ .step = train_step, .user = &tr, .num_outputs = 1, .training = true },
                          &function));
    trajectory_assign(&trajectory_reference, nmt_model(tr.nmt));
    trajectory_follow(&trajectory_reference, strategy, nmt_model(tr.nmt), function, TRAJECTORY_MAX_STEPS, losses);
    OK(rf_strategy_check_identical(strategy, NULL, NULL));
    rf_function_destroy(&function);
    rf_optimizer_destroy(&tr.optimizer);
    nmt_destroy(&tr.nmt);
}

void nmt_follow(rf_strategy *strategy)
{
    trajectory_keep(strategy, train);
}

void nmt_compare(rf_strategy *strategy)
{
    trajectory_compare(strategy, train);
}

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
