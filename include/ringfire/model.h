/* SPDX-License-Identifier: Apache-2.0 */
/**
 * @file
 * Models with several inputs and outputs, and graphs of layers. The rules of train.h for all of its
 * functions hold here as well; what takes a model there (summary, checkpoints, export, fit,
 * evaluate) takes these, too.
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
 * Shape of an example of an input, without the batch. Its rank is 0 before the model is built, and
 * when there is no such input.
 */
RF_API rf_shape rf_model_input_shape(const rf_model *model, uint32_t index);
/** The same of an output; as rf_model_input_shape(). */
RF_API rf_shape rf_model_output_shape(const rf_model *model, uint32_t index);
/** Type of an input. RF_DTYPE_INVALID before the model is built, and when there is no such input.
 */
RF_API rf_dtype rf_model_input_dtype(const rf_model *model, uint32_t index);
/** The same of an output; as rf_model_input_dtype(). */
RF_API rf_dtype rf_model_output_dtype(const rf_model *model, uint32_t index);
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

/* ---- layers of several tensors ---- */

/** Options of rf_layer_apply(). */
typedef struct rf_layer_apply_params {
    const rf_tensor *in; /**< in the order that the layer's function in layers.h names */
    uint32_t num_in;
    rf_tensor mask; /**< for layers that take one; f32, i32 or u8, 0 is left out. Zeroed: none */
    rf_mode mode;
    /**
     * Where the first step stands, for layers that get a sequence piece by piece:
     * rf_layer_position_embedding(), rf_layer_sine_position_encoding(), and
     * rf_layer_multi_head_attention() with a cache. i32 of one element, a number of the step.
     * Zeroed: 0
     */
    rf_tensor start_index;
    /** Keys and values of earlier steps, for rf_layer_multi_head_attention(). Zeroed: none */
    rf_tensor cache[2];
    uint64_t reserved[1]; /**< zero: room for later fields */
} rf_layer_apply_params;
/**
 * Applies a layer of the model inside its forward function: rf_layer_call() for layers of several
 * inputs, outputs, or of a mask.
 * @param[out] out `num_out` tensors, at least 1: as many of the layer's outputs as are wanted, from
 *   the first on; invalid tensors after a failure
 * @return RF_ERROR_INVALID_ARGUMENT when the layer takes other numbers of inputs or has fewer
 *   outputs, and for a mask, a start_index or a cache where it takes none. The trace then has
 *   failed, as with every other error.
 */
RF_API rf_result rf_layer_apply(rf_trace *t, rf_model *model, rf_layer *layer,
                                const rf_layer_apply_params *params, rf_tensor *out,
                                uint32_t num_out);
/**
 * Freezes a layer, or lets it be trained again: the variables of a frozen layer are not among
 * rf_model_variables() but among rf_model_state_variables(), and a frozen batch normalization uses
 * its moving averages, as in Keras. New layers are trained. As in Keras rf_model_fit() trains what
 * was trainable at rf_model_compile(), whatever is frozen afterwards: call it again. A step of the
 * caller's has the list that it reads when it is traced. NULL does nothing.
 */
RF_API void rf_layer_set_trainable(rf_layer *layer, bool trainable);
/**
 * The layer's own policy, instead of the strategy's. Layers that know no types of 16 bits
 * (recurrent ones, lambdas) compute in f32 in any case.
 * @return RF_ERROR_INVALID_ARGUMENT for other types than f32, f16 and bf16, and once the layer was
 *   called.
 */
RF_API RF_MUST_USE rf_result rf_layer_set_dtype_policy(rf_layer *layer,
                                                       const rf_dtype_policy *policy);
/** Whether a layer is trained. False for NULL. */
RF_API bool rf_layer_trainable(const rf_layer *layer);
/**
 * A variable of a layer by the last part of its name, such as "kernel", "embeddings" or
 * "moving_mean". Borrowed; NULL when there is none of that name, or before the layer is built.
 */
RF_API rf_variable *rf_layer_variable(const rf_layer *layer, const char *name);

/**
 * Names a layer, also one whose constructor takes no name. `name` is copied.
 * @return RF_ERROR_INVALID_ARGUMENT for an empty name, and once a model has the layer.
 */
RF_API RF_MUST_USE rf_result rf_layer_set_name(rf_layer *layer, const char *name);
/** Name of a layer, owned by it; NULL before a model has named it, and for NULL. */
RF_API const char *rf_layer_name(const rf_layer *layer);

/* ---- layers of a model ---- */

/** Number of layers of a model, in which a model as a layer counts as one. 0 for NULL. */
RF_API uint32_t rf_model_num_layers(const rf_model *model);
/** A layer of a model, in the order of a summary. Borrowed; NULL when there is no such layer. */
RF_API rf_layer *rf_model_layer_at(const rf_model *model, uint32_t index);
/**
 * A layer of a model by its name, also of one that was loaded: to freeze it
 * (rf_layer_set_trainable()) or to read its weights (rf_layer_variable()). "encoder/dense" is the
 * layer "dense" of the model that is the layer "encoder". Borrowed; NULL when there is none.
 */
RF_API rf_layer *rf_model_find_layer(const rf_model *model, const char *name);

/**
 * The name that a variable has in the files of a model, such as "encoder/dense/kernel". Borrowed
 * from the model; NULL when it is none of the model's.
 */
RF_API const char *rf_model_variable_name(const rf_model *model, const rf_variable *variable);

/** A model as a layer. `model` is required. */
typedef struct rf_model_layer_params {
    /** On the strategy of the models that get the layer, and kept as long as they live. */
    rf_model *model;
    /**
     * Apply the model only up to its layer of this name, whose first output at its last call is the
     * output: a model without its head. NULL: apply all of it
     */
    const char *last_layer;
    const char *name;     /**< NULL: "model", "model_1", ... */
    uint64_t reserved[8]; /**< zero: room for later fields */
} rf_model_layer_params;
/**
 * Makes a layer of a model, with its inputs and outputs. The layer's weights are the model's: as
 * many layers, of as many models, as are made of one model share them. They are called after the
 * layer, such as "encoder/dense/kernel", and are trained, saved and exported with each model that
 * uses them. rf_layer_set_trainable() freezes all layers of the model. A file holds the model with
 * the layer, where it is sequential or functional.
 * @return RF_ERROR_INVALID_ARGUMENT when the model has no layer `last_layer`, or with one is not
 *   built, or code.
 */
RF_API RF_MUST_USE rf_result rf_layer_from_model(const rf_model_layer_params *params,
                                                 rf_layer **out);
/**
 * The model that a layer of rf_layer_from_model() applies; that of a model that was loaded is
 * complete as well. Borrowed from the layer; NULL for other layers.
 */
RF_API rf_model *rf_layer_model(const rf_layer *layer);

/**
 * Makes a layer that applies a layer of another model, with its weights and its name: for a second
 * model, such as one that gives what the first one has inside. That model's variables stay as long
 * as the layer does. A file of the second model has the layer itself. A layer of
 * rf_layer_from_model() becomes another one of the same model.
 * @return RF_ERROR_INVALID_ARGUMENT for a layer that no model has.
 */
RF_API RF_MUST_USE rf_result rf_layer_share(rf_layer *layer, rf_layer **out);

/* ---- functional models: graphs of layers, which files can hold ---- */

/** Makes a functional model. */
typedef struct rf_model_builder rf_model_builder;
/**
 * A tensor of a model that is being built. All zeros is none: what a call that failed gives, and
 * what makes later calls fail.
 */
typedef struct rf_symbol {
    uint32_t id;
    uint32_t builder;
} rf_symbol;
/**
 * Begins a model whose layers form a graph: with skip connections, layers that are used twice,
 * several inputs and outputs. Unlike a model of rf_model_create() it can be saved whole, for the
 * graph is data.
 *
 * @code
 *     rf_model_builder_create(strategy, &b);
 *     rf_symbol x = rf_model_builder_input(b, RF_F32, RF_SHAPE(28, 28, 1), "image");
 *     rf_symbol y = rf_model_builder_call(b, conv, x);
 *     y = rf_model_builder_call_many(b, add, (rf_symbol[]){ x, y }, 2);
 *     rf_model_builder_finish(&b, &y, 1, NULL, &model);
 * @endcode
 *
 * The first failure sticks to the builder: later calls do nothing, and rf_model_builder_finish()
 * returns it.
 */
RF_API RF_MUST_USE rf_result rf_model_builder_create(rf_strategy *strategy, rf_model_builder **out);
/** Ends a builder without a model, with the layers that it was given. */
RF_API void rf_model_builder_destroy(rf_model_builder **builder);
/**
 * An input of the model: its type, the shape of an example (without the batch), and its name, which
 * is copied; NULL: "input", "input_1", ... Dimensions of -1, such as the length of sequences, are
 * left open: the model is traced for each that comes, and ONNX files call them "sequence". It is
 * built with 8 and 11 in their place. At most RF_MAX_COMPONENTS, all of them before the first
 * layer.
 */
RF_API rf_symbol rf_model_builder_input(rf_model_builder *builder, rf_dtype dtype, rf_shape shape,
                                        const char *name);
/**
 * Applies a layer of one input and output. The builder takes the layer over, also when it fails;
 * applied again it uses the same weights.
 */
RF_API rf_symbol rf_model_builder_call(rf_model_builder *builder, rf_layer *layer, rf_symbol x);
/** rf_model_builder_call() of a layer of several inputs. */
RF_API rf_symbol rf_model_builder_call_many(rf_model_builder *builder, rf_layer *layer,
                                            const rf_symbol *in, uint32_t num_in);
/**
 * rf_model_builder_call() of any layer.
 * @param in the inputs
 * @param num_in their number
 * @param mask for layers that take one; zeroed: none
 * @param[out] out the first `num_out` outputs, at least 1
 * @return the first failure of the builder
 */
RF_API rf_result rf_model_builder_apply(rf_model_builder *builder, rf_layer *layer,
                                        const rf_symbol *in, uint32_t num_in, rf_symbol mask,
                                        rf_symbol *out, uint32_t num_out);
/**
 * Puts the names of the layers that follow below another one: after "block1", "conv2d" becomes
 * "block1/conv2d". Scopes nest; rf_model_builder_leave_scope() ends the last one.
 * @return the first failure of the builder; RF_ERROR_INVALID_ARGUMENT for a name that is empty, and
 *   where there is no scope to leave.
 */
RF_API rf_result rf_model_builder_enter_scope(rf_model_builder *builder, const char *name);
/** See rf_model_builder_enter_scope(). */
RF_API rf_result rf_model_builder_leave_scope(rf_model_builder *builder);
/**
 * Makes the model, with its variables: layers that do not fit what they get fail here. Ends the
 * builder, also when it fails. Blocking.
 * @param outputs at most RF_MAX_COMPONENTS; every input and every layer must have a part in one
 * @param output_names NULL: "output", or "output_0", "output_1", ... where there are several
 * @return RF_ERROR_INVALID_ARGUMENT also where layers or inputs have no part in any output; the
 *   first failure of the builder.
 */
RF_API RF_MUST_USE rf_result rf_model_builder_finish(rf_model_builder **builder,
                                                     const rf_symbol *outputs, uint32_t num_outputs,
                                                     const char *const *output_names,
                                                     rf_model **out);

/* ---- texts that a language model goes on with ---- */

/** How the next token is chosen from its logits. Zeroed: the token with the largest one (greedy).
 */
typedef struct rf_sampling_params {
    /** Logits are divided by this, and a token is drawn by its probability. 0: greedy */
    float temperature;
    uint32_t top_k; /**< only so many of the likeliest tokens; 0: all of them */
    float top_p;    /**< only the likeliest tokens that together have this probability (Holtzman et
                         al. 2020); 0: all of them */
    float min_p;    /**< only tokens with this part of the largest probability, at least (Nguyen et
                         al. 2024); 0: all of them */
    /** Positive logits of tokens that the text has are divided by this, others multiplied (Keskar
     * et al. 2019); 0: they stay */
    float repetition_penalty;
    uint64_t reserved[6]; /**< zero: room for later fields */
} rf_sampling_params;
/**
 * Gets each new token as soon as it is chosen, and says whether the text goes on. All workers of a
 * job give the same answers. It must not call functions of the model or its strategy.
 * @param prompt the number of the prompt whose text it is
 */
typedef bool (*rf_token_fn)(uint32_t prompt, int32_t token, void *user);
/** Options of rf_model_generate(). Prompts and `max_new_tokens` are required. */
typedef struct rf_generate_params {
    const rf_array *prompts; /**< the tokens of each, i32 [k], of any lengths from 1 on */
    uint32_t num_prompts;
    uint32_t max_new_tokens; /**< for each prompt */
    rf_sampling_params sampling;
    /**
     * The same seed gives the same texts: random numbers depend on it, on the prompt's number and
     * on the token's place in the new text.
     */
    uint64_t seed;
    uint32_t
        first_prompt; /**< number of the first prompt, where a program asks for some at a time */
    uint32_t num_stop_tokens;
    const int32_t *stop_tokens; /**< each ends the text in which it appears */
    rf_token_fn on_token;       /**< NULL: none */
    void *user;                 /**< of `on_token` */
    bool no_cache;              /**< read the texts from the beginning for each token */
    uint64_t reserved[8];       /**< zero: room for later fields */
} rf_generate_params;
/**
 * Goes on with texts, token by token. The model is built, takes i32 tokens [n, steps] and gives
 * logits [n, steps, vocabulary], of which no step depends on later ones.
 *
 * Keys and values of functional models whose layers mix steps by causal self-attention alone stay
 * on the device: each token is read once. Other models read texts from the beginning for each
 * token. Those of code (rf_model_create_custom()) always get as many steps as they were built for,
 * of which the last ones may be zeros.
 *
 * All prompts go through one replica at once, which others wait for. So the texts do not depend on
 * the strategy, but on its devices as far as roundings decide.
 *
 * The model keeps its recordings, and room for keys and values on the device, for the next call,
 * which uses them if it has as many prompts. They go with the model, or when a call needs others.
 * Collective, with the same arguments on all workers; blocking.
 *
 * @param[out] texts an array of `num_prompts`: the new tokens of each prompt, i32 [k], a stop token
 *   included. `data` of each is owned by the caller, who frees it with rf_array_free(); all are
 *   zeroed after a failure.
 * @return RF_ERROR_INVALID_ARGUMENT for another model, for a text that would have more tokens than
 *   the model has places, and for tokens that it does not know; RF_ERROR_NOT_FINITE for logits that
 *   are NaN; RF_ERROR_CANCELLED after a request to stop.
 */
RF_API RF_MUST_USE rf_result rf_model_generate(rf_model *model, const rf_generate_params *params,
                                               rf_array *texts);

#ifdef __cplusplus
}
#endif
#endif
