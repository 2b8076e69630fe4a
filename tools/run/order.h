/* SPDX-License-Identifier: Apache-2.0 */
/* The order of `ringfire run` to the agent of a host to start workers: the frame WIRE_START. */
#ifndef RINGFIRE_ORDER_H
#define RINGFIRE_ORDER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct start_order {
    char *text; /* the other texts point into it */
    char *arguments[4096], *set[1024], *unset[1024];
    uint32_t num_arguments, num_set, num_unset; /* behind the last argument stands a NULL */
    const char *directory;
    char *key; /* NULL: none */
    uint32_t first_rank, count;
    double grace; /* seconds */
} start_order;

/* From the bytes of a frame, into an order that is all zero but for the grace it has when none is named. NULL, or what
 * is wrong with them. */
const char *order_read(start_order *order, const char *data, size_t length);
/* Wipes the key. */
void order_free(start_order *order);

#endif
