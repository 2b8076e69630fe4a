/* SPDX-License-Identifier: Apache-2.0 */
/**
 * @file
 * Weights and arrays in other programs' formats: safetensors, NumPy's .npy, ONNX. Readers trust
 * nothing; files appear under their names only when they are complete.
 */
#ifndef RINGFIRE_INTERCHANGE_H
#define RINGFIRE_INTERCHANGE_H

#include <ringfire/checkpoint.h>
#include <ringfire/common.h>
#include <ringfire/dataset.h>
#include <ringfire/train.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct rf_named_array {
    const char *name;
    rf_array array;
} rf_named_array;

/** Arrays that were read; rf_array_set_free(). */
typedef struct rf_array_set {
    rf_named_array *items; /**< in the order of the file's bytes */
    uint32_t count;
} rf_array_set;
RF_API void rf_array_set_free(rf_array_set *set);

/** Writes a safetensors file. Types: all of ::rf_dtype. The data of every array begins at a
 * multiple of its element's size: arrays of larger elements come first. */
RF_API RF_MUST_USE rf_result rf_safetensors_write(const char *path, const rf_named_array *arrays,
                                                  uint32_t count);
/** Reads one. @return RF_ERROR_UNSUPPORTED names a tensor of a type or rank that there is not here;
 * RF_ERROR_CORRUPT_DATA. */
RF_API RF_MUST_USE rf_result rf_safetensors_read(const char *path, rf_array_set *out);

/** A safetensors file that is read piece by piece, in memory that does not depend on the size of
 * its tensors. Opening checks the header and that its tensors cover the file. Thread-safe once it
 * is open.
 *  @return as rf_safetensors_read() */
typedef struct rf_safetensors rf_safetensors;
RF_API RF_MUST_USE rf_result rf_safetensors_open(const char *path, rf_safetensors **out);
RF_API void rf_safetensors_close(rf_safetensors **file);
/** Number of tensors, and one of them, in the order of their names; the name is borrowed. */
RF_API uint64_t rf_safetensors_count(const rf_safetensors *file);
RF_API RF_MUST_USE rf_result rf_safetensors_entry_at(const rf_safetensors *file, uint64_t index,
                                                     rf_archive_entry *out);
/** Reads `size` bytes of a tensor from byte `offset` on.
 *  @return RF_ERROR_INVALID_ARGUMENT when the tensor has fewer, RF_ERROR_NOT_FOUND when there is no
 * such tensor. */
RF_API RF_MUST_USE rf_result rf_safetensors_read_range(const rf_safetensors *file, const char *name,
                                                       uint64_t offset, void *data, uint64_t size);
/** Copies all tensors of an archive into a safetensors file, and the other way round, in memory of
 * a few megabytes. Values of an archive have no place in a safetensors file. Blocking; a file
 * appears under `path` when it is complete. `params` may be NULL. */
RF_API RF_MUST_USE rf_result rf_safetensors_from_archive(rf_archive *archive, const char *path);
RF_API RF_MUST_USE rf_result rf_archive_from_safetensors(rf_safetensors *file, const char *path,
                                                         const rf_save_params *params);

/** Writes an array as .npy; bf16, which NumPy has not, is refused. */
RF_API RF_MUST_USE rf_result rf_npy_write(const char *path, const rf_array *array);
/** Reads one; `out->data` is the caller's: rf_array_free(). Row-major, little-endian f4, f2, i4,
 * i8, u1. */
RF_API RF_MUST_USE rf_result rf_npy_read(const char *path, rf_array *out);

/** The weights of a built model by the names of its variables, "dense/kernel". Reading sets all of
 * them or none, and leaves alone what else the file holds, of whatever type; the chief of a job
 * reads and writes. Collective. */
RF_API RF_MUST_USE rf_result rf_model_export_safetensors(rf_model *model, const char *path);
RF_API RF_MUST_USE rf_result rf_model_import_safetensors(rf_model *model, const char *path);

/** A built model, sequential or not, as an ONNX graph for inference (IR 8, opset 13): "input" and
 * "output" have the types and shapes that they have here, images [n, h, w, c]; n is open. Casts to
 * integers agree for numbers that the integers can hold. Collective. @return RF_ERROR_UNSUPPORTED
 * names an operation that has no form there (losses, gradients). */
RF_API RF_MUST_USE rf_result rf_model_export_onnx(rf_model *model, const char *path);

#ifdef __cplusplus
}
#endif
#endif
