/* SPDX-License-Identifier: Apache-2.0 */
/* The proof of a data connection between two ranks, of which its keys are made as well: HMAC-SHA256, under the pair's
 * link key, of purpose, direction and nonces of both ranks. */
#ifndef RF_TRANSPORT_CHANNEL_TOKEN_H
#define RF_TRANSPORT_CHANNEL_TOKEN_H

#include "transport/job/job.h"

#define RF_TOKEN_NONCE 16
#define RF_TOKEN_MAC 32

/* The direction is from rank `from` to rank `to`. False, and zeros in `out`, where OpenSSL fails. */
bool rf_token_derive(const uint8_t key[RF_JOB_KEY_BYTES], const char *purpose, uint32_t from, uint32_t to,
                     const uint8_t from_nonce[RF_TOKEN_NONCE], const uint8_t to_nonce[RF_TOKEN_NONCE],
                     uint8_t out[RF_TOKEN_MAC]);

#endif
