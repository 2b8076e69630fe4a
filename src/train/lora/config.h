/* SPDX-License-Identifier: Apache-2.0 */
/* adapter_config.json, as PEFT writes and reads it. */
#ifndef RF_TRAIN_LORA_CONFIG_H
#define RF_TRAIN_LORA_CONFIG_H

#include "train/lora/set.h"

/* Names that stand for the modules of an adapter and for no other ones: last parts of them where these say it, else
 * whole names. Borrowed from the modules, each once; `names` has room for one a module. */
uint32_t rf_lora_target_names(const rf_lora_modules *modules, const bool *chosen, const char **names);

/* All that the file says beside the adapter's numbers. */
typedef struct rf_lora_description {
    const char *const *targets;
    uint32_t num_targets;
    bool fan_in_fan_out;
    const char *origin, *task; /* NULL: not known */
} rf_lora_description;
/* One text; freed with rf_free(). */
rf_result rf_lora_config_write(const rf_lora_config *config, const rf_lora_description *description, char **text);
/* The text need not end with a zero; `path` is for messages. RF_ERROR_UNSUPPORTED names a key that asks for something
 * that is not here. */
rf_result rf_lora_config_read(const char *path, const char *text, size_t size, rf_lora_config *config);

#endif
