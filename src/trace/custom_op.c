/* SPDX-License-Identifier: Apache-2.0 */
/* Ops of the caller: the adapter that makes one of the project's ops out of a description and a SPIR-V module. */
#include <inttypes.h>
#include <math.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include <ringfire/custom.h>

#include "base/params.h"
#include "base/shader.h"
#include "ops/kit.h"
#include "trace/spirv.h"
#include "trace/trace.h"

struct rf_custom_op {
    rf_op op; /* first, so that it can be found from one */
    rf_custom_op_params params;
    rf_shader *shader; /* its own; what was compiled of it stays with the devices */
    rf_spirv_info spirv;
    uint32_t local_size[3];
    atomic_uint references;
};

static const rf_custom_op *custom_of(const rf_op *op)
{
    return (const rf_custom_op *)op;
}

/* ---- capabilities ---- */

/* The library enables these where a device has them; numbers are those of the SPIR-V specification. */
static bool has_capability(uint32_t number, const rf_device_caps *caps, const char **name)
{
    switch (number) {
    case 1: *name = "Shader"; return true;
    case 9: *name = "Float16"; return caps->fp16;
    case 11: *name = "Int64"; return caps->int64;
    case 39: *name = "Int8"; return caps->int8;
    case 50: *name = "ImageQuery"; return true;
    case 61: *name = "GroupNonUniform"; return caps->subgroup_size > 0;
    case 62: *name = "GroupNonUniformVote"; return caps->subgroup_ballot;
    case 63: *name = "GroupNonUniformArithmetic"; return caps->subgroup_arithmetic;
    case 64: *name = "GroupNonUniformBallot"; return caps->subgroup_ballot;
    case 65: *name = "GroupNonUniformShuffle"; return caps->subgroup_shuffle;
    case 68: *name = "GroupNonUniformQuad"; return caps->subgroup_quad;
    case 4433: *name = "StorageBuffer16BitAccess"; return caps->fp16;
    case 4448: *name = "StorageBuffer8BitAccess"; return caps->int8;
    default: *name = NULL; return false;
    }
}

static rf_result check_known_capabilities(const rf_custom_op *op)
{
    const rf_device_caps none = { 0 };
    for (uint32_t i = 0; i < op->spirv.num_capabilities; i++) {
        const char *name;
        has_capability(op->spirv.capabilities[i], &none, &name);
        if (!name)
            return RF_FAIL(RF_ERROR_UNSUPPORTED,
                           "custom op '%s': the shader needs SPIR-V capability %u, which the library does not enable; "
                           "write it without",
                           op->op.name, op->spirv.capabilities[i]);
    }
    return RF_OK;
}

static rf_result check_device(const rf_custom_op *op, const rf_device_caps *caps)
{
    const uint32_t *size = op->local_size;
    for (uint32_t i = 0; i < op->spirv.num_capabilities; i++) {
        const char *name;
        if (!has_capability(op->spirv.capabilities[i], caps, &name))
            return RF_FAIL(RF_ERROR_UNSUPPORTED,
                           "the shader needs the SPIR-V capability %s, which the device lacks; write one without it, "
                           "or leave the device out",
                           name);
    }
    const uint64_t invocations = (uint64_t)size[0] * size[1] * size[2];
    for (uint32_t k = 0; k < 3; k++)
        if (size[k] > caps->max_workgroup_size[k] || invocations > caps->max_workgroup_invocations)
            return RF_FAIL(RF_ERROR_UNSUPPORTED,
                           "workgroups of %u x %u x %u; the device allows %u x %u x %u, and %u invocations in all: "
                           "make them smaller (128 will do everywhere)",
                           size[0], size[1], size[2], caps->max_workgroup_size[0], caps->max_workgroup_size[1],
                           caps->max_workgroup_size[2], caps->max_workgroup_invocations);
    if (op->params.push_size > caps->max_push_constants || op->spirv.shared_size > caps->max_shared_memory)
        return RF_FAIL(RF_ERROR_UNSUPPORTED,
                       "%u bytes of push constants and %" PRIu64 " of shared memory; the device has %u and %u",
                       op->params.push_size, op->spirv.shared_size, caps->max_push_constants, caps->max_shared_memory);
    return RF_OK;
}

/* ---- the module against its description ---- */

static rf_result check_bindings(const rf_custom_op *op)
{
    const uint32_t num_in = op->params.num_inputs, num = num_in + op->params.num_outputs;
    const char *name = op->op.name;
    for (uint32_t i = 0; i < RF_SPIRV_MAX_BINDINGS; i++) {
        const rf_spirv_binding *b = &op->spirv.bindings[i];
        RF_REQUIRE(!b->present || i < num,
                   "custom op '%s': the shader has binding %u, but %u inputs and %u outputs end before it", name, i,
                   num_in, op->params.num_outputs);
        RF_REQUIRE(!b->present || i >= num_in || b->readonly,
                   "custom op '%s': binding %u is input %u, which must not be written; declare it `readonly`", name, i,
                   i);
        RF_REQUIRE(b->present || i < num_in || i >= num,
                   "custom op '%s': output %u is binding %u, which the shader does not have", name, i - num_in, i);
    }
    return RF_OK;
}

static rf_result check_size(rf_custom_op *op)
{
    const uint32_t *wanted = op->params.local_size;
    const bool given = wanted[0] || wanted[1] || wanted[2];
    const uint32_t others = op->spirv.constant_ids & 7 & ~op->spirv.size_ids;
    RF_REQUIRE(others == 0,
               "custom op '%s': specialization constants 0 to 2 are the workgroup's size (`local_size_x_id = 0`); "
               "give the shader's own numbers from 3 on",
               op->op.name);
    for (uint32_t k = 0; k < 3; k++) {
        op->local_size[k] = !given ? op->spirv.local_size[k] : wanted[k] ? wanted[k] : 1;
        RF_REQUIRE(op->local_size[k] == op->spirv.local_size[k] || (op->spirv.size_ids >> k & 1),
                   "custom op '%s': local_size[%u] is %u, but the shader fixes it to %u; declare "
                   "`layout(local_size_%c_id = %u) in`, or leave it 0",
                   op->op.name, k, op->local_size[k], op->spirv.local_size[k], "xyz"[k], k);
    }
    return RF_OK;
}

static rf_result check_module(rf_custom_op *op)
{
    char name[160];
    snprintf(name, sizeof(name), "custom op '%.120s'", op->op.name);
    RF_TRY(rf_spirv_read(name, op->shader->words, (size_t)op->shader->num_words * 4, &op->spirv));
    RF_TRY(check_known_capabilities(op));
    RF_TRY(check_bindings(op));
    RF_REQUIRE((op->spirv.push_size + 3) / 4 * 4 == op->params.push_size,
               "%s: push_size is %u, but the shader's push constants take %" PRIu64 " bytes", name,
               op->params.push_size, op->spirv.push_size);
    return check_size(op);
}

/* ---- calls ---- */

typedef struct public_call {
    rf_custom_call call;
    rf_custom_tensor in[RF_MAX_INPUTS], out[RF_MAX_OUTPUTS];
} public_call;

static void describe_call(const rf_op_call *call, bool inferred, public_call *out)
{
    for (uint32_t i = 0; i < call->n_in; i++) out->in[i] = (rf_custom_tensor){ call->in[i].dtype, call->in[i].shape };
    for (uint32_t i = 0; inferred && i < call->n_out; i++)
        out->out[i] = (rf_custom_tensor){ call->out[i].dtype, call->out[i].shape };
    out->call = (rf_custom_call){ .attributes = call->attr,
                                  .user = custom_of(call->op)->params.user,
                                  .num_inputs = call->n_in,
                                  .num_outputs = custom_of(call->op)->params.num_outputs,
                                  .inputs = out->in,
                                  .outputs = inferred ? out->out : NULL };
}

/* "f32[2, 3], i32[4]" */
static const char *format_inputs(const rf_op_call *call, char *text, size_t size)
{
    size_t used = 0;
    text[0] = '\0';
    for (uint32_t i = 0; i < call->n_in && used < size; i++) {
        char shape[96];
        const int n = snprintf(text + used, size - used, "%s%s%s", i ? ", " : "", rf_dtype_name(call->in[i].dtype),
                               rf_shape_format(call->in[i].shape, shape, sizeof(shape)));
        used += n > 0 ? (size_t)n : 0;
    }
    return text;
}

static rf_result infer_custom(rf_op_call *call)
{
    const rf_custom_op *op = custom_of(call->op);
    char text[512];
    public_call p;
    describe_call(call, false, &p);
    rf_custom_tensor out[RF_MAX_OUTPUTS] = { { 0 } };
    const rf_result r = op->params.infer(&p.call, out);
    if (r != RF_OK)
        return RF_FAIL(r < 0 && r >= RF_ERROR_LOWEST ? r : RF_ERROR_INVALID_ARGUMENT,
                       "custom op '%s': its inference refuses inputs of %s", call->op->name,
                       format_inputs(call, text, sizeof(text)));
    for (uint32_t i = 0; i < op->params.num_outputs; i++) {
        call->out[i] = (rf_tensor_desc){ out[i].dtype, out[i].shape };
        if (rf_dtype_size(out[i].dtype) == 0 || out[i].dtype == RF_I64 || rf_shape_count(out[i].shape) < 1)
            return RF_FAIL(RF_ERROR_INVALID_ARGUMENT,
                           "custom op '%s': its inference gives output %u no type, i64, or a shape that is empty, for "
                           "inputs of %s",
                           call->op->name, i, format_inputs(call, text, sizeof(text)));
    }
    return RF_OK;
}

static rf_result reference_custom(const rf_op_call *call, void *const *in, void *const *out)
{
    const rf_custom_op *op = custom_of(call->op);
    if (!op->params.reference) return RF_FAIL(RF_ERROR_UNSUPPORTED, "custom op '%s' has no reference", call->op->name);
    public_call p;
    describe_call(call, true, &p);
    const void *inputs[RF_MAX_INPUTS] = { 0 };
    for (uint32_t i = 0; i < call->n_in; i++) inputs[i] = in[i];
    const uint64_t before = rf_error_count();
    return rf_error_of_user(op->params.reference(&p.call, inputs, out), before, "the reference");
}

static rf_cost cost_custom(const rf_op_call *call)
{
    return rf_cost_of(call, 0);
}

/* ---- the kernel ---- */

/* Always eligible: its plan says what is wrong. */
static double score_custom(const rf_op_call *call, const rf_device_caps *caps, const void *data)
{
    (void)call;
    (void)caps;
    (void)data;
    return RF_SCORE_ANY;
}

static rf_result check_tensors(const rf_op_call *call, const rf_device_caps *caps)
{
    for (uint32_t i = 0; i < call->n_in + call->n_out; i++) {
        const bool input = i < call->n_in;
        const uint64_t bytes = rf_tensor_bytes(input ? &call->in[i] : &call->out[i - call->n_in]);
        if (bytes > caps->max_storage_range)
            return RF_FAIL(RF_ERROR_UNSUPPORTED,
                           "%s %u has %" PRIu64 " bytes, but a descriptor of the device spans %" PRIu64
                           "; use a smaller batch, or split the tensor with rf_slice()",
                           input ? "input" : "output", input ? i : i - call->n_in, bytes, caps->max_storage_range);
    }
    return RF_OK;
}

static rf_result ask_dispatch(const rf_op_call *call, const rf_device_caps *caps, rf_custom_dispatch *out)
{
    const rf_custom_op *op = custom_of(call->op);
    public_call p;
    describe_call(call, true, &p);
    memset(out, 0, sizeof(*out));
    memcpy(out->local_size, op->local_size, sizeof(out->local_size));
    const uint64_t before = rf_error_count();
    RF_TRY(rf_error_of_user(op->params.dispatch(&p.call, out), before, "dispatch"));
    RF_TRY(RF_PARAMS_CHECK(rf_custom_dispatch, out));
    RF_REQUIRE(memcmp(out->local_size, op->local_size, sizeof(out->local_size)) == 0,
               "dispatch changed local_size, which the operation's description sets");
    RF_REQUIRE(out->num_constants <= RF_LENGTH(out->constants), "%u specialization constants are more than %u",
               out->num_constants, RF_LENGTH(out->constants));
    RF_REQUIRE(out->loops > 0 || !op->spirv.loops,
               "the shader has loops, but dispatch does not say how long they are; set `loops`");
    if (out->loops > rf_loop_limit(caps))
        return RF_FAIL(RF_ERROR_UNSUPPORTED,
                       "an invocation loops %" PRIu64 " times, but the device's driver leaves loops after %" PRIu64
                       "; give each row to more invocations",
                       out->loops, rf_loop_limit(caps));
    return RF_OK;
}

static rf_result plan_custom(const rf_op_call *call, const rf_device_caps *caps, const void *data, rf_kernel_plan *plan)
{
    (void)data;
    const rf_custom_op *op = custom_of(call->op);
    rf_custom_dispatch asked;
    RF_TRY(check_device(op, caps));
    RF_TRY(check_tensors(call, caps));
    RF_TRY(ask_dispatch(call, caps, &asked));
    rf_dispatch *d = rf_kernel_plan_add(plan, op->shader, asked.loops ? asked.loops : RF_NO_LOOPS);
    if (!d) return RF_ERROR_OUT_OF_HOST_MEMORY;
    for (uint32_t k = 0; k < 3; k++) {
        rf_dispatch_spec(d, op->local_size[k]);
        d->grid[k] = asked.groups[k] ? asked.groups[k] : 1;
    }
    for (uint32_t i = 0; i < asked.num_constants; i++) rf_dispatch_spec(d, asked.constants[i]);
    rf_dispatch_push(d, asked.push, op->params.push_size);
    for (uint32_t i = 0; i < call->n_in; i++) rf_bind_whole(d, RF_BIND_INPUT, i);
    for (uint32_t i = 0; i < call->n_out; i++) rf_bind_whole(d, RF_BIND_OUTPUT, i);
    return RF_OK;
}

static const rf_kernel custom_kernel = { "shader", score_custom, plan_custom };
static const rf_kernel_list custom_kernels = { &custom_kernel, 1 };

/* ---- the gradient ---- */

static rf_result gradient_custom(rf_grad_context *ctx)
{
    rf_trace *t = ctx->graph->trace;
    const rf_custom_op *op = custom_of(ctx->graph->nodes.items[ctx->node].op);
    if (!t)
        return RF_FAIL(RF_ERROR_UNSUPPORTED, "custom op '%s': its gradient can only be traced in a step", op->op.name);
    rf_tensor in[RF_MAX_INPUTS], out[RF_MAX_OUTPUTS], dout[RF_MAX_OUTPUTS], din[RF_MAX_INPUTS] = { { 0 } };
    for (uint32_t i = 0; i < ctx->n_in; i++) in[i] = rf_trace_wrap(t, ctx->in[i]);
    for (uint32_t i = 0; i < ctx->n_out; i++) {
        out[i] = rf_trace_wrap(t, ctx->out[i]);
        dout[i] = ctx->dout[i] ? rf_trace_wrap(t, ctx->dout[i]) : RF_NO_TENSOR;
    }
    const rf_custom_gradient gradient = { .attributes = ctx->attr,
                                          .user = op->params.user,
                                          .num_inputs = ctx->n_in,
                                          .num_outputs = ctx->n_out,
                                          .inputs = in,
                                          .outputs = out,
                                          .output_gradients = dout,
                                          .needed = ctx->needed };
    const uint64_t before = rf_error_count();
    RF_TRY(rf_error_of_user(op->params.gradient(t, &gradient, din), before, "the gradient's function"));
    RF_TRY(rf_trace_status(t));
    for (uint32_t i = 0; i < ctx->n_in; i++) {
        if (din[i].id == 0 || !ctx->needed[i]) continue;
        char argument[160], want[96], got[96];
        snprintf(argument, sizeof(argument), "custom op '%.80s': the gradient of input %u", op->op.name, i);
        ctx->din[i] = rf_trace_value(t, din[i], argument);
        if (!ctx->din[i]) return rf_trace_status(t);
        const rf_tensor_desc *x = rf_graph_desc(ctx->graph, ctx->in[i]), *dx = rf_graph_desc(ctx->graph, ctx->din[i]);
        RF_REQUIRE(dx->dtype == x->dtype && rf_shape_equal(dx->shape, x->shape), "%s is %s%s, but the input %s%s",
                   argument, rf_dtype_name(dx->dtype), rf_shape_format(dx->shape, got, sizeof(got)),
                   rf_dtype_name(x->dtype), rf_shape_format(x->shape, want, sizeof(want)));
    }
    return RF_OK;
}

/* ---- lifetime ---- */

static void retain_custom(const rf_op *op)
{
    atomic_fetch_add(&((rf_custom_op *)(uintptr_t)op)->references, 1);
}

static void release_custom(const rf_op *op)
{
    rf_custom_op *custom = (rf_custom_op *)(uintptr_t)op;
    if (atomic_fetch_sub(&custom->references, 1) != 1) return;
    if (custom->params.destroy) custom->params.destroy(custom->params.user);
    rf_free(custom->shader);
    rf_free(custom);
}

static rf_result check_op_params(const rf_custom_op_params *p)
{
    RF_TRY(RF_PARAMS_CHECK(rf_custom_op_params, p));
    RF_REQUIRE(p->name && *p->name, "rf_custom_op_create: name is missing");
    for (const char *c = p->name; *c; c++)
        RF_REQUIRE((unsigned char)*c > ' ', "rf_custom_op_create: '%s': a name has no blanks", p->name);
    RF_REQUIRE(p->infer && p->dispatch, "custom op '%s': infer and dispatch are required", p->name);
    RF_REQUIRE(p->num_inputs >= 1 && p->num_inputs <= RF_MAX_CUSTOM_TENSORS && p->num_outputs >= 1 &&
                   p->num_outputs <= RF_MAX_CUSTOM_TENSORS && p->num_inputs + p->num_outputs <= RF_MAX_BINDINGS,
               "custom op '%s': %u inputs and %u outputs; there may be 1 to %d of each, %d together", p->name,
               p->num_inputs, p->num_outputs, RF_MAX_CUSTOM_TENSORS, RF_MAX_BINDINGS);
    RF_REQUIRE(p->attribute_size <= RF_MAX_ATTR, "custom op '%s': %u bytes of attributes are more than %d", p->name,
               p->attribute_size, RF_MAX_ATTR);
    RF_REQUIRE(p->push_size <= RF_MAX_PUSH && p->push_size % 4 == 0,
               "custom op '%s': push_size is %u; it must be a multiple of 4, up to %d", p->name, p->push_size,
               RF_MAX_PUSH);
    RF_REQUIRE(p->spirv && p->spirv_size >= 20 && p->spirv_size % 4 == 0 && p->spirv_size / 4 <= UINT32_MAX,
               "custom op '%s': %zu bytes are no SPIR-V module; pass the whole .spv file", p->name, p->spirv_size);
    return RF_OK;
}

static rf_result make_custom(const rf_custom_op_params *p, rf_custom_op *op)
{
    op->shader = rf_shader_copy(p->name, p->spirv, (uint32_t)(p->spirv_size / 4), 0);
    if (!op->shader) return RF_ERROR_OUT_OF_HOST_MEMORY;
    op->op = (rf_op){ .name = op->shader->name,
                      .attr_size = p->attribute_size,
                      .min_in = p->num_inputs,
                      .max_in = p->num_inputs,
                      .n_out = p->num_outputs,
                      .flags = RF_OP_NO_ONNX,
                      .unbatched_in = p->unbatched_inputs,
                      .unbatched_out = p->unbatched_outputs,
                      .infer = infer_custom,
                      .gradient = p->gradient ? gradient_custom : NULL,
                      .reference = reference_custom,
                      .cost = cost_custom,
                      .retain = retain_custom,
                      .release = release_custom,
                      .families = { &custom_kernels } };
    op->params = *p;
    op->params.name = op->op.name;
    op->params.spirv = NULL;
    return check_module(op);
}

rf_result rf_custom_op_create(const rf_custom_op_params *params, rf_custom_op **out)
{
    RF_REQUIRE(out, "rf_custom_op_create: out is NULL");
    *out = NULL;
    RF_REQUIRE(params, "rf_custom_op_create: params is NULL");
    rf_custom_op *op = NULL;
    rf_result r = check_op_params(params);
    if (r >= 0 && !(op = RF_NEW(rf_custom_op))) r = RF_ERROR_OUT_OF_HOST_MEMORY;
    if (r >= 0) r = make_custom(params, op);
    if (r < 0) {
        if (op) rf_free(op->shader);
        rf_free(op);
        if (params->destroy) params->destroy(params->user);
        return r;
    }
    atomic_init(&op->references, 1);
    *out = op;
    return RF_OK;
}

void rf_custom_op_destroy(rf_custom_op **op)
{
    if (!op || !*op) return;
    release_custom(&(*op)->op);
    *op = NULL;
}

/* ---- use ---- */

rf_result rf_custom_op_call(rf_trace *t, const rf_custom_op *op, const void *attributes, const rf_tensor *inputs,
                            uint32_t num_inputs, rf_tensor *outputs, uint32_t num_outputs)
{
    for (uint32_t i = 0; outputs && i < num_outputs && i < RF_MAX_OUTPUTS; i++) outputs[i] = RF_NO_TENSOR;
    RF_REQUIRE(t, "rf_custom_op_call: the trace is NULL");
    if (rf_trace_status(t) < 0) return rf_trace_status(t);
    if (!op || !inputs || !outputs)
        return rf_trace_fail(t, RF_ERROR_INVALID_ARGUMENT, "rf_custom_op_call: op, inputs or outputs is NULL");
    if (num_inputs != op->params.num_inputs || num_outputs != op->params.num_outputs)
        return rf_trace_fail(t, RF_ERROR_INVALID_ARGUMENT, "custom op '%s' has %u inputs and %u outputs, got %u and %u",
                             op->op.name, op->params.num_inputs, op->params.num_outputs, num_inputs, num_outputs);
    rf_value in[RF_MAX_INPUTS], out[RF_MAX_OUTPUTS] = { 0 };
    for (uint32_t i = 0; i < num_inputs; i++) {
        char argument[160];
        snprintf(argument, sizeof(argument), "custom op '%.100s': input %u", op->op.name, i);
        if (!rf_operand(t, inputs[i], argument, &in[i])) return rf_trace_status(t);
    }
    const rf_result r = rf_graph_add(rf_trace_graph(t), &op->op, attributes, in, num_inputs, out);
    for (uint32_t i = 0; i < num_outputs; i++) outputs[i] = rf_trace_emit(t, r, out[i]);
    return rf_trace_status(t);
}

/* ---- comparing with the reference ---- */

static rf_result compare_output(const rf_op_call *call, uint32_t i, const void *got, const void *want, double rtol,
                                double atol)
{
    const uint64_t count = rf_desc_count(&call->out[i]), size = rf_dtype_size(call->out[i].dtype);
    for (uint64_t k = 0; k < count; k++) {
        if (call->out[i].dtype != RF_F32) {
            if (memcmp((const char *)got + k * size, (const char *)want + k * size, size) == 0) continue;
            return RF_FAIL(RF_ERROR_INTERNAL, "element %" PRIu64 " of output %u is not that of the reference", k, i);
        }
        const double g = (double)((const float *)got)[k], w = (double)((const float *)want)[k];
        if (g == w || (isnan(g) && isnan(w)) || fabs(g - w) <= atol + rtol * fabs(w)) continue;
        return RF_FAIL(RF_ERROR_INTERNAL, "element %" PRIu64 " of output %u is %.9g, the reference gives %.9g", k, i, g,
                       w);
    }
    return RF_OK;
}

/* Devices read and write whole words. */
static size_t padded_bytes(const rf_tensor_desc *desc)
{
    return ((size_t)rf_tensor_bytes(desc) + 15) / 16 * 16;
}

/* Outputs of all devices and of the reference; `in` are copies of the inputs with room for what devices read. */
static rf_result check_on_devices(rf_strategy *strategy, const rf_op_call *call, void *const *in, void *const *want,
                                  void *const *got, double rtol, double atol)
{
    RF_TRY(reference_custom(call, in, want));
    for (uint32_t d = 0; d < rf_strategy_num_local_replicas(strategy); d++) {
        rf_result r = rf_replica_run_kernel(strategy, d, call, &custom_kernel, in, got);
        for (uint32_t i = 0; r >= 0 && i < call->n_out; i++) r = compare_output(call, i, got[i], want[i], rtol, atol);
        if (r < 0) return rf_replica_context(strategy, d, r);
    }
    return RF_OK;
}

rf_result rf_custom_op_check(rf_strategy *strategy, const rf_custom_op *op, const void *attributes,
                             const rf_array *inputs, uint32_t num_inputs, double rtol, double atol)
{
    RF_REQUIRE(strategy && op && inputs, "rf_custom_op_check: strategy, op or inputs is NULL");
    RF_REQUIRE(num_inputs == op->params.num_inputs, "custom op '%s' has %u inputs, got %u", op->op.name,
               op->params.num_inputs, num_inputs);
    RF_REQUIRE(rtol >= 0 && atol >= 0, "rf_custom_op_check: rtol %g and atol %g must not be negative", rtol, atol);
    _Alignas(16) unsigned char attr[RF_MAX_ATTR] = { 0 };
    if (attributes) memcpy(attr, attributes, op->params.attribute_size);
    rf_op_call call = { .op = &op->op, .attr = attr, .n_in = num_inputs, .n_out = op->params.num_outputs };
    for (uint32_t i = 0; i < num_inputs; i++) {
        RF_REQUIRE(inputs[i].data && rf_shape_count(inputs[i].shape) > 0 && rf_dtype_size(inputs[i].dtype) > 0,
                   "rf_custom_op_check: input %u needs a type, a shape without zeros, and data", i);
        call.in[i] = (rf_tensor_desc){ inputs[i].dtype, inputs[i].shape };
    }
    RF_TRY(infer_custom(&call));
    void *in[RF_MAX_INPUTS] = { 0 }, *want[RF_MAX_OUTPUTS] = { 0 }, *got[RF_MAX_OUTPUTS] = { 0 };
    bool room = true;
    for (uint32_t i = 0; i < call.n_in; i++) {
        in[i] = rf_aligned_calloc((size_t)padded_bytes(&call.in[i]));
        room = room && in[i];
        if (in[i]) memcpy(in[i], inputs[i].data, (size_t)rf_tensor_bytes(&call.in[i]));
    }
    for (uint32_t i = 0; i < call.n_out; i++) {
        want[i] = rf_aligned_calloc((size_t)padded_bytes(&call.out[i]));
        got[i] = rf_aligned_calloc((size_t)padded_bytes(&call.out[i]));
        room = room && want[i] && got[i];
    }
    const rf_result r =
        room ? check_on_devices(strategy, &call, in, want, got, rtol, atol) : RF_ERROR_OUT_OF_HOST_MEMORY;
    for (uint32_t i = 0; i < call.n_in; i++) rf_free(in[i]);
    for (uint32_t i = 0; i < call.n_out; i++) {
        rf_free(want[i]);
        rf_free(got[i]);
    }
    return rf_error_context(r, "custom op '%s'", op->op.name);
}
