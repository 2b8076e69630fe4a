/* SPDX-License-Identifier: Apache-2.0 */
/* y = activation(x + bias): constants 1 and 2 of every shader that ends a matmul or a convolution. */
#ifndef LINEAR_EPILOGUE_GLSL
#define LINEAR_EPILOGUE_GLSL

layout(constant_id = 1) const int ACTIVATION = 0; /* rf_activation */
layout(constant_id = 2) const int HAS_BIAS = 0;

/* Abramowitz & Stegun 7.1.26, |error| <= 1.5e-7. */
#define LINEAR_ERF(T)                                                                                                  \
    T linear_erf(T x)                                                                                                  \
    {                                                                                                                  \
        T t = 1.0 / (1.0 + 0.3275911 * abs(x));                                                                        \
        T p = t * (0.254829592 + t * (-0.284496736 + t * (1.421413741 + t * (-1.453152027 + t * 1.061405429))));       \
        return sign(x) * (1.0 - p * exp(-x * x));                                                                      \
    }
#define LINEAR_ACTIVATE(T)                                                                                             \
    T linear_activate(T x)                                                                                             \
    {                                                                                                                  \
        if (ACTIVATION == 1) return max(x, 0.0);                                                                       \
        if (ACTIVATION == 2) return max(x, 0.0) + 0.2 * min(x, 0.0);                                                   \
        if (ACTIVATION == 3) return 1.0 / (1.0 + exp(-x));                                                             \
        if (ACTIVATION == 4) return 1.0 - 2.0 / (exp(2.0 * clamp(x, -20.0, 20.0)) + 1.0);                              \
        if (ACTIVATION == 5) return 0.5 * x * (1.0 + linear_erf(x * 0.70710678));                                      \
        return x;                                                                                                      \
    }
LINEAR_ERF(float)
LINEAR_ERF(vec4)
LINEAR_ACTIVATE(float)
LINEAR_ACTIVATE(vec4)

#endif
