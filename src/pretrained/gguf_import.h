/* SPDX-License-Identifier: Apache-2.0 */
/* A GGUF file in place of a directory of the hub: its configuration, its tensors under the hub's names, and its
 * tokenizer's files. */
#ifndef RF_PRETRAINED_GGUF_IMPORT_H
#define RF_PRETRAINED_GGUF_IMPORT_H

#include <ringfire/gguf.h>

#include "pretrained/files.h"

typedef struct rf_gguf_import rf_gguf_import;
/* The file that a path means: itself, or the one GGUF file of a directory without config.json. *out is NULL where it
 * means none; rf_free(). RF_ERROR_INVALID_ARGUMENT: there are several. */
rf_result rf_gguf_find_file(const char *path, char **out);
/* Takes the open file over, also where this fails. `path` is for messages; `ignored` are keys that nobody has to know.
 */
rf_result rf_gguf_import_create(rf_gguf *file, const char *path, const char *const *ignored, uint32_t num_ignored,
                                rf_gguf_import **out);
void rf_gguf_import_destroy(rf_gguf_import **import);
/* Its files, of which texts and tensors are borrowed. Freed with rf_tensor_files_close(), also when it fails. */
rf_result rf_gguf_import_files(rf_gguf_import *import, rf_tensor_files *files);

#endif
