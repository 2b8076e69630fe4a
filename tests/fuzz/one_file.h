/* SPDX-License-Identifier: Apache-2.0 */
/* One file in memory behind rf_file_ops, whatever its name: opening, reading, writing and renaming it are a few
 * instructions, where the system would take most of an execution's time. */
#ifndef TEST_FUZZ_ONE_FILE_H
#define TEST_FUZZ_ONE_FILE_H

#include "persist/file_ops.h"

typedef struct one_file {
    const uint8_t *bytes; /* to read */
    uint64_t size;
    uint8_t *own; /* what was written; free() it. `bytes` is this then */
} one_file;

rf_file_ops one_file_ops(one_file *file);

#endif
