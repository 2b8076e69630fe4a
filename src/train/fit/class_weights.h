/* SPDX-License-Identifier: Apache-2.0 */
#ifndef RF_TRAIN_FIT_CLASS_WEIGHTS_H
#define RF_TRAIN_FIT_CLASS_WEIGHTS_H

#include <ringfire/train.h>

typedef struct rf_class_weights {
    const double *weights;
    uint32_t count;
    uint32_t label;   /* component; the sample weight stands behind it */
    bool one_hot;     /* labels */
    bool has_weights; /* the data, which these are multiplied with */
} rf_class_weights;

/* The fit's data with sample weights by the classes of the labels; NULL where the fit has no class weights. `state` is
 * filled in, and must outlive the dataset. */
rf_result rf_class_weights_apply(const rf_model *model, const rf_fit_params *params, rf_class_weights *state,
                                 rf_dataset **out);

#endif
