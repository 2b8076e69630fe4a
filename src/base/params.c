/* SPDX-License-Identifier: Apache-2.0 */
#include "base/params.h"

#include <stddef.h>

#include <ringfire/ringfire.h>

#include "base/error.h"

/* A row names the structs inside by these. */
#define MEMBER(outer, field, type)                                                                                     \
    {                                                                                                                  \
        &type##_layout, offsetof(outer, field), false                                                                  \
    }
#define POINTER(outer, field, type)                                                                                    \
    {                                                                                                                  \
        &type##_layout, offsetof(outer, field), true                                                                   \
    }
#define ARRAY(outer, field, type, count)                                                                               \
    {                                                                                                                  \
        &type##_layout, offsetof(outer, field), true, offsetof(outer, count)                                           \
    }
#define PARAMS_STRUCT(type, ...)                                                                                       \
    const rf_params_layout type##_layout = {                                                                           \
        .name = #type,                                                                                                 \
        .size = sizeof(type),                                                                                          \
        .reserved = offsetof(type, reserved),                                                                          \
        .words = sizeof(((type *)NULL)->reserved) / sizeof(uint64_t),                                                  \
        .nested = { __VA_ARGS__ },                                                                                     \
    };

#include "params_structs.h"
#undef PARAMS_STRUCT

rf_result rf_params_check_layout(const rf_params_layout *layout, const void *params)
{
    if (!params) return RF_OK;
    const uint8_t *bytes = params;
    const uint64_t *words = (const uint64_t *)(const void *)(bytes + layout->reserved);
    for (size_t i = 0; i < layout->words; i++)
        RF_REQUIRE(words[i] == 0,
                   "%s::reserved is not zero: this program was built against a newer header than library %s, or the "
                   "struct was not zeroed",
                   layout->name, rf_version_string());
    for (const rf_params_nested *n = layout->nested; n->layout; n++) {
        const void *inner = bytes + n->offset;
        if (n->is_pointer) inner = *(const void *const *)inner;
        const uint32_t count = n->count_offset ? *(const uint32_t *)(const void *)(bytes + n->count_offset) : 1;
        RF_TRY(rf_params_check_array(n->layout, inner, count));
    }
    return RF_OK;
}

rf_result rf_params_check_array(const rf_params_layout *layout, const void *items, uint64_t count)
{
    for (uint64_t i = 0; items && i < count; i++)
        RF_TRY(rf_params_check_layout(layout, (const uint8_t *)items + i * layout->size));
    return RF_OK;
}
