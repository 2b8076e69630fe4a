/* SPDX-License-Identifier: Apache-2.0 */
/* y = activation(x + bias): constants 1 and 2 of every shader that ends a matmul or a convolution.
 */
#ifndef LINEAR_EPILOGUE_GLSL
#define LINEAR_EPILOGUE_GLSL

#define ACTIVATIONS_ONLY
#include "scalar_math.glsl"

layout(constant_id = 1) const int ACTIVATION = 0; /* rf_activation */
layout(constant_id = 2) const int HAS_BIAS = 0;

#define LINEAR_ACTIVATE(T)                                                                         \
    T linear_activate(T x)                                                                         \
    {                                                                                              \
        if (ACTIVATION == 1) return rf_relu(x);                                                    \
        if (ACTIVATION == 2) return rf_leaky_relu(x, 0.2);                                         \
        if (ACTIVATION == 3) return rf_sigmoid(x);                                                 \
        if (ACTIVATION == 4) return rf_tanh(x);                                                    \
        if (ACTIVATION == 5) return rf_gelu(x);                                                    \
        return x;                                                                                  \
    }
LINEAR_ACTIVATE(float)
LINEAR_ACTIVATE(vec4)

#endif
