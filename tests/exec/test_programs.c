/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Real ops through the whole path: a small convolutional network with loss, gradients and Adam, optimised (fused) and
 * run on every device, against the interpreted graph as it was built.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/philox.h"
#include "exec/internal.h"
#include "exec_devices.h"
#include "ops/ops.h"
#include "tests/room.h"

enum { NUM_PARAMETERS = 6, NUM_STATES = 3 * NUM_PARAMETERS /* value, m, v */, IMAGE = 8, CLASSES = 5, MAX_BATCH = 16 };
enum { SEGMENT = 10 << 10 }; /* bytes: what the largest batch needs takes several */

static const rf_shape parameter_shapes[NUM_PARAMETERS] = {
    { 4, { 3, 3, 1, 4 } }, { 1, { 4 } }, { 2, { 36, 7 } }, { 1, { 7 } }, { 2, { 7, CLASSES } }, { 1, { CLASSES } },
};

typedef struct network {
    rf_graph *graph;
    rf_value images, labels, hyper, states[NUM_STATES], grads[NUM_PARAMETERS], logits, losses, loss;
    int objects[NUM_STATES];
} network;

static rf_value dense(rf_graph *g, rf_value x, rf_value w, rf_value b, bool relu)
{
    rf_value y;
    CHECK(rf_emit_matmul(g, x, w, false, false, &y));
    CHECK(rf_emit_bias_add(g, y, b, &y));
    if (relu) CHECK(rf_emit_unary(g, RF_FN_RELU, 0, y, &y));
    return y;
}

static void forward(network *n, int64_t batch)
{
    rf_graph *g = n->graph;
    rf_value x, flat;
    CHECK(rf_graph_input(g, 0, (rf_tensor_desc){ RF_F32, RF_SHAPE(batch, IMAGE, IMAGE, 1) }, &n->images));
    CHECK(rf_graph_input(g, 1, (rf_tensor_desc){ RF_I32, RF_SHAPE(batch) }, &n->labels));
    CHECK(rf_emit_conv2d(g, n->images, n->states[0], &(rf_conv2d_params){ 0 }, &x));
    CHECK(rf_emit_bias_add(g, x, n->states[1], &x));
    CHECK(rf_emit_unary(g, RF_FN_RELU, 0, x, &x));
    CHECK(rf_emit_max_pool2d(g, x, &(rf_pool2d_params){ 0 }, &x));
    CHECK(rf_emit_flatten(g, x, &flat));
    x = dense(g, flat, n->states[2], n->states[3], true);
    n->logits = dense(g, x, n->states[4], n->states[5], false);
    CHECK(rf_emit_sparse_crossentropy(g, n->labels, n->logits, true, &n->losses));
    CHECK(rf_emit_reduce(g, RF_REDUCE_KIND_SUM, n->losses, NULL, 0, false, &n->loss));
}

static void make_network(network *n, int64_t batch, bool updates)
{
    CHECK(rf_graph_create(rf_ops_core(), &n->graph));
    for (uint32_t i = 0; i < NUM_STATES; i++)
        CHECK(rf_graph_state(n->graph, &n->objects[i], (rf_tensor_desc){ RF_F32, parameter_shapes[i % NUM_PARAMETERS] },
                             "state", &n->states[i]));
    CHECK(rf_graph_host(n->graph, n, (rf_tensor_desc){ RF_F32, RF_SHAPE(RF_HYPER_COUNT) }, "hyper", &n->hyper));
    forward(n, batch);
    CHECK(rf_graph_differentiate(n->graph, n->loss, n->states, NUM_PARAMETERS, n->grads));
    for (uint32_t i = 0; updates && i < NUM_PARAMETERS; i++) {
        const rf_value in[] = { n->states[i], n->grads[i], n->states[NUM_PARAMETERS + i],
                                n->states[2 * NUM_PARAMETERS + i], n->hyper };
        CHECK(rf_emit_update(n->graph, &rf_op_adam_update, NULL, in, 5));
    }
}

/* ---- data ---- */

static const float hyper[RF_HYPER_COUNT] = {
    [RF_HYPER_RATE] = 0.01f,    [RF_HYPER_GRAD_SCALE] = 1,    [RF_HYPER_BETA_1] = 0.9f,
    [RF_HYPER_BETA_2] = 0.999f, [RF_HYPER_CORRECTION_1] = 10, [RF_HYPER_CORRECTION_2] = 1000,
    [RF_HYPER_EPSILON] = 1e-3f,
};

static void random_floats(float *x, size_t count, uint64_t key, float scale)
{
    rf_rng rng = { .key = key };
    for (size_t i = 0; i < count; i++) x[i] = scale * (float)rf_rng_normal(&rng);
}

static void fill_batch(float *images, int32_t *labels, int64_t batch, uint64_t key)
{
    random_floats(images, (size_t)batch * IMAGE * IMAGE, key, 1);
    for (int64_t i = 0; i < batch; i++) labels[i] = (int32_t)((uint64_t)i * 7 + key) % CLASSES;
}

static size_t state_count(uint32_t i)
{
    return (size_t)rf_shape_count(parameter_shapes[i % NUM_PARAMETERS]);
}

/* The states on the host, changed by the oracle. */
typedef struct oracle {
    float *states[NUM_STATES];
    rf_arena arena;
    void **values;
} oracle;

static void oracle_init(oracle *o)
{
    memset(o, 0, sizeof(*o));
    for (uint32_t i = 0; i < NUM_STATES; i++) {
        o->states[i] = rf_calloc(state_count(i), sizeof(float));
        assert_non_null(o->states[i]);
        if (i < NUM_PARAMETERS) random_floats(o->states[i], state_count(i), 100 + i, 0.3f);
    }
}

static void oracle_step(oracle *o, const network *n, int64_t batch, uint64_t key)
{
    static float images[MAX_BATCH * IMAGE * IMAGE], host_hyper[RF_HYPER_COUNT];
    static int32_t labels[MAX_BATCH];
    rf_graph *g;
    CHECK(rf_graph_clone(n->graph, &g));
    CHECK(rf_graph_specialize(g, batch));
    fill_batch(images, labels, batch, key);
    memcpy(host_hyper, hyper, sizeof(hyper));
    o->values = rf_arena_alloc(&o->arena, g->values.count * sizeof(void *));
    for (uint32_t i = 0; i < NUM_STATES; i++) o->values[n->states[i]] = o->states[i];
    o->values[n->images] = images;
    o->values[n->labels] = labels;
    o->values[n->hyper] = host_hyper;
    CHECK(rf_graph_interpret(g, &o->arena, o->values));
    rf_graph_destroy(&g);
}

static void oracle_free(oracle *o)
{
    for (uint32_t i = 0; i < NUM_STATES; i++) rf_free(o->states[i]);
    rf_arena_free(&o->arena);
}

static void compare(const char *what, uint32_t number, const float *got, const float *expected, size_t count)
{
    double scale = 0;
    for (size_t i = 0; i < count; i++) scale = fmax(scale, fabs((double)expected[i]));
    for (size_t i = 0; i < count; i++)
        if (!(fabs((double)got[i] - (double)expected[i]) <= 2e-4 * scale + 1e-6))
            fail_msg("%s %u element %zu: got %.9g, expected %.9g", what, number, i, (double)got[i],
                     (double)expected[i]);
}

/* ---- the device's side ---- */

typedef struct device_side {
    rf_exec *exec;
    rf_gpu_buffer *buffer;
    rf_location states[NUM_STATES];
    rf_program *program;
} device_side;

static void side_init(device_side *s, rf_gpu_device *device, bool staging, uint64_t segment, const network *n,
                      const oracle *o)
{
    const uint64_t alignment = rf_gpu_caps(device)->buffer_alignment;
    CHECK(rf_exec_create(&(rf_exec_params){ .device = device, .force_staging = staging, .segment_size = segment },
                         &s->exec));
    uint64_t size = 0;
    for (uint32_t i = 0; i < NUM_STATES; i++) {
        s->states[i].offset = size;
        size = rf_align_up(size + state_count(i) * sizeof(float), alignment);
    }
    CHECK(rf_gpu_buffer_create(device, RF_GPU_MEMORY_DEVICE, size, "states", &s->buffer));
    for (uint32_t i = 0; i < NUM_STATES; i++) {
        s->states[i].buffer = s->buffer;
        CHECK(rf_gpu_buffer_write(s->buffer, s->states[i].offset, o->states[i], state_count(i) * sizeof(float)));
    }
    rf_value results[2 + NUM_PARAMETERS] = { n->losses, n->logits };
    memcpy(results + 2, n->grads, sizeof(n->grads));
    CHECK(rf_program_create(s->exec,
                            &(rf_program_params){ .name = "network",
                                                  .graph = n->graph,
                                                  .results = results,
                                                  .num_results = 2 + NUM_PARAMETERS,
                                                  .states = s->states },
                            &s->program));
}

static void side_step(device_side *s, const network *n, const oracle *o, int64_t batch, uint64_t key)
{
    rf_frame *frame;
    uint64_t ticket;
    CHECK(rf_program_acquire(s->program, batch, &frame));
    fill_batch(rf_frame_input(frame, 0), rf_frame_input(frame, 1), batch, key);
    if (rf_frame_host(frame, 0)) memcpy(rf_frame_host(frame, 0), hyper, sizeof(hyper));
    CHECK(rf_frames_submit(s->exec, &frame, 1, &ticket));
    CHECK(rf_gpu_wait(rf_exec_device(s->exec), ticket, RF_GPU_TIMEOUT_NS));
    compare("losses", 0, rf_frame_result(frame, 0), o->values[n->losses], (size_t)batch);
    compare("logits", 0, rf_frame_result(frame, 1), o->values[n->logits], (size_t)batch * CLASSES);
    for (uint32_t i = 0; i < NUM_PARAMETERS; i++)
        compare("gradient", i, rf_frame_result(frame, 2 + i), o->values[n->grads[i]], state_count(i));
    for (uint32_t i = 0; i < NUM_STATES; i++) {
        float got[512];
        assert_true(state_count(i) <= 512);
        CHECK(rf_gpu_buffer_read(s->buffer, s->states[i].offset, got, state_count(i) * sizeof(float)));
        compare("state", i, got, o->states[i], state_count(i));
    }
}

static void side_free(device_side *s)
{
    rf_program_destroy(&s->program);
    rf_gpu_buffer_destroy(&s->buffer);
    rf_exec_destroy(&s->exec);
}

/* segment: 0, or the length of those that the slab comes in, which are several. */
static void on_device(rf_gpu_device *device, bool staging, uint64_t segment)
{
    static const int64_t batches[] = { MAX_BATCH, 3, 1, MAX_BATCH };
    network n = { 0 };
    oracle o;
    device_side s = { 0 };
    make_network(&n, 4, true); /* the traced batch is none of those that run */
    oracle_init(&o);
    side_init(&s, device, staging, segment, &n, &o);
    uint32_t pipelines = 0;
    for (uint32_t i = 0; i < 4; i++) {
        oracle_step(&o, &n, batches[i], i);
        side_step(&s, &n, &o, batches[i], i);
        rf_program_stats stats;
        CHECK(rf_program_stats_get(s.program, batches[i], &stats));
        if (i == 0) {
            pipelines = stats.num_pipelines;
            print_message("%s: %u nodes, %u dispatches, %u pipelines, %u barriers, slab %llu of %llu bytes\n",
                          rf_gpu_info(device)->name, stats.num_nodes, stats.num_dispatches, stats.num_pipelines,
                          stats.num_barriers, (unsigned long long)stats.slab_size,
                          (unsigned long long)stats.naive_size);
        }
        /* Kernels may be chosen by size, but not all of them anew. */
        assert_true(stats.num_pipelines < 2 * pipelines);
        assert_true(stats.slab_size <= stats.naive_size);
        if (segment && batches[i] == MAX_BATCH) assert_true(stats.slab_size > segment);
    }
    side_free(&s);
    oracle_free(&o);
    rf_graph_destroy(&n.graph);
}

TEST(test_network)
{
    for (uint32_t i = 0; i < num_devices; i++) {
        on_device(devices[i], false, 0);
        on_device(devices[i], true, 0);
        on_device(devices[i], false, SEGMENT);
    }
}

/* ---- the log ---- */

static struct {
    uint32_t warnings, debug;
    char warning[600], plan[600];
    bool kernel;
} logged;

static void keep_log(void *user, rf_log_level level, const char *message)
{
    (void)user;
    logged.warnings += level == RF_LOG_WARN;
    logged.debug += level == RF_LOG_DEBUG;
    if (level == RF_LOG_WARN) snprintf(logged.warning, sizeof(logged.warning), "%s", message);
    if (strstr(message, "of intermediates")) snprintf(logged.plan, sizeof(logged.plan), "%s", message);
    logged.kernel = logged.kernel || strstr(message, "runs kernel 'naive'");
}

/* A program with one product, prepared for two batch sizes, twice. `bare`: the device has neither subgroups nor shared
 * memory, nor texel buffers to speak of, so that only the slowest kernel can run. */
static void prepare_product(rf_gpu_device *device, bool bare)
{
    rf_exec *exec;
    rf_graph *g;
    rf_value x, w, y;
    int object = 0; /* its address is the state's key */
    rf_gpu_buffer *state;
    CHECK(rf_exec_create(&(rf_exec_params){ .device = device }, &exec));
    if (bare) {
        exec->caps.subgroup_size = exec->caps.min_subgroup_size = exec->caps.max_subgroup_size = 1;
        exec->caps.full_subgroups = false;
        exec->caps.max_shared_memory = 0;
        exec->caps.max_texel_elements = 1;
    }
    CHECK(rf_graph_create(rf_ops_core(), &g));
    CHECK(rf_graph_input(g, 0, (rf_tensor_desc){ RF_F32, RF_SHAPE(4, 128) }, &x));
    CHECK(rf_graph_state(g, &object, (rf_tensor_desc){ RF_F32, RF_SHAPE(128, 32) }, "w", &w));
    CHECK(rf_emit_matmul(g, x, w, false, false, &y));
    CHECK(rf_gpu_buffer_create(device, RF_GPU_MEMORY_DEVICE, 128 * 32 * 4, "w", &state));
    const rf_location at = { state, 0 };
    for (int again = 0; again < 2; again++) {
        rf_program *program;
        CHECK(rf_program_create(exec, &(rf_program_params){ "product", g, &y, 1, &at, NULL, 0 }, &program));
        rf_program_stats stats;
        CHECK(rf_program_stats_get(program, 512, &stats));
        CHECK(rf_program_stats_get(program, 2048, &stats));
        rf_program_destroy(&program);
    }
    rf_gpu_buffer_destroy(&state);
    rf_graph_destroy(&g);
    rf_exec_destroy(&exec);
}

TEST(test_log)
{
    for (uint32_t i = 0; i < num_devices; i++) {
        memset(&logged, 0, sizeof(logged));
        rf_log_set(keep_log, NULL, RF_LOG_WARN);
        prepare_product(devices[i], true);
        assert_int_equal(logged.warnings, 2); /* one for each shape */
        assert_int_equal(logged.debug, 0);
        assert_non_null(strstr(logged.warning, "matmul(f32 [2048,128], f32 [128,32])"));
        assert_non_null(strstr(logged.warning, rf_gpu_info(devices[i])->name));
        assert_non_null(strstr(logged.warning, "naive"));

        memset(&logged, 0, sizeof(logged));
        rf_log_set(keep_log, NULL, RF_LOG_DEBUG);
        prepare_product(devices[i], true);
        assert_true(logged.kernel && logged.debug > 4);
        assert_non_null(strstr(logged.plan, "product, batch 2048"));
        rf_log_set(NULL, NULL, RF_LOG_ERROR);
    }
}

TESTS(programs, open_all, close_all)
