/* SPDX-License-Identifier: Apache-2.0 */
/* A small GPT learns to write text, byte by byte or in byte pairs, and writes some. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "../common/common.h"
#include "../common/servers.h"
#include "../common/text.h"
#include "model.h"
#include "writer.h"

enum { MAX_TEXTS = 64, MAX_CALLBACKS = 4, STEPS_PER_REPORT = 250, STEPS_PER_CALLBACK = 10, VALIDATION_WINDOWS = 240 };

typedef struct settings {
    gpt_config model;
    const char *texts[MAX_TEXTS];
    uint32_t num_texts, steps, sample_length, max_tokens;
    const char *prompt, *byte_pairs;
    double temperature;
    bool full, no_cache, muon;
    rf_optimizer_state_type state_type;
} settings;

typedef struct app {
    settings *settings;
    rf_strategy *strategy;
    text text;
    rf_dataset *train_data, *validation_data;
    gpt *gpt;
    rf_schedule schedule;
    rf_optimizer_params optimizer_params;
    rf_optimizer *optimizer;
    rf_callback *callbacks[MAX_CALLBACKS];
    uint32_t num_callbacks;
    progress bar;
    char label[32];
} app;

/* ---- options ---- */

enum {
    OPTION_FULL = 256,
    OPTION_BYTE_PAIRS,
    OPTION_VOCABULARY,
    OPTION_SAMPLE,
    OPTION_PROMPT,
    OPTION_TEMPERATURE,
    OPTION_NO_CACHE,
    OPTION_MUON,
    OPTION_STATE
};

static const struct argp_option own_options[] = {
    { "text", 't', "PATH", 0,
      "A file, or a directory with *.md and *.txt; may be given again (default: the documentation of Ringfire)", 1 },
    { "steps", 'i', "N", 0,
      "Steps to train, rounded up to a multiple of 250 above it (default: 2000; with --full 5000)", 1 },
    { "full", OPTION_FULL, NULL, 0,
      "The published small configuration: 6 layers, 6 heads, 384 wide, 256 tokens, batches of 64, dropout 0.2 "
      "(default: 4 layers, 4 heads, "
      "128 wide, 64 tokens, batches of 12)",
      1 },
    { "byte-pairs", OPTION_BYTE_PAIRS, "FILE", 0,
      "Tokens are byte pairs, which FILE says; it is learned from the text and written where it does not exist "
      "(default: tokens are the bytes of the text)",
      1 },
    { "vocabulary", OPTION_VOCABULARY, "N", 0, "How many byte pairs to learn at most (default: 1024)", 1 },
    { "muon", OPTION_MUON, NULL, 0,
      "Train with Muon: the matrices of the blocks; embeddings and gains with AdamW, which trains all otherwise", 1 },
    { "optimizer-state", OPTION_STATE, "TYPE", 0, "Keep AdamW's moments in f32, bf16 or 8bit (default: f32)", 1 },
    { "sample", OPTION_SAMPLE, "N", 0, "Tokens to write after the training (default: 400)", 1 },
    { "prompt", OPTION_PROMPT, "TEXT", 0, "What the written text begins with (default: a new line)", 1 },
    { "temperature", OPTION_TEMPERATURE, "X", 0,
      "Below 1: likelier characters; above: more surprising ones (default: 0.8)", 1 },
    { "no-cache", OPTION_NO_CACHE, NULL, 0,
      "Read the whole text again for each token that is written, instead of keeping keys and values: for comparison",
      1 },
    { 0 },
};

static error_t parse_own(int key, char *value, struct argp_state *state)
{
    settings *s = state->input;
    char *end;
    switch (key) {
    case 't':
        if (s->num_texts == MAX_TEXTS) argp_error(state, "more than %d texts; name a directory", MAX_TEXTS);
        s->texts[s->num_texts++] = value;
        return 0;
    case 'i': s->steps = (uint32_t)example_parse_count(state, value, 10000000); return 0;
    case OPTION_FULL: s->full = true; return 0;
    case OPTION_BYTE_PAIRS: s->byte_pairs = value; return 0;
    case OPTION_VOCABULARY:
        s->max_tokens = (uint32_t)example_parse_count(state, value, 1u << 20);
        if (s->max_tokens < 256) argp_error(state, "'%s' is less than the 256 bytes", value);
        return 0;
    case OPTION_SAMPLE: s->sample_length = (uint32_t)example_parse_count(state, value, 1u << 20); return 0;
    case OPTION_PROMPT:
        if (!*value) argp_error(state, "the prompt is empty");
        s->prompt = value;
        return 0;
    case OPTION_TEMPERATURE:
        s->temperature = rf_number_parse(value, &end);
        if (end == value || *end || !(s->temperature > 0) || !isfinite(s->temperature))
            argp_error(state, "'%s' is not a positive temperature", value);
        return 0;
    case OPTION_NO_CACHE: s->no_cache = true; return 0;
    case OPTION_MUON: s->muon = true; return 0;
    case OPTION_STATE: s->state_type = example_parse_state_type(state, value); return 0;
    default: return ARGP_ERR_UNKNOWN;
    }
}

static void choose_model(settings *s, example_options *options)
{
    const gpt_config small = { .layers = 4, .heads = 4, .width = 128, .block = 64 };
    const gpt_config full = { .layers = 6, .heads = 6, .width = 384, .block = 256, .dropout = 0.2f };
    s->model = s->full ? full : small;
    s->model.compute = options->mixed;
    if (!s->steps) s->steps = s->full ? 5000 : 2000;
    if (s->steps > STEPS_PER_REPORT) s->steps += (STEPS_PER_REPORT - s->steps % STEPS_PER_REPORT) % STEPS_PER_REPORT;
    if (!options->batch_size) options->batch_size = s->full ? 64 : 12;
    if (s->num_texts > 0) return;
    static const char *const own_texts[] = { EXAMPLE_TEXTS };
    s->num_texts = sizeof(own_texts) / sizeof(*own_texts);
    memcpy(s->texts, own_texts, sizeof(own_texts));
}

/* ---- data ---- */

static int prepare_data(const example_options *options, app *a)
{
    const uint32_t block = a->settings->model.block;
    const uint64_t border = a->text.length - a->text.length / 10; /* the last tenth is for validation */
    rf_dataset *windows, *shuffled, *held_out = NULL;
    if (text_windows(&a->text, 0, border, block, 1, &windows) < 0) return -1;
    rf_result r = rf_dataset_shuffle(windows, (uint64_t)rf_dataset_cardinality(windows), options->seed,
                                     RF_SHUFFLE_EACH_PASS, &shuffled);
    rf_dataset_destroy(&windows);
    TRY(r);
    const uint32_t batch = options->batch_size * rf_strategy_num_replicas_in_sync(a->strategy);
    r = rf_dataset_batch(shuffled, batch, RF_REMAINDER_DROP, &a->train_data);
    rf_dataset_destroy(&shuffled);
    TRY(r);
    /* Spread over what is held out. */
    const uint64_t places = a->text.length - border > block ? a->text.length - border - block : 1;
    const uint32_t step = (uint32_t)(places / VALIDATION_WINDOWS + 1);
    if (text_windows(&a->text, border, a->text.length, block, step, &held_out) < 0) return -1;
    r = rf_dataset_batch(held_out, batch, RF_REMAINDER_KEEP, &a->validation_data);
    rf_dataset_destroy(&held_out);
    TRY(r);
    return 0;
}

/* ---- training ---- */

static rf_result begin_bar(void *user, rf_fit_state *state)
{
    app *a = user;
    snprintf(a->label, sizeof(a->label), "Step %u", (state->epoch + 1) * STEPS_PER_REPORT);
    progress_begin(&a->bar, a->label, state->batches_per_epoch, rf_strategy_is_chief(a->strategy));
    return RF_OK;
}

static rf_result advance_bar(void *user, rf_fit_state *state, const rf_logs *logs)
{
    app *a = user;
    double loss = 0;
    char status[32];
    rf_logs_get(logs, "loss", &loss);
    snprintf(status, sizeof(status), "loss %.4f", loss);
    progress_update(&a->bar, (int64_t)state->batch + 1, status);
    return RF_OK;
}

static rf_result end_bar(void *user, rf_fit_state *state, const rf_logs *logs)
{
    app *a = user;
    double loss = 0, validation = 0;
    (void)progress_end(&a->bar);
    rf_logs_get(logs, "loss", &loss);
    rf_logs_get(logs, "val_loss", &validation);
    const double tokens = (double)state->timed_examples * a->settings->model.block;
    const double tokens_per_byte = (double)a->text.length / (double)a->text.num_bytes;
    example_print("Step %u: loss %.4f, validation %.4f, %.3f bits per byte  (%.0f tokens/s)\n",
                  (unsigned)rf_optimizer_iterations(state->optimizer), loss, validation,
                  validation / log(2.0) * tokens_per_byte, tokens / state->train_seconds);
    return RF_OK;
}

static int create_callbacks(const example_options *options, app *a)
{
    TRY(rf_callback_create(
        &(rf_callback_fns){ .on_epoch_begin = begin_bar, .on_batch_end = advance_bar, .on_epoch_end = end_bar }, a,
        &a->callbacks[a->num_callbacks]));
    a->num_callbacks++;
    return example_add_callbacks(options, a->callbacks, &a->num_callbacks);
}

/* Warm-up, then half a cosine down to a tenth; weight decay, and gradients of norm 1 at most. */
static int create_optimizer(const example_options *options, app *a)
{
    const uint32_t steps = a->settings->steps, warmup = steps / 20;
    a->schedule = (rf_schedule){ .kind = RF_SCHEDULE_COSINE_DECAY,
                                 .initial = options->learning_rate,
                                 .alpha = 0.1,
                                 .warmup_steps = warmup,
                                 .decay_steps = steps - warmup };
    a->optimizer_params = (rf_optimizer_params){ .kind = a->settings->muon ? RF_OPTIMIZER_MUON : RF_OPTIMIZER_ADAMW,
                                                 .schedule = &a->schedule,
                                                 .beta_2 = 0.99,
                                                 .epsilon = 1e-8,
                                                 .weight_decay = 0.1,
                                                 .global_clip_norm = 1.0,
                                                 .state_type = a->settings->state_type,
                                                 .loss_scale = example_loss_scale(options) };
    return servers_create_optimizer(options, a->strategy, &a->optimizer_params, &a->optimizer);
}

static const rf_loss loss = { .kind = RF_LOSS_SPARSE_CATEGORICAL_CROSSENTROPY, .from_logits = true };

static int report_with_servers(void *user, uint32_t epoch)
{
    const app *a = user;
    rf_logs logs;
    double value = 0;
    (void)epoch;
    TRY(rf_model_evaluate(gpt_model(a->gpt), a->validation_data, &logs));
    rf_logs_get(&logs, "loss", &value);
    example_print("Validation: %.4f\n", value);
    return 0;
}

static int train_with_servers(const example_options *options, app *a, uint32_t report)
{
    return servers_train(&(server_training){ .options = options,
                                             .strategy = a->strategy,
                                             .model = gpt_model(a->gpt),
                                             .optimizer = &a->optimizer_params,
                                             .loss = &loss,
                                             .minimizer = a->optimizer,
                                             .data = a->train_data,
                                             .steps = report,
                                             .epochs = a->settings->steps / report,
                                             .end_epoch = report_with_servers,
                                             .user = a });
}

static int train(const example_options *options, app *a)
{
    const rf_compile_params compile = { .optimizer = a->optimizer,
                                        .loss = loss,
                                        .steps_per_execution = STEPS_PER_CALLBACK };
    const uint32_t steps = a->settings->steps, report = steps < STEPS_PER_REPORT ? steps : STEPS_PER_REPORT;
    TRY(rf_model_compile(gpt_model(a->gpt), &compile));
    if (options->strategy == STRATEGY_PARAMETER_SERVER) return train_with_servers(options, a, report);
    if (create_callbacks(options, a) < 0) return -1;
    const rf_fit_params fit = { .data = a->train_data,
                                .validation_data = a->validation_data,
                                .steps_per_epoch = report,
                                .epochs = steps / report,
                                .callbacks = a->callbacks,
                                .num_callbacks = a->num_callbacks };
    TRY(rf_model_fit(gpt_model(a->gpt), &fit, NULL));
    return rf_strategy_stop_agreed(a->strategy) ? example_stopped() : 0;
}

/* ---- writing ---- */

/* Splitmix64; Steele, Lea, Flood 2014: uniform in [0, 1). */
static double draw(uint64_t *state)
{
    uint64_t z = *state += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return (double)((z ^ z >> 31) >> 11) * 0x1p-53;
}

static int32_t choose(const float *logits, uint32_t count, double temperature, double random)
{
    double largest = -INFINITY, total = 0;
    for (uint32_t i = 0; i < count; i++) largest = fmax(largest, (double)logits[i]);
    for (uint32_t i = 0; i < count; i++) total += exp(((double)logits[i] - largest) / temperature);
    double left = random * total;
    for (uint32_t i = 0; i + 1 < count; i++) {
        left -= exp(((double)logits[i] - largest) / temperature);
        if (left < 0) return (int32_t)i;
    }
    return (int32_t)count - 1;
}

/* Every worker takes part, and each chooses the same tokens. */
static int write_tokens(const example_options *options, app *a, writer *w)
{
    enum { WARM_UP = 2 }; /* tokens whose recordings are made first */
    const settings *s = a->settings;
    uint64_t random = options->seed;
    double begun = 0;
    example_print("\n%s", s->prompt);
    for (uint32_t i = 0; i < s->sample_length; i++) {
        rf_array logits;
        size_t size;
        if (i == WARM_UP) begun = seconds_now();
        if (writer_ask(w, &logits) < 0) return -1;
        const int32_t token = choose(logits.data, s->model.vocabulary, s->temperature, draw(&random));
        rf_array_free(&logits);
        writer_add(w, token);
        const char *bytes = text_of(&a->text, token, &size);
        example_print("%.*s", (int)size, bytes);
        if (rf_strategy_stop_agreed(a->strategy)) {
            example_print("\n");
            return example_stopped();
        }
    }
    example_print("\n");
    if (s->sample_length > WARM_UP)
        example_print("(%.1f tokens/s)\n", (s->sample_length - WARM_UP) / (seconds_now() - begun));
    return 0;
}

static int write_text(const example_options *options, app *a)
{
    const settings *s = a->settings;
    int32_t *prompt;
    uint64_t count;
    writer *w = NULL;
    if (text_encode(&a->text, s->prompt, &prompt, &count) < 0) return -1;
    int result = writer_create(a->strategy, a->gpt, &s->model, !s->no_cache, &w);
    for (uint64_t i = 0; i < count && result == 0; i++) writer_add(w, prompt[i]);
    free(prompt);
    if (result == 0) result = write_tokens(options, a, w);
    writer_destroy(&w);
    return result;
}

/* ---- program ---- */

static int run(const example_options *options, app *a)
{
    settings *s = a->settings;
    if (options->strategy == STRATEGY_PARAMETER_SERVER && (s->muon || example_loss_scale(options)))
        return example_refuse_servers("no server has whole matrices or all gradients, as Muon and scaled losses need");
    if (text_load(s->texts, s->num_texts, s->byte_pairs, s->max_tokens, &a->text) < 0) return -1;
    s->model.vocabulary = a->text.vocabulary;
    const int created = example_create_strategy(options, &a->strategy);
    if (created != 0) return created;
    if (prepare_data(options, a) < 0) return -1;
    TRY(gpt_create(a->strategy, &s->model, &a->gpt));
    if (create_optimizer(options, a) < 0) return -1;
    example_print("%llu bytes of text, ", (unsigned long long)a->text.num_bytes);
    if (s->byte_pairs) example_print("%llu byte pairs, ", (unsigned long long)a->text.length);
    example_print("%u different ones; %u layers, %u heads, %u wide, %u tokens\n", a->text.vocabulary, s->model.layers,
                  s->model.heads, s->model.width, s->model.block);
    const int result = train(options, a);
    return result == 0 ? write_text(options, a) : result;
}

static void destroy(app *a)
{
    for (uint32_t i = 0; i < a->num_callbacks; i++) rf_callback_destroy(&a->callbacks[i]);
    rf_optimizer_destroy(&a->optimizer);
    gpt_destroy(&a->gpt);
    rf_dataset_destroy(&a->train_data);
    rf_dataset_destroy(&a->validation_data);
    text_free(&a->text);
    example_destroy_strategy(&a->strategy);
}

int main(int argc, char **argv)
{
    example_options options = { 0 };
    settings own = { .sample_length = 400, .max_tokens = 1024, .prompt = "\n", .temperature = 0.8 };
    const struct argp own_parser = { own_options, parse_own, NULL, NULL, NULL, NULL, NULL };
    example_parse_with(argc, argv, "Trains a small GPT on text and lets it write.", "dbsrlcPBmS", &options, &own_parser,
                       &own);
    choose_model(&own, &options);
    app a = { .settings = &own };
    const int result = run(&options, &a);
    destroy(&a);
    return example_exit_status(result);
}
