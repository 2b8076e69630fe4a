/* SPDX-License-Identifier: Apache-2.0 */
/**
 * @file
 * Checkpoints: everything that a run needs to continue, in one file, independent of the strategy
 * that saved it.
 *
 * A checkpoint is a set of named entries: tensors ("model/conv2d/kernel",
 * "optimizer/m/conv2d/kernel") and small values ("optimizer/iterations", "train/iterator").
 * docs/reference/checkpoint-format.md describes the bytes.
 *
 * The following holds for the whole header unless a comment states otherwise.
 *  - Files are complete or absent: they are written under a temporary name and renamed. Directories
 *    that are missing are not created.
 *  - Readers trust no byte of a file. Damage is RF_ERROR_CORRUPT_DATA; a missing file is
 *    RF_ERROR_NOT_FOUND, one that cannot be read or written RF_ERROR_IO, and one of a later version
 *    of the format RF_ERROR_UNSUPPORTED. Messages name the file.
 *  - Functions that read or write files are blocking.
 *  - Functions that save or restore checkpoints and models are collective
 *    (rf_strategy_create_multi_worker()): all workers of a job call them.
 */
#ifndef RINGFIRE_CHECKPOINT_H
#define RINGFIRE_CHECKPOINT_H

#include <ringfire/common.h>
#include <ringfire/dataset.h>
#include <ringfire/train.h>

#ifdef __cplusplus
extern "C" {
#endif

/** A checkpoint or model file that is open for reading. */
typedef struct rf_archive rf_archive;
/** The set of objects that a checkpoint saves and restores. */
typedef struct rf_checkpoint rf_checkpoint;
/** A directory of numbered checkpoints, for one training at a time. */
typedef struct rf_checkpoint_manager rf_checkpoint_manager;

/** How files are saved. NULL or zeroed: at once, compressed, in one file. */
typedef struct rf_save_params {
    /**
     * Return at once: a thread copies variables and optimizer state out of the devices, compresses
     * and writes.
     * The state at the call is saved: the next update waits for the copy, which is made while the
     * step of that update computes. Device memory that cannot be mapped is copied before the call
     * returns. The memory of the copy is kept for the next save until the checkpoint is destroyed.
     * The next save, restore or rf_checkpoint_wait() reports a failure.
     */
    bool async;
    int32_t level; /**< of zstd; 0: 1 */
    bool no_compression;
    uint32_t threads; /**< 0: the number of cores, at most 8 */
    /**
     * For checkpoints and models of a job of several workers: every worker writes what it owns,
     * into a file of its own beside `path`, "<path>.part-...", and the chief writes `path`, which
     * makes them one checkpoint.
     * All workers must be given the same path in a directory that they share. In a job of one
     * worker it makes no difference.
     */
    bool sharded;
    uint64_t reserved[8]; /**< zero: room for later fields */
} rf_save_params;

/* ---- a file, entry by entry ---- */

/** A tensor to write. */
typedef struct rf_archive_tensor {
    /**
     * "model/conv2d/kernel": UTF-8, with components that are neither empty, "." nor "..", without
     * control characters.
     */
    const char *name;
    rf_dtype dtype;
    rf_shape shape;
    const void *data;     /**< borrowed; dense */
    uint64_t reserved[4]; /**< zero: room for later fields */
} rf_archive_tensor;

/**
 * Writes a file of tensors, in any order, that the functions below read. Thread-safe; not
 * collective.
 * `params` may be NULL, and `params->async` is ignored. On failure nothing is left behind, and an
 * older file of that name is kept.
 * @return RF_ERROR_IO (disk full, ...); RF_ERROR_INVALID_ARGUMENT names the tensor.
 */
RF_API RF_MUST_USE rf_result rf_archive_save(const char *path, const rf_archive_tensor *tensors,
                                             uint64_t num_tensors, const rf_save_params *params);

/** A tensor of an archive. */
typedef struct rf_archive_entry {
    const char *name; /**< borrowed from the archive */
    rf_dtype dtype;
    rf_shape shape;
    uint64_t bytes;        /**< uncompressed */
    uint64_t stored_bytes; /**< in the file */
    /**
     * The type, as its file says, of a tensor that only other programs can read, such as "F64" or
     * "F32 of 7 dimensions". `dtype` is RF_DTYPE_INVALID then, and more than RF_MAX_RANK dimensions
     * are not in `shape`. Borrowed; NULL for all others.
     */
    const char *unsupported_type;
    uint64_t reserved[3]; /**< zero until a later version has more to say */
} rf_archive_entry;

/**
 * Opens a checkpoint or model file and checks its header. Tensors are read, and their checksums
 * verified, on demand.
 * A checkpoint that was saved in part files (rf_save_params::sharded) is opened by its main file
 * and looks like any other. The part files must be beside it, all of the same save. They stay open:
 * one more file for each worker that saved.
 * @return RF_ERROR_CORRUPT_DATA states what is wrong with which file.
 */
RF_API RF_MUST_USE rf_result rf_archive_open(const char *path, rf_archive **out);
/** Closes the files. Names of entries become invalid. */
RF_API void rf_archive_close(rf_archive **archive);
/**
 * The kind of the file: "checkpoint", "model" (rf_model_save()), "weights"
 * (rf_model_save_weights()), "inference" (rf_model_export()), "tensors" (rf_archive_save()), or
 * "part", one of the files beside a checkpoint that several workers wrote. Thread-safe.
 * @return a text borrowed from the archive; NULL when `archive` is NULL
 */
RF_API const char *rf_archive_type(const rf_archive *archive);
/** Number of tensors. */
RF_API uint64_t rf_archive_num_tensors(const rf_archive *archive);
/** One of the tensors, in the order of their names. Thread-safe on one archive. */
RF_API RF_MUST_USE rf_result rf_archive_entry_at(const rf_archive *archive, uint64_t index,
                                                 rf_archive_entry *out);
/**
 * The tensor of that name. Thread-safe on one archive.
 * @return RF_ERROR_NOT_FOUND when there is none.
 */
RF_API RF_MUST_USE rf_result rf_archive_find(const rf_archive *archive, const char *name,
                                             rf_archive_entry *out);
/**
 * Reads one tensor without reading the others. `size` must be entry.bytes. Thread-safe on one
 * archive.
 * @return RF_ERROR_NOT_FOUND, RF_ERROR_INVALID_ARGUMENT for another size, RF_ERROR_CORRUPT_DATA.
 */
RF_API RF_MUST_USE rf_result rf_archive_read(const rf_archive *archive, const char *name,
                                             void *data, uint64_t size);
/**
 * Reads `size` bytes of a tensor, beginning at byte `offset`, in memory that does not depend on the
 * tensor's size: for reading large tensors in ranges. Thread-safe on one archive.
 * @return RF_ERROR_INVALID_ARGUMENT when the tensor has fewer bytes.
 */
RF_API RF_MUST_USE rf_result rf_archive_read_range(const rf_archive *archive, const char *name,
                                                   uint64_t offset, void *data, uint64_t size);
/** Number of small values. */
RF_API uint64_t rf_archive_num_values(const rf_archive *archive);
/**
 * Name of a small value, by index, in the order of the names. Owned by the archive; NULL when out
 * of range.
 */
RF_API const char *rf_archive_value_name(const rf_archive *archive, uint64_t index);
/**
 * A readable form of a small value, cut to `size`: texts and numbers in full, the first bytes and a
 * checksum of long byte strings.
 */
RF_API RF_MUST_USE rf_result rf_archive_value_text(const rf_archive *archive, uint64_t index,
                                                   char *text, size_t size);
/** Number of part files beside the main file; 0 when there is only one file. */
RF_API uint64_t rf_archive_num_parts(const rf_archive *archive);
/**
 * Name of a part file, without its directory: for copying or counting them. Owned by the archive;
 * NULL when out of range.
 */
RF_API const char *rf_archive_part_name(const rf_archive *archive, uint64_t index);
/** Reads every byte and verifies every checksum. */
RF_API RF_MUST_USE rf_result rf_archive_verify(const rf_archive *archive);

/* ---- what belongs to a run ---- */

/**
 * Creates an empty set of things to save, all of one strategy.
 * Objects that are added must outlive the checkpoint: saving and restoring fail when a model, an
 * optimizer, a metric, a function or an iterator of it has been destroyed. Names become the first
 * parts of the entries' names: they must differ, and contain no "/".
 */
RF_API RF_MUST_USE rf_result rf_checkpoint_create(rf_strategy *strategy, rf_checkpoint **out);
/**
 * Waits for a save in flight. A sharded one is completed together with the other workers: all of
 * them call this.
 */
RF_API void rf_checkpoint_destroy(rf_checkpoint **checkpoint);
/** Adds the variables of a model, which must be built when saving and restoring. */
RF_API RF_MUST_USE rf_result rf_checkpoint_add_model(rf_checkpoint *checkpoint, const char *name,
                                                     rf_model *model);
/**
 * Adds an optimizer. Its steps, slots ("optimizer/m/...") and learning rate or schedule are
 * restored.
 * An optimizer of another kind than the saved one is refused, and so is a file without slots for an
 * optimizer that has slots and has made steps. Other settings (betas, momentum, clipping, weight
 * decay) stay as the program made them; differences are listed in the report and logged as a
 * warning.
 */
RF_API RF_MUST_USE rf_result rf_checkpoint_add_optimizer(rf_checkpoint *checkpoint,
                                                         const char *name, rf_optimizer *optimizer);
/** Adds what a metric has accumulated. */
RF_API RF_MUST_USE rf_result rf_checkpoint_add_metric(rf_checkpoint *checkpoint, const char *name,
                                                      rf_metric *metric);
/** Adds one variable. */
RF_API RF_MUST_USE rf_result rf_checkpoint_add_variable(rf_checkpoint *checkpoint, const char *name,
                                                        rf_variable *variable);
/** Adds a training function: its number of steps, on which dropout depends. */
RF_API RF_MUST_USE rf_result rf_checkpoint_add_function(rf_checkpoint *checkpoint, const char *name,
                                                        rf_function *function);
/**
 * Adds the place in a pass over the data.
 * `*iterator` is NULL, in which case nothing is saved, or an iterator over `dataset`. Restoring
 * replaces it by an iterator at the saved place. The variable that `iterator` points to is
 * borrowed; of `dataset` a reference is kept.
 */
RF_API RF_MUST_USE rf_result rf_checkpoint_add_iterator(rf_checkpoint *checkpoint, const char *name,
                                                        rf_iterator **iterator,
                                                        const rf_dataset *dataset);
/** Adds a number of the program, such as an epoch or a step. `counter` is borrowed. */
RF_API RF_MUST_USE rf_result rf_checkpoint_add_counter(rf_checkpoint *checkpoint, const char *name,
                                                       uint64_t *counter);

/**
 * Writes `path` (".rfck" is customary). On several workers all call it; together they write one
 * checkpoint. Blocking unless `async`.
 * With `sharded` the checkpoint exists once all part files are on the disk, and the main file after
 * them. A blocking save returns then; an asynchronous one ends in the next save, restore,
 * rf_checkpoint_wait() or rf_checkpoint_destroy(), which all workers call. When one worker fails,
 * all fail, the part files are removed, and what was saved there before is kept.
 * @return RF_ERROR_INVALID_ARGUMENT when the chief does not find in its directory what another
 *   worker has written.
 */
RF_API RF_MUST_USE rf_result rf_checkpoint_save(rf_checkpoint *checkpoint, const char *path,
                                                const rf_save_params *params);
/** Waits for an asynchronous save and returns its outcome, the same on all workers. Collective. */
RF_API RF_MUST_USE rf_result rf_checkpoint_wait(rf_checkpoint *checkpoint);

/** How a checkpoint is restored. NULL or zeroed: it must fit exactly. */
typedef struct rf_restore_params {
    /**
     * Restore what fits. Otherwise anything missing, unexpected or of another shape or kind is an
     * error that lists it, and nothing is changed.
     */
    bool partial;
    /**
     * NULL, or receives a text with a line for each entry that was missing, unexpected, of another
     * shape or kind, or that differs without being restored. The caller frees it with
     * rf_string_free().
     */
    char **report;
    uint64_t reserved[4]; /**< zero: room for later fields */
} rf_restore_params;
/**
 * Sets the objects of a checkpoint from a file, whichever strategy saved it: all of them or, on
 * failure, none. `params` may be NULL. Collective.
 * @return RF_ERROR_INVALID_ARGUMENT lists what does not fit.
 */
RF_API RF_MUST_USE rf_result rf_checkpoint_restore(rf_checkpoint *checkpoint, const char *path,
                                                   const rf_restore_params *params);

/* ---- a directory of checkpoints ---- */

/** Where a manager keeps its checkpoints. `directory` is required. */
typedef struct rf_checkpoint_manager_params {
    const char *directory; /**< created where it does not exist */
    /**
     * File name without number and suffix, e.g. "ckpt", or with a place for the number:
     * "ckpt_{epoch}". NULL: "ckpt".
     */
    const char *prefix;
    /**
     * How many of the newest files are kept. 0: 5. 1: 2, so that another one is left if the newest
     * is damaged.
     * While one is written in the background there is one more, until its outcome is known (the
     * next save, restore or wait).
     */
    uint32_t max_to_keep;
    /** In addition, keep one file for each period of this many hours for ever. 0: none. */
    double keep_every_hours;
    rf_save_params save;
    uint64_t reserved[4]; /**< zero: room for later fields */
} rf_checkpoint_manager_params;
/**
 * Opens the directory for one training, which alone writes there. On several workers the chief's
 * manager does.
 * While the manager exists, other processes are refused managers of the same directory and prefix
 * (RF_ERROR_INVALID_ARGUMENT, which names the process, its host and since when). A holder that is
 * about to end is waited for, five seconds at most. The lock belongs to the kernel: it ends with
 * the process, even a killed one. Managers of other prefixes, and several managers of one process
 * that take turns, can share a directory. On a file system without locks, which a warning names,
 * nobody is refused. Reading needs no manager: use rf_checkpoint_latest() and
 * rf_checkpoint_restore() to evaluate while another process trains. Files that killed saves left
 * behind are removed. Collective; blocking.
 */
RF_API RF_MUST_USE rf_result
rf_checkpoint_manager_create(rf_checkpoint *checkpoint, const rf_checkpoint_manager_params *params,
                             rf_checkpoint_manager **out);
/**
 * Ends the management of the directory and releases its lock.
 * Not blocking: while an asynchronous save of the manager runs, the lock is held until that save
 * has ended in the next save, restore, rf_checkpoint_wait() or rf_checkpoint_destroy(); old
 * checkpoints are removed then as well.
 */
RF_API void rf_checkpoint_manager_destroy(rf_checkpoint_manager **manager);
/**
 * Saves under `number` (epoch or step) and removes files that are not to be kept, but never the one
 * just written. Collective.
 * The highest number is the newest. A number below that of a complete file in the directory is
 * refused (RF_ERROR_INVALID_ARGUMENT), because restoring would take that other file: a training
 * that starts from scratch needs another directory or prefix.
 * A manager that has restored nothing does not save where all files are damaged
 * (RF_ERROR_CORRUPT_DATA): it may still be possible to rescue them.
 */
RF_API RF_MUST_USE rf_result rf_checkpoint_manager_save(rf_checkpoint_manager *manager,
                                                        uint64_t number);
/**
 * Restores the newest complete checkpoint. `number` receives its number and may be NULL; `params`
 * may be NULL. Collective.
 * Damaged files are skipped with a warning.
 * @return RF_ERROR_NOT_FOUND when there is no checkpoint.
 * @return RF_ERROR_CORRUPT_DATA when all are damaged (in a copy without its part files, say), with
 *   the newest file and what is wrong with it. Nothing is removed then, and saving is refused until
 *   the files are moved away.
 * @return RF_ERROR_IO or RF_ERROR_UNSUPPORTED when a file cannot be read for another reason (no
 *   permission; a later version of the format). Nothing older is restored in its place.
 */
RF_API RF_MUST_USE rf_result rf_checkpoint_manager_restore(rf_checkpoint_manager *manager,
                                                           const rf_restore_params *params,
                                                           uint64_t *number);
/**
 * Finds the newest complete checkpoint of a directory, by its number, and skips the files that
 * rf_checkpoint_manager_restore() skips. Not collective. Thread-safe.
 * @param[out] path owned by the caller, who frees it with rf_string_free().
 * @return as rf_checkpoint_manager_restore().
 */
RF_API RF_MUST_USE rf_result rf_checkpoint_latest(const char *directory, const char *prefix,
                                                  char **path);

/* ---- with fit ---- */

/** Where and when rf_callback_backup_and_restore() saves. `directory` is required. */
typedef struct rf_backup_params {
    const char *directory; /**< created where it does not exist; for one training at a time */
    /**
     * 0: after every epoch. n: after every n batches (at the end of a group of
     * steps_per_execution).
     */
    uint64_t save_every_batches;
    /**
     * Keep the backup when training has ended. Otherwise it is removed, so that the next fit starts
     * from scratch.
     */
    bool keep;
    rf_save_params save;
    uint64_t reserved[4]; /**< zero: room for later fields */
} rf_backup_params;
/**
 * Creates a callback by which an interrupted fit continues where it was: start the same program
 * again.
 * Weights, optimizer, metrics, place in the data, dropout, learning rate, early stopping and the
 * best value of model checkpoints are restored from the latest backup. With the same devices the
 * numbers are bit-identical to those without the interruption. On another number of replicas or
 * workers the epoch continues with the examples that it has not seen, also where the batch size
 * depends on that number.
 * When a stop is agreed (rf_strategy_request_stop(), say from a handler of SIGTERM) a backup is
 * made at once and fit returns: a program should then exit with ::RF_EXIT_RESTARTABLE.
 * Files are called "backup-<number>.rfck".
 */
RF_API RF_MUST_USE rf_result rf_callback_backup_and_restore(const rf_backup_params *params,
                                                            rf_callback **out);

/** Options of rf_callback_model_checkpoint(). `path` is required. */
typedef struct rf_model_checkpoint_params {
    /**
     * With places: {epoch} (from 1), {epoch:03d}, values by name as in {val_loss:.2f}. {{ and }}
     * are braces, and so are in directories those that hold no name, as in "run{1}". ".rfck" is
     * appended where it is missing. Directories are created. E.g. "checkpoints/ckpt_{epoch}".
     */
    const char *path;
    const char *monitor; /**< for save_best_only; NULL: "val_loss" */
    bool maximize;       /**< larger values of `monitor` are better */
    bool save_best_only; /**< save only when the monitored value is better than all saved before */
    bool save_weights_only; /**< rf_model_save_weights() instead of rf_model_save() */
    rf_save_params save;    /**< without `async` */
    /**
     * For save_best_only: what the first value that is saved has to be better than, e.g. that of a
     * file of an earlier program. Read when the callback is created. NULL: any value is
     */
    const double *initial_value_threshold;
    uint64_t reserved[3]; /**< zero: room for later fields */
} rf_model_checkpoint_params;
/**
 * Creates a callback that saves the model after every epoch.
 * rf_model_fit() fails before it trains when there is no value of such a name or of `monitor`, or
 * when no file can be written there.
 * The best value is the callback's, through as many calls of rf_model_fit() as there are with it;
 * a fit that continues from a backup continues with that of the backup.
 * While fit runs, other processes are refused the same path, as with
 * rf_checkpoint_manager_create(), except where directories of the path contain places.
 */
RF_API RF_MUST_USE rf_result rf_callback_model_checkpoint(const rf_model_checkpoint_params *params,
                                                          rf_callback **out);

/* ---- models ---- */

/**
 * Saves only the weights, as "model/<variable>". `params` may be NULL; `async` is not supported.
 * Collective.
 */
RF_API RF_MUST_USE rf_result rf_model_save_weights(rf_model *model, const char *path,
                                                   const rf_save_params *params);
/**
 * Sets the weights of a built model from any file that contains them as "model/<variable>": all or
 * none. Collective.
 */
RF_API RF_MUST_USE rf_result rf_model_load_weights(rf_model *model, const char *path);
/**
 * Saves a sequential model that is built: its layers and weights, and where it is compiled its
 * optimizer, loss and metrics. Collective.
 * @return RF_ERROR_UNSUPPORTED when a layer (lambda) or the model itself is code. Save its weights
 *   (rf_model_save_weights()) to continue training, or export it (rf_model_export()) to use it.
 */
RF_API RF_MUST_USE rf_result rf_model_save(rf_model *model, const char *path,
                                           const rf_save_params *params);
/**
 * Creates a saved model on any strategy. It evaluates as the saved one did, and training can
 * continue. A compiled model owns its optimizer. Collective.
 */
RF_API RF_MUST_USE rf_result rf_model_load(rf_strategy *strategy, const char *path, rf_model **out);
/** The optimizer that the model was compiled with, or NULL. Borrowed. */
RF_API rf_optimizer *rf_model_optimizer(const rf_model *model);

/* ---- inference ---- */

/** A model in a file, ready to run on a batch. */
typedef struct rf_inference rf_inference;

/**
 * Writes a built model for use without training: the graph of its forward pass with training off,
 * weights and constants. Collective.
 * Sequential or not: what layers and functions compute is in the graph, and their code is not
 * needed again. Variables keep the values that they have now. The model is traced once more, so its
 * function is called. Sizes that its inputs leave open stay open. `params` may be NULL; `async` is
 * not supported.
 * @return RF_ERROR_UNSUPPORTED where the forward pass updates state, or where something in it has a
 *   size that the inputs leave open; RF_ERROR_INVALID_ARGUMENT where a shape in it is fixed to one
 *   batch size.
 */
RF_API RF_MUST_USE rf_result rf_model_export(rf_model *model, const char *path,
                                             const rf_save_params *params);

/** Where an inference runs. */
typedef struct rf_inference_params {
    rf_strategy *strategy; /**< borrowed; NULL: a strategy of its own, on `device` */
    const char *device;    /**< as rf_one_device_params::device */
    uint64_t reserved[4];  /**< zero: room for later fields */
} rf_inference_params;
/** Loads what rf_model_export() or rf_model_save() wrote. `params` may be NULL. */
RF_API RF_MUST_USE rf_result rf_inference_load(const char *path, const rf_inference_params *params,
                                               rf_inference **out);
/** Destroys an inference, and its strategy where it has its own. */
RF_API void rf_inference_destroy(rf_inference **inference);
/**
 * Types and shapes of input and output, without data. Dimensions that depend on the batch, such as
 * dim[0], or that the model leaves open, are -1. Either may be NULL.
 */
RF_API void rf_inference_signature(const rf_inference *inference, rf_array *input,
                                   rf_array *output);
/**
 * Runs a batch of any size. `input` has the type and shape of the signature. Blocking.
 * An input without rows (its `data` may be NULL) gives an output without rows, without running
 * anything.
 * @param[out] output `data` is owned by the caller, who frees it with rf_array_free().
 * @return RF_ERROR_INVALID_ARGUMENT when `input` does not match the signature.
 */
RF_API RF_MUST_USE rf_result rf_inference_run(rf_inference *inference, const rf_array *input,
                                              rf_array *output);
/** Number of inputs. 0 for NULL. */
RF_API uint32_t rf_inference_num_inputs(const rf_inference *inference);
/** Number of outputs. 0 for NULL. */
RF_API uint32_t rf_inference_num_outputs(const rf_inference *inference);
/**
 * Name, type and shape of an input, as rf_inference_signature().
 * @param[out] signature may be NULL; zeroed when there is no such input
 * @return a text borrowed from the inference; NULL when there is no such input
 */
RF_API const char *rf_inference_input(const rf_inference *inference, uint32_t index,
                                      rf_array *signature);
/** The same of an output. */
RF_API const char *rf_inference_output(const rf_inference *inference, uint32_t index,
                                       rf_array *signature);
/**
 * rf_inference_run() of a model with any number of inputs and outputs. All inputs have the same
 * number of rows. Blocking.
 * @param[out] outputs `data` of each is owned by the caller, who frees it with rf_array_free(); all
 *   are zeroed after a failure.
 * @return RF_ERROR_INVALID_ARGUMENT when a number is not the model's, and as rf_inference_run().
 */
RF_API RF_MUST_USE rf_result rf_inference_run_many(rf_inference *inference, const rf_array *inputs,
                                                   uint32_t num_inputs, rf_array *outputs,
                                                   uint32_t num_outputs);

#ifdef __cplusplus
}
#endif
#endif
