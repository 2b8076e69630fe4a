/* SPDX-License-Identifier: Apache-2.0 */
/*
 * SPIR-V leaves it to the driver whether arithmetic keeps signed zeros, infinities and NaNs, and compilers that reckon
 * without them drop tests for them. Kernels rely on IEEE's behaviour, so where a device offers it, each module asks for
 * it when its pipeline is created.
 */
#include <string.h>

#include "gpu/internal.h"

enum {
    HEADER_WORDS = 5,
    VERSION_1_4 = 0x10400, /* from here on the core has what was an extension */
    OP_EXTENSION = 10,
    OP_ENTRY_POINT = 15,
    OP_EXECUTION_MODE = 16,
    OP_CAPABILITY = 17,
    OP_FUNCTION = 54,
    CAPABILITY_PRESERVE = 4466, /* SignedZeroInfNanPreserve */
    MODE_PRESERVE = 4461,
    MODE_WORDS = 4,
};
static const char extension[] = "SPV_KHR_float_controls";
#define EXTENSION_WORDS ((uint32_t)(1 + (sizeof(extension) + 3) / 4))

typedef struct module_parts {
    uint32_t capabilities_end, entry_points, entry_points_end; /* words before; number of; words before */
    bool asks, has_extension;
} module_parts;

/* False: not what it should be; the driver's to refuse. */
static bool find_parts(const uint32_t *words, uint32_t count, module_parts *out)
{
    *out = (module_parts){ .capabilities_end = HEADER_WORDS };
    if (count < HEADER_WORDS || words[0] != 0x07230203) return false;
    for (uint32_t i = HEADER_WORDS; i < count;) {
        const uint32_t length = words[i] >> 16, op = words[i] & 0xFFFF;
        if (length == 0 || length > count - i) return false;
        if (op == OP_FUNCTION) break;
        if (op == OP_CAPABILITY) {
            if (length != 2) return false;
            out->capabilities_end = i + length;
            out->asks = out->asks || words[i + 1] == CAPABILITY_PRESERVE;
        } else if (op == OP_EXTENSION) {
            out->has_extension = out->has_extension || (length == EXTENSION_WORDS &&
                                                        memcmp(words + i + 1, extension, sizeof(extension)) == 0);
        } else if (op == OP_ENTRY_POINT) {
            if (length < 4) return false;
            out->entry_points++;
            out->entry_points_end = i + length;
        }
        i += length;
    }
    return out->entry_points > 0 && out->entry_points_end >= out->capabilities_end;
}

static uint32_t *words_put(uint32_t *to, const uint32_t *from, uint32_t count)
{
    memcpy(to, from, count * sizeof(*to));
    return to + count;
}

rf_result rf_gpu_preserve_nans(const uint32_t *words, uint32_t count, uint32_t **out, uint32_t *out_count)
{
    module_parts parts;
    *out = NULL;
    *out_count = 0;
    if (!find_parts(words, count, &parts) || parts.asks) return RF_OK;
    const bool extend = words[1] < VERSION_1_4 && !parts.has_extension;
    const uint32_t added = 2 + (extend ? EXTENSION_WORDS : 0) + parts.entry_points * MODE_WORDS;
    uint32_t *const grown = RF_NEW_ARRAY(uint32_t, (size_t)count + added), *to = grown;
    if (!grown) return RF_ERROR_OUT_OF_HOST_MEMORY;
    to = words_put(to, words, parts.capabilities_end);
    *to++ = 2u << 16 | OP_CAPABILITY;
    *to++ = CAPABILITY_PRESERVE;
    if (extend) {
        *to++ = EXTENSION_WORDS << 16 | OP_EXTENSION;
        memcpy(to, extension, sizeof(extension)); /* the rest of the last word is zero already */
        to += EXTENSION_WORDS - 1;
    }
    to = words_put(to, words + parts.capabilities_end, parts.entry_points_end - parts.capabilities_end);
    for (uint32_t i = HEADER_WORDS; i < parts.entry_points_end; i += words[i] >> 16) {
        if ((words[i] & 0xFFFF) != OP_ENTRY_POINT) continue;
        const uint32_t mode[MODE_WORDS] = { MODE_WORDS << 16 | OP_EXECUTION_MODE, words[i + 2], MODE_PRESERVE, 32 };
        to = words_put(to, mode, MODE_WORDS);
    }
    words_put(to, words + parts.entry_points_end, count - parts.entry_points_end);
    *out = grown;
    *out_count = count + added;
    return RF_OK;
}
