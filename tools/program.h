/* SPDX-License-Identifier: Apache-2.0 */
/* The programs of this folder, `ringfire` and `ringfire-bench`: their commands, exit codes and messages. */
#ifndef RINGFIRE_PROGRAM_H
#define RINGFIRE_PROGRAM_H

#include <stdbool.h>
#include <stdint.h>

#include <ringfire/ringfire.h>

/* The exit codes. `--help` and docs/reference/commands/index.md list the same. `ringfire run` also passes the code of
 * the worker on that failed. */
enum {
    CODE_OK = 0,      /* done; the answer is yes */
    CODE_FAILED = 1,  /* not done */
    CODE_NO = 1,      /* the answer is no: the files differ, one is damaged */
    CODE_USAGE = 2,   /* the command line is wrong */
    CODE_TROUBLE = 2, /* `ckpt diff` cannot compare; as diff(1) */
};

/* Each command parses its own options and returns an exit code. */
typedef struct command {
    const char *name, *purpose;
    int (*run)(int argc, char **argv);
} command;
typedef struct program_params {
    const char *name, *purpose, *codes; /* the last: lines about exit codes */
    const command *commands;
    uint32_t num_commands;
} program_params;

/* Runs the command that the arguments name; the exit code of the process. */
int program_run(const program_params *p, int argc, char **argv);
/* Messages begin with it. */
const char *program_name(void);
/* "NAME: message" of the library's latest failure on stderr; returns CODE_FAILED. */
int command_fail(void);

#endif
