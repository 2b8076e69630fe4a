/* SPDX-License-Identifier: Apache-2.0 */
/* A network learns to translate: what programs say, from English, or dates into ISO 8601's form. */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "../common/loop.h"
#include "../common/picture.h"
#include "../common/servers.h"
#include "decode.h"
#include "task.h"

enum { MAX_TEXTS = 16, USUAL_PAIRS = 20000, MAX_TEST_PAIRS = 1000, SHOWN = 3, CELL = 12 };
static const rf_tensor no_tensor = { 0 };

typedef struct settings {
    uint32_t epochs, beam;
    uint64_t limit;                         /* 0: as many as are usual */
    const char *pairs, *locales;            /* NULL: messages in the first language that has enough, else dates */
    const char *picture, *texts[MAX_TEXTS]; /* NULL: no picture */
    uint32_t num_texts;
    bool full, gru;
} settings;

typedef struct app {
    const settings *settings;
    task task;
    nmt_config config;
    rf_strategy *strategy;
    rf_dataset *train_data;
    nmt *nmt;
    rf_schedule schedule;
    rf_optimizer_params adam;
    rf_optimizer *optimizer;
    rf_function *train_function;
    rf_metric *loss, *accuracy; /* per token */
    decoder *decoder;
    /* Checkpoints hold besides: */
    rf_iterator *train_iterator; /* NULL between epochs */
    uint32_t epochs;
    uint64_t epoch;            /* of the training that goes on */
    rf_checkpoint *checkpoint; /* NULL: none are kept */
    rf_checkpoint_manager *manager;
} app;

/* ---- options ---- */

enum { OPTION_FULL = 256, OPTION_BEAM, OPTION_PICTURE, OPTION_NETWORK, OPTION_PAIRS, OPTION_LOCALES };

static const struct argp_option own_options[] = {
    { "pairs", OPTION_PAIRS, "NAME", 0,
      "dates: made by a program; or a language, such as fr: what the programs on this machine say, from English, out "
      "of "
      "the catalogues of their messages (default: fr, de or es, whichever has 5,000 of them; else dates)",
      1 },
    { "locales", OPTION_LOCALES, "DIR", 0, "Where the catalogues are (default: " MESSAGES_LOCALES ")", 1 },
    { "epochs", 'e', "N", 0,
      "Passes over the training set (default: of dates 2, with a transformer 4; of messages 5; with --full 20)", 1 },
    { "limit", 'n', "N", 0, "Pairs to train on (default: 20000; with --full 50000 dates, or all messages)", 1 },
    { "network", OPTION_NETWORK, "NAME", 0,
      "gru (the default): gated recurrent units with Bahdanau's attention; or transformer", 1 },
    { "full", OPTION_FULL, NULL, 0,
      "The network and the training of TensorFlow's tutorials: 1024 recurrent units and embeddings of 256, or a "
      "transformer of 4 layers, 8 heads, 128 wide, dropout 0.1 (default: 128 units and 64; 1 layer, 4 heads, 64 wide)",
      1 },
    { "beam", OPTION_BEAM, "N", 0, "Hypotheses that translating keeps (default: 1, the likeliest token at each place)",
      1 },
    { "translate", 't', "TEXT", 0, "A text to translate after the training; may be given again", 1 },
    { "picture", OPTION_PICTURE, "FILE", 0,
      "Where to paint, as PNG, what each character of a translation attends to: a row for each, darker for more", 1 },
    { 0 },
};

static error_t parse_own(int key, char *value, struct argp_state *state)
{
    settings *s = state->input;
    switch (key) {
    case 'e': s->epochs = (uint32_t)example_parse_count(state, value, 1000000); return 0;
    case 'n': s->limit = example_parse_count(state, value, 100000000); return 0;
    case OPTION_FULL: s->full = true; return 0;
    case OPTION_PAIRS:
        if (!*value || strchr(value, '/')) argp_error(state, "'%s' is neither dates nor a language", value);
        s->pairs = value;
        return 0;
    case OPTION_LOCALES: s->locales = value; return 0;
    case OPTION_NETWORK:
        s->gru = strcmp(value, "gru") == 0;
        if (!s->gru && strcmp(value, "transformer") != 0)
            argp_error(state, "there is no network '%s': gru or transformer", value);
        return 0;
    case OPTION_BEAM: s->beam = (uint32_t)example_parse_count(state, value, 64); return 0;
    case OPTION_PICTURE: s->picture = value; return 0;
    case 't':
        if (s->num_texts == MAX_TEXTS) argp_error(state, "more than %d texts to translate", MAX_TEXTS);
        s->texts[s->num_texts++] = value;
        return 0;
    default: return ARGP_ERR_UNKNOWN;
    }
}

static void parse(int argc, char **argv, example_options *options, settings *own)
{
    const struct argp own_parser = { own_options, parse_own, NULL, NULL, NULL, NULL, NULL };
    example_parse_with(
        argc, argv,
        "Trains a network to translate what programs say, or dates into ISO 8601's form, and translates some.",
        "dbscPBS", options, &own_parser, own);
    if (!options->batch_size) options->batch_size = 64;
}

/* Reads the messages of the language, or of the first one that has enough; `task` has no name where none has. A search
 * that nobody asked for says nothing about bad catalogues. */
static int read_messages(const settings *s, task *out)
{
    static const char *const languages[] = { "fr", "de", "es" };
    const char *const *names = s->pairs ? &s->pairs : languages;
    const uint32_t count = s->pairs ? 1 : sizeof(languages) / sizeof(languages[0]);
    const uint64_t limit = s->limit || s->full ? s->limit : USUAL_PAIRS;
    *out = (task){ 0 };
    for (uint32_t i = 0; i < count && !out->name; i++)
        if (task_create_messages(s->locales, names[i], s->full ? 8000 : 2000, limit, MAX_TEST_PAIRS, !s->pairs, out) <
            0)
            return -1;
    return 0;
}

static int create_task(const example_options *options, const settings *s, task *out)
{
    const bool dates = s->pairs && strcmp(s->pairs, "dates") == 0;
    *out = (task){ 0 };
    if (!dates && read_messages(s, out) < 0) return -1;
    if (out->name) return 0;
    if (s->pairs && !dates) {
        fprintf(stderr,
                "%s: %s: there are fewer than %d messages in this language; install programs' translations, or train "
                "with --pairs dates\n",
                program_invocation_short_name, s->pairs, TASK_LEAST_MESSAGES);
        return -1;
    }
    return task_create_dates(options->seed, s->limit ? s->limit : s->full ? 50000 : USUAL_PAIRS, MAX_TEST_PAIRS, out);
}

/* Before anything is trained. */
static int check_texts(const app *a)
{
    int32_t tokens[TASK_MAX_LENGTH];
    for (uint32_t i = 0; i < a->settings->num_texts; i++)
        if (!task_encode_source(&a->task, a->settings->texts[i], tokens)) {
            fprintf(stderr, "%s: '%s' is empty, too long, or has characters that no source has: %s are translated\n",
                    program_invocation_short_name, a->settings->texts[i], a->task.name);
            return -1;
        }
    return 0;
}

static uint32_t choose_epochs(const app *a)
{
    const settings *s = a->settings;
    if (s->epochs) return s->epochs;
    if (s->full) return 20;
    return a->task.messages.count > 0 ? 5 : s->gru ? 2 : 4;
}

static nmt_config choose_model(const settings *s, const task *t)
{
    const nmt_config small = { .layers = 1, .heads = 4, .width = 64, .key_width = 16, .inner_width = 128 };
    const nmt_config full = {
        .layers = 4, .heads = 8, .width = 128, .key_width = 128, .inner_width = 512, .dropout = 0.1f
    };
    const nmt_config gru = { .units = s->full ? 1024 : 128, .width = s->full ? 256 : 64 };
    nmt_config c = s->gru ? gru : s->full ? full : small;
    c.source_vocabulary = t->source_vocabulary;
    c.target_vocabulary = t->target_vocabulary;
    c.source_length = t->source_length;
    c.target_length = t->target_length;
    return c;
}

/* ---- training step ---- */

static rf_result train_step(rf_trace *t, const rf_tensor *in, rf_tensor *out, void *user)
{
    const app *a = user;
    const rf_tensor logits = nmt_call(t, a->nmt, in[0], in[1], RF_TRAINING, NULL), mask = nmt_mask(t, in[2]);
    out[0] = rf_compute_average_loss(t, nmt_loss(t, in[2], logits), NULL);
    rf_optimizer_minimize(t, a->optimizer, out[0], rf_model_variables(nmt_model(a->nmt)));
    rf_metric_update(t, a->loss, no_tensor, rf_sparse_categorical_crossentropy(t, in[2], logits, RF_LOGITS), mask);
    rf_metric_update(t, a->accuracy, in[2], logits, mask);
    return rf_trace_status(t);
}

/* Vaswani et al. 2017: the transformer's rate rises while the first steps are made, then falls with the square root of
 * the step. That is a rate for long runs; in short ones it is still high at the end, so it falls to nothing there. */
static rf_schedule choose_schedule(const app *a, uint64_t steps)
{
    const settings *s = a->settings;
    const uint64_t warmup = s->gru ? 0 : steps / 8 + 1;
    if (!s->gru && s->full)
        return (rf_schedule){ .kind = RF_SCHEDULE_INVERSE_SQRT,
                              .initial = 1 / sqrt(a->config.width),
                              .warmup_steps = 4000 };
    return (rf_schedule){ .kind = RF_SCHEDULE_COSINE_DECAY,
                          .initial = s->gru ? 2e-3 : 4e-3,
                          .warmup_steps = warmup,
                          .decay_steps = steps - warmup };
}

static int create_optimizer(const example_options *options, app *a)
{
    const uint64_t steps = (uint64_t)rf_dataset_cardinality(a->train_data) * a->epochs;
    a->schedule = choose_schedule(a, steps);
    a->adam = (rf_optimizer_params){ .kind = RF_OPTIMIZER_ADAM, .schedule = &a->schedule };
    if (a->settings->gru) {
        a->adam.global_clip_norm = 1;
    } else {
        a->adam.beta_2 = 0.98;
        a->adam.epsilon = 1e-9;
    }
    return servers_create_optimizer(options, a->strategy, &a->adam, &a->optimizer);
}

static int create_objects(const example_options *options, app *a)
{
    TRY(nmt_create(a->strategy, &a->config, &a->nmt));
    if (create_optimizer(options, a) < 0) return -1;
    TRY(rf_metric_create(a->strategy, &(rf_metric_params){ .kind = RF_METRIC_MEAN, .name = "loss" }, &a->loss));
    TRY(rf_metric_create(a->strategy,
                         &(rf_metric_params){ .kind = RF_METRIC_SPARSE_CATEGORICAL_ACCURACY, .name = "accuracy" },
                         &a->accuracy));
    TRY(rf_function_create(
        a->strategy,
        &(rf_function_params){
            .step = train_step, .user = a, .num_outputs = 1, .name = "train_step", .training = true },
        &a->train_function));
    const decoder_params params = {
        .config = &a->config, .start = a->task.start, .end = a->task.end, .beam = a->settings->beam
    };
    return decoder_create(a->strategy, a->nmt, &params, &a->decoder);
}

/* ---- data ---- */

static int prepare_data(const example_options *options, app *a)
{
    const uint32_t batch = options->batch_size * rf_strategy_num_replicas_in_sync(a->strategy);
    rf_dataset *pairs, *shuffled;
    if (task_dataset(&a->task, &pairs) < 0) return -1;
    rf_result r = rf_dataset_shuffle(pairs, (uint64_t)rf_dataset_cardinality(pairs), options->seed,
                                     RF_SHUFFLE_EACH_PASS, &shuffled);
    rf_dataset_destroy(&pairs);
    TRY(r);
    r = rf_dataset_batch(shuffled, batch, RF_REMAINDER_KEEP, &a->train_data);
    rf_dataset_destroy(&shuffled);
    TRY(r);
    return example_distribute(a->strategy, &a->train_data);
}

/* ---- checkpoints ---- */

/* Everything that a restarted program needs; goes on from the latest checkpoint where there is one. */
static int open_checkpoints(const example_options *options, app *a)
{
    if (!options->checkpoint_dir || options->strategy == STRATEGY_PARAMETER_SERVER) return 0; /* servers.c keeps them */
    TRY(rf_checkpoint_create(a->strategy, &a->checkpoint));
    TRY(rf_checkpoint_add_model(a->checkpoint, "model", nmt_model(a->nmt)));
    TRY(rf_checkpoint_add_optimizer(a->checkpoint, "optimizer", a->optimizer));
    TRY(rf_checkpoint_add_function(a->checkpoint, "train_step", a->train_function));
    TRY(rf_checkpoint_add_metric(a->checkpoint, "loss", a->loss));
    TRY(rf_checkpoint_add_metric(a->checkpoint, "accuracy", a->accuracy));
    TRY(rf_checkpoint_add_iterator(a->checkpoint, "train_iterator", &a->train_iterator, a->train_data));
    TRY(rf_checkpoint_add_counter(a->checkpoint, "epoch", &a->epoch));
    const int restored = example_open_manager(options, a->checkpoint, &a->manager);
    if (restored > 0 && a->epoch < a->epochs) example_print("Continuing in epoch %u\n", (unsigned)a->epoch + 1);
    return restored < 0 ? -1 : 0;
}

/* ---- training ---- */

/* One pass over the training set, or what is left of it after a restart. */
static int train_epoch(app *a, double *rate)
{
    if (!a->train_iterator) TRY(rf_iterator_create(a->train_data, a->epoch, &a->train_iterator));
    char label[32];
    float loss = 0;
    progress bar;
    snprintf(label, sizeof(label), "Epoch %u", (unsigned)a->epoch + 1);
    progress_begin(&bar, label, (int64_t)a->task.num_train, rf_strategy_is_chief(a->strategy));
    const rf_result r = example_run_epoch(a->strategy, a->train_function, a->train_iterator, 4, &bar, &loss);
    *rate = progress_end(&bar);
    TRY(r);
    if (example_check_loss((double)loss, a->epoch + 1, rf_optimizer_iterations(a->optimizer)) < 0) return -1;
    if (!rf_strategy_stop_agreed(a->strategy)) rf_iterator_destroy(&a->train_iterator);
    return 0;
}

static int train(app *a)
{
    double loss, accuracy, rate;
    while (a->epoch < a->epochs) {
        if (train_epoch(a, &rate) < 0) return -1;
        if (rf_strategy_stop_agreed(a->strategy))
            return example_stop(a->checkpoint, a->manager, a->optimizer, a->epoch);
        TRY(rf_metric_result(a->loss, &loss));
        TRY(rf_metric_result(a->accuracy, &accuracy));
        a->epoch++;
        example_print("Epoch %u, Loss: %.4f, Accuracy: %.2f %%  (%.0f pairs/s)\n", (unsigned)a->epoch, loss,
                      100 * accuracy, rate);
        TRY(rf_metric_reset(a->loss));
        TRY(rf_metric_reset(a->accuracy));
        if (example_save(a->manager, a->optimizer) < 0) return -1;
    }
    if (a->checkpoint) TRY(rf_checkpoint_wait(a->checkpoint));
    return 0;
}

static int train_with_servers(const example_options *options, app *a)
{
    return servers_train(&(server_training){ .options = options,
                                             .strategy = a->strategy,
                                             .model = nmt_model(a->nmt),
                                             .optimizer = &a->adam,
                                             .step = a->train_function,
                                             .data = a->train_data,
                                             .examples = a->task.num_train,
                                             .epochs = a->epochs });
}

/* ---- translating ---- */

/* Translations and references as numbers, for BLEU. */
typedef struct scores {
    const int32_t *candidates[MAX_TEST_PAIRS], *references[MAX_TEST_PAIRS];
    uint32_t candidate_lengths[MAX_TEST_PAIRS], reference_lengths[MAX_TEST_PAIRS];
    uint32_t exact;
} scores;

/* Tests with their translations; the first ones are shown. */
static int compare(const task *t, const int32_t *translations, int32_t *references, scores *out)
{
    char source[TASK_MAX_TEXT], target[TASK_MAX_TEXT], text[TASK_MAX_TEXT];
    for (uint32_t i = 0; i < t->num_tests; i++) {
        const int32_t *tokens = translations + (size_t)i * t->target_length;
        int32_t *reference = references + (size_t)i * t->target_length;
        task_test(t, i, source, target);
        out->candidates[i] = tokens;
        out->candidate_lengths[i] = task_length(t, tokens);
        out->references[i] = reference;
        out->reference_lengths[i] = task_encode_target(t, target, reference);
        const bool exact = out->candidate_lengths[i] == out->reference_lengths[i] &&
                           memcmp(tokens, reference, out->reference_lengths[i] * sizeof(tokens[0])) == 0;
        out->exact += exact;
        if (i >= SHOWN) continue;
        if (task_decode_target(t, tokens, text) < 0) return -1;
        example_print("%s: %s%s\n", source, text, exact ? "" : " (wrong)");
    }
    return 0;
}

/* Pairs that were not trained on. */
static int test(app *a)
{
    const task *t = &a->task;
    int32_t *sources = malloc(sizeof(int32_t) * t->num_tests * t->source_length);
    int32_t *translations = malloc(sizeof(int32_t) * t->num_tests * t->target_length);
    int32_t *references = malloc(sizeof(int32_t) * t->num_tests * t->target_length);
    scores *s = calloc(1, sizeof(*s));
    int result = sources && translations && references && s ? 0 : -1;
    if (result < 0) fprintf(stderr, "%s: %s\n", program_invocation_short_name, strerror(ENOMEM));
    for (uint32_t i = 0; i < t->num_tests && result == 0; i++) {
        char source[TASK_MAX_TEXT], target[TASK_MAX_TEXT];
        task_test(t, i, source, target);
        (void)task_encode_source(t, source, sources + (size_t)i * t->source_length); /* the task's own: it fits */
    }
    if (result == 0) result = decoder_run(a->decoder, sources, t->num_tests, translations);
    if (result == 0) result = compare(t, translations, references, s);
    double bleu = 0;
    if (result == 0 &&
        rf_bleu(s->candidates, s->candidate_lengths, s->references, s->reference_lengths, t->num_tests, &bleu) < 0) {
        example_report_failure();
        result = -1;
    }
    if (result == 0)
        example_print("Test: %.2f %% of %u %s exact, BLEU %.1f\n", 100.0 * s->exact / t->num_tests, t->num_tests,
                      t->name, 100 * bleu);
    free(sources);
    free(translations);
    free(references);
    free(s);
    return result;
}

static rf_result look(rf_trace *t, const rf_tensor *in, rf_tensor *out, void *user)
{
    const app *a = user;
    (void)nmt_call(t, a->nmt, in[0], in[1], RF_INFERENCE, &out[0]);
    return rf_trace_status(t);
}

static int paint(const app *a, const rf_array *weights)
{
    picture p;
    float cell[CELL * CELL];
    if (picture_create(a->task.source_length, a->task.target_length, CELL, &p) < 0) return -1;
    for (uint32_t row = 0; row < a->task.target_length; row++)
        for (uint32_t column = 0; column < a->task.source_length; column++) {
            const float weight = ((const float *)weights->data)[row * a->task.source_length + column];
            for (int i = 0; i < CELL * CELL; i++) cell[i] = 1 - weight;
            picture_put(&p, column, row, cell);
        }
    const int result = rf_strategy_is_chief(a->strategy) ? picture_write(&p, a->settings->picture) : 0;
    picture_destroy(&p);
    return result;
}

/* Paints what the tokens of one translation attend to. */
static int paint_attention(app *a, int32_t *source, const int32_t *translation, const char *text)
{
    rf_function *function;
    const task *k = &a->task;
    int32_t target[TASK_MAX_LENGTH] = { k->start };
    memcpy(target + 1, translation, (k->target_length - 1) * sizeof(target[0]));
    TRY(rf_function_create(
        a->strategy, &(rf_function_params){ .step = look, .user = a, .num_outputs = 1, .name = "look" }, &function));
    const rf_element batch = { .num_components = 2,
                               .component = { { RF_I32, RF_SHAPE(1, k->source_length), source },
                                              { RF_I32, RF_SHAPE(1, k->target_length), target } } };
    rf_per_replica *results[1];
    rf_array weights;
    rf_result r = rf_strategy_run(a->strategy, function, &batch, results);
    if (r >= 0) r = rf_strategy_gather(a->strategy, results[0], &weights);
    rf_function_destroy(&function);
    TRY(r);
    const int result = paint(a, &weights);
    rf_array_free(&weights);
    if (result == 0) example_print("%s: what the translation of \"%s\" attends to\n", a->settings->picture, text);
    return result;
}

/* The texts that were asked for, or else one of the tests for the picture. */
static int translate(app *a)
{
    const settings *s = a->settings;
    char test_source[TASK_MAX_TEXT], test_target[TASK_MAX_TEXT];
    task_test(&a->task, 0, test_source, test_target);
    for (uint32_t i = 0; i < s->num_texts || (i == 0 && s->picture); i++) {
        const char *source = i < s->num_texts ? s->texts[i] : test_source;
        int32_t tokens[TASK_MAX_LENGTH], translation[TASK_MAX_LENGTH];
        char text[TASK_MAX_TEXT];
        (void)task_encode_source(&a->task, source, tokens);
        const int result = decoder_run(a->decoder, tokens, 1, translation);
        if (result != 0) return result;
        if (task_decode_target(&a->task, translation, text) < 0) return -1;
        if (i < s->num_texts) example_print("%s: %s\n", source, text);
        if (i == 0 && s->picture && paint_attention(a, tokens, translation, source) < 0) return -1;
    }
    return 0;
}

/* ---- program ---- */

static int run(const example_options *options, app *a)
{
    const bool servers = options->strategy == STRATEGY_PARAMETER_SERVER;
    if (create_task(options, a->settings, &a->task) < 0 || check_texts(a) < 0) return -1;
    a->config = choose_model(a->settings, &a->task);
    a->epochs = choose_epochs(a);
    const int created = example_create_strategy(options, &a->strategy);
    if (created != 0) return created;
    if (a->settings->picture && rf_strategy_is_chief(a->strategy) && picture_check_path(a->settings->picture) < 0)
        return -1;
    if (prepare_data(options, a) < 0 || create_objects(options, a) < 0) return -1;
    example_print("%llu %s, %llu parameters, global batch %u\n", (unsigned long long)a->task.num_train, a->task.name,
                  (unsigned long long)rf_model_num_params(nmt_model(a->nmt)),
                  options->batch_size * rf_strategy_num_replicas_in_sync(a->strategy));
    if (open_checkpoints(options, a) < 0) return -1;
    int result = servers ? train_with_servers(options, a) : train(a);
    if (result == 0) result = test(a);
    return result == 0 ? translate(a) : result;
}

static void destroy(app *a)
{
    rf_checkpoint_manager_destroy(&a->manager);
    rf_checkpoint_destroy(&a->checkpoint);
    rf_iterator_destroy(&a->train_iterator);
    decoder_destroy(&a->decoder);
    rf_function_destroy(&a->train_function);
    rf_metric_destroy(&a->accuracy);
    rf_metric_destroy(&a->loss);
    rf_optimizer_destroy(&a->optimizer);
    nmt_destroy(&a->nmt);
    rf_dataset_destroy(&a->train_data);
    task_free(&a->task);
    example_destroy_strategy(&a->strategy);
}

int main(int argc, char **argv)
{
    example_options options = { 0 };
    settings own = { .beam = 1, .gru = true, .locales = MESSAGES_LOCALES };
    parse(argc, argv, &options, &own);
    app a = { .settings = &own };
    const int result = run(&options, &a);
    destroy(&a);
    return example_exit_status(result);
}
