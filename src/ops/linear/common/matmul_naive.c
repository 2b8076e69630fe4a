/* SPDX-License-Identifier: Apache-2.0 */
/* The kernel that runs any product on any device, in chunks where a matrix is larger than a descriptor may span. */
#include "ops/linear/common/matmul.h"
#include "rf_shaders.h"

/* Ranges of m, n and k that one dispatch may cover. */
typedef struct steps {
    uint64_t m, n, k;
} steps;

static bool steps_make(const rf_matmul_geometry *g, const rf_device_caps *caps, steps *out)
{
    if (caps->max_storage_range <= caps->buffer_alignment) return false;
    /* Elements; less one alignment unit, which a chunk may reach back. */
    const uint64_t limit = rf_min(caps->max_storage_range - caps->buffer_alignment, INT32_MAX) / sizeof(float);
    const uint64_t m = (uint64_t)g->m, n = (uint64_t)g->n, k = (uint64_t)g->k;
    *out = (steps){ rf_min(m, limit / n), n, k };
    if (g->ta)
        out->k = rf_min(out->k, limit / m);
    else
        out->m = rf_min(out->m, limit / k);
    if (g->tb)
        out->n = rf_min(out->n, limit / k);
    else
        out->k = rf_min(out->k, limit / n);
    out->k = rf_min(out->k, rf_loop_limit(caps) - 1);
    return out->m > 0 && out->n > 0 && out->k > 0 && n <= limit;
}

/* On a GPU an invocation waits for its summands one after the other: 48 to 107 ns each on an NVIDIA H100. */
#define GPU_START 4e-6
#define GPU_SUMMAND 5.5e-8

double rf_matmul_naive_score(const rf_op_call *call, const rf_device_caps *caps, const void *data)
{
    const rf_matmul_geometry g = rf_matmul_geometry_of(call);
    steps s;
    if (!steps_make(&g, caps, &s)) return RF_SCORE_NONE;
    const double waits = caps->is_cpu ? 0 : GPU_START + GPU_SUMMAND * (double)g.k;
    const double work = rf_linear_naive_seconds(call, caps);
    return rf_score_of_time(waits > work ? waits : work);
}

/* One dispatch of `total` elements of c, of `summands` products each. */
static rf_dispatch *naive_dispatch_add(rf_kernel_plan *plan, const rf_matmul_geometry *g, const rf_device_caps *caps,
                                       uint64_t total, uint64_t summands)
{
    rf_dispatch *d = rf_kernel_plan_add(plan, &rf_shader_matmul_naive, summands + 1);
    if (!d) return NULL;
    const uint32_t local = rf_local_size(caps, 128);
    rf_dispatch_spec(d, local);
    rf_dispatch_spec(d, g->activation);
    rf_dispatch_spec(d, g->bias);
    rf_dispatch_items(d, caps, total);
    return d;
}

static rf_push_matmul_naive push_make(const rf_matmul_geometry *g)
{
    rf_push_matmul_naive p = { .m = (int32_t)g->m,
                               .n = (int32_t)g->n,
                               .k = (int32_t)g->k,
                               .a_row = (int32_t)(g->ta ? 1 : g->k),
                               .a_k = (int32_t)(g->ta ? g->m : 1),
                               .b_k = (int32_t)(g->tb ? 1 : g->n),
                               .b_column = (int32_t)(g->tb ? g->k : 1),
                               .c_row = (int32_t)g->n,
                               .last = 1,
                               .dim = { 1, 1, 1, 1 } };
    return p;
}

/* Matrices bound whole; as many summands at a time as an invocation may loop over. */
static rf_result plan_whole(const rf_matmul_geometry *g, const rf_device_caps *caps, rf_kernel_plan *plan)
{
    const uint64_t k = (uint64_t)g->k, step = rf_min(k, rf_loop_limit(caps) - 1);
    rf_push_matmul_naive p = push_make(g);
    p.total = (int32_t)(g->batch * p.m * g->n);
    for (int i = 0; i < 4; i++) {
        p.dim[i] = (int32_t)g->dim[i];
        p.a_stride[i] = (int32_t)g->a_stride[i];
        p.b_stride[i] = (int32_t)g->b_stride[i];
    }
    for (uint64_t at = 0; at < k; at += step) {
        const uint64_t count = rf_min(step, k - at);
        p.k = (int32_t)count;
        p.a_base = (int32_t)at * p.a_k;
        p.b_base = (int32_t)at * p.b_k;
        p.accumulate = at > 0;
        p.last = at + count == k;
        rf_dispatch *d = naive_dispatch_add(plan, g, caps, (uint64_t)p.total, count);
        if (!d) return RF_ERROR_OUT_OF_HOST_MEMORY;
        rf_bind_whole(d, RF_BIND_INPUT, 0);
        rf_bind_whole(d, RF_BIND_INPUT, 1);
        rf_bind_whole(d, RF_BIND_INPUT, g->bias ? 2 : 1);
        rf_bind_whole(d, RF_BIND_OUTPUT, 0);
        rf_dispatch_push(d, &p, sizeof(p));
    }
    return RF_OK;
}

/* Rows m0 .., columns n0 .., summands k0 .. of batch item z. */
static rf_result plan_chunk(const rf_matmul_geometry *g, const rf_device_caps *caps, rf_kernel_plan *plan, uint64_t z,
                            steps from, steps count)
{
    const uint64_t m = (uint64_t)g->m, n = (uint64_t)g->n, k = (uint64_t)g->k;
    int64_t za, zb;
    rf_matmul_batch_offset(g, (int64_t)z, &za, &zb);
    const uint64_t a = (uint64_t)za + (g->ta ? from.k * m : from.m * k), a_count = g->ta ? count.k * m : count.m * k;
    const uint64_t b = (uint64_t)zb + (g->tb ? from.n * k : from.k * n), b_count = g->tb ? count.n * k : count.k * n;
    const uint64_t c = (z * m + from.m) * n;
    rf_push_matmul_naive p = push_make(g);
    p.m = (int32_t)count.m;
    p.n = (int32_t)count.n;
    p.k = (int32_t)count.k;
    p.total = (int32_t)(count.m * count.n);
    p.a_base = (int32_t)rf_element_base(caps, a) + (int32_t)(g->ta ? from.m : from.k);
    p.b_base = (int32_t)rf_element_base(caps, b) + (int32_t)(g->tb ? from.k : from.n);
    p.c_base = (int32_t)rf_element_base(caps, c) + (int32_t)from.n;
    p.bias_base = (int32_t)from.n;
    p.accumulate = from.k > 0;
    p.last = from.k + count.k == k;
    rf_dispatch *d = naive_dispatch_add(plan, g, caps, (uint64_t)p.total, count.k);
    if (!d) return RF_ERROR_OUT_OF_HOST_MEMORY;
    rf_bind_elements(d, caps, RF_BIND_INPUT, 0, a, a_count);
    rf_bind_elements(d, caps, RF_BIND_INPUT, 1, b, b_count);
    if (g->bias)
        rf_bind_whole(d, RF_BIND_INPUT, 2);
    else
        rf_bind_elements(d, caps, RF_BIND_INPUT, 1, b, b_count);
    rf_bind_elements(d, caps, RF_BIND_OUTPUT, 0, c, count.m * n);
    rf_dispatch_push(d, &p, sizeof(p));
    return RF_OK;
}

static rf_result plan_chunks(rf_matmul_geometry g, const rf_device_caps *caps, rf_kernel_plan *out)
{
    steps step, at, end = { (uint64_t)g.m, (uint64_t)g.n, (uint64_t)g.k };
    if (!steps_make(&g, caps, &step))
        return RF_FAIL(RF_ERROR_UNSUPPORTED, "matmul: a row does not fit the device's largest buffer range");
    for (uint64_t z = 0; z < (uint64_t)g.batch; z++)
        for (at.m = 0; at.m < end.m; at.m += step.m)
            for (at.n = 0; at.n < end.n; at.n += step.n)
                for (at.k = 0; at.k < end.k; at.k += step.k)
                    RF_TRY(plan_chunk(&g, caps, out, z, at,
                                      (steps){ rf_min(step.m, end.m - at.m), rf_min(step.n, end.n - at.n),
                                               rf_min(step.k, end.k - at.k) }));
    return RF_OK;
}

rf_result rf_matmul_naive_plan(const rf_op_call *call, const rf_device_caps *caps, const void *data,
                               rf_kernel_plan *out)
{
    const rf_matmul_geometry g = rf_matmul_geometry_of(call);
    RF_TRY(rf_fits_storage(call, caps) ? plan_whole(&g, caps, out) : plan_chunks(g, caps, out));
    return g.bias_gradient ? rf_linear_append_sums(call, caps, out) : RF_OK;
}
