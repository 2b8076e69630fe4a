/* SPDX-License-Identifier: Apache-2.0 */
/* Models for use alone. */
#include "train/checkpoint.h"
#include "train/model.h"
#include "train/model_file.h"

struct rf_inference {
    rf_strategy *strategy, *own; /* own: NULL where it is borrowed */
    rf_model *model;
    rf_function *function;
};

static rf_result step(rf_trace *t, const rf_tensor *in, rf_tensor *out, void *user)
{
    out[0] = rf_model_call(t, user, in[0], RF_INFERENCE);
    return rf_trace_status(t);
}

static rf_result set_up(rf_inference *i, const char *path, const rf_inference_params *p)
{
    RF_REQUIRE(!p->strategy || !p->device, "rf_inference_load: strategy and device are both set; leave one out");
    if (!p->strategy) {
        const rf_one_device_params device = { .device = p->device };
        RF_TRY(rf_strategy_create_one_device(&device, &i->own));
    }
    i->strategy = p->strategy ? p->strategy : i->own;
    RF_TRY(rf_error_context(rf_model_load_file(i->strategy, path, false, &i->model), "loading '%s'", path));
    const rf_function_params function = { .step = step, .user = i->model, .num_outputs = 1, .name = "inference" };
    return rf_function_create(i->strategy, &function, &i->function);
}

rf_result rf_inference_load(const char *path, const rf_inference_params *params, rf_inference **out)
{
    static const rf_inference_params defaults = { 0 };
    RF_REQUIRE(out, "rf_inference_load: out is NULL");
    *out = NULL;
    RF_REQUIRE(path && *path, "rf_inference_load: path is empty");
    rf_inference *i = RF_NEW(rf_inference);
    if (!i) return RF_ERROR_OUT_OF_HOST_MEMORY;
    const rf_result r = set_up(i, path, params ? params : &defaults);
    if (r < 0)
        rf_inference_destroy(&i);
    else
        *out = i;
    return r;
}

void rf_inference_destroy(rf_inference **inference)
{
    if (!inference || !*inference) return;
    rf_function_destroy(&(*inference)->function);
    rf_model_destroy(&(*inference)->model);
    rf_strategy_destroy(&(*inference)->own);
    rf_free(*inference);
    *inference = NULL;
}

static rf_shape with_batch(rf_shape example)
{
    rf_shape shape = { .rank = example.rank + 1, .dim = { -1 } };
    for (int32_t i = 0; i < example.rank; i++) shape.dim[i + 1] = example.dim[i];
    return shape;
}

void rf_inference_signature(const rf_inference *inference, rf_array *input, rf_array *output)
{
    if (input) *input = (rf_array){ 0 };
    if (output) *output = (rf_array){ 0 };
    if (!inference) return;
    const rf_model *model = inference->model;
    if (input) *input = (rf_array){ .dtype = RF_F32, .shape = with_batch(model->input_shape) };
    if (!output) return;
    *output = (rf_array){ .dtype = RF_F32, .shape = model->layers.items[model->layers.count - 1]->output };
    output->shape.dim[0] = -1;
}

rf_result rf_inference_run(rf_inference *inference, const rf_array *input, rf_array *output)
{
    RF_REQUIRE(output, "rf_inference_run: output is NULL");
    *output = (rf_array){ 0 };
    RF_REQUIRE(inference, "rf_inference_run: inference is NULL");
    RF_REQUIRE(input && input->data, "rf_inference_run: input has no data");
    char is[96], wanted[96];
    rf_array signature;
    rf_inference_signature(inference, &signature, NULL);
    rf_shape expected = signature.shape;
    if (input->shape.rank > 0) expected.dim[0] = input->shape.dim[0];
    RF_REQUIRE(input->dtype == RF_F32 && rf_shape_equal(input->shape, expected) && input->shape.dim[0] > 0,
               "rf_inference_run: input is %s %s, not f32 %s", rf_dtype_name(input->dtype),
               rf_shape_format(input->shape, is, sizeof(is)), rf_shape_format(signature.shape, wanted, sizeof(wanted)));
    const rf_element batch = { .num_components = 1, .component = { *input } };
    rf_per_replica *result[1];
    RF_TRY(rf_strategy_run(inference->strategy, inference->function, &batch, result));
    return rf_strategy_gather(inference->strategy, result[0], output);
}
