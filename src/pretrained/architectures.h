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
extern const rf_pretrained_architecture rf_pretrained_mobilenet_v3_large;
extern const rf_pretrained_architecture rf_pretrained_mobilenet_v3_small;
extern const rf_pretrained_architecture rf_pretrained_phi3;
extern const rf_pretrained_architecture rf_pretrained_qwen2;
extern const rf_pretrained_architecture rf_pretrained_qwen3;
extern const rf_pretrained_architecture rf_pretrained_resnet;
extern const rf_pretrained_architecture rf_pretrained_resnet101;
extern const rf_pretrained_architecture rf_pretrained_resnet152;
extern const rf_pretrained_architecture rf_pretrained_resnet18;
extern const rf_pretrained_architecture rf_pretrained_resnet34;
extern const rf_pretrained_architecture rf_pretrained_resnet50;
extern const rf_pretrained_architecture rf_pretrained_roberta;
extern const rf_pretrained_architecture rf_pretrained_vit;
extern const rf_pretrained_architecture rf_pretrained_xlm_roberta;

#endif
