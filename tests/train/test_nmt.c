/* SPDX-License-Identifier: Apache-2.0 */
/* The network of examples/nmt against PyTorch (make_nmt_trajectory.py), replicas against one device, its size against
 * the published one; and what beam search takes. Argument: drivers. */
#include "../../examples/nmt/dates.h"
#include "../../examples/nmt/decode.h"
#include "nmt_training.h"
#include "tests/room.h"

enum { START = 1, END = 2 };

static const nmt_config followed = { .layers = 2,
                                     .heads = 2,
                                     .width = 16,
                                     .key_width = 12,
                                     .inner_width = 24,
                                     .source_vocabulary = 13,
                                     .target_vocabulary = 11,
                                     .source_length = 9,
                                     .target_length = 7 };

/* ---- training ---- */

TEST_ON_ONE(nmt_goes_on)
TEST_ON_TWO(nmt_goes_on)

/* ---- the published network ---- */

static void size(rf_strategy *strategy)
{
    nmt *m;
    const nmt_config tutorial = { .layers = 4,
                                  .heads = 8,
                                  .width = 128,
                                  .key_width = 128,
                                  .inner_width = 512,
                                  .source_vocabulary = 7765,
                                  .target_vocabulary = 7010,
                                  .source_length = 2,
                                  .target_length = 2 };
    OK(nmt_create(strategy, &tutorial, &m));
    assert_int_equal(rf_model_num_params(nmt_model(m)), 10184162);
    nmt_destroy(&m);
}
TEST_ON_ONE(size)

/* ---- decoding ---- */

static rf_result score(rf_trace *t, const rf_tensor *in, rf_tensor *out, void *user)
{
    out[0] = rf_log_softmax(t, nmt_call(t, user, in[0], in[1], RF_INFERENCE, NULL));
    return rf_trace_status(t);
}

/* The mean log probability of the tokens of a translation, its end included. */
static double quality(rf_strategy *strategy, rf_function *function, const int32_t *source, const int32_t *translation)
{
    int32_t from[9], target[7] = { START };
    memcpy(from, source, sizeof(from));
    memcpy(target + 1, translation, sizeof(target) - sizeof(target[0]));
    const rf_element batch = { 2, { { RF_I32, RF_SHAPE(1, 9), from }, { RF_I32, RF_SHAPE(1, 7), target } } };
    rf_per_replica *results[1];
    rf_array scores;
    double sum = 0;
    int length = 0;
    OK(rf_strategy_run(strategy, function, &batch, results));
    OK(rf_strategy_gather(strategy, results[0], &scores));
    while (length < 7) {
        sum += (double)((const float *)scores.data)[11 * length + translation[length]];
        if (translation[length++] == END) break;
    }
    rf_array_free(&scores);
    return sum / length;
}

/* Several sources at a time are translated as each alone; more hypotheses find translations that are as likely or
 * likelier, and one hypothesis takes the likeliest token at each place. */
static void decodes(rf_strategy *strategy)
{
    nmt *m;
    rf_function *function;
    decoder *greedy, *beam;
    const int32_t *sources = trajectory_reference.batches[0].component[0].data;
    int32_t one[6 * 7], many[6 * 7], alone[7];
    OK(nmt_create(strategy, &followed, &m));
    trajectory_assign(&trajectory_reference, nmt_model(m));
    OK(rf_function_create(strategy, &(rf_function_params){ .step = score, .user = m, .num_outputs = 1 }, &function));
    decoder_params params = { .config = &followed, .start = START, .end = END, .beam = 1 };
    assert_int_equal(decoder_create(strategy, m, &params, &greedy), 0);
    params.beam = 16; /* more than the vocabulary has tokens */
    assert_int_equal(decoder_create(strategy, m, &params, &beam), 0);
    assert_int_equal(decoder_run(greedy, sources, 6, one), 0);
    assert_int_equal(decoder_run(beam, sources, 6, many), 0);
    int better = 0;
    for (int i = 0; i < 6; i++) {
        assert_int_equal(decoder_run(greedy, sources + 9 * i, 1, alone), 0);
        assert_memory_equal(alone, one + 7 * i, sizeof(alone));
        const double a = quality(strategy, function, sources + 9 * i, one + 7 * i);
        const double b = quality(strategy, function, sources + 9 * i, many + 7 * i);
        assert_true(b >= a - 1e-5);
        better += b > a + 1e-5;
    }
    assert_true(better > 0);
    decoder_destroy(&greedy);
    decoder_destroy(&beam);
    rf_function_destroy(&function);
    nmt_destroy(&m);
}
TEST_ON_ONE(decodes)

/* ---- dates ---- */

/* Counting days one by one, and a calendar in another form: the weekday by Sakamoto's method. */
TEST(test_dates)
{
    static const char *const weekdays[] = {
        "sunday", "monday", "tuesday", "wednesday", "thursday", "friday", "saturday"
    };
    static const int table[] = { 0, 3, 2, 5, 0, 3, 5, 1, 4, 6, 2, 4 };
    int with_weekday = 0, repeated = 0;
    char before[64] = "";
    for (uint64_t i = 0; i < 5000; i++) {
        const date_pair pair = dates_make(7, i, i % 2 == 0), same = dates_make(7, i, i % 2 == 0);
        int year, month, day;
        int32_t tokens[DATES_SOURCE_LENGTH];
        assert_string_equal(pair.source, same.source);
        const date_pair test = dates_make(7, i, false);
        repeated += strcmp(test.source, before) == 0;
        memcpy(before, test.source, sizeof(before));
        assert_string_equal(pair.target, same.target);
        assert_true(dates_encode_source(pair.source, tokens));
        assert_int_equal(sscanf(pair.target, "%d-%d-%d", &year, &month, &day), 3);
        assert_true(year >= 1900 && year < 2100 && month >= 1 && month <= 12 && day >= 1 && day <= 31);
        const int y = month < 3 ? year - 1 : year;
        const char *weekday = weekdays[(y + y / 4 - y / 100 + y / 400 + table[month - 1] + day) % 7];
        for (int w = 0; w < 7; w++)
            if (strstr(pair.source, weekdays[w])) {
                assert_string_equal(weekdays[w], weekday);
                with_weekday++;
            }
    }
    assert_true(with_weekday > 100);
    assert_true(repeated < 5);
}

TEST(test_encoding)
{
    int32_t tokens[DATES_SOURCE_LENGTH];
    char text[DATES_TARGET_LENGTH + 1];
    assert_true(dates_encode_source("3 March 1998", tokens));
    assert_int_equal(tokens[12], NMT_PADDING);
    assert_false(dates_encode_source("", tokens));
    assert_false(dates_encode_source("3 march 1998 + 2", tokens));
    assert_false(dates_encode_source("wednesday, the 22nd of september", tokens));
    const int32_t translation[] = { 5, 4, DATES_FIRST, 0, DATES_END, 7, 7, 7, 7, 7, 7 };
    dates_decode_target(translation, DATES_TARGET_LENGTH, text);
    assert_string_equal(text, "10-?");
}

TEST_PROGRAM(nmt)
{
    nmt_followed = &followed;
    return trajectory_run(FIXTURES "/nmt.traj", &nmt_network, own_tests, argc, argv);
}
