/* SPDX-License-Identifier: Apache-2.0 */
/* Of Winograd's F(4 x 4, 3 x 3) with the points 0, 1, -1, 1/2, -2 and infinity; winograd_pack.comp has its G. */
#ifndef RF_WINOGRAD_4_GLSL
#define RF_WINOGRAD_4_GLSL

/* to = B^T d of six pixels. */
#define TIMES_B(to, d)                                                                                                 \
    {                                                                                                                  \
        vec4 odd = d[3] - d[1], even = d[4] - d[2];                                                                    \
        to[0] = d[0] - d[2] + even + 1.5 * odd;                                                                        \
        to[1] = d[4] - d[1] + 0.5 * d[2] + 2.5 * d[3];                                                                 \
        to[2] = d[4] + d[1] - 2.5 * d[2] + 0.5 * d[3];                                                                 \
        to[3] = even + 2.0 * odd;                                                                                      \
        to[4] = even - 0.5 * odd;                                                                                      \
        to[5] = d[1] + d[5] - 2.0 * d[3] + 1.5 * even;                                                                 \
    }

/* to = A^T m of six sums, four results. */
#define TIMES_A(to, m)                                                                                                 \
    {                                                                                                                  \
        vec4 sum = m(1) + m(2), difference = m(1) - m(2);                                                              \
        to[0] = m(0) + sum + (m(3) + m(4));                                                                            \
        to[1] = difference + 0.5 * m(3) - 2.0 * m(4);                                                                  \
        to[2] = sum + 0.25 * m(3) + 4.0 * m(4);                                                                        \
        to[3] = difference + 0.125 * m(3) - 8.0 * m(4) + m(5);                                                         \
    }

#endif
