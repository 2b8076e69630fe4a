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

const struct sockaddr *rf_plain_address(const struct sockaddr *address, socklen_t *size, struct sockaddr_in *room)
{
    struct sockaddr_in6 v6;
    if (address->sa_family != AF_INET6) return address;
    memcpy(&v6, address, sizeof(v6));
    if (!IN6_IS_ADDR_V4MAPPED(&v6.sin6_addr)) return address;
    *room = (struct sockaddr_in){ .sin_family = AF_INET, .sin_port = v6.sin6_port };
    memcpy(&room->sin_addr, v6.sin6_addr.s6_addr + 12, 4);
    *size = sizeof(*room);
    return (const struct sockaddr *)room;
}

static rf_result to_text(const struct sockaddr *address, socklen_t length, char *text, size_t size)
{
    struct sockaddr_in room;
    address = rf_plain_address(address, &length, &room);
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

/* The kinds of numeric addresses that matter here. False for a name. */
static bool read_numeric(const char *text, bool *wildcard, bool *loopback)
{
    struct addrinfo hints = { .ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICHOST }, *found = NULL;
    if (getaddrinfo(text, NULL, &hints, &found) != 0) return false;
    struct sockaddr_in room;
    socklen_t size = found->ai_addrlen;
    const struct sockaddr *a = rf_plain_address(found->ai_addr, &size, &room);
    if (a->sa_family == AF_INET) {
        const uint32_t number = ntohl(((const struct sockaddr_in *)a)->sin_addr.s_addr);
        *wildcard = number == INADDR_ANY;
        *loopback = number >> 24 == IN_LOOPBACKNET;
    } else {
        const struct in6_addr *v6 = &((const struct sockaddr_in6 *)a)->sin6_addr;
        *wildcard = IN6_IS_ADDR_UNSPECIFIED(v6);
        *loopback = IN6_IS_ADDR_LOOPBACK(v6);
    }
    freeaddrinfo(found);
    return true;
}

bool rf_is_wildcard(const char *text)
{
    bool wildcard, loopback;
    return read_numeric(text, &wildcard, &loopback) && wildcard;
}

bool rf_is_loopback(const char *text)
{
    bool wildcard, loopback;
    return read_numeric(text, &wildcard, &loopback) && loopback;
}

rf_result rf_local_address(int fd, char *text, size_t size)
{
    struct sockaddr_storage address;
    socklen_t length = sizeof(address);
    if (getsockname(fd, (struct sockaddr *)&address, &length) != 0)
        return RF_FAIL_ERRNO(RF_ERROR_IO, "cannot read the local address of a connection");
    return to_text((struct sockaddr *)&address, length, text, size);
}
