/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Plans every kernel of every op at every case for devices that are not here, without running anything: whatever rates
 * itself eligible keeps to the device's limits, and something is eligible.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../skip.h"
#include "../support/invented.h"
#include "base/error.h"
#include "ops/linear/common/matmul.h"
#include "ops/linear/gpu/blocks.h"
#include "ops/ops.h"
#include "tests/ops/cases/cases.h"
#include "tests/room.h"

typedef struct profile {
    const char *name;
    rf_device_caps caps;
    bool tight; /* loops and workgroups both so small that the largest cases are refused */
} profile;

static const profile profiles[] = {
    { "lavapipe, 8 lanes",
      { .driver = RF_DRIVER_LAVAPIPE,
        .is_cpu = true,
        .int64 = true,
        .compiles_at_dispatch = true,
        .max_loop_iterations = 32767,
        SUBGROUPS(8),
        LIMITS(1024, 1u << 27, 1u << 27, 64) } },
    { "lavapipe, 16 lanes, no texels",
      { .driver = RF_DRIVER_LAVAPIPE,
        .is_cpu = true,
        .int64 = true,
        .compiles_at_dispatch = true,
        .max_loop_iterations = 32767,
        SUBGROUPS(16),
        LIMITS(1024, 1u << 27, 0, 64) } },
    { "lavapipe, 4 lanes",
      { .driver = RF_DRIVER_LAVAPIPE,
        .is_cpu = true,
        .int64 = true,
        .max_loop_iterations = 32767,
        SUBGROUPS(4),
        LIMITS(1024, 1u << 27, 1u << 27, 64) } },
    { "lavapipe without subgroups",
      { .driver = RF_DRIVER_LAVAPIPE,
        .is_cpu = true,
        .max_loop_iterations = 32767,
        .subgroup_size = 16,
        LIMITS(128, 1u << 27, 65536, 256) },
      .tight = true },
    { "loops of 5000",
      { .driver = RF_DRIVER_OTHER,
        .is_cpu = true,
        .max_loop_iterations = 5000,
        SUBGROUPS(8),
        LIMITS(1024, 1u << 27, 1u << 27, 64) },
      .tight = true },
    { "loops of 5000 on a GPU",
      { .driver = RF_DRIVER_INTEL, .max_loop_iterations = 5000, SUBGROUPS(32), LIMITS(1024, 1u << 27, 1u << 27, 64) },
      .tight = true },
    { "SwiftShader",
      { .driver = RF_DRIVER_SWIFTSHADER, .is_cpu = true, SUBGROUPS(4), LIMITS(256, 1u << 30, 1u << 26, 256) } },
    { "a large GPU",
      { .driver = RF_DRIVER_NVIDIA, .int64 = true, SUBGROUPS(32), LIMITS(1024, UINT32_MAX, 1u << 27, 256) } },
    { "the guaranteed minimum", { .driver = RF_DRIVER_AMD, .subgroup_size = 64, LIMITS(128, 1u << 27, 65536, 256) } },
};

static bool is_in_family(const rf_op *op, uint32_t family, const rf_kernel *kernel)
{
    const rf_kernel_list *list = op->families[family];
    for (uint32_t i = 0; list && i < list->count; i++)
        if (kernel == &list->rows[i]) return true;
    return false;
}

/* Also: kernels for GPUs are the last choice of software, and those for software that of GPUs. */
static uint32_t plan_all(const rf_op_call *call, const char *case_name, const profile *p)
{
    uint32_t eligible = 0;
    double others = 0, own = 0;
    for (uint32_t k = 0; k < rf_op_num_kernels(call->op); k++) {
        const rf_kernel *kernel = rf_op_kernel(call->op, k);
        const double score = rf_kernel_score(kernel, call, &p->caps);
        if (score <= 0) continue;
        const bool other = is_in_family(call->op, p->caps.is_cpu ? RF_FAMILY_GPU : RF_FAMILY_CPU, kernel);
        double *best = other ? &others : &own;
        if (score > *best) *best = score;
        rf_kernel_plan plan = { 0 };
        if (rf_kernel_plan_make(kernel, call, &p->caps, &plan) < 0)
            fail_msg("%s/%s on %s: %s", call->op->name, case_name, p->name, rf_error_message());
        rf_kernel_plan_free(&plan);
        eligible++;
    }
    if (own > 0 && others > own)
        fail_msg("%s/%s on %s: a kernel for the other kind of devices is chosen", call->op->name, case_name, p->name);
    return eligible;
}

/* The call of a case, which infers its outputs. */
static rf_op_call call_of(const rf_op *op, const rf_op_case *test_case)
{
    static const _Alignas(8) unsigned char zeros[RF_MAX_ATTR];
    rf_op_call call = {
        .op = op, .attr = test_case->attr ? test_case->attr : zeros, .n_in = test_case->n_in, .n_out = op->n_out
    };
    for (uint32_t i = 0; i < call.n_in; i++) call.in[i] = test_case->in[i].desc;
    assert_int_equal(rf_call_infer(&call), RF_OK);
    return call;
}

TEST(eligible_kernels_keep_to_limits)
{
    uint32_t num_ops, plans = 0;
    const rf_op *const *ops = rf_ops_all(&num_ops);
    for (uint32_t o = 0; o < num_ops; o++) {
        if (ops[o]->flags & RF_OP_VIEW) continue;
        for (uint32_t c = 0; c < rf_op_cases(ops[o])->count; c++) {
            const rf_op_case *test_case = &rf_op_cases(ops[o])->items[c];
            const rf_op_call call = call_of(ops[o], test_case);
            for (size_t p = 0; p < sizeof(profiles) / sizeof(profiles[0]); p++) {
                const uint32_t eligible = plan_all(&call, test_case->name, &profiles[p]);
                if (eligible == 0 && !(profiles[p].tight && test_case->large))
                    fail_msg("%s/%s: no kernel on %s", ops[o]->name, test_case->name, profiles[p].name);
                plans += eligible;
            }
        }
    }
    assert_true(plans > 5000);
}

/* The most that an invocation of any kernel loops in a case, on devices that set no limit. */
static uint64_t longest_loop(const rf_op *op, const rf_op_case *test_case)
{
    const rf_op_call call = call_of(op, test_case);
    uint64_t longest = 0;
    for (size_t p = 0; p < sizeof(profiles) / sizeof(profiles[0]); p++) {
        rf_device_caps caps = profiles[p].caps;
        caps.max_loop_iterations = 0;
        for (uint32_t k = 0; k < rf_op_num_kernels(op); k++) {
            rf_kernel_plan plan = { 0 };
            if (rf_kernel_score(rf_op_kernel(op, k), &call, &caps) <= 0) continue;
            assert_int_equal(rf_kernel_plan_make(rf_op_kernel(op, k), &call, &caps, &plan), RF_OK);
            for (uint32_t d = 0; d < plan.count; d++)
                if (plan.items[d].loops > longest) longest = plan.items[d].loops;
            rf_kernel_plan_free(&plan);
        }
    }
    return longest;
}

/* The dimension that an op loops over has a length of its own, or its cases contain one that a driver with a limit
 * would break off: the walk over the cases then shows that the plans for that driver add everything up. */
TEST(loops_are_tested_beyond_the_limit)
{
    enum { SHORT = 256, LIMIT = 32767 }; /* the latter is lavapipe's */
    /* A recurrent layer's units, whose square a descriptor spans; sums in so many slices that those of all that a
     * descriptor spans are short; and what has the slices of batch_moments. */
    const rf_op *const bounded[] = { &rf_op_rnn, &rf_op_rnn_grad, &rf_op_sum_to_like, &rf_op_batch_averages,
                                     &rf_op_batch_sums };
    uint32_t num_ops, beyond = 0;
    const rf_op *const *ops = rf_ops_all(&num_ops);
    for (uint32_t o = 0; o < num_ops; o++) {
        uint64_t longest = 0;
        for (uint32_t c = 0; c < rf_op_cases(ops[o])->count && !(ops[o]->flags & RF_OP_VIEW); c++) {
            const uint64_t loops = longest_loop(ops[o], &rf_op_cases(ops[o])->items[c]);
            if (loops > longest) longest = loops;
        }
        bool is_bounded = longest <= SHORT;
        for (size_t b = 0; b < sizeof(bounded) / sizeof(bounded[0]); b++) is_bounded |= ops[o] == bounded[b];
        beyond += longest > LIMIT;
        if (is_bounded || longest > LIMIT) continue;
        fail_msg("%s: its cases loop %" PRIu64 " times at most: none shows what happens beyond %d", ops[o]->name,
                 longest, LIMIT);
    }
    assert_true(beyond >= 25);
}

/* Where there are several tiles, more of them where order does not count; and where there is a kernel for it. */
TEST(attention_is_fused_where_it_pays)
{
#ifdef RF_NO_SOFTWARE_KERNELS
    SKIP("the library was built without software_kernels");
#endif
    static const struct {
        int64_t items, length, width;
        uint32_t causal;
        bool pays;
    } rows[] = { { 8, 512, 64, 1, true },  { 8, 255, 64, 0, false }, { 8, 256, 64, 0, true },
                 { 8, 127, 64, 1, false }, { 8, 128, 64, 1, true },  { 8, 512, 66, 1, false },
                 { 8, 512, 68, 1, false }, { 1, 8192, 32, 0, true }, { 1, 512, 32, 1, true } };
    const rf_device_caps *lavapipe = &profiles[0].caps, *four_lanes = &profiles[1].caps;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        const rf_attention_attr attr = { .scale = 1, .causal = rows[i].causal };
        const rf_tensor_desc x = { RF_F32, RF_SHAPE(1, rows[i].items, rows[i].length, rows[i].width) };
        const rf_op_call call = { .op = &rf_op_attention, .attr = &attr, .n_in = 3, .in = { x, x, x } };
        if (rf_attention_pays(&call, lavapipe) != rows[i].pays) fail_msg("row %zu", i);
        assert_false(rf_attention_pays(&call, four_lanes));
    }
}

static rf_device_caps gpu(rf_driver driver, uint32_t units, uint32_t shared);
static const rf_kernel *best_kernel(const rf_op_call *call, const rf_device_caps *caps);

/* GPUs walk tiles from shared memory, whatever there is of it, and rows one by one only where widths are odd or large.
 */
TEST(attention_takes_tiles_on_gpus)
{
    static const struct {
        uint32_t shared;
        int64_t length, width;
        const char *kernel;
        bool pays, all_pay; /* in causal order, and where every key counts */
    } rows[] = { { 49152, 512, 64, "blocks", true },        { 49152, 128, 64, "blocks", false },
                 { 49152, 2048, 64, "blocks", true, true }, { 49152, 512, 128, "blocks", true },
                 { 32768, 512, 128, "blocks", true },       { 32768, 512, 64, "blocks", true },
                 { 16384, 512, 64, "rows", false },         { 49152, 512, 66, "rows", false },
                 { 49152, 512, 132, "rows", false } };
    static const rf_attention_attr attr = { .scale = 1, .causal = true }, all = { .scale = 1 };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        const rf_device_caps caps = gpu(RF_DRIVER_NVIDIA, 132, rows[i].shared);
        const rf_tensor_desc x = { RF_F32, RF_SHAPE(1, 8, rows[i].length, rows[i].width) };
        const rf_tensor_desc sums = { RF_F32, RF_SHAPE(1, 8, rows[i].length, 2) };
        const rf_op_call forward = {
            .op = &rf_op_attention, .attr = &attr, .n_in = 3, .n_out = 2, .in = { x, x, x }, .out = { x, sums }
        };
        const rf_op_call gradient = { .op = &rf_op_attention_grad,
                                      .attr = &attr,
                                      .n_in = 6,
                                      .n_out = 3,
                                      .in = { x, x, x, x, x, sums },
                                      .out = { x, x, x } };
        const rf_kernel *best[2] = { best_kernel(&forward, &caps), best_kernel(&gradient, &caps) };
        for (int k = 0; k < 2; k++)
            if (!best[k] || strcmp(best[k]->name, rows[i].kernel) != 0)
                fail_msg("row %zu, %s: %s", i, k ? "gradient" : "forward", best[k] ? best[k]->name : "none");
        rf_op_call every = forward;
        every.attr = &all;
        if (rf_attention_pays(&forward, &caps) != rows[i].pays) fail_msg("row %zu", i);
        if (rf_attention_pays(&every, &caps) != rows[i].all_pay) fail_msg("row %zu, every key", i);
    }
}

/* ---- blocks of matrix kernels ---- */

static rf_device_caps gpu(rf_driver driver, uint32_t units, uint32_t shared)
{
    rf_device_caps caps = { .driver = driver, .compute_units = units, SUBGROUPS(32), LIMITS(1024, UINT32_MAX, 0, 64) };
    caps.max_shared_memory = shared;
    return caps;
}

static rf_op_call product(int64_t m, int64_t n, int64_t k)
{
    static const rf_matmul_attr attr = { 0 };
    return (rf_op_call){ .op = &rf_op_matmul,
                         .attr = &attr,
                         .n_in = 2,
                         .n_out = 1,
                         .in = { { RF_F32, RF_SHAPE(m, k) }, { RF_F32, RF_SHAPE(k, n) } },
                         .out = { { RF_F32, RF_SHAPE(m, n) } } };
}

static const rf_kernel *best_kernel(const rf_op_call *call, const rf_device_caps *caps)
{
    const rf_kernel *best = NULL;
    double best_score = 0;
    for (uint32_t i = 0; i < rf_op_num_kernels(call->op); i++) {
        const double score = rf_kernel_score(rf_op_kernel(call->op, i), call, caps);
        if (score > best_score) best = rf_op_kernel(call->op, i);
        if (score > best_score) best_score = score;
    }
    return best;
}

static bool takes(const rf_op_call *call, const rf_device_caps *caps, const char *kernel)
{
    return rf_kernel_score(rf_op_find_kernel(call->op, kernel), call, caps) > 0;
}

/* Large tiles where there are enough of them, smaller ones and parts where a device would stand idle; what a device
 * has no room for is left out. */
TEST(tiles_follow_the_device)
{
    static const struct {
        rf_driver driver;
        uint32_t units, shared;
        int64_t m, n, k;
        const char *kernel;
    } rows[] = {
        { RF_DRIVER_NVIDIA, 132, 49152, 4096, 4096, 4096, "block_xl" },
        { RF_DRIVER_AMD, 60, 65536, 4096, 4096, 4096, "block_xl" },
        { RF_DRIVER_AMD, 8, 65536, 1024, 1024, 1024, "block_xl" },
        { RF_DRIVER_OTHER, 8, 32768, 4096, 4096, 4096, "block_l" },
        { RF_DRIVER_NVIDIA, 132, 16384, 4096, 4096, 4096, "block_m" },
        { RF_DRIVER_NVIDIA, 132, 49152, 100000, 32, 288, "block_t" },
        { RF_DRIVER_OTHER, 8, 32768, 100000, 32, 288, "block_s" },
        { RF_DRIVER_NVIDIA, 132, 49152, 64, 64, 64, "block_deep" },
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        const rf_device_caps caps = gpu(rows[i].driver, rows[i].units, rows[i].shared);
        const rf_op_call call = product(rows[i].m, rows[i].n, rows[i].k);
        const rf_kernel *best = best_kernel(&call, &caps);
        if (!best || strcmp(best->name, rows[i].kernel) != 0)
            fail_msg("row %zu: %s instead of %s", i, best ? best->name : "none", rows[i].kernel);
    }
}

/* A product of few rows or columns is shared out along its summands: at weights' gradients, at layers of one output, at
 * logits. Where both are many it is not, and never on a CPU. */
TEST(thin_products_share_their_sums)
{
    static const struct {
        int64_t m, n, k;
        bool thin;
    } rows[] = { { 16, 1, 10000, true }, { 128, 1, 1024, true }, { 10000, 1, 16, true },   { 64, 10, 64, true },
                 { 1, 1000, 128, true }, { 32, 4, 2304, true },  { 16, 1, 65536, true },   { 32, 2, 128, true },
                 { 4, 512, 512, true },  { 64, 64, 64, false },  { 512, 512, 512, false }, { 100000, 32, 288, false } };
    const rf_device_caps devices[] = { gpu(RF_DRIVER_NVIDIA, 132, 49152), gpu(RF_DRIVER_AMD, 60, 65536),
                                       gpu(RF_DRIVER_INTEL, 32, 65536) };
    const rf_kernel *thin = rf_op_find_kernel(&rf_op_matmul, "thin");
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        const rf_op_call call = product(rows[i].m, rows[i].n, rows[i].k);
        for (size_t d = 0; d < sizeof(devices) / sizeof(devices[0]); d++)
            if ((best_kernel(&call, &devices[d]) == thin) != rows[i].thin)
                fail_msg("row %zu on device %zu: %s", i, d, best_kernel(&call, &devices[d])->name);
        assert_ptr_not_equal(best_kernel(&call, &profiles[0].caps), thin);
    }
}

/* GPUs look for places in shared memory where a table has up to thousands of rows; for more they sort. */
TEST(few_choices_are_marked)
{
    static const struct {
        int64_t choices, inner, places;
        const char *kernel;
    } rows[] = { { 6040, 32, 10000, "marks" }, { 3706, 8, 10000, "marks" },     { 8192, 128, 2048, "marks" },
                 { 2, 128, 2048, "marks" },    { 400, 64, 16384, "marks" },     { 1000, 64, 1024, "marks" },
                 { 10, 8, 4, "direct" },       { 1000000, 64, 65536, "sorted" } };
    const rf_device_caps devices[] = { gpu(RF_DRIVER_NVIDIA, 132, 49152), gpu(RF_DRIVER_AMD, 60, 65536) };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        static const rf_gather_attr attr = { 0 };
        const rf_tensor_desc dy = { RF_F32, RF_SHAPE(rows[i].places, rows[i].inner) },
                             x = { RF_F32, RF_SHAPE(rows[i].choices, rows[i].inner) };
        rf_op_call call = { .op = &rf_op_gather_grad, .attr = &attr, .n_in = 3, .n_out = 1 };
        call.in[0] = dy;
        call.in[1] = (rf_tensor_desc){ RF_I32, RF_SHAPE(rows[i].places) };
        call.in[2] = call.out[0] = x;
        for (size_t d = 0; d < sizeof(devices) / sizeof(devices[0]); d++)
            if (strcmp(best_kernel(&call, &devices[d])->name, rows[i].kernel) != 0)
                fail_msg("row %zu on device %zu: %s", i, d, best_kernel(&call, &devices[d])->name);
        assert_string_not_equal(best_kernel(&call, &profiles[0].caps)->name, "marks");
    }
}

/* Parts cover the sum, none is empty, and they are there where there is nothing else to do side by side. */
TEST(sums_are_cut_where_tiles_are_few)
{
    const rf_device_caps small = gpu(RF_DRIVER_NVIDIA, 4, 49152), large = gpu(RF_DRIVER_NVIDIA, 132, 49152);
    for (uint32_t t = 0; t < RF_BLOCK_TILES; t++)
        for (int64_t k = 1; k < 300000; k = k * 3 + 1) {
            const rf_block_job job = { 64, 64, k, 1 };
            const rf_block_grid few = rf_block_grid_make(&small, t, &job), many = rf_block_grid_make(&large, t, &job);
            assert_true(few.seconds > 0 && many.seconds > 0);
            assert_true(many.seconds <= few.seconds);
            assert_true((int64_t)many.split * many.parts >= k && (int64_t)many.split * (many.parts - 1) < k);
            assert_int_equal(many.split % RF_BLOCK_K, 0);
            assert_int_equal(many.total, many.tiles * (uint64_t)many.parts);
        }
    const rf_block_job deep = { 64, 64, 20000, 1 }, wide = { 8192, 8192, 20000, 1 };
    assert_true(rf_block_grid_make(&large, RF_BLOCK_S, &deep).parts >
                rf_block_grid_make(&small, RF_BLOCK_S, &deep).parts);
    assert_int_equal(rf_block_grid_make(&large, RF_BLOCK_XL, &wide).parts, 1);
    /* Longer than an invocation may loop: parts although they take longer. */
    rf_device_caps limited = small;
    limited.max_loop_iterations = 5000;
    const rf_block_grid cut = rf_block_grid_make(&limited, RF_BLOCK_XL, &wide);
    assert_true(cut.parts > 1 && cut.loops <= 5000);
}

/* A part takes a counter for each tile, which the plan asks for; whole sums take none. */
TEST(parts_are_counted)
{
    const rf_device_caps caps = gpu(RF_DRIVER_NVIDIA, 132, 49152);
    const rf_op_call deep = product(64, 64, 20000), wide = product(4096, 4096, 64);
    rf_kernel_plan plan = { 0 };
    assert_int_equal(rf_kernel_plan_make(rf_op_find_kernel(deep.op, "block_s"), &deep, &caps, &plan), RF_OK);
    assert_int_equal(plan.count, 1);
    const rf_block_job job = { 64, 64, 20000, 1 };
    const rf_block_grid grid = rf_block_grid_make(&caps, RF_BLOCK_S, &job);
    assert_true(grid.groups > 1 && grid.groups * grid.parts_of_group >= grid.parts);
    assert_int_equal(plan.counters, 4 * 4 * (grid.groups + 1)); /* of four tiles: one for each group, one for all */
    assert_true(plan.workspace >= 2 * 64 * 64 * 4);
    rf_kernel_plan_free(&plan);
    assert_int_equal(rf_kernel_plan_make(rf_op_find_kernel(wide.op, "block_xl"), &wide, &caps, &plan), RF_OK);
    assert_true(plan.counters == 0 && plan.workspace == 0);
    rf_kernel_plan_free(&plan);
}

/* Tiles that compilers of small devices were seen to spill or refuse. */
TEST(large_tiles_need_registers)
{
    static const rf_conv2d_attr attr = { .stride = { 1, 1 }, .dilation = { 1, 1 }, .groups = 1 };
    static const struct {
        rf_driver driver;
        int64_t channels;
        bool product_xl, conv_xl, conv_t;
    } rows[] = { { RF_DRIVER_NVIDIA, 64, true, true, true },
                 { RF_DRIVER_AMD, 64, true, true, true },
                 { RF_DRIVER_AMD, 63, true, false, true },
                 { RF_DRIVER_OTHER, 64, false, false, false },
                 { RF_DRIVER_INTEL, 64, false, false, false } };
    const rf_op_call square = product(4096, 4096, 4096);
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        const rf_device_caps caps = gpu(rows[i].driver, 32, 65536);
        rf_op_call conv = { .op = &rf_op_conv2d,
                            .attr = &attr,
                            .n_in = 2,
                            .n_out = 1,
                            .in = { { RF_F32, RF_SHAPE(8, 56, 56, rows[i].channels) },
                                    { RF_F32, RF_SHAPE(3, 3, rows[i].channels, 64) } } };
        assert_int_equal(conv.op->infer(&conv), RF_OK);
        assert_int_equal(takes(&square, &caps, "block_xl"), rows[i].product_xl);
        assert_int_equal(takes(&conv, &caps, "block_xl"), rows[i].conv_xl);
        assert_int_equal(takes(&conv, &caps, "block_t"), rows[i].conv_t);
        assert_true(takes(&square, &caps, "block_l") && takes(&conv, &caps, "block_l"));
    }
}

/* Where an invocation has 128 registers: convolutions, whose addresses take some, have smaller tiles than products.
 * Sums of parts have them wherever it is not known to have more. */
TEST(few_registers_need_small_tiles)
{
    static const rf_conv2d_attr attr = { .stride = { 1, 1 }, .dilation = { 1, 1 }, .groups = 1 };
    rf_device_caps caps = gpu(RF_DRIVER_INTEL, 32, 65536);
    const rf_device_caps many = gpu(RF_DRIVER_AMD, 32, 65536);
    caps.matrix_f16 = (rf_matrix_shape){ 8, 16, 16, 16 };
    const rf_op_call square = product(4096, 4096, 4096), deep = product(64, 64, 200000);
    assert_true(takes(&deep, &many, "block_l"));
    rf_op_call conv = { .op = &rf_op_conv2d,
                        .attr = &attr,
                        .n_in = 2,
                        .n_out = 1,
                        .in = { { RF_F32, RF_SHAPE(8, 56, 56, 64) }, { RF_F32, RF_SHAPE(3, 3, 64, 64) } } };
    assert_int_equal(conv.op->infer(&conv), RF_OK);
    for (int few = 0; few < 2; few++) {
        caps.invocation_registers = few ? 128 : 0;
        assert_true(takes(&square, &caps, "block_l"));
        assert_true(takes(&conv, &caps, "block_m"));
        assert_false(takes(&deep, &caps, "block_l"));
        assert_int_equal(takes(&conv, &caps, "block_l"), !few);
        for (int odd = 0; odd < 2; odd++) {
            rf_op_call halves = product(256, 256, 256 + odd);
            halves.in[0].dtype = halves.in[1].dtype = halves.out[0].dtype = RF_F16;
            assert_int_equal(takes(&halves, &caps, "coop_m"), !few || !odd);
        }
    }
}

/* Products in 16 bits of whole tiles, where there are enough of them and the device has the registers: on an H200 twice
 * as fast at 4096 as tiles of 64 x 64, which are faster at 1024. */
TEST(large_products_have_whole_tiles)
{
    static const struct {
        int64_t m, n, k;
        uint32_t ta, tb;
        const char *kernel; /* NULL: whichever, but coop_xl does not take it */
    } rows[] = { { 4096, 4096, 4096, 0, 0, "coop_xl" }, { 4096, 4096, 4096, 1, 0, "coop_xl" },
                 { 4096, 4096, 4096, 0, 1, "coop_xl" }, { 4096, 4096, 4096, 1, 1, "coop_xl" },
                 { 2048, 2048, 2048, 0, 0, "coop_xl" }, { 4099, 4104, 4104, 0, 0, "coop_xl" },
                 { 4104, 4104, 4099, 1, 0, "coop_xl" }, { 4099, 4099, 4104, 0, 1, "coop_xl" },
                 { 1024, 1024, 1024, 0, 0, "coop_m" },  { 512, 512, 512, 0, 0, "coop_m" },
                 { 4096, 4096, 4100, 0, 0, NULL },      { 4096, 4100, 4096, 0, 0, NULL },
                 { 4100, 4096, 4096, 1, 0, NULL },      { 120, 65536, 4096, 0, 0, NULL },
                 { 65536, 120, 4096, 0, 0, NULL },      { 4096, 4096, 32, 0, 0, NULL } };
    rf_device_caps caps = gpu(RF_DRIVER_NVIDIA, 132, 49152);
    caps.matrix_f16 = caps.matrix_bf16 = (rf_matrix_shape){ 16, 16, 16, 32 };
    for (size_t i = 0; i < 2 * sizeof(rows) / sizeof(rows[0]); i++) {
        const size_t r = i / 2;
        const rf_matmul_attr attr = { .transpose_a = rows[r].ta, .transpose_b = rows[r].tb };
        rf_op_call call = product(rows[r].m, rows[r].n, rows[r].k);
        call.attr = &attr;
        if (attr.transpose_a) call.in[0].shape = RF_SHAPE(rows[r].k, rows[r].m);
        if (attr.transpose_b) call.in[1].shape = RF_SHAPE(rows[r].n, rows[r].k);
        assert_false(takes(&call, &caps, "coop_xl"));
        call.in[0].dtype = call.in[1].dtype = call.out[0].dtype = i % 2 ? RF_F16 : RF_BF16;
        assert_int_equal(takes(&call, &caps, "coop_xl"), rows[r].kernel != NULL);
        const rf_kernel *best = best_kernel(&call, &caps);
        if (rows[r].kernel && (!best || strcmp(best->name, rows[r].kernel) != 0))
            fail_msg("row %zu: %s instead of %s", r, best ? best->name : "none", rows[r].kernel);
    }
    const rf_matmul_attr with_sums = { .transpose_a = 1, .bias_gradient = 1 };
    rf_op_call weights = product(4096, 4096, 4096);
    weights.attr = &with_sums;
    weights.n_out = 2;
    weights.in[0].dtype = weights.in[1].dtype = RF_BF16;
    weights.out[1] = (rf_tensor_desc){ RF_F32, RF_SHAPE(4096) };
    assert_string_equal(best_kernel(&weights, &caps)->name, "coop_xl");
}

TEST(whole_tiles_need_registers_and_matrices)
{
    static const struct {
        rf_driver driver;
        uint32_t shared;
        rf_matrix_shape matrices;
        bool offered;
    } devices[] = { { RF_DRIVER_NVIDIA, 49152, { 16, 16, 16, 32 }, true },
                    { RF_DRIVER_AMD, 65536, { 16, 16, 16, 32 }, true },
                    { RF_DRIVER_NVIDIA, 16384, { 16, 16, 16, 32 }, false },
                    { RF_DRIVER_NVIDIA, 49152, { 16, 8, 16, 32 }, false },
                    { RF_DRIVER_NVIDIA, 49152, { 0 }, false },
                    { RF_DRIVER_OTHER, 65536, { 16, 16, 16, 32 }, false },
                    { RF_DRIVER_INTEL, 65536, { 8, 16, 16, 16 }, false } };
    rf_op_call halves = product(4096, 4096, 4096);
    halves.in[0].dtype = halves.in[1].dtype = halves.out[0].dtype = RF_F16;
    for (size_t i = 0; i < sizeof(devices) / sizeof(devices[0]); i++) {
        rf_device_caps caps = gpu(devices[i].driver, 60, devices[i].shared);
        caps.matrix_f16 = devices[i].matrices;
        if ((takes(&halves, &caps, "coop_xl")) != devices[i].offered) fail_msg("device %zu", i);
    }
}

/* The subgroups that shaders ask for are among those that the device has. */
TEST(block_widths)
{
    static const struct {
        rf_driver driver;
        bool full;
        uint32_t least, most;
        rf_block_width width;
    } rows[] = { { RF_DRIVER_AMD, true, 32, 64, RF_BLOCK_32 },    { RF_DRIVER_AMD, false, 64, 64, RF_BLOCK_ANY },
                 { RF_DRIVER_AMD, true, 64, 64, RF_BLOCK_ANY },   { RF_DRIVER_INTEL, true, 8, 32, RF_BLOCK_8 },
                 { RF_DRIVER_INTEL, true, 16, 32, RF_BLOCK_16 },  { RF_DRIVER_INTEL, true, 32, 32, RF_BLOCK_ANY },
                 { RF_DRIVER_INTEL, false, 8, 32, RF_BLOCK_ANY }, { RF_DRIVER_NVIDIA, true, 32, 32, RF_BLOCK_ANY },
                 { RF_DRIVER_OTHER, true, 64, 128, RF_BLOCK_ANY } };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        const rf_device_caps caps = { .driver = rows[i].driver,
                                      .full_subgroups = rows[i].full,
                                      .min_subgroup_size = rows[i].least,
                                      .max_subgroup_size = rows[i].most };
        assert_int_equal(rf_block_width_of(&caps), rows[i].width);
    }
}

/* A gradient by the image with strides is as many plain ones as there are phases: none of them has more taps than meet
 * its pixels. */
TEST(strided_gradients_multiply_no_zeros)
{
    const rf_device_caps caps = gpu(RF_DRIVER_NVIDIA, 132, 49152);
    static const struct {
        int32_t stride, dilation, taps;
    } rows[] = { { 1, 1, 9 }, { 2, 1, 4 }, { 3, 1, 1 }, { 5, 1, 1 }, { 2, 2, 9 }, { 4, 2, 4 } };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        const rf_conv2d_attr attr = { .padding = RF_PADDING_SAME,
                                      .stride = { rows[i].stride, rows[i].stride },
                                      .dilation = { rows[i].dilation, rows[i].dilation },
                                      .groups = 1 };
        const int64_t out = 480 / rows[i].stride;
        rf_op_call call = { .op = &rf_op_conv2d_data_grad,
                            .attr = &attr,
                            .n_in = 3,
                            .n_out = 1,
                            .in = { { RF_F32, RF_SHAPE(8, out, out, 64) },
                                    { RF_F32, RF_SHAPE(3, 3, 32, 64) },
                                    { RF_F32, RF_SHAPE(8, 480, 480, 32) } } };
        assert_int_equal(call.op->infer(&call), RF_OK);
        rf_kernel_plan plan = { 0 };
        assert_int_equal(rf_kernel_plan_make(rf_op_find_kernel(call.op, "block_t"), &call, &caps, &plan), RF_OK);
        const int64_t slices = rows[i].taps * 64 / RF_BLOCK_K;
        assert_in_range(plan.items[0].loops, (slices + 1) * (RF_BLOCK_K + 2), (slices + 2) * (RF_BLOCK_K + 2));
        rf_kernel_plan_free(&plan);
    }
}

/* Software devices insert few elements and sort many, other devices sort; a long row takes no dispatch for each step.
 */
TEST(many_elements_are_sorted)
{
    const struct {
        int32_t columns, k;
        bool inserts;
    } rows[] = { { 1000, 5, true },   { 1000, 64, true },    { 70001, 100, true },   { 16, 16, true },
                 { 128, 128, false }, { 1000, 1000, false }, { 16384, 16384, false } };
    const rf_kernel *insertion = rf_op_kernel(&rf_op_top_k, 0), *sorting = rf_op_kernel(&rf_op_top_k, 1);
    const rf_device_caps *cpu = &profiles[0].caps,
                         gpu = { .driver = RF_DRIVER_NVIDIA, SUBGROUPS(32), LIMITS(1024, UINT32_MAX, 1u << 27, 256) };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        const rf_top_k_attr attr = { .k = rows[i].k };
        rf_op_call call = {
            .op = &rf_op_top_k, .attr = &attr, .n_in = 1, .n_out = 2, .in = { { RF_F32, RF_SHAPE(4, rows[i].columns) } }
        };
        assert_int_equal(call.op->infer(&call), RF_OK);
        assert_int_equal(insertion->score(&call, cpu, insertion->data) > sorting->score(&call, cpu, sorting->data),
                         rows[i].inserts);
        assert_true(sorting->score(&call, &gpu, sorting->data) > insertion->score(&call, &gpu, insertion->data));
        if (rows[i].k < 16384) continue;
        rf_kernel_plan plan = { 0 };
        assert_int_equal(rf_kernel_plan_make(sorting, &call, cpu, &plan), RF_OK);
        /* the first and the last, and chunks of 256: one, and another after each 1 to 6 steps */
        assert_int_equal(plan.count, 2 + 1 + 6 * 7 / 2 + 6);
        rf_kernel_plan_free(&plan);
    }
}

/* ---- recurrent layers ---- */

static rf_op_call recurrent_layer(bool grad, const rf_rnn_attr *attr, int64_t rows, int64_t steps, int64_t units)
{
    const int64_t width = units * (attr->kind == RF_RNN_LSTM ? 4 : attr->kind == RF_RNN_GRU ? 3 : 1);
    const rf_tensor_desc x = { RF_F32, RF_SHAPE(rows, steps, width) }, kernel = { RF_F32, RF_SHAPE(units, width) };
    const rf_tensor_desc states = { RF_F32, RF_SHAPE(rows, steps, units) }, bias = { RF_F32, RF_SHAPE(width) };
    rf_op_call call = { .op = &rf_op_rnn, .attr = attr, .n_in = 3, .n_out = 2, .in = { x, kernel, bias } };
    if (grad)
        call = (rf_op_call){
            .op = &rf_op_rnn_grad, .attr = attr, .n_in = 5, .n_out = 3, .in = { states, kernel, x, x, states }
        };
    assert_int_equal(rf_call_infer(&call), RF_OK);
    return call;
}

/* GPUs with registers walk all steps in one dispatch; with how many fours of weights in an invocation's registers. */
TEST(layers_are_walked_where_weights_are_held)
{
    static const rf_rnn_attr gru = { .kind = RF_RNN_GRU }, before = { .kind = RF_RNN_GRU, .reset_before = 1 };
    static const rf_rnn_attr lstm = { .kind = RF_RNN_LSTM }, simple = { .kind = RF_RNN_SIMPLE };
    static const struct {
        rf_driver driver;
        bool grad;
        const rf_rnn_attr *attr;
        int64_t steps, units;
        uint32_t local, held; /* 0: a dispatch for each step */
    } rows[] = {
        { RF_DRIVER_NVIDIA, false, &lstm, 100, 64, 256, 16 },  { RF_DRIVER_NVIDIA, true, &lstm, 100, 64, 256, 8 },
        { RF_DRIVER_NVIDIA, false, &gru, 16, 128, 384, 32 },   { RF_DRIVER_NVIDIA, true, &gru, 16, 128, 256, 12 },
        { RF_DRIVER_AMD, false, &lstm, 100, 128, 512, 22 }, /* of 32 */
        { RF_DRIVER_AMD, true, &lstm, 100, 256, 512, 5 },   /* of 32 */
        { RF_DRIVER_NVIDIA, false, &lstm, 20, 260, 0, 0 },     { RF_DRIVER_NVIDIA, true, &simple, 20, 260, 0, 0 },
        { RF_DRIVER_NVIDIA, false, &simple, 20, 42, 0, 0 },    { RF_DRIVER_NVIDIA, false, &before, 20, 64, 0, 0 },
        { RF_DRIVER_NVIDIA, false, &simple, 16385, 64, 0, 0 }, { RF_DRIVER_INTEL, false, &lstm, 100, 64, 0, 0 },
        { RF_DRIVER_OTHER, true, &lstm, 100, 64, 0, 0 },
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        const rf_device_caps caps = gpu(rows[i].driver, 132, 49152);
        const rf_op_call call = recurrent_layer(rows[i].grad, rows[i].attr, 64, rows[i].steps, rows[i].units);
        const rf_kernel *best = best_kernel(&call, &caps);
        if (!best || strcmp(best->name, rows[i].held ? "held" : "steps") != 0)
            fail_msg("row %zu: %s", i, best ? best->name : "none");
        if (rows[i].held == 0) continue;
        rf_kernel_plan plan = { 0 };
        assert_int_equal(rf_kernel_plan_make(best, &call, &caps, &plan), RF_OK);
        assert_int_equal(plan.count, 1);
        if (plan.items[0].spec[0] != rows[i].local || plan.items[0].spec[3] != rows[i].held)
            fail_msg("row %zu: %u invocations that hold %u", i, plan.items[0].spec[0], plan.items[0].spec[3]);
        assert_int_equal(plan.items[0].grid[0] * plan.items[0].grid[1], 64);
        rf_kernel_plan_free(&plan);
    }
}

TESTS(plans_host, NULL, NULL)
