/* SPDX-License-Identifier: Apache-2.0 */
#include "base/limits.h"
#include "base/numbers.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#define GROUPS "/sys/fs/cgroup"

static bool read_text(const char *path, char *text, size_t size)
{
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return false;
    const ssize_t n = read(fd, text, size - 1);
    close(fd);
    text[n > 0 ? n : 0] = '\0';
    return n > 0;
}

/* Bytes; UINT64_MAX for "max", and where there is no such file. */
static uint64_t read_bytes(const char *folder, const char *name)
{
    char path[1024], text[64], *end;
    if (snprintf(path, sizeof(path), "%s/%s", folder, name) >= (int)sizeof(path) ||
        !read_text(path, text, sizeof(text)))
        return UINT64_MAX;
    const unsigned long long value = strtoull(text, &end, 10);
    return end == text ? UINT64_MAX : value;
}

static uint64_t space_left(const rf_memory_limit *l)
{
    return l->limit == UINT64_MAX ? UINT64_MAX : l->limit > l->used ? l->limit - l->used : 0;
}

static void keep_tighter(rf_memory_limit *kept, const char *folder, const char *limit, const char *used)
{
    const rf_memory_limit found = { read_bytes(folder, limit), read_bytes(folder, used) };
    if (found.used != UINT64_MAX && space_left(&found) < space_left(kept)) *kept = found;
}

/* Takes the least of the process's group and those above it. In a container the root of what is mounted is the
 * container's group. */
static rf_memory_limit take_group(void)
{
    rf_memory_limit tightest = { UINT64_MAX, 0 };
    char text[2048], folder[1024] = GROUPS;
    const char *own = read_text("/proc/self/cgroup", text, sizeof(text)) ? strstr(text, "0::/") : NULL;
    if (own) snprintf(folder, sizeof(folder), GROUPS "%.*s", (int)strcspn(own + 3, "\n"), own + 3);
    while (strlen(folder) >= strlen(GROUPS)) {
        keep_tighter(&tightest, folder, "memory.max", "memory.current");
        char *last = strrchr(folder, '/');
        *last = '\0';
    }
    keep_tighter(&tightest, GROUPS "/memory", "memory.limit_in_bytes", "memory.usage_in_bytes");
    return tightest;
}

void rf_memory_limits_take(rf_memory_limits *out)
{
    const uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
    unsigned long long pages = 0, data = 0;
    char text[256];
    if (read_text("/proc/self/statm", text, sizeof(text)))
        (void)sscanf(text, "%llu %*u %*u %*u %*u %llu", &pages, &data);
    out->address_space = (rf_memory_limit){ UINT64_MAX, pages * page };
    out->data = (rf_memory_limit){ UINT64_MAX, data * page };
    struct rlimit limit;
    if (getrlimit(RLIMIT_AS, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY) out->address_space.limit = limit.rlim_cur;
    if (getrlimit(RLIMIT_DATA, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY) out->data.limit = limit.rlim_cur;
    out->group = take_group();
}

bool rf_memory_limits_describe(const rf_memory_limits *limits, uint64_t wanted, char *text, size_t size)
{
    const struct {
        const rf_memory_limit *limit;
        const char *who, *what, *by;
    } all[] = {
        { &limits->address_space, "this process", "address space", "by `ulimit -v`" },
        { &limits->data, "this process", "data", "by `ulimit -d`" },
        { &limits->group, "the control group of this process", "memory", "by its container or job" },
    };
    text[0] = '\0';
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
        const rf_memory_limit *l = all[i].limit;
        if (space_left(l) >= wanted) continue;
        const double gib = 1.0 / (double)(1u << 30);
        rf_number_print(text, size, "%s is limited to %.2f GiB of %s %s, and has %.2f; raise the limit", all[i].who,
                        (double)l->limit * gib, all[i].what, all[i].by, (double)l->used * gib);
        return true;
    }
    return false;
}
