/* SPDX-License-Identifier: Apache-2.0 */
/* ringfire-bench: measurements for those who work on the library, which look inside it. */
#include "bench/commands.h"

static const command commands[] = {
    { "ops", "Operations, kernel by kernel", command_bench_ops },
    { "kernels", "What the driver's compiler makes of the operations' kernels", command_bench_kernels },
    { "device", "What a device costs and reaches by itself", command_bench_device },
    { "model", "The training of a small CNN on one device", command_bench_model },
    { "zoo", "The training of the examples' networks", command_bench_zoo },
    { "audit", "What each kernel gains the examples' networks", command_bench_audit },
    { "attention", "The two forms of attention", command_bench_attention },
    { "allreduce", "The exchange between workers", command_bench_allreduce },
    { "job", "How workers come together, and what their heartbeats cost", command_bench_job },
    { "checkpoint", "Saving and loading", command_bench_checkpoint },
    { "observe", "The cost of traces and event files", command_bench_observe },
    { "scale", "What many workers gain", command_bench_scale },
    { "train", "Training with several workers", command_bench_train },
};

int main(int argc, char **argv)
{
    const program_params bench = {
        .name = "ringfire-bench",
        .purpose = "Measures the library: kernels, devices, training, collectives, files.",
        .codes = "  0  success\n"
                 "  1  failure\n"
                 "  2  wrong usage\n",
        .commands = commands,
        .num_commands = sizeof(commands) / sizeof(commands[0]),
    };
    return program_run(&bench, argc, argv);
}
