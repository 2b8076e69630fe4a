/* SPDX-License-Identifier: Apache-2.0 */
/* A folder of ONNX files with inputs and what the outputs should be, for check_onnx.py. */
#ifndef TESTS_TRAIN_ONNX_MANIFEST_H
#define TESTS_TRAIN_ONNX_MANIFEST_H

#include <stdio.h>

#include <ringfire/dataset.h>

typedef struct onnx_manifest {
    char folder[64];
    FILE *file;
    uint32_t num_models;
} onnx_manifest;

/* In a folder of its own, which the caller removes. */
void begin_manifest(onnx_manifest *m);
/* The file `model` in the folder. `nodes`: how many of some operations there are, as members of a JSON object. */
void list_model(onnx_manifest *m, const char *model, const rf_array *in, const char *const *in_names, uint32_t num_in,
                const rf_array *out, const char *const *out_names, uint32_t num_out, double rtol, double atol,
                const char *nodes);
/* The exit status of check_onnx.py: 77 where the judge is not installed. */
int judge_manifest(onnx_manifest *m, const char *judge);

#endif
