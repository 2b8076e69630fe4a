/* SPDX-License-Identifier: Apache-2.0 */
/* Lets a language model of the Hugging Face hub go on with texts, or answer. */
#include "../common/language.h"

enum { MAX_PROMPTS = 64 };

enum { OPTION_ADAPTER = 256, OPTION_QUANTIZE, OPTION_OUT };

typedef struct arguments {
    const char *directory, *adapter, *out, *prompts[MAX_PROMPTS];
    rf_quantization bits;
    uint32_t num_prompts;
    language_settings text;
} arguments;

static const struct argp_option own_options[] = {
    { "prompt", 'p', "TEXT", 0, "What the model answers, or goes on with; may be given again", 1 },
    { "adapter", OPTION_ADAPTER, "DIR", 0, "The adapter that finetune --lora wrote there", 1 },
    { "out", OPTION_OUT, "PATH", 0,
      "Write the model there, its adapter merged, as a directory, or as FILE.gguf; needs no prompt", 1 },
    { "quantize", OPTION_QUANTIZE, "KIND", 0, "Keep weights in 4 or 8 bits: nf4, q4_0 or int8", 1 },
    { 0 },
};

static error_t parse_own(int key, char *value, struct argp_state *state)
{
    arguments *a = state->input;
    switch (key) {
    case ARGP_KEY_INIT: state->child_inputs[0] = &a->text; return 0;
    case 'p':
        if (a->num_prompts == MAX_PROMPTS) argp_error(state, "more than %d prompts", MAX_PROMPTS);
        if (!*value) argp_error(state, "the prompt is empty");
        a->prompts[a->num_prompts++] = value;
        return 0;
    case OPTION_ADAPTER: a->adapter = value; return 0;
    case OPTION_OUT: a->out = value; return 0;
    case OPTION_QUANTIZE: a->bits = language_parse_bits(state, value); return 0;
    case ARGP_KEY_ARG:
        if (a->directory) argp_error(state, "'%s': one directory is enough", value);
        a->directory = value;
        return 0;
    case ARGP_KEY_END:
        if (!a->directory || (a->num_prompts == 0 && !a->out)) argp_error(state, "give a model, and --prompt or --out");
        return 0;
    default: return ARGP_ERR_UNKNOWN;
    }
}

static int run(const example_options *options, const arguments *a, rf_strategy **strategy, language *l)
{
    const int created = example_create_strategy(options, strategy);
    if (created != 0) return created;
    if (language_open(*strategy, a->directory, a->bits, a->adapter, l) < 0) return -1;
    if (a->out && language_save(l, a->out) < 0) return -1;
    return language_write(l, a->prompts, a->num_prompts, &a->text);
}

int main(int argc, char **argv)
{
    example_options options = { 0 };
    arguments own = { 0 };
    const struct argp_child children[] = { { &language_parser, 0, NULL, 0 }, { 0 } };
    const struct argp own_parser = { own_options, parse_own, "MODEL", NULL, children, NULL, NULL };
    example_parse_with(argc, argv, "Lets a model of the Hugging Face hub answer, or go on with texts.", "dsm", &options,
                       &own_parser, &own);
    own.text.seed = options.seed;
    rf_strategy *strategy = NULL;
    language l = { 0 };
    const int result = run(&options, &own, &strategy, &l);
    language_close(&l);
    example_destroy_strategy(&strategy);
    return example_exit_status(result);
}
