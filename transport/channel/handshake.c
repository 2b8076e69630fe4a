/* SPDX-License-Identifier: Apache-2.0 */
#include "transport/channel/handshake.h"

#include <stdio.h>
#include <string.h>

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>

#include "transport/channel/wire.h"

enum { FLAG_SECURE = 1, FLAG_ENCRYPT = 2 };

static const uint8_t magic[4] = { 'R', 'F', 'C', 'H' };

/* Everything that is ever signed, in the order in which it crosses the wire. */
#define TRANSCRIPT_MAX (RF_CHALLENGE_SIZE + RF_REPLY_SIZE + RF_HANDSHAKE_MAX)
typedef struct transcript {
    uint8_t bytes[32 + TRANSCRIPT_MAX];
    size_t size;
} transcript;

/* Labels fill 32 bytes, so none is the beginning of another. */
static void transcript_begin(transcript *t, const char *label)
{
    memset(t->bytes, 0, 32);
    snprintf((char *)t->bytes, 32, "ringfire channel %s", label);
    t->size = 32;
}

static void transcript_add(transcript *t, const void *bytes, size_t size)
{
    memcpy(t->bytes + t->size, bytes, size);
    t->size += size;
}

static rf_result transcript_sign(const uint8_t key[RF_JOB_KEY_BYTES], const transcript *t,
                                 uint8_t mac[RF_HANDSHAKE_MAC])
{
    unsigned size = 0;
    if (!HMAC(EVP_sha256(), key, RF_JOB_KEY_BYTES, t->bytes, t->size, mac, &size) || size != RF_HANDSHAKE_MAC)
        return RF_FAIL(RF_ERROR_INTERNAL, "OpenSSL could not compute an HMAC");
    return RF_OK;
}

/* MAC of a handshake message: zeros in an insecure job. */
static rf_result message_mac(const rf_identity *mine, const transcript *t, uint8_t mac[RF_HANDSHAKE_MAC])
{
    memset(mac, 0, RF_HANDSHAKE_MAC);
    return mine->secure ? transcript_sign(mine->key, t, mac) : RF_OK;
}

static void reply_transcript(transcript *t, const uint8_t *challenge, const uint8_t *reply)
{
    transcript_begin(t, "reply");
    transcript_add(t, challenge, RF_CHALLENGE_SIZE);
    transcript_add(t, reply, RF_REPLY_SIZE - RF_HANDSHAKE_MAC);
}

static void answer_transcript(transcript *t, const char *label, const uint8_t *challenge, const uint8_t *reply,
                              const uint8_t *message, size_t size)
{
    transcript_begin(t, label);
    transcript_add(t, challenge, RF_CHALLENGE_SIZE);
    transcript_add(t, reply, RF_REPLY_SIZE);
    transcript_add(t, message, size - RF_HANDSHAKE_MAC);
}

/* Extract-then-expand in the manner of HKDF (RFC 5869), over the whole handshake. */
static rf_result derive_session(const rf_identity *mine, const uint8_t *challenge, const uint8_t *reply,
                                const uint8_t *accept, rf_session *out)
{
    *out = (rf_session){ 0 };
    if (!mine->secure) return RF_OK;
    uint8_t secret[RF_JOB_KEY_BYTES];
    transcript t;
    answer_transcript(&t, "session", challenge, reply, accept, RF_ACCEPT_SIZE);
    rf_result r = transcript_sign(mine->key, &t, secret);
    transcript_begin(&t, "to listener");
    if (r == RF_OK) r = transcript_sign(secret, &t, out->to_listener);
    transcript_begin(&t, "to connector");
    if (r == RF_OK) r = transcript_sign(secret, &t, out->to_connector);
    OPENSSL_cleanse(secret, sizeof(secret));
    return r;
}

/* ---- headers and bodies ---- */

static bool is_printable(const char *text, size_t size)
{
    const char *end = memchr(text, '\0', size);
    if (!end) return false;
    for (const char *c = text; c < end; c++)
        if (*c < 0x20 || *c > 0x7e) return false;
    for (const char *c = end; c < text + size; c++)
        if (*c) return false;
    return true;
}

rf_result rf_identity_init(rf_identity *identity, const rf_job *job, const rf_hello *hello)
{
    *identity = (rf_identity){ .hello = *hello,
                               .epoch = job->epoch,
                               .protocol = RF_PROTOCOL_VERSION,
                               .wire = RF_WIRE_VERSION,
                               .secure = job->secure,
                               .encrypt = job->encrypt };
    /* Copied by snprintf so that what follows the end is zero. */
    snprintf(identity->job, sizeof(identity->job), "%.*s", (int)sizeof(job->name) - 1, job->name);
    memset(identity->hello.role, 0, sizeof(identity->hello.role));
    snprintf(identity->hello.role, sizeof(identity->hello.role), "%.*s", (int)sizeof(hello->role) - 1, hello->role);
    RF_REQUIRE(is_printable(identity->job, sizeof(identity->job)), "the job's name must be printable ASCII");
    RF_REQUIRE(is_printable(identity->hello.role, sizeof(identity->hello.role)), "the role must be printable ASCII");
    RF_REQUIRE(hello->rank < hello->world_size, "rank %u is outside a job of %u", hello->rank, hello->world_size);
    RF_REQUIRE(job->secure || !job->encrypt,
               "an insecure job has no key to encrypt with; make one with 'ringfire keygen'");
    if (job->secure) memcpy(identity->key, job->key, sizeof(identity->key));
    return RF_OK;
}

static size_t size_of_kind(unsigned kind)
{
    switch (kind) {
    case RF_HANDSHAKE_CHALLENGE: return RF_CHALLENGE_SIZE;
    case RF_HANDSHAKE_REPLY: return RF_REPLY_SIZE;
    case RF_HANDSHAKE_ACCEPT: return RF_ACCEPT_SIZE;
    case RF_HANDSHAKE_REJECT: return RF_REJECT_SIZE;
    case RF_HANDSHAKE_REFUSED: return RF_HANDSHAKE_HEADER;
    default: return 0;
    }
}

static unsigned flags_of(const rf_identity *mine)
{
    return (mine->secure ? FLAG_SECURE : 0u) | (mine->encrypt ? FLAG_ENCRYPT : 0u);
}

/* magic 4, protocol u16, kind u8, flags u8, size u32, wire version u32 */
static void put_header(const rf_identity *mine, rf_handshake_kind kind, uint8_t *out)
{
    memcpy(out, magic, sizeof(magic));
    rf_put_u16(out + 4, mine->protocol);
    out[6] = (uint8_t)kind;
    out[7] = (uint8_t)flags_of(mine);
    rf_put_u32(out + 8, (uint32_t)size_of_kind(kind));
    rf_put_u32(out + 12, mine->wire);
}

static unsigned get_flags(const uint8_t *header)
{
    return header[7];
}
static uint32_t get_wire(const uint8_t *header)
{
    return rf_get_u32(header + 12);
}

rf_result rf_handshake_peek(const rf_identity *mine, const uint8_t *header, const char *who, rf_handshake_kind *kind,
                            size_t *size)
{
    *kind = (rf_handshake_kind)header[6];
    *size = 0;
    if (memcmp(header, magic, sizeof(magic)) != 0)
        return RF_FAIL(RF_ERROR_CORRUPT_DATA, "%s does not speak Ringfire's protocol; is the port right?", who);
    const unsigned protocol = rf_get_u16(header + 4);
    if (protocol != mine->protocol)
        return RF_FAIL(RF_ERROR_INVALID_ARGUMENT,
                       "%s has protocol version %u, this is version %u; install the same "
                       "Ringfire everywhere",
                       who, protocol, mine->protocol);
    *size = size_of_kind(header[6]);
    if (*size == 0 || rf_get_u32(header + 8) != *size || (get_flags(header) & ~(unsigned)(FLAG_SECURE | FLAG_ENCRYPT)))
        return RF_FAIL(RF_ERROR_CORRUPT_DATA, "%s sent a malformed handshake", who);
    return RF_OK;
}

static void put_who(const rf_identity *mine, uint8_t *out)
{
    memcpy(out, mine->hello.role, 16);
    rf_put_u32(out + 16, mine->hello.rank);
    rf_put_u32(out + 20, mine->hello.world_size);
    rf_put_u64(out + 24, mine->hello.incarnation);
    rf_put_u64(out + 32, mine->epoch);
    memcpy(out + 40, mine->job, 64);
}

typedef struct stranger {
    rf_hello hello;
    uint64_t epoch;
    char job[64];
} stranger;

static bool get_who(const uint8_t *in, stranger *out)
{
    memcpy(out->hello.role, in, 16);
    out->hello.rank = rf_get_u32(in + 16);
    out->hello.world_size = rf_get_u32(in + 20);
    out->hello.incarnation = rf_get_u64(in + 24);
    out->epoch = rf_get_u64(in + 32);
    memcpy(out->job, in + 40, 64);
    return is_printable(out->hello.role, 16) && is_printable(out->job, 64);
}

/* Why a peer that holds the key does not belong to this job; false when it does. */
static bool find_contradiction(const rf_identity *mine, const stranger *his, unsigned flags, uint32_t wire,
                               char *reason, size_t size)
{
    const rf_hello *h = &his->hello;
    char name[32];
    const bool special = strcmp(h->role, "worker") != 0 && h->role[0];
    snprintf(name, sizeof(name), "%s%srank %u", special ? h->role : "", special ? " " : "", h->rank);
    if (wire != mine->wire)
        snprintf(reason, size,
                 "%s has version %u of the messages, this is version %u; install the same Ringfire everywhere", name,
                 wire, mine->wire);
    else if (strcmp(his->job, mine->job) != 0)
        snprintf(reason, size, "%s belongs to job '%.46s', this is job '%.46s'", name, his->job, mine->job);
    else if (his->epoch != mine->epoch)
        snprintf(reason, size, "%s is in epoch %llu of the job, this is epoch %llu", name,
                 (unsigned long long)his->epoch, (unsigned long long)mine->epoch);
    else if (h->world_size != mine->hello.world_size)
        snprintf(reason, size, "%s was started for a world of %u, this is a world of %u", name, h->world_size,
                 mine->hello.world_size);
    else if (h->rank >= h->world_size)
        snprintf(reason, size, "%s is outside its world of %u", name, h->world_size);
    else if ((flags & FLAG_ENCRYPT) != (flags_of(mine) & FLAG_ENCRYPT))
        snprintf(reason, size,
                 flags & FLAG_ENCRYPT ? "%s encrypts, rank %u does not" : "%s does not encrypt, rank %u does", name,
                 mine->hello.rank);
    else
        return false;
    return true;
}

/* ---- the three steps ---- */

void rf_handshake_challenge(const rf_identity *mine, const uint8_t nonce[RF_NONCE_BYTES],
                            uint8_t out[RF_CHALLENGE_SIZE])
{
    put_header(mine, RF_HANDSHAKE_CHALLENGE, out);
    memcpy(out + RF_HANDSHAKE_HEADER, nonce, RF_NONCE_BYTES);
}

static const char *security_of(unsigned flags)
{
    return flags & FLAG_SECURE ? "has a job key" : "has no job key (insecure)";
}

rf_result rf_handshake_reply(const rf_identity *mine, const char *who, const uint8_t challenge[RF_CHALLENGE_SIZE],
                             const uint8_t nonce[RF_NONCE_BYTES], uint8_t out[RF_REPLY_SIZE], size_t *out_size)
{
    *out_size = 0;
    put_header(mine, RF_HANDSHAKE_REPLY, out);
    rf_handshake_kind kind;
    size_t size;
    const rf_result r = rf_handshake_peek(mine, challenge, who, &kind, &size);
    if (r == RF_ERROR_INVALID_ARGUMENT) *out_size = RF_HANDSHAKE_HEADER;
    RF_TRY(r);
    if (kind != RF_HANDSHAKE_CHALLENGE)
        return RF_FAIL(RF_ERROR_CORRUPT_DATA, "%s began the handshake with message %d", who, (int)kind);
    if ((get_flags(challenge) & FLAG_SECURE) != (flags_of(mine) & FLAG_SECURE)) {
        *out_size = RF_HANDSHAKE_HEADER;
        return RF_FAIL(RF_ERROR_INVALID_ARGUMENT, "%s %s, this worker %s; start all workers in the same way", who,
                       security_of(get_flags(challenge)), security_of(flags_of(mine)));
    }
    memcpy(out + RF_HANDSHAKE_HEADER, nonce, RF_NONCE_BYTES);
    put_who(mine, out + RF_CHALLENGE_SIZE);
    transcript t;
    reply_transcript(&t, challenge, out);
    RF_TRY(message_mac(mine, &t, out + RF_REPLY_SIZE - RF_HANDSHAKE_MAC));
    *out_size = RF_REPLY_SIZE;
    return RF_OK;
}

static rf_result accept_message(const rf_identity *mine, const uint8_t *challenge, const uint8_t *reply,
                                rf_handshake_verdict *out)
{
    transcript t;
    put_header(mine, RF_HANDSHAKE_ACCEPT, out->message);
    put_who(mine, out->message + RF_HANDSHAKE_HEADER);
    answer_transcript(&t, "accept", challenge, reply, out->message, RF_ACCEPT_SIZE);
    out->message_size = RF_ACCEPT_SIZE;
    RF_TRY(message_mac(mine, &t, out->message + RF_ACCEPT_SIZE - RF_HANDSHAKE_MAC));
    return derive_session(mine, challenge, reply, out->message, &out->session);
}

static rf_result reject_message(const rf_identity *mine, const uint8_t *challenge, const uint8_t *reply,
                                rf_handshake_verdict *out)
{
    transcript t;
    put_header(mine, RF_HANDSHAKE_REJECT, out->message);
    memcpy(out->message + RF_HANDSHAKE_HEADER, out->reason, RF_REJECT_TEXT);
    answer_transcript(&t, "reject", challenge, reply, out->message, RF_REJECT_SIZE);
    out->message_size = RF_REJECT_SIZE;
    return message_mac(mine, &t, out->message + RF_REJECT_SIZE - RF_HANDSHAKE_MAC);
}

void rf_handshake_screen(const rf_identity *mine, const char *who, const uint8_t *header, rf_handshake_verdict *out)
{
    *out = (rf_handshake_verdict){ .weight = RF_REJECTION_NOISE };
    rf_handshake_kind kind;
    size_t size;
    const rf_result r = rf_handshake_peek(mine, header, who, &kind, &size);
    const unsigned flags = get_flags(header);
    if (r < 0) {
        if (r == RF_ERROR_INVALID_ARGUMENT) out->weight = RF_REJECTION_UNPROVEN;
        snprintf(out->reason, sizeof(out->reason), "%s", rf_error_message());
    } else if (kind != RF_HANDSHAKE_REPLY) {
        snprintf(out->reason, sizeof(out->reason), "%s answered the challenge with message %d", who, (int)kind);
    } else if ((flags & FLAG_SECURE) != (flags_of(mine) & FLAG_SECURE)) {
        out->weight = RF_REJECTION_UNPROVEN;
        snprintf(out->reason, sizeof(out->reason), "%s %s, this job %s", who, security_of(flags),
                 mine->secure ? "has one" : "has none");
    } else {
        *out = (rf_handshake_verdict){ .accepted = true };
    }
}

rf_result rf_handshake_judge(const rf_identity *mine, const char *who, const uint8_t challenge[RF_CHALLENGE_SIZE],
                             const uint8_t reply[RF_REPLY_SIZE], rf_handshake_verdict *out)
{
    *out = (rf_handshake_verdict){ .weight = RF_REJECTION_KEY };
    transcript t;
    uint8_t expected[RF_HANDSHAKE_MAC];
    reply_transcript(&t, challenge, reply);
    RF_TRY(message_mac(mine, &t, expected));
    if (CRYPTO_memcmp(expected, reply + RF_REPLY_SIZE - RF_HANDSHAKE_MAC, RF_HANDSHAKE_MAC) != 0) {
        snprintf(out->reason, sizeof(out->reason), "%s has another job key", who);
        put_header(mine, RF_HANDSHAKE_REFUSED, out->message);
        out->message_size = RF_HANDSHAKE_HEADER;
        return RF_OK;
    }
    stranger his;
    if (!get_who(reply + RF_CHALLENGE_SIZE, &his)) {
        out->weight = RF_REJECTION_NOISE;
        snprintf(out->reason, sizeof(out->reason), "%s sent a malformed handshake", who);
        return RF_OK;
    }
    if (find_contradiction(mine, &his, get_flags(reply), get_wire(reply), out->reason, sizeof(out->reason))) {
        out->weight = RF_REJECTION_AUTHENTIC;
        return reject_message(mine, challenge, reply, out);
    }
    out->accepted = true;
    out->weight = RF_REJECTION_NONE;
    out->peer = his.hello;
    return accept_message(mine, challenge, reply, out);
}

rf_result rf_handshake_conclude(const rf_identity *mine, const char *who, const uint8_t challenge[RF_CHALLENGE_SIZE],
                                const uint8_t reply[RF_REPLY_SIZE], const uint8_t *message, size_t size, rf_hello *peer,
                                rf_session *session)
{
    const unsigned kind = message[6];
    if (kind == RF_HANDSHAKE_REFUSED)
        return RF_FAIL(RF_ERROR_INVALID_ARGUMENT, "%s has another job key; give all workers the same key file", who);
    if (kind != RF_HANDSHAKE_ACCEPT && kind != RF_HANDSHAKE_REJECT)
        return RF_FAIL(RF_ERROR_CORRUPT_DATA, "%s ended the handshake with message %u", who, kind);
    transcript t;
    uint8_t expected[RF_HANDSHAKE_MAC];
    answer_transcript(&t, kind == RF_HANDSHAKE_ACCEPT ? "accept" : "reject", challenge, reply, message, size);
    RF_TRY(message_mac(mine, &t, expected));
    if (CRYPTO_memcmp(expected, message + size - RF_HANDSHAKE_MAC, RF_HANDSHAKE_MAC) != 0)
        return RF_FAIL(RF_ERROR_INVALID_ARGUMENT, "%s did not prove that it holds the job key", who);
    const uint8_t *content = message + RF_HANDSHAKE_HEADER;
    if (kind == RF_HANDSHAKE_REJECT) {
        if (!is_printable((const char *)content, RF_REJECT_TEXT))
            return RF_FAIL(RF_ERROR_CORRUPT_DATA, "%s rejected this worker without a readable reason", who);
        return RF_FAIL(RF_ERROR_INVALID_ARGUMENT, "%s rejected this worker: %s", who, (const char *)content);
    }
    stranger his;
    char reason[RF_REJECT_TEXT];
    if (!get_who(content, &his)) return RF_FAIL(RF_ERROR_CORRUPT_DATA, "%s sent a malformed handshake", who);
    if (find_contradiction(mine, &his, get_flags(message), get_wire(message), reason, sizeof(reason)))
        return RF_FAIL(RF_ERROR_INVALID_ARGUMENT, "%s: %s", who, reason);
    *peer = his.hello;
    return derive_session(mine, challenge, reply, message, session);
}
