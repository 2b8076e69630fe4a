/* SPDX-License-Identifier: Apache-2.0 */
/* An embedded SPIR-V module. The build generates one `const rf_shader rf_shader_<name>` per entry of shaders/. */
#ifndef RF_BASE_SHADER_H
#define RF_BASE_SHADER_H

#include <stdint.h>

typedef struct rf_shader {
    const char *name;
    const uint32_t *words;
    uint32_t num_words;
    uint32_t subgroup_size; /* > 0: needs a workgroup that is exactly one full subgroup of this size */
} rf_shader;

#endif
