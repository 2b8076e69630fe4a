/* SPDX-License-Identifier: Apache-2.0 */
#include "base/shader.h"

#include <string.h>

#include <zstd.h>
#include <zstd_errors.h>

#include "base/error.h"
#include "base/memory.h"
#include "base/module_words.h"
#include "base/philox.h"

static rf_result fail_damaged(const rf_shader *shader)
{
    return RF_FAIL(RF_ERROR_INTERNAL, "shader '%s': the library's copy of it is damaged; install the library again",
                   shader->name);
}

static rf_result module_unpack(const rf_shader *shader, uint32_t *words)
{
    const unsigned long long size = ZSTD_getFrameContentSize(shader->packed, shader->num_packed);
    /* Operations, lengths and operands take up to five bytes each. */
    if (size > ((uint64_t)shader->num_words + 1) * 10) return fail_damaged(shader);
    uint8_t *form = rf_calloc(1, size);
    if (!form) return RF_ERROR_OUT_OF_HOST_MEMORY;
    const size_t done = ZSTD_decompress(form, size, shader->packed, shader->num_packed);
    const bool is_whole = done == size && rf_module_words(form, size, words, shader->num_words);
    rf_free(form);
    if (ZSTD_getErrorCode(done) == ZSTD_error_memory_allocation)
        return RF_FAIL(RF_ERROR_OUT_OF_HOST_MEMORY, "shader '%s': no memory to unpack it", shader->name);
    return is_whole ? RF_OK : fail_damaged(shader);
}

rf_result rf_shader_read(const rf_shader *shader, uint32_t **words)
{
    *words = RF_NEW_ARRAY(uint32_t, shader->num_words);
    if (!*words) return RF_ERROR_OUT_OF_HOST_MEMORY;
    if (shader->words) {
        memcpy(*words, shader->words, shader->num_words * sizeof(**words));
        return RF_OK;
    }
    const rf_result r = module_unpack(shader, *words);
    if (r == RF_OK) return RF_OK;
    rf_free(*words);
    *words = NULL;
    return r;
}

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
