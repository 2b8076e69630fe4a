/* SPDX-License-Identifier: Apache-2.0 */
/* Subcommands of the `ringfire` tool. Each parses its own options and returns an exit code. */
#ifndef RINGFIRE_COMMANDS_H
#define RINGFIRE_COMMANDS_H

#include <stdbool.h>

#include <ringfire/ringfire.h>

/* What the tool ends with. `ringfire --help` and docs/command.md list the same. `ringfire run` also passes the code of
 * the worker on that failed. */
enum {
    CODE_OK = 0,      /* done; the answer is yes */
    CODE_FAILED = 1,  /* not done */
    CODE_NO = 1,      /* the answer is no: the files differ, one is damaged */
    CODE_USAGE = 2,   /* the command line is wrong */
    CODE_TROUBLE = 2, /* `ckpt diff` cannot compare; as diff(1) */
};

int command_devices(int argc, char **argv);
int command_bench(int argc, char **argv);
int command_bench_allreduce(int argc, char **argv);
int command_bench_checkpoint(int argc, char **argv);
int command_bench_device(int argc, char **argv);
int command_bench_job(int argc, char **argv);
int command_bench_kernels(int argc, char **argv);
int command_bench_observe(int argc, char **argv);
int command_bench_scale(int argc, char **argv);
int command_bench_train(int argc, char **argv);
int command_bench_attention(int argc, char **argv);
int command_bench_zoo(int argc, char **argv);
int command_ckpt(int argc, char **argv);
int command_keygen(int argc, char **argv);
int command_plot(int argc, char **argv);
int command_run(int argc, char **argv);
int command_trace(int argc, char **argv);

/* "ringfire: message" on stderr; returns CODE_FAILED. */
int command_fail(void);

#endif
