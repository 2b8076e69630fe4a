/* SPDX-License-Identifier: Apache-2.0 */
/**
 * @file
 * GGUF: files of one model with its tokenizer and settings, as llama.cpp and Ollama read them.
 *
 * A file holds values with keys, such as "general.architecture", and tensors, whose numbers may be
 * stored in blocks of few bits. Readers trust no byte of a file. All functions that read or write
 * files are blocking, and return RF_ERROR_NOT_FOUND or RF_ERROR_IO with the name of the file.
 */
#ifndef RINGFIRE_GGUF_H
#define RINGFIRE_GGUF_H

#include <ringfire/common.h>

#ifdef __cplusplus
extern "C" {
#endif

/** How the numbers of a tensor are stored: the format's own numbers. */
typedef enum rf_gguf_type {
    RF_GGUF_F32 = 0,
    RF_GGUF_F16 = 1,
    RF_GGUF_Q4_0 = 2,  /**< 32 numbers: a scale and 4 bits each. Read only */
    RF_GGUF_Q8_0 = 8,  /**< 32 numbers: a scale and 8 bits each */
    RF_GGUF_Q4_K = 12, /**< 256 numbers: 8 scales and minima, and 4 bits each. Read only */
    RF_GGUF_Q6_K = 14, /**< 256 numbers: 16 scales, and 6 bits each. Read only */
    RF_GGUF_BF16 = 30,
} rf_gguf_type;

/** The type of a value: the format's own numbers. */
typedef enum rf_gguf_value_type {
    RF_GGUF_UINT8 = 0,
    RF_GGUF_INT8 = 1,
    RF_GGUF_UINT16 = 2,
    RF_GGUF_INT16 = 3,
    RF_GGUF_UINT32 = 4,
    RF_GGUF_INT32 = 5,
    RF_GGUF_FLOAT32 = 6,
    RF_GGUF_BOOL = 7,
    RF_GGUF_STRING = 8,
    RF_GGUF_UINT64 = 10,
    RF_GGUF_INT64 = 11,
    RF_GGUF_FLOAT64 = 12,
} rf_gguf_value_type;

/** A value with its key. */
typedef struct rf_gguf_value {
    const char *key;
    rf_gguf_value_type type; /**< of the elements of an array */
    bool array;
    uint64_t count; /**< elements of an array; 1 for a single value */
    /** `count` elements: uint8_t to double by `type`, uint8_t 0 or 1 for RF_GGUF_BOOL, const char *
     * for RF_GGUF_STRING */
    const void *data;
    /** The bytes of each string. Those that are read end with a zero byte, too. NULL: each ends
     * with a zero byte */
    const size_t *sizes;
    uint64_t reserved[4]; /**< zero: room for later fields */
} rf_gguf_value;

/** A tensor of a file. */
typedef struct rf_gguf_tensor {
    const char *name;
    rf_shape shape; /**< row-major: the format's dimensions from the last one to the first */
    rf_gguf_type type;
    /** The name of a type whose numbers cannot be read, such as "Q2_K"; else NULL. Only the
     * tensor's name and shape are known then. Writers ignore it */
    const char *unsupported_type;
    uint64_t reserved[4]; /**< zero: room for later fields */
} rf_gguf_tensor;

/** A file that is read. Thread-safe once it is open. */
typedef struct rf_gguf rf_gguf;
/**
 * Opens a file of version 2 or 3. Values are read, tensors are not: memory does not depend on them.
 * @param[out] out owned by the caller, who calls rf_gguf_close().
 * @return RF_ERROR_CORRUPT_DATA for a file that is none, or is damaged or cut; RF_ERROR_UNSUPPORTED
 *   for another version or byte order, arrays of arrays, and more than RF_MAX_RANK dimensions.
 */
RF_API RF_MUST_USE rf_result rf_gguf_open(const char *path, rf_gguf **out);
/** Closes a file. Its texts, values and names become invalid. */
RF_API void rf_gguf_close(rf_gguf **file);
/** Number of values. */
RF_API uint64_t rf_gguf_num_values(const rf_gguf *file);
/** One of the values, in the order of the file, to which key and data belong. */
RF_API RF_MUST_USE rf_result rf_gguf_value_at(const rf_gguf *file, uint64_t index,
                                              rf_gguf_value *out);
/** The value of a key. RF_ERROR_NOT_FOUND names a key that is not there. */
RF_API RF_MUST_USE rf_result rf_gguf_find_value(const rf_gguf *file, const char *key,
                                                rf_gguf_value *out);
/** Number of tensors. */
RF_API uint64_t rf_gguf_num_tensors(const rf_gguf *file);
/** One of the tensors, in the order of the file. The name belongs to the file. */
RF_API RF_MUST_USE rf_result rf_gguf_tensor_at(const rf_gguf *file, uint64_t index,
                                               rf_gguf_tensor *out);
/** The tensor of a name. RF_ERROR_NOT_FOUND names one that is not there. */
RF_API RF_MUST_USE rf_result rf_gguf_find_tensor(const rf_gguf *file, const char *name,
                                                 rf_gguf_tensor *out);
/**
 * Reads `count` numbers of a tensor as f32, beginning at number `first` in row-major order.
 * @return RF_ERROR_INVALID_ARGUMENT when the tensor has fewer, RF_ERROR_NOT_FOUND when there is no
 *   such tensor, RF_ERROR_UNSUPPORTED for a type that cannot be read.
 */
RF_API RF_MUST_USE rf_result rf_gguf_read(const rf_gguf *file, const char *name, uint64_t first,
                                          uint64_t count, float *out);

/** Gives `count` numbers of a tensor, from number `first` on, to be written. */
typedef rf_result (*rf_gguf_read_fn)(void *user, const char *name, uint64_t first, uint64_t count,
                                     float *out);
/** The contents of a file that is written. */
typedef struct rf_gguf_contents {
    const rf_gguf_value *values; /**< "general.architecture" is what programs ask for first */
    uint64_t num_values;
    const rf_gguf_tensor *tensors; /**< F32, F16, BF16 or Q8_0; rows of Q8_0 in multiples of 32 */
    uint64_t num_tensors;
    rf_gguf_read_fn read; /**< called in the order of `tensors`, up to 65,536 numbers at once */
    void *user;           /**< of `read` */
    uint64_t reserved[4]; /**< zero: room for later fields */
} rf_gguf_contents;
/**
 * Writes a file of version 3, which appears when it is complete. The scale of a block of Q8_0 is
 * its greatest magnitude divided by 127, in f16.
 * @return RF_ERROR_INVALID_ARGUMENT names a value or tensor that cannot be written: a type, a name
 *   that is there twice, a row that is no whole number of blocks, a number that is not finite in
 *   f16 or Q8_0; what `read` returned when it failed.
 */
RF_API RF_MUST_USE rf_result rf_gguf_write(const char *path, const rf_gguf_contents *contents);

#ifdef __cplusplus
}
#endif
#endif
