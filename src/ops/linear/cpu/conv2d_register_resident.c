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
#include "ops/linear/cpu/kernels.h"
#include "ops/linear/cpu/model.h"
#include "rf_shaders.h"

enum { SUMMANDS = 32, COLUMNS = 32, EIGHT = 8 /* of shaders/linear/cpu/register_resident.glsl */ };

/* The convolution of conv2d, or that a data gradient is; of the kernel, in eights: its tap 0, from tap to tap. */
typedef struct resident_gather {
    rf_conv_geometry conv;
    int64_t lines, b_base, b_tap;
    uint32_t activation;
    bool bias;
} resident_gather;

static resident_gather gather_of(const rf_op_call *call, rf_linear_role role)
{
    const bool forward = role == RF_ROLE_FORWARD;
    const rf_conv_geometry own = rf_conv_geometry_of(call, role), g = forward ? own : rf_conv_geometry_turned(&own);
    const int64_t tap = g.cin * g.cout / EIGHT;
    return (resident_gather){ .conv = g,
                              .lines = g.n * g.oh,
                              .b_base = forward ? 0 : (g.kh * g.kw - 1) * tap,
                              .b_tap = forward ? tap : -tap,
                              .activation =
                                  forward ? ((const rf_conv2d_attr *)call->attr)->activation : RF_ACTIVATION_LINEAR,
                              .bias = forward && call->n_in == 3 };
}

/* The operand that is held is loaded anew for each pass over a workgroup's rows, which takes as long as some 25 of
 * them. */
enum { FEWEST_ROWS = 256, FEWEST_PIXELS = 4 * SUMMANDS, WANTED_GROUPS = 32 };

/* A loop's last turn only finds that it is over. */
enum { HOLD_LOOPS = SUMMANDS + 1, PLACE_LOOPS = EIGHT + 1 };

static int64_t loop_limit(const rf_device_caps *caps)
{
    return rf_loop_limit(caps) < INT32_MAX ? (int64_t)rf_loop_limit(caps) : INT32_MAX;
}

/* Times that a workgroup of register_resident_gather.comp goes through its rows. */
static int64_t count_passes(const resident_gather *g)
{
    return g->conv.kh * g->conv.kw * (g->conv.cin / SUMMANDS);
}

/* Iterations of an invocation: the passes, and two more to begin and to end. */
static int64_t gather_loops(const resident_gather *g, int64_t lines)
{
    return (count_passes(g) + 2) * (lines * g->conv.ow + HOLD_LOOPS + 2);
}

/* Lines of a workgroup, and the most that the device can loop over. */
static int64_t split_lines(const resident_gather *g, const rf_device_caps *caps)
{
    const int64_t fewest = (FEWEST_ROWS + g->conv.ow - 1) / g->conv.ow;
    const int64_t longest = (loop_limit(caps) / (count_passes(g) + 2) - HOLD_LOOPS - 2) / g->conv.ow;
    if (longest * g->conv.ow < FEWEST_ROWS) return 0;
    const int64_t parts =
        rf_linear_parts((uint64_t)(g->conv.cout / COLUMNS), WANTED_GROUPS, g->lines, fewest, (uint64_t)longest);
    return (g->lines + parts - 1) / parts;
}

rf_result rf_resident_plan(const rf_op_call *call, const rf_device_caps *caps, const void *data, rf_kernel_plan *plan)
{
    const rf_piece_kernel *kernel = data;
    const resident_gather g = gather_of(call, kernel->role);
    rf_lanes_plan p = { kernel->set, call, caps, plan };
    rf_binding weights = rf_linear_input(call, 1);
    if (kernel->role == RF_ROLE_DATA)
        RF_TRY(rf_lanes_pack(&p, &weights, (const int64_t[]){ 1, g.conv.kh * g.conv.kw, g.conv.cin, g.conv.cout },
                             (const int64_t[]){ 0, g.conv.cin * g.conv.cout, 1, g.conv.cin }));
    const int64_t split = split_lines(&g, caps), tiles = g.conv.cout / COLUMNS;
    const int64_t line_tiles = (g.lines + split - 1) / split, total = line_tiles * tiles;
    rf_dispatch *d = rf_kernel_plan_add(plan, &rf_shader_held_gather, (uint64_t)gather_loops(&g, split));
    if (!d) return RF_ERROR_OUT_OF_HOST_MEMORY;
    rf_dispatch_spec(d, kernel->set->lanes);
    rf_dispatch_spec(d, g.activation);
    rf_dispatch_spec(d, g.bias);
    const rf_push_register_resident_gather push = { .total = (int32_t)total,
                                                    .line_tiles = (int32_t)line_tiles,
                                                    .tiles = (int32_t)tiles,
                                                    .lines = (int32_t)g.lines,
                                                    .split = (int32_t)split,
                                                    .eights = (int32_t)g.conv.cin / EIGHT,
                                                    .high = (int32_t)g.conv.kh,
                                                    .wide = (int32_t)g.conv.kw,
                                                    .h = (int32_t)g.conv.h,
                                                    .w = (int32_t)g.conv.w,
                                                    .out_h = (int32_t)g.conv.oh,
                                                    .out_w = (int32_t)g.conv.ow,
                                                    .step_y = (int32_t)g.conv.sy,
                                                    .step_x = (int32_t)g.conv.sx,
                                                    .dilation_y = (int32_t)g.conv.dy,
                                                    .dilation_x = (int32_t)g.conv.dx,
                                                    .pad_y = (int32_t)g.conv.pt,
                                                    .pad_x = (int32_t)g.conv.pl,
                                                    .b_base = (int32_t)g.b_base,
                                                    .b_tap = (int32_t)g.b_tap };
    rf_dispatch_push(d, &push, sizeof(push));
    rf_dispatch_groups(d, caps, (uint64_t)total);
    rf_linear_bind(d, rf_linear_input(call, 0), RF_VIEW_STORAGE, false);
    rf_linear_bind(d, weights, RF_VIEW_STORAGE, false);
    rf_linear_bind(d, g.bias ? rf_linear_input(call, 2) : weights, RF_VIEW_STORAGE, false);
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
        rf_linear_parts((uint64_t)(g->cout / COLUMNS), WANTED_GROUPS, pixels, FEWEST_PIXELS, (uint64_t)longest);
    return (int64_t)rf_align_up(rf_div_up((uint64_t)pixels, (uint64_t)parts), SUMMANDS);
}

rf_result rf_resident_filter_plan(const rf_op_call *call, const rf_device_caps *caps, const void *data,
                                  rf_kernel_plan *plan)
{
    const rf_conv_geometry g = rf_conv_geometry_of(call, RF_ROLE_FILTER);
    const int64_t tiles = g.cout / COLUMNS, pixels = g.n * g.oh * g.ow, split = split_pixels(&g, caps);
    const int64_t parts = (pixels + split - 1) / split;
    const int64_t main_count = (int64_t)rf_desc_count(&call->out[0]);
    const int64_t extra = call->n_out > 1 ? (int64_t)rf_desc_count(&call->out[1]) : 0, stride = main_count + extra;
    rf_dispatch *d =
        rf_kernel_plan_add(plan, &rf_shader_held_grad, (uint64_t)((split / SUMMANDS + 1) * filter_loops(&g)));
    if (!d) return RF_ERROR_OUT_OF_HOST_MEMORY;
    rf_dispatch_spec(d, ((const rf_piece_kernel *)data)->set->lanes);
    const int64_t bias_gradient_at = extra == 0 ? -1 : parts == 1 ? 0 : main_count / EIGHT;
    const rf_push_register_resident_grad push = { .total = (int32_t)(parts * tiles),
                                                  .tiles = (int32_t)tiles,
                                                  .count = (int32_t)pixels,
                                                  .split = (int32_t)split,
                                                  .channels = (int32_t)g.cin,
                                                  .high = (int32_t)g.kh,
                                                  .wide = (int32_t)g.kw,
                                                  .h = (int32_t)g.h,
                                                  .w = (int32_t)g.w,
                                                  .out_h = (int32_t)g.oh,
                                                  .out_w = (int32_t)g.ow,
                                                  .step_y = (int32_t)g.sy,
                                                  .step_x = (int32_t)g.sx,
                                                  .dilation_y = (int32_t)g.dy,
                                                  .dilation_x = (int32_t)g.dx,
                                                  .pad_y = (int32_t)g.pt,
                                                  .pad_x = (int32_t)g.pl,
                                                  .c_split = (int32_t)(stride / EIGHT),
                                                  .bias_gradient_at = (int32_t)bias_gradient_at };
    rf_dispatch_push(d, &push, sizeof(push));
    rf_dispatch_groups(d, caps, (uint64_t)(parts * tiles));
    rf_linear_bind(d, rf_linear_input(call, 0), RF_VIEW_STORAGE, false);
    rf_linear_bind(d, rf_linear_input(call, 1), RF_VIEW_STORAGE, false);
    const rf_linear_sum sum = { .partial = rf_linear_bind_sums(d, plan, caps, parts, (uint64_t)stride, extra > 0),
                                .parts = parts,
                                .stride = (uint64_t)stride,
                                .count = (uint64_t)stride,
                                .extra = (uint64_t)extra,
                                .columns = g.cout };
    return parts == 1 ? RF_OK : rf_linear_add_sum(plan, call, caps, &sum);
}

/* ---- the choice ---- */

static bool resident_usable(const rf_lanes_set *set, const rf_op_call *call, const rf_device_caps *caps,
                            const rf_conv_geometry *g)
{
    return g->groups == 1 && g->cin % SUMMANDS == 0 && g->cout % COLUMNS == 0 &&
           rf_lanes_usable(set, call, caps, g->groups);
}

double rf_resident_seconds(const rf_op_call *call, const rf_device_caps *caps, const void *data)
{
    const rf_piece_kernel *kernel = data;
    const rf_conv_geometry g = rf_conv_geometry_of(call, kernel->role);
    if (!resident_usable(kernel->set, call, caps, &g)) return 0;
    if (kernel->role == RF_ROLE_DATA && (g.sy != 1 || g.sx != 1)) return 0;
    const resident_gather product = gather_of(call, kernel->role);
    const int64_t split = split_lines(&product, caps);
    if (split == 0) return 0;
    const double passes = (double)count_passes(&product), rows = (double)(split * product.conv.ow);
    return rf_cpu_resident_seconds(kernel->set, call, caps, &g, rows, passes, passes, true);
}

double rf_resident_filter_seconds(const rf_op_call *call, const rf_device_caps *caps, const void *data)
{
    const rf_lanes_set *set = ((const rf_piece_kernel *)data)->set;
    const rf_conv_geometry g = rf_conv_geometry_of(call, RF_ROLE_FILTER);
    const int64_t split = resident_usable(set, call, caps, &g) ? split_pixels(&g, caps) : 0;
    if (split == 0) return 0;
    const uint64_t parts = rf_div_up((uint64_t)(g.n * g.oh * g.ow), (uint64_t)split);
    const uint64_t count = rf_desc_count(&call->out[0]) + (uint64_t)g.cout;
    if (parts * count * sizeof(float) > caps->max_storage_range) return 0;
    return rf_cpu_resident_seconds(set, call, caps, &g, (double)(g.kh * g.kw * g.cin), 1, 2, false);
}
