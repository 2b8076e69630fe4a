/* SPDX-License-Identifier: Apache-2.0 */
/* Weights of models in safetensors files. */
#include <ringfire/interchange.h>

#include <string.h>

#include "persist/arrays/interchange_files.h"
#include "replica/strategy.h"
#include "train/checkpoint/checkpoint.h"
#include "train/model/model.h"

static rf_result arguments_check(const rf_model *model, const char *path, const char *function)
{
    RF_REQUIRE(model, "%s: model is NULL", function);
    RF_REQUIRE(path && *path, "%s: path is empty", function);
    RF_REQUIRE(model->built, "%s: the model has no variables yet; call rf_model_build() first", function);
    return RF_OK;
}

static void free_arrays(rf_named_array *arrays, uint32_t count)
{
    for (uint32_t i = 0; arrays && i < count; i++) rf_free(arrays[i].array.data);
    rf_free(arrays);
}

/* Room for the value of every variable; names are borrowed from the model. */
static rf_result make_arrays(const rf_model *model, rf_named_array **out)
{
    const uint32_t count = model->tracked.count;
    rf_named_array *arrays = *out = RF_NEW_ARRAY(rf_named_array, count);
    if (!arrays) return RF_ERROR_OUT_OF_HOST_MEMORY;
    for (uint32_t i = 0; i < count; i++) {
        const rf_variable *v = model->tracked.items[i].variable;
        const rf_shape shape = rf_variable_shape(v);
        float *values = RF_NEW_ARRAY(float, rf_shape_count(shape));
        if (!values) return RF_ERROR_OUT_OF_HOST_MEMORY;
        arrays[i] = (rf_named_array){ model->tracked.items[i].name, { RF_F32, shape, values } };
    }
    return RF_OK;
}

static rf_result write_weights(const rf_model *model, const char *path)
{
    rf_named_array *arrays = NULL;
    rf_result r = make_arrays(model, &arrays);
    for (uint32_t i = 0; r >= 0 && i < model->tracked.count; i++)
        r = rf_variable_read(model->tracked.items[i].variable, arrays[i].array.data);
    if (r >= 0) r = rf_safetensors_write(path, arrays, model->tracked.count);
    free_arrays(arrays, model->tracked.count);
    return r;
}

rf_result rf_model_export_safetensors(rf_model *model, const char *path)
{
    RF_TRY(arguments_check(model, path, "rf_model_export_safetensors"));
    rf_result r = RF_OK;
    if (rf_strategy_is_chief(model->strategy)) r = write_weights(model, path);
    return rf_broadcast_result(model->strategy, r);
}

static const rf_named_array *array_find(const rf_array_set *set, const char *name)
{
    for (uint32_t i = 0; i < set->count; i++)
        if (strcmp(set->items[i].name, name) == 0) return &set->items[i];
    return NULL;
}

static bool is_of_model(void *user, const char *name)
{
    return array_find(user, name) != NULL;
}

/* The file's values into `arrays`. Tensors that the model has not are left alone: files often hold more. */
static rf_result read_weights(const char *path, rf_named_array *arrays, uint32_t count)
{
    rf_array_set set, variables = { arrays, count };
    RF_TRY(rf_safetensors_read_some(&rf_system_file_ops, path, is_of_model, &variables, &set));
    rf_result r = RF_OK;
    for (uint32_t i = 0; r >= 0 && i < count; i++) {
        const rf_named_array *from = array_find(&set, arrays[i].name);
        char a[96], b[96];
        if (!from)
            r = RF_FAIL(RF_ERROR_NOT_FOUND, "'%s' has no tensor '%s'", path, arrays[i].name);
        else if (from->array.dtype != RF_F32 || !rf_shape_equal(from->array.shape, arrays[i].array.shape))
            r = RF_FAIL(RF_ERROR_INVALID_ARGUMENT, "'%s': tensor '%s' is %s %s, the variable f32 %s", path, from->name,
                        rf_dtype_name(from->array.dtype), rf_shape_format(from->array.shape, a, sizeof(a)),
                        rf_shape_format(arrays[i].array.shape, b, sizeof(b)));
        else
            memcpy(arrays[i].array.data, from->array.data, (size_t)rf_shape_count(from->array.shape) * sizeof(float));
    }
    rf_array_set_free(&set);
    return r;
}

rf_result rf_model_import_safetensors(rf_model *model, const char *path)
{
    RF_TRY(arguments_check(model, path, "rf_model_import_safetensors"));
    const uint32_t count = model->tracked.count;
    rf_named_array *arrays = NULL;
    rf_result r = rf_strategy_fail_in_job(model->strategy, make_arrays(model, &arrays));
    if (r >= 0) {
        if (rf_strategy_is_chief(model->strategy)) r = read_weights(path, arrays, count);
        r = rf_broadcast_result(model->strategy, r);
    }
    for (uint32_t i = 0; r >= 0 && i < count; i++) {
        const rf_array *a = &arrays[i].array;
        r = rf_broadcast_bytes(model->strategy, "weights", a->data, (uint64_t)rf_shape_count(a->shape) * sizeof(float));
    }
    for (uint32_t i = 0; r >= 0 && i < count; i++)
        r = rf_variable_assign(model->tracked.items[i].variable, arrays[i].array.data);
    free_arrays(arrays, count);
    return r;
}
