/* SPDX-License-Identifier: Apache-2.0 */
/* Images of another size against numbers worked out on paper, their gradients, and what is refused. PyTorch's word on
 * what it has, too, is tests/differential. */
#include "../support/strategies.h"
#include "tests/room.h"

/* Along a line of pixels 1 2 3 4. */
static const struct {
    const char *name;
    rf_resize2d_params params; /* size[0] 1 */
    float expected[8];
} lines[] = {
    { "nearest 2", { .size = { 1, 2 } }, { 1, 3 } },
    { "nearest 2 half up", { .size = { 1, 2 }, .rounding = RF_ROUND_HALF_UP }, { 2, 4 } },
    { "nearest 2 down", { .size = { 1, 2 }, .rounding = RF_ROUND_DOWN }, { 1, 3 } },
    { "nearest 2 up", { .size = { 1, 2 }, .rounding = RF_ROUND_UP }, { 2, 4 } },
    { "nearest 3 asymmetric down",
      { .size = { 1, 3 }, .coordinates = RF_RESIZE_ASYMMETRIC, .rounding = RF_ROUND_DOWN },
      { 1, 2, 3 } },
    { "nearest 8", { .size = { 1, 8 } }, { 1, 1, 2, 2, 3, 3, 4, 4 } },
    { "nearest 3 corners of half pixels",
      { .size = { 1, 3 }, .coordinates = RF_RESIZE_TF_HALF_PIXEL, .rounding = RF_ROUND_DOWN },
      { 1, 3, 4 } },
    { "bilinear 2", { .size = { 1, 2 }, .method = RF_RESIZE_BILINEAR }, { 1.5f, 3.5f } },
    { "bilinear 8",
      { .size = { 1, 8 }, .method = RF_RESIZE_BILINEAR },
      { 1, 1.25f, 1.75f, 2.25f, 2.75f, 3.25f, 3.75f, 4 } },
    { "bilinear 7 aligned",
      { .size = { 1, 7 }, .method = RF_RESIZE_BILINEAR, .coordinates = RF_RESIZE_ALIGN_CORNERS },
      { 1, 1.5f, 2, 2.5f, 3, 3.5f, 4 } },
    { "bilinear 1 aligned",
      { .size = { 1, 1 }, .method = RF_RESIZE_BILINEAR, .coordinates = RF_RESIZE_ALIGN_CORNERS },
      { 1 } },
    { "bilinear 1", { .size = { 1, 1 }, .method = RF_RESIZE_BILINEAR }, { 2.5f } },
    { "bilinear 1 first",
      { .size = { 1, 1 }, .method = RF_RESIZE_BILINEAR, .coordinates = RF_RESIZE_PYTORCH_HALF_PIXEL },
      { 1 } },
    { "bilinear 2 of 0.6", /* 5/6 - 1/2 and 5/2 - 1/2 */
      { .size = { 1, 2 }, .method = RF_RESIZE_BILINEAR, .scale = { 0, 0.6f } },
      { 4.0f / 3, 3 } },
    { "bicubic 2", { .size = { 1, 2 }, .method = RF_RESIZE_BICUBIC }, { 1.40625f, 3.59375f } },
    { "bicubic 2 outside", /* of 1, 2 and 3: (0.59375, 0.59375, -0.09375) / 1.09375 */
      { .size = { 1, 2 }, .method = RF_RESIZE_BICUBIC, .skip_outside = true },
      { 1.5f / 1.09375f, 5 - 1.5f / 1.09375f } },
    { "bicubic 4", { .size = { 1, 4 }, .method = RF_RESIZE_BICUBIC }, { 1, 2, 3, 4 } },
};
enum { NUM_LINES = sizeof(lines) / sizeof(lines[0]) };

typedef struct resize_of {
    const rf_resize2d_params *params;
    bool down; /* the line goes down */
} resize_of;

/* Weights 1, 2, ... make all elements' gradients differ: `out[1]` is what pulls back to the loss itself. */
static rf_result resize_step(rf_trace *t, const rf_tensor *in, rf_tensor *out, void *user)
{
    const resize_of *r = user;
    rf_resize2d_params p = *r->params;
    rf_tensor gradient;
    if (r->down) {
        p.size[0] = p.size[1], p.size[1] = 1;
        p.scale[0] = p.scale[1], p.scale[1] = 0;
    }
    const rf_tensor x = rf_reshape(t, in[0], r->down ? RF_SHAPE(-1, 4, 1, 1) : RF_SHAPE(-1, 1, 4, 1));
    const rf_tensor y = rf_resize2d(t, x, &p);
    out[0] = rf_reshape(t, y, RF_SHAPE(-1, r->params->size[1]));
    const rf_tensor loss = rf_reduce_sum(t, rf_square(t, y), NULL, 0, RF_DROP_DIMS);
    GO(rf_gradients(t, loss, &x, 1, &gradient));
    out[1] = rf_reshape(t, rf_multiply(t, gradient, x), RF_SHAPE(-1, 4));
    return rf_trace_status(t);
}

/* The loss is of degree 2 in x, so that gradients times x add up to twice it. */
static void check_line(rf_strategy *strategy, int which, bool down)
{
    float x[3 * 4] = { 1, 2, 3, 4, 2, 4, 6, 8, -1, -2, -3, -4 };
    static const float factor[] = { 1, 2, -1 };
    const int64_t columns = lines[which].params.size[1];
    resize_of user = { &lines[which].params, down };
    rf_function *f;
    rf_per_replica *results[2];
    rf_array y, pulled;
    double squares = 0, total = 0;
    OK(rf_function_create(strategy, &(rf_function_params){ .step = resize_step, .user = &user, .num_outputs = 2 }, &f));
    const rf_element batch = { .num_components = 1, .component = { array_f32(RF_SHAPE(3, 4), x) } };
    OK(rf_strategy_run(strategy, f, &batch, results));
    OK(rf_strategy_gather(strategy, results[0], &y));
    OK(rf_strategy_gather(strategy, results[1], &pulled));
    for (int64_t i = 0; i < 3 * columns; i++) {
        const float value = ((const float *)y.data)[i];
        assert_near(value, lines[which].expected[i % columns] * factor[i / columns], 1e-6, 1e-6, lines[which].name);
        squares += (double)value * (double)value;
    }
    for (int i = 0; i < 12; i++) total += ((const float *)pulled.data)[i];
    assert_near(total, 2 * squares, 1e-5, 0, lines[which].name);
    rf_array_free(&y);
    rf_array_free(&pulled);
    rf_function_destroy(&f);
}

static void resizes(rf_strategy *strategy)
{
    for (int i = 0; i < 2 * NUM_LINES; i++) check_line(strategy, i / 2, i % 2);
}
TEST_ON_ONE(resizes)

/* Numbers of the elements show where each went: [1, 1, 2, 8] and [1, 2, 4, 2]. */
static rf_result blocks_step(rf_trace *t, const rf_tensor *in, rf_tensor *out, void *user)
{
    (void)user;
    const rf_tensor deep = rf_reshape(t, in[0], RF_SHAPE(-1, 1, 2, 8)),
                    flat = rf_reshape(t, in[0], RF_SHAPE(-1, 2, 4, 2));
    for (int order = 0; order < 2; order++) {
        const rf_block_order o = (rf_block_order)order;
        out[3 * order] = rf_depth_to_space(t, deep, 2, o);
        out[3 * order + 1] = rf_space_to_depth(t, flat, 2, o);
        out[3 * order + 2] = rf_space_to_depth(t, out[3 * order], 2, o);
    }
    return rf_trace_status(t);
}

static void moves_blocks(rf_strategy *strategy)
{
    static const float expected[6][16] = {
        { 0, 1, 2, 3, 8, 9, 10, 11, 4, 5, 6, 7, 12, 13, 14, 15 },
        { 0, 1, 2, 3, 8, 9, 10, 11, 4, 5, 6, 7, 12, 13, 14, 15 },
        { 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15 },
        { 0, 4, 1, 5, 8, 12, 9, 13, 2, 6, 3, 7, 10, 14, 11, 15 },
        { 0, 2, 8, 10, 1, 3, 9, 11, 4, 6, 12, 14, 5, 7, 13, 15 },
        { 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15 },
    };
    float x[32];
    rf_function *f;
    rf_per_replica *results[6];
    for (int i = 0; i < 32; i++) x[i] = (float)i;
    OK(rf_function_create(strategy, &(rf_function_params){ .step = blocks_step, .num_outputs = 6 }, &f));
    const rf_element batch = { .num_components = 1, .component = { array_f32(RF_SHAPE(2, 16), x) } };
    OK(rf_strategy_run(strategy, f, &batch, results));
    for (int k = 0; k < 6; k++) {
        rf_array y;
        OK(rf_strategy_gather(strategy, results[k], &y));
        for (int i = 0; i < 32; i++)
            assert_near(((const float *)y.data)[i], expected[k][i % 16] + (float)(i / 16 * 16), 0, 0, "block");
        rf_array_free(&y);
    }
    rf_function_destroy(&f);
}
TEST_ON_ONE(moves_blocks)

/* ---- what is refused ---- */

static const struct {
    rf_resize2d_params params;
    const char *message;
} wrong[] = {
    { { .size = { 0, 4 } }, "rf_resize2d: size[0] is 0 with a scale of 0; sizes are 1 to 1048576" },
    { { .size = { 1, 4 }, .scale = { 1, -2 } }, "rf_resize2d: size[1] is 4 with a scale of -2" },
    { { .size = { 1, 4 }, .method = (rf_resize_method)3 }, "rf_resize2d: method 3 does not exist" },
    { { .size = { 1, 4 }, .coordinates = (rf_resize_coordinates)5 }, "rf_resize2d: coordinates 5 does not exist" },
    { { .size = { 1, 4 }, .rounding = (rf_resize_rounding)4 }, "rf_resize2d: rounding 4 does not exist" },
    { { .size = { 1, 4 }, .reserved = { 1 } }, "rf_resize2d_params" },
};

static rf_result wrong_resize(rf_trace *t, const rf_tensor *in, rf_tensor *out, void *user)
{
    out[0] = rf_resize2d(t, rf_reshape(t, in[0], RF_SHAPE(-1, 1, 4, 2)), user);
    return rf_trace_status(t);
}

static rf_result wrong_blocks(rf_trace *t, const rf_tensor *in, rf_tensor *out, void *user)
{
    const rf_tensor x = rf_reshape(t, in[0], RF_SHAPE(-1, 1, 4, 2));
    const int which = *(const int *)user;
    out[0] = which == 0   ? rf_depth_to_space(t, x, 2, RF_CHANNELS_INNER)
             : which == 1 ? rf_space_to_depth(t, x, 2, RF_CHANNELS_INNER)
             : which == 2 ? rf_depth_to_space(t, x, 0, RF_CHANNELS_INNER)
                          : rf_space_to_depth(t, x, 1, (rf_block_order)2);
    return rf_trace_status(t);
}

static void refuse(rf_strategy *strategy, rf_step_fn step, void *user, const char *message)
{
    float x[8] = { 0 };
    rf_function *f;
    OK(rf_function_create(strategy, &(rf_function_params){ .step = step, .user = user, .num_outputs = 1 }, &f));
    const rf_element batch = { .num_components = 1, .component = { array_f32(RF_SHAPE(1, 8), x) } };
    FAILS(rf_strategy_run(strategy, f, &batch, NULL), RF_ERROR_INVALID_ARGUMENT, message);
    rf_function_destroy(&f);
}

static void refuses(rf_strategy *strategy)
{
    static const char *const blocks[] = {
        "rf_depth_to_space: the channels of x [1,1,4,2] cannot be divided into blocks of 2 x 2",
        "rf_space_to_depth: images [1,1,4,2] cannot be divided into blocks of 2 x 2 pixels",
        "rf_depth_to_space: block is 0, must be 1 to 1024",
        "rf_space_to_depth: order 2 does not exist",
    };
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        rf_resize2d_params params = wrong[i].params;
        refuse(strategy, wrong_resize, &params, wrong[i].message);
    }
    refuse(strategy, wrong_resize, NULL, "rf_resize2d: params is NULL");
    for (int i = 0; i < 4; i++) refuse(strategy, wrong_blocks, &i, blocks[i]);
}
TEST_ON_ONE(refuses)

TESTS(images, NULL, NULL)
