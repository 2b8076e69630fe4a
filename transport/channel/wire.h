/* SPDX-License-Identifier: Apache-2.0 */
/* Little-endian integers in byte buffers. */
#ifndef RF_TRANSPORT_CHANNEL_WIRE_H
#define RF_TRANSPORT_CHANNEL_WIRE_H

#include <stdint.h>

static inline void rf_put_u16(uint8_t *out, uint16_t value)
{
    out[0] = (uint8_t)value;
    out[1] = (uint8_t)(value >> 8);
}

static inline void rf_put_u32(uint8_t *out, uint32_t value)
{
    rf_put_u16(out, (uint16_t)value);
    rf_put_u16(out + 2, (uint16_t)(value >> 16));
}

static inline void rf_put_u64(uint8_t *out, uint64_t value)
{
    rf_put_u32(out, (uint32_t)value);
    rf_put_u32(out + 4, (uint32_t)(value >> 32));
}

static inline uint16_t rf_get_u16(const uint8_t *in)
{
    return (uint16_t)(in[0] | in[1] << 8);
}
static inline uint32_t rf_get_u32(const uint8_t *in)
{
    return rf_get_u16(in) | (uint32_t)rf_get_u16(in + 2) << 16;
}
static inline uint64_t rf_get_u64(const uint8_t *in)
{
    return rf_get_u32(in) | (uint64_t)rf_get_u32(in + 4) << 32;
}

#endif
