/* SPDX-License-Identifier: Apache-2.0 */
/* Models whose ONNX files are looked at: between them they have most operations that files can have. */
#ifndef TESTS_TRAIN_ONNX_MODELS_H
#define TESTS_TRAIN_ONNX_MODELS_H

#include <ringfire/ringfire.h>

typedef struct branched_parts {
    rf_layer *stem, *left, *right, *head;
    rf_variable *scale; /* the caller destroys it */
} branched_parts;

rf_model *image_model(rf_strategy *strategy);                       /* [n, 11, 10, 2] */
rf_model *pooled_model(rf_strategy *strategy);                      /* [n, 8, 8, 3] */
rf_model *windows_model(rf_strategy *strategy);                     /* [n, 5, 4, 2] */
rf_model *sequence_model(rf_strategy *strategy);                    /* [n, 11, 3] */
rf_model *recurrent_model(rf_strategy *strategy);                   /* [n, 6, 4] */
rf_model *branches_of_images(rf_strategy *strategy);                /* [n, 3, 2, 2] */
rf_model *normalized_model(rf_strategy *strategy, bool turned);     /* [n, 7, 6, 2] */
rf_model *branched_model(rf_strategy *strategy, branched_parts *p); /* [n, 6, 5, 2] */
rf_result build_language(rf_strategy *strategy, rf_model **model);  /* i32 [n, 6], below 9 */
rf_result build_open(rf_strategy *strategy, rf_model **model);      /* i32 [n, any], below 9 */

#endif
