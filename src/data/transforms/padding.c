/* SPDX-License-Identifier: Apache-2.0 */
#include "data/transforms/padding.h"

#include <math.h>
#include <string.h>

rf_result rf_pad_number_encode(const char *function, uint32_t c, rf_dtype dtype, double value, rf_pad_number *out)
{
    if (dtype == RF_F32) {
        const float f = (float)value;
        memcpy(out->bytes, &f, sizeof(f));
        return RF_OK;
    }
    const double least = dtype == RF_I32 ? INT32_MIN : 0, most = dtype == RF_I32 ? INT32_MAX : UINT8_MAX;
    RF_REQUIRE(dtype == RF_I32 || dtype == RF_U8, "%s: component %u is %s; f32, i32 and u8 can be padded", function, c,
               rf_dtype_name(dtype));
    RF_REQUIRE(value >= least && value <= most && value == floor(value),
               "%s: component %u is %s, which cannot be padded with %g", function, c, rf_dtype_name(dtype), value);
    const int32_t number = (int32_t)value;
    if (dtype == RF_I32)
        memcpy(out->bytes, &number, sizeof(number));
    else
        out->bytes[0] = (unsigned char)number;
    return RF_OK;
}

void rf_pad_number_fill(const rf_pad_number *padding, rf_dtype dtype, void *to, size_t size)
{
    const size_t each = rf_dtype_size(dtype);
    for (size_t at = 0; at < size; at += each) memcpy((char *)to + at, padding->bytes, each);
}
