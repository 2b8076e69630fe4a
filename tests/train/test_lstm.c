/* SPDX-License-Identifier: Apache-2.0 */
/* The network of examples/lstm against PyTorch (make_lstm_trajectory.py), replicas against one device, its size against
 * the published ones; reviews, made and read. Argument: drivers. */
#include "../../examples/lstm/model.h"
#include "../../examples/lstm/reviews.h"
#include "../support/folder.h"
#include "tests/room.h"
#include "trajectory.h"

static const lstm_config small = {
    .vocabulary = 13, .length = 7, .width = 6, .num_layers = 2, .units = { 5, 4 }, .dense_units = 6
};

/* ---- training ---- */

static void *create(rf_strategy *strategy)
{
    rf_model *model;
    OK(lstm_create(strategy, &small, &model));
    return model;
}

static rf_tensor losses_of(rf_trace *t, void *model, const rf_tensor *in)
{
    return rf_binary_crossentropy(t, in[1], rf_model_call(t, model, in[0], RF_TRAINING), RF_LOGITS);
}

static const trajectory_network network = { .create = create, .losses = losses_of };

/* ---- the published networks ---- */

static void size(rf_strategy *strategy)
{
    rf_model *model;
    OK(lstm_create(strategy, &lstm_tutorial, &model));
    assert_int_equal(rf_model_num_params(model), 138369);
    rf_model_destroy(&model);
    OK(lstm_create(strategy, &lstm_stacked, &model));
    assert_int_equal(rf_model_num_params(model), 175489);
    rf_model_destroy(&model);
}
TEST_ON_ONE(size)

/* ---- reviews ---- */

static const char *const good[] = { "good",   "great",     "brilliant", "charming", "clever",  "moving",
                                    "superb", "wonderful", "inspired",  "gripping", "elegant", "funny" };
static const char *const bad[] = { "bad",      "awful",  "boring", "clumsy",   "dull",       "lazy",
                                   "terrible", "stupid", "flat",   "tiresome", "mechanical", "shallow" };
static const char *const negations[] = { " not ", " never ", " hardly ", " by no means " };

static bool ends_with(const char *text, const char *word)
{
    const size_t length = strlen(text), size = strlen(word);
    return length > size && strcmp(text + length - size, word) == 0;
}

/* Cuts `text` where `mark` begins, and returns what follows it; NULL where there is none. */
static char *cut(char *text, const char *mark)
{
    char *found = strstr(text, mark);
    if (!found) return NULL;
    *found = '\0';
    return found + strlen(mark);
}

/* A clause tells it by its last word, and the other way round where that is negated. -1: it is no verdict. */
static int judge_clause(const char *clause)
{
    int negated = 0;
    for (size_t i = 0; i < 4; i++) negated += strstr(clause, negations[i]) != NULL;
    for (size_t i = 0; i < 12; i++) {
        if (ends_with(clause, good[i])) return !negated;
        if (ends_with(clause, bad[i])) return negated;
    }
    return -1;
}

/* Judges a sentence by the clause that has the say. */
static int judge_sentence(char *sentence)
{
    char *rest = cut(sentence, ", but ");
    if (rest) return judge_clause(rest);
    if (strncmp(sentence, "although ", 9) == 0) return judge_clause(cut(sentence, ", "));
    (void)cut(sentence, ", although ");
    (void)cut(sentence, " and ");
    return judge_clause(sentence);
}

static int judge(const char *review)
{
    char text[REVIEW_SIZE], *rest;
    int verdict = -1;
    snprintf(text, sizeof(text), "%s ", review);
    for (char *sentence = text; *sentence && verdict < 0; sentence = rest) {
        rest = cut(sentence, ". ");
        assert_non_null(rest);
        verdict = judge_sentence(sentence);
    }
    return verdict;
}

/* Both classes are as frequent, what a review says is its class, and the reviews for tests are others. */
TEST(test_made_reviews)
{
    char text[REVIEW_SIZE], again[REVIEW_SIZE], other[REVIEW_SIZE];
    int positive = 0, same = 0;
    for (uint64_t i = 0; i < 4000; i++) {
        const int32_t label = reviews_make(3, i, true, text);
        assert_true(strlen(text) < REVIEW_SIZE - 1);
        assert_int_equal(judge(text), label);
        assert_int_equal(reviews_make(3, i, true, again), label);
        assert_string_equal(text, again);
        (void)reviews_make(3, i, false, other);
        same += strcmp(text, other) == 0;
        positive += label;
    }
    assert_true(positive > 1850 && positive < 2150);
    assert_true(same < 4);
}

TEST(test_read_reviews)
{
    char folder[SCRATCH_PATH], path[64];
    reviews all, tail;
    snprintf(path, sizeof(path), "%s/reviews.tsv", scratch(folder));
    scratch_write(path, "1\tgood\n\n0\tnot so good\n1\tbetter\n");
    assert_int_equal(reviews_read(path, &all), 0);
    assert_int_equal(all.count, 3);
    assert_string_equal(all.texts[1], "not so good");
    assert_int_equal(all.labels[1], 0);
    assert_int_equal(reviews_split(&all, 1, &tail), 0);
    assert_int_equal(all.count, 2);
    assert_int_equal(tail.count, 1);
    assert_string_equal(tail.texts[0], "better");
    assert_int_equal(tail.labels[0], 1);
    reviews_free(&tail);
    reviews_free(&all);
    static const char *const wrong[] = { "1 good\n0\tbad\n", "2\tgood\n1\tbad\n", "1\t\n0\tbad\n", "1\tone\n", "" };
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        scratch_write(path, wrong[i]);
        assert_int_equal(reviews_read(path, &all), -1);
        assert_null(all.texts);
    }
    scratch_remove(folder);
    assert_int_equal(reviews_read(path, &all), -1);
}

TEST_PROGRAM(lstm)
{
    return trajectory_run(FIXTURES "/lstm.traj", &network, own_tests, argc, argv);
}
