/* SPDX-License-Identifier: Apache-2.0 */
#include "ops/linear/common/linear.h"

#include <string.h>

#include "ops/pointwise/common/elementwise.h"
#include "rf_shaders.h"

/* ---- epilogue ---- */

bool rf_linear_activation_known(uint32_t activation)
{
    return activation <= RF_ACTIVATION_GELU;
}

double rf_linear_activate(uint32_t activation, double x)
{
    switch (activation) {
    case RF_ACTIVATION_RELU: return rf_scalar_table[RF_FN_RELU].reference(x, 0, 0);
    case RF_ACTIVATION_LEAKY_RELU: return rf_scalar_table[RF_FN_LEAKY_RELU].reference(x, 0, (double)0.2f);
    case RF_ACTIVATION_SIGMOID: return rf_scalar_table[RF_FN_SIGMOID].reference(x, 0, 0);
    case RF_ACTIVATION_TANH: return rf_scalar_table[RF_FN_TANH].reference(x, 0, 0);
    case RF_ACTIVATION_GELU: return rf_scalar_table[RF_FN_GELU_ERF].reference(x, 0, 0);
    default: return x;
    }
}

/* The activation that an element-wise node of one step and one operand is, LINEAR when it is none. */
static uint32_t activation_of(const rf_node_info *node)
{
    const rf_elementwise_attr *attr = node->attr;
    if (node->op != &rf_op_elementwise || node->n_in != 1 || attr->n_steps != 1 || attr->steps[0].a != 0)
        return RF_ACTIVATION_LINEAR;
    switch (attr->steps[0].fn) {
    case RF_FN_RELU: return RF_ACTIVATION_RELU;
    case RF_FN_LEAKY_RELU: return attr->steps[0].imm == 0.2f ? RF_ACTIVATION_LEAKY_RELU : RF_ACTIVATION_LINEAR;
    case RF_FN_SIGMOID: return RF_ACTIVATION_SIGMOID;
    case RF_FN_TANH: return RF_ACTIVATION_TANH;
    case RF_FN_GELU_ERF: return RF_ACTIVATION_GELU;
    default: return RF_ACTIVATION_LINEAR;
    }
}

bool rf_linear_absorb(const rf_graph *graph, rf_node producer, rf_node consumer, size_t activation_offset,
                      rf_fused *fused)
{
    const rf_node_info *p = &graph->nodes.items[producer], *c = &graph->nodes.items[consumer];
    uint32_t activation;
    memcpy(&activation, (const char *)p->attr + activation_offset, sizeof(activation));
    if (activation != RF_ACTIVATION_LINEAR) return false; /* nothing can follow an activation */

    memset(fused, 0, sizeof(*fused));
    fused->op = p->op;
    fused->n_in = p->n_in;
    memcpy(fused->in, p->in, sizeof(*p->in) * p->n_in);
    memcpy(fused->attr, p->attr, p->op->attr_size);
    if (c->op == &rf_op_bias_add) {
        if (p->n_in != 2 || c->in[0] != p->out[0]) return false;
        fused->in[fused->n_in++] = c->in[1];
        return true;
    }
    activation = activation_of(c);
    memcpy(fused->attr + activation_offset, &activation, sizeof(activation));
    return activation != RF_ACTIVATION_LINEAR;
}

bool rf_linear_absorb_cast(const rf_graph *graph, rf_node self, rf_node other, size_t f32_offset, rf_fused *fused)
{
    const rf_node_info *s = &graph->nodes.items[self], *o = &graph->nodes.items[other];
    const uint32_t yes = 1;
    if (o->op != &rf_op_cast || o->in[0] != s->out[0] || rf_graph_desc(graph, o->out[0])->dtype != RF_F32) return false;
    *fused = (rf_fused){ .op = s->op, .n_in = s->n_in };
    memcpy(fused->in, s->in, sizeof(s->in));
    memcpy(fused->attr, s->attr, s->op->attr_size);
    memcpy(fused->attr + f32_offset, &yes, sizeof(yes));
    return true;
}

rf_result rf_linear_append_sums(const rf_op_call *call, const rf_device_caps *caps, rf_kernel_plan *plan)
{
    const rf_reduce_attr rows = { .kind = RF_REDUCE_KIND_SUM, .axes_mask = (1u << (call->in[1].shape.rank - 1)) - 1 };
    rf_op_call sums = { .op = &rf_op_reduce, .attr = &rows, .n_in = 1, .n_out = 1 };
    sums.in[0] = call->in[1];
    sums.out[0] = call->out[1];
    static const rf_plan_tensor in[1] = { { RF_BIND_INPUT, 1 } }, out[1] = { { RF_BIND_OUTPUT, 1 } };
    return rf_plan_append(plan, &sums, caps, in, out);
}

/* Flops of kernels that load both operands of each product, as they were seen on the drivers of this tree's benchmarks
 * and on GPUs of its reports, in seconds; and what a dispatch takes there. */
#define CPU_FLOPS 1e9
#define CPU_DISPATCH 30e-6
#define GPU_FLOPS 1e11
#define GPU_DISPATCH 5e-6

double rf_linear_naive_seconds(const rf_op_call *call, const rf_device_caps *caps)
{
    const double flops = call->op->cost(call).flops;
    return caps->is_cpu ? flops / CPU_FLOPS + CPU_DISPATCH : flops / GPU_FLOPS + GPU_DISPATCH;
}

rf_elements rf_linear_met_column(const rf_op_call *call, int64_t i)
{
    const rf_shape *b = &call->in[1].shape, *out = &call->out[0].shape;
    return (rf_elements){ i % out->dim[out->rank - 1], b->dim[b->rank - 1], rf_shape_count(*b) };
}

/* ---- steps of kernel plans ---- */

rf_binding rf_linear_input(const rf_op_call *call, uint32_t index)
{
    return (rf_binding){ .kind = RF_BIND_INPUT, .index = index, .size = rf_tensor_bytes(&call->in[index]) };
}

rf_binding rf_linear_workspace(rf_kernel_plan *plan, const rf_device_caps *caps, uint64_t bytes)
{
    const rf_binding room = { .kind = RF_BIND_WORKSPACE,
                              .offset = rf_align_up(plan->workspace, caps->buffer_alignment),
                              .size = bytes };
    plan->workspace = room.offset + bytes;
    return room;
}

void rf_linear_bind(rf_dispatch *d, rf_binding binding, rf_bind_view view, bool write)
{
    binding.view = view;
    binding.write = write;
    rf_bind(d, binding);
}

int64_t rf_linear_parts(uint64_t tiles, uint64_t wanted, int64_t length, int64_t shortest, uint64_t longest)
{
    const int64_t fewest = (int64_t)rf_div_up((uint64_t)length, longest);
    const int64_t most = length / shortest, parts = tiles >= wanted ? 1 : (int64_t)rf_div_up(wanted, tiles);
    const int64_t useful = most < 1 ? 1 : parts < most ? parts : most;
    return useful < fewest ? fewest : useful;
}

rf_result rf_linear_add_sum(rf_kernel_plan *plan, const rf_op_call *call, const rf_device_caps *caps,
                            const rf_linear_sum *sum)
{
    const uint64_t total = rf_div_up(sum->count, 4);
    const rf_push_linear_sum push = { .total = (int32_t)total,
                                      .count = (int32_t)sum->count,
                                      .columns = (int32_t)sum->columns,
                                      .num_parts = (int32_t)sum->parts,
                                      .stride = (int32_t)(sum->stride / 4),
                                      .first_extra = (int32_t)(sum->count - sum->extra) };
    rf_dispatch *d = rf_kernel_plan_add(plan, &rf_shader_linear_sum, (uint64_t)sum->parts + 1);
    if (!d) return RF_ERROR_OUT_OF_HOST_MEMORY;
    rf_dispatch_spec(d, rf_local_size(caps, 128));
    rf_dispatch_spec(d, sum->activation);
    rf_dispatch_spec(d, sum->bias);
    rf_linear_bind(d, sum->partial, RF_VIEW_STORAGE, false);
    rf_linear_bind(d, sum->bias ? rf_linear_input(call, 2) : sum->partial, RF_VIEW_STORAGE, false);
    rf_bind_whole(d, RF_BIND_OUTPUT, sum->output);
    rf_bind_whole(d, RF_BIND_OUTPUT, sum->extra ? 1 : sum->output);
    rf_dispatch_push(d, &push, sizeof(push));
    rf_dispatch_items(d, caps, total);
    return RF_OK;
}

rf_binding rf_linear_bind_sums(rf_dispatch *d, rf_kernel_plan *plan, const rf_device_caps *caps, int64_t parts,
                               uint64_t stride, uint32_t extra)
{
    rf_binding to = { .kind = RF_BIND_OUTPUT };
    if (parts == 1) {
        rf_bind_whole(d, RF_BIND_OUTPUT, 0);
        rf_bind_whole(d, RF_BIND_OUTPUT, extra);
        return to;
    }
    to = rf_linear_workspace(plan, caps, (uint64_t)parts * stride * sizeof(float));
    rf_linear_bind(d, to, RF_VIEW_STORAGE, true);
    rf_linear_bind(d, to, RF_VIEW_STORAGE, true);
    return to;
}
