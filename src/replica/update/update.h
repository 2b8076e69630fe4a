/* SPDX-License-Identifier: Apache-2.0 */
/* One update of a step: what it needs on each replica, and running it. */
#ifndef RF_REPLICA_UPDATE_UPDATE_H
#define RF_REPLICA_UPDATE_UPDATE_H

#include "replica/update/repeated.h"
#include "replica/update/updater.h"

/* How the step's gradients are weighed among accumulated ones; HOST slots are those of the signature's graph. */
typedef struct rf_update_weighing {
    rf_divisor_kind kind;
    double elements;
    uint32_t factor_slot, keep_slot;
} rf_update_weighing;

/* One rf_trace_update() of a signature. */
typedef struct rf_update {
    rf_updater *updater;
    rf_variable **variables; /* references, as given */
    rf_value *gradients;     /* in the signature's graph */
    uint32_t count;
    rf_gradient_transform transform;
    uint64_t transform_hash; /* of its graph */
    rf_update_weighing weighing;
    /* made for the generations of the signature: */
    rf_variable **sorted;   /* `variables` by offset */
    rf_range *spans;        /* of `sorted` */
    uint32_t *hyper_of;     /* of `sorted`: its place in `hypers` */
    uint32_t *hyper_groups; /* [num_hypers]: whose numbers these are */
    rf_range *runs;         /* of gradients without gaps */
    uint32_t num_runs;
    rf_segment_list segments;
    struct rf_update_bucket *buckets; /* of `segments`; one holds all of them where nothing overlaps */
    uint32_t num_buckets;
    rf_segment_list wholes;              /* those of `segments` that have directions */
    rf_bucket_exchange *wholes_exchange; /* NULL: replicas have what they need of each other's */
    uint32_t num_hypers;                 /* one per group, or per variable; HOST slot i of `apply` is hyper i */
    struct rf_update_replica *replicas;  /* [num_local] */
    /* room that a step needs: */
    float *hypers;            /* [num_hypers][num_rows][hyper_count] */
    double *squares;          /* [num_hypers]: sums of squares, of one variable or of all */
    float *sums;              /* that devices made, segment by segment, block by block */
    float *gathered;          /* room for as many */
    double *exact;            /* the same without the limits of floats */
    double reference, factor; /* of the step under way: the unit of divisors, and its own in that */
    double weight, divisor;   /* of all accumulated steps with it: what the host knows, and everything */
    double rows_divisor;      /* that rows were made with */
    float found_here, found;  /* not 0: gradients are not finite, of this worker, of any */
    rf_comm_request *finding; /* asks the other workers; or NULL */
    bool ready;               /* rf_update_ready() has been here */
    bool skipped;             /* the latest update was not made, because some were not */
    uint32_t num_rows;        /* of numbers that each group has; see rf_update_decides() */
    uint64_t *rows_made;      /* [num_rows]: 1 + the update that the row is for; 0: none */
    uint64_t numbers_version; /* of the updater, when they were made */
    uint64_t *counts;         /* [world size] */
    rf_frame **frames;        /* [num_local] */
    struct rf_turns *turns;
} rf_update;

/* Sums of squares of numbers as they are, and of numbers that are made smaller (norms.c). */
#define RF_UPDATE_PASSES 2

typedef struct rf_update_replica {
    rf_program *accumulate, *transform;                             /* NULL where there is nothing to do */
    rf_program *norms[RF_UPDATE_PASSES], *ratios[RF_UPDATE_PASSES]; /* those after the first, when first needed */
    rf_program *check, *unscale, *decide; /* of losses that are scaled; see rf_update_asks() */
    uint32_t *norm_segments;              /* segment of each result of `norms` */
    uint32_t num_norms;
    uint32_t *ratio_segments; /* segment of each result of `ratios` */
    uint32_t num_ratios;
    rf_program *directions, *wholes;                   /* the two steps of directions */
    rf_gpu_recording *directions_down, *directions_up; /* staging between them */
    rf_repeated first, clear;                          /* totals = gradients; totals = 0 */
} rf_update_replica;

/* What is exchanged and updated at once. */
typedef struct rf_update_bucket {
    const rf_segment *segments;
    uint32_t num_segments;
    struct rf_update_bucket_replica *replicas; /* [num_local] */
} rf_update_bucket;

typedef struct rf_update_bucket_replica {
    rf_program *apply;                                                         /* NULL: it owns nothing of the bucket */
    rf_program *sum;                                                           /* of gradients that meet; or NULL */
    rf_gpu_recording *gradients_down, *gradients_up, *values_down, *values_up; /* staging */
} rf_update_bucket_replica;

/* What the update is made with, once it is reduced. */
static inline rf_flat *rf_update_gradients(const rf_update *update)
{
    return update->transform.graph ? &update->updater->transformed : rf_updater_gradients(update->updater);
}

/* Gradients are added up by their owners' devices, in memory that all devices have (meeting.h). Transforms take all
 * sums on all replicas. */
static inline bool rf_update_meets(const rf_update *update)
{
    const rf_updater *u = update->updater;
    return u->strategy->meeting.memory && !update->transform.graph && u->params.emit_accumulate;
}

/* The whole update goes with stage A: nothing comes between that the host waits for. */
static inline bool rf_update_joins(const rf_update *update)
{
    const rf_updater *u = update->updater;
    const rf_updater_params *p = &u->params;
    if (u->weights.device) return false;
    if (u->strategy->num_replicas > 1 || p->variable_norms || p->global_norm || p->emit_norms || p->whole) return false;
    /* Scalars are made anew for each update by a function of the user's, which must not be called for one that may not
     * be made. */
    return !update->transform.graph && !(rf_updater_scales(u) && p->num_scalars > 0);
}
/* The device finds out whether the update is made. Numbers depend on how many were: each group has a row of them for
 * each number of updates under way that may turn out to be skipped. */
static inline bool rf_update_decides(const rf_update *update)
{
    return rf_updater_scales(update->updater) && rf_update_joins(update);
}
/* The host finds out: replicas check what they have before it is exchanged. */
static inline bool rf_update_asks(const rf_update *update)
{
    return rf_updater_scales(update->updater) && !rf_update_joins(update);
}
/* Whether the run that comes next ends with the update: one that accumulates gradients does so now and then. */
static inline bool rf_update_is_due(const rf_update *update)
{
    const rf_updater *u = update->updater;
    return u->accumulated + 1 == u->params.accumulation_steps;
}

/* ---- update_build.c ---- */
/* `under_way`: runs that may be, 2 to RF_MAX_FRAMES. */
rf_result rf_update_prepare(rf_update *update, bool by_bucket, uint32_t under_way);
void rf_update_unprepare(rf_update *update);
void rf_update_free(rf_update *update);
/* What the first of several accumulated steps does to the sums of a replica: its gradients replace them, or, where it
 * has none, zeros do. */
rf_result rf_update_record_first(rf_update *update, uint32_t index, bool clear, rf_gpu_recording **out);

/* Sums of squares of a replica's segments in a pass, for norms or ratios, made where they have not been; NULL: it has
 * none. */
rf_result rf_update_sums_program(rf_update *update, uint32_t index, bool ratios, uint32_t pass, rf_program **out);

/* ---- update_run.c ---- */
/* Frames that belong to the same submission as the replica's stage A, appended to frames[*count]. */
rf_result rf_update_join_submission(rf_update *update, uint32_t index, rf_frame **frames, uint32_t *count);
/* Makes what the programs need: a lack of memory shows before a step has changed anything. */
rf_result rf_update_ready(rf_update *update);
/* Everything after stage A was submitted on all replicas; on those with examples[r] == 0 it was not. Where it has to be
 * submitted in parts, it is submitted here: frames[r] hold their inputs (NULL where examples[r] is 0). Both are those
 * of this worker's replicas. */
rf_result rf_update_run(rf_update *update, rf_frame *const *frames, const uint32_t *examples);
/* What it updates, and with which settings. */
void rf_update_describe(const rf_update *update, rf_update_settings *settings);
/* Most frames that one update adds to a submission. */
#define RF_UPDATE_FRAMES 2

/* Numbers that a frame of one of the update's programs reads. */
void rf_update_fill_hypers(const rf_update *update, uint32_t index, rf_frame *frame);

/* ---- loss_scale.c ---- */
/* What the sums are rounded to on their way. */
rf_dtype rf_update_wire(const rf_update *update);
/* Where the host asks (rf_update_asks()), once the checks of this worker's replicas have ended and before gradients are
 * exchanged: starts to tell the other workers what they found. checks[r] NULL: the replica has no gradients. */
rf_result rf_update_start_finding(rf_update *update, rf_frame *const *checks);
/* Then, once gradients are exchanged: sets update->skipped on all workers alike, and submits the division of the sums
 * by the scale, and what the step does to the scale. Waits for no device. */
rf_result rf_update_unscale(rf_update *update);
/* Ends what was started, whatever became of it. */
void rf_update_stop_finding(rf_update *update);
/* Where the device does (rf_update_decides()): the rows of numbers that it may take, and a frame that has them. A row
 * is made once, for some take long. */
void rf_update_compute_rows(rf_update *update);
void rf_update_fill_rows(const rf_update *update, rf_frame *frame);

/* ---- step_weight.c ---- */
/* Before anything of a step of so many examples is filled in. */
void rf_update_begin_weight(rf_update *update, uint64_t examples);
void rf_update_fill_weight(const rf_update *update, uint32_t index, rf_frame *frame);
/* Once the step is under way; examples are those of this worker's replicas. */
void rf_update_count_weight(rf_update *update, const uint32_t *examples);
/* update->divisor. Collective, and waits, where there are weights that the host does not know. */
rf_result rf_update_take_divisor(rf_update *update, const uint32_t *examples);
/* Numbers of hyper(), which divides by accumulation_steps, become those for the divisor. */
void rf_update_weigh_numbers(const rf_update *update, float *values);

/* ---- ratios.c ---- */
/* Where there are ratios: changes the slots and puts the ratios into the numbers of the update. Waits. */
rf_result rf_update_take_ratios(rf_update *update);

/* ---- directions.c ---- */
/* Whether the variables that a segment's numbers are for have directions. */
bool rf_update_is_whole(const rf_update *update, uint32_t hyper);
/* Lists them, and how they travel, once the segments are known. */
rf_result rf_update_list_wholes(rf_update *update);
/* Changes the slots and makes the directions. */
rf_result rf_update_take_directions(rf_update *update);

/* ---- norms.c ---- */
/* The replica whose sums of a segment count: the owner; of a segment that all have, the first, so that all use the same
 * number. */
uint32_t rf_update_norm_reader(const rf_segment *segment);
/* Blocks of a segment that sums are made of: one where the updater has no norm_block. */
uint64_t rf_update_num_blocks(const rf_update *update, const rf_segment *segment);
/* Copies a replica's results, one for each of the `count` segments listed, to their places in update->sums. A block has
 * `width` sums. */
void rf_update_collect_sums(rf_update *update, uint32_t index, const uint32_t *segments, uint32_t count,
                            uint32_t width);
/* Sums of this worker's segments become those of all. */
rf_result rf_update_share_sums(rf_update *update, uint32_t width);
float rf_update_pass_scale(uint32_t pass);
/* update->exact, from what `run` leaves in update->sums of this worker's segments. */
rf_result rf_update_take_sums(rf_update *update, uint32_t width, rf_result (*run)(rf_update *update, uint32_t pass));
/* Takes the norms of reduced gradients: update->squares. Waits. */
rf_result rf_update_reduce_norms(rf_update *update);

#endif
