/* SPDX-License-Identifier: Apache-2.0 */
#include "train/onnx/graph.h"

rf_result rf_import_join_patterns(rf_import *im)
{
    (void)im;
    return RF_OK;
}
