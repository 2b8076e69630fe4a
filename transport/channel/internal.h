/* SPDX-License-Identifier: Apache-2.0 */
/* How listener and connector make a channel of a connection whose handshake is complete. */
#ifndef RF_TRANSPORT_CHANNEL_INTERNAL_H
#define RF_TRANSPORT_CHANNEL_INTERNAL_H

#include "transport/channel/channel.h"

typedef struct rf_channel_start {
    int fd; /* the channel's from now on, closed on failure too */
    const char *address;
    const rf_hello *peer;
    const uint8_t *send_key, *receive_key; /* NULL in an insecure job */
    bool encrypt;
} rf_channel_start;

rf_result rf_channel_make(const rf_channel_start *start, rf_channel **out);

#endif
