/* SPDX-License-Identifier: Apache-2.0 */
#include "commands.h"

#define ROW(name, purpose) { #name, purpose, command_##name },
static const command commands[] = { RINGFIRE_COMMANDS(ROW) };

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
