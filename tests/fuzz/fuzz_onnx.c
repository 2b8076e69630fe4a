/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ONNX files (rf_model_import_onnx()): all but the model itself, for which a device is needed. The first byte says how
 * many bytes at the end are those of external data.
 */
#include <string.h>

#include "fuzz.h"
#include "replica/internal.h"
#include "train/onnx/import.h"

/* Constants have the sizes that they say. */
static void check_values(const rf_import *im)
{
    for (uint32_t i = 0; i < im->num_values; i++) {
        const rf_import_value *v = &im->values[i];
        if (v->kind == RF_IMPORT_TENSOR) PROMISE(v->symbol.id && v->rank >= 0 && v->rank <= RF_MAX_RANK);
        if (v->kind != RF_IMPORT_CONSTANT) continue;
        const int64_t count = rf_import_count(&v->constant);
        PROMISE(count >= 0 && (uint64_t)count <= im->most_folded);
        volatile double sum = 0; /* a sanitizer sees numbers that are not there */
        for (int64_t k = 0; k < count; k++) sum = sum + rf_import_element(&v->constant, k);
    }
    for (uint32_t i = 0; i < im->weights.count; i++) PROMISE(im->weights.items[i].values && im->weights.items[i].layer);
}

FUZZ_TARGET(onnx)
{
    if (size == 0) return 0;
    const size_t external = data[0] < size - 1 ? data[0] : size - 1;
    rf_strategy names = { 0 };
    rf_import im;
    const rf_result r = rf_import_lower_bytes(&im, &names, data + 1, size - 1, size - 1 - external, NULL);
    if (r < 0)
        promise_message();
    else
        check_values(&im);
    rf_import_clear(&im);
    return 0;
}
