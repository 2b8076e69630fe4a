/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The output of workers, which `ringfire run` shows by line. The first byte says how many bytes arrive at a time, and
 * whether lines get a label. However they arrive, the same is shown, and memory stays within a line.
 */
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "fuzz.h"
#include "run/output.h"

/* How much was written to the file, and what. */
typedef struct shown {
    size_t size;
    uint64_t hash;
    char last[400];
} shown;

static shown show(const uint8_t *data, size_t size, size_t step, bool raw)
{
    static int fd = -1;
    if (fd < 0) fd = memfd_create("shown", MFD_CLOEXEC);
    if (fd < 0 || ftruncate(fd, 0) != 0 || lseek(fd, 0, SEEK_SET) != 0) abort();
    output_lines o;
    output_init(&o, fd, "3", 3, raw);
    for (size_t at = 0; at < size; at += step)
        PROMISE(output_feed(&o, (const char *)data + at, size - at < step ? size - at : step));
    PROMISE(o.used <= size && o.capacity <= size + 65536 + 256);
    PROMISE(output_finish(&o) && o.used == 0);
    PROMISE(memchr(o.last, '\0', sizeof(o.last)));
    shown s = { .size = (size_t)lseek(fd, 0, SEEK_CUR) };
    memcpy(s.last, o.last, strlen(o.last));
    char buffer[4096];
    ssize_t n;
    for (off_t at = 0; (n = pread(fd, buffer, sizeof(buffer), at)) > 0; at += n)
        for (ssize_t i = 0; i < n; i++) s.hash = s.hash * 31 + (unsigned char)buffer[i];
    output_free(&o);
    return s;
}

FUZZ_TARGET(output)
{
    if (size == 0) return 0;
    const bool raw = data[0] & 1;
    const shown one = show(data + 1, size - 1, SIZE_MAX, raw), two = show(data + 1, size - 1, 1 + (data[0] >> 1), raw);
    PROMISE(one.size == two.size && one.hash == two.hash && strcmp(one.last, two.last) == 0);
    if (raw) PROMISE(one.size == size - 1);
    return 0;
}
