/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/measure/statistics.h"

#include <stddef.h>
#include <strings.h>

/* One line for each name that some driver uses; several lines of one column add up. */
static const struct {
    const char *name; /* in whatever case */
    size_t column;
    double multiplier;
    bool by_subgroup; /* of a subgroup's invocations together: divided by their number */
} table[] = {
#define COLUMN(member) offsetof(rf_kernel_statistics, member)
    /* RADV; AMD's own driver has the first two */
    { "VGPRs", COLUMN(registers), 1, false },
    { "SGPRs", COLUMN(scalar_registers), 1, false },
    { "Spilled VGPRs", COLUMN(spills), 1, false },
    { "Spilled SGPRs", COLUMN(spills), 1, false },
    { "Scratch size", COLUMN(scratch), 1, false },
    { "LDS size", COLUMN(shared), 1, false },
    { "Subgroups per SIMD", COLUMN(occupancy), 1, false },
    { "Instructions", COLUMN(instructions), 1, false }, /* and Honeykrisp, ANV */
    { "Code size", COLUMN(code_bytes), 1, false },      /* and all the others of Mesa */
    { "Latency", COLUMN(cycles), 1, false },
    /* NVK, whose spills to registers are moves from uniform registers */
    { "Number of GPRs", COLUMN(registers), 1, false },
    { "Spills to memory", COLUMN(spills), 1, false },
    { "Fills from memory", COLUMN(spills), 1, false },
    { "SLM size", COLUMN(scratch), 1, false },
    { "Max warps/SM", COLUMN(occupancy), 1, false },
    { "Instruction count", COLUMN(instructions), 1, false }, /* and Turnip, older ANV */
    { "Static cycle count", COLUMN(cycles), 1, false },
    /* NVIDIA's own driver */
    { "Register count", COLUMN(registers), 1, false },
    { "Binary size", COLUMN(code_bytes), 1, false },
    /* Turnip: registers are vectors of four; stores to and loads from private memory */
    { "Registers used", COLUMN(registers), 4, false },
    { "STP count", COLUMN(spills), 1, false },
    { "LDP count", COLUMN(spills), 1, false },
    { "Max waves per core", COLUMN(occupancy), 1, false },
    /* Honeykrisp: registers have 16 bits */
    { "GPRs", COLUMN(registers), 0.5, false },
    { "Spills", COLUMN(spills), 1, false }, /* and ANV */
    { "Fills", COLUMN(spills), 1, false },
    { "Scratch", COLUMN(scratch), 1, false },
    { "Threads", COLUMN(occupancy), 1, true },
    { "ALU", COLUMN(cycles), 1, false },
    /* ANV: a register holds a value of eight invocations (of sixteen from Xe2 on, where these are twice as many) */
    { "Max live registers", COLUMN(registers), 8, true },
    { "Scratch memory size", COLUMN(scratch), 1, false },
    { "Workgroup memory size", COLUMN(shared), 1, false },
    { "Cycles", COLUMN(cycles), 1, false },
    /* ... and before Mesa 26 */
    { "Cycle count", COLUMN(cycles), 1, false },
    { "Spill count", COLUMN(spills), 1, false },
    { "Fill count", COLUMN(spills), 1, false },
#undef COLUMN
};

static int64_t *column_of(rf_kernel_statistics *statistics, size_t offset)
{
    return (int64_t *)(void *)((char *)statistics + offset);
}

/* Rounded up: half a register is one that is taken. */
static int64_t round_up(double value)
{
    const int64_t whole = (int64_t)value;
    return (double)whole < value ? whole + 1 : whole;
}

void rf_gpu_statistics_read(const rf_gpu_explanation *explanation, rf_kernel_statistics *out)
{
    *out = (rf_kernel_statistics){ -1, -1, -1, -1, -1, -1, -1, -1, -1 };
    for (uint32_t i = 0; i < explanation->num_statistics; i++) {
        const rf_gpu_statistic *s = &explanation->statistics[i];
        for (size_t k = 0; k < sizeof(table) / sizeof(table[0]); k++) {
            if (strcasecmp(s->name, table[k].name) != 0) continue;
            if (table[k].by_subgroup && explanation->subgroup_size == 0) continue;
            const double units = table[k].by_subgroup ? explanation->subgroup_size : 1;
            int64_t *column = column_of(out, table[k].column);
            *column = (*column < 0 ? 0 : *column) + round_up(s->value * table[k].multiplier / units);
        }
    }
}
