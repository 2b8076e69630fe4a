/* SPDX-License-Identifier: Apache-2.0 */
/* No test, but a measurement: `data_tests decoding` prints how many images a second one thread decodes into batches,
 * and how many rf_dataset_parallel() does. Rounds alternate, and the best of each counts. */
#include <stdio.h>

#include "../support/apply.h"
#include "../support/clock.h"
#include "../support/folder.h"
#include "base/threads.h"
#include "pictures.h"
#include <ringfire/readers.h>

enum { PICTURES = 1024, SIZE = 256, BATCH = 16, ROUNDS = 5, MOST = 16 };

static double decode_all(const rf_dataset *batches)
{
    rf_iterator *it;
    const rf_element *e;
    rf_result r;
    const double began = seconds_now();
    OK(rf_iterator_create(batches, 0, &it));
    while ((r = rf_iterator_next(it, &e)) == RF_OK) continue;
    CHECK(r);
    rf_iterator_destroy(&it);
    return PICTURES / (seconds_now() - began);
}

TEST(measure_decoding)
{
    char folder[SCRATCH_PATH];
    rf_dataset *images, *parallel[MOST] = { NULL };
    double best[MOST] = { 0 };
    const uint32_t processors = rf_cpu_count(), most = processors < MOST ? processors : MOST;
    write_pictures(scratch(folder), PICTURES, SIZE, SIZE);
    OK(rf_dataset_from_image_directory(&(rf_image_directory_params){ .directory = folder }, &images));
    APPLY(images, rf_dataset_batch(images, BATCH, RF_REMAINDER_KEEP, &applied_));
    for (uint32_t t = 0; t < most; t++) OK(rf_dataset_parallel(images, t + 1, &parallel[t]));
    for (int round = 0; round < ROUNDS; round++)
        for (uint32_t t = 0; t < most; t++) {
            const double rate = decode_all(parallel[t]);
            if (rate > best[t]) best[t] = rate;
        }
    for (uint32_t t = 0; t < most; t++) {
        printf("%u threads: %.0f " PICTURE_FORMAT " files of %d x %d a second\n", t + 1, best[t], SIZE, SIZE);
        rf_dataset_destroy(&parallel[t]);
    }
    rf_dataset_destroy(&images);
    scratch_remove(folder);
}

TESTS(decoding, NULL, NULL)
