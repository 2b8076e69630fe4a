/* SPDX-License-Identifier: Apache-2.0 */
/* Structs that programs pass in end with reserved words. Later versions turn these words into fields, so that sizes and
 * offsets never change. A word that is set may be an option of a newer header, which must not be ignored. */
#ifndef RF_BASE_PARAMS_H
#define RF_BASE_PARAMS_H

#include <stddef.h>

#include <ringfire/common.h>

#include "base/error.h"

/* A setting whose 0 means `fallback`, and RF_ZERO the number zero. */
static inline double rf_setting(double value, double fallback)
{
    return value == 0.0 ? fallback : value == (double)RF_ZERO ? 0.0 : value;
}

/* A setting of which 0 says "none" and zero makes no sense; `fix` is what to do. */
#define RF_REFUSE_ZERO(value, name, fix) RF_REQUIRE((double)(value) != (double)RF_ZERO, "%s is RF_ZERO: %s", name, fix)

#define RF_PARAMS_MAX_NESTED 8

typedef struct rf_params_layout rf_params_layout;
typedef struct rf_params_nested {
    const rf_params_layout *layout;
    size_t offset;
    bool is_pointer;     /* to one struct, or NULL; with `count`: to as many as the uint32_t at that place says */
    size_t count_offset; /* 0: none */
} rf_params_nested;
struct rf_params_layout {
    const char *name;
    size_t size, reserved, words;                  /* bytes, place of the reserved words, their number */
    rf_params_nested nested[RF_PARAMS_MAX_NESTED]; /* ended by a zeroed one */
};

/* The public structs that end in reserved words; include/headers.py writes a row for each from the headers. */
#define PARAMS_STRUCT(type, ...) extern const rf_params_layout type##_layout;
#include "params_structs.h"
#undef PARAMS_STRUCT

/* RF_ERROR_INVALID_ARGUMENT names the struct, or the one inside it, whose reserved words are not zero. NULL is fine. */
#define RF_PARAMS_CHECK(type, params) rf_params_check_layout(&type##_layout, 1 ? (params) : (const type *)NULL)
rf_result rf_params_check_layout(const rf_params_layout *layout, const void *params);
/* The same for an array of structs. */
#define RF_PARAMS_CHECK_ALL(type, items, count)                                                                        \
    rf_params_check_array(&type##_layout, 1 ? (items) : (const type *)NULL, count)
rf_result rf_params_check_array(const rf_params_layout *layout, const void *items, uint64_t count);

#endif
