/* SPDX-License-Identifier: Apache-2.0 */
#include "folder.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

bool folder_make(char path[FOLDER_SIZE], unsigned *place)
{
    const char *const places[] = { getenv("TMPDIR"), "/tmp",     getenv("XDG_RUNTIME_DIR"),
                                   "/dev/shm",       "/var/tmp", getenv("HOME") };
    int code = 0;
    while (*place < sizeof(places) / sizeof(places[0])) {
        const char *base = places[(*place)++];
        if (!base || !base[0]) continue;
        const bool fits = snprintf(path, FOLDER_SIZE, "%s/ringfire-XXXXXX", base) < FOLDER_SIZE;
        if (fits && mkdtemp(path)) return true;
        if (!code) code = fits ? errno : ENAMETOOLONG;
    }
    path[0] = '\0';
    errno = code;
    return false;
}
