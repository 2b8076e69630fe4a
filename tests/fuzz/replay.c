/* SPDX-License-Identifier: Apache-2.0 */
/* Fuzzers without libFuzzer: NAME FOLDER gives one all inputs of the folder, each also cut short and with single bytes
 * changed, always the same ones. */
#include <dirent.h>
#include <stdio.h>
#include <string.h>

#include "base/philox.h"
#include "fuzz.h"

enum { CUTS = 16, CHANGES = 200, LARGEST = 1 << 20 };

static int compare_names(const struct dirent **a, const struct dirent **b)
{
    return strcmp((*a)->d_name, (*b)->d_name);
}

/* An input of exactly its size on the heap, so that a sanitizer sees what lies beyond. */
static void run_copy(int (*one)(const uint8_t *, size_t), const uint8_t *bytes, size_t size, size_t at, uint8_t change)
{
    uint8_t *copy = malloc(size > 0 ? size : 1);
    PROMISE(copy);
    memcpy(copy, bytes, size);
    if (at < size) copy[at] ^= change;
    (void)one(copy, size);
    free(copy);
}

static void run_variants(int (*one)(const uint8_t *, size_t), const uint8_t *bytes, size_t size)
{
    run_copy(one, bytes, size, size, 0);
    for (size_t i = 0; i < CUTS && size > 0; i++) run_copy(one, bytes, size * i / CUTS, size, 0);
    rf_rng rng = { .key = size };
    for (size_t i = 0; i < CHANGES && size > 0; i++) {
        const size_t at = rf_rng_below(&rng, size);
        run_copy(one, bytes, size, at, (uint8_t)(1 + rf_rng_below(&rng, 255)));
    }
}

int fuzz_replay(int (*one)(const uint8_t *data, size_t size), int argc, char **argv)
{
    static uint8_t bytes[LARGEST];
    struct dirent **names;
    const int count = argc == 2 ? scandir(argv[1], &names, NULL, compare_names) : -1;
    int inputs = 0;
    for (int i = 0; i < count; i++) {
        char path[4096];
        snprintf(path, sizeof(path), "%s/%s", argv[1], names[i]->d_name);
        free(names[i]);
        FILE *file = fopen(path, "rb");
        const size_t size = file ? fread(bytes, 1, sizeof(bytes), file) : 0;
        if (file && !ferror(file)) {
            run_variants(one, bytes, size);
            inputs++;
        }
        if (file) fclose(file);
    }
    if (count >= 0) free(names);
    printf("%d inputs\n", inputs);
    return inputs > 0 ? 0 : 1;
}
