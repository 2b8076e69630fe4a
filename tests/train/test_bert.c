/* SPDX-License-Identifier: Apache-2.0 */
/* The network of examples/bert against PyTorch (make_bert_trajectory.py), replicas against one device, its size against
 * the published one; what text and pairs are made of. Argument: drivers, size. */
#include "../../examples/bert/corpus.h"
#include "../../examples/bert/model.h"
#include "../../examples/bert/pairs.h"
#include "../support/folder.h"
#include "tests/room.h"
#include "trajectory.h"

static const bert_config followed = { .layers = 2,
                                      .heads = 2,
                                      .width = 128,
                                      .inner_width = 512,
                                      .vocabulary = 31,
                                      .length = 12,
                                      .max_length = 14,
                                      .predictions = 4 };
enum { SIGNS = 4 };

/* ---- generated weights ---- */

/* Splitmix64; Steele, Lea, Flood 2014. */
static uint64_t bits_of(uint32_t variable, int64_t element)
{
    uint64_t z = ((uint64_t)variable << 32) + (uint64_t)(element + 1) * 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

static rf_variable *variable_named(const rf_model *model, const char *name)
{
    const rf_variable_list all = rf_model_variables(model);
    for (uint32_t i = 0; i < all.count; i++)
        if (strcmp(rf_variable_name(all.items[i]), name) == 0) return all.items[i];
    fail_msg("the model has no variable %s", name);
    return NULL;
}

static void assign_generated(const rf_model *model)
{
    const trajectory *t = &trajectory_reference;
    assert_int_equal(rf_model_variables(model).count, t->num_variables);
    for (uint32_t i = 0; i < t->num_variables; i++) {
        rf_variable *variable = variable_named(model, t->variables[i].name);
        const int64_t count = rf_shape_count(rf_variable_shape(variable));
        const double mean = (double)t->variables[i].initial[0], deviation = (double)t->variables[i].initial[1];
        float *values = test_malloc((size_t)count * sizeof(float));
        for (int64_t e = 0; e < count; e++)
            values[e] = (float)(mean + deviation * ((double)(bits_of(i, e) >> 40) / 8388608.0 - 1));
        OK(rf_variable_assign(variable, values));
        test_free(values);
    }
}

/* Norm and signed sums, as the file has them. */
static void check_gradients(const rf_model *model)
{
    const trajectory *t = &trajectory_reference;
    double largest = 0, worst = 0;
    for (uint32_t i = 0; i < t->num_variables; i++) largest = fmax(largest, (double)t->variables[i].gradient[0]);
    for (uint32_t i = 0; i < t->num_variables; i++) {
        const trajectory_variable *v = &t->variables[i];
        rf_variable *variable = variable_named(model, v->name);
        const int64_t count = rf_shape_count(rf_variable_shape(variable));
        float *is = test_malloc((size_t)count * sizeof(float));
        double sums[1 + SIGNS] = { 0 };
        OK(rf_variable_read_gradient(variable, is));
        for (int64_t e = 0; e < count; e++) {
            const uint64_t bits = bits_of(i, e);
            sums[0] += (double)is[e] * (double)is[e];
            for (int s = 0; s < SIGNS; s++) sums[1 + s] += bits >> s & 1 ? -(double)is[e] : (double)is[e];
        }
        test_free(is);
        sums[0] = sqrt(sums[0]);
        /* A bias of all keys has no influence: its gradient is a rounding error. */
        const double norm = (double)v->gradient[0], floor = norm < 1e-12 * largest ? 1e-6 * largest : 1e-4 * norm;
        for (int s = 0; s <= SIGNS; s++) {
            assert_near(sums[s], (double)v->gradient[s], 0, floor, v->name);
            if (norm >= 1e-12 * largest) worst = fmax(worst, fabs(sums[s] - (double)v->gradient[s]) / norm);
        }
    }
    print_message("  worst error of gradients, relative to their norms: %.2g\n", worst);
}

/* ---- training ---- */

typedef struct training {
    bert *bert;
    rf_optimizer *optimizer;
} training;

static rf_result train_step(rf_trace *t, const rf_tensor *in, rf_tensor *out, void *user)
{
    const training *tr = user;
    rf_tensor logits[2];
    (void)rf_model_apply(t, bert_model(tr->bert), in, 3, RF_TRAINING, logits, 2);
    out[0] = bert_pretraining_loss(t, logits, in[PAIR_WORDS], in[PAIR_WEIGHTS], in[PAIR_LABEL], false);
    (void)rf_optimizer_minimize(t, tr->optimizer, out[0], rf_model_variables(bert_model(tr->bert)));
    return rf_trace_status(t);
}

static void train(rf_strategy *strategy, double *losses)
{
    const rf_schedule schedule = {
        .kind = RF_SCHEDULE_POLYNOMIAL_DECAY, .initial = 1e-3, .decay_steps = 40, .warmup_steps = 4
    };
    const rf_optimizer_params optimizer = bert_optimizer(&schedule);
    training tr;
    rf_function *function;
    OK(bert_create(strategy, &followed, &tr.bert));
    OK(rf_optimizer_create(strategy, &optimizer, &tr.optimizer));
    OK(rf_function_create(strategy,
                          &(rf_function_params){ .step = train_step, .user = &tr, .num_outputs = 1, .training = true },
                          &function));
    assign_generated(bert_model(tr.bert));
    for (uint32_t s = 0; s < trajectory_reference.num_steps; s++) {
        float loss;
        run_once(strategy, function, &trajectory_reference.batches[s], &loss, 1);
        assert_near((double)loss, trajectory_reference.losses[s], 1e-4, 0, "loss");
        losses[s] = (double)loss;
        if (s == 0) check_gradients(bert_model(tr.bert));
    }
    OK(rf_strategy_check_identical(strategy, NULL, NULL));
    rf_function_destroy(&function);
    rf_optimizer_destroy(&tr.optimizer);
    bert_destroy(&tr.bert);
}

/* ---- the published network ---- */

/* Parameters of the encoder, and of it with both heads, by hand. */
static uint64_t count_encoder(const bert_config *c)
{
    const uint64_t w = (uint64_t)c->width, inner = (uint64_t)c->inner_width;
    const uint64_t embeddings = ((uint64_t)c->vocabulary + (uint64_t)c->max_length + 2) * w + 2 * w;
    const uint64_t layer = 4 * (w * w + w) + 2 * w + w * inner + inner + inner * w + w + 2 * w;
    return embeddings + (uint64_t)c->layers * layer + w * w + w;
}

static uint64_t count_pretraining(const bert_config *c)
{
    const uint64_t w = (uint64_t)c->width;
    return count_encoder(c) + w * w + w + 2 * w + (uint64_t)c->vocabulary + 2 * w + 2;
}

static uint64_t count_created(rf_strategy *strategy, const bert_config *config)
{
    bert *b;
    OK(bert_create(strategy, config, &b));
    const uint64_t count = rf_model_num_params(bert_model(b));
    bert_destroy(&b);
    return count;
}

/* The count by hand is right for networks that differ in each number, and has the published value for the published
 * one, whose gigabytes are only allocated with "size". */
static void sizes(rf_strategy *strategy)
{
    assert_int_equal(count_encoder(&bert_base), 109482240);
    assert_int_equal(count_pretraining(&bert_base), 110106428);
    bert_config models[] = { followed, followed, followed, followed, followed, followed, followed, bert_tiny };
    models[1].layers = 3;
    models[2].heads = 4;
    models[3].width = 66;
    models[4].inner_width = 77;
    models[5].vocabulary = 47;
    models[6].max_length = 39;
    for (size_t i = 0; i < sizeof(models) / sizeof(models[0]); i++)
        assert_int_equal(count_created(strategy, &models[i]), count_pretraining(&models[i]));
    bert_config classifier = followed;
    classifier.predictions = 0;
    classifier.classes = 7;
    assert_int_equal(count_created(strategy, &classifier), count_encoder(&followed) + 7 * 128 + 7);
}
TEST_ON_ONE(sizes)

static void base(rf_strategy *strategy)
{
    assert_int_equal(count_created(strategy, &bert_base), 110106428);
}
ON_ONE(base)

/* Initial values are within two deviations of 0.02, and kernels as large as that. */
static void begins(rf_strategy *strategy)
{
    bert *b;
    OK(bert_create(strategy, &bert_tiny, &b));
    rf_variable *words = variable_named(bert_model(b), "encoder/words/embeddings");
    const int64_t count = rf_shape_count(rf_variable_shape(words));
    float *values = test_malloc((size_t)count * sizeof(float));
    double squares = 0;
    OK(rf_variable_read(words, values));
    for (int64_t i = 0; i < count; i++) {
        assert_true(fabsf(values[i]) <= 0.04f);
        squares += (double)values[i] * (double)values[i];
    }
    assert_near(sqrt(squares / (double)count), 0.02 * 0.8796, 0.01, 0, "deviation");
    test_free(values);
    bert_destroy(&b);
}
TEST_ON_ONE(begins)

/* The encoder of a classifier is that of the model it is copied from. */
static void copies(rf_strategy *strategy)
{
    bert *from, *to;
    bert_config classifier = followed, other = followed;
    classifier.predictions = 0;
    classifier.classes = 3;
    other.layers = 1;
    OK(bert_create(strategy, &followed, &from));
    OK(bert_create(strategy, &classifier, &to));
    OK(bert_copy_encoder(from, to));
    const rf_variable_list all = rf_model_variables(bert_model(to));
    uint32_t same = 0;
    for (uint32_t i = 0; i < all.count; i++) {
        const size_t size = (size_t)rf_shape_count(rf_variable_shape(all.items[i])) * sizeof(float);
        float *a = test_malloc(size), *b = test_malloc(size);
        if (strncmp(rf_variable_name(all.items[i]), "encoder/", 8) == 0) {
            OK(rf_variable_read(all.items[i], a));
            OK(rf_variable_read(variable_named(bert_model(from), rf_variable_name(all.items[i])), b));
            assert_memory_equal(a, b, size);
            same++;
        }
        test_free(a);
        test_free(b);
    }
    assert_int_equal(same, all.count - 2);
    bert_destroy(&from);
    OK(bert_create(strategy, &other, &from));
    assert_int_equal(bert_copy_encoder(from, to), RF_ERROR_INVALID_ARGUMENT);
    bert_destroy(&from);
    bert_destroy(&to);
}
TEST_ON_ONE(copies)

/* ---- text ---- */

static const char document[] = "# Title\n\nThe first sentence is here. The second one\ngoes on: in a second line\n"
                               "* an entry\n* another one\n\n---\n## Part\n```\n1 2 3\n```\nLast words, e.g. these.";
static const char header[] = "/* Copyright */\n/**\n * What it does, for all. It ends here.\n */\n"
                             "int f(int a,\n      int b);\n/* ---- more ---- */\nint g(void);\n";

TEST(test_document)
{
    static const char *const sentences[] = { "Title",
                                             "The first sentence is here.",
                                             "The second one goes on:",
                                             "in a second line",
                                             "an entry",
                                             "another one",
                                             "Part",
                                             "Last words, e.g. these." };
    corpus c = { 0 };
    assert_true(corpus_add_document(&c, "folder/a.md", document, sizeof(document) - 1));
    assert_true(corpus_add_document(&c, "b.h", header, sizeof(header) - 1));
    assert_int_equal(c.num_documents, 2);
    assert_string_equal(c.documents[0], "a.md");
    for (uint32_t i = 0; i < 8; i++) assert_string_equal(corpus_text(&c, i), sentences[i]);
    assert_int_equal(c.num_sections, 4);
    assert_int_equal(c.sections[1].first, 6);
    assert_int_equal(c.sections[1].count, 2);
    assert_int_equal(c.sections[2].document, 1);
    assert_string_equal(corpus_text(&c, 8), "Copyright");
    assert_string_equal(corpus_text(&c, 9), "What it does, for all.");
    assert_string_equal(corpus_text(&c, c.num_sentences - 2), "more");
    assert_string_equal(corpus_text(&c, c.num_sentences - 1), "int g(void);");
    corpus_free(&c);
}

/* ---- pairs ---- */

/* Twelve sections of eight sentences, whose words tell which one they are of. */
static void load_made_text(const char *folder, corpus *c)
{
    char path[SCRATCH_PATH + 16], text[16384];
    size_t n = 0;
    for (int s = 0; s < 12; s++) {
        n += (size_t)snprintf(text + n, sizeof(text) - n, "## Section %c\n", 'a' + s);
        for (int i = 0; i < 8; i++)
            n += (size_t)snprintf(text + n, sizeof(text) - n, "This is sentence %c%c of all the sentences here.\n",
                                  'a' + s, 'a' + i);
    }
    snprintf(path, sizeof(path), "%s/text.md", folder);
    scratch_write(path, text);
    const char *const paths[] = { path };
    assert_int_equal(corpus_load(paths, 1, NULL, 200, c), 0);
}

typedef struct pair_arrays {
    int32_t tokens[24], segments[24], positions[4], words[4], label;
    float weights[4];
} pair_arrays;

static void make_pair(const pair_maker *p, uint64_t epoch, uint64_t index, pair_arrays *out)
{
    rf_element element = { .num_components = PAIR_COMPONENTS };
    void *data[PAIR_COMPONENTS] = { out->tokens, out->segments, out->positions, out->words, out->weights, &out->label };
    for (int i = 0; i < PAIR_COMPONENTS; i++) element.component[i].data = data[i];
    memset(out, 0xff, sizeof(*out));
    OK(pairs_make(p, (rf_random_key){ 3, epoch, index }, p->starts[index % p->num_starts], &element));
}

/* [CLS] A [SEP] B [SEP] and padding, with the masked words put back. */
static void check_pair(const corpus *c, const pair_arrays *pair, uint32_t *masked, uint32_t *kept)
{
    int32_t tokens[24], seps = 0, end = 24;
    float before = 1;
    memcpy(tokens, pair->tokens, sizeof(tokens));
    for (int i = 0; i < 4; i++) {
        assert_true(pair->weights[i] == 1 || (pair->weights[i] == 0 && pair->words[i] == 0 && pair->positions[i] == 0));
        assert_true(pair->weights[i] <= before);
        before = pair->weights[i];
        if (before == 0) continue;
        assert_true(i == 0 || pair->positions[i] > pair->positions[i - 1]);
        *masked += tokens[pair->positions[i]] == c->mask;
        *kept += tokens[pair->positions[i]] == pair->words[i];
        tokens[pair->positions[i]] = pair->words[i];
    }
    assert_true(pair->weights[0] == 1);
    while (tokens[end - 1] == BERT_PADDING) end--;
    assert_int_equal(tokens[0], c->cls);
    for (int i = 0; i < 24; i++) {
        assert_int_equal(pair->segments[i], seps == 1 && i < end);
        if (i >= end) assert_int_equal(tokens[i], BERT_PADDING);
        seps += tokens[i] == c->sep;
        assert_true(i == 0 || i >= end || tokens[i] == c->sep || tokens[i] >= c->special || tokens[i] == 1);
    }
    assert_int_equal(seps, 2);
    assert_int_equal(tokens[end - 1], c->sep);
    assert_true(pair->label == 0 || pair->label == 1);
}

TEST(test_pairs)
{
    enum { PAIRS = 4000 };
    char folder[SCRATCH_PATH];
    const bert_config config = { .length = 24, .predictions = 4 };
    corpus c;
    pair_maker maker;
    load_made_text(scratch(folder), &c);
    assert_int_equal(c.num_sections, 12);
    assert_true(c.sections[9].held_out);
    assert_int_equal(pairs_begin(&c, &config, false, &maker), 0);
    assert_int_equal(maker.num_starts, 11 * 8); /* a title and eight sentences */
    uint32_t masked = 0, kept = 0, predicted = 0, follows = 0, changed = 0;
    for (uint64_t i = 0; i < PAIRS; i++) {
        pair_arrays pair, again, later;
        make_pair(&maker, 0, i, &pair);
        make_pair(&maker, 0, i, &again);
        make_pair(&maker, 1, i, &later);
        assert_memory_equal(&pair, &again, sizeof(pair));
        changed += memcmp(&pair, &later, sizeof(pair)) != 0;
        check_pair(&c, &pair, &masked, &kept);
        for (int k = 0; k < 4; k++) predicted += pair.weights[k] > 0;
        follows += pair.label == 0;
    }
    assert_true(changed > PAIRS * 99 / 100);
    assert_near(masked, 0.8 * predicted, 0.03, 0, "masked words");
    assert_near(kept, 0.1 * predicted, 0.15, 0, "words that stay");
    assert_near(follows, 0.5 * PAIRS, 0.06, 0, "segments that follow");
    pairs_end(&maker);
    assert_int_equal(pairs_begin(&c, &config, true, &maker), -1); /* one section is no two */
    corpus_free(&c);
    scratch_remove(folder);
}

/* Passages to train on and for tests have no section in common. */
TEST(test_passages)
{
    char folder[SCRATCH_PATH], path[SCRATCH_PATH + 16];
    passage_set s;
    corpus c;
    load_made_text(scratch(folder), &c);
    assert_int_equal(passages_choose(&c, 4, 1, &s), -1); /* one document is no choice */
    corpus_free(&c);
    snprintf(path, sizeof(path), "%s/text.md", folder);
    const char *const paths[] = { path, path, path };
    assert_int_equal(corpus_load(paths, 3, NULL, 200, &c), 0);
    assert_int_equal(passages_choose(&c, 4, 1, &s), 0);
    assert_int_equal(s.num_classes, 3);
    assert_int_equal(s.num_train, 12);
    assert_int_equal(s.num_test, 27);
    assert_int_equal(s.largest, 9);
    for (uint32_t i = 0; i < s.num_train; i++) assert_false(c.sections[c.section_of[s.train[i]]].held_out);
    for (uint32_t i = 0; i < s.num_test; i++) assert_true(c.sections[c.section_of[s.test[i]]].held_out);
    passages_free(&s);
    corpus_free(&c);
    scratch_remove(folder);
}

TEST_PROGRAM(bert)
{
    const struct CMUnitTest size_tests[] = { cmocka_unit_test(base_on_one) };
    if (argc > 1 && strcmp(argv[1], "size") == 0) return cmocka_run_group_tests(size_tests, NULL, NULL);
    return trajectory_run(FIXTURES "/bert.traj", &(const trajectory_network){ .train = train }, own_tests, argc, argv);
}
