/* SPDX-License-Identifier: Apache-2.0 */
/* Tar archives: whatever stands in one, it is read or refused in one line. The first byte chooses: 1  examples are
 * fetched from the last to the first, else in order. */
#include <ringfire/readers.h>

#include "fuzz.h"
#include "records.h"

enum { MOST = 1 << 16, BYTES = 600 };

static rf_result open_archive(const char *path, rf_dataset **out)
{
    const rf_tar_field fields[] = {
        { .endings = "txt;a", .dtype = RF_U8, .shape = RF_SHAPE(BYTES), .variable = true },
        { .endings = "cls", .dtype = RF_I32 },
    };
    return rf_dataset_from_tar(
        &(rf_tar_params){ .paths = &path, .num_paths = 1, .fields = fields, .num_fields = 2, .max_bytes = 2 * BYTES },
        out);
}

/* Example by example, each with an iterator of its own. */
static void fetch_backwards(const rf_dataset *d, uint64_t count)
{
    const rf_element *e;
    for (uint64_t i = count; i-- > 0;) {
        rf_dataset *one;
        rf_iterator *it;
        PROMISE(rf_dataset_skip(d, i, &one) == RF_OK);
        PROMISE(rf_iterator_create(one, 0, &it) == RF_OK);
        if (rf_iterator_next(it, &e) < 0) promise_message();
        rf_iterator_destroy(&it);
        rf_dataset_destroy(&one);
    }
}

FUZZ_TARGET(tar)
{
    rf_dataset *d, *good;
    rf_iterator *it;
    const rf_element *e;
    if (size == 0 || size > MOST) return 0;
    const rf_result made = open_archive(file_in_memory(data + 1, size - 1), &d);
    if (made < 0) {
        PROMISE((made == RF_ERROR_CORRUPT_DATA || made == RF_ERROR_UNSUPPORTED) && !d);
        promise_message();
        return 0;
    }
    const uint64_t all = (uint64_t)rf_dataset_cardinality(d);
    PROMISE(rf_dataset_ignore_errors(d, RF_IGNORE_SILENTLY, &good) == RF_OK);
    PROMISE(rf_iterator_create(good, 0, &it) == RF_OK);
    uint64_t count = 0;
    rf_result r;
    for (; (r = rf_iterator_next(it, &e)) == RF_OK; count++)
        PROMISE(e->component[0].shape.dim[0] >= 0 && e->component[0].shape.dim[0] <= BYTES);
    PROMISE(r == RF_END && count + rf_dataset_ignored_errors(good) == all);
    rf_iterator_destroy(&it);
    rf_dataset_destroy(&good);
    if ((data[0] & 1) && all <= 16) fetch_backwards(d, all);
    rf_dataset_destroy(&d);
    return 0;
}
