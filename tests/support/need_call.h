/* SPDX-License-Identifier: Apache-2.0 */
/* For the main programs that Python's tests start: a call that fails ends the program with its message. */
#ifndef TEST_SUPPORT_NEED_CALL_H
#define TEST_SUPPORT_NEED_CALL_H

#include <stdio.h>
#include <stdlib.h>

#include <ringfire/common.h>

#define NEED_CALL(expression)                                                                                          \
    do {                                                                                                               \
        if ((expression) < 0) {                                                                                        \
            fprintf(stderr, "%s: %s\n", #expression, rf_error_message());                                              \
            return EXIT_FAILURE;                                                                                       \
        }                                                                                                              \
    } while (0)

#endif
