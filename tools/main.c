/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "commands.h"
#include "printable.h"

static const struct {
    const char *name, *purpose;
    int (*run)(int argc, char **argv);
} commands[] = {
    { "devices", "List the Vulkan devices of this machine", command_devices },
    { "bench", "Measure operations, training, exchange, checkpoints", command_bench },
    { "run", "Start a program as the workers of a job, here or on several hosts", command_run },
    { "keygen", "Make a job key", command_keygen },
    { "ckpt", "List, show, verify, compare and convert checkpoints", command_ckpt },
    { "plot", "Draw the curves of trainings", command_plot },
    { "trace", "Merge the traces of a job's workers", command_trace },
};
enum { NUM_COMMANDS = sizeof(commands) / sizeof(commands[0]) };

/* Messages tell names that come from files. */
static void print_message(const char *head, const char *message)
{
    fputs(head, stderr);
    print_printable(stderr, message, 0);
    fputc('\n', stderr);
}

int command_fail(void)
{
    print_message("ringfire: ", rf_error_message());
    return CODE_FAILED;
}

/* What the library does not fail for, but the user should know. Errors reach the user as what calls return. */
static void print_warning(void *user, rf_log_level level, const char *message)
{
    (void)user;
    if (level == RF_LOG_WARN) print_message("ringfire: warning: ", message);
}

static void print_help(FILE *out)
{
    fprintf(out, "Usage: ringfire COMMAND [OPTION...]\n\n"
                 "Trains neural networks on any Vulkan devices.\n\nCommands:\n");
    for (int i = 0; i < NUM_COMMANDS; i++) fprintf(out, "  %-12s %s\n", commands[i].name, commands[i].purpose);
    fprintf(out, "\n'ringfire COMMAND --help' tells more. All commands take --version, and --json\n"
                 "for programs.\n\n"
                 "Exit codes:\n"
                 "  0  success; for a question: yes\n"
                 "  1  failure; for a question (ckpt ls, verify and diff): no\n"
                 "  2  wrong usage; 'ckpt diff', as diff(1), also where it cannot compare\n"
                 "  'ringfire run' ends as the worker that failed first: with its exit code, or\n"
                 "  with 128 + N if signal N ended it.\n");
}

/* What was printed may not have arrived: a full disk, a closed pipe. */
static int check_output(void)
{
    if (fflush(stdout) == 0 && !ferror(stdout)) return CODE_OK;
    fprintf(stderr, "ringfire: standard output: cannot write (%s)\n", strerror(errno));
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

int main(int argc, char **argv)
{
    open_missing_streams();
    if (argc < 2) {
        fprintf(stderr, "ringfire: COMMAND is missing\n\n");
        print_help(stderr);
        return CODE_USAGE;
    }
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0 || strcmp(argv[1], "help") == 0) {
        print_help(stdout);
        return check_output();
    }
    if (strcmp(argv[1], "--version") == 0) {
        printf("ringfire %s\n", rf_version_string());
        return check_output();
    }
    rf_log_set(print_warning, NULL, RF_LOG_WARN);
    for (int i = 0; i < NUM_COMMANDS; i++) {
        if (strcmp(argv[1], commands[i].name) != 0) continue;
        char name[64];
        snprintf(name, sizeof(name), "ringfire %s", commands[i].name);
        argv[1] = name; /* what the option parser calls the program */
        const int code = commands[i].run(argc - 1, argv + 1);
        return code == CODE_OK ? check_output() : code;
    }
    fprintf(stderr, "ringfire: there is no %s '%s'; 'ringfire --help' lists them\n",
            argv[1][0] == '-' ? "option" : "command", argv[1]);
    return CODE_USAGE;
}
