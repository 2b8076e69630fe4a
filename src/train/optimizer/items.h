/* SPDX-License-Identifier: Apache-2.0 */
/* An optimizer in a checkpoint: kinds of its items. */
#ifndef RF_TRAIN_OPTIMIZER_ITEMS_H
#define RF_TRAIN_OPTIMIZER_ITEMS_H

#include "train/checkpoint/item.h"
#include "train/optimizer/optimizer.h"

/* ---- what changes with every step (state_items.c) ---- */

extern const rf_item_kind rf_slot_item_kind;        /* of one variable: the item's slot */
extern const rf_item_kind rf_totals_item_kind;      /* of one variable: accumulated gradients, [replicas, elements] */
extern const rf_item_kind rf_iterations_item_kind;  /* updates so far */
extern const rf_item_kind rf_accumulated_item_kind; /* steps since the last update */
extern const rf_item_kind rf_weight_item_kind;      /* what these count together */
extern const rf_item_kind rf_scale_item_kind;       /* of an optimizer that scales losses, [2] */

/* ---- what the program sets (settings_items.c) ---- */

extern const rf_item_kind rf_optimizer_item_kind; /* which optimizer it is */
extern const rf_item_kind rf_settings_item_kind;
extern const rf_item_kind rf_schedule_item_kind; /* of the learning rate */

#endif
