/* SPDX-License-Identifier: Apache-2.0 */
/* A budget of bytes that unpacking a message may allocate that is not trusted, by the bytes that it has. It has the
 * form of protobuf-c's allocators, whose `allocator_data` it is. */
#ifndef RF_BASE_BUDGET_H
#define RF_BASE_BUDGET_H

#include <stdbool.h>
#include <stddef.h>

typedef struct rf_budget {
    size_t left;
    bool exceeded, no_memory; /* why the latest request was refused */
} rf_budget;

/* In memory, values of a few bytes become structs of some hundred: 1 MiB, and `factor` times the size. */
rf_budget rf_budget_of_message(size_t size, size_t factor);
void *rf_budget_allocate(void *budget, size_t size);
void rf_budget_release(void *budget, void *pointer);

#endif
