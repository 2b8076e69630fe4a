/* SPDX-License-Identifier: Apache-2.0 */
/* ringfire ckpt: the contents of a checkpoint or model file. */
#include "ckpt/ckpt.h"

#include <string.h>

#include "commands.h"
#include "json_output.h"
#include "options.h"

#define ACTIONS "ls, show, verify, diff and convert"

static const struct {
    const char *name;
    int (*run)(const ckpt_options *o);
    int fewest, most; /* arguments */
    const char *arguments[2];
} actions[] = { { "ls", ckpt_list, 0, 1, { "DIR", NULL } },
                { "show", ckpt_show, 1, 1, { "FILE", NULL } },
                { "verify", ckpt_verify, 1, 1, { "FILE", NULL } },
                { "diff", ckpt_compare, 2, 2, { "the first FILE", "the second FILE" } },
                { "convert", ckpt_convert, 2, 2, { "FROM", "TO" } } };
enum { NUM_ACTIONS = sizeof(actions) / sizeof(actions[0]) };

typedef struct parsed {
    ckpt_options o;
    int action, num_paths; /* NUM_ACTIONS: none yet */
} parsed;

static const struct argp_option argp_options[] = {
    { "full", 'f', NULL, 0, "show: all of long values, which are otherwise cut to the terminal's width", 0 },
    JSON_OPTION,
    { 0 },
};

static void parse_word(parsed *p, char *text, struct argp_state *state)
{
    if (p->action < NUM_ACTIONS) {
        if (p->num_paths == actions[p->action].most)
            argp_error(state, "%s: '%s' is one argument too many", actions[p->action].name, text);
        p->o.paths[p->num_paths++] = text;
        return;
    }
    for (p->action = 0; p->action < NUM_ACTIONS; p->action++)
        if (strcmp(actions[p->action].name, text) == 0) return;
    argp_error(state, "there is no '%s'; there are " ACTIONS, text);
}

static error_t parse_option(int key, char *text, struct argp_state *state)
{
    parsed *p = state->input;
    switch (key) {
    case 'f': p->o.full = true; return 0;
    case 'j': p->o.json_path = text ? text : "-"; return 0;
    case ARGP_KEY_ARG: parse_word(p, text, state); return 0;
    case ARGP_KEY_END:
        if (p->action == NUM_ACTIONS) argp_error(state, "say what to do; there are " ACTIONS);
        if (p->num_paths < actions[p->action].fewest)
            argp_error(state, "%s: %s is missing", actions[p->action].name, actions[p->action].arguments[p->num_paths]);
        return 0;
    default: return ARGP_ERR_UNKNOWN;
    }
}

int command_ckpt(int argc, char **argv)
{
    static const struct argp parser = {
        argp_options,
        parse_option,
        "ls [DIR]\nshow FILE\nverify FILE\ndiff FILE FILE\nconvert FROM TO",
        "Inspects checkpoints and model files.\v'ls' lists the files of a directory, with their kinds, and says what "
        "is "
        "wrong with damaged ones (exit code 1); a checkpoint in parts counts with these. 'show' lists the contents of "
        "a file. 'verify' reads and checks every byte (exit code 1: damaged). 'diff' compares the tensors and values "
        "of "
        "two files (exit code 0: the same, 1: different, 2: trouble). 'convert' copies the tensors from or to a file "
        "called *.safetensors; values have no place there, and it names those it leaves out. 'show', 'verify' and "
        "'diff' take such files, too.",
        NULL,
        NULL,
        NULL
    };
    parsed p = { .action = NUM_ACTIONS };
    command_parse(&parser, argc, argv, 0, &p);
    if (!json_can_write(p.o.json_path)) return CODE_FAILED;
    return actions[p.action].run(&p.o);
}
