/* SPDX-License-Identifier: Apache-2.0 */
#include "transport/job/listen.h"

#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "transport/job/host.h"

/* The loopback address of its family that a name stands for on every host; NULL for others. A host's own name may mean
 * loopback in its own hosts file, which says nothing about where the others are. */
static const char *loopback_of(const char *name)
{
    static const char *const v4[] = { "localhost", "localhost.localdomain", "localhost4" };
    static const char *const v6[] = { "localhost6", "ip6-localhost", "ip6-loopback" };
    if (rf_is_loopback(name)) return name;
    for (size_t i = 0; i < sizeof(v4) / sizeof(v4[0]); i++) {
        if (strcasecmp(name, v4[i]) == 0) return "127.0.0.1";
        if (strcasecmp(name, v6[i]) == 0) return "::1";
    }
    return NULL;
}

bool rf_job_names_loopback(const char *name)
{
    return loopback_of(name) != NULL;
}

void rf_job_plan_listen(const rf_job *job, const char *told, const char *only, rf_listen_plan *out)
{
    *out = (rf_listen_plan){ .address = RF_ALL_ADDRESSES };
    const char *loopback = loopback_of(told), *address = NULL;
    if (job->bind_address[0]) {
        address = job->bind_address;
    } else if (loopback) {
        address = rf_is_loopback(only) ? only : loopback;
        out->told_loopback = !rf_job_is_one_host(job);
    } else if (!job->secure) {
        address = only;
        out->exposed = !only[0];
    } else {
        snprintf(out->instead, sizeof(out->instead), "%s", only);
    }
    if (address && address[0]) snprintf(out->address, sizeof(out->address), "%s", address);
}

const char *rf_listen_text(const char *address)
{
    return rf_is_wildcard(address) ? "all addresses" : address;
}

static bool is_own_address(const struct addrinfo *a)
{
    struct sockaddr_storage any_port = { 0 };
    memcpy(&any_port, a->ai_addr, a->ai_addrlen);
    if (any_port.ss_family == AF_INET6)
        ((struct sockaddr_in6 *)&any_port)->sin6_port = 0;
    else
        ((struct sockaddr_in *)&any_port)->sin_port = 0;
    const int fd = socket(a->ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    const bool own = fd >= 0 && bind(fd, (const struct sockaddr *)&any_port, a->ai_addrlen) == 0;
    if (fd >= 0) close(fd);
    return own;
}

void rf_job_only_address(const char *name, char only[RF_JOB_TEXT])
{
    const struct addrinfo hints = { .ai_socktype = SOCK_STREAM };
    struct addrinfo *list = NULL;
    only[0] = '\0';
    if (getaddrinfo(name, NULL, &hints, &list) != 0) return;
    bool single = is_own_address(list);
    for (const struct addrinfo *a = list; a && single; a = a->ai_next) {
        char text[RF_JOB_TEXT];
        single = getnameinfo(a->ai_addr, a->ai_addrlen, text, sizeof(text), NULL, 0, NI_NUMERICHOST) == 0 &&
                 !rf_is_loopback(text) && (!only[0] || strcmp(only, text) == 0);
        if (single) memcpy(only, text, sizeof(text));
    }
    if (!single) only[0] = '\0';
    freeaddrinfo(list);
}
