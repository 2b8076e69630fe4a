/* SPDX-License-Identifier: Apache-2.0 */
#ifndef RF_REPLICA_STORE_HASH_H
#define RF_REPLICA_STORE_HASH_H

#include <stdint.h>

/* Hash of floats by their bits. Arrays of one length that differ in a single float always have different ones. Not for
 * adversaries. */
uint64_t rf_hash_floats(const float *values, uint64_t count);

#endif
