/* SPDX-License-Identifier: Apache-2.0 */
/* The equivalents of operations in ONNX, opset 13. */
#include <math.h>
#include <string.h>

#include "ops/kit.h"
#include "ops/ops.h"
#include "train/files/onnx.h"

#define OP1(op, a) rf_onnx_op(o, op, a, NULL, NULL)
#define OP2(op, a, b) rf_onnx_op(o, op, a, b, NULL)
#define OP3(op, a, b, c) rf_onnx_op(o, op, a, b, c)
#define NUM(value) rf_onnx_number(o, value)

static void set_result(rf_onnx *o, const rf_node_info *node, char *name, bool first)
{
    rf_onnx_value *value = &o->values[node->out[0]];
    if (first)
        value->first = name;
    else
        value->name = name;
}

/* Where a dimension of an image is when channels come first. */
static int64_t axis_of(int64_t axis, bool first)
{
    static const int64_t places[] = { 0, 2, 3, 1 };
    return first ? places[axis] : axis;
}

static char *emit_operand(rf_onnx *o, rf_value v, bool first)
{
    const bool has_first = rf_onnx_is_leaf(o, v) || rf_onnx_is_per_channel(o, v) || rf_onnx_shape(o, v).rank == 4;
    return first && has_first && rf_onnx_shape(o, v).rank > 0 ? rf_onnx_get_first(o, v) : rf_onnx_get(o, v);
}

/* Whether broadcasting operations on the operands are done with channels first: where some are there only so, and all
 * others can be had. */
static bool broadcast_first(const rf_onnx *o, const rf_node_info *node)
{
    bool wanted = false;
    for (uint32_t i = 0; i < node->n_in; i++) {
        const rf_value v = node->in[i];
        const int32_t rank = rf_onnx_shape(o, v).rank;
        wanted |= rf_onnx_is_first(o, v);
        if (rank != 4 && rank != 0 && !(rf_onnx_is_leaf(o, v) && rank < 4) && !rf_onnx_is_per_channel(o, v))
            return false;
    }
    return wanted;
}

/* ---- element-wise ---- */

static char *to_float(rf_onnx *o, char *x)
{
    x = OP1("Cast", x);
    rf_onnx_int(o, "to", RF_ONNX_FLOAT);
    return x;
}

static char *leaky_relu(rf_onnx *o, char *x, float alpha)
{
    x = OP1("LeakyRelu", x);
    rf_onnx_float(o, "alpha", alpha);
    return x;
}

/* The distribution function of the normal distribution: (1 + erf(x / sqrt 2)) / 2. */
static char *normal_cdf(rf_onnx *o, char *x)
{
    char *erf_of = OP1("Erf", OP2("Mul", x, NUM(0.70710678118654752f)));
    return OP2("Mul", OP2("Add", erf_of, NUM(1.0f)), NUM(0.5f));
}

/* x / 2 * (1 + erf(x / sqrt 2)) */
static char *gelu_nodes(rf_onnx *o, char *x)
{
    char *erf_of = OP1("Erf", OP2("Mul", x, NUM(0.70710678118654752f)));
    return OP2("Mul", OP2("Mul", OP2("Add", erf_of, NUM(1.0f)), x), NUM(0.5f));
}

static char *gelu_slope(rf_onnx *o, char *x)
{
    char *density = OP1("Exp", OP2("Mul", OP2("Mul", x, x), NUM(-0.5f)));
    return OP2("Add", normal_cdf(o, x), OP2("Mul", OP2("Mul", density, NUM(0.39894228040143268f)), x));
}

/* (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))) / 2 */
static char *gelu_gate(rf_onnx *o, char *x)
{
    char *cubic = OP2("Add", OP2("Mul", OP2("Mul", x, x), NUM(0.044715f)), NUM(1.0f));
    char *tanh_of = OP1("Tanh", OP2("Mul", OP2("Mul", cubic, x), NUM(0.79788456080286536f)));
    return OP2("Mul", OP2("Add", tanh_of, NUM(1.0f)), NUM(0.5f));
}

/* s + x s (1 - s) 2 sqrt(2 / pi) (1 + 3 * 0.044715 x^2), s being the gate */
static char *gelu_tanh_slope(rf_onnx *o, char *x)
{
    char *s = gelu_gate(o, x);
    char *inner = OP2("Add", OP2("Mul", OP2("Mul", x, x), NUM(3.0f * 0.044715f)), NUM(1.0f));
    char *both = OP2("Mul", OP2("Mul", s, OP2("Sub", NUM(1.0f), s)), OP2("Mul", x, NUM(2.0f * 0.79788456080286536f)));
    return OP2("Add", s, OP2("Mul", both, inner));
}

/* log(1 + x), near 0 as 2 artanh(x / (x + 2)), which loses no digits there */
static char *log1p_of(rf_onnx *o, char *x)
{
    char *near = OP2("Mul", OP1("Atanh", OP2("Div", x, OP2("Add", x, NUM(2.0f)))), NUM(2.0f));
    char *is_near = OP2("Less", OP1("Abs", x), NUM(0.25f));
    return OP3("Where", is_near, near, OP1("Log", OP2("Add", x, NUM(1.0f))));
}

/* b a^(b - 1), 0 for b = 0 */
static char *pow_slope(rf_onnx *o, char *a, char *b)
{
    char *slope = OP2("Mul", b, OP2("Pow", a, OP2("Sub", b, NUM(1.0f))));
    return OP3("Where", OP2("Equal", b, NUM(0.0f)), NUM(0.0f), slope);
}

/* log(a), 0 for a = 0 and b >= 0 */
static char *pow_log(rf_onnx *o, char *a, char *b)
{
    char *zero = OP2("And", OP2("Equal", a, NUM(0.0f)), OP2("GreaterOrEqual", b, NUM(0.0f)));
    return OP3("Where", zero, NUM(0.0f), OP1("Log", a));
}

/* Functions that have an operation of their own. */
static const char *const plain[RF_FN_COUNT] = {
    [RF_FN_NEGATIVE] = "Neg", [RF_FN_ABS] = "Abs",    [RF_FN_SIGN] = "Sign",    [RF_FN_EXP] = "Exp",
    [RF_FN_LOG] = "Log",      [RF_FN_SQRT] = "Sqrt",  [RF_FN_TANH] = "Tanh",    [RF_FN_SIGMOID] = "Sigmoid",
    [RF_FN_RELU] = "Relu",    [RF_FN_ADD] = "Add",    [RF_FN_SUBTRACT] = "Sub", [RF_FN_MULTIPLY] = "Mul",
    [RF_FN_SIN] = "Sin",      [RF_FN_COS] = "Cos",    [RF_FN_FLOOR] = "Floor",  [RF_FN_ROUND] = "Round",
    [RF_FN_ERF] = "Erf",      [RF_FN_DIVIDE] = "Div", [RF_FN_POW] = "Pow",      [RF_FN_MAXIMUM] = "Max",
    [RF_FN_MINIMUM] = "Min",
};

static char *scalar_node(rf_onnx *o, rf_scalar_fn fn, float imm, char *a, char *b)
{
    switch (fn) {
    case RF_FN_COPY: return a;
    case RF_FN_SQUARE: return OP2("Mul", a, a);
    case RF_FN_LEAKY_RELU: return leaky_relu(o, a, imm);
    case RF_FN_GELU_ERF: return gelu_nodes(o, a);
    case RF_FN_GELU_TANH: return OP2("Mul", a, gelu_gate(o, a));
    case RF_FN_GELU_ERF_SLOPE: return gelu_slope(o, a);
    case RF_FN_GELU_TANH_SLOPE: return gelu_tanh_slope(o, a);
    case RF_FN_LOG1P: return log1p_of(o, a);
    case RF_FN_EXPM1: /* tanh(a / 2) (exp(a) + 1) */
        return OP2("Mul", OP1("Tanh", OP2("Mul", a, NUM(0.5f))), OP2("Add", OP1("Exp", a), NUM(1.0f)));
    case RF_FN_ADD_IMM: return OP2("Add", a, NUM(imm));
    case RF_FN_MUL_IMM: return OP2("Mul", a, NUM(imm));
    case RF_FN_WHOLE_GREATER:
    case RF_FN_GREATER: return to_float(o, OP2("Greater", a, b));
    case RF_FN_WHOLE_GREATER_EQUAL:
    case RF_FN_GREATER_EQUAL: return to_float(o, OP2("GreaterOrEqual", a, b));
    case RF_FN_WHOLE_EQUAL:
    case RF_FN_EQUAL: return to_float(o, OP2("Equal", a, b));
    case RF_FN_RELU_GRAD: return OP3("Where", OP2("Greater", b, NUM(0.0f)), a, NUM(0.0f));
    case RF_FN_LEAKY_RELU_GRAD: return OP3("Where", OP2("Greater", b, NUM(0.0f)), a, OP2("Mul", a, NUM(imm)));
    case RF_FN_TANH_GRAD: return OP2("Mul", a, OP2("Sub", NUM(1.0f), OP2("Mul", b, b)));
    case RF_FN_SIGMOID_GRAD: return OP2("Mul", OP2("Mul", a, b), OP2("Sub", NUM(1.0f), b));
    case RF_FN_SQRT_GRAD: return OP2("Div", OP2("Mul", a, NUM(0.5f)), b);
    case RF_FN_WHERE: return OP3("Where", OP2("Equal", a, NUM(0.0f)), NUM(0.0f), b);
    case RF_FN_WHERE_NOT: return OP3("Where", OP2("Equal", a, NUM(0.0f)), b, NUM(0.0f));
    case RF_FN_POW_SLOPE: return pow_slope(o, a, b);
    case RF_FN_POW_LOG: return pow_log(o, a, b);
    default: return rf_onnx_op(o, plain[fn], a, b, NULL);
    }
}

static rf_result add_elementwise(rf_onnx *o, const rf_node_info *node)
{
    static const uint32_t first_binary = RF_FN_ADD;
    const rf_elementwise_attr *attr = node->attr;
    const bool first = broadcast_first(o, node);
    char *reg[RF_MAX_INPUTS + RF_MAX_STEPS] = { 0 };
    for (uint32_t i = 0; i < node->n_in; i++) reg[i] = emit_operand(o, node->in[i], first);
    for (uint32_t i = 0; i < attr->n_steps; i++) {
        const rf_scalar_step *s = &attr->steps[i];
        reg[node->n_in + i] = scalar_node(o, s->fn, s->imm, reg[s->a], s->fn >= first_binary ? reg[s->b] : NULL);
    }
    set_result(o, node, reg[node->n_in + attr->n_steps - 1], first);
    return RF_OK;
}

/* Matrix product and convolution may have been given an activation to do as well. */
static char *activation_node(rf_onnx *o, rf_activation activation, char *x)
{
    switch (activation) {
    case RF_ACTIVATION_RELU: return OP1("Relu", x);
    case RF_ACTIVATION_LEAKY_RELU: return leaky_relu(o, x, 0.2f);
    case RF_ACTIVATION_SIGMOID: return OP1("Sigmoid", x);
    case RF_ACTIVATION_TANH: return OP1("Tanh", x);
    case RF_ACTIVATION_GELU: return gelu_nodes(o, x);
    default: break; /* linear; others are never part of another operation */
    }
    return x;
}

/* ---- linear ---- */

static char *matrix_operand(rf_onnx *o, rf_value v, bool transposed)
{
    int32_t perm[RF_MAX_RANK] = { 0, 1, 2, 3, 4, 5 };
    const int32_t rank = rf_onnx_shape(o, v).rank;
    if (!transposed) return rf_onnx_get(o, v);
    perm[rank - 2] = rank - 1;
    perm[rank - 1] = rank - 2;
    return rf_onnx_permuted(o, v, perm);
}

static rf_result add_matmul(rf_onnx *o, const rf_node_info *node)
{
    const rf_matmul_attr *attr = node->attr;
    char *a = matrix_operand(o, node->in[0], attr->transpose_a), *b = matrix_operand(o, node->in[1], attr->transpose_b);
    char *y = OP2("MatMul", a, b);
    if (attr->relu_mask) {
        char *positive = OP2("Greater", rf_onnx_get(o, node->in[2]), NUM(0.0f));
        y = OP3("Where", positive, y, NUM(0.0f));
    } else if (node->n_in == 3) {
        y = OP2("Add", y, rf_onnx_get(o, node->in[2]));
    }
    set_result(o, node, activation_node(o, attr->activation, y), false);
    if (!attr->bias_gradient) return RF_OK;
    const int64_t rows = 0;
    char *sums = OP2("ReduceSum", rf_onnx_get(o, node->in[1]), rf_onnx_list(o, &rows, 1));
    rf_onnx_int(o, "keepdims", 0);
    o->values[node->out[1]].name = sums;
    return RF_OK;
}

static bool is_output(const rf_onnx *o, rf_value v)
{
    for (uint32_t i = 0; i < o->source->num_outputs; i++)
        if (o->source->outputs[i] == v) return true;
    return false;
}

/* A convolution takes its bias as its third operand. */
static rf_result add_bias(rf_onnx *o, const rf_node_info *node)
{
    const rf_value x = node->in[0], bias = node->in[1];
    RfOnnx__NodeProto *conv = o->values[x].node;
    if (conv && conv->n_input == 2 && rf_graph_num_uses(o->source->graph, x) == 1 && !is_output(o, x) &&
        rf_onnx_is_leaf(o, bias)) {
        conv->input[conv->n_input++] = rf_onnx_get(o, bias);
        set_result(o, node, o->values[x].first, true);
        return RF_OK;
    }
    const bool first = broadcast_first(o, node);
    char *a = emit_operand(o, x, first);
    set_result(o, node, OP2("Add", a, emit_operand(o, bias, first)), first);
    return RF_OK;
}

/* Padding before and after, as numbers: SAME puts the odd one at the end. */
static void find_pads(int32_t padding, const int32_t explicit_padding[4], const int64_t *extent, const int64_t *window,
                      const int64_t *stride, int64_t pads[4])
{
    for (int k = 0; k < 2; k++) {
        const int64_t outputs = (extent[k] + stride[k] - 1) / stride[k];
        int64_t total = padding == RF_PADDING_SAME ? (outputs - 1) * stride[k] + window[k] - extent[k] : 0;
        if (total < 0) total = 0;
        pads[k] = padding == RF_PADDING_EXPLICIT ? explicit_padding[2 * k] : total / 2;
        pads[k + 2] = padding == RF_PADDING_EXPLICIT ? explicit_padding[2 * k + 1] : total - total / 2;
    }
}

/* Sizes that must be numbers. */
static rf_result check_fixed(const rf_onnx *o, rf_value v, const char *what)
{
    const rf_shape shape = rf_onnx_shape(o, v);
    char text[96];
    for (int32_t i = 1; i < shape.rank; i++)
        if (shape.dim[i] < 0)
            return RF_FAIL(RF_ERROR_UNSUPPORTED, "%s of %s depend on the batch, which ONNX cannot express", what,
                           rf_shape_format(shape, text, sizeof(text)));
    return RF_OK;
}

static rf_result add_conv2d(rf_onnx *o, const rf_node_info *node)
{
    const rf_conv2d_attr *c = node->attr;
    RF_TRY(check_fixed(o, node->in[0], "images"));
    RF_TRY(check_fixed(o, node->in[1], "kernels"));
    const rf_shape x = rf_onnx_shape(o, node->in[0]), kernel = rf_onnx_shape(o, node->in[1]);
    const int64_t size[] = { rf_graph_desc(o->source->graph, node->in[1])->shape.dim[0], kernel.dim[1] };
    const int64_t strides[] = { c->stride[0], c->stride[1] }, dilations[] = { c->dilation[0], c->dilation[1] };
    const int64_t reach[] = { (size[0] - 1) * dilations[0] + 1, (size[1] - 1) * dilations[1] + 1 };
    int64_t pads[4];
    find_pads(c->padding, c->explicit_padding, &x.dim[1], reach, strides, pads);
    char *images = rf_onnx_get_first(o, node->in[0]), *weights = rf_onnx_kernel(o, node->in[1]);
    char *y = OP3("Conv", images, weights, node->n_in == 3 ? rf_onnx_get(o, node->in[2]) : NULL);
    rf_onnx_ints(o, "kernel_shape", size, 2);
    rf_onnx_ints(o, "strides", strides, 2);
    rf_onnx_ints(o, "dilations", dilations, 2);
    rf_onnx_ints(o, "pads", pads, 4);
    rf_onnx_int(o, "group", c->groups);
    if (y && c->activation == RF_ACTIVATION_LINEAR) o->values[node->out[0]].node = o->nodes.items[o->nodes.count - 1];
    set_result(o, node, activation_node(o, c->activation, y), true);
    if (!c->max_pool) return RF_OK;
    const int64_t window[] = { 2, 2 };
    char *maxima = OP1("MaxPool", rf_onnx_get_first(o, node->out[0]));
    rf_onnx_ints(o, "kernel_shape", window, 2);
    rf_onnx_ints(o, "strides", window, 2);
    o->values[node->out[1]].first = maxima;
    return RF_OK;
}

/* The padding of the image takes rows and columns away; others are put on where sizes are not reached. */
static rf_result add_conv2d_transpose(rf_onnx *o, const rf_node_info *node)
{
    const rf_conv2d_attr *c = node->attr;
    RF_TRY(check_fixed(o, node->in[0], "images"));
    RF_TRY(check_fixed(o, node->in[1], "kernels"));
    const rf_shape x = rf_onnx_shape(o, node->in[0]), y = rf_onnx_shape(o, node->out[0]);
    const rf_shape kernel = rf_graph_desc(o->source->graph, node->in[1])->shape;
    const int64_t strides[] = { c->stride[0], c->stride[1] }, dilations[] = { c->dilation[0], c->dilation[1] };
    const int64_t reach[] = { (kernel.dim[0] - 1) * dilations[0] + 1, (kernel.dim[1] - 1) * dilations[1] + 1 };
    int64_t pads[4], more[2];
    find_pads(c->padding, c->explicit_padding, &y.dim[1], reach, strides, pads);
    for (int k = 0; k < 2; k++)
        more[k] = y.dim[1 + k] - ((x.dim[1 + k] - 1) * strides[k] + reach[k] - pads[k] - pads[k + 2]);
    char *z = OP2("ConvTranspose", rf_onnx_get_first(o, node->in[0]), rf_onnx_kernel(o, node->in[1]));
    rf_onnx_ints(o, "kernel_shape", kernel.dim, 2);
    rf_onnx_ints(o, "strides", strides, 2);
    rf_onnx_ints(o, "dilations", dilations, 2);
    rf_onnx_ints(o, "pads", pads, 4);
    rf_onnx_ints(o, "output_padding", more, 2);
    rf_onnx_int(o, "group", c->groups);
    if (z) o->values[node->out[0]].node = o->nodes.items[o->nodes.count - 1];
    set_result(o, node, z, true);
    return RF_OK;
}

static rf_result add_pool(rf_onnx *o, const rf_node_info *node)
{
    const rf_pool2d_attr *p = node->attr;
    RF_TRY(check_fixed(o, node->in[0], "images"));
    const rf_shape x = rf_onnx_shape(o, node->in[0]);
    int64_t window[2], strides[2], pads[4];
    for (int k = 0; k < 2; k++) {
        window[k] = p->window[k] ? p->window[k] : 2;
        strides[k] = p->stride[k] ? p->stride[k] : window[k];
    }
    find_pads(p->padding, p->explicit_padding, &x.dim[1], window, strides, pads);
    char *y = OP1(node->op == &rf_op_max_pool2d ? "MaxPool" : "AveragePool", rf_onnx_get_first(o, node->in[0]));
    rf_onnx_ints(o, "kernel_shape", window, 2);
    rf_onnx_ints(o, "strides", strides, 2);
    rf_onnx_ints(o, "pads", pads, 4);
    set_result(o, node, y, true);
    return RF_OK;
}

/* Whole factors of repeated pixels begin where they do there in the mode "asymmetric". */
static rf_result add_upsample(rf_onnx *o, const rf_node_info *node)
{
    const rf_upsample_attr *attr = node->attr;
    const bool bilinear = attr->interpolation == RF_INTERPOLATION_BILINEAR;
    const float scales[] = { 1, 1, (float)attr->factor[0], (float)attr->factor[1] };
    char *sizes = rf_onnx_tensor(o, "scales", RF_ONNX_FLOAT, RF_SHAPE(4), scales);
    char *y = OP3("Resize", rf_onnx_get_first(o, node->in[0]), rf_onnx_copy(o, ""), sizes);
    rf_onnx_text(o, "mode", bilinear ? "linear" : "nearest");
    rf_onnx_text(o, "coordinate_transformation_mode", bilinear ? "half_pixel" : "asymmetric");
    if (!bilinear) rf_onnx_text(o, "nearest_mode", "floor");
    set_result(o, node, y, true);
    return RF_OK;
}

/* ---- shape ---- */

static rf_result add_reshape(rf_onnx *o, const rf_node_info *node)
{
    rf_shape to;
    RF_TRY(rf_inference_reshape(o->source, node, &to));
    for (int32_t i = 0; i < to.rank; i++) {
        if (to.dim[i] == 0) return RF_FAIL(RF_ERROR_UNSUPPORTED, "reshape to no elements cannot be expressed in ONNX");
        if (to.dim[i] == RF_RESHAPE_KEEP) to.dim[i] = 0; /* ONNX's word for it */
    }
    char *x = rf_onnx_get(o, node->in[0]);
    set_result(o, node, OP2("Reshape", x, rf_onnx_list(o, to.dim, to.rank)), false);
    return RF_OK;
}

static rf_result add_reshape_like(rf_onnx *o, const rf_node_info *node)
{
    char *x = rf_onnx_get(o, node->in[0]);
    set_result(o, node, OP2("Reshape", x, rf_onnx_shape_of(o, node->in[1])), false);
    return RF_OK;
}

static rf_result add_transpose(rf_onnx *o, const rf_node_info *node)
{
    const int32_t *perm = node->attr; /* its only field */
    const rf_value x = node->in[0];
    const int32_t rank = rf_onnx_shape(o, x).rank;
    const bool first = rf_onnx_is_first(o, x);
    int64_t from[RF_MAX_RANK];
    bool same = true;
    for (int32_t i = 0; i < rank; i++) {
        from[i] = axis_of(perm[i], first);
        same = same && from[i] == i;
    }
    char *y = first ? rf_onnx_get_first(o, x) : rf_onnx_get(o, x);
    if (!same) {
        y = OP1("Transpose", y);
        rf_onnx_ints(o, "perm", from, (size_t)rank);
    }
    set_result(o, node, y, false);
    return RF_OK;
}

/* The rules for ranges are the same there. */
static char *slice_of(rf_onnx *o, char *x, int64_t *const begin_end_axes_step[4], int64_t count)
{
    int64_t *const *lists = begin_end_axes_step;
    if (count > 0) x = OP3("Slice", x, rf_onnx_list(o, lists[0], count), rf_onnx_list(o, lists[1], count));
    if (count > 0 && x) {
        RfOnnx__NodeProto *slice = o->nodes.items[o->nodes.count - 1];
        slice->input[slice->n_input++] = rf_onnx_list(o, lists[2], count);
        slice->input[slice->n_input++] = rf_onnx_list(o, lists[3], count);
    }
    return x;
}

static rf_result add_slice(rf_onnx *o, const rf_node_info *node)
{
    const rf_slice_attr *attr = node->attr;
    int64_t begin[RF_MAX_RANK], end[RF_MAX_RANK], axes[RF_MAX_RANK], step[RF_MAX_RANK], count = 0;
    for (int64_t d = 0; d < rf_onnx_shape(o, node->in[0]).rank; d++) {
        if (attr->step[d] == 0) continue;
        begin[count] = attr->begin[d];
        end[count] = attr->end[d];
        axes[count] = d;
        step[count++] = attr->step[d];
    }
    char *x = rf_onnx_get(o, node->in[0]);
    set_result(o, node, slice_of(o, x, (int64_t *const[]){ begin, end, axes, step }, count), false);
    return RF_OK;
}

static rf_result add_pad(rf_onnx *o, const rf_node_info *node)
{
    const rf_pad_attr *attr = node->attr;
    const int32_t rank = rf_onnx_shape(o, node->in[0]).rank;
    int64_t pads[2 * RF_MAX_RANK];
    for (int32_t d = 0; d < rank; d++) {
        pads[d] = attr->before[d];
        pads[rank + d] = attr->after[d];
    }
    char *x = rf_onnx_get(o, node->in[0]);
    set_result(o, node, OP3("Pad", x, rf_onnx_list(o, pads, 2 * rank), NUM(attr->value)), false);
    return RF_OK;
}

static rf_result add_concat(rf_onnx *o, const rf_node_info *node)
{
    const rf_concat_attr *attr = node->attr;
    const bool first = broadcast_first(o, node);
    char *in[RF_CONCAT_INPUTS] = { NULL };
    for (uint32_t i = 0; i < node->n_in; i++) in[i] = emit_operand(o, node->in[i], first);
    char *y = OP1("Concat", in[0]);
    if (!y) return RF_OK; /* the failure is kept */
    RfOnnx__NodeProto *concat = o->nodes.items[o->nodes.count - 1];
    for (uint32_t i = 1; i < node->n_in; i++) concat->input[concat->n_input++] = in[i];
    rf_onnx_int(o, "axis", axis_of(attr->axis, first));
    set_result(o, node, y, first);
    return RF_OK;
}

/* As slices, whose names are free: outputs that nobody reads have none. */
static rf_result add_split(rf_onnx *o, const rf_node_info *node)
{
    const rf_split_attr *attr = node->attr;
    const rf_shape x = rf_onnx_shape(o, node->in[0]);
    int64_t begin = 0, axis = attr->axis, step = 1;
    char text[96];
    if (x.dim[axis] < 0)
        return RF_FAIL(RF_ERROR_UNSUPPORTED, "parts of the batch of %s cannot be expressed in ONNX",
                       rf_shape_format(x, text, sizeof(text)));
    for (uint32_t i = 0; i < node->n_out; i++) {
        int64_t end = begin + rf_onnx_shape(o, node->out[i]).dim[axis];
        char *whole = rf_onnx_get(o, node->in[0]);
        o->values[node->out[i]].name = slice_of(o, whole, (int64_t *const[]){ &begin, &end, &axis, &step }, 1);
        begin = end;
    }
    return RF_OK;
}

static rf_result add_axis(rf_onnx *o, const rf_node_info *node)
{
    const int64_t axis = ((const rf_axis_attr *)node->attr)->axis;
    char *x = rf_onnx_get(o, node->in[0]);
    const char *op = node->op == &rf_op_squeeze ? "Squeeze" : "Unsqueeze";
    set_result(o, node, OP2(op, x, rf_onnx_list(o, &axis, 1)), false);
    return RF_OK;
}

/* An index that names nothing gives NaN, in whole numbers something without meaning. */
static char *nothing_of(rf_onnx *o, rf_dtype type)
{
    static const int32_t zero;
    if (type == RF_F32) return NUM(NAN);
    return rf_onnx_tensor(o, "nothing", type == RF_U8 ? RF_ONNX_UINT8 : RF_ONNX_INT32, RF_SCALAR_SHAPE, &zero);
}

/* ONNX's own counts negative indices from the end and refuses those beyond it: they take row 0 there, and then become
 * NaN.
 */
static rf_result add_gather(rf_onnx *o, const rf_node_info *node)
{
    const rf_gather_attr *attr = node->attr;
    const int32_t zero = 0, choices = (int32_t)rf_onnx_shape(o, node->in[0]).dim[attr->axis];
    int64_t inner[RF_MAX_RANK], last = -1;
    const int64_t num_inner = rf_onnx_shape(o, node->in[0]).rank - 1 - attr->axis;
    for (int64_t i = 0; i < num_inner; i++) inner[i] = i - num_inner;
    if (choices < 0)
        return RF_FAIL(RF_ERROR_UNSUPPORTED, "operation 'gather' along the batch cannot be expressed in ONNX");
    char *x = rf_onnx_get(o, node->in[0]), *indices = rf_onnx_get(o, node->in[1]);
    char *none = rf_onnx_tensor(o, "first", RF_ONNX_INT32, RF_SCALAR_SHAPE, &zero);
    char *known = OP2("And", OP2("GreaterOrEqual", indices, none),
                      OP2("Less", indices, rf_onnx_tensor(o, "choices", RF_ONNX_INT32, RF_SCALAR_SHAPE, &choices)));
    indices = OP3("Where", known, indices, none);
    char *y;
    if (attr->batch_dims > 0) {
        indices = OP1("Cast", indices);
        rf_onnx_int(o, "to", RF_ONNX_INT64);
        y = OP2("GatherND", x, OP2("Unsqueeze", indices, rf_onnx_list(o, &last, 1)));
        rf_onnx_int(o, "batch_dims", attr->batch_dims);
    } else {
        y = OP2("Gather", x, indices);
        rf_onnx_int(o, "axis", attr->axis);
    }
    if (num_inner > 0) known = OP2("Unsqueeze", known, rf_onnx_list(o, inner, num_inner));
    const rf_dtype from = rf_graph_desc(o->source->graph, node->in[0])->dtype;
    const rf_dtype to = rf_graph_desc(o->source->graph, node->out[0])->dtype;
    y = OP3("Where", known, y, nothing_of(o, from));
    if (to != from) {
        y = OP1("Cast", y);
        rf_onnx_int(o, "to", rf_onnx_type(to));
    }
    set_result(o, node, y, false);
    return RF_OK;
}

static rf_result add_stop_gradient(rf_onnx *o, const rf_node_info *node)
{
    const bool first = rf_onnx_is_first(o, node->in[0]);
    set_result(o, node, emit_operand(o, node->in[0], first), first);
    return RF_OK;
}

static rf_result add_fill_like(rf_onnx *o, const rf_node_info *node)
{
    char *value = NUM(*(const float *)node->attr);
    set_result(o, node, OP2("Expand", value, rf_onnx_shape_of(o, node->in[0])), false);
    return RF_OK;
}

static rf_result add_broadcast_like(rf_onnx *o, const rf_node_info *node)
{
    char *x = rf_onnx_get(o, node->in[0]);
    set_result(o, node, OP2("Expand", x, rf_onnx_shape_of(o, node->in[1])), false);
    return RF_OK;
}

static rf_result add_sum_to_like(rf_onnx *o, const rf_node_info *node)
{
    const rf_shape x = rf_onnx_shape(o, node->in[0]), like = rf_onnx_shape(o, node->in[1]);
    int64_t axes[RF_MAX_RANK], count = 0;
    for (int32_t d = 0; d < x.rank; d++) {
        const int32_t own = d - (x.rank - like.rank);
        if (own < 0 || (like.dim[own] == 1 && x.dim[d] != 1)) axes[count++] = d;
    }
    char *y = rf_onnx_get(o, node->in[0]);
    if (count > 0) y = OP2("ReduceSum", y, rf_onnx_list(o, axes, count));
    set_result(o, node, OP2("Reshape", y, rf_onnx_shape_of(o, node->in[1])), false);
    return RF_OK;
}

static rf_result add_cast(rf_onnx *o, const rf_node_info *node)
{
    const bool first = rf_onnx_is_first(o, node->in[0]);
    char *y = OP1("Cast", emit_operand(o, node->in[0], first));
    rf_onnx_int(o, "to", rf_onnx_type(rf_graph_desc(o->source->graph, node->out[0])->dtype));
    set_result(o, node, y, first);
    return RF_OK;
}

/* ---- reductions ---- */

/* Whether what is left of an image has its dimensions in one order in both layouts. */
static bool order_stays(uint32_t axes, bool keep_dims)
{
    const bool channels = !(axes & 8), places = (axes & 6) != 6;
    return keep_dims || !channels || !places;
}

static rf_result add_reduce(rf_onnx *o, const rf_node_info *node)
{
    static const char *const names[] = { "ReduceSum",       "ReduceMean", "ReduceMax",
                                         "ReduceSumSquare", "ReduceL1",   "ReduceMin" };
    const rf_reduce_attr *attr = node->attr;
    const rf_value x = node->in[0];
    const int32_t rank = rf_onnx_shape(o, x).rank;
    const uint32_t all = (1u << rank) - 1, mask = attr->axes_mask ? attr->axes_mask : all;
    if (attr->kind == RF_REDUCE_KIND_MEAN && rank == 4 && mask == 6) { /* images over their places */
        char *y = OP1("GlobalAveragePool", rf_onnx_get_first(o, x));
        if (!attr->keep_dims) y = OP1("Flatten", y);
        set_result(o, node, y, attr->keep_dims);
        return RF_OK;
    }
    const bool first = rf_onnx_is_first(o, x) && order_stays(mask, attr->keep_dims);
    int64_t axes[RF_MAX_RANK];
    size_t count = 0;
    for (int32_t d = 0; d < rank; d++)
        if (mask & 1u << d) axes[count++] = axis_of(d, first);
    const bool listed =
        attr->kind == RF_REDUCE_KIND_SUM; /* its axes are an operand in this version, the others' not yet */
    char *from = emit_operand(o, x, first);
    char *y = OP2(names[attr->kind], from, listed && count > 0 ? rf_onnx_list(o, axes, (int64_t)count) : NULL);
    if (!listed && count > 0) rf_onnx_ints(o, "axes", axes, count);
    rf_onnx_int(o, "keepdims", attr->keep_dims);
    set_result(o, node, y, first && attr->keep_dims);
    return RF_OK;
}

static rf_result add_softmax(rf_onnx *o, const rf_node_info *node)
{
    const bool first = rf_onnx_is_first(o, node->in[0]);
    char *y = OP1(node->op == &rf_op_softmax ? "Softmax" : "LogSoftmax", emit_operand(o, node->in[0], first));
    rf_onnx_int(o, "axis", first ? 1 : -1);
    set_result(o, node, y, first);
    return RF_OK;
}

/* In parts: ONNX has layer normalization as one operation only from opset 17 on. */
static rf_result add_layer_norm(rf_onnx *o, const rf_node_info *node)
{
    static const int64_t last = -1;
    const rf_layer_norm_attr *attr = node->attr;
    uint32_t next = 1;
    char *x = rf_onnx_get(o, node->in[0]), *mean = NULL;
    if (!attr->rms) {
        mean = OP1("ReduceMean", x);
        rf_onnx_ints(o, "axes", &last, 1);
        x = OP2("Sub", x, mean);
    }
    char *variance = OP1("ReduceMean", OP2("Mul", x, x));
    rf_onnx_ints(o, "axes", &last, 1);
    char *inverse = OP1("Reciprocal", OP1("Sqrt", OP2("Add", variance, NUM(attr->epsilon))));
    char *y = OP2("Mul", x, inverse);
    if (attr->scale) y = OP2("Mul", y, rf_onnx_get(o, node->in[next++]));
    if (attr->center) y = OP2("Add", y, rf_onnx_get(o, node->in[next]));
    set_result(o, node, y, false);
    o->values[node->out[1]].name = attr->rms ? OP2("Sub", inverse, inverse) : mean;
    o->values[node->out[2]].name = inverse;
    return RF_OK;
}

static rf_result add_argmax(rf_onnx *o, const rf_node_info *node)
{
    char *y = OP1("ArgMax", rf_onnx_get(o, node->in[0]));
    rf_onnx_int(o, "axis", -1);
    rf_onnx_int(o, "keepdims", 0);
    y = OP1("Cast", y);
    rf_onnx_int(o, "to", RF_ONNX_INT32);
    set_result(o, node, y, false);
    return RF_OK;
}

/* Indices are of 64 bits there. */
static rf_result add_top_k(rf_onnx *o, const rf_node_info *node)
{
    const rf_top_k_attr *attr = node->attr;
    const rf_shape shape = rf_onnx_shape(o, node->out[0]);
    const int64_t k = shape.dim[shape.rank - 1];
    if (k < 0)
        return RF_FAIL(RF_ERROR_UNSUPPORTED, "operation '%s' along the batch cannot be expressed in ONNX",
                       node->op->name);
    char *x = rf_onnx_get(o, node->in[0]);
    char *values = OP2("TopK", x, rf_onnx_list(o, &k, 1));
    rf_onnx_int(o, "largest", attr->order != RF_TOP_K_ASCENDING);
    set_result(o, node, values, false);
    char *indices = rf_onnx_output(o);
    o->values[node->out[1]].name = OP1("Cast", indices);
    rf_onnx_int(o, "to", RF_ONNX_INT32);
    return RF_OK;
}

static rf_result add_cumsum(rf_onnx *o, const rf_node_info *node)
{
    static const int64_t last = -1;
    const rf_cumsum_attr *attr = node->attr;
    char *x = rf_onnx_get(o, node->in[0]);
    char *y = OP2("CumSum", x, rf_onnx_tensor(o, "last_axis", RF_ONNX_INT64, RF_SCALAR_SHAPE, &last));
    rf_onnx_int(o, "exclusive", attr->exclusive);
    rf_onnx_int(o, "reverse", attr->reverse);
    set_result(o, node, y, false);
    return RF_OK;
}

/* By comparison: ONNX's own counts negative numbers from the end. */
static rf_result add_one_hot(rf_onnx *o, const rf_node_info *node)
{
    static const int64_t last = -1;
    const rf_shape shape = rf_onnx_shape(o, node->out[0]);
    const int64_t depth = shape.dim[shape.rank - 1];
    int32_t *classes = rf_onnx_alloc(o, (size_t)depth * sizeof(*classes));
    for (int64_t i = 0; classes && i < depth; i++) classes[i] = (int32_t)i;
    char *numbers = classes ? rf_onnx_tensor(o, "classes", RF_ONNX_INT32, RF_SHAPE(depth), classes) : NULL;
    char *x = OP2("Unsqueeze", rf_onnx_get(o, node->in[0]), rf_onnx_list(o, &last, 1));
    set_result(o, node, to_float(o, OP2("Equal", x, numbers)), false);
    return RF_OK;
}

/* ---- all ---- */

static const struct {
    const rf_op *op;
    rf_result (*add)(rf_onnx *o, const rf_node_info *node);
} table[] = {
    { &rf_op_elementwise, add_elementwise },
    { &rf_op_sum_to_like, add_sum_to_like },
    { &rf_op_fill_like, add_fill_like },
    { &rf_op_broadcast_like, add_broadcast_like },
    { &rf_op_matmul, add_matmul },
    { &rf_op_bias_add, add_bias },
    { &rf_op_rnn, rf_onnx_add_rnn },
    { &rf_op_conv2d, add_conv2d },
    { &rf_op_conv2d_transpose, add_conv2d_transpose },
    { &rf_op_max_pool2d, add_pool },
    { &rf_op_avg_pool2d, add_pool },
    { &rf_op_upsample2d, add_upsample },
    { &rf_op_reshape, add_reshape },
    { &rf_op_reshape_like, add_reshape_like },
    { &rf_op_transpose, add_transpose },
    { &rf_op_slice, add_slice },
    { &rf_op_pad, add_pad },
    { &rf_op_concat, add_concat },
    { &rf_op_split, add_split },
    { &rf_op_expand_dims, add_axis },
    { &rf_op_squeeze, add_axis },
    { &rf_op_gather, add_gather },
    { &rf_op_stop_gradient, add_stop_gradient },
    { &rf_op_reduce, add_reduce },
    { &rf_op_argmax, add_argmax },
    { &rf_op_top_k, add_top_k },
    { &rf_op_cumsum, add_cumsum },
    { &rf_op_softmax, add_softmax },
    { &rf_op_log_softmax, add_softmax },
    { &rf_op_layer_norm, add_layer_norm },
    { &rf_op_one_hot, add_one_hot },
    { &rf_op_cast, add_cast },
};

/* ONNX's operations compute in the type of their inputs, which are all of one. */
static rf_result check_types(const rf_onnx *o, const rf_node_info *node)
{
    for (uint32_t i = 0; node->op->widen && i < node->n_in; i++) {
        const rf_dtype dtype = node->in[i] ? rf_graph_desc(o->source->graph, node->in[i])->dtype : RF_F32;
        if (rf_dtype_is_narrow(dtype))
            return RF_FAIL(RF_ERROR_UNSUPPORTED,
                           "operation '%s' reads %s, but computes in f32, which ONNX's do not; cast its inputs to f32",
                           node->op->name, rf_dtype_name(dtype));
    }
    return RF_OK;
}

rf_result rf_onnx_add_node(rf_onnx *o, const rf_node_info *node)
{
    RF_TRY(check_types(o, node));
    for (size_t i = 0; i < RF_LENGTH(table); i++)
        if (table[i].op == node->op) return table[i].add(o, node);
    return RF_FAIL(RF_ERROR_UNSUPPORTED, "operation '%s' cannot be expressed in ONNX", node->op->name);
}
