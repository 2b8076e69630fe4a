/* SPDX-License-Identifier: Apache-2.0 */
/* F1, areas under curves, perplexity, rankings and BLEU against double precision and against what they are defined to
 * be; counts beyond 2^24; a checkpoint of two replicas that one continues; mistakes. */
#include "../support/strategies.h"
#include "test_folder.h"
#include "tests/room.h"
#include "train/metrics/metric.h"

enum { N = 14, C = 5 };

/* `scores` lie between thresholds of the curves; `candidates` have ties. */
typedef struct inputs {
    float scores[N], labels[N], candidates[N * C], weights[N], logits[N];
    int32_t classes[N];
    rf_element batch;
} inputs;

static void fill_inputs(inputs *in, uint32_t seed)
{
    for (uint32_t i = 0; i < N; i++) {
        const float x = noise(&seed), y = noise(&seed);
        in->scores[i] = (roundf((x + 1) * 9) + 0.5f) / 20;
        in->logits[i] = logf(in->scores[i] / (1 - in->scores[i]));
        in->labels[i] = x + y > 0;
        in->weights[i] = (float)(i % 4) / 2;
        in->classes[i] = (int32_t)(i % C);
        for (int c = 0; c < C; c++) in->candidates[i * C + (uint32_t)c] = roundf(noise(&seed) * 3);
    }
    in->candidates[3] = -INFINITY;
    in->batch = (rf_element){ 6,
                              { array_f32(RF_SHAPE(N, 1), in->scores), array_f32(RF_SHAPE(N), in->labels),
                                array_f32(RF_SHAPE(N, C), in->candidates), array_f32(RF_SHAPE(N), in->weights),
                                array_i32(RF_SHAPE(N), in->classes), array_f32(RF_SHAPE(N, 1), in->logits) } };
}

static const rf_metric_params metrics[] = {
    { .kind = RF_METRIC_F1, .threshold = 0.4f },
    { .kind = RF_METRIC_AUC_ROC },
    { .kind = RF_METRIC_AUC_ROC, .num_thresholds = 5, .name = "coarse" },
    { .kind = RF_METRIC_AUC_ROC, .from_logits = true, .name = "of logits" },
    { .kind = RF_METRIC_AUC_PR, .num_thresholds = 38 },
    { .kind = RF_METRIC_PERPLEXITY, .from_logits = true },
    { .kind = RF_METRIC_HIT_RATE, .k = 2 },
    { .kind = RF_METRIC_NDCG, .k = 3 },
    { .kind = RF_METRIC_NDCG, .name = "of all" },
    { .kind = RF_METRIC_F1, .average = RF_METRIC_AVERAGE_NONE, .num_classes = C, .from_logits = true, .name = "each" },
    { .kind = RF_METRIC_F1, .average = RF_METRIC_AVERAGE_MACRO, .num_classes = C, .threshold = 0.7f, .name = "macro" },
    { .kind = RF_METRIC_PRECISION, .average = RF_METRIC_AVERAGE_MICRO, .num_classes = C, .name = "micro" },
    { .kind = RF_METRIC_RECALL, .average = RF_METRIC_AVERAGE_WEIGHTED, .num_classes = C, .threshold = 0.2f },
};
enum { NUM_METRICS = sizeof(metrics) / sizeof(metrics[0]) };

typedef struct meters {
    rf_metric *items[NUM_METRICS];
    bool weighted;
} meters;

static bool of_elements(const rf_metric_params *p)
{
    return p->num_classes == 0 &&
           (p->kind == RF_METRIC_F1 || p->kind == RF_METRIC_AUC_ROC || p->kind == RF_METRIC_AUC_PR);
}

static rf_result metric_step(rf_trace *t, const rf_tensor *in, rf_tensor *out, void *user)
{
    const meters *m = user;
    const rf_tensor none = { 0 }, low = rf_constant(t, -20);
    const rf_tensor finite = rf_maximum(t, in[2], low), weight = m->weighted ? in[3] : none;
    (void)out;
    for (int i = 0; i < NUM_METRICS; i++) {
        const rf_metric_params *p = &metrics[i];
        if (of_elements(p))
            (void)rf_metric_update(t, m->items[i], in[1], p->from_logits ? in[5] : in[0], weight);
        else
            (void)rf_metric_update(t, m->items[i], in[4], p->kind == RF_METRIC_PERPLEXITY ? finite : in[2], weight);
    }
    return rf_trace_status(t);
}

/* Counts what is predicted to be 1 above a threshold: what of it is 1, and all of it. */
static void count_above(const inputs *batches, bool weighted, double threshold, double *hits, double *positives)
{
    *hits = *positives = 0;
    for (int b = 0; b < 2; b++)
        for (int i = 0; i < N; i++) {
            const double w = weighted ? (double)batches[b].weights[i] : 1;
            if (!((double)batches[b].scores[i] > threshold)) continue;
            *hits += w * (double)batches[b].labels[i];
            *positives += w;
        }
}

/* The part of pairs of a 1 and a 0 of which the 1 has the larger score, ties half: the area without thresholds. */
static double pairs_in_order(const inputs *batches, bool weighted)
{
    double good = 0, all = 0;
    for (int i = 0; i < 2 * N; i++)
        for (int j = 0; j < 2 * N; j++) {
            const inputs *a = &batches[i / N], *b = &batches[j / N];
            if (a->labels[i % N] < 0.5f || b->labels[j % N] > 0.5f) continue;
            const double w = weighted ? (double)a->weights[i % N] * (double)b->weights[j % N] : 1;
            const float x = a->scores[i % N], y = b->scores[j % N];
            all += w;
            good += w * (x > y ? 1 : x < y ? 0 : 0.5);
        }
    return good / all;
}

/* Between thresholds hits and false positives grow in proportion: precision over recall in many small steps, or true
 * over false positives. */
static double area(const inputs *batches, bool weighted, int count, bool roc)
{
    enum { STEPS = 4000 };
    double sum = 0, ones, all;
    count_above(batches, weighted, -1, &ones, &all);
    for (int i = 0; i + 1 < count; i++) {
        double h0, p0, h1, p1;
        count_above(batches, weighted, i == 0 ? -1 : (double)i / (count - 1), &h0, &p0);
        count_above(batches, weighted, i + 2 == count ? 2 : (double)(i + 1) / (count - 1), &h1, &p1);
        for (int s = 0; s < STEPS; s++) {
            const double f = (s + 0.5) / STEPS, h = h1 + f * (h0 - h1), p = p1 + f * (p0 - p1);
            if (roc)
                sum += ((p0 - h0) - (p1 - h1)) / (all - ones) / STEPS * h / ones;
            else if (p > 0)
                sum += (h0 - h1) / ones / STEPS * h / p;
        }
    }
    return sum;
}

static double of_candidates(const inputs *batches, const rf_metric_params *p, bool weighted)
{
    double total = 0, weight = 0;
    for (int i = 0; i < 2 * N; i++) {
        const inputs *in = &batches[i / N];
        const float *x = &in->candidates[(i % N) * C];
        const int label = in->classes[i % N], k = p->k ? (int)p->k : 10;
        const double w = weighted ? (double)in->weights[i % N] : 1;
        double sum = 0;
        int rank = 0;
        for (int c = 0; c < C; c++) {
            rank += x[c] >= x[label];
            sum += exp(fmax((double)x[c], -20));
        }
        weight += w;
        if (p->kind == RF_METRIC_PERPLEXITY) total += w * (log(sum) - fmax((double)x[label], -20));
        if (p->kind == RF_METRIC_HIT_RATE) total += w * (rank <= k);
        if (p->kind == RF_METRIC_NDCG && rank <= k) total += w / log2(rank + 1);
    }
    return p->kind == RF_METRIC_PERPLEXITY ? exp(total / weight) : total / weight;
}

/* Whether class c is predicted for a row of candidates: it is above the threshold, or none is larger. */
static bool predicts(const rf_metric_params *p, const float *x, int c)
{
    float limit = p->threshold;
    if (p->threshold > 0) return p->from_logits ? x[c] > logf(limit / (1 - limit)) : x[c] > limit;
    for (int i = 0; i < C; i++)
        if (x[i] > x[c]) return false;
    return p->from_logits || x[c] != 0;
}

static double score_of(rf_metric_kind kind, double hits, double predicted, double labelled)
{
    const double precision = predicted > 0 ? hits / predicted : 0, recall = labelled > 0 ? hits / labelled : 0;
    if (kind == RF_METRIC_PRECISION) return precision;
    if (kind == RF_METRIC_RECALL) return recall;
    return precision + recall > 0 ? 2 * precision * recall / (precision + recall) : 0;
}

/* scores: of each class; returns the average. */
static double of_classes(const inputs *batches, const rf_metric_params *p, bool weighted, double scores[C])
{
    double all[3] = { 0 }, mean = 0, by_label = 0;
    for (int c = 0; c < C; c++) {
        double counts[3] = { 0 };
        for (int i = 0; i < 2 * N; i++) {
            const inputs *in = &batches[i / N];
            const double w = weighted ? (double)in->weights[i % N] : 1;
            const bool predicted = predicts(p, &in->candidates[(i % N) * C], c), is = in->classes[i % N] == c;
            counts[0] += predicted && is ? w : 0;
            counts[1] += predicted ? w : 0;
            counts[2] += is ? w : 0;
        }
        scores[c] = score_of(p->kind, counts[0], counts[1], counts[2]);
        mean += scores[c] / C;
        by_label += scores[c] * counts[2];
        for (int k = 0; k < 3; k++) all[k] += counts[k];
    }
    if (p->average == RF_METRIC_AVERAGE_MICRO) return score_of(p->kind, all[0], all[1], all[2]);
    return p->average == RF_METRIC_AVERAGE_WEIGHTED ? by_label / all[2] : mean;
}

static double expect(const inputs *batches, const rf_metric_params *p, bool weighted)
{
    double hits, positives, ones, all, scores[C];
    if (p->num_classes) return of_classes(batches, p, weighted, scores);
    if (!of_elements(p)) return of_candidates(batches, p, weighted);
    if (p->kind == RF_METRIC_AUC_PR) return area(batches, weighted, (int)p->num_thresholds, false);
    if (p->num_thresholds) return area(batches, weighted, (int)p->num_thresholds, true);
    if (p->kind == RF_METRIC_AUC_ROC) return pairs_in_order(batches, weighted);
    count_above(batches, weighted, (double)p->threshold, &hits, &positives);
    count_above(batches, weighted, -1, &ones, &all);
    return 2 * hits / (ones + positives);
}

static void make_meters(rf_strategy *strategy, meters *m, rf_function **function)
{
    for (int i = 0; i < NUM_METRICS; i++) OK(rf_metric_create(strategy, &metrics[i], &m->items[i]));
    OK(rf_function_create(strategy, &(rf_function_params){ .step = metric_step, .user = m }, function));
}

static void free_meters(meters *m, rf_function **function)
{
    rf_function_destroy(function);
    for (int i = 0; i < NUM_METRICS; i++) rf_metric_destroy(&m->items[i]);
}

/* rf_metric_results(): one for each class, or that of rf_metric_result() alone. */
static void check_results(const inputs *batches, rf_metric *metric, const rf_metric_params *p, bool weighted)
{
    double got[C], scores[C];
    uint32_t count = 0;
    const bool each = p->average == RF_METRIC_AVERAGE_NONE && p->num_classes;
    OK(rf_metric_results(metric, got, C, &count));
    assert_int_equal(count, each ? C : 1);
    if (!each) {
        OK(rf_metric_result(metric, &scores[0]));
        assert_true(got[0] == scores[0]);
        return;
    }
    (void)of_classes(batches, p, weighted, scores);
    for (int c = 0; c < C; c++) assert_near(got[c], scores[c], 2e-6, 0, "class");
    FAILS(rf_metric_results(metric, got, C - 1, &count), RF_ERROR_INVALID_ARGUMENT,
          "metric 'each' has 5 values, and there is room for 4");
    assert_int_equal(count, C);
}

static void metric_values(rf_strategy *strategy)
{
    inputs batches[2];
    for (uint32_t b = 0; b < 2; b++) fill_inputs(&batches[b], 5 + b);
    for (int weighted = 0; weighted < 2; weighted++) {
        meters m = { .weighted = weighted };
        rf_function *function;
        double value;
        make_meters(strategy, &m, &function);
        for (int i = 0; i < NUM_METRICS; i++) {
            OK(rf_metric_result(m.items[i], &value));
            assert_true(value == 0);
        }
        for (int b = 0; b < 2; b++) run_once(strategy, function, &batches[b].batch, NULL, 0);
        for (int i = 0; i < NUM_METRICS; i++) {
            OK(rf_metric_result(m.items[i], &value));
            assert_near(value, expect(batches, &metrics[i], weighted), 2e-6, 0, rf_metric_name(m.items[i]));
            check_results(batches, m.items[i], &metrics[i], weighted);
        }
        free_meters(&m, &function);
    }
}

/* ---- counts that a float cannot hold ---- */

static rf_result count_step(rf_trace *t, const rf_tensor *in, rf_tensor *out, void *user)
{
    rf_metric *const *of = user;
    const rf_tensor none = { 0 };
    (void)out;
    (void)rf_metric_update(t, of[0], none, in[0], in[1]);
    return rf_metric_update(t, of[1], in[0], in[2], in[1]);
}

static void large_counts(rf_strategy *strategy)
{
    float values[4] = { 0, 1, 1, 1 }, weights[4] = { 16777216, 1, 1, 1 }, scores[4] = { 0.75f, 0.5f, 0.9f, 0.2f };
    rf_element batch = {
        3, { array_f32(RF_SHAPE(4), values), array_f32(RF_SHAPE(4), weights), array_f32(RF_SHAPE(4), scores) }
    };
    rf_metric *of[2];
    rf_function *function;
    double value;
    OK(rf_metric_create(strategy, &(rf_metric_params){ .kind = RF_METRIC_MEAN }, &of[0]));
    OK(rf_metric_create(strategy, &(rf_metric_params){ .kind = RF_METRIC_AUC_ROC }, &of[1]));
    OK(rf_function_create(strategy, &(rf_function_params){ .step = count_step, .user = of }, &function));
    for (int run = 0; run < 3; run++) {
        run_once(strategy, function, &batch, NULL, 0);
        weights[0] = 1;
    }
    OK(rf_metric_result(of[0], &value));
    assert_near(value, 9 / (16777218.0 + 9), 1e-12, 0, "mean");
    OK(rf_metric_result(of[1], &value));
    assert_near(value, 1.0 / 3, 1e-12, 0, "auc"); /* one 1 of three is above what is 0 */
    rf_function_destroy(&function);
    for (int i = 0; i < 2; i++) rf_metric_destroy(&of[i]);
}

/* ---- classes ---- */

static rf_result class_step(rf_trace *t, const rf_tensor *in, rf_tensor *out, void *user)
{
    (void)out;
    return rf_metric_update(t, user, in[0], in[1], (rf_tensor){ 0 });
}

/* The example in Keras' documentation of F1Score, of labels with several classes each. */
static void documented_scores(rf_strategy *strategy)
{
    float labels[] = { 1, 1, 1, 1, 0, 0, 1, 1, 0 };
    float scores[] = { 0.2f, 0.6f, 0.7f, 0.2f, 0.6f, 0.6f, 0.6f, 0.8f, 0.0f };
    static const struct {
        rf_metric_kind kind;
        rf_metric_average average;
        float threshold;
        double values[3];
    } cases[] = {
        { RF_METRIC_F1, RF_METRIC_AVERAGE_NONE, 0.5f, { 0.5, 0.8, 2.0 / 3 } },
        { RF_METRIC_F1, RF_METRIC_AVERAGE_MICRO, 0.5f, { 2.0 / 3 } },
        { RF_METRIC_F1, RF_METRIC_AVERAGE_MACRO, 0.5f, { (0.5 + 0.8 + 2.0 / 3) / 3 } },
        { RF_METRIC_F1, RF_METRIC_AVERAGE_WEIGHTED, 0.5f, { (3 * 0.5 + 2 * 0.8 + 2.0 / 3) / 6 } },
        { RF_METRIC_PRECISION, RF_METRIC_AVERAGE_NONE, 0.5f, { 1, 2.0 / 3, 0.5 } },
        { RF_METRIC_RECALL, RF_METRIC_AVERAGE_NONE, 0.5f, { 1.0 / 3, 1, 1 } },
        /* the largest: 2, 1 and 2 (a tie), 1 */
        { RF_METRIC_F1, RF_METRIC_AVERAGE_NONE, 0, { 0, 0.5, 2.0 / 3 } },
    };
    enum { CASES = sizeof(cases) / sizeof(cases[0]) };
    rf_element batch = { 2, { array_f32(RF_SHAPE(3, 3), labels), array_f32(RF_SHAPE(3, 3), scores) } };
    for (int i = 0; i < CASES; i++) {
        rf_metric *metric;
        rf_function *function;
        double got[3];
        uint32_t count;
        OK(rf_metric_create(
            strategy,
            &(rf_metric_params){
                .kind = cases[i].kind, .average = cases[i].average, .threshold = cases[i].threshold, .num_classes = 3 },
            &metric));
        OK(rf_function_create(strategy, &(rf_function_params){ .step = class_step, .user = metric }, &function));
        run_once(strategy, function, &batch, NULL, 0);
        OK(rf_metric_results(metric, got, 3, &count));
        for (uint32_t c = 0; c < count; c++) assert_near(got[c], cases[i].values[c], 1e-12, 0, "score");
        OK(rf_metric_reset(metric));
        OK(rf_metric_results(metric, got, 3, &count));
        for (uint32_t c = 0; c < count; c++) assert_true(got[c] == 0);
        rf_function_destroy(&function);
        rf_metric_destroy(&metric);
    }
}

/* Reads the classes' values at the end of an epoch, as a program would. */
static rf_result read_classes(void *user, rf_fit_state *state, const rf_logs *logs)
{
    double *seen = user, mean = NAN;
    OK(rf_metric_results(rf_model_metric(state->model, "val_f1_score"), seen, 3, NULL));
    assert_true(rf_logs_get(logs, "val_f1_score", &mean));
    assert_near((seen[0] + seen[1] + seen[2]) / 3, mean, 1e-12, 0, "mean of classes");
    assert_true(rf_model_metric(state->model, "f1_score") != rf_model_metric(state->model, "val_f1_score"));
    assert_null(rf_model_metric(state->model, "loss"));
    assert_null(rf_model_metric(NULL, "f1_score"));
    return RF_OK;
}

static void fitted_classes(rf_strategy *strategy)
{
    enum { ROWS = 24 };
    float x[ROWS * 3];
    int32_t y[ROWS];
    double seen[3] = { -1, -1, -1 }, again[3];
    fill_noise(x, ROWS * 3, 4);
    for (int i = 0; i < ROWS; i++) y[i] = x[3 * i] > 0 ? 0 : x[3 * i + 1] > 0 ? 1 : 2;
    const rf_array arrays[2] = { array_f32(RF_SHAPE(ROWS, 3), x), array_i32(RF_SHAPE(ROWS), y) };
    rf_dataset *slices, *data;
    rf_layer *layer;
    rf_model *model, *loaded;
    rf_optimizer *optimizer;
    rf_callback *callback;
    OK(rf_dataset_from_arrays(&(rf_dataset_arrays_params){ .arrays = arrays, .num_arrays = 2 }, &slices));
    OK(rf_dataset_batch(slices, 8, RF_REMAINDER_KEEP, &data));
    OK(rf_layer_dense(&(rf_dense_params){ .units = 3 }, &layer));
    OK(rf_model_create_sequential(strategy, &layer, 1, &RF_SHAPE(3), &model));
    OK(rf_optimizer_create(strategy, &(rf_optimizer_params){ .kind = RF_OPTIMIZER_ADAM, .learning_rate = 0.1 },
                           &optimizer));
    const rf_output_metric f1 = {
        .metric = { .kind = RF_METRIC_F1, .average = RF_METRIC_AVERAGE_NONE, .num_classes = 3, .from_logits = true }
    };
    const rf_compile_params params = { .optimizer = optimizer,
                                       .loss = { .kind = RF_LOSS_SPARSE_CATEGORICAL_CROSSENTROPY, .from_logits = true },
                                       .output_metrics = &f1,
                                       .num_output_metrics = 1 };
    OK(rf_model_compile(model, &params));
    OK(rf_callback_create(&(rf_callback_fns){ .on_epoch_end = read_classes }, seen, &callback));
    const rf_fit_params fit = {
        .data = data, .validation_data = data, .epochs = 20, .callbacks = &callback, .num_callbacks = 1
    };
    OK(rf_model_fit(model, &fit, NULL));
    for (int c = 0; c < 3; c++)
        if (!(seen[c] > 0.8)) fail_msg("class %d: %g", c, seen[c]);
    /* The file keeps the average and the number of classes. */
    rf_logs logs;
    OK(rf_model_save(model, in_folder("classes"), NULL));
    OK(rf_model_load(strategy, in_folder("classes"), &loaded));
    OK(rf_model_evaluate(loaded, data, &logs));
    OK(rf_metric_results(rf_model_metric(loaded, "val_f1_score"), again, 3, NULL));
    for (int c = 0; c < 3; c++) assert_true(again[c] == seen[c]);
    rf_callback_destroy(&callback);
    rf_model_destroy(&loaded);
    rf_model_destroy(&model);
    rf_optimizer_destroy(&optimizer);
    rf_dataset_destroy(&data);
    rf_dataset_destroy(&slices);
}

/* ---- checkpoints ---- */

static void add_all(rf_checkpoint *checkpoint, const meters *m)
{
    for (int i = 0; i < NUM_METRICS; i++) {
        char name[16];
        snprintf(name, sizeof(name), "metric_%d", i);
        OK(rf_checkpoint_add_metric(checkpoint, name, m->items[i]));
    }
}

static void continued_on_one(rf_strategy *two)
{
    inputs batches[2];
    meters a = { .weighted = true }, b = { .weighted = true };
    rf_function *before, *after;
    rf_checkpoint *saved, *restored;
    rf_strategy *one = open_devices("llvmpipe");
    if (!one) SKIP("not installed: llvmpipe");
    for (uint32_t i = 0; i < 2; i++) fill_inputs(&batches[i], 5 + i);
    make_meters(two, &a, &before);
    run_once(two, before, &batches[0].batch, NULL, 0);
    OK(rf_checkpoint_create(two, &saved));
    add_all(saved, &a);
    OK(rf_checkpoint_save(saved, in_folder("metrics"), NULL));
    make_meters(one, &b, &after);
    OK(rf_checkpoint_create(one, &restored));
    add_all(restored, &b);
    OK(rf_checkpoint_restore(restored, in_folder("metrics"), NULL));
    run_once(one, after, &batches[1].batch, NULL, 0);
    for (int i = 0; i < NUM_METRICS; i++) {
        double value;
        OK(rf_metric_result(b.items[i], &value));
        assert_near(value, expect(batches, &metrics[i], true), 2e-6, 0, rf_metric_name(b.items[i]));
    }
    rf_checkpoint_destroy(&restored);
    rf_checkpoint_destroy(&saved);
    free_meters(&b, &after);
    free_meters(&a, &before);
    rf_strategy_destroy(&one);
}

/* ---- BLEU ---- */

static void test_bleu(void **state)
{
    static const int32_t a0[] = { 1, 2, 3, 4, 5, 6 }, a1[] = { 7, 7, 7, 8, 9, 1, 2 }, b0[] = { 1, 2, 3, 4, 5, 6, 7 },
                         b1[] = { 7, 8, 9, 1, 2, 3, 7, 7 }, b2[] = { 4 };
    const int32_t *const a[] = { a0, a1, NULL }, *const b[] = { b0, b1, b2 };
    const uint32_t la[] = { 6, 7, 0 }, lb[] = { 7, 8, 1 };
    double value;
    (void)state;
    /* 13 of 13, 10 of 11, 7 of 9 and 5 of 7 match; 13 tokens for 16 */
    OK(rf_bleu(a, la, b, lb, 3, &value));
    assert_near(value, pow(13.0 / 13 * 10 / 11 * 7 / 9 * 5 / 7, 0.25) * exp(1 - 16.0 / 13), 1e-12, 0, "shorter");
    /* longer candidates are not penalised; what is repeated counts as often as the reference has it */
    OK(rf_bleu(b, lb, a, la, 3, &value));
    assert_near(value, pow(13.0 / 16 * 10 / 13 * 7 / 11 * 5 / 9, 0.25), 1e-12, 0, "longer");
    OK(rf_bleu(b, lb, b, lb, 3, &value));
    assert_near(value, 1, 1e-12, 0, "the same");
    OK(rf_bleu(a, la, &b[2], &lb[2], 1, &value));
    assert_true(value == 0);
    OK(rf_bleu(NULL, NULL, NULL, NULL, 0, &value));
    assert_true(value == 0);
    FAILS(rf_bleu(b, lb, a, lb, 3, &value), RF_ERROR_INVALID_ARGUMENT, "reference 2 is NULL, but has 1 tokens");
    FAILS(rf_bleu(b, NULL, a, la, 3, &value), RF_ERROR_INVALID_ARGUMENT, "candidate_lengths is NULL");
    FAILS(rf_bleu(b, lb, a, la, 3, NULL), RF_ERROR_INVALID_ARGUMENT, "out is NULL");
}

/* ---- mistakes ---- */

static void refused_metrics(rf_strategy *strategy)
{
    static const struct {
        rf_metric_params params;
        const char *part;
    } cases[] = {
        { { .kind = RF_METRIC_AUC_PR, .threshold = 0.5f }, "threshold is for binary accuracy, precision, recall and" },
        { { .kind = RF_METRIC_NDCG, .from_logits = true },
          "from_logits is for metrics of probabilities, not for ndcg" },
        { { .kind = RF_METRIC_PERPLEXITY, .k = 3 }, "k is for top-k accuracies and rankings" },
        { { .kind = RF_METRIC_F1, .num_thresholds = 9 }, "num_thresholds is for areas under curves" },
        { { .kind = RF_METRIC_AUC_ROC, .average = RF_METRIC_AVERAGE_MACRO, .num_classes = 3 },
          "average is for precision, recall and F1" },
        { { .kind = RF_METRIC_F1, .average = (rf_metric_average)9, .num_classes = 3 }, "average 9 does not exist" },
        { { .kind = RF_METRIC_F1, .average = RF_METRIC_AVERAGE_NONE }, "num_classes 0 is not in 1 .. 10000" },
        { { .kind = RF_METRIC_F1, .num_classes = 3 }, "or 0, without one" },
        { { .kind = RF_METRIC_AUC_ROC, .num_thresholds = 2 }, "num_thresholds 2 is not in 3 .. 10000" },
    };
    rf_metric *metric;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        FAILS(rf_metric_create(strategy, &cases[i].params, &metric), RF_ERROR_INVALID_ARGUMENT, cases[i].part);
}

ON_TWO(metric_values)
ON_TWO(large_counts)
ON_TWO(continued_on_one)
ON_TWO(documented_scores)
ON_TWO(fitted_classes)
ON_ONE(refused_metrics)

/* With an argument: what a job of two workers runs as well. */
/* Logs, monitors and files name metrics so: as Keras does, and no two alike. */
static void names_of_metrics(void **state)
{
    (void)state;
    assert_string_equal(rf_metric_kind_name(RF_METRIC_PRECISION), "precision");
    assert_string_equal(rf_metric_kind_name(RF_METRIC_RECALL), "recall");
    for (uint32_t i = 0; i < RF_METRIC_KINDS; i++)
        for (uint32_t k = 0; k < i; k++)
            assert_string_not_equal(rf_metric_kind_name((rf_metric_kind)i), rf_metric_kind_name((rf_metric_kind)k));
}

TEST_PROGRAM(metrics)
{
    const struct CMUnitTest alone[] = {
        cmocka_unit_test_setup_teardown(continued_on_one_on_two, make_folder, remove_folder),
        cmocka_unit_test(test_bleu),
        cmocka_unit_test(names_of_metrics),
        cmocka_unit_test(refused_metrics_on_one),
    };
    const struct CMUnitTest values[] = {
        cmocka_unit_test(metric_values_on_two),
        cmocka_unit_test(large_counts_on_two),
        cmocka_unit_test(documented_scores_on_two),
        cmocka_unit_test_setup_teardown(fitted_classes_on_two, make_folder, remove_folder),
    };
    (void)argv;
    const int failed = argc > 1 ? 0 : cmocka_run_group_tests(alone, NULL, NULL);
    return failed + cmocka_run_group_tests(values, NULL, NULL);
}
