/* SPDX-License-Identifier: Apache-2.0 */
/* Returns on failure, as the code of pages does. */
#ifndef RF_TESTS_SUPPORT_TRY_H
#define RF_TESTS_SUPPORT_TRY_H

#include <ringfire/common.h>

#define TRY(expression)                                                                                                \
    do {                                                                                                               \
        const rf_result try_result = (expression);                                                                     \
        if (try_result < 0) return try_result;                                                                         \
    } while (0)

#endif
