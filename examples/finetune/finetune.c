/* SPDX-License-Identifier: Apache-2.0 */
/* Trains a language model of the Hugging Face hub on chats, and writes it back. */
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "../common/language.h"

enum { MAX_FILES = 64, MAX_PROMPTS = 16, MAX_CALLBACKS = 4, MAX_BORDERS = 16, DEFAULT_LENGTH = 256 };

#define ADAPTER "default"

typedef struct settings {
    const char *directory, *out, *data[MAX_FILES], *held_out[MAX_FILES], *end_token, *prompts[MAX_PROMPTS];
    uint32_t num_data, num_held_out, num_prompts, length;
    uint64_t save_every;
    uint32_t rank; /* of an adapter; 0: all weights are trained */
    rf_quantization bits;
    rf_optimizer_state_type state_type;
    language_settings text;
} settings;

typedef struct app {
    const example_options *options;
    settings *settings;
    rf_strategy *strategy;
    language language;
    rf_dataset *train_data, *held_out;
    rf_optimizer *optimizer;
    rf_callback *callbacks[MAX_CALLBACKS];
    uint32_t num_callbacks;
    double trained, seconds;     /* tokens, and the time that they took */
    atomic_ullong chats, tokens; /* that have been read: what a chat has in the mean */
    progress bar;
    char label[32];
} app;

/* ---- options ---- */

enum {
    OPTION_DATA = 256,
    OPTION_HELD_OUT,
    OPTION_OUT,
    OPTION_LENGTH,
    OPTION_END,
    OPTION_SAVE,
    OPTION_GENERATE,
    OPTION_LORA,
    OPTION_QUANTIZE,
    OPTION_STATE
};

static const struct argp_option own_options[] = {
    { "data", OPTION_DATA, "FILE", 0,
      "JSON Lines with \"messages\", \"prompt\" and \"completion\", or \"text\"; may be given again", 1 },
    { "validation", OPTION_HELD_OUT, "FILE", 0, "The same for a loss after each epoch", 1 },
    { "out", OPTION_OUT, "DIR", 0,
      "Write the trained model there, as a directory, or as FILE.gguf; with --lora the adapter, as PEFT does", 1 },
    { "lora", OPTION_LORA, "RANK", 0, "Train a low-rank adapter on all dense layers, and no other weights", 1 },
    { "quantize", OPTION_QUANTIZE, "KIND", 0, "With --lora: keep the other weights in 4 or 8 bits: nf4, q4_0 or int8",
      1 },
    { "optimizer-state", OPTION_STATE, "TYPE", 0, "Keep AdamW's moments in f32, bf16 or 8bit (default: f32)", 1 },
    { "length", OPTION_LENGTH, "N", 0, "Tokens of a chat, at most; the rest is cut off (default: 256)", 1 },
    { "end-token", OPTION_END, "TOKEN", 0, "What ends a completion or a text, such as \"</s>\"", 1 },
    { "save-every", OPTION_SAVE, "N", 0, "Make a checkpoint after N batches (default: after each epoch)", 1 },
    { "generate", OPTION_GENERATE, "TEXT", 0, "Let the trained model answer this; may be given again", 1 },
    { 0 },
};

static void add(struct argp_state *state, const char **list, uint32_t *count, uint32_t most, const char *value)
{
    if (*count == most) argp_error(state, "'%s' is one too many; there may be %u", value, most);
    list[(*count)++] = value;
}

static error_t parse_own(int key, char *value, struct argp_state *state)
{
    settings *s = state->input;
    switch (key) {
    case ARGP_KEY_INIT: state->child_inputs[0] = &s->text; return 0;
    case OPTION_DATA: add(state, s->data, &s->num_data, MAX_FILES, value); return 0;
    case OPTION_HELD_OUT: add(state, s->held_out, &s->num_held_out, MAX_FILES, value); return 0;
    case OPTION_OUT: s->out = value; return 0;
    case OPTION_LENGTH: s->length = (uint32_t)example_parse_count(state, value, 1u << 20); return 0;
    case OPTION_END: s->end_token = value; return 0;
    case OPTION_LORA: s->rank = (uint32_t)example_parse_count(state, value, 65536); return 0;
    case OPTION_QUANTIZE: s->bits = language_parse_bits(state, value); return 0;
    case OPTION_STATE: s->state_type = example_parse_state_type(state, value); return 0;
    case OPTION_SAVE: s->save_every = example_parse_count(state, value, UINT32_MAX); return 0;
    case OPTION_GENERATE: add(state, s->prompts, &s->num_prompts, MAX_PROMPTS, value); return 0;
    case ARGP_KEY_ARG:
        if (s->directory) argp_error(state, "'%s': one directory is enough", value);
        s->directory = value;
        return 0;
    case ARGP_KEY_END:
        if (!s->directory || s->num_data == 0) argp_error(state, "give a directory and --data");
        if (s->bits != RF_QUANTIZATION_NONE && !s->rank) argp_error(state, "--quantize needs --lora");
        return 0;
    default: return ARGP_ERR_UNKNOWN;
    }
}

/* ---- data ---- */

/* Leaves an element as it is, and counts its tokens. */
static rf_result count_tokens(void *user, const rf_element *in, rf_element *out)
{
    app *a = user;
    for (uint32_t i = 0; i < in->num_components; i++) {
        out->component[i].shape.dim[0] = in->component[i].shape.dim[0];
        memcpy(out->component[i].data, in->component[i].data, (size_t)in->component[i].shape.dim[0] * sizeof(int32_t));
    }
    atomic_fetch_add(&a->chats, 1);
    atomic_fetch_add(&a->tokens, (unsigned long long)in->component[0].shape.dim[0]);
    return RF_OK;
}

/* Chats of the lengths 32, 64, ... up to the longest: a recording for each of them, and little padding. */
static int batch_chats(app *a, const char *const *files, uint32_t num_files, bool train, rf_dataset **out)
{
    const settings *s = a->settings;
    const rf_chats_params chats = { .paths = files,
                                    .num_paths = num_files,
                                    .max_tokens = s->length,
                                    .render = a->language.chat_template ? rf_chat_template_render : NULL,
                                    .user = a->language.chat_template,
                                    .tokenizer = a->language.tokenizer,
                                    .end_token = s->end_token };
    uint32_t borders[MAX_BORDERS], num_borders = 0;
    for (uint32_t b = 32; b < s->length && num_borders < MAX_BORDERS - 1; b *= 2) borders[num_borders++] = b;
    borders[num_borders++] = s->length;
    const rf_padded_batch_params padding = { .batch_size =
                                                 a->options->batch_size * rf_strategy_num_replicas_in_sync(a->strategy),
                                             .padded = { true, true },
                                             .pad_value = { 0, RF_IGNORED_LABEL },
                                             .borders = borders,
                                             .num_borders = num_borders };
    rf_dataset *all, *shuffled = NULL, *counted = NULL;
    rf_element_spec spec;
    TRY(rf_dataset_from_chats(&chats, &all));
    rf_result r = RF_OK;
    rf_dataset_spec(all, &spec);
    if (train)
        r = rf_dataset_shuffle(all, (uint64_t)rf_dataset_cardinality(all), a->options->seed, RF_SHUFFLE_EACH_PASS,
                               &shuffled);
    if (train && r >= 0) r = rf_dataset_map(shuffled, count_tokens, a, &spec, &counted);
    if (r >= 0) r = rf_dataset_padded_batch(train ? counted : all, &padding, out);
    rf_dataset_destroy(&counted);
    rf_dataset_destroy(&shuffled);
    rf_dataset_destroy(&all);
    TRY(r);
    return 0;
}

/* ---- training ---- */

static rf_result begin_epoch(void *user, rf_fit_state *state)
{
    app *a = user;
    snprintf(a->label, sizeof(a->label), "Epoch %u/%u", state->epoch + 1, state->num_epochs);
    progress_begin(&a->bar, a->label, state->batches_per_epoch, rf_strategy_is_chief(a->strategy));
    return RF_OK;
}

static double tokens_of(app *a, uint64_t chats)
{
    const double counted = (double)atomic_load(&a->chats);
    return counted > 0 ? (double)chats * (double)atomic_load(&a->tokens) / counted : 0;
}

/* The most memory that any device of this worker has given, in megabytes. */
static double device_memory(const app *a)
{
    rf_memory_use use;
    uint64_t most = 0;
    for (uint32_t i = 0; rf_strategy_memory_use(a->strategy, i, 0, &use); i++)
        if (use.peak > most) most = use.peak;
    return (double)most / 1e6;
}

static rf_result end_batch(void *user, rf_fit_state *state, const rf_logs *logs)
{
    app *a = user;
    char status[64];
    double loss = 0;
    rf_logs_get(logs, "loss", &loss);
    snprintf(status, sizeof(status), "loss %.4f  %.0f tokens/s  %.0f MB", loss,
             tokens_of(a, state->epoch_examples) / (state->seconds > 0 ? state->seconds : 1), device_memory(a));
    progress_update(&a->bar, (int64_t)state->batch + 1, status);
    return RF_OK;
}

/* The most memory that this process has had, in megabytes; that of GPUs is not in it. */
static long peak_memory(void)
{
    struct rusage usage = { 0 };
    getrusage(RUSAGE_SELF, &usage);
    return usage.ru_maxrss / 1024;
}

static rf_result end_epoch(void *user, rf_fit_state *state, const rf_logs *logs)
{
    app *a = user;
    double loss = 0, held_out = 0;
    (void)progress_end(&a->bar);
    rf_logs_get(logs, "loss", &loss);
    example_print("Epoch %u/%u: loss %.4f", state->epoch + 1, state->num_epochs, loss);
    if (rf_logs_get(logs, "val_loss", &held_out)) example_print(", validation %.4f", held_out);
    example_print("  (%.0f tokens/s, %.0f MB of a device)\n",
                  tokens_of(a, state->timed_examples) / state->train_seconds, device_memory(a));
    a->trained += tokens_of(a, state->timed_examples);
    a->seconds += state->train_seconds;
    return RF_OK;
}

static int create_callbacks(app *a)
{
    const rf_callback_fns fns = { .on_epoch_begin = begin_epoch, .on_batch_end = end_batch, .on_epoch_end = end_epoch };
    TRY(rf_callback_create(&fns, a, &a->callbacks[a->num_callbacks]));
    a->num_callbacks++;
    return example_add_callbacks(a->options, a->callbacks, &a->num_callbacks);
}

static int compile(app *a)
{
    static const int32_t ignored = RF_IGNORED_LABEL;
    const rf_optimizer_params adamw = { .kind = RF_OPTIMIZER_ADAMW,
                                        .learning_rate = a->options->learning_rate,
                                        .global_clip_norm = 1.0,
                                        .state_type = a->settings->state_type,
                                        .loss_scale = example_loss_scale(a->options) };
    TRY(rf_optimizer_create(a->strategy, &adamw, &a->optimizer));
    const rf_compile_params params = {
        .optimizer = a->optimizer,
        .loss = { .kind = RF_LOSS_SPARSE_CATEGORICAL_CROSSENTROPY, .from_logits = true, .ignore_class = &ignored }
    };
    TRY(rf_model_compile(rf_pretrained_model(a->language.pretrained), &params));
    return 0;
}

static int train(app *a)
{
    const settings *s = a->settings;
    if (batch_chats(a, s->data, s->num_data, true, &a->train_data) < 0) return -1;
    if (s->num_held_out > 0 && batch_chats(a, s->held_out, s->num_held_out, false, &a->held_out) < 0) return -1;
    if (compile(a) < 0 || create_callbacks(a) < 0) return -1;
    const rf_fit_params fit = { .data = a->train_data,
                                .validation_data = a->held_out,
                                .epochs = a->options->epochs,
                                .callbacks = a->callbacks,
                                .num_callbacks = a->num_callbacks };
    TRY(rf_model_fit(rf_pretrained_model(a->language.pretrained), &fit, NULL));
    if (a->seconds > 0)
        example_print("%.0f tokens in %.1f s: %.0f tokens/s; at most %.0f MB of a device, %ld MB of the host\n",
                      a->trained, a->seconds, a->trained / a->seconds, device_memory(a), peak_memory());
    return rf_strategy_stop_agreed(a->strategy) ? example_stopped() : 0;
}

/* ---- program ---- */

static int run(app *a)
{
    const settings *s = a->settings;
    const int created = example_create_strategy(a->options, &a->strategy);
    if (created != 0) return created;
    if (language_open(a->strategy, s->directory, s->bits, NULL, &a->language) < 0) return -1;
    rf_model *model = rf_pretrained_model(a->language.pretrained);
    example_print("%s: %.1f million parameters\n", s->directory, (double)rf_model_num_params(model) / 1e6);
    if (s->rank) TRY(rf_lora_attach(model, ADAPTER, &(rf_lora_params){ .rank = s->rank, .alpha = (float)s->rank }));
    const int result = train(a);
    if (result != 0) return result;
    if (s->out && !s->rank && language_save(&a->language, s->out) < 0) return -1;
    if (s->out && s->rank) {
        TRY(rf_lora_save(model, ADAPTER, s->out));
        example_print("Written to %s\n", s->out);
    }
    return language_write(&a->language, s->prompts, s->num_prompts, &s->text);
}

static void destroy(app *a)
{
    for (uint32_t i = 0; i < a->num_callbacks; i++) rf_callback_destroy(&a->callbacks[i]);
    language_close(&a->language);
    rf_optimizer_destroy(&a->optimizer);
    rf_dataset_destroy(&a->train_data);
    rf_dataset_destroy(&a->held_out);
    example_destroy_strategy(&a->strategy);
}

int main(int argc, char **argv)
{
    example_options options = { .learning_rate = 1e-4, .batch_size = 8 };
    settings own = { .length = DEFAULT_LENGTH };
    const struct argp_child children[] = { { &language_parser, 0, NULL, 0 }, { 0 } };
    const struct argp own_parser = { own_options, parse_own, "MODEL", NULL, children, NULL, NULL };
    example_parse_with(argc, argv,
                       "Trains a language model on chats: a directory of the Hugging Face hub, or a GGUF file.",
                       "debsrlcPBm", &options, &own_parser, &own);
    own.text.seed = options.seed;
    options.save_every = own.save_every;
    app a = { .options = &options, .settings = &own };
    const int result = run(&a);
    destroy(&a);
    return example_exit_status(result);
}
