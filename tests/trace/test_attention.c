/* SPDX-License-Identifier: Apache-2.0 */
/* Attention against its definition in double precision, gradients against differences of that, and mistakes. */
#include "../support/strategies.h"

#include "graph/graph.h"
#include "ops/ops.h"
#include "step/step.h"
#include "tests/room.h"

enum { N = 2, H = 2, K = 3, V = 4, MOST = 5 /* positions */, COLUMNS = 4 };

typedef struct attention_case {
    int64_t t, s;
    bool causal;
    float scale;
    int64_t mask[4]; /* its shape; zeroed: none */
    int64_t place;   /* of the first query among the keys, plus 1; 0: not given */
    int32_t window;  /* 0: all keys */
    float softcap;   /* 0: none */
    bool segments;   /* of segments_of_steps */
} attention_case;

/* For each example, where t is MOST. The second one is all padding behind its first two steps. */
static const int32_t segments_of_steps[N * MOST] = { 1, 1, 2, 2, 2, 7, 7, 0, 0, 0 };

static const attention_case cases[] = {
    { 3, 5, false, 0, { 0 } },
    { 3, 5, true, 0.3f, { 0 } },
    { 5, 3, true, 0, { 0 } },          /* the first queries have no key */
    { 4, 4, true, 0, { N, 1, 1, 4 } }, /* of padded sequences: the first key is masked, so that query 0 has none */
    { 5, 4, false, 0, { 1, H, 5, 4 } },
    { 1, 5, true, 0, { 0 }, 1 },
    { 2, 5, true, 0.3f, { 0 }, 3 },
    { 3, 5, true, 0, { N, 1, 1, 5 }, 2 }, /* query 0 attends to keys 0 and 1, of which the mask leaves one */
    { 2, 4, true, 0, { 0 }, 10 },         /* beyond the keys: to all of them */
    { 5, 5, true, 0, { 0 }, 0, 2 },
    { 4, 5, true, 0, { 0 }, 0, 5 },           /* as long as the keys */
    { 2, 5, true, 0, { 0 }, 3, 2 },           /* in pieces */
    { 4, 4, true, 0, { N, 1, 1, 4 }, 0, 1 },  /* its own key alone, which the mask takes from query 0 */
    { 3, 5, false, 0.9f, { 0 }, 0, 0, 0.5f }, /* low enough that most scores bend */
    { 5, 5, true, 0, { 0 }, 0, 3, 2 },
    { 5, 5, true, 0, { 0 }, .segments = true },
    { 5, 5, false, 0.3f, { 0 }, .segments = true },
    { 5, 5, true, 0, { N, 1, 1, 5 }, 0, 2, .segments = true },
};

typedef struct attention_data {
    const attention_case *c;
    rf_attention_form form;
    float query[N * H * MOST * COLUMNS], key[N * H * MOST * COLUMNS], value[N * H * MOST * COLUMNS];
    float mask[N * H * MOST * MOST];
} attention_data;

static bool attends(const attention_data *d, int64_t head, int64_t i, int64_t j)
{
    const int64_t *shape = d->c->mask, at[4] = { head / H, head % H, i, j };
    int64_t place = 0;
    const int64_t own = i + (d->c->place ? d->c->place - 1 : d->c->s - d->c->t);
    if (d->c->causal && j > own) return false;
    if (d->c->window && j <= own - d->c->window) return false;
    const int32_t *segments = segments_of_steps + head / H * MOST;
    if (d->c->segments && segments[i] != segments[j]) return false;
    for (int k = 0; k < 4; k++) place = place * shape[k] + (shape[k] > 1 ? at[k] : 0);
    return shape[0] == 0 || d->mask[place] != 0;
}

/* Half the sum of squares of the result, which is written to y where that is given. */
static double define(const attention_data *d, float *y)
{
    const int64_t t = d->c->t, s = d->c->s;
    const double scale = d->c->scale != 0 ? (double)d->c->scale : 1 / sqrt(K);
    double loss = 0;
    for (int64_t row = 0; row < N * H * t; row++) {
        double sum[V] = { 0 }, total = 0;
        for (int64_t j = 0; j < s; j++) {
            double score = 0;
            if (!attends(d, row / t, row % t, j)) continue;
            for (int c = 0; c < K; c++)
                score += (double)d->query[row * K + c] * (double)d->key[(row / t * s + j) * K + c];
            const double cap = (double)d->c->softcap;
            const double weight = exp(cap > 0 ? cap * tanh(score * scale / cap) : score * scale);
            total += weight;
            for (int c = 0; c < V; c++) sum[c] += weight * (double)d->value[(row / t * s + j) * V + c];
        }
        for (int c = 0; c < V; c++) {
            const double result = total > 0 ? sum[c] / total : 0;
            if (y) y[row * V + c] = (float)result;
            loss += result * result / 2;
        }
    }
    return loss;
}

static rf_result attention_step(rf_trace *t, const rf_tensor *in, rf_tensor *out, void *user)
{
    const attention_data *d = user;
    const int64_t *m = d->c->mask;
    rf_attention_params params = {
        .causal = d->c->causal, .scale = d->c->scale, .form = d->form, .window = d->c->window, .softcap = d->c->softcap
    };
    if (m[0] == N) params.mask = in[3];
    if (m[0] == 1)
        params.mask =
            rf_constant_array(t, &(rf_array){ RF_F32, RF_SHAPE(m[0], m[1], m[2], m[3]), (void *)(uintptr_t)d->mask });
    int32_t place = (int32_t)d->c->place - 1;
    if (d->c->place) params.first_query = rf_constant_array(t, &(rf_array){ RF_I32, RF_SHAPE(1, 1), &place });
    if (d->c->segments) params.segments = in[3 + (m[0] == N)];
    const bool any = d->c->segments || d->form != RF_ATTENTION_AUTO || params.causal || params.scale != 0 || m[0] != 0;
    out[0] = rf_attention(t, in[0], in[1], in[2], any ? &params : NULL);
    const rf_tensor loss =
        rf_reduce_sum(t, rf_multiply(t, rf_square(t, out[0]), rf_constant(t, 0.5f)), NULL, 0, RF_DROP_DIMS);
    return rf_gradients(t, loss, in, 3, &out[1]);
}

static void compare_gradient(attention_data *d, float *x, int64_t count, const float *gradient, const char *what)
{
    const double step = 0.01;
    for (int64_t i = 0; i < count; i++) {
        const float centre = x[i];
        x[i] = centre + (float)step;
        const double above = define(d, NULL), x_above = (double)x[i];
        x[i] = centre - (float)step;
        const double below = define(d, NULL), x_below = (double)x[i];
        x[i] = centre;
        assert_near((double)gradient[i], (above - below) / (x_above - x_below), 1e-3, 1e-4, what);
    }
}

static void run_case(rf_strategy *strategy, const attention_case *c, rf_attention_form form)
{
    attention_data d = { .c = c, .form = form };
    float expected[N * H * MOST * V];
    rf_function *function;
    rf_per_replica *results[4];
    rf_array y[4];
    fill_noise(d.query, N * H * MOST * COLUMNS, 1);
    fill_noise(d.key, N * H * MOST * COLUMNS, 2);
    fill_noise(d.value, N * H * MOST * COLUMNS, 3);
    for (int i = 0; i < N * H * MOST * MOST; i++) d.mask[i] = i % 4 == 0 ? 0 : i % 3 == 0 ? -2 : 1;
    const int64_t *m = c->mask;
    rf_element batch = { .num_components = 3,
                         .component = { array_f32(RF_SHAPE(N, H, c->t, K), d.query),
                                        array_f32(RF_SHAPE(N, H, c->s, K), d.key),
                                        array_f32(RF_SHAPE(N, H, c->s, V), d.value) } };
    if (m[0] == N) batch.component[batch.num_components++] = array_f32(RF_SHAPE(N, m[1], m[2], m[3]), d.mask);
    if (c->segments)
        batch.component[batch.num_components++] =
            (rf_array){ RF_I32, RF_SHAPE(N, MOST), (void *)(uintptr_t)segments_of_steps };
    OK(rf_function_create(strategy, &(rf_function_params){ .step = attention_step, .user = &d, .num_outputs = 4 },
                          &function));
    OK(rf_strategy_run(strategy, function, &batch, results));
    for (int i = 0; i < 4; i++) OK(rf_strategy_gather(strategy, results[i], &y[i]));
    (void)define(&d, expected);
    for (int64_t i = 0; i < N * H * c->t * V; i++)
        assert_near((double)((const float *)y[0].data)[i], (double)expected[i], 1e-5, 1e-6, "attention");
    compare_gradient(&d, d.query, N * H * c->t * K, y[1].data, "gradient of the query");
    compare_gradient(&d, d.key, N * H * c->s * K, y[2].data, "gradient of the key");
    compare_gradient(&d, d.value, N * H * c->s * V, y[3].data, "gradient of the value");
    for (int i = 0; i < 4; i++) rf_array_free(&y[i]);
    rf_function_destroy(&function);
}

static void definition(rf_strategy *strategy)
{
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        for (int form = RF_ATTENTION_AUTO; form <= RF_ATTENTION_FUSED - (cases[i].softcap > 0); form++)
            run_case(strategy, &cases[i], (rf_attention_form)form);
}

/* ---- dropout of the weights ---- */

static rf_result dropout_step(rf_trace *t, const rf_tensor *in, rf_tensor *out, void *user)
{
    (void)user;
    const rf_tensor keys = rf_multiply(t, in[0], rf_constant(t, 0)), ones = rf_add(t, keys, rf_constant(t, 1));
    out[0] = rf_attention(t, keys, keys, ones, &(rf_attention_params){ .dropout = 0.5f, .dropout_seed = 7 });
    return rf_trace_status(t);
}

/* All weights are 1/8, and those that stay count twice: each row is a multiple of a quarter, and they differ. */
static void drops(rf_strategy *strategy)
{
    float x[N * 8 * 4] = { 0 };
    rf_function *function;
    rf_per_replica *result;
    rf_array y;
    int others = 0;
    double sum = 0;
    OK(rf_function_create(strategy, &(rf_function_params){ .step = dropout_step, .num_outputs = 1, .training = true },
                          &function));
    const rf_element batch = { .num_components = 1, .component = { array_f32(RF_SHAPE(N, 1, 8, 4), x) } };
    OK(rf_strategy_run(strategy, function, &batch, &result));
    OK(rf_strategy_gather(strategy, result, &y));
    for (int i = 0; i < N * 8; i++) {
        const double row = (double)((const float *)y.data)[4 * i];
        assert_near(row * 4, round(row * 4), 0, 1e-5, "dropout");
        if (row != 1) others++;
        sum += row / (N * 8);
    }
    assert_true(others > 0);
    assert_near(sum, 1, 0, 0.4, "mean under dropout");
    rf_array_free(&y);
    rf_function_destroy(&function);
}

/* ---- the forms, at sizes of several tiles and blocks ---- */

enum { LONG = 194, WIDTH = 36, HEADS = 3 };

static rf_result long_step(rf_trace *t, const rf_tensor *in, rf_tensor *out, void *user)
{
    const rf_attention_params *params = user;
    out[0] = rf_attention(t, in[0], in[1], in[2], params);
    const rf_tensor loss = rf_reduce_sum(t, rf_square(t, out[0]), NULL, 0, RF_DROP_DIMS);
    return rf_gradients(t, loss, in, 3, &out[1]);
}

/* Nodes of the fused op in what the step was traced to. */
static int run_long(rf_strategy *strategy, const rf_element *batch, rf_attention_params params, rf_array y[4])
{
    rf_function *function;
    rf_per_replica *results[4];
    int fused = 0;
    OK(rf_function_create(
        strategy, &(rf_function_params){ .step = long_step, .user = &params, .num_outputs = 4, .training = true },
        &function));
    OK(rf_strategy_run(strategy, function, batch, results));
    for (int i = 0; i < 4; i++) OK(rf_strategy_gather(strategy, results[i], &y[i]));
    const rf_graph *graph = rf_function_graph(function);
    for (uint32_t n = 0; n < graph->nodes.count; n++) fused += graph->nodes.items[n].op == &rf_op_attention;
    rf_function_destroy(&function);
    return fused;
}

static void agree(rf_strategy *strategy)
{
    const size_t count = (size_t)2 * HEADS * LONG * WIDTH;
    float *data[3];
    rf_element batch = { .num_components = 3 };
    for (int i = 0; i < 3; i++) {
        data[i] = malloc(count * sizeof(float));
        assert_non_null(data[i]);
        fill_noise(data[i], (int64_t)count, (uint32_t)i + 1);
        batch.component[i] = array_f32(RF_SHAPE(2, HEADS, LONG, WIDTH), data[i]);
    }
    for (int causal = 0; causal < 2; causal++) {
        rf_array composed[4], fused[4], chosen[4];
        rf_attention_params params = { .causal = causal, .form = RF_ATTENTION_COMPOSED };
        assert_int_equal(run_long(strategy, &batch, params, composed), 0);
        params.form = RF_ATTENTION_FUSED;
        assert_int_equal(run_long(strategy, &batch, params, fused), 1);
        params.form = RF_ATTENTION_AUTO;
        const int chose = run_long(strategy, &batch, params, chosen);
        for (int i = 0; i < 4; i++) {
            for (size_t e = 0; e < count; e++)
                assert_near((double)((float *)fused[i].data)[e], (double)((float *)composed[i].data)[e], 1e-4, 2e-6,
                            "the fused form");
            assert_memory_equal(chosen[i].data, chose ? fused[i].data : composed[i].data, count * sizeof(float));
            rf_array_free(&composed[i]);
            rf_array_free(&fused[i]);
            rf_array_free(&chosen[i]);
        }
        const rf_device_caps *caps = rf_strategy_caps(strategy, 0);
        assert_int_equal(chose, causal && caps->driver == RF_DRIVER_LAVAPIPE && caps->subgroup_size == 8);
        params.dropout = 0.1f;
        assert_int_equal(run_long(strategy, &batch, params, chosen), 0);
        for (int i = 0; i < 4; i++) rf_array_free(&chosen[i]);
    }
    for (int i = 0; i < 3; i++) free(data[i]);
}

/* ---- mistakes ---- */

typedef struct mistake {
    rf_shape query, key, value, mask;
    float scale;
    const char *message;
    rf_attention_form form;
    float dropout;
    int place; /* places of the first query; 0: not given */
    bool causal;
    int32_t window;
    float softcap;
    int64_t segments; /* steps; 0: none */
} mistake;

static rf_result mistaken_step(rf_trace *t, const rf_tensor *in, rf_tensor *out, void *user)
{
    static float zeros[64];
    static int32_t places[2];
    const mistake *m = user;
    rf_attention_params params = { .scale = m->scale,
                                   .form = m->form,
                                   .dropout = m->dropout,
                                   .causal = m->causal,
                                   .window = m->window,
                                   .softcap = m->softcap };
    const rf_tensor query = rf_constant_array(t, &(rf_array){ RF_F32, m->query, zeros });
    const rf_tensor key = rf_constant_array(t, &(rf_array){ RF_F32, m->key, zeros });
    const rf_tensor value = rf_constant_array(t, &(rf_array){ RF_F32, m->value, zeros });
    if (m->mask.rank > 0) params.mask = rf_constant_array(t, &(rf_array){ RF_F32, m->mask, zeros });
    if (m->place > 0) params.first_query = rf_constant_array(t, &(rf_array){ RF_I32, RF_SHAPE(m->place), places });
    static int32_t numbers[8];
    if (m->segments > 0)
        params.segments = rf_constant_array(t, &(rf_array){ RF_I32, RF_SHAPE(1, m->segments), numbers });
    (void)in;
    out[0] = rf_attention(t, query, key, value, &params);
    return rf_trace_status(t);
}

static void refuses(rf_strategy *strategy)
{
    const rf_shape x = RF_SHAPE(1, 1, 3, 2), five = RF_SHAPE(1, 1, 5, 2);
    const mistake mistakes[] = {
        { RF_SHAPE(3, 2), x, x, { 0 }, 0, "rf_attention: query is [3,2], key [1,1,3,2]", RF_ATTENTION_AUTO, 0 },
        { x, RF_SHAPE(1, 1, 3, 4), x, { 0 }, 0, "they must be [n, heads, t, k]", RF_ATTENTION_AUTO, 0 },
        { x, five, x, { 0 }, 0, "they must be [n, heads, t, k]", RF_ATTENTION_AUTO, 0 },
        { x, five, five, RF_SHAPE(1, 1, 5, 3), 0, "rf_attention: the mask is f32 [1,1,5,3], must be f32 [1,1,3,5]",
          RF_ATTENTION_AUTO, 0 },
        { x, five, five, RF_SHAPE(3, 5), 0, "rf_attention: the mask is f32 [3,5]", RF_ATTENTION_AUTO, 0 },
        { x, x, x, { 0 }, INFINITY, "rf_attention: scale is inf, must be finite", RF_ATTENTION_AUTO, 0 },
        { x, x, x, { 0 }, 0, "rf_attention: form 7 is unknown", (rf_attention_form)7, 0 },
        { x, x, x, { 0 }, 0, "the fused form has no dropout (0.5); use RF_ATTENTION_AUTO", RF_ATTENTION_FUSED, 0.5f },
        { x, x, x, { 0 }, 0, "first_query says where queries stand in a causal order", RF_ATTENTION_AUTO, 0, 1, false },
        { x, x, x, { 0 }, 0, "first_query is i32 [2], must be i32 of one element", RF_ATTENTION_AUTO, 0, 2, true },
        { x, x, x, { 0 }, 0, "window is 2; it counts keys back", RF_ATTENTION_AUTO, 0, 0, false, 2 },
        { x, x, x, { 0 }, 0, "window is -1; it counts keys back", RF_ATTENTION_AUTO, 0, 0, true, -1 },
        { x, x, x, { 0 }, 0, "softcap is -1, must be positive", RF_ATTENTION_AUTO, 0, 0, false, 0, -1 },
        { x, x, x, { 0 }, 0, "the fused form has no softcap", RF_ATTENTION_FUSED, 0, 0, false, 0, 1 },
        { x, x, x, { 0 }, 0, "segments are i32 [1,4]; they must be i32 or f32 [n, t]", .segments = 4 },
        { x, five, five, { 0 }, 0, "3 steps of queries and as many of keys, not 5", .segments = 3 },
        { x, x, x, { 0 }, 0, "with first_query there are earlier ones", .place = 1, .causal = true, .segments = 3 },
    };
    float example[1] = { 0 };
    const rf_element batch = { .num_components = 1, .component = { array_f32(RF_SHAPE(1), example) } };
    for (size_t i = 0; i < sizeof(mistakes) / sizeof(mistakes[0]); i++) {
        rf_function *function;
        mistake m = mistakes[i];
        OK(rf_function_create(strategy, &(rf_function_params){ .step = mistaken_step, .user = &m, .num_outputs = 1 },
                              &function));
        FAILS(rf_strategy_run(strategy, function, &batch, NULL), RF_ERROR_INVALID_ARGUMENT, m.message);
        rf_function_destroy(&function);
    }
}

TEST_ON_TWO(definition)
TEST_ON_TWO(drops)
TEST_ON_ONE(agree)
TEST_ON_ONE(refuses)

TESTS(attention, NULL, NULL)
