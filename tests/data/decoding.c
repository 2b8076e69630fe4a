/* SPDX-License-Identifier: Apache-2.0 */
/* No test, but a measurement: `data_tests decoding` prints how many images a second one thread decodes into batches,
 * and how many rf_dataset_parallel() does, and how many one second of processor time pays for. Rounds alternate, and
 * the best of each counts. On a busy machine the second number says whether threads get in each other's way. */
#include <math.h>
#include <stdio.h>

#include "../support/apply.h"
#include "../support/clock.h"
#include "../support/folder.h"
#include "base/platform.h"
#include "base/threads.h"
#include "pictures.h"
#include <ringfire/readers.h>

enum { PICTURES = 1024, SIZE = 256, BATCH = 16, ROUNDS = 5, MOST = 16 };

static void decode_all(const rf_dataset *batches, double *rate, double *processor_rate)
{
    rf_iterator *it;
    const rf_element *e;
    rf_result r;
    const double began = seconds_now();
    const uint64_t computed = rf_processor_ns();
    OK(rf_iterator_create(batches, 0, &it));
    while ((r = rf_iterator_next(it, &e)) == RF_OK) continue;
    CHECK(r);
    rf_iterator_destroy(&it);
    *rate = fmax(*rate, PICTURES / (seconds_now() - began));
    *processor_rate = fmax(*processor_rate, 1e9 * PICTURES / (double)(rf_processor_ns() - computed));
}

TEST(measure_decoding)
{
    char folder[SCRATCH_PATH];
    rf_dataset *images, *parallel[MOST] = { NULL };
    double best[MOST] = { 0 }, processor[MOST] = { 0 };
    const uint32_t processors = rf_cpu_count(), most = processors < MOST ? processors : MOST;
    write_pictures(scratch(folder), PICTURES, SIZE, SIZE);
    OK(rf_dataset_from_image_directory(&(rf_image_directory_params){ .directory = folder }, &images));
    APPLY(images, rf_dataset_batch(images, BATCH, RF_REMAINDER_KEEP, &applied_));
    for (uint32_t t = 0; t < most; t++) OK(rf_dataset_parallel(images, t + 1, &parallel[t]));
    for (int round = 0; round < ROUNDS; round++)
        for (uint32_t t = 0; t < most; t++) decode_all(parallel[t], &best[t], &processor[t]);
    for (uint32_t t = 0; t < most; t++) {
        printf("%u threads: %.0f " PICTURE_FORMAT " files of %d x %d a second, %.0f a second of processor time\n",
               t + 1, best[t], SIZE, SIZE, processor[t]);
        rf_dataset_destroy(&parallel[t]);
    }
    rf_dataset_destroy(&images);
    scratch_remove(folder);
}

TESTS(decoding, NULL, NULL)
