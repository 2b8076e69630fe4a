/* SPDX-License-Identifier: Apache-2.0 */
/* Checks that two ranks make the same call. */
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

/* Every call is described, and printf() takes as long for it as a small message between two processes. */
typedef struct line_text {
    char *text;
    size_t size, used;
} line_text;

static void add_text(line_text *line, const char *text)
{
    while (*text && line->used + 1 < line->size) line->text[line->used++] = *text++;
    line->text[line->used] = '\0';
}

static void add_number(line_text *line, uint64_t number)
{
    char digits[24];
    size_t at = sizeof(digits) - 1;
    digits[at] = '\0';
    do {
        digits[--at] = (char)('0' + number % 10);
        number /= 10;
    } while (number > 0);
    add_text(line, digits + at);
}

void rf_engine_describe(const rf_call_header *h, char *text, size_t size)
{
    static const char *const ops[] = { "sum", "max", "min" };
    const bool reduces = h->kind == RF_COLLECTIVE_ALL_REDUCE || h->kind == RF_COLLECTIVE_REDUCE_SCATTER;
    line_text line = { text, size, 0 };
    add_text(&line, rf_collective_name(h->kind));
    if (h->name[0]) {
        char name[sizeof(h->name)];
        memcpy(name, h->name, sizeof(name));
        name[sizeof(name) - 1] = '\0';
        add_text(&line, " '");
        add_text(&line, name);
        add_text(&line, "'");
    }
    add_text(&line, " (number ");
    add_number(&line, h->serial);
    add_text(&line, ", ");
    if (reduces && h->op < 3) add_text(&line, ops[h->op]);
    if (reduces) add_text(&line, " of ");
    add_number(&line, h->count);
    add_text(&line, " ");
    add_text(&line, rf_dtype_name(h->dtype));
    if (h->wire) {
        add_text(&line, " as ");
        add_text(&line, rf_dtype_name(h->wire));
    }
    if (h->kind == RF_COLLECTIVE_BROADCAST) {
        add_text(&line, " from rank ");
        add_number(&line, h->root);
    }
    add_text(&line, ", ");
    add_text(&line, rf_algorithm_name(h->algorithm));
    add_text(&line, ")");
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
