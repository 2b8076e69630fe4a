/* SPDX-License-Identifier: Apache-2.0 */
/* Models of the hub's directories as GGUF files, with the tensors' bytes from anywhere. */
#ifndef RF_PRETRAINED_GGUF_EXPORT_H
#define RF_PRETRAINED_GGUF_EXPORT_H

#include <ringfire/pretrained.h>

#include "persist/archive/writer.h"
#include "pretrained/files.h"

rf_result rf_gguf_check_params(const char *function, const char *path, const rf_pretrained_gguf_params *params);
/* `source` gives the bytes of the files' tensors, in their types; configuration and tokenizer are those of the
 * directory. */
rf_result rf_gguf_write_model(const char *directory, const rf_tensor_files *files, const rf_archive_source *source,
                              const char *path, const rf_pretrained_gguf_params *params);

#endif
