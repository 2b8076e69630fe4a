/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the files of this folder share.
 *
 * Replicas are numbered over all workers of a job, in order of rank; plans, owners and messages use these numbers.
 * Arrays here hold this worker's replicas only and are indexed from 0: entry r is replica `first + r`.
 *
 * Ownership: objects are counted. The strategy's inside lives until the last of its children is gone, so destroying in
 * the wrong order is harmless. A function's signatures hold the variables, updaters and local states that they use; an
 * updater holds its variables; variables, updaters, local states and functions hold the strategy.
 */
#ifndef RF_REPLICA_INTERNAL_H
#define RF_REPLICA_INTERNAL_H

#include <pthread.h>
#include <stdatomic.h>

#include "base/memory.h"
#include "exec/exec.h"
#include "replica/balance/balancing.h"
#include "replica/exchange/exchange.h"
#include "replica/strategy.h"
#include "replica/update/update_plan.h"
#include "replica/world.h"

typedef struct rf_replica {
    rf_gpu_device *device;
    rf_exec *exec;
    uint64_t ticket; /* of the last submission */
    bool staged;     /* the host reaches device memory only through copies */
} rf_replica;

/* What is known of replicas on all workers. */
typedef struct rf_replica_identity {
    char name[256], driver_name[256]; /* as in rf_device_info */
    uint32_t driver_version;
} rf_replica_identity;

/* One f32 array per replica. */
typedef struct rf_flat {
    const char *name;
    rf_gpu_buffer **buffers; /* [num_local]; NULL while the capacity is 0 */
    uint64_t capacity;       /* elements */
} rf_flat;

/* Variables one after the other in creation order, the same places on every replica. Gaps and what follows are zero. */
typedef struct rf_store {
    rf_flat values;
    uint64_t used; /* elements */
    struct {
        rf_variable **items;
        uint32_t count, capacity;
    } variables; /* by offset; not counted references */
} rf_store;

/* An rf_state_copy that reads trainable variables and optimizer slots; there is one at a time. */
typedef struct rf_copying {
    pthread_mutex_t mutex;
    pthread_cond_t ended;
    bool under_way;
} rf_copying;

struct rf_strategy {
    uint32_t references;
    int64_t process; /* that made it */
    rf_gpu *gpu;
    rf_replica *replicas;  /* of this worker */
    uint32_t num_local;    /* of this worker */
    uint32_t num_replicas; /* of all workers */
    uint32_t first;        /* number of replicas[0] */
    rf_world world;
    rf_replica_identity *identities; /* [num_replicas] */
    double *shares;                  /* [num_replicas], as given; NULL: equal */
    rf_balancing balancing;
    rf_update_mode update_mode;
    bool central;             /* replica 0 owns all variables, the others have copies */
    uint64_t alignment;       /* of variables in their store, in elements */
    uint64_t bucket_elements; /* as asked for; 0: see rf_bucket_size() */
    uint64_t max_piece;
    uint64_t seed;
    uint64_t variables_created;
    uint32_t trace_serial;
    rf_store trainable, fixed; /* fixed: variables that no optimizer may touch */
    rf_flat gradients;         /* places as in `trainable` */
    rf_flat download, upload;  /* staging, places as in `trainable`; only on staged replicas of several */
    uint64_t generation;       /* raised when arrays move: programs made before are of no use any more */
    rf_copying copying;
    rf_exchange *exchange;
    bool overlap; /* exchange gradients while the backward pass goes on */
    rf_exchange_stats stats;
    uint32_t check_interval;    /* updates between comparisons of the replicas */
    uint32_t updates_to_check;  /* left until the next one */
    uint64_t variables_checked; /* `variables_created` at the latest one */
    uint32_t perturbed;         /* replica whose learning rate is wrong, for tests; UINT32_MAX: none */
    atomic_bool stop_requested; /* set by signal handlers */
    bool stop_agreed;
    bool failed; /* a wait failed: replicas may differ, every later step reports it */
    rf_error_record failure;
};

struct rf_variable {
    uint32_t references;
    rf_strategy *strategy;
    char *name;
    rf_shape shape;
    uint64_t count, offset; /* elements */
    bool trainable;
    rf_updater *updater; /* the last one that updated it; not a counted reference: an updater that goes clears it */
};

struct rf_local_state {
    uint32_t references;
    rf_strategy *strategy;
    char *name;
    uint32_t count;
    rf_flat values;
};

struct rf_updater {
    uint32_t references;
    rf_strategy *strategy;
    rf_updater_params params;
    bool destroyed; /* by its user; what `params` points to is gone */
    uint64_t iterations;
    uint32_t accumulated; /* steps since the last update */
    struct {
        rf_variable **items;
        uint32_t count, capacity;
    } variables;                         /* all it has met, by offset; references */
    rf_piece_list plan;                  /* of all of them */
    uint64_t generation;                 /* raised with the plan */
    rf_gpu_buffer **slots[RF_MAX_SLOTS]; /* [num_local]: the owner's part only, by rf_piece::slot_offset */
    rf_flat totals; /* sums of gradients over accumulated steps; places as in the strategy's `trainable` */
};

/* One rf_trace_update() of a signature. */
typedef struct rf_update {
    rf_updater *updater;
    rf_variable **variables; /* references, as given */
    rf_value *gradients;     /* in the signature's graph */
    uint32_t count;
    /* made for the generations of the signature: */
    rf_variable **sorted; /* `variables` by offset: what rf_piece::variable counts */
    rf_range *spans;      /* of `sorted` */
    rf_range *runs;       /* of gradients without gaps */
    uint32_t num_runs;
    rf_piece_list pieces;
    struct rf_update_part *parts; /* of `pieces`: all, or one part for each bucket */
    uint32_t num_parts;
    uint32_t num_hypers;                /* 1, or one per variable; HOST slot i of `apply` is hyper i */
    struct rf_update_replica *replicas; /* [num_local] */
    /* room that a step needs: */
    float *hypers;     /* [num_hypers][hyper_count] */
    double *squares;   /* [num_hypers]: sums of squares, then norms */
    float *partials;   /* [pieces.count] */
    float *gathered;   /* [pieces.count] */
    uint64_t *counts;  /* [world size] */
    rf_frame **frames; /* [num_local] */
    struct rf_turns *turns;
} rf_update;

typedef struct rf_update_replica {
    rf_program *accumulate, *norms; /* NULL where there is nothing to do */
    uint32_t *norm_pieces;          /* piece of each result of `norms` */
    uint32_t num_norms;
    rf_gpu_recording *first, *clear; /* totals = gradients; totals = 0 */
} rf_update_replica;

/* What is exchanged and updated in one go. */
typedef struct rf_update_part {
    const rf_piece *pieces;
    uint32_t num_pieces;
    struct rf_update_part_replica *replicas; /* [num_local] */
} rf_update_part;

typedef struct rf_update_part_replica {
    rf_program *apply;                                                         /* NULL: it owns nothing of the part */
    rf_gpu_recording *gradients_down, *gradients_up, *values_down, *values_up; /* staging */
} rf_update_part_replica;

/* What stands behind a STATE slot of a graph. Exactly one is set. */
typedef struct rf_state_ref {
    rf_variable *variable;
    rf_local_state *local;
} rf_state_ref;

enum { RF_HOST_RANDOM, RF_HOST_GLOBAL_BATCH, RF_HOST_INVERSE_ACTIVE, RF_HOST_COUNT };

/* What a step came to for one kind of input. */
typedef struct rf_signature {
    rf_element_spec spec; /* dim[0] of each component is that of the trace and not part of the signature */
    rf_graph *graph;
    rf_value outputs[RF_MAX_COMPONENTS];
    struct {
        rf_state_ref *items;
        uint32_t count, capacity;
    } states; /* by slot; references */
    struct {
        rf_update *items;
        uint32_t count, capacity;
    } updates;
    rf_value hosts[RF_HOST_COUNT]; /* 0: not used */
    bool overlaps;                 /* gradients are exchanged while the backward pass goes on */
    rf_program **programs;         /* [num_local], made when first needed */
    rf_frame **submission;         /* room for the frames of one replica's submission */
    uint64_t generation;           /* sum over the strategy and the updaters when the programs were made */
    bool prepared;
} rf_signature;

struct rf_trace {
    uint32_t serial;
    const rf_trace_listener *listener; /* NULL: nobody */
    rf_strategy *strategy;
    rf_function *function;
    rf_signature *signature;
    rf_result status;
    rf_error_record error;
    uint32_t streams;
};

/* Result of one replica: in the frame as long as that lives, else in `copy`. */
typedef struct rf_replica_value {
    rf_frame *frame;
    rf_exec *exec;
    uint64_t ticket;
    rf_tensor_desc desc;
    void *copy;
} rf_replica_value;
struct rf_per_replica {
    rf_function *function; /* not a counted reference: the function owns this */
    uint32_t output;
    rf_replica_value *values; /* [num_local] */
    uint32_t *examples;       /* [num_replicas] */
};

struct rf_function {
    uint32_t references;
    rf_strategy *strategy;
    rf_function_params params;
    char *name;
    uint64_t step; /* runs so far, counted when training */
    uint32_t num_traces;
    struct {
        rf_signature **items;
        uint32_t count, capacity;
    } signatures;
    rf_per_replica results[2][RF_MAX_COMPONENTS];
    uint32_t parity;    /* which half the next run fills */
    uint32_t *examples; /* [num_replicas], of the run being made */
    rf_frame **frames;  /* [num_local] */
};

/* ---- strategy.c ---- */
rf_strategy *rf_strategy_retain(rf_strategy *strategy);
void rf_strategy_release(rf_strategy *strategy);
/* For everything submitted, and for a copy of the state that is being made: afterwards the host may change what it
 * wants. A failure sticks. */
rf_result rf_strategy_wait(rf_strategy *strategy);
rf_result rf_strategy_wait_local(rf_strategy *strategy, uint32_t index);
rf_result rf_strategy_status(rf_strategy *strategy); /* the failure that stuck, or the job's */
/* Makes the calling thread's failure stick: replicas may differ from now on. Ends the job, so that no other worker
 * waits for this one. Returns `result`. */
rf_result rf_strategy_stick(rf_strategy *strategy, rf_result result);
/* The same for a failure that all workers see. */
rf_result rf_strategy_stick_shared(rf_strategy *strategy, rf_result result);
/* A failure that leaves everything as it was, but at a place where the other workers go on and would wait for this one:
 * sticks where there are others. Returns `result`. */
rf_result rf_strategy_stick_in_job(rf_strategy *strategy, rf_result result);
/* Puts replica and device in front of a failure's message. */
rf_result rf_replica_context(const rf_strategy *strategy, uint32_t index, rf_result result);
/* The place in this worker's arrays; an error that says which are here where it is another worker's. */
rf_result rf_strategy_local_index(const rf_strategy *strategy, const char *caller, uint32_t replica, uint32_t *index);
static inline bool rf_strategy_is_local(const rf_strategy *s, uint32_t replica)
{
    return replica >= s->first && replica - s->first < s->num_local;
}
/* Submits and remembers the ticket. */
rf_result rf_replica_submit_frames(rf_replica *replica, rf_frame *const *frames, uint32_t count);
rf_result rf_replica_submit_recordings(rf_replica *replica, rf_gpu_recording *const *recs, uint32_t count);

/* ---- state_copy.c ---- */
rf_result rf_copying_init(rf_copying *copying);
void rf_copying_free(rf_copying *copying);
/* Whether trainable variables and slots must not change yet. */
bool rf_strategy_is_copied(rf_strategy *strategy);
/* Until they may; before every update that is submitted. */
rf_result rf_strategy_await_copy(rf_strategy *strategy);

/* ---- agree.c ---- */
/* Device limits, kinds and settings of all workers. Fills in num_replicas, first, identities, shares, alignment,
 * max_piece. */
rf_result rf_strategy_agree(rf_strategy *strategy, const rf_mirrored_params *params);

/* ---- report.c ---- */
/* What a worker is about to run. */
typedef struct rf_step_intent {
    const char *function;
    uint64_t number;          /* runs of the function before */
    uint64_t examples;        /* of all workers */
    uint64_t first_row, rows; /* those that this worker computes */
    uint32_t *counts; /* [num_replicas] as planned; becomes what the workers, from the rows they hold, will compute */
    bool again;       /* out: counts have to change, for want of memory: prepare anew */
} rf_step_intent;
/* Tells the other workers that this one is ready (`prepared` >= 0) or failed, hears the same from them, and agrees on
 * stop requests. Fails where any worker did, and where they are not about to run the same. Shares may move: for the
 * next run. */
rf_result rf_strategy_report(rf_strategy *strategy, rf_step_intent *step, rf_result prepared);

/* ---- check.c ---- */
/* Compares the replicas where it is time to; before every step that updates. */
rf_result rf_strategy_check_if_due(rf_strategy *strategy);

/* ---- flat.c ---- */
/* Makes room for `capacity` elements, keeping the first `used`. Nothing may be in flight. */
rf_result rf_flat_grow(rf_strategy *strategy, rf_flat *flat, uint64_t capacity, uint64_t used);
void rf_flat_free(const rf_strategy *strategy, rf_flat *flat);
rf_result rf_flat_read(const rf_flat *flat, uint32_t index, uint64_t offset, uint64_t count, float *values);
rf_result rf_flat_write(const rf_flat *flat, uint32_t index, uint64_t offset, uint64_t count, const float *values);
static inline float *rf_flat_mapped(const rf_flat *flat, uint32_t index)
{
    return flat->buffers ? rf_gpu_buffer_mapped(flat->buffers[index]) : NULL;
}
/* Staging arrays for the exchange, on staged replicas of several. */
rf_result rf_staging_ensure(rf_strategy *strategy);

/* ---- variables.c ---- */
static inline rf_store *rf_variable_store(const rf_variable *v)
{
    return v->trainable ? &v->strategy->trainable : &v->strategy->fixed;
}
/* Elements that a variable takes in its store, padding included. */
static inline rf_range rf_variable_span(const rf_variable *v)
{
    return (rf_range){ v->offset, v->offset + rf_align_up(v->count, v->strategy->alignment) };
}
void rf_variables_sort(rf_variable **variables, uint32_t count); /* by offset */

/* ---- local_state.c, updater.c ---- */
rf_local_state *rf_local_state_retain(rf_local_state *state);
void rf_local_state_release(rf_local_state *state);
rf_updater *rf_updater_retain(rf_updater *updater);
void rf_updater_release(rf_updater *updater);
/* Room for accumulated gradients where they are needed. */
rf_result rf_updater_ensure_totals(rf_updater *updater);
/* The array that gradients are summed in and read from. */
static inline rf_flat *rf_updater_gradients(rf_updater *u)
{
    return u->params.accumulation_steps > 1 ? &u->totals : &u->strategy->gradients;
}

/* ---- update_build.c ---- */
rf_result rf_update_prepare(rf_update *update, bool by_bucket);
void rf_update_unprepare(rf_update *update);
void rf_update_free(rf_update *update);

/* ---- turns.c ---- */
typedef struct rf_turns rf_turns;
/* Whether a signature's updates should be prepared by bucket, so that gradients are exchanged while the backward pass
 * goes on. */
bool rf_overlap_wanted(const rf_strategy *strategy, const rf_signature *signature);
/* After rf_update_prepare(). */
rf_result rf_turns_create(const rf_signature *signature, rf_update *update, bool by_bucket);
void rf_turns_free(rf_turns **turns);
/* Stage A has to be submitted in parts, by rf_update_run(). */
bool rf_turns_overlap(const rf_turns *turns);
/* Part of the run in which the gradient of the update's variable i is placed. */
uint32_t rf_turns_part(const rf_turns *turns, uint32_t variable);

/* ---- update_run.c ---- */
/* Frames that belong to the same submission as the replica's stage A, appended to frames[*count]. */
rf_result rf_update_join_submission(rf_update *update, uint32_t index, rf_frame **frames, uint32_t *count);
/* Everything after stage A was submitted on all replicas; on those with examples[r] == 0 it was not. Where it has to be
 * submitted in parts, it is submitted here: frames[r] hold their inputs (NULL where examples[r] is 0). Both are those
 * of this worker's replicas. */
rf_result rf_update_run(rf_update *update, rf_frame *const *frames, const uint32_t *examples);
static inline rf_result rf_replica_submit_one(rf_replica *replica, rf_gpu_recording *rec)
{
    return rec ? rf_replica_submit_recordings(replica, &rec, 1) : RF_OK;
}
/* Host addresses for the exchange: device memory itself where it is mapped, else staging. */
static inline float *rf_replica_reachable(const rf_strategy *s, uint32_t index, const rf_flat *flat,
                                          const rf_flat *staging)
{
    return rf_flat_mapped(s->replicas[index].staged ? staging : flat, index);
}
/* Most frames that one update adds to a submission. */
#define RF_UPDATE_FRAMES 2

/* ---- norms.c ---- */
/* Takes the norms of reduced gradients: update->squares. Waits. */
rf_result rf_update_reduce_norms(rf_update *update);

/* ---- exchange_stats.c ---- */
/* Around what exchanges gradients and values in a step. */
typedef struct rf_exchange_mark {
    double host_seconds, comm_seconds;
    uint64_t bytes;
} rf_exchange_mark;
rf_exchange_mark rf_exchange_mark_now(const rf_strategy *strategy);
/* Adds what was exchanged since the mark. `exposed`: seconds that no device had work meanwhile. */
void rf_exchange_count(rf_strategy *strategy, const rf_exchange_mark *mark, double exposed);

/* ---- trace.c ---- */
rf_result rf_trace_run(rf_function *function, rf_signature *signature);

/* ---- signature.c ---- */
rf_result rf_signature_find(rf_function *function, const rf_element *batch, uint32_t traced_batch, rf_signature **out);
/* Brings the signature up to date with arrays that have moved. */
rf_result rf_signature_prepare(rf_function *function, rf_signature *signature);
/* The replica's program, made at first use. */
rf_result rf_signature_program(rf_function *function, rf_signature *signature, uint32_t index, rf_program **out);
void rf_signature_free(rf_signature *signature, uint32_t num_local);

/* ---- per_replica.c ---- */
/* Moves results out of their frames, before those go. */
rf_result rf_per_replica_detach(rf_per_replica *value);
void rf_per_replica_free(rf_per_replica *value, uint32_t num_local);

#endif
