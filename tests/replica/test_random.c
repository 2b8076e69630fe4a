/* SPDX-License-Identifier: Apache-2.0 */
/* Every random operation, wherever the batch stands in its tensor and however it is split: the numbers are those of one
 * device, or the call is refused. */
#include <stdio.h>

#include "base/error.h"
#include "base/philox.h"
#include "job.h"
#include "tests/room.h"

enum { ROWS = 4, COLUMNS = 6, EXAMPLE = ROWS * COLUMNS, MOST = 7 };

/* ---- where the batch stands ---- */

static rf_tensor transposed(rf_trace *t, rf_tensor x, int32_t a, int32_t b, int32_t c, int32_t d)
{
    return rf_transpose(t, x, (int32_t[]){ a, b, c, d });
}

/* From [n, ROWS, COLUMNS], and back to [n, EXAMPLE * k]. */
typedef rf_tensor (*form_fn)(rf_trace *t, rf_tensor x);

static rf_tensor front(rf_trace *t, rf_tensor x)
{
    return rf_multiply(t, x, x);
}
static rf_tensor examples(rf_trace *t, rf_tensor y)
{
    return rf_reshape(t, y, RF_SHAPE(-1, EXAMPLE));
}
static rf_tensor merged(rf_trace *t, rf_tensor x)
{
    return rf_reshape(t, x, RF_SHAPE(-1, COLUMNS));
}
static rf_tensor flat(rf_trace *t, rf_tensor x)
{
    return rf_reshape(t, x, RF_SHAPE(-1));
}
static rf_tensor across(rf_trace *t, rf_tensor x) /* rows that begin and end within examples */
{
    return rf_reshape(t, x, RF_SHAPE(3, -1));
}
static rf_tensor middle(rf_trace *t, rf_tensor x)
{
    return transposed(t, x, 1, 0, 2, 0);
}
static rf_tensor middle_back(rf_trace *t, rf_tensor y)
{
    return examples(t, middle(t, y));
}
static rf_tensor last(rf_trace *t, rf_tensor x)
{
    return transposed(t, x, 1, 2, 0, 0);
}
static rf_tensor last_back(rf_trace *t, rf_tensor y)
{
    return examples(t, transposed(t, y, 2, 0, 1, 0));
}
static rf_tensor odd_middle(rf_trace *t, rf_tensor x) /* rows of 3, so that nothing is aligned */
{
    return transposed(t, rf_reshape(t, x, RF_SHAPE(-1, 8, 3)), 1, 0, 2, 0);
}
static rf_tensor rows_first(rf_trace *t, rf_tensor x)
{
    return rf_reshape(t, middle(t, x), RF_SHAPE(-1, COLUMNS));
}
static rf_tensor rows_first_back(rf_trace *t, rf_tensor y)
{
    return middle_back(t, rf_reshape(t, y, RF_SHAPE(ROWS, -1, COLUMNS)));
}
static rf_tensor joined(rf_trace *t, rf_tensor x)
{
    return rf_concat(t, (rf_tensor[]){ x, rf_sqrt(t, x) }, 2, 0);
}
static rf_tensor joined_back(rf_trace *t, rf_tensor y)
{
    rf_tensor part[2];
    if (rf_split_tensor(t, y, 0, 2, part) < 0) return (rf_tensor){ 0, 0 };
    for (int i = 0; i < 2; i++) part[i] = examples(t, part[i]);
    return rf_concat(t, part, 2, 1);
}
static rf_tensor images(rf_trace *t, rf_tensor x)
{
    return rf_reshape(t, x, RF_SHAPE(-1, 2, 2, COLUMNS));
}
static rf_tensor second_of_four(rf_trace *t, rf_tensor x)
{
    return transposed(t, images(t, x), 1, 0, 2, 3);
}
static rf_tensor second_back(rf_trace *t, rf_tensor y)
{
    return examples(t, transposed(t, y, 1, 0, 2, 3));
}
static rf_tensor parameters(rf_trace *t, rf_tensor x)
{
    static float one[EXAMPLE];
    for (int i = 0; i < EXAMPLE; i++) one[i] = 1.5f;
    (void)x;
    return rf_constant_array(t, &(rf_array){ RF_F32, RF_SHAPE(1, ROWS, COLUMNS), one });
}

static const struct {
    const char *name;
    form_fn to, back;
    bool examples_first; /* as layers want it that know examples from steps and channels */
} forms[] = {
    { "front", front, examples, true },
    { "merged", merged, examples },
    { "flat", flat, examples },
    { "across", across, examples },
    { "middle", middle, middle_back },
    { "last", last, last_back },
    { "odd_middle", odd_middle, middle_back },
    { "rows_first", rows_first, rows_first_back },
    { "joined", joined, joined_back },
    { "images", images, examples, true },
    { "second_of_four", second_of_four, second_back },
    { "parameters", parameters, examples },
};
enum { NUM_FORMS = sizeof(forms) / sizeof(forms[0]) };

/* ---- what draws ---- */

typedef rf_tensor (*draw_fn)(rf_trace *t, rf_tensor x);

static rf_tensor dropout(rf_trace *t, rf_tensor x)
{
    return rf_dropout(t, x, 0.5f, 0);
}
static rf_tensor seeded_dropout(rf_trace *t, rf_tensor x)
{
    return rf_dropout(t, x, 0.3f, 5);
}
static rf_tensor dropout_gradient(rf_trace *t, rf_tensor x)
{
    rf_tensor slope = { 0, 0 };
    const rf_tensor y = rf_dropout(t, x, 0.4f, 0);
    const rf_tensor sum = rf_reduce_sum(t, rf_multiply(t, y, y), NULL, 0, RF_DROP_DIMS);
    return rf_gradients(t, sum, &x, 1, &slope) < 0 ? (rf_tensor){ 0, 0 } : slope;
}
static rf_tensor uniform(rf_trace *t, rf_tensor x)
{
    return rf_random_uniform(t, x, -2, 3, 0);
}
static rf_tensor normal(rf_trace *t, rf_tensor x)
{
    return rf_random_normal(t, x, 0);
}
/* Queries of zeros make all weights equal: only the choice of the weights that are left is random. */
static rf_tensor attention(rf_trace *t, rf_tensor x)
{
    const rf_attention_params params = { .dropout = 0.5f };
    const rf_tensor y = rf_attention(t, rf_multiply(t, x, rf_constant(t, 0)), x, x, &params);
    return rf_compare(t, RF_GREATER, y, rf_constant(t, 0));
}
static const struct {
    draw_fn draw;
    int32_t least, most; /* ranks */
} draws[] = { { dropout, 1, 6 }, { seeded_dropout, 1, 6 }, { dropout_gradient, 1, 6 },
              { uniform, 1, 6 }, { normal, 1, 6 },         { attention, 4, 4 } };
enum { NUM_DRAWS = sizeof(draws) / sizeof(draws[0]) };

/* Layers, and the ranks that they take. */
static rf_result create_layer(int i, rf_layer **out, int32_t *least, int32_t *most)
{
    rf_layer *inner = NULL;
    const rf_multi_head_attention_params attention = { .num_heads = 2, .key_dim = 3, .dropout = 0.5f };
    *least = i == 3 || i >= 5 ? 3 : i == 4 ? 4 : 2;
    *most = i == 3 || i == 6 ? 3 : i == 4 ? 4 : 6;
    switch (i) {
    case 0: return rf_layer_dropout(0.5f, 0, out);
    case 1: return rf_layer_gaussian_noise(0.5f, 0, out);
    case 2: return rf_layer_gaussian_dropout(0.5f, 9, out);
    case 3: return rf_layer_spatial_dropout1d(0.5f, 0, out);
    case 4: return rf_layer_spatial_dropout2d(0.5f, 0, out);
    case 6: return rf_layer_multi_head_attention(&attention, out);
    default: RF_TRY(rf_layer_dropout(0.5f, 0, &inner)); return rf_layer_time_distributed(inner, NULL, out);
    }
}
enum { ATTENTION_LAYER = 6, NUM_LAYERS, NUM_PARTS = NUM_DRAWS + NUM_LAYERS };

/* ---- all of them in one step ---- */

typedef struct sweep {
    int form;
    rf_model *model;
    rf_layer *layers[NUM_LAYERS];
    int32_t least[NUM_LAYERS], most[NUM_LAYERS];
} sweep;

static rf_tensor part_of(rf_trace *t, const sweep *s, int part, rf_tensor x)
{
    const int32_t rank = rf_tensor_shape(t, x).rank;
    const int layer = part - NUM_DRAWS;
    if (layer < 0)
        return rank >= draws[part].least && rank <= draws[part].most ? draws[part].draw(t, x) : (rf_tensor){ 0, 0 };
    if (rank < s->least[layer] || rank > s->most[layer]) return (rf_tensor){ 0, 0 };
    if (s->least[layer] > 2 && !forms[s->form].examples_first) return (rf_tensor){ 0, 0 };
    if (layer != ATTENTION_LAYER) return rf_layer_call(t, s->model, s->layers[layer], x, RF_TRAINING);
    rf_tensor y = { 0, 0 };
    const rf_tensor in[] = { x, x, x };
    const rf_layer_apply_params params = { .in = in, .num_in = 3, .mode = RF_TRAINING };
    return rf_layer_apply(t, s->model, s->layers[layer], &params, &y, 1) < 0 ? (rf_tensor){ 0, 0 } : y;
}

static rf_tensor call_model(rf_trace *t, rf_model *model, rf_tensor in, rf_mode mode, void *user)
{
    const sweep *s = user;
    rf_tensor parts[NUM_PARTS];
    uint32_t count = 0;
    const rf_tensor x = forms[s->form].to(t, in), zero = rf_multiply(t, examples(t, in), rf_constant(t, 0));
    (void)model;
    (void)mode;
    for (int p = 0; p < NUM_PARTS; p++) {
        rf_tensor y = part_of(t, s, p, x);
        if (y.id == 0) continue;
        y = forms[s->form].back(t, y);
        parts[count++] = rf_tensor_shape(t, y).dim[1] == EXAMPLE ? rf_add(t, y, zero) : y;
    }
    return rf_concat(t, parts, count, 1);
}

static rf_result sweep_step(rf_trace *t, const rf_tensor *in, rf_tensor *out, void *user)
{
    out[0] = rf_model_call(t, ((sweep *)user)->model, in[0], RF_TRAINING);
    return rf_trace_status(t);
}

/* Numbers that no element has in common with another. */
static rf_element make_batch(uint32_t rows)
{
    static float x[MOST * EXAMPLE];
    for (int i = 0; i < MOST * EXAMPLE; i++) x[i] = 1 + (float)i / 256;
    return (rf_element){ 1, { { RF_F32, RF_SHAPE(rows, ROWS, COLUMNS), x } } };
}

static rf_result create_step(worker *w, sweep *s, rf_function **out)
{
    RF_TRY(rf_model_create_custom(w->strategy, call_model, s, &s->model));
    for (int i = 0; i < NUM_LAYERS; i++) {
        RF_TRY(create_layer(i, &s->layers[i], &s->least[i], &s->most[i]));
        RF_TRY(rf_model_add_layer(s->model, s->layers[i]));
    }
    const rf_function_params params = { .step = sweep_step, .user = s, .num_outputs = 1, .training = true };
    return rf_function_create(w->strategy, &params, out);
}

static rf_result run_form(worker *w, sweep *s)
{
    static const uint32_t batches[] = { MOST, 2, 1, MOST };
    rf_function *f = NULL;
    rf_result r = create_step(w, s, &f);
    for (int b = 0; r == RF_OK && b < 4; b++) {
        const rf_element batch = make_batch(batches[b]);
        rf_per_replica *result;
        rf_array y = { 0 };
        r = rf_strategy_run(w->strategy, f, &batch, &result);
        if (r == RF_OK) r = rf_strategy_gather(w->strategy, result, &y);
        if (r == RF_OK) {
            const size_t size = (size_t)rf_shape_count(y.shape) * sizeof(float);
            w->report->losses[w->report->steps++] = (double)(rf_hash_bytes(y.data, size, 0) >> 12);
        }
        rf_array_free(&y);
    }
    rf_function_destroy(&f);
    rf_model_destroy(&s->model);
    if (r != RF_OK)
        snprintf(w->report->message, sizeof(w->report->message), "%s: %s", forms[s->form].name, rf_error_message());
    return r;
}

static rf_result run_forms(worker *w)
{
    for (int form = 0; form < NUM_FORMS; form++) {
        sweep s = { .form = form };
        RF_TRY(run_form(w, &s));
    }
    return RF_OK;
}

/* ---- splits ---- */

static const double uneven[] = { 1, 4 };
static const job_params splits[] = {
    { .num_workers = 1, .devices = { "llvmpipe" } },
    { .num_workers = 1, .devices = { "llvmpipe,llvmpipe" }, .shares = { uneven } },
    { .num_workers = 1, .devices = { "llvmpipe,llvmpipe,llvmpipe" } },
    { .num_workers = 2, .devices = { "llvmpipe", "llvmpipe" } },
};
enum { NUM_SPLITS = sizeof(splits) / sizeof(splits[0]) };

TEST(numbers_are_those_of_one_device)
{
    static report whole[MAX_WORKERS], split[MAX_WORKERS];
    (void)state;
    run_job(&splits[0], run_forms, whole);
    check_job(whole, 1);
    assert_int_equal(whole[0].steps, 4 * NUM_FORMS);
    for (int form = 0; form < NUM_FORMS; form++) /* steps differ */
        assert_true(whole[0].losses[4 * form] != whole[0].losses[4 * form + 3]);
    for (int i = 1; i < NUM_SPLITS; i++) {
        run_job(&splits[i], run_forms, split);
        check_job(split, splits[i].num_workers);
        for (uint32_t k = 0; k < whole[0].steps; k++)
            if (split[0].losses[k] != whole[0].losses[k])
                fail_msg("split %d: %s, run %u: other numbers than on one device", i, forms[k / 4].name, k % 4);
    }
}

/* ---- what has no one example for each element ---- */

static rf_tensor reversed(rf_trace *t, rf_tensor x)
{
    return rf_dropout(t, rf_reverse(t, x, 0), 0.5f, 0);
}
static rf_tensor similarities(rf_trace *t, rf_tensor x)
{
    const rf_tensor y = examples(t, x);
    return rf_random_normal(t, rf_matmul(t, y, y, RF_TRANSPOSE_B), 0);
}
static rf_tensor without_the_first(rf_trace *t, rf_tensor x)
{
    return rf_random_uniform(t, rf_slice(t, x, (int64_t[]){ 1 }, (int64_t[]){ INT64_MAX }, NULL, 1), 0, 1, 0);
}
static rf_tensor attending_batch(rf_trace *t, rf_tensor x)
{
    const rf_attention_params params = { .dropout = 0.5f };
    const rf_tensor y = rf_reshape(t, x, RF_SHAPE(1, 1, -1, EXAMPLE));
    return rf_attention(t, y, y, y, &params);
}
static const struct {
    draw_fn draw;
    const char *says, *since;
} refused[] = {
    { reversed, "rf_dropout: x, f32 [", "since '" },
    { similarities, "rf_random_normal: like, f32 [", "since '" },
    { without_the_first, "rf_random_uniform: like, f32 [", "since '" },
    { attending_batch, "rf_attention: dropout of weights, f32 [", "since '" },
};

static rf_result refused_step(rf_trace *t, const rf_tensor *in, rf_tensor *out, void *user)
{
    const rf_tensor y = refused[*(const int *)user].draw(t, in[0]);
    out[0] = rf_reduce_sum(t, y, NULL, 0, RF_DROP_DIMS);
    return rf_trace_status(t);
}

static rf_result run_refused(worker *w)
{
    const rf_element batch = make_batch(MOST);
    for (int i = 0; i < (int)(sizeof(refused) / sizeof(refused[0])); i++) {
        rf_function *f;
        rf_per_replica *result;
        const rf_function_params params = { .step = refused_step, .user = &i, .num_outputs = 1, .training = true };
        RF_TRY(rf_function_create(w->strategy, &params, &f));
        if (rf_strategy_num_replicas_in_sync(w->strategy) == 1)
            RF_TRY(rf_strategy_run(w->strategy, f, &batch, &result));
        else
            EXPECT_FAILS(rf_strategy_run(w->strategy, f, &batch, &result), RF_ERROR_UNSUPPORTED, refused[i].says,
                         refused[i].since);
        if (rf_strategy_num_replicas_in_sync(w->strategy) > 1)
            EXPECT(strstr(rf_error_message(), "2 replicas would not draw the numbers of one device"));
        rf_function_destroy(&f);
    }
    return RF_OK;
}

TEST(others_are_refused_where_the_batch_is_split)
{
    static report reports[MAX_WORKERS];
    (void)state;
    for (int i = 0; i < NUM_SPLITS; i += 1 + 2 * (i == 1)) {
        run_job(&splits[i], run_refused, reports);
        check_job(reports, splits[i].num_workers);
    }
}

/* ---- seeds ---- */

static rf_result run_with_own_seed(worker *w)
{
    const rf_element batch = make_batch(MOST);
    rf_per_replica *result;
    sweep s = { .form = 0 };
    rf_function *f;
    rf_strategy_set_seed(w->strategy, 7 + w->rank);
    RF_TRY(create_step(w, &s, &f));
    EXPECT_FAILS(rf_strategy_run(w->strategy, f, &batch, &result), RF_ERROR_INVALID_ARGUMENT,
                 "on rank 0 from seed 7 and on rank 1 from seed 8", "rf_strategy_set_seed()");
    rf_function_destroy(&f);
    rf_model_destroy(&s.model);
    return RF_OK;
}

TEST(workers_have_one_seed)
{
    static report reports[MAX_WORKERS];
    (void)state;
    run_job(&splits[NUM_SPLITS - 1], run_with_own_seed, reports);
    check_job(reports, 2);
}

TESTS(random, NULL, NULL)
