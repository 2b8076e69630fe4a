/* SPDX-License-Identifier: Apache-2.0 */
/* A network reads texts in both directions and learns to tell two classes apart. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "../common/common.h"
#include "../common/epoch_bar.h"
#include "../common/servers.h"
#include "model.h"
#include "reviews.h"

enum {
    MAX_CALLBACKS = 3,
    STEPS_PER_CALLBACK = 4,
    MAX_TEXTS = 16,
    SHOWN = 3,
    LINE_BATCH = 64,
    LONGEST_LINE = 1 << 16,
    MADE_TESTS = 1000,
    TEST_PART = 10
};

typedef struct settings {
    uint32_t epochs, limit;
    double learning_rate;
    const char *file, *save, *lines; /* NULL: reviews are made, nothing is saved, no file is classified */
    const char *texts[MAX_TEXTS];
    uint32_t num_texts;
    bool full;
} settings;

typedef struct app {
    const settings *settings;
    lstm_config config;
    rf_strategy *strategy;
    reviews train, test;
    rf_tokenizer *tokenizer;
    rf_dataset *train_data, *test_data;
    rf_model *model;
    rf_optimizer *optimizer;
    rf_callback *callbacks[MAX_CALLBACKS];
    uint32_t num_callbacks;
    epoch_bar bar;
} app;

/* ---- options ---- */

enum { OPTION_FULL = 256, OPTION_SAVE, OPTION_LINES };

static const struct argp_option own_options[] = {
    { "epochs", 'e', "N", 0, "Passes over the training set (default: 5; with --full 10)", 1 },
    { "reviews", 'f', "FILE", 0,
      "Texts to learn from instead of made ones: lines of 0 or 1, a tab and a text; the last tenth is for the test",
      1 },
    { "learning-rate", 'r', "X", 0, "Learning rate (default: 0.01; with --full 0.0001)", 1 },
    { "limit", 'n', "N", 0, "Texts to train on (default: 4000 that are made; all of a file)", 1 },
    { "full", OPTION_FULL, NULL, 0,
      "The network and the training of TensorFlow's tutorial: texts of 100 words, two recurrent layers of 64 and 32 "
      "units, dropout 0.5 (default: 32 words, one layer of 32 units)",
      1 },
    { "classify", 't', "TEXT", 0, "A text to classify after the training; may be given again", 1 },
    { "classify-lines", OPTION_LINES, "FILE", 0,
      "A file, plain or gzipped, whose lines are classified after the training", 1 },
    { "save", OPTION_SAVE, "FILE", 0, "Where to save the trained model, and beside it as FILE.words its vocabulary",
      1 },
    { 0 },
};

static error_t parse_own(int key, char *value, struct argp_state *state)
{
    settings *s = state->input;
    switch (key) {
    case 'e': s->epochs = (uint32_t)example_parse_count(state, value, 1000000); return 0;
    case 'f': s->file = value; return 0;
    case 'r': s->learning_rate = example_parse_rate(state, value); return 0;
    case 'n': s->limit = (uint32_t)example_parse_count(state, value, 100000000); return 0;
    case OPTION_FULL: s->full = true; return 0;
    case OPTION_SAVE: s->save = value; return 0;
    case OPTION_LINES: s->lines = value; return 0;
    case 't':
        if (s->num_texts == MAX_TEXTS) argp_error(state, "more than %d texts to classify", MAX_TEXTS);
        s->texts[s->num_texts++] = value;
        return 0;
    default: return ARGP_ERR_UNKNOWN;
    }
}

static void parse(int argc, char **argv, example_options *options, settings *own)
{
    const struct argp own_parser = { own_options, parse_own, NULL, NULL, NULL, NULL, NULL };
    example_parse_with(argc, argv,
                       "Trains a bidirectional LSTM to tell texts of two classes apart: by default reviews made by a "
                       "program, of which the order of the words tells whether they are favourable.",
                       "dbslcPBS", options, &own_parser, own);
    if (!own->epochs) own->epochs = own->full ? 10 : 5;
    if (!own->limit && !own->file) own->limit = 4000;
    if (!options->batch_size) options->batch_size = 64;
    if (own->learning_rate == 0.0) own->learning_rate = own->full ? 1e-4 : 1e-2;
}

/* ---- data ---- */

static int load(const example_options *options, app *a)
{
    const settings *s = a->settings;
    if (!s->file) {
        const uint32_t tests = s->limit < MADE_TESTS ? s->limit : MADE_TESTS;
        if (reviews_make_all(options->seed, s->limit, true, &a->train) < 0) return -1;
        return reviews_make_all(options->seed, tests, false, &a->test);
    }
    if (reviews_read(s->file, &a->train) < 0) return -1;
    const uint32_t tests = (a->train.count + TEST_PART - 1) / TEST_PART;
    if (reviews_split(&a->train, tests, &a->test) < 0) return -1;
    if (s->limit && s->limit < a->train.count) a->train.count = s->limit;
    return 0;
}

/* The vocabulary is that of the training set: the same ones for the same texts. */
static int create_tokenizer(app *a)
{
    const rf_tokenizer_params params = { .kind = RF_TOKENIZER_WORDS, .max_tokens = (uint32_t)a->config.vocabulary };
    TRY(rf_tokenizer_train(&params, a->train.texts, NULL, a->train.count, &a->tokenizer));
    a->config.vocabulary = (int32_t)rf_tokenizer_vocabulary_size(a->tokenizer);
    return 0;
}

/* `data` becomes batches of itself. */
static int batch(const example_options *options, app *a, rf_dataset **data, bool training)
{
    const uint32_t rows = options->batch_size * rf_strategy_num_replicas_in_sync(a->strategy);
    rf_dataset *next = NULL;
    if (training) {
        const uint64_t count = (uint64_t)rf_dataset_cardinality(*data);
        const rf_result r = rf_dataset_shuffle(*data, count, options->seed, RF_SHUFFLE_EACH_PASS, &next);
        rf_dataset_destroy(data);
        TRY(r);
        *data = next;
    }
    const rf_result r = rf_dataset_batch(*data, rows, RF_REMAINDER_KEEP, &next);
    rf_dataset_destroy(data);
    TRY(r);
    *data = next;
    return 0;
}

static int prepare_data(const example_options *options, app *a)
{
    const uint32_t length = (uint32_t)a->config.length;
    TRY(reviews_dataset(&a->train, a->tokenizer, length, &a->train_data));
    TRY(reviews_dataset(&a->test, a->tokenizer, length, &a->test_data));
    if (batch(options, a, &a->train_data, true) < 0) return -1;
    return batch(options, a, &a->test_data, false);
}

/* ---- training ---- */

static const rf_loss loss = { .kind = RF_LOSS_BINARY_CROSSENTROPY, .from_logits = true };

static int compile(const example_options *options, const rf_optimizer_params *adam, app *a)
{
    static const rf_output_metric metric = { .metric = { .kind = RF_METRIC_BINARY_ACCURACY, .from_logits = true } };
    if (servers_create_optimizer(options, a->strategy, adam, &a->optimizer) < 0) return -1;
    TRY(rf_model_compile(a->model, &(rf_compile_params){ .optimizer = a->optimizer,
                                                         .losses = &loss,
                                                         .num_losses = 1,
                                                         .output_metrics = &metric,
                                                         .num_output_metrics = 1,
                                                         .steps_per_execution = STEPS_PER_CALLBACK }));
    return 0;
}

static int fit(const example_options *options, app *a)
{
    TRY(epoch_bar_create_callback(&a->bar, &a->callbacks[a->num_callbacks]));
    a->num_callbacks++;
    if (example_add_callbacks(options, a->callbacks, &a->num_callbacks) < 0) return -1;
    const rf_fit_params params = { .data = a->train_data,
                                   .epochs = a->settings->epochs,
                                   .callbacks = a->callbacks,
                                   .num_callbacks = a->num_callbacks };
    TRY(rf_model_fit(a->model, &params, NULL));
    return rf_strategy_stop_agreed(a->strategy) ? example_stopped() : 0;
}

static int fit_with_servers(const example_options *options, const rf_optimizer_params *adam, app *a)
{
    return servers_train(&(server_training){ .options = options,
                                             .strategy = a->strategy,
                                             .model = a->model,
                                             .optimizer = adam,
                                             .loss = &loss,
                                             .minimizer = a->optimizer,
                                             .data = a->train_data,
                                             .examples = a->train.count,
                                             .epochs = a->settings->epochs });
}

static int train(const example_options *options, app *a)
{
    const rf_optimizer_params adam = { .kind = RF_OPTIMIZER_ADAM, .learning_rate = a->settings->learning_rate };
    const bool servers = options->strategy == STRATEGY_PARAMETER_SERVER;
    rf_logs logs;
    double accuracy = 0;
    if (compile(options, &adam, a) < 0) return -1;
    int result = servers ? fit_with_servers(options, &adam, a) : fit(options, a);
    if (result == 0) result = example_outcome(rf_model_evaluate(a->model, a->test_data, &logs));
    if (result != 0) return result;
    (void)rf_logs_get(&logs, "accuracy", &accuracy);
    example_print("Test: %.2f %% of %u texts right\n", 100 * accuracy, a->test.count);
    return 0;
}

/* ---- use ---- */

static float probability_of(float logit)
{
    return 1.0f / (1.0f + expf(-logit));
}

static rf_result predict(app *a, const char *const *texts, uint32_t count, float *probabilities)
{
    reviews asked = { .texts = (const char **)texts, .labels = calloc(count, sizeof(int32_t)), .count = count };
    rf_dataset *data = NULL, *batched = NULL;
    rf_array logits = { 0 };
    rf_result r = asked.labels ? RF_OK : RF_ERROR_OUT_OF_HOST_MEMORY;
    if (r >= 0) r = reviews_dataset(&asked, a->tokenizer, (uint32_t)a->config.length, &data);
    if (r >= 0) r = rf_dataset_batch(data, count, RF_REMAINDER_KEEP, &batched);
    if (r >= 0) r = rf_model_predict(a->model, batched, &logits);
    for (uint32_t i = 0; r >= 0 && i < count; i++) probabilities[i] = probability_of(((const float *)logits.data)[i]);
    rf_array_free(&logits);
    rf_dataset_destroy(&batched);
    rf_dataset_destroy(&data);
    free(asked.labels);
    return r;
}

/* Classifies what was asked for, or else some of the test. */
static int classify(app *a)
{
    const settings *s = a->settings;
    const uint32_t shown = a->test.count < SHOWN ? a->test.count : SHOWN;
    const uint32_t count = s->num_texts ? s->num_texts : shown;
    const char *const *texts = s->num_texts ? s->texts : a->test.texts;
    float probabilities[MAX_TEXTS];
    const int result = example_outcome(predict(a, texts, count, probabilities));
    for (uint32_t i = 0; i < count && result == 0; i++)
        example_print("%6.2f %%  %s\n", 100 * (double)probabilities[i], texts[i]);
    return result;
}

/* A line u8 [n] -> as many tokens as the network reads. */
static rf_result encode_line(void *user, const rf_element *in, rf_element *out)
{
    const app *a = user;
    const char *text = in->component[0].data;
    const size_t size = (size_t)in->component[0].shape.dim[0];
    rf_array tokens;
    const rf_result r = reviews_encode(a->tokenizer, &text, &size, 1, (uint32_t)a->config.length, &tokens);
    if (r < 0) return r;
    memcpy(out->component[0].data, tokens.data, (size_t)a->config.length * sizeof(int32_t));
    rf_array_free(&tokens);
    return RF_OK;
}

/* In the order of the lines, which may be more than memory holds: they are read once for this and once to be shown. */
static rf_result predict_lines(app *a, const rf_dataset *lines, rf_array *logits)
{
    const rf_element_spec tokens = { .num_components = 1,
                                     .dtype = { RF_I32 },
                                     .shape = { RF_SHAPE(a->config.length) } };
    rf_dataset *encoded = NULL, *batched = NULL;
    rf_result r = rf_dataset_map(lines, encode_line, a, &tokens, &encoded);
    if (r >= 0) r = rf_dataset_batch(encoded, LINE_BATCH, RF_REMAINDER_KEEP, &batched);
    if (r >= 0) r = rf_model_predict(a->model, batched, logits);
    rf_dataset_destroy(&batched);
    rf_dataset_destroy(&encoded);
    return r;
}

static rf_result show_lines(const rf_dataset *lines, const rf_array *logits)
{
    rf_iterator *it;
    const rf_element *line;
    rf_result r = rf_iterator_create(lines, 0, &it);
    for (int64_t i = 0; r == RF_OK && i < logits->shape.dim[0]; i++) {
        r = rf_iterator_next(it, &line);
        if (r == RF_OK)
            example_print("%6.2f %%  %.*s\n", 100 * (double)probability_of(((const float *)logits->data)[i]),
                          (int)line->component[0].shape.dim[0], (const char *)line->component[0].data);
    }
    rf_iterator_destroy(&it);
    return r < 0 ? r : RF_OK;
}

static int classify_lines(app *a)
{
    rf_dataset *lines = NULL;
    rf_array logits = { 0 };
    if (!a->settings->lines) return 0;
    rf_result r = rf_dataset_from_text_lines(
        &(rf_text_lines_params){
            .paths = &a->settings->lines, .num_paths = 1, .max_bytes = LONGEST_LINE, .skip_empty = true },
        &lines);
    if (r >= 0) r = predict_lines(a, lines, &logits);
    if (r >= 0) r = show_lines(lines, &logits);
    rf_array_free(&logits);
    rf_dataset_destroy(&lines);
    return example_outcome(r);
}

static int save(const app *a)
{
    char words[4096];
    if (!a->settings->save) return 0;
    TRY(rf_model_save(a->model, a->settings->save, NULL));
    snprintf(words, sizeof(words), "%s.words", a->settings->save);
    if (rf_strategy_is_chief(a->strategy)) TRY(rf_tokenizer_save(a->tokenizer, words));
    example_print("%s: the model; %s: its vocabulary\n", a->settings->save, words);
    return 0;
}

/* ---- program ---- */

static int run(const example_options *options, app *a)
{
    static const lstm_config small = {
        .vocabulary = 1000, .length = 32, .width = 32, .num_layers = 1, .units = { 32 }, .dense_units = 32
    };
    a->config = a->settings->full ? lstm_stacked : small;
    if (load(options, a) < 0 || create_tokenizer(a) < 0) return -1;
    const int created = example_create_strategy(options, &a->strategy);
    if (created != 0) return created;
    a->bar.visible = rf_strategy_is_chief(a->strategy);
    a->bar.total = a->train.count;
    if (prepare_data(options, a) < 0) return -1;
    TRY(lstm_create(a->strategy, &a->config, &a->model));
    example_print("%u texts, %d words, %llu parameters, global batch %u\n", a->train.count, (int)a->config.vocabulary,
                  (unsigned long long)rf_model_num_params(a->model),
                  options->batch_size * rf_strategy_num_replicas_in_sync(a->strategy));
    int result = train(options, a);
    if (result == 0) result = classify(a);
    if (result == 0) result = classify_lines(a);
    return result == 0 ? save(a) : result;
}

static void destroy(app *a)
{
    for (uint32_t i = 0; i < a->num_callbacks; i++) rf_callback_destroy(&a->callbacks[i]);
    rf_optimizer_destroy(&a->optimizer);
    rf_model_destroy(&a->model);
    rf_dataset_destroy(&a->train_data);
    rf_dataset_destroy(&a->test_data);
    rf_tokenizer_destroy(&a->tokenizer);
    reviews_free(&a->test);
    reviews_free(&a->train);
    example_destroy_strategy(&a->strategy);
}

int main(int argc, char **argv)
{
    example_options options = { 0 };
    settings own = { 0 };
    parse(argc, argv, &options, &own);
    app a = { .settings = &own };
    const int result = run(&options, &a);
    destroy(&a);
    return example_exit_status(result);
}
