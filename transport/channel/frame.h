/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Frames of a channel as bytes, without sockets: one seal per direction authenticates (and encrypts) the bytes written
 * or read. On the wire, integers little-endian:
 *
 *   header  16   body size u32, type u16, zero u16, sequence u64
 *   tag     16   over the header; keyed jobs only
 *   body    size
 *   tag     16   over header and body; keyed jobs only, and only when the body is not empty
 *
 * Tags are AES-256-GCM's, over the body's ciphertext when the job encrypts, else over the plain body (GMAC: several
 * times as fast as HMAC on processors with AES instructions, and as secure where no nonce is used twice). The header
 * has a tag of its own so that its size is authenticated before a body is allocated or waited for.
 */
#ifndef RF_TRANSPORT_CHANNEL_FRAME_H
#define RF_TRANSPORT_CHANNEL_FRAME_H

#include <openssl/evp.h>

#include "transport/channel/channel.h"

#define RF_FRAME_HEADER 16
#define RF_FRAME_TAG 16
#define RF_FRAME_HEAD_MAX (RF_FRAME_HEADER + RF_FRAME_TAG)
#define RF_FRAME_MAX_BODY (256u << 20)

/* One direction of a connection. Without a key tags have no bytes and nothing but the sequence is checked. */
typedef struct rf_frame_seal {
    bool secure, encrypt;
    uint64_t sequence; /* of the frame that is being written or read */
    EVP_CIPHER_CTX *cipher;
} rf_frame_seal;

/* `key` NULL: frames without tags. */
rf_result rf_frame_seal_init(rf_frame_seal *seal, const uint8_t *key, bool encrypt);
void rf_frame_seal_clear(rf_frame_seal *seal);
static inline size_t rf_frame_seal_tag_size(const rf_frame_seal *seal)
{
    return seal->secure ? RF_FRAME_TAG : 0;
}

/* Writing one frame: header, then body, then next. `head` gets header and tag, *head_size bytes. */
rf_result rf_frame_seal_header(rf_frame_seal *seal, uint16_t type, uint32_t size, uint8_t head[RF_FRAME_HEAD_MAX],
                               size_t *head_size);
/* Tag of a body that travels in the clear; keyed, not encrypted. */
rf_result rf_frame_seal_body_tag(rf_frame_seal *seal, const uint8_t *head, const rf_bytes *parts, uint32_t num_parts,
                                 uint8_t tag[RF_FRAME_TAG]);
/* Encrypted body, chunk by chunk. */
rf_result rf_frame_seal_encrypt_begin(rf_frame_seal *seal, const uint8_t *head);
rf_result rf_frame_seal_encrypt(rf_frame_seal *seal, const void *plain, size_t size, uint8_t *out);
rf_result rf_frame_seal_encrypt_end(rf_frame_seal *seal, uint8_t tag[RF_FRAME_TAG]);
static inline void rf_frame_seal_next(rf_frame_seal *seal)
{
    seal->sequence++;
}

/* Reads frames from bytes as they arrive. Zero-initialised but for `seal`. */
typedef struct rf_frame_reader {
    rf_frame_seal seal;
    uint8_t head[RF_FRAME_HEAD_MAX];
    size_t have; /* bytes of the head, or of body and tag once the head is complete */
    bool in_body, complete;
    uint16_t type;
    uint32_t size;
    uint8_t *body;
    size_t capacity;
} rf_frame_reader;

/* Where the next bytes go and how many at most; never more than the frame has. Forgets a completed frame. */
rf_result rf_frame_reader_want(rf_frame_reader *reader, void **where, size_t *size);
/* `count` bytes were put there. Sets reader->complete with a verified frame's type, body and size.
 * RF_ERROR_CORRUPT_DATA when something does not verify. */
rf_result rf_frame_reader_got(rf_frame_reader *reader, size_t count);
/* Whether a frame has begun to arrive. */
bool rf_frame_reader_partial(const rf_frame_reader *reader);
void rf_frame_reader_clear(rf_frame_reader *reader);

#endif
