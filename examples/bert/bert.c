/* SPDX-License-Identifier: Apache-2.0 */
/* BERT learns from text alone, and what it has learned helps it to classify passages of which few have labels. */
#include <string.h>

#include "../common/text.h"
#include "program.h"

enum { MAX_TEXTS = 64, LEAST_VOCABULARY = 100 };

typedef struct arguments {
    const char *texts[MAX_TEXTS], *word_pieces; /* NULL: the vocabulary is not kept */
    uint32_t num_texts, max_tokens;
    bool full;
    bert_settings settings;
} arguments;

/* ---- options ---- */

enum { OPTION_FULL = 256, OPTION_WORD_PIECES, OPTION_VOCABULARY, OPTION_TASK, OPTION_LABELS };

static const struct argp_option own_options[] = {
    { "text", 't', "PATH", 0,
      "A file, or a directory with *.md, *.txt and *.h; may be given again (default: the documentation of Ringfire)",
      1 },
    { "steps", 'i', "N", 0, "Steps of the pretraining (default: 1000; with --full 1000000)", 1 },
    { "learning-rate", 'r', "X", 0,
      "Learning rate of the pretraining at its highest (default: 0.0015; with --full 0.0001)", 1 },
    { "full", OPTION_FULL, NULL, 0,
      "The published network and training, BERT-base: 12 layers, 12 heads, 768 wide, 128 tokens, batches of 256 "
      "(default: 2 layers, 2 heads, 128 wide, 64 tokens, batches of 32)",
      1 },
    { "vocabulary", OPTION_VOCABULARY, "N", 0, "Word pieces to learn, at most (default: 2048; with --full 30522)", 1 },
    { "word-pieces", OPTION_WORD_PIECES, "FILE", 0,
      "Where the vocabulary is kept: read where the file is there, else learned from the text and written", 1 },
    { "task", OPTION_TASK, "NAME", 0,
      "What to fine-tune for: next, to tell whether one passage follows another (the default); document, to tell which "
      "one a passage comes from; or none",
      1 },
    { "labels", OPTION_LABELS, "N", 0, "Examples of each class that fine-tuning learns from (default: 64)", 1 },
    { 0 },
};

static const char *const tasks[] = { "next", "document", "none" };

static bool find_task(const char *name, bert_task *out)
{
    for (int i = TASK_NEXT; i <= TASK_NONE; i++)
        if (strcmp(name, tasks[i]) == 0) {
            *out = (bert_task)i;
            return true;
        }
    return false;
}

static error_t parse_own(int key, char *value, struct argp_state *state)
{
    arguments *a = state->input;
    switch (key) {
    case 't':
        if (a->num_texts == MAX_TEXTS) argp_error(state, "more than %d texts; name a directory", MAX_TEXTS);
        a->texts[a->num_texts++] = value;
        return 0;
    case 'i': a->settings.steps = (uint32_t)example_parse_count(state, value, 100000000); return 0;
    case 'r': a->settings.learning_rate = example_parse_rate(state, value); return 0;
    case OPTION_FULL: a->full = true; return 0;
    case OPTION_WORD_PIECES: a->word_pieces = value; return 0;
    case OPTION_VOCABULARY:
        a->max_tokens = (uint32_t)example_parse_count(state, value, 1u << 20);
        if (a->max_tokens < LEAST_VOCABULARY) argp_error(state, "'%s' is less than %d", value, LEAST_VOCABULARY);
        return 0;
    case OPTION_TASK:
        if (!find_task(value, &a->settings.task))
            argp_error(state, "there is no task '%s': next, document or none", value);
        return 0;
    case OPTION_LABELS: a->settings.labels = (uint32_t)example_parse_count(state, value, 1000000); return 0;
    default: return ARGP_ERR_UNKNOWN;
    }
}

/* The published ones, or what two cores do in minutes. */
static void choose_settings(arguments *a, example_options *options)
{
    bert_settings *s = &a->settings;
    if (!s->steps) s->steps = a->full ? 1000000 : 1000;
    s->warmup = a->full ? 10000 : s->steps / 10;
    s->report = a->full ? 1000 : 100;
    if (s->learning_rate == 0.0) s->learning_rate = a->full ? 1e-4 : 1.5e-3;
    if (!options->batch_size) options->batch_size = a->full ? 256 : 32;
    s->tuning_epochs = a->full ? 3 : 4;
    s->tuning_batch = a->full ? 32 : 16;
    s->tuning_rate = a->full ? 2e-5 : 2e-4;
    if (!a->max_tokens) a->max_tokens = (uint32_t)(a->full ? bert_base : bert_tiny).vocabulary;
    if (a->num_texts > 0) return;
    static const char *const own_texts[] = { EXAMPLE_TEXTS, EXAMPLE_SOURCE "/include/ringfire" };
    a->num_texts = sizeof(own_texts) / sizeof(*own_texts);
    memcpy(a->texts, own_texts, sizeof(own_texts));
}

/* ---- program ---- */

static int run(const example_options *options, const arguments *a, corpus *c, bert **b, rf_strategy **strategy)
{
    bert_config config = a->full ? bert_base : bert_tiny;
    if (corpus_load(a->texts, a->num_texts, a->word_pieces, a->max_tokens, c) < 0) return -1;
    const uint32_t vocabulary = rf_tokenizer_vocabulary_size(c->tokenizer);
    /* The published table has its size, whether the text has so many word pieces or not. */
    if (!a->full || (int32_t)vocabulary > config.vocabulary) config.vocabulary = (int32_t)vocabulary;
    const int joined = example_create_strategy(options, strategy);
    if (joined != 0) return joined;
    example_print("%u documents, %u sections, %u sentences, %llu tokens, %u different ones\n", c->num_documents,
                  c->num_sections, c->num_sentences, (unsigned long long)c->first_token[c->num_sentences], vocabulary);
    const int result = pretrain(*strategy, options, &a->settings, c, &config, b);
    if (result != 0 || a->settings.task == TASK_NONE) return result;
    return fine_tune(*strategy, options, &a->settings, c, &config, *b);
}

int main(int argc, char **argv)
{
    example_options options = { 0 };
    arguments own = { .settings = { .labels = 64 } };
    const struct argp own_parser = { own_options, parse_own, NULL, NULL, NULL, NULL, NULL };
    example_parse_with(argc, argv,
                       "Trains BERT on text: to fill in masked words, and to tell whether one segment follows another. "
                       "Then fine-tunes it on few labels, and compares that with a network that begins from scratch.",
                       "dbscPBS", &options, &own_parser, &own);
    choose_settings(&own, &options);
    rf_strategy *strategy = NULL;
    corpus c = { 0 };
    bert *b = NULL;
    const int result = run(&options, &own, &c, &b, &strategy);
    bert_destroy(&b);
    corpus_free(&c);
    example_destroy_strategy(&strategy);
    return example_exit_status(result);
}
