/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The strategy object, on which all rooms work.
 *
 * Replicas are numbered over all workers of a job, in order of rank; plans, owners and messages use these numbers.
 * Arrays here hold this worker's replicas only and are indexed from 0: entry r is replica `first + r`.
 *
 * Ownership: objects are counted. The strategy's inside lives until the last of its children is gone, so destroying in
 * the wrong order is harmless; its maker leaves the job by destroying it, though. A function's signatures hold the
 * variables, updaters and local states that they use; an updater holds its variables; variables, updaters, local states
 * and functions hold the strategy.
 */
#ifndef RF_REPLICA_INTERNAL_H
#define RF_REPLICA_INTERNAL_H

#include <stdatomic.h>

#include "exec/exec.h"
#include "replica/balance/balancing.h"
#include "replica/exchange/exchange.h"
#include "replica/exchange/imported_memory.h"
#include "replica/store/copying.h"
#include "replica/store/weight_copies_16bit.h"
#include "replica/strategy.h"
#include "replica/world.h"

typedef struct rf_replica {
    rf_gpu_device *device;
    rf_exec *exec;
    uint64_t ticket; /* of the last submission */
    bool staged;     /* the host reaches device memory only through copies */
} rf_replica;

/* The identity of a replica is known on all workers. */
typedef struct rf_replica_identity {
    char name[256], driver_name[256]; /* as in rf_device_info */
    uint32_t driver_version;
} rf_replica_identity;

/* Who computes. */
typedef struct rf_strategy_members {
    rf_replica *replicas;            /* of this worker */
    uint32_t num_local;              /* of this worker */
    uint32_t num_replicas;           /* of all workers */
    uint32_t first;                  /* number of replicas[0] */
    rf_replica_identity *identities; /* [num_replicas] */
    rf_world world;
    double *shares; /* [num_replicas], as given; NULL: equal */
    rf_balancing balancing;
    bool shares_cpus; /* more than one device or worker computes on this host's processors */
} rf_strategy_members;

/* State that replicas keep. */
typedef struct rf_strategy_store {
    rf_store trainable, fixed; /* fixed: variables that no optimizer may touch */
    rf_store aside;            /* trainable ones while they are frozen (rf_variables_set_aside()) */
    rf_flat gradients;         /* places as in `trainable`; empty until it `trains` */
    bool trains;               /* there has been an updater */
    rf_weight_copies weight_copies;
    rf_flat assigned;       /* what a step gives to variables of `fixed`; places as there */
    rf_flat summands, sums; /* of sums over replicas within a step: what a replica adds, and the sums */
    uint64_t alignment;     /* of variables in their store, in elements */
    uint64_t max_segment;
    uint64_t generation; /* raised when arrays move: programs made before must be made anew */
    uint64_t variables_created;
    const rf_variable_source *source; /* of the values of new variables; NULL: their initializers */
    rf_quantize_rules quantize;       /* of new weights of products */
    rf_copying copying;
} rf_strategy_store;

/* How values travel between them. Staging has the places of what it is for, on staged replicas of several. */
typedef struct rf_strategy_exchange {
    rf_exchange between;
    rf_staging trained;          /* of `gradients` and `trainable` */
    rf_staging fixed;            /* of `assigned` and `fixed` */
    rf_staging summed;           /* of `summands` and `sums` */
    rf_imported_memory imported; /* instead of staging, where devices can; `gradients` and `trainable` */
    bool overlap;                /* exchange gradients while the backward pass goes on */
    uint64_t bucket_elements;    /* as asked for; 0: see rf_bucket_size() */
    rf_exchange_compression compression;
    rf_exchange_stats stats;
} rf_strategy_exchange;

/* Whether they are still copies of each other. */
typedef struct rf_strategy_health {
    bool failed; /* a wait failed: replicas may differ, every later step reports it */
    rf_error_record failure;
    atomic_bool stop_requested; /* set by signal handlers */
    bool stop_agreed;
    uint32_t check_interval;    /* updates between comparisons of the replicas */
    uint32_t updates_to_check;  /* left until the next one */
    uint64_t variables_checked; /* `variables_created` at the latest one */
    uint32_t perturbed;         /* replica whose learning rate is wrong, for tests; UINT32_MAX: none */
} rf_strategy_health;

/* Where it tells what happens. */
typedef struct rf_strategy_status_place {
    struct rf_status_board *board; /* NULL: nobody wants to know */
    char *key_file;                /* as the program named it; NULL: it did not */
    bool insecure;
} rf_strategy_status_place;

struct rf_strategy {
    uint32_t references;
    int64_t process; /* that made it */
    rf_gpu *gpu;
    rf_strategy_members members;
    rf_strategy_store store;
    rf_strategy_exchange exchange;
    rf_strategy_health health;
    rf_update_mode update_mode;
    bool central; /* replica 0 owns all variables, the others have copies */
    bool remote;  /* parameter servers hold the variables, and this is a worker of theirs */
    uint64_t seed;
    rf_dtype compute; /* RF_DTYPE_INVALID: f32 */
    bool wide;        /* layers compute in f32 all the same */
    uint32_t trace_serial;
    bool warned_of_shares;
    rf_strategy_status_place status;
};

/* One that has no replicas yet. */
rf_strategy *rf_strategy_allocate(void);
rf_strategy *rf_strategy_retain(rf_strategy *strategy);
void rf_strategy_release(rf_strategy *strategy);
/* Waits for everything submitted, and for a copy of the state that is being made: afterwards the host may change any
 * state. A failure sticks. */
rf_result rf_strategy_wait(rf_strategy *strategy);
rf_result rf_strategy_wait_local(rf_strategy *strategy, uint32_t index);
/* Waits for one submission; 0: for none. The failure does not stick. */
rf_result rf_replica_wait(const rf_strategy *strategy, uint32_t index, uint64_t ticket);
rf_result rf_strategy_status(rf_strategy *strategy); /* the failure that stuck, or the job's */
/* Makes the calling thread's failure stick: replicas may differ from now on. Ends the job, so that no other worker
 * waits for this one. Returns `result`. */
rf_result rf_strategy_fail(rf_strategy *strategy, rf_result result);
/* The same for a failure that all workers see. */
rf_result rf_strategy_fail_shared(rf_strategy *strategy, rf_result result);
/* The index into this worker's arrays. Fails, naming the replicas of this worker, where the replica is another
 * worker's. */
rf_result rf_strategy_local_index(const rf_strategy *strategy, const char *caller, uint32_t replica, uint32_t *index);
static inline bool rf_strategy_is_local(const rf_strategy *s, uint32_t replica)
{
    return replica >= s->members.first && replica - s->members.first < s->members.num_local;
}
static inline bool rf_segment_is_owned(const rf_strategy *s, const rf_segment *segment, uint32_t index)
{
    return segment->owner == s->members.first + index || segment->owner == RF_OWNER_ALL;
}
/* Submits and remembers the ticket. */
rf_result rf_replica_submit_frames(rf_replica *replica, rf_frame *const *frames, uint32_t count);
rf_result rf_replica_submit_one(rf_replica *replica, rf_gpu_recording *rec); /* NULL: nothing */
/* ---- status.c ---- */
/* For a board: what the program says of the job's key. */
rf_result rf_strategy_keep_key(rf_strategy *strategy, const rf_comm_params *comm);
/* When something is about to train: opens the board that RINGFIRE_STATUS asks for, on the chief. */
rf_result rf_strategy_open_status(rf_strategy *strategy);
void rf_strategy_close_status(rf_strategy *strategy);
/* A step of training was submitted, with the examples of each replica. */
void rf_strategy_note_step(rf_strategy *strategy, const uint32_t *examples);
/* ---- agree.c ---- */
/* Device limits, kinds and settings of all workers. Fills in num_replicas, first, identities, shares, alignment,
 * max_segment. */
rf_result rf_strategy_agree(rf_strategy *strategy, const rf_mirrored_params *params);

#endif
