/* SPDX-License-Identifier: Apache-2.0 */
#include "train/checkpoint/save_plan.h"

#include "base/memory.h"

enum { LEAST_SHARE = 4096 /* elements */, COPY_ALIGNMENT = 64 };

static rf_result add_writer(rf_owned_list *writers, uint32_t rank, rf_range range)
{
    if (range.begin == range.end) return RF_OK;
    RF_TRY(RF_VEC_GROW(writers));
    writers->items[writers->count++] = (rf_owned){ rank, range };
    return RF_OK;
}

/* Small tensors are the chief's. */
static rf_result share_equally(const rf_save_plan *p, rf_range range, rf_owned_list *writers)
{
    rf_range *shares = RF_NEW_ARRAY(rf_range, p->world_size);
    if (!shares) return RF_ERROR_OUT_OF_HOST_MEMORY;
    rf_shard_ranges(range.end - range.begin, LEAST_SHARE, p->world_size, shares);
    rf_result r = RF_OK;
    for (uint32_t i = 0; r >= 0 && i < p->world_size; i++)
        r = add_writer(writers, i, (rf_range){ range.begin + shares[i].begin, range.begin + shares[i].end });
    rf_free(shares);
    return r;
}

static bool others_have_some(const rf_owned_list *owners)
{
    for (uint32_t i = 0; i < owners->count; i++)
        if (owners->items[i].rank != 0 && owners->items[i].rank != RF_RANK_ALL) return true;
    return false;
}

static rf_result choose_writers(const rf_save_plan *p, const rf_save_input *input, rf_save_entry *entry)
{
    entry->collected = input->reach == RF_SAVE_TOGETHER ||
                       (input->reach == RF_SAVE_OWNERS && !p->sharded && others_have_some(&input->owners));
    for (uint32_t i = 0; !entry->collected && i < input->owners.count; i++) {
        const rf_owned *owned = &input->owners.items[i];
        if (p->sharded && owned->rank == RF_RANK_ALL)
            RF_TRY(share_equally(p, owned->range, &entry->writers));
        else
            RF_TRY(add_writer(&entry->writers, p->sharded ? owned->rank : 0, owned->range));
    }
    return RF_OK;
}

static void place_copies(rf_save_plan *p, rf_save_entry *entry)
{
    for (uint32_t i = 0; i < entry->writers.count; i++) {
        const rf_owned *owned = &entry->writers.items[i];
        if (owned->rank == p->rank) entry->count += owned->range.end - owned->range.begin;
    }
    entry->offset = p->staging_size;
    p->staging_size += rf_align_up(entry->count * sizeof(float), COPY_ALIGNMENT);
}

rf_result rf_save_plan_make(const rf_save_input *inputs, uint32_t count, bool sharded, uint32_t rank,
                            uint32_t world_size, rf_save_plan *out)
{
    rf_save_plan *p = out;
    *p = (rf_save_plan){ .sharded = sharded && world_size > 1, .rank = rank, .world_size = world_size };
    p->file = p->sharded ? RF_SAVE_PART : rank == 0 ? RF_SAVE_WHOLE : RF_SAVE_NO_FILE;
    p->entries = RF_NEW_ARRAY(rf_save_entry, count);
    if (!p->entries) return RF_ERROR_OUT_OF_HOST_MEMORY;
    p->count = count;
    rf_result r = RF_OK;
    for (uint32_t i = 0; r >= 0 && i < count; i++) {
        r = choose_writers(p, &inputs[i], &p->entries[i]);
        if (r >= 0) place_copies(p, &p->entries[i]);
    }
    if (r < 0) rf_save_plan_free(p);
    return r;
}

void rf_save_plan_free(rf_save_plan *plan)
{
    for (uint32_t i = 0; i < plan->count; i++) rf_free(plan->entries[i].writers.items);
    rf_free(plan->entries);
    *plan = (rf_save_plan){ 0 };
}
