/* SPDX-License-Identifier: Apache-2.0 */
/* Checks that two ranks make the same call. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/philox.h"
#include "transport/collective/comm_engine_internal.h"

void rf_engine_make_header(rf_engine *e)
{
    const rf_call *call = e->call;
    const rf_collective_task *task = &call->task;
    rf_call_header *h = &e->header;
    memset(h, 0, sizeof(*h));
    h->magic = RF_CALL_MAGIC;
    h->serial = call->serial;
    h->count = task->count;
    for (uint32_t i = 0; task->counts && i < task->world_size; i++) h->count += task->counts[i];
    h->shape = task->counts ? rf_hash_bytes(task->counts, task->world_size * sizeof(*task->counts), 0) : 0;
    h->chunk = (uint32_t)e->chunk;
    h->root = (uint16_t)task->root;
    h->kind = (uint8_t)task->kind;
    h->algorithm = (uint8_t)task->algorithm;
    h->dtype = (uint8_t)call->dtype;
    h->op = (uint8_t)call->op;
    h->wire = (uint8_t)call->wire;
    h->sealed = e->job->encrypt;
    snprintf(h->name, sizeof(h->name), "%s", call->name);
}

void rf_engine_describe(const rf_call_header *h, char *text, size_t size)
{
    static const char *const ops[] = { "sum", "max", "min" };
    char name[64] = "", wire[16] = "";
    if (h->name[0]) snprintf(name, sizeof(name), " '%.*s'", (int)sizeof(h->name) - 1, h->name);
    if (h->wire) snprintf(wire, sizeof(wire), " as %s", rf_dtype_name(h->wire));
    const bool reduces = h->kind == RF_COLLECTIVE_ALL_REDUCE || h->kind == RF_COLLECTIVE_REDUCE_SCATTER;
    char root[24] = "";
    if (h->kind == RF_COLLECTIVE_BROADCAST) snprintf(root, sizeof(root), " from rank %u", h->root);
    snprintf(text, size, "%s%s (number %" PRIu64 ", %s%s%" PRIu64 " %s%s%s, %s)", rf_collective_name(h->kind), name,
             h->serial, reduces && h->op < 3 ? ops[h->op] : "", reduces ? " of " : "", h->count,
             rf_dtype_name(h->dtype), wire, root, rf_algorithm_name(h->algorithm));
}

rf_result rf_engine_check_header(rf_engine *e, rf_peer *peer, const rf_call_header *got)
{
    rf_call_header same = *got;
    same.payload = e->header.payload;
    memcpy(same.name, e->header.name, sizeof(same.name)); /* names may differ, as long as all else agrees */
    if (memcmp(&same, &e->header, sizeof(same)) == 0) return RF_OK;
    if (got->magic != RF_CALL_MAGIC)
        return RF_FAIL(RF_ERROR_CORRUPT_DATA, "rank %u sent something that is not a call to rank %u", peer->rank,
                       e->rank);
    char theirs[RF_OPERATION_WHAT], ours[RF_OPERATION_WHAT];
    rf_engine_describe(got, theirs, sizeof(theirs));
    rf_engine_describe(&e->header, ours, sizeof(ours));
    const char *hint = "all ranks must make the same calls in the same order";
    if (strcmp(theirs, ours) == 0) hint = "the counts of the ranks differ";
    return RF_FAIL(RF_ERROR_INVALID_ARGUMENT, "rank %u called %s while rank %u called %s: %s", peer->rank, theirs,
                   e->rank, ours, hint);
}
