/* SPDX-License-Identifier: Apache-2.0 */
/* How much shared memory a SPIR-V module declares, its specialization constants set. */
#include <string.h>

#include "base/memory.h"
#include "base/shader.h"
#include "base/spirv.h"

/* The facts that are known of an id: the value of a constant, the bytes of a type, or of what a pointer type points to.
 */
typedef struct known {
    uint64_t value;
    uint32_t spec; /* number of the specialization constant + 1 */
    bool is_known;
} known;

typedef struct module {
    known *ids;
    uint32_t bound;
    const uint32_t *spec;
    uint32_t num_spec;
    uint64_t shared;
    bool failed;
} module;

/* Id 0 names nothing: what a module that is wrong asks for goes there. */
static known *id_find(module *m, uint32_t id)
{
    if (id < m->bound) return &m->ids[id];
    m->failed = true;
    return &m->ids[0];
}

static void id_set(module *m, uint32_t id, uint64_t value, bool is_known)
{
    id_find(m, id)->value = value;
    id_find(m, id)->is_known = is_known;
}

static void read_operation(module *m, const uint32_t *w, uint32_t count)
{
    uint32_t result = 0;
    if (count != 6) {
        id_set(m, w[2], 0, false);
        return;
    }
    const known *a = id_find(m, w[4]), *b = id_find(m, w[5]);
    const bool done =
        a->is_known && b->is_known && rf_spirv_compute(w[3], (uint32_t)a->value, (uint32_t)b->value, 0, &result);
    id_set(m, w[2], result, done);
}

static void read_type(module *m, const uint32_t *w, uint32_t count)
{
    uint64_t bytes = 0;
    bool is_known = true;
    switch (w[0] & 0xffff) {
    case SPIRV_TYPE_BOOL: bytes = 4; break;
    case SPIRV_TYPE_INT:
    case SPIRV_TYPE_FLOAT: bytes = w[2] / 8; break;
    case SPIRV_TYPE_VECTOR:
    case SPIRV_TYPE_MATRIX:
        bytes = id_find(m, w[2])->value * w[3];
        is_known = id_find(m, w[2])->is_known;
        break;
    case SPIRV_TYPE_ARRAY:
        bytes = id_find(m, w[2])->value * id_find(m, w[3])->value;
        is_known = id_find(m, w[2])->is_known && id_find(m, w[3])->is_known;
        break;
    case SPIRV_TYPE_STRUCT:
        for (uint32_t i = 2; i < count; i++) {
            bytes += id_find(m, w[i])->value;
            is_known &= id_find(m, w[i])->is_known;
        }
        break;
    case SPIRV_TYPE_POINTER:
        bytes = id_find(m, w[3])->value;
        is_known = id_find(m, w[3])->is_known;
        break;
    default: return;
    }
    id_set(m, w[1], bytes, is_known);
}

static void read_instruction(module *m, const uint32_t *w, uint32_t count)
{
    const uint32_t operation = w[0] & 0xffff;
    if (count < 2) return;
    if (operation == SPIRV_DECORATE && count == 4 && w[2] == SPIRV_DECORATION_SPEC_ID)
        id_find(m, w[1])->spec = w[3] + 1;
    if (operation == SPIRV_CONSTANT && count >= 4) id_set(m, w[2], w[3], true);
    if (operation == SPIRV_SPEC_CONSTANT && count >= 4) {
        const uint32_t spec = id_find(m, w[2])->spec;
        id_set(m, w[2], spec > 0 && spec <= m->num_spec ? m->spec[spec - 1] : w[3], true);
    }
    if (operation == SPIRV_SPEC_CONSTANT_OP && count >= 4) read_operation(m, w, count);
    if (operation >= SPIRV_TYPE_BOOL && operation <= SPIRV_TYPE_POINTER) {
        uint32_t least = 4;
        if (operation == SPIRV_TYPE_BOOL || operation == SPIRV_TYPE_STRUCT) least = 2;
        if (operation == SPIRV_TYPE_INT || operation == SPIRV_TYPE_FLOAT) least = 3;
        if (count >= least) read_type(m, w, count);
    }
    if (operation == SPIRV_VARIABLE && count >= 4 && w[3] == SPIRV_STORAGE_WORKGROUP) {
        m->failed |= !id_find(m, w[1])->is_known;
        m->shared += id_find(m, w[1])->value;
    }
}

static bool add_up(const uint32_t *words, uint32_t num_words, const uint32_t *spec, uint32_t num_spec, uint64_t *bytes)
{
    if (num_words < SPIRV_HEADER_WORDS || words[3] == 0 || words[3] / 16 > num_words) return false;
    module m = { .bound = words[3], .spec = spec, .num_spec = num_spec };
    m.ids = RF_NEW_ARRAY(known, m.bound);
    if (!m.ids) return false;
    for (uint32_t i = SPIRV_HEADER_WORDS; !m.failed && i < num_words;) {
        const uint32_t count = words[i] >> 16;
        if (count == 0 || count > num_words - i) m.failed = true;
        if (!m.failed) read_instruction(&m, words + i, count);
        i += count;
    }
    rf_free(m.ids);
    *bytes = m.failed ? 0 : m.shared;
    return !m.failed;
}

bool rf_shader_shared_bytes(const rf_shader *shader, const uint32_t *spec, uint32_t num_spec, uint64_t *bytes)
{
    uint32_t *words;
    *bytes = 0;
    if (rf_shader_read(shader, &words) < 0) return false;
    const bool is_known = add_up(words, shader->num_words, spec, num_spec, bytes);
    rf_free(words);
    return is_known;
}
