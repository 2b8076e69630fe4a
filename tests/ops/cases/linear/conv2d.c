/* SPDX-License-Identifier: Apache-2.0 */
/* The same geometries for conv2d and its two gradients: written once as macros that take images, kernels and outputs.
 */
#include "tests/ops/cases/cases.h"

#define T4(a, b, c, d) RF_TENSOR(RF_F32, RF_FILL_NORMAL, 0, 0, 4, a, b, c, d)
#define T1(a) RF_TENSOR(RF_F32, RF_FILL_NORMAL, 0, 0, 1, a)

/* One geometry: image n h w cin, kernel kh kw cin/groups cout, output oh ow. */
#define CONV_X(n, h, w, ci, kh, kw, cig, co, oh, ow) T4(n, h, w, ci)
#define CONV_K(n, h, w, ci, kh, kw, cig, co, oh, ow) T4(kh, kw, cig, co)
#define CONV_Y(n, h, w, ci, kh, kw, cig, co, oh, ow) T4(n, oh, ow, co)
#define FORWARD(geometry) .n_in = 2, .in = { CONV_X geometry, CONV_K geometry }
#define FORWARD_BIAS(geometry, channels) .n_in = 3, .in = { CONV_X geometry, CONV_K geometry, T1(channels) }
#define DATA(geometry) .n_in = 3, .in = { CONV_Y geometry, CONV_K geometry, CONV_X geometry }
#define TRANSPOSED(geometry) .n_in = 2, .in = { CONV_Y geometry, CONV_K geometry }
#define FILTER(geometry) .n_in = 3, .in = { CONV_X geometry, CONV_Y geometry, CONV_K geometry }

#define EXACT_SUMS(n, h, w, taps, cin, cout)                                                                           \
    .n_in = 3, .in = { RF_TENSOR(RF_F32, RF_FILL_ZERO, 0, 0, 4, n, h, w, cin),                                         \
                       RF_TENSOR(RF_F32, RF_FILL_UNIFORM, 0.5f, 1.5f, 4, n, h, w, cout),                               \
                       RF_TENSOR(RF_F32, RF_FILL_ZERO, 0, 0, 4, taps, taps, cin, cout) }

/* Errors grow with the number of summands, k. */
#define TOLERANCE(k) .rtol = 2e-5, .atol = 2e-6 + 4e-7 * (k)

static const rf_conv2d_attr valid = { .stride = { 1, 1 }, .dilation = { 1, 1 }, .groups = 1 };
static const rf_conv2d_attr same = {
    .padding = RF_PADDING_SAME, .stride = { 1, 1 }, .dilation = { 1, 1 }, .groups = 1
};
static const rf_conv2d_attr same_2 = {
    .padding = RF_PADDING_SAME, .stride = { 2, 2 }, .dilation = { 1, 1 }, .groups = 1
};
static const rf_conv2d_attr valid_2 = { .stride = { 2, 2 }, .dilation = { 1, 1 }, .groups = 1 };
static const rf_conv2d_attr strided = { .stride = { 2, 3 }, .dilation = { 1, 1 }, .groups = 1 };
static const rf_conv2d_attr dilated = {
    .padding = RF_PADDING_SAME, .stride = { 1, 1 }, .dilation = { 2, 3 }, .groups = 1
};
static const rf_conv2d_attr lopsided = { .padding = RF_PADDING_EXPLICIT,
                                         .stride = { 1, 2 },
                                         .dilation = { 1, 1 },
                                         .groups = 1,
                                         .explicit_padding = { 0, 2, 1, 0 } };
static const rf_conv2d_attr far_lopsided = { .padding = RF_PADDING_EXPLICIT,
                                             .stride = { 1, 1 },
                                             .dilation = { 1, 1 },
                                             .groups = 1,
                                             .explicit_padding = { 3, 1, 5, 0 },
                                             .bias_gradient = 1 };
static const rf_conv2d_attr strided_dilated = { .padding = RF_PADDING_EXPLICIT,
                                                .stride = { 2, 2 },
                                                .dilation = { 2, 1 },
                                                .groups = 1,
                                                .explicit_padding = { 2, 1, 0, 3 } };
static const rf_conv2d_attr groups_2 = {
    .padding = RF_PADDING_SAME, .stride = { 1, 1 }, .dilation = { 1, 1 }, .groups = 2
};
static const rf_conv2d_attr groups_3 = { .stride = { 2, 1 }, .dilation = { 1, 1 }, .groups = 3 };
static const rf_conv2d_attr depthwise = {
    .padding = RF_PADDING_SAME, .stride = { 1, 1 }, .dilation = { 1, 1 }, .groups = 8
};
static const rf_conv2d_attr depthwise_relu = { .padding = RF_PADDING_EXPLICIT,
                                               .stride = { 2, 3 },
                                               .dilation = { 2, 1 },
                                               .groups = 20,
                                               .activation = RF_ACTIVATION_RELU,
                                               .explicit_padding = { 2, 1, 0, 3 } };
static const rf_conv2d_attr depthwise_bias = { .padding = RF_PADDING_EXPLICIT,
                                               .stride = { 2, 3 },
                                               .dilation = { 2, 1 },
                                               .groups = 20,
                                               .explicit_padding = { 2, 1, 0, 3 },
                                               .bias_gradient = 1 };
static const rf_conv2d_attr depthwise_strided = {
    .padding = RF_PADDING_SAME, .stride = { 2, 2 }, .dilation = { 1, 1 }, .groups = 40
};
static const rf_conv2d_attr depthwise_strided_bias = {
    .padding = RF_PADDING_SAME, .stride = { 2, 2 }, .dilation = { 1, 1 }, .groups = 40, .bias_gradient = 1
};
static const rf_conv2d_attr depthwise_64 = {
    .padding = RF_PADDING_SAME, .stride = { 1, 1 }, .dilation = { 1, 1 }, .groups = 64
};
/* Columns that fill no tile, kernels of both sizes in several steps, paddings that are even, odd and lopsided. */
#define WALK(name, down, right, channels, ...)                                                                         \
    static const rf_conv2d_attr name = { .padding = RF_PADDING_EXPLICIT,                                               \
                                         .stride = { down, right },                                                    \
                                         .dilation = { 1, 1 },                                                         \
                                         .groups = channels,                                                           \
                                         __VA_ARGS__ }
WALK(walk_3, 1, 1, 24, .explicit_padding = { 1, 0, 2, 1 });
WALK(walk_3_2, 2, 2, 16, .explicit_padding = { 1, 1, 0, 1 });
WALK(walk_3_down, 2, 1, 24, .explicit_padding = { 1, 0, 2, 1 });
WALK(walk_3_right, 1, 2, 24, .explicit_padding = { 1, 0, 2, 1 });
WALK(walk_5, 1, 1, 8, .explicit_padding = { 2, 2, 0, 3 });
WALK(walk_5_2, 2, 2, 40, .explicit_padding = { 2, 1, 3, 1 });
WALK(walk_3_bias, 1, 1, 24, .explicit_padding = { 1, 0, 2, 1 }, .bias_gradient = 1);
WALK(walk_5_2_bias, 2, 2, 40, .explicit_padding = { 2, 1, 3, 1 }, .bias_gradient = 1);
WALK(walk_3_relu, 1, 1, 24, .explicit_padding = { 1, 0, 2, 1 }, .activation = RF_ACTIVATION_RELU);
static const rf_conv2d_attr depthwise_halving = {
    .padding = RF_PADDING_SAME, .stride = { 2, 2 }, .dilation = { 1, 1 }, .groups = 64
};
static const rf_conv2d_attr same_relu = {
    .padding = RF_PADDING_SAME, .stride = { 1, 1 }, .dilation = { 1, 1 }, .groups = 1, .activation = RF_ACTIVATION_RELU
};
static const rf_conv2d_attr valid_relu = {
    .stride = { 1, 1 }, .dilation = { 1, 1 }, .groups = 1, .activation = RF_ACTIVATION_RELU
};
static const rf_conv2d_attr valid_gelu = {
    .stride = { 1, 1 }, .dilation = { 1, 1 }, .groups = 1, .activation = RF_ACTIVATION_GELU
};
static const rf_conv2d_attr groups_tanh = {
    .stride = { 1, 1 }, .dilation = { 1, 1 }, .groups = 2, .activation = RF_ACTIVATION_TANH
};

#define POOLED(name, ...) static const rf_conv2d_attr name = { .dilation = { 1, 1 }, .max_pool = 1, __VA_ARGS__ }
POOLED(pooled, .stride = { 1, 1 }, .groups = 1);
POOLED(pooled_relu, .stride = { 1, 1 }, .groups = 1, .activation = RF_ACTIVATION_RELU);
POOLED(pooled_same_relu, .padding = RF_PADDING_SAME, .stride = { 1, 1 }, .groups = 1, .activation = RF_ACTIVATION_RELU);
POOLED(pooled_same_2, .padding = RF_PADDING_SAME, .stride = { 2, 2 }, .groups = 1);
POOLED(pooled_groups, .padding = RF_PADDING_SAME, .stride = { 1, 1 }, .groups = 2, .activation = RF_ACTIVATION_TANH);
POOLED(pooled_depthwise, .padding = RF_PADDING_SAME, .stride = { 1, 1 }, .groups = 8);

static const rf_conv2d_attr same_leaky_relu = { .padding = RF_PADDING_SAME,
                                                .stride = { 1, 1 },
                                                .dilation = { 1, 1 },
                                                .groups = 1,
                                                .activation = RF_ACTIVATION_LEAKY_RELU };
static const rf_conv2d_attr valid_sigmoid = {
    .stride = { 1, 1 }, .dilation = { 1, 1 }, .groups = 1, .activation = RF_ACTIVATION_SIGMOID
};

static const rf_conv2d_attr f32_bias = {
    .stride = { 1, 1 }, .dilation = { 1, 1 }, .groups = 1, .bias_gradient = 1, .f32 = 1
};
static const rf_conv2d_attr f32_same_2 = {
    .padding = RF_PADDING_SAME, .stride = { 2, 2 }, .dilation = { 1, 1 }, .groups = 1, .f32 = 1
};
static const rf_conv2d_attr f32_depthwise = {
    .padding = RF_PADDING_SAME, .stride = { 1, 1 }, .dilation = { 1, 1 }, .groups = 8, .f32 = 1
};
static const rf_conv2d_attr valid_bias = { .stride = { 1, 1 }, .dilation = { 1, 1 }, .groups = 1, .bias_gradient = 1 };
static const rf_conv2d_attr same_bias = {
    .padding = RF_PADDING_SAME, .stride = { 1, 1 }, .dilation = { 1, 1 }, .groups = 1, .bias_gradient = 1
};
static const rf_conv2d_attr groups_bias = {
    .padding = RF_PADDING_SAME, .stride = { 1, 1 }, .dilation = { 1, 1 }, .groups = 2, .bias_gradient = 1
};

static const rf_conv2d_attr masked_bias = {
    .stride = { 1, 1 }, .dilation = { 1, 1 }, .groups = 1, .relu_mask = 1, .bias_gradient = 1
};
static const rf_conv2d_attr masked_same_bias = { .padding = RF_PADDING_SAME,
                                                 .stride = { 1, 1 },
                                                 .dilation = { 1, 1 },
                                                 .groups = 1,
                                                 .relu_mask = 1,
                                                 .bias_gradient = 1 };

/*                       n  h  w  cin kh kw cig cout oh ow */
#define ONE (1, 1, 1, 1, 1, 1, 1, 1, 1, 1)
#define SMALL (2, 4, 5, 2, 3, 2, 2, 3, 2, 4)
#define SMALL_SAME (1, 3, 4, 2, 3, 3, 2, 2, 3, 4)
#define SMALL_SAME_2 (1, 5, 4, 2, 3, 3, 2, 2, 3, 2)
#define SMALL_STRIDED (1, 5, 7, 1, 2, 2, 1, 2, 2, 2)
#define SMALL_LOPSIDED (1, 3, 4, 2, 3, 2, 2, 2, 3, 2)
#define SMALL_GROUPS (1, 3, 3, 4, 3, 3, 2, 4, 3, 3)
#define POINTWISE (3, 5, 7, 16, 1, 1, 16, 20, 5, 7)
/* Tiles that rows and columns do not fill; channels that fill turns of a loop and that do not, columns that are eights
 * and that are not. */
#define POINTS_48_EVEN (3, 5, 7, 24, 1, 1, 24, 40, 5, 7)
#define POINTS_24_EVEN (2, 5, 8, 48, 1, 1, 48, 24, 5, 8)
#define POINTS_UNEVEN (3, 5, 7, 28, 1, 1, 28, 60, 5, 7)
#define TILE (2, 6, 10, 32, 3, 3, 32, 64, 4, 8)
#define ODD_CHANNELS (3, 7, 9, 13, 3, 3, 13, 17, 5, 7)
#define SAME_PADDED (2, 7, 9, 8, 5, 3, 8, 12, 7, 9)
#define SAME_2 (2, 9, 8, 12, 3, 3, 12, 8, 5, 4)
#define STRIDED (2, 11, 13, 4, 3, 2, 4, 36, 5, 4)
#define DILATED (2, 9, 11, 8, 3, 3, 8, 8, 9, 11)
#define LOPSIDED (2, 8, 9, 4, 3, 4, 4, 8, 8, 4)
#define FAR_LOPSIDED (2, 6, 9, 18, 3, 3, 18, 21, 8, 12)
#define BLOCKS_SAME (3, 7, 11, 9, 3, 3, 9, 34, 7, 11)
#define STRIDED_DILATED (2, 11, 9, 8, 3, 3, 8, 4, 5, 5)
#define GROUPS_2 (2, 6, 5, 16, 3, 3, 8, 24, 6, 5)
#define GROUPS_3 (2, 7, 6, 9, 3, 2, 3, 15, 3, 5)
#define DEPTHWISE (2, 6, 7, 8, 3, 3, 1, 8, 6, 7)
#define DEPTHWISE_UNEVEN (3, 11, 13, 20, 3, 2, 1, 20, 5, 5)
#define DEPTHWISE_STRIDED (5, 9, 12, 40, 5, 3, 1, 40, 5, 6)
#define WALK_3 (2, 21, 10, 24, 3, 3, 1, 24, 20, 11)
#define WALK_3_DOWN (2, 21, 10, 24, 3, 3, 1, 24, 10, 11)
#define WALK_3_RIGHT (2, 21, 10, 24, 3, 3, 1, 24, 20, 6)
#define WALK_3_2 (3, 37, 13, 16, 3, 3, 1, 16, 19, 6)
#define WALK_5 (1, 19, 6, 8, 5, 5, 1, 8, 19, 5)
#define WALK_5_2 (3, 22, 11, 40, 5, 5, 1, 40, 11, 6)
#define DEPTHWISE_HALVING (32, 28, 28, 64, 3, 3, 1, 64, 14, 14)
#define DEPTHWISE_5 (16, 28, 28, 64, 5, 5, 1, 64, 28, 28)
#define DEPTHWISE_64 (32, 28, 28, 64, 3, 3, 1, 64, 28, 28)
#define ONE_CHANNEL (5, 9, 10, 1, 3, 3, 1, 8, 7, 8)
#define RGB (2, 12, 11, 3, 5, 5, 3, 16, 8, 7)
/* Few input channels; lines, columns and channels that fill no window, no tile and no eight. */
#define FEW_DILATED (3, 9, 11, 3, 3, 3, 3, 40, 9, 11)
#define FEW_PADDED (3, 9, 7, 1, 5, 5, 1, 24, 9, 7)
#define FEW_STRIDED (5, 13, 11, 4, 3, 2, 4, 12, 7, 6)
#define FEW_MANY (67, 9, 8, 3, 3, 3, 3, 16, 7, 6)
#define FEW_LINE (2, 3, 70, 2, 2, 3, 2, 48, 2, 68)
/* Nine summands, columns in thirty-twos. */
#define NINE (3, 9, 8, 1, 3, 3, 1, 32, 7, 6)
#define NINE_WIDE (2, 8, 7, 3, 1, 3, 3, 64, 8, 7)
#define NINE_STRIDED (3, 11, 9, 1, 3, 3, 1, 64, 6, 5)
#define FEW_ODD (5, 9, 8, 2, 3, 3, 2, 45, 7, 6)
/* Channels and columns in thirty-twos: several of each, taps that miss the image everywhere, tiles of lines and of
 * pixels that are not whole. */
#define HELD_DILATED (2, 9, 11, 64, 3, 3, 64, 32, 9, 11)
#define HELD_STRIDED (2, 11, 9, 32, 3, 3, 32, 96, 5, 5)
#define HELD_SMALL (3, 2, 3, 32, 3, 3, 32, 32, 2, 3)
#define HELD_MANY (67, 5, 4, 32, 3, 2, 32, 32, 3, 3)
#define DEEP (1, 4, 5, 68, 3, 3, 68, 24, 2, 3)
/* Batches for tiles that go through the images first; several tiles of rows, none of them whole. */
#define MANY_SAME (50, 3, 2, 4, 3, 3, 4, 6, 3, 2)
#define MANY_STRIDED (53, 5, 5, 6, 2, 2, 6, 5, 2, 2)
#define MANY_SMALL (13, 5, 4, 3, 3, 2, 3, 4, 3, 3)
#define MANY (37, 7, 6, 8, 3, 3, 8, 12, 5, 4)
/* Few columns, many pixels. */
#define NARROW (64, 9, 9, 8, 3, 3, 8, 12, 7, 7)
#define MANY_ODD (41, 6, 7, 3, 3, 2, 3, 5, 4, 6)
/* Blocks of 4 x 4 pixels that images do not fill; columns that are eights, fours and neither. */
#define BLOCKS_EIGHTS (2, 6, 9, 24, 3, 3, 24, 40, 6, 9)
#define BLOCKS_FOURS (2, 9, 7, 20, 3, 3, 20, 12, 9, 7)
#define BLOCKS_ODD (3, 7, 9, 21, 3, 3, 21, 19, 5, 7)
#define CONV2 (64, 13, 13, 32, 3, 3, 32, 64, 11, 11)
#define CONV2_ODD (61, 13, 13, 31, 3, 3, 31, 61, 11, 11)
/* Layers of ResNet-8 and of a DenseNet at batch 64. */
#define RES_16 (64, 32, 32, 16, 3, 3, 16, 16, 32, 32)
#define RES_32 (64, 16, 16, 32, 3, 3, 32, 32, 16, 16)
#define RES_64 (64, 8, 8, 64, 3, 3, 64, 64, 8, 8)
#define DENSE_32 (64, 32, 32, 48, 3, 3, 48, 12, 32, 32)
#define DENSE_16 (64, 16, 16, 48, 3, 3, 48, 12, 16, 16)
#define DENSE_8 (64, 8, 8, 48, 3, 3, 48, 12, 8, 8)
/* Layers of a DenseNet: into a bottleneck, of few and of more channels, and out of a block; of ResNet-8: into smaller
 * images. */
#define POINTS_24 (64, 28, 28, 24, 1, 1, 24, 48, 28, 28)
#define POINTS_36 (64, 28, 28, 36, 1, 1, 36, 48, 28, 28)
#define POINTS_48 (64, 28, 28, 48, 1, 1, 48, 24, 28, 28)
#define HALVING_16 (64, 32, 32, 16, 3, 3, 16, 32, 16, 16)
#define HALVING_32 (64, 16, 16, 32, 3, 3, 32, 64, 8, 8)
#define CONV1 (64, 28, 28, 1, 3, 3, 1, 32, 26, 26)
/* Longer sums than some drivers let an invocation loop over: of channels, of taps, of pixels. */
#define LONG_CHANNELS (1, 3, 3, 32772, 3, 3, 32772, 2, 1, 1)
#define LONG_CHANNELS_ODD (1, 3, 4, 32771, 3, 3, 32771, 3, 1, 2)
#define LONG_OUTPUTS (1, 3, 3, 2, 3, 3, 2, 32772, 1, 1)
#define LONG_TAPS (1, 201, 202, 1, 200, 200, 1, 2, 2, 3)
#define LONG_LINE (1, 1, 22001, 1, 1, 22000, 1, 1, 1, 2)
#define LONG_LINE_CHANNELS (1, 1, 71, 1, 1, 70, 1, 1000, 1, 2)
#define LONG_IMAGE (2, 300, 301, 1, 3, 3, 1, 2, 298, 299)
#define LONG_SIGNAL (1, 1, 70005, 2, 1, 4, 2, 3, 1, 70002)
/* A sum in parts of which there are several rows. */
#define POINTWISE_DEEP (1, 2, 3, 1024, 1, 1, 1024, 6, 2, 3)
#define SPLIT_POOLED (1, 5, 6, 512, 3, 3, 512, 4, 3, 4)
#define CONV1_ODD (61, 28, 28, 1, 3, 3, 1, 31, 26, 26)

static const rf_op_case conv2d_cases[] = {
    { .name = "one", .attr = &valid, FORWARD(ONE), .check_gradient = true, TOLERANCE(1) },
    { .name = "small", .attr = &valid, FORWARD(SMALL), .check_gradient = true, TOLERANCE(12) },
    { .name = "small_same", .attr = &same, FORWARD(SMALL_SAME), .check_gradient = true, TOLERANCE(18) },
    { .name = "small_same_2", .attr = &same_2, FORWARD(SMALL_SAME_2), .check_gradient = true, TOLERANCE(18) },
    { .name = "small_strided", .attr = &strided, FORWARD(SMALL_STRIDED), .check_gradient = true, TOLERANCE(4) },
    { .name = "small_lopsided", .attr = &lopsided, FORWARD(SMALL_LOPSIDED), .check_gradient = true, TOLERANCE(12) },
    { .name = "small_groups", .attr = &groups_2, FORWARD(SMALL_GROUPS), .check_gradient = true, TOLERANCE(18) },
    { .name = "pointwise", .attr = &valid, FORWARD(POINTWISE), TOLERANCE(16) },
    { .name = "points_48_even", .attr = &valid_relu, FORWARD_BIAS(POINTS_48_EVEN, 40), TOLERANCE(24) },
    { .name = "points_24_even", .attr = &valid_gelu, FORWARD(POINTS_24_EVEN), TOLERANCE(48) },
    { .name = "points_uneven", .attr = &valid, FORWARD_BIAS(POINTS_UNEVEN, 60), TOLERANCE(28) },
    { .name = "tile", .attr = &valid, FORWARD(TILE), TOLERANCE(288) },
    { .name = "odd_channels", .attr = &valid, FORWARD(ODD_CHANNELS), TOLERANCE(117) },
    { .name = "same", .attr = &same, FORWARD(SAME_PADDED), TOLERANCE(120) },
    { .name = "same_2", .attr = &same_2, FORWARD(SAME_2), TOLERANCE(108) },
    { .name = "strided", .attr = &strided, FORWARD(STRIDED), TOLERANCE(24) },
    { .name = "dilated", .attr = &dilated, FORWARD(DILATED), TOLERANCE(72) },
    { .name = "lopsided", .attr = &lopsided, FORWARD(LOPSIDED), TOLERANCE(48) },
    { .name = "strided_dilated", .attr = &strided_dilated, FORWARD(STRIDED_DILATED), TOLERANCE(72) },
    { .name = "groups_2", .attr = &groups_2, FORWARD(GROUPS_2), TOLERANCE(72) },
    { .name = "groups_3", .attr = &groups_3, FORWARD(GROUPS_3), TOLERANCE(18) },
    { .name = "depthwise", .attr = &depthwise, FORWARD(DEPTHWISE), .check_gradient = true, TOLERANCE(9) },
    { .name = "depthwise_uneven", .attr = &depthwise_relu, FORWARD_BIAS(DEPTHWISE_UNEVEN, 20), TOLERANCE(6) },
    { .name = "depthwise_strided", .attr = &depthwise_strided, FORWARD(DEPTHWISE_STRIDED), TOLERANCE(15) },
    { .name = "depthwise_64",
      .attr = &depthwise_64,
      FORWARD_BIAS(DEPTHWISE_64, 64),
      .benchmark = true,
      .large = true,
      TOLERANCE(9) },
    { .name = "walk_3", .attr = &walk_3_relu, FORWARD_BIAS(WALK_3, 24), TOLERANCE(9) },
    { .name = "walk_3_2", .attr = &walk_3_2, FORWARD(WALK_3_2), TOLERANCE(9) },
    { .name = "walk_3_down", .attr = &walk_3_down, FORWARD(WALK_3_DOWN), TOLERANCE(9) },
    { .name = "walk_3_right", .attr = &walk_3_right, FORWARD(WALK_3_RIGHT), TOLERANCE(9) },
    { .name = "walk_5", .attr = &walk_5, FORWARD(WALK_5), TOLERANCE(25) },
    { .name = "walk_5_2", .attr = &walk_5_2, FORWARD(WALK_5_2), TOLERANCE(25) },
    { .name = "depthwise_halving",
      .attr = &depthwise_halving,
      FORWARD(DEPTHWISE_HALVING),
      .benchmark = true,
      .large = true,
      TOLERANCE(9) },
    { .name = "depthwise_5",
      .attr = &depthwise_64,
      FORWARD(DEPTHWISE_5),
      .benchmark = true,
      .large = true,
      TOLERANCE(25) },
    { .name = "one_channel", .attr = &valid, FORWARD(ONE_CHANNEL), TOLERANCE(9) },
    { .name = "rgb", .attr = &valid, FORWARD(RGB), TOLERANCE(75) },
    { .name = "deep", .attr = &valid_relu, FORWARD_BIAS(DEEP, 24), TOLERANCE(612) },
    { .name = "many_same", .attr = &same, FORWARD(MANY_SAME), TOLERANCE(36) },
    { .name = "bias", .attr = &valid, FORWARD_BIAS(ODD_CHANNELS, 17), TOLERANCE(117) },
    { .name = "bias_relu", .attr = &same_relu, FORWARD_BIAS(SAME_PADDED, 12), TOLERANCE(120) },
    { .name = "gelu", .attr = &valid_gelu, FORWARD(ONE_CHANNEL), TOLERANCE(9) },
    { .name = "leaky_relu", .attr = &same_leaky_relu, FORWARD(SMALL_SAME), TOLERANCE(18) },
    { .name = "bias_sigmoid", .attr = &valid_sigmoid, FORWARD_BIAS(SMALL, 3), TOLERANCE(12) },
    { .name = "groups_bias_tanh",
      .attr = &groups_tanh,
      .n_in = 3,
      .in = { T4(2, 5, 6, 8), T4(2, 3, 4, 20), T1(20) },
      TOLERANCE(24) },
    { .name = "many", .attr = &valid_relu, FORWARD_BIAS(MANY, 12), TOLERANCE(72) },
    { .name = "many_odd", .attr = &valid, FORWARD_BIAS(MANY_ODD, 5), TOLERANCE(18) },
    { .name = "conv2_b64",
      .attr = &valid_relu,
      FORWARD_BIAS(CONV2, 64),
      .benchmark = true,
      .large = true,
      TOLERANCE(288) },
    { .name = "conv2_odd",
      .attr = &valid_relu,
      FORWARD_BIAS(CONV2_ODD, 61),
      .benchmark = true,
      .large = true,
      TOLERANCE(279) },
    { .name = "blocks_eights", .attr = &same, FORWARD_BIAS(BLOCKS_EIGHTS, 40), TOLERANCE(216) },
    { .name = "blocks_fours", .attr = &same, FORWARD(BLOCKS_FOURS), TOLERANCE(180) },
    { .name = "blocks_odd", .attr = &valid_gelu, FORWARD_BIAS(BLOCKS_ODD, 19), TOLERANCE(189) },
    { .name = "conv1_b64",
      .attr = &valid_relu,
      FORWARD_BIAS(CONV1, 32),
      .benchmark = true,
      .large = true,
      TOLERANCE(9) },
    { .name = "conv1_odd",
      .attr = &valid_relu,
      FORWARD_BIAS(CONV1_ODD, 31),
      .benchmark = true,
      .large = true,
      TOLERANCE(9) },
    /* Windows that cover the image, and images with a line, a column or both over. */
    { .name = "pool_small", .attr = &pooled, FORWARD(SMALL), TOLERANCE(12) },
    { .name = "pool_pointwise", .attr = &pooled, FORWARD(POINTWISE), TOLERANCE(16) },
    { .name = "pool_odd_channels", .attr = &pooled_relu, FORWARD_BIAS(ODD_CHANNELS, 17), TOLERANCE(117) },
    { .name = "pool_one_channel", .attr = &pooled_relu, FORWARD_BIAS(ONE_CHANNEL, 8), TOLERANCE(9) },
    { .name = "pool_same_2", .attr = &pooled_same_2, FORWARD(SAME_2), TOLERANCE(108) },
    { .name = "pool_groups", .attr = &pooled_groups, FORWARD_BIAS(GROUPS_2, 24), TOLERANCE(72) },
    { .name = "pool_depthwise", .attr = &pooled_depthwise, FORWARD(DEPTHWISE), TOLERANCE(9) },
    { .name = "pool_many", .attr = &pooled_relu, FORWARD_BIAS(MANY, 12), TOLERANCE(72) },
    { .name = "few_dilated", .attr = &dilated, FORWARD_BIAS(FEW_DILATED, 40), TOLERANCE(27) },
    { .name = "pool_few_padded", .attr = &pooled_same_relu, FORWARD_BIAS(FEW_PADDED, 24), TOLERANCE(25) },
    { .name = "pool_few_strided", .attr = &pooled_same_2, FORWARD_BIAS(FEW_STRIDED, 12), TOLERANCE(24) },
    { .name = "nine", .attr = &valid_relu, FORWARD_BIAS(NINE, 32), TOLERANCE(9) },
    { .name = "nine_wide", .attr = &same_leaky_relu, FORWARD_BIAS(NINE_WIDE, 64), TOLERANCE(9) },
    { .name = "pool_nine", .attr = &pooled, FORWARD(NINE), TOLERANCE(9) },
    { .name = "pool_nine_strided", .attr = &pooled_same_2, FORWARD_BIAS(NINE_STRIDED, 64), TOLERANCE(9) },
    { .name = "held_dilated", .attr = &dilated, FORWARD(HELD_DILATED), TOLERANCE(576) },
    { .name = "held_strided", .attr = &strided_dilated, FORWARD_BIAS(HELD_STRIDED, 96), TOLERANCE(288) },
    { .name = "held_small", .attr = &dilated, FORWARD(HELD_SMALL), TOLERANCE(288) },
    { .name = "held_many", .attr = &valid_gelu, FORWARD_BIAS(HELD_MANY, 32), TOLERANCE(192) },
    { .name = "pool_few_line", .attr = &pooled, FORWARD(FEW_LINE), TOLERANCE(12) },
    { .name = "pool_conv1_b64",
      .attr = &pooled_relu,
      FORWARD_BIAS(CONV1, 32),
      .benchmark = true,
      .large = true,
      TOLERANCE(9) },
    { .name = "pool_conv2_b64",
      .attr = &pooled_relu,
      FORWARD_BIAS(CONV2, 64),
      .benchmark = true,
      .large = true,
      TOLERANCE(288) },
    { .name = "res_16", .attr = &same, FORWARD(RES_16), .benchmark = true, .large = true, TOLERANCE(144) },
    { .name = "res_32", .attr = &same, FORWARD(RES_32), .benchmark = true, .large = true, TOLERANCE(288) },
    { .name = "res_64", .attr = &same, FORWARD(RES_64), .benchmark = true, .large = true, TOLERANCE(576) },
    { .name = "dense_32", .attr = &same, FORWARD(DENSE_32), .benchmark = true, .large = true, TOLERANCE(432) },
    { .name = "dense_16", .attr = &same, FORWARD(DENSE_16), .benchmark = true, .large = true, TOLERANCE(432) },
    { .name = "dense_8", .attr = &same, FORWARD(DENSE_8), .benchmark = true, .large = true, TOLERANCE(432) },
    { .name = "points_24", .attr = &same, FORWARD(POINTS_24), .benchmark = true, .large = true, TOLERANCE(24) },
    { .name = "points_36", .attr = &same, FORWARD(POINTS_36), .benchmark = true, .large = true, TOLERANCE(36) },
    { .name = "points_48", .attr = &same, FORWARD(POINTS_48), .benchmark = true, .large = true, TOLERANCE(48) },
    { .name = "halving_16", .attr = &same_2, FORWARD(HALVING_16), .benchmark = true, .large = true, TOLERANCE(144) },
    { .name = "halving_32", .attr = &same_2, FORWARD(HALVING_32), .benchmark = true, .large = true, TOLERANCE(288) },
    { .name = "pool_long_channels", .attr = &pooled_relu, FORWARD(SPLIT_POOLED), TOLERANCE(4608) },
    { .name = "pointwise_deep", .attr = &valid_relu, FORWARD_BIAS(POINTWISE_DEEP, 6), TOLERANCE(1024) },
    { .name = "long_channels", .attr = &valid_relu, FORWARD_BIAS(LONG_CHANNELS, 2), TOLERANCE(294948) },
    { .name = "long_channels_odd", .attr = &valid, FORWARD(LONG_CHANNELS_ODD), .large = true, TOLERANCE(294939) },
    { .name = "long_taps", .attr = &valid_relu, FORWARD_BIAS(LONG_TAPS, 2), TOLERANCE(40000) },
    { .name = "long_line", .attr = &valid, FORWARD(LONG_LINE), TOLERANCE(22000) },
};

static const rf_op_case conv2d_data_grad_cases[] = {
    { .name = "one", .attr = &valid, DATA(ONE), .check_gradient = true, TOLERANCE(1) },
    { .name = "small", .attr = &valid, DATA(SMALL), .check_gradient = true, TOLERANCE(12) },
    { .name = "small_same_2", .attr = &same_2, DATA(SMALL_SAME_2), .check_gradient = true, TOLERANCE(18) },
    { .name = "small_lopsided", .attr = &lopsided, DATA(SMALL_LOPSIDED), .check_gradient = true, TOLERANCE(12) },
    { .name = "pointwise", .attr = &valid, DATA(POINTWISE), TOLERANCE(20) },
    { .name = "points_48_even", .attr = &valid, DATA(POINTS_48_EVEN), TOLERANCE(40) },
    { .name = "points_24_even", .attr = &valid, DATA(POINTS_24_EVEN), TOLERANCE(24) },
    { .name = "points_uneven", .attr = &valid, DATA(POINTS_UNEVEN), TOLERANCE(60) },
    { .name = "tile", .attr = &valid, DATA(TILE), TOLERANCE(576) },
    { .name = "odd_channels", .attr = &valid, DATA(ODD_CHANNELS), TOLERANCE(153) },
    { .name = "same", .attr = &same, DATA(SAME_PADDED), TOLERANCE(180) },
    { .name = "same_2", .attr = &same_2, DATA(SAME_2), TOLERANCE(72) },
    { .name = "strided", .attr = &strided, DATA(STRIDED), TOLERANCE(216) },
    { .name = "dilated", .attr = &dilated, DATA(DILATED), TOLERANCE(72) },
    { .name = "lopsided", .attr = &lopsided, DATA(LOPSIDED), TOLERANCE(96) },
    { .name = "strided_dilated", .attr = &strided_dilated, DATA(STRIDED_DILATED), TOLERANCE(36) },
    { .name = "groups_2", .attr = &groups_2, DATA(GROUPS_2), TOLERANCE(108) },
    { .name = "groups_3", .attr = &groups_3, DATA(GROUPS_3), TOLERANCE(30) },
    { .name = "depthwise", .attr = &depthwise, DATA(DEPTHWISE), TOLERANCE(9) },
    { .name = "depthwise_uneven", .attr = &depthwise_bias, DATA(DEPTHWISE_UNEVEN), TOLERANCE(6) },
    { .name = "depthwise_strided", .attr = &depthwise_strided, DATA(DEPTHWISE_STRIDED), TOLERANCE(15) },
    { .name = "depthwise_64",
      .attr = &depthwise_64,
      DATA(DEPTHWISE_64),
      .benchmark = true,
      .large = true,
      TOLERANCE(9) },
    { .name = "walk_3", .attr = &walk_3, DATA(WALK_3), TOLERANCE(9) },
    { .name = "walk_3_2", .attr = &walk_3_2, DATA(WALK_3_2), TOLERANCE(9) },
    { .name = "walk_3_down", .attr = &walk_3_down, DATA(WALK_3_DOWN), TOLERANCE(9) },
    { .name = "walk_3_right", .attr = &walk_3_right, DATA(WALK_3_RIGHT), TOLERANCE(9) },
    { .name = "walk_5", .attr = &walk_5, DATA(WALK_5), TOLERANCE(25) },
    { .name = "walk_5_2", .attr = &walk_5_2, DATA(WALK_5_2), TOLERANCE(25) },
    { .name = "depthwise_halving",
      .attr = &depthwise_halving,
      DATA(DEPTHWISE_HALVING),
      .benchmark = true,
      .large = true,
      TOLERANCE(9) },
    { .name = "depthwise_5",
      .attr = &depthwise_64,
      DATA(DEPTHWISE_5),
      .benchmark = true,
      .large = true,
      TOLERANCE(25) },
    { .name = "one_channel", .attr = &valid, DATA(ONE_CHANNEL), TOLERANCE(72) },
    { .name = "rgb", .attr = &valid, DATA(RGB), TOLERANCE(400) },
    { .name = "deep", .attr = &valid, DATA(DEEP), TOLERANCE(216) },
    { .name = "many_same", .attr = &same, DATA(MANY_SAME), TOLERANCE(54) },
    { .name = "many_strided", .attr = &valid_2, DATA(MANY_STRIDED), TOLERANCE(20) },
    { .name = "many_small", .attr = &valid, DATA(MANY_SMALL), TOLERANCE(24) },
    { .name = "many", .attr = &valid, DATA(MANY), TOLERANCE(108) },
    { .name = "many_odd", .attr = &valid, DATA(MANY_ODD), TOLERANCE(30) },
    { .name = "held_dilated", .attr = &dilated, DATA(HELD_DILATED), TOLERANCE(288) },
    { .name = "held_small", .attr = &dilated, DATA(HELD_SMALL), TOLERANCE(288) },
    { .name = "held_many", .attr = &valid, DATA(HELD_MANY), TOLERANCE(192) },
    { .name = "conv2_b64", .attr = &valid, DATA(CONV2), .benchmark = true, .large = true, TOLERANCE(576) },
    { .name = "conv2_odd", .attr = &valid, DATA(CONV2_ODD), .benchmark = true, .large = true, TOLERANCE(549) },
    { .name = "conv1_b64", .attr = &valid, DATA(CONV1), .benchmark = true, .large = true, TOLERANCE(288) },
    { .name = "conv1_odd", .attr = &valid, DATA(CONV1_ODD), .benchmark = true, .large = true, TOLERANCE(279) },
    { .name = "res_16", .attr = &same, DATA(RES_16), .benchmark = true, .large = true, TOLERANCE(144) },
    { .name = "res_32", .attr = &same, DATA(RES_32), .benchmark = true, .large = true, TOLERANCE(288) },
    { .name = "res_64", .attr = &same, DATA(RES_64), .benchmark = true, .large = true, TOLERANCE(576) },
    { .name = "dense_32", .attr = &same, DATA(DENSE_32), .benchmark = true, .large = true, TOLERANCE(108) },
    { .name = "dense_16", .attr = &same, DATA(DENSE_16), .benchmark = true, .large = true, TOLERANCE(108) },
    { .name = "dense_8", .attr = &same, DATA(DENSE_8), .benchmark = true, .large = true, TOLERANCE(108) },
    { .name = "points_24", .attr = &same, DATA(POINTS_24), .benchmark = true, .large = true, TOLERANCE(48) },
    { .name = "points_36", .attr = &same, DATA(POINTS_36), .benchmark = true, .large = true, TOLERANCE(48) },
    { .name = "points_48", .attr = &same, DATA(POINTS_48), .benchmark = true, .large = true, TOLERANCE(24) },
    { .name = "halving_16", .attr = &same_2, DATA(HALVING_16), .benchmark = true, .large = true, TOLERANCE(288) },
    { .name = "halving_32", .attr = &same_2, DATA(HALVING_32), .benchmark = true, .large = true, TOLERANCE(576) },
    { .name = "pointwise_deep", .attr = &valid, DATA(POINTWISE_DEEP), TOLERANCE(6) },
    { .name = "long_outputs", .attr = &valid, DATA(LONG_OUTPUTS), TOLERANCE(32772) },
    { .name = "long_line", .attr = &valid, DATA(LONG_LINE_CHANNELS), .large = true, TOLERANCE(2000) },
};

/* The kernels are those of conv2d_data_grad, which has more cases. Sizes of the image do not count here. */
static const rf_op_case conv2d_transpose_cases[] = {
    { .name = "one", .attr = &valid, TRANSPOSED(ONE), .check_gradient = true, TOLERANCE(1) },
    { .name = "small_same_2", .attr = &same_2, TRANSPOSED(SMALL_SAME_2), .check_gradient = true, TOLERANCE(18) },
    { .name = "small_lopsided", .attr = &lopsided, TRANSPOSED(SMALL_LOPSIDED), .check_gradient = true, TOLERANCE(12) },
    { .name = "strided", .attr = &strided, TRANSPOSED(STRIDED), TOLERANCE(216) },
    { .name = "strided_dilated", .attr = &strided_dilated, TRANSPOSED(STRIDED_DILATED), TOLERANCE(36) },
    { .name = "groups_2", .attr = &groups_2, TRANSPOSED(GROUPS_2), TOLERANCE(108) },
    { .name = "long_outputs", .attr = &valid, TRANSPOSED(LONG_OUTPUTS), .large = true, TOLERANCE(32772) },
    { .name = "images_64x14x14x32",
      .attr = &same_2,
      TRANSPOSED((64, 28, 28, 32, 3, 3, 32, 64, 14, 14)),
      .benchmark = true,
      .large = true,
      TOLERANCE(576) },
};

static const rf_op_case conv2d_filter_grad_cases[] = {
    { .name = "one", .attr = &valid, FILTER(ONE), .check_gradient = true, TOLERANCE(1) },
    { .name = "small", .attr = &valid_bias, FILTER(SMALL), .check_gradient = true, TOLERANCE(16) },
    { .name = "small_same_2", .attr = &same_2, FILTER(SMALL_SAME_2), .check_gradient = true, TOLERANCE(6) },
    { .name = "small_lopsided", .attr = &lopsided, FILTER(SMALL_LOPSIDED), .check_gradient = true, TOLERANCE(6) },
    { .name = "pointwise", .attr = &valid, FILTER(POINTWISE), TOLERANCE(105) },
    { .name = "tile", .attr = &valid, FILTER(TILE), TOLERANCE(64) },
    { .name = "odd_channels", .attr = &valid_bias, FILTER(ODD_CHANNELS), TOLERANCE(105) },
    { .name = "same", .attr = &same_bias, FILTER(SAME_PADDED), TOLERANCE(126) },
    { .name = "same_2", .attr = &same_2, FILTER(SAME_2), TOLERANCE(40) },
    { .name = "strided", .attr = &strided, FILTER(STRIDED), TOLERANCE(40) },
    { .name = "dilated", .attr = &dilated, FILTER(DILATED), TOLERANCE(198) },
    { .name = "lopsided", .attr = &lopsided, FILTER(LOPSIDED), TOLERANCE(64) },
    { .name = "far_lopsided", .attr = &far_lopsided, FILTER(FAR_LOPSIDED), TOLERANCE(192) },
    { .name = "blocks_same", .attr = &same_bias, FILTER(BLOCKS_SAME), TOLERANCE(231) },
    { .name = "strided_dilated", .attr = &strided_dilated, FILTER(STRIDED_DILATED), TOLERANCE(50) },
    { .name = "groups_2", .attr = &groups_bias, FILTER(GROUPS_2), TOLERANCE(60) },
    { .name = "groups_3", .attr = &groups_3, FILTER(GROUPS_3), TOLERANCE(30) },
    { .name = "depthwise", .attr = &depthwise, FILTER(DEPTHWISE), TOLERANCE(84) },
    { .name = "depthwise_uneven", .attr = &depthwise_bias, FILTER(DEPTHWISE_UNEVEN), TOLERANCE(75) },
    { .name = "depthwise_strided", .attr = &depthwise_strided_bias, FILTER(DEPTHWISE_STRIDED), TOLERANCE(150) },
    { .name = "depthwise_64",
      .attr = &depthwise_64,
      FILTER(DEPTHWISE_64),
      .benchmark = true,
      .large = true,
      TOLERANCE(25088) },
    { .name = "walk_3", .attr = &walk_3_bias, FILTER(WALK_3), TOLERANCE(440) },
    { .name = "walk_3_2", .attr = &walk_3_2, FILTER(WALK_3_2), TOLERANCE(342) },
    { .name = "walk_3_down", .attr = &walk_3_down, FILTER(WALK_3_DOWN), TOLERANCE(220) },
    { .name = "walk_3_right", .attr = &walk_3_right, FILTER(WALK_3_RIGHT), TOLERANCE(240) },
    { .name = "walk_5", .attr = &walk_5, FILTER(WALK_5), TOLERANCE(95) },
    { .name = "walk_5_2", .attr = &walk_5_2_bias, FILTER(WALK_5_2), TOLERANCE(198) },
    { .name = "depthwise_halving",
      .attr = &depthwise_halving,
      FILTER(DEPTHWISE_HALVING),
      .benchmark = true,
      .large = true,
      TOLERANCE(6272) },
    { .name = "depthwise_5",
      .attr = &depthwise_64,
      FILTER(DEPTHWISE_5),
      .benchmark = true,
      .large = true,
      TOLERANCE(12544) },
    { .name = "f32", .attr = &f32_bias, FILTER(ODD_CHANNELS), TOLERANCE(105) },
    { .name = "f32_same_2", .attr = &f32_same_2, FILTER(SAME_2), TOLERANCE(40) },
    { .name = "f32_few", .attr = &f32_bias, FILTER(ONE_CHANNEL), TOLERANCE(280) },
    { .name = "f32_depthwise", .attr = &f32_depthwise, FILTER(DEPTHWISE), TOLERANCE(84) },
    { .name = "one_channel", .attr = &valid_bias, FILTER(ONE_CHANNEL), TOLERANCE(280) },
    { .name = "rgb", .attr = &valid, FILTER(RGB), TOLERANCE(112) },
    /* Nothing but the sums of dy, of numbers that add up: they are as exact as those of a reduction. */
    { .name = "exact_bias_12x50x50x4x8",
      .attr = &same_bias,
      EXACT_SUMS(12, 50, 50, 3, 4, 8),
      .rtol = 5e-7,
      .atol = 1e-30 },
    { .name = "exact_bias_12x50x50x1x8",
      .attr = &same_bias,
      EXACT_SUMS(12, 50, 50, 3, 1, 8),
      .rtol = 5e-7,
      .atol = 1e-30 },
    { .name = "deep", .attr = &valid_bias, FILTER(DEEP), TOLERANCE(6) },
    { .name = "many", .attr = &valid_bias, FILTER(MANY), TOLERANCE(740) },
    { .name = "many_odd", .attr = &valid_bias, FILTER(MANY_ODD), TOLERANCE(984) },
    { .name = "narrow", .attr = &valid_bias, FILTER(NARROW), TOLERANCE(3136) },
    { .name = "few_dilated", .attr = &dilated, FILTER(FEW_DILATED), TOLERANCE(300) },
    { .name = "few_padded", .attr = &same_bias, FILTER(FEW_PADDED), TOLERANCE(200) },
    { .name = "few_strided", .attr = &same_2, FILTER(FEW_STRIDED), TOLERANCE(210) },
    { .name = "few_line", .attr = &valid_bias, FILTER(FEW_LINE), TOLERANCE(280) },
    { .name = "few_odd", .attr = &valid_bias, FILTER(FEW_ODD), TOLERANCE(210) },
    { .name = "held_dilated", .attr = &dilated, FILTER(HELD_DILATED), TOLERANCE(198) },
    { .name = "held_strided", .attr = &strided_dilated, FILTER(HELD_STRIDED), TOLERANCE(50) },
    { .name = "held_small", .attr = &dilated, FILTER(HELD_SMALL), TOLERANCE(18) },
    { .name = "held_many", .attr = &valid_bias, FILTER(HELD_MANY), TOLERANCE(603) },
    { .name = "conv2_b64", .attr = &valid_bias, FILTER(CONV2), .benchmark = true, .large = true, TOLERANCE(7744) },
    { .name = "conv2_odd", .attr = &valid_bias, FILTER(CONV2_ODD), .benchmark = true, .large = true, TOLERANCE(7381) },
    { .name = "conv1_b64", .attr = &valid_bias, FILTER(CONV1), .benchmark = true, .large = true, TOLERANCE(43264) },
    { .name = "conv1_odd", .attr = &valid_bias, FILTER(CONV1_ODD), .benchmark = true, .large = true, TOLERANCE(41236) },
    { .name = "res_16", .attr = &same, FILTER(RES_16), .benchmark = true, .large = true, TOLERANCE(65536) },
    { .name = "res_32", .attr = &same, FILTER(RES_32), .benchmark = true, .large = true, TOLERANCE(16384) },
    { .name = "res_64", .attr = &same, FILTER(RES_64), .benchmark = true, .large = true, TOLERANCE(4096) },
    { .name = "dense_32", .attr = &same, FILTER(DENSE_32), .benchmark = true, .large = true, TOLERANCE(65536) },
    { .name = "dense_16", .attr = &same, FILTER(DENSE_16), .benchmark = true, .large = true, TOLERANCE(16384) },
    { .name = "dense_8", .attr = &same, FILTER(DENSE_8), .benchmark = true, .large = true, TOLERANCE(4096) },
    { .name = "points_48_even", .attr = &valid, FILTER(POINTS_48_EVEN), TOLERANCE(105) },
    { .name = "points_24_even", .attr = &valid, FILTER(POINTS_24_EVEN), TOLERANCE(80) },
    { .name = "points_uneven", .attr = &valid, FILTER(POINTS_UNEVEN), TOLERANCE(105) },
    { .name = "points_24", .attr = &same, FILTER(POINTS_24), .benchmark = true, .large = true, TOLERANCE(50176) },
    { .name = "points_36", .attr = &same, FILTER(POINTS_36), .benchmark = true, .large = true, TOLERANCE(50176) },
    { .name = "points_48", .attr = &same, FILTER(POINTS_48), .benchmark = true, .large = true, TOLERANCE(50176) },
    { .name = "long_image", .attr = &valid_bias, FILTER(LONG_IMAGE), TOLERANCE(178204) },
    { .name = "long_signal", .attr = &valid_bias, FILTER(LONG_SIGNAL), TOLERANCE(70002) },
};

/* x, the gradient of the maxima, the kernel, y. Whether zeros meet NaN is up to the kernel. */
#define POOL_Y(n, h, w, ci, kh, kw, cig, co, oh, ow) T4(n, (oh) / 2, (ow) / 2, co)
#define POOL_FILTER(geometry)                                                                                          \
    .n_in = 4, .in = { CONV_X geometry, POOL_Y geometry, CONV_K geometry, CONV_Y geometry }, .unattended = true

static const rf_op_case conv2d_pool_filter_grad_cases[] = {
    { .name = "small", .attr = &valid_bias, POOL_FILTER(SMALL), TOLERANCE(16) },
    { .name = "one_channel", .attr = &masked_bias, POOL_FILTER(ONE_CHANNEL), TOLERANCE(280) },
    { .name = "rgb", .attr = &valid, POOL_FILTER(RGB), TOLERANCE(112) },
    { .name = "f32_few_odd", .attr = &f32_bias, POOL_FILTER(RGB), TOLERANCE(112) },
    { .name = "few_dilated", .attr = &dilated, POOL_FILTER(FEW_DILATED), TOLERANCE(300) },
    { .name = "few_padded", .attr = &masked_same_bias, POOL_FILTER(FEW_PADDED), TOLERANCE(200) },
    { .name = "few_strided", .attr = &same_2, POOL_FILTER(FEW_STRIDED), TOLERANCE(210) },
    { .name = "few_line", .attr = &valid_bias, POOL_FILTER(FEW_LINE), TOLERANCE(280) },
    { .name = "few_many", .attr = &masked_bias, POOL_FILTER(FEW_MANY), TOLERANCE(2814) },
    { .name = "few_odd", .attr = &masked_bias, POOL_FILTER(FEW_ODD), TOLERANCE(210) },
    { .name = "conv1_b64",
      .attr = &masked_bias,
      POOL_FILTER(CONV1),
      .benchmark = true,
      .large = true,
      TOLERANCE(43264) },
};

/* Layers of ResNet-50 at batch 64: its first, and a wide and a deep one of its blocks, one of which halves the image.
 */
#define RESNET_FIRST (64, 224, 224, 3, 7, 7, 3, 64, 112, 112)
#define RESNET_56 (64, 56, 56, 64, 3, 3, 64, 64, 56, 56)
#define RESNET_14 (64, 14, 14, 256, 3, 3, 256, 256, 14, 14)
#define RESNET_HALVING (64, 56, 56, 128, 3, 3, 128, 128, 28, 28)
#define RESNET_POINTS (64, 28, 28, 512, 1, 1, 512, 128, 28, 28)
#define RESNET_CASES(form)                                                                                             \
    { .name = "resnet_first", .attr = &same_2, form(RESNET_FIRST) },                                                   \
        { .name = "resnet_56", .attr = &same, form(RESNET_56) },                                                       \
        { .name = "resnet_14", .attr = &same, form(RESNET_14) },                                                       \
        { .name = "resnet_halving", .attr = &same_2, form(RESNET_HALVING) },                                           \
        { .name = "resnet_points", .attr = &same, form(RESNET_POINTS) },
/* clang-format off */
static const rf_op_case conv2d_gpu_cases[] = { RESNET_CASES(FORWARD) };
static const rf_op_case conv2d_data_grad_gpu_cases[] = { RESNET_CASES(DATA) };
static const rf_op_case conv2d_filter_grad_gpu_cases[] = { RESNET_CASES(FILTER) };
/* clang-format on */

RF_OP_AND_GPU_CASES(conv2d, conv2d_cases, conv2d_gpu_cases);
RF_OP_AND_GPU_CASES(conv2d_data_grad, conv2d_data_grad_cases, conv2d_data_grad_gpu_cases);
RF_OP_AND_GPU_CASES(conv2d_filter_grad, conv2d_filter_grad_cases, conv2d_filter_grad_gpu_cases);
RF_OP_CASES(conv2d_pool_filter_grad, conv2d_pool_filter_grad_cases);
RF_OP_CASES(conv2d_transpose, conv2d_transpose_cases);
