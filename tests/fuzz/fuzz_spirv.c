/* SPDX-License-Identifier: Apache-2.0 */
/* The reader of SPIR-V modules: what it says of one is within what the adapter of the caller's ops relies on. */
#include <string.h>

#include "fuzz.h"
#include "trace/spirv.h"

FUZZ_TARGET(spirv)
{
    rf_spirv_info info;
    uint32_t *words = malloc(size ? size : 1);
    PROMISE(words);
    if (size) memcpy(words, data, size);
    const rf_result r = rf_spirv_read("op", words, size, &info);
    free(words);
    if (r < 0) {
        promise_message();
        PROMISE(strstr(rf_error_message(), "op") != NULL);
        return 0;
    }
    PROMISE(r == RF_OK && info.num_capabilities <= RF_SPIRV_MAX_CAPABILITIES);
    PROMISE(info.constant_ids >> 24 == 0 && (info.size_ids & ~(info.constant_ids & 7)) == 0);
    for (int k = 0; k < 3; k++) PROMISE(info.local_size[k] > 0);
    for (int i = 0; i < RF_SPIRV_MAX_BINDINGS; i++) PROMISE(info.bindings[i].present || !info.bindings[i].readonly);
    return 0;
}
