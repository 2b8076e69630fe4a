/* SPDX-License-Identifier: Apache-2.0 */
/**
 * @file
 * The version of the headers that a program is compiled with, and of the library that it runs with.
 */
#ifndef RINGFIRE_VERSION_H
#define RINGFIRE_VERSION_H

#include <ringfire/common.h>

#ifdef __cplusplus
extern "C" {
#endif

/** Version of these headers. */
#define RF_VERSION_MAJOR 0
#define RF_VERSION_MINOR 1
#define RF_VERSION_PATCH 0

/** A version as one number; later versions have larger numbers. */
#define RF_VERSION_ENCODE(major, minor, patch) ((major) << 16 | (minor) << 8 | (patch))
/** Version of these headers as one number. */
#define RF_VERSION_NUMBER RF_VERSION_ENCODE(RF_VERSION_MAJOR, RF_VERSION_MINOR, RF_VERSION_PATCH)
/** Version of these headers as text, e.g. "1.2.3". */
#define RF_VERSION_STRING RF_VERSION_TEXT_(RF_VERSION_MAJOR, RF_VERSION_MINOR, RF_VERSION_PATCH)
#define RF_VERSION_TEXT_(major, minor, patch) RF_VERSION_QUOTE_(major, minor, patch)
#define RF_VERSION_QUOTE_(major, minor, patch) #major "." #minor "." #patch
/** True when these headers are of the given version or a later one. Works in `#if`. */
#define RF_VERSION_AT_LEAST(major, minor, patch)                                                   \
    (RF_VERSION_NUMBER >= RF_VERSION_ENCODE(major, minor, patch))

/**
 * Version of the library at run time, encoded like ::RF_VERSION_NUMBER, with which it can be
 * compared.
 * Thread-safe.
 */
RF_API uint32_t rf_version_number(void);
/**
 * Version of the library at run time as text, e.g. "1.2.3".
 * The string is static and never NULL. Thread-safe.
 */
RF_API const char *rf_version_string(void);

#ifdef __cplusplus
}
#endif
#endif
