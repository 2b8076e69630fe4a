/* SPDX-License-Identifier: Apache-2.0 */
/* The k largest elements of the last dimension, and where they are; all of them in order, which sorts. */
#include "graph/examples.h"
#include "ops/kit.h"
#include "ops/ops.h"
#include "ops/scalar.h"
#include "rf_shaders.h"

#include <math.h>

/* ---- host side ---- */

static rf_result top_k_infer(rf_op_call *call)
{
    const rf_top_k_attr *attr = call->attr;
    char shape[96];
    RF_TRY(rf_expect_rows(call, 0));
    RF_TRY(rf_expect_not_empty(call, 0));
    const uint64_t columns = rf_desc_columns(&call->in[0]);
    const bool all = attr->k == 0 && attr->order != RF_TOP_K_LARGEST;
    if (!all && (attr->k < 1 || (uint64_t)attr->k > columns))
        return RF_FAIL(RF_ERROR_INVALID_ARGUMENT, "top_k: k is %d, must be 1 to %llu for x of shape %s", (int)attr->k,
                       (unsigned long long)columns, rf_shape_format(call->in[0].shape, shape, sizeof(shape)));
    call->out[0] = call->out[1] = call->in[0];
    for (uint32_t i = 0; !all && i < 2; i++) call->out[i].shape.dim[call->in[0].shape.rank - 1] = attr->k;
    call->out[1].dtype = RF_I32;
    return RF_OK;
}

static rf_result emit_ordered(rf_graph *g, rf_value x, rf_top_k_attr attr, rf_value *values, rf_value *indices)
{
    rf_value out[2];
    RF_TRY(rf_graph_add(g, &rf_op_top_k, &attr, &x, 1, out));
    *values = out[0];
    *indices = out[1];
    return RF_OK;
}

rf_result rf_emit_top_k(rf_graph *g, rf_value x, int32_t k, rf_value *values, rf_value *indices)
{
    return emit_ordered(g, x, (rf_top_k_attr){ .k = k }, values, indices);
}

rf_result rf_emit_sort(rf_graph *g, rf_value x, bool descending, rf_value *values, rf_value *indices)
{
    return emit_ordered(g, x, (rf_top_k_attr){ .order = descending ? RF_TOP_K_DESCENDING : RF_TOP_K_ASCENDING }, values,
                        indices);
}

/* Back to where the values were taken from, which are as many different places. */
static rf_result top_k_gradient(rf_grad_context *ctx)
{
    const int32_t last = rf_graph_desc(ctx->graph, ctx->in[0])->shape.rank - 1;
    const rf_gather_attr rows = { .axis = last, .batch_dims = last };
    const rf_value in[3] = { ctx->dout[0], ctx->out[1], ctx->in[0] };
    if (ctx->dout[0] == 0 || !ctx->needed[0]) return RF_OK;
    return rf_graph_add(ctx->graph, &rf_op_gather_grad, &rows, in, 3, &ctx->din[0]);
}

static bool comes_before(uint32_t order, double a, double b)
{
    if (order == RF_TOP_K_LARGEST) return rf_exceeds(a, b);
    if (isnan(a) || isnan(b)) return isnan(b) && !isnan(a);
    return order == RF_TOP_K_ASCENDING ? a < b : a > b;
}

static rf_result top_k_reference(const rf_op_call *call, void *const *in, void *const *out)
{
    const rf_top_k_attr *attr = call->attr;
    const uint64_t rows = rf_desc_rows(&call->in[0]), columns = rf_desc_columns(&call->in[0]);
    const uint64_t k = rf_desc_columns(&call->out[0]);
    bool *taken = RF_NEW_ARRAY(bool, columns);
    if (!taken) return RF_ERROR_OUT_OF_HOST_MEMORY;
    for (uint64_t r = 0; r < rows; r++) {
        const float *x = (const float *)in[0] + r * columns;
        for (uint64_t c = 0; c < columns; c++) taken[c] = false;
        for (uint64_t i = 0; i < k; i++) {
            uint64_t best = columns;
            for (uint64_t c = 0; c < columns; c++)
                if (!taken[c] && (best == columns || comes_before(attr->order, (double)x[c], (double)x[best])))
                    best = c;
            taken[best] = true;
            ((float *)out[0])[r * k + i] = x[best];
            ((int32_t *)out[1])[r * k + i] = (int32_t)best;
        }
    }
    rf_free(taken);
    return RF_OK;
}

static rf_cost top_k_cost(const rf_op_call *call)
{
    return rf_cost_of(call, (double)rf_desc_count(&call->in[0]));
}

/* ---- what both kernels are made of ---- */

static uint64_t power_of_two(uint64_t least)
{
    uint64_t power = 1;
    while (power < least) power *= 2;
    return power;
}

enum { CANDIDATE = 2 * sizeof(uint32_t) };

/* A word of the push constants. */
#define WORD(member) (offsetof(rf_push_top_k, member) / sizeof(uint32_t))

typedef struct sizes {
    uint64_t rows, columns, k;
    uint32_t order;
} sizes;

static sizes sizes_of(const rf_op_call *call)
{
    const rf_top_k_attr *attr = call->attr;
    return (sizes){ .rows = rf_desc_rows(&call->in[0]),
                    .columns = rf_desc_columns(&call->in[0]),
                    .k = rf_desc_columns(&call->out[0]),
                    .order = attr->order };
}

static rf_row_job make_job(const sizes *n, const rf_device_caps *caps, const rf_shader *shader, uint64_t threads)
{
    rf_row_job job = { .shader = shader,
                       .local = rf_local_size(caps, caps->is_cpu ? 16 : 128),
                       .rows = n->rows,
                       .threads_per_row = threads,
                       .loops = RF_NO_LOOPS,
                       .n_push = sizeof(rf_push_top_k) / sizeof(uint32_t) };
    job.push[WORD(threads)] = (uint32_t)threads;
    job.push[WORD(k)] = (uint32_t)n->k;
    job.push[WORD(turned)] = n->order == RF_TOP_K_ASCENDING ? UINT32_MAX : 0;
    job.push[WORD(nan)] = n->order == RF_TOP_K_LARGEST ? UINT32_MAX : 1;
    return job;
}

/* Candidates of all rows, from `base` bytes of the workspace on. */
static void bind_candidates(rf_row_job *job, uint64_t per_row, uint64_t base, bool write)
{
    rf_row_job_tensor(job, RF_BIND_WORKSPACE, 0, per_row * CANDIDATE);
    job->tensors[job->n_tensors - 1].base = base;
    job->tensors[job->n_tensors - 1].write = write;
}

/* From candidates, of which each row has so many. */
static rf_row_job finish_job(const sizes *n, const rf_device_caps *caps, uint64_t per_row, uint64_t base)
{
    rf_row_job job = make_job(n, caps, &rf_shader_top_k_finish, n->k);
    rf_row_job_tensor(&job, RF_BIND_INPUT, 0, n->columns * sizeof(float));
    bind_candidates(&job, per_row, base, false);
    rf_row_job_tensor(&job, RF_BIND_OUTPUT, 0, n->k * sizeof(float));
    rf_row_job_tensor(&job, RF_BIND_OUTPUT, 1, n->k * sizeof(int32_t));
    job.push[WORD(columns)] = (uint32_t)n->columns;
    job.push[WORD(row_length)] = (uint32_t)per_row;
    return job;
}

static bool job_fits(const rf_row_job *job, const rf_device_caps *caps)
{
    return job->loops <= rf_loop_limit(caps) && rf_row_job_chunk(job, caps) > 0;
}

/* ---- insertion: blocks of rows, then what is left of them, until a row is one block ---- */

/* A stage reads `columns` of each row in `blocks` of `len`. */
typedef struct stage {
    uint64_t columns, len, blocks;
} stage;

/* The most that an invocation may read: in the worst case each element moves all that were kept. */
static uint64_t longest_block(const sizes *n, const rf_device_caps *caps)
{
    const uint64_t limit = rf_loop_limit(caps), k = n->k;
    return limit > k + 4 ? (limit - k - 4) / (k + 1) : 0;
}

/* Blocks enough to keep a device busy, but so long that few candidates are left. */
static stage first_stage(const sizes *n, const rf_device_caps *caps)
{
    const uint64_t busy = rf_div_up(caps->is_cpu ? 32 : 8192, n->rows), most = longest_block(n, caps);
    uint64_t len = rf_div_up(n->columns, busy);
    if (len < 8 * n->k) len = 8 * n->k;
    if (len > most) len = most;
    if (len > n->columns) len = n->columns;
    return (stage){ n->columns, len, len ? rf_div_up(n->columns, len) : 0 };
}

static stage next_stage(const sizes *n, const rf_device_caps *caps, const stage *before)
{
    const uint64_t columns = before->blocks * n->k, len = rf_min(longest_block(n, caps), columns);
    return (stage){ columns, len, rf_div_up(columns, len) };
}

static rf_row_job insertion_job(const sizes *n, const rf_device_caps *caps, const stage *s, bool first, uint64_t from,
                                uint64_t to)
{
    rf_row_job job = make_job(n, caps, first ? &rf_shader_top_k_first : &rf_shader_top_k_merge, s->blocks);
    if (first)
        rf_row_job_tensor(&job, RF_BIND_INPUT, 0, n->columns * sizeof(float));
    else
        bind_candidates(&job, s->columns, from, false);
    bind_candidates(&job, s->blocks * n->k, to, true);
    job.loops = s->len * (n->k + 1) + n->k + 4;
    job.push[WORD(columns)] = (uint32_t)s->columns;
    job.push[WORD(row_length)] = (uint32_t)(s->blocks * n->k);
    job.push[WORD(len)] = (uint32_t)s->len;
    return job;
}

/* Whether elements of random rows are moved less often than sorting exchanges them. */
static bool insertion_pays(const sizes *n)
{
    const double k = (double)n->k, columns = (double)n->columns, levels = log2((double)power_of_two(n->k));
    const double moves = columns + k * k / 4 + k * k / 2 * log(columns / k + 1);
    return k <= 16 || moves < (double)power_of_two(n->columns) / 2 * (levels * (levels + 1) / 2 + levels + 1);
}

/* Each stage has to leave less than half of what it reads; what it leaves begins after what it reads, by turns. */
static double insertion_score(const rf_op_call *call, const rf_device_caps *caps, const void *data)
{
    const sizes n = sizes_of(call);
    if (longest_block(&n, caps) < rf_min(2 * n.k + 1, n.columns)) return RF_SCORE_NONE;
    const stage first = first_stage(&n, caps), second = next_stage(&n, caps, &first);
    const rf_row_job job = insertion_job(&n, caps, &first, true, 0, 0),
                     merge = insertion_job(&n, caps, &second, false, 0, 0),
                     finish = finish_job(&n, caps, first.blocks * n.k, 0);
    if (!job_fits(&job, caps) || !job_fits(&merge, caps) || !job_fits(&finish, caps)) return RF_SCORE_NONE;
    return caps->is_cpu && insertion_pays(&n) ? RF_SCORE_SHAPE : RF_SCORE_RESERVE;
}

static rf_result insertion_plan(const rf_op_call *call, const rf_device_caps *caps, const void *data,
                                rf_kernel_plan *plan)
{
    const sizes n = sizes_of(call);
    stage s = first_stage(&n, caps);
    const uint64_t half = rf_align_up(n.rows * s.blocks * n.k * CANDIDATE, caps->buffer_alignment);
    uint64_t to = 0;
    plan->workspace = s.blocks > 1 ? 2 * half : half;
    rf_row_job job = insertion_job(&n, caps, &s, true, 0, to);
    RF_TRY(rf_row_job_plan(&job, caps, plan));
    while (s.blocks > 1) {
        s = next_stage(&n, caps, &s);
        job = insertion_job(&n, caps, &s, false, to, half - to);
        to = half - to;
        RF_TRY(rf_row_job_plan(&job, caps, plan));
    }
    const rf_row_job finish = finish_job(&n, caps, n.k, to);
    return rf_row_job_plan(&finish, caps, plan);
}

/* ---- sorting ---- */

static rf_row_job load_job(const sizes *n, const rf_device_caps *caps, uint64_t length)
{
    rf_row_job job = make_job(n, caps, &rf_shader_top_k_load, length);
    rf_row_job_tensor(&job, RF_BIND_INPUT, 0, n->columns * sizeof(float));
    bind_candidates(&job, length, 0, true);
    job.push[WORD(columns)] = (uint32_t)n->columns;
    job.push[WORD(row_length)] = (uint32_t)length;
    return job;
}

/* Something with candidates, by so many invocations a row. */
static rf_row_job sorting_job(const sizes *n, const rf_device_caps *caps, const rf_shader *shader, uint64_t length,
                              uint64_t threads)
{
    rf_row_job job = make_job(n, caps, shader, threads);
    bind_candidates(&job, length, 0, true);
    job.push[WORD(row_length)] = (uint32_t)length;
    return job;
}

static double sorting_score(const rf_op_call *call, const rf_device_caps *caps, const void *data)
{
    const sizes n = sizes_of(call);
    const uint64_t length = power_of_two(n.columns);
    if (length > 1u << 28) return RF_SCORE_NONE;
    const rf_row_job load = load_job(&n, caps, length), finish = finish_job(&n, caps, length, 0);
    if (!job_fits(&load, caps) || !job_fits(&finish, caps)) return RF_SCORE_NONE;
    return caps->is_cpu && insertion_pays(&n) ? RF_SCORE_RESERVE : RF_SCORE_SHAPE;
}

/* Iterations of an invocation that takes all steps within a chunk, of sizes up to `last`. */
static uint64_t chunk_loops(uint64_t chunk, uint64_t size, uint64_t last)
{
    uint64_t loops = 1;
    for (; size <= last; size *= 2) {
        loops++;
        for (uint64_t stride = rf_min(size, chunk) / 2; stride > 0; stride /= 2) loops += chunk / 2 + 1;
    }
    return loops;
}

/*
 * Candidates that one invocation sorts by itself, so that there are fewer dispatches and candidates stay in the
 * processor's cache: on software devices, if enough of them work side by side. 1: none does.
 */
static uint64_t chunk_of(const sizes *n, const rf_device_caps *caps, uint64_t active, uint64_t block)
{
    uint64_t chunk = caps->is_cpu ? rf_min(256, block) : 1;
    while (chunk > 1 && (n->rows * active / chunk < 64 || chunk_loops(chunk, 2, chunk) > rf_loop_limit(caps)))
        chunk /= 2;
    return chunk < 4 ? 1 : chunk;
}

typedef struct network {
    rf_row_job step, chunks; /* one step; those within chunks of `chunk` candidates */
    uint64_t chunk, block;
} network;

static network make_network(const sizes *n, const rf_device_caps *caps, uint64_t length, uint64_t active,
                            uint64_t block, uint64_t spacing)
{
    const uint64_t chunk = chunk_of(n, caps, active, block);
    network net = { sorting_job(n, caps, &rf_shader_top_k_step, length, active / 2),
                    sorting_job(n, caps, &rf_shader_top_k_chunk, length, active / chunk), chunk, block };
    rf_row_job *jobs[] = { &net.step, &net.chunks };
    for (int i = 0; i < 2; i++) {
        jobs[i]->push[WORD(block)] = (uint32_t)block;
        jobs[i]->push[WORD(spacing)] = (uint32_t)spacing;
    }
    net.chunks.push[WORD(len)] = (uint32_t)chunk;
    return net;
}

static rf_result plan_chunks(network *net, const rf_device_caps *caps, uint64_t size, uint64_t last,
                             rf_kernel_plan *plan)
{
    net->chunks.push[WORD(size)] = (uint32_t)size;
    net->chunks.push[WORD(last_size)] = (uint32_t)last;
    net->chunks.loops = chunk_loops(net->chunk, size, last);
    return rf_row_job_plan(&net->chunks, caps, plan);
}

/* Sorts each block, or from `size` = block on merges its two halves, which are sorted in opposite directions or came
 * out of KEEP. */
static rf_result plan_steps(network *net, const rf_device_caps *caps, uint64_t size, rf_kernel_plan *plan)
{
    if (size < net->chunk) {
        RF_TRY(plan_chunks(net, caps, size, net->chunk, plan));
        size = 2 * net->chunk;
    }
    for (; size <= net->block; size *= 2) {
        uint64_t stride = size / 2;
        for (; stride > net->chunk / 2; stride /= 2) {
            net->step.push[WORD(size)] = (uint32_t)size;
            net->step.push[WORD(stride)] = (uint32_t)stride;
            RF_TRY(rf_row_job_plan(&net->step, caps, plan));
        }
        if (stride > 0) RF_TRY(plan_chunks(net, caps, size, size, plan));
    }
    return RF_OK;
}

static rf_result sorting_plan(const rf_op_call *call, const rf_device_caps *caps, const void *data,
                              rf_kernel_plan *plan)
{
    const sizes n = sizes_of(call);
    const uint64_t length = power_of_two(n.columns), block = power_of_two(n.k);
    plan->workspace = n.rows * length * CANDIDATE;
    const rf_row_job load = load_job(&n, caps, length), finish = finish_job(&n, caps, length, 0);
    RF_TRY(rf_row_job_plan(&load, caps, plan));
    uint64_t active = length, size = 2; /* how many of each row take part */
    for (uint64_t spacing = block;; spacing *= 2) {
        network net = make_network(&n, caps, length, active, block, spacing);
        RF_TRY(plan_steps(&net, caps, size, plan));
        if (active == block) break;
        rf_row_job keep = sorting_job(&n, caps, &rf_shader_top_k_keep, length, active / 2);
        keep.push[WORD(block)] = (uint32_t)block;
        keep.push[WORD(spacing)] = (uint32_t)spacing;
        RF_TRY(rf_row_job_plan(&keep, caps, plan));
        active /= 2;
        size = block;
    }
    return rf_row_job_plan(&finish, caps, plan);
}

static const rf_kernel top_k_kernels[] = {
    { "insertion", insertion_score, insertion_plan },
    { "sorting", sorting_score, sorting_plan },
};

/* ---- the op ---- */

/* As files have it. */
static const char *order_name(uint32_t order)
{
    static const char *const names[] = { "largest", "ascending", "descending" };
    return order < RF_LENGTH(names) ? names[order] : "?";
}

static const rf_attr_field fields[] = { RF_ATTR_INT(rf_top_k_attr, k, 0, INT32_MAX),
                                        RF_ATTR_NAMED(rf_top_k_attr, order, RF_TOP_K_DESCENDING, order_name) };

/* Sorting along the batch puts its examples into an order that depends on the split. */
static void top_k_examples(const void *attr, const rf_examples *const *in, uint32_t n_in, uint32_t i, rf_examples *out)
{
    const int32_t last = out->shape.rank - 1;
    (void)attr;
    (void)in;
    (void)n_in;
    (void)i;
    if (out->dim[last].outer != 0) rf_examples_set_dim(out, last, RF_EXAMPLES_DIM_UNKNOWN);
}

const rf_op rf_op_top_k = {
    .name = "top_k",
    .examples = top_k_examples,
    RF_ATTRIBUTES(rf_top_k_attr, fields),
    .min_in = 1,
    .max_in = 1,
    .n_out = 2,
    .flags = RF_OP_LAST_AXIS,
    .infer = top_k_infer,
    .gradient = top_k_gradient,
    .reference = top_k_reference,
    .cost = top_k_cost,
    RF_KERNELS(top_k_kernels),
};
