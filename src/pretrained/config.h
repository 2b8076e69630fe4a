/* SPDX-License-Identifier: Apache-2.0 */
/* The configuration of a pretrained model: config.json, every key of which somebody has to know. */
#ifndef RF_PRETRAINED_CONFIG_H
#define RF_PRETRAINED_CONFIG_H

#include <ringfire/pretrained.h>

#include <jansson.h>

#include "base/error.h"

struct rf_pretrained_config {
    json_t *root;
    json_t *read;         /* keys that were asked for, as members of an object */
    const char *path;     /* of the file, for messages; borrowed */
    uint64_t num_tensors; /* in the files */
    uint32_t steps;       /* asked for; 0: the default */
    uint32_t image_size;  /* the same */
    bool synchronized_batch_norm;
    uint32_t num_classes;      /* asked for; 0: what is read */
    const char *classes_key;   /* that a classifier has read; NULL: it is none */
    const char *class_name;    /* of the model; NULL: not asked */
    bool packed, packed_known; /* asked for; the architecture has asked whether it is */
    rf_result status;
    rf_error_record error; /* the first failure, where `status` is one */
};

/* The text need not end with a zero. The caller frees the result with rf_pretrained_config_clear(), also when it fails.
 */
rf_result rf_pretrained_config_parse(rf_pretrained_config *config, const char *path, const char *text, size_t size);
void rf_pretrained_config_clear(rf_pretrained_config *config);
/* Remembers a failure, unless there is one. */
void rf_pretrained_config_fail(rf_pretrained_config *config, rf_result failure);
/* A text; NULL where the key is not there, or after a failure. Borrowed. */
const char *rf_pretrained_config_text(rf_pretrained_config *config, const char *key);
/* Members of an object or list; `fallback` where there is none. */
int32_t rf_pretrained_config_count(rf_pretrained_config *config, const char *key, int32_t fallback);
/* Fails for the first key that nobody has asked for, that is in neither list, and that every model may have. */
rf_result rf_pretrained_config_check_read(rf_pretrained_config *config, const rf_pretrained_architecture *architecture,
                                          const rf_pretrained_params *params);

#endif
