/* SPDX-License-Identifier: Apache-2.0 */
/**
 * @file
 * Result codes, the error record, element types and shapes.
 *
 * The following holds for the whole API unless a comment states otherwise.
 *
 * Arguments
 *  - A params struct passed to a `create` function may be NULL, and a zeroed field means "the
 *    default". Where a comment says "0: 0.9", ::RF_ZERO stands for the number zero.
 *  - Structs end with `reserved` words, which later versions turn into fields. Zero them, as an
 *    initialiser does for every member that it does not name. A reserved word that is not zero is
 *    refused, because it may be an option of a newer header that this library would ignore.
 *    Structs that the library fills in have zeros there.
 *  - Sizes are in bytes, times in seconds, and shapes are row-major.
 *
 * Ownership
 *  - `rf_x_create(..., &out)` sets `*out` to NULL on failure. The caller owns what it returns.
 *  - `rf_x_destroy(&x)` accepts NULL and a pointer to NULL, and sets the pointer to NULL.
 *  - Strings and arrays passed in are copied unless a comment says "borrowed".
 *  - A returned string belongs to the object that it was asked of, and lives as long as that
 * object.
 *
 * Errors
 *  - Functions that can fail return ::rf_result. The details are in the calling thread's error
 *    record: see rf_error_message().
 *  - NULL where an object, an input or an output is required is RF_ERROR_INVALID_ARGUMENT.
 *    Functions that do not return ::rf_result answer 0, false, NULL or "" instead.
 *  - Every function that allocates can return RF_ERROR_OUT_OF_HOST_MEMORY. Every function that uses
 *    a device can also return RF_ERROR_OUT_OF_DEVICE_MEMORY and RF_ERROR_DEVICE_LOST.
 *  - No function of the library prints, aborts or exits.
 *
 * Threads and blocking
 *  - An object may be used by one thread at a time. Different objects of different strategies may
 * be used from different threads at once.
 *  - A function whose comment does not mention blocking computes on the host alone and returns
 *    promptly. Every wait for a device or for another process has a deadline.
 *  - An object belongs to the process that created it. In a child of fork() calls on it fail with
 *    RF_ERROR_INVALID_ARGUMENT where they need its threads or devices.
 */
#ifndef RINGFIRE_COMMON_H
#define RINGFIRE_COMMON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#if defined(_WIN32)
#define RF_API
#elif defined(__GNUC__)
#define RF_API __attribute__((visibility("default")))
#else
#define RF_API
#endif

#if defined(__GNUC__)
#define RF_MUST_USE __attribute__((warn_unused_result))
#define RF_PRINTF(fmt, args) __attribute__((format(printf, fmt, args)))
#else
#define RF_MUST_USE
#define RF_PRINTF(fmt, args)
#endif

#ifdef __cplusplus
extern "C" {
#endif

/**
 * The number zero, for settings of type float or double whose 0 means a default: `.beta_1 =
 * RF_ZERO`. A setting whose 0 is the number zero already takes both. Where zero makes no sense, the
 * call fails and says so.
 * It is the smallest normal f32, 2^-126, and is recognised exactly. An epsilon keeps that value, so
 * that 0 / 0 stays 0. RF_ZERO is not for settings of integer types: their 0 is the default alone.
 */
#define RF_ZERO 1.17549435e-38f

/** Outcome of a call.
 * Zero is success and negative values are failures, so `if (r < 0)` tests for failure. */
typedef enum rf_result {
    RF_OK = 0,
    /** Not an error: an iterator has no more elements. */
    RF_END = 1,
    /** The caller broke a contract. The message names the argument. */
    RF_ERROR_INVALID_ARGUMENT = -1,
    /** The device, the driver or the build lacks what was asked for. */
    RF_ERROR_UNSUPPORTED = -2,
    RF_ERROR_OUT_OF_HOST_MEMORY = -3,
    RF_ERROR_OUT_OF_DEVICE_MEMORY = -4,
    /** Permanent for the device: every later call on it returns this. */
    RF_ERROR_DEVICE_LOST = -5,
    /** Another worker of the job is gone. */
    RF_ERROR_PEER_LOST = -6,
    /** A deadline passed. */
    RF_ERROR_TIMEOUT = -7,
    /** The operating system refused a file or socket operation. */
    RF_ERROR_IO = -8,
    /** A file or message is not what it claims to be. */
    RF_ERROR_CORRUPT_DATA = -9,
    /** Differentiation reached an operation that has no gradient. */
    RF_ERROR_NO_GRADIENT = -10,
    /** The caller's callback asked to stop. */
    RF_ERROR_CANCELLED = -11,
    /** A named thing (device, file, layer) does not exist. */
    RF_ERROR_NOT_FOUND = -12,
    /** A defect of the library. Please report the message. */
    RF_ERROR_INTERNAL = -13,
    /** A loss is infinite or NaN: the training diverged. */
    RF_ERROR_NOT_FINITE = -14,
} rf_result;

/** Name of a result code, e.g. "RF_ERROR_TIMEOUT", or "unknown result".
 * The string is static and never NULL. Thread-safe. */
RF_API const char *rf_result_name(rf_result result);

/**
 * The calling thread's last failure as one line, with the outermost context first and the root
 * cause last, e.g. "loading dataset 'x': train-images-idx3-ubyte: 12 of 47040016 bytes; the file is
 * truncated, copy it again".
 * The string is valid until this thread's next failing call. It is "" when nothing has failed yet.
 * Thread-safe: each thread has a record of its own.
 */
RF_API const char *rf_error_message(void);

/** Facts about a failure besides its message. The strings are static. */
typedef struct rf_error_info {
    rf_result result;
    int64_t native_code;       /**< VkResult, errno, ...; 0 when there is none */
    const char *native_domain; /**< "vulkan", "errno", "libfabric" or "" */
    const char *file;          /**< position in the library's sources; "" when nothing failed */
    int line;
    uint64_t reserved[4]; /**< zero until a later version has more to say */
} rf_error_info;
/** Fills in the calling thread's last failure; `result` is RF_OK when nothing has failed yet.
 * NULL does nothing. Thread-safe: each thread has a record of its own. */
RF_API void rf_error_get(rf_error_info *out);

/**
 * Severity of a log message, the most severe first.
 * No program needs to read messages to be right. A call that did not do what its comment says
 * fails; what it found and went on without is in its results or its report. A warning tells of
 * calls that work as their comments say, but are probably not meant (parts of a dataset that mix,
 * probabilities that may be logits). It also tells of slow calls, and of those that protect less
 * than elsewhere (a file system without locks). RF_LOG_ERROR tells of failures that no call can
 * return.
 */
typedef enum rf_log_level { RF_LOG_ERROR, RF_LOG_WARN, RF_LOG_INFO, RF_LOG_DEBUG } rf_log_level;

/** Receives the library's log lines, which have no newline at the end.
 * It may be called from any thread, and from several at once. `message` is borrowed for the call.
 */
typedef void (*rf_log_fn)(void *user, rf_log_level level, const char *message);

/** Installs the log sink of the process. NULL, which is the initial state, discards everything.
 * Messages that are more verbose than `most_verbose` are discarded; the environment variable
 * RINGFIRE_LOG (error, warn, info, debug) overrides `most_verbose`. `user` is borrowed until
 * another sink is installed, and a call of the previous sink may still be running then.
 * Thread-safe. */
RF_API void rf_log_set(rf_log_fn fn, void *user, rf_log_level most_verbose);

/** Frees a string that the library allocated. NULL does nothing. Thread-safe. */
RF_API void rf_string_free(char *text);

/** Element types. f16 and bf16 are storage types: arithmetic is done in f32. */
typedef enum rf_dtype {
    RF_DTYPE_INVALID = 0,
    RF_F32,
    RF_F16,
    RF_BF16,
    RF_I32,
    RF_U8,
    RF_I64, /**< host memory only (datasets, communicators): no tensor of a graph has it */
    RF_DTYPE_COUNT
} rf_dtype;

/** How weights that are not trained are stored in fewer bits: blocks of neighbours, each with a
 * scale in f16. Their products are computed in f32. */
typedef enum rf_quantization {
    RF_QUANTIZATION_NONE,
    /** 8 bits, 32 numbers a block, as GGUF's Q8_0: 8.5 bits with the scale */
    RF_QUANTIZATION_INT8,
    /** 4 bits, 64 numbers a block: the 16 levels of NormalFloat (Dettmers et al. 2023, QLoRA) times
     * the block's greatest magnitude: 4.25 bits with the scale */
    RF_QUANTIZATION_NF4,
    /** 4 bits, 32 numbers a block, as GGUF's: 4.5 bits with the scale */
    RF_QUANTIZATION_Q4_0,
} rf_quantization;

/**
 * The number that `text` begins with, as strtod(), but with a decimal point whatever the locale of
 * the program is. Thread-safe.
 * @param[out] end behind it; `text` where there is none. May be NULL
 */
RF_API double rf_number_parse(const char *text, char **end);

/** Bytes per element; 0 for an invalid type. Thread-safe. */
RF_API size_t rf_dtype_size(rf_dtype dtype);
/** Name of an element type: "f32", "i32", ...; "invalid" for anything else.
 * The string is static. Thread-safe. */
RF_API const char *rf_dtype_name(rf_dtype dtype);

/** The largest number of dimensions of a tensor. */
#define RF_MAX_RANK 6

/** Dimensions of a dense row-major tensor. Rank 0 is a scalar. */
typedef struct rf_shape {
    int32_t rank;
    int64_t dim[RF_MAX_RANK];
} rf_shape;

/** Shape literals: RF_SHAPE(2, 3), with at most RF_MAX_RANK dimensions, and RF_SCALAR_SHAPE.
 * In C only. */
#ifndef __cplusplus
#define RF_SHAPE(...)                                                                              \
    ((rf_shape){ (int32_t)(sizeof((int64_t[]){ __VA_ARGS__ }) / sizeof(int64_t)), { __VA_ARGS__ } })
#define RF_SCALAR_SHAPE ((rf_shape){ 0, { 0 } })
#endif

/** Number of elements; 1 for a scalar.
 * It is -1 when the product overflows, a dimension is negative or the rank is out of range.
 * Thread-safe. */
RF_API int64_t rf_shape_count(rf_shape shape);
/** True when the ranks and all dimensions are equal. Thread-safe. */
RF_API bool rf_shape_equal(rf_shape a, rf_shape b);
/** Writes a shape as "[64,28,28,1]" to `buf`, cut to `size` bytes and always terminated.
 * Returns `buf`, or "" when there is no room at all. Thread-safe. */
RF_API const char *rf_shape_format(rf_shape shape, char *buf, size_t size);

/**
 * A dense array in host memory: type, shape and bytes.
 * Each function that takes or returns one states whether `data` is owned or borrowed.
 */
typedef struct rf_array {
    rf_dtype dtype;
    rf_shape shape;
    void *data;
} rf_array;

#ifdef __cplusplus
}
#endif
#endif
