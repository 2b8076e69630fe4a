/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "ckpt/ckpt.h"

bool path_ends_with(const char *path, const char *suffix)
{
    const size_t length = strlen(path), end = strlen(suffix);
    return length > end && strcmp(path + length - end, suffix) == 0;
}

bool is_safetensors(const char *path)
{
    return path_ends_with(path, ".safetensors");
}

rf_result input_open(const char *path, input *in)
{
    *in = (input){ 0 };
    const rf_result r =
        is_safetensors(path) ? rf_safetensors_open(path, &in->file) : rf_archive_open(path, &in->archive);
    in->count = in->file ? rf_safetensors_num_tensors(in->file) : rf_archive_num_tensors(in->archive);
    in->num_values = rf_archive_num_values(in->archive);
    return r;
}

void input_close(input *in)
{
    rf_archive_close(&in->archive);
    rf_safetensors_close(&in->file);
}

rf_result input_entry_at(const input *in, uint64_t index, rf_archive_entry *out)
{
    *out = (rf_archive_entry){ 0 };
    if (index >= in->count) return RF_OK;
    return in->file ? rf_safetensors_entry_at(in->file, index, out) : rf_archive_entry_at(in->archive, index, out);
}

const char *input_type(const rf_archive_entry *entry)
{
    return entry->unsupported_type ? entry->unsupported_type : rf_dtype_name(entry->dtype);
}

rf_result input_read_range(const input *in, const char *name, uint64_t offset, void *data, uint64_t size)
{
    return in->file ? rf_safetensors_read_range(in->file, name, offset, data, size)
                    : rf_archive_read_range(in->archive, name, offset, data, size);
}

const char *input_kind(const input *in)
{
    static const char *const kinds[][2] = {
        { "checkpoint", "checkpoint" },    { "model", "model" },     { "weights", "weights" },
        { "inference", "exported model" }, { "tensors", "tensors" }, { "part", "part of a sharded checkpoint" }
    };
    if (in->file) return "safetensors";
    const char *type = rf_archive_type(in->archive);
    if (strcmp(type, "checkpoint") == 0 && rf_archive_num_parts(in->archive) > 0) return "sharded checkpoint";
    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
        if (strcmp(type, kinds[i][0]) == 0) return kinds[i][1];
    return type; /* of a later version */
}

rf_result input_value_text(const input *in, uint64_t index, char **out)
{
    rf_result r = RF_OK;
    *out = NULL;
    for (size_t size = 4096; r >= 0; size *= 2) {
        char *grown = realloc(*out, size);
        if (!grown) break;
        *out = grown;
        r = rf_archive_value_text(in->archive, index, grown, size);
        if (r >= 0 && strlen(grown) + 1 < size) return RF_OK;
    }
    free(*out);
    *out = NULL;
    return r < 0 ? r : RF_ERROR_OUT_OF_HOST_MEMORY;
}
