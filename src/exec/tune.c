/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Measured kernel choices, and the file that remembers them:
 *   <cache directory>/tuning-<device uuid>-<hash>.json
 *   { "format": 2, "library": "0.1.0", "device": "llvmpipe ...", "pace": 0.1, "choices": { "<key>": { "kernel": "...",
 * "seconds": 1e-3 } } }
 * "pace" is left out where no run has been measured. The hash covers everything that invalidates measurements: how they
 * are made (the format's number), driver version, library version, and the limits kernels are chosen by (the same
 * driver may run with other vector widths or clamped limits).
 */
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include <ringfire/version.h>

#include "base/numbers.h"
#include "base/philox.h"
#include "base/platform.h"
#include "exec/internal.h"

#define FORMAT 2 /* 1: times that included a submission */
#define MAX_FILE (16u << 20)

typedef struct choice {
    char *key, *kernel;
    double seconds;
} choice;

struct rf_tuning {
    char *directory, *path, *device; /* directory and path: NULL without a cache */
    bool read_only;
    struct {
        choice *items;
        uint32_t count, capacity;
    } choices;
    double pace; /* 0: not known */
};

static rf_result append_desc(char *text, size_t size, const rf_tensor_desc *desc)
{
    rf_shape shape = desc->shape;
    if (shape.rank > 0 && shape.dim[0] > 1) {
        int64_t bucket = 1;
        while (bucket < shape.dim[0]) bucket *= 2;
        shape.dim[0] = bucket;
    }
    char dims[160];
    rf_shape_format(shape, dims, sizeof(dims));
    const size_t used = strlen(text);
    const int n = snprintf(text + used, size - used, " %s%s", rf_dtype_name(desc->dtype), dims);
    return n >= 0 && (size_t)n < size - used ? RF_OK : RF_FAIL(RF_ERROR_INTERNAL, "a tuning key is too long");
}

char *rf_tuning_key(const rf_op_call *call)
{
    char text[2048];
    const uint64_t attr = rf_hash_bytes(call->attr, call->op->attr_size, 0);
    snprintf(text, sizeof(text), "%s %016" PRIx64, call->op->name, attr);
    for (uint32_t i = 0; i < call->n_in; i++)
        if (append_desc(text, sizeof(text), &call->in[i]) < 0) return NULL;
    for (uint32_t i = 0; i < call->n_out; i++)
        if (append_desc(text, sizeof(text), &call->out[i]) < 0) return NULL;
    return rf_strdup(text);
}

static choice *choice_find(const rf_tuning *tuning, const char *key)
{
    for (uint32_t i = 0; i < tuning->choices.count; i++)
        if (strcmp(tuning->choices.items[i].key, key) == 0) return &tuning->choices.items[i];
    return NULL;
}

static rf_result tuning_put(rf_tuning *tuning, const char *key, const char *kernel, double seconds)
{
    char *kernel_copy = rf_strdup(kernel);
    if (!kernel_copy) return RF_ERROR_OUT_OF_HOST_MEMORY;
    choice *c = choice_find(tuning, key);
    if (!c) {
        char *key_copy = rf_strdup(key);
        if (!key_copy || RF_VEC_GROW(&tuning->choices) < 0) {
            rf_free(key_copy);
            rf_free(kernel_copy);
            return RF_ERROR_OUT_OF_HOST_MEMORY;
        }
        c = &tuning->choices.items[tuning->choices.count++];
        c->key = key_copy;
    }
    rf_free(c->kernel);
    c->kernel = kernel_copy;
    c->seconds = seconds;
    return RF_OK;
}

/* NULL: fine; else what is wrong with the file. */
static const char *tuning_merge(rf_tuning *tuning, const json_t *root)
{
    if (!json_is_object(root)) return "not a JSON object";
    if (json_integer_value(json_object_get(root, "format")) != FORMAT) return "unknown format number";
    json_t *choices = json_object_get(root, "choices");
    if (!json_is_object(choices)) return "\"choices\" is not an object";
    const json_t *pace = json_object_get(root, "pace");
    if (pace && !(json_number_value(pace) > 0)) return "\"pace\" is not a positive number";
    if (!(tuning->pace > 0)) tuning->pace = json_number_value(pace);
    const char *key;
    json_t *value;
    json_object_foreach(choices, key, value)
    {
        const char *kernel = json_string_value(json_object_get(value, "kernel"));
        if (!kernel) return "a choice without a kernel name";
        if (choice_find(tuning, key)) continue;
        if (tuning_put(tuning, key, kernel, json_number_value(json_object_get(value, "seconds"))) < 0)
            return "out of memory";
    }
    return NULL;
}

rf_result rf_tuning_parse(rf_tuning *tuning, const void *text, size_t size)
{
    json_error_t error;
    json_t *root;
    RF_WITH_C_NUMBERS(root = json_loadb(text, size, JSON_REJECT_DUPLICATES, &error));
    const char *problem = root ? tuning_merge(tuning, root) : error.text;
    json_decref(root);
    return problem ? RF_FAIL(RF_ERROR_CORRUPT_DATA, "%s", problem) : RF_OK;
}

/* A missing file is normal; any other trouble costs a new measurement, never a failure. */
static void tuning_load(rf_tuning *tuning)
{
    void *data;
    size_t size;
    rf_error_record before;
    rf_error_save(&before);
    const rf_result r = rf_file_read(tuning->path, MAX_FILE, &data, &size);
    if (r < 0) {
        if (r != RF_ERROR_NOT_FOUND) rf_log_message(RF_LOG_WARN, "tuning cache ignored: %s", rf_error_message());
        (void)rf_error_restore(&before); /* not a failure of the caller's */
        return;
    }
    if (rf_tuning_parse(tuning, data, size) < 0)
        rf_log_message(RF_LOG_WARN, "tuning cache %s ignored: %s", tuning->path, rf_error_message());
    rf_free(data);
}

static json_t *to_json(const rf_tuning *tuning)
{
    json_t *choices = json_object();
    for (uint32_t i = 0; choices && i < tuning->choices.count; i++) {
        const choice *c = &tuning->choices.items[i];
        json_t *entry = json_pack("{s:s, s:f}", "kernel", c->kernel, "seconds", c->seconds);
        if (!entry || json_object_set_new(choices, c->key, entry) != 0) {
            json_decref(choices);
            return NULL;
        }
    }
    if (!choices) return NULL;
    json_t *root = json_pack("{s:i, s:s, s:s, s:o}", "format", FORMAT, "library", RF_VERSION_STRING, "device",
                             tuning->device ? tuning->device : "", "choices", choices);
    if (root && tuning->pace > 0 && json_object_set_new(root, "pace", json_real(tuning->pace)) != 0) {
        json_decref(root);
        return NULL;
    }
    return root;
}

char *rf_tuning_text(const rf_tuning *tuning)
{
    json_t *root = to_json(tuning);
    char *text = NULL;
    if (root) RF_WITH_C_NUMBERS(text = json_dumps(root, JSON_INDENT(1) | JSON_SORT_KEYS));
    json_decref(root);
    return text;
}

static void tuning_save(rf_tuning *tuning)
{
    if (!tuning->path || tuning->read_only) return;
    tuning_load(tuning); /* what other processes have measured meanwhile */
    char *text = rf_tuning_text(tuning);
    if (!text) {
        rf_log_message(RF_LOG_WARN, "tuning cache %s not written: out of memory", tuning->path);
        return;
    }
    rf_result r = rf_make_directories(tuning->directory, 0700);
    if (r >= 0) r = rf_file_write_atomic(tuning->path, text, strlen(text));
    if (r < 0) rf_log_message(RF_LOG_WARN, "tuning cache not written: %s", rf_error_message());
    free(text);
}

static char *file_path(const rf_exec *exec, const char *directory)
{
    const rf_device_info *info = rf_gpu_info(exec->device);
    const rf_device_caps *caps = &exec->caps;
    char uuid[33];
    for (int i = 0; i < 16; i++) snprintf(uuid + 2 * i, 3, "%02x", info->uuid[i]);
    const uint64_t facts[] = {
        FORMAT,
        info->driver_version,
        caps->subgroup_size,
        caps->full_subgroups,
        caps->subgroup_shuffle,
        caps->subgroup_quad,
        caps->max_workgroup_invocations,
        caps->max_shared_memory,
        caps->max_texel_elements,
        caps->max_storage_range,
        caps->fp16,
        caps->int64,
    };
    uint64_t hash = rf_hash_bytes(facts, sizeof(facts), 0);
    hash = rf_hash_bytes(info->driver_info, strlen(info->driver_info), hash);
    hash = rf_hash_bytes(RF_VERSION_STRING, strlen(RF_VERSION_STRING), hash);
    return rf_asprintf("%s/" RF_CACHE_TUNING "%s-%016" PRIx64 ".json", directory, uuid, hash);
}

rf_result rf_tuning_create(const rf_exec *exec, const char *cache_directory, bool read_only, rf_tuning **out)
{
    rf_tuning *tuning = *out = RF_NEW(rf_tuning);
    if (!tuning) return RF_ERROR_OUT_OF_HOST_MEMORY;
    tuning->read_only = read_only;
    if (cache_directory) {
        tuning->directory = rf_strdup(cache_directory);
        tuning->device = rf_strdup(rf_gpu_info(exec->device)->name);
        tuning->path = file_path(exec, cache_directory);
        if (!tuning->directory || !tuning->device || !tuning->path) {
            rf_tuning_destroy(out);
            return RF_ERROR_OUT_OF_HOST_MEMORY;
        }
        tuning_load(tuning);
    }
    return RF_OK;
}

void rf_tuning_destroy(rf_tuning **tuning)
{
    if (!*tuning) return;
    for (uint32_t i = 0; i < (*tuning)->choices.count; i++) {
        rf_free((*tuning)->choices.items[i].key);
        rf_free((*tuning)->choices.items[i].kernel);
    }
    rf_free((*tuning)->choices.items);
    rf_free((*tuning)->directory);
    rf_free((*tuning)->device);
    rf_free((*tuning)->path);
    rf_free(*tuning);
    *tuning = NULL;
}

const char *rf_tuning_find(const rf_tuning *tuning, const rf_op_call *call)
{
    if (tuning->choices.count == 0) return NULL;
    char *key = rf_tuning_key(call);
    const choice *c = key ? choice_find(tuning, key) : NULL;
    rf_free(key);
    return c ? c->kernel : NULL;
}

rf_result rf_tuning_put(rf_tuning *tuning, const rf_op_call *call, const char *kernel, double seconds)
{
    char *key = rf_tuning_key(call);
    if (!key) return RF_ERROR_OUT_OF_HOST_MEMORY;
    const rf_result r = tuning_put(tuning, key, kernel, seconds);
    rf_free(key);
    if (r >= 0) tuning_save(tuning);
    return r;
}

double rf_tuning_pace(const rf_tuning *tuning)
{
    return tuning->pace > 0 ? tuning->pace : 1;
}

rf_result rf_tuning_put_pace(rf_tuning *tuning, double pace)
{
    const bool known = tuning->pace > 0 && pace < 1.25 * tuning->pace && tuning->pace < 1.25 * pace;
    if (known) return RF_OK;
    tuning->pace = pace;
    tuning_save(tuning);
    return RF_OK;
}
