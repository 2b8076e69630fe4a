/* SPDX-License-Identifier: Apache-2.0 */
/* The file of measured kernel choices: what is accepted comes out the same when it is written and read again. */
#include <string.h>

#include "base/error.h"
#include "exec/internal.h"
#include "fuzz.h"

FUZZ_TARGET(tuning)
{
    rf_tuning *one, *two;
    PROMISE(rf_tuning_create(NULL, NULL, false, &one) == RF_OK && rf_tuning_create(NULL, NULL, false, &two) == RF_OK);
    const rf_result r = rf_tuning_parse(one, data, size);
    PROMISE(r == RF_OK || (r == RF_ERROR_CORRUPT_DATA && rf_error_message()[0]));
    /* A file that turns out bad in its middle leaves what came before. */
    char *first = rf_tuning_text(one);
    PROMISE(first && rf_tuning_parse(two, first, strlen(first)) == RF_OK);
    char *second = rf_tuning_text(two);
    PROMISE(second && strcmp(first, second) == 0);
    free(first);
    free(second);
    rf_tuning_destroy(&one);
    rf_tuning_destroy(&two);
    return 0;
}
