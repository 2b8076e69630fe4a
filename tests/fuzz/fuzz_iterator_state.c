/* SPDX-License-Identifier: Apache-2.0 */
/* Saved iterator positions from a stranger: restored or refused, and a restored iterator can be read. An odd first byte
 * selects one of several pipelines, of which the rest then is a position. */
#include <string.h>

#include <ringfire/dataset.h>

#include "data/pipeline.h"
#include "fuzz.h"

enum { PIPELINES = 9, NUMBERS = 24 };

static rf_dataset *numbers(void)
{
    static int32_t values[NUMBERS];
    for (int32_t i = 0; i < NUMBERS; i++) values[i] = i;
    const rf_array array = { RF_I32, RF_SHAPE(NUMBERS), values };
    rf_dataset *d;
    PROMISE(rf_dataset_from_arrays(&(rf_dataset_arrays_params){ .arrays = &array, .num_arrays = 1 }, &d) == RF_OK);
    return d;
}

static rf_result keep_numbers(void *user, const rf_element *in, bool *keep)
{
    (void)user;
    *keep = in->num_components == 1;
    return RF_OK;
}

/* Makes n + 1 numbers of number n. */
static rf_result make_numbers(void *user, const rf_element *in, rf_dataset **out)
{
    (void)user;
    rf_dataset *all = numbers();
    const rf_result r = rf_dataset_take(all, (uint64_t)(*(const int32_t *)in->component[0].data + 1), out);
    rf_dataset_destroy(&all);
    return r;
}

static rf_result refuse_threes(void *user, const rf_element *in, rf_element *out)
{
    (void)user;
    const int32_t number = *(const int32_t *)in->component[0].data;
    *(int32_t *)out->component[0].data = number;
    return number % 3 ? RF_OK : RF_ERROR_CORRUPT_DATA;
}

/* Replaces `*d` by the step that was made of it. */
static void replace(rf_dataset **d, rf_result made, rf_dataset *step)
{
    PROMISE(made == RF_OK);
    rf_dataset_destroy(d);
    *d = step;
}

static rf_dataset *dataset(int which)
{
    rf_dataset *d = numbers(), *other = numbers(), *step;
    rf_result r = RF_OK;
    if (which == 1 || which == 4) { /* read in order from here on */
        r = rf_dataset_filter(d, keep_numbers, NULL, &step);
        replace(&d, r, step);
    }
    if (which == 1) {
        const rf_dataset *both[] = { d, other };
        r = rf_dataset_zip(both, 2, &step);
        replace(&d, r, step);
    } else if (which == 8) {
        const rf_dataset *both[] = { d, other };
        r = rf_dataset_sample(both, 2, NULL, &step);
        replace(&d, r, step);
    } else if (which == 2) {
        r = rf_dataset_concatenate(d, other, &step);
        replace(&d, r, step);
    } else if (which == 5 || which == 6) {
        const rf_element_spec spec = { .num_components = 1, .dtype = { RF_I32 } };
        const rf_interleave_params turns = { .cycle_length = 3, .block_length = 2 };
        r = which == 5 ? rf_dataset_flat_map(d, make_numbers, NULL, &spec, &step)
                       : rf_dataset_interleave(d, make_numbers, NULL, &spec, &turns, &step);
        replace(&d, r, step);
    } else if (which == 7) {
        r = rf_dataset_map(d, refuse_threes, NULL, &(rf_element_spec){ .num_components = 1, .dtype = { RF_I32 } },
                           &step);
        replace(&d, r, step);
        r = rf_dataset_ignore_errors(d, RF_IGNORE_SILENTLY, &step);
        replace(&d, r, step);
    } else if (which >= 3) {
        r = rf_dataset_batch(d, 3, RF_REMAINDER_KEEP, &step);
        replace(&d, r, step);
        if (which == 3) {
            r = rf_dataset_unbatch(d, &step);
        } else {
            const uint32_t borders[] = { 2, 3 };
            r = rf_dataset_padded_batch(
                d,
                &(rf_padded_batch_params){ .batch_size = 5, .padded = { true }, .borders = borders, .num_borders = 2 },
                &step);
        }
        replace(&d, r, step);
    }
    rf_dataset_destroy(&other);
    if (which == 4) return d;
    r = rf_dataset_shuffle(d, NUMBERS, 1, RF_SHUFFLE_EACH_PASS, &step);
    replace(&d, r, step);
    r = rf_dataset_batch(d, 5, RF_REMAINDER_KEEP, &step);
    replace(&d, r, step);
    return d;
}

/* A valid state with the fuzzer's bytes over all but the fingerprints: without those nothing else is reached. */
static size_t lay_over(uint8_t state[64], const rf_dataset *d, const uint8_t *data, size_t size)
{
    enum { FINGERPRINTS_END = 24 };
    void *honest;
    size_t honest_size;
    rf_iterator *it;
    PROMISE(rf_iterator_create(d, 0, &it) == RF_OK && rf_iterator_save(it, &honest, &honest_size) == RF_OK);
    rf_iterator_destroy(&it);
    PROMISE(honest_size > FINGERPRINTS_END && honest_size <= 64);
    memcpy(state, honest, honest_size);
    rf_iterator_state_free(honest);
    const size_t most = honest_size - FINGERPRINTS_END;
    memcpy(state + FINGERPRINTS_END, data, size < most ? size : most);
    rf_iterator_state_seal(state);
    return honest_size;
}

FUZZ_TARGET(iterator_state)
{
    static rf_dataset *pipelines[PIPELINES];
    _Alignas(8) uint8_t state[64];
    rf_iterator *it;
    const int which = size > 0 && data[0] % 2 ? data[0] / 2 % PIPELINES : 0;
    if (!pipelines[which]) pipelines[which] = dataset(which);
    const rf_dataset *d = pipelines[which];
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
