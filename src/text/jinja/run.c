/* SPDX-License-Identifier: Apache-2.0 */
/* Runs trees of templates. */
#include <math.h>
#include <string.h>

#include "text/jinja/jinja.h"

typedef struct rf_jinja_scope {
    struct rf_jinja_scope *parent;
    rf_jinja_dict *names;
} scope;

typedef enum flow { FLOW_ON, FLOW_BREAK, FLOW_CONTINUE } flow;

typedef struct machine {
    rf_jinja_run *run;
    rf_jinja_result *result;
    scope *at;
} machine;

static rf_result evaluate_node(machine *m, const rf_jinja_node *node, rf_jinja_value *out);
static rf_result run_list(machine *m, const rf_jinja_node *list, flow *how);

/* ---- names ---- */

static rf_result scope_new(machine *m, scope *parent, scope **out)
{
    rf_jinja_value names;
    RF_TRY(rf_jinja_dict_new(m->run, 2, &names));
    *out = rf_jinja_alloc(m->run, sizeof(**out));
    if (!*out) return rf_jinja_alloc_failure();
    **out = (scope){ parent, names.is.dict };
    return RF_OK;
}

static rf_result callable_new(machine *m, const rf_jinja_builtin *builtin, const rf_jinja_node *macro,
                              rf_jinja_value *out)
{
    rf_jinja_callable *made = rf_jinja_alloc(m->run, sizeof(*made));
    if (!made) return rf_jinja_alloc_failure();
    *made = (rf_jinja_callable){ builtin, macro, m->at };
    *out = (rf_jinja_value){ RF_JINJA_CALLABLE, { .callable = made } };
    return RF_OK;
}

static rf_result look_up(machine *m, const rf_jinja_node *node, rf_jinja_value *out)
{
    for (const scope *s = m->at; s; s = s->parent) {
        const rf_jinja_value *found = rf_jinja_dict_find(m->run, s->names, node->name, node->size);
        if (found) *out = *found;
        if (found) return RF_OK;
    }
    const rf_jinja_builtin *function = rf_jinja_find_function(node->name, node->size);
    *out = rf_jinja_undefined(node->name, node->size);
    return function ? callable_new(m, function, NULL, out) : RF_OK;
}

static rf_result assign_value(machine *m, const rf_jinja_node *target, rf_jinja_value value)
{
    char room[96];
    rf_jinja_value owner;
    uint32_t count = 0;
    if (target->kind == RF_JINJA_NAME)
        return rf_jinja_dict_set(m->run, m->at->names, target->name, target->size, value);
    if (target->kind == RF_JINJA_ATTRIBUTE) {
        RF_TRY(look_up(m, target->a, &owner));
        if (owner.type != RF_JINJA_DICT || !owner.is.dict->is_namespace)
            return RF_FAIL(RF_ERROR_INVALID_ARGUMENT, "only attributes of a namespace can be set, not of %s",
                           rf_jinja_describe(&owner, room));
        return rf_jinja_dict_set(m->run, owner.is.dict, target->name, target->size, value);
    }
    RF_TRY(rf_jinja_iterate(m->run, &value, &owner));
    for (const rf_jinja_node *n = target->list; n; n = n->next) count++;
    if (owner.is.list->count != count)
        return RF_FAIL(RF_ERROR_INVALID_ARGUMENT, "%u values for %u names", owner.is.list->count, count);
    count = 0;
    for (const rf_jinja_node *n = target->list; n; n = n->next)
        RF_TRY(rf_jinja_dict_set(m->run, m->at->names, n->name, n->size, owner.is.list->items[count++]));
    return RF_OK;
}

/* ---- arithmetic ---- */

static rf_result join_lists(machine *m, const rf_jinja_list *a, const rf_jinja_list *b, rf_jinja_value *out)
{
    RF_TRY(rf_jinja_list_new(m->run, a->count, out));
    out->is.list->tuple = a->tuple;
    for (uint32_t i = 0; i < a->count; i++) RF_TRY(rf_jinja_list_add(m->run, out->is.list, a->items[i]));
    for (uint32_t i = 0; i < b->count; i++) RF_TRY(rf_jinja_list_add(m->run, out->is.list, b->items[i]));
    return RF_OK;
}

static rf_result join_strings(machine *m, const rf_jinja_value *a, const rf_jinja_value *b, rf_jinja_value *out)
{
    const size_t size = a->is.string.size + b->is.string.size;
    char *text = rf_jinja_alloc(m->run, size + 1);
    if (!text) return rf_jinja_alloc_failure();
    if (a->is.string.size) memcpy(text, a->is.string.bytes, a->is.string.size);
    if (b->is.string.size) memcpy(text + a->is.string.size, b->is.string.bytes, b->is.string.size);
    *out = rf_jinja_string(text, size);
    return RF_OK;
}

/* "a" ~ 1: both as text, an undefined value as none. */
static rf_result join_as_text(machine *m, const rf_jinja_value *a, const rf_jinja_value *b, rf_jinja_value *out)
{
    rf_jinja_value texts[2] = { rf_jinja_string("", 0), rf_jinja_string("", 0) };
    if (a->type != RF_JINJA_UNDEFINED) RF_TRY(rf_jinja_to_string(m->run, a, &texts[0]));
    if (b->type != RF_JINJA_UNDEFINED) RF_TRY(rf_jinja_to_string(m->run, b, &texts[1]));
    return join_strings(m, &texts[0], &texts[1], out);
}

static rf_result repeat_text(machine *m, const rf_jinja_value *text, int64_t times, rf_jinja_value *out)
{
    const size_t one = text->is.string.size, most = (size_t)m->run->memory;
    if (times < 0 || one == 0) times = 0;
    if (one > 0 && (uint64_t)times > most / one) times = (int64_t)(most / one + 1); /* too much, which this then says */
    char *bytes = rf_jinja_alloc(m->run, one * (size_t)times + 1);
    if (!bytes) return rf_jinja_alloc_failure();
    for (int64_t i = 0; i < times; i++) memcpy(bytes + (size_t)i * one, text->is.string.bytes, one);
    *out = rf_jinja_string(bytes, one * (size_t)times);
    return RF_OK;
}

static rf_result compute_real(int op, double a, double b, rf_jinja_value *out)
{
    double x = 0.0;
    if (b == 0.0 && (op == '/' || op == '%' || op == RF_JINJA_FLOOR))
        return RF_FAIL(RF_ERROR_INVALID_ARGUMENT, "division by 0");
    switch (op) {
    case '+': x = a + b; break;
    case '-': x = a - b; break;
    case '*': x = a * b; break;
    case '/': x = a / b; break;
    case '%': x = a - b * floor(a / b); break;
    default: x = floor(a / b); break;
    }
    *out = (rf_jinja_value){ RF_JINJA_FLOAT, { .number = x } };
    return RF_OK;
}

static rf_result compute_whole(int op, int64_t a, int64_t b, rf_jinja_value *out)
{
    int64_t x = 0;
    bool over = false;
    if (op == '/' || ((op == '%' || op == RF_JINJA_FLOOR) && b == 0))
        return compute_real(op, (double)a, (double)b, out);
    if (op == '+') over = __builtin_add_overflow(a, b, &x);
    if (op == '-') over = __builtin_sub_overflow(a, b, &x);
    if (op == '*') over = __builtin_mul_overflow(a, b, &x);
    if (op == '%' || op == RF_JINJA_FLOOR) {
        over = a == INT64_MIN && b == -1;
        const int64_t rest = over ? 0 : a % b;
        const bool down = rest != 0 && (rest < 0) != (b < 0); /* Python rounds down */
        if (!over) x = op == '%' ? rest + (down ? b : 0) : a / b - down;
    }
    if (over) return RF_FAIL(RF_ERROR_UNSUPPORTED, "a number becomes too large");
    *out = rf_jinja_int(x);
    return RF_OK;
}

static rf_result compute_value(machine *m, int op, const rf_jinja_value *a, const rf_jinja_value *b,
                               rf_jinja_value *out)
{
    char room[2][96];
    const bool text = a->type == RF_JINJA_STRING;
    if (op == '~') return join_as_text(m, a, b, out);
    if (op == '+' && text && b->type == RF_JINJA_STRING) return join_strings(m, a, b, out);
    if (op == '+' && a->type == RF_JINJA_LIST && b->type == RF_JINJA_LIST)
        return join_lists(m, a->is.list, b->is.list, out);
    if (op == '*' && text && b->type == RF_JINJA_INT) return repeat_text(m, a, b->is.integer, out);
    if (!rf_jinja_is_number(a) || !rf_jinja_is_number(b))
        return RF_FAIL(RF_ERROR_INVALID_ARGUMENT, "'%s' of %s and %s",
                       op == RF_JINJA_FLOOR ? "//" : (const char[]){ (char)op, 0 }, rf_jinja_describe(a, room[0]),
                       rf_jinja_describe(b, room[1]));
    if (a->type == RF_JINJA_FLOAT || b->type == RF_JINJA_FLOAT)
        return compute_real(op, rf_jinja_number(a), rf_jinja_number(b), out);
    return compute_whole(op, a->type == RF_JINJA_INT ? a->is.integer : a->is.boolean,
                         b->type == RF_JINJA_INT ? b->is.integer : b->is.boolean, out);
}

static rf_result compare_values(machine *m, int op, const rf_jinja_value *a, const rf_jinja_value *b, bool *yes)
{
    int order;
    if (op == RF_JINJA_EQUAL || op == RF_JINJA_UNEQUAL) {
        RF_TRY(rf_jinja_equal(m->run, a, b, yes));
        *yes = *yes == (op == RF_JINJA_EQUAL);
        return RF_OK;
    }
    if (op == RF_JINJA_IN || op == RF_JINJA_NOT_IN) {
        RF_TRY(rf_jinja_contains(m->run, b, a, yes));
        *yes = *yes == (op == RF_JINJA_IN);
        return RF_OK;
    }
    RF_TRY(rf_jinja_compare(m->run, a, b, &order));
    *yes = op == '<' ? order < 0 : op == '>' ? order > 0 : op == RF_JINJA_AT_MOST ? order <= 0 : order >= 0;
    return RF_OK;
}

static rf_result evaluate_comparison(machine *m, const rf_jinja_node *node, rf_jinja_value *out)
{
    rf_jinja_value left, right;
    bool yes = true;
    RF_TRY(evaluate_node(m, node->a, &left));
    for (const rf_jinja_node *n = node->list; yes && n; n = n->next) {
        RF_TRY(evaluate_node(m, n->a, &right));
        RF_TRY(compare_values(m, n->op, &left, &right, &yes));
        left = right;
    }
    *out = rf_jinja_bool(yes);
    return RF_OK;
}

/* ---- calls ---- */

static rf_result place_argument(machine *m, const rf_jinja_node *argument, const rf_jinja_builtin *builtin,
                                rf_jinja_dict *named, rf_jinja_arguments *out)
{
    uint32_t place = out->count;
    rf_jinja_value value;
    const bool has_name = argument->kind == RF_JINJA_ARGUMENT;
    RF_TRY(evaluate_node(m, has_name ? argument->a : argument, &value));
    if (has_name && builtin->any_name) return rf_jinja_dict_set(m->run, named, argument->name, argument->size, value);
    for (place = has_name ? 0 : place; has_name && place < 3 && builtin->keywords[place]; place++)
        if (strlen(builtin->keywords[place]) == argument->size &&
            memcmp(builtin->keywords[place], argument->name, argument->size) == 0)
            break;
    if (has_name && (place == 3 || !builtin->keywords[place]))
        return RF_FAIL(RF_ERROR_UNSUPPORTED, "'%s' has no argument '%.*s' here", builtin->name,
                       (int)(argument->size < 48 ? argument->size : 48), argument->name);
    if (place >= RF_JINJA_ARGUMENTS || out->given[place])
        return RF_FAIL(RF_ERROR_INVALID_ARGUMENT, "'%s' has too many arguments", builtin->name);
    out->items[place] = value;
    out->given[place] = true;
    if (place >= out->count) out->count = place + 1;
    return RF_OK;
}

static rf_result call_builtin(machine *m, const rf_jinja_builtin *builtin, const rf_jinja_value *self,
                              const rf_jinja_node *list, rf_jinja_value *out)
{
    rf_jinja_arguments arguments = { 0 };
    rf_jinja_value named = { 0 };
    if (builtin->any_name) RF_TRY(rf_jinja_dict_new(m->run, 2, &named));
    arguments.named = named.is.dict;
    for (; list; list = list->next) RF_TRY(place_argument(m, list, builtin, named.is.dict, &arguments));
    return rf_jinja_call_builtin(m->run, builtin, self, &arguments, out);
}

/* Runs statements whose text becomes a value. */
static rf_result capture_text(machine *m, const rf_jinja_node *list, rf_jinja_value *out)
{
    rf_text_bytes *before = m->run->out, made = { .limit = (size_t)m->run->memory + 1 };
    const bool captured = m->run->captured;
    flow how = FLOW_ON;
    m->run->out = &made;
    m->run->captured = true;
    rf_result r = run_list(m, list, &how);
    m->run->out = before;
    m->run->captured = captured;
    if (r >= 0) r = rf_jinja_copy(m->run, made.bytes, made.size, out);
    rf_text_bytes_free(&made);
    return r;
}

static const rf_jinja_node *find_parameter(const rf_jinja_node *macro, const rf_jinja_node *argument, uint32_t place)
{
    for (const rf_jinja_node *p = macro->others; p; p = p->next, place--)
        if (argument->kind == RF_JINJA_ARGUMENT
                ? p->size == argument->size && memcmp(p->name, argument->name, p->size) == 0
                : place == 0)
            return p;
    return NULL;
}

static rf_result call_macro(machine *m, const rf_jinja_callable *callable, const rf_jinja_node *list,
                            rf_jinja_value *out)
{
    const rf_jinja_node *macro = callable->macro;
    scope *inner, *outer = m->at;
    uint32_t place = 0;
    rf_jinja_value value;
    RF_TRY(scope_new(m, callable->scope, &inner));
    for (const rf_jinja_node *a = list; a; a = a->next, place++) {
        const rf_jinja_node *p = find_parameter(macro, a, place);
        if (!p)
            return RF_FAIL(RF_ERROR_INVALID_ARGUMENT, "macro '%.*s' has no parameter for argument %u",
                           (int)(macro->size < 48 ? macro->size : 48), macro->name, place + 1);
        RF_TRY(evaluate_node(m, a->kind == RF_JINJA_ARGUMENT ? a->a : a, &value));
        RF_TRY(rf_jinja_dict_set(m->run, inner->names, p->name, p->size, value));
    }
    m->at = inner;
    rf_result r = RF_OK;
    for (const rf_jinja_node *p = macro->others; r >= 0 && p; p = p->next) {
        if (rf_jinja_dict_find(m->run, inner->names, p->name, p->size)) continue;
        value = rf_jinja_undefined(p->name, p->size);
        if (p->a) r = evaluate_node(m, p->a, &value);
        if (r >= 0) r = rf_jinja_dict_set(m->run, inner->names, p->name, p->size, value);
    }
    if (r >= 0) r = capture_text(m, macro->list, out);
    m->at = outer;
    return r;
}

/* Methods are called where they are named; a member of an object goes before a method. */
static rf_result evaluate_call(machine *m, const rf_jinja_node *node, rf_jinja_value *out)
{
    char room[96];
    rf_jinja_value self = { 0 }, called;
    const rf_jinja_node *name = node->a;
    if (name->kind == RF_JINJA_ATTRIBUTE) {
        RF_TRY(evaluate_node(m, name->a, &self));
        const rf_jinja_builtin *method = rf_jinja_find_method(self.type, name->name, name->size);
        if (method) return call_builtin(m, method, &self, node->list, out);
        if (self.type != RF_JINJA_DICT && self.type != RF_JINJA_UNDEFINED)
            return RF_FAIL(RF_ERROR_UNSUPPORTED, "%s has no method '%.*s' here", rf_jinja_describe(&self, room),
                           (int)(name->size < 48 ? name->size : 48), name->name);
        RF_TRY(rf_jinja_attribute(m->run, &self, name->name, name->size, &called));
    } else {
        RF_TRY(evaluate_node(m, name, &called));
    }
    if (called.type != RF_JINJA_CALLABLE)
        return RF_FAIL(called.type == RF_JINJA_UNDEFINED ? RF_ERROR_UNSUPPORTED : RF_ERROR_INVALID_ARGUMENT,
                       "a call of %s", rf_jinja_describe(&called, room));
    if (called.is.callable->builtin) return call_builtin(m, called.is.callable->builtin, &self, node->list, out);
    return call_macro(m, called.is.callable, node->list, out);
}

/* ---- expressions ---- */

static rf_result evaluate_list(machine *m, const rf_jinja_node *node, rf_jinja_value *out)
{
    rf_jinja_value item;
    RF_TRY(rf_jinja_list_new(m->run, 4, out));
    out->is.list->tuple = node->op == 1;
    for (const rf_jinja_node *n = node->list; n; n = n->next) {
        RF_TRY(evaluate_node(m, n, &item));
        RF_TRY(rf_jinja_list_add(m->run, out->is.list, item));
    }
    return RF_OK;
}

static rf_result evaluate_dict(machine *m, const rf_jinja_node *node, rf_jinja_value *out)
{
    char room[96];
    rf_jinja_value name, value;
    RF_TRY(rf_jinja_dict_new(m->run, 4, out));
    for (const rf_jinja_node *n = node->list; n; n = n->next->next) {
        RF_TRY(evaluate_node(m, n, &name));
        RF_TRY(evaluate_node(m, n->next, &value));
        if (name.type != RF_JINJA_STRING)
            return RF_FAIL(RF_ERROR_UNSUPPORTED, "the name of a member is %s", rf_jinja_describe(&name, room));
        RF_TRY(rf_jinja_dict_set(m->run, out->is.dict, name.is.string.bytes, name.is.string.size, value));
    }
    return RF_OK;
}

static rf_result evaluate_part(machine *m, const rf_jinja_node *node, rf_jinja_value *out)
{
    rf_jinja_value whole, bounds[3] = { { 0 } };
    const rf_jinja_node *parts[] = { node->b, node->c, node->d };
    RF_TRY(evaluate_node(m, node->a, &whole));
    if (node->kind == RF_JINJA_ATTRIBUTE) return rf_jinja_attribute(m->run, &whole, node->name, node->size, out);
    for (int i = 0; i < 3; i++)
        if (parts[i]) RF_TRY(evaluate_node(m, parts[i], &bounds[i]));
    return node->kind == RF_JINJA_ITEM ? rf_jinja_item(m->run, &whole, &bounds[0], out)
                                       : rf_jinja_slice(m->run, &whole, bounds, out);
}

static rf_result evaluate_negative(machine *m, const rf_jinja_node *node, rf_jinja_value *out)
{
    const rf_jinja_value zero = rf_jinja_int(0);
    rf_jinja_value value;
    RF_TRY(evaluate_node(m, node->a, &value));
    if (value.type == RF_JINJA_FLOAT) {
        *out = (rf_jinja_value){ RF_JINJA_FLOAT, { .number = -value.is.number } };
        return RF_OK;
    }
    return compute_value(m, '-', &zero, &value, out);
}

static rf_result evaluate_any(machine *m, const rf_jinja_node *node, rf_jinja_value *out)
{
    rf_jinja_value a, b;
    switch (node->kind) {
    case RF_JINJA_CONSTANT: *out = node->value; return RF_OK;
    case RF_JINJA_NAME: return look_up(m, node, out);
    case RF_JINJA_LIST_OF: return evaluate_list(m, node, out);
    case RF_JINJA_DICT_OF: return evaluate_dict(m, node, out);
    case RF_JINJA_ATTRIBUTE:
    case RF_JINJA_ITEM:
    case RF_JINJA_SLICE: return evaluate_part(m, node, out);
    case RF_JINJA_CALL: return evaluate_call(m, node, out);
    case RF_JINJA_FILTER:
    case RF_JINJA_TEST:
        RF_TRY(evaluate_node(m, node->a, &a));
        return call_builtin(m, node->builtin, &a, node->list, out);
    case RF_JINJA_BINARY:
        RF_TRY(evaluate_node(m, node->a, &a));
        RF_TRY(evaluate_node(m, node->b, &b));
        return compute_value(m, node->op, &a, &b, out);
    case RF_JINJA_NEGATIVE: return evaluate_negative(m, node, out);
    case RF_JINJA_NOT:
        RF_TRY(evaluate_node(m, node->a, &a));
        *out = rf_jinja_bool(!rf_jinja_truth(&a));
        return RF_OK;
    case RF_JINJA_AND:
    case RF_JINJA_OR:
        RF_TRY(evaluate_node(m, node->a, out));
        return rf_jinja_truth(out) == (node->kind == RF_JINJA_OR) ? RF_OK : evaluate_node(m, node->b, out);
    case RF_JINJA_COMPARE: return evaluate_comparison(m, node, out);
    case RF_JINJA_CONDITION:
        RF_TRY(evaluate_node(m, node->b, &b));
        if (rf_jinja_truth(&b)) return evaluate_node(m, node->a, out);
        *out = rf_jinja_undefined("", 0);
        return node->c ? evaluate_node(m, node->c, out) : RF_OK;
    default: return RF_FAIL(RF_ERROR_INTERNAL, "no expression");
    }
}

static rf_result evaluate_node(machine *m, const rf_jinja_node *node, rf_jinja_value *out)
{
    const uint32_t line = m->run->line;
    m->run->line = node->line;
    rf_result r = rf_jinja_enter(m->run);
    if (r >= 0) r = evaluate_any(m, node, out);
    rf_jinja_leave(m->run);
    if (r >= 0) m->run->line = line; /* else that of the failure */
    return r;
}

/* ---- statements ---- */

/* The items of a loop that its condition leaves. */
static rf_result filter_items(machine *m, const rf_jinja_node *node, rf_jinja_value *items)
{
    rf_jinja_value all = *items, said;
    scope *outer = m->at;
    RF_TRY(rf_jinja_list_new(m->run, 0, items));
    rf_result r = scope_new(m, outer, &m->at);
    for (uint32_t i = 0; r >= 0 && i < all.is.list->count; i++) {
        r = assign_value(m, node->a, all.is.list->items[i]);
        if (r >= 0) r = evaluate_node(m, node->c, &said);
        if (r >= 0 && rf_jinja_truth(&said)) r = rf_jinja_list_add(m->run, items->is.list, all.is.list->items[i]);
    }
    m->at = outer;
    return r;
}

static rf_result run_for(machine *m, const rf_jinja_node *node, flow *how)
{
    rf_jinja_value whole, items;
    scope *outer = m->at;
    RF_TRY(evaluate_node(m, node->b, &whole));
    RF_TRY(rf_jinja_iterate(m->run, &whole, &items));
    if (node->c) RF_TRY(filter_items(m, node, &items));
    if (items.is.list->count == 0) return run_list(m, node->others, how);
    rf_jinja_loop *loop = rf_jinja_alloc(m->run, sizeof(*loop));
    if (!loop) return rf_jinja_alloc_failure();
    *loop = (rf_jinja_loop){ items.is.list, 0 };
    const rf_jinja_value variable = { RF_JINJA_LOOP, { .loop = loop } };
    rf_result r = RF_OK;
    for (flow inner = FLOW_ON; r >= 0 && inner != FLOW_BREAK && loop->at < items.is.list->count; loop->at++) {
        inner = FLOW_ON;
        r = scope_new(m, outer, &m->at);
        if (r >= 0) r = rf_jinja_dict_set(m->run, m->at->names, "loop", 4, variable);
        if (r >= 0) r = assign_value(m, node->a, items.is.list->items[loop->at]);
        if (r >= 0) r = run_list(m, node->list, &inner);
        m->at = outer;
    }
    return r;
}

/* A chain of "elif" is one after the other. */
static rf_result run_if(machine *m, const rf_jinja_node *node, flow *how)
{
    rf_jinja_value said;
    for (;;) {
        RF_TRY(evaluate_node(m, node->a, &said));
        if (rf_jinja_truth(&said)) return run_list(m, node->list, how);
        const rf_jinja_node *next = node->others;
        if (!next || next->kind != RF_JINJA_IF || next->next) return run_list(m, next, how);
        node = next;
    }
}

static rf_result run_set(machine *m, const rf_jinja_node *node)
{
    rf_jinja_value value;
    RF_TRY(node->b ? evaluate_node(m, node->b, &value) : capture_text(m, node->list, &value));
    return assign_value(m, node->a, value);
}

static rf_result run_generation(machine *m, const rf_jinja_node *node, flow *how)
{
    if (m->run->captured)
        return RF_FAIL(RF_ERROR_UNSUPPORTED, "the tag 'generation' stands within a macro or a set block");
    const size_t begin = m->run->out->size;
    RF_TRY(run_list(m, node->list, how));
    RF_TRY(RF_VEC_GROW(&m->result->spans));
    m->result->spans.items[m->result->spans.count++] = (rf_jinja_span){ begin, m->run->out->size };
    return RF_OK;
}

static rf_result run_statement(machine *m, const rf_jinja_node *node, flow *how)
{
    rf_jinja_value value = { 0 };
    switch (node->kind) {
    case RF_JINJA_TEXT: return rf_jinja_write(m->run, &node->value, m->run->out);
    case RF_JINJA_PRINT: RF_TRY(evaluate_node(m, node->a, &value)); return rf_jinja_write(m->run, &value, m->run->out);
    case RF_JINJA_IF: return run_if(m, node, how);
    case RF_JINJA_FOR: return run_for(m, node, how);
    case RF_JINJA_SET: return run_set(m, node);
    case RF_JINJA_MACRO:
        RF_TRY(callable_new(m, NULL, node, &value));
        return rf_jinja_dict_set(m->run, m->at->names, node->name, node->size, value);
    case RF_JINJA_GENERATION: return run_generation(m, node, how);
    case RF_JINJA_BREAK: *how = FLOW_BREAK; return RF_OK;
    case RF_JINJA_CONTINUE: *how = FLOW_CONTINUE; return RF_OK;
    default: return RF_FAIL(RF_ERROR_INTERNAL, "no statement");
    }
}

static rf_result run_list(machine *m, const rf_jinja_node *list, flow *how)
{
    rf_result r = rf_jinja_enter(m->run);
    for (; r >= 0 && list && *how == FLOW_ON; list = list->next) {
        m->run->line = list->line;
        r = rf_jinja_step(m->run, 1);
        if (r >= 0) r = run_statement(m, list, how);
    }
    rf_jinja_leave(m->run);
    return r;
}

/* ---- the template ---- */

rf_result rf_jinja_render(const rf_jinja_template *t, rf_jinja_run *run, const rf_jinja_dict *globals,
                          rf_jinja_result *out)
{
    machine m = { .run = run, .result = out };
    scope outer = { NULL, (rf_jinja_dict *)(uintptr_t)globals };
    flow how = FLOW_ON;
    *out = (rf_jinja_result){ .text.limit = (size_t)run->memory + 1 };
    run->out = &out->text;
    run->captured = false;
    run->line = 1;
    rf_result r = scope_new(&m, &outer, &m.at);
    if (r >= 0) r = run_list(&m, t->body, &how);
    run->out = NULL;
    return rf_error_context(r, "line %u", run->line);
}

void rf_jinja_result_free(rf_jinja_result *result)
{
    rf_text_bytes_free(&result->text);
    rf_free(result->spans.items);
    *result = (rf_jinja_result){ 0 };
}
