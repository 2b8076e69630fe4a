/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Connectionist temporal classification (Graves et al. 2006): the logarithm of the probability that a sequence of class
 * probabilities spells labels, over all ways to repeat them and to put blanks between them, and its gradient. The
 * gradient computes the probabilities of all beginnings once more, so that nothing is kept between both.
 */
#include <math.h>

#include "ops/kit.h"
#include "ops/ops.h"
#include "ops/scalar.h"
#include "rf_shaders.h"

/* ---- host side ---- */

enum { LOSS, GRADIENT };
enum { LOG_P, LABELS, LENGTHS }; /* inputs of the loss; the gradient has its own in front */

static uint32_t first_input(const rf_op_call *call)
{
    return call->op->role == GRADIENT ? 1 : 0;
}

typedef struct sizes {
    uint64_t n, steps, classes, labels, states;
    uint32_t first; /* the input of the log-probabilities */
    bool with_lengths;
} sizes;

static sizes sizes_of(const rf_op_call *call)
{
    const uint32_t first = first_input(call);
    const rf_shape *x = &call->in[first + LOG_P].shape, *labels = &call->in[first + LABELS].shape;
    return (sizes){ .n = (uint64_t)x->dim[0],
                    .steps = (uint64_t)x->dim[1],
                    .classes = (uint64_t)x->dim[2],
                    .labels = (uint64_t)labels->dim[1],
                    .states = 2 * (uint64_t)labels->dim[1] + 1,
                    .first = first,
                    .with_lengths = call->n_in > first + LENGTHS };
}

static rf_result check_inputs(const rf_op_call *call, uint32_t first)
{
    const rf_ctc_attr *attr = call->attr;
    const rf_shape *x = &call->in[first + LOG_P].shape, *labels = &call->in[first + LABELS].shape;
    char a[96], b[96];
    RF_TRY(rf_expect_dtype(call, first + LOG_P, RF_F32));
    RF_TRY(rf_expect_dtype(call, first + LABELS, RF_I32));
    RF_TRY(rf_expect_not_empty(call, first + LOG_P));
    RF_TRY(rf_expect_not_empty(call, first + LABELS));
    if (x->rank != 3 || labels->rank != 2 || labels->dim[0] != x->dim[0])
        return RF_FAIL(RF_ERROR_INVALID_ARGUMENT,
                       "%s: predictions %s and labels %s; needs [n, steps, classes] and [n, s]", call->op->name,
                       rf_shape_format(*x, a, sizeof(a)), rf_shape_format(*labels, b, sizeof(b)));
    if (attr->blank < 0 || attr->blank >= x->dim[2])
        return RF_FAIL(RF_ERROR_INVALID_ARGUMENT, "%s: blank is %d, must be a class of predictions %s", call->op->name,
                       (int)attr->blank, rf_shape_format(*x, a, sizeof(a)));
    if (call->n_in == first + LENGTHS) return RF_OK;
    const rf_shape rows = RF_SHAPE(x->dim[0]);
    RF_TRY(rf_expect_dtype(call, first + LENGTHS, RF_I32));
    return rf_expect_shape(call, first + LENGTHS, &rows, "one length for each example");
}

static rf_result ctc_infer(rf_op_call *call)
{
    RF_TRY(check_inputs(call, 0));
    call->out[0] = (rf_tensor_desc){ RF_F32, RF_SHAPE(call->in[LOG_P].shape.dim[0]) };
    return RF_OK;
}

static rf_result ctc_grad_infer(rf_op_call *call)
{
    RF_TRY(check_inputs(call, 1));
    const rf_shape rows = RF_SHAPE(call->in[1].shape.dim[0]);
    RF_TRY(rf_expect_dtype(call, 0, RF_F32));
    RF_TRY(rf_expect_shape(call, 0, &rows, "one gradient for each example"));
    call->out[0] = call->in[1];
    return RF_OK;
}

rf_result rf_emit_ctc_loss(rf_graph *g, rf_value log_probabilities, rf_value labels, rf_value lengths,
                           const rf_ctc_attr *attr, rf_value *out)
{
    const rf_value in[3] = { log_probabilities, labels, lengths };
    return rf_graph_add(g, &rf_op_ctc_loss, attr, in, lengths ? 3 : 2, out);
}

static rf_result ctc_gradient(rf_grad_context *ctx)
{
    rf_value in[4] = { ctx->dout[0] };
    if (ctx->dout[0] == 0 || !ctx->needed[LOG_P]) return RF_OK;
    for (uint32_t i = 0; i < ctx->n_in; i++) in[1 + i] = ctx->in[i];
    return rf_graph_add(ctx->graph, &rf_op_ctc_loss_grad, ctx->attr, in, 1 + ctx->n_in, &ctx->din[LOG_P]);
}

/* ---- reference: in logarithms ---- */

/* log(e^a + e^b) */
static double log_add(double a, double b)
{
    const double larger = rf_larger(a, b), smaller = rf_smaller(a, b);
    if (isinf(larger) || isnan(larger) || smaller == -INFINITY) return larger;
    return larger + log1p(exp(smaller - larger));
}

/* One example: its states, which are the labels with blanks between and around them. */
typedef struct lattice {
    const float *x;
    const int32_t *label;
    uint64_t n, states, classes;
    int32_t blank;
    bool wrong;
    double *alpha, *beta; /* of every step and state */
} lattice;

static lattice lattice_of(const rf_op_call *call, void *const *in, uint64_t row)
{
    const sizes s = sizes_of(call);
    const int32_t length = s.with_lengths ? ((const int32_t *)in[s.first + LENGTHS])[row] : (int32_t)s.steps;
    lattice l = { .x = (const float *)in[s.first + LOG_P] + row * s.steps * s.classes,
                  .label = (const int32_t *)in[s.first + LABELS] + row * s.labels,
                  .classes = s.classes,
                  .blank = ((const rf_ctc_attr *)call->attr)->blank,
                  .wrong = length < 0 || length > (int32_t)s.steps };
    uint64_t count = 0;
    for (; count < s.labels && l.label[count] >= 0; count++)
        l.wrong |= l.label[count] >= (int32_t)s.classes || l.label[count] == l.blank;
    l.n = l.wrong ? 0 : (uint64_t)length;
    l.states = 2 * count + 1;
    return l;
}

static int32_t class_of(const lattice *l, uint64_t s)
{
    return s % 2 == 0 ? l->blank : l->label[s / 2];
}

/* Shaders have no exponents for a log-probability beyond 2^17. */
static double log_emission(const lattice *l, uint64_t t, uint64_t s)
{
    const double x = (double)l->x[t * l->classes + (uint64_t)class_of(l, s)];
    return x > 131072 ? INFINITY : x < -131072 ? -INFINITY : x;
}

static bool skips_blank(const lattice *l, uint64_t s)
{
    return s >= 3 && s % 2 == 1 && class_of(l, s) != class_of(l, s - 2);
}

static void walk_forward(lattice *l)
{
    for (uint64_t t = 0; t < l->n; t++) {
        double *own = l->alpha + t * l->states;
        const double *last = own - l->states;
        for (uint64_t s = 0; s < l->states; s++) {
            double sum = s < 2 ? 0 : -INFINITY;
            if (t > 0) {
                sum = last[s];
                if (s >= 1) sum = log_add(sum, last[s - 1]);
                if (skips_blank(l, s)) sum = log_add(sum, last[s - 2]);
            }
            own[s] = sum + log_emission(l, t, s);
        }
    }
}

static void walk_back(lattice *l)
{
    for (uint64_t t = l->n; t-- > 0;) {
        double *own = l->beta + t * l->states;
        const double *next = own + l->states;
        for (uint64_t s = 0; s < l->states; s++) {
            double sum = s + 2 >= l->states ? 0 : -INFINITY;
            if (t + 1 < l->n) {
                sum = next[s] + log_emission(l, t + 1, s);
                if (s + 1 < l->states) sum = log_add(sum, next[s + 1] + log_emission(l, t + 1, s + 1));
                if (s + 2 < l->states && skips_blank(l, s + 2))
                    sum = log_add(sum, next[s + 2] + log_emission(l, t + 1, s + 2));
            }
            own[s] = sum;
        }
    }
}

/* The logarithm of the labels' probability. */
static double log_total(const lattice *l)
{
    if (l->wrong) return NAN;
    if (l->n == 0) return l->states == 1 ? 0 : -INFINITY;
    const double *end = l->alpha + l->n * l->states;
    return l->states == 1 ? end[-1] : log_add(end[-1], end[-2]);
}

static rf_result ctc_reference(const rf_op_call *call, void *const *in, void *const *out)
{
    const rf_ctc_attr *attr = call->attr;
    const sizes s = sizes_of(call);
    double *alpha = RF_NEW_ARRAY(double, s.steps *s.states);
    if (!alpha) return RF_ERROR_OUT_OF_HOST_MEMORY;
    for (uint64_t row = 0; row < s.n; row++) {
        lattice l = lattice_of(call, in, row);
        l.alpha = alpha;
        walk_forward(&l);
        const double loss = -log_total(&l);
        ((float *)out[0])[row] = attr->zero_infinity && loss == INFINITY ? 0 : (float)loss;
    }
    rf_free(alpha);
    return RF_OK;
}

/* A class has the parts of all its states. */
static void add_parts(const lattice *l, double total, bool zero_infinity, double *sums)
{
    for (uint64_t t = 0; t < l->n; t++)
        for (uint64_t s = 0; s < l->states; s++) {
            const uint64_t at = t * l->states + s;
            const double part =
                total == -INFINITY ? (zero_infinity ? 0 : NAN) : exp(l->alpha[at] + l->beta[at] - total);
            sums[t * l->classes + (uint64_t)class_of(l, s)] += part;
        }
}

static rf_result ctc_grad_reference(const rf_op_call *call, void *const *in, void *const *out)
{
    const rf_ctc_attr *attr = call->attr;
    const sizes s = sizes_of(call);
    const uint64_t each = s.steps * s.classes;
    double *room = RF_NEW_ARRAY(double, 2 * s.steps * s.states + each);
    if (!room) return RF_ERROR_OUT_OF_HOST_MEMORY;
    double *sums = room + 2 * s.steps * s.states;
    for (uint64_t row = 0; row < s.n; row++) {
        lattice l = lattice_of(call, in, row);
        l.alpha = room;
        l.beta = room + s.steps * s.states;
        for (uint64_t i = 0; i < each; i++) sums[i] = l.wrong ? NAN : 0;
        walk_forward(&l);
        walk_back(&l);
        add_parts(&l, log_total(&l), attr->zero_infinity, sums);
        for (uint64_t i = 0; i < each; i++)
            ((float *)out[0])[row * each + i] = (float)(-(double)((const float *)in[0])[row] * sums[i]);
    }
    rf_free(room);
    return RF_OK;
}

static rf_cost ctc_cost(const rf_op_call *call)
{
    const sizes s = sizes_of(call);
    return rf_cost_of(call, (call->op->role == GRADIENT ? 30.0 : 10.0) * (double)(s.n * s.steps * s.states));
}

/* ---- kernels ---- */

enum { WORDS = 2 * sizeof(uint32_t) }; /* bytes of a number with an exponent of its own */

static uint64_t beta_bytes(const sizes *s)
{
    return (2 * s->states + 1) * WORDS;
}

static uint64_t alphas_size(const sizes *s, const rf_device_caps *caps, uint64_t kept)
{
    return rf_align_up(s->n * kept * s->states * WORDS, caps->buffer_alignment);
}

/* Invocations that take turns with the states. */
static uint32_t group_size(const sizes *s, const rf_device_caps *caps)
{
    uint32_t wanted = 32;
    while (wanted < (caps->is_cpu ? 64u : 256u) && wanted < s->states) wanted *= 2;
    return rf_local_size(caps, wanted);
}

/* The loops of a dispatch, but for those of the steps that it walks. */
static uint64_t other_loops(const sizes *s, const rf_device_caps *caps)
{
    return 2 * (rf_div_up(s->labels, group_size(s, caps)) + 1) + 1;
}

static uint64_t step_loops(const sizes *s, const rf_device_caps *caps)
{
    return rf_div_up(s->states, group_size(s, caps)) + 1;
}

/* How many steps one dispatch may walk; 0: not even one. */
static uint64_t most_steps(const sizes *s, const rf_device_caps *caps)
{
    const uint64_t limit = rf_loop_limit(caps), other = other_loops(s, caps);
    return limit <= other ? 0 : rf_min((limit - other) / step_loops(s, caps), s->steps);
}

/* A job of steps first .. last - 1, one workgroup an example. */
static rf_row_job steps_job(const rf_op_call *call, const rf_device_caps *caps, const rf_shader *shader, uint64_t first,
                            uint64_t last)
{
    const rf_ctc_attr *attr = call->attr;
    const sizes s = sizes_of(call);
    const bool loss = call->op->role == LOSS;
    const uint64_t kept = loss ? rf_min(s.steps, 2) : s.steps;
    const rf_push_ctc push = { .steps = (uint32_t)s.steps,
                               .classes = (uint32_t)s.classes,
                               .labels = (uint32_t)s.labels,
                               .blank = (uint32_t)attr->blank,
                               .first = (uint32_t)first,
                               .last = (uint32_t)last,
                               .kept = (uint32_t)kept,
                               .with_lengths = s.with_lengths,
                               .zero_infinity = attr->zero_infinity };
    rf_row_job job = { .shader = shader,
                       .grid = RF_GRID_GROUPS,
                       .local = group_size(&s, caps),
                       .rows = s.n,
                       .threads_per_row = 1,
                       .loops = (last - first) * step_loops(&s, caps) + other_loops(&s, caps) };
    const uint32_t lengths = s.first + (s.with_lengths ? LENGTHS : LABELS);
    RF_ROW_JOB_PUSH(&job, push, rows);
    rf_row_job_tensor(&job, RF_BIND_INPUT, s.first + LOG_P, s.steps * s.classes * sizeof(float));
    rf_row_job_tensor(&job, RF_BIND_INPUT, s.first + LABELS, s.labels * sizeof(int32_t));
    rf_row_job_tensor(&job, RF_BIND_INPUT, lengths, (s.with_lengths ? 1 : s.labels) * sizeof(int32_t));
    rf_row_job_tensor(&job, RF_BIND_WORKSPACE, 0, kept * s.states * WORDS);
    if (loss) {
        rf_row_job_tensor(&job, RF_BIND_OUTPUT, 0, sizeof(float));
    } else {
        rf_row_job_tensor(&job, RF_BIND_WORKSPACE, 0, beta_bytes(&s));
        job.tensors[job.n_tensors - 1].base = alphas_size(&s, caps, s.steps);
    }
    return job;
}

/* A class gets the parts of all its states, at every step. */
static rf_row_job scatter_job(const rf_op_call *call, const rf_device_caps *caps)
{
    const sizes s = sizes_of(call);
    const uint64_t each = s.steps * s.classes;
    rf_row_job job = steps_job(call, caps, &rf_shader_ctc_scatter, 0, s.steps);
    job.grid = RF_GRID_THREADS;
    job.local = rf_local_size(caps, caps->is_cpu ? 64 : RF_FLAT_LOCAL);
    job.threads_per_row = each;
    job.loops = s.labels + 1;
    rf_row_job_tensor(&job, RF_BIND_INPUT, 0, sizeof(float));
    rf_row_job_tensor(&job, RF_BIND_OUTPUT, 0, each * sizeof(float));
    return job;
}

static bool counts_fit(const sizes *s)
{
    return s->steps <= INT32_MAX / s->classes && s->steps <= INT32_MAX / (WORDS * s->states);
}

static double ctc_score(const rf_op_call *call, const rf_device_caps *caps, const void *data)
{
    const sizes s = sizes_of(call);
    (void)data;
    if (!counts_fit(&s) || most_steps(&s, caps) == 0) return RF_SCORE_NONE;
    const rf_row_job job = steps_job(call, caps, &rf_shader_ctc_loss, 0, most_steps(&s, caps));
    return rf_row_job_score(&job, caps);
}

static rf_result ctc_plan(const rf_op_call *call, const rf_device_caps *caps, const void *data, rf_kernel_plan *plan)
{
    const sizes s = sizes_of(call);
    const uint64_t most = most_steps(&s, caps);
    (void)data;
    plan->workspace = alphas_size(&s, caps, rf_min(s.steps, 2));
    for (uint64_t first = 0; first < s.steps; first += most) {
        const rf_row_job job = steps_job(call, caps, &rf_shader_ctc_loss, first, rf_min(first + most, s.steps));
        RF_TRY(rf_row_job_plan(&job, caps, plan));
    }
    return RF_OK;
}

static double ctc_grad_score(const rf_op_call *call, const rf_device_caps *caps, const void *data)
{
    const sizes s = sizes_of(call);
    (void)data;
    if (!counts_fit(&s) || most_steps(&s, caps) == 0) return RF_SCORE_NONE;
    const rf_row_job steps = steps_job(call, caps, &rf_shader_ctc_alphas, 0, most_steps(&s, caps)),
                     scatter = scatter_job(call, caps);
    return rf_row_job_score(&steps, caps) == RF_SCORE_NONE ? RF_SCORE_NONE : rf_row_job_score(&scatter, caps);
}

static rf_result ctc_grad_plan(const rf_op_call *call, const rf_device_caps *caps, const void *data,
                               rf_kernel_plan *plan)
{
    const sizes s = sizes_of(call);
    const uint64_t most = most_steps(&s, caps);
    rf_row_job job;
    (void)data;
    plan->workspace = alphas_size(&s, caps, s.steps) + s.n * beta_bytes(&s);
    for (uint64_t first = 0; first < s.steps; first += most) {
        job = steps_job(call, caps, &rf_shader_ctc_alphas, first, rf_min(first + most, s.steps));
        RF_TRY(rf_row_job_plan(&job, caps, plan));
    }
    for (uint64_t last = s.steps; last > 0; last -= rf_min(most, last)) {
        job = steps_job(call, caps, &rf_shader_ctc_betas, last - rf_min(most, last), last);
        RF_TRY(rf_row_job_plan(&job, caps, plan));
    }
    job = scatter_job(call, caps);
    return rf_row_job_plan(&job, caps, plan);
}

static const rf_kernel kernels[] = { { "groups", ctc_score, ctc_plan } };
static const rf_kernel grad_kernels[] = { { "groups", ctc_grad_score, ctc_grad_plan } };

/* ---- the ops ---- */

static const rf_attr_field fields[] = { RF_ATTR_INT(rf_ctc_attr, blank, 0, INT32_MAX),
                                        RF_ATTR_FLAG(rf_ctc_attr, zero_infinity) };

const rf_op rf_op_ctc_loss = {
    .name = "ctc_loss",
    .role = LOSS,
    RF_ATTRIBUTES(rf_ctc_attr, fields),
    .min_in = 2,
    .max_in = 3,
    .n_out = 1,
    .flags = RF_OP_NO_ONNX,
    .infer = ctc_infer,
    .gradient = ctc_gradient,
    .reference = ctc_reference,
    .cost = ctc_cost,
    RF_KERNELS(kernels),
};

const rf_op rf_op_ctc_loss_grad = {
    .name = "ctc_loss_grad",
    .role = GRADIENT,
    RF_ATTRIBUTES(rf_ctc_attr, fields),
    .min_in = 3,
    .max_in = 4,
    .n_out = 1,
    .flags = RF_OP_NO_ONNX,
    .infer = ctc_grad_infer,
    .reference = ctc_grad_reference,
    .cost = ctc_cost,
    RF_KERNELS(grad_kernels),
};
