/* SPDX-License-Identifier: Apache-2.0 */
/* The host of a worker, and the address under which others can reach it. */
#ifndef RF_TRANSPORT_JOB_HOST_H
#define RF_TRANSPORT_JOB_HOST_H

#include <netinet/in.h>
#include <sys/socket.h>

#include "base/error.h"

/* Text that is equal for two processes exactly when they share a kernel, a host name and a network namespace:
 * containers that cannot reach each other over loopback are two hosts. */
void rf_host_identity(char *text, size_t size);
/* numbers[r]: hosts counted in the order of their lowest rank. identities[r] is rank r's text. */
void rf_number_hosts(const char *const *identities, uint32_t count, uint32_t *numbers);
/* Numeric form of a host name or address. RF_ERROR_INVALID_ARGUMENT names it when it is none of this machine's
 * business. */
rf_result rf_numeric_address(const char *name, char *text, size_t size);
/* 0.0.0.0 or ::, or one of 127.0.0.0/8 or ::1, however it is spelled; false for a name. */
bool rf_is_wildcard(const char *text);
bool rf_is_loopback(const char *text);
/* An IPv4 address that looks like one of IPv6, as a listener for both sees it, is the IPv4 address in `room`. */
const struct sockaddr *rf_plain_address(const struct sockaddr *address, socklen_t *size, struct sockaddr_in *room);
/* Numeric address of this end of a connected socket. */
rf_result rf_local_address(int fd, char *text, size_t size);

#endif
