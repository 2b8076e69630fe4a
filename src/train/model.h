/* SPDX-License-Identifier: Apache-2.0 */
#ifndef RF_TRAIN_MODEL_H
#define RF_TRAIN_MODEL_H

#include <ringfire/train.h>

#include "base/memory.h"
#include "train/layers/layer.h"

typedef struct rf_compiled rf_compiled; /* compile.h */

struct rf_model {
    rf_strategy *strategy;
    struct {
        rf_layer **items;
        uint32_t count, capacity;
    } layers;              /* owned */
    rf_model_call_fn call; /* NULL: the layers in sequence */
    void *user;
    bool built;           /* a call has gone through */
    rf_shape input_shape; /* of an example, where `built` */
    rf_dtype input_dtype;
    struct {
        rf_variable **items;
        uint32_t count, capacity;
    } variables;                 /* of the built layers, in creation order; owned by the layers */
    rf_optimizer *own_optimizer; /* of a model that was loaded; NULL: none */
    rf_compiled *compiled;       /* NULL before rf_model_compile() */
    rf_function *predict;        /* made by the first rf_model_predict() */
    rf_arena names;              /* of logs: histories refer to them as long as the model lives */
};

/* One line of a summary. */
typedef struct rf_summary_row {
    const char *name, *type;
    bool has_output;
    rf_shape output; /* batch included; shown as "n" */
    uint64_t params;
} rf_summary_row;
/* The table that rf_model_summary() gives. `title` is the model's kind. Free with rf_free. */
rf_result rf_summary_format(const char *title, const rf_summary_row *rows, uint32_t num_rows, char **text);

#endif
