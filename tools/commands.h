/* SPDX-License-Identifier: Apache-2.0 */
/* Subcommands of the `ringfire` tool. Each parses its own options and returns an exit code. */
#ifndef RINGFIRE_COMMANDS_H
#define RINGFIRE_COMMANDS_H

#include <stdbool.h>

#include <ringfire/ringfire.h>

int command_devices(int argc, char **argv);
int command_bench(int argc, char **argv);
int command_bench_allreduce(int argc, char **argv);
int command_bench_checkpoint(int argc, char **argv);
int command_bench_observe(int argc, char **argv);
int command_bench_train(int argc, char **argv);
int command_ckpt(int argc, char **argv);
int command_keygen(int argc, char **argv);
int command_plot(int argc, char **argv);
int command_run(int argc, char **argv);
int command_trace(int argc, char **argv);

/* "ringfire: message" on stderr; returns EXIT_FAILURE. */
int command_fail(void);

#endif
