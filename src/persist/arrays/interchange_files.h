/* SPDX-License-Identifier: Apache-2.0 */
/* The files of <ringfire/interchange.h>, through file operations that the caller provides. */
#ifndef RF_PERSIST_ARRAYS_INTERCHANGE_FILES_H
#define RF_PERSIST_ARRAYS_INTERCHANGE_FILES_H

#include <ringfire/interchange.h>

#include "persist/archive/writer.h"
#include "persist/file_ops.h"

/* As the functions without "_with"; `out` is zero where they fail. */
rf_result rf_safetensors_read_with(const rf_file_ops *ops, const char *path, rf_array_set *out);
rf_result rf_safetensors_write_with(const rf_file_ops *ops, const char *path, const rf_named_array *arrays,
                                    uint32_t count);
/* With data from `source` (NULL: the arrays'), and with metadata (NULL: none), a JSON object of texts. */
rf_result rf_safetensors_write_from(const rf_file_ops *ops, const char *path, const rf_named_array *arrays,
                                    uint32_t count, const char *metadata, const rf_archive_source *source);
rf_result rf_npy_read_with(const rf_file_ops *ops, const char *path, rf_array *out);
rf_result rf_npy_write_with(const rf_file_ops *ops, const char *path, const rf_array *array);

#endif
