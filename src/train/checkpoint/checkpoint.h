/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Internals of checkpoints. The objects that were added become a list of items, one for each name in the file. The list
 * follows from the objects alone, so all workers of a job have the same one. Saving collects a value for each;
 * restoring finds values in the file, checks and prepares all of them, and then applies them.
 */
#ifndef RF_TRAIN_CHECKPOINT_CHECKPOINT_H
#define RF_TRAIN_CHECKPOINT_CHECKPOINT_H

#include <pthread.h>

#include <ringfire/checkpoint.h>

#include "base/error.h"
#include "base/memory.h"
#include "persist/archive/writer.h"
#include "persist/file_ops.h"
#include "replica/strategy.h"

/* ---- items ---- */

typedef enum rf_item_form { RF_ITEM_TENSOR, RF_ITEM_NUMBER, RF_ITEM_BYTES, RF_ITEM_TEXT } rf_item_form;

typedef struct rf_item_value {
    bool present;
    rf_shape shape; /* of a tensor */
    void *data;     /* of a tensor, bytes or text; owned */
    bool borrowed;  /* not owned: it lies in rf_checkpoint::room */
    uint64_t size;  /* of data */
    uint64_t number;
    rf_owned_list owners; /* in a sharded save: who writes which elements; data are this worker's, one after another.
                             None: the chief writes it all */
} rf_item_value;

typedef struct rf_item rf_item;
typedef enum rf_item_verdict {
    RF_ITEM_SAME,
    RF_ITEM_DIFFERS, /* worth telling; what is here stays */
    RF_ITEM_REFUSED, /* of another object than this */
} rf_item_verdict;
typedef struct rf_item_kind {
    rf_item_form form;
    rf_dtype dtype; /* of a tensor */
    bool optional;  /* may be absent: applying "nothing" gives what a new object has */
    bool free_rows; /* dimension 0 may be another one than here */
    bool exchanged; /* collect() has workers tell each other their parts, so none may leave it out */
    /* NULL: there is no such thing. Has elements copied to `to` later, or leaves that to collect() or read(). Not
     * collective. */
    rf_result (*defer)(const rf_item *item, rf_state_copy *copy, rf_range range, float *to, bool *taken);
    /* For sharded saves; NULL: the chief writes it. Who writes which elements, the same on every worker, and reading
     * those of one entry that is this worker's. Not collective. */
    rf_result (*owners)(const struct rf_checkpoint *checkpoint, const rf_item *item, rf_owned_list *out);
    rf_result (*read)(const rf_item *item, rf_range range, float *to);
    /* Compares what the file has, on the chief; `detail` is empty and says what differs. NULL: nothing to compare. */
    rf_item_verdict (*compare)(const rf_item *item, const rf_item_value *value, char *detail, size_t size);
    /* Fills a zeroed value, or leaves it absent. Collective. */
    rf_result (*collect)(const rf_item *item, rf_item_value *value);
    /* What can still be refused or run out of memory, before anything is changed; NULL: nothing. */
    rf_result (*prepare)(rf_item *item, const rf_item_value *value);
    rf_result (*apply)(rf_item *item, const rf_item_value *value);
} rf_item_kind;

struct rf_item {
    const rf_item_kind *kind;
    char *name;
    rf_shape shape; /* of a tensor, as it is here */
    const struct rf_tracked *tracked;
    rf_variable *variable;
    uint32_t slot;
    uint32_t siblings;     /* this one and so many after it come together or not at all; 0: alone */
    rf_iterator *iterator; /* prepared */
    float *numbers;        /* prepared */
};

/* Of an optimizer that scales losses (scale_item.c). */
extern const rf_item_kind rf_scale_item_kind;
/* Of an optimizer that accumulates gradients (weight_item.c). */
extern const rf_item_kind rf_weight_item_kind;

typedef struct rf_item_list {
    rf_item *items;
    uint32_t count, capacity;
} rf_item_list;

/* ---- objects ---- */

/* State of anything else, as bytes. */
typedef struct rf_blob_fns {
    rf_result (*save)(void *user, void **data, size_t *size); /* rf_free(); NULL data: nothing */
    rf_result (*restore)(void *user, const void *data, size_t size);
} rf_blob_fns;

typedef enum rf_tracked_kind {
    RF_TRACKED_MODEL,
    RF_TRACKED_OPTIMIZER,
    RF_TRACKED_METRIC,
    RF_TRACKED_VARIABLE,
    RF_TRACKED_FUNCTION,
    RF_TRACKED_ITERATOR,
    RF_TRACKED_COUNTER,
    RF_TRACKED_BLOB,
    RF_TRACKED_TEXT,
    RF_TRACKED_SEED,
} rf_tracked_kind;

typedef struct rf_tracked {
    rf_tracked_kind kind;
    char *name;
    rf_strategy *strategy;
    union {
        rf_model *model; /* references, so that it shows when their makers have destroyed them: */
        rf_optimizer *optimizer;
        rf_metric *metric;
        rf_variable *variable;
        rf_function *function;
        rf_iterator **iterator; /* borrowed */
        uint64_t *counter;
        void *user;       /* of a blob */
        const char *text; /* borrowed */
    } u;
    rf_dataset *dataset; /* of an iterator; a reference */
    rf_blob_fns blob;
} rf_tracked;

/* The parts of "<file>" are called "<file>.part-<rank>-of-<workers>-<id>" (RF_ARCHIVE_PART_INFIX). */
typedef struct rf_part_id {
    char text[64]; /* "<host>-<process>-<number>" of the chief, as in names of temporary files; another for each save */
} rf_part_id;

/* What a save writes, at once or in the background. */
typedef struct rf_snapshot {
    rf_item_list items;
    rf_item_value *values;
    rf_state_copy *copy; /* fills those that are borrowed */
    char *path;
    rf_save_params params;
    const char *type;
    const rf_file_ops *ops;
    bool sharded;
    uint32_t rank, world_size;
    rf_part_id id;
    rf_archive_identity part; /* that this worker wrote */
    rf_result result;
    rf_error_record error;
} rf_snapshot;

struct rf_checkpoint {
    rf_strategy *strategy;
    struct {
        rf_tracked *items;
        uint32_t count, capacity;
    } objects;
    void *room; /* for copies of variables and slots; kept between asynchronous saves: memory that is new costs more
                   time than copying into it */
    size_t room_size;
    rf_snapshot *pending; /* NULL: none; on workers that do not write it is empty */
    pthread_t thread;
    bool threaded;
    const char *type;       /* of the file */
    bool subset;            /* the file may hold more */
    const rf_file_ops *ops; /* NULL: the system's; tests put others here */
    /* Called once, on the chief, when the save in the background has ended; NULL: not wanted. */
    void (*on_end)(void *user, bool written);
    void *on_end_user;
    rf_checkpoint_manager *managers; /* the first of a list */
};

/* A checkpoint of `type` without the strategy's seed: of a model, not of a run. */
rf_result rf_checkpoint_create_bare(rf_strategy *strategy, const char *type, rf_checkpoint **out);
/* Fails, in the name of the public function, when something that was added has been destroyed. */
rf_result rf_checkpoint_check_alive(const rf_checkpoint *checkpoint, const char *function);
/* A text that is the same whenever it is restored; `text` is borrowed. */
rf_result rf_checkpoint_add_text(rf_checkpoint *checkpoint, const char *name, const char *text);
/* Removes all files of the manager. Collective. */
rf_result rf_checkpoint_manager_clear(rf_checkpoint_manager *manager);
/* The checkpoint is about to be freed: its managers notice when they are used. */
void rf_checkpoint_leave_managers(rf_checkpoint *checkpoint);

rf_result rf_checkpoint_add_blob(rf_checkpoint *checkpoint, const char *name, const rf_blob_fns *fns, void *user);

/* The items of all objects. Fails for a model that is not built. */
rf_result rf_items_make(const rf_checkpoint *checkpoint, rf_item_list *out);
void rf_items_free(rf_item_list *list);
void rf_item_values_free(rf_item_value *values, uint32_t count);
void rf_snapshot_free(rf_snapshot **snapshot);
void rf_checkpoint_free_room(rf_checkpoint *checkpoint);
void rf_checkpoint_tell_end(rf_checkpoint *checkpoint, bool written);
/* Calls `lacks` for every slot of an optimizer that has made steps according to the file, which has none of its slots.
 */
typedef rf_result (*rf_lack_fn)(void *user, const char *name);
rf_result rf_items_lacking(const rf_item_list *list, const rf_item_value *values, rf_lack_fn lacks, void *user);
/* ---- files (checkpoint_write.c) ---- */

/* Writes the whole checkpoint into one file. */
rf_result rf_snapshot_write(const rf_snapshot *snapshot);
/* Draws the id of a sharded save on the chief and tells the others. Collective. */
rf_result rf_part_id_draw(rf_strategy *strategy, rf_part_id *id);
/* Writes this worker's part. */
rf_result rf_snapshot_write_part(rf_snapshot *snapshot);
/* `mine` is how this worker's part went. When all parts are there, the chief writes the main file, with which the
 * checkpoint is complete; else they are removed. Collective. */
rf_result rf_snapshot_commit(rf_strategy *strategy, rf_snapshot *snapshot, rf_result mine);
/* Makes the variables whose slots were found known to their optimizers, all at once. */
rf_result rf_items_learn(const rf_checkpoint *checkpoint, const rf_item_list *list, const rf_item_value *values);

/* ---- agreement in a job (checkpoint_share.c) ---- */

/* What the chief says of an item that it found in a file; its data, where it has some, follow. */
typedef struct rf_shared_item {
    uint64_t present, size, number, shape_rank;
    int64_t dim[RF_MAX_RANK];
} rf_shared_item;
rf_shared_item rf_shared_item_of(const rf_item_value *value);
/* What has come of this worker's item, into a value without data. RF_ERROR_CORRUPT_DATA: it is not of this item. */
rf_result rf_shared_item_take(const rf_item *item, const rf_shared_item *shared, rf_item_value *out);
/* Whether it can be part of a file's name; it came from the chief. */
bool rf_part_id_sound(const rf_part_id *id);

/* All workers get the chief's result. Collective. */
rf_result rf_share_result(rf_strategy *strategy, rf_result chiefs);
/* The bytes of all workers, in order of ranks. Collective. */
rf_result rf_gather_bytes(rf_strategy *strategy, const char *name, const void *mine, void *all, uint64_t size);
/* All workers get the chief's bytes. Collective. */
rf_result rf_share_bytes(rf_strategy *strategy, const char *name, void *data, uint64_t size);

#endif
