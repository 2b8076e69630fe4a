/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A module with its specialization constants set, without what these make unreachable or unused.
 *
 * Drivers translate a whole module before they look at the constants. The element-wise shader writes out every function
 * for every step of a program, products every activation for every element, so that most of what a driver reads is what
 * it drops again: for a pipeline whose machine code was kept from an earlier run that is most of its time.
 *
 * Branches of selections on a known condition become jumps; loops and switches stay as they are. A module in which
 * something is not understood is left to the driver whole.
 *
 * A loop's bounds are plain now to whatever unrolls loops that ask for it. SwiftShader does so without a limit: modules
 * of a few kilobytes take gigabytes. There these loops ask for nothing: they stay the loops that they are for it where
 * a constant of specialization bounds them.
 */
#include <string.h>

#include "base/spirv.h"
#include "gpu/internal.h"

/* Knowledge of an id. */
typedef struct id_known {
    uint32_t at;    /* where it is defined, in words; 0: nowhere */
    uint32_t value; /* where is_known: a boolean, or a constant of 32 bits */
    uint32_t alias; /* another id that says the same; 0: none */
    uint32_t block; /* of a label */
    uint32_t spec;  /* number of the specialization constant + 1 */
    bool is_known;
    bool in_function, needed; /* defined there; for what has effects */
    bool is_written;
} id_known;

typedef struct code_block {
    uint32_t label, begin, end; /* words behind the label; the terminator's begin */
    uint32_t merge;             /* where the merge instruction stands; 0: none */
    uint32_t target;            /* label that a selection on a known condition jumps to; 0: as it was */
    uint32_t edges;             /* that come in */
    uint32_t joins;             /* label of the block at whose end this one's instructions go; 0: none */
    bool reachable, anchored;   /* anchored: it is named by a merge instruction that stays */
    bool is_way_out;            /* blocks without a merge instruction of their own choose it */
} code_block;

enum { SWAPS_HALVES = 31 }; /* the constant of shaders/include/write_fours.glsl */

typedef struct module {
    const uint32_t *words, *spec;
    uint32_t count, num_spec, bound, body; /* body: where the function begins */
    id_known *ids;
    code_block *blocks;
    uint32_t num_blocks;
    uint32_t *stack;
    uint32_t *out, out_count;
    uint32_t rules; /* rf_module_rules */
    bool failed;    /* something is not understood */
} module;

static uint32_t code_at(const module *m, uint32_t at)
{
    return m->words[at] & 0xffff;
}

static uint32_t length_at(const module *m, uint32_t at)
{
    return m->words[at] >> 16;
}

/* Id 0 names nothing: what a module that is wrong asks for goes there. */
static id_known *id_find(module *m, uint32_t id)
{
    if (id < m->bound) return &m->ids[id];
    m->failed = true;
    return &m->ids[0];
}

static uint32_t id_resolve(module *m, uint32_t id)
{
    while (id_find(m, id)->alias) id = id_find(m, id)->alias;
    return id;
}

static code_block *block_of(module *m, uint32_t label)
{
    const id_known *id = id_find(m, label);
    if (id->at > 0 && code_at(m, id->at) == SPIRV_LABEL) return &m->blocks[id->block];
    m->failed = true;
    return &m->blocks[0];
}

/* ---- reading ---- */

static void constant_read(module *m, uint32_t at, bool is_word)
{
    const uint32_t *w = m->words + at, length = length_at(m, at);
    id_known *id = id_find(m, w[2]);
    switch (code_at(m, at)) {
    case SPIRV_CONSTANT_TRUE:
    case SPIRV_CONSTANT_FALSE:
        id->value = code_at(m, at) == SPIRV_CONSTANT_TRUE;
        id->is_known = true;
        break;
    case SPIRV_SPEC_CONSTANT_TRUE:
    case SPIRV_SPEC_CONSTANT_FALSE:
        id->value = code_at(m, at) == SPIRV_SPEC_CONSTANT_TRUE;
        if (id->spec > 0 && id->spec <= m->num_spec) id->value = m->spec[id->spec - 1] != 0;
        if (id->spec == SWAPS_HALVES + 1 && m->rules & RF_PLAIN_STORES) id->value = false;
        id->is_known = true;
        break;
    case SPIRV_CONSTANT:
    case SPIRV_SPEC_CONSTANT:
        if (!is_word) {
            m->failed |= code_at(m, at) == SPIRV_SPEC_CONSTANT;
            break;
        }
        id->value = w[3];
        if (code_at(m, at) == SPIRV_SPEC_CONSTANT && id->spec > 0 && id->spec <= m->num_spec)
            id->value = m->spec[id->spec - 1];
        id->is_known = true;
        break;
    case SPIRV_SPEC_CONSTANT_OP: {
        uint32_t value;
        if (w[3] == SPIRV_COMPOSITE_EXTRACT && length == 6) {
            const uint32_t from = id_find(m, w[4])->at;
            if (from == 0 || w[5] + 3 >= length_at(m, from)) break;
            const id_known *part = id_find(m, m->words[from + 3 + w[5]]);
            id->value = part->value;
            id->is_known = is_word && part->is_known;
        } else if (is_word && length >= 5 && length <= 7) {
            const id_known *a = id_find(m, w[4]), *b = id_find(m, w[length > 5 ? 5 : 4]),
                           *c = id_find(m, w[length - 1]);
            if (a->is_known && b->is_known && c->is_known &&
                rf_spirv_compute(w[3], a->value, b->value, c->value, &value)) {
                id->value = value;
                id->is_known = true;
            }
        }
        break;
    }
    default: break;
    }
}

/* True for booleans and numbers of 32 bits, whatever their kind. */
static bool type_is_word(module *m, uint32_t type)
{
    const uint32_t at = id_find(m, type)->at;
    if (at == 0) return false;
    const uint32_t code = code_at(m, at);
    return code == SPIRV_TYPE_BOOL || ((code == SPIRV_TYPE_INT || code == SPIRV_TYPE_FLOAT) && m->words[at + 2] == 32);
}

/* Everything before the function. */
static void read_declarations(module *m)
{
    uint32_t at = SPIRV_HEADER_WORDS;
    for (; at < m->count && !m->failed && code_at(m, at) != SPIRV_FUNCTION; at += length_at(m, at)) {
        const uint32_t *w = m->words + at, length = length_at(m, at), code = code_at(m, at);
        if (code == SPIRV_DECORATE && length == 4 && w[2] == SPIRV_DECORATION_SPEC_ID)
            id_find(m, w[1])->spec = w[3] + 1;
        if (rf_spirv_is_type(code)) {
            if (length < (code == SPIRV_TYPE_INT || code == SPIRV_TYPE_FLOAT ? 3u : 2u))
                m->failed = true;
            else
                id_find(m, w[1])->at = at;
        } else if (rf_spirv_is_constant(code)) {
            if (length <
                (code == SPIRV_CONSTANT || code == SPIRV_SPEC_CONSTANT || code == SPIRV_SPEC_CONSTANT_OP ? 4u : 3u)) {
                m->failed = true;
            } else {
                id_find(m, w[2])->at = at;
                constant_read(m, at, type_is_word(m, w[1]));
            }
        }
    }
    m->body = at;
}

/* Where the blocks are, and all that is defined in them. One function, as the shaders have it after inlining. */
static void read_blocks(module *m)
{
    code_block *block = NULL;
    for (uint32_t at = m->body; at < m->count && !m->failed; at += length_at(m, at)) {
        const uint32_t code = code_at(m, at), length = length_at(m, at);
        spirv_shape shape;
        if (!rf_spirv_shape(code, &shape) || length < shape.least) {
            m->failed = true;
            break;
        }
        if (code == SPIRV_FUNCTION || code == SPIRV_FUNCTION_END) {
            m->failed |= at != m->body && code == SPIRV_FUNCTION;
            continue;
        }
        if (code == SPIRV_LABEL) {
            m->failed |= block != NULL;
            id_known *label = id_find(m, m->words[at + 1]);
            m->failed |= label->at > 0;
            label->at = at;
            label->in_function = label->needed = true;
            label->block = m->num_blocks;
            block = &m->blocks[m->num_blocks++];
            *block = (code_block){ .label = m->words[at + 1], .begin = at + length };
            continue;
        }
        if (!block) {
            m->failed = true;
            break;
        }
        if (shape.results > 0) {
            id_known *id = id_find(m, m->words[at + shape.results]);
            m->failed |= id->at > 0;
            id->at = at;
            id->in_function = true;
        }
        if (code == SPIRV_LOOP_MERGE || code == SPIRV_SELECTION_MERGE) block->merge = at;
        if (shape.ends_block) {
            block->end = at;
            block = NULL;
        }
    }
    m->failed |= block != NULL || m->num_blocks == 0;
}

/* ---- which way control goes ---- */

enum { MOST_SUCCESSORS = 16 };

/* Labels that the end of a block names, with what was decided: at most `room`; the number. */
static uint32_t block_successors(module *m, const code_block *block, uint32_t *labels, uint32_t room)
{
    if (block->target) {
        labels[0] = block->target;
        return 1;
    }
    const uint32_t *w = m->words + block->end, length = length_at(m, block->end);
    uint32_t count = 0;
    switch (code_at(m, block->end)) {
    case SPIRV_BRANCH: labels[count++] = w[1]; break;
    case SPIRV_BRANCH_CONDITIONAL:
        labels[count++] = w[2];
        labels[count++] = w[3];
        break;
    case SPIRV_SWITCH:
        labels[count++] = w[2];
        for (uint32_t i = 4; i < length; i += 2) {
            if (count < room)
                labels[count++] = w[i];
            else
                m->failed = true;
        }
        break;
    default: break;
    }
    return count;
}

/* A selection must stay where blocks without a merge instruction of their own leave it. */
static void ways_out_find(module *m)
{
    uint32_t labels[MOST_SUCCESSORS];
    for (uint32_t i = 0; i < m->num_blocks && !m->failed; i++) {
        const code_block *block = &m->blocks[i];
        if (block->merge) continue;
        const uint32_t count = block_successors(m, block, labels, MOST_SUCCESSORS);
        for (uint32_t k = 0; count > 1 && k < count; k++) block_of(m, labels[k])->is_way_out = true;
    }
}

static void blocks_visit(module *m)
{
    for (uint32_t i = 0; i < m->num_blocks; i++) {
        m->blocks[i].reachable = m->blocks[i].anchored = false;
        m->blocks[i].edges = 0;
    }
    uint32_t depth = 0, labels[MOST_SUCCESSORS + 2];
    m->stack[depth++] = 0;
    m->blocks[0].reachable = true;
    while (depth > 0 && !m->failed) {
        code_block *block = &m->blocks[m->stack[--depth]];
        uint32_t count = block_successors(m, block, labels, MOST_SUCCESSORS);
        for (uint32_t i = 0; i < count; i++) block_of(m, labels[i])->edges++;
        if (block->merge && !block->target) {
            /* The label that a merge instruction names must be there. */
            labels[count++] = m->words[block->merge + 1];
            if (code_at(m, block->merge) == SPIRV_LOOP_MERGE) labels[count++] = m->words[block->merge + 2];
            for (uint32_t i = 0; i < (code_at(m, block->merge) == SPIRV_LOOP_MERGE ? 2u : 1u); i++)
                block_of(m, m->words[block->merge + 1 + i])->anchored = true;
        }
        for (uint32_t i = 0; i < count; i++) {
            code_block *next = block_of(m, labels[i]);
            if (next->reachable) continue;
            next->reachable = true;
            m->stack[depth++] = (uint32_t)(next - m->blocks);
        }
    }
}

static bool edge_exists(module *m, uint32_t from, const code_block *to)
{
    uint32_t labels[MOST_SUCCESSORS];
    const code_block *block = block_of(m, from);
    const uint32_t count = block->reachable ? block_successors(m, block, labels, MOST_SUCCESSORS) : 0;
    for (uint32_t i = 0; i < count; i++)
        if (labels[i] == to->label) return true;
    return false;
}

/* ---- what values are ---- */

static void phi_learn(module *m, const code_block *block, uint32_t at)
{
    const uint32_t *w = m->words + at, length = length_at(m, at);
    uint32_t same = 0;
    for (uint32_t i = 3; i + 1 < length; i += 2) {
        if (!edge_exists(m, w[i + 1], block)) continue;
        const uint32_t value = id_resolve(m, w[i]);
        if (same && value != same) return;
        same = value;
    }
    if (same && same != w[2]) id_find(m, w[2])->alias = same;
}

static void value_learn(module *m, uint32_t at)
{
    const uint32_t *w = m->words + at, length = length_at(m, at), code = code_at(m, at);
    if (length < 4 || length > 6) return;
    id_known *id = id_find(m, w[2]);
    uint32_t ids[3], value;
    for (uint32_t i = 0; i < 3; i++) ids[i] = id_resolve(m, w[3 + i < length ? 3 + i : length - 1]);
    const id_known *a = id_find(m, ids[0]), *b = id_find(m, ids[1]), *c = id_find(m, ids[2]);
    if (code == SPIRV_SELECT) {
        if (a->is_known) id->alias = a->value ? ids[1] : ids[2];
    } else if (code == SPIRV_LOGICAL_AND || code == SPIRV_LOGICAL_OR) {
        const uint32_t decides = code == SPIRV_LOGICAL_OR;
        if (a->is_known)
            id->alias = a->value == decides ? ids[0] : ids[1];
        else if (b->is_known)
            id->alias = b->value == decides ? ids[1] : ids[0];
    } else if (a->is_known && b->is_known && c->is_known && type_is_word(m, w[1]) &&
               rf_spirv_compute(code, a->value, b->value, c->value, &value)) {
        id->value = value;
        id->is_known = true;
    }
}

/* Whether a branch was decided that was not before. */
static bool branches_decide(module *m)
{
    bool decided = false;
    for (uint32_t i = 0; i < m->num_blocks && !m->failed; i++) {
        code_block *block = &m->blocks[i];
        if (!block->reachable) continue;
        for (uint32_t at = block->begin; at < block->end; at += length_at(m, at)) {
            spirv_shape shape;
            rf_spirv_shape(code_at(m, at), &shape);
            const id_known *id = shape.results == 2 ? id_find(m, m->words[at + 2]) : NULL;
            if (!id || id->is_known || id->alias) continue;
            if (code_at(m, at) == SPIRV_PHI)
                phi_learn(m, block, at);
            else
                value_learn(m, at);
        }
        if (block->target || !block->merge || code_at(m, block->merge) != SPIRV_SELECTION_MERGE ||
            code_at(m, block->end) != SPIRV_BRANCH_CONDITIONAL || block_of(m, m->words[block->merge + 1])->is_way_out)
            continue;
        const uint32_t *w = m->words + block->end;
        const id_known *condition = id_find(m, id_resolve(m, w[1]));
        if (!condition->is_known) continue;
        block->target = condition->value ? w[2] : w[3];
        decided = true;
    }
    return decided;
}

/* ---- what is needed ---- */

static void id_need(module *m, uint32_t name, uint32_t *depth)
{
    id_known *id = id_find(m, id_resolve(m, name));
    if (id->needed || !id->in_function) return;
    id->needed = true;
    m->stack[(*depth)++] = id->at;
}

static void operands_need(module *m, uint32_t at, uint32_t *depth)
{
    const uint32_t *w = m->words + at, length = length_at(m, at);
    spirv_shape shape;
    rf_spirv_shape(code_at(m, at), &shape);
    for (uint32_t i = 1 + shape.results; i < length; i++)
        if (rf_spirv_is_id(&shape, i - 1 - shape.results)) id_need(m, w[i], depth);
}

static void needs_follow(module *m, uint32_t depth)
{
    while (depth > 0 && !m->failed) {
        const uint32_t at = m->stack[--depth];
        if (code_at(m, at) != SPIRV_PHI) {
            operands_need(m, at, &depth);
            continue;
        }
        /* A value whose edge is gone is not asked for: which block this is in, the edges tell. */
        for (uint32_t i = 3; i + 1 < length_at(m, at); i += 2) {
            const code_block *from = block_of(m, m->words[at + i + 1]);
            if (from->reachable) id_need(m, m->words[at + i], &depth);
        }
    }
}

static void values_need(module *m)
{
    for (uint32_t i = 0; i < m->num_blocks && !m->failed; i++) {
        const code_block *block = &m->blocks[i];
        if (!block->reachable) continue;
        for (uint32_t at = block->begin; at <= block->end && !m->failed; at += length_at(m, at)) {
            spirv_shape shape;
            rf_spirv_shape(code_at(m, at), &shape);
            if (shape.pure || (at == block->end && block->target)) continue;
            uint32_t depth = 0;
            if (shape.results > 0) id_find(m, m->words[at + shape.results])->needed = true;
            operands_need(m, at, &depth);
            needs_follow(m, depth);
        }
    }
}

/* A block that only one jump leads to goes to that jump's place. */
static void blocks_join(module *m)
{
    for (uint32_t i = 0; i < m->num_blocks && !m->failed; i++) {
        const code_block *block = &m->blocks[i];
        if (!block->reachable || (block->merge && !block->target)) continue;
        if (!block->target && code_at(m, block->end) != SPIRV_BRANCH) continue;
        code_block *next = block_of(m, block->target ? block->target : m->words[block->end + 1]);
        if (next->edges == 1 && !next->anchored && next != block && next != m->blocks) next->joins = block->label;
    }
}

/* ---- writing ---- */

static void words_put(module *m, const uint32_t *words, uint32_t count)
{
    if (m->failed || count > m->count - m->out_count) {
        m->failed = true; /* what is left is never longer than what there was */
        return;
    }
    memcpy(m->out + m->out_count, words, count * sizeof(*words));
    m->out_count += count;
}

static void constant_put(module *m, uint32_t at)
{
    const uint32_t *w = m->words + at, code = code_at(m, at);
    const id_known *id = id_find(m, w[2]);
    if (code == SPIRV_SPEC_CONSTANT_COMPOSITE) {
        const uint32_t head = length_at(m, at) << 16 | SPIRV_CONSTANT_COMPOSITE;
        words_put(m, &head, 1);
        words_put(m, w + 1, length_at(m, at) - 1);
    } else if (rf_spirv_is_spec(code) && id->is_known) {
        const bool is_bool = code_at(m, id_find(m, w[1])->at) == SPIRV_TYPE_BOOL;
        const uint32_t truth[] = { 3u << 16 | (id->value ? SPIRV_CONSTANT_TRUE : SPIRV_CONSTANT_FALSE), w[1], w[2] };
        const uint32_t number[] = { 4u << 16 | SPIRV_CONSTANT, w[1], w[2], id->value };
        if (is_bool)
            words_put(m, truth, 3);
        else
            words_put(m, number, 4);
    } else {
        words_put(m, w, length_at(m, at));
    }
}

static void declarations_put(module *m)
{
    words_put(m, m->words, SPIRV_HEADER_WORDS);
    for (uint32_t at = SPIRV_HEADER_WORDS; at < m->body && !m->failed; at += length_at(m, at)) {
        const uint32_t *w = m->words + at, code = code_at(m, at);
        if ((code == SPIRV_DECORATE || code == SPIRV_NAME) && length_at(m, at) >= 3) {
            const id_known *id = id_find(m, w[1]);
            if (id->in_function && !id->needed) continue;
            if (code == SPIRV_DECORATE && w[2] == SPIRV_DECORATION_SPEC_ID) continue;
        }
        if (rf_spirv_is_constant(code))
            constant_put(m, at);
        else
            words_put(m, w, length_at(m, at));
    }
}

static uint32_t block_home(module *m, uint32_t label)
{
    while (block_of(m, label)->joins) label = block_of(m, label)->joins;
    return label;
}

static void phi_put(module *m, const code_block *block, uint32_t at)
{
    const uint32_t *w = m->words + at, head = m->out_count;
    words_put(m, w, 3);
    for (uint32_t i = 3; i + 1 < length_at(m, at); i += 2) {
        if (!edge_exists(m, w[i + 1], block)) continue;
        const uint32_t pair[] = { id_resolve(m, w[i]), block_home(m, w[i + 1]) };
        words_put(m, pair, 2);
    }
    if (m->failed) return;
    m->failed = m->out_count == head + 3;
    m->out[head] = (m->out_count - head) << 16 | SPIRV_PHI;
}

static void instruction_put(module *m, uint32_t at)
{
    const uint32_t length = length_at(m, at), head = m->out_count;
    spirv_shape shape;
    rf_spirv_shape(code_at(m, at), &shape);
    words_put(m, m->words + at, length);
    if (m->failed) return;
    for (uint32_t i = 1 + shape.results; i < length; i++) {
        if (!rf_spirv_is_id(&shape, i - 1 - shape.results)) continue;
        m->out[head + i] = id_resolve(m, m->words[at + i]);
    }
    if (m->rules & RF_KEEP_LOOPS && code_at(m, at) == SPIRV_LOOP_MERGE && length > 3)
        m->out[head + 3] &= ~(uint32_t)SPIRV_LOOP_UNROLL;
}

/* The block's instructions, and those of what joins it; the label is written already. */
static void block_put(module *m, const code_block *block)
{
    for (;;) {
        for (uint32_t at = block->begin; at < block->end && !m->failed; at += length_at(m, at)) {
            spirv_shape shape;
            rf_spirv_shape(code_at(m, at), &shape);
            if (at == block->merge && block->target) continue;
            if (shape.pure && (id_find(m, m->words[at + 2])->alias || !id_find(m, m->words[at + 2])->needed)) continue;
            if (code_at(m, at) == SPIRV_PHI)
                phi_put(m, block, at);
            else
                instruction_put(m, at);
        }
        if (m->failed) return;
        const bool jumps = block->target || code_at(m, block->end) == SPIRV_BRANCH;
        const uint32_t to = block->target ? block->target : m->words[block->end + 1];
        if (!jumps) {
            instruction_put(m, block->end);
            return;
        }
        const code_block *next = block_of(m, to);
        if (next->joins != block->label) {
            const uint32_t jump[] = { 2u << 16 | SPIRV_BRANCH, to };
            words_put(m, jump, 2);
            return;
        }
        block = next;
    }
}

static void function_put(module *m)
{
    uint32_t at = m->body;
    words_put(m, m->words + at, length_at(m, at));
    for (uint32_t i = 0; i < m->num_blocks && !m->failed; i++) {
        const code_block *block = &m->blocks[i];
        if (!block->reachable || block->joins) continue;
        const uint32_t label[] = { 2u << 16 | SPIRV_LABEL, block->label };
        words_put(m, label, 2);
        block_put(m, block);
    }
    const uint32_t end = 1u << 16 | SPIRV_FUNCTION_END;
    words_put(m, &end, 1);
}

/* All that instructions name must have been written. */
static void output_check(module *m, uint32_t from)
{
    for (int pass = 0; pass < 2; pass++)
        for (uint32_t at = from; at < m->out_count && !m->failed; at += m->out[at] >> 16) {
            const uint32_t *w = m->out + at;
            spirv_shape shape;
            rf_spirv_shape(w[0] & 0xffff, &shape);
            if (pass == 0 && shape.results > 0) id_find(m, w[shape.results])->is_written = true;
            for (uint32_t i = 1 + shape.results; pass == 1 && i < w[0] >> 16; i++) {
                if (!rf_spirv_is_id(&shape, i - 1 - shape.results)) continue;
                const id_known *id = id_find(m, w[i]);
                m->failed |= id->in_function && !id->is_written;
            }
        }
}

static void module_specialize(module *m)
{
    read_declarations(m);
    if (!m->failed && m->body < m->count)
        read_blocks(m);
    else
        m->failed = true;
    if (!m->failed) ways_out_find(m);
    do {
        if (!m->failed) blocks_visit(m);
    } while (!m->failed && branches_decide(m));
    if (!m->failed) values_need(m);
    if (!m->failed) blocks_join(m);
    if (!m->failed) declarations_put(m);
    const uint32_t body = m->out_count;
    if (!m->failed) function_put(m);
    if (!m->failed) output_check(m, body);
}

/* Instructions are whole; how many labels there are. */
static bool module_is_whole(const uint32_t *words, uint32_t count, uint32_t *labels)
{
    *labels = 0;
    if (count < SPIRV_HEADER_WORDS || words[0] != SPIRV_MAGIC || words[3] == 0 || words[3] / 16 > count) return false;
    for (uint32_t i = SPIRV_HEADER_WORDS; i < count; i += words[i] >> 16) {
        if (words[i] >> 16 == 0 || words[i] >> 16 > count - i) return false;
        *labels += (words[i] & 0xffff) == SPIRV_LABEL;
    }
    return true;
}

static rf_result specialize_words(module m, uint32_t **out, uint32_t *out_count)
{
    uint32_t labels;
    if (!module_is_whole(m.words, m.count, &labels)) return RF_OK;
    m.bound = m.words[3];
    m.ids = RF_NEW_ARRAY(id_known, m.bound);
    m.blocks = RF_NEW_ARRAY(code_block, labels);
    m.stack = RF_NEW_ARRAY(uint32_t, m.bound);
    m.out = RF_NEW_ARRAY(uint32_t, m.count);
    const bool has_memory = m.ids && m.blocks && m.stack && m.out;
    if (has_memory) module_specialize(&m);
    rf_free(m.ids);
    rf_free(m.blocks);
    rf_free(m.stack);
    if (!has_memory || m.failed) {
        rf_free(m.out);
        return has_memory ? RF_OK : RF_ERROR_OUT_OF_HOST_MEMORY;
    }
    *out = m.out;
    *out_count = m.out_count;
    return RF_OK;
}

rf_result rf_gpu_specialize(const rf_shader *shader, const uint32_t *spec, uint32_t num_spec, uint32_t rules,
                            uint32_t **out, uint32_t *out_count)
{
    *out = NULL;
    *out_count = 0;
    uint32_t *words;
    RF_TRY(rf_shader_read(shader, &words));
    const module m = { .words = words, .count = shader->num_words, .spec = spec, .num_spec = num_spec, .rules = rules };
    const rf_result r = specialize_words(m, out, out_count);
    rf_free(words);
    return r;
}
