/* SPDX-License-Identifier: Apache-2.0 */
/**
 * @file
 * Result codes, the error record, element types and shapes.
 *
 * Conventions that hold for the whole API:
 *  - A params struct passed to a `create` function may be NULL; a zeroed field means "the default".
 *  - Structs end with `reserved` words, from which fields of later versions take their room. Zero
 * them, as an initialiser does with what it does not name; a word that is not zero is refused,
 * because it may be an option of a newer header that this library would ignore. Structs that the
 * library fills have zeros there.
 *  - `rf_x_create(..., &out)` sets `*out` to NULL on failure; `rf_x_destroy(&x)` accepts NULL and
 * nulls the pointer.
 *  - Strings and arrays passed in are copied unless a comment says "borrowed".
 *  - Functions that can fail return ::rf_result; details are in the calling thread's error record
 * (rf_error_message()).
 *  - No function of the library prints, aborts or exits.
 *  - An object may be used by one thread at a time unless its comment says otherwise; different
 * objects of different strategies may be used from different threads at once.
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

/** Outcome of a call. Zero is success, negative values are failures, so `if (r < 0)` tests for
 * failure. */
typedef enum rf_result {
    RF_OK = 0,
    RF_END = 1, /**< not an error: an iterator has no more elements */
    RF_ERROR_INVALID_ARGUMENT =
        -1,                    /**< the caller broke a contract; the message names the argument */
    RF_ERROR_UNSUPPORTED = -2, /**< the device, driver or build lacks what was asked for */
    RF_ERROR_OUT_OF_HOST_MEMORY = -3,
    RF_ERROR_OUT_OF_DEVICE_MEMORY = -4,
    RF_ERROR_DEVICE_LOST = -5,  /**< sticks to the device: every later call on it returns this */
    RF_ERROR_PEER_LOST = -6,    /**< another worker of the job is gone */
    RF_ERROR_TIMEOUT = -7,      /**< a deadline passed */
    RF_ERROR_IO = -8,           /**< the operating system refused a file or socket operation */
    RF_ERROR_CORRUPT_DATA = -9, /**< a file or message is not what it claims to be */
    RF_ERROR_NO_GRADIENT =
        -10,                  /**< differentiation reached an operation that declares no gradient */
    RF_ERROR_CANCELLED = -11, /**< the caller's callback asked to stop */
    RF_ERROR_NOT_FOUND = -12, /**< a named thing (device, file, layer) does not exist */
    RF_ERROR_INTERNAL = -13,  /**< a defect of the library; please report the message */
    RF_ERROR_NOT_FINITE = -14, /**< a loss is infinite or NaN: the training diverged */
} rf_result;

/** Static name of a result code, e.g. "RF_ERROR_TIMEOUT". Never NULL. Thread-safe. */
RF_API const char *rf_result_name(rf_result result);

/**
 * The calling thread's last failure as one line: outermost context first, root cause last, e.g.
 * "loading dataset 'x': train-images-idx3-ubyte: 12 of 47040016 bytes; the file is truncated, copy
 * it again". Valid until this thread's next failing call. "" when nothing failed yet.
 */
RF_API const char *rf_error_message(void);

/** Code, native code (VkResult, errno; 0 when none) and source position of the calling thread's
 * last failure. */
typedef struct rf_error_info {
    rf_result result;
    int64_t native_code;
    const char *native_domain; /**< "vulkan", "errno", "libfabric" or "" */
    const char *file;
    int line;
    uint64_t reserved[4]; /**< zero until a later version has more to say */
} rf_error_info;
RF_API void rf_error_get(rf_error_info *out);

/** Severity of a log message. */
typedef enum rf_log_level { RF_LOG_ERROR, RF_LOG_WARN, RF_LOG_INFO, RF_LOG_DEBUG } rf_log_level;

/** Receives the library's log lines (no newline at the end). May be called from any thread. */
typedef void (*rf_log_fn)(void *user, rf_log_level level, const char *message);

/** Installs the process-wide log sink; NULL (the start state) discards everything. RINGFIRE_LOG
 * goes before `most_verbose`. Thread-safe. */
RF_API void rf_log_set(rf_log_fn fn, void *user, rf_log_level most_verbose);

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

/** Bytes per element, 0 for an invalid type. */
RF_API size_t rf_dtype_size(rf_dtype dtype);
/** "f32", "i32", ...; "invalid" for anything else. */
RF_API const char *rf_dtype_name(rf_dtype dtype);

/** Most dimensions a tensor may have. */
#define RF_MAX_RANK 6

/** Dimensions of a dense row-major tensor. Rank 0 is a scalar. */
typedef struct rf_shape {
    int32_t rank;
    int64_t dim[RF_MAX_RANK];
} rf_shape;

/** Shape literals: RF_SHAPE(2, 3) and RF_SCALAR_SHAPE. At most RF_MAX_RANK dimensions. C only. */
#ifndef __cplusplus
#define RF_SHAPE(...)                                                                              \
    ((rf_shape){ (int32_t)(sizeof((int64_t[]){ __VA_ARGS__ }) / sizeof(int64_t)), { __VA_ARGS__ } })
#define RF_SCALAR_SHAPE ((rf_shape){ 0, { 0 } })
#endif

/** Number of elements (1 for a scalar), -1 on overflow, negative dimensions or a bad rank. */
RF_API int64_t rf_shape_count(rf_shape shape);
/** True when ranks and all dimensions agree. */
RF_API bool rf_shape_equal(rf_shape a, rf_shape b);
/** Writes "[64,28,28,1]" to `buf` (always terminated); returns `buf`. */
RF_API const char *rf_shape_format(rf_shape shape, char *buf, size_t size);

/**
 * A dense array in host memory: type, shape and bytes. Whether `data` is owned or borrowed is said
 * where one is used.
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
