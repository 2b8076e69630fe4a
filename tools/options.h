/* SPDX-License-Identifier: Apache-2.0 */
/* Command lines: what the parsers of all commands share. */
#ifndef RINGFIRE_OPTIONS_H
#define RINGFIRE_OPTIONS_H

#include <argp.h>

#include "program.h"

/* argp_parse() with --version, and CODE_USAGE for what is wrong. */
void command_parse(const struct argp *parser, int argc, char **argv, unsigned flags, void *input);

/* The value of the option `name`, decimal digits of a number from `least` to `most`; else argp_error(), which names all
 * of these. */
unsigned long option_number(const struct argp_state *state, const char *name, const char *text, unsigned long least,
                            unsigned long most);
/* A finite number from `least` to `most`. */
double option_real(const struct argp_state *state, const char *name, const char *text, double least, double most);
/* A time from `least` seconds to 10^6. */
double option_seconds(const struct argp_state *state, const char *name, const char *text, double least);

#endif
