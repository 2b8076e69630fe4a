/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The innermost lines of products, written out: an iteration that the optimiser unrolls leaves four
 * blocks behind, and its time grows faster than their number.
 */
#ifndef PRODUCTS_GLSL
#define PRODUCTS_GLSL

/* sum[i] += s[0] * b0[i], s[1] * b1[i] and so on, for one i. */
#define ADD_TO_ONE_3(sum, i, s, b0, b1, b2)                                                        \
    sum[i] += s[0] * b0[i];                                                                        \
    sum[i] += s[1] * b1[i];                                                                        \
    sum[i] += s[2] * b2[i];
#define ADD_TO_ONE_4(sum, i, s, b0, b1, b2, b3)                                                    \
    ADD_TO_ONE_3(sum, i, s, b0, b1, b2)                                                            \
    sum[i] += s[3] * b3[i];

/* The same for all four. */
#define ADD_PRODUCTS_3(sum, s, b0, b1, b2)                                                         \
    ADD_TO_ONE_3(sum, 0, s, b0, b1, b2)                                                            \
    ADD_TO_ONE_3(sum, 1, s, b0, b1, b2)                                                            \
    ADD_TO_ONE_3(sum, 2, s, b0, b1, b2)                                                            \
    ADD_TO_ONE_3(sum, 3, s, b0, b1, b2)
#define ADD_PRODUCTS_4(sum, s, b0, b1, b2, b3)                                                     \
    ADD_TO_ONE_4(sum, 0, s, b0, b1, b2, b3)                                                        \
    ADD_TO_ONE_4(sum, 1, s, b0, b1, b2, b3)                                                        \
    ADD_TO_ONE_4(sum, 2, s, b0, b1, b2, b3)                                                        \
    ADD_TO_ONE_4(sum, 3, s, b0, b1, b2, b3)

/* s[q] = the value[q] of another lane; FROM_LANE is the shader's. */
#define TAKE_3(s, value_0, value_1, value_2, lane)                                                 \
    s[0] = FROM_LANE(value_0, lane);                                                               \
    s[1] = FROM_LANE(value_1, lane);                                                               \
    s[2] = FROM_LANE(value_2, lane);
#define TAKE_4(s, value_0, value_1, value_2, value_3, lane)                                        \
    TAKE_3(s, value_0, value_1, value_2, lane)                                                     \
    s[3] = FROM_LANE(value_3, lane);

#endif
