/* SPDX-License-Identifier: Apache-2.0 */
/* Exporting and using a model in a job of two processes: the chief alone has the file. */
#include <math.h>
#include <stdio.h>
#include <unistd.h>

#include <ringfire/checkpoint.h>
#include <ringfire/interchange.h>

#include "../replica/mw_model.h"
#include "../support/predict.h"
#include "tests/room.h"

enum { ROWS = 5, INPUTS = 6 * 6, CLASSES = 10 };

/* The model's logits for the rows. */
static rf_result run_model(worker *w, const net *n, const rf_array *rows, rf_array *out)
{
    const rf_function_params params = {
        .step = predict_step, .user = n->model, .num_outputs = 1, .name = "predict_step"
    };
    const rf_element batch = { .num_components = 1, .component = { *rows } };
    rf_function *function;
    rf_per_replica *result[1];
    GO(rf_function_create(w->strategy, &params, &function));
    GO(rf_strategy_run(w->strategy, function, &batch, result));
    GO(rf_strategy_gather(w->strategy, result[0], out));
    rf_function_destroy(&function);
    return RF_OK;
}

static rf_result export_and_use(worker *w)
{
    const char *path = w->rank == 0 ? w->user : "elsewhere";
    const training t = { .optimizer = { .kind = RF_OPTIMIZER_SGD } };
    float images[ROWS * INPUTS];
    for (int i = 0; i < ROWS * INPUTS; i++) images[i] = (float)(i * 7 % 31) / 31.0f;
    const rf_array rows = { RF_F32, RF_SHAPE(ROWS, 6, 6, 1), images };
    rf_array want, got;
    net n;
    rf_inference *inference;
    GO(net_create(w, &t, &n));
    GO(run_model(w, &n, &rows, &want));
    EXPECT_FAILS(rf_model_export(n.model, "/nonexistent/x.rfck", NULL), RF_ERROR_IO, "/nonexistent",
                 w->rank > 0 ? "rank 0: " : "");
    EXPECT_FAILS(rf_model_export_onnx(n.model, "/nonexistent/x.onnx"), RF_ERROR_IO, "/nonexistent",
                 w->rank > 0 ? "rank 0: " : "");
    GO(rf_model_export(n.model, path, NULL));
    const rf_inference_params params = { .strategy = w->strategy };
    EXPECT_FAILS(rf_inference_load("/nonexistent/x.rfck", &params, &inference), RF_ERROR_NOT_FOUND, "/nonexistent",
                 w->rank > 0 ? "rank 0: " : "");
    GO(rf_inference_load(path, &params, &inference));
    GO(rf_inference_run(inference, &rows, &got));
    EXPECT(rf_shape_equal(got.shape, want.shape) && rf_shape_count(got.shape) == (int64_t)ROWS * CLASSES);
    for (int i = 0; i < ROWS * CLASSES; i++) EXPECT(fabsf(((float *)got.data)[i] - ((float *)want.data)[i]) <= 1e-5f);
    rf_array_free(&got);
    rf_array_free(&want);
    rf_inference_destroy(&inference);
    return RF_OK;
}

TEST(both_workers)
{
    static report reports[MAX_WORKERS];
    char path[64];
    snprintf(path, sizeof(path), "/tmp/ringfire-test-%d.rfck", (int)getpid());
    const job_params job = { .num_workers = 2, .devices = { "llvmpipe", "SwiftShader" }, .user = path };
    run_job(&job, export_and_use, reports);
    assert_int_equal(access("elsewhere", F_OK), -1);
    unlink(path);
    check_job(reports, 2);
}

TESTS(inference_workers, NULL, NULL)
