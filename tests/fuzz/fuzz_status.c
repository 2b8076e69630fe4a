/* SPDX-License-Identifier: Apache-2.0 */
/* The file that says where a job tells its status, and what `ringfire top` makes of a status. */
#include <stdio.h>
#include <string.h>

#include "fuzz.h"
#include "top/top.h"
#include "transport/status/place.h"

FUZZ_TARGET(status)
{
    rf_status_place place;
    uint8_t key[RF_JOB_KEY_BYTES];
    /* A copy: of exactly this size, so that reading one byte more is seen. */
    char *text = calloc(size ? size : 1, 1);
    PROMISE(text);
    if (size > 0) memcpy(text, data, size);
    if (rf_status_file_parse("file", text, size, &place, key) < 0)
        promise_message();
    else
        PROMISE(place.host[0] && memchr(place.host, '\0', sizeof(place.host)));
    json_t *status = json_loadb(text, size, 0, NULL);
    char *lines = NULL;
    size_t length = 0;
    FILE *out = status ? open_memstream(&lines, &length) : NULL;
    if (out) {
        const int rows = (int)(size % 30);
        int count = 0;
        top_print(out, status, 40 + (int)(size % 80), rows);
        fclose(out);
        for (size_t i = 0; i < length; i++) count += lines[i] == '\n';
        PROMISE(rows == 0 || count <= rows);
    }
    free(lines);
    json_decref(status);
    free(text);
    return 0;
}
