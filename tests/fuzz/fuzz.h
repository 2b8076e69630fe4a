/* SPDX-License-Identifier: Apache-2.0 */
/* What the fuzzers share. */
#ifndef TEST_FUZZ_H
#define TEST_FUZZ_H

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <ringfire/common.h>

/* libFuzzer calls it with every input. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* What a reader has promised about whatever it accepts; broken, it is a finding as a crash is. */
#define PROMISE(condition)                                                                                             \
    do {                                                                                                               \
        if (!(condition)) abort();                                                                                     \
    } while (0)

/* A failure says something, in one line. */
static inline void promise_message(void)
{
    const char *text = rf_error_message();
    PROMISE(text[0]);
    for (; *text; text++) PROMISE((unsigned char)*text >= ' ');
}

#endif
