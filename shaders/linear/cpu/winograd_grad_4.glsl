/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Winograd's F(3 x 3, 4 x 4) with the points 0, 1, -1, 1/2, -2 and infinity. Not those of
 * winograd_4.glsl: of the matrices that A makes of dy the one of point 1 adds all pixels, which is
 * the gradient of a bias, and the tolerance of sums over many pixels is wide.
 */
#ifndef RF_WINOGRAD_GRAD_4_GLSL
#define RF_WINOGRAD_GRAD_4_GLSL

/* to = B^T d of six pixels of x. */
#define TIMES_B(to, d)                                                                             \
    {                                                                                              \
        vec4 odd = d[3] - d[1], even = d[4] - d[2];                                                \
        to[0] = d[0] - d[2] + even + 1.5 * odd;                                                    \
        to[1] = d[4] - d[1] + 0.5 * d[2] + 2.5 * d[3];                                             \
        to[2] = d[4] + d[1] - 2.5 * d[2] + 0.5 * d[3];                                             \
        to[3] = even + 2.0 * odd;                                                                  \
        to[4] = even - 0.5 * odd;                                                                  \
        to[5] = d[1] + d[5] - 2.0 * d[3] + 1.5 * even;                                             \
    }

/* to = A e of four pixels of dy. */
#define TIMES_A_PIXELS(to, e)                                                                      \
    {                                                                                              \
        vec4 even = e[0] + e[2], odd = e[1] + e[3];                                                \
        to[0] = e[0];                                                                              \
        to[1] = even + odd;                                                                        \
        to[2] = even - odd;                                                                        \
        to[3] = e[0] + 0.5 * e[1] + 0.25 * e[2] + 0.125 * e[3];                                    \
        to[4] = e[0] - 2.0 * e[1] + 4.0 * e[2] - 8.0 * e[3];                                       \
        to[5] = e[3];                                                                              \
    }

/* to = G^T m of six sums, three taps. */
#define TIMES_G(to, m)                                                                             \
    {                                                                                              \
        vec4 difference = (m(1) - m(2)) * (1.0 / 3.0);                                             \
        to[0] = m(0) + difference - (16.0 / 15.0) * m(3) + (1.0 / 15.0) * m(4);                    \
        to[1] = (m(1) + m(2)) * (1.0 / 3.0) - (8.0 / 15.0) * m(3) - (2.0 / 15.0) * m(4);           \
        to[2] = difference + m(5) + (4.0 / 15.0) * (m(4) - m(3));                                  \
    }

#endif
