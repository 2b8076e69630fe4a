/* SPDX-License-Identifier: Apache-2.0 */
#include "onnx_manifest.h"

#include <sys/wait.h>

#include "../support/folder.h"
#include "tests/room.h"

static void write_bytes(const char *folder, const char *name, const void *data, size_t size)
{
    char path[300];
    snprintf(path, sizeof(path), "%s/%s", folder, name);
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(data, 1, size, file), size);
    fclose(file);
}

static const char *type_name(rf_dtype dtype)
{
    static const char *const names[RF_DTYPE_COUNT] = { [RF_F32] = "float32", [RF_I32] = "int32", [RF_U8] = "uint8" };
    return names[dtype] ? names[dtype] : rf_dtype_name(dtype);
}

static void list_tensor(const onnx_manifest *m, const char *model, const char *name, const rf_array *array, double rtol,
                        double atol)
{
    char file[160];
    snprintf(file, sizeof(file), "%s.%s", model, name);
    write_bytes(m->folder, file, array->data, (size_t)rf_shape_count(array->shape) * rf_dtype_size(array->dtype));
    fprintf(m->file, "{\"name\":\"%s\",\"file\":\"%s\",\"type\":\"%s\",\"rtol\":%g,\"atol\":%g,\"shape\":[", name, file,
            type_name(array->dtype), rtol, atol);
    for (int32_t i = 0; i < array->shape.rank; i++)
        fprintf(m->file, "%s%lld", i ? "," : "", (long long)array->shape.dim[i]);
    fprintf(m->file, "]}");
}

void list_model(onnx_manifest *m, const char *model, const rf_array *in, const char *const *in_names, uint32_t num_in,
                const rf_array *out, const char *const *out_names, uint32_t num_out, double rtol, double atol,
                const char *nodes)
{
    fprintf(m->file, "%s{\"model\":\"%s\",\"nodes\":{%s},\"inputs\":[", m->num_models++ ? ",\n" : "", model, nodes);
    for (uint32_t i = 0; i < num_in; i++) {
        if (i) fprintf(m->file, ",");
        list_tensor(m, model, in_names[i], &in[i], 0, 0);
    }
    fprintf(m->file, "],\"outputs\":[");
    for (uint32_t i = 0; i < num_out; i++) {
        if (i) fprintf(m->file, ",");
        list_tensor(m, model, out_names[i], &out[i], rtol, atol);
    }
    fprintf(m->file, "]}");
}

void begin_manifest(onnx_manifest *m)
{
    char path[200];
    *m = (onnx_manifest){ 0 };
    snprintf(path, sizeof(path), "%s/manifest.json", scratch(m->folder));
    m->file = fopen(path, "w");
    assert_non_null(m->file);
    fputs("[", m->file);
}

int judge_manifest(onnx_manifest *m, const char *judge)
{
    char command[900];
    fputs("]", m->file);
    fclose(m->file);
    fflush(stdout);
    snprintf(command, sizeof(command), "'%s' '%s' %s '%s'", PYTHON, ONNX_CHECKER, judge, m->folder);
    const int status = system(command);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}
