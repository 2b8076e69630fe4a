/* SPDX-License-Identifier: Apache-2.0 */
/* Templates as trees, by recursive descent; operators bind as in Jinja, filters and tests tightest. */
#include <string.h>

#include "base/utf8.h"
#include "text/jinja/jinja.h"

enum { MOST_SOURCE = 1 << 20, MOST_DEPTH = 100 };

typedef struct parser {
    rf_jinja_template *t;
    rf_jinja_words words;
    rf_jinja_word now, after; /* the next word, and the one behind it */
    uint32_t depth, loops;
} parser;

/* ---- words ---- */

static rf_result take_word(parser *p)
{
    p->now = p->after;
    if (p->now.type == RF_JINJA_WORD_END) return RF_OK;
    return rf_jinja_next_word(&p->words, &p->after);
}

static bool at_op(const parser *p, int op)
{
    return p->now.type == RF_JINJA_WORD_OPERATOR && p->now.op == op;
}

static bool word_is(const rf_jinja_word *word, const char *name)
{
    return word->type == RF_JINJA_WORD_NAME && strlen(name) == word->size && memcmp(name, word->bytes, word->size) == 0;
}

static bool at_name(const parser *p, const char *name)
{
    return word_is(&p->now, name);
}

/* The next word, for messages; `room` has 64 bytes. */
static const char *describe_word(const parser *p, char *room)
{
    const rf_jinja_word *w = &p->now;
    switch (w->type) {
    case RF_JINJA_WORD_NAME:
    case RF_JINJA_WORD_STRING:
        snprintf(room, 64, "'%.*s'", (int)(w->size < 48 ? w->size : 48), w->bytes);
        rf_error_one_line(room);
        return room;
    case RF_JINJA_WORD_OPERATOR:
        snprintf(room, 64, "'%c'", w->op < 256 ? w->op : w->op == RF_JINJA_FLOOR ? '/' : '=');
        return room;
    case RF_JINJA_WORD_INT:
    case RF_JINJA_WORD_FLOAT: return "a number";
    case RF_JINJA_WORD_CLOSE: return "the end of the tag";
    default: return "the end";
    }
}

static rf_result fail_word(const parser *p, const char *wanted)
{
    char room[64];
    return RF_FAIL(RF_ERROR_CORRUPT_DATA, "line %u: %s stands where %s should", p->now.line, describe_word(p, room),
                   wanted);
}

static rf_result fail_unknown(const parser *p, const char *what)
{
    char room[64];
    return RF_FAIL(RF_ERROR_UNSUPPORTED, "line %u: the %s %s is not known here", p->now.line, what,
                   describe_word(p, room));
}

static rf_result expect_op(parser *p, int op)
{
    const char wanted[] = { '\'', (char)op, '\'', 0 };
    return at_op(p, op) ? take_word(p) : fail_word(p, wanted);
}

static rf_result expect_close(parser *p)
{
    return p->now.type == RF_JINJA_WORD_CLOSE ? take_word(p) : fail_word(p, "the end of the tag");
}

/* ---- nodes ---- */

static rf_result node_new(parser *p, rf_jinja_kind kind, rf_jinja_node **out)
{
    *out = rf_arena_alloc(&p->t->arena, sizeof(**out));
    if (!*out) return RF_ERROR_OUT_OF_HOST_MEMORY;
    (*out)->kind = kind;
    (*out)->line = p->now.line;
    return RF_OK;
}

static rf_result take_name(parser *p, rf_jinja_node *node)
{
    if (p->now.type != RF_JINJA_WORD_NAME) return fail_word(p, "a name");
    node->name = p->now.bytes;
    node->size = p->now.size;
    return take_word(p);
}

static rf_result enter_level(parser *p)
{
    p->depth++;
    return p->depth <= MOST_DEPTH ? RF_OK
                                  : RF_FAIL(RF_ERROR_UNSUPPORTED, "line %u: more than %d levels of brackets and tags",
                                            p->now.line, MOST_DEPTH);
}

static rf_result parse_condition(parser *p, rf_jinja_node **out);
static rf_result parse_unary(parser *p, bool with_filters, rf_jinja_node **out);

/* ---- names, constants, brackets ---- */

/* Expressions up to `close`, which is taken, with a comma between them and maybe behind them. */
static rf_result parse_items(parser *p, int close, bool pairs, rf_jinja_node **list, uint32_t *count)
{
    rf_jinja_node **end = list;
    *count = 0;
    while (!at_op(p, close)) {
        RF_TRY(parse_condition(p, end));
        end = &(*end)->next;
        if (pairs) {
            RF_TRY(expect_op(p, ':'));
            RF_TRY(parse_condition(p, end));
            end = &(*end)->next;
        }
        ++*count;
        if (!at_op(p, ',')) break;
        RF_TRY(take_word(p));
        if (at_op(p, close)) *count += 1u << 30; /* a comma at the end */
    }
    return expect_op(p, close);
}

static rf_result parse_brackets(parser *p, rf_jinja_node **out)
{
    uint32_t count;
    const int open = p->now.op, close = open == '(' ? ')' : open == '[' ? ']' : '}';
    RF_TRY(node_new(p, open == '{' ? RF_JINJA_DICT_OF : RF_JINJA_LIST_OF, out));
    (*out)->op = open == '(';
    RF_TRY(take_word(p));
    RF_TRY(parse_items(p, close, open == '{', &(*out)->list, &count));
    if (open == '(' && count == 1) *out = (*out)->list; /* no tuple: what stands in the brackets */
    return RF_OK;
}

/* Texts that follow each other are one. */
static rf_result parse_string(parser *p, rf_jinja_node *node)
{
    rf_text_bytes text = { 0 };
    rf_result r = RF_OK;
    while (r >= 0 && p->now.type == RF_JINJA_WORD_STRING) {
        r = rf_text_bytes_append(&text, p->now.bytes, p->now.size);
        if (r >= 0) r = take_word(p);
    }
    char *copy = r >= 0 ? rf_arena_alloc(&p->t->arena, text.size + 1) : NULL;
    if (copy && text.size) memcpy(copy, text.bytes, text.size);
    node->value = rf_jinja_string(copy, text.size);
    rf_text_bytes_free(&text);
    return r < 0 ? r : copy ? RF_OK : RF_ERROR_OUT_OF_HOST_MEMORY;
}

static bool is_keyword(const parser *p)
{
    static const char *const words[] = { "and", "or", "not", "if", "else", "elif", "is", "in", "for" };
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
        if (at_name(p, words[i])) return true;
    return false;
}

static bool read_constant(const parser *p, rf_jinja_value *out)
{
    const bool yes = at_name(p, "true") || at_name(p, "True"), no = at_name(p, "false") || at_name(p, "False");
    if (yes || no) *out = rf_jinja_bool(yes);
    if (at_name(p, "none") || at_name(p, "None")) *out = rf_jinja_none();
    return out->type != RF_JINJA_UNDEFINED;
}

static rf_result parse_primary(parser *p, rf_jinja_node **out)
{
    if (at_op(p, '(') || at_op(p, '[') || at_op(p, '{')) {
        rf_result r = enter_level(p);
        if (r >= 0) r = parse_brackets(p, out);
        p->depth--;
        return r;
    }
    RF_TRY(node_new(p, RF_JINJA_CONSTANT, out));
    switch (p->now.type) {
    case RF_JINJA_WORD_NAME:
        if (is_keyword(p)) return fail_word(p, "a value");
        if (read_constant(p, &(*out)->value)) return take_word(p);
        (*out)->kind = RF_JINJA_NAME;
        return take_name(p, *out);
    case RF_JINJA_WORD_STRING: return parse_string(p, *out);
    case RF_JINJA_WORD_INT: (*out)->value = rf_jinja_int(p->now.integer); return take_word(p);
    case RF_JINJA_WORD_FLOAT:
        (*out)->value = (rf_jinja_value){ RF_JINJA_FLOAT, { .number = p->now.number } };
        return take_word(p);
    default: return fail_word(p, "a value");
    }
}

/* ---- what follows a value ---- */

/* Arguments up to ")", which is taken; those with names come last. */
static rf_result parse_arguments(parser *p, rf_jinja_node **list)
{
    rf_jinja_node **end = list;
    RF_TRY(expect_op(p, '('));
    while (!at_op(p, ')')) {
        const bool named =
            p->now.type == RF_JINJA_WORD_NAME && p->after.type == RF_JINJA_WORD_OPERATOR && p->after.op == '=';
        if (at_op(p, '*')) return fail_unknown(p, "argument");
        if (named) {
            RF_TRY(node_new(p, RF_JINJA_ARGUMENT, end));
            RF_TRY(take_name(p, *end));
            RF_TRY(take_word(p));
            RF_TRY(parse_condition(p, &(*end)->a));
        } else {
            RF_TRY(parse_condition(p, end));
        }
        end = &(*end)->next;
        if (!at_op(p, ',')) break;
        RF_TRY(take_word(p));
    }
    return expect_op(p, ')');
}

/* a[b], or a slice, of which each part may be missing. */
static rf_result parse_subscript(parser *p, rf_jinja_node *node)
{
    rf_jinja_node **parts[] = { &node->b, &node->c, &node->d };
    RF_TRY(take_word(p));
    for (int i = 0; i < 3 && !at_op(p, ']'); i++) {
        if (!at_op(p, ':')) RF_TRY(parse_condition(p, parts[i]));
        if (!at_op(p, ':')) break;
        node->kind = RF_JINJA_SLICE;
        RF_TRY(take_word(p));
    }
    if (node->kind == RF_JINJA_ITEM && !node->b) return fail_word(p, "a value");
    return expect_op(p, ']');
}

static rf_result parse_postfix(parser *p, rf_jinja_node **out)
{
    rf_jinja_node *whole;
    while (at_op(p, '.') || at_op(p, '[') || at_op(p, '(')) {
        const int op = p->now.op;
        rf_result r = RF_OK;
        RF_TRY(node_new(p, op == '.' ? RF_JINJA_ATTRIBUTE : op == '[' ? RF_JINJA_ITEM : RF_JINJA_CALL, &whole));
        whole->a = *out;
        if (op == '.') {
            RF_TRY(take_word(p));
            r = take_name(p, whole);
        } else {
            r = enter_level(p);
            if (r >= 0) r = op == '[' ? parse_subscript(p, whole) : parse_arguments(p, &whole->list);
            p->depth--;
        }
        RF_TRY(r);
        *out = whole;
    }
    return RF_OK;
}

static rf_result parse_filter(parser *p, rf_jinja_node **out)
{
    rf_jinja_node *node;
    RF_TRY(take_word(p));
    RF_TRY(node_new(p, RF_JINJA_FILTER, &node));
    if (p->now.type == RF_JINJA_WORD_NAME) node->builtin = rf_jinja_find_filter(p->now.bytes, p->now.size);
    if (p->now.type == RF_JINJA_WORD_NAME && !node->builtin) return fail_unknown(p, "filter");
    RF_TRY(take_name(p, node));
    node->a = *out;
    *out = node;
    return at_op(p, '(') ? parse_arguments(p, &node->list) : RF_OK;
}

/* A test may have one argument without brackets: "x is divisibleby 3". */
static rf_result parse_test(parser *p, rf_jinja_node **out)
{
    rf_jinja_node *node, *negated = NULL;
    RF_TRY(take_word(p));
    if (at_name(p, "not")) {
        RF_TRY(node_new(p, RF_JINJA_NOT, &negated));
        RF_TRY(take_word(p));
    }
    RF_TRY(node_new(p, RF_JINJA_TEST, &node));
    if (p->now.type == RF_JINJA_WORD_NAME) node->builtin = rf_jinja_find_test(p->now.bytes, p->now.size);
    if (p->now.type == RF_JINJA_WORD_NAME && !node->builtin) return fail_unknown(p, "test");
    RF_TRY(take_name(p, node));
    node->a = *out;
    const bool bare = p->now.type == RF_JINJA_WORD_STRING || p->now.type == RF_JINJA_WORD_INT ||
                      p->now.type == RF_JINJA_WORD_FLOAT || at_op(p, '[') || at_op(p, '{') ||
                      (p->now.type == RF_JINJA_WORD_NAME && !is_keyword(p));
    if (at_op(p, '(')) RF_TRY(parse_arguments(p, &node->list));
    if (bare) {
        RF_TRY(parse_primary(p, &node->list));
        RF_TRY(parse_postfix(p, &node->list));
    }
    *out = node;
    if (negated) negated->a = node;
    if (negated) *out = negated;
    return RF_OK;
}

static rf_result parse_unary(parser *p, bool with_filters, rf_jinja_node **out)
{
    rf_result r = enter_level(p);
    if (r >= 0 && at_op(p, '-')) {
        rf_jinja_node *operand;
        r = node_new(p, RF_JINJA_NEGATIVE, out);
        if (r >= 0) r = take_word(p);
        if (r >= 0) r = parse_unary(p, false, &operand);
        if (r >= 0) (*out)->a = operand;
    } else if (r >= 0) {
        r = parse_primary(p, out);
    }
    if (r >= 0) r = parse_postfix(p, out);
    while (r >= 0 && with_filters && (at_op(p, '|') || at_name(p, "is") || at_op(p, '('))) {
        r = at_op(p, '|') ? parse_filter(p, out) : at_op(p, '(') ? parse_postfix(p, out) : parse_test(p, out);
    }
    p->depth--;
    return r;
}

/* ---- operators ---- */

/* Levels of operators of two sides, from the tightest on. */
static const char *const binary_levels[] = { "*/%", "~", "+-" };

static rf_result parse_binary(parser *p, int level, rf_jinja_node **out)
{
    RF_TRY(level == 0 ? parse_unary(p, true, out) : parse_binary(p, level - 1, out));
    while (p->now.type == RF_JINJA_WORD_OPERATOR && ((p->now.op < 256 && strchr(binary_levels[level], p->now.op)) ||
                                                     (level == 0 && p->now.op == RF_JINJA_FLOOR))) {
        rf_jinja_node *node;
        RF_TRY(node_new(p, RF_JINJA_BINARY, &node));
        node->op = p->now.op;
        node->a = *out;
        RF_TRY(take_word(p));
        RF_TRY(level == 0 ? parse_unary(p, true, &node->b) : parse_binary(p, level - 1, &node->b));
        *out = node;
    }
    return RF_OK;
}

/* 0: no comparison is next. "not in" are two words. */
static int find_comparison(const parser *p)
{
    if (at_name(p, "in")) return RF_JINJA_IN;
    if (at_name(p, "not") && word_is(&p->after, "in")) return RF_JINJA_NOT_IN;
    if (p->now.type != RF_JINJA_WORD_OPERATOR) return 0;
    const int op = p->now.op;
    return op == '<' || op == '>' || (op >= RF_JINJA_EQUAL && op <= RF_JINJA_AT_LEAST) ? op : 0;
}

static rf_result parse_comparison(parser *p, rf_jinja_node **out)
{
    RF_TRY(parse_binary(p, 2, out));
    if (!find_comparison(p)) return RF_OK;
    rf_jinja_node *node, **end;
    RF_TRY(node_new(p, RF_JINJA_COMPARE, &node));
    node->a = *out;
    end = &node->list;
    for (int op; (op = find_comparison(p)) != 0; end = &(*end)->next) {
        RF_TRY(node_new(p, RF_JINJA_COMPARE, end));
        (*end)->op = op;
        RF_TRY(take_word(p));
        if (op == RF_JINJA_NOT_IN) RF_TRY(take_word(p));
        RF_TRY(parse_binary(p, 2, &(*end)->a));
    }
    *out = node;
    return RF_OK;
}

static rf_result parse_not(parser *p, rf_jinja_node **out)
{
    if (!at_name(p, "not")) return parse_comparison(p, out);
    rf_result r = enter_level(p);
    if (r >= 0) r = node_new(p, RF_JINJA_NOT, out);
    if (r >= 0) r = take_word(p);
    if (r >= 0) r = parse_not(p, &(*out)->a);
    p->depth--;
    return r;
}

static rf_result parse_and(parser *p, rf_jinja_node **out)
{
    RF_TRY(parse_not(p, out));
    while (at_name(p, "and")) {
        rf_jinja_node *node;
        RF_TRY(node_new(p, RF_JINJA_AND, &node));
        RF_TRY(take_word(p));
        node->a = *out;
        RF_TRY(parse_not(p, &node->b));
        *out = node;
    }
    return RF_OK;
}

/* Without the form "a if b", which would take the "if" of a loop. */
static rf_result parse_or(parser *p, rf_jinja_node **out)
{
    RF_TRY(parse_and(p, out));
    while (at_name(p, "or")) {
        rf_jinja_node *node;
        RF_TRY(node_new(p, RF_JINJA_OR, &node));
        RF_TRY(take_word(p));
        node->a = *out;
        RF_TRY(parse_and(p, &node->b));
        *out = node;
    }
    return RF_OK;
}

static rf_result parse_condition(parser *p, rf_jinja_node **out)
{
    rf_result r = enter_level(p);
    if (r >= 0) r = parse_or(p, out);
    while (r >= 0 && at_name(p, "if")) {
        rf_jinja_node *node;
        RF_TRY(node_new(p, RF_JINJA_CONDITION, &node));
        RF_TRY(take_word(p));
        node->a = *out;
        RF_TRY(parse_or(p, &node->b));
        *out = node;
        if (!at_name(p, "else")) continue;
        RF_TRY(take_word(p));
        r = parse_condition(p, &node->c);
    }
    p->depth--;
    return r;
}

/* One value, or several with commas between them: a tuple. */
static rf_result parse_tuple(parser *p, bool conditions, rf_jinja_node **out)
{
    RF_TRY(conditions ? parse_condition(p, out) : parse_or(p, out));
    if (!at_op(p, ',')) return RF_OK;
    rf_jinja_node *node, **end;
    RF_TRY(node_new(p, RF_JINJA_LIST_OF, &node));
    node->op = 1;
    node->list = *out;
    end = &node->list->next;
    while (at_op(p, ',')) {
        RF_TRY(take_word(p));
        if (p->now.type == RF_JINJA_WORD_CLOSE) break;
        RF_TRY(conditions ? parse_condition(p, end) : parse_or(p, end));
        end = &(*end)->next;
    }
    *out = node;
    return RF_OK;
}

/* ---- tags ---- */

/* Statements up to a tag of one of the names, which is next then, behind its "{%"; NULL: to the end. */
static rf_result parse_body(parser *p, const char *const *ends, rf_jinja_node **list);

/* A name, or several of them in a list, that something is assigned to. */
static rf_result parse_target(parser *p, bool attributes, rf_jinja_node **out)
{
    const bool brackets = at_op(p, '(');
    rf_jinja_node *names = NULL, **end = &names;
    if (brackets) RF_TRY(take_word(p));
    do {
        if (names) RF_TRY(take_word(p));
        RF_TRY(node_new(p, RF_JINJA_NAME, end));
        if (is_keyword(p)) return fail_word(p, "a name");
        RF_TRY(take_name(p, *end));
        end = &(*end)->next;
    } while (at_op(p, ','));
    *out = names;
    if (brackets) RF_TRY(expect_op(p, ')'));
    if (names->next) {
        RF_TRY(node_new(p, RF_JINJA_LIST_OF, out));
        (*out)->list = names;
    } else if (attributes && at_op(p, '.')) {
        RF_TRY(node_new(p, RF_JINJA_ATTRIBUTE, out));
        (*out)->a = names;
        RF_TRY(take_word(p));
        return take_name(p, *out);
    }
    return RF_OK;
}

/* The statements of a tag, and its end tag. */
static rf_result parse_block(parser *p, const char *end, rf_jinja_node **list)
{
    RF_TRY(expect_close(p));
    RF_TRY(parse_body(p, (const char *const[]){ end, NULL }, list));
    RF_TRY(take_word(p));
    return RF_OK;
}

static rf_result parse_if(parser *p, rf_jinja_node *node)
{
    static const char *const ends[] = { "elif", "else", "endif", NULL };
    for (;;) {
        RF_TRY(parse_tuple(p, true, &node->a));
        RF_TRY(expect_close(p));
        RF_TRY(parse_body(p, ends, &node->list));
        if (!at_name(p, "elif")) break;
        RF_TRY(node_new(p, RF_JINJA_IF, &node->others));
        node = node->others;
        RF_TRY(take_word(p));
    }
    const bool more = at_name(p, "else");
    RF_TRY(take_word(p));
    return more ? parse_block(p, "endif", &node->others) : RF_OK;
}

static rf_result parse_for(parser *p, rf_jinja_node *node)
{
    static const char *const ends[] = { "else", "endfor", NULL };
    RF_TRY(parse_target(p, false, &node->a));
    if (!at_name(p, "in")) return fail_word(p, "'in'");
    RF_TRY(take_word(p));
    RF_TRY(parse_tuple(p, false, &node->b));
    if (at_name(p, "if")) {
        RF_TRY(take_word(p));
        RF_TRY(parse_condition(p, &node->c));
    }
    if (at_name(p, "recursive")) return fail_unknown(p, "word");
    RF_TRY(expect_close(p));
    p->loops++;
    RF_TRY(parse_body(p, ends, &node->list));
    p->loops--;
    const bool more = at_name(p, "else");
    RF_TRY(take_word(p));
    return more ? parse_block(p, "endfor", &node->others) : RF_OK;
}

static rf_result parse_set(parser *p, rf_jinja_node *node)
{
    RF_TRY(parse_target(p, true, &node->a));
    if (at_op(p, '=')) {
        RF_TRY(take_word(p));
        return parse_tuple(p, true, &node->b);
    }
    if (at_op(p, '|')) return fail_unknown(p, "filter of a block, after");
    return parse_block(p, "endset", &node->list);
}

static rf_result parse_macro(parser *p, rf_jinja_node *node)
{
    rf_jinja_node **end = &node->others;
    const uint32_t loops = p->loops;
    RF_TRY(take_name(p, node));
    RF_TRY(expect_op(p, '('));
    while (!at_op(p, ')')) {
        RF_TRY(node_new(p, RF_JINJA_ARGUMENT, end));
        RF_TRY(take_name(p, *end));
        if (at_op(p, '=')) {
            RF_TRY(take_word(p));
            RF_TRY(parse_condition(p, &(*end)->a));
        }
        end = &(*end)->next;
        if (!at_op(p, ',')) break;
        RF_TRY(take_word(p));
    }
    RF_TRY(expect_op(p, ')'));
    p->loops = 0;
    RF_TRY(parse_block(p, "endmacro", &node->list));
    p->loops = loops;
    return RF_OK;
}

static rf_result parse_generation(parser *p, rf_jinja_node *node)
{
    p->t->marks = true;
    return parse_block(p, "endgeneration", &node->list);
}

static rf_result parse_jump(parser *p, rf_jinja_node *node)
{
    (void)node;
    return p->loops > 0 ? RF_OK
                        : RF_FAIL(RF_ERROR_CORRUPT_DATA, "line %u: break and continue stand in loops", p->now.line);
}

static const struct tag {
    const char *name;
    rf_jinja_kind kind;
    rf_result (*parse)(parser *p, rf_jinja_node *node); /* from behind the name to before the tag's end */
} tags[] = {
    { "if", RF_JINJA_IF, parse_if },
    { "for", RF_JINJA_FOR, parse_for },
    { "set", RF_JINJA_SET, parse_set },
    { "macro", RF_JINJA_MACRO, parse_macro },
    { "generation", RF_JINJA_GENERATION, parse_generation },
    { "break", RF_JINJA_BREAK, parse_jump },
    { "continue", RF_JINJA_CONTINUE, parse_jump },
};

static rf_result parse_tag(parser *p, rf_jinja_node **out)
{
    for (size_t i = 0; i < sizeof(tags) / sizeof(tags[0]); i++) {
        if (!at_name(p, tags[i].name)) continue;
        RF_TRY(node_new(p, tags[i].kind, out));
        RF_TRY(take_word(p));
        rf_result r = enter_level(p);
        if (r >= 0) r = tags[i].parse(p, *out);
        p->depth--;
        RF_TRY(r);
        return expect_close(p);
    }
    return fail_unknown(p, "tag");
}

static bool at_end(const parser *p, const char *const *ends)
{
    for (; ends && *ends; ends++)
        if (word_is(&p->after, *ends)) return true;
    return false;
}

static rf_result parse_body(parser *p, const char *const *ends, rf_jinja_node **list)
{
    const uint32_t line = p->now.line;
    for (;; list = &(*list)->next) {
        const rf_jinja_word_type type = p->now.type;
        if (type == RF_JINJA_WORD_END && !ends) return RF_OK;
        if (type == RF_JINJA_WORD_END)
            return RF_FAIL(RF_ERROR_CORRUPT_DATA, "line %u: a tag has no '%s'", line, ends[1] ? "end" : ends[0]);
        if (type == RF_JINJA_WORD_TAG && at_end(p, ends)) return take_word(p);
        if (type == RF_JINJA_WORD_TAG) {
            RF_TRY(take_word(p));
            RF_TRY(parse_tag(p, list));
            continue;
        }
        RF_TRY(node_new(p, type == RF_JINJA_WORD_PRINT ? RF_JINJA_PRINT : RF_JINJA_TEXT, list));
        (*list)->value = rf_jinja_string(p->now.bytes, p->now.size);
        RF_TRY(take_word(p));
        if (type != RF_JINJA_WORD_PRINT) continue;
        RF_TRY(parse_tuple(p, true, &(*list)->a));
        RF_TRY(expect_close(p));
    }
}

/* ---- the template ---- */

/* Lines end in "\n", and the last one's end is none of the text. */
static size_t copy_source(const char *text, size_t size, char *out)
{
    size_t at = 0;
    for (size_t i = 0; i < size; i++) {
        if (text[i] == '\r' && i + 1 < size && text[i + 1] == '\n') continue;
        out[at++] = text[i] == '\r' ? '\n' : text[i];
    }
    return at > 0 && out[at - 1] == '\n' ? at - 1 : at;
}

rf_result rf_jinja_parse(const char *text, size_t size, rf_jinja_template *out)
{
    *out = (rf_jinja_template){ 0 };
    if (size > MOST_SOURCE) return RF_FAIL(RF_ERROR_UNSUPPORTED, "it has %zu bytes, more than %d", size, MOST_SOURCE);
    if (!rf_utf8_valid(text, size)) return RF_FAIL(RF_ERROR_CORRUPT_DATA, "it is no UTF-8");
    char *source = rf_arena_alloc(&out->arena, size + 1);
    if (!source) return RF_ERROR_OUT_OF_HOST_MEMORY;
    parser p = { .t = out };
    p.words = (rf_jinja_words){
        .arena = &out->arena, .text = source, .size = copy_source(text, size, source), .line = 1, .fresh = true
    };
    p.after = (rf_jinja_word){ .type = RF_JINJA_WORD_TEXT };
    RF_TRY(take_word(&p));
    RF_TRY(take_word(&p));
    return parse_body(&p, NULL, &out->body);
}

void rf_jinja_clear(rf_jinja_template *t)
{
    rf_arena_free(&t->arena);
    *t = (rf_jinja_template){ 0 };
}
