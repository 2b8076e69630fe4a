/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Internals of checkpoints. A checkpoint is a list of objects (item.h), and at most one save in the background. A save
 * is decided first (save_plan.h), then values are taken (save.c) and files written (write.c).
 */
#ifndef RF_TRAIN_CHECKPOINT_CHECKPOINT_H
#define RF_TRAIN_CHECKPOINT_CHECKPOINT_H

#include <pthread.h>

#include <ringfire/checkpoint.h>

#include "persist/archive/writer.h"
#include "persist/file_ops.h"
#include "train/checkpoint/item.h"
#include "train/checkpoint/save_plan.h"

/* The parts of "<file>" are called "<file>.part-<rank>-of-<workers>-<id>" (RF_ARCHIVE_PART_INFIX). */
typedef struct rf_part_id {
    char text[64]; /* "<host>-<process>-<number>" of the chief, as in names of temporary files; another for each save */
} rf_part_id;

/* The state that a save writes, at once or in the background. */
typedef struct rf_snapshot {
    rf_item_list items;
    rf_item_value *values;
    rf_save_plan plan;
    rf_state_copy *copy; /* fills those that are borrowed */
    char *path;
    rf_save_params params;
    const char *type;
    const rf_file_ops *ops;
    rf_part_id id;
    rf_archive_identity part; /* that this worker wrote */
    rf_result result;
    rf_error_record error;
} rf_snapshot;

/* Whoever uses a checkpoint longer than a call notices that it is gone. */
typedef struct rf_checkpoint_link rf_checkpoint_link;
struct rf_checkpoint_link {
    rf_checkpoint *checkpoint; /* NULL once it is destroyed */
    rf_checkpoint_link *next;  /* of the same checkpoint */
};

struct rf_checkpoint {
    rf_strategy *strategy;
    struct {
        rf_tracked *items;
        uint32_t count, capacity;
    } objects;
    void *staging; /* for copies of variables and slots; kept between asynchronous saves: memory that is new costs more
                   time than copying into it */
    size_t staging_size;
    rf_snapshot *pending; /* NULL: none; on workers that do not write it is empty */
    pthread_t thread;
    bool threaded;
    const char *type;       /* of the file */
    bool subset;            /* the file may hold more */
    const rf_file_ops *ops; /* NULL: the system's; tests put others here */
    /* Called once, on the chief, when the save in the background has ended; NULL: not wanted. */
    void (*on_end)(void *user, bool written);
    void *on_end_user;
    rf_checkpoint_link *users; /* the first of a list */
};

/* A checkpoint of `type` without the strategy's seed: of a model, not of a run. */
rf_result rf_checkpoint_create_bare(rf_strategy *strategy, const char *type, rf_checkpoint **out);
/* Fails, in the name of the public function, when something that was added has been destroyed. */
rf_result rf_checkpoint_check_alive(const rf_checkpoint *checkpoint, const char *function);
void rf_checkpoint_free_staging(rf_checkpoint *checkpoint);
/* A text that is the same whenever it is restored; `text` is borrowed. */
rf_result rf_checkpoint_add_text(rf_checkpoint *checkpoint, const char *name, const char *text);
rf_result rf_checkpoint_add_blob(rf_checkpoint *checkpoint, const char *name, const rf_blob_fns *fns, void *user);
/* Removes all files of the manager. Collective. */
rf_result rf_checkpoint_manager_clear(rf_checkpoint_manager *manager);

/* ---- files (write.c) ---- */

/* Draws the id of a sharded save on the chief and tells the others. Collective. */
rf_result rf_part_id_draw(rf_strategy *strategy, rf_part_id *id);
/* Writes this worker's file: the whole checkpoint, its part, or none. */
rf_result rf_snapshot_write(rf_snapshot *snapshot);
/* `mine` is how this worker's writing went; all workers learn how it went for all. When all parts are there, the chief
 * writes the main file, with which the checkpoint is complete; else they are removed. Collective. */
rf_result rf_snapshot_commit(rf_strategy *strategy, rf_snapshot *snapshot, rf_result mine);
void rf_snapshot_free(rf_snapshot **snapshot);
/* The kind that the value of an item that is no tensor has in files. */
rf_archive_value_kind rf_item_archive_kind(const rf_item *item);

/* ---- messages between workers (broadcast.c) ---- */

/* The chief's words about an item that it found in a file; its data, where it has some, follow. */
typedef struct rf_item_header {
    uint64_t present, size, number, shape_rank;
    int64_t dim[RF_MAX_RANK];
} rf_item_header;
rf_item_header rf_item_header_of(const rf_item_value *value);
/* Turns what has come about this worker's item into a value without data. RF_ERROR_CORRUPT_DATA: it is not of this
 * item. */
rf_result rf_item_header_take(const rf_item *item, const rf_item_header *header, rf_item_value *out);
/* Whether it can be part of a file's name; it came from the chief. */
bool rf_part_id_is_valid(const rf_part_id *id);

/* All workers get the chief's result. Collective. */
rf_result rf_broadcast_result(rf_strategy *strategy, rf_result chiefs);
/* The bytes of all workers, in order of ranks. Collective. */
rf_result rf_gather_bytes(rf_strategy *strategy, const char *name, const void *mine, void *all, uint64_t size);
/* All workers get the chief's bytes. Collective. */
rf_result rf_broadcast_bytes(rf_strategy *strategy, const char *name, void *data, uint64_t size);

#endif
