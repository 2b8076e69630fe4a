/* SPDX-License-Identifier: Apache-2.0 */
#include "transport/channel/token.h"

#include <string.h>

#include <openssl/evp.h>
#include <openssl/hmac.h>

bool rf_token_derive(const uint8_t key[RF_JOB_KEY_BYTES], const char *purpose, uint32_t from, uint32_t to,
                     const uint8_t from_nonce[RF_TOKEN_NONCE], const uint8_t to_nonce[RF_TOKEN_NONCE],
                     uint8_t out[RF_TOKEN_MAC])
{
    struct {
        char purpose[24];
        uint32_t from, to;
        uint8_t nonces[2][RF_TOKEN_NONCE];
    } text = { { 0 }, from, to, { { 0 } } };
    strncpy(text.purpose, purpose, sizeof(text.purpose) - 1);
    memcpy(text.nonces[0], from_nonce, RF_TOKEN_NONCE);
    memcpy(text.nonces[1], to_nonce, RF_TOKEN_NONCE);
    unsigned size = RF_TOKEN_MAC;
    const bool done =
        HMAC(EVP_sha256(), key, RF_JOB_KEY_BYTES, (const unsigned char *)&text, sizeof(text), out, &size) != NULL;
    if (!done) memset(out, 0, RF_TOKEN_MAC);
    return done;
}
