/* SPDX-License-Identifier: Apache-2.0 */
/* The code of docs/models.md, word for word (tests/project/check_snippets.py), does what the text says. */
#include <unistd.h>

#include <ringfire/interchange.h>

#include "run_state.h"

#define TRY(expression)                                                                                                \
    do {                                                                                                               \
        const rf_result try_result = (expression);                                                                     \
        if (try_result < 0) return try_result;                                                                         \
    } while (0)

static rf_result save(rf_model *model)
{
    TRY(rf_model_save(model, "net.rfck", NULL));             /* layers, weights, and how it is trained */
    TRY(rf_model_save_weights(model, "weights.rfck", NULL)); /* only the numbers */
    TRY(rf_model_export(model, "inference.rfck", NULL));     /* what predicts, to be used */
    return RF_OK;
}

static rf_result go_on(rf_strategy *strategy, rf_dataset *data)
{
    rf_model *model;
    TRY(rf_model_load(strategy, "net.rfck", &model));
    const rf_result r = rf_model_fit(model, &(rf_fit_params){ .data = data, .epochs = 1 }, NULL);
    rf_model_destroy(&model);
    return r;
}

static rf_result predict(const float *features, float *best)
{
    rf_inference *net;
    rf_array output;
    TRY(rf_inference_load("inference.rfck", &(rf_inference_params){ .device = "llvmpipe" }, &net));
    const rf_array input = { RF_F32, RF_SHAPE(2, 8), (void *)features };
    const rf_result r = rf_inference_run(net, &input, &output);
    if (r >= 0) {
        *best = ((float *)output.data)[0]; /* [2, 4]: as many rows as were given */
        rf_array_free(&output);
    }
    rf_inference_destroy(&net);
    return r;
}

static rf_result exchange(rf_model *model)
{
    TRY(rf_model_export_safetensors(model, "net.safetensors"));
    TRY(rf_model_import_safetensors(model, "net.safetensors"));
    TRY(rf_model_export_onnx(model, "net.onnx"));
    return RF_OK;
}

static rf_result copy_array(void)
{
    float numbers[6] = { 1, 2, 3, 4, 5, 6 };
    rf_array array = { RF_F32, RF_SHAPE(2, 3), numbers }, read;
    TRY(rf_npy_write("numbers.npy", &array));
    TRY(rf_npy_read("numbers.npy", &read));
    rf_array_free(&read);
    return RF_OK;
}

static void the_documentation(void **state)
{
    (void)state;
    static const char *const files[] = { "net.rfck",        "weights.rfck", "inference.rfck",
                                         "net.safetensors", "net.onnx",     "numbers.npy" };
    char folder[64];
    float features[16], best = 0;
    rf_optimizer *optimizer;
    rf_strategy *strategy = open_devices("llvmpipe");
    if (!strategy) SKIP("not installed: llvmpipe");
    assert_int_equal(chdir(scratch(folder)), 0);
    rf_model *model = run_model(strategy, 16);
    rf_dataset *data = run_dataset(RUN_BATCH);
    OK(rf_optimizer_create(strategy, &(rf_optimizer_params){ .kind = RF_OPTIMIZER_ADAM }, &optimizer));
    OK(rf_model_compile(
        model, &(rf_compile_params){ .optimizer = optimizer,
                                     .loss = { RF_LOSS_SPARSE_CATEGORICAL_CROSSENTROPY, true, RF_REDUCTION_AUTO } }));
    OK(save(model));
    OK(go_on(strategy, data));
    fill_noise(features, 16, 3);
    OK(predict(features, &best));
    assert_true(best != 0);
    OK(exchange(model));
    OK(copy_array());
    for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) assert_int_equal(access(files[i], R_OK), 0);
    rf_dataset_destroy(&data);
    rf_model_destroy(&model);
    rf_optimizer_destroy(&optimizer);
    rf_strategy_destroy(&strategy);
    assert_int_equal(chdir("/"), 0);
    scratch_remove(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(the_documentation) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
