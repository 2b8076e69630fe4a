/* SPDX-License-Identifier: Apache-2.0 */
#include "options.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <ringfire/common.h>

static void print_version(FILE *out, struct argp_state *state)
{
    (void)state;
    fprintf(out, "%s %s\n", program_name(), rf_version_string());
}

void command_parse(const struct argp *parser, int argc, char **argv, unsigned flags, void *input)
{
    argp_program_version_hook = print_version;
    argp_err_exit_status = CODE_USAGE;
    if (argp_parse(parser, argc, argv, flags, NULL, input) != 0) {
        fprintf(stderr, "%s: out of memory\n", program_name());
        exit(CODE_FAILED);
    }
}

unsigned long option_number(const struct argp_state *state, const char *name, const char *text, unsigned long least,
                            unsigned long most)
{
    char *end = NULL;
    const unsigned long value = strtoul(text, &end, 10);
    if (text[0] < '0' || text[0] > '9' || *end || value < least || value > most)
        argp_error(state, "%s is '%s', not a number of %lu to %lu", name, text, least, most);
    return value;
}

double option_real(const struct argp_state *state, const char *name, const char *text, double least, double most)
{
    char *end = NULL;
    const double value = rf_number_parse(text, &end);
    if (!text[0] || *end || !(value >= least && value <= most))
        argp_error(state, "%s is '%s', not a number of %g to %g", name, text, least, most);
    return value;
}

double option_seconds(const struct argp_state *state, const char *name, const char *text, double least)
{
    char *end = NULL;
    const double value = rf_number_parse(text, &end);
    if (!text[0] || *end || !(value >= least && value <= 1e6))
        argp_error(state, "%s is '%s', not a number of seconds from %g to %g", name, text, least, 1e6);
    return value;
}
