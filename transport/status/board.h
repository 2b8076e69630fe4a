/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The status board of a job: its chief writes on it what happens, and a thread tells whoever holds the key. Writing
 * costs a step a few additions; nothing that a reader does reaches the training.
 */
#ifndef RF_TRANSPORT_STATUS_BOARD_H
#define RF_TRANSPORT_STATUS_BOARD_H

#include "transport/status/state.h"

typedef struct rf_status_board rf_status_board;

/* `wanted` as RINGFIRE_STATUS has it. Copies `members`. `comm` has the key of an address. */
rf_result rf_status_board_create(const char *wanted, const rf_comm_params *comm, const rf_status_members *members,
                                 rf_status_board **out);
/* Ends the thread, and removes the file of a directory. */
void rf_status_board_destroy(rf_status_board **board);

/* A step of training, with the examples of each replica. One thread. */
void rf_status_board_step(rf_status_board *board, const uint32_t *examples);
/* Thread-safe. Values that it does not name stay as they are. */
void rf_status_board_progress(rf_status_board *board, const rf_status_progress *progress);
void rf_status_board_checkpoint(rf_status_board *board, const char *path);

#endif
