/* SPDX-License-Identifier: Apache-2.0 */
/* The ways in which kernels of row operations share rows out (softmax, layer_norm, losses): data of their tables. */
#ifndef RF_OPS_REDUCTION_COMMON_ROW_FORMS_H
#define RF_OPS_REDUCTION_COMMON_ROW_FORMS_H

#include "ops/kit.h"
#include "rf_shaders.h"

typedef enum rf_row_way {
    RF_ROW_ALONE, /* an invocation walks a row */
    RF_ROW_GROUP, /* a workgroup does */
    RF_ROW_LANES, /* neighbouring lanes of a subgroup do */
} rf_row_way;

typedef struct rf_row_form {
    rf_row_way way;
    bool fours, texels;              /* four columns a step; read by texels */
    const rf_shader *const *shaders; /* by the op's role */
} rf_row_form;

/* The rows of predictions or inputs that a job walks: `columns` each, so many times over. False: the form is for other
 * rows, or for other devices. */
bool rf_row_form_fits(const rf_row_form *form, const rf_device_caps *caps, uint64_t columns);
/* Shares the rows of a job out, which has its tensors; appends constants of the shader. */
void rf_row_form_share(const rf_row_form *form, const rf_device_caps *caps, uint64_t columns, uint32_t passes,
                       rf_row_job *job);

/* Jobs of kernels whose forms these are (rf_row_kernel.make). */
rf_row_make_fn rf_softmax_job, rf_layer_norm_job, rf_loss_job;
/* Whether these ops' kernels of fours take types of 16 bits. */
rf_narrow_fn rf_layer_norm_narrow, rf_loss_narrow;
/* Rows of tables: RF_ROW_FORM("row", rf_softmax_job, .shaders = list) */
#define RF_ROW_FORM(text, make, ...) RF_ROW_KERNEL(text, make, &(const rf_row_form){ __VA_ARGS__ })

#endif
