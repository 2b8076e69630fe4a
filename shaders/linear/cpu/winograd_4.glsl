/* SPDX-License-Identifier: Apache-2.0 */
/* Winograd's F(4 x 4, 3 x 3) with the points 0, 2/3, -2/3, 3/2, -3/2 and infinity;
 * winograd_pack.comp has its G. */
#ifndef RF_WINOGRAD_4_GLSL
#define RF_WINOGRAD_4_GLSL

/* to = B^T d of six pixels. */
#define TIMES_B(to, d)                                                                             \
    {                                                                                              \
        vec4 even = d[4] - 2.25 * d[2], odd = (2.0 / 3.0) * d[3] - 1.5 * d[1];                     \
        to[1] = even + odd;                                                                        \
        to[2] = even - odd;                                                                        \
        even = d[4] - (4.0 / 9.0) * d[2];                                                          \
        odd = 1.5 * d[3] - (2.0 / 3.0) * d[1];                                                     \
        to[3] = even + odd;                                                                        \
        to[4] = even - odd;                                                                        \
        to[0] = d[0] + d[4] - (97.0 / 36.0) * d[2];                                                \
        to[5] = d[1] + d[5] - (97.0 / 36.0) * d[3];                                                \
    }

/* to = A^T m of six sums, four results. */
#define TIMES_A(to, m)                                                                             \
    {                                                                                              \
        vec4 near = m(1) + m(2), far = m(3) + m(4), near_odd = m(1) - m(2), far_odd = m(3) - m(4); \
        to[0] = m(0) + near + far;                                                                 \
        to[1] = (2.0 / 3.0) * near_odd + 1.5 * far_odd;                                            \
        to[2] = (4.0 / 9.0) * near + 2.25 * far;                                                   \
        to[3] = (8.0 / 27.0) * near_odd + 3.375 * far_odd + m(5);                                  \
    }

#endif
