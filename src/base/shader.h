/* SPDX-License-Identifier: Apache-2.0 */
/* SPIR-V modules. The build generates one `const rf_shader rf_shader_<name>` per entry of shaders/; programs bring
 * others. */
#ifndef RF_BASE_SHADER_H
#define RF_BASE_SHADER_H

#include <stdbool.h>
#include <stdint.h>

#include <ringfire/common.h>

/* A subgroup size that no device has: full subgroups, of as many lanes as the device's have. */
enum { RF_FULL_SUBGROUPS = 1 };

typedef struct rf_shader {
    const char *name;
    const uint32_t *words; /* of one that a program brought; NULL: the module is packed. rf_shader_read() has both */
    const uint8_t *packed; /* the form of base/module_words.h, compressed by zstd */
    uint32_t num_packed, num_words;
    uint32_t subgroup_size; /* > 0: needs full subgroups of this size, or RF_FULL_SUBGROUPS */
    uint32_t push_size;     /* bytes of its push constants; 0: it has none, or a program brought it */
    uint64_t content;       /* hash of one that does not live as long as the process: what keeps it keeps a copy. 0: its
                               address tells it from all others */
} rf_shader;

/* The module's words, in a new array for rf_free(). Any thread may ask. RF_ERROR_INTERNAL where what is packed is
 * damaged. */
rf_result rf_shader_read(const rf_shader *shader, uint32_t **words);
/* A shader of a program, with its name, in one block for rf_free(). NULL where there is no memory. */
rf_shader *rf_shader_copy(const char *name, const void *words, uint32_t num_words, uint32_t subgroup_size);
/* Bytes of shared memory that it declares, with these specialization constants by number; false where that cannot be
 * told. Pure. */
bool rf_shader_shared_bytes(const rf_shader *shader, const uint32_t *spec, uint32_t num_spec, uint64_t *bytes);
/* One is as good as the other. */
bool rf_shader_equal(const rf_shader *a, const rf_shader *b);

#endif
