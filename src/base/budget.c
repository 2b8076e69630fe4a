/* SPDX-License-Identifier: Apache-2.0 */
#include "base/budget.h"

#include <stdint.h>
#include <stdlib.h>

#define BUDGET_BASE (1u << 20)

rf_budget rf_budget_of_message(size_t size, size_t factor)
{
    size_t left;
    if (__builtin_mul_overflow(size, factor, &left) || __builtin_add_overflow(left, BUDGET_BASE, &left))
        left = SIZE_MAX;
    return (rf_budget){ .left = left };
}

void *rf_budget_allocate(void *budget, size_t size)
{
    rf_budget *b = budget;
    if (size > b->left) {
        b->exceeded = true;
        return NULL;
    }
    b->left -= size;
    void *memory = malloc(size ? size : 1);
    if (!memory) b->no_memory = true;
    return memory;
}

void rf_budget_release(void *budget, void *pointer)
{
    (void)budget;
    free(pointer);
}
