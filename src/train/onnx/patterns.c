/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Operations that files spell out in parts, put together again: those of the library's own files, which then give the
 * same bits, and those of PyTorch's. A pattern is a term: operations, letters that stand for any value (the same one
 * each time), "#2" for a number, "%e" for any number, which is kept, and "M" for the mean over the last axis.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "train/onnx/graph.h"

/* Terms that are tried for one node, and in all: a file could be made to need many more. */
enum { MOST_BRANCHES = 4096, MOST_BRANCHES_OF_ALL = 1 << 22 };

typedef struct match {
    rf_import *im;
    const uint32_t *producers; /* by value: the node that makes it, counted from 1; 0: none */
    const char *bound['z' + 1];
    double numbers['z' + 1];
    const rf_import_node *gather; /* the one that was met */
    uint32_t branches;
} match;

static const rf_import_node *producer_of(const match *m, const char *name)
{
    const rf_import_value *v = rf_import_find(m->im, name);
    const uint32_t number = v ? m->producers[rf_import_number_of(m->im, v)] : 0;
    return number ? &m->im->file.graph.nodes[number - 1] : NULL;
}

/* A constant of one number. */
static bool number_of(const match *m, const char *name, double *out)
{
    const rf_import_value *v = rf_import_find(m->im, name);
    const rf_import_node *n = producer_of(m, name);
    const rf_import_attribute *a = n && strcmp(n->op, "Constant") == 0 ? rf_import_find_attribute(n, "value") : NULL;
    float f;
    int64_t w;
    if (v && v->kind == RF_IMPORT_CONSTANT) {
        *out = rf_import_count(&v->constant) == 1 ? rf_import_element(&v->constant, 0) : 0;
        return rf_import_count(&v->constant) == 1;
    }
    if (!a || !a->t || rf_shape_count(a->t->shape) != 1 || rf_import_type_size(a->t->type) == 0) return false;
    if (rf_import_type_is_float(a->t->type)) {
        if (rf_import_tensor_floats(a->t, &f) < 0) return false;
        *out = (double)f;
    } else {
        if (rf_import_tensor_whole(a->t, &w) < 0) return false;
        *out = (double)w;
    }
    return true;
}

/* The mean over the last axis, which stays as a 1. */
static bool is_row_mean(const match *m, const rf_import_node *n)
{
    const rf_import_attribute *a = rf_import_find_attribute(n, "axes");
    double axis = 0;
    if (strcmp(n->op, "ReduceMean") != 0 || !rf_import_attribute_int(n, "keepdims", 1)) return false;
    if (a) return a->num_ints == 1 && a->ints[0] == -1;
    return n->num_in > 1 && number_of(m, n->in[1], &axis) && axis == -1;
}

/* ---- terms ---- */

static const char *term_end(const char *p)
{
    int depth = 0;
    for (; *p; p++) {
        if (*p == '(') depth++;
        if (depth == 0 && (*p == ',' || *p == ')')) return p;
        if (*p == ')') depth--;
    }
    return p;
}

static bool match_term(match *m, const char *p, const char *value);

static bool match_leaf(match *m, const char *p, const char *value)
{
    double number;
    if (*p == '#' || *p == '%') {
        if (!number_of(m, value, &number)) return false;
        if (*p == '%') m->numbers[(int)p[1]] = number;
        if (*p == '%') return true;
        if (p[1] == 'n') return number != number;
        const double wanted = rf_number_parse(p + 1, NULL);
        return fabs(number - wanted) <= 1e-4 * fabs(wanted);
    }
    if (m->bound[(int)*p]) return strcmp(m->bound[(int)*p], value) == 0;
    m->bound[(int)*p] = value;
    return true;
}

/* Operands in the order of the term, or of a sum or product in the other one. */
static bool match_operands(match *m, const char *args, const rf_import_node *n)
{
    const char *terms[3];
    uint32_t count = 0;
    for (const char *p = args; count < 3; p = term_end(p) + 1) {
        terms[count++] = p;
        if (*term_end(p) != ',') break;
    }
    if (count > n->num_in || (count < n->num_in && strcmp(n->op, "ReduceMean") != 0)) return false;
    const match before = *m;
    bool ok = true;
    for (uint32_t i = 0; ok && i < count; i++) ok = match_term(m, terms[i], n->in[i]);
    if (ok || count != 2 || (strcmp(n->op, "Add") != 0 && strcmp(n->op, "Mul") != 0)) return ok;
    const uint32_t branches = m->branches;
    *m = before;
    m->branches = branches;
    return match_term(m, terms[0], n->in[1]) && match_term(m, terms[1], n->in[0]);
}

static bool match_term(match *m, const char *p, const char *value)
{
    const char *end = term_end(p), *open = memchr(p, '(', (size_t)(end - p));
    if (++m->branches > MOST_BRANCHES) return false;
    if (!open) return match_leaf(m, p, value);
    const rf_import_node *n = producer_of(m, value);
    if (!n || *n->domain || n->num_out != 1) return false;
    const size_t length = (size_t)(open - p);
    if (length == 1 && *p == 'M') return is_row_mean(m, n) && match_operands(m, open + 1, n);
    if (strlen(n->op) != length || strncmp(n->op, p, length) != 0) return false;
    if (strcmp(n->op, "Gather") == 0) m->gather = n;
    return match_operands(m, open + 1, n);
}

/* ---- what they become ---- */

static rf_import_attribute *new_attributes(rf_import *im, rf_import_node *n, uint32_t count)
{
    n->attributes = rf_import_alloc(im, count * sizeof(*n->attributes));
    n->num_attributes = n->attributes ? count : 0;
    for (uint32_t i = 0; i < n->num_attributes; i++) n->attributes[i].s = "";
    return n->attributes;
}

static rf_result set_node(rf_import *im, rf_import_node *n, const char *op, const char *const *in, uint32_t count)
{
    n->in = rf_import_alloc(im, (count + 1) * sizeof(*n->in));
    if (!n->in) return RF_ERROR_OUT_OF_HOST_MEMORY;
    for (uint32_t i = 0; i < count; i++) n->in[i] = in[i] ? in[i] : "";
    n->num_in = count;
    n->op = op;
    n->num_attributes = 0;
    return RF_OK;
}

static rf_result to_function(match *m, rf_import_node *n, const char *op)
{
    return set_node(m->im, n, op, (const char *[]){ m->bound['x'] }, 1);
}

static rf_result to_gelu_tanh(match *m, rf_import_node *n, const char *op)
{
    RF_TRY(to_function(m, n, op));
    rf_import_attribute *a = new_attributes(m->im, n, 1);
    if (!a) return RF_ERROR_OUT_OF_HOST_MEMORY;
    *a = (rf_import_attribute){ .name = "approximate", .type = RF_IMPORT_ATTRIBUTE_STRING, .s = "tanh" };
    return RF_OK;
}

static rf_result to_norm(match *m, rf_import_node *n, const char *op)
{
    const char *const in[] = { m->bound['x'], m->bound['g'], m->bound['b'] };
    const uint32_t count = in[2] ? 3 : in[1] ? 2 : 1;
    RF_TRY(set_node(m->im, n, op, in, count));
    rf_import_attribute *a = new_attributes(m->im, n, 1);
    if (!a) return RF_ERROR_OUT_OF_HOST_MEMORY;
    *a = (rf_import_attribute){ .name = "epsilon", .type = RF_IMPORT_ATTRIBUTE_FLOAT, .f = (float)m->numbers['e'] };
    return RF_OK;
}

/* A constant that stands along one axis, as a vector. -1: it is none; else how many axes are behind it. */
static int32_t vector_axis(const match *m, const char *name, int64_t *size)
{
    const rf_import_value *v = name ? rf_import_find(m->im, name) : NULL;
    int32_t axis = -1;
    if (!v || v->kind != RF_IMPORT_CONSTANT || v->constant.whole || rf_import_count(&v->constant) < 2) return -1;
    for (int32_t d = 0; d < v->constant.shape.rank; d++) {
        if (v->constant.shape.dim[d] == 1) continue;
        if (axis >= 0) return -1;
        axis = v->constant.shape.rank - 1 - d;
    }
    *size = rf_import_count(&v->constant);
    return axis;
}

static const char *as_vector(match *m, const char *name)
{
    const rf_import_value *v = rf_import_find(m->im, name);
    char *copy = v ? rf_import_alloc(m->im, strlen(name) + 2) : NULL;
    if (!copy) return NULL;
    snprintf(copy, strlen(name) + 2, "%s\n", name);
    rf_import_value *vector = rf_import_add_value(m->im, copy);
    if (!vector) return NULL;
    vector->kind = RF_IMPORT_CONSTANT;
    vector->constant = v->constant;
    vector->constant.shape = RF_SHAPE(rf_import_count(&v->constant));
    return copy;
}

/* x less its mean, times a factor of gamma and variance, which may stand in another shape, and beta. */
static bool is_batch_norm(match *m)
{
    int64_t size = 0, other = 0;
    const int32_t axis = vector_axis(m, m->bound['m'], &size);
    if (axis < 0 || vector_axis(m, m->bound['v'], &other) < 0 || other != size) return false;
    if (m->bound['g'] && (vector_axis(m, m->bound['g'], &other) < 0 || other != size)) return false;
    return !m->bound['b'] || (vector_axis(m, m->bound['b'], &other) == axis && other == size);
}

static rf_result to_batch_norm(match *m, rf_import_node *n, const char *op)
{
    int64_t size;
    const int32_t axis = vector_axis(m, m->bound['m'], &size);
    static const char letters[] = "gbmv";
    const char *in[5] = { m->bound['x'] };
    for (int i = 0; i < 4; i++) {
        const char *name = m->bound[(int)letters[i]];
        in[1 + i] = name ? as_vector(m, name) : "";
        if (!in[1 + i]) return RF_ERROR_OUT_OF_HOST_MEMORY;
    }
    RF_TRY(set_node(m->im, n, op, in, 5));
    rf_import_attribute *a = new_attributes(m->im, n, 3);
    if (!a) return RF_ERROR_OUT_OF_HOST_MEMORY;
    a[0] = (rf_import_attribute){ .name = "epsilon", .type = RF_IMPORT_ATTRIBUTE_FLOAT, .f = (float)m->numbers['e'] };
    a[1] = (rf_import_attribute){ .name = "axes_behind", .type = RF_IMPORT_ATTRIBUTE_INT, .i = axis };
    a[2] = (rf_import_attribute){ .name = "momentum", .type = RF_IMPORT_ATTRIBUTE_FLOAT, .f = 0.99f };
    for (int i = 0; i < 3; i++) a[i].s = a[i].s ? a[i].s : "";
    return RF_OK;
}

/* Numbers that name no row give NaN in the library as well. */
static rf_result to_gather(match *m, rf_import_node *n, const char *op)
{
    const int64_t axis = rf_import_attribute_int(m->gather, "axis", 0);
    RF_TRY(set_node(m->im, n, op, (const char *[]){ m->bound['t'], m->bound['i'] }, 2));
    rf_import_attribute *a = new_attributes(m->im, n, 2);
    if (!a) return RF_ERROR_OUT_OF_HOST_MEMORY;
    a[0] = (rf_import_attribute){ .name = "axis", .type = RF_IMPORT_ATTRIBUTE_INT, .i = axis, .s = "" };
    a[1] = (rf_import_attribute){ .name = "negative", .type = RF_IMPORT_ATTRIBUTE_INT, .i = 0, .s = "" };
    return RF_OK;
}

#define CENTRED "Sub(x,M(x))"
#define OWN_NORM "Mul(" CENTRED ",Reciprocal(Sqrt(Add(M(Mul(" CENTRED "," CENTRED ")),%e))))"
#define TORCH_NORM "Div(" CENTRED ",Sqrt(Add(M(Pow(" CENTRED ",#2)),%e)))"
#define OWN_RMS "Mul(x,Reciprocal(Sqrt(Add(M(Mul(x,x)),%e))))"
#define TORCH_RMS "Mul(x,Div(#1,Sqrt(Add(M(Pow(x,#2)),%e))))"
#define TORCH_RMS_2 "Mul(x,Reciprocal(Sqrt(Add(M(Pow(x,#2)),%e))))"
#define ERF "Add(Erf(Div(x,#1.41421356)),#1)"
#define CUBE "Mul(#0.79788456,Add(x,Mul(#0.044715,Pow(x,#3))))"
#define FACTOR "Div(g,Sqrt(Add(v,%e)))"
#define PLAIN_FACTOR "Div(#1,Sqrt(Add(v,%e)))"
#define KNOWN "And(GreaterOrEqual(i,#0),Less(i,%v))"
static const struct {
    const char *term, *op;
    rf_result (*replace)(match *m, rf_import_node *n, const char *op);
    bool (*check)(match *m);
} patterns[] = {
    { "Mul(Mul(Add(Erf(Mul(x,#0.70710678)),#1),x),#0.5)", "Gelu", to_function, NULL },
    { "Mul(Mul(x," ERF "),#0.5)", "Gelu", to_function, NULL },
    { "Mul(Mul(x,#0.5)," ERF ")", "Gelu", to_function, NULL },
    { "Mul(x,Mul(#0.5," ERF "))", "Gelu", to_function, NULL },
    { "Mul(x,Mul(Add(Tanh(Mul(Mul(Add(Mul(Mul(x,x),#0.044715),#1),x),#0.79788456)),#1),#0.5))", "Gelu", to_gelu_tanh,
      NULL },
    { "Mul(Mul(#0.5,x),Add(#1,Tanh(" CUBE ")))", "Gelu", to_gelu_tanh, NULL },
    { "Where(Less(Abs(x),#0.25),Mul(Atanh(Div(x,Add(x,#2))),#2),Log(Add(x,#1)))", "Log1p", to_function, NULL },
    { "Mul(Tanh(Mul(x,#0.5)),Add(Exp(x),#1))", "Expm1", to_function, NULL },
    { "Add(Mul(" OWN_NORM ",g),b)", "LayerNormalization", to_norm, NULL },
    { "Add(Mul(" TORCH_NORM ",g),b)", "LayerNormalization", to_norm, NULL },
    { "Mul(" OWN_RMS ",g)", "RmsNorm", to_norm, NULL },
    { "Mul(" TORCH_RMS ",g)", "RmsNorm", to_norm, NULL },
    { "Mul(" TORCH_RMS_2 ",g)", "RmsNorm", to_norm, NULL },
    { "Add(Mul(Sub(x,m)," FACTOR "),b)", "BatchNormalization", to_batch_norm, is_batch_norm },
    { "Add(Mul(Sub(x,m),Reshape(" FACTOR ",s)),b)", "BatchNormalization", to_batch_norm, is_batch_norm },
    { "Mul(Sub(x,m)," PLAIN_FACTOR ")", "BatchNormalization", to_batch_norm, is_batch_norm },
    { "Mul(Sub(x,m),Reshape(" PLAIN_FACTOR ",s))", "BatchNormalization", to_batch_norm, is_batch_norm },
    { "Where(Unsqueeze(" KNOWN ",s),Gather(t,Where(" KNOWN ",i,#0)),#n)", "Gather", to_gather, NULL },
    { "Where(" KNOWN ",Gather(t,Where(" KNOWN ",i,#0)),#n)", "Gather", to_gather, NULL },
};

rf_result rf_import_join_patterns(rf_import *im)
{
    rf_import_graph *g = &im->file.graph;
    uint32_t *producers = RF_NEW_ARRAY(uint32_t, im->num_values + 1);
    const uint32_t num_values = im->num_values;
    uint32_t branches = 0;
    rf_result r = producers ? RF_OK : RF_ERROR_OUT_OF_HOST_MEMORY;
    for (uint32_t i = 0; r >= 0 && i < g->num_nodes; i++)
        for (uint32_t k = 0; k < g->nodes[i].num_out; k++) {
            const rf_import_value *v = rf_import_find(im, g->nodes[i].out[k]);
            if (v) producers[rf_import_number_of(im, v)] = i + 1;
        }
    /* The last node of a pattern comes last: nodes that it reads have their places before it. */
    for (uint32_t i = g->num_nodes; r >= 0 && i-- > 0;) {
        rf_import_node *n = &g->nodes[i];
        if (n->num_out != 1 || branches > MOST_BRANCHES_OF_ALL) continue;
        for (size_t k = 0; k < sizeof(patterns) / sizeof(patterns[0]); k++) {
            match m = { .im = im, .producers = producers };
            const rf_import_value *v = rf_import_find(im, n->out[0]);
            if (!v || rf_import_number_of(im, v) >= num_values) break;
            const bool matches = match_term(&m, patterns[k].term, n->out[0]);
            branches += m.branches;
            if (!matches) continue;
            if (patterns[k].check && !patterns[k].check(&m)) continue;
            r = patterns[k].replace(&m, n, patterns[k].op);
            break;
        }
    }
    rf_free(producers);
    return r;
}
