/* SPDX-License-Identifier: Apache-2.0 */
/* One update of a step: what its stages are made of, and what they know in a run. */
#ifndef RF_REPLICA_UPDATE_UPDATE_H
#define RF_REPLICA_UPDATE_UPDATE_H

#include "replica/schedule/schedule.h"
#include "replica/store/variables.h"
#include "replica/update/updater.h"

/* ---- in which order buckets are exchanged while a backward pass goes on ---- */

/* The life of one bucket, in positions of nodes in the step's graph. */
typedef struct rf_bucket_life {
    uint32_t ready;    /* after this node its gradients are there */
    uint32_t last_use; /* the last node that reads one of its variables */
} rf_bucket_life;

/*
 * The run has a part for each bucket. After part k, in turn: the reduction of the bucket that is ready starts, values
 * of the buckets whose turn it is are gathered, reductions whose turn it is are waited for and their updates begin.
 * Turns after the last part are for what is left.
 */
typedef struct rf_overlap_plan {
    uint32_t num_buckets, num_turns;
    uint32_t *order; /* [num_buckets]: bucket of each part */
    uint32_t *part;  /* [num_buckets], by bucket: the reverse */
    uint32_t
        *gather; /* [num_buckets], by bucket: turn at which its values are gathered; the update begins one before */
} rf_overlap_plan;

rf_result rf_overlap_plan_make(const rf_bucket_life *lives, uint32_t num_buckets, rf_arena *arena,
                               rf_overlap_plan *out);

/* The graph that the gradients are part of, and what stands behind its states. Borrowed. */
typedef struct rf_traced_states {
    const rf_graph *graph;
    const rf_state_ref *states; /* by slot */
    uint32_t count;
} rf_traced_states;

/* The buckets of an update and the turns that they are exchanged in. */
typedef struct rf_overlap_schedule {
    bool overlaps;             /* the step is submitted in parts */
    uint32_t *bucket_of;       /* by variable of the update, as given */
    uint32_t *bucket_of_state; /* by slot of the traced graph; UINT32_MAX: the update has no such variable */
    uint32_t num_states;
    rf_overlap_plan plan;
} rf_overlap_schedule;

/* ---- updates ---- */

/* How the step's gradients are weighed among accumulated ones; HOST slots are those of the signature's graph. */
typedef struct rf_update_weighing {
    rf_divisor_kind kind;
    double elements;
    uint32_t factor_slot, keep_slot;
} rf_update_weighing;

/* These facts decide which stages an update has. */
typedef struct rf_update_facts {
    bool accumulates;    /* gradients of several steps */
    bool exchanges;      /* there are several replicas */
    bool hands_on;       /* owners hand new values to the others */
    bool central;        /* one replica owns all */
    bool imported;       /* devices exchange in memory that all have imported */
    bool paced;          /* it is measured how long replicas take */
    bool transform;      /* something is computed from whole gradients */
    bool joins;          /* nothing comes between it and the step that the host waits for: they are one submission */
    bool device_decides; /* of scaled losses: the device finds out whether there is an update */
    bool host_decides;   /* the host does: replicas check what they have before it is exchanged */
} rf_update_facts;

/* Segments that are exchanged and updated at once. */
typedef struct rf_update_bucket {
    const rf_segment *segments;
    uint32_t num_segments;
} rf_update_bucket;

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
    rf_arena room;
    rf_update_facts facts;
    rf_variable **sorted;   /* `variables` by offset */
    rf_range *spans;        /* of `sorted` */
    uint32_t *hyper_of;     /* of `sorted`: its place in `hypers` */
    uint32_t *hyper_groups; /* [num_hypers]: whose numbers these are */
    rf_segment_list runs;   /* ranges of gradients without gaps */
    rf_segment_list segments;
    rf_update_bucket *buckets; /* of `segments`; one holds all of them where nothing overlaps */
    uint32_t num_buckets;
    rf_segment_list wholes; /* those of `segments` whose variables are updated as a whole */
    uint32_t num_hypers;    /* one per group, or per variable; HOST slot i of the update's program is hyper i */
    rf_overlap_schedule overlap;
    /* of the run under way, and room: */
    rf_stage_state state;
    float *hypers;   /* [num_hypers][num_rows][hyper_count] */
    double *squares; /* [num_hypers]: sums of squares, of one variable or of all */
    float *sums;     /* that devices made, segment by segment, block by block */
    double *exact;   /* the same without the limits of floats */
    uint64_t num_sums;
    double reference, factor; /* of the step under way: the unit of divisors, and its own in that */
    double weight, divisor;   /* of all accumulated steps with it: what the host knows, and everything */
    double rows_divisor;      /* that rows were made with */
    float found_here, found;  /* not 0: gradients are not finite, of this worker, of any */
    rf_comm_request *finding; /* asks the other workers; or NULL */
    uint32_t num_rows;        /* of numbers that each group has, where the device decides */
    uint64_t *rows_made;      /* [num_rows]: 1 + the update that the row is for; 0: none */
    uint64_t numbers_version; /* of the updater, when they were made */
} rf_update;

/* The array that the update is made with, once it is reduced. */
static inline rf_flat *rf_update_gradients(const rf_update *update)
{
    return update->transform.graph ? &update->updater->transformed : rf_updater_gradients(update->updater);
}

/* A stage of steps that update, which waits for nothing. */
static inline rf_step_stage rf_update_stage(rf_update *update, rf_stage_op op, const rf_stage_action *action)
{
    return (rf_step_stage){ .op = op,
                            .action = action,
                            .user = update,
                            .state = &update->state,
                            .when = update->facts.accumulates ? RF_WHEN_DUE : 0 };
}

/* The condition of stages that come after the decision whether there is an update. */
static inline uint32_t rf_update_when_made(const rf_update *update)
{
    return update->facts.host_decides ? RF_WHEN_MADE : 0;
}

/* Whether the variables that a segment's numbers are for are updated as a whole. */
static inline bool rf_update_is_whole(const rf_update *update, uint32_t hyper)
{
    const rf_updater_params *p = &update->updater->params;
    return p->whole_matrix && update->hyper_groups[hyper] >= p->whole_matrix->first_group;
}

/* Whether a replica of this worker owns anything of it. */
static inline bool rf_update_owns_some(const rf_update *update, uint32_t index)
{
    for (uint32_t i = 0; i < update->segments.count; i++)
        if (rf_segment_is_owned(update->updater->strategy, &update->segments.items[i], index)) return true;
    return false;
}

/* ---- update_build.c ---- */
/* Pure, but for what the strategy and its arrays are. */
rf_update_facts rf_update_facts_of(const rf_update *update);
/* Whether an update that is alone in its step can be prepared by bucket, so that gradients are exchanged while the
 * backward pass goes on. */
bool rf_update_can_overlap(const rf_update *update);
/* `under_way`: runs that may be, 2 to RF_MAX_FRAMES. */
rf_result rf_update_prepare(rf_update *update, const rf_traced_states *traced, bool by_bucket, uint32_t under_way);
/* Nothing of it may be in flight, and no schedule has stages of it. */
void rf_update_unprepare(rf_update *update);
void rf_update_free(rf_update *update);

/* ---- overlap_plan.c ---- */
/* Pure. */
rf_result rf_overlap_schedule_make(const rf_update *update, const rf_traced_states *traced, bool overlaps,
                                   rf_arena *arena, rf_overlap_schedule *out);

/* ---- update_plan.c ---- */
/* Stages in the submission of the step itself. */
rf_result rf_update_append_joined(rf_step_schedule *schedule, rf_update *update);
/* Those after it. */
rf_result rf_update_append(rf_step_schedule *schedule, rf_update *update);

/* ---- update_programs.c ---- */
extern const rf_stage_action rf_update_accumulate_action, rf_update_transform_action, rf_update_apply_action;
/* The values that an update of one segment reads and changes. */
typedef struct rf_segment_values {
    rf_value param, grad, direction, slots[RF_MAX_SLOTS], hyper[1 + RF_MAX_SCALARS];
} rf_segment_values;
typedef rf_result (*rf_segment_emit)(const rf_step_stage *stage, uint32_t index, rf_range_graph *g,
                                     const rf_segment *segment, const rf_segment_values *values);
/* A program over those of the segments that the replica owns, which may read numbers. */
rf_result rf_update_emit_segments(const rf_step_stage *stage, uint32_t index, rf_range_graph *g,
                                  const rf_segment *segments, uint32_t num_segments, rf_segment_emit emit);

/* ---- update_numbers.c ---- */
extern const rf_stage_action rf_update_divisor_action, rf_update_numbers_action;
/* `examples`: of this worker's replicas; NULL where nothing depends on them. */
rf_result rf_update_compute_numbers(rf_update *update, const uint32_t *examples);
/* Numbers that a program of the update reads. */
rf_result rf_update_fill_numbers(const rf_step_stage *stage, uint32_t index, rf_frame *frame);
/* Before a run of so many examples: everything that its stages are told by. */
void rf_update_begin(rf_update *update, uint64_t examples);
/* Once the run is under way. */
extern const rf_stage_action rf_update_count_action;
/* Says which variables it updates, and with which settings. */
void rf_update_describe(const rf_update *update, rf_update_settings *settings);

/* ---- loss_scale.c ---- */
/* Before gradients are exchanged: replicas check what they have; once that has ended: tells the other workers what was
 * found; and once gradients are exchanged: decides, divides the sums by the scale, changes the scale. */
rf_result rf_update_append_check(rf_step_schedule *schedule, rf_update *update, uint32_t departs);
rf_result rf_update_append_finding(rf_step_schedule *schedule, rf_update *update);
rf_result rf_update_append_unscale(rf_step_schedule *schedule, rf_update *update);
/* Where the device decides: what the update's program does first; *decided is a result of it. */
rf_result rf_update_emit_decided(const rf_step_stage *stage, uint32_t index, rf_range_graph *g, rf_value *decided);

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

/* ---- whole_matrix_update.c ---- */
rf_result rf_update_append_whole_matrices(rf_step_schedule *schedule, rf_update *update);

/* ---- norms.c ---- */
/* Norms of reduced gradients: update->squares. */
rf_result rf_update_append_norms(rf_step_schedule *schedule, rf_update *update);
/* Ratios of norms, taken in the middle of the update (LAMB). */
rf_result rf_update_append_norm_ratios(rf_step_schedule *schedule, rf_update *update);
/* Blocks of a segment that sums are made of: one where the updater has no norm_ratio. */
uint64_t rf_update_num_blocks(const rf_update *update, const rf_segment *segment);

#endif
