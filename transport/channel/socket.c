/* SPDX-License-Identifier: Apache-2.0 */
#include "transport/channel/socket.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/platform.h"
#include "transport/job/host.h"

/* Long enough for thousands of strangers between two rounds of the accepting thread; the kernel cuts it to its limit.
 */
#define BACKLOG 4096

uint64_t rf_deadline_after(uint64_t timeout_ns)
{
    if (timeout_ns == 0) return 0;
    const uint64_t now = rf_now_ns();
    return timeout_ns < UINT64_MAX - now ? now + timeout_ns : UINT64_MAX;
}

uint64_t rf_deadline_left(uint64_t deadline)
{
    if (deadline == 0) return 0;
    const uint64_t now = rf_now_ns();
    return deadline > now ? deadline - now : 0;
}

rf_result rf_socket_wait(int fd, short events, uint64_t deadline)
{
    struct pollfd p = { .fd = fd, .events = events };
    for (;;) {
        const uint64_t left = rf_deadline_left(deadline);
        const uint64_t ms = (left + 999999) / 1000000;
        const int n = poll(&p, 1, ms < 60000 ? (int)ms : 60000);
        if (n > 0) return RF_OK;
        if (n < 0 && errno != EINTR) return RF_FAIL_ERRNO(RF_ERROR_IO, "cannot wait for a connection");
        if (n == 0 && left == 0) return RF_ERROR_TIMEOUT;
    }
}

void rf_socket_describe(const struct sockaddr *address, socklen_t size, char text[RF_ADDRESS_TEXT])
{
    struct sockaddr_in room;
    address = rf_plain_address(address, &size, &room);
    char host[64], port[8];
    if (getnameinfo(address, size, host, sizeof(host), port, sizeof(port), NI_NUMERICHOST | NI_NUMERICSERV) != 0)
        snprintf(text, RF_ADDRESS_TEXT, "unknown address");
    else
        snprintf(text, RF_ADDRESS_TEXT, address->sa_family == AF_INET6 ? "[%s]:%s" : "%s:%s", host, port);
}

rf_result rf_socket_resolve(const char *address, uint16_t port, bool passive, struct addrinfo **out)
{
    char host[256], service[8];
    const size_t length = strlen(address);
    const bool brackets = length >= 2 && address[0] == '[' && address[length - 1] == ']';
    RF_REQUIRE(length > 0 && length < sizeof(host), "an address must have 1 to %zu characters", sizeof(host) - 1);
    snprintf(host, sizeof(host), "%.*s", (int)(brackets ? length - 2 : length), address + (brackets ? 1 : 0));
    snprintf(service, sizeof(service), "%u", port);
    const struct addrinfo hints = { .ai_family = AF_UNSPEC,
                                    .ai_socktype = SOCK_STREAM,
                                    .ai_flags = AI_NUMERICSERV | (passive ? AI_PASSIVE : 0) };
    const int e = getaddrinfo(host, service, &hints, out);
    if (e != 0) return RF_FAIL_NATIVE(RF_ERROR_NOT_FOUND, "getaddrinfo", e, "address %s: %s", address, gai_strerror(e));
    return RF_OK;
}

void rf_socket_tune(int fd)
{
    const int on = 1, off = 0;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &off, sizeof(off)); /* the mesh has heartbeats */
}

/* NULL or the call that failed, with errno set. */
static const char *try_listen(const struct addrinfo *a, int *fd)
{
    const int on = 1, off = 0;
    *fd = socket(a->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (*fd < 0) return "open a socket for";
    /* A restarted job takes its port over from connections that are not quite gone. */
    setsockopt(*fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    if (a->ai_family == AF_INET6) setsockopt(*fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof(off));
    const char *failed = NULL;
    if (bind(*fd, a->ai_addr, a->ai_addrlen) != 0)
        failed = "bind";
    else if (listen(*fd, BACKLOG) != 0)
        failed = "listen on";
    if (failed) {
        const int e = errno;
        close(*fd);
        *fd = -1;
        errno = e;
    }
    return failed;
}

/* A host without IPv6 has no such address; what is meant are all that it has. */
static bool lacks_ipv6(const char *address, int e)
{
    return (e == EAFNOSUPPORT || e == EADDRNOTAVAIL) && strchr(address, ':') && rf_is_wildcard(address);
}

rf_result rf_socket_listen(const char *address, uint16_t port, int *fd, uint16_t *bound_port)
{
    struct addrinfo *list;
    RF_TRY(rf_socket_resolve(address, port, true, &list));
    const char *failed = "find";
    *fd = -1;
    for (const struct addrinfo *a = list; a && *fd < 0; a = a->ai_next) failed = try_listen(a, fd);
    const int e = errno;
    freeaddrinfo(list);
    if (*fd < 0 && lacks_ipv6(address, e)) return rf_socket_listen("0.0.0.0", port, fd, bound_port);
    if (*fd < 0) {
        errno = e;
        return RF_FAIL_ERRNO(RF_ERROR_IO, "cannot %s address %s port %u", failed, address, port);
    }
    union {
        struct sockaddr_in v4;
        struct sockaddr_in6 v6;
    } bound = { .v6 = { .sin6_port = 0 } };
    socklen_t size = sizeof(bound);
    getsockname(*fd, (struct sockaddr *)&bound, &size);
    *bound_port = ntohs(bound.v6.sin6_port); /* stands at the same place in both */
    return RF_OK;
}

/* On one host, connecting to a port of the ephemeral range that has no listener can connect a socket to itself. */
static bool connected_to_itself(int fd)
{
    struct sockaddr_storage here = { 0 }, there = { 0 };
    socklen_t here_size = sizeof(here), there_size = sizeof(there);
    return getsockname(fd, (struct sockaddr *)&here, &here_size) == 0 &&
           getpeername(fd, (struct sockaddr *)&there, &there_size) == 0 && here_size == there_size &&
           memcmp(&here, &there, here_size) == 0;
}

static rf_result finish_connect(int fd, const struct addrinfo *a, uint64_t deadline)
{
    char who[RF_ADDRESS_TEXT];
    rf_socket_describe(a->ai_addr, a->ai_addrlen, who);
    int e = connect(fd, a->ai_addr, a->ai_addrlen) == 0 ? 0 : errno;
    if (e == EINPROGRESS || e == EINTR) {
        const rf_result r = rf_socket_wait(fd, POLLOUT, deadline);
        if (r == RF_ERROR_TIMEOUT) return RF_FAIL(r, "%s does not answer", who);
        RF_TRY(r);
        socklen_t size = sizeof(e);
        if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &e, &size) != 0) e = errno;
    }
    if (e == 0 && connected_to_itself(fd)) e = ECONNREFUSED;
    if (e == 0) return RF_OK;
    errno = e;
    return RF_FAIL_ERRNO(RF_ERROR_PEER_LOST, "cannot connect to %s", who);
}

rf_result rf_socket_connect(const struct addrinfo *address, uint64_t deadline, int *fd)
{
    *fd = socket(address->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (*fd < 0 && errno == EAFNOSUPPORT) { /* another address of the name may do */
        char who[RF_ADDRESS_TEXT];
        rf_socket_describe(address->ai_addr, address->ai_addrlen, who);
        return RF_FAIL_ERRNO(RF_ERROR_PEER_LOST, "cannot connect to %s", who);
    }
    if (*fd < 0) return RF_FAIL_ERRNO(RF_ERROR_IO, "cannot open a socket");
    rf_socket_tune(*fd);
    const rf_result r = finish_connect(*fd, address, deadline);
    if (r < 0) {
        close(*fd);
        *fd = -1;
    }
    return r;
}

rf_result rf_socket_send_all(int fd, const void *bytes, size_t size, uint64_t deadline, const char *who)
{
    const char *from = bytes;
    while (size > 0) {
        const ssize_t n = send(fd, from, size, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (n >= 0) {
            from += n;
            size -= (size_t)n;
        } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
            const rf_result r = rf_socket_wait(fd, POLLOUT, deadline);
            if (r == RF_ERROR_TIMEOUT) return RF_FAIL(r, "%s accepts no data", who);
            RF_TRY(r);
        } else if (errno != EINTR) {
            return RF_FAIL_ERRNO(RF_ERROR_PEER_LOST, "connection to %s failed", who);
        }
    }
    return RF_OK;
}

rf_result rf_socket_receive_all(int fd, void *bytes, size_t size, uint64_t deadline, const char *who)
{
    char *to = bytes;
    while (size > 0) {
        const ssize_t n = recv(fd, to, size, MSG_DONTWAIT);
        if (n > 0) {
            to += n;
            size -= (size_t)n;
        } else if (n == 0) {
            return RF_FAIL(RF_ERROR_PEER_LOST, "%s closed the connection", who);
        } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
            const rf_result r = rf_socket_wait(fd, POLLIN, deadline);
            if (r == RF_ERROR_TIMEOUT) return RF_FAIL(r, "%s does not answer", who);
            RF_TRY(r);
        } else if (errno != EINTR) {
            return RF_FAIL_ERRNO(RF_ERROR_PEER_LOST, "connection to %s failed", who);
        }
    }
    return RF_OK;
}

void rf_socket_reset(int fd)
{
    const struct linger at_once = { .l_onoff = 1, .l_linger = 0 };
    setsockopt(fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once));
    close(fd);
}
