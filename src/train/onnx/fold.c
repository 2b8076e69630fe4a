/* SPDX-License-Identifier: Apache-2.0 */
/* Nodes whose operands are known at import: numbers, and sizes that are expressions. */
#include <math.h>
#include <string.h>

#include "train/onnx/graph.h"

typedef struct fold {
    rf_import *im;
    const rf_import_node *n;
    rf_import_constant *in[RF_IMPORT_MOST_OPERANDS]; /* NULL: left out */
    rf_import_value *out;
    bool cannot; /* it depends on a size in a way that has no expression */
} fold;

static rf_result make_result(fold *f, bool whole, rf_shape shape, rf_import_constant *out)
{
    const rf_result r = rf_import_constant_new(f->im, whole, shape, out);
    if (r == RF_ERROR_UNSUPPORTED) return rf_import_fail(f->n, r, "its numbers become too many");
    for (uint32_t i = 0; r >= 0 && i < f->n->num_in && i < RF_IMPORT_MOST_OPERANDS && !out->name; i++)
        if (f->in[i] && !whole) out->name = f->in[i]->name;
    return r;
}

static rf_result copy_element(fold *f, rf_import_constant *to, int64_t i, const rf_import_constant *from, int64_t k)
{
    if (to->whole)
        to->w[i] = from->w[k];
    else
        to->f[i] = from->f[k];
    return rf_import_set_size(f->im, to, i, rf_import_size_at(from, k));
}

static int64_t axis_of(int64_t axis, int32_t rank)
{
    return axis < 0 ? axis + rank : axis;
}

static rf_result fail_fold(const fold *f, const char *why)
{
    return rf_import_fail(f->n, RF_ERROR_CORRUPT_DATA, "%s", why);
}

/* Whole numbers of an operand or of an attribute; NULL where neither is there. Sizes make the fold impossible. */
static const int64_t *list_of(fold *f, uint32_t i, const char *attribute, int64_t *count)
{
    *count = 0;
    if (i < f->n->num_in && f->in[i]) {
        if (!f->in[i]->whole) return NULL;
        f->cannot |= rf_import_has_sizes(f->in[i]);
        *count = rf_import_count(f->in[i]);
        return f->in[i]->w;
    }
    const rf_import_attribute *a = attribute ? rf_import_find_attribute(f->n, attribute) : NULL;
    if (a) *count = a->num_ints;
    return a ? a->ints : NULL;
}

/* ---- shapes ---- */

/* out[i...] is in[offset + sum of i * stride]. */
static rf_result copy_strided(fold *f, const rf_import_constant *x, rf_shape shape, int64_t offset,
                              const int64_t *stride)
{
    rf_import_constant y;
    int64_t at[RF_MAX_RANK] = { 0 };
    RF_TRY(make_result(f, x->whole, shape, &y));
    y.type = x->type;
    const int64_t count = rf_shape_count(shape);
    for (int64_t e = 0; e < count; e++) {
        int64_t place = offset;
        for (int32_t d = 0; d < shape.rank; d++) place += at[d] * stride[d];
        RF_TRY(copy_element(f, &y, e, x, place));
        for (int32_t d = shape.rank - 1; d >= 0 && ++at[d] == shape.dim[d]; d--) at[d] = 0;
    }
    f->out->constant = y;
    return RF_OK;
}

static void strides_of(rf_shape shape, int64_t *stride)
{
    int64_t count = 1;
    for (int32_t d = shape.rank - 1; d >= 0; d--) {
        stride[d] = count;
        count *= shape.dim[d];
    }
}

/* The same elements. */
static rf_result as_shape(fold *f, const rf_import_constant *x, rf_shape shape)
{
    if (rf_shape_count(shape) != rf_import_count(x)) return fail_fold(f, "the shape has another number of elements");
    f->out->constant = *x;
    f->out->constant.shape = shape;
    return RF_OK;
}

static rf_result fold_reshape(fold *f)
{
    int64_t count, known = 1;
    const int64_t *list = list_of(f, 1, NULL, &count);
    const rf_import_constant *x = f->in[0];
    rf_shape shape = { 0 };
    int32_t open = -1;
    if (!list || count > RF_MAX_RANK) return fail_fold(f, "its shape is none");
    if (f->cannot) return RF_OK;
    shape.rank = (int32_t)count;
    for (int32_t d = 0; d < shape.rank; d++) {
        shape.dim[d] = list[d] == 0 && d < x->shape.rank ? x->shape.dim[d] : list[d];
        if (shape.dim[d] == -1) open = d;
        if (shape.dim[d] > 0 && known > INT64_MAX / shape.dim[d]) return fail_fold(f, "its shape is none");
        if (shape.dim[d] != -1) known *= shape.dim[d];
    }
    if (open >= 0 && known > 0) shape.dim[open] = rf_import_count(x) / known;
    return as_shape(f, x, shape);
}

static rf_result fold_squeeze(fold *f)
{
    int64_t count;
    const int64_t *list = list_of(f, 1, "axes", &count);
    const rf_import_constant *x = f->in[0];
    rf_shape shape = { 0 };
    for (int32_t d = 0; d < x->shape.rank; d++) {
        bool gone = !list && x->shape.dim[d] == 1;
        for (int64_t i = 0; list && i < count; i++) gone |= axis_of(list[i], x->shape.rank) == d;
        if (!gone) shape.dim[shape.rank++] = x->shape.dim[d];
    }
    return as_shape(f, x, shape);
}

static rf_result fold_unsqueeze(fold *f)
{
    int64_t count;
    const int64_t *list = list_of(f, 1, "axes", &count);
    const rf_import_constant *x = f->in[0];
    rf_shape shape = { 0 };
    int32_t next = 0;
    if (!list || x->shape.rank + count > RF_MAX_RANK) return fail_fold(f, "its axes are none, or too many");
    const int32_t rank = x->shape.rank + (int32_t)count;
    for (int32_t d = 0; d < rank; d++) {
        bool new = false;
        for (int64_t i = 0; i < count; i++) new |= axis_of(list[i], rank) == d;
        shape.dim[shape.rank++] = new || next >= x->shape.rank ? 1 : x->shape.dim[next++];
    }
    return as_shape(f, x, shape);
}

static rf_result fold_flatten(fold *f)
{
    const rf_import_constant *x = f->in[0];
    const int64_t axis = axis_of(rf_import_attribute_int(f->n, "axis", 1), x->shape.rank);
    rf_shape shape = RF_SHAPE(1, 1);
    for (int32_t d = 0; d < x->shape.rank; d++) shape.dim[d >= axis] *= x->shape.dim[d];
    return as_shape(f, x, shape);
}

static rf_result fold_transpose(fold *f)
{
    const rf_import_constant *x = f->in[0];
    const rf_import_attribute *a = rf_import_find_attribute(f->n, "perm");
    int64_t stride[RF_MAX_RANK], turned[RF_MAX_RANK];
    rf_shape shape = { .rank = x->shape.rank };
    uint32_t seen = 0;
    strides_of(x->shape, stride);
    for (int32_t d = 0; d < shape.rank; d++) {
        const int64_t from = a && (int32_t)a->num_ints == shape.rank ? a->ints[d] : shape.rank - 1 - d;
        if (from < 0 || from >= shape.rank || (seen & 1u << from)) return fail_fold(f, "its permutation is none");
        seen |= 1u << from;
        shape.dim[d] = x->shape.dim[from];
        turned[d] = stride[from];
    }
    return copy_strided(f, x, shape, 0, turned);
}

static int64_t clamp_index(int64_t value, int64_t low, int64_t high)
{
    return value < low ? low : value > high ? high : value;
}

static rf_result fold_slice(fold *f)
{
    int64_t count, num_to, num_axes, num_steps, stride[RF_MAX_RANK], offset = 0;
    const int64_t *from = list_of(f, 1, "starts", &count), *to = list_of(f, 2, "ends", &num_to),
                  *axes = list_of(f, 3, "axes", &num_axes), *steps = list_of(f, 4, NULL, &num_steps);
    const rf_import_constant *x = f->in[0];
    rf_shape shape = x->shape;
    if (!from || !to || num_to != count || (axes && num_axes != count) || (steps && num_steps != count))
        return fail_fold(f, "its ranges are none");
    if (f->cannot) return RF_OK;
    strides_of(shape, stride);
    for (int64_t i = 0; i < count; i++) {
        const int64_t axis = axis_of(axes ? axes[i] : i, x->shape.rank), step = steps ? steps[i] : 1;
        if (axis < 0 || axis >= x->shape.rank || step == 0 || step == INT64_MIN)
            return fail_fold(f, "its ranges are none");
        const int64_t size = x->shape.dim[axis];
        const int64_t begin = clamp_index(from[i] < 0 ? from[i] + size : from[i], 0, step < 0 ? size - 1 : size);
        const int64_t end = clamp_index(to[i] < 0 ? to[i] < -size ? -1 : to[i] + size : to[i], step < 0 ? -1 : 0, size);
        const int64_t length = step > 0 ? (end - begin + step - 1) / step : (begin - end - step - 1) / -step;
        shape.dim[axis] = length > 0 ? length : 0;
        offset += begin * stride[axis];
        stride[axis] = length > 1 ? stride[axis] * step : 0;
    }
    return copy_strided(f, x, shape, offset, stride);
}

static rf_result fold_expand(fold *f)
{
    int64_t count, stride[RF_MAX_RANK], own[RF_MAX_RANK];
    const int64_t *list = list_of(f, 1, NULL, &count);
    const rf_import_constant *x = f->in[0];
    if (f->cannot) return RF_OK;
    if (!list || count > RF_MAX_RANK) return fail_fold(f, "its shape is none");
    rf_shape shape = { .rank = count > x->shape.rank ? (int32_t)count : x->shape.rank };
    strides_of(x->shape, own);
    for (int32_t d = 0; d < shape.rank; d++) {
        const int32_t k = d - (shape.rank - x->shape.rank), w = d - (shape.rank - (int32_t)count);
        const int64_t size = k < 0 ? 1 : x->shape.dim[k], wanted = w < 0 ? 1 : list[w];
        if (wanted < 0 || (size != 1 && wanted != 1 && wanted != size))
            return fail_fold(f, "its shape does not broadcast");
        shape.dim[d] = size == 1 ? wanted : size;
        stride[d] = k < 0 || size == 1 ? 0 : own[k];
    }
    return copy_strided(f, x, shape, 0, stride);
}

static rf_result fold_gather(fold *f)
{
    const rf_import_constant *x = f->in[0];
    int64_t count, outer = 1, inner = 1;
    const int64_t *list = list_of(f, 1, NULL, &count);
    const int64_t axis = axis_of(rf_import_attribute_int(f->n, "axis", 0), x->shape.rank);
    rf_shape shape = { 0 };
    if (!list || axis < 0 || axis >= x->shape.rank || x->shape.rank - 1 + f->in[1]->shape.rank > RF_MAX_RANK)
        return fail_fold(f, "its axis is none");
    if (f->cannot) return RF_OK;
    for (int32_t d = 0; d < axis; d++) outer *= shape.dim[shape.rank++] = x->shape.dim[d];
    for (int32_t d = 0; d < f->in[1]->shape.rank; d++) shape.dim[shape.rank++] = f->in[1]->shape.dim[d];
    for (int32_t d = (int32_t)axis + 1; d < x->shape.rank; d++) inner *= shape.dim[shape.rank++] = x->shape.dim[d];
    rf_import_constant y;
    RF_TRY(make_result(f, x->whole, shape, &y));
    y.type = x->type;
    int64_t e = 0;
    for (int64_t o = 0; o < outer; o++)
        for (int64_t i = 0; i < count; i++) {
            const int64_t at = list[i] < 0 ? list[i] + x->shape.dim[axis] : list[i];
            if (at < 0 || at >= x->shape.dim[axis]) return fail_fold(f, "it takes what is not there");
            for (int64_t k = 0; k < inner; k++)
                RF_TRY(copy_element(f, &y, e++, x, (o * x->shape.dim[axis] + at) * inner + k));
        }
    f->out->constant = y;
    return RF_OK;
}

static rf_result fold_concat(fold *f)
{
    const int64_t axis = axis_of(rf_import_attribute_int(f->n, "axis", 0), f->in[0]->shape.rank);
    rf_shape shape = f->in[0]->shape;
    int64_t outer = 1, inner = 1, e = 0;
    if (axis < 0 || axis >= shape.rank) return fail_fold(f, "its axis is none");
    shape.dim[axis] = 0;
    for (uint32_t i = 0; i < f->n->num_in; i++) {
        const rf_shape part = f->in[i]->shape;
        if (part.rank != shape.rank || f->in[i]->whole != f->in[0]->whole) return fail_fold(f, "its parts do not fit");
        for (int32_t d = 0; d < shape.rank; d++)
            if (d != axis && part.dim[d] != shape.dim[d]) return fail_fold(f, "its parts do not fit");
        shape.dim[axis] += part.dim[axis];
    }
    for (int32_t d = 0; d < axis; d++) outer *= shape.dim[d];
    for (int32_t d = (int32_t)axis + 1; d < shape.rank; d++) inner *= shape.dim[d];
    rf_import_constant y;
    RF_TRY(make_result(f, f->in[0]->whole, shape, &y));
    for (int64_t o = 0; o < outer; o++)
        for (uint32_t i = 0; i < f->n->num_in; i++) {
            const int64_t part = f->in[i]->shape.dim[axis] * inner;
            for (int64_t k = 0; k < part; k++) RF_TRY(copy_element(f, &y, e++, f->in[i], o * part + k));
        }
    f->out->constant = y;
    return RF_OK;
}

/* ---- elements ---- */

typedef struct element {
    double number;
    uint32_t size;
} element;

/* Where both are numbers, sizes are not looked at. False: sizes have no such function. */
static bool numbers_of(const char *op, double a, double b, bool whole, double *y)
{
    if (strcmp(op, "Pow") == 0)
        *y = pow(a, b);
    else if (strcmp(op, "Equal") == 0)
        *y = a == b;
    else if (strcmp(op, "Less") == 0)
        *y = a < b;
    else if (strcmp(op, "LessOrEqual") == 0)
        *y = a <= b;
    else if (strcmp(op, "Greater") == 0)
        *y = a > b;
    else if (strcmp(op, "GreaterOrEqual") == 0)
        *y = a >= b;
    else if (strcmp(op, "And") == 0)
        *y = a != 0 && b != 0;
    else if (strcmp(op, "Or") == 0)
        *y = a != 0 || b != 0;
    else if (strcmp(op, "Xor") == 0)
        *y = (a != 0) != (b != 0);
    else if (strcmp(op, "Not") == 0)
        *y = a == 0;
    else if (strcmp(op, "Sqrt") == 0)
        *y = sqrt(a);
    else if (strcmp(op, "Exp") == 0)
        *y = exp(a);
    else if (strcmp(op, "Log") == 0)
        *y = log(a);
    else if (strcmp(op, "Reciprocal") == 0)
        *y = 1 / a;
    else if (strcmp(op, "Abs") == 0)
        *y = fabs(a);
    else
        return false;
    if (whole) *y = trunc(*y);
    return true;
}

static const struct {
    const char *name;
    char op;
    bool unary;
} size_ops[] = { { "Add", '+', false }, { "Sub", '-', false },  { "Mul", '*', false }, { "Div", '/', false },
                 { "Mod", '%', false }, { "Max", 'M', false },  { "Min", 'm', false }, { "Floor", 'f', true },
                 { "Ceil", 'c', true }, { "Round", 'r', true }, { "Neg", '-', true } };

static rf_result apply_op(fold *f, bool whole, element a, element b, element *y)
{
    *y = (element){ 0 };
    for (size_t i = 0; i < sizeof(size_ops) / sizeof(size_ops[0]); i++) {
        if (strcmp(size_ops[i].name, f->n->op) != 0) continue;
        const char op = size_ops[i].op == '/' && whole ? 'q' : size_ops[i].op;
        if (strcmp(f->n->op, "Neg") == 0)
            return rf_import_size_new(f->im, '-', 0, 0, a.size, a.number, &y->size, &y->number);
        return rf_import_size_new(f->im, op, a.size, a.number, b.size, b.number, &y->size, &y->number);
    }
    /* A size is no negative number, and equals itself. */
    if (strcmp(f->n->op, "Equal") == 0 && (a.size || b.size)) {
        if (a.size == b.size) y->number = 1;
        f->cannot |= a.size != b.size && !((!a.size && a.number < 0) || (!b.size && b.number < 0));
        return RF_OK;
    }
    f->cannot |= a.size || b.size || !numbers_of(f->n->op, a.number, b.number, whole, &y->number);
    return RF_OK;
}

static rf_result put_element(fold *f, rf_import_constant *y, int64_t i, element e)
{
    if (y->whole && !(fabs(e.number) < 9.2e18))
        y->w[i] = e.number > 0 ? INT64_MAX : INT64_MIN;
    else if (y->whole)
        y->w[i] = (int64_t)e.number;
    else
        y->f[i] = (float)e.number;
    return rf_import_set_size(f->im, y, i, e.size);
}

/* One shape of all operands, and where an element of it is in each. */
static rf_result broadcast_shapes(fold *f, uint32_t count, rf_shape *shape, int64_t stride[3][RF_MAX_RANK])
{
    *shape = RF_SCALAR_SHAPE;
    for (uint32_t i = 0; i < count; i++)
        if (f->in[i]->shape.rank > shape->rank) shape->rank = f->in[i]->shape.rank;
    for (int32_t d = 0; d < shape->rank; d++) shape->dim[d] = 1;
    for (uint32_t i = 0; i < count; i++) {
        int64_t own[RF_MAX_RANK];
        const rf_shape x = f->in[i]->shape;
        strides_of(x, own);
        for (int32_t d = 0; d < shape->rank; d++) {
            const int32_t k = d - (shape->rank - x.rank);
            stride[i][d] = k < 0 || x.dim[k] == 1 ? 0 : own[k];
            if (k < 0 || x.dim[k] == 1) continue;
            if (shape->dim[d] != 1 && shape->dim[d] != x.dim[k]) return fail_fold(f, "its operands do not broadcast");
            shape->dim[d] = x.dim[k];
        }
    }
    return RF_OK;
}

static element element_at(const fold *f, uint32_t i, const int64_t *at, const int64_t *stride, int32_t rank)
{
    int64_t place = 0;
    for (int32_t d = 0; d < rank; d++) place += at[d] * stride[d];
    return (element){ rf_import_element(f->in[i], place), rf_import_size_at(f->in[i], place) };
}

static rf_result fold_elements(fold *f)
{
    static const char *const truths[] = { "Equal", "Less", "LessOrEqual", "Greater", "GreaterOrEqual",
                                          "And",   "Or",   "Xor",         "Not" };
    const bool where = strcmp(f->n->op, "Where") == 0;
    const uint32_t count = f->n->num_in;
    rf_shape shape;
    rf_import_constant y;
    int64_t stride[3][RF_MAX_RANK], at[RF_MAX_RANK] = { 0 };
    bool truth = false;
    if (count < 1 || count > 3 || (count == 3 && !where)) {
        f->cannot = true;
        return RF_OK;
    }
    for (size_t i = 0; i < sizeof(truths) / sizeof(truths[0]); i++) truth |= strcmp(truths[i], f->n->op) == 0;
    RF_TRY(broadcast_shapes(f, count, &shape, stride));
    const bool whole = f->in[where ? 1 : 0]->whole;
    RF_TRY(make_result(f, whole || truth, shape, &y));
    y.type = truth ? RF_IMPORT_TYPE_BOOL : f->in[where ? 1 : 0]->type;
    const int64_t elements = rf_shape_count(shape);
    for (int64_t e = 0; e < elements && !f->cannot; e++) {
        element x[3] = { { 0 } }, result;
        for (uint32_t i = 0; i < count; i++) x[i] = element_at(f, i, at, stride[i], shape.rank);
        f->cannot |= where && x[0].size;
        if (where)
            result = x[0].number != 0 ? x[1] : x[2];
        else
            RF_TRY(apply_op(f, whole, x[0], x[1], &result));
        RF_TRY(put_element(f, &y, e, result));
        for (int32_t d = shape.rank - 1; d >= 0 && ++at[d] == shape.dim[d]; d--) at[d] = 0;
    }
    f->out->constant = y;
    return RF_OK;
}

static rf_result fold_cast(fold *f)
{
    const int32_t to = (int32_t)rf_import_attribute_int(f->n, "to", RF_IMPORT_TYPE_FLOAT);
    const rf_import_constant *x = f->in[0];
    rf_import_constant y;
    if (rf_import_type_size(to) == 0)
        return rf_import_fail(f->n, RF_ERROR_UNSUPPORTED, "it casts to type %d, which is not there", (int)to);
    RF_TRY(make_result(f, !rf_import_type_is_float(to), x->shape, &y));
    y.type = to;
    y.name = x->name;
    for (int64_t i = 0; i < rf_import_count(x); i++) {
        element e = { rf_import_element(x, i), rf_import_size_at(x, i) };
        if (y.whole && !x->whole) {
            const element from = e;
            RF_TRY(rf_import_size_new(f->im, 't', from.size, from.number, 0, 0, &e.size, &e.number));
        }
        if (to == RF_IMPORT_TYPE_BOOL) e.number = e.number != 0;
        if (y.whole && x->whole && !e.size && to != RF_IMPORT_TYPE_BOOL)
            y.w[i] = x->w[i]; /* all of its digits */
        else
            RF_TRY(put_element(f, &y, i, e));
    }
    f->out->constant = y;
    return RF_OK;
}

static rf_result fold_reduce(fold *f)
{
    const rf_import_constant *x = f->in[0];
    const bool product = strcmp(f->n->op, "ReduceProd") == 0, most = strcmp(f->n->op, "ReduceMax") == 0;
    const bool least = strcmp(f->n->op, "ReduceMin") == 0, sum = strcmp(f->n->op, "ReduceSum") == 0;
    const bool keep = rf_import_attribute_int(f->n, "keepdims", 1);
    if (x->shape.rank > 1 || rf_import_count(x) < 1 || !(product || most || least || sum)) {
        f->cannot = true;
        return RF_OK;
    }
    element y = { rf_import_element(x, 0), rf_import_size_at(x, 0) };
    for (int64_t i = 1; i < rf_import_count(x); i++) {
        const element b = { rf_import_element(x, i), rf_import_size_at(x, i) }, a = y;
        RF_TRY(rf_import_size_new(f->im,
                                  product ? '*'
                                  : most  ? 'M'
                                  : least ? 'm'
                                          : '+',
                                  a.size, a.number, b.size, b.number, &y.size, &y.number));
    }
    RF_TRY(make_result(f, x->whole, keep && x->shape.rank == 1 ? RF_SHAPE(1) : RF_SCALAR_SHAPE, &f->out->constant));
    f->out->constant.type = x->type;
    return put_element(f, &f->out->constant, 0, y);
}

/* ---- made of nothing ---- */

static rf_result fold_constant(fold *f)
{
    for (uint32_t i = 0; i < f->n->num_attributes; i++) {
        const rf_import_attribute *a = &f->n->attributes[i];
        rf_import_constant *y = &f->out->constant;
        if (strcmp(a->name, "value") == 0 && a->t) return rf_import_tensor_constant(f->im, a->t, f->n->out[0], y);
        const bool whole = strncmp(a->name, "value_int", 9) == 0,
                   list = a->name[0] && a->name[strlen(a->name) - 1] == 's';
        if (!whole && strncmp(a->name, "value_float", 11) != 0) continue;
        const int64_t count = list ? (int64_t)(whole ? a->num_ints : a->num_floats) : 1;
        RF_TRY(make_result(f, whole, list ? RF_SHAPE(count) : RF_SCALAR_SHAPE, y));
        for (int64_t k = 0; k < count && whole; k++) y->w[k] = list ? a->ints[k] : a->i;
        for (int64_t k = 0; k < count && !whole; k++) y->f[k] = list ? a->floats[k] : a->f;
        return RF_OK;
    }
    return rf_import_fail(f->n, RF_ERROR_UNSUPPORTED, "a constant of another kind than a tensor of numbers");
}

static rf_result fold_fill(fold *f)
{
    int64_t count;
    const int64_t *list = list_of(f, 0, NULL, &count);
    const rf_import_attribute *a = rf_import_find_attribute(f->n, "value");
    rf_import_constant value = { .type = RF_IMPORT_TYPE_FLOAT }, y;
    rf_shape shape = { .rank = (int32_t)count };
    if (f->cannot) return RF_OK;
    if ((!list && count > 0) || count > RF_MAX_RANK) return fail_fold(f, "its shape is none");
    for (int64_t d = 0; d < count; d++) shape.dim[d] = list[d];
    if (a && a->t) RF_TRY(rf_import_tensor_constant(f->im, a->t, NULL, &value));
    if (a && a->t && rf_import_count(&value) != 1) return fail_fold(f, "its value is none");
    RF_TRY(make_result(f, value.whole, shape, &y));
    y.type = value.type;
    y.name = NULL;
    for (int64_t i = 0; i < rf_import_count(&y); i++)
        RF_TRY(put_element(f, &y, i, (element){ a && a->t ? rf_import_element(&value, 0) : 0, 0 }));
    f->out->constant = y;
    return RF_OK;
}

/* Places of elements that are not 0, a row of numbers for each axis. */
static rf_result fold_non_zero(fold *f)
{
    const rf_import_constant *x = f->in[0];
    int64_t stride[RF_MAX_RANK], count = 0, k = 0;
    f->cannot |= rf_import_has_sizes(x) || x->shape.rank == 0;
    if (f->cannot) return RF_OK;
    strides_of(x->shape, stride);
    for (int64_t e = 0; e < rf_import_count(x); e++) count += rf_import_element(x, e) != 0;
    RF_TRY(make_result(f, true, RF_SHAPE(x->shape.rank, count), &f->out->constant));
    f->out->constant.type = RF_IMPORT_TYPE_INT64;
    for (int64_t e = 0; e < rf_import_count(x); e++) {
        if (rf_import_element(x, e) == 0) continue;
        for (int32_t d = 0; d < x->shape.rank; d++) f->out->constant.w[d * count + k] = e / stride[d] % x->shape.dim[d];
        k++;
    }
    return RF_OK;
}

static rf_result fold_range(fold *f)
{
    for (uint32_t i = 0; i < 3; i++) {
        if (f->n->num_in < 3 || !f->in[i] || rf_import_count(f->in[i]) != 1) return fail_fold(f, "its bounds are none");
        f->cannot |= rf_import_has_sizes(f->in[i]);
    }
    if (f->cannot) return RF_OK;
    const double from = rf_import_element(f->in[0], 0), to = rf_import_element(f->in[1], 0),
                 by = rf_import_element(f->in[2], 0), count = by != 0 ? ceil((to - from) / by) : 0;
    if (!(count < 1 << 28)) return fail_fold(f, "its numbers are too many");
    RF_TRY(make_result(f, f->in[0]->whole, RF_SHAPE(count > 0 ? (int64_t)count : 0), &f->out->constant));
    for (int64_t i = 0; i < rf_import_count(&f->out->constant); i++)
        RF_TRY(put_element(f, &f->out->constant, i, (element){ from + (double)i * by, 0 }));
    return RF_OK;
}

/* (x - zero point) * scale, of each channel along an axis: 8-bit weights as f32, which are trained. */
static rf_result fold_dequantize(fold *f)
{
    const rf_import_constant *x = f->in[0], *scale = f->in[1], *zero = f->n->num_in > 2 ? f->in[2] : NULL;
    const int64_t axis = axis_of(rf_import_attribute_int(f->n, "axis", 1), x->shape.rank), count = rf_import_count(x);
    int64_t inner = 1;
    const int64_t scales = rf_import_count(scale);
    if (rf_import_attribute_int(f->n, "block_size", 0))
        return rf_import_fail(f->n, RF_ERROR_UNSUPPORTED, "it has blocks, which are not there");
    for (int32_t d = (int32_t)axis + 1; d < x->shape.rank; d++) inner *= x->shape.dim[d];
    const bool each = scales > 1;
    if (each && (axis < 0 || axis >= x->shape.rank || scales != x->shape.dim[axis]))
        return fail_fold(f, "its scales are none");
    if (scales < 1 || scale->whole || (zero && rf_import_count(zero) != scales))
        return fail_fold(f, "its scales are none");
    rf_import_constant y;
    RF_TRY(make_result(f, false, x->shape, &y));
    for (int64_t i = 0; i < count; i++) {
        const int64_t k = each ? i / inner % scales : 0;
        const double number = rf_import_element(x, i) - (zero ? rf_import_element(zero, k) : 0);
        y.f[i] = (float)number * scale->f[k];
    }
    y.name = count > 1 ? f->n->in[0] : NULL;
    f->out->constant = y;
    return RF_OK;
}

static rf_result fold_identity(fold *f)
{
    f->out->constant = *f->in[0];
    return RF_OK;
}

static const struct {
    const char *op;
    rf_result (*fold)(fold *f);
    uint32_t least;
} table[] = {
    { "Constant", fold_constant, 0 },    { "Identity", fold_identity, 1 },
    { "Reshape", fold_reshape, 2 },      { "Squeeze", fold_squeeze, 1 },
    { "Unsqueeze", fold_unsqueeze, 1 },  { "Flatten", fold_flatten, 1 },
    { "Transpose", fold_transpose, 1 },  { "Slice", fold_slice, 1 },
    { "Expand", fold_expand, 2 },        { "Gather", fold_gather, 2 },
    { "Concat", fold_concat, 1 },        { "Cast", fold_cast, 1 },
    { "ReduceProd", fold_reduce, 1 },    { "ReduceSum", fold_reduce, 1 },
    { "ReduceMax", fold_reduce, 1 },     { "ReduceMin", fold_reduce, 1 },
    { "ConstantOfShape", fold_fill, 1 }, { "NonZero", fold_non_zero, 1 },
    { "Range", fold_range, 3 },          { "DequantizeLinear", fold_dequantize, 2 },
    { "Where", fold_elements, 3 },       { "Add", fold_elements, 2 },
    { "Sub", fold_elements, 2 },         { "Mul", fold_elements, 2 },
    { "Div", fold_elements, 2 },         { "Mod", fold_elements, 2 },
    { "Max", fold_elements, 1 },         { "Min", fold_elements, 1 },
    { "Pow", fold_elements, 2 },         { "Equal", fold_elements, 2 },
    { "Less", fold_elements, 2 },        { "LessOrEqual", fold_elements, 2 },
    { "Greater", fold_elements, 2 },     { "GreaterOrEqual", fold_elements, 2 },
    { "And", fold_elements, 2 },         { "Or", fold_elements, 2 },
    { "Xor", fold_elements, 2 },         { "Not", fold_elements, 1 },
    { "Neg", fold_elements, 1 },         { "Abs", fold_elements, 1 },
    { "Sqrt", fold_elements, 1 },        { "Exp", fold_elements, 1 },
    { "Log", fold_elements, 1 },         { "Reciprocal", fold_elements, 1 },
    { "Floor", fold_elements, 1 },       { "Ceil", fold_elements, 1 },
    { "Round", fold_elements, 1 },
};

/* Sizes of a tensor, or of numbers. */
static rf_result fold_shape(rf_import *im, const rf_import_node *n, rf_import_value *x, rf_import_value *out)
{
    const int32_t rank = rf_import_rank(x);
    const int64_t from = axis_of(rf_import_attribute_int(n, "start", 0), rank),
                  to = axis_of(rf_import_attribute_int(n, "end", rank), rank);
    const int64_t begin = clamp_index(from, 0, rank), end = clamp_index(to, begin, rank);
    const bool product = strcmp(n->op, "Size") == 0;
    uint32_t size = 0, all = 0;
    double number = 1;
    rf_import_constant *y = &out->constant;
    RF_TRY(rf_import_constant_new(im, true, product ? RF_SCALAR_SHAPE : RF_SHAPE(end - begin), y));
    for (int64_t d = product ? 0 : begin; d < (product ? rank : end); d++) {
        if (x->kind == RF_IMPORT_TENSOR) RF_TRY(rf_import_size_dim(im, rf_import_number_of(im, x), (int32_t)d, &size));
        const double own = x->kind == RF_IMPORT_TENSOR ? 0 : (double)x->constant.shape.dim[d], before = number;
        if (product) {
            RF_TRY(rf_import_size_new(im, '*', all, before, size, own, &all, &number));
            continue;
        }
        y->w[d - begin] = (int64_t)own;
        RF_TRY(rf_import_set_size(im, y, d - begin, size));
    }
    if (product) y->w[0] = (int64_t)number;
    if (product) RF_TRY(rf_import_set_size(im, y, 0, all));
    out->kind = RF_IMPORT_CONSTANT;
    return RF_OK;
}

rf_result rf_import_fold(rf_import *im, const rf_import_node *n, bool *done)
{
    fold f = { .im = im, .n = n };
    *done = false;
    f.out = n->num_out ? rf_import_find(im, n->out[0]) : NULL;
    if (!f.out || n->num_in > RF_IMPORT_MOST_OPERANDS) return RF_OK;
    rf_import_value *first = n->num_in ? rf_import_find(im, n->in[0]) : NULL;
    if (first && (strcmp(n->op, "Shape") == 0 || strcmp(n->op, "Size") == 0)) {
        *done = true;
        return fold_shape(im, n, first, f.out);
    }
    for (uint32_t i = 0; i < n->num_in; i++) {
        rf_import_value *v = rf_import_find(im, n->in[i]);
        if (*n->in[i] && (!v || v->kind != RF_IMPORT_CONSTANT)) return RF_OK;
        f.in[i] = v ? &v->constant : NULL;
    }
    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
        if (strcmp(table[i].op, n->op) != 0) continue;
        for (uint32_t k = 0; k < table[i].least; k++)
            if (k >= n->num_in || !f.in[k]) return fail_fold(&f, "an operand is missing");
        RF_TRY(table[i].fold(&f));
        *done = !f.cannot;
        if (*done) f.out->kind = RF_IMPORT_CONSTANT;
        return RF_OK;
    }
    return RF_OK;
}
