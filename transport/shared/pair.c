/* SPDX-License-Identifier: Apache-2.0 */
#include <unistd.h>

#include "base/memory.h"
#include "transport/shared/internal.h"

rf_shared_pair *rf_shared_pair_new(uint32_t rank)
{
    rf_shared_pair *pair = RF_NEW(rf_shared_pair);
    if (!pair) return NULL;
    pair->rank = rank;
    pair->fd = -1;
    pair->last = &pair->first;
    return pair;
}

void rf_shared_pair_end(rf_shared_pair *pair)
{
    if (pair->fd >= 0) close(pair->fd);
    pair->fd = -1;
    pair->ended = true;
}

void rf_shared_pair_free(rf_shared_pair **pair)
{
    if (!*pair) return;
    rf_shared_pair_end(*pair);
    rf_shared_segment_close(&(*pair)->segment);
    rf_free(*pair);
    *pair = NULL;
}
