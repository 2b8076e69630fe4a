/* SPDX-License-Identifier: Apache-2.0 */
/**
 * @file
 * Pretrained models in the directories of the Hugging Face hub: `config.json`,
 * `generation_config.json` where there is one, and `model.safetensors` or
 * `model.safetensors.index.json` with its shards. A directory becomes a
 * functional model (model.h), which is trained, frozen, saved and exported as any other, and is
 * written back under the names and types of its files. A GGUF file stands for such a directory.
 *
 * Readers trust no byte of a file. The rules of train.h for all of its functions hold here as well.
 */
#ifndef RINGFIRE_PRETRAINED_H
#define RINGFIRE_PRETRAINED_H

#include <ringfire/common.h>
#include <ringfire/dataset.h>
#include <ringfire/gguf.h>
#include <ringfire/interchange.h>
#include <ringfire/model.h>
#include <ringfire/strategy.h>
#include <ringfire/train.h>

#ifdef __cplusplus
extern "C" {
#endif

/** A directory, and the model that was made of it. */
typedef struct rf_pretrained rf_pretrained;
/** The `config.json` of a directory that is being opened. */
typedef struct rf_pretrained_config rf_pretrained_config;

/** How a tensor of the files holds what a variable has. */
typedef enum rf_pretrained_layout {
    RF_PRETRAINED_SAME, /**< in the same order; dimensions may be joined: [d, h * k] for [d, h, k];
                             and ones may go before them */
    /** [out, in], as PyTorch's Linear, of a variable [in, out]; and [out, in, h, w], as its Conv2d,
     * of a kernel [h, w, in, out]. A tensor [c * m, 1, h, w] is a depthwise kernel [h, w, c, m] */
    RF_PRETRAINED_TRANSPOSED,
} rf_pretrained_layout;
/**
 * A row of the table that says which tensor of the files is which variable of the model. "{}" in
 * both names stands for a number, such as that of a layer; there are at most 4.
 *
 * Where several rows have one variable, the first whose tensor is there is read, and all are
 * written.
 * So a head that shares the embedding's table has a row of its own for files that hold it twice.
 */
typedef struct rf_pretrained_tensor {
    const char *tensor; /**< "h.{}.mlp.c_fc.weight" */
    const char
        *variable; /**< "h/{}/mlp/c_fc/kernel"; NULL: none, such as a constant of old files */
    rf_pretrained_layout layout;
    /**
     * Where a tensor holds several variables one after the other along its outputs, the place of
     * this one, from 1 on. Outputs are the last dimension, or the first one of
     * ::RF_PRETRAINED_TRANSPOSED. 0: the variable is all of it
     */
    uint32_t part;
    /** A model without the variable is fine: the tensor, of another head, is kept as it is. */
    bool optional;
    /** It belongs to a head, above the part whose names may have the architecture's prefix. With
     * rf_pretrained_params::num_classes its variable begins anew where the tensor is not there, or
     * is of another size. */
    bool head;
    uint64_t reserved[4]; /**< zero: room for later fields */
} rf_pretrained_tensor;
/** The outputs of a model that a function makes for rf_pretrained_open(). */
typedef struct rf_pretrained_outputs {
    uint32_t count; /**< at most RF_MAX_COMPONENTS */
    rf_symbol symbol[RF_MAX_COMPONENTS];
    const char *name[RF_MAX_COMPONENTS]; /**< as those of rf_model_builder_finish() */
    uint64_t reserved[4];                /**< zero: room for later fields */
} rf_pretrained_outputs;
/**
 * Makes the layers that a configuration describes, and says which symbols are the outputs. A key of
 * the configuration that it does not read is an error of rf_pretrained_open(). The values of all
 * variables come from the files, whatever initializers say.
 * @return a failure; that of the configuration (rf_pretrained_config_status()) or of the builder
 *   need not be returned
 */
typedef rf_result (*rf_pretrained_build_fn)(rf_pretrained_config *config, rf_model_builder *builder,
                                            rf_pretrained_outputs *outputs, void *user);
/**
 * An architecture: what `model_type` in `config.json` names, or `architecture` where there is none.
 * All but `user` is required.
 */
typedef struct rf_pretrained_architecture {
    const char *model_type; /**< "gpt2" */
    /**
     * The names of tensors may begin with this or not, as with "transformer.": rows have the names
     * without it. NULL: nothing
     */
    const char *prefix;
    const rf_pretrained_tensor *tensors;
    rf_pretrained_build_fn build;
    void *user; /**< of `build` */
    /** Keys of the configuration that change nothing in the model. */
    const char *const *ignored_keys;
    uint32_t num_tensors;
    uint32_t num_ignored_keys;
    uint64_t reserved[8]; /**< zero: room for later fields */
} rf_pretrained_architecture;

/** Options of rf_pretrained_open(). NULL or zeroed: none. */
typedef struct rf_pretrained_params {
    /** Architectures of the caller, which go before those of the library. */
    const rf_pretrained_architecture *architectures;
    /** Keys of `config.json`, or of a GGUF file, that may be there although nothing here knows
     * them. */
    const char *const *ignored_keys;
    uint32_t num_architectures;
    uint32_t num_ignored_keys;
    /**
     * Steps of the sequences that the model is built for, which exported files state. Others may be
     * trained and predicted. 0: 128, or as many as the model takes
     */
    uint32_t sequence_length;
    /**
     * Height and width of the images that a model of images is built for, which exported files
     * state. Others may be trained and predicted, but not by a model with learned positions.
     * 0: what `config.json` says, or 224
     */
    uint32_t image_size;
    /** In training batch normalization takes mean and variance of the whole batch, not of each
     * replica's part: rf_batch_norm_params::synchronized */
    bool synchronized_batch_norm;
    /**
     * The model is a classifier of so many classes, whatever `config.json` says. Its head begins
     * anew where the files have none of this size: rf_pretrained_new_variable(). 0: as
     * `config.json` says
     */
    uint32_t num_classes;
    /** Names of these classes, for `config.json` when the model is saved. NULL: "LABEL_0", ... */
    const char *const *class_names;
    /**
     * Rows hold several sequences, as rf_dataset_pack() makes them: decoders take their positions,
     * i32 "position_ids" [n, steps], as a second input, and tokens attend to their own sequence
     * alone. Other architectures refuse it
     */
    bool packed;
    /**
     * Weights in 8 or 4 bits, which are not trained (rf_strategy_set_quantization()): each is
     * quantized while it is read, and no device ever holds it in more. NULL: as the strategy says
     */
    const rf_quantize_params *quantize;
    uint64_t reserved[5]; /**< zero: room for later fields */
} rf_pretrained_params;
/**
 * Opens a directory: makes its model on the strategy, and reads the weights into it, in pieces of a
 * few megabytes. F32, F16 and BF16 tensors become the f32 values that variables have; layers
 * compute in what rf_strategy_set_dtype_policy() said before. The chief of a job reads.
 * Collective; blocking.
 *
 * `model_type` and `architectures` of `config.json` decide what the model is; where there is no
 * `model_type`, `architecture` does, which names a network of torchvision or timm. Text models take
 * i32 "input_ids" [n, steps]; encoders also i32 "attention_mask", where 0 is padding, and BERT
 * "token_type_ids". Language models give "logits" [n, steps, vocabulary], classifiers "logits" [n,
 * classes], and models without a head "last_hidden_state" [n, steps, width], BERT also
 * "pooler_output" [n, width]. Models of images take f32 "pixel_values" [n, height, width, channels]
 * and give the same "logits" or, without a head, ViT's sequence of patches, or ResNet's image
 * [n, height / 32, width / 32, channels], and "pooler_output".
 *
 * `path` may also be a GGUF file, or a directory with one GGUF file and no `config.json`. Its
 * values become the configuration, and its tensors those of the hub, without llama.cpp's order of
 * rows. Architectures "llama" (also Mistral's), "qwen2", "qwen3" and "gpt2" are known, and the
 * types of rf_gguf_type, which become f32; rf_pretrained_params::quantize makes few bits of these.
 * The tokenizer is rf_tokenizer_load()'s (text.h) to read; both must be known here. A value of the
 * architecture or of the tokenizer, or a tensor, that is not known is an error that names it.
 *
 * @param params may be NULL; copied but for architectures, which are borrowed as long as the result
 *   lives
 * With rf_pretrained_params::num_classes a directory of any class becomes a classifier, and
 * rf_pretrained_save() writes its head and what `config.json` says of it.
 *
 * @return RF_ERROR_NOT_FOUND and RF_ERROR_IO name the file, or a tensor that is not in the files.
 *   RF_ERROR_UNSUPPORTED names the key of `config.json` that asks for something that the
 *   architecture does not have, or the tensor that has no place in the model, or whose type cannot
 *   be read. RF_ERROR_INVALID_ARGUMENT names a tensor of another shape than the configuration says.
 *   RF_ERROR_CORRUPT_DATA.
 */
RF_API RF_MUST_USE rf_result rf_pretrained_open(rf_strategy *strategy, const char *path,
                                                const rf_pretrained_params *params,
                                                rf_pretrained **out);
/**
 * How images become what a model of images was trained with, as `preprocessor_config.json` says:
 * sets `mean` and `deviation` of its channels for rf_dataset_map_augment(), whose images are in [0,
 * 1]. Where it is not there, or does not ask for it, they are 0 and 1. The chief of a job reads.
 * Collective; blocking.
 * @return RF_ERROR_UNSUPPORTED names a key whose value cannot be used; RF_ERROR_CORRUPT_DATA;
 *   RF_ERROR_IO
 */
RF_API RF_MUST_USE rf_result rf_pretrained_image_scale(const rf_pretrained *pretrained,
                                                       rf_augment_params *params);
/**
 * Name of a variable that begins anew instead of with values of the files: those of a head for
 * rf_pretrained_params::num_classes. Borrowed; NULL when there is none of this number.
 */
RF_API const char *rf_pretrained_new_variable(const rf_pretrained *pretrained, uint32_t index);
/**
 * Says what became of the variables of the model and of the tensors of the files, the same on all
 * workers. Variables that begin anew are RF_WEIGHT_MISSING, or RF_WEIGHT_MISMATCHED where the files
 * have a head of another size. Tensors that no variable got are RF_WEIGHT_LEFT_OVER: those of a
 * head that the model lacks, constants of old files, and second copies of a table.
 * @return borrowed as long as `pretrained` lives; NULL for NULL
 */
RF_API const rf_weight_report *rf_pretrained_weight_report(const rf_pretrained *pretrained);
/** The model, owned by what was opened. NULL for NULL. */
RF_API rf_model *rf_pretrained_model(const rf_pretrained *pretrained);
/**
 * How `generation_config.json` says that the model goes on with texts: `do_sample`, `temperature`,
 * `top_k`, `top_p`, `min_p`, `repetition_penalty`, `max_new_tokens`, and the stop tokens of
 * `eos_token_id`, which may also be in `config.json`. Without `do_sample` the choice is greedy, and
 * with it `top_k` is 50 where the file has none, as in Hugging Face's library.
 * @param params only these fields change: `sampling`, `stop_tokens` and `num_stop_tokens`, and
 *   `max_new_tokens` where the file has it. The tokens are borrowed from the model.
 * @return RF_ERROR_UNSUPPORTED names a key that asks for something else, such as beams, and
 *   RF_ERROR_CORRUPT_DATA a file that is damaged. The model is usable all the same.
 */
RF_API RF_MUST_USE rf_result rf_pretrained_generate_params(const rf_pretrained *pretrained,
                                                           rf_generate_params *params);
/**
 * Writes a directory like the one that was opened: the same files of tensors, with the model's
 * weights in the names, types and shapes that they had, and copies of the configuration and of the
 * tokenizer's files. Weights that were not trained have the bytes that they had, those in few bits
 * too; one in few bits that was assigned has what its bits say. A directory that
 * does not exist is made; it may be the one that was opened. Each file appears under its name when
 * it is complete. The chief of a job writes. Collective; blocking.
 *
 * A GGUF file becomes a directory with `config.json`, `model.safetensors`, `tokenizer.json` and
 * `tokenizer_config.json`; numbers that were stored in blocks become F32.
 */
RF_API RF_MUST_USE rf_result rf_pretrained_save(rf_pretrained *pretrained, const char *path);
/** How a model becomes a GGUF file. NULL or zeroed: as F32. */
typedef struct rf_pretrained_gguf_params {
    /** The type of matrices: RF_GGUF_F32, RF_GGUF_F16, RF_GGUF_BF16 or RF_GGUF_Q8_0. Vectors and
     * positions are F32, and F16 is taken where rows are no multiple of Q8_0's 32 numbers. */
    rf_gguf_type type;
    const char *name; /**< "general.name". NULL: the directory's */
    /**
     * llama.cpp's name for the rules that cut text into words ("tokenizer.ggml.pre"). NULL: that of
     * the rules of GPT-2, Llama 3, Qwen2 or SmolLM, one of which `tokenizer.json` must have then
     */
    const char *pre_tokenizer;
    uint64_t reserved[8]; /**< zero: room for later fields */
} rf_pretrained_gguf_params;
/**
 * Writes the model with its tokenizer and settings as one GGUF file, for llama.cpp and Ollama.
 * `config.json`, `tokenizer.json`, `tokenizer_config.json` and `chat_template.jinja` are those of
 * the directory, or of the GGUF file, that was opened. It takes the model types "llama", "mistral"
 * (without its window, which llama.cpp does not have), "qwen2", "qwen3" and "gpt2", and tokenizers
 * of type BPE. The chief of a job writes. Collective; blocking.
 * @param params may be NULL
 * @return RF_ERROR_UNSUPPORTED names what GGUF files or llama.cpp do not have: a model type, a key
 *   of `config.json`, a tensor, a tokenizer; RF_ERROR_INVALID_ARGUMENT, RF_ERROR_NOT_FOUND and
 *   RF_ERROR_IO as rf_pretrained_open().
 */
RF_API RF_MUST_USE rf_result rf_pretrained_save_gguf(rf_pretrained *pretrained, const char *path,
                                                     const rf_pretrained_gguf_params *params);
/**
 * As rf_pretrained_save_gguf(), of a directory that is not opened. Not collective; any thread may
 * call it.
 * @param params may be NULL
 */
RF_API RF_MUST_USE rf_result rf_gguf_from_directory(const char *directory, const char *path,
                                                    const rf_pretrained_gguf_params *params);
/**
 * Writes an adapter, a directory in PEFT's format (`adapter_config.json`,
 * `adapter_model.safetensors`), as a GGUF file for llama.cpp's "--lora" and Ollama's ADAPTER.
 * `base` is the directory of the model that it was trained on, of which `config.json` is read.
 * Otherwise as rf_gguf_from_directory(); pre_tokenizer does not count.
 * @param params may be NULL
 * @return RF_ERROR_UNSUPPORTED also for DoRA, and for alphas that differ by matrix.
 */
RF_API RF_MUST_USE rf_result rf_gguf_from_adapter(const char *directory, const char *base,
                                                  const char *path,
                                                  const rf_pretrained_gguf_params *params);
/** Destroys a model that was opened, and closes its files. */
RF_API void rf_pretrained_destroy(rf_pretrained **pretrained);

/*
 * ---- the configuration, for functions of architectures ----
 * Keys that lie within objects are written "rope_scaling.factor". A key with null is as one that is
 * not there. The first failure sticks: later calls give their fallback, and rf_pretrained_open()
 * returns it. Reading a key says that the builder knows it.
 */
/** Stands for a fallback where a key has to be there. */
#define RF_PRETRAINED_REQUIRED (-1)
/** A size, which is at least 1; 1 after a failure. */
RF_API int32_t rf_pretrained_config_size(rf_pretrained_config *config, const char *key,
                                         int32_t fallback);
/** The number of layers: a size of which the files' number of tensors is the most. */
RF_API int32_t rf_pretrained_config_layers(rf_pretrained_config *config, const char *key,
                                           int32_t fallback);
/** A finite number; `fallback` after a failure. ::RF_PRETRAINED_REQUIRED: it has to be there. */
RF_API double rf_pretrained_config_number(rf_pretrained_config *config, const char *key,
                                          double fallback);
/** True or false; `fallback` after a failure. */
RF_API bool rf_pretrained_config_flag(rf_pretrained_config *config, const char *key, bool fallback);
/** Which of `names` a text is; `fallback` where the key is not there, and after a failure. */
RF_API uint32_t rf_pretrained_config_choice(rf_pretrained_config *config, const char *key,
                                            const char *const *names, uint32_t num_names,
                                            uint32_t fallback);
/** An activation by its name in Hugging Face's files, such as "gelu_new" or "silu". */
RF_API rf_activation rf_pretrained_config_activation(rf_pretrained_config *config, const char *key,
                                                     rf_activation fallback);
/** Whether a key is there, and not null. */
RF_API bool rf_pretrained_config_has(rf_pretrained_config *config, const char *key);
/** Fails with RF_ERROR_UNSUPPORTED for a key; `why` follows its name and value in the message. */
RF_API void rf_pretrained_config_refuse(rf_pretrained_config *config, const char *key,
                                        const char *why);
/** The first failure. */
RF_API rf_result rf_pretrained_config_status(const rf_pretrained_config *config);
/**
 * The number of classes of a classifier: rf_pretrained_params::num_classes, or what `config.json`
 * says under `key`, which is a number, or has so many members, as "id2label" has.
 */
RF_API int32_t rf_pretrained_config_classes(rf_pretrained_config *config, const char *key,
                                            int32_t fallback);
/** Height and width of the images to build for: those of rf_pretrained_params, or `fallback`. */
RF_API int32_t rf_pretrained_config_image_size(rf_pretrained_config *config, int32_t fallback);
/** Steps of the sequences to build for: those of rf_pretrained_params, at most `longest`. */
RF_API int32_t rf_pretrained_config_steps(rf_pretrained_config *config, int32_t longest);
/** Whether rf_pretrained_params::packed is set. An architecture that does not ask refuses it. */
RF_API bool rf_pretrained_config_packed(rf_pretrained_config *config);

#ifdef __cplusplus
}
#endif
#endif
