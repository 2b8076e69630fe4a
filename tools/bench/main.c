/* SPDX-License-Identifier: Apache-2.0 */
/* ringfire-bench: measurements for those who work on the library, which look inside it. */
#include "bench/commands.h"

#define ROW(name, purpose) { #name, purpose, command_bench_##name },
static const command commands[] = { BENCH_COMMANDS(ROW) };

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
