/* SPDX-License-Identifier: Apache-2.0 */
/* Saved iterator positions from a stranger: restored or refused, and a restored iterator can be read. */
#include <stdlib.h>
#include <string.h>

#include <ringfire/dataset.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static rf_dataset *dataset(void)
{
    static float values[64];
    const rf_array array = { RF_F32, RF_SHAPE(64), values };
    rf_dataset *d, *shuffled, *batched;
    if (rf_dataset_from_arrays(&(rf_dataset_arrays_params){ .arrays = &array, .num_arrays = 1 }, &d) < 0 ||
        rf_dataset_shuffle(d, 64, 1, true, &shuffled) < 0 || rf_dataset_batch(shuffled, 5, false, &batched) < 0)
        abort();
    rf_dataset_destroy(&d);
    rf_dataset_destroy(&shuffled);
    return batched;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    rf_dataset *d = dataset();
    rf_iterator *it;
    void *state;
    size_t state_size;
    /* A valid state with the fuzzer's bytes over it: otherwise the fingerprint keeps everything else from being
     * reached. */
    if (rf_iterator_create(d, 0, &it) < 0 || rf_iterator_save(it, &state, &state_size) < 0) abort();
    rf_iterator_destroy(&it);
    if (size > 0 && data[0] % 2) {
        const size_t n = size - 1 < state_size - 24 ? size - 1 : state_size - 24;
        memcpy((char *)state + 24, data + 1, n);
        data = state;
        size = state_size;
    }
    if (rf_iterator_restore(d, data, size, &it) == RF_OK) {
        const rf_element *e;
        for (int i = 0; i < 20 && rf_iterator_next(it, &e) == RF_OK; i++)
            if (e->component[0].shape.dim[0] > 5) abort();
        rf_iterator_destroy(&it);
    } else if (it) {
        abort();
    }
    rf_iterator_state_free(state);
    rf_dataset_destroy(&d);
    return 0;
}
