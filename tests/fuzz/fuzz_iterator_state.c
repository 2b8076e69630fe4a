/* SPDX-License-Identifier: Apache-2.0 */
/* Saved iterator positions from a stranger: restored or refused, and a restored iterator can be read. */
#include <string.h>

#include <ringfire/dataset.h>

#include "fuzz.h"

static rf_dataset *dataset(void)
{
    static float values[24];
    const rf_array array = { RF_F32, RF_SHAPE(24), values };
    rf_dataset *d, *shuffled, *batched;
    if (rf_dataset_from_arrays(&(rf_dataset_arrays_params){ .arrays = &array, .num_arrays = 1 }, &d) < 0 ||
        rf_dataset_shuffle(d, 24, 1, true, &shuffled) < 0 || rf_dataset_batch(shuffled, 5, false, &batched) < 0)
        abort();
    rf_dataset_destroy(&d);
    rf_dataset_destroy(&shuffled);
    return batched;
}

/* A valid state with the fuzzer's bytes over all but the fingerprints: without those nothing else is reached. */
static size_t lay_over(uint8_t state[64], const rf_dataset *d, const uint8_t *data, size_t size)
{
    static void *honest;
    static size_t honest_size;
    enum { FINGERPRINTS_END = 24 };
    rf_iterator *it;
    if (!honest) {
        PROMISE(rf_iterator_create(d, 0, &it) == RF_OK && rf_iterator_save(it, &honest, &honest_size) == RF_OK);
        rf_iterator_destroy(&it);
    }
    PROMISE(honest_size > FINGERPRINTS_END && honest_size <= 64);
    memcpy(state, honest, honest_size);
    const size_t most = honest_size - FINGERPRINTS_END;
    memcpy(state + FINGERPRINTS_END, data, size < most ? size : most);
    return honest_size;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static rf_dataset *d;
    uint8_t state[64];
    rf_iterator *it;
    if (!d) d = dataset();
    if (size > 0 && data[0] % 2) {
        size = lay_over(state, d, data + 1, size - 1);
        data = state;
    }
    if (rf_iterator_restore(d, data, size, &it) == RF_OK) {
        const rf_element *e;
        for (int i = 0; i < 20 && rf_iterator_next(it, &e) == RF_OK; i++) PROMISE(e->component[0].shape.dim[0] <= 5);
        rf_iterator_destroy(&it);
    } else {
        PROMISE(!it);
    }
    return 0;
}
