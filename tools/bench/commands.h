/* SPDX-License-Identifier: Apache-2.0 */
/* The commands of `ringfire-bench`, in the order in which its help names them. */
#ifndef RINGFIRE_BENCH_COMMANDS_H
#define RINGFIRE_BENCH_COMMANDS_H

#include "program.h"

#define BENCH_COMMANDS(X)                                                                                              \
    X(ops, "Operations, kernel by kernel")                                                                             \
    X(kernels, "What the driver's compiler makes of the operations' kernels")                                          \
    X(device, "What a device costs and reaches by itself")                                                             \
    X(model, "The training of a small CNN on one device")                                                              \
    X(zoo, "The training of the examples' networks")                                                                   \
    X(audit, "What each kernel gains the examples' networks")                                                          \
    X(attention, "The two forms of attention")                                                                         \
    X(allreduce, "The exchange between workers")                                                                       \
    X(job, "How workers come together, and what their heartbeats cost")                                                \
    X(checkpoint, "Saving and loading")                                                                                \
    X(observe, "The cost of traces and event files")                                                                   \
    X(scale, "What many workers gain")                                                                                 \
    X(train, "Training with several workers")

#define DECLARE(name, purpose) int command_bench_##name(int argc, char **argv);
BENCH_COMMANDS(DECLARE)
#undef DECLARE

#endif
