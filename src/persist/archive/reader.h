/* SPDX-License-Identifier: Apache-2.0 */
#ifndef RF_PERSIST_ARCHIVE_READER_H
#define RF_PERSIST_ARCHIVE_READER_H

#include <ringfire/checkpoint.h>

#include "persist/archive/writer.h"
#include "persist/file_ops.h"

/* rf_archive_open() with other file operations, which outlive the archive. A main file that another save replaces while
 * its parts are opened is opened again; RF_ERROR_TIMEOUT when that goes on for ten seconds, RF_ERROR_NOT_FOUND when the
 * file is removed meanwhile. */
rf_result rf_archive_open_with(const rf_file_ops *ops, const char *path, rf_archive **out);
/* A main file without its parts: for their names. Any other file as always. */
rf_result rf_archive_open_main(const rf_file_ops *ops, const char *path, rf_archive **out);
/* Which file it is, of one that has a good header; parts are not looked at. */
rf_result rf_archive_identify(const rf_file_ops *ops, const char *path, rf_archive_identity *out);
/* Whether a file begins as archives do, whatever follows. */
rf_result rf_archive_recognize(const rf_file_ops *ops, const char *path, bool *out);

#endif
