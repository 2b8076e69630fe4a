/* SPDX-License-Identifier: Apache-2.0 */
/* AES-256-GCM over the messages of one data connection. Messages are numbered on both sides; one that is missing,
 * repeated, modified or of another connection fails to open. */
#ifndef RF_TRANSPORT_CHANNEL_SEAL_H
#define RF_TRANSPORT_CHANNEL_SEAL_H

#include "transport/job/job.h"

#define RF_SEAL_BYTES 16 /* that a sealed message is longer */

typedef struct rf_seal rf_seal;
rf_result rf_seal_create(const uint8_t send_key[RF_JOB_KEY_BYTES], const uint8_t receive_key[RF_JOB_KEY_BYTES],
                         rf_seal **out);
void rf_seal_destroy(rf_seal **seal);
/* Seals two buffers (the second may be empty) into `out`, which takes their bytes and RF_SEAL_BYTES. */
rf_result rf_seal_close(rf_seal *seal, const void *first, size_t first_size, const void *second, size_t second_size,
                        void *out);
/* Opens `size` bytes, RF_SEAL_BYTES among them, into `out`, which may be `data`. RF_ERROR_CORRUPT_DATA. */
rf_result rf_seal_open(rf_seal *seal, const void *data, size_t size, void *out);

#endif
