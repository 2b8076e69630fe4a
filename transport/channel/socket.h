/* SPDX-License-Identifier: Apache-2.0 */
/* TCP sockets with deadlines. All are non-blocking, close on exec, and without Nagle's delay. */
#ifndef RF_TRANSPORT_CHANNEL_SOCKET_H
#define RF_TRANSPORT_CHANNEL_SOCKET_H

#include <netdb.h>
#include <sys/socket.h>

#include "base/error.h"

#define RF_ADDRESS_TEXT 80 /* "[v6 address%interface]:port" */

/* A moment on rf_now_ns()'s clock; never wraps. 0 stands for "do not wait". */
uint64_t rf_deadline_after(uint64_t timeout_ns);
uint64_t rf_deadline_left(uint64_t deadline);

/* Waits for poll() events. RF_ERROR_TIMEOUT without an error record. */
rf_result rf_socket_wait(int fd, short events, uint64_t deadline);

/* "10.0.0.3:41234", "[fd00::3]:41234" */
void rf_socket_describe(const struct sockaddr *address, socklen_t size, char text[RF_ADDRESS_TEXT]);

/* Names, IPv4 and IPv6 addresses, the latter in brackets or not. Freed with freeaddrinfo(). Looking up a name takes as
 * long as the system's resolver takes. */
rf_result rf_socket_resolve(const char *address, uint16_t port, bool passive, struct addrinfo **out);
rf_result rf_socket_listen(const char *address, uint16_t port, int *fd, uint16_t *bound_port);
/* One try at one address. RF_ERROR_PEER_LOST: no listener (yet); RF_ERROR_TIMEOUT; RF_ERROR_IO: this side's trouble.
 */
rf_result rf_socket_connect(const struct addrinfo *address, uint64_t deadline, int *fd);
/* Sets the options of a connection, of accepted ones too. */
void rf_socket_tune(int fd);

/* All bytes or an error that names `who`: RF_ERROR_PEER_LOST when the connection ends, RF_ERROR_TIMEOUT. */
rf_result rf_socket_send_all(int fd, const void *bytes, size_t size, uint64_t deadline, const char *who);
rf_result rf_socket_receive_all(int fd, void *bytes, size_t size, uint64_t deadline, const char *who);

/* Closes at once, telling the other side by a reset, and leaves nothing behind in the kernel. */
void rf_socket_reset(int fd);

#endif
