/* SPDX-License-Identifier: Apache-2.0 */
/* A test's expectations of the library's functions, shown with the library's message where it is not so. */
#ifndef RF_TESTS_SUPPORT_EXPECT_H
#define RF_TESTS_SUPPORT_EXPECT_H

#include <string.h>

#include "tests/room.h"
#include <ringfire/common.h>

/* The call succeeds, and has nothing else to say (as the end of a data set). */
#define OK(expression)                                                                                                 \
    do {                                                                                                               \
        const rf_result ok_result_ = (expression);                                                                     \
        if (ok_result_ != RF_OK) fail_msg("%s: %s: %s", #expression, rf_result_name(ok_result_), rf_error_message());  \
    } while (0)

/* The call does not fail. */
#define CHECK(expression)                                                                                              \
    do {                                                                                                               \
        const rf_result check_result_ = (expression);                                                                  \
        if (check_result_ < 0) fail_msg("%s: %s", #expression, rf_error_message());                                    \
    } while (0)

/* The call fails with this code and a one-line message that contains `part`. */
#define FAILS(expression, code, part)                                                                                  \
    do {                                                                                                               \
        const rf_result fails_result_ = (expression);                                                                  \
        if (fails_result_ != (code)) {                                                                                 \
            fail_msg("%s gave %s, not %s (%s)", #expression, rf_result_name(fails_result_), #code,                     \
                     rf_error_message());                                                                              \
        }                                                                                                              \
        if (!strstr(rf_error_message(), (part)) || strchr(rf_error_message(), '\n')) {                                 \
            fail_msg("%s: '%s' does not say '%s' in one line", #expression, rf_error_message(), (part));               \
        }                                                                                                              \
    } while (0)

/* In functions that return rf_result, among them the bodies of workers: leaves with the failure. */
#define GO(expression)                                                                                                 \
    do {                                                                                                               \
        const rf_result go_result_ = (expression);                                                                     \
        if (go_result_ < 0) return go_result_;                                                                         \
    } while (0)

#endif
