/* SPDX-License-Identifier: Apache-2.0 */
#include "program.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "printable.h"

static const program_params *running;

const char *program_name(void)
{
    return running->name;
}

/* Messages tell names that come from files. */
static void print_message(const char *kind, const char *message)
{
    fprintf(stderr, "%s: %s", running->name, kind);
    print_printable(stderr, message, 0);
    fputc('\n', stderr);
}

int command_fail(void)
{
    print_message("", rf_error_message());
    return CODE_FAILED;
}

/* Shows warnings: the library does not fail for them, but the user should know. Errors reach the user as what calls
 * return. */
static void print_warning(void *user, rf_log_level level, const char *message)
{
    (void)user;
    if (level == RF_LOG_WARN) print_message("warning: ", message);
}

static void print_help(FILE *out)
{
    const program_params *p = running;
    fprintf(out, "Usage: %s COMMAND [OPTION...]\n\n%s\n\nCommands:\n", p->name, p->purpose);
    for (uint32_t i = 0; i < p->num_commands; i++)
        fprintf(out, "  %-12s %s\n", p->commands[i].name, p->commands[i].purpose);
    fprintf(out,
            "\n'%s COMMAND --help' tells more. All commands take --version,\n"
            "and --json for programs.\n\n"
            "Exit codes:\n%s",
            p->name, p->codes);
}

/* Output that was printed may not have arrived: a full disk, a closed pipe. */
static int check_output(void)
{
    if (fflush(stdout) == 0 && !ferror(stdout)) return CODE_OK;
    fprintf(stderr, "%s: standard output: cannot write (%s)\n", running->name, strerror(errno));
    return CODE_FAILED;
}

/* A program that was started without one of its three streams would open something else under its number. Nothing comes
 * from such an input, what is written to such an output is a failure, as before, and messages go nowhere. */
static void open_missing_streams(void)
{
    static const int modes[] = { O_RDONLY, O_RDONLY, O_WRONLY };
    for (int i = 0; i < 3; i++)
        if (fcntl(i, F_GETFD) < 0 && errno == EBADF && open("/dev/null", modes[i]) != i) _exit(CODE_FAILED);
}

int program_run(const program_params *p, int argc, char **argv)
{
    running = p;
    open_missing_streams();
    if (argc < 2) {
        fprintf(stderr, "%s: COMMAND is missing\n\n", p->name);
        print_help(stderr);
        return CODE_USAGE;
    }
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0 || strcmp(argv[1], "help") == 0) {
        print_help(stdout);
        return check_output();
    }
    if (strcmp(argv[1], "--version") == 0) {
        printf("%s %s\n", p->name, rf_version_string());
        return check_output();
    }
    rf_log_set(print_warning, NULL, RF_LOG_WARN);
    for (uint32_t i = 0; i < p->num_commands; i++) {
        if (strcmp(argv[1], p->commands[i].name) != 0) continue;
        char name[64];
        snprintf(name, sizeof(name), "%s %s", p->name, p->commands[i].name);
        argv[1] = name; /* what the option parser calls the program */
        const int code = p->commands[i].run(argc - 1, argv + 1);
        return code == CODE_OK ? check_output() : code;
    }
    fprintf(stderr, "%s: there is no %s '%s'; '%s --help' lists them\n", p->name,
            argv[1][0] == '-' ? "option" : "command", argv[1], p->name);
    return CODE_USAGE;
}
