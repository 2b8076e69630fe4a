/* SPDX-License-Identifier: Apache-2.0 */
/* Handshake and frames as bytes: every bit that an attacker could change, repeat, leave out, send back or cut off. */
#include <stdlib.h>
#include <string.h>

#include "channel_support.h"
#include "tests/room.h"
#include "transport/channel/frame.h"
#include "transport/channel/wire.h"

/* ---- handshake ---- */

typedef struct record {
    rf_identity listener, connector;
    uint8_t challenge[RF_CHALLENGE_SIZE], reply[RF_REPLY_SIZE];
    rf_handshake_verdict verdict;
} record;

static record honest_handshake(security s, uint8_t listener_nonce)
{
    const rf_job job = test_job(s);
    const uint8_t nonce[RF_NONCE_BYTES] = { listener_nonce };
    record h = { .listener = test_identity(&job, 0), .connector = test_identity(&job, 3) };
    rf_handshake_challenge(&h.listener, nonce, h.challenge);
    raw_reply(&h.connector, h.challenge, h.reply);
    rf_handshake_screen(&h.listener, "connector", h.reply, &h.verdict);
    assert_true(h.verdict.accepted);
    assert_int_equal(rf_handshake_judge(&h.listener, "connector", h.challenge, h.reply, &h.verdict), RF_OK);
    assert_true(h.verdict.accepted);
    assert_int_equal(h.verdict.peer.rank, 3);
    assert_int_equal(h.verdict.message_size, RF_ACCEPT_SIZE);
    return h;
}

/* Whether the listener takes these bytes for a reply to its challenge. */
static bool takes(const rf_identity *listener, const uint8_t *challenge, const uint8_t *reply)
{
    rf_handshake_verdict v;
    rf_handshake_screen(listener, "connector", reply, &v);
    if (!v.accepted) {
        assert_true(v.weight > RF_REJECTION_NONE && v.reason[0]);
        return false;
    }
    assert_int_equal(rf_handshake_judge(listener, "connector", challenge, reply, &v), RF_OK);
    if (!v.accepted) assert_true(v.weight > RF_REJECTION_NONE && v.reason[0]);
    return v.accepted;
}

static rf_result conclude(const record *h, const uint8_t *message)
{
    rf_handshake_kind kind;
    size_t size;
    rf_hello peer;
    rf_session session;
    const rf_result r = rf_handshake_peek(&h->connector, message, "listener", &kind, &size);
    if (r < 0) return r;
    return rf_handshake_conclude(&h->connector, "listener", h->challenge, h->reply, message, size, &peer, &session);
}

TEST(test_same_session_keys)
{
    const record h = honest_handshake(SIGNED, 1), other = honest_handshake(SIGNED, 2);
    rf_hello peer;
    rf_session session;
    assert_int_equal(rf_handshake_conclude(&h.connector, "listener", h.challenge, h.reply, h.verdict.message,
                                           h.verdict.message_size, &peer, &session),
                     RF_OK);
    assert_int_equal(peer.rank, 0);
    assert_memory_equal(&session, &h.verdict.session, sizeof(session));
    assert_memory_not_equal(session.to_listener, session.to_connector, RF_JOB_KEY_BYTES);
    assert_memory_not_equal(session.to_listener, h.listener.key, RF_JOB_KEY_BYTES);
    assert_memory_not_equal(session.to_listener, other.verdict.session.to_listener, RF_JOB_KEY_BYTES);
}

TEST(test_each_bit_of_the_handshake)
{
    const record h = honest_handshake(SIGNED, 1);
    for (size_t bit = 0; bit < 8 * RF_CHALLENGE_SIZE; bit++) {
        uint8_t challenge[RF_CHALLENGE_SIZE], reply[RF_REPLY_SIZE];
        size_t size;
        memcpy(challenge, h.challenge, sizeof(challenge));
        challenge[bit / 8] ^= (uint8_t)(1u << bit % 8);
        if (rf_handshake_reply(&h.connector, "listener", challenge, h.reply + RF_HANDSHAKE_HEADER, reply, &size) ==
            RF_OK)
            assert_false(takes(&h.listener, h.challenge, reply));
    }
    for (size_t bit = 0; bit < 8 * RF_REPLY_SIZE; bit++) {
        uint8_t reply[RF_REPLY_SIZE];
        memcpy(reply, h.reply, sizeof(reply));
        reply[bit / 8] ^= (uint8_t)(1u << bit % 8);
        assert_false(takes(&h.listener, h.challenge, reply));
    }
    for (size_t bit = 0; bit < 8 * RF_ACCEPT_SIZE; bit++) {
        uint8_t accept[RF_HANDSHAKE_MAX];
        memcpy(accept, h.verdict.message, sizeof(accept));
        accept[bit / 8] ^= (uint8_t)(1u << bit % 8);
        assert_true(conclude(&h, accept) < 0);
    }
}

TEST(test_replayed_and_reflected_handshake)
{
    const record first = honest_handshake(SIGNED, 1), second = honest_handshake(SIGNED, 2);
    assert_true(takes(&first.listener, first.challenge, first.reply));
    assert_false(takes(&first.listener, second.challenge, first.reply));
    assert_int_equal(conclude(&second, first.verdict.message), RF_ERROR_INVALID_ARGUMENT);
    /* Its own words, sent back. */
    uint8_t bytes[RF_HANDSHAKE_MAX] = { 0 };
    memcpy(bytes, first.challenge, RF_CHALLENGE_SIZE);
    assert_false(takes(&first.listener, first.challenge, bytes));
    memcpy(bytes, first.reply, RF_REPLY_SIZE);
    assert_int_equal(conclude(&first, bytes), RF_ERROR_CORRUPT_DATA);
    /* The reply's identity and MAC in the shape of an accept. */
    memcpy(bytes, first.verdict.message, RF_HANDSHAKE_HEADER);
    memcpy(bytes + RF_HANDSHAKE_HEADER, first.reply + RF_CHALLENGE_SIZE, RF_HANDSHAKE_WHO + RF_HANDSHAKE_MAC);
    assert_int_equal(conclude(&first, bytes), RF_ERROR_INVALID_ARGUMENT);
    /* An accept in the shape of a reply. */
    memcpy(bytes, first.reply, RF_CHALLENGE_SIZE);
    memcpy(bytes + RF_CHALLENGE_SIZE, first.verdict.message + RF_HANDSHAKE_HEADER, RF_HANDSHAKE_WHO + RF_HANDSHAKE_MAC);
    assert_false(takes(&first.listener, first.challenge, bytes));
}

TEST(test_versions)
{
    record h = honest_handshake(SIGNED, 1);
    rf_identity newer = h.connector;
    newer.protocol = 2;
    uint8_t reply[RF_REPLY_SIZE];
    size_t size;
    rf_handshake_verdict v;
    /* The connector sees it first, and its header still tells the listener. */
    assert_int_equal(rf_handshake_reply(&newer, "10.0.0.1:99", h.challenge, reply, reply, &size),
                     RF_ERROR_INVALID_ARGUMENT);
    assert_non_null(strstr(rf_error_message(), "10.0.0.1:99 has protocol version 1, this is version 2"));
    assert_int_equal(size, RF_HANDSHAKE_HEADER);
    rf_handshake_screen(&h.listener, "10.0.0.3:41", reply, &v);
    assert_false(v.accepted);
    assert_int_equal(v.weight, RF_REJECTION_UNPROVEN);
    assert_non_null(strstr(v.reason, "10.0.0.3:41 has protocol version 2, this is version 1"));

    h.connector.wire = 9;
    raw_reply(&h.connector, h.challenge, h.reply);
    assert_int_equal(rf_handshake_judge(&h.listener, "x", h.challenge, h.reply, &v), RF_OK);
    assert_int_equal(v.weight, RF_REJECTION_AUTHENTIC);
    char versions[80];
    snprintf(versions, sizeof(versions), "rank 3 has version 9 of the messages, this is version %d", RF_WIRE_VERSION);
    assert_non_null(strstr(v.reason, versions));
    assert_int_equal(conclude(&h, v.message), RF_ERROR_INVALID_ARGUMENT);
    assert_non_null(strstr(rf_error_message(), "rejected this worker: rank 3 has version 9"));
    /* A forged reason is not shown. */
    v.message[RF_HANDSHAKE_HEADER] ^= 1;
    assert_int_equal(conclude(&h, v.message), RF_ERROR_INVALID_ARGUMENT);
    assert_null(strstr(rf_error_message(), "version"));
}

/* A listener that accepts and then turns out to be elsewhere. */
TEST(test_accept_from_elsewhere)
{
    record h = honest_handshake(INSECURE, 1);
    assert_int_equal(conclude(&h, h.verdict.message), RF_OK);
    h.verdict.message[RF_HANDSHAKE_HEADER + 32]++; /* epoch */
    assert_int_equal(conclude(&h, h.verdict.message), RF_ERROR_INVALID_ARGUMENT);
    assert_non_null(strstr(rf_error_message(), "rank 0 is in epoch 8 of the job, this is epoch 7"));
    h.verdict.message[RF_HANDSHAKE_HEADER] = '\n'; /* role */
    assert_int_equal(conclude(&h, h.verdict.message), RF_ERROR_CORRUPT_DATA);
}

TEST(test_unusable_identities)
{
    rf_job job = test_job(SIGNED);
    rf_identity identity;
    rf_hello hello = test_hello(4, 4);
    assert_int_equal(rf_identity_init(&identity, &job, &hello), RF_ERROR_INVALID_ARGUMENT);
    hello = test_hello(3, 4);
    memset(hello.role, 'r', sizeof(hello.role)); /* no end */
    assert_int_equal(rf_identity_init(&identity, &job, &hello), RF_OK);
    assert_int_equal(strlen(identity.hello.role), sizeof(hello.role) - 1);
    hello.role[2] = '\n';
    assert_int_equal(rf_identity_init(&identity, &job, &hello), RF_ERROR_INVALID_ARGUMENT);
    hello = test_hello(3, 4);
    strcpy(job.name, "caf\xc3\xa9");
    assert_int_equal(rf_identity_init(&identity, &job, &hello), RF_ERROR_INVALID_ARGUMENT);
    job = test_job(ENCRYPTED);
    job.secure = false;
    assert_int_equal(rf_identity_init(&identity, &job, &hello), RF_ERROR_INVALID_ARGUMENT);
}

/* ---- frames ---- */

static const uint8_t *key_of(security s)
{
    static const uint8_t key[RF_JOB_KEY_BYTES] = { 42 };
    return s == INSECURE ? NULL : key;
}

/* Appends a frame to `out`; returns its size. */
static size_t write_frame(rf_frame_seal *seal, uint16_t type, const void *bytes, size_t size, uint8_t *out)
{
    size_t used;
    assert_int_equal(rf_frame_seal_header(seal, type, (uint32_t)size, out, &used), RF_OK);
    if (seal->encrypt && size > 0) {
        assert_int_equal(rf_frame_seal_encrypt_begin(seal, out), RF_OK);
        assert_int_equal(rf_frame_seal_encrypt(seal, bytes, size, out + used), RF_OK);
        assert_int_equal(rf_frame_seal_encrypt_end(seal, out + used + size), RF_OK);
    } else if (size > 0) {
        memcpy(out + used, bytes, size);
        if (seal->secure)
            assert_int_equal(rf_frame_seal_body_tag(seal, out, &(rf_bytes){ bytes, size }, 1, out + used + size),
                             RF_OK);
    }
    rf_frame_seal_next(seal);
    return used + size + (size > 0 ? rf_frame_seal_tag_size(seal) : 0);
}

/* Feeds bytes, `step` at most at a time, until a frame is complete (RF_OK), something does not verify, or they end
 * (RF_ERROR_PEER_LOST). */
static rf_result read_frame(rf_frame_reader *reader, const uint8_t **bytes, size_t *size, size_t step)
{
    do {
        void *where;
        size_t want;
        assert_int_equal(rf_frame_reader_want(reader, &where, &want), RF_OK);
        assert_true(want > 0);
        if (*size == 0) return RF_ERROR_PEER_LOST;
        if (want > step) want = step;
        if (want > *size) want = *size;
        memcpy(where, *bytes, want);
        *bytes += want;
        *size -= want;
        const rf_result r = rf_frame_reader_got(reader, want);
        if (r < 0) return r;
    } while (!reader->complete);
    return RF_OK;
}

/* Result of reading one frame out of these bytes, as frame number `sequence`. */
static rf_result read_alone(security s, uint64_t sequence, const uint8_t *bytes, size_t size)
{
    rf_frame_reader reader = { 0 };
    assert_int_equal(rf_frame_seal_init(&reader.seal, key_of(s), s == ENCRYPTED), RF_OK);
    reader.seal.sequence = sequence;
    const rf_result r = read_frame(&reader, &bytes, &size, SIZE_MAX);
    rf_frame_reader_clear(&reader);
    return r;
}

TEST(test_each_bit_of_a_frame)
{
    for (security s = SIGNED; s <= ENCRYPTED; s++) {
        rf_frame_seal seal;
        uint8_t frame[128];
        assert_int_equal(rf_frame_seal_init(&seal, key_of(s), s == ENCRYPTED), RF_OK);
        const size_t size = write_frame(&seal, 77, "some bytes that matter", 22, frame);
        assert_int_equal(read_alone(s, 0, frame, size), RF_OK);
        if (s == ENCRYPTED) assert_memory_not_equal(frame + RF_FRAME_HEAD_MAX, "some bytes that matter", 22);
        for (size_t bit = 0; bit < 8 * size; bit++) {
            frame[bit / 8] ^= (uint8_t)(1u << bit % 8);
            assert_int_equal(read_alone(s, 0, frame, size), RF_ERROR_CORRUPT_DATA);
            frame[bit / 8] ^= (uint8_t)(1u << bit % 8);
        }
        for (size_t cut = 0; cut < size; cut++) assert_int_equal(read_alone(s, 0, frame, cut), RF_ERROR_PEER_LOST);
        rf_frame_seal_clear(&seal);
    }
}

TEST(test_repeated_reordered_and_missing_frames)
{
    for (security s = INSECURE; s <= ENCRYPTED; s++) {
        rf_frame_seal seal;
        uint8_t first[128], second[128];
        assert_int_equal(rf_frame_seal_init(&seal, key_of(s), s == ENCRYPTED), RF_OK);
        const size_t n = write_frame(&seal, 1, "aaaa", 4, first), m = write_frame(&seal, 1, "bbbb", 4, second);
        assert_int_equal(read_alone(s, 0, first, n), RF_OK);
        assert_int_equal(read_alone(s, 1, second, m), RF_OK);
        assert_int_equal(read_alone(s, 1, first, n), RF_ERROR_CORRUPT_DATA);
        assert_int_equal(read_alone(s, 0, second, m), RF_ERROR_CORRUPT_DATA);
        if (s != INSECURE) { /* the body of another frame behind this one's header */
            memcpy(first + RF_FRAME_HEAD_MAX, second + RF_FRAME_HEAD_MAX, m - RF_FRAME_HEAD_MAX);
            assert_int_equal(read_alone(s, 0, first, n), RF_ERROR_CORRUPT_DATA);
            assert_int_equal(read_alone(s == SIGNED ? ENCRYPTED : SIGNED, 1, second, m), RF_ERROR_CORRUPT_DATA);
            uint8_t other[RF_JOB_KEY_BYTES] = { 43 }; /* the other direction's key */
            rf_frame_reader reader = { 0 };
            const uint8_t *bytes = second;
            size_t size = m;
            assert_int_equal(rf_frame_seal_init(&reader.seal, other, s == ENCRYPTED), RF_OK);
            reader.seal.sequence = 1;
            assert_int_equal(read_frame(&reader, &bytes, &size, SIZE_MAX), RF_ERROR_CORRUPT_DATA);
            rf_frame_reader_clear(&reader);
        }
        rf_frame_seal_clear(&seal);
    }
}

/* A header's tag is never good for an empty body: nonces and signed bytes differ. */
TEST(test_tags_of_header_and_body_differ)
{
    for (security s = SIGNED; s <= ENCRYPTED; s++) {
        rf_frame_seal seal;
        uint8_t head[RF_FRAME_HEAD_MAX], tag[RF_FRAME_TAG];
        size_t size;
        assert_int_equal(rf_frame_seal_init(&seal, key_of(s), s == ENCRYPTED), RF_OK);
        assert_int_equal(rf_frame_seal_header(&seal, 1, 0, head, &size), RF_OK);
        if (s == ENCRYPTED) {
            assert_int_equal(rf_frame_seal_encrypt_begin(&seal, head), RF_OK);
            assert_int_equal(rf_frame_seal_encrypt_end(&seal, tag), RF_OK);
        } else {
            assert_int_equal(rf_frame_seal_body_tag(&seal, head, NULL, 0, tag), RF_OK);
        }
        assert_memory_not_equal(tag, head + RF_FRAME_HEADER, RF_FRAME_TAG);
        rf_frame_seal_clear(&seal);
    }
}

/* AES-GCM gives its plaintext away when a key meets a nonce twice. */
TEST(test_encryption_never_repeats)
{
    rf_frame_seal seal;
    uint8_t zeros[64] = { 0 }, frame[4][RF_FRAME_HEAD_MAX + 64 + RF_FRAME_TAG];
    assert_int_equal(rf_frame_seal_init(&seal, key_of(ENCRYPTED), true), RF_OK);
    for (int i = 0; i < 4; i++) write_frame(&seal, 1, zeros, sizeof(zeros), frame[i]);
    for (int i = 0; i < 4; i++)
        for (int k = 0; k < i; k++)
            for (size_t at = 0; at < sizeof(zeros); at += 16)
                assert_memory_not_equal(frame[i] + RF_FRAME_HEAD_MAX + at, frame[k] + RF_FRAME_HEAD_MAX + at, 16);
    rf_frame_seal_clear(&seal);
}

TEST(test_frames_in_fragments)
{
    const size_t big = 300000;
    uint8_t *wire = malloc(3 * (big + 64)), *body = malloc(big);
    assert_true(wire && body);
    for (size_t i = 0; i < big; i++) body[i] = (uint8_t)(i * 2654435761u >> 11);
    for (security s = INSECURE; s <= ENCRYPTED; s++) {
        static const size_t sizes[] = { 0, 1, 300000, 70000, 0, 17 }, steps[] = { 1, 7, 65536, 100001, SIZE_MAX };
        rf_frame_seal seal;
        assert_int_equal(rf_frame_seal_init(&seal, key_of(s), s == ENCRYPTED), RF_OK);
        size_t total = 0;
        for (size_t i = 0; i < 6; i++)
            total += write_frame(&seal, (uint16_t)i, body + i, sizes[i] - (sizes[i] > 9 ? 9 : 0), wire + total);
        for (size_t k = 0; k < 5; k++) {
            rf_frame_reader reader = { 0 };
            const uint8_t *bytes = wire;
            size_t left = total;
            assert_int_equal(rf_frame_seal_init(&reader.seal, key_of(s), s == ENCRYPTED), RF_OK);
            for (size_t i = 0; i < 6; i++) {
                assert_int_equal(read_frame(&reader, &bytes, &left, steps[k]), RF_OK);
                assert_int_equal(reader.type, i);
                assert_int_equal(reader.size, sizes[i] - (sizes[i] > 9 ? 9 : 0));
                if (reader.size) assert_memory_equal(reader.body, body + i, reader.size);
            }
            assert_int_equal(left, 0);
            assert_int_equal(read_frame(&reader, &bytes, &left, 1), RF_ERROR_PEER_LOST);
            assert_false(rf_frame_reader_partial(&reader));
            rf_frame_reader_clear(&reader);
        }
        rf_frame_seal_clear(&seal);
    }
    free(wire);
    free(body);
}

TEST(test_claimed_sizes)
{
    uint8_t head[RF_FRAME_HEAD_MAX];
    size_t size;
    /* An insecure claim costs memory only as far as bytes follow. */
    rf_frame_seal seal;
    assert_int_equal(rf_frame_seal_init(&seal, NULL, false), RF_OK);
    assert_int_equal(rf_frame_seal_header(&seal, 1, RF_FRAME_MAX_BODY, head, &size), RF_OK);
    assert_int_equal(size, RF_FRAME_HEADER);
    rf_frame_reader reader = { 0 };
    const uint8_t *bytes = head;
    assert_int_equal(read_frame(&reader, &bytes, &size, SIZE_MAX), RF_ERROR_PEER_LOST);
    assert_true(reader.capacity <= 65536);
    assert_true(rf_frame_reader_partial(&reader));
    rf_frame_reader_clear(&reader);
    /* Over the limit, whatever it is signed with. */
    for (security s = INSECURE; s <= ENCRYPTED; s++) {
        assert_int_equal(rf_frame_seal_init(&seal, key_of(s), s == ENCRYPTED), RF_OK);
        assert_int_equal(rf_frame_seal_header(&seal, 1, RF_FRAME_MAX_BODY + 1, head, &size), RF_OK);
        assert_int_equal(read_alone(s, 0, head, size), RF_ERROR_CORRUPT_DATA);
        rf_frame_seal_clear(&seal);
    }
}

TESTS(handshake, NULL, NULL)
