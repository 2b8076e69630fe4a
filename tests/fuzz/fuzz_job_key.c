/* SPDX-License-Identifier: Apache-2.0 */
/* The text of a key file. */
#include <string.h>

#include "base/error.h"
#include "fuzz.h"
#include "transport/job/job.h"

FUZZ_TARGET(job_key)
{
    uint8_t key[RF_JOB_KEY_BYTES];
    /* A copy: of exactly this size, so that reading one byte more is seen. */
    char *text = calloc(size ? size : 1, 1);
    PROMISE(text);
    if (size > 0) memcpy(text, data, size);
    const rf_result r = rf_key_parse("key", text, size, key);
    PROMISE(r == RF_OK ? size >= 2 * sizeof(key) : r == RF_ERROR_CORRUPT_DATA && rf_error_message()[0]);
    for (size_t i = 0; r == RF_OK && i < sizeof(key); i++) {
        const char digits[3] = { text[2 * i], text[2 * i + 1], '\0' };
        PROMISE(strtoul(digits, NULL, 16) == key[i]);
    }
    free(text);
    return 0;
}
