/* SPDX-License-Identifier: Apache-2.0 */
#ifndef RF_TRAIN_FILES_MODEL_FILE_H
#define RF_TRAIN_FILES_MODEL_FILE_H

#include <ringfire/checkpoint.h>

/* rf_model_load(), or without the training where `compile` is not set. Collective. */
rf_result rf_model_load_file(rf_strategy *strategy, const char *path, bool compile, rf_model **out);

#endif
