/* SPDX-License-Identifier: Apache-2.0 */
/* How much shared memory a SPIR-V module declares, its specialization constants set. */
#include <string.h>

#include "base/memory.h"
#include "base/shader.h"

enum { /* of SPIR-V's tables */
       HEADER_WORDS = 5,
       OP_TYPE_BOOL = 20,
       OP_TYPE_INT = 21,
       OP_TYPE_FLOAT = 22,
       OP_TYPE_VECTOR = 23,
       OP_TYPE_MATRIX = 24,
       OP_TYPE_ARRAY = 28,
       OP_TYPE_STRUCT = 30,
       OP_TYPE_POINTER = 32,
       OP_CONSTANT = 43,
       OP_SPEC_CONSTANT = 50,
       OP_SPEC_CONSTANT_OP = 52,
       OP_VARIABLE = 59,
       OP_DECORATE = 71,
       DECORATION_SPEC_ID = 1,
       STORAGE_WORKGROUP = 4,
};

/* What is known of an id: the value of a constant, the bytes of a type, or of what a pointer type points to. */
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

/* The 32-bit operations that lengths are computed with. */
static bool operation_compute(uint32_t operation, uint32_t a, uint32_t b, uint32_t *result)
{
    switch (operation) {
    case 128: *result = a + b; return true;                 /* OpIAdd */
    case 130: *result = a - b; return true;                 /* OpISub */
    case 132: *result = a * b; return true;                 /* OpIMul */
    case 134:                                               /* OpUDiv */
    case 135: *result = b ? a / b : 0; return b != 0;       /* OpSDiv, of lengths, which are positive */
    case 137:                                               /* OpUMod */
    case 138:                                               /* OpSRem */
    case 139: *result = b ? a % b : 0; return b != 0;       /* OpSMod */
    case 194:                                               /* OpShiftRightLogical */
    case 195: *result = b < 32 ? a >> b : 0; return b < 32; /* OpShiftRightArithmetic */
    case 196: *result = b < 32 ? a << b : 0; return b < 32; /* OpShiftLeftLogical */
    case 197: *result = a | b; return true;                 /* OpBitwiseOr */
    case 199: *result = a & b; return true;                 /* OpBitwiseAnd */
    default: return false;
    }
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
        a->is_known && b->is_known && operation_compute(w[3], (uint32_t)a->value, (uint32_t)b->value, &result);
    id_set(m, w[2], result, done);
}

static void read_type(module *m, const uint32_t *w, uint32_t count)
{
    uint64_t bytes = 0;
    bool is_known = true;
    switch (w[0] & 0xffff) {
    case OP_TYPE_BOOL: bytes = 4; break;
    case OP_TYPE_INT:
    case OP_TYPE_FLOAT: bytes = w[2] / 8; break;
    case OP_TYPE_VECTOR:
    case OP_TYPE_MATRIX:
        bytes = id_find(m, w[2])->value * w[3];
        is_known = id_find(m, w[2])->is_known;
        break;
    case OP_TYPE_ARRAY:
        bytes = id_find(m, w[2])->value * id_find(m, w[3])->value;
        is_known = id_find(m, w[2])->is_known && id_find(m, w[3])->is_known;
        break;
    case OP_TYPE_STRUCT:
        for (uint32_t i = 2; i < count; i++) {
            bytes += id_find(m, w[i])->value;
            is_known &= id_find(m, w[i])->is_known;
        }
        break;
    case OP_TYPE_POINTER:
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
    if (operation == OP_DECORATE && count == 4 && w[2] == DECORATION_SPEC_ID) id_find(m, w[1])->spec = w[3] + 1;
    if (operation == OP_CONSTANT && count >= 4) id_set(m, w[2], w[3], true);
    if (operation == OP_SPEC_CONSTANT && count >= 4) {
        const uint32_t spec = id_find(m, w[2])->spec;
        id_set(m, w[2], spec > 0 && spec <= m->num_spec ? m->spec[spec - 1] : w[3], true);
    }
    if (operation == OP_SPEC_CONSTANT_OP && count >= 4) read_operation(m, w, count);
    if (operation >= OP_TYPE_BOOL && operation <= OP_TYPE_POINTER) {
        uint32_t least = 4;
        if (operation == OP_TYPE_BOOL || operation == OP_TYPE_STRUCT) least = 2;
        if (operation == OP_TYPE_INT || operation == OP_TYPE_FLOAT) least = 3;
        if (count >= least) read_type(m, w, count);
    }
    if (operation == OP_VARIABLE && count >= 4 && w[3] == STORAGE_WORKGROUP) {
        m->failed |= !id_find(m, w[1])->is_known;
        m->shared += id_find(m, w[1])->value;
    }
}

bool rf_shader_shared_bytes(const rf_shader *shader, const uint32_t *spec, uint32_t num_spec, uint64_t *bytes)
{
    const uint32_t *words = shader->words;
    *bytes = 0;
    if (shader->num_words < HEADER_WORDS || words[3] == 0 || words[3] / 16 > shader->num_words) return false;
    module m = { .bound = words[3], .spec = spec, .num_spec = num_spec };
    m.ids = RF_NEW_ARRAY(known, m.bound);
    if (!m.ids) return false;
    for (uint32_t i = HEADER_WORDS; !m.failed && i < shader->num_words;) {
        const uint32_t count = words[i] >> 16;
        if (count == 0 || count > shader->num_words - i) m.failed = true;
        if (!m.failed) read_instruction(&m, words + i, count);
        i += count;
    }
    rf_free(m.ids);
    *bytes = m.failed ? 0 : m.shared;
    return !m.failed;
}
