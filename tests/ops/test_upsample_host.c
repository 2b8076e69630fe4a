/* SPDX-License-Identifier: Apache-2.0 */
/* Enlarging images without a device: the references against numbers worked out on paper, messages, plans. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../support/op_call.h"
#include "ops/kit.h"
#include "ops/ops.h"
#include "tests/room.h"

static rf_tensor_desc f32(rf_shape shape)
{
    return (rf_tensor_desc){ RF_F32, shape };
}

/* Between the middles of 0 and 8, and of 16 and 24: half a pixel at each end repeats the border. */
TEST(images_are_enlarged)
{
    const rf_upsample_attr twice = { { 1, 2 }, RF_INTERPOLATION_BILINEAR },
                           thrice = { { 3, 1 }, RF_INTERPOLATION_BILINEAR },
                           repeat = { { 2, 3 }, RF_INTERPOLATION_NEAREST };
    const rf_tensor_desc x = f32(RF_SHAPE(1, 2, 2, 1));
    static const float values[4] = { 0, 8, 16, 24 };
    static const float by_two[8] = { 0, 2, 6, 8, 16, 18, 22, 24 };
    static const float by_three[12] = {
        0, 8, 0, 8, 16.0f / 3, 8 + 16.0f / 3, 32.0f / 3, 8 + 32.0f / 3, 16, 24, 16, 24
    };
    static const float repeated[24] = { 0,  0,  0,  8,  8,  8,  0,  0,  0,  8,  8,  8,
                                        16, 16, 16, 24, 24, 24, 16, 16, 16, 24, 24, 24 };
    const struct {
        const rf_upsample_attr *attr;
        rf_shape shape;
        const float *y;
    } expected[] = { { &twice, RF_SHAPE(1, 2, 4, 1), by_two },
                     { &thrice, RF_SHAPE(1, 6, 2, 1), by_three },
                     { &repeat, RF_SHAPE(1, 4, 6, 1), repeated } };
    for (int k = 0; k < 3; k++) {
        float y[24] = { 0 };
        rf_op_call call = make_call(&rf_op_upsample2d, expected[k].attr, 1, &x);
        assert_int_equal(rf_op_upsample2d.infer(&call), RF_OK);
        assert_true(rf_shape_equal(call.out[0].shape, expected[k].shape));
        assert_int_equal(rf_op_upsample2d.reference(&call, (void *[]){ (void *)values }, (void *[]){ y }), RF_OK);
        for (int64_t i = 0; i < rf_shape_count(expected[k].shape); i++)
            assert_true(fabsf(y[i] - expected[k].y[i]) < 1e-5f);
    }
    /* The shares that the four results of a line took from its two pixels: 1 + 3/4 + 1/4 of each. */
    static const float dy[8] = { 1, 2, 3, 4, 5, 6, 7, 8 };
    float dx[4];
    rf_op_call grad = make_call(&rf_op_upsample2d_grad, &twice, 2, (rf_tensor_desc[]){ f32(RF_SHAPE(1, 2, 4, 1)), x });
    assert_int_equal(rf_op_upsample2d_grad.infer(&grad), RF_OK);
    assert_int_equal(rf_op_upsample2d_grad.reference(&grad, (void *[]){ (void *)dy, NULL }, (void *[]){ dx }), RF_OK);
    static const float sums[4] = { 3.25f, 6.75f, 11.25f, 14.75f };
    for (int i = 0; i < 4; i++) assert_true(fabsf(dx[i] - sums[i]) < 1e-6f);
}

TEST(errors_name_the_shapes)
{
    const rf_tensor_desc odd = f32(RF_SHAPE(3, 4));
    const rf_upsample_attr twice = { { 2, 2 }, RF_INTERPOLATION_NEAREST }, none_of_it = { { 2, 0 }, 0 },
                           unknown = { { 2, 2 }, 2 }, far = { { 512, 512 }, 0 };
    const rf_tensor_desc images[2] = { f32(RF_SHAPE(1, 2, 3, 1)), f32(RF_SHAPE(1, 3, 2, 1)) };
    const rf_tensor_desc huge = f32(RF_SHAPE(1, 1 << 30, 1 << 30, 1));
    check_error(&rf_op_upsample2d, &twice, 1, &odd, "upsample2d: needs f32 images [n, h, w, c], got f32 [3,4]");
    check_error(&rf_op_upsample2d, &none_of_it, 1, images, "upsample2d: factors are 2 and 0; each must be 1 to 512");
    check_error(&rf_op_upsample2d, &unknown, 1, images, "upsample2d: interpolation 2 does not exist");
    check_error(&rf_op_upsample2d, &far, 1, &huge, "512 x 512 times enlarged, have too many elements");
    check_error(&rf_op_upsample2d_grad, &twice, 2, images,
                "upsample2d_grad: input 0 has shape [1,2,3,1], needs [1,6,4,1]");
}

/* Plans for a device whose descriptors span 64 KiB: images of repeated pixels are cut into lines, others are not. */
TEST(large_images_are_cut)
{
    rf_device_caps caps = { .driver = RF_DRIVER_OTHER,
                            .subgroup_size = 32,
                            .max_workgroup_size = { 1024, 1024, 64 },
                            .max_workgroup_invocations = 1024,
                            .max_grid = { 65535, 65535, 65535 },
                            .max_push_constants = 128,
                            .max_storage_range = 65536,
                            .buffer_alignment = 256 };
    const rf_tensor_desc x = f32(RF_SHAPE(2, 64, 64, 4));
    for (uint32_t bilinear = 0; bilinear < 2; bilinear++) {
        const rf_upsample_attr attr = { { 2, 2 }, bilinear };
        rf_op_call call = make_call(&rf_op_upsample2d, &attr, 1, &x);
        assert_int_equal(rf_op_upsample2d.infer(&call), RF_OK);
        for (uint32_t k = 0; k < rf_op_num_kernels(&rf_op_upsample2d); k++) {
            const rf_kernel *kernel = rf_op_kernel(&rf_op_upsample2d, k);
            rf_kernel_plan plan = { 0 };
            if (bilinear) {
                assert_true(kernel->score(&call, &caps, kernel->data) <= 0);
                continue;
            }
            assert_true(kernel->score(&call, &caps, kernel->data) > 0);
            assert_int_equal(rf_kernel_plan_make(kernel, &call, &caps, &plan), RF_OK);
            assert_int_equal(plan.count, 8); /* 128 lines, of 4 KiB each in the result */
            rf_kernel_plan_free(&plan);
        }
    }
}

TESTS(upsample_host, NULL, NULL)
