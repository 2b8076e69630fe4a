/* SPDX-License-Identifier: Apache-2.0 */
/* Swish, x * sigmoid(beta * x), as an operation with a shader of its own, and as a layer that learns beta. */
#ifndef EXAMPLES_CUSTOM_OP_SWISH_H
#define EXAMPLES_CUSTOM_OP_SWISH_H

#include <ringfire/ringfire.h>

/* The operation and that of its gradient: one of each does for all layers. */
typedef struct swish_ops {
    rf_custom_op *forward, *gradient;
} swish_ops;

rf_result swish_create(swish_ops *ops);
void swish_destroy(swish_ops *ops);
/* The layer. Without `ops` it is made of the library's operations. */
rf_result swish_layer(const swish_ops *ops, const char *name, rf_layer **out);
/* Lets models with such layers be loaded from files. */
rf_result swish_register(swish_ops *ops);

#endif
