/* SPDX-License-Identifier: Apache-2.0 */
#include "ops/linear/cpu/lanes.h"
#include "ops/linear/cpu/model.h"

#include "rf_shaders.h"

/* The quad shaders, which are in place of others in a set, have the same push constants. */
_Static_assert(sizeof(rf_push_quad_gather) == sizeof(rf_push_lanes_gather) &&
                   sizeof(rf_push_quad_grad) == sizeof(rf_push_lanes_grad),
               "push constants of quad_gather.comp and quad_grad.comp");

/* ---- operands ---- */

static rf_bind_view view_of(const rf_lanes_set *set, bool scalar)
{
    if (!set->texel) return RF_VIEW_STORAGE;
    return scalar ? RF_VIEW_TEXEL_R32F : RF_VIEW_TEXEL_RGBA32F;
}

rf_result rf_lanes_pack(rf_lanes_plan *p, rf_binding *io, const int64_t dim[4], const int64_t s[4])
{
    const int64_t fours = rf_lanes_fours(dim[3]);
    const uint64_t total = (uint64_t)(dim[0] * dim[1] * dim[2] * fours);
    const rf_magic d1 = rf_magic_make((uint32_t)dim[1]), d2 = rf_magic_make((uint32_t)dim[2]),
                   d3 = rf_magic_make((uint32_t)fours);
    const rf_push_linear_pack push = { .total = (uint32_t)total,
                                       .d1 = (uint32_t)dim[1],
                                       .d2 = (uint32_t)dim[2],
                                       .d3 = (uint32_t)fours,
                                       .magic1 = d1.magic,
                                       .magic2 = d2.magic,
                                       .magic3 = d3.magic,
                                       .shift1 = d1.shift,
                                       .shift2 = d2.shift,
                                       .shift3 = d3.shift,
                                       .s0 = (int32_t)s[0],
                                       .s1 = (int32_t)s[1],
                                       .s2 = (int32_t)s[2],
                                       .s3 = (int32_t)s[3],
                                       .valid = (int32_t)dim[3] };
    const rf_binding to = rf_linear_workspace(p->plan, p->caps, total * 16);
    rf_dispatch *d =
        rf_kernel_plan_add(p->plan, p->set->texel ? &rf_shader_linear_pack_texel : &rf_shader_linear_pack, RF_NO_LOOPS);
    if (!d) return RF_ERROR_OUT_OF_HOST_MEMORY;
    rf_dispatch_spec(d, rf_local_size(p->caps, 128));
    rf_linear_bind(d, *io, view_of(p->set, true), false);
    rf_linear_bind(d, to, RF_VIEW_STORAGE, true);
    rf_dispatch_push(d, &push, sizeof(push));
    rf_dispatch_items(d, p->caps, total);
    d->concurrent = p->plan->count > 1; /* packs stand first and touch nothing in common */
    *io = to;
    return RF_OK;
}

rf_result rf_lanes_pad_rows(rf_lanes_plan *p, rf_binding *io, int64_t rows, int64_t columns)
{
    if (columns % 4 == 0) return RF_OK;
    return rf_lanes_pack(p, io, (const int64_t[]){ 1, 1, rows, columns }, (const int64_t[]){ 0, 0, columns, 1 });
}

/* ---- the products ---- */

/* The most iterations of an invocation beside those over summands: the quad kernels' last pass over a tile. */
enum { SHORT_LOOPS = 400 };

uint32_t rf_lanes_row_width(int64_t elements)
{
    return elements % 8 == 0 ? 2 : elements % 4 == 0;
}

static int32_t four_bytes(int64_t a, int64_t b, int64_t c, int64_t d)
{
    return (int32_t)((uint32_t)a | (uint32_t)b << 8 | (uint32_t)c << 16 | (uint32_t)d << 24);
}

static rf_dispatch *add_product(rf_lanes_plan *p, const rf_shader *shader, uint64_t loops, uint32_t activation,
                                bool bias)
{
    rf_dispatch *d = rf_kernel_plan_add(p->plan, shader, loops + SHORT_LOOPS);
    if (!d) return NULL;
    rf_dispatch_spec(d, p->set->lanes);
    rf_dispatch_spec(d, activation);
    rf_dispatch_spec(d, bias);
    return d;
}

/* Binds operands, bias and sums of a product, and adds up those of several parts. */
static rf_result finish_product(rf_lanes_plan *p, rf_dispatch *d, rf_binding a, rf_binding b, bool scalar,
                                rf_linear_sum sum)
{
    rf_linear_bind(d, a, view_of(p->set, scalar), false);
    rf_linear_bind(d, b, view_of(p->set, false), false);
    rf_linear_bind(d, sum.bias ? rf_linear_input(p->call, 2) : b, RF_VIEW_STORAGE, false);
    sum.partial = rf_linear_bind_sums(d, p->plan, p->caps, sum.parts, sum.stride, sum.extra ? 1 : 0);
    return sum.parts == 1 ? RF_OK : rf_linear_add_sum(p->plan, p->call, p->caps, &sum);
}

/* Fraction of the taps along one axis that fall on a pixel of a, over all output pixels. */
static double useful_taps(int64_t out, int64_t taps, int64_t step, int64_t dilation, int64_t pad, int64_t up,
                          int64_t in)
{
    int64_t useful = 0;
    for (int64_t o = 0; o < out; o++)
        for (int64_t t = 0; t < taps; t++) {
            const int64_t at = o * step + t * dilation - pad;
            useful += at >= 0 && at % up == 0 && at / up < in;
        }
    return (double)useful / (double)(out * taps);
}

/* Rows in the order of pixels let a tile skip taps that are padding for all of it: worth the scattered loads where
 * there are many, and a tile has the same pixel of as many images as it has rows, or nearly. */
static bool images_first(const rf_lanes_set *set, const rf_lanes_gather *g, const rf_lanes_tile *tile)
{
    if (set->quad && !g->b_transposed) return false; /* quad_gather.comp does not */
    /* Images of one pixel come in the same order either way: a plain product shares the pipeline of data gradients. */
    if (g->b_transposed && g->conv.oh * g->conv.ow * g->conv.kh * g->conv.kw == 1) return true;
    if (g->scalar || g->conv.kh * g->conv.kw == 1 || g->conv.n * 4 < tile->rows * 3) return false;
    return useful_taps(g->conv.oh, g->conv.kh, g->conv.sy, g->conv.dy, g->conv.pt, g->upy, g->conv.h) *
               useful_taps(g->conv.ow, g->conv.kw, g->conv.sx, g->conv.dx, g->conv.pl, g->upx, g->conv.w) <
           0.85;
}

/* Iterations of the loops over taps and channels (loads); a kernel of single floats takes three at a time. */
static uint64_t gather_loops(int64_t taps, int64_t channels, bool scalar)
{
    return (uint64_t)(scalar ? taps * channels / 3 + 2 : taps * (channels + 2) + 1);
}

/* Channels of each tap that one invocation may add up. */
static int64_t longest_gather(const rf_device_caps *caps, int64_t taps)
{
    const uint64_t limit = rf_loop_limit(caps) < INT32_MAX ? rf_loop_limit(caps) : INT32_MAX;
    const int64_t fits = ((int64_t)limit - SHORT_LOOPS - 1) / taps - 2, half = (int64_t)limit / 2;
    return fits < half ? fits : half; /* half: rounding errors grow with the sums */
}

bool rf_lanes_gather_fits(const rf_op_call *call, const rf_device_caps *caps, int64_t taps, int64_t channels,
                          bool scalar)
{
    if (scalar) return gather_loops(taps, channels, true) + SHORT_LOOPS <= rf_loop_limit(caps);
    const int64_t longest = longest_gather(caps, taps);
    if (longest < 1) return false;
    const uint64_t parts = rf_div_up((uint64_t)channels, (uint64_t)longest);
    return parts == 1 || parts * (rf_tensor_bytes(&call->out[0]) + 32) <= caps->max_storage_range;
}

rf_result rf_lanes_add_gather(rf_lanes_plan *p, const rf_lanes_gather *g, rf_binding a, rf_binding b)
{
    const rf_lanes_set *set = p->set;
    const int64_t rows = g->conv.n * g->conv.oh * g->conv.ow;
    const rf_lanes_tile *shapes = g->scalar         ? set->gather_scalar
                                  : g->b_transposed ? set->gather_transposed
                                                    : set->gather;
    const rf_lanes_tile *tile = rf_lanes_choose(set, shapes, rows, g->columns);
    const int64_t row_tiles = (int64_t)rf_div_up((uint64_t)rows, tile->rows);
    const int64_t column_tiles = (int64_t)rf_div_up((uint64_t)g->columns, tile->columns);
    const uint64_t tiles = (uint64_t)(row_tiles * column_tiles * g->z.count);
    const uint64_t count = rf_tensor_bytes(&p->call->out[0]) / sizeof(float), stride = rf_align_up(count, 8);
    const int64_t taps = g->conv.kh * g->conv.kw;
    const uint64_t longest = (uint64_t)longest_gather(p->caps, taps);
    int64_t parts = g->scalar   ? 1
                    : taps == 1 ? rf_linear_parts(tiles, 4, g->channels, 64, longest)
                                : (int64_t)rf_div_up((uint64_t)g->channels, longest);
    const int64_t split = (int64_t)rf_div_up((uint64_t)g->channels, (uint64_t)parts);
    parts = (int64_t)rf_div_up((uint64_t)g->channels, (uint64_t)split);

    rf_dispatch *d = add_product(p, tile->shader, gather_loops(taps, split, g->scalar), g->activation, g->bias);
    if (!d) return RF_ERROR_OUT_OF_HOST_MEMORY;
    const uint32_t width = rf_lanes_row_width(g->columns | g->c_row | g->z.c), widest = tile->columns / 4;
    rf_dispatch_spec(d, width < widest ? width : widest);
    rf_dispatch_spec(d, g->upy > 1 || g->upx > 1);
    rf_dispatch_spec(d, images_first(set, g, tile));
    const uint64_t total = tiles * (uint64_t)parts;
    const rf_push_lanes_gather push = { .total = (int32_t)total,
                                        .row_tiles = (int32_t)row_tiles,
                                        .column_tiles = (int32_t)column_tiles,
                                        .rows = (int32_t)rows,
                                        .columns = (int32_t)g->columns,
                                        .channels = (int32_t)g->channels,
                                        .taps = rf_lanes_pair(g->conv.kh, g->conv.kw),
                                        .h = (int32_t)g->conv.h,
                                        .w = (int32_t)g->conv.w,
                                        .pixels = (int32_t)(g->conv.oh * g->conv.ow),
                                        .width = (int32_t)g->conv.ow,
                                        .steps = four_bytes(g->conv.sy, g->conv.sx, g->upy, g->upx),
                                        .dilation = rf_lanes_pair(g->conv.dy, g->conv.dx),
                                        .padding = rf_lanes_pair(g->conv.pt, g->conv.pl),
                                        .a_pixel = (int32_t)g->a_pixel,
                                        .b_base = (int32_t)g->b_base,
                                        .b_tap = (int32_t)g->b_tap,
                                        .b_row = (int32_t)g->b_row,
                                        .b_last = (int32_t)g->b_last,
                                        .c_row = (int32_t)g->c_row,
                                        .z_dim_1 = (int32_t)g->z.dim_1,
                                        .z_dim_2 = (int32_t)g->z.dim_2,
                                        .a_z0 = (int32_t)g->z.a[0],
                                        .a_z1 = (int32_t)g->z.a[1],
                                        .a_z2 = (int32_t)g->z.a[2],
                                        .b_z0 = (int32_t)g->z.b[0],
                                        .b_z1 = (int32_t)g->z.b[1],
                                        .b_z2 = (int32_t)g->z.b[2],
                                        .c_z = (int32_t)g->z.c,
                                        .bias_z = (int32_t)g->z.bias,
                                        .split = (int32_t)split,
                                        .c_split = (int32_t)stride };
    rf_dispatch_push(d, &push, sizeof(push));
    rf_dispatch_groups(d, p->caps, total);
    return finish_product(p, d, a, b, g->scalar,
                          (rf_linear_sum){ .parts = parts,
                                           .stride = stride,
                                           .count = count,
                                           .columns = g->c_row,
                                           .activation = g->activation,
                                           .bias = g->bias });
}

rf_result rf_lanes_add_grad(rf_lanes_plan *p, const rf_lanes_grad *g, rf_binding a, rf_binding b)
{
    const rf_lanes_set *set = p->set;
    const uint64_t rows = (uint64_t)(g->conv.kh * g->conv.kw * g->loads) * (g->scalar ? 1 : 4);
    const int64_t pixels = g->conv.n * g->conv.oh * g->conv.ow;
    const rf_lanes_tile *tile = g->scalar ? rf_lanes_choose(set, set->grad_scalar, (int64_t)rows, g->columns)
                                          : rf_lanes_choose_grad(set, (int64_t)rows, g->columns, pixels);
    const int64_t row_tiles = (int64_t)rf_div_up(rows, tile->rows);
    const int64_t column_tiles = (int64_t)rf_div_up((uint64_t)g->columns, tile->columns);
    const uint64_t tiles = (uint64_t)(row_tiles * column_tiles * g->z.count);
    const uint64_t extra = g->bias_gradient ? rf_tensor_bytes(&p->call->out[1]) / sizeof(float) : 0;
    const uint64_t main_count = rf_tensor_bytes(&p->call->out[0]) / sizeof(float);
    const uint64_t stride = rf_align_up(main_count + extra, 4);
    int64_t parts = rf_linear_parts(tiles, 32, pixels, 128, rf_loop_limit(p->caps) / 2 * 4);
    const int64_t split = (int64_t)rf_div_up(rf_div_up((uint64_t)pixels, (uint64_t)parts), 4) * 4;
    parts = (int64_t)rf_div_up((uint64_t)pixels, (uint64_t)split);

    /* A turn takes four pixels or more. */
    rf_dispatch *d =
        add_product(p, tile->shader, (uint64_t)split / 4 + 1, parts > 1 ? 0 : g->activation, parts == 1 && g->bias);
    if (!d) return RF_ERROR_OUT_OF_HOST_MEMORY;
    if (set->texel) rf_dispatch_spec(d, g->columns % 4 == 0 && g->c_row % 4 == 0 && g->z.c % 4 == 0);
    const uint64_t total = tiles * (uint64_t)parts;
    const int32_t bias_gradient_at = parts > 1 ? (int32_t)main_count : 0;
    const rf_push_lanes_grad push = { .total = (int32_t)total,
                                      .row_tiles = (int32_t)row_tiles,
                                      .column_tiles = (int32_t)column_tiles,
                                      .parts = (int32_t)parts,
                                      .taps = rf_lanes_pair(g->conv.kh, g->conv.kw),
                                      .loads = (int32_t)g->loads,
                                      .channels = (int32_t)g->channels,
                                      .columns = (int32_t)g->columns,
                                      .h = (int32_t)g->conv.h,
                                      .w = (int32_t)g->conv.w,
                                      .oh = (int32_t)g->conv.oh,
                                      .ow = (int32_t)g->conv.ow,
                                      .count = (int32_t)pixels,
                                      .stride = rf_lanes_pair(g->conv.sy, g->conv.sx),
                                      .dilation = rf_lanes_pair(g->conv.dy, g->conv.dx),
                                      .padding = rf_lanes_pair(g->conv.pt, g->conv.pl),
                                      .a_pixel = (int32_t)g->a_pixel,
                                      .b_pixel = (int32_t)g->b_pixel,
                                      .c_row = (int32_t)g->c_row,
                                      .split = (int32_t)split,
                                      .z_dim_1 = (int32_t)g->z.dim_1,
                                      .z_dim_2 = (int32_t)g->z.dim_2,
                                      .a_z0 = (int32_t)g->z.a[0],
                                      .a_z1 = (int32_t)g->z.a[1],
                                      .a_z2 = (int32_t)g->z.a[2],
                                      .b_z0 = (int32_t)g->z.b[0],
                                      .b_z1 = (int32_t)g->z.b[1],
                                      .b_z2 = (int32_t)g->z.b[2],
                                      .c_z = (int32_t)g->z.c,
                                      .bias_z = (int32_t)g->z.bias,
                                      .c_split = (int32_t)stride,
                                      .bias_gradient_at = g->bias_gradient ? bias_gradient_at : -1 };
    rf_dispatch_push(d, &push, sizeof(push));
    rf_dispatch_groups(d, p->caps, total);
    return finish_product(p, d, a, b, g->scalar,
                          (rf_linear_sum){ .parts = parts,
                                           .stride = stride,
                                           .count = main_count + extra,
                                           .extra = extra,
                                           .columns = g->columns,
                                           .activation = g->activation,
                                           .bias = g->bias });
}

/* ---- what devices can run ---- */

/* By which factor an operand may grow when its rows, along either axis, are padded to multiples of four. */
static uint64_t input_growth(const rf_op_call *call, uint32_t input, int64_t groups)
{
    const rf_shape *shape = &call->in[input].shape;
    uint64_t worst = 1;
    for (int32_t i = shape->rank > 2 ? shape->rank - 2 : 0; i < shape->rank; i++) {
        const uint64_t factor = shape->dim[i] % 4 == 0 ? 1 : shape->dim[i] < 4 ? 4 : 2;
        if (factor > worst) worst = factor;
    }
    return groups > 1 ? 4 : worst;
}

bool rf_lanes_usable(const rf_lanes_set *set, const rf_op_call *call, const rf_device_caps *caps, int64_t groups)
{
    if (caps->subgroup_size != set->lanes || !caps->full_subgroups) return false;
    if (set->texel && !rf_few_lanes(caps)) return false;
    if (set->quad && !caps->subgroup_quad) return false;
    if (set->shuffle && !caps->int64) return false; /* write_rows.glsl */
    if (set->shuffle ? !caps->subgroup_shuffle : !caps->subgroup_ballot) return false;
    for (uint32_t i = 0; i < call->n_in; i++) {
        if (call->op->shape_only >> i & 1) continue;
        const uint64_t bytes = rf_tensor_bytes(&call->in[i]) * input_growth(call, i, groups);
        if (bytes > caps->max_storage_range) return false;
        if (set->texel && bytes / 4 > caps->max_texel_elements)
            return false; /* a texel of the scalar kernels is a float */
    }
    for (uint32_t i = 0; i < call->n_out; i++)
        if (rf_tensor_bytes(&call->out[i]) > caps->max_storage_range) return false;
    return true;
}

/* ---- sets ---- */

#define TILE(name, rows, columns)                                                                                      \
    {                                                                                                                  \
        &rf_shader_##name, rows, columns                                                                               \
    }
/* `one`: columns of a tile with four for each lane; of gradients `narrow` has these. */
#define SHADERS(set, height, one, narrow)                                                                              \
    .gather = { [RF_LANES_WIDE] = TILE(set##_gather_2, height, 2 * (one)),                                             \
                [RF_LANES_NARROW] = TILE(set##_gather_1, height, one) },                                               \
    .gather_transposed = { [RF_LANES_WIDE] = TILE(set##_gather_t_2, height, 2 * (one)),                                \
                           [RF_LANES_NARROW] = TILE(set##_gather_t_1, height, one) },                                  \
    .grad = { [RF_LANES_WIDE] = TILE(set##_grad_2, height, 2 * (one)), [RF_LANES_NARROW] = narrow }

const rf_lanes_set rf_lanes8_texel = {
    .lanes = 8,
    .texel = true,
    .shuffle = true,
    .favourite = RF_DRIVER_LAVAPIPE,
    SHADERS(lanes8_texel, 32, 32, TILE(lanes8_texel_grad_1, 32, 32)),
    .gather[RF_LANES_ABREAST] = TILE(lanes_texel_gather_abreast, 64, 16),
    .gather[RF_LANES_TALL] = TILE(lanes8_texel_gather_tall, 64, 32),
    .gather[RF_LANES_SLIM] = TILE(lanes_texel_gather_slim, 64, 4),
    .gather_transposed[RF_LANES_SLIM] = TILE(lanes_texel_gather_t_slim, 64, 4),
    .gather_transposed[RF_LANES_ABREAST] = TILE(lanes_texel_gather_t_abreast, 64, 16),
    .gather_transposed[RF_LANES_TALL] = TILE(lanes8_texel_gather_t_tall, 64, 32),
    .grad[RF_LANES_ABREAST] = TILE(lanes_texel_grad_abreast, 64, 16),
};
/* Where rows lie side by side eight lanes have two of them, four have one: the same modules. Products of whole
 * registers of columns have modules of their own: by those of the others they took 1.8 times as long. */
const rf_lanes_set rf_lanes4_texel = {
    .lanes = 4,
    .texel = true,
    .shuffle = true,
    .favourite = RF_DRIVER_LAVAPIPE,
    SHADERS(lanes4_texel, 32, 16, TILE(lanes_texel_grad_abreast, 32, 16)),
    .gather[RF_LANES_SLIM] = TILE(lanes_texel_gather_slim, 32, 4),
    .gather_transposed[RF_LANES_SLIM] = TILE(lanes_texel_gather_t_slim, 32, 4),
};
const rf_lanes_set rf_lanes4_storage = {
    .lanes = 4,
    .favourite = RF_DRIVER_OTHER,
    SHADERS(lanes4_storage, 16, 16, TILE(lanes4_storage_grad_1, 16, 16)),
    .gather_scalar[RF_LANES_NARROW] = TILE(lanes4_storage_gather_s, 16, 16),
    .grad_scalar[RF_LANES_NARROW] = TILE(lanes4_storage_grad_s, 16, 16),
};
const rf_lanes_set rf_lanes4_quad = {
    .lanes = 4,
    .quad = true,
    .favourite = RF_DRIVER_SWIFTSHADER,
    .gather = { TILE(lanes4_quad_gather_2, 32, 32), TILE(lanes4_quad_gather_1, 32, 16) },
    .grad = { TILE(lanes4_quad_grad_2, 32, 32), TILE(lanes4_quad_grad_1, 32, 16) },
    /* Quad kernels of these take SwiftShader five to seven seconds each to compile. */
    .gather_transposed = { TILE(lanes4_storage_gather_t_2, 16, 32), TILE(lanes4_storage_gather_t_1, 16, 16) },
    .grad_scalar[RF_LANES_NARROW] = TILE(lanes4_quad_grad_s, 12, 32),
};
