/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who owns what of a checkpoint, who writes it, and who has to be told: one decision, made before anything is read, and
 * alike on every worker. It is pure: it follows from who has which elements.
 *
 * Whole: the chief writes one file. It takes what it or all workers have from its own memory; what others have a part
 * of is collected from them. At the end the chief tells the others how its writing went.
 *
 * Sharded: every worker writes a part file. It takes what it owns from its own memory; what all have is cut into equal
 * shares. Items that no worker can read alone are collected, and go into the chief's part. At the end all tell each
 * other how their writing went, and the chief writes the main file: names, shapes, values that are no tensors, and
 * which part has which elements. Then the chief tells the others how that went.
 */
#ifndef RF_TRAIN_CHECKPOINT_SAVE_PLAN_H
#define RF_TRAIN_CHECKPOINT_SAVE_PLAN_H

#include "base/error.h"
#include "replica/strategy.h"

/* Who can read the elements of an item. */
typedef enum rf_save_reach {
    RF_SAVE_TOGETHER,   /* no worker without the others */
    RF_SAVE_OWNERS,     /* each worker those that it owns */
    RF_SAVE_EVERYWHERE, /* every worker all of them; owners only say who writes them in a sharded save */
} rf_save_reach;

typedef struct rf_save_input {
    rf_save_reach reach;
    rf_owned_list owners; /* in order and without gaps; RF_RANK_ALL where all have them. None: there is no value */
} rf_save_input;

typedef struct rf_save_entry {
    bool collected;        /* by all workers together; the chief keeps and writes it */
    rf_owned_list writers; /* else: who writes which elements, in order and without gaps */
    uint64_t count;        /* elements that this worker writes */
    uint64_t offset;       /* in bytes, of its copies of them in staging memory */
} rf_save_entry;

typedef enum rf_save_file { RF_SAVE_NO_FILE, RF_SAVE_WHOLE, RF_SAVE_PART } rf_save_file;

typedef struct rf_save_plan {
    bool sharded;
    uint32_t rank, world_size;
    rf_save_file file;      /* of this worker */
    rf_save_entry *entries; /* one for each item, in their order, which is that in files */
    uint32_t count;
    uint64_t staging_size; /* in bytes */
} rf_save_plan;

/* A save of one worker is whole, whether it was to be `sharded` or not. */
rf_result rf_save_plan_make(const rf_save_input *inputs, uint32_t count, bool sharded, uint32_t rank,
                            uint32_t world_size, rf_save_plan *out);
void rf_save_plan_free(rf_save_plan *plan);

#endif
