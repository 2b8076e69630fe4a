/* SPDX-License-Identifier: Apache-2.0 */
#ifndef RF_TRAIN_CALLBACKS_CALLBACK_H
#define RF_TRAIN_CALLBACKS_CALLBACK_H

#include <ringfire/train.h>

#include "train/fit/compile.h"

/* Where fit stands. Callbacks of the library may read it between batches and move it before the first. */
typedef struct rf_fit_progress {
    rf_compiled *compiled;
    const rf_fit_params *params;
    rf_fit_state state;
    rf_iterator *iterator;
    uint64_t pass;    /* of the next iterator: selects its shuffle */
    uint64_t batches; /* of the epoch, trained so far */
    bool resumed;     /* from a backup */
} rf_fit_progress;

typedef enum rf_fit_point {
    RF_FIT_BATCHES,  /* after steps_per_execution batches, or fewer at the end */
    RF_FIT_STOPPED,  /* the same, and training ends here, as all workers agreed */
    RF_FIT_EPOCH_END /* after the callbacks; `state.epoch` is the next epoch and `batches` 0 */
} rf_fit_point;

/* The library's own callbacks can do more with these. Any entry may be NULL; calls are collective. */
typedef struct rf_callback_extras {
    /* Before anything of fit has happened: what can be refused then is. `names` are those of an epoch's logs, with
     * those of validation. */
    rf_result (*check)(void *user, const rf_logs *names);
    rf_result (*resume)(void *user, rf_fit_progress *progress); /* after on_train_begin of all callbacks */
    /* Before the first epoch, when all callbacks have resumed; `names` as above. */
    rf_result (*begin)(void *user, const rf_fit_progress *progress, const rf_logs *names);
    rf_result (*progressed)(void *user, rf_fit_progress *progress, rf_fit_point point);
    /* State that a resumed fit needs, as bytes (rf_free); NULL bytes: none. */
    rf_result (*save)(void *user, void **data, size_t *size);
    rf_result (*restore)(void *user, const void *data, size_t size);
} rf_callback_extras;

struct rf_callback {
    rf_callback_fns fns;
    void *user; /* owned through fns.destroy */
    const rf_callback_extras *extras;
};

#endif
