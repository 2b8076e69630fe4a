/* SPDX-License-Identifier: Apache-2.0 */
/* Newton and Schulz's iteration in double precision, for tests of Muon. */
#ifndef RF_TESTS_SUPPORT_ORTHOGONAL_H
#define RF_TESTS_SUPPORT_ORTHOGONAL_H

#include <math.h>

/* Elements of the largest matrix, and of the square of its rows. */
enum { ORTHOGONAL_MOST = 512 };

/* out [m, n] = x [m, k] y [k, n], of matrices whose elements are so far apart along rows and columns. */
static inline void multiply_doubles(const double *x, int x_row, int x_column, const double *y, int y_row, int y_column,
                                    int m, int k, int n, double *out)
{
    for (int i = 0; i < m; i++)
        for (int j = 0; j < n; j++) {
            double sum = 0;
            for (int p = 0; p < k; p++) sum += x[i * x_row + p * x_column] * y[p * y_row + j * y_column];
            out[i * n + j] = sum;
        }
}

/* In place, always by x x^T: of tall matrices it is larger than need be. */
static inline void orthogonalize_doubles(double *x, int m, int n, int steps)
{
    double square[ORTHOGONAL_MOST], fourth[ORTHOGONAL_MOST], product[ORTHOGONAL_MOST], norm = 0;
    for (int i = 0; i < m * n; i++) norm += x[i] * x[i];
    for (int i = 0; i < m * n; i++) x[i] /= sqrt(norm) + 1e-7;
    for (int step = 0; step < steps; step++) {
        multiply_doubles(x, n, 1, x, 1, n, m, n, m, square);
        multiply_doubles(square, m, 1, square, m, 1, m, m, m, fourth);
        for (int i = 0; i < m * m; i++) square[i] = -4.7750 * square[i] + 2.0315 * fourth[i];
        multiply_doubles(square, m, 1, x, n, 1, m, m, n, product);
        for (int i = 0; i < m * n; i++) x[i] = 3.4445 * x[i] + product[i];
    }
}

#endif
