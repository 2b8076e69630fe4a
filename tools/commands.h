/* SPDX-License-Identifier: Apache-2.0 */
/* The commands of `ringfire`, in the order in which its help names them. */
#ifndef RINGFIRE_COMMANDS_H
#define RINGFIRE_COMMANDS_H

#include "program.h"

#define RINGFIRE_COMMANDS(X)                                                                                           \
    X(devices, "List the Vulkan devices of this machine")                                                              \
    X(bench, "Measure what they reach: products, memory, training, all-reduce")                                        \
    X(run, "Start a program as the workers of a job, here or on several hosts")                                        \
    X(top, "Show a running job: workers, devices, speed, values")                                                      \
    X(keygen, "Make a job key")                                                                                        \
    X(ckpt, "List, show, verify, compare and convert checkpoints")                                                     \
    X(plot, "Draw the curves of trainings")                                                                            \
    X(report, "Make one page of a training: curves, devices, time, checkpoints")                                       \
    X(trace, "Merge the traces of a job's workers")

#define DECLARE(name, purpose) int command_##name(int argc, char **argv);
RINGFIRE_COMMANDS(DECLARE)
#undef DECLARE

#endif
