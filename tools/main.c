/* SPDX-License-Identifier: Apache-2.0 */
#include "commands.h"

static const command commands[] = {
    { "devices", "List the Vulkan devices of this machine", command_devices },
    { "bench", "Measure what they reach: products, memory, training, all-reduce", command_bench },
    { "run", "Start a program as the workers of a job, here or on several hosts", command_run },
    { "keygen", "Make a job key", command_keygen },
    { "ckpt", "List, show, verify, compare and convert checkpoints", command_ckpt },
    { "plot", "Draw the curves of trainings", command_plot },
    { "report", "Make one page of a training: curves, devices, time, checkpoints", command_report },
    { "trace", "Merge the traces of a job's workers", command_trace },
};

int main(int argc, char **argv)
{
    const program_params ringfire = {
        .name = "ringfire",
        .purpose = "Trains neural networks on any Vulkan devices.",
        .codes = "  0  success; for a question: yes\n"
                 "  1  failure; for a question (ckpt ls, verify and diff): no\n"
                 "  2  wrong usage; 'ckpt diff', as diff(1), also where it cannot compare\n"
                 "  'ringfire run' ends as the worker that failed first: with its exit code, or\n"
                 "  with 128 + N if signal N ended it.\n",
        .commands = commands,
        .num_commands = sizeof(commands) / sizeof(commands[0]),
    };
    return program_run(&ringfire, argc, argv);
}
