/* SPDX-License-Identifier: Apache-2.0 */
/* Values, numbers and sizes of a graph that is imported. */
#include "train/onnx/graph.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/numbers.h"

enum { MOST_TOKENS = 64 };

/* ---- values ---- */

static uint32_t hash_of(const char *name)
{
    uint32_t hash = 2166136261u;
    for (; *name; name++) hash = (hash ^ (uint8_t)*name) * 16777619u;
    return hash;
}

rf_import_value *rf_import_find(rf_import *im, const char *name)
{
    if (!*name || im->table_size == 0) return NULL;
    for (uint32_t at = hash_of(name) % im->table_size; im->table[at]; at = (at + 1) % im->table_size) {
        rf_import_value *v = &im->values[im->table[at] - 1];
        if (strcmp(v->name, name) == 0) return v;
    }
    return NULL;
}

/* Names are those of one scope: the format has them once in a graph and its subgraphs. */
rf_import_value *rf_import_add_value(rf_import *im, const char *name)
{
    rf_import_value *v = rf_import_find(im, name);
    if (v || !*name || im->num_values == im->most_values) return v;
    v = &im->values[im->num_values++];
    v->name = name;
    uint32_t at = hash_of(name) % im->table_size;
    while (im->table[at]) at = (at + 1) % im->table_size;
    im->table[at] = im->num_values;
    return v;
}

uint32_t rf_import_number_of(const rf_import *im, const rf_import_value *v)
{
    return (uint32_t)(v - im->values);
}

void *rf_import_alloc(rf_import *im, size_t size)
{
    return rf_arena_alloc(&im->file.arena, size ? size : 1);
}

rf_result rf_import_fail(const rf_import_node *n, rf_result code, const char *format, ...)
{
    char text[400];
    va_list list;
    va_start(list, format);
    rf_number_vprint(text, sizeof(text), format, list);
    va_end(list);
    return RF_FAIL(code, "node '%.100s' (%.60s): %s", *n->name ? n->name : n->num_out ? n->out[0] : "", n->op, text);
}

int64_t rf_import_attribute_int(const rf_import_node *n, const char *name, int64_t fallback)
{
    const rf_import_attribute *a = rf_import_find_attribute(n, name);
    return a ? a->i : fallback;
}

double rf_import_attribute_float(const rf_import_node *n, const char *name, double fallback)
{
    const rf_import_attribute *a = rf_import_find_attribute(n, name);
    return a ? (double)a->f : fallback;
}

const char *rf_import_attribute_text(const rf_import_node *n, const char *name, const char *fallback)
{
    const rf_import_attribute *a = rf_import_find_attribute(n, name);
    return a ? a->s : fallback;
}

/* ---- constants ---- */

rf_result rf_import_constant_new(rf_import *im, bool whole, rf_shape shape, rf_import_constant *out)
{
    const int64_t count = rf_shape_count(shape);
    *out = (rf_import_constant){ .whole = whole, .shape = shape };
    out->type = whole ? RF_IMPORT_TYPE_INT64 : RF_IMPORT_TYPE_FLOAT;
    if (count < 0 || (im->folded += (uint64_t)count) > im->most_folded)
        return RF_FAIL(RF_ERROR_UNSUPPORTED, "its numbers become too many");
    if (whole) out->w = rf_import_alloc(im, (size_t)count * sizeof(int64_t));
    if (!whole) out->f = rf_import_alloc(im, (size_t)count * sizeof(float));
    return out->w || out->f ? RF_OK : RF_ERROR_OUT_OF_HOST_MEMORY;
}

double rf_import_element(const rf_import_constant *c, int64_t i)
{
    return c->whole ? (double)c->w[i] : (double)c->f[i];
}

bool rf_import_has_sizes(const rf_import_constant *c)
{
    const int64_t count = rf_import_count(c);
    for (int64_t i = 0; c->sizes && i < count; i++)
        if (c->sizes[i]) return true;
    return false;
}

rf_result rf_import_set_size(rf_import *im, rf_import_constant *c, int64_t i, uint32_t size)
{
    if (!size && !c->sizes) return RF_OK;
    if (!c->sizes) c->sizes = rf_import_alloc(im, (size_t)rf_import_count(c) * sizeof(uint32_t));
    if (!c->sizes) return RF_ERROR_OUT_OF_HOST_MEMORY;
    c->sizes[i] = size;
    return RF_OK;
}

rf_result rf_import_tensor_constant(rf_import *im, const rf_import_tensor *t, const char *name, rf_import_constant *out)
{
    if (rf_import_type_size(t->type) == 0)
        return RF_FAIL(RF_ERROR_UNSUPPORTED, "tensor '%s' has numbers of type %d, which cannot be read", t->name,
                       (int)t->type);
    const bool is_float = rf_import_type_is_float(t->type);
    RF_TRY(rf_import_constant_new(im, !is_float, t->shape, out));
    RF_TRY(is_float ? rf_import_tensor_floats(t, out->f) : rf_import_tensor_whole(t, out->w));
    out->type = t->type;
    out->name = is_float && rf_import_count(out) > 1 ? name : NULL;
    return RF_OK;
}

/* ---- sizes ---- */

static double apply_operator(char op, double a, double b)
{
    switch (op) {
    case '+': return a + b;
    case '-': return a - b;
    case '*': return a * b;
    case '/': return a / b;
    case 'q': return b != 0 ? trunc(a / b) : 0;
    case '%': return b != 0 ? a - floor(a / b) * b : 0;
    case 'M': return a > b ? a : b;
    case 'm': return a < b ? a : b;
    case 'f': return floor(a);
    case 'c': return ceil(a);
    case 'r': return nearbyint(a);
    default: return trunc(a);
    }
}

static rf_result append_size(rf_import *im, rf_import_size size, uint32_t *out)
{
    if (size.tokens > MOST_TOKENS)
        return RF_FAIL(RF_ERROR_UNSUPPORTED, "a size is an expression of more than %d parts", MOST_TOKENS);
    if (im->sizes.count == 0) im->sizes.count = RF_VEC_GROW(&im->sizes) >= 0; /* number 0 is none */
    RF_TRY(RF_VEC_GROW(&im->sizes));
    *out = im->sizes.count;
    im->sizes.items[im->sizes.count++] = size;
    return RF_OK;
}

static rf_result operand_of(rf_import *im, uint32_t *size, double number)
{
    return *size ? RF_OK : append_size(im, (rf_import_size){ .number = number, .tokens = 1 }, size);
}

rf_result rf_import_size_new(rf_import *im, char op, uint32_t a, double na, uint32_t b, double nb, uint32_t *out,
                             double *number)
{
    const bool unary = strchr("fcrt", op) != NULL;
    *out = 0;
    if (!a && (unary || !b)) {
        *number = apply_operator(op, na, nb);
        return RF_OK;
    }
    RF_TRY(operand_of(im, &a, na));
    if (!unary) RF_TRY(operand_of(im, &b, nb));
    const uint32_t tokens = 1 + im->sizes.items[a].tokens + (unary ? 0 : im->sizes.items[b].tokens);
    return append_size(im, (rf_import_size){ .operator= op, .a = a, .b = unary ? 0 : b, .tokens = tokens }, out);
}

rf_result rf_import_size_dim(rf_import *im, uint32_t value, int32_t axis, uint32_t *out)
{
    return append_size(im, (rf_import_size){ .operator= 'd', .a = value, .axis = axis, .tokens = 1 }, out);
}

/* ---- for layers ---- */

static void emit_permuted(float *to, const float *from, rf_shape x, const int32_t *perm)
{
    int64_t stride[RF_MAX_RANK], at[RF_MAX_RANK] = { 0 }, count = 1;
    for (int32_t d = x.rank - 1; d >= 0; d--) {
        stride[d] = count;
        count *= x.dim[d];
    }
    for (int64_t e = 0; e < count; e++) {
        int64_t place = 0;
        for (int32_t d = 0; d < x.rank; d++) place += at[d] * stride[perm[d]];
        to[e] = from[place];
        for (int32_t d = x.rank - 1; d >= 0 && ++at[d] == x.dim[perm[d]]; d--) at[d] = 0;
    }
}

float *rf_import_permuted(rf_import *im, const rf_import_constant *c, const int32_t *perm)
{
    const int64_t count = rf_import_count(c);
    if ((im->folded += (uint64_t)count) > im->most_folded) {
        (void)RF_FAIL(RF_ERROR_OUT_OF_HOST_MEMORY, "nodes share weights in too many ways");
        return NULL;
    }
    float *to = rf_import_alloc(im, (size_t)count * sizeof(float));
    if (to) emit_permuted(to, c->f, c->shape, perm);
    return to;
}

rf_result rf_import_add_weight(rf_import *im, rf_layer *layer, const char *variable, const float *values,
                               uint64_t count)
{
    if (!values) return RF_ERROR_OUT_OF_HOST_MEMORY;
    RF_TRY(RF_VEC_GROW(&im->weights));
    im->weights.items[im->weights.count++] = (rf_import_weight){ layer, variable, values, count };
    return RF_OK;
}

static bool name_taken(const rf_import *im, const char *name)
{
    for (uint32_t i = 0; i < im->names.count; i++)
        if (strcmp(im->names.items[i], name) == 0) return true;
    return false;
}

const char *rf_import_layer_name(rf_import *im, const char *initializer, const char *op)
{
    const char *base = initializer ? initializer : op, *end = base + strlen(base);
    if (initializer)
        for (const char *at = base + 1; *base && *at; at++)
            if ((*at == '/' || *at == '.') && at[1]) end = at;
    while (initializer && *base == '/' && base + 1 < end) base++;
    const size_t room = (size_t)(end - base) + 16;
    char *name = rf_import_alloc(im, room);
    for (uint32_t n = 0; name; n++) {
        if (!initializer)
            snprintf(name, room, "%.*s_%u", (int)(end - base), base, ++im->serial);
        else if (n == 0)
            snprintf(name, room, "%.*s", (int)(end - base), base);
        else
            snprintf(name, room, "%.*s_%u", (int)(end - base), base, n + 1);
        if (!name_taken(im, name)) break;
    }
    for (char *c = name; name && !initializer && *c; c++)
        if (*c >= 'A' && *c <= 'Z') *c = (char)(*c - 'A' + 'a');
    if (!name || RF_VEC_GROW(&im->names) < 0) return NULL;
    im->names.items[im->names.count++] = name;
    return name;
}
