/* SPDX-License-Identifier: Apache-2.0 */
#include "replica/strategy.h"

uint64_t rf_bucket_size(uint64_t wanted, uint64_t total)
{
    const uint64_t least = (1u << 20) / sizeof(float), most = (16u << 20) / sizeof(float);
    if (wanted > 0) return wanted;
    const uint64_t size = rf_div_up(total, 16);
    return size < least ? least : size > most ? most : size;
}

/* The backward pass finishes the gradients of late variables first, so buckets are filled from the end: the first
 * bucket can be on its way while the gradients of earlier layers are still computed. A bucket that is nearly empty (the
 * bias of a large matrix, say) takes one more variable whatever its size: a message of a few bytes costs more than it
 * is worth. */
rf_result rf_bucket_plan(const uint64_t *variable_counts, uint32_t num_variables, uint64_t bucket_elements,
                         rf_range **buckets, uint32_t *num_buckets)
{
    *num_buckets = 0;
    *buckets = RF_NEW_ARRAY(rf_range, num_variables);
    if (!*buckets) return RF_ERROR_OUT_OF_HOST_MEMORY;
    uint64_t end = 0;
    for (uint32_t i = 0; i < num_variables; i++) end += variable_counts[i];
    rf_range *open = NULL;
    for (uint32_t i = num_variables; i-- > 0;) {
        const uint64_t begin = end - variable_counts[i];
        const bool fits = open && open->end - begin <= bucket_elements;
        if (fits || (open && open->end - open->begin < bucket_elements / 8)) {
            open->begin = begin;
        } else {
            open = &(*buckets)[(*num_buckets)++];
            *open = (rf_range){ begin, end };
        }
        end = begin;
    }
    return RF_OK;
}
