/* SPDX-License-Identifier: Apache-2.0 */
/* Which tensor of the files is which variable of a model, and the way of values between them. */
#ifndef RF_PRETRAINED_WEIGHTS_H
#define RF_PRETRAINED_WEIGHTS_H

#include <ringfire/pretrained.h>

#include "persist/archive/writer.h"
#include "pretrained/files.h"
#include "replica/strategy.h"
#include "train/files/weight_notes.h"

/* A variable that a tensor holds, or a part of one. Tensors of one dimension are a matrix of one row. A kernel of a
 * convolution is a matrix, too: its rows are channels of places, and the columns of its tensor places of channels. */
typedef struct rf_weight {
    const rf_tensor_entry *tensor;
    const rf_pretrained_tensor *row;
    char *name;            /* of the variable; NULL: of none */
    rf_variable *variable; /* borrowed from the model; NULL: none */
    uint64_t in, out;      /* of the variable as a matrix */
    uint64_t places;       /* of a kernel; 1: another matrix */
    uint64_t total, first; /* outputs of the tensor; the first one of this part */
    bool is_new;           /* the variable begins anew, and the tensor is what it will be */
    rf_shape before;       /* of a new one: the shape of its tensor in the files */
} rf_weight;
typedef struct rf_weights {
    rf_tensor_files *files;
    bool new_heads;   /* variables of heads may begin anew */
    bool adds_prefix; /* the files had a model without a head, and names without the prefix that one with a head has */
    const rf_pretrained_architecture *architecture;
    rf_weight *items; /* in order of the tensors' names, and of their parts */
    uint32_t count, capacity;
    rf_weight **by_name; /* those of a variable, in order of its name and of the rows */
    uint32_t num_named;
} rf_weights;

/* Names alone. Freed with rf_weights_clear(), also when it fails. */
rf_result rf_weights_match(rf_weights *weights, rf_tensor_files *files, const rf_pretrained_architecture *architecture);
void rf_weights_clear(rf_weights *weights);
/* Room for all variables, as far as the files tell. */
rf_variable_room rf_weights_room(const rf_weights *weights, const rf_strategy *strategy);
/* The weight whose row stands first in the table, of those with this variable; NULL: there is none. */
const rf_weight *rf_weights_source(const rf_weights *weights, const char *name);
/* Whether a tensor has the values of a variable that is about to be: fails where none has, or one of another shape. 1:
 * it begins anew. */
rf_result rf_weights_admit(const rf_weights *weights, const char *name, rf_shape shape);
/* The variables of a model, each of which has been admitted: all tensors must have a place in it. */
rf_result rf_weights_bind(rf_weights *weights, rf_model *model);

/* Notes of what has become of variables and tensors. */
rf_result rf_weights_note(const rf_weights *weights, const rf_model *model, rf_weight_notes *notes);

/* Elements that are moved at once. */
enum { RF_WEIGHTS_WINDOW = 4 << 20 };
/* Rows of the variable's matrix [begin, end), at most a window, from the file. `raw` has room for a window of f32. */
rf_result rf_weight_read(const rf_weights *weights, const rf_weight *w, uint64_t begin, uint64_t end, float *values,
                         void *raw);
/* Rows that a window has. */
uint64_t rf_weight_rows(const rf_weight *w);
/* The index that names the tensors, as a text; rf_free(). */
rf_result rf_weights_index(const rf_weights *weights, char **text);
/* Calls a function with the bytes of all tensors as they would be written now. */
rf_result rf_weights_with_source(const rf_weights *weights,
                                 rf_result (*body)(void *user, const rf_archive_source *source), void *user);
/* Writes the tensors of one of the files anew, with the values that variables have now. */
rf_result rf_weights_write(const rf_weights *weights, uint32_t file, const char *path);

#endif
