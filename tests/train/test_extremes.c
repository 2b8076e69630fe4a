/* SPDX-License-Identifier: Apache-2.0 */
/* Composed operations where their numbers are large, are stored in 16 bits, or are none. */
#include "../support/strategies.h"
#include "tests/room.h"

/* The numbers that a step computes with: its constants; `out` gets the results, as f32. */
typedef struct numbers {
    const float *a, *b;
    rf_shape shape;
    rf_dtype stored;
    rf_attention_form form;
    rf_tensor (*compute)(rf_trace *t, rf_tensor a, rf_tensor b);
} numbers;

static void run_numbers(rf_strategy *strategy, rf_step_fn step, numbers *n, uint32_t num_outputs, rf_array *out)
{
    rf_function *function;
    rf_per_replica *results[RF_MAX_COMPONENTS];
    float unused[2] = { 0 };
    const rf_element batch = { .num_components = 1, .component = { array_f32(RF_SHAPE(2), unused) } };
    OK(rf_function_create(
        strategy, &(rf_function_params){ .step = step, .user = n, .num_outputs = num_outputs, .training = true },
        &function));
    OK(rf_strategy_run(strategy, function, &batch, results));
    for (uint32_t i = 0; i < num_outputs; i++) {
        rf_array there;
        OK(rf_per_replica_local(results[i], 0, &there));
        out[i] = (rf_array){ there.dtype, there.shape, malloc(4 * (size_t)rf_shape_count(there.shape)) };
        assert_non_null(out[i].data);
        memcpy(out[i].data, there.data, 4 * (size_t)rf_shape_count(there.shape));
    }
    rf_function_destroy(&function);
}

static void free_numbers(rf_array *out, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) free(out[i].data);
}

static float at(const rf_array *a, int64_t i)
{
    return ((const float *)a->data)[i];
}

static rf_tensor constant(rf_trace *t, rf_shape shape, const float *values)
{
    return rf_constant_array(t, &(rf_array){ RF_F32, shape, (void *)(uintptr_t)values });
}

/* ---- attention ---- */

enum { KEYS = 3 };

/* One query a against keys b, of `width` columns of which the first counts; the values are 1, 10, 100. */
static rf_result scores_step(rf_trace *t, const rf_tensor *in, rf_tensor *out, void *user)
{
    static const float numbers_of[3] = { 1, 10, 100 };
    const numbers *n = user;
    const int64_t width = n->shape.dim[0];
    float query[4] = { 0 }, keys[KEYS * 4] = { 0 }, values[KEYS * 4] = { 0 };
    (void)in;
    query[0] = n->a[0];
    for (int k = 0; k < KEYS; k++) {
        keys[k * width] = n->b[k];
        for (int64_t c = 0; c < width; c++) values[k * width + c] = numbers_of[k];
    }
    const rf_tensor x[3] = { constant(t, RF_SHAPE(1, 1, 1, width), query),
                             constant(t, RF_SHAPE(1, 1, KEYS, width), keys),
                             constant(t, RF_SHAPE(1, 1, KEYS, width), values) };
    rf_tensor cast[3];
    for (int i = 0; i < 3; i++) cast[i] = rf_cast(t, x[i], n->stored);
    const rf_attention_params params = { .form = n->form, .scale = 1 };
    const rf_tensor y = rf_cast(t, rf_attention(t, cast[0], cast[1], cast[2], &params), RF_F32);
    const int64_t begin[4] = { 0 }, end[4] = { 1, 1, 1, 1 };
    out[0] = rf_slice(t, y, begin, end, NULL, 4);
    return rf_gradients(t, rf_reduce_sum(t, out[0], NULL, 0, RF_DROP_DIMS), x, 3, &out[1]);
}

/* By the definition, with what the largest score is taken off first. */
static void expect_attention(const numbers *n, const rf_array *out, double tolerance, const char *what)
{
    static const double values[3] = { 1, 10, 100 };
    const int64_t width = n->shape.dim[0];
    double score[KEYS], most = -INFINITY, total = 0, y = 0;
    for (int k = 0; k < KEYS; k++) {
        score[k] = (double)n->a[0] * (double)n->b[k];
        most = fmax(most, score[k]);
    }
    for (int k = 0; k < KEYS; k++) total += score[k] = exp(score[k] - most);
    for (int k = 0; k < KEYS; k++) y += score[k] / total * values[k];
    assert_near((double)at(&out[0], 0), y, tolerance, 0, what);
    for (int k = 0; k < KEYS; k++) {
        const double weight = score[k] / total, through = weight * (values[k] - y) * (double)n->a[0];
        assert_near((double)at(&out[2], k * width), through, tolerance, tolerance * fabs((double)n->a[0]), what);
        assert_near((double)at(&out[3], k * width), weight, tolerance, tolerance, what);
    }
}

static void large_scores(rf_strategy *strategy)
{
    static const struct {
        float query, keys[KEYS];
        rf_dtype stored;
        double tolerance;
    } cases[] = {
        { 2, { 0.5f, 0.25f, 1 }, RF_F32, 1e-5 },
        { 128, { 78, 78 + 1.0f / 128, 78 + 1.0f / 64 }, RF_F32, 1e-5 }, /* about 1e4 */
        { 1024, { 1024, 1024 + 1.0f / 1024, 1024 }, RF_F32, 1e-5 },     /* 1e6 */
        { 4096, { 16384 + 1.0f / 512, 16384, 16384 }, RF_F32, 1e-5 },   /* 7e7: neighbours differ by 8 */
        { 4096, { -16384, -16384 - 1.0f / 512, -16384 }, RF_F32, 1e-5 },
        { 1e9f, { 1e9f, 1e9f, -1e9f }, RF_F32, 1e-5 },
        { 512, { 256, 256, 255 }, RF_F16, 1e-3 }, /* 131,072: more than f16 holds */
        { 512, { -256, -256, -512 }, RF_F16, 1e-3 },
        { 2, { 0.5f, 0.25f, 1 }, RF_F16, 2e-3 },
        { 512, { 256, 256, 255 }, RF_BF16, 1e-2 },
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        for (int wide = 0; wide < 2; wide++) /* four columns are what other kernels take */
            for (int form = RF_ATTENTION_COMPOSED; form <= RF_ATTENTION_FUSED; form++) {
                char what[64];
                rf_array out[4];
                numbers n = { .a = &cases[i].query,
                              .b = cases[i].keys,
                              .shape = RF_SHAPE(wide ? 4 : 1),
                              .stored = cases[i].stored,
                              .form = (rf_attention_form)form };
                snprintf(what, sizeof(what), "case %zu, form %d, width %d", i, form, wide ? 4 : 1);
                run_numbers(strategy, scores_step, &n, 4, out);
                expect_attention(&n, out, cases[i].tolerance, what);
                free_numbers(out, 4);
            }
}

/* Keys that score 0 but for the last one, which scores a; the mask is b, and `shape` is not empty where queries have
 * places. */
static rf_result masked_step(rf_trace *t, const rf_tensor *in, rf_tensor *out, void *user)
{
    static const float one[1] = { 1 }, values[KEYS] = { 1, 10, 100 };
    const numbers *n = user;
    const float keys[KEYS] = { 0, 0, n->a[0] };
    const int32_t places[2] = { 0, 1 };
    rf_attention_params params = { .form = n->form, .causal = n->shape.rank > 0, .scale = 1 };
    (void)in;
    if (n->b) params.mask = constant(t, RF_SHAPE(1, 1, 1, KEYS), n->b);
    if (n->shape.rank > 0 && n->shape.dim[0] < 2)
        params.first_query =
            rf_constant_array(t, &(rf_array){ RF_I32, RF_SCALAR_SHAPE, (void *)(uintptr_t)&places[n->shape.dim[0]] });
    const rf_tensor queries = n->shape.rank > 0 && n->shape.dim[0] == 2
                                  ? rf_tile(t, constant(t, RF_SHAPE(1, 1, 1, 1), one), (const int64_t[]){ 1, 1, 3 }, 3)
                                  : constant(t, RF_SHAPE(1, 1, 1, 1), one);
    const rf_tensor y = rf_attention(t, queries, constant(t, RF_SHAPE(1, 1, KEYS, 1), keys),
                                     constant(t, RF_SHAPE(1, 1, KEYS, 1), values), &params);
    const int64_t begin[3] = { 0 }, end[3] = { 1, 1, 1 };
    out[0] = rf_slice(t, y, begin, end, NULL, 3); /* of the first query */
    return rf_trace_status(t);
}

/* A NaN in the mask counts as attended to, but not where the order hides the key; and no score reaches through either,
 * however large it is. */
static void masks(rf_strategy *strategy)
{
    static const struct {
        bool masked;
        float mask[KEYS];
        int place; /* of the query; 2: there are three queries, in causal order; -1: no order */
        float last_score, expected;
    } cases[] = {
        { true, { NAN, 0, 0 }, -1, 0, 1 },   { true, { 0, NAN, 0 }, -1, 0, 10 },     { true, { 1, 1, NAN }, 0, 0, 1 },
        { true, { 1, 1, NAN }, 1, 0, 5.5f }, { true, { NAN, NAN, NAN }, 2, 0, 1 },   { true, { 0, NAN, NAN }, 0, 0, 0 },
        { true, { 1, 0, 0 }, -1, 1e9f, 1 },  { true, { 1, 1, 0 }, -1, 1e30f, 5.5f }, { true, { 1, 1, 1 }, 0, 1e20f, 1 },
        { false, { 0 }, 0, 1e20f, 1 },       { false, { 0 }, 2, 3e9f, 1 },           { false, { 0 }, 2, 1e30f, 1 },
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        for (int form = RF_ATTENTION_COMPOSED; form <= RF_ATTENTION_FUSED; form++) {
            char what[64];
            rf_array out;
            numbers n = { .a = &cases[i].last_score,
                          .b = cases[i].masked ? cases[i].mask : NULL,
                          .form = (rf_attention_form)form };
            if (cases[i].place >= 0) n.shape = (rf_shape){ 1, { cases[i].place } };
            snprintf(what, sizeof(what), "mask %zu, form %d", i, form);
            run_numbers(strategy, masked_step, &n, 1, &out);
            assert_near((double)at(&out, 0), (double)cases[i].expected, 1e-5, 0, what);
            free_numbers(&out, 1);
        }
}

/* ---- losses and statistics of what is stored in 16 bits ---- */

static rf_tensor huber(rf_trace *t, rf_tensor a, rf_tensor b)
{
    return rf_huber(t, a, b, 500);
}

static rf_tensor cross_entropy(rf_trace *t, rf_tensor a, rf_tensor b)
{
    return rf_binary_crossentropy(t, a, b, RF_PROBABILITIES);
}

static rf_tensor cross_entropy_of_logits(rf_trace *t, rf_tensor a, rf_tensor b)
{
    return rf_binary_crossentropy(t, a, b, RF_LOGITS);
}

static rf_tensor variance_of(rf_trace *t, rf_tensor a, rf_tensor b)
{
    const int32_t last = -1;
    rf_tensor mean, variance;
    (void)a;
    rf_moments(t, b, &last, 1, RF_DROP_DIMS, &mean, &variance);
    return variance;
}

static rf_result narrow_step(rf_trace *t, const rf_tensor *in, rf_tensor *out, void *user)
{
    const numbers *n = user;
    const rf_tensor a = constant(t, n->shape, n->a), b = constant(t, n->shape, n->b);
    (void)in;
    out[0] = rf_cast(t, n->compute(t, rf_cast(t, a, n->stored), rf_cast(t, b, n->stored)), RF_F32);
    return rf_gradients(t, rf_reduce_sum(t, out[0], NULL, 0, RF_DROP_DIMS), &b, 1, &out[1]);
}

/* Numbers that 16 bits hold exactly, so that nothing but what happens on the way could make a difference. */
static void narrow_losses(rf_strategy *strategy)
{
    static const float zeros[4] = { 0 }, large[4] = { 300, -1000, 2048, 16384 }, classes[4] = { 1, 0, 1, 0 };
    static const float sure[4] = { 0, 1, 1, 0 }, logits[4] = { 512, -1024, -512, 1024 }, many[4] = { 1024, 1, 512, 0 };
    const struct {
        const char *what;
        rf_tensor (*compute)(rf_trace *t, rf_tensor a, rf_tensor b);
        const float *a, *b;
    } cases[] = {
        { "squared error", rf_mean_squared_error, zeros, large },
        { "absolute error", rf_mean_absolute_error, zeros, large },
        { "huber", huber, zeros, large },
        { "binary crossentropy", cross_entropy, classes, sure },
        { "binary crossentropy of logits", cross_entropy_of_logits, many, logits },
        { "divergence", rf_kl_divergence, classes, sure },
        { "variance", variance_of, zeros, large },
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        for (int type = 0; type < 2; type++) {
            rf_array narrow[2], wide[2];
            numbers n = {
                .a = cases[i].a, .b = cases[i].b, .shape = RF_SHAPE(1, 4), .stored = RF_F32, .compute = cases[i].compute
            };
            run_numbers(strategy, narrow_step, &n, 2, wide);
            n.stored = type ? RF_BF16 : RF_F16;
            run_numbers(strategy, narrow_step, &n, 2, narrow);
            assert_near((double)at(&narrow[0], 0), (double)at(&wide[0], 0), type ? 0.005 : 1e-5, 0, cases[i].what);
            for (int k = 0; k < 4; k++)
                if (fabsf(at(&wide[1], k)) < 65504) /* more than a gradient in f16 can be */
                    assert_near((double)at(&narrow[1], k), (double)at(&wide[1], k), type ? 0.01 : 1e-3, 1e-6,
                                cases[i].what);
            free_numbers(narrow, 2);
            free_numbers(wide, 2);
        }
}

/* ---- layers ---- */

/* The call of a model whose layer is called without it. */
static rf_tensor never_called(rf_trace *t, rf_model *model, rf_tensor x, rf_mode mode, void *user)
{
    (void)model, (void)mode, (void)user;
    return rf_relu(t, x);
}

typedef struct layer_call {
    rf_model *model;
    rf_layer *layer;
    uint32_t num_inputs;
} layer_call;

static rf_result layer_step(rf_trace *t, const rf_tensor *in, rf_tensor *out, void *user)
{
    const layer_call *c = user;
    rf_tensor x[2] = { rf_cast(t, in[0], RF_F16), rf_cast(t, in[1], RF_F16) };
    const rf_layer_apply_params params = { .in = x, .num_in = c->num_inputs, .mode = RF_TRAINING };
    rf_layer_apply(t, c->model, c->layer, &params, out, 1);
    out[0] = rf_cast(t, out[0], RF_F32);
    return rf_trace_status(t);
}

static void run_layer(rf_strategy *strategy, rf_layer *layer, uint32_t num_inputs, float *a, float *b, float *y)
{
    layer_call c = { .layer = layer, .num_inputs = num_inputs };
    rf_function *function;
    OK(rf_model_create_custom(strategy, never_called, NULL, &c.model));
    OK(rf_model_add_layer(c.model, layer));
    OK(rf_function_create(strategy,
                          &(rf_function_params){ .step = layer_step, .user = &c, .num_outputs = 1, .training = true },
                          &function));
    const rf_element batch = { 2, { array_f32(RF_SHAPE(2, 2, 3), a), array_f32(RF_SHAPE(2, 2, 3), b) } };
    rf_array out = run_gathered(strategy, function, &batch);
    memcpy(y, out.data, 12 * sizeof(float));
    rf_array_free(&out);
    rf_function_destroy(&function);
    rf_model_destroy(&c.model);
}

/* Results that f16 holds, of numbers that it holds, but by way of squares and sums that it does not. */
static void narrow_layers(rf_strategy *strategy)
{
    static float a[12] = { 600, -600, 1200, 5, 6, 7, -904, 904, 0, 8, 9, 1 };
    static float b[12] = { 49152, 57344, -49152, 1, 2, 3, 4, 5, 6, 7, 8, 57344 };
    const rf_dtype_policy half = { .compute = RF_F16 };
    float y[12];
    rf_layer *layer;
    OK(rf_strategy_set_dtype_policy(strategy, &half));
    OK(rf_layer_average(&layer));
    run_layer(strategy, layer, 2, b, b, y);
    for (int i = 0; i < 12; i++) assert_near((double)y[i], (double)b[i], 1e-3, 0, "average");
    OK(rf_layer_batch_norm(&(rf_batch_norm_params){ .axis = 1 }, &layer));
    run_layer(strategy, layer, 1, a, a, y);
    for (int c = 0; c < 2; c++) {
        double mean = 0, variance = 0;
        for (int i = 0; i < 6; i++) mean += (double)a[i / 3 * 6 + c * 3 + i % 3] / 6;
        for (int i = 0; i < 6; i++) variance += pow((double)a[i / 3 * 6 + c * 3 + i % 3] - mean, 2) / 6;
        for (int i = 0; i < 6; i++) {
            const int at_i = i / 3 * 6 + c * 3 + i % 3;
            assert_near((double)y[at_i], ((double)a[at_i] - mean) / sqrt(variance + 1e-3), 2e-3, 2e-3, "batch norm");
        }
    }
    OK(rf_strategy_set_dtype_policy(strategy, NULL));
}

/* ---- products that overflow on the way, and what is not a number ---- */

enum { FACTORS = 6, DRAWN = 400 };

static rf_result products_step(rf_trace *t, const rf_tensor *in, rf_tensor *out, void *user)
{
    const numbers *n = user;
    const rf_shape shape = RF_SHAPE(n->shape.dim[2], FACTORS);
    const rf_tensor x = constant(t, shape, n->a), weights = constant(t, shape, n->b);
    const bool exclusive = n->shape.dim[0], reverse = n->shape.dim[1];
    (void)in;
    /* The weights come in by the gradient alone: products that are not finite times 0 are not numbers. */
    const rf_tensor y = rf_cumprod(t, x, (rf_scan_form)(exclusive | reverse << 1));
    const rf_tensor loss = rf_where(t, weights, rf_multiply(t, y, weights), rf_constant(t, 0));
    return rf_gradients(t, rf_reduce_sum(t, loss, NULL, 0, RF_DROP_DIMS), &x, 1, out);
}

/* *size: of the addends. */
static double product_gradient(const float *x, const float *weights, bool exclusive, bool reverse, int i, double *size)
{
    double sum = 0;
    *size = 0;
    for (int j = 0; j < FACTORS; j++) {
        double product = 1;
        bool has = false;
        for (int k = 0; k < FACTORS; k++) {
            if (reverse ? k < j + exclusive : k > j - exclusive) continue;
            if (k == i)
                has = true;
            else
                product *= (double)x[k];
        }
        if (!has) continue;
        sum += (double)weights[j] * product;
        *size += fabs((double)weights[j] * product);
    }
    return sum;
}

/* Sizes from 1e-37 to 1e37, and up to two zeros. */
static void draw_products(float *x, float *weights, int row)
{
    static uint32_t random = 12345;
    for (int k = 0; k < 2 * FACTORS; k++) {
        random = random * 1664525u + 1013904223u;
        const float size = powf(10, (float)(random >> 8) / 16777216.0f * 74 - 37);
        if (k < FACTORS)
            x[k] = random & 64 ? -size : size;
        else
            weights[k - FACTORS] = row & 8 && random & 64 ? 0 : size;
    }
    for (int zeros = 0; zeros < row % 4 % 3; zeros++) {
        random = random * 1664525u + 1013904223u;
        x[(random >> 8) % FACTORS] = 0;
    }
}

static void check_products(rf_strategy *strategy, const float *x, const float *weights, int64_t rows, int form)
{
    char what[64];
    rf_array out;
    const bool exclusive = form & 1, reverse = form & 2;
    numbers n = { .a = x, .b = weights, .shape = { 3, { exclusive, reverse, rows } } };
    run_numbers(strategy, products_step, &n, 1, &out);
    for (int i = 0; i < rows * FACTORS; i++) {
        double size;
        const int row = i / FACTORS * FACTORS;
        const double expected = product_gradient(x + row, weights + row, exclusive, reverse, i - row, &size);
        snprintf(what, sizeof(what), "products %d, form %d, factor %d", row / FACTORS, form, i - row);
        if (size < 3e38) assert_near((double)at(&out, i), expected, 0, 1e-5 * size + 2e-38, what);
        if (fabs(expected) > 4e38) assert_true(isinf(at(&out, i)));
    }
    free_numbers(&out, 1);
}

static void products(rf_strategy *strategy)
{
    static const float cases[][2][FACTORS] = {
        { { 2, -3, 0.5f, 4, 1, -2 }, { 1, 2, -1, 3, 1, 1 } },
        { { 2, 0, 0.5f, 4, 0, -2 }, { 1, 2, -1, 3, 1, 1 } },
        { { 1e20f, 1e20f, 1e-30f, 1e-30f, 2, 3 }, { 1, 0, 0, 1, 0, 1 } },
        { { 1e-20f, 1e-20f, 1e30f, 1e30f, 2, 3 }, { 0, 0, 0, 0, 1, 1 } },
        { { 1e30f, 1e30f, 1e-30f, -1e-30f, 1e30f, 1e-30f }, { 0, 0, 0, 0, 0, 1 } },
        { { 3, 2, 1e-30f, -1e-30f, 1e30f, 1e30f }, { 1, 0, 0, 0, 0, 1 } },
        { { 1e30f, 1e30f, 0, 1e-30f, 1, 1 }, { 0, 0, 0, 0, 1, 1 } },
        { { 1e30f, 1e30f, 0, 1e-30f, 1e-30f, 1 }, { 0, 0, 0, 0, 0, 1 } }, /* of the zero: a number again */
        { { 1e30f, 1e5f, 0, 1e30f, 1e30f, 1 }, { 1, 1, 0, 0, 0, 0 } },
        { { 1e20f, 1e20f, 2, 1e-10f, 3, 1 }, { 0, 1, 0, 0, 0, 0 } }, /* the products overflow, the gradient does not */
        { { 1e-20f, 1e-20f, 2, 0.5f, 3, 1 }, { 0, 1, 0, 0, 0, 0 } },
    };
    static float x[DRAWN * FACTORS], weights[DRAWN * FACTORS];
    for (int i = 0; i < DRAWN; i++) draw_products(x + i * FACTORS, weights + i * FACTORS, i);
    for (int form = 0; form < 4; form++) {
        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
            check_products(strategy, cases[i][0], cases[i][1], 1, form);
        check_products(strategy, x, weights, DRAWN, form);
    }
}

static rf_result larger_step(rf_trace *t, const rf_tensor *in, rf_tensor *out, void *user)
{
    const numbers *n = user;
    const rf_tensor x[2] = { constant(t, n->shape, n->a), constant(t, n->shape, n->b) };
    (void)in;
    rf_gradients(t, rf_reduce_sum(t, n->compute(t, x[0], x[1]), NULL, 0, RF_DROP_DIMS), x, 2, out);
    return rf_trace_status(t);
}

static rf_tensor clip(rf_trace *t, rf_tensor a, rf_tensor b)
{
    (void)b;
    return rf_clip(t, a, -1, 1);
}

/* Where an operand is no number, nor is the gradient by any: training must not look healthy. */
static void not_numbers(rf_strategy *strategy)
{
    static const float a[8] = { NAN, 1, NAN, 2, 1, 3, INFINITY, -INFINITY };
    static const float b[8] = { 1, NAN, NAN, 1, 2, 3, INFINITY, INFINITY };
    const struct {
        rf_tensor (*compute)(rf_trace *t, rf_tensor a, rf_tensor b);
        float expected[2][8];
    } cases[] = {
        { rf_maximum, { { NAN, NAN, NAN, 1, 0, 1, 1, 0 }, { NAN, NAN, NAN, 0, 1, 0, 0, 1 } } },
        { rf_minimum, { { NAN, NAN, NAN, 0, 1, 1, 1, 1 }, { NAN, NAN, NAN, 1, 0, 0, 0, 0 } } },
        { clip, { { NAN, 1, NAN, 0, 1, 0, 0, 0 }, { 0 } } },
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        rf_array out[2];
        numbers n = { .a = a, .b = b, .shape = RF_SHAPE(8), .compute = cases[i].compute };
        run_numbers(strategy, larger_step, &n, 2, out);
        for (int k = 0; k < 16; k++) {
            const float expected = cases[i].expected[k / 8][k % 8], is = at(&out[k / 8], k % 8);
            if (isnan(expected) ? !isnan(is) : is != expected)
                fail_msg("case %zu, element %d: %g, should be %g", i, k, (double)is, (double)expected);
        }
        free_numbers(out, 2);
    }
}

/* ---- gradients of gradients ---- */

/* The gradient of mean times variance along axis 0 of [3], as the defining formula has it. */
static rf_result second_step(rf_trace *t, const rf_tensor *in, rf_tensor *out, void *user)
{
    const numbers *n = user;
    const int32_t axis = (int32_t)n->shape.rank - 1;
    const rf_tensor x = constant(t, n->shape, n->a);
    rf_tensor mean, variance, first;
    (void)in;
    if (n->b) {
        mean = rf_reduce_mean(t, x, &axis, 1, RF_KEEP_DIMS);
        variance = rf_reduce_mean(t, rf_square(t, rf_subtract(t, x, mean)), &axis, 1, RF_KEEP_DIMS);
    } else {
        rf_moments(t, x, &axis, 1, RF_KEEP_DIMS, &mean, &variance);
    }
    rf_gradients(t, rf_reduce_sum(t, rf_multiply(t, mean, variance), NULL, 0, RF_DROP_DIMS), &x, 1, &first);
    return rf_gradients(t, rf_reduce_sum(t, rf_square(t, first), NULL, 0, RF_DROP_DIMS), &x, 1, out);
}

static void second_order(rf_strategy *strategy)
{
    static const float x[6] = { 1, 2, 4, -3, 0, 8 };
    const rf_shape shapes[] = { RF_SHAPE(3), RF_SHAPE(2, 3), RF_SHAPE(1, 2, 3) };
    for (size_t i = 0; i < sizeof(shapes) / sizeof(shapes[0]); i++) {
        rf_array given, by_hand;
        numbers n = { .a = x, .shape = shapes[i] };
        run_numbers(strategy, second_step, &n, 1, &given);
        n.b = x;
        run_numbers(strategy, second_step, &n, 1, &by_hand);
        for (int64_t k = 0; k < rf_shape_count(shapes[i]); k++)
            assert_near((double)at(&given, k), (double)at(&by_hand, k), 1e-4, 1e-4, "second order of moments");
        free_numbers(&given, 1);
        free_numbers(&by_hand, 1);
    }
}

/* ---- decoding with keys and values that are kept, for each example of the batch ---- */

typedef struct decoder {
    rf_variable *kept;
    int traces;
} decoder;

static rf_result decode_step(rf_trace *t, const rf_tensor *in, rf_tensor *out, void *user)
{
    decoder *d = user;
    const int64_t first = 0, second = 1;
    const rf_tensor place = rf_slice(t, in[1], &first, &second, NULL, 1);
    const rf_tensor all = rf_slice_update(t, rf_variable_tensor(t, d->kept), in[0], place, 2);
    d->traces++;
    out[0] = rf_attention(t, in[0], all, all, &(rf_attention_params){ .causal = true, .first_query = place });
    return rf_variable_update(t, d->kept, all, RF_AGGREGATE_FIRST_REPLICA);
}

/* Three steps for batches of several sizes, of which 1 broadcasts against others. */
static void decoding(rf_strategy *strategy)
{
    for (int64_t n = 1; n < 4; n++) {
        decoder d = { 0 };
        rf_function *function;
        OK(rf_variable_create(
            strategy, &(rf_variable_params){ .name = "kept", .shape = RF_SHAPE(n, 1, 4, 1), .not_trainable = true },
            &d.kept));
        OK(rf_function_create(strategy, &(rf_function_params){ .step = decode_step, .user = &d, .num_outputs = 1 },
                              &function));
        for (int step = 0; step < 3; step++) {
            float x[3];
            int32_t places[3] = { step, step, step };
            for (int i = 0; i < n; i++) x[i] = (float)(step - i) * 0.5f;
            const rf_element batch = { 2, { array_f32(RF_SHAPE(n, 1, 1, 1), x), array_i32(RF_SHAPE(n), places) } };
            rf_array y = run_gathered(strategy, function, &batch);
            for (int i = 0; i < n; i++) {
                double sum = 0, total = 0;
                for (int k = 0; k <= step; k++) {
                    const double key = (k - i) * 0.5, weight = exp(key * (double)x[i]);
                    sum += weight * key;
                    total += weight;
                }
                assert_near((double)at(&y, i), sum / total, 1e-5, 1e-6, "decoding");
            }
            rf_array_free(&y);
        }
        assert_int_equal(d.traces, n == 1 ? 2 : 1);
        rf_function_destroy(&function);
        rf_variable_destroy(&d.kept);
    }
}

static rf_result mistaken_step(rf_trace *t, const rf_tensor *in, rf_tensor *out, void *user)
{
    (void)user;
    out[0] = rf_matmul(t, in[0], in[0], RF_TRANSPOSE_NONE);
    return rf_trace_status(t);
}

/* A function that was traced with one example alone is traced again for more; and a mistake is told of in the shapes
 * that were passed. */
static rf_result either_step(rf_trace *t, const rf_tensor *in, rf_tensor *out, void *user)
{
    if (rf_tensor_shape(t, in[0]).dim[0] == *(const int *)user)
        return rf_trace_fail(t, RF_ERROR_INVALID_ARGUMENT, "refused");
    out[0] = rf_reduce_sum(t, in[0], NULL, 0, RF_DROP_DIMS);
    return rf_trace_status(t);
}

static void one_example(rf_strategy *strategy)
{
    float x[3] = { 1, 2, 3 }, sum;
    int refused = 2;
    rf_function *function;
    OK(rf_function_create(strategy, &(rf_function_params){ .step = either_step, .user = &refused, .num_outputs = 1 },
                          &function));
    for (int n = 1; n < 4; n++) {
        const rf_element batch = { 1, { array_f32(RF_SHAPE(n, 1), x) } };
        if (n == 2) {
            FAILS(rf_strategy_run(strategy, function, &batch, NULL), RF_ERROR_INVALID_ARGUMENT, "refused");
            continue;
        }
        run_once(strategy, function, &batch, &sum, 1);
        assert_near((double)sum, n == 1 ? 1 : 6, 0, 0, "sum");
    }
    rf_function_destroy(&function);
    OK(rf_function_create(strategy, &(rf_function_params){ .step = mistaken_step, .num_outputs = 1 }, &function));
    const rf_element batch = { 1, { array_f32(RF_SHAPE(1, 3), x) } };
    FAILS(rf_strategy_run(strategy, function, &batch, NULL), RF_ERROR_INVALID_ARGUMENT, "[1,3]");
    rf_function_destroy(&function);
}

TEST_ON_ONE(large_scores)
TEST_ON_ONE(masks)
TEST_ON_ONE(narrow_losses)
TEST_ON_ONE(narrow_layers)
TEST_ON_ONE(second_order)
TEST_ON_ONE(products)
TEST_ON_ONE(not_numbers)
TEST_ON_ONE(decoding)
TEST_ON_ONE(one_example)

TESTS(extremes, NULL, NULL)
