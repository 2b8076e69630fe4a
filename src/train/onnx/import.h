/* SPDX-License-Identifier: Apache-2.0 */
/* The parts of an import that tests and fuzzers reach without a file. */
#ifndef RF_TRAIN_ONNX_IMPORT_H
#define RF_TRAIN_ONNX_IMPORT_H

#include "train/onnx/graph.h"

/* The file's bytes, behind which stand those of external data in the order of its tensors. */
rf_result rf_import_parse_all(rf_import_file *file, const uint8_t *bytes, size_t size, size_t main_size);
/* All of an import but the model itself: the strategy names layers alone. Cleared also when it fails. */
rf_result rf_import_lower_bytes(rf_import *im, rf_strategy *strategy, const uint8_t *bytes, size_t size,
                                size_t main_size, const rf_import_onnx_params *params);
void rf_import_clear(rf_import *im);

#endif
