/* SPDX-License-Identifier: Apache-2.0 */
#include "transport/job/host.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/memory.h"
#include "base/platform.h"

void rf_host_identity(char *text, size_t size)
{
    char boot[48] = "", name[65] = "";
    void *data = NULL;
    size_t length = 0;
    /* Where one of the three cannot be read it says nothing, and the other two decide. */
    if (rf_file_read("/proc/sys/kernel/random/boot_id", 64, &data, &length) == RF_OK) {
        while (length && ((char *)data)[length - 1] == '\n') length--;
        snprintf(boot, sizeof(boot), "%.*s", (int)length, (char *)data);
        rf_free(data);
    }
    if (gethostname(name, sizeof(name) - 1) != 0) name[0] = '\0';
    struct stat st;
    const unsigned long long space = stat("/proc/self/ns/net", &st) == 0 ? (unsigned long long)st.st_ino : 0;
    snprintf(text, size, "%s %s %llu", boot, name, space);
}

void rf_number_hosts(const char *const *identities, uint32_t count, uint32_t *numbers)
{
    uint32_t hosts = 0;
    for (uint32_t r = 0; r < count; r++) {
        uint32_t same = 0;
        while (same < r && strcmp(identities[same], identities[r]) != 0) same++;
        numbers[r] = same < r ? numbers[same] : hosts++;
    }
}

static rf_result to_text(const struct sockaddr *address, socklen_t length, char *text, size_t size)
{
    const int code = getnameinfo(address, length, text, (socklen_t)size, NULL, 0, NI_NUMERICHOST);
    if (code != 0) return RF_FAIL(RF_ERROR_IO, "cannot write a network address as text: %s", gai_strerror(code));
    return RF_OK;
}

rf_result rf_numeric_address(const char *name, char *text, size_t size)
{
    struct addrinfo hints = { .ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM }, *found = NULL;
    const int code = getaddrinfo(name, NULL, &hints, &found);
    if (code != 0)
        return RF_FAIL(RF_ERROR_INVALID_ARGUMENT, "\"%s\" is not an address of this machine: %s", name,
                       gai_strerror(code));
    const rf_result r = to_text(found->ai_addr, found->ai_addrlen, text, size);
    freeaddrinfo(found);
    return r;
}

bool rf_is_wildcard(const char *numeric)
{
    return strcmp(numeric, "0.0.0.0") == 0 || strcmp(numeric, "::") == 0;
}

rf_result rf_local_address(int fd, char *text, size_t size)
{
    struct sockaddr_storage address;
    socklen_t length = sizeof(address);
    if (getsockname(fd, (struct sockaddr *)&address, &length) != 0)
        return RF_FAIL_ERRNO(RF_ERROR_IO, "cannot read the local address of a connection");
    return to_text((struct sockaddr *)&address, length, text, size);
}
