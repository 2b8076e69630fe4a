/* SPDX-License-Identifier: Apache-2.0 */
/**
 * @file
 * Checkpoints: everything a run needs to go on, in one file, whatever strategy saved it.
 *
 * A checkpoint is a set of named entries: tensors ("model/conv2d/kernel",
 * "optimizer/m/conv2d/kernel") and small values
 * ("optimizer/iterations", "train/iterator"). docs/checkpoint-format.md describes the bytes. Files
 * are complete or absent: they are written under a temporary name and renamed. Readers trust
 * nothing.
 */
#ifndef RINGFIRE_CHECKPOINT_H
#define RINGFIRE_CHECKPOINT_H

#include <ringfire/common.h>
#include <ringfire/dataset.h>
#include <ringfire/train.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct rf_archive rf_archive;
typedef struct rf_checkpoint rf_checkpoint;
typedef struct rf_checkpoint_manager rf_checkpoint_manager;

typedef struct rf_save_params {
    bool async;    /**< return at once: a thread copies variables and optimizer state out of the
                      devices, compresses    and writes. What is saved is the state at the call: the
                      next    update waits for the copy,    which is made while its step computes.
                      (Device    memory    that cannot be mapped is copied    before the call returns.)
                      Memory for    the copy is    kept for the next save until the    checkpoint is
                      destroyed. The next    save, restore    or rf_checkpoint_wait() reports a failure
                    */
    int32_t level; /**< zstd's; 0: 1 */
    bool no_compression;
    uint32_t threads; /**< 0: as many as there are cores, at most 8 */
    bool sharded; /**< for checkpoints and models of a job of several workers: every worker writes
                     what it owns, into a file of its own beside `path`, "<path>.part-...", and the
                     chief writes `path`, which makes them one checkpoint. All workers must be given
                     the same path in a directory that they share. In a job of one worker it makes
                     no difference */
    uint64_t reserved[8]; /**< zero: room for later fields */
} rf_save_params;

/* ---- a file, entry by entry ---- */

typedef struct rf_archive_tensor {
    const char *name; /**< "model/conv2d/kernel": UTF-8 parts that are not empty, "." or "..",
                         without control characters */
    rf_dtype dtype;
    rf_shape shape;
    const void *data;     /**< borrowed; dense */
    uint64_t reserved[4]; /**< zero: room for later fields */
} rf_archive_tensor;

/** Writes a file of tensors, in any order, that the functions below read. Blocking, `params->async`
 * or not; NULL: defaults. On failure nothing is left behind and an older file of that name stays as
 * it is. Thread-safe.
 *  @return RF_ERROR_IO (disk full, ...), RF_ERROR_INVALID_ARGUMENT names the tensor. */
RF_API RF_MUST_USE rf_result rf_archive_save(const char *path, const rf_archive_tensor *tensors,
                                             uint64_t num_tensors, const rf_save_params *params);

typedef struct rf_archive_entry {
    const char *name; /**< borrowed from the archive */
    rf_dtype dtype;
    rf_shape shape;
    uint64_t bytes;        /**< uncompressed */
    uint64_t stored_bytes; /**< in the file */
    uint64_t reserved[4];  /**< zero until a later version has more to say */
} rf_archive_entry;

/** Opens a checkpoint or model file and checks its header; tensors are read (and their checksums
 * checked) on demand. One that was saved in parts (rf_save_params::sharded) is opened by its main
 * file and looks like any other; the parts must be beside it, all of the same save. They stay open:
 * one file more for each worker that saved.
 *  @return RF_ERROR_CORRUPT_DATA says what is wrong with which part. */
RF_API RF_MUST_USE rf_result rf_archive_open(const char *path, rf_archive **out);
RF_API void rf_archive_close(rf_archive **archive);
/** Number of tensors, and one of them. Order is that of the names. */
RF_API uint64_t rf_archive_count(const rf_archive *archive);
RF_API RF_MUST_USE rf_result rf_archive_entry_at(const rf_archive *archive, uint64_t index,
                                                 rf_archive_entry *out);
RF_API RF_MUST_USE rf_result rf_archive_find(const rf_archive *archive, const char *name,
                                             rf_archive_entry *out);
/** Reads one tensor without touching the others. `data` holds entry.bytes. Thread-safe on one
 * archive. */
RF_API RF_MUST_USE rf_result rf_archive_read(const rf_archive *archive, const char *name,
                                             void *data, uint64_t size);
/** Reads `size` bytes of a tensor from byte `offset` on, in memory that does not depend on the
 * tensor's size: to go through large ones piece by piece. Thread-safe on one archive.
 *  @return RF_ERROR_INVALID_ARGUMENT when the tensor has fewer bytes. */
RF_API RF_MUST_USE rf_result rf_archive_read_range(const rf_archive *archive, const char *name,
                                                   uint64_t offset, void *data, uint64_t size);
/** Small values: what there is, by index, in the order of their names; a text form for people, cut
 * to `size`: all of texts and numbers, the first bytes and a checksum of long byte strings. */
RF_API uint64_t rf_archive_num_values(const rf_archive *archive);
RF_API const char *rf_archive_value_name(const rf_archive *archive, uint64_t index);
RF_API RF_MUST_USE rf_result rf_archive_value_text(const rf_archive *archive, uint64_t index,
                                                   char *text, size_t size);
/** Files beside the main one that belong to it, 0 when all is in one; their names, without a
 * directory: to copy or count them. */
RF_API uint64_t rf_archive_num_parts(const rf_archive *archive);
RF_API const char *rf_archive_part_name(const rf_archive *archive, uint64_t index);
/** Reads and checks every byte. */
RF_API RF_MUST_USE rf_result rf_archive_verify(const rf_archive *archive);

/* ---- what belongs to a run ---- */

/** An empty set of things to save, of one strategy. Objects added are borrowed and must outlive the
 * checkpoint. Names are paths' first parts and must differ. */
RF_API RF_MUST_USE rf_result rf_checkpoint_create(rf_strategy *strategy, rf_checkpoint **out);
/** Waits for a save in flight. One that is sharded it completes, together with the other workers:
 * all of them call it. */
RF_API void rf_checkpoint_destroy(rf_checkpoint **checkpoint);
RF_API RF_MUST_USE rf_result rf_checkpoint_add_model(rf_checkpoint *checkpoint, const char *name,
                                                     rf_model *model);
/** Its steps, slots ("optimizer/m/...") and learning rate or schedule are restored. Another kind of
 * optimizer than the saved one is refused, as is a file without slots for one that has them and has
 * made steps. Other settings (betas, momentum, clipping, weight decay) stay as the program made
 * them; where they differ, the report and a warning say so. */
RF_API RF_MUST_USE rf_result rf_checkpoint_add_optimizer(rf_checkpoint *checkpoint,
                                                         const char *name, rf_optimizer *optimizer);
RF_API RF_MUST_USE rf_result rf_checkpoint_add_metric(rf_checkpoint *checkpoint, const char *name,
                                                      rf_metric *metric);
RF_API RF_MUST_USE rf_result rf_checkpoint_add_variable(rf_checkpoint *checkpoint, const char *name,
                                                        rf_variable *variable);
/** A training function: its count of steps, which dropout depends on. */
RF_API RF_MUST_USE rf_result rf_checkpoint_add_function(rf_checkpoint *checkpoint, const char *name,
                                                        rf_function *function);
/** The place in a pass over the data. `*iterator` may be NULL when saving (nothing is saved) and is
 * replaced by one at the saved place when restoring. */
RF_API RF_MUST_USE rf_result rf_checkpoint_add_iterator(rf_checkpoint *checkpoint, const char *name,
                                                        rf_iterator **iterator,
                                                        const rf_dataset *dataset);
/** A number of the program: epoch, step. */
RF_API RF_MUST_USE rf_result rf_checkpoint_add_counter(rf_checkpoint *checkpoint, const char *name,
                                                       uint64_t *counter);

/** Writes `path` (".rfck" is customary). On several workers all call it; together they write one
 * checkpoint. Blocking unless async. With `sharded` it is there when all parts are on the disk and
 * the main file after them: a blocking save returns then; an asynchronous one ends in the next
 * save, restore, rf_checkpoint_wait() or rf_checkpoint_destroy(), which all workers call. When one
 * of them fails, all do, the parts are removed, and what was saved there before stays.
 *  @return RF_ERROR_INVALID_ARGUMENT when the chief does not find what another worker has written
 * in its directory. */
RF_API RF_MUST_USE rf_result rf_checkpoint_save(rf_checkpoint *checkpoint, const char *path,
                                                const rf_save_params *params);
/** Waits for an asynchronous save and reports its outcome, the same to all workers. Collective. */
RF_API RF_MUST_USE rf_result rf_checkpoint_wait(rf_checkpoint *checkpoint);

typedef struct rf_restore_params {
    bool partial; /**< take what fits; else anything missing, unexpected or of another shape or kind
                     is an error that lists it, and nothing is changed */
    char *
        *report; /**< NULL, or receives a text of what was missing, unexpected, of another shape or
                    kind, or differs without being restored, a line for each; rf_string_free() */
    uint64_t reserved[4]; /**< zero: room for later fields */
} rf_restore_params;
RF_API RF_MUST_USE rf_result rf_checkpoint_restore(rf_checkpoint *checkpoint, const char *path,
                                                   const rf_restore_params *params);

/* ---- a directory of checkpoints ---- */

typedef struct rf_checkpoint_manager_params {
    const char *directory; /**< made where it does not exist */
    const char *prefix;    /**< file name without number and suffix, e.g. "ckpt", or with its place:
                              "ckpt_{epoch}"; NULL:    "ckpt" */
    uint32_t max_to_keep;  /**< newest ones; 0: 5, 1: 2, so that there is another one if the newest
                              is damaged. While one is  written in the background there is one more,
                              until its outcome is known (the next save,  restore or wait) */
    double keep_every_hours; /**< besides, one for each so many hours is kept for ever; 0: none */
    rf_save_params save;
    uint64_t reserved[4]; /**< zero: room for later fields */
} rf_checkpoint_manager_params;
/** Opens the directory for one training: a manager is who writes there. On several workers the
 * chief's does. As long as it lives, other processes are refused managers of the same directory and
 * prefix (RF_ERROR_INVALID_ARGUMENT names the process, its host and since when; a holder that is
 * just ending is waited for, five seconds at most). The lock is the kernel's: it ends with the
 * process, killed or not. Managers of other prefixes, and several ones of one process that take
 * turns, share a directory. Reading needs no manager: use rf_checkpoint_latest() and
 * rf_checkpoint_restore() to evaluate while another process trains. Removes what killed saves left.
 * Collective; blocking. */
RF_API RF_MUST_USE rf_result
rf_checkpoint_manager_create(rf_checkpoint *checkpoint, const rf_checkpoint_manager_params *params,
                             rf_checkpoint_manager **out);
RF_API void rf_checkpoint_manager_destroy(rf_checkpoint_manager **manager);
/** Saves under `number` (epoch or step) and removes what is not to be kept, never the file just
 * written. The highest number is the newest: one below a complete file of the directory is refused
 * (RF_ERROR_INVALID_ARGUMENT), because restoring would take that other file. A training that starts
 * anew needs another directory or prefix. A manager that has restored nothing does not save where
 * all files are damaged (RF_ERROR_CORRUPT_DATA): they may still be rescued. */
RF_API RF_MUST_USE rf_result rf_checkpoint_manager_save(rf_checkpoint_manager *manager,
                                                        uint64_t number);
/** Restores the newest complete checkpoint; RF_ERROR_NOT_FOUND when there is none. `*number` may be
 * NULL. Damaged files are passed over with a warning; when all are damaged (in a copy whose parts
 * are missing, say) it is RF_ERROR_CORRUPT_DATA, which names the newest file and what is wrong with
 * it. Nothing is removed then, and saving is refused until the files are moved away. A file that
 * cannot be read for another reason (no permission, RF_ERROR_IO; a later version of the format,
 * RF_ERROR_UNSUPPORTED) is an error, and nothing older is taken in its place. */
RF_API RF_MUST_USE rf_result rf_checkpoint_manager_restore(rf_checkpoint_manager *manager,
                                                           const rf_restore_params *params,
                                                           uint64_t *number);
/** Path of the newest complete checkpoint of a directory, by its number; free with
 * rf_string_free(). Passes over what rf_checkpoint_manager_restore() does. */
RF_API RF_MUST_USE rf_result rf_checkpoint_latest(const char *directory, const char *prefix,
                                                  char **path);

/* ---- with fit ---- */

typedef struct rf_backup_params {
    const char *directory;       /**< made where it does not exist; for one training at a time */
    uint64_t save_every_batches; /**< 0: after every epoch; else after so many batches (at the end
                                    of a group of steps_per_execution) */
    bool keep; /**< leave the backup when training has ended; else it is removed, so that the next
                  fit starts anew */
    rf_save_params save;
    uint64_t reserved[4]; /**< zero: room for later fields */
} rf_backup_params;
/**
 * A fit that was interrupted goes on where it was: start the same program again. Weights,
 * optimizer, metrics, place in the data, dropout, learning rate, early stopping and the best value
 * of model checkpoints are those of the latest backup; with the same devices the numbers are the
 * same to the last bit as without the interruption. When a stop is agreed
 * (rf_strategy_request_stop(), say from a handler of SIGTERM) a backup is made at once and fit
 * returns: a program should then exit with ::RF_EXIT_RESTARTABLE. On another number of replicas or
 * workers the epoch continues with the examples that it has not seen, also where the batch size
 * follows that number. Files are called "backup-<number>.rfck".
 */
RF_API RF_MUST_USE rf_result rf_callback_backup_and_restore(const rf_backup_params *params,
                                                            rf_callback **out);

typedef struct rf_model_checkpoint_params {
    const char *path;       /**< with places: {epoch} (from 1), {epoch:03d}, values by name as in
                               {val_loss:.2f}; ".rfck" is       appended where it is missing. Directories
                               are       made. E.g. "checkpoints/ckpt_{epoch}" */
    const char *monitor;    /**< for save_best_only; NULL: "val_loss" */
    bool maximize;          /**< of the monitored value more is better */
    bool save_best_only;    /**< save only where the monitored value is better than all before */
    bool save_weights_only; /**< rf_model_save_weights() instead of rf_model_save() */
    rf_save_params save;    /**< without async */
    uint64_t reserved[4];   /**< zero: room for later fields */
} rf_model_checkpoint_params;
/** Saves the model after every epoch. While fit runs, other processes are refused the same path, as
 * with rf_checkpoint_manager_create(), except where directories of the path have places. */
RF_API RF_MUST_USE rf_result rf_callback_model_checkpoint(const rf_model_checkpoint_params *params,
                                                          rf_callback **out);

/* ---- models ---- */

/** Saves the weights alone, as "model/<variable>". `params` may be NULL; not async. Collective, as
 * everything here. */
RF_API RF_MUST_USE rf_result rf_model_save_weights(rf_model *model, const char *path,
                                                   const rf_save_params *params);
/** Sets the weights of a built model from any file that holds them as "model/<variable>": all or
 * none. */
RF_API RF_MUST_USE rf_result rf_model_load_weights(rf_model *model, const char *path);
/** Saves a sequential model that is built: its layers, weights, and where it is compiled optimizer,
 * loss and metrics.
 *  @return RF_ERROR_UNSUPPORTED names a layer that is code (lambda), or says that the model is:
 * save its weights (rf_model_save_weights()) to train on, export it (rf_model_export()) to use it.
 */
RF_API RF_MUST_USE rf_result rf_model_save(rf_model *model, const char *path,
                                           const rf_save_params *params);
/** Makes the model on any strategy. A compiled one owns its optimizer. Evaluates as the saved one
 * did; training goes on. */
RF_API RF_MUST_USE rf_result rf_model_load(rf_strategy *strategy, const char *path, rf_model **out);
/** The optimizer that the model was compiled with, or NULL. */
RF_API rf_optimizer *rf_model_optimizer(const rf_model *model);

/* ---- inference ---- */

typedef struct rf_inference rf_inference;

/**
 * Writes a built model for use without training: the graph that its forward pass comes to with
 * training off, weights and constants. Sequential or not: what layers and functions compute is in
 * the graph, their code is not needed again. Variables keep the values that they have now. The
 * model is traced once more, its function called. Blocking, not async; collective.
 * @return RF_ERROR_UNSUPPORTED where the forward pass updates state; RF_ERROR_INVALID_ARGUMENT
 * where a shape in it is fixed to one size of the batch.
 */
RF_API RF_MUST_USE rf_result rf_model_export(rf_model *model, const char *path,
                                             const rf_save_params *params);

typedef struct rf_inference_params {
    rf_strategy *strategy; /**< borrowed; NULL: one device of its own, `device` */
    const char *device;    /**< as rf_one_device_params::device */
    uint64_t reserved[4];  /**< zero: room for later fields */
} rf_inference_params;
/** Loads what rf_model_export() or rf_model_save() wrote. */
RF_API RF_MUST_USE rf_result rf_inference_load(const char *path, const rf_inference_params *params,
                                               rf_inference **out);
RF_API void rf_inference_destroy(rf_inference **inference);
/** Type and shape of input and output; dimensions that depend on the batch, such as dim[0], are -1.
 * Either may be NULL. */
RF_API void rf_inference_signature(const rf_inference *inference, rf_array *input,
                                   rf_array *output);
/** Runs a batch of any size. `input` has the signature's type and shape; `output->data` is the
 * caller's: rf_array_free(). No rows give no rows, at once (`input->data` may be NULL then).
 * Blocking. */
RF_API RF_MUST_USE rf_result rf_inference_run(rf_inference *inference, const rf_array *input,
                                              rf_array *output);

#ifdef __cplusplus
}
#endif
#endif
