/* SPDX-License-Identifier: Apache-2.0 */
/* Helpers that the fuzzers share. */
#ifndef TEST_FUZZ_H
#define TEST_FUZZ_H

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <ringfire/common.h>

/* The function that gets every input, `data` and `size`: libFuzzer's, or a program of replay.c. */
#ifdef FUZZ_REPLAY
#include "tests/room.h"
int fuzz_replay(int (*one)(const uint8_t *data, size_t size), int argc, char **argv);
#define FUZZ_TARGET(name)                                                                                              \
    static int fuzz_##name(const uint8_t *data, size_t size);                                                          \
    TEST_PROGRAM(name)                                                                                                 \
    {                                                                                                                  \
        return fuzz_replay(fuzz_##name, argc, argv);                                                                   \
    }                                                                                                                  \
    static int fuzz_##name(const uint8_t *data, size_t size)
#else
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
#define FUZZ_TARGET(name) int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
#endif

/* A reader's promise about whatever it accepts; broken, it is a finding as a crash is. */
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
