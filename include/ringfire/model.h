/* SPDX-License-Identifier: Apache-2.0 */
/**
 * @file
 * Models with several inputs and outputs. What train.h says for all of its functions holds here as
 * well; what takes a model there (summary, checkpoints, export, fit, evaluate) takes these, too.
 */
#ifndef RINGFIRE_MODEL_H
#define RINGFIRE_MODEL_H

#include <ringfire/common.h>
#include <ringfire/dataset.h>
#include <ringfire/ops.h>
#include <ringfire/strategy.h>
#include <ringfire/train.h>

#ifdef __cplusplus
extern "C" {
#endif

/**
 * The forward function of rf_model_create(). It follows the rules of a step (::rf_step_fn): `in`
 * are the model's inputs, and it sets all of its outputs in `out`. The batch is dimension 0 of each
 * of them.
 */
typedef rf_result (*rf_model_apply_fn)(rf_trace *t, rf_model *model, const rf_tensor *in,
                                       rf_tensor *out, rf_mode mode, void *user);
/** A model of any function. `apply` is required. */
typedef struct rf_model_params {
    rf_model_apply_fn apply;
    void *user;           /**< borrowed for the lifetime of the model */
    uint32_t num_inputs;  /**< at most RF_MAX_COMPONENTS; 0: 1 */
    uint32_t num_outputs; /**< at most RF_MAX_COMPONENTS; 0: 1 */
    /**
     * Names for logs, messages, exported files and ONNX: letters, digits and "_", each once in the
     * model. NULL: "input", or "input_0", "input_1", ... where there are several.
     */
    const char *const *input_names;
    const char *const *output_names; /**< the same with "output" */
    uint64_t reserved[8];            /**< zero: room for later fields */
} rf_model_params;
/**
 * Creates a model from a function, as rf_model_create_custom() does, with any number of inputs and
 * outputs. Layers are added with rf_model_add_layer(). `params` and its names are copied.
 * @return RF_ERROR_INVALID_ARGUMENT for numbers out of range and for names that are empty, have
 *   other characters or occur twice.
 */
RF_API RF_MUST_USE rf_result rf_model_create(rf_strategy *strategy, const rf_model_params *params,
                                             rf_model **out);
/** Number of inputs; 1 for models of other functions than rf_model_create(). 0 for NULL. */
RF_API uint32_t rf_model_num_inputs(const rf_model *model);
/** Number of outputs; as rf_model_num_inputs(). */
RF_API uint32_t rf_model_num_outputs(const rf_model *model);
/** Name of an input, borrowed from the model; NULL when there is no such input. */
RF_API const char *rf_model_input_name(const rf_model *model, uint32_t index);
/** Name of an output; as rf_model_input_name(). */
RF_API const char *rf_model_output_name(const rf_model *model, uint32_t index);
/**
 * Applies any model inside a step: rf_model_call() for several tensors.
 * @param in all inputs, each with the batch as dimension 0
 * @param[out] out as many as the model has outputs; invalid tensors after a failure
 * @return RF_ERROR_INVALID_ARGUMENT when the model has other numbers of inputs or outputs. The
 *   trace then has failed, as with every other error.
 */
RF_API rf_result rf_model_apply(rf_trace *t, rf_model *model, const rf_tensor *in, uint32_t num_in,
                                rf_mode mode, rf_tensor *out, uint32_t num_out);
/**
 * Creates the variables of any model: rf_model_build_for() for several inputs. `spec` is that of a
 * batched dataset: its first components are the inputs, dimension 0 of each is the batch, and any
 * further components are not looked at. Blocking.
 * @return RF_ERROR_INVALID_ARGUMENT when there are too few components, and when the model was built
 *   for other types or shapes.
 */
RF_API RF_MUST_USE rf_result rf_model_build_inputs(rf_model *model, const rf_element_spec *spec);
/**
 * rf_model_predict() of every output. The first components of the elements are the model's inputs.
 * Collective; blocking.
 * @param[out] outputs as many as the model has outputs. `data` of each is owned by the caller, who
 *   frees it with rf_array_free(); all are zeroed after a failure.
 * @return RF_ERROR_INVALID_ARGUMENT when num_outputs is not the model's, and as rf_model_predict().
 */
RF_API RF_MUST_USE rf_result rf_model_predict_many(rf_model *model, const rf_dataset *data,
                                                   rf_array *outputs, uint32_t num_outputs);

#ifdef __cplusplus
}
#endif
#endif
