/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An operation with a shader of the program, and a layer that learns with it. Two models that begin alike are trained
 * on the same examples: one with the shader, one with the library's operations. Their losses agree.
 */
#include <argp.h>
#include <math.h>
#include <stdio.h>

#include "swish.h"

enum { EXAMPLES = 256, BATCH = 64, EPOCHS = 20 };

#define TRY(call)                                                                                                      \
    do {                                                                                                               \
        if ((call) < 0) {                                                                                              \
            fprintf(stderr, "%s\n", rf_error_message());                                                               \
            goto end;                                                                                                  \
        }                                                                                                              \
    } while (0)

/* y = sin(3 a) * b */
static rf_result make_data(rf_dataset **out)
{
    static float x[EXAMPLES][2], y[EXAMPLES][1];
    for (int i = 0; i < EXAMPLES; i++) {
        x[i][0] = (float)(i % 16) / 8.0f - 1.0f;
        const int row = i / 16;
        x[i][1] = (float)row / 8.0f - 1.0f;
        y[i][0] = sinf(3.0f * x[i][0]) * x[i][1];
    }
    const rf_array arrays[] = { { .dtype = RF_F32, .shape = RF_SHAPE(EXAMPLES, 2), .data = x },
                                { .dtype = RF_F32, .shape = RF_SHAPE(EXAMPLES, 1), .data = y } };
    rf_dataset *slices = NULL;
    rf_result r = rf_dataset_from_arrays(&(rf_dataset_arrays_params){ .arrays = arrays, .num_arrays = 2 }, &slices);
    if (r >= 0) r = rf_dataset_batch(slices, BATCH, RF_REMAINDER_DROP, out);
    rf_dataset_destroy(&slices);
    return r;
}

/* Dense, swish, dense; trained. */
static rf_result train(rf_strategy *strategy, const rf_dataset *data, const swish_ops *ops, double *loss)
{
    rf_layer *layers[3] = { NULL };
    rf_model *model = NULL;
    rf_optimizer *optimizer = NULL;
    rf_logs logs;
    rf_result r = rf_layer_dense(&(rf_dense_params){ .units = 32, .kernel_initializer = { .seed = 1 } }, &layers[0]);
    if (r >= 0) r = swish_layer(ops, NULL, &layers[1]);
    if (r >= 0) r = rf_layer_dense(&(rf_dense_params){ .units = 1, .kernel_initializer = { .seed = 2 } }, &layers[2]);
    if (r >= 0) r = rf_model_create_sequential(strategy, layers, 3, NULL, &model);
    if (r >= 0) r = rf_model_build(model, RF_SHAPE(2));
    if (r >= 0)
        r = rf_optimizer_create(strategy, &(rf_optimizer_params){ .kind = RF_OPTIMIZER_ADAM, .learning_rate = 0.01 },
                                &optimizer);
    if (r >= 0)
        r = rf_model_compile(
            model, &(rf_compile_params){ .optimizer = optimizer, .loss = { .kind = RF_LOSS_MEAN_SQUARED_ERROR } });
    if (r >= 0) r = rf_model_fit(model, &(rf_fit_params){ .data = data, .epochs = EPOCHS }, NULL);
    if (r >= 0) r = rf_model_evaluate(model, data, &logs);
    if (r >= 0) (void)rf_logs_get(&logs, "loss", loss);
    rf_model_destroy(&model);
    rf_optimizer_destroy(&optimizer);
    return r;
}

int main(int argc, char **argv)
{
    const struct argp parser = { .doc =
                                     "Trains two small networks: one computes swish with a shader of this program, the "
                                     "other with operations of the library. Their losses agree." };
    int status = 1;
    swish_ops ops = { NULL, NULL };
    rf_strategy *strategy = NULL;
    rf_dataset *data = NULL;
    double with_shader = 0, built_in = 0;
    argp_parse(&parser, argc, argv, 0, NULL, NULL);
    TRY(swish_create(&ops));
    TRY(rf_strategy_create_mirrored(NULL, &strategy));
    TRY(make_data(&data));
    TRY(train(strategy, data, &ops, &with_shader));
    TRY(train(strategy, data, NULL, &built_in));
    printf("loss with the shader of this program   %.6f\nloss with the library's operations     %.6f\n", with_shader,
           built_in);
    status = fabs(with_shader - built_in) <= 1e-3 * built_in + 1e-6 ? 0 : 1;
    if (status) fprintf(stderr, "the losses differ\n");
end:
    rf_dataset_destroy(&data);
    rf_strategy_destroy(&strategy);
    swish_destroy(&ops);
    return status;
}
