/* SPDX-License-Identifier: Apache-2.0 */
/* The numbers are those of the SPIR-V specification, sections 3.1 to 3.52. */
#include "trace/spirv.h"

#include <string.h>

#include "base/error.h"
#include "base/memory.h"

enum {
    MAGIC = 0x07230203,
    MOST_VERSION = 0x00010600,
    HEADER_WORDS = 5,
    IDS_PER_WORD = 4, /* of modules whose numbers are nearly compact */
};
enum {
    OP_ENTRY_POINT = 15,
    OP_EXECUTION_MODE = 16,
    OP_CAPABILITY = 17,
    OP_TYPE_BOOL = 20,
    OP_TYPE_INT = 21,
    OP_TYPE_FLOAT = 22,
    OP_TYPE_VECTOR = 23,
    OP_TYPE_MATRIX = 24,
    OP_TYPE_ARRAY = 28,
    OP_TYPE_STRUCT = 30,
    OP_TYPE_POINTER = 32,
    OP_CONSTANT = 43,
    OP_CONSTANT_COMPOSITE = 44,
    OP_SPEC_CONSTANT = 50,
    OP_SPEC_CONSTANT_COMPOSITE = 51,
    OP_VARIABLE = 59,
    OP_DECORATE = 71,
    OP_MEMBER_DECORATE = 72,
    OP_LOOP_MERGE = 246,
    OP_EXECUTION_MODE_ID = 331,
};
enum { DECORATION_SPEC_ID = 1, DECORATION_BLOCK = 2, DECORATION_BUFFER_BLOCK = 3, DECORATION_BUILT_IN = 11 };
enum { DECORATION_NON_WRITABLE = 24, DECORATION_BINDING = 33, DECORATION_SET = 34, DECORATION_OFFSET = 35 };
enum { STORAGE_UNIFORM_CONSTANT = 0, STORAGE_UNIFORM = 2, STORAGE_WORKGROUP = 4, STORAGE_PUSH_CONSTANT = 9 };
enum { STORAGE_STORAGE_BUFFER = 12, STORAGE_IMAGE = 11 };
enum { MODEL_COMPUTE = 5, MODE_LOCAL_SIZE = 17, MODE_LOCAL_SIZE_ID = 38, BUILT_IN_WORKGROUP_SIZE = 25 };

/* All that the reader knows of an id. */
typedef struct spirv_id {
    uint64_t size;    /* of a type, in bytes */
    uint32_t target;  /* of a pointer: the type that it points to */
    uint32_t value;   /* of a constant */
    uint32_t members; /* of a struct */
    uint32_t fixed;   /* of a struct: members that must not be written */
    uint32_t spec_id, binding, set;
    uint32_t words; /* where it is defined */
    bool has_spec_id, has_binding, has_set, block, buffer_block, non_writable, is_constant, is_struct, is_composite;
    bool is_size; /* decorated as the size of the workgroup */
} spirv_id;

typedef struct module {
    const char *name;
    const uint32_t *words;
    size_t count;
    uint32_t bound;
    spirv_id *ids;
    uint32_t entry_points, size_id, modes, mode_ids[3], push_variables;
    rf_spirv_info *info;
} module;

static rf_result fail_malformed(const module *m, size_t at, const char *what)
{
    return RF_FAIL(RF_ERROR_INVALID_ARGUMENT,
                   "%s: the SPIR-V is malformed: %s at word %zu; check the file with spirv-val", m->name, what, at);
}

static spirv_id *id_of(const module *m, uint32_t id)
{
    return &m->ids[id < m->bound ? id : 0]; /* number 0 is no id: what is written there is lost */
}

static uint64_t add_sizes(uint64_t a, uint64_t b)
{
    return a > UINT64_MAX - b ? UINT64_MAX : a + b;
}

static uint64_t multiply_sizes(uint64_t a, uint64_t b)
{
    return b != 0 && a > UINT64_MAX / b ? UINT64_MAX : a * b;
}

/* ---- instructions; `w` has `n` words, the first of which is the instruction's own ---- */

static rf_result read_entry_point(module *m, const uint32_t *w, uint32_t n)
{
    RF_REQUIRE(n >= 4 && w[1] == MODEL_COMPUTE,
               "%s: the SPIR-V has an entry point of another stage; compile a compute shader (.comp)", m->name);
    RF_REQUIRE(memcmp(&w[3], "main\0", 4) == 0 && n >= 5 && w[4] == 0,
               "%s: the entry point is not called 'main'; compile without -e", m->name);
    RF_REQUIRE(++m->entry_points == 1, "%s: the SPIR-V has several entry points; compile one shader alone", m->name);
    return RF_OK;
}

static rf_result read_capability(module *m, uint32_t capability)
{
    rf_spirv_info *info = m->info;
    for (uint32_t i = 0; i < info->num_capabilities; i++)
        if (info->capabilities[i] == capability) return RF_OK;
    RF_REQUIRE(info->num_capabilities < RF_SPIRV_MAX_CAPABILITIES, "%s: the SPIR-V declares over %d capabilities",
               m->name, RF_SPIRV_MAX_CAPABILITIES);
    info->capabilities[info->num_capabilities++] = capability;
    return RF_OK;
}

static void read_mode(module *m, const uint32_t *w, uint32_t n)
{
    if (n < 6 || (w[2] != MODE_LOCAL_SIZE && w[2] != MODE_LOCAL_SIZE_ID)) return;
    m->modes = w[2];
    for (uint32_t k = 0; k < 3; k++) {
        if (m->modes == MODE_LOCAL_SIZE) m->info->local_size[k] = w[3 + k];
        m->mode_ids[k] = w[3 + k];
    }
}

static void read_decoration(const module *m, const uint32_t *w, uint32_t n)
{
    spirv_id *id = id_of(m, w[1]);
    const uint32_t value = n > 3 ? w[3] : 0;
    switch (w[2]) {
    case DECORATION_SPEC_ID:
        id->has_spec_id = true;
        id->spec_id = value;
        break;
    case DECORATION_BLOCK: id->block = true; break;
    case DECORATION_BUFFER_BLOCK: id->buffer_block = true; break;
    case DECORATION_BUILT_IN: id->is_size = id->is_size || (n > 3 && value == BUILT_IN_WORKGROUP_SIZE); break;
    case DECORATION_NON_WRITABLE: id->non_writable = true; break;
    case DECORATION_BINDING:
        id->has_binding = true;
        id->binding = value;
        break;
    case DECORATION_SET:
        id->has_set = true;
        id->set = value;
        break;
    default: break;
    }
}

/* Members' sizes without padding; what offsets say is found out for the one struct that needs it. */
static void read_struct(const module *m, const uint32_t *w, uint32_t n)
{
    spirv_id *id = id_of(m, w[1]);
    uint64_t size = 0;
    for (uint32_t i = 2; i < n; i++) size = add_sizes(size, id_of(m, w[i])->size);
    id->size = size;
    id->members = n - 2;
    id->is_struct = true;
}

static void read_type(const module *m, uint32_t op, const uint32_t *w, uint32_t n)
{
    spirv_id *id = id_of(m, w[1]);
    const uint32_t first = n > 2 ? w[2] : 0, second = n > 3 ? w[3] : 0;
    switch (op) {
    case OP_TYPE_BOOL: id->size = 4; break;
    case OP_TYPE_INT:
    case OP_TYPE_FLOAT: id->size = first / 8; break;
    case OP_TYPE_VECTOR:
    case OP_TYPE_MATRIX: id->size = multiply_sizes(id_of(m, first)->size, second); break;
    case OP_TYPE_ARRAY: id->size = multiply_sizes(id_of(m, first)->size, id_of(m, second)->value); break;
    case OP_TYPE_STRUCT: read_struct(m, w, n); break;
    default: /* a pointer */ id->target = second; break;
    }
}

static rf_result read_constant(module *m, const uint32_t *w, uint32_t n)
{
    spirv_id *id = id_of(m, w[2]);
    id->is_constant = true;
    id->value = n > 3 ? w[3] : 0;
    return RF_OK;
}

static void read_composite(module *m, const uint32_t *w, uint32_t n, uint32_t at)
{
    spirv_id *id = id_of(m, w[2]);
    id->is_composite = n == 6;
    id->words = at;
    if (id->is_size) m->size_id = w[2];
}

/* Bytes of a push-constant block, by the offsets of its members. */
static uint64_t block_extent(const module *m, uint32_t struct_id, const uint32_t *members, uint32_t num_members)
{
    uint64_t extent = 0;
    for (size_t at = HEADER_WORDS; at < m->count; at += m->words[at] >> 16) {
        const uint32_t *w = &m->words[at];
        if ((w[0] & 0xffff) != OP_MEMBER_DECORATE || w[0] >> 16 < 5) continue;
        if (w[1] != struct_id || w[3] != DECORATION_OFFSET || w[2] >= num_members) continue;
        const uint64_t end = add_sizes(w[4], id_of(m, members[w[2]])->size);
        if (end > extent) extent = end;
    }
    return extent;
}

static rf_result read_push_block(module *m, uint32_t struct_id)
{
    RF_REQUIRE(++m->push_variables == 1, "%s: the SPIR-V has several push-constant blocks", m->name);
    for (size_t at = HEADER_WORDS; at < m->count; at += m->words[at] >> 16) {
        const uint32_t *w = &m->words[at];
        if ((w[0] & 0xffff) != OP_TYPE_STRUCT || w[0] >> 16 < 2 || w[1] != struct_id) continue;
        m->info->push_size = block_extent(m, struct_id, &w[2], (w[0] >> 16) - 2);
        return RF_OK;
    }
    return fail_malformed(m, 0, "the push constants are no struct");
}

static rf_result read_buffer(module *m, const spirv_id *variable, const spirv_id *type)
{
    RF_REQUIRE(type->is_struct && variable->has_binding && variable->binding < RF_SPIRV_MAX_BINDINGS,
               "%s: the SPIR-V has a buffer without a binding from 0 to %d", m->name, RF_SPIRV_MAX_BINDINGS - 1);
    RF_REQUIRE(!variable->has_set || variable->set == 0, "%s: binding %u is in set %u; ops have set 0 only", m->name,
               variable->binding, variable->set);
    const bool readonly = variable->non_writable || (type->members > 0 && type->fixed >= type->members);
    rf_spirv_binding *binding = &m->info->bindings[variable->binding];
    binding->readonly = readonly && (!binding->present || binding->readonly);
    binding->present = true;
    return RF_OK;
}

static rf_result read_variable(module *m, const uint32_t *w)
{
    const spirv_id *variable = id_of(m, w[2]);
    const uint32_t struct_id = id_of(m, w[1])->target;
    const spirv_id *type = id_of(m, struct_id);
    switch (w[3]) {
    case STORAGE_STORAGE_BUFFER: return read_buffer(m, variable, type);
    case STORAGE_UNIFORM:
        RF_REQUIRE(type->buffer_block, "%s: the shader has a uniform block; declare it `buffer`, or use push constants",
                   m->name);
        return read_buffer(m, variable, type);
    case STORAGE_UNIFORM_CONSTANT:
    case STORAGE_IMAGE:
        return RF_FAIL(RF_ERROR_INVALID_ARGUMENT, "%s: the shader has images or samplers; ops have buffers only",
                       m->name);
    case STORAGE_PUSH_CONSTANT: return read_push_block(m, struct_id);
    case STORAGE_WORKGROUP: m->info->shared_size = add_sizes(m->info->shared_size, type->size); return RF_OK;
    default: return RF_OK;
    }
}

static rf_result read_instruction(module *m, size_t at)
{
    const uint32_t *w = &m->words[at], op = w[0] & 0xffff, n = w[0] >> 16;
    switch (op) {
    case OP_ENTRY_POINT: return read_entry_point(m, w, n);
    case OP_CAPABILITY: return n == 2 ? read_capability(m, w[1]) : fail_malformed(m, at, "a capability");
    case OP_EXECUTION_MODE:
    case OP_EXECUTION_MODE_ID: read_mode(m, w, n); return RF_OK;
    case OP_DECORATE:
        if (n < 3) return fail_malformed(m, at, "a decoration");
        read_decoration(m, w, n);
        return RF_OK;
    case OP_MEMBER_DECORATE:
        if (n < 4) return fail_malformed(m, at, "a decoration");
        if (w[3] == DECORATION_NON_WRITABLE) id_of(m, w[1])->fixed++;
        return RF_OK;
    case OP_TYPE_BOOL:
    case OP_TYPE_INT:
    case OP_TYPE_FLOAT:
    case OP_TYPE_VECTOR:
    case OP_TYPE_MATRIX:
    case OP_TYPE_ARRAY:
    case OP_TYPE_STRUCT:
    case OP_TYPE_POINTER:
        if (n < 2) return fail_malformed(m, at, "a type");
        read_type(m, op, w, n);
        return RF_OK;
    case OP_CONSTANT:
    case OP_SPEC_CONSTANT: return n >= 4 ? read_constant(m, w, n) : fail_malformed(m, at, "a constant");
    case OP_CONSTANT_COMPOSITE:
    case OP_SPEC_CONSTANT_COMPOSITE:
        if (n < 3) return fail_malformed(m, at, "a constant");
        read_composite(m, w, n, (uint32_t)at);
        return RF_OK;
    case OP_VARIABLE: return n >= 4 ? read_variable(m, w) : fail_malformed(m, at, "a variable");
    case OP_LOOP_MERGE: m->info->loops = true; return RF_OK;
    default: return RF_OK;
    }
}

/* Every instruction lies within the module. */
static rf_result check_lengths(const module *m)
{
    for (size_t at = HEADER_WORDS; at < m->count;) {
        const uint32_t n = m->words[at] >> 16;
        if (n == 0 || n > m->count - at) return fail_malformed(m, at, "an instruction of a wrong length");
        at += n;
    }
    return RF_OK;
}

static void take_size(module *m, const uint32_t *ids)
{
    for (uint32_t k = 0; k < 3; k++) {
        const spirv_id *id = id_of(m, ids[k]);
        m->info->local_size[k] = id->value;
        if (id->has_spec_id && id->spec_id == k) m->info->size_ids |= 1u << k;
    }
}

static rf_result finish_module(module *m)
{
    if (m->entry_points == 0) return fail_malformed(m, HEADER_WORDS, "there is no entry point");
    if (m->size_id && id_of(m, m->size_id)->is_composite)
        take_size(m, &m->words[id_of(m, m->size_id)->words + 3]);
    else if (m->modes == MODE_LOCAL_SIZE_ID)
        take_size(m, m->mode_ids);
    for (uint32_t k = 0; k < 3; k++)
        if (m->info->local_size[k] == 0) return fail_malformed(m, HEADER_WORDS, "the workgroup has no size");
    for (uint32_t i = 0; i < m->bound; i++) {
        if (!m->ids[i].has_spec_id) continue;
        RF_REQUIRE(m->ids[i].spec_id < 24, "%s: specialization constant %u; numbers go up to 23", m->name,
                   m->ids[i].spec_id);
        m->info->constant_ids |= 1u << m->ids[i].spec_id;
    }
    return RF_OK;
}

static rf_result read_all(module *m)
{
    RF_TRY(check_lengths(m));
    for (size_t at = HEADER_WORDS; at < m->count; at += m->words[at] >> 16) RF_TRY(read_instruction(m, at));
    return finish_module(m);
}

rf_result rf_spirv_read(const char *name, const uint32_t *words, size_t size, rf_spirv_info *out)
{
    memset(out, 0, sizeof(*out));
    module m = { .name = name, .words = words, .count = size / sizeof(uint32_t), .info = out };
    RF_REQUIRE(size >= HEADER_WORDS * sizeof(uint32_t) && size % sizeof(uint32_t) == 0 && size <= UINT32_MAX,
               "%s: %zu bytes are no SPIR-V module; pass the whole .spv file", name, size);
    RF_REQUIRE(words[0] == MAGIC, "%s: the bytes are no SPIR-V of this machine's byte order; pass the .spv file", name);
    out->version = words[1];
    RF_REQUIRE(words[1] <= MOST_VERSION, "%s: SPIR-V %u.%u is newer than 1.6; compile with --target-env vulkan1.1",
               name, words[1] >> 16, words[1] >> 8 & 0xff);
    m.bound = words[3];
    if (m.bound == 0 || m.bound / IDS_PER_WORD > m.count)
        return RF_FAIL(RF_ERROR_INVALID_ARGUMENT,
                       "%s: the SPIR-V numbers its ids up to %u, but has %zu words; run spirv-opt --compact-ids", name,
                       m.bound, m.count);
    m.ids = RF_NEW_ARRAY(spirv_id, m.bound);
    if (!m.ids) return RF_ERROR_OUT_OF_HOST_MEMORY;
    const rf_result r = read_all(&m);
    rf_free(m.ids);
    return r;
}
