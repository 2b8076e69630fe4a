/* SPDX-License-Identifier: Apache-2.0 */
/**
 * @file
 * Weights and arrays in the formats of other programs: safetensors, NumPy's .npy, ONNX.
 *
 * Readers trust no byte of a file. Files appear under their names only when they are complete. All
 * functions that read or write files are blocking, and return RF_ERROR_NOT_FOUND or RF_ERROR_IO
 * with the name of the file.
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

/** An array with a name. */
typedef struct rf_named_array {
    const char *name;
    rf_array array;
} rf_named_array;

/** Arrays that were read. The caller frees them with rf_array_set_free(). */
typedef struct rf_array_set {
    rf_named_array *items; /**< in the order of the file's bytes */
    uint32_t count;
} rf_array_set;
/** Frees the arrays of a set and zeroes it. NULL does nothing. */
RF_API void rf_array_set_free(rf_array_set *set);

/**
 * Writes a safetensors file. Every ::rf_dtype is possible. Thread-safe.
 * The data of every array begins at a multiple of its element's size: arrays of larger elements
 * come first.
 */
RF_API RF_MUST_USE rf_result rf_safetensors_write(const char *path, const rf_named_array *arrays,
                                                  uint32_t count);
/**
 * Reads a safetensors file as a whole. Thread-safe.
 * @return RF_ERROR_UNSUPPORTED names a tensor whose type or rank this library does not have
 *   (rf_safetensors_open() reads the others); RF_ERROR_CORRUPT_DATA, also where the header has more
 *   than the 100,000,000 bytes that the format allows.
 */
RF_API RF_MUST_USE rf_result rf_safetensors_read(const char *path, rf_array_set *out);

/**
 * A safetensors file that is read in ranges, in memory that does not depend on the size of its
 * tensors. Thread-safe once it is open.
 */
typedef struct rf_safetensors rf_safetensors;
/**
 * Opens a file. Checks the header, and that its tensors cover the file. They may be of any type:
 * rf_archive_entry::unsupported_type says which of them cannot be read.
 * @return RF_ERROR_CORRUPT_DATA, as rf_safetensors_read().
 */
RF_API RF_MUST_USE rf_result rf_safetensors_open(const char *path, rf_safetensors **out);
/** Closes a file. The names of its entries become invalid. */
RF_API void rf_safetensors_close(rf_safetensors **file);
/** Number of tensors. */
RF_API uint64_t rf_safetensors_num_tensors(const rf_safetensors *file);
/** One of the tensors, in the order of their names. The name is borrowed from the file. */
RF_API RF_MUST_USE rf_result rf_safetensors_entry_at(const rf_safetensors *file, uint64_t index,
                                                     rf_archive_entry *out);
/**
 * Reads `size` bytes of a tensor, beginning at byte `offset`.
 * @return RF_ERROR_INVALID_ARGUMENT when the tensor has fewer, RF_ERROR_NOT_FOUND when there is no
 *   such tensor, RF_ERROR_UNSUPPORTED when it is of a type or rank that this library does not have.
 */
RF_API RF_MUST_USE rf_result rf_safetensors_read_range(const rf_safetensors *file, const char *name,
                                                       uint64_t offset, void *data, uint64_t size);
/**
 * Copies all tensors of an archive into a safetensors file, in a few megabytes of memory.
 * The values of an archive have no equivalent in a safetensors file and are left out.
 */
RF_API RF_MUST_USE rf_result rf_safetensors_from_archive(rf_archive *archive, const char *path);
/**
 * Copies all tensors of a safetensors file into an archive, in a few megabytes of memory. `params`
 * may be NULL. RF_ERROR_UNSUPPORTED as rf_safetensors_read(), before anything is written.
 */
RF_API RF_MUST_USE rf_result rf_archive_from_safetensors(rf_safetensors *file, const char *path,
                                                         const rf_save_params *params);

/** Writes an array as .npy. bf16, which NumPy does not have, is refused. Thread-safe. */
RF_API RF_MUST_USE rf_result rf_npy_write(const char *path, const rf_array *array);
/**
 * Reads an .npy file: row-major, little-endian f4, f2, i4, i8 or u1. Thread-safe.
 * @param[out] out `data` is owned by the caller, who frees it with rf_array_free().
 * @return RF_ERROR_UNSUPPORTED for another type or order; RF_ERROR_CORRUPT_DATA.
 */
RF_API RF_MUST_USE rf_result rf_npy_read(const char *path, rf_array *out);

/**
 * Writes the weights of a built model under the names of its variables, "dense/kernel". The chief
 * of a job writes. Collective.
 */
RF_API RF_MUST_USE rf_result rf_model_export_safetensors(rf_model *model, const char *path);
/**
 * Sets the weights of a built model from a safetensors file: all of them or none. Tensors of f16
 * and bf16 are widened. Tensors that the model does not have are ignored, whatever their type. The
 * chief of a job reads. Collective.
 */
RF_API RF_MUST_USE rf_result rf_model_import_safetensors(rf_model *model, const char *path);

/* ---- weights under other names ---- */

/** Says which variable gets a tensor of a file, and how. `pattern` is required. */
typedef struct rf_weight_rule {
    /**
     * The tensor's name. "*" stands for any characters but "/" and ".", one at least and once in
     * each part between those; "**", once, for any characters or none.
     */
    const char *pattern;
    /**
     * The variable's name, as in rf_model_variables(): its n-th "*" or "**" becomes what the n-th
     * of the pattern stands for. NULL: the tensor is not wanted, and not left over either
     */
    const char *name;
    /**
     * Dimension i of the variable is dimension perm[i] of the tensor (rf_transpose()); tensors with
     * another number of dimensions than `num_perm` do not fit. NULL: as they are
     */
    const int32_t *perm;
    uint32_t num_perm;
    /** After `perm`, the tensor needs as many numbers as the variable, but not its shape. */
    bool reshape;
    uint64_t reserved[4]; /**< zero: room for later fields */
} rf_weight_rule;

/** How it went with a variable, or with a tensor that no variable got. */
typedef enum rf_weight_outcome {
    RF_WEIGHT_LOADED,
    RF_WEIGHT_MISSING,    /**< no tensor has the variable's name */
    RF_WEIGHT_MISMATCHED, /**< its tensor is of another shape, or not of f32, f16 or bf16 */
    RF_WEIGHT_LEFT_OVER,  /**< no variable has the tensor's name */
} rf_weight_outcome;
/** One line of a ::rf_weight_report. */
typedef struct rf_weight_note {
    rf_weight_outcome outcome;
    const char
        *variable;      /**< its name in the model; of LEFT_OVER what rules made of the tensor's */
    const char *tensor; /**< its name in the file; NULL: MISSING */
    const char *detail; /**< of MISMATCHED the types and shapes; else NULL */
    uint64_t reserved[4]; /**< zero until a later version has more to say */
} rf_weight_note;
/**
 * A report of rf_model_load_weights_with(), which the caller frees with rf_weight_report_free(), or
 * of rf_pretrained_weight_report().
 */
typedef struct rf_weight_report {
    rf_weight_note *notes; /**< all variables of the model, then all tensors that are left over */
    uint32_t count;
    uint32_t counts[4]; /**< notes of each ::rf_weight_outcome */
    char *text;         /**< holds the names */
    /** For people: a line for each note that is not RF_WEIGHT_LOADED; "" where there is none */
    char *summary;
    uint64_t reserved[3]; /**< zero until a later version has more to say */
} rf_weight_report;
/** Frees a report and zeroes it. NULL does nothing. */
RF_API void rf_weight_report_free(rf_weight_report *report);

/**
 * How rf_model_load_weights_with() reads a file. NULL or zeroed: every variable needs a tensor of
 * its name and shape, and other tensors are ignored.
 */
typedef struct rf_load_weights_params {
    /** The first that a tensor's name matches is followed; others keep their names. NULL: none */
    const rf_weight_rule *rules;
    uint32_t num_rules;
    bool allow_missing;    /**< variables without a tensor stay as they are */
    bool skip_mismatch;    /**< so do those whose tensor does not fit; as in Keras */
    bool refuse_left_over; /**< tensors that no variable gets are an error */
    /** Receives what became of each, also where something does not fit. NULL: not wanted */
    rf_weight_report *report;
    uint64_t reserved[8]; /**< zero: room for later fields */
} rf_load_weights_params;
/**
 * Sets weights of a built model from a safetensors file or an archive, under names that rules may
 * change. Nothing is set where something does not fit that has to, or where reading fails. The
 * names of an archive are those behind "model/"; all of them where there are none of these. Tensors
 * of f16 and bf16 are widened. The chief of a job reads; the report is the same on all workers.
 * Collective.
 * @return RF_ERROR_NOT_FOUND names a variable without a tensor; RF_ERROR_INVALID_ARGUMENT one whose
 *   tensor does not fit, two tensors for one variable, a tensor that is left over, or a rule.
 */
RF_API RF_MUST_USE rf_result rf_model_load_weights_with(rf_model *model, const char *path,
                                                        const rf_load_weights_params *params);

/* ---- ONNX ---- */

/**
 * Writes a built model, sequential or not, as an ONNX graph for inference (IR 8, opset 13).
 * Collective.
 * "input" and "output" have the types and shapes that they have here, images [n, h, w, c]; n is
 * open. Casts to integers agree for numbers that the integers can represent.
 * @return RF_ERROR_UNSUPPORTED names an operation that ONNX does not have (losses, gradients).
 */
RF_API RF_MUST_USE rf_result rf_model_export_onnx(rf_model *model, const char *path);

/** Options of rf_model_import_onnx(). NULL or zeroed: as the file says. */
typedef struct rf_import_onnx_params {
    /**
     * Shapes of an example of the first inputs, without the batch: numbers, or -1 again, for
     * dimensions that the file leaves open. NULL: they stay open
     */
    const rf_shape *input_shapes;
    uint32_t num_input_shapes;
    uint64_t reserved[8]; /**< zero: room for later fields */
} rf_import_onnx_params;
/**
 * Makes a functional model of an ONNX file (opsets 6 to 21): its initializers are variables, which
 * are trained, frozen, saved and exported as those of any model. Collective; blocking. The chief of
 * a job reads.
 *
 * The first dimension of each input is the batch, whatever number the file has there. Further
 * dimensions that the file leaves open stay so (rf_model_builder_input()). Inputs and outputs have
 * the layout of the file, such as [n, c, h, w]. Types of 16 and 64 bits become f32, whole numbers
 * i32 and truth values f32. Names of inputs and outputs keep letters, digits and "_".
 *
 * Convolutions, products with a matrix of weights, embeddings and norms become the library's
 * layers, and each other node one of its own. A layer is called after its initializer without the
 * last part of the name: "features.0.weight" is the kernel of the layer "features.0". An
 * initializer that several nodes read in different ways becomes a variable of each. Quantized
 * weights and activations are f32. Dropout drops in training only. Arithmetic of whole numbers is
 * that of f32, exact up to 2^24, and negative numbers of rows of an embedding are refused. External
 * data lies in the file's directory or below it.
 * @param params may be NULL
 * @return RF_ERROR_UNSUPPORTED names the node and its operation, where that is not there, or asks
 *   for something that is not. RF_ERROR_CORRUPT_DATA; RF_ERROR_NOT_FOUND and RF_ERROR_IO with the
 *   file.
 */
RF_API RF_MUST_USE rf_result rf_model_import_onnx(rf_strategy *strategy, const char *path,
                                                  const rf_import_onnx_params *params,
                                                  rf_model **out);

#ifdef __cplusplus
}
#endif
#endif
