/* SPDX-License-Identifier: Apache-2.0 */
/* A function for one kind of input: its trace and its programs. */
#ifndef RF_STEP_SIGNATURE_H
#define RF_STEP_SIGNATURE_H

#include "exec/exec.h"
#include "replica/agree.h"
#include "replica/store/variables.h"
#include "replica/update/assign.h"
#include "replica/update/update.h"
#include "step/step.h"
#include "step/sums.h"

/* A step for one kind of input, traced and compiled. */
typedef struct rf_signature {
    rf_element_spec spec; /* dim[0] of each component is that of the trace and not part of the signature */
    bool alone;           /* but for this: traced with one example, it is for such runs only */
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
    rf_assignments assignments;
    rf_step_sums sums;
    uint32_t unit;    /* consecutive examples of the batch that stay together: each replica's are a multiple */
    char unit_of[64]; /* what wants that, for messages */
    rf_value hosts[RF_HOST_COUNT];        /* 0: not used */
    rf_lookup lookups[RF_MAX_COMPONENTS]; /* of each component of the batch */
    bool reads_weight_copies;             /* of variables; see weight_copies_16bit.h */
    rf_stage_state refresh;               /* due: they are made anew */
    bool overlaps;                        /* gradients are exchanged while the backward pass goes on */
    rf_program **programs;                /* [num_local], made when first needed */
    rf_step_schedule schedule;            /* what a run does, once it is prepared */
    uint64_t generation;                  /* sum over the strategy and the updaters when the programs were made */
    bool prepared;
} rf_signature;

/* `examples`: the most that a replica has in the run. */
rf_result rf_signature_find(rf_function *function, const rf_element *batch, uint32_t examples, rf_signature **out);
/* Returns that failure. A message about a shape is understood where it shows that of the batch that was passed: the
 * step is traced with it once more. Where that is no mistake the message says what its shapes are. */
rf_result rf_signature_explain(rf_function *function, const rf_element *batch, uint32_t traced_batch,
                               uint32_t whole_batch, rf_result failure);
/* How a run is planned, once the updaters know their variables: what updates are made of, then the stages of all.
 * `sums`: those of the program of a replica, all of which have the same. Neither touches a device. */
rf_result rf_signature_prepare_updates(rf_function *function, rf_signature *signature);
rf_result rf_signature_append_stages(rf_signature *signature, const rf_program_sum *sums, uint32_t num_sums);
/* Brings the signature up to date with arrays that have moved: plans it anew, and builds what the plan needs. */
rf_result rf_signature_prepare(rf_function *function, rf_signature *signature);
/* The replica's program, made at first use. */
rf_result rf_signature_program(rf_function *function, rf_signature *signature, uint32_t index, rf_program **out);
void rf_signature_free(rf_signature *signature, uint32_t num_local);
/* ---- refresh.c ---- */
rf_result rf_signature_append_refresh(rf_signature *signature);

/* ---- report.c ---- */
/* The run that a worker is about to make. */
typedef struct rf_step_intent {
    rf_step_report mine;           /* of what the others are told, all but `result`, `stop` and `settings` */
    uint32_t unit;                 /* of which `counts` are multiples: examples that stay together */
    const rf_signature *signature; /* NULL: none yet */
    uint32_t *counts; /* [num_replicas] as planned; becomes what the workers, from the rows they hold, will compute */
    bool again;       /* out: counts have to change because memory is short: prepare anew */
} rf_step_intent;
/* Tells the other workers that this one is ready (`prepared` >= 0) or failed, hears the same from them, and agrees on
 * stop requests. Fails where any worker failed, and where the workers are not about to run the same step. May move
 * shares, for the next run. */
rf_result rf_strategy_report(rf_strategy *strategy, rf_step_intent *step, rf_result prepared);

#endif
