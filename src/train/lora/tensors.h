/* SPDX-License-Identifier: Apache-2.0 */
/* The tensors of an adapter as PEFT's files have them: "base_model.model.", the module's name, ".lora_A.weight". */
#ifndef RF_TRAIN_LORA_TENSORS_H
#define RF_TRAIN_LORA_TENSORS_H

#include <ringfire/interchange.h>

#include "train/lora/set.h"

#define RF_LORA_CONFIG_FILE "adapter_config.json"

typedef enum rf_lora_tensor {
    RF_LORA_TENSOR_A,
    RF_LORA_TENSOR_B,
    RF_LORA_TENSOR_MAGNITUDE,
    RF_LORA_NUM_TENSORS
} rf_lora_tensor;

/* How many of them each module of such an adapter has. */
uint32_t rf_lora_num_tensors(const rf_lora_config *config);
/* Freed with rf_free(). */
char *rf_lora_tensor_name(const rf_lora_module *module, rf_lora_tensor kind);
/* As PyTorch has it: outputs first, then inputs, then the window. */
rf_shape rf_lora_tensor_shape(const rf_lora_module *module, rf_lora_tensor kind, uint32_t rank);
/* Numbers of the variables of an item, as the file has them or from there. */
rf_result rf_lora_tensor_move(const rf_lora_module *module, rf_lora_item *item, rf_lora_tensor kind, uint32_t rank,
                              float *file, bool to_file);
/* Finds the module of each tensor of a file. found[RF_LORA_NUM_TENSORS * i + kind] is that of module i, and chosen[i]
 * says whether it has any; both are zeroed before. All that are there fit the model, and none is missing. */
rf_result rf_lora_tensors_match(const rf_lora_modules *modules, const rf_lora_config *config, const rf_array_set *set,
                                const rf_named_array **found, bool *chosen);

#endif
