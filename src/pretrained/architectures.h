/* SPDX-License-Identifier: Apache-2.0 */
/* The architectures that the library has. Each is one file: a table of tensors, and a function that makes the layers.
 */
#ifndef RF_PRETRAINED_ARCHITECTURES_H
#define RF_PRETRAINED_ARCHITECTURES_H

#include <ringfire/pretrained.h>

extern const rf_pretrained_architecture rf_pretrained_bert;
extern const rf_pretrained_architecture rf_pretrained_distilbert;
extern const rf_pretrained_architecture rf_pretrained_gemma2;
extern const rf_pretrained_architecture rf_pretrained_gpt2;
extern const rf_pretrained_architecture rf_pretrained_llama;
extern const rf_pretrained_architecture rf_pretrained_mistral;
extern const rf_pretrained_architecture rf_pretrained_phi3;
extern const rf_pretrained_architecture rf_pretrained_qwen2;
extern const rf_pretrained_architecture rf_pretrained_qwen3;

#endif
