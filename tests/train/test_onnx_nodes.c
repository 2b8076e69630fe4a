/* SPDX-License-Identifier: Apache-2.0 */
/* ONNX's own tests of operations through rf_model_import_onnx() (onnx_nodes.py makes models of them): those that are
 * accepted give the right numbers, and are as many as are known. Argument: all or sample; "list" behind it names those
 * that are refused. */
#include <sys/wait.h>

#include <ringfire/interchange.h>

#include "persist/file_ops.h"
#include "persist/json.h"
#include "run_state.h"
#include "tests/room.h"

/* With libonnx-testdata 1.12 so many pass. Another version has at least nothing that is wrong. */
enum { KNOWN_PASSES = 737, KNOWN_SAMPLE_PASSES = 62, KNOWN_TESTS = 1002 };

static char folder[64];
static rf_strategy *one;

/* The length of what is resized is that of the result here, as in PyTorch and ONNX Runtime; these tests were made with
 * the product of size and scale, which is no whole number. */
static const char *const other_lengths[] = { "test_resize_downsample_scales_cubic_align_corners",
                                             "test_resize_downsample_scales_linear_align_corners" };

typedef enum outcome { PASSED, WRONG, REFUSED, NOT_THERE } outcome;

static void *read_all(const char *name, size_t *size)
{
    char path[300];
    snprintf(path, sizeof(path), "%s/%s", folder, name);
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    fseek(file, 0, SEEK_END);
    *size = (size_t)ftell(file);
    rewind(file);
    void *bytes = malloc(*size + 1);
    assert_non_null(bytes);
    assert_int_equal(fread(bytes, 1, *size, file), *size);
    fclose(file);
    return bytes;
}

static rf_shape listed_shape(const json_t *tensor)
{
    const json_t *dims = json_object_get(tensor, "shape");
    rf_shape shape = { .rank = (int32_t)json_array_size(dims) };
    for (int32_t d = 0; d < shape.rank && d < RF_MAX_RANK; d++)
        shape.dim[d] = json_integer_value(json_array_get(dims, (size_t)d));
    return shape;
}

static double number_at(const rf_array *array, int64_t i)
{
    return array->dtype == RF_I32 ? ((const int32_t *)array->data)[i] : (double)((const float *)array->data)[i];
}

/* As near as ONNX's own runner asks for. */
static bool is_right(const json_t *wanted, const rf_array *got)
{
    size_t size;
    double *numbers = read_all(json_string_value(json_object_get(wanted, "file")), &size);
    const rf_shape shape = listed_shape(wanted);
    const int64_t count = rf_shape_count(shape);
    bool right = rf_shape_equal(shape, got->shape);
    for (int64_t i = 0; right && i < count; i++) {
        const double a = number_at(got, i), b = numbers[i];
        if (a == b || (a != a && b != b)) continue;
        right = a - b <= 1e-3 * (b < 0 ? -b : b) + 1e-5 && b - a <= 1e-3 * (b < 0 ? -b : b) + 1e-5;
    }
    free(numbers);
    return right;
}

static rf_result predict(rf_model *model, const rf_array *in, uint32_t num_in, rf_array *out)
{
    rf_dataset *raw, *data;
    RF_TRY(rf_dataset_from_arrays(&(rf_dataset_arrays_params){ .arrays = in, .num_arrays = num_in }, &raw));
    rf_result r = rf_dataset_batch(raw, (uint32_t)in[0].shape.dim[0], RF_REMAINDER_KEEP, &data);
    rf_dataset_destroy(&raw);
    RF_TRY(r);
    r = rf_model_predict_many(model, data, out, rf_model_num_outputs(model));
    rf_dataset_destroy(&data);
    return r;
}

static outcome refusal(rf_result r)
{
    if (r == RF_ERROR_UNSUPPORTED && strstr(rf_error_message(), "this operation is not there")) return NOT_THERE;
    return REFUSED;
}

static outcome run_way(const json_t *way, const json_t *outputs)
{
    char path[300];
    rf_array in[RF_MAX_COMPONENTS] = { { 0 } }, out[RF_MAX_COMPONENTS] = { { 0 } };
    rf_model *model;
    const json_t *inputs = json_object_get(way, "inputs");
    const uint32_t count = (uint32_t)json_array_size(inputs), num_out = (uint32_t)json_array_size(outputs);
    snprintf(path, sizeof(path), "%s/%s", folder, json_string_value(json_object_get(way, "model")));
    const rf_result imported = rf_model_import_onnx(one, path, NULL, &model);
    if (imported < 0) return refusal(imported);
    for (uint32_t i = 0; i < count; i++) {
        size_t size;
        const json_t *input = json_array_get(inputs, i);
        const bool whole = strcmp(json_string_value(json_object_get(input, "type")), "i4") == 0;
        in[i] = (rf_array){ whole ? RF_I32 : RF_F32, listed_shape(input),
                            read_all(json_string_value(json_object_get(input, "file")), &size) };
    }
    outcome result = rf_model_num_outputs(model) == num_out ? PASSED : WRONG;
    if (result == PASSED) {
        const rf_result r = rf_model_num_inputs(model) == count ? predict(model, in, count, out) : RF_ERROR_INTERNAL;
        if (r < 0) result = refusal(r);
    }
    for (uint32_t i = 0; i < num_out && result == PASSED; i++)
        if (!is_right(json_array_get(outputs, i), &out[i])) result = WRONG;
    for (uint32_t i = 0; i < RF_MAX_COMPONENTS; i++) {
        free(in[i].data);
        rf_array_free(&out[i]);
    }
    rf_model_destroy(&model);
    return result;
}

static bool has_other_length(const char *name)
{
    return strcmp(name, other_lengths[0]) == 0 || strcmp(name, other_lengths[1]) == 0;
}

static int run_all(bool sample, bool list)
{
    static const char *const names[] = { "passed", "WRONG", "refused", "not there" };
    size_t size, counts[4] = { 0 };
    char *text = read_all("manifest.json", &size);
    json_t *manifest;
    OK(rf_json_parse(text, size, "manifest.json", &manifest));
    free(text);
    const json_t *tests = json_object_get(manifest, "tests");
    for (size_t i = 0; i < json_array_size(tests); i++) {
        const json_t *test = json_array_get(tests, i), *ways = json_object_get(test, "ways");
        const char *name = json_string_value(json_object_get(test, "name"));
        outcome best = NOT_THERE;
        for (size_t k = 0; k < json_array_size(ways) && best > WRONG; k++) {
            const outcome o = run_way(json_array_get(ways, k), json_object_get(test, "outputs"));
            if (o < best) best = o;
        }
        if (best == WRONG && has_other_length(name)) best = REFUSED;
        counts[best]++;
        if (best == WRONG || (list && best != PASSED))
            printf("%s: %s: %s\n", names[best], name, best == WRONG ? "" : rf_error_message());
    }
    const size_t total = json_array_size(tests);
    json_decref(manifest);
    printf("%zu tests: %zu pass, %zu are wrong, %zu are refused, %zu of operations that are not there\n", total,
           counts[PASSED], counts[WRONG], counts[REFUSED], counts[NOT_THERE]);
    const size_t known = sample ? KNOWN_SAMPLE_PASSES : total == KNOWN_TESTS ? KNOWN_PASSES : 0;
    if (counts[PASSED] < known) printf("there were %zu that pass\n", known);
    return counts[WRONG] == 0 && counts[PASSED] >= known && counts[PASSED] > 0 ? 0 : 1;
}

TEST_PROGRAM(onnx_nodes)
{
    char command[900];
    if (argc < 2) return 2;
    one = open_devices("llvmpipe");
    if (!one) {
        puts("SKIP: not installed: llvmpipe");
        return 77;
    }
    snprintf(command, sizeof(command), "'%s' '%s' '%s' '%s'", PYTHON, ONNX_NODES, scratch(folder), argv[1]);
    const int status = system(command);
    int failed = WIFEXITED(status) ? WEXITSTATUS(status) : 1;
    if (failed == 0) failed = run_all(strcmp(argv[1], "sample") == 0, argc > 2);
    rf_strategy_destroy(&one);
    scratch_remove(folder);
    return failed;
}
