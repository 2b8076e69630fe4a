/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A framed, authenticated TCP connection between two processes that hold the same job key: the basis of the control
 * mesh and the parameter server. Both sides prove the key by HMAC challenge before any frame of the other is parsed;
 * each frame then carries a sequence number and a MAC (or is sealed with AES-256-GCM when the job encrypts). Insecure
 * jobs use the same frames without MAC. Every call has a deadline. One thread may send while another receives.
 */
#ifndef RF_TRANSPORT_CHANNEL_CHANNEL_H
#define RF_TRANSPORT_CHANNEL_CHANNEL_H

#include "transport/job/job.h"
#include "transport/job/listen.h"

typedef struct rf_channel rf_channel;
typedef struct rf_listener rf_listener;

/* The words of a side about itself in the handshake; covered by the HMAC. */
typedef struct rf_hello {
    char role[16]; /* "worker", "ps", ...: who speaks */
    uint32_t rank;
    uint32_t world_size;
    uint64_t incarnation; /* random per process */
} rf_hello;

/* Port 0: any free one. Accepts in the background: unauthenticated connections are bounded in number and time and do
 * not delay an honest one. RF_ERROR_IO names the address when the port is taken. */
rf_result rf_listener_create(const rf_job *job, const char *address, uint16_t port, const rf_hello *mine,
                             rf_listener **out);
/* Where `told`, the name of this process in its job, and the job's settings have it (transport/job/listen.h); the plan
 * that was followed comes back, and the log says what is open to anybody. `who` begins the message of a failure. */
rf_result rf_listener_open(const rf_job *job, const char *told, uint16_t port, const rf_hello *mine, const char *who,
                           rf_listener **out, rf_listen_plan *plan);
/* Listens at another address, on the same port, or where it did if that fails. Who is in the middle of a handshake has
 * to come again; finished ones stay. */
rf_result rf_listener_move(rf_listener *listener, const char *address);
void rf_listener_destroy(rf_listener **listener);
/* Accepts nothing more. Every connection whose other end believes its handshake complete can be fetched afterwards,
 * without waiting: rf_listener_accept() returns at once, also in a thread that waits in it now. */
void rf_listener_stop(rf_listener *listener);
uint16_t rf_listener_port(const rf_listener *listener);
/* "10.0.0.1 port 4711 (RINGFIRE_BIND on its host changes that)", for messages. */
void rf_listener_place(const rf_listener *listener, char *text, size_t size);
/* RF_ERROR_IO where others wait, and this process has had no descriptors for them for a second. */
rf_result rf_listener_status(rf_listener *listener);
/* Next connection whose handshake is complete. RF_ERROR_TIMEOUT after `timeout_ns` (0: without an error record), or
 * what rf_listener_status() says. */
rf_result rf_listener_accept(rf_listener *listener, uint64_t timeout_ns, rf_channel **out);
/* The most informative reason of a rejection so far ("rank 3 has version 2"...), or "". For error messages.
 */
void rf_listener_rejection(rf_listener *listener, char *text, size_t size);

/* Tries again (refused, unreachable, silent, cut off) until the deadline: RF_ERROR_TIMEOUT, with the last reason.
 * RF_ERROR_INVALID_ARGUMENT at once when the other side does not belong to the job (other key, name, epoch, world size,
 * version), RF_ERROR_CORRUPT_DATA when it is something else altogether. */
rf_result rf_channel_connect(const rf_job *job, const char *address, uint16_t port, const rf_hello *mine,
                             uint64_t timeout_ns, rf_channel **out);
/* One try: RF_ERROR_PEER_LOST where nobody listens. */
rf_result rf_channel_connect_now(const rf_job *job, const char *address, uint16_t port, const rf_hello *mine,
                                 uint64_t timeout_ns, rf_channel **out);
void rf_channel_destroy(rf_channel **channel);
const rf_hello *rf_channel_peer(const rf_channel *channel);
/* "10.0.0.3:41234" of the other side. */
const char *rf_channel_peer_address(const rf_channel *channel);
int rf_channel_fd(const rf_channel *channel);

/* One frame: a type and a body of at most 256 MiB. Sent as a gather of `num_parts` buffers. */
typedef struct rf_bytes {
    const void *data;
    size_t size;
} rf_bytes;
/* RF_ERROR_TIMEOUT before the first byte left leaves the channel usable; half a frame ends its sending direction, not
 * the receiving one: the peer's last words can still be read. */
rf_result rf_channel_send(rf_channel *channel, uint16_t type, const rf_bytes *parts, uint32_t num_parts,
                          uint64_t timeout_ns);
/* *body belongs to the channel until its next receive. No bytes beyond the frame are taken from the socket, so poll()
 * on rf_channel_fd() tells the truth. `timeout_ns` 0 never blocks, keeps what has arrived of a frame for the next call
 * and returns RF_ERROR_TIMEOUT without an error record. RF_ERROR_PEER_LOST at the end of the connection,
 * RF_ERROR_CORRUPT_DATA for a frame that does not verify (the channel is then dead). */
rf_result rf_channel_receive(rf_channel *channel, uint16_t *type, const void **body, size_t *size, uint64_t timeout_ns);
/* Ends both directions; whoever waits on it returns. Thread-safe. */
void rf_channel_shutdown(rf_channel *channel);

#endif
