/* SPDX-License-Identifier: Apache-2.0 */
/* Finds the address of this host that others can reach. */
#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>

#include "transport/job/sources.h"

/* Never asked anything: an address of the documentation's range (RFC 5737) takes the default route. */
#define FAR_AWAY "192.0.2.1"

static bool is_loopback(const struct sockaddr *a)
{
    if (a->sa_family == AF_INET) return (ntohl(((const struct sockaddr_in *)a)->sin_addr.s_addr) >> 24) == 127;
    return a->sa_family != AF_INET6 || IN6_IS_ADDR_LOOPBACK(&((const struct sockaddr_in6 *)a)->sin6_addr) ||
           IN6_IS_ADDR_LINKLOCAL(&((const struct sockaddr_in6 *)a)->sin6_addr);
}

static bool numeric_host(const struct sockaddr *a, char host[RF_JOB_TEXT])
{
    const socklen_t size = a->sa_family == AF_INET ? sizeof(struct sockaddr_in) : sizeof(struct sockaddr_in6);
    return getnameinfo(a, size, host, RF_JOB_TEXT, NULL, 0, NI_NUMERICHOST) == 0;
}

/* The local address from which packets to `peer` leave; connecting a datagram socket asks the routes and sends nothing.
 */
bool rf_job_address_towards(const char *peer, char host[RF_JOB_TEXT])
{
    struct addrinfo hints = { .ai_socktype = SOCK_DGRAM }, *list = NULL;
    if (getaddrinfo(peer, "9", &hints, &list) != 0) return false;
    bool ok = false;
    for (const struct addrinfo *a = list; a && !ok; a = a->ai_next) {
        const int fd = socket(a->ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
        if (fd < 0) continue;
        struct sockaddr_storage local;
        socklen_t size = sizeof(local);
        ok = connect(fd, a->ai_addr, a->ai_addrlen) == 0 && getsockname(fd, (struct sockaddr *)&local, &size) == 0 &&
             !is_loopback((struct sockaddr *)&local) && numeric_host((struct sockaddr *)&local, host);
        close(fd);
    }
    freeaddrinfo(list);
    return ok;
}

bool rf_job_first_interface(char host[RF_JOB_TEXT])
{
    struct ifaddrs *list = NULL;
    bool ok = false;
    if (getifaddrs(&list) != 0) return false;
    for (int family = 0; family < 2 && !ok; family++)
        for (const struct ifaddrs *i = list; i && !ok; i = i->ifa_next)
            ok = i->ifa_addr && (i->ifa_flags & IFF_UP) && i->ifa_addr->sa_family == (family ? AF_INET6 : AF_INET) &&
                 !is_loopback(i->ifa_addr) && numeric_host(i->ifa_addr, host);
    freeifaddrs(list);
    return ok;
}

/* Whether a name means loopback here: so distributions list a host's own name in its /etc/hosts. */
static bool resolves_to_loopback(const char *name)
{
    const struct addrinfo hints = { .ai_socktype = SOCK_STREAM };
    struct addrinfo *list = NULL;
    if (getaddrinfo(name, NULL, &hints, &list) != 0) return false; /* whoever connects says so better */
    const bool loopback = list && list->ai_family == AF_INET && is_loopback(list->ai_addr);
    freeaddrinfo(list);
    return loopback;
}

void rf_job_settle_master(rf_job *job)
{
    const char *name = job->master_address;
    char host[RF_JOB_TEXT];
    struct in_addr v4;
    struct in6_addr v6;
    if (job->world_size < 2 || job->local_size == job->world_size || strcasecmp(name, "localhost") == 0 ||
        inet_pton(AF_INET, name, &v4) == 1 || inet_pton(AF_INET6, name, &v6) == 1 || !resolves_to_loopback(name))
        return;
    const bool bound =
        job->bind_address[0] && strcmp(job->bind_address, "0.0.0.0") != 0 && strcmp(job->bind_address, "::") != 0;
    if (bound || rf_job_address_towards(FAR_AWAY, host) || rf_job_first_interface(host))
        memcpy(job->master_address, bound ? job->bind_address : host, sizeof(job->master_address));
}
