/* SPDX-License-Identifier: Apache-2.0 */
#include "transport/channel/frame.h"

#include <limits.h>
#include <string.h>

#include "base/memory.h"
#include "transport/channel/wire.h"

/* The part that a tag covers. It is part of the nonce, so that a frame's two tags have two. */
enum { PART_HEADER = 0, PART_BODY = 1 };
/* Insecure frames: the size is anybody's claim, so memory follows the bytes that really come. */
#define UNPROVEN_STEP ((size_t)64 << 10)
/* EVP takes int lengths, and tags go behind bodies. */
_Static_assert(RF_FRAME_MAX_BODY <= INT_MAX - RF_FRAME_TAG, "a body must fit an int");

static rf_result crypto_failure(void)
{
    return RF_FAIL(RF_ERROR_INTERNAL, "OpenSSL could not authenticate or encrypt a frame");
}

rf_result rf_frame_seal_init(rf_frame_seal *seal, const uint8_t *key, bool encrypt)
{
    *seal = (rf_frame_seal){ .secure = key != NULL, .encrypt = key && encrypt };
    if (!key) return RF_OK;
    EVP_CIPHER *gcm = EVP_CIPHER_fetch(NULL, "AES-256-GCM", NULL);
    if (gcm) seal->cipher = EVP_CIPHER_CTX_new();
    const bool good = seal->cipher && EVP_CipherInit_ex2(seal->cipher, gcm, key, NULL, 1, NULL) == 1;
    EVP_CIPHER_free(gcm);
    if (good) return RF_OK;
    rf_frame_seal_clear(seal);
    return crypto_failure();
}

void rf_frame_seal_clear(rf_frame_seal *seal)
{
    EVP_CIPHER_CTX_free(seal->cipher);
    *seal = (rf_frame_seal){ 0 };
}

/* ---- AES-256-GCM; with nothing encrypted it is GMAC (NIST SP 800-38D) ---- */

/* The nonce is never used twice: each direction of each connection has its own key, each frame its own number. */
static bool gcm_begin(rf_frame_seal *seal, uint8_t part, const uint8_t *header, int encrypt)
{
    uint8_t nonce[12] = { part };
    rf_put_u64(nonce + 4, seal->sequence);
    int n;
    return EVP_CipherInit_ex2(seal->cipher, NULL, NULL, nonce, encrypt, NULL) == 1 &&
           EVP_CipherUpdate(seal->cipher, NULL, &n, header, RF_FRAME_HEADER) == 1;
}

/* `out` NULL: authenticates without encrypting. */
static bool gcm_update(rf_frame_seal *seal, const void *in, size_t size, uint8_t *out)
{
    int n = 0;
    return size == 0 || EVP_CipherUpdate(seal->cipher, out, &n, in, (int)size) == 1;
}

static bool gcm_tag(rf_frame_seal *seal, uint8_t tag[RF_FRAME_TAG])
{
    uint8_t none[16];
    int n;
    return EVP_CipherFinal_ex(seal->cipher, none, &n) == 1 &&
           EVP_CIPHER_CTX_ctrl(seal->cipher, EVP_CTRL_AEAD_GET_TAG, RF_FRAME_TAG, tag) == 1;
}

/* False when the tag does not fit. */
static bool gcm_verify(rf_frame_seal *seal, const uint8_t tag[RF_FRAME_TAG])
{
    uint8_t none[16], expected[RF_FRAME_TAG];
    int n;
    memcpy(expected, tag, sizeof(expected));
    return EVP_CIPHER_CTX_ctrl(seal->cipher, EVP_CTRL_AEAD_SET_TAG, RF_FRAME_TAG, expected) == 1 &&
           EVP_CipherFinal_ex(seal->cipher, none, &n) == 1;
}

/* ---- writing ---- */

rf_result rf_frame_seal_header(rf_frame_seal *seal, uint16_t type, uint32_t size, uint8_t head[RF_FRAME_HEAD_MAX],
                               size_t *head_size)
{
    rf_put_u32(head, size);
    rf_put_u16(head + 4, type);
    rf_put_u16(head + 6, 0);
    rf_put_u64(head + 8, seal->sequence);
    *head_size = RF_FRAME_HEADER + rf_frame_seal_tag_size(seal);
    if (!seal->secure) return RF_OK;
    return gcm_begin(seal, PART_HEADER, head, 1) && gcm_tag(seal, head + RF_FRAME_HEADER) ? RF_OK : crypto_failure();
}

rf_result rf_frame_seal_body_tag(rf_frame_seal *seal, const uint8_t *head, const rf_bytes *parts, uint32_t num_parts,
                                 uint8_t tag[RF_FRAME_TAG])
{
    bool good = gcm_begin(seal, PART_BODY, head, 1);
    for (uint32_t i = 0; good && i < num_parts; i++) good = gcm_update(seal, parts[i].data, parts[i].size, NULL);
    return good && gcm_tag(seal, tag) ? RF_OK : crypto_failure();
}

rf_result rf_frame_seal_encrypt_begin(rf_frame_seal *seal, const uint8_t *head)
{
    return gcm_begin(seal, PART_BODY, head, 1) ? RF_OK : crypto_failure();
}

rf_result rf_frame_seal_encrypt(rf_frame_seal *seal, const void *plain, size_t size, uint8_t *out)
{
    return gcm_update(seal, plain, size, out) ? RF_OK : crypto_failure();
}

rf_result rf_frame_seal_encrypt_end(rf_frame_seal *seal, uint8_t tag[RF_FRAME_TAG])
{
    return gcm_tag(seal, tag) ? RF_OK : crypto_failure();
}

/* ---- reading ---- */

static rf_result open_header(rf_frame_reader *reader)
{
    rf_frame_seal *seal = &reader->seal;
    const uint8_t *head = reader->head;
    if (seal->secure && !(gcm_begin(seal, PART_HEADER, head, 0) && gcm_verify(seal, head + RF_FRAME_HEADER)))
        return RF_FAIL(RF_ERROR_CORRUPT_DATA,
                       "a frame's header does not verify: it was changed, repeated or left out on the way");
    reader->size = rf_get_u32(head);
    reader->type = rf_get_u16(head + 4);
    const uint64_t sequence = rf_get_u64(head + 8);
    if (sequence != seal->sequence)
        return RF_FAIL(RF_ERROR_CORRUPT_DATA, "frame %llu arrived instead of frame %llu", (unsigned long long)sequence,
                       (unsigned long long)seal->sequence);
    if (reader->size > RF_FRAME_MAX_BODY || rf_get_u16(head + 6) != 0)
        return RF_FAIL(RF_ERROR_CORRUPT_DATA, "a frame's header claims a body of %u bytes; the limit is %u",
                       reader->size, RF_FRAME_MAX_BODY);
    return RF_OK;
}

static rf_result open_body(rf_frame_reader *reader)
{
    rf_frame_seal *seal = &reader->seal;
    /* Decrypted in place; the bytes are used only if the tag is right. */
    uint8_t *plain = seal->encrypt ? reader->body : NULL;
    if (seal->secure &&
        !(gcm_begin(seal, PART_BODY, reader->head, 0) && gcm_update(seal, reader->body, reader->size, plain) &&
          gcm_verify(seal, reader->body + reader->size)))
        return RF_FAIL(RF_ERROR_CORRUPT_DATA, "a frame's body does not verify: it was changed on the way");
    return RF_OK;
}

/* Room for `need` bytes of body and tag; keeps the first `have`. */
static rf_result reserve_body(rf_frame_reader *reader, size_t need, size_t have)
{
    if (need <= reader->capacity) return RF_OK;
    uint8_t *bigger = rf_calloc(1, need);
    if (!bigger) return RF_ERROR_OUT_OF_HOST_MEMORY;
    if (have > 0) memcpy(bigger, reader->body, have);
    rf_free(reader->body);
    reader->body = bigger;
    reader->capacity = need;
    return RF_OK;
}

rf_result rf_frame_reader_want(rf_frame_reader *reader, void **where, size_t *size)
{
    if (reader->complete) {
        reader->complete = reader->in_body = false;
        reader->have = 0;
    }
    const size_t tag = rf_frame_seal_tag_size(&reader->seal);
    if (!reader->in_body) {
        *where = reader->head + reader->have;
        *size = RF_FRAME_HEADER + tag - reader->have;
        return RF_OK;
    }
    const size_t total = reader->size + tag;
    size_t room = total;
    if (!reader->seal.secure && room > reader->capacity) {
        const size_t step = 2 * reader->have > UNPROVEN_STEP ? 2 * reader->have : UNPROVEN_STEP;
        room = reader->have < reader->capacity ? reader->capacity : step < total ? step : total;
    }
    RF_TRY(reserve_body(reader, room, reader->have));
    *where = reader->body + reader->have;
    *size = room - reader->have;
    return RF_OK;
}

static void complete_frame(rf_frame_reader *reader)
{
    reader->complete = true;
    rf_frame_seal_next(&reader->seal);
}

rf_result rf_frame_reader_got(rf_frame_reader *reader, size_t count)
{
    const size_t tag = rf_frame_seal_tag_size(&reader->seal);
    reader->have += count;
    if (!reader->in_body) {
        if (reader->have < RF_FRAME_HEADER + tag) return RF_OK;
        RF_TRY(open_header(reader));
        reader->have = 0;
        reader->in_body = true;
        if (reader->size == 0) complete_frame(reader);
        return RF_OK;
    }
    if (reader->have < reader->size + tag) return RF_OK;
    RF_TRY(open_body(reader));
    complete_frame(reader);
    return RF_OK;
}

bool rf_frame_reader_partial(const rf_frame_reader *reader)
{
    return !reader->complete && (reader->have > 0 || reader->in_body);
}

void rf_frame_reader_clear(rf_frame_reader *reader)
{
    rf_frame_seal_clear(&reader->seal);
    rf_free(reader->body);
    *reader = (rf_frame_reader){ 0 };
}
