/* SPDX-License-Identifier: Apache-2.0 */
/**
 * @file
 * Operations with a shader of the caller, and layers of the caller.
 *
 * An operation is made of SPIR-V, which the application compiles itself (`glslangValidator -V
 * --target-env vulkan1.1`), and of functions that infer shapes, say what to dispatch, and trace its
 * gradient. It is used in steps, layers and models like the library's own operations, on all
 * devices and under all strategies. The shader is held against its description; it is not validated
 * (spirv-val does that), and a driver may crash over a module that is invalid otherwise.
 *
 * The callbacks of an operation are pure: the same call gives the same answer. Several threads may
 * call them at once, at any time while a trace, function or model uses the operation. They must not
 * call the library, except for the gradient, which traces. Functions of this header do not block,
 * except rf_custom_op_check(). Different threads may use one operation at the same time.
 */
#ifndef RINGFIRE_CUSTOM_H
#define RINGFIRE_CUSTOM_H

#include <ringfire/common.h>
#include <ringfire/layers.h>
#include <ringfire/model.h>
#include <ringfire/ops.h>
#include <ringfire/strategy.h>

#ifdef __cplusplus
extern "C" {
#endif

/** Most inputs and outputs of an operation or a layer of this header. */
#define RF_MAX_CUSTOM_TENSORS 8
/** Most bytes of an operation's attributes. */
#define RF_MAX_CUSTOM_ATTRIBUTE_BYTES 256

/** An operation of the caller. */
typedef struct rf_custom_op rf_custom_op;

/** Type and shape of a tensor. */
typedef struct rf_custom_tensor {
    rf_dtype dtype;
    rf_shape shape;
} rf_custom_tensor;

/** One use of an operation, as its callbacks see it. */
typedef struct rf_custom_call {
    const void *attributes; /**< rf_custom_op_params::attribute_size bytes */
    void *user;
    uint32_t num_inputs, num_outputs;
    const rf_custom_tensor *inputs;
    const rf_custom_tensor *outputs; /**< NULL while they are being inferred */
} rf_custom_call;

/** One dispatch: filled in by rf_custom_op_params::dispatch, and zeroed before. */
typedef struct rf_custom_dispatch {
    /**
     * Workgroups along x, y and z; 0 is 1. Devices allow at least 65535 each, and a grid that is
     * too large for the device is an error. Spread long ones over x and y.
     */
    uint32_t groups[3];
    /** The workgroup's size along x, y and z: that of the description, or the shader's own. */
    uint32_t local_size[3];
    /**
     * The most iterations that one invocation makes, all of its loops together. Some drivers leave
     * long loops silently, with a wrong result; the library refuses such calls there. Required
     * where the shader has loops.
     */
    uint64_t loops;
    /** Push constants: rf_custom_op_params::push_size bytes. */
    uint32_t push[32];
    /** Specialization constants 3, 4, ... Every value is a shader that is compiled anew. */
    uint32_t constants[16];
    uint32_t num_constants;
    uint64_t reserved[8]; /**< zero: room for later fields */
} rf_custom_dispatch;

/** The gradient of one use. */
typedef struct rf_custom_gradient {
    const void *attributes;
    void *user;
    uint32_t num_inputs, num_outputs;
    const rf_tensor *inputs, *outputs;
    const rf_tensor *output_gradients; /**< the invalid tensor where none flows */
    const bool *needed;                /**< by input: whether its gradient is wanted */
} rf_custom_gradient;

/** An operation. `name`, `spirv`, `infer` and `dispatch` are required. */
typedef struct rf_custom_op_params {
    /** For messages, profiles and graph dumps. Tell operations apart by it. */
    const char *name;
    const void *spirv; /**< a module with the one entry point `main`; copied */
    size_t spirv_size; /**< bytes */
    uint32_t num_inputs, num_outputs;
    /**
     * Bytes of the attributes, which each use has a copy of. They are compared byte by byte, so
     * padding in them must be zero.
     */
    uint32_t attribute_size;
    uint32_t push_size; /**< bytes of the shader's push-constant block; a multiple of 4 */
    /**
     * The workgroup's size, for shaders that leave it to the specialization constants 0, 1 and 2
     * (`layout(local_size_x_id = 0)`). All zeros: as the shader has it.
     */
    uint32_t local_size[3];
    /**
     * Bit i: dimension 0 of input or output i counts no examples (weights and their gradients).
     */
    uint32_t unbatched_inputs, unbatched_outputs;
    /**
     * Fills in types and shapes of the outputs; a code below 0 refuses the inputs. Also called for
     * larger and smaller batches than those that run, to find out what follows the batch.
     */
    rf_result (*infer)(const rf_custom_call *call, rf_custom_tensor *outputs);
    /** Says what to dispatch for these shapes. */
    rf_result (*dispatch)(const rf_custom_call *call, rf_custom_dispatch *dispatch);
    /**
     * Traces the gradients of the inputs that are needed into `input_gradients`, which are invalid
     * tensors before; those that stay so get none. NULL: differentiating through the operation is
     * RF_ERROR_NO_GRADIENT.
     */
    rf_result (*gradient)(rf_trace *t, const rf_custom_gradient *gradient,
                          rf_tensor *input_gradients);
    /** The same in plain C, for rf_custom_op_check(). May be NULL. */
    rf_result (*reference)(const rf_custom_call *call, const void *const *inputs,
                           void *const *outputs);
    void *user; /**< of all callbacks */
    /** Called once nothing uses the operation any more, or when creating it fails. May be NULL. */
    void (*destroy)(void *user);
    uint64_t reserved[8]; /**< zero: room for later fields */
} rf_custom_op_params;

/**
 * Makes an operation. In the shader, binding i of set 0 is input i, which must be `readonly`, and
 * the outputs follow: output j is binding num_inputs + j. Buffers hold what their types say, row by
 * row; bytes beyond the last element must not be written. Every element of the outputs must be.
 *
 * The shader may use what Vulkan 1.2 has everywhere, and 16-bit floats, 8-bit and 64-bit integers
 * and operations of subgroups. A device that lacks one of the latter is an error once the operation
 * is to run there.
 * @param[out] out the operation, to be given back with rf_custom_op_destroy()
 * @return RF_ERROR_INVALID_ARGUMENT for a module that is malformed or does not fit the description:
 *   the message names the operation and what to change
 */
RF_API RF_MUST_USE rf_result rf_custom_op_create(const rf_custom_op_params *params,
                                                 rf_custom_op **out);
/**
 * Gives back the caller's reference and sets *op to NULL. Traces, functions and models that use the
 * operation keep it. NULL does nothing.
 */
RF_API void rf_custom_op_destroy(rf_custom_op **op);
/**
 * Uses an operation in a step.
 * @param attributes attribute_size bytes, which are copied; NULL: zeros
 * @param[out] outputs as many tensors as it has outputs; invalid ones after a failure
 * @return rf_trace_status(t). Graphs that hold such an operation cannot be exported to inference
 *   files or ONNX: that is RF_ERROR_UNSUPPORTED and names the operation.
 */
RF_API rf_result rf_custom_op_call(rf_trace *t, const rf_custom_op *op, const void *attributes,
                                   const rf_tensor *inputs, uint32_t num_inputs, rf_tensor *outputs,
                                   uint32_t num_outputs);
/**
 * Runs the operation's shader on each device of this worker and compares the f32 outputs with those
 * of its reference (|shader - reference| <= atol + rtol * |reference|), other types bit by bit.
 * Memory around the outputs is guarded. For tests; blocking.
 * @param attributes as for rf_custom_op_call()
 * @param inputs as many as the operation has
 * @return RF_ERROR_INTERNAL where they differ; the message names device, output and element.
 *   RF_ERROR_UNSUPPORTED without a reference
 */
RF_API rf_result rf_custom_op_check(rf_strategy *strategy, const rf_custom_op *op,
                                    const void *attributes, const rf_array *inputs,
                                    uint32_t num_inputs, double rtol, double atol);

/* ---- layers ---- */

/** A variable of a layer of the caller. `name` and `shape` are required. */
typedef struct rf_custom_variable_params {
    const char *name; /**< the last part of it: the variable is called "<layer>/<name>" */
    rf_shape shape;
    rf_initializer initializer; /**< zeroed: Glorot uniform */
    rf_regularizer regularizer; /**< of a variable that is trained */
    bool not_trainable;         /**< state: rf_variable_update() gives it values */
    uint64_t reserved[4];       /**< zero: room for later fields */
} rf_custom_variable_params;

/** A layer of the caller. `type` and `call` are required. */
typedef struct rf_custom_layer_params {
    /** Names the kind of layer, in summaries and files; also of rf_custom_layer_register(). */
    const char *type;
    const char *name;                 /**< NULL: made from `type` */
    uint32_t num_inputs, num_outputs; /**< 0: 1 */
    /**
     * Called once, for the shapes of the first call (batch included): checks them, and creates the
     * variables with rf_custom_layer_add_variable(). NULL: the layer has none.
     */
    rf_result (*build)(rf_layer *layer, const rf_custom_tensor *inputs, uint32_t num_inputs,
                       void *user);
    /**
     * Traces the layer, in each call. It finds its variables with rf_layer_variable() and uses them
     * with rf_variable_tensor(). Outputs are invalid tensors before.
     */
    rf_result (*call)(rf_trace *t, const rf_layer *layer, const rf_tensor *inputs,
                      rf_tensor *outputs, rf_mode mode, void *user);
    void *user; /**< of all callbacks; borrowed until `destroy` */
    /** Called when the layer goes, or when creating it fails. May be NULL. */
    void (*destroy)(void *user);
    /**
     * The text from which the function of rf_custom_layer_register() makes the layer again; any
     * text in UTF-8, copied. NULL: models with the layer cannot be saved whole (their weights can).
     */
    const char *config;
    uint64_t reserved[8]; /**< zero: room for later fields */
} rf_custom_layer_params;

/**
 * Makes a layer of callbacks, for sequential, functional and custom models. The callbacks run in
 * the thread that builds or traces the model.
 * @param[out] out owned by the caller until a model takes it
 * @return RF_ERROR_INVALID_ARGUMENT for what is missing or out of range
 */
RF_API RF_MUST_USE rf_result rf_layer_custom(const rf_custom_layer_params *params, rf_layer **out);
/**
 * Creates a variable of a layer, in rf_custom_layer_params::build only. A layer has up to 8.
 * @return RF_ERROR_INVALID_ARGUMENT anywhere else, and for a name that the layer has already
 */
RF_API rf_result rf_custom_layer_add_variable(rf_layer *layer,
                                              const rf_custom_variable_params *params);
/** Makes a layer of a registered type from its `config` and gives it that name. */
typedef rf_result (*rf_custom_layer_fn)(void *user, const char *name, const char *config,
                                        rf_layer **out);
/**
 * Tells how layers of a type are made when a model is loaded from a file; after
 * `keras.saving.register_keras_serializable`. A type that is registered again is replaced. Any
 * thread may register and load at any time.
 * @param fn makes a layer with rf_layer_custom(); NULL takes the type off the list
 * @param user borrowed for as long as the type is registered
 */
RF_API rf_result rf_custom_layer_register(const char *type, rf_custom_layer_fn fn, void *user);

#ifdef __cplusplus
}
#endif

#endif
