/* SPDX-License-Identifier: Apache-2.0 */
/* The most memory that this process has in RAM at one time, by Linux's own count: libraries' and threads' included. */
#ifndef TEST_PERSIST_PEAK_MEMORY_H
#define TEST_PERSIST_PEAK_MEMORY_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "../sanitized.h"

typedef struct peak_memory {
    uint64_t before;
    bool known;
} peak_memory;

static inline uint64_t peak_memory_read(const char *format)
{
    unsigned long long kilobytes = 0;
    char line[128];
    FILE *f = fopen("/proc/self/status", "r");
    while (f && fgets(line, sizeof(line), f))
        if (sscanf(line, format, &kilobytes) == 1) break;
    if (f) fclose(f);
    return kilobytes << 10;
}

/* Where the system does not let the peak be reset, nothing is known. */
static inline void peak_memory_begin(peak_memory *p)
{
    FILE *f = SANITIZED ? NULL : fopen("/proc/self/clear_refs", "w");
    p->known = f && fputs("5", f) >= 0;
    if (f && fclose(f) != 0) p->known = false;
    p->before = peak_memory_read("VmRSS: %llu");
}

/* Bytes above those at the beginning. */
static inline uint64_t peak_memory_end(const peak_memory *p)
{
    const uint64_t peak = p->known ? peak_memory_read("VmHWM: %llu") : 0;
    return peak > p->before ? peak - p->before : 0;
}

#endif
