/* SPDX-License-Identifier: Apache-2.0 */
/* A callback for rf_model_fit(): a progress line with loss and accuracy in each epoch, and a line of all logs after it.
 */
#ifndef EXAMPLE_EPOCH_BAR_H
#define EXAMPLE_EPOCH_BAR_H

#include <ringfire/ringfire.h>

#include "progress.h"

typedef struct epoch_bar {
    progress bar;
    char label[32];
    int64_t seen, total; /* examples of the epoch */
    bool visible;
} epoch_bar;

/* `total` and `visible` are set before the training. The callback borrows `bar`. */
rf_result epoch_bar_create_callback(epoch_bar *bar, rf_callback **out);

#endif
