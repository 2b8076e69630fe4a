/* SPDX-License-Identifier: Apache-2.0 */
/* Names that the files of a model have for its modules, for adapters: the table of names read backwards. */
#ifndef RF_PRETRAINED_MODULES_H
#define RF_PRETRAINED_MODULES_H

#include <ringfire/pretrained.h>

#include "train/model/model.h"

typedef struct rf_module_names {
    rf_weight_names names;
    const rf_pretrained_architecture *architecture;
    bool has_head; /* names of all but heads begin with the prefix */
} rf_module_names;
/* `class` is that of the configuration, or NULL; `path` and `architecture` are borrowed. */
void rf_module_names_init(rf_module_names *names, const rf_pretrained_architecture *architecture, const char *class,
                          const char *path, const rf_model *model);

#endif
