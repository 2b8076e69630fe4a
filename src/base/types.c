/* SPDX-License-Identifier: Apache-2.0 */
/* Element types, shapes, version: the value types of common.h. */
#include <inttypes.h>
#include <stdio.h>

#include <ringfire/common.h>
#include <ringfire/dataset.h>
#include <ringfire/version.h>

#include "base/memory.h"

static const struct {
    const char *name;
    size_t size;
} dtypes[RF_DTYPE_COUNT] = {
    [RF_DTYPE_INVALID] = { "invalid", 0 },
    [RF_F32] = { "f32", 4 },
    [RF_F16] = { "f16", 2 },
    [RF_BF16] = { "bf16", 2 },
    [RF_I32] = { "i32", 4 },
    [RF_U8] = { "u8", 1 },
    [RF_I64] = { "i64", 8 },
};

size_t rf_dtype_size(rf_dtype dtype)
{
    return (unsigned)dtype < RF_DTYPE_COUNT ? dtypes[dtype].size : 0;
}

const char *rf_dtype_name(rf_dtype dtype)
{
    return (unsigned)dtype < RF_DTYPE_COUNT ? dtypes[dtype].name : "invalid";
}

int64_t rf_shape_count(rf_shape shape)
{
    if (shape.rank < 0 || shape.rank > RF_MAX_RANK) return -1;
    int64_t count = 1;
    bool overflow = false, zero = false;
    for (int32_t i = 0; i < shape.rank; i++) {
        if (shape.dim[i] < 0) return -1;
        if (shape.dim[i] == 0)
            zero = true;
        else if (__builtin_mul_overflow(count, shape.dim[i], &count))
            overflow = true;
    }
    if (zero) return 0;
    return overflow ? -1 : count;
}

bool rf_shape_equal(rf_shape a, rf_shape b)
{
    if (a.rank != b.rank || a.rank < 0 || a.rank > RF_MAX_RANK) return false;
    for (int32_t i = 0; i < a.rank; i++)
        if (a.dim[i] != b.dim[i]) return false;
    return true;
}

const char *rf_shape_format(rf_shape shape, char *buf, size_t size)
{
    if (!buf || size == 0) return "";
    buf[0] = '\0';
    size_t used = 0;
    const int32_t rank = shape.rank < 0 ? 0 : shape.rank > RF_MAX_RANK ? RF_MAX_RANK : shape.rank;
    for (int32_t i = -1; i < rank; i++) {
        const int n = i < 0 ? snprintf(buf, size, "[")
                            : snprintf(buf + used, size - used, "%s%" PRId64, i ? "," : "", shape.dim[i]);
        if (n < 0 || used + (size_t)n >= size) return buf;
        used += (size_t)n;
    }
    snprintf(buf + used, size - used, "]");
    return buf;
}

void rf_string_free(char *text)
{
    rf_free(text);
}

uint32_t rf_version_number(void)
{
    return RF_VERSION_NUMBER;
}

const char *rf_version_string(void)
{
    return RF_VERSION_STRING;
}

int64_t rf_element_global_rows(const rf_element *batch)
{
    if (!batch) return 0;
    if (batch->global_rows > 0) return batch->global_rows;
    return batch->num_components > 0 && batch->component[0].shape.rank > 0 ? batch->component[0].shape.dim[0] : 0;
}
