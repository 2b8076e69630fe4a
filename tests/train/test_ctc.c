/* SPDX-License-Identifier: Apache-2.0 */
/* Connectionist temporal classification against all sequences of classes, one by one: the loss on devices, the decoders
 * on the host; and a model that learns with it. */
#include "../support/strategies.h"
#include "tests/room.h"

enum { CLASSES = 3, STEPS = 5, SEQUENCES = 243, LABELLINGS = 63, BLANK = 1 };

/* ---- all sequences ---- */

/* Labels as digits of base CLASSES + 1, the first one the highest; 0 ends them. */
static uint32_t spell(const int32_t *classes, int steps, int32_t blank)
{
    uint32_t word = 0;
    for (int t = 0; t < steps; t++)
        if (classes[t] != blank && (t == 0 || classes[t] != classes[t - 1]))
            word = word * (CLASSES + 1) + (uint32_t)classes[t] + 1;
    return word;
}

static uint32_t word_of(const int32_t *labels, int count)
{
    uint32_t word = 0;
    for (int i = 0; i < count && labels[i] >= 0; i++) word = word * (CLASSES + 1) + (uint32_t)labels[i] + 1;
    return word;
}

/* The probability that `steps` steps spell each word. */
typedef struct words {
    double probability[1024]; /* (CLASSES + 1)^STEPS */
} words;

static void count_words(const float *probabilities, int steps, int32_t blank, words *out)
{
    memset(out, 0, sizeof(*out));
    int sequences = 1;
    for (int t = 0; t < steps; t++) sequences *= CLASSES;
    for (int i = 0; i < sequences; i++) {
        int32_t classes[STEPS];
        double p = 1;
        for (int t = 0, rest = i; t < steps; t++, rest /= CLASSES) {
            classes[t] = rest % CLASSES;
            p *= (double)probabilities[t * CLASSES + classes[t]];
        }
        out->probability[spell(classes, steps, blank)] += p;
    }
}

static void fill_probabilities(float *out, int rows, uint32_t seed)
{
    fill_noise(out, (size_t)rows * CLASSES, seed);
    for (int r = 0; r < rows; r++) {
        float *row = out + r * CLASSES, sum = 0;
        for (int c = 0; c < CLASSES; c++) sum += row[c] = expf(2 * row[c]);
        for (int c = 0; c < CLASSES; c++) row[c] /= sum;
    }
}

/* ---- the loss of each labelling ---- */

typedef struct loss_case {
    rf_prediction_form form;
    bool zero_infinity, lengths;
} loss_case;

/* How far probabilities of labels are from what they are to be. */
static rf_result loss_step(rf_trace *t, const rf_tensor *in, rf_tensor *out, void *user)
{
    const loss_case *c = user;
    rf_ctc_params p = { .blank = BLANK, .zero_infinity = c->zero_infinity };
    if (c->lengths) p.input_lengths = in[3];
    if (c->lengths) p.label_lengths = in[4];
    const rf_tensor predictions = c->form == RF_LOGITS ? rf_add(t, rf_log(t, in[1]), rf_constant(t, 3.0f)) : in[1];
    const rf_tensor loss = rf_ctc_loss(t, in[0], predictions, c->form, &p);
    const rf_tensor is = rf_exp(t, rf_negative(t, loss));
    out[0] = rf_reduce_max(t, rf_abs(t, rf_subtract(t, is, in[2])), NULL, 0, RF_DROP_DIMS);
    return rf_trace_status(t);
}

static int32_t label_at(int labelling, int count, int i)
{
    static const int32_t labels[] = { 0, 2 };
    return labels[labelling >> (count - 1 - i) & 1];
}

static void check_loss(rf_strategy *strategy, loss_case c)
{
    static float probabilities[STEPS * CLASSES], predictions[LABELLINGS][STEPS * CLASSES], expected[LABELLINGS];
    static int32_t labels[LABELLINGS][STEPS], lengths[LABELLINGS], counts[LABELLINGS];
    fill_probabilities(probabilities, STEPS, 5);
    for (int n = 0, row = 0; n <= STEPS; n++)
        for (int k = 0; k < 1 << n; k++, row++) {
            words all;
            lengths[row] = c.lengths ? row % (STEPS + 1) : STEPS;
            counts[row] = n;
            count_words(probabilities, lengths[row], BLANK, &all);
            memcpy(predictions[row], probabilities, sizeof(probabilities));
            /* Labels behind the last one count only where there are no lengths. */
            for (int i = 0; i < STEPS; i++) labels[row][i] = i < n ? label_at(k, n, i) : c.lengths ? 2 : -1 - i;
            expected[row] = (float)all.probability[word_of(labels[row], n)];
            if (expected[row] == 0 && c.zero_infinity) expected[row] = 1;
        }
    const rf_element batch = { 5,
                               { array_i32(RF_SHAPE(LABELLINGS, STEPS), labels[0]),
                                 array_f32(RF_SHAPE(LABELLINGS, STEPS, CLASSES), predictions[0]),
                                 array_f32(RF_SHAPE(LABELLINGS), expected), array_i32(RF_SHAPE(LABELLINGS), lengths),
                                 array_i32(RF_SHAPE(LABELLINGS), counts) } };
    rf_function *function;
    float error;
    OK(rf_function_create(strategy, &(rf_function_params){ .step = loss_step, .user = &c, .num_outputs = 1 },
                          &function));
    run_once(strategy, function, &batch, &error, 1);
    if (!(error < 2e-6f)) fail_msg("form %d, lengths %d: %g from the sum of all sequences", c.form, c.lengths, error);
    rf_function_destroy(&function);
}

static void losses_of_all_labels(rf_strategy *strategy)
{
    check_loss(strategy, (loss_case){ RF_PROBABILITIES, false, false });
    check_loss(strategy, (loss_case){ RF_LOGITS, false, true });
    check_loss(strategy, (loss_case){ RF_LOGITS, true, true });
}
TEST_ON_ONE(losses_of_all_labels)

/* ---- decoders ---- */

static void check_path(const words *all, const int32_t *labels, float score, uint32_t *last)
{
    const uint32_t word = word_of(labels, STEPS);
    assert_near(exp((double)score), all->probability[word], 1e-5, 0, "score of a path");
    for (uint32_t w = 0; w < 1024; w++)
        if (w != word && all->probability[w] > all->probability[word] && w != last[0] && w != last[1])
            fail_msg("word %u has %g, more than %u with %g", w, all->probability[w], word, all->probability[word]);
    last[1] = last[0];
    last[0] = word;
}

/* As wide as there are labels, the search finds what a count of all sequences finds. */
TEST(wide_beams_are_exact)
{
    enum { EXAMPLES = 40, PATHS = 3 };
    static float probabilities[EXAMPLES * STEPS * CLASSES], logits[EXAMPLES * STEPS * CLASSES];
    static int32_t lengths[EXAMPLES];
    fill_probabilities(probabilities, EXAMPLES * STEPS, 11);
    for (int i = 0; i < EXAMPLES * STEPS * CLASSES; i++) logits[i] = logf(probabilities[i]) - 7;
    for (int i = 0; i < EXAMPLES; i++) lengths[i] = 2 + i % (STEPS - 1);
    for (int form = 0; form < 2; form++) {
        const rf_array x = array_f32(RF_SHAPE(EXAMPLES, STEPS, CLASSES), form ? logits : probabilities);
        const rf_ctc_decode_params p = {
            .blank = BLANK, .form = form ? RF_LOGITS : RF_PROBABILITIES, .input_lengths = lengths, .num_paths = PATHS
        };
        rf_array labels, scores;
        OK(rf_ctc_beam_search_decode(&x, &p, &labels, &scores));
        assert_int_equal(labels.shape.rank, 3);
        assert_int_equal(labels.shape.dim[1], PATHS);
        const int64_t room = labels.shape.dim[2];
        assert_in_range(room, 3, STEPS);
        for (int i = 0; i < EXAMPLES; i++) {
            words all;
            uint32_t last[2] = { UINT32_MAX, UINT32_MAX };
            count_words(probabilities + i * STEPS * CLASSES, lengths[i], BLANK, &all);
            for (int k = 0; k < PATHS; k++) {
                int32_t row[STEPS] = { -1, -1, -1, -1, -1 };
                memcpy(row, (int32_t *)labels.data + (i * PATHS + k) * room, (size_t)room * sizeof(int32_t));
                check_path(&all, row, ((float *)scores.data)[i * PATHS + k], last);
            }
        }
        rf_array_free(&labels);
        rf_array_free(&scores);
    }
}

/* The most probable sequence by itself; one that all beams but one have lost scores less than its labels have. */
TEST(greedy_and_narrow_beams)
{
    enum { EXAMPLES = 40 };
    static float probabilities[EXAMPLES * STEPS * CLASSES];
    rf_array labels, scores, narrow, narrow_scores;
    fill_probabilities(probabilities, EXAMPLES * STEPS, 23);
    const rf_array x = array_f32(RF_SHAPE(EXAMPLES, STEPS, CLASSES), probabilities);
    const rf_ctc_decode_params p = { .blank = BLANK, .beam_width = 2 };
    OK(rf_ctc_greedy_decode(&x, &p, &labels, &scores));
    OK(rf_ctc_beam_search_decode(&x, &p, &narrow, &narrow_scores));
    for (int i = 0; i < EXAMPLES; i++) {
        int32_t best[STEPS], *row = (int32_t *)labels.data + i * labels.shape.dim[1];
        double score = 0;
        words all;
        for (int t = 0; t < STEPS; t++) {
            const float *step = probabilities + (i * STEPS + t) * CLASSES;
            best[t] = step[1] > step[0] ? 1 : 0;
            if (step[2] > step[best[t]]) best[t] = 2;
            score += log((double)step[best[t]]);
        }
        assert_int_equal(word_of(row, (int)labels.shape.dim[1]), spell(best, STEPS, BLANK));
        assert_near((double)((float *)scores.data)[i], score, 1e-5, 0, "greedy score");
        count_words(probabilities + i * STEPS * CLASSES, STEPS, BLANK, &all);
        const uint32_t word = word_of((int32_t *)narrow.data + i * narrow.shape.dim[2], (int)narrow.shape.dim[2]);
        assert_true(exp((double)((float *)narrow_scores.data)[i]) < all.probability[word] * 1.00001);
    }
    rf_array_free(&labels);
    rf_array_free(&scores);
    rf_array_free(&narrow);
    rf_array_free(&narrow_scores);
}

/* Certain sequences, of which a path beyond the only one does not exist. */
TEST(certain_sequences)
{
    static const int32_t classes[] = { 2, 2, 0, 2, 1, 1, 0 };
    float x[7 * 3] = { 0 };
    rf_array labels, scores;
    for (int t = 0; t < 7; t++) x[t * 3 + classes[t]] = 1;
    const rf_array one = array_f32(RF_SHAPE(1, 7, 3), x);
    const rf_ctc_decode_params p = { .num_paths = 2 };
    OK(rf_ctc_greedy_decode(&one, NULL, &labels, NULL));
    assert_int_equal(labels.shape.dim[1], 3);
    assert_memory_equal(labels.data, ((int32_t[]){ 2, 2, 1 }), 3 * sizeof(int32_t));
    rf_array_free(&labels);
    OK(rf_ctc_beam_search_decode(&one, &p, &labels, &scores));
    assert_memory_equal(labels.data, ((int32_t[]){ 2, 2, 1, -1, -1, -1 }), 6 * sizeof(int32_t));
    assert_true(((float *)scores.data)[0] == 0 && ((float *)scores.data)[1] == -INFINITY);
    rf_array_free(&labels);
    rf_array_free(&scores);
    OK(rf_ctc_greedy_decode(&one, &(rf_ctc_decode_params){ .input_lengths = (int32_t[]){ 0 } }, &labels, NULL));
    assert_int_equal(((int32_t *)labels.data)[0], -1);
    rf_array_free(&labels);
}

TEST(refused_predictions)
{
    float x[6] = { 0.5f, 0.25f, 0.25f, 1, 0, 0 };
    const rf_array one = array_f32(RF_SHAPE(1, 2, 3), x), flat = array_f32(RF_SHAPE(2, 3), x);
    rf_array labels;
    double value;
    FAILS(rf_ctc_greedy_decode(&flat, NULL, &labels, NULL), RF_ERROR_INVALID_ARGUMENT, "f32 [n, steps, classes]");
    FAILS(rf_ctc_greedy_decode(&one, &(rf_ctc_decode_params){ .blank = 3 }, &labels, NULL), RF_ERROR_INVALID_ARGUMENT,
          "blank is 3");
    FAILS(rf_ctc_greedy_decode(&one, &(rf_ctc_decode_params){ .input_lengths = (int32_t[]){ 3 } }, &labels, NULL),
          RF_ERROR_INVALID_ARGUMENT, "input_lengths[0] is 3, must be 0 to 2");
    FAILS(rf_ctc_beam_search_decode(&one, &(rf_ctc_decode_params){ .beam_width = 2, .num_paths = 3 }, &labels, NULL),
          RF_ERROR_INVALID_ARGUMENT, "beam_width is 2 and num_paths 3");
    x[4] = NAN;
    FAILS(rf_ctc_beam_search_decode(&one, NULL, &labels, NULL), RF_ERROR_INVALID_ARGUMENT,
          "example 0, step 1, class 1 is no probability");
    x[4] = -1;
    FAILS(rf_ctc_greedy_decode(&one, NULL, &labels, NULL), RF_ERROR_INVALID_ARGUMENT, "is no probability");
    int32_t a[] = { 1, -1, 2, 3 };
    const rf_array two = array_i32(RF_SHAPE(2, 2), a), single = array_i32(RF_SHAPE(1, 4), a);
    FAILS(rf_edit_distance(&two, &single, &value), RF_ERROR_INVALID_ARGUMENT, "2 decoded examples and 1 references");
    FAILS(rf_edit_distance(&one, &two, &value), RF_ERROR_INVALID_ARGUMENT, "decoded labels are f32");
    a[0] = -1;
    FAILS(rf_edit_distance(&single, &single, &value), RF_ERROR_INVALID_ARGUMENT, "the references have no labels");
}

/* ---- edit distance ---- */

/* As it is defined. */
static int fewest_edits(const int32_t *a, int n, const int32_t *b, int m)
{
    if (n == 0 || m == 0) return n + m;
    const int replaced = fewest_edits(a + 1, n - 1, b + 1, m - 1) + (a[0] != b[0]);
    const int out = fewest_edits(a + 1, n - 1, b, m) + 1, in = fewest_edits(a, n, b + 1, m - 1) + 1;
    return replaced < out ? (replaced < in ? replaced : in) : (out < in ? out : in);
}

TEST(edit_distances)
{
    enum { EXAMPLES = 60, ROOM = 6 };
    static int32_t a[EXAMPLES][2][ROOM], b[EXAMPLES][ROOM];
    uint32_t seed = 3;
    int edits = 0, total = 0;
    for (int i = 0; i < EXAMPLES; i++) {
        const int n = i % (ROOM + 1), m = i / 7 % (ROOM + 1);
        for (int k = 0; k < ROOM; k++) {
            a[i][0][k] = k < n ? (int32_t)(4 + 3 * noise(&seed)) : -1;
            b[i][k] = k < m ? (int32_t)(4 + 3 * noise(&seed)) : -2;
        }
        edits += fewest_edits(a[i][0], n, b[i], m);
        total += m;
    }
    const rf_array decoded = array_i32(RF_SHAPE(EXAMPLES, 2, ROOM), a[0][0]),
                   references = array_i32(RF_SHAPE(EXAMPLES, ROOM), b[0]);
    double value;
    OK(rf_edit_distance(&decoded, &references, &value));
    assert_near(value, (double)edits / total, 1e-12, 0, "all examples");
    assert_true(edits > 0);
    OK(rf_edit_distance(&references, &references, &value));
    assert_true(value == 0);
}

/* ---- a model that learns to read ---- */

/* As the guide has it. */
static rf_result error_rate(rf_model *model, const rf_dataset *data, const rf_array *references, double *out)
{
    const rf_ctc_decode_params params = { .form = RF_LOGITS, .beam_width = 20 };
    rf_array outputs, labels;
    rf_result r = rf_model_predict(model, data, &outputs);
    if (r < 0) return r;
    r = rf_ctc_beam_search_decode(&outputs, &params, &labels, NULL);
    rf_array_free(&outputs);
    if (r < 0) return r;
    r = rf_edit_distance(&labels, references, out);
    rf_array_free(&labels);
    return r;
}

static void reads_what_it_is_shown(rf_strategy *strategy)
{
    enum { EXAMPLES = 48, LENGTH = 8, SIGNS = 4, MOST = 3 };
    static float images[EXAMPLES][LENGTH][SIGNS];
    static int32_t labels[EXAMPLES][MOST];
    uint32_t seed = 9;
    memset(images, 0, sizeof(images));
    for (int i = 0; i < EXAMPLES; i++) {
        const int count = 1 + i % MOST;
        for (int k = 0; k < MOST; k++) {
            labels[i][k] = k < count ? 1 + (i * 7 + k * 5 + i / 3) % (SIGNS - 1) : -1;
            for (int wide = 0; k < count && wide < 2; wide++) images[i][2 * k + i % 2 + wide / 2][labels[i][k]] = 1;
        }
        for (int t = 0; t < LENGTH; t++)
            for (int c = 0; c < SIGNS; c++) images[i][t][c] += 0.1f * noise(&seed);
    }
    const rf_array arrays[] = { array_f32(RF_SHAPE(EXAMPLES, LENGTH, SIGNS), images[0][0]),
                                array_i32(RF_SHAPE(EXAMPLES, MOST), labels[0]) };
    const rf_optimizer_params adam = { .kind = RF_OPTIMIZER_ADAM, .learning_rate = 0.1 };
    rf_dataset *rows, *data;
    rf_layer *layer;
    rf_model *model;
    rf_optimizer *optimizer;
    rf_array predictions, read;
    double distance;
    OK(rf_dataset_from_arrays(&(rf_dataset_arrays_params){ .arrays = arrays, .num_arrays = 2 }, &rows));
    OK(rf_dataset_batch(rows, 16, RF_REMAINDER_KEEP, &data));
    OK(rf_layer_dense(&(rf_dense_params){ .units = SIGNS }, &layer));
    OK(rf_model_create_sequential(strategy, &layer, 1, NULL, &model));
    OK(rf_optimizer_create(strategy, &adam, &optimizer));
    OK(rf_model_compile(
        model, &(rf_compile_params){ .optimizer = optimizer, .loss = { .kind = RF_LOSS_CTC, .from_logits = true } }));
    OK(rf_model_fit(model, &(rf_fit_params){ .data = data, .epochs = 40 }, NULL));
    OK(rf_model_predict(model, data, &predictions));
    OK(rf_ctc_greedy_decode(&predictions, &(rf_ctc_decode_params){ .form = RF_LOGITS }, &read, NULL));
    OK(rf_edit_distance(&read, &arrays[1], &distance));
    if (distance > 0.02) fail_msg("%g of the labels are wrong", distance);
    OK(error_rate(model, data, &arrays[1], &distance));
    if (distance > 0.02) fail_msg("%g of the labels that the search finds are wrong", distance);
    rf_array_free(&read);
    rf_array_free(&predictions);
    rf_model_destroy(&model);
    rf_optimizer_destroy(&optimizer);
    rf_dataset_destroy(&data);
    rf_dataset_destroy(&rows);
}
TEST_ON_TWO(reads_what_it_is_shown)

TESTS(ctc, NULL, NULL)
