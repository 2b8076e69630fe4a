/* SPDX-License-Identifier: Apache-2.0 */
/* Names of a model's inputs and outputs in logs, messages and files. */
#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "train/model/model.h"

static bool is_name(const char *name)
{
    const char *c = name;
    while (isalnum((unsigned char)*c) || *c == '_') c++;
    return *name && !*c;
}

static bool name_taken(const rf_model *model, const char *name, uint32_t num_inputs, uint32_t num_outputs)
{
    for (uint32_t i = 0; i < num_inputs; i++)
        if (strcmp(model->input_names[i], name) == 0) return true;
    for (uint32_t i = 0; i < num_outputs; i++)
        if (strcmp(model->output_names[i], name) == 0) return true;
    return false;
}

static rf_result set_name(rf_model *model, const char *name, const char *field, uint32_t index, const char **out)
{
    const bool input = out == &model->input_names[index];
    RF_REQUIRE(name && is_name(name), "rf_model_create: %s[%u] '%s' is not a name of letters, digits and '_'", field,
               index, name ? name : "NULL");
    RF_REQUIRE(strncmp(name, "value_", 6) != 0, "rf_model_create: %s[%u] '%s' begins as results in ONNX files do",
               field, index, name);
    RF_REQUIRE(!name_taken(model, name, input ? index : model->num_inputs, input ? 0 : index),
               "rf_model_create: %s[%u] '%s' is the name of another input or output", field, index, name);
    *out = rf_arena_strdup(&model->names, name);
    return *out ? RF_OK : RF_ERROR_OUT_OF_HOST_MEMORY;
}

/* Those of the caller, or "input", or "input_0", "input_1", ... */
static rf_result set_names(rf_model *model, const char *const *names, const char *base, const char *field,
                           uint32_t count, const char **out)
{
    for (uint32_t i = 0; i < count; i++) {
        char name[32];
        if (count == 1)
            snprintf(name, sizeof(name), "%s", base);
        else
            snprintf(name, sizeof(name), "%s_%u", base, i);
        RF_TRY(set_name(model, names ? names[i] : name, field, i, &out[i]));
    }
    return RF_OK;
}

rf_result rf_model_set_names(rf_model *model, const char *const *inputs, const char *const *outputs)
{
    RF_TRY(set_names(model, inputs, "input", "input_names", model->num_inputs, model->input_names));
    return set_names(model, outputs, "output", "output_names", model->num_outputs, model->output_names);
}

uint32_t rf_model_num_inputs(const rf_model *model)
{
    return model ? model->num_inputs : 0;
}

uint32_t rf_model_num_outputs(const rf_model *model)
{
    return model ? model->num_outputs : 0;
}

/* The input or output as it was when the model was built; zero where there is none. */
static rf_tensor_desc find_desc(const rf_model *model, const rf_tensor_desc *descs, uint32_t count, uint32_t index)
{
    return model->built && index < count ? descs[index] : (rf_tensor_desc){ 0 };
}

static rf_tensor_desc input_desc(const rf_model *model, uint32_t index)
{
    return model ? find_desc(model, model->inputs, model->num_inputs, index) : (rf_tensor_desc){ 0 };
}

static rf_tensor_desc output_desc(const rf_model *model, uint32_t index)
{
    return model ? find_desc(model, model->outputs, model->num_outputs, index) : (rf_tensor_desc){ 0 };
}

rf_shape rf_model_input_shape(const rf_model *model, uint32_t index)
{
    return input_desc(model, index).shape;
}

rf_shape rf_model_output_shape(const rf_model *model, uint32_t index)
{
    return output_desc(model, index).shape;
}

rf_dtype rf_model_input_dtype(const rf_model *model, uint32_t index)
{
    return input_desc(model, index).dtype;
}

rf_dtype rf_model_output_dtype(const rf_model *model, uint32_t index)
{
    return output_desc(model, index).dtype;
}

const char *rf_model_input_name(const rf_model *model, uint32_t index)
{
    return model && index < model->num_inputs ? model->input_names[index] : NULL;
}

const char *rf_model_output_name(const rf_model *model, uint32_t index)
{
    return model && index < model->num_outputs ? model->output_names[index] : NULL;
}

const char *rf_model_format_elements(const rf_model *model, bool labels, char *text, size_t size)
{
    size_t at = 0;
    const uint32_t count = model->num_inputs + (labels ? model->num_outputs : 0);
    text[0] = '\0';
    for (uint32_t i = 0; i < count && at < size; i++) {
        const bool input = i < model->num_inputs;
        const int n = snprintf(text + at, size - at, "%s%s%s", i > 0 ? ", " : "", input ? "" : "label of ",
                               input ? model->input_names[i] : model->output_names[i - model->num_inputs]);
        at += n > 0 ? (size_t)n : 0;
    }
    return text;
}
