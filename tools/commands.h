/* SPDX-License-Identifier: Apache-2.0 */
/* The commands of `ringfire`. */
#ifndef RINGFIRE_COMMANDS_H
#define RINGFIRE_COMMANDS_H

#include "program.h"

int command_bench(int argc, char **argv);
int command_devices(int argc, char **argv);
int command_ckpt(int argc, char **argv);
int command_keygen(int argc, char **argv);
int command_plot(int argc, char **argv);
int command_report(int argc, char **argv);
int command_run(int argc, char **argv);
int command_trace(int argc, char **argv);

#endif
