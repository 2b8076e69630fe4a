/* SPDX-License-Identifier: Apache-2.0 */
/* Finds the address of this host that others can reach. */
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "transport/job/host.h"
#include "transport/job/listen.h"
#include "transport/job/sources.h"

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

/* Whether every address of a name is loopback here. */
static bool means_loopback(const char *name)
{
    const struct addrinfo hints = { .ai_socktype = SOCK_STREAM };
    struct addrinfo *list = NULL;
    if (getaddrinfo(name, NULL, &hints, &list) != 0) return false; /* whoever connects says so better */
    bool loopback = true;
    for (const struct addrinfo *a = list; a && loopback; a = a->ai_next) loopback = is_loopback(a->ai_addr);
    freeaddrinfo(list);
    return loopback;
}

void rf_job_settle_master(rf_job *job)
{
    if (job->world_size < 2) return;
    /* The host's own name stands for the host, not for the loopback that it means in its hosts file. */
    if (job->bind_address[0] && !rf_job_names_loopback(job->bind_address) && means_loopback(job->bind_address))
        job->bind_address[0] = '\0';
    const bool bound = job->bind_address[0] && !rf_is_wildcard(job->bind_address);
    if (bound && means_loopback(job->master_address))
        memcpy(job->master_address, job->bind_address, sizeof(job->master_address));
    else if (!job->bind_address[0] && rf_job_is_one_host(job) && !means_loopback(job->master_address))
        rf_job_loopback_master(job, job->master_port);
}
