/* SPDX-License-Identifier: Apache-2.0 */
#include "base/temporary.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/memory.h"
#include "base/philox.h"

/* Hosts may have the same name, and their first namespaces of processes have the same number; their kernels were not
 * started as the same one. */
static size_t read_boot_id(char *out, size_t size)
{
    const int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
    if (fd < 0) return 0;
    const ssize_t n = read(fd, out, size);
    close(fd);
    return n > 0 ? (size_t)n : 0;
}

uint32_t rf_file_host(void)
{
    char text[400] = ""; /* the host's name, which processes have numbers of their own, which start of the kernel */
    (void)gethostname(text, 255);
    text[255] = '\0';
    size_t length = strlen(text);
    const ssize_t n = readlink("/proc/self/ns/pid", text + length, 64);
    if (n > 0) length += (size_t)n;
    length += read_boot_id(text + length, 64);
    return (uint32_t)rf_hash_bytes(text, length, 0);
}

char *rf_temporary_name(const char *path, unsigned number)
{
    return rf_asprintf("%s" RF_TEMPORARY_INFIX "%08x-%ld-%u", path, rf_file_host(), (long)getpid(), number);
}

bool rf_temporary_abandoned(const char *writer, double modified)
{
    enum { DAY = 24 * 3600 };
    unsigned host;
    long process;
    if (sscanf(writer, "%8x-%ld-", &host, &process) == 2 && host == rf_file_host() && process > 0)
        return kill((pid_t)process, 0) != 0 && errno == ESRCH;
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (double)now.tv_sec - modified > DAY;
}

const char *rf_temporary_writer(const char *name)
{
    static const char hexadecimal[] = "0123456789abcdef";
    const char *writer = NULL;
    for (const char *at = name; (at = strstr(at, RF_TEMPORARY_INFIX));) writer = at += strlen(RF_TEMPORARY_INFIX);
    if (!writer || strspn(writer, hexadecimal) != 8 || writer[8] != '-') return NULL;
    const char *process = writer + 9;
    const size_t digits = strspn(process, "0123456789");
    if (digits == 0 || process[digits] != '-') return NULL;
    const char *number = process + digits + 1;
    return *number && strspn(number, "0123456789") == strlen(number) ? writer : NULL;
}
