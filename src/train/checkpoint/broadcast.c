/* SPDX-License-Identifier: Apache-2.0 */
/* Broadcasts what the chief of a job has read to all workers. */
#include <stdio.h>
#include <string.h>

#include "train/checkpoint/checkpoint.h"

/* ---- what is believed ---- */

rf_item_header rf_item_header_of(const rf_item_value *value)
{
    rf_item_header header = { value->present, value->size, value->number, (uint64_t)value->shape.rank, { 0 } };
    memcpy(header.dim, value->shape.dim, sizeof(header.dim));
    return header;
}

/* As the chief found it in the file: of the item's shape, with as many bytes as that has. */
static bool is_tensor(const rf_item *item, const rf_item_header *header)
{
    if (header->shape_rank != (uint64_t)item->shape.rank) return false;
    size_t bytes = rf_dtype_size(item->kind->dtype);
    for (int32_t i = 0; i < item->shape.rank; i++) {
        const bool free_row = i == 0 && item->kind->free_rows;
        if (header->dim[i] < 0 || (!free_row && header->dim[i] != item->shape.dim[i])) return false;
        if (!rf_mul_size(bytes, (size_t)header->dim[i], &bytes)) return false;
    }
    return bytes == header->size;
}

rf_result rf_item_header_take(const rf_item *item, const rf_item_header *header, rf_item_value *out)
{
    *out = (rf_item_value){ 0 };
    if (header->present == 0) return RF_OK;
    const bool sound = item->kind->form == RF_ITEM_TENSOR   ? is_tensor(item, header)
                       : item->kind->form == RF_ITEM_NUMBER ? header->size == 0
                                                            : header->size < SIZE_MAX;
    if (!sound) return RF_FAIL(RF_ERROR_CORRUPT_DATA, "rank 0 sent an unexpected value for '%s'", item->name);
    *out = (rf_item_value){ .present = true, .size = header->size, .number = header->number };
    if (item->kind->form != RF_ITEM_TENSOR) return RF_OK;
    out->shape = item->shape;
    if (item->shape.rank > 0) out->shape.dim[0] = header->dim[0];
    return RF_OK;
}

bool rf_part_id_is_valid(const rf_part_id *id)
{
    const size_t length = strnlen(id->text, sizeof(id->text));
    return length > 0 && length < sizeof(id->text) && strspn(id->text, "0123456789abcdef-") == length;
}

/* ---- messages ---- */

rf_result rf_broadcast_bytes(rf_strategy *strategy, const char *name, void *data, uint64_t size)
{
    if (rf_strategy_world_size(strategy) == 1 || size == 0) return RF_OK;
    return rf_comm_broadcast(rf_strategy_comm(strategy), data, size, RF_U8, 0, &(rf_collective_params){ .name = name });
}

rf_result rf_gather_bytes(rf_strategy *strategy, const char *name, const void *mine, void *all, uint64_t size)
{
    const uint32_t ranks = rf_strategy_world_size(strategy);
    uint64_t *counts = RF_NEW_ARRAY(uint64_t, ranks);
    if (!counts) return rf_strategy_fail_in_job(strategy, RF_ERROR_OUT_OF_HOST_MEMORY);
    for (uint32_t i = 0; i < ranks; i++) counts[i] = size;
    const rf_result r = rf_comm_all_gather(rf_strategy_comm(strategy), mine, all, counts, RF_U8,
                                           &(rf_collective_params){ .name = name });
    rf_free(counts);
    return r;
}

rf_result rf_broadcast_result(rf_strategy *strategy, rf_result chiefs)
{
    if (rf_strategy_world_size(strategy) == 1) return chiefs;
    struct outcome {
        int32_t result;
        char message[1000];
    } outcome = { .result = RF_OK };
    rf_error_record record;
    rf_error_save(&record);
    if (rf_strategy_is_chief(strategy) && chiefs < 0) {
        outcome.result = chiefs;
        snprintf(outcome.message, sizeof(outcome.message), "%.*s", (int)sizeof(outcome.message) - 1, record.message);
    }
    RF_TRY(rf_broadcast_bytes(strategy, "outcome of a checkpoint", &outcome, sizeof(outcome)));
    if (rf_strategy_is_chief(strategy)) return chiefs < 0 ? rf_error_restore(&record) : chiefs;
    outcome.message[sizeof(outcome.message) - 1] = '\0';
    return outcome.result < 0 ? RF_FAIL(rf_error_code(outcome.result), "rank 0: %s", outcome.message) : RF_OK;
}
