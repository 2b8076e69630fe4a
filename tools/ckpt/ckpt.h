/* SPDX-License-Identifier: Apache-2.0 */
/* `ringfire ckpt`: the contents of checkpoints and models. */
#ifndef RINGFIRE_CKPT_H
#define RINGFIRE_CKPT_H

#include <stdbool.h>
#include <stdint.h>

#include <ringfire/checkpoint.h>
#include <ringfire/interchange.h>

typedef struct ckpt_options {
    const char *paths[2]; /* the second one NULL where there is one */
    const char *json_path;
    bool full; /* values are not cut */
} ckpt_options;

/* The commands; each returns an exit code. */
int ckpt_list(const ckpt_options *o);
int ckpt_show(const ckpt_options *o);
int ckpt_verify(const ckpt_options *o);
int ckpt_compare(const ckpt_options *o);
int ckpt_convert(const ckpt_options *o);

/* ---- a file of either kind (input.c) ---- */

bool path_ends_with(const char *path, const char *suffix);
bool is_safetensors(const char *path);

/* Tensors and values in the order of their names; read piece by piece, so that files may be larger than memory. */
typedef struct input {
    rf_archive *archive;
    rf_safetensors *file; /* or this */
    uint64_t count, num_values;
} input;

rf_result input_open(const char *path, input *in);
void input_close(input *in);
/* Behind the last one: no name. */
rf_result input_entry_at(const input *in, uint64_t index, rf_archive_entry *out);
/* "f32", or what the file calls a type that cannot be read. */
const char *input_type(const rf_archive_entry *entry);
rf_result input_read_range(const input *in, const char *name, uint64_t offset, void *data, uint64_t size);
/* "checkpoint", "model", "safetensors", ... for people. */
const char *input_kind(const input *in);
/* All of the text of a value, however long; free(). */
rf_result input_value_text(const input *in, uint64_t index, char **out);

#endif
