/* SPDX-License-Identifier: Apache-2.0 */
/* How the files of a directory say that its model goes on with texts. */
#ifndef RF_PRETRAINED_GENERATION_H
#define RF_PRETRAINED_GENERATION_H

#include "pretrained/config.h"

#define RF_PRETRAINED_GENERATION "generation_config.json"

typedef struct rf_generation_defaults {
    rf_sampling_params sampling;
    uint32_t max_new_tokens; /* 0: not said */
    int32_t *stop_tokens;
    uint32_t num_stop_tokens;
    rf_result status; /* of reading them */
    rf_error_record error;
} rf_generation_defaults;

/* `text` is that of generation_config.json, "" where there is none; `config` the root of config.json. A failure is kept
 * in `out`. `path` is for messages. Freed with rf_generation_defaults_clear(). */
void rf_generation_defaults_read(rf_generation_defaults *out, const char *path, const char *text, size_t size,
                                 const json_t *config);
void rf_generation_defaults_clear(rf_generation_defaults *defaults);

#endif
