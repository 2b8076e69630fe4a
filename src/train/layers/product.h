/* SPDX-License-Identifier: Apache-2.0 */
/* Products of an activation and a weight: the one place where layers multiply what they get by what they learn. The
 * product of the weight, and the part that an adapter adds to it, are steps of their own. */
#ifndef RF_TRAIN_LAYERS_PRODUCT_H
#define RF_TRAIN_LAYERS_PRODUCT_H

#include "train/layers/layer.h"

typedef enum rf_product_kind {
    RF_PRODUCT_DENSE,          /* x [n, ..., in] by a weight [in, out] */
    RF_PRODUCT_HEAD,           /* the same by a weight [out, in] */
    RF_PRODUCT_LOOKUP,         /* rows of a weight [rows, out] by indices i32 */
    RF_PRODUCT_CONV,           /* x [n, h, w, c] by a weight [kh, kw, c / groups, out] */
    RF_PRODUCT_CONV_TRANSPOSE, /* the same by a weight [kh, kw, out / groups, c] */
} rf_product_kind;
typedef struct rf_product {
    rf_product_kind kind;
    rf_variable *weight; /* borrowed */
    rf_shape shape;      /* of the weight as the operand, with its elements in their order */
    rf_conv2d_params conv;
} rf_product;

/* Two narrow matrices beside a weight (Hu et al. 2021), in f32: "a" [in, rank], as a convolution [kh, kw, c, rank], and
 * "b" [rank, out]. */
typedef struct rf_adapter {
    rf_variable *a, *b;
    rf_variable *magnitude; /* [out]: of the columns of the whole (Liu et al. 2024); NULL: as they come */
    float scale, dropout;
    uint64_t seed; /* of the dropout */
} rf_adapter;
/* A product that a layer makes, known since it was called first. */
typedef struct rf_product_site {
    rf_product product;
    const rf_adapter *adapter; /* what acts beside the weight; NULL: nothing. Borrowed */
} rf_product_site;
typedef struct rf_product_sites {
    rf_product_site *items;
    uint32_t count, capacity;
} rf_product_sites;

/* All that a layer makes of an activation and a weight, before bias and activation. */
rf_tensor rf_layer_product(rf_trace *t, const rf_layer *layer, const rf_product *product, rf_tensor x, rf_mode mode);
/* The part of it that the weight itself makes. */
rf_tensor rf_layer_base_product(rf_trace *t, const rf_layer *layer, const rf_product *product, rf_tensor x);
/* The same for a weight whose operand has the shape of the variable. */
rf_tensor rf_layer_plain_product(rf_trace *t, const rf_layer *layer, rf_product_kind kind, rf_variable *weight,
                                 rf_tensor x, rf_mode mode);

#endif
