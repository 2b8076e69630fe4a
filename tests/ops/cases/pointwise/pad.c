/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/ops/cases/cases.h"

#define PADDING(...) .attr = &(const rf_pad_attr)__VA_ARGS__
#define F32(...) .n_in = 1, .in = { RF_TENSOR(RF_F32, RF_FILL_NORMAL, 0, 1, __VA_ARGS__) }
static const rf_op_case cases[] = {
    { .name = "none_5x7", PADDING({ { 0 }, { 0 }, 1 }), F32(2, 5, 7), .check_gradient = true },
    { .name = "by_value_17", PADDING({ { 3 }, { 2 }, -1.5f }), F32(1, 17), .check_gradient = true },
    { .name = "images_2x3x5x4", PADDING({ { 0, 1, 2 }, { 0, 2, 1 }, 0 }), F32(4, 2, 3, 5, 4), .check_gradient = true },
    { .name = "channels_7x64", PADDING({ { 0, 4 }, { 0, 8 }, 0.25f }), F32(2, 7, 64) },
    { .name = "off_fours_257x13", PADDING({ { 1, 3 }, { 0, 7 }, 0 }), F32(2, 257, 13) },
    { .name = "channels_twice_5x6x16", PADDING({ { 0 }, { 0, 0, 16 }, 0 }), F32(3, 5, 6, 16), .check_gradient = true },
    { .name = "rank6", PADDING({ { 1, 0, 1, 0, 2, 0 }, { 0, 1, 0, 2, 0, 1 }, 3 }), F32(6, 2, 3, 2, 3, 2, 3) },
    { .name = "images_64x32x32x16",
      PADDING({ { 0, 4, 4 }, { 0, 4, 4 }, 0 }),
      F32(4, 64, 32, 32, 16),
      .large = true,
      .benchmark = true },
};

RF_OP_CASES(pad, cases);
