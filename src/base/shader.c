/* SPDX-License-Identifier: Apache-2.0 */
#include "base/shader.h"

#include <string.h>

#include "base/memory.h"
#include "base/philox.h"

rf_shader *rf_shader_copy(const char *name, const void *words, uint32_t num_words, uint32_t subgroup_size)
{
    const size_t code = (size_t)num_words * sizeof(uint32_t), length = strlen(name) + 1;
    rf_shader *copy = rf_calloc(1, sizeof(*copy) + code + length);
    if (!copy) return NULL;
    uint32_t *own_words = (uint32_t *)(copy + 1);
    char *own_name = (char *)(own_words + num_words);
    memcpy(own_words, words, code);
    memcpy(own_name, name, length);
    const uint64_t hash = rf_hash_bytes(words, code, rf_hash_bytes(name, length, subgroup_size));
    *copy = (rf_shader){ .name = own_name,
                         .words = own_words,
                         .num_words = num_words,
                         .subgroup_size = subgroup_size,
                         .content = hash ? hash : 1 };
    return copy;
}

bool rf_shader_equal(const rf_shader *a, const rf_shader *b)
{
    if (a == b || a->content == 0 || b->content == 0) return a == b;
    return a->content == b->content && a->num_words == b->num_words && a->subgroup_size == b->subgroup_size &&
           strcmp(a->name, b->name) == 0 && memcmp(a->words, b->words, a->num_words * sizeof(*a->words)) == 0;
}
