/* SPDX-License-Identifier: Apache-2.0 */
/**
 * @file
 * Low-rank adapters (LoRA, Hu et al. 2021): a model's weights stay as they are, and products of two
 * narrow matrices, which are trained, are added to what they give. Files are those of Hugging
 * Face's PEFT. The rules of train.h for all of its functions hold here as well.
 *
 * A function here that changes which adapters act makes the model forget what was compiled: call
 * rf_model_compile() again before rf_model_fit() and rf_model_evaluate(). Steps of the caller's
 * have the adapters that acted when they were traced. None of them may be called within a step or
 * a callback of the model. Every worker makes the same calls.
 */
#ifndef RINGFIRE_LORA_H
#define RINGFIRE_LORA_H

#include <ringfire/common.h>
#include <ringfire/model.h>

#ifdef __cplusplus
extern "C" {
#endif

/** An adapter. NULL or zeroed: as PEFT has it, on all dense layers but the last one. */
typedef struct rf_lora_params {
    uint32_t rank; /**< columns of the first matrix, at most 65,536. 0: 8 */
    float alpha;   /**< what an adapter adds is scaled by alpha / rank. 0: 8 */
    float dropout; /**< rate in [0, 1) of rf_dropout() on what an adapter gets, in training */
    bool rank_stabilized; /**< scaled by alpha / sqrt(rank) (rsLoRA, Kalajdzievski 2023) */
    /** A length of each column of the weights is trained beside their direction (DoRA, Liu et al.
     * 2024); the norm of a column takes no gradient. */
    bool weight_decomposed;
    /**
     * Which modules get the adapter: those with one of these names, or whose name ends with "." and
     * one. "*" stands for any characters, and "/" for ".". NULL: as "all-linear", all dense layers
     * and projections but those that make the model's outputs
     */
    const char *const *targets;
    uint32_t num_targets;
    uint64_t reserved[8]; /**< zero: room for later fields */
} rf_lora_params;
/**
 * Number of modules of a built model that adapters can be put on: dense layers, projections of
 * attention, embeddings and convolutions without groups. 0 for NULL.
 */
RF_API uint32_t rf_lora_num_modules(rf_model *model);
/**
 * Name of such a module. A model of rf_pretrained_open() has those of its files, such as
 * "transformer.h.0.attn.c_attn", where several projections of one tensor are one module. Others
 * have the names of layers with "." for "/", such as "block.attention.query". Borrowed from the
 * model until it gets other layers; NULL when there is no such module.
 */
RF_API const char *rf_lora_module_name(rf_model *model, uint32_t index);
/**
 * Puts an adapter on a model's layers, and lets it act alone. All other weights are frozen as long
 * as the model has adapters: they take no gradient, have no optimizer's slots and are not
 * exchanged, and checkpoints of the model hold its adapters and what is trained alone. The first
 * matrix begins with random values, and the second one with zeros; so the model computes what it
 * did before. The matrices of an embedding begin the other way round, as in PEFT. Blocking.
 * @param model built; layers of models that it calls are its own here
 * @param name letters, digits, "_" and "-"; for messages and the other functions; copied
 * @return RF_ERROR_INVALID_ARGUMENT for a target that no module is of, which the message names, for
 *   a name that another adapter has, and for a model that is not built
 */
RF_API RF_MUST_USE rf_result rf_lora_attach(rf_model *model, const char *name,
                                            const rf_lora_params *params);
/** Takes an adapter off; with the last one, layers are trained again as they were before. */
RF_API RF_MUST_USE rf_result rf_lora_detach(rf_model *model, const char *name);
/** Number of a model's adapters. 0 for NULL. */
RF_API uint32_t rf_lora_num_adapters(const rf_model *model);
/** Name of an adapter, in the order in which they came; NULL when there is no such adapter. */
RF_API const char *rf_lora_adapter_name(const rf_model *model, uint32_t index);
/**
 * Lets one adapter act and be trained, and no other one. NULL: none, which leaves the model as it
 * was without them.
 */
RF_API RF_MUST_USE rf_result rf_lora_set_active(rf_model *model, const char *name);
/** The adapter that acts; NULL: none. Borrowed. */
RF_API const char *rf_lora_active(const rf_model *model);
/**
 * Adds an adapter to the weights of the layers that it is on, so that the model computes with it at
 * no cost. The adapter does not act beside them any more. Further ones may be merged as well.
 * Copies of the weights as they were stay in host memory until rf_lora_unmerge(). Blocking.
 * @return RF_ERROR_INVALID_ARGUMENT for an adapter that is merged already; RF_ERROR_UNSUPPORTED for
 *   a weight that another layer uses as well, such as a head that shares the embedding's table, and
 *   for one in few bits
 */
RF_API RF_MUST_USE rf_result rf_lora_merge(rf_model *model, const char *name);
/**
 * Gives weights the values, to the bit, that they had before the first rf_lora_merge(). No adapter
 * acts afterwards: see rf_lora_set_active(). Blocking.
 */
RF_API RF_MUST_USE rf_result rf_lora_unmerge(rf_model *model);
/**
 * Writes an adapter as PEFT does: "adapter_model.safetensors" and "adapter_config.json" in a
 * directory, which is made where it does not exist. Each file appears under its name when it is
 * complete. The chief of a job writes. Collective; blocking.
 */
RF_API RF_MUST_USE rf_result rf_lora_save(rf_model *model, const char *name, const char *path);
/**
 * Attaches the adapter of such a directory, under a name, as rf_lora_attach() does. The chief of a
 * job reads. Collective; blocking.
 * @return RF_ERROR_UNSUPPORTED names the key of the configuration that asks for something that is
 *   not there; RF_ERROR_INVALID_ARGUMENT names a tensor of another shape or rank than the model and
 *   the configuration say, or one that has no place; RF_ERROR_NOT_FOUND names one that is missing,
 *   or a file; RF_ERROR_CORRUPT_DATA; RF_ERROR_IO. The model then has no such adapter.
 */
RF_API RF_MUST_USE rf_result rf_lora_load(rf_model *model, const char *name, const char *path);

#ifdef __cplusplus
}
#endif
#endif
