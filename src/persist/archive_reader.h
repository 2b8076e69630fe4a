/* SPDX-License-Identifier: Apache-2.0 */
#ifndef RF_PERSIST_ARCHIVE_READER_H
#define RF_PERSIST_ARCHIVE_READER_H

#include <ringfire/checkpoint.h>

#include "persist/file_ops.h"

/* rf_archive_open() with other file operations, which outlive the archive. */
rf_result rf_archive_open_with(const rf_file_ops *ops, const char *path, rf_archive **out);

#endif
