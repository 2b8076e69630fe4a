/* SPDX-License-Identifier: Apache-2.0 */
#ifndef RF_TRAIN_CALLBACK_H
#define RF_TRAIN_CALLBACK_H

#include <ringfire/train.h>

struct rf_callback {
    rf_callback_fns fns;
    void *user; /* owned through fns.destroy */
};

#endif
