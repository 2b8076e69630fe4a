/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Entries of a checkpoint's file. An object that is added becomes a list of items, one for each name in the file: its
 * kind and theirs stand beside the object. The list follows from the objects alone, so all workers of a job have the
 * same one. Saving takes a value for each; restoring finds values in the file, checks and prepares all of them, and
 * then applies them.
 */
#ifndef RF_TRAIN_CHECKPOINT_ITEM_H
#define RF_TRAIN_CHECKPOINT_ITEM_H

#include <ringfire/checkpoint.h>

#include "base/error.h"
#include "base/memory.h"
#include "replica/strategy.h"

typedef struct rf_item rf_item;
typedef struct rf_tracked rf_tracked;

/* ---- values ---- */

typedef enum rf_item_form { RF_ITEM_TENSOR, RF_ITEM_NUMBER, RF_ITEM_BYTES, RF_ITEM_TEXT } rf_item_form;

typedef struct rf_item_value {
    bool present;
    bool borrowed;  /* `data` is not owned: it lies in rf_checkpoint::staging */
    rf_shape shape; /* of a tensor */
    void *data;     /* of a tensor, bytes or text; while it is saved, what this worker writes */
    uint64_t size;  /* of data */
    uint64_t number;
} rf_item_value;

/* Zeros in the shape of a tensor. */
rf_result rf_item_value_allocate(rf_item_value *value, rf_shape shape);
void rf_item_value_set_number(rf_item_value *value, uint64_t number);
/* Takes the text over; NULL: out of memory. */
rf_result rf_item_value_set_text(rf_item_value *value, char *text);
void rf_item_values_free(rf_item_value *values, uint32_t count);

/* ---- items ---- */

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
    /* For an f32 tensor whose elements a worker reads without the others: which worker has which of them, the same on
     * every worker; see rf_save_input. NULL: it is always collected. */
    rf_result (*owners)(const rf_item *item, rf_owned_list *out);
    /* Reads elements that this worker has, of one entry of its owners. Not collective. */
    rf_result (*read)(const rf_item *item, rf_range range, float *to);
    /* Has them copied to `to` later instead, unless it leaves that to read(). Not collective. NULL: never. */
    rf_result (*defer)(const rf_item *item, rf_state_copy *copy, rf_range range, float *to, bool *taken);
    /* Fills a zeroed value from all workers, or leaves it absent. Collective. NULL: every worker has all of it. */
    rf_result (*collect)(const rf_item *item, rf_item_value *value);
    /* Compares what the file has, on the chief; `detail` is empty and says what differs. NULL: nothing to compare. */
    rf_item_verdict (*compare)(const rf_item *item, const rf_item_value *value, char *detail, size_t size);
    /* Does what can still be refused or run out of memory, before anything is changed; NULL: nothing. */
    rf_result (*prepare)(rf_item *item, const rf_item_value *value);
    /* NULL: it is not restored. */
    rf_result (*apply)(rf_item *item, const rf_item_value *value);
} rf_item_kind;

struct rf_item {
    const rf_item_kind *kind;
    char *name;
    rf_shape shape; /* of a tensor, as it is here */
    const rf_tracked *tracked;
    rf_variable *variable;
    uint32_t slot;
    uint32_t siblings;     /* this one and so many after it come together or not at all; 0: alone */
    rf_iterator *iterator; /* prepared */
    float *numbers;        /* prepared */
};

typedef struct rf_item_list {
    rf_item *items;
    uint32_t count, capacity;
} rf_item_list;

/* Appends an item; `name` is taken over, NULL: out of memory. */
rf_result rf_item_append(rf_item_list *list, char *name, rf_item item);
/* Appends "<object's name><suffix>", which is no tensor. */
rf_result rf_item_append_plain(rf_item_list *list, const rf_tracked *tracked, const char *suffix,
                               const rf_item_kind *kind);
rf_result rf_item_append_variable(rf_item_list *list, char *name, const rf_tracked *tracked, rf_variable *variable);
/* Makes zeros in the item's shape of its prepared numbers. */
rf_result rf_item_prepare_numbers(rf_item *item);
/* The items of all objects. Fails for a model that is not built. */
rf_result rf_items_make(const rf_checkpoint *checkpoint, rf_item_list *out);
void rf_items_free(rf_item_list *list);

/* ---- objects ---- */

/* Is told of a name that a file should have, but has not. */
typedef rf_result (*rf_missing_fn)(void *user, const char *name);

/* A kind of object; NULL: there is no such thing. */
typedef struct rf_tracked_kind {
    rf_result (*append)(const rf_tracked *tracked, rf_item_list *list);
    /* Fails, in the name of the public function, when its maker has destroyed it. */
    rf_result (*check_alive)(const rf_tracked *tracked, const char *function);
    bool checked_later; /* not when it is added */
    void (*release)(rf_tracked *tracked);
    /* The variable of that number and the name that its state has in files; NULL: there are no more. */
    rf_variable *(*variable)(const rf_tracked *tracked, uint32_t index, const char **name);
    /* Who updates variables. */
    rf_updater *(*updater)(const rf_tracked *tracked);
    /* Calls `missing` for each name that the file has to have beside what was found in it. */
    rf_result (*find_missing)(const rf_tracked *tracked, const rf_item_list *list, const rf_item_value *values,
                              rf_missing_fn missing, void *user);
    /* Comes before all items are applied. */
    rf_result (*begin_apply)(const rf_tracked *tracked, const rf_item_list *list, const rf_item_value *values);
} rf_tracked_kind;

/* State of anything else, as bytes. */
typedef struct rf_blob_fns {
    rf_result (*save)(void *user, void **data, size_t *size); /* rf_free(); NULL data: nothing */
    rf_result (*restore)(void *user, const void *data, size_t size);
} rf_blob_fns;

/* An object that was added. Where a kind has release(), the checkpoint has a reference, so that it shows when the
 * object's maker has destroyed it. */
struct rf_tracked {
    const rf_tracked_kind *kind;
    const rf_checkpoint *checkpoint;
    char *name;
    rf_strategy *strategy;
    void *object;        /* of an iterator, its place; of a blob, what its functions get */
    rf_dataset *dataset; /* of an iterator */
    rf_blob_fns blob;
};

/* Adds an object, whose name is copied. `function` is for messages; a strategy has to be the checkpoint's. */
rf_result rf_checkpoint_add(rf_checkpoint *checkpoint, const char *function, const char *name, rf_tracked tracked);

#endif
