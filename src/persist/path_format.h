/* SPDX-License-Identifier: Apache-2.0 */
/* File names with places in braces: {epoch}, {epoch:03d}, {val_loss:.2f}. Pure. */
#ifndef RF_PERSIST_PATH_FORMAT_H
#define RF_PERSIST_PATH_FORMAT_H

#include <ringfire/train.h>

/* Fills in `epoch` for {epoch} and values of `logs` for their names; formats are [0][width]d and [width][.digits]f, e
 * or g. {{ and }} are braces, and so is in a directory what holds no name. rf_free(). */
rf_result rf_path_format(const char *pattern, uint64_t epoch, const rf_logs *logs, char **out);
/* The path up to the first place, or all of it (rf_free()), and where in the pattern that is. */
rf_result rf_path_fixed(const char *pattern, const rf_logs *logs, char **out, const char **rest);

/* A name with one number in it: "ckpt-{n}.rfck", or where the prefix has {epoch}, there. */
typedef struct rf_numbered_name {
    char *before, *after; /* owned */
    uint32_t width;
} rf_numbered_name;
rf_result rf_numbered_name_parse(const char *prefix, const char *suffix, rf_numbered_name *out);
void rf_numbered_name_free(rf_numbered_name *name);
char *rf_numbered_name_make(const rf_numbered_name *name, uint64_t number);
/* Whether a file name is one of these; `*rest` is what follows it ("" for the name itself). */
bool rf_numbered_name_match(const rf_numbered_name *name, const char *file, uint64_t *number, const char **rest);

#endif
