/* SPDX-License-Identifier: Apache-2.0 */
/* State that an optimizer keeps between steps. */
#ifndef RF_REPLICA_UPDATE_UPDATER_H
#define RF_REPLICA_UPDATE_UPDATER_H

#include "replica/exchange/segments.h"
#include "replica/internal.h"
#include "replica/schedule/range_graph.h"

typedef struct rf_pending_update {
    rf_frame *frame;
    uint64_t ticket;
} rf_pending_update;

struct rf_updater {
    uint32_t references;
    rf_strategy *strategy;
    rf_updater_params params;
    bool destroyed;            /* by its user; what `params` points to is gone */
    const char *suspended;     /* why nothing may be updated now; NULL: it may */
    uint64_t iterations, runs; /* runs: steps, also those that end with no update */
    uint64_t numbers_version;  /* raised when hyper() would give others */
    uint32_t accumulated;      /* steps since the last update */
    struct {
        rf_variable **items;
        uint32_t count, capacity;
    } variables;                         /* all it has met, by offset; references */
    rf_segment_list plan;                /* of all of them */
    uint64_t generation;                 /* raised with the plan */
    rf_gpu_buffer **slots[RF_MAX_SLOTS]; /* [num_local]: the owner's shard only, by rf_segment::slot_offset */
    rf_flat transformed;   /* places as in the strategy's `trainable`; only where gradients are transformed */
    rf_flat directions;    /* the same places; only where whole variables have directions */
    const rf_flat *latest; /* what the latest update was made with */
    rf_flat totals;        /* sums of gradients over accumulated steps; places as in the strategy's `trainable` */
    struct {
        double sum, reference;  /* what the accumulated steps count, and the first one's divisor; 0: not known */
        rf_local_state *device; /* sums of weights that the host does not know; NULL: no step has any */
        bool *took_part;        /* [num_local]: whose are of this update */
    } weights;
    struct {
        rf_local_state *scale, *tally; /* NULL: losses are not scaled */
        float skipped;                 /* steps, as far as the host knows */
        /* Updates under way that may turn out to be skipped, the oldest first; they count as made until then. Their
         * frames tell how many are skipped by then. */
        rf_pending_update updates[RF_MAX_FRAMES];
        uint32_t pending;
    } scaling;
};

rf_updater *rf_updater_retain(rf_updater *updater);
void rf_updater_release(rf_updater *updater);
/* Room for accumulated and transformed gradients, and for directions, where there are any. */
rf_result rf_updater_ensure_arrays(rf_updater *updater, bool transforms);
static inline bool rf_updater_scales(const rf_updater *u)
{
    return u->params.scaling.initial > 0;
}
/* Whether each variable has numbers of its own. */
static inline bool rf_updater_by_variable(const rf_updater *u)
{
    return u->params.norms == RF_NORMS_VARIABLE || u->params.norm_ratio;
}
/* Numbers of one group or variable: those of the array, and scalars. */
static inline uint32_t rf_updater_num_numbers(const rf_updater *u)
{
    return u->params.hyper_count + u->params.num_scalars;
}
/* Elements of the blocks that norms are summed in; 0: there are none. */
static inline uint64_t rf_updater_block(const rf_updater *u)
{
    return u->params.norm_ratio ? u->params.norm_ratio->block : 0;
}
/* The array that gradients are summed in and read from. */
static inline rf_flat *rf_updater_gradients(rf_updater *u)
{
    return u->params.accumulation_steps > 1 ? &u->totals : &u->strategy->store.gradients;
}

/* Where this worker has what a segment's owner has; UINT32_MAX: another worker has it. */
static inline uint32_t rf_segment_index(const rf_strategy *s, const rf_segment *segment)
{
    if (segment->owner == RF_OWNER_ALL) return 0;
    return rf_strategy_is_local(s, segment->owner) ? segment->owner - s->members.first : UINT32_MAX;
}
/* The segment's elements from element `at` of its owner's array, whose worker passes them on to the others. */
rf_result rf_segment_read(rf_strategy *strategy, const char *name, rf_gpu_buffer *const *buffers, rf_state_form form,
                          const rf_segment *segment, uint64_t at, float *values);

/* ---- slots.c: numbers of a slot, whatever it is stored in ---- */
rf_result rf_slot_read(rf_gpu_buffer *buffer, rf_state_form form, uint64_t first, uint64_t count, float *values);
/* From the beginning of a block on; where the last block is not full, zeros follow. */
rf_result rf_slot_write(rf_gpu_buffer *buffer, rf_state_form form, uint64_t first, uint64_t count, const float *values);
/* For a segment that the replica owns: a STATE value that ends with the segment's elements. */
rf_result rf_slot_state(const rf_updater *updater, uint32_t slot, uint32_t index, rf_range_graph *g,
                        const void *identity, const rf_segment *segment, rf_value *out);

/* ---- step_weight.c ---- */
/* From here on there are weights that the host does not know. */
rf_result rf_updater_ensure_weights(rf_updater *updater);

/* ---- loss_scale.c ---- */
rf_result rf_updater_create_scale(rf_updater *updater);
void rf_updater_free_scale(rf_updater *updater);
/* Learns what came of pending updates that have ended, and waits where there would be more than `most` with another. */
rf_result rf_updater_learn_pending(rf_updater *updater, uint32_t most);
void rf_updater_add_pending(rf_updater *updater, rf_frame *frame, uint64_t ticket);
/* Nothing is pending after this, which waits; nor after a failure, whatever came of it. */
rf_result rf_updater_settle(rf_updater *updater);

#endif
