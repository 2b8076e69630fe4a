/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>

#include "commands.h"
#include "json_output.h"
#include "options.h"

typedef struct keygen_options {
    const char *path, *json_path;
} keygen_options;

static const struct argp_option argp_options[] = { JSON_OPTION, { 0 } };

static error_t parse_option(int key, char *text, struct argp_state *state)
{
    keygen_options *o = state->input;
    switch (key) {
    case 'j': o->json_path = text ? text : "-"; return 0;
    case ARGP_KEY_ARG:
        if (o->path) argp_error(state, "'%s' is not expected", text);
        if (!text[0]) argp_error(state, "FILE is empty");
        o->path = text;
        return 0;
    default: return ARGP_ERR_UNKNOWN;
    }
}

int command_keygen(int argc, char **argv)
{
    keygen_options o = { 0 };
    const struct argp parser = {
        argp_options,
        parse_option,
        "[FILE]",
        "Creates the key by which the workers of a job authenticate each other, in a new file that only its owner can "
        "read.\v"
        "Copy the file to every host of the job, with the same owner and mode. Without FILE it is where jobs look for "
        "it when RINGFIRE_KEY_FILE is not set: ~/.config/ringfire/job.key. 'ringfire run' needs no key: it makes one "
        "for each job.",
        NULL,
        NULL,
        NULL
    };
    command_parse(&parser, argc, argv, 0, &o);
    if (!json_can_write(o.json_path)) return CODE_FAILED;
    char place[4096];
    if (!o.path && rf_key_file_default(place, sizeof(place)) < 0) return command_fail();
    if (rf_key_file_create(o.path) < 0) return command_fail();
    const char *path = o.path ? o.path : place;
    if (!json_replaces_text(o.json_path)) printf("%s\n", path);
    return json_write(o.json_path, json_pack("{s:o}", "key_file", json_text(path))) ? CODE_OK : CODE_FAILED;
}
