/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decisions about the devices of tests/gpu/snapshots, which are what GPU drivers report (`./dev fleet --snapshots`):
 * the memory types that are chosen, and the plans of every kernel. No Vulkan needed. Usage: test_plan_fleet DIRECTORY
 */
#include "gpu_test.h"
#include "read_snapshot.h"

#include <stdio.h>

#include "graph/op.h"
#include "ops/kit.h"
#include "ops/ops.h"
#include "tests/ops/cases/case_data.h"
#include "tests/room.h"

#define LOCAL VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT
#define UNIFIED (LOCAL | VISIBLE)
#define MIB (1ull << 20)

static const char *directory;

/* The decisions for each; memory types by their flags. */
static const struct expected {
    const char *name;
    rf_driver driver;
    VkMemoryPropertyFlags device, upload, readback;
    bool host_visible;
    bool full_subgroups; /* can be asked for */
    uint32_t subgroup_size;
    uint64_t range_mib; /* of a descriptor, rounded down */
    uint32_t registers; /* of an invocation, where few */
    rf_matrix_shape f16, bf16;
} devices[] = {
    { "vega10", RF_DRIVER_AMD, LOCAL, VISIBLE, VISIBLE | CACHED, false, false, 64, 4095, 0 },
    { "navi21", RF_DRIVER_AMD, LOCAL, VISIBLE, VISIBLE | CACHED, false, true, 64, 4095, 0 },
    { "navi31", RF_DRIVER_AMD, LOCAL, VISIBLE, VISIBLE | CACHED, false, true, 64, 4095, 0, { 16, 16, 16, 32 }, { 0 } },
    { "gfx1201",
      RF_DRIVER_AMD,
      LOCAL,
      VISIBLE,
      VISIBLE | CACHED,
      false,
      true,
      64,
      4095,
      0,
      { 16, 16, 16, 32 },
      { 16, 16, 16, 32 } },
    { "tu102",
      RF_DRIVER_NVIDIA,
      LOCAL,
      VISIBLE | CACHED,
      VISIBLE | CACHED,
      false,
      false,
      32,
      2048,
      0,
      { 16, 16, 16, 32 },
      { 0 } },
    { "ga102",
      RF_DRIVER_NVIDIA,
      LOCAL,
      VISIBLE | CACHED,
      VISIBLE | CACHED,
      false,
      false,
      32,
      2048,
      0,
      { 16, 16, 16, 32 },
      { 0 } },
    { "h100",
      RF_DRIVER_NVIDIA,
      LOCAL,
      VISIBLE,
      VISIBLE | CACHED,
      false,
      true,
      32,
      4095,
      0,
      { 16, 16, 16, 32 },
      { 16, 16, 16, 32 } },
    /* These have memory that is cached and not coherent as well, which is not taken where there is better. */
    { "a660", RF_DRIVER_OTHER, UNIFIED | CACHED, UNIFIED, UNIFIED | CACHED, true, true, 128, 128, 128 },
    { "a740", RF_DRIVER_OTHER, UNIFIED | CACHED, UNIFIED, UNIFIED | CACHED, true, true, 128, 128, 0 },
    { "a830", RF_DRIVER_OTHER, UNIFIED | CACHED, UNIFIED, UNIFIED | CACHED, true, true, 64, 128, 0 },
    { "tgl", RF_DRIVER_INTEL, UNIFIED | CACHED, UNIFIED, UNIFIED | CACHED, true, true, 32, 4095, 128 },
    { "a770", RF_DRIVER_INTEL, LOCAL, VISIBLE | CACHED, VISIBLE | CACHED, false, true, 32, 4095, 128 },
    { "b580",
      RF_DRIVER_INTEL,
      LOCAL,
      VISIBLE | CACHED,
      VISIBLE | CACHED,
      false,
      true,
      32,
      4095,
      128,
      { 8, 16, 16, 16 },
      { 8, 16, 16, 16 } },
    { "m1", RF_DRIVER_OTHER, UNIFIED | CACHED, UNIFIED, UNIFIED | CACHED, true, false, 32, 2047, 0 },
    { "lavapipe",
      RF_DRIVER_LAVAPIPE,
      UNIFIED | CACHED,
      UNIFIED | CACHED,
      UNIFIED | CACHED,
      true,
      true,
      8,
      128,
      0,
      { 8, 8, 8, 8 },
      { 0 } },
    { "swiftshader", RF_DRIVER_SWIFTSHADER, UNIFIED | CACHED, UNIFIED | CACHED, UNIFIED | CACHED, true, true, 4, 1024,
      0 },
};
enum { NUM_DEVICES = sizeof(devices) / sizeof(devices[0]) };

/* ---- devices ---- */

static VkMemoryPropertyFlags flags_of(const rf_gpu_snapshot *s, rf_gpu_memory kind)
{
    const int type = rf_gpu_plan_memory(s, kind, UINT32_MAX);
    assert_in_range(type, 0, s->memory.memoryTypeCount - 1);
    return s->memory.memoryTypes[type].propertyFlags;
}

TEST(test_devices)
{
    for (size_t i = 0; i < NUM_DEVICES; i++) {
        const struct expected *e = &devices[i];
        const rf_gpu_snapshot s = read_snapshot(directory, e->name);
        rf_gpu_plan plan;
        rf_device_info info;
        rf_gpu_plan_device(&s, false, &plan);
        rf_gpu_describe(&s, 0, &info);
        const rf_device_caps *c = &plan.caps;
        const VkPhysicalDeviceLimits *l = &s.properties.limits;
        print_message("%s: %s\n", e->name, info.name);
        assert_string_equal(plan.unusable_reason, "");
        assert_true(info.usable);
        assert_int_equal(c->driver, e->driver);
        assert_int_equal(flags_of(&s, RF_GPU_MEMORY_DEVICE), e->device);
        assert_int_equal(flags_of(&s, RF_GPU_MEMORY_UPLOAD), e->upload);
        assert_int_equal(flags_of(&s, RF_GPU_MEMORY_READBACK), e->readback);
        assert_int_equal(c->host_visible, e->host_visible);
        assert_int_equal(c->subgroup_size, e->subgroup_size);
        assert_int_equal(c->max_storage_range / MIB, e->range_mib);
        assert_int_equal(c->invocation_registers, e->registers);
        assert_int_equal(c->full_subgroups, e->full_subgroups);
        assert_true((c->fp16 && c->int64) == (e->driver != RF_DRIVER_SWIFTSHADER));
        assert_memory_equal(&c->matrix_f16, &e->f16, sizeof(e->f16));
        assert_memory_equal(&c->matrix_bf16, &e->bf16, sizeof(e->bf16));
        assert_int_equal(c->is_cpu, e->driver == RF_DRIVER_LAVAPIPE || e->driver == RF_DRIVER_SWIFTSHADER);
        const bool imports = e->driver == RF_DRIVER_AMD || e->driver == RF_DRIVER_LAVAPIPE || /* host memory */
                             s.properties12.driverID == VK_DRIVER_ID_NVIDIA_PROPRIETARY;
        assert_int_equal(plan.import_alignment, imports ? 4096 : 0);
        /* A queue that computes and tells the time. */
        assert_true(s.families[plan.queue_family].queueFlags & VK_QUEUE_COMPUTE_BIT);
        assert_true(plan.timestamp_bits > 0);
        assert_int_equal(c->buffer_alignment % l->minStorageBufferOffsetAlignment, 0);
        assert_int_equal(c->buffer_alignment % l->minTexelBufferOffsetAlignment, 0);
        assert_int_equal(c->buffer_alignment % l->nonCoherentAtomSize, 0);
        assert_true(c->max_storage_range <= s.max_buffer_size || s.max_buffer_size >= 1024 * MIB);
    }
}

/* ---- plans ---- */

static void check_range(const rf_op_call *call, const rf_kernel_plan *plan, const rf_binding *b,
                        const rf_device_caps *caps)
{
    const rf_tensor_desc *desc = b->kind == RF_BIND_INPUT ? &call->in[b->index] : &call->out[b->index];
    const uint64_t whole = b->kind == RF_BIND_WORKSPACE  ? plan->workspace
                           : b->kind == RF_BIND_COUNTERS ? plan->counters
                                                         : rf_align_up(rf_tensor_bytes(desc), 4);
    const uint64_t size = b->size ? b->size : whole - b->offset;
    assert_int_equal(b->offset % caps->buffer_alignment, 0);
    if (b->view == RF_VIEW_STORAGE)
        assert_true(size <= caps->max_storage_range);
    else
        assert_true(rf_div_up(size, rf_view_texel_bytes(b->view)) <= caps->max_texel_elements);
}

/* Plans every kernel that takes the call; how many there are. */
static uint32_t plan_all(const rf_op_call *call, const rf_device_caps *caps)
{
    uint32_t eligible = 0;
    for (uint32_t k = 0; k < rf_op_num_kernels(call->op); k++) {
        const rf_kernel *kernel = rf_op_kernel(call->op, k);
        rf_kernel_plan plan = { 0 };
        if (rf_kernel_score(kernel, call, caps) <= 0) continue;
        eligible++;
        if (rf_kernel_plan_make(kernel, call, caps, &plan) < 0)
            fail_msg("%s, kernel %s: %s", call->op->name, kernel->name, rf_error_message());
        for (uint32_t i = 0; i < plan.count; i++)
            for (uint32_t b = 0; b < plan.items[i].n_bind; b++) check_range(call, &plan, &plan.items[i].bind[b], caps);
        rf_kernel_plan_free(&plan);
    }
    return eligible;
}

/* The same with its operands in 16 bits, where the device has kernels for them; how many on cooperative matrices. */
static uint32_t plan_narrow(const rf_op *op, const rf_op_case *c, const rf_device_caps *caps)
{
    static const rf_dtype types[] = { RF_F16, RF_BF16 };
    uint32_t cooperative = 0;
    for (size_t t = 0; t < 2; t++) {
        const rf_op_case stored = rf_case_stored_in(op, c, types[t], false);
        rf_case_data data;
        bool offered = false;
        for (uint32_t k = 0; k < rf_op_num_kernels(op); k++) offered |= rf_op_kernel(op, k)->cooperative;
        if (!offered) continue;
        OK(rf_case_data_describe(op, &stored, &data));
        for (uint32_t k = 0; k < rf_op_num_kernels(op); k++)
            cooperative +=
                rf_op_kernel(op, k)->cooperative && rf_kernel_score(rf_op_kernel(op, k), &data.call, caps) > 0;
        plan_all(&data.call, caps);
    }
    return cooperative;
}

TEST(test_plans)
{
    uint32_t num_ops, plans = 0;
    const rf_op *const *ops = rf_ops_all(&num_ops);
    for (size_t i = 0; i < NUM_DEVICES; i++) {
        const rf_gpu_snapshot s = read_snapshot(directory, devices[i].name);
        rf_gpu_plan device;
        rf_gpu_plan_device(&s, false, &device);
        uint32_t cooperative = 0;
        for (uint32_t o = 0; o < num_ops; o++)
            for (uint32_t c = 0; c < rf_op_cases(ops[o])->count && !(ops[o]->flags & RF_OP_VIEW); c++) {
                const rf_op_case *item = &rf_op_cases(ops[o])->items[c];
                rf_case_data data;
                cooperative += plan_narrow(ops[o], item, &device.caps);
                OK(rf_case_data_describe(ops[o], item, &data));
                const uint32_t eligible = plan_all(&data.call, &device.caps);
                if (eligible == 0) fail_msg("%s: no kernel takes %s/%s", devices[i].name, ops[o]->name, item->name);
                plans += eligible;
            }
        assert_int_equal(cooperative > 100, devices[i].f16.m > 0);
    }
    print_message("%u plans\n", plans);
    assert_true(plans > 10000);
}

/* The first case of the benchmark with so many examples that the first of its tensors is three times as large as what a
 * descriptor spans. All that has as many examples grows, or where that is no call of the op, the first tensor alone. */
static void make_larger(const rf_op *op, uint64_t range, rf_case_data *data)
{
    const rf_op_case *c = rf_op_cases(op)->items;
    while (!c->benchmark) c++;
    rf_result r = RF_ERROR_INVALID_ARGUMENT;
    for (int alone = 0; r < 0 && alone < 2; alone++) {
        OK(rf_case_data_describe(op, c, data));
        rf_op_call *call = &data->call;
        const int64_t examples = call->in[0].shape.dim[0];
        const int64_t factor = (int64_t)rf_div_up(3 * range, rf_tensor_bytes(&call->in[0]));
        for (uint32_t i = 0; i < (alone ? 1 : call->n_in); i++)
            if (!(op->unbatched_in >> i & 1) && call->in[i].shape.rank > 0 && call->in[i].shape.dim[0] == examples)
                call->in[i].shape.dim[0] *= factor;
        r = rf_call_infer(call);
    }
    OK(r);
}

TEST(test_descriptors)
{
    static const char *const wanted[] = { "matmul",  "conv2d",     "conv2d_data_grad", "conv2d_filter_grad",
                                          "softmax", "elementwise" };
    uint32_t num_ops, found = 0;
    const rf_op *const *ops = rf_ops_all(&num_ops);
    for (size_t i = 0; i < NUM_DEVICES; i++) {
        const rf_gpu_snapshot s = read_snapshot(directory, devices[i].name);
        rf_gpu_plan device;
        rf_gpu_plan_device(&s, false, &device);
        if (device.caps.max_storage_range > 1024 * MIB) continue;
        for (uint32_t o = 0; o < num_ops; o++)
            for (size_t w = 0; w < sizeof(wanted) / sizeof(wanted[0]); w++) {
                rf_case_data data;
                if (strcmp(ops[o]->name, wanted[w]) != 0) continue;
                make_larger(ops[o], device.caps.max_storage_range, &data);
                if (plan_all(&data.call, &device.caps) == 0)
                    fail_msg("%s: no kernel of %s takes more than a descriptor", devices[i].name, wanted[w]);
                found++;
            }
    }
    assert_int_equal(found, 5 * sizeof(wanted) / sizeof(wanted[0]));
}

/* The kernel that is chosen for a call, and its plan. */
static const char *plan_best(const rf_op_call *call, const rf_device_caps *caps, rf_kernel_plan *plan)
{
    const rf_kernel *kernel = rf_best_kernel(call, caps);
    assert_non_null(kernel);
    OK(rf_kernel_plan_make(kernel, call, caps, plan));
    return kernel->name;
}

/* Sums down columns: GPUs cut the rows into parts that occupy them, none of which is a long chain of loads, and not
 * into so many that adding the parts up is one. */
static void check_strips(const char *name, const rf_device_caps *caps, rf_op_call *call)
{
    rf_kernel_plan plan = { 0 };
    OK(rf_call_infer(call));
    const bool strips = strcmp(plan_best(call, caps, &plan), "strips") == 0;
    const uint64_t bytes = rf_tensor_bytes(&call->in[0]);
    if (strips == caps->is_cpu) fail_msg("%s: %s of %llu bytes", name, call->op->name, (unsigned long long)bytes);
    uint64_t loops = 0;
    for (uint32_t d = 0; d < plan.count; d++) loops += plan.items[d].loops;
    const uint64_t groups = (uint64_t)plan.items[0].grid[0] * plan.items[0].grid[1];
    const bool short_chains = loops <= 60 + bytes / caps->compute_units / 16384;
    const bool busy = groups >= rf_min(caps->compute_units, bytes / 32768);
    if (strips && (!short_chains || !busy || plan.count > 1))
        fail_msg("%s: %s of %llu bytes has %u workgroups and %u loops", name, call->op->name, (unsigned long long)bytes,
                 (unsigned)groups, (unsigned)loops);
    rf_kernel_plan_free(&plan);
}

TEST(test_strips)
{
    static const rf_reduce_attr sum = { RF_REDUCE_KIND_SUM, 1, 0 };
    static const rf_batch_sums_attr usual = { 1e-3f };
    static const rf_batch_averages_attr moving = { 1e-3f, 0.9f, 0.1f, 1 };
    static const int64_t shapes[][2] = { { 65536, 16 }, { 16384, 32 }, { 4096, 64 },  { 50176, 24 },
                                         { 65536, 3 },  { 8192, 17 },  { 100000, 1 }, { 3136, 512 },
                                         { 64, 2048 },  { 7, 10 },     { 500000, 64 } };
    for (size_t i = 0; i < NUM_DEVICES; i++) {
        const char *name = devices[i].name;
        const rf_gpu_snapshot s = read_snapshot(directory, name);
        rf_gpu_plan device;
        rf_gpu_plan_device(&s, false, &device);
        for (size_t k = 0; k < sizeof(shapes) / sizeof(shapes[0]); k++) {
            const rf_tensor_desc x = { RF_F32, RF_SHAPE(shapes[k][0], shapes[k][1]) };
            const rf_tensor_desc c = { RF_F32, RF_SHAPE(shapes[k][1]) };
            rf_op_call moments = { .op = &rf_op_batch_moments, .n_in = 1, .n_out = 2, .in = { x } };
            rf_op_call averages = {
                .op = &rf_op_batch_averages, .attr = &moving, .n_in = 4, .n_out = 5, .in = { x, c, c, c }
            };
            rf_op_call sums = {
                .op = &rf_op_batch_sums, .attr = &usual, .n_in = 5, .n_out = 4, .in = { x, x, c, c, c }
            };
            rf_op_call reduced = { .op = &rf_op_reduce, .attr = &sum, .n_in = 1, .n_out = 1, .in = { x } };
            rf_op_call like = { .op = &rf_op_sum_to_like, .n_in = 2, .n_out = 1, .in = { x, c } };
            check_strips(name, &device.caps, &moments);
            check_strips(name, &device.caps, &averages);
            check_strips(name, &device.caps, &sums);
            if (shapes[k][1] == 1) continue; /* a row */
            check_strips(name, &device.caps, &reduced);
            check_strips(name, &device.caps, &like);
        }
    }
}

TEST_PROGRAM(plan_fleet)
{
    if (argc != 2) {
        fprintf(stderr, "usage: test_plan_fleet DIRECTORY\n");
        return 2;
    }
    directory = argv[1];
    return room_tests_run(own_tests, NULL, NULL);
}
