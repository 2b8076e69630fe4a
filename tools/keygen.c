/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "commands.h"
#include "options.h"

static error_t parse_option(int key, char *text, struct argp_state *state)
{
    const char **path = state->input;
    if (key != ARGP_KEY_ARG) return ARGP_ERR_UNKNOWN;
    if (*path) argp_error(state, "'%s' is not expected", text);
    if (!text[0]) argp_error(state, "the name of the file is empty");
    *path = text;
    return 0;
}

int command_keygen(int argc, char **argv)
{
    const char *path = NULL;
    const struct argp parser = {
        NULL,
        parse_option,
        "[FILE]",
        "Makes the key by which the workers of a job know each other, in a new file that only its owner can read.\v"
        "Copy the file to every host of the job, with the same owner and mode. Without FILE it is where jobs look for "
        "it when "
        "RINGFIRE_KEY_FILE is not set: ~/.config/ringfire/job.key. 'ringfire run' needs no key: it makes one for each "
        "job.",
        NULL,
        NULL,
        NULL
    };
    command_parse(&parser, argc, argv, 0, &path);
    char place[4096];
    if (!path && rf_key_file_default(place, sizeof(place)) < 0) return command_fail();
    if (rf_key_file_create(path) < 0) return command_fail();
    printf("%s\n", path ? path : place);
    return CODE_OK;
}
