/* SPDX-License-Identifier: Apache-2.0 */
/* Prints which kernel and plan each case of each op gets on each device: dump_plans [--digests] SNAPSHOTS */
#include <string.h>

#include "plan_table.h"

int main(int argc, char **argv)
{
    const bool digests = argc == 3 && strcmp(argv[1], "--digests") == 0;
    if (argc != 2 + digests) {
        fprintf(stderr, "usage: dump_plans [--digests] SNAPSHOTS\n");
        return 2;
    }
    for (int i = 0; i < NUM_PLANNED_DEVICES; i++) write_plan_table(argv[argc - 1], planned_devices[i], digests, stdout);
    return 0;
}
