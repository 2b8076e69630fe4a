/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Convolutions and their gradients for drivers whose subgroup is a quad:
 * shaders/linear/cpu/register_resident_gather.comp and register_resident_grad.comp, which hold one operand of 32
 * summands by 32 columns while they go through rows of the other.
 *
 * Rounding errors. A result's summands are added one after the other, as in the direct form: what is kept in memory
 * between two passes has been rounded already, so the bound is the same.
 */
#include "ops/linear/common/conv2d.h"
#include "rf_shaders.h"

enum { SUMMANDS = 32, COLUMNS = 32, EIGHT = 8 /* of shaders/include/linear_held.glsl */ };

/* The convolution of conv2d, or that a data gradient is; of the kernel, in eights: its tap 0, from tap to tap. */
typedef struct held_gather {
    rf_conv_geometry conv;
    int64_t lines, b_base, b_tap;
    uint32_t activation;
    bool bias;
} held_gather;

static held_gather gather_of(const rf_op_call *call)
{
    const bool forward = call->op == &rf_op_conv2d;
    const rf_conv_geometry own = rf_conv_geometry_of(call), g = forward ? own : rf_conv_geometry_turned(&own);
    const int64_t tap = g.cin * g.cout / EIGHT;
    return (held_gather){ .conv = g,
                          .lines = g.n * g.oh,
                          .b_base = forward ? 0 : (g.kh * g.kw - 1) * tap,
                          .b_tap = forward ? tap : -tap,
                          .activation =
                              forward ? ((const rf_conv2d_attr *)call->attr)->activation : RF_ACTIVATION_LINEAR,
                          .bias = forward && call->n_in == 3 };
}

/* What is held is loaded anew for each pass over a workgroup's rows, which takes as long as some 25 of them. */
enum { FEWEST_ROWS = 256, FEWEST_PIXELS = 4 * SUMMANDS, WANTED_GROUPS = 32 };

/* A loop's last turn only finds that it is over. */
enum { HOLD_LOOPS = SUMMANDS + 1, PLACE_LOOPS = EIGHT + 1 };

static int64_t loop_limit(const rf_device_caps *caps)
{
    return rf_loop_limit(caps) < INT32_MAX ? (int64_t)rf_loop_limit(caps) : INT32_MAX;
}

/* Times that a workgroup of register_resident_gather.comp goes through its rows. */
static int64_t count_passes(const held_gather *g)
{
    return g->conv.kh * g->conv.kw * (g->conv.cin / SUMMANDS);
}

/* Iterations of an invocation: the passes, and two more to begin and to end. */
static int64_t gather_loops(const held_gather *g, int64_t lines)
{
    return (count_passes(g) + 2) * (lines * g->conv.ow + HOLD_LOOPS + 2);
}

/* Lines of a workgroup, and the most that the device can loop over. */
static int64_t split_lines(const held_gather *g, const rf_device_caps *caps)
{
    const int64_t fewest = (FEWEST_ROWS + g->conv.ow - 1) / g->conv.ow;
    const int64_t longest = (loop_limit(caps) / (count_passes(g) + 2) - HOLD_LOOPS - 2) / g->conv.ow;
    if (longest * g->conv.ow < FEWEST_ROWS) return 0;
    const int64_t parts =
        rf_lanes_parts((uint64_t)(g->conv.cout / COLUMNS), WANTED_GROUPS, g->lines, fewest, (uint64_t)longest);
    return (g->lines + parts - 1) / parts;
}

static rf_result plan_gather(rf_lanes_plan *p)
{
    const held_gather g = gather_of(p->call);
    rf_binding kernel = rf_lanes_input(p->call, 1);
    if (p->call->op != &rf_op_conv2d)
        RF_TRY(rf_lanes_pack(p, &kernel, (const int64_t[]){ 1, g.conv.kh * g.conv.kw, g.conv.cin, g.conv.cout },
                             (const int64_t[]){ 0, g.conv.cin * g.conv.cout, 1, g.conv.cin }));
    const int64_t split = split_lines(&g, p->caps), tiles = g.conv.cout / COLUMNS;
    const int64_t line_tiles = (g.lines + split - 1) / split, total = line_tiles * tiles;
    rf_dispatch *d = rf_kernel_plan_add(p->plan, &rf_shader_held_gather, (uint64_t)gather_loops(&g, split));
    if (!d) return RF_ERROR_OUT_OF_HOST_MEMORY;
    rf_dispatch_spec(d, p->set->lanes);
    rf_dispatch_spec(d, g.activation);
    rf_dispatch_spec(d, g.bias);
    const int32_t push[] = { (int32_t)total,     (int32_t)line_tiles,         (int32_t)tiles,     (int32_t)g.lines,
                             (int32_t)split,     (int32_t)g.conv.cin / EIGHT, (int32_t)g.conv.kh, (int32_t)g.conv.kw,
                             (int32_t)g.conv.h,  (int32_t)g.conv.w,           (int32_t)g.conv.oh, (int32_t)g.conv.ow,
                             (int32_t)g.conv.sy, (int32_t)g.conv.sx,          (int32_t)g.conv.dy, (int32_t)g.conv.dx,
                             (int32_t)g.conv.pt, (int32_t)g.conv.pl,          (int32_t)g.b_base,  (int32_t)g.b_tap };
    rf_dispatch_push(d, push, sizeof(push));
    rf_dispatch_groups(d, p->caps, (uint64_t)total);
    rf_lanes_bind(d, rf_lanes_input(p->call, 0), RF_VIEW_STORAGE, false);
    rf_lanes_bind(d, kernel, RF_VIEW_STORAGE, false);
    rf_lanes_bind(d, g.bias ? rf_lanes_input(p->call, 2) : kernel, RF_VIEW_STORAGE, false);
    rf_bind_whole(d, RF_BIND_OUTPUT, 0);
    return RF_OK;
}

/* Iterations of an invocation of register_resident_grad.comp for 32 pixels. */
static int64_t filter_loops(const rf_conv_geometry *g)
{
    return g->kh * g->kw * (g->cin + 1 + PLACE_LOOPS) + HOLD_LOOPS + PLACE_LOOPS + 1;
}

/* Pixels of a part: whole thirty-twos of them; 0: one is too long for the device. */
static int64_t split_pixels(const rf_conv_geometry *g, const rf_device_caps *caps)
{
    const int64_t pixels = g->n * g->oh * g->ow, longest = (loop_limit(caps) / filter_loops(g) - 1) * SUMMANDS;
    if (longest <= 0) return 0;
    const int64_t parts =
        rf_lanes_parts((uint64_t)(g->cout / COLUMNS), WANTED_GROUPS, pixels, FEWEST_PIXELS, (uint64_t)longest);
    return (int64_t)rf_align_up(rf_div_up((uint64_t)pixels, (uint64_t)parts), SUMMANDS);
}

static rf_result plan_filter(rf_lanes_plan *p)
{
    const rf_conv_geometry g = rf_conv_geometry_of(p->call);
    const int64_t tiles = g.cout / COLUMNS, pixels = g.n * g.oh * g.ow, split = split_pixels(&g, p->caps);
    const int64_t parts = (pixels + split - 1) / split;
    const int64_t main_count = rf_desc_count(&p->call->out[0]);
    const int64_t extra = p->call->n_out > 1 ? rf_desc_count(&p->call->out[1]) : 0, stride = main_count + extra;
    rf_dispatch *d =
        rf_kernel_plan_add(p->plan, &rf_shader_held_grad, (uint64_t)((split / SUMMANDS + 1) * filter_loops(&g)));
    if (!d) return RF_ERROR_OUT_OF_HOST_MEMORY;
    rf_dispatch_spec(d, p->set->lanes);
    const int64_t bias_gradient_at = extra == 0 ? -1 : parts == 1 ? 0 : main_count / EIGHT;
    const int32_t push[] = { (int32_t)(parts * tiles),
                             (int32_t)tiles,
                             (int32_t)pixels,
                             (int32_t)split,
                             (int32_t)g.cin,
                             (int32_t)g.kh,
                             (int32_t)g.kw,
                             (int32_t)g.h,
                             (int32_t)g.w,
                             (int32_t)g.oh,
                             (int32_t)g.ow,
                             (int32_t)g.sy,
                             (int32_t)g.sx,
                             (int32_t)g.dy,
                             (int32_t)g.dx,
                             (int32_t)g.pt,
                             (int32_t)g.pl,
                             (int32_t)(stride / EIGHT),
                             (int32_t)bias_gradient_at };
    rf_dispatch_push(d, push, sizeof(push));
    rf_dispatch_groups(d, p->caps, (uint64_t)(parts * tiles));
    rf_lanes_bind(d, rf_lanes_input(p->call, 0), RF_VIEW_STORAGE, false);
    rf_lanes_bind(d, rf_lanes_input(p->call, 1), RF_VIEW_STORAGE, false);
    if (parts == 1) {
        rf_bind_whole(d, RF_BIND_OUTPUT, 0);
        rf_bind_whole(d, RF_BIND_OUTPUT, extra ? 1 : 0);
        return RF_OK;
    }
    const rf_binding partial = rf_lanes_workspace(p, (uint64_t)(parts * stride) * sizeof(float));
    rf_lanes_bind(d, partial, RF_VIEW_STORAGE, true);
    rf_lanes_bind(d, partial, RF_VIEW_STORAGE, true);
    return rf_lanes_add_sum(p, partial, parts, (uint64_t)stride, (uint64_t)stride, (uint64_t)extra, g.cout,
                            RF_ACTIVATION_LINEAR, false);
}

/* ---- the choice ---- */

/* Seconds of a processor, as measured with SwiftShader: of 32 summands of a row, of loading what is held, of the loads
 * and stores that begin and end a row; of the same 32 summands by lanes4_quad. */
#define ROW_SECONDS 0.22e-6
#define HOLD_SECONDS 6e-6
#define ENDS_SECONDS 0.3e-6 /* with a margin: sums of one tap and few channels were not measured */
#define DIRECT_SECONDS 0.34e-6

static bool held_usable(const rf_lanes_set *set, const rf_op_call *call, const rf_device_caps *caps)
{
    const rf_conv_geometry g = rf_conv_geometry_of(call);
    return g.groups == 1 && g.cin % SUMMANDS == 0 && g.cout % COLUMNS == 0 && rf_lanes_usable(set, call, caps);
}

/* The direct form's, by how much longer that takes. Other compilers keep sums in registers through a loop. */
static double held_score(const rf_lanes_set *set, const rf_kernel *direct, const rf_op_call *call,
                         const rf_device_caps *caps, double faster)
{
    return direct->score(call, caps, direct->data) * (caps->driver == set->favourite ? faster : 0.5);
}

static double score_gather(const rf_lanes_set *set, const rf_op_call *call, const rf_device_caps *caps)
{
    const rf_kernel *direct = call->op == &rf_op_conv2d ? &rf_conv2d_lanes4_quad : &rf_conv2d_data_grad_lanes4_quad;
    const rf_conv_geometry g = rf_conv_geometry_of(call);
    if (!held_usable(set, call, caps)) return RF_SCORE_NONE;
    if (call->op != &rf_op_conv2d && (g.sy != 1 || g.sx != 1)) return RF_SCORE_NONE;
    const held_gather product = gather_of(call);
    const int64_t split = split_lines(&product, caps);
    if (split == 0) return RF_SCORE_NONE;
    const double passes = (double)count_passes(&product), rows = (double)(split * product.conv.ow);
    return held_score(set, direct, call, caps,
                      rows * passes * DIRECT_SECONDS /
                          (rows * (passes * ROW_SECONDS + ENDS_SECONDS) + passes * HOLD_SECONDS));
}

static double score_filter(const rf_lanes_set *set, const rf_op_call *call, const rf_device_caps *caps)
{
    const rf_conv_geometry g = rf_conv_geometry_of(call);
    const int64_t split = held_usable(set, call, caps) ? split_pixels(&g, caps) : 0;
    if (split == 0) return RF_SCORE_NONE;
    const uint64_t parts = rf_div_up((uint64_t)(g.n * g.oh * g.ow), (uint64_t)split);
    if (parts * (uint64_t)(rf_desc_count(&call->out[0]) + g.cout) * sizeof(float) > caps->max_storage_range)
        return RF_SCORE_NONE;
    const double rows = (double)(g.kh * g.kw * g.cin);
    return held_score(set, &rf_conv2d_filter_grad_lanes4_quad, call, caps,
                      rows * DIRECT_SECONDS / (rows * ROW_SECONDS + 2 * HOLD_SECONDS));
}

#define HELD_KERNEL(op, op_score, op_plan)                                                                             \
    RF_LANES_FUNCTIONS(op, lanes4_quad, _held, op_score, op_plan)                                                      \
    const rf_kernel rf_##op##_lanes4_quad_held = { .name = "lanes4_quad_held",                                         \
                                                   .score = op##_lanes4_quad_held_score,                               \
                                                   .plan = op##_lanes4_quad_held_plan,                                 \
                                                   .cuts_up = true }

HELD_KERNEL(conv2d, score_gather, plan_gather);
HELD_KERNEL(conv2d_data_grad, score_gather, plan_gather);
HELD_KERNEL(conv2d_filter_grad, score_filter, plan_filter);
