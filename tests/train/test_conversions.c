/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How often a training step in 16 bits converts tensors in passes of their own, on devices that are not here: steps are
 * traced and planned, nothing is compiled or run. The limits are what steps have now: whoever needs fewer lowers them.
 * Argument -v: also prints which operations convert.
 */
#include "../../examples/gpt/model.h"
#include "../../examples/resnet/model.h"

#include <string.h>

#include "../../tools/net.h"
#include "../support/expect.h"
#include "../support/invented.h"
#include "exec/internal.h"
#include "ops/kit.h"
#include "ops/ops.h"
#include "replica/internal.h"
#include "step/function.h"
#include "step/signature.h"
#include "tests/room.h"

enum { BATCH = 8, BLOCK = 16, VOCABULARY = 96 };

static bool verbose;

/* ---- devices ---- */

enum { MATRICES, PLAIN, SOFTWARE, NUM_DEVICES };
static const struct {
    const char *name;
    rf_device_caps caps;
} devices[NUM_DEVICES] = {
    [MATRICES] = { "a GPU with matrices",
                   { .driver = RF_DRIVER_AMD,
                     .compute_units = 96,
                     .int64 = true,
                     .fp16 = true,
                     .matrix_f16 = { 16, 16, 16, 32 },
                     .matrix_bf16 = { 16, 16, 16, 32 },
                     SUBGROUPS(64),
                     LIMITS(1024, UINT32_MAX, 1u << 27, 256) } },
    [PLAIN] = { "a GPU without",
                { .driver = RF_DRIVER_INTEL,
                  .compute_units = 24,
                  .int64 = true,
                  SUBGROUPS(32),
                  LIMITS(1024, 1u << 30, 1u << 27, 64) } },
    [SOFTWARE] = { "lavapipe",
                   { .driver = RF_DRIVER_LAVAPIPE,
                     .is_cpu = true,
                     .int64 = true,
                     .compiles_at_dispatch = true,
                     .host_visible = true,
                     .compute_units = 2,
                     .max_loop_iterations = 32767,
                     SUBGROUPS(8),
                     LIMITS(1024, 1u << 27, 1u << 27, 64) } },
};

/* ---- networks ---- */

/* Its model belongs to the network of an example where there is one. */
typedef struct network {
    bench_net net;
    resnet *images;
    gpt *text;
    int32_t tokens[BATCH * BLOCK];
} network;

static void take_images(network *n)
{
    CHECK(bench_net_make_batch(&n->net, BATCH, RF_SHAPE(-1, BENCH_SIDE, BENCH_SIDE, 1), BENCH_CLASSES));
}

static void create_cnn(network *n, rf_dtype type)
{
    (void)type;
    const rf_shape image = RF_SHAPE(BENCH_SIDE, BENCH_SIDE, 1);
    rf_layer *layers[BENCH_CNN_LAYERS] = { NULL };
    CHECK(bench_cnn_layers(layers));
    CHECK(rf_model_create_sequential(n->net.strategy, layers, BENCH_CNN_LAYERS, &image, &n->net.model));
    take_images(n);
}

static void create_resnet(network *n, rf_dtype type)
{
    (void)type;
    CHECK(resnet_create(n->net.strategy, &resnet_8, RF_SHAPE(BENCH_SIDE, BENCH_SIDE, 1), &n->images));
    n->net.model = resnet_model(n->images);
    take_images(n);
}

static void create_gpt(network *n, rf_dtype type)
{
    const gpt_config config = {
        .layers = 2, .heads = 2, .width = 64, .block = BLOCK, .vocabulary = VOCABULARY, .compute = type
    };
    const rf_array tokens = { RF_I32, RF_SHAPE(BATCH, BLOCK), n->tokens };
    CHECK(gpt_create(n->net.strategy, &config, &n->text));
    n->net.model = gpt_model(n->text);
    n->net.batch = (rf_element){ 2, { tokens, tokens } };
}

static void destroy_network(network *n)
{
    rf_function_destroy(&n->net.step);
    if (n->images || n->text) n->net.model = NULL;
    resnet_destroy(&n->images);
    gpt_destroy(&n->text);
    bench_net_destroy(&n->net);
}

/* ---- passes ---- */

typedef struct passes {
    uint32_t casts;       /* operations that convert and do nothing else */
    uint32_t conversions; /* for and after kernels that know f32 alone */
    uint32_t nodes;       /* which have such kernels */
    uint32_t dispatches;  /* of all */
} passes;

static uint32_t count_plan(const rf_kernel *kernel, const rf_op_call *call, const rf_device_caps *caps)
{
    rf_kernel_plan plan = { 0 };
    CHECK(rf_kernel_plan_make(kernel, call, caps, &plan));
    const uint32_t count = plan.count;
    rf_kernel_plan_free(&plan);
    return count;
}

static void count_call(const rf_op_call *call, const rf_device_caps *caps, passes *p)
{
    char text[512];
    const rf_kernel *kernel = rf_best_kernel(call, caps);
    if (!kernel) fail_msg("%s: no kernel", call->op->name);
    const uint32_t count = count_plan(kernel, call, caps);
    p->dispatches += count;
    const bool widens = rf_kernel_widens(kernel, call, caps);
    if (call->op == &rf_op_cast) p->casts++;
    if (widens) {
        const rf_op_call wide = rf_call_widened(call);
        p->conversions += count - count_plan(kernel, &wide, caps);
        p->nodes++;
    }
    if (verbose && (widens || call->op == &rf_op_cast))
        print_message("    %-14s %s\n", kernel->name, rf_call_format(call, text, sizeof(text)));
}

static passes count_passes(const rf_program *program, const rf_device_caps *caps)
{
    passes p = { 0 };
    const rf_graph *g = program->graph;
    for (rf_node n = 0; n < g->nodes.count; n++) {
        const rf_node_info *node = &g->nodes.items[n];
        rf_op_call call;
        if (node->dead || !program->runs[n] || node->op->flags & RF_OP_VIEW) continue;
        rf_graph_call(g, n, &call);
        count_call(&call, caps, &p);
    }
    return p;
}

/* The most casts, and conversions on each device, in f16 and in bf16. */
static const struct {
    const char *name;
    void (*create)(network *n, rf_dtype type);
    rf_optimizer_params optimizer;
    uint32_t casts, conversions[NUM_DEVICES][2];
} networks[] = {
    { "CNN", create_cnn, { .kind = RF_OPTIMIZER_ADAM }, 2, { { 0, 0 }, { 2, 2 }, { 18, 32 } } },
    { "ResNet-8", create_resnet, { .kind = RF_OPTIMIZER_SGD, .momentum = 0.9 }, 3, { { 1, 1 }, { 3, 3 }, { 36, 82 } } },
    /* Scores of attention and their gradients are f32: three casts a layer. */
    { "GPT", create_gpt, { .kind = RF_OPTIMIZER_ADAM }, 10, { { 0, 0 }, { 0, 0 }, { 78, 135 } } },
};

/* The step's program, as the first run would make it. */
static rf_program *trace_step(network *n)
{
    rf_signature *signature;
    rf_program *program;
    CHECK(rf_signature_find(n->net.step, &n->net.batch, BATCH, &signature));
    CHECK(rf_signature_prepare(n->net.step, signature));
    CHECK(rf_signature_program(n->net.step, signature, 0, &program));
    return program;
}

static void check_network(size_t which, rf_dtype type)
{
    network n = { 0 };
    CHECK(bench_net_create_strategy(&n.net, "llvmpipe", type));
    networks[which].create(&n, type);
    CHECK(bench_net_create_optimizer(&n.net, &networks[which].optimizer, type));
    CHECK(bench_net_create_step(&n.net));
    const rf_program *program = trace_step(&n);
    for (uint32_t d = 0; d < NUM_DEVICES; d++) {
        const passes p = count_passes(program, &devices[d].caps);
        print_message("%s in %s on %s: %u of %u dispatches convert for %u operations, %u casts\n", networks[which].name,
                      rf_dtype_name(type), devices[d].name, p.conversions, p.dispatches, p.nodes, p.casts);
        const uint32_t most = networks[which].conversions[d][type == RF_BF16];
        if (p.conversions > most) fail_msg("at most %u", most);
        if (p.casts > networks[which].casts) fail_msg("at most %u casts", networks[which].casts);
        assert_in_range(p.dispatches, 10, 1000);
    }
    destroy_network(&n);
}

TEST(steps_convert_little)
{
    for (size_t i = 0; i < sizeof(networks) / sizeof(networks[0]); i++) {
        check_network(i, RF_F16);
        check_network(i, RF_BF16);
    }
}

TEST_PROGRAM(conversions)
{
    verbose = argc > 1 && strcmp(argv[1], "-v") == 0;
    return room_tests_run(own_tests, NULL, NULL);
}
