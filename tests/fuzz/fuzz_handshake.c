/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Handshake messages from a stranger. The first byte says who reads the rest and how:
 *   bit 0      the connector (else the listener)
 *   bits 1, 2  0: as it is, a secure job   1: laid over an honest message by XOR, a secure job
 *              2: as it is, an insecure job, whose parsers are reached without a MAC   3: XOR, insecure
 * Nothing but the honest message may pass in a secure job.
 */
#include <string.h>

#include "fuzz.h"
#include "transport/channel/handshake.h"

static rf_identity identity(bool secure, uint32_t rank)
{
    const rf_job job = { .world_size = 4, .name = "fuzz", .epoch = 3, .secure = secure, .key = { 1, 2, 3 } };
    const rf_hello hello = { "worker", rank, 4, 77 + rank };
    rf_identity out;
    if (rf_identity_init(&out, &job, &hello) < 0) abort();
    return out;
}

static void check_text(const char *text, size_t size)
{
    if (!memchr(text, '\0', size) || !text[0]) abort();
}

static void check_peer(const rf_hello *peer)
{
    if (!memchr(peer->role, '\0', sizeof(peer->role)) || peer->rank >= peer->world_size || peer->world_size != 4)
        abort();
}

/* Makes a message: the bytes that came, or the honest one with these laid over it. */
static bool lay_over(bool over, uint8_t *message, size_t size, const uint8_t *data, size_t data_size)
{
    bool same = true;
    if (!over) memset(message, 0, size);
    for (size_t i = 0; i < size && i < data_size; i++) {
        message[i] ^= data[i];
        same &= data[i] == 0;
    }
    return over && same;
}

static void listen_to(const rf_identity *mine, const uint8_t *challenge, const uint8_t *reply, bool honest)
{
    rf_handshake_verdict v;
    rf_handshake_screen(mine, "stranger", reply, &v);
    if (v.accepted && rf_handshake_judge(mine, "stranger", challenge, reply, &v) < 0) abort();
    if (v.message_size > sizeof(v.message)) abort();
    if (!v.accepted) {
        check_text(v.reason, sizeof(v.reason));
        if (v.weight == RF_REJECTION_NONE || honest) abort();
    } else {
        check_peer(&v.peer);
        if (mine->secure && !honest) abort();
    }
}

/* As a connector reads: header, then as many bytes as its kind has. */
static void hear(const rf_identity *mine, const uint8_t *challenge, const uint8_t *reply, const uint8_t *message,
                 bool honest)
{
    rf_handshake_kind kind;
    size_t size;
    rf_hello peer;
    rf_session session;
    rf_result r = rf_handshake_peek(mine, message, "stranger", &kind, &size);
    if (r == RF_OK && size > RF_HANDSHAKE_MAX) abort();
    if (r == RF_OK) r = rf_handshake_conclude(mine, "stranger", challenge, reply, message, size, &peer, &session);
    if (r == RF_OK) check_peer(&peer);
    if (r < 0) check_text(rf_error_message(), 1024);
    if ((mine->secure || honest) && (r == RF_OK) != honest) abort();
}

FUZZ_TARGET(handshake)
{
    if (size < 1) return 0;
    const unsigned mode = data[0];
    const bool over = mode & 2, secure = !(mode & 4);
    const rf_identity listener = identity(secure, 0), connector = identity(secure, 3);
    static const uint8_t nonces[2][RF_NONCE_BYTES] = { { 5 }, { 6 } };
    uint8_t challenge[RF_CHALLENGE_SIZE], reply[RF_HANDSHAKE_MAX], strange[RF_HANDSHAKE_MAX];
    size_t reply_size;
    rf_handshake_challenge(&listener, nonces[0], challenge);
    if (rf_handshake_reply(&connector, "listener", challenge, nonces[1], reply, &reply_size) < 0) abort();
    if (!(mode & 1)) {
        memcpy(strange, reply, sizeof(reply));
        const bool honest = lay_over(over, strange, RF_REPLY_SIZE, data + 1, size - 1);
        listen_to(&listener, challenge, strange, honest);
        return 0;
    }
    /* A strange challenge must not upset the connector; what it replies is bounded. */
    memcpy(strange, challenge, RF_CHALLENGE_SIZE);
    lay_over(over, strange, RF_CHALLENGE_SIZE, data + 1, size - 1);
    uint8_t answer[RF_REPLY_SIZE];
    if (rf_handshake_reply(&connector, "stranger", strange, nonces[1], answer, &reply_size) < 0)
        check_text(rf_error_message(), 1024);
    if (reply_size > RF_REPLY_SIZE) abort();
    /* Then the last message. */
    rf_handshake_verdict v;
    if (rf_handshake_judge(&listener, "connector", challenge, reply, &v) < 0 || !v.accepted) abort();
    memcpy(strange, v.message, sizeof(strange));
    lay_over(over, strange, RF_HANDSHAKE_MAX, data + 1, size - 1);
    hear(&connector, challenge, reply, strange, memcmp(strange, v.message, RF_ACCEPT_SIZE) == 0);
    return 0;
}
