/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Walks the op table: every eligible kernel of every op at every case on every Vulkan device found, against the op's
 * reference, between guard zones, twice for determinism, in place where the op allows it; then gradients (gradient.c).
 *
 *   test_ops [--quick] [--sample N] [--clamp] [--split] [--special] [--turns] [--validation] [--all-shaders]
 *            [--share I/N] [--verbose]
 *            [--op NAME] [--case NAME] [--kernel NAME] [--device NAME] [--type f16|bf16]
 * Names match when they contain NAME. --quick leaves out large cases, --sample takes N cases of each op, spread over
 * its table. --share takes every Nth op from number I on, for N processes side by side. --split plays devices that
 * cannot bind a case's largest tensor at once, and tests no gradients.
 * --special puts NaN, infinities, zeros of both signs and denormals among the numbers (special.c), and tests no
 * gradients.
 * --turns bounds what ops with many kernels cost: a case runs the kernel that the library would choose and every third
 * of the others, another third in each next case; with special numbers each of them gets one filling. Large cases run
 * the chosen kernel alone, and those that are there for benchmarks are left out.
 *
 * --type stores the floats of each case in 16 bits, of every second case those of the highest rank alone; ops that do
 * not take such types are left out, and so are gradients.
 *
 * One line per op; the exit status is 1 when anything failed.
 */
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "../support/clock.h"
#include "base/half.h"
#include "exec/internal.h"
#include "walk.h"

#define MANY_KERNELS 3      /* of --turns: all of these or fewer run every case */
#define SMALLEST_RANGE 4096 /* of --split: kernels take tensors apart in units of up to some hundred bytes */

void walk_fail(walk *w, walk_counts *counts, const rf_op *op, const char *case_name, const char *kernel,
               const char *device, const char *format, ...)
{
    va_list args;
    printf("FAIL %s/%s%s%s%s%s: ", op->name, case_name, kernel ? "/" : "", kernel ? kernel : "", device ? " on " : "",
           device ? device : "");
    va_start(args, format);
    vprintf(format, args);
    va_end(args);
    printf("\n");
    counts->failures++;
    w->failures++;
}

/* ---- comparison ---- */

double walk_element(rf_dtype dtype, const void *bytes, int64_t i)
{
    switch (dtype) {
    case RF_F32: return (double)((const float *)bytes)[i];
    case RF_F16: return (double)rf_f16_to_f32(((const uint16_t *)bytes)[i]);
    case RF_BF16: return (double)rf_bf16_to_f32(((const uint16_t *)bytes)[i]);
    case RF_I32: return ((const int32_t *)bytes)[i];
    case RF_U8: return ((const uint8_t *)bytes)[i];
    case RF_I64: /* no operation takes it */
    case RF_DTYPE_INVALID:
    case RF_DTYPE_COUNT: break;
    }
    return NAN;
}

static bool close_enough(double got, double expected, double rtol, double atol)
{
    if (isnan(got) || isnan(expected)) return isnan(got) && isnan(expected);
    if (got == expected) return true;  /* infinities too */
    if (isinf(expected)) return false; /* whose bound would be infinite */
    return fabs(got - expected) <= atol + rtol * fabs(expected);
}

int64_t walk_first_bad(const rf_tensor_desc *desc, const void *got, const void *expected, double rtol, double atol)
{
    const int64_t count = rf_shape_count(desc->shape);
    if (rtol == 0 && atol == 0) {
        const size_t size = rf_dtype_size(desc->dtype);
        for (int64_t i = 0; i < count; i++)
            if (memcmp((const char *)got + (size_t)i * size, (const char *)expected + (size_t)i * size, size) != 0)
                return i;
        return -1;
    }
    for (int64_t i = 0; i < count; i++)
        if (!close_enough(walk_element(desc->dtype, got, i), walk_element(desc->dtype, expected, i), rtol, atol))
            return i;
    return -1;
}

/* ---- one case ---- */

/* The results that kernels are held against: the reference's outputs, and mutated inputs after it. */
typedef struct case_run {
    walk *w;
    walk_counts *counts;
    const rf_op *op;
    const rf_op_case *c;
    rf_case_data start, expected, got, again;
    rf_case_data flushed; /* of special numbers: what the reference makes of inputs without denormals */
    uint32_t round;       /* of special numbers: which filling */
    uint32_t number;      /* of the case in the op's table */
} case_run;

/* A part of the name, or behind '=' all of it, as `ringfire-bench ops --op` takes them. */
static bool matches(const char *filter, const char *name)
{
    return !filter || (filter[0] == '=' ? strcmp(name, filter + 1) == 0 : strstr(name, filter) != NULL);
}

static void copy_inputs(const rf_case_data *from, rf_case_data *to)
{
    for (uint32_t i = 0; i < from->call.n_in; i++)
        memcpy(to->in[i], from->in[i], (size_t)rf_tensor_bytes(&from->call.in[i]));
}

/* Tolerance for a kernel that rounds, beside that of the case: four times the error that numbers near 1 should have. */
static double rounding_of(const case_run *run, const rf_kernel *kernel, double *sum)
{
    const double unit = run->start.call.in[0].dtype == RF_F16 ? 0x1p-11 : 0x1p-8;
    *sum = kernel->cooperative ? 2 * unit * sqrt(run->c->rounded) : 0;
    return kernel->cooperative && run->c->rounded > 0 ? 2 * unit : 0;
}

static bool compare(case_run *run, const rf_kernel *kernel, const walk_device *d, const char *variant)
{
    const rf_op_call *call = &run->start.call;
    double more;
    const double relative = rounding_of(run, kernel, &more);
    for (uint32_t k = 0; k < call->n_out + call->n_in; k++) {
        const bool is_out = k < call->n_out;
        const uint32_t i = is_out ? k : k - call->n_out;
        if (!is_out && !(call->op->mutates >> i & 1)) continue;
        const rf_tensor_desc *desc = is_out ? &call->out[i] : &call->in[i];
        const void *got = is_out ? run->got.out[i] : run->got.in[i];
        const void *expected = is_out ? run->expected.out[i] : run->expected.in[i];
        const int64_t bad =
            run->w->options.special
                ? walk_first_special_bad(&run->start, run->c, kernel, desc, is_out ? i : UINT32_MAX, got, expected,
                                         is_out ? run->flushed.out[i] : run->flushed.in[i])
                : walk_first_bad(desc, got, expected, run->c->rtol + relative, run->c->atol + more);
        if (bad < 0) continue;
        walk_fail(run->w, run->counts, run->op, run->c->name, kernel->name, d->name,
                  "%s%s %u element %lld: got %.9g, expected %.9g", variant, is_out ? "output" : "input", i,
                  (long long)bad, walk_element(desc->dtype, got, bad), walk_element(desc->dtype, expected, bad));
        return false;
    }
    return true;
}

static bool same_bits(case_run *run, const rf_kernel *kernel, const walk_device *d)
{
    const rf_op_call *call = &run->start.call;
    for (uint32_t i = 0; i < call->n_out; i++) {
        const int64_t bad = walk_first_bad(&call->out[i], run->again.out[i], run->got.out[i], 0, 0);
        if (bad < 0) continue;
        walk_fail(run->w, run->counts, run->op, run->c->name, kernel->name, d->name,
                  "output %u element %lld differs between two runs: %.9g, then %.9g", i, (long long)bad,
                  walk_element(call->out[i].dtype, run->got.out[i], bad),
                  walk_element(call->out[i].dtype, run->again.out[i], bad));
        return false;
    }
    for (uint32_t i = 0; i < call->n_in; i++)
        if ((call->op->mutates >> i & 1) && walk_first_bad(&call->in[i], run->again.in[i], run->got.in[i], 0, 0) >= 0) {
            walk_fail(run->w, run->counts, run->op, run->c->name, kernel->name, d->name,
                      "mutated input %u differs between two runs", i);
            return false;
        }
    return true;
}

static bool execute(case_run *run, const rf_kernel *kernel, const walk_device *d, rf_case_data *data, uint32_t inplace)
{
    copy_inputs(&run->start, data);
    rf_kernel_run kernel_run = {
        .call = &data->call, .kernel = kernel, .in = data->in, .out = data->out, .guard = true, .inplace_input = inplace
    };
    run->counts->runs++;
    if (run->w->options.verbose) {
        printf("  %s/%s/%s on %s%s\n", run->op->name, run->c->name, kernel->name, d->name, inplace ? " in place" : "");
        fflush(stdout);
    }
    if (rf_kernel_execute(d->exec, &kernel_run) >= 0) return true;
    walk_fail(run->w, run->counts, run->op, run->c->name, kernel->name, d->name, "%s", rf_error_message());
    return false;
}

static void run_kernel(case_run *run, const rf_kernel *kernel, const walk_device *d)
{
    const rf_op_call *call = &run->start.call;
    if (!execute(run, kernel, d, &run->got, 0) || !compare(run, kernel, d, "")) return;
    if (!execute(run, kernel, d, &run->again, 0) || !same_bits(run, kernel, d)) return;
    for (uint32_t i = 0; (run->op->flags & RF_OP_INPLACE) && i < call->n_in; i++) {
        if ((run->op->shape_only >> i & 1) || (run->op->mutates >> i & 1)) continue;
        if (rf_tensor_bytes(&call->in[i]) != rf_tensor_bytes(&call->out[0])) continue;
        if (!execute(run, kernel, d, &run->got, i + 1) || !compare(run, kernel, d, "in place: ")) return;
    }
}

/* Whether dimension 0 of a tensor counts what dimension 0 of input 0 does: examples, rows. Numbers may agree by chance.
 */
static bool is_counted(const rf_op_call *call, uint32_t tensor)
{
    const bool is_out = tensor >= call->n_in;
    const uint32_t i = is_out ? tensor - call->n_in : tensor;
    const rf_shape *shape = is_out ? &call->out[i].shape : &call->in[i].shape;
    if ((is_out ? call->op->unbatched_out : call->op->unbatched_in) >> i & 1) return false;
    if ((call->op->flags & RF_OP_LAST_AXIS) && shape->rank == 1) return false;
    return shape->rank > 0 && call->in[0].shape.rank > 0 && shape->dim[0] == call->in[0].shape.dim[0];
}

static const rf_tensor_desc *tensor_of(const rf_op_call *call, uint32_t i)
{
    return i < call->n_in ? &call->in[i] : &call->out[i - call->n_in];
}

/* Lets a descriptor span a third of the largest tensor, but enough for what need not be taken apart: as many examples
 * (or rows) as it takes until the next starts where descriptors may, in all tensors, and tensors that have none. False
 * when nothing is left to take apart. */
static bool limit_range(const rf_op_call *call, rf_device_caps *caps)
{
    uint64_t largest = 0, chunk = SMALLEST_RANGE, step = 1;
    for (uint32_t i = 0; i < call->n_in + call->n_out; i++) {
        const rf_tensor_desc *desc = tensor_of(call, i);
        const uint64_t bytes = rf_tensor_bytes(desc);
        if (bytes > largest) largest = bytes;
        while (is_counted(call, i) && step < (uint64_t)desc->shape.dim[0] &&
               bytes / (uint64_t)desc->shape.dim[0] * step % caps->buffer_alignment != 0)
            step *= 2;
    }
    for (uint32_t i = 0; i < call->n_in + call->n_out; i++) {
        const rf_tensor_desc *desc = tensor_of(call, i);
        const uint64_t bytes = rf_tensor_bytes(desc);
        const uint64_t own = is_counted(call, i) ? bytes / (uint64_t)desc->shape.dim[0] * step : bytes;
        if (own > chunk) chunk = own;
    }
    const uint64_t range = largest / 3 > chunk ? largest / 3 : chunk;
    caps->max_storage_range = rf_align_up(range, caps->buffer_alignment) + 2 * (uint64_t)caps->buffer_alignment;
    return caps->max_storage_range < largest;
}

/* Large cases are left to the kernels that they are for: those that would take more than 30 times as long as the best,
 * minutes for some, are held against the reference at small ones, unless one is asked for by name. */
static bool is_too_slow(const case_run *run, double score, double best)
{
    return run->c->large && !run->w->options.kernel && score < best / 30;
}

/* Whether --turns leaves a kernel to other runs. */
static bool is_turn_of_others(const case_run *run, uint32_t kernel, double score, double best)
{
    const uint32_t rounds = walk_special_rounds(), turn = run->number + kernel;
    if (!run->w->options.turns) return false;
    if (run->c->large) return score < best;
    if (rf_op_num_kernels(run->op) <= MANY_KERNELS) return false;
    if (score < best && turn % 3 != 0) return true;
    return run->w->options.special && turn / 3 % rounds != run->round;
}

static double best_score(const case_run *run, const rf_device_caps *caps)
{
    double best = 0;
    for (uint32_t i = 0; i < rf_op_num_kernels(run->op); i++) {
        const double score = rf_kernel_score(rf_op_kernel(run->op, i), &run->start.call, caps);
        if (score > best) best = score;
    }
    return best;
}

/* Some kernel that is no last resort takes the call. */
static bool has_fast_kernel(const case_run *run, const rf_device_caps *caps)
{
    for (uint32_t i = 0; i < rf_op_num_kernels(run->op); i++) {
        const rf_kernel *kernel = rf_op_kernel(run->op, i);
        if (!kernel->last_resort && rf_kernel_score(kernel, &run->start.call, caps) > 0) return true;
    }
    return false;
}

static bool cuts_up(const rf_op *op)
{
    for (uint32_t i = 0; i < rf_op_num_kernels(op); i++)
        if (rf_op_kernel(op, i)->cuts_up) return true;
    return false;
}

/* limit_range(), but where a fast kernel takes whole tensors so much more that one takes them cut up: what small
 * operands are padded to may be many times as long as they are. */
static bool split_range(const case_run *run, rf_device_caps *caps)
{
    const bool fast = cuts_up(run->op) && has_fast_kernel(run, caps);
    if (run->c->range > 0) {
        caps->max_storage_range = run->c->range;
        return true;
    }
    if (!limit_range(&run->start.call, caps)) return false;
    if (!fast) return true;
    uint64_t largest = 0;
    for (uint32_t i = 0; i < run->start.call.n_in + run->start.call.n_out; i++) {
        const uint64_t bytes = rf_tensor_bytes(tensor_of(&run->start.call, i));
        if (bytes > largest) largest = bytes;
    }
    const uint64_t least = caps->max_storage_range;
    while (!has_fast_kernel(run, caps) && caps->max_storage_range * 5 / 4 < largest)
        caps->max_storage_range = rf_align_up(caps->max_storage_range * 5 / 4, caps->buffer_alignment);
    run->counts->split++;
    run->counts->split_fast += has_fast_kernel(run, caps);
    if (!has_fast_kernel(run, caps)) {
        caps->max_storage_range = least;
        if (run->w->options.verbose)
            printf("slow %s/%s: nothing fast for descriptors of %llu bytes\n", run->op->name, run->c->name,
                   (unsigned long long)least);
    }
    return true;
}

static void run_device(case_run *run, const walk_device *d)
{
    uint32_t eligible = 0;
    rf_device_caps *caps = &d->exec->caps;
    *caps = *rf_gpu_caps(d->gpu);
    if (run->w->options.split && !split_range(run, caps)) return;
    const double best = best_score(run, caps);
    for (uint32_t i = 0; i < rf_op_num_kernels(run->op); i++) {
        const rf_kernel *kernel = rf_op_kernel(run->op, i);
        const double score = rf_kernel_score(kernel, &run->start.call, caps);
        if (score <= 0) continue;
        eligible++;
        if (is_turn_of_others(run, i, score, best) || is_too_slow(run, score, best)) continue;
        if (matches(run->w->options.kernel, kernel->name)) run_kernel(run, kernel, d);
    }
    if (eligible == 0) walk_fail(run->w, run->counts, run->op, run->c->name, NULL, d->name, "no kernel is eligible");
    walk_mark_shaders(&run->start.call, caps, true);
}

/* Devices that are not here: what their limits make of the plans. */
static void plan_elsewhere(const rf_op_call *call)
{
    static const uint32_t sizes[] = { 4, 8, 16, 32, 64 };
    static const rf_matrix_shape matrices[] = { { 0 }, { 8, 8, 8, 8 }, { 8, 16, 16, 16 }, { 16, 16, 16, 32 }, { 0 } };
    static const rf_driver drivers[] = { RF_DRIVER_OTHER, RF_DRIVER_LAVAPIPE, RF_DRIVER_SWIFTSHADER,
                                         RF_DRIVER_AMD,   RF_DRIVER_NVIDIA,   RF_DRIVER_INTEL };
    for (size_t s = 0; s < sizeof(sizes) / sizeof(sizes[0]); s++)
        for (size_t d = 0; d < sizeof(drivers) / sizeof(drivers[0]); d++) {
            const rf_device_caps caps = {
                .driver = drivers[d],
                .driver_version = 100,
                .is_cpu = drivers[d] == RF_DRIVER_LAVAPIPE || drivers[d] == RF_DRIVER_SWIFTSHADER,
                .subgroup_size = sizes[s],
                .subgroup_shuffle = true,
                .subgroup_ballot = true,
                .subgroup_arithmetic = true,
                .subgroup_quad = true,
                .full_subgroups = drivers[d] != RF_DRIVER_NVIDIA,
                .min_subgroup_size = drivers[d] == RF_DRIVER_INTEL ? sizes[s] : 4,
                .max_subgroup_size = 64,
                .compute_units = 32,
                .max_workgroup_size = { 1024, 1024, 64 },
                .max_workgroup_invocations = 1024,
                .max_grid = { 65535, 65535, 65535 },
                .max_shared_memory = 49152,
                .max_push_constants = 256,
                .max_storage_range = UINT32_MAX,
                .max_texel_elements = 1u << 27,
                .buffer_alignment = 256,
                .fp16 = true,
                .matrix_f16 = matrices[s],
                .matrix_bf16 = matrices[s],
                .int8 = true,
                .int64 = true,
                .memory_size = 8ull << 30,
            };
            walk_mark_shaders(call, &caps, false);
        }
}

/* The same of a case whose operands are stored in 16 bits, where some kernel multiplies those itself. */
static void plan_narrow_elsewhere(const rf_op *op, const rf_op_case *c)
{
    static const rf_dtype types[] = { RF_F16, RF_BF16 };
    bool cooperative = false;
    for (uint32_t i = 0; i < rf_op_num_kernels(op); i++) cooperative |= rf_op_kernel(op, i)->cooperative;
    for (size_t t = 0; cooperative && t < sizeof(types) / sizeof(types[0]); t++) {
        const rf_op_case stored = rf_case_stored_in(op, c, types[t], false);
        rf_case_data data;
        if (rf_case_data_describe(op, &stored, &data) >= 0) plan_elsewhere(&data.call);
    }
}

/* `start` is made already. */
static bool make_others(case_run *run)
{
    rf_case_data *others[] = { &run->expected, &run->got, &run->again };
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
        if (rf_case_data_copy(&run->start, others[i]) < 0) return false;
    if (run->w->options.special) {
        if (rf_case_data_copy(&run->start, &run->flushed) < 0) return false;
        walk_special_flush(&run->flushed);
        if (rf_op_reference(&run->flushed.call, run->flushed.in, run->flushed.out) < 0) return false;
    }
    return rf_op_reference(&run->expected.call, run->expected.in, run->expected.out) >= 0;
}

static void free_all(case_run *run)
{
    rf_case_data_free(&run->start);
    rf_case_data_free(&run->expected);
    rf_case_data_free(&run->got);
    rf_case_data_free(&run->again);
    rf_case_data_free(&run->flushed);
}

static bool too_big_for_quick(const rf_op_case *c, const rf_op_call *call)
{
    if (c->large) return true;
    const rf_cost cost = call->op->cost ? call->op->cost(call) : (rf_cost){ 0 };
    return c->benchmark && (cost.flops > 4e6 || cost.bytes > 4e6);
}

/* One case with one filling; `start` is made already. */
static void run_filled(case_run *run)
{
    if (!make_others(run)) {
        walk_fail(run->w, run->counts, run->op, run->c->name, "reference", NULL, "%s", rf_error_message());
    } else if (run->op->flags & RF_OP_VIEW) {
        if (memcmp(run->expected.out[0], run->start.in[0], (size_t)rf_tensor_bytes(&run->start.call.out[0])) != 0)
            walk_fail(run->w, run->counts, run->op, run->c->name, "reference", NULL,
                      "a view whose bytes are not its input's");
    } else {
        for (uint32_t d = 0; d < run->w->num_devices; d++) run_device(run, &run->w->devices[d]);
    }
}

/* Whether the options leave the case out. */
static bool is_left_out(const walk_options *o, const rf_op_case *c, const rf_op_call *call)
{
    if (c->large && (o->turns ? c->benchmark : o->quick && !o->all_shaders)) return true;
    return o->quick && too_big_for_quick(c, call);
}

static void run_rounds(case_run *run)
{
    rf_case_data made = run->start;
    made.call.attr = made.attr;
    for (run->round = 0; run->round < walk_special_rounds(); run->round++) {
        memset(&run->start, 0, sizeof(run->start));
        if (rf_case_data_copy(&made, &run->start) < 0) {
            walk_fail(run->w, run->counts, run->op, run->c->name, NULL, NULL, "%s", rf_error_message());
        } else {
            walk_special_fill(&run->start, run->c, run->round);
            run_filled(run);
        }
        free_all(run);
    }
    rf_case_data_free(&made);
}

static void run_case(walk *w, walk_counts *counts, const rf_op *op, const rf_op_case *original)
{
    const uint32_t number = (uint32_t)(original - rf_op_cases(op)->items);
    rf_op_case stored = *original;
    const rf_op_case *c = original;
    if (w->options.type) {
        const rf_dtype type = strcmp(w->options.type, "f16") == 0 ? RF_F16 : RF_BF16;
        stored = rf_case_stored_in(op, original, type, number % 2);
        c = &stored;
    }
    case_run run = { .w = w, .counts = counts, .op = op, .c = c, .number = number };
    rf_result r = rf_case_data_describe(op, c, &run.start);
    if (r >= 0 && w->options.all_shaders) {
        plan_elsewhere(&run.start.call);
        plan_narrow_elsewhere(op, original);
    }
    if (r >= 0 && is_left_out(&w->options, c, &run.start.call)) return;
    if (r >= 0) r = rf_case_data_make(op, c, 1, &run.start);
    counts->cases++;
    if (r < 0)
        walk_fail(w, counts, op, c->name, NULL, NULL, "%s", rf_error_message());
    else if (w->options.special)
        run_rounds(&run);
    else
        run_filled(&run);
    free_all(&run);
    if (r >= 0 && c->check_gradient && !w->options.split && !w->options.special) walk_gradient(w, counts, op, c);
}

static void run_op(walk *w, const rf_op *op)
{
    const rf_case_table *cases = rf_op_cases(op);
    walk_counts counts = { 0 };
    const double start = seconds_now();
    if (cases->count == 0) walk_fail(w, &counts, op, "(table)", NULL, NULL, "the op has no test case");
    if (rf_op_num_kernels(op) == 0 && !(op->flags & RF_OP_VIEW))
        walk_fail(w, &counts, op, "(table)", NULL, NULL, "the op has no kernel");
    if (!op->reference) walk_fail(w, &counts, op, "(table)", NULL, NULL, "the op has no reference");
    const uint32_t sample = w->options.sample;
    const uint32_t step = sample > 0 && sample < cases->count ? (cases->count + sample - 1) / sample : 1;
    for (uint32_t i = 0; op->reference && i < cases->count; i += step)
        if (matches(w->options.case_name, cases->items[i].name)) run_case(w, &counts, op, &cases->items[i]);
    if (counts.split_fast * 2 < counts.split)
        walk_fail(w, &counts, op, "(table)", NULL, NULL, "fast kernels cut up only %u of %u cases", counts.split_fast,
                  counts.split);
    printf("%-6s %-24s %3u cases %5u kernel runs %3u gradients (%u on devices) %6.2f s\n",
           counts.failures ? "FAILED" : "ok", op->name, counts.cases, counts.runs, counts.gradients,
           counts.device_gradients, seconds_now() - start);
    if (counts.split > 0) printf("       %u of %u cut up by a fast kernel\n", counts.split_fast, counts.split);
}

/* ---- set-up ---- */

static rf_result open_devices(walk *w)
{
    rf_device_info infos[MAX_DEVICES];
    uint32_t count = MAX_DEVICES;
    RF_TRY(rf_gpu_create(&(rf_gpu_params){ .validation = w->options.validation }, &w->gpu));
    RF_TRY(rf_gpu_list(w->gpu, infos, &count));
    for (uint32_t i = 0; i < count && i < MAX_DEVICES; i++) {
        if (!infos[i].usable || !matches(w->options.device, infos[i].name)) continue;
        walk_device *d = &w->devices[w->num_devices++];
        const rf_gpu_device_params params = { .index = infos[i].index, .clamp_limits = w->options.clamp };
        RF_TRY(rf_gpu_device_open(w->gpu, &params, &d->gpu));
        RF_TRY(rf_exec_create(&(rf_exec_params){ .device = d->gpu }, &d->exec));
        d->name = rf_gpu_info(d->gpu)->name;
        printf("device: %s (%s)\n", d->name, rf_gpu_info(d->gpu)->driver_info);
    }
    if (w->num_devices == 0) return RF_FAIL(RF_ERROR_NOT_FOUND, "no usable Vulkan device");
    return RF_OK;
}

static void close_devices(walk *w)
{
    for (uint32_t i = 0; i < w->num_devices; i++) {
        rf_exec_destroy(&w->devices[i].exec);
        rf_gpu_device_close(&w->devices[i].gpu);
    }
    const char *first = NULL;
    const uint64_t messages = w->gpu ? rf_gpu_validation_messages(w->gpu, &first) : 0;
    if (messages > 0) {
        printf("FAIL validation: %llu messages; the first: %s\n", (unsigned long long)messages, first);
        w->failures++;
    }
    rf_gpu_destroy(&w->gpu);
}

static bool parse(int argc, char **argv, walk_options *o)
{
    for (int i = 1; i < argc; i++) {
        const char *a = argv[i], *value = i + 1 < argc ? argv[i + 1] : NULL;
        const char **text = strcmp(a, "--op") == 0       ? &o->op
                            : strcmp(a, "--case") == 0   ? &o->case_name
                            : strcmp(a, "--kernel") == 0 ? &o->kernel
                            : strcmp(a, "--device") == 0 ? &o->device
                            : strcmp(a, "--type") == 0   ? &o->type
                                                         : NULL;
        if (strcmp(a, "--sample") == 0 && value) {
            o->sample = (uint32_t)strtoul(value, NULL, 10);
            i++;
            continue;
        }
        if (strcmp(a, "--share") == 0 && value) {
            if (sscanf(value, "%u/%u", &o->share, &o->shares) != 2 || o->share >= o->shares) {
                fprintf(stderr, "test_ops: --share %s: two numbers I/N, I below N\n", value);
                return false;
            }
            i++;
            continue;
        }
        bool *flag = strcmp(a, "--quick") == 0         ? &o->quick
                     : strcmp(a, "--clamp") == 0       ? &o->clamp
                     : strcmp(a, "--split") == 0       ? &o->split
                     : strcmp(a, "--special") == 0     ? &o->special
                     : strcmp(a, "--turns") == 0       ? &o->turns
                     : strcmp(a, "--validation") == 0  ? &o->validation
                     : strcmp(a, "--all-shaders") == 0 ? &o->all_shaders
                     : strcmp(a, "--verbose") == 0     ? &o->verbose
                                                       : NULL;
        if (text && value) {
            *text = value;
            i++;
        } else if (flag) {
            *flag = true;
        } else {
            fprintf(stderr, "test_ops: %s is unknown or lacks its value; the head of test_ops.c lists the options\n",
                    a);
            return false;
        }
    }
    return true;
}

enum { SKIPPED = 77 };

/* Mesa 26.1.6 overruns its own stack in libvulkan_lvp.so while it compiles some kernels for 512 bits (seen at
 * elementwise/tanh_1021/texel). It does so only where LP_NATIVE_VECTOR_WIDTH asks for them: its own choice is 256. */
static bool driver_overruns_its_stack(const walk *w)
{
    const char *width = getenv("LP_NATIVE_VECTOR_WIDTH");
    for (uint32_t i = 0; width && atoi(width) == 512 && i < w->num_devices; i++) {
        const char *mesa = strstr(rf_gpu_info(w->devices[i].gpu)->driver_info, "Mesa ");
        if (mesa && atoi(mesa + 5) >= 26) return true;
    }
    return false;
}

static void print_log(void *user, rf_log_level level, const char *message)
{
    (void)user;
    if (level <= RF_LOG_WARN) printf("log: %s\n", message);
}

int main(int argc, char **argv)
{
    static walk w;
    if (!parse(argc, argv, &w.options)) return 2;
    setvbuf(stdout, NULL, _IOLBF, 0); /* progress shows in a pipe too */
    rf_log_set(print_log, NULL, RF_LOG_WARN);
    if (open_devices(&w) < 0) {
        printf("FAIL %s\n", rf_error_message());
        w.failures++;
    } else if (driver_overruns_its_stack(&w)) {
        close_devices(&w);
        printf("skipped: this version of Mesa overruns its stack while it compiles kernels for 512 bits\n");
        return SKIPPED;
    } else {
        uint32_t count;
        const rf_op *const *ops = rf_ops_all(&count);
        uint32_t matching = 0;
        for (uint32_t i = 0; i < count; i++) {
            if (!matches(w.options.op, ops[i]->name)) continue;
            matching++;
            if ((!w.options.type || ops[i]->widen) &&
                (w.options.shares == 0 || i % w.options.shares == w.options.share))
                run_op(&w, ops[i]);
        }
        if (matching == 0) {
            printf("FAIL no operation is called %s\n", w.options.op ? w.options.op : "anything");
            w.failures++;
        }
        if (w.options.all_shaders) w.failures += walk_unused_shaders();
    }
    close_devices(&w);
    printf("%u failures\n", w.failures);
    return w.failures ? 1 : 0;
}
