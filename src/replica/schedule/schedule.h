/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A step as a list of stages.
 *
 * The parts of a step (its trace, sums over replicas, updates, assignments) append stages when the step is prepared;
 * the runner (runner.c) carries out any list. A stage gives work to each replica, begins or ends an exchange between
 * replicas, or lets the host compute. Appending is pure: it reads what the step is made of and touches no device. So
 * the list can be printed, and tests compare it.
 *
 * The devices of several replicas work side by side, each in the order of the list. The host waits where a stage says
 * `after`, and for the end of exchanges.
 */
#ifndef RF_REPLICA_SCHEDULE_SCHEDULE_H
#define RF_REPLICA_SCHEDULE_SCHEDULE_H

#include "replica/exchange/segments.h"
#include "replica/internal.h"
#include "replica/schedule/range_graph.h"

typedef enum rf_stage_op {
    RF_STAGE_STEP,    /* submits the step's program; see rf_step_stage::piece */
    RF_STAGE_PROGRAM, /* submits a program of the action's */
    RF_STAGE_COPY,    /* submits copies between two arrays of a replica, also while a run before does */
    RF_STAGE_START,   /* an exchange between replicas begins */
    RF_STAGE_FINISH,  /* waits for its end */
    RF_STAGE_POLL,    /* where gathers have ended, finishes them now and not where the list does */
    RF_STAGE_HOST     /* the host computes */
} rf_stage_op;

/* In which steps a stage takes place; all that are set must hold. None: in each. */
enum {
    RF_WHEN_FIRST = 1,      /* the first of several accumulated ones */
    RF_WHEN_LATER = 2,      /* any other of them */
    RF_WHEN_DUE = 4,        /* those that end with the update */
    RF_WHEN_MADE = 8,       /* unless all gradients have to be dropped because some are not finite */
    RF_WHEN_OVERFLOWED = 16 /* squares have left the range of floats */
};

/* The state of an update when a stage's turn comes. */
typedef struct rf_stage_state {
    bool first, due, skipped, overflowed;
} rf_stage_state;

typedef enum rf_stage_replicas {
    RF_ON_ALL,
    RF_ON_ACTIVE,      /* those with examples */
    RF_ON_IDLE,        /* those without */
    RF_ON_FIRST_ACTIVE /* of all workers */
} rf_stage_replicas;

/* Which pieces of the step's program a stage submits. */
typedef enum rf_stage_piece {
    RF_PIECE_WHOLE,
    RF_PIECE_SUM, /* up to the sums over replicas number rf_step_stage::part */
    RF_PIECE_PART /* number rf_step_stage::part of what follows */
} rf_stage_piece;

/* Before a stage the host waits for one of these. */
#define RF_AFTER_NOTHING 0u
#define RF_AFTER(stage) ((stage) + 1) /* a stage before it */
#define RF_AFTER_ALL UINT32_MAX       /* everything that was submitted to this worker's replicas */

typedef struct rf_step_stage rf_step_stage;
typedef struct rf_step_schedule rf_step_schedule;

/* One run of a schedule, for those who take part in it. */
typedef struct rf_step_schedule_run {
    rf_strategy *strategy;
    const rf_step_schedule *schedule;
    rf_frame *const *frames;                  /* [num_local]: of the step; NULL: the replica has no examples */
    const uint32_t *examples;                 /* [num_replicas] */
    void (*fill)(void *user, uint32_t index); /* inputs of a replica's frame */
    void (*results)(void *user);              /* what the step gives can be handed out */
    void *user;
    bool paced; /* it is measured how long each replica takes */
} rf_step_schedule_run;

/* How a stage is carried out. `index` is that of a replica of this worker. */
typedef struct rf_stage_action {
    const char *name;
    /* Programs: appends what a replica computes; where that is nothing there is no program. */
    rf_result (*emit)(const rf_step_stage *stage, uint32_t index, rf_range_graph *graph);
    /* The same for programs over other states. */
    rf_result (*make)(const rf_step_stage *stage, uint32_t index, rf_program **out);
    /* Numbers that the program reads; NULL: none. */
    rf_result (*fill)(const rf_step_stage *stage, uint32_t index, rf_frame *frame);
    /* Host. */
    rf_result (*host)(const rf_step_stage *stage, const rf_step_schedule_run *run);
    /* After a failure, of a stage that was or was not reached. */
    void (*abandon)(const rf_step_stage *stage);
} rf_stage_action;

/* An array of all replicas, and where the host reaches it on those whose memory it does not see. */
typedef struct rf_stage_array {
    const rf_flat *flat, *staging;
} rf_stage_array;

/* The part of a stage that each replica has. */
typedef struct rf_stage_work {
    rf_program *program;
    rf_gpu_recording *copy; /* NULL: nothing to copy */
    /* of the run under way: */
    rf_frame *frame;
    uint64_t ticket; /* 0: nothing was submitted */
} rf_stage_work;

struct rf_step_stage {
    rf_stage_op op;
    const rf_stage_action *action;
    void *user;                  /* of the action */
    const rf_stage_state *state; /* NULL: it takes place in each step */
    uint32_t when;
    rf_stage_replicas on; /* who gets work */
    bool joins;           /* goes with the stage before, in one submission */
    bool changes;         /* variables, or what optimizers keep: not while a checkpoint copies them */
    bool clear;           /* waits for the parts that use the variables of its bucket */
    bool early;           /* of FINISH: a poll may do it before its turn */
    bool late;            /* its programs are made when they are first needed */
    bool picks_numbers;   /* as in rf_program_params */
    rf_stage_piece piece;
    uint32_t part;
    uint32_t bucket, pass; /* for the action */
    uint32_t reads;        /* HOST: number of the stage whose results it reads */
    struct {
        const rf_flat *from, *to; /* from NULL: zeros */
        const rf_segment *segments;
        uint32_t num_segments;
    } copy;
    uint32_t exchange; /* of START and FINISH: its number */
    uint32_t departs;  /* 1 + the exchange whose values then leave the devices; 0: that is part of its start */
    uint32_t after;
    /* made when the schedule is built: */
    rf_stage_work *works; /* [num_local] */
};

typedef enum rf_exchange_verb {
    RF_EXCHANGE_SUM,        /* of all replicas, for the owners of its ranges */
    RF_EXCHANGE_SUM_TO_ALL, /* then from their owners to all others */
    RF_EXCHANGE_GATHER      /* from the owners of its ranges to all others */
} rf_exchange_verb;

typedef struct rf_exchange_replica {
    rf_gpu_recording *down, *up; /* to where the exchange finds the values, and back; NULL: nothing to copy */
    rf_program *sum;             /* in imported memory; NULL: it owns nothing, or the host adds */
    rf_frame *frame;             /* of that, in the run under way */
} rf_exchange_replica;

/* An exchange between replicas: through the host's hands, from and to the devices' memory or staging, or in memory that
 * all devices have imported. */
typedef struct rf_stage_exchange {
    const char *name;
    rf_exchange_verb verb;
    const rf_segment *segments; /* borrowed */
    uint32_t num_segments;
    rf_stage_array from, to;
    rf_stage_replicas on;       /* who gives to a sum */
    bool gradients, background; /* as in rf_bucket_exchange_open() */
    bool imported;
    uint32_t number, shares; /* its own; 1 + that of an exchange of the same segments, at another time; 0: none */
    /* made when the schedule is built: */
    rf_bucket_exchange *handle;    /* NULL: imported, or shared */
    rf_exchange_replica *replicas; /* [num_local] */
    bool departed, under_way;
} rf_stage_exchange;

struct rf_step_schedule {
    rf_strategy *strategy;
    struct {
        rf_step_stage *items;
        uint32_t count, capacity;
    } stages;
    struct {
        rf_stage_exchange *items;
        uint32_t count, capacity;
    } exchanges;
    uint32_t num_parts;        /* of the step, that end with a bucket's gradients; 0: it is submitted as a whole */
    uint32_t *bucket_of_state; /* by slot of the step's graph, UINT32_MAX: none; borrowed; NULL: there are no parts */
    uint32_t num_states;
    rf_arena room;
    /* of the runner: */
    const float **from;  /* [num_local] */
    float **to;          /* [num_local] */
    uint32_t *part_of;   /* [num_parts]: stage that submits it */
    uint32_t *last_use;  /* [num_local][num_parts]: by bucket, the part that touches its variables last */
    uint32_t *next_part; /* [num_local] */
    bool *known;         /* [num_local]: last_use is */
    bool *filled;        /* [num_local]: inputs are there */
    rf_frame **frames;   /* of one submission */
    double exposed;      /* seconds of the run in which no device had anything to do */
};

extern const rf_stage_action rf_step_action; /* of RF_STAGE_STEP */

/* ---- planning ---- */

/* Appends a copy of it; stages are told apart by the numbers that they get, from 0. *number may be NULL. */
rf_result rf_step_schedule_append(rf_step_schedule *schedule, const rf_step_stage *stage, uint32_t *number);
rf_result rf_step_schedule_add_exchange(rf_step_schedule *schedule, const rf_stage_exchange *exchange,
                                        uint32_t *number);
/* An exchange from start to end, which begins when everything that was submitted has ended; `like` says of whom and in
 * which steps. */
rf_result rf_step_schedule_append_exchange(rf_step_schedule *schedule, const rf_stage_exchange *exchange,
                                           const rf_step_stage *like);

/* The part that a replica has of a stage in the run under way. */
static inline const rf_stage_work *rf_step_schedule_work(const rf_step_schedule *s, uint32_t stage, uint32_t index)
{
    return &s->stages.items[stage].works[index];
}

/* ---- building ---- */

/* Makes programs, recordings and exchanges for this worker's replicas. */
rf_result rf_step_schedule_build(rf_step_schedule *schedule);
/* Nothing of it may be in flight. */
void rf_step_schedule_free(rf_step_schedule *schedule);
/* Makes what the programs need: a lack of memory shows before a step has changed anything. */
rf_result rf_step_schedule_ready(const rf_step_schedule *schedule);
/* The program of a stage, where it has not been made; it stays NULL where there is nothing to compute. */
rf_result rf_step_schedule_make_program(const rf_step_schedule *schedule, const rf_step_stage *stage, uint32_t index);
/* The first stage with this action, for this user and bucket; NULL: there is none. */
rf_step_stage *rf_step_schedule_find(const rf_step_schedule *schedule, const rf_stage_action *action, const void *user,
                                     uint32_t bucket);

/* ---- exchange_copies.c ---- */
rf_result rf_stage_exchange_build(rf_strategy *strategy, rf_arena *room, rf_stage_exchange *exchange);
void rf_stage_exchange_free(const rf_strategy *strategy, rf_stage_exchange *exchange);
/* Copies between two arrays of a replica; from NULL: zeros. */
rf_result rf_stage_record(const rf_strategy *strategy, const rf_step_stage *stage, uint32_t index,
                          rf_gpu_recording **out);

/* ---- runner.c ---- */
/* Carries out all stages that take place in this step. After a failure nothing of it is under way between replicas, and
 * the failure sticks to the strategy. */
rf_result rf_step_schedule_carry_out(rf_step_schedule *schedule, const rf_step_schedule_run *run);
/* Whether the host waits for devices in this step, or takes part in it. */
bool rf_step_schedule_waits(const rf_step_schedule *schedule);

#endif
