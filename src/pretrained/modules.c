/* SPDX-License-Identifier: Apache-2.0 */
#include "pretrained/modules.h"

#include <string.h>

#include "base/error.h"
#include "base/memory.h"
#include "pretrained/names.h"

#define WEIGHT ".weight"

static bool ends_with(const char *text, const char *end)
{
    const size_t length = strlen(text), tail = strlen(end);
    return length >= tail && strcmp(text + length - tail, end) == 0;
}

static rf_result name_module(const rf_module_names *names, const rf_pretrained_tensor *row,
                             const rf_name_numbers *numbers, rf_weight_place *out)
{
    const char *prefix = names->has_head && !row->head ? names->architecture->prefix : NULL;
    char *tensor = rf_name_fill(row->tensor, numbers);
    if (tensor) tensor[strlen(tensor) - strlen(WEIGHT)] = '\0';
    *out = (rf_weight_place){ .module = tensor ? rf_asprintf("%s%s", prefix ? prefix : "", tensor) : NULL,
                              .part = row->part,
                              .transposed = row->layout == RF_PRETRAINED_TRANSPOSED,
                              .head = row->head };
    rf_free(tensor);
    return out->module ? RF_OK : RF_ERROR_OUT_OF_HOST_MEMORY;
}

static rf_result find_module(const void *user, const char *variable, rf_weight_place *out)
{
    const rf_module_names *names = user;
    const rf_pretrained_architecture *a = names->architecture;
    for (uint32_t i = 0; i < a->num_tensors; i++) {
        const rf_pretrained_tensor *row = &a->tensors[i];
        rf_name_numbers numbers;
        if (row->variable && ends_with(row->tensor, WEIGHT) && rf_name_match(row->variable, variable, &numbers))
            return name_module(names, row, &numbers, out);
    }
    *out = (rf_weight_place){ 0 };
    return RF_OK;
}

static const char *task_of(const char *class)
{
    static const struct {
        const char *end, *task;
    } tasks[] = { { "LMHeadModel", "CAUSAL_LM" },
                  { "ForCausalLM", "CAUSAL_LM" },
                  { "ForSequenceClassification", "SEQ_CLS" } };
    for (size_t i = 0; class && i < sizeof(tasks) / sizeof(tasks[0]); i++)
        if (ends_with(class, tasks[i].end)) return tasks[i].task;
    return NULL;
}

void rf_module_names_init(rf_module_names *names, const rf_pretrained_architecture *architecture, const char *class,
                          const char *path, const rf_model *model)
{
    names->architecture = architecture;
    names->has_head = strcmp(rf_model_output_name(model, 0), "last_hidden_state") != 0;
    names->names = (rf_weight_names){ .find = find_module, .user = names, .origin = path, .task = task_of(class) };
}
