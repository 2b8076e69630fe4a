/* SPDX-License-Identifier: Apache-2.0 */
#include "transport/channel/seal.h"

#include <string.h>

#include <openssl/evp.h>

#include "base/memory.h"

typedef struct direction {
    EVP_CIPHER_CTX *cipher;
    uint64_t number; /* of the next message; never repeats under a key that is derived from fresh nonces */
} direction;

struct rf_seal {
    direction send, receive;
};

static rf_result fail_crypto(const char *what)
{
    return RF_FAIL(RF_ERROR_INTERNAL, "AES-256-GCM: %s failed", what);
}

static rf_result direction_begin(direction *d)
{
    uint8_t iv[12] = { 0 };
    memcpy(iv + 4, &d->number, sizeof(d->number));
    d->number++;
    return EVP_CipherInit_ex(d->cipher, NULL, NULL, NULL, iv, -1) == 1 ? RF_OK : fail_crypto("starting a message");
}

static rf_result direction_prepare(direction *d, const uint8_t *key, int encrypt)
{
    d->cipher = EVP_CIPHER_CTX_new();
    if (!d->cipher) return RF_FAIL(RF_ERROR_OUT_OF_HOST_MEMORY, "no memory for a cipher");
    return EVP_CipherInit_ex(d->cipher, EVP_aes_256_gcm(), NULL, key, NULL, encrypt) == 1 ? RF_OK
                                                                                          : fail_crypto("taking a key");
}

rf_result rf_seal_create(const uint8_t send_key[RF_JOB_KEY_BYTES], const uint8_t receive_key[RF_JOB_KEY_BYTES],
                         rf_seal **out)
{
    *out = NULL;
    rf_seal *seal = RF_NEW(rf_seal);
    if (!seal) return RF_ERROR_OUT_OF_HOST_MEMORY;
    rf_result r = direction_prepare(&seal->send, send_key, 1);
    if (r == RF_OK) r = direction_prepare(&seal->receive, receive_key, 0);
    if (r < 0)
        rf_seal_destroy(&seal);
    else
        *out = seal;
    return r;
}

void rf_seal_destroy(rf_seal **seal)
{
    if (!*seal) return;
    EVP_CIPHER_CTX_free((*seal)->send.cipher);
    EVP_CIPHER_CTX_free((*seal)->receive.cipher);
    rf_free(*seal);
    *seal = NULL;
}

rf_result rf_seal_close(rf_seal *seal, const void *first, size_t first_size, const void *second, size_t second_size,
                        void *out)
{
    EVP_CIPHER_CTX *c = seal->send.cipher;
    uint8_t *o = out;
    int n;
    RF_TRY(direction_begin(&seal->send));
    if (EVP_CipherUpdate(c, o, &n, first, (int)first_size) != 1) return fail_crypto("sealing");
    if (second_size > 0 && EVP_CipherUpdate(c, o + first_size, &n, second, (int)second_size) != 1)
        return fail_crypto("sealing");
    o += first_size + second_size;
    if (EVP_CipherFinal_ex(c, o, &n) != 1) return fail_crypto("sealing");
    return EVP_CIPHER_CTX_ctrl(c, EVP_CTRL_AEAD_GET_TAG, RF_SEAL_BYTES, o) == 1 ? RF_OK : fail_crypto("sealing");
}

rf_result rf_seal_open(rf_seal *seal, const void *data, size_t size, void *out)
{
    EVP_CIPHER_CTX *c = seal->receive.cipher;
    const uint8_t *in = data;
    uint8_t *o = out, tag[RF_SEAL_BYTES], none[RF_SEAL_BYTES];
    int n;
    RF_TRY(direction_begin(&seal->receive));
    if (size < RF_SEAL_BYTES) return RF_FAIL(RF_ERROR_CORRUPT_DATA, "a sealed message of %zu bytes is too short", size);
    size -= RF_SEAL_BYTES;
    memcpy(tag, in + size, sizeof(tag));
    if (EVP_CipherUpdate(c, o, &n, in, (int)size) != 1 ||
        EVP_CIPHER_CTX_ctrl(c, EVP_CTRL_AEAD_SET_TAG, RF_SEAL_BYTES, tag) != 1)
        return fail_crypto("opening");
    if (EVP_CipherFinal_ex(c, none, &n) == 1) return RF_OK;
    return RF_FAIL(RF_ERROR_CORRUPT_DATA, "a sealed message was modified");
}
