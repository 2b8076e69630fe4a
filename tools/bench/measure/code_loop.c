/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Counts instructions in the machine code that drivers print. Each driver's text has a reader of lines and a table of
 * instructions of its own; finding the loops is the same for all. Compilers move blocks about (a loop's test stands at
 * its end, or code that leaves the loop stands in its middle), so loops are sets of blocks that reach each other, not
 * ranges of the text.
 */
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "bench/measure/statistics.h"

#define MAX_DEPTH 32     /* of loops in loops */
#define INNER_WEIGHT 8   /* times that a loop in a loop is supposed to run */
#define MATRIX_WEIGHT 64 /* multiply-adds that a matrix instruction stands for when loops are compared */

typedef enum code_kind {
    CODE_OTHER, /* control, memory, scalar arithmetic */
    CODE_VECTOR,
    CODE_MULTIPLY_ADD,
    CODE_MATRIX,
    CODE_TO_FLOAT,     /* of an integer: the first step of a division */
    CODE_RECIPROCAL,   /* its second */
    CODE_HIGH_PRODUCT, /* its third, and once more to refine the second */
    CODE_SHARED_LOAD,
} code_kind;

typedef struct code_rule {
    const char *prefix; /* of the instruction's name; the first rule that fits counts */
    code_kind kind;
    uint32_t bytes; /* of a shared load that does not name its size */
} code_rule;

/* AMD's assembler. v_: vector, s_: scalar; a pair that is issued at once is joined by "::". */
static const code_rule radv_rules[] = {
    { "v_wmma", CODE_MATRIX, 0 },
    { "v_swmmac", CODE_MATRIX, 0 },
    { "v_mfma", CODE_MATRIX, 0 },
    { "v_fma", CODE_MULTIPLY_ADD, 0 },
    { "v_dual_fma", CODE_MULTIPLY_ADD, 0 },
    { "v_mac_f", CODE_MULTIPLY_ADD, 0 },
    { "v_mad_f", CODE_MULTIPLY_ADD, 0 },
    { "v_mad_mix", CODE_MULTIPLY_ADD, 0 },
    { "v_pk_fma", CODE_MULTIPLY_ADD, 0 },
    { "v_dot2", CODE_MULTIPLY_ADD, 0 },
    { "v_dual_dot2", CODE_MULTIPLY_ADD, 0 },
    { "v_cvt_f32_u32", CODE_TO_FLOAT, 0 },
    { "v_rcp_iflag_f32", CODE_RECIPROCAL, 0 },
    { "v_rcp_f32", CODE_RECIPROCAL, 0 },
    { "v_s_rcp_f32", CODE_RECIPROCAL, 0 },
    { "v_mul_hi_u32", CODE_HIGH_PRODUCT, 0 },
    { "s_mul_hi_u32", CODE_HIGH_PRODUCT, 0 },
    { "v_mul_hi_i32", CODE_HIGH_PRODUCT, 0 },
    { "s_mul_hi_i32", CODE_HIGH_PRODUCT, 0 },
    { "v_", CODE_VECTOR, 0 },
    { "ds_load_2addr_b64", CODE_SHARED_LOAD, 16 },
    { "ds_load_2addr_stride64_b64", CODE_SHARED_LOAD, 16 },
    { "ds_load_2addr_b32", CODE_SHARED_LOAD, 8 },
    { "ds_load_2addr_stride64_b32", CODE_SHARED_LOAD, 8 },
    { "ds_load_b128", CODE_SHARED_LOAD, 16 },
    { "ds_load_b96", CODE_SHARED_LOAD, 12 },
    { "ds_load_b64", CODE_SHARED_LOAD, 8 },
    { "ds_load", CODE_SHARED_LOAD, 4 },
    { "ds_read2_b64", CODE_SHARED_LOAD, 16 },
    { "ds_read2st64_b64", CODE_SHARED_LOAD, 16 },
    { "ds_read2_b32", CODE_SHARED_LOAD, 8 },
    { "ds_read2st64_b32", CODE_SHARED_LOAD, 8 },
    { "ds_read_b128", CODE_SHARED_LOAD, 16 },
    { "ds_read_b96", CODE_SHARED_LOAD, 12 },
    { "ds_read_b64", CODE_SHARED_LOAD, 8 },
    { "ds_read", CODE_SHARED_LOAD, 4 },
    { NULL, CODE_OTHER, 0 },
};

/* NVK's compiler. Instructions that write uniform registers, but for imad64, are left out before these rules are
 * asked. */
static const code_rule nvk_rules[] = {
    { "hmma", CODE_MATRIX, 0 },
    { "imma", CODE_MATRIX, 0 },
    { "ffma", CODE_MULTIPLY_ADD, 0 },
    { "hfma2", CODE_MULTIPLY_ADD, 0 },
    { "dfma", CODE_MULTIPLY_ADD, 0 },
    { "i2f.f32.u32", CODE_TO_FLOAT, 0 },
    { "mufu.rcp", CODE_RECIPROCAL, 0 },
    { "imad64", CODE_HIGH_PRODUCT, 0 },
    { "imad.hi", CODE_HIGH_PRODUCT, 0 },
    { "ld.shared", CODE_SHARED_LOAD, 4 },
    { "ldsm", CODE_SHARED_LOAD, 16 },
    { "ld", CODE_OTHER, 0 },
    { "st.", CODE_OTHER, 0 },
    { "atom", CODE_OTHER, 0 },
    { "red", CODE_OTHER, 0 },
    { "t", CODE_OTHER, 0 }, /* textures */
    { "su", CODE_OTHER, 0 },
    { "b", CODE_OTHER, 0 }, /* jumps, barriers and what reconverges after them */
    { "nop", CODE_OTHER, 0 },
    { "exit", CODE_OTHER, 0 },
    { "warpsync", CODE_OTHER, 0 },
    { "membar", CODE_OTHER, 0 },
    { "cctl", CODE_OTHER, 0 },
    { "yield", CODE_OTHER, 0 },
    { "s2r", CODE_OTHER, 0 },
    { "cs2r", CODE_OTHER, 0 },
    { "r2ur", CODE_OTHER, 0 },
    { "", CODE_VECTOR, 0 },
};

/* Turnip's compiler. High products are made of shifts and 16-bit products there: divisions whose reciprocal is computed
 * outside of the loop are not seen. */
static const code_rule turnip_rules[] = {
    { "mad.f", CODE_MULTIPLY_ADD, 0 },
    { "cov.u32f32", CODE_TO_FLOAT, 0 },
    { "rcp", CODE_RECIPROCAL, 0 },
    { "ldl", CODE_SHARED_LOAD, 4 },
    { "ld", CODE_OTHER, 0 },
    { "st", CODE_OTHER, 0 },
    { "isam", CODE_OTHER, 0 },
    { "sam", CODE_OTHER, 0 },
    { "atomic", CODE_OTHER, 0 },
    { "resinfo", CODE_OTHER, 0 },
    { "nop", CODE_OTHER, 0 },
    { "jump", CODE_OTHER, 0 },
    { "br", CODE_OTHER, 0 },
    { "b", CODE_OTHER, 0 }, /* bar, bany, ball */
    { "pred", CODE_OTHER, 0 },
    { "fence", CODE_OTHER, 0 },
    { "get", CODE_OTHER, 0 },
    { "shps", CODE_OTHER, 0 },
    { "shpe", CODE_OTHER, 0 },
    { "end", CODE_OTHER, 0 },
    { "", CODE_VECTOR, 0 },
};

/* ANV's compiler; read_anv() adds what an instruction's name does not say. */
static const code_rule anv_rules[] = {
    { "dpas", CODE_MATRIX, 0 },
    { "mad of floats", CODE_MULTIPLY_ADD, 0 },
    { "mov to float", CODE_TO_FLOAT, 0 },
    { "math inv", CODE_RECIPROCAL, 0 },
    { "mach", CODE_HIGH_PRODUCT, 0 },
    { "slm", CODE_SHARED_LOAD, 4 },
    { "send", CODE_OTHER, 0 },
    { "sync", CODE_OTHER, 0 },
    { "if", CODE_OTHER, 0 },
    { "else", CODE_OTHER, 0 },
    { "endif", CODE_OTHER, 0 },
    { "while", CODE_OTHER, 0 },
    { "break", CODE_OTHER, 0 },
    { "cont", CODE_OTHER, 0 },
    { "halt", CODE_OTHER, 0 },
    { "nop", CODE_OTHER, 0 },
    { "", CODE_VECTOR, 0 },
};

typedef enum code_dialect { DIALECT_RADV, DIALECT_NVK, DIALECT_TURNIP, DIALECT_ANV, DIALECT_NONE } code_dialect;
static const code_rule *const rules_of[] = { radv_rules, nvk_rules, turnip_rules, anv_rules };

typedef struct code_counts {
    rf_kernel_loop loop;
    uint32_t to_float, reciprocals, high_products;
} code_counts;

typedef struct code_line {
    char label[24]; /* that stands here */
    char jump[24];  /* where it jumps to, maybe */
    bool ends;      /* the next line is not what runs next */
    code_counts counts;
} code_line;

/* Instructions that run one after the other. */
typedef struct code_block {
    char label[24], jump[24];
    bool falls;      /* into the next block */
    uint32_t target; /* of the jump; UINT32_MAX: none */
    code_counts counts;
    uint32_t set;           /* number of the set of blocks that is looked at, which it belongs to */
    bool forward, backward; /* reached from a block, and reaches it */
} code_block;

typedef struct code_blocks {
    code_block *items;
    uint32_t count, capacity;
    uint32_t num_sets;
} code_blocks;

/* ---- one line ---- */

static bool text_starts(const char *text, const char *prefix)
{
    return strncmp(text, prefix, strlen(prefix)) == 0;
}

static const char *skip_spaces(const char *p)
{
    while (*p == ' ' || *p == '\t') p++;
    return p;
}

/* The first word of `p` up to any of `ends`. */
static void take_word(const char *p, const char *ends, char *word, size_t size)
{
    size_t n = strcspn(p, ends);
    if (n >= size) n = size - 1;
    memcpy(word, p, n);
    word[n] = '\0';
}

/* The bits that a name like "ld.shared.b128" ends with, as bytes. */
static uint32_t named_bytes(const char *name)
{
    for (const char *p = strstr(name, ".b"); p; p = strstr(p + 1, ".b")) {
        const uint32_t bits = (uint32_t)strtoul(p + 2, NULL, 10);
        if (bits >= 8) return bits / 8;
    }
    return 0;
}

static void count_instruction(code_dialect dialect, const char *name, uint32_t times, uint32_t vector_size,
                              code_line *line)
{
    const code_rule *rule = rules_of[dialect];
    while (rule->prefix && !text_starts(name, rule->prefix)) rule++;
    line->counts.loop.instructions += times;
    const bool scalar = dialect == DIALECT_RADV && name[0] == 's';
    if (rule->kind != CODE_OTHER && rule->kind != CODE_SHARED_LOAD && !scalar) line->counts.loop.vector += times;
    switch (rule->kind) {
    case CODE_MULTIPLY_ADD: line->counts.loop.multiply_adds += times; break;
    case CODE_MATRIX: line->counts.loop.matrix += times; break;
    case CODE_TO_FLOAT: line->counts.to_float += times; break;
    case CODE_RECIPROCAL: line->counts.reciprocals += times; break;
    case CODE_HIGH_PRODUCT: line->counts.high_products += times; break;
    case CODE_SHARED_LOAD:
        line->counts.loop.shared_loads += times;
        line->counts.loop.shared_load_bytes +=
            times * vector_size * (named_bytes(name) ? named_bytes(name) : rule->bytes);
        break;
    case CODE_VECTOR:
    case CODE_OTHER: break;
    }
}

static void read_radv(const char *text, code_line *line)
{
    char name[64];
    if (text_starts(text, "BB")) {
        take_word(text, ":", line->label, sizeof(line->label));
        return;
    }
    if (*text != '\t' && *text != ' ') return;
    for (const char *p = skip_spaces(text); p; p = strstr(p, "::")) {
        if (*p == ':') p = skip_spaces(p + 2);
        take_word(p, " \t;", name, sizeof(name));
        if (!name[0]) return;
        count_instruction(DIALECT_RADV, name, 1, 1, line);
        if (text_starts(name, "v_dual_")) line->counts.loop.dual++;
        if (text_starts(name, "s_branch") || text_starts(name, "s_cbranch"))
            take_word(skip_spaces(p + strlen(name)), " \t;", line->jump, sizeof(line->jump));
        line->ends |= text_starts(name, "s_branch") || text_starts(name, "s_endpgm") || text_starts(name, "s_setpc");
    }
}

static void read_nvk(const char *text, code_line *line)
{
    char name[64];
    if (text_starts(text, "block")) { /* block.u 94 L150 [...] */
        const char *p = strchr(text, 'L');
        if (p) take_word(p, " ", line->label, sizeof(line->label));
        return;
    }
    if (*text == '}' || *text == '\0') return;
    const char *p = skip_spaces(text);
    const bool guarded = *p == '@';
    if (guarded) p = skip_spaces(p + strcspn(p, " "));
    const char *target = p, *equals = strstr(p, " = ");
    if (equals) p = equals + 3;
    take_word(p, " \t", name, sizeof(name));
    if (!name[0] || name[0] == '/') return;
    if (strcmp(name, "exit") == 0) line->ends = !guarded;
    if (strcmp(name, "bra") == 0) { /* bra pT L9: always; bra !up0 L9: maybe */
        line->counts.loop.instructions++;
        p = skip_spaces(p + strlen(name));
        line->ends = !guarded && text_starts(p, "pT ");
        p = skip_spaces(p + strcspn(p, " "));
        take_word(p, " \t/", line->jump, sizeof(line->jump));
    } else if (equals && target[0] == 'u' && !text_starts(name, "imad64")) {
        line->counts.loop.instructions++; /* the scalar half of the machine */
    } else {
        count_instruction(DIALECT_NVK, name, 1, 1, line);
        if (equals && target[0] == 'u') line->counts.loop.vector--;
    }
}

static void read_turnip(const char *text, code_line *line)
{
    char name[64];
    uint32_t repeat = 0;
    if (text[0] == 'l' && strchr(text, ':')) {
        take_word(text, ":", line->label, sizeof(line->label));
        return;
    }
    if (*text == '@' || *text == ';' || *text == '\0' || *text == ' ') return;
    const char *p = text;
    while (*p == '(') { /* (sy)(rpt3)... */
        if (text_starts(p, "(rpt")) repeat = (uint32_t)strtoul(p + 4, NULL, 10);
        const char *end = strchr(p, ')');
        if (!end) return;
        p = end + 1;
    }
    take_word(p, " ", name, sizeof(name));
    if (text_starts(name, "ldl")) { /* ldl.u32 r8.x, l[r2.w], 4 */
        const char *last = strrchr(p, ',');
        const uint32_t elements = last ? (uint32_t)strtoul(last + 1, NULL, 10) : 1;
        count_instruction(DIALECT_TURNIP, "ldl", 1, elements, line);
        return;
    }
    count_instruction(DIALECT_TURNIP, name, repeat + 1, 1, line);
    line->ends = strcmp(name, "jump") == 0 || strcmp(name, "end") == 0;
    const char *target = strchr(p, '#');
    if (target && (line->ends || text_starts(name, "br"))) take_word(target + 1, " ,", line->jump, sizeof(line->jump));
}

/* mad(8) g12<1>F ...; the line below a send says what is sent: slm MsgDesc: ( load, a32, d32, V4, ... */
static void read_anv(const char *text, code_line *line)
{
    char name[64], target[32];
    if (text_starts(text, "LABEL")) {
        take_word(text, ":", line->label, sizeof(line->label));
        return;
    }
    if (*text == ' ' || *text == '\t') {
        const char *vector = strstr(text, ", V");
        if (strstr(text, "slm MsgDesc: ( load") && !strstr(text, "transpose")) {
            count_instruction(DIALECT_ANV, "slm", 1, vector ? (uint32_t)strtoul(vector + 3, NULL, 10) : 1, line);
            line->counts.loop.instructions--; /* the send has been counted */
        }
        return;
    }
    const char *p = text;
    if (*p == '(' && strchr(p, ')')) p = skip_spaces(strchr(p, ')') + 1); /* (+f0.0) */
    take_word(p, "(", name, sizeof(name));
    p = strchr(p, ')');
    if (!p || !name[0]) return;
    const bool alone = p[-1] == '1' && p[-2] == '('; /* one value for the whole subgroup */
    take_word(skip_spaces(p + 1), " ", target, sizeof(target));
    const char *type = strchr(target, '>');
    const bool floats = type && (strcmp(type, ">F") == 0 || strcmp(type, ">HF") == 0);
    if (strcmp(name, "mad") == 0 && floats) memcpy(name, "mad of floats", sizeof("mad of floats"));
    if (strcmp(name, "mov") == 0 && floats && strstr(p, ">UD")) memcpy(name, "mov to float", sizeof("mov to float"));
    count_instruction(DIALECT_ANV, alone ? "nop" : name, 1, 1, line);
    const char *jump = strstr(p, "JIP:");
    if (jump) take_word(skip_spaces(jump + 4), " ", line->jump, sizeof(line->jump));
}

/* ---- the whole text ---- */

static code_dialect dialect_of(const char *code)
{
    if (strstr(code, "s_endpgm")) return DIALECT_RADV;
    if (strstr(code, "{ align1 ")) return DIALECT_ANV;
    if (text_starts(code, "block") || strstr(code, "\nblock")) return DIALECT_NVK;
    if (strstr(code, "Native code for") || strstr(code, "mad.f32")) return DIALECT_TURNIP;
    return DIALECT_NONE;
}

static void read_line(code_dialect dialect, const char *text, code_line *line)
{
    *line = (code_line){ 0 };
    if (dialect == DIALECT_RADV)
        read_radv(text, line);
    else if (dialect == DIALECT_NVK)
        read_nvk(text, line);
    else if (dialect == DIALECT_ANV)
        read_anv(text, line);
    else
        read_turnip(text, line);
}

static void add_counts(code_counts *to, const code_counts *from)
{
    to->loop.instructions += from->loop.instructions;
    to->loop.vector += from->loop.vector;
    to->loop.multiply_adds += from->loop.multiply_adds;
    to->loop.dual += from->loop.dual;
    to->loop.matrix += from->loop.matrix;
    to->loop.shared_loads += from->loop.shared_loads;
    to->loop.shared_load_bytes += from->loop.shared_load_bytes;
    to->to_float += from->to_float;
    to->reciprocals += from->reciprocals;
    to->high_products += from->high_products;
}

/* A block begins at a label and ends behind a jump. */
static bool read_blocks(code_dialect dialect, const char *code, code_blocks *blocks)
{
    bool open = false;
    for (const char *p = code; *p;) {
        char text[512];
        code_line line;
        take_word(p, "\n", text, sizeof(text));
        p += strcspn(p, "\n");
        if (*p) p++;
        read_line(dialect, text, &line);
        if (line.label[0] || !open) {
            if (RF_VEC_GROW(blocks) < 0) return false;
            blocks->items[blocks->count++] = (code_block){ .falls = true };
            memcpy(blocks->items[blocks->count - 1].label, line.label, sizeof(line.label));
        }
        code_block *block = &blocks->items[blocks->count - 1];
        add_counts(&block->counts, &line.counts);
        memcpy(block->jump, line.jump, sizeof(line.jump));
        block->falls = !line.ends;
        open = !line.jump[0] && !line.ends;
    }
    return true;
}

static void link_blocks(code_blocks *blocks)
{
    for (uint32_t i = 0; i < blocks->count; i++) {
        code_block *block = &blocks->items[i];
        if (i + 1 == blocks->count) block->falls = false;
        block->target = UINT32_MAX;
        for (uint32_t k = 0; block->jump[0] && k < blocks->count; k++)
            if (strcmp(blocks->items[k].label, block->jump) == 0) block->target = k;
    }
}

/* ---- loops ---- */

static bool leads_to(const code_blocks *blocks, uint32_t from, uint32_t to)
{
    const code_block *block = &blocks->items[from];
    return (block->falls && from + 1 == to) || block->target == to;
}

static void block_mark(code_block *block, bool forward, bool *more)
{
    bool *flag = forward ? &block->forward : &block->backward;
    if (!*flag) *flag = *more = true;
}

/* Marks what in the set is reached from block `start` in one step or more, or reaches it. */
static void blocks_reach(code_blocks *blocks, uint32_t set, uint32_t start, bool forward)
{
    for (uint32_t i = 0; i < blocks->count; i++) blocks->items[i].forward &= !forward;
    for (uint32_t i = 0; i < blocks->count; i++) blocks->items[i].backward &= forward;
    bool more = true;
    while (more) {
        more = false;
        for (uint32_t k = 0; k < blocks->count; k++) {
            const uint32_t i = forward ? k : blocks->count - 1 - k; /* as most edges go */
            code_block *from = &blocks->items[i];
            const uint32_t next[] = { from->falls ? i + 1 : UINT32_MAX, from->target };
            for (int n = 0; n < 2; n++) {
                if (next[n] == UINT32_MAX || from->set != set || blocks->items[next[n]].set != set) continue;
                code_block *to = &blocks->items[next[n]];
                if (forward && (i == start || from->forward)) block_mark(to, true, &more);
                if (!forward && (next[n] == start || to->backward)) block_mark(from, false, &more);
            }
        }
    }
}

/* The first block of the set that is entered from outside. */
static uint32_t find_header(const code_blocks *blocks, uint32_t set)
{
    uint32_t first = UINT32_MAX;
    for (uint32_t i = 0; i < blocks->count; i++) {
        if (blocks->items[i].set != set) continue;
        if (first == UINT32_MAX) first = i;
        for (uint32_t k = 0; k < blocks->count; k++)
            if (blocks->items[k].set != set && leads_to(blocks, k, i)) return i;
    }
    return first;
}

/* A division multiplies with the reciprocal, after another such product that refines it; where only the reciprocal is
 * seen, it is one all the same. */
static uint32_t counts_divisions(const code_counts *c)
{
    const uint32_t made = c->to_float < c->reciprocals ? c->to_float : c->reciprocals;
    return c->high_products > 2 * made ? c->high_products - made : made;
}

typedef struct hottest {
    double work;
    rf_kernel_loop loop;
} hottest;

/* Takes the blocks of a set where they do more than what was found so far. How often each loop runs the code does not
 * tell: one in another counts for more. */
static void take_hotter(const code_blocks *blocks, uint32_t set, uint32_t depth, hottest *out)
{
    code_counts counts = { 0 };
    for (uint32_t i = 0; i < blocks->count; i++)
        if (blocks->items[i].set == set) add_counts(&counts, &blocks->items[i].counts);
    counts.loop.divisions = counts_divisions(&counts);
    const rf_kernel_loop *l = &counts.loop;
    double work = l->multiply_adds + MATRIX_WEIGHT * (double)l->matrix;
    for (uint32_t i = 0; i < depth; i++) work *= INNER_WEIGHT;
    if (work < out->work || (work == out->work && l->instructions <= out->loop.instructions)) return;
    *out = (hottest){ .work = work, .loop = *l };
}

/* Finds the loops in a set of blocks, whose blocks get other numbers meanwhile, and takes the hottest, without what
 * stands in loops inside it. */
static void find_loops(code_blocks *blocks, uint32_t set, uint32_t depth, hottest *out)
{
    for (uint32_t i = 0; i < blocks->count; i++) {
        if (blocks->items[i].set != set) continue;
        blocks_reach(blocks, set, i, true);
        if (!blocks->items[i].forward) continue; /* it does not come back */
        blocks_reach(blocks, set, i, false);
        const uint32_t loop = ++blocks->num_sets, inner = ++blocks->num_sets;
        for (uint32_t k = 0; k < blocks->count; k++) {
            code_block *block = &blocks->items[k];
            if (block->set == set && block->forward && block->backward) block->set = loop;
        }
        const uint32_t header = find_header(blocks, loop);
        for (uint32_t k = 0; k < blocks->count; k++)
            if (blocks->items[k].set == loop && k != header) blocks->items[k].set = inner;
        if (depth < MAX_DEPTH) find_loops(blocks, inner, depth + 1, out);
        blocks->items[header].set = inner;
        take_hotter(blocks, inner, depth, out);
    }
}

void rf_gpu_code_loop(const char *code, rf_kernel_loop *out)
{
    *out = (rf_kernel_loop){ 0 };
    const code_dialect dialect = code ? dialect_of(code) : DIALECT_NONE;
    if (dialect == DIALECT_NONE) return;
    code_blocks blocks = { 0 };
    if (read_blocks(dialect, code, &blocks)) {
        hottest found = { 0 };
        link_blocks(&blocks);
        find_loops(&blocks, 0, 0, &found);
        *out = found.loop;
    }
    rf_free(blocks.items);
}
