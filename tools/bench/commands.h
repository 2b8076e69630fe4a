/* SPDX-License-Identifier: Apache-2.0 */
/* The commands of `ringfire-bench`. */
#ifndef RINGFIRE_BENCH_COMMANDS_H
#define RINGFIRE_BENCH_COMMANDS_H

#include "program.h"

int command_bench_allreduce(int argc, char **argv);
int command_bench_attention(int argc, char **argv);
int command_bench_audit(int argc, char **argv);
int command_bench_checkpoint(int argc, char **argv);
int command_bench_device(int argc, char **argv);
int command_bench_job(int argc, char **argv);
int command_bench_kernels(int argc, char **argv);
int command_bench_model(int argc, char **argv);
int command_bench_observe(int argc, char **argv);
int command_bench_ops(int argc, char **argv);
int command_bench_scale(int argc, char **argv);
int command_bench_train(int argc, char **argv);
int command_bench_zoo(int argc, char **argv);

#endif
