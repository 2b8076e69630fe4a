/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/einsum_plan.h"

#include <stdio.h>
#include <string.h>

#include "base/error.h"

/* Letters in the order of the alphabet, capitals first; then the dimensions of the ellipsis, from the last one. */
enum { LETTERS = 52, LABELS = LETTERS + RF_MAX_RANK };

typedef struct label_list {
    int32_t count;
    uint8_t label[RF_MAX_RANK];
} label_list;

/* A tensor with a label for each dimension. */
typedef struct labelled {
    uint32_t value;
    label_list labels;
    int64_t dim[RF_MAX_RANK];
} labelled;

typedef struct planner {
    const char *equation;
    rf_einsum_plan *plan;
    uint32_t num_operands;
    labelled operands[RF_EINSUM_OPERANDS];
    label_list out;
    int32_t ellipsis;     /* its dimensions */
    int64_t size[LABELS]; /* of what the equation has; then of the pair at hand */
} planner;

#define REFUSE(p, format, ...)                                                                                         \
    RF_FAIL(RF_ERROR_INVALID_ARGUMENT, "rf_einsum: '%s': " format, (p)->equation, __VA_ARGS__)

static int32_t find_label(const label_list *list, uint8_t label)
{
    for (int32_t i = 0; i < list->count; i++)
        if (list->label[i] == label) return i;
    return -1;
}

static bool has_label(const label_list *list, uint8_t label)
{
    return find_label(list, label) >= 0;
}

static void append_label(label_list *list, uint8_t label)
{
    list->label[list->count++] = label;
}

/* ---- the equation ---- */

static int32_t label_of(char c)
{
    if (c >= 'A' && c <= 'Z') return c - 'A';
    if (c >= 'a' && c <= 'z') return c - 'a' + 26;
    return -1;
}

static bool is_ellipsis(const char *at, const char *end)
{
    return end - at >= 3 && memcmp(at, "...", 3) == 0;
}

/* The labels of a term; the ellipsis stands for so many dimensions. */
static rf_result parse_term(const planner *p, const char *at, const char *end, int32_t ellipsis, const char *what,
                            label_list *out)
{
    bool has_ellipsis = false;
    out->count = 0;
    for (; at < end; at++) {
        if (*at == ' ') continue;
        const int32_t label = label_of(*at);
        const int32_t added = label >= 0 ? 1 : ellipsis;
        if (label < 0 && (!is_ellipsis(at, end) || has_ellipsis))
            return REFUSE(p, "'%c' is no letter, and no ellipsis that stands alone in its term", *at);
        if (out->count + added > RF_MAX_RANK) return REFUSE(p, "%s has more than %d dimensions", what, RF_MAX_RANK);
        if (label >= 0) {
            if (has_label(out, (uint8_t)label))
                return REFUSE(p, "%s has '%c' twice; diagonals are not taken", what, *at);
            append_label(out, (uint8_t)label);
            continue;
        }
        for (int32_t i = ellipsis; i-- > 0;) append_label(out, (uint8_t)(LETTERS + i));
        has_ellipsis = true;
        at += 2;
    }
    if (!has_ellipsis && ellipsis > 0) return REFUSE(p, "%s has no ellipsis for %d dimensions", what, (int)ellipsis);
    return RF_OK;
}

static int32_t count_letters(const char *at, const char *end)
{
    int32_t count = 0;
    for (; at < end; at++) count += label_of(*at) >= 0;
    return count;
}

static rf_result parse_operand(planner *p, uint32_t i, const char *at, const char *end, rf_shape shape)
{
    char what[32], text[96];
    snprintf(what, sizeof(what), "operand %u", i);
    const int32_t hidden = shape.rank - count_letters(at, end);
    const bool has_ellipsis = memchr(at, '.', (size_t)(end - at)) != NULL;
    if (hidden < 0 || (hidden > 0 && !has_ellipsis))
        return REFUSE(p, "operand %u has the shape %s, whose dimensions are not as many as its letters", i,
                      rf_shape_format(shape, text, sizeof(text)));
    labelled *x = &p->operands[i];
    x->value = i;
    RF_TRY(parse_term(p, at, end, hidden, what, &x->labels));
    if (hidden > p->ellipsis) p->ellipsis = hidden;
    for (int32_t d = 0; d < shape.rank; d++) {
        int64_t *size = &p->size[x->labels.label[d]];
        x->dim[d] = shape.dim[d];
        if (*size > 1 && x->dim[d] > 1 && *size != x->dim[d])
            return REFUSE(p, "dimension %d of operand %u is %lld, and that of another one with its letter %lld", (int)d,
                          i, (long long)x->dim[d], (long long)*size);
        if (x->dim[d] != 1 || *size == 0) *size = x->dim[d];
    }
    return RF_OK;
}

/* Without an arrow: the ellipsis, then the letters that occur once. */
static rf_result imply_output(planner *p)
{
    uint32_t times[LABELS] = { 0 };
    for (uint32_t i = 0; i < p->num_operands; i++)
        for (int32_t d = 0; d < p->operands[i].labels.count; d++) times[p->operands[i].labels.label[d]]++;
    for (int32_t i = p->ellipsis; i-- > 0;) append_label(&p->out, (uint8_t)(LETTERS + i));
    for (uint32_t label = 0; label < LETTERS; label++) {
        if (times[label] != 1) continue;
        if (p->out.count == RF_MAX_RANK) return REFUSE(p, "the result has more than %d dimensions", RF_MAX_RANK);
        append_label(&p->out, (uint8_t)label);
    }
    return RF_OK;
}

static rf_result parse_equation(planner *p, const rf_shape *shapes)
{
    const char *arrow = strstr(p->equation, "->"), *end = arrow ? arrow : p->equation + strlen(p->equation);
    const char *at = p->equation;
    uint32_t terms = 1;
    for (const char *c = at; c < end; c++) terms += *c == ',';
    if (terms != p->num_operands) return REFUSE(p, "it is of %u operands, and there are %u", terms, p->num_operands);
    for (uint32_t i = 0; i < terms; i++) {
        const char *comma = memchr(at, ',', (size_t)(end - at)), *last = comma ? comma : end;
        RF_TRY(parse_operand(p, i, at, last, shapes[i]));
        at = last + 1;
    }
    if (!arrow) return imply_output(p);
    RF_TRY(parse_term(p, arrow + 2, arrow + strlen(arrow), p->ellipsis, "the result", &p->out));
    for (int32_t d = 0; d < p->out.count; d++) {
        bool known = false;
        for (uint32_t i = 0; i < terms; i++) known |= has_label(&p->operands[i].labels, p->out.label[d]);
        if (!known) return REFUSE(p, "a letter of the result (number %d) is in no operand", (int)d);
    }
    return RF_OK;
}

/* ---- steps ---- */

/* A step on the value of x, which becomes its result. */
static rf_result add_step(planner *p, labelled *x, const rf_einsum_step *step)
{
    rf_einsum_plan *plan = p->plan;
    if (plan->count == RF_EINSUM_STEPS) return REFUSE(p, "it takes more than %d operations", RF_EINSUM_STEPS);
    plan->steps[plan->count] = *step;
    plan->steps[plan->count].a = x->value;
    x->value = p->num_operands + plan->count++;
    return RF_OK;
}

static void remove_dim(labelled *x, int32_t d)
{
    for (x->labels.count--; d < x->labels.count; d++) {
        x->labels.label[d] = x->labels.label[d + 1];
        x->dim[d] = x->dim[d + 1];
    }
}

static rf_result squeeze_dim(planner *p, labelled *x, int32_t d)
{
    RF_TRY(add_step(p, x, &(rf_einsum_step){ .kind = RF_EINSUM_SQUEEZE, .num_axes = 1, .axes = { d } }));
    remove_dim(x, d);
    return RF_OK;
}

/* Sums over what neither the other tensor nor the rest of the equation has. */
static rf_result sum_rest(planner *p, labelled *x, const bool *kept, const labelled *other)
{
    rf_einsum_step step = { .kind = RF_EINSUM_SUM };
    for (int32_t d = 0; d < x->labels.count; d++)
        if (!kept[x->labels.label[d]] && !(other && has_label(&other->labels, x->labels.label[d])))
            step.axes[step.num_axes++] = d;
    if (step.num_axes == 0) return RF_OK;
    RF_TRY(add_step(p, x, &step));
    for (uint32_t i = step.num_axes; i-- > 0;) remove_dim(x, step.axes[i]);
    return RF_OK;
}

/* Puts the dimensions of x into the order that their labels have in `order`, which has all of them. */
static rf_result order_dims(planner *p, labelled *x, const label_list *order)
{
    rf_einsum_step step = { .kind = RF_EINSUM_TRANSPOSE, .num_axes = (uint32_t)x->labels.count };
    labelled turned = *x;
    bool same = true;
    for (int32_t i = 0, n = 0; i < order->count; i++) {
        const int32_t d = find_label(&x->labels, order->label[i]);
        if (d < 0) continue;
        same &= d == n;
        step.axes[n] = d;
        turned.labels.label[n] = x->labels.label[d];
        turned.dim[n++] = x->dim[d];
    }
    if (same) return RF_OK;
    RF_TRY(add_step(p, x, &step));
    turned.value = x->value;
    *x = turned;
    return RF_OK;
}

static rf_result expand_dim(planner *p, labelled *x, int32_t axis)
{
    return add_step(p, x, &(rf_einsum_step){ .kind = RF_EINSUM_EXPAND, .num_axes = 1, .axes = { axis } });
}

/* Appends a dimension for the product of some labels of x to the sizes of a reshape. */
static void append_size(rf_einsum_step *step, const labelled *x, const uint8_t *labels, int32_t count)
{
    rf_einsum_size size = { .of = x->value };
    for (int32_t i = 0; i < count; i++) size.axes |= 1u << find_label(&x->labels, labels[i]);
    step->sizes[step->num_sizes++] = size;
}

/* ---- a pair of operands ---- */

typedef struct groups {
    label_list batch, summed, own[2]; /* of both and kept, of both and summed, of one alone */
} groups;

static groups group_labels(const labelled *a, const labelled *b, const bool *kept)
{
    groups g = { 0 };
    for (int32_t d = 0; d < a->labels.count; d++) {
        const uint8_t label = a->labels.label[d];
        append_label(!has_label(&b->labels, label) ? &g.own[0] : kept[label] ? &g.batch : &g.summed, label);
    }
    for (int32_t d = 0; d < b->labels.count; d++)
        if (!has_label(&a->labels, b->labels.label[d])) append_label(&g.own[1], b->labels.label[d]);
    return g;
}

static rf_result join_labels(const planner *p, const label_list *const *lists, int32_t count, label_list *out)
{
    out->count = 0;
    for (int32_t i = 0; i < count; i++)
        for (int32_t d = 0; d < lists[i]->count; d++) {
            if (out->count == RF_MAX_RANK)
                return REFUSE(p, "a product on the way has more than %d dimensions", RF_MAX_RANK);
            append_label(out, lists[i]->label[d]);
        }
    return RF_OK;
}

/* Gives x all dimensions of `order`, those that it lacks as ones. */
static rf_result spread_dims(planner *p, labelled *x, const label_list *order)
{
    RF_TRY(order_dims(p, x, order));
    for (int32_t i = 0; i < order->count; i++)
        if (!has_label(&x->labels, order->label[i])) RF_TRY(expand_dim(p, x, i));
    return RF_OK;
}

static rf_result multiply_pair(planner *p, labelled *a, labelled *b, const groups *g, const bool *kept)
{
    const bool b_has_all = g->own[0].count == 0;
    label_list order;
    RF_TRY(join_labels(p, (const label_list *[]){ b_has_all ? &b->labels : &a->labels, &g->own[1] }, b_has_all ? 1 : 2,
                       &order));
    RF_TRY(spread_dims(p, a, &order));
    RF_TRY(spread_dims(p, b, &order));
    RF_TRY(add_step(p, a, &(rf_einsum_step){ .kind = RF_EINSUM_MULTIPLY, .b = b->value }));
    a->labels = order;
    for (int32_t d = 0; d < order.count; d++) a->dim[d] = p->size[order.label[d]];
    return sum_rest(p, a, kept, NULL);
}

/* Makes x [batch..., rows, columns] with one dimension for all rows and one for all columns, or the two exchanged where
 * that is how they stand. */
static rf_result make_matrices(planner *p, labelled *x, const label_list *batch, const label_list *rows,
                               const label_list *columns, bool *transposed)
{
    label_list plain, exchanged;
    RF_TRY(join_labels(p, (const label_list *[]){ batch, rows, columns }, 3, &plain));
    RF_TRY(join_labels(p, (const label_list *[]){ batch, columns, rows }, 3, &exchanged));
    *transposed = memcmp(exchanged.label, x->labels.label, (size_t)exchanged.count) == 0 &&
                  memcmp(plain.label, x->labels.label, (size_t)plain.count) != 0;
    if (!*transposed) RF_TRY(order_dims(p, x, &plain));
    const label_list *last[] = { *transposed ? columns : rows, *transposed ? rows : columns };
    if (last[0]->count <= 1 && last[1]->count <= 1) {
        for (int32_t i = 0; i < 2; i++)
            if (last[i]->count == 0) RF_TRY(expand_dim(p, x, batch->count + i));
        return RF_OK;
    }
    rf_einsum_step step = { .kind = RF_EINSUM_RESHAPE };
    for (int32_t d = 0; d < batch->count; d++) append_size(&step, x, &batch->label[d], 1);
    for (int32_t i = 0; i < 2; i++) append_size(&step, x, last[i]->label, last[i]->count);
    return add_step(p, x, &step);
}

/* The product's two last dimensions become those of its rows and columns again: of what was multiplied. */
static rf_result split_product(planner *p, labelled *x, const labelled factors[2], const groups *g)
{
    RF_TRY(join_labels(p, (const label_list *[]){ &g->batch, &g->own[0], &g->own[1] }, 3, &x->labels));
    for (int32_t d = 0; d < x->labels.count; d++) x->dim[d] = p->size[x->labels.label[d]];
    if (g->own[0].count <= 1 && g->own[1].count <= 1) {
        for (int32_t i = 2; i-- > 0;)
            if (g->own[i].count == 0)
                RF_TRY(add_step(
                    p, x,
                    &(rf_einsum_step){ .kind = RF_EINSUM_SQUEEZE, .num_axes = 1, .axes = { g->batch.count + i } }));
        return RF_OK;
    }
    rf_einsum_step step = { .kind = RF_EINSUM_RESHAPE };
    for (int32_t d = 0; d < x->labels.count; d++) {
        const uint8_t label = x->labels.label[d];
        append_size(&step, &factors[!has_label(&factors[0].labels, label)], &label, 1);
    }
    return add_step(p, x, &step);
}

static rf_result contract_pair(planner *p, labelled *a, labelled *b, const bool *kept)
{
    for (int32_t d = a->labels.count; d-- > 0;) { /* ones that meet more are nothing to multiply by */
        const int32_t e = find_label(&b->labels, a->labels.label[d]);
        if (e < 0 || a->dim[d] == b->dim[e]) continue;
        RF_TRY(a->dim[d] == 1 ? squeeze_dim(p, a, d) : squeeze_dim(p, b, e));
    }
    RF_TRY(sum_rest(p, a, kept, b));
    RF_TRY(sum_rest(p, b, kept, a));
    for (int32_t d = 0; d < a->labels.count; d++) p->size[a->labels.label[d]] = a->dim[d];
    for (int32_t d = 0; d < b->labels.count; d++) p->size[b->labels.label[d]] = b->dim[d];
    const groups g = group_labels(a, b, kept);
    if (g.summed.count == 0 || (g.own[0].count == 0 && g.own[1].count == 0)) return multiply_pair(p, a, b, &g, kept);
    if (g.batch.count + 2 > RF_MAX_RANK)
        return REFUSE(p, "a product on the way has more than %d dimensions", RF_MAX_RANK);
    const labelled factors[2] = { *a, *b };
    rf_einsum_step product = { .kind = RF_EINSUM_MATMUL };
    RF_TRY(make_matrices(p, a, &g.batch, &g.own[0], &g.summed, &product.transpose_a));
    RF_TRY(make_matrices(p, b, &g.batch, &g.summed, &g.own[1], &product.transpose_b));
    product.b = b->value;
    RF_TRY(add_step(p, a, &product));
    return split_product(p, a, factors, &g);
}

/* ---- the order of pairs ---- */

typedef struct operand_pair {
    uint32_t a, b;
} operand_pair;

typedef struct order_search {
    uint64_t kept;  /* labels of the result, a bit each */
    uint32_t looks; /* pairs that may still be looked at */
    uint32_t count; /* of pairs found */
    operand_pair pairs[RF_EINSUM_OPERANDS];
    operand_pair wide; /* one that does not do */
} order_search;

/* Labels of the product of operands a and b, among those that are `left`. */
static uint64_t product_labels(const order_search *s, const uint64_t *labels, uint32_t left, operand_pair pair)
{
    uint64_t kept = s->kept;
    for (uint32_t i = 0; i < RF_EINSUM_OPERANDS; i++)
        if (left >> i & 1 && i != pair.a && i != pair.b) kept |= labels[i];
    return (labels[pair.a] | labels[pair.b]) & kept;
}

/* Pairs from left to right, as long as their products have dimensions to spare; else those with the fewest come first.
 * `labels` of each operand, of which those in the bits of `left` are there. */
static bool find_order(order_search *s, const uint64_t *labels, uint32_t left)
{
    const uint32_t first = (uint32_t)__builtin_ctz(left);
    if ((left & (left - 1)) == 0) return true;
    for (int rank = -1; rank <= RF_MAX_RANK; rank++)
        for (uint32_t a = first; a < RF_EINSUM_OPERANDS; a++)
            for (uint32_t b = a + 1; b < RF_EINSUM_OPERANDS; b++) {
                const operand_pair pair = { a, b };
                if (!(left >> a & 1) || !(left >> b & 1) || s->looks == 0) continue;
                const uint64_t product = product_labels(s, labels, left, pair);
                const int its = __builtin_popcountll(product);
                const bool next = a == first && (left & ((1u << b) - 1)) == 1u << a; /* from left to right */
                if (its > RF_MAX_RANK) s->wide = pair;
                if (its > RF_MAX_RANK || (rank < 0 ? !next : its != rank)) continue;
                uint64_t then[RF_EINSUM_OPERANDS];
                memcpy(then, labels, sizeof(then));
                then[a] = product;
                s->looks--;
                s->pairs[s->count++] = pair;
                if (find_order(s, then, left & ~(1u << b))) return true;
                s->count--;
            }
    return false;
}

static rf_result order_pairs(const planner *p, order_search *s)
{
    enum { MOST_LOOKS = 20000 };
    uint64_t labels[RF_EINSUM_OPERANDS] = { 0 };
    *s = (order_search){ .looks = MOST_LOOKS };
    for (int32_t d = 0; d < p->out.count; d++) s->kept |= UINT64_C(1) << p->out.label[d];
    for (uint32_t i = 0; i < p->num_operands; i++)
        for (int32_t d = 0; d < p->operands[i].labels.count; d++)
            labels[i] |= UINT64_C(1) << p->operands[i].labels.label[d];
    if (find_order(s, labels, (1u << p->num_operands) - 1)) return RF_OK;
    return REFUSE(
        p,
        "in whatever order operands are contracted, a product on the way has more than %d dimensions, as that "
        "of operands %u and %u has; sum over some of them, or join dimensions, before",
        RF_MAX_RANK, s->wide.a, s->wide.b);
}

rf_result rf_einsum_plan_make(const char *equation, const rf_shape *shapes, uint32_t num_operands, rf_einsum_plan *plan)
{
    planner p = { .equation = equation, .plan = plan, .num_operands = num_operands };
    order_search order;
    plan->count = 0;
    if (num_operands < 1 || num_operands > RF_EINSUM_OPERANDS)
        return REFUSE(&p, "there are %u operands, not 1 to %d", num_operands, RF_EINSUM_OPERANDS);
    RF_TRY(parse_equation(&p, shapes));
    RF_TRY(order_pairs(&p, &order));
    uint32_t left = (1u << num_operands) - 1;
    for (uint32_t i = 0; i < order.count || i == 0; i++) {
        const operand_pair pair = i < order.count ? order.pairs[i] : (operand_pair){ 0, 0 };
        bool kept[LABELS] = { 0 };
        for (int32_t d = 0; d < p.out.count; d++) kept[p.out.label[d]] = true;
        for (uint32_t k = 0; k < num_operands; k++)
            for (int32_t d = 0; left >> k & 1 && k != pair.a && k != pair.b && d < p.operands[k].labels.count; d++)
                kept[p.operands[k].labels.label[d]] = true;
        labelled *x = &p.operands[pair.a];
        RF_TRY(order.count == 0 ? sum_rest(&p, x, kept, NULL) : contract_pair(&p, x, &p.operands[pair.b], kept));
        left &= ~(1u << pair.b) | 1u << pair.a;
    }
    labelled *x = &p.operands[order.count > 0 ? order.pairs[order.count - 1].a : 0];
    RF_TRY(order_dims(&p, x, &p.out));
    plan->result = x->value;
    return RF_OK;
}
