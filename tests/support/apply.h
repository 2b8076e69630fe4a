/* SPDX-License-Identifier: Apache-2.0 */
/* Chains of datasets without a name for each link. */
#ifndef RF_TESTS_SUPPORT_APPLY_H
#define RF_TESTS_SUPPORT_APPLY_H

#include <ringfire/dataset.h>

#include "expect.h"

/* Puts the dataset that `call` makes in `applied_` in place of `d`, which it is made of. */
#define APPLY(d, call)                                                                                                 \
    do {                                                                                                               \
        rf_dataset *applied_;                                                                                          \
        OK(call);                                                                                                      \
        rf_dataset_destroy(&(d));                                                                                      \
        (d) = applied_;                                                                                                \
    } while (0)

#endif
